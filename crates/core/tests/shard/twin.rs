//! A naive queue with consumers: everything is looked at anew for every message. What it expects
//! is compared with what a shard does.

use std::collections::BTreeMap;

use menzil_core::{ChannelKey, Command, Effect, Output, Request};
use menzil_model::{ChannelId, DeliveryTag, Table, Value};
use proptest::prelude::*;

use crate::support::{World, arguments, body_of, key, name};

/// Groups that messages are of; 0 is none.
pub(crate) const GROUPS: u8 = 5;

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Publish {
        group: u8,
        persistent: bool,
    },
    Consume {
        channel: u16,
        priority: i64,
        prefetch: u16,
        no_ack: bool,
    },
    Cancel {
        consumer: u8,
    },
    Settle {
        held: u8,
        requeue: bool,
    },
    Get,
    Close {
        channel: u16,
    },
    Wait {
        milliseconds: u64,
    },
    Purge,
    Restart,
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    let channel = 2..5_u16;
    prop_oneof![
        10 => (0..GROUPS, any::<bool>())
            .prop_map(|(group, persistent)| Step::Publish { group, persistent }),
        3 => (channel.clone(), -1..3_i64, 1..4_u16, prop::bool::weighted(0.1)).prop_map(
            |(channel, priority, prefetch, no_ack)| {
                Step::Consume { channel, priority, prefetch, no_ack }
            }
        ),
        1 => any::<u8>().prop_map(|consumer| Step::Cancel { consumer }),
        8 => (any::<u8>(), prop::bool::weighted(0.3))
            .prop_map(|(held, requeue)| Step::Settle { held, requeue }),
        1 => Just(Step::Get),
        1 => channel.prop_map(|channel| Step::Close { channel }),
        2 => (0..20_u64).prop_map(|milliseconds| Step::Wait { milliseconds }),
        1 => prop::bool::weighted(0.3).prop_map(|purge| {
            if purge { Step::Purge } else { Step::Restart }
        }),
    ]
}

/// A delivery: to which channel, consumer and tag, of which message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Given {
    channel: u16,
    consumer: String,
    tag: u64,
    body: String,
}

#[derive(Clone, Debug)]
struct Consumer {
    channel: u16,
    tag: String,
    age: u64,
    priority: i64,
    prefetch: usize,
    no_ack: bool,
    /// Those with lower numbers have the earlier turn.
    turn: u64,
}

#[derive(Clone, Debug)]
struct Held {
    channel: u16,
    tag: u64,
    sequence: u64,
    group: u8,
    persistent: bool,
    /// Age of the consumer; `None` where it was got.
    consumer: Option<u64>,
    since: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Twin {
    single_active: bool,
    grouped: bool,
    ready: BTreeMap<u64, (u8, bool)>,
    held: Vec<Held>,
    consumers: Vec<Consumer>,
    active: Option<u64>,
    tags: BTreeMap<u16, u64>,
    published: u64,
    ages: u64,
    turns: u64,
    given: Vec<Given>,
    /// `x-consumer-timeout`, short enough to be kept to the millisecond.
    timeout: Option<u64>,
    now: u64,
}

impl Twin {
    pub(crate) fn new(single_active: bool, grouped: bool) -> Self {
        Self {
            single_active,
            grouped,
            ..Self::default()
        }
    }

    pub(crate) fn with_timeout(self, timeout: Option<u64>) -> Self {
        Self { timeout, ..self }
    }

    fn holds(&self, age: u64) -> usize {
        self.held.iter().filter(|h| h.consumer == Some(age)).count()
    }

    fn has_room(&self, consumer: &Consumer) -> bool {
        consumer.no_ack || self.holds(consumer.age) < consumer.prefetch
    }

    /// Who may take messages, in the order of their turns.
    fn line(&mut self) -> Vec<Consumer> {
        let mut line = self.consumers.clone();
        if !self.single_active {
            line.sort_by_key(|one| (-one.priority, one.turn));
            return line;
        }
        line.sort_by_key(|one| (-one.priority, one.age));
        let active = line
            .iter()
            .find(|one| Some(one.age) == self.active)
            .cloned();
        let Some(first) = line.first() else {
            self.active = None;
            return line;
        };
        match active {
            Some(active) if active.priority >= first.priority => vec![active],
            Some(active) if self.holds(active.age) > 0 => Vec::new(),
            _ => {
                self.active = Some(first.age);
                vec![first.clone()]
            }
        }
    }

    /// The next message and who gets it.
    fn next(&mut self) -> Option<(u64, Consumer)> {
        let line = self.line();
        let able: Vec<_> = line.into_iter().filter(|one| self.has_room(one)).collect();
        for (sequence, (group, _)) in &self.ready {
            let taker = match self.out_of(*group) {
                None => able.first(),
                Some(held) => able.iter().find(|one| Some(one.age) == held.consumer),
            };
            if let Some(taker) = taker {
                return Some((*sequence, taker.clone()));
            }
            if !self.grouped {
                return None;
            }
        }
        None
    }

