//! A segment: a file of fixed length that batches are written into, one use after another.
//!
//! Lacks an end mark: the log ends where no batch of this use follows. Invariant: the header is
//! synced before the file gets its name, and the salt is new for each use.
//!
//! ```text
//!  0        4    6      8        16      24        32                          60  64   512
//! ┌────────┬────┬──────┬────────┬───────┬─────────┬───────────────────────────┬───┬────┬──────
//! │ magic  │ver.│flags │ id     │ salt  │ length  │ 0                         │crc│ 0  │ batch…
//! └────────┴────┴──────┴────────┴───────┴─────────┴───────────────────────────┴───┴────┴──────
//! flags bit 0: zero-filled for this use, so what follows the log is zeros
//!       bit 1: a cold file: batches of evacuated records, which are no part of the log's order
//! ```

use std::sync::Arc;

use crate::layout::{SECTOR, checksum, put, to_usize, u16_at, u32_at, u64_at};

/// Where the first batch starts.
pub(crate) const HEADER_BYTES: u64 = SECTOR;

/// An open segment.
#[derive(Debug)]
pub(crate) struct Segment<F> {
    pub(crate) id: u64,
    pub(crate) salt: u64,
    pub(crate) length: u64,
    pub(crate) file: Arc<F>,
}

impl<F> Clone for Segment<F> {
    fn clone(&self) -> Self {
        Self {
            id: self.id,
            salt: self.salt,
            length: self.length,
            file: Arc::clone(&self.file),
        }
    }
}

/// The header of a segment, its checksum aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) id: u64,
    pub(crate) salt: u64,
    pub(crate) length: u64,
    /// Whether the file was zeros before this use.
    pub(crate) fresh: bool,
    /// Whether it holds what was evacuated.
    pub(crate) cold: bool,
}

impl SegmentHeader {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; to_usize(HEADER_BYTES)];
        put(&mut bytes, 0, &MAGIC);
        put(&mut bytes, 4, &VERSION.to_le_bytes());
        let flags = u16::from(self.fresh) | u16::from(self.cold) << 1;
        put(&mut bytes, 6, &flags.to_le_bytes());
        put(&mut bytes, 8, &self.id.to_le_bytes());
        put(&mut bytes, 16, &self.salt.to_le_bytes());
        put(&mut bytes, 24, &self.length.to_le_bytes());
        let crc = checksum(bytes.get(..CRC).unwrap_or_default());
        put(&mut bytes, CRC, &crc.to_le_bytes());
        bytes
    }

    /// The header of segment `id`, `None` if it is damaged or of another one.
    pub(crate) fn decode(bytes: &[u8], id: u64) -> Option<Self> {
        let sound = bytes.get(..4)? == MAGIC
            && u32_at(bytes, CRC)? == checksum(bytes.get(..CRC)?)
            && u16_at(bytes, 4)? == VERSION
            && u64_at(bytes, 8)? == id;
        sound.then_some(())?;
        Some(Self {
            id,
            salt: u64_at(bytes, 16)?,
            length: u64_at(bytes, 24)?,
            fresh: u16_at(bytes, 6)? & 1 != 0,
            cold: u16_at(bytes, 6)? & 2 != 0,
        })
    }
}

const CRC: usize = 60;
const MAGIC: [u8; 4] = *b"mSeg";
const VERSION: u16 = 1;
