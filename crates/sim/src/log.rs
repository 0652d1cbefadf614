//! The shard's way into the journal, where facts are lost, split and moved on purpose.

use menzil_core::Log;
use menzil_journal::Journal;
use menzil_model::fact::{Ranges, Why};
use menzil_model::{Fact, QueueId, ShardId};

use crate::disk::SimDisk;
use crate::sabotage::Sabotage;

/// The one shard of a node.
pub(crate) const SHARD: ShardId = ShardId(1);

/// Room that a publish must find: the largest that there is.
pub(crate) const ROOM_BYTES: u64 = 16 << 10;

/// See the module.
pub(crate) struct NodeLog<'a> {
    journal: &'a Journal<SimDisk>,
    sabotage: Option<Sabotage>,
    counter: u64,
    /// A fact held back by a planted bug.
    held: Option<Fact>,
}

impl<'a> NodeLog<'a> {
    pub(crate) fn new(journal: &'a Journal<SimDisk>, sabotage: Option<Sabotage>) -> Self {
        Self {
            journal,
            sabotage,
            counter: 0,
            held: None,
        }
    }

    fn write(&self, fact: &Fact) -> u64 {
        self.journal
            .append(SHARD, fact.class(), |bytes| fact.encode(bytes))
            .index
    }

    /// Writes the publish that was held back, behind a settle that should have followed it.
    pub(crate) fn let_go(&mut self, settle: Option<&Fact>) -> u64 {
        let Some(held) = self.held.take() else {
            return self.last();
        };
        let filler = Fact::Settled {
            queue: QueueId(0),
            ranges: Ranges::new(),
            why: Why::Acknowledged,
        };
        let index = self.write(settle.unwrap_or(&filler));
        self.write(&held);
        index
    }

    fn last(&self) -> u64 {
        self.journal.appended(SHARD)
    }

    fn is_lost(&mut self, fact: &Fact) -> bool {
        self.counter = self.last();
        match (self.sabotage, fact) {
            (Some(Sabotage::DeliveringLost), Fact::Delivering { .. }) => true,
            (Some(Sabotage::OverflowLost), Fact::Settled { why, .. }) => *why == Why::Overflow,
            (Some(Sabotage::PurgeLost), Fact::Settled { why, .. }) => *why == Why::Purged,
            (Some(Sabotage::SettleLost), Fact::Settled { why, .. }) => {
                *why == Why::Acknowledged && self.counter.is_multiple_of(4)
            }
            _ => false,
        }
    }

    fn altered(&mut self, fact: &Fact) -> Option<Vec<Fact>> {
        match (self.sabotage, fact) {
            (Some(Sabotage::GroupSplit), Fact::Group(facts)) => Some(facts.clone()),
            (Some(Sabotage::OverflowLost), Fact::Group(facts)) => {
                let kept: Vec<Fact> = facts.iter().filter(|f| !self.is_lost(f)).cloned().collect();
                Some(vec![Fact::Group(kept)])
            }
            (Some(Sabotage::FanOutSplit), Fact::Published(published)) => {
                let split = published.entries.iter().map(|entry| {
                    let mut one = published.clone();
                    one.entries = [*entry].into_iter().collect();
                    Fact::Published(one)
                });
                Some(split.collect())
            }
            (Some(Sabotage::ExpiryLost), Fact::Published(published)) => {
                let mut published = published.clone();
                for entry in &mut published.entries {
                    entry.expires_at = None;
                }
                Some(vec![Fact::Published(published)])
            }
            _ => None,
        }
    }
}

impl Log for NodeLog<'_> {
    fn append(&mut self, fact: &Fact) -> u64 {
        if self.is_lost(fact) {
            return self.last();
        }
        self.let_go(None);
        if let Some(facts) = self.altered(fact) {
            return facts.iter().map(|fact| self.write(fact)).last().unwrap_or(0);
        }
        if self.sabotage == Some(Sabotage::SettleBeforePublish) && is_inline(fact) {
            self.held = Some(fact.clone());
            return self.last() + 2;
        }
        self.write(fact)
    }

    fn append_lazy(&mut self, fact: &Fact) -> u64 {
        if self.is_lost(fact) {
            return self.last();
        }
        if self.held.is_some() {
            return self.let_go(Some(fact));
        }
        self.journal
            .append_lazy(SHARD, fact.class(), |bytes| fact.encode(bytes))
            .index
    }

    fn has_room(&self) -> bool {
        self.sabotage == Some(Sabotage::RoomIgnored) || self.journal.has_room(ROOM_BYTES)
    }
}

impl Drop for NodeLog<'_> {
    fn drop(&mut self) {
        self.let_go(None);
    }
}

/// A publish whose body is in its own record.
fn is_inline(fact: &Fact) -> bool {
    matches!(fact, Fact::Published(published) if published.extent.chunks.is_empty())
}
