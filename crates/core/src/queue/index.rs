//! The order of one queue: which entries are ready, which are out with a consumer.
//!
//! ```text
//! settled …  | returned (went out, came back) | head | pages | tail  | next sequence →
//!              ▲ the next to go out is the smaller of both firsts
//! ```
//!
//! A sequence is a place in this order, mostly the end, and an entry keeps it for ever: one that
//! comes back stands where it stood. What goes before others: `between`. Head
//! and tail are of at most a page, almost always; the pages between are not looked into until
//! they become the head. The head is a plain list. So is the tail, unless it only grows and all
//! its messages are in the journal alone: then it is packed as it comes.
//!
//! Invariants: an entry is in exactly one place; all of the head is before all pages, and these
//! before the tail; the head is empty only if these are; one form of the tail is empty.

mod among;
mod between;
mod delayed;
mod dying;
mod expiry;
mod fetch;
mod removal;
mod scan;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use menzil_model::fact::{Packed, PackedSummary, Packing, Range, Ranges};
use menzil_model::{Message, Sequence};

use super::amended::ENTRY_PACKED_BYTES;
use super::item::{Held, Item};
use super::order::class_start;
use super::page::{Form, Page};
use super::unsettled::Unsettled;
use crate::scratch::Shelf;

pub(crate) use dying::Remains;
pub(crate) use fetch::{Body, RunMax};
pub(crate) use removal::Gone;
pub(crate) use scan::Scanned;

/// How far ahead of the head a page is announced.
const PAGES_AHEAD: usize = 3;

/// Room for entries that an empty head or tail may keep.
const IDLE_CAPACITY: usize = 16;

/// Room that an empty packed tail may keep.
const IDLE_TAIL_BYTES: usize = 64;

/// See the module. What an entry that is only put in looks at comes first.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Index {
    ready_count: u64,
    ready_bytes: u64,
    /// Memory that messages take, wherever their entries are, that can be read again.
    content_bytes: u64,
    page_entries: usize,
    /// The journal has the entries of its stored messages.
    durable: bool,
    /// What went out stays until it is settled, whatever its time or the limit is.
    keeps_sent: bool,
    /// The other form of the tail.
    packed_tail: Packing,
    expiry: expiry::Bound,
    head: VecDeque<Held>,
    pages: VecDeque<Page>,
    tail: VecDeque<Held>,
    returned: BTreeMap<Sequence, Held>,
    unsettled: Unsettled,
    /// What may have been delivered before a crash.
    recovered: Recovered,
    fetching: fetch::Fetching,
    shelf: Arc<Shelf>,
    opened: Option<Box<between::Opened>>,
    /// Entries that came back and are not ready yet.
    delayed: Option<Box<delayed::Delayed>>,
}

/// Entries that may have been delivered before a crash.
#[derive(Debug, Default)]
struct Recovered {
    /// None is from here on.
    below: u64,
    /// But those whose place has one of these bits, wherever it is below the end.
    sent_bits: u64,
    /// One past the last place of then.
    end: u64,
    /// Where they are not all that are below: the end of each class of places that has some.
    classes: Option<Box<[u64]>>,
}

impl Recovered {
    #[inline]
    fn was_out(&self, sequence: Sequence) -> bool {
        sequence.0 < self.below && self.is_in_class(sequence)
            || sequence.0 & self.sent_bits != 0 && sequence.0 < self.end
    }

    #[cold]
    fn is_in_class(&self, sequence: Sequence) -> bool {
        let Some(classes) = &self.classes else {
            return true;
        };
        let at = classes.partition_point(|below| *below <= sequence.0);
        let below = classes.get(at).copied();
        below.is_some_and(|below| class_start(Sequence(below)) == class_start(sequence))
    }
}

impl Index {
    pub(crate) fn new(page_entries: usize, durable: bool, shelf: Arc<Shelf>) -> Self {
        Self {
            page_entries: page_entries.max(1),
            durable,
            keeps_sent: false,
            shelf,
            head: VecDeque::new(),
            pages: VecDeque::new(),
            tail: VecDeque::new(),
            packed_tail: Packing::default(),
            returned: BTreeMap::new(),
            unsettled: Unsettled::default(),
            ready_count: 0,
            ready_bytes: 0,
            content_bytes: 0,
            recovered: Recovered::default(),
            expiry: expiry::Bound::default(),
            fetching: fetch::Fetching::default(),
            opened: None,
            delayed: None,
        }
    }

