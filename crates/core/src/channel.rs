//! What a shard knows of one open channel.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use menzil_model::{DeliveryTag, Message, Name, QueueId};

use crate::command::Request;
use crate::consumer::ConsumerId;
use crate::deliveries::{Deliveries, Delivery};
use crate::got::Got;
use crate::mqtt::SessionTarget;
use crate::route::Route;
use crate::slots::Place;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Channel {
    pub(crate) consumers: BTreeMap<Name, ConsumerId>,
    pub(crate) deliveries: Deliveries,
    /// The last delivery tag given out.
    pub(crate) last_tag: u64,
    /// Prefetch of consumers that start from now on; 0 is without limit.
    pub(crate) prefetch_next: u64,
    /// Prefetch of the whole channel; 0 is without limit.
    pub(crate) prefetch_channel: u64,
    /// Deliveries to consumers that are out; `basic.get` does not count.
    pub(crate) consumed_unsettled: u64,
    pub(crate) mode: Mode,
    /// What an empty queue name means.
    pub(crate) last_queue: Option<Name>,
    /// The way that the last publish took; most publishers repeat it.
    pub(crate) route: Option<Box<Route>>,
    /// Its consumer of direct replies.
    pub(crate) replies: Option<Box<Replies>>,
    /// How long what `basic.get` took is out, where that has a limit.
    pub(crate) got: Option<Box<Got>>,
    /// A request that waits for the journal.
    pub(crate) parked: Option<Parked>,
}

/// A consumer of direct replies.
#[derive(Debug)]
pub(crate) struct Replies {
    pub(crate) consumer_tag: Name,
    /// What replies are published to.
    pub(crate) name: Name,
}

/// How publishes and acknowledgements are answered.
#[derive(Debug, Default)]
pub(crate) enum Mode {
    /// Not at all.
    #[default]
    Plain,
    /// Each publish with a confirm; the last sequence given out.
    Confirm { last: u64 },
    /// Together, at commit.
    Transaction(Transaction),
}

/// What a transaction holds back.
#[derive(Debug, Default)]
pub(crate) struct Transaction {
    pub(crate) publishes: Vec<HeldPublish>,
    pub(crate) settles: Vec<HeldSettle>,
    /// Bytes of the held messages.
    pub(crate) bytes: u64,
}

/// A routed publish of a transaction.
#[derive(Debug)]
pub(crate) struct HeldPublish {
    pub(crate) message: Arc<Message>,
    pub(crate) persistent: bool,
    pub(crate) ttl: Option<u64>,
    pub(crate) priority: u8,
    /// How long it is to wait in the stores of delays that are among the targets.
    pub(crate) delay: u64,
    pub(crate) targets: Vec<QueueId>,
    /// Sessions that get it, of MQTT.
    pub(crate) sessions: Vec<SessionTarget>,
    /// Queues of groups of sessions that get it.
    pub(crate) groups: Vec<(QueueId, Place)>,
    /// It is retained as the last of its topic where these say so.
    pub(crate) retain: bool,
    /// Those who wait for it as a reply.
    pub(crate) replies: Vec<Name>,
    /// Return it at commit.
    pub(crate) unroutable: bool,
    /// The broker moves it, and it is no duplicate of what it was before.
    pub(crate) is_moved: bool,
}

/// An acknowledgement or rejection of a transaction.
#[derive(Debug)]
pub(crate) struct HeldSettle {
    pub(crate) delivery: Delivery,
    pub(crate) verdict: Verdict,
}

/// What a consumer says of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Verdict {
    /// Done.
    Acknowledge,
    /// Dropped.
    Reject,
    /// Back to its place.
    Requeue,
    /// Back to its place, and a failure.
    Fail,
}

/// What a parked channel waits for.
#[derive(Debug)]
pub(crate) enum Waiting {
    /// The message of a `basic.get`.
    Get { queue: QueueId, no_ack: bool },
    /// The replay of that number.
    Replay(u64),
}

/// A request under way, and the requests of the channel that came after it.
#[derive(Debug)]
pub(crate) struct Parked {
    pub(crate) waiting: Waiting,
    pub(crate) behind: VecDeque<Request>,
    /// Bytes of the publishes among them.
    pub(crate) behind_bytes: u64,
}

impl Channel {
    /// Gives out the next delivery tag (AMQP 0-9-1 §1.8.3.13: from 1, per channel).
    pub(crate) fn next_tag(&mut self) -> DeliveryTag {
        self.last_tag += 1;
        DeliveryTag(self.last_tag)
    }

    /// Whether the channel-wide prefetch has room for one more.
    pub(crate) fn has_room(&self) -> bool {
        self.prefetch_channel == 0 || self.consumed_unsettled < self.prefetch_channel
    }
}
