//! Messages of a queue: small copies in 64 KiB chunks, oldest first. No allocation per message,
//! and none pins a read buffer.

use crate::wire::Message;
use std::collections::VecDeque;

const CHUNK_BYTES: usize = 64 * 1024;
const SPARE_CHUNKS: usize = 16;

#[derive(Default)]
pub struct Store {
    chunks: VecDeque<Vec<u8>>,
    front: usize,
    count: usize,
    spare: Vec<Vec<u8>>,
}

impl Store {
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub fn push(&mut self, message: Message<'_>) {
        let parts = [message.envelope, message.header, message.body];
        let size = 12 + parts.iter().map(|part| part.len()).sum::<usize>();
        if self
            .chunks
            .back()
            .is_none_or(|chunk| chunk.len() + size > chunk.capacity())
        {
            let chunk = self.spare.pop().filter(|chunk| chunk.capacity() >= size);
            self.chunks
                .push_back(chunk.unwrap_or_else(|| Vec::with_capacity(CHUNK_BYTES.max(size))));
        }
        let chunk = self.chunks.back_mut().expect("just made");
        for part in parts {
            chunk.extend_from_slice(&(part.len() as u32).to_le_bytes());
        }
        for part in parts {
            chunk.extend_from_slice(part);
        }
        self.count += 1;
    }

    /// Hands the oldest message to `take` and removes it.
    pub fn pop(&mut self, take: impl FnOnce(Message<'_>)) {
        let Some(chunk) = self.chunks.front() else {
            return;
        };
        let at = self.front;
        let size = |index: usize| {
            let field = &chunk[at + 4 * index..][..4];
            u32::from_le_bytes(field.try_into().expect("four bytes")) as usize
        };
        let (envelope, header, body) = (size(0), size(1), size(2));
        let bytes = &chunk[at + 12..];
        take(Message {
            envelope: &bytes[..envelope],
            header: &bytes[envelope..][..header],
            body: &bytes[envelope + header..][..body],
        });
        self.front += 12 + envelope + header + body;
        self.count -= 1;
        if self.front == chunk.len() {
            let mut chunk = self.chunks.pop_front().expect("the front one");
            self.front = 0;
            chunk.clear();
            if self.spare.len() < SPARE_CHUNKS {
                self.spare.push(chunk);
            }
        }
    }
}
