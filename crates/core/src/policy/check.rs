//! Whether what somebody asks for is a policy, with RabbitMQ's texts where it is not.

use menzil_model::fact::{ApplyTo, PolicyDefinition};
use menzil_model::{Escaped, Name, Table, TableBuilder, Value};

use super::keys::{Key, LAST};
use super::mistake::{PolicyMistake, given};
use super::pattern::{PATTERN_BYTES_MAX, Pattern};
use crate::topology::Term;

/// A policy as somebody asks for it: `None` is what is not said.
#[derive(Clone, Copy, Debug)]
pub struct PolicyRequest<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// An operator policy.
    pub is_operator: bool,
    /// The regular expression.
    pub pattern: Option<Value<'a>>,
    /// One of `all`, `exchanges`, `queues`, `classic_queues`, `quorum_queues`, `streams`; absent
    /// it is `all`.
    pub apply_to: Option<Value<'a>>,
    /// A whole number; absent it is 0.
    pub priority: Option<Value<'a>>,
    /// Keys and values.
    pub definition: Option<Value<'a>>,
}

/// What is said behind a pattern that looks around.
const LOOK_AROUND: &str = "; the one that is, is ^(?!…) or ^(?=…) at the beginning, where there are \
                           no alternatives (|) outside of groups";

/// Bytes of all keys and values of a policy.
const DEFINITION_BYTES_MAX: usize = 16 << 10;

