//! What is wrong with a policy that somebody asks for, said twice.

use menzil_model::{Escaped, Value};

use super::keys::{KEYS, Key};
use crate::topology::Term;
use crate::topology::explain::shown;

/// A part of a policy that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyMistake {
    /// As RabbitMQ says it, for its files and protocols.
    pub text: String,
    /// In plain words, for people: what it is, and what it must be.
    pub plain: String,
}

impl PolicyMistake {
    pub(super) fn new(text: impl Into<String>, plain: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            plain: plain.into(),
        }
    }

    /// The key does not take that value.
    pub(super) fn value(key: &Key, value: Value<'_>) -> Self {
        Self::new(
            format!("{} {}", Term(value), key.wrong),
            format!(
                "{} is {}, and must be {}",
                key.name,
                given(value),
                key.wanted
            ),
        )
    }

    /// These are no keys of such policies.
    pub(super) fn keys(fields: &[&(&[u8], Value<'_>)], is_operator: bool) -> Self {
        let terms = fields.iter().map(|(name, value)| {
            let name = Value::LongString(name);
            format!("{{{},{}}}", Term(name), Term(*value))
        });
        let terms: Vec<String> = terms.collect();
        let plain = fields.iter().map(|(name, _)| unknown(name, is_operator));
        let plain: Vec<String> = plain.collect();
        Self::new(
            format!("[{}] are not recognised policy settings", terms.join(",")),
            plain.join("; "),
        )
    }
}

/// A value as a line of JSON has it, or what it is.
pub(super) fn given(value: Value<'_>) -> String {
    if matches!(value, Value::Table(_)) {
        return "an object".to_owned();
    }
    if matches!(value, Value::Array(_)) {
        return "a list".to_owned();
    }
    if matches!(value, Value::Void) {
        return "null".to_owned();
    }
    shown(value)
}

fn unknown(name: &[u8], is_operator: bool) -> String {
    let shown = Escaped(name);
    if is_operator && Key::find(name).is_some() {
        return format!(
            "operator policies do not have {shown}: set it in a policy without --operator"
        );
    }
    // The argument of a queue that says the same.
    let bare = name.strip_prefix(b"x-").unwrap_or(name);
    let of_argument = Key::find(bare).filter(|_| bare.len() < name.len());
    let meant = of_argument.or_else(|| KEYS.iter().find(|key| is_near(key.name.as_bytes(), name)));
    match meant {
        Some(key) => format!("policies do not have {shown}: {} may be meant", key.name),
        None => format!(
            "policies do not have {shown}: docs/arguments.md has the keys, such as max-length, \
             message-ttl, overflow and dead-letter-exchange"
        ),
    }
}

/// Whether one has a letter too many, too few, another, or two in the wrong order; or other
/// capitals, or underscores for hyphens.
fn is_near(key: &[u8], name: &[u8]) -> bool {
    let plain = |byte: &u8| match byte {
        b'_' => b'-',
        other => other.to_ascii_lowercase(),
    };
    let (key, name): (Vec<u8>, Vec<u8>) = (
        key.to_vec(),
        name.iter().take(NAME_MAX).map(plain).collect(),
    );
    let front = key.iter().zip(&name).take_while(|(a, b)| a == b).count();
    let (key, name) = (
        key.get(front..).unwrap_or_default(),
        name.get(front..).unwrap_or_default(),
    );
    let back = key.iter().rev().zip(name.iter().rev());
    let back = back.take_while(|(a, b)| a == b).count();
    let key = key.get(..key.len() - back).unwrap_or_default();
    let name = name.get(..name.len() - back).unwrap_or_default();
    match (key, name) {
        ([a, b], [c, d]) => (a, b) == (d, c),
        (key, name) => key.len() <= 1 && name.len() <= 1,
    }
}

/// No key is as long.
const NAME_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_nearly_is_one_is_told() {
        for (name, meant) in [
            ("max-lenght", "max-length"),
            ("max-length", "max-length"),
            ("max_length", "max-length"),
            ("Message-TTL", "message-ttl"),
            ("message-tl", "message-ttl"),
            ("overfloww", "overflow"),
            ("x-overflow", "overflow"),
        ] {
            let told = unknown(name.as_bytes(), false);
            assert!(told.ends_with(&format!(": {meant} may be meant")), "{told}");
        }
        for name in ["ha-mode", "", "x-", "length"] {
            let told = unknown(name.as_bytes(), false);
            assert!(told.contains("docs/arguments.md"), "{told}");
        }
        assert_eq!(
            unknown(b"dead-letter-exchange", true),
            "operator policies do not have dead-letter-exchange: set it in a policy without \
             --operator"
        );
    }
}
