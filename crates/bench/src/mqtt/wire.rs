//! MQTT packets: what is sent is encoded here, what comes is only walked over.
//!
//! ```text
//! ┌──────────────┬────────────────────────┬──────────────────────────┐
//! │ type │ flags │ remaining length (1–4) │ variable header, payload │
//! └──────────────┴────────────────────────┴──────────────────────────┘
//! ```
//!
//! Deliberately absent: every check that a broker under test should not need, and everything that
//! is shared with a broker's codec.

use crate::BenchError;
use crate::numbers::count;

/// The protocol that is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    V311,
    V5,
}

/// Packet types with the flags that the standard fixes (MQTT-2.1.3-1).
pub(crate) mod first {
    pub(crate) const CONNECT: u8 = 0x10;
    pub(crate) const PUBLISH: u8 = 0x30;
    pub(crate) const PUBACK: u8 = 0x40;
    pub(crate) const PUBREC: u8 = 0x50;
    pub(crate) const PUBREL: u8 = 0x62;
    pub(crate) const PUBCOMP: u8 = 0x70;
    pub(crate) const SUBSCRIBE: u8 = 0x82;
}

/// Packet types alone, as they come.
pub(crate) mod kind {
    pub(crate) const CONNACK: u8 = 2;
    pub(crate) const PUBLISH: u8 = 3;
    pub(crate) const PUBACK: u8 = 4;
    pub(crate) const PUBREC: u8 = 5;
    pub(crate) const PUBREL: u8 = 6;
    pub(crate) const PUBCOMP: u8 = 7;
    pub(crate) const SUBACK: u8 = 9;
    pub(crate) const DISCONNECT: u8 = 14;
}

/// A DISCONNECT with nothing to say, of any version.
pub(crate) const DISCONNECT: &[u8] = &[0xE0, 0];
/// The greatest value of four bytes of seven bits (MQTT 5.0 §1.5.5).
const REMAINING_LENGTH_MAX: usize = 268_435_455;

/// A whole packet, not looked into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Packet<'a> {
    first: u8,
    pub(crate) body: &'a [u8],
}

impl<'a> Packet<'a> {
    pub(crate) fn kind(self) -> u8 {
        self.first >> 4
    }

    /// Of a PUBLISH.
    pub(crate) fn qos(self) -> u8 {
        self.first >> 1 & 3
    }

    /// The packet identifier and the reason code of an acknowledgement; 3.1.1 has none, and 5.0
    /// leaves out a 0.
    pub(crate) fn acknowledged(self, version: Version) -> Result<(u16, u8), BenchError> {
        let [high, low, rest @ ..] = self.body else {
            return Err(BenchError::Malformed("an acknowledgement too short"));
        };
        let code = match version {
            Version::V311 => 0,
            Version::V5 => rest.first().copied().unwrap_or(0),
        };
        Ok((u16::from_be_bytes([*high, *low]), code))
    }

    /// The packet identifier of a PUBLISH, 0 with QoS 0, and what follows it.
    pub(crate) fn published(self) -> Result<(u16, &'a [u8]), BenchError> {
        let mut fields = Fields(self.body);
        let id = fields.string().and_then(|_| match self.qos() {
            0 => Some(0),
            _ => fields.u16(),
        });
        let id = id.ok_or(BenchError::Malformed("a PUBLISH too short"))?;
        Ok((id, fields.0))
    }
}

/// The payload behind the properties of a PUBLISH.
pub(crate) fn payload(rest: &[u8], version: Version) -> Result<&[u8], BenchError> {
    if version == Version::V311 {
        return Ok(rest);
    }
    let mut fields = Fields(rest);
    fields
        .properties()
        .map(|_| fields.0)
        .ok_or(BenchError::Malformed("a PUBLISH with broken properties"))
}

/// Takes the first whole packet off `rest`; `None` where it is not whole yet.
#[inline]
pub(crate) fn split<'a>(rest: &mut &'a [u8]) -> Result<Option<Packet<'a>>, BenchError> {
    let mut fields = Fields(rest);
    let Some(first) = fields.u8() else {
        return Ok(None);
    };
    let Some(length) = fields.varint()? else {
        return Ok(None);
    };
    let Some((body, after)) = fields.0.split_at_checked(length) else {
        return Ok(None);
    };
    *rest = after;
    Ok(Some(Packet { first, body }))
}

