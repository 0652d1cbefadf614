//! Frames of a client (RFC 6455 §5).
//!
//! ```text
//! fin:1 rsv:3 opcode:4 │ mask:1 length:7 │ length:0, 16 or 64 │ masking key:32 │ payload
//! ```

use super::GOING_AWAY;

/// Takes frames apart, wherever they were split.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    /// What has come of a header.
    header: Vec<u8>,
    /// The frame whose payload comes.
    frame: Option<Frame>,
    /// A message was begun, and its next part is to be a continuation.
    in_message: bool,
}

#[derive(Debug)]
struct Frame {
    opcode: u8,
    /// Bytes that are still to come.
    left: u64,
    mask: [u8; 4],
    /// The payload of a control frame so far.
    control: Vec<u8>,
}

/// What a frame, or a part of one, brings.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event<'b> {
    /// Bytes of a binary message, unmasked.
    Bytes(&'b mut [u8]),
    /// To be answered with the same.
    Ping(Vec<u8>),
    /// The client closes: its status code, and what it says of it.
    Close(Option<u16>, Vec<u8>),
}

/// What a client did wrong.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// For the close frame.
    pub(super) status: u16,
    /// For the log.
    pub(super) what: &'static str,
}

impl Decoder {
    /// The next of what is in the input, which is shortened by it; `None` where more is to come.
    pub(super) fn next<'b>(
        &mut self,
        input: &mut &'b mut [u8],
    ) -> Option<Result<Event<'b>, Fault>> {
        loop {
            let Some(frame) = &mut self.frame else {
                match self.take_header(input) {
                    Ok(Some(frame)) => self.frame = Some(frame),
                    Ok(None) => return None,
                    Err(fault) => return Some(Err(fault)),
                }
                continue;
            };
            let here = usize::try_from(frame.left).unwrap_or(usize::MAX);
            let count = here.min(input.len());
            let (payload, rest) = std::mem::take(input).split_at_mut(count);
            *input = rest;
            frame.unmask(payload);
            let is_over = frame.left == 0;
            if !is_over && count == 0 {
                return None;
            }
            if frame.opcode < FIRST_CONTROL {
                if is_over {
                    self.frame = None;
                }
                if !payload.is_empty() {
                    return Some(Ok(Event::Bytes(payload)));
                }
                continue;
            }
            frame.control.extend_from_slice(payload);
            if !is_over {
                return None;
            }
            let (opcode, payload) = (frame.opcode, std::mem::take(&mut frame.control));
            self.frame = None;
            match opcode {
                PING => return Some(Ok(Event::Ping(payload))),
                PONG => {}
                _ => return Some(close(payload)),
            }
        }
    }

    /// A whole header, if it is there.
    fn take_header(&mut self, input: &mut &mut [u8]) -> Result<Option<Frame>, Fault> {
        loop {
            if let Some(frame) = self.header_so_far()? {
                self.header.clear();
                return Ok(Some(frame));
            }
            let Some((byte, rest)) = std::mem::take(input).split_first_mut() else {
                return Ok(None);
            };
            self.header.push(*byte);
            *input = rest;
        }
    }

    fn header_so_far(&mut self) -> Result<Option<Frame>, Fault> {
        let [first, second, rest @ ..] = self.header.as_slice() else {
            return Ok(None);
        };
        if rest.is_empty() {
            check(*first, *second, self.in_message)?;
        }
        let length = second & 0x7F;
        let extended = match length {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let Some((long, mask)) = rest.split_at_checked(extended) else {
            return Ok(None);
        };
        let Ok(mask) = <[u8; 4]>::try_from(mask) else {
            return Ok(None);
        };
        let number = long.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        let (left, least) = match extended {
            2 => (number, 126),
            8 => (number, 1 << 16),
            _ => (u64::from(length), 0),
        };
        if left < least || left >> 63 != 0 {
            return Err(protocol("a length in more bytes than it takes"));
        }
        let opcode = first & 0x0F;
        if opcode < FIRST_CONTROL {
            self.in_message = first & FIN == 0;
        }
        Ok(Some(Frame {
            opcode,
            left,
            mask,
            control: Vec::new(),
        }))
    }
}

/// What the first two bytes alone can break.
fn check(first: u8, second: u8, in_message: bool) -> Result<(), Fault> {
    if first & 0x70 != 0 {
        return Err(protocol("a reserved bit is set"));
    }
    if second & MASKED == 0 {
        return Err(protocol("a frame is not masked"));
    }
    let opcode = first & 0x0F;
    match opcode {
        CONTINUATION if !in_message => Err(protocol("a continuation of nothing")),
        BINARY if in_message => Err(protocol("a message begins within another")),
        TEXT => Err(Fault {
            status: UNSUPPORTED,
            what: "a text message, where MQTT has binary ones (MQTT-6.0.0-1)",
        }),
        CLOSE | PING | PONG if first & FIN == 0 || second & 0x7F > CONTROL_BYTES_MAX => {
            Err(protocol("a control frame in parts, or too long"))
        }
        CONTINUATION | BINARY | CLOSE | PING | PONG => Ok(()),
        _ => Err(protocol("an opcode that is not known")),
    }
}

fn close(payload: Vec<u8>) -> Result<Event<'static>, Fault> {
    match payload.as_slice() {
        [] => Ok(Event::Close(None, payload)),
        [_] => Err(protocol("half a status code")),
        [high, low, reason @ ..] => {
            let status = u16::from_be_bytes([*high, *low]);
            // What may be sent (§7.4); others would be an error to send back.
            let is_known = matches!(status, 1000..=1003 | 1007..=1014 | 3000..=4999);
            let status = if is_known { status } else { GOING_AWAY };
            Ok(Event::Close(Some(status), reason.to_vec()))
        }
    }
}

