//! What clients say and hear, whatever the transport between them and the node is.

use bytes::Bytes;
use menzil_core::{Reply, Request};

/// What a client says on a connection.
#[derive(Clone, Debug)]
pub(crate) enum Say {
    /// `channel.open`
    OpenChannel(u16),
    /// `channel.close`
    CloseChannel(u16),
    /// A method.
    Request(u16, Request),
    /// `connection.close`
    Bye,
}

/// What a client hears on a channel; 0 is the connection.
#[derive(Clone, Debug)]
pub(crate) struct Heard {
    pub(crate) channel: u16,
    pub(crate) what: What,
}

/// See [`Heard`].
#[derive(Clone, Debug)]
pub(crate) enum What {
    /// The answer to a request.
    Reply(Reply),
    /// A delivery, to a consumer or, without a tag, to a `basic.get`.
    Content {
        consumer_tag: Option<Vec<u8>>,
        delivery_tag: u64,
        redelivered: bool,
        body: Vec<Bytes>,
    },
    /// An unroutable message comes back.
    Returned { body: Vec<Bytes> },
    /// `basic.ack` or `basic.nack` of the broker.
    Confirm {
        sequence: u64,
        multiple: bool,
        accepted: bool,
    },
    /// The broker ended a consumer.
    Cancelled,
    /// The broker closed the channel, or with channel 0 the connection.
    Refused { why: String },
    /// The connection is over, as the client wanted.
    Gone,
}
