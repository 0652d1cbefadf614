//! The loop: one thread, every connection non-blocking, `epoll` between turns.
//!
//! A turn reads once from each readable socket and answers what came in one write, then lets each
//! publisher that may send a run. Publishers pause where deliveries fall behind, and go on when
//! half of the backlog is gone. Where nothing comes for a second while they are paused, what is
//! missing is taken for lost, so that a broker that drops messages does not stop the run.

use super::link::{INPUT_BYTES, Link};
use super::publisher::Publisher;
use crate::BenchError;
use crate::engine::{Counts, Tally, Until};
use crate::progress::{Progress, Shown};
use crate::publisher::clock;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, epoll::Event, poll};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// How long nothing may move before what is missing is given up.
const SILENCE: Duration = Duration::from_secs(1);
/// The same where every message must come.
const STALL: Duration = Duration::from_mins(1);
/// Below that a millisecond more would be seen.
const FINE_WAIT: Duration = Duration::from_millis(100);
const EVENTS_AT_ONCE: usize = 256;

/// All connections under load, and what came of it.
pub(crate) struct Engine {
    pub(crate) tally: Tally,
    links: Vec<Link>,
    /// Which of them publish.
    publishers: Vec<usize>,
    /// Whose turn among them is next.
    next: usize,
    /// Deliveries that one publish leads to; 0 where nobody is there.
    deliveries_per_publish: u64,
    /// Deliveries that may be missing before publishers pause.
    backlog_max: u64,
    /// Deliveries that were published before, by whomever.
    owed: u64,
    /// Deliveries that are not waited for any more.
    written_off: u64,
    /// Deliveries have to catch up before anything more is published.
    paused: bool,
    /// Nothing more is published.
    stopped: bool,
    epoch: Instant,
    poll: OwnedFd,
    /// Whether it is told when a link is writable.
    watched: Vec<bool>,
    events: Vec<Event>,
    input: Vec<u8>,
}

