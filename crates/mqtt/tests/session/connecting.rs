//! CONNECT, CONNACK and how connections end.

use menzil_mqtt::codec::{Packet, Property, PropertyId, Qos, ReasonCode, Version};
use menzil_mqtt::{CloseReason, MqttConfig};

use crate::client::{Hello, Talk, v4, v5};

fn plain() -> MqttConfig {
    MqttConfig {
        receive_max: u16::MAX,
        packet_bytes_max: u32::MAX,
        topic_alias_max: 0,
        reason_strings: false,
        ..MqttConfig::default()
    }
}

#[test]
fn connack_tells_what_differs_from_the_default() {
    assert_eq!(Talk::with(plain()).hello(&v5("c")).1, ["CONNACK 00"]);
    assert_eq!(
        Talk::new().hello(&v5("c")).1,
        ["CONNACK 00, Receive Maximum 1000, Maximum Packet Size 17825792, Topic Alias Maximum 10"]
    );
    assert_eq!(Talk::new().hello(&v4("c")).1, ["CONNACK 00"]);
    let poor = MqttConfig {
        qos_max: Qos::AtLeastOnce,
        retain_available: false,
        wildcard_available: false,
        subscription_ids_available: false,
        shared_available: false,
        keep_alive_max_s: 60,
        session_expiry_max_s: 500,
        ..plain()
    };
    assert_eq!(
        Talk::with(poor.clone()).hello(&v5("c").lasting()).1,
        [
            "CONNACK 00, Session Expiry Interval 500, Server Keep Alive 60, Maximum QoS 1, \
          Retain Available 0, Wildcard Subscription Available 0, \
          Subscription Identifier Available 0, Shared Subscription Available 0"
        ]
    );
    let no_2 = MqttConfig {
        qos_max: Qos::AtMostOnce,
        ..plain()
    };
    assert_eq!(
        Talk::with(no_2).hello(&v5("c")).1,
        ["CONNACK 00, Maximum QoS 0"]
    );
}

#[test]
fn a_client_without_an_identifier_gets_one_where_it_may_lack_it() {
    let assigned = format!(
        "CONNACK 00, Assigned Client Identifier auto-{:032x}",
        7_u128
    );
    let mut talk = Talk::with(plain());
    assert_eq!(talk.hello(&v5("")).1, [assigned]);
    assert_eq!(talk.hello(&v4("")).1, ["CONNACK 00"]);
    let not_clean = Hello {
        clean: false,
        ..v4("")
    };
    assert_eq!(talk.hello(&not_clean).1, ["CONNACK 02", "closed"]);
    let oldest = Hello {
        version: Version::V3_1,
        ..v4("")
    };
    assert_eq!(talk.hello(&oldest).1, ["CONNACK 02", "closed"]);
    let mut talk = Talk::with(MqttConfig {
        assigns_client_ids: false,
        ..plain()
    });
    assert_eq!(talk.hello(&v5("")).1, ["CONNACK 85", "closed"]);
    let odd = Hello {
        client_id: "a/+/#/ü and more than 23 characters",
        ..v4("")
    };
    assert_eq!(talk.hello(&odd).1, ["CONNACK 00"]);
}

#[test]
fn what_is_not_spoken_is_refused_in_the_words_of_the_client() {
    let config = MqttConfig {
        versions: vec![Version::V3_1],
        ..plain()
    };
    let mut talk = Talk::with(config);
    assert_eq!(talk.hello(&v5("c")).1, ["CONNACK 84", "closed"]);
    assert_eq!(talk.hello(&v4("c")).1, ["CONNACK 01", "closed"]);
    for bytes in [
        &b"\x10\x0C\x00\x04MQTX\x04\x02\x00\x00\x00\x00"[..],
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x30\x03\x00\x01t",
    ] {
        let peer = talk.connect(&Hello {
            version: Version::V3_1,
            ..v4("other")
        });
        talk.world.hang_up(peer);
        let peer = talk.world.accept(&talk.config.clone());
        talk.world.send(peer, bytes);
        assert_eq!(talk.world.take(peer), b"");
        assert!(talk.world.is_closed(peer));
    }
}

#[test]
fn a_client_has_some_time_to_connect() {
    let mut talk = Talk::with(plain());
    let config = talk.config.clone();
    let peer = talk.world.accept(&config);
    talk.world.send(peer, b"\x10\x0C");
    talk.world.pass(9_999);
    assert!(!talk.world.is_closed(peer));
    talk.world.pass(1);
    assert_eq!(
        talk.world.peers[&peer].closed,
        Some(CloseReason::ConnectTimeout)
    );
    let in_time = talk.connect(&v5("c"));
    talk.world.pass(100_000);
    assert!(!talk.world.is_closed(in_time));
}

