//! One shard behind one mutex, taken once per batch of commands by whoever has them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use menzil_core::{
    ChannelKey, Command, Counters, Definition, Definitions, Delay, DelaySummary, Effective, Frozen,
    Object, PublishRef, QUEUES_COUNTED, QUEUES_LOOKED_AT, QueueSummary, Refusal, Shard, Summary,
    Topology,
};
use menzil_journal::{Freeze, Marks};
use menzil_model::fact::PolicyDefinition;
use menzil_model::{ConnectionId, DeliveryTag, Map, Name, Sequence, ShardId};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use super::link::{Link, OutboundGuard};
use super::outlet::{Open, Outlet};
use super::{Node, ShardLog, stop_node};

/// A virtual host's state and who waits for it.
pub(crate) struct ShardDriver {
    pub(crate) id: ShardId,
    pub(crate) name: Name,
    /// How far the journal is with it.
    pub(crate) marks: Arc<Marks>,
    state: Mutex<State>,
    /// Links that hold output back until a commit.
    pub(crate) waiting: Mutex<Vec<Arc<Link>>>,
    /// The shard's next deadline is earlier than its timer knows.
    pub(crate) timer: Notify,
}

struct State {
    shard: Shard,
    links: Map<ConnectionId, Arc<Link>>,
    /// Links of connections that are not read while a `basic.get` waits for the journal.
    parked: Vec<Arc<Link>>,
    /// The deadline that the timer knows.
    armed: u64,
}

impl ShardDriver {
    pub(crate) fn new(id: ShardId, name: Name, shard: Shard, marks: Arc<Marks>) -> Self {
        Self {
            id,
            name,
            marks,
            state: Mutex::new(State {
                shard,
                links: Map::default(),
                parked: Vec::new(),
                armed: u64::MAX,
            }),
            waiting: Mutex::default(),
            timer: Notify::new(),
        }
    }

    /// Takes the shard for some commands. Nothing may be awaited while the batch lives.
    pub(crate) fn batch<'a>(&'a self, node: &'a Node) -> Batch<'a> {
        let state = self.state.lock();
        Batch {
            node,
            driver: self,
            now_ms: node.clock.now_ms(),
            state,
            log: ShardLog::new(&node.journal, self.id),
            open: Open::default(),
        }
    }

    /// Lets whoever waits for the shard have it, before this thread asks for it again.
    ///
    /// It is taken with nothing else in hand: who gets it may need the journal, which a batch
    /// holds until it ends.
    pub(crate) fn give_way(&self) {
        MutexGuard::unlock_fair(self.state.lock());
    }

    /// What there is, in numbers, the queues by name. They are looked at some at a time, with
    /// others between: what two queues say need not be of one moment.
    pub(crate) fn numbers(&self) -> (Summary, Counters, Vec<QueueSummary>) {
        let (mut summary, counters) = {
            let shard = &self.state.lock().shard;
            (shard.summary_of_objects(), shard.counters())
        };
        let mut queues = Vec::new();
        let mut from = 0;
        loop {
            let state = self.state.lock();
            let is_worth_more = (state.shard).summarize_queues(from, &mut summary, &mut queues);
            MutexGuard::unlock_fair(state);
            if !is_worth_more {
                break;
            }
            from += QUEUES_COUNTED;
        }
        queues.sort_by(|a, b| a.name.cmp(&b.name));
        // Deleted and declared again meanwhile.
        queues.dedup_by(|a, b| a.name == b.name);
        (summary, counters, queues)
    }

    /// One queue in numbers, if it is there.
    pub(crate) fn numbers_of(&self, queue: &[u8]) -> Option<QueueSummary> {
        self.state.lock().shard.queue_summary(queue)
    }

    /// Whether definitions can be carried out; see [`Shard::check_definitions`].
    pub(crate) fn check_definitions(
        &self,
        definitions: &Definitions,
    ) -> Result<(), Box<(usize, Refusal)>> {
        self.state.lock().shard.check_definitions(definitions)
    }

    /// All policies.
    pub(crate) fn policies(&self) -> Vec<PolicyDefinition> {
        self.state.lock().shard.policies().cloned().collect()
    }

    /// What an exchange or queue is set to.
    pub(crate) fn effective(&self, object: &Object) -> Option<Effective> {
        self.state.lock().shard.effective(object)
    }

    /// The exchanges that delay; see [`Shard::delays`].
    pub(crate) fn delays(&self) -> Vec<DelaySummary> {
        self.state.lock().shard.delays()
    }

