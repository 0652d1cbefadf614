//! Past the system's cache: what is written once and seldom read again needs no copy there.
//!
//! Lacks any file of its own. Invariant: nothing is read from a block that the file was written
//! to after it; where a file system, the memory or a length do not allow it, the way through the
//! cache is as good.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::layout::{PAGE, to_usize};

/// A second handle of the file that goes past the cache, `None` where that cannot be had.
#[cfg(target_os = "linux")]
pub(crate) fn reopen(file: &File) -> Option<File> {
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::OpenOptionsExt as _;

    use rustix::fs::{AtFlags, OFlags, StatxFlags, statx};

    let found = statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    let (memory, offset) = (found.stx_dio_mem_align, found.stx_dio_offset_align);
    // Zeros where the system cannot tell or the file system cannot do it.
    let can = memory > 0 && PAGE.is_multiple_of(u64::from(memory));
    let can = can && offset > 0 && crate::layout::SECTOR.is_multiple_of(u64::from(offset));
    can.then_some(())?;
    File::options()
        .read(true)
        .write(true)
        .custom_flags(OFlags::DIRECT.bits().cast_signed())
        .open(format!("/proc/self/fd/{}", file.as_raw_fd()))
        .ok()
}

/// Other systems have no such handle.
#[cfg(not(target_os = "linux"))]
pub(crate) fn reopen(_file: &File) -> Option<File> {
    None
}

/// Which parts of a file were read past the cache: who reads one again is not the only one, and
/// the next finds it in the cache.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    parts: Mutex<Vec<bool>>,
}

impl Seen {
    fn has(&self, offset: u64) -> bool {
        let parts = self.parts();
        parts.get(to_usize(offset / PART)).is_some_and(|seen| *seen)
    }

    fn add(&self, start: u64, end: u64) {
        let (first, after) = (to_usize(start.div_ceil(PART)), to_usize(end / PART));
        let mut parts = self.parts();
        if parts.len() < after {
            parts.resize(after, false);
        }
        for part in parts.get_mut(first..after).unwrap_or_default() {
            *part = true;
        }
    }

    fn parts(&self) -> MutexGuard<'_, Vec<bool>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Zeroed memory that begins on a page.
#[derive(Debug)]
pub(crate) struct Aligned {
    bytes: Vec<u8>,
    start: usize,
    length: usize,
}

impl Aligned {
    pub(crate) fn new(length: usize) -> Self {
        let bytes = vec![0; length + to_usize(PAGE)];
        let start = bytes.as_ptr().align_offset(to_usize(PAGE));
        Self {
            bytes,
            start,
            length,
        }
    }

    /// All of it.
    pub(crate) fn bytes(&self) -> &[u8] {
        let bytes = self.bytes.get(self.start..self.start + self.length);
        bytes.unwrap_or_default()
    }

    /// As [`bytes`](Self::bytes), to be filled.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        let bytes = self.bytes.get_mut(self.start..self.start + self.length);
        bytes.unwrap_or_default()
    }
}

/// Which state of which file something was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) file: u64,
    /// Changes with each write that is not behind all before it.
    pub(crate) changes: u64,
}

/// A file as it is now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a> {
    pub(crate) direct: &'a File,
    pub(crate) version: Version,
    /// What lies before this changes only with the version.
    pub(crate) stable: u64,
    pub(crate) seen: &'a Seen,
}

/// The blocks that were read last, for who reads on.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    kept: Mutex<Vec<Block>>,
}

#[derive(Debug)]
struct Block {
    version: Version,
    start: u64,
    length: usize,
    memory: Aligned,
}

