//! One record: a header that names it and the payload.
//!
//! Lacks any idea of the payload. Invariant: a header is accepted only where it was written, in
//! the use of the segment it was written for, because its checksum covers the salt and the
//! offset; neither a stale record nor a copy inside somebody's payload can pass for one.
//!
//! ```text
//!  0        4        8     9     10    12       16       20       24
//! ┌────────┬────────┬─────┬─────┬─────┬────────┬────────┬────────┬─────────
//! │ magic  │ length │class│flags│  0  │ shard  │ payload│ header │ index …
//! └────────┴────────┴─────┴─────┴─────┴────────┴ crc ───┴ crc ───┴─────────
//!  24              32              40               40+length
//! ┌───────────────┬───────────────┬────────────────┬──────────────┐
//! │ index         │ term          │ payload        │ zeros to 8   │
//! └───────────────┴───────────────┴────────────────┴──────────────┘
//! header crc = crc32c(salt ‖ offset in the segment ‖ header with this field zero)
//! ```

use menzil_model::{Class, Position, ShardId};

use crate::layout::{align, checksum, put, range, to_usize, u32_at, u64_at};

/// Bytes before the payload.
pub(crate) const HEADER_BYTES: u64 = 40;
const HEADER: usize = 40;

/// The record was taken out by a repair. Its payload, if any, starts with the count (u64) of
/// consecutive indexes that it stands for; without payload it stands for one.
pub(crate) const DROPPED: u8 = 1;
/// The record only fills a hole that a repair left; it has no position.
pub(crate) const FILLER: u8 = 2;

/// The header of a record, checksums aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    pub(crate) position: Position,
    pub(crate) class: Class,
    pub(crate) flags: u8,
    pub(crate) term: u64,
    /// Of the payload.
    pub(crate) length: u32,
    pub(crate) payload_crc: u32,
}

impl RecordHeader {
    /// Bytes of the whole record on disk.
    pub(crate) fn size(&self) -> u64 {
        align(HEADER_BYTES + u64::from(self.length))
    }

    /// Writes the header without its checksums, which `seal` adds when the place is known.
    pub(crate) fn encode(&self, record: &mut [u8]) {
        put(record, 0, &MAGIC);
        put(record, 4, &self.length.to_le_bytes());
        put(record, 8, &[self.class as u8, self.flags, 0, 0]);
        put(record, 12, &self.position.shard.0.to_le_bytes());
        put(record, 16, &self.payload_crc.to_le_bytes());
        put(record, 20, &0_u32.to_le_bytes());
        put(record, 24, &self.position.index.to_le_bytes());
        put(record, 32, &self.term.to_le_bytes());
    }

    /// The header at the start of `record` as it stands, whatever its checksum says.
    pub(crate) fn decode_unchecked(record: &[u8]) -> Option<Self> {
        Some(Self {
            position: Position {
                shard: ShardId(u32_at(record, 12)?),
                index: u64_at(record, 24)?,
            },
            class: Class::from_byte(*record.get(8)?)?,
            flags: *record.get(9)?,
            term: u64_at(record, 32)?,
            length: u32_at(record, 4)?,
            payload_crc: u32_at(record, 16)?,
        })
    }

    /// The header at `offset` of the segment's bytes, if it is one and its record ends by `end`.
    pub(crate) fn decode(segment: &[u8], offset: u64, end: u64, salt: u64) -> Option<Self> {
        let record = range(segment, offset, segment.len() as u64)?;
        let header = Self::check(record, offset, salt)?;
        (offset.checked_add(header.size())? <= end).then_some(header)
    }

    /// The header at the start of `record`, which lies at `offset`, if its checksum holds.
    pub(crate) fn check(record: &[u8], offset: u64, salt: u64) -> Option<Self> {
        if record.get(..4)? != MAGIC {
            return None;
        }
        let stored = u32_at(record, 20)?;
        (header_crc(record.get(..HEADER)?, offset, salt) == stored).then_some(())?;
        Self::decode_unchecked(record)
    }
}

