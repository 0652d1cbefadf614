//! What a shard has done or wants done, for the driver to carry out.

use std::sync::Arc;

use bytes::Bytes;
use menzil_model::fact::{Chunks, Origin};
use menzil_model::{ConnectionId, DeliveryTag, Message, Name, QueueId, Sequence};

use crate::command::{ChannelKey, PublishRef};
use crate::mqtt::{Copy, SessionOutput};
use crate::refusal::Refusal;

/// An instruction to the driver. Effects are carried out in order.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Something to send on a channel.
    Channel {
        /// To whom.
        to: ChannelKey,
        /// Not before the journal has committed this index; 0 is at once. A waiting effect
        /// holds back those that follow on its channel, save that confirms may be overtaken.
        after: u64,
        /// What.
        output: Output,
    },
    /// Something to send on a connection; see `Channel` for `after`, which here holds back
    /// only this effect.
    Connection {
        /// To whom.
        to: ConnectionId,
        /// Not before the journal has committed this index; 0 is at once.
        after: u64,
        /// What.
        output: ConnectionOutput,
    },
    /// Something to send to a session's client; see `Channel` for `after`, which here holds back
    /// what follows of the same kind: copies, or answers.
    Session {
        /// To whom.
        to: ConnectionId,
        /// Not before the journal has committed this index; 0 is at once.
        after: u64,
        /// What.
        output: SessionOutput,
    },
    /// Read these messages from the journal, with their chunks, and answer with one
    /// [`crate::Command::Fetched`] for all of them.
    Fetch {
        /// The queue that wants them.
        queue: QueueId,
        /// Which messages, in the order in which they are due.
        wanted: Vec<Wanted>,
        /// Messages that are gone, no more than are wanted: those that are read may take their
        /// memory.
        spare: Vec<Arc<Message>>,
    },
}

/// Where effects go as they are decided.
pub trait Effects {
    /// Takes an effect.
    fn effect(&mut self, effect: Effect);

    /// Takes a delivery whose content it may look at but not keep: who can send it at once
    /// needs no copy of its own.
    fn deliver(&mut self, delivery: &Delivering<'_>) {
        self.effect(Effect::Channel {
            to: delivery.to,
            after: delivery.after,
            output: delivery.output(),
        });
    }

    /// As [`Effects::deliver`], of a message for a session's client.
    fn deliver_copy(&mut self, copy: &Copy<'_>) {
        self.effect(Effect::Session {
            to: copy.to,
            after: copy.after,
            output: SessionOutput::Copy(copy.to_owned()),
        });
    }

    /// Takes the fate of a publish; as [`Output::Confirm`].
    fn confirm(&mut self, to: ChannelKey, after: u64, sequence: u64, accepted: bool) {
        let output = Output::Confirm { sequence, accepted };
        self.effect(Effect::Channel { to, after, output });
    }
}

impl Effects for Vec<Effect> {
    fn effect(&mut self, effect: Effect) {
        self.push(effect);
    }
}

/// A `basic.deliver` on its way.
#[derive(Clone, Copy, Debug)]
pub struct Delivering<'a> {
    /// To whom.
    pub to: ChannelKey,
    /// As in [`Effect::Channel`].
    pub after: u64,
    /// The consumer.
    pub consumer_tag: &'a Name,
    /// The channel's count.
    pub delivery_tag: DeliveryTag,
    /// It may have been delivered before.
    pub redelivered: bool,
    /// The content.
    pub content: Carried<'a>,
    /// Properties in place of the content's, where headers are added for this delivery.
    pub properties: Option<&'a [u8]>,
}

/// The content of a delivery.
#[derive(Clone, Copy, Debug)]
pub enum Carried<'a> {
    /// A queue had it.
    Stored(&'a Arc<Message>),
    /// It goes from the publisher to the consumer as it came.
    Passing {
        /// The publish.
        publish: &'a PublishRef<'a>,
        /// A number that stands for its exchange, routing key and properties.
        envelope: u64,
    },
}

impl Delivering<'_> {
    /// The same as an output that owns its content.
    pub fn output(&self) -> Output {
        Output::Deliver {
            consumer_tag: self.consumer_tag.clone(),
            delivery_tag: self.delivery_tag,
            redelivered: self.redelivered,
            properties: self.properties.map(Bytes::copy_from_slice),
            message: match self.content {
                Carried::Stored(message) => Arc::clone(message),
                Carried::Passing { publish, .. } => Arc::new(publish.message(usize::MAX)),
            },
        }
    }

    /// As [`credit_bytes`].
    pub fn credit_bytes(&self) -> u64 {
        match self.content {
            Carried::Stored(message) => credit_bytes(message),
            Carried::Passing { publish, .. } => publish.total_bytes() + DELIVERY_OVERHEAD_BYTES,
        }
    }
}

