//! Entries that are to go to the dead-letter exchange: nobody gets them any more, and the
//! journal still has them here. They wait for their message to be read, or for a queue that
//! refused it.
//!
//! Most that wait are few: what expires or is over a limit stays ready, and is not delivered,
//! until there is room. What consumers reject always finds room, as it was out before.

use std::collections::VecDeque;

use menzil_model::Sequence;

use crate::death::Reason;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Dying {
    line: VecDeque<(Sequence, Reason)>,
    /// None is tried before, in milliseconds since 1970.
    retry_at: Option<u64>,
    /// How many in a row were refused.
    refused: usize,
}

impl Dying {
    /// Entries that wait here before others may come, save for rejected ones.
    pub(crate) const MAX: usize = 512;

    /// How many more may come. Where a queue refuses them they may wait for long, and others
    /// behind them are not to wait for these.
    pub(crate) fn room(&self) -> usize {
        let most = match self.retry_at {
            Some(_) => REFUSED_MAX,
            None => Self::MAX,
        };
        most.saturating_sub(self.line.len())
    }

    pub(crate) fn len(&self) -> usize {
        self.line.len()
    }

    pub(crate) fn push(&mut self, sequence: Sequence, reason: Reason) {
        self.line.push_back((sequence, reason));
    }

    /// The one whose turn it is.
    pub(crate) fn front(&self) -> Option<(Sequence, Reason)> {
        self.line.front().copied()
    }

    /// It is gone.
    pub(crate) fn pop(&mut self) {
        self.line.pop_front();
        self.refused = 0;
    }

    /// It was refused and goes behind the others. True where enough were to wait for a while.
    pub(crate) fn put_off(&mut self, retry_at: u64) -> bool {
        if let Some(refused) = self.line.pop_front() {
            self.line.push_back(refused);
        }
        self.refused += 1;
        if self.refused >= self.line.len().min(REFUSED_AT_ONCE) {
            self.refused = 0;
            self.retry_at = Some(retry_at);
        }
        self.retry_at.is_some()
    }

    /// When they are to be tried again.
    pub(crate) fn retry_at(&self) -> Option<u64> {
        self.retry_at
    }

    /// Whether they may be tried now.
    pub(crate) fn is_due(&mut self, now: u64) -> bool {
        if self.retry_at.is_some_and(|at| at <= now) {
            self.retry_at = None;
        }
        self.retry_at.is_none()
    }

    /// A queue that refused has room again.
    pub(crate) fn retry(&mut self) {
        self.retry_at = None;
    }

    /// In the order of their turns.
    pub(crate) fn sequences(&self) -> impl Iterator<Item = Sequence> + '_ {
        self.line.iter().map(|(sequence, _)| *sequence)
    }
}

/// Entries in a row that are refused before all wait.
const REFUSED_AT_ONCE: usize = 32;

/// Entries that wait for a queue that refuses them.
const REFUSED_MAX: usize = 65_536;