impl Frame {
    fn unmask(&mut self, payload: &mut [u8]) {
        let (chunks, rest) = payload.as_chunks_mut::<8>();
        let [a, b, c, d] = self.mask;
        let mask = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
        for chunk in chunks {
            *chunk = (u64::from_ne_bytes(*chunk) ^ mask).to_ne_bytes();
        }
        for (byte, mask) in rest.iter_mut().zip(self.mask.iter().cycle()) {
            *byte ^= mask;
        }
        self.mask.rotate_left(payload.len() % 4);
        self.left = self.left.saturating_sub(payload.len() as u64);
    }
}

fn protocol(what: &'static str) -> Fault {
    let status = PROTOCOL_ERROR;
    Fault { status, what }
}

const FIN: u8 = 0x80;
const MASKED: u8 = 0x80;
const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
pub(super) const BINARY: u8 = 2;
const FIRST_CONTROL: u8 = 8;
pub(super) const CLOSE: u8 = 8;
const PING: u8 = 9;
pub(super) const PONG: u8 = 10;
const CONTROL_BYTES_MAX: u8 = 125;
const PROTOCOL_ERROR: u16 = 1002;
const UNSUPPORTED: u16 = 1003;

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u8; 4] = [0xA1, 0x02, 0xFF, 0x40];

    /// A frame as a client sends it.
    fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![first];
        match payload.len() {
            length @ 0..=125 => bytes.push(MASKED | u8::try_from(length).unwrap()),
            length @ 126..=0xFFFF => {
                bytes.push(MASKED | 0x7E);
                bytes.extend_from_slice(&u16::try_from(length).unwrap().to_be_bytes());
            }
            length => {
                bytes.push(MASKED | 0x7F);
                bytes.extend_from_slice(&(length as u64).to_be_bytes());
            }
        }
        bytes.extend_from_slice(&KEY);
        bytes.extend(payload.iter().zip(KEY.iter().cycle()).map(|(b, k)| b ^ k));
        bytes
    }

    #[derive(Debug, Default, PartialEq, Eq)]
    struct Seen {
        bytes: Vec<u8>,
        pings: Vec<Vec<u8>>,
        end: Option<Result<Option<u16>, u16>>,
    }

    /// Everything that comes of the input, in pieces of that size.
    fn decode(input: &[u8], piece: usize) -> Seen {
        let (mut decoder, mut seen) = (Decoder::default(), Seen::default());
        for piece in input.chunks(piece) {
            let mut copy = piece.to_vec();
            let mut rest = copy.as_mut_slice();
            while let Some(event) = decoder.next(&mut rest) {
                match event {
                    Ok(Event::Bytes(bytes)) => seen.bytes.extend_from_slice(bytes),
                    Ok(Event::Ping(payload)) => seen.pings.push(payload),
                    Ok(Event::Close(status, _)) => seen.end = Some(Ok(status)),
                    Err(fault) => seen.end = Some(Err(fault.status)),
                }
                if seen.end.is_some() {
                    return seen;
                }
            }
        }
        seen
    }

    #[test]
    fn what_is_sent_in_any_frames_and_read_in_any_pieces_is_the_same_bytes() {
        let bytes: Vec<u8> = (0..70_000_u32)
            .map(|number| number.to_be_bytes()[3])
            .collect();
        let mut input = frame(FIN | BINARY, &bytes);
        input.extend(frame(BINARY, &bytes[..5]));
        input.extend(frame(FIN | PING, b"still there?"));
        input.extend(frame(CONTINUATION, &[]));
        input.extend(frame(FIN | PONG, b"unasked"));
        input.extend(frame(FIN | CONTINUATION, &bytes[5..300]));
        input.extend(frame(FIN | CLOSE, &[0x03, 0xE8]));
        let expected = Seen {
            bytes: [&bytes[..], &bytes[..300]].concat(),
            pings: vec![b"still there?".to_vec()],
            end: Some(Ok(Some(1000))),
        };
        for piece in [1, 2, 3, 7, 64, 4096, input.len()] {
            assert_eq!(decode(&input, piece), expected, "in pieces of {piece}");
        }
    }

    #[test]
    fn what_breaks_the_rules_ends_it() {
        let unmasked = vec![FIN | BINARY, 1, b'x'];
        let long = vec![FIN | BINARY, MASKED | 0x7E, 0, 5, 0, 0, 0, 0];
        let half = frame(FIN | CLOSE, &[3]);
        for (input, status) in [
            (unmasked, PROTOCOL_ERROR),
            (long, PROTOCOL_ERROR),
            (half, PROTOCOL_ERROR),
            (frame(FIN | TEXT, b"x"), UNSUPPORTED),
            (frame(FIN | CONTINUATION, b"x"), PROTOCOL_ERROR),
            (frame(FIN | 0x40 | BINARY, b"x"), PROTOCOL_ERROR),
            (frame(FIN | 3, b"x"), PROTOCOL_ERROR),
            (frame(PING, b"x"), PROTOCOL_ERROR),
            (frame(FIN | PING, &[0; 126]), PROTOCOL_ERROR),
            (
                [frame(BINARY, b"x"), frame(FIN | BINARY, b"y")].concat(),
                PROTOCOL_ERROR,
            ),
        ] {
            for piece in [1, input.len()] {
                assert_eq!(decode(&input, piece).end, Some(Err(status)), "{input:?}");
            }
        }
    }

    #[test]
    fn no_bytes_make_it_panic() {
        for seed in 0..20_000_u64 {
            let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
            let input: Vec<u8> = (0..24)
                .map(|_| {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    state.to_be_bytes()[3]
                })
                .collect();
            assert_eq!(decode(&input, 1), decode(&input, 24));
        }
    }
}
