//! The ways of publishes that go to one queue, by exchange and routing key: for publishers that
//! take many queues in turn.
//!
//! A way is found in a line or two of memory, where the topology and the table of queues ask for
//! some eight that nobody had for a while. Slots lie in groups; a key has its group, and drives
//! another one out where that is full. While that happens often the table grows, up to a bound.
//! Which slot of the group it is a tag says, of which there is a small table.
//!
//! Invariant: what is found was kept for the same exchange and key, byte for byte, while the
//! topology had the same generation.

use std::hash::{BuildHasher, Hasher as _};

use menzil_model::{FixedHasher, QueueId};

use crate::slots::Place;

/// Where a message without headers goes that comes to an exchange with a routing key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    /// The only queue.
    pub(crate) queue: QueueId,
    /// Where it lies.
    pub(crate) place: Place,
    /// It has no limit and does not deduplicate.
    pub(crate) is_unlimited: bool,
    /// It survives a restart.
    pub(crate) is_durable: bool,
    /// It says how long its messages live, or has another order than that of arrival.
    pub(crate) has_terms: bool,
    /// The exchange says so: all queues or none.
    pub(crate) atomic: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Ways {
    /// None, or a power of two of them.
    groups: Vec<[Slot; GROUP_SLOTS]>,
    /// Of each slot a part of the hash of its key.
    tags: Vec<[u16; GROUP_SLOTS]>,
    /// Ways that hold and were driven out since the table last grew.
    driven_out: usize,
    hasher: FixedHasher,
}

/// What is mostly looked at lies in one line of memory.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Slot {
    generation: u64,
    /// `None` where nothing was kept.
    way: Option<Way>,
    exchange_bytes: u8,
    routing_key_bytes: u8,
    /// Exchange and routing key.
    text: [u8; TEXT_BYTES_MAX],
}

impl Slot {
    const VACANT: Self = Self {
        generation: 0,
        way: None,
        exchange_bytes: 0,
        routing_key_bytes: 0,
        text: [0; TEXT_BYTES_MAX],
    };

    fn new(generation: u64, (exchange, routing_key): Key<'_>, way: Way) -> Option<Self> {
        let mut text = [0; TEXT_BYTES_MAX];
        let (first, rest) = text.split_at_mut_checked(exchange.len())?;
        first.copy_from_slice(exchange);
        rest.get_mut(..routing_key.len())?
            .copy_from_slice(routing_key);
        Some(Self {
            generation,
            way: Some(way),
            exchange_bytes: u8::try_from(exchange.len()).ok()?,
            routing_key_bytes: u8::try_from(routing_key.len()).ok()?,
            text,
        })
    }

    #[inline]
    fn is_of(&self, (exchange, routing_key): Key<'_>) -> bool {
        usize::from(self.exchange_bytes) == exchange.len()
            && usize::from(self.routing_key_bytes) == routing_key.len()
            && (self.text.strip_prefix(exchange)).is_some_and(|rest| rest.starts_with(routing_key))
    }
}

/// Exchange and routing key.
type Key<'a> = (&'a [u8], &'a [u8]);

impl Ways {
    /// The way that was kept for them, if it holds.
    #[inline]
    pub(crate) fn find(&self, generation: u64, key: Key<'_>) -> Option<Way> {
        let (at, tag) = self.place_of(key)?;
        let (group, tags) = (self.groups.get(at)?, self.tags.get(at)?);
        let mut slots = group.iter().zip(tags);
        let (slot, _) = slots.find(|(slot, other)| **other == tag && slot.is_of(key))?;
        slot.way.filter(|_| slot.generation == generation)
    }

    /// Whether they take more memory than a cache is likely to have for them.
    #[inline]
    pub(crate) fn are_many(&self) -> bool {
        self.groups.len() >= GROUPS_MANY
    }

