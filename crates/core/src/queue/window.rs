//! The keys that a deduplicating queue remembers: of the last messages that it stored, in the
//! order in which they came.
//!
//! Whether a key is remembered is decided when a message comes, by how many came after it and by
//! the times of both. What is surely not remembered any more is let go when a key is added, which
//! facts do: so the window depends on facts alone.
//!
//! A key takes 32 bytes and, in a table, five more for each place; the table is in parts, so that
//! none takes long to grow.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashTable;
use menzil_model::fact::{MessageKey, SeenKey};

use super::settings::Deduplication;

/// A key that is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) key: MessageKey,
    /// Milliseconds since 1970 at which the message came.
    pub(crate) at: u64,
    /// The record that the message is in, which the confirm of a duplicate waits for; 0 where the
    /// journal does not have it.
    pub(crate) index: u64,
}

/// What a queue remembers. Messages that the journal does not have are apart: they do not come
/// back after a crash, and what is remembered of the others must not depend on them.
#[derive(Debug)]
pub(crate) struct Windows {
    pub(crate) durable: Window,
    pub(crate) transient: Window,
}

impl Windows {
    /// Empty ones.
    pub(crate) fn new(rule: &Deduplication) -> Box<Self> {
        Box::new(Self {
            durable: Window::new(rule.size),
            transient: Window::new(rule.size),
        })
    }

