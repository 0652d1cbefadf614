//! Replays: new bindings that get what their exchange kept, before what comes.

use std::collections::BTreeMap;
use std::sync::Arc;

use menzil_model::fact::{
    Binding, Destination, Entry, ExchangeDefinition, ExchangeKind, Published,
};
use menzil_model::{Fact, Message, Name, Properties, QueueId, Sequence, StorePurpose};

use super::Shard;
use crate::channel::{Parked, Waiting};
use crate::effect::{Effect, Wanted};
use crate::queue::{Item, Order, Overflow, Scanned, time_of};
use crate::refusal::{Object, Refusal};
use crate::replay::{Asker, Found, From, Piece, Probe, Replay};
use crate::topology::RoutingKeys;
use crate::turn::Turn;

/// Entries that are looked at together, and whose messages are read at once.
const ENTRIES_AT_ONCE: usize = 512;

/// Entries that one turn looks at; the rest follow in the next.
const ENTRIES_PER_TURN: usize = 2048;

impl Shard {
    /// Where a new binding is to begin with what its exchange kept; `None` where it gets none.
    pub(super) fn replay_from(&self, binding: &Binding, now: u64) -> Result<Option<From>, Refusal> {
        let Some(exchange) = self.topology.exchange_by_id(binding.source) else {
            return Ok(None);
        };
        let keeps = self.topology.keeps(exchange.id);
        let from = From::read(&binding.arguments, exchange, keeps, now)?;
        let is_history = exchange.kind == ExchangeKind::RecentHistory;
        Ok(from.or_else(|| is_history.then_some(From::First)))
    }

    /// Binds, and puts what the exchange kept before what comes. The answer comes when that is
    /// done; meanwhile the channel is parked.
    pub(super) fn start_replay(
        &mut self,
        turn: &mut Turn<'_>,
        (binding, durable): (Binding, bool),
        from: From,
        asker: Asker,
    ) {
        let name_of = |destination| self.name_of(destination);
        let Some(source) = self.topology.exchange_by_id(binding.source) else {
            return;
        };
        let store = store_of(source);
        let probe = Probe::new(&self.topology, source, &binding, name_of);
        let ends = [
            Object::Exchange(source.name.clone()),
            self.object_of(binding.destination),
        ];
        let reads = probe.is_some()
            || match binding.destination {
                Destination::Exchange(_) => true,
                Destination::Queue(id) => {
                    let queue = self.queues.get(&id);
                    queue.is_some_and(|queue| matches!(queue.order, Order::Priority(_)))
                }
            };
        let first = self.first_kept(store, turn.now);
        let Some(queue) = self.queues.get_mut(&store) else {
            return;
        };
        let end = queue.place(0, 0, 0);
        if let Some(kept) = &mut queue.store {
            kept.readers += 1;
        }
        let mut replay = Replay {
            asker,
            binding,
            durable,
            ends,
            store,
            probe,
            back: None,
            next: end,
            first,
            end,
            reads,
            found: BTreeMap::new(),
            live: BTreeMap::new(),
            waits_for: None,
        };
        replay.begin(from);
        let id = self.next_replay;
        self.next_replay += 1;
        let channel = replay.asker.channel;
        self.replays.insert(id, replay);
        self.advance_replay(turn, id);
        if let Some(key) = channel.filter(|_| self.replays.contains_key(&id)) {
            self.park(key, Waiting::Replay(id));
        }
    }

    fn name_of(&self, destination: Destination) -> Name {
        match self.object_of(destination) {
            Object::Queue(name) | Object::Exchange(name) => name,
        }
    }

    fn object_of(&self, destination: Destination) -> Object {
        match destination {
            Destination::Queue(id) => {
                let queue = self.queues.get(&id);
                Object::Queue(queue.map_or_else(Name::empty, |queue| queue.definition.name.clone()))
            }
            Destination::Exchange(id) => {
                let exchange = self.topology.exchange_by_id(id);
                Object::Exchange(
                    exchange.map_or_else(Name::empty, |exchange| exchange.name.clone()),
                )
            }
        }
    }

    /// Whether a replay could go on at once.
    pub(super) fn has_replay_to_advance(&self) -> bool {
        let mut replays = self.replays.values();
        replays.any(|replay| replay.waits_for.is_none())
    }

