//! The state of a shard after one of its records, and what it sets free.
//!
//! Lacks any idea of the payload. Invariant: a checkpoint is current only after `committed`
//! reached it and its file and name are durable; only then the one before it goes, and only
//! then the segments that neither needs.
//!
//! ```text
//!  0       4       8        12  16       24       32            40           44   48
//! ┌───────┬───────┬────────┬───┬────────┬────────┬─────────────┬────────────┬────┬─────────
//! │ magic │version│ shard  │ 0 │ index  │ length │ payload crc │ header crc │ 0  │ payload…
//! └───────┴───────┴────────┴───┴────────┴────────┴─ 32..36 ────┴─ 36..40 ───┴────┴─────────
//! ```

use std::fmt;
use std::io;
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;

use menzil_model::ShardId;

use crate::disk::{Disk, DiskFile, is_full, read_all};
use crate::error::StorageError;
use crate::folder::{CHECKPOINT_RESERVES, EVACUATION_RESERVE, LOG_RESERVE, Name, fill, temporary};
use crate::journal::{Journal, locked, reading, writing};
use crate::layout::{PAGE, put, u32_at, u64_at};
use crate::preparer::folder;

/// Why a checkpoint was not installed. The one before it stays current.
#[derive(Debug)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The record it stands after is not durable yet.
    NotCommitted {
        /// Where it stands.
        index: u64,
        /// How far the shard is.
        committed: u64,
    },
    /// A later one is there already.
    Older {
        /// Where the later one stands.
        current: u64,
    },
    /// There is no space for it, not even in the reserve.
    Full,
    /// The system refused to write it.
    Io(io::Error),
    /// The journal has failed, or failed over this.
    Storage(StorageError),
}

