//! What a place in a queue's order is made of.
//!
//! ```text
//! arrival    counter
//! priority   255 - priority : 8 bits | counter : 56 bits
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
}

/// Bits of the counter below a priority: more than any queue counts.
const COUNTER_BITS: u32 = 56;
const COUNTER_MASK: u64 = (1 << COUNTER_BITS) - 1;

impl Order {
    /// That of a queue with that highest priority.
    pub(crate) fn of_priorities(max: u8) -> Self {
        match max {
            0 => Self::Arrival,
            max => Self::Priority(max),
        }
    }

    /// The place of what comes as the `counter`th.
    pub(crate) fn place(self, priority: u8, counter: u64) -> Sequence {
        match self {
            Self::Arrival => Sequence(counter),
            Self::Priority(max) => {
                let class = u64::from(u8::MAX - priority.min(max));
                Sequence(class << COUNTER_BITS | counter & COUNTER_MASK)
            }
        }
    }

    /// As which one came what has that place.
    pub(crate) fn counter(self, place: Sequence) -> u64 {
        match self {
            Self::Arrival => place.0,
            Self::Priority(_) => place.0 & COUNTER_MASK,
        }
    }
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
            max in 1..=u8::MAX,
            a in (any::<u8>(), 0..1_u64 << 50),
            b in (any::<u8>(), 0..1_u64 << 50),
        ) {
            let order = Order::of_priorities(max);
            let key = |(priority, counter): (u8, u64)| (u8::MAX - priority.min(max), counter);
            let place = |(priority, counter)| order.place(priority, counter);
            prop_assert_eq!(place(a).cmp(&place(b)), key(a).cmp(&key(b)));
            prop_assert_eq!(order.counter(place(a)), a.1);
            prop_assert_eq!(class_start(place(a)), place((a.0, 0)).0);
        }
    }

    #[test]
    fn without_priorities_the_counter_is_the_place() {
        let order = Order::of_priorities(0);
        assert_eq!(order.place(9, 77), Sequence(77));
        assert_eq!(order.counter(Sequence(77)), 77);
    }
}
