//! The loop of the writer thread and its sleep.
//!
//! Lacks an artificial delay: a batch is whatever arrived during the last sync. Invariant: an
//! append that somebody waits for never sleeps with the writer.

use std::sync::PoisonError;
use std::thread;
use std::time::{Duration, Instant};

use crate::disk::Disk;
use crate::error::StorageError;
use crate::journal::{Journal, locked};
use crate::pending::Waiting;
use crate::space::Space;
use crate::writer::Commit;

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Woken {
    Work,
    Closed,
    TimedOut,
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
            while self.wait_until(None) != Woken::Closed {
                if let Some(commit) = self.step()? {
                    on_commit(&commit);
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
        self.wait_until(Instant::now().checked_add(timeout)) == Woken::Work
    }

    /// On a full disk what nobody waits for gathers longer: each batch takes a sector at least,
    /// and the reserve has to last until checkpoints have freed segments.
    fn lazy_delay(&self) -> Duration {
        match self.room.space() {
            Space::Ample => self.options.lazy_delay,
            Space::Full => self.options.lazy_delay.saturating_mul(FULL_PATIENCE),
        }
    }

    fn wait_until(&self, deadline: Option<Instant>) -> Woken {
        let mut pending = locked(&self.pending);
        let mut lazy_until: Option<Instant> = None;
        loop {
            if pending.eager || self.failure.get().is_some() {
                return Woken::Work;
            }
            if pending.closed {
                return Woken::Closed;
            }
            let now = Instant::now();
            if !pending.backlog.is_empty() {
                let until = *lazy_until.get_or_insert_with(|| now + self.lazy_delay());
                if until <= now {
                    return Woken::Work;
                }
            }
            if deadline.is_some_and(|deadline| deadline <= now) {
                return Woken::TimedOut;
            }
            pending.waiting = if lazy_until.is_some() {
                Waiting::Lazy
            } else {
                Waiting::Idle
            };
            let until = [lazy_until, deadline].into_iter().flatten().min();
            pending = match until {
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

const FULL_PATIENCE: u32 = 10;

/// Ends the preparing thread however the writer ends, so that the scope can.
struct Stop<'a, D: Disk>(&'a Journal<D>);

impl<D: Disk> Drop for Stop<'_, D> {
    fn drop(&mut self) {
        self.0.stop_preparing();
        self.0.stop_evacuating();
    }
}
