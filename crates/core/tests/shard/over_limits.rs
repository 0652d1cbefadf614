//! Refused publishes that are dead-lettered before their publisher hears of it, and what comes
//! back to a queue over its length limit: it goes before anybody gets a message.

use menzil_core::{ChannelKey, Command, Effect, Output, Rejection, Request, ShardSettings};
use menzil_model::fact::Content;
use menzil_model::{DeliveryTag, Fact, Properties, QueueId, Value};

use crate::support::{Seen, World, arguments, delivered, key, seen};

const MAX_ONE: (&str, Value<'_>) = ("x-max-length", Value::I32(1));
const REFUSES_AND_KEEPS: (&str, Value<'_>) =
    ("x-overflow", Value::LongString(b"reject-publish-dlx"));

/// What has never to be read.
fn urgent(priority: u8, expiration: Option<&str>) -> Properties<'_> {
    Properties {
        delivery_mode: Some(1),
        priority: Some(priority),
        expiration: expiration.map(str::as_bytes),
        ..Properties::default()
    }
}

fn nack_all(world: &mut World, channel: ChannelKey) -> Vec<Seen> {
    let request = Request::Reject {
        delivery_tag: DeliveryTag(0),
        multiple: true,
        requeue: true,
        method: Rejection::Nack,
    };
    world.request(channel, request)
}

/// The index that a nack waits for.
fn nacked_after(effects: &[Effect]) -> Option<u64> {
    effects.iter().find_map(|effect| match effect {
        Effect::Channel {
            after,
            output: Output::Confirm {
                accepted: false, ..
            },
            ..
        } => Some(*after),
        _ => None,
    })
}

/// The index of the last record that puts a message into the queue.
fn last_published(world: &World, queue: u64) -> Option<u64> {
    let enters = |fact: &Fact| match fact {
        Fact::Published(published) => {
            let mut entries = published.entries.iter();
            entries.any(|entry| entry.queue == QueueId(queue))
        }
        _ => false,
    };
    let last = world.log.records.iter().rposition(|record| {
        let fact = Fact::decode(record, Content::Skip).unwrap();
        fact.parts().iter().any(enters)
    });
    last.map(|at| at as u64 + 1)
}

/// Queue 1 takes letters, 2 refuses into 1, 3 refuses into 2; 2 and 3 are full.
fn refusing_chain() -> World {
    let mut world = World::new();
    world.declare("dead");
    for (queue, to) in [("near", "dead"), ("far", "near")] {
        world.declare_dead_lettering(queue, to, &[MAX_ONE, REFUSES_AND_KEEPS]);
        world.publish("", queue, "first");
    }
    world.confirm_select();
    world
}

fn publish(world: &mut World, queue: &str, body: &str) -> Vec<Effect> {
    let request = world.publish_request_to(queue, body);
    let channel = key(1, 1);
    world.execute(Command::Request { channel, request })
}

#[test]
fn a_nack_waits_for_the_copy_and_for_the_copy_of_that() {
    for queue in ["near", "far"] {
        let mut world = refusing_chain();
        let effects = publish(&mut world, queue, "refused");
        let after = nacked_after(&effects);
        assert!(after.is_some(), "{queue}");
        assert_eq!(after, last_published(&world, 1), "{queue}");
        assert_eq!(world.letters("dead").remove(0).body, "refused");
    }
}

#[test]
fn a_nack_comes_when_a_later_turn_wrote_the_copy() {
    let mut world = refusing_chain();
    // More than one turn moves: the copy of the copy is the next one's.
    let large = "x".repeat(5 << 20);
    let effects = publish(&mut world, "far", &large);
    assert_eq!(nacked_after(&effects), None);
    let effects = world.pass_time(0);
    assert_eq!(nacked_after(&effects), last_published(&world, 1));
    assert_eq!(seen(&effects), [Seen::Nacked(1)]);
}

#[test]
fn a_channel_that_is_closed_hears_no_late_nack() {
    let mut world = refusing_chain();
    publish(&mut world, "far", &"x".repeat(5 << 20));
    world.execute(Command::ChannelClosed(key(1, 1)));
    world.open(key(1, 1));
    world.confirm_select();
    assert_eq!(nacked_after(&world.pass_time(0)), None);
    assert_eq!(world.letters("dead").len(), 1);
}

#[test]
fn a_refusal_without_a_copy_is_told_at_once() {
    let mut world = World::new();
    world.declare_dead_lettering("full", "nowhere", &[MAX_ONE, REFUSES_AND_KEEPS]);
    world.publish("", "full", "first");
    world.confirm_select();
    let effects = publish(&mut world, "full", "refused");
    assert_eq!(seen(&effects), [Seen::Nacked(1)]);
}

#[test]
fn what_comes_back_over_a_limit_is_dead_lettered_and_not_delivered() {
    let mut world = World::new();
    world.declare("dead");
    let max = ("x-max-length", Value::I32(2));
    world.declare_dead_lettering("work", "dead", &[max]);
    world.open(key(1, 2));
    world.qos(key(1, 2), 5);
    world.consume(key(1, 2), "work", "c");
    for body in 1..=7 {
        world.publish("", "work", &body.to_string());
    }
    let mut back = nack_all(&mut world, key(1, 2));
    back.retain(|seen| matches!(seen, Seen::Delivered { .. }));
    assert_eq!(back, [delivered(6, "6", false), delivered(7, "7", false)]);
    let dead: Vec<String> = world.letters("dead").into_iter().map(|l| l.body).collect();
    assert_eq!(dead, ["1", "2", "3", "4", "5"]);
}

/// Fills a queue of that limit, all of which goes out, and fills it again.
fn overfilled(dead_letters: bool, count: usize, max: i32) -> World {
    let mut world = World::with(ShardSettings {
        credit_bytes: 1 << 30,
        content_bytes_max: 0,
        ..ShardSettings::default()
    });
    world.declare("dead");
    let max_length = ("x-max-length", Value::I32(max));
    if dead_letters {
        world.declare_dead_lettering("work", "dead", &[max_length]);
    } else {
        world.declare_with("work", true, arguments(&[max_length]));
    }
    world.open(key(1, 2));
    world.consume(key(1, 2), "work", "c");
    for body in 0..count {
        let request = world.publish_request_to("work", &body.to_string());
        let channel = key(1, 1);
        let command = Command::Request { channel, request };
        let mut effects = Vec::new();
        (world.shard).execute(world.now, command, &mut world.log, &mut effects);
    }
    let cancel = Request::Cancel {
        consumer_tag: crate::support::name("c"),
        nowait: true,
    };
    world.request(key(1, 2), cancel);
    let bodies: Vec<String> = (0..max).map(|body| format!("late {body}")).collect();
    world.fill("", "work", &bodies);
    world
}

#[test]
fn a_turn_drops_no_more_than_a_slice_of_what_came_back() {
    let mut world = overfilled(false, 10_400, 200);
    world.execute(Command::ChannelClosed(key(1, 2)));
    assert_eq!(world.ready("work"), 600);
    let late = world.take("work", true).map(|(_, letter)| letter.body);
    assert_eq!(late.as_deref(), Some("late 0"));
    world.tick(0);
    assert_eq!(world.ready("work"), 199);
    world.restart();
    assert_eq!(world.ready("work"), 199);
}

#[test]
fn nobody_gets_what_is_over_the_limit_while_it_waits_to_be_dead_lettered() {
    let mut world = overfilled(true, 1_300, 20);
    world.answer_fetches = false;
    let asked = world.execute(Command::ChannelClosed(key(1, 2)));
    assert!(world.dying("work") <= 512);
    assert!(world.ready("work") > 20);
    world.open(key(1, 3));
    world.qos(key(1, 3), 5);
    let consumed = world.consume(key(1, 3), "work", "c");
    let is_delivery = |seen: &Seen| matches!(seen, Seen::Delivered { .. });
    assert!(!consumed.iter().any(is_delivery), "{consumed:?}");
    assert_eq!(
        world.take("work", true),
        None,
        "it waits, and answers later"
    );
    world.answer_fetches = true;
    let mut seen_later = seen(&world.answer(&asked));
    seen_later.extend(world.tick_until_still());
    let bodies: Vec<&str> = seen_later
        .iter()
        .filter_map(|seen| match seen {
            Seen::Delivered { body, .. } | Seen::Got { body, .. } => Some(body.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(bodies.len(), 6);
    assert!(
        bodies.iter().all(|body| body.starts_with("late")),
        "{bodies:?}"
    );
    let dead: Vec<String> = world.letters("dead").into_iter().map(|l| l.body).collect();
    let expected: Vec<String> = (0..1_300).map(|body| body.to_string()).collect();
    assert_eq!(dead, expected);
}

#[test]
fn what_is_past_its_time_is_in_the_way_of_nothing_that_comes_back() {
    let mut world = World::new();
    world.declare_with("q", true, arguments(&[MAX_ONE]));
    world.publish("", "q", "stays");
    world.get("q");
    world.publish_as("", "q", "goes", false, Some(2), Some("5"));
    world.get("q");
    world.tick(10);
    nack_all(&mut world, key(1, 1));
    assert_eq!(world.drain("q"), ["stays"]);
}

#[test]
fn what_rests_lets_nothing_be_dropped_that_a_consumer_takes() {
    let mut world = World::new();
    let rests = [
        MAX_ONE,
        ("x-delayed-retry-type", Value::LongString(b"all")),
        ("x-delayed-retry-min", Value::I32(100)),
    ];
    world.declare_with("q", true, arguments(&rests));
    world.consume(key(1, 1), "q", "t");
    world.publish("", "q", "rests");
    nack_all(&mut world, key(1, 1));
    let channel = key(1, 2);
    world.open(channel);
    world.request(channel, Request::TxSelect);
    for body in ["a", "b"] {
        let publish = world.publish_request_to("q", body);
        world.request(channel, publish);
    }
    let seen = world.request(channel, Request::TxCommit);
    let handed = [delivered(2, "a", false), delivered(3, "b", false)];
    assert!(handed.iter().all(|one| seen.contains(one)), "{seen:?}");
}

#[test]
fn a_letter_finds_the_consumer_that_what_came_back_leaves_room_for() {
    for dead_letters in [true, false] {
        let mut world = World::new();
        let limits = [MAX_ONE, ("x-max-priority", Value::U8(5))];
        if dead_letters {
            world.declare_dead_lettering("work", "nowhere", &limits);
        } else {
            world.declare_with("work", true, arguments(&limits));
        }
        world.declare_dead_lettering("source", "work", &[]);
        world.publish_with("", "source", "letter", false, &urgent(2, Some("5")));
        world.get("source");
        world.qos(key(1, 1), 5);
        world.consume(key(1, 1), "work", "c");
        world.publish_with("", "work", "first", false, &urgent(3, None));
        world.publish_with("", "work", "second", false, &urgent(0, None));
        world.tick(10);
        // The letter is on its way before the queue was looked at to which two come back.
        let recover = Request::Recover {
            requeue: true,
            reply: true,
        };
        let mut seen = world.request(key(1, 1), recover);
        seen.retain(|seen| matches!(seen, Seen::Delivered { .. }));
        let expected = [delivered(4, "second", true), delivered(5, "letter", false)];
        assert_eq!(seen, expected, "{dead_letters}");
    }
}
