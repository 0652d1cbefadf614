//! What a client says, as frames.

use menzil_core::{Publish, Rejection, Request};
use menzil_model::Value;
use menzil_model::table::TableBuilder;
use menzil_model::wire::Writer;

use crate::speech::Say;

/// The largest frame that was agreed on.
pub(super) const FRAME_BYTES_MAX: usize = 4096;

/// Appends a frame.
pub(super) fn frame(out: &mut Vec<u8>, kind: u8, channel: u16, payload: &[u8]) {
    out.put_u8(kind);
    out.put_u16(channel);
    out.put_u32(u32::try_from(payload.len()).unwrap_or(u32::MAX));
    out.put(payload);
    out.put_u8(0xCE);
}

/// Appends a method frame.
pub(super) fn method(
    out: &mut Vec<u8>,
    channel: u16,
    (class, method): (u16, u16),
    arguments: impl FnOnce(&mut Vec<u8>),
) {
    let mut payload = Vec::new();
    payload.put_u16(class);
    payload.put_u16(method);
    arguments(&mut payload);
    frame(out, 1, channel, &payload);
}

pub(super) fn start_ok(out: &mut Vec<u8>) {
    let capabilities = TableBuilder::new()
        .field("consumer_cancel_notify", Value::Bool(true))
        .field("basic.nack", Value::Bool(true))
        .field("publisher_confirms", Value::Bool(true))
        .build();
    let properties = TableBuilder::new()
        .field("product", Value::LongString(b"simulation"))
        .field("capabilities", Value::Table(capabilities.fields()))
        .build();
    method(out, 0, (10, 11), |out| {
        out.put_long_string(properties.as_bytes());
        out.put_short_string(b"PLAIN");
        out.put_long_string(b"\0guest\0guest");
        out.put_short_string(b"en_US");
    });
}

pub(super) fn tune_ok(out: &mut Vec<u8>) {
    method(out, 0, (10, 31), |out| {
        out.put_u16(100);
        out.put_u32(4096);
        out.put_u16(0);
    });
}

pub(super) fn open(out: &mut Vec<u8>) {
    method(out, 0, (10, 40), |out| {
        out.put_short_string(b"/");
        out.put_short_string(b"");
        out.put_u8(0);
    });
}

pub(super) fn say(out: &mut Vec<u8>, say: &Say) {
    match say {
        Say::OpenChannel(channel) => method(out, *channel, (20, 10), |out| {
            out.put_short_string(b"");
        }),
        Say::CloseChannel(channel) => method(out, *channel, (20, 40), goodbye),
        Say::Bye => method(out, 0, (10, 50), goodbye),
        Say::Request(channel, request) => write_request(out, *channel, request),
    }
}

fn goodbye(out: &mut Vec<u8>) {
    out.put_u16(200);
    out.put_short_string(b"bye");
    out.put_u16(0);
    out.put_u16(0);
}

/// Flags as bits, the first one lowest.
fn bits(flags: &[bool]) -> u8 {
    flags
        .iter()
        .enumerate()
        .map(|(at, flag)| u8::from(*flag) << at)
        .sum()
}

