//! Short strings: names of exchanges and queues, routing and binding keys, consumer tags.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

/// A short string of AMQP 0-9-1 (§4.2.5.3): at most 255 bytes, any bytes. Cheap to clone.
///
/// Clients choose these, so `Display` escapes what is not printable ASCII or valid UTF-8 text;
/// use [`Name::as_bytes`] for the wire.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<[u8]>);

impl Name {
    /// Most bytes of a short string.
    pub const BYTES_MAX: usize = 255;

    /// The name of these bytes, `None` where they are more than 255.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        (bytes.len() <= Self::BYTES_MAX).then(|| Self(Arc::from(bytes)))
    }

    /// The first 255 bytes as a name: for texts of our own that are known to fit.
    pub fn cut(bytes: &[u8]) -> Self {
        Self(Arc::from(bytes.get(..Self::BYTES_MAX).unwrap_or(bytes)))
    }

    /// The empty name.
    pub fn empty() -> Self {
        Self(Arc::from(&[][..]))
    }

    /// The bytes as on the wire.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether both are clones of one name: true only where they are equal, and cheaper to ask.
    pub fn is_clone_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// True for the empty name.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<&'static str> for Name {
    /// For names written in this program; longer ones are cut at 255 bytes.
    fn from(text: &'static str) -> Self {
        Self::cut(text.as_bytes())
    }
}

impl Borrow<[u8]> for Name {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Name {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Escaped(&self.0).fmt(f)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", Escaped(&self.0))
    }
}

/// Bytes a client chose, made safe for a log line: valid UTF-8 without control characters is
/// shown as it is, everything else as `\xNN`.
pub struct Escaped<'a>(pub &'a [u8]);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for character in chunk.valid().chars() {
                if character.is_control() || character == '\\' {
                    write!(f, "{}", character.escape_default())?;
                } else {
                    write!(f, "{character}")?;
                }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

/// Bytes a client chose as the text that they are, for formats that escape by themselves (JSON);
/// what is not valid UTF-8 has no text and is escaped as [`Escaped`] does.
pub fn text_of(bytes: &[u8]) -> String {
    std::str::from_utf8(bytes).map_or_else(|_| Escaped(bytes).to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_as_it_is_and_bytes_without_text_are_escaped() {
        assert_eq!(text_of(b"a\\d\tb"), "a\\d\tb");
        assert_eq!(text_of(b"a\\\xff"), "a\\\\\\xff");
    }

    #[test]
    fn a_name_has_at_most_255_bytes() {
        assert!(Name::new(&[b'a'; 255]).is_some());
        assert!(Name::new(&[b'a'; 256]).is_none());
    }

    #[test]
    fn client_bytes_cannot_forge_a_log_line() {
        let name = Name::new(b"q\r\n\xffINFO \x1b[2J").unwrap();
        assert_eq!(name.to_string(), "q\\r\\n\\xffINFO \\u{1b}[2J");
    }
}
