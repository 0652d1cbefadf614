//! What becomes of a publish: every cell of the table of outcomes.

use crate::support::{Seen, World, arguments, key, name};
use menzil_core::{Object, Refusal, Request};
use menzil_model::{Table, Value};

#[derive(Clone, Copy, PartialEq)]
enum Flag {
    None,
    Mandatory,
}

/// A world in confirm mode with a topic exchange `x`; `full` is bound to it and refuses, `open`
/// takes.
fn world(exchange_arguments: Table) -> World {
    let mut world = World::new();
    world.declare_exchange("x", "topic", exchange_arguments);
    world.declare("open");
    world.declare("spare");
    world.declare_exchange("alternate", "fanout", Table::empty());
    world.bind("spare", "alternate", "");
    let limits = [
        ("x-max-length", Value::I32(0)),
        ("x-overflow", Value::LongString(b"reject-publish")),
    ];
    world.declare_with("full", true, arguments(&limits));
    world.bind("open", "x", "both");
    world.bind("full", "x", "both");
    world.bind("open", "x", "open");
    world.confirm_select();
    world
}

fn publish(world: &mut World, routing_key: &str, flag: Flag) -> Vec<Seen> {
    world.publish_as(
        "x",
        routing_key,
        "m",
        flag == Flag::Mandatory,
        Some(2),
        None,
    )
}

fn with_alternate() -> Table {
    arguments(&[("alternate-exchange", Value::LongString(b"alternate"))])
}

#[test]
fn routed_to_all_is_acked_whatever_the_flags() {
    for flag in [Flag::None, Flag::Mandatory] {
        for exchange in [Table::empty(), with_alternate()] {
            let mut world = world(exchange);
            assert_eq!(publish(&mut world, "open", flag), [Seen::Acked(1)]);
            assert_eq!(world.drain("open"), ["m"]);
            assert_eq!(
                world.drain("spare"),
                Vec::<String>::new(),
                "the alternate is not asked"
            );
        }
    }
}

#[test]
fn a_publish_that_matches_nothing_is_dropped_and_counted_and_acked() {
    let mut world = world(Table::empty());
    assert_eq!(publish(&mut world, "nowhere", Flag::None), [Seen::Acked(1)]);
    assert_eq!(world.shard.counters().unroutable_dropped, 1);
}

#[test]
fn a_mandatory_publish_that_matches_nothing_is_returned_before_its_ack() {
    let mut world = world(Table::empty());
    let seen = publish(&mut world, "nowhere", Flag::Mandatory);
    assert_eq!(seen, [Seen::Returned("m".to_owned()), Seen::Acked(1)]);
    assert_eq!(world.shard.counters().unroutable_returned, 1);
    assert_eq!(world.shard.counters().unroutable_dropped, 0);
}

#[test]
fn the_alternate_exchange_takes_what_matches_nothing() {
    for flag in [Flag::None, Flag::Mandatory] {
        let mut world = world(with_alternate());
        assert_eq!(publish(&mut world, "nowhere", flag), [Seen::Acked(1)]);
        assert_eq!(world.drain("spare"), ["m"]);
        assert_eq!(world.shard.counters().routed, 1);
    }
}

#[test]
fn a_missing_exchange_closes_the_channel_and_leaves_later_publishes_unknown() {
    for mandatory in [false, true] {
        let mut world = world(Table::empty());
        let seen = world.publish_as("missing", "k", "m", mandatory, Some(2), None);
        let missing = Refusal::NotFound(Object::Exchange(name("missing")));
        assert_eq!(seen, [Seen::Refused(missing)]);
        assert_eq!(
            publish(&mut world, "open", Flag::None),
            [],
            "the channel is closed"
        );
        world.open(key(1, 1));
        assert_eq!(world.drain("open"), Vec::<String>::new());
    }
}

