//! What a message costs between two sockets, alone in memory: parse, decide, encode. Count the
//! instructions with `valgrind --tool=callgrind`, or take the time:
//! `cargo run --release -p menzil-amqp --example path [case] [messages] [body bytes] [queues]`
//! where the case is `transient`, `manual` (acknowledged one by one), `behind` (the same with a
//! backlog of some thousand), `confirm`, `spread` (`confirm` over many queues in turn), `fanout`
//! or `drain` (persistent, all queued before the consumer comes; what is told is the drain alone).

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a measurement needs a clock"
)]

use std::io::{IoSlice, Write as _};
use std::sync::Arc;
use std::time::Instant;

use menzil_amqp::frame::{BODY, HEADER, METHOD, write_frame};
use menzil_amqp::methods::{
    BasicAck, BasicConsume, BasicPublish, BasicQos, ChannelOpen, ConfirmSelect, ConnectionOpen,
    ConnectionStartOk, ConnectionTuneOk, ExchangeDeclare, Method, QueueBind, QueueDeclare,
};
use menzil_amqp::{Action, Inbound, Outbound, PROTOCOL_HEADER, SessionConfig, Sink};
use menzil_core::{
    ChannelKey, Command, Delivering, Effect, Effects, Log, PublishRef, Shard, ShardSettings, Wanted,
};
use menzil_model::fact::{Origin, PublishedRef, read_short_message};
use menzil_model::{ChannelId, ConnectionId, DeliveryTag, Fact, Message, Name, QueueId};

const READ_BYTES: usize = 64 << 10;
const PREFETCH: u16 = 200;
/// Messages that wait in the case `behind`.
const BACKLOG: usize = 8000;

fn main() -> std::io::Result<()> {
    let mut words = std::env::args().skip(1);
    let case = words.next().unwrap_or_else(|| "transient".to_owned());
    let mut numbers = words.filter_map(|word| word.parse().ok());
    let count: usize = numbers.next().unwrap_or(1_000_000);
    let body_bytes: usize = numbers.next().unwrap_or(100);
    let queues = match case.as_str() {
        "fanout" => 10,
        "spread" => numbers.next().unwrap_or(100),
        _ => 1,
    };
    let consumers = if is_stored(&case) { 0 } else { queues };
    let mut broker = Broker::new(1 + consumers);
    broker.set_up(&case, queues);
    let round: Vec<Vec<u8>> = (0..if case == "spread" { queues } else { 1 })
        .map(|queue| publish(&case, queue, body_bytes))
        .collect();
    let in_batch = (READ_BYTES / round.first().map_or(1, Vec::len)).clamp(1, count);
    let mut next = round.iter().cycle();
    let mut batch = Vec::new();
    let behind = match case.as_str() {
        "manual" => 0,
        "behind" => BACKLOG,
        _ => usize::MAX,
    };
    let mut start = Instant::now();
    let (mut done, mut acked) = (0, 0);
    while done < count {
        if batch.is_empty() || round.len() > 1 {
            batch.clear();
            next.by_ref()
                .take(in_batch)
                .for_each(|one| batch.extend(one));
        }
        broker.receive(0, &batch);
        done += in_batch;
        broker.acknowledge(&mut acked, done.saturating_sub(behind));
    }
    if case == "drain" {
        start = Instant::now();
        broker.drain(&mut acked, done);
    }
    let each = nanoseconds_each(start, done);
    let sent: u64 = broker.sent.iter().sum();
    writeln!(
        std::io::stdout(),
        "{case}: {each:.1} ns a message, {} bytes sent each",
        sent / done as u64
    )
}

#[expect(clippy::cast_precision_loss, reason = "a rounded figure for people")]
fn nanoseconds_each(start: Instant, count: usize) -> f64 {
    start.elapsed().as_nanos() as f64 / count as f64
}

/// A shard and the sessions of its connections, the first of which publishes.
struct Broker {
    shard: Shard,
    inbounds: Vec<Inbound>,
    outbounds: Vec<Outbound>,
    log: Journal,
    fetches: Vec<Fetch>,
    sent: Vec<u64>,
}

/// Takes facts as the journal does, and forgets them, save messages that are to be drained.
#[derive(Default)]
struct Journal {
    pending: Vec<u8>,
    index: u64,
    /// Where the records end, if they are kept.
    ends: Option<Vec<usize>>,
}

