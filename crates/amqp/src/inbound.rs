//! The receiving half of a connection: bytes and time in, actions out.
//!
//! It lacks sockets, clocks and randomness, and it knows no queue: what a method means is the
//! core's business. Every input is a violation at worst, never a panic; what is kept of a
//! connection is bounded by one frame, its channels and the bodies under assembly.
//!
//! ```text
//!  Header ─> Start ─> Authenticating* ─> Tune ─> Open ─> Opening* ─> Running ⇄ Renewing*
//!    │         │            │             │        │        │           │
//!    └─────────┴────────────┴─ Deaf <─────┴────────┴────────┴─ Closing <┤ error, operator
//!                                                              Closed <─┘ connection.close
//!  * paused: input waits until the driver has answered
//! ```

mod assembly;
mod channel;
mod connection;
mod quick;
mod request;

use std::sync::Arc;

use menzil_core::Command;
use menzil_model::{ChannelId, ConnectionId, Name, Table};

use self::channel::Slot;
use crate::action::{Action, CloseReason, Outgoing, Sink};
use crate::by_channel::ByChannel;
use crate::config::SessionConfig;
use crate::frame::{self, FRAME_OVERHEAD_BYTES, Frame, Split};
use crate::handshake::{Capabilities, PROTOCOL_HEADER, PROTOCOL_HEADER_0_9};
use crate::sasl::Mechanism;
use crate::term;
use crate::violation::{Code, Violation};

/// The receiving half of one connection. Belongs to the connection's task.
#[derive(Debug)]
pub struct Inbound {
    config: Arc<SessionConfig>,
    connection: ConnectionId,
    phase: Phase,
    /// Input that is not yet a whole frame, or waits for an answer.
    kept: Vec<u8>,
    frame_bytes_max: u32,
    channel_max: u16,
    heartbeat_ms: u64,
    capabilities: Capabilities,
    client_properties: Table,
    user: Name,
    vhost: Name,
    channels: ByChannel<Slot>,
    /// Bytes of all messages under assembly.
    assembling: u64,
    /// Publishes until it is time to look ahead again.
    foreseen: usize,
    now_ms: u64,
    last_heard_ms: u64,
    is_held: bool,
    /// When the handshake must be through, or the socket ends.
    patience_until_ms: Option<u64>,
    /// The core has this connection.
    is_in_core: bool,
}

/// What the connection waits for.
#[derive(Debug)]
enum Phase {
    /// The protocol header.
    Header,
    /// `connection.start-ok`.
    Start,
    /// The driver's word on a login.
    Authenticating(Mechanism),
    /// `connection.tune-ok`.
    Tune,
    /// `connection.open`.
    Open,
    /// The driver's word on a virtual host.
    Opening,
    /// Anything.
    Running,
    /// The driver's word on a new secret.
    Renewing,
    /// `connection.close-ok`; everything else is ignored.
    Closing(CloseReason),
    /// The end of the socket, after the client's `connection.close`.
    Closed,
    /// The end of the socket; input is not even split into frames.
    Deaf(CloseReason),
    /// Nothing; the driver was told to close.
    Ended,
}

impl Inbound {
    /// A connection whose socket was accepted at that time.
    pub fn new(config: Arc<SessionConfig>, connection: ConnectionId, now_ms: u64) -> Self {
        Self {
            frame_bytes_max: config.frame_bytes_max_before_tune,
            channel_max: config.channel_max,
            patience_until_ms: Some(now_ms + config.handshake_ms),
            config,
            connection,
            phase: Phase::Header,
            kept: Vec::new(),
            heartbeat_ms: 0,
            capabilities: Capabilities::default(),
            client_properties: Table::empty(),
            user: Name::empty(),
            vhost: Name::empty(),
            channels: ByChannel::default(),
            assembling: 0,
            foreseen: 0,
            now_ms,
            last_heard_ms: now_ms,
            is_held: false,
            is_in_core: false,
        }
    }

    /// Takes what was read from the socket, split anywhere. After an answer to
    /// [`Action::Authenticate`] or [`Action::Open`], call it once more (without bytes, if there
    /// are none) to go on with what was kept.
    pub fn receive(
        &mut self,
        now_ms: u64,
        bytes: &[u8],
        entropy: &mut dyn FnMut() -> u128,
        out: &mut dyn Sink,
    ) {
        self.now_ms = now_ms;
        if !bytes.is_empty() {
            self.last_heard_ms = now_ms;
        }
        let mut rest = bytes;
        let mut kept = std::mem::take(&mut self.kept);
        while !kept.is_empty() {
            let used = self.consume(&kept, entropy, out);
            kept.drain(..used);
            if kept.is_empty() || self.is_paused() {
                break;
            }
            // What is kept starts with part of a unit: complete it and look again.
            let lacking = self.unit_bytes(&kept).saturating_sub(kept.len());
            let (taken, left) = rest.split_at_checked(lacking).unwrap_or((rest, &[]));
            if taken.is_empty() {
                break;
            }
            kept.extend_from_slice(taken);
            rest = left;
        }
        if kept.is_empty() && !rest.is_empty() {
            let used = self.consume(rest, entropy, out);
            rest = rest.get(used..).unwrap_or_default();
        }
        kept.extend_from_slice(rest);
        self.kept = kept;
        if self.is_paused() && self.kept.len() > AHEAD_BYTES_MAX {
            self.kept = Vec::new();
            self.end(CloseReason::Ahead, out);
        }
    }

