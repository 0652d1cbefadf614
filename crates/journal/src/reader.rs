//! Reading records by their positions, neighbours together.
//!
//! Lacks a cache. Invariant: what is returned has the position and the checksum that were asked
//! for; a segment that is recycled under a reader fails the salted checksum, and the record is
//! then looked for again.

use std::ops::Range;

use menzil_model::{Position, ShardId};

use crate::batch;
use crate::contents::REACH_MAX;
use crate::directory::Place;
use crate::disk::{Disk, DiskFile};
use crate::error::ReadError;
use crate::journal::{Journal, locked, reading};
use crate::layout::{SECTOR, checksum, to_usize};
use crate::record::{self, DROPPED, RecordHeader};
use crate::segment::Segment;

/// A record that was read: its header and its payload.
pub(crate) type Record = (RecordHeader, Vec<u8>);

type Read = Result<Record, ReadError>;

impl<D: Disk> Journal<D> {
    /// The payload of a record, wherever it is on its way: pending, in flight or on disk.
    pub fn read(&self, position: Position) -> Result<Vec<u8>, ReadError> {
        let mut read = self.read_many(position.shard, &[position.index]);
        read.pop().unwrap_or(Err(ReadError::Gone(position)))
    }

    /// The payloads of records, which come ascending; neighbours are read at once.
    pub fn read_many(&self, shard: ShardId, indexes: &[u64]) -> Vec<Result<Vec<u8>, ReadError>> {
        let committed = self.committed(shard);
        let on_disk = indexes.partition_point(|index| *index <= committed);
        let (on_disk, rest) = indexes.split_at(on_disk);
        let records = self.read_records(shard, on_disk);
        let payload = |record: Read| record.map(|(_, payload)| payload);
        let mut read: Vec<_> = records.into_iter().map(payload).collect();
        read.extend(rest.iter().map(|index| {
            let position = Position {
                shard,
                index: *index,
            };
            if let Some(payload) = self.read_uncommitted(position) {
                return Ok(payload);
            }
            // It was committed meanwhile, or never was.
            let record = self.read_records(shard, &[*index]).pop();
            record.map_or(Err(ReadError::Gone(position)), payload)
        }));
        read
    }

    /// As [`read_many`](Self::read_many), of records that are on disk.
    pub(crate) fn read_records(&self, shard: ShardId, indexes: &[u64]) -> Vec<Read> {
        let gone = |index: &u64| {
            Err(ReadError::Gone(Position {
                shard,
                index: *index,
            }))
        };
        let mut read: Vec<Read> = indexes.iter().map(gone).collect();
        let mut wanted: Vec<(usize, u64)> = (0..).zip(indexes.iter().copied()).collect();
        for _ in 0..ATTEMPTS_MAX {
            self.read_from_disk(shard, &wanted, &mut read);
            // A file that was set free under the reader is in the directory no more.
            let again = |(place, index): &(usize, u64)| {
                let position = Position {
                    shard,
                    index: *index,
                };
                match read.get(*place) {
                    Some(Err(ReadError::Corrupt { segment, .. })) => {
                        let directory = reading(&self.directory);
                        directory.entry(*segment).is_none() && directory.find(position).is_some()
                    }
                    _ => false,
                }
            };
            wanted.retain(again);
            if wanted.is_empty() {
                break;
            }
        }
        for (payload, index) in read.iter_mut().zip(indexes) {
            if let Err(ReadError::Corrupt { segment, .. }) = payload
                && reading(&self.directory).entry(*segment).is_none()
            {
                *payload = gone(index);
            }
        }
        read
    }

    /// Records move from pending to flight to disk, so they are looked for in that order.
    fn read_uncommitted(&self, position: Position) -> Option<Vec<u8>> {
        let pending = locked(&self.pending)
            .backlog
            .find(position)
            .map(<[u8]>::to_vec);
        pending.or_else(|| reading(&self.flight).find(position).map(<[u8]>::to_vec))
    }

    fn read_from_disk(&self, shard: ShardId, wanted: &[(usize, u64)], read: &mut [Read]) {
        let mut group: Option<Group<D::File>> = None;
        for (target, index) in wanted {
            let position = Position {
                shard,
                index: *index,
            };
            let Some(place) = reading(&self.directory).find(position) else {
                if let Some(read) = read.get_mut(*target) {
                    *read = Err(ReadError::Gone(position));
                }
                continue;
            };
            match &mut group {
                Some(group) if group.takes(&place) => group.add(&place, *target, position),
                _ => {
                    let next = Group::new(place, *target, position);
                    if let Some(full) = group.replace(next) {
                        self.read_group(&full, read);
                    }
                }
            }
        }
        if let Some(last) = group {
            self.read_group(&last, read);
        }
    }

    fn read_group(&self, group: &Group<D::File>, read: &mut [Read]) {
        let found = group.read();
        self.counts.read_group(
            group.wanted.len() as u64,
            group.stretch.end - group.stretch.start,
        );
        for ((target, _), payload) in group.wanted.iter().zip(found) {
            if let Some(read) = read.get_mut(*target) {
                *read = payload;
            }
        }
    }
}

/// Records that are read at once.
struct Group<F> {
    segment: Segment<F>,
    stretch: Range<u64>,
    wanted: Vec<(usize, Position)>,
}

