//! How many still need each record of a run: a byte for each.
//!
//! Lacks positions: records are told by their rank in the run. Invariant: `live` is the number of
//! records with a count above zero; once it is zero in a run that does not grow, there are no
//! bytes.

use std::collections::BTreeMap;

use crate::layout::to_u32;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct References {
    bytes: Vec<u8>,
    /// What does not fit in a byte, by rank.
    large: BTreeMap<u32, u32>,
    live: u32,
}

impl References {
    pub(crate) fn live(&self) -> u64 {
        u64::from(self.live)
    }

    pub(crate) fn push(&mut self, count: u32) {
        let rank = to_u32(self.bytes.len());
        self.bytes.push(0);
        if count > 0 {
            self.set(rank, count);
        }
    }

    pub(crate) fn extend(&mut self, other: &Self) {
        let base = to_u32(self.bytes.len());
        self.bytes.extend_from_slice(&other.bytes);
        for (rank, count) in &other.large {
            self.large.insert(base + rank, *count);
        }
        self.live += other.live;
    }

    pub(crate) fn of(&self, rank: u32) -> u32 {
        match self.bytes.get(rank as usize) {
            Some(&LARGE) => self.large.get(&rank).copied().unwrap_or(MANY),
            byte => byte.copied().map_or(0, u32::from),
        }
    }

    /// Adds references to a record of a run with so many records.
    pub(crate) fn add(&mut self, rank: u32, count: u32, records: u32) {
        if self.bytes.len() < records as usize {
            self.bytes.resize(records as usize, 0);
        }
        let count = self.of(rank).saturating_add(count);
        self.set(rank, count);
    }

    /// Takes references away; how many of them there were.
    pub(crate) fn take(&mut self, rank: u32, count: u32) -> u32 {
        let before = self.of(rank);
        let taken = before.min(count);
        if taken > 0 {
            self.set(rank, before - taken);
        }
        taken
    }

    /// No more records come.
    pub(crate) fn seal(&mut self) {
        if self.live == 0 {
            self.bytes = Vec::new();
        } else {
            self.bytes.shrink_to_fit();
        }
    }

    /// Forgets all; the memory stays.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.large.clear();
        self.live = 0;
    }

    /// How many of these ranks are needed.
    pub(crate) fn live_in(&self, ranks: std::ops::Range<u32>) -> u64 {
        if self.live == 0 {
            return 0;
        }
        let bytes = self.bytes.get(ranks.start as usize..).unwrap_or_default();
        let ranks = bytes.iter().take((ranks.end - ranks.start) as usize);
        ranks.filter(|byte| **byte > 0).count() as u64
    }

    /// The bytes in memory.
    pub(crate) fn memory(&self) -> u64 {
        self.bytes.capacity() as u64 + self.large.len() as u64 * 16
    }

    fn set(&mut self, rank: u32, count: u32) {
        let Some(byte) = self.bytes.get_mut(rank as usize) else {
            return;
        };
        match (*byte > 0, count > 0) {
            (false, true) => self.live += 1,
            (true, false) => self.live -= 1,
            _ => {}
        }
        if *byte == LARGE {
            self.large.remove(&rank);
        }
        *byte = u8::try_from(count).unwrap_or(LARGE);
        if *byte == LARGE {
            self.large.insert(rank, count);
        }
    }
}

const LARGE: u8 = u8::MAX;
const MANY: u32 = LARGE as u32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_any_size_go_up_and_down() {
        let mut references = References::default();
        let counts = [0, 1, 254, 255, 256, 70_000];
        for count in counts {
            references.push(count);
        }
        assert_eq!(references.live(), 5);
        let mut twice = references.clone();
        twice.extend(&references);
        for (rank, count) in (0..).zip(counts.iter().chain(&counts)) {
            assert_eq!(twice.of(rank), *count, "rank {rank}");
        }
        assert_eq!(twice.live_in(3..8), 4);
        for (rank, count) in (0..6).zip(counts) {
            assert_eq!(references.take(rank, 1), count.min(1));
            assert_eq!(references.of(rank), count.saturating_sub(1));
            assert_eq!(references.take(rank, u32::MAX), count.saturating_sub(1));
        }
        assert_eq!((references.live(), references.large.len()), (0, 0));
        references.seal();
        assert_eq!(references.memory(), 0);
        references.add(5, 300, 6);
        assert_eq!((references.of(5), references.live()), (300, 1));
    }
}
