//! A published message: immutable, shared by every queue that it reached.

use std::sync::Arc;

use bytes::Bytes;

use crate::name::Name;

/// What a publisher handed in: envelope, properties and body. Cheap to share behind an `Arc`.
///
/// Exchange, routing key, properties and a small body lie in one allocation of their own, with
/// the other fields where they are short, so that a queued message of sixteen bytes never pins a
/// read buffer.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    data: Data,
    lengths: Lengths,
    /// The body's parts after the inline one; each at most one journal chunk.
    chunks: Vec<Bytes>,
    body_bytes: u64,
}

/// Bytes of a message that lie beside its other fields, in one allocation with them.
const SHORT_BYTES_MAX: usize = 134;

/// Bytes of the parts that lie before the inline body, in one word: exchange 8 bits, routing key 8,
/// properties 24, notes 24.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Lengths(u64);

const PART_BYTES_MAX: usize = (1 << 24) - 1;

impl Lengths {
    /// Of exchange and routing key 255 bytes count. `None` where another part is too long, which
    /// no frame that a client may send has room for.
    #[inline]
    fn new(exchange: usize, routing_key: usize, properties: usize, notes: usize) -> Option<Self> {
        if properties > PART_BYTES_MAX || notes > PART_BYTES_MAX {
            return None;
        }
        let [exchange, routing_key] =
            [exchange, routing_key].map(|length| length.min(Name::BYTES_MAX) as u64);
        Some(Self(
            exchange | routing_key << 8 | (properties as u64) << 16 | (notes as u64) << 40,
        ))
    }

    #[inline]
    fn exchange(self) -> usize {
        (self.0 & 0xff) as usize
    }

    #[inline]
    fn routing_key(self) -> usize {
        (self.0 >> 8 & 0xff) as usize
    }

    #[inline]
    fn properties(self) -> usize {
        (self.0 >> 16) as usize & PART_BYTES_MAX
    }

    #[inline]
    fn notes(self) -> usize {
        (self.0 >> 40) as usize
    }
}

/// exchange ++ routing key ++ properties ++ notes ++ inline body
#[derive(Clone)]
enum Data {
    /// Anything after the length.
    Short {
        length: u8,
        bytes: [u8; SHORT_BYTES_MAX],
    },
    Long(Bytes),
}

impl PartialEq for Data {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for Data {}

impl Data {
    fn of(data: &[u8]) -> Self {
        let mut bytes = [0; SHORT_BYTES_MAX];
        match bytes.get_mut(..data.len()) {
            Some(place) => {
                place.copy_from_slice(data);
                let length = u8::try_from(data.len()).unwrap_or(u8::MAX);
                Self::Short { length, bytes }
            }
            None => Self::Long(Bytes::copy_from_slice(data)),
        }
    }

    /// Takes in other parts. A longer one takes only what is just as long: then its memory is
    /// that of one that was made for it.
    fn refill(&mut self, parts: [&[u8]; 4], new_length: usize) -> bool {
        match self {
            Self::Short { length, bytes } => {
                if new_length > SHORT_BYTES_MAX {
                    return false;
                }
                fill(bytes, parts);
                *length = u8::try_from(new_length).unwrap_or(u8::MAX);
                true
            }
            Self::Long(bytes) => {
                if new_length != bytes.len() {
                    return false;
                }
                match std::mem::take(bytes).try_into_mut() {
                    Ok(mut own) => {
                        fill(&mut own, parts);
                        *bytes = own.freeze();
                        true
                    }
                    Err(shared) => {
                        *bytes = shared;
                        false
                    }
                }
            }
        }
    }

    #[inline]
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Short { length, bytes } => bytes.get(..usize::from(*length)).unwrap_or_default(),
            Self::Long(bytes) => bytes,
        }
    }
}

