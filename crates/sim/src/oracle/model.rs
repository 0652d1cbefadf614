//! What the oracle believes of messages and their places in queues.

use std::collections::{BTreeMap, BTreeSet};

use menzil_core::ChannelKey;

use crate::body::MessageNumber;
use crate::catalogue::{QUEUES, QueueNumber};

/// A message that a client sent.
#[derive(Clone, Debug)]
pub(crate) struct MessageModel {
    /// Client and channel number: messages of one group keep their order in every queue.
    pub(super) group: (u64, u16),
    pub(super) targets: &'static [QueueNumber],
    /// One refusal and no queue has it.
    pub(super) atomic: bool,
    pub(super) persistent: bool,
    pub(super) length: usize,
    /// Its own time to live, from the moment it enters a queue.
    pub(super) ttl_ms: Option<u64>,
    pub(super) priority: u8,
    pub(super) confirm: bool,
    /// How long it waits in its exchange.
    pub(super) delay_ms: Option<u64>,
    /// Its message group.
    pub(super) group_key: Option<u8>,
    /// It is that message once more.
    pub(super) resends: Option<MessageNumber>,
    /// It was published again, and that was acknowledged.
    pub(super) is_resent: bool,
    /// It was routed while every queue of the catalogue was there.
    pub(super) is_routed: bool,
    /// In the order of the node's commands; 0 while it was not executed.
    pub(super) executed: u64,
    pub(super) verdict: Option<bool>,
    /// Moments of the run.
    pub(super) sent_at: u64,
    pub(super) acked_at: u64,
}

impl MessageModel {
    pub(super) fn is_acked(&self) -> bool {
        self.verdict == Some(true) || self.is_resent
    }

    /// It is in the journal where a durable queue took it.
    pub(super) fn is_durable(&self) -> bool {
        self.persistent && self.targets.iter().any(|queue| QUEUES[*queue].durable)
    }
}

/// Whether a place in a queue may have been left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Belief {
    /// Nobody has settled it.
    Live,
    /// It may be there or not.
    Maybe,
}

/// The place of a message in one queue.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) durable: bool,
    pub(super) belief: Belief,
    /// It was settled in this life of the node, and its queue knows.
    pub(super) is_settled: bool,
    /// Who has it now.
    pub(super) out: Option<ChannelKey>,
    /// The node sent it out in this life, or at any time.
    pub(super) is_emitted_now: bool,
    pub(super) is_emitted: bool,
    /// A client has seen it.
    pub(super) is_seen: bool,
    /// After a crash it may be flagged redelivered though it never went out.
    pub(super) is_flaggable: bool,
    /// A recovery has found it.
    pub(super) is_recovered: bool,
    /// A dead letter that may come, or be there: nobody has seen it.
    pub(super) is_potential: bool,
    /// A consumer has rejected it, in this life of the node or an earlier one.
    pub(super) is_rejected: bool,
    /// It was delayed, and must not come before that.
    pub(super) not_before: Option<u64>,
    /// Once it has come it is in memory only.
    pub(super) is_brief: bool,
    /// The node refused it, or lost it in a crash before it was on disk.
    pub(super) is_refused: bool,
    /// How often it came back from a consumer that failed, in any life of the node at most, and
    /// in this one at least.
    pub(super) fails: u64,
    pub(super) fails_now: u64,
    /// The consumer that has it, by tag; a get has none.
    pub(super) consumer: Vec<u8>,
    /// It is gone from then on.
    pub(super) expires_at: Option<u64>,
    /// It may be gone from then on.
    pub(super) may_expire_at: Option<u64>,
    /// Entries, and bytes, that entered the queue up to this one.
    pub(super) count: u64,
    pub(super) bytes: u64,
}

impl Entry {
    /// Whether it is in its queue, and not in the exchange that delays it.
    pub(super) fn is_in_place(&self) -> bool {
        self.not_before.is_none() || self.is_emitted_now
    }
}

/// A queue of the catalogue.
#[derive(Clone, Debug, Default)]
pub(super) struct QueueModel {
    pub(super) entries: BTreeMap<MessageNumber, Entry>,
    /// Left for ever: must never be seen again.
    pub(super) gone: BTreeSet<MessageNumber>,
    /// Of those, what was never on disk.
    pub(super) lost: BTreeSet<MessageNumber>,
    /// Of those, what may have been on disk or not.
    pub(super) unclear: BTreeSet<MessageNumber>,
    /// A consumer or a get was there.
    pub(super) is_attached: bool,
    pub(super) count: u64,
    pub(super) bytes: u64,
}

impl QueueModel {
    pub(super) fn is_gone(&self, number: MessageNumber) -> bool {
        self.gone.contains(&number)
    }

    pub(super) fn bury(&mut self, number: MessageNumber) {
        if self.entries.remove(&number).is_some() {
            self.gone.insert(number);
        }
    }

    /// Whether a letter may come there, and has not been seen.
    pub(super) fn is_only_possible(&self, number: MessageNumber) -> bool {
        let entry = self.entries.get(&number);
        entry.is_some_and(|entry| entry.is_potential)
    }

    /// Whether a length limit may have dropped the entry.
    pub(super) fn may_be_dropped(&self, queue: QueueNumber, entry: &Entry) -> bool {
        let spec = QUEUES[queue];
        if spec.rejects {
            return false;
        }
        let later = self.count - entry.count;
        let later_bytes = self.bytes - entry.bytes;
        let lowest = [spec.length_max, spec.policy_max].into_iter().flatten();
        lowest.min().is_some_and(|max| later >= max)
            || spec
                .bytes_max
                .is_some_and(|max| later_bytes + LARGEST > max)
    }
}

/// More than the largest body, for sums that leave out the own one.
const LARGEST: u64 = 16 << 10;

/// A transaction whose commit was executed.
#[derive(Clone, Debug, Default)]
pub(super) struct Transaction {
    pub(super) publishes: Vec<MessageNumber>,
    pub(super) settles: Vec<(QueueNumber, MessageNumber)>,
    /// Rejected in queues that dead-letter: moved after the commit, each by itself.
    pub(super) rejects: Vec<(QueueNumber, MessageNumber)>,
    /// Of the settles, those that were certainly there before.
    pub(super) certain: Vec<(QueueNumber, MessageNumber)>,
    pub(super) executed: u64,
}
