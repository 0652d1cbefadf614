//! Clients in a few words: what they send, and in lines of text what they get.

use std::sync::Arc;

use menzil_mqtt::MqttConfig;
use menzil_mqtt::codec::{
    Ack, Auth, Connect, Decoded, Disconnect, Packet, PacketId, Peer, Properties, Property,
    PropertyId, PropertyList, Publish, Qos, ReasonCode, RetainHandling, Rules, Subscription,
    SubscriptionOptions, TextPolicy, TopicFilter, TopicName, Version, Will, decode, subscribe,
    unsubscribe,
};

use crate::world::World;

/// A world whose clients have one listener, and what each of them speaks.
pub(crate) struct Talk {
    pub(crate) world: World,
    pub(crate) config: Arc<MqttConfig>,
    versions: Vec<(u64, Version)>,
}

/// What CONNECT says.
#[derive(Clone)]
pub(crate) struct Hello {
    pub(crate) version: Version,
    pub(crate) client_id: &'static str,
    pub(crate) clean: bool,
    pub(crate) keep_alive_s: u16,
    pub(crate) properties: PropertyList,
    /// Topic, payload, quality of service.
    pub(crate) will: Option<(&'static str, &'static str, u8)>,
    pub(crate) will_properties: PropertyList,
}

pub(crate) fn v5(client_id: &'static str) -> Hello {
    Hello {
        version: Version::V5,
        client_id,
        clean: true,
        keep_alive_s: 0,
        properties: PropertyList::default(),
        will: None,
        will_properties: PropertyList::default(),
    }
}

pub(crate) fn v4(client_id: &'static str) -> Hello {
    Hello {
        version: Version::V3_1_1,
        ..v5(client_id)
    }
}

impl Hello {
    pub(crate) fn with(mut self, property: Property<'_>) -> Self {
        self.properties.push(property);
        self
    }

    pub(crate) fn will(self, topic: &'static str, payload: &'static str, qos: u8) -> Self {
        Self {
            will: Some((topic, payload, qos)),
            ..self
        }
    }

    /// The session outlives the connection.
    pub(crate) fn lasting(self) -> Self {
        let hello = if self.version.is_5() {
            self.with(Property::Long(PropertyId::SessionExpiryInterval, 1000))
        } else {
            self
        };
        Self {
            clean: false,
            ..hello
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let will = self.will.map(|(topic, payload, qos)| Will {
            qos: Qos::new(qos).unwrap(),
            retain: false,
            properties: self.will_properties.as_properties(),
            topic: name(topic),
            payload: payload.as_bytes(),
        });
        let connect = Connect {
            version: self.version,
            clean_start: self.clean,
            keep_alive_s: self.keep_alive_s,
            properties: self.properties.as_properties(),
            client_id: self.client_id.as_bytes(),
            will,
            user_name: None,
            password: None,
        };
        connect.encode(&mut out).unwrap();
        out
    }
}

pub(crate) fn name(topic: &str) -> TopicName<'_> {
    if topic.is_empty() {
        return TopicName::ALIASED;
    }
    TopicName::parse(topic.as_bytes(), TextPolicy::Any, u16::MAX).unwrap()
}

fn id(number: u16) -> PacketId {
    PacketId::new(number).unwrap()
}

impl Talk {
    pub(crate) fn new() -> Self {
        Self::with(MqttConfig::default())
    }

    pub(crate) fn with(config: MqttConfig) -> Self {
        Self {
            world: World::new(),
            config: Arc::new(config),
            versions: Vec::new(),
        }
    }

    /// A connection that has said hello, and what it got.
    pub(crate) fn hello(&mut self, hello: &Hello) -> (u64, Vec<String>) {
        let peer = self.world.accept(&self.config);
        self.versions.push((peer, hello.version));
        let got = self.send(peer, &hello.encode());
        (peer, got)
    }

