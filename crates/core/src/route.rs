//! The way of a publish, kept for the next one like it.
//!
//! Invariant: what is kept holds while the topology has the same generation, for publishes
//! whose exchange, routing key and property list are the same byte for byte.

use menzil_model::QueueId;

use crate::command::PublishRef;
use crate::slots::Place;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Route {
    /// exchange ++ routing key ++ properties
    envelope: Vec<u8>,
    exchange_bytes: usize,
    routing_key_bytes: usize,
    generation: u64,
    /// Stands for the envelope; no two have the same.
    pub(crate) number: u64,
    /// The queues, each once, in the order first reached.
    pub(crate) queues: Vec<QueueId>,
    /// Where they lie.
    pub(crate) places: Vec<Place>,
    pub(crate) persistent: bool,
    pub(crate) ttl: Option<u64>,
    /// All queues or none.
    pub(crate) atomic: bool,
    /// The properties as queues hold them, where these are not those that came.
    pub(crate) stripped: Option<Vec<u8>>,
    /// No queue has a limit, so that none can refuse.
    pub(crate) is_unlimited: bool,
    /// A queue will write it to the journal.
    pub(crate) is_durable: bool,
}

impl Route {
    /// Whether it is the way of that publish.
    #[inline]
    pub(crate) fn is_for(&self, generation: u64, publish: &PublishRef<'_>) -> bool {
        let (exchange, rest) = self.split(self.exchange_bytes);
        let key_end = self.routing_key_bytes.min(rest.len());
        let (routing_key, properties) = rest.split_at(key_end);
        self.generation == generation
            && routing_key == publish.routing_key
            && properties == publish.properties
            && exchange == publish.exchange
    }

    fn split(&self, at: usize) -> (&[u8], &[u8]) {
        self.envelope.split_at(at.min(self.envelope.len()))
    }

    /// Starts anew for another publish, with the memory it has.
    pub(crate) fn restart(&mut self, number: u64, generation: u64, publish: &PublishRef<'_>) {
        self.number = number;
        self.envelope.clear();
        for part in [publish.exchange, publish.routing_key, publish.properties] {
            self.envelope.extend_from_slice(part);
        }
        self.exchange_bytes = publish.exchange.len();
        self.routing_key_bytes = publish.routing_key.len();
        self.generation = generation;
        self.queues.clear();
        self.places.clear();
    }

    /// False where it is not worth its memory until the next publish.
    pub(crate) fn is_worth_keeping(&self) -> bool {
        self.envelope.capacity() <= ENVELOPE_BYTES_MAX
            && self.queues.capacity() <= QUEUES_MAX
            && self.stripped.is_none()
    }
}

/// Every channel that publishes keeps one.
const ENVELOPE_BYTES_MAX: usize = 1024;
const QUEUES_MAX: usize = 64;
