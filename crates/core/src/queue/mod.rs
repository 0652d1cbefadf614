//! One queue: its settings, its order, its consumers.

mod amended;
mod consume_arguments;
mod dying;
mod groups;
mod index;
mod item;
mod key;
mod line;
mod mark;
mod moved;
mod order;
mod overdue;
mod page;
mod settings;
mod unsettled;
mod window;

use std::sync::Arc;

use bytes::Bytes;
use menzil_model::fact::{ExchangeDefinition, QueueDefinition, Range, Ranges, Returned, Why};
use menzil_model::{ConnectionId, QueueId, Sequence, StorePurpose, Table};

use crate::content::Holding;
use crate::counters::Counters;
use crate::mqtt::Session;
use crate::releases::Releases;
use crate::scratch::Shelf;
use crate::settling::{Settling, add_in_order};
use crate::spare::Spare;
use crate::store::{Retention, Store};
use mark::Marks;
use moved::Moved;

pub(crate) use amended::Amended;
pub(crate) use consume_arguments::ConsumeArguments;
pub(crate) use dying::Dying;
pub(crate) use groups::{Group, Groups, Next};
pub(crate) use index::{Body, Gone, Index, Remains, RunMax, Scanned, needs_of};
pub(crate) use item::Item;
pub(crate) use key::key_of;
pub(crate) use line::Line;
pub(crate) use order::{Order, SESSION_FLAG_BITS, place_at, place_in_session, time_of};
pub(crate) use overdue::Overdue;
pub(crate) use page::{Form, Page};
pub(crate) use settings::{
    Arguments, Asked, DeadLetters, DelayedRetry, Overflow, RetryKind, Settings, compared,
    interval_of, is_quorum, parse_expiration,
};
pub(crate) use window::{FrozenWindow, Seen, Windows};

/// See the module.
///
/// What a message that is only put in looks at comes first, in two or three lines of memory with
/// those of the index: with many queues in turn none of them is in a cache.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Queue {
    /// The counter of what arrives: where that is the order, the next sequence to give out.
    pub(crate) next_sequence: u64,
    pub(crate) line: Line,
    /// What the shard's memory for messages knows of it.
    pub(crate) content: Holding,
    /// Where messages are in groups.
    pub(crate) groups: Option<Box<Groups>>,
    pub(crate) counters: QueueCounters,
    pub(crate) mark: Marks,
    pub(crate) order: Order,
    pub(crate) index: Index,
    /// The deadline that stands in the shard's timers.
    pub(crate) timer: Option<u64>,
    pub(crate) definition: QueueDefinition,
    pub(crate) settings: Settings,
    /// Owner of an exclusive queue.
    pub(crate) owner: Option<ConnectionId>,
    /// Since when nobody used it; counts for `x-expires` while there is no consumer. Of a store of
    /// delays: before when nothing is to be sent on.
    pub(crate) unused_since: u64,
    /// The one consumer that asked to be alone.
    pub(crate) exclusive_consumer: bool,
    /// Entries on their way to the dead-letter exchange.
    pub(crate) dying: Option<Box<Dying>>,
    /// Messages of a store of delays that a queue refused when they were due, out with nobody.
    pub(crate) overdue: Option<Box<Overdue>>,
    /// What it remembers of messages, if it deduplicates and had some.
    pub(crate) windows: Option<Box<Windows>>,
    /// What a hidden queue of an exchange has besides.
    pub(crate) store: Option<Box<Store>>,
    /// What came by moves that may not be committed.
    pub(crate) moved: Moved,
    /// The MQTT session that it is.
    pub(crate) session: Option<Box<Session>>,
    /// The filter of the group of MQTT sessions whose it is.
    pub(crate) group: Option<Bytes>,
}

/// Who is to hear of entries that are settled.
pub(crate) struct Settled<'a> {
    pub(crate) releases: &'a mut Releases,
    pub(crate) spare: &'a mut Spare,
    pub(crate) settling: &'a mut Settling,
}

