//! Publishing: route, ask each queue, write one record, confirm.

use std::sync::Arc;

use bytes::Bytes;
use menzil_model::fact::{Chunks, Entries, Entry, Extent, Keys, Published, Ranges, Why};
use menzil_model::{Fact, Map, Message, QueueId, Sequence};
use smallvec::SmallVec;

use super::Shard;
use super::deduplicate::{Duplicates, PendingKeys, keys_of};
use super::policy::DROPPED_AT_ONCE;
use super::session::with_topic;
use crate::channel::{HeldPublish, Mode};
use crate::command::{ChannelKey, PublishRef};
use crate::consumer::Taker;
use crate::death::notes_of_bcc;
use crate::effect::Output;
use crate::queue::{Overflow, Queue};
use crate::refusal::Refusal;
use crate::route::Route;
use crate::settling::ranges_of;
use crate::slots::Place;
use crate::turn::Turn;

/// Entries of a transaction that are decided and not yet applied.
#[derive(Debug, Default)]
pub(super) struct Pending {
    /// Several messages are decided before any is applied, so that all must be noted. Of a
    /// single one only what a length limit has to know of.
    is_transaction: bool,
    /// Bytes of the messages that the journal will have to take.
    durable_bytes: u64,
    by_queue: Map<QueueId, Vec<(Sequence, u64, bool)>>,
    order: Vec<QueueId>,
    keys: PendingKeys,
    /// Where the large body of the message lies already.
    pub(super) chunks: Chunks,
}

impl Pending {
    pub(super) fn of_transaction() -> Self {
        Self {
            is_transaction: true,
            ..Self::default()
        }
    }

    /// The queues that have some, in the order they first had.
    pub(super) fn queues(&self) -> impl Iterator<Item = QueueId> + '_ {
        self.order.iter().copied()
    }

    fn of(&self, queue: QueueId) -> &[(Sequence, u64, bool)] {
        self.by_queue.get(&queue).map_or(&[], Vec::as_slice)
    }

    pub(super) fn add(
        &mut self,
        queue: QueueId,
        sequence: Sequence,
        body_bytes: u64,
        durable: bool,
    ) {
        let entries = self.by_queue.entry(queue).or_default();
        if entries.is_empty() {
            self.order.push(queue);
        }
        entries.push((sequence, body_bytes, durable));
    }
}

/// What the queues said of one message.
#[derive(Default)]
pub(super) struct Intake {
    /// The places it gets.
    pub(super) entries: Entries,
    /// What it is known by in those of them that deduplicate.
    pub(super) keys: Option<Box<Keys>>,
    /// The queues that refused it.
    pub(super) refused_by: Vec<QueueId>,
    /// Those of them that want it dead-lettered.
    pub(super) dead_letters: Vec<QueueId>,
    /// The disk has no room for it, which is no queue's verdict.
    pub(super) is_disk_full: bool,
    /// Those that have it already.
    pub(super) duplicates: Duplicates,
}

impl Intake {
    /// Whether a queue that can be consumed from has it, or had it before.
    pub(super) fn reaches_a_queue(&self) -> bool {
        let mut entries = self.entries.iter();
        !self.duplicates.is_empty() || entries.any(|entry| !entry.queue.is_store())
    }
}

impl Shard {
    pub(super) fn publish(
        &mut self,
        turn: &mut Turn<'_>,
        channel: (ChannelKey, Place),
        publish: &PublishRef<'_>,
    ) -> Result<(), Refusal> {
        let route = self.route_of(channel, publish)?;
        self.counters.published += 1;
        let done = self.place(turn, channel, publish, &route);
        self.keep_route(channel, route);
        done
    }

