//! Packets to bytes. Everything is appended to a buffer of the caller's.

use menzil_model::wire::Writer;

use super::connect::{
    CLEAN_START, Connect, PASSWORD, USER_NAME, WILL, WILL_QOS_SHIFT, WILL_RETAIN,
};
use super::header::{PacketType, REMAINING_BYTES_MAX};
use super::packet::{Ack, Auth, ConnAck, Disconnect, Packet, PacketId, SubAck, Version};
use super::property::{Properties, PropertyId, PropertyList};
use super::publish::{Publish, first_byte};
use super::reason::ReasonCode;
use super::subscribe::{Subscribe, Subscription, Unsubscribe};
use super::topic::TopicFilter;

/// The packet would be larger than it may be; nothing was appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oversize {
    /// Bytes of the whole packet; without its fixed header where not even that can say it.
    pub packet_bytes: usize,
}

impl Packet<'_> {
    /// Appends the packet; how many bytes it has. Reason and properties are left out where they say
    /// nothing, and before 5.0.
    ///
    /// # Errors
    /// Longer than a remaining length can say.
    pub fn encode(&self, version: Version, out: &mut Vec<u8>) -> Result<usize, Oversize> {
        match self {
            Self::ConnAck(packet) => packet.encode(version, out),
            Self::Publish(packet) => packet.encode(version, out),
            Self::PubAck(packet) => packet.encode(PacketType::PubAck, version, out),
            Self::PubRec(packet) => packet.encode(PacketType::PubRec, version, out),
            Self::PubRel(packet) => packet.encode(PacketType::PubRel, version, out),
            Self::PubComp(packet) => packet.encode(PacketType::PubComp, version, out),
            Self::Subscribe(packet) => packet.encode(version, out),
            Self::SubAck(packet) => packet.encode(PacketType::SubAck, version, out),
            Self::Unsubscribe(packet) => packet.encode(version, out),
            Self::UnsubAck(packet) => packet.encode(PacketType::UnsubAck, version, out),
            Self::PingReq => Ok(put_empty(PacketType::PingReq, out)),
            Self::PingResp => Ok(put_empty(PacketType::PingResp, out)),
            Self::Disconnect(packet) => packet.encode(version, out),
            Self::Auth(packet) => packet.encode(out),
        }
    }

    /// The same within the receiver's Maximum Packet Size (§3.1.2.11.4): a reason string and user
    /// properties are left out where they alone make it too large (MQTT-3.2.2-19 and its like).
    ///
    /// # Errors
    /// It is too large without them too. A PUBLISH is never changed.
    pub fn encode_within(
        &self,
        version: Version,
        packet_bytes_max: u32,
        out: &mut Vec<u8>,
    ) -> Result<usize, Oversize> {
        let start = out.len();
        let packet_bytes = self.encode(version, out)?;
        if packet_bytes <= packet_bytes_max as usize {
            return Ok(packet_bytes);
        }
        out.truncate(start);
        let Some(properties) = self.properties().filter(Properties::is_for_people) else {
            return Err(Oversize { packet_bytes });
        };
        let kept = properties.without_what_is_for_people();
        self.with_properties(kept.as_properties())
            .encode_within(version, packet_bytes_max, out)
    }

    /// Those of packets that answer.
    fn properties(&self) -> Option<Properties<'_>> {
        match self {
            Self::ConnAck(of) => Some(of.properties),
            Self::PubAck(of) | Self::PubRec(of) | Self::PubRel(of) | Self::PubComp(of) => {
                Some(of.properties)
            }
            Self::SubAck(of) | Self::UnsubAck(of) => Some(of.properties),
            Self::Disconnect(of) => Some(of.properties),
            Self::Auth(of) => Some(of.properties),
            Self::Publish(_)
            | Self::Subscribe(_)
            | Self::Unsubscribe(_)
            | Self::PingReq
            | Self::PingResp => None,
        }
    }

    fn with_properties<'a>(&'a self, properties: Properties<'a>) -> Packet<'a> {
        let mut packet: Packet<'a> = self.clone();
        match &mut packet {
            Packet::ConnAck(of) => of.properties = properties,
            Packet::PubAck(of) | Packet::PubRec(of) | Packet::PubRel(of) | Packet::PubComp(of) => {
                of.properties = properties;
            }
            Packet::SubAck(of) | Packet::UnsubAck(of) => of.properties = properties,
            Packet::Disconnect(of) => of.properties = properties,
            Packet::Auth(of) => of.properties = properties,
            Packet::Publish(_)
            | Packet::Subscribe(_)
            | Packet::Unsubscribe(_)
            | Packet::PingReq
            | Packet::PingResp => {}
        }
        packet
    }
}

