//! Messages that leave a queue unacknowledged and go through its dead-letter exchange.
//!
//! A move is one record: the letter enters its queues and the entry leaves its own, or neither
//! has happened. Entries that are to move wait in [`Dying`], out with nobody, until their message
//! is in memory; there is a most of them at once, and of moves in one turn. What a move pushes
//! over a limit elsewhere is the next one's work, never a call within.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use menzil_model::fact::{Range, Ranges, Why};
use menzil_model::{Fact, Message, Properties, QueueId, Sequence};

use super::Shard;
use super::publish::{Intake, Pending};
use super::route::is_atomic;
use super::session::with_topic;
use crate::channel::HeldPublish;
use crate::command::ChannelKey;
use crate::death::{self, Death, Notes, Reason};
use crate::delay::delay_of;
use crate::effect::Effect;
use crate::queue::{DeadLetters, Dying, Overflow, Queue, Remains, RunMax};
use crate::settling::ranges_of;
use crate::slots::Place;
use crate::topology::{RoutingKeys, Targets, TrieScratch};
use crate::turn::Turn;

/// Moves in one turn.
const MOVES_AT_ONCE: u32 = 256;

/// Bytes of the messages that they write.
const MOVED_BYTES_AT_ONCE: u64 = 4 << 20;

/// Messages that are asked for at once.
const RUN_MESSAGES_MAX: usize = 512;

/// How long an entry stays that was refused, in milliseconds, unless the queue that refused it
/// has room before.
const RETRY_AFTER: u64 = 1000;

/// Refused publishes that wait to be dead-lettered, and their bytes: more are dropped.
const REFUSED_MAX: usize = 4096;
const REFUSED_BYTES_MAX: u64 = 64 << 20;

/// Queues that are remembered because they refused another's: of more, the others try again
/// by themselves.
const WAITING_MAX: usize = 1024;

/// The work that is left, and the room for it.
#[derive(Debug, Default)]
pub(super) struct Letters {
    /// Moves that this turn may make still.
    moves: u32,
    bytes: u64,
    /// Queues with entries for the next turn.
    behind: Vec<QueueId>,
    refused: VecDeque<Refused>,
    refused_bytes: u64,
    /// Publishers who are told of a refusal once the copies are written.
    verdicts: BTreeMap<u64, HeldVerdict>,
    next_verdict: u64,
    /// Queues that refused a letter, with the queue that has it still.
    waiting: Vec<(QueueId, QueueId)>,
}

/// A message that a queue refused and is to be dead-lettered.
#[derive(Debug)]
struct Refused {
    by: QueueId,
    message: Arc<Message>,
    verdict: Option<u64>,
}

/// A nack that waits for the copies of what it refuses.
#[derive(Debug)]
struct HeldVerdict {
    channel: ChannelKey,
    /// The number of the publish.
    sequence: u64,
    /// The last index of the copies.
    after: u64,
    /// Copies that are not written.
    left: usize,
}

impl Letters {
    /// A channel is closed: nobody hears its verdicts.
    pub(super) fn forget(&mut self, channel: ChannelKey) {
        self.verdicts.retain(|_, held| held.channel != channel);
    }

    /// Whether more is to be done than one turn did.
    pub(super) fn is_behind(&self) -> bool {
        !self.behind.is_empty() || !self.refused.is_empty()
    }

    fn has_room(&self) -> bool {
        self.moves > 0 && self.bytes > 0
    }

    fn spend(&mut self, message: &Message) {
        self.moves = self.moves.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(message.total_bytes());
    }
}

/// Where a letter goes.
enum Address {
    /// To these queues, all or none of them where `atomic`.
    Queues { held: HeldPublish, atomic: bool },
    /// There is no such exchange, or no queue is bound.
    Nowhere,
    /// Only to queues that it went round already.
    Round,
}

/// What became of a move.
enum Move {
    Done,
    /// The queue that refused it, if it was one.
    Refused(Option<QueueId>),
}