impl Journal {
    fn record(&mut self, encode: impl FnOnce(&mut Vec<u8>)) -> u64 {
        if self.ends.is_none() && self.pending.len() > 4 * READ_BYTES {
            self.pending.clear();
        }
        encode(&mut self.pending);
        if let Some(ends) = &mut self.ends {
            ends.push(self.pending.len());
        }
        self.index += 1;
        self.index
    }

    /// The message that was written with that index.
    fn read(&self, origin: Origin, spare: Option<Arc<Message>>) -> Option<Arc<Message>> {
        let ends = self.ends.as_ref()?;
        let at = usize::try_from(origin.index).ok()? - 1;
        let start = at
            .checked_sub(1)
            .map_or(Some(0), |before| ends.get(before).copied())?;
        let record = self.pending.get(start..*ends.get(at)?)?;
        read_short_message(record, origin.part, spare).ok()
    }
}

impl Log for Journal {
    fn append(&mut self, fact: &Fact, _references: u32) -> u64 {
        self.record(|bytes| fact.encode(bytes))
    }

    fn append_published(&mut self, published: &PublishedRef<'_>, _references: u32) -> u64 {
        self.record(|bytes| published.encode(bytes))
    }

    fn append_lazy(&mut self, fact: &Fact) -> u64 {
        self.append(fact, 0)
    }

    fn release(&mut self, _index: u64, _count: u32) {}

    fn retain_run(&mut self, _first: u64, _count: u64) {}

    fn has_room(&self, _bytes: u64) -> bool {
        true
    }
}

/// Carries out what one connection asks for.
struct Executor<'a> {
    shard: &'a mut Shard,
    log: &'a mut Journal,
    outlet: Outlet<'a>,
    connection: usize,
}

struct Outlet<'a> {
    outbounds: &'a mut [Outbound],
    fetches: &'a mut Vec<Fetch>,
}

/// What a queue wants read.
type Fetch = (QueueId, Vec<Wanted>, Vec<Arc<Message>>);

impl Outlet<'_> {
    fn of(&mut self, connection: ConnectionId) -> Option<&mut Outbound> {
        self.outbounds.get_mut(usize::try_from(connection.0).ok()?)
    }
}

impl Effects for Outlet<'_> {
    fn effect(&mut self, effect: Effect) {
        if let Effect::Fetch {
            queue,
            wanted,
            spare,
        } = effect
        {
            self.fetches.push((queue, wanted, spare));
        } else if let Effect::Channel { to, .. } = &effect
            && let Some(outbound) = self.of(to.connection)
        {
            outbound.handle(effect);
        }
    }

    fn deliver(&mut self, delivery: &Delivering<'_>) {
        if let Some(outbound) = self.of(delivery.to.connection) {
            outbound.deliver(delivery);
        }
    }

    fn confirm(&mut self, to: ChannelKey, after: u64, sequence: u64, accepted: bool) {
        if let Some(outbound) = self.of(to.connection) {
            outbound.confirm(to.channel, after, sequence, accepted);
        }
    }
}

impl Sink for Executor<'_> {
    fn action(&mut self, action: Action) {
        match action {
            Action::Command(command) => {
                self.shard.execute(0, command, self.log, &mut self.outlet);
            }
            Action::Send(outgoing) => {
                if let Some(outbound) = self.outlet.outbounds.get_mut(self.connection) {
                    outbound.send(outgoing);
                }
            }
            Action::Authenticate { .. } | Action::Open { .. } | Action::Close { .. } => {}
        }
    }

    fn publish(&mut self, channel: ChannelKey, publish: &PublishRef<'_>) {
        self.shard
            .publish_in_place(0, channel, publish, self.log, &mut self.outlet);
    }

    fn has_foresight(&self) -> bool {
        self.shard.has_foresight()
    }

    fn foresee(&mut self, keys: &[(&[u8], &[u8])]) {
        self.shard.foresee(keys);
    }

    fn acknowledge(&mut self, channel: ChannelKey, delivery_tags: &[DeliveryTag]) {
        let (log, outlet) = (&mut *self.log, &mut self.outlet);
        self.shard
            .acknowledge_each(0, channel, delivery_tags, log, outlet);
    }
}

