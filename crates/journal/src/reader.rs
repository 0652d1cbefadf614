//! Reading records by their positions, neighbours together.
//!
//! Lacks a cache. Invariant: what is returned has the position and the checksum that were asked
//! for; a segment that is recycled under a reader fails the salted checksum, and the record is
//! then looked for again.

use std::borrow::Cow;
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

/// Hears of each record that was asked for, by its place among them: once, in any order.
type Each<'a> = dyn FnMut(usize, Result<(RecordHeader, &[u8]), ReadError>) + 'a;

impl<D: Disk> Journal<D> {
    /// The payload of a record, wherever it is on its way: pending, in flight or on disk.
    pub fn read(&self, position: Position) -> Result<Vec<u8>, ReadError> {
        let mut read = self.read_many(position.shard, &[position.index]);
        read.pop().unwrap_or(Err(ReadError::Gone(position)))
    }

    /// The payloads of records, which come ascending; neighbours are read at once.
    pub fn read_many(&self, shard: ShardId, indexes: &[u64]) -> Vec<Result<Vec<u8>, ReadError>> {
        let mut read: Vec<_> = gone(shard, indexes).collect();
        self.read_each(shard, indexes, &mut |at, payload| {
            if let Some(read) = read.get_mut(at) {
                *read = payload.map(<[u8]>::to_vec);
            }
        });
        read
    }

    /// As [`read_many`](Self::read_many), without a copy: `each` sees every payload where it was
    /// read, once, with its place among the indexes. Those that fail may come last.
    pub fn read_each(
        &self,
        shard: ShardId,
        indexes: &[u64],
        each: &mut impl FnMut(usize, Result<&[u8], ReadError>),
    ) {
        let committed = self.committed(shard);
        let on_disk = indexes.partition_point(|index| *index <= committed);
        let (on_disk, rest) = indexes.split_at(on_disk);
        self.visit_records(shard, on_disk, &mut |at, record| {
            each(at, record.map(|(_, payload)| payload));
        });
        for (at, index) in (on_disk.len()..).zip(rest) {
            let index = *index;
            if let Some(payload) = self.read_uncommitted(Position { shard, index }) {
                each(at, Ok(&payload));
                continue;
            }
            // It was committed meanwhile, or never was.
            self.visit_records(shard, &[index], &mut |_, record| {
                each(at, record.map(|(_, payload)| payload));
            });
        }
    }

    /// Who has just read that record is going to read on: what follows is made ready, on the
    /// calling thread.
    pub fn read_ahead(&self, shard: ShardId, index: u64) {
        let place = reading(&self.directory).find(Position { shard, index });
        if let Some(place) = place {
            place.segment.file.read_ahead(place.stretch.end);
        }
    }

    /// Records that are on disk, with their headers.
    pub(crate) fn read_records(&self, shard: ShardId, indexes: &[u64]) -> Vec<Read> {
        let mut read: Vec<Read> = gone(shard, indexes).collect();
        self.visit_records(shard, indexes, &mut |at, record| {
            if let Some(read) = read.get_mut(at) {
                *read = record.map(|(header, payload)| (header, payload.to_vec()));
            }
        });
        read
    }

