//! What opening, verifying and repairing found. Plain data with a text for people.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::RangeInclusive;

use menzil_model::{Class, Position, ShardId};

use crate::contents::Contents;
use crate::damage::Damage;

/// What [`Journal::open`](crate::Journal::open) found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenReport {
    /// Segments that hold records.
    pub segments: u64,
    /// How many of them had to be read.
    pub segments_read: u64,
    /// Checkpoints that were replayed.
    pub checkpoints: Vec<(ShardId, u64)>,
    /// Newer checkpoints that were damaged and passed over.
    pub checkpoints_damaged: Vec<String>,
    /// Records replayed.
    pub records: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
    /// What was cut off the end of the log.
    pub torn: Option<TornTail>,
    /// Records that are damaged or lost.
    pub quarantined: Vec<Quarantined>,
    /// Damage that cost no record.
    pub harmless: Vec<Damage>,
}

impl fmt::Display for OpenReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} segments ({} read), {} checkpoints, {} records replayed ({} bytes)",
            self.segments,
            self.segments_read,
            self.checkpoints.len(),
            self.records,
            self.bytes
        )?;
        for name in &self.checkpoints_damaged {
            write!(f, "\n{name} is damaged, the one before it was used")?;
        }
        if let Some(torn) = &self.torn {
            write!(f, "\n{torn}")?;
        }
        for quarantined in &self.quarantined {
            write!(f, "\n{quarantined}")?;
        }
        for damage in &self.harmless {
            write!(f, "\n{damage}; no record is lost by it")?;
        }
        Ok(())
    }
}

/// The unfinished end of the log, which nobody was told was committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// Number in the segment's file name.
    pub segment: u64,
    /// Where the log ends.
    pub offset: u64,
    /// How many bytes were cut.
    pub bytes: u64,
}

impl fmt::Display for TornTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            segment,
            offset,
            bytes,
        } = self;
        write!(
            f,
            "torn tail: {bytes} unconfirmed bytes cut from segment {segment} at byte {offset}"
        )
    }
}

/// A record that is damaged or lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// Its name.
    pub position: Position,
    /// What it was about, as far as it can be told.
    pub class: Class,
    /// What is wrong.
    pub damage: Damage,
}

impl fmt::Display for Quarantined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} record {} quarantined: {}",
            self.class, self.position, self.damage
        )
    }
}

/// What [`verify`](crate::verify) and [`repair`](crate::repair) found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Segments that hold records.
    pub segments: u64,
    /// Cold files, and the records in them.
    pub cold_files: u64,
    /// See [`cold_files`](Self::cold_files).
    pub cold_records: u64,
    /// Valid batches.
    pub batches: u64,
    /// Valid records.
    pub records: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
    /// Records that an earlier repair took out.
    pub dropped: u64,
    /// Valid checkpoints.
    pub checkpoints: Vec<(ShardId, u64)>,
    /// Damaged checkpoints, by file name.
    pub checkpoints_damaged: Vec<String>,
    /// Segment files that are not as they were made: cut off, unreadable or renamed. A line each.
    pub segments_damaged: Vec<String>,
    /// The unfinished end of the log.
    pub torn: Option<TornTail>,
    /// Records that are damaged or lost.
    pub quarantined: Vec<Quarantined>,
    /// Damage that cost no record.
    pub harmless: Vec<Damage>,
    /// Indexes of each shard that have a record in some file, damaged ones included; those that
    /// an earlier repair took out have none.
    pub held: BTreeMap<ShardId, Vec<RangeInclusive<u64>>>,
    /// What keeps the folder from being opened.
    pub refusals: Vec<String>,
    /// Whether one of them is about bytes that are nowhere, so that no repair can mend it.
    pub past_repair: bool,
    /// What a repair did, one line each.
    pub actions: Vec<String>,
    /// What a repair would mend and cannot, one line each.
    pub unmended: Vec<String>,
}

impl Report {
    /// Takes what a cold file holds into account.
    pub(crate) fn count_cold(&mut self, contents: &Contents) {
        self.cold_files += 1;
        self.cold_records += contents.records();
        self.hold(contents);
    }

    /// Notes which records a file has.
    pub(crate) fn hold(&mut self, contents: &Contents) {
        for (shard, run) in &contents.runs {
            let held = self.held.entry(*shard).or_default();
            for (index, _) in run.ranks(0, u64::MAX) {
                match held.last_mut() {
                    Some(last) if *last.end() + 1 == index => *last = *last.start()..=index,
                    _ => held.push(index..=index),
                }
            }
        }
    }

    /// Whether nothing is wrong. A torn tail is not: it is how a crash looks.
    pub fn is_sound(&self) -> bool {
        self.checkpoints_damaged.is_empty()
            && self.segments_damaged.is_empty()
            && self.quarantined.is_empty()
            && self.harmless.is_empty()
            && self.refusals.is_empty()
    }

    /// Those of the indexes, which come ascending, that have no record: nothing is damaged where
    /// they were, they are just not there, or a repair took them out.
    pub fn missing(&self, shard: ShardId, indexes: &[u64]) -> Vec<u64> {
        let mut held = self.held.get(&shard).cloned().unwrap_or_default();
        held.sort_unstable_by_key(|run| *run.start());
        // A cold file may repeat some of a segment that is still there: each run reaches as far
        // as any before it, or one that lies inside another would hide the rest of that.
        let mut reach = 0;
        for run in &mut held {
            reach = reach.max(*run.end());
            *run = *run.start()..=reach;
        }
        let of_shard = |one: &&Quarantined| one.position.shard == shard;
        let named: BTreeSet<u64> = self
            .quarantined
            .iter()
            .filter(of_shard)
            .map(|one| one.position.index)
            .collect();
        let is_held = |index: &u64| {
            let after = held.partition_point(|run| run.start() <= index);
            let run = after.checked_sub(1).and_then(|at| held.get(at));
            run.is_some_and(|run| run.contains(index))
        };
        let gone = |index: &&u64| !is_held(index) && !named.contains(index);
        indexes.iter().filter(gone).copied().collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} segments, {} batches, {} records ({} bytes), {} dropped, {} checkpoints",
            self.segments,
            self.batches,
            self.records,
            self.bytes,
            self.dropped,
            self.checkpoints.len()
        )?;
        for name in &self.checkpoints_damaged {
            write!(f, "\n{name} is damaged")?;
        }
        for line in &self.segments_damaged {
            write!(f, "\n{line}")?;
        }
        if let Some(torn) = &self.torn {
            write!(f, "\n{torn}")?;
        }
        for quarantined in &self.quarantined {
            write!(f, "\n{quarantined}")?;
        }
        for damage in &self.harmless {
            write!(f, "\n{damage}; no record is lost by it")?;
        }
        let did = self.actions.iter().chain(&self.unmended);
        for line in self.refusals.iter().chain(did) {
            write!(f, "\n{line}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_inside_another_hides_nothing_of_it() {
        let shard = ShardId(1);
        let mut report = Report::default();
        report
            .held
            .insert(shard, vec![10..=20, 30..=35, 12..=13, 15..=15]);
        let indexes: Vec<u64> = (9..=36).collect();
        let gone: Vec<u64> = [9].into_iter().chain(21..=29).chain([36]).collect();
        assert_eq!(report.missing(shard, &indexes), gone);
    }
}
