//! Messages that waited in an exchange and are due.
//!
//! What is due soon is read from the journal; when the time has come it goes the way that a
//! publish would go now, and leaves the store, in one record. Work is bounded: what one turn does
//! not come to stays due, and [`Shard::deadline`] says so.
//!
//! What a queue refuses stays. Where none took it, it stands apart, out with nobody, and is tried
//! again: see [`Overdue`]. Where some did, the record that moves it to those puts it into the store
//! anew, with the queues that are left in its notes, so that nobody gets it twice. An exchange
//! with `atomic-routing` sends it to all of them or none. There is a most of what stands apart:
//! behind that nothing more is sent on.

use std::sync::Arc;

use menzil_model::fact::{Entry, Published, Range, Ranges, Why};
use menzil_model::{Fact, Message, Name, Properties, QueueId, Sequence};

use super::Shard;
use super::delays::Stray;
use super::publish::{Intake, Pending, extent_of};
use super::route::is_atomic;
use super::session::{Subscribers, with_topic};
use crate::channel::HeldPublish;
use crate::death::Notes;
use crate::delay::arrived;
use crate::queue::{
    Body, Item, Overdue, Queue, Remains, RunMax, parse_expiration, place_at, time_of,
};
use crate::topology::{RoutingKeys, TrieScratch};
use crate::turn::Turn;

/// Messages that one turn sends on, and bytes of them.
const SENT_AT_ONCE: usize = 512;
const SENT_BYTES_AT_ONCE: u64 = 4 << 20;

/// How long before it is due a message is read, in milliseconds.
pub(crate) const READ_AHEAD: u64 = 1000;

/// How long a message stays for which the disk or a queue has no room, in milliseconds, unless
/// the queue has room before.
const RETRY_AFTER: u64 = 1000;

/// Bytes that notes may have.
const NOTES_BYTES_MAX: usize = u16::MAX as usize;

/// Delayed messages that were refused or found no queue and are remembered.
const STRAYS_MAX: usize = 128;

/// Room for what one turn sends on.
struct Room {
    messages: usize,
    bytes: u64,
}

impl Room {
    /// One message may be larger than all the room.
    fn take(&mut self, message: &Message) -> bool {
        let bytes = message.total_bytes();
        let is_first = self.messages == SENT_AT_ONCE;
        if self.messages == 0 || (bytes > self.bytes && !is_first) {
            return false;
        }
        self.messages -= 1;
        self.bytes = self.bytes.saturating_sub(bytes);
        true
    }
}

/// What became of a message.
enum Sent {
    /// It left its place in the store.
    Gone,
    /// These queues refused it, and none took it.
    Refused(Vec<QueueId>),
    /// The disk has no room for it.
    NoRoom,
}

/// Where a message goes when it is due.
struct Way {
    held: HeldPublish,
    /// To all of them or none.
    atomic: bool,
    /// Others took it before.
    is_rest: bool,
}

