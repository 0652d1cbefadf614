//! Field values as bytes that are equal exactly where RabbitMQ's headers exchange finds the
//! values equal: by value and not by type octet, so that 1 of any width is one value and 1.0
//! another, and short floats equal long ones, texts equal binaries. Inside arrays and tables
//! the types count.
//!
//! A timestamp in a message is compared in milliseconds, one in a binding as it stands. So it
//! never equals itself across the two, unless it is zero; that is RabbitMQ's way.

use menzil_model::Value;
use menzil_model::table::{Items, NESTING_MAX};
use menzil_model::wire::Writer;

/// Which side of the comparison a value stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// An argument of a binding.
    Binding,
    /// A header of a message.
    Message,
}

/// Appends the canonical bytes of a value. A void value has none of its own: in a binding it
/// asks for presence, in a message it equals nothing.
pub(crate) fn put_canonical(out: &mut Vec<u8>, value: Value<'_>, side: Side) {
    match value {
        Value::Timestamp(seconds) => {
            let scale = match side {
                Side::Binding => 1,
                Side::Message => 1000,
            };
            put_integer(out, i128::from(seconds) * scale);
        }
        Value::F32(number) => tagged(out, b'f', &f64::from(number).to_bits().to_be_bytes()),
        Value::F64(number) => tagged(out, b'f', &number.to_bits().to_be_bytes()),
        Value::LongString(bytes) | Value::Binary(bytes) => tagged(out, b's', bytes),
        Value::Array(items) => put_array(out, items, 0),
        // In RabbitMQ both are the empty list.
        Value::Table(fields) if fields.rest().is_empty() => out.put_u8(b'A'),
        Value::Bool(_) | Value::Decimal(..) | Value::Table(_) | Value::Void => {
            put_typed(out, value, 0);
        }
        Value::I8(_)
        | Value::U8(_)
        | Value::I16(_)
        | Value::U16(_)
        | Value::I32(_)
        | Value::U32(_)
        | Value::I64(_) => put_integer(out, value.as_integer().unwrap_or_default()),
    }
}

fn put_integer(out: &mut Vec<u8>, number: i128) {
    tagged(out, b'i', &number.to_be_bytes());
}

/// A value inside an array or table, with its type.
fn put_typed(out: &mut Vec<u8>, value: Value<'_>, depth: usize) {
    match value {
        Value::Array(items) => put_array(out, items, depth + 1),
        Value::Table(fields) => {
            let start = open(out, b'F');
            for (name, value) in fields.take_while(|_| depth < NESTING_MAX) {
                out.put_short_string(name);
                put_typed(out, value, depth + 1);
            }
            close(out, start);
        }
        Value::Bool(_)
        | Value::I8(_)
        | Value::U8(_)
        | Value::I16(_)
        | Value::U16(_)
        | Value::I32(_)
        | Value::U32(_)
        | Value::I64(_)
        | Value::F32(_)
        | Value::F64(_)
        | Value::Decimal(..)
        | Value::LongString(_)
        | Value::Timestamp(_)
        | Value::Void
        | Value::Binary(_) => menzil_model::table::write_value(out, value),
    }
}

fn put_array(out: &mut Vec<u8>, items: Items<'_>, depth: usize) {
    if items.as_bytes().is_empty() && depth == 0 {
        out.put_u8(b'A');
        return;
    }
    let start = open(out, b'A');
    for item in items.take_while(|_| depth < NESTING_MAX) {
        put_typed(out, item, depth + 1);
    }
    close(out, start);
}

/// Starts something whose length comes before it.
fn open(out: &mut Vec<u8>, tag: u8) -> usize {
    out.put_u8(tag);
    out.put_u64(0);
    out.len()
}

fn close(out: &mut [u8], start: usize) {
    let length = (out.len() - start) as u64;
    if let Some(room) = out.get_mut(start - 8..start) {
        room.copy_from_slice(&length.to_be_bytes());
    }
}

fn tagged(out: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    out.put_u8(tag);
    out.put(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use menzil_model::table::read_value;
    use menzil_model::wire::Reader;
    use menzil_model::{Table, TableBuilder};

    fn equal(binding: Value<'_>, message: Value<'_>) -> bool {
        let (mut left, mut right) = (Vec::new(), Vec::new());
        put_canonical(&mut left, binding, Side::Binding);
        put_canonical(&mut right, message, Side::Message);
        left == right
    }

    fn nested(values: &[Value<'_>]) -> Table {
        let mut content = Vec::new();
        for value in values {
            menzil_model::table::write_value(&mut content, *value);
        }
        let mut array = vec![b'A'];
        array.put_long_string(&content);
        let value = read_value(&mut Reader::new(&array)).unwrap();
        TableBuilder::new().field("array", value).build()
    }

    #[test]
    fn integers_of_any_width_are_equal() {
        let ones = [
            Value::I8(1),
            Value::U8(1),
            Value::I16(1),
            Value::U16(1),
            Value::I32(1),
            Value::U32(1),
            Value::I64(1),
        ];
        for left in ones {
            for right in ones {
                assert!(equal(left, right));
            }
            assert!(!equal(left, Value::F64(1.0)));
            assert!(!equal(left, Value::LongString(b"1")));
            assert!(!equal(left, Value::Bool(true)));
            assert!(!equal(left, Value::I8(-1)));
            assert!(!equal(left, Value::Decimal(0, 1)));
        }
    }

    #[test]
    fn floats_and_texts_are_equal_whatever_their_type_octet() {
        assert!(equal(Value::F32(1.5), Value::F64(1.5)));
        assert!(!equal(Value::F32(0.1), Value::F64(0.1)));
        assert!(equal(Value::LongString(b"a"), Value::Binary(b"a")));
        assert!(!equal(Value::LongString(b"true"), Value::Bool(true)));
        assert!(equal(Value::Decimal(2, 314), Value::Decimal(2, 314)));
        assert!(!equal(Value::Decimal(1, 314), Value::Decimal(2, 314)));
    }

    #[test]
    fn a_timestamp_is_seconds_in_a_binding_and_milliseconds_in_a_message() {
        assert!(!equal(Value::Timestamp(5), Value::Timestamp(5)));
        assert!(equal(Value::I32(5000), Value::Timestamp(5)));
        assert!(equal(Value::Timestamp(5), Value::I64(5)));
        assert!(!equal(Value::I64(5), Value::Timestamp(u64::MAX)));
    }

    #[test]
    fn inside_arrays_the_types_count() {
        let one = nested(&[Value::I32(1)]);
        let long = nested(&[Value::I64(1)]);
        let value = |table: &Table| {
            let bytes: &'static [u8] = Box::leak(Box::from(table.as_bytes()));
            menzil_model::table::Fields::of(bytes).next().unwrap().1
        };
        assert!(equal(value(&one), value(&one)));
        assert!(!equal(value(&one), value(&long)));
        assert!(!equal(value(&one), Value::I32(1)));
        let empty = nested(&[]);
        assert!(equal(value(&empty), Value::Table(Table::empty().fields())));
        let in_array = nested(&[value(&empty)]);
        let table_in_array = nested(&[Value::Table(Table::empty().fields())]);
        assert!(!equal(value(&in_array), value(&table_in_array)));
        // A number as `L` and as `l` is one type to RabbitMQ.
        let mut other = long.as_bytes().to_vec();
        let place = other.iter().position(|byte| *byte == b'l').unwrap();
        other[place] = b'L';
        assert!(equal(
            value(&Table::copy_from(&other).unwrap()),
            value(&long)
        ));
    }
}
