//! What is written reads the same, and says no more and no less when it comes in pieces.
#![cfg(test)]

use menzil_mqtt::codec::{
    Ack, Auth, ConnAck, Connect, Decoded, Delivery, Disconnect, Filters, Packet, PacketId,
    PacketType, Payload, Peer, Place, Properties, Property, PropertyId, PropertyList, Publish,
    PublishTemplate, Qos, ReasonCode, Rules, SubAck, Subscribe, Subscription, SubscriptionOptions,
    Subscriptions, TextPolicy, TopicFilter, TopicName, Unsubscribe, Version, Will, decode,
    decode_connect, decode_publish_start,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// A property that has its own memory.
#[derive(Clone, Debug, PartialEq)]
enum Owned {
    Number(PropertyId, u32),
    Bytes(PropertyId, Vec<u8>),
    User(String, String),
}

fn owned(id: PropertyId) -> BoxedStrategy<Owned> {
    use PropertyId as Id;
    let number = |range: std::ops::RangeInclusive<u32>| {
        range
            .prop_map(move |value| Owned::Number(id, value))
            .boxed()
    };
    match id {
        Id::PayloadFormatIndicator
        | Id::RequestProblemInformation
        | Id::RequestResponseInformation
        | Id::MaximumQos
        | Id::RetainAvailable
        | Id::WildcardSubscriptionAvailable
        | Id::SubscriptionIdentifierAvailable
        | Id::SharedSubscriptionAvailable => number(0..=1),
        Id::ServerKeepAlive | Id::TopicAliasMaximum => number(0..=65_535),
        Id::ReceiveMaximum | Id::TopicAlias => number(1..=65_535),
        Id::MaximumPacketSize => number(1..=u32::MAX),
        Id::SubscriptionIdentifier => number(1..=268_435_455),
        Id::MessageExpiryInterval | Id::SessionExpiryInterval | Id::WillDelayInterval => {
            number(0..=u32::MAX)
        }
        Id::CorrelationData | Id::AuthenticationData => vec(any::<u8>(), 0..20)
            .prop_map(move |bytes| Owned::Bytes(id, bytes))
            .boxed(),
        Id::UserProperty => (text(), text())
            .prop_map(|(a, b)| Owned::User(a, b))
            .boxed(),
        Id::ContentType
        | Id::ResponseTopic
        | Id::AssignedClientIdentifier
        | Id::AuthenticationMethod
        | Id::ResponseInformation
        | Id::ServerReference
        | Id::ReasonString => "[a-z/é]{1,10}"
            .prop_map(move |text| Owned::Bytes(id, text.into_bytes()))
            .boxed(),
    }
}

fn text() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9 /+#$é𪛔]{0,12}"
}

fn topic() -> impl Strategy<Value = String> {
    "[a-z/$é]{1,20}"
}

/// Properties that may stand there: each once or not at all, user properties as many as come, in
/// any order.
fn properties(place: Place) -> impl Strategy<Value = Vec<Owned>> {
    let may_repeat = |id: &PropertyId| id.may_repeat(place);
    let all = PropertyId::ALL
        .iter()
        .copied()
        .filter(|id| id.is_allowed(place));
    let (many, once): (Vec<_>, Vec<_>) = all.partition(may_repeat);
    let once: Vec<_> = once
        .into_iter()
        .map(|id| proptest::option::weighted(0.3, owned(id)))
        .collect();
    let many = vec(select(many).prop_flat_map(owned), 0..4);
    (once, many)
        .prop_map(|(once, many)| once.into_iter().flatten().chain(many).collect::<Vec<_>>())
        .prop_filter("data needs a method", |all| {
            let has = |id| {
                all.iter()
                    .any(|of| matches!(of, Owned::Bytes(of, _) if *of == id))
            };
            !has(PropertyId::AuthenticationData) || has(PropertyId::AuthenticationMethod)
        })
        .prop_shuffle()
}

fn property(owned: &Owned) -> Property<'_> {
    use PropertyId as Id;
    match owned {
        Owned::User(name, value) => Property::User {
            name: name.as_bytes(),
            value: value.as_bytes(),
        },
        Owned::Bytes(id @ (Id::CorrelationData | Id::AuthenticationData), bytes) => {
            Property::Binary(*id, bytes)
        }
        Owned::Bytes(id, bytes) => Property::Text(*id, bytes),
        Owned::Number(id, value) => number(*id, *value),
    }
}

