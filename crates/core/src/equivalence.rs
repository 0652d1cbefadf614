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
    let given = |text: &str| Given::Value {
        text: text.to_owned(),
        kind: "",
    };
    Err(of.differs(name, given(received), given(current)))
}

/// An argument, by name.
pub(crate) fn compare_argument(
    of: Compared<'_>,
    name: &'static str,
    received: &Table,
    current: &Table,
) -> Result<(), Refusal> {
    let (received, current) = (
        received.find(name.as_bytes()),
        current.find(name.as_bytes()),
    );
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

/// Integers of all widths are one kind, and so are floats; else kind and value decide.
fn same_value(a: &Value<'_>, b: &Value<'_>) -> bool {
    if let (Some(a), Some(b)) = (a.as_integer(), b.as_integer()) {
        return a == b;
    }
    match (a, b) {
        (Value::F32(a), Value::F64(b)) | (Value::F64(b), Value::F32(a)) => {
            f64::from(*a).to_bits() == b.to_bits()
        }
        _ => {
            let bytes = |value: &Value<'_>| {
                let mut out = Vec::new();
                menzil_model::table::write_value(&mut out, *value);
                out
            };
            bytes(a) == bytes(b)
        }
    }
}

/// A value as RabbitMQ prints it in its texts.
pub(crate) fn printed(value: &Value<'_>) -> String {
    if let Some(integer) = value.as_integer() {
        return integer.to_string();
    }
    match value {
        Value::LongString(text) | Value::Binary(text) => Escaped(text).to_string(),
        Value::Bool(flag) => flag.to_string(),
        Value::F32(number) => number.to_string(),
        Value::F64(number) => number.to_string(),
        Value::Timestamp(seconds) => seconds.to_string(),
        Value::Void => "undefined".to_owned(),
        Value::Decimal(places, number) => format!("{{{places},{number}}}"),
        Value::Table(_) | Value::Array(_) => "[...]".to_owned(),
        Value::I8(_)
        | Value::U8(_)
        | Value::I16(_)
        | Value::U16(_)
        | Value::I32(_)
        | Value::U32(_)
        | Value::I64(_) => String::new(),
    }
}
