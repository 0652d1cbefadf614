//! A publisher: writes messages that were encoded once, held back by window, rate and backlog.
//!
//! Messages leave in *runs*: a run is a stretch of the template, which holds each message of the
//! round (one per queue, say) and as many rounds as fit 64 KiB.

use crate::BenchError;
use crate::connection::{Connection, refuse_closing};
use crate::engine::Tally;
use crate::numbers::{count, length, nanos};
use crate::unconfirmed::Unconfirmed;
use crate::wire::{Fields, Frame, Kind, Publish, id};
use std::ops::Range;
use std::time::Duration;

const TEMPLATE_BYTES: usize = 64 * 1024;
/// The time a message was sent at, at the front of its body.
pub(crate) const STAMP_BYTES: usize = 8;

/// What holds a publisher back.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Limits {
    /// Messages without their confirm; `None` publishes without confirms.
    pub(crate) window: Option<u64>,
    /// Messages per second over all publishers, and how many these are.
    pub(crate) rate: Option<(u64, u64)>,
    /// Messages in all.
    pub(crate) messages: Option<u64>,
}

/// What is written into each body.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Marks {
    /// The time it is sent at.
    pub(crate) stamped: bool,
    /// The sender and the message's number, besides.
    pub(crate) numbered: bool,
    /// It is sent with a delay of so many milliseconds, from the least to the most; the time in
    /// the body is then the one at which it is due.
    pub(crate) delay: Option<(u64, u64)>,
}

/// The state of one publisher between writes.
#[derive(Debug)]
pub(crate) struct Publisher {
    template: Vec<u8>,
    message_bytes: usize,
    /// Every message is the same, so that a run may begin anywhere.
    uniform: bool,
    /// Which message of the template the next run begins with.
    cursor: u64,
    /// Where in a message its body begins, if that is written to.
    body_at: Option<usize>,
    /// Where in a message its delay lies, if it has one.
    delay_at: Option<usize>,
    marks: Marks,
    /// Which publisher this is.
    number: u32,
    limits: Limits,
    submitted: u64,
    unconfirmed: Unconfirmed,
}

