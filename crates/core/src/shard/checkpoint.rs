//! A shard's whole durable state as facts, from which the same state is made again.
//!
//! It is frozen while the shard is held, which shares what is large and copies the little that
//! changes all the time, and written out when it is not. Where there are many queues most of them
//! are copied before, some at a time ([`Draft`]); those that change after that are copied again.

use menzil_model::fact::{
    Binding, Destination, ExchangeDefinition, Packed, Packing, PolicyDefinition, QueueDefinition,
    Ranges, Returned, StoredEntry, Why,
};
use menzil_model::{ExchangeId, Fact, Map, Name, QueueId, Sequence, Set};

use super::Shard;
use crate::log::Log;
use crate::queue::{Form, FrozenWindow, Item, Queue};
use crate::topology::FrozenBindings;

/// The durable state at one moment.
#[derive(Debug)]
pub struct Frozen {
    name: Name,
    next_exchange: u64,
    next_queue: u64,
    policies: Vec<PolicyDefinition>,
    exchanges: Vec<ExchangeDefinition>,
    queues: Vec<Option<FrozenQueue>>,
    bindings: FrozenBindings,
    page_entries: usize,
}

/// What has been copied for a checkpoint that is being made.
#[derive(Debug, Default)]
pub struct Draft {
    /// By their places; `None` where there is no durable one.
    queues: Vec<Option<FrozenQueue>>,
    turns: usize,
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
        for exchange in &self.exchanges {
            sink(&Fact::ExchangeDeclared(exchange.clone()));
        }
        let mut queues: Vec<_> = self.queues.into_iter().flatten().collect();
        queues.sort_unstable_by_key(|queue| queue.definition.id);
        let exchanges = self.exchanges.iter();
        let exchanges: Map<_, _> = exchanges.map(|exchange| (exchange.id, exchange)).collect();
        let ids: Set<_> = queues.iter().map(|queue| queue.definition.id).collect();
        for queue in queues {
            queue.write(self.page_entries, sink);
        }
        let is_durable = |destination: &Destination| match destination {
            Destination::Queue(id) => ids.contains(id),
            Destination::Exchange(id) => exchanges.contains_key(id),
        };
        let mut bindings: Vec<_> = self.bindings.between(&exchanges, is_durable).collect();
        bindings.sort_unstable_by(|a, b| order_of(a).cmp(&order_of(b)));
        for (_, binding) in bindings {
            sink(&Fact::Bound(binding.clone()));
        }
    }
}

impl FrozenQueue {
    /// `None` of a queue that does not survive a restart.
    fn of(queue: &Queue) -> Option<Self> {
        let (pages, plain, packed_tail) = queue.index.freeze();
        queue.definition.durable.then(|| Self {
            definition: queue.definition.clone(),
            next: Sequence(queue.next_sequence),
            below: queue.mark.below().collect(),
            pages,
            plain,
            packed_tail,
            returned: queue.freeze_returned(),
            dying: queue.freeze_dying(),
            window: queue.freeze_window(),
        })
    }

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
        Form::Packed(page) => page.packed(),
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
        self.frozen(self.queues.values().map(FrozenQueue::of).collect())
    }

    /// Begins a checkpoint: call [`Shard::copy_queues`] as long as it asks for it, with other work
    /// between, then [`Shard::freeze_draft`].
    pub fn draft(&mut self) -> Draft {
        self.queues.watch();
        Draft::default()
    }

    /// Copies some queues. True where it is worth while to copy more before all is frozen.
    pub fn copy_queues(&mut self, draft: &mut Draft) -> bool {
        for _ in 0..QUEUES_AT_ONCE {
            if !self.copy_queue(draft) {
                return false;
            }
        }
        draft.turns += 1;
        // Queues may change as fast as they are copied.
        let turns_max = 2 * self.queues.place_count() / QUEUES_AT_ONCE;
        self.queues.uncopied_count() > QUEUES_AT_ONCE && draft.turns <= turns_max
    }

    fn copy_queue(&mut self, draft: &mut Draft) -> bool {
        let Some((at, queue)) = self.queues.next_uncopied() else {
            return false;
        };
        let copy = queue.and_then(FrozenQueue::of);
        match draft.queues.get_mut(at) {
            Some(place) => *place = copy,
            None => draft.queues.push(copy),
        }
        true
    }

    /// As [`Shard::freeze`], with what the draft has; only what changed since is copied.
    pub fn freeze_draft(&mut self, mut draft: Draft) -> Frozen {
        while self.copy_queue(&mut draft) {}
        self.queues.end_watch();
        self.frozen(draft.queues)
    }

    fn frozen(&self, queues: Vec<Option<FrozenQueue>>) -> Frozen {
        let exchanges = self.topology.exchanges();
        Frozen {
            name: self.name.clone(),
            next_exchange: self.next_exchange,
            next_queue: self.next_queue,
            policies: self.policies.all().cloned().collect(),
            exchanges: exchanges.filter(|one| one.durable).cloned().collect(),
            queues,
            bindings: self.topology.freeze_bindings(),
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

    /// About how many bytes a checkpoint takes, rather more than less.
    pub fn checkpoint_bytes(&self) -> u64 {
        let mut bytes = self.checkpoint_bytes_of_topology();
        let mut from = 0;
        while let Some(of_some) = self.checkpoint_bytes_of_queues(from) {
            bytes += of_some;
            from += QUEUES_LOOKED_AT;
        }
        bytes
    }

    /// Of [`Shard::checkpoint_bytes`] the part of [`QUEUES_LOOKED_AT`] queues from a place on;
    /// `None` past the last one.
    pub fn checkpoint_bytes_of_queues(&self, from: usize) -> Option<u64> {
        let some = self.queues.some(from, QUEUES_LOOKED_AT)?;
        let bytes = some.map(|queue| {
            let arguments = queue.definition.arguments.as_bytes().len() as u64;
            let noted = SEEN_BYTES * queue.keys_remembered() + DYING_BYTES * queue.dying_count();
            arguments + queue.index.packed_bytes() + noted
        });
        Some(bytes.sum())
    }

    /// Of [`Shard::checkpoint_bytes`] the part that looks at no queue.
    pub fn checkpoint_bytes_of_topology(&self) -> u64 {
        let objects = self.queues.len() + self.topology.exchange_count();
        let objects = objects as u64 + self.topology.binding_count() as u64;
        let policies: usize = self
            .policies
            .all()
            .map(|policy| 320 + policy.pattern.len() + policy.definition.as_bytes().len())
            .sum();
        4096 + 320 * objects + self.topology.arguments_bytes() + policies as u64
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

/// Queues that are copied at once for a draft.
const QUEUES_AT_ONCE: usize = 500;

/// Queues that one step of [`Shard::checkpoint_bytes`] looks at.
pub const QUEUES_LOOKED_AT: usize = 5000;

/// Bytes of a key that a queue remembers.
const SEEN_BYTES: u64 = 20;

/// Bytes of an entry that waits to be dead-lettered, mostly.
const DYING_BYTES: u64 = 16;

/// An order of bindings that does not depend on how they came about, unless that says something.
fn order_of<'a>(
    (rank, binding): &(u64, &'a Binding),
) -> (ExchangeId, Destination, u64, &'a [u8], &'a [u8]) {
    (
        binding.source,
        binding.destination,
        *rank,
        binding.key.as_bytes(),
        binding.arguments.as_bytes(),
    )
}
