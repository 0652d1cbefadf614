//! Which member of a consistent hash exchange gets a key: weighted rendezvous hashing
//! (`docs/adr/0008-placement-of-hash-exchanges.md`).
//!
//! Each member draws a number for the key, from nothing but the key and the member's own name and
//! kind, and the best draw for its weight wins. So the winner depends on who is there and on
//! nothing else: not on the order of bindings, not on ids, not on the process. A member that comes
//! takes exactly its share, from all others alike; one that goes leaves exactly its share to them.
//!
//! Among members of one weight the highest draw is the best, so only the winners of the weights
//! are compared by logarithm. Integers throughout: no two machines may differ in a last digit.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use twox_hash::XxHash3_64;

use super::dense::Dense;

/// The hash of what a message is placed by.
pub(crate) fn hash_of_key(key: &[u8]) -> u64 {
    XxHash3_64::oneshot_with_seed(KEY_SEED, key)
}

/// The hash of what a message without it is placed by.
pub(crate) const ABSENT: u64 = 0;

/// The hash of several keys, which is that of the only one where there is one.
pub(crate) fn hash_of_keys<'a>(mut keys: impl Iterator<Item = &'a [u8]>) -> u64 {
    let first = keys.next().map_or(ABSENT, hash_of_key);
    keys.fold(first, XxHash3_64::oneshot_with_seed)
}

/// Two kinds of members, whose names may be the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MemberKind {
    Queue,
    Exchange,
}

/// The hash of a member.
pub(crate) fn hash_of_member(kind: MemberKind, name: &[u8]) -> u64 {
    let seed = match kind {
        MemberKind::Queue => QUEUE_SEED,
        MemberKind::Exchange => EXCHANGE_SEED,
    };
    XxHash3_64::oneshot_with_seed(seed, name)
}

/// A member in the order of its weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) hash: u64,
    /// Its number among the members.
    pub(crate) member: usize,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Placement {
    by_weight: BTreeMap<u16, Dense<Spot>>,
}

impl Placement {
    /// Adds a member; says its place.
    pub(crate) fn insert(&mut self, weight: u16, spot: Spot) -> usize {
        self.by_weight.entry(weight).or_default().push(spot)
    }

    /// Removes the member at a place; answers with the one that moved there.
    pub(crate) fn remove(&mut self, weight: u16, place: usize) -> Option<Spot> {
        let spots = self.by_weight.get_mut(&weight)?;
        let moved = spots.remove(place);
        if spots.is_empty() {
            self.by_weight.remove(&weight);
        }
        moved
    }

    pub(crate) fn get(&self, weight: u16, place: usize) -> Option<Spot> {
        self.by_weight.get(&weight)?.get(place)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_weight.values().map(Dense::len).sum()
    }

    /// The member for that key, of those that are `there`. `names` orders two members where
    /// nothing else does.
    pub(crate) fn find(
        &self,
        key: u64,
        there: impl Fn(usize) -> bool,
        names: impl Fn(usize, usize) -> Ordering,
    ) -> Option<usize> {
        let mut best: Option<Draw> = None;
        for (weight, spots) in &self.by_weight {
            let mut of_weight: Option<(u64, usize)> = None;
            for spot in spots.iter().filter(|spot| there(spot.member)) {
                let number = drawn(key, spot.hash);
                let is_better = of_weight.is_none_or(|(best, member)| {
                    number > best || number == best && names(spot.member, member) == Ordering::Less
                });
                if is_better {
                    of_weight = Some((number, spot.member));
                }
            }
            let Some((number, member)) = of_weight else {
                continue;
            };
            let draw = Draw {
                number,
                member,
                weight: *weight,
                is_measured: self.by_weight.len() > 1,
            };
            if best.is_none_or(|best| draw.is_before(&best, &names)) {
                best = Some(draw);
            }
        }
        best.map(|draw| draw.member)
    }
}

/// The best draw of one weight.
#[derive(Clone, Copy, Debug)]
struct Draw {
    number: u64,
    member: usize,
    weight: u16,
    /// There are others to compare it with.
    is_measured: bool,
}

impl Draw {
    /// Lower is better: how far the number is from the highest one, for a unit of weight. A draw of
    /// weight w wins as often as the best of w draws would.
    fn is_before(&self, other: &Self, names: impl Fn(usize, usize) -> Ordering) -> bool {
        if !self.is_measured {
            return true;
        }
        let left = u128::from(distance(self.number)) * u128::from(other.weight);
        let right = u128::from(distance(other.number)) * u128::from(self.weight);
        left.cmp(&right)
            .then(other.number.cmp(&self.number))
            .then_with(|| names(self.member, other.member))
            == Ordering::Less
    }
}

/// The number that a member draws for a key: all 64 bits of both count in each bit of it.
fn drawn(key: u64, member: u64) -> u64 {
    let mixed = key ^ member;
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// `-log2(number / 2^64)`, as a fixed-point number with 48 bits below the point.
fn distance(number: u64) -> u64 {
    let number = number.max(1);
    let zeros = number.leading_zeros();
    let mut whole = u64::from(63 - zeros);
    // One bit before the point and 63 behind it; squaring doubles the logarithm.
    let mut rest = number << zeros;
    for _ in 0..FRACTION_BITS {
        let square = (u128::from(rest) * u128::from(rest)) >> 63;
        let carry = u64::from(square >> 64 != 0);
        rest = u64::try_from(square >> carry).unwrap_or(u64::MAX);
        whole = whole << 1 | carry;
    }
    (64 << FRACTION_BITS) - whole
}

const FRACTION_BITS: u32 = 48;

// They are for ever: another seed places every key anew.
const KEY_SEED: u64 = 0x6d65_6e7a_696c_0001;
const QUEUE_SEED: u64 = 0x6d65_6e7a_696c_0002;
const EXCHANGE_SEED: u64 = 0x6d65_6e7a_696c_0003;
