//! A folder of the operating system.
//!
//! Lacks rings. Batches, zeros and long reads go past the system's cache where that can be had
//! (`docs/adr/0007`). Invariant: `sync_data` is the real sync of the platform (`fdatasync`;
//! `F_FULLFSYNC` on macOS, which the standard library does).

use std::fs::{self, DirBuilder, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, IoSlice};
use std::os::unix::fs::{DirBuilderExt as _, FileExt, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustix::fs::{Advice, FlockOperation, fadvise, flock};

use crate::direct::{self, Aligned, Blocks, Seen, Source, Version};
use crate::disk::{Disk, DiskFile};
use crate::layout::{PAGE, SECTOR, to_usize};

/// A folder of the operating system as a [`Disk`].
#[derive(Debug)]
pub struct OsDisk {
    path: PathBuf,
    folder: File,
    shared: Arc<Shared>,
}

/// What the files of a disk have in common.
#[derive(Debug, Default)]
struct Shared {
    files: AtomicU64,
    blocks: Blocks,
    /// Where batches are put together on their way past the cache.
    stage: Mutex<Option<Aligned>>,
}

impl OsDisk {
    /// The folder at `path`, created with its parents if it does not exist. A new one is open
    /// to its owner alone, as are the files made in it; parents are made as the system is set.
    pub fn new(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref().to_path_buf();
        if !path.is_dir() {
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            // Somebody else may have made it meanwhile.
            if let Err(error) = DirBuilder::new().mode(OWNER_FOLDER).create(&path)
                && !path.is_dir()
            {
                return Err(error);
            }
            if let Some(parent) = path.canonicalize()?.parent() {
                File::open(parent)?.sync_all()?;
            }
        }
        let folder = File::open(&path)?;
        Ok(Self {
            path,
            folder,
            shared: Arc::default(),
        })
    }

    fn file(&self, file: File) -> OsFile {
        OsFile {
            file,
            number: self.shared.files.fetch_add(1, Ordering::Relaxed),
            changes: AtomicU64::new(0),
            end: AtomicU64::new(u64::MAX),
            direct: OnceLock::new(),
            seen: Seen::default(),
            shared: Arc::clone(&self.shared),
        }
    }

    /// Where the folder is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Disk for OsDisk {
    type File = OsFile;
    type Lock = File;

    fn create(&self, name: &str) -> io::Result<OsFile> {
        let path = self.path.join(name);
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(true);
        options.mode(OWNER_FILE);
        options.open(path).map(|file| self.file(file))
    }

    fn open(&self, name: &str) -> io::Result<OsFile> {
        let path = self.path.join(name);
        File::options()
            .read(true)
            .write(true)
            .open(path)
            .map(|file| self.file(file))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    fn rename(&self, source: &str, target: &str) -> io::Result<()> {
        fs::rename(self.path.join(source), self.path.join(target))
    }

    fn sync_folder(&self) -> io::Result<()> {
        self.folder.sync_all()
    }

    fn lock(&self, name: &str) -> io::Result<File> {
        let path = self.path.join(name);
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(OWNER_FILE)
            .open(path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(file)
    }

    fn entropy(&self) -> u64 {
        RandomState::new().hash_one(std::process::id())
    }
}

/// An open file of an [`OsDisk`].
#[derive(Debug)]
pub struct OsFile {
    file: File,
    /// No other file of the disk had it.
    number: u64,
    /// Counted before each write and after it, but for those behind all others.
    changes: AtomicU64,
    /// Where the next of those begins.
    end: AtomicU64,
    /// The handle that goes past the cache, once it was asked for.
    direct: OnceLock<Option<File>>,
    seen: Seen,
    shared: Arc<Shared>,
}

impl OsFile {
    fn direct(&self) -> Option<&File> {
        let direct = self.direct.get_or_init(|| direct::reopen(&self.file));
        direct.as_ref()
    }

    /// What a read that begins now may keep of what it finds, where the file can be read past
    /// the cache.
    fn source(&self) -> Option<Source<'_>> {
        let direct = self.direct.get()?.as_ref()?;
        let changes = self.changes.load(Ordering::SeqCst);
        Some(Source {
            direct,
            version: Version {
                file: self.number,
                changes,
            },
            stable: self.end.load(Ordering::SeqCst),
            seen: &self.seen,
        })
    }

    fn changing<T>(&self, write: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        self.changes.fetch_add(1, Ordering::SeqCst);
        let done = write();
        self.changes.fetch_add(1, Ordering::SeqCst);
        done
    }

    /// As [`changing`](Self::changing), of what a log grows by.
    fn growing(
        &self,
        offset: u64,
        length: u64,
        write: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        if offset < self.end.load(Ordering::SeqCst) {
            // Before what was read: so is the first, which says where the log is.
            self.changing(|| {
                self.end.store(offset, Ordering::SeqCst);
                write()
            })?;
        } else {
            write()?;
        }
        self.end.store(offset + length, Ordering::SeqCst);
        Ok(())
    }

    /// Puts the slices together where they can be written from.
    fn write_staged(
        &self,
        direct: &File,
        slices: &[IoSlice<'_>],
        mut offset: u64,
    ) -> io::Result<()> {
        let mut stage = self
            .shared
            .stage
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let stage = stage.get_or_insert_with(|| Aligned::new(STAGE_BYTES));
        let mut filled = 0;
        for slice in slices {
            let mut rest: &[u8] = slice;
            while !rest.is_empty() {
                let free = stage.bytes_mut().get_mut(filled..).unwrap_or_default();
                let count = free.len().min(rest.len());
                let (taken, after) = rest.split_at(count);
                free.get_mut(..count)
                    .unwrap_or_default()
                    .copy_from_slice(taken);
                rest = after;
                filled += count;
                if filled == STAGE_BYTES {
                    direct.write_all_at(stage.bytes(), offset)?;
                    offset += filled as u64;
                    filled = 0;
                }
            }
        }
        let rest = stage.bytes().get(..filled).unwrap_or_default();
        direct.write_all_at(rest, offset)
    }

    fn write_cached(&self, slices: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        let mut offset = offset;
        let mut slices: Vec<&[u8]> = slices.iter().map(|slice| &**slice).collect();
        let mut rest = slices.as_mut_slice();
        loop {
            let empty = rest.iter().take_while(|slice| slice.is_empty()).count();
            rest = rest.get_mut(empty..).unwrap_or_default();
            if rest.is_empty() {
                return Ok(());
            }
            let window: Vec<IoSlice<'_>> = rest
                .iter()
                .take(SLICES_MAX)
                .map(|slice| IoSlice::new(slice))
                .collect();
            let mut written = match rustix::io::pwritev(&self.file, &window, offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => written,
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            offset += written as u64;
            for slice in rest.iter_mut() {
                let taken = written.min(slice.len());
                *slice = slice.get(taken..).unwrap_or_default();
                written -= taken;
                if written == 0 {
                    break;
                }
            }
        }
    }
}

impl DiskFile for OsFile {
    fn write_vectored_at(&self, slices: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        self.changing(|| self.write_cached(slices, offset))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.changing(|| self.file.write_all_at(bytes, offset))
    }

    fn write_sectors_at(&self, slices: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        let length: u64 = slices.iter().map(|slice| slice.len() as u64).sum();
        let are_sectors = (offset | length).is_multiple_of(SECTOR);
        self.growing(offset, length, || match self.direct() {
            Some(direct) if are_sectors => match self.write_staged(direct, slices, offset) {
                // Refused, so nothing was written: this file takes it only through the cache.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                    self.write_cached(slices, offset)
                }
                done => done,
            },
            _ => self.write_cached(slices, offset),
        })
    }

    fn padding(&self) -> u64 {
        if self.direct().is_some() {
            SECTOR
        } else {
            PAGE
        }
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        // A short one is as well served by the cache, and a file that was never written to
        // past it may be there as a whole.
        if bytes.len() >= DIRECT_READ_BYTES
            && let Some(source) = self.source()
            && self.shared.blocks.read(source, bytes, offset)?
        {
            return Ok(());
        }
        self.file.read_exact_at(bytes, offset)
    }

    fn read_ahead(&self, offset: u64) {
        if let Some(source) = self.source() {
            self.shared.blocks.read_ahead(source, offset);
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn forget(&self, offset: u64) {
        // A hint; without it the figures are worse and the bytes the same.
        let _ = fadvise(&self.file, offset, None, Advice::DontNeed);
    }

    fn zero_fill(&self, length: u64) -> io::Result<()> {
        let zeros = Aligned::new(to_usize(length.min(ZEROS_BYTES)));
        let direct = self.direct().filter(|_| length.is_multiple_of(SECTOR));
        let file = direct.unwrap_or(&self.file);
        self.changing(|| {
            let mut offset = 0;
            while offset < length {
                let part = to_usize((length - offset).min(ZEROS_BYTES));
                file.write_all_at(zeros.bytes().get(..part).unwrap_or_default(), offset)?;
                offset += part as u64;
            }
            Ok(())
        })
    }
}

/// Linux refuses more slices in one call.
const SLICES_MAX: usize = 1024;
const ZEROS_BYTES: u64 = 1 << 20;
const STAGE_BYTES: usize = 512 << 10;
/// Shorter reads go through the system's cache.
const DIRECT_READ_BYTES: usize = 8 << 10;
const OWNER_FOLDER: u32 = 0o700;
const OWNER_FILE: u32 = 0o600;
