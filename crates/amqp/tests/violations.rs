//! What ends a channel or the connection, in RabbitMQ's words.
#![cfg(test)]

mod peer;

use menzil_amqp::frame::{BODY, FRAME_OVERHEAD_BYTES, HEADER, HEARTBEAT, METHOD};
use menzil_amqp::methods::*;
use menzil_amqp::{CloseReason, SessionConfig};
use menzil_core::{Command, Output, Refusal};
use menzil_model::{Name, TableBuilder, Value};
use peer::*;

/// What an open channel 1 and these bytes lead to.
fn answer(bytes: &[u8]) -> Vec<(u16, String)> {
    Broker::open().receive(bytes)
}

/// Each row ends the connection with those words.
#[test]
fn connection_exceptions() {
    let deliver = BasicDeliver {
        consumer_tag: b"t",
        delivery_tag: 1,
        redelivered: false,
        exchange: b"",
        routing_key: b"",
    };
    let flow = |active| method(1, &Method::ChannelFlow(ChannelFlow { active }));
    let mut nested = menzil_model::Table::empty();
    for _ in 0..70 {
        nested = TableBuilder::new()
            .field("n", Value::Table(nested.fields()))
            .build();
    }
    let mut deep = vec![0, 50, 0, 10, 0, 0, 1, b'q', 0];
    deep.extend(
        u32::try_from(nested.as_bytes().len())
            .unwrap()
            .to_be_bytes(),
    );
    deep.extend(nested.as_bytes());
    let in_header = [publish_method(1, false), header(1, 3)].concat();
    let table: Vec<(&str, Vec<u8>, &str)> = vec![
        (
            "a method on a channel that is not open",
            publish_method(2, false),
            "504 CHANNEL_ERROR - expected 'channel.open' [60.40]",
        ),
        (
            "close-ok on a channel that is not open",
            channel_close_ok(2),
            "504 CHANNEL_ERROR - expected 'channel.open' [20.41]",
        ),
        (
            "a body on a channel that is not open",
            body(2, b"x"),
            "505 UNEXPECTED_FRAME - expected method frame, got non method frame instead [0.0]",
        ),
        (
            "open twice",
            channel_open(1),
            "504 CHANNEL_ERROR - second 'channel.open' seen [20.10]",
        ),
        (
            "a header without method",
            header(1, 3),
            "505 UNEXPECTED_FRAME - expected method frame, got non method frame instead [0.0]",
        ),
        (
            "a body without method",
            body(1, b"x"),
            "505 UNEXPECTED_FRAME - expected method frame, got non method frame instead [0.0]",
        ),
        (
            "a body where the header belongs",
            [publish_method(1, false), body(1, b"x")].concat(),
            "505 UNEXPECTED_FRAME - expected content header for class 60, got non content header \
             frame instead [60.40]",
        ),
        (
            "a method where the header belongs",
            [publish_method(1, false), channel_close(1)].concat(),
            "505 UNEXPECTED_FRAME - expected content header for class 60, got non content header \
             frame instead [60.40]",
        ),
        (
            "a header of another class",
            [
                publish_method(1, false),
                raw(HEADER, 1, &header_payload(50, 0, 3, b"\0\0")),
            ]
            .concat(),
            "505 UNEXPECTED_FRAME - expected content header for class 60, got one for class 50 \
             instead [60.40]",
        ),
        (
            "a header with weight",
            [
                publish_method(1, false),
                raw(HEADER, 1, &header_payload(60, 1, 3, b"\0\0")),
            ]
            .concat(),
            "505 UNEXPECTED_FRAME - expected content header for class 60, got non content header \
             frame instead [60.40]",
        ),
        (
            "a method where the body belongs",
            [in_header.clone(), publish_method(1, false)].concat(),
            "505 UNEXPECTED_FRAME - expected content body, got non content body frame instead \
             [60.40]",
        ),
        (
            "a second header",
            [in_header.clone(), header(1, 3)].concat(),
            "505 UNEXPECTED_FRAME - expected content body, got non content body frame instead \
             [60.40]",
        ),
        (
            "more body than announced",
            [in_header, body(1, b"abcd")].concat(),
            "501 FRAME_ERROR - content body frame exceeds remaining content size [60.40]",
        ),
        (
            "a body after an empty message",
            [publish_method(1, false), header(1, 0), body(1, b"")].concat(),
            "505 UNEXPECTED_FRAME - expected method frame, got non method frame instead [0.0]",
        ),
        (
            "a body over the hard cap",
            [publish_method(1, false), header(1, (512 << 20) + 1)].concat(),
            "501 FRAME_ERROR - content body size 536870913 exceeds maximum allowed size 536870912 \
             [60.40]",
        ),
        (
            "properties that do not read",
            [
                publish_method(1, false),
                raw(HEADER, 1, &header_payload(60, 0, 0, b"\x80\x00\x09text")),
            ]
            .concat(),
            "502 SYNTAX_ERROR - content header properties do not read: a value runs past the end \
             of the frame [60.40]",
        ),
        (
            "immediate",
            publish_method(1, true),
            "540 NOT_IMPLEMENTED - immediate=true [60.40]",
        ),
        (
            "flow off",
            flow(false),
            "540 NOT_IMPLEMENTED - active=false [20.20]",
        ),
        (
            "a method of the server",
            method(1, &Method::BasicDeliver(deliver)),
            "503 COMMAND_INVALID - unimplemented method [60.60]",
        ),
        (
            "a method of nobody",
            raw(METHOD, 1, &[0, 60, 0, 200]),
            "503 COMMAND_INVALID - unimplemented method [60.200]",
        ),
        (
            "a method of nobody on channel 0",
            raw(METHOD, 0, &[0, 10, 0, 200]),
            "503 COMMAND_INVALID - unimplemented method [10.200]",
        ),
        (
            "a method cut short",
            raw(METHOD, 1, &[0, 60, 0, 80, 1]),
            "501 FRAME_ERROR - cannot decode <<1>> [60.80]",
        ),
        (
            "a method with more behind it",
            raw(METHOD, 1, &[0, 90, 0, 10, 1]),
            "501 FRAME_ERROR - cannot decode <<1>> [90.10]",
        ),
        (
            "a table too deep",
            raw(METHOD, 1, &deep),
            "502 SYNTAX_ERROR - queue.declare does not read: a field table nests more than 64 \
             levels deep [50.10]",
        ),
        (
            "a name that is no text",
            raw(METHOD, 1, b"\0\x32\0\x1e\0\0\x01\xff\0"),
            "501 FRAME_ERROR - Malformed UTF-8 in shortstr [0.0]",
        ),
        (
            "a virtual host that is no text",
            raw(METHOD, 0, b"\0\x0a\0\x28\x01\xff\0\0"),
            "501 FRAME_ERROR - Malformed UTF-8 in shortstr [10.40]",
        ),
        (
            "close-ok on an open channel",
            channel_close_ok(1),
            "503 COMMAND_INVALID - unimplemented method [20.41]",
        ),
        (
            "connection.close on a channel",
            {
                let mut close = connection_close();
                close[2] = 1;
                close
            },
            "503 COMMAND_INVALID - unimplemented method [10.50]",
        ),
        (
            "a channel's method on channel 0",
            channel_open(0),
            "504 CHANNEL_ERROR - unexpected method in connection state running [20.10]",
        ),
        (
            "a handshake in the open connection",
            connection_open("/"),
            "504 CHANNEL_ERROR - unexpected method in connection state running [10.40]",
        ),
        (
            "content on channel 0",
            header(0, 3),
            "505 UNEXPECTED_FRAME - type 2, all octets = <<0,60,0,0,0,0,0,0,0,0,0,3,0,0>> [0.0]",
        ),
        (
            "a body on channel 0",
            body(0, b"some text, rather long"),
            "505 UNEXPECTED_FRAME - type 3, first 16 octets = <<\"some text, rathe\">> [0.0]",
        ),
        (
            "a heartbeat on a channel",
            raw(HEARTBEAT, 1, b""),
            "505 UNEXPECTED_FRAME - type 8, all octets = <<>> [0.0]",
        ),
        (
            "a heartbeat with something in it",
            raw(HEARTBEAT, 0, b"x"),
            "501 FRAME_ERROR - type 8, all octets = <<\"x\">>: unknown_frame [0.0]",
        ),
        (
            "a frame of unknown type",
            raw(9, 1, &[1, 2]),
            "501 FRAME_ERROR - type 9, all octets = <<1,2>>: unknown_frame [0.0]",
        ),
        (
            "a method frame without method",
            raw(METHOD, 1, &[0, 60, 0]),
            "501 FRAME_ERROR - type 1, all octets = <<0,60,0>>: unknown_frame [0.0]",
        ),
        (
            "a header frame without header",
            [publish_method(1, false), raw(HEADER, 1, &[0, 60])].concat(),
            "501 FRAME_ERROR - type 2, all octets = <<0,60>>: unknown_frame [0.0]",
        ),
    ];
    for (what, bytes, words) in table {
        let mut broker = Broker::open();
        let said = broker.receive(&bytes);
        assert_eq!(said, [(0, format!("connection.close {words}"))], "{what}");
        let told = matches!(
            broker.commands.last(),
            Some(Command::ConnectionClosed { .. })
        );
        assert!(told, "{what}: {:?}", broker.commands);
        // From now on only close-ok counts.
        assert_eq!(
            broker.receive(&[channel_open(3), body(0, b"")].concat()),
            [],
            "{what}"
        );
        assert_eq!(broker.session.inbound.assembling_bytes(), 0);
        broker.receive(&connection_close_ok());
        assert!(
            matches!(broker.closed.as_slice(), [CloseReason::Violated(_)]),
            "{what}"
        );
    }
}

