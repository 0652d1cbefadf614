//! What a replay found for one queue, in order: pages of references, and messages that are
//! nowhere but in memory.

use std::collections::VecDeque;
use std::sync::Arc;

use menzil_model::fact::{Extent, Packed, StoredEntry};
use menzil_model::{Message, Sequence};

use crate::queue::Item;
use crate::scratch::{Shelf, Shelved};

/// A message that the journal does not have.
#[derive(Clone, Debug)]
pub(crate) struct Volatile {
    pub(crate) message: Arc<Message>,
    pub(crate) extent: Extent,
    pub(crate) expires_at: Option<u64>,
}

/// Neighbours of one kind.
#[derive(Debug)]
pub(crate) enum Piece {
    /// References, with sequences from 1.
    Stored(Shelved, u64),
    /// Messages.
    Volatile(Vec<Volatile>),
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Sealed ones.
    pieces: VecDeque<Piece>,
    /// What was found last, at the end that grows.
    open: VecDeque<(Item, Option<Arc<Message>>)>,
    count: u64,
}

impl Found {
    /// How many they are.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Adds one behind the others, or with `before` always before them.
    pub(crate) fn add(&mut self, item: Item, content: Option<Arc<Message>>, before: bool) {
        self.count += 1;
        let content = content.filter(|_| !item.is_stored());
        if before {
            self.open.push_front((item, content));
        } else {
            self.open.push_back((item, content));
        }
    }

    /// Seals what is open once it makes a page.
    pub(crate) fn seal_pages(&mut self, page_entries: usize, shelf: &Arc<Shelf>, before: bool) {
        if self.open.len() >= page_entries {
            self.seal(page_entries, shelf, before);
        }
    }

    /// Seals all that is open.
    pub(crate) fn seal(&mut self, page_entries: usize, shelf: &Arc<Shelf>, before: bool) {
        let mut pieces = Vec::new();
        let mut stored: Vec<Item> = Vec::new();
        let mut volatile: Vec<Volatile> = Vec::new();
        for (item, content) in std::mem::take(&mut self.open) {
            if let Some(message) = content {
                pieces.extend(pack(&mut stored, shelf));
                volatile.push(Volatile {
                    message,
                    extent: item.extent,
                    expires_at: item.expires_at,
                });
                continue;
            }
            if !volatile.is_empty() {
                pieces.push(Piece::Volatile(std::mem::take(&mut volatile)));
            }
            stored.push(item);
            if stored.len() >= page_entries {
                pieces.extend(pack(&mut stored, shelf));
            }
        }
        pieces.extend(pack(&mut stored, shelf));
        if !volatile.is_empty() {
            pieces.push(Piece::Volatile(volatile));
        }
        if before {
            pieces
                .into_iter()
                .rev()
                .for_each(|piece| self.pieces.push_front(piece));
        } else {
            self.pieces.extend(pieces);
        }
    }

    /// Adds all of another behind; both are sealed.
    pub(crate) fn append(&mut self, other: Self) {
        self.count += other.count;
        self.pieces.extend(other.pieces);
    }

    /// Keeps the first so many, as far as these bytes go; how many go. All is sealed.
    pub(crate) fn cut(&mut self, count: u64, bytes: u64, shelf: &Arc<Shelf>) -> u64 {
        let (mut kept, mut count, mut bytes) = (0, count, bytes);
        let mut fits = |extent: &Extent| {
            let fits = count > 0 && extent.body_bytes <= bytes;
            count = if fits { count - 1 } else { 0 };
            bytes = bytes.saturating_sub(extent.body_bytes);
            fits
        };
        let mut pieces = VecDeque::new();
        for piece in std::mem::take(&mut self.pieces) {
            match piece {
                Piece::Stored(page, _) => {
                    let packed = page.packed();
                    let entries = packed.entries();
                    let first: Vec<_> = entries.take_while(|entry| fits(&entry.extent)).collect();
                    let count = first.len() as u64;
                    kept += count;
                    let packed = Packed::pack(first.into_iter());
                    pieces.extend(packed.map(|packed| Piece::Stored(shelf.put(packed), count)));
                }
                Piece::Volatile(mut messages) => {
                    let first = messages.iter().take_while(|one| fits(&one.extent)).count();
                    messages.truncate(first);
                    kept += first as u64;
                    pieces.push_back(Piece::Volatile(messages));
                }
            }
        }
        self.pieces = pieces;
        let gone = self.count - kept;
        self.count = kept;
        gone
    }

    /// All of it, sealed.
    pub(crate) fn into_pieces(self) -> impl Iterator<Item = Piece> {
        self.pieces.into_iter()
    }
}

fn pack(stored: &mut Vec<Item>, shelf: &Arc<Shelf>) -> Option<Piece> {
    let count = stored.len() as u64;
    let numbered = (1..).zip(stored.drain(..));
    let packed = Packed::pack(numbered.map(|(sequence, item)| StoredEntry {
        sequence: Sequence(sequence),
        ..item.to_stored()
    }))?;
    Some(Piece::Stored(shelf.put(packed), count))
}
