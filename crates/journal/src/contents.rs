//! What one file of records holds: for each shard where its records lie and who needs them.
//!
//! Lacks the file. Invariant: the marks of a run ascend in index, offset and rank, and every
//! record begins less than [`REACH_MAX`] bytes after the mark before it, or has one itself.
//!
//! ```text
//! run:   first ── 64 records ── mark ── 64 records ── mark …      (offset, index, rank, bytes)
//! log:   indexes after a mark are consecutive                      gaps: none
//! cold:  they ascend; how far each is from the one before is noted gaps: a byte each
//! ```

use std::collections::BTreeMap;
use std::ops::Range;

use menzil_model::{Position, ShardId};

use crate::counts::References;
use crate::layout::to_u32;

/// What a file holds; this, the references aside, is what a sidecar file keeps.
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

/// The records of one shard in one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) first: u64,
    /// The last index, which may have no record.
    pub(crate) last: u64,
    pub(crate) records: u32,
    pub(crate) marks: Vec<Mark>,
    /// Of a cold file: for each record how much its index is above the one before, 0 at a mark.
    pub(crate) gaps: Vec<u8>,
    pub(crate) references: References,
    /// About the bytes of the records that are needed, once no more records come: kept up to
    /// date, because going over all of them takes long.
    pub(crate) sealed_live_bytes: Option<u64>,
    /// A checkpoint was installed at whose freeze nobody needed any of it.
    pub(crate) free: bool,
}

/// A record that is found without walking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) index: u64,
    pub(crate) offset: u32,
    pub(crate) rank: u32,
    /// Of its record and those up to the next mark.
    pub(crate) bytes: u32,
}

impl Contents {
    /// Adds the next record of its shard.
    pub(crate) fn push(&mut self, position: Position, offset: u32, size: u64) {
        let run = self.runs.entry(position.shard).or_default();
        run.push(position.index, offset, size, 0);
    }

    /// Adds `count` indexes that have no record.
    pub(crate) fn push_gone(&mut self, position: Position, count: u64) {
        let run = self.runs.entry(position.shard).or_default();
        if run.is_empty() {
            run.first = position.index;
        }
        run.last = position.index.saturating_add(count).saturating_sub(1);
    }

    pub(crate) fn records(&self) -> u64 {
        self.runs.values().map(|run| u64::from(run.records)).sum()
    }

    pub(crate) fn live(&self) -> u64 {
        self.runs.values().map(|run| run.references.live()).sum()
    }

    /// The bytes of all records.
    pub(crate) fn record_bytes(&self) -> u64 {
        let marks = self.runs.values().flat_map(|run| &run.marks);
        marks.map(|mark| u64::from(mark.bytes)).sum()
    }

    /// About how many bytes are needed: within the few records between two marks all are taken
    /// for equal.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.runs.values().map(Run::live_bytes).sum()
    }
}

impl Run {
    /// Whether it has no index at all, not even one without a record.
    pub(crate) fn is_empty(&self) -> bool {
        self.last == 0
    }

    /// Whether some indexes of a part of the log have no record: a repair took them out.
    pub(crate) fn has_holes(&self) -> bool {
        let indexes = self.last.saturating_sub(self.first).saturating_add(1);
        self.gaps.is_empty() && !self.is_empty() && u64::from(self.records) != indexes
    }

    /// Adds the next record of the log.
    #[inline]
    pub(crate) fn push(&mut self, index: u64, offset: u32, size: u64, references: u32) {
        if self.is_empty() {
            self.first = index;
        }
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        match self.marks.last_mut() {
            Some(mark) if mark.leads_to(index, self.records, offset, size) => {
                mark.bytes = mark.bytes.saturating_add(size);
            }
            _ => self.marks.push(Mark {
                index,
                offset,
                rank: self.records,
                bytes: size,
            }),
        }
        self.last = index;
        self.records += 1;
        self.references.push(references);
    }

