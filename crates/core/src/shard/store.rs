//! The stores of exchanges: made and deleted with them, and cut to what they are to keep.

use std::sync::Arc;

use menzil_model::fact::{ExchangeDefinition, Range, Ranges, Why};
use menzil_model::{ExchangeId, Fact, QueueId, Sequence, StorePurpose};

use super::Shard;
use crate::log::Log;
use crate::queue::{Queue, place_at};
use crate::store::Retention;

/// Entries that one turn drops from a store; the rest follow in the next.
const DROPPED_AT_ONCE: usize = 4096;

impl Shard {
    /// Makes the hidden queues that an exchange asks for.
    pub(super) fn apply_stores_declared(&mut self, exchange: &ExchangeDefinition) {
        self.apply_delays_declared(exchange);
        let id = QueueId::store_of(exchange.id, StorePurpose::Retention);
        let Some(retention) = Retention::of(exchange).filter(|_| !self.queues.contains_key(&id))
        else {
            return;
        };
        let (entries, shelf) = (self.settings.index_page_entries, Arc::clone(&self.shelf));
        let queue = Queue::store(exchange, retention, entries, shelf);
        self.queues.insert(id, queue);
    }

    /// They go with their exchange.
    pub(super) fn apply_stores_deleted(&mut self, exchange: ExchangeId) {
        for purpose in [StorePurpose::Retention, StorePurpose::Delay] {
            self.apply_queue_deleted(QueueId::store_of(exchange, purpose));
        }
    }

    /// Drops what stores that grew have over their limits. Nobody waits for that, so it is done
    /// for many messages at once.
    pub(super) fn drop_over_limits(&mut self, log: &mut dyn Log) {
        let mut left = Vec::new();
        for id in std::mem::take(&mut self.grown) {
            if self.drop_over_limit(log, id) {
                left.push(id);
            }
        }
        self.grown = left;
    }

    /// True where more is to go than one call drops.
    pub(super) fn drop_over_limit(&mut self, log: &mut dyn Log, id: QueueId) -> bool {
        let Some(last) = self.last_over_limit(id) else {
            return false;
        };
        self.drop_up_to(log, id, last, Why::Overflow);
        self.last_over_limit(id).is_some()
    }

    /// The last of the oldest entries that a store is not to keep, as far as one turn goes.
    fn last_over_limit(&self, id: QueueId) -> Option<Sequence> {
        let queue = self.queues.get(&id)?;
        let store = queue.store.as_deref().filter(|store| store.readers == 0)?;
        let mut count = queue.index.ready_count();
        let mut bytes = queue.index.ready_bytes();
        let retention = store.retention;
        let is_over = |count: u64, bytes: u64| {
            retention.length_max.is_some_and(|max| count > max)
                || retention.bytes_max.is_some_and(|max| bytes > max)
        };
        if !is_over(count, bytes) {
            return None;
        }
        let mut last = None;
        for item in queue.index.ready().take(DROPPED_AT_ONCE) {
            if !is_over(count, bytes) {
                break;
            }
            count -= 1;
            bytes -= item.extent.body_bytes;
            last = Some(item.sequence);
        }
        last
    }

    /// Drops the entries that came too long ago. True where there were some.
    pub(super) fn drop_aged(&mut self, log: &mut dyn Log, id: QueueId, now: u64) -> bool {
        let Some(queue) = self.queues.get(&id) else {
            return false;
        };
        let age_max = queue.store.as_deref().and_then(|store| {
            let age_max = store.retention.age_max?;
            (store.readers == 0).then_some(age_max)
        });
        let Some(oldest) = age_max.map(|age_max| now.saturating_sub(age_max)) else {
            return false;
        };
        // What came `age_max` ago goes now: everything before the millisecond that follows.
        let first_kept = place_at(oldest + 1);
        let has_aged = (queue.index.head()).is_some_and(|item| item.sequence < first_kept);
        if has_aged {
            self.drop_up_to(log, id, Sequence(first_kept.0 - 1), Why::Expired);
        }
        has_aged
    }

    fn drop_up_to(&mut self, log: &mut dyn Log, id: QueueId, last: Sequence, why: Why) {
        let range = Range {
            first: Sequence(0),
            last,
        };
        let fact = Fact::Settled {
            queue: id,
            ranges: Ranges::from_slice(&[range]),
            why,
        };
        let durable = self.queues.get(&id).is_some_and(Queue::is_durable);
        self.record_lazy(log, fact, durable);
    }
}
