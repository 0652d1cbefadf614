//! Delayed retry: while an entry waits to be tried again it expires on time, and its group waits
//! for it. What `basic.get` took is given back in time, too.

use menzil_core::{Command, Effect, Output, Refusal, Rejection, Request, ShardSettings};
use menzil_model::{ChannelId, DeliveryTag, Value};

use crate::dead_letters::letter;
use crate::support::{Seen, World, arguments, body_of, key, name};

const DELAYED: [(&str, Value<'_>); 3] = [
    ("x-delayed-retry-type", Value::LongString(b"all")),
    ("x-delayed-retry-min", Value::I32(1_000)),
    ("x-delayed-retry-max", Value::I32(10_000)),
];
const TTL: (&str, Value<'_>) = ("x-message-ttl", Value::I32(100));

#[derive(Clone, Copy, Debug)]
enum Restart {
    None,
    Crash,
    Checkpoint,
}

const RESTARTS: [Restart; 3] = [Restart::None, Restart::Crash, Restart::Checkpoint];

impl World {
    fn restart_or_not(&mut self, how: Restart) {
        match how {
            Restart::None => {}
            Restart::Crash => self.restart(),
            Restart::Checkpoint => self.restart_from_checkpoint(),
        }
    }

    fn fail_tag(&mut self, channel: u16, tag: u64) -> Vec<Effect> {
        let request = Request::Reject {
            delivery_tag: DeliveryTag(tag),
            multiple: false,
            requeue: true,
            method: Rejection::Reject,
        };
        let channel = key(1, channel);
        self.execute(Command::Request { channel, request })
    }

    fn fail_next(&mut self, queue: &str) {
        let (tag, _) = self.take(queue, false).unwrap();
        self.fail_tag(1, tag);
    }

    fn messages(&self) -> u64 {
        self.shard.summary().messages
    }

    fn take_body(&mut self, queue: &str, no_ack: bool) -> Option<(u64, String)> {
        let (tag, letter) = self.take(queue, no_ack)?;
        Some((tag, letter.body))
    }

    fn declare_grouped(&mut self, more: &[(&str, Value<'_>)]) {
        let mut fields = vec![("x-group-header", Value::LongString(b"group"))];
        fields.extend(DELAYED);
        fields.extend_from_slice(more);
        let seen = self.declare_with("q", true, arguments(&fields));
        assert!(matches!(seen.as_slice(), [Seen::Reply(_)]), "{seen:?}");
    }
}

fn delivered_bodies(effects: &[Effect]) -> Vec<String> {
    let bodies = effects.iter().filter_map(|effect| match effect {
        Effect::Channel {
            output: Output::Deliver { message, .. },
            ..
        } => Some(body_of(message)),
        _ => None,
    });
    bodies.collect()
}

#[test]
fn an_entry_that_waits_expires_on_time() {
    for how in RESTARTS {
        let mut world = World::new();
        let fields = [DELAYED[0], DELAYED[1], DELAYED[2], TTL];
        world.declare_with("work", true, arguments(&fields));
        world.publish("", "work", "m");
        world.fail_next("work");
        world.restart_or_not(how);
        world.tick(99);
        assert_eq!(
            (world.messages(), world.shard.counters().expired),
            (1, 0),
            "{how:?}"
        );
        world.tick(1);
        assert_eq!(
            (world.messages(), world.shard.counters().expired),
            (0, 1),
            "{how:?}"
        );
        assert!(world.log.references.iter().all(|needed| *needed == 0));
        world.tick(2_000);
        world.restart();
        assert_eq!(world.messages(), 0, "{how:?}");
    }
}

#[test]
fn an_entry_that_waits_is_dead_lettered_on_time() {
    for (how, persistent) in [
        (Restart::None, false),
        (Restart::None, true),
        (Restart::Crash, true),
        (Restart::Checkpoint, true),
    ] {
        let mut world = World::with(ShardSettings {
            content_bytes_max: 0,
            ..ShardSettings::default()
        });
        world.declare("dead");
        world.declare_dead_lettering("work", "dead", &[DELAYED[0], DELAYED[1], DELAYED[2], TTL]);
        let mode = Some(if persistent { 2 } else { 1 });
        for body in ["1", "2"] {
            world.publish_as("", "work", body, false, mode, None);
        }
        world.fail_next("work");
        world.restart_or_not(how);
        world.tick(100);
        world.tick_until_still();
        let mut letters = world.letters("dead");
        letters.sort_by(|a, b| a.body.cmp(&b.body));
        let expected = ["1", "2"].map(|body| letter(body, "", &["work expired 1"]));
        assert_eq!(letters, expected, "{how:?} {persistent}");
        assert_eq!(world.messages(), 0);
    }
}

#[test]
fn a_group_waits_for_the_one_that_is_tried_again() {
    for how in RESTARTS {
        let mut world = World::new();
        world.declare_grouped(&[]);
        for (body, group) in [("a1", 1), ("a2", 1), ("b1", 2), ("c1", 0)] {
            world.publish_to_group("q", body, group, true);
        }
        world.fail_next("q");
        world.restart_or_not(how);
        world.tick(500);
        assert_eq!(world.take_body("q", true).unwrap().1, "b1", "{how:?}");
        world.open(key(1, 2));
        let consume = world.consume_of("q", "c");
        let request = Request::Consume(consume);
        let channel = key(1, 2);
        let effects = world.execute(Command::Request { channel, request });
        assert_eq!(delivered_bodies(&effects), ["c1"], "{how:?}");
        let effects = world.pass_time(500);
        assert_eq!(delivered_bodies(&effects), ["a1", "a2"], "{how:?}");
    }
}

#[test]
fn later_failures_of_a_group_do_not_pass_earlier_ones() {
    let mut world = World::new();
    world.declare_grouped(&[]);
    for body in ["1", "2", "3"] {
        world.publish_to_group("q", body, 1, true);
    }
    world.open(key(1, 2));
    world.qos(key(1, 2), 2);
    world.consume(key(1, 2), "q", "c");
    // The first fails twice and waits longer than the second.
    world.fail_tag(2, 1);
    assert_eq!(delivered_bodies(&world.pass_time(999)), [""; 0]);
    assert_eq!(
        delivered_bodies(&world.pass_time(1)),
        ["1"],
        "to who has the second"
    );
    let effects = world.fail_tag(2, 2);
    assert_eq!(delivered_bodies(&effects), [""; 0]);
    world.fail_tag(2, 3);
    assert_eq!(
        delivered_bodies(&world.pass_time(1_000)),
        [""; 0],
        "2 is ready, 1 is not"
    );
    assert_eq!(delivered_bodies(&world.pass_time(1_000)), ["1", "2"]);
}

#[test]
fn a_group_goes_on_when_the_one_it_waits_for_expires() {
    for how in RESTARTS {
        let mut world = World::new();
        world.declare_grouped(&[]);
        let headers = arguments(&[("group", Value::U8(1))]);
        let properties = menzil_model::Properties {
            delivery_mode: Some(2),
            expiration: Some(b"100"),
            headers: Some(headers.as_bytes()),
            ..Default::default()
        };
        world.publish_with("", "q", "brief", false, &properties);
        world.publish_to_group("q", "next", 1, true);
        world.fail_next("q");
        world.restart_or_not(how);
        assert_eq!(world.take_body("q", true), None, "{how:?}");
        world.tick(100);
        assert_eq!(world.take_body("q", true).unwrap().1, "next", "{how:?}");
    }
}

fn impatient() -> World {
    let mut world = World::new();
    let fields = [("x-consumer-timeout", Value::I32(1_000))];
    world.declare_with("q", true, arguments(&fields));
    for body in ["1", "2"] {
        world.publish("", "q", body);
    }
    world
}

#[test]
fn what_was_got_and_not_settled_in_time_closes_the_channel() {
    let mut world = impatient();
    world.open(key(1, 2));
    let get = |no_ack| Request::Get {
        queue: name("q"),
        no_ack,
    };
    world.request(key(1, 2), get(false));
    world.request(key(1, 1), get(true));
    assert_eq!(world.tick(999), []);
    let refusal = Refusal::ConsumerTimeout {
        channel: ChannelId::new(2).unwrap(),
        timeout: 1_000,
    };
    assert_eq!(world.tick(100), [Seen::Refused(refusal)]);
    assert_eq!(world.shard.counters().consumers_timed_out, 1);
    assert_eq!(world.take_body("q", true).unwrap().1, "1");
    assert_eq!(world.shard.deadline(), None);
}

#[test]
fn what_was_got_and_settled_in_time_is_no_trouble() {
    let mut world = impatient();
    let (first, _) = world.take_body("q", false).unwrap();
    world.tick(600);
    let (second, _) = world.take_body("q", false).unwrap();
    world.acknowledge_each(key(1, 1), &[first]);
    assert_eq!(world.tick(600), []);
    world.ack(key(1, 1), second);
    assert_eq!(world.tick(5_000), []);
    assert_eq!(world.shard.deadline(), None);
    let (tag, _) = {
        world.publish("", "q", "3");
        world.take_body("q", false).unwrap()
    };
    let delete = Request::QueueDelete {
        queue: name("q"),
        if_unused: false,
        if_empty: false,
        nowait: true,
    };
    world.request(key(1, 1), delete);
    assert_eq!(world.tick(5_000), [], "the queue is gone, and its limit");
    world.ack(key(1, 1), tag);
}

#[test]
fn a_channel_that_is_closed_has_no_timeout_left() {
    let mut world = impatient();
    world.take_body("q", false).unwrap();
    world.execute(Command::ChannelClosed(key(1, 1)));
    assert_eq!(world.shard.deadline(), None);
}

#[test]
fn a_dead_letter_names_the_records_of_a_large_body() {
    let mut world = World::with(ShardSettings {
        chunk_bytes: 10,
        content_bytes_max: 0,
        ..ShardSettings::default()
    });
    for queue in ["dead", "too"] {
        world.declare(queue);
    }
    world.declare_exchange("x", "fanout", menzil_model::Table::empty());
    world.bind("dead", "x", "");
    world.bind("too", "x", "");
    let fields = [("x-dead-letter-exchange", Value::LongString(b"x"))];
    world.declare_with("work", true, arguments(&fields));
    let large = "0123456789".repeat(50);
    world.publish("", "work", &large);
    let before: usize = world.log.records.iter().map(Vec::len).sum();
    let (tag, _) = world.take("work", false).unwrap();
    world.reject(key(1, 1), tag);
    let after: usize = world.log.records.iter().map(Vec::len).sum();
    assert!(
        after - before < large.len(),
        "{} bytes written",
        after - before
    );
    world.restart();
    assert_eq!(world.drain("dead"), [large.as_str()]);
    world.restart_from_checkpoint();
    assert_eq!(world.drain("too"), [large]);
    assert!(world.log.references.iter().all(|needed| *needed == 0));
}
