//! The state of one virtual host and everything that may be asked of it.
//!
//! Each file beside this one is a concern: `apply` is what facts do, the others decide. A
//! deciding function reads the state, makes facts, and hands them to [`Shard::record`], which
//! writes and applies them; volatile state (consumers, what is out with whom) it changes
//! itself. Invariant: between commands no queue has a ready entry and a consumer that could
//! take it, unless it waits for the journal to read the entry.

mod apply;
mod checkpoint;
mod close;
mod consume;
mod deliver;
mod exchange;
mod expire;
mod get;
mod publish;
mod queue;
mod settle;
mod summary;
mod transaction;

use std::collections::{BTreeSet, VecDeque};

use menzil_model::{ChannelId, ConnectionId, Fact, Map, Name, QueueId};

use crate::channel::{Channel, Mode};
use crate::command::{ChannelKey, Command, Request};
use crate::consumer::{Consumer, ConsumerId};
use crate::counters::Counters;
use crate::effect::{Effect, Output, Reply};
use crate::log::Log;
use crate::queue::Queue;
use crate::refusal::Refusal;
use crate::settling::Settling;
use crate::store::Store;
use crate::topology::{Targets, Topology};
use crate::turn::Turn;

pub use summary::{QueueSummary, Summary};

/// What may be tuned of a shard.
#[derive(Clone, Debug)]
pub struct ShardSettings {
    /// Bytes of durable message content kept in memory; what is over is read from the journal
    /// again when it is due.
    pub content_bytes_max: u64,
    /// Bytes of deliveries that may wait in one connection's outbox.
    pub credit_bytes: u64,
    /// Bytes of messages that one transaction may hold.
    pub transaction_bytes_max: u64,
    /// Bodies up to this size are copied beside their envelope and journaled with it; larger
    /// ones go in chunks of this size.
    pub chunk_bytes: usize,
    /// Consumers of one channel.
    pub consumers_per_channel_max: usize,
}

impl Default for ShardSettings {
    fn default() -> Self {
        Self {
            content_bytes_max: 256 << 20,
            credit_bytes: 1 << 20,
            transaction_bytes_max: 64 << 20,
            chunk_bytes: 1 << 20,
            consumers_per_channel_max: 65_535,
        }
    }
}

/// What a shard knows of a connection.
#[derive(Debug)]
struct Connection {
    user: Name,
    cancel_notify: bool,
    /// Bytes that deliveries may still add to its outbox; deliveries stop at zero or below.
    credit: i64,
    channels: BTreeSet<ChannelId>,
    /// Exclusive queues that die with it.
    owned: BTreeSet<QueueId>,
}

/// See the module.
#[derive(Debug)]
pub struct Shard {
    settings: ShardSettings,
    name: Name,
    topology: Topology,
    queues: Map<QueueId, Queue>,
    store: Store,
    connections: Map<ConnectionId, Connection>,
    channels: Map<ChannelKey, Channel>,
    consumers: Map<ConsumerId, Consumer>,
    next_exchange: u64,
    next_queue: u64,
    next_consumer: u64,
    settling: Settling,
    /// Queues whose entries, consumers or deadlines changed in this turn.
    touched: VecDeque<QueueId>,
    /// Channels with a `basic.get` that waits for the journal.
    parked: Vec<ChannelKey>,
    timers: BTreeSet<(u64, QueueId)>,
    /// The index of the last topology fact: what reveals topology waits for it.
    topology_index: u64,
    counters: Counters,
    targets: Targets,
}

impl Shard {
    /// An empty shard, before recovery.
    pub fn new(settings: ShardSettings) -> Self {
        let store = Store::new(settings.content_bytes_max);
        Self {
            settings,
            name: Name::empty(),
            topology: Topology::default(),
            queues: Map::default(),
            store,
            connections: Map::default(),
            channels: Map::default(),
            consumers: Map::default(),
            next_exchange: 1,
            next_queue: 1,
            next_consumer: 1,
            settling: Settling::default(),
            touched: VecDeque::new(),
            parked: Vec::new(),
            timers: BTreeSet::new(),
            topology_index: 0,
            counters: Counters::default(),
            targets: Targets::default(),
        }
    }

