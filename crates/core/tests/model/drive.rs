//! The same steps for the shard, with a log that a crash cuts short.

mod policies;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use menzil_core::testing::MemoryScratch;
use menzil_core::{
    ChannelKey, Command, Consume, Delay, Effect, Output, Publish, QueueBind, QueueDeclare,
    Rejection, Reply, Request, Shard, ShardSettings,
};
use menzil_model::fact::Content;
use menzil_model::{DeliveryTag, Fact, Message, Name, Properties, Sequence, Table, Value};

use crate::naive::{Event, Host};
use crate::plan::{
    Arguments, CHANNELS, Exchange, Features, Mail, Overflow, Policy, Random, Retry, Step, To,
    Verdict,
};
use crate::support::{Seen, World, arguments, body_of, key, name, references_of};

/// Steps that a crash may lose.
const LOST_MAX: usize = 6;

/// Twins that are followed at once; where it may be more the case is over.
const HOSTS_MAX: usize = 128;

/// How often letters that can go on are waited for at the end.
const TRIES: usize = 8;

/// The shard beside its twin.
pub(crate) struct Pair {
    world: World,
    /// What the twin may be: it does not say which of several queues goes first in which messages
    /// die at once.
    hosts: Vec<Host>,
    /// After each of the last steps: how long the log was, and the twins.
    history: VecDeque<(usize, Vec<Host>)>,
    /// The log's length, and the state then.
    checkpoint: Option<(usize, Vec<Vec<u8>>)>,
    /// There is too much that may have happened, and nothing is compared any more.
    is_lost: bool,
}

