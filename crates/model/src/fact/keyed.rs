//! What a message is known by in the queues that deduplicate, and when.

use smallvec::SmallVec;

use super::Entries;
use crate::QueueId;

/// A hash of 128 bits that stands for what tells a message from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageKey(pub u128);

/// The keys of one message, each in one of the queues that it entered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    /// Milliseconds since 1970 at which the message entered.
    pub at: u64,
    /// The key that each queue knows it by; not every queue has one.
    pub of: SmallVec<[(QueueId, MessageKey); 1]>,
}

impl Keys {
    /// The key in that queue.
    pub fn in_queue(&self, queue: QueueId) -> Option<MessageKey> {
        let mut all = self.of.iter();
        all.find(|(of, _)| *of == queue).map(|(_, key)| *key)
    }

    /// Those of entries that the journal has.
    pub(super) fn durable<'a>(
        &'a self,
        entries: &'a Entries,
    ) -> impl Iterator<Item = (QueueId, MessageKey)> + 'a {
        let is_durable = |queue| {
            let mut all = entries.iter();
            all.any(|entry| entry.queue == queue && entry.durable)
        };
        self.of
            .iter()
            .copied()
            .filter(move |(queue, _)| is_durable(*queue))
    }
}

/// A key that a queue remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenKey {
    /// The key.
    pub key: MessageKey,
    /// As [`Keys::at`].
    pub at: u64,
}
