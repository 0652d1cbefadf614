//! The loop: one thread, every connection non-blocking, `poll` between turns.
//!
//! A turn reads once from each readable socket, then writes once to each that has something to
//! say, so that publishers and consumers keep pace whatever the broker does. Publishers pause
//! where deliveries fall behind, and go on when half of the backlog is gone: in between the
//! broker always has work, and nobody asks in a loop.

use crate::BenchError;
use crate::histogram::Histogram;
use crate::link::Link;
use crate::progress::{Progress, Shown};
use crate::publisher::{Publisher, clock};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::time::{Duration, Instant};

/// How long nothing may move before the run is given up.
const STALL_SECONDS: u64 = 60;

/// What has happened so far.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) published: u64,
    pub(crate) delivered: u64,
    pub(crate) confirmed: u64,
    pub(crate) nacked: u64,
    /// Deliveries that came after a later one, or twice.
    pub(crate) misordered: u64,
    /// Of stamped deliveries, or else of confirms.
    pub(crate) latency: Histogram,
}

impl Tally {
    pub(crate) fn new() -> Self {
        Self {
            published: 0,
            delivered: 0,
            confirmed: 0,
            nacked: 0,
            misordered: 0,
            latency: Histogram::new(),
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts {
            published: self.published,
            delivered: self.delivered,
            confirmed: self.confirmed,
            nacked: self.nacked,
        }
    }
}

/// The counters of a [`Tally`] at one moment, or their growth between two.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) published: u64,
    pub(crate) delivered: u64,
    pub(crate) confirmed: u64,
    pub(crate) nacked: u64,
}

impl Counts {
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            published: self.published - before.published,
            delivered: self.delivered - before.delivered,
            confirmed: self.confirmed - before.confirmed,
            nacked: self.nacked - before.nacked,
        }
    }

    /// How much of this target is done, and how much there is to do.
    pub(crate) fn progress(self, counts: Self) -> (u64, u64) {
        let settled = counts.confirmed + counts.nacked;
        let done = counts.published.min(self.published)
            + counts.delivered.min(self.delivered)
            + settled.min(self.confirmed);
        (done, self.published + self.delivered + self.confirmed)
    }

    /// A refused message is settled too.
    pub(crate) fn reached(self, target: Self) -> bool {
        self.published >= target.published
            && self.delivered >= target.delivered
            && self.confirmed + self.nacked >= target.confirmed
    }

    /// What is still to come until all of `target` is there.
    pub(crate) fn missing(self, target: Self) -> String {
        let settled = self.confirmed + self.nacked;
        let parts: Vec<String> = [
            (
                "to publish",
                target.published.saturating_sub(self.published),
            ),
            (
                "deliveries",
                target.delivered.saturating_sub(self.delivered),
            ),
            ("confirms", target.confirmed.saturating_sub(settled)),
        ]
        .into_iter()
        .filter(|(_, left)| *left > 0)
        .map(|(what, left)| format!("{left} {what}"))
        .collect();
        parts.join(", ")
    }
}

/// When a phase of a run is over.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Until {
    Elapsed(Duration),
    /// At least so much was done since the engine began.
    Done(Counts),
}

/// All connections under load, and what came of it.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) tally: Tally,
    links: Vec<Link>,
    /// Deliveries that one publish leads to; 0 where nobody consumes.
    deliveries_per_publish: u64,
    backlog_max: u64,
    /// Deliveries have to catch up before anything more is published.
    paused: bool,
    epoch: Instant,
    ready: Vec<PollFlags>,
}

impl Engine {
    pub(crate) fn new(links: Vec<Link>, deliveries_per_publish: u64, backlog_max: u64) -> Self {
        Self {
            tally: Tally::new(),
            links,
            deliveries_per_publish,
            backlog_max,
            paused: false,
            epoch: Instant::now(),
            ready: Vec::new(),
        }
    }

