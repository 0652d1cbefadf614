//! The backlog on its way to disk: cut into batches that fit, sealed where they will lie.
//!
//! Lacks IO. Invariant: a cut takes whole records in their order, as many as fit, and what is
//! cut is sealed.

use std::io::IoSlice;

use menzil_model::{Map, ShardId};

use crate::batch::{self, BatchHeader, Classes};
use crate::contents::Run;
use crate::layout::{PAGE, SECTOR, to_u32, to_usize};
use crate::pending::Backlog;
use crate::record;

/// How far the backlog was cut.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursor {
    chunk: usize,
    at: usize,
}

/// Where the next batch will lie.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) segment: u64,
    pub(crate) salt: u64,
    pub(crate) offset: u64,
    /// Bytes from there to the end of the segment.
    pub(crate) room: u64,
}

/// The records of one batch.
#[derive(Debug, Default)]
pub(crate) struct Cut {
    /// Chunk, start and end of consecutive records.
    slices: Vec<(usize, usize, usize)>,
    /// The records of each shard. The first so many are in use; the others keep their memory.
    runs: Vec<(ShardId, Run)>,
    used: usize,
    shards: Map<ShardId, usize>,
    /// The shard of the last record.
    recent: usize,
    pub(crate) records: u32,
    pub(crate) length: u64,
    classes: Classes,
    /// Bytes of the first record that did not fit, 0 if all did.
    pub(crate) left_out: u64,
}

impl Cut {
    /// A batch without records, which proves the one before it.
    pub(crate) fn empty() -> Self {
        Self {
            length: batch::HEADER_BYTES,
            ..Self::default()
        }
    }

    /// Cuts as many records as fit from the cursor on.
    pub(crate) fn take(&mut self, backlog: &mut Backlog, cursor: &mut Cursor, target: Target) {
        self.slices.clear();
        self.records = 0;
        self.used = 0;
        self.recent = 0;
        self.shards.clear();
        self.runs.truncate(RUNS_KEPT);
        self.length = batch::HEADER_BYTES;
        self.classes = Classes::default();
        self.left_out = 0;
        while let Some(chunk) = backlog.chunk_mut(cursor.chunk) {
            let start = cursor.at;
            self.take_chunk(chunk, cursor, target);
            if cursor.at > start {
                self.slices.push((cursor.chunk, start, cursor.at));
            }
            if self.left_out > 0 {
                return;
            }
            *cursor = Cursor {
                chunk: cursor.chunk + 1,
                at: 0,
            };
        }
    }

    fn take_chunk(&mut self, chunk: &mut [u8], cursor: &mut Cursor, target: Target) {
        while let Some(rest) = chunk.get_mut(cursor.at..)
            && let Some(header) = record::RecordHeader::decode_unchecked(rest)
        {
            if self.length + header.size() > target.room {
                self.left_out = header.size();
                return;
            }
            let offset = target.offset + self.length;
            let sealed = record::seal(rest, offset, target.salt);
            debug_assert!(sealed.is_some(), "a pending record is whole");
            let references = sealed.unwrap_or(0);
            let place = self.run(header.position.shard);
            if let Some((_, run)) = self.runs.get_mut(place) {
                let offset = to_u32(to_usize(offset));
                run.push(header.position.index, offset, header.size(), references);
            }
            self.records += 1;
            self.classes.insert(header.class);
            self.length += header.size();
            cursor.at += to_usize(header.size());
        }
    }

    /// The records of each shard.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (ShardId, &Run)> {
        let used = self.runs.iter().take(self.used);
        used.map(|(shard, run)| (*shard, run))
    }

    /// Where the run of the shard is.
    fn run(&mut self, shard: ShardId) -> usize {
        let used = self.runs.get(..self.used);
        let recent = used.and_then(|runs| runs.get(self.recent));
        if recent.is_none_or(|(of, _)| *of != shard) {
            self.recent = *self.shards.entry(shard).or_insert(self.used);
        }
        if self.recent == self.used {
            self.used += 1;
            match self.runs.get_mut(self.recent) {
                Some((of, run)) => {
                    *of = shard;
                    run.clear();
                }
                None => self.runs.push((shard, Run::default())),
            }
        }
        self.recent
    }

    pub(crate) fn header(&self, target: Target, number: u64, previous: u64) -> BatchHeader {
        BatchHeader {
            classes: self.classes,
            salt: target.salt,
            segment: target.segment,
            number,
            previous,
            length: to_u32(to_usize(self.length)),
            count: self.records,
            offset: target.offset,
        }
    }

    /// The bytes of the batch that lies at `offset`, with the zeros that fill its last sector,
    /// and as much around it as the file asks for: a page, where the system would have to read
    /// the rest of that first.
    pub(crate) fn io_slices<'a>(
        &self,
        header: &'a [u8],
        backlog: &'a Backlog,
        offset: u64,
        padding: u64,
    ) -> Vec<IoSlice<'a>> {
        let mut slices = Vec::with_capacity(self.slices.len() + 2);
        slices.push(IoSlice::new(header));
        for (chunk, start, end) in &self.slices {
            let bytes = backlog
                .chunk(*chunk)
                .and_then(|chunk| chunk.get(*start..*end));
            slices.push(IoSlice::new(bytes.unwrap_or_default()));
        }
        let end = offset + self.length;
        let padding = to_usize(end.next_multiple_of(padding.clamp(SECTOR, PAGE)) - end);
        slices.push(IoSlice::new(ZEROS.get(..padding).unwrap_or_default()));
        slices
    }
}

const ZEROS: [u8; 4096] = [0; 4096];
const _: () = assert!(PAGE == 4096, "the zeros fill a page");
const _: () = assert!(PAGE.is_multiple_of(SECTOR), "a page is some sectors");
/// Runs of shards that keep their memory.
const RUNS_KEPT: usize = 64;
