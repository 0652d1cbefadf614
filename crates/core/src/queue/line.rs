//! The consumers of one queue, in the order of their turns: a higher priority comes first, and of
//! equal ones who has waited longest. With `x-single-active-consumer` only one of them may take
//! entries at a time; the others wait.
//!
//! ```text
//! all equal                  plain list, turned round as they have their turns
//! priorities                 [ 7: c d | 0: a b e | -1: f ]  each rank is turned round by itself
//! single active consumer     [ active ]   waiting: by priority, then by age
//!   a waiting one is higher  [ ]          until the active one has settled all that it holds
//! ```
//!
//! Invariant: `open` has no one who may not take an entry now.

use std::collections::VecDeque;

use crate::consumer::{ConsumerId, Taker};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Line {
    open: VecDeque<Taker>,
    /// `None` where all are equal and all may take.
    special: Option<Box<Special>>,
}

#[derive(Debug, Default)]
struct Special {
    /// Ranks of those in the list, from the highest down; none is empty.
    ranks: Vec<Rank>,
    single: Option<Single>,
    groups: bool,
}

/// Some in the list, next to each other, who have the same priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rank {
    priority: i64,
    count: usize,
}

/// `x-single-active-consumer`.
#[derive(Debug, Default)]
struct Single {
    active: Option<Candidate>,
    /// In the order in which they follow.
    waiting: Vec<Candidate>,
}

#[derive(Clone, Copy, Debug)]
struct Candidate {
    priority: i64,
    taker: Taker,
}

impl Line {
    /// An empty line; `single_active` is the queue's argument. A queue with `groups` is always
    /// asked for what is special about it.
    pub(crate) fn new(single_active: bool, groups: bool) -> Self {
        let special = (single_active || groups).then(|| {
            Box::new(Special {
                ranks: Vec::new(),
                single: single_active.then(Single::default),
                groups,
            })
        });
        Self {
            open: VecDeque::new(),
            special,
        }
    }

    /// Those who may take entries, in the order of their turns.
    #[inline]
    pub(crate) fn takers(&self) -> &VecDeque<Taker> {
        &self.open
    }

    /// All consumers.
    pub(crate) fn count(&self) -> usize {
        match self.single() {
            Some(single) => single.waiting.len() + usize::from(single.active.is_some()),
            None => self.open.len(),
        }
    }

    /// Whether there is no consumer.
    #[inline]
    pub(crate) fn is_unused(&self) -> bool {
        self.open.is_empty() && self.count() == 0
    }

    /// Whether only one consumer may take entries at a time.
    pub(crate) fn is_single_active(&self) -> bool {
        self.single().is_some()
    }

    fn single(&self) -> Option<&Single> {
        self.special.as_ref()?.single.as_ref()
    }

    /// A consumer comes.
    pub(crate) fn add(&mut self, taker: Taker, priority: i64) {
        if priority != 0 && self.special.is_none() {
            let ranks = Rank::of_equal(self.open.len());
            self.special = Some(Box::new(Special {
                ranks,
                ..Special::default()
            }));
        }
        match &mut self.special {
            None => self.open.push_back(taker),
            Some(special) => match &mut special.single {
                Some(single) => single.wait(Candidate { priority, taker }),
                None => self.open.insert(special.rank(priority), taker),
            },
        }
    }

    /// A consumer goes.
    pub(crate) fn remove(&mut self, consumer: ConsumerId) {
        if let Some(single) = self.special.as_mut().and_then(|s| s.single.as_mut()) {
            single.forget(consumer);
        }
        let Some(at) = (self.open.iter()).position(|taker| taker.consumer == consumer) else {
            return;
        };
        self.open.remove(at);
        let Some(special) = self.special.as_mut().filter(|s| s.single.is_none()) else {
            return;
        };
        special.leave(at);
        if !special.groups && special.ranks.iter().all(|rank| rank.priority == 0) {
            self.special = None;
        }
    }

    /// All consumers go.
    pub(crate) fn take_all(&mut self) -> Vec<Taker> {
        let all = self.everyone().collect();
        let groups = self.special.as_ref().is_some_and(|special| special.groups);
        *self = Self::new(self.is_single_active(), groups);
        all
    }