fn number<'a>(id: PropertyId, value: u32) -> Property<'a> {
    use PropertyId as Id;
    let is_short = matches!(
        id,
        Id::ServerKeepAlive | Id::TopicAliasMaximum | Id::ReceiveMaximum | Id::TopicAlias
    );
    let is_long = matches!(
        id,
        Id::MaximumPacketSize
            | Id::MessageExpiryInterval
            | Id::SessionExpiryInterval
            | Id::WillDelayInterval
    );
    if is_short {
        Property::Short(id, u16::try_from(value).unwrap())
    } else if is_long {
        Property::Long(id, value)
    } else if id == Id::SubscriptionIdentifier {
        Property::Variable(id, value)
    } else {
        Property::Flag(id, value == 1)
    }
}

fn list(all: &[Owned]) -> PropertyList {
    let mut list = PropertyList::default();
    for owned in all {
        list.push(property(owned));
    }
    list
}

fn versions() -> impl Strategy<Value = Version> {
    select(&Version::ALL[..])
}

fn rules(peer: Peer) -> Rules {
    Rules {
        peer,
        has_auth: true,
        ..Rules::default()
    }
}

/// Written and read, whole, before another packet, and in every piece.
fn comes_back(packet: &Packet<'_>, version: Version, peer: Peer) {
    let rules = rules(peer);
    let mut bytes = vec![0xAA];
    let count = packet.encode(version, &mut bytes).unwrap();
    bytes.remove(0);
    assert_eq!(count, bytes.len());
    let whole = Ok(Decoded::Packet(packet.clone(), count));
    assert_eq!(decode(&bytes, version, &rules), whole, "{bytes:02x?}");
    for length in 0..count {
        match decode(&bytes[..length], version, &rules) {
            Ok(Decoded::Incomplete(needed)) => assert!(length < needed && needed <= count),
            other => panic!("{length} of {count}: {other:?}"),
        }
    }
    bytes.push(0);
    assert_eq!(decode(&bytes, version, &rules), whole);
    let most = u32::try_from(count).unwrap();
    assert_eq!(packet.encode_within(version, most, &mut bytes), Ok(count));
    assert!(
        decode(
            &bytes,
            version,
            &Rules {
                packet_bytes_max: most,
                ..rules
            }
        )
        .is_ok()
    );
    let too_large = decode(
        &bytes[..5.min(count)],
        version,
        &Rules {
            packet_bytes_max: most - 1,
            ..rules
        },
    );
    assert_eq!(too_large.unwrap_err().reason(), ReasonCode::PacketTooLarge);
}

fn reasons(packet: PacketType, is_from_client: bool) -> impl Strategy<Value = ReasonCode> {
    let all: Vec<_> = (0..=u8::MAX)
        .filter_map(ReasonCode::new)
        .filter(|reason| reason.is_for(packet, is_from_client))
        .collect();
    select(all)
}

fn ids() -> impl Strategy<Value = PacketId> {
    (1..=u16::MAX).prop_map(|number| PacketId::new(number).unwrap())
}

fn qos() -> impl Strategy<Value = Qos> {
    (0..3_u8).prop_map(|number| Qos::new(number).unwrap())
}

/// What of the properties is there in that version.
fn of_version(list: &PropertyList, version: Version) -> Properties<'_> {
    if version == Version::V5 {
        list.as_properties()
    } else {
        Properties::EMPTY
    }
}

/// A PUBLISH without its properties.
#[derive(Clone, Debug)]
struct Message {
    version: Version,
    topic: String,
    payload: Vec<u8>,
    delivery: Delivery,
}

fn messages() -> impl Strategy<Value = Message> {
    let payload = prop_oneof![vec(any::<u8>(), 0..20), vec(any::<u8>(), 100..300)];
    (
        versions(),
        topic(),
        payload,
        qos(),
        ids(),
        any::<(bool, bool)>(),
    )
        .prop_map(|(version, topic, payload, qos, id, (dup, retain))| {
            let is_0 = qos == Qos::AtMostOnce;
            let packet_id = (!is_0).then_some(id);
            let delivery = Delivery {
                dup: dup && !is_0,
                qos,
                retain,
                packet_id,
            };
            Message {
                version,
                topic,
                payload,
                delivery,
            }
        })
}

