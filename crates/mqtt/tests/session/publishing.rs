//! Messages in both directions.

use menzil_mqtt::codec::{Ack, Packet, PacketId, Property, PropertyId, Qos, ReasonCode};
use menzil_mqtt::{CloseReason, Denied, MqttConfig};

use crate::client::{Hello, Talk, v4, v5};

fn quiet() -> MqttConfig {
    MqttConfig {
        reason_strings: false,
        ..MqttConfig::default()
    }
}

fn quiet_with(change: impl FnOnce(&mut MqttConfig)) -> Talk {
    let mut config = quiet();
    change(&mut config);
    Talk::with(config)
}

#[test]
fn a_message_goes_with_the_lower_quality_of_service_and_all_that_it_has() {
    let mut talk = Talk::with(quiet());
    let (from, to) = (talk.connect(&v5("from")), talk.connect(&v5("to")));
    let id = Property::Variable(PropertyId::SubscriptionIdentifier, 9);
    let got = talk.subscribe_with(to, &["t/+"], 1, &[id]);
    assert_eq!(got, ["SUBACK [01]"]);
    let user = |value: &'static [u8]| Property::User { name: b"n", value };
    let got = talk.publish_with(
        from,
        (2, 5),
        "t/1",
        "body",
        &[
            Property::Flag(PropertyId::PayloadFormatIndicator, true),
            user(b"1"),
            Property::Long(PropertyId::MessageExpiryInterval, 60),
            Property::Text(PropertyId::ResponseTopic, b"r"),
            Property::Binary(PropertyId::CorrelationData, b"d"),
            user(b"1"),
            Property::Text(PropertyId::ContentType, b"c"),
        ],
    );
    assert_eq!(got, ["PUBREC 5"]);
    assert_eq!(talk.ack(from, Packet::PubRel, 5), ["PUBCOMP 5"]);
    assert_eq!(
        talk.got(to),
        [
            "PUBLISH q1 #1 [t/1] body, Subscription Identifier 9, Payload Format Indicator 1, \
          User Property n:1, Response Topic r, Correlation Data d, User Property n:1, \
          Content Type c, Message Expiry Interval 60"
        ]
    );
    assert!(talk.ack(to, Packet::PubAck, 1).is_empty());
    // Without properties, in the words of an older client.
    let older = talk.connect(&v4("older"));
    talk.subscribe(older, &["t/+"], 2);
    let format = Property::Flag(PropertyId::PayloadFormatIndicator, true);
    talk.publish_with(from, (0, 0), "t/2", "b", &[format]);
    assert_eq!(talk.got(older), ["PUBLISH q0 #0 [t/2] b"]);
}

#[test]
fn what_nobody_wants_and_what_nobody_knows_is_told_in_5() {
    let mut talk = Talk::with(quiet());
    let (new, old) = (talk.connect(&v5("new")), talk.connect(&v4("old")));
    assert_eq!(talk.publish(new, (1, 1), "t", ""), ["PUBACK 1 10"]);
    assert_eq!(talk.publish(new, (2, 2), "t", ""), ["PUBREC 2 10"]);
    assert_eq!(talk.ack(new, Packet::PubRel, 2), ["PUBCOMP 2"]);
    assert_eq!(talk.ack(new, Packet::PubRel, 2), ["PUBCOMP 2 92"]);
    assert_eq!(talk.ack(new, Packet::PubRec, 3), ["PUBREL 3 92"]);
    assert_eq!(talk.publish(old, (1, 1), "t", ""), ["PUBACK 1"]);
    assert_eq!(talk.publish(old, (2, 2), "t", ""), ["PUBREC 2"]);
    assert_eq!(talk.ack(old, Packet::PubRel, 7), ["PUBCOMP 7"]);
    assert_eq!(talk.ack(old, Packet::PubRec, 3), ["PUBREL 3"]);
    for peer in [new, old] {
        for packet in [Packet::PubAck, Packet::PubComp] {
            assert!(talk.ack(peer, packet, 9).is_empty());
        }
    }
    let got = talk.unsubscribe(new, &["a"]);
    assert_eq!(got, ["UNSUBACK [11]"]);
    assert_eq!(talk.unsubscribe(old, &["a"]), ["UNSUBACK []"]);
}

