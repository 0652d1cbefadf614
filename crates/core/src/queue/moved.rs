//! Which entries came by a move whose record may not be committed yet.
//!
//! Until it is, a crash leaves the message where it was: it would be moved again, and be delivered
//! from here again as if for the first time. So the delivery waits for that record. A publish that
//! a crash loses comes from nowhere again, and waits for nothing.

use super::item::Item;

/// The last such records of a queue. Entries that came by earlier ones may wait too, for their
/// own.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moved {
    /// By which entries came that the journal has; it is their origin.
    durable: u64,
    /// By which others left a place where they were durable.
    transient: u64,
}

impl Moved {
    /// Notes the record of a move; `durable` says whether it has the entry that came.
    pub(crate) fn note(&mut self, durable: bool, index: u64) {
        let last = if durable {
            &mut self.durable
        } else {
            &mut self.transient
        };
        *last = index.max(*last);
    }

    /// The index that entries wait for which the journal does not have.
    pub(crate) fn transient(&self) -> u64 {
        self.transient
    }

    /// The index that the delivery of an entry waits for because of how it came.
    #[inline]
    pub(crate) fn waits_for(&self, item: &Item) -> u64 {
        if !item.durable {
            self.transient
        } else if item.origin.index <= self.durable {
            item.origin.index
        } else {
            0
        }
    }
}
