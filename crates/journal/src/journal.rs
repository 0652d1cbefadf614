//! The journal as the rest of the node sees it: append, ask how far it is committed.
//!
//! Lacks everything that happens on disk, which is in `writer`, `preparer`, `recovery`,
//! `checkpoint` and `reader`. Invariant: once it failed, it has failed for ever.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::sync::{RwLockReadGuard, RwLockWriteGuard};

use menzil_model::{Class, Map, Position, ShardId};

use crate::counters::{Counters, Counts};
use crate::directory::{Directory, SegmentUse};
use crate::disk::Disk;
use crate::error::StorageError;
use crate::evacuation::Evacuation;
use crate::marks::{AllMarks, Marks};
use crate::options::Options;
use crate::pending::{Backlog, Kind, Pending};
use crate::preparer::Preparer;
use crate::releases::{Release, Way};
use crate::report::OpenReport;
use crate::space::{Room, Space};
use crate::writer::Writer;

/// The durable log of a node. Shared by reference between all threads.
#[derive(Debug)]
pub struct Journal<D: Disk> {
    pub(crate) disk: D,
    pub(crate) options: Options,
    pub(crate) pending: Mutex<Pending>,
    pub(crate) wake: Condvar,
    pub(crate) flight: RwLock<Backlog>,
    pub(crate) writer: Mutex<Writer<D::File>>,
    pub(crate) directory: RwLock<Directory<D::File>>,
    pub(crate) preparer: Preparer<D::File>,
    pub(crate) evacuation: Evacuation,
    /// Called when what publishers wait for may be there.
    pub(crate) room_hook: OnceLock<RoomHook>,
    /// Dead bytes over what is tolerated.
    pub(crate) debt: AtomicU64,
    /// The newest checkpoint of each shard.
    pub(crate) checkpoints: Mutex<Map<ShardId, u64>>,
    /// Who needs what was in the folder is known.
    pub(crate) needs_known: AtomicBool,
    pub(crate) marks: AllMarks,
    pub(crate) room: Room,
    pub(crate) counts: Counts,
    /// What the owner expects the next checkpoints to take, 0 where it has not said.
    pub(crate) checkpoint_bytes: AtomicU64,
    /// Records committed when it last said so.
    pub(crate) checkpoint_told_at: AtomicU64,
    /// The last word on it.
    pub(crate) checkpoint_told: AtomicU64,
    /// What a record adds to it, as learnt.
    pub(crate) checkpoint_record_bytes: AtomicU64,
    pub(crate) failure: OnceLock<StorageError>,
    pub(crate) report: OpenReport,
    pub(crate) _lock: D::Lock,
}

impl<D: Disk> Journal<D> {
    /// Encodes a record straight into the pending buffer and names it. It is durable once
    /// `committed` of its shard has reached the index. It is kept for as long as no checkpoint
    /// covers it, and then until as many [`release`](Batch::release)s as it has `references`.
    ///
    /// # Panics
    /// If the payload is longer than [`Options::record_bytes_max`], or if `encode` does anything
    /// but append to the buffer, which holds the records of others; the latter ends the journal.
    pub fn append(
        &self,
        shard: ShardId,
        class: Class,
        references: u32,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Position {
        self.batch().append(shard, class, references, encode)
    }

    /// As [`append`](Self::append), for a record nobody waits for: it rides with the next
    /// commit, or is committed after [`Options::lazy_delay`].
    pub fn append_lazy(
        &self,
        shard: ShardId,
        class: Class,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Position {
        self.batch().append_lazy(shard, class, encode)
    }

    /// Appends many records under one lock. Keep it short: everybody else waits.
    pub fn batch(&self) -> Batch<'_> {
        Batch {
            pending: Some(locked(&self.pending)),
            wake: &self.wake,
            marks: &self.marks,
            room: &self.room,
            payload_max: self.options.record_bytes_max,
            bytes: 0,
        }
    }

    /// After opening, before anything is released: so many need each of `count` consecutive
    /// records. Several calls for one record add up. How many of the records are there.
    pub fn need(&self, shard: ShardId, first: u64, count: u64, references: u32) -> u64 {
        if count == 0 || references == 0 {
            return 0;
        }
        let last = first.saturating_add(count - 1);
        writing(&self.directory).need(shard, first, last, references)
    }

    /// All needs were told. Before this nothing is set free and nothing evacuated.
    pub fn needs_known(&self) {
        writing(&self.directory).settle_copies();
        self.needs_known.store(true, Ordering::Release);
    }

    /// The last index of the shard that is durable, 0 before the first.
    pub fn committed(&self, shard: ShardId) -> u64 {
        self.marks.find(shard).map_or(0, |marks| marks.committed())
    }

    /// The last index of the shard that was handed out, 0 before the first.
    pub fn appended(&self, shard: ShardId) -> u64 {
        self.marks.find(shard).map_or(0, |marks| marks.appended())
    }

    /// Both marks of a shard, to be kept by who asks often.
    pub fn marks(&self, shard: ShardId) -> Arc<Marks> {
        self.marks.of(shard)
    }

    /// Whether segments can be prepared.
    pub fn space(&self) -> Space {
        self.room.space()
    }

    /// Whether payloads of that many bytes together may be appended without touching the
    /// reserve and without more pending than allowed. Publishes ask; settles need not.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.failure.get().is_none()
            && self.room.unwritten().saturating_add(bytes) <= self.options.pending_bytes_max
            && self.room.has_room(bytes, self.options.segment_bytes)
    }