#[test]
fn quality_of_service_2_goes_through_once() {
    let mut talk = Talk::with(quiet());
    let (from, to) = (talk.connect(&v5("from")), talk.connect(&v5("to")));
    talk.subscribe(to, &["t"], 2);
    assert_eq!(talk.publish(from, (2, 1), "t", "a"), ["PUBREC 1"]);
    assert_eq!(talk.publish(from, (2, 1), "t", "a"), ["PUBREC 1"], "again");
    assert_eq!(talk.got(to), ["PUBLISH q2 #1 [t] a"]);
    assert_eq!(talk.ack(to, Packet::PubRec, 1), ["PUBREL 1"]);
    assert!(talk.ack(to, Packet::PubComp, 1).is_empty());
    assert_eq!(talk.ack(from, Packet::PubRel, 1), ["PUBCOMP 1"]);
    // One that the client does not want ends with its PUBREC.
    talk.publish(from, (2, 1), "t", "b");
    assert_eq!(talk.got(to), ["PUBLISH q2 #2 [t] b"]);
    let refusal = Ack {
        reason: ReasonCode::NotAuthorized,
        ..Ack::success(PacketId::new(2).unwrap())
    };
    assert!(talk.packet(to, &Packet::PubRec(refusal)).is_empty());
}

#[test]
fn an_acknowledgement_of_another_kind_ends_the_connection() {
    for (qos, packet) in [
        (1, Packet::PubRec as fn(_) -> _),
        (1, Packet::PubComp),
        (2, Packet::PubAck),
        (2, Packet::PubComp),
    ] {
        let mut talk = Talk::with(quiet());
        let (from, to) = (talk.connect(&v5("from")), talk.connect(&v5("to")));
        talk.subscribe(to, &["t"], 2);
        talk.publish(from, (qos, 1), "t", "a");
        talk.got(to);
        assert_eq!(talk.ack(to, packet, 1), ["DISCONNECT 82", "closed"]);
    }
}

#[test]
fn aliases_of_the_client_end_with_its_connection() {
    let mut talk = Talk::with(quiet());
    let to = talk.connect(&v5("to"));
    talk.subscribe(to, &["#"], 0);
    let alias = |number| Property::Short(PropertyId::TopicAlias, number);
    let publish = |talk: &mut Talk, peer, topic, number| {
        talk.publish_with(peer, (0, 0), topic, "b", &[alias(number)])
    };
    let from = talk.connect(&v5("from"));
    for (topic, number) in [("a", 1), ("", 1), ("b", 10), ("c", 1), ("", 1), ("", 10)] {
        assert!(publish(&mut talk, from, topic, number).is_empty());
    }
    let topics = ["a", "a", "b", "c", "c", "b"];
    let expected = topics.map(|topic| format!("PUBLISH q0 #0 [{topic}] b"));
    assert_eq!(talk.got(to), expected);
    let got = publish(&mut talk, from, "a", 11);
    assert_eq!(got, ["DISCONNECT 94", "closed"], "over the maximum");
    let from = talk.connect(&v5("from"));
    let got = publish(&mut talk, from, "", 1);
    assert_eq!(got, ["DISCONNECT 82", "closed"], "it stood for a before");
    let from = talk.connect(&v5("from"));
    let got = publish(&mut talk, from, "a", 0);
    assert_eq!(got, ["DISCONNECT 94", "closed"]);
}

