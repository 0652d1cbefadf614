//! Bytes to packets.

use menzil_model::wire::Reader;

use super::header::{FixedHeader, PacketType, fixed_header, read_integer};
use super::packet::{Ack, Auth, ConnAck, Disconnect, Packet, PacketId, SubAck, Version};
use super::property::{Place, Properties, check};
use super::publish::{PublishFlags, read_publish};
use super::reason::ReasonCode;
use super::subscribe::{read_subscribe, read_unsubscribe};
use super::text::TextPolicy;
use super::violation::{Rule, Violation};

/// Who sends what is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Peer {
    /// We are the server.
    #[default]
    Client,
    /// We are the client.
    Server,
}

/// What is let pass beyond the standard's own rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Who sends.
    pub peer: Peer,
    /// Bytes of a whole packet, its fixed header with it (§3.2.2.3.6).
    pub packet_bytes_max: u32,
    /// Levels of topic names and filters, the group of a shared subscription aside.
    pub topic_levels_max: u16,
    /// Well-formed text that is refused.
    pub text: TextPolicy,
    /// True from a CONNECT with an authentication method on: AUTH may come.
    pub has_auth: bool,
}

impl Default for Rules {
    /// Packets as large as the wire can say, topics of 200 levels, no AUTH.
    fn default() -> Self {
        Self {
            peer: Peer::Client,
            packet_bytes_max: u32::MAX,
            topic_levels_max: 200,
            text: TextPolicy::Plain,
            has_auth: false,
        }
    }
}

impl Rules {
    /// The place of a PUBLISH's properties.
    #[inline]
    pub(super) fn publish_place(&self) -> Place {
        match self.peer {
            Peer::Client => Place::PublishFromClient,
            Peer::Server => Place::PublishFromServer,
        }
    }
}

/// What the start of the input is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decoded<T> {
    /// What was looked for is there, and takes this many bytes.
    Packet(T, usize),
    /// Not all of it has come: this many bytes from the start are needed before it is worth looking
    /// again. Of a packet, over 5 it is the whole length.
    Incomplete(usize),
}

/// Bytes of the shortest fixed header.
const HEADER_BYTES_MIN: usize = 2;

/// Takes the first packet of the input apart. Any packet but CONNECT, which is refused
/// (MQTT-3.1.0-2); for the first one see [`super::decode_connect`].
///
/// # Errors
/// Whatever one packet can break. What the fixed header says is judged before the rest is there: a
/// packet that is too large is refused by its first bytes.
#[inline]
pub fn decode<'a>(
    input: &'a [u8],
    version: Version,
    rules: &Rules,
) -> Result<Decoded<Packet<'a>>, Violation> {
    let refuse = |rule| violation(rule, input.first().copied(), Some(version));
    let first = input.first().copied().unwrap_or(0);
    if first >> 4 != PacketType::Publish as u8 {
        return decode_other(input, version, rules).map_err(refuse);
    }
    // Written out, so that a PUBLISH is put together once and where the caller wants it.
    let Some(header) = fixed_header(input).map_err(refuse)? else {
        return Ok(Decoded::Incomplete(header_bytes_needed(input)));
    };
    let flags = PublishFlags::read(first, version).map_err(refuse)?;
    check_length(&header, version, rules).map_err(refuse)?;
    let packet_bytes = header.packet_bytes();
    let Some(body) = input.get(header.header_bytes..packet_bytes) else {
        return Ok(Decoded::Incomplete(packet_bytes));
    };
    let publish = read_publish(flags, &mut Reader::new(body), version, rules).map_err(refuse)?;
    Ok(Decoded::Packet(Packet::Publish(publish), packet_bytes))
}

#[inline(never)]
fn decode_other<'a>(
    input: &'a [u8],
    version: Version,
    rules: &Rules,
) -> Result<Decoded<Packet<'a>>, Rule> {
    let Some(header) = fixed_header(input)? else {
        return Ok(Decoded::Incomplete(header_bytes_needed(input)));
    };
    check_first(&header, version, rules)?;
    check_length(&header, version, rules)?;
    let packet_bytes = header.packet_bytes();
    let Some(body) = input.get(header.header_bytes..packet_bytes) else {
        return Ok(Decoded::Incomplete(packet_bytes));
    };
    let packet = read_other(header.first, &mut Reader::new(body), version, rules)?;
    Ok(Decoded::Packet(packet, packet_bytes))
}

/// How many bytes are needed before it is worth looking for a fixed header that is not whole.
pub(super) fn header_bytes_needed(input: &[u8]) -> usize {
    input.len().max(HEADER_BYTES_MIN - 1) + 1
}

/// What the remaining length alone can break.
#[inline]
pub(super) fn check_length(
    header: &FixedHeader,
    version: Version,
    rules: &Rules,
) -> Result<(), Rule> {
    if !header.is_minimal && version.is_5() {
        return Err(Rule::LengthNotMinimal);
    }
    if header.packet_bytes() > rules.packet_bytes_max as usize {
        return Err(Rule::PacketTooLarge);
    }
    Ok(())
}

