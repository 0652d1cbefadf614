//! Policies: setting and clearing them, and bringing exchanges and queues up to date.
//!
//! What a policy means for an object is worked out when the object is declared and when policies
//! change, never on a message's way. After a change all objects are looked at again, some in each
//! turn: until its turn comes an object does what it did before. Nothing of that is durable but
//! the policies themselves; a restart works it out anew.

use menzil_model::fact::{Destination, PolicyDefinition};
use menzil_model::{ExchangeId, Fact, Name, QueueId, Value};

use super::Shard;
use super::exchange::ensure_room;
use super::publish::Pending;
use crate::effect::Effects;
use crate::log::Log;
use crate::policy::{POLICIES_MAX, Subject, settings_of};
use crate::queue::Overflow;
use crate::refusal::Refusal;
use crate::store::Retention;
use crate::turn::Turn;

/// Objects that one turn looks at.
const OBJECTS_AT_ONCE: usize = 500;

/// Entries over a length limit that one turn drops, or one message on top of those it replaces.
pub(super) const DROPPED_AT_ONCE: usize = 10_000;

/// Objects that a change of policies has not reached yet.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    left: Vec<Destination>,
    /// Policies changed, and objects have not been listed yet.
    is_due: bool,
}

impl Sweep {
    pub(super) fn is_done(&self) -> bool {
        self.left.is_empty()
    }

    /// Policies changed.
    pub(super) fn start(&mut self) {
        self.is_due = true;
    }

    /// Whether every object is up to date.
    pub(super) fn is_over(&self) -> bool {
        self.left.is_empty() && !self.is_due
    }
}

impl Shard {
    /// Sets a policy, in the place of the one of that name. Returns the index that it is
    /// committed with. It acts on what is declared from now on; on the rest soon, see
    /// [`Shard::is_applying_policies`].
    pub fn set_policy(
        &mut self,
        now: u64,
        policy: PolicyDefinition,
        log: &mut dyn Log,
        effects: &mut dyn Effects,
    ) -> Result<u64, Refusal> {
        let current = self.policies.find(&policy.name, policy.is_operator);
        if current == Some(&policy) {
            return Ok(self.topology_index);
        }
        if current.is_none() && self.policies.count(policy.is_operator) >= POLICIES_MAX {
            return Err(Refusal::LimitReached {
                what: "policies",
                limit: POLICIES_MAX as u64,
            });
        }
        let mut turn = Turn { now, log, effects };
        ensure_room(&mut turn, true, &policy.definition)?;
        let index = self.record(&mut turn, Fact::PolicySet(policy), true);
        self.list_objects();
        Ok(index)
    }

    /// Clears a policy. Returns the index that this is committed with, `None` where there is no
    /// such policy.
    pub fn clear_policy(
        &mut self,
        now: u64,
        name: &Name,
        is_operator: bool,
        log: &mut dyn Log,
        effects: &mut dyn Effects,
    ) -> Option<u64> {
        self.policies.find(name, is_operator)?;
        let mut turn = Turn { now, log, effects };
        let (name, is_operator) = (name.clone(), is_operator);
        let index = self.record(&mut turn, Fact::PolicyCleared { name, is_operator }, true);
        self.list_objects();
        Some(index)
    }

    /// Whether a change of policies has not reached every object yet. [`Shard::expire`] goes on
    /// with it; it is due then.
    pub fn is_applying_policies(&self) -> bool {
        !self.sweep.is_done()
    }

    /// All policies: those that are no operator policies first, each kind in the order in which
    /// it is asked.
    pub fn policies(&self) -> impl Iterator<Item = &PolicyDefinition> {
        self.policies.all()
    }

    fn list_objects(&mut self) {
        let exchanges = self.topology.exchanges().map(|exchange| exchange.id);
        let exchanges = exchanges.map(Destination::Exchange);
        let queues = self.queues.iter().filter(|(_, queue)| queue.is_named());
        let queues = queues.map(|(id, _)| Destination::Queue(*id));
        let mut left: Vec<_> = queues.chain(exchanges).collect();
        // Taken from the end: exchanges first, the oldest of each first.
        left.sort_unstable_by(|a, b| b.cmp(a));
        self.sweep = Sweep {
            left,
            is_due: false,
        };
    }

    /// Brings some objects up to date.
    pub(super) fn apply_policies(&mut self, turn: &mut Turn<'_>) {
        let mut any = false;
        for _ in 0..OBJECTS_AT_ONCE {
            match self.sweep.left.pop() {
                None => break,
                Some(Destination::Exchange(id)) => self.refresh_exchange(id),
                Some(Destination::Queue(id)) => {
                    any |= self.refresh_queue(turn.now, id);
                    if self.drop_what_is_over(turn, id) {
                        self.sweep.left.push(Destination::Queue(id));
                        break;
                    }
                }
            }
        }
        if any {
            // They know of limits and times to live.
            self.topology.forget_ways();
        }
    }

    /// After the last fact of recovery, when nobody is served yet.
    pub(super) fn recover_policies(&mut self, now: u64) {
        if self.sweep.is_due {
            self.list_objects();
            for object in std::mem::take(&mut self.sweep.left) {
                match object {
                    Destination::Exchange(id) => self.refresh_exchange(id),
                    Destination::Queue(id) => {
                        self.refresh_queue(now, id);
                    }
                }
            }
        }
        // What was out counts again, and a crash may have come before a limit was enforced.
        let over = self.queues.iter().filter(|(id, queue)| {
            !id.is_store() && queue.settings.overflow == Overflow::DropHead && queue.is_over(0, 0)
        });
        let mut left: Vec<_> = over.map(|(id, _)| Destination::Queue(*id)).collect();
        left.sort_unstable_by(|a, b| b.cmp(a));
        self.sweep.left = left;
    }

    /// What policies say of an exchange.
    pub(super) fn refresh_exchange(&mut self, id: ExchangeId) {
        let Some(exchange) = self.topology.exchange_by_id(id) else {
            return;
        };
        if exchange.name.is_empty() {
            return;
        }
        let exchange = exchange.clone();
        let name = exchange.name.as_bytes();
        let given = self.policies.given(Subject::Exchange, name);
        let alternate = given
            .iter()
            .find(|given| given.key.name == "alternate-exchange");
        let alternate = match alternate.map(|given| given.value) {
            Some(Value::LongString(name)) => Name::new(name),
            _ => None,
        };
        let retention = Retention::with_policies(&exchange, &given);
        self.topology.set_alternate(id, alternate);
        self.refresh_store(&exchange, retention);
    }

    /// Works a queue's settings out again. True where they changed.
    fn refresh_queue(&mut self, now: u64, id: QueueId) -> bool {
        let Some(queue) = self.queues.get_mut(&id) else {
            return false;
        };
        let settings = settings_of(&queue.definition, &self.policies);
        if queue.settings == settings {
            return false;
        }
        if queue.settings.expires != settings.expires {
            // The new time begins now, as in RabbitMQ.
            queue.unused_since = now;
        }
        queue.settings = settings;
        self.touch(id);
        true
    }

    /// Drops ready entries that a new limit has no room for. True where more are left.
    fn drop_what_is_over(&mut self, turn: &mut Turn<'_>, id: QueueId) -> bool {
        self.drop_over(turn, id, DROPPED_AT_ONCE);
        let left = self.overflow(id, &Pending::default(), 1);
        left.is_some()
    }
}