impl Shard {
    /// A turn begins.
    pub(super) fn allow_moves(&mut self) {
        self.over.allow();
        self.letters.moves = MOVES_AT_ONCE;
        self.letters.bytes = MOVED_BYTES_AT_ONCE;
    }

    /// Goes on with what the last turn left.
    pub(super) fn resume_moves(&mut self) {
        for queue in std::mem::take(&mut self.letters.behind) {
            self.touch(queue);
        }
    }

    /// The queue has more to do than this turn may.
    pub(super) fn resume_next_turn(&mut self, id: QueueId) {
        if !self.letters.behind.contains(&id) {
            self.letters.behind.push(id);
        }
    }

    /// An entry that is out is to be dead-lettered.
    pub(super) fn doom(&mut self, (id, place): (QueueId, Place), sequence: Sequence, why: Reason) {
        let Some(queue) = self.queues.at_mut(place, id) else {
            return;
        };
        queue.dying.get_or_insert_default().push(sequence, why);
        queue.settled(sequence);
        self.touch_at(id, place);
    }

    /// Ready entries are to be dead-lettered, no more than there is room for.
    pub(super) fn doom_ready(&mut self, id: QueueId, mut sequences: Vec<Sequence>, why: Reason) {
        let Some(queue) = self.queues.get_mut(&id) else {
            return;
        };
        sequences.sort_unstable();
        let dying = queue.dying.get_or_insert_default();
        for sequence in &sequences {
            dying.push(*sequence, why);
        }
        let has_to_wait = dying.retry_at().is_some();
        let ranges = ranges_of(sequences.clone());
        queue.index.take_to_die(&ranges);
        if let Some(groups) = &mut queue.groups {
            groups.gone(&ranges);
        }
        if has_to_wait {
            for sequence in sequences {
                queue.index.strip_dying(sequence);
            }
        }
    }

    /// Entries wait to be dead-lettered, as a fact says that was read back.
    pub(super) fn apply_dying(&mut self, id: QueueId, why: Why, ranges: &[Range]) {
        let (Some(queue), Some(reason)) = (self.queues.get_mut(&id), Reason::of(why)) else {
            return;
        };
        let sequences = queue.index.take_to_die(ranges);
        if let Some(groups) = &mut queue.groups {
            groups.gone(ranges);
        }
        let dying = queue.dying.get_or_insert_default();
        for sequence in sequences {
            dying.push_noted(sequence, reason);
        }
    }

    /// Writes of entries that have to wait that they do, each once.
    fn note_waiting(&mut self, id: QueueId, place: Place) {
        let queue = self.queues.at_mut(place, id);
        if let Some(queue) = queue
            && let Some(dying) = queue.dying.as_deref_mut()
        {
            for (sequence, reason) in dying.note_waiting() {
                if queue.index.is_durable(sequence) {
                    self.settling.add_dying(id, sequence, reason.why());
                }
            }
        }
    }

    /// Before a clean stop: what is to be dead-lettered is not to be delivered again.
    pub(super) fn note_dying(&mut self) {
        for id in self.durable_queues() {
            if let Some(queue) = self.queues.get_mut(&id)
                && let Some(dying) = queue.dying.as_deref_mut()
            {
                for (sequence, reason) in dying.note() {
                    if queue.index.is_durable(sequence) {
                        self.settling.add_dying(id, sequence, reason.why());
                    }
                }
            }
        }
    }

    /// Takes what is over a limit from the head of a queue that dead-letters it. True where there
    /// was some: another entry is the head then.
    pub(super) fn shed(&mut self, id: QueueId, place: Place) -> bool {
        let Some(queue) = self.queues.at(place, id) else {
            return false;
        };
        let room = queue.room_to_die();
        if room == 0 || !queue.dead_letters() || !queue.sheds() || !queue.is_over(0, 0) {
            return false;
        }
        let (mut count, mut bytes) = (queue.index.ready_count(), queue.index.ready_bytes());
        let mut gone = Vec::new();
        for item in queue.index.ready().take(room) {
            if !queue.settings.is_over(count, bytes) {
                break;
            }
            gone.push(item.sequence);
            count -= 1;
            bytes -= item.extent.body_bytes;
        }
        let sheds = !gone.is_empty();
        self.doom_ready(id, gone, Reason::MaxLength);
        sheds
    }

