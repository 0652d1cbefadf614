//! Properties of MQTT 5.0 as those of AMQP 0-9-1, and back.
//!
//! | MQTT | AMQP |
//! |---|---|
//! | QoS 0; 1, 2 | `delivery_mode` 1; 2 |
//! | Content Type | `content_type`, where it is ASCII and short |
//! | Correlation Data | `correlation_id` where it is a short text, else the header `x-correlation-id` |
//! | Response Topic | the header `x-reply-to-topic`, as a routing key |
//! | Message Expiry Interval, in seconds | `expiration`, in milliseconds |
//! | User Property | a header; several of one name are an array, in their order |
//!
//! The other way headers that hold a text, a number or a truth become user properties; tables and
//! arrays of anything but texts do not, nor do headers that begin with `x-mqtt-`.

use menzil_model::table::write_value;
use menzil_model::wire::{Reader, Writer};
use menzil_model::{Name, Properties, Value};

use super::bridge::Translation;

/// Identifiers of properties (MQTT 5.0 §2.2.2.2).
const PAYLOAD_FORMAT: u8 = 0x01;
const CONTENT_TYPE: u8 = 0x03;
const RESPONSE_TOPIC: u8 = 0x08;
const CORRELATION_DATA: u8 = 0x09;
const USER_PROPERTY: u8 = 0x26;

/// Headers of AMQP that stand for properties that it has not.
const CORRELATION_HEADER: &[u8] = b"x-correlation-id";
const RESPONSE_HEADER: &[u8] = b"x-reply-to-topic";

/// Sets the message as a retained one.
pub(crate) const RETAIN_HEADER: &[u8] = b"x-mqtt-retain";
const OWN_PREFIX: &[u8] = b"x-mqtt-";

/// What is read of forwarded properties, in the order in which they stand.
#[derive(Debug, Default)]
struct Forwarded<'a> {
    content_type: Option<&'a [u8]>,
    response_topic: Option<&'a [u8]>,
    correlation_data: Option<&'a [u8]>,
    user: Vec<(&'a [u8], &'a [u8])>,
}

impl<'a> Forwarded<'a> {
    /// They were checked when they came in: what does not read ends the list.
    fn read(properties: &'a [u8]) -> Self {
        let mut read = Self::default();
        let mut reader = Reader::new(properties);
        while read.read_one(&mut reader).is_some() {}
        read
    }

    fn read_one(&mut self, reader: &mut Reader<'a>) -> Option<()> {
        match reader.u8().ok()? {
            PAYLOAD_FORMAT => {
                reader.u8().ok()?;
            }
            CONTENT_TYPE => self.content_type = Some(text(reader)?),
            RESPONSE_TOPIC => self.response_topic = Some(text(reader)?),
            CORRELATION_DATA => self.correlation_data = Some(text(reader)?),
            USER_PROPERTY => {
                let name = text(reader)?;
                self.user.push((name, text(reader)?));
            }
            _ => return None,
        }
        Some(())
    }
}

/// Two octets of length, then as many.
fn text<'a>(reader: &mut Reader<'a>) -> Option<&'a [u8]> {
    let length = reader.u16().ok()?;
    reader.bytes(usize::from(length)).ok()
}

/// What queues of AMQP see of the properties of a PUBLISH.
pub(crate) fn to_amqp(
    (qos, expiry): (u8, Option<u32>),
    properties: &[u8],
    translation: Translation,
) -> Vec<u8> {
    let forwarded = Forwarded::read(properties);
    let is_short = |value: &[u8]| value.len() <= Name::BYTES_MAX;
    let is_text = |value: &[u8]| std::str::from_utf8(value).is_ok_and(|text| !text.contains('\0'));
    let content_type = forwarded.content_type.filter(|value| value.is_ascii());
    let correlation = forwarded.correlation_data;
    let correlation_id = correlation.filter(|value| is_short(value) && is_text(value));
    let mut headers = Vec::new();
    put_user_properties(&forwarded.user, &mut headers);
    if let Some(data) = correlation.filter(|_| correlation_id.is_none()) {
        put_header(CORRELATION_HEADER, Value::LongString(data), &mut headers);
    }
    if let Some(topic) = forwarded.response_topic
        && let Some(key) = translation.key_of(topic)
    {
        put_header(RESPONSE_HEADER, Value::LongString(&key), &mut headers);
    }
    let expiration = expiry.map(|seconds| (u64::from(seconds) * 1000).to_string());
    let mut out = Vec::new();
    let all = Properties {
        content_type: content_type.filter(|value| is_short(value)),
        headers: (!headers.is_empty()).then_some(&headers),
        delivery_mode: Some(if qos > 0 { 2 } else { 1 }),
        correlation_id,
        expiration: expiration.as_deref().map(str::as_bytes),
        ..Properties::default()
    };
    all.write(&mut out);
    out
}

