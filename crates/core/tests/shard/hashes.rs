//! Hash and random exchanges in a shard: what a restart keeps, what no way may be kept of, and
//! what is refused.

use crate::support::{Seen, World, arguments, key, name};
use menzil_core::{ExchangeBind, QueueBind, Refusal, Reply, Request};
use menzil_model::{Properties, Table, Value};

const QUEUES: [&str; 4] = ["a", "b", "c", "d"];

/// An exchange with four queues bound to it.
fn world(kind: &str, key: &str, exchange_arguments: Table) -> World {
    let mut world = World::new();
    let declared = world.declare_exchange("x", kind, exchange_arguments);
    assert_eq!(declared, [Seen::Reply(Reply::ExchangeDeclareOk)]);
    for queue in QUEUES {
        world.declare(queue);
        world.bind(queue, "x", key);
    }
    world
}

/// What each queue has got, taken out of it.
fn drained(world: &mut World) -> [Vec<String>; 4] {
    QUEUES.map(|queue| world.drain(queue))
}

fn publish_keys(world: &mut World) -> [Vec<String>; 4] {
    for number in 0..200 {
        let number = number.to_string();
        assert_eq!(world.publish("x", &number, &number), []);
    }
    drained(world)
}

#[test]
fn a_restart_keeps_every_key_where_it_was() {
    for kind in ["x-consistent-hash", "x-modulus-hash"] {
        let mut world = world(kind, "3", Table::empty());
        let before = publish_keys(&mut world);
        assert!(before.iter().all(|bodies| bodies.len() > 20), "{before:?}");
        world.restart();
        assert_eq!(publish_keys(&mut world), before);
        world.restart_from_checkpoint();
        assert_eq!(publish_keys(&mut world), before);
    }
}

#[test]
fn a04_a_restart_keeps_which_binding_of_a_queue_was_the_first() {
    // In the order of their keys the heavier ones would come first.
    let mut world = world("x-consistent-hash", "9", Table::empty());
    for queue in QUEUES {
        world.bind(queue, "x", "1000");
    }
    world.bind("a", "x", "10");
    let unbind = |world: &mut World, queue: &str, weight: &str| {
        let unbind = QueueBind {
            queue: name(queue),
            exchange: name("x"),
            routing_key: name(weight),
            nowait: false,
            arguments: Table::empty(),
        };
        let seen = world.request(key(1, 1), Request::QueueUnbind(unbind));
        assert_eq!(seen, [Seen::Reply(Reply::QueueUnbindOk)]);
    };
    unbind(&mut world, "d", "9");
    let before = publish_keys(&mut world);
    assert!(before[3].len() > 150, "the heavier one of d is its first");
    for _ in 0..2 {
        world.restart_from_checkpoint();
        assert_eq!(publish_keys(&mut world), before);
    }
    for queue in &QUEUES[..3] {
        unbind(&mut world, queue, "9");
    }
    let second = publish_keys(&mut world);
    assert!(second.iter().all(|bodies| bodies.len() > 20), "{second:?}");
    world.restart_from_checkpoint();
    assert_eq!(publish_keys(&mut world), second);
}

#[test]
fn no_way_is_kept_of_what_goes_by_chance() {
    for kind in ["x-random", "x-local-random"] {
        let mut world = world(kind, "", Table::empty());
        for _ in 0..200 {
            assert_eq!(world.publish("x", "same", "m"), []);
        }
        let counts = drained(&mut world).map(|bodies| bodies.len());
        assert!(
            counts.iter().all(|count| (20..80).contains(count)),
            "{counts:?}"
        );
        assert_eq!(counts.iter().sum::<usize>(), 200);
    }
}

#[test]
fn no_way_is_kept_of_what_goes_by_a_property() {
    let property = arguments(&[("hash-property", Value::LongString(b"message_id"))]);
    let mut world = world("x-consistent-hash", "1", property);
    for round in 0..2 {
        for number in 0..100 {
            let id = number.to_string();
            let properties = Properties {
                message_id: Some(id.as_bytes()),
                ..Properties::default()
            };
            // In the second round every message is the twin of the one before it.
            for _ in 0..=round {
                assert_eq!(world.publish_with("x", "same", &id, false, &properties), []);
            }
        }
    }
    let placed = drained(&mut world);
    for bodies in &placed {
        assert!(bodies.len() > 30, "{placed:?}");
    }
    for number in 0..100 {
        let id = number.to_string();
        let mut counts = placed
            .iter()
            .map(|bodies| bodies.iter().filter(|b| **b == id).count());
        assert!(counts.any(|count| count == 3), "{id} is in one queue");
    }
}

#[test]
fn what_is_refused_leaves_nothing_behind() {
    let mut world = world("x-consistent-hash", "1", Table::empty());
    world.declare_exchange("local", "x-local-random", Table::empty());
    world.declare_exchange("to", "fanout", Table::empty());
    let before = world.log.records.len();
    let bindings = world.shard.summary().bindings;
    let text = |key: &str| Refusal::WeightText {
        key: key.to_owned(),
    };
    let weight_max = 10_000;
    for (exchange, routing_key, refusal) in [
        ("x", "-1", Refusal::WeightTooLow),
        ("x", "0", Refusal::WeightTooLow),
        ("x", "abc", text("<<\"abc\">>")),
        ("x", "", text("<<>>")),
        ("x", "10001", Refusal::WeightTooHigh { weight_max }),
        ("local", "k", Refusal::BindingKey(name("k"))),
    ] {
        let bind = QueueBind {
            queue: name("a"),
            exchange: name(exchange),
            routing_key: name(routing_key),
            nowait: false,
            arguments: Table::empty(),
        };
        let seen = world.request(key(1, 1), Request::QueueBind(bind));
        assert_eq!(seen, [Seen::Refused(refusal)]);
        world.open(key(1, 1));
    }
    let bind = ExchangeBind {
        source: name("local"),
        destination: name("to"),
        routing_key: name(""),
        nowait: false,
        arguments: Table::empty(),
    };
    let seen = world.request(key(1, 1), Request::ExchangeBind(bind));
    assert_eq!(seen, [Seen::Refused(Refusal::NoQueue)]);
    world.open(key(1, 1));
    let both = arguments(&[
        ("hash-header", Value::LongString(b"h")),
        ("hash-property", Value::LongString(b"message_id")),
    ]);
    let unknown = arguments(&[("hash-property", Value::LongString(b"app_id"))]);
    for (arguments, refusal) in [
        (both, Refusal::HashTwice),
        (unknown, Refusal::HashProperty(name("app_id"))),
    ] {
        let seen = world.declare_exchange("new", "x-consistent-hash", arguments.clone());
        assert_eq!(seen, [Seen::Refused(refusal)]);
        world.open(key(1, 1));
        // To other kinds these arguments are nothing.
        let seen = world.declare_exchange("to", "fanout", arguments);
        assert_eq!(seen, [Seen::Reply(Reply::ExchangeDeclareOk)]);
    }
    assert_eq!(world.log.records.len(), before);
    assert_eq!(world.shard.summary().bindings, bindings);
    let drained = publish_keys(&mut world);
    assert!(drained.iter().all(|bodies| bodies.len() > 20));
}
