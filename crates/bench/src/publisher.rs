//! A publisher: writes one message over and over, encoded once, held back by window, rate and
//! backlog.
//!
//! Messages leave in *runs*: a run is a prefix of the template, which holds the message as often
//! as fits 64 KiB. A run that the socket did not take whole is finished before the next begins.

use crate::BenchError;
use crate::connection::{Connection, refuse_closing};
use crate::engine::Tally;
use crate::numbers::{count, length, nanos};
use crate::wire::{self, Fields, Frame, Kind, Publish, id};
use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

const TEMPLATE_BYTES: usize = 64 * 1024;

/// What holds a publisher back.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Limits {
    /// Messages without their confirm; `None` publishes without confirms.
    pub(crate) window: Option<u64>,
    /// Messages per second.
    pub(crate) rate: Option<u64>,
    /// Messages in all.
    pub(crate) messages: Option<u64>,
}

/// The state of one publisher between writes.
#[derive(Debug)]
pub(crate) struct Publisher {
    template: Vec<u8>,
    message_bytes: usize,
    /// Where in the message the stamp goes, if messages are stamped.
    stamp_at: Option<usize>,
    limits: Limits,
    submitted: u64,
    /// What is left of the current run.
    run: Range<usize>,
    unconfirmed: Unconfirmed,
}

impl Publisher {
    /// Encodes the message and, where a window is set, puts the channel into confirm mode.
    pub(crate) fn attach(
        connection: &mut Connection,
        publish: Publish<'_>,
        limits: Limits,
        stamped: bool,
    ) -> Result<Self, BenchError> {
        if limits.window.is_some() {
            connection.call(id::CONFIRM_SELECT, id::CONFIRM_SELECT_OK, |out| out.push(0))?;
        }
        let mut template = Vec::with_capacity(TEMPLATE_BYTES);
        publish.put(&mut template);
        let message_bytes = template.len();
        let message = template.clone();
        let copies = (TEMPLATE_BYTES / message_bytes).max(1);
        (1..copies).for_each(|_| template.extend_from_slice(&message));
        // The first body frame's payload: all but one frame end follows it in a single-frame body.
        let first_frame = publish
            .body_bytes
            .min(publish.frame_bytes_max - wire::FRAME_OVERHEAD_BYTES);
        let body_wire = publish.body_bytes
            + wire::FRAME_OVERHEAD_BYTES * publish.body_bytes.div_ceil(first_frame.max(1));
        let stamp_at = (stamped && first_frame >= 8)
            .then_some(message_bytes - body_wire + wire::FRAME_OVERHEAD_BYTES - 1);
        Ok(Self {
            template,
            message_bytes,
            stamp_at,
            limits,
            submitted: 0,
            run: 0..0,
            unconfirmed: Unconfirmed::default(),
        })
    }

    /// Whether its messages are confirmed.
    pub(crate) fn confirms(&self) -> bool {
        self.limits.window.is_some()
    }

    /// Whether it would write now, were the socket to take it. `room` is how many more messages
    /// the run's backlog allows.
    pub(crate) fn wants_to_write(&self, now: u64, room: u64) -> bool {
        !self.run.is_empty() || self.allowed(now, room) > 0
    }

    /// Writes one run, or what is left of one. Returns how many messages it began.
    pub(crate) fn write(
        &mut self,
        connection: &Connection,
        now: u64,
        room: u64,
    ) -> Result<u64, BenchError> {
        let mut begun = 0;
        if self.run.is_empty() {
            begun = self.allowed(now, room);
            self.begin(begun, now);
        }
        if let Some(bytes @ [_, ..]) = self.template.get(self.run.clone())
            && let Some(size) = Connection::write(connection.stream(), bytes)?
        {
            self.run.start += size;
        }
        Ok(begun)
    }

