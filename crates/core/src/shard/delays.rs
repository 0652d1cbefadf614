//! Messages that wait in an exchange until they are due.
//!
//! They are entries of the exchange's store of delays, where a place tells when. How they go on is
//! in `due`.

use std::sync::Arc;

use menzil_model::fact::{Entries, ExchangeDefinition, Origin, Why};
use menzil_model::{Name, QueueId, Sequence, StorePurpose};

use super::Shard;
use super::due::settled;
use crate::effect::Effects;
use crate::log::Log;
use crate::queue::{Item, Order, Queue, time_of};
use crate::turn::Turn;

/// A message that waits in an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delay {
    /// Its number in the exchange.
    pub id: Sequence,
    /// When it is due, in milliseconds since 1970.
    pub due_at: u64,
    /// Bytes of its body.
    pub body_bytes: u64,
    /// It is due, and a queue refused it: it is tried again.
    pub refused: bool,
    /// Where the message is; index 0 where the journal does not have it.
    pub origin: Origin,
}

/// Messages that wait in one exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelaySummary {
    /// The exchange.
    pub exchange: Name,
    /// How many.
    pub count: u64,
    /// Of these, how many are due and wait for a queue that refused them.
    pub refused: u64,
    /// Bytes of their bodies.
    pub body_bytes: u64,
    /// When the first of them is due, in milliseconds since 1970.
    pub next_due_at: Option<u64>,
}

/// A delayed message that found no queue when it was due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stray {
    /// The exchange in which it waited.
    pub exchange: Name,
    /// Its routing key.
    pub routing_key: Name,
    /// When it was due, in milliseconds since 1970.
    pub due_at: u64,
    /// Bytes of its body.
    pub body_bytes: u64,
    /// A queue refused it; none was found where not.
    pub refused: bool,
}

impl Queue {
    /// Whether it is the store of an exchange that delays.
    #[inline]
    pub(crate) fn delays(&self) -> bool {
        self.order == Order::Due
    }
}

impl Shard {
    /// Makes the store of an exchange that delays.
    pub(super) fn apply_delays_declared(&mut self, exchange: &ExchangeDefinition) {
        let id = QueueId::store_of(exchange.id, StorePurpose::Delay);
        if exchange.delays() && !self.queues.contains_key(&id) {
            let (entries, shelf) = (self.settings.index_page_entries, Arc::clone(&self.shelf));
            let queue = Queue::store_of_delays(exchange, entries, shelf);
            self.queues.insert(id, queue);
        }
    }

    /// Counts the entries that wait in an exchange.
    pub(super) fn count_delayed(&mut self, entries: &Entries) {
        for entry in entries.iter().filter(|entry| entry.queue.is_store()) {
            let delays = self.queues.get(&entry.queue).is_some_and(Queue::delays);
            self.counters.delayed += u64::from(delays);
        }
    }

    pub(super) fn exchange_of_store(&self, id: QueueId) -> Name {
        let queue = self.queues.get(&id);
        queue.map_or_else(Name::empty, |queue| queue.definition.name.clone())
    }

    /// Delayed messages that found no queue, or one that refused them, since the last call; no more
    /// than some.
    pub fn take_strays(&mut self) -> Vec<Stray> {
        std::mem::take(&mut self.strays)
    }

    /// The exchanges in which messages wait, by name.
    pub fn delays(&self) -> Vec<DelaySummary> {
        let stores = self.queues.values().filter(|queue| queue.delays());
        let mut all: Vec<_> = stores
            .map(|queue| DelaySummary {
                exchange: queue.definition.name.clone(),
                count: queue.index.len(),
                refused: queue.index.unsettled_count(),
                body_bytes: queue.index.ready_bytes() + bytes_out(queue),
                next_due_at: next_due_at(queue),
            })
            .collect();
        all.sort_unstable_by(|a, b| a.exchange.cmp(&b.exchange));
        all
    }

    fn store_of_delays(&self, exchange: &[u8]) -> Option<(QueueId, &Queue)> {
        let exchange = self.topology.exchange(exchange)?;
        let id = QueueId::store_of(exchange.id, StorePurpose::Delay);
        Some((id, self.queues.get(&id)?))
    }

    /// Messages that wait in an exchange, behind the one of that number, in the order in which
    /// they are due; at most `count`. `None` where the exchange does not delay.
    pub fn list_delays(
        &self,
        exchange: &[u8],
        after: Sequence,
        count: usize,
    ) -> Option<Vec<Delay>> {
        let (_, queue) = self.store_of_delays(exchange)?;
        let delay = |item: &Item, refused| Delay {
            id: item.sequence,
            due_at: time_of(item.sequence),
            body_bytes: item.extent.body_bytes,
            refused,
            origin: item.origin,
        };
        let out = queue.index.all_out();
        let out = out.filter(|item| item.sequence > after);
        let mut delays: Vec<Delay> = out.map(|item| delay(item, true)).collect();
        let ready = queue.index.ready_after(after).take(count);
        delays.extend(ready.map(|item| delay(&item, false)));
        delays.sort_unstable_by_key(|delay| delay.id);
        delays.truncate(count);
        Some(delays)
    }

    /// Takes a message back that waits in an exchange. False where there is none of that number.
    pub fn cancel_delay(
        &mut self,
        now: u64,
        exchange: &[u8],
        number: Sequence,
        log: &mut dyn Log,
        effects: &mut dyn Effects,
    ) -> bool {
        let mut turn = Turn { now, log, effects };
        let Some((id, queue)) = self.store_of_delays(exchange) else {
            return false;
        };
        if !queue.index.has(number) {
            return false;
        }
        let durable = queue.is_durable();
        self.counters.delays_cancelled += 1;
        self.record_lazy(turn.log, settled(id, number, Why::Purged), durable);
        self.touch(id);
        self.settle_down(&mut turn);
        self.finish(turn.log);
        true
    }
}

fn bytes_out(queue: &Queue) -> u64 {
    let out = queue.index.all_out();
    out.map(|item| item.extent.body_bytes).sum()
}

fn next_due_at(queue: &Queue) -> Option<u64> {
    let out = queue.index.all_out().map(|item| item.sequence);
    let head = queue.index.head().map(|item| item.sequence);
    out.chain(head).min().map(time_of)
}