fn publish<'a>(message: &'a Message, properties: Properties<'a>) -> Publish<'a> {
    Publish {
        dup: message.delivery.dup,
        qos: message.delivery.qos,
        retain: message.delivery.retain,
        topic: TopicName::parse(message.topic.as_bytes(), TextPolicy::Plain, 200).unwrap(),
        packet_id: message.delivery.packet_id,
        properties,
        payload: &message.payload,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_publish_comes_back(
        message in messages(),
        ours in properties(Place::PublishFromClient),
        theirs in properties(Place::PublishFromServer),
    ) {
        for (peer, all) in [(Peer::Client, ours), (Peer::Server, theirs)] {
            let list = list(&all);
            let packet = publish(&message, of_version(&list, message.version));
            comes_back(&Packet::Publish(packet), message.version, peer);
            if message.version == Version::V5 {
                let walked: Vec<_> = packet.properties.iter().collect();
                prop_assert_eq!(walked, all.iter().map(property).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn the_head_of_a_publish_is_known_before_its_payload(
        message in messages(),
        all in properties(Place::PublishFromClient),
    ) {
        let list = list(&all);
        let packet = publish(&message, of_version(&list, message.version));
        let mut bytes = Vec::new();
        packet.encode(message.version, &mut bytes).unwrap();
        let head_bytes = bytes.len() - message.payload.len();
        for length in 0..=bytes.len() {
            match decode_publish_start(&bytes[..length], message.version, &rules(Peer::Client)) {
                Ok(Decoded::Packet(start, taken)) => {
                    prop_assert!(length >= head_bytes);
                    prop_assert_eq!(taken, head_bytes);
                    prop_assert_eq!(start.payload_bytes, message.payload.len());
                    let payload = &bytes[head_bytes..length];
                    prop_assert_eq!(start.publish, Publish { payload, ..packet });
                }
                Ok(Decoded::Incomplete(needed)) => {
                    prop_assert!(length < needed && needed <= head_bytes.max(2));
                }
                Err(violation) => panic!("{violation}"),
            }
        }
    }

    #[test]
    fn a_template_writes_what_the_packet_is(
        message in messages(),
        all in properties(Place::PublishFromServer),
        is_apart: bool,
    ) {
        let list = list(&all);
        let packet = publish(&message, of_version(&list, message.version));
        let mut meant = vec![1, 2, 3];
        packet.encode(message.version, &mut meant).unwrap();
        let (first, second) = list.as_properties().as_bytes().split_at(
            list.as_properties().as_bytes().len() / 2,
        );
        let mut template = PublishTemplate::default();
        let payload = if is_apart {
            Payload::Apart(message.payload.len())
        } else {
            Payload::Inside(&message.payload)
        };
        let has_id = message.delivery.packet_id.is_some();
        template.prepare(message.version, packet.topic, has_id, &[first, second], payload).unwrap();
        prop_assert_eq!(template.packet_bytes(), meant.len() - 3);
        let mut written = vec![1, 2, 3];
        template.write(message.delivery, &mut written);
        if is_apart {
            written.extend_from_slice(&message.payload);
        }
        prop_assert_eq!(written, meant);
    }

    #[test]
    fn what_a_message_takes_along_is_all_but_what_is_the_hops_own(
        all in properties(Place::PublishFromServer),
    ) {
        use PropertyId::{MessageExpiryInterval, SubscriptionIdentifier, TopicAlias};
        let whole = list(&all);
        let mut out = Vec::new();
        whole.as_properties().write_forwarded(&mut out);
        let kept: Vec<_> = all.iter().filter(|of| !matches!(
            of,
            Owned::Number(MessageExpiryInterval | SubscriptionIdentifier | TopicAlias, _)
        )).cloned().collect();
        let kept = list(&kept);
        prop_assert_eq!(out, kept.as_properties().as_bytes());
    }

    #[test]
    fn a_connect_comes_back(
        version in versions(),
        (clean_start, keep_alive_s) in any::<(bool, u16)>(),
        (client_id, topic) in (text(), topic()),
        (payload, password) in (vec(any::<u8>(), 0..20), proptest::option::of(vec(any::<u8>(), 0..9))),
        user_name in proptest::option::of(text()),
        (qos, retain, has_will) in (qos(), any::<bool>(), any::<bool>()),
        (all, of_will) in (properties(Place::Connect), properties(Place::Will)),
    ) {
        let (all, of_will) = (list(&all), list(&of_will));
        let will = Will {
            qos,
            retain,
            properties: of_version(&of_will, version),
            topic: TopicName::parse(topic.as_bytes(), TextPolicy::Plain, 200).unwrap(),
            payload: &payload,
        };
        let connect = Connect {
            version,
            clean_start,
            keep_alive_s,
            properties: of_version(&all, version),
            client_id: client_id.as_bytes(),
            will: has_will.then_some(will),
            user_name: user_name.as_ref().map(String::as_bytes),
            password: password
                .as_deref()
                .filter(|_| version == Version::V5 || user_name.is_some()),
        };
        let mut bytes = Vec::new();
        prop_assert_eq!(connect.encode(&mut bytes), Ok(bytes.len()));
        let rules = rules(Peer::Client);
        for length in 0..bytes.len() {
            let part = decode_connect(&bytes[..length], &rules);
            prop_assert!(matches!(part, Ok(Decoded::Incomplete(needed)) if length < needed && needed <= bytes.len()));
        }
        prop_assert_eq!(decode_connect(&bytes, &rules), Ok(Decoded::Packet(connect, bytes.len())));
    }

    #[test]
    fn a_connack_comes_back(
        version in versions(),
        is_session_present: bool,
        reason in reasons(PacketType::ConnAck, false),
        all in properties(Place::ConnAck),
    ) {
        let list = list(&all);
        let packet = ConnAck {
            is_session_present,
            code: match version {
                Version::V5 => reason.number(),
                Version::V3_1 | Version::V3_1_1 => ConnAck::return_code(reason),
            },
            properties: of_version(&list, version),
        };
        comes_back(&Packet::ConnAck(packet), version, Peer::Server);
    }

    #[test]
    fn acknowledgements_come_back(
        version in versions(),
        packet_id in ids(),
        first in reasons(PacketType::PubAck, true),
        second in reasons(PacketType::PubRel, true),
        all in properties(Place::Ack),
    ) {
        let list = list(&all);
        let ack = |reason| match version {
            Version::V5 => Ack { packet_id, reason, properties: list.as_properties() },
            Version::V3_1 | Version::V3_1_1 => Ack::success(packet_id),
        };
        for peer in [Peer::Client, Peer::Server] {
            comes_back(&Packet::PubAck(ack(first)), version, peer);
            comes_back(&Packet::PubRec(ack(first)), version, peer);
            comes_back(&Packet::PubRel(ack(second)), version, peer);
            comes_back(&Packet::PubComp(ack(second)), version, peer);
        }
    }

    #[test]
    fn subscriptions_come_back(
        version in versions(),
        packet_id in ids(),
        filters in vec((select(&["a", "#", "+/b/#", "/", "é/+", "$share/g/a/#", "$SYS/#"][..]), 0..16_u8, 0..3_u8), 1..20),
        all in properties(Place::Subscribe),
        of_unsubscribe in properties(Place::Unsubscribe),
    ) {
        let (mut subscriptions, mut names) = (Vec::new(), Vec::new());
        for (filter, bits, handling) in &filters {
            let filter = TopicFilter::parse(filter.as_bytes(), TextPolicy::Plain, 200).unwrap();
            let byte = (bits & !0b11) | ((bits & 0b11) % 3) | (handling << 4);
            let byte = match (version, filter.group()) {
                (Version::V5, None) => byte,
                (Version::V5, Some(_)) => byte & !0b100,
                _ => byte & 0b11,
            };
            let options = SubscriptionOptions::from_byte(byte, version).unwrap();
            prop_assert_eq!(options.to_byte(), byte);
            subscriptions.push(Subscription { filter, options });
            names.push(filter);
        }
        let (list, other_list) = (list(&all), list(&of_unsubscribe));
        let mut bytes = Vec::new();
        for subscription in &subscriptions {
            subscription.write(version, &mut bytes);
        }
        let rules = rules(Peer::Client);
        let packet = Subscribe {
            packet_id,
            properties: of_version(&list, version),
            subscriptions: Subscriptions::parse(&bytes, version, &rules).unwrap(),
        };
        prop_assert_eq!(packet.subscriptions.iter().collect::<Vec<_>>(), subscriptions);
        comes_back(&Packet::Subscribe(packet), version, Peer::Client);

        let mut bytes = Vec::new();
        for name in &names {
            bytes.extend(u16::try_from(name.as_bytes().len()).unwrap().to_be_bytes());
            bytes.extend(name.as_bytes());
        }
        let packet = Unsubscribe {
            packet_id,
            properties: of_version(&other_list, version),
            filters: Filters::parse(&bytes, &rules).unwrap(),
        };
        prop_assert_eq!(packet.filters.iter().collect::<Vec<_>>(), names);
        comes_back(&Packet::Unsubscribe(packet), version, Peer::Client);
    }

    #[test]
    fn answers_to_subscriptions_come_back(
        version in versions(),
        packet_id in ids(),
        codes in vec(reasons(PacketType::SubAck, false), 1..200),
        of_unsubscribe in vec(reasons(PacketType::UnsubAck, false), 1..9),
        all in properties(Place::Ack),
    ) {
        let list = list(&all);
        let numbers = |all: &[ReasonCode]| all.iter().map(|of| of.number()).collect::<Vec<u8>>();
        let mut codes = numbers(&codes);
        let mut of_unsubscribe = numbers(&of_unsubscribe);
        if version != Version::V5 {
            codes.iter_mut().filter(|code| **code > 2).for_each(|code| *code = 0x80);
            of_unsubscribe.clear();
        }
        let of = |codes| SubAck { packet_id, properties: of_version(&list, version), codes };
        comes_back(&Packet::SubAck(of(&codes)), version, Peer::Server);
        comes_back(&Packet::UnsubAck(of(&of_unsubscribe)), version, Peer::Server);
    }

    #[test]
    fn the_rest_comes_back(
        version in versions(),
        reason in reasons(PacketType::Disconnect, true),
        of_server in reasons(PacketType::Disconnect, false),
        of_auth in reasons(PacketType::Auth, true),
        all in properties(Place::Disconnect),
        mut auth in properties(Place::Auth),
    ) {
        comes_back(&Packet::PingReq, version, Peer::Client);
        comes_back(&Packet::PingResp, version, Peer::Server);
        let list_of_all = list(&all);
        let of = |reason| match version {
            Version::V5 => Disconnect { reason, properties: list_of_all.as_properties() },
            Version::V3_1 | Version::V3_1_1 => Disconnect { reason: ReasonCode::Success, properties: Properties::EMPTY },
        };
        comes_back(&Packet::Disconnect(of(reason)), version, Peer::Client);
        if version == Version::V5 {
            comes_back(&Packet::Disconnect(of(of_server)), version, Peer::Server);
            let method = PropertyId::AuthenticationMethod;
            if !auth.iter().any(|of| matches!(of, Owned::Bytes(id, _) if *id == method)) {
                auth.push(Owned::Bytes(method, b"SCRAM-SHA-256".to_vec()));
            }
            let auth = list(&auth);
            let packet = Auth { reason: of_auth, properties: auth.as_properties() };
            comes_back(&Packet::Auth(packet), version, Peer::Client);
        }
    }
}

#[test]
fn what_is_for_people_is_left_out_where_it_makes_a_packet_too_large() {
    let mut list = PropertyList::default();
    list.push(Property::Text(
        PropertyId::ReasonString,
        b"the queue is full",
    ))
    .push(Property::User {
        name: b"queue",
        value: b"a",
    });
    let ack = Packet::PubAck(Ack {
        packet_id: PacketId::new(7).unwrap(),
        reason: ReasonCode::QuotaExceeded,
        properties: list.as_properties(),
    });
    let mut whole = Vec::new();
    let count = ack.encode(Version::V5, &mut whole).unwrap();
    let mut out = Vec::new();
    let within = |most: usize, out: &mut Vec<u8>| {
        ack.encode_within(Version::V5, u32::try_from(most).unwrap(), out)
    };
    assert_eq!(within(count, &mut out), Ok(count));
    assert_eq!(out, whole);
    out.clear();
    assert_eq!(within(count - 1, &mut out), Ok(5));
    assert_eq!(out, [0x40, 3, 0, 7, 0x97]);
    out.clear();
    assert!(within(4, &mut out).is_err());
    assert!(out.is_empty());
}
