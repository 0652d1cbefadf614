//! A connection that speaks AMQP: a client's codec, the broker's protocol session, and bytes
//! between them that come in pieces.

use std::sync::Arc;

use menzil_amqp::{Action, AmqpSession, Outgoing, SessionConfig};
use menzil_core::{Command, Effect};
use menzil_model::{ConnectionId, Name};

use crate::codec::Codec;
use crate::prng::Prng;

/// What the broker's side has to do next.
#[derive(Debug)]
pub(crate) enum Task {
    /// Execute it.
    Command(Command),
    /// Give it to the session to send.
    Send(Outgoing),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) client: Codec,
    session: AmqpSession,
    /// From the broker, not yet with the client.
    down: Vec<u8>,
    hasty: bool,
}

impl Wire {
    pub(crate) fn new(id: ConnectionId, now: u64, chunk_bytes: usize, hasty: bool) -> Self {
        let config = SessionConfig {
            chunk_bytes,
            handshake_ms: 1 << 40,
            ..SessionConfig::default()
        };
        Self {
            client: Codec::new(),
            session: AmqpSession::new(Arc::new(config), id, now),
            down: Vec::new(),
            hasty,
        }
    }

    /// Some bytes of the client arrive.
    pub(crate) fn arrive(&mut self, now: u64, prng: &mut Prng) -> Vec<Task> {
        let count = piece(self.client.up_bytes(), prng);
        let bytes = self.client.take_up(count);
        let mut actions = Vec::new();
        let mut entropy = prng.clone();
        prng.next();
        let mut random = || u128::from(entropy.next()) << 64 | u128::from(entropy.next());
        self.session.receive(now, &bytes, &mut random, &mut actions);
        let mut tasks = Vec::new();
        while !actions.is_empty() {
            for action in std::mem::take(&mut actions) {
                match action {
                    Action::Command(command) => tasks.push(Task::Command(command)),
                    Action::Send(outgoing) => tasks.push(Task::Send(outgoing)),
                    Action::Authenticate { .. } => {
                        let user = Ok(Name::from("guest"));
                        self.session.inbound.authenticated(now, user, &mut actions);
                        self.session.receive(now, &[], &mut random, &mut actions);
                    }
                    Action::Open { .. } => {
                        self.session.inbound.opened(now, Ok(()), &mut actions);
                        self.session.receive(now, &[], &mut random, &mut actions);
                    }
                    Action::Close { .. } => {}
                }
            }
        }
        self.session.inbound.check_invariants();
        tasks
    }

    pub(crate) fn send(&mut self, outgoing: Outgoing) {
        self.session.send(outgoing);
    }

    pub(crate) fn handle(&mut self, mut effect: Effect) {
        if let Effect::Channel {
            after,
            output: menzil_core::Output::Confirm { .. },
            ..
        } = &mut effect
            && self.hasty
        {
            *after = 0;
        }
        self.session.handle(effect);
    }

    /// Sends what may go out. Returns the credit of deliveries in it.
    pub(crate) fn release(&mut self, now: u64, committed: u64) -> u64 {
        self.session.committed(committed);
        let (bytes, credit) = self.session.poll_transmit(now);
        self.session.outbound.check_invariants();
        self.down.extend_from_slice(&bytes);
        credit
    }

    pub(crate) fn waits(&self) -> bool {
        self.session.outbound.waits_for().is_some()
    }

    pub(crate) fn has_down(&self) -> bool {
        !self.down.is_empty() || self.client.has_heard()
    }

    /// Some bytes of the broker arrive.
    pub(crate) fn flow_down(&mut self, prng: &mut Prng) {
        let count = piece(self.down.len(), prng);
        let bytes: Vec<u8> = self.down.drain(..count).collect();
        self.client.receive(&bytes);
    }

    /// The socket has ended. Returns what the core must still hear.
    pub(crate) fn disconnected(&mut self) -> Option<Command> {
        self.session.inbound.disconnected()
    }
}

/// How many of so many bytes come together.
fn piece(bytes: usize, prng: &mut Prng) -> usize {
    let most = match prng.below(8) {
        0 => 1,
        1 => 20,
        2..=4 => 500,
        _ => 60_000,
    };
    (1 + prng.index(most)).min(bytes)
}
