//! Effects as frames.

use menzil_core::{Outbox, Reply};
use menzil_model::Message;
use menzil_model::wire::Writer;

use crate::frame::{BODY, FRAME_END, HEADER, METHOD, write_frame, write_frame_start};
use crate::methods::{
    BasicCancelOk, BasicConsumeOk, BasicGetEmpty, BasicQosOk, BasicRecoverOk, ChannelCloseOk,
    ChannelOpenOk, ConfirmSelectOk, ExchangeBindOk, ExchangeDeclareOk, ExchangeDeleteOk,
    ExchangeUnbindOk, Method, QueueBindOk, QueueDeclareOk, QueueDeleteOk, QueuePurgeOk,
    QueueUnbindOk, TxCommitOk, TxRollbackOk, TxSelectOk,
};

/// Appends a frame of that method.
pub(super) fn method(outbox: &mut Outbox, channel: u16, method: &Method<'_>) {
    outbox.write(|out| write_frame(out, METHOD, channel, |out| method.write(out)));
}

/// Appends the answer to a request.
pub(super) fn reply(outbox: &mut Outbox, channel: u16, reply: &Reply) {
    method(outbox, channel, &reply_method(reply));
}

fn reply_method(reply: &Reply) -> Method<'_> {
    match reply {
        Reply::ChannelOpened => Method::ChannelOpenOk(ChannelOpenOk { channel_id: b"" }),
        Reply::ChannelClosed => Method::ChannelCloseOk(ChannelCloseOk {}),
        Reply::ExchangeDeclareOk => Method::ExchangeDeclareOk(ExchangeDeclareOk {}),
        Reply::ExchangeDeleteOk => Method::ExchangeDeleteOk(ExchangeDeleteOk {}),
        Reply::ExchangeBindOk => Method::ExchangeBindOk(ExchangeBindOk {}),
        Reply::ExchangeUnbindOk => Method::ExchangeUnbindOk(ExchangeUnbindOk {}),
        Reply::QueueDeclareOk {
            queue,
            message_count,
            consumer_count,
        } => Method::QueueDeclareOk(QueueDeclareOk {
            queue: queue.as_bytes(),
            message_count: *message_count,
            consumer_count: *consumer_count,
        }),
        Reply::QueueBindOk => Method::QueueBindOk(QueueBindOk {}),
        Reply::QueueUnbindOk => Method::QueueUnbindOk(QueueUnbindOk {}),
        Reply::QueuePurgeOk { message_count } => Method::QueuePurgeOk(QueuePurgeOk {
            message_count: *message_count,
        }),
        Reply::QueueDeleteOk { message_count } => Method::QueueDeleteOk(QueueDeleteOk {
            message_count: *message_count,
        }),
        Reply::QosOk => Method::BasicQosOk(BasicQosOk {}),
        Reply::ConsumeOk { consumer_tag } => Method::BasicConsumeOk(BasicConsumeOk {
            consumer_tag: consumer_tag.as_bytes(),
        }),
        Reply::CancelOk { consumer_tag } => Method::BasicCancelOk(BasicCancelOk {
            consumer_tag: consumer_tag.as_bytes(),
        }),
        Reply::GetEmpty => Method::BasicGetEmpty(BasicGetEmpty { cluster_id: b"" }),
        Reply::RecoverOk => Method::BasicRecoverOk(BasicRecoverOk {}),
        Reply::ConfirmSelectOk => Method::ConfirmSelectOk(ConfirmSelectOk {}),
        Reply::TxSelectOk => Method::TxSelectOk(TxSelectOk {}),
        Reply::TxCommitOk => Method::TxCommitOk(TxCommitOk {}),
        Reply::TxRollbackOk => Method::TxRollbackOk(TxRollbackOk {}),
    }
}

/// Bytes of the content header frame.
pub(super) fn header_frame_bytes(properties: &[u8]) -> usize {
    CONTENT_HEADER_BYTES + properties.len()
}

/// Appends content header and body, in frames of the agreed size.
pub(super) fn content(
    outbox: &mut Outbox,
    channel: u16,
    (message, properties): (&Message, &[u8]),
    payload_max: usize,
) {
    outbox.write(|out| {
        write_frame(out, HEADER, channel, |out| {
            out.put_u16(BASIC);
            out.put_u16(0);
            out.put_u64(message.body_bytes());
            out.put(properties);
        });
    });
    let inline = message.inline_body();
    if message.chunks().is_empty() && inline.len() <= payload_max.min(COPIED_BYTES_MAX) {
        if !inline.is_empty() {
            outbox.write(|out| write_frame(out, BODY, channel, |out| out.put(inline)));
        }
    } else {
        body(outbox, channel, message, payload_max);
    }
}

/// Cuts the parts of a large body into frames; what is large is shared.
fn body(outbox: &mut Outbox, channel: u16, message: &Message, payload_max: usize) {
    let mut parts = message.body_parts();
    let mut left: usize = message.body_parts().map(|part| part.len()).sum();
    let Some(mut part) = parts.next() else {
        return;
    };
    while left > 0 {
        let mut lacking = left.min(payload_max);
        left -= lacking;
        let size = u32::try_from(lacking).unwrap_or(u32::MAX);
        outbox.write(|out| write_frame_start(out, BODY, channel, size));
        while lacking > 0 {
            if part.is_empty() {
                let Some(next) = parts.next() else {
                    return;
                };
                part = next;
            }
            let taken = part.split_to(part.len().min(lacking));
            lacking -= taken.len();
            outbox.share(taken);
        }
        outbox.write(|out| out.put_u8(FRAME_END));
    }
}

/// Class number of messages.
const BASIC: u16 = 60;
/// Frame overhead, class, weight and body size.
const CONTENT_HEADER_BYTES: usize = 8 + 12;
/// A body up to this is copied into the buffer at once.
pub(super) const COPIED_BYTES_MAX: usize = 4096;
