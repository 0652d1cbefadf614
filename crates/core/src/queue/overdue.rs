//! Messages of a store of delays that are due and stay, for a queue refused them and none took
//! them. They are out with nobody, and hold nothing back that goes elsewhere.
//!
//! There is a line for each queue that refused, in the order in which its messages were due. When
//! its time has come, or the queue has room again, the first is tried, and after it the next, until
//! one is refused. Their messages are read again for that: one, and twice as many each time that
//! all were taken.
//!
//! Invariants: a line has some; each has its time among the times; the count is that of all.

use std::collections::{BTreeMap, BTreeSet};

use menzil_model::{QueueId, Sequence};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Overdue {
    lines: BTreeMap<QueueId, Line>,
    times: BTreeSet<(u64, QueueId)>,
    /// Lines whose messages are being read.
    read: Vec<QueueId>,
    count: usize,
}

#[derive(Debug)]
struct Line {
    entries: BTreeSet<Sequence>,
    try_at: u64,
    /// Messages that are read at once.
    run: usize,
}

/// Messages that stand here before no more are sent on.
const COUNT_MAX: usize = 65_536;

/// Messages of a line that are read at once.
const RUN_MAX: usize = 256;

impl Overdue {
    pub(crate) fn is_full(&self) -> bool {
        self.count >= COUNT_MAX
    }

    /// One that this queue refused. It is tried again then, or with those that came before.
    pub(crate) fn add(&mut self, by: QueueId, sequence: Sequence, try_at: u64) {
        let line = self.lines.entry(by).or_insert_with(|| {
            self.times.insert((try_at, by));
            Line {
                entries: BTreeSet::new(),
                try_at,
                run: 1,
            }
        });
        self.count += usize::from(line.entries.insert(sequence));
    }

    /// The first of a line whose time has come, with the queue that refused it.
    pub(crate) fn next(&self, now: u64) -> Option<(QueueId, Sequence)> {
        let (at, by) = self.times.first().filter(|(at, _)| *at <= now)?;
        let line = self.lines.get(by)?;
        debug_assert_eq!(line.try_at, *at, "a line has another time");
        Some((*by, *line.entries.first()?))
    }

    /// When some are to be tried.
    pub(crate) fn try_at(&self) -> Option<u64> {
        self.times.first().map(|(at, _)| *at)
    }

    /// It stands here no more.
    pub(crate) fn remove(&mut self, by: QueueId, sequence: Sequence) {
        let Some(line) = self.lines.get_mut(&by) else {
            return;
        };
        self.count -= usize::from(line.entries.remove(&sequence));
        line.run = (2 * line.run).min(RUN_MAX);
        if line.entries.is_empty() {
            self.times.remove(&(line.try_at, by));
            self.lines.remove(&by);
        }
    }

    /// The first of a line was refused again. Returns those whose messages may be in memory.
    pub(crate) fn put_off(&mut self, by: QueueId, try_at: u64) -> Vec<Sequence> {
        let read = self.run(by);
        self.set_time(by, try_at);
        if let Some(line) = self.lines.get_mut(&by) {
            line.run = 1;
        }
        read
    }

    /// The next of a line that are to be read.
    pub(crate) fn run(&self, by: QueueId) -> Vec<Sequence> {
        let line = self.lines.get(&by);
        let run = line.map(|line| line.entries.iter().copied().take(line.run));
        run.into_iter().flatten().collect()
    }

    /// The first of a line is being read.
    pub(crate) fn await_read(&mut self, by: QueueId, try_at: u64) {
        self.set_time(by, try_at);
        if !self.read.contains(&by) {
            self.read.push(by);
        }
    }

    /// Messages were read.
    pub(crate) fn read_came(&mut self) {
        for by in std::mem::take(&mut self.read) {
            self.set_time(by, 0);
        }
    }

    /// A queue that refused has room again.
    pub(crate) fn wake(&mut self, by: QueueId) {
        self.set_time(by, 0);
    }

    fn set_time(&mut self, by: QueueId, try_at: u64) {
        if let Some(line) = self.lines.get_mut(&by) {
            self.times.remove(&(line.try_at, by));
            self.times.insert((try_at, by));
            line.try_at = try_at;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: QueueId = QueueId(1);
    const B: QueueId = QueueId(2);

    /// Tries all that may be tried, and returns what was taken.
    fn try_all(overdue: &mut Overdue, now: u64, takes: impl Fn(QueueId, u64) -> bool) -> Vec<u64> {
        let mut taken = Vec::new();
        while let Some((by, sequence)) = overdue.next(now) {
            if takes(by, sequence.0) {
                taken.push(sequence.0);
                overdue.remove(by, sequence);
            } else {
                overdue.put_off(by, now + 10);
            }
        }
        taken
    }

    #[test]
    fn each_queue_has_a_line_of_its_own_in_the_order_of_their_times() {
        let mut overdue = Overdue::default();
        for sequence in [5, 1, 3] {
            overdue.add(A, Sequence(sequence), 10);
            overdue.add(B, Sequence(sequence + 1), 10);
        }
        assert_eq!(overdue.try_at(), Some(10));
        assert!(try_all(&mut overdue, 9, |_, _| true).is_empty());
        assert_eq!(try_all(&mut overdue, 10, |by, _| by == B), [2, 4, 6]);
        assert_eq!(overdue.try_at(), Some(20));
        overdue.wake(B);
        overdue.wake(A);
        assert_eq!(
            try_all(&mut overdue, 11, |_, sequence| sequence < 4),
            [1, 3]
        );
        assert_eq!(overdue.count, 1);
        overdue.remove(A, Sequence(5));
        assert_eq!((overdue.try_at(), overdue.count), (None, 0));
    }

    #[test]
    fn more_are_read_while_they_are_taken() {
        let mut overdue = Overdue::default();
        for sequence in 0..100 {
            overdue.add(A, Sequence(sequence), 10);
        }
        let mut runs = Vec::new();
        for sequence in 0..4 {
            runs.push(overdue.run(A).len());
            overdue.remove(A, Sequence(sequence));
        }
        assert_eq!(runs, [1, 2, 4, 8]);
        assert_eq!(overdue.put_off(A, 20).len(), 16);
        assert_eq!(overdue.run(A), [Sequence(4)]);
        overdue.await_read(A, 30);
        assert_eq!(overdue.next(29), None);
        overdue.read_came();
        assert_eq!(overdue.next(0), Some((A, Sequence(4))));
    }
}
