//! The usual: a publish whose frames lie whole in the input, and acknowledgements one by one.
//!
//! Both are looked at where they lie. Whatever is unusual in any way, an error first of all, is
//! left to the frame by frame way, so that nothing is decided twice.
//!
//! Mostly many of a kind follow each other. Of publishes that are the same up to their bodies
//! the first is looked at; acknowledgements, in which only the delivery tag differs, go on as one
//! run.

use menzil_core::{Body, PublishRef};
use menzil_model::wire::Reader;
use menzil_model::{ChannelId, DeliveryTag};

use super::channel::{BODY_BYTES_CAP, Slot};
use super::{Inbound, Phase};
use crate::action::Sink;
use crate::frame::{BODY, FRAME_END, FRAME_HEADER_BYTES, HEADER, METHOD, payload_bytes_max};

impl Inbound {
    /// Handles one of the usual units at the start of the input and returns its length.
    #[inline]
    pub(super) fn quick(&mut self, input: &[u8], out: &mut dyn Sink) -> Option<usize> {
        if !matches!(self.phase, Phase::Running) {
            return None;
        }
        // type, channel, size, class, method
        let start: &[u8; METHOD_START_BYTES] = input.first_chunk()?;
        match start {
            [METHOD, .., 0, 60, 0, 40] => self.quick_publish(input, out),
            [METHOD, .., 0, 60, 0, 80] => self.quick_acks(input, out),
            _ => None,
        }
    }

    fn quick_publish(&mut self, input: &[u8], out: &mut dyn Sink) -> Option<usize> {
        let mut reader = Reader::new(input);
        let (channel, method) = frame(&mut reader, METHOD, self.frame_bytes_max)?;
        let (exchange, routing_key, mandatory) = publish_fields(method)?;
        let (header_channel, header) = frame(&mut reader, HEADER, self.frame_bytes_max)?;
        let (body_bytes, properties) = content_header(header)?;
        let most = self.config.message_bytes_max.min(BODY_BYTES_CAP);
        if header_channel != channel
            || body_bytes > most
            || body_bytes > self.config.chunk_bytes as u64
        {
            return None;
        }
        let body = if body_bytes == 0 {
            &[]
        } else {
            let (body_channel, body) = frame(&mut reader, BODY, self.frame_bytes_max)?;
            if body_channel != channel || body.len() as u64 != body_bytes {
                return None;
            }
            body
        };
        let channel = ChannelId::new(channel)?;
        let takes = match self.channels.get_mut(channel)? {
            Slot::Open(open) => open.is_idle() && open.takes(properties),
            Slot::Leaving | Slot::Closing => false,
        };
        if !takes {
            return None;
        }
        let publish = |body| PublishRef {
            exchange,
            routing_key,
            mandatory,
            properties,
            body: Body::Whole(body),
        };
        let key = self.key(channel);
        out.publish(key, &publish(body));
        self.look_ahead(reader, out);
        let length = input.len() - reader.rest().len();
        if body.is_empty() {
            return Some(length);
        }
        let (unit, mut rest) = input.split_at_checked(length)?;
        let start = unit.get(..length - body.len() - 1)?;
        let mut used = length;
        while let Some((next, behind)) = rest.split_at_checked(length)
            && let Some([body @ .., FRAME_END]) = next.strip_prefix(start)
        {
            out.publish(key, &publish(body));
            used += length;
            rest = behind;
        }
        Some(used)
    }

    /// Tells the sink where the next publishes go, now and then, if it wants to know: what it
    /// needs for them comes from memory all at once, and not for one after the other.
    #[inline]
    fn look_ahead(&mut self, reader: Reader<'_>, out: &mut dyn Sink) {
        match self.foreseen.checked_sub(1) {
            Some(left) => self.foreseen = left,
            None => self.foreseen = foresee(reader, self.frame_bytes_max, out),
        }
    }

    /// Acknowledgements of one delivery each on one channel, as many as follow each other.
    fn quick_acks(&mut self, input: &[u8], out: &mut dyn Sink) -> Option<usize> {
        let (frames, _) = input.as_chunks::<ACK_FRAME_BYTES>();
        let start: &[u8; METHOD_START_BYTES] = input.first_chunk()?;
        let [_, c0, c1, 0, 0, 0, ACK_PAYLOAD_BYTES, ..] = *start else {
            return None;
        };
        let channel = ChannelId::new(u16::from_be_bytes([c0, c1]))?;
        match self.channels.get(channel)? {
            Slot::Open(open) if open.is_idle() => {}
            Slot::Open(_) | Slot::Leaving | Slot::Closing => return None,
        }
        let mut tags = [DeliveryTag(0); ACKS_AT_ONCE];
        let mut count = 0;
        for (place, frame) in tags.iter_mut().zip(frames) {
            let Some(tag) = delivery_tag(frame, start) else {
                break;
            };
            *place = tag;
            count += 1;
        }
        let tags = tags.get(..count).filter(|tags| !tags.is_empty())?;
        out.acknowledge(self.key(channel), tags);
        Some(count * ACK_FRAME_BYTES)
    }
}

