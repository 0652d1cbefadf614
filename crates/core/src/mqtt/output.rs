//! What a session's client gets.

use std::sync::Arc;

use menzil_model::{ConnectionId, Message};

use super::notes::TopicNotes;
use super::request::TopicPublish;
use crate::effect::DELIVERY_OVERHEAD_BYTES;

/// Something to send to a session's client.
#[derive(Clone, Debug)]
pub enum SessionOutput {
    /// CONNACK with success.
    Opened {
        /// The session was there.
        session_present: bool,
    },
    /// PUBLISH
    Copy(OwnedCopy),
    /// PUBACK or PUBREC, as its quality of service wants.
    Published {
        /// Of which PUBLISH.
        packet_id: u16,
        /// 1 or 2.
        qos: u8,
        /// What became of it.
        verdict: Verdict,
    },
    /// PUBREL
    Release {
        /// Of which PUBLISH.
        packet_id: u16,
        /// False where nothing is known of it.
        is_known: bool,
    },
    /// PUBCOMP
    Completed {
        /// Of which PUBLISH.
        packet_id: u16,
        /// False where nothing is known of it.
        is_known: bool,
    },
    /// SUBACK
    Subscribed {
        /// Of which SUBSCRIBE.
        packet_id: u16,
        /// The codes in the order of the filters.
        codes: Vec<u8>,
    },
    /// UNSUBACK
    Unsubscribed {
        /// Of which UNSUBSCRIBE.
        packet_id: u16,
        /// For each filter whether there was such a subscription.
        were_there: Vec<bool>,
    },
    /// The connection is to end; what the client still sends goes nowhere.
    Ended(EndReason),
}

/// What became of a PUBLISH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Somebody has it, or will.
    Accepted,
    /// It is taken, and nobody wants it.
    NoMatch,
    /// A queue, or the disk, refused it for want of room.
    Full,
}

/// Why the server ends a session's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// The client connected once more.
    TakenOver,
    /// More messages of QoS 1 and 2 at once than the server takes.
    TooManyAtOnce,
    /// The client acknowledged a message in another way than its quality of service asks for.
    WrongAck,
    /// The session's limit is passed, and its rule is to disconnect.
    LimitReached,
    /// Somebody ended the session.
    Administrative,
}

/// A PUBLISH to a client, on its way.
#[derive(Clone, Copy, Debug)]
pub struct Copy<'a> {
    /// To whom.
    pub to: ConnectionId,
    /// As in [`crate::Effect::Channel`].
    pub after: u64,
    /// 0 where the quality of service is.
    pub packet_id: u16,
    /// Quality of service.
    pub qos: u8,
    /// It may have been sent before.
    pub dup: bool,
    /// The retain flag.
    pub retain: bool,
    /// Subscription identifiers, each once.
    pub ids: &'a [u32],
    /// Seconds that it still lives.
    pub expiry: Option<u32>,
    /// The message.
    pub content: CopyContent<'a>,
}

/// The message of a copy.
#[derive(Clone, Copy, Debug)]
pub enum CopyContent<'a> {
    /// The session had it.
    Stored(&'a Arc<Message>),
    /// It goes from the publisher to the subscriber as it came.
    Passing {
        /// The publish.
        publish: &'a TopicPublish<'a>,
        /// A number that stands for its topic and properties.
        envelope: u64,
    },
}

impl Copy<'_> {
    /// The same, owned.
    pub fn to_owned(&self) -> OwnedCopy {
        OwnedCopy {
            packet_id: self.packet_id,
            qos: self.qos,
            dup: self.dup,
            retain: self.retain,
            ids: self.ids.into(),
            expiry: self.expiry,
            message: match self.content {
                CopyContent::Stored(message) => Arc::clone(message),
                CopyContent::Passing { publish, .. } => Arc::new(publish.message(usize::MAX)),
            },
        }
    }

    /// Topic and properties.
    pub fn notes(&self) -> TopicNotes<'_> {
        match self.content {
            CopyContent::Stored(message) => TopicNotes::read(message.notes()).unwrap_or_default(),
            CopyContent::Passing { publish, .. } => publish.notes(),
        }
    }

    /// Bytes that it counts against its connection's credit.
    pub fn credit_bytes(&self) -> u64 {
        DELIVERY_OVERHEAD_BYTES
            + match self.content {
                CopyContent::Stored(message) => message.total_bytes(),
                CopyContent::Passing { publish, .. } => publish.total_bytes(),
            }
    }
}

/// A [`Copy`] that owns its message.
#[derive(Clone, Debug)]
pub struct OwnedCopy {
    /// As in [`Copy`].
    pub packet_id: u16,
    /// As in [`Copy`].
    pub qos: u8,
    /// As in [`Copy`].
    pub dup: bool,
    /// As in [`Copy`].
    pub retain: bool,
    /// As in [`Copy`].
    pub ids: Box<[u32]>,
    /// As in [`Copy`].
    pub expiry: Option<u32>,
    /// As in [`Copy`].
    pub message: Arc<Message>,
}

impl OwnedCopy {
    /// The same, borrowed.
    pub fn borrowed(&self, to: ConnectionId, after: u64) -> Copy<'_> {
        Copy {
            to,
            after,
            packet_id: self.packet_id,
            qos: self.qos,
            dup: self.dup,
            retain: self.retain,
            ids: &self.ids,
            expiry: self.expiry,
            content: CopyContent::Stored(&self.message),
        }
    }
}
