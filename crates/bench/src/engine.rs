//! The loop: one thread, every connection non-blocking, `poll` between turns.
//!
//! A turn reads once from each readable socket, then writes once to each writable one, so that
//! publishers and consumers keep pace whatever the broker does.

use crate::BenchError;
use crate::connection::Connection;
use crate::consumer::Consumer;
use crate::histogram::Histogram;
use crate::numbers::{count, float, nanos, ratio};
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
    /// Of stamped deliveries, or else of confirms.
    pub(crate) latency: Histogram,
}

impl Tally {
    fn new() -> Self {
        Self {
            published: 0,
            delivered: 0,
            confirmed: 0,
            nacked: 0,
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
}

/// When a phase of a run is over.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Until {
    Elapsed(Duration),
    Settled(u64),
    Delivered(u64),
}

/// All connections under load, and what came of it.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) tally: Tally,
    publishers: Vec<(Connection, Publisher)>,
    consumers: Vec<(Connection, Consumer)>,
    /// Deliveries that one publish leads to; 0 where nobody consumes.
    deliveries_per_publish: u64,
    backlog_max: u64,
    epoch: Instant,
    label: String,
}

impl Engine {
    pub(crate) fn new(label: String, deliveries_per_publish: u64, backlog_max: u64) -> Self {
        Self {
            tally: Tally::new(),
            publishers: Vec::new(),
            consumers: Vec::new(),
            deliveries_per_publish,
            backlog_max,
            epoch: Instant::now(),
            label,
        }
    }

    pub(crate) fn add_publisher(
        &mut self,
        connection: Connection,
        publisher: Publisher,
    ) -> Result<(), BenchError> {
        connection.set_nonblocking()?;
        self.publishers.push((connection, publisher));
        Ok(())
    }

    pub(crate) fn add_consumer(
        &mut self,
        connection: Connection,
        consumer: Consumer,
    ) -> Result<(), BenchError> {
        connection.set_nonblocking()?;
        self.consumers.push((connection, consumer));
        Ok(())
    }

    /// Starts the clock that rates are counted by: setting connections up takes its time.
    pub(crate) fn start_clock(&mut self) {
        self.epoch = Instant::now();
    }

    /// Runs turns until the phase is over; a line per second tells how it goes.
    pub(crate) fn run(&mut self, until: Until) -> Result<(), BenchError> {
        let start = Instant::now();
        let mut second = Second {
            at: start,
            shown: Shown {
                published: !self.publishers.is_empty(),
                delivered: !self.consumers.is_empty(),
                confirmed: self.publishers.iter().any(|(_, one)| one.confirms()),
            },
            counts: self.tally.counts(),
            still: 0,
        };
        loop {
            let over = match until {
                Until::Elapsed(time) => start.elapsed() >= time,
                Until::Settled(all) => self.tally.confirmed + self.tally.nacked >= all,
                Until::Delivered(all) => self.tally.delivered >= all,
            };
            if over {
                return Ok(());
            }
            let wait = match until {
                Until::Elapsed(time) => time.saturating_sub(start.elapsed()),
                Until::Settled(_) | Until::Delivered(_) => Duration::from_secs(1),
            };
            self.turn(wait.min(Duration::from_secs(1)))?;
            if second.at.elapsed() >= Duration::from_secs(1) {
                second.tell(&self.label, start.elapsed(), self.tally.counts());
                if second.still >= STALL_SECONDS && !matches!(until, Until::Elapsed(_)) {
                    return Err(BenchError::Stalled(STALL_SECONDS));
                }
            }
        }
    }

    /// Ends every connection in good order.
    pub(crate) fn close(self) {
        for (connection, publisher) in self.publishers {
            connection.close(publisher.rest_of_message());
        }
        for (connection, _) in self.consumers {
            connection.close(&[]);
        }
    }

    /// How many publishers and consumers there are.
    pub(crate) fn connections(&self) -> (u64, u64) {
        (count(self.publishers.len()), count(self.consumers.len()))
    }

