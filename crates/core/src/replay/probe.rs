//! Whether a binding that is not there yet would take a message: an exchange like the one it is
//! to begin at, with this binding, and with those that have a say in it.

use menzil_model::fact::{Binding, Destination, ExchangeDefinition, ExchangeKind};
use menzil_model::{Name, Properties, QueueId, Table};

use crate::topology::{RoutingKeys, Targets, Topology};

/// Stands behind a destination that is an exchange.
const BEHIND: QueueId = QueueId(u64::MAX);

/// See the module.
#[derive(Debug)]
pub(crate) struct Probe {
    topology: Topology,
    source: ExchangeDefinition,
    target: QueueId,
    targets: Targets,
}

/// Whether every message matches every binding of an exchange of that kind.
fn takes_all(kind: ExchangeKind) -> bool {
    match kind {
        ExchangeKind::Fanout | ExchangeKind::RecentHistory => true,
        ExchangeKind::Direct
        | ExchangeKind::Delayed
        | ExchangeKind::Topic
        | ExchangeKind::Headers
        | ExchangeKind::ConsistentHash
        | ExchangeKind::ModulusHash
        | ExchangeKind::Random
        | ExchangeKind::LocalRandom => false,
    }
}

/// Whether other bindings of the exchange have a say in where a message goes.
fn is_shared(kind: ExchangeKind) -> bool {
    match kind {
        ExchangeKind::ConsistentHash
        | ExchangeKind::ModulusHash
        | ExchangeKind::Random
        | ExchangeKind::LocalRandom => true,
        ExchangeKind::Direct
        | ExchangeKind::Delayed
        | ExchangeKind::Topic
        | ExchangeKind::Headers
        | ExchangeKind::Fanout
        | ExchangeKind::RecentHistory => false,
    }
}

impl Probe {
    /// `None` where every message matches. `name_of` tells the names of destinations.
    pub(crate) fn new(
        topology: &Topology,
        source: &ExchangeDefinition,
        binding: &Binding,
        name_of: impl Fn(Destination) -> Name,
    ) -> Option<Self> {
        if takes_all(source.routes_as()) {
            return None;
        }
        let target = match binding.destination {
            Destination::Queue(queue) => queue,
            Destination::Exchange(_) => BEHIND,
        };
        let mut probe = Self {
            topology: Topology::default(),
            // An alternate exchange is not declared here, so nothing leads there.
            source: source.clone(),
            target,
            targets: Targets::new(),
        };
        probe.topology.declare_exchange(probe.source.clone());
        if is_shared(source.routes_as()) {
            let mut others: Vec<_> = topology.ranked_bindings_from(source.id).collect();
            others.sort_by_key(|(rank, _)| *rank);
            for (_, other) in others {
                probe.add(other, &name_of);
            }
        }
        probe.add(binding, &name_of);
        if let Destination::Exchange(exchange) = binding.destination {
            probe.topology.declare_queue_name(Name::empty(), BEHIND);
            probe.topology.bind(Binding {
                source: exchange,
                destination: Destination::Queue(BEHIND),
                key: Name::empty(),
                arguments: Table::empty(),
            });
        }
        Some(probe)
    }

    fn add(&mut self, binding: &Binding, name_of: &impl Fn(Destination) -> Name) {
        let name = name_of(binding.destination);
        match binding.destination {
            Destination::Queue(queue) => self.topology.declare_queue_name(name, queue),
            Destination::Exchange(id) => {
                let fanout = ExchangeDefinition {
                    id,
                    name,
                    kind: ExchangeKind::Fanout,
                    arguments: Table::empty(),
                    ..self.source.clone()
                };
                self.topology.declare_exchange(fanout);
            }
        }
        self.topology.bind(binding.clone());
    }

    /// Whether the binding takes the message.
    pub(crate) fn takes(&mut self, keys: &RoutingKeys<'_>, properties: &Properties<'_>) -> bool {
        let source = self.source.id;
        let _routed = self
            .topology
            .route(source, keys, properties, &mut self.targets);
        self.targets.queues().contains(&self.target)
    }
}
