//! Packets in the bytes they came in.

use std::num::NonZeroU16;

use super::header::PacketType;
use super::property::Properties;
use super::publish::Publish;
use super::reason::ReasonCode;
use super::subscribe::{Subscribe, Unsubscribe};

/// What a connection speaks, from its CONNECT on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// `MQIsdp`, level 3.
    V3_1,
    /// `MQTT`, level 4.
    V3_1_1,
    /// `MQTT`, level 5.
    V5,
}

impl Version {
    /// All, the oldest first.
    pub const ALL: [Self; 3] = [Self::V3_1, Self::V3_1_1, Self::V5];

    /// The protocol level in CONNECT (§3.1.2.2).
    pub fn level(self) -> u8 {
        match self {
            Self::V3_1 => 3,
            Self::V3_1_1 => 4,
            Self::V5 => 5,
        }
    }

    /// The protocol name in CONNECT (§3.1.2.1).
    pub fn protocol_name(self) -> &'static [u8] {
        match self {
            Self::V3_1 => b"MQIsdp",
            Self::V3_1_1 | Self::V5 => b"MQTT",
        }
    }

    /// True where packets have reason codes and properties.
    #[inline]
    pub fn is_5(self) -> bool {
        self == Self::V5
    }
}

/// A packet identifier, which is never 0 (§2.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PacketId(NonZeroU16);

impl PacketId {
    /// `None` for 0.
    #[inline]
    pub fn new(number: u16) -> Option<Self> {
        NonZeroU16::new(number).map(Self)
    }

    /// The number on the wire.
    #[inline]
    pub fn number(self) -> u16 {
        self.0.get()
    }
}

/// Any packet but CONNECT, which [`super::decode_connect`] reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// §3.2.
    ConnAck(ConnAck<'a>),
    /// §3.3.
    Publish(Publish<'a>),
    /// §3.4.
    PubAck(Ack<'a>),
    /// §3.5.
    PubRec(Ack<'a>),
    /// §3.6.
    PubRel(Ack<'a>),
    /// §3.7.
    PubComp(Ack<'a>),
    /// §3.8.
    Subscribe(Subscribe<'a>),
    /// §3.9.
    SubAck(SubAck<'a>),
    /// §3.10.
    Unsubscribe(Unsubscribe<'a>),
    /// §3.11.
    UnsubAck(SubAck<'a>),
    /// §3.12.
    PingReq,
    /// §3.13.
    PingResp,
    /// §3.14.
    Disconnect(Disconnect<'a>),
    /// §3.15.
    Auth(Auth<'a>),
}

impl Packet<'_> {
    /// Its type.
    pub fn packet_type(&self) -> PacketType {
        match self {
            Self::ConnAck(_) => PacketType::ConnAck,
            Self::Publish(_) => PacketType::Publish,
            Self::PubAck(_) => PacketType::PubAck,
            Self::PubRec(_) => PacketType::PubRec,
            Self::PubRel(_) => PacketType::PubRel,
            Self::PubComp(_) => PacketType::PubComp,
            Self::Subscribe(_) => PacketType::Subscribe,
            Self::SubAck(_) => PacketType::SubAck,
            Self::Unsubscribe(_) => PacketType::Unsubscribe,
            Self::UnsubAck(_) => PacketType::UnsubAck,
            Self::PingReq => PacketType::PingReq,
            Self::PingResp => PacketType::PingResp,
            Self::Disconnect(_) => PacketType::Disconnect,
            Self::Auth(_) => PacketType::Auth,
        }
    }
}

/// The answer to CONNECT (§3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnAck<'a> {
    /// A session was there. Never with an error (MQTT-3.2.2-6).
    pub is_session_present: bool,
    /// A [`ReasonCode`] in 5.0, before it a return code from 0 to 5
    /// ([`ConnAck::return_code`]).
    pub code: u8,
    /// Empty before 5.0.
    pub properties: Properties<'a>,
}

impl ConnAck<'_> {
    /// The return code of 3.1.1 §3.2.2.3 that comes next to a reason code of 5.0.
    pub fn return_code(reason: ReasonCode) -> u8 {
        const CODES: [(ReasonCode, u8); 6] = [
            (ReasonCode::Success, 0),
            (ReasonCode::UnsupportedVersion, 1),
            (ReasonCode::ClientIdNotValid, 2),
            (ReasonCode::BadCredentials, 4),
            (ReasonCode::NotAuthorized, 5),
            (ReasonCode::Banned, 5),
        ];
        let code = CODES.iter().find(|(of, _)| *of == reason);
        code.map_or(SERVER_UNAVAILABLE, |(_, code)| *code)
    }
}

/// What no other return code says.
const SERVER_UNAVAILABLE: u8 = 3;

/// PUBACK, PUBREC, PUBREL or PUBCOMP (§3.4 to §3.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack<'a> {
    /// Of the PUBLISH.
    pub packet_id: PacketId,
    /// [`ReasonCode::Success`] before 5.0, and where it was left out.
    pub reason: ReasonCode,
    /// Empty before 5.0.
    pub properties: Properties<'a>,
}

impl Ack<'_> {
    /// One that says only that it worked.
    #[inline]
    pub fn success(packet_id: PacketId) -> Self {
        Self {
            packet_id,
            reason: ReasonCode::Success,
            properties: Properties::EMPTY,
        }
    }
}

/// SUBACK or UNSUBACK (§3.9, §3.11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubAck<'a> {
    /// Of the request.
    pub packet_id: PacketId,
    /// Empty before 5.0.
    pub properties: Properties<'a>,
    /// A [`ReasonCode`] for each filter, in order. Before 5.0: 0, 1, 2 or 0x80 in SUBACK, none in
    /// UNSUBACK.
    pub codes: &'a [u8],
}

/// The end of a connection (§3.14).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disconnect<'a> {
    /// [`ReasonCode::Success`] before 5.0, and where it was left out.
    pub reason: ReasonCode,
    /// Empty before 5.0.
    pub properties: Properties<'a>,
}

/// A step of an authentication (§3.15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Auth<'a> {
    /// Success, continue or (a client's) re-authenticate.
    pub reason: ReasonCode,
    /// The method is among them.
    pub properties: Properties<'a>,
}
