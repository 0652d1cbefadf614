//! A page of a queue's middle: entries that nobody looks at for a while. Pages are shared with
//! frozen states and never changed in place.
//!
//! Invariant: there is at least one entry, sequences ascend, and the sums are those of the
//! entries.

use std::collections::VecDeque;
use std::sync::Arc;

use menzil_model::Sequence;
use menzil_model::fact::{Packed, PackedSummary};

use super::amended::Amended;
use super::item::{Held, Item};
use crate::scratch::Shelf;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    pub(crate) first: Sequence,
    pub(crate) last: Sequence,
    pub(crate) count: u64,
    pub(crate) body_bytes: u64,
    pub(crate) expires_first: Option<u64>,
    /// Memory that messages take which are here and can be read again.
    pub(crate) content_bytes: u64,
    pub(crate) form: Form,
}

/// How the entries are kept.
#[derive(Clone, Debug)]
pub(crate) enum Form {
    /// All can be read from the journal and none is here.
    Packed(Amended),
    /// Some have their message with them.
    Plain(Arc<Vec<Held>>),
}

impl Page {
    /// Puts entries away, as small as may be; `None` of none.
    pub(crate) fn seal(entries: Vec<Held>, shelf: &Arc<Shelf>) -> Option<Self> {
        if entries.iter().all(Self::is_packable) {
            let packed = Packed::pack(entries.iter().map(|held| held.item.to_stored()))?;
            let summary = packed.summary();
            return Some(Self::packed(packed, summary, shelf));
        }
        Self::plain(entries)
    }

    /// A page that stays a list; `None` of none.
    pub(crate) fn plain(entries: Vec<Held>) -> Option<Self> {
        Some(Self {
            first: entries.first()?.sequence(),
            last: entries.last()?.sequence(),
            count: entries.len() as u64,
            body_bytes: entries.iter().map(|e| e.item.extent.body_bytes).sum(),
            expires_first: entries.iter().filter_map(|e| e.item.expires_at).min(),
            content_bytes: entries.iter().map(Held::held_bytes).sum(),
            form: Form::Plain(Arc::new(entries)),
        })
    }

    /// Whether the journal alone has the message.
    pub(crate) fn is_packable(held: &Held) -> bool {
        held.content.is_none() && held.item.is_stored()
    }

    /// A page of a checkpoint.
    pub(crate) fn packed(packed: Packed, summary: PackedSummary, shelf: &Arc<Shelf>) -> Self {
        Self {
            first: summary.first,
            last: summary.last,
            count: summary.count,
            body_bytes: summary.body_bytes,
            expires_first: summary.expires_first,
            content_bytes: 0,
            form: Form::Packed(Amended::new(packed, shelf)),
        }
    }

    /// The entries. Those of a packed page are in the journal if their queue is: `durable`.
    pub(crate) fn open(mut self, durable: bool) -> Vec<Held> {
        self.take_entries(durable)
    }

    /// Takes the entries out, for who puts the page together anew.
    pub(crate) fn take_entries(&mut self, durable: bool) -> Vec<Held> {
        let count = usize::try_from(self.count).unwrap_or_default();
        match &mut self.form {
            Form::Packed(page) => {
                let mut entries = Vec::with_capacity(count);
                page.for_each(|entry| {
                    entries.push(Held::new(Item::unpacked(entry, durable), None));
                });
                entries
            }
            Form::Plain(entries) => Arc::unwrap_or_clone(std::mem::take(entries)),
        }
    }

    /// Puts the entries behind those of a list.
    pub(crate) fn open_behind(self, list: &mut VecDeque<Held>, durable: bool) {
        list.reserve(usize::try_from(self.count).unwrap_or_default());
        match self.form {
            Form::Packed(page) => page.for_each(|entry| {
                list.push_back(Held::new(Item::unpacked(entry, durable), None));
            }),
            Form::Plain(entries) => list.extend(Arc::unwrap_or_clone(entries)),
        }
    }

    /// The entries, to look at.
    pub(crate) fn items(&self, durable: bool) -> Box<dyn Iterator<Item = Item> + '_> {
        match &self.form {
            Form::Packed(page) => {
                let mut items = Vec::new();
                page.for_each(|entry| items.push(Item::unpacked(entry, durable)));
                Box::new(items.into_iter())
            }
            Form::Plain(entries) => Box::new(entries.iter().map(|held| held.item)),
        }
    }

    /// It is wanted soon.
    pub(crate) fn announce(&self) {
        if let Form::Packed(page) = &self.form {
            page.announce();
        }
    }
}
