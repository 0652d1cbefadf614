//! Which entries of a queue may have been delivered, as far as the journal knows.
//!
//! A `Delivering` fact says it of all places below one, and is ahead of what goes out. Where
//! places are in classes of priority it says it of those of its class only: else one message of
//! a high priority would make all that wait behind it count as delivered after a crash.

use std::collections::BTreeMap;

use menzil_model::Sequence;

use super::order::{Order, class_start};

/// Room that a `Delivering` fact reserves ahead of what goes out, in entries.
const DELIVERING_AHEAD: u64 = 4096;

/// The last two `Delivering` facts, and how far deliveries really went.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    below: u64,
    index: u64,
    earlier_below: u64,
    earlier_index: u64,
    /// One past the highest durable sequence that went out.
    delivered_below: u64,
}

impl Mark {
    fn advance(&mut self, below: u64, index: u64) {
        self.earlier_below = self.below.min(below);
        self.earlier_index = self.index;
        self.below = below;
        self.index = index;
    }

    #[inline]
    fn due(&self, sequence: Sequence) -> Option<Sequence> {
        (sequence.0 + DELIVERING_AHEAD / 2 >= self.below)
            .then_some(Sequence(sequence.0 + DELIVERING_AHEAD))
    }

    /// As [`Mark::due`], with no room ahead.
    #[inline]
    fn due_exactly(&self, sequence: Sequence) -> Option<Sequence> {
        (sequence.0 >= self.below).then_some(Sequence(sequence.0 + 1))
    }

    #[inline]
    fn deliver(&mut self, sequence: Sequence) -> u64 {
        self.delivered_below = self.delivered_below.max(sequence.0 + 1);
        if sequence.0 < self.earlier_below {
            self.earlier_index
        } else {
            self.index
        }
    }

    fn exact(&self) -> Option<Sequence> {
        (self.delivered_below < self.below).then_some(Sequence(self.delivered_below))
    }

    fn recovered(&mut self, next: u64) {
        self.delivered_below = self.below.min(next);
        self.earlier_below = self.below;
        self.index = 0;
        self.earlier_index = 0;
    }
}

/// The marks of a queue: one, or one for each class that had deliveries, by its start.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    one: Mark,
    classes: Option<Box<Classes>>,
    /// What went out is to be known exactly: no room is reserved.
    is_exact: bool,
}

/// By the start of the class.
#[derive(Debug, Default)]
struct Classes(BTreeMap<u64, Mark>);

impl Marks {
    pub(crate) fn new(order: Order) -> Self {
        Self {
            one: Mark::default(),
            classes: match order {
                Order::Arrival | Order::Time | Order::Due | Order::Session => None,
                Order::Priority(_) => Some(Box::default()),
            },
            is_exact: order == Order::Session,
        }
    }

    /// Takes in a `Delivering` fact.
    pub(crate) fn advance(&mut self, below: Sequence, index: u64) {
        self.mark_of(below).advance(below.0, index);
    }

    /// The new end of the reserved room, where one is due before or soon after `sequence`
    /// goes out.
    #[inline]
    pub(crate) fn due(&self, sequence: Sequence) -> Option<Sequence> {
        match &self.classes {
            None if self.is_exact => self.one.due_exactly(sequence),
            None => self.one.due(sequence),
            Some(classes) => match classes.0.get(&class_start(sequence)) {
                None => Mark::default().due(sequence),
                Some(mark) => mark.due(sequence),
            },
        }
    }

    /// Notes that a durable entry goes out, and tells which index it waits for.
    #[inline]
    pub(crate) fn deliver(&mut self, sequence: Sequence) -> u64 {
        self.mark_of(sequence).deliver(sequence)
    }

    #[inline]
    fn mark_of(&mut self, sequence: Sequence) -> &mut Mark {
        match &mut self.classes {
            None => &mut self.one,
            Some(classes) => {
                let start = class_start(sequence);
                classes.0.entry(start).or_insert_with(|| Mark {
                    below: start,
                    delivered_below: start,
                    ..Mark::default()
                })
            }
        }
    }

    /// The first sequence that was certainly not delivered, of each class.
    pub(crate) fn below(&self) -> impl Iterator<Item = Sequence> + '_ {
        self.all().map(|mark| Sequence(mark.below))
    }

    /// The exact values, where they are below what is reserved.
    pub(crate) fn exact(&self) -> impl Iterator<Item = Sequence> + '_ {
        self.all().filter_map(Mark::exact)
    }

    fn all(&self) -> impl Iterator<Item = &Mark> {
        let one = self.classes.is_none().then_some(&self.one);
        one.into_iter()
            .chain(self.classes.iter().flat_map(|classes| classes.0.values()))
    }

    /// After recovery every entry below a mark counts as delivered; `next` is the next that
    /// arrives, and what does was not. Returns what is below, of each class, ascending.
    pub(crate) fn recovered(&mut self, next: u64) -> Vec<u64> {
        match &mut self.classes {
            None => self.one.recovered(next),
            Some(classes) => {
                for (start, mark) in &mut classes.0 {
                    mark.recovered(start + next);
                }
            }
        }
        self.all().map(|mark| mark.delivered_below).collect()
    }
}
