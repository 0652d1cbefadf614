//! What facts do. Nothing here decides or counts numbers out: a fact has them all. The same
//! code runs when a fact is made and when it is read back.

use menzil_model::fact::{Entry, Origin, Published, QueueDefinition, Range, Stored, Why};
use menzil_model::{Fact, QueueId, Sequence};

use super::Shard;
use crate::queue::{Item, Queue, Settings};

impl Shard {
    /// Applies a fact; `index` is that of its record, 0 where it has none. For recovery the
    /// driver calls it with the facts of a checkpoint and of the records after it, in order.
    pub fn apply(&mut self, index: u64, fact: Fact) {
        let Fact::Group(facts) = fact else {
            self.apply_part(Origin { index, part: 0 }, fact);
            return;
        };
        for (part, fact) in (0..).zip(facts) {
            self.apply_part(Origin { index, part }, fact);
        }
    }

    fn apply_part(&mut self, origin: Origin, fact: Fact) {
        match fact {
            Fact::VirtualHostCreated { name } => self.name = name,
            Fact::ExchangeDeclared(exchange) => {
                self.next_exchange = self.next_exchange.max(exchange.id.0 + 1);
                self.topology.declare_exchange(exchange);
            }
            Fact::ExchangeDeleted { id } => self.topology.delete_exchange(id),
            Fact::QueueDeclared(queue) => self.apply_queue_declared(queue),
            Fact::QueueDeleted { id } => self.apply_queue_deleted(id),
            Fact::Bound(binding) => {
                self.topology.bind(binding);
            }
            Fact::Unbound(binding) => {
                self.topology.unbind(&binding);
            }
            Fact::Chunk(_) => {}
            Fact::Published(published) => self.apply_published(origin, published),
            Fact::Stored(stored) => self.apply_stored(stored),
            Fact::Settled { queue, ranges, why } => {
                for range in ranges {
                    self.apply_settled(queue, range, why);
                }
            }
            Fact::Delivering { queue, below } => self.apply_delivering(origin.index, queue, below),
            Fact::Group(_) => debug_assert!(false, "groups do not nest"),
            Fact::Numbering { exchange, queue } => {
                self.next_exchange = self.next_exchange.max(exchange);
                self.next_queue = self.next_queue.max(queue);
            }
            Fact::QueueState { queue, next, below } => {
                if let Some(queue) = self.queues.get_mut(&queue) {
                    queue.next_sequence = next.0;
                    queue.mark.advance(below.0, 0);
                }
            }
        }
    }

    fn apply_queue_declared(&mut self, definition: QueueDefinition) {
        let id = definition.id;
        if self.queues.contains_key(&id) {
            return;
        }
        self.next_queue = self.next_queue.max(id.0 + 1);
        let settings = Settings::parse(&definition.name, &definition.arguments).unwrap_or_default();
        self.topology
            .declare_queue_name(definition.name.clone(), id);
        self.queues.insert(id, Queue::new(definition, settings));
    }

    fn apply_queue_deleted(&mut self, id: QueueId) {
        let Some(queue) = self.queues.remove(&id) else {
            return;
        };
        self.topology.delete_queue(id);
        if let Some(at) = queue.timer {
            self.timers.remove(&(at, id));
        }
        for item in queue.index.items() {
            self.store.release(item.message);
        }
    }

    fn apply_published(&mut self, origin: Origin, published: Published) {
        let Published {
            message,
            extent,
            entries,
        } = published;
        let known = entries
            .iter()
            .filter(|entry| self.queues.contains_key(&entry.queue));
        let references = u32::try_from(known.count()).unwrap_or(u32::MAX);
        let durable = entries.iter().any(|entry| entry.durable);
        if references == 0 {
            if durable {
                self.store.forget(origin, &extent);
            }
            return;
        }
        let body_bytes = extent.body_bytes;
        let origin = if durable { origin } else { Origin::default() };
        let message = self.store.insert(message, extent, origin, references);
        for entry in &entries {
            self.enter(entry, message, body_bytes);
        }
    }

    fn apply_stored(&mut self, stored: Stored) {
        let Stored {
            origin,
            extent,
            entries,
        } = stored;
        self.apply_published(
            origin,
            Published {
                message: None,
                extent,
                entries,
            },
        );
    }

    fn enter(&mut self, entry: &Entry, message: crate::store::MessageId, body_bytes: u64) {
        let Some(queue) = self.queues.get_mut(&entry.queue) else {
            return;
        };
        queue.next_sequence = queue.next_sequence.max(entry.sequence.0 + 1);
        queue.counters.entered += 1;
        queue.index.insert(Item {
            sequence: entry.sequence,
            message,
            body_bytes,
            expires_at: entry.expires_at,
            durable: entry.durable,
            redelivered: false,
        });
    }

    fn apply_settled(&mut self, queue: QueueId, range: Range, why: Why) {
        let Some(queue) = self.queues.get_mut(&queue) else {
            return;
        };
        let (store, queue_counters) = (&mut self.store, &mut queue.counters);
        let counters = &mut self.counters;
        queue
            .index
            .remove_range(range.first, range.last, &mut |item| {
                store.release(item.message);
                let (of_queue, of_shard) = match why {
                    Why::Acknowledged => {
                        (&mut queue_counters.acknowledged, &mut counters.acknowledged)
                    }
                    Why::Rejected => (&mut queue_counters.rejected, &mut counters.rejected),
                    Why::Expired => (&mut queue_counters.expired, &mut counters.expired),
                    Why::Overflow => (&mut queue_counters.overflowed, &mut counters.overflowed),
                    Why::Damaged => (&mut queue_counters.damaged, &mut counters.damaged),
                    Why::Purged => {
                        queue_counters.purged += 1;
                        return;
                    }
                };
                *of_queue += 1;
                *of_shard += 1;
            });
    }

    /// Settles one entry: applied at once, written with others before the next fact.
    pub(super) fn settle(&mut self, queue: QueueId, sequence: Sequence, durable: bool, why: Why) {
        self.apply_settled(
            queue,
            Range {
                first: sequence,
                last: sequence,
            },
            why,
        );
        if durable {
            self.settling.add(queue, sequence, why);
        }
    }

    fn apply_delivering(&mut self, index: u64, queue: QueueId, below: Sequence) {
        let Some(queue) = self.queues.get_mut(&queue) else {
            return;
        };
        queue.mark.advance(below.0, index);
    }
}
