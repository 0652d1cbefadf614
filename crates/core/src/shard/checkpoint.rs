//! A shard's whole durable state as facts, from which the same state is made again.
//!
//! It is frozen while the shard is held, which shares what is large and copies the little that
//! changes all the time, and written out when it is not.

use menzil_model::fact::{
    Binding, Destination, ExchangeDefinition, Packed, Packing, PolicyDefinition, QueueDefinition,
    Ranges, Returned, StoredEntry, Why,
};
use menzil_model::{ExchangeId, Fact, Name, QueueId, Sequence};

use super::Shard;
use crate::log::Log;
use crate::queue::{Form, FrozenWindow, Item};

/// The durable state at one moment.
#[derive(Debug)]
pub struct Frozen {
    name: Name,
    next_exchange: u64,
    next_queue: u64,
    policies: Vec<PolicyDefinition>,
    exchanges: Vec<ExchangeDefinition>,
    queues: Vec<FrozenQueue>,
    /// With their places among those between the same two.
    bindings: Vec<(usize, Binding)>,
    page_entries: usize,
}

#[derive(Debug)]
struct FrozenQueue {
    definition: QueueDefinition,
    next: Sequence,
    /// Of each class of places.
    below: Vec<Sequence>,
    pages: Vec<Form>,
    plain: Vec<Item>,
    packed_tail: Packing,
    returned: Vec<Returned>,
    dying: Vec<(Why, Ranges)>,
    window: Option<FrozenWindow>,
}

impl Frozen {
    /// Hands every fact to `sink`, in an order that [`Shard::apply`] takes.
    pub fn write(mut self, sink: &mut dyn FnMut(&Fact)) {
        sink(&Fact::VirtualHostCreated { name: self.name });
        sink(&Fact::Numbering {
            exchange: self.next_exchange,
            queue: self.next_queue,
        });
        // Before what they are for, which needs them when it is declared.
        for policy in self.policies {
            sink(&Fact::PolicySet(policy));
        }
        self.exchanges.sort_unstable_by_key(|exchange| exchange.id);
        for exchange in self.exchanges {
            sink(&Fact::ExchangeDeclared(exchange));
        }
        self.queues
            .sort_unstable_by_key(|queue| queue.definition.id);
        for queue in self.queues {
            queue.write(self.page_entries, sink);
        }
        self.bindings
            .sort_unstable_by(|a, b| order_of(a).cmp(&order_of(b)));
        for (_, binding) in self.bindings {
            sink(&Fact::Bound(binding));
        }
    }
}

impl FrozenQueue {
    /// Declares the queue, if it is no store, and then says what is in it.
    fn write(self, page_entries: usize, sink: &mut dyn FnMut(&Fact)) {
        let queue = self.definition.id;
        // A store is there with its exchange.
        if !queue.is_store() {
            sink(&Fact::QueueDeclared(self.definition));
        }
        let mut below = self.below.into_iter();
        sink(&Fact::QueueState {
            queue,
            next: self.next,
            below: below.next().unwrap_or(Sequence(0)),
        });
        for below in below {
            sink(&Fact::Delivering { queue, below });
        }
        let mut put = |entries: Option<Packed>| {
            if let Some(entries) = entries {
                sink(&Fact::Page { queue, entries });
            }
        };
        let mut pages = self.pages.into_iter().filter_map(pack).peekable();
        let first = pages.peek().map(|page| page.summary().first);
        let split = first.map_or(self.plain.len(), |first| {
            self.plain.partition_point(|item| item.sequence < first)
        });
        let (before, after) = self.plain.split_at_checked(split).unwrap_or_default();
        for plain in before.chunks(page_entries) {
            put(Packed::pack(plain.iter().map(|item| item.to_stored())));
        }
        for page in pages {
            put(Some(page));
        }
        for plain in after.chunks(page_entries) {
            put(Packed::pack(plain.iter().map(|item| item.to_stored())));
        }
        put(self.packed_tail.pack());
        for entries in self.returned.chunks(RETURNED_AT_ONCE) {
            let entries = entries.to_vec();
            sink(&Fact::Returned { queue, entries });
        }
        for (why, ranges) in self.dying {
            sink(&Fact::Dying { queue, why, ranges });
        }
        if let Some(window) = self.window {
            window.write(|keys| sink(&Fact::Seen { queue, keys }));
        }
    }
}

