//! A shard with a log in memory, and short words for what tests ask of it.

use std::sync::Arc;

use bytes::Bytes;
use menzil_core::{
    ChannelKey, Command, Consume, Effect, ExchangeDeclare, Log, Output, Publish, QueueBind,
    QueueDeclare, Refusal, Rejection, Reply, Request, Shard, ShardSettings, Wanted,
};
use menzil_model::fact::{Content, read_chunk, read_message, read_short_message};
use menzil_model::{
    ChannelId, ConnectionId, DeliveryTag, Fact, Message, Name, Properties, QueueId, Table,
    TableBuilder, Value,
};

/// The journal's stand-in: encoded facts, the first has index 1.
#[derive(Clone, Default)]
pub(crate) struct Records {
    pub(crate) records: Vec<Vec<u8>>,
    /// How many entries need each record, by what the shard says.
    pub(crate) references: Vec<u32>,
    pub(crate) full: bool,
}

impl Records {
    pub(crate) fn record(&self, index: u64) -> &[u8] {
        &self.records[index as usize - 1]
    }

    /// Reads a message back as the driver does: `None` where a record of it may be gone, because
    /// the entry went after it was asked for.
    pub(crate) fn message(
        &self,
        wanted: &Wanted,
        spare: Option<Arc<Message>>,
    ) -> Option<Arc<Message>> {
        let mut records = wanted.chunks.indexes().chain([wanted.origin.index]);
        if records.any(|index| self.references[index as usize - 1] == 0) {
            return None;
        }
        let record = self.record(wanted.origin.index);
        if wanted.chunks.count == 0 {
            return Some(read_short_message(record, wanted.origin.part, spare).unwrap());
        }
        let chunks = wanted
            .chunks
            .indexes()
            .map(|chunk| read_chunk(self.record(chunk)).unwrap())
            .collect();
        Some(read_message(record, wanted.origin.part, chunks).unwrap())
    }

    fn write(&mut self, fact: &Fact, references: u32) -> u64 {
        let mut bytes = Vec::new();
        fact.encode(&mut bytes);
        self.records.push(bytes);
        self.references.push(references);
        self.records.len() as u64
    }
}

impl Log for Records {
    fn append(&mut self, fact: &Fact, references: u32) -> u64 {
        self.write(fact, references)
    }

    fn append_lazy(&mut self, fact: &Fact) -> u64 {
        self.write(fact, 0)
    }

    fn release(&mut self, index: u64, count: u32) {
        let references = &mut self.references[index as usize - 1];
        assert!(*references >= count, "released more often than needed");
        *references -= count;
    }

    fn retain_run(&mut self, first: u64, count: u64) {
        for references in &mut self.references[first as usize - 1..][..count as usize] {
            assert!(*references > 0, "retained after the last release");
            *references += 1;
        }
    }

    fn has_room(&self, _bytes: u64) -> bool {
        !self.full
    }
}

/// How many entries need each of so many records.
pub(crate) fn references_of(shard: &Shard, records: usize) -> Vec<u32> {
    let mut references = vec![0; records];
    shard.needs(&mut |first, count, by| {
        for place in &mut references[first as usize - 1..][..count as usize] {
            *place += by;
        }
    });
    references
}

/// What a crash leaves.
pub(crate) struct Crash {
    /// Records, the first so many.
    pub(crate) kept: usize,
    /// As [`World::checkpoint`] made it.
    pub(crate) checkpoint: Option<(usize, Vec<Vec<u8>>)>,
}

pub(crate) struct World {
    pub(crate) shard: Shard,
    pub(crate) log: Records,
    pub(crate) now: u64,
    pub(crate) settings: ShardSettings,
    /// Fetches are answered at once.
    pub(crate) answer_fetches: bool,
    /// Invariants are checked after each command; a test with thousands of objects checks once.
    pub(crate) checks_each: bool,
    entropy: u128,
}

pub(crate) fn key(connection: u64, channel: u16) -> ChannelKey {
    ChannelKey {
        connection: ConnectionId(connection),
        channel: ChannelId::new(channel).unwrap(),
    }
}

pub(crate) fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