impl Pair {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let content = random.pick(&[0, 100, 1 << 20]);
        let settings = ShardSettings {
            content_bytes_max: content,
            index_page_entries: random.pick(&[1, 4, 256]),
            index_bytes_max: content,
            scratch: Some(MemoryScratch::shared()),
            chunk_bytes: random.pick(&[8, 1 << 20]),
            ..ShardSettings::default()
        };
        let mut world = World::with(settings);
        declare_exchanges(&mut world);
        open_channels(&mut world);
        let host = Host::new(world.now);
        let mut pair = Self {
            world,
            hosts: vec![host],
            history: VecDeque::new(),
            checkpoint: None,
            is_lost: false,
        };
        pair.remember();
        pair
    }

    fn remember(&mut self) {
        if self.history.len() == LOST_MAX {
            self.history.pop_front();
        }
        self.history
            .push_back((self.world.log.records.len(), self.hosts.clone()));
    }

    /// Does one step on both sides and compares. What makes no sense is left out.
    pub(crate) fn step(&mut self, step: &Step) -> Result<(), String> {
        if self.is_lost || !self.host().can(step) {
            return Ok(());
        }
        match step {
            Step::Checkpoint => self.take_checkpoint(),
            Step::Crash { lost } => self.crash(*lost as usize, step)?,
            Step::Stop => {
                self.world.shard.stop(&mut self.world.log);
                self.remember();
                self.crash(0, step)?;
            }
            Step::Wait { milliseconds } => {
                let effects = self.world.pass_time(*milliseconds);
                self.compare(step, &effects)?;
            }
            Step::CancelDelay { nth } => {
                let mut effects = self.cancel_delay(*nth);
                effects.extend(self.world.pass_time(0));
                self.compare(step, &effects)?;
            }
            Step::SetPolicy(policy) => {
                let mut effects = self.set_policy(policy);
                effects.extend(self.world.pass_time(0));
                self.compare(step, &effects)?;
            }
            Step::ClearPolicy { name, is_operator } => {
                let mut effects = self.clear_policy(*name, *is_operator);
                effects.extend(self.world.pass_time(0));
                self.compare(step, &effects)?;
            }
            Step::Declare { .. }
            | Step::Delete { .. }
            | Step::Purge { .. }
            | Step::Bind { .. }
            | Step::Unbind { .. }
            | Step::Publish { .. }
            | Step::Transaction { .. }
            | Step::Consume { .. }
            | Step::Cancel { .. }
            | Step::Qos { .. }
            | Step::Get { .. }
            | Step::Settle { .. }
            | Step::Recover { .. }
            | Step::Reopen { .. } => {
                let mut effects = Vec::new();
                for command in self.commands(step) {
                    effects.extend(self.world.execute(command));
                    effects.extend(self.world.pass_time(0));
                }
                effects.extend(self.reopened(&effects));
                self.compare(step, &effects)?;
            }
        }
        self.remember();
        Ok(())
    }

    /// A transaction that is refused costs its channel.
    fn reopened(&mut self, effects: &[Effect]) -> Vec<Effect> {
        let is_refused = |effect: &Effect| matches!(effect, Effect::Channel { output: Output::Refused { .. }, to, .. } if *to == key(1, CHANNELS));
        if !effects.iter().any(is_refused) {
            return Vec::new();
        }
        let channel = key(1, CHANNELS);
        let mut effects = self.world.execute(Command::ChannelOpened(channel));
        let request = Request::TxSelect;
        effects.extend(self.world.execute(Command::Request { channel, request }));
        effects
    }

    fn compare(&mut self, step: &Step, effects: &[Effect]) -> Result<(), String> {
        let events = events(effects);
        let mut kept: Vec<Host> = Vec::new();
        let mut why = String::new();
        for host in std::mem::take(&mut self.hosts) {
            match host.outcomes(step, &events) {
                Ok(Some(outcomes)) => kept.extend(outcomes),
                Ok(None) => self.is_lost = true,
                Err(text) => why = text,
            }
        }
        let mut known = BTreeSet::new();
        kept.retain(|host| known.insert(host.signature()));
        let found = (self.counts(), self.waiting());
        let expected = |host: &Host| (host.counts(), host.waiting());
        if !kept.is_empty() {
            why = format!(
                "(queue, ready, out, consumers) and the times at which exchanges send on are {found:?}, expected {:?}",
                expected(&kept[0])
            );
        }
        kept.retain(|host| expected(host) == found);
        self.is_lost |= kept.len() > HOSTS_MAX;
        self.hosts = kept;
        if self.is_lost {
            return Ok(());
        }
        if self.hosts.is_empty() {
            Err(why)
        } else {
            Ok(())
        }
    }

    fn host(&self) -> &Host {
        &self.hosts[0]
    }

    fn counts(&self) -> Vec<(u8, u64, u64, u64)> {
        let queues = self.world.shard.queues();
        let counts = queues.iter().map(|queue| {
            let number = queue.name.to_string()[1..].parse().unwrap();
            (number, queue.ready, queue.unsettled, queue.consumers)
        });
        let mut counts: Vec<_> = counts.collect();
        counts.sort_unstable();
        counts
    }

    /// What waits in the exchanges that delay.
    fn delays(&self) -> Vec<(Exchange, Delay)> {
        let all = Exchange::DELAYING.into_iter().flat_map(|exchange| {
            let name = exchange_name(exchange).as_bytes();
            let listed = self.world.shard.list_delays(name, Sequence(0), usize::MAX);
            listed.unwrap().into_iter().map(move |one| (exchange, one))
        });
        all.collect()
    }

    fn waiting(&self) -> Vec<(Exchange, u64)> {
        let all = self.delays().into_iter();
        all.map(|(exchange, one)| (exchange, one.due_at)).collect()
    }

    fn cancel_delay(&mut self, nth: u64) -> Vec<Effect> {
        let all = self.delays();
        let (exchange, delay) = &all[(nth % all.len() as u64) as usize];
        let (mut effects, world) = (Vec::new(), &mut self.world);
        let name = exchange_name(*exchange).as_bytes();
        let (shard, log) = (&mut world.shard, &mut world.log);
        assert!(shard.cancel_delay(world.now, name, delay.id, log, &mut effects));
        world.answered(effects)
    }

    fn set_policy(&mut self, policy: &Policy) -> Vec<Effect> {
        let (mut effects, world) = (Vec::new(), &mut self.world);
        let (now, policy) = (world.now, policies::definition(policy));
        let done = (world.shard).set_policy(now, policy, &mut world.log, &mut effects);
        done.unwrap();
        world.shard.finish(&mut world.log);
        effects
    }

    fn clear_policy(&mut self, policy: u8, is_operator: bool) -> Vec<Effect> {
        let (mut effects, world) = (Vec::new(), &mut self.world);
        let (now, name) = (world.now, policies::policy_name(policy));
        let (shard, log) = (&mut world.shard, &mut world.log);
        let done = shard.clear_policy(now, &name, is_operator, log, &mut effects);
        done.unwrap();
        world.shard.finish(&mut world.log);
        effects
    }

    fn take_checkpoint(&mut self) {
        let mut facts = Vec::new();
        self.world.shard.freeze().write(&mut |fact| {
            let mut bytes = Vec::new();
            fact.encode(&mut bytes);
            facts.push(bytes);
        });
        self.checkpoint = Some((self.world.log.records.len(), facts));
        self.history.clear();
    }

    /// kill -9, with the last steps not on disk; a start from the checkpoint and what follows it.
    fn crash(&mut self, lost: usize, step: &Step) -> Result<(), String> {
        let at = self.history.len() - 1 - lost.min(self.history.len() - 1);
        let (length, hosts) = self.history[at].clone();
        self.hosts = hosts;
        self.history.clear();
        let world = &mut self.world;
        world.log.records.truncate(length);
        let mut shard = Shard::new(world.settings.clone());
        let (from, facts) = self.checkpoint.clone().unwrap_or_default();
        let facts = facts.iter().map(|bytes| (from as u64, bytes));
        let tail = (1_u64..).zip(&world.log.records).skip(from);
        for (index, bytes) in facts.chain(tail) {
            shard.apply(index, Fact::decode(bytes, Content::Skip).unwrap());
        }
        world.log.references = references_of(&shard, length);
        shard.start(world.now, &name("/"), &mut world.log);
        world.shard = shard;
        world.connect(1);
        world.open(key(1, 1));
        open_channels(world);
        let effects = world.pass_time(0);
        for host in &mut self.hosts {
            host.now = self.world.now;
        }
        self.compare(step, &effects)
    }

    fn commands(&self, step: &Step) -> Vec<Command> {
        let on = |channel: u16, request: Request| Command::Request {
            channel: key(1, channel),
            request,
        };
        match step {
            Step::Declare {
                queue,
                durable,
                arguments,
            } => vec![on(1, declare(*queue, *durable, arguments))],
            Step::Delete { queue } => vec![on(
                1,
                Request::QueueDelete {
                    queue: queue_name(*queue),
                    if_unused: false,
                    if_empty: false,
                    nowait: false,
                },
            )],
            Step::Purge { queue } => {
                vec![on(
                    1,
                    Request::QueuePurge {
                        queue: queue_name(*queue),
                        nowait: false,
                    },
                )]
            }
            Step::Bind {
                queue,
                exchange,
                key,
            } => {
                vec![on(1, Request::QueueBind(bind(*queue, *exchange, *key)))]
            }
            Step::Unbind {
                queue,
                exchange,
                key,
            } => {
                vec![on(1, Request::QueueUnbind(bind(*queue, *exchange, *key)))]
            }
            Step::Publish { channel, mail } => {
                vec![on(
                    *channel,
                    self.publish(mail, &self.host().next_body(mail.padding)),
                )]
            }
            Step::Transaction { mails, commit } => {
                let mut host = self.host().clone();
                let publish =
                    |mail: &Mail| on(CHANNELS, self.publish(mail, &host.take_body(mail.padding)));
                let mut commands: Vec<_> = mails.iter().map(publish).collect();
                commands.push(on(
                    CHANNELS,
                    if *commit {
                        Request::TxCommit
                    } else {
                        Request::TxRollback
                    },
                ));
                commands
            }
            Step::Consume {
                channel,
                queue,
                tag,
                no_ack,
                prefetch,
                priority,
                timeout,
            } => {
                let qos = Request::Qos {
                    prefetch_size: 0,
                    prefetch_count: *prefetch,
                    global: false,
                };
                let priority = (*priority != 0).then_some(("x-priority", Value::I8(*priority)));
                let timeout = timeout.map(|time| ("x-consumer-timeout", Value::I64(time as i64)));
                let consume = Request::Consume(Consume {
                    queue: queue_name(*queue),
                    consumer_tag: name(&tag.to_string()),
                    no_local: false,
                    no_ack: *no_ack,
                    exclusive: false,
                    nowait: false,
                    arguments: arguments(&priority.into_iter().chain(timeout).collect::<Vec<_>>()),
                    entropy: 0,
                    reply_entropy: 0,
                });
                vec![on(*channel, qos), on(*channel, consume)]
            }
            Step::Cancel { nth } => {
                let (channel, tag) = self.host().nth_consumer(*nth).unwrap();
                vec![on(
                    channel,
                    Request::Cancel {
                        consumer_tag: name(&tag),
                        nowait: false,
                    },
                )]
            }
            Step::Qos { channel, count } => {
                vec![on(
                    *channel,
                    Request::Qos {
                        prefetch_size: 0,
                        prefetch_count: *count,
                        global: true,
                    },
                )]
            }
            Step::Get {
                channel,
                queue,
                no_ack,
            } => {
                vec![on(
                    *channel,
                    Request::Get {
                        queue: queue_name(*queue),
                        no_ack: *no_ack,
                    },
                )]
            }
            Step::Settle {
                channel,
                nth,
                multiple,
                verdict,
            } => {
                let delivery_tag = DeliveryTag(self.host().nth_tag(*channel, *nth).unwrap());
                let request = match verdict {
                    Verdict::Acknowledge => Request::Ack {
                        delivery_tag,
                        multiple: *multiple,
                    },
                    Verdict::Requeue | Verdict::Reject => Request::Reject {
                        delivery_tag,
                        multiple: *multiple,
                        requeue: *verdict == Verdict::Requeue,
                        method: Rejection::Nack,
                    },
                    Verdict::Fail => Request::Reject {
                        delivery_tag,
                        multiple: false,
                        requeue: true,
                        method: Rejection::Reject,
                    },
                };
                vec![on(*channel, request)]
            }
            Step::Recover { channel } => vec![on(
                *channel,
                Request::Recover {
                    requeue: true,
                    reply: true,
                },
            )],
            Step::Reopen { channel } => {
                let mut commands = vec![
                    Command::ChannelClosed(key(1, *channel)),
                    Command::ChannelOpened(key(1, *channel)),
                ];
                if *channel == 1 {
                    commands.push(on(1, Request::ConfirmSelect { nowait: false }));
                }
                commands
            }
            Step::CancelDelay { .. }
            | Step::SetPolicy(_)
            | Step::ClearPolicy { .. }
            | Step::Wait { .. }
            | Step::Checkpoint
            | Step::Crash { .. }
            | Step::Stop => Vec::new(),
        }
    }

    fn publish(&self, mail: &Mail, body: &str) -> Request {
        let (exchange, routing_key) = match mail.to {
            To::Queue(queue) => (Exchange::Default, queue_name(queue)),
            To::Fanout => (Exchange::Fanout, Name::empty()),
            To::Direct(key) => (Exchange::Direct, name(&key.to_string())),
            To::Later(key) => (Exchange::Later, name(&key.to_string())),
            To::Slow => (Exchange::Slow, Name::empty()),
        };
        let id = mail.id.map(|id| id.to_string());
        let group = mail.group.map(|group| ("group", Value::U8(group)));
        let delay = mail.delay.map(|delay| ("x-delay", Value::U8(delay)));
        let fields: Vec<_> = group.into_iter().chain(delay).collect();
        let headers = (!fields.is_empty()).then(|| arguments(&fields));
        let expiration = mail.expiration.map(|time| time.to_string());
        let properties = Properties {
            delivery_mode: Some(if mail.persistent { 2 } else { 1 }),
            priority: mail.priority,
            expiration: expiration.as_deref().map(str::as_bytes),
            message_id: id.as_deref().map(str::as_bytes),
            headers: headers.as_ref().map(Table::as_bytes),
            ..Properties::default()
        };
        let mut bytes = Vec::new();
        properties.write(&mut bytes);
        let parts = body.as_bytes().chunks(self.world.settings.chunk_bytes);
        Request::Publish(Publish {
            exchange: name(exchange_name(exchange)),
            routing_key,
            mandatory: mail.mandatory,
            properties: Bytes::from(bytes),
            body: parts.map(Bytes::copy_from_slice).collect(),
        })
    }

    /// Letters that nobody took are tried again each second.
    fn wait_for_letters(&mut self) -> Result<(), String> {
        for _ in 0..TRIES {
            if !self.host().has_forgotten() {
                break;
            }
            self.step(&Step::Wait { milliseconds: 1000 })?;
        }
        self.hosts.retain(|host| !host.has_forgotten());
        if self.hosts.is_empty() && !self.is_lost {
            return Err("letters stay that could go on".to_owned());
        }
        Ok(())
    }

    /// Takes what is left, and compares it. False where the case was not followed to its end.
    pub(crate) fn end(mut self) -> Result<bool, String> {
        // What is out goes back where it was; consumers are gone.
        self.step(&Step::Stop)?;
        if self.is_lost {
            return Ok(false);
        }
        self.wait_for_letters()?;
        if self.is_lost {
            return Ok(false);
        }
        let left: BTreeMap<u8, Vec<String>> = (self.host().drained().into_iter())
            .map(|queue| (queue, self.world.drain(&format!("q{queue}"))))
            .collect();
        if !self.hosts.iter().any(|host| host.is_left(&left)) {
            return Err(format!(
                "{left:?} is left, expected {:?}",
                self.host().all_ready()
            ));
        }
        Ok(true)
    }
}