    /// For messages that the journal has, or for the others.
    pub(crate) fn of(&self, durable: bool) -> &Window {
        if durable {
            &self.durable
        } else {
            &self.transient
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Window {
    /// Keys by the number of their coming, from that of the first piece on.
    pieces: VecDeque<Arc<Vec<Seen>>>,
    /// Those behind the pieces.
    tail: Vec<Seen>,
    /// Number of the first in the pieces.
    start: u64,
    /// Number of the first that is remembered; not below the start.
    first: u64,
    /// Low bits of the number of the last coming of each key.
    numbers: Box<[HashTable<u32>]>,
}

/// Keys of a piece, which is shared with a checkpoint and let go as a whole.
const PIECE_KEYS: usize = 512;

/// Keys for which a part of the table is meant.
const PART_KEYS: u64 = 4096;

/// Keys that are let go when one is added because their time is over.
const GONE_AT_ONCE: usize = 4;

impl Window {
    /// An empty one for a queue that remembers at most that many.
    pub(crate) fn new(size: u64) -> Self {
        let parts = (size / PART_KEYS).clamp(1, 1 << 14).next_power_of_two();
        Self {
            pieces: VecDeque::new(),
            tail: Vec::new(),
            start: 0,
            first: 0,
            numbers: (0..parts).map(|_| HashTable::new()).collect(),
        }
    }

    /// What is remembered of a key at a time at which `pending` others are about to be added.
    pub(crate) fn find(
        &self,
        key: MessageKey,
        pending: u64,
        now: u64,
        rule: &Deduplication,
    ) -> Option<&Seen> {
        let number = self.number_of(key)?;
        let seen = self.at(number)?;
        let is_among_last = self.next() - number + pending <= rule.size;
        let is_young = now < seen.at.saturating_add(rule.age);
        (is_among_last && is_young).then_some(seen)
    }

    /// Remembers one more, and lets go what never is asked for again.
    pub(crate) fn add(&mut self, seen: Seen, rule: &Deduplication) {
        let number = self.next();
        if self.tail.len() == PIECE_KEYS {
            let piece = std::mem::take(&mut self.tail);
            self.pieces.push_back(Arc::new(piece));
        }
        if self.tail.is_empty() && number > 0 {
            // The first piece grows as it must; later ones are mostly filled.
            self.tail.reserve_exact(PIECE_KEYS);
        }
        self.tail.push(seen);
        self.note(seen.key, number);
        while self.len() > rule.size {
            self.forget_first();
        }
        for _ in 0..GONE_AT_ONCE {
            let first = self.at(self.first).map(|first| first.at);
            if first.is_none_or(|at| seen.at < at.saturating_add(rule.age)) {
                break;
            }
            self.forget_first();
        }
    }

    /// How many are remembered.
    pub(crate) fn len(&self) -> u64 {
        self.next() - self.first
    }

    /// All that is remembered, for a checkpoint.
    pub(crate) fn freeze(&self, rule: &Deduplication) -> FrozenWindow {
        FrozenWindow {
            age: rule.age,
            pieces: self.pieces.iter().map(Arc::clone).collect(),
            skipped: usize::try_from(self.first - self.start).unwrap_or(usize::MAX),
            tail: self.tail.clone(),
        }
    }

    fn next(&self) -> u64 {
        let full = self.pieces.len() * PIECE_KEYS;
        self.start + (full + self.tail.len()) as u64
    }

    fn at(&self, number: u64) -> Option<&Seen> {
        let place = usize::try_from(number.checked_sub(self.start)?).ok()?;
        let (piece, within) = (place / PIECE_KEYS, place % PIECE_KEYS);
        match self.pieces.get(piece) {
            Some(piece) => piece.get(within),
            None if piece == self.pieces.len() => self.tail.get(within),
            None => None,
        }
    }

    fn number_of(&self, key: MessageKey) -> Option<u64> {
        let (part, hash) = place_of(key, self.numbers.len());
        let numbers = self.numbers.get(part)?;
        let is_it = |low: &u32| {
            self.at(self.whole(*low))
                .is_some_and(|seen| seen.key == key)
        };
        numbers.find(hash, is_it).map(|low| self.whole(*low))
    }

    /// The number with these low bits that is not before the first.
    fn whole(&self, low: u32) -> u64 {
        self.first + u64::from(low.wrapping_sub(low_bits(self.first)))
    }

    fn note(&mut self, key: MessageKey, number: u64) {
        let (part, hash) = place_of(key, self.numbers.len());
        let Some(mut numbers) = self.numbers.get_mut(part).map(std::mem::take) else {
            return;
        };
        let key_at = |low: &u32| self.at(self.whole(*low)).map(|seen| seen.key);
        if let Some(low) = numbers.find_mut(hash, |low| key_at(low) == Some(key)) {
            *low = low_bits(number);
        } else {
            let hash_at = |low: &u32| key_at(low).map_or(0, hash_of);
            numbers.insert_unique(hash, low_bits(number), hash_at);
        }
        if let Some(place) = self.numbers.get_mut(part) {
            *place = numbers;
        }
    }

    fn forget_first(&mut self) {
        let number = self.first;
        let Some(key) = self.at(number).map(|seen| seen.key) else {
            return;
        };
        let (part, hash) = place_of(key, self.numbers.len());
        if let Some(numbers) = self.numbers.get_mut(part)
            // A key that came again later stands there with its last coming.
            && let Ok(place) = numbers.find_entry(hash, |low| *low == low_bits(number))
        {
            place.remove();
        }
        self.first += 1;
        if self.first - self.start == PIECE_KEYS as u64 {
            self.start = self.first;
            if self.pieces.pop_front().is_none() {
                self.tail.clear();
            }
        }
    }

    /// For tests.
    pub(crate) fn check_invariants(&self) {
        let noted: usize = self.numbers.iter().map(HashTable::len).sum();
        assert!(noted as u64 <= self.len(), "keys are noted twice");
        assert!(self.first >= self.start && self.first <= self.next());
        for low in self.numbers.iter().flatten() {
            let number = self.whole(*low);
            let seen = self.at(number);
            assert!(seen.is_some(), "key {number} is not there");
            let key = seen.map(|seen| seen.key);
            assert_eq!(key.and_then(|key| self.number_of(key)), Some(number));
        }
    }
}

/// The part of the table and the hash in it.
fn place_of(key: MessageKey, parts: usize) -> (usize, u64) {
    let low = u64::try_from(key.0 & u128::from(u64::MAX)).unwrap_or_default();
    let part = usize::try_from(low & (parts as u64).wrapping_sub(1)).unwrap_or_default();
    (part, hash_of(key))
}

fn hash_of(key: MessageKey) -> u64 {
    u64::try_from(key.0 >> 64).unwrap_or_default()
}

fn low_bits(number: u64) -> u32 {
    u32::try_from(number & u64::from(u32::MAX)).unwrap_or_default()
}

/// The keys at one moment.
#[derive(Debug)]
pub(crate) struct FrozenWindow {
    age: u64,
    pieces: Vec<Arc<Vec<Seen>>>,
    skipped: usize,
    tail: Vec<Seen>,
}

impl FrozenWindow {
    /// Some at a time, without those whose time was over when the last one came.
    pub(crate) fn write(self, mut each: impl FnMut(Vec<SeenKey>)) {
        let mut skipped = self.skipped;
        let last = self.tail.last().map_or(0, |seen| seen.at);
        let is_young = |seen: &&Seen| last < seen.at.saturating_add(self.age);
        let tail = Arc::new(self.tail);
        for piece in self.pieces.into_iter().chain([tail]) {
            let young = piece.iter().skip(skipped).filter(is_young);
            let keys = young.map(|seen| SeenKey {
                key: seen.key,
                at: seen.at,
            });
            let keys: Vec<SeenKey> = keys.collect();
            if !keys.is_empty() {
                each(keys);
            }
            skipped = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rule(size: u64, age: u64) -> Deduplication {
        Deduplication {
            header: None,
            size,
            age,
        }
    }

    fn spread(number: u64) -> MessageKey {
        MessageKey(u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
    }

    fn seen(number: u64, at: u64) -> Seen {
        Seen {
            key: spread(number),
            at,
            index: at,
        }
    }

    proptest! {
        /// As a plain list from whose end one looks for the key.
        #[test]
        fn it_remembers_as_a_list_does(
            size in prop::sample::select(&[1, 3, 511, 512, 513, 1500][..]),
            age in prop::sample::select(&[1, 40, 100_000][..]),
            keys in 1_u64..2000,
            steps in prop::collection::vec((any::<u64>(), 0_u64..3, 0_u64..3), 1..2500),
        ) {
            let rule = rule(size, age);
            let (mut window, mut list, mut now) = (Window::new(size), Vec::new(), 1000);
            for (at, (number, later, pending)) in steps.into_iter().enumerate() {
                now += later;
                let number = number % keys;
                let found = window.find(spread(number), pending, now, &rule).copied();
                let among = list.iter().rev().take(usize::try_from(size - pending.min(size)).unwrap());
                let last = among.copied().find(|one: &Seen| one.key == spread(number));
                prop_assert_eq!(found, last.filter(|one| now < one.at + age), "step {}", at);
                window.add(seen(number, now), &rule);
                list.push(seen(number, now));
                prop_assert!(window.len() <= size);
                if at % 100 == 0 {
                    window.check_invariants();
                }
            }
            window.check_invariants();
            let mut frozen = Vec::new();
            window.freeze(&rule).write(|keys| frozen.extend(keys));
            let kept = list.iter().rev().take(usize::try_from(size).unwrap()).rev();
            let kept: Vec<_> = kept.filter(|one| now < one.at + age).map(|one| (one.key, one.at)).collect();
            let frozen: Vec<_> = frozen.iter().map(|one| (one.key, one.at)).collect();
            prop_assert_eq!(frozen, kept);
        }
    }

    #[test]
    fn a_key_takes_at_most_48_bytes() {
        for size in [10_000, 123_456, 1 << 18] {
            let rule = rule(size, u64::MAX);
            let mut window = Window::new(size);
            for number in 0..2 * size + 1000 {
                window.add(seen(number, number), &rule);
            }
            assert_eq!(window.len(), size);
            let pieces = window.pieces.iter().map(|piece| piece.capacity());
            let keys = pieces.sum::<usize>() + window.tail.capacity();
            let places = window.numbers.iter().map(HashTable::allocation_size);
            let bytes = keys * size_of::<Seen>() + places.sum::<usize>();
            let fixed = size_of_val(&*window.numbers) + PIECE_KEYS * size_of::<Seen>();
            assert!(
                bytes as u64 <= 48 * size + fixed as u64,
                "{bytes} of {size}"
            );
        }
    }

    #[test]
    fn keys_whose_time_is_over_give_their_memory_back() {
        let rule = rule(100_000, 10);
        let mut window = Window::new(rule.size);
        for number in 0..50_000 {
            window.add(seen(number, 0), &rule);
        }
        for number in 0..20_000 {
            window.add(seen(number, 10 + number), &rule);
        }
        assert_eq!(window.len(), 10);
        assert!(window.pieces.len() <= 1);
        window.check_invariants();
    }
}
