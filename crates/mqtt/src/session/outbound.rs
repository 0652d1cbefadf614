//! The transmitting half of a connection: effects in, bytes out.

use menzil_core::{Copy, Effect, Outbox, Sending, SessionRequest};

use super::action::Outgoing;
use super::fault::Fault;

/// The transmitting half of one connection.
#[derive(Debug)]
pub struct Outbound {
    outbox: Outbox,
    committed: u64,
    last_sent_ms: u64,
    requests: Vec<SessionRequest>,
    credit: u64,
    answered: u64,
    failure: Option<Fault>,
}

impl Outbound {
    /// For a connection whose socket was accepted at that time.
    pub fn new(now_ms: u64) -> Self {
        Self {
            outbox: Outbox::default(),
            committed: 0,
            last_sent_ms: now_ms,
            requests: Vec::new(),
            credit: 0,
            answered: 0,
            failure: None,
        }
    }

    /// Takes an effect for this connection.
    pub fn handle(&mut self, _effect: Effect) {}

    /// Takes a message: encodes it at once if it may leave now, else keeps it.
    pub fn deliver_copy(&mut self, _copy: &Copy<'_>) {}

    /// Takes what the protocol session itself has to say.
    pub fn send(&mut self, _outgoing: Outgoing) {}

    /// The journal has committed up to that index: what waited for it is released.
    pub fn committed(&mut self, index: u64) {
        self.committed = self.committed.max(index);
    }

    /// The smallest index that something waits for.
    pub fn waits_for(&self) -> Option<u64> {
        None
    }

    /// Encodes what is due; before [`Outbound::hand_over`].
    pub fn flush(&mut self) {}

    /// Hands over what is to be sent, if everything that was handed over before is. The caller
    /// sends it without holding the outbound, then says [`Outbound::has_sent`].
    pub fn hand_over(&mut self, sending: &mut Sending) {
        sending.take_over(&mut self.outbox);
    }

    /// Something that was handed over was sent.
    pub fn has_sent(&mut self, now_ms: u64) {
        self.last_sent_ms = now_ms;
    }

    /// Requests that the core is to hear in the client's name: what is too large for the client
    /// is never sent to it and counts as acknowledged (MQTT-3.1.2-25). To be taken after each
    /// batch of effects and each commit; empty but in that case.
    #[must_use]
    pub fn take_requests(&mut self) -> Vec<SessionRequest> {
        std::mem::take(&mut self.requests)
    }

    /// Messages that were too large for the client.
    pub fn has_requests(&self) -> bool {
        !self.requests.is_empty()
    }

    /// Credit of copies that were dropped instead of sent.
    pub fn take_credit(&mut self) -> u64 {
        std::mem::take(&mut self.credit)
    }

    /// Publishes of this connection that are through, as the client was or will be told: PUBACK,
    /// PUBCOMP and PUBREC with an error.
    pub fn answered(&self) -> u64 {
        self.answered
    }

    /// Bytes that are encoded and not sent; see [`Outbound::flush`].
    pub fn pending_bytes(&self) -> usize {
        self.outbox.pending_bytes()
    }

    /// An idle connection keeps no buffers. To be called now and then, such as with
    /// [`super::Inbound::timeout`].
    pub fn rest(&mut self) {
        self.outbox.shrink();
    }

    /// Why the connection cannot go on. The driver then calls [`super::Inbound::fail`]; nothing
    /// more is sent until it has.
    pub fn failure(&self) -> Option<&Fault> {
        self.failure.as_ref()
    }

    /// For tests and the simulation.
    ///
    /// # Panics
    /// Where something is forgotten.
    pub fn check_invariants(&self) {
        self.outbox.check_invariants();
    }
}
