//! Alternate exchanges.

use menzil_model::{TableBuilder, Value};

use super::*;

fn with_alternate(id: u64, name: &'static str, kind: ExchangeKind, to: &str) -> ExchangeDefinition {
    let arguments = TableBuilder::new()
        .field("alternate-exchange", Value::LongString(to.as_bytes()))
        .build();
    ExchangeDefinition {
        arguments,
        ..exchange(id, name, kind)
    }
}

fn topology(exchanges: impl IntoIterator<Item = ExchangeDefinition>) -> Topology {
    let mut topology = Topology::default();
    for definition in exchanges {
        topology.declare_exchange(definition);
    }
    for (id, name) in [(1, "q1"), (2, "q2")] {
        topology.declare_queue_name(Name::from(name), QueueId(id));
    }
    topology
}

#[test]
fn the_alternate_takes_what_the_exchange_itself_sends_nowhere() {
    let mut topology = topology([
        with_alternate(1, "main", ExchangeKind::Direct, "spare"),
        exchange(2, "spare", ExchangeKind::Fanout),
    ]);
    topology.bind(to_queue(1, 1, "known", Table::empty()));
    topology.bind(to_queue(2, 2, "", Table::empty()));
    assert_eq!(reached(&topology, 1, "known", None), [1]);
    assert_eq!(reached(&topology, 1, "other", None), [2]);
}

#[test]
fn a_bound_exchange_that_routes_nowhere_counts_as_a_destination() {
    let mut topology = topology([
        with_alternate(1, "main", ExchangeKind::Fanout, "spare"),
        exchange(2, "spare", ExchangeKind::Fanout),
        exchange(3, "empty", ExchangeKind::Direct),
    ]);
    topology.bind(to_queue(2, 2, "", Table::empty()));
    assert_eq!(reached(&topology, 1, "", None), [2]);
    topology.bind(to_exchange(1, 3, ""));
    assert!(reached(&topology, 1, "", None).is_empty());
    // So does the exchange itself, though the walk does not come back to it.
    topology.unbind(&to_exchange(1, 3, ""));
    topology.bind(to_exchange(1, 1, ""));
    assert!(reached(&topology, 1, "", None).is_empty());
}

#[test]
fn the_alternate_is_looked_up_by_name_for_each_message() {
    let mut topology = topology([with_alternate(1, "main", ExchangeKind::Direct, "spare")]);
    assert!(reached(&topology, 1, "k", None).is_empty());
    for id in [2, 3] {
        topology.declare_exchange(exchange(id, "spare", ExchangeKind::Fanout));
        topology.bind(to_queue(id, 2, "", Table::empty()));
        assert_eq!(reached(&topology, 1, "k", None), [2]);
        topology.delete_exchange(ExchangeId(id));
        assert!(reached(&topology, 1, "k", None).is_empty());
    }
}

#[test]
fn a_chain_of_alternates_may_end_at_the_default_exchange() {
    let topology = topology([
        exchange(0, "", ExchangeKind::Direct),
        with_alternate(1, "first", ExchangeKind::Topic, "second"),
        with_alternate(2, "second", ExchangeKind::Headers, "third"),
        with_alternate(3, "third", ExchangeKind::Fanout, ""),
    ]);
    assert_eq!(reached(&topology, 2, "q2", None), [2]);
    assert_eq!(reached(&topology, 3, "q1", None), [1]);
    assert!(reached(&topology, 1, "nothing", None).is_empty());
}

#[test]
fn alternates_in_a_circle_end() {
    let mut topology = topology([
        with_alternate(1, "a", ExchangeKind::Direct, "b"),
        with_alternate(2, "b", ExchangeKind::Direct, "a"),
        with_alternate(3, "c", ExchangeKind::Direct, "c"),
    ]);
    topology.bind(to_queue(1, 1, "k", Table::empty()));
    assert_eq!(reached(&topology, 2, "k", None), [1]);
    assert!(reached(&topology, 2, "l", None).is_empty());
    assert!(reached(&topology, 3, "l", None).is_empty());
    assert!(reached(&topology, 9, "l", None).is_empty());
}
