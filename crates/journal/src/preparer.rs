//! Segments ahead of their use: zero-filled or recycled, synced, named.
//!
//! Lacks the commit path: it runs beside it. Invariant: a segment is handed out only after its
//! bytes and its name are durable, so a commit never extends a file and never syncs a folder.
//!
//! ```text
//! (new)  x.tmp ── zeros, header, sync ──┐
//!                                       ├─ rename, sync folder ─► segment-N ─► prepared ─► active
//! spare-M ─────── header, sync ─────────┘                                                   │
//!    ▲                                                                                   sealed
//!    └───────────────── rename, sync folder ◄───── dead ◄──── checkpoint ◄────────────────┘
//! ```

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::checkpoint;
use crate::directory::{Entry, Kind};
use crate::disk::{Disk, DiskFile, is_full};
use crate::error::StorageError;
use crate::folder::{LOG_RESERVE, Name, temporary, write_whole};
use crate::journal::{Journal, locked, reading};
use crate::layout::PAGE;
use crate::segment::{Segment, SegmentHeader};
use crate::sidecar;
use crate::space::Space;
use crate::writer::Active;

/// What is ready and what is to be done.
#[derive(Debug)]
pub(crate) struct Preparer<F> {
    state: Mutex<State<F>>,
    wake: Condvar,
    /// Held by whoever prepares.
    busy: Mutex<()>,
    /// Whether a thread prepares by itself.
    pub(crate) background: AtomicBool,
}

#[derive(Debug)]
struct State<F> {
    ready: VecDeque<Segment<F>>,
    /// Numbers of spare files.
    spares: Vec<u64>,
    /// Segments taken into use since spares were last trimmed.
    taken: usize,
    /// Sealed segments that have no sidecar yet.
    sealed: Vec<u64>,
    next_id: u64,
    /// Whether the checkpoints' reserve is to be looked after.
    reserve_due: bool,
    stop: bool,
}

impl<F> Preparer<F> {
    pub(crate) fn new(
        ready: VecDeque<Segment<F>>,
        spares: Vec<u64>,
        sealed: Vec<u64>,
        next_id: u64,
    ) -> Self {
        let state = State {
            ready,
            spares,
            taken: 0,
            sealed,
            next_id,
            reserve_due: true,
            stop: false,
        };
        Self {
            state: Mutex::new(state),
            wake: Condvar::new(),
            busy: Mutex::new(()),
            background: AtomicBool::new(false),
        }
    }
}

impl<D: Disk> Journal<D> {
    /// Prepares segments until as many are ready as the options ask for. Running out of space
    /// is no error but [`Space::Full`]; any other failure ends the journal.
    pub fn prepare(&self) -> Result<Space, StorageError> {
        self.prepare_up_to(self.options.prepared_segments)
    }

    pub(crate) fn prepare_up_to(&self, count: usize) -> Result<Space, StorageError> {
        let _busy = locked(&self.preparer.busy);
        self.check()?;
        self.describe_sealed();
        if locked(&self.preparer.state).reserve_due {
            // It is short and comes before the segments; whether it is there is seen below.
            drop(checkpoint::keep_log_reserve(self));
        }
        while locked(&self.preparer.state).ready.len() < count {
            // First the space for the checkpoint that what the segment takes will need: a small
            // disk may fill before anybody says what to expect.
            if self.keep_grown_reserve() == Space::Full {
                self.room.set_space(Space::Full);
                return Ok(Space::Full);
            }
            match self.make(self.options.segment_bytes) {
                Ok(segment) => {
                    let mut state = locked(&self.preparer.state);
                    state.ready.push_back(segment);
                    self.refresh_room(&state);
                    drop(state);
                    self.tell_room();
                    if self.room.is_short() {
                        // The writer goes on in it.
                        locked(&self.pending).pressed = true;
                        self.wake.notify_all();
                    }
                }
                Err(error) if is_full(&error) => {
                    self.room.set_space(Space::Full);
                    return Ok(Space::Full);
                }
                Err(error) => return Err(self.fail(folder("preparing a segment", error))),
            }
        }
        if locked(&self.preparer.state).reserve_due {
            if self.keep_grown_reserve() == Space::Full {
                self.room.set_space(Space::Full);
                return Ok(Space::Full);
            }
            let keep = || {
                checkpoint::keep_log_reserve(self)?;
                checkpoint::keep_evacuation_reserve(self)
            };
            while let Err(error) = keep() {
                if !is_full(&error) {
                    return Err(self.fail(folder("keeping a reserve", error)));
                }
                if self.drop_spare() {
                    continue;
                }
                if self.expected_checkpoint_bytes() > 0 {
                    locked(&self.preparer.state).reserve_due = true;
                    self.room.set_space(Space::Full);
                    return Ok(Space::Full);
                }
                break;
            }
            locked(&self.preparer.state).reserve_due = false;
        }
        self.room.set_space(Space::Ample);
        Ok(Space::Ample)
    }