    /// Moves what can be moved now. True where the queue is to be looked at again.
    pub(super) fn bury(&mut self, turn: &mut Turn<'_>, id: QueueId, place: Place) -> bool {
        let has_moved = self.bury_some(turn, id, place);
        self.note_waiting(id, place);
        has_moved
    }

    fn bury_some(&mut self, turn: &mut Turn<'_>, id: QueueId, place: Place) -> bool {
        let mut moved = self.shed(id, place);
        loop {
            let Some(queue) = self.queues.at_mut(place, id) else {
                return false;
            };
            let Some(dying) = queue.dying.as_deref_mut() else {
                return moved;
            };
            if !dying.is_due(turn.now) {
                return moved;
            }
            let Some((sequence, reason)) = dying.front() else {
                queue.dying = None;
                return moved;
            };
            if !self.letters.has_room() {
                self.resume_next_turn(id);
                return false;
            }
            match queue.index.remains(sequence) {
                Remains::Gone => dying.pop(),
                Remains::Asked => return moved,
                Remains::Away => {
                    self.ask_dying(turn, id, place);
                    return moved;
                }
                Remains::Here(message) => {
                    self.letters.spend(&message);
                    match self.move_out(turn, (id, place), (sequence, reason), &message) {
                        Move::Done => self.moved_out(id, place),
                        Move::Refused(by) => self.put_off(turn, (id, place), sequence, by),
                    }
                    moved = true;
                }
            }
        }
    }

    fn moved_out(&mut self, id: QueueId, place: Place) {
        if let Some(dying) = self.dying_mut(id, place) {
            dying.pop();
        }
    }

    fn dying_mut(&mut self, id: QueueId, place: Place) -> Option<&mut Dying> {
        self.queues.at_mut(place, id)?.dying.as_deref_mut()
    }

    /// The front one stays where it is for a while.
    fn put_off(
        &mut self,
        turn: &Turn<'_>,
        (id, place): (QueueId, Place),
        sequence: Sequence,
        by: Option<QueueId>,
    ) {
        let Some(queue) = self.queues.at_mut(place, id) else {
            return;
        };
        queue.index.strip_dying(sequence);
        if let Some(dying) = queue.dying.as_deref_mut()
            && let Some((sequence, reason)) = dying.put_off(turn.now + RETRY_AFTER)
            && queue.index.is_durable(sequence)
        {
            self.settling.add_dying(id, sequence, reason.why());
        }
        if let Some(by) = by {
            self.wait_for(by, id);
        }
    }

    /// What a queue refused of another is tried again when it has room.
    pub(super) fn wait_for(&mut self, by: QueueId, source: QueueId) {
        let waiting = &self.letters.waiting;
        if waiting.len() < WAITING_MAX && !waiting.contains(&(by, source)) {
            self.letters.waiting.push((by, source));
        }
    }

    /// A queue changed: where it has room now, what it refused is tried again.
    pub(super) fn wake_refused(&mut self, id: QueueId) {
        let is_full = self
            .queues
            .get(&id)
            .is_some_and(|queue| queue.is_over(1, 0));
        if is_full || !self.letters.waiting.iter().any(|(by, _)| *by == id) {
            return;
        }
        let mut woken = Vec::new();
        self.letters.waiting.retain(|(by, source)| {
            let wakes = *by == id;
            if wakes {
                woken.push(*source);
            }
            !wakes
        });
        for source in woken {
            let Some(queue) = self.queues.get_mut(&source) else {
                continue;
            };
            if let Some(dying) = queue.dying.as_deref_mut() {
                dying.retry();
            }
            if let Some(overdue) = queue.overdue.as_deref_mut() {
                overdue.wake(id);
            }
            self.touch(source);
        }
    }