/// What happened in a queue since the process started, or since it was recovered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounters {
    /// Entries that came in.
    pub entered: u64,
    /// Deliveries, of `basic.get` too.
    pub delivered: u64,
    /// Entries that were acknowledged, or delivered where no acknowledgement is wanted.
    pub acknowledged: u64,
    /// Entries rejected without requeue.
    pub rejected: u64,
    /// Entries put back.
    pub requeued: u64,
    /// Entries whose time to live ended.
    pub expired: u64,
    /// Entries that a length limit dropped.
    pub overflowed: u64,
    /// Entries that came back more often than the delivery limit allows.
    pub limited: u64,
    /// Of those that were rejected, expired, dropped or limited: how many reached a queue
    /// through the dead-letter exchange.
    pub dead_lettered: u64,
    /// Entries purged.
    pub purged: u64,
    /// Entries whose record cannot be read any more.
    pub damaged: u64,
    /// Publishes that the queue refused.
    pub refused: u64,
    /// Publishes that it did not store because it had the message already.
    pub deduplicated: u64,
}

impl QueueCounters {
    /// Entries that left for good.
    pub fn left(&self) -> u64 {
        self.acknowledged
            + self.rejected
            + self.expired
            + self.overflowed
            + self.limited
            + self.purged
            + self.damaged
    }
}

impl Queue {
    pub(crate) fn new(
        definition: QueueDefinition,
        settings: Settings,
        page_entries: usize,
        shelf: Arc<Shelf>,
    ) -> Self {
        let order = Order::of_priorities(settings.priority_max);
        Self {
            index: Index::new(page_entries, definition.durable, shelf),
            definition,
            content: Holding::default(),
            next_sequence: 1,
            mark: Marks::new(order),
            order,
            owner: None,
            line: Line::new(
                settings.single_active_consumer,
                settings.group_header.is_some(),
            ),
            groups: settings
                .group_header
                .clone()
                .map(|header| Box::new(Groups::new(header))),
            exclusive_consumer: false,
            dying: None,
            overdue: None,
            unused_since: 0,
            timer: None,
            counters: QueueCounters::default(),
            settings,
            windows: None,
            store: None,
            moved: Moved::default(),
            session: None,
            group: None,
        }
    }

    /// The queue of a group of MQTT sessions.
    pub(crate) fn of_group(
        definition: QueueDefinition,
        settings: Settings,
        filter: Bytes,
        page_entries: usize,
        shelf: Arc<Shelf>,
    ) -> Self {
        Self {
            order: Order::Session,
            mark: Marks::new(Order::Session),
            group: Some(filter),
            ..Self::new(definition, settings, page_entries, shelf)
        }
    }

    /// The queue of an MQTT session.
    pub(crate) fn of_session(
        definition: QueueDefinition,
        settings: Settings,
        session: Session,
        page_entries: usize,
        shelf: Arc<Shelf>,
    ) -> Self {
        let mut queue = Self {
            order: Order::Session,
            mark: Marks::new(Order::Session),
            session: Some(Box::new(session)),
            ..Self::new(definition, settings, page_entries, shelf)
        };
        queue.index.keep_sent();
        queue
    }

    /// The hidden queue in which an exchange keeps what passes.
    pub(crate) fn store(
        exchange: &ExchangeDefinition,
        retention: Retention,
        page_entries: usize,
        shelf: Arc<Shelf>,
    ) -> Self {
        let definition = store_definition(exchange, StorePurpose::Retention);
        let store = Store {
            retention,
            readers: 0,
        };
        Self {
            order: Order::Time,
            store: Some(Box::new(store)),
            ..Self::new(definition, Settings::default(), page_entries, shelf)
        }
    }

    /// The hidden queue in which an exchange keeps what is not due.
    pub(crate) fn store_of_delays(
        exchange: &ExchangeDefinition,
        page_entries: usize,
        shelf: Arc<Shelf>,
    ) -> Self {
        let definition = store_definition(exchange, StorePurpose::Delay);
        Self {
            order: Order::Due,
            ..Self::new(definition, Settings::default(), page_entries, shelf)
        }
    }

    /// Remembers what a message that it stores is known by.
    pub(crate) fn remember(&mut self, seen: Seen, durable: bool) {
        let Some(rule) = self.settings.deduplication.as_deref() else {
            return;
        };
        let windows = self.windows.get_or_insert_with(|| Windows::new(rule));
        let window = if durable {
            &mut windows.durable
        } else {
            &mut windows.transient
        };
        window.add(seen, rule);
    }

    /// What a checkpoint has of the keys that it remembers.
    pub(crate) fn freeze_window(&self) -> Option<FrozenWindow> {
        let rule = self.settings.deduplication.as_deref()?;
        Some(self.windows.as_ref()?.durable.freeze(rule))
    }

