//! What a packet alone can break, with the reason code that is due and the clause.

use std::fmt;

use super::header::PacketType;
use super::packet::Version;
use super::property::PropertyId;
use super::reason::ReasonCode;

/// A rule of the standard that a packet broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The first packet is no CONNECT.
    NotConnect,
    /// A CONNECT that is not the first packet.
    SecondConnect,
    /// A type that this version reserves: 0, before 5.0 also 15.
    ReservedType,
    /// A type that only the other side sends.
    WrongDirection,
    /// An AUTH though CONNECT named no method.
    AuthUnexpected,
    /// Flags of the fixed header.
    ReservedFlags,
    /// A PUBLISH with both QoS bits.
    PublishQos,
    /// A PUBLISH of QoS 0 with DUP.
    DupOfQos0,
    /// A length of more than four bytes.
    LengthTooLong,
    /// A length that could be shorter.
    LengthNotMinimal,
    /// An integer inside the packet of more than four bytes.
    IntegerTooLong,
    /// An integer inside the packet that could be shorter.
    IntegerNotMinimal,
    /// A PINGREQ or PINGRESP that has more than its fixed header.
    PingLength,
    /// Larger than allowed.
    PacketTooLarge,
    /// A field goes past the end of the packet.
    Truncated,
    /// Bytes behind the last field.
    TrailingBytes,
    /// Packet identifier 0.
    PacketIdZero,
    /// Not UTF-8.
    TextIllFormed,
    /// U+0000.
    TextWithNul,
    /// A control or non-character.
    TextNotPlain,
    /// More than 65,535 bytes (never on the wire, which cannot say so).
    TextTooLong,
    /// A topic name or filter without characters.
    TopicEmpty,
    /// A wildcard in a topic name.
    TopicWildcard,
    /// A topic name of too many levels.
    TopicLevels,
    /// A topic filter of too many levels.
    FilterLevels,
    /// A wildcard that does not stand alone, or `#` before the end.
    FilterWildcard,
    /// A shared subscription whose group is empty or has a wildcard.
    SharedGroup,
    /// A shared subscription without a filter.
    SharedWithoutFilter,
    /// No Local on a shared subscription.
    SharedNoLocal,
    /// A SUBSCRIBE or UNSUBSCRIBE that names no filter.
    NoFilters,
    /// Reserved bits, QoS 3 or retain handling 3.
    SubscriptionOptions,
    /// A reason code that this packet does not have.
    ReasonUnknown(u8),
    /// A property that no packet has.
    PropertyUnknown(u32),
    /// A property that this packet does not have.
    PropertyMisplaced(PropertyId),
    /// A property that is there twice.
    PropertyTwice(PropertyId),
    /// A value out of its range.
    PropertyValue(PropertyId),
    /// Authentication data, or an AUTH, without a method.
    AuthWithoutMethod,
    /// A protocol that is not MQTT.
    ProtocolName,
    /// A version that is not spoken here.
    ProtocolLevel(u8),
    /// The lowest bit of the connect flags.
    ConnectFlag,
    /// QoS or retain of a will that is not there.
    WillFlags,
    /// A will of QoS 3.
    WillQos,
    /// A password without a user name, before 5.0.
    PasswordAlone,
    /// Flags of a CONNACK.
    ConnAckFlags,
    /// A return code of 3.x that is none.
    ReturnCode(u8),
}