    fn place(
        &mut self,
        turn: &mut Turn<'_>,
        (key, place): (ChannelKey, Place),
        publish: &PublishRef<'_>,
        route: &Route,
    ) -> Result<(), Refusal> {
        let Some(channel) = self.channels.at_mut(place, key) else {
            return Ok(());
        };
        let confirm = match &mut channel.mode {
            Mode::Confirm { last } => {
                *last += 1;
                Some(*last)
            }
            Mode::Plain | Mode::Transaction(_) => None,
        };
        let transactional = matches!(channel.mode, Mode::Transaction(_));
        if !transactional && route.is_usual && self.pass(turn, key, publish, route, confirm) {
            return Ok(());
        }
        let changed;
        let kept = match route.named.as_deref() {
            None => publish,
            Some(properties) => {
                changed = PublishRef {
                    properties,
                    ..*publish
                };
                &changed
            }
        };
        let is_reply = !route.replies.is_empty();
        let is_answered = is_reply && (transactional || self.reply_with(turn, kept, route));
        let unroutable = route.is_unroutable() && !is_answered;
        if unroutable && !publish.mandatory {
            self.counters.unroutable_dropped += 1;
        }
        if unroutable && publish.mandatory && !transactional {
            self.counters.unroutable_returned += 1;
            let message = Arc::new(publish.message(self.settings.chunk_bytes));
            turn.send(key, 0, Output::Return { message });
        }
        let is_held = transactional && (publish.mandatory || !unroutable);
        if route.targets.is_empty() && route.notes.is_empty() && !is_held {
            self.counters.routed += u64::from(is_answered);
            self.confirm(turn, key, confirm, 0, true);
            return Ok(());
        }
        let is_alike = route.is_unlimited && route.stripped.is_none() && route.notes.is_empty();
        if !transactional && is_alike && self.pass(turn, key, kept, route, confirm) {
            return Ok(());
        }
        let message = if unroutable && route.targets.is_empty() && !route.retains {
            publish.message(self.settings.chunk_bytes)
        } else {
            self.message_of(kept, route)
        };
        let message = Arc::new(message);
        let held = HeldPublish {
            message,
            persistent: route.persistent,
            ttl: route.ttl,
            priority: route.priority,
            targets: route.queues().collect(),
            sessions: route.sessions.clone(),
            groups: route.groups.clone(),
            retain: route.retains,
            replies: route.replies.clone(),
            unroutable: unroutable && publish.mandatory,
            delay: route.delay,
            is_moved: false,
        };
        if transactional {
            return self.hold_publish(key, held);
        }
        let mut pending = Pending::default();
        let intake = self.intake(turn, &held, route.atomic, &mut pending);
        self.counters.routed += u64::from(intake.reaches_a_queue());
        let nothing = (Vec::new(), false);
        let also = self.retained_by(turn, &held);
        if intake.refused_by.is_empty() {
            let index = if also.is_empty() {
                self.enter_queues(turn, held.message, intake, &pending, nothing)
            } else {
                self.enter_topic(turn, held.message, (intake, &pending), also)
            };
            self.confirm(turn, key, confirm, index, true);
            return Ok(());
        }
        self.counters.refused += 1;
        let (by, message) = (intake.dead_letters.clone(), Arc::clone(&held.message));
        let index = self.enter_queues(turn, held.message, intake, &pending, nothing);
        self.refuse_publish(turn, (key, confirm), index, (&by, &message));
        Ok(())
    }

    /// The message as queues hold it.
    pub(super) fn message_of(&self, publish: &PublishRef<'_>, route: &Route) -> Message {
        let chunk_bytes = self.settings.chunk_bytes;
        let message = match route.stripped.as_deref() {
            None => publish.message(chunk_bytes),
            Some(stripped) => publish
                .message_with(stripped, chunk_bytes)
                .with_notes(&notes_of_bcc(publish.properties)),
        };
        with_topic(message, &route.notes)
    }

    #[inline]
    pub(super) fn confirm(
        &mut self,
        turn: &mut Turn<'_>,
        key: ChannelKey,
        sequence: Option<u64>,
        after: u64,
        accepted: bool,
    ) {
        let Some(sequence) = sequence else { return };
        if accepted {
            self.counters.confirmed += 1;
        } else {
            self.counters.nacked += 1;
        }
        turn.effects.confirm(key, after, sequence, accepted);
    }

