//! How long what `basic.get` took on one channel has been out, where its queue has a limit.

use std::collections::BTreeMap;

use menzil_model::{DeliveryTag, QueueId};

use crate::stopwatch::Stopwatch;

/// See the module. Invariant: something of each queue that is listed is out.
#[derive(Debug, Default)]
pub(crate) struct Got {
    watches: BTreeMap<QueueId, Stopwatch>,
    /// Where it stands in the shard's timers.
    pub(crate) timer: Option<u64>,
}

impl Got {
    /// A message was taken; `limit` is in milliseconds. Tags ascend.
    pub(crate) fn took(&mut self, queue: QueueId, limit: u64, tag: DeliveryTag, now: u64) {
        let watch = self.watches.entry(queue);
        let watch = watch.or_insert_with(|| Stopwatch::new(limit));
        watch.start(tag, now);
    }

    /// It is settled.
    pub(crate) fn settled(&mut self, queue: QueueId, tag: DeliveryTag) {
        if let Some(watch) = self.watches.get_mut(&queue) {
            watch.stop(tag);
            if watch.deadline().is_none() {
                self.watches.remove(&queue);
            }
        }
    }

    /// Forgets queues that are gone.
    pub(crate) fn retain(&mut self, is_there: impl Fn(&QueueId) -> bool) {
        self.watches.retain(|queue, _| is_there(queue));
    }

    /// When the first limit is reached if nothing is settled until then, and that limit.
    pub(crate) fn deadline(&self) -> Option<(u64, u64)> {
        let watches = self.watches.values();
        watches
            .filter_map(|watch| Some((watch.deadline()?, watch.limit())))
            .min()
    }
}