    /// Whether the journal has the entries of its stored messages.
    pub(crate) fn is_durable_queue(&self) -> bool {
        self.durable
    }

    /// From now on what went out stays until it is settled.
    pub(crate) fn keep_sent(&mut self) {
        self.keeps_sent = true;
    }

    /// Whether it stays until it is settled, for it went out.
    pub(crate) fn stays(&self, item: &Item) -> bool {
        self.keeps_sent && (item.redelivered || self.recovered.was_out(item.sequence))
    }

    /// When an entry leaves by itself.
    pub(crate) fn expiry_of(&self, item: &Item) -> Option<u64> {
        item.expires_at.filter(|_| !self.stays(item))
    }

    /// See [`super::Queue::touch`].
    #[inline]
    pub(crate) fn touch(&self) -> u64 {
        let last = self.packed_tail.last().map_or(0, |last| last.0);
        self.ready_count ^ last
    }

    /// Entries that wait for a consumer.
    pub(crate) fn ready_count(&self) -> u64 {
        self.ready_count
    }

    /// Bytes of their bodies.
    pub(crate) fn ready_bytes(&self) -> u64 {
        self.ready_bytes
    }

    /// Entries that are out with a consumer.
    pub(crate) fn unsettled_count(&self) -> u64 {
        self.unsettled.len()
    }

    /// All entries.
    pub(crate) fn len(&self) -> u64 {
        self.ready_count + self.unsettled_count() + self.delayed_count()
    }

    /// Whether none is ready or out.
    #[inline]
    fn is_idle(&self) -> bool {
        self.ready_count + self.unsettled_count() == 0
    }

    /// Memory that messages take that can be read again.
    pub(crate) fn content_bytes(&self) -> u64 {
        self.content_bytes
    }

    /// Bytes that the whole index takes in a checkpoint, about.
    pub(crate) fn packed_bytes(&self) -> u64 {
        let pages = self.pages.iter().map(|page| match &page.form {
            Form::Packed(page) => page.bytes(),
            Form::Plain(entries) => entries.len() as u64 * ENTRY_PACKED_BYTES,
        });
        let plain = self.head.len() + self.tail.len() + self.returned.len();
        let plain = plain as u64 + self.unsettled.len() + 2 * self.delayed_count();
        let tail = if self.packed_tail.is_empty() {
            0
        } else {
            self.packed_tail.bytes() + TAIL_OVERHEAD_BYTES
        };
        // Those that came back say so once more.
        let returned = self.returned.len() as u64;
        pages.sum::<u64>() + tail + (plain + returned) * ENTRY_PACKED_BYTES
    }

    /// Puts an entry in its place, almost always the end. Its message stays in memory if it
    /// cannot be had elsewhere, is the next to go out, or the whole queue takes no more than
    /// `reach` bytes of memory up to here: what is further back has time to be read again.
    pub(crate) fn insert(&mut self, item: Item, content: Option<Arc<Message>>, reach: u64) {
        self.insert_with(item, reach, || content);
    }

    /// As [`Index::insert`], for a message that is made only where it is kept.
    ///
    /// Inlined with all that it calls in the usual case, so that the entry is written once, where
    /// it is to lie: one that is copied just after it was written field by field makes the
    /// processor wait for each of them.
    #[inline]
    pub(crate) fn insert_with(
        &mut self,
        item: Item,
        reach: u64,
        content: impl FnOnce() -> Option<Arc<Message>>,
    ) {
        let keeps = !item.is_stored()
            || self.ready_count == 0
            || self
                .content_reach(&item)
                .is_some_and(|bytes| bytes <= reach);
        let content = if keeps { content() } else { None };
        self.ready_count += 1;
        self.ready_bytes += item.extent.body_bytes;
        self.expiry.note(item.expires_at);
        if content.is_some() && item.is_stored() {
            self.content_bytes += item.content_cost();
        }
        match self.last_in_order() {
            Some(last) if last >= item.sequence => {
                self.expiry.note_between(item.expires_at);
                self.insert_between(Held::new(item, content));
            }
            _ => self.push_back(item, content),
        }
    }

    /// Memory that the messages of all ready entries would take, with one more.
    #[inline]
    fn content_reach(&self, item: &Item) -> Option<u64> {
        let overhead = item.content_cost() - item.extent.total_bytes;
        let others = self.ready_count.checked_mul(overhead)?;
        others
            .checked_add(self.ready_bytes)?
            .checked_add(item.content_cost())
    }