impl Broker {
    fn new(connections: usize) -> Self {
        let mut shard = Shard::new(ShardSettings::default());
        let mut log = Journal::default();
        shard.start(0, &Name::from("/"), &mut log);
        let config = Arc::new(SessionConfig::default());
        let ids = (0..connections as u64).map(ConnectionId);
        Self {
            shard,
            inbounds: ids
                .map(|id| Inbound::new(Arc::clone(&config), id, 0))
                .collect(),
            outbounds: (0..connections).map(|_| Outbound::new(0)).collect(),
            log,
            fetches: Vec::new(),
            sent: vec![0; connections],
        }
    }

    /// One read and what follows from it.
    fn receive(&mut self, connection: usize, bytes: &[u8]) {
        self.work(connection, |inbound, executor| {
            inbound.receive(0, bytes, &mut || 0, executor);
        });
        self.shard.finish(&mut self.log);
        for round in 0..self.outbounds.len() {
            self.flush(round);
        }
        while let Some(fetch) = self.fetches.pop() {
            self.fetched(fetch);
        }
    }

    /// Answers a fetch.
    fn fetched(&mut self, (queue, wanted, mut spare): Fetch) {
        let read = |one: &Wanted| (one.sequence, self.log.read(one.origin, spare.pop()));
        let messages = wanted.iter().map(read).collect();
        self.execute(Command::Fetched { queue, messages });
        self.shard.finish(&mut self.log);
        for round in 0..self.outbounds.len() {
            self.flush(round);
        }
    }

    fn execute(&mut self, command: Command) {
        let mut outlet = Outlet {
            outbounds: &mut self.outbounds,
            fetches: &mut self.fetches,
        };
        self.shard.execute(0, command, &mut self.log, &mut outlet);
    }

    /// The consumer acknowledges up to that delivery, as many at once as may be out.
    fn acknowledge(&mut self, acked: &mut usize, until: usize) {
        let mut acks = Vec::new();
        while *acked < until {
            acks.clear();
            for _ in 0..usize::from(PREFETCH).min(until - *acked) {
                *acked += 1;
                ack(*acked as u64, &mut acks);
            }
            self.receive(1, &acks);
        }
    }

    /// A consumer comes and takes all.
    #[inline(never)]
    fn drain(&mut self, acked: &mut usize, until: usize) {
        let mut bytes = Vec::new();
        consume(b"queue-0", false, &mut bytes);
        self.receive(1, &bytes);
        self.acknowledge(acked, until);
    }

    fn work(&mut self, connection: usize, work: impl FnOnce(&mut Inbound, &mut dyn Sink)) {
        let mut executor = Executor {
            shard: &mut self.shard,
            log: &mut self.log,
            outlet: Outlet {
                outbounds: &mut self.outbounds,
                fetches: &mut self.fetches,
            },
            connection,
        };
        if let Some(inbound) = self.inbounds.get_mut(connection) {
            work(inbound, &mut executor);
        }
    }

    /// Sends everything to nowhere, and gives the credit of it back.
    fn flush(&mut self, connection: usize) {
        let (Some(outbound), Some(sent)) = (
            self.outbounds.get_mut(connection),
            self.sent.get_mut(connection),
        ) else {
            return;
        };
        outbound.committed(self.log.index);
        outbound.flush();
        let mut bytes = 0;
        while outbound.pending_bytes() > 0 {
            let mut slices: Vec<IoSlice<'_>> = Vec::new();
            outbound.transmit(&mut slices);
            let count = slices.iter().map(|slice| slice.len()).sum();
            *sent += count as u64;
            bytes += outbound.advance(0, count);
        }
        if bytes > 0 {
            let connection = ConnectionId(connection as u64);
            self.execute(Command::Drained { connection, bytes });
        }
    }

    fn set_up(&mut self, case: &str, queues: usize) {
        for connection in 0..self.inbounds.len() {
            self.receive(connection, &handshake());
            self.work(connection, |inbound, sink| {
                inbound.authenticated(0, Ok(Name::from("guest")), sink);
                inbound.receive(0, &[], &mut || 0, sink);
                inbound.opened(0, Ok(()), sink);
                inbound.receive(0, &[], &mut || 0, sink);
            });
            let mut bytes = Vec::new();
            let open = ChannelOpen { out_of_band: b"" };
            method(&mut bytes, 1, Method::ChannelOpen(open));
            self.receive(connection, &bytes);
        }
        let mut bytes = Vec::new();
        declare(queues, &mut bytes);
        if is_stored(case) {
            let select = ConfirmSelect { nowait: false };
            method(&mut bytes, 1, Method::ConfirmSelect(select));
        }
        self.receive(0, &bytes);
        if case == "drain" {
            self.log = Journal {
                ends: Some(Vec::new()),
                ..Journal::default()
            };
            return;
        }
        for connection in 1..self.inbounds.len() {
            let mut bytes = Vec::new();
            let queue = format!("queue-{}", connection - 1);
            let no_ack = !matches!(case, "manual" | "behind");
            consume(queue.as_bytes(), no_ack, &mut bytes);
            self.receive(connection, &bytes);
        }
    }
}

