//! What the receiving half asks of the driver, and what the driver answers.

use std::fmt;

use bytes::Bytes;

use menzil_core::{Body, EndReason, SessionRequest, TopicPublish};
use menzil_model::Name;

use super::config::Denied;
use super::fault::Fault;
use crate::codec::{PropertyList, ReasonCode, Version};

/// Where the receiving half's actions go as it comes upon them.
pub trait Sink {
    /// Takes an action.
    fn action(&mut self, action: Action);

    /// As [`Action::Request`].
    fn request(&mut self, request: SessionRequest) {
        self.action(Action::Request(request));
    }

    /// As [`Action::Publish`], for a message that lies in the input.
    fn publish(&mut self, publish: &TopicPublish<'_>) {
        self.action(Action::Publish(Box::new(OwnedPublish::of(publish))));
    }

    /// Whether the client may publish to that topic. Asked once for each message that comes, and
    /// for a will when the client is let in.
    fn may_publish(&mut self, _topic: &[u8]) -> bool {
        true
    }

    /// Whether the client may have that subscription. The filter is as the client wrote it, with
    /// `$share/` and the group where it is shared.
    fn may_subscribe(&mut self, _filter: &[u8]) -> Permission {
        Permission::Granted
    }

    /// [`super::Outbound::answered`] of this connection. Asked now and then, to find a client that
    /// sends more than the server's Receive Maximum (MQTT-3.3.4-7). The default knows nothing of
    /// it and lets all pass.
    fn answered(&mut self) -> u64 {
        u64::MAX
    }
}

impl Sink for Vec<Action> {
    fn action(&mut self, action: Action) {
        self.push(action);
    }
}

/// What a client may subscribe to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// As it wants.
    Granted,
    /// Not at all, with that code: [`ReasonCode::NotAuthorized`] as a rule. Before 5.0 every code
    /// is 0x80.
    Denied(ReasonCode),
}

/// One thing to do. Actions are carried out in order: the effects of a request go to
/// [`super::Outbound`] before what a later action sends.
#[derive(Clone, Debug)]
pub enum Action {
    /// Check a login and answer with [`super::Inbound::authenticated`]. Until then no further
    /// input is looked at.
    Authenticate(Box<Login>),
    /// Execute it in the virtual host's shard, as [`menzil_core::Command::Session`]. The first is
    /// [`SessionRequest::Open`], the last [`SessionRequest::Leave`].
    Request(SessionRequest),
    /// Execute it with [`menzil_core::Shard::publish_topic`].
    Publish(Box<OwnedPublish>),
    /// Hand it to [`super::Outbound::send`].
    Send(Outgoing),
    /// A publish was denied, and this is why; for counting and the log.
    Denied {
        /// Of the message.
        topic: Bytes,
        /// 0 to 2.
        qos: u8,
    },
    /// Send what is left, then close the socket. Nothing follows.
    Close {
        /// Why, for the log.
        reason: CloseReason,
    },
}

/// Who wants to be let in.
#[derive(Clone, Debug)]
pub struct Login {
    /// What the connection speaks.
    pub version: Version,
    /// The client identifier, or the one that was made up for it.
    pub client_id: Bytes,
    /// `None` where CONNECT had none: the client is anonymous, if there is no [`Login::step`].
    pub user: Option<Bytes>,
    /// Likewise.
    pub password: Option<Secret>,
    /// An authentication by a method of 5.0 (§4.12).
    pub step: Option<AuthStep>,
    /// The client was let in before and proves itself anew (§4.12.1).
    pub is_renewal: bool,
}

/// One step of an authentication, from the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthStep {
    /// Such as `SCRAM-SHA-256`.
    pub method: Bytes,
    /// What the client says; empty where it said nothing.
    pub data: Bytes,
    /// 0 for the first of an authentication.
    pub round: u32,
}

/// The driver's word on a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The client is that user.
    Granted {
        /// Whose permissions it has. Empty where nobody in particular.
        user: Name,
        /// The method's last word (§3.2.2.3.18), where there is one.
        data: Option<Vec<u8>>,
    },
    /// The method wants an answer to this (§4.12). Only where there was a [`Login::step`].
    Challenge {
        /// What to send.
        data: Vec<u8>,
    },
    /// No.
    Refused {
        /// One that CONNACK has: bad credentials, not authorized, banned, busy, unavailable,
        /// bad authentication method, quota exceeded, connection rate exceeded; use another
        /// server and server moved go with [`super::MqttConfig::server_reference`].
        reason: ReasonCode,
    },
}

