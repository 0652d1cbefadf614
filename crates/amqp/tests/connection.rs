//! The open connection: close from either side, heartbeats, new secrets, blocking.
#![cfg(test)]

mod peer;

use menzil_amqp::frame::HEARTBEAT;
use menzil_amqp::methods::*;
use menzil_amqp::{AuthError, CloseReason, Outgoing, SessionConfig};
use menzil_core::{Command, ConnectionOutput, Effect};
use menzil_model::Name;
use peer::*;

fn running() -> Broker {
    Broker::running(SessionConfig::default())
}

#[test]
fn a_close_is_answered_when_the_core_has_let_go() {
    let mut broker = running();
    let said = broker.receive(&[connection_close(), channel_open(1)].concat());
    assert_eq!(texts(&said), ["connection.close-ok"]);
    assert!(matches!(
        broker.commands.as_slice(),
        [Command::ConnectionClosed { .. }]
    ));
    assert!(broker.session.inbound.disconnected().is_none());
    let mut silent = running();
    silent.receive(&connection_close());
    assert_eq!(silent.session.inbound.deadline(), Some(30_000));
    silent.wait();
    assert_eq!(silent.closed, [CloseReason::Closed]);
}

#[test]
fn close_ok_waits_for_its_commit() {
    let mut broker = running();
    let outbound = &mut broker.session.outbound;
    outbound.handle(Effect::Connection {
        to: CONNECTION,
        after: 9,
        output: ConnectionOutput::Closed,
    });
    assert_eq!(outbound.waits_for(), Some(9));
    outbound.committed(8);
    assert_eq!(broker.said(), []);
    broker.session.committed(9);
    assert_eq!(texts(&broker.said()), ["connection.close-ok"]);
    assert_eq!(broker.session.outbound.waits_for(), None);
}

#[test]
fn the_operator_closes_with_320() {
    let mut broker = running();
    let mut out = Vec::new();
    let text = "broker forced connection closure with reason 'shutdown'";
    broker.session.inbound.close(0, text, &mut out);
    broker.carry_out(out);
    let said = broker.said();
    assert_eq!(
        texts(&said),
        [format!(
            "connection.close 320 CONNECTION_FORCED - {text} [0.0]"
        )]
    );
    // Both close at once: each is answered.
    assert_eq!(
        texts(&broker.receive(&connection_close())),
        ["connection.close-ok"]
    );
    assert_eq!(broker.receive(&connection_close_ok()), []);
    assert!(matches!(
        broker.closed.as_slice(),
        [CloseReason::Violated(_)]
    ));
    assert_eq!(broker.commands.len(), 1);
}

#[test]
fn a_lost_socket_is_told_to_the_core_once() {
    let mut broker = running();
    let command = broker.session.inbound.disconnected();
    assert!(matches!(command, Some(Command::ConnectionClosed { .. })));
    assert!(broker.session.inbound.disconnected().is_none());
    assert_eq!(broker.receive(&channel_open(1)), []);
}

#[test]
fn silence_ends_the_connection_and_any_byte_breaks_it() {
    let mut broker = running();
    broker.now = 119_000;
    broker.receive(&raw(HEARTBEAT, 0, b"")[..3]);
    assert_eq!(broker.session.inbound.deadline(), Some(239_000));
    broker.wait();
    assert_eq!(broker.closed, [CloseReason::HeartbeatTimeout]);
    assert!(matches!(
        broker.commands.as_slice(),
        [Command::ConnectionClosed { .. }]
    ));
}

#[test]
fn a_held_connection_may_be_silent() {
    let mut broker = running();
    broker.session.inbound.hold(0, true);
    assert_eq!(broker.session.inbound.deadline(), None);
    broker.session.inbound.hold(500_000, false);
    assert_eq!(broker.session.inbound.deadline(), Some(620_000));
}

#[test]
fn heartbeats_fill_the_silence_of_this_side() {
    let mut broker = running();
    assert_eq!(broker.session.outbound.heartbeat_due(), Some(30_000));
    broker.session.outbound.heartbeat(29_999);
    assert_eq!(broker.said(), []);
    broker.session.outbound.heartbeat(30_000);
    broker.now = 30_000;
    assert_eq!(broker.said(), [(0, "heartbeat".to_owned())]);
    broker.now = 50_000;
    broker.receive(&channel_open(1));
    assert_eq!(broker.session.outbound.heartbeat_due(), Some(80_000));
    let mut none = Broker::new(SessionConfig::default());
    none.receive(&[0; 0]);
    assert_eq!(none.session.outbound.heartbeat_due(), None);
}

#[test]
fn a_new_secret_is_checked_like_a_login() {
    let update = ConnectionUpdateSecret {
        new_secret: b"fresh",
        reason: b"expired",
    };
    let update = method(0, &Method::ConnectionUpdateSecret(update));
    let mut broker = running();
    // What follows waits for the answer, and is not lost.
    let said = broker.receive(&[update.clone(), channel_open(3)].concat());
    assert_eq!(
        texts(&said),
        ["connection.update-secret-ok", "channel.open-ok"]
    );
    let asked = ("PLAIN".into(), b"guest".to_vec(), b"fresh".to_vec());
    assert_eq!(broker.logins.last(), Some(&asked));
    broker.login = Err(AuthError::Refused);
    let said = broker.receive(&update);
    let words = "connection.close 530 NOT_ALLOWED - New secret was refused by one of the backends \
                 [10.70]";
    assert_eq!(texts(&said), [words]);
}

#[test]
fn blocking_is_told_to_those_who_understand() {
    let reason = || Outgoing::Blocked {
        reason: Name::from("low on memory"),
    };
    let mut broker = running();
    broker.session.send(reason());
    broker.session.send(Outgoing::Unblocked);
    assert_eq!(
        texts(&broker.said()),
        ["connection.blocked", "connection.unblocked"]
    );
    let mut old = Broker::new(SessionConfig::default());
    old.receive(
        &[
            menzil_amqp::PROTOCOL_HEADER.to_vec(),
            start_ok(&[], "PLAIN", b"\0guest\0guest"),
            tune_ok(10, 4096, 0),
            connection_open("/"),
        ]
        .concat(),
    );
    old.session.send(reason());
    assert_eq!(old.said(), []);
}
