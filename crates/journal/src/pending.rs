//! What was appended and is not committed yet.
//!
//! Lacks checksums, which depend on where a record will lie: the writer adds them. Invariant:
//! the records of a shard lie in index order without gaps, and a record never spans chunks.
//!
//! ```text
//! chunk 0: │ header 0 │ payload │ header │ payload │ …      chunk 1: │ header │ …
//! runs:    shard → first index, [chunk, offset] of some of its records
//! ```

use std::sync::Arc;

use menzil_model::{Class, Map, Position, ShardId};

use crate::layout::{put, to_u32, to_usize};
use crate::marks::{AllMarks, Marks};
use crate::record::{self, HEADER, RecordHeader};
use crate::releases::Releases;

/// Everything behind the one short mutex that appending takes.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    pub(crate) backlog: Backlog,
    shards: Vec<Next>,
    places: Map<ShardId, usize>,
    /// The shard of the last append: most often that of the next.
    recent: usize,
    /// What is needed no more, to be counted with the next commit.
    pub(crate) releases: Releases,
    /// Records of the backlog that somebody waits for.
    pub(crate) awaited: u64,
    /// Releases alone are reason enough for a commit.
    pub(crate) pressed: bool,
    pub(crate) waiting: Waiting,
    pub(crate) closed: bool,
}

/// What the writer thread does while there is nothing to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// It does not wait.
    #[default]
    No,
    /// It waits for any record.
    Idle,
    /// It knows of lazy records and waits for an eager one, for so many bytes, or for their
    /// time.
    Lazy { bytes: u64 },
    /// It knows of eager records and waits until there are so many, or for a short while.
    Company { awaited: u64 },
}

#[derive(Debug)]
struct Next {
    shard: ShardId,
    index: u64,
    marks: Arc<Marks>,
}

/// What is appended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) shard: ShardId,
    pub(crate) class: Class,
    /// How many will need it.
    pub(crate) references: u32,
    /// Bytes that the payload may take.
    pub(crate) payload_max: u64,
}

impl Pending {
    /// Encodes a record in place. Returns its position and its bytes on disk.
    pub(crate) fn append(
        &mut self,
        all: &AllMarks,
        kind: Kind,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> (Position, u64) {
        let place = self.place(all, kind.shard);
        let index = self.shards.get(place).map_or(0, |next| next.index);
        let position = Position {
            shard: kind.shard,
            index,
        };
        let bytes = self.backlog.push(position, kind, encode);
        if let Some(next) = self.shards.get_mut(place) {
            next.index += 1;
            next.marks.append(index);
        }
        (position, bytes)
    }

    /// Whether something is to be committed without delay.
    pub(crate) fn is_eager(&self) -> bool {
        self.awaited > 0 || self.pressed
    }

    /// Whether the waiting writer must be woken for what was just appended.
    pub(crate) fn wake(&mut self) -> bool {
        let wake = match self.waiting {
            Waiting::No => false,
            Waiting::Idle => true,
            Waiting::Lazy { bytes } => self.is_eager() || self.backlog.bytes >= bytes,
            Waiting::Company { awaited } => self.awaited >= awaited || self.pressed,
        };
        if wake {
            self.waiting = Waiting::No;
        }
        wake
    }

    fn place(&mut self, all: &AllMarks, shard: ShardId) -> usize {
        let recent = self.shards.get(self.recent);
        if recent.is_some_and(|next| next.shard == shard) {
            return self.recent;
        }
        let shards = &mut self.shards;
        self.recent = *self.places.entry(shard).or_insert_with(|| {
            let marks = all.of(shard);
            let index = marks.appended() + 1;
            shards.push(Next {
                shard,
                index,
                marks,
            });
            shards.len() - 1
        });
        self.recent
    }
}

/// Encoded records in the order of their appending.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    chunks: Vec<Vec<u8>>,
    /// Chunks in use; those after them are empty and keep their memory for later.
    used: usize,
    /// Where the last whole record of the last used chunk ends.
    tail: usize,
    runs: Vec<Run>,
    /// Where the run of each shard is.
    shards: Map<ShardId, usize>,
    recent: usize,
    bytes: u64,
    /// An encoder took away what others had appended.
    broken: bool,
}