    /// Whether letters wait that a queue refused.
    pub(super) fn has_refused(&self) -> bool {
        !self.letters.waiting.is_empty()
    }

    /// Asks for the messages of entries that are to move.
    fn ask_dying(&mut self, turn: &mut Turn<'_>, id: QueueId, place: Place) {
        let max = RunMax {
            messages: RUN_MESSAGES_MAX,
            bytes: self.content.run_bytes(),
            below: Sequence(u64::MAX),
        };
        let Some(queue) = self.queues.at_mut(place, id) else {
            return;
        };
        let Some(dying) = queue.dying.as_deref() else {
            return;
        };
        let wanted = queue.index.ask_dying(dying.sequences(), max);
        if !wanted.is_empty() {
            turn.effects.effect(Effect::Fetch {
                queue: id,
                wanted,
                spare: Vec::new(),
            });
        }
    }

    /// Moves one entry.
    fn move_out(
        &mut self,
        turn: &mut Turn<'_>,
        (id, place): (QueueId, Place),
        (sequence, reason): (Sequence, Reason),
        message: &Message,
    ) -> Move {
        let Some(queue) = self.queues.at(place, id) else {
            return Move::Done;
        };
        let is_durable = queue.index.is_durable(sequence);
        // A large body stays where it is: the letter names the same records.
        let item = queue.index.out(sequence).filter(|item| item.is_stored());
        let chunks = item.map(|item| item.extent.chunks).unwrap_or_default();
        let letters = queue.settings.dead_letters.as_deref();
        // What a length limit drops has no place to wait.
        let may_wait = reason != Reason::MaxLength;
        let is_strict = letters.is_some_and(|letters| letters.at_least_once) && may_wait;
        let waits = may_wait && (is_strict || queue.settings.overflow == Overflow::RejectPublish);
        let range = Range {
            first: sequence,
            last: sequence,
        };
        let settled = Fact::Settled {
            queue: id,
            ranges: Ranges::from_slice(&[range]),
            why: reason.why(),
        };
        let (held, intake, pending) = match self.address(turn, id, reason, message) {
            Address::Queues { held, atomic } => {
                let mut pending = Pending::default();
                pending.chunks = chunks;
                self.make_room(turn, &held.targets);
                let intake = self.intake(turn, &held, atomic, &mut pending);
                (held, intake, pending)
            }
            Address::Nowhere | Address::Round if is_strict => return Move::Refused(None),
            Address::Nowhere | Address::Round => {
                self.counters.dead_letters_dropped += 1;
                self.record_lazy(turn.log, settled, is_durable);
                return Move::Done;
            }
        };
        if intake.is_disk_full {
            // It has its place on the disk where it is, and keeps it until there is another.
            return Move::Refused(None);
        }
        if let Some(by) = intake.refused_by.last().copied() {
            if waits {
                return Move::Refused(Some(by));
            }
            self.counters.dead_letters_refused += 1;
        }
        self.refuse_letters(&intake.dead_letters, &held.message, None);
        let settled = (vec![settled], is_durable);
        self.enter_letter(turn, id, held.message, intake, &pending, settled);
        Move::Done
    }

    /// Lets consumers take what entered these queues in this turn or came back to them, and lets
    /// go what is past its time or over the limit: that is in the way of nothing that comes now.
    pub(super) fn make_room(&mut self, turn: &mut Turn<'_>, targets: &[QueueId]) {
        for id in targets {
            let Some(place) = self.queues.place(id) else {
                continue;
            };
            let queue = self.queues.at(place, *id);
            let waits =
                queue.is_some_and(|queue| queue.is_limited() && queue.index.ready_count() > 0);
            if waits {
                if self.over.has(*id) {
                    self.trim(turn, *id, place);
                    // What it dead-letters goes on from there when its turn comes.
                    self.touch_at(*id, place);
                }
                self.pump(turn, *id, place);
                self.expire_now(turn, *id);
            }
        }
    }

