//! A consumer: counts deliveries, takes latencies off stamped bodies, acknowledges.

use crate::BenchError;
use crate::connection::{Connection, refuse_closing};
use crate::engine::Tally;
use crate::wire::{self, Fields, Frame, Kind, id};

/// How a consumer settles what it gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Acks {
    /// The broker settles on delivery.
    Auto,
    /// One `basic.ack` per so many messages, `multiple` where it is more than one.
    Every(u64),
}

/// The state of one consumer between frames.
#[derive(Debug)]
pub(crate) struct Consumer {
    acks: Acks,
    stamped: bool,
    delivery_tag: u64,
    unacked: u64,
    body_left: u64,
    /// The next body frame is its message's first.
    at_start: bool,
}

impl Consumer {
    /// Queues `basic.qos` and `basic.consume`; their answers are read under load.
    pub(crate) fn attach(
        connection: &mut Connection,
        queue: &str,
        prefetch: u16,
        acks: Acks,
        stamped: bool,
    ) -> Self {
        connection.queue(1, id::BASIC_QOS, |out| {
            out.extend_from_slice(&[0; 4]);
            out.extend_from_slice(&prefetch.to_be_bytes());
            out.push(0);
        });
        connection.queue(1, id::BASIC_CONSUME, |out| {
            out.extend_from_slice(&[0, 0]);
            wire::put_short(out, queue);
            wire::put_short(out, "c");
            out.push(if acks == Acks::Auto { 0b10 } else { 0 });
            out.extend_from_slice(&[0; 4]);
        });
        Self {
            acks,
            stamped,
            delivery_tag: 0,
            unacked: 0,
            body_left: 0,
            at_start: false,
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
                let mut fields = Fields(frame.payload);
                self.body_left = fields
                    .u32()
                    .and_then(|_| fields.u64())
                    .ok_or(BenchError::Malformed("a content header too short"))?;
                self.at_start = true;
                if self.body_left > 0 {
                    return Ok(());
                }
            }
            Kind::Body => {
                if self.stamped
                    && self.at_start
                    && let Some(stamp) = Fields(frame.payload).u64()
                {
                    tally.latency.record(now.saturating_sub(stamp));
                }
                self.at_start = false;
                self.body_left = self
                    .body_left
                    .checked_sub(crate::numbers::count(frame.payload.len()))
                    .ok_or(BenchError::Malformed("more body than its header said"))?;
                if self.body_left > 0 {
                    return Ok(());
                }
            }
            Kind::Heartbeat => return Ok(()),
        }
        tally.delivered += 1;
        if let Acks::Every(batch) = self.acks {
            self.acknowledge(batch, output);
        }
        Ok(())
    }

    fn method(&mut self, frame: Frame<'_>) -> Result<(), BenchError> {
        let mut fields = Fields(frame.payload);
        match fields.method() {
            Some(id::BASIC_DELIVER) => {
                self.delivery_tag = fields
                    .short_string()
                    .and_then(|_| fields.u64())
                    .ok_or(BenchError::Malformed("a basic.deliver too short"))?;
                Ok(())
            }
            Some(id::BASIC_QOS_OK | id::BASIC_CONSUME_OK) => Ok(()),
            _ => refuse_closing(frame),
        }
    }

    fn acknowledge(&mut self, batch: u64, output: &mut Vec<u8>) {
        self.unacked += 1;
        if self.unacked < batch {
            return;
        }
        let multiple = u8::from(self.unacked > 1);
        self.unacked = 0;
        let tag = self.delivery_tag;
        wire::put_method(output, 1, id::BASIC_ACK, |out| {
            out.extend_from_slice(&tag.to_be_bytes());
            out.push(multiple);
        });
    }
}