    /// How many of them there are.
    pub(crate) fn keys_remembered(&self) -> u64 {
        let windows = self.windows.as_ref();
        windows.map_or(0, |windows| windows.durable.len())
    }

    /// Reads a little of each line of memory that an entry which is put in needs.
    #[inline]
    pub(crate) fn touch(&self) -> u64 {
        self.next_sequence ^ self.index.touch()
    }

    /// The place of a message with that priority that comes now, behind `pending` others that
    /// have theirs.
    pub(crate) fn place(&self, priority: u8, now: u64, pending: u64) -> Sequence {
        match self.order {
            Order::Arrival => Sequence(self.next_sequence + pending),
            Order::Priority(max) => {
                order::place_of(priority.min(max), self.next_sequence + pending)
            }
            Order::Time => Sequence(self.next_sequence.max(place_at(now).0) + pending),
            Order::Due => self.place_due(now, self.next_sequence + pending),
            Order::Session => place_in_session(self.next_sequence + pending, priority),
        }
    }

    /// A place for what is due then. Counters come again, but until then every place is free.
    fn place_due(&self, due_at: u64, counter: u64) -> Sequence {
        let may_be_taken = counter > order::TIME_COUNTER_MASK;
        let mut places = order::places_due(due_at, counter);
        let place = places.find(|place| !may_be_taken || !self.index.has(*place));
        place.unwrap_or_else(|| place_at(due_at))
    }

    /// How far back a delayed message may stand to stay in memory: only what is the next to go
    /// on does, all others have time to be read again.
    pub(crate) fn reach_of_delay(&self, place: Sequence) -> u64 {
        let head = self.index.head();
        if head.is_some_and(|head| place < head.sequence) {
            u64::MAX
        } else {
            0
        }
    }

    /// The place of what goes out next: where nothing waits, of what may come first.
    pub(crate) fn next_out(&self) -> Sequence {
        let head = self.index.head().map(|head| head.sequence);
        head.unwrap_or_else(|| self.place(0, 0, 0))
    }

    /// A place was given out.
    pub(crate) fn note_place(&mut self, sequence: Sequence) {
        self.next_sequence = self.order.next_counter(sequence, self.next_sequence);
    }

    /// After recovery: what was noted as delivered may have been.
    pub(crate) fn recovered(&mut self, now: u64) {
        self.unused_since = now;
        let next = self.order.start_of(self.next_sequence);
        let below = self.mark.recovered(next);
        self.index.recovered(below, self.order.sent_bits(), next);
        if let Some(dying) = &mut self.dying {
            // Facts told of some that later ones settled.
            dying.retain(|sequence| self.index.is_out(sequence));
        }
        self.dying.take_if(|dying| dying.len() == 0);
    }

    /// Whether it is a queue of AMQP: no store of an exchange, and no session.
    pub(crate) fn is_named(&self) -> bool {
        !self.definition.id.is_store() && self.session.is_none()
    }

    /// Whether it survives a restart.
    pub(crate) fn is_durable(&self) -> bool {
        self.index.is_durable_queue()
    }