/// What a damaged header said before one of its bytes went bad. Good for naming what is lost,
/// not for believing it: among so many tries a wrong one may pass, if seldom.
pub(crate) fn mend(record: &[u8], offset: u64, salt: u64) -> Option<RecordHeader> {
    let mut header = [0; HEADER];
    header.copy_from_slice(record.get(..HEADER)?);
    for at in 0..HEADER {
        let damaged = *header.get(at)?;
        for byte in 0..=u8::MAX {
            put(&mut header, at, &[byte]);
            if let Some(mended) = RecordHeader::check(&header, offset, salt) {
                return Some(mended);
            }
        }
        put(&mut header, at, &[damaged]);
    }
    None
}

/// The payload of a record whose header was accepted.
pub(crate) fn payload<'a>(record: &'a [u8], header: &RecordHeader) -> Option<&'a [u8]> {
    record.get(HEADER..HEADER.checked_add(to_usize(u64::from(header.length)))?)
}

/// Computes both checksums of the record that starts `record` and will lie at `offset`.
/// Returns its size.
pub(crate) fn seal(record: &mut [u8], offset: u64, salt: u64) -> Option<RecordHeader> {
    let header = RecordHeader::decode_unchecked(record)?;
    let payload_crc = checksum(payload(record, &header)?);
    put(record, 16, &payload_crc.to_le_bytes());
    let crc = header_crc(record.get(..HEADER)?, offset, salt);
    put(record, 20, &crc.to_le_bytes());
    Some(RecordHeader {
        payload_crc,
        ..header
    })
}

/// How many indexes the record stands for: one, unless a repair made it stand for a run.
pub(crate) fn span(header: &RecordHeader, payload: &[u8]) -> u64 {
    if header.flags & DROPPED == 0 {
        1
    } else {
        u64_at(payload, 0).unwrap_or(1).max(1)
    }
}

fn header_crc(header: &[u8], offset: u64, salt: u64) -> u32 {
    let mut bytes = [0; HEADER + 16];
    put(&mut bytes, 0, &salt.to_le_bytes());
    put(&mut bytes, 8, &offset.to_le_bytes());
    put(&mut bytes, 16, header);
    put(&mut bytes, 16 + 20, &[0; 4]);
    checksum(&bytes)
}

const MAGIC: [u8; 4] = *b"mRec";

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(payload: &[u8], offset: u64, salt: u64) -> (Vec<u8>, RecordHeader) {
        let header = RecordHeader {
            position: Position {
                shard: ShardId(3),
                index: 9,
            },
            class: Class::Message,
            flags: 0,
            term: 0,
            length: u32::try_from(payload.len()).unwrap(),
            payload_crc: 0,
        };
        let mut bytes = vec![0; HEADER];
        header.encode(&mut bytes);
        bytes.extend_from_slice(payload);
        bytes.resize(to_usize(header.size()), 0);
        let header = seal(&mut bytes, offset, salt).unwrap();
        (bytes, header)
    }

    #[test]
    fn a_sealed_record_is_read_back_where_it_was_written() {
        let (bytes, header) = sealed(b"hello", 512, 7);
        assert_eq!(RecordHeader::check(&bytes, 512, 7), Some(header));
        assert_eq!(payload(&bytes, &header), Some(&b"hello"[..]));
        assert_eq!(checksum(b"hello"), header.payload_crc);
    }

    #[test]
    fn a_record_of_another_use_or_place_is_none() {
        let (bytes, _) = sealed(b"hello", 512, 7);
        assert_eq!(RecordHeader::check(&bytes, 512, 8), None);
        assert_eq!(RecordHeader::check(&bytes, 520, 7), None);
    }

    #[test]
    fn a_header_with_one_bad_byte_still_names_its_record() {
        let (bytes, header) = sealed(b"hello", 512, 7);
        for at in 0..HEADER {
            let mut damaged = bytes.clone();
            damaged[at] = !damaged[at];
            assert_eq!(mend(&damaged, 512, 7), Some(header), "byte {at}");
        }
        assert_eq!(mend(&[0; HEADER], 512, 7), None);
    }

    #[test]
    fn every_flipped_header_bit_is_noticed() {
        let (bytes, _) = sealed(b"hello", 512, 7);
        for bit in 0..HEADER * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(RecordHeader::check(&damaged, 512, 7), None, "bit {bit}");
        }
    }
}
