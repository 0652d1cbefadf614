//! Frames to a client: what waits for the socket, put into frames as it leaves.

use std::io::IoSlice;

use menzil_core::Sending;

use super::Saying;
use super::decode::{BINARY, CLOSE, PONG};

/// What is on its way into the socket.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    /// The response of the handshake, or whole frames.
    bytes: Vec<u8>,
    /// How much of it is gone.
    sent: usize,
    /// The last ping that is not answered; those before it need no answer (RFC 6455 §5.5.3).
    pong: Option<Vec<u8>>,
    close: Option<u16>,
    is_closed: bool,
}

impl Frames {
    /// Says something, control frames between those of the protocol and a close behind them.
    pub(crate) fn say(&mut self, saying: Saying) {
        match saying {
            Saying::Response(response) => self.bytes.extend_from_slice(&response),
            Saying::Refusal(response) => {
                self.bytes.extend_from_slice(&response);
                self.is_closed = true;
            }
            Saying::Pong(payload) => self.pong = Some(payload),
            Saying::Close(status) => {
                self.close.get_or_insert(status);
            }
        }
    }

    /// Bytes beside those of the protocol that wait.
    pub(crate) fn pending_bytes(&self) -> usize {
        let rest = self.bytes.len() - self.sent;
        if self.is_closed {
            return rest;
        }
        let pong = self.pong.as_ref().map_or(0, |payload| payload.len() + 2);
        rest + pong + self.close.map_or(0, |_| 4)
    }

    /// What to send next.
    pub(crate) fn transmit(&self) -> &[u8] {
        self.bytes.get(self.sent..).unwrap_or_default()
    }

    /// That many bytes were sent.
    pub(crate) fn advance(&mut self, count: usize) {
        self.sent = (self.sent + count).min(self.bytes.len());
    }

    /// Makes the next frames if those before are gone: of control frames, and of what waits of the
    /// protocol, which is taken out. Returns the credit of that.
    pub(crate) fn fill(&mut self, sending: &mut Sending) -> u64 {
        if self.sent < self.bytes.len() || self.is_closed {
            return 0;
        }
        self.bytes.clear();
        self.sent = 0;
        if let Some(payload) = self.pong.take() {
            put(PONG, &payload, &mut self.bytes);
        }
        if sending.pending_bytes() > 0 {
            return self.fill_from(sending);
        }
        if let Some(status) = self.close {
            put(CLOSE, &status.to_be_bytes(), &mut self.bytes);
            self.is_closed = true;
        }
        0
    }

    fn fill_from(&mut self, sending: &mut Sending) -> u64 {
        let count = sending.pending_bytes().min(FRAME_BYTES_MAX);
        header(BINARY, count, &mut self.bytes);
        let (mut left, mut credit) = (count, 0);
        while left > 0 {
            let mut slices: Vec<IoSlice<'_>> = Vec::new();
            sending.transmit(&mut slices);
            let Some(part) = slices.first() else { break };
            let part = part.get(..left).unwrap_or(part);
            let length = part.len();
            self.bytes.extend_from_slice(part);
            left -= length;
            credit += sending.advance(length);
        }
        credit
    }

    /// An idle connection keeps no buffer.
    pub(crate) fn shrink(&mut self) {
        if self.sent == self.bytes.len() {
            self.bytes = Vec::new();
            self.sent = 0;
        }
    }
}

fn put(opcode: u8, payload: &[u8], out: &mut Vec<u8>) {
    header(opcode, payload.len(), out);
    out.extend_from_slice(payload);
}

fn header(opcode: u8, length: usize, out: &mut Vec<u8>) {
    out.push(FINAL | opcode);
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(length @ ..126), _) => out.push(length),
        (_, Ok(length)) => {
            out.push(126);
            out.extend_from_slice(&length.to_be_bytes());
        }
        (_, Err(_)) => {
            out.push(127);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
}

const FINAL: u8 = 0x80;
/// Clients have limits on messages, some of them 1 MiB.
const FRAME_BYTES_MAX: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use menzil_core::Outbox;

    use super::*;

    fn sending(bytes: &[u8]) -> Sending {
        let (mut outbox, mut sending) = (Outbox::default(), Sending::default());
        outbox.write(|out| out.extend_from_slice(bytes));
        sending.take_over(&mut outbox);
        sending
    }

    /// Everything that leaves, a few bytes at a time.
    fn drain(frames: &mut Frames, sending: &mut Sending) -> Vec<u8> {
        let mut out = Vec::new();
        loop {
            frames.fill(sending);
            let next = frames.transmit();
            if next.is_empty() {
                assert_eq!((frames.pending_bytes(), sending.pending_bytes()), (0, 0));
                return out;
            }
            let count = next.len().min(1000);
            out.extend_from_slice(&next[..count]);
            frames.advance(count);
        }
    }

    #[test]
    fn bytes_leave_in_frames_with_pongs_between_and_the_close_behind() {
        let mut frames = Frames::default();
        frames.say(Saying::Response(b"HTTP".to_vec()));
        let mut waits = sending(&[7; 200]);
        frames.say(Saying::Close(1000));
        frames.say(Saying::Pong(b"a".to_vec()));
        frames.say(Saying::Pong(b"b".to_vec()));
        let out = drain(&mut frames, &mut waits);
        let mut expected = b"HTTP\x8A\x01b\x82\x7E\x00\xC8".to_vec();
        expected.extend_from_slice(&[7; 200]);
        expected.extend_from_slice(&[0x88, 2, 0x03, 0xE8]);
        assert_eq!(out, expected);
        assert_eq!(drain(&mut frames, &mut sending(b"")), b"");
    }

    #[test]
    fn much_leaves_in_frames_that_clients_take() {
        let bytes = vec![1; FRAME_BYTES_MAX + 3];
        let out = drain(&mut Frames::default(), &mut sending(&bytes));
        assert_eq!(out[..10], [0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0]);
        assert_eq!(out[10 + FRAME_BYTES_MAX..], [0x82, 3, 1, 1, 1]);
    }

    #[test]
    fn a_refusal_is_all_that_is_sent() {
        let mut frames = Frames::default();
        frames.say(Saying::Refusal(b"no".to_vec()));
        frames.say(Saying::Close(1000));
        frames.say(Saying::Pong(Vec::new()));
        assert_eq!(drain(&mut frames, &mut sending(b"")), b"no");
    }
}
