//! Whatever a client got before a crash comes with `redelivered` after it, from the same queue:
//! for random work on priorities, delays, dead letters, groups and retries, and a crash that leaves
//! any part of the journal that was not committed. And whatever happened: who has room gets it all.

use std::collections::BTreeSet;

use bytes::Bytes;
use menzil_core::{
    Command, Effect, ExchangeBind, Output, Publish, Rejection, Reply, Request, ShardSettings,
};
use menzil_model::{DeliveryTag, Properties, Table, TableBuilder, Value};
use proptest::prelude::*;

use crate::support::{Crash, Seen, World, arguments, body_of, key, name};

/// Messages go from one to the next as dead letters, so each is in each of them once.
const QUEUES: [&str; 3] = ["a", "b", "c"];

#[derive(Clone, Debug)]
enum Step {
    Publish {
        /// To the first queue, or to the exchange that keeps it for a while.
        delay: Option<u8>,
        priority: u8,
        group: u8,
        persistent: bool,
        expires: bool,
        large: bool,
    },
    Consume {
        queue: usize,
        prefetch: u16,
        no_ack: bool,
    },
    Get {
        queue: usize,
    },
    Settle {
        held: u8,
        how: How,
    },
    Close {
        channel: u16,
    },
    Wait {
        milliseconds: u64,
    },
    /// The journal is committed up to here.
    Commit,
    Checkpoint,
    /// So much of what was not committed is left, in parts of 256.
    Crash {
        left: u8,
    },
    Stop,
}

#[derive(Clone, Copy, Debug)]
enum How {
    Acknowledge,
    Requeue,
    Fail,
    Reject,
}

fn step() -> impl Strategy<Value = Step> {
    let how = prop_oneof![
        2 => Just(How::Acknowledge),
        1 => Just(How::Requeue),
        1 => Just(How::Fail),
        3 => Just(How::Reject),
    ];
    prop_oneof![
        12 => (
            prop::option::weighted(0.4, 1..20_u8),
            0..4_u8,
            0..3_u8,
            prop::bool::weighted(0.8),
            prop::bool::weighted(0.2),
            prop::bool::weighted(0.1),
        )
            .prop_map(|(delay, priority, group, persistent, expires, large)| Step::Publish {
                delay,
                priority,
                group,
                persistent,
                expires,
                large,
            }),
        3 => (0..3_usize, 1..6_u16, prop::bool::weighted(0.2))
            .prop_map(|(queue, prefetch, no_ack)| Step::Consume { queue, prefetch, no_ack }),
        3 => (0..3_usize).prop_map(|queue| Step::Get { queue }),
        8 => (any::<u8>(), how).prop_map(|(held, how)| Step::Settle { held, how }),
        1 => (2..5_u16).prop_map(|channel| Step::Close { channel }),
        4 => (0..15_u64).prop_map(|milliseconds| Step::Wait { milliseconds }),
        2 => Just(Step::Commit),
        1 => Just(Step::Checkpoint),
        2 => any::<u8>().prop_map(|left| Step::Crash { left }),
        1 => Just(Step::Stop),
    ]
}

/// What went to a client.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Handed {
    queue: usize,
    body: String,
}

struct Run {
    world: World,
    committed: usize,
    checkpoint: Option<(usize, Vec<Vec<u8>>)>,
    published: u64,
    consumers: u64,
    /// Channel and tag.
    held: Vec<(u16, u64)>,
    /// What is to leave once so much is committed.
    waiting: Vec<(u64, Handed)>,
    /// What clients got since the last start, and before.
    live: BTreeSet<Handed>,
    before: BTreeSet<Handed>,
}