    /// All consumers, those in turn first.
    pub(crate) fn everyone(&self) -> impl Iterator<Item = Taker> + '_ {
        let single = self.single();
        let open = self.open.iter().copied().filter(move |_| single.is_none());
        let candidates = single.into_iter().flat_map(|single| {
            let candidates = single.active.iter().chain(&single.waiting);
            candidates.map(|candidate| candidate.taker)
        });
        open.chain(candidates)
    }

    /// Whoever stands there has had its turn: it goes to the end of its equals, with those before
    /// it who could not take theirs.
    #[inline]
    pub(crate) fn has_turn(&mut self, at: usize) {
        if self.open.len() > 1 {
            self.turn(at, 1);
        }
    }

    /// Whoever stands there has the next turn among its equals.
    #[inline]
    pub(crate) fn is_next(&mut self, at: usize) {
        self.turn(at, 0);
    }

    #[inline(never)]
    fn turn(&mut self, at: usize, past: usize) {
        match &self.special {
            None => self.open.rotate_left(at + past),
            Some(special) => special.turn(&mut self.open, at, past),
        }
    }

    /// Whether more is to be thought of than turns: [`Line::elect`], or groups.
    #[inline]
    pub(crate) fn is_special(&self) -> bool {
        self.special.is_some()
    }

    /// Says who may take entries, where that is one at a time. `holds` tells whether a consumer
    /// has something to settle.
    #[cold]
    pub(crate) fn elect(&mut self, holds: impl Fn(Taker) -> bool) {
        let Some(single) = self.special.as_mut().and_then(|s| s.single.as_mut()) else {
            return;
        };
        let active = single.elect(holds).map(|candidate| candidate.taker);
        if self.open.front().copied() != active {
            self.open.clear();
            self.open.extend(active);
        }
    }

    /// Checks the order; for tests. `priority` knows what each consumer asked for.
    pub(crate) fn check_invariants(&self, priority: impl Fn(Taker) -> i64) {
        let Some(special) = &self.special else {
            assert!(self.open.iter().all(|taker| priority(*taker) == 0));
            return;
        };
        if let Some(single) = &special.single {
            let key = |one: &Candidate| (-i128::from(one.priority), one.taker.consumer);
            assert!(single.waiting.is_sorted_by_key(key));
            assert!(self.open.len() <= 1);
            let active = single.active.map(|active| active.taker);
            assert!(self.open.iter().all(|taker| Some(*taker) == active));
            return;
        }
        let ranks = special.ranks.iter();
        let named = ranks.flat_map(|rank| std::iter::repeat_n(rank.priority, rank.count));
        assert!(named.eq(self.open.iter().map(|taker| priority(*taker))));
        assert!((special.ranks).is_sorted_by(|a, b| a.priority > b.priority));
        assert!(special.ranks.iter().all(|rank| rank.count > 0));
    }
}

impl Rank {
    /// Ranks of so many who asked for nothing.
    fn of_equal(count: usize) -> Vec<Self> {
        let all = Self { priority: 0, count };
        (count > 0).then_some(all).into_iter().collect()
    }
}

impl Special {
    /// Makes room for one of that priority behind its equals, and tells where that is.
    fn rank(&mut self, priority: i64) -> usize {
        let at = (self.ranks).partition_point(|rank| rank.priority > priority);
        let before: usize = self.ranks.iter().take(at).map(|rank| rank.count).sum();
        match self.ranks.get_mut(at) {
            Some(rank) if rank.priority == priority => {
                rank.count += 1;
                before + rank.count - 1
            }
            _ => {
                self.ranks.insert(at, Rank { priority, count: 1 });
                before
            }
        }
    }

    /// Who stood there is gone.
    fn leave(&mut self, at: usize) {
        let mut end = 0;
        let rank = self.ranks.iter_mut().find(|rank| {
            end += rank.count;
            at < end
        });
        if let Some(rank) = rank {
            rank.count -= 1;
        }
        self.ranks.retain(|rank| rank.count > 0);
    }

    /// Turns the equals of who stands there round, so that it is first, or just past it.
    fn turn(&self, open: &mut VecDeque<Taker>, at: usize, past: usize) {
        if self.ranks.len() <= 1 {
            open.rotate_left(at + past);
            return;
        }
        let mut end = 0;
        for rank in &self.ranks {
            let first = end;
            end += rank.count;
            if at < end {
                if let Some(equals) = open.make_contiguous().get_mut(first..end) {
                    equals.rotate_left(at + past - first);
                }
                return;
            }
        }
    }
}

impl Single {
    fn wait(&mut self, candidate: Candidate) {
        let place = (self.waiting).partition_point(|other| {
            let (theirs, own) = (other.taker.consumer, candidate.taker.consumer);
            other.priority > candidate.priority
                || other.priority == candidate.priority && theirs < own
        });
        self.waiting.insert(place, candidate);
    }