    /// The virtual host's name; empty before the first fact.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Carries out one command. Settles may gather until [`Shard::finish`].
    pub fn execute(
        &mut self,
        now: u64,
        command: Command,
        log: &mut dyn Log,
        effects: &mut Vec<Effect>,
    ) {
        let mut turn = Turn { now, log, effects };
        match command {
            Command::Request { channel, request } => self.request(&mut turn, channel, request),
            Command::Drained { connection, bytes } => self.drained(&mut turn, connection, bytes),
            Command::Fetched { origin, message } => self.fetched(&mut turn, origin, message),
            Command::ConnectionOpened {
                connection,
                user,
                cancel_notify,
            } => {
                self.open_connection(connection, user, cancel_notify);
            }
            Command::ConnectionClosed { connection } => {
                self.close_connection(&mut turn, connection);
            }
            Command::ChannelOpened(key) => self.open_channel(&mut turn, key),
            Command::ChannelClosed(key) => {
                self.carry_out_behind(&mut turn, key);
                self.close_channel(&mut turn, key);
                let after = self.topology_index;
                turn.reply(key, false, after, Reply::ChannelClosed);
            }
        }
        self.settle_down(&mut turn);
    }

    /// Writes what gathered. The driver calls it at the end of each batch of commands.
    pub fn finish(&mut self, log: &mut dyn Log) {
        self.settling.write(log);
        for index in self.store.take_released() {
            log.release(index, 1);
        }
    }

    fn request(&mut self, turn: &mut Turn<'_>, key: ChannelKey, request: Request) {
        let Some(channel) = self.channels.get_mut(&key) else {
            // The channel was refused; what the client sent before it knew is dropped.
            return;
        };
        if let Some(parked) = &mut channel.parked {
            if let Request::Publish(publish) = &request {
                let bytes: usize = publish.body.iter().map(bytes::Bytes::len).sum();
                parked.behind_bytes += bytes as u64;
            }
            parked.behind.push_back(request);
            return;
        }
        let method = method_of(&request);
        if let Err(refusal) = self.decide(turn, key, request) {
            self.refuse(turn, key, refusal, method);
        }
    }

    fn decide(
        &mut self,
        turn: &mut Turn<'_>,
        key: ChannelKey,
        request: Request,
    ) -> Result<(), Refusal> {
        match request {
            Request::Publish(publish) => self.publish(turn, key, publish),
            Request::Ack {
                delivery_tag,
                multiple,
            } => self.acknowledge(turn, key, delivery_tag, multiple),
            Request::Reject {
                delivery_tag,
                multiple,
                requeue,
                method: _,
            } => self.reject(turn, key, delivery_tag, multiple, requeue),
            Request::Recover { requeue, reply } => self.recover(turn, key, requeue, reply),
            Request::Get { queue, no_ack } => self.get(turn, key, &queue, no_ack),
            Request::Consume(consume) => self.consume(turn, key, consume),
            Request::Cancel {
                consumer_tag,
                nowait,
            } => {
                self.cancel(turn, key, consumer_tag, nowait);
                Ok(())
            }
            Request::Qos {
                prefetch_size,
                prefetch_count,
                global,
            } => self.qos(turn, key, prefetch_size, prefetch_count, global),
            Request::ExchangeDeclare(declare) => self.declare_exchange(turn, key, &declare),
            Request::ExchangeDelete {
                exchange,
                if_unused,
                nowait,
            } => self.delete_exchange(turn, key, &exchange, if_unused, nowait),
            Request::ExchangeBind(bind) => self.bind_exchange(turn, key, &bind),
            Request::ExchangeUnbind(bind) => self.unbind_exchange(turn, key, &bind),
            Request::QueueDeclare(declare) => self.declare_queue(turn, key, declare),
            Request::QueueBind(bind) => self.bind_queue(turn, key, &bind),
            Request::QueueUnbind(bind) => self.unbind_queue(turn, key, &bind),
            Request::QueuePurge { queue, nowait } => self.purge(turn, key, &queue, nowait),
            Request::QueueDelete {
                queue,
                if_unused,
                if_empty,
                nowait,
            } => self.delete_queue_by_name(turn, key, &queue, if_unused, if_empty, nowait),
            Request::ConfirmSelect { nowait } => self.select_confirm(turn, key, nowait),
            Request::TxSelect => self.select_transaction(turn, key),
            Request::TxCommit => self.commit_transaction(turn, key),
            Request::TxRollback => self.roll_back_transaction(turn, key),
        }
    }