    /// Asks every target whether it takes the message. Nothing is applied yet.
    pub(super) fn intake(
        &mut self,
        turn: &mut Turn<'_>,
        held: &HeldPublish,
        atomic: bool,
        pending: &mut Pending,
    ) -> Intake {
        let mut intake = Intake::default();
        let mut keys = SmallVec::new();
        let body_bytes = held.message.body_bytes();
        let bytes = pending.durable_bytes + held.message.total_bytes();
        for id in &held.targets {
            let Some(queue) = self.queues.get(id) else {
                // Routed there before the commit, and deleted since: not lost in silence.
                if !id.is_store() {
                    intake.refused_by.push(*id);
                }
                continue;
            };
            // What waits lies on disk, whatever is to become of it.
            let durable = (held.persistent || queue.delays()) && queue.definition.durable;
            let key = self.key_in(*id, held);
            let original =
                key.and_then(|key| self.original_of(turn.now, (*id, key), durable, &pending.keys));
            if let Some(after) = original {
                // Before it may be refused: what is sent again has been taken.
                intake.duplicates.note(*id, after);
                continue;
            }
            let overflow = queue.settings.overflow;
            let is_full = overflow != Overflow::DropHead && self.is_full(*id, pending, body_bytes);
            let is_disk_full = !is_full && durable && !turn.log.has_room(bytes);
            if is_full || is_disk_full {
                intake.is_disk_full |= is_disk_full;
                intake.refused_by.push(*id);
                if is_full && overflow == Overflow::RejectPublishDeadLetter {
                    intake.dead_letters.push(*id);
                }
                if let Some(queue) = self.queues.get_mut(id) {
                    queue.counters.refused += 1;
                }
                continue;
            }
            let Some(queue) = self.queues.get(id) else {
                continue;
            };
            // Of what waits, time to live begins when it is due.
            let (at, ttl) = if queue.delays() {
                (turn.now.saturating_add(held.delay), None)
            } else {
                (turn.now, held.ttl)
            };
            let behind = pending.of(*id).len() as u64;
            intake.entries.push(Entry {
                queue: *id,
                sequence: queue.place(held.priority, at, behind),
                expires_at: queue.expires_at(turn.now, ttl),
                durable,
            });
            if let Some(key) = key {
                keys.push((*id, key));
                if pending.is_transaction {
                    pending.keys.add(*id, key, durable);
                }
            }
        }
        if !intake.refused_by.is_empty() && atomic {
            intake.entries.clear();
            keys.clear();
        } else if !held.sessions.is_empty() || !held.groups.is_empty() {
            self.ask_sessions(turn, held, &mut intake);
        }
        if intake.entries.iter().any(|entry| entry.durable) {
            pending.durable_bytes = bytes;
        }
        for entry in &intake.entries {
            if pending.is_transaction || self.is_limited(entry.queue) {
                pending.add(entry.queue, entry.sequence, body_bytes, entry.durable);
            }
        }
        intake.keys = keys_of(turn.now, keys);
        intake
    }

    fn is_limited(&self, id: QueueId) -> bool {
        self.queues.get(&id).is_some_and(Queue::is_limited)
    }

    /// Whether one more entry would be over a limit and nobody takes it at once.
    fn is_full(&self, id: QueueId, pending: &Pending, body_bytes: u64) -> bool {
        let Some(queue) = self.queues.get(&id) else {
            return false;
        };
        let before = pending.of(id);
        let count = before.len() as u64 + 1;
        let bytes = before.iter().map(|(_, bytes, _)| bytes).sum::<u64>() + body_bytes;
        queue.is_over(count, bytes) && self.appetite(id) < count
    }