#[test]
fn the_server_uses_aliases_where_it_may() {
    let mut talk = Talk::with(quiet());
    let from = talk.connect(&v5("from"));
    let few = Property::Short(PropertyId::TopicAliasMaximum, 2);
    let to = talk.connect(&v5("to").with(few));
    talk.subscribe(to, &["#"], 1);
    for topic in [
        "topic/a", "topic/a", "topic/b", "topic/a", "topic/c", "topic/b", "ab",
    ] {
        talk.publish(from, (0, 0), topic, "x");
    }
    talk.publish(from, (1, 1), "topic/b", "x");
    assert_eq!(
        talk.got(to),
        [
            "PUBLISH q0 #0 [topic/a] x, Topic Alias 1",
            "PUBLISH q0 #0 [] x, Topic Alias 1",
            "PUBLISH q0 #0 [topic/b] x, Topic Alias 2",
            "PUBLISH q0 #0 [] x, Topic Alias 1",
            "PUBLISH q0 #0 [topic/c] x, Topic Alias 2",
            "PUBLISH q0 #0 [topic/b] x, Topic Alias 1",
            "PUBLISH q0 #0 [ab] x",
            "PUBLISH q1 #1 [] x, Topic Alias 1",
        ]
    );
}

#[test]
fn what_is_too_large_for_a_client_is_passed_over() {
    let mut talk = Talk::with(quiet());
    let from = talk.connect(&v5("from"));
    let limits = v5("to")
        .with(Property::Long(PropertyId::MaximumPacketSize, 40))
        .with(Property::Short(PropertyId::ReceiveMaximum, 1))
        .with(Property::Short(PropertyId::TopicAliasMaximum, 1));
    let to = talk.connect(&limits);
    talk.subscribe(to, &["topic/#"], 2);
    let long = "x".repeat(40);
    for qos in 0..3 {
        talk.publish(from, (qos, 1), "topic/a", &long);
        talk.ack(from, Packet::PubRel, 1);
    }
    assert!(talk.got(to).is_empty());
    for qos in [1, 2] {
        talk.publish(from, (qos, 1), "topic/a", "y");
        talk.ack(from, Packet::PubRel, 1);
    }
    assert_eq!(
        talk.got(to),
        ["PUBLISH q1 #3 [topic/a] y, Topic Alias 1"],
        "the queue moves, and the alias was not taken for told"
    );
    let got = talk.ack(to, Packet::PubAck, 3);
    assert_eq!(got, ["PUBLISH q2 #4 [] y, Topic Alias 1"]);
}

#[test]
fn no_more_is_on_its_way_to_a_client_than_it_takes() {
    let mut talk = Talk::with(quiet());
    let from = talk.connect(&v5("from"));
    let to = talk.connect(&v5("to").with(Property::Short(PropertyId::ReceiveMaximum, 2)));
    talk.subscribe(to, &["t"], 2);
    for (qos, body) in [(1, "a"), (2, "b"), (1, "c"), (0, "d")] {
        talk.publish(from, (qos, 1), "t", body);
        talk.ack(from, Packet::PubRel, 1);
    }
    assert_eq!(talk.got(to), ["PUBLISH q1 #1 [t] a", "PUBLISH q2 #2 [t] b"]);
    assert_eq!(talk.ack(to, Packet::PubRec, 2), ["PUBREL 2"]);
    let got = talk.ack(to, Packet::PubAck, 1);
    assert_eq!(got, ["PUBLISH q1 #3 [t] c", "PUBLISH q0 #0 [t] d"]);
}

