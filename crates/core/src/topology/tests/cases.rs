//! Rows of the field cases, and bindings that come before what they bind.

use menzil_model::table::{read_value, write_value};
use menzil_model::wire::{Reader, Writer};
use menzil_model::{TableBuilder, Value};

use super::*;

#[test]
fn a01_hash_is_zero_or_more_words_and_star_exactly_one() {
    let patterns = ["a.*.c.#", "a.*", "#", "*", "#.b.#", "*.#"];
    let mut topology = Topology::default();
    topology.declare_exchange(exchange(1, "topic", ExchangeKind::Topic));
    for (queue, pattern) in (0..).zip(patterns) {
        topology.declare_queue_name(Name::from(pattern), QueueId(queue));
        assert!(topology.bind(to_queue(1, queue, pattern, Table::empty())));
    }
    let long = "k".repeat(255);
    let dots = ".".repeat(255);
    for (key, expected) in [
        ("a.b.c", &[0, 2, 4, 5][..]),
        ("a.b.c.d", &[0, 2, 4, 5]),
        ("a", &[2, 3, 5]),
        ("a.", &[1, 2, 5]),
        ("", &[2]),
        (".", &[2, 5]),
        ("b", &[2, 3, 4, 5]),
        (&long, &[2, 3, 5]),
        (&dots, &[2, 5]),
        ("*", &[2, 3, 5]),
        ("#", &[2, 3, 5]),
        ("a.#", &[1, 2, 5]),
        ("a..c", &[0, 2, 5]),
    ] {
        assert_eq!(reached(&topology, 1, key, None), expected, "key {key:?}");
    }
    // Two matching bindings of one queue give one copy.
    assert!(topology.bind(to_queue(1, 0, "#", Table::empty())));
    assert_eq!(reached(&topology, 1, "a.b.c", None), [0, 2, 4, 5]);
    topology.check_invariants();
}

#[test]
fn an_empty_topic_binding_matches_the_empty_key_only() {
    let mut topology = Topology::default();
    topology.declare_exchange(exchange(1, "topic", ExchangeKind::Topic));
    topology.declare_queue_name(Name::from("q"), QueueId(1));
    topology.bind(to_queue(1, 1, "", Table::empty()));
    assert_eq!(reached(&topology, 1, "", None), [1]);
    assert!(reached(&topology, 1, ".", None).is_empty());
    assert!(reached(&topology, 1, "a", None).is_empty());
}

fn key_array(keys: &[&str]) -> Vec<u8> {
    let mut content = Vec::new();
    for key in keys {
        write_value(&mut content, Value::LongString(key.as_bytes()));
    }
    let mut bytes = vec![b'A'];
    bytes.put_long_string(&content);
    bytes
}

/// Queues reached with `CC` and `BCC` keys beside the routing key.
fn copied(topology: &Topology, from: u64, key: &str, cc: &[&str], bcc: &[&str]) -> Vec<u64> {
    let (cc, bcc) = (key_array(cc), key_array(bcc));
    let value = |bytes| read_value(&mut Reader::new(bytes)).unwrap();
    let headers = TableBuilder::new()
        .field("CC", value(&cc))
        .field("BCC", value(&bcc))
        .build();
    let properties = Properties {
        headers: Some(headers.as_bytes()),
        ..Properties::default()
    };
    let keys = RoutingKeys::new(key.as_bytes(), &properties).unwrap();
    let mut targets = Targets::new();
    let _ = topology.route(ExchangeId(from), &keys, &properties, &mut targets);
    targets.queues().iter().map(|queue| queue.0).collect()
}

