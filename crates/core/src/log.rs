//! The seam to the journal.

use menzil_model::Fact;
use menzil_model::fact::PublishedRef;

/// Where a shard writes its durable facts: the journal, or a stand-in in tests.
pub trait Log {
    /// Appends a fact and returns its index in the shard's order. The fact is not durable
    /// before the journal has committed that index. `references` is how many entries will need
    /// the record, to read a message or a part of one from it; each is released later.
    fn append(&mut self, fact: &Fact, references: u32) -> u64;

    /// As [`Log::append`] of a [`Fact::Published`], for a message that lies somewhere else.
    fn append_published(&mut self, published: &PublishedRef<'_>, references: u32) -> u64 {
        self.append(&published.to_fact(), references)
    }

    /// As [`Log::append`], for facts that nobody waits for (settles): they need no sync of
    /// their own and use the room that is reserved for them when the disk is full.
    fn append_lazy(&mut self, fact: &Fact) -> u64;

    /// Whether messages of that many bytes together may be appended. False while the disk is
    /// full: publishes that need the journal are refused.
    fn has_room(&self, bytes: u64) -> bool;

    /// That many entries that needed the record are gone.
    fn release(&mut self, index: u64, count: u32);

    /// One entry more needs each of `count` consecutive records, which others need whose release
    /// was not told: the opposite of [`Log::release_run`]. Entries made later by reference tell
    /// it, beside the record that says of them.
    fn retain_run(&mut self, first: u64, count: u64);

    /// As [`Log::release`], of one entry for each of `count` consecutive records.
    fn release_run(&mut self, first: u64, count: u64) {
        for index in (first..).take(usize::try_from(count).unwrap_or(usize::MAX)) {
            self.release(index, 1);
        }
    }
}
