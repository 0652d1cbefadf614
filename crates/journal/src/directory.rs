//! Where each record lies and who needs it: by position to a file and a stretch of it.
//!
//! Lacks payloads and files' names. Invariant: the runs of a shard in segments do not overlap;
//! a record that is in several files, because it was evacuated, is counted in one of them.
//!
//! ```text
//! shard → first index → segment, and its cold files
//! file  → shard → run                                                   see contents.rs
//! ```

use std::collections::BTreeMap;
use std::ops::Range;

use menzil_model::{Map, Position, ShardId};

use crate::contents::{Contents, Run};
use crate::releases::{Release, Way};
use crate::segment::Segment;

/// All records that can be read.
#[derive(Debug)]
pub(crate) struct Directory<F> {
    files: BTreeMap<u64, Entry<F>>,
    shards: Map<ShardId, Places>,
}

/// The files that have records of a shard.
#[derive(Debug, Default)]
struct Places {
    /// Segments of the log, by their first index.
    log: BTreeMap<u64, u64>,
    /// Cold files, the newest first.
    cold: Vec<u64>,
}

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A part of the log that may grow.
    Open,
    /// A part of the log that no batch will follow in.
    Sealed,
    /// What was saved out of others.
    Cold,
}

/// One file in the directory.
#[derive(Debug)]
pub(crate) struct Entry<F> {
    pub(crate) segment: Segment<F>,
    pub(crate) contents: Contents,
    pub(crate) kind: Kind,
    /// References are still being moved to it: that nobody needs it says nothing yet.
    filling: bool,
}

/// How much of a segment, or of a cold file, is still needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentUse {
    /// Number in the file's name.
    pub segment: u64,
    /// Length of the file.
    pub length: u64,
    /// Bytes that batches take.
    pub used_bytes: u64,
    /// Records it holds.
    pub records: u64,
    /// Records that somebody needs.
    pub live_records: u64,
    /// About their bytes, headers included.
    pub live_bytes: u64,
    /// Whether no batch will follow.
    pub sealed: bool,
    /// Whether it holds what was evacuated.
    pub cold: bool,
}

/// Where a record lies.
#[derive(Debug)]
pub(crate) struct Place<F> {
    pub(crate) segment: Segment<F>,
    /// From a record at or shortly before it to one after it, or to the end.
    pub(crate) stretch: Range<u64>,
    /// From its index up to this one there are records, and they begin in that stretch.
    pub(crate) last: u64,
}

impl<F> Default for Directory<F> {
    fn default() -> Self {
        Self {
            files: BTreeMap::new(),
            shards: Map::default(),
        }
    }
}

impl<F> Directory<F> {
    /// Adds a file with what it holds.
    pub(crate) fn add(&mut self, segment: Segment<F>, contents: Contents, kind: Kind) {
        let id = segment.id;
        for (shard, run) in &contents.runs {
            self.shards
                .entry(*shard)
                .or_default()
                .add(id, run.first, kind);
        }
        let mut entry = Entry {
            segment,
            contents,
            kind,
            filling: false,
        };
        if kind != Kind::Open {
            entry.contents.runs.values_mut().for_each(Run::seal);
        }
        self.files.insert(id, entry);
    }

    /// Adds the records of a batch that was committed to a segment.
    pub(crate) fn commit<'a>(
        &mut self,
        segment: &Segment<F>,
        runs: impl Iterator<Item = (ShardId, &'a Run)>,
        number: u64,
        previous: u64,
        end: u64,
    ) {
        let entry = self.files.entry(segment.id).or_insert_with(|| Entry {
            segment: segment.clone(),
            contents: Contents {
                first_number: number,
                previous,
                ..Contents::default()
            },
            kind: Kind::Open,
            filling: false,
        });
        entry.contents.end = end;
        entry.contents.last_number = number;
        for (shard, batch) in runs {
            let run = entry.contents.runs.entry(shard).or_default();
            if run.is_empty() {
                let places = self.shards.entry(shard).or_default();
                places.add(segment.id, batch.first, Kind::Open);
            }
            run.extend(batch);
        }
    }

    pub(crate) fn seal(&mut self, segment: u64) {
        if let Some(entry) = self.files.get_mut(&segment) {
            entry.kind = Kind::Sealed;
            entry.contents.runs.values_mut().for_each(Run::seal);
        }
    }