    /// One that was let in.
    pub(crate) fn connect(&mut self, hello: &Hello) -> u64 {
        let (peer, got) = self.hello(hello);
        assert!(got[0].starts_with("CONNACK 00"), "{got:?}");
        peer
    }

    fn version(&self, peer: u64) -> Version {
        let found = self.versions.iter().find(|(of, _)| *of == peer);
        found.unwrap().1
    }

    /// Sends bytes; what the client gets of it.
    pub(crate) fn send(&mut self, peer: u64, bytes: &[u8]) -> Vec<String> {
        self.world.send(peer, bytes);
        self.got(peer)
    }

    /// What the client got, and `closed` where its connection is.
    pub(crate) fn got(&mut self, peer: u64) -> Vec<String> {
        let bytes = self.world.take(peer);
        let mut lines = lines(&bytes, self.version(peer));
        if self.world.is_closed(peer) {
            lines.push("closed".to_owned());
        }
        lines
    }

    pub(crate) fn packet(&mut self, peer: u64, packet: &Packet<'_>) -> Vec<String> {
        let mut out = Vec::new();
        packet.encode(self.version(peer), &mut out).unwrap();
        self.send(peer, &out)
    }

    pub(crate) fn publish(
        &mut self,
        peer: u64,
        (qos, packet_id): (u8, u16),
        topic: &str,
        payload: &str,
    ) -> Vec<String> {
        self.publish_with(peer, (qos, packet_id), topic, payload, &[])
    }

