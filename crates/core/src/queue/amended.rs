//! A packed page, and entries that were put between its own since then. To open a page and pack
//! it anew costs as much for one entry as for some, so the first few wait beside it.
//!
//! Invariant: none has the place of another.

use std::sync::Arc;

use menzil_model::fact::{Packed, Packing, StoredEntry};

use super::index::needs_of;
use super::item::Item;
use crate::scratch::{Shelf, Shelved};

/// Bytes that an entry takes in a packed page at the most, mostly.
pub(crate) const ENTRY_PACKED_BYTES: u64 = 24;

/// Bytes that a packed page takes beside its columns.
const PAGE_OVERHEAD_BYTES: u64 = 16;

/// See the module. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Amended {
    page: Shelved,
    /// In the order in which they came. Shared with frozen states.
    added: Option<Arc<Packing>>,
}

impl Amended {
    pub(crate) fn new(packed: Packed, shelf: &Arc<Shelf>) -> Self {
        Self {
            page: shelf.put(packed),
            added: None,
        }
    }

    /// Puts an entry beside the page.
    pub(crate) fn add(&mut self, entry: &StoredEntry) {
        Arc::make_mut(self.added.get_or_insert_default()).add(entry);
    }

    /// How many entries are beside the page.
    pub(crate) fn added_count(&self) -> usize {
        self.added.as_ref().map_or(0, |added| added.len())
    }

    fn added(&self) -> impl Iterator<Item = StoredEntry> {
        self.added.iter().flat_map(|added| added.entries())
    }

    /// Calls `each` with all entries, in order.
    pub(crate) fn for_each(&self, mut each: impl FnMut(StoredEntry)) {
        let mut added: Vec<StoredEntry> = self.added().collect();
        added.sort_unstable_by_key(|entry| entry.sequence);
        let mut added = added.into_iter().peekable();
        for entry in self.page.packed().entries() {
            while let Some(before) = added.next_if(|added| added.sequence < entry.sequence) {
                each(before);
            }
            each(entry);
        }
        added.for_each(each);
    }

    /// All entries as one page.
    pub(crate) fn packed(&self) -> Option<Packed> {
        if self.added.is_none() {
            return Some(self.page.packed());
        }
        let mut entries = Vec::new();
        self.for_each(|entry| entries.push(entry));
        Packed::pack(entries.into_iter())
    }

    /// As [`Packed::needs`], in no order.
    pub(crate) fn needs(&self, each: &mut dyn FnMut(u64, u64)) {
        self.page.packed().needs(each);
        for entry in self.added() {
            needs_of(&Item::unpacked(entry, true), each);
        }
    }

    /// Bytes that it takes as one page, about, wherever it is.
    pub(crate) fn bytes(&self) -> u64 {
        let added = self.added_count() as u64;
        self.page.bytes() + PAGE_OVERHEAD_BYTES + added * ENTRY_PACKED_BYTES
    }

    /// It is wanted soon.
    pub(crate) fn announce(&self) {
        self.page.announce();
    }
}