    pub(crate) fn entry(&self, file: u64) -> Option<&Entry<F>> {
        self.files.get(&file)
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry<F>> {
        self.files.values()
    }

    /// Where the record lies. One that was evacuated may be in two places, which say the same.
    pub(crate) fn find(&self, position: Position) -> Option<Place<F>> {
        let places = self.shards.get(&position.shard)?;
        places
            .candidates(position.index)
            .find_map(|file| self.files.get(&file)?.place(position))
    }

    /// Counts what was told, in its order; what is of records that are nowhere, or that nobody
    /// needed, is left over.
    pub(crate) fn release(&mut self, releases: &[Release]) -> u64 {
        let mut unknown = 0;
        let mut missed = Vec::new();
        for release in releases {
            self.release_in_log(release, &mut missed);
            for (index, count) in missed.drain(..) {
                unknown += u64::from(match release.way {
                    Way::Down => self.release_cold(release.shard, index, count),
                    Way::Up => self.retain_cold(release.shard, index, count),
                });
            }
        }
        unknown
    }

    /// Adds references to consecutive records; how many of those are there.
    pub(crate) fn need(&mut self, shard: ShardId, first: u64, last: u64, count: u32) -> u64 {
        let Some(places) = self.shards.get(&shard) else {
            return 0;
        };
        let mut needed = 0;
        let mut elsewhere = Vec::new();
        let mut next = first;
        for file in places.between(first, last) {
            let entry = self.files.get_mut(&file);
            let Some(run) = entry.and_then(|entry| entry.contents.runs.get_mut(&shard)) else {
                continue;
            };
            if next < run.first {
                elsewhere.push((next, run.first - 1));
            }
            let (from, to) = (first.max(run.first), last.min(run.last));
            // What a repair took out of the log may have been evacuated before.
            needed += run.need_of_log(from, to, count, &mut |hole| elsewhere.push((hole, hole)));
            next = next.max(run.last.saturating_add(1));
        }
        if next <= last {
            elsewhere.push((next, last));
        }
        let cold = places.cold.clone();
        for (first, last) in elsewhere {
            needed += self.need_cold(shard, &cold, first, last, count);
        }
        needed
    }

    /// Where a record is both in a segment and in a cold file, because there was no time to
    /// set the segment free, the newest cold file is the one that counts.
    pub(crate) fn settle_copies(&mut self) {
        let cold: Vec<u64> = self
            .files
            .values()
            .filter(|entry| entry.kind == Kind::Cold)
            .map(|entry| entry.segment.id)
            .collect();
        for file in cold.into_iter().rev() {
            self.take_over(file);
        }
    }

    /// Moves the references of all records that a cold file holds to it, unless a newer one has
    /// them.
    pub(crate) fn take_over(&mut self, file: u64) {
        let Some(entry) = self.files.get(&file) else {
            return;
        };
        let mut moved = Vec::new();
        for (shard, run) in &entry.contents.runs {
            let Some(places) = self.shards.get(shard) else {
                continue;
            };
            for (index, rank) in run.ranks(0, u64::MAX) {
                let is_newer = |other: u64| other > file && self.is_cold(other);
                let others = places.candidates(index);
                let others = others.filter(|other| *other != file && !is_newer(*other));
                for other in others {
                    let run = self.files.get(&other);
                    let run = run.and_then(|entry| entry.contents.runs.get(shard));
                    let found = run.and_then(|run| Some((run, run.rank(index)?)));
                    if let Some((run, old)) = found.filter(|(run, old)| run.references.of(*old) > 0)
                    {
                        moved.push((*shard, index, rank, other, old, run.references.of(old)));
                    }
                }
            }
        }
        for (shard, index, rank, other, old, count) in moved {
            if let Some(run) = self.run_mut(other, shard) {
                run.take(index, old, count);
            }
            if let Some(run) = self.run_mut(file, shard) {
                run.add(index, rank, count);
            }
        }
    }

    /// While it is, a cold file does not go though nobody needs anything of it.
    pub(crate) fn set_filling(&mut self, file: u64, filling: bool) {
        if let Some(entry) = self.files.get_mut(&file) {
            entry.filling = filling;
        }
    }

    /// Moves the references of a record from one file to another.
    pub(crate) fn forward(&mut self, shard: ShardId, index: u64, source: u64, target: u64) {
        let Some(run) = self.run_mut(source, shard) else {
            return;
        };
        let Some(rank) = run.rank(index) else { return };
        let count = run.take(index, rank, u32::MAX);
        if count == 0 {
            return;
        }
        if let Some(run) = self.run_mut(target, shard)
            && let Some(rank) = run.rank(index)
        {
            run.add(index, rank, count);
        }
    }

    /// Files that hold nothing of the shard that is needed and nothing past the index.
    pub(crate) fn unneeded(&self, shard: ShardId, index: u64) -> Vec<u64> {
        let unneeded = |entry: &&Entry<F>| {
            let run = entry.contents.runs.get(&shard);
            entry.is_complete()
                && run
                    .is_some_and(|run| !run.free && run.references.live() == 0 && run.last <= index)
        };
        let files = self.files.values().filter(unneeded);
        files.map(|entry| entry.segment.id).collect()
    }

    /// A checkpoint of the shard needs nothing of these files.
    pub(crate) fn set_free(&mut self, shard: ShardId, files: &[u64]) {
        for file in files {
            if let Some(run) = self.run_mut(*file, shard) {
                debug_assert!(run.references.live() == 0, "what is free is not needed");
                run.references.seal();
                run.free = true;
            }
        }
    }

    /// Bytes of the files that checkpoints at these indexes would set free.
    pub(crate) fn unneeded_bytes(&self, index: impl Fn(ShardId) -> u64) -> u64 {
        let is_unneeded = |entry: &&Entry<F>| {
            let gone = |(shard, run): (&ShardId, &Run)| {
                run.free || run.references.live() == 0 && run.last <= index(*shard)
            };
            entry.is_complete() && entry.contents.runs.iter().all(gone)
        };
        let unneeded = self.files.values().filter(is_unneeded);
        unneeded.map(|entry| entry.segment.length).sum()
    }

    /// Takes out the files that nobody needs.
    pub(crate) fn take_dead(&mut self) -> Vec<Entry<F>> {
        let is_dead = |entry: &&Entry<F>| {
            entry.is_complete() && entry.contents.runs.values().all(|run| run.free)
        };
        let dead = self.files.values().filter(is_dead);
        let dead: Vec<u64> = dead.map(|entry| entry.segment.id).collect();
        dead.into_iter().filter_map(|id| self.remove(id)).collect()
    }

    /// How much of each file is still needed.
    pub(crate) fn uses(&self) -> Vec<SegmentUse> {
        self.files.values().map(Entry::usage).collect()
    }

    /// The bytes that finding and counting take in memory.
    pub(crate) fn memory(&self) -> u64 {
        let runs = self
            .files
            .values()
            .flat_map(|entry| entry.contents.runs.values());
        runs.map(|run| {
            let marks = run.marks.capacity() * size_of::<crate::contents::Mark>();
            (marks + run.gaps.capacity()) as u64 + run.references.memory()
        })
        .sum()
    }

    fn remove(&mut self, file: u64) -> Option<Entry<F>> {
        let entry = self.files.remove(&file)?;
        for (shard, run) in &entry.contents.runs {
            if let Some(places) = self.shards.get_mut(shard) {
                if entry.kind == Kind::Cold {
                    places.cold.retain(|cold| *cold != file);
                } else {
                    places.log.remove(&run.first);
                }
            }
        }
        Some(entry)
    }

    fn is_cold(&self, file: u64) -> bool {
        let entry = self.files.get(&file);
        entry.is_some_and(|entry| entry.kind == Kind::Cold)
    }

    fn run_mut(&mut self, file: u64, shard: ShardId) -> Option<&mut Run> {
        self.files.get_mut(&file)?.contents.runs.get_mut(&shard)
    }

    fn release_in_log(&mut self, release: &Release, missed: &mut Vec<(u64, u32)>) {
        let Release {
            shard,
            first,
            count,
            way,
            ..
        } = *release;
        let last = release.last();
        let Some(places) = self.shards.get(&shard) else {
            missed.extend((first..=last).map(|index| (index, count)));
            return;
        };
        let mut next = first;
        for file in places.between(first, last) {
            let entry = self.files.get_mut(&file);
            let Some(run) = entry.and_then(|entry| entry.contents.runs.get_mut(&shard)) else {
                continue;
            };
            missed.extend((next..run.first).map(|index| (index, count)));
            next = next.max(run.first);
            let end = last.min(run.last);
            let mut missed = |index, count| missed.push((index, count));
            match way {
                Way::Down => run.release(next, end, count, &mut missed),
                Way::Up => run.retain(next, end, count, &mut missed),
            }
            next = next.max(end.saturating_add(1));
        }
        missed.extend((next..=last).map(|index| (index, count)));
    }

    fn release_cold(&mut self, shard: ShardId, index: u64, count: u32) -> u32 {
        let mut left = count;
        let Some(places) = self.shards.get(&shard) else {
            return left;
        };
        for file in &places.cold {
            let entry = self.files.get_mut(file);
            let Some(run) = entry.and_then(|entry| entry.contents.runs.get_mut(&shard)) else {
                continue;
            };
            if left > 0
                && let Some(rank) = run.rank(index)
            {
                left -= run.take(index, rank, left);
            }
        }
        left
    }

    /// Adds references where some are; how many found no place.
    fn retain_cold(&mut self, shard: ShardId, index: u64, count: u32) -> u32 {
        let Some(places) = self.shards.get(&shard) else {
            return count;
        };
        for file in &places.cold {
            let entry = self.files.get_mut(file);
            let Some(run) = entry.and_then(|entry| entry.contents.runs.get_mut(&shard)) else {
                continue;
            };
            if let Some(rank) = run.rank(index)
                && run.references.of(rank) > 0
            {
                run.add(index, rank, count);
                return 0;
            }
        }
        count
    }

    /// As [`need`](Self::need) in cold files: what is in several counts in the newest.
    fn need_cold(
        &mut self,
        shard: ShardId,
        cold: &[u64],
        first: u64,
        last: u64,
        count: u32,
    ) -> u64 {
        let mut needed = 0;
        for (n, file) in cold.iter().enumerate() {
            let Some(mut entry) = self.files.remove(file) else {
                continue;
            };
            if let Some(run) = entry.contents.runs.get_mut(&shard) {
                let is_newer = |index: u64| {
                    cold.iter().take(n).any(|newer| {
                        let run = self.files.get(newer);
                        let run = run.and_then(|entry| entry.contents.runs.get(&shard));
                        run.is_some_and(|run| run.rank(index).is_some())
                    })
                };
                needed += run.need_of_cold(first, last, count, &is_newer);
            }
            self.files.insert(*file, entry);
        }
        needed
    }
}

impl Places {
    fn add(&mut self, file: u64, first: u64, kind: Kind) {
        if kind == Kind::Cold {
            let at = self.cold.partition_point(|other| *other > file);
            self.cold.insert(at, file);
        } else {
            self.log.insert(first, file);
        }
    }

