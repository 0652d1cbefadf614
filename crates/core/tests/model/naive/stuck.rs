//! Dead letters on their way, and those that stay because no queue takes them.

use super::letter::{Letter, Reason};
use super::{Host, Source, Taken};
use crate::plan::Overflow;

impl Host {
    /// Sends on what died in a queue. False where it is to stay there.
    pub(super) fn send_on(
        &mut self,
        queue: u8,
        mut letter: Letter,
        reason: Reason,
        may_stay: bool,
    ) -> bool {
        let Some(of) = self.queues.get(&queue) else {
            return true;
        };
        let Some(dead) = of.settings.dead.clone() else {
            return true;
        };
        // What a length limit drops has no place to stay.
        let may_stay = may_stay && reason != Reason::MaxLength;
        let is_strict = may_stay && dead.at_least_once;
        let stays = is_strict || (may_stay && of.settings.overflow == Overflow::Reject);
        letter.die(queue, reason);
        if let Some(key) = dead.key {
            letter.key = key;
        }
        if letter.waits_in(dead.exchange) {
            self.keep(dead.exchange, letter);
            return true;
        }
        let mut targets = self.route(dead.exchange, &letter.key);
        targets.retain(|target| !letter.is_cycle(*target));
        if targets.is_empty() && is_strict {
            return false;
        }
        let is_refused =
            |target: &u8| matches!(self.verdict(*target, &letter, &[]), Taken::Refused);
        if stays && targets.iter().any(is_refused) {
            return false;
        }
        self.put(&targets, &letter);
        true
    }

    /// Where some are stuck the next may wait for the next try with them.
    pub(super) fn waiting_behind(&self, source: Source) -> Option<Self> {
        let Source::Queue(id) = source else {
            return None;
        };
        let mut next = self.clone();
        let queue = next.queue(id);
        if queue.stuck.is_empty() {
            return None;
        }
        let waits = queue.dying.pop_front()?;
        queue.stuck.push(waits);
        Some(next)
    }

    /// What may come of one more try of any that is stuck.
    pub(super) fn unstuck(&self) -> Vec<Self> {
        let mut all = Vec::new();
        for (id, queue) in &self.queues {
            for (at, (entry, reason)) in queue.stuck.iter().enumerate() {
                let mut next = self.clone();
                if next.send_on(*id, entry.letter.clone(), *reason, true) {
                    next.queue(*id).stuck.remove(at);
                    all.push(next);
                }
            }
        }
        all
    }

    /// Whether a queue has letters that could all go on, and still has them.
    pub(crate) fn has_forgotten(&self) -> bool {
        self.queues.iter().any(|(id, queue)| {
            let goes = |(entry, reason): &(super::Entry, Reason)| {
                let mut host = self.clone();
                host.send_on(*id, entry.letter.clone(), *reason, true)
            };
            !queue.stuck.is_empty() && queue.stuck.iter().all(goes)
        })
    }
}
