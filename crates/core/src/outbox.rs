//! Encoded bytes that wait for the socket, of any protocol: small frames in one growing buffer,
//! large body parts shared with the message, in the order in which they leave.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::Bytes;

use menzil_model::wire::Writer;

/// What is encoded and not yet sent.
///
/// Invariant: `pending_bytes` is the length of all parts and the tail, less `sent`, which counts
/// within the first of them.
#[derive(Debug, Default)]
pub struct Outbox {
    parts: VecDeque<Bytes>,
    tail: Vec<u8>,
    sent: usize,
    pending_bytes: usize,
    /// Bytes ever sent.
    left_bytes: u64,
    credits: VecDeque<Credit>,
}

/// What was taken over from the transmitting half of a connection to be sent, so that it is free for
/// others meanwhile.
#[derive(Debug, Default)]
pub struct Sending(Outbox);

impl Sending {
    /// Bytes that are not sent yet.
    pub fn pending_bytes(&self) -> usize {
        self.0.pending_bytes
    }

    /// What to send next.
    pub fn transmit<'a>(&'a self, slices: &mut Vec<IoSlice<'a>>) {
        self.0.slices(slices);
    }

    /// That many bytes were sent. Returns the credit of the deliveries that have left.
    pub fn advance(&mut self, count: usize) -> u64 {
        self.0.advance(count)
    }

    /// An idle connection keeps no buffer.
    pub fn shrink(&mut self) {
        self.0.shrink();
    }

    /// Takes over what waits, if everything of before is sent.
    pub fn take_over(&mut self, outbox: &mut Outbox) {
        if self.0.pending_bytes > 0 || outbox.pending_bytes == 0 {
            return;
        }
        let end = outbox.end();
        std::mem::swap(&mut self.0, outbox);
        outbox.left_bytes = end;
    }
}

/// Deliveries whose credit comes back when the stream has passed their end.
#[derive(Clone, Copy, Debug)]
struct Credit {
    start: u64,
    end: u64,
    bytes: u64,
}

impl Outbox {
    /// Appends what `write` appends.
    #[inline]
    pub fn write(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let before = self.tail.len();
        write(&mut self.tail);
        self.pending_bytes += self.tail.len() - before;
    }

    /// Appends without copying, where that pays.
    pub fn share(&mut self, part: Bytes) {
        if part.len() < SHARED_BYTES_MIN {
            self.write(|out| out.put(&part));
            return;
        }
        if !self.tail.is_empty() {
            self.parts
                .push_back(Bytes::from(std::mem::take(&mut self.tail)));
        }
        self.pending_bytes += part.len();
        self.parts.push_back(part);
    }

    /// The bytes from that position of the stream on are a delivery that counts so much.
    pub fn mark(&mut self, start: u64, bytes: u64) {
        let end = self.end();
        match self.credits.back_mut() {
            Some(last) if end - last.start <= MARKED_BYTES_MAX => {
                last.end = end;
                last.bytes += bytes;
            }
            _ => self.credits.push_back(Credit { start, end, bytes }),
        }
    }

    /// The position of the stream at which the next byte is written.
    pub fn end(&self) -> u64 {
        self.left_bytes + self.pending_bytes as u64
    }

    /// Bytes that are not sent yet.
    pub fn pending_bytes(&self) -> usize {
        self.pending_bytes
    }

    /// What to send next, as far as one vectored write takes it.
    pub fn slices<'a>(&'a self, slices: &mut Vec<IoSlice<'a>>) {
        let parts = self.parts.iter().map(AsRef::as_ref);
        let mut sent = self.sent;
        for part in parts.chain([self.tail.as_slice()]) {
            let rest = part.get(sent..).unwrap_or_default();
            sent = 0;
            if slices.len() < SLICES_MAX && !rest.is_empty() {
                slices.push(IoSlice::new(rest));
            }
        }
    }

    /// That many bytes were sent. Returns the credit of the deliveries that are gone.
    pub fn advance(&mut self, count: usize) -> u64 {
        let count = count.min(self.pending_bytes);
        self.pending_bytes -= count;
        self.left_bytes += count as u64;
        self.sent += count;
        while let Some(first) = self.parts.front() {
            let Some(rest) = self.sent.checked_sub(first.len()) else {
                break;
            };
            self.sent = rest;
            self.parts.pop_front();
        }
        if self.parts.is_empty() {
            self.trim_tail();
        }
        let mut credit = 0;
        while let Some(first) = self.credits.front() {
            if first.end > self.left_bytes {
                break;
            }
            credit += first.bytes;
            self.credits.pop_front();
        }
        credit
    }

    fn trim_tail(&mut self) {
        if self.sent >= self.tail.len() {
            self.tail.clear();
            self.sent = 0;
            if self.tail.capacity() > KEPT_BYTES_MAX {
                self.tail = Vec::new();
            }
        } else if self.sent > self.tail.len() / 2 {
            self.tail.drain(..self.sent);
            self.sent = 0;
        }
    }

    /// For tests and the simulation.
    ///
    /// # Panics
    /// Where sizes do not add up.
    pub fn check_invariants(&self) {
        let parts: usize = self.parts.iter().map(Bytes::len).sum();
        assert_eq!(self.pending_bytes + self.sent, parts + self.tail.len());
        assert!(self.credits.iter().all(|credit| credit.start <= credit.end));
        assert!(self.credits.iter().is_sorted_by_key(|credit| credit.end));
    }

    /// An idle connection keeps no buffer.
    pub fn shrink(&mut self) {
        if self.pending_bytes == 0 {
            self.tail = Vec::new();
            self.parts = VecDeque::new();
            self.credits = VecDeque::new();
        }
    }
}

/// A smaller part is copied: one more entry of a vectored write costs about as much.
const SHARED_BYTES_MIN: usize = 4096;
/// Deliveries within so many bytes give their credit back together.
const MARKED_BYTES_MAX: u64 = 16 << 10;
/// Capacity that is kept for the next batch.
const KEPT_BYTES_MAX: usize = 256 << 10;
const SLICES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bytes_leave_in_order_and_credit_returns_once(
            steps in prop::collection::vec((0_usize..10_000, any::<bool>(), 0_usize..12_000), 1..40),
        ) {
            let (mut outbox, mut written, mut sent) = (Outbox::default(), Vec::new(), Vec::new());
            let (mut given, mut returned) = (0, 0);
            for (round, (length, marked, count)) in (0_u8..).zip(steps) {
                let part = vec![round; length];
                written.extend_from_slice(&part);
                let start = outbox.end();
                outbox.write(|out| out.put(&part[..length / 2]));
                outbox.share(Bytes::copy_from_slice(&part[length / 2..]));
                if marked {
                    outbox.mark(start, 1);
                    given += 1;
                }
                let mut slices = Vec::new();
                outbox.slices(&mut slices);
                let visible: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
                let count = count.min(visible.len());
                sent.extend_from_slice(&visible[..count]);
                returned += outbox.advance(count);
                prop_assert!(returned <= given);
                prop_assert_eq!(outbox.pending_bytes(), written.len() - sent.len());
            }
            while outbox.pending_bytes() > 0 {
                let mut slices = Vec::new();
                outbox.slices(&mut slices);
                let count = slices[0].len();
                sent.extend_from_slice(&slices[0]);
                returned += outbox.advance(count);
            }
            prop_assert_eq!(sent, written);
            prop_assert_eq!(returned + outbox.advance(0), given);
        }
    }
}