    /// Takes every replay further that waits for nothing.
    pub(super) fn advance_replays(&mut self, turn: &mut Turn<'_>) {
        let ids: Vec<u64> = self.replays.keys().copied().collect();
        for id in ids {
            self.advance_replay(turn, id);
            self.resume_replayed(turn, id);
        }
    }

    /// The channel goes on whose replay is done.
    fn resume_replayed(&mut self, turn: &mut Turn<'_>, id: u64) {
        if !self.replays.contains_key(&id) {
            self.resume(
                turn,
                |_, waiting| matches!(waiting, Waiting::Replay(of) if *of == id),
            );
        }
    }

    /// Looks at what came to stores that replays read from.
    pub(super) fn note_arrivals(&mut self, turn: &Turn<'_>) {
        if self.arrived.is_empty() {
            return;
        }
        for (store, item, message) in std::mem::take(&mut self.arrived) {
            let ids: Vec<u64> = self.replays.keys().copied().collect();
            for id in ids {
                let Some(mut replay) = self.replays.remove(&id) else {
                    continue;
                };
                if replay.store == store && replay.end <= item.sequence {
                    let content = Some(Arc::clone(&message));
                    self.note_match(turn, &mut replay, Side::Live, &Scanned { item, content });
                }
                self.replays.insert(id, replay);
            }
        }
    }

    fn advance_replay(&mut self, turn: &mut Turn<'_>, id: u64) {
        self.note_arrivals(turn);
        let Some(mut replay) = self.replays.remove(&id) else {
            return;
        };
        let mut left = ENTRIES_PER_TURN;
        while replay.waits_for.is_none() {
            let Some(queue) = self.queues.get(&replay.store) else {
                self.answer(
                    turn,
                    &replay.asker,
                    Err(Refusal::NotFound(first_of(&replay))),
                );
                return;
            };
            let mut entries = match replay.back {
                Some((_, 0)) => Vec::new(),
                Some((below, _)) => queue.index.scan_before(below, ENTRIES_AT_ONCE),
                None => queue.index.scan_from(replay.next, ENTRIES_AT_ONCE),
            };
            let wanted = replay.first..replay.end;
            entries.retain(|entry| wanted.contains(&entry.item.sequence));
            if entries.is_empty() {
                self.complete_replay(turn, replay);
                return;
            }
            if left == 0 {
                break;
            }
            left = left.saturating_sub(entries.len());
            self.look_at_or_ask(turn, &mut replay, entries);
        }
        self.replays.insert(id, replay);
    }

    /// Notes which of the entries match, or asks for messages that this takes.
    fn look_at_or_ask(&mut self, turn: &mut Turn<'_>, replay: &mut Replay, entries: Vec<Scanned>) {
        let is_away = |entry: &Scanned| entry.content.is_none();
        if !replay.reads || !entries.iter().any(is_away) {
            self.look_at(turn, replay, entries);
            return;
        }
        let entries = within(entries, self.content.run_bytes(), replay.back.is_some());
        let wanted: Vec<Wanted> = (entries.iter().filter(|entry| is_away(entry)))
            .map(|entry| Wanted {
                sequence: entry.item.sequence,
                origin: entry.item.origin,
                chunks: entry.item.extent.chunks,
            })
            .collect();
        if wanted.is_empty() {
            self.look_at(turn, replay, entries);
            return;
        }
        let spare = self.spare.take(wanted.len());
        turn.effects.effect(Effect::Fetch {
            queue: replay.store,
            wanted,
            spare,
        });
        replay.waits_for = Some(entries);
    }

    /// Messages that a replay asked for came in. What is not there any more is passed over.
    pub(super) fn fetched_for_replay(
        &mut self,
        turn: &mut Turn<'_>,
        store: QueueId,
        messages: &[(Sequence, Option<Arc<Message>>)],
    ) {
        let ids: Vec<u64> = self.replays.keys().copied().collect();
        for id in ids {
            let Some(mut replay) = self.replays.remove(&id) else {
                continue;
            };
            if replay.store == store
                && let Some(mut entries) = replay.waits_for.take()
            {
                if provide(&mut entries, messages) {
                    self.drop_lost(turn, &replay, &entries);
                    self.look_at(turn, &mut replay, entries);
                } else {
                    replay.waits_for = Some(entries);
                }
            }
            self.replays.insert(id, replay);
        }
    }

