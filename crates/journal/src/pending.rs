//! What was appended and is not committed yet.
//!
//! Lacks checksums, which depend on where a record will lie: the writer adds them. Invariant:
//! the records of a shard lie in index order without gaps, and a record never spans chunks.
//!
//! ```text
//! chunk 0: │ header 0 │ payload │ header │ payload │ …      chunk 1: │ header │ …
//! runs:    shard → first index, [chunk, offset] of each record after it
//! ```

use std::sync::Arc;

use menzil_model::{Class, Map, Position, ShardId};

use crate::layout::to_u32;
use crate::marks::{AllMarks, Marks};
use crate::record::{self, RecordHeader};

/// Everything behind the one short mutex that appending takes.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    pub(crate) backlog: Backlog,
    shards: Map<ShardId, Next>,
    /// Whether somebody waits for a record of the backlog.
    pub(crate) eager: bool,
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
    /// It knows of lazy records and waits for an eager one or their time.
    Lazy,
}

#[derive(Debug)]
struct Next {
    index: u64,
    marks: Arc<Marks>,
}

impl Pending {
    /// Encodes a record in place. Returns its position and its bytes on disk.
    pub(crate) fn append(
        &mut self,
        all: &AllMarks,
        shard: ShardId,
        class: Class,
        payload_max: u64,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> (Position, u64) {
        let next = self.shards.entry(shard).or_insert_with(|| {
            let marks = all.of(shard);
            Next {
                index: marks.appended() + 1,
                marks,
            }
        });
        let position = Position {
            shard,
            index: next.index,
        };
        let bytes = self.backlog.push(position, class, payload_max, encode);
        next.index += 1;
        next.marks.append(position.index);
        (position, bytes)
    }

    /// Whether the waiting writer must be woken for what was just appended.
    pub(crate) fn wake(&mut self, eager: bool) -> bool {
        self.eager |= eager;
        let wake = match self.waiting {
            Waiting::No => false,
            Waiting::Idle => true,
            Waiting::Lazy => eager,
        };
        if wake {
            self.waiting = Waiting::No;
        }
        wake
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
    runs: Map<ShardId, Run>,
    bytes: u64,
    /// An encoder took away what others had appended.
    broken: bool,
}

#[derive(Debug, Default)]
struct Run {
    first: u64,
    places: Vec<(u32, u32)>,
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
        let run = self.runs.get(&position.shard)?;
        let place = usize::try_from(position.index.checked_sub(run.first)?).ok()?;
        let (chunk, offset) = *run.places.get(place)?;
        let bytes = self.chunk(chunk as usize)?.get(offset as usize..)?;
        record::payload(bytes, &RecordHeader::decode_unchecked(bytes)?)
    }

    /// Forgets the records; memory is kept for the next, but not that of an exceptional burst.
    pub(crate) fn clear(&mut self) {
        self.chunks.truncate(CHUNKS_KEPT);
        self.chunks
            .retain(|chunk| chunk.capacity() <= 2 * CHUNK_BYTES);
        for chunk in &mut self.chunks {
            chunk.clear();
        }
        self.runs.retain(|_, run| !run.places.is_empty());
        for run in self.runs.values_mut() {
            run.places.clear();
            run.places.shrink_to(PLACES_KEPT);
        }
        self.used = 0;
        self.tail = 0;
        self.bytes = 0;
    }

    fn push(
        &mut self,
        position: Position,
        class: Class,
        payload_max: u64,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> u64 {
        let number = self.open_chunk();
        let Some(chunk) = self.chunks.get_mut(number) else {
            return 0;
        };
        let start = chunk.len();
        chunk.extend_from_slice(&[0; HEADER]);
        encode(chunk);
        if chunk.len() < start + HEADER {
            self.broken = true;
            panic!("an encoder may only append to the buffer");
        }
        let length = chunk.len() - start - HEADER;
        assert!(
            length as u64 <= payload_max,
            "a payload of {length} bytes is over its bound"
        );
        let header = RecordHeader {
            position,
            class,
            flags: 0,
            term: 0,
            length: to_u32(length),
            payload_crc: 0,
        };
        chunk.resize(start + crate::layout::to_usize(header.size()), 0);
        header.encode(chunk.get_mut(start..).unwrap_or_default());
        self.tail = chunk.len();
        let run = self.runs.entry(position.shard).or_default();
        if run.places.is_empty() {
            run.first = position.index;
        }
        run.places.push((to_u32(number), to_u32(start)));
        self.bytes += header.size();
        header.size()
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

const HEADER: usize = 40;
const CHUNK_BYTES: usize = 256 << 10;
const CHUNKS_KEPT: usize = 32;
const PLACES_KEPT: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn append(pending: &mut Pending, marks: &AllMarks, shard: u32, payload: &[u8]) -> Position {
        let encode = |bytes: &mut Vec<u8>| bytes.extend_from_slice(payload);
        pending
            .append(marks, ShardId(shard), Class::Message, 1 << 20, encode)
            .0
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
            pending.append(&marks, ShardId(1), Class::Message, 1 << 20, |bytes| {
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