    /// A message of that group that is out, where groups matter.
    fn out_of(&self, group: u8) -> Option<&Held> {
        let is_group = self.grouped && group != 0;
        let mut held = self.held.iter();
        held.find(|held| is_group && held.group == group)
    }

    fn next_tag(&mut self, channel: u16) -> u64 {
        let tag = self.tags.entry(channel).or_default();
        *tag += 1;
        *tag
    }

    fn deliver(&mut self) {
        while let Some((sequence, taker)) = self.next() {
            let (group, persistent) = self.ready.remove(&sequence).unwrap();
            let tag = self.next_tag(taker.channel);
            if !self.single_active && self.out_of(group).is_none() {
                self.has_turn(&taker);
            }
            self.given.push(Given {
                channel: taker.channel,
                consumer: taker.tag.clone(),
                tag,
                body: sequence.to_string(),
            });
            if !taker.no_ack {
                self.held.push(Held {
                    channel: taker.channel,
                    tag,
                    sequence,
                    group,
                    persistent,
                    consumer: Some(taker.age),
                    since: self.now,
                });
            }
        }
    }

    /// It goes behind its equals, with those before it that could not take theirs.
    fn has_turn(&mut self, taker: &Consumer) {
        let (priority, turn) = (taker.priority, taker.turn);
        let mut passed: Vec<&mut Consumer> = (self.consumers.iter_mut())
            .filter(|one| one.priority == priority && one.turn <= turn)
            .collect();
        passed.sort_by_key(|one| one.turn);
        for one in passed {
            self.turns += 1;
            one.turn = self.turns;
        }
    }

    fn put_back(&mut self, held: &Held) {
        let entry = (held.group, held.persistent);
        self.ready.insert(held.sequence, entry);
    }

    fn close(&mut self, channel: u16) {
        self.consumers.retain(|one| one.channel != channel);
        let (gone, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut self.held)
            .into_iter()
            .partition(|held| held.channel == channel);
        self.held = kept;
        for held in gone {
            self.put_back(&held);
        }
        self.tags.remove(&channel);
    }

    /// Those who left something out for too long go, and what they hold goes back.
    fn time_out(&mut self) -> Vec<String> {
        let Some(timeout) = self.timeout else {
            return Vec::new();
        };
        let is_due = |held: &&Held| held.consumer.is_some() && held.since + timeout <= self.now;
        let due = self.held.iter().filter(is_due);
        // A consumer that was cancelled before leaves its deliveries with the channel.
        let late: Vec<Consumer> = (self.consumers.iter())
            .filter(|one| due.clone().any(|held| held.consumer == Some(one.age)))
            .cloned()
            .collect();
        for one in &late {
            self.consumers.retain(|other| other.age != one.age);
            let (back, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut self.held)
                .into_iter()
                .partition(|held| held.consumer == Some(one.age));
            self.held = kept;
            for held in back {
                self.put_back(&held);
            }
        }
        late.into_iter().map(|one| one.tag).collect()
    }

    /// What was got and is out for too long closes its channel.
    fn time_out_gets(&mut self) -> bool {
        let is_due = |held: &Held| {
            let timeout = self.timeout.filter(|_| held.consumer.is_none());
            timeout.is_some_and(|timeout| held.since + timeout <= self.now)
        };
        let is_late = self.held.iter().any(is_due);
        if is_late {
            self.close(1);
        }
        is_late
    }

