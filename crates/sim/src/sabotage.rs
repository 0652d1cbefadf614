//! Bugs that are planted on purpose, in the driver, the log and the disk around the real parts:
//! what the simulation is worth is which of them it finds (`PLANTED.md`).

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sabotage {
    /// The `fdatasync` of a commit returns without having done anything.
    SyncSkipped,
    /// Confirms go out without waiting for the commit.
    ConfirmEarly,
    /// A settle is written before the publishes that the same batch wrote ahead of it.
    SettleBeforePublish,
    /// A checkpoint holds what is not committed yet.
    CheckpointUncommitted,
    /// A checkpoint forgets some of the records that the state still needs.
    LiveSegmentRecycled,
    /// The mark of what may have been delivered is not written.
    DeliveringLost,
    /// What a length limit dropped is not written.
    OverflowLost,
    /// A group is written as one record for each of its facts.
    GroupSplit,
    /// A message for many queues is written as one record for each queue.
    FanOutSplit,
    /// A requeued message goes to the end of its queue.
    RequeueAtEnd,
    /// Now and then a settle is not written.
    SettleLost,
    /// Now and then recovery applies a settle or a publish twice, the second time as new.
    RecordTwice,
    /// A fetch is now and then answered with another message.
    FetchSwapped,
    /// A fetch now and then misses the last part of a large body.
    ChunkMissing,
    /// Purges are not written.
    PurgeLost,
    /// The expiry time of an entry is not written.
    ExpiryLost,
    /// After a failed sync the node goes on as if it had worked.
    FailedSyncIgnored,
    /// Publishes are taken though the disk has no room for them.
    RoomIgnored,
    /// A dead letter is written without the leaving of its queue.
    LetterKept,
    /// A dead letter leaves its queue, and its places are not written.
    LetterLost,
    /// What is evacuated is not synced before it counts.
    ColdUnsynced,
    /// A delayed message is written as due before its time.
    DelayEarly,
    /// A delayed message is sent on, and that it left its exchange is not written.
    DelayKept,
    /// A delayed message leaves its exchange, and its places are not written.
    DelayLost,
    /// A rejected message is given back without being counted.
    LimitIgnored,
    /// A message that is read from the journal has no headers, and so no group.
    GroupForgotten,
    /// The keys of what a queue deduplicates are not written.
    KeyLost,
    /// That a policy was set is not written.
    PolicyLost,
}

impl Sabotage {
    /// All of them.
    pub const ALL: [Self; 28] = [
        Self::SyncSkipped,
        Self::ConfirmEarly,
        Self::SettleBeforePublish,
        Self::CheckpointUncommitted,
        Self::LiveSegmentRecycled,
        Self::DeliveringLost,
        Self::OverflowLost,
        Self::GroupSplit,
        Self::FanOutSplit,
        Self::RequeueAtEnd,
        Self::SettleLost,
        Self::RecordTwice,
        Self::FetchSwapped,
        Self::ChunkMissing,
        Self::PurgeLost,
        Self::ExpiryLost,
        Self::FailedSyncIgnored,
        Self::RoomIgnored,
        Self::ColdUnsynced,
        Self::LetterKept,
        Self::LetterLost,
        Self::DelayEarly,
        Self::DelayKept,
        Self::DelayLost,
        Self::LimitIgnored,
        Self::GroupForgotten,
        Self::KeyLost,
        Self::PolicyLost,
    ];

    /// Whether it is one of how dead letters are written.
    pub(crate) fn is_of_letters(self) -> bool {
        matches!(self, Self::LetterKept | Self::LetterLost)
    }

    /// Whether it is one of how delayed messages are sent on.
    pub(crate) fn is_of_delays(self) -> bool {
        matches!(self, Self::DelayKept | Self::DelayLost)
    }

    /// The bug of that name, as `Debug` writes it.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|one| format!("{one:?}").eq_ignore_ascii_case(name))
    }
}