    fn forget(&mut self, consumer: ConsumerId) {
        (self.active).take_if(|active| active.taker.consumer == consumer);
        (self.waiting).retain(|waiting| waiting.taker.consumer != consumer);
    }

    /// The one who may take entries now, if any.
    fn elect(&mut self, holds: impl Fn(Taker) -> bool) -> Option<Candidate> {
        let next = self.waiting.first().copied();
        match (self.active, next) {
            (Some(active), Some(next)) if next.priority > active.priority => {
                if holds(active.taker) {
                    return None;
                }
                self.waiting.remove(0);
                self.wait(active);
                self.active = Some(next);
            }
            (None, Some(next)) => {
                self.waiting.remove(0);
                self.active = Some(next);
            }
            (_, _) => {}
        }
        self.active
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slots::Place;
    use proptest::prelude::*;

    fn taker(number: u64) -> Taker {
        Taker {
            consumer: ConsumerId(number),
            place: Place::default(),
        }
    }

    fn numbers(line: &Line) -> Vec<u64> {
        line.takers().iter().map(|t| t.consumer.0).collect()
    }

    #[test]
    fn those_with_a_priority_come_first_and_equals_take_turns() {
        let mut line = Line::default();
        for (number, priority) in [(1, 0), (2, 0), (3, 5), (4, -1), (5, 5)] {
            line.add(taker(number), priority);
        }
        assert_eq!(numbers(&line), [3, 5, 1, 2, 4]);
        line.has_turn(0);
        assert_eq!(numbers(&line), [5, 3, 1, 2, 4]);
        line.has_turn(2);
        assert_eq!(numbers(&line), [5, 3, 2, 1, 4]);
        line.is_next(3);
        assert_eq!(numbers(&line), [5, 3, 1, 2, 4]);
        for number in [3, 5, 4] {
            line.remove(ConsumerId(number));
        }
        assert!(line.special.is_none(), "all are equal again");
    }

    #[test]
    fn a_higher_one_takes_over_when_nothing_is_held() {
        let mut line = Line::new(true, false);
        line.add(taker(1), 0);
        line.add(taker(2), 0);
        line.elect(|_| false);
        assert_eq!(numbers(&line), [1]);
        line.add(taker(3), 9);
        line.elect(|_| true);
        assert_eq!(numbers(&line), [0; 0], "nobody gets more meanwhile");
        line.elect(|_| false);
        assert_eq!(numbers(&line), [3]);
        line.remove(ConsumerId(3));
        line.elect(|_| false);
        assert_eq!(numbers(&line), [1], "then by age");
        assert_eq!(line.count(), 2);
    }

    #[test]
    fn the_active_one_goes_on_where_the_higher_one_leaves_again() {
        let mut line = Line::new(true, false);
        line.add(taker(1), 0);
        line.elect(|_| false);
        line.add(taker(2), 1);
        line.elect(|_| true);
        assert_eq!(numbers(&line), [0; 0]);
        line.remove(ConsumerId(2));
        line.elect(|_| true);
        assert_eq!(numbers(&line), [1]);
    }

    proptest! {
        /// Against a plain list that is sorted anew each time.
        #[test]
        fn behaves_as_a_list_sorted_by_priority_and_turn(
            steps in prop::collection::vec((0..4_u8, 0..8_usize, -1..2_i64), 0..120)
        ) {
            let mut line = Line::default();
            let mut naive: Vec<(i64, u64, u64)> = Vec::new();
            let (mut next, mut turns) = (0, 0);
            for (step, at, priority) in steps {
                let at = if naive.is_empty() { 0 } else { at % naive.len() };
                turns += 1;
                match step {
                    0 => {
                        next += 1;
                        line.add(taker(next), priority);
                        naive.push((-priority, turns * 100, next));
                    }
                    1 if !naive.is_empty() => {
                        let (_, _, gone) = naive.remove(at);
                        line.remove(ConsumerId(gone));
                    }
                    _ if !naive.is_empty() => {
                        line.has_turn(at);
                        let rank = naive[at].0;
                        for (past, one) in (0..).zip(naive[..=at].iter_mut().filter(|o| o.0 == rank)) {
                            one.1 = turns * 100 + past;
                        }
                    }
                    _ => {}
                }
                naive.sort_unstable();
                let expected: Vec<u64> = naive.iter().map(|one| one.2).collect();
                prop_assert_eq!(numbers(&line), expected);
                line.check_invariants(|taker| {
                    naive.iter().find(|one| one.2 == taker.consumer.0).map_or(0, |one| -one.0)
                });
            }
        }
    }
}