    fn count_in(&mut self, held: &Held) {
        self.ready_count += 1;
        self.ready_bytes += held.item.extent.body_bytes;
    }

    /// The last sequence of head, pages and tail.
    #[inline]
    fn last_in_order(&self) -> Option<Sequence> {
        let last = (self.packed_tail.last()).or_else(|| self.tail.back().map(Held::sequence));
        last.or_else(|| self.pages.back().map(|page| page.last))
            .or_else(|| self.head.back().map(Held::sequence))
    }

    #[inline]
    fn push_back(&mut self, item: Item, content: Option<Arc<Message>>) {
        let is_packable = content.is_none() && item.is_stored();
        if is_packable && !self.packed_tail.is_empty() {
            self.packed_tail.add(&item.to_stored());
            if self.packed_tail.len() >= self.page_entries {
                self.seal_tail();
            }
            return;
        }
        let room = if is_packable { 1 } else { self.page_entries };
        if self.pages.is_empty() && self.tail_len() == 0 && self.head.len() < room {
            self.head.push_back(Held::new(item, content));
        } else if is_packable && self.tail.is_empty() {
            self.packed_tail.add(&item.to_stored());
        } else {
            self.unpack_tail();
            self.tail.push_back(Held::new(item, content));
        }
        if self.tail_len() >= self.page_entries {
            self.seal_tail();
        }
        if self.head.is_empty() {
            self.refill();
        }
    }

    fn tail_len(&self) -> usize {
        self.packed_tail.len() + self.tail.len()
    }

    #[cold]
    fn seal_tail(&mut self) {
        if let Some(packed) = self.packed_tail.pack() {
            let summary = packed.summary();
            self.pages
                .push_back(Page::packed(packed, summary, &self.shelf));
            self.packed_tail.clear();
        }
        let entries = std::mem::take(&mut self.tail);
        self.pages.extend(Page::seal(entries.into(), &self.shelf));
    }

    /// Makes the tail a plain list, for what cannot be done to a packed one.
    fn unpack_tail(&mut self) {
        let entries = self.packed_tail.entries();
        let entries = entries.map(|entry| Held::new(Item::unpacked(entry, self.durable), None));
        self.tail.extend(entries);
        self.packed_tail.clear();
    }

    /// Changes the entries of a page; it goes if none are left.
    fn edit_page(&mut self, at: usize, edit: impl FnOnce(&mut Vec<Held>)) {
        let Some(page) = self.pages.get_mut(at) else {
            return;
        };
        let mut entries = page.take_entries(self.durable);
        edit(&mut entries);
        match Page::seal(entries, &self.shelf) {
            Some(sealed) => *page = sealed,
            None => {
                self.pages.remove(at);
            }
        }
    }

    /// Makes the next page the head, once it is empty.
    fn refill(&mut self) {
        while self.head.is_empty() {
            if let Some(page) = self.pages.pop_front() {
                self.head = page.open(self.durable).into();
                if let Some(later) = self.pages.get(PAGES_AHEAD) {
                    later.announce();
                }
            } else if !self.packed_tail.is_empty() {
                self.open_tail();
            } else if self.tail.is_empty() {
                break;
            } else {
                std::mem::swap(&mut self.head, &mut self.tail);
            }
        }
        if self.ready_count == 0 {
            self.expiry = expiry::Bound::default();
            if self.unsettled.len() == 0 {
                self.give_room_back();
            }
        }
    }

    /// Adds a packed tail to the head, behind which nothing else is.
    fn open_tail(&mut self) {
        let entries = self.packed_tail.entries();
        let entries = entries.map(|entry| Held::new(Item::unpacked(entry, self.durable), None));
        self.head.extend(entries);
        self.packed_tail.clear();
    }

    /// An empty queue keeps next to no memory. While entries are out others come and go, and
    /// need their lists again at once.
    fn give_room_back(&mut self) {
        for list in [&mut self.head, &mut self.tail] {
            if list.capacity() > IDLE_CAPACITY {
                *list = VecDeque::new();
            }
        }
        if self.pages.capacity() > 0 {
            self.pages = VecDeque::new();
        }
        self.opened = None;
        if self.packed_tail.capacity() > IDLE_TAIL_BYTES {
            self.packed_tail = Packing::default();
        }
        self.unsettled.give_room_back();
    }

