//! A queue or exchange as the topology sees it: a place where bindings begin and end.

use menzil_model::fact::{Destination, ExchangeDefinition, ExchangeKind};
use menzil_model::{Name, QueueId, StorePurpose, Value};

use super::dense::Dense;
use super::index::Index;
use crate::store::Retention;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(crate) destination: Destination,
    pub(crate) role: Role,
    /// Numbers of the bindings that begin here.
    pub(crate) outgoing: Dense<usize>,
    /// Numbers of the bindings that end here.
    pub(crate) incoming: Dense<usize>,
    /// It is deleted and waits to be cleared away.
    pub(crate) is_gone: bool,
    /// How many of the outgoing bindings end at what is gone.
    pub(crate) dead_outgoing: usize,
}

/// What a point is.
#[derive(Clone, Debug)]
pub(crate) enum Role {
    /// Only bindings name it.
    Undeclared,
    /// A queue of that name.
    Queue(Name),
    /// An exchange.
    Exchange(Box<Exchange>),
}

/// An exchange with its bindings in order for finding.
#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    pub(crate) definition: ExchangeDefinition,
    pub(crate) index: Index,
    /// The argument `alternate-exchange`, or what a policy says.
    pub(crate) alternate: Option<Name>,
    /// Where it keeps what passes.
    pub(crate) store: Option<QueueId>,
    /// Where it keeps what is not due.
    pub(crate) delays: Option<QueueId>,
}

impl Point {
    pub(crate) fn new(destination: Destination) -> Self {
        Self {
            destination,
            role: Role::Undeclared,
            outgoing: Dense::default(),
            incoming: Dense::default(),
            is_gone: false,
            dead_outgoing: 0,
        }
    }

    pub(crate) fn is_declared(&self) -> bool {
        !self.is_gone && !matches!(self.role, Role::Undeclared)
    }

    /// Neither declared, nor named by a binding, nor waiting to be cleared away.
    pub(crate) fn is_vacant(&self) -> bool {
        let is_free = self.outgoing.is_empty() && self.incoming.is_empty();
        matches!(self.role, Role::Undeclared) && !self.is_gone && is_free
    }

    /// How many bindings begin here and end at something that is not gone.
    pub(crate) fn outgoing_count(&self) -> usize {
        self.outgoing.len() - self.dead_outgoing
    }

    /// A binding from it or to it, one that is cheap to remove.
    pub(crate) fn last_binding(&self) -> Option<usize> {
        self.outgoing.last().or_else(|| self.incoming.last())
    }

    /// Its name, once it is declared.
    pub(crate) fn name(&self) -> Option<&Name> {
        match &self.role {
            Role::Undeclared => None,
            Role::Queue(name) => Some(name),
            Role::Exchange(exchange) => Some(&exchange.definition.name),
        }
    }

    pub(crate) fn exchange(&self) -> Option<&Exchange> {
        match &self.role {
            Role::Exchange(exchange) if !self.is_gone => Some(exchange),
            Role::Undeclared | Role::Queue(_) | Role::Exchange(_) => None,
        }
    }

    pub(crate) fn exchange_mut(&mut self) -> Option<&mut Exchange> {
        match &mut self.role {
            Role::Exchange(exchange) if !self.is_gone => Some(exchange),
            Role::Undeclared | Role::Queue(_) | Role::Exchange(_) => None,
        }
    }
}

impl Exchange {
    /// Whether what it keeps is its recent history.
    pub(crate) fn has_history(&self) -> bool {
        self.definition.kind == ExchangeKind::RecentHistory
    }

    pub(crate) fn new(definition: ExchangeDefinition) -> Self {
        let index = Index::new(&definition);
        let store = Retention::of(&definition)
            .map(|_| QueueId::store_of(definition.id, StorePurpose::Retention));
        let delays =
            (definition.delays()).then(|| QueueId::store_of(definition.id, StorePurpose::Delay));
        let mut exchange = Self {
            definition,
            index,
            alternate: None,
            store,
            delays,
        };
        exchange.set_alternate(None);
        exchange
    }

    /// Keeps what passes, or does not. True where that is a change.
    pub(crate) fn set_store(&mut self, keeps: bool) -> bool {
        let id = self.definition.id;
        let store = keeps.then(|| QueueId::store_of(id, StorePurpose::Retention));
        let is_change = self.store != store;
        self.store = store;
        is_change
    }

    /// Goes to its own alternate exchange or else to this one. True where that is a change.
    pub(crate) fn set_alternate(&mut self, other: Option<Name>) -> bool {
        let alternate = match self.definition.arguments.find(b"alternate-exchange") {
            Some(Value::LongString(name)) => Name::new(name),
            _ => other,
        };
        let is_change = self.alternate != alternate;
        self.alternate = alternate;
        is_change
    }
}