impl Properties<'_> {
    fn is_for_people(&self) -> bool {
        self.has(PropertyId::ReasonString) || self.has(PropertyId::UserProperty)
    }

    fn without_what_is_for_people(&self) -> PropertyList {
        let mut kept = PropertyList::default();
        for property in self {
            if !matches!(
                property.id(),
                PropertyId::ReasonString | PropertyId::UserProperty
            ) {
                kept.push(property);
            }
        }
        kept
    }
}

impl Connect<'_> {
    /// Appends the packet; how many bytes it has.
    ///
    /// # Errors
    /// Longer than a remaining length can say.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<usize, Oversize> {
        put_packet(out, PacketType::Connect.first_byte(), |out| {
            put_field(out, self.version.protocol_name());
            out.put_u8(self.version.level());
            out.put_u8(self.flags());
            out.put_u16(self.keep_alive_s);
            put_properties(out, self.version, &self.properties);
            put_field(out, self.client_id);
            if let Some(will) = &self.will {
                put_properties(out, self.version, &will.properties);
                put_field(out, will.topic.as_bytes());
                put_field(out, will.payload);
            }
            for credential in [self.user_name, self.password].into_iter().flatten() {
                put_field(out, credential);
            }
        })
    }

    fn flags(&self) -> u8 {
        let bit = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        let will = self.will.as_ref().map_or(0, |will| {
            WILL | bit(will.retain, WILL_RETAIN) | will.qos.number() << WILL_QOS_SHIFT
        });
        bit(self.clean_start, CLEAN_START)
            | will
            | bit(self.user_name.is_some(), USER_NAME)
            | bit(self.password.is_some(), PASSWORD)
    }
}

impl ConnAck<'_> {
    /// Appends the packet; how many bytes it has.
    ///
    /// # Errors
    /// Longer than a remaining length can say.
    pub fn encode(&self, version: Version, out: &mut Vec<u8>) -> Result<usize, Oversize> {
        put_packet(out, PacketType::ConnAck.first_byte(), |out| {
            out.put_u8(u8::from(self.is_session_present));
            out.put_u8(self.code);
            put_properties(out, version, &self.properties);
        })
    }
}

impl Publish<'_> {
    /// Appends the packet with its payload; how many bytes it has.
    ///
    /// # Errors
    /// Longer than a remaining length can say.
    pub fn encode(&self, version: Version, out: &mut Vec<u8>) -> Result<usize, Oversize> {
        debug_assert_eq!(self.packet_id.is_some(), self.qos.number() > 0);
        let properties = self.properties.as_bytes();
        let start = out.len();
        put_publish_head(
            out,
            first_byte(self.dup, self.qos, self.retain),
            PublishParts {
                version,
                topic: self.topic.as_bytes(),
                packet_id: self.packet_id,
                properties: &[properties],
                payload_bytes: self.payload.len(),
            },
        )?;
        out.put(self.payload);
        Ok(out.len() - start)
    }
}

/// What the head of a PUBLISH is made of.
#[derive(Clone, Copy)]
pub(super) struct PublishParts<'a> {
    pub(super) version: Version,
    pub(super) topic: &'a [u8],
    pub(super) packet_id: Option<PacketId>,
    pub(super) properties: &'a [&'a [u8]],
    pub(super) payload_bytes: usize,
}

