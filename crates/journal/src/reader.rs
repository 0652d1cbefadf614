//! Reading one record by its position.
//!
//! Lacks a cache and pins. Invariant: what is returned has the position and the checksum that
//! were asked for; a segment that is recycled under a reader fails the salted checksum and is
//! then found to be gone.

use menzil_model::Position;

use crate::disk::{Disk, DiskFile};
use crate::error::ReadError;
use crate::journal::{Journal, locked, reading};
use crate::layout::{checksum, to_usize};
use crate::record::{self, RecordHeader};
use crate::segment::Segment;

impl<D: Disk> Journal<D> {
    /// The payload of a record, wherever it is on its way: pending, in flight or on disk.
    pub fn read(&self, position: Position) -> Result<Vec<u8>, ReadError> {
        if position.index > self.committed(position.shard)
            && let Some(payload) = self.read_uncommitted(position)
        {
            return Ok(payload);
        }
        let found = reading(&self.directory).find(position);
        let (segment, offset, size) = found.ok_or(ReadError::Gone(position))?;
        let payload = read_at(&segment, u64::from(offset), size, position);
        match payload {
            Err(ReadError::Corrupt { .. })
                if reading(&self.directory).entry(segment.id).is_none() =>
            {
                Err(ReadError::Gone(position))
            }
            payload => payload,
        }
    }

    /// Records move from pending to flight to disk, so they are looked for in that order.
    fn read_uncommitted(&self, position: Position) -> Option<Vec<u8>> {
        let pending = locked(&self.pending)
            .backlog
            .find(position)
            .map(<[u8]>::to_vec);
        pending.or_else(|| reading(&self.flight).find(position).map(<[u8]>::to_vec))
    }
}

fn read_at<F: DiskFile>(
    segment: &Segment<F>,
    offset: u64,
    size: u64,
    position: Position,
) -> Result<Vec<u8>, ReadError> {
    let mut bytes = vec![0; to_usize(size)];
    segment
        .file
        .read_at(&mut bytes, offset)
        .map_err(ReadError::Io)?;
    let corrupt = |expected, actual| ReadError::Corrupt {
        position,
        segment: segment.id,
        offset,
        expected,
        actual,
    };
    let header = RecordHeader::check(&bytes, offset, segment.salt)
        .filter(|header| header.position == position)
        .ok_or_else(|| corrupt(0, 0))?;
    let payload = record::payload(&bytes, &header);
    let actual = checksum(payload.ok_or_else(|| corrupt(header.payload_crc, 0))?);
    if actual != header.payload_crc {
        return Err(corrupt(header.payload_crc, actual));
    }
    bytes.truncate(to_usize(record::HEADER_BYTES + u64::from(header.length)));
    bytes.drain(..to_usize(record::HEADER_BYTES));
    Ok(bytes)
}