#[test]
fn where_one_queue_refuses_the_others_keep_it_and_the_publisher_gets_a_nack() {
    for flag in [Flag::None, Flag::Mandatory] {
        for exchange in [Table::empty(), with_alternate()] {
            let mut world = world(exchange);
            assert_eq!(publish(&mut world, "both", flag), [Seen::Nacked(1)]);
            assert_eq!(world.drain("open"), ["m"]);
            assert_eq!(world.drain("spare"), Vec::<String>::new());
            assert_eq!(world.shard.counters().refused, 1);
        }
    }
}

#[test]
fn on_an_atomic_exchange_one_refusal_keeps_it_from_all() {
    for flag in [Flag::None, Flag::Mandatory] {
        let mut world = world(arguments(&[("atomic-routing", Value::Bool(true))]));
        assert_eq!(publish(&mut world, "both", flag), [Seen::Nacked(1)]);
        assert_eq!(world.drain("open"), Vec::<String>::new());
        assert_eq!(publish(&mut world, "open", flag), [Seen::Acked(2)]);
        assert_eq!(world.drain("open"), ["m"]);
    }
}

#[test]
fn an_ack_names_the_one_record_of_all_durable_queues() {
    let mut world = World::new();
    for queue in ["a", "b", "c"] {
        world.declare(queue);
        world.bind(queue, "amq.fanout", "");
    }
    world.confirm_select();
    let before = world.log.records.len();
    assert_eq!(world.publish("amq.fanout", "", "m"), [Seen::Acked(1)]);
    assert_eq!(
        world.log.records.len(),
        before + 1,
        "one publish is one record"
    );
    world.restart();
    for queue in ["a", "b", "c"] {
        assert_eq!(world.drain(queue), ["m"]);
    }
}

#[test]
fn transient_traffic_never_touches_the_log() {
    let mut world = World::new();
    world.declare_with("transient", false, Table::empty());
    world.declare("durable");
    world.bind("durable", "amq.fanout", "");
    world.request(
        key(1, 1),
        Request::Qos {
            prefetch_size: 0,
            prefetch_count: 0,
            global: false,
        },
    );
    let before = world.log.records.len();
    world.publish("", "transient", "persistent message in a transient queue");
    world.publish_as("amq.fanout", "", "transient message", false, Some(1), None);
    world.publish_as("amq.fanout", "", "no mode at all", false, None, None);
    assert_eq!(world.drain("durable").len(), 2);
    assert_eq!(world.log.records.len(), before);
}

/// The ways of messages are kept, and by exchange and routing key alone.
#[test]
fn messages_to_many_queues_in_turn_reach_those_that_are_meant() {
    let mut world = World::new();
    world.declare_exchange("x", "direct", Table::empty());
    for queue in ["a", "b", "xa"] {
        world.declare(queue);
    }
    let ttl = arguments(&[("x-message-ttl", Value::I32(50))]);
    world.declare_with("short", true, ttl);
    world.bind("xa", "x", "a");
    let in_turn = |world: &mut World, round: &str| {
        for (exchange, key) in [("", "a"), ("", "b"), ("x", "a"), ("", "xa"), ("", "short")] {
            assert_eq!(world.publish(exchange, key, round), []);
        }
    };
    in_turn(&mut world, "1");
    in_turn(&mut world, "2");
    // Another life, another delivery mode, by a way that is known.
    world.publish_as("", "a", "3", false, Some(1), Some("50"));
    world.publish_as("", "b", "3", false, Some(2), None);
    world.tick(60);
    let delete = Request::QueueDelete {
        queue: name("b"),
        if_unused: false,
        if_empty: false,
        nowait: false,
    };
    world.request(key(1, 1), delete);
    world.bind("a", "x", "a");
    in_turn(&mut world, "4");
    world.declare("b");
    in_turn(&mut world, "5");
    assert_eq!(world.drain("a"), ["1", "2", "4", "4", "5", "5"]);
    assert_eq!(world.drain("b"), ["5"]);
    assert_eq!(world.drain("xa"), ["1", "1", "2", "2", "4", "4", "5", "5"]);
    world.publish("", "short", "6");
    world.restart();
    assert_eq!(world.drain("short"), ["4", "5", "6"]);
    world.publish("", "short", "7");
    world.tick(60);
    assert_eq!(world.drain("short"), Vec::<String>::new());
}