    /// Records that cannot be read: their entries go, unless another replay may count on them.
    fn drop_lost(&mut self, turn: &mut Turn<'_>, replay: &Replay, entries: &[Scanned]) {
        let store = self.queues.get(&replay.store);
        let readers = store.and_then(|queue| Some(queue.store.as_ref()?.readers));
        if readers != Some(1) {
            return;
        }
        for lost in entries.iter().filter(|entry| entry.content.is_none()) {
            self.drop_damaged(turn, replay.store, lost.item.sequence);
        }
    }

    fn look_at(&mut self, turn: &Turn<'_>, replay: &mut Replay, entries: Vec<Scanned>) {
        replay.pass(&entries);
        if replay.back.is_some() {
            for entry in entries.into_iter().rev() {
                let is_wanted = matches!(replay.back, Some((_, 1..)));
                if is_wanted
                    && self.note_match(turn, replay, Side::Before, &entry)
                    && let Some((_, left)) = &mut replay.back
                {
                    *left -= 1;
                }
            }
        } else {
            for entry in entries {
                self.note_match(turn, replay, Side::Behind, &entry);
            }
        }
    }

    /// Whether it matched.
    fn note_match(
        &mut self,
        turn: &Turn<'_>,
        replay: &mut Replay,
        side: Side,
        entry: &Scanned,
    ) -> bool {
        let Some(expires_at) = self.expiry_of(replay.store, &entry.item, turn.now) else {
            return false;
        };
        let item = Item {
            expires_at,
            ..entry.item
        };
        let targets = match &entry.content {
            Some(message) => self.targets_of(replay, message),
            None => match (&replay.probe, replay.binding.destination) {
                (None, Destination::Queue(queue)) => vec![queue],
                // The record of the message is gone.
                _ => Vec::new(),
            },
        };
        for queue in &targets {
            let Some(of_queue) = self.queues.get(queue) else {
                continue;
            };
            let ttl = of_queue.settings.message_ttl;
            let expires_at = [item.expires_at, ttl.map(|ttl| turn.now.saturating_add(ttl))];
            let item = Item {
                expires_at: expires_at.into_iter().flatten().min(),
                ..item
            };
            let all = match side {
                Side::Before | Side::Behind => &mut replay.found,
                Side::Live => &mut replay.live,
            };
            let class = match (of_queue.order, &entry.content) {
                (Order::Priority(max), Some(message)) => priority_of(message).min(max),
                _ => 0,
            };
            let found = all.entry((*queue, class)).or_default();
            let before = side == Side::Before;
            found.add(item, entry.content.clone(), before);
            found.seal_pages(self.settings.index_page_entries.max(1), &self.shelf, before);
        }
        !targets.is_empty()
    }

    /// When the message leaves by itself, where it does; `None` where it has. That of recent
    /// history begins to live anew.
    #[expect(clippy::option_option, reason = "no expiry is not expired")]
    fn expiry_of(&self, store: QueueId, item: &Item, now: u64) -> Option<Option<u64>> {
        let Some(at) = item.expires_at else {
            return Some(None);
        };
        let store = self
            .queues
            .get(&store)
            .and_then(|queue| queue.store.as_ref());
        if store.is_some_and(|store| store.retention.is_history) {
            let lives = at.saturating_sub(time_of(item.sequence));
            return Some(Some(now.saturating_add(lives)));
        }
        (at > now).then_some(Some(at))
    }

    fn targets_of(&mut self, replay: &mut Replay, message: &Message) -> Vec<QueueId> {
        let properties = Properties::parse(message.properties()).unwrap_or_default();
        let keys = RoutingKeys::new(message.routing_key(), &properties)
            .unwrap_or_else(|_| RoutingKeys::one(message.routing_key()));
        let takes = |probe: &mut Probe| probe.takes(&keys, &properties);
        if !replay.probe.as_mut().is_none_or(takes) {
            return Vec::new();
        }
        match replay.binding.destination {
            Destination::Queue(queue) => vec![queue],
            Destination::Exchange(exchange) => {
                let targets = &mut self.targets;
                let _routed = self.topology.route(exchange, &keys, &properties, targets);
                let queues = targets.queues().iter().chain(targets.stores());
                queues.copied().collect()
            }
        }
    }