pub(crate) fn arguments(fields: &[(&str, Value<'_>)]) -> Table {
    fields
        .iter()
        .fold(TableBuilder::new(), |table, (name, value)| {
            table.field(name, *value)
        })
        .build()
}

/// What a test looks at of the effects: confirms, deliveries, replies, in order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Seen {
    Delivered {
        tag: u64,
        body: String,
        redelivered: bool,
    },
    Got {
        tag: u64,
        body: String,
        redelivered: bool,
        left: u32,
    },
    Returned(String),
    Acked(u64),
    Nacked(u64),
    Reply(Reply),
    Cancelled(String),
    Refused(Refusal),
}

pub(crate) fn delivered(tag: u64, body: &str, redelivered: bool) -> Seen {
    Seen::Delivered {
        tag,
        body: body.to_owned(),
        redelivered,
    }
}

pub(crate) fn body_of(message: &Message) -> String {
    let body: Vec<u8> = message.body_parts().collect::<Vec<_>>().concat();
    String::from_utf8(body).unwrap()
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(ShardSettings::default())
    }

    pub(crate) fn with(settings: ShardSettings) -> Self {
        let mut log = Records::default();
        let mut shard = Shard::new(settings.clone());
        shard.start(1_000, &name("/"), &mut log);
        let mut world = Self {
            shard,
            log,
            now: 1_000,
            settings,
            answer_fetches: true,
            checks_each: true,
            entropy: 7,
        };
        world.connect(1);
        world.open(key(1, 1));
        world
    }

    pub(crate) fn connect(&mut self, connection: u64) {
        self.execute(Command::ConnectionOpened {
            connection: ConnectionId(connection),
            user: name("guest"),
            cancel_notify: true,
        });
    }

    pub(crate) fn open(&mut self, key: ChannelKey) {
        self.execute(Command::ChannelOpened(key));
    }

    pub(crate) fn execute(&mut self, command: Command) -> Vec<Effect> {
        self.execute_all(vec![(command, false)])
    }

    /// With each command whether it is what was read for the shard: then nobody misses what was
    /// not there.
    fn execute_all(&mut self, mut commands: Vec<(Command, bool)>) -> Vec<Effect> {
        let mut all = Vec::new();
        while let Some((command, is_read)) = commands.pop() {
            let mut effects = Vec::new();
            let damaged = self.shard.counters().damaged;
            self.carry_out(command, &mut effects);
            if is_read {
                let lost = self.shard.counters().damaged - damaged;
                assert_eq!(lost, 0, "a record is gone that was needed");
            }
            self.shard.finish(&mut self.log);
            if self.checks_each {
                self.shard.check_invariants();
            }
            self.sort_out(effects, &mut all, &mut commands);
        }
        all
    }

    /// As a driver does: a message whose body is in one piece is published where it lies.
    fn carry_out(&mut self, command: Command, effects: &mut Vec<Effect>) {
        let (now, log) = (self.now, &mut self.log);
        match command {
            Command::Request {
                channel,
                request: Request::Publish(publish),
            } if publish.body.len() == 1 => {
                let publish = publish.borrowed();
                (self.shard).publish_in_place(now, channel, &publish, log, effects);
            }
            other => self.shard.execute(now, other, log, effects),
        }
    }

    /// Puts effects where all are, and for those that ask for messages the answers.
    fn sort_out(
        &self,
        effects: Vec<Effect>,
        all: &mut Vec<Effect>,
        answers: &mut Vec<(Command, bool)>,
    ) {
        for effect in effects {
            match effect {
                Effect::Fetch {
                    queue,
                    wanted,
                    spare,
                } if self.answer_fetches => {
                    answers.push((self.read(queue, &wanted, spare), true));
                }
                other => all.push(other),
            }
        }
    }

    /// Carries out what was asked of the driver, one fetch after the other.
    pub(crate) fn answer(&mut self, effects: &[Effect]) -> Vec<Effect> {
        let mut all = Vec::new();
        for effect in effects {
            if let Effect::Fetch { queue, wanted, .. } = effect {
                let read = self.read(*queue, wanted, Vec::new());
                all.extend(self.execute_all(vec![(read, true)]));
            }
        }
        all
    }

    fn read(&self, queue: QueueId, wanted: &[Wanted], spare: Vec<Arc<Message>>) -> Command {
        assert!(spare.len() <= wanted.len());
        let mut spare = spare.into_iter();
        let messages = wanted
            .iter()
            .map(|wanted| (wanted.sequence, self.log.message(wanted, spare.next())))
            .collect();
        Command::Fetched { queue, messages }
    }

    pub(crate) fn request(&mut self, channel: ChannelKey, request: Request) -> Vec<Seen> {
        let effects = self.execute(Command::Request { channel, request });
        seen(&effects)
    }

    /// The client acknowledges deliveries one after the other, and all of it arrives at once.
    pub(crate) fn acknowledge_each(&mut self, channel: ChannelKey, tags: &[u64]) -> Vec<Seen> {
        let tags: Vec<DeliveryTag> = tags.iter().copied().map(DeliveryTag).collect();
        let mut effects = Vec::new();
        self.shard
            .acknowledge_each(self.now, channel, &tags, &mut self.log, &mut effects);
        self.shard.finish(&mut self.log);
        self.shard.check_invariants();
        seen(&self.answered(effects))
    }

    pub(crate) fn tick(&mut self, milliseconds: u64) -> Vec<Seen> {
        seen(&self.pass_time(milliseconds))
    }

    /// Time passes, and what is due then happens.
    pub(crate) fn pass_time(&mut self, milliseconds: u64) -> Vec<Effect> {
        self.now += milliseconds;
        let mut effects = Vec::new();
        while self.shard.deadline().is_some_and(|at| at <= self.now) {
            self.shard.expire(self.now, &mut self.log, &mut effects);
        }
        self.shard.check_invariants();
        self.answered(effects)
    }

    /// Effects, and behind them what comes of those that ask for messages.
    pub(crate) fn answered(&mut self, effects: Vec<Effect>) -> Vec<Effect> {
        let (mut all, mut fetched) = (Vec::new(), Vec::new());
        self.sort_out(effects, &mut all, &mut fetched);
        all.extend(self.execute_all(fetched));
        all
    }

    /// As [`World::restart`], from a checkpoint of the moment.
    pub(crate) fn restart_from_checkpoint(&mut self) {
        let mut shard = Shard::new(self.settings.clone());
        let mut apply = |fact: &Fact| {
            let mut bytes = Vec::new();
            fact.encode(&mut bytes);
            shard.apply(0, Fact::decode(&bytes, Content::Skip).unwrap());
        };
        self.shard.freeze().write(&mut apply);
        self.take_over(shard);
    }

    /// kill -9 after everything appended so far was synced.
    pub(crate) fn restart(&mut self) {
        let mut shard = Shard::new(self.settings.clone());
        for (at, record) in self.log.records.iter().enumerate() {
            let fact = Fact::decode(record, Content::Skip).unwrap();
            shard.apply(at as u64 + 1, fact);
        }
        self.take_over(shard);
    }

    /// The whole state as the facts of a checkpoint, and how many records it covers.
    pub(crate) fn checkpoint(&self) -> (usize, Vec<Vec<u8>>) {
        let mut facts = Vec::new();
        self.shard.freeze().write(&mut |fact| {
            let mut bytes = Vec::new();
            fact.encode(&mut bytes);
            facts.push(bytes);
        });
        (self.log.records.len(), facts)
    }

    /// kill -9 after which the journal has only some of what was appended.
    pub(crate) fn crash(&mut self, crash: Crash) {
        self.log.records.truncate(crash.kept);
        self.log.references.truncate(crash.kept);
        let mut shard = Shard::new(self.settings.clone());
        let (covered, facts) = crash.checkpoint.unwrap_or_default();
        for fact in facts {
            shard.apply(0, Fact::decode(&fact, Content::Skip).unwrap());
        }
        for (at, record) in self.log.records.iter().enumerate().skip(covered) {
            let fact = Fact::decode(record, Content::Skip).unwrap();
            shard.apply(at as u64 + 1, fact);
        }
        self.take_over(shard);
    }

    fn take_over(&mut self, mut shard: Shard) {
        self.log.references = references_of(&shard, self.log.records.len());
        shard.start(self.now, &name("/"), &mut self.log);
        shard.check_invariants();
        self.shard = shard;
        self.connect(1);
        self.open(key(1, 1));
    }

    pub(crate) fn entropy(&mut self) -> u128 {
        self.entropy += 1;
        self.entropy
    }

    pub(crate) fn declare_with(
        &mut self,
        queue: &str,
        durable: bool,
        arguments: Table,
    ) -> Vec<Seen> {
        let entropy = self.entropy();
        self.request(
            key(1, 1),
            Request::QueueDeclare(QueueDeclare {
                queue: name(queue),
                passive: false,
                durable,
                exclusive: false,
                auto_delete: false,
                nowait: false,
                arguments,
                entropy,
            }),
        )
    }

    pub(crate) fn declare(&mut self, queue: &str) {
        let seen = self.declare_with(queue, true, Table::empty());
        assert!(
            matches!(seen.as_slice(), [Seen::Reply(Reply::QueueDeclareOk { .. })]),
            "{seen:?}"
        );
    }

    pub(crate) fn declare_exchange(
        &mut self,
        exchange: &str,
        kind: &str,
        arguments: Table,
    ) -> Vec<Seen> {
        self.request(
            key(1, 1),
            Request::ExchangeDeclare(ExchangeDeclare {
                exchange: name(exchange),
                kind: name(kind),
                passive: false,
                durable: true,
                auto_delete: false,
                internal: false,
                nowait: false,
                arguments,
            }),
        )
    }

    pub(crate) fn bind(&mut self, queue: &str, exchange: &str, routing_key: &str) {
        let ends = (queue, exchange, routing_key);
        let seen = self.bind_with(key(1, 1), ends, Table::empty());
        assert_eq!(seen, [Seen::Reply(Reply::QueueBindOk)]);
    }

    /// Binds, and tells what was seen of it.
    pub(crate) fn bind_with(
        &mut self,
        channel: ChannelKey,
        (queue, exchange, routing_key): (&str, &str, &str),
        arguments: Table,
    ) -> Vec<Seen> {
        let bind = QueueBind {
            queue: name(queue),
            exchange: name(exchange),
            routing_key: name(routing_key),
            nowait: false,
            arguments,
        };
        self.request(channel, Request::QueueBind(bind))
    }

    pub(crate) fn publish(&mut self, exchange: &str, routing_key: &str, body: &str) -> Vec<Seen> {
        self.publish_as(exchange, routing_key, body, false, Some(2), None)
    }

    pub(crate) fn publish_as(
        &mut self,
        exchange: &str,
        routing_key: &str,
        body: &str,
        mandatory: bool,
        delivery_mode: Option<u8>,
        expiration: Option<&str>,
    ) -> Vec<Seen> {
        let properties = Properties {
            delivery_mode,
            expiration: expiration.map(str::as_bytes),
            ..Properties::default()
        };
        self.publish_with(exchange, routing_key, body, mandatory, &properties)
    }

    pub(crate) fn publish_with(
        &mut self,
        exchange: &str,
        routing_key: &str,
        body: &str,
        mandatory: bool,
        properties: &Properties<'_>,
    ) -> Vec<Seen> {
        let ends = (exchange, routing_key);
        let publish = self.publish_request(ends, body, mandatory, properties);
        self.request(key(1, 1), publish)
    }

    /// A publish of a durable message to that queue.
    pub(crate) fn publish_request_to(&self, queue: &str, body: &str) -> Request {
        let durable = Properties {
            delivery_mode: Some(2),
            ..Properties::default()
        };
        self.publish_request(("", queue), body, false, &durable)
    }

    fn publish_request(
        &self,
        (exchange, routing_key): (&str, &str),
        body: &str,
        mandatory: bool,
        properties: &Properties<'_>,
    ) -> Request {
        let mut bytes = Vec::new();
        properties.write(&mut bytes);
        let chunk = self.settings.chunk_bytes;
        let body = body
            .as_bytes()
            .chunks(chunk)
            .map(Bytes::copy_from_slice)
            .collect();
        Request::Publish(Publish {
            exchange: name(exchange),
            routing_key: name(routing_key),
            mandatory,
            properties: Bytes::from(bytes),
            body,
        })
    }

    /// Publishes durable messages with these bodies, of which nobody is to see anything.
    pub(crate) fn fill(&mut self, exchange: &str, routing_key: &str, bodies: &[String]) {
        let durable = Properties {
            delivery_mode: Some(2),
            ..Properties::default()
        };
        for body in bodies {
            let request = self.publish_request((exchange, routing_key), body, false, &durable);
            let command = Command::Request {
                channel: key(1, 1),
                request,
            };
            let mut effects = Vec::new();
            self.shard
                .execute(self.now, command, &mut self.log, &mut effects);
            assert!(seen(&effects).is_empty());
        }
        self.shard.finish(&mut self.log);
        if self.checks_each {
            self.shard.check_invariants();
        }
    }

    /// A message with the header `group`, if that is not 0.
    pub(crate) fn publish_to_group(
        &mut self,
        queue: &str,
        body: &str,
        group: u8,
        persistent: bool,
    ) -> Vec<Effect> {
        let headers = arguments(&[("group", Value::U8(group))]);
        let properties = Properties {
            delivery_mode: Some(if persistent { 2 } else { 1 }),
            headers: (group > 0).then(|| headers.as_bytes()),
            ..Properties::default()
        };
        let mut bytes = Vec::new();
        properties.write(&mut bytes);
        let publish = Publish {
            exchange: name(""),
            routing_key: name(queue),
            mandatory: false,
            properties: Bytes::from(bytes),
            body: vec![Bytes::copy_from_slice(body.as_bytes())],
        };
        let request = Request::Publish(publish);
        self.execute(Command::Request {
            channel: key(1, 1),
            request,
        })
    }

    pub(crate) fn get(&mut self, queue: &str) -> Vec<Seen> {
        self.request(
            key(1, 1),
            Request::Get {
                queue: name(queue),
                no_ack: false,
            },
        )
    }

    /// Every body that is ready, taken without acknowledgement.
    pub(crate) fn drain(&mut self, queue: &str) -> Vec<String> {
        let mut bodies = Vec::new();
        loop {
            let get = Request::Get {
                queue: name(queue),
                no_ack: true,
            };
            match self.request(key(1, 1), get).as_slice() {
                [Seen::Got { body, .. }] => bodies.push(body.clone()),
                [Seen::Reply(Reply::GetEmpty)] => return bodies,
                other => panic!("{other:?}"),
            }
        }
    }

    pub(crate) fn consume(&mut self, channel: ChannelKey, queue: &str, tag: &str) -> Vec<Seen> {
        let consume = self.consume_of(queue, tag);
        self.request(channel, Request::Consume(consume))
    }

    pub(crate) fn consume_with(
        &mut self,
        channel: ChannelKey,
        queue: &str,
        tag: &str,
        arguments: Table,
    ) -> Vec<Seen> {
        let consume = Consume {
            arguments,
            ..self.consume_of(queue, tag)
        };
        self.request(channel, Request::Consume(consume))
    }

    pub(crate) fn consume_of(&mut self, queue: &str, tag: &str) -> Consume {
        let entropy = self.entropy();
        Consume {
            queue: name(queue),
            consumer_tag: name(tag),
            no_local: false,
            no_ack: false,
            exclusive: false,
            nowait: false,
            arguments: Table::empty(),
            entropy,
            reply_entropy: entropy + (1 << 64),
        }
    }

    pub(crate) fn qos(&mut self, channel: ChannelKey, prefetch_count: u16) {
        let qos = Request::Qos {
            prefetch_size: 0,
            prefetch_count,
            global: false,
        };
        assert_eq!(self.request(channel, qos), [Seen::Reply(Reply::QosOk)]);
    }

    pub(crate) fn ack(&mut self, channel: ChannelKey, tag: u64) -> Vec<Seen> {
        self.request(
            channel,
            Request::Ack {
                delivery_tag: DeliveryTag(tag),
                multiple: false,
            },
        )
    }

    pub(crate) fn requeue(&mut self, channel: ChannelKey, tag: u64) -> Vec<Seen> {
        self.request(
            channel,
            Request::Reject {
                delivery_tag: DeliveryTag(tag),
                multiple: false,
                requeue: true,
                method: Rejection::Nack,
            },
        )
    }

    pub(crate) fn confirm_select(&mut self) {
        let seen = self.request(key(1, 1), Request::ConfirmSelect { nowait: false });
        assert_eq!(seen, [Seen::Reply(Reply::ConfirmSelectOk)]);
    }
}