    /// When the rate next allows a message, in nanoseconds since the epoch.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        let rate = u128::from(self.limits.rate?);
        let due = (u128::from(self.submitted) + 1) * 1_000_000_000 / rate;
        Some(Duration::from_nanos(u64::try_from(due).unwrap_or(u64::MAX)))
    }

    /// Takes one frame from the broker.
    pub(crate) fn handle(
        &mut self,
        frame: Frame<'_>,
        now: u64,
        tally: &mut Tally,
    ) -> Result<(), BenchError> {
        if frame.kind != Kind::Method {
            return Ok(());
        }
        let mut fields = Fields(frame.payload);
        let method = fields.method();
        let (Some(id::BASIC_ACK | id::BASIC_NACK), Some(tag), Some(bits)) =
            (method, fields.u64(), fields.u8())
        else {
            return refuse_closing(frame);
        };
        let record_latency = self.stamp_at.is_none();
        let settled = self.unconfirmed.settle(tag, bits & 1 == 1, |sent| {
            if record_latency {
                tally.latency.record(now.saturating_sub(sent));
            }
        });
        if method == Some(id::BASIC_ACK) {
            tally.confirmed += settled;
        } else {
            tally.nacked += settled;
        }
        Ok(())
    }

    /// The bytes that complete the message which is half out, if one is.
    pub(crate) fn rest_of_message(&self) -> &[u8] {
        let end = self.run.start.next_multiple_of(self.message_bytes);
        self.template
            .get(self.run.start..end.min(self.run.end))
            .unwrap_or_default()
    }

    fn allowed(&self, now: u64, room: u64) -> u64 {
        let copies = count(self.template.len() / self.message_bytes);
        let window = self.limits.window.map_or(copies, |size| {
            size.saturating_sub(self.unconfirmed.outstanding)
        });
        let left = self
            .limits
            .messages
            .map_or(copies, |all| all.saturating_sub(self.submitted));
        let due = self.limits.rate.map_or(copies, |rate| {
            let due = u128::from(now) * u128::from(rate) / 1_000_000_000;
            u64::try_from(due)
                .unwrap_or(u64::MAX)
                .saturating_sub(self.submitted)
        });
        copies.min(window).min(left).min(due).min(room)
    }

    fn begin(&mut self, messages: u64, now: u64) {
        self.submitted += messages;
        let size = length(messages) * self.message_bytes;
        self.run = 0..size;
        if self.limits.window.is_some() {
            self.unconfirmed.submit(messages, now);
        }
        if let Some(at) = self.stamp_at
            && let Some(run) = self.template.get_mut(..size)
        {
            for message in run.chunks_exact_mut(self.message_bytes) {
                if let Some(stamp) = message.get_mut(at..at + 8) {
                    stamp.copy_from_slice(&now.to_be_bytes());
                }
            }
        }
    }
}

/// Publishes without their confirm, in the order of their delivery tags.
#[derive(Debug, Default)]
struct Unconfirmed {
    /// When each was sent; `None` once confirmed while an older one is not.
    sent: VecDeque<Option<u64>>,
    /// How many confirms came for the front: the tag of `sent[0]` is this plus one.
    tag_below: u64,
    outstanding: u64,
}

impl Unconfirmed {
    fn submit(&mut self, messages: u64, now: u64) {
        self.sent
            .extend(std::iter::repeat_n(Some(now), length(messages)));
        self.outstanding += messages;
    }

    /// Settles one tag, or with `multiple` all up to it (0: all). Returns how many that were.
    fn settle(&mut self, tag: u64, multiple: bool, mut each: impl FnMut(u64)) -> u64 {
        let all = self.tag_below + count(self.sent.len());
        let last = if multiple && tag == 0 {
            all
        } else {
            tag.min(all)
        };
        let before = self.outstanding;
        if multiple {
            while self.tag_below < last
                && let Some(slot) = self.sent.pop_front()
            {
                self.tag_below += 1;
                if let Some(sent) = slot {
                    self.outstanding -= 1;
                    each(sent);
                }
            }
        } else if let Some(index) = tag.checked_sub(self.tag_below + 1)
            && let Some(sent) = self.sent.get_mut(length(index)).and_then(Option::take)
        {
            self.outstanding -= 1;
            each(sent);
        }
        while let Some(None) = self.sent.front() {
            self.sent.pop_front();
            self.tag_below += 1;
        }
        before - self.outstanding
    }
}

/// The run's clock: nanoseconds since `epoch`.
pub(crate) fn clock(epoch: std::time::Instant) -> u64 {
    nanos(epoch.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confirms_in_any_order_settle_each_message_once() {
        let mut unconfirmed = Unconfirmed::default();
        unconfirmed.submit(6, 7);
        let mut sent = Vec::new();
        assert_eq!(unconfirmed.settle(3, false, |at| sent.push(at)), 1);
        assert_eq!(unconfirmed.settle(3, false, |at| sent.push(at)), 0);
        assert_eq!(unconfirmed.settle(1, false, |at| sent.push(at)), 1);
        assert_eq!(unconfirmed.settle(4, true, |at| sent.push(at)), 2);
        assert_eq!(unconfirmed.outstanding, 2);
        assert_eq!(unconfirmed.settle(99, false, |at| sent.push(at)), 0);
        assert_eq!(unconfirmed.settle(0, true, |at| sent.push(at)), 2);
        assert_eq!((unconfirmed.outstanding, unconfirmed.tag_below), (0, 6));
        assert_eq!(sent, [7; 6]);
        unconfirmed.submit(1, 8);
        assert_eq!(unconfirmed.settle(7, true, |at| assert_eq!(at, 8)), 1);
    }
}