impl<F: DiskFile> Group<F> {
    fn new(place: Place<F>, target: usize, position: Position) -> Self {
        Self {
            stretch: bounded(&place.stretch),
            segment: place.segment,
            wanted: vec![(target, position)],
        }
    }

    fn takes(&self, place: &Place<F>) -> bool {
        let Range { start, end } = bounded(&place.stretch);
        self.segment.id == place.segment.id
            && start >= self.stretch.start
            && start <= self.stretch.end + SECTOR
            && end - self.stretch.start <= GROUP_BYTES_MAX
    }

    fn add(&mut self, place: &Place<F>, target: usize, position: Position) {
        self.stretch.end = self.stretch.end.max(bounded(&place.stretch).end);
        self.wanted.push((target, position));
    }

    fn read(&self) -> Vec<Read> {
        let mut bytes = vec![0; to_usize(self.stretch.end - self.stretch.start)];
        if let Err(error) = self.segment.file.read_at(&mut bytes, self.stretch.start) {
            let error = |_: &(usize, Position)| Err(ReadError::Io(copy(&error)));
            return self.wanted.iter().map(error).collect();
        }
        let walk = Walk {
            bytes: &bytes,
            start: self.stretch.start,
            salt: self.segment.salt,
        };
        let mut at = 0;
        self.wanted
            .iter()
            .map(|(_, position)| {
                // Whatever is wrong on the way may lie before this record: it is looked for
                // again with more care.
                let found = walk.find(*position, at, false);
                let found = found.or_else(|| walk.find(*position, 0, true));
                let Some((offset, header)) = found else {
                    return Err(self.corrupt(*position, self.stretch.start, 0, 0));
                };
                at = offset;
                let payload = self.payload(&bytes, offset, header, *position)?;
                Ok((header, payload))
            })
            .collect()
    }

    /// The payload of the record at `at` of the bytes, which may end before it does.
    fn payload(
        &self,
        bytes: &[u8],
        at: u64,
        header: RecordHeader,
        position: Position,
    ) -> Result<Vec<u8>, ReadError> {
        let offset = self.stretch.start + at;
        if header.flags & DROPPED != 0 {
            return Err(ReadError::Gone(position));
        }
        let rest = bytes.get(to_usize(at)..).unwrap_or_default();
        let payload = if let Some(payload) = record::payload(rest, &header) {
            payload.to_vec()
        } else {
            let mut payload = vec![0; to_usize(u64::from(header.length))];
            let start = offset + record::HEADER_BYTES;
            let read = self.segment.file.read_at(&mut payload, start);
            read.map_err(ReadError::Io)?;
            payload
        };
        let actual = checksum(&payload);
        if actual != header.payload_crc {
            return Err(self.corrupt(position, offset, header.payload_crc, actual));
        }
        Ok(payload)
    }

    fn corrupt(&self, position: Position, offset: u64, expected: u32, actual: u32) -> ReadError {
        ReadError::Corrupt {
            position,
            segment: self.segment.id,
            offset,
            expected,
            actual,
        }
    }
}

/// A stretch of the log in memory.
struct Walk<'a> {
    bytes: &'a [u8],
    start: u64,
    salt: u64,
}

impl Walk<'_> {
    /// The record and where it begins, from `at` on. A careful walk believes no length that is
    /// not covered by a checksum.
    fn find(&self, position: Position, at: u64, careful: bool) -> Option<(u64, RecordHeader)> {
        let mut at = at;
        loop {
            let rest = self.bytes.get(to_usize(at)..)?;
            let offset = self.start + at;
            let header = if careful {
                RecordHeader::check(rest, offset, self.salt)
            } else {
                RecordHeader::peek(rest)
            };
            let Some(header) = header else {
                at = self.after_gap(at, careful)?;
                continue;
            };
            let is_it = header.position.shard == position.shard
                && (header.position.index == position.index
                    || header.flags & DROPPED != 0
                        && header.position.index < position.index
                        && position.index - header.position.index < span(rest, &header));
            if is_it {
                let header = RecordHeader::check(rest, offset, self.salt)?;
                return Some((at, header));
            }
            if header.position.shard == position.shard && header.position.index > position.index {
                return None;
            }
            at += header.size();
        }
    }

    /// Where to look for the next record: after the padding of a batch and the header of the
    /// next, or, with care, at the next place where one may be.
    fn after_gap(&self, at: u64, careful: bool) -> Option<u64> {
        if careful {
            return (at < self.bytes.len() as u64).then_some(at + 8);
        }
        let sector = (self.start + at).next_multiple_of(SECTOR) - self.start;
        let header = self.bytes.get(to_usize(sector)..)?;
        batch::is_magic(header).then_some(sector + batch::HEADER_BYTES)
    }
}

/// How many indexes the record stands for.
fn span(record: &[u8], header: &RecordHeader) -> u64 {
    record::span(header, record::payload(record, header).unwrap_or_default())
}

/// As much of the stretch as is to be read: the record begins in it.
fn bounded(stretch: &Range<u64>) -> Range<u64> {
    let Range { start, end } = *stretch;
    if end - start <= GROUP_BYTES_MAX {
        return start..end;
    }
    start..(start + REACH_MAX + record::HEADER_BYTES).min(end)
}

fn copy(error: &std::io::Error) -> std::io::Error {
    std::io::Error::new(error.kind(), error.to_string())
}

const GROUP_BYTES_MAX: u64 = 256 << 10;
/// Each time the file was set free between finding and reading.
const ATTEMPTS_MAX: usize = 8;