    /// The files that may have the record.
    fn candidates(&self, index: u64) -> impl Iterator<Item = u64> + '_ {
        let in_log = self.log.range(..=index).next_back();
        let in_log = in_log.map(|(_, file)| *file);
        in_log.into_iter().chain(self.cold.iter().copied())
    }

    /// The segments that may have records between, in their order.
    fn between(&self, first: u64, last: u64) -> Vec<u64> {
        let before = self.log.range(..first).next_back();
        let within = self.log.range(first..=last);
        before
            .into_iter()
            .chain(within)
            .map(|(_, file)| *file)
            .collect()
    }
}

impl<F> Entry<F> {
    fn place(&self, position: Position) -> Option<Place<F>> {
        let run = self.contents.runs.get(&position.shard)?;
        let (stretch, last) = run.stretch(position.index, self.contents.end)?;
        Some(Place {
            segment: self.segment.clone(),
            stretch,
            last,
        })
    }

    /// Whether what it holds only becomes less, and what of it nobody needs stays so.
    fn is_complete(&self) -> bool {
        self.kind != Kind::Open && !self.filling
    }

    pub(crate) fn usage(&self) -> SegmentUse {
        SegmentUse {
            segment: self.segment.id,
            length: self.segment.length,
            used_bytes: self.contents.end,
            records: self.contents.records(),
            live_records: self.contents.live(),
            live_bytes: self.contents.live_bytes(),
            sealed: self.kind != Kind::Open,
            cold: self.kind == Kind::Cold,
        }
    }
}

#[cfg(test)]
mod tests;