fn put_header(name: &[u8], value: Value<'_>, out: &mut Vec<u8>) {
    out.put_short_string(name);
    write_value(out, value);
}

/// One header for each name, in the order of their first.
fn put_user_properties(user: &[(&[u8], &[u8])], out: &mut Vec<u8>) {
    let mut seen: Vec<&[u8]> = Vec::new();
    for (name, value) in user.iter().take(HEADERS_MAX) {
        if name.len() > Name::BYTES_MAX || name.is_empty() || seen.contains(name) {
            continue;
        }
        seen.push(name);
        let values = user.iter().filter(|(other, _)| other == name);
        if values.clone().count() == 1 {
            put_header(name, Value::LongString(value), out);
            continue;
        }
        let mut items = Vec::new();
        for (_, value) in values {
            write_value(&mut items, Value::LongString(value));
        }
        out.put_short_string(name);
        out.put_u8(b'A');
        out.put_long_string(&items);
    }
}

/// What subscribers see of the properties of a message of AMQP.
pub(crate) fn from_amqp(properties: &Properties<'_>, translation: Translation) -> Vec<u8> {
    let mut out = Vec::new();
    if let Some(content_type) = properties.content_type.and_then(utf8) {
        put(CONTENT_TYPE, content_type, &mut out);
    }
    let header = |wanted: &[u8]| {
        let mut fields = properties.header_fields();
        let found = fields.find(|(name, _)| *name == wanted);
        found.and_then(|(_, value)| long_string(&value))
    };
    if let Some(key) = header(RESPONSE_HEADER)
        && let Some(topic) = translation.topic_of(key)
    {
        put(RESPONSE_TOPIC, &topic, &mut out);
    }
    if let Some(data) = properties
        .correlation_id
        .or_else(|| header(CORRELATION_HEADER))
    {
        put(CORRELATION_DATA, data, &mut out);
    }
    for (name, value) in properties.header_fields().take(HEADERS_MAX) {
        let is_own =
            [CORRELATION_HEADER, RESPONSE_HEADER].contains(&name) || name.starts_with(OWN_PREFIX);
        if !is_own && let Some(name) = utf8(name) {
            put_user_property(name, &value, &mut out);
        }
    }
    out
}

/// The bytes of a text.
fn long_string<'a>(value: &Value<'a>) -> Option<&'a [u8]> {
    if let Value::LongString(text) = value {
        return Some(text);
    }
    None
}

fn put_user_property(name: &[u8], value: &Value<'_>, out: &mut Vec<u8>) {
    if let Value::Array(mut items) = *value {
        let all = items;
        let is_texts = |item: &Value<'_>| matches!(item, Value::LongString(_));
        if items.all(|item| is_texts(&item)) {
            for item in all {
                put_user_property(name, &item, out);
            }
        }
        return;
    }
    if let Some(text) = text_of(value)
        && utf8(text.as_bytes()).is_some()
    {
        out.put_u8(USER_PROPERTY);
        put_text(name, out);
        put_text(text.as_bytes(), out);
    }
}

/// A value as text, where it is one, a number, a truth or a time.
fn text_of(value: &Value<'_>) -> Option<String> {
    if let Some(number) = value.as_integer() {
        return Some(number.to_string());
    }
    match value {
        Value::LongString(text) => String::from_utf8(text.to_vec()).ok(),
        Value::Bool(truth) => Some(truth.to_string()),
        Value::F32(number) => Some(number.to_string()),
        Value::F64(number) => Some(number.to_string()),
        Value::Timestamp(seconds) => Some(seconds.to_string()),
        Value::I8(_)
        | Value::U8(_)
        | Value::I16(_)
        | Value::U16(_)
        | Value::I32(_)
        | Value::U32(_)
        | Value::I64(_)
        | Value::Decimal(..)
        | Value::Array(_)
        | Value::Table(_)
        | Value::Void
        | Value::Binary(_) => None,
    }
}

