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
mod dead_letter;
mod deduplicate;
mod define;
mod delays;
mod deliver;
mod due;
mod effective;
mod exchange;
mod expire;
mod fetch;
mod get;
mod groups;
mod limit;
mod pass;
mod policy;
mod publish;
mod queue;
mod replay;
mod reply;
mod returns;
mod route;
mod settle;
mod store;
mod summary;
mod time_out;
mod transaction;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hint::black_box;
use std::sync::Arc;

use menzil_model::{ChannelId, ConnectionId, DeliveryTag, Fact, Map, Message, Name, QueueId};

use crate::channel::{Channel, Mode};
use crate::command::{ChannelKey, Command, PublishRef, Request};
use crate::consumer::{Consumer, ConsumerId};
use crate::content::ContentMemory;
use crate::counters::Counters;
use crate::effect::{Effects, Output, Reply};
use crate::log::Log;
use crate::policy::Policies;
use crate::queue::{Item, Queue};
use crate::refusal::Refusal;
use crate::releases::Releases;
use crate::replay::Replay;
use crate::scratch::{Scratch, Shelf};
use crate::settling::Settling;
use crate::slots::{Place, Slots};
use crate::spare::Spare;
use crate::topology::{Targets, Topology};
use crate::turn::Turn;
use crate::ways::Ways;

pub use checkpoint::{Draft, Frozen, QUEUES_LOOKED_AT};
pub use define::{Definition, Definitions};
pub use delays::{Delay, DelaySummary, Stray};
pub use effective::{Effective, Setting, SettingOrigin, SettingValue};
pub use summary::{QUEUES_COUNTED, QueueSummary, Summary};

/// What may be tuned of a shard.
#[derive(Clone, Debug)]
pub struct ShardSettings {
    /// Bytes of durable message content kept in memory; what is over is read from the journal
    /// again when it is due.
    pub content_bytes_max: u64,
    /// Entries of an index page: what a queue keeps at hand of a long backlog at each end, and
    /// packs together between.
    pub index_page_entries: usize,
    /// Bytes of packed pages that memory may hold; what is over goes to scratch space.
    pub index_bytes_max: u64,
    /// Where it goes; without any it stays in memory.
    pub scratch: Option<Arc<dyn Scratch>>,
    /// Bytes of deliveries that may wait in one connection's outbox.
    pub credit_bytes: u64,
    /// Bytes of messages that one transaction may hold.
    pub transaction_bytes_max: u64,
    /// Bodies up to this size are copied beside their envelope and journaled with it; larger
    /// ones go in chunks of this size.
    pub chunk_bytes: usize,
    /// Bytes of direct replies that may wait in one connection's outbox beyond those of
    /// deliveries; what is over is lost.
    pub reply_bytes_max: u64,
    /// Consumers of one channel.
    pub consumers_per_channel_max: usize,
    /// `x-death` headers that a client wrote go on counting, as before RabbitMQ 4.
    pub dead_letter_counts_client_headers: bool,
}

