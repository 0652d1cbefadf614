//! Each thing that one packet can break: the rule, the reason code that is due, its clause, and
//! whether it is told.
#![cfg(test)]

use menzil_mqtt::codec::{
    Decoded, Packet, Peer, PropertyId, Rule, Rules, TextPolicy, Version, Violation, decode,
    decode_connect,
};

fn field(bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).unwrap();
    [&length.to_be_bytes()[..], bytes].concat()
}

/// A packet of at most 127 bytes behind its header.
fn packet(first: u8, parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    [&[first, u8::try_from(body.len()).unwrap()][..], &body].concat()
}

fn refusal(bytes: &[u8], version: Version, rules: &Rules) -> Violation {
    match decode(bytes, version, rules) {
        Err(violation) => violation,
        other => panic!("{bytes:02x?} is let pass: {other:?}"),
    }
}

fn client() -> Rules {
    Rules {
        has_auth: true,
        ..Rules::default()
    }
}

/// What is sent, the rule, the code and the clause in 5.0.
type Case = (Vec<u8>, Rule, u8, &'static str);

fn check(version: Version, cases: &[Case]) {
    for (bytes, rule, code, clause) in cases {
        let violation = refusal(bytes, version, &client());
        assert_eq!(violation.rule, *rule, "{bytes:02x?}: {violation}");
        assert_eq!(violation.reason().number(), *code, "{violation}");
        assert_eq!(violation.clause(), *clause, "{violation}");
        assert!(
            violation.to_string().ends_with(&format!("[{clause}]")),
            "{violation}"
        );
    }
}

fn publish(properties: &[u8]) -> Vec<u8> {
    let length = [u8::try_from(properties.len()).unwrap()];
    packet(0x30, &[&field(b"a"), &length, properties, b"payload"])
}

fn subscribe(filter: &[u8], options: u8) -> Vec<u8> {
    packet(0x82, &[&[0, 1, 0], &field(filter), &[options]])
}

#[test]
fn fixed_headers() {
    check(
        Version::V5,
        &[
            (vec![0x00, 0], Rule::ReservedType, 0x82, "§2.1.2"),
            (vec![0x10, 0], Rule::SecondConnect, 0x82, "MQTT-3.1.0-2"),
            (vec![0x20, 2], Rule::WrongDirection, 0x82, "§2.1.2"),
            (vec![0x21, 2], Rule::WrongDirection, 0x82, "§2.1.2"),
            (vec![0x90, 2], Rule::WrongDirection, 0x82, "§2.1.2"),
            (vec![0x92, 2], Rule::ReservedFlags, 0x81, "MQTT-2.1.3-1"),
            (vec![0x41, 2], Rule::ReservedFlags, 0x81, "MQTT-2.1.3-1"),
            (vec![0x60, 2], Rule::ReservedFlags, 0x81, "MQTT-2.1.3-1"),
            (vec![0x80, 2], Rule::ReservedFlags, 0x81, "MQTT-2.1.3-1"),
            (vec![0xF1, 2], Rule::ReservedFlags, 0x81, "MQTT-2.1.3-1"),
            (vec![0x36, 2], Rule::PublishQos, 0x81, "MQTT-3.3.1-4"),
            (vec![0x38, 2], Rule::DupOfQos0, 0x81, "MQTT-3.3.1-2"),
            (
                vec![0x30, 0xFF, 0xFF, 0xFF, 0xFF],
                Rule::LengthTooLong,
                0x81,
                "§1.5.5",
            ),
            (
                vec![0xC0, 0x80, 0x00],
                Rule::LengthNotMinimal,
                0x81,
                "MQTT-1.5.5-1",
            ),
            (vec![0xC0, 1], Rule::PingLength, 0x81, "§3.12.1"),
        ],
    );
    let rules = Rules {
        packet_bytes_max: 10,
        ..client()
    };
    let violation = refusal(&[0x30, 9], Version::V5, &rules);
    assert_eq!(
        (violation.rule, violation.reason().number()),
        (Rule::PacketTooLarge, 0x95)
    );
    assert_eq!(
        decode(&[0x30, 8], Version::V5, &rules),
        Ok(Decoded::Incomplete(10))
    );
    let violation = refusal(&[0xF0, 0], Version::V5, &Rules::default());
    assert_eq!(
        (violation.rule, violation.reason().number()),
        (Rule::AuthUnexpected, 0x82)
    );
}

#[test]
fn fields() {
    let topic = |bytes: &[u8]| packet(0x30, &[&field(bytes), &[0]]);
    check(
        Version::V5,
        &[
            (vec![0x40, 1, 0], Rule::Truncated, 0x81, "§2.1.4"),
            (
                packet(0x30, &[&[0, 9, b'a']]),
                Rule::Truncated,
                0x81,
                "§2.1.4",
            ),
            (
                vec![0x40, 5, 0, 1, 0, 0, 0],
                Rule::TrailingBytes,
                0x81,
                "§2.1.4",
            ),
            (
                vec![0x40, 2, 0, 0],
                Rule::PacketIdZero,
                0x82,
                "MQTT-2.2.1-3",
            ),
            (
                packet(0x32, &[&field(b"a"), &[0, 0, 0]]),
                Rule::PacketIdZero,
                0x82,
                "MQTT-2.2.1-3",
            ),
            (
                vec![0x82, 7, 0, 0, 0, 0, 1, b'a', 0],
                Rule::PacketIdZero,
                0x82,
                "MQTT-2.2.1-3",
            ),
            (topic(b"\xFF"), Rule::TextIllFormed, 0x81, "MQTT-1.5.4-1"),
            (
                topic(b"\xED\xA0\x80"),
                Rule::TextIllFormed,
                0x81,
                "MQTT-1.5.4-1",
            ),
            (topic(b"a\0"), Rule::TextWithNul, 0x81, "MQTT-1.5.4-2"),
            (topic(b"a\x01"), Rule::TextNotPlain, 0x81, "§1.5.4"),
            (topic(b""), Rule::TopicEmpty, 0x81, "MQTT-4.7.3-1"),
            (topic(b"a/+"), Rule::TopicWildcard, 0x81, "MQTT-3.3.2-2"),
            (
                vec![0x40, 3, 0, 1, 0x01],
                Rule::ReasonUnknown(1),
                0x82,
                "§2.4",
            ),
            (
                vec![0x62, 3, 0, 1, 0x10],
                Rule::ReasonUnknown(16),
                0x82,
                "§2.4",
            ),
            (vec![0xE0, 1, 0x8B], Rule::ReasonUnknown(0x8B), 0x82, "§2.4"),
            (
                vec![0xF0, 2, 0x80, 0],
                Rule::ReasonUnknown(0x80),
                0x82,
                "§2.4",
            ),
            (vec![0xF0, 0], Rule::AuthWithoutMethod, 0x82, "§3.1.2.11.10"),
            (
                vec![0xF0, 2, 0x18, 0],
                Rule::AuthWithoutMethod,
                0x82,
                "§3.1.2.11.10",
            ),
        ],
    );
    let any = Rules {
        text: TextPolicy::Any,
        topic_levels_max: 2,
        ..client()
    };
    assert!(decode(&topic(b"a\x01"), Version::V5, &any).is_ok());
    assert!(decode(&topic("\u{FEFF}a".as_bytes()), Version::V5, &client()).is_ok());
    let deep = refusal(&topic(b"a/b/c"), Version::V5, &any);
    assert_eq!(
        (deep.rule, deep.reason().number()),
        (Rule::TopicLevels, 0x90)
    );
    let deep = refusal(&subscribe(b"a/b/c", 0), Version::V5, &any);
    assert_eq!(
        (deep.rule, deep.reason().number()),
        (Rule::FilterLevels, 0x8F)
    );
}

#[test]
fn subscriptions() {
    check(
        Version::V5,
        &[
            (
                packet(0x82, &[&[0, 1, 0]]),
                Rule::NoFilters,
                0x81,
                "MQTT-3.8.3-2",
            ),
            (
                packet(0xA2, &[&[0, 1, 0]]),
                Rule::NoFilters,
                0x81,
                "MQTT-3.8.3-2",
            ),
            (
                packet(0x82, &[&[0, 1, 0], &field(b"a")]),
                Rule::Truncated,
                0x81,
                "§2.1.4",
            ),
            (subscribe(b"", 0), Rule::TopicEmpty, 0x81, "MQTT-4.7.3-1"),
            (
                subscribe(b"a#", 0),
                Rule::FilterWildcard,
                0x81,
                "MQTT-4.7.1-1",
            ),
            (
                subscribe(b"#/a", 0),
                Rule::FilterWildcard,
                0x81,
                "MQTT-4.7.1-1",
            ),
            (
                subscribe(b"$share//a", 0),
                Rule::SharedGroup,
                0x82,
                "MQTT-4.8.2-1",
            ),
            (
                subscribe(b"$share/g/", 0),
                Rule::SharedWithoutFilter,
                0x82,
                "MQTT-4.8.2-2",
            ),
            (
                subscribe(b"$share/g/a", 4),
                Rule::SharedNoLocal,
                0x82,
                "MQTT-3.8.3-4",
            ),
            (
                subscribe(b"a", 3),
                Rule::SubscriptionOptions,
                0x81,
                "MQTT-3.8.3-5",
            ),
            (
                subscribe(b"a", 0x30),
                Rule::SubscriptionOptions,
                0x81,
                "MQTT-3.8.3-5",
            ),
            (
                subscribe(b"a", 0x40),
                Rule::SubscriptionOptions,
                0x81,
                "MQTT-3.8.3-5",
            ),
        ],
    );
    let before = packet(0x82, &[&[0, 1], &field(b"a"), &[4]]);
    let violation = refusal(&before, Version::V3_1_1, &client());
    assert_eq!(violation.rule, Rule::SubscriptionOptions);
    assert_eq!(violation.clause(), "MQTT-3.8.3-4");
}

#[test]
fn properties() {
    use PropertyId as Id;
    let twice = |property: &[u8]| publish(&property.repeat(2));
    let misplaced = Rule::PropertyMisplaced(Id::SessionExpiryInterval);
    check(
        Version::V5,
        &[
            (
                publish(&[0x04, 0]),
                Rule::PropertyUnknown(4),
                0x81,
                "§2.2.2.2",
            ),
            (
                publish(&[0x80, 0x01]),
                Rule::PropertyUnknown(128),
                0x81,
                "§2.2.2.2",
            ),
            (publish(&[0x01]), Rule::Truncated, 0x81, "§2.1.4"),
            (
                publish(&[0x26, 0, 1, b'a']),
                Rule::Truncated,
                0x81,
                "§2.1.4",
            ),
            (
                packet(0x30, &[&field(b"a"), &[9, 1, 1]]),
                Rule::Truncated,
                0x81,
                "§2.1.4",
            ),
            (
                publish(&[0x0B, 0x80, 0x00]),
                Rule::IntegerNotMinimal,
                0x81,
                "MQTT-1.5.5-1",
            ),
            (
                publish(&[0x0B, 0x80, 0x80, 0x80, 0x80]),
                Rule::IntegerTooLong,
                0x81,
                "§1.5.5",
            ),
            (
                publish(&[0x26, 0, 1, 0, 0, 0]),
                Rule::TextWithNul,
                0x81,
                "MQTT-1.5.4-2",
            ),
            (publish(&[0x11, 0, 0, 0, 0]), misplaced, 0x82, "§2.2.2.2"),
            (
                packet(0x82, &[&[0, 1, 5, 0x11, 0, 0, 0, 0], &field(b"a"), &[0]]),
                misplaced,
                0x81,
                "§2.2.2.2",
            ),
            (
                twice(&[1, 1]),
                Rule::PropertyTwice(Id::PayloadFormatIndicator),
                0x82,
                "§2.2.2.2",
            ),
            (
                twice(&[11, 1]),
                Rule::PropertyTwice(Id::SubscriptionIdentifier),
                0x82,
                "§2.2.2.2",
            ),
            (
                publish(&[1, 2]),
                Rule::PropertyValue(Id::PayloadFormatIndicator),
                0x82,
                "§3.3.2.3.2",
            ),
            (
                publish(&[35, 0, 0]),
                Rule::PropertyValue(Id::TopicAlias),
                0x94,
                "MQTT-3.3.2-8",
            ),
            (
                publish(&[8, 0, 1, b'#']),
                Rule::PropertyValue(Id::ResponseTopic),
                0x82,
                "MQTT-3.3.2-14",
            ),
            (
                publish(&[8, 0, 0]),
                Rule::PropertyValue(Id::ResponseTopic),
                0x82,
                "MQTT-3.3.2-14",
            ),
            (
                publish(&[11, 0]),
                Rule::PropertyValue(Id::SubscriptionIdentifier),
                0x81,
                "§3.8.2.1.2",
            ),
            // What does not read goes before what should not be there.
            (
                publish(&[1, 1, 1, 1, 0x11, 0]),
                Rule::Truncated,
                0x81,
                "§2.1.4",
            ),
        ],
    );
    // A server names each subscription that matched.
    let ours = Rules {
        peer: Peer::Server,
        ..client()
    };
    assert!(decode(&twice(&[11, 1]), Version::V5, &ours).is_ok());
}

fn connect(level: u8, flags: u8, rest: &[&[u8]]) -> Vec<u8> {
    let name = field(if level == 3 { b"MQIsdp" } else { b"MQTT" });
    let rest = rest.concat();
    packet(0x10, &[&name, &[level, flags, 0, 60], &rest])
}

fn connect_refusal(bytes: &[u8]) -> (Rule, u8) {
    let violation = decode_connect(bytes, &client()).unwrap_err();
    (violation.rule, violation.reason().number())
}

#[test]
fn first_packets() {
    use PropertyId as Id;
    let id = field(b"p");
    assert_eq!(connect_refusal(&[0x30]), (Rule::NotConnect, 0x82));
    assert_eq!(connect_refusal(&[0x00, 0]), (Rule::NotConnect, 0x82));
    for name in [&b"MQTU"[..], b"", b"MQT", b"MQTTT", b"mqtt"] {
        let bytes = packet(0x10, &[&field(name), &[4, 2, 0, 60], &id]);
        assert_eq!(connect_refusal(&bytes), (Rule::ProtocolName, 0x84));
    }
    for level in [0, 2, 6, 0x84] {
        assert_eq!(
            connect_refusal(&connect(level, 2, &[&id])),
            (Rule::ProtocolLevel(level), 0x84)
        );
    }
    let old_name = packet(0x10, &[&field(b"MQIsdp"), &[4, 2, 0, 60], &id]);
    assert_eq!(connect_refusal(&old_name), (Rule::ProtocolLevel(4), 0x84));
    let mut flags = connect(4, 2, &[&id]);
    flags[0] = 0x12;
    assert_eq!(connect_refusal(&flags), (Rule::ReservedFlags, 0x81));
    let mut lenient = connect(3, 3, &[&id]);
    lenient[0] = 0x14;
    assert!(
        decode_connect(&lenient, &client()).is_ok(),
        "3.1 has no such rule"
    );

    assert_eq!(
        connect_refusal(&connect(4, 1, &[&id])),
        (Rule::ConnectFlag, 0x81)
    );
    assert_eq!(
        connect_refusal(&connect(4, 0x0A, &[&id])),
        (Rule::WillFlags, 0x81)
    );
    assert_eq!(
        connect_refusal(&connect(4, 0x22, &[&id])),
        (Rule::WillFlags, 0x81)
    );
    assert_eq!(
        connect_refusal(&connect(4, 0x1E, &[&id, &id, &id])),
        (Rule::WillQos, 0x81)
    );
    assert_eq!(
        connect_refusal(&connect(4, 0x42, &[&id, &id])),
        (Rule::PasswordAlone, 0x81)
    );
    assert!(decode_connect(&connect(5, 0x42, &[&[0], &id, &id]), &client()).is_ok());
    assert_eq!(
        connect_refusal(&connect(4, 0x82, &[&id])),
        (Rule::Truncated, 0x81)
    );
    assert_eq!(
        connect_refusal(&connect(4, 2, &[&id, &id])),
        (Rule::TrailingBytes, 0x81)
    );
    let will = field(b"a/#");
    assert_eq!(
        connect_refusal(&connect(4, 6, &[&id, &will, &id])),
        (Rule::TopicWildcard, 0x81)
    );
    let none = field(b"");
    assert_eq!(
        connect_refusal(&connect(4, 6, &[&id, &none, &id])),
        (Rule::TopicEmpty, 0x81)
    );
    assert!(
        decode_connect(&connect(4, 2, &[&none]), &client()).is_ok(),
        "the session's to judge"
    );

    let with = |properties: &[u8]| {
        let length = [u8::try_from(properties.len()).unwrap()];
        connect_refusal(&connect(5, 2, &[&length, properties, &id]))
    };
    let value = |id| (Rule::PropertyValue(id), 0x82);
    assert_eq!(with(&[0x21, 0, 0]), value(Id::ReceiveMaximum));
    assert_eq!(with(&[0x27, 0, 0, 0, 0]), value(Id::MaximumPacketSize));
    assert_eq!(with(&[0x17, 2]), value(Id::RequestProblemInformation));
    assert_eq!(with(&[0x16, 0, 1, 7]), (Rule::AuthWithoutMethod, 0x82));
    assert_eq!(
        with(&[0x18, 0, 0, 0, 0]),
        (Rule::PropertyMisplaced(Id::WillDelayInterval), 0x82)
    );
}

#[test]
fn what_comes_from_a_server() {
    let rules = Rules {
        peer: Peer::Server,
        ..client()
    };
    let of = |bytes: &[u8], version| refusal(bytes, version, &rules).rule;
    for first in [0x10, 0x82, 0xA2, 0xC0] {
        assert_eq!(of(&[first, 0], Version::V5), Rule::WrongDirection);
    }
    assert_eq!(of(&[0xE0, 0], Version::V3_1_1), Rule::WrongDirection);
    assert_eq!(of(&[0xF0, 0], Version::V3_1_1), Rule::ReservedType);
    assert_eq!(of(&[0x20, 2, 2, 0], Version::V3_1_1), Rule::ConnAckFlags);
    assert_eq!(of(&[0x20, 2, 0, 6], Version::V3_1_1), Rule::ReturnCode(6));
    assert_eq!(of(&[0x20, 3, 0, 1, 0], Version::V5), Rule::ReasonUnknown(1));
    assert_eq!(
        of(&[0x90, 3, 0, 1, 3], Version::V3_1_1),
        Rule::ReturnCode(3)
    );
    assert_eq!(of(&[0x90, 2, 0, 1], Version::V3_1_1), Rule::Truncated);
    assert_eq!(
        of(&[0xB0, 3, 0, 1, 0], Version::V3_1_1),
        Rule::TrailingBytes
    );
}

#[test]
fn before_5_the_clauses_are_those_of_3_1_1() {
    let clause = |bytes: &[u8]| refusal(bytes, Version::V3_1_1, &client()).clause();
    assert_eq!(clause(&[0x41, 2, 0, 1]), "MQTT-2.2.2-2");
    assert_eq!(clause(&[0x40, 2, 0, 0]), "MQTT-2.3.1-1");
    assert_eq!(clause(&[0xF0, 0]), "§2.2.1");
    assert_eq!(clause(&packet(0x30, &[&field(b"a\0")])), "MQTT-1.5.3-2");
    let ping = decode(&[0xC0, 0x80, 0], Version::V3_1_1, &client());
    assert_eq!(
        ping,
        Ok(Decoded::Packet(Packet::PingReq, 3)),
        "no rule of 3.1.1"
    );
    let flags = decode(&[0x83, 6, 0, 1, 0, 1, b'a', 0], Version::V3_1, &client());
    assert!(flags.is_ok(), "3.1 uses no flags of a SUBSCRIBE");
}

#[test]
fn who_does_not_speak_mqtt_or_has_said_goodbye_is_not_told() {
    let told = |bytes: &[u8]| refusal(bytes, Version::V5, &client()).wants_answer();
    assert!(told(&[0x00, 0]) && told(&[0x41, 2]) && told(&[0x40, 3, 0, 1, 1]));
    assert!(!told(&[0xC0, 1]) && !told(&[0x30, 0xFF, 0xFF, 0xFF, 0xFF]));
    assert!(!told(&[0xE0, 1, 1]));
    let unknown = decode_connect(&connect(6, 2, &[&field(b"p")]), &client()).unwrap_err();
    assert!(unknown.wants_answer());
    assert_eq!(
        unknown.to_string(),
        "CONNECT: this version of MQTT is not known (level 6) [MQTT-3.1.2-2]"
    );
    assert!(
        !decode_connect(b"GET /", &client())
            .unwrap_err()
            .wants_answer()
    );
}