/// Type, direction and flags. A wrong direction goes before wrong flags, but for SUBACK and
/// UNSUBACK, as in mosquitto. 3.1 uses no flags but a PUBLISH's (3.1 §2.1).
fn check_first(header: &FixedHeader, version: Version, rules: &Rules) -> Result<(), Rule> {
    let packet = PacketType::of(header.first).ok_or(Rule::ReservedType)?;
    if packet == PacketType::Auth {
        if !version.is_5() {
            return Err(Rule::ReservedType);
        }
        if !rules.has_auth {
            return Err(Rule::AuthUnexpected);
        }
    }
    let has_bad_flags = header.first & 0x0F != packet.flags() && version != Version::V3_1;
    let is_of_peer = match rules.peer {
        Peer::Client => is_of_client(packet),
        Peer::Server => is_of_server(packet, version),
    };
    let is_subscribers_ack = matches!(packet, PacketType::SubAck | PacketType::UnsubAck);
    let is_ping = matches!(packet, PacketType::PingReq | PacketType::PingResp);
    if is_ping && header.remaining_bytes > 0 {
        Err(Rule::PingLength)
    } else if packet == PacketType::Connect && is_of_peer {
        Err(Rule::SecondConnect)
    } else if !(is_of_peer || is_subscribers_ack && has_bad_flags) {
        Err(Rule::WrongDirection)
    } else if has_bad_flags {
        Err(Rule::ReservedFlags)
    } else {
        Ok(())
    }
}

fn is_of_client(packet: PacketType) -> bool {
    match packet {
        PacketType::ConnAck | PacketType::SubAck | PacketType::UnsubAck | PacketType::PingResp => {
            false
        }
        PacketType::Connect
        | PacketType::Publish
        | PacketType::PubAck
        | PacketType::PubRec
        | PacketType::PubRel
        | PacketType::PubComp
        | PacketType::Subscribe
        | PacketType::Unsubscribe
        | PacketType::PingReq
        | PacketType::Disconnect
        | PacketType::Auth => true,
    }
}

fn is_of_server(packet: PacketType, version: Version) -> bool {
    match packet {
        PacketType::Connect
        | PacketType::Subscribe
        | PacketType::Unsubscribe
        | PacketType::PingReq => false,
        PacketType::Disconnect => version.is_5(),
        PacketType::ConnAck
        | PacketType::Publish
        | PacketType::PubAck
        | PacketType::PubRec
        | PacketType::PubRel
        | PacketType::PubComp
        | PacketType::SubAck
        | PacketType::UnsubAck
        | PacketType::PingResp
        | PacketType::Auth => true,
    }
}

/// Any packet but CONNECT and PUBLISH, whose fixed header is right.
fn read_other<'a>(
    first: u8,
    reader: &mut Reader<'a>,
    version: Version,
    rules: &Rules,
) -> Result<Packet<'a>, Rule> {
    let kind = PacketType::of(first).ok_or(Rule::ReservedType)?;
    let packet = match kind {
        PacketType::Connect => return Err(Rule::SecondConnect),
        PacketType::ConnAck => Packet::ConnAck(read_conn_ack(reader, version, rules)?),
        PacketType::Publish => {
            let flags = PublishFlags::read(first, version)?;
            Packet::Publish(read_publish(flags, reader, version, rules)?)
        }
        PacketType::PubAck => Packet::PubAck(read_ack(kind, reader, version, rules)?),
        PacketType::PubRec => Packet::PubRec(read_ack(kind, reader, version, rules)?),
        PacketType::PubRel => Packet::PubRel(read_ack(kind, reader, version, rules)?),
        PacketType::PubComp => Packet::PubComp(read_ack(kind, reader, version, rules)?),
        PacketType::Subscribe => Packet::Subscribe(read_subscribe(reader, version, rules)?),
        PacketType::SubAck => Packet::SubAck(read_sub_ack(kind, reader, version, rules)?),
        PacketType::Unsubscribe => Packet::Unsubscribe(read_unsubscribe(reader, version, rules)?),
        PacketType::UnsubAck => Packet::UnsubAck(read_sub_ack(kind, reader, version, rules)?),
        PacketType::PingReq => Packet::PingReq,
        PacketType::PingResp => Packet::PingResp,
        PacketType::Disconnect => Packet::Disconnect(read_disconnect(reader, version, rules)?),
        PacketType::Auth => Packet::Auth(read_auth(reader, rules)?),
    };
    if reader.is_empty() {
        Ok(packet)
    } else {
        Err(Rule::TrailingBytes)
    }
}

/// §3.2.
fn read_conn_ack<'a>(
    reader: &mut Reader<'a>,
    version: Version,
    rules: &Rules,
) -> Result<ConnAck<'a>, Rule> {
    let flags = read_u8(reader)?;
    let code = read_u8(reader)?;
    if flags > 1 {
        return Err(Rule::ConnAckFlags);
    }
    if version.is_5() {
        reason(code, PacketType::ConnAck, rules)?;
    } else if code > 5 {
        return Err(Rule::ReturnCode(code));
    }
    Ok(ConnAck {
        is_session_present: flags == 1,
        code,
        properties: read_properties(reader, Place::ConnAck, version, rules)?,
    })
}

