//! What a binding of a headers exchange asks of a message, read from its arguments; and what a
//! new exchange or binding of any kind must be.

use menzil_model::fact::{Destination, ExchangeDefinition, ExchangeKind};
use menzil_model::{Table, Value};

use super::term::Term;
use super::weight::{check_hash_arguments, check_key};
use crate::own_arguments::{Holder, check_own};
use crate::refusal::{Object, Refusal};
use crate::replay;

/// How many of a binding's conditions must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Each.
    All,
    /// One at least.
    Any,
}

/// The conditions of a binding.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Criteria<'a> {
    pub(crate) mode: Mode,
    /// Whether arguments that start with `x-` are conditions.
    with_x: bool,
    arguments: &'a Table,
}

impl<'a> Criteria<'a> {
    /// Reads a binding's arguments; an `x-match` that is none of the four counts as `all`.
    pub(crate) fn of(arguments: &'a Table) -> Self {
        let (mode, with_x) = match arguments.find(MATCH) {
            Some(Value::LongString(b"any")) => (Mode::Any, false),
            Some(Value::LongString(b"any-with-x")) => (Mode::Any, true),
            Some(Value::LongString(b"all-with-x")) => (Mode::All, true),
            _ => (Mode::All, false),
        };
        Self {
            mode,
            with_x,
            arguments,
        }
    }

    /// Header names and the values that they must have; `Void` asks for presence only.
    pub(crate) fn conditions(&self) -> impl Iterator<Item = (&'a [u8], Value<'a>)> + use<'a> {
        let with_x = self.with_x;
        let arguments: &'a Table = self.arguments;
        arguments.fields().filter(move |(name, _)| match *name {
            MATCH | REPLAY => false,
            name => with_x || !name.starts_with(b"x-"),
        })
    }
}

/// Checks the arguments that a new exchange has for its kind.
pub fn check_exchange(
    kind: ExchangeKind,
    arguments: &Table,
    object: &Object,
) -> Result<(), Refusal> {
    if kind == ExchangeKind::ConsistentHash {
        check_hash_arguments(arguments, object)?;
    }
    Ok(())
}

/// Checks a new binding against the kind of its exchange; not whether that keeps what the binding
/// may ask for.
pub fn check_binding(
    exchange: &ExchangeDefinition,
    destination: Destination,
    key: &[u8],
    arguments: &Table,
) -> Result<(), Refusal> {
    check_key(exchange, destination, key)?;
    // With x, such names are headers that messages may have.
    if exchange.routes_as() != ExchangeKind::Headers || !Criteria::of(arguments).with_x {
        check_own_of_binding(exchange, arguments)?;
    }
    replay::From::read(arguments, exchange, true, 0)?;
    if exchange.routes_as() == ExchangeKind::Headers {
        check_match(arguments)?;
    }
    Ok(())
}

fn check_own_of_binding(exchange: &ExchangeDefinition, arguments: &Table) -> Result<(), Refusal> {
    if arguments.as_bytes().is_empty() {
        return Ok(());
    }
    let object = Object::Exchange(exchange.name.clone());
    check_own(Holder::Binding, arguments, &object)
}

fn check_match(arguments: &Table) -> Result<(), Refusal> {
    match arguments.find(MATCH) {
        None | Some(Value::LongString(b"all" | b"any" | b"all-with-x" | b"any-with-x")) => Ok(()),
        Some(value @ Value::LongString(_)) => Err(Refusal::InvalidMatch {
            value: Term(value).to_string(),
        }),
        Some(value) => Err(Refusal::InvalidMatchType {
            kind: value.type_name(),
            value: Term(value).to_string(),
        }),
    }
}

const MATCH: &[u8] = b"x-match";

/// Says what a new binding gets, and nothing of what it matches.
const REPLAY: &[u8] = b"x-replay-from";

#[cfg(test)]
mod tests {
    use super::*;
    use menzil_model::{ExchangeId, Name, QueueId, TableBuilder};

    fn matching(value: Value<'_>) -> Table {
        TableBuilder::new().field("x-match", value).build()
    }

    #[test]
    fn x_match_is_one_of_four_texts_or_absent() {
        for text in ["all", "any", "all-with-x", "any-with-x"] {
            let arguments = matching(Value::LongString(text.as_bytes()));
            assert_eq!(check_match(&arguments), Ok(()));
        }
        assert_eq!(check_match(&Table::empty()), Ok(()));
        let refused = |value| check_match(&matching(value));
        let value = |value: &str| {
            let value = value.to_owned();
            Err(Refusal::InvalidMatch { value })
        };
        let kind = |kind, value: &str| {
            let value = value.to_owned();
            Err(Refusal::InvalidMatchType { kind, value })
        };
        assert_eq!(refused(Value::LongString(b"nope")), value("<<\"nope\">>"));
        assert_eq!(refused(Value::LongString(b"")), value("<<>>"));
        assert_eq!(refused(Value::Bool(true)), kind("bool", "true"));
        assert_eq!(refused(Value::I32(5)), kind("signedint", "5"));
        assert_eq!(refused(Value::Void), kind("void", "undefined"));
        assert_eq!(
            refused(Value::Binary(b"\xff\0")),
            kind("binary", "<<255,0>>")
        );
    }

    #[test]
    fn other_kinds_do_not_look_at_arguments() {
        let arguments = matching(Value::LongString(b"some"));
        for kind in ExchangeKind::ALL {
            let exchange = ExchangeDefinition {
                id: ExchangeId(1),
                name: Name::from("x"),
                kind,
                durable: true,
                auto_delete: false,
                internal: false,
                arguments: Table::empty(),
            };
            let is_weight = kind == ExchangeKind::ConsistentHash;
            let key: &[u8] = if is_weight { b"1" } else { b"" };
            let checked = check_binding(&exchange, Destination::Queue(QueueId(1)), key, &arguments);
            assert_eq!(checked.is_err(), kind == ExchangeKind::Headers, "{kind:?}");
        }
    }
}