    /// Writes a fact, if it is durable, and applies it. Returns its index, 0 where it was not
    /// written.
    fn record(&mut self, turn: &mut Turn<'_>, fact: Fact, durable: bool) -> u64 {
        let index = if durable {
            self.settling.write(turn.log);
            turn.log.append(&fact, references(&fact))
        } else {
            0
        };
        if durable && fact.class() == menzil_model::Class::Topology {
            self.topology_index = index;
        }
        self.apply(index, fact);
        index
    }

    /// Notes that a queue may have something to do at the end of the turn.
    fn touch(&mut self, queue: QueueId) {
        if self.touched.back() != Some(&queue) {
            self.touched.push_back(queue);
        }
    }

    /// Delivers and expires until nothing is left to do now.
    fn settle_down(&mut self, turn: &mut Turn<'_>) {
        while let Some(queue) = self.touched.pop_front() {
            self.pump(turn, queue);
            if self.expire_now(turn, queue) {
                self.pump(turn, queue);
            }
            self.reset_timer(queue);
        }
    }

    /// Answers a request that failed and closes what the refusal says.
    fn refuse(
        &mut self,
        turn: &mut Turn<'_>,
        key: ChannelKey,
        refusal: Refusal,
        method: (u16, u16),
    ) {
        self.counters.refusals += 1;
        let hard = refusal.is_hard();
        turn.send(
            key,
            self.topology_index,
            Output::Refused { refusal, method },
        );
        if hard {
            self.drop_connection(turn, key.connection);
        } else {
            self.close_channel(turn, key);
        }
    }

    fn channel(&mut self, key: ChannelKey) -> Option<&mut Channel> {
        self.channels.get_mut(&key)
    }

    fn select_confirm(
        &mut self,
        turn: &mut Turn<'_>,
        key: ChannelKey,
        nowait: bool,
    ) -> Result<(), Refusal> {
        let Some(channel) = self.channel(key) else {
            return Ok(());
        };
        match channel.mode {
            Mode::Transaction(_) => return Err(Refusal::ConfirmOnTransactional),
            Mode::Confirm { .. } => {}
            Mode::Plain => channel.mode = Mode::Confirm { last: 0 },
        }
        turn.reply(key, nowait, 0, Reply::ConfirmSelectOk);
        Ok(())
    }
}

/// Class and method number of a request, for the refusal that answers it.
fn method_of(request: &Request) -> (u16, u16) {
    use crate::command::Rejection;
    match request {
        Request::ExchangeDeclare(_) => (40, 10),
        Request::ExchangeDelete { .. } => (40, 20),
        Request::ExchangeBind(_) => (40, 30),
        Request::ExchangeUnbind(_) => (40, 40),
        Request::QueueDeclare(_) => (50, 10),
        Request::QueueBind(_) => (50, 20),
        Request::QueuePurge { .. } => (50, 30),
        Request::QueueDelete { .. } => (50, 40),
        Request::QueueUnbind(_) => (50, 50),
        Request::Qos { .. } => (60, 10),
        Request::Consume(_) => (60, 20),
        Request::Cancel { .. } => (60, 30),
        Request::Publish(_) => (60, 40),
        Request::Get { .. } => (60, 70),
        Request::Ack { .. } => (60, 80),
        Request::Reject {
            method: Rejection::Reject,
            ..
        } => (60, 90),
        Request::Reject {
            method: Rejection::Nack,
            ..
        } => (60, 120),
        Request::Recover { reply: false, .. } => (60, 100),
        Request::Recover { reply: true, .. } => (60, 110),
        Request::ConfirmSelect { .. } => (85, 10),
        Request::TxSelect => (90, 10),
        Request::TxCommit => (90, 20),
        Request::TxRollback => (90, 30),
    }
}

/// How many messages of the fact will be fetched from its record.
fn references(fact: &Fact) -> u32 {
    if let Fact::Group(facts) = fact {
        return facts.iter().map(references).sum();
    }
    let Fact::Published(published) = fact else {
        return 0;
    };
    u32::from(published.entries.iter().any(|entry| entry.durable))
}