impl PolicyRequest<'_> {
    /// The policy, or what is wrong: a mistake for each part, as RabbitMQ lists them.
    pub fn check(&self) -> Result<PolicyDefinition, Vec<PolicyMistake>> {
        let long = || {
            PolicyMistake::new(
                "name must not exceed 255 bytes",
                "the name is too long: 255 bytes at most",
            )
        };
        let name = Name::new(self.name).ok_or_else(long);
        let priority = self.priority();
        let pattern = self.pattern();
        let apply_to = self.apply_to();
        let definition = self.definition();
        match (name, priority, pattern, apply_to, definition) {
            (Ok(name), Ok(priority), Ok(pattern), Ok(apply_to), Ok(definition)) => {
                Ok(PolicyDefinition {
                    name,
                    is_operator: self.is_operator,
                    pattern,
                    apply_to,
                    priority,
                    definition,
                })
            }
            (name, priority, pattern, apply_to, definition) => Err([
                definition.err(),
                apply_to.err(),
                pattern.err(),
                priority.err(),
                name.err(),
            ]
            .into_iter()
            .flatten()
            .collect()),
        }
    }

    fn priority(&self) -> Result<i64, PolicyMistake> {
        let Some(value) = self.priority else {
            return Ok(0);
        };
        let number = value.as_integer();
        number
            .and_then(|number| i64::try_from(number).ok())
            .ok_or_else(|| {
                PolicyMistake::new(
                    format!("priority should be a number, actually was {}", Term(value)),
                    format!(
                        "the priority is {}, and must be a whole number",
                        given(value)
                    ),
                )
            })
    }

    fn pattern(&self) -> Result<Vec<u8>, PolicyMistake> {
        let value = self.pattern.unwrap_or(Value::Void);
        let Value::LongString(pattern) = value else {
            return Err(PolicyMistake::new(
                format!("pattern should be a binary but was {}", Term(value)),
                format!("the pattern is {}, and must be a text", given(value)),
            ));
        };
        if pattern.len() > PATTERN_BYTES_MAX {
            return Err(PolicyMistake::new(
                format!("pattern must not exceed {PATTERN_BYTES_MAX} bytes"),
                format!("the pattern is too long: {PATTERN_BYTES_MAX} bytes at most"),
            ));
        }
        match Pattern::new(pattern) {
            Ok(_) => Ok(pattern.to_vec()),
            Err(why) => Err(PolicyMistake::new(
                format!("pattern should be regular expression but is invalid: {why}"),
                format!(
                    "the pattern {} is no regular expression: {why}{}",
                    given(value),
                    if why.contains("look-around") {
                        LOOK_AROUND
                    } else {
                        ""
                    }
                ),
            )),
        }
    }

    fn apply_to(&self) -> Result<ApplyTo, PolicyMistake> {
        let Some(value) = self.apply_to else {
            return Ok(ApplyTo::All);
        };
        let named = if let Value::LongString(text) = value {
            if let Some(apply_to) = ApplyTo::from_name(text) {
                return Ok(apply_to);
            }
            Escaped(text).to_string()
        } else {
            Term(value).to_string()
        };
        Err(PolicyMistake::new(
            format!(
                "apply-to '{named}' unrecognised; should be one of: 'queues', 'classic_queues',  \
                 'quorum_queues', 'streams', 'exchanges', or 'all'"
            ),
            format!(
                "apply-to is {}, and must be all, exchanges, queues, classic_queues, \
                 quorum_queues or streams",
                given(value)
            ),
        ))
    }

    fn definition(&self) -> Result<Table, PolicyMistake> {
        let value = self.definition.unwrap_or(Value::Void);
        let Value::Table(fields) = value else {
            let validator = if self.is_operator {
                "operator_policy_validator"
            } else {
                "policy_validator"
            };
            return Err(PolicyMistake::new(
                format!(
                    "parse error while reading policy definition: {}. Validator: {validator}.",
                    Term(value)
                ),
                format!(
                    "the definition is {}, and must be a JSON object of keys and values, such as \
                     {{\"max-length\": 1000}}",
                    given(value)
                ),
            ));
        };
        let mut fields: Vec<_> = fields.collect();
        fields.sort_by_key(|(name, _)| *name);
        if fields.is_empty() {
            return Err(PolicyMistake::new(
                "no policy provided",
                "the definition is empty: it needs a key and its value, such as \
                 {\"max-length\": 1000}",
            ));
        }
        self.check_fields(&fields)?;
        let table = fields
            .iter()
            .fold(TableBuilder::new(), |table, (name, value)| {
                let known = Key::find(name).map_or("", |key| key.name);
                table.field(known, *value)
            });
        let table = table.build();
        if table.as_bytes().len() > DEFINITION_BYTES_MAX {
            return Err(PolicyMistake::new(
                format!("definition must not exceed {DEFINITION_BYTES_MAX} bytes"),
                format!("the definition is too long: {DEFINITION_BYTES_MAX} bytes at most"),
            ));
        }
        Ok(table)
    }

    fn check_fields(&self, fields: &[(&[u8], Value<'_>)]) -> Result<(), PolicyMistake> {
        let is_known = |key: &Key| !self.is_operator || key.operator.is_some();
        let find = |name: &[u8]| Key::find(name).filter(|key| is_known(key));
        let known = || {
            fields
                .iter()
                .filter_map(|(name, value)| Some((find(name)?, *value)))
        };
        let is_last = |key: &Key| LAST.contains(&key.name);
        let first = known().filter(|(key, _)| !is_last(key));
        for (key, value) in first.chain(known().filter(|(key, _)| is_last(key))) {
            if !(key.accepts)(value) {
                return Err(PolicyMistake::value(key, value));
            }
        }
        check_delayed_retry(fields)?;
        let unknown: Vec<_> = fields
            .iter()
            .filter(|(name, _)| find(name).is_none())
            .collect();
        if unknown.is_empty() {
            return Ok(());
        }
        Err(PolicyMistake::keys(&unknown, self.is_operator))
    }
}

/// Whether what is said of delayed retries goes together.
fn check_delayed_retry(fields: &[(&[u8], Value<'_>)]) -> Result<(), PolicyMistake> {
    let find = |name: &str| {
        let mut found = fields.iter().filter(|(field, _)| *field == name.as_bytes());
        found.next().map(|(_, value)| *value)
    };
    let min = find("delayed-retry-min").and_then(|value| value.as_integer());
    let max = find("delayed-retry-max").and_then(|value| value.as_integer());
    match find("delayed-retry-type") {
        Some(Value::LongString(kind)) if kind != b"disabled" && min.is_none() => {
            let kind = Escaped(kind);
            return Err(PolicyMistake::new(
                format!("delayed-retry-min is required when delayed-retry-type is {kind}"),
                format!(
                    "delayed-retry-type {kind} needs delayed-retry-min too: add it, in milliseconds"
                ),
            ));
        }
        _ => {}
    }
    match (min, max) {
        (Some(min), Some(max)) if max < min => Err(PolicyMistake::new(
            format!("delayed-retry-max ({max}) must not be smaller than delayed-retry-min ({min})"),
            format!(
                "delayed-retry-max is {max}, and must be at least what delayed-retry-min is, {min}"
            ),
        )),
        _ => Ok(()),
    }
}