    #[inline]
    fn next_held(&self) -> Option<&Held> {
        let front = self.head.front();
        match (front, self.returned.first_key_value()) {
            (Some(front), Some((returned, held))) if *returned < front.sequence() => Some(held),
            (Some(front), _) => Some(front),
            (None, returned) => returned.map(|(_, held)| held),
        }
    }

    /// The next entry to go out.
    pub(crate) fn head(&self) -> Option<&Item> {
        self.next_held().map(|held| &held.item)
    }

    /// The message of the next entry to go out, where it is in memory.
    pub(crate) fn content(&self) -> Option<&Arc<Message>> {
        self.next_held()?.content.as_ref()
    }

    /// Whether that entry is there and ready.
    pub(crate) fn has_ready(&self, sequence: Sequence) -> bool {
        let before = Sequence(sequence.0.saturating_sub(1));
        let next = self.ready_after(before).next();
        next.is_some_and(|item| item.sequence == sequence)
    }

    /// Whether it is there, ready or out.
    pub(crate) fn has(&self, sequence: Sequence) -> bool {
        self.is_out(sequence) || self.has_ready(sequence)
    }

    /// Entries that are out, in no order.
    pub(crate) fn all_out(&self) -> impl Iterator<Item = &Item> {
        self.unsettled.iter().map(|held| &held.item)
    }

    /// Ready entries behind a place, in order, but those that came back to it.
    pub(crate) fn ready_after(&self, place: Sequence) -> impl Iterator<Item = Item> {
        let first = self.pages.partition_point(|page| page.last <= place);
        let pages = self.pages.iter().skip(first);
        let head = self.head.partition_point(|held| held.sequence() <= place);
        (self.head.iter().skip(head).map(|held| held.item))
            .chain(pages.flat_map(|page| page.items(self.durable)))
            .chain(self.packed_tail_items())
            .chain(self.tail.iter().map(|held| held.item))
            .skip_while(move |item| item.sequence <= place)
    }

    /// Ready entries in order.
    pub(crate) fn ready(&self) -> impl Iterator<Item = Item> {
        let pages = self.pages.iter();
        let mut front = (self.head.iter().map(|held| held.item))
            .chain(pages.flat_map(|page| page.items(self.durable)))
            .chain(self.packed_tail_items())
            .chain(self.tail.iter().map(|held| held.item))
            .peekable();
        let mut returned = self.returned.values().map(|held| held.item).peekable();
        std::iter::from_fn(move || match (front.peek(), returned.peek()) {
            (Some(f), Some(r)) if r.sequence < f.sequence => returned.next(),
            (Some(_), _) => front.next(),
            (None, _) => returned.next(),
        })
    }

    fn packed_tail_items(&self) -> impl Iterator<Item = Item> {
        let entries = self.packed_tail.entries();
        entries.map(|entry| Item::unpacked(entry, self.durable))
    }

    /// All entries, in no order.
    pub(crate) fn items(&self) -> impl Iterator<Item = Item> {
        self.ready()
            .chain(self.unsettled.iter().map(|held| held.item))
            .chain(
                (self.delayed.iter())
                    .flat_map(|delayed| delayed.iter())
                    .map(|held| held.item),
            )
    }

    /// Takes the head out to a consumer. Its message goes with it, unless it may be wanted
    /// again and cannot be read again: then it is [`Index::content_out`].
    pub(crate) fn take_head(&mut self) -> Option<(Item, Option<Arc<Message>>)> {
        let is_returned = match (self.head.front(), self.returned.first_key_value()) {
            (Some(front), Some((returned, _))) => *returned < front.sequence(),
            (front, _) => front.is_none(),
        };
        let held = if is_returned {
            self.returned.pop_first()?.1
        } else {
            self.head.pop_front()?
        };
        Some(self.send_out(held))
    }

    #[inline]
    fn send_out(&mut self, mut held: Held) -> (Item, Option<Arc<Message>>) {
        self.count_out(&held);
        if self.head.is_empty() {
            self.refill();
        }
        let content = held.take_content();
        if content.is_some() {
            self.content_bytes -= held.item.content_cost();
        }
        held.item.redelivered |= self.recovered.was_out(held.item.sequence);
        let item = held.item;
        self.unsettled.insert(held);
        self.fetching.used();
        (item, content)
    }

