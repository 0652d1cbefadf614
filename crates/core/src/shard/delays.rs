//! Messages that wait in an exchange until they are due.
//!
//! They are entries of the exchange's store of delays, where a place tells when. What is due
//! soon is read from the journal; when the time has come it goes the way that a publish would
//! go now, and leaves the store, in one record. Work is bounded: what one turn does not come to
//! stays due, and [`Shard::deadline`] says so.

use std::sync::Arc;

use menzil_model::fact::{ExchangeDefinition, Origin, Range, Ranges, Why};
use menzil_model::{Fact, Message, Name, Properties, QueueId, Sequence, StorePurpose};

use super::Shard;
use super::publish::Pending;
use crate::channel::HeldPublish;
use crate::death::Notes;
use crate::delay::arrived;
use crate::effect::Effects;
use crate::log::Log;
use crate::queue::{Body, Item, Order, Queue, parse_expiration, place_at, time_of};
use crate::topology::RoutingKeys;
use crate::turn::Turn;

/// Messages that one turn sends on, and bytes of them.
const SENT_AT_ONCE: usize = 512;
const SENT_BYTES_AT_ONCE: u64 = 4 << 20;

/// How long before it is due a message is read, in milliseconds.
pub(crate) const READ_AHEAD: u64 = 1000;

/// How long a message stays for which the disk has no room, in milliseconds.
const RETRY_AFTER: u64 = 1000;

/// Delayed messages that found no queue and are remembered.
const STRAYS_MAX: usize = 128;

/// A message that waits in an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delay {
    /// Its number in the exchange.
    pub id: Sequence,
    /// When it is due, in milliseconds since 1970.
    pub due_at: u64,
    /// Bytes of its body.
    pub body_bytes: u64,
    /// Where the message is; index 0 where the journal does not have it.
    pub origin: Origin,
}

/// Messages that wait in one exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelaySummary {
    /// The exchange.
    pub exchange: Name,
    /// How many.
    pub count: u64,
    /// Bytes of their bodies.
    pub body_bytes: u64,
    /// When the first of them is due, in milliseconds since 1970.
    pub next_due_at: Option<u64>,
}

/// A delayed message that found no queue when it was due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stray {
    /// The exchange in which it waited.
    pub exchange: Name,
    /// Its routing key.
    pub routing_key: Name,
    /// When it was due, in milliseconds since 1970.
    pub due_at: u64,
    /// Bytes of its body.
    pub body_bytes: u64,
    /// A queue refused it; none was found where not.
    pub refused: bool,
}

impl Queue {
    /// Whether it is the store of an exchange that delays.
    #[inline]
    pub(crate) fn delays(&self) -> bool {
        self.order == Order::Due
    }

    /// When something is to be done for the first message of a store of delays: it is read
    /// before it is sent on.
    pub(crate) fn due_at(&self) -> Option<u64> {
        if !self.delays() {
            return None;
        }
        let (head, body) = self.index.next()?;
        let due_at = time_of(head.sequence);
        let at = match body {
            Body::Here => due_at,
            Body::Away => due_at.saturating_sub(READ_AHEAD),
            Body::Asked => return None,
        };
        Some(at.max(self.unused_since))
    }
}

impl Shard {
    /// Makes the store of an exchange that delays.
    pub(super) fn apply_delays_declared(&mut self, exchange: &ExchangeDefinition) {
        let id = QueueId::store_of(exchange.id, StorePurpose::Delay);
        if exchange.delays() && !self.queues.contains_key(&id) {
            let (entries, shelf) = (self.settings.index_page_entries, Arc::clone(&self.shelf));
            let queue = Queue::store_of_delays(exchange, entries, shelf);
            self.queues.insert(id, queue);
        }
    }

