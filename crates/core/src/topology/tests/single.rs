//! Exchanges that give a message to one destination: by hash or by chance.

use menzil_model::{TableBuilder, Value};

use super::*;
use crate::topology::Grounds;

/// What another program makes of the same definition (docs/adr/0008). A change here moves keys of
/// brokers that run: there must never be one.
#[test]
fn keys_are_placed_as_the_vectors_say() {
    let placed = hash_exchange(
        ExchangeKind::ConsistentHash,
        &[("a", 1), ("b", 2), ("c", 3)],
    );
    let numbered = hash_exchange(ExchangeKind::ModulusHash, &[("a", 1), ("b", 1), ("c", 1)]);
    for (key, by_weight, by_number) in [
        ("", "b", "c"),
        ("k", "b", "c"),
        ("order.created.eu", "a", "a"),
        ("cn.hz.1", "c", "c"),
        ("cn.hz.2", "c", "c"),
        ("cn.hz.3", "c", "a"),
        ("key-0", "b", "b"),
        ("key-1", "b", "a"),
        ("key-2", "c", "a"),
        ("key-3", "c", "b"),
        ("key-4", "c", "b"),
        ("key-5", "c", "b"),
        ("key-6", "b", "b"),
        ("key-7", "c", "b"),
        ("key-8", "a", "a"),
        ("key-9", "c", "b"),
    ] {
        assert_eq!(placed.of(key), by_weight, "{key:?} by weight");
        assert_eq!(numbered.of(key), by_number, "{key:?} by number");
    }
    let mut targets = Targets::new();
    let both = RoutingKeys::of([&b"a"[..], b"b"].into_iter().collect());
    let _ = numbered.route(&both, &Properties::default(), &mut targets);
    assert_eq!(numbered.name(targets.queues()[0]), "a");
}

/// A hash exchange, number 1, and the queues that are bound to it.
#[derive(Clone)]
struct Hashing {
    topology: Topology,
    names: Vec<String>,
}

impl Hashing {
    fn new(definition: ExchangeDefinition) -> Self {
        let mut topology = Topology::default();
        topology.declare_exchange(definition);
        Self {
            topology,
            names: Vec::new(),
        }
    }

    fn add(&mut self, name: &str, weight: u64) -> u64 {
        let id = self.names.len() as u64;
        self.names.push(name.to_owned());
        let name = Name::new(name.as_bytes()).unwrap();
        self.topology.declare_queue_name(name, QueueId(id));
        assert!(self.bind(id, &weight.to_string()));
        id
    }

    fn bind(&mut self, queue: u64, key: &str) -> bool {
        self.topology.bind(to_queue(1, queue, key, Table::empty()))
    }

    fn unbind(&mut self, queue: u64, key: &str) -> bool {
        let binding = to_queue(1, queue, key, Table::empty());
        self.topology.unbind(&binding)
    }

    fn name(&self, queue: QueueId) -> &str {
        &self.names[usize::try_from(queue.0).unwrap()]
    }

    fn route(
        &self,
        keys: &RoutingKeys<'_>,
        properties: &Properties<'_>,
        targets: &mut Targets,
    ) -> Routed {
        self.topology
            .route(ExchangeId(1), keys, properties, targets)
    }

    fn of(&self, key: &str) -> &str {
        self.with(key, &Properties::default())
    }

    fn with(&self, key: &str, properties: &Properties<'_>) -> &str {
        let mut targets = Targets::new();
        let routed = self.route(&RoutingKeys::one(key.as_bytes()), properties, &mut targets);
        match targets.queues() {
            [only] => self.name(*only),
            [] => {
                assert_eq!(routed, Routed::Nowhere);
                "nowhere"
            }
            more => panic!("{} queues for one message", more.len()),
        }
    }

    fn all(&self) -> Vec<String> {
        KEYS.map(|number| self.of(&format!("key.{number}")).to_owned())
            .collect()
    }
}

const KEYS: std::ops::Range<u32> = 0..20_000;

fn hash_exchange(kind: ExchangeKind, queues: &[(&str, u64)]) -> Hashing {
    let mut hashing = Hashing::new(exchange(1, "x", kind));
    for (name, weight) in queues {
        hashing.add(name, *weight);
    }
    hashing
}

