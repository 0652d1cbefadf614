//! A consumer: counts deliveries, takes latencies off stamped bodies, acknowledges.

use crate::BenchError;
use crate::connection::{Connection, refuse_closing};
use crate::engine::Tally;
use crate::options::Acks;
use crate::publisher::{Marks, STAMP_BYTES};
use crate::wire::{self, Fields, Frame, Kind, id};

/// A time, a sender and a number, at the front of a body.
pub(crate) const ORDER_BYTES: usize = STAMP_BYTES + 4 + 8;

/// The state of one consumer between frames.
#[derive(Debug)]
pub(crate) struct Consumer {
    channel: u16,
    acks: Acks,
    marks: Marks,
    delivery_tag: u64,
    unacked: u64,
    body_left: u64,
    /// The next body frame is its message's first.
    at_start: bool,
    /// The number that is expected next, at least, from each sender.
    next_numbers: Vec<u64>,
}

impl Consumer {
    /// Queues `basic.qos` and a `basic.consume` per queue; their answers are read under load.
    pub(crate) fn attach<'a>(
        connection: &mut Connection,
        channel: u16,
        queues: impl Iterator<Item = &'a str>,
        prefetch_count: u16,
        acks: Acks,
        marks: Marks,
    ) -> Self {
        connection.queue(channel, id::BASIC_QOS, |out| {
            out.extend_from_slice(&[0; 4]);
            out.extend_from_slice(&prefetch_count.to_be_bytes());
            out.push(0);
        });
        for (index, queue) in queues.enumerate() {
            connection.queue(channel, id::BASIC_CONSUME, |out| {
                out.extend_from_slice(&[0, 0]);
                wire::put_short(out, queue);
                wire::put_short(out, &format!("c{index}"));
                out.push(if acks == Acks::Auto { 0b10 } else { 0 });
                out.extend_from_slice(&[0; 4]);
            });
        }
        Self {
            acks,
            ..Self::bare(channel, marks)
        }
    }

    /// One that asks for nothing and settles nothing.
    pub(crate) fn bare(channel: u16, marks: Marks) -> Self {
        Self {
            channel,
            acks: Acks::Auto,
            marks,
            delivery_tag: 0,
            unacked: 0,
            body_left: 0,
            at_start: false,
            next_numbers: Vec::new(),
        }
    }

    /// Takes one frame; `now` is in nanoseconds since the run's epoch, as are the stamps.
    #[inline]
    pub(crate) fn handle(
        &mut self,
        frame: Frame<'_>,
        now: u64,
        output: &mut Vec<u8>,
        tally: &mut Tally,
    ) -> Result<(), BenchError> {
        match frame.kind {
            Kind::Method => return self.method(frame),
            Kind::Header => {
                let Some(&[_, _, _, _, b0, b1, b2, b3, b4, b5, b6, b7]) =
                    frame.payload.first_chunk::<12>()
                else {
                    return Err(BenchError::Malformed("a content header too short"));
                };
                self.body_left = u64::from_be_bytes([b0, b1, b2, b3, b4, b5, b6, b7]);
                self.at_start = true;
                if self.body_left > 0 {
                    return Ok(());
                }
            }
            Kind::Body => {
                if self.at_start && (self.marks.stamped || self.marks.numbered) {
                    self.look_at(frame.payload, now, tally);
                }
                self.at_start = false;
                let size = crate::numbers::count(frame.payload.len());
                if size > self.body_left {
                    return Err(BenchError::Malformed("more body than its header said"));
                }
                self.body_left -= size;
                if self.body_left > 0 {
                    return Ok(());
                }
            }
            Kind::Heartbeat => return Ok(()),
        }
        tally.delivered += 1;
        if let Acks::Every(batch) = self.acks {
            self.unacked += 1;
            if self.unacked >= batch {
                wire::put_ack(output, self.channel, self.delivery_tag, batch > 1);
                self.unacked = 0;
            }
        }
        Ok(())
    }

    #[inline]
    fn method(&mut self, frame: Frame<'_>) -> Result<(), BenchError> {
        let mut fields = Fields(frame.payload);
        match fields.method() {
            Some(id::BASIC_DELIVER) => {
                if self.acks != Acks::Auto {
                    let Some(tag) = fields.short_string().and_then(|_| fields.u64()) else {
                        return Err(BenchError::Malformed("a basic.deliver too short"));
                    };
                    self.delivery_tag = tag;
                }
                Ok(())
            }
            Some(id::BASIC_QOS_OK | id::BASIC_CONSUME_OK) => Ok(()),
            _ => refuse_closing(frame),
        }
    }

    fn look_at(&mut self, body: &[u8], now: u64, tally: &mut Tally) {
        let mut fields = Fields(body);
        let Some(sent) = fields.u64() else {
            return;
        };
        if self.marks.stamped {
            tally.latency.record(now.saturating_sub(sent), 1);
        }
        if self.marks.numbered {
            let (Some(sender), Some(number)) = (fields.u32(), fields.u64()) else {
                return;
            };
            let sender = crate::numbers::length(u64::from(sender));
            if sender >= self.next_numbers.len() {
                self.next_numbers.resize(sender + 1, 0);
            }
            if let Some(next) = self.next_numbers.get_mut(sender) {
                // Several consumers share a queue: numbers may be left out, never repeated.
                tally.misordered += u64::from(number < *next);
                *next = (*next).max(number + 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::walk;

    fn delivery(number: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        wire::put_method(&mut bytes, 1, id::BASIC_DELIVER, |out| {
            wire::put_short(out, "c0");
            out.extend_from_slice(&(number + 1).to_be_bytes());
            out.push(0);
            wire::put_short(out, "x");
            wire::put_short(out, "key");
        });
        let body = [&[0; 8][..], &[0; 4], &number.to_be_bytes(), b"more"].concat();
        let header = [&[0, 60, 0, 0][..], &24u64.to_be_bytes(), &[0, 0]].concat();
        for (kind, payload) in [(2, &header[..]), (3, &body[..21]), (3, &body[21..])] {
            bytes.extend_from_slice(&[kind, 0, 1, 0, 0, 0, u8::try_from(payload.len()).unwrap()]);
            bytes.extend_from_slice(payload);
            bytes.push(0xCE);
        }
        bytes
    }

    fn consumer(acks: Acks) -> Consumer {
        Consumer {
            channel: 1,
            acks,
            marks: Marks {
                stamped: true,
                numbered: true,
                delay: None,
            },
            delivery_tag: 0,
            unacked: 0,
            body_left: 0,
            at_start: false,
            next_numbers: Vec::new(),
        }
    }

    /// Feeds the bytes in pieces, as reads may bring them.
    fn feed(bytes: &[u8], piece_bytes: usize, acks: Acks) -> (Tally, Vec<u8>) {
        let (mut consumer, mut tally) = (consumer(acks), Tally::new());
        let (mut input, mut output) = (Vec::new(), Vec::new());
        for piece in bytes.chunks(piece_bytes) {
            input.extend_from_slice(piece);
            let left = walk(&input, &mut |frame: Frame<'_>| {
                consumer.handle(frame, 5, &mut output, &mut tally)
            })
            .unwrap();
            input.drain(..input.len() - left);
        }
        assert!(input.is_empty());
        (tally, output)
    }

    #[test]
    fn deliveries_split_anywhere_are_counted_and_acknowledged_the_same() {
        let bytes: Vec<u8> = (0..10).flat_map(delivery).collect();
        let (_, whole) = feed(&bytes, bytes.len(), Acks::Every(3));
        for piece_bytes in 1..bytes.len() {
            let (tally, output) = feed(&bytes, piece_bytes, Acks::Every(3));
            assert_eq!((tally.delivered, tally.misordered), (10, 0));
            assert_eq!(tally.latency.max(), Some(5));
            assert_eq!(output, whole, "{piece_bytes}");
        }
        let mut acks = Vec::new();
        for tag in [3, 6, 9] {
            wire::put_ack(&mut acks, 1, tag, true);
        }
        assert_eq!(whole, acks);
    }

    #[test]
    fn messages_that_come_twice_or_too_late_are_counted() {
        for (numbers, misordered) in [
            (&[0, 1, 2][..], 0),
            (&[0, 2, 5], 0),
            (&[0, 1, 1], 1),
            (&[2, 0, 1], 2),
        ] {
            let bytes: Vec<u8> = numbers.iter().copied().flat_map(delivery).collect();
            let (tally, _) = feed(&bytes, bytes.len(), Acks::Auto);
            assert_eq!(tally.misordered, misordered, "{numbers:?}");
        }
    }
}