    /// The binding and what it gets take effect, in one record.
    fn complete_replay(&mut self, turn: &mut Turn<'_>, mut replay: Replay) {
        let page = self.settings.index_page_entries.max(1);
        let before = replay.back.is_some();
        for found in replay.found.values_mut() {
            found.seal(page, &self.shelf, before);
        }
        for (place, mut found) in std::mem::take(&mut replay.live) {
            found.seal(page, &self.shelf, false);
            replay.found.entry(place).or_default().append(found);
        }
        let done = self.enter_replayed(turn, &mut replay);
        if let Some(queue) = self.queues.get_mut(&replay.store)
            && let Some(store) = &mut queue.store
        {
            store.readers -= 1;
            if store.readers == 0 {
                queue.index.strip();
            }
        }
        self.touch(replay.store);
        self.answer(turn, &replay.asker, done);
    }

    pub(super) fn answer(&mut self, turn: &mut Turn<'_>, asker: &Asker, done: Result<(), Refusal>) {
        let Some(key) = asker.channel else { return };
        match done {
            Ok(()) => turn.reply(key, asker.nowait, self.topology_index, asker.reply.clone()),
            Err(refusal) => self.refuse(turn, key, refusal, asker.method),
        }
    }

    fn enter_replayed(&mut self, turn: &mut Turn<'_>, replay: &mut Replay) -> Result<(), Refusal> {
        let binding = replay.binding.clone();
        let is_there = match binding.destination {
            Destination::Queue(id) => self.queues.contains_key(&id),
            Destination::Exchange(id) => self.topology.exchange_by_id(id).is_some(),
        };
        if !is_there {
            let [_, destination] = &replay.ends;
            return Err(Refusal::NotFound(destination.clone()));
        }
        if self.topology.has_binding(&binding) {
            return Ok(());
        }
        let (mut written, mut volatile) = (Vec::new(), Vec::new());
        let bound = Fact::Bound(binding);
        if replay.durable {
            written.push(bound);
        } else {
            volatile.push(bound);
        }
        let found = std::mem::take(&mut replay.found);
        let mut queues: Vec<QueueId> = found.keys().map(|(queue, _)| *queue).collect();
        queues.dedup();
        let mut bytes = 0;
        let mut ahead = Room::default();
        // What goes first comes first: the highest priority of each queue.
        for ((queue, class), found) in found.into_iter().rev() {
            ahead = ahead.of(queue);
            let facts = (&mut written, &mut volatile);
            bytes += self.facts_of(turn.now, (&mut ahead, class), found, facts);
        }
        if !written.is_empty() && !turn.log.has_room(bytes) {
            return Err(Refusal::NoRoom);
        }
        let written = match written.len() {
            0 | 1 => written.pop(),
            _ => Some(Fact::Group(written)),
        };
        if let Some(fact) = written {
            let index = self.record(turn, fact, true);
            self.topology_index = self.topology_index.max(index);
        }
        for fact in volatile {
            self.record(turn, fact, false);
        }
        for queue in queues {
            self.settle_replayed(turn, queue);
        }
        Ok(())
    }

    /// What was found for one queue, as it enters it. Returns the bytes that are to be written.
    fn facts_of(
        &mut self,
        now: u64,
        (ahead, class): (&mut Room, u8),
        mut found: Found,
        (written, volatile): (&mut Vec<Fact>, &mut Vec<Fact>),
    ) -> u64 {
        let id = ahead.queue;
        let Some(queue) = self.queues.get_mut(&id) else {
            return 0;
        };
        if queue.settings.overflow != Overflow::DropHead {
            let room =
                |max: Option<u64>, used| max.map_or(u64::MAX, |max: u64| max.saturating_sub(used));
            let count = queue.index.ready_count() + ahead.count;
            let count = room(queue.settings.length_max, count);
            let bytes = queue.index.ready_bytes() + ahead.body_bytes;
            let bytes = room(queue.settings.bytes_max, bytes);
            queue.counters.refused += found.cut(count, bytes, &self.shelf);
        }
        let mut next = queue.place(class, now, ahead.count);
        ahead.count += found.count();
        let mut bytes = 0;
        for piece in found.into_pieces() {
            match piece {
                Piece::Stored(page, count) => {
                    let entries = page.packed().shifted(next.0 - 1);
                    next.0 += count;
                    bytes += entries.as_bytes().len() as u64;
                    ahead.body_bytes += entries.summary().body_bytes;
                    let fact = Fact::Copied { queue: id, entries };
                    if queue.is_durable() {
                        written.push(fact);
                    } else {
                        volatile.push(fact);
                    }
                }
                Piece::Volatile(messages) => {
                    for one in messages {
                        ahead.body_bytes += one.extent.body_bytes;
                        let entry = Entry {
                            queue: id,
                            sequence: next,
                            expires_at: one.expires_at,
                            durable: false,
                        };
                        next.0 += 1;
                        volatile.push(Fact::Published(Published {
                            message: Some(one.message),
                            extent: one.extent,
                            entries: std::iter::once(entry).collect(),
                            keys: None,
                        }));
                    }
                }
            }
        }
        bytes
    }

