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
    /// The argument `alternate-exchange`.
    pub(crate) alternate: Option<Name>,
    /// Where it keeps what passes.
    pub(crate) store: Option<QueueId>,
}

impl Point {
    pub(crate) fn new(destination: Destination) -> Self {
        Self {
            destination,
            role: Role::Undeclared,
            outgoing: Dense::default(),
            incoming: Dense::default(),
        }
    }

    pub(crate) fn is_declared(&self) -> bool {
        !matches!(self.role, Role::Undeclared)
    }

    /// Neither declared nor named by a binding.
    pub(crate) fn is_vacant(&self) -> bool {
        !self.is_declared() && self.outgoing.is_empty() && self.incoming.is_empty()
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
            Role::Exchange(exchange) => Some(exchange),
            Role::Undeclared | Role::Queue(_) => None,
        }
    }

    pub(crate) fn exchange_mut(&mut self) -> Option<&mut Exchange> {
        match &mut self.role {
            Role::Exchange(exchange) => Some(exchange),
            Role::Undeclared | Role::Queue(_) => None,
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
        let alternate = match definition.arguments.find(b"alternate-exchange") {
            Some(Value::LongString(name)) => Name::new(name),
            _ => None,
        };
        let store = Retention::of(&definition)
            .map(|_| QueueId::store_of(definition.id, StorePurpose::Retention));
        Self {
            definition,
            index,
            alternate,
            store,
        }
    }
}
