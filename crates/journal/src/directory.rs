//! Where each record lies: segment and offset by position.
//!
//! Lacks payloads and lengths: four bytes a record. Invariant: the offsets of a run never fall,
//! and the runs of a shard do not overlap.
//!
//! ```text
//! shard → first index → segment                 (one entry for each segment of the shard)
//! segment → shard → first index, [offset, …]    (dense: indexes are consecutive)
//! offset with its lowest bit set: no record there; the rest is the offset before it
//! ```

use std::collections::BTreeMap;

use menzil_model::{Map, Position, ShardId};

use crate::layout::to_u32;
use crate::segment::Segment;

/// All records that can be read.
#[derive(Debug)]
pub(crate) struct Directory<F> {
    segments: BTreeMap<u64, Entry<F>>,
    shards: Map<ShardId, BTreeMap<u64, u64>>,
}

/// One segment in the directory.
#[derive(Debug)]
pub(crate) struct Entry<F> {
    pub(crate) segment: Segment<F>,
    pub(crate) contents: Contents,
    /// No batch will follow.
    pub(crate) sealed: bool,
    live: BTreeMap<ShardId, Live>,
}

/// What a segment holds; this is what a sidecar file keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    /// Where the last batch ends.
    pub(crate) end: u64,
    pub(crate) first_number: u64,
    pub(crate) last_number: u64,
    /// The segment of the batch before the first.
    pub(crate) previous: u64,
    pub(crate) runs: BTreeMap<ShardId, Run>,
}

/// The records of one shard in one segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) first: u64,
    pub(crate) offsets: Vec<u32>,
}

/// What the last checkpoint of a shard still needs of a segment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Live {
    records: u64,
    bytes: u64,
}

/// Live records by segment.
pub(crate) type LiveCount = BTreeMap<u64, Live>;

/// How much of a segment is still needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentUse {
    /// Number in the segment's file name.
    pub segment: u64,
    /// Length of the file.
    pub length: u64,
    /// Bytes that batches take.
    pub used_bytes: u64,
    /// Records it holds.
    pub records: u64,
    /// Records that a checkpoint names or that lie past one.
    pub live_records: u64,
    /// Their bytes, headers included.
    pub live_bytes: u64,
    /// Whether no batch will follow.
    pub sealed: bool,
}

impl<F> Default for Directory<F> {
    fn default() -> Self {
        Self {
            segments: BTreeMap::new(),
            shards: Map::default(),
        }
    }
}

impl<F> Directory<F> {
    /// Adds a segment with what it holds.
    pub(crate) fn add(&mut self, segment: Segment<F>, contents: Contents, sealed: bool) {
        for (shard, run) in &contents.runs {
            self.shards
                .entry(*shard)
                .or_default()
                .insert(run.first, segment.id);
        }
        let entry = Entry {
            segment,
            contents,
            sealed,
            live: BTreeMap::new(),
        };
        self.segments.insert(entry.segment.id, entry);
    }

    /// Adds the records of a batch that was committed to a segment.
    pub(crate) fn commit(
        &mut self,
        segment: &Segment<F>,
        records: &[(Position, u32)],
        number: u64,
        previous: u64,
        end: u64,
    ) {
        let entry = self.segments.entry(segment.id).or_insert_with(|| Entry {
            segment: segment.clone(),
            contents: Contents {
                first_number: number,
                previous,
                ..Contents::default()
            },
            sealed: false,
            live: BTreeMap::new(),
        });
        entry.contents.end = end;
        entry.contents.last_number = number;
        for (position, offset) in records {
            if entry.contents.push(*position, *offset) {
                self.shards
                    .entry(position.shard)
                    .or_default()
                    .insert(position.index, segment.id);
            }
        }
    }

    pub(crate) fn seal(&mut self, segment: u64) {
        if let Some(entry) = self.segments.get_mut(&segment) {
            entry.sealed = true;
        }
    }

    pub(crate) fn entry(&self, segment: u64) -> Option<&Entry<F>> {
        self.segments.get(&segment)
    }

    /// The segment, the offset and an upper bound of the bytes of a record.
    pub(crate) fn find(&self, position: Position) -> Option<(Segment<F>, u32, u64)> {
        let (_, segment) = self
            .shards
            .get(&position.shard)?
            .range(..=position.index)
            .next_back()?;
        let entry = self.segments.get(segment)?;
        let offset = entry
            .contents
            .runs
            .get(&position.shard)?
            .offset(position.index)?;
        Some((
            entry.segment.clone(),
            offset,
            entry.contents.size_at(offset),
        ))
    }