impl Queue {
    /// When something is to be done for the first message of a store of delays: it is read
    /// before it is sent on.
    pub(crate) fn due_at(&self) -> Option<u64> {
        if !self.delays() {
            return None;
        }
        let overdue = self.overdue.as_deref();
        if overdue.is_some_and(Overdue::is_full) {
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

    /// When what was refused of a store of delays is to be tried again.
    pub(crate) fn overdue_at(&self) -> Option<u64> {
        let at = self.overdue.as_deref()?.try_at()?;
        Some(at.max(self.unused_since))
    }
}

impl Shard {
    /// Sends on what is due in a store, and asks for what is due soon.
    pub(super) fn send_due(&mut self, turn: &mut Turn<'_>, id: QueueId) {
        let mut room = Room {
            messages: SENT_AT_ONCE,
            bytes: SENT_BYTES_AT_ONCE,
        };
        let queue = self.queues.get(&id);
        if queue.is_some_and(|queue| queue.unused_since <= turn.now)
            && self.send_overdue(turn, id, &mut room)
        {
            self.send_ready(turn, id, &mut room);
        }
    }

    /// Tries again what was refused. False where some of it is to be tried before anything else.
    fn send_overdue(&mut self, turn: &mut Turn<'_>, id: QueueId, room: &mut Room) -> bool {
        loop {
            let Some(queue) = self.queues.get_mut(&id) else {
                return false;
            };
            let Some(overdue) = queue.overdue.as_deref_mut() else {
                return true;
            };
            let Some((by, sequence)) = overdue.next(turn.now) else {
                if overdue.try_at().is_none() {
                    queue.overdue = None;
                }
                return true;
            };
            let message = match queue.index.remains(sequence) {
                Remains::Here(message) => message,
                Remains::Asked => {
                    overdue.await_read(by, turn.now + RETRY_AFTER);
                    continue;
                }
                Remains::Away => {
                    overdue.await_read(by, turn.now + RETRY_AFTER);
                    self.ask_overdue(turn, id, by);
                    continue;
                }
                // It was taken back.
                Remains::Gone => {
                    overdue.remove(by, sequence);
                    continue;
                }
            };
            let Some(item) = queue.index.out(sequence).copied() else {
                return false;
            };
            if !room.take(&message) {
                return false;
            }
            match self.send_on(turn, id, item, &message) {
                Sent::Gone => {
                    if let Some(overdue) = self.overdue_mut(id) {
                        overdue.remove(by, sequence);
                    }
                }
                Sent::Refused(left) => self.put_off_due(turn, id, (by, sequence), &left),
                Sent::NoRoom => {
                    self.wait_for_disk(turn, id);
                    return false;
                }
            }
        }
    }

    fn overdue_mut(&mut self, id: QueueId) -> Option<&mut Overdue> {
        self.queues.get_mut(&id)?.overdue.as_deref_mut()
    }

    /// The first of a line was refused again, by the same queue or by others.
    fn put_off_due(
        &mut self,
        turn: &Turn<'_>,
        id: QueueId,
        (by, sequence): (QueueId, Sequence),
        left: &[QueueId],
    ) {
        let Some(queue) = self.queues.get_mut(&id) else {
            return;
        };
        let Some(overdue) = queue.overdue.as_deref_mut() else {
            return;
        };
        let (retry_at, first) = (turn.now + RETRY_AFTER, left.first().copied());
        if left.contains(&by) {
            for sequence in overdue.put_off(by, retry_at) {
                queue.index.strip_dying(sequence);
            }
            self.wait_for(by, id);
        } else if let Some(other) = first {
            overdue.remove(by, sequence);
            overdue.add(other, sequence, retry_at);
            queue.index.strip_dying(sequence);
            self.wait_for(other, id);
        }
    }

    fn wait_for_disk(&mut self, turn: &Turn<'_>, id: QueueId) {
        if let Some(queue) = self.queues.get_mut(&id) {
            queue.unused_since = turn.now + RETRY_AFTER;
        }
    }

    fn send_ready(&mut self, turn: &mut Turn<'_>, id: QueueId, room: &mut Room) {
        loop {
            let Some(queue) = self.queues.get(&id) else {
                return;
            };
            if queue.overdue.as_deref().is_some_and(Overdue::is_full) {
                return;
            }
            let Some((item, body)) = queue.index.next() else {
                return;
            };
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
            if !room.take(&message) {
                return;
            }
            match self.send_on(turn, id, item, &message) {
                Sent::Gone => {}
                Sent::Refused(left) => {
                    if Notes::of(&message).queues_left().next().is_none() {
                        self.count_refused(id, item, &message);
                    }
                    self.set_apart(turn, id, item.sequence, &left);
                }
                Sent::NoRoom => {
                    self.wait_for_disk(turn, id);
                    return;
                }
            }
        }
    }

    /// Asks for the next messages of a line.
    fn ask_overdue(&mut self, turn: &mut Turn<'_>, id: QueueId, by: QueueId) {
        let max = RunMax {
            messages: SENT_AT_ONCE,
            bytes: self.content.run_bytes(),
            below: Sequence(u64::MAX),
        };
        let Some(queue) = self.queues.get_mut(&id) else {
            return;
        };
        let run = queue.overdue.as_deref().map(|overdue| overdue.run(by));
        let run = run.unwrap_or_default().into_iter();
        let wanted = queue.index.ask_dying(run, max);
        self.fetch(turn, id, wanted);
    }

    /// A message that is due and refused stands where it holds nothing up.
    fn set_apart(&mut self, turn: &Turn<'_>, id: QueueId, sequence: Sequence, left: &[QueueId]) {
        let (Some(queue), Some(by)) = (self.queues.get_mut(&id), left.first()) else {
            return;
        };
        queue.index.take_to_die(&[one(sequence)]);
        queue.index.strip_dying(sequence);
        let overdue = queue.overdue.get_or_insert_default();
        overdue.add(*by, sequence, turn.now + RETRY_AFTER);
        self.wait_for(*by, id);
    }

    /// Sends one message on.
    fn send_on(
        &mut self,
        turn: &mut Turn<'_>,
        id: QueueId,
        item: Item,
        message: &Arc<Message>,
    ) -> Sent {
        let Some(way) = self.way_when_due(id, message) else {
            self.drop_stray(turn, id, item, message);
            return Sent::Gone;
        };
        let held = &way.held;
        if held.persistent && !turn.log.has_room(message.total_bytes()) {
            return Sent::NoRoom;
        }
        let mut pending = Pending::default();
        self.make_room(turn, &held.targets);
        let intake = self.intake(turn, held, way.atomic, &mut pending);
        let left = self.left_of(&intake, way.atomic);
        let notes = Notes::of(&held.message).with_queues_left(&left);
        let stays = way.atomic
            || left.len() == held.targets.len()
            || notes.len() > NOTES_BYTES_MAX
            || !turn.log.has_room(2 * message.total_bytes());
        if !left.is_empty() && stays {
            return Sent::Refused(left);
        }
        self.counters.routed += u64::from(!way.is_rest && intake.reaches_a_queue());
        if !left.is_empty() && !way.is_rest {
            self.count_refused(id, item, message);
        }
        pending.chunks = item.extent.chunks;
        self.refuse_letters(&intake.dead_letters, &held.message, None);
        let gone = settled(id, item.sequence, Why::Acknowledged);
        let also = if left.is_empty() {
            self.counters.undelayed += 1;
            (vec![gone], item.durable)
        } else {
            let rest = way.held.message.as_ref().clone().with_notes(&notes);
            let (rest, durable) = self.wait_on(turn, (id, item), rest);
            (vec![rest, gone], item.durable || durable)
        };
        self.enter_queues(turn, way.held.message, intake, &pending, also);
        Sent::Gone
    }

    /// The queues that are still to get a message. One that refused it and has it dead-lettered
    /// is done with it.
    fn left_of(&self, intake: &Intake, atomic: bool) -> Vec<QueueId> {
        let refused = intake.refused_by.iter().copied();
        let is_left = |id: &QueueId| {
            let queue = self.queues.get(id);
            let dies = intake.dead_letters.contains(id) && queue.is_some_and(Queue::dead_letters);
            queue.is_some() && (atomic || !dies)
        };
        refused.filter(is_left).collect()
    }

    /// The message goes on waiting, for the queues that are left. Tells whether the journal keeps
    /// it.
    fn wait_on(
        &self,
        turn: &mut Turn<'_>,
        (id, item): (QueueId, Item),
        message: Message,
    ) -> (Fact, bool) {
        let queue = self.queues.get(&id);
        let durable = queue.is_some_and(Queue::is_durable);
        let sequence = queue.map(|queue| queue.place(0, time_of(item.sequence), 0));
        let extent = extent_of(turn, &message, item.extent.chunks, durable.into());
        let entry = Entry {
            queue: id,
            sequence: sequence.unwrap_or(item.sequence),
            expires_at: None,
            durable,
        };
        let published = Published {
            message: Some(Arc::new(message)),
            extent,
            entries: std::iter::once(entry).collect(),
            keys: None,
        };
        (Fact::Published(published), durable)
    }

    /// The message as it goes on, and where to; `None` where no queue and no store takes it.
    fn way_when_due(&mut self, id: QueueId, message: &Message) -> Option<Way> {
        let (exchange, _) = id.store()?;
        let notes = Notes::of(message);
        let is_rest = notes.queues_left().next().is_some();
        // What some queues have already has its header rewritten.
        let rewritten = arrived(message.properties()).filter(|_| !is_rest);
        let properties = rewritten.as_deref();
        let properties = properties.unwrap_or_else(|| message.properties());
        let properties = Properties::parse(properties).ok()?;
        let mut found = Subscribers::default();
        let queues = if is_rest {
            let queues = notes.queues_left();
            queues.filter(|id| self.queues.contains_key(id)).collect()
        } else {
            let keys = RoutingKeys::new(message.routing_key(), &properties).ok()?;
            let keys = keys.and(notes.keys());
            let mut targets = std::mem::take(&mut self.targets);
            let _routed = self
                .topology
                .route(exchange, &keys, &properties, &mut targets);
            found = self.subscribers(&targets, (&keys, &properties), &mut TrieScratch::default());
            let queues = [targets.queues(), targets.stores()].concat();
            self.targets = targets;
            queues
        };
        if queues.is_empty() && found.is_empty() {
            return None;
        }
        let ttl = properties.expiration.map(parse_expiration).transpose();
        let message = match &rewritten {
            Some(properties) => Message::new(
                &Name::cut(message.exchange()),
                &Name::cut(message.routing_key()),
                properties,
                message.body_parts().collect(),
                self.settings.chunk_bytes,
            )
            .with_notes(message.notes()),
            None if is_rest => message.clone().with_notes(&notes.without_queues()),
            None => message.clone(),
        };
        let definition = self.topology.exchange_by_id(exchange);
        Some(Way {
            held: HeldPublish {
                message: Arc::new(with_topic(message, &found.notes)),
                persistent: properties.is_persistent(),
                ttl: ttl.unwrap_or_default(),
                priority: properties.priority.unwrap_or_default(),
                targets: queues,
                sessions: found.sessions,
                groups: found.groups,
                retain: found.retains,
                unroutable: false,
                delay: 0,
                // A publish that waited comes to its queues for the first time, a dead letter
                // does not.
                is_moved: notes.is_letter(),
                replies: Vec::new(),
            },
            atomic: definition.is_some_and(|definition| is_atomic(&definition.arguments)),
            is_rest,
        })
    }

    /// No queue takes it, now that it is due: counted, and remembered for who looks.
    fn drop_stray(&mut self, turn: &mut Turn<'_>, id: QueueId, item: Item, message: &Message) {
        self.counters.undelayed += 1;
        // Of one that others took, the queues that were left are gone.
        if Notes::of(message).queues_left().next().is_none() {
            self.counters.unroutable_delayed += 1;
            self.note_stray(id, item, message, false);
        }
        let settled = settled(id, item.sequence, Why::Acknowledged);
        self.record_lazy(turn.log, settled, item.durable);
    }

    fn count_refused(&mut self, id: QueueId, item: Item, message: &Message) {
        self.counters.delays_refused += 1;
        self.note_stray(id, item, message, true);
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
}

fn one(sequence: Sequence) -> Range {
    Range {
        first: sequence,
        last: sequence,
    }
}

pub(super) fn settled(queue: QueueId, sequence: Sequence, why: Why) -> Fact {
    Fact::Settled {
        queue,
        ranges: Ranges::from_slice(&[one(sequence)]),
        why,
    }
}

/// The first place that is not read ahead of its time.
pub(super) fn read_up_to(now: u64) -> Sequence {
    place_at(now.saturating_add(READ_AHEAD + 1))
}
