//! The order of one queue: which entries are ready, which are out with a consumer.
//!
//! ```text
//! settled …  | returned (went out, came back) | ready, never out        | next sequence →
//!              ▲ head = smallest of both        ▲ front
//! ```
//!
//! Entries keep their sequence for ever, so one that comes back stands where it stood.
//! Invariant: an entry is in exactly one of `ready`, `returned`, `unsettled`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use menzil_model::{Map, Sequence};

use crate::store::MessageId;

/// An entry as the index holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) sequence: Sequence,
    pub(crate) message: MessageId,
    pub(crate) body_bytes: u64,
    pub(crate) expires_at: Option<u64>,
    pub(crate) durable: bool,
    /// It went out before, or may have before a crash.
    pub(crate) redelivered: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// Ascending; `None` is an entry that was taken out of the middle.
    ready: VecDeque<(Sequence, Option<Item>)>,
    returned: BTreeMap<Sequence, Item>,
    unsettled: Map<Sequence, Item>,
    /// Of ready and returned entries that expire.
    expiries: BTreeSet<(u64, Sequence)>,
    ready_count: u64,
    ready_bytes: u64,
}

impl Index {
    /// Entries that wait for a consumer.
    pub(crate) fn ready_count(&self) -> u64 {
        self.ready_count
    }

    /// Bytes of their bodies.
    pub(crate) fn ready_bytes(&self) -> u64 {
        self.ready_bytes
    }

    /// Entries that are out with a consumer.
    pub(crate) fn unsettled_count(&self) -> u64 {
        self.unsettled.len() as u64
    }

    /// All entries.
    pub(crate) fn len(&self) -> u64 {
        self.ready_count + self.unsettled_count()
    }

    /// Puts an entry in its place. Almost always that is the end.
    pub(crate) fn insert(&mut self, item: Item) {
        self.count_in(&item);
        let place = (item.sequence, Some(item));
        match self.ready.back() {
            Some((last, _)) if *last >= item.sequence => {
                let at = self
                    .ready
                    .partition_point(|(sequence, _)| *sequence < item.sequence);
                match self.ready.get_mut(at) {
                    Some(slot) if slot.0 == item.sequence => {
                        debug_assert!(slot.1.is_none(), "two entries with one sequence");
                        *slot = place;
                    }
                    _ => self.ready.insert(at, place),
                }
            }
            _ => self.ready.push_back(place),
        }
    }

    fn count_in(&mut self, item: &Item) {
        self.ready_count += 1;
        self.ready_bytes += item.body_bytes;
        if let Some(at) = item.expires_at {
            self.expiries.insert((at, item.sequence));
        }
    }

    fn count_out(&mut self, item: &Item) {
        self.ready_count -= 1;
        self.ready_bytes -= item.body_bytes;
        if let Some(at) = item.expires_at {
            self.expiries.remove(&(at, item.sequence));
        }
    }

    fn skip_taken(&mut self) {
        while matches!(self.ready.front(), Some((_, None))) {
            self.ready.pop_front();
        }
    }

    /// The next entry to go out.
    pub(crate) fn head(&self) -> Option<&Item> {
        let front = self.ready.iter().find_map(|(_, item)| item.as_ref());
        let returned = self.returned.values().next();
        match (front, returned) {
            (Some(front), Some(returned)) if returned.sequence < front.sequence => Some(returned),
            (Some(front), _) => Some(front),
            (None, returned) => returned,
        }
    }

    /// Ready entries in order.
    pub(crate) fn ready(&self) -> impl Iterator<Item = &Item> {
        let mut returned = self.returned.values().peekable();
        let mut front = self
            .ready
            .iter()
            .filter_map(|(_, item)| item.as_ref())
            .peekable();
        std::iter::from_fn(move || match (front.peek(), returned.peek()) {
            (Some(f), Some(r)) if r.sequence < f.sequence => returned.next(),
            (Some(_), _) => front.next(),
            (None, _) => returned.next(),
        })
    }

    /// All entries, in no order.
    pub(crate) fn items(&self) -> impl Iterator<Item = &Item> {
        self.ready().chain(self.unsettled.values())
    }

    /// Takes the head out to a consumer.
    pub(crate) fn take_head(&mut self) -> Option<Item> {
        let item = *self.head()?;
        self.take(item.sequence)?;
        self.unsettled.insert(item.sequence, item);
        Some(item)
    }

