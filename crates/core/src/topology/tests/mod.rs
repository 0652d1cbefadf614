//! The topology against a naive twin, and the field cases of routing.

mod alternate;
mod cases;
mod cost;
mod explain;
mod naive;
mod single;
mod twin;

use menzil_model::fact::{Binding, Destination, ExchangeDefinition, ExchangeKind};
use menzil_model::{ExchangeId, Name, Properties, QueueId, Table};

use super::{Routed, RoutingKeys, Targets, Topology};

fn exchange(id: u64, name: &'static str, kind: ExchangeKind) -> ExchangeDefinition {
    ExchangeDefinition {
        id: ExchangeId(id),
        name: Name::from(name),
        kind,
        durable: true,
        auto_delete: false,
        internal: false,
        arguments: Table::empty(),
    }
}

fn to_queue(source: u64, queue: u64, key: &str, arguments: Table) -> Binding {
    Binding {
        source: ExchangeId(source),
        destination: Destination::Queue(QueueId(queue)),
        key: Name::new(key.as_bytes()).unwrap(),
        arguments,
    }
}

fn to_exchange(source: u64, destination: u64, key: &str) -> Binding {
    Binding {
        source: ExchangeId(source),
        destination: Destination::Exchange(ExchangeId(destination)),
        key: Name::new(key.as_bytes()).unwrap(),
        arguments: Table::empty(),
    }
}

fn with_headers(headers: Option<&Table>) -> Properties<'_> {
    Properties {
        headers: headers.map(Table::as_bytes),
        ..Properties::default()
    }
}

/// The ids of the queues that a message reaches, in order of id.
fn reached(topology: &Topology, from: u64, key: &str, headers: Option<&Table>) -> Vec<u64> {
    let mut targets = Targets::new();
    let keys = RoutingKeys::one(key.as_bytes());
    let properties = with_headers(headers);
    let routed = topology.route(ExchangeId(from), &keys, &properties, &mut targets);
    assert_eq!(routed == Routed::Nowhere, targets.queues().is_empty());
    let mut queues: Vec<u64> = targets.queues().iter().map(|queue| queue.0).collect();
    queues.sort_unstable();
    queues
}