    /// Puts the message into its queues: one record, whatever their number, with the entries
    /// that a length limit drops for it, and what else is to happen with it or not at all.
    pub(super) fn enter_queues(
        &mut self,
        turn: &mut Turn<'_>,
        message: Arc<Message>,
        intake: Intake,
        pending: &Pending,
        (also, is_also_durable): (Vec<Fact>, bool),
    ) -> u64 {
        self.count_duplicates(&intake.duplicates);
        let (entries, keys) = (intake.entries, intake.keys);
        let after = intake.duplicates.after;
        if entries.is_empty() {
            return self.record_also(turn, also, is_also_durable).max(after);
        }
        for entry in &entries {
            self.touch(entry.queue);
        }
        self.count_delayed(&entries);
        let durable = entries.iter().any(|entry| entry.durable);
        let moved = (!also.is_empty()).then(|| (entries.clone(), self.came_after(&also)));
        let mut dropped: Vec<(Fact, bool)> = Vec::new();
        for queue in pending.queues() {
            if let Some((ranges, is_durable)) = self.overflow(queue, pending, DROPPED_AT_ONCE) {
                let fact = Fact::Settled {
                    queue,
                    ranges,
                    why: Why::Overflow,
                };
                dropped.push((fact, is_durable));
            }
        }
        let references = if durable { entries.len() } else { 0 };
        let extent = extent_of(turn, &message, pending.chunks, references);
        let published = Fact::Published(Published {
            message: Some(message),
            extent,
            entries,
            keys,
        });
        if dropped.is_empty() && also.is_empty() {
            return self.record(turn, published, durable).max(after);
        }
        if !durable {
            self.record(turn, published, false);
            // Deliveries wait for it.
            let mut last =
                together(also).map_or(0, |fact| self.record(turn, fact, is_also_durable));
            for (fact, is_durable) in dropped {
                last = self.record(turn, fact, is_durable).max(last);
            }
            self.note_moved(moved, last);
            return after;
        }
        let mut group = vec![published];
        group.extend(also);
        group.extend(dropped.into_iter().map(|(fact, _)| fact));
        let index = self.record(turn, Fact::Group(group), true);
        self.note_moved(moved, index);
        index
    }

    /// The index that what these facts take out of its queue waits for where the journal does
    /// not have it: it may have been moved there before.
    fn came_after(&self, facts: &[Fact]) -> u64 {
        let earlier = facts.iter().filter_map(|fact| {
            let Fact::Settled { queue, .. } = fact else {
                return None;
            };
            Some(self.queues.get(queue)?.moved.transient())
        });
        earlier.max().unwrap_or_default()
    }

    /// Entries came by a move, which is in that record, if it is in one.
    fn note_moved(&mut self, moved: Option<(Entries, u64)>, index: u64) {
        let Some((entries, earlier)) = moved else {
            return;
        };
        for entry in entries {
            if let Some(queue) = self.queues.get_mut(&entry.queue) {
                queue.moved.note(entry.durable, index.max(earlier));
            }
        }
    }

    /// Records facts together. One alone is a settle, which nobody waits for.
    fn record_also(&mut self, turn: &mut Turn<'_>, mut facts: Vec<Fact>, durable: bool) -> u64 {
        match facts.pop() {
            None => 0,
            Some(fact) if facts.is_empty() => {
                self.record_lazy(turn.log, fact, durable);
                0
            }
            Some(last) => {
                facts.push(last);
                self.record(turn, Fact::Group(facts), durable)
            }
        }
    }

