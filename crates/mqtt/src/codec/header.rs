//! The fixed header (§2.1): type, flags and remaining length.

use menzil_model::wire::Reader;

use super::violation::Rule;

/// The most that a remaining length may say (§1.5.5): four bytes of seven bits.
pub const REMAINING_BYTES_MAX: u32 = 268_435_455;

/// Packet types (§2.1.2). 0 is reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PacketType {
    /// Client to server, the first.
    Connect = 1,
    /// Server to client, the answer to it.
    ConnAck = 2,
    /// Both ways: a message.
    Publish = 3,
    /// Both ways: QoS 1 is through.
    PubAck = 4,
    /// Both ways: QoS 2, received.
    PubRec = 5,
    /// Both ways: QoS 2, released.
    PubRel = 6,
    /// Both ways: QoS 2 is through.
    PubComp = 7,
    /// Client to server.
    Subscribe = 8,
    /// Server to client.
    SubAck = 9,
    /// Client to server.
    Unsubscribe = 10,
    /// Server to client.
    UnsubAck = 11,
    /// Client to server.
    PingReq = 12,
    /// Server to client.
    PingResp = 13,
    /// From the client; in 5.0 both ways.
    Disconnect = 14,
    /// Both ways, 5.0 alone.
    Auth = 15,
}

impl PacketType {
    /// The type in the upper half of a packet's first byte.
    #[inline]
    pub fn of(first: u8) -> Option<Self> {
        Some(match first >> 4 {
            1 => Self::Connect,
            2 => Self::ConnAck,
            3 => Self::Publish,
            4 => Self::PubAck,
            5 => Self::PubRec,
            6 => Self::PubRel,
            7 => Self::PubComp,
            8 => Self::Subscribe,
            9 => Self::SubAck,
            10 => Self::Unsubscribe,
            11 => Self::UnsubAck,
            12 => Self::PingReq,
            13 => Self::PingResp,
            14 => Self::Disconnect,
            15 => Self::Auth,
            _ => return None,
        })
    }

    /// What the lower half of the first byte has to be (§2.1.3); a PUBLISH has its own.
    #[inline]
    pub fn flags(self) -> u8 {
        match self {
            Self::PubRel | Self::Subscribe | Self::Unsubscribe => 0b0010,
            Self::Connect
            | Self::ConnAck
            | Self::Publish
            | Self::PubAck
            | Self::PubRec
            | Self::PubComp
            | Self::SubAck
            | Self::UnsubAck
            | Self::PingReq
            | Self::PingResp
            | Self::Disconnect
            | Self::Auth => 0,
        }
    }

    /// First byte of a packet of that type that is no PUBLISH.
    #[inline]
    pub fn first_byte(self) -> u8 {
        (self as u8) << 4 | self.flags()
    }

    /// The standard's name, in capitals.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connect => "CONNECT",
            Self::ConnAck => "CONNACK",
            Self::Publish => "PUBLISH",
            Self::PubAck => "PUBACK",
            Self::PubRec => "PUBREC",
            Self::PubRel => "PUBREL",
            Self::PubComp => "PUBCOMP",
            Self::Subscribe => "SUBSCRIBE",
            Self::SubAck => "SUBACK",
            Self::Unsubscribe => "UNSUBSCRIBE",
            Self::UnsubAck => "UNSUBACK",
            Self::PingReq => "PINGREQ",
            Self::PingResp => "PINGRESP",
            Self::Disconnect => "DISCONNECT",
            Self::Auth => "AUTH",
        }
    }
}

/// What every packet begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedHeader {
    /// Type and flags.
    pub first: u8,
    /// Bytes of the packet behind the fixed header.
    pub remaining_bytes: u32,
    /// Bytes of the fixed header, 2 to 5.
    pub header_bytes: usize,
    /// False where the remaining length could be shorter, which 5.0 forbids (MQTT-1.5.5-1).
    pub is_minimal: bool,
}

impl FixedHeader {
    /// Bytes of the whole packet.
    #[inline]
    pub fn packet_bytes(&self) -> usize {
        self.header_bytes + self.remaining_bytes as usize
    }
}

