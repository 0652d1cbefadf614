//! Delayed messages that a queue refuses when they are due: they wait, and come once.

use crate::delays::{delay, delayed};
use crate::stores::check_references;
use crate::support::{Seen, World, arguments, key, name};
use bytes::Bytes;
use menzil_core::{Effect, ExchangeBind, Output, Request, ShardSettings};
use menzil_model::{Properties, Sequence, Table, Value};
use proptest::prelude::*;

/// A queue that refuses what is over a length.
fn limited(world: &mut World, queue: &str, length: i64) {
    let fields = [
        ("x-max-length", Value::I64(length)),
        ("x-overflow", Value::LongString(b"reject-publish")),
    ];
    world.declare_with(queue, true, arguments(&fields));
}

fn publish(world: &mut World, key: &str, milliseconds: i64, body: &str) {
    world.publish_delayed(("x", key), &delay(milliseconds), body, false);
}

/// A queue of one message behind an exchange that delays.
fn behind_a_delay(settings: ShardSettings) -> World {
    let mut world = World::with(settings);
    limited(&mut world, "q", 1);
    delayed(&mut world, "direct");
    world.bind("q", "x", "k");
    world
}

/// A queue that takes all, and one that is full of "first"; what is published to the exchange,
/// which is declared between, goes to both.
fn one_of_two_full(declare: impl FnOnce(&mut World)) -> World {
    let mut world = World::new();
    world.declare("all");
    limited(&mut world, "full", 1);
    world.publish("", "full", "first");
    declare(&mut world);
    for queue in ["all", "full"] {
        world.bind(queue, "x", "");
    }
    publish(&mut world, "", 10, "m");
    world.tick(10);
    world
}

fn start_again(world: &mut World, from_checkpoint: bool) {
    if from_checkpoint {
        world.restart_from_checkpoint();
    } else {
        world.restart();
    }
}

/// Waiting, and of these refused.
fn waiting(world: &World) -> (u64, u64) {
    let delays = world.shard.delays();
    (delays[0].count, delays[0].refused)
}

#[test]
fn what_a_full_queue_refuses_waits_and_comes_in_its_order_when_there_is_room() {
    let mut world = behind_a_delay(ShardSettings::default());
    for (milliseconds, body) in [(30, "c"), (10, "a"), (20, "b"), (5000, "d")] {
        publish(&mut world, "k", milliseconds, body);
    }
    world.tick(30);
    assert_eq!(waiting(&world), (3, 2));
    let counters = world.shard.counters();
    assert_eq!((counters.delays_refused, counters.undelayed), (2, 1));
    let strays = world.shard.take_strays();
    assert!(strays.len() == 2 && strays.iter().all(|stray| stray.refused));
    let list = world.shard.list_delays(b"x", Sequence(0), 9).unwrap();
    let listed: Vec<_> = list.iter().map(|d| (d.due_at - 1000, d.refused)).collect();
    assert_eq!(listed, [(20, true), (30, true), (5000, false)]);
    // Each time one is taken the next comes at once.
    assert_eq!(world.drain("q"), ["a", "b", "c"]);
    assert_eq!(waiting(&world), (1, 0));
    world.tick(5000);
    assert_eq!(world.drain("q"), ["d"]);
    assert_eq!(world.shard.counters().delays_refused, 2);
    check_references(&world);
}

#[test]
fn what_was_refused_survives_a_crash_and_a_checkpoint() {
    for from_checkpoint in [false, true] {
        let mut world = behind_a_delay(ShardSettings {
            content_bytes_max: 0,
            ..ShardSettings::default()
        });
        for body in ["a", "b", "c"] {
            publish(&mut world, "k", 10, body);
        }
        world.tick(10);
        start_again(&mut world, from_checkpoint);
        world.tick(0);
        assert_eq!(waiting(&world), (2, 2));
        assert_eq!(world.drain("q"), ["a", "b", "c"]);
        world.restart();
        world.tick(5000);
        assert_eq!(world.drain("q"), Vec::<String>::new());
        check_references(&world);
    }
}