#[test]
fn a02_every_key_counts_at_every_exchange_and_a_queue_gets_one_copy() {
    let mut topology = Topology::default();
    topology.declare_exchange(exchange(0, "", ExchangeKind::Direct));
    topology.declare_exchange(exchange(1, "first", ExchangeKind::Direct));
    topology.declare_exchange(exchange(2, "second", ExchangeKind::Topic));
    for (id, name) in [(1, "q1"), (2, "q2"), (3, "q3")] {
        topology.declare_queue_name(Name::from(name), QueueId(id));
    }
    assert_eq!(copied(&topology, 0, "q1", &["q2"], &["q3"]), [1, 2, 3]);
    assert_eq!(copied(&topology, 0, "q1", &["q1", "q1"], &["q1"]), [1]);
    assert_eq!(copied(&topology, 0, "none", &["q2", "other"], &[]), [2]);
    topology.bind(to_exchange(1, 2, "go"));
    topology.bind(to_queue(2, 1, "a.*", Table::empty()));
    topology.bind(to_queue(2, 2, "go", Table::empty()));
    assert_eq!(copied(&topology, 1, "go", &[], &["a.b"]), [2, 1]);
    assert!(copied(&topology, 1, "a.b", &["a.c"], &[]).is_empty());
    let long = "a.".to_owned() + &"b".repeat(300);
    assert_eq!(copied(&topology, 2, "x", &[&long], &[]), [1]);
}

#[test]
fn a_binding_acts_once_both_its_ends_are_declared() {
    let mut topology = Topology::default();
    assert!(topology.bind(to_exchange(1, 2, "")));
    assert!(topology.bind(to_queue(2, 7, "k", Table::empty())));
    assert!(!topology.bind(to_queue(2, 7, "k", Table::empty())));
    topology.check_invariants();
    topology.declare_exchange(exchange(1, "one", ExchangeKind::Fanout));
    assert!(reached(&topology, 1, "k", None).is_empty());
    topology.declare_queue_name(Name::from("q"), QueueId(7));
    assert!(reached(&topology, 1, "k", None).is_empty());
    topology.declare_exchange(exchange(2, "two", ExchangeKind::Direct));
    topology.check_invariants();
    assert_eq!(reached(&topology, 1, "k", None), [7]);
    assert_eq!(topology.binding_count(), 2);
    assert!(topology.has_bindings_from(ExchangeId(1)));
    assert_eq!(topology.ranked_bindings_from(ExchangeId(2)).count(), 1);
    assert_eq!(
        topology
            .bindings_to(Destination::Exchange(ExchangeId(2)))
            .count(),
        1
    );
    assert_eq!(
        topology.bindings_to(Destination::Queue(QueueId(7))).count(),
        1
    );
}

#[test]
fn a_deleted_name_may_be_taken_by_another_id() {
    let mut topology = Topology::default();
    topology.declare_exchange(exchange(0, "", ExchangeKind::Direct));
    topology.declare_exchange(exchange(1, "x", ExchangeKind::Fanout));
    topology.declare_queue_name(Name::from("q"), QueueId(1));
    topology.bind(to_queue(1, 1, "", Table::empty()));
    topology.delete_queue(QueueId(1));
    topology.delete_exchange(ExchangeId(1));
    topology.delete_exchange(ExchangeId(1));
    assert_eq!(topology.queue(b"q"), None);
    assert!(topology.exchange(b"x").is_none());
    assert_eq!(topology.binding_count(), 0);
    topology.declare_queue_name(Name::from("q"), QueueId(2));
    topology.declare_exchange(exchange(3, "x", ExchangeKind::Direct));
    // The end of the first queue, seen again.
    topology.delete_queue(QueueId(1));
    assert_eq!(topology.queue(b"q"), Some(QueueId(2)));
    assert_eq!(reached(&topology, 0, "q", None), [2]);
    // A younger queue is seen before the end of the older one.
    topology.declare_queue_name(Name::from("q"), QueueId(4));
    topology.delete_queue(QueueId(2));
    assert_eq!(reached(&topology, 0, "q", None), [4]);
    let found = topology.exchange(b"x").unwrap();
    assert_eq!(
        (found.id, found.kind),
        (ExchangeId(3), ExchangeKind::Direct)
    );
    assert_eq!(topology.exchange_by_id(ExchangeId(3)), Some(found));
    assert_eq!(topology.exchanges().count(), 2);
    topology.check_invariants();
}

