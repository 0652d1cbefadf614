//! Frames (AMQP 0-9-1 §4.2.3), the unit of the wire.
//!
//! ```text
//! frame := type:u8 channel:u16 size:u32 payload[size] 0xCE
//! ```
//!
//! A frame is looked at where it lies; nothing is copied here.

use menzil_model::wire::{Reader, Writer};

/// The octet after every payload.
pub const FRAME_END: u8 = 0xCE;
/// Bytes of a frame around its payload.
pub const FRAME_OVERHEAD_BYTES: usize = 8;
/// Bytes before the payload.
pub const FRAME_HEADER_BYTES: usize = 7;
/// The smallest `frame-max` that may be agreed on (§4.2.3).
pub const FRAME_BYTES_MIN: u32 = 4096;

/// Type octet of a method frame.
pub const METHOD: u8 = 1;
/// Type octet of a content header frame.
pub const HEADER: u8 = 2;
/// Type octet of a content body frame.
pub const BODY: u8 = 3;
/// Type octet of a heartbeat frame.
pub const HEARTBEAT: u8 = 8;

/// One whole frame in the bytes it came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Type octet; any value.
    pub kind: u8,
    /// Channel number; 0 is the connection.
    pub channel: u16,
    /// What lies between header and end octet.
    pub payload: &'a [u8],
}

/// What the start of the input is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split<'a> {
    /// A whole frame and its length on the wire.
    Whole(Frame<'a>, usize),
    /// Not yet a whole frame: this many bytes are needed before it is worth looking again.
    Incomplete(usize),
    /// A payload larger than agreed.
    TooLarge {
        /// Type octet.
        kind: u8,
        /// Channel number.
        channel: u16,
        /// Announced size.
        size: u32,
    },
    /// Another octet where the end octet belongs.
    BadEnd(Frame<'a>, u8),
}

/// What a content header may not have of the eight bytes around a payload.
const HEADER_SLACK: u32 = 8;

/// The most that a payload may have. RabbitMQ lets it be as long as the whole frame may be, eight
/// bytes more than the standard does, because clients get it wrong; so do we, but for a content
/// header: it goes on to consumers as it came, and must fit into their frames.
#[inline]
pub(crate) fn payload_bytes_max(kind: u8, frame_bytes_max: u32) -> u32 {
    if kind == HEADER {
        frame_bytes_max.saturating_sub(HEADER_SLACK)
    } else {
        frame_bytes_max
    }
}

/// Splits the first frame off.
pub fn split(input: &[u8], frame_bytes_max: u32) -> Split<'_> {
    let mut reader = Reader::new(input);
    let (Ok(kind), Ok(channel), Ok(size)) = (reader.u8(), reader.u16(), reader.u32()) else {
        return Split::Incomplete(FRAME_HEADER_BYTES);
    };
    if size > payload_bytes_max(kind, frame_bytes_max) {
        return Split::TooLarge {
            kind,
            channel,
            size,
        };
    }
    let whole = (size as usize).saturating_add(FRAME_OVERHEAD_BYTES);
    let (Ok(payload), Ok(end)) = (reader.bytes(size as usize), reader.u8()) else {
        return Split::Incomplete(whole);
    };
    let frame = Frame {
        kind,
        channel,
        payload,
    };
    if end == FRAME_END {
        Split::Whole(frame, whole)
    } else {
        Split::BadEnd(frame, end)
    }
}

/// Appends a frame whose payload `write` appends.
#[inline]
pub fn write_frame(out: &mut Vec<u8>, kind: u8, channel: u16, write: impl FnOnce(&mut Vec<u8>)) {
    write_frame_start(out, kind, channel, 0);
    let start = out.len();
    write(out);
    let size = u32::try_from(out.len() - start).unwrap_or(u32::MAX);
    if let Some(place) = start.checked_sub(4).and_then(|at| out.get_mut(at..start)) {
        place.copy_from_slice(&size.to_be_bytes());
    }
    out.put_u8(FRAME_END);
}

/// Appends what stands before a payload of that size.
#[inline]
pub fn write_frame_start(out: &mut Vec<u8>, kind: u8, channel: u16, size: u32) {
    out.put_u8(kind);
    out.put_u16(channel);
    out.put_u32(size);
}

/// The frame that says only that the sender lives.
pub const HEARTBEAT_FRAME: [u8; FRAME_OVERHEAD_BYTES] = [HEARTBEAT, 0, 0, 0, 0, 0, 0, FRAME_END];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_comes_whole_or_says_how_much_it_lacks() {
        let mut bytes = Vec::new();
        write_frame(&mut bytes, BODY, 7, |out| out.put(b"abc"));
        for length in 0..bytes.len() {
            let needed = if length < 7 { 7 } else { bytes.len() };
            let split = split(&bytes[..length], 4096);
            assert_eq!(split, Split::Incomplete(needed), "{length}");
        }
        let frame = Frame {
            kind: BODY,
            channel: 7,
            payload: b"abc",
        };
        assert_eq!(split(&bytes, 4096), Split::Whole(frame, 11));
        *bytes.last_mut().unwrap() = 0xCD;
        assert_eq!(split(&bytes, 4096), Split::BadEnd(frame, 0xCD));
    }

    #[test]
    fn a_payload_may_fill_the_whole_frame_but_no_byte_more() {
        let of = |size: u32| {
            let mut bytes = Vec::new();
            write_frame_start(&mut bytes, METHOD, 0, size);
            bytes
        };
        assert_eq!(split(&of(4096), 4096), Split::Incomplete(4104));
        let too_large = Split::TooLarge {
            kind: METHOD,
            channel: 0,
            size: 4097,
        };
        assert_eq!(split(&of(4097), 4096), too_large);
        assert!(matches!(split(&of(u32::MAX), 4096), Split::TooLarge { .. }));
        let header = |size| {
            let mut bytes = Vec::new();
            write_frame_start(&mut bytes, HEADER, 1, size);
            matches!(split(&bytes, 4096), Split::TooLarge { .. })
        };
        assert!(!header(4088) && header(4089), "a header goes on to others");
    }

    #[test]
    fn a_heartbeat_is_a_frame_without_payload() {
        let mut bytes = Vec::new();
        write_frame(&mut bytes, HEARTBEAT, 0, |_| {});
        assert_eq!(bytes, HEARTBEAT_FRAME);
    }
}