    /// Handles whole units from the start of the input and returns their length.
    fn consume(
        &mut self,
        input: &[u8],
        entropy: &mut dyn FnMut() -> u128,
        out: &mut dyn Sink,
    ) -> usize {
        let mut used = 0;
        while let Some(rest) = input.get(used..).filter(|rest| !rest.is_empty()) {
            if self.is_paused() {
                break;
            }
            let length = match self.phase {
                Phase::Deaf(_) | Phase::Ended => return input.len(),
                Phase::Header => self.protocol_header(rest, out),
                Phase::Start
                | Phase::Authenticating(_)
                | Phase::Tune
                | Phase::Open
                | Phase::Opening
                | Phase::Running
                | Phase::Renewing
                | Phase::Closing(_)
                | Phase::Closed => self.first_frame(rest, entropy, out),
            };
            if length == 0 {
                break;
            }
            used += length;
        }
        used
    }

    /// Bytes of the unit at the start of the input, or as many as it takes to tell.
    fn unit_bytes(&self, input: &[u8]) -> usize {
        if matches!(self.phase, Phase::Header) {
            return PROTOCOL_HEADER.len();
        }
        match frame::split(input, self.frame_bytes_max) {
            Split::Whole(_, length) | Split::Incomplete(length) => length,
            Split::TooLarge { .. } | Split::BadEnd(..) => input.len(),
        }
    }

    fn protocol_header(&mut self, input: &[u8], out: &mut dyn Sink) -> usize {
        let Some(header) = input.first_chunk::<8>() else {
            return 0;
        };
        if *header == PROTOCOL_HEADER || *header == PROTOCOL_HEADER_0_9 {
            self.start(out);
        } else {
            out.action(Action::Send(Outgoing::ProtocolHeader));
            self.end(CloseReason::ProtocolHeader(*header), out);
        }
        header.len()
    }

    fn first_frame(
        &mut self,
        input: &[u8],
        entropy: &mut dyn FnMut() -> u128,
        out: &mut dyn Sink,
    ) -> usize {
        if let Some(length) = self.quick(input, out) {
            return length;
        }
        match frame::split(input, self.frame_bytes_max) {
            Split::Incomplete(_) => 0,
            Split::Whole(frame, length) => {
                if let Err(violation) = self.frame(frame, entropy, out) {
                    self.violated(violation, out);
                }
                length
            }
            Split::TooLarge { kind, size, .. } => {
                let most = self.frame_bytes_max.saturating_sub(8);
                let text = format!(
                    "type {kind}, {}: {{frame_too_large,{size},{most}}}",
                    term::snippet(b"")
                );
                self.lost_sync(Violation::new(Code::FrameError, text), out);
                input.len()
            }
            Split::BadEnd(frame, end) => {
                let (kind, snippet) = (frame.kind, term::snippet(frame.payload));
                let text = format!("type {kind}, {snippet}: {{invalid_frame_end_marker,{end}}}");
                self.lost_sync(Violation::new(Code::FrameError, text), out);
                input.len()
            }
        }
    }

    fn frame(
        &mut self,
        frame: Frame<'_>,
        entropy: &mut dyn FnMut() -> u128,
        out: &mut dyn Sink,
    ) -> Result<(), Violation> {
        match ChannelId::new(frame.channel) {
            None => self.connection_frame(frame, out),
            Some(channel) => match self.phase {
                Phase::Running => self.channel_frame(channel, frame, entropy, out),
                Phase::Closing(_) | Phase::Closed => Ok(()),
                Phase::Header
                | Phase::Start
                | Phase::Authenticating(_)
                | Phase::Tune
                | Phase::Open
                | Phase::Opening
                | Phase::Renewing
                | Phase::Deaf(_)
                | Phase::Ended => Err(channel::unexpected(frame)),
            },
        }
    }

    /// The driver saw a soft [`menzil_core::Output::Refused`] for this channel: it takes nothing
    /// more until the client says close-ok. Call it before the next input.
    pub fn channel_refused(&mut self, channel: ChannelId) {
        if matches!(self.phase, Phase::Running | Phase::Renewing) {
            self.close_slot(channel);
        }
    }

