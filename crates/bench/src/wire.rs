//! Frames of AMQP 0-9-1 (§4.2.3), as few as a load generator needs.
//!
//! ```text
//! type u8 │ channel u16 │ size u32 │ payload … │ 0xCE
//! ```
//! Writing appends to a `Vec<u8>`; reading borrows from the read buffer and copies nothing.

use crate::BenchError;

pub(crate) const PROTOCOL_HEADER: &[u8] = b"AMQP\x00\x00\x09\x01";
const FRAME_OVERHEAD_BYTES: usize = 8;

const FRAME_HEAD_BYTES: usize = 7;
const FRAME_END: u8 = 0xCE;
const CLASS_BASIC: u16 = 60;
const FLAG_HEADERS: u16 = 1 << 13;
const FLAG_DELIVERY_MODE: u16 = 1 << 12;
const FLAG_EXPIRATION: u16 = 1 << 8;

/// `(class, method)` of the methods this program speaks.
pub(crate) mod id {
    pub(crate) type Method = (u16, u16);
    pub(crate) const CONNECTION_START: Method = (10, 10);
    pub(crate) const CONNECTION_START_OK: Method = (10, 11);
    pub(crate) const CONNECTION_TUNE: Method = (10, 30);
    pub(crate) const CONNECTION_TUNE_OK: Method = (10, 31);
    pub(crate) const CONNECTION_OPEN: Method = (10, 40);
    pub(crate) const CONNECTION_OPEN_OK: Method = (10, 41);
    pub(crate) const CONNECTION_CLOSE: Method = (10, 50);
    pub(crate) const CONNECTION_CLOSE_OK: Method = (10, 51);
    pub(crate) const CHANNEL_OPEN: Method = (20, 10);
    pub(crate) const CHANNEL_OPEN_OK: Method = (20, 11);
    pub(crate) const CHANNEL_CLOSE: Method = (20, 40);
    pub(crate) const CHANNEL_CLOSE_OK: Method = (20, 41);
    pub(crate) const EXCHANGE_DECLARE: Method = (40, 10);
    pub(crate) const EXCHANGE_DECLARE_OK: Method = (40, 11);
    pub(crate) const EXCHANGE_DELETE: Method = (40, 20);
    pub(crate) const EXCHANGE_DELETE_OK: Method = (40, 21);
    pub(crate) const QUEUE_DECLARE: Method = (50, 10);
    pub(crate) const QUEUE_DECLARE_OK: Method = (50, 11);
    pub(crate) const QUEUE_BIND: Method = (50, 20);
    pub(crate) const QUEUE_BIND_OK: Method = (50, 21);
    pub(crate) const QUEUE_UNBIND: Method = (50, 50);
    pub(crate) const QUEUE_UNBIND_OK: Method = (50, 51);
    pub(crate) const QUEUE_PURGE: Method = (50, 30);
    pub(crate) const QUEUE_PURGE_OK: Method = (50, 31);
    pub(crate) const QUEUE_DELETE: Method = (50, 40);
    pub(crate) const QUEUE_DELETE_OK: Method = (50, 41);
    pub(crate) const BASIC_QOS: Method = (60, 10);
    pub(crate) const BASIC_QOS_OK: Method = (60, 11);
    pub(crate) const BASIC_CONSUME: Method = (60, 20);
    pub(crate) const BASIC_CONSUME_OK: Method = (60, 21);
    pub(crate) const BASIC_CANCEL: Method = (60, 30);
    pub(crate) const BASIC_PUBLISH: Method = (60, 40);
    pub(crate) const BASIC_DELIVER: Method = (60, 60);
    pub(crate) const BASIC_ACK: Method = (60, 80);
    pub(crate) const BASIC_NACK: Method = (60, 120);
    pub(crate) const CONFIRM_SELECT: Method = (85, 10);
    pub(crate) const CONFIRM_SELECT_OK: Method = (85, 11);
}

/// What a frame carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Method,
    Header,
    Body,
    Heartbeat,
}

/// One frame, borrowed from the read buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame<'a> {
    pub(crate) kind: Kind,
    pub(crate) channel: u16,
    pub(crate) payload: &'a [u8],
}

