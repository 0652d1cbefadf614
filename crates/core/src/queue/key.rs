//! What tells a message from others in a queue that deduplicates.

use menzil_model::fact::MessageKey;
use menzil_model::table::Fields;
use menzil_model::{Name, Properties, Value};
use twox_hash::XxHash3_128;

/// The key of a message with these properties: a hash of a header's value with its type, or of
/// the `message_id` where no header is named. `None` where the message has none, and then it is
/// nobody's duplicate.
pub(crate) fn key_of(header: Option<&Name>, properties: &[u8]) -> Option<MessageKey> {
    let properties = Properties::parse(properties).ok()?;
    match header {
        None => properties.message_id.map(|id| hashed(b'S', id)),
        Some(header) => {
            let mut fields = Fields::of(properties.headers?);
            let (_, value) = fields.find(|(name, _)| *name == header.as_bytes())?;
            key_of_value(value)
        }
    }
}

fn key_of_value(value: Value<'_>) -> Option<MessageKey> {
    Some(match value {
        Value::Void => return None,
        Value::Bool(flag) => hashed(b't', &[u8::from(flag)]),
        Value::I8(number) => hashed(b'b', &number.to_be_bytes()),
        Value::U8(number) => hashed(b'B', &number.to_be_bytes()),
        Value::I16(number) => hashed(b's', &number.to_be_bytes()),
        Value::U16(number) => hashed(b'u', &number.to_be_bytes()),
        Value::I32(number) => hashed(b'I', &number.to_be_bytes()),
        Value::U32(number) => hashed(b'i', &number.to_be_bytes()),
        Value::I64(number) => hashed(b'l', &number.to_be_bytes()),
        Value::F32(number) => hashed(b'f', &number.to_be_bytes()),
        Value::F64(number) => hashed(b'd', &number.to_be_bytes()),
        Value::Decimal(scale, number) => {
            let unscaled = u64::from(number).to_be_bytes();
            hashed(b'D', &[&[scale][..], &unscaled].concat())
        }
        Value::LongString(text) => hashed(b'S', text),
        Value::Array(items) => hashed(b'A', items.as_bytes()),
        Value::Timestamp(seconds) => hashed(b'T', &seconds.to_be_bytes()),
        Value::Table(fields) => hashed(b'F', fields.rest()),
        Value::Binary(bytes) => hashed(b'x', bytes),
    })
}

/// The type is the seed.
fn hashed(kind: u8, bytes: &[u8]) -> MessageKey {
    MessageKey(XxHash3_128::oneshot_with_seed(kind.into(), bytes))
}

#[cfg(test)]
mod tests {
    use menzil_model::TableBuilder;

    use super::*;

    fn key(header: Option<&'static str>, value: Option<Value<'_>>) -> Option<MessageKey> {
        let table = TableBuilder::new().field("other", Value::U8(1));
        let table = match value {
            Some(value) => table.field("id", value),
            None => table,
        };
        let table = table.build();
        let properties = Properties {
            headers: Some(table.as_bytes()),
            message_id: Some(b"one"),
            ..Properties::default()
        };
        let mut bytes = Vec::new();
        properties.write(&mut bytes);
        key_of(header.map(Name::from).as_ref(), &bytes)
    }

    #[test]
    fn the_key_is_the_value_with_its_type() {
        let table = TableBuilder::new().field("a", Value::U8(1)).build();
        let values = [
            Value::Bool(true),
            Value::I8(1),
            Value::U8(1),
            Value::I16(1),
            Value::U16(1),
            Value::I32(1),
            Value::U32(1),
            Value::I64(1),
            Value::F32(1.0),
            Value::F64(1.0),
            Value::Decimal(0, 1),
            Value::Decimal(1, 1),
            Value::LongString(b"\x01"),
            Value::LongString(b""),
            Value::Timestamp(1),
            Value::Table(table.fields()),
            Value::Binary(b"\x01"),
            Value::I64(2),
        ];
        let keys: Vec<_> = values.iter().map(|v| key(Some("id"), Some(*v))).collect();
        for (at, one) in keys.iter().enumerate() {
            assert!(one.is_some(), "{:?}", values[at]);
            assert_eq!(*one, key(Some("id"), Some(values[at])));
            assert!(!keys[..at].contains(one), "{:?}", values[at]);
        }
    }

    #[test]
    fn without_a_header_it_is_the_message_id() {
        assert_eq!(key(None, None), key(None, Some(Value::U8(1))));
        assert_eq!(
            key(None, None),
            key(Some("id"), Some(Value::LongString(b"one")))
        );
    }

    #[test]
    fn nothing_is_no_key() {
        assert_eq!(key(Some("id"), None), None);
        assert_eq!(key(Some("id"), Some(Value::Void)), None);
        assert_eq!(key_of(None, &[0, 0]), None);
        assert_eq!(key_of(Some(&Name::from("id")), &[0, 0]), None);
        assert_eq!(key_of(None, b"bad"), None);
    }

    /// Keys stand in the journal: they may never come out otherwise.
    #[test]
    fn keys_are_the_same_for_ever() {
        let text = key(Some("id"), Some(Value::LongString(b"order-4711"))).unwrap();
        let number = key(Some("id"), Some(Value::I64(4711))).unwrap();
        assert_eq!(
            format!("{:032x}", text.0),
            "8d979b9d660d667185dd8a5b1d030278"
        );
        assert_eq!(
            format!("{:032x}", number.0),
            "5b40a2f55eb816f3b16c81210235e18b"
        );
    }
}