    /// Takes one ready entry out of the order.
    fn take(&mut self, sequence: Sequence) -> Option<Item> {
        let item = if let Some(item) = self.returned.remove(&sequence) {
            item
        } else {
            let at = match self.ready.front() {
                Some((front, _)) if *front == sequence => 0,
                _ => self.ready.partition_point(|(place, _)| *place < sequence),
            };
            let slot = self
                .ready
                .get_mut(at)
                .filter(|(place, _)| *place == sequence)?;
            slot.1.take()?
        };
        self.skip_taken();
        self.count_out(&item);
        Some(item)
    }

    /// Puts an entry that was out back in its place.
    pub(crate) fn put_back(&mut self, sequence: Sequence) -> bool {
        let Some(mut item) = self.unsettled.remove(&sequence) else {
            return false;
        };
        item.redelivered = true;
        self.count_in(&item);
        self.returned.insert(sequence, item);
        true
    }

    /// Removes an entry, wherever it is.
    pub(crate) fn remove(&mut self, sequence: Sequence) -> Option<Item> {
        self.unsettled
            .remove(&sequence)
            .or_else(|| self.take(sequence))
    }

    /// Removes every entry of `first..=last`, handing each to `removed`.
    pub(crate) fn remove_range(
        &mut self,
        first: Sequence,
        last: Sequence,
        removed: &mut impl FnMut(Item),
    ) {
        let span = last.0.saturating_sub(first.0).saturating_add(1);
        if span <= 8 {
            for sequence in first.0..=last.0 {
                if let Some(item) = self.remove(Sequence(sequence)) {
                    removed(item);
                }
            }
            return;
        }
        self.skip_taken();
        let mut gone: Vec<Item> = self
            .returned
            .range(first..=last)
            .map(|(_, item)| *item)
            .collect();
        for item in &gone {
            self.returned.remove(&item.sequence);
        }
        let from = self.ready.partition_point(|(place, _)| *place < first);
        let to = self.ready.partition_point(|(place, _)| *place <= last);
        gone.extend(self.ready.drain(from..to).filter_map(|(_, item)| item));
        for item in &gone {
            self.count_out(item);
        }
        if !self.unsettled.is_empty() {
            self.unsettled.retain(|sequence, item| {
                let inside = (first..=last).contains(sequence);
                if inside {
                    gone.push(*item);
                }
                !inside
            });
        }
        gone.sort_unstable_by_key(|item| item.sequence);
        gone.into_iter().for_each(removed);
    }

