//! Methods in the core's words.

use menzil_core::{
    Consume, DIRECT_REPLY_TO, ExchangeBind, ExchangeDeclare, QueueBind, QueueDeclare, Rejection,
    Request,
};
use menzil_model::{DeliveryTag, Name, Table};

use crate::methods::Method;

/// The request that a method makes of the shard, `None` for methods that the session answers
/// itself or that no client may send. `entropy` is drawn only for names that may be generated.
pub(super) fn request(method: Method<'_>, entropy: &mut dyn FnMut() -> u128) -> Option<Request> {
    Some(match method {
        Method::ExchangeDeclare(m) => Request::ExchangeDeclare(ExchangeDeclare {
            exchange: declared(m.exchange),
            kind: Name::cut(m.kind),
            passive: m.passive,
            durable: m.durable,
            auto_delete: m.auto_delete,
            internal: m.internal,
            nowait: m.nowait,
            arguments: table(m.arguments),
        }),
        Method::ExchangeDelete(m) => Request::ExchangeDelete {
            exchange: declared(m.exchange),
            if_unused: m.if_unused,
            nowait: m.nowait,
        },
        Method::ExchangeBind(m) => Request::ExchangeBind(ExchangeBind {
            destination: declared(m.destination),
            source: declared(m.source),
            routing_key: Name::cut(m.routing_key),
            nowait: m.nowait,
            arguments: table(m.arguments),
        }),
        Method::ExchangeUnbind(m) => Request::ExchangeUnbind(ExchangeBind {
            destination: declared(m.destination),
            source: declared(m.source),
            routing_key: Name::cut(m.routing_key),
            nowait: m.nowait,
            arguments: table(m.arguments),
        }),
        Method::QueueDeclare(m) => Request::QueueDeclare(QueueDeclare {
            queue: declared(m.queue),
            passive: m.passive,
            durable: m.durable,
            exclusive: m.exclusive,
            auto_delete: m.auto_delete,
            nowait: m.nowait,
            arguments: table(m.arguments),
            entropy: entropy(),
        }),
        Method::QueueBind(m) => Request::QueueBind(QueueBind {
            queue: declared(m.queue),
            exchange: declared(m.exchange),
            routing_key: Name::cut(m.routing_key),
            nowait: m.nowait,
            arguments: table(m.arguments),
        }),
        Method::QueueUnbind(m) => Request::QueueUnbind(QueueBind {
            queue: declared(m.queue),
            exchange: declared(m.exchange),
            routing_key: Name::cut(m.routing_key),
            nowait: false,
            arguments: table(m.arguments),
        }),
        Method::QueuePurge(m) => Request::QueuePurge {
            queue: Name::cut(m.queue),
            nowait: m.nowait,
        },
        Method::QueueDelete(m) => Request::QueueDelete {
            queue: declared(m.queue),
            if_unused: m.if_unused,
            if_empty: m.if_empty,
            nowait: m.nowait,
        },
        Method::BasicQos(m) => Request::Qos {
            prefetch_size: m.prefetch_size,
            prefetch_count: m.prefetch_count,
            global: m.global,
        },
        Method::BasicConsume(m) => Request::Consume(Consume {
            queue: Name::cut(m.queue),
            consumer_tag: Name::cut(m.consumer_tag),
            no_local: m.no_local,
            no_ack: m.no_ack,
            exclusive: m.exclusive,
            nowait: m.nowait,
            arguments: table(m.arguments),
            entropy: entropy(),
            reply_entropy: if m.queue == DIRECT_REPLY_TO {
                entropy()
            } else {
                0
            },
        }),
        Method::BasicCancel(m) => Request::Cancel {
            consumer_tag: Name::cut(m.consumer_tag),
            nowait: m.nowait,
        },
        // RabbitMQ takes this answer to its own `basic.cancel` as a cancel without reply.
        Method::BasicCancelOk(m) => Request::Cancel {
            consumer_tag: Name::cut(m.consumer_tag),
            nowait: true,
        },
        Method::BasicGet(m) => Request::Get {
            queue: Name::cut(m.queue),
            no_ack: m.no_ack,
        },
        Method::BasicAck(m) => Request::Ack {
            delivery_tag: DeliveryTag(m.delivery_tag),
            multiple: m.multiple,
        },
        Method::BasicReject(m) => Request::Reject {
            delivery_tag: DeliveryTag(m.delivery_tag),
            multiple: false,
            requeue: m.requeue,
            method: Rejection::Reject,
        },
        Method::BasicNack(m) => Request::Reject {
            delivery_tag: DeliveryTag(m.delivery_tag),
            multiple: m.multiple,
            requeue: m.requeue,
            method: Rejection::Nack,
        },
        Method::BasicRecoverAsync(m) => Request::Recover {
            requeue: m.requeue,
            reply: false,
        },
        Method::BasicRecover(m) => Request::Recover {
            requeue: m.requeue,
            reply: true,
        },
        Method::ConfirmSelect(m) => Request::ConfirmSelect { nowait: m.nowait },
        Method::TxSelect(_) => Request::TxSelect,
        Method::TxCommit(_) => Request::TxCommit,
        Method::TxRollback(_) => Request::TxRollback,
        Method::ConnectionStart(_)
        | Method::ConnectionStartOk(_)
        | Method::ConnectionSecure(_)
        | Method::ConnectionSecureOk(_)
        | Method::ConnectionTune(_)
        | Method::ConnectionTuneOk(_)
        | Method::ConnectionOpen(_)
        | Method::ConnectionOpenOk(_)
        | Method::ConnectionClose(_)
        | Method::ConnectionCloseOk(_)
        | Method::ConnectionBlocked(_)
        | Method::ConnectionUnblocked(_)
        | Method::ConnectionUpdateSecret(_)
        | Method::ConnectionUpdateSecretOk(_)
        | Method::ChannelOpen(_)
        | Method::ChannelOpenOk(_)
        | Method::ChannelFlow(_)
        | Method::ChannelFlowOk(_)
        | Method::ChannelClose(_)
        | Method::ChannelCloseOk(_)
        | Method::AccessRequest(_)
        | Method::AccessRequestOk(_)
        | Method::ExchangeDeclareOk(_)
        | Method::ExchangeDeleteOk(_)
        | Method::ExchangeBindOk(_)
        | Method::ExchangeUnbindOk(_)
        | Method::QueueDeclareOk(_)
        | Method::QueueBindOk(_)
        | Method::QueuePurgeOk(_)
        | Method::QueueDeleteOk(_)
        | Method::QueueUnbindOk(_)
        | Method::BasicQosOk(_)
        | Method::BasicConsumeOk(_)
        | Method::BasicPublish(_)
        | Method::BasicReturn(_)
        | Method::BasicDeliver(_)
        | Method::BasicGetOk(_)
        | Method::BasicGetEmpty(_)
        | Method::BasicRecoverOk(_)
        | Method::ConfirmSelectOk(_)
        | Method::TxSelectOk(_)
        | Method::TxCommitOk(_)
        | Method::TxRollbackOk(_) => return None,
    })
}

/// A name without the line breaks that RabbitMQ takes out where names are declared.
fn declared(bytes: &[u8]) -> Name {
    let is_break = |byte: &u8| matches!(byte, b'\r' | b'\n');
    if bytes.iter().any(is_break) {
        let kept: Vec<u8> = bytes.iter().copied().filter(|b| !is_break(b)).collect();
        return Name::cut(&kept);
    }
    Name::cut(bytes)
}

/// The decoder has checked it.
fn table(content: &[u8]) -> Table {
    Table::copy_from(content).unwrap_or_default()
}
