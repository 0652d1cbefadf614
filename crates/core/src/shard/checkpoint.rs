//! A shard's whole durable state as facts, from which the same state is made again.

use std::collections::BTreeMap;

use menzil_model::fact::{Binding, Destination, Entries, Entry, Origin, Stored};
use menzil_model::{Fact, QueueId, Sequence};

use super::Shard;
use crate::log::Log;
use crate::store::MessageId;

impl Shard {
    /// Hands every fact of the durable state to `sink`, in an order that [`Shard::apply`]
    /// takes. It stands for the state at the last index the log gave out; call
    /// [`Shard::finish`] first.
    pub fn checkpoint(&self, sink: &mut dyn FnMut(&Fact)) {
        sink(&Fact::VirtualHostCreated {
            name: self.name.clone(),
        });
        sink(&Fact::Numbering {
            exchange: self.next_exchange,
            queue: self.next_queue,
        });
        let mut exchanges: Vec<_> = self
            .topology
            .exchanges()
            .filter(|exchange| exchange.durable)
            .collect();
        exchanges.sort_unstable_by_key(|exchange| exchange.id);
        for exchange in &exchanges {
            sink(&Fact::ExchangeDeclared((*exchange).clone()));
        }
        let queues = self.durable_queues();
        for id in &queues {
            let Some(queue) = self.queues.get(id) else {
                continue;
            };
            sink(&Fact::QueueDeclared(queue.definition.clone()));
            sink(&Fact::QueueState {
                queue: *id,
                next: Sequence(queue.next_sequence),
                below: Sequence(queue.mark.below()),
            });
        }
        for exchange in &exchanges {
            let from = self.topology.bindings_from(exchange.id);
            let mut bindings: Vec<_> = from
                .filter(|b| self.is_durable_destination(&b.destination))
                .collect();
            bindings.sort_unstable_by(|a, b| order_of(a).cmp(&order_of(b)));
            for binding in bindings {
                sink(&Fact::Bound(binding.clone()));
            }
        }
        self.checkpoint_messages(&queues, sink);
    }

    fn checkpoint_messages(&self, queues: &[QueueId], sink: &mut dyn FnMut(&Fact)) {
        let mut places: BTreeMap<(Origin, MessageId), Entries> = BTreeMap::new();
        for id in queues {
            let Some(queue) = self.queues.get(id) else {
                continue;
            };
            for item in queue.index.items().filter(|item| item.durable) {
                places
                    .entry((self.store.origin(item.message), item.message))
                    .or_default()
                    .push(Entry {
                        queue: *id,
                        sequence: item.sequence,
                        expires_at: item.expires_at,
                        durable: true,
                    });
            }
        }
        for ((origin, message), entries) in places {
            sink(&Fact::Stored(Stored {
                origin,
                extent: self.store.extent(message),
                entries,
            }));
        }
    }

    fn durable_queues(&self) -> Vec<QueueId> {
        let mut queues: Vec<_> = self
            .queues
            .iter()
            .filter(|(_, queue)| queue.definition.durable)
            .map(|(id, _)| *id)
            .collect();
        queues.sort_unstable();
        queues
    }

    fn is_durable_destination(&self, destination: &Destination) -> bool {
        match destination {
            Destination::Queue(id) => self
                .queues
                .get(id)
                .is_some_and(|queue| queue.definition.durable),
            Destination::Exchange(id) => self
                .topology
                .exchange_by_id(*id)
                .is_some_and(|exchange| exchange.durable),
        }
    }

    /// About how many bytes a checkpoint takes, rather more than less; costs one look at each
    /// queue.
    pub fn checkpoint_bytes(&self) -> u64 {
        let entries: u64 = self.queues.values().map(|queue| queue.index.len()).sum();
        let objects = self.queues.len() + self.topology.exchanges().count();
        let objects = objects as u64 + self.topology.binding_count() as u64;
        let arguments: usize = self
            .queues
            .values()
            .map(|queue| queue.definition.arguments.as_bytes().len())
            .sum();
        4096 + 24 * self.store.messages()
            + 24 * entries
            + 320 * objects
            + arguments as u64
            + self.topology.arguments_bytes()
    }

    /// The records that the state needs, messages and chunks of their bodies: first index, count
    /// of consecutive indexes and references of each. Several calls for one index add up. Call it
    /// once, after the last [`Shard::apply`] of recovery.
    pub fn needs(&self, each: &mut dyn FnMut(u64, u64, u32)) {
        for index in self.store.live() {
            each(index, 1, 1);
        }
    }

    /// Before a clean stop: writes how far deliveries really went, so that after the restart
    /// nothing is flagged redelivered that never went out.
    pub fn stop(&mut self, log: &mut dyn Log) {
        self.finish(log);
        for id in self.durable_queues() {
            let exact = self.queues.get(&id).and_then(|queue| queue.mark.exact());
            if let Some(below) = exact {
                let fact = Fact::Delivering { queue: id, below };
                let index = log.append_lazy(&fact);
                self.apply(index, fact);
            }
        }
    }
}

/// An order of one exchange's bindings that does not depend on how they came about.
fn order_of(binding: &Binding) -> (Destination, &[u8], &[u8]) {
    (
        binding.destination,
        binding.key.as_bytes(),
        binding.arguments.as_bytes(),
    )
}