/// The bytes, where they are a text that MQTT can have (MQTT-1.5.4-1, -2).
fn utf8(bytes: &[u8]) -> Option<&[u8]> {
    let text = std::str::from_utf8(bytes).ok()?;
    (!text.contains('\0') && u16::try_from(bytes.len()).is_ok()).then_some(bytes)
}

fn put(id: u8, value: &[u8], out: &mut Vec<u8>) {
    if u16::try_from(value.len()).is_ok() {
        out.put_u8(id);
        put_text(value, out);
    }
}

fn put_text(text: &[u8], out: &mut Vec<u8>) {
    out.put_u16(u16::try_from(text.len()).unwrap_or(0));
    out.put(text);
}

/// Headers and user properties that are carried over.
const HEADERS_MAX: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;
    use menzil_model::TableBuilder;
    use menzil_model::table::check_table;
    use proptest::prelude::*;

    fn of_mqtt(parts: &[(u8, &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        for (id, value) in parts {
            put(*id, value, &mut out);
        }
        out
    }

    #[test]
    fn each_property_has_its_place_on_the_other_side() {
        let mut mqtt = vec![PAYLOAD_FORMAT, 1];
        mqtt.extend(of_mqtt(&[
            (CONTENT_TYPE, b"text/plain"),
            (RESPONSE_TOPIC, b"a/b.c"),
            (CORRELATION_DATA, b"id-7"),
        ]));
        for (name, value) in [("k", "1"), ("l", "2"), ("k", "3")] {
            mqtt.put_u8(USER_PROPERTY);
            put_text(name.as_bytes(), &mut mqtt);
            put_text(value.as_bytes(), &mut mqtt);
        }
        let amqp = to_amqp((1, Some(60)), &mqtt, Translation::Reversible);
        let read = Properties::parse(&amqp).unwrap();
        assert_eq!(read.content_type, Some(&b"text/plain"[..]));
        assert_eq!(read.correlation_id, Some(&b"id-7"[..]));
        assert_eq!(read.expiration, Some(&b"60000"[..]));
        assert!(read.is_persistent());
        let names: Vec<_> = read.header_fields().map(|(name, _)| name).collect();
        assert_eq!(names, [&b"k"[..], b"l", RESPONSE_HEADER]);
        let back = from_amqp(&read, Translation::Reversible);
        let forwarded = Forwarded::read(&back);
        assert_eq!(forwarded.response_topic, Some(&b"a/b.c"[..]));
        assert_eq!(forwarded.correlation_data, Some(&b"id-7"[..]));
        let user: [(&[u8], &[u8]); 3] = [(b"k", b"1"), (b"k", b"3"), (b"l", b"2")];
        assert_eq!(forwarded.user, user);
    }

    #[test]
    fn what_is_no_text_goes_as_a_header_or_not_at_all() {
        let mqtt = of_mqtt(&[
            (CORRELATION_DATA, &[0xff, 0]),
            (CONTENT_TYPE, "\u{fc}".as_bytes()),
        ]);
        let amqp = to_amqp((0, None), &mqtt, Translation::Reversible);
        let read = Properties::parse(&amqp).unwrap();
        assert_eq!((read.correlation_id, read.content_type), (None, None));
        assert_eq!(read.delivery_mode, Some(1));
        let forwarded = from_amqp(&read, Translation::Reversible);
        assert_eq!(
            Forwarded::read(&forwarded).correlation_data,
            Some(&[0xff, 0][..])
        );
    }

    #[test]
    fn headers_of_other_kinds_are_texts_where_they_can_be() {
        let headers = TableBuilder::new()
            .field("n", Value::I32(-5))
            .field("b", Value::Bool(true))
            .field("x-mqtt-retain", Value::Bool(true))
            .field("v", Value::Void)
            .build();
        let properties = Properties {
            headers: Some(headers.as_bytes()),
            ..Properties::default()
        };
        let out = from_amqp(&properties, Translation::Reversible);
        let user: [(&[u8], &[u8]); 2] = [(b"n", b"-5"), (b"b", b"true")];
        assert_eq!(Forwarded::read(&out).user, user);
    }

    proptest! {
        #[test]
        fn any_bytes_give_properties_that_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let amqp = to_amqp((1, None), &bytes, Translation::Reversible);
            let read = Properties::parse(&amqp).unwrap();
            prop_assert!(check_table(read.headers.unwrap_or_default(), 0).is_ok());
        }
    }
}
