//! A folder of the operating system.
//!
//! Lacks direct IO and rings: plain buffered writes until something else is measured to win.
//! Invariant: `sync_data` is the real sync of the platform (`fdatasync`; `F_FULLFSYNC` on macOS,
//! which the standard library does).

use std::fs::{self, DirBuilder, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, IoSlice};
use std::os::unix::fs::{DirBuilderExt as _, FileExt, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, FlockOperation, fadvise, flock};

use crate::disk::{Disk, DiskFile};
use crate::layout::to_usize;

/// A folder of the operating system as a [`Disk`].
#[derive(Debug)]
pub struct OsDisk {
    path: PathBuf,
    folder: File,
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
        Ok(Self { path, folder })
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
        options.open(path).map(|file| OsFile { file })
    }

    fn open(&self, name: &str) -> io::Result<OsFile> {
        let path = self.path.join(name);
        File::options()
            .read(true)
            .write(true)
            .open(path)
            .map(|file| OsFile { file })
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
}

impl DiskFile for OsFile {
    fn write_vectored_at(&self, slices: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
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

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(bytes, offset)
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
        let zeros = vec![0; to_usize(length.min(ZEROS_BYTES))];
        let mut offset = 0;
        while offset < length {
            let part = to_usize((length - offset).min(ZEROS_BYTES));
            self.file
                .write_all_at(zeros.get(..part).unwrap_or_default(), offset)?;
            offset += part as u64;
        }
        Ok(())
    }
}

/// Linux refuses more slices in one call.
const SLICES_MAX: usize = 1024;
const ZEROS_BYTES: u64 = 1 << 20;
const OWNER_FOLDER: u32 = 0o700;
const OWNER_FILE: u32 = 0o600;