/// §3.4 to §3.7. Reason and properties may be left out where they say nothing.
fn read_ack<'a>(
    packet: PacketType,
    reader: &mut Reader<'a>,
    version: Version,
    rules: &Rules,
) -> Result<Ack<'a>, Rule> {
    let packet_id = read_packet_id(reader)?;
    let mut ack = Ack::success(packet_id);
    if version.is_5() && !reader.is_empty() {
        let code = read_u8(reader)?;
        if !reader.is_empty() {
            ack.properties = read_properties(reader, Place::Ack, version, rules)?;
        }
        ack.reason = reason(code, packet, rules)?;
    }
    Ok(ack)
}

/// §3.9 and §3.11.
fn read_sub_ack<'a>(
    packet: PacketType,
    reader: &mut Reader<'a>,
    version: Version,
    rules: &Rules,
) -> Result<SubAck<'a>, Rule> {
    let packet_id = read_packet_id(reader)?;
    let properties = read_properties(reader, Place::Ack, version, rules)?;
    let has_codes = version.is_5() || packet == PacketType::SubAck;
    let codes = if has_codes {
        let codes = reader.rest();
        read_bytes(reader, codes.len())?
    } else {
        &[]
    };
    if has_codes && codes.is_empty() {
        return Err(Rule::Truncated);
    }
    for &code in codes {
        if version.is_5() {
            reason(code, packet, rules)?;
        } else if !matches!(code, 0..=2 | 0x80) {
            return Err(Rule::ReturnCode(code));
        }
    }
    Ok(SubAck {
        packet_id,
        properties,
        codes,
    })
}

/// §3.14.
fn read_disconnect<'a>(
    reader: &mut Reader<'a>,
    version: Version,
    rules: &Rules,
) -> Result<Disconnect<'a>, Rule> {
    let mut disconnect = Disconnect {
        reason: ReasonCode::Success,
        properties: Properties::EMPTY,
    };
    if version.is_5() && !reader.is_empty() {
        let code = read_u8(reader)?;
        if !reader.is_empty() {
            disconnect.properties = read_properties(reader, Place::Disconnect, version, rules)?;
        }
        disconnect.reason = reason(code, PacketType::Disconnect, rules)?;
    }
    Ok(disconnect)
}

/// §3.15. It may be left empty only where it says success, and then there is no method, which it
/// must have (§3.15.2.2.2): so it never may.
fn read_auth<'a>(reader: &mut Reader<'a>, rules: &Rules) -> Result<Auth<'a>, Rule> {
    if reader.is_empty() {
        return Err(Rule::AuthWithoutMethod);
    }
    let code = read_u8(reader)?;
    let properties = read_properties(reader, Place::Auth, Version::V5, rules)?;
    let reason = reason(code, PacketType::Auth, rules)?;
    if !properties.has(super::property::PropertyId::AuthenticationMethod) {
        return Err(Rule::AuthWithoutMethod);
    }
    Ok(Auth { reason, properties })
}

fn reason(code: u8, packet: PacketType, rules: &Rules) -> Result<ReasonCode, Rule> {
    ReasonCode::new(code)
        .filter(|reason| reason.is_for(packet, rules.peer == Peer::Client))
        .ok_or(Rule::ReasonUnknown(code))
}

/// Properties behind their length; none before 5.0.
#[inline]
pub(super) fn read_properties<'a>(
    reader: &mut Reader<'a>,
    place: Place,
    version: Version,
    rules: &Rules,
) -> Result<Properties<'a>, Rule> {
    if !version.is_5() {
        return Ok(Properties::EMPTY);
    }
    let length = read_integer(reader)?;
    if length == 0 {
        return Ok(Properties::EMPTY);
    }
    check(read_bytes(reader, length as usize)?, place, rules.text)
}

#[inline]
pub(super) fn read_packet_id(reader: &mut Reader<'_>) -> Result<PacketId, Rule> {
    PacketId::new(read_u16(reader)?).ok_or(Rule::PacketIdZero)
}

/// Bytes behind their length (§1.5.4, §1.5.6).
#[inline]
pub(super) fn read_field<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], Rule> {
    let length = read_u16(reader)?;
    read_bytes(reader, usize::from(length))
}

#[inline]
pub(super) fn read_u8(reader: &mut Reader<'_>) -> Result<u8, Rule> {
    reader.u8().map_err(|_| Rule::Truncated)
}

#[inline]
pub(super) fn read_u16(reader: &mut Reader<'_>) -> Result<u16, Rule> {
    reader.u16().map_err(|_| Rule::Truncated)
}

#[inline]
pub(super) fn read_bytes<'a>(reader: &mut Reader<'a>, count: usize) -> Result<&'a [u8], Rule> {
    reader.bytes(count).map_err(|_| Rule::Truncated)
}

#[cold]
pub(super) fn violation(rule: Rule, first: Option<u8>, version: Option<Version>) -> Violation {
    Violation {
        rule,
        packet: first.and_then(PacketType::of),
        version,
    }
}
