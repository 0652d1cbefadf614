//! Scratch space for index pages: a file in the data folder that has no name, so that it is gone
//! with the process however that ends. It is made when the first page comes.
//!
//! ```text
//! place := check:u64be page     in the smallest of 256 B, 512 B, … that holds it
//! ```
//!
//! Nothing is synced. A page is written to the system's cache, and announced before it is wanted,
//! so that a shard that is held seldom waits for the disk.

use std::fs::{File, OpenOptions};
use std::hash::{DefaultHasher, Hasher};
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::OnceLock;

use menzil_core::Scratch;
use menzil_model::fact::Packed;
use parking_lot::Mutex;

use crate::driver::stop_node;
use crate::log;

/// See the module.
#[derive(Debug)]
pub(crate) struct ScratchFile {
    folder: PathBuf,
    file: OnceLock<Option<File>>,
    space: Mutex<Space>,
}

/// Which places are free.
#[derive(Debug, Default)]
struct Space {
    end: u64,
    /// By size: 256 bytes, twice that, and so on.
    free: Vec<Vec<u64>>,
}

const PLACE_LEAST_BYTES: u64 = 256;
const CHECK_BYTES: usize = 8;

impl Space {
    fn take(&mut self, bytes: u64) -> u64 {
        let size = place_bytes(bytes);
        if let Some(place) = self.free.get_mut(class(size)).and_then(Vec::pop) {
            return place;
        }
        let place = self.end;
        self.end += size;
        place
    }

    fn give(&mut self, place: u64, bytes: u64) {
        let class = class(place_bytes(bytes));
        if self.free.len() <= class {
            self.free.resize_with(class + 1, Vec::new);
        }
        if let Some(free) = self.free.get_mut(class) {
            free.push(place);
        }
    }
}

/// What a page of that many bytes takes.
fn place_bytes(bytes: u64) -> u64 {
    (bytes + CHECK_BYTES as u64)
        .next_power_of_two()
        .max(PLACE_LEAST_BYTES)
}

fn class(place_bytes: u64) -> usize {
    (place_bytes / PLACE_LEAST_BYTES).trailing_zeros() as usize
}

fn check_of(place: u64, page: &[u8]) -> [u8; CHECK_BYTES] {
    let mut hasher = DefaultHasher::new();
    hasher.write_u64(place);
    hasher.write(page);
    hasher.finish().to_be_bytes()
}

impl ScratchFile {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            file: OnceLock::new(),
            space: Mutex::default(),
        }
    }

    fn file(&self) -> Option<&File> {
        let made = self.file.get_or_init(|| match self.make() {
            Ok(file) => Some(file),
            Err(error) => {
                log::warn(
                    "no scratch file can be made; index pages stay in memory",
                    &[("data_dir", &self.folder.display()), ("why", &error)],
                );
                None
            }
        });
        made.as_ref()
    }

    fn make(&self) -> std::io::Result<File> {
        let path = self.folder.join("index.scratch");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        let file = options.open(&path)?;
        std::fs::remove_file(&path)?;
        Ok(file)
    }

    fn read(&self, place: u64, bytes: u64) -> Result<Packed, String> {
        let file = self.file().ok_or("there is no scratch file")?;
        let length = usize::try_from(bytes).map_err(|error| error.to_string())?;
        let mut stored = vec![0; CHECK_BYTES + length];
        file.read_exact_at(&mut stored, place)
            .map_err(|error| error.to_string())?;
        let (check, page) = stored.split_at_checked(CHECK_BYTES).unwrap_or_default();
        if check != check_of(place, page) {
            return Err("it is not what was written".to_owned());
        }
        let (packed, _) = Packed::read(page).map_err(|error| error.to_string())?;
        Ok(packed)
    }
}

impl Scratch for ScratchFile {
    fn store(&self, page: &[u8]) -> Option<u64> {
        let file = self.file()?;
        let place = self.space.lock().take(page.len() as u64);
        let mut stored = Vec::with_capacity(CHECK_BYTES + page.len());
        stored.extend_from_slice(&check_of(place, page));
        stored.extend_from_slice(page);
        if file.write_all_at(&stored, place).is_err() {
            // A full disk, most likely: the page stays in memory.
            self.free(place, page.len() as u64);
            return None;
        }
        Some(place)
    }

    fn load(&self, place: u64, bytes: u64) -> Packed {
        match self.read(place, bytes) {
            Ok(page) => page,
            Err(why) => stop_node(&format!("an index page cannot be read back: {why}")),
        }
    }

    fn announce(&self, place: u64, bytes: u64) {
        if let (Some(file), Some(length)) = (self.file(), NonZeroU64::new(place_bytes(bytes))) {
            // Only a hint: what comes of it shows when the page is read.
            let advice = rustix::fs::Advice::WillNeed;
            let _hint = rustix::fs::fadvise(file, place, Some(length), advice);
        }
    }

    fn free(&self, place: u64, bytes: u64) {
        self.space.lock().give(place, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use menzil_model::Sequence;
    use menzil_model::fact::{Chunks, Extent, Origin, StoredEntry};

    fn page(first: u64, count: u64) -> Packed {
        let entry = |sequence| StoredEntry {
            sequence: Sequence(sequence),
            origin: Origin {
                index: sequence,
                part: 0,
            },
            extent: Extent {
                body_bytes: sequence * 7919 % 5000,
                total_bytes: 6000,
                chunks: Chunks::default(),
            },
            expires_at: None,
        };
        Packed::pack((first..first + count).map(entry)).unwrap()
    }

    #[test]
    fn pages_come_back_and_places_are_used_again() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = ScratchFile::new(folder.path().to_owned());
        let mut kept = Vec::new();
        for round in 0..3 {
            for first in 1..40 {
                let page = page(first, 10 * first);
                let place = scratch.store(page.as_bytes()).unwrap();
                kept.push((place, page));
            }
            for (place, page) in kept.drain(..) {
                let bytes = page.as_bytes().len() as u64;
                scratch.announce(place, bytes);
                assert_eq!(scratch.load(place, bytes), page, "round {round}");
                scratch.free(place, bytes);
            }
        }
        let end = scratch.space.lock().end;
        let once: u64 = (1..40)
            .map(|first| place_bytes(page(first, 10 * first).as_bytes().len() as u64))
            .sum();
        assert_eq!(end, once);
        assert_eq!(
            folder.path().read_dir().unwrap().count(),
            0,
            "it has a name"
        );
    }

    #[test]
    fn a_page_that_changed_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = ScratchFile::new(folder.path().to_owned());
        let page = page(1, 100);
        let bytes = page.as_bytes().len() as u64;
        let place = scratch.store(page.as_bytes()).unwrap();
        let file = scratch.file().unwrap();
        file.write_all_at(b"x", place + 20).unwrap();
        assert!(scratch.read(place, bytes).is_err());
    }

    #[test]
    fn without_a_folder_pages_stay_in_memory() {
        let scratch = ScratchFile::new(PathBuf::from("/nowhere/at/all"));
        assert_eq!(scratch.store(page(1, 1).as_bytes()), None);
    }
}