    /// Its type, in RabbitMQ's word.
    pub(crate) fn type_name(&self) -> &'static str {
        if is_quorum(&self.definition.arguments) {
            "quorum"
        } else {
            "classic"
        }
    }

    /// Whether it is a quorum queue with a single active consumer: such a queue of RabbitMQ has
    /// no `basic.get`, and a consumer that asks to be the only one is one like any other.
    pub(crate) fn is_single_active_quorum(&self) -> bool {
        self.line.is_single_active() && is_quorum(&self.definition.arguments)
    }

    /// An entry goes out to a consumer.
    #[inline]
    pub(crate) fn went_out(&mut self, item: &Item, shard: &mut Counters) {
        self.content.warm();
        self.counters.delivered += 1;
        shard.delivered += 1;
        shard.redelivered += u64::from(item.redelivered);
    }

    /// The index that the delivery of an entry waits for.
    #[inline]
    pub(crate) fn delivered(&mut self, item: &Item) -> u64 {
        let marked = if item.durable {
            self.mark.deliver(item.sequence)
        } else {
            0
        };
        marked.max(self.moved.waits_for(item))
    }

    /// An entry that is out with a consumer is acknowledged. False where there is none.
    #[inline]
    pub(crate) fn acknowledge(&mut self, sequence: Sequence, settled: &mut Settled<'_>) -> bool {
        let durable = self.settle(sequence, settled);
        if durable == Some(true) {
            let id = self.definition.id;
            settled.settling.add(id, sequence, Why::Acknowledged);
        }
        durable.is_some()
    }

    /// As [`Queue::acknowledge`], of an entry of a session: those that follow each other by their
    /// counters become one range.
    pub(crate) fn acknowledge_in_session(
        &mut self,
        sequence: Sequence,
        settled: &mut Settled<'_>,
    ) -> bool {
        let durable = self.settle(sequence, settled);
        if durable == Some(true) {
            let id = self.definition.id;
            settled
                .settling
                .add_range(id, whole_counter(sequence), Why::Acknowledged);
        }
        durable.is_some()
    }

    /// As [`Queue::acknowledge`], for who acknowledges nothing.
    #[inline]
    pub(crate) fn acknowledge_unasked(
        &mut self,
        sequence: Sequence,
        settled: &mut Settled<'_>,
    ) -> bool {
        let durable = self.settle(sequence, settled);
        if durable == Some(true) {
            settled.settling.add_unasked(self.definition.id, sequence);
        }
        durable.is_some()
    }

    /// Takes out an acknowledged entry. Tells whether the journal has it, `None` where there is
    /// none.
    #[inline]
    fn settle(&mut self, sequence: Sequence, settled: &mut Settled<'_>) -> Option<bool> {
        let (releases, spare) = (&mut *settled.releases, &mut *settled.spare);
        let durable = self.index.settle(sequence, releases, spare)?;
        self.settled(sequence);
        self.counters.acknowledged += 1;
        Some(durable)
    }

    /// An entry that was out is settled.
    #[inline]
    pub(crate) fn settled(&mut self, sequence: Sequence) {
        if let Some(groups) = &mut self.groups {
            groups.settled(sequence);
        }
    }

    /// Puts an entry that was out back in its place.
    pub(crate) fn put_back(&mut self, sequence: Sequence) -> bool {
        let is_back = self.index.put_back(sequence);
        if is_back && let Some(groups) = &mut self.groups {
            groups.returned(sequence);
        }
        is_back
    }

    /// An entry that was out came back, counted; it may have to wait.
    pub(crate) fn give_back(&mut self, returned: &Returned) -> bool {
        let is_back = self.index.give_back(returned);
        if is_back && let Some(groups) = &mut self.groups {
            match returned.ready_at {
                Some(_) => groups.delayed(returned.sequence, returned.group),
                None => groups.returned(returned.sequence),
            }
        }
        is_back
    }

    /// Makes entries ready that came back and waited long enough, no more than so many.
    pub(crate) fn end_delays(&mut self, now: u64, most: usize) {
        let groups = &mut self.groups;
        self.index.end_delays(now, most, |sequence| {
            if let Some(groups) = groups {
                groups.returned(sequence);
            }
        });
    }

    /// What is known of entries that came back, for a checkpoint.
    pub(crate) fn freeze_returned(&self) -> Vec<Returned> {
        let mut all = self.index.freeze_returned();
        if let Some(groups) = &self.groups {
            let delayed = all
                .iter_mut()
                .filter(|returned| returned.ready_at.is_some());
            delayed.for_each(|returned| returned.group = groups.of_delayed(returned.sequence));
        }
        all
    }

    /// Whether it has a length limit.
    pub(crate) fn is_limited(&self) -> bool {
        self.settings.length_max.is_some() || self.settings.bytes_max.is_some()
    }

    /// Whether one more entry, after `pending` others of `pending_bytes`, passes a limit.
    pub(crate) fn is_over(&self, pending: u64, pending_bytes: u64) -> bool {
        let count = self.index.ready_count() + pending;
        let bytes = self.index.ready_bytes() + pending_bytes;
        self.settings.is_over(count, bytes)
    }

    /// Whether its oldest entries go where there are too many.
    pub(crate) fn sheds(&self) -> bool {
        self.settings.overflow == Overflow::DropHead && self.is_limited()
    }

    /// When an entry that comes now leaves by itself, if its message lives that long.
    pub(crate) fn expires_at(&self, now: u64, ttl: Option<u64>) -> Option<u64> {
        let ttl = match (ttl, self.settings.message_ttl) {
            (Some(own), Some(of_queue)) => own.min(of_queue),
            (own, of_queue) => own.or(of_queue)?,
        };
        Some(now.saturating_add(ttl))
    }

    /// Whether anything happens by itself, now or later.
    pub(crate) fn has_deadlines(&self) -> bool {
        self.timer.is_some()
            || self.settings.expires.is_some()
            || self.next_expiry().is_some()
            || self.store.is_some()
            || self.delays()
            || self.dying.is_some()
            || self.index.has_delayed()
            || self.session.is_some()
    }

    /// When the first ready entry leaves by itself, or earlier.
    pub(crate) fn next_expiry(&self) -> Option<u64> {
        let store = self.store.as_deref();
        if store.is_some_and(|store| store.retention.is_history || store.readers > 0) {
            return None;
        }
        self.index.next_expiry()
    }

    /// Whether a replay reads from it.
    pub(crate) fn is_read(&self) -> bool {
        self.store.as_deref().is_some_and(|store| store.readers > 0)
    }

    /// When the first entry of a store is too old to be kept.
    fn ages_at(&self) -> Option<u64> {
        let store = self.store.as_deref().filter(|store| store.readers == 0)?;
        let came_at = time_of(self.index.head()?.sequence);
        Some(came_at.saturating_add(store.retention.age_max?))
    }

    /// Whether entries that leave it unacknowledged go to an exchange.
    pub(crate) fn dead_letters(&self) -> bool {
        self.settings.dead_letters.is_some()
    }

    /// Entries that are to die.
    pub(crate) fn dying_count(&self) -> u64 {
        self.dying.as_deref().map_or(0, |dying| dying.len() as u64)
    }

    /// What a checkpoint has of them: those that wait, in order.
    pub(crate) fn freeze_dying(&self) -> Vec<(Why, Ranges)> {
        let mut runs = Vec::new();
        let noted = self.dying.as_deref().into_iter().flat_map(Dying::noted);
        for (sequence, reason) in noted {
            if self.index.is_durable(sequence) {
                add_in_order(&mut runs, reason.why(), sequence);
            }
        }
        runs
    }

    /// Room for entries that are to die.
    pub(crate) fn room_to_die(&self) -> usize {
        self.dying.as_deref().map_or(Dying::MAX, Dying::room)
    }

    /// When something is to happen by itself.
    pub(crate) fn deadline(&self) -> Option<u64> {
        let lease = match self.settings.expires {
            Some(time) if self.line.is_unused() && self.group.is_none() => {
                Some(self.unused_since + time)
            }
            _ => None,
        };
        let (expiry, retry) = match self.dying.as_deref() {
            // Nothing expires before there is room for it.
            Some(dying) if dying.room() == 0 => (None, dying.retry_at()),
            Some(dying) => (self.next_expiry(), dying.retry_at()),
            None => (self.next_expiry(), None),
        };
        [
            lease,
            expiry,
            retry,
            self.ages_at(),
            self.due_at(),
            self.overdue_at(),
            self.index.delayed_until(),
            self.session.as_deref().and_then(|session| session.due_at),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Checks sums and order; for tests.
    pub(crate) fn check_invariants(&self) {
        self.index.check_invariants();
        if let Some(windows) = &self.windows {
            windows.durable.check_invariants();
            windows.transient.check_invariants();
        }
        assert_eq!(
            self.counters.entered,
            self.counters.left() + self.index.len(),
            "entries of queue {} do not add up",
            self.definition.name
        );
        if let Some(groups) = &self.groups {
            let ready = self.index.ready().map(|item| item.sequence);
            let index = &self.index;
            groups.check_invariants(ready, |at| index.is_out(at), |at| index.is_delayed(at));
        }
        for item in self.index.items() {
            let counter = self.order.counter(item.sequence);
            assert!(counter < self.next_sequence || self.delays());
            assert!(self.definition.durable || !item.durable);
        }
    }
}

/// All places of a session's counter, of which one is an entry's.
pub(crate) fn whole_counter(sequence: Sequence) -> Range {
    let flags = (1 << SESSION_FLAG_BITS) - 1;
    Range {
        first: Sequence(sequence.0 & !flags),
        last: Sequence(sequence.0 | flags),
    }
}

/// What the hidden queue of an exchange is to be.
fn store_definition(exchange: &ExchangeDefinition, purpose: StorePurpose) -> QueueDefinition {
    QueueDefinition {
        id: QueueId::store_of(exchange.id, purpose),
        name: exchange.name.clone(),
        durable: exchange.durable,
        exclusive: false,
        auto_delete: false,
        arguments: Table::empty(),
    }
}