/// After these the next frame cannot be found: nothing more is read.
#[test]
fn lost_frames_make_deaf() {
    let mut bad_end = publish_method(1, false);
    *bad_end.last_mut().unwrap() = 0;
    let table = [
        (
            b"\x01\0\x01\0\x02\0\x01".to_vec(),
            "type 1, all octets = <<>>: {frame_too_large,131073,131064}",
        ),
        (
            bad_end,
            "type 1, all octets = <<0,60,0,40,0,0,0,1,113,0>>: {invalid_frame_end_marker,0}",
        ),
    ];
    for (bytes, words) in table {
        let mut broker = Broker::open();
        let said = broker.receive(&bytes);
        let expected = format!("connection.close 501 FRAME_ERROR - {words} [0.0]");
        assert_eq!(texts(&said), [expected]);
        assert_eq!(broker.receive(&connection_close_ok()), []);
        assert!(broker.closed.is_empty());
        broker.wait();
        assert!(matches!(
            broker.closed.as_slice(),
            [CloseReason::Violated(_)]
        ));
    }
}

#[test]
fn a_message_over_the_limit_ends_its_channel_alone() {
    let config = SessionConfig {
        message_bytes_max: 10,
        ..SessionConfig::default()
    };
    let mut broker = Broker::running(config);
    broker.receive(&[channel_open(1), channel_open(2)].concat());
    broker.commands.clear();
    let bytes = [
        publish(1, &[0; 11], 4),
        publish(2, &[0; 10], 4),
        publish(1, b"x", 4),
    ];
    let said = broker.receive(&bytes.concat());
    let words = "channel.close 406 PRECONDITION_FAILED - message size 11 is larger than \
                 configured max size 10 [60.40]";
    assert_eq!(said, [(1, words.to_owned())]);
    let kinds = broker.commands.as_slice();
    assert!(
        matches!(kinds, [Command::ChannelClosed(closed), Command::Request { channel, .. }]
            if *closed == key(1) && *channel == key(2)),
        "{kinds:?}"
    );
    // Both close at once: theirs is answered, and ours stays to be answered.
    assert_eq!(
        broker.receive(&channel_close(1)),
        [(1, "channel.close-ok".to_owned())]
    );
    let said = broker.receive(&[channel_close_ok(1), channel_open(1)].concat());
    assert_eq!(said, [(1, "channel.open-ok".to_owned())]);
}