    /// Takes a step on both and compares what they do.
    pub(crate) fn take(&mut self, world: &mut World, step: &Step) {
        let effects = match step {
            Step::Publish { group, persistent } => {
                self.published += 1;
                self.ready.insert(self.published, (*group, *persistent));
                let body = self.published.to_string();
                world.publish_to_group("q", &body, *group, *persistent)
            }
            Step::Consume {
                channel,
                priority,
                prefetch,
                no_ack,
            } => {
                self.ages += 1;
                self.turns += 1;
                let tag = format!("c{}", self.ages);
                self.consumers.push(Consumer {
                    channel: *channel,
                    tag: tag.clone(),
                    age: self.ages,
                    priority: *priority,
                    prefetch: usize::from(*prefetch),
                    no_ack: *no_ack,
                    turn: self.turns,
                });
                world.qos(key(1, *channel), *prefetch);
                let mut consume = world.consume_of("q", &tag);
                consume.no_ack = *no_ack;
                consume.arguments = arguments(&[("x-priority", Value::I64(*priority))]);
                request(world, *channel, Request::Consume(consume))
            }
            Step::Cancel { consumer } if !self.consumers.is_empty() => {
                let at = usize::from(*consumer) % self.consumers.len();
                let gone = self.consumers.remove(at);
                let cancel = Request::Cancel {
                    consumer_tag: name(&gone.tag),
                    nowait: true,
                };
                request(world, gone.channel, cancel)
            }
            Step::Settle { held, requeue } if !self.held.is_empty() => {
                let at = usize::from(*held) % self.held.len();
                let held = self.held.remove(at);
                if *requeue {
                    self.put_back(&held);
                }
                let tag = DeliveryTag(held.tag);
                request(world, held.channel, settle(tag, *requeue))
            }
            Step::Get => self.get(world),
            Step::Close { channel } => {
                self.close(*channel);
                world.execute(Command::ChannelOpened(key(1, *channel)))
            }
            Step::Wait { milliseconds } => {
                self.now += milliseconds;
                let mut late = self.time_out();
                let effects = world.pass_time(*milliseconds);
                let mut cancelled: Vec<String> = effects.iter().filter_map(cancelled).collect();
                cancelled.sort_unstable();
                late.sort_unstable();
                assert_eq!(cancelled, late);
                let is_closed = self.time_out_gets();
                assert_eq!(effects.iter().any(is_refusal), is_closed);
                if is_closed {
                    world.open(key(1, 1));
                }
                effects
            }
            Step::Purge => {
                self.ready.clear();
                let queue = name("q");
                request(
                    world,
                    1,
                    Request::QueuePurge {
                        queue,
                        nowait: true,
                    },
                )
            }
            Step::Restart => {
                for channel in 1..5 {
                    self.close(channel);
                }
                self.ready.retain(|_, (_, persistent)| *persistent);
                world.restart();
                for channel in 2..5 {
                    world.open(key(1, channel));
                }
                Vec::new()
            }
            Step::Cancel { .. } | Step::Settle { .. } => Vec::new(),
        };
        self.deliver();
        assert_eq!(given(&effects), std::mem::take(&mut self.given), "{step:?}");
    }

    /// Takes the first message whose group is free.
    fn get(&mut self, world: &mut World) -> Vec<Effect> {
        let free = |(_, (group, _)): &(&u64, &(u8, bool))| self.out_of(*group).is_none();
        let expected = self.ready.iter().find(free).map(|(s, entry)| (*s, *entry));
        let queue = name("q");
        let effects = request(
            world,
            1,
            Request::Get {
                queue,
                no_ack: false,
            },
        );
        let got: Vec<String> = effects.iter().filter_map(got).collect();
        let expected_body = expected.map(|(sequence, _)| sequence.to_string());
        assert!(
            got.iter().eq(&expected_body),
            "{got:?}, not {expected_body:?}"
        );
        if let Some((sequence, (group, persistent))) = expected {
            self.ready.remove(&sequence);
            let tag = self.next_tag(1);
            self.held.push(Held {
                channel: 1,
                tag,
                sequence,
                group,
                persistent,
                consumer: None,
                since: self.now,
            });
        }
        effects
    }
}

/// Plays steps on a queue with these arguments.
pub(crate) fn play(mut world: World, mut twin: Twin, queue: Table, steps: &[Step]) {
    world.declare_with("q", true, queue);
    for channel in 2..5 {
        world.open(key(1, channel));
    }
    for step in steps {
        twin.take(&mut world, step);
    }
    world.restart();
    twin.take(&mut world, &Step::Restart);
    let ready: Vec<String> = twin.ready.keys().map(u64::to_string).collect();
    assert_eq!(world.drain("q"), ready, "order and all of it");
}

fn request(world: &mut World, channel: u16, request: Request) -> Vec<Effect> {
    let channel = key(1, channel);
    world.execute(Command::Request { channel, request })
}

fn settle(delivery_tag: DeliveryTag, requeue: bool) -> Request {
    if requeue {
        return Request::Reject {
            delivery_tag,
            multiple: false,
            requeue,
            method: menzil_core::Rejection::Nack,
        };
    }
    Request::Ack {
        delivery_tag,
        multiple: false,
    }
}

pub(crate) fn given(effects: &[Effect]) -> Vec<Given> {
    let channel = |to: &ChannelKey| ChannelId::number(to.channel);
    let deliveries = effects.iter().filter_map(|effect| match effect {
        Effect::Channel {
            to,
            output:
                Output::Deliver {
                    consumer_tag,
                    delivery_tag,
                    message,
                    ..
                },
            ..
        } => Some(Given {
            channel: channel(to),
            consumer: consumer_tag.to_string(),
            tag: delivery_tag.0,
            body: body_of(message),
        }),
        _ => None,
    });
    deliveries.collect()
}

fn cancelled(effect: &Effect) -> Option<String> {
    match effect {
        Effect::Channel {
            output: Output::Cancelled { consumer_tag },
            ..
        } => Some(consumer_tag.to_string()),
        _ => None,
    }
}

fn is_refusal(effect: &Effect) -> bool {
    matches!(
        effect,
        Effect::Channel {
            output: Output::Refused { .. },
            ..
        }
    )
}

fn got(effect: &Effect) -> Option<String> {
    match effect {
        Effect::Channel {
            output: Output::GetOk { message, .. },
            ..
        } => Some(body_of(message)),
        _ => None,
    }
}