/// What this shard can do.
pub(crate) fn features() -> Features {
    let declares = |field: (&str, Value<'_>)| {
        let mut world = World::new();
        let entropy = world.entropy();
        let request = Request::QueueDeclare(QueueDeclare {
            queue: name("q"),
            passive: false,
            durable: true,
            exclusive: false,
            auto_delete: false,
            nowait: false,
            arguments: arguments(&[field]),
            entropy,
        });
        let effects = world.execute(Command::Request {
            channel: key(1, 1),
            request,
        });
        !matches!(
            effects[..],
            [Effect::Channel {
                output: Output::Refused { .. },
                ..
            }]
        )
    };
    let single_active = declares(("x-single-active-consumer", Value::Bool(true)));
    Features {
        dead_letters: declares(("x-dead-letter-exchange", Value::LongString(b""))),
        groups: declares(("x-group-header", Value::LongString(b"group"))),
        failures: declares(("x-delivery-limit", Value::I32(2))),
        priorities: declares(("x-max-priority", Value::U8(3))),
        consumer_priorities: single_active,
        single_active,
    }
}

fn open_channels(world: &mut World) {
    for channel in 2..=CHANNELS {
        world.open(key(1, channel));
    }
    world.confirm_select();
    world.request(key(1, CHANNELS), Request::TxSelect);
}

