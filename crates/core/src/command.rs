//! What protocol sessions and the driver ask of a shard.

use bytes::Bytes;

use menzil_model::{ChannelId, ConnectionId, DeliveryTag, Message, Name, QueueId, Sequence, Table};
use std::sync::Arc;

use crate::mqtt::SessionRequest;

/// A channel of a connection, the party that commands come from and effects go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChannelKey {
    /// The connection.
    pub connection: ConnectionId,
    /// The channel on it.
    pub channel: ChannelId,
}

/// One thing that a shard is asked to do.
#[derive(Clone, Debug)]
pub enum Command {
    /// A connection passed its handshake and opened this virtual host.
    ConnectionOpened {
        /// The connection.
        connection: ConnectionId,
        /// The user it logged in as.
        user: Name,
        /// It announced `consumer_cancel_notify`.
        cancel_notify: bool,
    },
    /// A connection ended or is about to: its consumers go, what it held unsettled goes back,
    /// its exclusive queues are deleted. Answered by [`crate::ConnectionOutput::Closed`].
    ConnectionClosed {
        /// The connection.
        connection: ConnectionId,
    },
    /// `channel.open`; the session has checked that the number is free.
    ChannelOpened(ChannelKey),
    /// `channel.close` by the client: answered by [`crate::Reply::ChannelClosed`].
    ChannelClosed(ChannelKey),
    /// That many bytes of deliveries left the connection's outbox; gives credit back.
    Drained {
        /// The connection.
        connection: ConnectionId,
        /// Bytes, as counted by [`crate::credit_bytes`].
        bytes: u64,
    },
    /// What the driver read for an effect [`crate::Effect::Fetch`].
    Fetched {
        /// The queue that wanted them.
        queue: QueueId,
        /// For each that was wanted its entry and the whole message, or `None` where its record
        /// is damaged.
        messages: Vec<(Sequence, Option<Arc<Message>>)>,
    },
    /// What a session's client asks for.
    Session {
        /// Its connection.
        connection: ConnectionId,
        /// What.
        request: SessionRequest,
    },
    /// A method of an open channel.
    Request {
        /// Who asks.
        channel: ChannelKey,
        /// What.
        request: Request,
    },
}

/// A method that needs the shard's state. Field names are those of the standard.
#[derive(Clone, Debug)]
pub enum Request {
    /// `exchange.declare`
    ExchangeDeclare(ExchangeDeclare),
    /// `exchange.delete`
    ExchangeDelete {
        /// Exchange name.
        exchange: Name,
        /// Only without bindings from it.
        if_unused: bool,
        /// No reply.
        nowait: bool,
    },
    /// `exchange.bind`
    ExchangeBind(ExchangeBind),
    /// `exchange.unbind`
    ExchangeUnbind(ExchangeBind),
    /// `queue.declare`
    QueueDeclare(QueueDeclare),
    /// `queue.bind`
    QueueBind(QueueBind),
    /// `queue.unbind`; it has no nowait
    QueueUnbind(QueueBind),
    /// `queue.purge`
    QueuePurge {
        /// Queue name; empty means the last one declared on the channel.
        queue: Name,
        /// No reply.
        nowait: bool,
    },
    /// `queue.delete`
    QueueDelete {
        /// Queue name; empty means the last one declared on the channel.
        queue: Name,
        /// Only without consumers.
        if_unused: bool,
        /// Only without ready messages.
        if_empty: bool,
        /// No reply.
        nowait: bool,
    },
    /// `basic.qos`
    Qos {
        /// Octets; only 0 is implemented.
        prefetch_size: u32,
        /// Deliveries; 0 is without limit.
        prefetch_count: u16,
        /// One limit for the whole channel, instead of one for each later consumer.
        global: bool,
    },
    /// `basic.consume`
    Consume(Consume),
    /// `basic.cancel`
    Cancel {
        /// The consumer.
        consumer_tag: Name,
        /// No reply.
        nowait: bool,
    },
    /// `basic.publish` with its content
    Publish(Publish),
    /// `basic.get`
    Get {
        /// Queue name; empty means the last one declared on the channel.
        queue: Name,
        /// Settled by being sent.
        no_ack: bool,
    },
    /// `basic.ack`
    Ack {
        /// Which delivery; 0 with `multiple` is all outstanding.
        delivery_tag: DeliveryTag,
        /// All up to it.
        multiple: bool,
    },
    /// `basic.reject` and `basic.nack`
    Reject {
        /// Which delivery; 0 with `multiple` is all outstanding.
        delivery_tag: DeliveryTag,
        /// All up to it; never on `basic.reject`.
        multiple: bool,
        /// Back to its place, instead of dropped.
        requeue: bool,
        /// Which of the two methods it was.
        method: Rejection,
    },
    /// `basic.recover`, and `basic.recover-async` which has no reply
    Recover {
        /// Must be true.
        requeue: bool,
        /// True for `basic.recover`.
        reply: bool,
    },
    /// `confirm.select`
    ConfirmSelect {
        /// No reply.
        nowait: bool,
    },
    /// `tx.select`
    TxSelect,
    /// `tx.commit`
    TxCommit,
    /// `tx.rollback`
    TxRollback,
}

