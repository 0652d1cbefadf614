//! Entries that come back: counted, limited, delayed, whatever the queue's type.

use menzil_core::{ChannelKey, Command, Effect, Output, Rejection, Request};
use menzil_model::{ConnectionId, DeliveryTag, Escaped, Properties, Value};

use crate::support::{Seen, World, arguments, body_of, key, name};

/// A message and the counts that came with it: failures, and how often it was out.
#[derive(Debug, PartialEq)]
struct Counted {
    tag: u64,
    body: String,
    counts: Option<(i128, i128)>,
}

fn counts(properties: &[u8]) -> (i128, i128) {
    let properties = Properties::parse(properties).unwrap();
    let of = |header: &[u8]| {
        let found = properties.header_fields().find(|(name, _)| *name == header);
        found.map_or(0, |(_, value)| value.as_integer().unwrap())
    };
    (of(b"x-delivery-count"), of(b"x-acquired-count"))
}

impl World {
    fn take_counted(&mut self, queue: &str) -> Option<Counted> {
        let request = Request::Get {
            queue: name(queue),
            no_ack: false,
        };
        let channel = key(1, 1);
        let effects = self.execute(Command::Request { channel, request });
        effects.iter().find_map(|effect| match effect {
            Effect::Channel {
                output:
                    Output::GetOk {
                        message,
                        delivery_tag,
                        properties,
                        ..
                    },
                ..
            } => Some(Counted {
                tag: delivery_tag.0,
                body: body_of(message),
                counts: properties.as_deref().map(counts),
            }),
            _ => None,
        })
    }

    fn give_back(&mut self, channel: ChannelKey, tag: u64, method: Rejection) -> Vec<Seen> {
        self.request(
            channel,
            Request::Reject {
                delivery_tag: DeliveryTag(tag),
                multiple: false,
                requeue: true,
                method,
            },
        )
    }

    /// Takes the next message and fails it.
    fn fail(&mut self, queue: &str) -> Option<(i128, i128)> {
        let counted = self.take_counted(queue).unwrap();
        self.give_back(key(1, 1), counted.tag, Rejection::Reject);
        counted.counts
    }