fn pack(page: Form) -> Option<Packed> {
    match page {
        Form::Packed(shelved) => Some(shelved.packed()),
        Form::Plain(entries) => {
            let durable = entries.iter().filter(|held| held.item.durable);
            let stored: Vec<StoredEntry> = durable.map(|held| held.item.to_stored()).collect();
            Packed::pack(stored.into_iter())
        }
    }
}

/// Entries in one fact.
const RETURNED_AT_ONCE: usize = 1000;

impl Shard {
    /// The durable state as it is now, at the last index the log gave out; call
    /// [`Shard::finish`] first.
    pub fn freeze(&self) -> Frozen {
        let exchanges: Vec<ExchangeDefinition> = self
            .topology
            .exchanges()
            .filter(|exchange| exchange.durable)
            .cloned()
            .collect();
        let bindings = exchanges
            .iter()
            .flat_map(|exchange| self.topology.ranked_bindings_from(exchange.id))
            .filter(|(_, binding)| self.is_durable_destination(&binding.destination))
            .map(|(rank, binding)| (rank, binding.clone()))
            .collect();
        let durable = self.queues.values().filter(|q| q.definition.durable);
        let queues = durable.map(|queue| {
            let (pages, plain, packed_tail) = queue.index.freeze();
            FrozenQueue {
                definition: queue.definition.clone(),
                next: Sequence(queue.next_sequence),
                below: queue.mark.below().collect(),
                pages,
                plain,
                packed_tail,
                returned: queue.freeze_returned(),
                dying: queue.freeze_dying(),
                window: queue.freeze_window(),
            }
        });
        Frozen {
            name: self.name.clone(),
            next_exchange: self.next_exchange,
            next_queue: self.next_queue,
            policies: self.policies.all().cloned().collect(),
            exchanges,
            queues: queues.collect(),
            bindings,
            page_entries: self.settings.index_page_entries.max(1),
        }
    }

    /// The records that entries need: the first of some consecutive ones, how many, and by how
    /// many entries each. Several calls for one record add up. It is where the journal's count
    /// starts after recovery, before [`Shard::start`]; from there on releases keep it.
    pub fn needs(&self, each: &mut dyn FnMut(u64, u64, u32)) {
        for queue in self.queues.values() {
            queue.index.needs(&mut |first, count| each(first, count, 1));
        }
    }

    pub(super) fn durable_queues(&self) -> Vec<QueueId> {
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
        let entries: u64 = self
            .queues
            .values()
            .map(|queue| {
                let seen = SEEN_BYTES * queue.keys_remembered();
                queue.index.packed_bytes() + seen + DYING_BYTES * queue.dying_count()
            })
            .sum();
        let objects = self.queues.len() + self.topology.exchanges().count();
        let objects = objects as u64 + self.topology.binding_count() as u64;
        let arguments: usize = self
            .queues
            .values()
            .map(|queue| queue.definition.arguments.as_bytes().len())
            .sum();
        let policies: usize = self
            .policies
            .all()
            .map(|policy| 320 + policy.pattern.len() + policy.definition.as_bytes().len())
            .sum();
        let arguments = arguments as u64 + self.topology.arguments_bytes();
        4096 + entries + 320 * objects + arguments + policies as u64
    }

    /// Before a clean stop: writes how far deliveries really went, so that after the restart
    /// nothing is flagged redelivered that never went out.
    pub fn stop(&mut self, log: &mut dyn Log) {
        self.note_dying();
        self.finish(log);
        for id in self.durable_queues() {
            let queue = self.queues.get(&id);
            let exact = queue.map(|queue| queue.mark.exact().collect::<Vec<_>>());
            for below in exact.unwrap_or_default() {
                let fact = Fact::Delivering { queue: id, below };
                let index = log.append_lazy(&fact);
                self.apply(index, fact);
            }
        }
    }
}

/// Bytes of a key that a queue remembers.
const SEEN_BYTES: u64 = 20;

/// Bytes of an entry that waits to be dead-lettered, mostly.
const DYING_BYTES: u64 = 16;

/// An order of bindings that does not depend on how they came about, unless that says something.
fn order_of((rank, binding): &(usize, Binding)) -> (ExchangeId, Destination, usize, &[u8], &[u8]) {
    (
        binding.source,
        binding.destination,
        *rank,
        binding.key.as_bytes(),
        binding.arguments.as_bytes(),
    )
}
