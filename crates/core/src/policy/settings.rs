//! Arguments and policies together.

use menzil_model::Value;
use menzil_model::fact::QueueDefinition;

use super::{Policies, Subject};
use crate::queue::{Asked, Settings};

impl Subject {
    pub(crate) fn of_queue(queue: &QueueDefinition) -> Self {
        match queue.arguments.find(b"x-queue-type") {
            Some(Value::LongString(b"quorum")) => Self::QuorumQueue,
            _ => Self::ClassicQueue,
        }
    }
}

/// A queue's settings: its arguments and what policies say, key by key.
pub(crate) fn settings_of(queue: &QueueDefinition, policies: &Policies) -> Settings {
    let subject = Subject::of_queue(queue);
    // The arguments were checked when it was declared.
    let asked = Asked::of(&queue.name, &queue.arguments);
    let mut asked = asked.unwrap_or_else(|_| Asked {
        is_quorum: subject == Subject::QuorumQueue,
        ..Asked::default()
    });
    for given in policies.given(subject, queue.name.as_bytes()) {
        let argument = queue.arguments.find(&argument_of(given.key.name));
        let keeps = |own| given.key.keeps_argument(own, given.value, subject);
        if !argument.is_some_and(keeps) {
            given.key.set(given.value, &mut asked);
        }
    }
    asked.resolve()
}

/// The argument of queues that says the same as a policy's key.
pub(crate) fn argument_of(key: &str) -> Vec<u8> {
    [b"x-", key.as_bytes()].concat()
}