/// Copies the parts to the beginning, one after the other, as far as there is room.
#[inline]
fn fill(bytes: &mut [u8], parts: [&[u8]; 4]) {
    let mut rest = bytes;
    for part in parts {
        if part.is_empty() {
            continue;
        }
        let at = part.len().min(rest.len());
        let (place, left) = rest.split_at_mut(at);
        if let Some(part) = part.get(..at) {
            place.copy_from_slice(part);
        }
        rest = left;
    }
}

/// The properties, and the lengths of a message with them; none where they are too long, which
/// nothing that comes out of a frame is.
#[inline]
fn measured<'a>(exchange: &[u8], routing_key: &[u8], properties: &'a [u8]) -> (&'a [u8], Lengths) {
    let lengths = |properties| Lengths::new(exchange.len(), routing_key.len(), properties, 0);
    match lengths(properties.len()) {
        Some(found) => (properties, found),
        None => (&[], lengths(0).unwrap_or(Lengths(0))),
    }
}

impl Message {
    /// A message whose body lies in `parts`. Bodies up to `inline_bytes_max` are copied beside
    /// the envelope; larger ones stay in the parts as they are.
    pub fn new(
        exchange: &Name,
        routing_key: &Name,
        properties: &[u8],
        parts: Vec<Bytes>,
        inline_bytes_max: usize,
    ) -> Self {
        let body_bytes: usize = parts.iter().map(Bytes::len).sum();
        let inline = body_bytes <= inline_bytes_max;
        let (exchange, routing_key) = (exchange.as_bytes(), routing_key.as_bytes());
        let (properties, lengths) = measured(exchange, routing_key, properties);
        let mut data = Vec::with_capacity(
            exchange.len()
                + routing_key.len()
                + properties.len()
                + if inline { body_bytes } else { 0 },
        );
        data.extend_from_slice(exchange);
        data.extend_from_slice(routing_key);
        data.extend_from_slice(properties);
        let chunks = if inline {
            for part in &parts {
                data.extend_from_slice(part);
            }
            Vec::new()
        } else {
            parts
        };
        Self {
            data: if data.len() <= SHORT_BYTES_MAX {
                Data::of(&data)
            } else {
                Data::Long(Bytes::from(data))
            },
            lengths,
            chunks,
            body_bytes: body_bytes as u64,
        }
    }

    /// A message whose body lies beside the envelope. Of exchange and routing key 255 bytes
    /// count.
    pub fn copied(exchange: &[u8], routing_key: &[u8], properties: &[u8], body: &[u8]) -> Self {
        let exchange = exchange.get(..Name::BYTES_MAX).unwrap_or(exchange);
        let routing_key = routing_key.get(..Name::BYTES_MAX).unwrap_or(routing_key);
        let (properties, lengths) = measured(exchange, routing_key, properties);
        let parts = [exchange, routing_key, properties, body];
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let data = if length <= SHORT_BYTES_MAX {
            let mut bytes = [0; SHORT_BYTES_MAX];
            fill(&mut bytes, parts);
            let length = u8::try_from(length).unwrap_or(u8::MAX);
            Data::Short { length, bytes }
        } else {
            Data::Long(Bytes::from(parts.concat()))
        };
        Self {
            data,
            lengths,
            chunks: Vec::new(),
            body_bytes: body.len() as u64,
        }
    }

    /// Becomes what [`Message::copied`] makes, in the memory that it has. False, and nothing has
    /// happened, where that is not of the size.
    pub fn become_copied(
        &mut self,
        exchange: &[u8],
        routing_key: &[u8],
        properties: &[u8],
        body: &[u8],
    ) -> bool {
        let parts = [exchange, routing_key, properties, body];
        let new_length: usize = parts.iter().map(|part| part.len()).sum();
        let is_short = exchange.len() <= Name::BYTES_MAX && routing_key.len() <= Name::BYTES_MAX;
        let lengths = Lengths::new(exchange.len(), routing_key.len(), properties.len(), 0);
        let Some(lengths) = lengths.filter(|_| is_short) else {
            return false;
        };
        if !self.chunks.is_empty() || !self.data.refill(parts, new_length) {
            return false;
        }
        self.lengths = lengths;
        self.body_bytes = body.len() as u64;
        true
    }