/// A message that a queue wants read from the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The entry's place in the queue.
    pub sequence: Sequence,
    /// Which message; [`menzil_model::fact::read_message`] takes it out of its record.
    pub origin: Origin,
    /// The chunk records that hold its body; none where it is in the record itself.
    pub chunks: Chunks,
}

/// Something to send on a channel.
#[derive(Clone, Debug)]
pub enum Output {
    /// The answer to a request.
    Reply(Reply),
    /// `basic.deliver`
    Deliver {
        /// The consumer.
        consumer_tag: Name,
        /// The channel's count.
        delivery_tag: DeliveryTag,
        /// It may have been delivered before.
        redelivered: bool,
        /// As in [`Delivering::properties`].
        properties: Option<Bytes>,
        /// The content.
        message: Arc<Message>,
    },
    /// `basic.get-ok`
    GetOk {
        /// The channel's count.
        delivery_tag: DeliveryTag,
        /// It may have been delivered before.
        redelivered: bool,
        /// Ready messages that are left.
        message_count: u32,
        /// As in [`Delivering::properties`].
        properties: Option<Bytes>,
        /// The content.
        message: Arc<Message>,
    },
    /// `basic.return`, 312 `NO_ROUTE`
    Return {
        /// The content as published, `BCC` included.
        message: Arc<Message>,
    },
    /// `basic.ack` or `basic.nack` to a publisher. Those that fall due together are folded
    /// into cumulative ones.
    Confirm {
        /// The channel's count of publishes since `confirm.select`, from 1.
        sequence: u64,
        /// False is a nack.
        accepted: bool,
    },
    /// `basic.cancel` by the broker.
    Cancelled {
        /// The consumer that is gone.
        consumer_tag: Name,
    },
    /// The request failed. A soft refusal has closed the channel in the shard, a hard one the
    /// connection; what the client still sends there is ignored until it says close-ok.
    Refused {
        /// Why.
        refusal: Refusal,
        /// The method that failed, by class and method number (0, 0 where there is none).
        method: (u16, u16),
    },
}

/// Something to send on a connection.
#[derive(Clone, Debug)]
pub enum ConnectionOutput {
    /// The connection's state in the shard is gone: exclusive queues deleted, unsettled
    /// deliveries back in their queues.
    Closed,
}

/// The answer to a request, by the standard's method names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The channel is there: `channel.open-ok`.
    ChannelOpened,
    /// The channel's state in the shard is gone: `channel.close-ok`.
    ChannelClosed,
    /// `exchange.declare-ok`
    ExchangeDeclareOk,
    /// `exchange.delete-ok`
    ExchangeDeleteOk,
    /// `exchange.bind-ok`
    ExchangeBindOk,
    /// `exchange.unbind-ok`
    ExchangeUnbindOk,
    /// `queue.declare-ok`
    QueueDeclareOk {
        /// The queue's name, generated or as asked.
        queue: Name,
        /// Ready messages.
        message_count: u32,
        /// Consumers.
        consumer_count: u32,
    },
    /// `queue.bind-ok`
    QueueBindOk,
    /// `queue.unbind-ok`
    QueueUnbindOk,
    /// `queue.purge-ok`
    QueuePurgeOk {
        /// Messages that were ready.
        message_count: u32,
    },
    /// `queue.delete-ok`
    QueueDeleteOk {
        /// Messages that were ready.
        message_count: u32,
    },
    /// `basic.qos-ok`
    QosOk,
    /// `basic.consume-ok`
    ConsumeOk {
        /// The tag, generated or as asked.
        consumer_tag: Name,
    },
    /// `basic.cancel-ok`
    CancelOk {
        /// The tag.
        consumer_tag: Name,
    },
    /// `basic.get-empty`
    GetEmpty,
    /// `basic.recover-ok`
    RecoverOk,
    /// `confirm.select-ok`
    ConfirmSelectOk,
    /// `tx.select-ok`
    TxSelectOk,
    /// `tx.commit-ok`
    TxCommitOk,
    /// `tx.rollback-ok`
    TxRollbackOk,
}

/// Bytes that a delivery, of `basic.get` too, counts against its connection's credit: its content and a share of
/// the frames around it.
pub fn credit_bytes(message: &Message) -> u64 {
    message.total_bytes() + DELIVERY_OVERHEAD_BYTES
}

pub(crate) const DELIVERY_OVERHEAD_BYTES: u64 = 64;
