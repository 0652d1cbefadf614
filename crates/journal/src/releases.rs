//! What is needed no more, as it is told: gathered under the pending lock, counted with the
//! next commit.
//!
//! Lacks any idea of where records lie. Invariant: a release is told after the append of what
//! it is about, so when it is counted the record is in the directory.

use menzil_model::ShardId;

/// Consecutive records, each with so many references less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Release {
    pub(crate) shard: ShardId,
    pub(crate) first: u64,
    pub(crate) records: u64,
    pub(crate) count: u32,
}

impl Release {
    pub(crate) fn last(&self) -> u64 {
        (self.first + self.records).saturating_sub(1)
    }
}

/// Releases in the order in which they were told; neighbours are one.
#[derive(Debug, Default)]
pub(crate) struct Releases {
    runs: Vec<Release>,
}

impl Releases {
    pub(crate) fn push(&mut self, shard: ShardId, index: u64, count: u32) {
        self.push_run(shard, index, 1, count);
    }

    /// As [`push`](Self::push), of consecutive records.
    pub(crate) fn push_run(&mut self, shard: ShardId, first: u64, records: u64, count: u32) {
        if count == 0 || records == 0 {
            return;
        }
        if let Some(last) = self.runs.last_mut()
            && last.shard == shard
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
        self.runs.push(Release {
            shard,
            first,
            records,
            count,
        });
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
        for (index, count) in [(5, 1), (6, 1), (6, 1), (7, 2), (7, 1), (9, 1), (9, 0)] {
            releases.push(ShardId(1), index, count);
        }
        releases.push(ShardId(2), 10, 1);
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
        ];
        assert_eq!(runs, expected);
        assert!(releases.is_empty());
    }
}
