//! The seam to the outside: one flat folder of named files.
//!
//! Lacks paths, permissions and every kind of caching: a name is a file directly in the folder.
//! Invariant asked of implementers: bytes are durable once `sync_data` of their file returned,
//! names once `sync_folder` returned, and nothing is durable before.

use std::io::{self, IoSlice};

use crate::layout::PAGE;

/// A folder that belongs to one journal.
pub trait Disk: Send + Sync {
    /// An open file.
    type File: DiskFile;
    /// Held for as long as the folder is ours.
    type Lock: Send + Sync;

    /// Creates an empty file, replacing one of that name.
    fn create(&self, name: &str) -> io::Result<Self::File>;
    /// Opens a file that exists for reading and writing.
    fn open(&self, name: &str) -> io::Result<Self::File>;
    /// The names in the folder, in no particular order.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Renames a file, replacing the target.
    fn rename(&self, source: &str, target: &str) -> io::Result<()>;
    /// Makes names durable.
    fn sync_folder(&self) -> io::Result<()>;
    /// Takes the exclusive lock on the file of that name, creating it if need be.
    /// `WouldBlock` says that somebody else has it.
    fn lock(&self, name: &str) -> io::Result<Self::Lock>;
    /// A number that a client cannot guess and that no earlier call gave.
    fn entropy(&self) -> u64;
}

/// A file of a [`Disk`]. Handles stay valid when the file is renamed.
pub trait DiskFile: Send + Sync {
    /// Writes all slices one after the other from `offset` on.
    fn write_vectored_at(&self, slices: &[IoSlice<'_>], offset: u64) -> io::Result<()>;
    /// Writes all bytes from `offset` on.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_vectored_at(&[IoSlice::new(bytes)], offset)
    }
    /// As [`write_vectored_at`](Self::write_vectored_at), for what is synced at once and seldom
    /// read again: it need not stay in memory. What is not whole sectors goes the other way.
    fn write_sectors_at(&self, slices: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        self.write_vectored_at(slices, offset)
    }
    /// A write by [`write_sectors_at`](Self::write_sectors_at) that ends on a multiple of that
    /// makes the system read nothing.
    fn padding(&self) -> u64 {
        PAGE
    }
    /// Fills the whole buffer from `offset` on, `UnexpectedEof` if the file is shorter.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()>;
    /// Somebody has read up to there and is going to read on. Only a hint, which takes its time.
    fn read_ahead(&self, _offset: u64) {}
    /// Makes the bytes (and the length needed to find them) durable.
    fn sync_data(&self) -> io::Result<()>;
    /// The length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Whether the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// What memory has of the file from there on is not worth keeping. Only a hint, but with a
    /// point: where it is in memory in large pieces, each small write makes all of a piece dirty.
    fn forget(&self, _offset: u64) {}
    /// Writes zeros over the first `length` bytes, allocating them.
    fn zero_fill(&self, length: u64) -> io::Result<()>;
}

/// Whether the error says that there is no space, which is a state and not a failure.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

/// The whole content of a file.
pub(crate) fn read_all(file: &impl DiskFile) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; crate::layout::to_usize(file.len()?)];
    file.read_at(&mut bytes, 0)?;
    Ok(bytes)
}