    /// How many segments the preparing thread has ready. The last of them is not made before
    /// half of the active one is used: by then one that died may have come free, which needs no
    /// zeros.
    fn prepared_due(&self) -> usize {
        let count = self.options.prepared_segments;
        if self.room.active() > self.options.segment_bytes / 2 {
            count.saturating_sub(1).max(1)
        } else {
            count
        }
    }

    /// The active segment has so many bytes left, and had so many before.
    pub(crate) fn has_left(&self, active: &Active<D::File>, before: u64) {
        let left = active.left();
        self.room.set_active(left, active.is_short(&self.options));
        let half = self.options.segment_bytes / 2;
        if left <= half && half < before {
            // Under the lock, or a thread that is about to wait would miss it.
            drop(locked(&self.preparer.state));
            self.preparer.wake.notify_one();
        }
    }

    /// Gives the space of a file that waits to be used again back to the disk.
    fn drop_spare(&self) -> bool {
        let Some(id) = locked(&self.preparer.state).spares.pop() else {
            return false;
        };
        // One that stays is found at the next open.
        drop(self.disk.remove(&Name::Spare(id).to_string()));
        true
    }

    /// Keeps as many dead files for their next use as were taken into use since the last call,
    /// and gives the others back to the disk: how many that is follows the traffic. So do the
    /// checkpoints' reserves.
    pub fn trim_spares(&self) -> Result<(), StorageError> {
        let used = {
            let mut state = locked(&self.preparer.state);
            std::mem::take(&mut state.taken)
        };
        let busy = locked(&self.preparer.busy);
        // What is there stays where there is no space for less beside it.
        drop(checkpoint::keep_reserve(self, true));
        drop(busy);
        let mut removed = false;
        while locked(&self.preparer.state).spares.len() > used {
            removed |= self.drop_spare();
        }
        if removed {
            let synced = self.disk.sync_folder();
            synced.map_err(|error| self.fail(folder("removing spare segments", error)))?;
        }
        Ok(())
    }

    /// A number that no file has.
    pub(crate) fn next_file(&self) -> u64 {
        let mut state = locked(&self.preparer.state);
        state.next_id += 1;
        state.next_id - 1
    }

    /// The next segment of at least that length. Waits for one that is being prepared, and,
    /// while a thread runs the journal, for space: what was appended cannot be taken back, and
    /// nothing of it is acknowledged before it is written, so a full disk loses nothing.
    pub(crate) fn take_prepared(&self, length: u64) -> Result<Segment<D::File>, StorageError> {
        loop {
            match self.try_take_prepared(length) {
                Err(StorageError::Full) if self.may_wait_for_space() => {
                    self.check()?;
                    std::thread::sleep(self.options.full_retry);
                }
                done => return done,
            }
        }
    }

    fn may_wait_for_space(&self) -> bool {
        self.preparer.background.load(Ordering::Acquire) && !locked(&self.pending).closed
    }