fn consistent(arguments: TableBuilder) -> Hashing {
    let definition = ExchangeDefinition {
        arguments: arguments.build(),
        ..exchange(1, "x", ExchangeKind::ConsistentHash)
    };
    let mut hashing = Hashing::new(definition);
    for number in 0..10 {
        hashing.add(&format!("q{number}"), 1);
    }
    hashing
}

fn count(placed: &[String], name: &str) -> usize {
    placed.iter().filter(|other| *other == name).count()
}

/// Within a tenth of what is ideal, out of those keys.
fn assert_share(count: usize, part: u64, of: u64) {
    let ideal = KEYS.len() as u64 * part / of;
    let count = count as u64;
    assert!(
        (ideal * 9 / 10..=ideal * 11 / 10).contains(&count),
        "{count} keys where {ideal} are ideal"
    );
}

#[test]
fn shares_follow_the_weights() {
    let weights = [("a", 1), ("b", 2), ("c", 5), ("d", 12), ("e", 20)];
    let placed = hash_exchange(ExchangeKind::ConsistentHash, &weights).all();
    for (name, weight) in &weights[1..] {
        assert_share(count(&placed, name), *weight, 40);
    }
    let equal: Vec<String> = (0..10).map(|number| format!("q{number}")).collect();
    let equal: Vec<(&str, u64)> = equal.iter().map(|name| (name.as_str(), 7)).collect();
    let placed = hash_exchange(ExchangeKind::ConsistentHash, &equal).all();
    for (name, _) in &equal {
        assert_share(count(&placed, name), 1, 10);
    }
}

#[test]
fn a_queue_that_comes_takes_its_share_and_nobody_else_s_keys_move() {
    let mut hashing = hash_exchange(
        ExchangeKind::ConsistentHash,
        &[("a", 1), ("b", 2), ("c", 3), ("d", 4)],
    );
    let before = hashing.all();
    let added = hashing.add("e", 5);
    let after = hashing.all();
    let pairs = before.iter().zip(&after);
    let moved: Vec<_> = pairs.filter(|(before, after)| before != after).collect();
    assert!(moved.iter().all(|(_, after)| *after == "e"));
    assert_share(moved.len(), 5, 15);
    // From all of the others alike.
    for (name, weight) in [("b", 2), ("c", 3), ("d", 4)] {
        let lost = moved.iter().filter(|(before, _)| *before == name).count();
        assert_share(lost * 3, weight, 10);
    }
    assert!(hashing.unbind(added, "5"));
    assert_eq!(hashing.all(), before);
}

#[test]
fn a_heavier_queue_only_wins_keys_and_a_lighter_one_only_loses_some() {
    let mut hashing = hash_exchange(
        ExchangeKind::ConsistentHash,
        &[("a", 3), ("b", 3), ("c", 3)],
    );
    let before = hashing.all();
    assert!(hashing.unbind(0, "3") && hashing.bind(0, "6"));
    let heavier = hashing.all();
    let pairs = before.iter().zip(&heavier).filter(|(old, new)| old != new);
    assert!(pairs.clone().all(|(_, new)| new == "a"));
    assert_share(pairs.count(), 1, 6);
    assert!(hashing.unbind(0, "6") && hashing.bind(0, "1"));
    let lighter = hashing.all();
    let mut pairs = before.iter().zip(&lighter).filter(|(old, new)| old != new);
    assert!(pairs.all(|(old, _)| old == "a"));
}

#[test]
fn placement_does_not_depend_on_the_order_of_bindings_nor_on_ids() {
    let queues = [("a", 3), ("b", 1), ("c", 20), ("d", 1), ("e", 3)];
    let mut backward = queues;
    backward.reverse();
    for kind in [ExchangeKind::ConsistentHash, ExchangeKind::ModulusHash] {
        let placed = hash_exchange(kind, &queues).all();
        assert_eq!(hash_exchange(kind, &backward).all(), placed);
        // A queue that is deleted and declared again has another id and its old keys.
        let mut hashing = hash_exchange(kind, &queues);
        hashing.topology.delete_queue(QueueId(2));
        assert_ne!(hashing.all(), placed);
        hashing.add("c", 20);
        assert_eq!(hashing.all(), placed);
        hashing.topology.check_invariants();
    }
}