impl Blocks {
    /// Fills `bytes` from `offset` on; false where the cache is the better way.
    pub(crate) fn read(
        &self,
        source: Source<'_>,
        bytes: &mut [u8],
        offset: u64,
    ) -> io::Result<bool> {
        let version = source.version;
        let (mut rest, mut offset) = (bytes, offset);
        while !rest.is_empty() {
            let mut block = self.take(version, offset);
            if !block.has(version, offset) {
                if source.seen.has(offset + rest.len() as u64 / 2) {
                    self.kept().insert(0, block);
                    return Ok(false);
                }
                // Who goes on where a block ends will go on again.
                let goes_on = block.ends(version, offset);
                let start = offset - offset % PAGE;
                let wanted = to_usize(offset - start).saturating_add(rest.len());
                block.load(source, start, if goes_on { BLOCK_BYTES } else { wanted })?;
            }
            let there = block.rest_from(offset);
            let count = there.len().min(rest.len());
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let (target, after) = rest.split_at_mut(count);
            target.copy_from_slice(there.get(..count).unwrap_or_default());
            rest = after;
            offset += count as u64;
            block.settle(source.stable);
            self.kept().push(block);
        }
        Ok(true)
    }

    /// Who read up to there, or nearly, from a block is going to read on: has the next one
    /// ready.
    pub(crate) fn read_ahead(&self, source: Source<'_>, offset: u64) {
        let version = source.version;
        let kept = self.kept();
        let current = kept.iter().find(|block| block.reaches(version, offset));
        let Some(next) = current.map(Block::end) else {
            return;
        };
        let is_there = kept.iter().any(|block| block.has(version, next));
        let is_soon = next - offset <= BLOCK_BYTES as u64 / 2;
        if is_there || !is_soon || !next.is_multiple_of(PAGE) || next >= source.stable {
            return;
        }
        drop(kept);
        if source.seen.has(next + PART) {
            return;
        }
        let mut block = self.oldest(version);
        if block.load(source, next, BLOCK_BYTES).is_ok() {
            block.settle(source.stable);
            self.kept().push(block);
        }
    }

    /// The block that has what lies there; else one that ends there or the oldest, to be used
    /// for it.
    fn take(&self, version: Version, offset: u64) -> Block {
        let mut kept = self.kept();
        let has = kept.iter().position(|block| block.has(version, offset));
        let ends = || kept.iter().position(|block| block.ends(version, offset));
        if let Some(at) = has.or_else(ends) {
            return kept.remove(at);
        }
        drop(kept);
        self.oldest(version)
    }

    fn oldest(&self, version: Version) -> Block {
        let mut kept = self.kept();
        if kept.len() >= BLOCKS_MAX {
            return kept.remove(0);
        }
        Block {
            version,
            start: 0,
            length: 0,
            memory: Aligned::new(BLOCK_BYTES),
        }
    }

    fn kept(&self) -> MutexGuard<'_, Vec<Block>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Block {
    fn end(&self) -> u64 {
        self.start + self.length as u64
    }

    fn has(&self, version: Version, offset: u64) -> bool {
        self.version == version && (self.start..self.end()).contains(&offset)
    }

    fn ends(&self, version: Version, offset: u64) -> bool {
        self.version == version && self.length > 0 && self.end() == offset
    }

    fn reaches(&self, version: Version, offset: u64) -> bool {
        self.has(version, offset) || self.ends(version, offset)
    }

    /// Forgets what may have changed since.
    fn settle(&mut self, stable: u64) {
        let length = to_usize(stable.saturating_sub(self.start));
        self.length = self.length.min(length);
    }

    fn rest_from(&self, offset: u64) -> &[u8] {
        let at = to_usize(offset.saturating_sub(self.start));
        self.memory.bytes().get(at..self.length).unwrap_or_default()
    }

    fn load(&mut self, source: Source<'_>, start: u64, wanted: usize) -> io::Result<()> {
        let wanted = wanted.next_multiple_of(to_usize(PAGE)).min(BLOCK_BYTES);
        self.length = 0;
        self.version = source.version;
        self.start = start;
        let memory = self.memory.bytes_mut().get_mut(..wanted);
        let memory = memory.unwrap_or_default();
        self.length = loop {
            match source.direct.read_at(memory, start) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => break done?,
            }
        };
        source.seen.add(start, self.end().min(source.stable));
        Ok(())
    }
}

/// A read costs some 80 µs of the processor whatever its length (ADR 0007).
const BLOCK_BYTES: usize = 1 << 20;
const BLOCKS_MAX: usize = 4;
const PART: u64 = 16 << 10;

