//! Message groups: one consumer at a time, in order, spread over consumers.

use menzil_core::{Command, Effect, Output, Reply, Request, ShardSettings};
use menzil_model::{Table, Value};
use proptest::prelude::*;

use crate::support::{Seen, World, arguments, body_of, key, name};
use crate::twin::{Twin, play, step};

fn grouped(extra: &[(&str, Value<'_>)]) -> Table {
    let mut all = vec![("x-group-header", Value::LongString(b"group"))];
    all.extend_from_slice(extra);
    arguments(&all)
}

fn world(settings: ShardSettings, channels: u16, prefetch: u16) -> World {
    let mut world = World::with(settings);
    world.declare_with("q", true, grouped(&[]));
    for channel in 2..2 + channels {
        world.open(key(1, channel));
        world.qos(key(1, channel), prefetch);
        world.consume(key(1, channel), "q", &format!("c{channel}"));
    }
    world
}

/// Deliveries: channel and body.
fn given(effects: &[Effect]) -> Vec<(u16, String)> {
    let deliveries = effects.iter().filter_map(|effect| match effect {
        Effect::Channel {
            to,
            output: Output::Deliver { message, .. },
            ..
        } => Some((to.channel.number(), body_of(message))),
        _ => None,
    });
    deliveries.collect()
}

fn publish(world: &mut World, group: u8, body: &str) -> Vec<(u16, String)> {
    given(&world.publish_to_group("q", body, group, true))
}

fn ack(world: &mut World, channel: u16, tag: u64) -> Vec<(u16, String)> {
    let request = Request::Ack {
        delivery_tag: menzil_model::DeliveryTag(tag),
        multiple: false,
    };
    let channel = key(1, channel);
    given(&world.execute(Command::Request { channel, request }))
}

fn to(channel: u16, body: &str) -> (u16, String) {
    (channel, body.to_owned())
}

#[test]
fn a_group_stays_with_its_consumer_and_others_go_on() {
    let mut world = world(ShardSettings::default(), 2, 1);
    assert_eq!(publish(&mut world, 1, "a1"), [to(2, "a1")]);
    assert_eq!(publish(&mut world, 1, "a2"), [], "its consumer has no room");
    assert_eq!(publish(&mut world, 2, "b1"), [to(3, "b1")]);
    assert_eq!(ack(&mut world, 3, 1), [], "the group is not free");
    assert_eq!(
        publish(&mut world, 0, "-"),
        [to(3, "-")],
        "no group is free"
    );
    assert_eq!(ack(&mut world, 2, 1), [to(2, "a2")]);
}

#[test]
fn what_a_consumer_leaves_behind_goes_out_again_in_order() {
    let mut world = world(ShardSettings::default(), 1, 10);
    for body in ["1", "2", "3"] {
        publish(&mut world, 1, body);
    }
    world.requeue(key(1, 2), 2);
    world.open(key(1, 3));
    world.consume(key(1, 3), "q", "other");
    let effects = world.execute(Command::ChannelClosed(key(1, 2)));
    assert_eq!(given(&effects), [to(3, "1"), to(3, "2"), to(3, "3")]);
}

#[test]
fn a_cancelled_consumer_keeps_its_group_until_it_has_settled() {
    let mut world = world(ShardSettings::default(), 2, 1);
    assert_eq!(publish(&mut world, 1, "1"), [to(2, "1")]);
    assert_eq!(publish(&mut world, 1, "2"), []);
    let cancel = Request::Cancel {
        consumer_tag: name("c2"),
        nowait: true,
    };
    assert_eq!(world.request(key(1, 2), cancel), []);
    assert_eq!(publish(&mut world, 1, "3"), []);
    assert_eq!(ack(&mut world, 2, 1), [to(3, "2")]);
    assert_eq!(ack(&mut world, 3, 1), [to(3, "3")]);
}

#[test]
fn get_takes_the_first_whose_group_is_free() {
    let mut world = world(ShardSettings::default(), 1, 1);
    for (group, body) in [(1, "a1"), (1, "a2"), (2, "b1"), (2, "b2"), (0, "-")] {
        publish(&mut world, group, body);
    }
    let got: Vec<String> = (0..2)
        .map(|_| match world.get("q").as_slice() {
            [Seen::Got { body, .. }] => body.clone(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(got, ["b1", "-"]);
    assert_eq!(world.get("q"), [Seen::Reply(Reply::GetEmpty)]);
    assert_eq!(ack(&mut world, 1, 1), []);
    assert_eq!(ack(&mut world, 2, 1), [to(2, "a2")]);
}

#[test]
fn a_purge_and_an_expiry_make_room_for_others() {
    let mut world = World::new();
    world.declare_with("q", true, grouped(&[("x-message-ttl", Value::I32(50))]));
    for channel in 2..4 {
        world.open(key(1, channel));
        world.qos(key(1, channel), 1);
        world.consume(key(1, channel), "q", &format!("c{channel}"));
    }
    assert_eq!(publish(&mut world, 1, "1"), [to(2, "1")]);
    for body in ["2", "3"] {
        assert_eq!(publish(&mut world, 1, body), []);
    }
    assert_eq!(world.tick(60), []);
    assert_eq!(world.shard.queues()[0].counters.expired, 2);
    assert_eq!(publish(&mut world, 1, "4"), []);
    let purge = Request::QueuePurge {
        queue: name("q"),
        nowait: true,
    };
    assert_eq!(world.request(key(1, 1), purge), []);
    assert_eq!(publish(&mut world, 1, "5"), []);
    assert_eq!(ack(&mut world, 2, 1), [to(3, "5")]);
}

#[test]
fn a_full_queue_drops_what_is_set_aside_first() {
    let mut world = World::new();
    world.declare_with("q", true, grouped(&[("x-max-length", Value::I32(2))]));
    for channel in 2..4 {
        world.open(key(1, channel));
        world.qos(key(1, channel), 1);
        world.consume(key(1, channel), "q", &format!("c{channel}"));
    }
    for body in ["1", "2", "3", "4"] {
        publish(&mut world, 1, body);
    }
    assert_eq!(world.shard.queues()[0].ready, 2);
    assert_eq!(ack(&mut world, 2, 1), [to(3, "3")]);
}

/// Who looks ahead holds a bounded number of entries; the rest is looked at as room comes.
#[test]
fn the_look_ahead_has_an_end_and_goes_on() {
    let mut world = World::with(ShardSettings {
        content_bytes_max: 1000,
        index_page_entries: 100,
        ..ShardSettings::default()
    });
    world.declare_with("q", true, grouped(&[]));
    let publish = |world: &mut World, group: u8, body: &str| {
        let headers = arguments(&[("group", Value::U8(group))]);
        let properties = menzil_model::Properties {
            headers: Some(headers.as_bytes()),
            delivery_mode: Some(2),
            ..menzil_model::Properties::default()
        };
        let mut bytes = Vec::new();
        properties.write(&mut bytes);
        let publish = menzil_core::Publish {
            exchange: name(""),
            routing_key: name("q"),
            mandatory: false,
            properties: bytes.into(),
            body: vec![bytes::Bytes::copy_from_slice(body.as_bytes())],
        };
        // The invariants are looked at less often than otherwise: that would take minutes.
        world.shard.execute(
            world.now,
            Command::Request {
                channel: key(1, 1),
                request: Request::Publish(publish),
            },
            &mut world.log,
            &mut Vec::new(),
        );
    };
    for number in 0..4200 {
        publish(&mut world, 1, &number.to_string());
    }
    publish(&mut world, 2, "other");
    let mut out = Vec::new();
    for channel in 2..4 {
        world.open(key(1, channel));
        world.qos(key(1, channel), 1);
        let consume = Request::Consume(world.consume_of("q", "c"));
        let channel = key(1, channel);
        let request = consume;
        out.extend(given(&world.execute(Command::Request { channel, request })));
    }
    assert_eq!(
        out,
        [to(2, "0")],
        "the other group is beyond the look-ahead"
    );
    let mut tags = [0, 0, 1, 0];
    let mut holder = 2;
    for number in 1..104 {
        let out = ack(&mut world, holder, tags[usize::from(holder)]);
        assert_eq!(out.len(), 1, "{out:?}");
        holder = out[0].0;
        tags[usize::from(holder)] += 1;
        assert_eq!(out[0].1, number.to_string());
    }
    let out = ack(&mut world, holder, tags[usize::from(holder)]);
    assert_eq!(out.len(), 2, "the other group is in sight now: {out:?}");
    assert!(out.iter().any(|one| one.1 == "other"));
}

#[test]
fn a_restart_keeps_the_order() {
    let mut world = world(ShardSettings::default(), 2, 1);
    for (group, body) in [(1, "a1"), (1, "a2"), (2, "b1"), (2, "b2"), (1, "a3")] {
        publish(&mut world, group, body);
    }
    world.restart();
    let mut all = Vec::new();
    for channel in 2..4 {
        world.open(key(1, channel));
        world.qos(key(1, channel), 1);
        let consume = Request::Consume(world.consume_of("q", "c"));
        all.extend(given(&world.execute(Command::Request {
            channel: key(1, channel),
            request: consume,
        })));
    }
    assert_eq!(all, [to(2, "a1"), to(3, "b1")]);
    assert_eq!(ack(&mut world, 2, 1), [to(2, "a2")]);
    assert_eq!(ack(&mut world, 3, 1), [to(3, "b2")]);
    assert_eq!(ack(&mut world, 3, 2), []);
    assert_eq!(ack(&mut world, 2, 2), [to(2, "a3")]);
}

proptest! {
    #[test]
    fn groups_are_given_as_a_naive_queue_gives_them(
        single_active in prop::bool::weighted(0.2),
        timeout in prop::option::weighted(0.2, 10..30_u64),
        content in prop_oneof![Just(0_u64), Just(300), Just(1 << 20)],
        steps in prop::collection::vec(step(), 0..100),
    ) {
        let queue = grouped(&[
            ("x-single-active-consumer", Value::Bool(single_active)),
            ("x-consumer-timeout", Value::I64(timeout.unwrap_or_default().cast_signed())),
        ]);
        let settings = ShardSettings {
            content_bytes_max: content,
            index_page_entries: 3,
            ..ShardSettings::default()
        };
        let twin = Twin::new(single_active, true).with_timeout(timeout);
        play(World::with(settings), twin, queue, &steps);
    }
}