    /// The message of an entry that is out with a consumer, where it is held.
    #[inline]
    pub(crate) fn content_out(&self, sequence: Sequence) -> Option<&Arc<Message>> {
        self.unsettled.get(sequence)?.content.as_ref()
    }

    /// Puts in an entry that goes out to a consumer at once. Its message comes with it where it
    /// cannot be had elsewhere.
    #[inline]
    pub(crate) fn insert_out(&mut self, item: Item, content: Option<Arc<Message>>) {
        if content.is_some() && item.is_stored() {
            self.content_bytes += item.content_cost();
        }
        self.unsettled.insert(Held::new(item, content));
    }

    fn count_out(&mut self, held: &Held) {
        self.ready_count -= 1;
        self.ready_bytes -= held.item.extent.body_bytes;
    }

    /// Puts an entry that was out back in its place.
    pub(crate) fn put_back(&mut self, sequence: Sequence) -> bool {
        let Some(held) = self.unsettled.remove(sequence) else {
            return false;
        };
        self.make_ready(held);
        true
    }

    /// As [`Index::put_back`], of one that went to nobody: it is as it was.
    pub(crate) fn put_back_unsent(&mut self, sequence: Sequence) -> bool {
        let Some(mut held) = self.unsettled.remove(sequence) else {
            return false;
        };
        held.asked = false;
        self.count_in(&held);
        self.expiry.note_returned(held.item.expires_at);
        self.returned.insert(sequence, held);
        true
    }

    /// Whether an entry went out to somebody, or may have before a crash; `None` where it is not
    /// there.
    pub(crate) fn was_sent(&mut self, sequence: Sequence) -> Option<bool> {
        if self.is_out(sequence) {
            return Some(true);
        }
        let (item, ..) = self.entry(sequence)?;
        Some(item.redelivered || self.recovered.was_out(sequence))
    }

    /// Gives a ready entry at the head its message, which is at hand.
    pub(crate) fn hold(&mut self, sequence: Sequence, content: Option<Arc<Message>>) {
        let found = fetch::find(&mut self.head, sequence);
        if let Some(held) = found.filter(|held| held.content.is_none()) {
            held.content = content;
            self.content_bytes += held.held_bytes();
        }
    }

    /// Ranges that cover every ready entry, and nothing that is out with a consumer or delayed.
    pub(crate) fn ready_ranges(&self) -> Ranges {
        let mut ranges = Ranges::new();
        let Some(head) = self.head() else {
            return ranges;
        };
        let returned = self.returned.last_key_value().map(|(last, _)| *last);
        let Some(last) = self.last_in_order().max(returned) else {
            return ranges;
        };
        let delayed = self.delayed.iter().flat_map(|delayed| delayed.iter());
        let out = self.unsettled.iter().chain(delayed);
        let mut out: Vec<Sequence> = out.map(Held::sequence).collect();
        out.retain(|sequence| (head.sequence..=last).contains(sequence));
        out.sort_unstable();
        let mut first = head.sequence.0;
        for sequence in out {
            if first < sequence.0 {
                ranges.push(Range {
                    first: Sequence(first),
                    last: Sequence(sequence.0 - 1),
                });
            }
            first = sequence.0 + 1;
        }
        if first <= last.0 {
            let first = Sequence(first);
            ranges.push(Range { first, last });
        }
        ranges
    }

    /// After recovery: entries below those sequences may have been delivered before the crash,
    /// each in its class. They ascend.
    /// So may those with one of `sent_bits` in their place that are there: all before `end`.
    pub(crate) fn recovered(&mut self, below: Vec<u64>, sent_bits: u64, end: u64) {
        let last = below.last().copied().unwrap_or_default();
        let is_one_class = class_start(Sequence(last)) == 0;
        self.recovered = Recovered {
            below: last,
            sent_bits,
            end,
            classes: (!is_one_class).then(|| below.into()),
        };
    }

    /// Whether that entry is out with a consumer.
    pub(crate) fn is_out(&self, sequence: Sequence) -> bool {
        self.unsettled.get(sequence).is_some()
    }

    /// Whether the journal has that entry, which is out with a consumer.
    pub(crate) fn is_durable(&self, unsettled: Sequence) -> bool {
        self.unsettled
            .get(unsettled)
            .is_some_and(|held| held.item.durable)
    }