/// What is left of a packet's body.
#[derive(Debug, Clone, Copy)]
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn u8(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn u16(&mut self) -> Option<u16> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u16::from_be_bytes(*bytes))
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    fn string(&mut self) -> Option<&'a [u8]> {
        let length = self.u16()?;
        self.take(usize::from(length))
    }

    fn properties(&mut self) -> Option<&'a [u8]> {
        let length = self.varint().ok().flatten()?;
        self.take(length)
    }

    /// A variable byte integer; `None` where it is not whole.
    fn varint(&mut self) -> Result<Option<usize>, BenchError> {
        let mut value = 0;
        for shift in [0, 7, 14, 21] {
            let Some(byte) = self.u8() else {
                return Ok(None);
            };
            value |= usize::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return Ok(Some(value));
            }
        }
        Err(BenchError::Malformed("a length of more than four bytes"))
    }
}

/// What a CONNACK says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Accepted {
    /// 0, or why not.
    pub(crate) code: u8,
    pub(crate) session_present: bool,
    /// Publishes that may be unacknowledged.
    pub(crate) receive_max: u16,
    pub(crate) qos_max: u8,
}

impl Accepted {
    pub(crate) fn of(packet: Packet<'_>, version: Version) -> Result<Self, BenchError> {
        let short = BenchError::Malformed("a CONNACK too short");
        let mut fields = Fields(packet.body);
        let (Some(flags), Some(code)) = (fields.u8(), fields.u8()) else {
            return Err(short);
        };
        let mut accepted = Self {
            code,
            session_present: flags & 1 == 1,
            receive_max: u16::MAX,
            qos_max: 2,
        };
        if version == Version::V5 {
            // A broker that does not speak 5.0 answers with a CONNACK that has no properties.
            let properties = fields.properties().unwrap_or_default();
            accepted.limit(properties).ok_or(short)?;
        }
        Ok(accepted)
    }

    /// Takes the limits out of properties (MQTT 5.0 §3.2.2.3).
    fn limit(&mut self, properties: &[u8]) -> Option<()> {
        let mut fields = Fields(properties);
        while let Some(name) = fields.u8() {
            match name {
                0x21 => self.receive_max = fields.u16()?,
                0x24 => self.qos_max = fields.u8()?,
                0x25 | 0x28 | 0x29 | 0x2A => drop(fields.u8()?),
                0x13 | 0x22 => drop(fields.u16()?),
                0x11 | 0x27 => drop(fields.take(4)?),
                0x12 | 0x15 | 0x16 | 0x1A | 0x1C | 0x1F => drop(fields.string()?),
                0x26 => drop(fields.string().and_then(|_| fields.string())?),
                _ => return None,
            }
        }
        Some(())
    }
}

/// The return codes of a SUBACK, in the order of the filters.
pub(crate) fn granted(packet: Packet<'_>, version: Version) -> Result<&[u8], BenchError> {
    let mut fields = Fields(packet.body);
    let codes = fields.u16().and_then(|_| match version {
        Version::V311 => Some(()),
        Version::V5 => fields.properties().map(drop),
    });
    codes
        .map(|()| fields.0)
        .ok_or(BenchError::Malformed("a SUBACK too short"))
}

/// Whether a session stays when its connection goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Session {
    /// It begins and ends with the connection, and what there was of it is forgotten.
    Clean,
    /// It stays for as long as the broker keeps any.
    Durable,
}

/// Who connects, and how.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Connect<'a> {
    pub(crate) version: Version,
    pub(crate) client_id: &'a str,
    pub(crate) session: Session,
    pub(crate) user: Option<&'a str>,
    pub(crate) password: Option<&'a str>,
}

impl Connect<'_> {
    /// Appends it; without keep alive, for a generator that is busy has no time for a PINGREQ.
    pub(crate) fn put(self, out: &mut Vec<u8>) {
        let clean = self.session == Session::Clean;
        let flags = u8::from(clean) << 1
            | u8::from(self.user.is_some()) << 7
            | u8::from(self.password.is_some()) << 6;
        put_packet(out, first::CONNECT, |body| {
            put_string(body, "MQTT");
            match self.version {
                Version::V311 => body.extend_from_slice(&[4, flags, 0, 0]),
                Version::V5 if clean => body.extend_from_slice(&[5, flags, 0, 0, 0]),
                Version::V5 => {
                    body.extend_from_slice(&[5, flags, 0, 0, 5, 0x11]);
                    body.extend_from_slice(&u32::MAX.to_be_bytes());
                }
            }
            put_string(body, self.client_id);
            for text in [self.user, self.password].into_iter().flatten() {
                put_string(body, text);
            }
        });
    }
}

