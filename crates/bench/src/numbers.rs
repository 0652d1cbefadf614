//! The few conversions between counts, times and fractions, kept in one place.

use std::time::Duration;

/// A count as a fraction's part. Counts here stay far below 2^53.
#[expect(
    clippy::cast_precision_loss,
    reason = "figures are shown with three digits"
)]
pub(crate) fn float(count: u64) -> f64 {
    count as f64
}

/// Nanoseconds of a duration; 584 years are more than a run lasts.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A length as a count. `usize` is at most 64 bits wherever this builds.
pub(crate) fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// A count as a length, capped at what the machine can address.
pub(crate) fn length(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// `part` per unit of `whole`, where nothing per nothing is nothing.
pub(crate) fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
