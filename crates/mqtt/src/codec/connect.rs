//! CONNECT (§3.1), the packet that says what the others are.
//!
//! ```text
//! protocol name │ level │ flags │ keep alive │ [properties] │ client identifier │
//! [will: [properties] │ topic │ payload] │ [user name] │ [password]
//! ```

use menzil_model::wire::Reader;

use super::decode::{
    Decoded, Rules, header_bytes_needed, read_field, read_properties, read_u8, read_u16, violation,
};
use super::header::{FixedHeader, PacketType, fixed_header};
use super::packet::Version;
use super::property::{Place, Properties};
use super::publish::Qos;
use super::text::check_text;
use super::topic::TopicName;
use super::violation::{Rule, Violation};

/// What a client begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connect<'a> {
    /// What all later packets are read and written as.
    pub version: Version,
    /// Clean start (§3.1.2.4); before 5.0 clean session: it ends with the connection too.
    pub clean_start: bool,
    /// Seconds; 0 is none (§3.1.2.10).
    pub keep_alive_s: u16,
    /// Empty before 5.0.
    pub properties: Properties<'a>,
    /// UTF-8; may be empty (§3.1.3.1), which is the session's to judge.
    pub client_id: &'a [u8],
    /// §3.1.2.5.
    pub will: Option<Will<'a>>,
    /// UTF-8.
    pub user_name: Option<&'a [u8]>,
    /// Any bytes. Before 5.0 only with a user name (MQTT 3.1.1 MQTT-3.1.2-22).
    pub password: Option<&'a [u8]>,
}

/// The message that is published when the connection ends badly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Will<'a> {
    /// §3.1.2.6.
    pub qos: Qos,
    /// §3.1.2.7.
    pub retain: bool,
    /// Empty before 5.0.
    pub properties: Properties<'a>,
    /// Never [`TopicName::ALIASED`].
    pub topic: TopicName<'a>,
    /// Any bytes.
    pub payload: &'a [u8],
}

pub(super) const CLEAN_START: u8 = 0b0000_0010;
pub(super) const WILL: u8 = 0b0000_0100;
pub(super) const WILL_RETAIN: u8 = 0b0010_0000;
pub(super) const PASSWORD: u8 = 0b0100_0000;
pub(super) const USER_NAME: u8 = 0b1000_0000;

/// The first packet.
///
/// # Errors
/// Another packet (MQTT-3.1.0-1), another protocol or version ([`Rule::ProtocolName`],
/// [`Rule::ProtocolLevel`]), or whatever a CONNECT can break.
pub fn decode_connect<'a>(
    input: &'a [u8],
    rules: &Rules,
) -> Result<Decoded<Connect<'a>>, Violation> {
    let first = input.first().copied();
    if first.is_some_and(|first| PacketType::of(first) != Some(PacketType::Connect)) {
        return Err(violation(Rule::NotConnect, first, None));
    }
    let header = match fixed_header(input) {
        Ok(Some(header)) => header,
        Ok(None) => return Ok(Decoded::Incomplete(header_bytes_needed(input))),
        Err(rule) => return Err(violation(rule, first, None)),
    };
    if header.packet_bytes() > rules.packet_bytes_max as usize {
        return Err(violation(Rule::PacketTooLarge, first, None));
    }
    let Some(body) = input.get(header.header_bytes..header.packet_bytes()) else {
        return Ok(Decoded::Incomplete(header.packet_bytes()));
    };
    let mut reader = Reader::new(body);
    let version = read_version(&mut reader).map_err(|rule| violation(rule, first, None))?;
    let connect = read_connect(&mut reader, version, &header, rules)
        .map_err(|rule| violation(rule, first, Some(version)))?;
    Ok(Decoded::Packet(connect, header.packet_bytes()))
}

