//! Publishes without their confirm, in the order of their delivery tags.
//!
//! Messages written at one moment are one run, so that a cumulative confirm costs a step per run
//! and not per message. Tags confirmed ahead of older ones are kept aside.

use std::collections::{BTreeSet, VecDeque};

/// Messages that were written at one moment.
#[derive(Debug, Clone, Copy)]
struct Run {
    /// Tag of the last of them.
    last: u64,
    sent: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Unconfirmed {
    runs: VecDeque<Run>,
    /// All tags up to this one are settled.
    settled: u64,
    submitted: u64,
    /// Settled tags past `settled`.
    ahead: BTreeSet<u64>,
}

impl Unconfirmed {
    pub(crate) fn outstanding(&self) -> u64 {
        self.submitted - self.settled - crate::numbers::count(self.ahead.len())
    }

    pub(crate) fn submit(&mut self, messages: u64, now: u64) {
        self.submitted += messages;
        self.runs.push_back(Run {
            last: self.submitted,
            sent: now,
        });
    }

    /// Settles one tag, or with `multiple` all up to it (0: all). `each` is told when messages were
    /// sent and how many; returns how many that were. A tag that was settled before, or never
    /// submitted, settles nothing.
    pub(crate) fn settle(
        &mut self,
        tag: u64,
        multiple: bool,
        mut each: impl FnMut(u64, u64),
    ) -> u64 {
        let before = self.outstanding();
        if multiple {
            let last = if tag == 0 { self.submitted } else { tag };
            self.advance(last.min(self.submitted), &mut each);
        } else if tag == self.settled + 1 && tag <= self.submitted {
            self.advance(tag, &mut each);
        } else if tag > self.settled && tag <= self.submitted && self.ahead.insert(tag) {
            let run = self.runs.partition_point(|run| run.last < tag);
            if let Some(run) = self.runs.get(run) {
                each(run.sent, 1);
            }
        }
        while self.ahead.first() == Some(&(self.settled + 1)) {
            self.ahead.pop_first();
            self.settled += 1;
        }
        while self
            .runs
            .front()
            .is_some_and(|run| run.last <= self.settled)
        {
            self.runs.pop_front();
        }
        before - self.outstanding()
    }

    fn advance(&mut self, last: u64, each: &mut impl FnMut(u64, u64)) {
        while self.settled < last
            && let Some(run) = self.runs.front().copied()
        {
            let end = run.last.min(last);
            let mut messages = end.saturating_sub(self.settled);
            if !self.ahead.is_empty() {
                let rest = self.ahead.split_off(&(end + 1));
                messages -= crate::numbers::count(self.ahead.len());
                self.ahead = rest;
            }
            if messages > 0 {
                each(run.sent, messages);
            }
            self.settled = end.max(self.settled);
            if run.last <= end {
                self.runs.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confirms_in_any_order_settle_each_message_once() {
        let mut unconfirmed = Unconfirmed::default();
        unconfirmed.submit(4, 7);
        unconfirmed.submit(2, 9);
        let mut sent = Vec::new();
        let mut settle = |unconfirmed: &mut Unconfirmed, tag, multiple| {
            unconfirmed.settle(tag, multiple, |at, count| {
                sent.extend(std::iter::repeat_n(at, usize::try_from(count).unwrap()));
            })
        };
        assert_eq!(settle(&mut unconfirmed, 3, false), 1);
        assert_eq!(settle(&mut unconfirmed, 3, false), 0);
        assert_eq!(settle(&mut unconfirmed, 1, false), 1);
        assert_eq!(settle(&mut unconfirmed, 4, true), 2);
        assert_eq!(unconfirmed.outstanding(), 2);
        assert_eq!(settle(&mut unconfirmed, 99, false), 0);
        assert_eq!(settle(&mut unconfirmed, 0, true), 2);
        assert_eq!((unconfirmed.outstanding(), unconfirmed.settled), (0, 6));
        unconfirmed.submit(1, 8);
        assert_eq!(settle(&mut unconfirmed, 7, true), 1);
        assert_eq!(sent, [7, 7, 7, 7, 9, 9, 8]);
        assert!(unconfirmed.runs.is_empty() && unconfirmed.ahead.is_empty());
    }

    /// All orders of settling five tags, each alone or with all before it, against a plain set.
    #[test]
    fn it_agrees_with_a_set_of_tags() {
        for case in 0..10u64.pow(4) {
            let mut unconfirmed = Unconfirmed::default();
            unconfirmed.submit(2, 1);
            unconfirmed.submit(3, 2);
            let mut open: BTreeSet<u64> = (1..=5).collect();
            let mut code = case;
            for _ in 0..4 {
                let (tag, multiple) = (code % 10 / 2 + 1, code % 2 == 1);
                code /= 10;
                let gone: Vec<u64> = open
                    .iter()
                    .copied()
                    .filter(|one| *one == tag || multiple && *one < tag)
                    .collect();
                open.retain(|one| !gone.contains(one));
                let mut told = 0;
                let settled = unconfirmed.settle(tag, multiple, |_, count| told += count);
                assert_eq!((settled, told), (gone.len() as u64, settled), "{case}");
                assert_eq!(unconfirmed.outstanding(), open.len() as u64, "{case}");
            }
        }
    }
}
