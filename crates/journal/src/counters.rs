//! What the writer did, counted. Lacks rates and clocks. Invariant: counts only grow.

use std::sync::atomic::{AtomicU64, Ordering};

/// A reading of the journal's counters since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Syncs of segments that returned.
    pub syncs: u64,
    /// Batches committed.
    pub batches: u64,
    /// Records committed.
    pub records: u64,
    /// Bytes written into segments, with headers and padding.
    pub bytes: u64,
    /// The most records in one batch.
    pub batch_records_max: u64,
    /// The longest batch in bytes.
    pub batch_bytes_max: u64,
    /// Segments prepared, new or recycled.
    pub segments_prepared: u64,
    /// Segments that died and were set free.
    pub segments_recycled: u64,
    /// Checkpoints installed.
    pub checkpoints: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counts {
    syncs: AtomicU64,
    batches: AtomicU64,
    records: AtomicU64,
    bytes: AtomicU64,
    batch_records_max: AtomicU64,
    batch_bytes_max: AtomicU64,
    segments_prepared: AtomicU64,
    segments_recycled: AtomicU64,
    checkpoints: AtomicU64,
}

impl Counts {
    pub(crate) fn batch(&self, records: u64, bytes: u64) {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.batches.fetch_add(1, Ordering::Relaxed);
        self.records.fetch_add(records, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.batch_records_max.fetch_max(records, Ordering::Relaxed);
        self.batch_bytes_max.fetch_max(bytes, Ordering::Relaxed);
    }

    pub(crate) fn prepared(&self) {
        self.segments_prepared.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn recycled(&self) {
        self.segments_recycled.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn checkpoint(&self) {
        self.checkpoints.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> Counters {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counters {
            syncs: load(&self.syncs),
            batches: load(&self.batches),
            records: load(&self.records),
            bytes: load(&self.bytes),
            batch_records_max: load(&self.batch_records_max),
            batch_bytes_max: load(&self.batch_bytes_max),
            segments_prepared: load(&self.segments_prepared),
            segments_recycled: load(&self.segments_recycled),
            checkpoints: load(&self.checkpoints),
        }
    }
}