    /// Sequences that are out with a consumer, in no order.
    pub(crate) fn unsettled(&self) -> impl Iterator<Item = Sequence> + '_ {
        self.unsettled.keys().copied()
    }

    /// After recovery: entries below that sequence may have been delivered before the crash.
    pub(crate) fn recovered(&mut self, below: u64) {
        for (_, item) in &mut self.ready {
            if let Some(item) = item.as_mut().filter(|item| item.sequence.0 < below) {
                item.redelivered = true;
            }
        }
    }

    /// Whether the journal has that entry, which is out with a consumer.
    pub(crate) fn is_durable(&self, unsettled: Sequence) -> bool {
        self.unsettled
            .get(&unsettled)
            .is_some_and(|item| item.durable)
    }

    /// When the first ready entry expires.
    pub(crate) fn next_expiry(&self) -> Option<u64> {
        self.expiries.first().map(|(at, _)| *at)
    }

    /// Ready entries that expire at `now` or before, at most `count`.
    pub(crate) fn expired(&self, now: u64, count: usize) -> Vec<Sequence> {
        self.expiries
            .iter()
            .take_while(|(at, _)| *at <= now)
            .take(count)
            .map(|(_, sequence)| *sequence)
            .collect()
    }

    /// Checks the sums; for tests.
    pub(crate) fn check_invariants(&self) {
        let ready: Vec<&Item> = self.ready().collect();
        assert_eq!(self.ready_count, ready.len() as u64);
        assert_eq!(
            self.ready_bytes,
            ready.iter().map(|item| item.body_bytes).sum::<u64>()
        );
        assert!(ready.is_sorted_by(|a, b| a.sequence < b.sequence));
        let expiring: BTreeSet<_> = ready
            .iter()
            .filter_map(|item| Some((item.expires_at?, item.sequence)))
            .collect();
        assert_eq!(self.expiries, expiring);
        for sequence in self.unsettled.keys() {
            assert!(!self.returned.contains_key(sequence));
            assert!(!ready.iter().any(|item| item.sequence == *sequence));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;
    use menzil_model::fact::{Extent, Origin};
    use proptest::prelude::*;

    /// The same queue as one sorted list of all entries and who is out.
    #[derive(Default)]
    struct Naive {
        entries: BTreeMap<u64, (Item, bool)>,
    }

    impl Naive {
        fn ready(&self) -> Vec<u64> {
            self.entries
                .iter()
                .filter(|(_, (_, out))| !out)
                .map(|(s, _)| *s)
                .collect()
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert { skip: u64, expires_at: Option<u64> },
        TakeHead,
        PutBack(u64),
        Remove(u64),
        RemoveRange(u64, u64),
        Expire(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0..3_u64, prop::option::of(0..50_u64))
                .prop_map(|(skip, expires_at)| Step::Insert { skip, expires_at }),
            3 => Just(Step::TakeHead),
            2 => (0..60_u64).prop_map(Step::PutBack),
            1 => (0..60_u64).prop_map(Step::Remove),
            1 => (0..60_u64, 0..30_u64).prop_map(|(first, span)| Step::RemoveRange(first, span)),
            1 => (0..50_u64).prop_map(Step::Expire),
        ]
    }

    proptest! {
        #[test]
        fn behaves_as_a_sorted_list(steps in prop::collection::vec(step(), 0..200)) {
            let mut store = Store::new(0);
            let message = store.insert(None, Extent::default(), Origin::default(), 1);
            let mut index = Index::default();
            let mut naive = Naive::default();
            let mut next = 1;
            for step in steps {
                match step {
                    Step::Insert { skip, expires_at } => {
                        next += skip;
                        let item = Item {
                            sequence: Sequence(next),
                            message,
                            body_bytes: next,
                            expires_at,
                            durable: next % 2 == 0,
                            redelivered: false,
                        };
                        index.insert(item);
                        naive.entries.insert(next, (item, false));
                        next += 1;
                    }
                    Step::TakeHead => {
                        let head = naive.ready().first().copied();
                        let taken = index.take_head().map(|item| item.sequence.0);
                        prop_assert_eq!(taken, head);
                        if let Some(entry) = head.and_then(|head| naive.entries.get_mut(&head)) {
                            entry.1 = true;
                        }
                    }
                    Step::PutBack(sequence) => {
                        let out = naive.entries.get_mut(&sequence).filter(|(_, out)| *out);
                        prop_assert_eq!(index.put_back(Sequence(sequence)), out.is_some());
                        if let Some((item, out)) = out {
                            *out = false;
                            item.redelivered = true;
                        }
                    }
                    Step::Remove(sequence) => {
                        let removed = index.remove(Sequence(sequence));
                        let expected = naive.entries.remove(&sequence).map(|(item, _)| item);
                        prop_assert_eq!(removed, expected);
                    }
                    Step::RemoveRange(first, span) => {
                        let last = first + span;
                        let mut removed = Vec::new();
                        let range = (Sequence(first), Sequence(last));
                        index.remove_range(range.0, range.1, &mut |item| {
                            removed.push(item.sequence.0);
                        });
                        let expected: Vec<u64> =
                            naive.entries.range(first..=last).map(|(s, _)| *s).collect();
                        naive.entries.retain(|sequence, _| !expected.contains(sequence));
                        prop_assert_eq!(removed, expected);
                    }
                    Step::Expire(now) => {
                        let mut due = index.expired(now, usize::MAX);
                        due.sort_unstable();
                        let expected: Vec<Sequence> = naive
                            .entries
                            .values()
                            .filter(|(item, out)| {
                                !out && item.expires_at.is_some_and(|at| at <= now)
                            })
                            .map(|(item, _)| item.sequence)
                            .collect();
                        prop_assert_eq!(due, expected);
                    }
                }
                index.check_invariants();
                let ready: Vec<u64> = index.ready().map(|item| item.sequence.0).collect();
                prop_assert_eq!(ready, naive.ready());
                prop_assert_eq!(index.len(), naive.entries.len() as u64);
                prop_assert_eq!(index.head().map(|i| i.sequence.0), naive.ready().first().copied());
            }
        }
    }
}
