//! A consumer: who gets a queue's entries, and how many at once.

use menzil_model::{DeliveryTag, Name, QueueId};

use crate::command::ChannelKey;
use crate::slots::Place;
use crate::stopwatch::Stopwatch;

/// A consumer's number; never reused while the shard lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ConsumerId(pub(crate) u64);

/// A consumer in a queue's line, and where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taker {
    pub(crate) consumer: ConsumerId,
    pub(crate) place: Place,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Consumer {
    pub(crate) channel: ChannelKey,
    pub(crate) channel_place: Place,
    pub(crate) connection_place: Place,
    pub(crate) tag: Name,
    pub(crate) queue: QueueId,
    /// Deliveries are settled by being sent.
    pub(crate) no_ack: bool,
    /// It asked to be the only one.
    pub(crate) exclusive: bool,
    /// `x-priority`.
    pub(crate) priority: i64,
    /// Most deliveries at once; 0 is without limit.
    pub(crate) prefetch: u64,
    /// Deliveries that are out.
    pub(crate) unsettled: u64,
    /// Where deliveries may be out for so long only.
    pub(crate) stopwatch: Option<Box<Stopwatch>>,
}

impl Consumer {
    /// Whether its own prefetch has room for one more.
    pub(crate) fn has_room(&self) -> bool {
        self.prefetch == 0 || self.unsettled < self.prefetch
    }

    /// Notes a delivery that it is to settle. True where the shard is to look at its stopwatch.
    #[inline]
    pub(crate) fn went_out(&mut self, tag: DeliveryTag, now: u64) -> bool {
        self.unsettled += 1;
        match &mut self.stopwatch {
            None => false,
            Some(watch) => {
                watch.start(tag, now);
                !std::mem::replace(&mut watch.is_armed, true)
            }
        }
    }

    /// Notes that a delivery is settled.
    #[inline]
    pub(crate) fn came_back(&mut self, tag: DeliveryTag) {
        self.unsettled -= 1;
        if let Some(watch) = &mut self.stopwatch {
            watch.stop(tag);
        }
    }
}