fn declare(world: &mut World, more: &[(&str, Value<'_>)]) {
    world.declare_exchange(
        "later",
        "x-delayed-message",
        arguments(&[("x-delayed-type", Value::LongString(b"fanout"))]),
    );
    for (at, queue) in QUEUES.iter().enumerate() {
        let mut fields = more.to_vec();
        if let Some(next) = QUEUES.get(at + 1) {
            let exchange: &[u8] = if at == 0 { b"slow" } else { b"" };
            fields.push(("x-dead-letter-exchange", Value::LongString(exchange)));
            fields.push((
                "x-dead-letter-routing-key",
                Value::LongString(next.as_bytes()),
            ));
        }
        let seen = world.declare_with(queue, true, arguments(&fields));
        assert!(matches!(
            seen.as_slice(),
            [Seen::Reply(Reply::QueueDeclareOk { .. })]
        ));
    }
    world.bind("a", "later", "");
    // A letter that has `x-delay` waits once more.
    world.declare_exchange(
        "slow",
        "x-delayed-message",
        arguments(&[("x-delayed-type", Value::LongString(b"fanout"))]),
    );
    world.declare_exchange("on", "fanout", Table::empty());
    world.bind("b", "on", "");
    let bind = Request::ExchangeBind(ExchangeBind {
        destination: name("on"),
        source: name("slow"),
        routing_key: name(""),
        nowait: false,
        arguments: Table::empty(),
    });
    assert_eq!(
        world.request(key(1, 1), bind),
        [Seen::Reply(Reply::ExchangeBindOk)]
    );
}

impl Run {
    fn new(settings: ShardSettings, more: &[(&str, Value<'_>)]) -> Self {
        let mut world = World::with(settings);
        declare(&mut world, more);
        let committed = world.log.records.len();
        let mut run = Self {
            world,
            committed,
            checkpoint: None,
            published: 0,
            consumers: 0,
            held: Vec::new(),
            waiting: Vec::new(),
            live: BTreeSet::new(),
            before: BTreeSet::new(),
        };
        run.open();
        run
    }

    fn open(&mut self) {
        for channel in 2..5 {
            self.world.open(key(1, channel));
        }
    }

    fn request(&mut self, channel: u16, request: Request) -> Vec<Effect> {
        let channel = key(1, channel);
        self.world.execute(Command::Request { channel, request })
    }

    fn publish(&mut self, step: &Step) -> Vec<Effect> {
        let &Step::Publish {
            delay,
            priority,
            group,
            persistent,
            expires,
            large,
        } = step
        else {
            return Vec::new();
        };
        self.published += 1;
        let mut headers = TableBuilder::new();
        if let Some(delay) = delay {
            headers = headers.field("x-delay", Value::U8(delay));
        }
        if group > 0 {
            headers = headers.field("group", Value::U8(group));
        }
        let headers = headers.build();
        let properties = Properties {
            delivery_mode: Some(if persistent { 2 } else { 1 }),
            priority: Some(priority),
            headers: Some(headers.as_bytes()),
            expiration: expires.then_some(b"7"),
            ..Properties::default()
        };
        let mut bytes = Vec::new();
        properties.write(&mut bytes);
        let mut body = self.published.to_string();
        if large {
            body.push_str(&".".repeat(100));
        }
        let chunk = self.world.settings.chunk_bytes;
        let body = body.as_bytes().chunks(chunk);
        let is_kept = delay.is_some_and(|delay| delay % 2 == 0);
        let publish = Request::Publish(Publish {
            exchange: name(if is_kept { "later" } else { "" }),
            routing_key: name("a"),
            mandatory: false,
            properties: bytes.into(),
            body: body.map(Bytes::copy_from_slice).collect(),
        });
        self.request(1, publish)
    }

    fn take(&mut self, step: &Step) -> Result<(), TestCaseError> {
        let effects = match step {
            Step::Publish { .. } => self.publish(step),
            Step::Consume {
                queue,
                prefetch,
                no_ack,
            } => {
                self.consumers += 1;
                let channel = 2 + (self.consumers % 3) as u16;
                self.world.qos(key(1, channel), *prefetch);
                // The tag tells the queue, and whether there is something to settle.
                let tag = format!("{queue} {} {no_ack}", self.consumers);
                let mut consume = self.world.consume_of(QUEUES[*queue], &tag);
                consume.no_ack = *no_ack;
                self.request(channel, Request::Consume(consume))
            }
            Step::Get { queue } => {
                let get = Request::Get {
                    queue: name(QUEUES[*queue]),
                    no_ack: false,
                };
                let effects = self.request(1, get);
                return self.look(&effects, Some(*queue));
            }
            Step::Settle { held, how } if !self.held.is_empty() => {
                let (channel, tag) = self.held.remove(usize::from(*held) % self.held.len());
                self.request(channel, settle(tag, *how))
            }
            Step::Settle { .. } => Vec::new(),
            Step::Close { channel } => {
                self.held.retain(|(of, _)| of != channel);
                self.world.execute(Command::ChannelOpened(key(1, *channel)))
            }
            Step::Wait { milliseconds } => self.world.pass_time(*milliseconds),
            Step::Commit => {
                self.commit(self.world.log.records.len());
                Vec::new()
            }
            Step::Checkpoint => {
                self.checkpoint = Some(self.world.checkpoint());
                Vec::new()
            }
            Step::Crash { left } => {
                self.crash(usize::from(*left));
                Vec::new()
            }
            Step::Stop => {
                self.world.shard.stop(&mut self.world.log);
                self.checkpoint = None;
                self.crash(256);
                Vec::new()
            }
        };
        self.look(&effects, None)
    }

    fn commit(&mut self, committed: usize) {
        self.committed = self.committed.max(committed);
        let leaves = |waiting: &(u64, Handed)| waiting.0 <= self.committed as u64;
        let (left, kept) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(leaves);
        self.waiting = kept;
        let left: Vec<(u64, Handed)> = left;
        self.live.extend(left.into_iter().map(|(_, handed)| handed));
    }

    fn crash(&mut self, left: usize) {
        let records = self.world.log.records.len();
        let kept = self.committed + (records - self.committed) * left / 256;
        // Until now anything up to there may have left.
        self.commit(kept);
        let usable = |checkpoint: &(usize, Vec<Vec<u8>>)| checkpoint.0 <= kept;
        let checkpoint = self.checkpoint.take().filter(usable);
        self.world.crash(Crash { kept, checkpoint });
        self.before.append(&mut self.live);
        self.waiting.clear();
        self.held.clear();
        self.open();
    }

    /// All that is left goes to consumers with room for it.
    fn take_all(&mut self) -> Result<(), TestCaseError> {
        for channel in 1..5 {
            self.take(&Step::Close { channel })?;
        }
        // What expires now may be delayed once more on its way.
        for milliseconds in [5000, 100, 100] {
            self.take(&Step::Wait { milliseconds })?;
        }
        for queue in 0..QUEUES.len() {
            self.take(&Step::Consume {
                queue,
                prefetch: 1000,
                no_ack: false,
            })?;
        }
        prop_assert!(self.world.shard.delays().iter().all(|of| of.count == 0));
        for queue in self.world.shard.queues() {
            prop_assert_eq!((queue.ready, queue.delayed), (0, 0), "a queue stands still");
        }
        Ok(())
    }

    /// Notes what goes to clients, and what is to be flagged.
    fn look(&mut self, effects: &[Effect], got: Option<usize>) -> Result<(), TestCaseError> {
        for effect in effects {
            let Effect::Channel { to, after, output } = effect else {
                continue;
            };
            let (queue, held, redelivered, message) = match output {
                Output::Refused { .. } => {
                    // It held for too long what it got.
                    self.held.retain(|(of, _)| *of != to.channel.number());
                    self.world.open(*to);
                    continue;
                }
                Output::Deliver {
                    consumer_tag,
                    delivery_tag,
                    redelivered,
                    message,
                    ..
                } => {
                    let consumer = consumer_tag.to_string();
                    let queue = consumer.split_once(' ').unwrap().0.parse().unwrap();
                    let held = consumer.ends_with("false").then_some(delivery_tag.0);
                    (queue, held, redelivered, message)
                }
                Output::GetOk {
                    delivery_tag,
                    redelivered,
                    message,
                    ..
                } => (got.unwrap(), Some(delivery_tag.0), redelivered, message),
                _ => continue,
            };
            let body = body_of(message);
            let handed = Handed { queue, body };
            prop_assert!(
                *redelivered || !self.before.contains(&handed) && !self.live.contains(&handed),
                "{handed:?} came again as if for the first time"
            );
            self.held.extend(held.map(|tag| (to.channel.number(), tag)));
            self.waiting.push((*after, handed));
        }
        self.commit(self.committed);
        Ok(())
    }
}

fn settle(tag: u64, how: How) -> Request {
    let delivery_tag = DeliveryTag(tag);
    let reject = |requeue, method| Request::Reject {
        delivery_tag,
        multiple: false,
        requeue,
        method,
    };
    match how {
        How::Acknowledge => Request::Ack {
            delivery_tag,
            multiple: false,
        },
        How::Requeue => reject(true, Rejection::Nack),
        How::Fail => reject(true, Rejection::Reject),
        How::Reject => reject(false, Rejection::Reject),
    }
}

fn play(settings: ShardSettings, features: u8, steps: &[Step]) -> Result<(), TestCaseError> {
    let all = [
        ("x-max-priority", Value::U8(3)),
        ("x-delivery-limit", Value::I32(1)),
        ("x-delayed-retry-type", Value::LongString(b"all")),
        ("x-delayed-retry-min", Value::I32(5)),
        ("x-single-active-consumer", Value::Bool(true)),
        ("x-group-header", Value::LongString(b"group")),
        ("x-consumer-timeout", Value::I32(30)),
    ];
    let chosen = |bit: u8| features & (1 << bit) != 0;
    let mut more = Vec::new();
    more.extend(chosen(0).then_some(all[0]));
    more.extend(chosen(1).then_some(all[1]));
    more.extend(chosen(2).then_some(all[2]));
    more.extend(chosen(2).then_some(all[3]));
    more.extend(chosen(3).then_some(all[4]));
    more.extend(chosen(4).then_some(all[5]));
    more.extend(chosen(5).then_some(all[6]));
    let mut run = Run::new(settings, &more);
    for step in steps {
        run.take(step)?;
    }
    run.take_all()?;
    run.take(&Step::Crash { left: 0 })?;
    run.take_all()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_a_client_got_before_a_crash_comes_redelivered(
        content_bytes_max in prop_oneof![Just(0), Just(1 << 20)],
        index_page_entries in prop_oneof![Just(2), Just(256)],
        features in 0..64_u8,
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let settings = ShardSettings {
            content_bytes_max,
            index_page_entries,
            chunk_bytes: 64,
            ..ShardSettings::default()
        };
        play(settings, features, &steps)?;
    }
}
