//! Queues that store a message only once: which messages they know, decided before anything is
//! written. What is decided is in the record of the message, as its keys.

use menzil_model::fact::{Keys, MessageKey};
use menzil_model::{Map, QueueId};
use smallvec::SmallVec;

use super::Shard;
use crate::channel::HeldPublish;
use crate::queue::key_of;

/// The queues that have a message already.
#[derive(Debug, Default)]
pub(super) struct Duplicates {
    queues: SmallVec<[QueueId; 1]>,
    /// The index that all of it waits for: then what they have is on disk.
    pub(super) after: u64,
}

impl Duplicates {
    pub(super) fn note(&mut self, queue: QueueId, after: u64) {
        self.queues.push(queue);
        self.after = self.after.max(after);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }
}

/// Keys of messages that are decided and not yet applied, by queue and by whether the journal
/// will have them.
#[derive(Debug, Default)]
pub(super) struct PendingKeys(Map<(QueueId, bool), Keyed>);

#[derive(Debug, Default)]
struct Keyed {
    count: u64,
    /// Of each key its last coming, counted from 0.
    last: Map<MessageKey, u64>,
}

impl PendingKeys {
    pub(super) fn add(&mut self, queue: QueueId, key: MessageKey, durable: bool) {
        let keyed = self.0.entry((queue, durable)).or_default();
        keyed.last.insert(key, keyed.count);
        keyed.count += 1;
    }
}

impl Shard {
    /// What the message is known by in a queue, if that deduplicates.
    pub(super) fn key_in(&self, queue: QueueId, held: &HeldPublish) -> Option<MessageKey> {
        let rule = self.queues.get(&queue)?.settings.deduplication.as_deref()?;
        if held.is_moved {
            return None;
        }
        key_of(rule.header.as_ref(), held.message.properties())
    }

    /// Whether the queue has stored that key before, and the index at which it has. What the
    /// journal is to have is no duplicate of what it does not have: its confirm says that it has.
    pub(super) fn original_of(
        &self,
        now: u64,
        (id, key): (QueueId, MessageKey),
        durable: bool,
        pending: &PendingKeys,
    ) -> Option<u64> {
        let queue = self.queues.get(&id)?;
        let rule = queue.settings.deduplication.as_deref()?;
        let among = |is_durable| {
            let pending = pending.0.get(&(id, is_durable));
            let count = pending.map_or(0, |keyed| keyed.count);
            let last = pending.and_then(|keyed| keyed.last.get(&key));
            if last.is_some_and(|number| count - number <= rule.size) {
                // What it waits for is what its whole transaction waits for.
                return Some(0);
            }
            let window = queue.windows.as_ref()?.of(is_durable);
            window.find(key, count, now, rule).map(|seen| seen.index)
        };
        among(true).or_else(|| if durable { None } else { among(false) })
    }

    /// Counts what was not stored.
    pub(super) fn count_duplicates(&mut self, duplicates: &Duplicates) {
        for id in &duplicates.queues {
            self.counters.deduplicated += 1;
            if let Some(queue) = self.queues.get_mut(id) {
                queue.counters.deduplicated += 1;
            }
        }
    }
}

/// The keys of a message that enters now.
pub(super) fn keys_of(now: u64, of: SmallVec<[(QueueId, MessageKey); 1]>) -> Option<Box<Keys>> {
    (!of.is_empty()).then(|| Box::new(Keys { at: now, of }))
}