#[test]
fn a_channel_is_not_opened_again_before_its_error_is_answered() {
    let mut broker = Broker::open();
    let refusal = Refusal::NoQueueDeclared;
    broker.output(
        1,
        0,
        Output::Refused {
            refusal,
            method: (60, 70),
        },
    );
    broker.said();
    let said = broker.receive(&channel_open(1));
    let words = "connection.close 504 CHANNEL_ERROR - second 'channel.open' seen [20.10]";
    assert_eq!(texts(&said), [words]);
}

#[test]
fn a_refused_channel_is_ignored_until_close_ok() {
    let mut broker = Broker::open();
    broker.receive(&[publish_method(1, false), header(1, 100)].concat());
    let held = broker.session.inbound.assembling_bytes();
    assert!((1..1000).contains(&held), "the message itself: {held}");
    broker.receive(&body(1, &[0; 50]));
    assert_eq!(broker.session.inbound.assembling_bytes(), held + 50);
    let refusal = Refusal::NotFound(menzil_core::Object::Exchange(Name::from("x")));
    broker.output(
        1,
        0,
        Output::Refused {
            refusal,
            method: (60, 40),
        },
    );
    let words = "channel.close 404 NOT_FOUND - no exchange 'x' in vhost '/' [60.40]";
    assert_eq!(broker.said(), [(1, words.to_owned())]);
    assert_eq!(broker.session.inbound.assembling_bytes(), 0);
    let rest = [
        body(1, &[0; 50]),
        publish(1, b"abc", 1),
        publish_method(1, true),
    ]
    .concat();
    assert_eq!(broker.receive(&rest), []);
    assert!(broker.commands.is_empty());
    let said = broker.receive(&[channel_close_ok(1), channel_open(1)].concat());
    assert_eq!(said, [(1, "channel.open-ok".to_owned())]);
}