    /// Counts which records the checkpoint of a shard still needs; they come ascending.
    pub(crate) fn count_live(&self, shard: ShardId, live: &[u64], count: &mut LiveCount) {
        let Some(firsts) = self.shards.get(&shard) else {
            return;
        };
        for index in live {
            if let Some((_, segment)) = firsts.range(..=*index).next_back()
                && let Some(entry) = self.segments.get(segment)
                && let Some(run) = entry.contents.runs.get(&shard)
                && let Some(offset) = run.offset(*index)
            {
                let live = count.entry(*segment).or_default();
                live.records += 1;
                live.bytes += entry.contents.size_at(offset);
            }
        }
    }

    /// Takes over what was counted for the checkpoint of a shard at `index`.
    pub(crate) fn set_live(&mut self, shard: ShardId, index: u64, count: &LiveCount) {
        let Some(firsts) = self.shards.get(&shard) else {
            return;
        };
        for (_, segment) in firsts.range(..=index) {
            if let Some(entry) = self.segments.get_mut(segment) {
                let live = count.get(segment).copied().unwrap_or_default();
                entry.live.insert(shard, live);
            }
        }
    }

    /// Takes out the sealed segments that nobody needs.
    pub(crate) fn take_dead(&mut self, checkpoints: &Map<ShardId, u64>) -> Vec<Segment<F>> {
        let dead: Vec<u64> = self
            .segments
            .iter()
            .filter(|(_, entry)| entry.is_dead(checkpoints))
            .map(|(id, _)| *id)
            .collect();
        dead.into_iter().filter_map(|id| self.remove(id)).collect()
    }

    /// How much of each segment is still needed.
    pub(crate) fn uses(&self, checkpoints: &Map<ShardId, u64>) -> Vec<SegmentUse> {
        self.segments
            .values()
            .map(|entry| entry.usage(checkpoints))
            .collect()
    }

    fn remove(&mut self, segment: u64) -> Option<Segment<F>> {
        let entry = self.segments.remove(&segment)?;
        for (shard, run) in &entry.contents.runs {
            if let Some(firsts) = self.shards.get_mut(shard) {
                firsts.remove(&run.first);
            }
        }
        Some(entry.segment)
    }
}

impl<F> Entry<F> {
    fn is_dead(&self, checkpoints: &Map<ShardId, u64>) -> bool {
        self.sealed
            && self.contents.runs.iter().all(|(shard, run)| {
                let covered = checkpoints
                    .get(shard)
                    .is_some_and(|index| run.last() <= *index);
                covered && self.live.get(shard).is_some_and(|live| live.records == 0)
            })
    }

    fn usage(&self, checkpoints: &Map<ShardId, u64>) -> SegmentUse {
        let mut usage = SegmentUse {
            segment: self.segment.id,
            length: self.segment.length,
            used_bytes: self.contents.end,
            records: 0,
            live_records: 0,
            live_bytes: 0,
            sealed: self.sealed,
        };
        for (shard, run) in &self.contents.runs {
            let covered = checkpoints.get(shard).copied().unwrap_or(0);
            let live = self.live.get(shard);
            usage.records += run.records();
            usage.live_records += live.map_or(0, |live| live.records);
            usage.live_bytes += live.map_or(0, |live| live.bytes);
            let first_live = if live.is_some() {
                covered.saturating_add(1)
            } else {
                0
            };
            for offset in run.offsets_from(first_live) {
                usage.live_records += 1;
                usage.live_bytes += self.contents.size_at(offset);
            }
        }
        usage
    }
}

impl Contents {
    /// Adds the next record of its shard; whether it is the first.
    pub(crate) fn push(&mut self, position: Position, offset: u32) -> bool {
        let run = self.runs.entry(position.shard).or_default();
        let first = run.offsets.is_empty();
        if first {
            run.first = position.index;
        }
        run.fill_to(position.index);
        run.offsets.push(offset);
        first
    }

    /// Adds `count` indexes that have no record.
    pub(crate) fn push_gone(&mut self, position: Position, count: u64, offset: u32) {
        let run = self.runs.entry(position.shard).or_default();
        if run.offsets.is_empty() {
            run.first = position.index;
        }
        run.offsets.push(offset | GONE);
        run.fill_to(position.index.saturating_add(count));
    }

    /// The bytes from that record to the next of any shard: its own, and what a batch boundary
    /// between them takes.
    fn size_at(&self, offset: u32) -> u64 {
        let next = self.runs.values().filter_map(|run| {
            let after = run.offsets.partition_point(|other| *other <= offset | GONE);
            run.offsets.get(after).map(|next| u64::from(next & !GONE))
        });
        next.chain([self.end])
            .min()
            .unwrap_or(self.end)
            .saturating_sub(u64::from(offset))
    }
}

