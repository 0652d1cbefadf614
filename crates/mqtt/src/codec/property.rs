//! Properties (§2.2.2): what 5.0 adds to packets.
//!
//! They are kept as the bytes that came. A check walks them once; whoever needs one walks again.
//! That is cheap, since most packets have none, and it keeps order and duplicates.

mod check;
mod id;
mod list;

use menzil_model::wire::Reader;

use super::header::read_integer;

pub(super) use check::check;
use id::Kind;
pub use id::{Place, PropertyId};
pub use list::{Property, PropertyList};

/// Properties that were checked for their packet. The default is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Properties<'a> {
    bytes: &'a [u8],
    /// A bit for each identifier that is there.
    seen: u64,
}

impl<'a> Properties<'a> {
    /// None.
    pub const EMPTY: Self = Self {
        bytes: &[],
        seen: 0,
    };

    /// As they came, without their length.
    #[inline]
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// True where there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// True where that one is there.
    #[inline]
    pub fn has(&self, id: PropertyId) -> bool {
        self.seen & id.bit() != 0
    }

    /// All, in order, with duplicates.
    #[inline]
    pub fn iter(&self) -> PropertiesIter<'a> {
        PropertiesIter {
            rest: Reader::new(self.bytes),
        }
    }

    /// The first of that identifier.
    pub fn find(&self, id: PropertyId) -> Option<Property<'a>> {
        if !self.has(id) {
            return None;
        }
        self.iter().find(|property| property.id() == id)
    }

    /// The number that the property of that identifier has; 0 or 1 for Booleans. `None` where it is
    /// not there or is no number.
    pub fn number(&self, id: PropertyId) -> Option<u32> {
        match self.find(id)? {
            Property::Flag(_, value) => Some(u32::from(value)),
            Property::Short(_, value) => Some(u32::from(value)),
            Property::Long(_, value) | Property::Variable(_, value) => Some(value),
            Property::Text(..) | Property::Binary(..) | Property::User { .. } => None,
        }
    }

    /// The string or binary data that the property of that identifier has.
    pub fn bytes(&self, id: PropertyId) -> Option<&'a [u8]> {
        match self.find(id)? {
            Property::Text(_, value) | Property::Binary(_, value) => Some(value),
            Property::Flag(..)
            | Property::Short(..)
            | Property::Long(..)
            | Property::Variable(..)
            | Property::User { .. } => None,
        }
    }

    /// Names and values of the user properties, in order, with duplicates.
    pub fn user(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let properties = if self.has(PropertyId::UserProperty) {
            self.iter()
        } else {
            Self::EMPTY.iter()
        };
        properties.filter_map(|property| match property {
            Property::User { name, value } => Some((name, value)),
            Property::Flag(..)
            | Property::Short(..)
            | Property::Long(..)
            | Property::Variable(..)
            | Property::Text(..)
            | Property::Binary(..) => None,
        })
    }

    /// Appends those that a message takes along to its subscribers (§3.3.2.3): not its expiry, which
    /// is written anew, its alias, its subscription identifiers, nor a will's delay.
    pub fn write_forwarded(&self, out: &mut Vec<u8>) {
        if self.seen & STAYS_BEHIND == 0 {
            out.extend_from_slice(self.bytes);
            return;
        }
        for property in self {
            if property.id().bit() & STAYS_BEHIND == 0 {
                property.write(out);
            }
        }
    }
}

impl<'a> IntoIterator for &Properties<'a> {
    type Item = Property<'a>;
    type IntoIter = PropertiesIter<'a>;

    fn into_iter(self) -> PropertiesIter<'a> {
        self.iter()
    }
}

/// See [`Properties::write_forwarded`].
const STAYS_BEHIND: u64 = PropertyId::MessageExpiryInterval.bit()
    | PropertyId::TopicAlias.bit()
    | PropertyId::SubscriptionIdentifier.bit()
    | PropertyId::WillDelayInterval.bit();

/// Walks properties.
#[derive(Clone, Debug)]
pub struct PropertiesIter<'a> {
    rest: Reader<'a>,
}

impl<'a> Iterator for PropertiesIter<'a> {
    type Item = Property<'a>;

    fn next(&mut self) -> Option<Property<'a>> {
        let id = PropertyId::new(read_integer(&mut self.rest).ok()?)?;
        let rest = &mut self.rest;
        Some(match id.kind() {
            Kind::Flag => Property::Flag(id, rest.u8().ok()? != 0),
            Kind::Short => Property::Short(id, rest.u16().ok()?),
            Kind::Long => Property::Long(id, rest.u32().ok()?),
            Kind::Variable => Property::Variable(id, read_integer(rest).ok()?),
            Kind::Text => Property::Text(id, field(rest)?),
            Kind::Binary => Property::Binary(id, field(rest)?),
            Kind::Pair => Property::User {
                name: field(rest)?,
                value: field(rest)?,
            },
        })
    }
}

/// Bytes behind their length (§1.5.4, §1.5.6).
#[inline]
fn field<'a>(reader: &mut Reader<'a>) -> Option<&'a [u8]> {
    let length = reader.u16().ok()?;
    reader.bytes(usize::from(length)).ok()
}