#[derive(Debug)]
struct Run {
    shard: ShardId,
    first: u64,
    records: u64,
    /// Record number, chunk and offset of every so manieth record.
    places: Vec<(u32, u32, u32)>,
}

impl Backlog {
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.broken
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The records of that chunk, `None` past the last.
    pub(crate) fn chunk(&self, chunk: usize) -> Option<&[u8]> {
        self.chunks.get(..self.used)?.get(chunk).map(Vec::as_slice)
    }

    /// As [`chunk`](Self::chunk), to be sealed.
    pub(crate) fn chunk_mut(&mut self, chunk: usize) -> Option<&mut [u8]> {
        self.chunks
            .get_mut(..self.used)?
            .get_mut(chunk)
            .map(Vec::as_mut_slice)
    }

    /// The payload of a record that is here.
    pub(crate) fn find(&self, position: Position) -> Option<&[u8]> {
        let run = self.runs.get(*self.shards.get(&position.shard)?)?;
        let number = position.index.checked_sub(run.first)?;
        (number < run.records).then_some(())?;
        let after = run
            .places
            .partition_point(|(at, ..)| u64::from(*at) <= number);
        let (_, chunk, offset) = *run.places.get(after.checked_sub(1)?)?;
        let mut rest = self.chunk(chunk as usize)?.get(offset as usize..)?;
        loop {
            let header = RecordHeader::decode_unchecked(rest)?;
            if header.position == position {
                return record::payload(rest, &header);
            }
            rest = rest.get(to_usize(header.size())..)?;
        }
    }

    /// Forgets the records; memory is kept for the next, but not that of an exceptional burst.
    pub(crate) fn clear(&mut self) {
        self.chunks.truncate(CHUNKS_KEPT);
        self.chunks
            .retain(|chunk| chunk.capacity() <= 2 * CHUNK_BYTES);
        for chunk in &mut self.chunks {
            chunk.clear();
        }
        self.runs.clear();
        self.shards.clear();
        self.used = 0;
        self.tail = 0;
        self.bytes = 0;
    }

    fn push(&mut self, position: Position, kind: Kind, encode: impl FnOnce(&mut Vec<u8>)) -> u64 {
        let number = self.open_chunk();
        let Some(chunk) = self.chunks.get_mut(number) else {
            return 0;
        };
        let start = chunk.len();
        let mut header = RecordHeader {
            position,
            class: kind.class,
            flags: 0,
            term: 0,
            length: 0,
            payload_crc: 0,
        };
        chunk.extend_from_slice(&header.encode(kind.references));
        encode(chunk);
        if chunk.len() < start + HEADER {
            self.broken = true;
            panic!("an encoder may only append to the buffer");
        }
        let length = chunk.len() - start - HEADER;
        assert!(
            length as u64 <= kind.payload_max,
            "a payload of {length} bytes is over its bound"
        );
        header.length = to_u32(length);
        put(chunk, start, &header.length.to_le_bytes());
        let padding = start + to_usize(header.size()) - chunk.len();
        chunk.extend_from_slice(PADDING.get(..padding).unwrap_or_default());
        self.tail = chunk.len();
        self.note(position, number, start);
        self.bytes += header.size();
        header.size()
    }

    /// Notes where the record lies, unless one shortly before it is noted.
    fn note(&mut self, position: Position, chunk: usize, offset: usize) {
        let recent = self.runs.get(self.recent);
        if recent.is_none_or(|run| run.shard != position.shard) {
            let runs = &mut self.runs;
            self.recent = *self.shards.entry(position.shard).or_insert_with(|| {
                runs.push(Run {
                    shard: position.shard,
                    first: position.index,
                    records: 0,
                    places: Vec::new(),
                });
                runs.len() - 1
            });
        }
        let Some(run) = self.runs.get_mut(self.recent) else {
            return;
        };
        let chunk = to_u32(chunk);
        let last = run.places.last();
        let is_near = |(number, of, _): &(u32, u32, u32)| {
            *of == chunk && run.records - u64::from(*number) < NOTE_EVERY
        };
        if !last.is_some_and(is_near) {
            let number = u32::try_from(run.records).unwrap_or(u32::MAX);
            run.places.push((number, chunk, to_u32(offset)));
        }
        run.records += 1;
    }