    /// Queues refused a message, and it is to go through their dead-letter exchanges. Who waits
    /// for a verdict waits for these copies too.
    pub(super) fn refuse_letters(
        &mut self,
        by: &[QueueId],
        message: &Arc<Message>,
        verdict: Option<u64>,
    ) {
        for by in by {
            let letters = &mut self.letters;
            let bytes = letters.refused_bytes + message.total_bytes();
            if letters.refused.len() >= REFUSED_MAX || bytes > REFUSED_BYTES_MAX {
                self.counters.dead_letters_dropped += 1;
                continue;
            }
            letters.refused_bytes = bytes;
            letters.refused.push_back(Refused {
                by: *by,
                message: Arc::clone(message),
                verdict,
            });
            if let Some(held) = verdict.and_then(|id| letters.verdicts.get_mut(&id)) {
                held.left += 1;
            }
        }
    }

    /// A publish was refused by these queues, which want it dead-lettered. Who waits for the
    /// verdict hears it once the copies are written, or, where there are none, after the index.
    pub(super) fn refuse_publish(
        &mut self,
        turn: &mut Turn<'_>,
        (channel, sequence): (ChannelKey, Option<u64>),
        after: u64,
        (by, message): (&[QueueId], &Arc<Message>),
    ) {
        let Some(sequence) = sequence else {
            self.refuse_letters(by, message, None);
            return;
        };
        let id = self.letters.next_verdict;
        self.letters.next_verdict += 1;
        let held = HeldVerdict {
            channel,
            sequence,
            after,
            left: 1,
        };
        self.letters.verdicts.insert(id, held);
        self.refuse_letters(by, message, Some(id));
        self.copy_is_written(turn, Some(id), 0);
    }

    /// A copy of a refused publish is written, or lost.
    fn copy_is_written(&mut self, turn: &mut Turn<'_>, verdict: Option<u64>, index: u64) {
        let Some(id) = verdict else {
            return;
        };
        let Some(held) = self.letters.verdicts.get_mut(&id) else {
            return;
        };
        held.after = held.after.max(index);
        held.left = held.left.saturating_sub(1);
        if held.left == 0
            && let Some(held) = self.letters.verdicts.remove(&id)
        {
            self.confirm(turn, held.channel, Some(held.sequence), held.after, false);
        }
    }

    /// Sends one message on that a queue refused. False where there is none, or no room.
    pub(super) fn bury_refused(&mut self, turn: &mut Turn<'_>) -> bool {
        if !self.letters.has_room() {
            return false;
        }
        let Some(refused) = self.letters.refused.pop_front() else {
            return false;
        };
        self.letters.refused_bytes -= refused.message.total_bytes();
        self.letters.spend(&refused.message);
        let index = self.bury_copy(turn, &refused);
        self.copy_is_written(turn, refused.verdict, index);
        true
    }

    /// Returns the index of the copy's record, 0 where it has none.
    fn bury_copy(&mut self, turn: &mut Turn<'_>, refused: &Refused) -> u64 {
        let (id, message) = (refused.by, &refused.message);
        let address = self.address(turn, id, Reason::MaxLength, message);
        let Address::Queues { held, atomic } = address else {
            self.counters.dead_letters_dropped += 1;
            return 0;
        };
        let mut pending = Pending::default();
        self.make_room(turn, &held.targets);
        let intake = self.intake(turn, &held, atomic, &mut pending);
        if !intake.refused_by.is_empty() {
            self.counters.dead_letters_refused += 1;
        }
        self.refuse_letters(&intake.dead_letters, &held.message, refused.verdict);
        let nothing = (Vec::new(), false);
        self.enter_letter(turn, id, held.message, intake, &pending, nothing)
    }