impl Rule {
    /// What it says, the code that is due, its clause in 5.0 and in 3.1.1 (empty where that has
    /// none). Where 5.0 leaves a choice of codes, this is mosquitto's.
    #[rustfmt::skip]
    fn about(self) -> (&'static str, ReasonCode, &'static str, &'static str) {
        use ReasonCode::{MalformedPacket as MALFORMED, ProtocolError as PROTOCOL};
        match self {
            Self::NotConnect =>
                ("the first packet must be CONNECT", PROTOCOL, "MQTT-3.1.0-1", "MQTT-3.1.0-1"),
            Self::SecondConnect =>
                ("CONNECT may be sent once", PROTOCOL, "MQTT-3.1.0-2", "MQTT-3.1.0-2"),
            Self::ReservedType =>
                ("the packet type is reserved", PROTOCOL, "§2.1.2", "§2.2.1"),
            Self::WrongDirection =>
                ("only the other side sends this packet", PROTOCOL, "§2.1.2", "§2.2.1"),
            Self::AuthUnexpected =>
                ("CONNECT named no authentication method", PROTOCOL, "MQTT-4.12.0-6", ""),
            Self::ReservedFlags =>
                ("the flags of the fixed header are reserved", MALFORMED, "MQTT-2.1.3-1", "MQTT-2.2.2-2"),
            Self::PublishQos =>
                ("there is no QoS 3", MALFORMED, "MQTT-3.3.1-4", "MQTT-3.3.1-4"),
            Self::DupOfQos0 =>
                ("QoS 0 is never a duplicate", MALFORMED, "MQTT-3.3.1-2", "MQTT-3.3.1-2"),
            Self::LengthTooLong =>
                ("a length has at most four bytes", MALFORMED, "§1.5.5", "§2.2.3"),
            Self::LengthNotMinimal =>
                ("a length must take the fewest bytes", MALFORMED, "MQTT-1.5.5-1", "§2.2.3"),
            Self::IntegerTooLong =>
                ("an integer has at most four bytes", MALFORMED, "§1.5.5", ""),
            Self::IntegerNotMinimal =>
                ("an integer must take the fewest bytes", MALFORMED, "MQTT-1.5.5-1", ""),
            Self::PingLength =>
                ("nothing may follow the fixed header", MALFORMED, "§3.12.1", "§3.12.1"),
            Self::PacketTooLarge =>
                ("the packet is larger than allowed", ReasonCode::PacketTooLarge, "MQTT-3.1.2-24", ""),
            Self::Truncated =>
                ("a field goes past the end of the packet", MALFORMED, "§2.1.4", "§2.2.3"),
            Self::TrailingBytes =>
                ("bytes follow the last field", MALFORMED, "§2.1.4", "§2.2.3"),
            Self::PacketIdZero =>
                ("a packet identifier is not 0", PROTOCOL, "MQTT-2.2.1-3", "MQTT-2.3.1-1"),
            Self::TextIllFormed =>
                ("a string is not UTF-8", MALFORMED, "MQTT-1.5.4-1", "MQTT-1.5.3-1"),
            Self::TextWithNul =>
                ("a string has U+0000", MALFORMED, "MQTT-1.5.4-2", "MQTT-1.5.3-2"),
            Self::TextNotPlain =>
                ("a string has a control or non-character", MALFORMED, "§1.5.4", "§1.5.3"),
            Self::TextTooLong =>
                ("a string has at most 65535 bytes", MALFORMED, "§1.5.4", "§1.5.3"),
            Self::TopicEmpty =>
                ("a topic has at least one character", MALFORMED, "MQTT-4.7.3-1", "MQTT-4.7.3-1"),
            Self::TopicWildcard =>
                ("a topic name has no wildcards", MALFORMED, "MQTT-3.3.2-2", "MQTT-3.3.2-2"),
            Self::TopicLevels =>
                ("the topic name has too many levels here", ReasonCode::TopicNameInvalid, "§4.7.3", "§4.7.3"),
            Self::FilterLevels =>
                ("the topic filter has too many levels here", ReasonCode::TopicFilterInvalid, "§4.7.3", "§4.7.3"),
            Self::FilterWildcard =>
                ("a wildcard fills its level, and # the last one", MALFORMED, "MQTT-4.7.1-1", "MQTT-4.7.1-2"),
            Self::SharedGroup =>
                ("a share name has characters and no wildcards", PROTOCOL, "MQTT-4.8.2-1", ""),
            Self::SharedWithoutFilter =>
                ("a shared subscription has a filter behind its name", PROTOCOL, "MQTT-4.8.2-2", ""),
            Self::SharedNoLocal =>
                ("a shared subscription has no No Local", PROTOCOL, "MQTT-3.8.3-4", ""),
            Self::NoFilters =>
                ("at least one topic filter is needed", MALFORMED, "MQTT-3.8.3-2", "MQTT-3.8.3-3"),
            Self::SubscriptionOptions =>
                ("the subscription options are reserved", MALFORMED, "MQTT-3.8.3-5", "MQTT-3.8.3-4"),
            Self::ReasonUnknown(_) =>
                ("this packet has no such reason code", PROTOCOL, "§2.4", ""),
            Self::PropertyUnknown(_) =>
                ("there is no such property", MALFORMED, "§2.2.2.2", ""),
            Self::PropertyMisplaced(_) =>
                ("this packet has no such property", PROTOCOL, "§2.2.2.2", ""),
            Self::PropertyTwice(_) =>
                ("a property may be there once", PROTOCOL, "§2.2.2.2", ""),
            Self::PropertyValue(property) =>
                ("the value of a property is out of its range", PROTOCOL, property.clause(), ""),
            Self::AuthWithoutMethod =>
                ("there is no authentication method", PROTOCOL, "§3.1.2.11.10", ""),
            Self::ProtocolName =>
                ("the protocol is not MQTT", ReasonCode::UnsupportedVersion, "MQTT-3.1.2-1", "MQTT-3.1.2-1"),
            Self::ProtocolLevel(_) =>
                ("this version of MQTT is not known", ReasonCode::UnsupportedVersion, "MQTT-3.1.2-2", "MQTT-3.1.2-2"),
            Self::ConnectFlag =>
                ("the lowest connect flag is reserved", MALFORMED, "MQTT-3.1.2-3", "MQTT-3.1.2-3"),
            Self::WillFlags =>
                ("without a will its QoS and retain are 0", MALFORMED, "MQTT-3.1.2-11", "MQTT-3.1.2-13"),
            Self::WillQos =>
                ("there is no QoS 3", MALFORMED, "MQTT-3.1.2-12", "MQTT-3.1.2-14"),
            Self::PasswordAlone =>
                ("a password needs a user name", MALFORMED, "", "MQTT-3.1.2-22"),
            Self::ConnAckFlags =>
                ("the CONNACK flags are reserved", MALFORMED, "§3.2.2.1", "§3.2.2.1"),
            Self::ReturnCode(_) =>
                ("there is no such return code", MALFORMED, "", "§3.2.2.3"),
        }
    }
}

