//! A disk in memory that keeps synced and unsynced bytes apart.
//!
//! Lacks real time and threads of its own. Invariant: it is deterministic: the same calls with
//! the same choices give the same bytes, names and errors.
//!
//! ```text
//! inode: durable ─── what a crash leaves        names: durable ─── what a crash leaves
//!        current ─── what reads see                    current ─── what reads see
//!        dirty   ─── sectors that differ               changes ─── in order, not yet durable
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IoSlice};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::disk::{Disk, DiskFile};
use crate::layout::{PAGE, SECTOR, to_usize};

/// The disk. Clones share it.
#[derive(Clone, Debug)]
pub struct MemoryDisk {
    state: Arc<Mutex<State>>,
}

impl MemoryDisk {
    /// An empty disk; the seed feeds [`Disk::entropy`].
    pub fn new(seed: u64) -> Self {
        let state = State {
            entropy: seed,
            ..State::default()
        };
        Self {
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// The power goes: each unsynced sector is kept or forgotten, and of the unsynced changes
    /// of names a prefix or any choice survives. `choose(n)` gives a number below `n`. Open handles and locks
    /// are dead, planned failures forgotten.
    pub fn crash(&self, choose: &mut dyn FnMut(u64) -> u64) {
        let mut state = self.state();
        // File systems that keep the order of such changes leave a prefix, others anything.
        let ordered = choose(2) == 0;
        let survive = to_usize(choose(state.changes.len() as u64 + 1));
        for (at, change) in std::mem::take(&mut state.changes).into_iter().enumerate() {
            if if ordered {
                at < survive
            } else {
                choose(2) == 0
            } {
                change.apply(&mut state.durable);
            }
        }
        state.names = state.durable.clone();
        for inode in state.inodes.values_mut() {
            inode.crash(choose);
        }
        state.restart();
    }

    /// The process dies and the disk lives: unsynced bytes stay unsynced and readable. Open
    /// handles and locks are dead.
    pub fn kill(&self) {
        self.state().restart();
    }

    /// The `nth` sync of a file from now on (1 is the next) fails and so do all after it,
    /// until the disk is restarted by [`crash`](Self::crash) or [`kill`](Self::kill).
    pub fn fail_sync(&self, nth: u64) {
        self.state().syncs_left = Some(nth.saturating_sub(1));
    }

    /// As [`fail_sync`](Self::fail_sync), for writes.
    pub fn fail_write(&self, nth: u64) {
        self.state().writes_left = Some(nth.saturating_sub(1));
    }

    /// After `operations` more changing calls every call fails, until the disk is restarted.
    pub fn power_off_after(&self, operations: u64) {
        self.state().operations_left = Some(operations);
    }

    /// How many bytes the files may have together; `None` is no limit.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state().capacity = bytes;
    }

    /// Batches are padded to whole sectors, as on a disk that is written to past the cache of
    /// its system; without this to whole pages.
    pub fn pad_to_sectors(&self) {
        self.state().pads_to_sectors = true;
    }

    /// How many bytes the files have together.
    pub fn used(&self) -> u64 {
        self.state().used()
    }

    /// How many calls of sync on files have returned well.
    pub fn syncs(&self) -> u64 {
        self.state().syncs
    }

    /// The current bytes of a file.
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.state();
        let inode = state
            .names
            .get(name)
            .and_then(|inode| state.inodes.get(inode));
        inode.map(|inode| inode.current.clone())
    }

    /// Replaces the bytes of a file, durably: how a test damages what lies on disk.
    pub fn set_bytes(&self, name: &str, bytes: &[u8]) {
        let mut state = self.state();
        let id = state.names.get(name).copied().unwrap_or_else(|| {
            let id = state.new_inode();
            state.names.insert(name.to_owned(), id);
            state.durable.insert(name.to_owned(), id);
            id
        });
        let inode = Inode {
            durable: bytes.to_vec(),
            current: bytes.to_vec(),
            ..Inode::default()
        };
        state.inodes.insert(id, inode);
    }