    /// Has what may be the way of each of those keys come from memory, for all at once, and tells
    /// what that is: mostly it is theirs, and it is only for getting ready.
    #[inline]
    pub(crate) fn touch(&self, keys: &[Key<'_>], each: impl FnMut(Way)) {
        let mut slots = [None; KEYS_AT_ONCE];
        for (place, key) in slots.iter_mut().zip(keys) {
            *place = self.place_of(*key).and_then(|(at, tag)| {
                let (group, tags) = (self.groups.get(at)?, self.tags.get(at)?);
                group.get(tags.iter().position(|other| *other == tag)?)
            });
        }
        let slots = slots.into_iter().flatten();
        slots.filter_map(|slot| slot.way).for_each(each);
    }

    /// Keeps a way, if its key is not too long.
    pub(crate) fn keep(&mut self, generation: u64, key: Key<'_>, way: Way) {
        let Some(slot) = Slot::new(generation, key, way) else {
            return;
        };
        let may_grow = self.groups.len() < GROUPS_MAX;
        if self.groups.is_empty() || may_grow && self.driven_out > self.groups.len() {
            self.grow();
        }
        let Some((at, tag)) = self.place_of(key) else {
            return;
        };
        let (Some(group), Some(tags)) = (self.groups.get_mut(at), self.tags.get_mut(at)) else {
            return;
        };
        let own = group.iter().position(|other| other.is_of(key));
        let free = || (group.iter()).position(|other| other.generation != generation);
        let place = own.or_else(free).unwrap_or_else(|| {
            self.driven_out += 1;
            self.driven_out % GROUP_SLOTS
        });
        if let (Some(place), Some(of_place)) = (group.get_mut(place), tags.get_mut(place)) {
            (*place, *of_place) = (slot, tag);
        }
    }

    /// Twice the room, and nothing in it: what is still wanted comes again.
    fn grow(&mut self) {
        let count = (2 * self.groups.len()).clamp(GROUPS_LEAST, GROUPS_MAX);
        self.groups = vec![[Slot::VACANT; GROUP_SLOTS]; count];
        self.tags = vec![[0; GROUP_SLOTS]; count];
        self.driven_out = 0;
    }

    /// The group of a key, and its tag.
    #[inline]
    fn place_of(&self, (exchange, routing_key): Key<'_>) -> Option<(usize, u16)> {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(exchange);
        hasher.write(routing_key);
        let [h0, h1, tag @ .., _, _, _, _] = hasher.finish().to_le_bytes();
        let mask = self.groups.len().checked_sub(1)?;
        let at = usize::from(u16::from_le_bytes([h0, h1])) & mask;
        Some((at, u16::from_le_bytes(tag)))
    }
}

/// Bytes of exchange and routing key together; longer ones are not kept.
const TEXT_BYTES_MAX: usize = 102;

const KEYS_AT_ONCE: usize = 16;
const GROUP_SLOTS: usize = 8;
const GROUPS_LEAST: usize = 4;
/// Half a mebibyte of them.
const GROUPS_MANY: usize = 512;
/// Four mebibytes of them, for 32,768 keys.
const GROUPS_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn way(number: u64) -> Way {
        Way {
            queue: QueueId(number),
            place: Place::default(),
            is_unlimited: true,
            is_durable: number.is_multiple_of(2),
            has_terms: number.is_multiple_of(3),
            atomic: false,
        }
    }

    #[test]
    fn a_slot_is_two_lines() {
        assert_eq!(size_of::<Slot>(), 128);
    }

    #[test]
    fn where_an_exchange_ends_and_a_key_begins_matters() {
        let mut ways = Ways::default();
        assert_eq!(ways.find(0, (b"", b"")), None);
        ways.keep(7, (b"ab", b"c"), way(1));
        assert_eq!(ways.find(7, (b"ab", b"c")), Some(way(1)));
        for other in [
            (&b"a"[..], &b"bc"[..]),
            (b"abc", b""),
            (b"", b"abc"),
            (b"ab", b"cd"),
        ] {
            assert_eq!(ways.find(7, other), None);
        }
        assert_eq!(ways.find(8, (b"ab", b"c")), None);
        ways.keep(8, (b"ab", b"c"), way(2));
        assert_eq!(ways.find(8, (b"ab", b"c")), Some(way(2)));
    }

    #[test]
    fn thousands_of_keys_find_room_and_no_more_than_the_bound() {
        let mut ways = Ways::default();
        let keys: Vec<String> = (0..10_000)
            .map(|number| format!("queue-{number}"))
            .collect();
        for _ in 0..20 {
            for (number, key) in (0..).zip(&keys) {
                ways.keep(1, (b"", key.as_bytes()), way(number));
            }
        }
        let held = keys
            .iter()
            .filter(|key| ways.find(1, (b"", key.as_bytes())).is_some());
        assert!(held.count() > 9_500);
        for number in 0..150_000_u32 {
            ways.keep(1, (b"", &number.to_be_bytes()), way(1));
        }
        assert_eq!(ways.groups.len(), GROUPS_MAX);
    }

    proptest! {
        #[test]
        fn what_is_found_was_kept_last(
            steps in prop::collection::vec((0..3_u64, prop::collection::vec(0..3_u8, 0..4), 0..4_usize), 0..200)
        ) {
            let (mut ways, mut kept) = (Ways::default(), std::collections::BTreeMap::new());
            for (number, (generation, text, split)) in (0..).zip(steps) {
                let key = text.split_at(split.min(text.len()));
                if let Some(found) = ways.find(generation, key) {
                    prop_assert_eq!(kept.get(&(key.0.to_vec(), key.1.to_vec())), Some(&(generation, found)));
                }
                ways.keep(generation, key, way(number));
                kept.insert((key.0.to_vec(), key.1.to_vec()), (generation, way(number)));
                prop_assert_eq!(ways.find(generation, key), Some(way(number)));
            }
        }

        #[test]
        fn a_long_key_is_not_kept(exchange in 0..256_usize, key in 0..256_usize) {
            let mut ways = Ways::default();
            let (exchange, key) = (vec![b'x'; exchange], vec![b'k'; key]);
            ways.keep(1, (&exchange, &key), way(1));
            let fits = exchange.len() + key.len() <= TEXT_BYTES_MAX;
            prop_assert_eq!(ways.find(1, (&exchange, &key)).is_some(), fits);
        }
    }
}