#[test]
fn a_client_that_sends_more_than_it_may_is_cut_off() {
    let mut talk = quiet_with(|config| config.receive_max = 2);
    let peer = talk.connect(&v5("c"));
    for round in 0..5 {
        let packet_id = round + 1;
        talk.publish(peer, (2, packet_id), "t", "");
        talk.publish(peer, (1, 100), "t", "");
        let got = talk.ack(peer, Packet::PubRel, packet_id);
        assert_eq!(got, [format!("PUBCOMP {packet_id}")]);
    }
    talk.publish(peer, (2, 1), "t", "");
    talk.publish(peer, (2, 2), "t", "");
    let got = talk.publish(peer, (2, 3), "t", "");
    assert_eq!(got, ["DISCONNECT 93", "closed"]);
    // Of QoS 1 as well, while nothing is committed.
    let to = talk.connect(&v5("to").lasting());
    talk.subscribe(to, &["t"], 1);
    let peer = talk.connect(&v5("c"));
    talk.world.commits = false;
    assert!(talk.publish(peer, (1, 1), "t", "").is_empty());
    assert!(talk.publish(peer, (1, 2), "t", "").is_empty());
    let got = talk.publish(peer, (1, 3), "t", "");
    assert_eq!(got, ["DISCONNECT 93", "closed"]);
}

#[test]
fn a_message_that_is_not_permitted_is_never_acknowledged_as_if_it_were() {
    let mut talk = Talk::new();
    let to = talk.connect(&v5("to"));
    talk.subscribe(to, &["#"], 2);
    let from = talk.connect(&v5("from"));
    let why = "Reason String the client may not publish to this topic";
    let acked = |name: &str| format!("{name} 1 87, {why}");
    for topic in ["forbidden/t", "$SYS/t"] {
        assert!(talk.publish(from, (0, 0), topic, "").is_empty());
        assert_eq!(talk.publish(from, (1, 1), topic, ""), [acked("PUBACK")]);
        assert_eq!(talk.publish(from, (2, 1), topic, ""), [acked("PUBREC")]);
    }
    assert_eq!(talk.world.peers[&from].denied, 6);
    let plain = v5("plain").with(Property::Flag(PropertyId::RequestProblemInformation, false));
    let from = talk.connect(&plain);
    let got = talk.publish(from, (1, 1), "forbidden", "");
    assert_eq!(got, ["PUBACK 1 87"]);
    let from = talk.connect(&v4("older"));
    let got = talk.publish(from, (1, 1), "forbidden", "");
    assert_eq!(got, ["closed"]);
    assert_eq!(talk.world.peers[&from].closed, Some(CloseReason::Denied));
    assert!(talk.got(to).is_empty());

    let mut talk = quiet_with(|config| config.denied_before_5 = Denied::Silent);
    let from = talk.connect(&v4("older"));
    assert!(talk.publish(from, (1, 1), "forbidden", "").is_empty());
    assert_eq!(talk.publish(from, (1, 1), "t", ""), ["PUBACK 1"]);
}

#[test]
fn a_message_for_which_there_is_no_room_is_not_acknowledged_either() {
    let mut talk = quiet_with(|config| config.denied_before_5 = Denied::Silent);
    let to = talk.connect(&v5("to").lasting());
    talk.subscribe(to, &["t"], 1);
    let (new, old) = (talk.connect(&v5("new")), talk.connect(&v4("old")));
    talk.world.fill_disk(true);
    assert_eq!(talk.publish(new, (1, 1), "t", ""), ["PUBACK 1 97"]);
    assert_eq!(talk.publish(new, (2, 1), "t", ""), ["PUBREC 1 97"]);
    assert!(talk.publish(old, (1, 1), "t", "").is_empty());
    talk.world.fill_disk(false);
    assert_eq!(talk.publish(old, (1, 1), "t", ""), ["PUBACK 1"]);

    let mut talk = Talk::with(quiet());
    let to = talk.connect(&v5("to").lasting());
    talk.subscribe(to, &["t"], 1);
    let old = talk.connect(&v4("old"));
    talk.world.fill_disk(true);
    assert_eq!(talk.publish(old, (1, 1), "t", ""), ["closed"]);
}

