//! What there is in a shard, in numbers, and whether they add up.

use menzil_model::{Map, Name, Set, StorePurpose};

use super::Shard;
use crate::counters::Counters;
use crate::policy::settings_of;
use crate::queue::{Queue, QueueCounters};
use crate::topology::Topology;

/// Objects of a shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Exchanges, the predeclared ones too.
    pub exchanges: u64,
    /// Queues.
    pub queues: u64,
    /// Bindings; the implicit ones of the default exchange do not count.
    pub bindings: u64,
    /// Messages in queues; one that several queues hold counts in each.
    pub messages: u64,
    /// Messages that exchanges keep for later bindings.
    pub retained: u64,
    /// Messages that wait in exchanges until they are due.
    pub delayed: u64,
    /// Open connections.
    pub connections: u64,
    /// Open channels.
    pub channels: u64,
    /// Consumers.
    pub consumers: u64,
    /// Bytes of message content in memory that the journal has too.
    pub content_bytes: u64,
    /// Bytes of packed index pages in memory.
    pub index_bytes: u64,
    /// Bytes of those in scratch space.
    pub index_scratch_bytes: u64,
}

/// One queue in numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueSummary {
    /// Its name.
    pub name: Name,
    /// Survives a restart.
    pub durable: bool,
    /// Entries that wait.
    pub ready: u64,
    /// Entries that are out.
    pub unsettled: u64,
    /// Of these, entries that came back and wait until they are delivered again.
    pub delayed: u64,
    /// Of these, entries that wait to be dead-lettered.
    pub dying: u64,
    /// Consumers.
    pub consumers: u64,
    /// Bytes of the bodies that wait.
    pub ready_bytes: u64,
    /// What happened.
    pub counters: QueueCounters,
}

impl Shard {
    /// Counters since the process started.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Objects, counted.
    pub fn summary(&self) -> Summary {
        let mut summary = self.summary_of_objects();
        let mut from = 0;
        while self.summarize_queues(from, &mut summary, &mut Vec::new()) {
            from += QUEUES_COUNTED;
        }
        summary
    }

    /// Of [`Shard::summary`] the part that looks at no queue.
    pub fn summary_of_objects(&self) -> Summary {
        Summary {
            exchanges: self.topology.exchange_count() as u64,
            bindings: self.topology.binding_count() as u64,
            connections: self.connections.len() as u64,
            channels: self.channels.len() as u64,
            consumers: self.consumers.len() as u64,
            content_bytes: self.content.bytes(),
            index_bytes: self.shelf.bytes_here(),
            index_scratch_bytes: self.shelf.bytes_away(),
            ..Summary::default()
        }
    }

    /// Of [`Shard::summary`] and [`Shard::queues`] the part of [`QUEUES_COUNTED`] queues from a
    /// place on: it is added. False past the last one. In what order queues come is not said; one
    /// that is deleted and declared again between two calls may come twice.
    pub fn summarize_queues(
        &self,
        from: usize,
        summary: &mut Summary,
        queues: &mut Vec<QueueSummary>,
    ) -> bool {
        let Some(some) = self.queues.some(from, QUEUES_COUNTED) else {
            return false;
        };
        for queue in some {
            let messages = queue.index.len();
            match queue.definition.id.store() {
                None => {
                    summary.queues += 1;
                    summary.messages += messages;
                    queues.push(of_queue(queue));
                }
                Some((_, StorePurpose::Retention)) => summary.retained += messages,
                Some((_, StorePurpose::Delay)) => summary.delayed += messages,
            }
        }
        true
    }

    /// The queue of that name.
    pub fn queue_summary(&self, name: &[u8]) -> Option<QueueSummary> {
        let id = self.topology.queue(name)?;
        self.queues.get(&id).map(of_queue)
    }

    /// Its exchanges, queues and bindings.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Every queue, by name; the stores of exchanges are none.
    pub fn queues(&self) -> Vec<QueueSummary> {
        let mut queues = Vec::new();
        let mut from = 0;
        while self.summarize_queues(from, &mut Summary::default(), &mut queues) {
            from += QUEUES_COUNTED;
        }
        queues.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        queues
    }

