//! Entries that leave a queue, one, some, or nearly all.

use std::collections::VecDeque;

use menzil_model::Sequence;
use menzil_model::fact::Range;

use super::Index;
use crate::queue::item::{Held, Item};
use crate::queue::page::Page;
use crate::releases::Releases;
use crate::spare::Spare;

/// Is told what left.
pub(crate) trait Gone {
    /// An entry did.
    fn entry(&mut self, item: &Item);
    /// An entry that was not out did.
    fn held(&mut self, held: &Held) {
        self.entry(&held.item);
    }
    /// All entries of a page did.
    fn page(&mut self, page: Page);
}

/// Ranges, gone along while sequences ascend.
struct Cursor<'a> {
    rest: &'a [Range],
}

impl Cursor<'_> {
    /// The first range that does not end before `sequence`.
    fn reach(&mut self, sequence: Sequence) -> Option<Range> {
        while let Some((range, rest)) = self.rest.split_first() {
            if range.last >= sequence {
                return Some(*range);
            }
            self.rest = rest;
        }
        None
    }

    fn covers(&mut self, sequence: Sequence) -> bool {
        self.reach(sequence)
            .is_some_and(|range| range.first <= sequence)
    }
}

impl Index {
    /// Removes an entry, wherever it is. Mostly it is the first or the last that went out.
    pub(crate) fn remove(&mut self, sequence: Sequence, gone: &mut impl Gone) {
        if let Some(held) = self.unsettled.remove(sequence) {
            self.content_bytes -= held.held_bytes();
            gone.entry(&held.item);
            if self.is_idle() {
                self.give_room_back();
            }
            return;
        }
        if let Some(held) = self.take(sequence) {
            self.count_out(&held);
            self.content_bytes -= held.held_bytes();
            self.refill();
            gone.held(&held);
            return;
        }
        let one = Range {
            first: sequence,
            last: sequence,
        };
        self.remove_delayed(&[one], |held| gone.held(held));
    }

    /// Removes an entry that is out with a consumer. Tells whether the journal has it.
    #[inline]
    pub(crate) fn settle(
        &mut self,
        sequence: Sequence,
        releases: &mut Releases,
        spare: &mut Spare,
    ) -> Option<bool> {
        let content_bytes = &mut self.content_bytes;
        let durable = self.unsettled.remove_with(sequence, |held| {
            *content_bytes -= held.held_bytes();
            releases.entry(&held.item);
            spare.keep(held.content.take());
            held.item.durable
        })?;
        if self.is_idle() {
            self.give_room_back();
        }
        Some(durable)
    }

    /// Takes one ready entry out of the order.
    pub(super) fn take(&mut self, sequence: Sequence) -> Option<Held> {
        if let Some(held) = self.returned.remove(&sequence) {
            return Some(held);
        }
        if self.head.front()?.sequence() == sequence {
            return self.head.pop_front();
        }
        if self.head.back()?.sequence() >= sequence {
            return take_sorted(&mut self.head, sequence);
        }
        let at = self.pages.partition_point(|page| page.last < sequence);
        let Some(page) = self.pages.get(at) else {
            self.unpack_tail();
            return take_sorted(&mut self.tail, sequence);
        };
        if page.first > sequence {
            return None;
        }
        let mut taken = None;
        self.edit_page(at, |entries| {
            if let Ok(place) = entries.binary_search_by_key(&sequence, Held::sequence) {
                taken = Some(entries.remove(place));
            }
        });
        taken
    }

    /// Removes every entry of the ranges, which ascend. Pages that lie in a range go whole,
    /// and are not looked into.
    pub(crate) fn remove_ranges(&mut self, ranges: &[Range], gone: &mut impl Gone) {
        if let [Range { first, last }] = ranges
            && first == last
        {
            self.remove(*first, gone);
            return;
        }
        if !self.returned.is_empty() {
            self.remove_returned(ranges, gone);
        }
        self.remove_delayed(ranges, |held| gone.held(held));
        let mut left = Left::default();
        if self.unsettled.len() > 0 {
            let content_bytes = &mut self.content_bytes;
            self.unsettled.remove_ranges(ranges, |held| {
                *content_bytes -= held.held_bytes();
                gone.entry(&held.item);
            });
        }
        retain_outside(&mut self.head, ranges, &mut left, gone);
        self.yield_tail(ranges);
        self.remove_from_pages(ranges, &mut left, gone);
        retain_outside(&mut self.tail, ranges, &mut left, gone);
        self.count_left(&left);
        self.refill();
    }