#[cfg(test)]
#[expect(clippy::cast_possible_truncation, reason = "a test may")]
mod tests {
    use std::io::IoSlice;

    use crate::disk::{Disk as _, DiskFile as _};
    use crate::os_disk::OsDisk;

    /// Numbers that look random.
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, bound: u64) -> u64 {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (self.0 >> 33) % bound
        }
    }

    /// Writes and reads of any kind on files of some folder, beside vectors.
    fn behaves_like_vectors(folder: &std::path::Path) {
        drop(std::fs::remove_dir_all(folder));
        let disk = OsDisk::new(folder).unwrap();
        let length = 3 << 20;
        let files = ["one", "two"].map(|name| disk.create(name).unwrap());
        let mut twins = [vec![0; length], vec![0; length]];
        for file in &files {
            file.zero_fill(length as u64).unwrap();
        }
        let mut numbers = Numbers(7);
        let mut reads_on = 0;
        for _ in 0..600 {
            let which = usize::from(numbers.below(4) == 0);
            let (file, twin) = (&files[which], &mut twins[which]);
            let bits = numbers.below(12);
            let sectors = 1 + numbers.below(1 << bits);
            let room = (length as u64 / 512) - sectors;
            let (at, count) = (
                numbers.below(room + 1) as usize * 512,
                sectors as usize * 512,
            );
            match numbers.below(8) {
                0 => {
                    let bytes: Vec<u8> = (0..count).map(|n| (n as u64 + numbers.0) as u8).collect();
                    let (head, tail) = bytes.split_at(numbers.below(count as u64) as usize);
                    let slices = [IoSlice::new(head), IoSlice::new(tail)];
                    file.write_sectors_at(&slices, at as u64).unwrap();
                    file.sync_data().unwrap();
                    twin[at..at + count].copy_from_slice(&bytes);
                }
                1 => {
                    let bytes = vec![numbers.0 as u8; count.min(700)];
                    file.write_at(&bytes, at as u64 + 3).unwrap();
                    file.sync_data().unwrap();
                    let end = (at + 3 + bytes.len()).min(length);
                    twin[at + 3..end].copy_from_slice(&bytes[..end - at - 3]);
                }
                2 => file.read_ahead(reads_on),
                // Read on where the last one ended.
                3..=5 if (reads_on as usize) < length => {
                    let rest = length - reads_on as usize;
                    let mut bytes = vec![9; rest.min(count + 40_000)];
                    file.read_at(&mut bytes, reads_on).unwrap();
                    let at = reads_on as usize;
                    assert!(bytes == twin[at..at + bytes.len()], "at {at}");
                    reads_on += bytes.len() as u64;
                }
                _ => {
                    let mut bytes = vec![9; count];
                    file.read_at(&mut bytes, at as u64).unwrap();
                    assert!(bytes == twin[at..at + count], "at {at}");
                    reads_on = (at + count) as u64;
                }
            }
        }
        for (file, twin) in files.iter().zip(&twins) {
            let longer = file.len().unwrap();
            assert!(longer >= length as u64);
            let mut bytes = vec![1; length];
            file.read_at(&mut bytes, 0).unwrap();
            assert!(bytes == *twin);
            let mut beyond = vec![1; 20_000];
            let read = file.read_at(&mut beyond, longer - 10_000);
            assert_eq!(
                read.map_err(|error| error.kind()),
                Err(std::io::ErrorKind::UnexpectedEof)
            );
        }
        drop(std::fs::remove_dir_all(folder));
    }

    #[test]
    fn past_the_cache_a_file_reads_as_it_was_written() {
        // Beside the build, where a real file system is.
        let name = format!("direct-{}", std::process::id());
        behaves_like_vectors(
            &std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("../../target")
                .join(&name),
        );
        behaves_like_vectors(&std::env::temp_dir().join(&name));
        // Memory has no way past itself.
        if std::path::Path::new("/dev/shm").is_dir() {
            behaves_like_vectors(&std::path::Path::new("/dev/shm").join(&name));
        }
    }
}
