//! What a client is answered.

use menzil_model::wire::Writer;

use crate::codec::{
    Ack, ConnAck, Packet, PacketId, PacketType, Properties, Property, PropertyId, PropertyList,
    ReasonCode, SubAck, Version,
};
use crate::session::action::Accepted;

/// An answer, or a PUBREL, as it waits to be encoded.
#[derive(Debug)]
pub(super) enum Answer {
    /// CONNACK
    Opened { session_present: bool },
    /// PUBACK or PUBREC
    Published {
        packet_id: u16,
        qos: u8,
        reason: ReasonCode,
    },
    /// PUBREL
    Release { packet_id: u16, is_known: bool },
    /// PUBCOMP
    Completed { packet_id: u16, is_known: bool },
    /// SUBACK
    Subscribed { packet_id: u16, codes: Vec<u8> },
    /// UNSUBACK
    Unsubscribed { packet_id: u16, codes: Vec<u8> },
    /// Encoded already.
    Packet(Vec<u8>),
}

impl Answer {
    /// The client may have one more publish on its way when it has this.
    #[inline]
    pub(super) fn ends_publish(&self) -> bool {
        match self {
            Self::Published { qos, reason, .. } => *qos < 2 || reason.is_error(),
            Self::Completed { .. } => true,
            Self::Opened { .. }
            | Self::Release { .. }
            | Self::Subscribed { .. }
            | Self::Unsubscribed { .. }
            | Self::Packet(_) => false,
        }
    }

    /// Appends the packet; false where it is larger than the client takes, and nothing was
    /// appended.
    #[inline]
    pub(super) fn encode(
        &self,
        version: Version,
        packet_bytes_max: u32,
        explains: bool,
        out: &mut Vec<u8>,
    ) -> bool {
        let found = |is_known: bool| {
            if is_known {
                ReasonCode::Success
            } else {
                ReasonCode::PacketIdNotFound
            }
        };
        let (kind, packet_id, reason) = match self {
            Self::Published {
                packet_id,
                qos,
                reason,
            } => {
                let kind = match qos {
                    0 | 1 => PacketType::PubAck,
                    _ => PacketType::PubRec,
                };
                (kind, *packet_id, *reason)
            }
            Self::Release {
                packet_id,
                is_known,
            } => (PacketType::PubRel, *packet_id, found(*is_known)),
            Self::Completed {
                packet_id,
                is_known,
            } => (PacketType::PubComp, *packet_id, found(*is_known)),
            Self::Subscribed { packet_id, codes } => {
                let packet = PacketType::SubAck;
                return sub_ack(
                    packet,
                    (*packet_id, codes),
                    (version, packet_bytes_max),
                    out,
                );
            }
            Self::Unsubscribed { packet_id, codes } => {
                let packet = PacketType::UnsubAck;
                return sub_ack(
                    packet,
                    (*packet_id, codes),
                    (version, packet_bytes_max),
                    out,
                );
            }
            Self::Packet(packet) => {
                out.put(packet);
                return true;
            }
            Self::Opened { .. } => return false,
        };
        let Some(packet_id) = PacketId::new(packet_id) else {
            return true;
        };
        if reason == ReasonCode::Success && packet_bytes_max >= ACK_BYTES {
            let [high, low] = packet_id.number().to_be_bytes();
            out.put(&[kind.first_byte(), 2, high, low]);
            return true;
        }
        let text = explanation(reason).filter(|_| explains);
        failed(
            kind,
            packet_id,
            (reason, text),
            (version, packet_bytes_max),
            out,
        )
    }
}

const ACK_BYTES: u32 = 4;

/// An acknowledgement that has more to say.
fn failed(
    kind: PacketType,
    packet_id: PacketId,
    (reason, text): (ReasonCode, Option<&str>),
    (version, packet_bytes_max): (Version, u32),
    out: &mut Vec<u8>,
) -> bool {
    let mut properties = PropertyList::default();
    if let Some(text) = text {
        properties.push(Property::Text(PropertyId::ReasonString, text.as_bytes()));
    }
    let ack = Ack {
        packet_id,
        reason,
        properties: properties.as_properties(),
    };
    let packet = if kind == PacketType::PubAck {
        Packet::PubAck(ack)
    } else if kind == PacketType::PubRec {
        Packet::PubRec(ack)
    } else if kind == PacketType::PubRel {
        Packet::PubRel(ack)
    } else {
        Packet::PubComp(ack)
    };
    packet.encode_within(version, packet_bytes_max, out).is_ok()
}

fn sub_ack(
    packet: PacketType,
    (packet_id, codes): (u16, &[u8]),
    (version, packet_bytes_max): (Version, u32),
    out: &mut Vec<u8>,
) -> bool {
    let Some(packet_id) = PacketId::new(packet_id) else {
        return true;
    };
    let before_5 = |code: &u8| if *code >= FAILURE { FAILURE } else { *code };
    let plain: Vec<u8>;
    let codes = if version.is_5() {
        codes
    } else {
        plain = codes.iter().map(before_5).collect();
        &plain
    };
    let ack = SubAck {
        packet_id,
        properties: Properties::EMPTY,
        codes,
    };
    let start = out.len();
    let is_sent = ack.encode(packet, version, out);
    let is_sent = is_sent.is_ok_and(|bytes| bytes <= packet_bytes_max as usize);
    if !is_sent {
        out.truncate(start);
    }
    is_sent
}

/// The only code of failure before 5.0 (MQTT 3.1.1 §3.9.3).
const FAILURE: u8 = 0x80;

/// Appends the CONNACK that lets a client in; false where it is too large for the client.
pub(super) fn conn_ack(session_present: bool, accepted: &Accepted, out: &mut Vec<u8>) -> bool {
    let packet = Packet::ConnAck(ConnAck {
        // 3.1 reserves the flag.
        is_session_present: session_present && accepted.version != Version::V3_1,
        code: ReasonCode::Success.number(),
        properties: accepted.properties.as_properties(),
    });
    packet
        .encode_within(accepted.version, accepted.packet_bytes_max, out)
        .is_ok()
}

/// What a code means here, for people.
fn explanation(reason: ReasonCode) -> Option<&'static str> {
    const TEXTS: [(ReasonCode, &str); 3] = [
        (
            ReasonCode::NotAuthorized,
            "the client may not publish to this topic",
        ),
        (
            ReasonCode::QuotaExceeded,
            "a queue or the disk has no room for the message",
        ),
        (ReasonCode::PayloadFormatInvalid, "the payload is not UTF-8"),
    ];
    let found = TEXTS.iter().find(|(of, _)| *of == reason);
    found.map(|(_, text)| *text)
}
