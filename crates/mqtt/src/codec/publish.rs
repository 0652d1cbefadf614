//! PUBLISH (§3.3).
//!
//! ```text
//! type, DUP, QoS, RETAIN │ length │ topic name │ [packet identifier] │ [properties] │ payload
//! ```

use menzil_model::wire::Reader;

use super::decode::{
    Decoded, Rules, check_length, header_bytes_needed, read_field, read_packet_id, read_properties,
    violation,
};
use super::header::{FixedHeader, NoInteger, PacketType, fixed_header, integer};
use super::packet::{PacketId, Version};
use super::property::{Properties, PropertyId};
use super::topic::TopicName;
use super::violation::{Rule, Violation};

/// Quality of service (§4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Qos {
    /// At most once.
    AtMostOnce = 0,
    /// At least once.
    AtLeastOnce = 1,
    /// Exactly once.
    ExactlyOnce = 2,
}

impl Qos {
    /// `None` over 2.
    #[inline]
    pub fn new(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::AtMostOnce),
            1 => Some(Self::AtLeastOnce),
            2 => Some(Self::ExactlyOnce),
            _ => None,
        }
    }

    /// The number on the wire.
    #[inline]
    pub fn number(self) -> u8 {
        self as u8
    }
}

/// A message on its way in either direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Publish<'a> {
    /// It was sent before (§3.3.1.1).
    pub dup: bool,
    /// §3.3.1.2.
    pub qos: Qos,
    /// §3.3.1.3.
    pub retain: bool,
    /// In 5.0 it may be [`TopicName::ALIASED`]; then there is a topic alias.
    pub topic: TopicName<'a>,
    /// There for QoS 1 and 2 alone.
    pub packet_id: Option<PacketId>,
    /// Empty before 5.0. A client may not name a subscription here (MQTT-3.3.4-6); since common
    /// brokers let it, one is let pass and is the session's to judge.
    pub properties: Properties<'a>,
    /// Any bytes.
    pub payload: &'a [u8],
}

/// A PUBLISH whose payload has not all come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishStart<'a> {
    /// With the payload's bytes that are there.
    pub publish: Publish<'a>,
    /// Bytes of the whole payload.
    pub payload_bytes: usize,
}

const DUP: u8 = 0b1000;
const RETAIN: u8 = 0b0001;

/// First byte of a PUBLISH.
#[inline]
pub(super) fn first_byte(dup: bool, qos: Qos, retain: bool) -> u8 {
    let dup = if dup { DUP } else { 0 };
    (PacketType::Publish as u8) << 4 | dup | qos.number() << 1 | u8::from(retain)
}

/// What the first byte says.
#[derive(Clone, Copy)]
pub(super) struct PublishFlags {
    dup: bool,
    qos: Qos,
    retain: bool,
}

impl PublishFlags {
    /// 3.1 has no rule for DUP.
    #[inline]
    pub(super) fn read(first: u8, version: Version) -> Result<Self, Rule> {
        let qos = Qos::new(first >> 1 & 0b11).ok_or(Rule::PublishQos)?;
        let dup = first & DUP != 0;
        if dup && qos == Qos::AtMostOnce && version != Version::V3_1 {
            return Err(Rule::DupOfQos0);
        }
        let retain = first & RETAIN != 0;
        Ok(Self { dup, qos, retain })
    }
}

/// What follows the fixed header.
#[inline]
pub(super) fn read_publish<'a>(
    flags: PublishFlags,
    reader: &mut Reader<'a>,
    version: Version,
    rules: &Rules,
) -> Result<Publish<'a>, Rule> {
    let PublishFlags { dup, qos, retain } = flags;
    let topic = read_field(reader)?;
    let packet_id = match qos {
        Qos::AtMostOnce => None,
        Qos::AtLeastOnce | Qos::ExactlyOnce => Some(read_packet_id(reader)?),
    };
    let properties = read_properties(reader, rules.publish_place(), version, rules)?;
    let topic = if topic.is_empty() && properties.has(PropertyId::TopicAlias) {
        TopicName::ALIASED
    } else {
        TopicName::parse(topic, rules.text, rules.topic_levels_max)?
    };
    Ok(Publish {
        dup,
        qos,
        retain,
        topic,
        packet_id,
        properties,
        payload: reader.rest(),
    })
}

/// The head of a PUBLISH at the start of the input, whose payload need not be there: what
/// [`super::decode`] called incomplete need not be waited for. The bytes that it takes are those
/// before the payload. Any other packet is incomplete here.
///
/// # Errors
/// As [`super::decode`].
pub fn decode_publish_start<'a>(
    input: &'a [u8],
    version: Version,
    rules: &Rules,
) -> Result<Decoded<PublishStart<'a>>, Violation> {
    let first = input.first().copied();
    start(input, version, rules).map_err(|rule| violation(rule, first, Some(version)))
}

fn start<'a>(
    input: &'a [u8],
    version: Version,
    rules: &Rules,
) -> Result<Decoded<PublishStart<'a>>, Rule> {
    let Some(header) = fixed_header(input)? else {
        return Ok(Decoded::Incomplete(header_bytes_needed(input)));
    };
    if PacketType::of(header.first) != Some(PacketType::Publish) {
        return Ok(Decoded::Incomplete(header.packet_bytes()));
    }
    let flags = PublishFlags::read(header.first, version)?;
    check_length(&header, version, rules)?;
    let packet = input.get(..header.packet_bytes()).unwrap_or(input);
    let body = packet.get(header.header_bytes..).unwrap_or_default();
    let head_bytes = match head_bytes(body, &header, flags.qos, version) {
        Ok(bytes) => header.header_bytes + bytes,
        // What goes past the end of a whole packet is refused as it is read.
        Err(_) if packet.len() == header.packet_bytes() => packet.len(),
        Err(needed) => {
            let needed = header.header_bytes + needed;
            return Ok(Decoded::Incomplete(needed.min(header.packet_bytes())));
        }
    };
    let mut reader = Reader::new(body);
    let publish = read_publish(flags, &mut reader, version, rules)?;
    let payload_bytes = header.packet_bytes() - head_bytes;
    let start = PublishStart {
        publish,
        payload_bytes,
    };
    Ok(Decoded::Packet(start, head_bytes))
}

/// Bytes between fixed header and payload; how many are needed to know, where they are not there.
fn head_bytes(
    body: &[u8],
    header: &FixedHeader,
    qos: Qos,
    version: Version,
) -> Result<usize, usize> {
    let remaining = header.remaining_bytes as usize;
    let topic_bytes = body.first_chunk::<2>().ok_or(2_usize)?;
    let mut end = 2 + usize::from(u16::from_be_bytes(*topic_bytes));
    if qos != Qos::AtMostOnce {
        end += 2;
    }
    if version.is_5() {
        match integer(body.get(end..).ok_or(end + 1)?) {
            Ok((bytes, length)) if end + length + bytes as usize <= remaining => {
                end += length + bytes as usize;
            }
            Err(NoInteger::Truncated) => return Err(body.len() + 1),
            // Refused as it is read.
            Ok(_) | Err(NoInteger::TooLong | NoInteger::NotMinimal(..)) => return Ok(end),
        }
    }
    if end > body.len() { Err(end) } else { Ok(end) }
}