#[test]
fn queues_that_took_it_do_not_get_it_twice() {
    for from_checkpoint in [false, true] {
        let mut world = World::with(ShardSettings {
            chunk_bytes: 16,
            content_bytes_max: 0,
            ..ShardSettings::default()
        });
        world.declare("all");
        for queue in ["one", "none"] {
            limited(&mut world, queue, 1);
            world.publish("", queue, "first");
        }
        delayed(&mut world, "fanout");
        for queue in ["all", "one", "none"] {
            world.bind(queue, "x", "");
        }
        let body = "a large body that is written in some chunks, once";
        publish(&mut world, "", 10, body);
        world.tick(10);
        assert_eq!(world.drain("all"), [body]);
        assert_eq!(waiting(&world), (1, 1));
        // It is no longer than its retry is away that a queue gets what is left to it.
        assert!(world.get("one").len() == 1);
        start_again(&mut world, from_checkpoint);
        world.tick(0);
        check_references(&world);
        assert_eq!(world.drain("one"), ["first", body]);
        // Who is bound only now is none of those that it was for.
        world.declare("late");
        world.bind("late", "x", "");
        world.restart();
        world.tick(0);
        assert_eq!(world.drain("none"), ["first", body]);
        for queue in ["all", "one", "none", "late"] {
            assert_eq!(world.drain(queue), Vec::<String>::new(), "{queue}");
        }
        assert_eq!(waiting(&world), (0, 0));
        assert_eq!(world.shard.counters().unroutable_delayed, 0);
        check_references(&world);
    }
}

#[test]
fn the_delay_is_negated_once() {
    let mut world = one_of_two_full(|world| delayed(world, "fanout"));
    world.get("full");
    for queue in ["all", "full"] {
        let effects = world.execute(menzil_core::Command::Request {
            channel: key(1, 1),
            request: Request::Get {
                queue: name(queue),
                no_ack: true,
            },
        });
        let effects = world.answered(effects);
        let [
            Effect::Channel {
                output: Output::GetOk { message, .. },
                ..
            },
        ] = effects.as_slice()
        else {
            panic!("{queue}: {effects:?}")
        };
        let properties = Properties::parse(message.properties()).unwrap();
        let headers = Table::new(Bytes::copy_from_slice(properties.headers.unwrap())).unwrap();
        assert!(matches!(headers.find(b"x-delay"), Some(Value::I32(-10))));
        assert!(message.notes().is_empty());
    }
}

#[test]
fn a_queue_that_is_deleted_is_waited_for_no_longer() {
    let mut world = one_of_two_full(|world| delayed(world, "fanout"));
    let delete = Request::QueueDelete {
        queue: name("full"),
        if_unused: false,
        if_empty: false,
        nowait: false,
    };
    world.request(key(1, 1), delete);
    world.tick(1000);
    assert_eq!(waiting(&world), (0, 0));
    assert_eq!(world.drain("all"), ["m"]);
    check_references(&world);
}

#[test]
fn one_full_queue_holds_back_nothing_that_goes_elsewhere() {
    let mut world = World::new();
    for queue in ["a", "b"] {
        limited(&mut world, queue, 1);
        world.publish("", queue, "first");
    }
    world.declare("free");
    delayed(&mut world, "direct");
    for queue in ["a", "b", "free"] {
        world.bind(queue, "x", queue);
    }
    for _ in 0..40 {
        publish(&mut world, "a", 10, "to a");
    }
    publish(&mut world, "b", 11, "to b");
    publish(&mut world, "free", 12, "to free");
    world.tick(12);
    assert_eq!(world.drain("free"), ["to free"]);
    assert_eq!(world.drain("b"), ["first", "to b"]);
    assert_eq!(waiting(&world), (40, 40));
}

#[test]
fn with_atomic_routing_all_get_it_at_one_time_or_none() {
    let fields = [
        ("x-delayed-type", Value::LongString(b"fanout")),
        ("atomic-routing", Value::Bool(true)),
    ];
    let fields = arguments(&fields);
    let mut world = one_of_two_full(|world| {
        world.declare_exchange("x", "x-delayed-message", fields);
    });
    assert_eq!(world.drain("all"), Vec::<String>::new());
    world.restart();
    world.tick(1000);
    assert_eq!(world.drain("all"), Vec::<String>::new());
    assert_eq!(waiting(&world), (1, 1));
    assert_eq!(world.drain("full"), ["first", "m"]);
    assert_eq!(world.drain("all"), ["m"]);
    check_references(&world);
}

#[test]
fn what_is_dead_lettered_for_a_queue_does_not_wait_for_it() {
    let mut world = World::new();
    world.declare("dead");
    let fields = [
        ("x-max-length", Value::I64(1)),
        ("x-overflow", Value::LongString(b"reject-publish-dlx")),
        ("x-dead-letter-exchange", Value::LongString(b"")),
        ("x-dead-letter-routing-key", Value::LongString(b"dead")),
    ];
    world.declare_with("full", true, arguments(&fields));
    world.publish("", "full", "first");
    delayed(&mut world, "fanout");
    world.bind("full", "x", "");
    publish(&mut world, "", 10, "m");
    world.tick(10);
    assert_eq!(waiting(&world), (0, 0));
    assert_eq!(world.drain("dead"), ["m"]);
    world.tick(5000);
    assert_eq!(world.drain("dead"), Vec::<String>::new());
    check_references(&world);
}