/// A packet that ends the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// What it broke.
    pub rule: Rule,
    /// Its type, where that is one.
    pub packet: Option<PacketType>,
    /// What the connection speaks; `None` until CONNECT has said so.
    pub version: Option<Version>,
}

impl Violation {
    /// The reason code for DISCONNECT, or for CONNACK where a CONNECT was refused.
    pub fn reason(&self) -> ReasonCode {
        match (self.rule, self.packet) {
            (Rule::PropertyValue(PropertyId::TopicAlias), _) => ReasonCode::TopicAliasInvalid,
            (Rule::PropertyValue(PropertyId::SubscriptionIdentifier), _)
            | (Rule::PropertyMisplaced(_), Some(PacketType::Subscribe | PacketType::Unsubscribe)) => {
                ReasonCode::MalformedPacket
            }
            (rule, _) => rule.about().1,
        }
    }

    /// The clause, in the standard that the connection speaks.
    pub fn clause(&self) -> &'static str {
        let (_, _, in_5, before) = self.rule.about();
        match self.version {
            Some(Version::V3_1 | Version::V3_1_1) if !before.is_empty() => before,
            _ if in_5.is_empty() => before,
            _ => in_5,
        }
    }

    /// True where a DISCONNECT or CONNACK with the reason should go out before the end; §4.13
    /// leaves it open. Not to what does not speak MQTT, nor to who has said goodbye. (Before 5.0 a
    /// server has no DISCONNECT at all.)
    pub fn wants_answer(&self) -> bool {
        let is_no_mqtt = matches!(
            self.rule,
            Rule::NotConnect | Rule::ProtocolName | Rule::LengthTooLong | Rule::PingLength
        );
        let is_goodbye = matches!(self.rule, Rule::ReasonUnknown(_))
            && self.packet == Some(PacketType::Disconnect);
        !is_no_mqtt && !is_goodbye
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (text, ..) = self.rule.about();
        if let Some(packet) = self.packet {
            write!(out, "{}: ", packet.name())?;
        }
        out.write_str(text)?;
        if let Rule::PropertyMisplaced(id) | Rule::PropertyTwice(id) | Rule::PropertyValue(id) =
            self.rule
        {
            write!(out, " ({})", id.name())?;
        } else if let Rule::ReasonUnknown(code) | Rule::ReturnCode(code) = self.rule {
            write!(out, " (0x{code:02X})")?;
        } else if let Rule::PropertyUnknown(id) = self.rule {
            write!(out, " (0x{id:02X})")?;
        } else if let Rule::ProtocolLevel(level) = self.rule {
            write!(out, " (level {level})")?;
        }
        write!(out, " [{}]", self.clause())
    }
}

impl std::error::Error for Violation {}