    fn turn(&mut self, wait_max: Duration) -> Result<(), BenchError> {
        let ready = self.wait(wait_max)?;
        let readable = PollFlags::IN | PollFlags::HUP | PollFlags::ERR;
        let (for_publishers, for_consumers) = ready
            .split_at_checked(self.publishers.len())
            .unwrap_or_default();
        for ((connection, consumer), flags) in self.consumers.iter_mut().zip(for_consumers) {
            if flags.intersects(readable) {
                let now = clock(self.epoch);
                let tally = &mut self.tally;
                connection.read(|frame, output| consumer.handle(frame, now, output, tally))?;
            }
            if connection.has_output() {
                connection.flush()?;
            }
        }
        for (index, flags) in for_publishers.iter().enumerate() {
            let room = self.room();
            let Some((connection, publisher)) = self.publishers.get_mut(index) else {
                break;
            };
            let now = clock(self.epoch);
            if flags.intersects(readable) {
                let tally = &mut self.tally;
                connection.read(|frame, _| publisher.handle(frame, now, tally))?;
            }
            // A publisher whose confirms just came may write without a poll in between.
            if publisher.wants_to_write(now, room) {
                self.tally.published += publisher.write(connection, now, room)?;
            }
        }
        Ok(())
    }

    /// Polls every socket for what it is wanted for, until `wait_max` or the next message is due.
    fn wait(&self, wait_max: Duration) -> Result<Vec<PollFlags>, BenchError> {
        let now = clock(self.epoch);
        let room = self.room();
        let mut wait = wait_max;
        let mut sockets = Vec::with_capacity(self.publishers.len() + self.consumers.len());
        for (connection, publisher) in &self.publishers {
            let mut flags = PollFlags::IN;
            if publisher.wants_to_write(now, room) {
                flags |= PollFlags::OUT;
            } else if let Some(due) = publisher.next_due() {
                wait = wait.min(due.saturating_sub(Duration::from_nanos(now)));
            }
            sockets.push(PollFd::new(connection.stream(), flags));
        }
        for (connection, _) in &self.consumers {
            let output = if connection.has_output() {
                PollFlags::OUT
            } else {
                PollFlags::empty()
            };
            sockets.push(PollFd::new(connection.stream(), PollFlags::IN | output));
        }
        let timeout = Timespec::try_from(wait).unwrap_or_default();
        match poll(&mut sockets, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(sockets.iter().map(PollFd::revents).collect())
    }

    /// How many more messages may be published before deliveries must catch up.
    fn room(&self) -> u64 {
        match self
            .tally
            .delivered
            .checked_div(self.deliveries_per_publish)
        {
            Some(done) => (done + self.backlog_max).saturating_sub(self.tally.published),
            None => u64::MAX,
        }
    }
}

/// What a phase does at all; a rate of something else would only be a zero.
#[derive(Debug, Clone, Copy)]
struct Shown {
    published: bool,
    delivered: bool,
    confirmed: bool,
}

impl Shown {
    fn rates(self, grown: Counts, seconds: f64) -> String {
        let parts = [
            (self.published, grown.published, "published"),
            (self.delivered, grown.delivered, "delivered"),
            (self.confirmed, grown.confirmed, "confirmed"),
        ];
        let texts: Vec<String> = parts
            .into_iter()
            .filter(|(shown, ..)| *shown)
            .map(|(_, part, word)| format!("{:.1} k/s {word}", ratio(float(part), seconds) / 1e3))
            .collect();
        texts.join(", ")
    }
}

/// The last second of a phase.
#[derive(Debug)]
struct Second {
    at: Instant,
    shown: Shown,
    counts: Counts,
    /// Seconds in which nothing moved.
    still: u64,
}

impl Second {
    fn tell(&mut self, label: &str, elapsed: Duration, counts: Counts) {
        let grown = counts.since(self.counts);
        let seconds = float(nanos(self.at.elapsed())) / 1e9;
        eprintln!(
            "{label}: {} s, {}",
            elapsed.as_secs(),
            self.shown.rates(grown, seconds)
        );
        self.still = if grown == Counts::default() {
            self.still + 1
        } else {
            0
        };
        self.at = Instant::now();
        self.counts = counts;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_tells_the_rates_of_what_it_does() {
        let grown = Counts {
            published: 2000,
            delivered: 1000,
            ..Counts::default()
        };
        let shown = |confirmed| Shown {
            published: true,
            delivered: true,
            confirmed,
        };
        assert_eq!(
            shown(false).rates(grown, 1.0),
            "2.0 k/s published, 1.0 k/s delivered"
        );
        // A confirming phase without a confirm has something to tell.
        assert!(shown(true).rates(grown, 1.0).ends_with("0.0 k/s confirmed"));
    }
}