pub(crate) fn seen(effects: &[Effect]) -> Vec<Seen> {
    effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Channel { output, .. } => Some(match output {
                Output::Reply(reply) => Seen::Reply(reply.clone()),
                Output::Deliver {
                    delivery_tag,
                    redelivered,
                    message,
                    ..
                } => Seen::Delivered {
                    tag: delivery_tag.0,
                    body: body_of(message),
                    redelivered: *redelivered,
                },
                Output::GetOk {
                    delivery_tag,
                    redelivered,
                    message_count,
                    message,
                    ..
                } => Seen::Got {
                    tag: delivery_tag.0,
                    body: body_of(message),
                    redelivered: *redelivered,
                    left: *message_count,
                },
                Output::Return { message } => Seen::Returned(body_of(message)),
                Output::Confirm {
                    sequence,
                    accepted: true,
                } => Seen::Acked(*sequence),
                Output::Confirm {
                    sequence,
                    accepted: false,
                } => Seen::Nacked(*sequence),
                Output::Cancelled { consumer_tag } => Seen::Cancelled(consumer_tag.to_string()),
                Output::Refused { refusal, .. } => Seen::Refused(refusal.clone()),
            }),
            Effect::Connection { .. } | Effect::Session { .. } | Effect::Fetch { .. } => None,
        })
        .collect()
}