/// A message to send over and over; its identifier is filled in where it is sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Publish<'a> {
    pub(crate) version: Version,
    pub(crate) topic: &'a str,
    pub(crate) qos: u8,
    pub(crate) retain: bool,
    pub(crate) payload_bytes: usize,
}

impl Publish<'_> {
    pub(crate) fn put(self, out: &mut Vec<u8>) {
        let first = first::PUBLISH | self.qos << 1 | u8::from(self.retain);
        put_packet(out, first, |body| {
            put_string(body, self.topic);
            if self.qos > 0 {
                body.extend_from_slice(&[0, 0]);
            }
            if self.version == Version::V5 {
                body.push(0);
            }
            body.resize(body.len() + self.payload_bytes, b'm');
        });
    }

    /// Where its parts lie, from the end of the packet.
    pub(crate) fn distances(self) -> FromEnd {
        let properties = usize::from(self.version == Version::V5);
        let id = self.payload_bytes + properties + 2 * usize::from(self.qos > 0);
        FromEnd {
            payload: self.payload_bytes,
            id,
            topic_end: id,
        }
    }
}

/// Distances from the end of a PUBLISH to where its parts begin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FromEnd {
    pub(crate) payload: usize,
    pub(crate) id: usize,
    pub(crate) topic_end: usize,
}

/// Appends a SUBSCRIBE with one QoS for all filters.
pub(crate) fn put_subscribe<'a>(
    out: &mut Vec<u8>,
    version: Version,
    id: u16,
    filters: impl Iterator<Item = &'a str>,
    qos: u8,
) {
    put_packet(out, first::SUBSCRIBE, |body| {
        body.extend_from_slice(&id.to_be_bytes());
        if version == Version::V5 {
            body.push(0);
        }
        for filter in filters {
            put_string(body, filter);
            body.push(qos);
        }
    });
}

/// Appends an acknowledgement, or a PUBREL.
#[inline]
pub(crate) fn put_ack(out: &mut Vec<u8>, first: u8, id: u16) {
    let [high, low] = id.to_be_bytes();
    out.extend_from_slice(&[first, 2, high, low]);
}

fn put_packet(out: &mut Vec<u8>, first: u8, fill: impl FnOnce(&mut Vec<u8>)) {
    let mut body = Vec::new();
    fill(&mut body);
    out.push(first);
    let mut left = body.len().min(REMAINING_LENGTH_MAX);
    loop {
        let low = u8::try_from(left & 0x7F).unwrap_or(0);
        left >>= 7;
        out.push(low | u8::from(left > 0) << 7);
        if left == 0 {
            break;
        }
    }
    out.extend_from_slice(&body);
}