fn write_request(out: &mut Vec<u8>, channel: u16, request: &Request) {
    let mut send = |id, arguments: &dyn Fn(&mut Vec<u8>)| method(out, channel, id, arguments);
    match request {
        Request::ExchangeDeclare(declare) => send((40, 10), &|out| {
            out.put_u16(0);
            out.put_short_string(declare.exchange.as_bytes());
            out.put_short_string(declare.kind.as_bytes());
            out.put_u8(bits(&[
                declare.passive,
                declare.durable,
                declare.auto_delete,
                declare.internal,
                declare.nowait,
            ]));
            out.put_long_string(declare.arguments.as_bytes());
        }),
        Request::ExchangeDelete {
            exchange,
            if_unused,
            nowait,
        } => send((40, 20), &|out| {
            out.put_u16(0);
            out.put_short_string(exchange.as_bytes());
            out.put_u8(bits(&[*if_unused, *nowait]));
        }),
        Request::ExchangeBind(bind) | Request::ExchangeUnbind(bind) => {
            let is_bind = matches!(request, Request::ExchangeBind(_));
            send((40, if is_bind { 30 } else { 40 }), &|out| {
                out.put_u16(0);
                out.put_short_string(bind.destination.as_bytes());
                out.put_short_string(bind.source.as_bytes());
                out.put_short_string(bind.routing_key.as_bytes());
                out.put_u8(bits(&[bind.nowait]));
                out.put_long_string(bind.arguments.as_bytes());
            });
        }
        Request::QueueDeclare(declare) => send((50, 10), &|out| {
            out.put_u16(0);
            out.put_short_string(declare.queue.as_bytes());
            out.put_u8(bits(&[
                declare.passive,
                declare.durable,
                declare.exclusive,
                declare.auto_delete,
                declare.nowait,
            ]));
            out.put_long_string(declare.arguments.as_bytes());
        }),
        Request::QueueBind(bind) => send((50, 20), &|out| {
            out.put_u16(0);
            out.put_short_string(bind.queue.as_bytes());
            out.put_short_string(bind.exchange.as_bytes());
            out.put_short_string(bind.routing_key.as_bytes());
            out.put_u8(bits(&[bind.nowait]));
            out.put_long_string(bind.arguments.as_bytes());
        }),
        Request::QueueUnbind(bind) => send((50, 50), &|out| {
            out.put_u16(0);
            out.put_short_string(bind.queue.as_bytes());
            out.put_short_string(bind.exchange.as_bytes());
            out.put_short_string(bind.routing_key.as_bytes());
            out.put_long_string(bind.arguments.as_bytes());
        }),
        Request::QueuePurge { queue, nowait } => send((50, 30), &|out| {
            out.put_u16(0);
            out.put_short_string(queue.as_bytes());
            out.put_u8(bits(&[*nowait]));
        }),
        Request::QueueDelete {
            queue,
            if_unused,
            if_empty,
            nowait,
        } => send((50, 40), &|out| {
            out.put_u16(0);
            out.put_short_string(queue.as_bytes());
            out.put_u8(bits(&[*if_unused, *if_empty, *nowait]));
        }),
        Request::Qos {
            prefetch_size,
            prefetch_count,
            global,
        } => send((60, 10), &|out| {
            out.put_u32(*prefetch_size);
            out.put_u16(*prefetch_count);
            out.put_u8(bits(&[*global]));
        }),
        Request::Consume(consume) => send((60, 20), &|out| {
            out.put_u16(0);
            out.put_short_string(consume.queue.as_bytes());
            out.put_short_string(consume.consumer_tag.as_bytes());
            out.put_u8(bits(&[
                consume.no_local,
                consume.no_ack,
                consume.exclusive,
                consume.nowait,
            ]));
            out.put_long_string(consume.arguments.as_bytes());
        }),
        Request::Cancel {
            consumer_tag,
            nowait,
        } => send((60, 30), &|out| {
            out.put_short_string(consumer_tag.as_bytes());
            out.put_u8(bits(&[*nowait]));
        }),
        Request::Publish(publish) => write_publish(out, channel, publish),
        Request::Get { queue, no_ack } => send((60, 70), &|out| {
            out.put_u16(0);
            out.put_short_string(queue.as_bytes());
            out.put_u8(bits(&[*no_ack]));
        }),
        Request::Ack {
            delivery_tag,
            multiple,
        } => send((60, 80), &|out| {
            out.put_u64(delivery_tag.0);
            out.put_u8(bits(&[*multiple]));
        }),
        Request::Reject {
            delivery_tag,
            requeue,
            method: Rejection::Reject,
            ..
        } => send((60, 90), &|out| {
            out.put_u64(delivery_tag.0);
            out.put_u8(bits(&[*requeue]));
        }),
        Request::Reject {
            delivery_tag,
            multiple,
            requeue,
            method: Rejection::Nack,
        } => send((60, 120), &|out| {
            out.put_u64(delivery_tag.0);
            out.put_u8(bits(&[*multiple, *requeue]));
        }),
        Request::Recover { requeue, reply } => {
            send((60, if *reply { 110 } else { 100 }), &|out| {
                out.put_u8(bits(&[*requeue]));
            });
        }
        Request::ConfirmSelect { nowait } => send((85, 10), &|out| out.put_u8(bits(&[*nowait]))),
        Request::TxSelect => send((90, 10), &|_| {}),
        Request::TxCommit => send((90, 20), &|_| {}),
        Request::TxRollback => send((90, 30), &|_| {}),
    }
}

fn write_publish(out: &mut Vec<u8>, channel: u16, publish: &Publish) {
    method(out, channel, (60, 40), |out| {
        out.put_u16(0);
        out.put_short_string(publish.exchange.as_bytes());
        out.put_short_string(publish.routing_key.as_bytes());
        out.put_u8(bits(&[publish.mandatory, false]));
    });
    let body = publish.body.concat();
    let mut header = Vec::new();
    header.put_u16(60);
    header.put_u16(0);
    header.put_u64(body.len() as u64);
    header.put(&publish.properties);
    frame(out, 2, channel, &header);
    for part in body.chunks(FRAME_BYTES_MAX - 8) {
        frame(out, 3, channel, part);
    }
}