/// Appends all up to the payload, with room for that; where the packet identifier would stand.
pub(super) fn put_publish_head(
    out: &mut Vec<u8>,
    first: u8,
    parts: PublishParts<'_>,
) -> Result<usize, Oversize> {
    let properties_bytes: usize = if parts.version.is_5() {
        parts.properties.iter().map(|part| part.len()).sum()
    } else {
        0
    };
    let mut body_bytes = 2 + parts.topic.len() + parts.payload_bytes;
    if parts.packet_id.is_some() {
        body_bytes += 2;
    }
    if parts.version.is_5() {
        body_bytes += integer_bytes(properties_bytes) + properties_bytes;
    }
    if body_bytes > REMAINING_BYTES_MAX as usize {
        return Err(Oversize {
            packet_bytes: body_bytes,
        });
    }
    out.reserve(1 + 4 + body_bytes);
    out.put_u8(first);
    out.put_varint(body_bytes as u64);
    put_field(out, parts.topic);
    let id_at = out.len();
    if let Some(packet_id) = parts.packet_id {
        out.put_u16(packet_id.number());
    }
    if parts.version.is_5() {
        out.put_varint(properties_bytes as u64);
        for part in parts.properties {
            out.put(part);
        }
    }
    Ok(id_at)
}

impl Ack<'_> {
    /// Appends it as a packet of that type; how many bytes it has.
    ///
    /// # Errors
    /// Longer than a remaining length can say.
    #[inline]
    pub fn encode(
        &self,
        packet: PacketType,
        version: Version,
        out: &mut Vec<u8>,
    ) -> Result<usize, Oversize> {
        let is_short = self.reason == ReasonCode::Success && self.properties.is_empty();
        if is_short || !version.is_5() {
            let [high, low] = self.packet_id.number().to_be_bytes();
            out.put(&[packet.first_byte(), 2, high, low]);
            return Ok(4);
        }
        put_packet(out, packet.first_byte(), |out| {
            out.put_u16(self.packet_id.number());
            out.put_u8(self.reason.number());
            if !self.properties.is_empty() {
                put_properties(out, version, &self.properties);
            }
        })
    }
}

impl SubAck<'_> {
    /// Appends it as a packet of that type; how many bytes it has.
    ///
    /// # Errors
    /// Longer than a remaining length can say.
    pub fn encode(
        &self,
        packet: PacketType,
        version: Version,
        out: &mut Vec<u8>,
    ) -> Result<usize, Oversize> {
        put_packet(out, packet.first_byte(), |out| {
            out.put_u16(self.packet_id.number());
            put_properties(out, version, &self.properties);
            if version.is_5() || packet == PacketType::SubAck {
                out.put(self.codes);
            }
        })
    }
}

impl Subscribe<'_> {
    /// Appends the packet; how many bytes it has.
    ///
    /// # Errors
    /// Longer than a remaining length can say.
    pub fn encode(&self, version: Version, out: &mut Vec<u8>) -> Result<usize, Oversize> {
        let all = self.subscriptions.iter();
        subscribe(self.packet_id, &self.properties, all, version, out)
    }
}

/// Appends a SUBSCRIBE; how many bytes it has.
///
/// # Errors
/// Longer than a remaining length can say.
pub fn subscribe<'a>(
    packet_id: PacketId,
    properties: &Properties<'_>,
    subscriptions: impl IntoIterator<Item = Subscription<'a>>,
    version: Version,
    out: &mut Vec<u8>,
) -> Result<usize, Oversize> {
    put_packet(out, PacketType::Subscribe.first_byte(), |out| {
        out.put_u16(packet_id.number());
        put_properties(out, version, properties);
        for subscription in subscriptions {
            subscription.write(version, out);
        }
    })
}

