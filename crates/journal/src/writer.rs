//! The group commit: swap the backlog, write it, sync it, say so.
//!
//! Lacks retries: the first failed write or sync ends the journal, because after it nobody knows
//! what is on disk. Invariant: one unsynced batch at a time. The next is not written, in this
//! segment or another, before the sync of the one before returned.
//!
//! ```text
//! lock order: writer → flight → pending; directory alone
//! a record is at any time in pending, in flight or in the directory, and moves only that way
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use menzil_model::ShardId;

use crate::batch;
use crate::disk::{Disk, DiskFile};
use crate::error::StorageError;
use crate::flight::{Cursor, Cut, Target};
use crate::journal::{Journal, locked, reading, writing};
use crate::layout::{SECTOR, sectors};
use crate::options::Options;
use crate::releases::Release;
use crate::segment::{self, Segment};

/// What one group commit made durable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commit {
    /// The new `committed` of every shard that had records in it.
    pub shards: BTreeMap<ShardId, u64>,
    /// How many records.
    pub records: u64,
    /// How many of them somebody waits for.
    pub awaited: u64,
    /// Bytes written, headers and padding included.
    pub bytes: u64,
}

/// Where the log grows.
#[derive(Debug)]
pub(crate) struct Writer<F> {
    pub(crate) active: Option<Active<F>>,
    /// Number of the next batch.
    pub(crate) number: u64,
    /// The segment of the batch before, 0 for none.
    pub(crate) previous: u64,
    pub(crate) cut: Cut,
}

/// The segment that takes the next batch.
#[derive(Debug)]
pub(crate) struct Active<F> {
    pub(crate) segment: Segment<F>,
    pub(crate) offset: u64,
}

impl<F> Active<F> {
    fn target(&self) -> Target {
        Target {
            segment: self.segment.id,
            salt: self.segment.salt,
            offset: self.offset,
            room: self.left(),
        }
    }

    pub(crate) fn left(&self) -> u64 {
        self.segment.length.saturating_sub(self.offset)
    }

    /// Whether it is the short segment, or one of a time when segments were shorter.
    pub(crate) fn is_short(&self, options: &Options) -> bool {
        self.segment.length < options.segment_bytes
    }
}

/// What was pending.
struct Taken {
    /// There are records, which are in flight now.
    records: bool,
    /// How many of them somebody waits for.
    awaited: u64,
    /// What was released with them.
    releases: Vec<Release>,
}

impl<D: Disk> Journal<D> {
    /// One group commit on the calling thread: everything appended so far, lazy records too.
    /// `None` if there was nothing. Without a preparing thread it also prepares what is missing.
    pub fn step(&self) -> Result<Option<Commit>, StorageError> {
        let mut writer = locked(&self.writer);
        self.check()?;
        let commit = self.commit(&mut writer).map_err(|error| self.fail(error))?;
        drop(writer);
        if !self.preparer.background.load(Ordering::Acquire) {
            self.prepare()?;
        }
        Ok(commit)
    }

    /// Commits what is pending, marks the end of the log and closes the journal: what is
    /// appended after this is never committed. A log that ends with the mark cannot be taken
    /// for torn, so damage in its last batch is told apart from a crash.
    pub fn finish(&self) -> Result<(), StorageError> {
        let mut writer = locked(&self.writer);
        self.check()?;
        locked(&self.pending).closed = true;
        self.commit(&mut writer).map_err(|error| self.fail(error))?;
        self.mark(&mut writer).map_err(|error| self.fail(error))?;
        self.fail(StorageError::Closed);
        Ok(())
    }

    /// Writes an empty batch after the last, if there is one and it has room.
    pub(crate) fn mark(&self, writer: &mut Writer<D::File>) -> Result<(), StorageError> {
        let Some(active) = &writer.active else {
            return Ok(());
        };
        let target = active.target();
        if writer.previous == 0 || target.room < SECTOR {
            return Ok(());
        }
        writer.cut = Cut::empty();
        self.write_batch(writer, target)
    }