    fn try_take_prepared(&self, length: u64) -> Result<Segment<D::File>, StorageError> {
        if let Some(segment) = self.pop_prepared(length) {
            return Ok(segment);
        }
        let _busy = locked(&self.preparer.busy);
        if let Some(segment) = self.pop_prepared(length) {
            return Ok(segment);
        }
        let whole = length
            .max(self.options.segment_bytes)
            .next_multiple_of(4096);
        let made = self.make(whole).or_else(|error| {
            if !is_full(&error) {
                return Err(error);
            }
            self.room.set_space(Space::Full);
            self.make_short(length)?.ok_or(error)
        });
        made.map_err(|error| {
            if is_full(&error) {
                StorageError::Full
            } else {
                folder("preparing a segment", error)
            }
        })
    }

    /// A segment that was taken and not written to is the next again.
    pub(crate) fn give_back(&self, segment: Segment<D::File>) {
        let mut state = locked(&self.preparer.state);
        state.ready.push_front(segment);
        self.refresh_room(&state);
    }

    /// Prepares as many segments as payloads of that many bytes need, on the calling thread.
    /// False where the disk has no room for them.
    pub fn make_room(&self, bytes: u64) -> bool {
        while !self.room.fits(bytes) {
            let ready = locked(&self.preparer.state).ready.len();
            if !matches!(self.prepare_up_to(ready + 1), Ok(Space::Ample)) {
                return false;
            }
        }
        true
    }

    /// Without room for a checkpoint a full disk could never be drained.
    fn keep_grown_reserve(&self) -> Space {
        match checkpoint::keep_reserve(self, false) {
            Err(error) if is_full(&error) && self.expected_checkpoint_bytes() > 0 => Space::Full,
            _ => Space::Ample,
        }
    }

    /// Says how large the next checkpoints of all shards may be, so that there is room for them
    /// on a full disk too. Between two words on it the journal counts what is appended, and it
    /// learns from them what a record adds: one that names many queues adds much.
    pub fn expect_checkpoint_bytes(&self, bytes: u64) {
        let records = self.counts.read().records;
        let told_at = self.checkpoint_told_at.swap(records, Ordering::Relaxed);
        let told = self.checkpoint_told.swap(bytes, Ordering::Relaxed);
        let since = records.saturating_sub(told_at);
        if since >= LEARNT_FROM_RECORDS {
            let each = bytes.saturating_sub(told).div_ceil(since);
            let known = self.checkpoint_record_bytes.load(Ordering::Relaxed);
            // What is drained meanwhile hides it, so it is forgotten only by and by.
            let kept = known - known / 64;
            self.checkpoint_record_bytes
                .store(each.max(kept), Ordering::Relaxed);
        }
        let before = self.checkpoint_bytes.load(Ordering::Relaxed);
        // What is little beside a segment is not worth another word.
        let little = (self.options.segment_bytes / 16).min(1 << 20);
        if bytes <= before && before <= bytes.saturating_mul(4).max(little) {
            return;
        }
        self.checkpoint_bytes.store(bytes.max(1), Ordering::Relaxed);
        self.reserve_later();
    }

    /// What the next checkpoints may take, once what is prepared now has been used too; 0 where
    /// nobody has said.
    pub(crate) fn expected_checkpoint_bytes(&self) -> u64 {
        let told = self.checkpoint_bytes.load(Ordering::Relaxed);
        if told == 0 {
            return 0;
        }
        let counters = self.counts.read();
        let told_at = self.checkpoint_told_at.load(Ordering::Relaxed);
        let record_bytes = (counters.bytes / counters.records.max(1)).max(RECORD_BYTES_LIKELY);
        let records = counters.records.saturating_sub(told_at) + self.room.free() / record_bytes;
        let each = self.checkpoint_record_bytes.load(Ordering::Relaxed);
        told.saturating_add(records.saturating_mul(each.max(CHECKPOINT_RECORD_BYTES_LEAST)))
    }

    /// The checkpoints' reserve was used or has to grow.
    pub(crate) fn reserve_later(&self) {
        locked(&self.preparer.state).reserve_due = true;
        self.preparer.wake.notify_one();
    }

