//! Policies: settings for every exchange and queue whose name matches a pattern.
//!
//! Of the policies that match an object the one with the highest priority applies, and of equal
//! ones the first by name; where it is layered, what it does not say is taken from the next, and
//! so on. The same goes for operator policies, whose values then bound those of policies. What
//! comes out goes together with the object's arguments, key by key (`keys`).
//!
//! Plain data: nothing here knows a queue. Names of policies are unique in each of the two lists.

mod check;
mod keys;
mod mistake;
mod pattern;
mod reach;
mod settings;
#[cfg(test)]
mod tests;

use menzil_model::fact::{ApplyTo, PolicyDefinition};
use menzil_model::{Name, Value};

use self::keys::LAYERED;
use self::pattern::Pattern;

pub use check::PolicyRequest;
pub(crate) use keys::{Key, RETAIN_AGE, RETAIN_BYTES, RETAIN_MESSAGES};
pub use mistake::PolicyMistake;
pub use reach::Reach;
pub(crate) use settings::{argument_of, settings_of};

/// What a policy may be for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Exchange,
    ClassicQueue,
    QuorumQueue,
}

/// All policies of a virtual host.
#[derive(Clone, Debug, Default)]
pub(crate) struct Policies {
    /// In the order in which they are asked.
    own: Vec<Policy>,
    operators: Vec<Policy>,
}

#[derive(Clone, Debug)]
struct Policy {
    definition: PolicyDefinition,
    pattern: Pattern,
    is_layered: bool,
    /// Whether exchanges, classic queues and quorum queues have all of its keys.
    suits: [bool; 3],
}

/// Policies of each of the two kinds that one virtual host may have.
pub(crate) const POLICIES_MAX: usize = 1000;

/// A value that policies give, and which one did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given<'a> {
    pub(crate) key: &'static Key,
    pub(crate) value: Value<'a>,
    pub(crate) by: &'a PolicyDefinition,
}

impl Policy {
    fn new(definition: PolicyDefinition) -> Self {
        let keys = || {
            let fields = definition.definition.fields();
            fields.filter_map(|(name, _)| Key::find(name))
        };
        let suits = [
            Subject::Exchange,
            Subject::ClassicQueue,
            Subject::QuorumQueue,
        ];
        Self {
            // It was checked when it was set.
            pattern: Pattern::new(&definition.pattern).unwrap_or(Pattern::Never),
            is_layered: matches!(
                definition.definition.find(LAYERED.as_bytes()),
                Some(Value::Bool(true))
            ),
            suits: suits.map(|subject| keys().all(|key| key.suits(subject))),
            definition,
        }
    }

    /// What is asked first comes first.
    fn order(&self) -> (std::cmp::Reverse<i64>, &Name) {
        let definition = &self.definition;
        (std::cmp::Reverse(definition.priority), &definition.name)
    }

    /// Whether it is for exchanges, or queues, of that kind.
    fn is_for_kind(&self, subject: Subject) -> bool {
        let (place, wanted) = match subject {
            Subject::Exchange => (0, [ApplyTo::All, ApplyTo::Exchanges, ApplyTo::Exchanges]),
            Subject::ClassicQueue => (1, [ApplyTo::All, ApplyTo::Queues, ApplyTo::ClassicQueues]),
            Subject::QuorumQueue => (2, [ApplyTo::All, ApplyTo::Queues, ApplyTo::QuorumQueues]),
        };
        wanted.contains(&self.definition.apply_to) && self.suits.get(place) == Some(&true)
    }

    fn is_for(&self, subject: Subject, name: &[u8]) -> bool {
        self.is_for_kind(subject) && self.pattern.is_match(name)
    }
}

impl Policies {
    fn list(&self, is_operator: bool) -> &Vec<Policy> {
        if is_operator {
            &self.operators
        } else {
            &self.own
        }
    }

    fn list_mut(&mut self, is_operator: bool) -> &mut Vec<Policy> {
        if is_operator {
            &mut self.operators
        } else {
            &mut self.own
        }
    }

    /// Adds a policy, or puts it in the place of the one that has its name.
    pub(crate) fn set(&mut self, definition: PolicyDefinition) {
        self.clear(&definition.name, definition.is_operator);
        let list = self.list_mut(definition.is_operator);
        let policy = Policy::new(definition);
        let place = list.partition_point(|other| other.order() < policy.order());
        list.insert(place, policy);
    }

    /// Removes a policy.
    pub(crate) fn clear(&mut self, name: &Name, is_operator: bool) {
        self.list_mut(is_operator)
            .retain(|policy| policy.definition.name != *name);
    }

    /// The policy of that name.
    pub(crate) fn find(&self, name: &Name, is_operator: bool) -> Option<&PolicyDefinition> {
        let mut all = self
            .list(is_operator)
            .iter()
            .map(|policy| &policy.definition);
        all.find(|policy| policy.name == *name)
    }

    /// How many there are of one kind.
    pub(crate) fn count(&self, is_operator: bool) -> usize {
        self.list(is_operator).len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.own.is_empty() && self.operators.is_empty()
    }

    /// All of them, each kind in the order in which it is asked.
    pub(crate) fn all(&self) -> impl Iterator<Item = &PolicyDefinition> {
        let all = self.own.iter().chain(&self.operators);
        all.map(|policy| &policy.definition)
    }

    /// What policies say of an object, each key once.
    pub(crate) fn given(&self, subject: Subject, name: &[u8]) -> Vec<Given<'_>> {
        let mut given = layered(&self.own, subject, name);
        for imposed in layered(&self.operators, subject, name) {
            let own = given
                .iter_mut()
                .find(|own| std::ptr::eq(own.key, imposed.key));
            match own {
                None => given.push(imposed),
                Some(own) => {
                    let merge = own.key.operator.unwrap_or(keys::Merge::Imposed);
                    if !merge.keeps_own(own.value, imposed.value, subject) {
                        *own = imposed;
                    }
                }
            }
        }
        given
    }
}

/// What the first policy that matches says, and what those below say where it is layered.
fn layered<'a>(policies: &'a [Policy], subject: Subject, name: &[u8]) -> Vec<Given<'a>> {
    let mut given: Vec<Given<'a>> = Vec::new();
    for policy in policies
        .iter()
        .filter(|policy| policy.is_for(subject, name))
    {
        for (name, value) in policy.definition.definition.fields() {
            let Some(key) = Key::find(name).filter(|key| key.name != LAYERED) else {
                continue;
            };
            if !given.iter().any(|other| std::ptr::eq(other.key, key)) {
                given.push(Given {
                    key,
                    value,
                    by: &policy.definition,
                });
            }
        }
        if !policy.is_layered {
            break;
        }
    }
    given
}