impl Engine {
    pub(crate) fn new(
        links: Vec<Link>,
        deliveries_per_publish: u64,
        backlog_max: u64,
    ) -> Result<Self, BenchError> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (index, link) in (0..).zip(&links) {
            link.set_nonblocking()?;
            epoll::add(
                &poll,
                link.stream(),
                EventData::new_u64(index),
                EventFlags::IN,
            )?;
        }
        let publishers = links.iter().enumerate();
        let publishers = publishers
            .filter(|(_, link)| link.publisher().is_some())
            .map(|(index, _)| index)
            .collect();
        Ok(Self {
            tally: Tally::new(),
            publishers,
            next: 0,
            deliveries_per_publish,
            backlog_max,
            owed: 0,
            written_off: 0,
            paused: false,
            stopped: false,
            epoch: Instant::now(),
            poll,
            watched: vec![false; links.len()],
            links,
            events: Vec::with_capacity(EVENTS_AT_ONCE),
            input: vec![0; INPUT_BYTES],
        })
    }

    /// Runs turns until the phase is over.
    pub(crate) fn run(&mut self, until: Until, progress: &mut Progress) -> Result<(), BenchError> {
        self.begin(until, progress);
        let start = Instant::now();
        let mut moved = Moved::now(self.tally.counts());
        loop {
            let mut wait = SILENCE;
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
                    if moved.still_for() >= STALL {
                        return Err(BenchError::Stalled {
                            seconds: STALL.as_secs(),
                            missing: counts.missing(target),
                        });
                    }
                }
            }
            self.turn(wait)?;
            moved.look(self.tally.counts());
            if self.paused && moved.still_for() >= SILENCE {
                self.written_off += self.behind();
            }
            progress.tick(self.tally.counts());
        }
        progress.end();
        Ok(())
    }

    /// Publishes no more, and waits until all is acknowledged and delivered, or nothing came for
    /// `silence`.
    pub(crate) fn settle(
        &mut self,
        silence: Duration,
        progress: &mut Progress,
    ) -> Result<(), BenchError> {
        self.stopped = true;
        self.written_off = 0;
        self.wait_for_all(silence, progress)
    }

    /// Waits until `deliveries` have come, or nothing did for `silence`.
    pub(crate) fn drain(
        &mut self,
        deliveries: u64,
        silence: Duration,
        progress: &mut Progress,
    ) -> Result<(), BenchError> {
        self.owed = deliveries;
        self.wait_for_all(silence, progress)
    }

    fn wait_for_all(
        &mut self,
        silence: Duration,
        progress: &mut Progress,
    ) -> Result<(), BenchError> {
        let target = Counts {
            delivered: self.expected(),
            ..Counts::default()
        };
        self.begin(Until::Done(target), progress);
        let mut moved = Moved::now(self.tally.counts());
        // What was put into the output before is sent now.
        self.flush_all()?;
        while self.behind() > 0 || self.unacknowledged() > 0 || self.unwritten() {
            let left = silence.saturating_sub(moved.still_for());
            if left.is_zero() {
                break;
            }
            self.turn(left)?;
            moved.look(self.tally.counts());
            progress.tick(self.tally.counts());
        }
        progress.end();
        Ok(())
    }

    /// Deliveries that never came; where nobody is there, publishes that were not acknowledged.
    /// `None` where nothing tells.
    pub(crate) fn lost(&self) -> Option<u64> {
        if self.deliveries_per_publish > 0 {
            Some(self.behind())
        } else {
            let confirms = self.all_publishers().any(Publisher::confirms);
            confirms.then(|| self.unacknowledged())
        }
    }

    /// Deliveries more than there should be.
    pub(crate) fn surplus(&self) -> u64 {
        match self.deliveries_per_publish {
            0 => 0,
            _ => self.tally.delivered.saturating_sub(self.expected()),
        }
    }

    /// Ends every connection in good order.
    pub(crate) fn close(self) {
        Link::close_all(self.links);
    }

    fn begin(&self, until: Until, progress: &mut Progress) {
        progress.begin(
            Shown {
                published: !self.publishers.is_empty() && !self.stopped,
                delivered: self.deliveries_per_publish > 0,
                confirmed: self.all_publishers().any(Publisher::confirms),
            },
            self.tally.counts(),
            until,
        );
    }

    fn all_publishers(&self) -> impl Iterator<Item = &Publisher> {
        self.links.iter().filter_map(Link::publisher)
    }

    /// A refused publish is delivered to nobody.
    fn expected(&self) -> u64 {
        (self.tally.published - self.tally.nacked) * self.deliveries_per_publish + self.owed
    }

    /// Deliveries that are still waited for.
    fn behind(&self) -> u64 {
        self.expected()
            .saturating_sub(self.tally.delivered + self.written_off)
    }

    fn unacknowledged(&self) -> u64 {
        self.all_publishers().map(Publisher::outstanding).sum()
    }

    fn flush_all(&mut self) -> Result<(), BenchError> {
        for index in 0..self.links.len() {
            if let Some(link) = self.links.get_mut(index).filter(|link| !link.blocked) {
                link.flush()?;
            }
            self.watch(index)?;
        }
        Ok(())
    }

    fn unwritten(&self) -> bool {
        self.links.iter().any(Link::has_output)
    }

    fn turn(&mut self, wait_max: Duration) -> Result<(), BenchError> {
        self.wait(wait_max)?;
        let mut events = std::mem::take(&mut self.events);
        for event in events.drain(..) {
            // The fields of an event are not aligned.
            let (flags, data) = (event.flags, event.data);
            let index = crate::numbers::length(data.u64());
            let Some(link) = self.links.get_mut(index) else {
                continue;
            };
            if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
                link.read(&mut self.input, clock(self.epoch), &mut self.tally)?;
            }
            if link.has_output() && (!link.blocked || flags.contains(EventFlags::OUT)) {
                link.flush()?;
            }
            self.watch(index)?;
        }
        self.events = events;
        self.publish()
    }

    /// A run of each publisher, beginning with another one each time.
    fn publish(&mut self) -> Result<(), BenchError> {
        let all = self.publishers.len();
        for turn in 0..all {
            let room = self.room();
            if room == 0 {
                break;
            }
            let position = (self.next + turn) % all;
            let index = self.publishers.get(position).copied().unwrap_or_default();
            if let Some(link) = self.links.get_mut(index).filter(|link| !link.blocked) {
                self.tally.published += link.publish(clock(self.epoch), room)?;
                self.watch(index)?;
            }
        }
        self.next = self.next.wrapping_add(1) % all.max(1);
        Ok(())
    }

    /// Asks to be told when a blocked socket takes more, and no longer than it is blocked.
    fn watch(&mut self, index: usize) -> Result<(), BenchError> {
        let (Some(link), Some(watched)) = (self.links.get(index), self.watched.get_mut(index))
        else {
            return Ok(());
        };
        if link.blocked != *watched {
            *watched = link.blocked;
            let mut flags = EventFlags::IN;
            flags.set(EventFlags::OUT, link.blocked);
            let data = EventData::new_u64(crate::numbers::count(index));
            epoll::modify(&self.poll, link.stream(), data, flags)?;
        }
        Ok(())
    }

    /// Until a socket is ready, the next message is due, or `wait_max` is over.
    fn wait(&mut self, wait_max: Duration) -> Result<(), BenchError> {
        let mut wait = self.patience(wait_max);
        if wait < FINE_WAIT && !wait.is_zero() {
            // `epoll_wait` counts in milliseconds, `ppoll` in nanoseconds: so a rate has no bursts.
            let mut all = [PollFd::new(&self.poll, PollFlags::IN)];
            let timeout = Timespec::try_from(wait).unwrap_or_default();
            match poll(&mut all, Some(&timeout)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            wait = Duration::ZERO;
        }
        let timeout = Timespec::try_from(wait).unwrap_or_default();
        self.events.clear();
        match epoll::wait(&self.poll, spare_capacity(&mut self.events), Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn patience(&mut self, wait_max: Duration) -> Duration {
        let room = self.room();
        if room == 0 {
            return wait_max;
        }
        let now = clock(self.epoch);
        let mut wait = wait_max;
        let links = self
            .publishers
            .iter()
            .filter_map(|one| self.links.get(*one));
        for link in links.filter(|link| !link.blocked) {
            let Some(publisher) = link.publisher() else {
                continue;
            };
            if publisher.allowed(now, room) > 0 {
                return Duration::ZERO;
            }
            if let Some(due) = publisher.next_due() {
                // A message that is due but not allowed waits for something to be read.
                let left = due.saturating_sub(Duration::from_nanos(now));
                if !left.is_zero() {
                    wait = wait.min(left);
                }
            }
        }
        wait
    }

    /// How many more messages may be published before deliveries must catch up.
    fn room(&mut self) -> u64 {
        if self.stopped {
            return 0;
        }
        if self.deliveries_per_publish == 0 {
            return u64::MAX;
        }
        let behind = self.behind();
        self.paused = if self.paused {
            behind > self.backlog_max / 2
        } else {
            behind >= self.backlog_max
        };
        if self.paused {
            return 0;
        }
        (self.backlog_max - behind).div_ceil(self.deliveries_per_publish)
    }
}

/// Since when nothing came.
pub(super) struct Moved<T> {
    counts: T,
    at: Instant,
}

impl<T: PartialEq> Moved<T> {
    pub(super) fn now(counts: T) -> Self {
        Self {
            counts,
            at: Instant::now(),
        }
    }

    pub(super) fn look(&mut self, counts: T) {
        if counts != self.counts {
            *self = Self::now(counts);
        }
    }

    pub(super) fn still_for(&self) -> Duration {
        self.at.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn publishers_pause_at_the_backlog_and_go_on_at_half_of_it() {
        let mut engine = Engine::new(Vec::new(), 2, 20).unwrap();
        engine.tally.published = 9;
        assert_eq!(engine.room(), 1);
        engine.tally.published = 10;
        assert_eq!(engine.room(), 0);
        engine.tally.delivered = 8;
        assert_eq!(engine.room(), 0);
        engine.tally.delivered = 10;
        assert_eq!(engine.room(), 5);
        assert_eq!((engine.lost(), engine.surplus()), (Some(10), 0));
        engine.tally.delivered = 23;
        assert_eq!((engine.lost(), engine.surplus()), (Some(0), 3));
        // Nobody is there: nothing to wait for.
        assert_eq!(Engine::new(Vec::new(), 0, 1).unwrap().room(), u64::MAX);
    }

    #[test]
    fn what_is_refused_or_given_up_is_not_waited_for() {
        let mut engine = Engine::new(Vec::new(), 1, 20).unwrap();
        engine.tally.published = 20;
        assert_eq!(engine.room(), 0);
        engine.tally.nacked = 5;
        engine.written_off = 15;
        assert_eq!(engine.room(), 20);
    }
}
