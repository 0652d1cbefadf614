//! What a session's client asks for.

use bytes::Bytes;
use menzil_model::fact::Will;
use menzil_model::{Message, Name};

use super::notes::TopicNotes;
use super::tree::Options;
use crate::command::Body;

/// What a client asks for. Names are those of the packets.
#[derive(Clone, Debug)]
pub enum SessionRequest {
    /// CONNECT, once the client is let in. First of a connection.
    Open(Box<SessionOpen>),
    /// The connection ended.
    Leave {
        /// The will is published: there was no DISCONNECT, or one that asks for it.
        with_will: bool,
        /// Another session expiry interval, in seconds.
        expiry: Option<u32>,
    },
    /// SUBSCRIBE; its filters are well-formed.
    Subscribe {
        /// To be answered with.
        packet_id: u16,
        /// The subscription identifier; 0 is none.
        id: u32,
        /// The filters in order, those that are not allowed with the code that says so.
        filters: Vec<Filter>,
    },
    /// UNSUBSCRIBE.
    Unsubscribe {
        /// To be answered with.
        packet_id: u16,
        /// The filters in order.
        filters: Vec<Bytes>,
    },
    /// PUBACK.
    Acknowledge {
        /// Of which PUBLISH.
        packet_id: u16,
    },
    /// PUBREC.
    Received {
        /// Of which PUBLISH.
        packet_id: u16,
        /// Its reason code says that the client does not want it.
        is_refused: bool,
    },
    /// PUBREL.
    Release {
        /// Of which PUBLISH.
        packet_id: u16,
    },
    /// PUBCOMP.
    Complete {
        /// Of which PUBLISH.
        packet_id: u16,
    },
}

/// CONNECT.
#[derive(Clone, Debug)]
pub struct SessionOpen {
    /// Who it is; not empty.
    pub client_id: Bytes,
    /// The user it logged in as.
    pub user: Name,
    /// A session that is there ends.
    pub clean_start: bool,
    /// Seconds that the session outlives the connection; `u32::MAX` is for ever.
    pub expiry: u32,
    /// How many messages of QoS 1 and 2 it takes at once; not 0.
    pub receive_max: u16,
    /// What is to be published when it is gone.
    pub will: Option<Box<Will>>,
}

/// A filter of SUBSCRIBE.
#[derive(Clone, Debug)]
pub struct Filter {
    /// The topic filter, with `$share/` and the group where it is shared.
    pub filter: Bytes,
    /// Its options.
    pub options: Options,
    /// The reason code where it is not allowed.
    pub refused: Option<u8>,
}

/// PUBLISH, where it lies. The topic is well-formed.
#[derive(Clone, Copy, Debug)]
pub struct TopicPublish<'a> {
    /// 0 where the quality of service is.
    pub packet_id: u16,
    /// Quality of service.
    pub qos: u8,
    /// Retain it.
    pub retain: bool,
    /// Topic name.
    pub topic: &'a [u8],
    /// As in [`TopicNotes::properties`].
    pub properties: &'a [u8],
    /// Message expiry interval in seconds.
    pub expiry: Option<u32>,
    /// Payload.
    pub payload: Body<'a>,
}

impl TopicPublish<'_> {
    /// What its notes are.
    pub fn notes(&self) -> TopicNotes<'_> {
        TopicNotes {
            qos: self.qos,
            topic: self.topic,
            others: &[],
            properties: self.properties,
        }
    }

    /// The message as sessions hold it, for which no queue of AMQP waits.
    pub fn message(&self, inline_bytes_max: usize) -> Message {
        self.message_as((b"", b"", b""), inline_bytes_max)
    }

    /// The same with an exchange, a routing key and properties.
    pub fn message_as(
        &self,
        (exchange, routing_key, properties): (&[u8], &[u8], &[u8]),
        inline_bytes_max: usize,
    ) -> Message {
        let mut notes = Vec::with_capacity(self.topic.len() + self.properties.len() + 4);
        self.notes().write(&mut notes);
        let parts = match self.payload {
            Body::Whole(body) if body.len() <= inline_bytes_max => {
                let message = Message::copied(exchange, routing_key, properties, body);
                return message.with_notes(&notes);
            }
            Body::Whole(body) => {
                let parts = body.chunks(inline_bytes_max.max(1));
                parts.map(Bytes::copy_from_slice).collect()
            }
            Body::Parts(parts) => parts.to_vec(),
        };
        let (exchange, routing_key) = (Name::cut(exchange), Name::cut(routing_key));
        Message::new(&exchange, &routing_key, properties, parts, inline_bytes_max)
            .with_notes(&notes)
    }

    /// Bytes of the payload.
    pub fn body_bytes(&self) -> u64 {
        match self.payload {
            Body::Whole(body) => body.len() as u64,
            Body::Parts(parts) => parts.iter().map(|part| part.len() as u64).sum(),
        }
    }

    /// Bytes of topic, properties and payload.
    pub fn total_bytes(&self) -> u64 {
        (self.topic.len() + self.properties.len()) as u64 + self.body_bytes()
    }

    /// How long it lives, in milliseconds.
    pub fn ttl(&self) -> Option<u64> {
        self.expiry.map(|seconds| u64::from(seconds) * 1000)
    }
}
