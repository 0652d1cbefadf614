//! Entries that come back: how often, what then, and what their consumers are told.

use menzil_model::fact::{Returned, Why};
use menzil_model::table::write_value;
use menzil_model::wire::Writer;
use menzil_model::{Message, QueueId, Sequence, Value};

use super::Shard;
use crate::death::{self, Reason};
use crate::queue::{DelayedRetry, Item, RetryKind};
use crate::slots::Place;
use crate::turn::Turn;

/// Entries that become ready again at once; the rest follow in the next turn.
const READY_AT_ONCE: usize = 1000;

impl DelayedRetry {
    /// How long an entry waits that came back: longer with each failure.
    fn delay(&self, failed: u16, has_failed: bool) -> Option<u64> {
        let waits = match self.kind {
            RetryKind::Disabled => false,
            RetryKind::All => true,
            RetryKind::Failed => has_failed,
            RetryKind::Returned => !has_failed,
        };
        let grown = self.min.saturating_mul(u64::from(failed.max(1)));
        waits.then(|| self.max.map_or(grown, |max| grown.min(max)))
    }
}

impl Shard {
    /// An entry comes back to a queue that counts. False where it left it instead.
    pub(super) fn count_return(
        &mut self,
        turn: &mut Turn<'_>,
        (id, place): (QueueId, Place),
        sequence: Sequence,
        has_failed: bool,
    ) -> bool {
        let Some(queue) = self.queues.at_mut(place, id) else {
            return false;
        };
        let Some(item) = queue.index.out(sequence) else {
            return false;
        };
        let failed = item.failed.saturating_add(u16::from(has_failed));
        let limit = queue.settings.delivery_limit;
        if limit.is_some_and(|limit| u64::from(failed) > limit) {
            if queue.dead_letters() {
                self.doom((id, place), sequence, Reason::DeliveryLimit);
            } else {
                self.settle((id, place), sequence, Why::DeliveryLimit);
            }
            return false;
        }
        let delay = queue.settings.delayed_retry.delay(failed, has_failed);
        let returned = Returned {
            sequence,
            failed,
            acquired: item.acquired.saturating_add(1),
            ready_at: delay.map(|delay| turn.now.saturating_add(delay)),
            group: match &queue.groups {
                Some(groups) if delay.is_some() => groups.of_out(sequence),
                Some(_) | None => None,
            },
        };
        if item.durable {
            self.settling.add_returned(id, returned);
        }
        queue.give_back(&returned)
    }

    /// Makes entries ready whose delay is over.
    pub(super) fn end_delays(&mut self, now: u64, id: QueueId, place: Place) {
        if let Some(queue) = self.queues.at_mut(place, id)
            && queue.index.has_delayed()
        {
            let before = queue.index.ready_count();
            queue.end_delays(now, READY_AT_ONCE);
            // What came otherwise goes to who waits for it before a limit is looked at.
            if queue.index.ready_count() > before {
                self.note_over(id, place);
            }
        }
    }
}

/// The properties of an entry that came back, with how often it did. `None` where it did not, or
/// nobody counts.
#[inline]
pub(super) fn counted_properties(item: &Item, message: &Message) -> Option<Vec<u8>> {
    (item.acquired > 0).then(|| with_counts(item, message))
}

#[cold]
fn with_counts(item: &Item, message: &Message) -> Vec<u8> {
    let mut ours = Vec::new();
    let mut put = |name: &str, count: u16| {
        ours.put_short_string(name.as_bytes());
        write_value(&mut ours, Value::I64(count.into()));
    };
    put("x-acquired-count", item.acquired);
    if item.failed > 0 {
        put("x-delivery-count", item.failed);
    }
    death::with_headers(message.properties(), &ours)
}