    /// A sidecar is to be written for that segment.
    pub(crate) fn describe_later(&self, segment: u64) {
        locked(&self.preparer.state).sealed.push(segment);
        self.preparer.wake.notify_one();
    }

    /// Sets free the files of segments that are in the directory no more.
    pub(crate) fn recycle(&self, dead: Vec<Entry<D::File>>) -> io::Result<()> {
        if dead.is_empty() {
            return Ok(());
        }
        let mut spares = Vec::new();
        let kept = locked(&self.preparer.state).spares.len();
        for Entry { segment, kind, .. } in dead {
            let Segment { id, length, .. } = segment;
            let name = name_of(id, kind).to_string();
            let room = kept + spares.len() < self.options.spare_segments_max;
            if room && length == self.options.segment_bytes && kind != Kind::Cold {
                self.disk.rename(&name, &Name::Spare(id).to_string())?;
                spares.push(id);
            } else if length == self.options.log_reserve_bytes && kind != Kind::Cold {
                // Others would have the space before it could be set aside again.
                self.disk.rename(&name, LOG_RESERVE)?;
            } else {
                self.disk.remove(&name)?;
            }
            // Without its segment a sidecar is nothing; the next open removes it too.
            drop(self.disk.remove(&Name::Directory(id).to_string()));
            locked(&self.preparer.state)
                .sealed
                .retain(|sealed| *sealed != id);
            self.counts.recycled();
        }
        // Only a durable name may be given away, or a crash brings the segment back with
        // somebody else's bytes in it.
        self.disk.sync_folder()?;
        locked(&self.preparer.state).spares.extend(spares);
        self.preparer.wake.notify_one();
        Ok(())
    }

    /// What the preparing thread does until it is told to stop or the journal fails.
    pub(crate) fn prepare_until_stopped(&self) {
        loop {
            let Ok(space) = self.prepare_up_to(self.prepared_due()) else {
                return;
            };
            let state = locked(&self.preparer.state);
            let idle = |state: &mut State<D::File>| {
                !state.stop
                    && state.ready.len() >= self.prepared_due()
                    && state.sealed.is_empty()
                    && !state.reserve_due
            };
            let state = if space == Space::Full && !state.stop {
                let wait = self
                    .preparer
                    .wake
                    .wait_timeout(state, self.options.full_retry);
                wait.map_or_else(|error| error.into_inner().0, |(state, _)| state)
            } else {
                let wait = self.preparer.wake.wait_while(state, idle);
                wait.unwrap_or_else(PoisonError::into_inner)
            };
            if state.stop {
                return;
            }
        }
    }

    pub(crate) fn start_preparing(&self) {
        locked(&self.preparer.state).stop = false;
        self.preparer.background.store(true, Ordering::Release);
    }

    pub(crate) fn stop_preparing(&self) {
        locked(&self.preparer.state).stop = true;
        self.preparer.background.store(false, Ordering::Release);
        self.preparer.wake.notify_all();
    }

    fn pop_prepared(&self, length: u64) -> Option<Segment<D::File>> {
        let mut state = locked(&self.preparer.state);
        let at = state
            .ready
            .iter()
            .position(|segment| segment.length >= length)?;
        let segment = state.ready.remove(at);
        state.taken += 1;
        self.refresh_room(&state);
        self.preparer.wake.notify_one();
        segment
    }

    pub(crate) fn has_prepared(&self) -> bool {
        !locked(&self.preparer.state).ready.is_empty()
    }

    /// Takes the prepared segments that recovery found into account.
    pub(crate) fn refresh_prepared(&self) {
        self.refresh_room(&locked(&self.preparer.state));
    }

    fn refresh_room(&self, state: &State<D::File>) {
        self.room
            .set_prepared(state.ready.iter().map(|segment| segment.length));
    }