/// Takes the first frame off `bytes`, or `None` where it is not all there yet.
#[inline]
pub(crate) fn split_frame<'a>(bytes: &mut &'a [u8]) -> Result<Option<Frame<'a>>, BenchError> {
    let Some((&[kind, c0, c1, s0, s1, s2, s3], rest)) =
        bytes.split_first_chunk::<FRAME_HEAD_BYTES>()
    else {
        return Ok(None);
    };
    let size = usize::try_from(u32::from_be_bytes([s0, s1, s2, s3])).unwrap_or(usize::MAX);
    let Some((frame, rest)) = rest.split_at_checked(size.saturating_add(1)) else {
        return Ok(None);
    };
    let Some((&FRAME_END, payload)) = frame.split_last() else {
        return Err(BenchError::Malformed("a frame without its end octet"));
    };
    let kind = match kind {
        1 => Kind::Method,
        2 => Kind::Header,
        3 => Kind::Body,
        8 => Kind::Heartbeat,
        _ => return Err(BenchError::Malformed("a frame of unknown type")),
    };
    *bytes = rest;
    let channel = u16::from_be_bytes([c0, c1]);
    Ok(Some(Frame {
        kind,
        channel,
        payload,
    }))
}

/// Fields of a payload in order; each read yields `None` past the end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    #[inline]
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.take::<1>().map(u8::from_be_bytes)
    }

    #[inline]
    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_be_bytes)
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    #[inline]
    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }

    #[inline]
    pub(crate) fn short_string(&mut self) -> Option<&'a [u8]> {
        let size = usize::from(self.u8()?);
        let (text, rest) = self.0.split_at_checked(size)?;
        self.0 = rest;
        Some(text)
    }

    #[inline]
    pub(crate) fn method(&mut self) -> Option<id::Method> {
        Some((self.u16()?, self.u16()?))
    }
}

/// Appends a short string; one over 255 bytes is cut, which no caller's names reach.
pub(crate) fn put_short(out: &mut Vec<u8>, text: &str) {
    let size = u8::try_from(text.len()).unwrap_or(u8::MAX);
    out.push(size);
    out.extend_from_slice(text.as_bytes().get(..usize::from(size)).unwrap_or_default());
}

/// Appends what `fill` writes, preceded by its length as `u32`: a long string or a table.
pub(crate) fn put_long(out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    fill(out);
    let size = u32::try_from(out.len() - at - 4).unwrap_or(u32::MAX);
    if let Some(slot) = out.get_mut(at..at + 4) {
        slot.copy_from_slice(&size.to_be_bytes());
    }
}

fn put_frame(out: &mut Vec<u8>, kind: u8, channel: u16, fill: impl FnOnce(&mut Vec<u8>)) {
    out.push(kind);
    out.extend_from_slice(&channel.to_be_bytes());
    put_long(out, fill);
    out.push(FRAME_END);
}

/// Appends a method frame.
pub(crate) fn put_method(
    out: &mut Vec<u8>,
    channel: u16,
    (class, method): id::Method,
    arguments: impl FnOnce(&mut Vec<u8>),
) {
    put_frame(out, 1, channel, |out| {
        out.extend_from_slice(&class.to_be_bytes());
        out.extend_from_slice(&method.to_be_bytes());
        arguments(out);
    });
}

/// Appends one `basic.ack`, as many of which leave as there are deliveries.
#[inline]
pub(crate) fn put_ack(out: &mut Vec<u8>, channel: u16, delivery_tag: u64, multiple: bool) {
    let [c0, c1] = channel.to_be_bytes();
    let [t0, t1, t2, t3, t4, t5, t6, t7] = delivery_tag.to_be_bytes();
    let multiple = u8::from(multiple);
    out.extend_from_slice(&[
        1, c0, c1, 0, 0, 0, 13, 0, 60, 0, 80, t0, t1, t2, t3, t4, t5, t6, t7, multiple, FRAME_END,
    ]);
}

