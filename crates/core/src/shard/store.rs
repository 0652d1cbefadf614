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
        if let Some(retention) = Retention::of(exchange) {
            self.make_store(exchange, retention);
        }
    }

    fn make_store(&mut self, exchange: &ExchangeDefinition, retention: Retention) {
        let id = QueueId::store_of(exchange.id, StorePurpose::Retention);
        if self.queues.contains_key(&id) {
            return;
        }
        let (entries, shelf) = (self.settings.index_page_entries, Arc::clone(&self.shelf));
        let queue = Queue::store(exchange, retention, entries, shelf);
        self.queues.insert(id, queue);
    }

    /// Makes a store that is named and not there: a policy made it, which may be gone by now.
    /// What it is to keep is worked out when recovery is done.
    pub(super) fn apply_store_named(&mut self, id: QueueId) {
        let Some((exchange, StorePurpose::Retention)) = id.store() else {
            return;
        };
        if self.queues.contains_key(&id) {
            return;
        }
        if let Some(exchange) = self.topology.exchange_by_id(exchange).cloned() {
            self.make_store(&exchange, Retention::ALL);
            self.sweep.start();
        }
    }

    /// An exchange keeps that much from now on. What is over goes, all of it where that is
    /// nothing; the store stays, and is empty.
    pub(super) fn refresh_store(
        &mut self,
        exchange: &ExchangeDefinition,
        retention: Option<Retention>,
    ) {
        let id = QueueId::store_of(exchange.id, StorePurpose::Retention);
        match (self.queues.get_mut(&id), retention) {
            (None, None) => {}
            (None, Some(retention)) => self.make_store(exchange, retention),
            (Some(queue), retention) => {
                let retention = retention.unwrap_or(Retention::NOTHING);
                if let Some(store) = &mut queue.store
                    && store.retention != retention
                {
                    store.retention = retention;
                    self.touch(id);
                }
            }
        }
        self.topology.set_store(exchange.id, retention.is_some());
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
    fn drop_over_limit(&mut self, log: &mut dyn Log, id: QueueId) -> bool {
        let Some(queue) = self.queues.get(&id).filter(|queue| !queue.is_read()) else {
            return false;
        };
        let Some(last) = last_over_limit(queue, DROPPED_AT_ONCE) else {
            return false;
        };
        self.drop_up_to(log, id, last, Why::Overflow);
        let queue = self.queues.get(&id);
        queue.is_some_and(|queue| last_over_limit(queue, 1).is_some())
    }

    /// Drops the entries that came too long ago. True where there were some.
    pub(super) fn drop_aged(&mut self, log: &mut dyn Log, id: QueueId, now: u64) -> bool {
        let Some(queue) = self.queues.get(&id).filter(|queue| !queue.is_read()) else {
            return false;
        };
        let Some(first) = first_young(queue, now) else {
            return false;
        };
        let has_aged = (queue.index.head()).is_some_and(|item| item.sequence < first);
        if has_aged {
            self.drop_up_to(log, id, Sequence(first.0 - 1), Why::Expired);
        }
        has_aged
    }

    /// The first place of a store whose entry is kept now.
    pub(super) fn first_kept(&self, id: QueueId, now: u64) -> Sequence {
        let Some(queue) = self.queues.get(&id) else {
            return Sequence(0);
        };
        let over = last_over_limit(queue, usize::MAX).map(|last| Sequence(last.0 + 1));
        let young = first_young(queue, now);
        over.max(young).unwrap_or(Sequence(0))
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

/// The last of the oldest entries that a store is not to keep, as far as so many go.
fn last_over_limit(queue: &Queue, at_once: usize) -> Option<Sequence> {
    let retention = queue.store.as_deref()?.retention;
    let mut count = queue.index.ready_count();
    let mut bytes = queue.index.ready_bytes();
    let is_over = |count: u64, bytes: u64| {
        retention.length_max.is_some_and(|max| count > max)
            || retention.bytes_max.is_some_and(|max| bytes > max)
    };
    if !is_over(count, bytes) {
        return None;
    }
    let mut last = None;
    for item in queue.index.ready().take(at_once) {
        if !is_over(count, bytes) {
            break;
        }
        count -= 1;
        bytes -= item.extent.body_bytes;
        last = Some(item.sequence);
    }
    last
}

/// The first place that is not too old: what came an age ago goes now, everything before the
/// millisecond that follows.
fn first_young(queue: &Queue, now: u64) -> Option<Sequence> {
    let age_max = queue.store.as_deref()?.retention.age_max?;
    Some(place_at(now.saturating_sub(age_max) + 1))
}
