//! A publisher: writes messages that were encoded once, held back by window, rate and backlog.
//!
//! Messages leave in *runs*: a run is a stretch of the template, which holds the same message as
//! often as fits 64 KiB. Identifier, topic number and time are written into it before it leaves.

use super::flight::Flight;
use super::names::{NUMBER_BYTES, number_bytes};
use super::wire::{self, Packet, Publish, Version, first, kind};
use crate::BenchError;
use crate::engine::Tally;
use crate::numbers::{count, length};
use std::ops::Range;
use std::time::Duration;

const TEMPLATE_BYTES: usize = 64 * 1024;
/// The time a message was sent at, at the front of its payload.
pub(crate) const STAMP_BYTES: usize = 8;

/// What holds a publisher back.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Limits {
    /// Publishes of QoS 1 and 2 whose exchange is not at its end.
    pub(crate) window: u16,
    /// Messages per second over all publishers, and how many these are.
    pub(crate) rate: Option<(u64, u64)>,
    /// Messages in all.
    pub(crate) messages: Option<u64>,
}

/// The topics that a publisher takes in turn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn {
    pub(crate) first: u64,
    pub(crate) topics: u64,
}

/// The state of one publisher between writes.
#[derive(Debug)]
pub(crate) struct Publisher {
    template: Vec<u8>,
    message_bytes: usize,
    version: Version,
    /// Where in a message its identifier lies, if it has one.
    id_at: Option<usize>,
    /// Where in a message the number of its topic lies, if there is more than one.
    number_at: Option<usize>,
    turn: Turn,
    /// Where in a message the time lies, if it carries one.
    stamp_at: Option<usize>,
    limits: Limits,
    submitted: u64,
    flight: Flight,
}

impl Publisher {
    pub(crate) fn new(message: Publish<'_>, turn: Turn, limits: Limits, stamped: bool) -> Self {
        let mut one = Vec::new();
        message.put(&mut one);
        let message_bytes = one.len();
        let copies = (TEMPLATE_BYTES / message_bytes).max(1);
        let from_end = message.distances();
        Self {
            template: one.repeat(copies),
            message_bytes,
            version: message.version,
            id_at: (message.qos > 0).then(|| message_bytes - from_end.id),
            number_at: (turn.topics > 1).then(|| message_bytes - from_end.topic_end - NUMBER_BYTES),
            turn,
            stamp_at: stamped.then(|| message_bytes - from_end.payload),
            limits,
            submitted: 0,
            flight: Flight::new(limits.window),
        }
    }

    /// Whether its messages are acknowledged.
    pub(crate) fn confirms(&self) -> bool {
        self.id_at.is_some()
    }

    /// Messages whose exchange is not at its end.
    pub(crate) fn outstanding(&self) -> u64 {
        self.flight.outstanding()
    }

