//! The property list of a `basic` content header (AMQP 0-9-1 §4.2.6.1, class 60), read in
//! place. Stored messages keep these bytes as they came, whatever protocol wrote them.

use crate::table::{Fields, TableError, check_table};
use crate::wire::{Reader, Truncated, Writer};

/// Why bytes are not a property list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PropertiesError {
    /// A value runs past the end.
    Truncated,
    /// Bytes are left over after the last property.
    Trailing,
    /// The continuation bit, or a flag of no `basic` property, is set.
    UnknownFlag,
    /// The headers table does not read.
    Headers(TableError),
}

impl From<Truncated> for PropertiesError {
    fn from(_: Truncated) -> Self {
        Self::Truncated
    }
}

/// The properties of one message, borrowed from its bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Properties<'a> {
    /// MIME type.
    pub content_type: Option<&'a [u8]>,
    /// MIME encoding.
    pub content_encoding: Option<&'a [u8]>,
    /// Content of the headers table, checked.
    pub headers: Option<&'a [u8]>,
    /// 2 is persistent, anything else transient.
    pub delivery_mode: Option<u8>,
    /// 0 to 255.
    pub priority: Option<u8>,
    /// Application correlation.
    pub correlation_id: Option<&'a [u8]>,
    /// Where to answer.
    pub reply_to: Option<&'a [u8]>,
    /// Time to live in ms as text.
    pub expiration: Option<&'a [u8]>,
    /// Application id of the message.
    pub message_id: Option<&'a [u8]>,
    /// Seconds since 1970.
    pub timestamp: Option<u64>,
    /// Application type.
    pub kind: Option<&'a [u8]>,
    /// Creating user.
    pub user_id: Option<&'a [u8]>,
    /// Creating application.
    pub app_id: Option<&'a [u8]>,
    /// Deprecated.
    pub cluster_id: Option<&'a [u8]>,
}

const FLAGS_UNKNOWN: u16 = 0b11;

impl<'a> Properties<'a> {
    /// Reads flags and list; checks all of it.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, PropertiesError> {
        let mut reader = Reader::new(bytes);
        let flags = reader.u16()?;
        if flags & FLAGS_UNKNOWN != 0 {
            return Err(PropertiesError::UnknownFlag);
        }
        let has = |bit: u16| flags & (1 << bit) != 0;
        let mut read = Self::default();
        if has(15) {
            read.content_type = Some(reader.short_string()?);
        }
        if has(14) {
            read.content_encoding = Some(reader.short_string()?);
        }
        if has(13) {
            let headers = reader.long_string()?;
            check_table(headers, 0).map_err(PropertiesError::Headers)?;
            read.headers = Some(headers);
        }
        if has(12) {
            read.delivery_mode = Some(reader.u8()?);
        }
        if has(11) {
            read.priority = Some(reader.u8()?);
        }
        if has(10) {
            read.correlation_id = Some(reader.short_string()?);
        }
        if has(9) {
            read.reply_to = Some(reader.short_string()?);
        }
        if has(8) {
            read.expiration = Some(reader.short_string()?);
        }
        if has(7) {
            read.message_id = Some(reader.short_string()?);
        }
        if has(6) {
            read.timestamp = Some(reader.u64()?);
        }
        if has(5) {
            read.kind = Some(reader.short_string()?);
        }
        if has(4) {
            read.user_id = Some(reader.short_string()?);
        }
        if has(3) {
            read.app_id = Some(reader.short_string()?);
        }
        if has(2) {
            read.cluster_id = Some(reader.short_string()?);
        }
        if reader.is_empty() {
            Ok(read)
        } else {
            Err(PropertiesError::Trailing)
        }
    }

    /// True for delivery mode 2.
    pub fn is_persistent(&self) -> bool {
        self.delivery_mode == Some(2)
    }

    /// The header fields, none where the property is absent.
    pub fn header_fields(&self) -> Fields<'a> {
        Fields::of(self.headers.unwrap_or_default())
    }

    /// Flags and list as bytes again.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut flags = 0_u16;
        let mut set = |bit: u16, present: bool| flags |= u16::from(present) << bit;
        set(15, self.content_type.is_some());
        set(14, self.content_encoding.is_some());
        set(13, self.headers.is_some());
        set(12, self.delivery_mode.is_some());
        set(11, self.priority.is_some());
        set(10, self.correlation_id.is_some());
        set(9, self.reply_to.is_some());
        set(8, self.expiration.is_some());
        set(7, self.message_id.is_some());
        set(6, self.timestamp.is_some());
        set(5, self.kind.is_some());
        set(4, self.user_id.is_some());
        set(3, self.app_id.is_some());
        set(2, self.cluster_id.is_some());
        out.put_u16(flags);
        let short = |out: &mut Vec<u8>, value: Option<&[u8]>| {
            if let Some(value) = value {
                out.put_short_string(value);
            }
        };
        short(out, self.content_type);
        short(out, self.content_encoding);
        if let Some(headers) = self.headers {
            out.put_long_string(headers);
        }
        if let Some(mode) = self.delivery_mode {
            out.put_u8(mode);
        }
        if let Some(priority) = self.priority {
            out.put_u8(priority);
        }
        short(out, self.correlation_id);
        short(out, self.reply_to);
        short(out, self.expiration);
        short(out, self.message_id);
        if let Some(timestamp) = self.timestamp {
            out.put_u64(timestamp);
        }
        short(out, self.kind);
        short(out, self.user_id);
        short(out, self.app_id);
        short(out, self.cluster_id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_properties_or_an_error(
            bytes in prop::collection::vec(any::<u8>(), 0..120)
        ) {
            if let Ok(properties) = Properties::parse(&bytes) {
                let mut written = Vec::new();
                properties.write(&mut written);
                prop_assert_eq!(written, bytes);
            }
        }
    }

    #[test]
    fn a_full_list_comes_back() {
        let text: &[u8] = b"text";
        let properties = Properties {
            content_type: Some(text),
            content_encoding: Some(text),
            headers: Some(b"\x01kV"),
            delivery_mode: Some(2),
            priority: Some(9),
            correlation_id: Some(text),
            reply_to: Some(text),
            expiration: Some(b"100"),
            message_id: Some(text),
            timestamp: Some(1),
            kind: Some(text),
            user_id: Some(text),
            app_id: Some(text),
            cluster_id: Some(text),
        };
        let mut written = Vec::new();
        properties.write(&mut written);
        let read = Properties::parse(&written).unwrap();
        let mut again = Vec::new();
        read.write(&mut again);
        assert_eq!(written, again);
        assert!(read.is_persistent());
        assert_eq!(read.header_fields().count(), 1);
    }
}
