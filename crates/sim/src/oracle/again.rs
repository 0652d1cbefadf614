//! Messages that are published again: a queue that deduplicates has each of them once.

use super::Oracle;
use super::model::{Belief, MessageModel};
use crate::body::MessageNumber;
use crate::catalogue::QUEUES;
use crate::prng::Prng;

impl Oracle {
    /// A message to publish again, and its length: one of which it is known whether the queue
    /// that deduplicates has or had it.
    pub(crate) fn resendable(&self, prng: &mut Prng) -> Option<(MessageNumber, usize)> {
        let queue = QUEUES.iter().position(|queue| queue.deduplicates)?;
        let model = &self.queues[queue];
        let is_known = |number: &MessageNumber| {
            model.entries.contains_key(number)
                || (model.is_gone(*number) && !model.unclear.contains(number))
        };
        let sent = self.messages.iter().enumerate().rev();
        // What became of a publish that nobody answers is not known.
        let is_answered = |message: &MessageModel| message.confirm || message.is_acked();
        let sent =
            sent.filter(|(_, message)| message.targets.contains(&queue) && is_answered(message));
        let recent: Vec<_> = sent
            .map(|(at, message)| (at as u64 + 1, message))
            .filter(|(number, _)| is_known(number))
            .take(RECENT)
            .map(|(number, message)| (number, message.length))
            .collect();
        (!recent.is_empty()).then(|| recent[prng.index(recent.len())])
    }

    /// The node is about to execute a publish of what was published before.
    pub(super) fn resent(&mut self, again: MessageNumber) {
        let executed = self.executed;
        let Some(message) = self.message_mut(again) else {
            return;
        };
        message.executed = executed;
        let Some(number) = message.resends else {
            return;
        };
        let queue = QUEUES.iter().position(|queue| queue.deduplicates);
        let Some(queue) = queue.filter(|queue| self.queues[*queue].lost.remove(&number)) else {
            return;
        };
        // The queue does not know it, so it takes it now, or refuses it.
        self.queues[queue].gone.remove(&number);
        if let Some(message) = self.message(number).cloned() {
            self.enter_queue(&message, (queue, number), self.now, false);
        }
        if let Some(entry) = self.queues[queue].entries.get_mut(&number) {
            entry.belief = Belief::Maybe;
            entry.is_refused = true;
        }
    }

    /// The node accepts it: the queue has it now, if it had not before.
    pub(super) fn resend_accepted(&mut self, again: MessageNumber) {
        let Some(number) = self.message(again).and_then(|message| message.resends) else {
            return;
        };
        for queue in &mut self.queues {
            if let Some(entry) = queue.entries.get_mut(&number)
                && std::mem::take(&mut entry.is_refused)
                && !entry.is_settled
            {
                entry.belief = Belief::Live;
            }
        }
    }

    /// The client heard so.
    pub(super) fn resend_acked(&mut self, again: MessageNumber) {
        let Some(number) = self.message(again).and_then(|message| message.resends) else {
            return;
        };
        self.tally.resent += 1;
        if let Some(message) = self.message_mut(number) {
            message.is_resent = true;
        }
    }
}

/// How many messages back are published again.
const RECENT: usize = 30;