    /// See [`Shard::list_delays`].
    pub(crate) fn list_delays(
        &self,
        exchange: &[u8],
        after: Sequence,
        count: usize,
    ) -> Option<Vec<Delay>> {
        let state = self.state.lock();
        state.shard.list_delays(exchange, after, count)
    }

    /// Its exchanges, queues and bindings as they are now. The copy shares names and tables, and
    /// still holds the shard for some 100 ms where there are 100,000 bindings: a question costs
    /// as much by itself when it looks for what nearly matches, and there may be many of them.
    pub(crate) fn topology(&self) -> Topology {
        self.state.lock().shard.topology().clone()
    }

    /// The whole durable state, and what the journal knows of this moment. What can be copied
    /// before it is, in turns between those of others.
    pub(crate) fn freeze(&self, node: &Node) -> (Frozen, Freeze) {
        let mut draft = self.state.lock().shard.draft();
        loop {
            let mut state = self.state.lock();
            let is_worth_more = state.shard.copy_queues(&mut draft);
            MutexGuard::unlock_fair(state);
            if !is_worth_more {
                break;
            }
        }
        let mut state = self.state.lock();
        state
            .shard
            .finish(&mut ShardLog::new(&node.journal, self.id));
        let frozen = state.shard.freeze_draft(draft);
        (frozen, node.journal.freeze(self.id))
    }

    /// About how many bytes a checkpoint of it takes.
    pub(crate) fn checkpoint_bytes(&self) -> u64 {
        let mut bytes = self.state.lock().shard.checkpoint_bytes_of_topology();
        let mut from = 0;
        while let Some(of_some) = self.state.lock().shard.checkpoint_bytes_of_queues(from) {
            bytes += of_some;
            from += QUEUES_LOOKED_AT;
        }
        bytes
    }

    /// Before a clean stop.
    pub(crate) fn stop(&self, node: &Node) {
        let mut log = ShardLog::new(&node.journal, self.id);
        self.state.lock().shard.stop(&mut log);
    }
}

/// The shard, held for some commands. Dropping it lets the shard go; the links that were
/// touched are flushed after that, by [`Node::flush`].
pub(crate) struct Batch<'a> {
    node: &'a Node,
    driver: &'a ShardDriver,
    now_ms: u64,
    log: ShardLog<'a>,
    open: Open,
    state: MutexGuard<'a, State>,
}

/// Links that were handed something and are to be flushed.
pub(crate) type Touched = Vec<Arc<Link>>;

impl<'a> Batch<'a> {
    pub(crate) fn enter(&mut self, link: &Arc<Link>) {
        self.state.links.insert(link.id, Arc::clone(link));
    }

    pub(crate) fn leave(&mut self, id: ConnectionId) {
        self.state.links.remove(&id);
    }

    /// Gives back what the link has sent since the last time.
    pub(crate) fn give_back(&mut self, link: &Link, touched: &mut Touched) {
        let bytes = link.take_drained(1);
        if bytes > 0 {
            let connection = link.id;
            self.execute(Command::Drained { connection, bytes }, touched);
        }
    }

    /// Decides one command and hands out its effects.
    pub(crate) fn execute(&mut self, command: Command, touched: &mut Touched) {
        let (shard, mut outlet, log) = self.parts(touched);
        shard.execute(outlet.now_ms, command, log, &mut outlet);
    }

    /// As [`Batch::execute`], for a message that lies in the read buffer.
    pub(crate) fn publish(
        &mut self,
        channel: ChannelKey,
        publish: &PublishRef<'_>,
        touched: &mut Touched,
    ) {
        let (shard, mut outlet, log) = self.parts(touched);
        shard.publish_in_place(outlet.now_ms, channel, publish, log, &mut outlet);
    }

    /// See [`Shard::define`].
    pub(crate) fn define(
        &mut self,
        definition: Definition<'_>,
        touched: &mut Touched,
    ) -> Result<bool, Refusal> {
        let (shard, mut outlet, log) = self.parts(touched);
        shard.define(outlet.now_ms, definition, log, &mut outlet)
    }

    /// See [`Shard::set_policy`].
    pub(crate) fn set_policy(
        &mut self,
        policy: PolicyDefinition,
        touched: &mut Touched,
    ) -> Result<(), Refusal> {
        let (shard, mut outlet, log) = self.parts(touched);
        let done = shard.set_policy(outlet.now_ms, policy, log, &mut outlet);
        done.map(drop)
    }

