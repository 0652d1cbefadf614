//! A whole connection: the first byte says how the rest is split. The core says yes to all.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use menzil_amqp::{Action, AmqpSession, SessionConfig};
use menzil_core::{Command, ConnectionOutput, Effect, Output, Reply};
use menzil_model::{ConnectionId, Name};

fuzz_target!(|input: &[u8]| {
    let Some((size, input)) = input.split_first() else {
        return;
    };
    let config = Arc::new(SessionConfig::default());
    let mut session = AmqpSession::new(config, ConnectionId(1), 0);
    for chunk in input.chunks(usize::from(*size).max(1)) {
        let mut out = Vec::new();
        session.receive(0, chunk, &mut || 7, &mut out);
        while !out.is_empty() {
            if !carry_out(&mut session, std::mem::take(&mut out)) {
                break;
            }
            session.receive(0, &[], &mut || 7, &mut out);
        }
        session.inbound.check_invariants();
        session.outbound.check_invariants();
        session.poll_transmit(0);
    }
});

/// True where a question was answered.
fn carry_out(session: &mut AmqpSession, actions: Vec<Action>) -> bool {
    let (mut answered, mut out) = (false, Vec::new());
    for action in actions {
        match action {
            Action::Authenticate { .. } => {
                let user = Ok(Name::from("guest"));
                session.inbound.authenticated(0, user, &mut out);
                answered = true;
            }
            Action::Open { .. } => {
                session.inbound.opened(0, Ok(()), &mut out);
                answered = true;
            }
            Action::Send(outgoing) => session.send(outgoing),
            Action::Command(command) => execute(session, command),
            Action::Close { .. } => {}
        }
    }
    if answered {
        carry_out(session, out);
    }
    answered
}

fn execute(session: &mut AmqpSession, command: Command) {
    let (to, reply) = match command {
        Command::ChannelOpened(to) => (to, Reply::ChannelOpened),
        Command::ChannelClosed(to) => (to, Reply::ChannelClosed),
        Command::Request { channel, .. } => (channel, Reply::QosOk),
        Command::ConnectionClosed { connection } => {
            return session.handle(Effect::Connection {
                to: connection,
                after: 0,
                output: ConnectionOutput::Closed,
            });
        }
        _ => return,
    };
    session.handle(Effect::Channel {
        to,
        after: 0,
        output: Output::Reply(reply),
    });
}