impl Publisher {
    /// Encodes a round of messages and, where a window is set, puts the channel into confirm mode.
    pub(crate) fn attach<'a>(
        connection: &mut Connection,
        number: u32,
        round: impl Iterator<Item = Publish<'a>>,
        limits: Limits,
        marks: Marks,
    ) -> Result<Self, BenchError> {
        let (mut template, mut message_bytes, mut messages) = (Vec::new(), 0, 0usize);
        let mut channel = 1;
        let (mut body_from_end, mut delay_from_end) = (None, None);
        for publish in round {
            let before = template.len();
            publish.put(&mut template);
            message_bytes = template.len() - before;
            messages += 1;
            channel = publish.channel;
            body_from_end = publish.body_from_end();
            delay_from_end = publish.delay_from_end();
        }
        if messages == 0 || template.len() != messages * message_bytes {
            return Err(BenchError::Malformed("no messages of one length to send"));
        }
        if limits.window.is_some() {
            connection.queue(channel, id::CONFIRM_SELECT, |out| out.push(0));
            connection.wait_for(id::CONFIRM_SELECT_OK)?;
        }
        let one_round = template.clone();
        while template.len() + one_round.len() <= TEMPLATE_BYTES {
            template.extend_from_slice(&one_round);
        }
        Ok(Self {
            template,
            message_bytes,
            uniform: messages == 1,
            cursor: 0,
            body_at: body_from_end
                .filter(|_| marks.stamped || marks.numbered)
                .map(|distance| message_bytes - distance),
            delay_at: delay_from_end.map(|distance| message_bytes - distance),
            marks,
            number,
            limits,
            submitted: 0,
            unconfirmed: Unconfirmed::default(),
        })
    }

    /// Whether its messages are confirmed.
    pub(crate) fn confirms(&self) -> bool {
        self.limits.window.is_some()
    }

    /// How many messages it would send in one run now. `room` is how many more the run's backlog
    /// allows.
    pub(crate) fn allowed(&self, now: u64, room: u64) -> u64 {
        let copies = count(self.template.len() / self.message_bytes) - self.cursor;
        let window = self.limits.window.map_or(copies, |size| {
            size.saturating_sub(self.unconfirmed.outstanding())
        });
        let left = self
            .limits
            .messages
            .map_or(copies, |all| all.saturating_sub(self.submitted));
        let due = self.limits.rate.map_or(copies, |(rate, publishers)| {
            let due = u128::from(now) * u128::from(rate) / 1_000_000_000 / u128::from(publishers);
            u64::try_from(due)
                .unwrap_or(u64::MAX)
                .saturating_sub(self.submitted)
        });
        copies.min(window).min(left).min(due).min(room)
    }

    /// When the rate next allows a message, since the epoch.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        let (rate, publishers) = self.limits.rate?;
        let due = (u128::from(self.submitted) + 1) * u128::from(publishers) * 1_000_000_000;
        let due = due.div_ceil(u128::from(rate));
        Some(Duration::from_nanos(u64::try_from(due).unwrap_or(u64::MAX)))
    }

    /// Takes the next `messages` for sent and returns where in the template they lie.
    pub(crate) fn begin(&mut self, messages: u64, now: u64) -> Range<usize> {
        let start = length(self.cursor) * self.message_bytes;
        let run = start..start + length(messages) * self.message_bytes;
        if !self.uniform {
            let all = count(self.template.len() / self.message_bytes);
            self.cursor = (self.cursor + messages) % all;
        }
        if self.limits.window.is_some() {
            self.unconfirmed.submit(messages, now);
        }
        if self.body_at.is_some() || self.delay_at.is_some() {
            self.mark(run.clone(), now);
        }
        self.submitted += messages;
        run
    }

    pub(crate) fn bytes(&self, run: Range<usize>) -> &[u8] {
        self.template.get(run).unwrap_or_default()
    }

    /// What of a run must still leave so that its last begun message is whole.
    pub(crate) fn rest_of_message(&self, run: Range<usize>) -> &[u8] {
        let end = run.start.next_multiple_of(self.message_bytes);
        self.bytes(run.start..end.min(run.end))
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
        let record_latency = !self.marks.stamped;
        let settled = self
            .unconfirmed
            .settle(tag, bits & 1 == 1, |sent, messages| {
                if record_latency {
                    tally.latency.record(now.saturating_sub(sent), messages);
                }
            });
        if method == Some(id::BASIC_ACK) {
            tally.confirmed += settled;
        } else {
            tally.nacked += settled;
        }
        Ok(())
    }

    fn mark(&mut self, run: Range<usize>, now: u64) {
        let messages = self.template.get_mut(run).unwrap_or_default();
        let messages = messages.chunks_exact_mut(self.message_bytes);
        for (message_number, message) in (self.submitted..).zip(messages) {
            let mut stamp = now;
            if let (Some(at), Some(span)) = (self.delay_at, self.marks.delay) {
                let delay = delay_of(span, u64::from(self.number) << 40 ^ message_number);
                stamp += u64::from(delay) * 1_000_000;
                fill(message, at, &delay.to_be_bytes());
            }
            let Some(at) = self.body_at else {
                continue;
            };
            fill(message, at, &stamp.to_be_bytes());
            if self.marks.numbered {
                fill(message, at + STAMP_BYTES, &self.number.to_be_bytes());
                let at = at + STAMP_BYTES + size_of_val(&self.number);
                fill(message, at, &message_number.to_be_bytes());
            }
        }
    }
}

fn fill(message: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(slot) = message.get_mut(at..at + bytes.len()) {
        slot.copy_from_slice(bytes);
    }
}

/// The milliseconds that a message waits: any of the span, the same in every run.
fn delay_of((least, most): (u64, u64), number: u64) -> u32 {
    let mut mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    let delay = least + (mixed ^ mixed >> 31) % (most - least + 1);
    u32::try_from(delay).unwrap_or(u32::MAX)
}

/// The run's clock: nanoseconds since `epoch`.
pub(crate) fn clock(epoch: std::time::Instant) -> u64 {
    nanos(epoch.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_spread_over_their_span() {
        let delays: Vec<u32> = (0..1000).map(|number| delay_of((5, 9), number)).collect();
        assert!((5..=9).all(|delay| delays.iter().filter(|one| **one == delay).count() > 150));
        assert!(delays.iter().all(|delay| (5..=9).contains(delay)));
        assert_eq!(delay_of((2000, 2000), 7), 2000);
    }
}
