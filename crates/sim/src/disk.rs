//! The journal's disk, with one planted bug: syncs that lie.

use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicBool, Ordering};

use menzil_journal::testing::{MemoryDisk, MemoryFile, MemoryLock};
use menzil_journal::{Disk, DiskFile};

use crate::sabotage::Sabotage;

/// A disk in memory, honest or not.
#[derive(Clone, Debug)]
pub(crate) struct SimDisk {
    memory: MemoryDisk,
    sabotage: Option<Sabotage>,
}

impl SimDisk {
    pub(crate) fn new(memory: MemoryDisk, sabotage: Option<Sabotage>) -> Self {
        Self { memory, sabotage }
    }

    fn file(&self, name: &str, file: MemoryFile) -> SimFile {
        SimFile {
            file,
            is_cold: name.starts_with("cold-"),
            is_prepared: AtomicBool::new(false),
            sabotage: self.sabotage,
        }
    }
}

impl Disk for SimDisk {
    type File = SimFile;
    type Lock = MemoryLock;

    fn create(&self, name: &str) -> io::Result<SimFile> {
        self.memory.create(name).map(|file| self.file(name, file))
    }

    fn open(&self, name: &str) -> io::Result<SimFile> {
        self.memory.open(name).map(|file| self.file(name, file))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.memory.list()
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.memory.remove(name)
    }

    fn rename(&self, source: &str, target: &str) -> io::Result<()> {
        self.memory.rename(source, target)
    }

    fn sync_folder(&self) -> io::Result<()> {
        self.memory.sync_folder()
    }

    fn lock(&self, name: &str) -> io::Result<MemoryLock> {
        self.memory.lock(name)
    }

    fn entropy(&self) -> u64 {
        self.memory.entropy()
    }
}

/// An open file of a [`SimDisk`].
#[derive(Debug)]
pub(crate) struct SimFile {
    file: MemoryFile,
    is_cold: bool,
    /// It was synced once, which prepares it. All later syncs are commits.
    is_prepared: AtomicBool,
    sabotage: Option<Sabotage>,
}

impl DiskFile for SimFile {
    fn write_vectored_at(&self, slices: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        self.file.write_vectored_at(slices, offset)
    }

    fn padding(&self) -> u64 {
        self.file.padding()
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        match self.sabotage {
            Some(Sabotage::SyncSkipped) if self.is_prepared.swap(true, Ordering::Relaxed) => Ok(()),
            Some(Sabotage::ColdUnsynced) if self.is_cold => Ok(()),
            Some(Sabotage::FailedSyncIgnored) => {
                drop(self.file.sync_data());
                Ok(())
            }
            _ => self.file.sync_data(),
        }
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn zero_fill(&self, length: u64) -> io::Result<()> {
        self.file.zero_fill(length)
    }
}