    /// As [`has_room`](Self::has_room), the reserve included: for what makes room by and by.
    pub fn has_reserve(&self, bytes: u64) -> bool {
        self.failure.get().is_none() && self.room.has_reserve(bytes)
    }

    /// Bytes appended and not yet committed.
    pub fn pending_bytes(&self) -> u64 {
        self.room.unwritten()
    }

    /// To be called, by the thread that made it so, whenever a segment was prepared or debt of
    /// evacuation paid: who holds publishers back looks again. Set once; it is to be quick.
    pub fn on_room(&self, hook: impl Fn() + Send + Sync + 'static) {
        // A second one has nobody to serve.
        drop(self.room_hook.set(RoomHook(Box::new(hook))));
    }

    pub(crate) fn tell_room(&self) {
        if let Some(RoomHook(hook)) = self.room_hook.get() {
            hook();
        }
    }

    /// Ends [`run`](Self::run) once everything pending is committed.
    pub fn close(&self) {
        locked(&self.pending).closed = true;
        self.wake.notify_all();
    }

    /// What opening found.
    pub fn report(&self) -> &OpenReport {
        &self.report
    }

    /// How much of each segment is still needed.
    pub fn segments(&self) -> Vec<SegmentUse> {
        reading(&self.directory).uses()
    }

    /// Bytes of memory that finding records and counting their references take.
    pub fn directory_bytes(&self) -> u64 {
        reading(&self.directory).memory()
    }

    /// What the writer did so far.
    pub fn counters(&self) -> Counters {
        self.counts.read()
    }

    /// Why nothing will be committed any more.
    pub fn failure(&self) -> Option<StorageError> {
        self.failure.get().cloned()
    }

    pub(crate) fn check(&self) -> Result<(), StorageError> {
        self.failure
            .get()
            .map_or(Ok(()), |failure| Err(failure.clone()))
    }

    /// The journal has failed; the first failure is the one that stays.
    pub(crate) fn fail(&self, error: StorageError) -> StorageError {
        let failure = self.failure.get_or_init(|| error).clone();
        // Under the lock, or a writer that is about to wait would miss it.
        drop(locked(&self.pending));
        self.wake.notify_all();
        failure
    }
}

/// See [`Journal::on_room`].
pub(crate) struct RoomHook(Box<dyn Fn() + Send + Sync>);

impl std::fmt::Debug for RoomHook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RoomHook")
    }
}

/// The pending buffer, locked for several appends.
#[derive(Debug)]
pub struct Batch<'a> {
    pending: Option<MutexGuard<'a, Pending>>,
    wake: &'a Condvar,
    marks: &'a AllMarks,
    room: &'a Room,
    payload_max: u64,
    bytes: u64,
}

impl Batch<'_> {
    /// See [`Journal::append`].
    pub fn append(
        &mut self,
        shard: ShardId,
        class: Class,
        references: u32,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Position {
        let position = self.push(shard, class, references, encode);
        if let Some(pending) = self.pending.as_mut() {
            pending.awaited += 1;
        }
        position
    }

    /// See [`Journal::append_lazy`].
    pub fn append_lazy(
        &mut self,
        shard: ShardId,
        class: Class,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Position {
        self.push(shard, class, 0, encode)
    }

    /// So many that needed the record are gone. What caused it is appended before, or in this
    /// batch, so that the record goes only after that is durable.
    pub fn release(&mut self, shard: ShardId, index: u64, count: u32) {
        self.tell(Release {
            shard,
            first: index,
            records: 1,
            count,
            way: Way::Down,
        });
    }

    /// As [`release`](Self::release), of one that needed each of `records` consecutive records.
    pub fn release_run(&mut self, shard: ShardId, first: u64, records: u64) {
        self.tell(Release {
            shard,
            first,
            records,
            count: 1,
            way: Way::Down,
        });
    }

    /// One more needs each of `records` consecutive records, which others need and have not
    /// released: the opposite of [`release_run`](Self::release_run). After a crash it counts as
    /// said by [`Journal::need`] only.
    pub fn retain_run(&mut self, shard: ShardId, first: u64, records: u64) {
        self.tell(Release {
            shard,
            first,
            records,
            count: 1,
            way: Way::Up,
        });
    }

    fn tell(&mut self, told: Release) {
        if let Some(pending) = self.pending.as_mut() {
            pending.releases.push(told);
        }
    }

    fn push(
        &mut self,
        shard: ShardId,
        class: Class,
        references: u32,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Position {
        let Some(pending) = self.pending.as_mut() else {
            return Position { shard, index: 0 };
        };
        let kind = Kind {
            shard,
            class,
            references,
            payload_max: self.payload_max,
        };
        let (position, bytes) = pending.append(self.marks, kind, encode);
        self.bytes += bytes;
        position
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        let Some(mut pending) = self.pending.take() else {
            return;
        };
        if self.bytes > 0 {
            self.room.appended(self.bytes);
        } else if pending.releases.len() < RELEASES_MAX {
            return;
        } else {
            pending.pressed = true;
        }
        let wake = pending.wake();
        drop(pending);
        if wake {
            self.wake.notify_all();
        }
    }
}

/// Releases that may gather without a commit.
const RELEASES_MAX: usize = 16 << 10;

// A panic inside one of our locks leaves plain data that is still whole, see `pending`.

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn reading<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn writing<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
