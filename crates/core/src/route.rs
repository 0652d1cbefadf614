//! The way of a publish, kept for the next one like it.
//!
//! Invariant: what is kept holds while the topology has the same generation, for publishes
//! whose exchange, routing key and property list are the same byte for byte.

use menzil_model::{Name, QueueId};

use crate::command::PublishRef;
use crate::mqtt::SessionTarget;
use crate::slots::Place;
use crate::ways::Way;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Route {
    /// properties ++ exchange ++ routing key
    envelope: Vec<u8>,
    properties_bytes: usize,
    exchange_bytes: usize,
    generation: u64,
    /// Stands for the envelope; no two have the same.
    pub(crate) number: u64,
    /// The queues and where they lie, each once, in the order first reached; behind them the
    /// stores of exchanges that are to keep it.
    pub(crate) targets: Vec<(QueueId, Place)>,
    /// Sessions that get it, of MQTT.
    pub(crate) sessions: Vec<SessionTarget>,
    /// Queues of groups of sessions that get it.
    pub(crate) groups: Vec<(QueueId, Place)>,
    /// What these see of it, as notes of the message; empty where no topic is written so.
    pub(crate) notes: Vec<u8>,
    /// It becomes the retained message of its topic.
    pub(crate) retains: bool,
    /// How many of them are stores.
    pub(crate) stores: usize,
    /// Those who get it as a direct reply.
    pub(crate) replies: Vec<Name>,
    pub(crate) persistent: bool,
    pub(crate) ttl: Option<u64>,
    pub(crate) priority: u8,
    /// How long it is to wait in exchanges that delay, in milliseconds; 0 where none keeps it.
    pub(crate) delay: u64,
    /// All queues or none.
    pub(crate) atomic: bool,
    /// The properties as queues hold them, where these are not those that came.
    pub(crate) stripped: Option<Vec<u8>>,
    /// The properties with the name that replies are to go to, where they ask for it.
    pub(crate) named: Option<Vec<u8>>,
    /// No queue has a limit or deduplicates: each stores it, and nobody has to be asked.
    pub(crate) is_unlimited: bool,
    /// A queue will write it to the journal.
    pub(crate) is_durable: bool,
    /// The message, or a queue, says how long it lives, or a queue has another order than that of
    /// arrival.
    pub(crate) has_terms: bool,
    /// Without headers, so that exchange and routing key alone say where it goes.
    pub(crate) is_plain: bool,
    /// It goes to queues that have only to store it, as it came.
    pub(crate) is_usual: bool,
}

impl Route {
    /// Whether it is the way of that publish.
    #[inline]
    pub(crate) fn is_for(&self, generation: u64, publish: &PublishRef<'_>) -> bool {
        let (properties, exchange, routing_key) = self.parts();
        self.generation == generation
            && routing_key == publish.routing_key
            && properties == publish.properties
            && exchange == publish.exchange
    }

    /// Properties, exchange, routing key.
    #[inline]
    fn parts(&self) -> (&[u8], &[u8], &[u8]) {
        let properties_end = self.properties_bytes.min(self.envelope.len());
        let (properties, rest) = self.envelope.split_at(properties_end);
        let (exchange, routing_key) = rest.split_at(self.exchange_bytes.min(rest.len()));
        (properties, exchange, routing_key)
    }

    /// Whether what the properties ask for is known from the last publish.
    #[inline]
    pub(crate) fn has_properties_of(&self, publish: &PublishRef<'_>) -> bool {
        let (properties, ..) = self.parts();
        self.number != 0 && properties == publish.properties
    }

    /// Starts anew for another publish of the same user, with the memory it has. True where what
    /// its properties ask for is known from the last one.
    #[inline]
    pub(crate) fn restart(
        &mut self,
        number: u64,
        generation: u64,
        publish: &PublishRef<'_>,
    ) -> bool {
        let same_properties = self.has_properties_of(publish);
        self.number = number;
        self.generation = generation;
        self.targets.clear();
        self.stores = 0;
        self.replies.clear();
        self.sessions.clear();
        self.groups.clear();
        self.notes.clear();
        self.retains = false;
        self.is_usual = false;
        let (_, exchange, _) = self.parts();
        if same_properties && exchange == publish.exchange {
            let prefix = self.properties_bytes + self.exchange_bytes;
            self.envelope.truncate(prefix);
        } else {
            self.envelope.clear();
            self.envelope.extend_from_slice(publish.properties);
            self.envelope.extend_from_slice(publish.exchange);
            self.properties_bytes = publish.properties.len();
            self.exchange_bytes = publish.exchange.len();
        }
        self.envelope.extend_from_slice(publish.routing_key);
        same_properties
    }

    /// Whether no queue takes it that can be consumed from.
    #[inline]
    pub(crate) fn is_unroutable(&self) -> bool {
        self.targets.len() == self.stores && self.sessions.is_empty() && self.groups.is_empty()
    }

    /// Its queues, without where they lie.
    pub(crate) fn queues(&self) -> impl Iterator<Item = QueueId> + '_ {
        self.targets.iter().map(|(queue, _)| *queue)
    }

    /// All is known of it: says whether it is the usual one.
    #[inline]
    pub(crate) fn complete(&mut self) {
        self.is_usual = self.is_unlimited
            && self.named.is_none()
            && self.stripped.is_none()
            && self.replies.is_empty()
            && self.notes.is_empty()
            && !self.is_unroutable();
    }

    /// Takes a way that was kept.
    #[inline]
    pub(crate) fn take(&mut self, way: Way) {
        self.targets.push((way.queue, way.place));
        self.atomic = way.atomic;
        self.is_unlimited = way.is_unlimited;
        self.is_durable = self.persistent && way.is_durable;
        self.has_terms = self.ttl.is_some() || way.has_terms;
    }

    /// The next publish like it may go another way.
    pub(crate) fn holds_once(&mut self) {
        self.generation = NEVER;
    }

    /// False where it is not worth its memory until the next publish.
    pub(crate) fn is_worth_keeping(&self) -> bool {
        self.envelope.capacity() <= ENVELOPE_BYTES_MAX
            && self.targets.capacity() <= TARGETS_MAX
            && self.sessions.capacity() <= TARGETS_MAX
            && self.stripped.is_none()
            && self.named.is_none()
            && self.replies.is_empty()
    }
}

/// No topology has that generation.
const NEVER: u64 = u64::MAX;

/// Every channel that publishes keeps one.
const ENVELOPE_BYTES_MAX: usize = 1024;
const TARGETS_MAX: usize = 64;
