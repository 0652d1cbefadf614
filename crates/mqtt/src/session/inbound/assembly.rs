//! A PUBLISH whose payload is too large to be waited for in one piece.

use bytes::Bytes;

use crate::session::action::OwnedPublish;

/// See the module.
#[derive(Debug)]
pub(super) struct Assembly {
    publish: OwnedPublish,
    /// Bytes that are still to come.
    missing: usize,
    /// The part that grows.
    part: Vec<u8>,
    chunk_bytes: usize,
    received: usize,
}

impl Assembly {
    /// One with so large a payload.
    pub(super) fn new(publish: OwnedPublish, payload_bytes: usize, chunk_bytes: usize) -> Self {
        Self {
            publish,
            missing: payload_bytes,
            part: Vec::new(),
            chunk_bytes: chunk_bytes.max(1),
            received: 0,
        }
    }

    /// What it takes.
    pub(super) fn held_bytes(&self) -> u64 {
        let head = self.publish.topic.len() + self.publish.properties.len();
        (HELD_BYTES + head + self.received) as u64
    }

    /// Takes what it lacks from the start of the input and returns how much that was.
    pub(super) fn append(&mut self, input: &[u8]) -> usize {
        let (mut payload, _) = input.split_at_checked(self.missing).unwrap_or((input, &[]));
        let taken = payload.len();
        self.received += taken;
        while !payload.is_empty() {
            let part_bytes = (self.part.len() + self.missing).min(self.chunk_bytes);
            let room = part_bytes - self.part.len();
            let (now, rest) = payload.split_at_checked(room).unwrap_or((payload, &[]));
            self.grow(now.len(), part_bytes);
            self.part.extend_from_slice(now);
            self.missing -= now.len();
            payload = rest;
            if self.part.len() == part_bytes {
                let part = std::mem::take(&mut self.part);
                self.publish.payload.push(Bytes::from(part));
            }
        }
        taken
    }

    /// Makes room ahead, in steps: an announced size alone takes no memory.
    fn grow(&mut self, more: usize, part_bytes: usize) {
        let needed = self.part.len() + more;
        if needed > self.part.capacity() {
            let ahead = needed.saturating_mul(GROWTH).min(part_bytes);
            self.part.reserve_exact(ahead - self.part.len());
        }
    }

    /// All has come.
    pub(super) fn is_complete(&self) -> bool {
        self.missing == 0
    }

    /// The whole message.
    pub(super) fn finish(self) -> OwnedPublish {
        self.publish
    }
}

/// A payload in parts, as one that comes piece by piece.
pub(super) fn parts_of(payload: &[u8], chunk_bytes: usize) -> Vec<Bytes> {
    let parts = payload.chunks(chunk_bytes.max(1));
    parts.map(Bytes::copy_from_slice).collect()
}

const GROWTH: usize = 4;
const HELD_BYTES: usize = 256;