fn queue_name(queue: u8) -> Name {
    name(&format!("q{queue}"))
}

fn exchange_name(exchange: Exchange) -> &'static str {
    match exchange {
        Exchange::Default => "",
        Exchange::Fanout => "amq.fanout",
        Exchange::Direct => "amq.direct",
        Exchange::Missing => "missing",
        Exchange::Later => "later",
        Exchange::Slow => "slow",
    }
}

/// The exchanges that delay. They outlive every restart.
fn declare_exchanges(world: &mut World) {
    let later = arguments(&[
        ("x-delayed-type", Value::LongString(b"direct")),
        ("alternate-exchange", Value::LongString(b"amq.fanout")),
    ]);
    let slow = arguments(&[("x-delayed", Value::Bool(true))]);
    for (exchange, kind, arguments) in [
        (Exchange::Later, "x-delayed-message", later),
        (Exchange::Slow, "fanout", slow),
    ] {
        let seen = world.declare_exchange(exchange_name(exchange), kind, arguments);
        assert_eq!(seen, [Seen::Reply(Reply::ExchangeDeclareOk)]);
    }
}

fn bind(queue: u8, exchange: Exchange, key: u8) -> QueueBind {
    QueueBind {
        queue: queue_name(queue),
        exchange: name(exchange_name(exchange)),
        routing_key: name(&key.to_string()),
        nowait: false,
        arguments: Table::empty(),
    }
}