#[test]
fn what_was_refused_can_be_taken_back() {
    let mut world = behind_a_delay(ShardSettings::default());
    for body in ["a", "b", "c"] {
        publish(&mut world, "k", 10, body);
    }
    world.tick(10);
    let list = world.shard.list_delays(b"x", Sequence(0), 9).unwrap();
    assert!(world.cancel_delay(list[0].id));
    assert!(!world.cancel_delay(list[0].id));
    assert_eq!(world.drain("q"), ["a", "c"]);
    assert_eq!(waiting(&world), (0, 0));
    check_references(&world);
}

#[test]
fn what_an_atomic_exchange_refuses_is_not_counted_as_delayed() {
    let mut world = World::new();
    limited(&mut world, "full", 1);
    world.publish("", "full", "first");
    let fields = [
        ("x-delayed", Value::Bool(true)),
        ("atomic-routing", Value::Bool(true)),
    ];
    world.declare_exchange("x", "fanout", arguments(&fields));
    let atomic = arguments(&[("atomic-routing", Value::Bool(true))]);
    world.declare_exchange("front", "fanout", atomic);
    world.bind("full", "front", "");
    let bind = ExchangeBind {
        source: name("front"),
        destination: name("x"),
        routing_key: name(""),
        nowait: false,
        arguments: Table::empty(),
    };
    world.request(key(1, 1), Request::ExchangeBind(bind));
    world.publish_delayed(("front", ""), &delay(10), "m", false);
    assert_eq!(waiting(&world), (0, 0));
    assert_eq!(world.shard.counters().delayed, 0);
}

#[derive(Clone, Debug)]
enum Step {
    Publish(u16),
    Wait(u16),
    DrainOne,
    Restart,
    Checkpoint,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (1..500_u16).prop_map(Step::Publish),
        6 => (0..700_u16).prop_map(Step::Wait),
        3 => Just(Step::DrainOne),
        1 => Just(Step::Restart),
        1 => Just(Step::Checkpoint),
    ]
}

fn get_one(world: &mut World, queue: &str) -> Option<String> {
    let get = Request::Get {
        queue: name(queue),
        no_ack: true,
    };
    match world.request(key(1, 1), get).as_slice() {
        [Seen::Got { body, .. }] => Some(body.clone()),
        _ => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 30, ..ProptestConfig::default() })]

    #[test]
    fn every_queue_gets_every_message_once_however_full_some_are(
        atomic: bool,
        content_bytes_max in prop::sample::select(&[0, 3000, u64::MAX][..]),
        steps in prop::collection::vec(step(), 0..60),
    ) {
        let mut world = World::with(ShardSettings { content_bytes_max, ..ShardSettings::default() });
        world.declare("all");
        limited(&mut world, "few", 3);
        limited(&mut world, "one", 1);
        let fields = [
            ("x-delayed-type", Value::LongString(b"fanout")),
            ("atomic-routing", Value::Bool(atomic)),
        ];
        world.declare_exchange("x", "x-delayed-message", arguments(&fields));
        let queues = ["all", "few", "one"];
        for queue in queues {
            world.bind(queue, "x", "");
        }
        let mut published = 0;
        let mut got: [Vec<String>; 3] = Default::default();
        for step in steps {
            match step {
                Step::Publish(milliseconds) => {
                    publish(&mut world, "", milliseconds.into(), &format!("{published:03}"));
                    published += 1;
                }
                Step::Wait(milliseconds) => drop(world.tick(milliseconds.into())),
                Step::DrainOne => {
                    for (queue, got) in queues.iter().zip(&mut got) {
                        got.extend(get_one(&mut world, queue));
                    }
                }
                Step::Restart => world.restart(),
                Step::Checkpoint => world.restart_from_checkpoint(),
            }
            let needed = crate::support::references_of(&world.shard, world.log.records.len());
            prop_assert_eq!(&world.log.references, &needed);
        }
        for _ in 0..200 {
            world.tick(1000);
            for (queue, got) in queues.iter().zip(&mut got) {
                got.extend(get_one(&mut world, queue));
            }
        }
        let all: Vec<String> = (0..published).map(|number| format!("{number:03}")).collect();
        for mut got in got {
            got.sort();
            prop_assert_eq!(&got, &all);
        }
        prop_assert_eq!(waiting(&world), (0, 0));
    }
}
