//! Messages of entries near the head that are not in memory: what is to be read next, and what
//! came of it.
//!
//! A backlog is read in runs. The next one is asked for when half of the last is used up, so
//! that a consumer that keeps taking never waits for the disk.

use std::sync::Arc;

use menzil_model::{Message, Sequence};

use super::Index;
use crate::effect::Wanted;
use crate::queue::item::{Held, Item};

/// Where the message of the head is.
pub(crate) enum Body {
    /// In memory.
    Here,
    /// On its way.
    Asked,
    /// In the journal only.
    Away,
}

/// How far reading has come.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fetching {
    /// Runs that were asked for and not answered.
    underway: u32,
    /// Messages of the last run; 0 where nothing was read of late.
    run: u64,
    /// Of those that were read, how many have not gone out.
    left: u64,
}

impl Fetching {
    /// The head went out.
    pub(super) fn used(&mut self) {
        self.left = self.left.saturating_sub(1);
    }

    /// Messages that were read are here no more.
    pub(super) fn forget(&mut self) {
        self.left = 0;
    }
}

/// Most of one run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunMax {
    pub(crate) messages: usize,
    pub(crate) bytes: u64,
    /// None from here on.
    pub(crate) below: Sequence,
}

/// A run of messages that are being asked for.
pub(super) struct Asking {
    pub(super) wanted: Vec<Wanted>,
    room: u64,
}

impl Asking {
    pub(super) fn of(max: RunMax) -> Self {
        Self {
            wanted: Vec::new(),
            room: max.bytes,
        }
    }

    /// Asks for the message of an entry, if it is not here or asked for. False where the run has
    /// no room for it.
    pub(super) fn ask(&mut self, held: &mut Held) -> bool {
        if held.content.is_some() || held.asked {
            return true;
        }
        let bytes = held.item.extent.total_bytes;
        if bytes > self.room && !self.wanted.is_empty() {
            return false;
        }
        self.room = self.room.saturating_sub(bytes);
        held.asked = true;
        self.wanted.push(held.item.wanted());
        true
    }
}

impl Index {
    /// The next entry to go out, and where its message is.
    #[inline]
    pub(crate) fn next(&self) -> Option<(&Item, Body)> {
        let held = self.next_held()?;
        let body = match &held.content {
            Some(_) => Body::Here,
            None if held.asked => Body::Asked,
            None => Body::Away,
        };
        Some((&held.item, body))
    }

    /// The next entries to go out, in order, as long as their messages are in memory.
    pub(crate) fn here(&self) -> impl Iterator<Item = &Item> {
        let mut front = self.head.iter().peekable();
        let mut returned = self.returned.values().peekable();
        let next = std::iter::from_fn(move || match (front.peek(), returned.peek()) {
            (Some(f), Some(r)) if r.sequence() < f.sequence() => returned.next(),
            (Some(_), _) => front.next(),
            (None, _) => returned.next(),
        });
        let here = next.take_while(|held| held.content.is_some());
        here.map(|held| &held.item)
    }

    /// Whether the next run is to be asked for.
    pub(crate) fn runs_low(&self) -> bool {
        self.fetching.run > 0 && self.fetching.underway == 0 && self.is_half_used()
    }

    /// A run was asked for beside those of the head.
    pub(super) fn note_asked(&mut self, wanted: &[Wanted]) {
        self.fetching.underway += u32::from(!wanted.is_empty());
    }

    fn is_half_used(&self) -> bool {
        self.fetching.left <= self.fetching.run / 2
    }

    /// The next messages that are not in memory, in order; they count as asked for.
    pub(crate) fn ask(&mut self, max: RunMax) -> Vec<Wanted> {
        let ahead = usize::try_from(self.fetching.left).unwrap_or(usize::MAX);
        self.open_pages(ahead.saturating_add(max.messages));
        let mut asking = Asking::of(max);
        asking.wanted.reserve(self.head.len().min(max.messages));
        let mut front = self.head.iter_mut().peekable();
        let mut returned = self.returned.values_mut().peekable();
        loop {
            let is_returned = match (front.peek(), returned.peek()) {
                (Some(f), Some(r)) => r.sequence() < f.sequence(),
                (front, _) => front.is_none(),
            };
            let next = if is_returned {
                returned.next()
            } else {
                front.next()
            };
            let Some(held) = next.filter(|_| asking.wanted.len() < max.messages) else {
                break;
            };
            if held.sequence() >= max.below {
                break;
            }
            if !asking.ask(held) {
                break;
            }
        }
        let wanted = asking.wanted;
        self.fetching.underway += u32::from(!wanted.is_empty());
        self.fetching.run = wanted.len() as u64;
        wanted
    }

    /// Opens pages, and a packed tail, until the head has that many entries; it stays within two
    /// runs and a page.
    fn open_pages(&mut self, count: usize) {
        let most = 2 * self.page_entries.max(super::between::HEAD_ENTRIES);
        while self.head.len() < count.min(most) {
            let Some(page) = self.pages.pop_front() else {
                self.open_tail();
                return;
            };
            page.open_behind(&mut self.head, self.durable);
            if let Some(later) = self.pages.get(super::PAGES_AHEAD) {
                later.announce();
            }
        }
    }

    /// A run was answered.
    pub(crate) fn answered(&mut self) {
        self.fetching.underway = self.fetching.underway.saturating_sub(1);
    }

    /// Takes in a message that was read. False where nobody waits for it any more.
    pub(crate) fn provide(&mut self, sequence: Sequence, content: Option<Arc<Message>>) -> bool {
        let held = match self.returned.get_mut(&sequence) {
            Some(held) => Some(held),
            None => find(&mut self.head, sequence),
        };
        let Some(held) = held.filter(|held| held.asked) else {
            return self.provide_dying(sequence, content);
        };
        held.asked = false;
        if content.is_some() && held.content.is_none() {
            held.content = content;
            self.content_bytes += held.held_bytes();
            self.fetching.left += 1;
        }
        true
    }
}

pub(super) fn find(
    list: &mut std::collections::VecDeque<Held>,
    sequence: Sequence,
) -> Option<&mut Held> {
    let first = list.front()?.sequence();
    // Where none has left from between, it is as far behind as its number says.
    let likely = usize::try_from(sequence.0.checked_sub(first.0)?).ok()?;
    let at = match list.get(likely) {
        Some(held) if held.sequence() == sequence => likely,
        _ => list.binary_search_by_key(&sequence, Held::sequence).ok()?,
    };
    list.get_mut(at)
}