#[test]
fn a_close_sent_before_the_refusal_was_seen_is_answered() {
    let mut broker = Broker::open();
    // Executed by the driver after both were parsed: refused, then closed.
    let refusal = Refusal::NoQueueDeclared;
    let mut out = Vec::new();
    broker
        .session
        .receive(0, &channel_close(1), &mut || 0, &mut out);
    broker.output(
        1,
        0,
        Output::Refused {
            refusal,
            method: (60, 70),
        },
    );
    broker.carry_out(out);
    let words = "channel.close 404 NOT_FOUND - no previously declared queue [60.70]";
    assert_eq!(texts(&broker.said()), [words, "channel.close-ok"]);
    let said = broker.receive(&[channel_close_ok(1), channel_open(1)].concat());
    assert_eq!(texts(&said), ["channel.open-ok"]);
}

#[test]
fn what_was_sent_behind_a_close_is_ignored_until_it_is_answered() {
    let mut broker = Broker::open();
    let behind = [
        publish(1, b"abc", 2),
        publish_method(1, true),
        body(1, b"x"),
    ]
    .concat();
    let said = broker.receive(&[channel_close(1), behind.clone()].concat());
    assert_eq!(texts(&said), ["channel.close-ok"]);
    assert_eq!(broker.commands.len(), 1);
    // Now the client can know.
    let said = broker.receive(&behind);
    let words = "connection.close 504 CHANNEL_ERROR - expected 'channel.open' [60.40]";
    assert_eq!(texts(&said), [words]);
    let mut broker = Broker::open();
    let said = broker.receive(&[channel_close(1), channel_open(1)].concat());
    assert_eq!(texts(&said), ["channel.close-ok", "channel.open-ok"]);
}

#[test]
fn a_hard_refusal_ends_the_connection() {
    let mut broker = Broker::open();
    broker.output(
        1,
        0,
        Output::Refused {
            refusal: Refusal::PrefetchSize(5),
            method: (60, 10),
        },
    );
    let words = "connection.close 540 NOT_IMPLEMENTED - prefetch_size!=0 (5) [60.10]";
    assert_eq!(broker.said(), [(0, words.to_owned())]);
    assert_eq!(broker.receive(&publish(1, b"abc", 9)), []);
    assert!(broker.commands.is_empty());
    assert!(broker.session.inbound.disconnected().is_none());
    let mut broker = Broker::open();
    broker.output(
        1,
        0,
        Output::Refused {
            refusal: Refusal::PrefetchSize(5),
            method: (60, 10),
        },
    );
    broker.receive(&connection_close_ok());
    assert_eq!(broker.closed, [CloseReason::CoreRefused]);
}

#[test]
fn channels_are_counted() {
    let mut broker = Broker::new(SessionConfig::default());
    broker.receive(
        &[
            menzil_amqp::PROTOCOL_HEADER.to_vec(),
            start_ok(&ALL, "PLAIN", b"\0guest\0guest"),
            tune_ok(2, 4096, 0),
            connection_open("/"),
        ]
        .concat(),
    );
    broker.receive(&[channel_open(9), channel_open(100), channel_close(9)].concat());
    assert_eq!(broker.receive(&channel_open(5)).len(), 1);
    let said = broker.receive(&channel_open(6));
    let words = "connection.close 530 NOT_ALLOWED - number of channels opened (2) has reached the \
                 negotiated channel_max (2) [0.0]";
    assert_eq!(texts(&said), [words]);
}