/// Which method rejects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// `basic.reject`
    Reject,
    /// `basic.nack`
    Nack,
}

/// `exchange.declare`
#[derive(Clone, Debug)]
pub struct ExchangeDeclare {
    /// Exchange name.
    pub exchange: Name,
    /// Type name.
    pub kind: Name,
    /// Only ask whether it is there.
    pub passive: bool,
    /// Survives a restart.
    pub durable: bool,
    /// Goes when its last outgoing binding goes.
    pub auto_delete: bool,
    /// Takes messages from exchanges only.
    pub internal: bool,
    /// No reply.
    pub nowait: bool,
    /// Arguments.
    pub arguments: Table,
}

/// `exchange.bind`, `exchange.unbind`
#[derive(Clone, Debug)]
pub struct ExchangeBind {
    /// Where messages go.
    pub destination: Name,
    /// Where they come from.
    pub source: Name,
    /// Binding key.
    pub routing_key: Name,
    /// No reply.
    pub nowait: bool,
    /// Arguments.
    pub arguments: Table,
}

/// `queue.declare`
#[derive(Clone, Debug)]
pub struct QueueDeclare {
    /// Queue name; empty asks for a generated one, or, if passive, means the last one
    /// declared on the channel.
    pub queue: Name,
    /// Only ask whether it is there.
    pub passive: bool,
    /// Survives a restart.
    pub durable: bool,
    /// Belongs to this connection.
    pub exclusive: bool,
    /// Goes when its last consumer goes.
    pub auto_delete: bool,
    /// No reply.
    pub nowait: bool,
    /// Arguments.
    pub arguments: Table,
    /// Randomness for a generated name.
    pub entropy: u128,
}

/// `queue.bind`, `queue.unbind`
#[derive(Clone, Debug)]
pub struct QueueBind {
    /// Queue name; empty means the last one declared on the channel.
    pub queue: Name,
    /// Exchange name.
    pub exchange: Name,
    /// Binding key; empty with an empty queue name means that queue's name.
    pub routing_key: Name,
    /// No reply; always false on unbind.
    pub nowait: bool,
    /// Arguments.
    pub arguments: Table,
}

/// What a client consumes from to get replies without a queue.
pub const DIRECT_REPLY_TO: &[u8] = b"amq.rabbitmq.reply-to";

/// `basic.consume`
#[derive(Clone, Debug)]
pub struct Consume {
    /// Queue name; empty means the last one declared on the channel.
    pub queue: Name,
    /// Empty asks for a generated one.
    pub consumer_tag: Name,
    /// Accepted and ignored, as RabbitMQ does.
    pub no_local: bool,
    /// Deliveries are settled by being sent.
    pub no_ack: bool,
    /// No other consumer.
    pub exclusive: bool,
    /// No reply.
    pub nowait: bool,
    /// Arguments.
    pub arguments: Table,
    /// Randomness for a generated tag.
    pub entropy: u128,
    /// Randomness for the name that direct replies go to, which nobody may guess; wanted only
    /// where the queue is [`DIRECT_REPLY_TO`].
    pub reply_entropy: u128,
}

