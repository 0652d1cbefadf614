//! One shard behind one mutex, taken once per batch of commands by whoever has them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use menzil_core::{Command, Effect, Log, Shard};
use menzil_model::{ConnectionId, Fact, Map, Name, ShardId};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use super::Node;
use super::link::Link;
use super::stop_node;

/// A virtual host's state and who waits for it.
pub(crate) struct ShardDriver {
    pub(crate) id: ShardId,
    pub(crate) name: Name,
    state: Mutex<State>,
    /// Links that hold output back until a commit.
    pub(crate) waiting: Mutex<Vec<Arc<Link>>>,
    /// The shard's next deadline is earlier than its timer knows.
    pub(crate) timer: Notify,
}

struct State {
    shard: Shard,
    links: Map<ConnectionId, Arc<Link>>,
    effects: Vec<Effect>,
    /// The deadline that the timer knows.
    armed: u64,
}

impl ShardDriver {
    pub(crate) fn new(id: ShardId, name: Name, shard: Shard) -> Self {
        Self {
            id,
            name,
            state: Mutex::new(State {
                shard,
                links: Map::default(),
                effects: Vec::new(),
                armed: u64::MAX,
            }),
            waiting: Mutex::default(),
            timer: Notify::new(),
        }
    }

    /// Takes the shard for some commands. Nothing may be awaited while the batch lives.
    pub(crate) fn batch<'a>(&'a self, node: &'a Node, touched: &'a mut Touched) -> Batch<'a> {
        let state = self.state.lock();
        Batch {
            node,
            driver: self,
            now_ms: node.clock.now_ms(),
            state,
            touched,
        }
    }

    /// The shard itself, for looking and for checkpoints.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Shard) -> T) -> T {
        look(&self.state.lock().shard)
    }
}

/// The shard, held for some commands. Dropping it lets the shard go; the links that were
/// touched are flushed after that, by [`Node::flush`].
pub(crate) struct Batch<'a> {
    node: &'a Node,
    driver: &'a ShardDriver,
    now_ms: u64,
    state: MutexGuard<'a, State>,
    touched: &'a mut Touched,
}

/// Links that were handed something and are to be flushed.
pub(crate) type Touched = Vec<Arc<Link>>;

impl Batch<'_> {
    pub(crate) fn enter(&mut self, link: &Arc<Link>) {
        self.state.links.insert(link.id, Arc::clone(link));
    }

    pub(crate) fn leave(&mut self, id: ConnectionId) {
        self.state.links.remove(&id);
    }

    /// Decides one command and hands out its effects.
    pub(crate) fn execute(&mut self, command: Command) {
        let state = &mut *self.state;
        let mut log = self.node.log(self.driver.id);
        state
            .shard
            .execute(self.now_ms, command, &mut log, &mut state.effects);
        self.hand_out();
    }

    /// Does what is due.
    pub(crate) fn expire(&mut self) {
        let state = &mut *self.state;
        let mut log = self.node.log(self.driver.id);
        state
            .shard
            .expire(self.now_ms, &mut log, &mut state.effects);
        self.hand_out();
        // The timer that called sleeps until this one.
        self.state.armed = self.deadline();
    }

    /// When something is due, `u64::MAX` for never.
    pub(crate) fn deadline(&self) -> u64 {
        self.state.shard.deadline().unwrap_or(u64::MAX)
    }

    fn hand_out(&mut self) {
        let State { links, effects, .. } = &mut *self.state;
        for effect in effects.drain(..) {
            let to = match &effect {
                Effect::Channel { to, .. } => to.connection,
                Effect::Connection { to, .. } => *to,
                Effect::Fetch { index, chunks } => {
                    self.node.fetches.push(self.driver, *index, chunks.clone());
                    continue;
                }
            };
            // Effects for a connection that is gone have nobody to reach.
            let Some(link) = links.get(&to) else { continue };
            link.outbound().handle(effect);
            if link.touch() {
                self.touched.push(Arc::clone(link));
            }
        }
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The state may be half changed, and the journal must not hear more of it.
            stop_node("a shard failed in the middle of a command: this is a bug, please report it");
        }
        let deadline = self.deadline();
        if deadline < self.state.armed {
            self.state.armed = deadline;
            self.driver.timer.notify_one();
        }
    }
}
