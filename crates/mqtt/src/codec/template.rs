//! A PUBLISH that goes to many: written once, then copied with what differs.
//!
//! ```text
//! │ type, DUP, QoS, RETAIN │ length │ topic name │ packet identifier │ properties │ payload │
//!   ^^^^^^^^^^^^^^^^^^^^^^                         ^^^^^^^^^^^^^^^^^ these two differ
//! ```

use super::encode::{Oversize, PublishParts, put_publish_head};
use super::packet::{PacketId, Version};
use super::publish::{Qos, first_byte};
use super::topic::TopicName;

/// One message as bytes, for all receivers of one version that get the same properties and a
/// packet identifier, or none. Empty until prepared; its memory is used again.
#[derive(Clone, Debug, Default)]
pub struct PublishTemplate {
    bytes: Vec<u8>,
    /// Where the packet identifier stands, if it has one.
    id_at: Option<usize>,
    payload_bytes_apart: usize,
}

/// What differs from receiver to receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// It was sent before.
    pub dup: bool,
    /// At least once and exactly once take a packet identifier.
    pub qos: Qos,
    /// §3.3.1.3.
    pub retain: bool,
    /// As the template was prepared.
    pub packet_id: Option<PacketId>,
}

impl Delivery {
    /// As it mostly is: QoS 0, neither DUP nor RETAIN.
    pub const PLAIN: Self = Self {
        dup: false,
        qos: Qos::AtMostOnce,
        retain: false,
        packet_id: None,
    };
}

/// A payload and where it goes.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'a> {
    /// Into the template, to be copied with it.
    Inside(&'a [u8]),
    /// The caller puts that many bytes behind what is written, say as a slice of its own.
    Apart(usize),
}

impl PublishTemplate {
    /// Writes the message down. `properties` are parts that follow one another, none before 5.0:
    /// what differs from group to group (expiry, subscription identifiers, alias) and what
    /// [`super::Properties::write_forwarded`] has kept.
    ///
    /// # Errors
    /// Longer than a remaining length can say; the template is empty then.
    pub fn prepare(
        &mut self,
        version: Version,
        topic: TopicName<'_>,
        has_packet_id: bool,
        properties: &[&[u8]],
        payload: Payload<'_>,
    ) -> Result<(), Oversize> {
        self.bytes.clear();
        self.id_at = None;
        let (inside, apart) = match payload {
            Payload::Inside(bytes) => (bytes, 0),
            Payload::Apart(count) => (&[][..], count),
        };
        self.payload_bytes_apart = apart;
        let id_at = put_publish_head(
            &mut self.bytes,
            first_byte(false, Qos::AtMostOnce, false),
            PublishParts {
                version,
                topic: topic.as_bytes(),
                packet_id: has_packet_id.then(|| PacketId::new(1)).flatten(),
                properties,
                payload_bytes: inside.len() + apart,
            },
        )?;
        self.id_at = has_packet_id.then_some(id_at);
        self.bytes.extend_from_slice(inside);
        Ok(())
    }

    /// Bytes of the whole packet, for the receiver's Maximum Packet Size.
    #[inline]
    pub fn packet_bytes(&self) -> usize {
        self.bytes.len() + self.payload_bytes_apart
    }

    /// True where deliveries need a packet identifier.
    #[inline]
    pub fn has_packet_id(&self) -> bool {
        self.id_at.is_some()
    }

    /// Appends it for one receiver.
    #[inline]
    pub fn write(&self, delivery: Delivery, out: &mut Vec<u8>) {
        debug_assert_eq!(delivery.packet_id.is_some(), self.id_at.is_some());
        debug_assert_eq!(
            delivery.packet_id.is_some(),
            delivery.qos != Qos::AtMostOnce
        );
        let start = out.len();
        out.extend_from_slice(&self.bytes);
        if let Some(first) = out.get_mut(start) {
            *first = first_byte(delivery.dup, delivery.qos, delivery.retain);
        }
        if let (Some(id_at), Some(packet_id)) = (self.id_at, delivery.packet_id) {
            let place = out
                .get_mut(start + id_at..)
                .and_then(|rest| rest.first_chunk_mut());
            if let Some(place) = place {
                *place = packet_id.number().to_be_bytes();
            }
        }
    }
}
