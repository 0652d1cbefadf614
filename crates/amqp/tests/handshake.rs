//! From the first byte to `connection.open-ok`, and all the ways in which that fails.
#![cfg(test)]

mod peer;

use menzil_amqp::methods::*;
use menzil_amqp::{AuthError, CloseReason, OpenError, PROTOCOL_HEADER, SessionConfig};
use menzil_core::Command;
use menzil_model::{Name, TableBuilder, Value};
use peer::*;

fn broker() -> Broker {
    Broker::new(SessionConfig::default())
}

#[test]
fn a_handshake_sent_ahead_is_answered_step_by_step() {
    let mut broker = broker();
    let said = broker.receive(&handshake());
    let expected = ["connection.start", "connection.tune", "connection.open-ok"];
    assert_eq!(texts(&said), expected);
    assert_eq!(
        broker.logins,
        [("PLAIN".into(), b"guest".to_vec(), b"guest".to_vec())]
    );
    assert!(matches!(
        broker.commands.as_slice(),
        [Command::ConnectionOpened {
            connection: CONNECTION,
            cancel_notify: true,
            ..
        }]
    ));
    let inbound = &broker.session.inbound;
    assert_eq!(
        (inbound.vhost(), inbound.user()),
        (&Name::from("/"), &Name::from("guest"))
    );
    let product = inbound.client_properties().find(b"product");
    assert!(matches!(product, Some(Value::LongString(b"test"))));
}

#[test]
fn the_start_says_what_this_broker_has_and_no_more() {
    let mut broker = broker();
    broker.receive(b"");
    let mut out = Vec::new();
    let mut session = broker.session;
    session.receive(0, &PROTOCOL_HEADER, &mut || 0, &mut out);
    for action in out {
        if let menzil_amqp::Action::Send(outgoing) = action {
            session.send(outgoing);
        }
    }
    let (bytes, _) = session.poll_transmit(0);
    let Method::ConnectionStart(start) =
        Method::decode(ConnectionStart::ID, &bytes[11..bytes.len() - 1]).unwrap()
    else {
        panic!("not a start");
    };
    assert_eq!((start.version_major, start.version_minor), (0, 9));
    assert_eq!(
        (start.mechanisms, start.locales),
        (&b"AMQPLAIN PLAIN"[..], &b"en_US"[..])
    );
    let properties = menzil_model::Table::copy_from(start.server_properties).unwrap();
    let names: Vec<&[u8]> = properties.fields().map(|(name, _)| name).collect();
    assert!(names.is_sorted(), "{names:?}");
    assert!(matches!(
        properties.find(b"product"),
        Some(Value::LongString(b"Menzil"))
    ));
    let Some(Value::Table(capabilities)) = properties.find(b"capabilities") else {
        panic!("no capabilities");
    };
    let names: Vec<&[u8]> = capabilities.map(|(name, _)| name).collect();
    assert!(names.contains(&&b"publisher_confirms"[..]));
    assert!(names.contains(&&b"consumer_priorities"[..]));
    assert!(names.contains(&&b"direct_reply_to"[..]));
}

#[test]
fn only_the_headers_of_0_9_1_and_0_9_are_understood() {
    let mut like_0_9 = broker();
    let said = like_0_9.receive(b"AMQP\x01\x01\x00\x09");
    assert_eq!(texts(&said), ["connection.start"]);
    for other in [
        *b"AMQP\x00\x00\x09\x02",
        *b"AMQP\x03\x01\x00\x00",
        *b"AMQP\x00\x01\x00\x00",
        *b"AMQP\x01\x01\x08\x00",
        *b"GET / HT",
        *b"\x16\x03\x01\x02\x00\x01\x00\x01",
        [0; 8],
    ] {
        let mut broker = broker();
        assert!(broker.receive(&other[..7]).is_empty());
        let said = broker.receive(&other[7..]);
        assert_eq!(texts(&said), ["header [0, 0, 9, 1]"]);
        assert_eq!(broker.closed, [CloseReason::ProtocolHeader(other)]);
        assert!(broker.receive(&handshake()).is_empty());
        assert_eq!(broker.session.inbound.deadline(), None);
    }
}

#[test]
fn amqplain_logs_in_too() {
    let table = TableBuilder::new()
        .field("LOGIN", Value::LongString(b"guest"))
        .field("PASSWORD", Value::LongString(b"pw"))
        .build();
    let mut broker = broker();
    broker.receive(&PROTOCOL_HEADER);
    let said = broker.receive(&start_ok(&[], "AMQPLAIN", table.as_bytes()));
    assert_eq!(texts(&said), ["connection.tune"]);
    assert_eq!(
        broker.logins,
        [("AMQPLAIN".into(), b"guest".to_vec(), b"pw".to_vec())]
    );
}

#[test]
fn a_refused_login_is_told_to_those_who_understand() {
    let words = "connection.close 403 ACCESS_REFUSED - Login was refused using authentication \
                 mechanism PLAIN. For details see the broker logfile. [0.0]";
    for (capabilities, told) in [(&ALL[..], vec![words]), (&[], vec![])] {
        let mut broker = broker();
        broker.login = Err(AuthError::Refused);
        broker.receive(&PROTOCOL_HEADER);
        let said = broker.receive(&start_ok(capabilities, "PLAIN", b"\0guest\0wrong"));
        assert_eq!(texts(&said), told);
        assert!(broker.closed.is_empty());
        // Whatever comes, the next attempt is not sooner than in three seconds.
        assert!(broker.receive(&tune_ok(10, 8192, 0)).is_empty());
        assert_eq!(broker.session.inbound.deadline(), Some(3000));
        broker.wait();
        assert!(matches!(
            broker.closed.as_slice(),
            [CloseReason::Refused(_)]
        ));
        assert!(broker.commands.is_empty());
    }
}

