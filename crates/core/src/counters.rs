//! What a shard counts.

/// Counters of one shard since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Publishes taken in, routed or not.
    pub published: u64,
    /// Publishes that reached at least one queue.
    pub routed: u64,
    /// Publishes that no queue took and nobody asked to have back.
    pub unroutable_dropped: u64,
    /// Publishes returned to their publisher.
    pub unroutable_returned: u64,
    /// Publishes that an exchange keeps until they are due.
    pub delayed: u64,
    /// Of these, those that went on when they were due.
    pub undelayed: u64,
    /// Of these, those that found no queue.
    pub unroutable_delayed: u64,
    /// Of these, those that a queue refused when they were due; they wait, and are tried again.
    pub delays_refused: u64,
    /// Delayed messages that were taken back.
    pub delays_cancelled: u64,
    /// Publishes that a queue refused.
    pub refused: u64,
    /// Entries that were not stored because their queue had the message already.
    pub deduplicated: u64,
    /// Messages of topics that are too long for a routing key: no queue of AMQP got them.
    pub topics_without_key: u64,
    /// Confirms decided.
    pub confirmed: u64,
    /// Nacks decided.
    pub nacked: u64,
    /// Deliveries, of `basic.get` too.
    pub delivered: u64,
    /// Of these, redelivered ones.
    pub redelivered: u64,
    /// Acknowledgements, automatic ones too.
    pub acknowledged: u64,
    /// Rejections without requeue.
    pub rejected: u64,
    /// Entries put back.
    pub requeued: u64,
    /// Entries whose time to live ended.
    pub expired: u64,
    /// Entries that a length limit dropped.
    pub overflowed: u64,
    /// Entries that came back more often than a delivery limit allows.
    pub limited: u64,
    /// Dead letters that reached a queue.
    pub dead_lettered: u64,
    /// Dead letters that were dropped: no such exchange, no queue, or only queues that they went
    /// round already.
    pub dead_letters_dropped: u64,
    /// Dead letters that a queue refused and that did not wait for it.
    pub dead_letters_refused: u64,
    /// Entries whose record cannot be read.
    pub damaged: u64,
    /// Messages read back from the journal.
    pub fetched: u64,
    /// Consumers cancelled for leaving a delivery unsettled too long.
    pub consumers_timed_out: u64,
    /// Messages of QoS 0 that MQTT sessions, or groups of them, did not get because no client was
    /// there.
    pub session_offline_dropped: u64,
    /// Messages that they did not get because too much waited for them.
    pub session_limit_dropped: u64,
    /// Requests refused.
    pub refusals: u64,
}