    pub(crate) fn publish_with(
        &mut self,
        peer: u64,
        (qos, packet_id): (u8, u16),
        topic: &str,
        payload: &str,
        properties: &[Property<'_>],
    ) -> Vec<String> {
        let properties = list(properties);
        self.packet(
            peer,
            &Packet::Publish(Publish {
                dup: false,
                qos: Qos::new(qos).unwrap(),
                retain: false,
                topic: name(topic),
                packet_id: (qos > 0).then(|| id(packet_id)),
                properties: properties.as_properties(),
                payload: payload.as_bytes(),
            }),
        )
    }

    pub(crate) fn ack(
        &mut self,
        peer: u64,
        packet: fn(Ack<'static>) -> Packet<'static>,
        packet_id: u16,
    ) -> Vec<String> {
        self.packet(peer, &packet(Ack::success(id(packet_id))))
    }

    pub(crate) fn subscribe(&mut self, peer: u64, filters: &[&str], qos: u8) -> Vec<String> {
        self.subscribe_with(peer, filters, qos, &[])
    }

    pub(crate) fn subscribe_with(
        &mut self,
        peer: u64,
        filters: &[&str],
        qos: u8,
        properties: &[Property<'_>],
    ) -> Vec<String> {
        let options = SubscriptionOptions {
            qos: Qos::new(qos).unwrap(),
            no_local: false,
            retain_as_published: false,
            retain_handling: RetainHandling::Send,
        };
        let subscriptions = filters.iter().map(|filter| Subscription {
            filter: TopicFilter::parse(filter.as_bytes(), TextPolicy::Any, u16::MAX).unwrap(),
            options,
        });
        let (properties, mut out) = (list(properties), Vec::new());
        let version = self.version(peer);
        let properties = properties.as_properties();
        subscribe(id(1), &properties, subscriptions, version, &mut out).unwrap();
        self.send(peer, &out)
    }

    pub(crate) fn unsubscribe(&mut self, peer: u64, filters: &[&str]) -> Vec<String> {
        let filters = filters.iter().map(|filter| {
            TopicFilter::parse(filter.as_bytes(), TextPolicy::Any, u16::MAX).unwrap()
        });
        let (version, mut out) = (self.version(peer), Vec::new());
        unsubscribe(id(2), &Properties::EMPTY, filters, version, &mut out).unwrap();
        self.send(peer, &out)
    }

    pub(crate) fn goodbye(
        &mut self,
        peer: u64,
        reason: ReasonCode,
        properties: &[Property<'_>],
    ) -> Vec<String> {
        let properties = list(properties);
        let properties = properties.as_properties();
        self.packet(peer, &Packet::Disconnect(Disconnect { reason, properties }))
    }

    pub(crate) fn auth(
        &mut self,
        peer: u64,
        reason: ReasonCode,
        method: &str,
        data: &str,
    ) -> Vec<String> {
        let properties = list(&[
            Property::Text(PropertyId::AuthenticationMethod, method.as_bytes()),
            Property::Binary(PropertyId::AuthenticationData, data.as_bytes()),
        ]);
        let properties = properties.as_properties();
        self.packet(peer, &Packet::Auth(Auth { reason, properties }))
    }
}

pub(crate) fn list(properties: &[Property<'_>]) -> PropertyList {
    let mut list = PropertyList::default();
    for property in properties {
        list.push(*property);
    }
    list
}

/// What a server sent, a line for each packet.
pub(crate) fn lines(bytes: &[u8], version: Version) -> Vec<String> {
    let rules = Rules {
        peer: Peer::Server,
        has_auth: true,
        topic_levels_max: u16::MAX,
        ..Rules::default()
    };
    let (mut rest, mut lines) = (bytes, Vec::new());
    while !rest.is_empty() {
        match decode(rest, version, &rules) {
            Ok(Decoded::Packet(packet, length)) => {
                lines.push(line(&packet));
                rest = &rest[length..];
            }
            other => panic!("{lines:?}, then {other:?} of {rest:02X?}"),
        }
    }
    lines
}

fn line(packet: &Packet<'_>) -> String {
    let name = packet.packet_type().name();
    match packet {
        Packet::ConnAck(ack) => {
            let present = if ack.is_session_present {
                " present"
            } else {
                ""
            };
            let properties = text(&ack.properties);
            format!("{name} {:02X}{present}{properties}", ack.code)
        }
        Packet::Publish(publish) => {
            let topic = String::from_utf8_lossy(publish.topic.as_bytes());
            let payload = String::from_utf8_lossy(publish.payload);
            let dup = if publish.dup { " dup" } else { "" };
            let retain = if publish.retain { " retain" } else { "" };
            let packet_id = publish.packet_id.map_or(0, PacketId::number);
            let properties = text(&publish.properties);
            format!(
                "{name} q{} #{packet_id} [{topic}] {payload}{dup}{retain}{properties}",
                publish.qos.number()
            )
        }
        Packet::PubAck(ack) | Packet::PubRec(ack) | Packet::PubRel(ack) | Packet::PubComp(ack) => {
            let reason = match ack.reason.number() {
                0 => String::new(),
                reason => format!(" {reason:02X}"),
            };
            let properties = text(&ack.properties);
            format!("{name} {}{reason}{properties}", ack.packet_id.number())
        }
        Packet::SubAck(ack) | Packet::UnsubAck(ack) => {
            let properties = text(&ack.properties);
            format!("{name} {:02X?}{properties}", ack.codes)
        }
        Packet::Disconnect(of) => {
            format!("{name} {:02X}{}", of.reason.number(), text(&of.properties))
        }
        Packet::Auth(auth) => {
            let properties = text(&auth.properties);
            format!("{name} {:02X}{properties}", auth.reason.number())
        }
        Packet::PingResp => name.to_owned(),
        Packet::Subscribe(_) | Packet::Unsubscribe(_) | Packet::PingReq => {
            panic!("a server sent {name}")
        }
    }
}

fn text(properties: &Properties<'_>) -> String {
    let of = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let each = properties.iter().map(|property| {
        let value = match property {
            Property::Flag(_, value) => u8::from(value).to_string(),
            Property::Short(_, value) => value.to_string(),
            Property::Long(_, value) | Property::Variable(_, value) => value.to_string(),
            Property::Text(_, value) | Property::Binary(_, value) => of(value),
            Property::User { name, value } => format!("{}:{}", of(name), of(value)),
        };
        format!(", {} {value}", property.id().name())
    });
    each.collect()
}
