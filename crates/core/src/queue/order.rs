//! What a place in a queue's order is made of.
//!
//! ```text
//! arrival    counter
//! priority   255 - priority : 8 bits | counter : 56 bits
//! time       milliseconds since 1970 : 42 bits | counter : 22 bits
//! session    counter | how it is delivered : 5 bits
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
    /// When they are due.
    Due,
    /// First in, first out, each with how it goes to the session's client.
    Session,
}

/// Bits of the counter below a priority: more than any queue counts.
const COUNTER_BITS: u32 = 56;
const COUNTER_MASK: u64 = (1 << COUNTER_BITS) - 1;

/// Bits below the counter of a session's entry.
pub(crate) const SESSION_FLAG_BITS: u32 = 5;

/// Of them, the one that says that the entry went out as it came in.
const SENT: u64 = 8;

/// Bits of the counter below a time: places of one millisecond.
const TIME_COUNTER_BITS: u32 = 22;
pub(crate) const TIME_COUNTER_MASK: u64 = (1 << TIME_COUNTER_BITS) - 1;

/// Places of one millisecond that are tried.
const TRIES: u64 = 64;

/// How far they are apart: messages of a transaction get theirs side by side.
const TRY_STEP: u64 = 65_521;

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
            Self::Due => place.0 & TIME_COUNTER_MASK,
            Self::Session => place.0 >> SESSION_FLAG_BITS,
        }
    }

    /// The counter behind that of a place, where it was at `next` before.
    pub(crate) fn next_counter(self, place: Sequence, next: u64) -> u64 {
        let counter = self.counter(place);
        match self {
            Self::Arrival | Self::Time | Self::Priority(_) | Self::Session => {
                next.max(counter.saturating_add(1))
            }
            // Of which only the lower bits are told.
            Self::Due => next + ((counter + 1).wrapping_sub(next) & TIME_COUNTER_MASK),
        }
    }

    /// The first place of a counter, in the class that has no upper bits.
    pub(crate) fn start_of(self, counter: u64) -> u64 {
        match self {
            Self::Arrival | Self::Time | Self::Priority(_) | Self::Due => counter,
            Self::Session => counter << SESSION_FLAG_BITS,
        }
    }

    /// The bits of a place that say that it went out as it came in.
    pub(crate) fn sent_bits(self) -> u64 {
        match self {
            Self::Arrival | Self::Time | Self::Priority(_) | Self::Due => 0,
            Self::Session => SENT,
        }
    }
}

/// The place of a session's entry that comes as the `counter`th.
pub(crate) fn place_in_session(counter: u64, flags: u8) -> Sequence {
    Sequence(counter << SESSION_FLAG_BITS | u64::from(flags) & ((1 << SESSION_FLAG_BITS) - 1))
}

/// Places for what is due at a time and came as the `counter`th, the first of which is almost
/// always free: 22 bits of a counter come again.
pub(crate) fn places_due(time: u64, counter: u64) -> impl Iterator<Item = Sequence> {
    (0..).flat_map(move |later: u64| {
        let first = place_at(time.saturating_add(later)).0;
        (0..TRIES).map(move |nth| {
            Sequence(first | counter.wrapping_add(nth * TRY_STEP) & TIME_COUNTER_MASK)
        })
    })
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
