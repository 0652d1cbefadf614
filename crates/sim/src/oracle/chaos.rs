//! Queues and exchanges that come and go: what was answered ok must hold.

use std::collections::BTreeMap;

use menzil_core::Request;

use crate::workload::{CHAOS_EXCHANGES, CHAOS_QUEUES};

/// A queue or an exchange by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Thing {
    Queue(String),
    Exchange(String),
}

/// What a reply will say.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    thing: Thing,
    /// It is there; or it is not.
    is_there: bool,
    is_durable: bool,
    command: u64,
}

/// What is known of one of them.
#[derive(Clone, Copy, Debug, Default)]
struct Knowledge {
    is_there: Option<bool>,
    is_durable: bool,
    /// The last command that may have changed it.
    command: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Chaos {
    known: BTreeMap<Thing, Knowledge>,
}

impl Chaos {
    /// A request that may change one of them is executed. Returns what its ok would mean, as
    /// far as that lasts.
    pub(super) fn execute(&mut self, request: &Request, command: u64) -> Option<Claim> {
        let (thing, is_there, is_durable, lasts) = match request {
            Request::QueueDeclare(declare) if !declare.passive => (
                Thing::Queue(declare.queue.to_string()),
                true,
                declare.durable && !declare.exclusive,
                !declare.exclusive && !declare.auto_delete && declare.arguments.is_empty(),
            ),
            Request::QueueDelete { queue, .. } => {
                (Thing::Queue(queue.to_string()), false, false, true)
            }
            Request::ExchangeDeclare(declare) if !declare.passive => (
                Thing::Exchange(declare.exchange.to_string()),
                true,
                declare.durable,
                !declare.auto_delete,
            ),
            Request::ExchangeDelete { exchange, .. } => {
                (Thing::Exchange(exchange.to_string()), false, false, true)
            }
            _ => return None,
        };
        let (Thing::Queue(name) | Thing::Exchange(name)) = &thing;
        if !CHAOS_QUEUES.contains(&name.as_str()) && !CHAOS_EXCHANGES.contains(&name.as_str()) {
            return None;
        }
        let knowledge = self.known.entry(thing.clone()).or_default();
        knowledge.is_there = None;
        knowledge.command = command;
        lasts.then_some(Claim {
            thing,
            is_there,
            is_durable,
            command,
        })
    }

    /// The ok was heard.
    pub(super) fn hold(&mut self, claim: &Claim) {
        let knowledge = self.known.entry(claim.thing.clone()).or_default();
        if knowledge.command == claim.command {
            knowledge.is_there = Some(claim.is_there);
            knowledge.is_durable = claim.is_durable;
        }
    }

    pub(super) fn restarted(&mut self) {
        for knowledge in self.known.values_mut() {
            if knowledge.is_there == Some(true) && !knowledge.is_durable {
                knowledge.is_there = Some(false);
            }
        }
    }

    /// What must be there after a restart, or must not.
    pub(super) fn expected(&self) -> impl Iterator<Item = (&Thing, bool)> {
        self.known.iter().filter_map(|(thing, knowledge)| {
            let is_there = knowledge.is_there?;
            Some((thing, is_there && knowledge.is_durable))
        })
    }
}
