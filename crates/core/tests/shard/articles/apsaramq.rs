//! ApsaraMQ for RabbitMQ, "Exchanges": each table of examples.

use super::{bind_headers, reached, reached_with, text, world};
use crate::support::{World, arguments};
use menzil_model::{Properties, Value};

const AB: [&str; 2] = ["A", "B"];

/// Section "Exchanges Direct".
#[test]
fn direct_routes_to_the_queue_whose_binding_key_is_the_routing_key() {
    let mut world = world(
        "x",
        "direct",
        &[("A", &["img.create"]), ("B", &["img.log"])],
    );
    assert_eq!(reached(&mut world, "x", "img.create", &AB), ["A"]);
    assert_eq!(reached(&mut world, "x", "img.log", &AB), ["B"]);
    assert!(reached(&mut world, "x", "img", &AB).is_empty());
}

/// Section "Exchanges Topic": the two wildcards.
#[test]
fn topic_wildcards_stand_for_one_segment_and_for_zero_or_more() {
    let mut star = world("x", "topic", &[("A", &["files.cn.*.store"])]);
    for (key, matches) in [
        ("files.cn.hz.store", true),
        ("files.cn.sz.store", true),
        ("files.cn.store", false),
        ("files.cn.hz.sz.store", false),
    ] {
        assert_eq!(
            !reached(&mut star, "x", key, &["A"]).is_empty(),
            matches,
            "{key}"
        );
    }
    let mut hash = world("x", "topic", &[("A", &["files.cn.hz.#"])]);
    for key in [
        "files.cn.hz",
        "files.cn.hz.store",
        "files.cn.hz.store.backup",
    ] {
        assert_eq!(reached(&mut hash, "x", key, &["A"]), ["A"], "{key}");
    }
    let mut all = world("x", "topic", &[("A", &["#"]), ("B", &["#"])]);
    for key in ["", "a", "files.cn.hz"] {
        assert_eq!(
            reached(&mut all, "x", key, &AB),
            AB,
            "as a fanout exchange: {key}"
        );
    }
}

/// Section "Exchanges Topic": the example.
#[test]
fn topic_example() {
    let bindings = [("A", &["files.cn.hz.#"][..]), ("B", &["files.cn.*.store"])];
    let mut world = world("x", "topic", &bindings);
    assert_eq!(reached(&mut world, "x", "files.cn.hz", &AB), ["A"]);
    assert_eq!(reached(&mut world, "x", "files.cn.hz.store", &AB), AB);
    assert_eq!(reached(&mut world, "x", "files.cn.sz.store", &AB), ["B"]);
}

/// Section "Exchanges Fanout".
#[test]
fn fanout_routes_to_every_queue_whatever_the_key() {
    let mut world = world("x", "fanout", &[("A", &[""]), ("B", &["img.create"])]);
    for key in ["img.create", "queue.msgMap", "cn.hz.topic.alarm"] {
        assert_eq!(reached(&mut world, "x", key, &AB), AB);
    }
}

fn headers_world() -> World {
    let mut world = world("x", "headers", &[]);
    for (queue, resource, mode) in [("A", "group", "all"), ("B", "topic", "any")] {
        let fields = [
            ("type", text("read")),
            ("resource", text(resource)),
            ("x-match", text(mode)),
        ];
        bind_headers(&mut world, queue, "x", &fields);
    }
    world
}