impl Run {
    /// The last index, which may have no record.
    pub(crate) fn last(&self) -> u64 {
        (self.first + self.offsets.len() as u64).saturating_sub(1)
    }

    fn records(&self) -> u64 {
        self.offsets
            .iter()
            .filter(|offset| *offset & GONE == 0)
            .count() as u64
    }

    fn offset(&self, index: u64) -> Option<u32> {
        let place = usize::try_from(index.checked_sub(self.first)?).ok()?;
        self.offsets
            .get(place)
            .copied()
            .filter(|offset| offset & GONE == 0)
    }

    fn offsets_from(&self, index: u64) -> impl Iterator<Item = u32> {
        let place = usize::try_from(index.saturating_sub(self.first)).unwrap_or(usize::MAX);
        let rest = self.offsets.get(place..).unwrap_or_default();
        rest.iter().copied().filter(|offset| offset & GONE == 0)
    }

    /// Marks all indexes before `index` that were not pushed as having no record.
    fn fill_to(&mut self, index: u64) {
        let missing = index.saturating_sub(self.first + self.offsets.len() as u64);
        let gone = self.offsets.last().copied().unwrap_or(0) | GONE;
        let missing = usize::try_from(missing).unwrap_or(usize::MAX);
        self.offsets.extend(std::iter::repeat_n(gone, missing));
    }
}

const GONE: u32 = 1;

/// How long the offsets of a run may get; more cannot lie in a segment.
pub(crate) fn run_length_max(segment_bytes: u64) -> u32 {
    to_u32(usize::try_from(segment_bytes / crate::record::HEADER_BYTES).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn position(shard: u32, index: u64) -> Position {
        Position {
            shard: ShardId(shard),
            index,
        }
    }

    fn segment(id: u64) -> Segment<()> {
        Segment {
            id,
            salt: id,
            length: 4096,
            file: Arc::new(()),
        }
    }

    #[test]
    fn records_are_found_with_the_bytes_to_the_next_of_any_shard() {
        let mut directory = Directory::default();
        let records = [
            (position(1, 5), 576),
            (position(2, 1), 640),
            (position(1, 6), 800),
        ];
        directory.commit(&segment(4), &records, 1, 0, 1024);
        let found = directory
            .find(position(1, 5))
            .map(|(s, at, size)| (s.id, at, size));
        assert_eq!(found, Some((4, 576, 64)));
        let last = directory
            .find(position(1, 6))
            .map(|(s, at, size)| (s.id, at, size));
        assert_eq!(last, Some((4, 800, 224)));
        assert!(directory.find(position(1, 4)).is_none());
        assert!(directory.find(position(1, 7)).is_none());
        assert!(directory.find(position(3, 1)).is_none());
    }

    #[test]
    fn a_segment_is_dead_when_every_shard_is_past_it_and_needs_none_of_it() {
        let mut directory = Directory::default();
        let records = [
            (position(1, 1), 576),
            (position(2, 1), 640),
            (position(1, 2), 800),
        ];
        directory.commit(&segment(4), &records, 1, 0, 1024);
        directory.seal(4);
        let mut checkpoints = Map::default();
        checkpoints.insert(ShardId(1), 2);
        let mut count = LiveCount::new();
        directory.count_live(ShardId(1), &[2], &mut count);
        directory.set_live(ShardId(1), 2, &count);
        assert!(directory.take_dead(&checkpoints).is_empty());
        let usage = directory.uses(&checkpoints);
        assert_eq!((usage[0].live_records, usage[0].live_bytes), (2, 224 + 160));
        directory.set_live(ShardId(1), 2, &LiveCount::new());
        assert!(
            directory.take_dead(&checkpoints).is_empty(),
            "shard 2 has no checkpoint"
        );
        checkpoints.insert(ShardId(2), 1);
        directory.set_live(ShardId(2), 1, &LiveCount::new());
        assert_eq!(directory.take_dead(&checkpoints).len(), 1);
        assert!(directory.find(position(1, 1)).is_none());
    }

    #[test]
    fn indexes_without_a_record_are_not_found() {
        let mut contents = Contents {
            end: 4096,
            ..Contents::default()
        };
        contents.push(position(1, 1), 576);
        contents.push_gone(position(1, 2), 3, 640);
        contents.push(position(1, 5), 704);
        let run = &contents.runs[&ShardId(1)];
        assert_eq!(run.offset(1), Some(576));
        assert!((2..5).all(|index| run.offset(index).is_none()));
        assert_eq!(run.offset(5), Some(704));
        assert_eq!((run.last(), run.records()), (5, 2));
    }
}