    /// The chunk that takes the next record.
    fn open_chunk(&mut self) -> usize {
        if let Some(last) = self.used.checked_sub(1)
            && let Some(chunk) = self.chunks.get_mut(last)
        {
            // An encoder that panicked has left half a record behind.
            chunk.truncate(self.tail);
            if chunk.len() < CHUNK_BYTES - CHUNK_BYTES / 8 {
                return last;
            }
        }
        if self.chunks.len() == self.used {
            self.chunks.push(Vec::with_capacity(CHUNK_BYTES));
        }
        self.used += 1;
        self.tail = 0;
        self.used - 1
    }
}

const PADDING: [u8; 8] = [0; 8];
const CHUNK_BYTES: usize = 256 << 10;
const CHUNKS_KEPT: usize = 32;
const NOTE_EVERY: u64 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(shard: u32) -> Kind {
        Kind {
            shard: ShardId(shard),
            class: Class::Message,
            references: 0,
            payload_max: 1 << 20,
        }
    }

    fn append(pending: &mut Pending, marks: &AllMarks, shard: u32, payload: &[u8]) -> Position {
        let encode = |bytes: &mut Vec<u8>| bytes.extend_from_slice(payload);
        pending.append(marks, kind(shard), encode).0
    }

    #[test]
    fn records_are_found_by_position_over_many_chunks() {
        let (mut pending, marks) = (Pending::default(), AllMarks::default());
        let positions: Vec<_> = (0..100_u32)
            .map(|n| {
                let payload = vec![u8::try_from(n).unwrap(); 9000];
                append(&mut pending, &marks, n % 3, &payload)
            })
            .collect();
        assert!(pending.backlog.used > 1);
        for (n, position) in positions.iter().enumerate() {
            let expected = vec![u8::try_from(n).unwrap(); 9000];
            assert_eq!(pending.backlog.find(*position), Some(expected.as_slice()));
        }
        let beyond = Position {
            shard: ShardId(0),
            index: 35,
        };
        assert_eq!(pending.backlog.find(beyond), None);
    }

    #[test]
    fn an_encoder_that_panics_leaves_nothing_behind() {
        let (mut pending, marks) = (Pending::default(), AllMarks::default());
        append(&mut pending, &marks, 1, b"before");
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            pending.append(&marks, kind(1), |bytes| {
                bytes.extend_from_slice(b"half");
                panic!("planned");
            })
        }));
        assert!(panicked.is_err());
        let after = append(&mut pending, &marks, 1, b"after");
        assert_eq!(after.index, 2);
        assert_eq!(pending.backlog.find(after), Some(&b"after"[..]));
    }

    #[test]
    fn the_writer_is_woken_only_for_what_it_waits_for() {
        let (mut pending, marks) = (Pending::default(), AllMarks::default());
        append(&mut pending, &marks, 1, b"settled");
        assert!(!pending.wake(), "it does not wait");
        pending.waiting = Waiting::Idle;
        assert!(pending.wake());
        let bytes = pending.backlog.bytes() + 1;
        pending.waiting = Waiting::Lazy { bytes };
        assert!(!pending.wake());
        append(&mut pending, &marks, 1, b"settled");
        assert!(pending.wake(), "so many bytes");
        pending.waiting = Waiting::Lazy { bytes: 1 << 20 };
        pending.awaited = 1;
        assert!(pending.wake(), "somebody waits");
        pending.waiting = Waiting::Company { awaited: 3 };
        pending.awaited = 2;
        assert!(!pending.wake());
        pending.awaited = 3;
        assert!(pending.wake());
        assert_eq!(pending.waiting, Waiting::No);
    }

    #[test]
    fn clearing_starts_the_runs_anew() {
        let (mut pending, marks) = (Pending::default(), AllMarks::default());
        let first = append(&mut pending, &marks, 1, b"one");
        pending.backlog.clear();
        assert_eq!(pending.backlog.find(first), None);
        let second = append(&mut pending, &marks, 1, b"two");
        assert_eq!(second.index, 2);
        assert_eq!(pending.backlog.find(second), Some(&b"two"[..]));
    }
}
