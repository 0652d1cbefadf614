//! The header `x-delay`: how long an exchange that delays keeps a message, in milliseconds.
//!
//! What goes on later has it negated, so that the next such exchange does not keep it again and
//! a consumer sees that it waited.

use menzil_model::fact::ExchangeKind;
use menzil_model::table::{Fields, write_value};
use menzil_model::wire::Writer;
use menzil_model::{Name, Properties, Table, Value};

use crate::headers::rewrite_headers;
use crate::own_arguments::mistaken;
use crate::refusal::{Object, Refusal};

const HEADER: &[u8] = b"x-delay";

/// The longest delay of the plugin, some 49 days.
const DELAY_MAX: i128 = 4_294_967_295;

/// How long the message is to wait; `None` where it says nothing of it that counts.
pub(crate) fn delay_of(properties: &Properties<'_>) -> Option<u64> {
    let delay = delay_in(properties.headers?)?;
    (1..=DELAY_MAX).contains(&delay).then_some(())?;
    u64::try_from(delay).ok()
}

fn delay_in(headers: &[u8]) -> Option<i128> {
    let (_, value) = Fields::of(headers).find(|(name, _)| *name == HEADER)?;
    if let Value::LongString(text) = value {
        return std::str::from_utf8(text).ok()?.parse().ok();
    }
    if let Value::F32(number) = value {
        return whole(number.into());
    }
    if let Value::F64(number) = value {
        return whole(number);
    }
    value.as_integer()
}

fn whole(number: f64) -> Option<i128> {
    // What is no number, or out of range, is no delay.
    let is_near = number.is_finite() && number.abs() < 1e15;
    #[expect(clippy::cast_possible_truncation, reason = "it was looked at")]
    is_near.then_some(number as i128)
}

/// The properties of a message that has waited, with its delay negated. `None` where there is
/// nothing to do.
pub(crate) fn arrived(properties: &[u8]) -> Option<Vec<u8>> {
    let headers = Properties::parse(properties).ok()?.headers?;
    let delay = i64::try_from(-delay_in(headers)?).ok()?;
    rewrite_headers(properties, |name, field, out| {
        if name == HEADER {
            out.put_short_string(name);
            let short = i32::try_from(delay).map(Value::I32);
            write_value(out, short.unwrap_or(Value::I64(delay)));
        } else {
            out.put(field);
        }
    })
}

/// Checks the arguments by which a new exchange delays. Returns the kind as which it routes.
pub(crate) fn check_delayed(
    kind: ExchangeKind,
    arguments: &Table,
    object: &Object,
) -> Result<ExchangeKind, Refusal> {
    match arguments.find(b"x-delayed") {
        None | Some(Value::Bool(_)) => {}
        Some(value) => {
            let wanted = "true or false";
            return Err(mistaken(object.clone(), "x-delayed", value, wanted));
        }
    }
    if kind != ExchangeKind::Delayed {
        return Ok(kind);
    }
    let Some(Value::LongString(name)) = arguments.find(b"x-delayed-type") else {
        return Err(Refusal::DelayedType);
    };
    match ExchangeKind::from_name(name) {
        Some(ExchangeKind::Delayed) => Err(Refusal::DelayedTwice),
        Some(ExchangeKind::RecentHistory) => Err(Refusal::UnsupportedExchangeType(Name::cut(name))),
        Some(kind) => Ok(kind),
        None => Err(Refusal::UnknownExchangeType(Name::cut(name))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use menzil_model::TableBuilder;

    fn properties(fields: &[(&str, Value<'_>)]) -> Vec<u8> {
        let mut table = TableBuilder::new();
        for (name, value) in fields {
            table = table.field(name, *value);
        }
        let table = table.build();
        let mut bytes = Vec::new();
        Properties {
            content_type: Some(b"text/plain"),
            headers: Some(table.as_bytes()),
            delivery_mode: Some(2),
            ..Properties::default()
        }
        .write(&mut bytes);
        bytes
    }

    fn delay(value: Value<'_>) -> Option<u64> {
        let bytes = properties(&[("x-delay", value)]);
        delay_of(&Properties::parse(&bytes).unwrap())
    }

    #[test]
    fn a_delay_is_a_number_of_milliseconds_up_to_the_plugins_most() {
        for (value, expected) in [
            (Value::I8(5), Some(5)),
            (Value::U16(600), Some(600)),
            (Value::I32(3000), Some(3000)),
            (Value::U32(u32::MAX), Some(4_294_967_295)),
            (Value::I64(4_294_967_295), Some(4_294_967_295)),
            (Value::I64(4_294_967_296), None),
            (Value::I32(0), None),
            (Value::I32(-5), None),
            (Value::LongString(b"250"), Some(250)),
            (Value::LongString(b"soon"), None),
            (Value::F64(12.9), Some(12)),
            (Value::F64(f64::NAN), None),
            (Value::F32(0.5), None),
            (Value::Bool(true), None),
            (Value::Void, None),
        ] {
            assert_eq!(delay(value), expected, "{value:?}");
        }
        assert_eq!(delay_of(&Properties::default()), None);
    }

    #[test]
    fn what_waited_has_its_delay_negated_and_the_rest_as_it_was() {
        let before = properties(&[
            ("a", Value::Bool(true)),
            ("x-delay", Value::LongString(b"3000")),
            ("b", Value::I32(7)),
        ]);
        let after = properties(&[
            ("a", Value::Bool(true)),
            ("x-delay", Value::I32(-3000)),
            ("b", Value::I32(7)),
        ]);
        assert_eq!(arrived(&before).unwrap(), after);
        assert_eq!(delay_of(&Properties::parse(&after).unwrap()), None);
        let long = properties(&[("x-delay", Value::I64(4_000_000_000))]);
        let after = properties(&[("x-delay", Value::I64(-4_000_000_000))]);
        assert_eq!(arrived(&long).unwrap(), after);
    }
}
