//! One publish through the topology, from its exchange to the set of its queues.
//!
//! The walk sees one state of the topology, since nothing else has it meanwhile. Each exchange
//! is visited once, in the order first reached, so cycles end. The alternate exchange is asked
//! where an exchange itself has no destination for the message; a destination that is an
//! exchange counts, whatever becomes of the message there.

use menzil_model::fact::Destination;
use menzil_model::{ExchangeId, Properties, QueueId, Value};

use super::Topology;
use super::carbon_copy::RoutingKeys;
use super::chance::Chance;
use super::index::{End, Index, Scratch};
use super::marks::Marks;
use super::point::Exchange;

/// Whether a message found a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Routed {
    /// One at least.
    Somewhere,
    /// None: it is dropped, or returned if mandatory.
    Nowhere,
}

/// What the way of a message depends on, beside the topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grounds {
    /// Its exchange, routing keys and headers.
    Keys,
    /// Its other properties too.
    Properties,
    /// Chance: the next one like it may go elsewhere.
    Chance,
}

/// Where a message goes, and the room that finding it out needs. Kept by the caller between
/// publishes, so that routing allocates nothing.
#[derive(Clone, Debug, Default)]
pub struct Targets {
    reached: Reached,
    scratch: Scratch,
}

/// What a walk has come to.
#[derive(Clone, Debug, Default)]
struct Reached {
    /// Numbers of the points that were reached.
    marks: Marks,
    queues: Vec<QueueId>,
    /// Stores of the exchanges that it passed, each once.
    stores: Vec<QueueId>,
    /// Stores of the exchanges that keep it until it is due, each once.
    delays: Vec<QueueId>,
    /// Numbers of the exchanges, in the order first reached.
    exchanges: Vec<usize>,
}

impl Targets {
    /// Without any.
    pub fn new() -> Self {
        Self::default()
    }

    /// The queues of the last message, each once, in the order first reached.
    pub fn queues(&self) -> &[QueueId] {
        &self.reached.queues
    }

    /// The stores of exchanges that are to keep the last message.
    pub fn stores(&self) -> &[QueueId] {
        &self.reached.stores
    }

    /// The stores of exchanges that are to keep the last message until it is due.
    pub fn delays(&self) -> &[QueueId] {
        &self.reached.delays
    }

    /// Whether the last message came to that exchange.
    pub(crate) fn has_passed(&self, topology: &Topology, exchange: ExchangeId) -> bool {
        let point = topology.numbers.get(&Destination::Exchange(exchange));
        point.is_some_and(|point| self.reached.marks.has(*point))
    }

    /// Lets what goes by chance go by other numbers than another's.
    pub fn seed(&mut self, seed: u64) {
        self.scratch.single.chance = Chance::from(seed);
    }

    /// What the way of the last message depends on beside the topology.
    pub fn grounds(&self) -> Grounds {
        let scratch = &self.scratch.single;
        match (scratch.by_chance, scratch.by_properties) {
            (true, _) => Grounds::Chance,
            (false, true) => Grounds::Properties,
            (false, false) => Grounds::Keys,
        }
    }

    /// How many bindings and nodes of topic and headers exchanges were looked at, over all
    /// messages.
    pub fn visits(&self) -> u64 {
        self.scratch.trie.visits + self.scratch.headers.visits
    }
}

impl Reached {
    fn clear(&mut self) {
        self.marks.clear();
        self.queues.clear();
        self.stores.clear();
        self.delays.clear();
        self.exchanges.clear();
    }

    fn add(&mut self, point: usize, destination: Destination) {
        if self.marks.add(point) {
            match destination {
                Destination::Queue(queue) => self.queues.push(queue),
                Destination::Exchange(_) => self.exchanges.push(point),
            }
        }
    }
}

impl Topology {
    /// Finds the queues of a message published to an exchange. The `BCC` of its headers is not
    /// looked at.
    pub fn route(
        &self,
        from: ExchangeId,
        keys: &RoutingKeys<'_>,
        properties: &Properties<'_>,
        targets: &mut Targets,
    ) -> Routed {
        self.walk(from, keys, properties, targets, false)
    }

    /// As [`Topology::route`], for a message that is to wait: at an exchange that delays it goes
    /// no further.
    pub fn route_delayed(
        &self,
        from: ExchangeId,
        keys: &RoutingKeys<'_>,
        properties: &Properties<'_>,
        targets: &mut Targets,
    ) -> Routed {
        self.walk(from, keys, properties, targets, true)
    }

    fn walk(
        &self,
        from: ExchangeId,
        keys: &RoutingKeys<'_>,
        properties: &Properties<'_>,
        targets: &mut Targets,
        waits: bool,
    ) -> Routed {
        let Targets { reached, scratch } = targets;
        reached.clear();
        scratch.single.by_chance = false;
        scratch.single.by_properties = false;
        let start = Destination::Exchange(from);
        if let Some(point) = self.numbers.get(&start) {
            reached.add(*point, start);
        }
        let mut next = 0;
        while let Some(point) = reached.exchanges.get(next).copied() {
            next += 1;
            let Some(exchange) = self.points.get(point).and_then(|point| point.exchange()) else {
                continue;
            };
            match exchange.delays.filter(|_| waits) {
                Some(store) => reached.delays.push(store),
                None => self.leave(exchange, keys, properties, reached, scratch),
            }
        }
        if reached.queues.is_empty() {
            Routed::Nowhere
        } else {
            Routed::Somewhere
        }
    }

    /// Adds the destinations of one exchange, or else its alternate.
    fn leave(
        &self,
        exchange: &Exchange,
        keys: &RoutingKeys<'_>,
        properties: &Properties<'_>,
        reached: &mut Reached,
        scratch: &mut Scratch,
    ) {
        if let Some(store) = exchange.store
            && !(exchange.has_history() && is_not_for_history(properties))
        {
            reached.stores.push(store);
        }
        let mut any = false;
        if matches!(exchange.index, Index::Default) {
            for key in keys.iter() {
                if let Some(point) = self.queue_names.get(key) {
                    any = true;
                    self.add_point(*point, reached);
                }
            }
        } else {
            let living = self.living();
            let index = &exchange.index;
            index.matches(keys, properties, living, scratch, |end: End| {
                any = true;
                reached.add(end.point, end.destination);
            });
        }
        if !any
            && let Some(name) = &exchange.alternate
            && let Some(point) = self.exchange_names.get(name)
        {
            self.add_point(*point, reached);
        }
    }

    fn add_point(&self, number: usize, reached: &mut Reached) {
        if let Some(point) = self.points.get(number) {
            reached.add(number, point.destination);
        }
    }
}

/// The message asks recent history not to keep it.
fn is_not_for_history(properties: &Properties<'_>) -> bool {
    let mut headers = properties.header_fields();
    headers.any(|(name, value)| name == NO_STORE && matches!(value, Value::Bool(true)))
}

const NO_STORE: &[u8] = b"x-recent-history-no-store";