    /// Takes in entries of a checkpoint.
    pub(crate) fn load(&mut self, packed: Packed, summary: PackedSummary) {
        let is_last = self
            .last_in_order()
            .is_some_and(|last| last < summary.first);
        if !is_last {
            for entry in packed.entries() {
                self.insert(Item::unpacked(entry, self.durable), None, 0);
            }
            return;
        }
        let page = Page::packed(packed, summary, &self.shelf);
        self.ready_count += page.count;
        self.ready_bytes += page.body_bytes;
        if page.expires_first.is_some() {
            for item in page.items(self.durable) {
                self.expiry.note(item.expires_at);
            }
        }
        self.seal_tail();
        self.pages.push_back(page);
    }

    /// The entries that the journal has: pages, shared, others, sorted, and a packed tail.
    pub(crate) fn freeze(&self) -> (Vec<Form>, Vec<Item>, Packing) {
        if !self.durable {
            return (Vec::new(), Vec::new(), Packing::default());
        }
        let plain = self.plain().map(|held| held.item);
        let mut plain: Vec<Item> = plain.filter(|item| item.durable).collect();
        plain.sort_unstable_by_key(|item| item.sequence);
        let pages = self.pages.iter().map(|page| page.form.clone()).collect();
        (pages, plain, self.packed_tail.clone())
    }

    /// Entries that are in no page and not packed.
    fn plain(&self) -> impl Iterator<Item = &Held> {
        (self.head.iter())
            .chain(&self.tail)
            .chain(self.returned.values())
            .chain(self.unsettled.iter())
            .chain(self.delayed.iter().flat_map(|delayed| delayed.iter()))
    }

    /// The records that entries need, as runs of consecutive ones, each once for each entry.
    pub(crate) fn needs(&self, each: &mut dyn FnMut(u64, u64)) {
        for page in &self.pages {
            match &page.form {
                Form::Packed(page) => page.needs(each),
                Form::Plain(entries) => entries.iter().for_each(|held| needs_of(&held.item, each)),
            }
        }
        for item in self.packed_tail_items() {
            needs_of(&item, each);
        }
        for held in self.plain() {
            needs_of(&held.item, each);
        }
    }

    /// Checks the sums; for tests.
    pub(crate) fn check_invariants(&self) {
        let ready: Vec<Item> = self.ready().collect();
        assert_eq!(self.ready_count, ready.len() as u64);
        let bytes: u64 = ready.iter().map(|item| item.extent.body_bytes).sum();
        assert_eq!(self.ready_bytes, bytes);
        assert!(ready.is_sorted_by(|a, b| a.sequence < b.sequence));
        let expires = ready.iter().filter_map(|item| self.expiry_of(item));
        let expires_first = expires.min();
        assert!(
            expires_first.is_none_or(|at| self.next_expiry().is_some_and(|bound| bound <= at)),
            "an entry would expire late"
        );
        assert!(!self.head.is_empty() || self.pages.is_empty() && self.tail_len() == 0);
        assert!(self.tail.is_empty() || self.packed_tail.is_empty());
        let plain: u64 = self.plain().map(Held::held_bytes).sum();
        let in_pages: u64 = self.pages.iter().map(|page| page.content_bytes).sum();
        assert_eq!(
            self.content_bytes,
            plain + in_pages,
            "content bytes are off"
        );
        self.check_pages();
        for page in &self.pages {
            let items: Vec<Item> = page.items(self.durable).collect();
            assert_eq!(page.count, items.len() as u64);
            assert_eq!(Some(page.first), items.first().map(|item| item.sequence));
            assert_eq!(Some(page.last), items.last().map(|item| item.sequence));
            let at = items.iter().filter_map(|item| item.expires_at).min();
            assert_eq!(page.expires_first, at);
        }
        for held in self.unsettled.iter() {
            assert!(!self.returned.contains_key(&held.sequence()));
            assert!(!ready.iter().any(|item| item.sequence == held.sequence()));
        }
    }
}

/// Bytes that a page takes beyond those of the packed tail that it was, at the most.
const TAIL_OVERHEAD_BYTES: u64 = 80;

/// The records that one entry needs.
pub(crate) fn needs_of(item: &Item, each: &mut dyn FnMut(u64, u64)) {
    if !item.is_stored() {
        return;
    }
    each(item.origin.index, 1);
    let chunks = item.extent.chunks;
    if chunks.count > 0 {
        each(chunks.first, chunks.count.into());
    }
}
