//! Latencies in buckets whose width is at most 1/64 of their value.
//!
//! Values below 64 ns are exact; above, each power of two is cut into 64 steps. 3,776 buckets hold
//! the whole range of `u64`, so recording never allocates and never fails.

use crate::numbers::{count, length};

const STEP_BITS: u32 = 6;
const STEPS: u64 = 1 << STEP_BITS;
const BUCKETS: usize = 64 * (64 - STEP_BITS as usize + 1);

/// Counts per bucket, with the exact maximum beside.
#[derive(Debug, Clone)]
pub(crate) struct Histogram {
    buckets: Vec<u64>,
    total: u64,
    max: u64,
}

impl Histogram {
    pub(crate) fn new() -> Self {
        Self {
            buckets: vec![0; BUCKETS],
            total: 0,
            max: 0,
        }
    }

    /// Records one value that was met so many times.
    pub(crate) fn record(&mut self, value: u64, times: u64) {
        if let Some(bucket) = self.buckets.get_mut(bucket_of(value)) {
            *bucket += times;
        }
        self.total += times;
        self.max = self.max.max(value);
    }

    pub(crate) fn clear(&mut self) {
        self.buckets.fill(0);
        self.total = 0;
        self.max = 0;
    }

    /// The value that `per_mille` of the recorded ones do not exceed; `None` while empty.
    pub(crate) fn quantile(&self, per_mille: u64) -> Option<u64> {
        let rank = (self.total * per_mille).div_ceil(1000).max(1);
        let mut seen = 0;
        for (index, bucket) in self.buckets.iter().enumerate() {
            seen += bucket;
            if seen >= rank {
                return Some(upper_bound(count(index)).min(self.max));
            }
        }
        None
    }

    pub(crate) fn max(&self) -> Option<u64> {
        (self.total > 0).then_some(self.max)
    }
}

fn bucket_of(value: u64) -> usize {
    if value < STEPS {
        return length(value);
    }
    let shift = value.ilog2() - STEP_BITS;
    length(u64::from(shift) * STEPS + (value >> shift))
}

fn upper_bound(bucket: u64) -> u64 {
    if bucket < STEPS {
        return bucket;
    }
    let shift = bucket / STEPS - 1;
    let step = bucket % STEPS + STEPS;
    let above = u128::from(step + 1) << shift;
    u64::try_from(above - 1).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_within_a_64th_below_its_buckets_upper_bound() {
        let mut value = 1u64;
        loop {
            for near in [value - 1, value, value + value / 3] {
                let above = upper_bound(count(bucket_of(near)));
                assert!(bucket_of(near) < BUCKETS);
                assert!(above >= near && above - near <= near / 64, "{near} {above}");
            }
            let Some(next) = value.checked_mul(2) else {
                break;
            };
            value = next;
        }
        assert!(bucket_of(u64::MAX) < BUCKETS);
        assert_eq!(upper_bound(count(bucket_of(u64::MAX))), u64::MAX);
    }

    #[test]
    fn quantiles_are_those_of_the_recorded_values() {
        let mut histogram = Histogram::new();
        assert_eq!(histogram.quantile(500), None);
        (1..=1000u64).for_each(|value| histogram.record(value * 1000, 1));
        let near = |per_mille, expected: u64| {
            let value = histogram.quantile(per_mille).unwrap();
            assert!(
                value >= expected && value - expected <= expected / 64,
                "{value}"
            );
        };
        near(500, 500_000);
        near(990, 990_000);
        assert_eq!(histogram.quantile(1000), Some(1_000_000));
        assert_eq!(histogram.max(), Some(1_000_000));
        histogram.clear();
        assert_eq!(histogram.max(), None);
    }
}