/// Texts here are names of our own and what an option gave, cut where the standard ends.
fn put_string(out: &mut Vec<u8>, text: &str) {
    let length = u16::try_from(count(text.len())).unwrap_or(u16::MAX);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend(text.bytes().take(usize::from(length)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn publish(version: Version, qos: u8, payload_bytes: usize) -> Vec<u8> {
        let mut out = Vec::new();
        Publish {
            version,
            topic: "a/b",
            qos,
            retain: false,
            payload_bytes,
        }
        .put(&mut out);
        out
    }

    /// Lengths of one, two and three bytes, and acknowledgements among them.
    fn stream(version: Version) -> Vec<u8> {
        let mut bytes = publish(version, 0, 0);
        put_ack(&mut bytes, first::PUBACK, 7);
        bytes.extend(publish(version, 1, 130));
        bytes.extend(publish(version, 2, 20_000));
        put_ack(&mut bytes, first::PUBREL, 9);
        bytes
    }

    fn kinds(bytes: &[u8]) -> (Vec<(u8, usize)>, usize) {
        let mut rest = bytes;
        let mut found = Vec::new();
        while let Some(packet) = split(&mut rest).unwrap() {
            found.push((packet.kind(), packet.body.len()));
        }
        (found, rest.len())
    }

    #[test]
    fn packets_are_the_same_wherever_the_bytes_are_split() {
        for version in [Version::V311, Version::V5] {
            let bytes = stream(version);
            let (whole, left) = kinds(&bytes);
            assert_eq!((whole.len(), left), (5, 0));
            for at in 0..=bytes.len() {
                let (mut found, left) = kinds(&bytes[..at]);
                found.extend(kinds(&bytes[at - left..]).0);
                assert_eq!(found, whole, "split at {at}");
            }
        }
    }

    #[test]
    fn a_length_of_five_bytes_is_no_packet() {
        assert!(split(&mut &[0x30, 0x80, 0x80, 0x80, 0x80, 1][..]).is_err());
        assert_eq!(split(&mut &[0x30, 0x80, 0x80, 0x80][..]).unwrap(), None);
    }

    #[test]
    fn the_parts_of_a_publish_lie_where_they_are_said_to() {
        for version in [Version::V311, Version::V5] {
            for qos in 0..3 {
                let mut bytes = publish(version, qos, 12);
                let message = Publish {
                    version,
                    topic: "a/b",
                    qos,
                    retain: false,
                    payload_bytes: 12,
                };
                let from_end = message.distances();
                let end = bytes.len();
                assert_eq!(&bytes[end - from_end.topic_end - 3..][..3], b"a/b");
                if qos > 0 {
                    bytes[end - from_end.id..][..2].copy_from_slice(&[1, 2]);
                }
                let packet = split(&mut &bytes[..]).unwrap().unwrap();
                assert_eq!(packet.qos(), qos);
                let (id, rest) = packet.published().unwrap();
                assert_eq!(id, if qos > 0 { 0x0102 } else { 0 });
                assert_eq!(payload(rest, version).unwrap(), [b'm'; 12]);
            }
        }
    }

    #[test]
    fn a_connack_tells_its_limits() {
        let of = |bytes: &[u8], version| {
            Accepted::of(split(&mut &*bytes).unwrap().unwrap(), version).unwrap()
        };
        let old = of(&[0x20, 2, 1, 0], Version::V311);
        assert!(old.session_present);
        assert_eq!((old.code, old.receive_max, old.qos_max), (0, u16::MAX, 2));
        // Receive maximum 20, a user property, maximum QoS 1.
        let bytes = [
            0x20, 15, 0, 0x87, 12, 0x21, 0, 20, 0x26, 0, 1, b'a', 0, 1, b'b', 0x24, 1,
        ];
        let new = of(&bytes, Version::V5);
        assert_eq!((new.code, new.receive_max, new.qos_max), (0x87, 20, 1));
        // A broker of 3.1.1 refuses the level.
        assert_eq!(of(&[0x20, 2, 0, 1], Version::V5).code, 1);
    }

    #[test]
    fn acknowledgements_and_grants_are_read() {
        let packet = |bytes: &'static [u8]| split(&mut &*bytes).unwrap().unwrap();
        let ack = packet(&[0x40, 2, 1, 2]);
        assert_eq!(ack.acknowledged(Version::V5).unwrap(), (0x0102, 0));
        let ack = packet(&[0x40, 4, 0, 2, 0x97, 0]);
        assert_eq!(ack.acknowledged(Version::V5).unwrap(), (2, 0x97));
        assert!(packet(&[0x40, 1, 0]).acknowledged(Version::V311).is_err());
        let suback = packet(&[0x90, 4, 0, 1, 1, 0x80]);
        assert_eq!(granted(suback, Version::V311).unwrap(), [1, 0x80]);
        let suback = packet(&[0x90, 4, 0, 1, 0, 2]);
        assert_eq!(granted(suback, Version::V5).unwrap(), [2]);
    }

    #[test]
    fn a_connect_says_who_and_for_how_long() {
        let connect = Connect {
            version: Version::V311,
            client_id: "x",
            session: Session::Clean,
            user: Some("u"),
            password: Some("p"),
        };
        let mut out = Vec::new();
        connect.put(&mut out);
        assert_eq!(out, b"\x10\x13\0\x04MQTT\x04\xC2\0\0\0\x01x\0\x01u\0\x01p");
        out.clear();
        let durable = Connect {
            version: Version::V5,
            session: Session::Durable,
            user: None,
            password: None,
            ..connect
        };
        durable.put(&mut out);
        assert_eq!(
            out,
            b"\x10\x13\0\x04MQTT\x05\0\0\0\x05\x11\xFF\xFF\xFF\xFF\0\x01x"
        );
    }
}
