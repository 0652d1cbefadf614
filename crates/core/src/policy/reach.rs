//! Whom a policy can give something at all.

use menzil_model::fact::PolicyDefinition;

use super::{Key, Policy, Subject};
use crate::queue::Asked;

/// Who acts on something that a policy says, if the name matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Exchanges do.
    pub exchanges: bool,
    /// Queues do, of one type at least.
    pub queues: bool,
}

impl Reach {
    /// Of that policy. Keys that are hints for clusters, or of streams, are acted on by nobody.
    pub fn of(definition: &PolicyDefinition) -> Self {
        let policy = Policy::new(definition.clone());
        let fields = || {
            let fields = definition.definition.fields();
            fields.filter_map(|(name, value)| Some((Key::find(name)?, value)))
        };
        let of_queues = fields().any(|(key, value)| {
            let mut asked = Asked::default();
            key.set(value, &mut asked);
            asked != Asked::default()
        });
        let of_exchanges = fields().any(|(key, _)| key.argument_of_exchanges().is_some());
        let mut queues = [Subject::ClassicQueue, Subject::QuorumQueue].into_iter();
        Self {
            exchanges: of_exchanges && policy.is_for_kind(Subject::Exchange),
            queues: of_queues && queues.any(|subject| policy.is_for_kind(subject)),
        }
    }
}
