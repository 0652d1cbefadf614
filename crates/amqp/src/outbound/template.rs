//! The frames of a delivery up to its body, kept for the next one of the same consumer with the
//! same envelope, in which only three numbers differ.
//!
//! ```text
//! │ deliver: consumer tag │ delivery tag, redelivered │ exchange, routing key │
//! │ header: class, weight │ body size │ properties │
//! │ body: │ size │
//! ```

use menzil_core::{Body, Carried, Delivering};
use menzil_model::Name;
use menzil_model::wire::Writer;

use crate::frame::{BODY, FRAME_END, HEADER, METHOD, write_frame, write_frame_start};
use crate::methods::BasicDeliver;

/// See the module.
#[derive(Debug)]
pub(super) struct Template {
    bytes: Vec<u8>,
    /// exchange ++ routing key ++ properties
    envelope: Vec<u8>,
    lengths: [usize; 3],
    channel: u16,
    consumer_tag: Name,
    /// As in [`Carried::Passing`].
    number: u64,
    /// Where the delivery tag stands.
    tag: usize,
    /// Where the size of the body stands in the content header.
    body_size: usize,
    /// Where the body frame begins.
    body: usize,
}

/// What a delivery says besides numbers.
#[derive(Clone, Copy)]
pub(super) struct Envelope<'a> {
    channel: u16,
    consumer_tag: &'a Name,
    number: u64,
    /// Of exchange, routing key and properties.
    lengths: [usize; 3],
    parts: Parts<'a>,
}

/// Exchange, routing key and properties.
#[derive(Clone, Copy)]
enum Parts<'a> {
    /// One after the other.
    Joined(&'a [u8]),
    Apart([&'a [u8]; 3]),
}

impl<'a> Envelope<'a> {
    /// The envelope and the body of a delivery, `None` where the body is not in one piece or the
    /// properties are not the message's.
    #[inline]
    pub(super) fn of(delivery: &'a Delivering<'_>) -> Option<(Self, &'a [u8])> {
        if delivery.properties.is_some() {
            return None;
        }
        let (number, parts, lengths, body) = match delivery.content {
            Carried::Stored(message) if message.chunks().is_empty() => (
                0,
                Parts::Joined(message.envelope()),
                message.envelope_lengths(),
                message.inline_body(),
            ),
            Carried::Stored(_) => return None,
            Carried::Passing { publish, envelope } => match publish.body {
                Body::Whole(body) => {
                    let parts = [publish.exchange, publish.routing_key, publish.properties];
                    (envelope, Parts::Apart(parts), parts.map(<[u8]>::len), body)
                }
                Body::Parts(_) => return None,
            },
        };
        let envelope = Self {
            channel: delivery.to.channel.number(),
            consumer_tag: delivery.consumer_tag,
            number,
            lengths,
            parts,
        };
        Some((envelope, body))
    }

    /// Bytes of the content header frame.
    pub(super) fn header_frame_bytes(&self) -> usize {
        let [_, _, properties] = self.lengths;
        CONTENT_HEADER_BYTES + properties
    }
}

impl Template {
    /// Appends a delivery.
    #[inline]
    pub(super) fn write(
        &mut self,
        envelope: &Envelope<'_>,
        delivery: &Delivering<'_>,
        body: &[u8],
        out: &mut Vec<u8>,
    ) {
        if !self.is_for(envelope) {
            self.restart(envelope);
        }
        self.patch(self.tag, &delivery.delivery_tag.0.to_be_bytes());
        self.patch(self.tag + 8, &[u8::from(delivery.redelivered)]);
        self.patch(self.body_size, &(body.len() as u64).to_be_bytes());
        let size = u32::try_from(body.len()).unwrap_or(u32::MAX);
        self.patch(self.body + 3, &size.to_be_bytes());
        out.reserve(self.bytes.len() + body.len() + 1);
        if body.is_empty() {
            out.put(self.bytes.get(..self.body).unwrap_or_default());
            return;
        }
        out.put(&self.bytes);
        out.put(body);
        out.put_u8(FRAME_END);
    }

    #[inline]
    fn patch<const N: usize>(&mut self, at: usize, bytes: &[u8; N]) {
        if let Some(place) = self.bytes.get_mut(at..at + N) {
            place.copy_from_slice(bytes);
        }
    }

    #[inline]
    fn is_for(&mut self, envelope: &Envelope<'_>) -> bool {
        if self.channel != envelope.channel || !self.consumer_tag.is_clone_of(envelope.consumer_tag)
        {
            return false;
        }
        if self.number == envelope.number && self.number != 0 {
            return true;
        }
        let is_same = self.lengths == envelope.lengths && self.has(&envelope.parts);
        if is_same {
            self.number = envelope.number;
        }
        is_same
    }

    /// Where the lengths are equal, whether the bytes are.
    fn has(&self, parts: &Parts<'_>) -> bool {
        match parts {
            Parts::Joined(whole) => self.envelope == *whole,
            Parts::Apart(parts) => self.parts().eq(parts.iter().copied()),
        }
    }

    fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.envelope.as_slice();
        self.lengths.iter().map(move |length| {
            let (part, left) = rest.split_at(rest.len().min(*length));
            rest = left;
            part
        })
    }

    fn restart(&mut self, envelope: &Envelope<'_>) {
        self.channel = envelope.channel;
        self.consumer_tag = envelope.consumer_tag.clone();
        self.number = envelope.number;
        self.lengths = envelope.lengths;
        self.envelope.clear();
        match envelope.parts {
            Parts::Joined(whole) => self.envelope.extend_from_slice(whole),
            Parts::Apart(parts) => parts
                .iter()
                .for_each(|part| self.envelope.extend_from_slice(part)),
        }
        self.fill();
    }

    fn fill(&mut self) {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        let (mut tag, mut body_size, channel) = (0, 0, self.channel);
        let mut parts = self.parts();
        write_frame(&mut bytes, METHOD, channel, |out| {
            BasicDeliver::ID.write(out);
            out.put_short_string(self.consumer_tag.as_bytes());
            tag = out.len();
            out.put_u64(0);
            out.put_u8(0);
            out.put_short_string(parts.next().unwrap_or_default());
            out.put_short_string(parts.next().unwrap_or_default());
        });
        write_frame(&mut bytes, HEADER, channel, |out| {
            out.put_u16(BasicDeliver::ID.class);
            out.put_u16(0);
            body_size = out.len();
            out.put_u64(0);
            out.put(parts.next().unwrap_or_default());
        });
        drop(parts);
        self.body = bytes.len();
        write_frame_start(&mut bytes, BODY, channel, 0);
        (self.tag, self.body_size, self.bytes) = (tag, body_size, bytes);
    }
}

impl Default for Template {
    /// No delivery's.
    fn default() -> Self {
        Self {
            bytes: Vec::new(),
            envelope: Vec::new(),
            lengths: [0; 3],
            channel: 0,
            consumer_tag: Name::empty(),
            number: 0,
            tag: 0,
            body_size: 0,
            body: 0,
        }
    }
}

/// Frame overhead, class, weight and body size.
const CONTENT_HEADER_BYTES: usize = 8 + 12;