#[test]
fn incomplete_messages_are_bounded_together() {
    let config = SessionConfig {
        message_bytes_max: 1000,
        assembling_bytes_max: 2500,
        ..SessionConfig::default()
    };
    let mut broker = Broker::running(config);
    for channel in 1..=3 {
        broker.receive(
            &[
                channel_open(channel),
                publish_method(channel, false),
                header(channel, 1000),
            ]
            .concat(),
        );
        let held = broker.session.inbound.assembling_bytes();
        let said = broker.receive(&body(channel, &[0; 700]));
        if channel < 3 {
            assert_eq!(said, []);
            continue;
        }
        let words = format!(
            "connection.close 506 RESOURCE_ERROR - incomplete messages on this connection hold {} \
             bytes, more than configured max size 2500: publish on fewer channels at once [60.40]",
            held + 700
        );
        assert_eq!(texts(&said), [words]);
    }
}

#[test]
fn property_lists_of_incomplete_messages_count() {
    const LIST_BYTES: u64 = 100_000;
    let config = SessionConfig {
        message_bytes_max: 1000,
        assembling_bytes_max: 3 * LIST_BYTES,
        ..SessionConfig::default()
    };
    let mut broker = Broker::running(config);
    let mut said = Vec::new();
    let mut channels = 0;
    while said.is_empty() {
        let before = broker.session.inbound.assembling_bytes();
        assert!((LIST_BYTES * channels..=3 * LIST_BYTES).contains(&before));
        channels += 1;
        let channel = u16::try_from(channels).unwrap();
        broker.receive(&channel_open(channel));
        said = broker.receive(&long_header(channel, LIST_BYTES, 1));
        broker.session.inbound.check_invariants();
    }
    assert_eq!(channels, 3);
    assert!(texts(&said)[0].starts_with("connection.close 506 RESOURCE_ERROR - incomplete"));
    assert_eq!(broker.session.inbound.assembling_bytes(), 0);
}

#[test]
fn one_message_comes_in_whatever_its_property_list_takes() {
    let config = SessionConfig {
        message_bytes_max: 1000,
        assembling_bytes_max: 1000,
        ..SessionConfig::default()
    };
    let mut broker = Broker::running(config);
    broker.receive(&channel_open(1));
    broker.commands.clear();
    let frames = [
        long_header(1, 100_000, 1000),
        body(1, &[0; 999]),
        body(1, &[0; 1]),
    ];
    for frame in frames {
        assert_eq!(broker.receive(&frame), []);
        broker.session.inbound.check_invariants();
    }
    assert_eq!(broker.session.inbound.assembling_bytes(), 0);
    assert_eq!(broker.commands.len(), 1);
}

/// A publish up to its header, with a property list of about so many bytes.
fn long_header(channel: u16, list_bytes: u64, body_bytes: u64) -> Vec<u8> {
    let length = u32::try_from(list_bytes).unwrap();
    // Only the headers table, of one long string.
    let mut list = vec![0x20, 0];
    list.extend((length + 7).to_be_bytes());
    list.extend(b"\x01kS");
    list.extend(length.to_be_bytes());
    list.resize(list.len() + length as usize, b'x');
    let payload = header_payload(60, 0, body_bytes, &list);
    [
        publish_method(channel, false),
        raw(HEADER, channel, &payload),
    ]
    .concat()
}

#[test]
fn what_the_session_answers_itself() {
    let access = AccessRequest {
        realm: b"/data",
        exclusive: false,
        passive: false,
        active: true,
        write: true,
        read: true,
    };
    assert_eq!(
        answer(&method(1, &Method::AccessRequest(access))),
        [(1, "access.request-ok".to_owned())]
    );
    let flow = method(1, &Method::ChannelFlow(ChannelFlow { active: true }));
    assert_eq!(answer(&flow), [(1, "channel.flow-ok".to_owned())]);
}

/// The slack that RabbitMQ grants: a payload as long as the frame may be.
#[test]
fn a_frame_may_be_eight_bytes_too_long() {
    let most = 131_072 - FRAME_OVERHEAD_BYTES;
    let content = vec![1; most + 8];
    let mut broker = Broker::open();
    let bytes = [
        publish_method(1, false),
        header(1, content.len() as u64),
        raw(BODY, 1, &content),
    ];
    assert_eq!(broker.receive(&bytes.concat()), []);
    assert_eq!(broker.commands.len(), 1);
}