    /// Sends on what is due in a store, and asks for what is due soon.
    pub(super) fn send_due(&mut self, turn: &mut Turn<'_>, id: QueueId) {
        let mut bytes = 0;
        for _ in 0..SENT_AT_ONCE {
            let Some(queue) = self.queues.get(&id) else {
                return;
            };
            let Some((item, body)) = queue.index.next() else {
                return;
            };
            if queue.unused_since > turn.now {
                return;
            }
            let (item, due_at) = (*item, time_of(item.sequence));
            match body {
                Body::Asked => return,
                Body::Away => {
                    if due_at <= turn.now.saturating_add(READ_AHEAD) {
                        self.ask(turn, id);
                    }
                    return;
                }
                Body::Here => {}
            }
            if queue.index.runs_low() {
                self.ask(turn, id);
            }
            let content = self.queues.get(&id).and_then(|queue| queue.index.content());
            let Some(message) = content.filter(|_| due_at <= turn.now).cloned() else {
                return;
            };
            bytes += message.total_bytes();
            if bytes > SENT_BYTES_AT_ONCE && bytes > message.total_bytes() {
                return;
            }
            if !self.send_on(turn, id, item, &message) {
                if let Some(queue) = self.queues.get_mut(&id) {
                    queue.unused_since = turn.now + RETRY_AFTER;
                }
                return;
            }
        }
    }

    /// Sends one message on. False where the disk has no room for it.
    fn send_on(
        &mut self,
        turn: &mut Turn<'_>,
        id: QueueId,
        item: Item,
        message: &Arc<Message>,
    ) -> bool {
        let Some(held) = self.held_when_due(id, message) else {
            self.drop_stray(turn, id, item, message);
            return true;
        };
        if held.persistent && !turn.log.has_room(message.total_bytes()) {
            return false;
        }
        let mut pending = Pending::default();
        self.make_room(turn, &held.targets);
        let intake = self.intake(turn, &held, false, &mut pending);
        if intake.refused_by.is_some() {
            // Its publisher has its confirm, and nobody else is there to be told.
            self.counters.refused += 1;
            self.note_stray(id, item, message, true);
        }
        self.counters.routed += u64::from(intake.reaches_a_queue());
        self.counters.undelayed += 1;
        self.refuse_letters(&intake.dead_letters, &held.message, None);
        pending.chunks = item.extent.chunks;
        let settled = settled(id, item.sequence, Why::Acknowledged);
        if intake.entries.is_empty() {
            self.count_duplicates(&intake.duplicates);
            self.record_lazy(turn.log, settled, item.durable);
        } else {
            let also = Some((settled, item.durable));
            self.enter_queues(turn, held.message, intake, &pending, also);
        }
        true
    }

    /// The message as it goes on, and where to; `None` where no queue and no store takes it.
    fn held_when_due(&mut self, id: QueueId, message: &Message) -> Option<HeldPublish> {
        let (exchange, _) = id.store()?;
        let rewritten = arrived(message.properties());
        let properties = rewritten.as_deref();
        let properties = properties.unwrap_or_else(|| message.properties());
        let properties = Properties::parse(properties).ok()?;
        let keys = RoutingKeys::new(message.routing_key(), &properties).ok()?;
        let keys = keys.and(Notes::of(message).keys());
        let mut targets = std::mem::take(&mut self.targets);
        let _routed = self
            .topology
            .route(exchange, &keys, &properties, &mut targets);
        let queues = [targets.queues(), targets.stores()].concat();
        self.targets = targets;
        if queues.is_empty() {
            return None;
        }
        let ttl = properties.expiration.map(parse_expiration).transpose();
        // A publish that waited comes to its queues for the first time, a dead letter does not.
        let is_moved = Notes::of(message).is_letter();
        let message = match &rewritten {
            Some(properties) => Message::new(
                &Name::cut(message.exchange()),
                &Name::cut(message.routing_key()),
                properties,
                message.body_parts().collect(),
                self.settings.chunk_bytes,
            )
            .with_notes(message.notes()),
            None => message.clone(),
        };
        Some(HeldPublish {
            message: Arc::new(message),
            persistent: properties.is_persistent(),
            ttl: ttl.unwrap_or_default(),
            priority: properties.priority.unwrap_or_default(),
            targets: queues,
            unroutable: false,
            delay: 0,
            is_moved,
            replies: Vec::new(),
        })
    }