#[test]
fn the_order_of_binding_arguments_is_no_part_of_the_binding() {
    let mut topology = Topology::default();
    topology.declare_exchange(exchange(1, "h", ExchangeKind::Headers));
    topology.declare_queue_name(Name::from("q"), QueueId(1));
    let forward = TableBuilder::new()
        .field("a", Value::I8(1))
        .field("b", Value::I8(2))
        .build();
    let backward = TableBuilder::new()
        .field("b", Value::I8(2))
        .field("a", Value::I8(1))
        .build();
    assert!(topology.bind(to_queue(1, 1, "", forward)));
    assert!(!topology.bind(to_queue(1, 1, "", backward.clone())));
    assert_eq!(reached(&topology, 1, "", Some(&backward)), [1]);
    assert!(topology.unbind(&to_queue(1, 1, "", backward)));
    assert_eq!(topology.binding_count(), 0);
}

fn one(name: &str, value: Value<'_>) -> Table {
    TableBuilder::new().field(name, value).build()
}

fn with(mode: &str, table: &Table) -> Table {
    let mut all = TableBuilder::new().field("x-match", Value::LongString(mode.as_bytes()));
    for (name, value) in table.fields() {
        all = all.field(std::str::from_utf8(name).unwrap(), value);
    }
    all.build()
}

/// Each row was put to RabbitMQ 4.3.6, which answered the same.
#[test]
fn headers_match_as_they_do_in_rabbitmq() {
    let nested = |bytes: &'static [u8]| read_value(&mut Reader::new(bytes)).unwrap();
    let (array, table) = (nested(b"A\0\0\0\0"), nested(b"F\0\0\0\0"));
    let array_of_array = nested(b"A\0\0\0\x05A\0\0\0\0");
    let array_of_table = nested(b"A\0\0\0\x05F\0\0\0\0");
    let a = |value| one("a", value);
    let x = |number| one("x-a", Value::I32(number));
    for (arguments, headers, matches) in [
        (a(Value::Timestamp(5)), a(Value::Timestamp(5)), false),
        (a(Value::I32(5000)), a(Value::Timestamp(5)), true),
        (a(Value::Timestamp(5)), a(Value::I32(5)), true),
        (a(Value::I32(1)), a(Value::F64(1.0)), false),
        (a(Value::F64(1.5)), a(Value::F64(1.5)), true),
        (a(Value::F64(0.0)), a(Value::F64(-0.0)), false),
        (a(Value::Bool(true)), a(Value::Bool(true)), true),
        (a(Value::Bool(true)), a(Value::I32(1)), false),
        (a(Value::LongString(b"1")), a(Value::I32(1)), false),
        (a(Value::Binary(b"1")), a(Value::LongString(b"1")), true),
        (a(Value::Decimal(1, 15)), a(Value::Decimal(1, 15)), true),
        (a(Value::Decimal(1, 15)), a(Value::F64(1.5)), false),
        (a(array), a(table), true),
        (a(array_of_array), a(array_of_table), false),
        (a(Value::Void), a(Value::Void), true),
        (a(Value::Void), a(Value::I32(1)), true),
        (a(Value::I32(1)), a(Value::Void), false),
        (Table::empty(), a(Value::I32(1)), true),
        (Table::empty(), Table::empty(), true),
        (with("any", &Table::empty()), a(Value::I32(1)), false),
        (x(1), x(2), true),
        (with("all-with-x", &x(1)), x(2), false),
        (with("any-with-x", &x(1)), x(1), true),
        (with("any", &x(1)), x(1), false),
        (one("BCC", Value::Void), one("BCC", array), false),
        (one("CC", Value::Void), one("CC", array), true),
    ] {
        let mut topology = Topology::default();
        topology.declare_exchange(exchange(1, "h", ExchangeKind::Headers));
        topology.declare_queue_name(Name::from("q"), QueueId(1));
        topology.bind(to_queue(1, 1, "", arguments.clone()));
        let found = !reached(&topology, 1, "", Some(&headers)).is_empty();
        assert_eq!(found, matches, "{arguments:?} {headers:?}");
    }
}