    /// Adds a record to a cold file: any that comes after the one before.
    pub(crate) fn push_cold(&mut self, index: u64, offset: u32, size: u64, references: u32) {
        if self.is_empty() {
            self.first = index;
        }
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        let gap = u8::try_from(index.saturating_sub(self.last)).ok();
        match (self.marks.last_mut(), gap) {
            (Some(mark), Some(gap)) if mark.takes(self.records, offset, size) => {
                mark.bytes = mark.bytes.saturating_add(size);
                self.gaps.push(gap);
            }
            _ => {
                self.marks.push(Mark {
                    index,
                    offset,
                    rank: self.records,
                    bytes: size,
                });
                self.gaps.push(0);
            }
        }
        self.last = index;
        self.records += 1;
        self.references.push(references);
    }

    /// Adds the records of a batch that follows.
    pub(crate) fn extend(&mut self, batch: &Self) {
        if self.is_empty() {
            self.first = batch.first;
        }
        let mut end = self.last + 1;
        for mark in &batch.marks {
            let rank = self.records + mark.rank;
            match self.marks.last_mut() {
                Some(last)
                    if mark.index == end
                        && last.leads_to(mark.index, rank, mark.offset, mark.bytes) =>
                {
                    last.bytes = last.bytes.saturating_add(mark.bytes);
                }
                _ => self.marks.push(Mark { rank, ..*mark }),
            }
            end = mark.index + u64::from(batch.records_at(mark));
        }
        self.last = batch.last;
        self.records += batch.records;
        self.references.extend(&batch.references);
    }

    pub(crate) fn clear(&mut self) {
        let Self {
            mut marks,
            mut references,
            ..
        } = std::mem::take(self);
        marks.clear();
        references.clear();
        self.marks = marks;
        self.references = references;
    }

    /// No more records come.
    pub(crate) fn seal(&mut self) {
        self.sealed_live_bytes = Some(self.count_live_bytes());
        self.marks.shrink_to_fit();
        self.gaps.shrink_to_fit();
        self.references.seal();
    }

    /// Which record of the run it is, `None` if there is none of that index.
    pub(crate) fn rank(&self, index: u64) -> Option<u32> {
        let at = self.mark_before(index)?;
        let mark = self.marks.get(at)?;
        let end = self.end_rank(at);
        if self.gaps.is_empty() {
            let rank = u64::from(mark.rank) + (index - mark.index);
            return u32::try_from(rank).ok().filter(|rank| *rank < end);
        }
        let gaps = self.gaps.get(mark.rank as usize + 1..end as usize)?;
        let (mut rank, mut at) = (mark.rank, mark.index);
        for gap in gaps {
            if at >= index {
                break;
            }
            at += u64::from(*gap);
            rank += 1;
        }
        (at == index).then_some(rank)
    }

    /// From where to where in the file the record lies, and up to which index those after it
    /// do so too.
    pub(crate) fn stretch(&self, index: u64, end: u64) -> Option<(Range<u64>, u64)> {
        let rank = self.rank(index)?;
        let at = self.mark_before(index)?;
        let next = self.marks.get(at + 1);
        let end = next.map_or(end, |next| u64::from(next.offset));
        let last = if self.gaps.is_empty() {
            index + u64::from(self.end_rank(at) - rank - 1)
        } else {
            index
        };
        Some((u64::from(self.marks.get(at)?.offset)..end, last))
    }