    /// Runs turns until the phase is over.
    pub(crate) fn run(&mut self, until: Until, progress: &mut Progress) -> Result<(), BenchError> {
        let publishers = || self.links.iter().flat_map(Link::publishers);
        progress.begin(
            Shown {
                published: publishers().next().is_some(),
                delivered: self.deliveries_per_publish > 0,
                confirmed: publishers().any(Publisher::confirms),
            },
            self.tally.counts(),
            until,
        );
        let start = Instant::now();
        let (mut moved_at, mut moved) = (start, self.tally.counts());
        loop {
            let mut wait = Duration::from_secs(1);
            match until {
                Until::Elapsed(time) => {
                    wait = wait.min(time.saturating_sub(start.elapsed()));
                    if wait.is_zero() {
                        break;
                    }
                }
                Until::Done(target) => {
                    let counts = self.tally.counts();
                    if counts.reached(target) {
                        break;
                    }
                    if moved_at.elapsed().as_secs() >= STALL_SECONDS {
                        return Err(BenchError::Stalled {
                            seconds: STALL_SECONDS,
                            missing: counts.missing(target),
                        });
                    }
                }
            }
            self.turn(wait)?;
            if self.tally.counts() != moved {
                (moved_at, moved) = (Instant::now(), self.tally.counts());
            }
            progress.tick(moved);
        }
        progress.end();
        if self.tally.misordered > 0 {
            return Err(BenchError::Misordered(self.tally.misordered));
        }
        Ok(())
    }

    /// Ends every connection in good order.
    pub(crate) fn close(self) {
        self.links.into_iter().for_each(Link::close);
    }

    fn turn(&mut self, wait_max: Duration) -> Result<(), BenchError> {
        self.wait(wait_max)?;
        let readable = PollFlags::IN | PollFlags::HUP | PollFlags::ERR;
        for (link, flags) in self.links.iter_mut().zip(&self.ready) {
            if flags.intersects(readable) {
                link.read(clock(self.epoch), &mut self.tally)?;
            }
        }
        for index in 0..self.links.len() {
            let room = self.room();
            let writable = self
                .ready
                .get(index)
                .is_some_and(|flags| flags.contains(PollFlags::OUT));
            let Some(link) = self.links.get_mut(index) else {
                break;
            };
            // What was just read, confirms or deliveries, is answered without a poll in between.
            if writable || !link.blocked() {
                link.write(clock(self.epoch), room, &mut self.tally)?;
            }
        }
        Ok(())
    }

    /// Polls every socket for what it is wanted for, until `wait_max` or the next message is due.
    fn wait(&mut self, wait_max: Duration) -> Result<(), BenchError> {
        let now = clock(self.epoch);
        let room = self.room();
        let mut wait = wait_max;
        let mut sockets = Vec::with_capacity(self.links.len());
        for link in &self.links {
            let mut flags = PollFlags::IN;
            if link.wants_to_write(now, room) {
                flags |= PollFlags::OUT;
            } else if let Some(due) = link.next_due() {
                // A message that is due but not allowed waits for something to be read.
                let left = due.saturating_sub(Duration::from_nanos(now));
                if !left.is_zero() {
                    wait = wait.min(left);
                }
            }
            sockets.push(PollFd::new(link.stream(), flags));
        }
        let timeout = Timespec::try_from(wait).unwrap_or_default();
        match poll(&mut sockets, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        self.ready.clear();
        self.ready.extend(sockets.iter().map(PollFd::revents));
        Ok(())
    }

    /// How many more messages may be published before deliveries must catch up.
    fn room(&mut self) -> u64 {
        let delivered = self.tally.delivered;
        let Some(done) = delivered.checked_div(self.deliveries_per_publish) else {
            return u64::MAX;
        };
        let room = (done + self.backlog_max).saturating_sub(self.tally.published);
        self.paused = if self.paused {
            room < self.backlog_max.div_ceil(2)
        } else {
            room == 0
        };
        if self.paused { 0 } else { room }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn publishers_pause_at_the_backlog_and_go_on_at_half_of_it() {
        let mut engine = Engine::new(Vec::new(), 2, 10);
        engine.tally.published = 9;
        assert_eq!(engine.room(), 1);
        engine.tally.published = 10;
        assert_eq!(engine.room(), 0);
        engine.tally.delivered = 8;
        assert_eq!(engine.room(), 0);
        engine.tally.delivered = 10;
        assert_eq!(engine.room(), 5);
        // Nobody consumes: nothing to wait for.
        assert_eq!(Engine::new(Vec::new(), 0, 1).room(), u64::MAX);
    }

    #[test]
    fn what_is_missing_is_named() {
        let target = Counts {
            published: 5,
            delivered: 10,
            confirmed: 5,
            nacked: 0,
        };
        let mut counts = Counts {
            published: 5,
            delivered: 4,
            confirmed: 2,
            nacked: 1,
        };
        assert_eq!(counts.missing(target), "6 deliveries, 2 confirms");
        counts.delivered = 10;
        counts.nacked = 3;
        assert!(counts.reached(target));
    }
}