fn overflow_name(overflow: Overflow) -> Value<'static> {
    Value::LongString(match overflow {
        Overflow::DropHead => b"drop-head",
        Overflow::Reject => b"reject-publish",
        Overflow::RejectDead => b"reject-publish-dlx",
    })
}

fn strategy_name(at_least_once: bool) -> Value<'static> {
    Value::LongString(if at_least_once {
        b"at-least-once"
    } else {
        b"at-most-once"
    })
}

fn retry_name(retry: Retry) -> Value<'static> {
    Value::LongString(match retry {
        Retry::Disabled => b"disabled",
        Retry::All => b"all",
        Retry::Failed => b"failed",
        Retry::Returned => b"returned",
    })
}

fn declare(queue: u8, durable: bool, of: &Arguments) -> Request {
    let mut fields = Vec::new();
    let mut number = |field: &'static str, value: Option<u64>| {
        fields.extend(value.map(|value| (field, Value::I64(value as i64))));
    };
    number("x-max-length", of.length);
    number("x-max-length-bytes", of.bytes);
    number("x-message-ttl", of.ttl);
    number("x-expires", of.expires);
    number("x-delivery-limit", of.failures);
    number("x-max-priority", of.priorities.map(u64::from));
    number("x-consumer-timeout", of.timeout);
    number("x-delayed-retry-min", of.retry_min);
    number("x-delayed-retry-max", of.retry_max);
    number("x-deduplication-size", of.once.map(|once| once.0));
    number("x-deduplication-age", of.once.map(|once| once.1));
    if of.overflow != Overflow::DropHead {
        fields.push(("x-overflow", overflow_name(of.overflow)));
    }
    fields.extend(
        of.retry
            .map(|kind| ("x-delayed-retry-type", retry_name(kind))),
    );
    let key = of.dead.and_then(|dead| Some((dead.exchange, dead.key?)));
    let key = key.map(|(exchange, key)| exchange.key(key));
    if let Some(dead) = of.dead {
        let exchange = exchange_name(dead.exchange).as_bytes();
        fields.push(("x-dead-letter-exchange", Value::LongString(exchange)));
    }
    let strategy = of.dead.and_then(|dead| dead.at_least_once);
    fields.extend(strategy.map(|strict| ("x-dead-letter-strategy", strategy_name(strict))));
    if let Some(key) = &key {
        fields.push((
            "x-dead-letter-routing-key",
            Value::LongString(key.as_bytes()),
        ));
    }
    if of.once.is_some() {
        fields.push(("x-deduplication", Value::Bool(true)));
    }
    if of.groups {
        fields.push(("x-group-header", Value::LongString(b"group")));
    }
    if of.single_active {
        fields.push(("x-single-active-consumer", Value::Bool(true)));
    }
    Request::QueueDeclare(QueueDeclare {
        queue: queue_name(queue),
        passive: false,
        durable,
        exclusive: false,
        auto_delete: false,
        nowait: false,
        arguments: arguments(&fields),
        entropy: 0,
    })
}

