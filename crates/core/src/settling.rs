//! Settles of durable entries that are applied and not yet written. They need no sync of
//! their own, so they gather; but they are written before any other fact, so that a settle is
//! never behind a later publish.
//!
//! Nobody asked for those of deliveries without acknowledgement. Where there are no others, and
//! no confirm tells how far the journal is, a message may be written before them: else each
//! message that goes straight through would have a record of its settle alone.

use menzil_model::fact::{Range, Ranges, Returned, Why};
use menzil_model::{Fact, QueueId, Sequence};

use crate::log::Log;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Settling {
    runs: Vec<(QueueId, Why, Ranges)>,
    /// Entries that came back, which is written before the others.
    returned: Vec<(QueueId, Vec<Returned>)>,
    /// Entries that wait to be dead-lettered, in order.
    dying: Vec<((QueueId, Why), Ranges)>,
    /// A client asked for one of them.
    is_asked: bool,
}

/// Runs that are looked through for one to go on with: a consumer that acknowledges and rejects
/// in turn, from some queues, still makes few facts.
const RUNS_AT_ONCE: usize = 8;

/// Ranges in one fact: keeps a record small.
const RANGES_MAX: usize = 1024;

impl Settling {
    /// Notes that an entry was settled because a client said so.
    pub(crate) fn add(&mut self, queue: QueueId, sequence: Sequence, why: Why) {
        self.is_asked = true;
        self.note(queue, sequence, why);
    }

    /// Notes that all that is in a range was settled because a client said so.
    pub(crate) fn add_range(&mut self, queue: QueueId, range: Range, why: Why) {
        self.is_asked = true;
        if let Some((last_queue, last_why, ranges)) = self.runs.last_mut()
            && (*last_queue, *last_why) == (queue, why)
            && is_range_added(ranges, range)
        {
            return;
        }
        self.runs.push((queue, why, Ranges::from_slice(&[range])));
    }

    /// Notes that an entry went out to a consumer that acknowledges nothing.
    pub(crate) fn add_unasked(&mut self, queue: QueueId, sequence: Sequence) {
        self.note(queue, sequence, Why::Acknowledged);
    }

    /// Notes that an entry came back.
    pub(crate) fn add_returned(&mut self, queue: QueueId, returned: Returned) {
        self.is_asked = true;
        match self.returned.last_mut() {
            Some((last, entries)) if *last == queue && entries.len() < RANGES_MAX => {
                entries.push(returned);
            }
            _ => self.returned.push((queue, vec![returned])),
        }
    }

    /// Notes that an entry waits to be dead-lettered, behind those that were noted before.
    pub(crate) fn add_dying(&mut self, queue: QueueId, sequence: Sequence, why: Why) {
        self.is_asked = true;
        add_in_order(&mut self.dying, (queue, why), sequence);
    }

    fn note(&mut self, queue: QueueId, sequence: Sequence, why: Why) {
        let recent = self.runs.len().saturating_sub(RUNS_AT_ONCE);
        let mut runs = self.runs.iter_mut().skip(recent);
        if let Some((_, _, ranges)) = runs.find(|(q, w, _)| *q == queue && *w == why)
            && is_added(ranges, sequence)
        {
            return;
        }
        self.runs
            .push((queue, why, Ranges::from_slice(&[one(sequence)])));
    }

    /// Writes what gathered, if a client asked for some of it.
    pub(crate) fn write_asked(&mut self, log: &mut dyn Log) {
        if self.is_asked {
            self.write(log);
        }
    }

    /// Writes what gathered.
    pub(crate) fn write(&mut self, log: &mut dyn Log) {
        self.is_asked = false;
        for (queue, entries) in self.returned.drain(..) {
            log.append_lazy(&Fact::Returned { queue, entries });
        }
        for ((queue, why), ranges) in self.dying.drain(..) {
            log.append_lazy(&Fact::Dying { queue, why, ranges });
        }
        for (queue, why, ranges) in self.runs.drain(..) {
            log.append_lazy(&Fact::Settled { queue, ranges, why });
        }
    }
}

/// Adds one to runs of what has something in common, so that all stay in the order of adding.
pub(crate) fn add_in_order<T: PartialEq>(runs: &mut Vec<(T, Ranges)>, of: T, sequence: Sequence) {
    if let Some((last_of, ranges)) = runs.last_mut()
        && *last_of == of
        && is_added(ranges, sequence)
    {
        return;
    }
    runs.push((of, Ranges::from_slice(&[one(sequence)])));
}

/// Adds one behind ascending ranges. False where it does not come behind them, or they are full.
#[inline]
fn is_added(ranges: &mut Ranges, sequence: Sequence) -> bool {
    is_range_added(ranges, one(sequence))
}

#[inline]
fn is_range_added(ranges: &mut Ranges, range: Range) -> bool {
    let many = ranges.len() >= RANGES_MAX;
    match ranges.last_mut() {
        Some(last) if last.last.0 + 1 == range.first.0 => {
            last.last = range.last;
            true
        }
        Some(last) if last.last < range.first && !many => {
            ranges.push(range);
            true
        }
        _ => false,
    }
}

fn one(sequence: Sequence) -> Range {
    Range {
        first: sequence,
        last: sequence,
    }
}

/// Sequences as ascending ranges.
pub(crate) fn ranges_of(mut sequences: Vec<Sequence>) -> Ranges {
    sequences.sort_unstable();
    let mut ranges = Ranges::new();
    for sequence in sequences {
        match ranges.last_mut() {
            Some(Range { last, .. }) if last.0 + 1 == sequence.0 => *last = sequence,
            _ => ranges.push(Range {
                first: sequence,
                last: sequence,
            }),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_settles_become_one_range() {
        let mut settling = Settling::default();
        for sequence in [1, 2, 3, 7, 8, 5] {
            settling.add(QueueId(1), Sequence(sequence), Why::Acknowledged);
        }
        let runs: Vec<Vec<(u64, u64)>> = settling
            .runs
            .iter()
            .map(|(_, _, ranges)| ranges.iter().map(|r| (r.first.0, r.last.0)).collect())
            .collect();
        assert_eq!(runs, [vec![(1, 3), (7, 8)], vec![(5, 5)]]);
    }
}
