//! What an exchange or queue is set to, and where each value comes from.

use bytes::Bytes;
use menzil_model::{Name, Value};

use super::Shard;
use crate::policy::{Given, Subject, argument_of};
use crate::refusal::Object;

/// What an object is set to, once policies have reached it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effective {
    /// Keys by name, without the `x-` of arguments.
    pub settings: Vec<Setting>,
}

/// One key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// As in a policy.
    pub key: Name,
    /// The value that counts.
    pub value: SettingValue,
    /// Who says so.
    pub origin: SettingOrigin,
}

/// A value of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingValue {
    /// A text.
    Text(Bytes),
    /// A whole number.
    Integer(i64),
    /// Yes or no.
    Flag(bool),
    /// An argument that nobody gives a meaning: the type of its value.
    Other(&'static str),
}

/// Where the value of a setting comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingOrigin {
    /// The argument it was declared with.
    Argument,
    /// The policy of that name.
    Policy(Name),
    /// The operator policy of that name.
    OperatorPolicy(Name),
}

impl SettingValue {
    fn new(value: Value<'_>) -> Self {
        let number = value.as_integer();
        if let Some(number) = number.and_then(|number| i64::try_from(number).ok()) {
            return Self::Integer(number);
        }
        if let Value::LongString(text) = value {
            Self::Text(Bytes::copy_from_slice(text))
        } else if let Value::Bool(flag) = value {
            Self::Flag(flag)
        } else {
            Self::Other(value.type_name())
        }
    }
}

impl Setting {
    fn of_policy(given: Given<'_>) -> Self {
        let name = given.by.name.clone();
        Self {
            key: Name::from(given.key.name),
            value: SettingValue::new(given.value),
            origin: if given.by.is_operator {
                SettingOrigin::OperatorPolicy(name)
            } else {
                SettingOrigin::Policy(name)
            },
        }
    }

    fn of_argument(key: &[u8], value: Value<'_>) -> Self {
        Self {
            key: Name::cut(key),
            value: SettingValue::new(value),
            origin: SettingOrigin::Argument,
        }
    }
}

impl Shard {
    /// What an exchange or queue is set to; `None` where there is none of that name.
    pub fn effective(&self, object: &Object) -> Option<Effective> {
        let mut settings = match object {
            Object::Queue(name) => self.effective_of_queue(name)?,
            Object::Exchange(name) => self.effective_of_exchange(name)?,
        };
        settings.sort_by(|a, b| a.key.cmp(&b.key));
        Some(Effective { settings })
    }

    fn effective_of_queue(&self, name: &Name) -> Option<Vec<Setting>> {
        let id = self.queue_id(name.as_bytes())?;
        let definition = &self.queues.get(&id)?.definition;
        let subject = Subject::of_queue(definition);
        let given = self.policies.given(subject, name.as_bytes());
        let wins = |given: &Given<'_>| {
            let argument = definition.arguments.find(&argument_of(given.key.name));
            !argument.is_some_and(|own| given.key.keeps_argument(own, given.value, subject))
        };
        let policies: Vec<Given<'_>> = given.into_iter().filter(wins).collect();
        let of_arguments = definition.arguments.fields().filter_map(|(name, value)| {
            let key = name.strip_prefix(b"x-")?;
            let beaten = policies
                .iter()
                .any(|given| given.key.name.as_bytes() == key);
            (!beaten).then(|| Setting::of_argument(key, value))
        });
        let of_policies = policies.iter().copied().map(Setting::of_policy);
        Some(of_arguments.chain(of_policies).collect())
    }

    fn effective_of_exchange(&self, name: &Name) -> Option<Vec<Setting>> {
        let arguments = &self.topology.exchange(name.as_bytes())?.arguments;
        let mut given = if name.is_empty() {
            Vec::new()
        } else {
            self.policies.given(Subject::Exchange, name.as_bytes())
        };
        given.retain(|given| {
            given.key.argument_of_exchanges().is_some_and(|argument| {
                let own = arguments.find(argument.as_bytes());
                let keeps = |own| {
                    let subject = Subject::Exchange;
                    given.key.keeps_argument(own, given.value, subject)
                };
                !own.is_some_and(keeps)
            })
        });
        let is_beaten = |name: &[u8]| {
            let arguments = given.iter().map(|given| given.key.argument_of_exchanges());
            let mut arguments = arguments.flatten();
            arguments.any(|argument| argument.as_bytes() == name)
        };
        let own = arguments.fields().filter(|(name, _)| !is_beaten(name));
        let own = own.map(|(name, value)| {
            let key = name.strip_prefix(b"x-").unwrap_or(name);
            Setting::of_argument(key, value)
        });
        let mut settings: Vec<Setting> = own.collect();
        settings.extend(given.iter().copied().map(Setting::of_policy));
        Some(settings)
    }
}