impl fmt::Display for CheckpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotCommitted { index, committed } => {
                write!(
                    f,
                    "a checkpoint at {index} while only {committed} is committed"
                )
            }
            Self::Older { current } => write!(f, "there is a checkpoint at {current} already"),
            Self::Full => f.write_str("no space for a checkpoint"),
            Self::Io(error) => error.fmt(f),
            Self::Storage(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CheckpointError {}

/// The moment that a checkpoint is of: the last record of the shard, and which files nobody
/// needs by then.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a freeze without its checkpoint sets nothing free"]
pub struct Freeze {
    shard: ShardId,
    index: u64,
    unneeded: Vec<u64>,
}

impl Freeze {
    /// The record that the state stands after.
    pub fn index(&self) -> u64 {
        self.index
    }
}

/// A freeze that lies about its place: a bug for the simulation to find.
pub fn freeze_at(freeze: Freeze, index: u64) -> Freeze {
    Freeze { index, ..freeze }
}

impl<D: Disk> Journal<D> {
    /// To be called while the shard is held, after everything that it did was appended and
    /// released; the state of that moment is what [`install_checkpoint`] takes.
    ///
    /// [`install_checkpoint`]: Self::install_checkpoint
    pub fn freeze(&self, shard: ShardId) -> Freeze {
        let index = self.appended(shard);
        self.count_committed_releases();
        let unneeded = if self.needs_known.load(Ordering::Acquire) {
            reading(&self.directory).unneeded(shard, index)
        } else {
            Vec::new()
        };
        Freeze {
            shard,
            index,
            unneeded,
        }
    }

    /// Makes `payload` the state of the shard at the freeze, and sets free the files that nobody
    /// needed then: neither this state nor any later one names a record in them.
    pub fn install_checkpoint(
        &self,
        freeze: Freeze,
        payload: &[&[u8]],
    ) -> Result<(), CheckpointError> {
        let Freeze {
            shard,
            index,
            unneeded,
        } = freeze;
        match self.check() {
            Ok(()) | Err(StorageError::Closed) => {}
            Err(error) => return Err(CheckpointError::Storage(error)),
        }
        let committed = self.committed(shard);
        if committed < index {
            return Err(CheckpointError::NotCommitted { index, committed });
        }
        let mut checkpoints = locked(&self.checkpoints);
        let current = checkpoints.get(&shard).copied();
        if let Some(current) = current.filter(|current| index < *current) {
            return Err(CheckpointError::Older { current });
        }
        self.write_checkpoint(shard, index, payload)?;
        checkpoints.insert(shard, index);
        drop(checkpoints);
        let bytes = payload.iter().map(|part| part.len() as u64).sum();
        self.counts.checkpoint(bytes);
        self.reserve_later();
        self.evacuate_soon();
        let mut directory = writing(&self.directory);
        directory.set_free(shard, &unneeded);
        let dead = directory.take_dead();
        drop(directory);
        self.remove_older(shard, index)
            .and_then(|()| self.recycle(dead))
            .map_err(|error| self.fail(folder("recycling segments", error)))
            .map_err(CheckpointError::Storage)
    }

    /// Bytes of the files that the next checkpoints would set free.
    pub fn unneeded_bytes(&self) -> u64 {
        if !self.needs_known.load(Ordering::Acquire) {
            return 0;
        }
        reading(&self.directory).unneeded_bytes(|shard| self.committed(shard))
    }

    /// Counts the releases that wait for a commit though their records are on disk already, so
    /// that a freeze knows of them.
    fn count_committed_releases(&self) {
        let mut pending = locked(&self.pending);
        let releases = pending.releases.take();
        let (mut counted, mut later) = (Vec::new(), Vec::new());
        for release in releases {
            let (now, then) = release.split(self.committed(release.shard));
            counted.extend(now);
            later.extend(then);
        }
        pending.releases.put_back(later);
        drop(pending);
        self.count_releases(&counted);
    }

    fn write_checkpoint(
        &self,
        shard: ShardId,
        index: u64,
        payload: &[&[u8]],
    ) -> Result<(), CheckpointError> {
        let name = Name::Checkpoint(shard, index).to_string();
        let header = encode_header(shard, index, payload);
        let parts: Vec<&[u8]> = [&header[..]]
            .into_iter()
            .chain(payload.iter().copied())
            .collect();
        let temporary = temporary(&name);
        let written = self.write_temporary(&temporary, &parts).and_then(|()| {
            self.disk.rename(&temporary, &name)?;
            self.disk.sync_folder()
        });
        written.map_err(|error| {
            // Space is short; a name left over is removed at the next open.
            drop(self.disk.remove(&temporary));
            if is_full(&error) {
                CheckpointError::Full
            } else {
                CheckpointError::Io(error)
            }
        })
    }

    /// Writes the file, into the space of the reserve if there is no other.
    fn write_temporary(&self, temporary: &str, parts: &[&[u8]]) -> io::Result<()> {
        let written = self
            .disk
            .create(temporary)
            .and_then(|file| fill(&file, parts));
        match written {
            Err(error) if is_full(&error) => {
                drop(self.disk.remove(temporary));
                let mut reserves = CHECKPOINT_RESERVES.iter();
                if !reserves.any(|reserve| self.disk.rename(reserve, temporary).is_ok()) {
                    return Err(error);
                }
                fill(&self.disk.open(temporary)?, parts)
            }
            written => written,
        }
    }

    fn remove_older(&self, shard: ShardId, index: u64) -> io::Result<()> {
        for name in self.disk.list()? {
            if matches!(Name::parse(&name), Name::Checkpoint(of, at) if of == shard && at < index) {
                self.disk.remove(&name)?;
            }
        }
        self.disk.sync_folder()
    }
}

/// Keeps space aside for the short segment.
pub(crate) fn keep_log_reserve<D: Disk>(journal: &Journal<D>) -> io::Result<()> {
    let wanted = journal.options.log_reserve_bytes;
    set_aside(journal, LOG_RESERVE, wanted..=wanted, wanted)
}

/// Keeps space aside for a step of evacuation.
pub(crate) fn keep_evacuation_reserve<D: Disk>(journal: &Journal<D>) -> io::Result<()> {
    let wanted = journal.options.evacuation_reserve_bytes;
    let made = wanted.next_multiple_of(PAGE);
    set_aside(journal, EVACUATION_RESERVE, wanted..=u64::MAX, made)
}

/// Keeps space aside for the next checkpoint: at least what the options say and what the owner
/// expects; as long as nobody has said what to expect, twice the largest there is. If `trim`,
/// also not much more. In whole pages, whose zeros need not go through the system's cache.
pub(crate) fn keep_reserve<D: Disk>(journal: &Journal<D>, trim: bool) -> io::Result<()> {
    if journal.options.checkpoint_reserve_bytes == 0 {
        return Ok(());
    }
    let mut wanted = journal.options.checkpoint_reserve_bytes;
    let expected = journal.expected_checkpoint_bytes();
    wanted = wanted.max(expected);
    for name in journal.disk.list()? {
        if expected == 0 && matches!(Name::parse(&name), Name::Checkpoint(..)) {
            wanted = wanted.max(journal.disk.open(&name)?.len()?.saturating_mul(2));
        }
    }
    // In steps, so that a growing backlog does not write it again for each segment.
    let made = wanted.saturating_add(expected / 2);
    let made = (made.checked_next_multiple_of(PAGE)).unwrap_or(made);
    let most = if trim { made } else { u64::MAX };
    for reserve in CHECKPOINT_RESERVES {
        set_aside(journal, reserve, wanted..=most, made)?;
    }
    Ok(())
}

/// A file of that many bytes is there under that name; if it has to be made, it has `bytes`.
fn set_aside<D: Disk>(
    journal: &Journal<D>,
    name: &str,
    enough: RangeInclusive<u64>,
    bytes: u64,
) -> io::Result<()> {
    let kept = journal.disk.open(name).and_then(|file| file.len());
    if enough.contains(&kept.unwrap_or(0)) || bytes == 0 {
        return Ok(());
    }
    let temporary = temporary(name);
    let made = journal.disk.create(&temporary).and_then(|file| {
        file.zero_fill(bytes)?;
        journal.counts.zeroed(bytes);
        file.sync_data()?;
        journal.disk.rename(&temporary, name)
    });
    if made.is_err() {
        drop(journal.disk.remove(&temporary));
    }
    made
}

/// The payload of a checkpoint file, `None` if it is damaged or of another shard or record.
pub(crate) fn decode(bytes: &[u8], shard: ShardId, index: u64) -> Option<&[u8]> {
    let header = bytes.get(..HEADER)?;
    let mut blank = [0; HEADER];
    put(&mut blank, 0, header);
    put(&mut blank, HEADER_CRC, &[0; 4]);
    let sound = header.get(..4)? == MAGIC
        && u32_at(header, 4)? == VERSION
        && u32_at(header, HEADER_CRC)? == crate::layout::checksum(&blank)
        && u32_at(header, 8)? == shard.0
        && u64_at(header, 16)? == index;
    sound.then_some(())?;
    let length = usize::try_from(u64_at(header, 24)?).ok()?;
    // In the space of a reserve there may be more bytes than were written.
    let payload = bytes.get(HEADER..HEADER.checked_add(length)?)?;
    (crate::layout::checksum(payload) == u32_at(header, PAYLOAD_CRC)?).then_some(payload)
}

/// Reads a checkpoint file; `None` if it is damaged.
pub(crate) fn read<D: Disk>(disk: &D, shard: ShardId, index: u64) -> io::Result<Option<Vec<u8>>> {
    let bytes = read_all(&disk.open(&Name::Checkpoint(shard, index).to_string())?)?;
    Ok(decode(&bytes, shard, index).map(<[u8]>::to_vec))
}

fn encode_header(shard: ShardId, index: u64, payload: &[&[u8]]) -> [u8; HEADER] {
    let length: u64 = payload.iter().map(|part| part.len() as u64).sum();
    let mut crc = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    for part in payload {
        crc.update(part);
    }
    let crc = u32::try_from(crc.finalize()).unwrap_or(u32::MAX);
    let mut header = [0; HEADER];
    put(&mut header, 0, &MAGIC);
    put(&mut header, 4, &VERSION.to_le_bytes());
    put(&mut header, 8, &shard.0.to_le_bytes());
    put(&mut header, 16, &index.to_le_bytes());
    put(&mut header, 24, &length.to_le_bytes());
    put(&mut header, PAYLOAD_CRC, &crc.to_le_bytes());
    let crc = crate::layout::checksum(&header);
    put(&mut header, HEADER_CRC, &crc.to_le_bytes());
    header
}

const HEADER: usize = 48;
const PAYLOAD_CRC: usize = 32;
const HEADER_CRC: usize = 36;
const MAGIC: [u8; 4] = *b"mChk";
const VERSION: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_read_back_and_every_flipped_byte_is_noticed() {
        let mut bytes = encode_header(ShardId(3), 9, &[b"ab", b"", b"cd"]).to_vec();
        bytes.extend_from_slice(b"abcd");
        assert_eq!(decode(&bytes, ShardId(3), 9), Some(&b"abcd"[..]));
        assert_eq!(decode(&bytes, ShardId(3), 8), None);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(decode(&damaged, ShardId(3), 9), None, "byte {at}");
        }
    }
}