    /// The records from `first` to `last`, by index and rank.
    pub(crate) fn ranks(&self, first: u64, last: u64) -> impl Iterator<Item = (u64, u32)> + '_ {
        let from = self.mark_before(first).unwrap_or(0);
        let marks = self.marks.get(from..).unwrap_or_default();
        let groups = (from..).zip(marks);
        let groups = groups.take_while(move |(_, mark)| mark.index <= last);
        groups
            .flat_map(move |(at, mark)| {
                let mut index = mark.index;
                (mark.rank..self.end_rank(at)).map(move |rank| {
                    if rank > mark.rank {
                        index += self
                            .gaps
                            .get(rank as usize)
                            .map_or(1, |gap| u64::from(*gap));
                    }
                    (index, rank)
                })
            })
            .filter(move |(index, _)| (first..=last).contains(index))
    }

    /// Takes so many references from each record; `missed` hears of what was not there to take.
    pub(crate) fn release(
        &mut self,
        first: u64,
        last: u64,
        count: u32,
        missed: &mut dyn FnMut(u64, u32),
    ) {
        let mut gone = 0;
        self.visit(first, last, |references, index, rank, weight| {
            let taken = rank.map_or(0, |rank| references.take(rank, count));
            if taken < count {
                missed(index, count - taken);
            }
            if taken > 0 && rank.is_some_and(|rank| references.of(rank) == 0) {
                gone += weight;
            }
        });
        if let Some(bytes) = &mut self.sealed_live_bytes {
            *bytes = bytes.saturating_sub(gone);
        }
    }

    /// Adds so many references to each record that has some; `missed` hears of the others.
    pub(crate) fn retain(
        &mut self,
        first: u64,
        last: u64,
        count: u32,
        missed: &mut dyn FnMut(u64, u32),
    ) {
        let records = self.records;
        self.visit(first, last, |references, index, rank, _| {
            match rank.filter(|rank| references.of(*rank) > 0) {
                Some(rank) => references.add(rank, count, records),
                None => missed(index, count),
            }
        });
    }

    /// Takes references from one record that is here; how many there were to take.
    pub(crate) fn take(&mut self, index: u64, rank: u32, count: u32) -> u32 {
        let taken = self.references.take(rank, count);
        if taken > 0 && self.references.of(rank) == 0 {
            let weight = self.weight(self.mark_before(index).unwrap_or(0));
            if let Some(bytes) = &mut self.sealed_live_bytes {
                *bytes = bytes.saturating_sub(weight);
            }
        }
        taken
    }

    /// Adds references to one record that is here.
    pub(crate) fn add(&mut self, index: u64, rank: u32, count: u32) {
        if self.references.of(rank) == 0 {
            let weight = self.weight(self.mark_before(index).unwrap_or(0));
            if let Some(bytes) = &mut self.sealed_live_bytes {
                *bytes += weight;
            }
        }
        self.references.add(rank, count, self.records);
    }

    /// Adds references to the records from `first` to `last` of the log that are here; how many
    /// are. `missed` hears of the others.
    pub(crate) fn need_of_log(
        &mut self,
        first: u64,
        last: u64,
        count: u32,
        missed: &mut dyn FnMut(u64),
    ) -> u64 {
        let (mut needed, mut more, records) = (0, 0, self.records);
        self.visit(first, last, |references, index, rank, weight| {
            let Some(rank) = rank else {
                return missed(index);
            };
            if references.of(rank) == 0 {
                more += weight;
            }
            references.add(rank, count, records);
            needed += 1;
        });
        if let Some(bytes) = &mut self.sealed_live_bytes {
            *bytes += more;
        }
        needed
    }

    /// As [`need_of_log`](Self::need_of_log), where of a wide range only few indexes may be here.
    pub(crate) fn need_of_cold(
        &mut self,
        first: u64,
        last: u64,
        count: u32,
        except: &dyn Fn(u64) -> bool,
    ) -> u64 {
        let mut needed = 0;
        let ranks: Vec<(u64, u32)> = self.ranks(first, last).collect();
        for (index, rank) in ranks.into_iter().filter(|(index, _)| !except(*index)) {
            self.add(index, rank, count);
            needed += 1;
        }
        needed
    }

    /// Goes over all indexes from `first` to `last`, with the rank and about the bytes of each
    /// that has a record.
    fn visit(
        &mut self,
        first: u64,
        last: u64,
        mut each: impl FnMut(&mut References, u64, Option<u32>, u64),
    ) {
        let mut index = first;
        while index <= last {
            let Some(rank) = self.rank(index) else {
                each(&mut self.references, index, None, 0);
                index += 1;
                continue;
            };
            let at = self.mark_before(index).unwrap_or(0);
            // Where indexes are consecutive, so are ranks, up to the next mark.
            let end = if self.gaps.is_empty() {
                self.end_rank(at)
            } else {
                rank + 1
            };
            let weight = self.weight(at);
            for rank in rank..end {
                if index > last {
                    break;
                }
                each(&mut self.references, index, Some(rank), weight);
                index += 1;
            }
        }
    }

    /// About the bytes of the records that are needed.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.sealed_live_bytes
            .unwrap_or_else(|| self.count_live_bytes())
    }

    fn count_live_bytes(&self) -> u64 {
        if self.references.live() == 0 {
            return 0;
        }
        let groups = self.marks.iter().enumerate();
        let live = |(at, mark): (usize, &Mark)| {
            let ranks = mark.rank..self.end_rank(at);
            self.weight(at) * self.references.live_in(ranks)
        };
        groups.map(live).sum()
    }

    /// The bytes of each record from that mark on, all taken for equal.
    fn weight(&self, mark: usize) -> u64 {
        let Some(first) = self.marks.get(mark) else {
            return 0;
        };
        u64::from(first.bytes) / u64::from(self.end_rank(mark) - first.rank).max(1)
    }

    fn mark_before(&self, index: u64) -> Option<usize> {
        if index > self.last {
            return None;
        }
        self.marks
            .partition_point(|mark| mark.index <= index)
            .checked_sub(1)
    }

    fn end_rank(&self, mark: usize) -> u32 {
        self.marks
            .get(mark + 1)
            .map_or(self.records, |next| next.rank)
    }

    fn records_at(&self, mark: &Mark) -> u32 {
        let next = self.marks.partition_point(|other| other.rank <= mark.rank);
        let end = self.marks.get(next).map_or(self.records, |next| next.rank);
        end - mark.rank
    }
}