fn events(effects: &[Effect]) -> Vec<Event> {
    let mut events = Vec::new();
    for effect in effects {
        if let Effect::Channel { to, output, .. } = effect {
            events.push(event(*to, output));
        }
    }
    events
}

/// The body, and what the headers say of its delay and its deaths.
fn text_of(message: &Message) -> String {
    let mut text = body_of(message);
    let properties = Properties::parse(message.properties()).unwrap();
    let mut headers = properties.header_fields();
    if let Some((_, delay)) = headers.find(|(name, _)| *name == b"x-delay") {
        let delay = delay.as_integer().unwrap().to_string();
        text += &[" delay ", &delay].concat();
    }
    let mut headers = properties.header_fields();
    let Some((_, Value::Array(deaths))) = headers.find(|(name, _)| *name == b"x-death") else {
        return text;
    };
    for death in deaths {
        let Value::Table(fields) = death else {
            panic!("{death:?}")
        };
        let field = |wanted: &[u8]| {
            fields
                .into_iter()
                .find(|(name, _)| *name == wanted)
                .unwrap()
                .1
        };
        let word = |wanted: &[u8]| match field(wanted) {
            Value::LongString(text) => String::from_utf8(text.to_vec()).unwrap(),
            other => panic!("{other:?}"),
        };
        let count = field(b"count").as_integer().unwrap();
        text += &[
            " ",
            &word(b"queue"),
            " ",
            &word(b"reason"),
            " ",
            &count.to_string(),
        ]
        .concat();
    }
    text
}

