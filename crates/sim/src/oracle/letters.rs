//! Dead letters: a message is in its queue or in all those that its letters go to, never in both
//! and never in none.

use super::Oracle;
use super::model::{Belief, Entry};
use crate::body::MessageNumber;
use crate::catalogue::{QUEUES, QueueNumber, source_of};

impl Oracle {
    /// Whether the entry may have left its queue by itself.
    pub(super) fn may_be_away(&self, queue: QueueNumber, entry: &Entry) -> bool {
        self.is_expired(entry.may_expire_at)
            || self.queues[queue].may_be_dropped(queue, entry)
            || (entry.is_rejected && QUEUES[queue].dead_letters())
            || (QUEUES[queue].delivery_limit).is_some_and(|limit| entry.fails > limit)
            || (entry.is_brief && self.is_expired(entry.not_before))
    }

    /// The queue that a letter there came from, where it may be still.
    pub(super) fn source_with(
        &self,
        queue: QueueNumber,
        number: MessageNumber,
    ) -> Option<QueueNumber> {
        source_of(queue).filter(|source| self.queues[*source].entries.contains_key(&number))
    }

    /// Why no letter may be delivered from there.
    pub(super) fn letter_objection(
        &self,
        queue: QueueNumber,
        number: MessageNumber,
    ) -> Option<String> {
        let entry = self.queues[queue].entries.get(&number)?;
        if !entry.is_potential {
            return None;
        }
        let source = source_of(queue)?;
        let name = QUEUES[source].name;
        let Some(origin) = self.queues[source].entries.get(&number) else {
            return Some(format!("a dead letter of {name}, which had left it before"));
        };
        if let Some(holder) = origin.out {
            return Some(format!("doubled: it is out of queue {name} on {holder:?}"));
        }
        if origin.is_settled && !origin.is_rejected {
            return Some(format!(
                "a dead letter, and it was settled in queue {name} ({origin:?})"
            ));
        }
        if !self.may_be_away(source, origin) {
            return Some(format!("a dead letter, and it did not die in queue {name}"));
        }
        self.letter_objection(source, number)
    }

    /// Why no letter may be found there after a crash.
    pub(super) fn letter_trouble(
        &self,
        queue: QueueNumber,
        number: MessageNumber,
    ) -> Option<String> {
        let source = self.source_with(queue, number)?;
        let origin = self.queues[source].entries.get(&number)?;
        if !self.may_be_away(source, origin) {
            let name = QUEUES[source].name;
            return Some(format!("a dead letter, and it did not die in queue {name}"));
        }
        self.letter_trouble(source, number)
    }

    /// A letter is delivered: it has left where it came from, and is wherever it was to go.
    pub(super) fn letter_seen(&mut self, queue: QueueNumber, number: MessageNumber) {
        let entry = self.queues[queue].entries.get(&number);
        let Some(source) = source_of(queue).filter(|_| entry.is_some_and(|e| e.is_potential))
        else {
            return;
        };
        self.tally.letters += 1;
        for target in QUEUES[source].letters {
            if let Some(entry) = self.queues[*target].entries.get_mut(&number) {
                entry.is_potential = false;
            }
        }
        self.letter_seen(source, number);
        if let Some(origin) = self.queues[source].entries.get_mut(&number) {
            origin.is_settled = true;
            self.settled.push_back((self.executed, source, number));
        }
    }

    /// The entry has left for good, and with it what can come of it no more, or what it came
    /// from.
    pub(super) fn bury_for_good(&mut self, queue: QueueNumber, number: MessageNumber) {
        self.queues[queue].bury(number);
        for target in QUEUES[queue].letters {
            if self.queues[*target].is_only_possible(number) {
                self.bury_for_good(*target, number);
            }
        }
        let mut from = source_of(queue);
        while let Some(source) = from {
            self.queues[source].bury(number);
            from = source_of(source);
        }
    }

    /// The queue in which a message is missing that must be there, or in all of those that its
    /// letters go to, as far as it was not settled.
    pub(super) fn missing(
        &self,
        queue: QueueNumber,
        number: MessageNumber,
        is_found: &dyn Fn(QueueNumber, MessageNumber) -> bool,
    ) -> Option<QueueNumber> {
        if is_found(queue, number) {
            return None;
        }
        let entry = self.queues[queue].entries.get(&number)?;
        if entry.belief == Belief::Maybe || Self::is_undone(queue, number, entry, is_found) {
            return None;
        }
        let spec = QUEUES[queue];
        if !self.may_be_away(queue, entry) {
            return Some(queue);
        }
        spec.letters
            .iter()
            .find_map(|target| self.missing(*target, number, is_found))
    }

    /// Whether a crash undid the move of a letter of which no client has seen anything.
    fn is_undone(
        queue: QueueNumber,
        number: MessageNumber,
        entry: &Entry,
        is_found: &dyn Fn(QueueNumber, MessageNumber) -> bool,
    ) -> bool {
        if entry.is_seen {
            return false;
        }
        let mut sources = std::iter::successors(source_of(queue), |queue| source_of(*queue));
        sources.any(|source| is_found(source, number))
    }

    /// A queue further on in which it is as well.
    pub(super) fn found_on_the_way(
        queue: QueueNumber,
        number: MessageNumber,
        is_found: &dyn Fn(QueueNumber, MessageNumber) -> bool,
    ) -> Option<QueueNumber> {
        QUEUES[queue].letters.iter().copied().find_map(|target| {
            if is_found(target, number) {
                return Some(target);
            }
            Self::found_on_the_way(target, number, is_found)
        })
    }
}