    /// The letter enters the queues that take it.
    fn enter_letter(
        &mut self,
        turn: &mut Turn<'_>,
        source: QueueId,
        letter: Arc<Message>,
        intake: Intake,
        pending: &Pending,
        also: (Vec<Fact>, bool),
    ) -> u64 {
        if !intake.entries.is_empty() {
            self.counters.dead_lettered += 1;
            if let Some(queue) = self.queues.get_mut(&source) {
                queue.counters.dead_lettered += 1;
            }
        }
        self.enter_queues(turn, letter, intake, pending, also)
    }

    /// Writes the letter and finds its queues.
    fn address(
        &mut self,
        turn: &Turn<'_>,
        id: QueueId,
        reason: Reason,
        message: &Message,
    ) -> Address {
        let mut targets = std::mem::take(&mut self.targets);
        let queue = self.queues.get(&id);
        let address =
            queue.map(|queue| self.find_way_out(turn, queue, (reason, message), &mut targets));
        self.targets = targets;
        address.unwrap_or(Address::Nowhere)
    }

    fn find_way_out(
        &self,
        turn: &Turn<'_>,
        queue: &Queue,
        (reason, message): (Reason, &Message),
        targets: &mut Targets,
    ) -> Address {
        let Some(DeadLetters {
            exchange,
            routing_key,
            ..
        }) = queue.settings.dead_letters.as_deref()
        else {
            return Address::Nowhere;
        };
        let Some(definition) = self.topology.exchange(exchange.as_bytes()) else {
            return Address::Nowhere;
        };
        let death = Death {
            queue: &queue.definition.name,
            reason,
            now: turn.now,
            exchange,
            routing_key: routing_key.as_ref(),
            counts_client_headers: self.settings.dead_letter_counts_client_headers,
        };
        let letter = Arc::new(death::letter(message, &death));
        let properties = Properties::parse(letter.properties()).unwrap_or_default();
        // A header that is no list of keys was refused when it was published.
        let keys = RoutingKeys::new(letter.routing_key(), &properties)
            .unwrap_or_else(|_| RoutingKeys::one(letter.routing_key()))
            .and(Notes::of(&letter).keys());
        let delay = delay_of(&properties).unwrap_or_default();
        let _routed = if delay > 0 {
            (self.topology).route_delayed(definition.id, &keys, &properties, targets)
        } else {
            (self.topology).route(definition.id, &keys, &properties, targets)
        };
        let way = (&keys, &properties);
        let found = self.subscribers(targets, way, &mut TrieScratch::default());
        let mut queues = [targets.queues(), targets.delays()].concat();
        if queues.is_empty() && found.is_empty() {
            return Address::Nowhere;
        }
        if reason != Reason::Rejected {
            // One that does not say where it was may go round for ever.
            if Notes::of(message).is_lost() {
                return Address::Round;
            }
            queues.retain(|id| {
                let name = self.queues.get(id).map(|queue| &queue.definition.name);
                id.is_store() || name.is_some_and(|name| !death::is_cycle(&properties, name))
            });
            if queues.is_empty() && found.is_empty() {
                return Address::Round;
            }
        }
        // What reaches no queue may be tried again, and is not kept each time.
        queues.extend_from_slice(targets.stores());
        let persistent = properties.is_persistent();
        let atomic = is_atomic(&definition.arguments);
        Address::Queues {
            held: HeldPublish {
                message: if found.notes.is_empty() {
                    Arc::clone(&letter)
                } else {
                    Arc::new(with_topic(letter.as_ref().clone(), &found.notes))
                },
                persistent,
                ttl: None,
                priority: properties.priority.unwrap_or_default(),
                targets: queues,
                sessions: found.sessions,
                groups: found.groups,
                retain: false,
                replies: Vec::new(),
                unroutable: false,
                delay,
                is_moved: true,
            },
            atomic,
        }
    }
}