impl Mark {
    /// Whether a record of the log is found by counting from here: every index between has one.
    #[inline]
    fn leads_to(&self, index: u64, rank: u32, offset: u32, bytes: u32) -> bool {
        self.index + u64::from(rank - self.rank) == index && self.takes(rank, offset, bytes)
    }

    /// Whether a record of that rank is near enough to be found from here.
    #[inline]
    fn takes(&self, rank: u32, offset: u32, bytes: u32) -> bool {
        let records = rank - self.rank;
        let is_large = bytes >= OWN_MARK_BYTES || records == 1 && self.bytes >= OWN_MARK_BYTES;
        records < MARK_EVERY && offset - self.offset < REACH && !is_large
    }
}

/// Records that a mark stands for at most.
const MARK_EVERY: u32 = 64;
/// How far from its mark a record of a batch begins at most; a batch may share the mark of the
/// one before.
const REACH: u32 = 16 << 10;
/// How far from its mark any record begins at most.
pub(crate) const REACH_MAX: u64 = 2 * REACH as u64;
/// A record of that size has a mark of its own, so that its bytes are counted for it alone.
const OWN_MARK_BYTES: u32 = 4 << 10;

/// How many marks a run may have; more cannot lie in a file.
pub(crate) fn marks_max(file_bytes: u64) -> u32 {
    to_u32(usize::try_from(file_bytes / crate::record::HEADER_BYTES).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_is_found_and_no_other_is() {
        let mut run = Run::default();
        let mut offset = 512;
        let indexes = (1..200).chain(300..310).chain(311..600);
        for (n, index) in indexes.clone().enumerate() {
            let size = if n % 50 == 0 { 9000 } else { 120 };
            run.push(index, offset, size, u32::from(index % 3 == 0));
            offset += u32::try_from(size).unwrap();
        }
        let end = u64::from(offset);
        let all: Vec<u64> = indexes.collect();
        for index in 0..700 {
            let rank = all.iter().position(|other| *other == index);
            assert_eq!(run.rank(index).map(|rank| rank as usize), rank, "{index}");
            assert_eq!(run.stretch(index, end).is_some(), rank.is_some());
        }
        let ranks: Vec<u64> = run.ranks(190, 312).map(|(index, _)| index).collect();
        let expected: Vec<u64> = (190..200).chain(300..310).chain(311..313).collect();
        assert_eq!(ranks, expected);
        assert_eq!(
            run.references.live(),
            all.iter().filter(|i| *i % 3 == 0).count() as u64
        );
    }

    #[test]
    fn records_after_indexes_without_one_are_found_and_counted() {
        let shard = ShardId(1);
        let position = |index| Position { shard, index };
        let mut contents = Contents::default();
        contents.push_gone(position(5), 2);
        let offset = |index: u64| u32::try_from(512 + index * 64).unwrap();
        let there = [7, 8, 12, 13, 20];
        for (index, gone) in [(7, 0), (8, 3), (12, 0), (13, 6), (20, 4)] {
            contents.push(position(index), offset(index), 64);
            if gone > 0 {
                contents.push_gone(position(index + 1), gone);
            }
        }
        let mut run = contents.runs.remove(&shard).unwrap();
        let mut batch = Run::default();
        batch.push(25, offset(25), 64, 0);
        batch.push(26, offset(26), 64, 0);
        run.extend(&batch);
        let all: Vec<u64> = there.into_iter().chain([25, 26]).collect();
        for index in 0..40 {
            let rank = all.iter().position(|other| *other == index);
            assert_eq!(run.rank(index).map(|rank| rank as usize), rank, "{index}");
        }
        let ranks: Vec<u64> = run.ranks(0, 40).map(|(index, _)| index).collect();
        assert_eq!(ranks, all);
        assert!(run.has_holes());
        let mut missed = Vec::new();
        let needed = run.need_of_log(5, 26, 2, &mut |index| missed.push(index));
        assert_eq!((needed, run.references.live()), (7, 7));
        assert_eq!(
            missed,
            [5, 6, 9, 10, 11, 14, 15, 16, 17, 18, 19, 21, 22, 23, 24]
        );
    }

    #[test]
    fn batches_that_follow_one_another_share_their_marks() {
        let (mut whole, mut parts) = (Run::default(), Run::default());
        for batch in 0..40_u64 {
            let mut part = Run::default();
            for n in 0..7 {
                let index = 1 + batch * 7 + n;
                let offset = u32::try_from(512 + index * 100).unwrap();
                part.push(index, offset, 100, 1);
                whole.push(index, offset, 100, 1);
            }
            parts.extend(&part);
        }
        assert!(parts.marks.len() < 10, "{} marks", parts.marks.len());
        for index in 1..=280 {
            assert_eq!(parts.rank(index), whole.rank(index));
        }
        assert_eq!(parts.live_bytes(), 28_000);
        assert_eq!(parts.references, whole.references);
    }

    #[test]
    fn a_cold_run_knows_its_gaps() {
        let mut run = Run::default();
        let indexes: Vec<u64> = (1..400_u64).map(|n| n * n).collect();
        for (n, index) in (0..).zip(&indexes) {
            run.push_cold(*index, 512 + n * 64, 64, 1);
        }
        for index in 0..2000 {
            let rank = indexes.iter().position(|other| *other == index);
            assert_eq!(run.rank(index).map(|rank| rank as usize), rank, "{index}");
        }
        let all: Vec<u64> = run.ranks(0, u64::MAX).map(|(index, _)| index).collect();
        assert_eq!(all, indexes);
    }
}
