//! Verdicts to a publisher, folded into cumulative ones as RabbitMQ does: those that fall due
//! together become one `multiple` up to below the smallest number that has no verdict or the
//! other one, the rest singly; acks before nacks.

use std::collections::{BTreeSet, VecDeque};

/// Verdicts of one channel that were decided and not sent.
#[derive(Debug)]
pub(super) struct Confirms {
    held: VecDeque<Run>,
    /// The smallest number without a sent verdict.
    next: u64,
    /// Numbers above `next` whose verdicts are sent.
    ahead: BTreeSet<u64>,
}

/// The fate of one publish.
#[derive(Clone, Copy, Debug)]
pub(super) struct Verdict {
    pub(super) sequence: u64,
    pub(super) accepted: bool,
    /// Not before the journal has committed this index.
    pub(super) after: u64,
    /// Not before the channel has released so many outputs, the ones decided earlier.
    pub(super) behind: u64,
}

/// Equal verdicts of consecutive numbers, which wait for one index or for consecutive ones: a
/// publisher that nobody interrupts makes one run, however many messages are under way.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: u64,
    last: u64,
    accepted: bool,
    /// What the first waits for.
    after: u64,
    /// By how much each waits for more than the one before it.
    step: u64,
    behind: u64,
}

/// One `basic.ack` or `basic.nack`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Folded {
    pub(super) accepted: bool,
    pub(super) sequence: u64,
    pub(super) multiple: bool,
}

impl Default for Confirms {
    fn default() -> Self {
        Self {
            held: VecDeque::new(),
            next: 1,
            ahead: BTreeSet::new(),
        }
    }
}

impl Run {
    fn of(verdict: Verdict) -> Self {
        Self {
            first: verdict.sequence,
            last: verdict.sequence,
            accepted: verdict.accepted,
            after: verdict.after,
            step: 0,
            behind: verdict.behind,
        }
    }

    fn len(&self) -> u64 {
        self.last - self.first + 1
    }

    /// Takes in the verdict that follows, if it continues the run.
    #[inline]
    fn extend(&mut self, next: &Verdict) -> bool {
        if next.accepted != self.accepted
            || next.behind != self.behind
            || next.sequence != self.last.wrapping_add(1)
            || next.after < self.after
        {
            return false;
        }
        let more = next.after - self.after;
        if self.first == self.last && more <= 1 {
            self.step = more;
        } else if more != self.step * self.len() {
            return false;
        }
        self.last = next.sequence;
        true
    }

    /// Splits off what is due, from the start.
    fn due(&mut self, committed: u64, released: u64) -> Option<Self> {
        if self.behind > released || self.after > committed {
            return None;
        }
        let length = self.len();
        let count = match self.step {
            0 => length,
            _ => length.min((committed - self.after).saturating_add(1)),
        };
        let mut due = *self;
        due.last = self.first + count - 1;
        self.first += count;
        self.after += count * self.step;
        Some(due)
    }

    fn is_empty(&self) -> bool {
        self.first > self.last
    }
}

