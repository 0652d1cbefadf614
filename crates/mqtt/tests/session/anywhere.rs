//! Whatever comes, however it is split.

use std::sync::Arc;

use menzil_model::ConnectionId;
use menzil_mqtt::codec::{
    Ack, Auth, Disconnect, Packet, PacketId, Properties, Property, PropertyId, Publish, Qos,
    ReasonCode, Version,
};
use menzil_mqtt::{Action, Admission, Inbound, MqttConfig};
use proptest::prelude::*;

use crate::client::{Talk, list, name, v4, v5};
use crate::world::{anonymous, name as user};

fn config() -> Arc<MqttConfig> {
    Arc::new(MqttConfig {
        chunk_bytes: 64,
        packet_bytes_max: 700,
        connect_bytes_max: 300,
        message_bytes_max: 500,
        checks_payload_format: true,
        ..MqttConfig::default()
    })
}

/// What a connection asks for when these bytes come in pieces of the sizes.
fn actions(bytes: &[u8], sizes: &[usize]) -> Vec<String> {
    let mut inbound = Inbound::new(config(), ConnectionId(1), 0);
    let (mut all, mut rest, mut sizes) = (Vec::new(), bytes, sizes.iter().cycle());
    let mut entropy = || 1;
    while !rest.is_empty() {
        let (piece, left) = rest.split_at(rest.len().min(*sizes.next().unwrap()));
        rest = left;
        let mut now = Vec::new();
        inbound.receive(0, piece, &mut entropy, &mut now);
        loop {
            let mut asked = None;
            for action in &now {
                if let Action::Authenticate(login) = action {
                    asked = Some(login.clone());
                }
            }
            all.append(&mut now);
            inbound.check_invariants();
            let Some(login) = asked else {
                break;
            };
            let admission = match &login.step {
                Some(step) if step.round == 0 && step.data.len() > 1 => Admission::Challenge {
                    data: step.data.to_vec(),
                },
                Some(_) => Admission::Granted {
                    user: user("ann"),
                    data: None,
                },
                None => anonymous(&login),
            };
            inbound.authenticated(0, admission, &mut now);
            inbound.receive(0, &[], &mut entropy, &mut now);
        }
    }
    if let Some(request) = inbound.disconnected() {
        all.push(Action::Request(request));
    }
    all.iter().map(|action| format!("{action:?}")).collect()
}

/// A packet of a client, most of them in order.
fn packet(version: Version) -> impl Strategy<Value = Vec<u8>> {
    let ids = 1..6_u16;
    (0..13_u8, ids, 0..300_usize, any::<u8>()).prop_map(move |(kind, id, length, byte)| {
        let packet_id = PacketId::new(id).unwrap();
        let payload = vec![byte; length];
        let alias = list(&[
            Property::Short(PropertyId::TopicAlias, id),
            Property::Flag(PropertyId::PayloadFormatIndicator, byte > 99),
            Property::User {
                name: b"name",
                value: b"value",
            },
        ]);
        let properties = if version.is_5() && byte.is_multiple_of(2) {
            alias.as_properties()
        } else {
            Properties::EMPTY
        };
        let qos = Qos::new(byte % 3).unwrap();
        let ack = Ack::success(packet_id);
        let topics = ["a", "forbidden", "$SYS", "a/b"];
        let packet = match kind {
            0..4 => Packet::Publish(Publish {
                dup: false,
                qos,
                retain: byte > 200,
                topic: if !properties.is_empty() && byte > 128 {
                    name("")
                } else {
                    name(topics[usize::from(byte / 64)])
                },
                packet_id: (qos > Qos::AtMostOnce).then_some(packet_id),
                properties,
                payload: &payload,
            }),
            4 => Packet::PubAck(ack),
            5 => Packet::PubRec(ack),
            6 => Packet::PubRel(ack),
            7 => Packet::PubComp(ack),
            9 if byte > 200 => Packet::Disconnect(Disconnect {
                reason: ReasonCode::Success,
                properties: Properties::EMPTY,
            }),
            10 if version.is_5() && byte > 128 => {
                let method = list(&[
                    Property::Text(PropertyId::AuthenticationMethod, b"M"),
                    Property::Binary(PropertyId::AuthenticationData, &payload),
                ]);
                let auth = Packet::Auth(Auth {
                    reason: ReasonCode::Reauthenticate,
                    properties: method.as_properties(),
                });
                let mut out = Vec::new();
                auth.encode(version, &mut out).unwrap();
                return out;
            }
            11 => {
                return vec![0x82, if version.is_5() { 9 } else { 8 }, 0, 1]
                    .into_iter()
                    .chain(version.is_5().then_some(0))
                    .chain(*b"\x00\x03a/+\x01")
                    .collect();
            }
            12 => {
                return vec![0xA2, if version.is_5() { 8 } else { 7 }, 0, 1]
                    .into_iter()
                    .chain(version.is_5().then_some(0))
                    .chain(*b"\x00\x03a/+")
                    .collect();
            }
            _ => Packet::PingReq,
        };
        let mut out = Vec::new();
        packet.encode(version, &mut out).unwrap();
        out
    })
}

/// A conversation from CONNECT on; then some of its bytes are others.
fn conversation() -> impl Strategy<Value = Vec<u8>> {
    let version = prop::sample::select(vec![Version::V3_1_1, Version::V5]);
    let flips = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3);
    (version, any::<bool>()).prop_flat_map(move |(version, has_method)| {
        let packets = prop::collection::vec(packet(version), 0..20);
        (packets, flips.clone()).prop_map(move |(packets, flips)| {
            let hello = match version {
                Version::V5 if has_method => v5("c")
                    .will("w", "gone", 1)
                    .with(Property::Text(PropertyId::AuthenticationMethod, b"M")),
                Version::V5 => v5("c"),
                Version::V3_1 | Version::V3_1_1 => v4("c"),
            };
            let mut bytes = hello.encode();
            bytes.extend(packets.concat());
            for (at, byte) in flips {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            bytes
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn how_it_is_split_changes_nothing(
        bytes in conversation(),
        sizes in prop::collection::vec(1..90_usize, 1..9),
    ) {
        let whole = actions(&bytes, &[usize::MAX]);
        prop_assert_eq!(&actions(&bytes, &sizes), &whole);
        prop_assert_eq!(&actions(&bytes, &[1]), &whole);
    }

    #[test]
    fn any_bytes_are_taken(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let whole = actions(&bytes, &[usize::MAX]);
        prop_assert_eq!(&actions(&bytes, &[1]), &whole);
    }

    /// Two clients say what they like to a shard, and time passes.
    #[test]
    fn nothing_that_clients_say_breaks_a_session(
        talks in prop::collection::vec((conversation(), 0..20_u64, any::<bool>()), 1..8),
        commits in any::<bool>(),
    ) {
        let mut talk = Talk::with((*config()).clone());
        talk.world.commits = commits;
        for (bytes, seconds, hangs_up) in talks {
            let peer = talk.world.accept(&talk.config.clone());
            for piece in bytes.chunks(50) {
                talk.world.send(peer, piece);
            }
            talk.world.pass(seconds * 1000);
            if hangs_up {
                talk.world.hang_up(peer);
            }
            talk.world.commit();
        }
    }
}