#[test]
fn silence_of_one_and_a_half_keep_alive_intervals_ends_a_connection_with_its_will() {
    let mut talk = Talk::with(plain());
    let other = talk.connect(&v5("other"));
    talk.subscribe(other, &["w"], 1);
    let hello = Hello {
        keep_alive_s: 10,
        ..v5("c").will("w", "gone", 1)
    };
    let peer = talk.connect(&hello);
    talk.world.pass(14_999);
    assert_eq!(talk.packet(peer, &Packet::PingReq), ["PINGRESP"]);
    talk.world.pass(14_999);
    assert!(talk.got(peer).is_empty() && talk.got(other).is_empty());
    talk.world.pass(1);
    assert_eq!(talk.got(peer), ["DISCONNECT 8D", "closed"]);
    assert_eq!(talk.got(other), ["PUBLISH q1 #1 [w] gone"]);
}

#[test]
fn the_server_overrides_the_keep_alive_of_those_whom_it_can_tell() {
    let config = MqttConfig {
        keep_alive_max_s: 60,
        ..plain()
    };
    let mut talk = Talk::with(config);
    let keeping = |keep_alive_s, hello| Hello {
        keep_alive_s,
        ..hello
    };
    let told = ["CONNACK 00, Server Keep Alive 60"];
    assert_eq!(talk.hello(&keeping(0, v5("a"))).1, told);
    let (peer, got) = talk.hello(&keeping(61, v5("b")));
    assert_eq!(got, told);
    assert_eq!(talk.hello(&keeping(60, v5("c"))).1, ["CONNACK 00"]);
    let (older, got) = talk.hello(&keeping(100, v4("d")));
    assert_eq!(got, ["CONNACK 00"]);
    talk.world.pass(90_000);
    assert!(talk.world.is_closed(peer));
    assert!(!talk.world.is_closed(older));
    talk.world.pass(60_000);
    assert!(talk.world.is_closed(older));
}

#[test]
fn a_second_connect_or_a_packet_of_a_server_ends_the_connection_with_its_will() {
    let mut talk = Talk::with(plain());
    let other = talk.connect(&v5("other"));
    talk.subscribe(other, &["w"], 1);
    let hello = v5("c").will("w", "gone", 0);
    let peer = talk.connect(&hello);
    let got = talk.send(peer, &hello.encode());
    assert_eq!(got, ["DISCONNECT 82", "closed"]);
    assert_eq!(talk.got(other), ["PUBLISH q0 #0 [w] gone"]);
    let peer = talk.connect(&hello);
    assert_eq!(
        talk.send(peer, &[0xD0, 0]),
        ["DISCONNECT 82", "closed"],
        "a PINGRESP"
    );
    let older = talk.connect(&v4("d"));
    let got = talk.send(older, &v4("d").encode());
    assert_eq!(got, ["closed"]);
}

#[test]
fn reasons_are_explained_unless_that_is_switched_off() {
    let mut talk = Talk::new();
    let peer = talk.connect(&v5("c"));
    let got = talk.send(peer, &[0xD0, 0]);
    assert!(
        got[0].starts_with("DISCONNECT 82, Reason String PINGRESP"),
        "{got:?}"
    );
    let small = v5("d").with(Property::Long(PropertyId::MaximumPacketSize, 40));
    let peer = talk.connect(&small);
    let got = talk.send(peer, &[0xD0, 0]);
    assert_eq!(got, ["DISCONNECT 82", "closed"], "it does not fit");
}

#[test]
fn who_asks_for_response_information_gets_it() {
    let mut talk = Talk::with(MqttConfig {
        response_information: Some("answers/".to_owned()),
        ..plain()
    });
    let asks = |asked| {
        v5("c").with(Property::Flag(
            PropertyId::RequestResponseInformation,
            asked,
        ))
    };
    assert_eq!(
        talk.hello(&asks(true)).1,
        ["CONNACK 00, Response Information answers/"]
    );
    assert_eq!(talk.hello(&asks(false)).1, ["CONNACK 00"]);
    assert_eq!(talk.hello(&v5("c")).1, ["CONNACK 00"]);
}

#[test]
fn the_will_goes_out_unless_the_client_says_goodbye_normally() {
    let mut talk = Talk::with(plain());
    let other = talk.connect(&v5("other"));
    talk.subscribe(other, &["w"], 2);
    let mut ends = |reason: ReasonCode, hello: Hello| {
        let peer = talk.connect(&hello.will("w", "gone", 2));
        let got = talk.goodbye(peer, reason, &[]);
        assert_eq!(got, ["closed"]);
        assert_eq!(
            talk.world.peers[&peer].closed,
            Some(CloseReason::Goodbye(reason))
        );
        talk.got(other).len()
    };
    assert_eq!(ends(ReasonCode::Success, v5("c")), 0);
    assert_eq!(ends(ReasonCode::Success, v4("d")), 0);
    assert_eq!(ends(ReasonCode::DisconnectWithWill, v5("c")), 1);
    assert_eq!(ends(ReasonCode::Unspecified, v5("c")), 1);
}

