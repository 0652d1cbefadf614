//! Routing and removal cost by what matches, counted and not timed.

use menzil_model::{TableBuilder, Value};

use super::*;

const SIZES: [u64; 4] = [10, 100, 1000, 10_000];

/// Visits of one message at a headers exchange that has the bindings and one that matches.
fn headers_visits(bindings: impl Iterator<Item = Table>, message: &Table) -> u64 {
    let mut topology = Topology::default();
    topology.declare_exchange(exchange(1, "h", ExchangeKind::Headers));
    for (queue, arguments) in (0..).zip(bindings) {
        topology.declare_queue_name(
            Name::new(&queue.to_string().into_bytes()).unwrap(),
            QueueId(queue),
        );
        topology.bind(to_queue(1, queue, "", arguments));
    }
    let mut targets = Targets::new();
    let keys = RoutingKeys::one(b"");
    let properties = with_headers(Some(message));
    let routed = topology.route(ExchangeId(1), &keys, &properties, &mut targets);
    assert_eq!(routed, Routed::Somewhere);
    assert_eq!(targets.queues(), [QueueId(0)]);
    targets.visits()
}

fn pairs(mode: &str, pairs: &[(&str, u64)]) -> Table {
    let mut table = TableBuilder::new().field("x-match", Value::LongString(mode.as_bytes()));
    for (name, number) in pairs {
        table = table.field(name, Value::I64(i64::try_from(*number).unwrap()));
    }
    table.build()
}

#[test]
fn bindings_for_all_that_share_a_common_pair_are_not_looked_at() {
    let message = pairs("", &[("kind", 1), ("tenant", 0), ("noise", 3)]);
    let visits = SIZES.map(|size| {
        let bindings = (0..size).map(|n| pairs("all", &[("kind", 1), ("tenant", n)]));
        headers_visits(bindings, &message)
    });
    // The root, the common pair, the tenant.
    assert_eq!(visits, [3, 3, 3, 3]);
}

#[test]
fn bindings_on_a_grid_are_found_without_a_scan_of_a_row() {
    let message = pairs("", &[("a", 0), ("b", 0), ("c", 0)]);
    let visits = SIZES.map(|size| {
        let bindings =
            (0..size).map(|n| pairs("all", &[("a", n % 10), ("b", n / 10 % 10), ("c", n / 100)]));
        headers_visits(bindings, &message)
    });
    assert!(visits.iter().all(|visits| *visits <= 8), "{visits:?}");
}

#[test]
fn bindings_for_any_that_do_not_match_are_not_looked_at() {
    let message = pairs("", &[("tenant", 0), ("shop", 0)]);
    let visits = SIZES.map(|size| {
        let bindings = (0..size).map(|n| pairs("any", &[("tenant", n), ("shop", n)]));
        headers_visits(bindings, &message)
    });
    // One binding at each of its pairs, and the root of those for all.
    assert_eq!(visits, [3, 3, 3, 3]);
}

#[test]
fn headers_that_nobody_asks_for_cost_no_visit() {
    let names: Vec<String> = (0..500).map(|n| format!("h{n}")).collect();
    let mut flood: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), 1)).collect();
    flood.push(("tenant", 0));
    let message = pairs("", &flood);
    let bindings = (0..100).map(|n| pairs("all", &[("tenant", n)]));
    assert_eq!(headers_visits(bindings, &message), 2);
}

#[test]
fn a_topic_exchange_with_many_wildcards_is_bounded_through_the_whole_route() {
    let mut topology = Topology::default();
    topology.declare_exchange(exchange(1, "t", ExchangeKind::Topic));
    topology.declare_queue_name(Name::from("q"), QueueId(1));
    let pattern = "#.a.".repeat(60) + "#.z";
    topology.bind(to_queue(1, 1, &pattern, Table::empty()));
    let key = vec!["a"; 127].join(".");
    let keys = RoutingKeys::one(key.as_bytes());
    let mut targets = Targets::new();
    let routed = topology.route(ExchangeId(1), &keys, &Properties::default(), &mut targets);
    assert_eq!(routed, Routed::Nowhere);
    assert!(targets.visits() <= 127 * 123, "{}", targets.visits());
}

#[test]
fn bindings_of_many_queues_at_one_key_go_one_by_one() {
    // A removal that scanned the key's list would look at some 10^9 bindings here.
    let queues = 50_000;
    let mut topology = Topology::default();
    for (id, name, kind) in [
        (1, "d", ExchangeKind::Direct),
        (2, "f", ExchangeKind::Fanout),
        (3, "t", ExchangeKind::Topic),
        (4, "h", ExchangeKind::Headers),
    ] {
        topology.declare_exchange(exchange(id, name, kind));
    }
    for queue in 0..queues {
        topology.declare_queue_name(
            Name::new(&u32::to_be_bytes(queue)).unwrap(),
            QueueId(queue.into()),
        );
        for source in 1..=4 {
            topology.bind(to_queue(source, queue.into(), "k", Table::empty()));
        }
    }
    for queue in (0..queues).filter(|queue| queue % 1000 != 7) {
        topology.delete_queue(QueueId(queue.into()));
    }
    topology.check_invariants();
    for source in 1..=4 {
        assert_eq!(reached(&topology, source, "k", None).len(), 50);
        topology.delete_exchange(ExchangeId(source));
    }
    assert_eq!(topology.binding_count(), 0);
}