    /// Removes every entry.
    pub(crate) fn clear(&mut self, gone: &mut impl Gone) {
        let all = Range {
            first: Sequence(0),
            last: Sequence(u64::MAX),
        };
        self.remove_ranges(&[all], gone);
    }

    /// Makes a packed tail something that can be removed from: a page where all of it goes, a
    /// list where some of it may.
    fn yield_tail(&mut self, ranges: &[Range]) {
        let first = self.packed_tail.entries().next();
        let (Some(first), Some(last)) = (first, self.packed_tail.last()) else {
            return;
        };
        let Some(range) = (Cursor { rest: ranges }).reach(first.sequence) else {
            return;
        };
        if range.first <= first.sequence && last <= range.last {
            self.seal_tail();
        } else if range.first <= last {
            self.unpack_tail();
        }
    }

    fn count_left(&mut self, left: &Left) {
        self.ready_count -= left.count;
        self.ready_bytes -= left.body_bytes;
        self.content_bytes -= left.content_bytes;
    }

    fn remove_returned(&mut self, ranges: &[Range], gone: &mut impl Gone) {
        let mut left = Left::default();
        for range in ranges {
            let inside = self.returned.range(range.first..=range.last);
            let inside: Vec<Sequence> = inside.map(|(sequence, _)| *sequence).collect();
            for sequence in inside {
                if let Some(held) = self.returned.remove(&sequence) {
                    left.note(&held);
                    gone.held(&held);
                }
            }
        }
        self.count_left(&left);
    }

    fn remove_from_pages(&mut self, ranges: &[Range], left: &mut Left, gone: &mut impl Gone) {
        let mut cursor = Cursor { rest: ranges };
        let mut at = 0;
        while let Some((first, last)) = self.pages.get(at).map(|page| (page.first, page.last)) {
            let Some(range) = cursor.reach(first) else {
                return;
            };
            if range.first > last {
                at = self.pages.partition_point(|page| page.last < range.first);
            } else if range.first <= first && last <= range.last {
                let end = self.pages.partition_point(|page| page.last <= range.last);
                for page in self.pages.drain(at..end) {
                    left.note_page(&page);
                    gone.page(page);
                }
            } else {
                let pages = self.pages.len();
                self.edit_page(at, |entries| {
                    entries.retain(|held| {
                        let goes = cursor.covers(held.sequence());
                        if goes {
                            left.note(held);
                            gone.held(held);
                        }
                        !goes
                    });
                });
                at += usize::from(self.pages.len() == pages);
            }
        }
    }

    /// Lets go of every message that can be read again.
    pub(crate) fn strip(&mut self) {
        if self.content_bytes == 0 {
            return;
        }
        let plain = self.head.iter_mut().chain(&mut self.tail);
        let stripped: u64 = plain
            .chain(self.returned.values_mut())
            .map(Held::strip)
            .sum();
        self.content_bytes -= stripped;
        self.fetching.forget();
        for page in &mut self.pages {
            if page.content_bytes == 0 {
                continue;
            }
            let mut entries = page.clone().open(self.durable);
            let stripped: u64 = entries.iter_mut().map(Held::strip).sum();
            if stripped == 0 {
                continue;
            }
            self.content_bytes -= stripped;
            if let Some(sealed) = Page::seal(entries, &self.shelf) {
                *page = sealed;
            }
        }
    }
}

/// What ready entries that left were together.
#[derive(Default)]
struct Left {
    count: u64,
    body_bytes: u64,
    content_bytes: u64,
}

impl Left {
    fn note(&mut self, held: &Held) {
        self.count += 1;
        self.body_bytes += held.item.extent.body_bytes;
        self.content_bytes += held.held_bytes();
    }

    fn note_page(&mut self, page: &Page) {
        self.count += page.count;
        self.body_bytes += page.body_bytes;
        self.content_bytes += page.content_bytes;
    }
}

fn take_sorted(list: &mut VecDeque<Held>, sequence: Sequence) -> Option<Held> {
    let at = list.binary_search_by_key(&sequence, Held::sequence).ok()?;
    list.remove(at)
}

fn retain_outside(
    list: &mut VecDeque<Held>,
    ranges: &[Range],
    left: &mut Left,
    gone: &mut impl Gone,
) {
    let (Some(first), Some(last)) = (list.front(), list.back()) else {
        return;
    };
    let mut cursor = Cursor { rest: ranges };
    if cursor
        .reach(first.sequence())
        .is_none_or(|range| range.first > last.sequence())
    {
        return;
    }
    list.retain(|held| {
        let goes = cursor.covers(held.sequence());
        if goes {
            left.note(held);
            gone.held(held);
        }
        !goes
    });
}