    /// The entries that a queue drops from its head because of what is pending, and whether the
    /// journal has any of them. The head is what would go out first, so that of a queue with
    /// priorities the highest go first, as in RabbitMQ. A limit that a policy lowers may leave
    /// many: no more than `at_once` go, besides as many as are pending.
    pub(super) fn overflow(
        &self,
        id: QueueId,
        pending: &Pending,
        at_once: usize,
    ) -> Option<(Ranges, bool)> {
        let queue = self.queues.get(&id)?;
        let added = pending.of(id);
        let at_once = at_once.saturating_add(added.len());
        let added_bytes: u64 = added.iter().map(|(_, bytes, _)| bytes).sum();
        // Those that a queue dead-letters leave it when the new ones are in.
        if queue.settings.overflow != Overflow::DropHead
            || queue.dead_letters()
            || !queue.is_over(added.len() as u64, added_bytes)
        {
            return None;
        }
        let mut added = added.to_vec();
        added.sort_unstable_by_key(|(sequence, _, _)| *sequence);
        // What consumers take at once never waits in the queue.
        let taken = usize::try_from(self.appetite(id))
            .unwrap_or(usize::MAX)
            .min(added.len());
        let added = added.get(taken..).unwrap_or_default();
        let mut count = queue.index.ready_count() + added.len() as u64;
        let mut bytes = queue.index.ready_bytes() + added.iter().map(|(_, b, _)| b).sum::<u64>();
        let ready = queue
            .index
            .ready()
            .filter(|item| !queue.index.stays(item))
            .map(|i| (i.sequence, i.extent.body_bytes, i.durable));
        let mut ready = ready.peekable();
        let mut added = added.iter().copied().peekable();
        let in_order = std::iter::from_fn(|| match (ready.peek(), added.peek()) {
            (Some(waits), Some(comes)) if comes.0 < waits.0 => added.next(),
            (Some(_), _) => ready.next(),
            (None, _) => added.next(),
        });
        let mut gone = Vec::new();
        let mut durable = false;
        for (sequence, body_bytes, is_durable) in in_order {
            if !queue.settings.is_over(count, bytes) || gone.len() >= at_once {
                break;
            }
            gone.push(sequence);
            durable |= is_durable;
            count -= 1;
            bytes -= body_bytes;
        }
        (!gone.is_empty()).then(|| (ranges_of(gone), durable))
    }

    /// How many entries the queue's consumers would take right now; 0 while others wait.
    fn appetite(&self, id: QueueId) -> u64 {
        let Some(queue) = self.queues.get(&id).filter(|q| q.index.ready_count() == 0) else {
            return 0;
        };
        let room = |taker: &Taker| {
            let consumer = self.consumers.at(taker.place, taker.consumer)?;
            if !self.can_take(consumer) {
                return Some(0);
            }
            let channel = self.channels.get(&consumer.channel)?;
            let own = match consumer.prefetch {
                0 => u64::MAX,
                limit => limit.saturating_sub(consumer.unsettled),
            };
            let shared = match channel.prefetch_channel {
                0 => u64::MAX,
                limit => limit.saturating_sub(channel.consumed_unsettled),
            };
            Some(own.min(shared))
        };
        queue
            .line
            .takers()
            .iter()
            .filter_map(room)
            .fold(0, u64::saturating_add)
    }
}

/// One fact of several that happen together.
fn together(mut facts: Vec<Fact>) -> Option<Fact> {
    match facts.len() {
        0 | 1 => facts.pop(),
        2.. => Some(Fact::Group(facts)),
    }
}

/// Writes the chunks of a large body that `references` entries will need, and tells where they
/// are. None is written where no entry is durable.
pub(super) fn write_chunks(turn: &mut Turn<'_>, message: &Message, references: usize) -> Extent {
    let references = u32::try_from(references).unwrap_or(u32::MAX);
    let chunks: &[Bytes] = if references > 0 {
        message.chunks()
    } else {
        &[]
    };
    let mut written = Chunks::default();
    for chunk in chunks {
        let index = turn.log.append(&Fact::Chunk(chunk.clone()), references);
        if written.count == 0 {
            written.first = index;
        }
        written.count += 1;
    }
    Extent {
        body_bytes: message.body_bytes(),
        total_bytes: message.total_bytes(),
        chunks: written,
    }
}

/// What the record of a message says of its size: `chunks` are those that earlier records hold
/// of its large body, if they do.
pub(super) fn extent_of(
    turn: &mut Turn<'_>,
    message: &Message,
    chunks: Chunks,
    references: usize,
) -> Extent {
    if chunks.count > 0 && references > 0 {
        share_chunks(turn, message, chunks, references)
    } else {
        write_chunks(turn, message, references)
    }
}

/// As [`write_chunks`], for a large body that earlier records hold.
fn share_chunks(
    turn: &mut Turn<'_>,
    message: &Message,
    chunks: Chunks,
    references: usize,
) -> Extent {
    for _ in 0..references {
        turn.log.retain_run(chunks.first, chunks.count.into());
    }
    Extent {
        body_bytes: message.body_bytes(),
        total_bytes: message.total_bytes(),
        chunks,
    }
}