    /// Writes the sidecars that are due. One that cannot be written is rebuilt at the next open.
    fn describe_sealed(&self) {
        for id in std::mem::take(&mut locked(&self.preparer.state).sealed) {
            let encoded = reading(&self.directory)
                .entry(id)
                .map(|entry| sidecar::encode(id, entry.segment.salt, &entry.contents));
            if let Some(bytes) = encoded {
                drop(write_whole(
                    &self.disk,
                    &Name::Directory(id).to_string(),
                    &[&bytes],
                ));
            }
        }
    }

    /// Makes a segment of that length out of a spare one or of new space.
    fn make(&self, length: u64) -> io::Result<Segment<D::File>> {
        let (id, spare) = {
            let mut state = locked(&self.preparer.state);
            state.next_id += 1;
            let spare = if length == self.options.segment_bytes {
                state.spares.pop()
            } else {
                None
            };
            (state.next_id - 1, spare)
        };
        let header = SegmentHeader {
            id,
            salt: self.disk.entropy(),
            length,
            fresh: spare.is_none(),
            cold: false,
        };
        let made = match spare {
            Some(spare) => self.reuse(&Name::Spare(spare).to_string(), header),
            None => self.create(header),
        };
        if let (Err(_), Some(spare)) = (&made, spare) {
            locked(&self.preparer.state).spares.push(spare);
        }
        let file = Arc::new(made?);
        self.counts.prepared();
        Ok(Segment {
            id,
            salt: header.salt,
            length,
            file,
        })
    }

    /// Makes a segment of the space that is kept for it; `None` where there is none, or too
    /// little.
    fn make_short(&self, length: u64) -> io::Result<Option<Segment<D::File>>> {
        let kept = match self.disk.open(LOG_RESERVE).and_then(|file| file.len()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            kept => kept?,
        };
        if kept < length {
            return Ok(None);
        }
        let header = SegmentHeader {
            id: self.next_file(),
            salt: self.disk.entropy(),
            length: kept,
            fresh: false,
            cold: false,
        };
        let file = Arc::new(self.reuse(LOG_RESERVE, header)?);
        self.counts.prepared();
        self.reserve_later();
        Ok(Some(Segment {
            id: header.id,
            salt: header.salt,
            length: kept,
            file,
        }))
    }

    fn create(&self, header: SegmentHeader) -> io::Result<D::File> {
        let temporary = temporary(&Name::Segment(header.id).to_string());
        let created = self.disk.create(&temporary).and_then(|file| {
            file.zero_fill(header.length)?;
            self.counts.zeroed(header.length);
            self.name(file, &temporary, header)
        });
        if created.is_err() {
            // The space is needed by others; a name left over is removed at the next open.
            drop(self.disk.remove(&temporary));
        }
        created
    }

    fn reuse(&self, spare: &str, header: SegmentHeader) -> io::Result<D::File> {
        let file = self.disk.open(spare)?;
        self.name(file, spare, header)
    }

    fn name(&self, file: D::File, source: &str, header: SegmentHeader) -> io::Result<D::File> {
        file.write_at(&header.encode(), 0)?;
        file.sync_data()?;
        // The first batch shares its page with the header.
        file.forget(PAGE);
        self.disk
            .rename(source, &Name::Segment(header.id).to_string())?;
        self.disk.sync_folder()?;
        Ok(file)
    }
}

/// The name of a file of records.
pub(crate) fn name_of(id: u64, kind: Kind) -> Name {
    match kind {
        Kind::Open | Kind::Sealed => Name::Segment(id),
        Kind::Cold => Name::Cold(id),
    }
}

/// What a checkpoint says of one message in one queue, about: entries that are alike take one
/// byte or two in a packed page.
const CHECKPOINT_RECORD_BYTES_LEAST: u64 = 4;
/// Fewer may all lie in pages that are not packed yet.
const LEARNT_FROM_RECORDS: u64 = 16 << 10;
/// Few records are shorter than this.
const RECORD_BYTES_LIKELY: u64 = 128;

pub(crate) fn folder(what: &'static str, error: io::Error) -> StorageError {
    StorageError::Folder {
        what,
        error: Arc::new(error),
    }
}