/// Section "Exchanges Headers": the example.
#[test]
fn headers_example() {
    let mut world = headers_world();
    let (read, write) = (("type", text("read")), ("type", text("write")));
    let (group, topic) = (("resource", text("group")), ("resource", text("topic")));
    let mut of = |headers: &[(&str, Value<'_>)]| reached_with(&mut world, "x", "k", headers, &AB);
    assert_eq!(of(&[read, group]), AB);
    assert_eq!(of(&[read]), ["B"]);
    assert_eq!(of(&[write, topic]), ["B"]);
    assert!(of(&[write, group]).is_empty());
}

/// Section "Exchanges Headers", how matching works: an argument that is empty asks for the
/// header's name alone. Empty is void; an empty text is a value (docs/compatibility.md).
#[test]
fn an_empty_argument_is_a_void_one_and_an_empty_text_is_a_value() {
    let mut world = world("x", "headers", &[]);
    bind_headers(&mut world, "A", "x", &[("h", Value::Void)]);
    bind_headers(&mut world, "B", "x", &[("h", text(""))]);
    let mut of = |value| reached_with(&mut world, "x", "", &[("h", value)], &AB);
    assert_eq!(of(text("anything")), ["A"]);
    assert_eq!(of(Value::I32(0)), ["A"]);
    assert_eq!(of(text("")), AB);
    assert_eq!(of(Value::Void), ["A"]);
    assert!(reached_with(&mut world, "x", "", &[("other", text(""))], &AB).is_empty());
}

/// How many of a thousand keys each of the queues gets.
fn shares(world: &mut World, publish: impl Fn(&mut World, &str), queues: &[&str]) -> Vec<usize> {
    for number in 1..=1000 {
        publish(world, &format!("cn.hz.{number}"));
    }
    queues
        .iter()
        .map(|queue| world.drain(queue).len())
        .collect()
}

fn publish_key(world: &mut World, key: &str) {
    assert_eq!(world.publish("x", key, key), []);
}

/// Section "Exchanges x-consistent-hash": the example, weights 1 and 2.
#[test]
fn consistent_hash_example_gives_a_third_and_two_thirds() {
    let mut world = world("x", "x-consistent-hash", &[("A", &["1"]), ("B", &["2"])]);
    let counts = shares(&mut world, publish_key, &AB);
    assert_eq!(counts.iter().sum::<usize>(), 1000);
    assert!((280..390).contains(&counts[0]), "{counts:?}");
    for key in ["cn.hz.1", "cn.hz.2", "cn.hz.3"] {
        let first = reached(&mut world, "x", key, &AB);
        assert_eq!(first.len(), 1);
        assert_eq!(
            reached(&mut world, "x", key, &AB),
            first,
            "the same key, the same queue"
        );
    }
}

/// Section "Regras de roteamento": what is hashed, and a header before the routing key.
#[test]
fn hash_header_counts_in_place_of_the_routing_key_and_without_it_all_go_to_one_queue() {
    let mut world = World::new();
    let header = arguments(&[("hash-header", text("h"))]);
    world.declare_exchange("x", "x-consistent-hash", header);
    for queue in AB {
        world.declare(queue);
        world.bind(queue, "x", "1");
    }
    let with = |world: &mut World, key: &str, value: &'static str| {
        reached_with(world, "x", key, &[("h", text(value))], &AB)
    };
    let mut seen = std::collections::BTreeSet::new();
    for value in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        let first = with(&mut world, "k", value);
        assert_eq!(with(&mut world, "other", value), first);
        seen.extend(first);
    }
    assert_eq!(seen.len(), 2);
    let absent = reached(&mut world, "x", "a", &AB);
    for key in ["b", "c", "d", "e", "f", "g", "h"] {
        assert_eq!(reached(&mut world, "x", key, &AB), absent);
    }
}

/// Section "Regras de roteamento": weights from 1 to 20, above 20 as 20. Here by an argument.
#[test]
fn a_weight_above_20_counts_as_20_where_the_exchange_says_so() {
    let mut world = World::new();
    let clamp = arguments(&[("x-max-weight", Value::I32(20))]);
    world.declare_exchange("x", "x-consistent-hash", clamp);
    for (queue, weight) in [("A", "20"), ("B", "2000")] {
        world.declare(queue);
        world.bind(queue, "x", weight);
    }
    let counts = shares(&mut world, publish_key, &AB);
    assert!((430..570).contains(&counts[0]), "{counts:?}");
}

/// Section "Regras de roteamento": of several bindings of a queue the first one counts; who
/// changes a weight deletes the binding first.
#[test]
fn of_several_bindings_of_a_queue_the_first_one_counts() {
    let mut world = world(
        "x",
        "x-consistent-hash",
        &[("A", &["1", "20"]), ("B", &["1"])],
    );
    let counts = shares(&mut world, publish_key, &AB);
    assert!((430..570).contains(&counts[0]), "{counts:?}");
}

/// Section "Exchanges x-consistent-hash", note: ApsaraMQ hashes no properties. RabbitMQ does, and
/// so does this broker.
#[test]
fn properties_are_hashed_too() {
    let mut world = World::new();
    let property = arguments(&[("hash-property", text("message_id"))]);
    world.declare_exchange("x", "x-consistent-hash", property);
    for queue in AB {
        world.declare(queue);
        world.bind(queue, "x", "1");
    }
    let counts = shares(
        &mut world,
        |world, id| {
            let properties = Properties {
                message_id: Some(id.as_bytes()),
                ..Properties::default()
            };
            for key in ["k", "l"] {
                assert_eq!(world.publish_with("x", key, id, false, &properties), []);
            }
        },
        &AB,
    );
    assert_eq!(counts.iter().sum::<usize>(), 2000);
    assert!(
        counts.iter().all(|count| count % 2 == 0),
        "both of an id in one queue"
    );
    assert!((860..1140).contains(&counts[0]), "{counts:?}");
}
