//! Sender-selected distribution: the headers `CC` and `BCC` add routing keys to a message.

use menzil_model::table::Fields;
use menzil_model::wire::Writer;
use menzil_model::{Properties, Value};
use smallvec::SmallVec;

use super::term::Term;
use crate::headers::rewrite_headers;
use crate::refusal::Refusal;

/// The routing key of a message with those of its `CC` and `BCC` headers, which unlike it may
/// be longer than a short string. Each counts at every exchange of the walk.
#[derive(Clone, Debug)]
pub struct RoutingKeys<'a>(SmallVec<[&'a [u8]; 4]>);

impl<'a> RoutingKeys<'a> {
    /// Only the routing key itself.
    pub fn one(routing_key: &'a [u8]) -> Self {
        Self(SmallVec::from_slice(&[routing_key]))
    }

    /// The routing key first, then `CC`, then `BCC`, in their order. Items that are no long
    /// strings are passed over; a header that is no array is refused.
    pub fn new(routing_key: &'a [u8], properties: &Properties<'a>) -> Result<Self, Refusal> {
        let mut keys = Self::one(routing_key);
        if let Some(headers) = properties.headers {
            for (header, text) in [(CC, "CC"), (BCC, "BCC")] {
                keys.add(headers, header, text)?;
            }
        }
        Ok(keys)
    }

    fn add(&mut self, headers: &'a [u8], header: &[u8], text: &'static str) -> Result<(), Refusal> {
        let found = Fields::of(headers).find(|(name, _)| *name == header);
        match found {
            None => Ok(()),
            Some((_, Value::Array(items))) => {
                for item in items {
                    if let Value::LongString(key) = item {
                        self.0.push(key);
                    }
                }
                Ok(())
            }
            Some((_, value)) => Err(Refusal::InvalidHeader {
                header: text,
                kind: value.type_name(),
                value: Term(value).to_string(),
            }),
        }
    }

    /// The same and others, which count likewise.
    #[must_use]
    pub(crate) fn and(mut self, others: impl Iterator<Item = &'a [u8]>) -> Self {
        self.0.extend(others);
        self
    }

    #[cfg(test)]
    pub(super) fn of(keys: SmallVec<[&'a [u8]; 4]>) -> Self {
        Self(keys)
    }

    /// The keys, the message's own first; some may be equal.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + '_ {
        self.0.iter().copied()
    }
}

/// The properties without their `BCC` header, everything else byte for byte; `None` where
/// there is no such header and nothing to do. A headers table that is empty then stays.
pub fn strip_bcc(properties: &[u8]) -> Option<Vec<u8>> {
    let headers = Properties::parse(properties).ok()?.headers?;
    Fields::of(headers).find(|(name, _)| *name == BCC)?;
    rewrite_headers(properties, |name, field, out| {
        if name != BCC {
            out.put(field);
        }
    })
}

const CC: &[u8] = b"CC";
pub(super) const BCC: &[u8] = b"BCC";

#[cfg(test)]
mod tests {
    use super::*;
    use menzil_model::table::{read_value, write_value};
    use menzil_model::wire::Reader;
    use menzil_model::{Table, TableBuilder};
    use proptest::prelude::*;

    fn array(items: &[Value<'_>]) -> Vec<u8> {
        let mut content = Vec::new();
        for item in items {
            write_value(&mut content, *item);
        }
        let mut bytes = vec![b'A'];
        bytes.put_long_string(&content);
        bytes
    }

    fn value(bytes: &[u8]) -> Value<'_> {
        read_value(&mut Reader::new(bytes)).unwrap()
    }

    fn keys(headers: &Table) -> Result<Vec<&[u8]>, Refusal> {
        let properties = Properties {
            headers: Some(headers.as_bytes()),
            ..Properties::default()
        };
        RoutingKeys::new(b"key", &properties).map(|keys| keys.iter().collect())
    }

    #[test]
    fn cc_and_bcc_add_their_long_strings_in_order() {
        let bcc = array(&[Value::LongString(b"b1")]);
        let cc = array(&[
            Value::LongString(b"c1"),
            Value::I32(7),
            Value::Binary(b"no"),
            Value::LongString(b"key"),
            Value::LongString(b""),
        ]);
        let headers = TableBuilder::new()
            .field("BCC", value(&bcc))
            .field("CC", value(&cc))
            .field("cc", Value::LongString(b"other"))
            .build();
        assert_eq!(
            keys(&headers),
            Ok(vec![&b"key"[..], b"c1", b"key", b"", b"b1"])
        );
        assert_eq!(keys(&Table::empty()), Ok(vec![&b"key"[..]]));
    }

    #[test]
    fn a_header_that_is_no_array_is_refused_cc_first() {
        let headers = TableBuilder::new()
            .field("BCC", Value::Void)
            .field("CC", Value::LongString(b"q2"))
            .build();
        assert_eq!(
            keys(&headers),
            Err(Refusal::InvalidHeader {
                header: "CC",
                kind: "longstr",
                value: "<<\"q2\">>".to_owned(),
            })
        );
        let headers = TableBuilder::new().field("BCC", Value::Void).build();
        assert!(matches!(
            keys(&headers),
            Err(Refusal::InvalidHeader {
                header: "BCC",
                kind: "void",
                ..
            })
        ));
    }

    fn written(properties: &Properties<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        properties.write(&mut bytes);
        bytes
    }

    #[test]
    fn without_bcc_there_is_nothing_to_strip() {
        let headers = TableBuilder::new().field("CC", Value::Void).build();
        let with_headers = Properties {
            headers: Some(headers.as_bytes()),
            ..Properties::default()
        };
        assert_eq!(strip_bcc(&written(&with_headers)), None);
        assert_eq!(strip_bcc(&written(&Properties::default())), None);
        assert_eq!(strip_bcc(b""), None);
    }

    proptest! {
        #[test]
        fn stripping_takes_the_header_and_leaves_every_other_byte(
            before in prop::collection::vec(("[a-c]{0,3}", any::<u64>()), 0..4),
            after in prop::collection::vec(("[a-c]{0,3}", any::<i64>()), 0..4),
            content_type in prop::option::of("[a-z]{0,9}"),
            content_encoding in prop::option::of("[a-z]{0,9}"),
            message_id in prop::option::of("[a-z]{0,9}"),
            twice: bool,
        ) {
            let bcc = array(&[Value::LongString(b"secret")]);
            let build = |with: bool| {
                let mut table = TableBuilder::new();
                for (name, number) in &before {
                    table = table.field(name, Value::Timestamp(*number));
                }
                if with {
                    table = table.field("BCC", value(&bcc));
                }
                for (name, number) in &after {
                    table = table.field(name, Value::I64(*number));
                }
                if with && twice {
                    table = table.field("BCC", Value::Bool(true));
                }
                table.build()
            };
            let (with, without) = (build(true), build(false));
            let mut properties = Properties {
                content_type: content_type.as_deref().map(str::as_bytes),
                content_encoding: content_encoding.as_deref().map(str::as_bytes),
                message_id: message_id.as_deref().map(str::as_bytes),
                headers: Some(with.as_bytes()),
                ..Properties::default()
            };
            let stripped = strip_bcc(&written(&properties));
            properties.headers = Some(without.as_bytes());
            prop_assert_eq!(stripped, Some(written(&properties)));
        }

        #[test]
        fn any_bytes_are_stripped_or_left(bytes in prop::collection::vec(any::<u8>(), 0..99)) {
            if let Some(stripped) = strip_bcc(&bytes) {
                prop_assert!(Properties::parse(&stripped).is_ok());
            }
        }
    }
}
