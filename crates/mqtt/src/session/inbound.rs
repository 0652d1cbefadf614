//! The receiving half of a connection: bytes and time in, actions out.

use std::sync::Arc;

use menzil_core::{EndReason, SessionRequest};
use menzil_model::{ConnectionId, Name};

use super::action::{Action, Admission, CloseReason, Sink};
use super::config::MqttConfig;
use super::fault::Fault;
use crate::codec::{ReasonCode, Version};

/// The receiving half of one connection. Belongs to the connection's task.
#[derive(Debug)]
pub struct Inbound {
    config: Arc<MqttConfig>,
    connection: ConnectionId,
    client_id: bytes::Bytes,
    user: Name,
    version: Option<Version>,
    now_ms: u64,
    is_in_core: bool,
}

impl Inbound {
    /// A connection whose socket was accepted at that time.
    pub fn new(config: Arc<MqttConfig>, connection: ConnectionId, now_ms: u64) -> Self {
        Self {
            config,
            connection,
            client_id: bytes::Bytes::new(),
            user: Name::empty(),
            version: None,
            now_ms,
            is_in_core: false,
        }
    }

    /// Takes what was read from the socket, split anywhere. After an answer to
    /// [`Action::Authenticate`], call it once more (without bytes, if there are none) to go on
    /// with what was kept.
    pub fn receive(
        &mut self,
        now_ms: u64,
        _bytes: &[u8],
        _entropy: &mut dyn FnMut() -> u128,
        _out: &mut dyn Sink,
    ) {
        self.now_ms = now_ms;
    }

    /// The driver's answer to [`Action::Authenticate`]; then call [`Inbound::receive`].
    pub fn authenticated(&mut self, now_ms: u64, _admission: Admission, _out: &mut dyn Sink) {
        self.now_ms = now_ms;
    }

    /// The core has ended the session's connection ([`menzil_core::SessionOutput::Ended`]): the
    /// outbound has said so to the client, and the socket is to close.
    pub fn session_ended(&mut self, reason: EndReason, out: &mut dyn Sink) {
        self.is_in_core = false;
        let reason = CloseReason::Ended(reason);
        out.action(Action::Close { reason });
    }

    /// The transmitting half cannot go on: see [`super::Outbound::failure`].
    pub fn fail(&mut self, now_ms: u64, _fault: Fault, _out: &mut dyn Sink) {
        self.now_ms = now_ms;
    }

    /// The server, or an operator, ends the connection: shutting down, administrative action,
    /// use another server and server moved (with the server reference of the settings), maximum
    /// connect time. The will is published.
    pub fn close(&mut self, now_ms: u64, _reason: ReasonCode, _out: &mut dyn Sink) {
        self.now_ms = now_ms;
    }

    /// The socket has ended. Returns what the core must still hear.
    #[must_use]
    pub fn disconnected(&mut self) -> Option<SessionRequest> {
        std::mem::take(&mut self.is_in_core).then_some(SessionRequest::Leave {
            with_will: true,
            expiry: None,
        })
    }

    /// While held, the driver does not read, and silence of the client means nothing.
    pub fn hold(&mut self, now_ms: u64, _is_held: bool) {
        self.now_ms = now_ms;
    }

    /// When [`Inbound::timeout`] wants to be called.
    pub fn deadline(&self) -> Option<u64> {
        Some(self.now_ms + self.config.connect_ms)
    }

    /// Time has passed.
    pub fn timeout(&mut self, now_ms: u64, _out: &mut dyn Sink) {
        self.now_ms = now_ms;
    }

    /// False while input waits for an answer of the driver, which should then not read.
    pub fn wants_bytes(&self) -> bool {
        true
    }

    /// What the connection speaks; `None` before CONNECT.
    pub fn version(&self) -> Option<Version> {
        self.version
    }

    /// Empty before CONNECT.
    pub fn client_id(&self) -> &bytes::Bytes {
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
        0
    }

    /// For tests and the simulation.
    ///
    /// # Panics
    /// Where what is counted is not what is there.
    pub fn check_invariants(&self) {}
}