#[test]
fn a_queue_and_an_exchange_of_one_name_are_two_destinations() {
    for kind in [ExchangeKind::ConsistentHash, ExchangeKind::ModulusHash] {
        let mut hashing = hash_exchange(kind, &[("a", 1)]);
        let topology = &mut hashing.topology;
        topology.declare_exchange(exchange(2, "a", ExchangeKind::Fanout));
        topology.bind(to_exchange(1, 2, "1"));
        topology.declare_queue_name(Name::from("behind"), QueueId(1));
        topology.bind(to_queue(2, 1, "", Table::empty()));
        hashing.names.push("behind".to_owned());
        let placed = hashing.all();
        assert_share(count(&placed, "a"), 1, 2);
        assert_share(count(&placed, "behind"), 1, 2);
    }
}

/// Case A04: removing one of two bindings of a queue leaves it where it is.
#[test]
fn a04_of_two_bindings_of_a_queue_the_first_counts_and_then_the_second() {
    let mut hashing = hash_exchange(ExchangeKind::ConsistentHash, &[("q", 1), ("other", 1)]);
    assert!(hashing.bind(0, "10"));
    let first = hashing.all();
    assert_share(count(&first, "q"), 1, 2);
    assert!(hashing.unbind(0, "1"));
    hashing.topology.check_invariants();
    let second = hashing.all();
    assert_share(count(&second, "q"), 10, 11);
    assert!(hashing.bind(0, "1"));
    assert_eq!(hashing.all(), second, "the second is the first now");
    assert!(hashing.unbind(1, "1"));
    assert_eq!(count(&hashing.all(), "q"), KEYS.len());
    assert!(hashing.unbind(0, "10") && hashing.unbind(0, "1"));
    assert_eq!(hashing.of("k"), "nowhere");
    hashing.topology.check_invariants();
}

#[test]
fn a_binding_that_is_no_weight_does_not_act() {
    let mut hashing = hash_exchange(ExchangeKind::ConsistentHash, &[("a", 1), ("b", 1)]);
    let before = hashing.all();
    assert!(hashing.bind(0, "none") && hashing.bind(0, "0"));
    assert!(hashing.unbind(0, "1"));
    hashing.topology.check_invariants();
    assert_eq!(count(&hashing.all(), "b"), KEYS.len());
    assert!(hashing.bind(0, "1"));
    assert_eq!(hashing.all(), before);
}

#[test]
fn the_highest_weight_that_counts_may_be_lowered() {
    let arguments = TableBuilder::new().field("x-max-weight", Value::I32(20));
    let definition = ExchangeDefinition {
        arguments: arguments.build(),
        ..exchange(1, "x", ExchangeKind::ConsistentHash)
    };
    let mut clamped = Hashing::new(definition);
    clamped.add("a", 5000);
    clamped.add("b", 20);
    clamped.add("c", 10);
    let queues = [("a", 20), ("b", 20), ("c", 10)];
    let same = hash_exchange(ExchangeKind::ConsistentHash, &queues);
    assert_eq!(clamped.all(), same.all());
}

fn placed(hashing: &Hashing, value: Value<'_>, key: &str) -> String {
    let headers = TableBuilder::new().field("h", value).build();
    hashing.with(key, &with_headers(Some(&headers))).to_owned()
}

#[test]
fn a_header_is_hashed_in_place_of_the_routing_key() {
    let hashing = consistent(TableBuilder::new().field("hash-header", Value::LongString(b"h")));
    let plain = consistent(TableBuilder::new());
    let mut reached = std::collections::BTreeSet::new();
    for number in 0..200_i64 {
        let text = number.to_string();
        let by_text = placed(&hashing, Value::LongString(text.as_bytes()), "k");
        // A text counts as its bytes, whatever the routing key.
        assert_eq!(by_text, plain.of(&text));
        assert_eq!(
            by_text,
            placed(&hashing, Value::LongString(text.as_bytes()), "other")
        );
        let by_number = placed(&hashing, Value::I64(number), "k");
        assert_eq!(
            by_number,
            placed(&hashing, Value::I32(i32::try_from(number).unwrap()), "k")
        );
        reached.extend([by_text, by_number]);
    }
    assert_eq!(reached.len(), 10);
    // Without it all go to one queue.
    let absent = hashing.of("k").to_owned();
    for key in ["", "a", "b", "c", "d", "e", "f"] {
        assert_eq!(hashing.of(key), absent);
    }
    assert_eq!(placed(&hashing, Value::Void, "k"), absent);
}