/// `basic.publish` with its content
#[derive(Clone, Debug)]
pub struct Publish {
    /// Exchange name; empty is the default exchange.
    pub exchange: Name,
    /// Routing key.
    pub routing_key: Name,
    /// Return it if no queue takes it.
    pub mandatory: bool,
    /// Property flags and list as they came; they read without error.
    pub properties: Bytes,
    /// The body in parts. A body over the chunk size comes in parts of exactly that size, the
    /// last one shorter; a smaller one in one part or more.
    pub body: Vec<Bytes>,
}

impl Publish {
    /// The same, borrowed.
    pub fn borrowed(&self) -> PublishRef<'_> {
        PublishRef {
            exchange: self.exchange.as_bytes(),
            routing_key: self.routing_key.as_bytes(),
            mandatory: self.mandatory,
            properties: &self.properties,
            body: match self.body.as_slice() {
                [] => Body::Whole(&[]),
                [whole] => Body::Whole(whole),
                parts => Body::Parts(parts),
            },
        }
    }
}

/// `basic.publish` with its content, where it lies.
#[derive(Clone, Copy, Debug)]
pub struct PublishRef<'a> {
    /// Exchange name; empty is the default exchange.
    pub exchange: &'a [u8],
    /// Routing key.
    pub routing_key: &'a [u8],
    /// Return it if no queue takes it.
    pub mandatory: bool,
    /// Property flags and list as they came; they read without error.
    pub properties: &'a [u8],
    /// The body.
    pub body: Body<'a>,
}

/// The body of a message.
#[derive(Clone, Copy, Debug)]
pub enum Body<'a> {
    /// In one piece of at most the chunk size.
    Whole(&'a [u8]),
    /// As in [`Publish::body`].
    Parts(&'a [Bytes]),
}

impl PublishRef<'_> {
    /// The same, owned.
    pub fn to_owned(&self) -> Publish {
        Publish {
            exchange: Name::cut(self.exchange),
            routing_key: Name::cut(self.routing_key),
            mandatory: self.mandatory,
            properties: Bytes::copy_from_slice(self.properties),
            body: match self.body {
                Body::Whole([]) => Vec::new(),
                Body::Whole(whole) => vec![Bytes::copy_from_slice(whole)],
                Body::Parts(parts) => parts.to_vec(),
            },
        }
    }

    /// The message as queues hold it. A body up to `inline_bytes_max` lies beside the envelope.
    pub fn message(&self, inline_bytes_max: usize) -> Message {
        self.message_with(self.properties, inline_bytes_max)
    }

    /// As [`PublishRef::message`], with other properties.
    pub(crate) fn message_with(&self, properties: &[u8], inline_bytes_max: usize) -> Message {
        let (exchange, routing_key) = (self.exchange, self.routing_key);
        let parts = match self.body {
            Body::Whole(body) if body.len() <= inline_bytes_max => {
                return Message::copied(exchange, routing_key, properties, body);
            }
            Body::Whole(body) => {
                let parts = body.chunks(inline_bytes_max.max(1));
                parts.map(Bytes::copy_from_slice).collect()
            }
            Body::Parts(parts) => parts.to_vec(),
        };
        let (exchange, routing_key) = (Name::cut(exchange), Name::cut(routing_key));
        Message::new(&exchange, &routing_key, properties, parts, inline_bytes_max)
    }

    /// Bytes of the body.
    pub fn body_bytes(&self) -> u64 {
        match self.body {
            Body::Whole(body) => body.len() as u64,
            Body::Parts(parts) => parts.iter().map(|part| part.len() as u64).sum(),
        }
    }

    /// As [`Message::total_bytes`].
    pub fn total_bytes(&self) -> u64 {
        let envelope = self.exchange.len() + self.routing_key.len() + self.properties.len();
        envelope as u64 + self.body_bytes()
    }
}
