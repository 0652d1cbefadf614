//! A PUBLISH up to its payload, kept for the next one to the same client, which mostly differs in
//! three places.
//!
//! ```text
//! │ type, DUP, QoS, RETAIN │ length │ topic name │ packet identifier │ properties │ payload │
//!   ^^^^^^^^^^^^^^^^^^^^^^   ^^^^^^                ^^^^^^^^^^^^^^^^^                  ^^^^^^^
//! ```

use menzil_core::{Copy, CopyContent};
use menzil_model::wire::Writer;

use super::aliases::{Alias, Aliases};
use crate::codec::{Property, PropertyId, Version};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Template {
    /// As in [`CopyContent::Passing`].
    number: u64,
    topic: Vec<u8>,
    forwarded: Vec<u8>,
    ids: Vec<u32>,
    expiry: Option<u32>,
    has_packet_id: bool,
    /// Topic name, a place for the packet identifier, properties with their length.
    head: Vec<u8>,
    id_at: usize,
    /// The head sets an alias, and is not to be sent twice.
    sets_alias: bool,
}

impl Template {
    /// Makes it the copy's.
    #[inline]
    pub(super) fn prepare(
        &mut self,
        copy: &Copy<'_>,
        version: Version,
        aliases: Option<&mut Aliases>,
    ) {
        if !self.is_for(copy) {
            self.restart(copy, version, aliases);
        }
    }

    #[inline]
    fn is_for(&mut self, copy: &Copy<'_>) -> bool {
        if self.head.is_empty()
            || self.sets_alias
            || self.has_packet_id != (copy.qos > 0)
            || self.expiry != copy.expiry
            || self.ids != copy.ids
        {
            return false;
        }
        let number = match copy.content {
            CopyContent::Passing { envelope, .. } => envelope,
            CopyContent::Stored(_) => 0,
        };
        if number == self.number && number != 0 {
            return true;
        }
        let notes = copy.notes();
        let is_same = self.topic == notes.topic && self.forwarded == notes.properties;
        if is_same {
            self.number = number;
        }
        is_same
    }

    fn restart(&mut self, copy: &Copy<'_>, version: Version, aliases: Option<&mut Aliases>) {
        let notes = copy.notes();
        let replace = |place: &mut Vec<u8>, bytes: &[u8]| {
            place.clear();
            place.extend_from_slice(bytes);
        };
        replace(&mut self.topic, notes.topic);
        replace(&mut self.forwarded, notes.properties);
        self.ids.clear();
        self.ids.extend_from_slice(copy.ids);
        self.expiry = copy.expiry;
        self.has_packet_id = copy.qos > 0;
        self.number = match copy.content {
            CopyContent::Passing { envelope, .. } => envelope,
            CopyContent::Stored(_) => 0,
        };
        self.fill(version, aliases.and_then(|aliases| aliases.of(notes.topic)));
    }

    fn fill(&mut self, version: Version, alias: Option<Alias>) {
        let (topic, alias, sets) = match alias {
            None => (self.topic.as_slice(), None, false),
            Some(Alias::New(number)) => (self.topic.as_slice(), Some(number), true),
            Some(Alias::Known(number)) => (&[][..], Some(number), false),
        };
        self.sets_alias = sets;
        let head = &mut self.head;
        head.clear();
        put_field(head, topic);
        self.id_at = head.len();
        if self.has_packet_id {
            head.put_u16(0);
        }
        if !version.is_5() {
            return;
        }
        let mut own = Vec::new();
        for id in &self.ids {
            Property::Variable(PropertyId::SubscriptionIdentifier, *id).write(&mut own);
        }
        let forwarded_at = own.len();
        if let Some(expiry) = self.expiry {
            Property::Long(PropertyId::MessageExpiryInterval, expiry).write(&mut own);
        }
        if let Some(alias) = alias {
            Property::Short(PropertyId::TopicAlias, alias).write(&mut own);
        }
        let (before, behind) = own.split_at(forwarded_at);
        head.put_varint((own.len() + self.forwarded.len()) as u64);
        for part in [before, &self.forwarded, behind] {
            head.put(part);
        }
    }

    /// Bytes of the whole packet with so large a payload.
    #[inline]
    pub(super) fn packet_bytes(&self, payload_bytes: usize) -> usize {
        let remaining = self.head.len() + payload_bytes;
        let length = match remaining {
            0..0x80 => 1,
            0x80..0x4000 => 2,
            0x4000..0x20_0000 => 3,
            _ => 4,
        };
        1 + length + remaining
    }

    /// Appends all but the payload.
    #[inline]
    pub(super) fn write(&mut self, copy: &Copy<'_>, payload_bytes: usize, out: &mut Vec<u8>) {
        if self.has_packet_id
            && let Some(place) = self.head.get_mut(self.id_at..self.id_at + 2)
        {
            place.copy_from_slice(&copy.packet_id.to_be_bytes());
        }
        let dup = copy.dup && copy.qos > 0;
        let first = PUBLISH | u8::from(dup) << 3 | copy.qos << 1 | u8::from(copy.retain);
        out.put_u8(first);
        out.put_varint((self.head.len() + payload_bytes) as u64);
        out.put(&self.head);
    }

    /// What was prepared is not sent: an alias that it sets is not set.
    pub(super) fn drop_unsent(&mut self, aliases: Option<&mut Aliases>) {
        if self.sets_alias
            && let Some(aliases) = aliases
        {
            aliases.forget(&self.topic);
        }
    }
}

fn put_field(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
    out.put_u16(length);
    out.put(bytes.get(..usize::from(length)).unwrap_or(bytes));
}

const PUBLISH: u8 = 0x30;
