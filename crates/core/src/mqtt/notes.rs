//! What a message is to MQTT, in its notes.
//!
//! ```text
//! notes := 0x80 | 0x40 if others | qos   topic length:varint topic   others length:varint others
//!          properties
//! ```
//!
//! The properties are those that go to subscribers as they came, in the order in which they came
//! (MQTT-3.3.2-17, -18): all of PUBLISH but the message expiry interval, the topic alias and the
//! subscription identifier. `others` are what is noted for AMQP, which begin with an octet below
//! 0x80 where they stand alone.

use menzil_model::wire::{Reader, Writer};

/// What notes say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TopicNotes<'a> {
    /// The quality of service that it was published with.
    pub qos: u8,
    /// Its topic.
    pub topic: &'a [u8],
    /// What else is noted of it.
    pub others: &'a [u8],
    /// Its properties as on the wire, without their length.
    pub properties: &'a [u8],
}

const OF_TOPIC: u8 = 0x80;
const HAS_OTHERS: u8 = 0x40;
const QOS: u8 = 0x03;

impl<'a> TopicNotes<'a> {
    /// Appends the notes.
    pub fn write(&self, out: &mut Vec<u8>) {
        let others = if self.others.is_empty() {
            0
        } else {
            HAS_OTHERS
        };
        out.put_u8(OF_TOPIC | others | self.qos & QOS);
        out.put_varint(self.topic.len() as u64);
        out.put(self.topic);
        if others != 0 {
            out.put_varint(self.others.len() as u64);
            out.put(self.others);
        }
        out.put(self.properties);
    }

    /// Reads notes; `None` where a message has none of a topic.
    pub fn read(notes: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(notes);
        let first = reader.u8().ok().filter(|first| first & OF_TOPIC != 0)?;
        let length = usize::try_from(reader.varint().ok()?).ok()?;
        let topic = reader.bytes(length).ok()?;
        let others = if first & HAS_OTHERS == 0 {
            &[][..]
        } else {
            let length = usize::try_from(reader.varint().ok()?).ok()?;
            reader.bytes(length).ok()?
        };
        Some(Self {
            qos: first & QOS,
            topic,
            others,
            properties: reader.rest(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(
            qos in 0..3_u8,
            topic in prop::collection::vec(any::<u8>(), 1..300),
            others in prop::collection::vec(any::<u8>(), 0..9),
            properties in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            let notes = TopicNotes { qos, topic: &topic, others: &others, properties: &properties };
            let mut out = Vec::new();
            notes.write(&mut out);
            prop_assert_eq!(TopicNotes::read(&out), Some(notes));
        }

        #[test]
        fn any_bytes_are_notes_or_none(bytes in prop::collection::vec(any::<u8>(), 0..50)) {
            let _ = TopicNotes::read(&bytes);
        }
    }

    #[test]
    fn notes_of_dead_letters_are_none_of_a_topic() {
        for first in 0..0x80 {
            assert_eq!(TopicNotes::read(&[first, 1, b't']), None);
        }
    }
}
