//! One property, and properties under construction.

use menzil_model::wire::Writer;

use super::id::{Kind, Place, PropertyId};
use super::{Properties, check};
use crate::codec::encode::put_field;
use crate::codec::text::TextPolicy;
use crate::codec::violation::Rule;

/// One property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Property<'a> {
    /// A byte that is 0 or 1.
    Flag(PropertyId, bool),
    /// Two bytes.
    Short(PropertyId, u16),
    /// Four bytes.
    Long(PropertyId, u32),
    /// A variable byte integer, at most 268,435,455.
    Variable(PropertyId, u32),
    /// UTF-8.
    Text(PropertyId, &'a [u8]),
    /// Any bytes.
    Binary(PropertyId, &'a [u8]),
    /// A user property.
    User {
        /// UTF-8.
        name: &'a [u8],
        /// UTF-8.
        value: &'a [u8],
    },
}

impl Property<'_> {
    /// Its identifier.
    #[inline]
    pub fn id(&self) -> PropertyId {
        match *self {
            Self::Flag(id, _)
            | Self::Short(id, _)
            | Self::Long(id, _)
            | Self::Variable(id, _)
            | Self::Text(id, _)
            | Self::Binary(id, _) => id,
            Self::User { .. } => PropertyId::UserProperty,
        }
    }

    /// Appends identifier and value. What is past 65,535 bytes of a string is cut.
    pub fn write(&self, out: &mut Vec<u8>) {
        debug_assert_eq!(self.kind(), self.id().kind(), "{:?}", self.id());
        out.put_u8(self.id() as u8);
        match *self {
            Self::Flag(_, value) => out.put_u8(u8::from(value)),
            Self::Short(_, value) => out.put_u16(value),
            Self::Long(_, value) => out.put_u32(value),
            Self::Variable(_, value) => out.put_varint(u64::from(value)),
            Self::Text(_, bytes) | Self::Binary(_, bytes) => put_field(out, bytes),
            Self::User { name, value } => {
                put_field(out, name);
                put_field(out, value);
            }
        }
    }

    fn kind(&self) -> Kind {
        match self {
            Self::Flag(..) => Kind::Flag,
            Self::Short(..) => Kind::Short,
            Self::Long(..) => Kind::Long,
            Self::Variable(..) => Kind::Variable,
            Self::Text(..) => Kind::Text,
            Self::Binary(..) => Kind::Binary,
            Self::User { .. } => Kind::Pair,
        }
    }
}

/// Properties that are being put together for a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PropertyList {
    bytes: Vec<u8>,
    seen: u64,
}

impl PropertyList {
    /// Appends one.
    pub fn push(&mut self, property: Property<'_>) -> &mut Self {
        property.write(&mut self.bytes);
        self.seen |= property.id().bit();
        self
    }

    /// Removes all and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.seen = 0;
    }

    /// As a packet takes them. The caller has seen to it that they may stand there;
    /// [`PropertyList::check`] makes sure.
    #[inline]
    pub fn as_properties(&self) -> Properties<'_> {
        Properties {
            bytes: &self.bytes,
            seen: self.seen,
        }
    }

    /// The same, for what others have written.
    ///
    /// # Errors
    /// As in a packet that came.
    pub fn check(&self, place: Place, policy: TextPolicy) -> Result<Properties<'_>, Rule> {
        check(&self.bytes, place, policy)
    }
}