impl Confirms {
    #[inline]
    pub(super) fn push(&mut self, verdict: Verdict) {
        if let Some(last) = self.held.back_mut()
            && last.extend(&verdict)
        {
            return;
        }
        self.held.push_back(Run::of(verdict));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// True where a verdict was decided before the output that is next to be released.
    pub(super) fn precede(&self, released: u64) -> bool {
        self.held
            .front()
            .is_some_and(|first| first.behind <= released)
    }

    /// The index that the oldest verdict waits for.
    pub(super) fn waits_for(&self) -> Option<u64> {
        self.held.front().map(|first| first.after)
    }

    /// The channel is closed: a new one on its number counts from 1.
    pub(super) fn restart(&mut self) {
        self.next = 1;
        self.ahead.clear();
    }

    /// Folds what is due. Verdicts fall due in the order in which they were decided, so one
    /// that could go at once waits for those before it, and folds with them.
    pub(super) fn fold(&mut self, committed: u64, released: u64, mut write: impl FnMut(Folded)) {
        let mut due = Vec::new();
        while let Some(first) = self.held.front_mut()
            && let Some(run) = first.due(committed, released)
        {
            due.push(run);
            if !first.is_empty() {
                break;
            }
            self.held.pop_front();
        }
        if due.is_empty() {
            return;
        }
        if !due.is_sorted_by_key(|run| run.first) {
            due.sort_unstable_by_key(|run| run.first);
        }
        for run in &due {
            self.settle(run);
        }
        let smallest = |accepted: bool| {
            let found = due.iter().find(|run| run.accepted == accepted);
            found.map_or(u64::MAX, |run| run.first)
        };
        let (first_accepted, first_refused) = (smallest(true), smallest(false));
        let acks: u64 = due.iter().filter(|run| run.accepted).map(Run::len).sum();
        // RabbitMQ sends a lone ack, though not a lone nack, without `multiple`.
        let ack_below = if acks == 1 {
            0
        } else {
            self.next.min(first_refused)
        };
        fold_one_kind(&due, true, ack_below, &mut write);
        fold_one_kind(&due, false, self.next.min(first_accepted), &mut write);
    }

    fn settle(&mut self, run: &Run) {
        if run.first != self.next {
            self.ahead.extend(run.first..=run.last);
            return;
        }
        self.next = run.last + 1;
        while self.ahead.remove(&self.next) {
            self.next += 1;
        }
    }
}

/// Those below the limit as one, the others each by itself.
fn fold_one_kind(due: &[Run], accepted: bool, below: u64, write: &mut impl FnMut(Folded)) {
    let of_kind = || due.iter().filter(|run| run.accepted == accepted);
    if let Some(last) = of_kind().take_while(|run| run.first < below).last() {
        write(Folded {
            accepted,
            sequence: last.last.min(below - 1),
            multiple: true,
        });
    }
    for run in of_kind() {
        for sequence in run.first.max(below)..=run.last {
            write(Folded {
                accepted,
                sequence,
                multiple: false,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fold(confirms: &mut Confirms, verdicts: &[(u64, bool)]) -> Vec<(u64, bool, bool)> {
        for (sequence, accepted) in verdicts {
            confirms.push(Verdict {
                sequence: *sequence,
                accepted: *accepted,
                after: 0,
                behind: 0,
            });
        }
        let mut out = Vec::new();
        confirms.fold(0, 0, |f| out.push((f.sequence, f.accepted, f.multiple)));
        out
    }

    #[test]
    fn verdicts_fold_as_in_rabbitmq() {
        let (ack, nack) = (true, false);
        let mut confirms = Confirms::default();
        let one = fold(&mut confirms, &[(1, ack)]);
        assert_eq!(one, [(1, ack, false)]);
        let two = fold(&mut confirms, &[(2, ack), (3, ack)]);
        assert_eq!(two, [(3, ack, true)]);
        let mixed = fold(&mut confirms, &[(4, ack), (5, nack), (6, ack)]);
        assert_eq!(mixed, [(4, ack, true), (6, ack, false), (5, nack, false)]);
        let nacks = fold(&mut confirms, &[(7, nack), (8, nack), (9, ack)]);
        assert_eq!(nacks, [(9, ack, false), (8, nack, true)]);
        let gap = fold(&mut confirms, &[(11, ack), (12, ack)]);
        assert_eq!(gap, [(11, ack, false), (12, ack, false)]);
        let closed = fold(&mut confirms, &[(10, ack), (13, ack)]);
        assert_eq!(closed, [(13, ack, true)]);
        assert_eq!(fold(&mut confirms, &[]), []);
    }

    #[test]
    fn a_run_is_due_as_far_as_is_committed() {
        let mut confirms = Confirms::default();
        for sequence in 1..=1000 {
            confirms.push(Verdict {
                sequence,
                accepted: true,
                after: 500 + sequence,
                behind: 0,
            });
        }
        assert_eq!(confirms.held.len(), 1);
        let mut fold = |committed| {
            let mut out = Vec::new();
            confirms.fold(committed, 0, |f| out.push((f.sequence, f.multiple)));
            (out, confirms.waits_for())
        };
        assert_eq!(fold(500), (vec![], Some(501)));
        assert_eq!(fold(501), (vec![(1, false)], Some(502)));
        assert_eq!(fold(700), (vec![(200, true)], Some(701)));
        assert_eq!(fold(u64::MAX), (vec![(1000, true)], None));
    }

    /// A publisher that keeps its unanswered publishes in a list.
    fn apply(outstanding: &mut Vec<u64>, folded: Folded, verdicts: &mut Vec<(u64, bool)>) {
        let covered = |sequence: &u64| {
            *sequence == folded.sequence || folded.multiple && *sequence < folded.sequence
        };
        for sequence in outstanding.iter().filter(|sequence| covered(sequence)) {
            verdicts.push((*sequence, folded.accepted));
        }
        outstanding.retain(|sequence| !covered(sequence));
    }

    proptest! {
        #[test]
        fn every_publish_gets_its_own_verdict_once_and_never_before_its_commit(
            publishes in prop::collection::vec((any::<bool>(), 0_u64..20), 1..60),
            swaps in prop::collection::vec((0_usize..60, 0_usize..60), 0..6),
            commits in prop::collection::vec(0_u64..20, 0..20),
        ) {
            let mut verdicts: Vec<Verdict> = publishes
                .iter()
                .zip(1..)
                .map(|(&(accepted, after), sequence)| Verdict { sequence, accepted, after, behind: 0 })
                .collect();
            for (a, b) in swaps {
                let length = verdicts.len();
                verdicts.swap(a % length, b % length);
            }
            let mut outstanding: Vec<u64> = (1..=publishes.len() as u64).collect();
            let (mut confirms, mut told) = (Confirms::default(), Vec::new());
            let mut commits: Vec<u64> = commits;
            commits.sort_unstable();
            commits.push(u64::MAX);
            let mut rest = verdicts.into_iter();
            for committed in commits {
                for verdict in rest.by_ref().take(7) {
                    confirms.push(verdict);
                }
                confirms.fold(committed, 0, |folded| apply(&mut outstanding, folded, &mut told));
                for (sequence, accepted) in &told {
                    let (wanted, after) = publishes[usize::try_from(*sequence).unwrap() - 1];
                    prop_assert_eq!(*accepted, wanted);
                    prop_assert!(after <= committed);
                }
            }
            rest.for_each(|verdict| confirms.push(verdict));
            confirms.fold(u64::MAX, 0, |folded| apply(&mut outstanding, folded, &mut told));
            prop_assert!(outstanding.is_empty() && confirms.is_empty());
            prop_assert_eq!(told.len(), publishes.len());
        }
    }
}