    /// No queue takes it, now that it is due: counted, and remembered for who looks.
    fn drop_stray(&mut self, turn: &mut Turn<'_>, id: QueueId, item: Item, message: &Message) {
        self.counters.undelayed += 1;
        self.counters.unroutable_delayed += 1;
        self.note_stray(id, item, message, false);
        let settled = settled(id, item.sequence, Why::Acknowledged);
        self.record_lazy(turn.log, settled, item.durable);
    }

    fn note_stray(&mut self, id: QueueId, item: Item, message: &Message, refused: bool) {
        if self.strays.len() < STRAYS_MAX {
            self.strays.push(Stray {
                exchange: self.exchange_of_store(id),
                routing_key: Name::cut(message.routing_key()),
                due_at: time_of(item.sequence),
                body_bytes: item.extent.body_bytes,
                refused,
            });
        }
    }

    fn exchange_of_store(&self, id: QueueId) -> Name {
        let queue = self.queues.get(&id);
        queue.map_or_else(Name::empty, |queue| queue.definition.name.clone())
    }

    /// Delayed messages that found no queue, or one that refused them, since the last call; no more
    /// than some.
    pub fn take_strays(&mut self) -> Vec<Stray> {
        std::mem::take(&mut self.strays)
    }

    /// The exchanges in which messages wait, by name.
    pub fn delays(&self) -> Vec<DelaySummary> {
        let stores = self.queues.values().filter(|queue| queue.delays());
        let mut all: Vec<_> = stores
            .map(|queue| DelaySummary {
                exchange: queue.definition.name.clone(),
                count: queue.index.ready_count(),
                body_bytes: queue.index.ready_bytes(),
                next_due_at: queue.index.head().map(|head| time_of(head.sequence)),
            })
            .collect();
        all.sort_unstable_by(|a, b| a.exchange.cmp(&b.exchange));
        all
    }

    fn store_of_delays(&self, exchange: &[u8]) -> Option<(QueueId, &Queue)> {
        let exchange = self.topology.exchange(exchange)?;
        let id = QueueId::store_of(exchange.id, StorePurpose::Delay);
        Some((id, self.queues.get(&id)?))
    }

    /// Messages that wait in an exchange, behind the one of that number, in the order in which
    /// they are due; at most `count`. `None` where the exchange does not delay.
    pub fn list_delays(
        &self,
        exchange: &[u8],
        after: Sequence,
        count: usize,
    ) -> Option<Vec<Delay>> {
        let (_, queue) = self.store_of_delays(exchange)?;
        let entries = queue.index.ready_after(after).take(count);
        let delays = entries.map(|item| Delay {
            id: item.sequence,
            due_at: time_of(item.sequence),
            body_bytes: item.extent.body_bytes,
            origin: item.origin,
        });
        Some(delays.collect())
    }

    /// Takes a message back that waits in an exchange. False where there is none of that number.
    pub fn cancel_delay(
        &mut self,
        now: u64,
        exchange: &[u8],
        number: Sequence,
        log: &mut dyn Log,
        effects: &mut dyn Effects,
    ) -> bool {
        let mut turn = Turn { now, log, effects };
        let Some((id, queue)) = self.store_of_delays(exchange) else {
            return false;
        };
        if !queue.index.has_ready(number) {
            return false;
        }
        let durable = queue.is_durable();
        self.counters.delays_cancelled += 1;
        self.record_lazy(turn.log, settled(id, number, Why::Purged), durable);
        self.touch(id);
        self.settle_down(&mut turn);
        self.finish(turn.log);
        true
    }
}

fn settled(queue: QueueId, sequence: Sequence, why: Why) -> Fact {
    let range = Range {
        first: sequence,
        last: sequence,
    };
    Fact::Settled {
        queue,
        ranges: Ranges::from_slice(&[range]),
        why,
    }
}

/// The first place that is not read ahead of its time.
pub(super) fn read_up_to(now: u64) -> Sequence {
    place_at(now.saturating_add(READ_AHEAD + 1))
}