    /// How many messages it would send in one run now. `room` is how many more the run's backlog
    /// allows.
    pub(crate) fn allowed(&self, now: u64, room: u64) -> u64 {
        let copies = count(self.template.len() / self.message_bytes);
        let window = if self.confirms() {
            self.flight.free()
        } else {
            copies
        };
        let all = self.limits.messages;
        let left = all.map_or(copies, |all| all.saturating_sub(self.submitted));
        let due = self.limits.rate.map_or(copies, |(rate, publishers)| {
            let due = u128::from(now) * u128::from(rate) / 1_000_000_000 / u128::from(publishers);
            let due = u64::try_from(due).unwrap_or(u64::MAX);
            due.saturating_sub(self.submitted)
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
        let run = 0..length(messages) * self.message_bytes;
        let part = self.template.get_mut(run.clone()).unwrap_or_default();
        let (id_at, number_at, stamp_at) = (self.id_at, self.number_at, self.stamp_at);
        if id_at.is_some() || number_at.is_some() || stamp_at.is_some() {
            for message in part.chunks_exact_mut(self.message_bytes) {
                if let Some(at) = id_at {
                    fill(message, at, &self.flight.begin(now).to_be_bytes());
                }
                if let Some(at) = number_at {
                    let number = (self.turn.first + self.submitted) % self.turn.topics;
                    fill(message, at, &number_bytes(number));
                }
                if let Some(at) = stamp_at {
                    fill(message, at, &now.to_be_bytes());
                }
                self.submitted += 1;
            }
        } else {
            self.submitted += messages;
        }
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

    /// Takes one packet from the broker and answers it into `output`.
    pub(crate) fn handle(
        &mut self,
        packet: Packet<'_>,
        now: u64,
        output: &mut Vec<u8>,
        tally: &mut Tally,
    ) -> Result<(), BenchError> {
        let kind = packet.kind();
        if !matches!(kind, kind::PUBACK | kind::PUBREC | kind::PUBCOMP) {
            return Ok(());
        }
        let (id, code) = packet.acknowledged(self.version)?;
        let refused = code >= 0x80;
        if kind == kind::PUBREC && !refused {
            self.flight.release(id)?;
            wire::put_ack(output, first::PUBREL, id);
            return Ok(());
        }
        let sent = self.flight.end(id)?;
        if refused {
            tally.nacked += 1;
        } else {
            tally.confirmed += 1;
        }
        if self.stamp_at.is_none() {
            tally.latency.record(now.saturating_sub(sent), 1);
        }
        Ok(())
    }
}

fn fill(message: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(slot) = message.get_mut(at..at + bytes.len()) {
        slot.copy_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn publisher(qos: u8, topics: u64, limits: Limits) -> Publisher {
        let message = Publish {
            version: Version::V311,
            topic: "bench/x/000/000/000",
            qos,
            retain: false,
            payload_bytes: 16,
        };
        Publisher::new(message, Turn { first: 0, topics }, limits, true)
    }

    /// Each message as identifier, topic and time.
    fn messages(bytes: &[u8]) -> Vec<(u16, String, u64)> {
        let mut rest = bytes;
        let mut found = Vec::new();
        while let Some(packet) = wire::split(&mut rest).unwrap() {
            let (id, payload) = packet.published().unwrap();
            let topic = String::from_utf8(packet.body[2..21].to_vec()).unwrap();
            let time = u64::from_be_bytes(payload[..8].try_into().unwrap());
            found.push((id, topic, time));
        }
        assert!(rest.is_empty());
        found
    }

    #[test]
    fn a_run_has_identifiers_topics_and_times() {
        let limits = Limits {
            window: 3,
            ..Limits::default()
        };
        let mut publisher = publisher(1, 2, limits);
        assert_eq!(publisher.allowed(0, 100), 3);
        assert_eq!(publisher.allowed(0, 2), 2);
        let run = publisher.begin(3, 77);
        let topic = |number| format!("bench/x/000/000/00{number}");
        assert_eq!(
            messages(publisher.bytes(run)),
            [(1, topic(0), 77), (2, topic(1), 77), (3, topic(0), 77)]
        );
        assert_eq!(publisher.allowed(0, 100), 0);
        let ack = |bytes: &'static [u8]| wire::split(&mut &*bytes).unwrap().unwrap();
        let (mut output, mut tally) = (Vec::new(), Tally::new());
        publisher
            .handle(ack(&[0x40, 2, 0, 2]), 99, &mut output, &mut tally)
            .unwrap();
        assert_eq!((tally.confirmed, publisher.outstanding()), (1, 2));
        let run = publisher.begin(1, 100);
        assert_eq!(messages(publisher.bytes(run)), [(2, topic(1), 100)]);
        assert!(output.is_empty());
    }

    #[test]
    fn an_exchange_of_qos_2_ends_with_its_pubcomp_or_a_refusal() {
        let limits = Limits {
            window: 2,
            ..Limits::default()
        };
        let mut publisher = publisher(2, 1, limits);
        publisher.version = Version::V5;
        let _run = publisher.begin(2, 1);
        let (mut output, mut tally) = (Vec::new(), Tally::new());
        for bytes in [
            &[0x50, 2, 0, 1][..],
            &[0x70, 2, 0, 1],
            &[0x50, 3, 0, 2, 0x97],
        ] {
            let packet = wire::split(&mut &*bytes).unwrap().unwrap();
            publisher
                .handle(packet, 2, &mut output, &mut tally)
                .unwrap();
        }
        assert_eq!(output, [0x62, 2, 0, 1]);
        assert_eq!((tally.confirmed, tally.nacked), (1, 1));
        assert_eq!(publisher.allowed(0, 9), 2);
    }

    #[test]
    fn a_rate_and_a_number_of_messages_hold_it_back() {
        let limits = Limits {
            rate: Some((1000, 2)),
            messages: Some(4),
            ..Limits::default()
        };
        let mut publisher = publisher(0, 1, limits);
        assert_eq!(publisher.allowed(2_000_000, 100), 1);
        assert_eq!(publisher.next_due(), Some(Duration::from_millis(2)));
        assert_eq!(publisher.allowed(1_000_000_000, 100), 4);
        let _run = publisher.begin(4, 0);
        assert_eq!(publisher.allowed(2_000_000_000, 100), 0);
    }
}
