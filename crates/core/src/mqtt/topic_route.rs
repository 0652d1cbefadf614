//! Where a PUBLISH goes.

use menzil_model::QueueId;

use super::tree::Options;
use crate::slots::Place;

/// A session that gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SessionTarget {
    pub(crate) session: QueueId,
    pub(crate) place: Place,
    /// The highest quality of service of its subscriptions that match, and whether one of them
    /// keeps the retain flag.
    pub(crate) options: Options,
}

/// The way of a topic, kept for the next publish to it.
#[derive(Clone, Debug, Default)]
pub(crate) struct TopicRoute {
    /// Stands for topic and properties, for who keeps what it made of them.
    pub(crate) number: u64,
    /// The topology's, when it was found.
    pub(crate) generation: u64,
    pub(crate) topic: Vec<u8>,
    pub(crate) properties: Vec<u8>,
    /// By number, each once.
    pub(crate) sessions: Vec<SessionTarget>,
    /// Queues of AMQP, each once.
    pub(crate) queues: Vec<QueueId>,
    /// Queues of groups, each once.
    pub(crate) groups: Vec<(QueueId, Place)>,
    /// One of the sessions, or a member of one of the groups, survives a restart.
    pub(crate) has_durable: bool,
}

impl TopicRoute {
    /// Whether it is that of this topic, and nothing changed.
    #[inline]
    pub(crate) fn is_for(&self, generation: u64, topic: &[u8], properties: &[u8]) -> bool {
        self.generation == generation && self.topic == topic && self.properties == properties
    }

    /// Whether nobody gets it.
    pub(crate) fn is_nowhere(&self) -> bool {
        self.sessions.is_empty() && self.queues.is_empty() && self.groups.is_empty()
    }

    /// Starts anew, with the memory that it has.
    pub(crate) fn restart(&mut self, generation: u64, topic: &[u8], properties: &[u8]) {
        self.generation = generation;
        self.topic.clear();
        self.topic.extend_from_slice(topic);
        self.properties.clear();
        self.properties.extend_from_slice(properties);
        self.sessions.clear();
        self.queues.clear();
        self.groups.clear();
        self.has_durable = false;
    }

    /// Makes of several subscriptions of a session one target.
    pub(crate) fn merge(&mut self) {
        if self.sessions.is_sorted_by(|a, b| a.session < b.session) {
            return;
        }
        self.sessions.sort_by_key(|target| target.session);
        self.sessions.dedup_by(|later, kept| {
            let is_same = later.session == kept.session;
            if is_same {
                let qos = later.options.qos().max(kept.options.qos());
                let keeps =
                    later.options.retain_as_published() || kept.options.retain_as_published();
                kept.options = Options(u8::from(keeps) << 3).with_qos(qos);
            }
            is_same
        });
    }
}