#[test]
fn a_session_that_ends_with_its_connection_gets_no_expiry_at_disconnect() {
    let mut talk = Talk::with(plain());
    let expiry = |seconds| Property::Long(PropertyId::SessionExpiryInterval, seconds);
    let peer = talk.connect(&v5("c"));
    let got = talk.goodbye(peer, ReasonCode::Success, &[expiry(1)]);
    assert_eq!(got, ["DISCONNECT 82", "closed"]);
    let peer = talk.connect(&v5("c"));
    let got = talk.goodbye(peer, ReasonCode::Success, &[expiry(0)]);
    assert_eq!(got, ["closed"]);

    // One that outlives it may have another, or none.
    let peer = talk.connect(&v5("d").lasting());
    talk.goodbye(peer, ReasonCode::Success, &[expiry(5)]);
    talk.world.pass(4_000);
    let (peer, got) = talk.hello(&v5("d").lasting());
    assert_eq!(got, ["CONNACK 00 present"]);
    let peer_config = Hello {
        clean: false,
        ..v5("d")
    };
    talk.goodbye(peer, ReasonCode::Success, &[expiry(0)]);
    assert_eq!(talk.hello(&peer_config).1, ["CONNACK 00"]);
}

#[test]
fn the_older_connection_goes_with_its_will_where_a_client_connects_twice() {
    let mut talk = Talk::with(plain());
    let other = talk.connect(&v5("other"));
    talk.subscribe(other, &["w"], 1);
    let first = talk.connect(&v5("c").will("w", "gone", 0));
    let (second, got) = talk.hello(&v4("c"));
    assert_eq!(got, ["CONNACK 00"]);
    assert_eq!(talk.got(first), ["DISCONNECT 8E", "closed"]);
    assert_eq!(talk.got(other), ["PUBLISH q0 #0 [w] gone"]);
    let third = talk.connect(&v5("c"));
    assert_eq!(talk.got(second), ["closed"]);
    assert_eq!(talk.packet(third, &Packet::PingReq), ["PINGRESP"]);
}

#[test]
fn a_server_that_stops_says_so_and_where_to_go() {
    let mut talk = Talk::with(MqttConfig {
        server_reference: Some("other:1883".to_owned()),
        ..plain()
    });
    let peers = [talk.connect(&v5("a")), talk.connect(&v5("b"))];
    let older = talk.connect(&v4("c"));
    let reasons = [ReasonCode::ShuttingDown, ReasonCode::UseAnotherServer];
    for (peer, reason) in peers.into_iter().zip(reasons) {
        talk.world.close(peer, reason);
    }
    talk.world.close(older, ReasonCode::ShuttingDown);
    assert_eq!(talk.got(peers[0]), ["DISCONNECT 8B", "closed"]);
    assert_eq!(
        talk.got(peers[1]),
        ["DISCONNECT 9C, Server Reference other:1883", "closed"]
    );
    assert_eq!(talk.got(older), ["closed"]);
}

#[test]
fn a_will_that_the_server_does_not_take_is_refused_at_connect() {
    let mut talk = Talk::with(MqttConfig {
        qos_max: Qos::AtMostOnce,
        ..plain()
    });
    let will = v5("c").will("w", "gone", 1);
    assert_eq!(talk.hello(&will).1, ["CONNACK 9B", "closed"]);
    let mut talk = Talk::with(plain());
    for topic in ["$SYS/w", "forbidden/w"] {
        let hello = v5("c").will(topic, "gone", 1);
        assert_eq!(talk.hello(&hello).1, ["CONNACK 87", "closed"]);
        let hello = v4("c").will(topic, "gone", 1);
        assert_eq!(talk.hello(&hello).1, ["CONNACK 05", "closed"]);
    }
}

#[test]
fn a_client_whose_packets_are_too_small_for_connack_is_let_go() {
    let mut talk = Talk::new();
    let tiny = v5("c").with(Property::Long(PropertyId::MaximumPacketSize, 10));
    assert_eq!(talk.hello(&tiny).1, ["closed"]);
}

#[test]
fn an_idle_connection_takes_little() {
    let bytes = size_of::<menzil_mqtt::Inbound>() + size_of::<menzil_mqtt::Outbound>();
    assert!(bytes <= 1024, "{bytes} bytes");
}
