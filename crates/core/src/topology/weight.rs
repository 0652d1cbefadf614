//! What an exchange or a binding of the hash and random kinds must say of itself, and the texts'
//! parts where it does not.

use menzil_model::fact::{Destination, ExchangeDefinition, ExchangeKind};
use menzil_model::{Name, Table, Value};

use super::term::Term;
use crate::own_arguments::mistaken;
use crate::refusal::{Object, Refusal};

/// What of a message a consistent hash exchange hashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HashOn {
    /// The routing key.
    RoutingKey,
    /// The header of that name.
    Header(Box<[u8]>),
    /// A property.
    Property(HashProperty),
}

/// The properties that may be hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HashProperty {
    CorrelationId,
    MessageId,
    Timestamp,
}

impl HashOn {
    /// Reads the arguments of an exchange; those that cannot be ask for the routing key.
    pub(crate) fn of(arguments: &Table) -> Self {
        match (arguments.find(HEADER), arguments.find(PROPERTY)) {
            (Some(Value::LongString(name)), _) => Self::Header(Box::from(name)),
            (_, Some(Value::LongString(name))) => {
                HashProperty::named(name).map_or(Self::RoutingKey, Self::Property)
            }
            _ => Self::RoutingKey,
        }
    }
}

impl HashProperty {
    /// As `hash-property` has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::CorrelationId => "correlation_id",
            Self::MessageId => "message_id",
            Self::Timestamp => "timestamp",
        }
    }

    fn named(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"correlation_id" => Self::CorrelationId,
            b"message_id" => Self::MessageId,
            b"timestamp" => Self::Timestamp,
            _ => return None,
        })
    }
}

/// Checks the arguments of a new consistent hash exchange, in RabbitMQ's order.
pub(crate) fn check_hash_arguments(arguments: &Table, object: &Object) -> Result<(), Refusal> {
    let text = |argument: &'static [u8]| match arguments.find(argument) {
        None => Ok(None),
        Some(Value::LongString(text)) => Ok(Some(text)),
        Some(value) => Err(Refusal::InvalidType {
            object: object.clone(),
            argument: Name::cut(argument),
            kind: value.type_name(),
        }),
    };
    match (text(HEADER)?, text(PROPERTY)?) {
        (Some(_), Some(_)) => return Err(Refusal::HashTwice),
        (None, Some(property)) if HashProperty::named(property).is_none() => {
            return Err(Refusal::HashProperty(Name::cut(property)));
        }
        _ => {}
    }
    match arguments.find(MAX_WEIGHT.as_bytes()) {
        Some(value) if weight_max_of(value).is_none() => {
            let wanted = format!("a whole number from 1 to {WEIGHT_MAX}");
            Err(mistaken(object.clone(), MAX_WEIGHT, value, &wanted))
        }
        _ => Ok(()),
    }
}

/// The argument `x-max-weight`: what is above counts as it.
pub(crate) fn weight_max(arguments: &Table) -> u16 {
    let given = arguments
        .find(MAX_WEIGHT.as_bytes())
        .and_then(weight_max_of);
    given.unwrap_or(WEIGHT_MAX)
}

fn weight_max_of(value: Value<'_>) -> Option<u16> {
    let number = u16::try_from(value.as_integer()?).ok()?;
    (1..=WEIGHT_MAX).contains(&number).then_some(number)
}

/// Checks the key and the destination of a new binding of the kinds that ask something of them.
pub(crate) fn check_key(
    exchange: &ExchangeDefinition,
    destination: Destination,
    key: &[u8],
) -> Result<(), Refusal> {
    match (exchange.routes_as(), destination) {
        (ExchangeKind::ConsistentHash, _) => weight_of(key).map(|_| ()),
        (ExchangeKind::LocalRandom, _) if !key.is_empty() => {
            Err(Refusal::BindingKey(Name::cut(key)))
        }
        (ExchangeKind::LocalRandom, Destination::Exchange(_)) => Err(Refusal::NoQueue),
        _ => Ok(()),
    }
}