#[test]
fn a_deletion_clears_a_slice_away_and_acts_at_once() {
    let bindings = 1000;
    let mut topology = Topology::default();
    for (id, name, kind) in [
        (1, "x", ExchangeKind::Topic),
        (2, "y", ExchangeKind::Fanout),
        (3, "z", ExchangeKind::ModulusHash),
    ] {
        topology.declare_exchange(exchange(id, name, kind));
    }
    for (id, name) in [(1, "q"), (2, "other")] {
        topology.declare_queue_name(Name::from(name), QueueId(id));
    }
    for number in 0..bindings {
        let key = number.to_string();
        for (source, queue) in [(1, 1), (1, 2), (2, 1), (3, 1)] {
            topology.bind(to_queue(source, queue, &key, Table::empty()));
        }
    }
    topology.bind(to_queue(2, 2, "", Table::empty()));
    topology.bind(to_queue(3, 2, "", Table::empty()));
    topology.delete_queue(QueueId(1));
    assert!(topology.is_behind());
    assert_eq!(topology.queue(b"q"), None);
    for (source, left) in [(1, 1000), (2, 1), (3, 1)] {
        assert_eq!(reached(&topology, source, "7", None), [2]);
        assert_eq!(topology.count_from(ExchangeId(source)), left);
        assert_eq!(
            topology.ranked_bindings_from(ExchangeId(source)).count(),
            left
        );
    }
    assert_eq!(topology.binding_count(), 1002);
    assert!(!topology.unbind(&to_queue(2, 1, "7", Table::empty())));
    // Its name is free, and so are the bindings.
    topology.declare_queue_name(Name::from("q"), QueueId(3));
    topology.bind(to_queue(1, 3, "7", Table::empty()));
    assert_eq!(reached(&topology, 1, "7", None), [2, 3]);
    topology.delete_exchange(ExchangeId(1));
    topology.declare_exchange(exchange(4, "x", ExchangeKind::Topic));
    assert!(reached(&topology, 1, "7", None).is_empty());
    assert!(reached(&topology, 4, "7", None).is_empty());
    assert_eq!(
        topology.bindings_to(Destination::Queue(QueueId(3))).count(),
        0
    );
    assert_eq!(topology.binding_count(), 2);
    topology.check_invariants();
    let mut calls = 0;
    while topology.is_behind() {
        topology.clear_away();
        calls += 1;
    }
    assert!(
        (1000..1400).contains(&calls),
        "{calls} calls for 4001 bindings, 3 in each"
    );
    topology.check_invariants();
    assert_eq!(reached(&topology, 2, "7", None), [2]);
}

#[test]
fn bindings_that_stand_at_many_places_are_cleared_away_fewer_at_once() {
    let mut topology = Topology::default();
    topology.declare_exchange(exchange(1, "x", ExchangeKind::Topic));
    topology.declare_queue_name(Name::from("q"), QueueId(1));
    let bindings = 50;
    for number in 0..bindings {
        let pattern = "a.#.".repeat(60) + &number.to_string();
        topology.bind(to_queue(1, 1, &pattern, Table::empty()));
    }
    topology.delete_exchange(ExchangeId(1));
    let mut calls = 1;
    while topology.is_behind() {
        topology.clear_away();
        calls += 1;
    }
    assert_eq!(
        calls,
        bindings + 1,
        "one binding in each, then the exchange"
    );
}

#[test]
fn who_deletes_many_exchanges_at_once_clears_little_of_each_away() {
    let mut topology = Topology::default();
    topology.declare_queue_name(Name::from("q"), QueueId(1));
    let exchanges = 100;
    for id in 1..=exchanges {
        let name = Name::new(id.to_string().as_bytes()).unwrap();
        topology.declare_exchange(ExchangeDefinition {
            name,
            ..exchange(id, "", ExchangeKind::Direct)
        });
        for key in 0..10 {
            topology.bind(to_queue(id, 1, &key.to_string(), Table::empty()));
        }
    }
    for id in 1..=exchanges {
        topology.delete_exchange(ExchangeId(id));
    }
    assert_eq!(topology.binding_count(), 0);
    assert!(topology.bindings.len() >= 800, "2 of 10 for each deletion");
    topology.check_invariants();
}
