//! The shard's way into the journal, where facts are lost, split and moved on purpose.

use menzil_core::Log;
use menzil_journal::Journal;
use menzil_model::fact::{Ranges, Why};
use menzil_model::{Fact, QueueId, ShardId};

use crate::disk::SimDisk;
use crate::prng::Prng;
use crate::sabotage::Sabotage;

/// The one shard of a node.
pub(crate) const SHARD: ShardId = ShardId(1);

/// See the module.
pub(crate) struct NodeLog<'a> {
    journal: &'a Journal<SimDisk>,
    sabotage: Option<Sabotage>,
    /// Decides when the writer takes what is pending: between any two appends.
    prng: &'a mut Prng,
    /// As in [`crate::node::NodeSettings`].
    room_bytes: Option<u64>,
    /// It did.
    pub(crate) has_committed: bool,
    /// A fact held back by a planted bug.
    held: Option<Fact>,
}

impl<'a> NodeLog<'a> {
    pub(crate) fn new(
        journal: &'a Journal<SimDisk>,
        sabotage: Option<Sabotage>,
        room_bytes: Option<u64>,
        prng: &'a mut Prng,
    ) -> Self {
        Self {
            journal,
            sabotage,
            prng,
            room_bytes,
            has_committed: false,
            held: None,
        }
    }

    fn write(&mut self, fact: &Fact, references: u32) -> u64 {
        let position = self
            .journal
            .append(SHARD, fact.class(), references, |bytes| fact.encode(bytes));
        self.commit_sometimes();
        position.index
    }

    /// As the writer's thread might, in the middle of a batch. A failure shows at the next
    /// commit.
    fn commit_sometimes(&mut self) {
        if self.prng.one_in(16) {
            self.has_committed |= self.journal.step().is_ok();
        }
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
        let index = self.write(settle.unwrap_or(&filler), 0);
        self.write(&held, 1);
        index
    }

    fn last(&self) -> u64 {
        self.journal.appended(SHARD)
    }

    fn is_lost(&self, fact: &Fact) -> bool {
        match (self.sabotage, fact) {
            (Some(Sabotage::DeliveringLost), Fact::Delivering { .. })
            | (Some(Sabotage::PolicyLost), Fact::PolicySet(_)) => true,
            (Some(Sabotage::OverflowLost), Fact::Settled { why, .. }) => *why == Why::Overflow,
            (Some(Sabotage::PurgeLost), Fact::Settled { why, .. }) => *why == Why::Purged,
            (Some(Sabotage::SettleLost), Fact::Settled { why, .. }) => {
                *why == Why::Acknowledged && self.last().is_multiple_of(4)
            }
            _ => false,
        }
    }

    fn altered(&self, fact: &Fact) -> Option<Vec<Fact>> {
        match (self.sabotage, fact) {
            (Some(Sabotage::GroupSplit), Fact::Group(facts)) => {
                let is_publish = |fact: &&Fact| matches!(fact, Fact::Published(_));
                let (publishes, others): (Vec<_>, Vec<_>) = facts.iter().partition(is_publish);
                // The names of several messages hang on their places in the group.
                (publishes.len() < 2)
                    .then(|| others.into_iter().chain(publishes).cloned().collect())
            }
            (Some(bug), Fact::Group(facts)) if bug.is_of_letters() => {
                letter(bug, facts).map(|facts| vec![Fact::Group(facts)])
            }
            (Some(bug), Fact::Group(facts)) if bug.is_of_delays() => {
                sent_on(bug, facts).map(|facts| vec![Fact::Group(facts)])
            }
            (Some(Sabotage::DelayEarly), Fact::Published(published)) => {
                let mut published = published.clone();
                for entry in &mut published.entries {
                    if entry.queue.is_store() {
                        entry.sequence.0 -= EARLY_MS << 22;
                    }
                }
                Some(vec![Fact::Published(published)])
            }
            (Some(Sabotage::KeyLost), Fact::Published(published)) => {
                let mut published = published.clone();
                published.keys = None;
                Some(vec![Fact::Published(published)])
            }
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
    fn append(&mut self, fact: &Fact, references: u32) -> u64 {
        if self.is_lost(fact) {
            return self.last();
        }
        self.let_go(None);
        if let Some(facts) = self.altered(fact) {
            return facts
                .iter()
                .map(|fact| self.write(fact, references))
                .last()
                .unwrap_or(0);
        }
        if self.sabotage == Some(Sabotage::SettleBeforePublish) && is_inline(fact) {
            self.held = Some(fact.clone());
            return self.last() + 2;
        }
        self.write(fact, references)
    }

    fn append_lazy(&mut self, fact: &Fact) -> u64 {
        if self.is_lost(fact) {
            return self.last();
        }
        if self.held.is_some() {
            return self.let_go(Some(fact));
        }
        let position = self
            .journal
            .append_lazy(SHARD, fact.class(), |bytes| fact.encode(bytes));
        self.commit_sometimes();
        position.index
    }

    fn release(&mut self, index: u64, count: u32) {
        self.journal.batch().release(SHARD, index, count);
    }

    fn release_run(&mut self, first: u64, count: u64) {
        self.journal.batch().release_run(SHARD, first, count);
    }

    fn retain_run(&mut self, first: u64, count: u64) {
        self.journal.batch().retain_run(SHARD, first, count);
    }

    fn has_room(&self, bytes: u64) -> bool {
        self.sabotage == Some(Sabotage::RoomIgnored)
            || (self.room_bytes).is_none_or(|room| self.journal.has_room(room.max(bytes)))
    }
}

impl Drop for NodeLog<'_> {
    fn drop(&mut self) {
        self.let_go(None);
    }
}

/// The record of a dead letter as a planted bug writes it; `None` where it is none.
fn letter(bug: Sabotage, facts: &[Fact]) -> Option<Vec<Fact>> {
    let [
        Fact::Published(published),
        settled @ Fact::Settled { why, .. },
    ] = facts
    else {
        return None;
    };
    let dies = [
        Why::Expired,
        Why::Rejected,
        Why::Overflow,
        Why::DeliveryLimit,
    ];
    if !dies.contains(why) {
        return None;
    }
    let mut published = published.clone();
    if bug == Sabotage::LetterKept {
        return Some(vec![Fact::Published(published)]);
    }
    published.entries.clear();
    Some(vec![Fact::Published(published), settled.clone()])
}

/// The record of a delayed message that is sent on, as a planted bug writes it; `None` where it
/// is none.
fn sent_on(bug: Sabotage, facts: &[Fact]) -> Option<Vec<Fact>> {
    let [
        Fact::Published(published),
        settled @ Fact::Settled { queue, .. },
    ] = facts
    else {
        return None;
    };
    if !queue.is_store() {
        return None;
    }
    let mut published = published.clone();
    if bug == Sabotage::DelayKept {
        return Some(vec![Fact::Published(published)]);
    }
    published.entries.clear();
    Some(vec![Fact::Published(published), settled.clone()])
}

/// How much too early a planted bug has delayed messages come, in milliseconds.
const EARLY_MS: u64 = 600;

/// A publish whose body is in its own record.
fn is_inline(fact: &Fact) -> bool {
    matches!(fact, Fact::Published(published) if published.extent.chunks.count == 0)
}