#[test]
fn what_the_server_does_not_have_it_does_not_take() {
    let mut talk = quiet_with(|config| {
        config.qos_max = Qos::AtLeastOnce;
        config.retain_available = false;
        config.shared_available = false;
        config.wildcard_available = false;
        config.subscription_ids_available = false;
        config.message_bytes_max = 10;
        config.packet_bytes_max = 100;
    });
    let peer = talk.connect(&v5("c"));
    let got = talk.publish(peer, (2, 1), "t", "");
    assert_eq!(got, ["DISCONNECT 9B", "closed"]);
    let peer = talk.connect(&v5("c"));
    let got = talk.send(peer, b"\x31\x04\x00\x01t\x00");
    assert_eq!(got, ["DISCONNECT 9A", "closed"]);
    let peer = talk.connect(&v5("c"));
    let got = talk.publish(peer, (0, 0), "t", "eleven bytes");
    assert_eq!(got, ["DISCONNECT 95", "closed"]);
    let peer = talk.connect(&v5("c"));
    let got = talk.publish(peer, (0, 0), "t", &"x".repeat(100));
    assert_eq!(got, ["DISCONNECT 95", "closed"]);
    let peer = talk.connect(&v5("c"));
    let filters = ["$share/g/t", "+", "forbidden", "t"];
    let got = talk.subscribe(peer, &filters, 2);
    assert_eq!(got, ["SUBACK [9E, A2, 87, 01]"]);
    let id = Property::Variable(PropertyId::SubscriptionIdentifier, 1);
    let got = talk.subscribe_with(peer, &["t"], 0, &[id]);
    assert_eq!(got, ["SUBACK [A1]"]);
    let older = talk.connect(&v4("d"));
    let got = talk.subscribe(older, &filters, 2);
    assert_eq!(got, ["SUBACK [80, 80, 80, 01]"]);
    let got = talk.publish(older, (2, 1), "t", "");
    assert_eq!(got, ["closed"]);
}

#[test]
fn a_client_names_no_subscription() {
    let id = [Property::Variable(PropertyId::SubscriptionIdentifier, 1)];
    let mut talk = Talk::with(quiet());
    let peer = talk.connect(&v5("c"));
    let got = talk.publish_with(peer, (0, 0), "t", "", &id);
    assert_eq!(got, ["DISCONNECT 82", "closed"]);
    let mut talk = quiet_with(|config| config.lets_subscription_ids_pass = true);
    let peer = talk.connect(&v5("c"));
    talk.subscribe(peer, &["t"], 0);
    let got = talk.publish_with(peer, (0, 0), "t", "", &id);
    assert_eq!(got, ["PUBLISH q0 #0 [t] "]);
}

#[test]
fn text_that_is_none_is_refused_where_that_is_looked_at() {
    let says_text = [Property::Flag(PropertyId::PayloadFormatIndicator, true)];
    let mut talk = quiet_with(|config| config.checks_payload_format = true);
    let peer = talk.connect(&v5("c"));
    talk.subscribe(peer, &["t"], 0);
    let got = talk.publish_with(peer, (0, 0), "t", "ü", &says_text);
    assert_eq!(got, ["PUBLISH q0 #0 [t] ü, Payload Format Indicator 1"]);
    let packet = b"\x32\x08\x00\x01t\x00\x01\x02\x01\x01\xFF";
    let packet = [&[packet[0], 9], &packet[2..]].concat();
    assert_eq!(talk.send(peer, &packet), ["PUBACK 1 99"]);
}

