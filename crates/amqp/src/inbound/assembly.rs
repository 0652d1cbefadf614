//! A message under assembly: method seen, then its content header, then body frames
//! (AMQP 0-9-1 §2.3.5.2).

use bytes::Bytes;

use menzil_core::Publish;
use menzil_model::Name;

/// What `basic.publish` said, until its content is there.
#[derive(Clone, Debug)]
pub(super) struct PublishHead {
    pub(super) exchange: Name,
    pub(super) routing_key: Name,
    pub(super) mandatory: bool,
}

/// A message whose body is not complete.
#[derive(Debug)]
pub(super) struct Assembly {
    head: PublishHead,
    properties: Bytes,
    /// Bytes of the body that are still to come.
    missing: u64,
    /// Full parts.
    parts: Vec<Bytes>,
    /// The part that grows.
    part: Vec<u8>,
    chunk_bytes: usize,
    received: u64,
}

impl Assembly {
    /// A message whose body has that many bytes.
    pub(super) fn new(
        head: PublishHead,
        properties: Bytes,
        body_bytes: u64,
        chunk_bytes: usize,
    ) -> Self {
        Self {
            head,
            properties,
            missing: body_bytes,
            parts: Vec::new(),
            part: Vec::new(),
            chunk_bytes: chunk_bytes.max(1),
            received: 0,
        }
    }

    /// What it takes: the bytes of the body that are here, the property list, and itself.
    pub(super) fn held_bytes(&self) -> u64 {
        HELD_BYTES + self.properties.len() as u64 + self.received
    }

    pub(super) fn is_complete(&self) -> bool {
        self.missing == 0
    }

    /// Takes the payload of a body frame; false where it is more than was announced.
    #[must_use]
    pub(super) fn append(&mut self, payload: &[u8]) -> bool {
        let length = payload.len() as u64;
        let Some(missing) = self.missing.checked_sub(length) else {
            return false;
        };
        let is_all = self.received == 0 && missing == 0 && payload.len() <= self.chunk_bytes;
        if is_all && !payload.is_empty() {
            self.parts = vec![Bytes::copy_from_slice(payload)];
        } else {
            self.fill(payload);
        }
        self.missing = missing;
        self.received += length;
        true
    }

    /// Copies into parts that become exactly `chunk_bytes` long, the last one shorter.
    fn fill(&mut self, mut payload: &[u8]) {
        let mut missing = self.missing;
        while !payload.is_empty() {
            let part_bytes_max = usize::try_from(self.part.len() as u64 + missing)
                .unwrap_or(usize::MAX)
                .min(self.chunk_bytes);
            let room = part_bytes_max - self.part.len();
            let (taken, rest) = payload.split_at_checked(room).unwrap_or((payload, &[]));
            self.grow(taken.len(), part_bytes_max);
            self.part.extend_from_slice(taken);
            missing -= taken.len() as u64;
            payload = rest;
            if self.part.len() == part_bytes_max {
                self.parts.push(Bytes::from(std::mem::take(&mut self.part)));
            }
        }
    }

    /// Makes room ahead, in steps: an announced size alone takes no memory.
    fn grow(&mut self, more: usize, part_bytes_max: usize) {
        let needed = self.part.len() + more;
        if needed > self.part.capacity() {
            let ahead = needed.saturating_mul(GROWTH).min(part_bytes_max);
            self.part.reserve_exact(ahead - self.part.len());
        }
    }

    /// The whole message.
    pub(super) fn finish(self) -> Publish {
        Publish {
            exchange: self.head.exchange,
            routing_key: self.head.routing_key,
            mandatory: self.head.mandatory,
            properties: self.properties,
            body: self.parts,
        }
    }
}

const GROWTH: usize = 4;

/// A message that is held takes about this much before its first byte of properties or body.
const HELD_BYTES: u64 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn assemble(body: &[u8], frame: usize, chunk_bytes: usize) -> Vec<Bytes> {
        let head = PublishHead {
            exchange: Name::empty(),
            routing_key: Name::from("q"),
            mandatory: false,
        };
        let size = body.len() as u64;
        let mut assembly = Assembly::new(head, Bytes::new(), size, chunk_bytes);
        for payload in body.chunks(frame) {
            assert!(!assembly.is_complete());
            assert!(assembly.append(payload));
        }
        assert!(assembly.is_complete());
        assert!(!assembly.append(b"x"));
        assembly.finish().body
    }

    #[test]
    fn parts_have_the_chunk_size_whatever_the_frames() {
        let body: Vec<u8> = (0..=255).collect();
        for frame in [1, 7, 100, 256] {
            for chunk in [1, 10, 64, 255, 256, 1000] {
                let parts = assemble(&body, frame, chunk);
                assert_eq!(parts.concat(), body);
                let (last, full) = parts.split_last().unwrap();
                assert!(full.iter().all(|part| part.len() == chunk));
                assert!(last.len() <= chunk && !last.is_empty());
            }
        }
        assert!(assemble(b"", 1, 10).is_empty());
    }
}
