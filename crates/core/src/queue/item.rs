//! An entry as a queue holds it, and the message it may hold with it.

use std::sync::Arc;

use menzil_model::fact::{Extent, Origin, StoredEntry};
use menzil_model::{Message, Sequence};

use crate::effect::Wanted;

/// Memory that an entry and its message take beside the message's own bytes.
const HELD_OVERHEAD_BYTES: u64 = 250;

/// An entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) sequence: Sequence,
    /// Where the message was published; index 0 where the journal does not have it.
    pub(crate) origin: Origin,
    pub(crate) extent: Extent,
    pub(crate) expires_at: Option<u64>,
    /// The journal has the entry, not only the message.
    pub(crate) durable: bool,
    /// It went out before, or may have before a crash.
    pub(crate) redelivered: bool,
    /// Deliveries of it that failed, and how often it came back at all, where its queue counts.
    pub(crate) failed: u16,
    pub(crate) acquired: u16,
}

impl Item {
    /// An entry that was packed.
    pub(crate) fn unpacked(entry: StoredEntry, durable: bool) -> Self {
        Self {
            sequence: entry.sequence,
            origin: entry.origin,
            extent: entry.extent,
            expires_at: entry.expires_at,
            durable,
            redelivered: false,
            failed: 0,
            acquired: 0,
        }
    }

    /// What of it is packed.
    pub(crate) fn to_stored(self) -> StoredEntry {
        StoredEntry {
            sequence: self.sequence,
            origin: self.origin,
            extent: self.extent,
            expires_at: self.expires_at,
        }
    }

    /// What to ask the driver for, to have its message.
    pub(crate) fn wanted(&self) -> Wanted {
        Wanted {
            sequence: self.sequence,
            origin: self.origin,
            chunks: self.extent.chunks,
        }
    }

    /// Whether the message can be read from the journal.
    pub(crate) fn is_stored(&self) -> bool {
        self.origin.index != 0
    }

    /// Memory that its message takes.
    pub(crate) fn content_cost(&self) -> u64 {
        self.extent.total_bytes.saturating_add(HELD_OVERHEAD_BYTES)
    }
}

/// An entry with its message, where that is in memory.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) item: Item,
    /// Always there where the journal does not have it.
    pub(crate) content: Option<Arc<Message>>,
    /// The driver was asked for it.
    pub(crate) asked: bool,
}

impl Held {
    #[inline]
    pub(crate) fn new(item: Item, content: Option<Arc<Message>>) -> Self {
        Self {
            item,
            content,
            asked: false,
        }
    }

    pub(crate) fn sequence(&self) -> Sequence {
        self.item.sequence
    }

    /// Memory that letting its message go would give back: 0 where it is not here, or cannot be
    /// had elsewhere.
    #[inline]
    pub(crate) fn held_bytes(&self) -> u64 {
        match self.content {
            Some(_) if self.item.is_stored() => self.item.content_cost(),
            Some(_) | None => 0,
        }
    }

    /// Lets a message go that can be read again. Returns the memory that gives back.
    pub(crate) fn strip(&mut self) -> u64 {
        match self.take_content() {
            Some(_) => self.item.content_cost(),
            None => 0,
        }
    }

    /// Takes a message out that can be read again.
    #[inline]
    pub(crate) fn take_content(&mut self) -> Option<Arc<Message>> {
        self.content.take_if(|_| self.item.is_stored())
    }
}