    /// The driver saw [`menzil_core::Reply::ChannelClosed`] for this channel: from the next input
    /// on, the number is free and using it without open is an error. Without this call what
    /// comes on it is ignored.
    pub fn channel_closed(&mut self, channel: ChannelId) {
        if matches!(self.channels.get(channel), Some(Slot::Leaving)) {
            self.channels.remove(channel);
        }
    }

    /// The driver saw a hard [`menzil_core::Output::Refused`]: from now on only close-ok counts.
    pub fn connection_refused(&mut self) {
        if matches!(self.phase, Phase::Running | Phase::Renewing) {
            self.is_in_core = false;
            self.await_close_ok(CloseReason::CoreRefused);
        }
    }

    /// The socket has ended. Returns what the core must still hear.
    #[must_use]
    pub fn disconnected(&mut self) -> Option<Command> {
        self.phase = Phase::Ended;
        self.patience_until_ms = None;
        self.forget_input();
        std::mem::take(&mut self.is_in_core).then_some(Command::ConnectionClosed {
            connection: self.connection,
        })
    }

    /// While held, the driver does not read, and silence of the peer means nothing.
    pub fn hold(&mut self, now_ms: u64, is_held: bool) {
        self.now_ms = now_ms;
        self.last_heard_ms = now_ms;
        self.is_held = is_held;
    }

    /// When [`Inbound::timeout`] wants to be called.
    pub fn deadline(&self) -> Option<u64> {
        match (self.patience_until_ms, self.silence_until_ms()) {
            (Some(patience), Some(silence)) => Some(patience.min(silence)),
            (patience, silence) => patience.or(silence),
        }
    }

    /// When the peer has been silent for two heartbeat intervals.
    fn silence_until_ms(&self) -> Option<u64> {
        let counts = self.heartbeat_ms > 0 && !self.is_held;
        (counts && !matches!(self.phase, Phase::Ended))
            .then_some(self.last_heard_ms + 2 * self.heartbeat_ms)
    }

    /// Time has passed.
    pub fn timeout(&mut self, now_ms: u64, out: &mut dyn Sink) {
        self.now_ms = now_ms;
        if self.kept.is_empty() {
            // An idle connection keeps no buffer.
            self.kept = Vec::new();
        }
        if self.patience_until_ms.is_some_and(|until| now_ms >= until) {
            let phase = std::mem::replace(&mut self.phase, Phase::Ended);
            let reason = phase.reason().unwrap_or(CloseReason::HandshakeTimeout);
            self.end(reason, out);
        } else if self.silence_until_ms().is_some_and(|until| now_ms >= until) {
            self.end(CloseReason::HeartbeatTimeout, out);
        }
    }

    /// False while input waits for an answer of the driver, which should then not read.
    pub fn wants_bytes(&self) -> bool {
        !self.is_paused()
    }

    fn is_paused(&self) -> bool {
        matches!(
            self.phase,
            Phase::Authenticating(_) | Phase::Opening | Phase::Renewing
        )
    }

    /// The virtual host; empty before one is open.
    pub fn vhost(&self) -> &Name {
        &self.vhost
    }

    /// The user; empty before the login.
    pub fn user(&self) -> &Name {
        &self.user
    }

    /// What the client says of itself.
    pub fn client_properties(&self) -> &Table {
        &self.client_properties
    }

    /// Bytes of messages under assembly: bodies so far, property lists, and what each takes itself.
    pub fn assembling_bytes(&self) -> u64 {
        self.assembling
    }

    /// Bytes that are kept because they are no whole frame yet, or wait for an answer.
    pub fn kept_bytes(&self) -> usize {
        self.kept.len()
    }

    /// For tests and the simulation.
    ///
    /// # Panics
    /// Where what is counted is not what is there.
    pub fn check_invariants(&self) {
        let slots = self.channels.values().map(Slot::held_bytes);
        let held: Vec<u64> = slots.filter(|bytes| *bytes > 0).collect();
        let all: u64 = held.iter().sum();
        assert_eq!(self.assembling, all, "bytes under assembly");
        assert!(self.assembling <= self.assembling_bytes_max() || held.len() == 1);
        let most = self.frame_bytes_max as usize + FRAME_OVERHEAD_BYTES;
        assert!(
            self.is_paused() || self.kept.len() < most,
            "more than a frame is kept"
        );
        assert!(self.kept.len() <= AHEAD_BYTES_MAX.max(most));
        let is_over = matches!(self.phase, Phase::Deaf(_) | Phase::Ended);
        assert!(!is_over || self.kept.is_empty() && self.channels.is_empty());
        assert!(!self.is_in_core || matches!(self.phase, Phase::Running | Phase::Renewing));
    }

    fn assembling_bytes_max(&self) -> u64 {
        let config = &self.config;
        config.assembling_bytes_max.max(config.message_bytes_max)
    }
}

/// More than a whole handshake sent ahead.
const AHEAD_BYTES_MAX: usize = 256 << 10;