    fn declare_counting(&mut self, queue: &str, fields: &[(&str, Value<'_>)]) {
        let seen = self.declare_with(queue, true, arguments(fields));
        assert!(matches!(seen.as_slice(), [Seen::Reply(_)]), "{seen:?}");
    }
}

const LIMIT: (&str, Value<'_>) = ("x-delivery-limit", Value::I32(2));
const QUORUM: (&str, Value<'_>) = ("x-queue-type", Value::LongString(b"quorum"));

#[test]
fn a18_the_third_return_is_the_last_on_every_type() {
    for kind in [&[QUORUM, LIMIT][..], &[LIMIT]] {
        let mut world = World::new();
        world.declare("dead");
        let dead = [
            ("x-dead-letter-exchange", Value::LongString(b"")),
            ("x-dead-letter-routing-key", Value::LongString(b"dead")),
        ];
        world.declare_counting("work", &[kind, &dead].concat());
        world.publish("", "work", "poison");
        let seen: Vec<_> = (0..3).map(|_| world.fail("work")).collect();
        assert_eq!(seen, [None, Some((1, 1)), Some((2, 2))]);
        assert_eq!(world.take_counted("work"), None);
        let counted = world.take_counted("dead").unwrap();
        assert_eq!((counted.body.as_str(), counted.counts), ("poison", None));
        assert_eq!(world.shard.counters().limited, 1);
    }
}

#[test]
fn without_a_dead_letter_exchange_the_last_return_drops() {
    let mut world = World::new();
    world.declare_counting("work", &[LIMIT]);
    world.publish("", "work", "poison");
    for _ in 0..3 {
        world.fail("work");
    }
    assert_eq!(world.shard.summary().messages, 0);
    assert_eq!(world.shard.counters().limited, 1);
    world.restart();
    assert_eq!(world.shard.summary().messages, 0);
}

#[test]
fn a_nack_is_told_and_does_not_count_against_the_limit() {
    let mut world = World::new();
    world.declare_counting("work", &[LIMIT]);
    world.publish("", "work", "patient");
    for times in 0..6 {
        let counted = world.take_counted("work").unwrap();
        assert_eq!(counted.counts, (times > 0).then_some((0, times)));
        world.give_back(key(1, 1), counted.tag, Rejection::Nack);
    }
}

#[test]
fn a_lost_channel_counts_and_a_recover_does_not() {
    let mut world = World::new();
    world.declare_counting("work", &[LIMIT]);
    world.publish("", "work", "m");
    world.take_counted("work").unwrap();
    world.request(
        key(1, 1),
        Request::Recover {
            requeue: true,
            reply: true,
        },
    );
    assert_eq!(world.take_counted("work").unwrap().counts, Some((0, 1)));
    world.execute(Command::ConnectionClosed {
        connection: ConnectionId(1),
    });
    world.connect(1);
    world.open(key(1, 1));
    assert_eq!(world.take_counted("work").unwrap().counts, Some((1, 2)));
}

#[test]
fn a_classic_queue_without_a_limit_counts_nothing_and_writes_nothing() {
    let mut world = World::new();
    world.declare("work");
    world.publish("", "work", "m");
    let counted = world.take_counted("work").unwrap();
    let records = world.log.records.len();
    world.give_back(key(1, 1), counted.tag, Rejection::Reject);
    assert_eq!(world.log.records.len(), records);
    assert_eq!(world.take_counted("work").unwrap().counts, None);
}

#[test]
fn counts_survive_crashes_and_checkpoints() {
    for is_checkpoint in [false, true] {
        let mut world = World::new();
        world.declare_counting("work", &[QUORUM]);
        for body in ["1", "2", "3"] {
            world.publish("", "work", body);
        }
        for _ in 0..3 {
            assert!(world.fail("work").is_none_or(|(failed, _)| failed < 3));
        }
        let out = world.take_counted("work").unwrap();
        assert_eq!((out.body.as_str(), out.counts), ("1", Some((3, 3))));
        if is_checkpoint {
            world.restart_from_checkpoint();
        } else {
            world.restart();
        }
        let first = world.take_counted("work").unwrap();
        assert_eq!((first.body.as_str(), first.counts), ("1", Some((3, 3))));
        let second = world.take_counted("work").unwrap();
        assert_eq!((second.body.as_str(), second.counts), ("2", None));
    }
}

fn delayed(kind: &'static [u8], min: i32, max: i32) -> [(&'static str, Value<'static>); 3] {
    [
        ("x-delayed-retry-type", Value::LongString(kind)),
        ("x-delayed-retry-min", Value::I32(min)),
        ("x-delayed-retry-max", Value::I32(max)),
    ]
}

#[test]
fn a_failed_message_waits_longer_each_time_and_others_pass() {
    let mut world = World::new();
    world.declare_counting("work", &delayed(b"all", 100, 250));
    world.publish("", "work", "1");
    world.publish("", "work", "2");
    for wait in [100, 200, 250, 250] {
        let first = world.take_counted("work").unwrap();
        assert_eq!(first.body, "1");
        world.give_back(key(1, 1), first.tag, Rejection::Reject);
        let second = world.take_counted("work").unwrap();
        assert_eq!(second.body, "2", "it passes the one that waits");
        let queues = world.shard.queues();
        assert_eq!((queues[0].ready, queues[0].delayed), (0, 1));
        world.tick(wait - 1);
        assert_eq!(world.take_counted("work"), None);
        world.tick(1);
        assert_eq!(world.shard.queues()[0].ready, 1);
        world.restart();
    }
}

#[test]
fn a_delay_goes_on_through_a_restart_and_a_checkpoint() {
    for is_checkpoint in [false, true] {
        let mut world = World::new();
        world.declare_counting("work", &delayed(b"failed", 1_000, 1_000));
        world.publish("", "work", "1");
        world.publish("", "work", "2");
        world.fail("work");
        world.tick(400);
        if is_checkpoint {
            world.restart_from_checkpoint();
        } else {
            world.restart();
        }
        assert_eq!(world.shard.queues()[0].delayed, 1);
        world.tick(599);
        assert_eq!(world.shard.queues()[0].ready, 1);
        world.tick(1);
        assert_eq!(world.drain("work"), ["1", "2"], "back in its place");
        world.restart();
        assert_eq!(world.shard.summary().messages, 0);
    }
}

#[test]
fn only_the_returns_that_are_meant_are_delayed() {
    for (kind, method, waits) in [
        (&b"failed"[..], Rejection::Nack, 0),
        (b"failed", Rejection::Reject, 1),
        (b"returned", Rejection::Nack, 1),
        (b"returned", Rejection::Reject, 0),
        (b"disabled", Rejection::Reject, 0),
    ] {
        let mut world = World::new();
        world.declare_counting("work", &delayed(kind, 50, 50));
        world.publish("", "work", "m");
        let counted = world.take_counted("work").unwrap();
        world.give_back(key(1, 1), counted.tag, method);
        let queues = world.shard.queues();
        assert_eq!(queues[0].delayed, waits, "{} {method:?}", Escaped(kind));
    }
}

#[test]
fn a_purge_leaves_what_waits_between_ready_entries() {
    let mut world = World::new();
    world.declare_counting("work", &delayed(b"all", 50, 50));
    for body in ["first", "waits", "last"] {
        world.publish("", "work", body);
    }
    let tags: Vec<u64> = (0..2)
        .map(|_| world.take_counted("work").unwrap().tag)
        .collect();
    for tag in tags {
        world.give_back(key(1, 1), tag, Rejection::Nack);
        world.tick(30);
    }
    world.tick(0);
    assert_eq!(world.shard.queues()[0].ready, 2);
    let purge = Request::QueuePurge {
        queue: name("work"),
        nowait: false,
    };
    world.request(key(1, 1), purge);
    world.tick(50);
    world.restart();
    assert_eq!(world.drain("work"), ["waits"]);
}

#[test]
fn a_waiting_entry_goes_with_its_queue_and_is_not_purged() {
    let mut world = World::new();
    world.declare_counting("work", &delayed(b"all", 1_000, 1_000));
    world.publish("", "work", "m");
    world.fail("work");
    let purge = Request::QueuePurge {
        queue: name("work"),
        nowait: false,
    };
    world.request(key(1, 1), purge);
    assert_eq!(world.shard.queues()[0].delayed, 1);
    let delete = Request::QueueDelete {
        queue: name("work"),
        if_unused: false,
        if_empty: true,
        nowait: false,
    };
    world.request(key(1, 1), delete);
    assert_eq!(world.shard.summary().messages, 0);
    assert!(world.log.references.iter().all(|needed| *needed == 0));
}
