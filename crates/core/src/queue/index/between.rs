//! Entries that go before others: the middle of the order.
//!
//! Where a sequence is a place (a priority, a time that is due) entries come in any order, but
//! often to few spots: the end of each priority, or some seconds from now. So the first few that
//! come to a page wait beside it, and the next one opens it: it becomes a plain list and stays
//! that for those that follow. The page that was longest without is packed again. Where they come
//! to any place a page is opened once for those few. A page that gets too large is split: where
//! it grows at one spot just behind that, so that full pages are left behind, else in half.

use std::collections::VecDeque;
use std::sync::Arc;

use menzil_model::Sequence;

use super::Index;
use crate::queue::item::Held;
use crate::queue::page::{Form, Page};

/// Entries that open pages may have together, beside the last one.
const OPEN_ENTRIES_MAX: u64 = 2048;

/// Pages that may be open.
const OPEN_PAGES_MAX: usize = 32;

/// Of the entries of a page, which share may wait beside it: what they take is memory that stays
/// taken while nothing comes.
const BESIDE_SHARE: usize = 8;

/// Entries that may wait beside the smallest page.
const BESIDE_LEAST: usize = 2;

/// Entries that the head may be asked to hold, whatever the size of a page: what two runs of
/// fetching open.
pub(super) const HEAD_ENTRIES: usize = 512;

/// A page that is open, or was: it may be gone or packed.
#[derive(Clone, Copy, Debug)]
struct Spot {
    /// The last entry of the page.
    last: Sequence,
    /// The entry that came last.
    newest: Sequence,
}

/// The pages that are open; the one that took the last entry stands last.
#[derive(Debug, Default)]
pub(super) struct Opened(Vec<Spot>);

impl Opened {
    fn take(&mut self, last: Sequence) -> Option<Spot> {
        let at = self.0.iter().rposition(|spot| spot.last == last)?;
        Some(self.0.remove(at))
    }
}

impl Index {
    #[cold]
    pub(super) fn insert_between(&mut self, held: Held) {
        let sequence = held.sequence();
        let is_in_head = |last: &Held| last.sequence() >= sequence;
        if self.head.back().is_some_and(is_in_head) {
            insert_sorted(&mut self.head, held);
            self.cut_head();
            return;
        }
        let at = self.pages.partition_point(|page| page.last < sequence);
        if at < self.pages.len() {
            self.insert_into_page(at, held);
            return;
        }
        self.unpack_tail();
        insert_sorted(&mut self.tail, held);
        if self.tail.len() >= self.page_entries {
            self.seal_tail();
        }
    }

    /// A head that grows goes back to pages, all but what goes out soon.
    fn cut_head(&mut self) {
        let keep = 2 * self.page_entries.max(HEAD_ENTRIES);
        if self.head.len() < 2 * keep {
            return;
        }
        while self.head.len() > keep {
            let at = keep.max(self.head.len() - self.page_entries);
            let mut entries: Vec<Held> = self.head.split_off(at).into();
            // Their messages may be under way: they will not be found here any more.
            for held in &mut entries {
                held.asked = false;
            }
            if let Some(page) = Page::seal(entries, &self.shelf) {
                self.pages.push_front(page);
            }
        }
        self.head.shrink_to(2 * keep);
    }

    /// Puts an entry into the page `at`, before whose last it goes, or behind the last of the one
    /// before, if that is open and grows there.
    fn insert_into_page(&mut self, at: usize, held: Held) {
        let (entries_max, sequence) = (2 * self.page_entries, held.sequence());
        let beside_max = (self.page_entries / BESIDE_SHARE).max(BESIDE_LEAST);
        let is_behind = (self.pages.get(at)).is_some_and(|page| page.first > sequence);
        let before = at.checked_sub(1).filter(|_| is_behind);
        let has_room = |at: &usize| {
            let page = self.pages.get(*at);
            page.is_some_and(|page| page.is_open() && page.count < entries_max as u64)
        };
        let at = before.filter(has_room).unwrap_or(at);
        let mut opened = self.opened.take().unwrap_or_default();
        let Some(page) = self.pages.get_mut(at) else {
            return;
        };
        let known = opened.take(page.last);
        if known.is_none() {
            if page.count < entries_max as u64 && page.has_room_beside(&held, beside_max) {
                page.add_beside(&held);
                self.opened = Some(opened);
                return;
            }
            self.close_some(&mut opened.0);
        }
        let Some(page) = self.pages.get_mut(at) else {
            return;
        };
        let place = page.insert(held, self.durable);
        let mut last = page.last;
        if page.count > entries_max as u64 {
            let grows_here = known.is_some_and(|spot| page.count_up_to(spot.newest) == place);
            let (cut, closes_front) = if grows_here {
                (place + 1, place + 1 >= self.page_entries)
            } else {
                (self.page_entries, true)
            };
            last = self.split_page(at, cut, closes_front).unwrap_or(last);
        }
        opened.0.push(Spot {
            last,
            newest: sequence,
        });
        self.opened = Some(opened);
    }