#[test]
fn nothing_is_told_before_it_is_committed_and_answers_keep_their_order() {
    let mut talk = Talk::with(quiet());
    talk.world.commits = false;
    let hello = v5("c").lasting();
    let (peer, got) = talk.hello(&hello);
    assert!(got.is_empty(), "CONNACK waits for the session");
    assert!(talk.packet(peer, &Packet::PingReq).is_empty());
    assert!(talk.subscribe(peer, &["t"], 2).is_empty());
    assert!(talk.publish(peer, (0, 0), "t", "0").is_empty());
    talk.world.commit();
    let mut got = talk.got(peer);
    assert!(got[0].starts_with("CONNACK"), "{got:?}");
    got.remove(0);
    assert!(got.contains(&"PINGRESP".to_owned()));
    let at = |what: &str| got.iter().position(|line| line.starts_with(what));
    assert!(
        at("SUBACK").is_some() && at("PUBLISH q0").is_some(),
        "{got:?}"
    );

    // A copy may go as it comes; that it did is in the record.
    let got = talk.publish(peer, (1, 1), "t", "1");
    assert_eq!(got, ["PUBLISH q1 #1 [t] 1"]);
    // Of QoS 2 it waits: after a crash its identifier would else be another message's.
    let got = talk.publish(peer, (2, 2), "t", "2");
    assert!(got.is_empty(), "{got:?}");
    // Nobody has to have this one, and its answer still waits for those before.
    assert!(talk.publish(peer, (1, 3), "other", "3").is_empty());
    assert_eq!(talk.packet(peer, &Packet::PingReq), ["PINGRESP"]);
    talk.world.commit();
    let mut got = talk.got(peer);
    let copy = got.iter().position(|line| line == "PUBLISH q2 #2 [t] 2");
    got.remove(copy.unwrap());
    assert_eq!(got, ["PUBACK 1", "PUBREC 2", "PUBACK 3 10"]);
    assert!(
        talk.ack(peer, Packet::PubRec, 2).is_empty(),
        "it waits as well"
    );
    talk.world.commit();
    assert_eq!(talk.got(peer), ["PUBREL 2"]);
}

#[test]
fn what_waits_is_dropped_where_a_connection_ends() {
    let mut talk = Talk::with(quiet());
    let peer = talk.connect(&v5("c").lasting());
    talk.subscribe(peer, &["t"], 1);
    talk.world.commits = false;
    let got = talk.publish(peer, (1, 1), "t", "1");
    assert_eq!(got, ["PUBLISH q1 #1 [t] 1"]);
    let got = talk.send(peer, &[0xD0, 0]);
    assert_eq!(got, ["DISCONNECT 82", "closed"]);
    talk.world.commit();
    assert_eq!(talk.got(peer), ["closed"], "its PUBACK came too late");
    talk.world.commits = true;
    let (again, got) = talk.hello(&v5("c").lasting());
    assert!(got[0].starts_with("CONNACK 00 present"), "{got:?}");
    assert_eq!(got[1..], ["PUBLISH q1 #1 [t] 1 dup"]);
    talk.world.hang_up(again);
    let older = Hello {
        clean: false,
        ..v4("c")
    };
    let (_, got) = talk.hello(&older);
    assert_eq!(got, ["CONNACK 00 present", "PUBLISH q1 #1 [t] 1 dup"]);
}

#[test]
fn a_large_message_goes_through_in_parts_however_it_comes() {
    let mut talk = quiet_with(|config| config.chunk_bytes = 1000);
    let (from, to) = (talk.connect(&v5("from")), talk.connect(&v5("to").lasting()));
    talk.subscribe(to, &["t"], 1);
    let body = "01234567890123456789012345678901234".repeat(100);
    for size in [1, 7, 999, 1000, 1001, 5000] {
        let mut packet = vec![0x32, 0x80 + (3506 % 128) as u8, (3506 / 128) as u8];
        packet.extend_from_slice(b"\x00\x01t\x00\x01\x00");
        packet.extend_from_slice(body.as_bytes());
        for piece in packet.chunks(size) {
            let held = talk.world.inbound(from).assembling_bytes();
            assert!(held <= 3500 + 300, "{held}");
            talk.world.send(from, piece);
        }
        assert_eq!(talk.got(from), ["PUBACK 1"]);
        let got = talk.got(to);
        let [line] = got.as_slice() else {
            panic!("{got:?}");
        };
        assert!(line.ends_with(&format!("[t] {body}")), "{line}");
        let id = line.split_once('#').unwrap().1.split_once(' ').unwrap().0;
        talk.ack(to, Packet::PubAck, id.parse().unwrap());
    }
}
