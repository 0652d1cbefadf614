//! Entries that are gone and whose records the journal is not told of yet. It need not hear at
//! once: a record that is kept too long costs disk for a while, so what many entries at once
//! bring (a purge, a queue's deletion) is told in slices between other work.

use std::collections::VecDeque;

use crate::log::Log;
use crate::queue::{Amended, Form, Gone, Item, Page, needs_of};

/// Pages that are told of at once.
const PAGES_AT_ONCE: usize = 512;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Releases {
    /// The shard is in service; before, nobody is told.
    active: bool,
    /// Consecutive records, each needed by one entry less: the first, and how many.
    runs: Vec<(u64, u64)>,
    pages: VecDeque<Amended>,
}

impl Releases {
    /// From now on the journal counts.
    pub(crate) fn start(&mut self) {
        self.active = true;
    }

    /// One entry that needed these records is gone.
    fn add(&mut self, first: u64, count: u64) {
        match self.runs.last_mut() {
            Some(last) if last.0 + last.1 == first => last.1 += count,
            _ => self.runs.push((first, count)),
        }
    }

    /// An entry is gone.
    pub(crate) fn entry(&mut self, item: &Item) {
        if self.active {
            needs_of(item, &mut |first, count| self.add(first, count));
        }
    }

    fn page(&mut self, page: Page) {
        match page.form {
            Form::Packed(page) if self.active => self.pages.push_back(page),
            Form::Packed(_) => {}
            Form::Plain(entries) => entries.iter().for_each(|held| self.entry(&held.item)),
        }
    }

    /// Whether more is to be told than one call did.
    pub(crate) fn is_behind(&self) -> bool {
        !self.pages.is_empty()
    }

    /// Tells the journal.
    pub(crate) fn write(&mut self, log: &mut dyn Log) {
        let mut tell = |first, count| match count {
            1 => log.release(first, 1),
            _ => log.release_run(first, count),
        };
        for (first, count) in self.runs.drain(..) {
            tell(first, count);
        }
        let slice = self.pages.len().min(PAGES_AT_ONCE);
        for page in self.pages.drain(..slice) {
            page.needs(&mut tell);
        }
        if self.pages.is_empty() && self.pages.capacity() > PAGES_AT_ONCE {
            self.pages = VecDeque::new();
        }
    }
}

/// Entries of one queue that are gone: counted, and noted for the journal.
pub(crate) struct Counted<'a> {
    pub(crate) count: u64,
    pub(crate) releases: &'a mut Releases,
}

impl Gone for Counted<'_> {
    fn entry(&mut self, item: &Item) {
        self.count += 1;
        self.releases.entry(item);
    }

    fn page(&mut self, page: Page) {
        self.count += page.count;
        self.releases.page(page);
    }
}
