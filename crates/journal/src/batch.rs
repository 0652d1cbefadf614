//! The header of a batch: what one sync covered.
//!
//! Lacks a checksum of the body, which the records have themselves. Invariant: a batch is
//! written only after the one before it was synced, so a valid batch proves all before it.
//!
//! ```text
//!  0       4    6    8        16        24        32         40      44      48       56  60  64
//! ┌───────┬────┬────┬────────┬─────────┬─────────┬──────────┬───────┬───────┬────────┬───┬───┐
//! │ magic │ver.│cls.│ salt   │ segment │ number  │ previous │length │ count │ offset │ 0 │crc│
//! └───────┴────┴────┴────────┴─────────┴─────────┴──────────┴───────┴───────┴────────┴───┴───┘
//! then `count` records up to `length`, then zeros to the end of the sector
//! cls.      one bit for each class present
//! number    counts all batches of the journal
//! previous  the segment that holds batch number-1, 0 for none
//! ```

use menzil_model::Class;

use crate::layout::{checksum, put, range, u16_at, u32_at, u64_at};

/// Bytes before the first record.
pub(crate) const HEADER_BYTES: u64 = 64;
const HEADER: usize = 64;

/// The header of a batch, its checksum aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchHeader {
    pub(crate) classes: Classes,
    pub(crate) salt: u64,
    pub(crate) segment: u64,
    pub(crate) number: u64,
    pub(crate) previous: u64,
    /// With this header, without the padding.
    pub(crate) length: u32,
    pub(crate) count: u32,
    pub(crate) offset: u64,
}

impl BatchHeader {
    pub(crate) fn encode(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        put(&mut bytes, 0, &MAGIC);
        put(&mut bytes, 4, &VERSION.to_le_bytes());
        put(&mut bytes, 6, &self.classes.0.to_le_bytes());
        put(&mut bytes, 8, &self.salt.to_le_bytes());
        put(&mut bytes, 16, &self.segment.to_le_bytes());
        put(&mut bytes, 24, &self.number.to_le_bytes());
        put(&mut bytes, 32, &self.previous.to_le_bytes());
        put(&mut bytes, 40, &self.length.to_le_bytes());
        put(&mut bytes, 44, &self.count.to_le_bytes());
        put(&mut bytes, 48, &self.offset.to_le_bytes());
        let crc = checksum(bytes.get(..CRC).unwrap_or_default());
        put(&mut bytes, CRC, &crc.to_le_bytes());
        bytes
    }

    /// The header of a batch of that segment at `offset` of its bytes. Where the salt is not
    /// known, any is taken.
    pub(crate) fn decode(
        bytes: &[u8],
        offset: u64,
        segment: u64,
        salt: Option<u64>,
    ) -> Option<Self> {
        let batch = Self::decode_prefix(bytes, offset, segment, salt)?;
        let end = offset.checked_add(u64::from(batch.length))?;
        (end <= bytes.len() as u64).then_some(batch)
    }

    /// As [`decode`](Self::decode), where the bytes of the batch itself are not at hand.
    pub(crate) fn decode_prefix(
        bytes: &[u8],
        offset: u64,
        segment: u64,
        salt: Option<u64>,
    ) -> Option<Self> {
        let header = range(bytes, offset, offset.checked_add(HEADER_BYTES)?)?;
        if header.get(..4)? != MAGIC || salt.is_some_and(|salt| u64_at(header, 8) != Some(salt)) {
            return None;
        }
        let crc = checksum(header.get(..CRC)?);
        if u32_at(header, CRC)? != crc || u16_at(header, 4)? != VERSION {
            return None;
        }
        let batch = Self {
            classes: Classes(u16_at(header, 6)?),
            salt: u64_at(header, 8)?,
            segment: u64_at(header, 16)?,
            number: u64_at(header, 24)?,
            previous: u64_at(header, 32)?,
            length: u32_at(header, 40)?,
            count: u32_at(header, 44)?,
            offset: u64_at(header, 48)?,
        };
        let placed = batch.segment == segment && batch.offset == offset;
        (placed && u64::from(batch.length) >= HEADER_BYTES).then_some(batch)
    }

    /// Whether a header of this use was begun at `offset`, valid or not.
    pub(crate) fn is_begun(bytes: &[u8], offset: u64, salt: u64) -> bool {
        range(bytes, offset, offset.saturating_add(HEADER_BYTES)).is_some_and(|header| {
            header.get(..4) == Some(&MAGIC) && u64_at(header, 8) == Some(salt)
        })
    }
}

/// Whether the bytes begin like a batch.
pub(crate) fn is_magic(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

/// A set of record classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Classes(u16);

impl Classes {
    /// What must be assumed of records nothing is known about.
    pub(crate) const ALL: Self = Self(0b1110);

    pub(crate) fn insert(&mut self, class: Class) {
        self.0 |= 1 << (class as u8);
    }

    pub(crate) fn contains(self, class: Class) -> bool {
        self.0 & (1 << (class as u8)) != 0
    }

    /// The class that a lost record of such a batch must be taken for: the gravest, unless
    /// what was left of its header names one that is possible.
    pub(crate) fn assume(self, hint: Option<Class>) -> Class {
        if self.contains(Class::Topology) {
            return Class::Topology;
        }
        match hint {
            Some(class) if self.contains(class) => class,
            _ if self.contains(Class::Message) => Class::Message,
            _ if self.contains(Class::Session) => Class::Session,
            _ => Class::Topology,
        }
    }
}

const CRC: usize = 60;
const MAGIC: [u8; 4] = *b"mBat";
const VERSION: u16 = 1;