    /// The first `cut` entries become a page of their own; it or the other stays open. Returns
    /// the last entry of that one.
    fn split_page(&mut self, at: usize, cut: usize, closes_front: bool) -> Option<Sequence> {
        let page = self.pages.get_mut(at)?;
        let mut front = page.take_entries(self.durable);
        let back = front.split_off(cut);
        let (front, back) = if closes_front {
            (Page::seal(front, &self.shelf)?, Page::plain(back)?)
        } else {
            (Page::plain(front)?, Page::seal(back, &self.shelf)?)
        };
        let open = if closes_front { back.last } else { front.last };
        *page = back;
        self.pages.insert(at, front);
        Some(open)
    }

    /// Packs what was longest without a new entry, until there is room for one more open page.
    /// Pages stay where they are.
    fn close_some(&mut self, opened: &mut Vec<Spot>) {
        let count_of = |spot: &Spot| {
            let page = open_page(&self.pages, spot.last).and_then(|at| self.pages.get(at));
            page.map_or(0, |page| page.count)
        };
        let mut entries: u64 = opened.iter().map(count_of).sum();
        let closing = opened.iter().zip(0..).take_while(|(spot, closed)| {
            let is_enough = entries <= OPEN_ENTRIES_MAX && opened.len() - closed < OPEN_PAGES_MAX;
            entries -= count_of(spot);
            !is_enough
        });
        let closing = closing.count();
        for spot in opened.drain(..closing) {
            if let Some(at) = open_page(&self.pages, spot.last) {
                self.edit_page(at, |_| {});
            }
        }
    }

    /// Whether no more than a few pages are lists that could be packed; for tests.
    pub(super) fn check_pages(&self) {
        let is_open = |page: &&Page| match &page.form {
            Form::Packed(_) => false,
            Form::Plain(entries) => entries.iter().all(Page::is_packable),
        };
        let known = self.opened.as_ref().map_or(&[][..], |opened| &opened.0);
        for page in self.pages.iter().filter(is_open) {
            assert!(known.iter().any(|spot| spot.last == page.last));
        }
        assert!(known.len() <= OPEN_PAGES_MAX);
        let entries_max = 2 * self.page_entries as u64;
        assert!(self.pages.iter().all(|page| page.count <= entries_max));
        let beside_max = (self.page_entries / BESIDE_SHARE).max(BESIDE_LEAST);
        for page in &self.pages {
            if let Form::Packed(page) = &page.form {
                assert!(page.added_count() <= beside_max);
            }
        }
    }
}

/// Where the open page with that last entry is.
fn open_page(pages: &VecDeque<Page>, last: Sequence) -> Option<usize> {
    let at = pages.partition_point(|page| page.last < last);
    let page = pages.get(at).filter(|page| page.last == last)?;
    page.is_open().then_some(at)
}

fn insert_sorted(list: &mut VecDeque<Held>, held: Held) {
    let sequence = held.sequence();
    let at = list.partition_point(|other| other.sequence() < sequence);
    list.insert(at, held);
}

impl Page {
    fn is_open(&self) -> bool {
        matches!(self.form, Form::Plain(_))
    }

    /// Entries of an open page up to that one.
    fn count_up_to(&self, sequence: Sequence) -> usize {
        match &self.form {
            Form::Packed(_) => 0,
            Form::Plain(entries) => entries.partition_point(|held| held.sequence() <= sequence),
        }
    }

    /// Whether the entry can wait beside a page that is packed.
    fn has_room_beside(&self, held: &Held, most: usize) -> bool {
        match &self.form {
            Form::Packed(page) => page.added_count() < most && Self::is_packable(held),
            Form::Plain(_) => false,
        }
    }

    /// Puts an entry beside the page.
    fn add_beside(&mut self, held: &Held) {
        self.count_in(held);
        if let Form::Packed(page) = &mut self.form {
            page.add(&held.item.to_stored());
        }
    }

    fn count_in(&mut self, held: &Held) {
        self.count += 1;
        self.body_bytes += held.item.extent.body_bytes;
        self.content_bytes += held.held_bytes();
        let expiries = [self.expires_first, held.item.expires_at];
        self.expires_first = expiries.into_iter().flatten().min();
        self.first = self.first.min(held.sequence());
        self.last = self.last.max(held.sequence());
    }

    /// Puts an entry in; the page becomes a list. Returns the entry's place.
    fn insert(&mut self, held: Held, durable: bool) -> usize {
        self.count_in(&held);
        self.make_plain(durable);
        let Form::Plain(entries) = &mut self.form else {
            return 0;
        };
        let entries = Arc::make_mut(entries);
        let sequence = held.sequence();
        let place = entries.partition_point(|other| other.sequence() < sequence);
        entries.insert(place, held);
        place
    }

    fn make_plain(&mut self, durable: bool) {
        if matches!(self.form, Form::Packed(_)) {
            let entries = self.take_entries(durable);
            self.form = Form::Plain(Arc::new(entries));
        }
    }
}
