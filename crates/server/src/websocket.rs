//! WebSocket (RFC 6455), as far as a server of MQTT needs it (MQTT 5.0 §6): the handshake, frames
//! of a client, and frames to it.
//!
//! Invariant: nothing of a message is kept. What a client sends is unmasked where it was read and
//! passed on as it comes, for packets need not begin where frames do (MQTT-6.0.0-2).

#![expect(clippy::mut_mut, reason = "input is a slice that gets shorter")]

mod decode;
mod encode;
mod handshake;

use menzil_model::text_of;

pub(crate) use encode::Frames;

use decode::{Decoder, Event};
use handshake::Handshake;

/// The path that clients ask for.
const PATH: &str = "/mqtt";

/// What comes from a client: first a request, then frames.
pub(crate) struct WebSocket {
    state: State,
    /// A page of another machine has it in a browser of this one.
    is_foreign: bool,
}

enum State {
    Request(Handshake),
    Frames(Decoder),
}

/// What is to be done for what came.
pub(crate) enum Came<'b> {
    /// Bytes of the protocol.
    Bytes(&'b mut [u8]),
    /// That is to be said, see [`Frames::say`].
    Answer(Saying),
    /// The connection ends: with that in the log, and that to be said.
    End(String, Saying),
}

/// What is said beside the protocol.
pub(crate) enum Saying {
    /// The upgrade is granted: bytes that go before all frames.
    Response(Vec<u8>),
    /// It is not: bytes in place of all frames.
    Refusal(Vec<u8>),
    /// The answer to a ping with that payload.
    Pong(Vec<u8>),
    /// The last frame, with that status code.
    Close(u16),
}

impl WebSocket {
    pub(crate) fn new() -> Self {
        Self {
            state: State::Request(Handshake::default()),
            is_foreign: false,
        }
    }

    /// Whether the handshake is over.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.state, State::Frames(_))
    }

    /// Whether it was a page of another machine that asked for the connection: the address of
    /// its browser says nothing of who it is.
    pub(crate) fn is_foreign(&self) -> bool {
        self.is_foreign
    }

    /// The next of what is in the input, which is shortened by it. `None` where more is to come.
    pub(crate) fn next<'b>(&mut self, input: &mut &'b mut [u8]) -> Option<Came<'b>> {
        match &mut self.state {
            State::Request(handshake) => match handshake.take(input)? {
                Ok(accepted) => {
                    self.is_foreign = accepted.is_foreign;
                    self.state = State::Frames(Decoder::default());
                    Some(Came::Answer(Saying::Response(accepted.response)))
                }
                Err(refused) => {
                    let last = Saying::Refusal(refused.response);
                    Some(Came::End(refused.why.to_owned(), last))
                }
            },
            State::Frames(decoder) => Some(match decoder.next(input)? {
                Ok(Event::Bytes(bytes)) => Came::Bytes(bytes),
                Ok(Event::Ping(payload)) => Came::Answer(Saying::Pong(payload)),
                Ok(Event::Close(status, reason)) => {
                    let why = match (status, reason.as_slice()) {
                        (None, _) => "closed by the peer".to_owned(),
                        (Some(status), []) => format!("closed by the peer: {status}"),
                        (Some(status), reason) => {
                            format!("closed by the peer: {status} {}", text_of(reason))
                        }
                    };
                    Came::End(why, Saying::Close(status.unwrap_or(NORMAL)))
                }
                Err(fault) => {
                    let why = format!("broke the rules of WebSocket: {}", fault.what);
                    Came::End(why, Saying::Close(fault.status))
                }
            }),
        }
    }
}

/// Normal closure (RFC 6455 §7.4.1).
pub(crate) const NORMAL: u16 = 1000;
/// Going away.
pub(crate) const GOING_AWAY: u16 = 1001;