/// The weight that a binding key stands for.
pub(crate) fn weight_of(key: &[u8]) -> Result<u16, Refusal> {
    let (negative, digits) = match key {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] | digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Refusal::WeightText {
            key: Term(Value::LongString(key)).to_string(),
        });
    }
    let number = digits.iter().fold(0_u32, |number, digit| {
        number
            .saturating_mul(10)
            .saturating_add(u32::from(digit - b'0'))
    });
    match u16::try_from(number) {
        Ok(0) => Err(Refusal::WeightTooLow),
        _ if negative => Err(Refusal::WeightTooLow),
        Ok(weight) if weight <= WEIGHT_MAX => Ok(weight),
        _ => Err(Refusal::WeightTooHigh {
            weight_max: WEIGHT_MAX,
        }),
    }
}

/// The highest weight.
const WEIGHT_MAX: u16 = 10_000;

const HEADER: &[u8] = b"hash-header";
const PROPERTY: &[u8] = b"hash-property";
const MAX_WEIGHT: &str = "x-max-weight";

#[cfg(test)]
mod tests {
    use super::*;
    use menzil_model::TableBuilder;

    #[test]
    fn a_weight_is_a_number_from_1_to_10000() {
        for (key, weight) in [("1", 1), ("+20", 20), ("007", 7), ("10000", 10_000)] {
            assert_eq!(weight_of(key.as_bytes()), Ok(weight));
        }
        for key in ["0", "-0", "-1", "-99999999999999999999"] {
            assert_eq!(weight_of(key.as_bytes()), Err(Refusal::WeightTooLow));
        }
        for key in ["10001", "65536", "4294967296", "99999999999999999999"] {
            let weight_max = 10_000;
            assert_eq!(
                weight_of(key.as_bytes()),
                Err(Refusal::WeightTooHigh { weight_max })
            );
        }
        for (key, printed) in [
            ("", "<<>>"),
            ("abc", "<<\"abc\">>"),
            ("1.5", "<<\"1.5\">>"),
            (" 1", "<<\" 1\">>"),
            ("-", "<<\"-\">>"),
            ("+-1", "<<\"+-1\">>"),
            ("1\0", "<<49,0>>"),
        ] {
            let key_printed = printed.to_owned();
            let refusal = Refusal::WeightText { key: key_printed };
            assert_eq!(weight_of(key.as_bytes()), Err(refusal));
        }
    }

    fn checked(table: TableBuilder) -> Result<(), Refusal> {
        check_hash_arguments(&table.build(), &Object::Exchange(Name::from("x")))
    }

    #[test]
    fn a_hash_exchange_hashes_one_thing_that_it_knows() {
        let text = |name: &str, value: &'static str| {
            TableBuilder::new().field(name, Value::LongString(value.as_bytes()))
        };
        assert_eq!(checked(TableBuilder::new()), Ok(()));
        assert_eq!(checked(text("hash-header", "h")), Ok(()));
        for property in ["message_id", "correlation_id", "timestamp"] {
            assert_eq!(checked(text("hash-property", property)), Ok(()));
        }
        assert_eq!(
            checked(text("hash-property", "app_id")),
            Err(Refusal::HashProperty(Name::from("app_id")))
        );
        let both = text("hash-header", "h").field("hash-property", Value::LongString(b"app_id"));
        assert_eq!(checked(both), Err(Refusal::HashTwice));
        let number = TableBuilder::new().field("hash-header", Value::I32(1));
        assert!(matches!(
            checked(number),
            Err(Refusal::InvalidType {
                kind: "signedint",
                ..
            })
        ));
    }

    #[test]
    fn the_highest_weight_may_be_lowered() {
        let with = |value| TableBuilder::new().field("x-max-weight", value);
        assert_eq!(weight_max(&Table::empty()), 10_000);
        assert_eq!(weight_max(&with(Value::I8(20)).build()), 20);
        assert_eq!(checked(with(Value::I64(10_000))), Ok(()));
        for value in [
            Value::I32(0),
            Value::I64(-1),
            Value::I64(10_001),
            Value::LongString(b"20"),
        ] {
            assert!(matches!(
                checked(with(value)),
                Err(Refusal::InvalidArgument { .. })
            ));
        }
    }
}
