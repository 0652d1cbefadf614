//! The loop of the writer thread and its sleep.
//!
//! Lacks a delay where few wait: a batch is then whatever arrived during the last sync. Many who
//! wait at once share one (`docs/adr/0007`). Invariant: an append that somebody waits for never
//! sleeps with the writer for longer than half of what the last commit took.

use std::sync::PoisonError;
use std::thread;
use std::time::{Duration, Instant};

use crate::disk::Disk;
use crate::error::StorageError;
use crate::journal::{Journal, locked};
use crate::pending::Waiting;
use crate::writer::Commit;

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Woken {
    Work,
    Closed,
    TimedOut,
}

/// How many records that somebody waits for the next commit is worth waiting for, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Company {
    awaited: u64,
    until: Instant,
}

impl Company {
    /// Who was just told that they are committed are likely to send as much again; with those
    /// who came meanwhile they share a sync, where else each half would have one of its own.
    /// Nobody waits longer for that than half of what the last commit took.
    fn expected(commit: &Commit, waiting: u64, took: Duration, now: Instant) -> Option<Self> {
        let awaited = commit.awaited + waiting;
        let is_worth_it = awaited >= COMPANY_LEAST && commit.bytes <= COMPANY_BYTES_MAX;
        is_worth_it.then(|| Self {
            awaited: awaited - awaited / COMPANY_SLACK,
            until: now + (took / 2).min(COMPANY_PATIENCE),
        })
    }

    fn is_due(&self, awaited: u64, now: Instant) -> bool {
        awaited >= self.awaited || self.until <= now
    }
}

impl<D: Disk> Journal<D> {
    /// Commits until the journal is closed or fails; segments are prepared and records evacuated
    /// on threads of their own.
    /// `on_commit` hears of each commit on this thread, between two syncs: it is to be quick.
    pub fn run(&self, mut on_commit: impl FnMut(&Commit)) -> Result<(), StorageError> {
        self.check()?;
        self.start_preparing();
        self.start_evacuating();
        thread::scope(|scope| {
            let _stop = Stop(self);
            scope.spawn(|| self.prepare_until_stopped());
            scope.spawn(|| self.evacuate_until_stopped());
            let mut company = None;
            while self.wait_until(None, company) != Woken::Closed {
                let start = Instant::now();
                company = None;
                if let Some(commit) = self.step()? {
                    let took = start.elapsed();
                    on_commit(&commit);
                    let waiting = locked(&self.pending).awaited;
                    company = Company::expected(&commit, waiting, took, Instant::now());
                }
            }
            if let Some(commit) = self.step()? {
                on_commit(&commit);
            }
            self.finish()
        })
    }

    /// Waits until there is something to commit, at most that long. Lazy records count once
    /// they have waited for their time. Also returns when the journal is closed or has failed.
    pub fn wait_pending(&self, timeout: Duration) -> bool {
        self.wait_until(Instant::now().checked_add(timeout), None) == Woken::Work
    }

    fn wait_until(&self, deadline: Option<Instant>, company: Option<Company>) -> Woken {
        let mut pending = locked(&self.pending);
        let mut lazy_until: Option<Instant> = None;
        loop {
            if pending.pressed || self.failure.get().is_some() {
                return Woken::Work;
            }
            let now = Instant::now();
            let is_awaited = pending.awaited > 0;
            let company = company.filter(|company| {
                is_awaited && !pending.closed && !company.is_due(pending.awaited, now)
            });
            if is_awaited && company.is_none() {
                return Woken::Work;
            }
            if pending.closed {
                return Woken::Closed;
            }
            if !pending.backlog.is_empty() {
                let until = *lazy_until.get_or_insert_with(|| now + self.options.lazy_delay);
                if until <= now || pending.backlog.bytes() >= self.options.lazy_bytes_max {
                    return Woken::Work;
                }
            }
            if deadline.is_some_and(|deadline| deadline <= now) {
                return Woken::TimedOut;
            }
            pending.waiting = match (company, lazy_until) {
                (Some(Company { awaited, .. }), _) => Waiting::Company { awaited },
                (None, Some(_)) => Waiting::Lazy {
                    bytes: self.options.lazy_bytes_max,
                },
                (None, None) => Waiting::Idle,
            };
            let company_until = company.map(|company| company.until);
            let untils = [company_until, lazy_until, deadline];
            pending = match untils.into_iter().flatten().min() {
                None => self
                    .wake
                    .wait(pending)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let wait = self.wake.wait_timeout(pending, until - now);
                    wait.map_or_else(|error| error.into_inner().0, |(pending, _)| pending)
                }
            };
            pending.waiting = Waiting::No;
        }
    }
}

/// Fewer do not wait for each other: what they would save is little, and they would see it.
const COMPANY_LEAST: u64 = 64;
/// One in so many may stay away.
const COMPANY_SLACK: u64 = 8;
/// In a larger batch the sync is the small part.
const COMPANY_BYTES_MAX: u64 = 1 << 20;
const COMPANY_PATIENCE: Duration = Duration::from_millis(1);

/// Ends the preparing thread however the writer ends, so that the scope can.
struct Stop<'a, D: Disk>(&'a Journal<D>);

impl<D: Disk> Drop for Stop<'_, D> {
    fn drop(&mut self) {
        self.0.stop_preparing();
        self.0.stop_evacuating();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(awaited: u64, bytes: u64) -> Commit {
        Commit {
            awaited,
            bytes,
            ..Commit::default()
        }
    }

    #[test]
    fn many_who_answer_commits_wait_for_each_other_and_few_do_not() {
        let (took, now) = (Duration::from_micros(200), Instant::now());
        let expected = |awaited, waiting, bytes| {
            let company = Company::expected(&commit(awaited, bytes), waiting, took, now);
            company.map(|company| company.awaited)
        };
        assert_eq!(expected(1, 0, 512), None);
        assert_eq!(expected(1, 62, 512), None);
        assert_eq!(expected(400, 400, 80 << 10), Some(700));
        assert_eq!(expected(400, 400, 2 << 20), None);
    }

    #[test]
    fn nobody_waits_longer_than_half_of_what_the_last_commit_took() {
        let now = Instant::now();
        let until = |took| {
            let company = Company::expected(&commit(100, 512), 0, took, now);
            company.map(|company| company.until - now)
        };
        let short = Duration::from_micros(150);
        assert_eq!(until(2 * short), Some(short));
        assert_eq!(until(Duration::from_secs(1)), Some(COMPANY_PATIENCE));
        let company = Company::expected(&commit(100, 512), 0, 2 * short, now).unwrap();
        assert!(!company.is_due(1, now));
        assert!(company.is_due(88, now));
        assert!(company.is_due(1, now + short));
    }
}