/// Tells the sink of the publishes that begin there. Answers with how many more are to go by
/// before the next look.
fn foresee(mut reader: Reader<'_>, bytes_max: u32, out: &mut dyn Sink) -> usize {
    if !out.has_foresight() {
        return FORESEEN_MAX;
    }
    let mut keys = [(&[][..], &[][..]); FORESEEN_MAX];
    let mut count = 0;
    for place in &mut keys {
        let Some(key) = key_of_publish(&mut reader, bytes_max) else {
            break;
        };
        *place = key;
        count += 1;
    }
    out.foresee(keys.get(..count).unwrap_or_default());
    count
}

/// Exchange and routing key of a publish whose frames lie whole in the input.
#[inline]
fn key_of_publish<'a>(reader: &mut Reader<'a>, bytes_max: u32) -> Option<(&'a [u8], &'a [u8])> {
    let (_, method) = frame(reader, METHOD, bytes_max)?;
    let [0, 60, 0, 40, ..] = *method else {
        return None;
    };
    let (exchange, routing_key, _) = publish_fields(method)?;
    let (_, header) = frame(reader, HEADER, bytes_max)?;
    let (body_bytes, _) = content_header(header)?;
    if body_bytes > 0 {
        frame(reader, BODY, bytes_max)?;
    }
    Some((exchange, routing_key))
}

/// The delivery tag, if the frame is an acknowledgement of one delivery that begins so.
#[inline]
fn delivery_tag(
    frame: &[u8; ACK_FRAME_BYTES],
    start: &[u8; METHOD_START_BYTES],
) -> Option<DeliveryTag> {
    let (found, rest) = frame.split_first_chunk::<METHOD_START_BYTES>()?;
    let (tag, end) = rest.split_first_chunk::<8>()?;
    // `multiple` is not set.
    (found == start && *end == [0, FRAME_END]).then_some(DeliveryTag(u64::from_be_bytes(*tag)))
}

/// The next frame, if it is whole and of that type: its channel and its payload.
#[inline]
fn frame<'a>(reader: &mut Reader<'a>, kind: u8, bytes_max: u32) -> Option<(u16, &'a [u8])> {
    let start: &[u8; FRAME_HEADER_BYTES] =
        reader.bytes(FRAME_HEADER_BYTES).ok()?.try_into().ok()?;
    let [found, c0, c1, s0, s1, s2, s3] = *start;
    let size = u32::from_be_bytes([s0, s1, s2, s3]);
    if found != kind || size > payload_bytes_max(kind, bytes_max) {
        return None;
    }
    let (end, payload) = reader.bytes(size as usize + 1).ok()?.split_last()?;
    (*end == FRAME_END).then_some((u16::from_be_bytes([c0, c1]), payload))
}

/// Exchange, routing key and `mandatory`.
#[inline]
fn publish_fields(method: &[u8]) -> Option<(&[u8], &[u8], bool)> {
    let mut fields = Reader::new(method.get(METHOD_ID_BYTES + TICKET_BYTES..)?);
    let exchange = fields.short_string().ok()?;
    let routing_key = fields.short_string().ok()?;
    let bits = fields.u8().ok()?;
    (bits <= 1 && fields.is_empty()).then_some((exchange, routing_key, bits == 1))
}

/// Size of the body, and the properties.
#[inline]
fn content_header(header: &[u8]) -> Option<(u64, &[u8])> {
    // class 60, weight 0
    let mut fields = Reader::new(header.strip_prefix(&[0, 60, 0, 0])?);
    Some((fields.u64().ok()?, fields.rest()))
}

/// Publishes that are looked at ahead: enough for their memory to come at once, and few enough
/// for it to be at hand still when they come.
const FORESEEN_MAX: usize = 16;
const METHOD_ID_BYTES: usize = 4;
const TICKET_BYTES: usize = 2;
const METHOD_START_BYTES: usize = FRAME_HEADER_BYTES + METHOD_ID_BYTES;
/// Method, delivery tag, `multiple`.
const ACK_PAYLOAD_BYTES: u8 = 13;
const ACK_FRAME_BYTES: usize = METHOD_START_BYTES + 10;
/// What a usual prefetch count has out.
const ACKS_AT_ONCE: usize = 256;