    /// Consumers get what they can take before a limit drops what is too much.
    fn settle_replayed(&mut self, turn: &mut Turn<'_>, queue: QueueId) {
        if let Some(place) = self.queues.place(&queue) {
            self.pump(turn, queue, place);
            self.note_over(queue, place);
        }
        self.touch(queue);
    }

    /// A channel is closed: what it asked for is done, and nobody is told.
    pub(super) fn leave_replay(&mut self, parked: &Parked) {
        if let Waiting::Replay(id) = parked.waiting
            && let Some(replay) = self.replays.get_mut(&id)
        {
            replay.asker.channel = None;
        }
    }

    /// Checks that stores know who reads from them; for tests.
    pub(super) fn check_replays(&self) {
        for (id, queue) in self.queues.iter() {
            let readers = self.replays.values().filter(|replay| replay.store == *id);
            let known = queue.store.as_ref().map_or(0, |store| store.readers);
            assert_eq!(known, readers.count(), "readers of a store are off");
        }
    }
}

/// Where what matches goes among what did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Before,
    Behind,
    /// Behind all that was there when the replay began.
    Live,
}

/// What enters one queue before what is next.
#[derive(Clone, Copy, Debug)]
struct Room {
    queue: QueueId,
    count: u64,
    body_bytes: u64,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            queue: QueueId(0),
            count: 0,
            body_bytes: 0,
        }
    }
}

impl Room {
    /// The same for that queue.
    fn of(self, queue: QueueId) -> Self {
        if self.queue == queue {
            return self;
        }
        Self {
            queue,
            ..Self::default()
        }
    }
}

fn priority_of(message: &Message) -> u8 {
    let properties = Properties::parse(message.properties()).unwrap_or_default();
    properties.priority.unwrap_or_default()
}

fn store_of(exchange: &ExchangeDefinition) -> QueueId {
    QueueId::store_of(exchange.id, StorePurpose::Retention)
}

fn first_of(replay: &Replay) -> Object {
    let [source, _] = &replay.ends;
    source.clone()
}

/// As many of the entries as may be read at once: the first, or where they are looked at from
/// behind the last.
fn within(mut entries: Vec<Scanned>, bytes_max: u64, from_behind: bool) -> Vec<Scanned> {
    let (mut room, mut is_first) = (bytes_max, true);
    let mut fits = |entry: &Scanned| {
        let bytes = entry.item.extent.total_bytes;
        let fits = bytes <= room || is_first;
        is_first = false;
        room = room.saturating_sub(bytes);
        fits
    };
    if from_behind {
        let count = entries.iter().rev().take_while(|entry| fits(entry)).count();
        entries.drain(..entries.len() - count);
    } else {
        let count = entries.iter().take_while(|entry| fits(entry)).count();
        entries.truncate(count);
    }
    entries
}

/// Puts messages to their entries. False where these are not the ones that were asked for.
fn provide(entries: &mut [Scanned], messages: &[(Sequence, Option<Arc<Message>>)]) -> bool {
    let is_away = |entry: &Scanned| entry.content.is_none();
    let asked = entries.iter().filter(|entry| is_away(entry));
    let given = messages.iter().map(|(sequence, _)| *sequence);
    if !asked.map(|entry| entry.item.sequence).eq(given) {
        return false;
    }
    let away = entries.iter_mut().filter(|entry| is_away(entry));
    for (entry, (_, message)) in away.zip(messages) {
        entry.content.clone_from(message);
    }
    true
}
