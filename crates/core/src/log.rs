//! The seam to the journal.

use menzil_model::Fact;

/// Where a shard writes its durable facts: the journal, or a stand-in in tests.
pub trait Log {
    /// Appends a fact and returns its index in the shard's order. The fact is not durable
    /// before the journal has committed that index. `references` is how many durable entries
    /// will need the content of this record: 0 for all but publishes and chunks.
    fn append(&mut self, fact: &Fact, references: u32) -> u64;

    /// As [`Log::append`], for facts that nobody waits for (settles): they need no sync of
    /// their own and use the room that is reserved for them when the disk is full.
    fn append_lazy(&mut self, fact: &Fact) -> u64;

    /// Whether messages of that many bytes together may be appended. False while the disk is
    /// full: publishes that need the journal are refused.
    fn has_room(&self, bytes: u64) -> bool;

    /// So many that needed the content of the record are gone. What caused it is appended
    /// before.
    fn release(&mut self, index: u64, count: u32);
}