    /// Checks that the state is consistent with itself. For tests, the simulation and debug
    /// builds.
    ///
    /// # Panics
    /// Where it is not.
    pub fn check_invariants(&self) {
        self.topology.check_invariants();
        for queue in self.queues.values() {
            queue.check_invariants();
        }
        self.content
            .check_invariants(self.queues.values().map(|queue| queue.content));
        self.check_deliveries();
        self.check_replays();
        self.check_consumers();
        if !self.policies.is_empty() && self.sweep.is_over() {
            for queue in self.queues.values().filter(|queue| queue.store.is_none()) {
                let settings = settings_of(&queue.definition, &self.policies);
                assert_eq!(queue.settings, settings, "a policy did not reach a queue");
            }
        }
        for (at, id) in &self.timers {
            assert_eq!(self.queues.get(id).and_then(|queue| queue.timer), Some(*at));
        }
    }

    /// Every entry that is out is out on exactly one channel.
    fn check_deliveries(&self) {
        use crate::channel::Mode;
        let mut out = Set::default();
        for channel in self.channels.values() {
            let mut deliveries: Vec<_> = channel.deliveries.iter().copied().collect();
            if let Mode::Transaction(transaction) = &channel.mode {
                deliveries.extend(transaction.settles.iter().map(|held| held.delivery));
            }
            let consumed = deliveries.iter().filter(|d| d.consumer.is_some()).count() as u64;
            assert_eq!(channel.consumed_unsettled, consumed, "prefetch is off");
            for delivery in deliveries
                .iter()
                .filter(|d| self.queues.contains_key(&d.queue))
            {
                let new = out.insert((delivery.queue, delivery.sequence));
                assert!(new, "an entry is out on two channels");
            }
        }
        let unsettled: u64 = self
            .queues
            .values()
            .filter(|queue| !queue.delays())
            .map(|q| q.index.unsettled_count() - q.dying_count())
            .sum();
        assert_eq!(out.len() as u64, unsettled, "entries are out on no channel");
    }

    fn check_consumers(&self) {
        let mut by_queue: Map<_, u64> = Map::default();
        for (id, consumer) in self.consumers.iter() {
            let channel = self.channels.get(&consumer.channel);
            let listed = channel.and_then(|channel| channel.consumers.get(&consumer.tag));
            assert_eq!(listed, Some(id), "a consumer is on no channel");
            *by_queue.entry(consumer.queue).or_default() += 1;
        }
        for (id, queue) in self.queues.iter() {
            let expected = by_queue.get(id).copied().unwrap_or_default();
            assert_eq!(
                queue.line.count() as u64,
                expected,
                "a queue's consumers are off"
            );
            assert_eq!(queue.line.everyone().count(), queue.line.count());
            queue.line.check_invariants(|taker| {
                let consumer = self.consumers.at(taker.place, taker.consumer);
                consumer.map_or(i64::MIN, |consumer| consumer.priority)
            });
        }
        if !self.touched.is_empty() {
            return;
        }
        for queue in self.queues.values() {
            let stuck = queue.groups.is_none()
                && matches!(queue.index.next(), Some((_, crate::queue::Body::Here)))
                && queue
                    .line
                    .takers()
                    .iter()
                    .filter_map(|taker| self.consumers.get(&taker.consumer))
                    .any(|consumer| self.can_take(consumer));
            assert!(
                !stuck,
                "queue {} has an entry and a taker",
                queue.definition.name
            );
        }
    }
}

fn of_queue(queue: &Queue) -> QueueSummary {
    QueueSummary {
        name: queue.definition.name.clone(),
        durable: queue.definition.durable,
        ready: queue.index.ready_count(),
        unsettled: queue.index.unsettled_count() + queue.index.delayed_count(),
        delayed: queue.index.delayed_count(),
        dying: queue.dying_count(),
        consumers: queue.line.count() as u64,
        ready_bytes: queue.index.ready_bytes(),
        counters: queue.counters,
    }
}

/// Queues that one step of [`Shard::summarize_queues`] looks at.
pub const QUEUES_COUNTED: usize = 1000;
