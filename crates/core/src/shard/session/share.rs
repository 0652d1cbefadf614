//! Shared subscriptions: groups of sessions that take from one queue.

use menzil_model::{Fact, QueueId};

use super::super::Shard;
use crate::slots::Place;
use crate::turn::Turn;

/// The groups of a shard.
#[derive(Debug, Default)]
pub(in super::super) struct Groups;

impl Shard {
    /// The session becomes a member of the groups that these subscriptions name.
    pub(super) fn join_groups(&mut self, _: &mut Turn<'_>, _: (QueueId, Place), _: &[Fact]) {}

    /// Its subscription with that filter is gone.
    pub(super) fn leave_group(&mut self, _: &mut Turn<'_>, _: (QueueId, Place), _: &[u8]) {}

    /// The session ends: what came to it from groups, and is not done with, goes back.
    pub(super) fn leave_groups(&mut self, _: &mut Turn<'_>, _: (QueueId, Place)) {}

    /// Groups whose queues are in the tree of subscriptions.
    pub(super) fn group_count(&self) -> usize {
        0
    }

    /// A member's client is there.
    pub(super) fn session_came(&mut self, _: QueueId) {}

    /// A member's client is gone.
    pub(super) fn session_left(&mut self, _: &mut Turn<'_>, _: QueueId) {}
}