    fn commit(&self, writer: &mut Writer<D::File>) -> Result<Option<Commit>, StorageError> {
        if self.room.is_short() && self.has_prepared() {
            // What is left of the short segment is for the next time.
            self.roll(writer, 0)?;
        }
        let Taken {
            records,
            awaited,
            releases,
        } = self.take_pending()?;
        if !records {
            self.count_releases(&releases);
            return Ok(None);
        }
        let mut commit = Commit {
            awaited,
            ..Commit::default()
        };
        let mut cursor = Cursor::default();
        loop {
            let target = match &writer.active {
                Some(active) => active.target(),
                None => self.roll(writer, 0)?,
            };
            writer
                .cut
                .take(&mut writing(&self.flight), &mut cursor, target);
            if writer.cut.records > 0 {
                self.write_batch(writer, target)?;
                self.publish(&writer.cut, &mut commit);
            }
            if writer.cut.left_out == 0 {
                break;
            }
            self.roll(writer, writer.cut.left_out)?;
        }
        let mut flight = writing(&self.flight);
        self.room.written(flight.bytes());
        flight.clear();
        drop(flight);
        self.count_releases(&releases);
        Ok(Some(commit))
    }

    /// Counts what is needed no more; the records are in the directory.
    pub(crate) fn count_releases(&self, releases: &[Release]) {
        if !releases.is_empty() {
            let unknown = writing(&self.directory).release(releases);
            self.counts.released_unknown(unknown);
        }
    }

    /// Moves the backlog into flight.
    fn take_pending(&self) -> Result<Taken, StorageError> {
        let mut flight = writing(&self.flight);
        let mut pending = locked(&self.pending);
        if pending.backlog.is_broken() {
            return Err(StorageError::Encoder);
        }
        pending.pressed = false;
        let taken = Taken {
            records: !pending.backlog.is_empty(),
            awaited: std::mem::take(&mut pending.awaited),
            releases: pending.releases.take(),
        };
        if taken.records {
            std::mem::swap(&mut pending.backlog, &mut *flight);
        }
        Ok(taken)
    }

    fn write_batch(
        &self,
        writer: &mut Writer<D::File>,
        target: Target,
    ) -> Result<(), StorageError> {
        let Writer {
            active: Some(active),
            number,
            previous,
            cut,
        } = writer
        else {
            return Err(StorageError::Full);
        };
        let Segment {
            id: segment,
            ref file,
            ..
        } = active.segment;
        let header = cut.header(target, *number, *previous).encode();
        let flight = reading(&self.flight);
        let slices = cut.io_slices(&header, &flight, target.offset, file.padding());
        let start = Instant::now();
        file.write_sectors_at(&slices, target.offset)
            .map_err(|error| StorageError::Write {
                segment,
                offset: target.offset,
                error: Arc::new(error),
            })?;
        drop(slices);
        drop(flight);
        let error = |error| StorageError::Sync {
            segment,
            error: Arc::new(error),
        };
        file.sync_data().map_err(error)?;
        let before = active.left();
        active.offset += sectors(cut.length);
        writing(&self.directory).commit(
            &active.segment,
            cut.runs(),
            *number,
            *previous,
            active.offset,
        );
        *number += 1;
        *previous = segment;
        self.has_left(active, before);
        self.counts
            .batch(u64::from(cut.records), sectors(cut.length), start.elapsed());
        Ok(())
    }

    /// Advances the committed marks over the records of a batch whose sync returned.
    fn publish(&self, cut: &Cut, commit: &mut Commit) {
        commit.records += u64::from(cut.records);
        commit.bytes += sectors(cut.length);
        for (shard, run) in cut.runs() {
            self.marks.of(shard).commit(run.last);
            commit.shards.insert(shard, run.last);
        }
    }

    /// Goes on in the next segment, which has room for a record of that size.
    pub(crate) fn roll(
        &self,
        writer: &mut Writer<D::File>,
        size: u64,
    ) -> Result<Target, StorageError> {
        let length = segment::HEADER_BYTES + sectors(batch::HEADER_BYTES + size);
        let next = self.take_prepared(length)?;
        let active = Active {
            segment: next,
            offset: segment::HEADER_BYTES,
        };
        let target = active.target();
        self.room
            .set_active(active.left(), active.is_short(&self.options));
        match writer.active.replace(active) {
            Some(old) if old.offset > segment::HEADER_BYTES => {
                writing(&self.directory).seal(old.segment.id);
                self.describe_later(old.segment.id);
            }
            Some(unused) => self.give_back(unused.segment),
            None => {}
        }
        Ok(target)
    }
}
