//! Whether an object that is declared again is the same as it was.

use menzil_model::{Escaped, Name, Table, Value};

use crate::refusal::{Given, Object, Refusal};

/// What is being compared.
#[derive(Clone, Copy)]
pub(crate) struct Compared<'a> {
    pub(crate) object: &'a Object,
}

impl Compared<'_> {
    fn differs(self, argument: &'static str, received: Given, current: Given) -> Refusal {
        let object = self.object.clone();
        Refusal::Inequivalent {
            object,
            argument: Name::from(argument),
            received,
            current,
        }
    }
}

/// A flag of the method.
pub(crate) fn compare_flag(
    of: Compared<'_>,
    name: &'static str,
    received: bool,
    current: bool,
) -> Result<(), Refusal> {
    if received == current {
        return Ok(());
    }
    Err(of.differs(name, Given::Flag(received), Given::Flag(current)))
}

/// A text of the method, such as the exchange type.
pub(crate) fn compare_text(
    of: Compared<'_>,
    name: &'static str,
    received: &str,
    current: &str,
) -> Result<(), Refusal> {
    if received == current {
        return Ok(());
    }
    // RabbitMQ prints an Erlang atom, and one with a hyphen has quotes of its own.
    let given = |text: &str| Given::Value {
        text: if text.contains('-') {
            format!("'{text}'")
        } else {
            text.to_owned()
        },
        kind: "",
    };
    Err(of.differs(name, given(received), given(current)))
}

/// An argument, by name; where it is absent it counts as `default`.
pub(crate) fn compare_argument(
    of: Compared<'_>,
    name: &'static str,
    default: Option<Value<'_>>,
    received: &Table,
    current: &Table,
) -> Result<(), Refusal> {
    let received = received.find(name.as_bytes()).or(default);
    let current = current.find(name.as_bytes()).or(default);
    let same = match (&received, &current) {
        (None, None) => true,
        (Some(a), Some(b)) => same_value(a, b),
        _ => false,
    };
    if same {
        return Ok(());
    }
    let given = |value: Option<Value<'_>>| match value {
        None => Given::Absent,
        Some(value) => Given::Value {
            text: printed(&value),
            kind: value.type_name(),
        },
    };
    Err(of.differs(name, given(received), given(current)))
}

/// Integers of all widths are one kind with timestamps, and so are floats; else kind and value
/// decide.
fn same_value(a: &Value<'_>, b: &Value<'_>) -> bool {
    if let (Some(a), Some(b)) = (whole(a), whole(b)) {
        return a == b;
    }
    if let (Some(a), Some(b)) = (fraction(a), fraction(b)) {
        return a.to_bits() == b.to_bits();
    }
    let bytes = |value: &Value<'_>| {
        let mut out = Vec::new();
        menzil_model::table::write_value(&mut out, *value);
        out
    };
    bytes(a) == bytes(b)
}

fn whole(value: &Value<'_>) -> Option<i128> {
    if let Value::Timestamp(seconds) = value {
        return Some(i128::from(*seconds));
    }
    value.as_integer()
}

fn fraction(value: &Value<'_>) -> Option<f64> {
    if let Value::F32(number) = value {
        return Some(f64::from(*number));
    }
    if let Value::F64(number) = value {
        Some(*number)
    } else {
        None
    }
}

/// A value as RabbitMQ prints it in its texts.
fn printed(value: &Value<'_>) -> String {
    if let Some(whole) = whole(value) {
        return whole.to_string();
    }
    if let Some(number) = fraction(value) {
        return format!("{number:?}");
    }
    match value {
        Value::LongString(text) | Value::Binary(text) => Escaped(text).to_string(),
        Value::Bool(flag) => flag.to_string(),
        Value::Decimal(places, number) => format!("{{{places},{number}}}"),
        Value::Table(fields) if fields.rest().is_empty() => "[]".to_owned(),
        Value::Array(items) if items.as_bytes().is_empty() => "[]".to_owned(),
        Value::Table(_) => "[table]".to_owned(),
        Value::Array(_) => "[array]".to_owned(),
        Value::Void => "undefined".to_owned(),
        Value::F32(_)
        | Value::F64(_)
        | Value::Timestamp(_)
        | Value::I8(_)
        | Value::U8(_)
        | Value::I16(_)
        | Value::U16(_)
        | Value::I32(_)
        | Value::U32(_)
        | Value::I64(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_with_a_hyphen_are_quoted_twice_as_rabbitmq_does() {
        let object = Object::Exchange(Name::from("x"));
        let of = Compared { object: &object };
        let refused = compare_text(of, "type", "x-random", "direct");
        let given = |text: &str| Given::Value {
            text: text.to_owned(),
            kind: "",
        };
        let expected = of.differs("type", given("'x-random'"), given("direct"));
        assert_eq!(refused, Err(expected));
    }
}