#[test]
fn a_property_is_hashed_in_place_of_the_routing_key() {
    let of = |name: &'static str| {
        consistent(TableBuilder::new().field("hash-property", Value::LongString(name.as_bytes())))
    };
    let plain = consistent(TableBuilder::new());
    let (message, correlation, timestamp) =
        (of("message_id"), of("correlation_id"), of("timestamp"));
    for number in 0..100_u64 {
        let text = number.to_string();
        let expected = plain.of(&text);
        let only = Properties {
            message_id: Some(text.as_bytes()),
            ..Properties::default()
        };
        assert_eq!(message.with("k", &only), expected);
        assert_eq!(correlation.with("k", &only), correlation.of("x"));
        let only = Properties {
            correlation_id: Some(text.as_bytes()),
            ..Properties::default()
        };
        assert_eq!(correlation.with("k", &only), expected);
        let only = Properties {
            timestamp: Some(number),
            ..Properties::default()
        };
        assert_eq!(timestamp.with("k", &only), expected);
        assert_eq!(
            timestamp.with("k", &Properties::default()),
            timestamp.of("x")
        );
    }
}

#[test]
fn only_the_routing_key_itself_is_hashed_consistently_and_all_keys_by_number() {
    let copied = |hashing: &Hashing, keys: &[&'static [u8]]| {
        let keys = RoutingKeys::of(keys.iter().copied().collect());
        let mut targets = Targets::new();
        let _ = hashing.route(&keys, &Properties::default(), &mut targets);
        targets.queues().to_vec()
    };
    let consistent = consistent(TableBuilder::new());
    assert_eq!(
        copied(&consistent, &[b"a", b"b"]),
        copied(&consistent, &[b"a", b"c"])
    );
    let queues: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    let queues: Vec<_> = queues.iter().map(|name| (name.as_str(), 1)).collect();
    let numbered = hash_exchange(ExchangeKind::ModulusHash, &queues);
    assert_ne!(
        copied(&numbered, &[b"a", b"b"]),
        copied(&numbered, &[b"a", b"c"])
    );
    assert_ne!(
        copied(&numbered, &[b"a", b"b"]),
        copied(&numbered, &[b"b", b"a"])
    );
}

#[test]
fn every_queue_is_as_likely_as_any_other_however_often_it_is_bound() {
    for kind in [ExchangeKind::Random, ExchangeKind::LocalRandom] {
        let mut hashing = hash_exchange(kind, &[("a", 1), ("b", 1), ("c", 1), ("d", 1)]);
        assert!(hashing.bind(0, "k") && hashing.bind(0, "l"));
        let mut targets = Targets::new();
        targets.seed(11);
        let mut counts = [0_usize; 4];
        for _ in KEYS {
            let keys = RoutingKeys::one(b"k");
            let _ = hashing.route(&keys, &Properties::default(), &mut targets);
            assert_eq!(targets.queues().len(), 1);
            assert_eq!(targets.grounds(), Grounds::Chance);
            counts[usize::try_from(targets.queues()[0].0).unwrap()] += 1;
        }
        for count in counts {
            assert_share(count, 1, 4);
        }
        assert!(hashing.unbind(0, "k"));
        hashing.topology.check_invariants();
    }
}

#[test]
fn what_a_way_depends_on_is_told() {
    let header = TableBuilder::new().field("hash-header", Value::LongString(b"h"));
    let one = |kind| hash_exchange(kind, &[("a", 1)]);
    let two = |kind| hash_exchange(kind, &[("a", 1), ("b", 1)]);
    for (hashing, grounds) in [
        (two(ExchangeKind::Fanout), Grounds::Keys),
        (two(ExchangeKind::ConsistentHash), Grounds::Keys),
        (two(ExchangeKind::ModulusHash), Grounds::Keys),
        (consistent(header), Grounds::Properties),
        (one(ExchangeKind::Random), Grounds::Keys),
        (two(ExchangeKind::Random), Grounds::Chance),
    ] {
        let mut targets = Targets::new();
        let keys = RoutingKeys::one(b"k");
        for _ in 0..2 {
            let _ = hashing.route(&keys, &Properties::default(), &mut targets);
            assert_eq!(targets.grounds(), grounds);
        }
    }
}