    fn visit_records(&self, shard: ShardId, indexes: &[u64], each: &mut Each<'_>) {
        let mut wanted: Vec<(usize, u64)> = (0..).zip(indexes.iter().copied()).collect();
        let mut buffer = Vec::new();
        for attempt in 1..=ATTEMPTS_MAX {
            let mut corrupt = Vec::new();
            let mut sort =
                |at: usize, record: Result<(RecordHeader, &[u8]), ReadError>| match record {
                    Err(ReadError::Corrupt { .. }) => corrupt.extend(record.err().map(|e| (at, e))),
                    Ok(_) | Err(ReadError::Gone(_) | ReadError::Io(_)) => each(at, record),
                };
            self.read_from_disk(shard, &wanted, &mut buffer, &mut sort);
            wanted.clear();
            for (at, error) in corrupt {
                let ReadError::Corrupt {
                    position, segment, ..
                } = error
                else {
                    continue;
                };
                let directory = reading(&self.directory);
                let is_there = directory.entry(segment).is_some();
                // A file that was set free under the reader is in the directory no more.
                let again = !is_there && attempt < ATTEMPTS_MAX;
                let again = again && directory.find(position).is_some();
                drop(directory);
                if again {
                    wanted.push((at, position.index));
                } else if is_there {
                    each(at, Err(error));
                } else {
                    each(at, Err(ReadError::Gone(position)));
                }
            }
            if wanted.is_empty() {
                break;
            }
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

    fn read_from_disk(
        &self,
        shard: ShardId,
        wanted: &[(usize, u64)],
        buffer: &mut Vec<u8>,
        each: &mut Each<'_>,
    ) {
        let mut group: Option<Group<D::File>> = None;
        for (target, index) in wanted {
            let (target, index) = (*target, *index);
            let position = Position { shard, index };
            if let Some(group) = &mut group
                && index <= group.known_until
            {
                group.wanted.push((target, position));
                continue;
            }
            let Some(place) = reading(&self.directory).find(position) else {
                each(target, Err(ReadError::Gone(position)));
                continue;
            };
            match &mut group {
                Some(group) if group.takes(&place) => group.add(&place, target, position),
                _ => {
                    let next = Group::new(place, target, position);
                    if let Some(full) = group.replace(next) {
                        self.read_group(&full, buffer, each);
                    }
                }
            }
        }
        if let Some(last) = group {
            self.read_group(&last, buffer, each);
        }
    }

    fn read_group(&self, group: &Group<D::File>, buffer: &mut Vec<u8>, each: &mut Each<'_>) {
        group.read(buffer, each);
        self.counts.read_group(
            group.wanted.len() as u64,
            group.stretch.end - group.stretch.start,
        );
    }
}

/// What is said of records until they are read.
fn gone<T>(shard: ShardId, indexes: &[u64]) -> impl Iterator<Item = Result<T, ReadError>> {
    let gone = move |index: &u64| {
        let index = *index;
        Err(ReadError::Gone(Position { shard, index }))
    };
    indexes.iter().map(gone)
}

/// Records that are read at once.
struct Group<F> {
    segment: Segment<F>,
    stretch: Range<u64>,
    /// Records up to this index, from the last on, lie in the stretch too.
    known_until: u64,
    wanted: Vec<(usize, Position)>,
}

impl<F: DiskFile> Group<F> {
    fn new(place: Place<F>, target: usize, position: Position) -> Self {
        Self {
            known_until: known_until(&place),
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
        self.known_until = known_until(place);
        self.wanted.push((target, position));
    }

    fn read(&self, buffer: &mut Vec<u8>, each: &mut Each<'_>) {
        buffer.resize(to_usize(self.stretch.end - self.stretch.start), 0);
        if let Err(error) = self.segment.file.read_at(buffer, self.stretch.start) {
            for (target, _) in &self.wanted {
                each(*target, Err(ReadError::Io(copy(&error))));
            }
            return;
        }
        let walk = Walk {
            bytes: buffer,
            start: self.stretch.start,
            salt: self.segment.salt,
        };
        let mut at = 0;
        for (target, position) in &self.wanted {
            // Whatever is wrong on the way may lie before this record: it is looked for
            // again with more care.
            let found = walk.find(*position, at, false);
            let found = found.or_else(|| walk.find(*position, 0, true));
            let Some((offset, header)) = found else {
                each(
                    *target,
                    Err(self.corrupt(*position, self.stretch.start, 0, 0)),
                );
                continue;
            };
            at = offset;
            match self.payload(buffer, offset, header, *position) {
                Ok(payload) => each(*target, Ok((header, &payload))),
                Err(error) => each(*target, Err(error)),
            }
        }
    }

    /// The payload of the record at `at` of the bytes, which may end before it does.
    fn payload<'a>(
        &self,
        bytes: &'a [u8],
        at: u64,
        header: RecordHeader,
        position: Position,
    ) -> Result<Cow<'a, [u8]>, ReadError> {
        let offset = self.stretch.start + at;
        if header.flags & DROPPED != 0 {
            return Err(ReadError::Gone(position));
        }
        let rest = bytes.get(to_usize(at)..).unwrap_or_default();
        let payload = if let Some(payload) = record::payload(rest, &header) {
            Cow::Borrowed(payload)
        } else {
            let mut payload = vec![0; to_usize(u64::from(header.length))];
            let start = offset + record::HEADER_BYTES;
            let read = self.segment.file.read_at(&mut payload, start);
            read.map_err(ReadError::Io)?;
            Cow::Owned(payload)
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

/// Of a stretch that is not read as a whole nothing is known but that its record begins in it.
fn known_until<F>(place: &Place<F>) -> u64 {
    if bounded(&place.stretch) == place.stretch {
        place.last
    } else {
        0
    }
}

fn copy(error: &std::io::Error) -> std::io::Error {
    std::io::Error::new(error.kind(), error.to_string())
}

const GROUP_BYTES_MAX: u64 = 256 << 10;
/// Each time the file was set free between finding and reading.
const ATTEMPTS_MAX: usize = 8;
