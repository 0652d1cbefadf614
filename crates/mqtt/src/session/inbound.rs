//! The receiving half of a connection: bytes and time in, actions out.
//!
//! It lacks sockets, clocks and randomness, and it knows neither subscriptions nor messages: what
//! a packet means is the core's business. Every input is a fault at worst, never a panic; what is
//! kept of a connection is bounded by one packet and its topic aliases.
//!
//! ```text
//!  Connect ─> Authenticating* ⇄ Challenged      Running ⇄ Renewing*
//!     │             │   └──────────│──────────────┤ AUTH
//!     └─────────────┴──────────────┴─> Ended <────┘ DISCONNECT, fault, operator
//!  * paused: input waits until the driver has answered
//! ```

mod alias;
mod assembly;
mod auth;
mod connect;
mod end;
mod packet;
mod publish;

use std::sync::Arc;

use bytes::Bytes;

use menzil_core::{EndReason, SessionRequest};
use menzil_model::{ConnectionId, Name};

use self::alias::TopicAliases;
use self::assembly::Assembly;
use self::auth::Authentication;
use self::connect::Draft;
use super::action::{CloseReason, Sink};
use super::config::MqttConfig;
use crate::codec::{Peer, Rules, Version};

/// The receiving half of one connection. Belongs to the connection's task.
#[derive(Debug)]
pub struct Inbound {
    config: Arc<MqttConfig>,
    connection: ConnectionId,
    phase: Phase,
    /// Input that is not yet a whole packet, or waits for an answer.
    kept: Vec<u8>,
    /// Bytes from its start that are needed to go on.
    needed: usize,
    /// [`Version::V3_1_1`] until CONNECT has said so.
    version: Version,
    rules: Rules,
    client_id: Bytes,
    user: Name,
    /// The client's Maximum Packet Size.
    peer_packet_bytes_max: u32,
    /// The session outlives the connection: an expiry at DISCONNECT may be another than 0.
    has_expiry: bool,
    /// What CONNECT wants, until the client is let in.
    draft: Option<Box<Draft>>,
    authentication: Option<Box<Authentication>>,
    aliases: TopicAliases,
    /// A PUBLISH whose payload is on its way.
    assembly: Option<Box<Assembly>>,
    /// For properties that go on to subscribers.
    scratch: Vec<u8>,
    /// Messages of QoS 1 and 2 that came.
    published: u64,
    /// Those of them that were through when it was last asked.
    answered: u64,
    /// One and a half keep alive intervals; 0 is none.
    silence_ms: u64,
    now_ms: u64,
    last_heard_ms: u64,
    is_held: bool,
    /// When the client must have been let in, or the socket ends.
    patience_until_ms: Option<u64>,
    /// The core has this connection.
    is_in_core: bool,
}

/// What the connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// CONNECT.
    Connect,
    /// The driver's word on a login.
    Authenticating,
    /// The client's answer to a challenge.
    Challenged,
    /// Anything.
    Running,
    /// The driver's word on a new authentication.
    Renewing,
    /// Nothing; the driver was told to close.
    Ended,
}

impl Inbound {
    /// A connection whose socket was accepted at that time.
    pub fn new(config: Arc<MqttConfig>, connection: ConnectionId, now_ms: u64) -> Self {
        let rules = Rules {
            peer: Peer::Client,
            packet_bytes_max: config.connect_bytes_max,
            topic_levels_max: config.topic_levels_max,
            text: config.text,
            has_auth: false,
        };
        Self {
            patience_until_ms: Some(now_ms + config.connect_ms),
            config,
            connection,
            phase: Phase::Connect,
            kept: Vec::new(),
            needed: 0,
            version: Version::V3_1_1,
            rules,
            client_id: Bytes::new(),
            user: Name::empty(),
            peer_packet_bytes_max: u32::MAX,
            has_expiry: false,
            draft: None,
            authentication: None,
            aliases: TopicAliases::default(),
            assembly: None,
            scratch: Vec::new(),
            published: 0,
            answered: 0,
            silence_ms: 0,
            now_ms,
            last_heard_ms: now_ms,
            is_held: false,
            is_in_core: false,
        }
    }