impl Default for ShardSettings {
    fn default() -> Self {
        Self {
            content_bytes_max: 64 << 20,
            index_page_entries: 256,
            index_bytes_max: 32 << 20,
            scratch: None,
            credit_bytes: 1 << 20,
            transaction_bytes_max: 64 << 20,
            chunk_bytes: 1 << 20,
            reply_bytes_max: 64 << 20,
            consumers_per_channel_max: 65_535,
            dead_letter_counts_client_headers: false,
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

impl Connection {
    /// Content on its way uses credit up.
    fn spend(&mut self, bytes: u64) {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.credit = self.credit.saturating_sub(bytes);
    }
}

/// See the module.
#[derive(Debug)]
pub struct Shard {
    settings: ShardSettings,
    name: Name,
    topology: Topology,
    queues: Slots<QueueId, Queue>,
    content: ContentMemory,
    releases: Releases,
    shelf: Arc<Shelf>,
    connections: Slots<ConnectionId, Connection>,
    channels: Slots<ChannelKey, Channel>,
    /// Where the channel lies that was last asked for: a batch mostly speaks of one.
    last_channel: Option<(ChannelKey, Place)>,
    consumers: Slots<ConsumerId, Consumer>,
    next_exchange: u64,
    next_queue: u64,
    next_consumer: u64,
    next_route: u64,
    ways: Ways,
    settling: Settling,
    replays: BTreeMap<u64, Replay>,
    /// What came in this turn to stores that replays read from.
    arrived: Vec<(QueueId, Item, Arc<Message>)>,
    next_replay: u64,
    spare: Spare,
    /// Queues whose entries, consumers or deadlines changed in this turn.
    touched: VecDeque<(QueueId, Place)>,
    /// Stores that messages came to since the last [`Shard::finish`].
    grown: Vec<QueueId>,
    /// Delayed messages that found no queue, for who looks.
    strays: Vec<Stray>,
    /// Who gets direct replies, by the name that they are published to.
    repliers: Map<Name, ChannelKey>,
    /// Channels that wait for the journal.
    parked: Vec<ChannelKey>,
    timers: BTreeSet<(u64, QueueId)>,
    /// When consumers are to be looked at that may not leave deliveries unsettled for ever.
    consumer_timers: BTreeSet<(u64, ConsumerId)>,
    /// The same of channels, for what `basic.get` took.
    channel_timers: BTreeSet<(u64, ChannelKey)>,
    /// Consumers that are to be in these timers at the end of the turn.
    unarmed: Vec<ConsumerId>,
    policies: Policies,
    sweep: policy::Sweep,
    letters: dead_letter::Letters,
    over: limit::OverLimit,
    /// The index of the last topology fact: what reveals topology waits for it.
    topology_index: u64,
    counters: Counters,
    targets: Targets,
}

impl Shard {
    /// An empty shard, before recovery.
    pub fn new(settings: ShardSettings) -> Self {
        let content = ContentMemory::new(settings.content_bytes_max);
        let shelf = Shelf::new(settings.scratch.clone(), settings.index_bytes_max);
        Self {
            settings,
            name: Name::empty(),
            topology: Topology::default(),
            queues: Slots::default(),
            content,
            releases: Releases::default(),
            shelf,
            connections: Slots::default(),
            channels: Slots::default(),
            last_channel: None,
            consumers: Slots::default(),
            next_exchange: 1,
            next_queue: 1,
            next_consumer: 1,
            next_route: 0,
            ways: Ways::default(),
            settling: Settling::default(),
            replays: BTreeMap::new(),
            arrived: Vec::new(),
            next_replay: 1,
            spare: Spare::default(),
            touched: VecDeque::new(),
            grown: Vec::new(),
            strays: Vec::new(),
            repliers: Map::default(),
            parked: Vec::new(),
            timers: BTreeSet::new(),
            consumer_timers: BTreeSet::new(),
            channel_timers: BTreeSet::new(),
            unarmed: Vec::new(),
            policies: Policies::default(),
            sweep: policy::Sweep::default(),
            letters: dead_letter::Letters::default(),
            over: limit::OverLimit::default(),
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
        effects: &mut dyn Effects,
    ) {
        let mut turn = Turn { now, log, effects };
        match command {
            Command::Request { channel, request } => self.request(&mut turn, channel, request),
            Command::Drained { connection, bytes } => self.drained(&mut turn, connection, bytes),
            Command::Fetched { queue, messages } => self.fetched(&mut turn, queue, messages),
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

    /// As [`Shard::execute`] of [`Request::Publish`], for a message that lies somewhere else.
    pub fn publish_in_place(
        &mut self,
        now: u64,
        channel: ChannelKey,
        publish: &PublishRef<'_>,
        log: &mut dyn Log,
        effects: &mut dyn Effects,
    ) {
        let mut turn = Turn { now, log, effects };
        if let Some(place) = self.channel_place(channel)
            && !self.pass_again(&mut turn, (channel, place), publish)
        {
            self.publish_anew(&mut turn, (channel, place), publish);
        }
        self.settle_down(&mut turn);
    }

    /// What is not like the publish before it.
    #[inline(never)]
    fn publish_anew(
        &mut self,
        turn: &mut Turn<'_>,
        (key, place): (ChannelKey, Place),
        publish: &PublishRef<'_>,
    ) {
        match self.channels.at(place, key) {
            None => {}
            Some(open) if open.parked.is_some() => {
                self.request(turn, key, Request::Publish(publish.to_owned()));
            }
            Some(_) => {
                if let Err(refusal) = self.publish(turn, (key, place), publish) {
                    self.refuse(turn, key, refusal, PUBLISH);
                }
            }
        }
    }

    /// Whether [`Shard::foresee`] is of use: where so many ways are taken in turn that no cache
    /// holds what is needed of them.
    pub fn has_foresight(&self) -> bool {
        self.ways.are_many()
    }

    /// Has the memory that publishes to come will need come from afar, for all of them at once.
    /// `keys` are exchange and routing key of each.
    pub fn foresee(&self, keys: &[(&[u8], &[u8])]) {
        let mut sum = 0;
        self.ways.touch(keys, |way| {
            let queue = self.queues.at(way.place, way.queue);
            sum ^= queue.map_or(0, Queue::touch);
        });
        black_box(sum);
    }

    /// As [`Shard::execute`] of a [`Request::Ack`] of each delivery tag in order, but that
    /// consumers get more only when all are carried out.
    pub fn acknowledge_each(
        &mut self,
        now: u64,
        channel: ChannelKey,
        delivery_tags: &[DeliveryTag],
        log: &mut dyn Log,
        effects: &mut dyn Effects,
    ) {
        let mut turn = Turn { now, log, effects };
        match self.channel_mut(channel) {
            None => {}
            Some(open) if open.parked.is_some() => {
                for delivery_tag in delivery_tags {
                    let request = Request::Ack {
                        delivery_tag: *delivery_tag,
                        multiple: false,
                    };
                    self.request(&mut turn, channel, request);
                }
            }
            Some(_) => {
                let done = self.acknowledge_run(&mut turn, channel, delivery_tags);
                if let Err(refusal) = done {
                    self.refuse(&mut turn, channel, refusal, ACK);
                }
            }
        }
        self.settle_down(&mut turn);
    }

    /// Writes what gathered. The driver calls it at the end of each batch of commands.
    pub fn finish(&mut self, log: &mut dyn Log) {
        self.drop_over_limits(log);
        self.settling.write(log);
        self.releases.write(log);
    }

    fn request(&mut self, turn: &mut Turn<'_>, key: ChannelKey, request: Request) {
        let Some(channel) = self.channel_mut(key) else {
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
            Request::Publish(publish) => match self.channel_place(key) {
                None => Ok(()),
                Some(place) => self.publish(turn, (key, place), &publish.borrowed()),
            },
            Request::Ack {
                delivery_tag,
                multiple,
            } => self.acknowledge(turn, key, delivery_tag, multiple),
            Request::Reject {
                delivery_tag,
                multiple,
                requeue,
                method,
            } => self.reject(turn, key, delivery_tag, multiple, requeue, method),
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
        retain(turn.log, &fact);
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
        if let Some(place) = self.queues.place(&queue) {
            self.touch_at(queue, place);
        }
    }

    /// As [`Shard::touch`], where its place is known.
    fn touch_at(&mut self, queue: QueueId, place: Place) {
        if self.touched.back() != Some(&(queue, place)) {
            self.touched.push_back((queue, place));
        }
    }

    /// Delivers and expires until nothing is left to do now.
    #[inline]
    fn settle_down(&mut self, turn: &mut Turn<'_>) {
        self.allow_moves();
        // Mostly nothing is: a message that a consumer took as it came touches no queue.
        if !self.touched.is_empty() || !self.arrived.is_empty() || self.letters.is_behind() {
            self.note_arrivals(turn);
            self.settle_touched(turn);
        }
    }

    fn settle_touched(&mut self, turn: &mut Turn<'_>) {
        loop {
            while let Some((id, place)) = self.touched.pop_front() {
                self.settle_queue(turn, id, place);
            }
            if !self.bury_refused(turn) {
                return;
            }
        }
    }

    fn settle_queue(&mut self, turn: &mut Turn<'_>, id: QueueId, place: Place) {
        self.end_delays(turn.now, id, place);
        if self.over.knows(id) && self.trim(turn, id, place) {
            self.over.forget(id);
            self.resume_parked(turn, id);
        }
        self.pump(turn, id, place);
        let Some(queue) = self.queues.at(place, id) else {
            return;
        };
        if id.is_store() && self.grown.last() != Some(&id) {
            self.grown.push(id);
        }
        if queue.has_deadlines() || queue.dead_letters() {
            if self.expire_now(turn, id) {
                self.pump(turn, id, place);
            }
            if self.bury(turn, id, place) {
                self.resume_parked(turn, id);
                self.touch_at(id, place);
            }
            self.reset_timer(id);
        }
        self.note_content(id, place);
        if self.has_refused() {
            self.wake_refused(id);
        }
        self.arm_stopwatches();
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

    /// The channel, found by where it lay the last time if it is the same as then.
    fn channel_mut(&mut self, key: ChannelKey) -> Option<&mut Channel> {
        let place = self.channel_place(key)?;
        self.channels.at_mut(place, key)
    }

    fn channel_place(&mut self, key: ChannelKey) -> Option<Place> {
        if let Some((last, place)) = self.last_channel
            && last == key
        {
            return Some(place);
        }
        let place = self.channels.place(&key)?;
        self.last_channel = Some((key, place));
        Some(place)
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

/// Class and method number of `basic.publish`.
const PUBLISH: (u16, u16) = (60, 40);

/// Class and method number of `basic.ack`.
const ACK: (u16, u16) = (60, 80);

/// How many entries will need the record to read their message from it.
fn references(fact: &Fact) -> u32 {
    let mut entries = 0;
    for part in fact.parts() {
        if let Fact::Published(published) = part {
            entries += published.entries.len();
        }
    }
    u32::try_from(entries).unwrap_or(u32::MAX)
}

/// Tells the journal of entries that need records which are there already.
fn retain(log: &mut dyn Log, fact: &Fact) {
    for part in fact.parts() {
        if let Fact::Copied { entries, .. } = part {
            entries.needs(&mut |first, count| log.retain_run(first, count));
        }
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
        Request::Publish(_) => PUBLISH,
        Request::Get { .. } => (60, 70),
        Request::Ack { .. } => ACK,
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
