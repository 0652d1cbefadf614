//! Entries that are to go to the dead-letter exchange: nobody gets them any more, and the
//! journal still has them here. They wait for their message to be read, or for a queue that
//! refused it. What has to wait for that is written down, with its reason: after a restart it
//! waits again. Most are gone at once, and nothing is written of them but that.
//!
//! What was refused stands apart, so that one full queue holds nothing back that goes elsewhere.
//! From time to time the first of it is tried: if that is taken, all of it goes before the others
//! again, in its order.
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
    /// The last of these, of which nothing is written.
    fresh: usize,
    /// Those that were refused.
    refused_line: VecDeque<(Sequence, Reason)>,
    /// The front one is the first of those that were refused.
    is_trial: bool,
    /// None is tried before, in milliseconds since 1970.
    retry_at: Option<u64>,
    /// As that, for what was refused last, if the others are gone before.
    retry_later: u64,
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
        most.saturating_sub(self.len())
    }

    pub(crate) fn len(&self) -> usize {
        self.line.len() + self.refused_line.len()
    }

    pub(crate) fn push(&mut self, sequence: Sequence, reason: Reason) {
        self.line.push_back((sequence, reason));
        self.fresh += 1;
    }

    /// One of which is written that it waits.
    pub(crate) fn push_noted(&mut self, sequence: Sequence, reason: Reason) {
        debug_assert_eq!(self.fresh, 0, "those that are written come first");
        self.line.push_back((sequence, reason));
    }

    /// Those of which nothing is written, if all have to wait; they are to be written then.
    pub(crate) fn note_waiting(&mut self) -> impl Iterator<Item = (Sequence, Reason)> + '_ {
        let noted = match self.retry_at {
            Some(_) => self.note_all(),
            None => self.line.len(),
        };
        self.line.range(noted..).copied()
    }

    /// Those of which nothing is written; they are to be written then.
    pub(crate) fn note(&mut self) -> impl Iterator<Item = (Sequence, Reason)> + '_ {
        let noted = self.note_all();
        self.line.range(noted..).copied()
    }

    fn note_all(&mut self) -> usize {
        let noted = self.line.len().saturating_sub(self.fresh);
        self.fresh = 0;
        noted
    }

    /// After a start: the others are gone. All are noted then.
    pub(crate) fn retain(&mut self, is_here: impl Fn(Sequence) -> bool) {
        self.line.retain(|(sequence, _)| is_here(*sequence));
    }

    /// In the order of their turns, those of which is written that they wait.
    pub(crate) fn noted(&self) -> impl Iterator<Item = (Sequence, Reason)> + '_ {
        let noted = self.line.len().saturating_sub(self.fresh);
        let trial = usize::from(self.is_trial).min(noted);
        let first = self.line.range(..trial).chain(&self.refused_line);
        first.chain(self.line.range(trial..noted)).copied()
    }

    /// The one whose turn it is.
    pub(crate) fn front(&self) -> Option<(Sequence, Reason)> {
        self.line.front().copied()
    }

    /// It is gone.
    pub(crate) fn pop(&mut self) {
        self.line.pop_front();
        self.fresh = self.fresh.min(self.line.len());
        self.refused = 0;
        if std::mem::take(&mut self.is_trial) {
            self.refused_line.append(&mut self.line);
            std::mem::swap(&mut self.line, &mut self.refused_line);
        }
        if self.line.is_empty() && !self.refused_line.is_empty() {
            self.retry_at = Some(self.retry_later);
        }
    }

    /// It was refused and stands apart, or all wait where enough were. What is returned is to be
    /// written of it; behind it comes what [`Dying::note_waiting`] says.
    pub(crate) fn put_off(&mut self, retry_at: u64) -> Option<(Sequence, Reason)> {
        let front = self.front();
        let is_fresh = self.fresh == self.line.len();
        if let Some(refused) = self.line.pop_front() {
            self.fresh = self.fresh.min(self.line.len());
            if std::mem::take(&mut self.is_trial) {
                self.refused_line.push_front(refused);
            } else {
                self.refused_line.push_back(refused);
            }
        }
        self.refused += 1;
        self.retry_later = retry_at;
        if self.line.is_empty() || self.refused >= REFUSED_AT_ONCE {
            self.refused = 0;
            self.retry_at = Some(retry_at);
        }
        front.filter(|_| is_fresh)
    }

    /// When they are to be tried again.
    pub(crate) fn retry_at(&self) -> Option<u64> {
        self.retry_at
    }

    /// Whether they may be tried now.
    pub(crate) fn is_due(&mut self, now: u64) -> bool {
        if self.retry_at.is_some_and(|at| at <= now) {
            self.retry();
        }
        self.retry_at.is_none()
    }

    /// A queue that refused has room again.
    pub(crate) fn retry(&mut self) {
        self.retry_at = None;
        if !self.is_trial
            && let Some(first) = self.refused_line.pop_front()
        {
            self.line.push_front(first);
            self.is_trial = true;
        }
    }

    /// In the order of their turns.
    pub(crate) fn sequences(&self) -> impl Iterator<Item = Sequence> + '_ {
        let all = self.line.iter().chain(&self.refused_line);
        all.map(|(sequence, _)| *sequence)
    }
}

/// Entries in a row that are refused before all wait.
const REFUSED_AT_ONCE: usize = 32;

/// Entries that wait for a queue that refuses them.
const REFUSED_MAX: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    /// Tries all that may be tried, and returns what was taken.
    fn try_all(dying: &mut Dying, now: u64, takes: impl Fn(u64) -> bool) -> Vec<u64> {
        let mut taken = Vec::new();
        while dying.is_due(now)
            && let Some((sequence, _)) = dying.front()
        {
            if takes(sequence.0) {
                taken.push(sequence.0);
                dying.pop();
            } else {
                dying.put_off(now + 10);
            }
        }
        taken
    }

    fn with(count: u64) -> Dying {
        let mut dying = Dying::default();
        for sequence in 0..count {
            dying.push(Sequence(sequence), Reason::Expired);
        }
        dying
    }

    #[test]
    fn what_was_refused_goes_first_when_it_is_taken_again() {
        for rounds in 0..8 {
            let mut dying = with(100);
            for round in 0..rounds {
                assert!(try_all(&mut dying, round * 10, |_| false).is_empty());
            }
            let all: Vec<u64> = (0..100).collect();
            assert_eq!(try_all(&mut dying, rounds * 10, |_| true), all);
            assert_eq!(dying.len(), 0);
        }
    }

    #[test]
    fn a_full_queue_holds_nothing_back_that_goes_elsewhere() {
        let mut dying = with(100);
        let mut taken = Vec::new();
        for round in 0..20 {
            taken.extend(try_all(&mut dying, round * 10, |sequence| sequence >= 50));
        }
        assert_eq!(taken, (50..100).collect::<Vec<u64>>());
        assert_eq!(dying.len(), 50);
        assert_eq!(
            try_all(&mut dying, 1000, |_| true),
            (0..50).collect::<Vec<u64>>()
        );
    }
}
