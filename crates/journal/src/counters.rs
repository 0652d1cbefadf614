//! What the journal did, counted. Lacks rates and clocks. Invariant: counts only grow.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

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
    /// Batches by how many records they had: see [`BATCH_RECORDS_BOUNDS`].
    pub batch_records: [u64; 8],
    /// Batches by how long writing and syncing them took: see [`COMMIT_BOUNDS_US`].
    pub commit_time: [u64; 8],
    /// Microseconds that writing and syncing batches took together.
    pub commit_us: u64,
    /// Segments prepared, new or recycled.
    pub segments_prepared: u64,
    /// Segments that died and were set free.
    pub segments_recycled: u64,
    /// Bytes of zeros written for new segments and for reserves.
    pub zero_bytes: u64,
    /// Checkpoints installed.
    pub checkpoints: u64,
    /// Bytes of their payloads.
    pub checkpoint_bytes: u64,
    /// Files that records were evacuated from, the last of them.
    pub segments_evacuated: u64,
    /// Cold files written.
    pub cold_files: u64,
    /// Records evacuated.
    pub records_evacuated: u64,
    /// Bytes written to evacuate them.
    pub evacuation_bytes: u64,
    /// Records read back.
    pub reads: u64,
    /// Bytes read for them.
    pub read_bytes: u64,
    /// References that were given back to records which had none, or added to such: a bug of the
    /// owner.
    pub released_unknown: u64,
}

/// Records of a batch up to which it counts in each place of [`Counters::batch_records`]; the
/// last has no bound.
pub const BATCH_RECORDS_BOUNDS: [u64; 7] = [1, 4, 16, 64, 256, 1024, 4096];

/// As [`BATCH_RECORDS_BOUNDS`], in microseconds, for [`Counters::commit_time`].
pub const COMMIT_BOUNDS_US: [u64; 7] = [100, 300, 1000, 3000, 10_000, 100_000, 1_000_000];

#[derive(Debug, Default)]
pub(crate) struct Counts {
    syncs: AtomicU64,
    batches: AtomicU64,
    records: AtomicU64,
    bytes: AtomicU64,
    batch_records_max: AtomicU64,
    batch_bytes_max: AtomicU64,
    batch_records: [AtomicU64; 8],
    commit_time: [AtomicU64; 8],
    commit_us: AtomicU64,
    segments_prepared: AtomicU64,
    segments_recycled: AtomicU64,
    zero_bytes: AtomicU64,
    checkpoints: AtomicU64,
    checkpoint_bytes: AtomicU64,
    segments_evacuated: AtomicU64,
    cold_files: AtomicU64,
    records_evacuated: AtomicU64,
    evacuation_bytes: AtomicU64,
    reads: AtomicU64,
    read_bytes: AtomicU64,
    released_unknown: AtomicU64,
}

impl Counts {
    pub(crate) fn batch(&self, records: u64, bytes: u64, took: Duration) {
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        add(&self.syncs, 1);
        add(&self.batches, 1);
        add(&self.records, records);
        add(&self.bytes, bytes);
        add(&self.commit_us, took_us);
        count_in(&self.batch_records, &BATCH_RECORDS_BOUNDS, records);
        count_in(&self.commit_time, &COMMIT_BOUNDS_US, took_us);
        self.batch_records_max.fetch_max(records, Ordering::Relaxed);
        self.batch_bytes_max.fetch_max(bytes, Ordering::Relaxed);
    }

    pub(crate) fn prepared(&self) {
        add(&self.segments_prepared, 1);
    }

    pub(crate) fn recycled(&self) {
        add(&self.segments_recycled, 1);
    }

    pub(crate) fn zeroed(&self, bytes: u64) {
        add(&self.zero_bytes, bytes);
    }

    pub(crate) fn checkpoint(&self, bytes: u64) {
        add(&self.checkpoints, 1);
        add(&self.checkpoint_bytes, bytes);
    }

    /// A cold file was written.
    pub(crate) fn evacuated(&self, records: u64, bytes: u64) {
        add(&self.cold_files, 1);
        add(&self.records_evacuated, records);
        add(&self.evacuation_bytes, bytes);
    }

    pub(crate) fn segments_evacuated(&self, files: u64) {
        add(&self.segments_evacuated, files);
    }

    pub(crate) fn read_group(&self, records: u64, bytes: u64) {
        add(&self.reads, records);
        add(&self.read_bytes, bytes);
    }

    pub(crate) fn released_unknown(&self, references: u64) {
        add(&self.released_unknown, references);
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
            batch_records: self.batch_records.each_ref().map(load),
            commit_time: self.commit_time.each_ref().map(load),
            commit_us: load(&self.commit_us),
            segments_prepared: load(&self.segments_prepared),
            segments_recycled: load(&self.segments_recycled),
            zero_bytes: load(&self.zero_bytes),
            checkpoints: load(&self.checkpoints),
            checkpoint_bytes: load(&self.checkpoint_bytes),
            segments_evacuated: load(&self.segments_evacuated),
            cold_files: load(&self.cold_files),
            records_evacuated: load(&self.records_evacuated),
            evacuation_bytes: load(&self.evacuation_bytes),
            reads: load(&self.reads),
            read_bytes: load(&self.read_bytes),
            released_unknown: load(&self.released_unknown),
        }
    }
}

fn add(count: &AtomicU64, more: u64) {
    count.fetch_add(more, Ordering::Relaxed);
}

fn count_in(counts: &[AtomicU64; 8], bounds: &[u64; 7], value: u64) {
    let place = bounds.partition_point(|bound| *bound < value);
    if let Some(count) = counts.get(place) {
        add(count, 1);
    }
}