impl Unsubscribe<'_> {
    /// Appends the packet; how many bytes it has.
    ///
    /// # Errors
    /// Longer than a remaining length can say.
    pub fn encode(&self, version: Version, out: &mut Vec<u8>) -> Result<usize, Oversize> {
        let all = self.filters.iter();
        unsubscribe(self.packet_id, &self.properties, all, version, out)
    }
}

/// Appends an UNSUBSCRIBE; how many bytes it has.
///
/// # Errors
/// Longer than a remaining length can say.
pub fn unsubscribe<'a>(
    packet_id: PacketId,
    properties: &Properties<'_>,
    filters: impl IntoIterator<Item = TopicFilter<'a>>,
    version: Version,
    out: &mut Vec<u8>,
) -> Result<usize, Oversize> {
    put_packet(out, PacketType::Unsubscribe.first_byte(), |out| {
        out.put_u16(packet_id.number());
        put_properties(out, version, properties);
        for filter in filters {
            put_field(out, filter.as_bytes());
        }
    })
}

impl Disconnect<'_> {
    /// Appends the packet; how many bytes it has.
    ///
    /// # Errors
    /// Longer than a remaining length can say.
    pub fn encode(&self, version: Version, out: &mut Vec<u8>) -> Result<usize, Oversize> {
        let is_short = self.reason == ReasonCode::Success && self.properties.is_empty();
        if is_short || !version.is_5() {
            return Ok(put_empty(PacketType::Disconnect, out));
        }
        put_packet(out, PacketType::Disconnect.first_byte(), |out| {
            out.put_u8(self.reason.number());
            if !self.properties.is_empty() {
                put_properties(out, version, &self.properties);
            }
        })
    }
}

impl Auth<'_> {
    /// Appends the packet, which 5.0 alone has; how many bytes it has.
    ///
    /// # Errors
    /// Longer than a remaining length can say.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<usize, Oversize> {
        put_packet(out, PacketType::Auth.first_byte(), |out| {
            out.put_u8(self.reason.number());
            put_properties(out, Version::V5, &self.properties);
        })
    }
}

fn put_empty(packet: PacketType, out: &mut Vec<u8>) -> usize {
    out.put(&[packet.first_byte(), 0]);
    2
}

/// Appends a packet whose body `write` appends. The length takes one byte mostly; where it takes
/// more, the body makes room.
fn put_packet(
    out: &mut Vec<u8>,
    first: u8,
    write: impl FnOnce(&mut Vec<u8>),
) -> Result<usize, Oversize> {
    let start = out.len();
    out.put(&[first, 0]);
    let body = out.len();
    write(out);
    let body_bytes = out.len() - body;
    let mut length = Vec::new();
    match u8::try_from(body_bytes) {
        Ok(short) if short < 0x80 => {
            if let Some(place) = out.get_mut(body - 1) {
                *place = short;
            }
        }
        _ if body_bytes > REMAINING_BYTES_MAX as usize => {
            out.truncate(start);
            return Err(Oversize {
                packet_bytes: body_bytes,
            });
        }
        _ => {
            length.put_varint(body_bytes as u64);
            out.splice(body - 1..body, length);
        }
    }
    Ok(out.len() - start)
}

/// Appends properties behind their length; nothing before 5.0.
fn put_properties(out: &mut Vec<u8>, version: Version, properties: &Properties<'_>) {
    if version.is_5() {
        out.put_varint(properties.as_bytes().len() as u64);
        out.put(properties.as_bytes());
    }
}

/// Appends bytes behind their length; what is past 65,535 is cut.
#[inline]
pub(super) fn put_field(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
    out.put_u16(length);
    out.put(bytes.get(..usize::from(length)).unwrap_or(bytes));
}

/// Bytes of a variable byte integer.
#[inline]
pub(super) fn integer_bytes(value: usize) -> usize {
    match value {
        0..0x80 => 1,
        0x80..0x4000 => 2,
        0x4000..0x20_0000 => 3,
        _ => 4,
    }
}