/// What is said of an entry that came back.
fn returns_of(properties: Option<&[u8]>) -> String {
    let Some(properties) = properties else {
        return String::new();
    };
    let properties = Properties::parse(properties).unwrap();
    let count = |wanted: &[u8]| {
        let mut headers = properties.header_fields();
        let found = headers.find(|(name, _)| *name == wanted);
        found.map_or(0, |(_, count)| count.as_integer().unwrap())
    };
    let (back, failed) = (count(b"x-acquired-count"), count(b"x-delivery-count"));
    format!(" came back {back} failed {failed}")
}

fn event(to: ChannelKey, output: &Output) -> Event {
    let channel = to.channel.number();
    let what = match output {
        Output::Deliver {
            consumer_tag,
            delivery_tag,
            redelivered,
            message,
            properties,
            ..
        } => {
            return Event::Delivered {
                channel,
                consumer: consumer_tag.to_string(),
                tag: delivery_tag.0,
                redelivered: *redelivered,
                body: text_of(message) + &returns_of(properties.as_deref()),
            };
        }
        Output::GetOk {
            delivery_tag,
            redelivered,
            message_count,
            message,
            properties,
            ..
        } => {
            return Event::Got {
                channel,
                tag: delivery_tag.0,
                redelivered: *redelivered,
                body: text_of(message) + &returns_of(properties.as_deref()),
                left: u64::from(*message_count),
            };
        }
        Output::Return { message } => format!("Return {}", body_of(message)),
        Output::Confirm { sequence, accepted } => format!("Confirm {sequence} {accepted}"),
        Output::Cancelled { consumer_tag } => format!("Cancelled {consumer_tag}"),
        Output::Refused { refusal, .. } => format!("Refused {refusal:?}"),
        Output::Reply(reply) => match reply {
            Reply::QueueDeclareOk {
                queue,
                message_count,
                consumer_count,
            } => {
                format!("QueueDeclareOk {queue} {message_count} {consumer_count}")
            }
            Reply::QueueDeleteOk { message_count } => format!("QueueDeleteOk {message_count}"),
            Reply::QueuePurgeOk { message_count } => format!("QueuePurgeOk {message_count}"),
            Reply::ConsumeOk { consumer_tag } => format!("ConsumeOk {consumer_tag}"),
            Reply::CancelOk { consumer_tag } => format!("CancelOk {consumer_tag}"),
            other => format!("{other:?}"),
        },
    };
    Event::Said { channel, what }
}
