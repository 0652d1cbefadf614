//! A policy that an operator sets and clears while the node runs, and what must be left of it.

use menzil_core::Shard;
use menzil_model::fact::{ApplyTo, PolicyDefinition};
use menzil_model::table::TableBuilder;
use menzil_model::{Name, Value};

/// Its name.
pub(crate) const POLICY: &str = "limit";

/// The policy that limits the queue of the catalogue that is made for it.
pub(crate) fn policy(length_max: u64) -> PolicyDefinition {
    let value = Value::I64(i64::try_from(length_max).unwrap_or(i64::MAX));
    PolicyDefinition {
        name: Name::from(POLICY),
        is_operator: false,
        pattern: b"^q0$".to_vec(),
        apply_to: ApplyTo::Queues,
        priority: 0,
        definition: TableBuilder::new().field("max-length", value).build(),
    }
}

/// The limit that the policy of a shard sets.
pub(crate) fn limit_of(shard: &Shard) -> Option<u64> {
    let policy = shard
        .policies()
        .find(|one| one.name.as_bytes() == POLICY.as_bytes())?;
    let value = policy.definition.find(b"max-length")?;
    u64::try_from(value.as_integer()?).ok()
}

/// What the operator did.
#[derive(Clone, Debug, Default)]
pub(crate) struct PolicyLog {
    /// The limit that the operator was told of last.
    told: Option<u64>,
    /// Later changes, with the index that each is committed with.
    pending: Vec<(u64, Option<u64>)>,
}

impl PolicyLog {
    /// The node made a change.
    pub(crate) fn changed(&mut self, index: u64, limit: Option<u64>) {
        self.pending.push((index, limit));
    }

    /// The operator is told of what is committed.
    pub(crate) fn committed(&mut self, committed: u64) {
        while let Some((index, limit)) = self.pending.first().copied() {
            if index > committed {
                return;
            }
            self.told = limit;
            self.pending.remove(0);
        }
    }

    /// Compares with what a recovery found: the last that the operator was told, or a later one.
    /// A life that ends here leaves what was found.
    pub(crate) fn audit(&mut self, found: Option<u64>, for_good: bool) -> Result<(), String> {
        let is_known = self.told == found || self.pending.iter().any(|(_, limit)| *limit == found);
        if !is_known {
            return Err(format!(
                "the policy says {found:?}, and should say {self:?}"
            ));
        }
        if for_good {
            self.told = found;
            self.pending.clear();
        }
        Ok(())
    }
}
