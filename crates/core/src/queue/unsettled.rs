//! The entries of a queue that are out with consumers.
//!
//! They go out in order and mostly come back so: one end of a list each. One that is settled
//! out of turn leaves a gap, swept when gaps outnumber entries; one that goes out again, behind
//! later ones, is kept in a map. Invariant: the first and the last slot are live ones.

use std::collections::{BTreeMap, VecDeque};

use menzil_model::Sequence;
use menzil_model::fact::Range;

use super::item::Held;

/// Gaps that are not worth a sweep, and slots that an empty list may keep.
const SLACK: usize = 32;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Unsettled {
    slots: VecDeque<(Sequence, Option<Held>)>,
    live: usize,
    late: BTreeMap<Sequence, Held>,
}

impl Unsettled {
    pub(crate) fn len(&self) -> u64 {
        (self.live + self.late.len()) as u64
    }

    #[inline]
    pub(crate) fn insert(&mut self, held: Held) {
        let sequence = held.sequence();
        match self.slots.back() {
            Some((last, _)) if *last >= sequence => self.insert_late(held),
            _ => {
                self.slots.push_back((sequence, Some(held)));
                self.live += 1;
            }
        }
    }

    #[cold]
    fn insert_late(&mut self, held: Held) {
        self.late.insert(held.sequence(), held);
    }

    pub(crate) fn get(&self, sequence: Sequence) -> Option<&Held> {
        let at = self.place(sequence);
        self.slots
            .get(at)
            .filter(|(place, _)| *place == sequence)
            .and_then(|(_, held)| held.as_ref())
            .or_else(|| self.late.get(&sequence))
    }

    pub(crate) fn get_mut(&mut self, sequence: Sequence) -> Option<&mut Held> {
        let at = self.place(sequence);
        let slot = self.slots.get_mut(at);
        slot.filter(|(place, _)| *place == sequence)
            .and_then(|(_, held)| held.as_mut())
            .or_else(|| self.late.get_mut(&sequence))
    }

    fn place(&self, sequence: Sequence) -> usize {
        match (self.slots.front(), self.slots.back()) {
            (Some((first, _)), _) if *first == sequence => 0,
            (_, Some((last, _))) if *last == sequence => self.slots.len() - 1,
            _ => self.slots.partition_point(|(place, _)| *place < sequence),
        }
    }

    /// Removes an entry, after a look at it where it lies.
    #[inline]
    pub(crate) fn remove_with<R>(
        &mut self,
        sequence: Sequence,
        look: impl FnOnce(&mut Held) -> R,
    ) -> Option<R> {
        // The first slot is a live one.
        if self.slots.len() > 1
            && let Some((first, Some(held))) = self.slots.front_mut()
            && *first == sequence
        {
            let seen = look(held);
            self.slots.pop_front();
            self.live -= 1;
            let is_live = matches!(self.slots.front(), Some((_, Some(_))));
            if !is_live || self.slots.len() > 2 * self.live + SLACK {
                self.sweep();
            }
            return Some(seen);
        }
        self.remove(sequence).map(|mut held| look(&mut held))
    }

    pub(crate) fn remove(&mut self, sequence: Sequence) -> Option<Held> {
        let at = self.place(sequence);
        let slot = self
            .slots
            .get_mut(at)
            .filter(|(place, _)| *place == sequence);
        if let Some(held) = slot.and_then(|(_, held)| held.take()) {
            self.live -= 1;
            self.sweep();
            return Some(held);
        }
        self.late.remove(&sequence)
    }

    /// Removes those in the ranges, which ascend.
    pub(crate) fn remove_ranges(&mut self, ranges: &[Range], mut removed: impl FnMut(Held)) {
        for range in ranges {
            let from = self.slots.partition_point(|(s, _)| *s < range.first);
            let to = self.slots.partition_point(|(s, _)| *s <= range.last);
            for (_, held) in self.slots.range_mut(from..to) {
                if let Some(held) = held.take() {
                    self.live -= 1;
                    removed(held);
                }
            }
            let late = self.late.range(range.first..=range.last);
            let late: Vec<Sequence> = late.map(|(sequence, _)| *sequence).collect();
            for sequence in late {
                self.late
                    .remove(&sequence)
                    .into_iter()
                    .for_each(&mut removed);
            }
        }
        self.sweep();
    }

    fn sweep(&mut self) {
        while matches!(self.slots.front(), Some((_, None))) {
            self.slots.pop_front();
        }
        while matches!(self.slots.back(), Some((_, None))) {
            self.slots.pop_back();
        }
        if self.slots.len() > 2 * self.live + SLACK {
            self.slots.retain(|(_, held)| held.is_some());
        }
    }

    /// An empty list keeps next to no memory; while its queue is in use it is needed again at
    /// once.
    pub(crate) fn give_room_back(&mut self) {
        if self.slots.is_empty() && self.slots.capacity() > SLACK {
            self.slots = VecDeque::new();
        }
    }

    /// In no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Held> {
        let slots = self.slots.iter().filter_map(|(_, held)| held.as_ref());
        slots.chain(self.late.values())
    }
}