/// The fixed header at the start of the input, `None` where it has not all come.
///
/// # Errors
/// A remaining length of more than four bytes (§1.5.5).
#[inline]
pub fn fixed_header(input: &[u8]) -> Result<Option<FixedHeader>, Rule> {
    let Some((&first, rest)) = input.split_first() else {
        return Ok(None);
    };
    match rest.first() {
        Some(&length) if length < 0x80 => Ok(Some(FixedHeader {
            first,
            remaining_bytes: u32::from(length),
            header_bytes: 2,
            is_minimal: true,
        })),
        Some(_) => long_header(first, rest),
        None => Ok(None),
    }
}

#[inline]
fn long_header(first: u8, rest: &[u8]) -> Result<Option<FixedHeader>, Rule> {
    let (integer, is_minimal) = match integer(rest) {
        Ok(integer) => (integer, true),
        Err(NoInteger::NotMinimal(value, length)) => ((value, length), false),
        Err(NoInteger::Truncated) => return Ok(None),
        Err(NoInteger::TooLong) => return Err(Rule::LengthTooLong),
    };
    let (remaining_bytes, length_bytes) = integer;
    Ok(Some(FixedHeader {
        first,
        remaining_bytes,
        header_bytes: 1 + length_bytes,
        is_minimal,
    }))
}

/// Why no variable byte integer is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoInteger {
    /// The bytes end before it does.
    Truncated,
    /// The fourth byte is not the last.
    TooLong,
    /// The last byte adds nothing to this value of that many bytes.
    NotMinimal(u32, usize),
}

/// The variable byte integer at the start and its bytes (§1.5.5).
#[inline]
pub(super) fn integer(bytes: &[u8]) -> Result<(u32, usize), NoInteger> {
    match bytes.first() {
        Some(&byte) if byte < 0x80 => Ok((u32::from(byte), 1)),
        _ => long_integer(bytes),
    }
}

fn long_integer(bytes: &[u8]) -> Result<(u32, usize), NoInteger> {
    let mut value = 0;
    for (at, &byte) in bytes.iter().take(4).enumerate() {
        value |= u32::from(byte & 0x7F) << (7 * at);
        if byte & 0x80 == 0 {
            return match byte {
                0 if at > 0 => Err(NoInteger::NotMinimal(value, at + 1)),
                _ => Ok((value, at + 1)),
            };
        }
    }
    match bytes.len() {
        0..4 => Err(NoInteger::Truncated),
        _ => Err(NoInteger::TooLong),
    }
}

/// Takes a variable byte integer of a packet's inside.
#[inline]
pub(super) fn read_integer(reader: &mut Reader<'_>) -> Result<u32, Rule> {
    let (value, length) = integer(reader.rest()).map_err(|why| match why {
        NoInteger::Truncated => Rule::Truncated,
        NoInteger::TooLong => Rule::IntegerTooLong,
        NoInteger::NotMinimal(..) => Rule::IntegerNotMinimal,
    })?;
    reader.bytes(length).map_err(|_| Rule::Truncated)?;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_takes_one_to_four_bytes_and_the_fewest() {
        let of = |bytes: &[u8]| integer(bytes);
        assert_eq!(of(&[0x7F]), Ok((127, 1)));
        assert_eq!(of(&[0x80, 0x01]), Ok((128, 2)));
        assert_eq!(of(&[0xFF, 0xFF, 0xFF, 0x7F]), Ok((REMAINING_BYTES_MAX, 4)));
        assert_eq!(of(&[0x80, 0x00]), Err(NoInteger::NotMinimal(0, 2)));
        assert_eq!(of(&[0x80, 0x80]), Err(NoInteger::Truncated));
        assert_eq!(of(&[0x80, 0x80, 0x80, 0x80]), Err(NoInteger::TooLong));
        assert_eq!(of(&[0x80, 0x80, 0x80, 0x80, 0x01]), Err(NoInteger::TooLong));
    }

    #[test]
    fn a_type_is_its_number() {
        for number in 1..16 {
            let packet = PacketType::of(number << 4).unwrap();
            assert_eq!(packet as u8, number);
            assert_eq!(packet.first_byte() >> 4, number);
        }
        assert_eq!(PacketType::of(0x0F), None);
    }
}