/// Appends an entry of a table whose value is a long string.
pub(crate) fn put_text_entry(table: &mut Vec<u8>, key: &str, value: &str) {
    put_short(table, key);
    table.push(b'S');
    put_long(table, |text| text.extend_from_slice(value.as_bytes()));
}

/// One message as it is published over and over.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Publish<'a> {
    pub(crate) channel: u16,
    pub(crate) exchange: &'a str,
    pub(crate) routing_key: &'a str,
    /// The `headers` property; left out where there are none.
    pub(crate) headers: &'a [(&'static str, String)],
    pub(crate) persistent: bool,
    /// Whether the last of the headers is `x-delay`, to be filled in.
    pub(crate) delayed: bool,
    /// The `expiration` property; left out where it is empty.
    pub(crate) expiration: &'a str,
    pub(crate) body_bytes: usize,
    pub(crate) frame_bytes_max: usize,
}

impl Publish<'_> {
    /// Appends `basic.publish` with header and body frames.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_method(out, self.channel, id::BASIC_PUBLISH, |out| {
            out.extend_from_slice(&[0, 0]);
            put_short(out, self.exchange);
            put_short(out, self.routing_key);
            out.push(0);
        });
        put_frame(out, 2, self.channel, |out| {
            out.extend_from_slice(&CLASS_BASIC.to_be_bytes());
            out.extend_from_slice(&[0, 0]);
            out.extend_from_slice(&crate::numbers::count(self.body_bytes).to_be_bytes());
            let headers = if self.headers.is_empty() && !self.delayed {
                0
            } else {
                FLAG_HEADERS
            };
            let expiration = if self.expiration.is_empty() {
                0
            } else {
                FLAG_EXPIRATION
            };
            out.extend_from_slice(&(headers | FLAG_DELIVERY_MODE | expiration).to_be_bytes());
            if headers != 0 {
                put_long(out, |table| {
                    for (key, value) in self.headers {
                        put_text_entry(table, key, value);
                    }
                    if self.delayed {
                        put_short(table, "x-delay");
                        table.push(b'I');
                        table.extend_from_slice(&[0; 4]);
                    }
                });
            }
            out.push(if self.persistent { 2 } else { 1 });
            if expiration != 0 {
                put_short(out, self.expiration);
            }
        });
        let mut left = self.body_bytes;
        while left > 0 {
            let part = left.min(self.body_bytes_per_frame());
            put_frame(out, 3, self.channel, |out| {
                out.resize(out.len() + part, b'm');
            });
            left -= part;
        }
    }

    /// How many bytes from the end of the message its body begins; `None` where it has none.
    pub(crate) fn body_from_end(&self) -> Option<usize> {
        let frames = self.body_bytes.div_ceil(self.body_bytes_per_frame());
        // Every frame adds its head and end, but the first head lies before the body.
        (self.body_bytes > 0)
            .then(|| self.body_bytes + FRAME_OVERHEAD_BYTES * frames - FRAME_HEAD_BYTES)
    }

    /// How many bytes from the end of the message the four of its delay begin.
    pub(crate) fn delay_from_end(&self) -> Option<usize> {
        let body = self.body_bytes;
        let behind = body + FRAME_OVERHEAD_BYTES * body.div_ceil(self.body_bytes_per_frame());
        let expiration = match self.expiration.len() {
            0 => 0,
            length => 1 + length,
        };
        // Its four bytes, the delivery mode, and the end of the frame.
        self.delayed.then_some(4 + 1 + expiration + 1 + behind)
    }

    fn body_bytes_per_frame(&self) -> usize {
        self.frame_bytes_max - FRAME_OVERHEAD_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUBLISH: Publish<'static> = Publish {
        channel: 3,
        exchange: "x",
        routing_key: "key",
        headers: &[],
        persistent: true,
        delayed: false,
        expiration: "",
        body_bytes: 10_000,
        frame_bytes_max: 4096,
    };

    #[test]
    fn a_publish_is_read_back_as_its_frames() {
        let mut bytes = Vec::new();
        PUBLISH.put(&mut bytes);
        let mut rest = bytes.as_slice();
        let method = split_frame(&mut rest).unwrap().unwrap();
        let mut fields = Fields(method.payload);
        assert_eq!(fields.method(), Some(id::BASIC_PUBLISH));
        assert_eq!(fields.u16(), Some(0));
        assert_eq!(fields.short_string(), Some(b"x".as_slice()));
        assert_eq!(fields.short_string(), Some(b"key".as_slice()));
        let header = split_frame(&mut rest).unwrap().unwrap();
        assert_eq!(
            header.payload[4..],
            [0, 0, 0, 0, 0, 0, 0x27, 0x10, 0x10, 0, 2]
        );
        let mut sizes = Vec::new();
        while let Some(frame) = split_frame(&mut rest).unwrap() {
            assert_eq!(frame.kind, Kind::Body);
            sizes.push(frame.payload.len());
        }
        assert_eq!(sizes, [4088, 4088, 1824]);
        assert!(rest.is_empty());
    }

    #[test]
    fn the_body_lies_where_it_is_said_to() {
        for body_bytes in [1, 8, 4088, 4089, 10_000] {
            let publish = Publish {
                body_bytes,
                ..PUBLISH
            };
            let mut bytes = Vec::new();
            publish.put(&mut bytes);
            let at = bytes.len() - publish.body_from_end().unwrap();
            assert_eq!(bytes[at], b'm');
            // The head of the first body frame ends right before it.
            let size = u32::try_from(body_bytes.min(4088)).unwrap();
            assert_eq!(bytes[at - 7..at - 4], [3, 0, 3]);
            assert_eq!(bytes[at - 4..at], size.to_be_bytes());
        }
        let empty = Publish {
            body_bytes: 0,
            ..PUBLISH
        };
        assert_eq!(empty.body_from_end(), None);
    }

    #[test]
    fn headers_come_before_the_delivery_mode_and_the_expiration_behind_it() {
        let headers = [("k", "v".to_owned())];
        let publish = Publish {
            headers: &headers,
            expiration: "60",
            ..PUBLISH
        };
        let mut bytes = Vec::new();
        publish.put(&mut bytes);
        let mut rest = bytes.as_slice();
        split_frame(&mut rest).unwrap();
        let header = split_frame(&mut rest).unwrap().unwrap();
        let table = [0, 0, 0, 8, 1, b'k', b'S', 0, 0, 0, 1, b'v'];
        assert_eq!(
            header.payload[12..],
            [&[0x31, 0], &table[..], &[2, 2, b'6', b'0']].concat()
        );
    }

    #[test]
    fn the_delay_lies_where_it_is_said_to() {
        for (body_bytes, expiration) in [(0, ""), (8, "60"), (10_000, "")] {
            let publish = Publish {
                delayed: true,
                expiration,
                body_bytes,
                ..PUBLISH
            };
            let mut bytes = Vec::new();
            publish.put(&mut bytes);
            let at = bytes.len() - publish.delay_from_end().unwrap();
            assert_eq!(bytes[at - 9..at + 5], *b"\x07x-delayI\0\0\0\0\x02");
        }
        assert_eq!(PUBLISH.delay_from_end(), None);
    }

    #[test]
    fn an_ack_is_the_same_frame_as_one_written_field_by_field() {
        let (mut short, mut long) = (Vec::new(), Vec::new());
        put_ack(&mut short, 258, 1 << 40 | 7, true);
        put_method(&mut long, 258, id::BASIC_ACK, |out| {
            out.extend_from_slice(&(1u64 << 40 | 7).to_be_bytes());
            out.push(1);
        });
        assert_eq!(short, long);
    }

    #[test]
    fn a_frame_cut_anywhere_is_not_taken() {
        let mut bytes = Vec::new();
        put_method(&mut bytes, 7, id::CHANNEL_OPEN, |out| put_short(out, ""));
        for cut in 0..bytes.len() {
            let mut part = &bytes[..cut];
            assert!(split_frame(&mut part).unwrap().is_none());
            assert_eq!(part.len(), cut);
        }
        *bytes.last_mut().unwrap() = 0;
        assert!(split_frame(&mut bytes.as_slice()).is_err());
    }
}
