//! What is common to all methods: their numbers, who may send them, why one does not read.

use std::fmt;

use menzil_model::TableError;
use menzil_model::table::check_table;
use menzil_model::wire::{Reader, Truncated, Writer};

/// Class and method number; 0, 0 where an error is about none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct MethodId {
    /// The class.
    pub class: u16,
    /// The method within it.
    pub method: u16,
}

impl MethodId {
    /// No method.
    pub const NONE: Self = Self {
        class: 0,
        method: 0,
    };

    /// Appends both numbers.
    pub fn write(self, out: &mut Vec<u8>) {
        out.put_u16(self.class);
        out.put_u16(self.method);
    }

    /// What is known of the method, `None` where nobody defines it.
    pub fn description(self) -> Option<&'static Description> {
        crate::methods::METHODS
            .iter()
            .find(|known| known.id == self)
    }
}

impl fmt::Display for MethodId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.description() {
            Some(known) => f.write_str(known.name),
            None => write!(f, "{}.{}", self.class, self.method),
        }
    }
}

/// Who sends a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// Only clients.
    Client,
    /// Only servers.
    Server,
    /// Both.
    Both,
}

/// What is known of a method besides its fields.
#[derive(Clone, Copy, Debug)]
pub struct Description {
    /// Class and method number.
    pub id: MethodId,
    /// Such as `basic.get-ok`.
    pub name: &'static str,
    /// Who sends it.
    pub sender: Sender,
    /// The peer owes an answer.
    pub synchronous: bool,
    /// A content header and a body follow.
    pub content: bool,
}

/// Why bytes are not a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MethodError {
    /// Nobody defines that class and method.
    Unknown,
    /// A field runs past the end.
    Truncated,
    /// Bytes are left over after the last field.
    Trailing,
    /// A name is not UTF-8.
    NotUtf8,
    /// A field table does not read.
    Table(TableError),
}

impl From<Truncated> for MethodError {
    fn from(_: Truncated) -> Self {
        Self::Truncated
    }
}

impl fmt::Display for MethodError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("unknown method"),
            Self::Truncated => f.write_str("a field runs past the end of the frame"),
            Self::Trailing => f.write_str("bytes are left over after the last field"),
            Self::NotUtf8 => f.write_str("Malformed UTF-8 in shortstr"),
            Self::Table(TableError::Truncated) => {
                f.write_str("a field table runs past its own end")
            }
            Self::Table(TableError::UnknownType(octet)) => {
                write!(f, "a field table holds the unknown type octet {octet}")
            }
            Self::Table(TableError::TooDeep) => {
                f.write_str("a field table nests more than 64 levels deep")
            }
        }
    }
}

/// A short string that must be UTF-8, as RabbitMQ checks in all but the content methods.
pub(crate) fn text<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], MethodError> {
    let bytes = reader.short_string()?;
    match std::str::from_utf8(bytes) {
        Ok(_) => Ok(bytes),
        Err(_) => Err(MethodError::NotUtf8),
    }
}

/// The content of a field table that reads.
pub(crate) fn table<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], MethodError> {
    let content = reader.long_string()?;
    check_table(content, 0).map_err(MethodError::Table)?;
    Ok(content)
}
