//! Both halves of a connection in one, for tests and the simulation, where no lock stands
//! between them.

use std::io::IoSlice;
use std::sync::Arc;

use menzil_core::{Effect, Output, Reply};
use menzil_model::ConnectionId;

use crate::action::{Outgoing, Sink};
use crate::config::SessionConfig;
use crate::inbound::Inbound;
use crate::outbound::Outbound;

/// One connection's protocol session.
#[derive(Debug)]
pub struct AmqpSession {
    /// The receiving half.
    pub inbound: Inbound,
    /// The transmitting half.
    pub outbound: Outbound,
}

impl AmqpSession {
    /// A connection whose socket was accepted at that time.
    pub fn new(config: Arc<SessionConfig>, connection: ConnectionId, now_ms: u64) -> Self {
        Self {
            inbound: Inbound::new(config, connection, now_ms),
            outbound: Outbound::new(now_ms),
        }
    }

    /// As [`Inbound::receive`]. The caller passes each [`Action::Send`] to
    /// [`AmqpSession::send`], in order with the effects of the commands.
    pub fn receive(
        &mut self,
        now_ms: u64,
        bytes: &[u8],
        entropy: &mut dyn FnMut() -> u128,
        out: &mut dyn Sink,
    ) {
        self.inbound.receive(now_ms, bytes, entropy, out);
    }

    /// As [`Outbound::handle`]; the receiving half hears of refusals and closed channels.
    pub fn handle(&mut self, effect: Effect) {
        if let Effect::Channel { to, output, .. } = &effect {
            match output {
                Output::Refused { refusal, .. } if refusal.is_hard() => {
                    self.inbound.connection_refused();
                }
                Output::Refused { .. } => self.inbound.channel_refused(to.channel),
                Output::Reply(Reply::ChannelClosed) => self.inbound.channel_closed(to.channel),
                Output::Reply(_)
                | Output::Deliver { .. }
                | Output::GetOk { .. }
                | Output::Return { .. }
                | Output::Confirm { .. }
                | Output::Cancelled { .. } => {}
            }
        }
        self.outbound.handle(effect);
    }

    /// As [`Outbound::send`].
    pub fn send(&mut self, outgoing: Outgoing) {
        self.outbound.send(outgoing);
    }

    /// As [`Outbound::committed`].
    pub fn committed(&mut self, index: u64) {
        self.outbound.committed(index);
    }

    /// Takes everything that can be sent now, and the credit of the deliveries in it.
    pub fn poll_transmit(&mut self, now_ms: u64) -> (Vec<u8>, u64) {
        self.outbound.flush();
        let (mut bytes, mut credit) = (Vec::new(), self.outbound.advance(now_ms, 0));
        while self.outbound.pending_bytes() > 0 {
            let mut slices: Vec<IoSlice<'_>> = Vec::new();
            self.outbound.transmit(&mut slices);
            let before = bytes.len();
            for slice in &slices {
                bytes.extend_from_slice(slice);
            }
            credit += self.outbound.advance(now_ms, bytes.len() - before);
        }
        (bytes, credit)
    }
}
