//! A subscriber: counts deliveries, takes latencies off stamped payloads, acknowledges.

use super::publisher::STAMP_BYTES;
use super::wire::{self, Packet, Version, first, kind};
use crate::BenchError;
use crate::engine::Tally;

/// The state of one subscriber between packets.
#[derive(Debug)]
pub(crate) struct Subscriber {
    pub(crate) version: Version,
    /// Payloads carry when they were sent.
    pub(crate) stamped: bool,
}

impl Subscriber {
    /// Takes one packet from the broker and answers it into `output`.
    #[inline]
    pub(crate) fn handle(
        &mut self,
        packet: Packet<'_>,
        now: u64,
        output: &mut Vec<u8>,
        tally: &mut Tally,
    ) -> Result<(), BenchError> {
        match packet.kind() {
            kind::PUBLISH => self.deliver(packet, now, output, tally),
            kind::PUBREL => {
                let (id, _) = packet.acknowledged(self.version)?;
                wire::put_ack(output, first::PUBCOMP, id);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn deliver(
        &self,
        packet: Packet<'_>,
        now: u64,
        output: &mut Vec<u8>,
        tally: &mut Tally,
    ) -> Result<(), BenchError> {
        tally.delivered += 1;
        let qos = packet.qos();
        if qos == 0 && !self.stamped {
            return Ok(());
        }
        let (id, rest) = packet.published()?;
        match qos {
            0 => {}
            1 => wire::put_ack(output, first::PUBACK, id),
            _ => wire::put_ack(output, first::PUBREC, id),
        }
        if self.stamped {
            let payload = wire::payload(rest, self.version)?;
            let stamp = payload
                .first_chunk::<STAMP_BYTES>()
                .ok_or(BenchError::Malformed("a message without its time"))?;
            let sent = u64::from_be_bytes(*stamp);
            tally.latency.record(now.saturating_sub(sent), 1);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deliveries_are_counted_timed_and_acknowledged() {
        let mut subscriber = Subscriber {
            version: Version::V5,
            stamped: true,
        };
        let (mut output, mut tally) = (Vec::new(), Tally::new());
        let stamp = [0, 0, 0, 0, 0, 0, 0, 40];
        for (flags, id) in [(0x30, None), (0x32, Some([0, 7])), (0x34, Some([0, 8]))] {
            let mut bytes = vec![flags, 0, 0, 1, b't'];
            bytes.extend(id.into_iter().flatten());
            bytes.push(0);
            bytes.extend(stamp);
            bytes[1] = u8::try_from(bytes.len() - 2).unwrap();
            let packet = wire::split(&mut &bytes[..]).unwrap().unwrap();
            subscriber
                .handle(packet, 100, &mut output, &mut tally)
                .unwrap();
        }
        let release = wire::split(&mut &[0x62, 2, 0, 8][..]).unwrap().unwrap();
        subscriber
            .handle(release, 100, &mut output, &mut tally)
            .unwrap();
        assert_eq!(output, [0x40, 2, 0, 7, 0x50, 2, 0, 8, 0x70, 2, 0, 8]);
        assert_eq!(tally.delivered, 3);
        assert_eq!(tally.latency.max(), Some(60));
    }
}
