//! One record: a header that names it and the payload.
//!
//! Lacks any idea of the payload. Invariant: a header is accepted only where it was written, in
//! the use of the segment it was written for, because its checksum covers the salt and the
//! offset; neither a stale record nor a copy inside somebody's payload can pass for one.
//!
//! ```text
//!  0        4     5     6       8       12       16       20      24              32
//! ┌────────┬─────┬─────┬───────┬───────┬────────┬────────┬───────┬───────────────┬─────────
//! │ length │class│flags│ magic │ shard │ payload│ header │ term  │ index         │ payload…
//! └────────┴─────┴─────┴───────┴───────┴ crc ───┴ crc ───┴───────┴───────────────┴ zeros to 8
//! header crc = crc32c(salt ‖ offset in the segment ‖ header with this field zero)
//! ```
//! Until a record is sealed, the place of the header's checksum holds the number of references.

use menzil_model::{Class, Position, ShardId};

use crate::layout::{align, checksum, put, range, to_usize, u32_at, u64_at};

/// Bytes before the payload.
pub(crate) const HEADER_BYTES: u64 = 32;
pub(crate) const HEADER: usize = 32;

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
    pub(crate) term: u32,
    /// Of the payload.
    pub(crate) length: u32,
    pub(crate) payload_crc: u32,
}

impl RecordHeader {
    /// Bytes of the whole record on disk.
    pub(crate) fn size(&self) -> u64 {
        align(HEADER_BYTES + u64::from(self.length))
    }

    /// The header without its checksums, which `seal` adds when the place is known.
    pub(crate) fn encode(&self, references: u32) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        put(&mut bytes, 0, &self.length.to_le_bytes());
        put(&mut bytes, 4, &[self.class as u8, self.flags]);
        put(&mut bytes, 6, &MAGIC);
        put(&mut bytes, 8, &self.position.shard.0.to_le_bytes());
        put(&mut bytes, PAYLOAD_CRC, &self.payload_crc.to_le_bytes());
        put(&mut bytes, HEADER_CRC, &references.to_le_bytes());
        put(&mut bytes, 20, &self.term.to_le_bytes());
        put(&mut bytes, 24, &self.position.index.to_le_bytes());
        bytes
    }

    /// The header at the start of `record` as it stands, whatever its checksum says.
    #[inline]
    pub(crate) fn decode_unchecked(record: &[u8]) -> Option<Self> {
        let record = record.first_chunk::<HEADER>()?;
        Some(Self {
            position: Position {
                shard: ShardId(u32_at(record, 8)?),
                index: u64_at(record, 24)?,
            },
            class: Class::from_byte(*record.get(4)?)?,
            flags: *record.get(5)?,
            term: u32_at(record, 20)?,
            length: u32_at(record, 0)?,
            payload_crc: u32_at(record, PAYLOAD_CRC)?,
        })
    }

    /// As [`decode_unchecked`](Self::decode_unchecked), if there seems to be one at all.
    #[inline]
    pub(crate) fn peek(record: &[u8]) -> Option<Self> {
        (record.get(6..8)? == MAGIC).then_some(())?;
        Self::decode_unchecked(record)
    }

    /// The header at `offset` of the segment's bytes, if it is one and its record ends by `end`.
    pub(crate) fn decode(segment: &[u8], offset: u64, end: u64, salt: u64) -> Option<Self> {
        let record = range(segment, offset, segment.len() as u64)?;
        let header = Self::check(record, offset, salt)?;
        (offset.checked_add(header.size())? <= end).then_some(header)
    }

    /// The header at the start of `record`, which lies at `offset`, if its checksum holds.
    pub(crate) fn check(record: &[u8], offset: u64, salt: u64) -> Option<Self> {
        let header = Self::peek(record)?;
        let stored = u32_at(record, HEADER_CRC)?;
        (header_crc(record.first_chunk()?, offset, salt) == stored).then_some(header)
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

/// Computes both checksums of the record that starts `record` and will lie at `offset`. Returns
/// how many will need it.
pub(crate) fn seal(record: &mut [u8], offset: u64, salt: u64) -> Option<u32> {
    let header = RecordHeader::decode_unchecked(record)?;
    let references = u32_at(record, HEADER_CRC)?;
    let payload_crc = checksum(payload(record, &header)?);
    put(record, PAYLOAD_CRC, &payload_crc.to_le_bytes());
    seal_header(record, offset, salt)?;
    Some(references)
}

/// Computes the checksum of the header alone: the record was sealed before, for another place.
pub(crate) fn seal_header(record: &mut [u8], offset: u64, salt: u64) -> Option<()> {
    let crc = header_crc(record.first_chunk()?, offset, salt);
    put(record, HEADER_CRC, &crc.to_le_bytes());
    Some(())
}

/// How many indexes the record stands for: one, unless a repair made it stand for a run.
pub(crate) fn span(header: &RecordHeader, payload: &[u8]) -> u64 {
    if header.flags & DROPPED == 0 {
        1
    } else {
        u64_at(payload, 0).unwrap_or(1).max(1)
    }
}

fn header_crc(header: &[u8; HEADER], offset: u64, salt: u64) -> u32 {
    let mut bytes = [0; HEADER + 16];
    put(&mut bytes, 0, &salt.to_le_bytes());
    put(&mut bytes, 8, &offset.to_le_bytes());
    put(&mut bytes, 16, header);
    put(&mut bytes, 16 + HEADER_CRC, &[0; 4]);
    checksum(&bytes)
}

const PAYLOAD_CRC: usize = 12;
const HEADER_CRC: usize = 16;
const MAGIC: [u8; 2] = *b"mR";

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
        let mut bytes = header.encode(3).to_vec();
        bytes.extend_from_slice(payload);
        bytes.resize(to_usize(header.size()), 0);
        assert_eq!(seal(&mut bytes, offset, salt), Some(3));
        let header = RecordHeader::decode_unchecked(&bytes).unwrap();
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