fn handshake() -> Vec<u8> {
    let mut bytes = PROTOCOL_HEADER.to_vec();
    let start = ConnectionStartOk {
        client_properties: b"",
        mechanism: b"PLAIN",
        response: b"\0guest\0guest",
        locale: b"en_US",
    };
    method(&mut bytes, 0, Method::ConnectionStartOk(start));
    let tune = ConnectionTuneOk {
        channel_max: 2047,
        frame_max: 131_072,
        heartbeat: 60,
    };
    method(&mut bytes, 0, Method::ConnectionTuneOk(tune));
    let open = ConnectionOpen {
        virtual_host: b"/",
        capabilities: b"",
        insist: false,
    };
    method(&mut bytes, 0, Method::ConnectionOpen(open));
    bytes
}

fn declare(queues: usize, bytes: &mut Vec<u8>) {
    let exchange = ExchangeDeclare {
        ticket: 0,
        exchange: b"fan",
        kind: b"fanout",
        passive: false,
        durable: false,
        auto_delete: false,
        internal: false,
        nowait: true,
        arguments: b"",
    };
    method(bytes, 1, Method::ExchangeDeclare(exchange));
    for queue in 0..queues {
        let queue = format!("queue-{queue}");
        let declare = QueueDeclare {
            ticket: 0,
            queue: queue.as_bytes(),
            passive: false,
            durable: true,
            exclusive: false,
            auto_delete: false,
            nowait: true,
            arguments: b"",
        };
        method(bytes, 1, Method::QueueDeclare(declare));
        let bind = QueueBind {
            ticket: 0,
            queue: queue.as_bytes(),
            exchange: b"fan",
            routing_key: b"",
            nowait: true,
            arguments: b"",
        };
        method(bytes, 1, Method::QueueBind(bind));
    }
}

fn consume(queue: &[u8], no_ack: bool, bytes: &mut Vec<u8>) {
    let qos = BasicQos {
        prefetch_size: 0,
        prefetch_count: if no_ack { 0 } else { PREFETCH },
        global: false,
    };
    method(bytes, 1, Method::BasicQos(qos));
    let consume = BasicConsume {
        ticket: 0,
        queue,
        consumer_tag: b"consumer",
        no_local: false,
        no_ack,
        exclusive: false,
        nowait: true,
        arguments: b"",
    };
    method(bytes, 1, Method::BasicConsume(consume));
}

/// Persistent messages that stay in their queues.
fn is_stored(case: &str) -> bool {
    matches!(case, "confirm" | "spread")
}

fn publish(case: &str, queue: usize, body_bytes: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let routing_key = format!("queue-{queue}");
    let publish = BasicPublish {
        ticket: 0,
        exchange: if case == "fanout" { b"fan" } else { b"" },
        routing_key: routing_key.as_bytes(),
        mandatory: false,
        immediate: false,
    };
    method(&mut bytes, 1, Method::BasicPublish(publish));
    let mode = if is_stored(case) || case == "drain" {
        2
    } else {
        1
    };
    write_frame(&mut bytes, HEADER, 1, |out| {
        out.extend([0, 60, 0, 0]);
        out.extend((body_bytes as u64).to_be_bytes());
        out.extend([0x10, 0, mode]);
    });
    write_frame(&mut bytes, BODY, 1, |out| out.extend(vec![7; body_bytes]));
    bytes
}

fn ack(delivery_tag: u64, bytes: &mut Vec<u8>) {
    let ack = BasicAck {
        delivery_tag,
        multiple: false,
    };
    method(bytes, 1, Method::BasicAck(ack));
}

fn method(out: &mut Vec<u8>, channel: u16, method: Method<'_>) {
    debug_assert!(channel == 0 || ChannelId::new(channel).is_some());
    write_frame(out, METHOD, channel, |out| method.write(out));
}