/// A password. Never shown, and overwritten when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// Keeps a copy.
    pub fn new(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }

    /// What it is.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.fill(0);
    }
}

/// A [`TopicPublish`] that owns what it is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedPublish {
    /// As in [`TopicPublish`].
    pub packet_id: u16,
    /// As in [`TopicPublish`].
    pub qos: u8,
    /// As in [`TopicPublish`].
    pub retain: bool,
    /// As in [`TopicPublish`].
    pub topic: Bytes,
    /// As in [`TopicPublish`].
    pub properties: Bytes,
    /// As in [`TopicPublish`].
    pub expiry: Option<u32>,
    /// The payload: parts of one size and a shorter last one.
    pub payload: Vec<Bytes>,
}

impl OwnedPublish {
    /// A copy.
    pub fn of(publish: &TopicPublish<'_>) -> Self {
        let payload = match publish.payload {
            Body::Whole([]) => Vec::new(),
            Body::Whole(body) => vec![Bytes::copy_from_slice(body)],
            Body::Parts(parts) => parts.to_vec(),
        };
        Self {
            packet_id: publish.packet_id,
            qos: publish.qos,
            retain: publish.retain,
            topic: Bytes::copy_from_slice(publish.topic),
            properties: Bytes::copy_from_slice(publish.properties),
            expiry: publish.expiry,
            payload,
        }
    }

    /// For the core.
    pub fn borrowed(&self) -> TopicPublish<'_> {
        TopicPublish {
            packet_id: self.packet_id,
            qos: self.qos,
            retain: self.retain,
            topic: &self.topic,
            properties: &self.properties,
            expiry: self.expiry,
            payload: match self.payload.as_slice() {
                [] => Body::Whole(&[]),
                [whole] => Body::Whole(whole),
                parts => Body::Parts(parts),
            },
        }
    }
}

/// Something that the protocol session itself has to say.
#[derive(Clone, Debug)]
pub enum Outgoing {
    /// The client is let in: what CONNACK says when the core has opened the session, and how all
    /// that follows is written.
    Accepted(Box<Accepted>),
    /// PUBACK or PUBREC with an error, in the order of the publishes.
    Refused {
        /// Of which PUBLISH.
        packet_id: u16,
        /// 1 or 2.
        qos: u8,
        /// Why.
        reason: ReasonCode,
    },
    /// PINGRESP, past answers that wait.
    PingResp,
    /// A whole packet, past answers that wait.
    Packet(Vec<u8>),
    /// The last word: CONNACK with an error or DISCONNECT, or nothing at all. What waits is
    /// dropped.
    Last(Vec<u8>),
}

/// See [`Outgoing::Accepted`].
#[derive(Clone, Debug)]
pub struct Accepted {
    /// What the connection speaks.
    pub version: Version,
    /// CONNACK's.
    pub properties: PropertyList,
    /// The client's Maximum Packet Size.
    pub packet_bytes_max: u32,
    /// The most aliases for topics.
    pub topic_alias_max: u16,
    /// What a publish gets for which there is no room, before 5.0.
    pub refused_before_5: Denied,
    /// Acknowledgements that say no say why.
    pub explains: bool,
    /// As in [`super::MqttConfig::optional_codes`].
    pub optional_codes: bool,
}

/// Why a socket closes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// No CONNECT, or no end of it, in time.
    ConnectTimeout,
    /// Nothing was heard for one and a half keep alive intervals.
    KeepAliveTimeout,
    /// CONNECT was refused with that code.
    Refused(ReasonCode),
    /// The client broke the protocol, or passed a limit.
    Violated(Fault),
    /// The client said goodbye, with that code.
    Goodbye(ReasonCode),
    /// The core ended the session's connection.
    Ended(EndReason),
    /// A denied or refused publish, before 5.0.
    Denied,
    /// The server wants it.
    Stopped(ReasonCode),
    /// Too much was sent ahead of an answer.
    Ahead,
}