    /// As [`Message::copied`], in the memory of a message that nobody else holds, where it is of
    /// the size.
    pub fn copied_into(
        spare: Option<Arc<Self>>,
        exchange: &[u8],
        routing_key: &[u8],
        properties: &[u8],
        body: &[u8],
    ) -> Arc<Self> {
        if let Some(mut message) = spare
            && let Some(own) = Arc::get_mut(&mut message)
            && own.become_copied(exchange, routing_key, properties, body)
        {
            return message;
        }
        Arc::new(Self::copied(exchange, routing_key, properties, body))
    }

    #[inline]
    fn properties_start(&self) -> usize {
        self.lengths.exchange() + self.lengths.routing_key()
    }

    #[inline]
    fn properties_end(&self) -> usize {
        self.properties_start() + self.lengths.properties()
    }

    #[inline]
    fn body_start(&self) -> usize {
        self.properties_end() + self.lengths.notes()
    }

    /// The same with what the broker notes of it, which no AMQP client sees; more than 16 MiB of
    /// it is nothing.
    #[must_use]
    pub fn with_notes(mut self, notes: &[u8]) -> Self {
        let [exchange, routing_key, properties] = self.envelope_lengths();
        let lengths = Lengths::new(exchange, routing_key, properties, notes.len());
        let notes = if lengths.is_some() { notes } else { &[] };
        let data = [self.envelope(), notes, self.inline_body()].concat();
        self.data = Data::of(&data);
        let without = Lengths::new(exchange, routing_key, properties, 0);
        self.lengths = lengths.or(without).unwrap_or(self.lengths);
        self
    }

    /// What [`Message::with_notes`] took.
    pub fn notes(&self) -> &[u8] {
        self.data
            .as_slice()
            .get(self.properties_end()..self.body_start())
            .unwrap_or_default()
    }

    /// The exchange it was published to; empty is the default exchange.
    pub fn exchange(&self) -> &[u8] {
        self.data
            .as_slice()
            .get(..self.lengths.exchange())
            .unwrap_or_default()
    }

    /// The routing key it was published with.
    pub fn routing_key(&self) -> &[u8] {
        self.data
            .as_slice()
            .get(self.lengths.exchange()..self.properties_start())
            .unwrap_or_default()
    }

    /// Property flags and list, as they came; see [`crate::Properties`].
    pub fn properties(&self) -> &[u8] {
        self.data
            .as_slice()
            .get(self.properties_start()..self.properties_end())
            .unwrap_or_default()
    }

    /// Exchange, routing key and properties, one after the other.
    #[inline]
    pub fn envelope(&self) -> &[u8] {
        self.data
            .as_slice()
            .get(..self.properties_end())
            .unwrap_or_default()
    }

    /// Lengths of exchange, routing key and properties.
    #[inline]
    pub fn envelope_lengths(&self) -> [usize; 3] {
        [
            self.lengths.exchange(),
            self.lengths.routing_key(),
            self.lengths.properties(),
        ]
    }

    /// The part of the body that lies beside the envelope; empty where the body is in chunks.
    #[inline]
    pub fn inline_body(&self) -> &[u8] {
        self.data
            .as_slice()
            .get(self.body_start()..)
            .unwrap_or_default()
    }

    /// The parts of a large body, in order; empty where it lies beside the envelope.
    #[inline]
    pub fn chunks(&self) -> &[Bytes] {
        &self.chunks
    }