    /// Takes what was read from the socket, split anywhere. After an answer to
    /// [`crate::Action::Authenticate`], call it once more (without bytes, if there are none) to go on
    /// with what was kept.
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
            // What is kept starts with part of a packet: complete it and look again.
            let lacking = self.needed.saturating_sub(kept.len());
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
        if self.phase == Phase::Ended {
            return;
        }
        kept.extend_from_slice(rest);
        self.kept = kept;
        if self.is_paused() && self.kept.len() > AHEAD_BYTES_MAX {
            self.end(CloseReason::Ahead, None, out);
        }
    }

    /// Handles whole packets, and parts of a payload, from the start of the input and returns
    /// their length.
    fn consume(
        &mut self,
        input: &[u8],
        entropy: &mut dyn FnMut() -> u128,
        out: &mut dyn Sink,
    ) -> usize {
        let mut used = 0;
        while let Some(rest) = input.get(used..).filter(|rest| !rest.is_empty()) {
            let length = match self.phase {
                Phase::Authenticating | Phase::Renewing => break,
                Phase::Ended => return input.len(),
                Phase::Connect => self.first_packet(rest, entropy, out),
                Phase::Challenged | Phase::Running if self.assembly.is_some() => {
                    self.payload(rest, out)
                }
                Phase::Challenged | Phase::Running => self.packet(rest, out),
            };
            let length = length.unwrap_or_else(|fault| {
                self.violated(fault, out);
                rest.len()
            });
            if length == 0 {
                break;
            }
            used += length;
        }
        used
    }

    /// The core has ended the session's connection ([`menzil_core::SessionOutput::Ended`]): the
    /// outbound has said so to the client, and the socket is to close.
    pub fn session_ended(&mut self, reason: EndReason, out: &mut dyn Sink) {
        if self.phase != Phase::Ended {
            self.is_in_core = false;
            self.end(CloseReason::Ended(reason), None, out);
        }
    }

    /// The socket has ended. Returns what the core must still hear.
    #[must_use]
    pub fn disconnected(&mut self) -> Option<SessionRequest> {
        self.forget();
        std::mem::take(&mut self.is_in_core).then_some(SessionRequest::Leave {
            with_will: true,
            expiry: None,
        })
    }

    /// While held, the driver does not read, and silence of the client means nothing.
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

    /// When the client has been silent for one and a half keep alive intervals (MQTT-3.1.2-22).
    fn silence_until_ms(&self) -> Option<u64> {
        let counts = self.silence_ms > 0 && !self.is_held && self.phase == Phase::Running;
        counts.then_some(self.last_heard_ms + self.silence_ms)
    }

    /// Time has passed.
    pub fn timeout(&mut self, now_ms: u64, out: &mut dyn Sink) {
        self.now_ms = now_ms;
        if self.kept.is_empty() {
            // An idle connection keeps no buffer.
            self.kept = Vec::new();
            self.scratch = Vec::new();
        }
        let is_past = |until: Option<u64>| until.is_some_and(|until| now_ms >= until);
        if is_past(self.patience_until_ms) {
            self.end(CloseReason::ConnectTimeout, None, out);
        } else if is_past(self.silence_until_ms()) {
            self.keep_alive_is_over(out);
        }
    }

    /// False while input waits for an answer of the driver, which should then not read.
    pub fn wants_bytes(&self) -> bool {
        !self.is_paused()
    }

    fn is_paused(&self) -> bool {
        matches!(self.phase, Phase::Authenticating | Phase::Renewing)
    }

    /// What the connection speaks; `None` before CONNECT.
    pub fn version(&self) -> Option<Version> {
        (self.phase != Phase::Connect).then_some(self.version)
    }

    /// Empty before CONNECT.
    pub fn client_id(&self) -> &Bytes {
        &self.client_id
    }

    /// Whose permissions the client has; empty before it is let in.
    pub fn user(&self) -> &Name {
        &self.user
    }

    /// Which connection it is.
    pub fn connection(&self) -> ConnectionId {
        self.connection
    }

    /// Bytes of a packet that has not all come.
    pub fn assembling_bytes(&self) -> u64 {
        let assembly = self.assembly.as_ref().map_or(0, |held| held.held_bytes());
        self.kept.len() as u64 + assembly
    }

    /// For tests and the simulation.
    ///
    /// # Panics
    /// Where what is counted is not what is there.
    pub fn check_invariants(&self) {
        let is_over = self.phase == Phase::Ended;
        assert!(!is_over || self.kept.is_empty() && self.assembly.is_none());
        assert!(!is_over || !self.is_in_core, "the core was not told");
        let most = self.rules.packet_bytes_max as usize;
        assert!(self.kept.len() <= most.max(AHEAD_BYTES_MAX));
        let waits = matches!(self.phase, Phase::Authenticating | Phase::Challenged);
        assert_eq!(waits, self.draft.is_some(), "{:?}", self.phase);
        assert!(self.aliases.len() <= usize::from(self.config.topic_alias_max) + 1);
    }
}

/// More than a client sends ahead of its CONNACK.
const AHEAD_BYTES_MAX: usize = 256 << 10;