    /// A copy that shares nothing with this one, with all handles and locks dead.
    #[must_use]
    pub fn fork(&self) -> Self {
        let mut state = self.state().clone();
        state.restart();
        Self {
            state: Arc::new(Mutex::new(state)),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk for MemoryDisk {
    type File = MemoryFile;
    type Lock = MemoryLock;

    fn create(&self, name: &str) -> io::Result<MemoryFile> {
        let mut state = self.state();
        state.operate()?;
        if state
            .capacity
            .is_some_and(|capacity| state.used() >= capacity)
        {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let inode = state.new_inode();
        state.change(Change::Link(name.to_owned(), inode));
        Ok(MemoryFile {
            disk: self.clone(),
            inode,
            generation: state.generation,
        })
    }

    fn open(&self, name: &str) -> io::Result<MemoryFile> {
        let state = self.state();
        state.check_power()?;
        let inode = *state.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(MemoryFile {
            disk: self.clone(),
            inode,
            generation: state.generation,
        })
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let state = self.state();
        state.check_power()?;
        Ok(state.names.keys().cloned().collect())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        state.operate()?;
        state.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        state.change(Change::Remove(name.to_owned()));
        Ok(())
    }

    fn rename(&self, source: &str, target: &str) -> io::Result<()> {
        let mut state = self.state();
        state.operate()?;
        let inode = *state.names.get(source).ok_or(io::ErrorKind::NotFound)?;
        state.change(Change::Rename(source.to_owned(), target.to_owned(), inode));
        Ok(())
    }

    fn sync_folder(&self) -> io::Result<()> {
        let mut state = self.state();
        state.operate()?;
        state.changes.clear();
        state.durable = state.names.clone();
        Ok(())
    }

    fn lock(&self, name: &str) -> io::Result<MemoryLock> {
        let mut state = self.state();
        state.check_power()?;
        if state.locks.insert(name.to_owned()) {
            let generation = state.generation;
            Ok(MemoryLock {
                disk: self.clone(),
                name: name.to_owned(),
                generation,
            })
        } else {
            Err(io::ErrorKind::WouldBlock.into())
        }
    }

    fn entropy(&self) -> u64 {
        let mut state = self.state();
        state.entropy = state.entropy.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state.entropy ^ (state.entropy >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// An open file of a [`MemoryDisk`].
#[derive(Debug)]
pub struct MemoryFile {
    disk: MemoryDisk,
    inode: u64,
    generation: u64,
}

impl MemoryFile {
    fn state(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.disk.state();
        if state.generation != self.generation {
            return Err(io::Error::other("the handle is from before a crash"));
        }
        Ok(state)
    }
}

impl DiskFile for MemoryFile {
    fn write_vectored_at(&self, slices: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        let mut state = self.state()?;
        // When the power goes during a write, some of it may have reached the disk.
        let powered = state.operate();
        let counted = spend(&mut state.writes_left, "planned write failure");
        let mut offset = offset;
        for slice in slices {
            state.grow(self.inode, offset + slice.len() as u64)?;
            state.inode(self.inode)?.write(slice, offset);
            offset += slice.len() as u64;
        }
        powered.and(counted)
    }

    fn padding(&self) -> u64 {
        if self.disk.state().pads_to_sectors {
            SECTOR
        } else {
            PAGE
        }
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let mut state = self.state()?;
        state.check_power()?;
        let start = to_usize(offset);
        let current = &state.inode(self.inode)?.current;
        let source = current.get(start..start.saturating_add(bytes.len()));
        bytes.copy_from_slice(source.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.state()?;
        state.operate()?;
        spend(&mut state.syncs_left, "planned sync failure")?;
        state.syncs += 1;
        state.inode(self.inode)?.sync();
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        let mut state = self.state()?;
        state.check_power()?;
        Ok(state.inode(self.inode)?.current.len() as u64)
    }

    fn zero_fill(&self, length: u64) -> io::Result<()> {
        let mut state = self.state()?;
        state.operate()?;
        let grown = state.grow(self.inode, length);
        let inode = state.inode(self.inode)?;
        let zeros = vec![0; inode.current.len().min(to_usize(length))];
        inode.write(&zeros, 0);
        grown
    }
}

/// A lock on a [`MemoryDisk`], released when dropped.
#[derive(Debug)]
pub struct MemoryLock {
    disk: MemoryDisk,
    name: String,
    generation: u64,
}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        if state.generation == self.generation {
            state.locks.remove(&self.name);
        }
    }
}

#[derive(Clone, Debug, Default)]
struct State {
    inodes: BTreeMap<u64, Inode>,
    names: BTreeMap<String, u64>,
    durable: BTreeMap<String, u64>,
    changes: Vec<Change>,
    inodes_made: u64,
    locks: BTreeSet<String>,
    generation: u64,
    entropy: u64,
    syncs: u64,
    capacity: Option<u64>,
    syncs_left: Option<u64>,
    writes_left: Option<u64>,
    operations_left: Option<u64>,
    pads_to_sectors: bool,
}

impl State {
    fn restart(&mut self) {
        self.generation += 1;
        self.locks.clear();
        self.syncs_left = None;
        self.writes_left = None;
        self.operations_left = None;
        self.sweep();
    }

    /// Forgets files that no name leads to; their handles are dead by now.
    fn sweep(&mut self) {
        let mut known: BTreeSet<u64> = self.names.values().copied().collect();
        known.extend(self.durable.values());
        self.inodes.retain(|inode, _| known.contains(inode));
    }

    fn check_power(&self) -> io::Result<()> {
        match self.operations_left {
            Some(0) => Err(io::Error::other("the power is off")),
            _ => Ok(()),
        }
    }

    fn operate(&mut self) -> io::Result<()> {
        spend(&mut self.operations_left, "the power is off")
    }

    fn new_inode(&mut self) -> u64 {
        self.inodes_made += 1;
        self.inodes.insert(self.inodes_made, Inode::default());
        self.inodes_made
    }

    fn inode(&mut self, id: u64) -> io::Result<&mut Inode> {
        self.inodes
            .get_mut(&id)
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.names);
        self.changes.push(change);
    }

    fn used(&self) -> u64 {
        let lengths = self
            .names
            .values()
            .filter_map(|inode| self.inodes.get(inode));
        lengths.map(|inode| inode.current.len() as u64).sum()
    }

    /// Makes the file at least that long, as far as there is space.
    fn grow(&mut self, id: u64, length: u64) -> io::Result<()> {
        let used = self.used();
        let free = self
            .capacity
            .map_or(u64::MAX, |capacity| capacity.saturating_sub(used));
        let inode = self.inode(id)?;
        let missing = length.saturating_sub(inode.current.len() as u64);
        let given = missing.min(free);
        inode
            .current
            .resize(inode.current.len() + to_usize(given), 0);
        if given < missing {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }
}

/// Takes one from what is left before the planned failure.
fn spend(left: &mut Option<u64>, failure: &'static str) -> io::Result<()> {
    match left {
        None => Ok(()),
        Some(0) => Err(io::Error::other(failure)),
        Some(left) => {
            *left -= 1;
            Ok(())
        }
    }
}

#[derive(Clone, Debug)]
enum Change {
    Link(String, u64),
    Remove(String),
    /// From a name to another, of that file: whatever else is lost, no other gets its name.
    Rename(String, String, u64),
}

impl Change {
    fn apply(&self, names: &mut BTreeMap<String, u64>) {
        match self {
            Self::Link(name, inode) => {
                names.insert(name.clone(), *inode);
            }
            Self::Remove(name) => {
                names.remove(name);
            }
            Self::Rename(source, target, inode) => {
                names.remove(source);
                names.insert(target.clone(), *inode);
            }
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Inode {
    durable: Vec<u8>,
    current: Vec<u8>,
    dirty: BTreeSet<u64>,
}

impl Inode {
    fn write(&mut self, bytes: &[u8], offset: u64) {
        let start = to_usize(offset);
        let end = start.saturating_add(bytes.len());
        if let Some(target) = self.current.get_mut(start..end) {
            target.copy_from_slice(bytes);
        }
        if !bytes.is_empty() {
            self.dirty
                .extend(offset / SECTOR..(end as u64).div_ceil(SECTOR));
        }
    }

    fn sync(&mut self) {
        self.durable.resize(self.current.len(), 0);
        for sector in std::mem::take(&mut self.dirty) {
            self.keep(sector);
        }
    }

    fn crash(&mut self, choose: &mut dyn FnMut(u64) -> u64) {
        if self.current.len() != self.durable.len() && choose(2) == 0 {
            self.durable.resize(self.current.len(), 0);
        }
        for sector in std::mem::take(&mut self.dirty) {
            if choose(2) == 0 {
                self.keep(sector);
            }
        }
        self.current.clone_from(&self.durable);
    }

    /// The current bytes of the sector become durable.
    fn keep(&mut self, sector: u64) {
        let start = to_usize(sector * SECTOR);
        let end = start
            .saturating_add(to_usize(SECTOR))
            .min(self.durable.len());
        let source = self.current.get(start..end);
        if let (Some(source), Some(target)) = (source, self.durable.get_mut(start..end)) {
            target.copy_from_slice(source);
        }
    }
}
