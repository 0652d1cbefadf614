//! How much memory the messages of a shard take that can be read again. Entries hold their
//! messages themselves; here is only the sum, and whose turn it is to let go when it is too much.
//! Messages that are nowhere else do not count: a sum that nobody can bring down would have every
//! queue looked through, in vain, with every message.
//!
//! Invariant: every queue that holds such a message is in the line.

use std::collections::VecDeque;

use menzil_model::QueueId;

/// What is known of one queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Holding {
    /// Bytes that are part of the sum.
    bytes: u64,
    in_line: bool,
    /// Entries of it went out since its last turn.
    is_warm: bool,
}

impl Holding {
    /// Entries go out.
    pub(crate) fn warm(&mut self) {
        self.is_warm = true;
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct ContentMemory {
    bytes: u64,
    bytes_max: u64,
    line: VecDeque<QueueId>,
    /// Queues in the line that are gone.
    gone: usize,
}

impl ContentMemory {
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self {
            bytes_max,
            ..Self::default()
        }
    }

    /// Bytes that messages take.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether some are to go.
    pub(crate) fn is_over(&self) -> bool {
        self.bytes > self.bytes_max
    }

    /// Bytes of the messages behind the head that a queue may hold: none where nobody consumes,
    /// or many queues that only wait would have the memory that those in use have need of.
    #[inline]
    pub(crate) fn reach(&self, has_consumers: bool) -> u64 {
        if has_consumers { self.bytes_max / 2 } else { 0 }
    }

    /// Bytes that a queue may ask to have read at once.
    pub(crate) fn run_bytes(&self) -> u64 {
        let (half, others) = (self.bytes_max / 2, self.line.len().max(1) as u64);
        (half / others).clamp(half.min(RUN_BYTES_LEAST), RUN_BYTES_MAX)
    }

    /// Takes note of what a queue holds now.
    pub(crate) fn note(&mut self, queue: QueueId, holding: &mut Holding, bytes: u64) {
        self.bytes = self.bytes - holding.bytes + bytes;
        holding.bytes = bytes;
        if bytes > 0 && !holding.in_line {
            holding.in_line = true;
            self.line.push_back(queue);
        }
    }

    /// A queue is gone; `is_there` knows those that are not. It may stand in the line for a
    /// while, but no more of its kind than others.
    pub(crate) fn forget(&mut self, holding: Holding, is_there: impl Fn(&QueueId) -> bool) {
        self.bytes -= holding.bytes;
        self.gone += usize::from(holding.in_line);
        if self.gone > GONE_MAX && 2 * self.gone > self.line.len() {
            self.line.retain(is_there);
            self.gone = 0;
        }
    }

    /// The queue whose turn it was is gone.
    pub(crate) fn was_gone(&mut self) {
        self.gone = self.gone.saturating_sub(1);
    }

    /// Queues that wait for their turn.
    pub(crate) fn line_len(&self) -> usize {
        self.line.len()
    }

    /// The queue whose turn it is.
    pub(crate) fn next(&mut self) -> Option<QueueId> {
        self.line.pop_front()
    }

    /// It goes to the end, and keeps what it has. False where it has had that grace before.
    pub(crate) fn spare(&mut self, queue: QueueId, holding: &mut Holding) -> bool {
        if std::mem::take(&mut holding.is_warm) {
            self.line.push_back(queue);
            return true;
        }
        false
    }

    /// It has let go of what it could, and holds `bytes` still.
    pub(crate) fn stripped(&mut self, queue: QueueId, holding: &mut Holding, bytes: u64) {
        holding.in_line = false;
        self.note(queue, holding, bytes);
    }

    /// It goes to the end, for now is not its time.
    pub(crate) fn put_back(&mut self, queue: QueueId) {
        self.line.push_back(queue);
    }

    /// Checks the sum; for tests.
    pub(crate) fn check_invariants(&self, holdings: impl Iterator<Item = Holding>) {
        let mut bytes = 0;
        for holding in holdings {
            bytes += holding.bytes;
            assert!(holding.bytes == 0 || holding.in_line);
        }
        assert_eq!(self.bytes, bytes, "content bytes are off");
    }
}

const RUN_BYTES_MAX: u64 = 256 << 10;
const RUN_BYTES_LEAST: u64 = 16 << 10;

/// Queues that are gone and not worth a look through the line.
const GONE_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_that_are_gone_do_not_fill_the_line() {
        let mut memory = ContentMemory::new(1 << 20);
        for id in 0..10_000 {
            let mut holding = Holding::default();
            memory.note(QueueId(id), &mut holding, 100);
            memory.forget(holding, |_| false);
        }
        assert_eq!(memory.bytes(), 0);
        assert!(memory.line_len() <= 2 * GONE_MAX);
    }
}
