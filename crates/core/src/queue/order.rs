//! What a place in a queue's order is made of.
//!
//! ```text
//! arrival    counter
//! priority   255 - priority : 8 bits | counter : 56 bits
//! time       milliseconds since 1970 : 42 bits | counter : 22 bits
//! ```
//!
//! The next to go out is the least. A class is what has the same upper bits: within it entries
//! stand in the order of arrival.

use menzil_model::Sequence;

/// Which one it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Order {
    /// First in, first out.
    #[default]
    Arrival,
    /// The highest priority first, up to that one.
    Priority(u8),
    /// When they came to a store: what came first is first, and its place tells when.
    Time,
}

/// Bits of the counter below a priority: more than any queue counts.
const COUNTER_BITS: u32 = 56;
const COUNTER_MASK: u64 = (1 << COUNTER_BITS) - 1;

/// Bits of the counter below a time: places of one millisecond.
const TIME_COUNTER_BITS: u32 = 22;

impl Order {
    /// That of a queue with that highest priority.
    pub(crate) fn of_priorities(max: u8) -> Self {
        match max {
            0 => Self::Arrival,
            max => Self::Priority(max),
        }
    }

    /// The counter in a place.
    pub(crate) fn counter(self, place: Sequence) -> u64 {
        match self {
            Self::Arrival | Self::Time => place.0,
            Self::Priority(_) => place.0 & COUNTER_MASK,
        }
    }
}

/// The place of what has that priority and comes as the `counter`th.
pub(crate) fn place_of(priority: u8, counter: u64) -> Sequence {
    let class = u64::from(u8::MAX - priority);
    Sequence(class << COUNTER_BITS | counter & COUNTER_MASK)
}

/// The first place of a millisecond.
pub(crate) fn place_at(time: u64) -> Sequence {
    let time = time.min(u64::MAX >> (TIME_COUNTER_BITS + 1));
    Sequence(time << TIME_COUNTER_BITS)
}

/// The millisecond of a place.
pub(crate) fn time_of(place: Sequence) -> u64 {
    place.0 >> TIME_COUNTER_BITS
}

/// The start of the class that the place is in, where there are classes.
pub(crate) fn class_start(place: Sequence) -> u64 {
    place.0 & !COUNTER_MASK
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn places_go_by_priority_and_then_by_arrival(
            a in (any::<u8>(), 0..1_u64 << 50),
            b in (any::<u8>(), 0..1_u64 << 50),
        ) {
            let key = |(priority, counter): (u8, u64)| (u8::MAX - priority, counter);
            let place = |(priority, counter)| place_of(priority, counter);
            prop_assert_eq!(place(a).cmp(&place(b)), key(a).cmp(&key(b)));
            prop_assert_eq!(Order::of_priorities(9).counter(place(a)), a.1);
            prop_assert_eq!(class_start(place(a)), place((a.0, 0)).0);
        }
    }

    #[test]
    fn without_priorities_the_counter_is_the_place() {
        assert_eq!(Order::of_priorities(0).counter(Sequence(77)), 77);
    }

    #[test]
    fn a_place_tells_its_time() {
        for now in [0, 1, 1_764_000_000_000, (1 << 41) - 1] {
            let place = place_at(now);
            assert_eq!(time_of(place), now);
            assert_eq!(time_of(Sequence(place.0 + 4_000_000)), now);
        }
        assert!(place_at(u64::MAX).0 < 1 << 63);
    }
}
