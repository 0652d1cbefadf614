//! How large things may get. Invariant: `checked` values can be laid out on disk.

use std::time::Duration;

/// Sizes and delays of a journal.
#[derive(Clone, Debug)]
pub struct Options {
    /// Length of a segment file. A multiple of 4096, at most 2 GiB.
    pub segment_bytes: u64,
    /// The longest payload that may be appended; one over it is a bug of the caller.
    pub record_bytes_max: u64,
    /// How many appended bytes may wait for their commit before [`has_room`] says no.
    ///
    /// [`has_room`]: crate::Journal::has_room
    pub pending_bytes_max: u64,
    /// Segments kept ready ahead of use, the last of which is the reserve. At least 1.
    pub prepared_segments: usize,
    /// Dead segments kept for reuse beyond those prepared; more are removed.
    pub spare_segments_max: usize,
    /// How long a lazily appended record may wait when nothing else is committed.
    pub lazy_delay: Duration,
    /// How many bytes of them may wait so.
    pub lazy_bytes_max: u64,
    /// How often a full disk is tried again.
    pub full_retry: Duration,
    /// Space kept aside so that a checkpoint can be written on a full disk; it grows with the
    /// checkpoints. 0 keeps none.
    pub checkpoint_reserve_bytes: u64,
    /// Space kept aside for a short segment, so that the last prepared one can be used again and
    /// again on a full disk by what sets nothing free. In whole pages, at most half a segment. 0 keeps
    /// none.
    pub log_reserve_bytes: u64,
    /// Space kept aside so that records can be evacuated on a full disk. 0 keeps none.
    pub evacuation_reserve_bytes: u64,
    /// Files of which a smaller share than this many per cent is needed are evacuated. 0 to 90.
    pub evacuate_below_percent: u64,
    /// Segments that were begun since, before one is old enough to be evacuated: what is young
    /// may still die by itself.
    pub evacuate_age_segments: u64,
    /// How many bytes one step of evacuation moves, about.
    pub evacuate_bytes: u64,
    /// How often it is looked for something to evacuate, besides after each checkpoint.
    pub evacuate_every: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            segment_bytes: 64 << 20,
            record_bytes_max: 16 << 20,
            pending_bytes_max: 64 << 20,
            prepared_segments: 2,
            spare_segments_max: 2,
            lazy_delay: Duration::from_millis(50),
            lazy_bytes_max: 64 << 10,
            full_retry: Duration::from_millis(250),
            checkpoint_reserve_bytes: 1 << 20,
            log_reserve_bytes: 0,
            evacuation_reserve_bytes: 0,
            evacuate_below_percent: 50,
            evacuate_age_segments: 2,
            evacuate_bytes: 16 << 20,
            evacuate_every: Duration::from_secs(1),
        }
    }
}

impl Options {
    /// The same with every value inside its bounds.
    pub(crate) fn checked(mut self) -> Self {
        self.segment_bytes = self
            .segment_bytes
            .clamp(4096, SEGMENT_BYTES_MAX)
            .next_multiple_of(4096);
        self.log_reserve_bytes = self
            .log_reserve_bytes
            .next_multiple_of(4096)
            .min(self.segment_bytes / 8192 * 4096);
        self.record_bytes_max = self.record_bytes_max.min(RECORD_BYTES_MAX);
        self.prepared_segments = self.prepared_segments.max(1);
        self.evacuate_below_percent = self.evacuate_below_percent.min(90);
        self.evacuate_bytes = self
            .evacuate_bytes
            .clamp(4096, (self.segment_bytes / 2).max(4096));
        self
    }
}

const SEGMENT_BYTES_MAX: u64 = 2 << 30;
const RECORD_BYTES_MAX: u64 = 1 << 30;