/// Protocol name and level. What is no MQTT at all goes before what is a MQTT of another day.
fn read_version(reader: &mut Reader<'_>) -> Result<Version, Rule> {
    let name = read_field(reader).map_err(|_| Rule::ProtocolName)?;
    if name != Version::V3_1.protocol_name() && name != Version::V5.protocol_name() {
        return Err(Rule::ProtocolName);
    }
    let level = read_u8(reader)?;
    let version = Version::ALL
        .into_iter()
        .find(|version| version.level() == level && version.protocol_name() == name);
    version.ok_or(Rule::ProtocolLevel(level))
}

fn read_connect<'a>(
    reader: &mut Reader<'a>,
    version: Version,
    header: &FixedHeader,
    rules: &Rules,
) -> Result<Connect<'a>, Rule> {
    if version != Version::V3_1 && header.first & 0x0F != 0 {
        return Err(Rule::ReservedFlags);
    }
    if version.is_5() && !header.is_minimal {
        return Err(Rule::LengthNotMinimal);
    }
    let flags = read_u8(reader)?;
    check_flags(flags, version)?;
    let keep_alive_s = read_u16(reader)?;
    let properties = read_properties(reader, Place::Connect, version, rules)?;
    let client_id = read_text(reader, rules)?;
    let will = read_will(flags, reader, version, rules)?;
    let user_name = has_credential(flags & USER_NAME, reader, version)
        .then(|| read_text(reader, rules))
        .transpose()?;
    let password = has_credential(flags & PASSWORD, reader, version)
        .then(|| read_field(reader))
        .transpose()?;
    if !reader.is_empty() {
        return Err(Rule::TrailingBytes);
    }
    Ok(Connect {
        version,
        clean_start: flags & CLEAN_START != 0,
        keep_alive_s,
        properties,
        client_id,
        will,
        user_name,
        password,
    })
}

/// 3.1 lets clients of its forerunner set the flag of a credential that is not there (3.1 §3.1).
fn has_credential(flag: u8, reader: &Reader<'_>, version: Version) -> bool {
    flag != 0 && !(version == Version::V3_1 && reader.is_empty())
}

/// §3.1.2.3. 3.1 has no rule for the lowest bit nor for a will's bits without a will.
fn check_flags(flags: u8, version: Version) -> Result<(), Rule> {
    let has_will = flags & WILL != 0;
    if version != Version::V3_1 {
        if flags & 1 != 0 {
            return Err(Rule::ConnectFlag);
        }
        if !has_will && flags & (WILL_RETAIN | 0b11 << WILL_QOS_SHIFT) != 0 {
            return Err(Rule::WillFlags);
        }
    }
    if has_will && will_qos(flags).is_none() {
        return Err(Rule::WillQos);
    }
    if !version.is_5() && flags & PASSWORD != 0 && flags & USER_NAME == 0 {
        return Err(Rule::PasswordAlone);
    }
    Ok(())
}

pub(super) const WILL_QOS_SHIFT: u8 = 3;

fn will_qos(flags: u8) -> Option<Qos> {
    Qos::new(flags >> WILL_QOS_SHIFT & 0b11)
}

fn read_will<'a>(
    flags: u8,
    reader: &mut Reader<'a>,
    version: Version,
    rules: &Rules,
) -> Result<Option<Will<'a>>, Rule> {
    if flags & WILL == 0 {
        return Ok(None);
    }
    let properties = read_properties(reader, Place::Will, version, rules)?;
    let topic = read_field(reader)?;
    let payload = read_field(reader)?;
    Ok(Some(Will {
        qos: will_qos(flags).ok_or(Rule::WillQos)?,
        retain: flags & WILL_RETAIN != 0,
        properties,
        topic: TopicName::parse(topic, rules.text, rules.topic_levels_max)?,
        payload,
    }))
}

fn read_text<'a>(reader: &mut Reader<'a>, rules: &Rules) -> Result<&'a [u8], Rule> {
    let text = read_field(reader)?;
    check_text(text, rules.text)?;
    Ok(text)
}