/// What goes wrong before the login is not answered at all, only with delay.
#[test]
fn a_stranger_is_told_nothing() {
    let strange: [Vec<u8>; 8] = [
        start_ok(&ALL, "RABBIT-CR-DEMO", b""),
        start_ok(&ALL, "PLAIN", b"guest"),
        connection_open("/"),
        channel_open(1),
        raw(1, 0, b"\0\x0a\0\x0b\x01"),
        raw(1, 0, b"\x01\0\x01\0"),
        raw(9, 0, b""),
        vec![1, 0, 0, 0, 0, 0x20, 1],
    ];
    for bytes in strange {
        let mut broker = broker();
        broker.receive(&PROTOCOL_HEADER);
        assert_eq!(broker.receive(&bytes), [], "{bytes:?}");
        assert!(broker.logins.is_empty() && broker.closed.is_empty());
        assert_eq!(broker.receive(&start_ok(&[], "PLAIN", b"\0a\0b")), []);
        assert_eq!(broker.wait(), []);
        assert_eq!(broker.closed.len(), 1, "{bytes:?}");
    }
}

#[test]
fn limits_above_the_offer_end_the_handshake() {
    let mut broker = broker();
    broker.receive(&PROTOCOL_HEADER);
    broker.receive(&start_ok(&ALL, "PLAIN", b"\0guest\0guest"));
    let said = broker.receive(&[tune_ok(4096, 8192, 0), connection_open("/")].concat());
    assert_eq!(
        texts(&said),
        [
            "connection.close 530 NOT_ALLOWED - negotiated channel_max = 4096 is higher than the \
             maximum allowed value (2047) [10.30]"
        ]
    );
    assert_eq!(broker.receive(&connection_close_ok()), []);
    assert!(matches!(
        broker.closed.as_slice(),
        [CloseReason::Refused(_)]
    ));
}

#[test]
fn a_virtual_host_that_cannot_be_opened_is_told() {
    let table = [
        (OpenError::NotFound, "530 NOT_ALLOWED - vhost v not found"),
        (
            OpenError::Refused,
            "530 NOT_ALLOWED - access to vhost 'v' refused for user 'guest'",
        ),
        (
            OpenError::Down,
            "541 INTERNAL_ERROR - access to vhost 'v' refused for user 'guest': vhost 'v' is down",
        ),
        (
            OpenError::VhostLimit(5),
            "530 NOT_ALLOWED - access to vhost 'v' refused for user 'guest': connection limit (5) \
             is reached",
        ),
        (
            OpenError::UserLimit(6),
            "530 NOT_ALLOWED - connection refused for user 'guest': user connection limit (6) is \
             reached",
        ),
        (
            OpenError::NodeLimit(7),
            "530 NOT_ALLOWED - connection refused: node connection limit (7) is reached",
        ),
    ];
    for (error, words) in table {
        let mut broker = broker();
        broker.vhost = Err(error);
        broker.receive(&PROTOCOL_HEADER);
        broker.receive(&start_ok(&ALL, "PLAIN", b"\0guest\0guest"));
        let said = broker.receive(&[tune_ok(10, 4096, 0), connection_open("v")].concat());
        assert_eq!(texts(&said), [format!("connection.close {words} [10.40]")]);
        assert!(broker.commands.is_empty() && broker.session.inbound.vhost().is_empty());
        broker.receive(&connection_close_ok());
        assert_eq!(broker.closed.len(), 1);
    }
}

#[test]
fn a_handshake_has_ten_seconds() {
    for steps in 0..4 {
        let mut broker = broker();
        let said = [
            PROTOCOL_HEADER.to_vec(),
            start_ok(&ALL, "PLAIN", b"\0guest\0guest"),
            tune_ok(10, 4096, 0),
        ];
        for step in said.iter().take(steps) {
            broker.receive(step);
        }
        assert_eq!(broker.session.inbound.deadline(), Some(10_000));
        assert_eq!(broker.wait(), []);
        assert_eq!(broker.closed, [CloseReason::HandshakeTimeout]);
    }
    let mut broker = broker();
    broker.receive(&handshake());
    assert_eq!(
        broker.session.inbound.deadline(),
        Some(120_000),
        "two heartbeats"
    );
}

#[test]
fn input_that_waits_for_an_answer_is_bounded() {
    let mut broker = broker();
    let mut out = Vec::new();
    let session = &mut broker.session;
    let first = [PROTOCOL_HEADER.to_vec(), start_ok(&ALL, "PLAIN", b"\0a\0b")].concat();
    session.receive(0, &first, &mut || 0, &mut out);
    assert!(!session.inbound.wants_bytes());
    for _ in 0..1000 {
        session.receive(0, &[0; 4096], &mut || 0, &mut out);
    }
    broker.carry_out(out);
    assert_eq!(broker.closed, [CloseReason::Ahead]);
}

#[test]
fn frames_before_the_tune_are_small() {
    let mut broker = broker();
    broker.receive(&PROTOCOL_HEADER);
    let mut response = b"\0guest\0".to_vec();
    response.resize(7900, b'x');
    let said = broker.receive(&start_ok(&ALL, "PLAIN", &response));
    assert_eq!(texts(&said), ["connection.tune"]);
}