    /// The body as parts that share this message's memory, in order, none of them empty.
    pub fn body_parts(&self) -> impl Iterator<Item = Bytes> + '_ {
        let inline = match &self.data {
            Data::Short { .. } => Bytes::copy_from_slice(self.inline_body()),
            Data::Long(bytes) => bytes.slice(self.body_start().min(bytes.len())..),
        };
        std::iter::once(inline)
            .chain(self.chunks.iter().cloned())
            .filter(|part| !part.is_empty())
    }

    /// Bytes of the body.
    pub fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    /// Whether it is one piece of memory, so that one of any such length fits where it was.
    #[inline]
    pub fn is_one_piece(&self) -> bool {
        matches!(self.data, Data::Short { .. }) && self.chunks.is_empty()
    }

    /// Bytes of memory that the message pins: envelope, properties and body.
    #[inline]
    pub fn total_bytes(&self) -> u64 {
        self.data.as_slice().len() as u64 + self.chunks.iter().map(|c| c.len() as u64).sum::<u64>()
    }
}

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Message")
            .field("exchange", &crate::Escaped(self.exchange()).to_string())
            .field(
                "routing_key",
                &crate::Escaped(self.routing_key()).to_string(),
            )
            .field("body_bytes", &self.body_bytes)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_body_lies_beside_the_envelope_and_a_large_one_stays_in_parts() {
        let parts = || vec![Bytes::from_static(b"one"), Bytes::from_static(b"two")];
        let (x, k) = (Name::from("x"), Name::from("key"));
        let small = Message::new(&x, &k, b"\0\0", parts(), 6);
        assert_eq!(small.exchange(), b"x");
        assert_eq!(small.routing_key(), b"key");
        assert_eq!(small.properties(), b"\0\0");
        assert_eq!(small.inline_body(), b"onetwo");
        let large = Message::new(&x, &k, b"\0\0", parts(), 5);
        assert_eq!(large.inline_body(), b"");
        assert_eq!(large.body_parts().collect::<Vec<_>>().concat(), b"onetwo");
        assert_eq!((small.body_bytes(), large.body_bytes()), (6, 6));
    }

    #[test]
    fn notes_lie_between_properties_and_body_and_show_in_neither() {
        for body in [&b"body"[..], &[7; SHORT_BYTES_MAX]] {
            let plain = Message::copied(b"x", b"key", b"\0\0", body);
            let mut noted = plain.clone().with_notes(b"noted");
            assert_eq!(noted.notes(), b"noted");
            assert_eq!(noted.envelope(), plain.envelope());
            assert_eq!(
                (noted.properties(), noted.inline_body()),
                (&b"\0\0"[..], body)
            );
            assert_eq!(noted.body_parts().collect::<Vec<_>>().concat(), body);
            assert_eq!(noted.clone().with_notes(b""), plain);
            assert_eq!(plain.clone().with_notes(&vec![0; 1 << 24]), plain);
            if noted.become_copied(b"x", b"key", b"\0\0", b"") {
                assert_eq!(noted.notes(), b"");
            }
        }
    }

    #[test]
    fn a_message_in_the_memory_of_another_is_as_one_of_its_own() {
        let long = [7; SHORT_BYTES_MAX];
        let mut message = Message::copied(b"exchange", b"key", b"\0\0", &long[..100]);
        for body in [&b"short"[..], b"", b"a bit longer", &long[..120]] {
            assert!(message.become_copied(b"x", b"other", b"\0\0\0", body));
            assert_eq!(message, Message::copied(b"x", b"other", b"\0\0\0", body));
        }
        let before = message.clone();
        assert!(!message.become_copied(b"x", b"", b"", &long));
        assert_eq!(message, before);
        let mut message = Message::copied(b"x", b"", b"", &long);
        assert!(!message.become_copied(b"", b"", b"", b""));
        let part = message.body_parts().next();
        assert!(!message.become_copied(b"y", b"", b"", &[8; SHORT_BYTES_MAX]));
        assert_eq!(part.as_deref(), Some(&long[..]), "it is held here still");
        drop(part);
        assert!(message.become_copied(b"y", b"", b"", &[8; SHORT_BYTES_MAX]));
        assert_eq!(
            message,
            Message::copied(b"y", b"", b"", &[8; SHORT_BYTES_MAX])
        );
    }
}
