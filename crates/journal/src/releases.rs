//! What is needed no more, and what is needed by more, as it is told: gathered under the pending
//! lock, counted with the next commit.
//!
//! Lacks any idea of where records lie. Invariants: both are told after the append of what they
//! are about, so when they are counted the record is in the directory. What is told of one record
//! is counted in the order of telling: one that is retained before it is released is needed all
//! the time.

use menzil_model::ShardId;

/// Which way a count goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// So many need the record no more.
    Down,
    /// So many more need it, beside those who do.
    Up,
}

/// Consecutive records, each with so many references less, or more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Release {
    pub(crate) shard: ShardId,
    pub(crate) first: u64,
    pub(crate) records: u64,
    pub(crate) count: u32,
    pub(crate) way: Way,
}

impl Release {
    pub(crate) fn last(&self) -> u64 {
        (self.first + self.records).saturating_sub(1)
    }

    /// The part up to that record, and the part after it.
    pub(crate) fn split(self, committed: u64) -> (Option<Self>, Option<Self>) {
        let within = (committed + 1).saturating_sub(self.first).min(self.records);
        let before = Self {
            records: within,
            ..self
        };
        let after = Self {
            first: self.first + within,
            records: self.records - within,
            ..self
        };
        let some = |part: Self| (part.records > 0).then_some(part);
        (some(before), some(after))
    }
}

/// Releases in the order in which they were told; neighbours are one.
#[derive(Debug, Default)]
pub(crate) struct Releases {
    runs: Vec<Release>,
}

impl Releases {
    pub(crate) fn push(&mut self, told: Release) {
        let Release {
            first,
            records,
            count,
            ..
        } = told;
        if count == 0 || records == 0 {
            return;
        }
        if let Some(last) = self.runs.last_mut()
            && (last.shard, last.way) == (told.shard, told.way)
        {
            if last.count == count && last.first + last.records == first {
                last.records += records;
                return;
            }
            if last.first == first && last.records == records {
                last.count = last.count.saturating_add(count);
                return;
            }
        }
        self.runs.push(told);
    }

    /// Gives back what could not be counted yet.
    pub(crate) fn put_back(&mut self, runs: Vec<Release>) {
        self.runs = runs;
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// How many runs there are.
    pub(crate) fn len(&self) -> usize {
        self.runs.len()
    }

    pub(crate) fn take(&mut self) -> Vec<Release> {
        std::mem::take(&mut self.runs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_become_one_run() {
        let mut releases = Releases::default();
        let one = |shard, first, count, way| Release {
            shard: ShardId(shard),
            first,
            records: 1,
            count,
            way,
        };
        for (index, count) in [(5, 1), (6, 1), (6, 1), (7, 2), (7, 1), (9, 1), (9, 0)] {
            releases.push(one(1, index, count, Way::Down));
        }
        releases.push(one(2, 10, 1, Way::Down));
        releases.push(one(2, 11, 1, Way::Up));
        let runs: Vec<_> = releases
            .take()
            .iter()
            .map(|run| (run.shard.0, run.first, run.records, run.count))
            .collect();
        let expected = [
            (1, 5, 2, 1),
            (1, 6, 1, 1),
            (1, 7, 1, 3),
            (1, 9, 1, 1),
            (2, 10, 1, 1),
            (2, 11, 1, 1),
        ];
        assert_eq!(runs, expected);
        assert!(releases.is_empty());
    }

    #[test]
    fn a_run_is_split_where_it_is_committed() {
        let run = Release {
            shard: ShardId(1),
            first: 5,
            records: 4,
            count: 2,
            way: Way::Up,
        };
        for committed in 0..12 {
            let (before, after) = run.split(committed);
            let indexes = [before, after].map(|part| {
                let part = part.map(|part| part.first..part.first + part.records);
                part.into_iter().flatten().collect::<Vec<u64>>()
            });
            assert!(indexes[0].iter().all(|index| *index <= committed));
            assert!(indexes[1].iter().all(|index| *index > committed));
            assert_eq!(indexes.concat(), [5, 6, 7, 8]);
        }
    }
}
