//! What comes back to a queue over its length limit: the oldest go before anybody gets one, some
//! in each turn. What is past its time is in the way of nothing and goes first. What a publish
//! brings is looked at where it enters.

use std::collections::BTreeMap;

use menzil_model::fact::Why;
use menzil_model::{Fact, QueueId};

use super::Shard;
use super::policy::DROPPED_AT_ONCE;
use super::publish::Pending;
use crate::queue::Queue;
use crate::slots::Place;
use crate::turn::Turn;

/// What is to be done about a queue to which something came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    /// It is over its limit, and nothing goes to consumers for now.
    Limit,
    /// It was, and who waits for that goes on when its turn comes.
    NoMore,
}

/// Queues that are over their limit, or were in this turn.
#[derive(Debug, Default)]
pub(super) struct OverLimit {
    queues: BTreeMap<QueueId, Over>,
    /// Entries that this turn may drop still.
    drops: usize,
}

impl OverLimit {
    /// A turn begins.
    pub(super) fn allow(&mut self) {
        self.drops = DROPPED_AT_ONCE;
    }

    /// Whether the queue is over its limit.
    pub(super) fn has(&self, id: QueueId) -> bool {
        !self.queues.is_empty() && self.queues.get(&id) == Some(&Over::Limit)
    }

    /// Whether it is, or was until something else had to enter it.
    pub(super) fn knows(&self, id: QueueId) -> bool {
        !self.queues.is_empty() && self.queues.contains_key(&id)
    }

    /// The queue is gone, or nobody waits for it any more.
    pub(super) fn forget(&mut self, id: QueueId) {
        self.queues.remove(&id);
    }
}

impl Shard {
    /// Entries came back to the queue: what is over its limit is to go before more is delivered.
    pub(super) fn note_over(&mut self, id: QueueId, place: Place) {
        let queue = self.queues.at(place, id);
        if queue.is_some_and(|queue| queue.sheds() && queue.is_over(0, 0)) {
            self.over.queues.insert(id, Over::Limit);
        }
    }

    /// Takes some of what is over the limit from the head of a queue to which it came back. False
    /// where more is left, which follows.
    pub(super) fn trim(&mut self, turn: &mut Turn<'_>, id: QueueId, place: Place) -> bool {
        if !self.over.has(id) {
            return true;
        }
        self.expire_now(turn, id);
        let Some(queue) = self.queues.at(place, id) else {
            return true;
        };
        if queue.dead_letters() {
            self.shed(id, place);
        } else {
            let before = queue.index.ready_count();
            self.drop_over(turn, id, self.over.drops);
            let queue = self.queues.at(place, id);
            let left = queue.map_or(0, |queue| queue.index.ready_count());
            let dropped = usize::try_from(before - left).unwrap_or(usize::MAX);
            self.over.drops = self.over.drops.saturating_sub(dropped);
        }
        let queue = self.queues.at(place, id);
        let is_done = queue.is_none_or(|queue| !queue.is_to_be_trimmed());
        if is_done {
            self.over.queues.insert(id, Over::NoMore);
        } else if !self.dead_letters((id, place)) {
            self.resume_next_turn(id);
        }
        is_done
    }

    /// Drops some of what is over the limit.
    pub(super) fn drop_over(&mut self, turn: &mut Turn<'_>, queue: QueueId, at_once: usize) {
        if let Some((ranges, durable)) = self.overflow(queue, &Pending::default(), at_once) {
            let fact = Fact::Settled {
                queue,
                ranges,
                why: Why::Overflow,
            };
            self.record(turn, fact, durable);
        }
    }
}

impl Queue {
    /// Whether it is over its limit and something can be done about that. Where it dead-letters,
    /// and as many wait as may for a queue that refuses them, nothing can.
    fn is_to_be_trimmed(&self) -> bool {
        let waits = |queue: &Self| {
            let dying = queue.dying.as_deref();
            dying.is_some_and(|dying| dying.room() == 0 && dying.retry_at().is_some())
        };
        self.sheds() && self.is_over(0, 0) && !(self.dead_letters() && waits(self))
    }
}