    /// See [`Shard::clear_policy`]. False where there is no such policy.
    pub(crate) fn clear_policy(
        &mut self,
        name: &Name,
        is_operator: bool,
        touched: &mut Touched,
    ) -> bool {
        let (shard, mut outlet, log) = self.parts(touched);
        let done = shard.clear_policy(outlet.now_ms, name, is_operator, log, &mut outlet);
        done.is_some()
    }

    /// See [`Shard::cancel_delay`]. False where there is no such message.
    pub(crate) fn cancel_delay(
        &mut self,
        exchange: &[u8],
        number: Sequence,
        touched: &mut Touched,
    ) -> bool {
        let (shard, mut outlet, log) = self.parts(touched);
        shard.cancel_delay(outlet.now_ms, exchange, number, log, &mut outlet)
    }

    /// See [`Shard::is_applying_policies`].
    pub(crate) fn is_applying_policies(&self) -> bool {
        self.state.shard.is_applying_policies()
    }

    /// See [`Shard::has_foresight`].
    pub(crate) fn has_foresight(&self) -> bool {
        self.state.shard.has_foresight()
    }

    /// See [`Shard::foresee`].
    pub(crate) fn foresee(&self, keys: &[(&[u8], &[u8])]) {
        self.state.shard.foresee(keys);
    }

    /// As [`Batch::execute`] of acknowledgements.
    pub(crate) fn acknowledge(
        &mut self,
        channel: ChannelKey,
        delivery_tags: &[DeliveryTag],
        touched: &mut Touched,
    ) {
        let (shard, mut outlet, log) = self.parts(touched);
        shard.acknowledge_each(outlet.now_ms, channel, delivery_tags, log, &mut outlet);
    }

    /// Does what is due.
    pub(crate) fn expire(&mut self, touched: &mut Touched) {
        let (shard, mut outlet, log) = self.parts(touched);
        shard.expire(outlet.now_ms, log, &mut outlet);
        // The timer that called sleeps until this one.
        self.state.armed = self.deadline();
    }

    /// Delayed messages that found no queue since the last time.
    pub(crate) fn take_strays(&mut self) -> Vec<menzil_core::Stray> {
        self.state.shard.take_strays()
    }

    fn parts<'b>(
        &'b mut self,
        touched: &'b mut Touched,
    ) -> (&'b mut Shard, Outlet<'b>, &'b mut ShardLog<'a>) {
        let State { shard, links, .. } = &mut *self.state;
        let outlet = Outlet {
            now_ms: self.now_ms,
            node: self.node,
            driver: self.driver,
            links,
            open: &mut self.open,
            touched,
        };
        (shard, outlet, &mut self.log)
    }

    /// The sending side of a connection, held until the batch ends as those of the others that
    /// it has something for: who works in a batch must not take it otherwise.
    pub(crate) fn outbound(
        &mut self,
        link: &Arc<Link>,
        touched: &mut Touched,
    ) -> Option<&mut OutboundGuard> {
        self.open.outbound(link, touched)
    }

    /// Entries lost so far because their record could not be read.
    pub(crate) fn damaged(&self) -> u64 {
        self.state.shard.counters().damaged
    }

    /// When something is due, `u64::MAX` for never.
    pub(crate) fn deadline(&self) -> u64 {
        self.state.shard.deadline().unwrap_or(u64::MAX)
    }

    /// Stops reading from a connection one of whose channels waits for the journal.
    pub(crate) fn park(&mut self, link: &Arc<Link>) {
        if self.state.shard.parked_bytes(link.id).is_some()
            && !link.parked.swap(true, Ordering::AcqRel)
        {
            self.state.parked.push(Arc::clone(link));
        }
    }

    fn unpark(&mut self) {
        let State { shard, parked, .. } = &mut *self.state;
        parked.retain(|link| {
            let stays = shard.parked_bytes(link.id).is_some();
            if !stays {
                link.parked.store(false, Ordering::Release);
                link.wake.notify_one();
            }
            stays
        });
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The state may be half changed, and the journal must not hear more of it.
            stop_node("a shard failed in the middle of a command: this is a bug, please report it");
        }
        self.open.close();
        self.state.shard.finish(&mut self.log);
        if !self.state.parked.is_empty() {
            self.unpark();
        }
        let deadline = self.deadline();
        if deadline < self.state.armed {
            self.state.armed = deadline;
            self.driver.timer.notify_one();
        }
    }
}
