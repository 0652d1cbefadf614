//! Entries that came back: counted, and where the queue says so, not ready for a while.

use std::collections::{BTreeMap, BTreeSet};

use menzil_model::Sequence;
use menzil_model::fact::{Range, Returned};

use super::Index;
use crate::queue::item::{Held, Item};

/// Entries that are neither ready nor out. They expire on time. Invariant: all lists are of the
/// same entries.
#[derive(Debug, Default)]
pub(super) struct Delayed {
    entries: BTreeMap<Sequence, (u64, Held)>,
    times: BTreeSet<(u64, Sequence)>,
    /// Of those that expire.
    expiries: BTreeSet<(u64, Sequence)>,
}

impl Delayed {
    fn insert(&mut self, ready_at: u64, held: Held) {
        self.times.insert((ready_at, held.sequence()));
        let expiry = held.item.expires_at.map(|at| (at, held.sequence()));
        self.expiries.extend(expiry);
        self.entries.insert(held.sequence(), (ready_at, held));
    }

    pub(super) fn remove(&mut self, sequence: Sequence) -> Option<Held> {
        let (ready_at, held) = self.entries.remove(&sequence)?;
        self.times.remove(&(ready_at, sequence));
        if let Some(at) = held.item.expires_at {
            self.expiries.remove(&(at, sequence));
        }
        Some(held)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Held> {
        self.entries.values().map(|(_, held)| held)
    }

    fn len(&self) -> u64 {
        self.entries.len() as u64
    }
}

impl Index {
    /// An entry that is out.
    pub(crate) fn out(&self, sequence: Sequence) -> Option<&Item> {
        self.unsettled.get(sequence).map(|held| &held.item)
    }

    /// Takes in that an entry came back. Mostly it is out; after a start it stands anywhere.
    /// False where it is not there.
    pub(crate) fn give_back(&mut self, returned: &Returned) -> bool {
        let sequence = returned.sequence;
        let waiting = self.delayed.as_deref_mut();
        let found = (self.unsettled.remove(sequence))
            .or_else(|| waiting?.remove(sequence))
            .or_else(|| {
                let held = self.take(sequence)?;
                self.count_out(&held);
                self.refill();
                Some(held)
            });
        let Some(mut held) = found else {
            return false;
        };
        held.item.failed = returned.failed;
        held.item.acquired = returned.acquired;
        match returned.ready_at {
            Some(at) => {
                held.item.redelivered = true;
                let delayed = self.delayed.get_or_insert_default();
                delayed.insert(at, held);
            }
            None => self.make_ready(held),
        }
        true
    }

    pub(super) fn make_ready(&mut self, mut held: Held) {
        held.item.redelivered = true;
        held.asked = false;
        self.count_in(&held);
        self.expiry.note_returned(held.item.expires_at);
        self.returned.insert(held.sequence(), held);
    }

    /// Makes entries ready whose time has come, at most so many.
    pub(crate) fn end_delays(&mut self, now: u64, most: usize, mut each: impl FnMut(Sequence)) {
        for _ in 0..most {
            let Some(delayed) = self.delayed.as_deref_mut() else {
                return;
            };
            match delayed.times.first() {
                None => {
                    self.delayed = None;
                    return;
                }
                Some((at, _)) if *at > now => return,
                Some((_, sequence)) => {
                    let sequence = *sequence;
                    if let Some(held) = delayed.remove(sequence) {
                        self.make_ready(held);
                        each(sequence);
                    }
                }
            }
        }
    }

    /// When the first entry becomes ready again.
    pub(crate) fn delayed_until(&self) -> Option<u64> {
        let delayed = self.delayed.as_deref()?;
        delayed.times.first().map(|(at, _)| *at)
    }

    /// When the first of them expires.
    pub(super) fn delayed_expiry(&self) -> Option<u64> {
        let delayed = self.delayed.as_deref()?;
        delayed.expiries.first().map(|(at, _)| *at)
    }

    /// Some of those that expire at `now` or before.
    pub(super) fn delayed_expired(&self, now: u64, count: usize) -> Vec<Sequence> {
        let expiries = self.delayed.iter().flat_map(|delayed| &delayed.expiries);
        let due = expiries.take_while(|(at, _)| *at <= now).take(count);
        due.map(|(_, sequence)| *sequence).collect()
    }

    /// Whether that entry is not ready for a while.
    pub(crate) fn is_delayed(&self, sequence: Sequence) -> bool {
        let delayed = self.delayed.as_deref();
        delayed.is_some_and(|delayed| delayed.entries.contains_key(&sequence))
    }

    /// Whether some are not ready for a while.
    pub(crate) fn has_delayed(&self) -> bool {
        self.delayed.is_some()
    }

    /// How many are.
    pub(crate) fn delayed_count(&self) -> u64 {
        self.delayed.as_deref().map_or(0, Delayed::len)
    }

    pub(super) fn remove_delayed(&mut self, ranges: &[Range], mut gone: impl FnMut(&Held)) {
        let Some(delayed) = self.delayed.as_deref_mut() else {
            return;
        };
        for range in ranges {
            let inside = delayed.entries.range(range.first..=range.last);
            let inside: Vec<Sequence> = inside.map(|(sequence, _)| *sequence).collect();
            for sequence in inside {
                if let Some(held) = delayed.remove(sequence) {
                    self.content_bytes -= held.held_bytes();
                    gone(&held);
                }
            }
        }
    }

    /// What is known of entries that came back, for a checkpoint.
    pub(crate) fn freeze_returned(&self) -> Vec<Returned> {
        let returned = |item: &Item, ready_at| Returned {
            sequence: item.sequence,
            failed: item.failed,
            acquired: item.acquired,
            ready_at,
            group: None,
        };
        let is_counted = |held: &&Held| held.item.durable && held.item.acquired > 0;
        let ready = self.returned.values().filter(is_counted);
        let out = self.unsettled.iter().filter(is_counted);
        let mut all: Vec<Returned> = (ready.chain(out))
            .map(|held| returned(&held.item, None))
            .collect();
        let delayed = self.delayed.as_deref().into_iter();
        let entries = delayed.flat_map(|delayed| delayed.entries.values());
        let durable = entries.filter(|(_, held)| held.item.durable);
        all.extend(durable.map(|(at, held)| returned(&held.item, Some(*at))));
        all.sort_unstable_by_key(|returned| returned.sequence);
        all
    }
}
