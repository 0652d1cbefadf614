//! PUBLISH (§3.3).

use bytes::Bytes;

use menzil_core::{Body, TopicPublish};

use super::Inbound;
use super::assembly::{Assembly, parts_of};
use crate::codec::{
    Decoded, PacketId, Place, Properties, PropertyId, Publish, Qos, ReasonCode, TextPolicy,
    decode_publish_start,
};
use crate::session::action::{Action, Outgoing, OwnedPublish, Sink};
use crate::session::config::Denied;
use crate::session::fault::Fault;

impl Inbound {
    /// One that is all there.
    #[inline]
    pub(super) fn publish(
        &mut self,
        publish: &Publish<'_>,
        out: &mut dyn Sink,
    ) -> Result<(), Fault> {
        self.check_publish(publish, publish.payload.len())?;
        self.count_publish(publish.qos, out)?;
        self.scratch.clear();
        publish.properties.write_forwarded(&mut self.scratch);
        let topic = self
            .aliases
            .topic_of(publish, self.config.topic_alias_max)?;
        let parts;
        let payload = if publish.payload.len() > self.config.chunk_bytes {
            parts = parts_of(publish.payload, self.config.chunk_bytes);
            Body::Parts(&parts)
        } else {
            Body::Whole(publish.payload)
        };
        let message = TopicPublish {
            packet_id: publish.packet_id.map_or(0, PacketId::number),
            qos: publish.qos.number(),
            retain: publish.retain,
            topic,
            properties: &self.scratch,
            expiry: expiry_of(publish),
            payload,
        };
        if !may_publish(self.config.dollar_topics, topic, out) {
            let (packet_id, qos) = (message.packet_id, message.qos);
            let topic = Bytes::copy_from_slice(topic);
            self.deny(packet_id, qos, topic, out);
        } else if self.config.checks_payload_format && !is_well_formed(&message) {
            let (packet_id, qos) = (message.packet_id, message.qos);
            return refuse_format(packet_id, qos, out);
        } else {
            out.publish(&message);
        }
        Ok(())
    }

    /// What needs neither memory nor permission.
    #[inline]
    fn check_publish(&self, publish: &Publish<'_>, payload_bytes: usize) -> Result<(), Fault> {
        let config = &self.config;
        if publish.qos > config.qos_max {
            let text = "PUBLISH: the quality of service is over the maximum [MQTT-3.2.2-11]";
            return Err(Fault::new(ReasonCode::QosNotSupported, text));
        }
        if publish.retain && !config.retain_available {
            let text = "PUBLISH: retained messages are off here [MQTT-3.2.2-14]";
            return Err(Fault::new(ReasonCode::RetainNotSupported, text));
        }
        if payload_bytes as u64 > config.message_bytes_max {
            let text = "PUBLISH: the payload is larger than allowed";
            return Err(Fault::new(ReasonCode::PacketTooLarge, text));
        }
        let names_subscription = publish.properties.has(PropertyId::SubscriptionIdentifier);
        if names_subscription && !config.lets_subscription_ids_pass {
            let text = "PUBLISH: a client names no subscription [MQTT-3.3.4-6]";
            return Err(Fault::protocol(text));
        }
        Ok(())
    }

    /// Finds a client that has more on its way than it may (MQTT-3.3.4-7).
    #[inline]
    fn count_publish(&mut self, qos: Qos, out: &mut dyn Sink) -> Result<(), Fault> {
        if qos == Qos::AtMostOnce {
            return Ok(());
        }
        self.published += 1;
        let most = u64::from(self.config.receive_max);
        if self.published.saturating_sub(self.answered) <= most || !self.version.is_5() {
            return Ok(());
        }
        self.answered = out.answered();
        if self.published.saturating_sub(self.answered) <= most {
            return Ok(());
        }
        let text = "PUBLISH: more on their way than the Receive Maximum [MQTT-3.3.4-7]";
        Err(Fault::new(ReasonCode::ReceiveMaximumExceeded, text))
    }

    /// One whose payload is large and not all there: what comes of it is put into parts as it
    /// comes. Returns the length of its head; 0 where even that has not come, or the payload is
    /// not so large.
    pub(super) fn publish_start(&mut self, input: &[u8]) -> Result<usize, Fault> {
        let (start, head_bytes) = match decode_publish_start(input, self.version, &self.rules)? {
            Decoded::Packet(start, head_bytes) => (start, head_bytes),
            Decoded::Incomplete(needed) => {
                self.needed = needed.max(input.len() + 1).min(self.needed);
                return Ok(0);
            }
        };
        if start.payload_bytes <= self.config.chunk_bytes {
            return Ok(0);
        }
        let publish = &start.publish;
        self.check_publish(publish, start.payload_bytes)?;
        self.scratch.clear();
        publish.properties.write_forwarded(&mut self.scratch);
        let topic = self
            .aliases
            .topic_of(publish, self.config.topic_alias_max)?;
        let message = OwnedPublish {
            packet_id: publish.packet_id.map_or(0, PacketId::number),
            qos: publish.qos.number(),
            retain: publish.retain,
            topic: Bytes::copy_from_slice(topic),
            properties: Bytes::copy_from_slice(&self.scratch),
            expiry: expiry_of(publish),
            payload: Vec::new(),
        };
        let chunk_bytes = self.config.chunk_bytes;
        let assembly = Assembly::new(message, start.payload_bytes, chunk_bytes);
        self.assembly = Some(Box::new(assembly));
        Ok(head_bytes)
    }

    /// Payload of one that is under assembly. Returns how much that was.
    pub(super) fn payload(&mut self, input: &[u8], out: &mut dyn Sink) -> Result<usize, Fault> {
        let Some(assembly) = &mut self.assembly else {
            return Ok(0);
        };
        let taken = assembly.append(input);
        if assembly.is_complete()
            && let Some(assembly) = self.assembly.take()
        {
            self.publish_assembled(assembly.finish(), out)?;
        }
        Ok(taken)
    }

    fn publish_assembled(
        &mut self,
        publish: OwnedPublish,
        out: &mut dyn Sink,
    ) -> Result<(), Fault> {
        let qos = Qos::new(publish.qos).unwrap_or(Qos::AtMostOnce);
        self.count_publish(qos, out)?;
        if !may_publish(self.config.dollar_topics, &publish.topic, out) {
            self.deny(publish.packet_id, publish.qos, publish.topic, out);
            return Ok(());
        }
        let message = publish.borrowed();
        if self.config.checks_payload_format && !is_well_formed(&message) {
            return refuse_format(publish.packet_id, publish.qos, out);
        }
        out.publish(&message);
        Ok(())
    }

    /// It is not permitted: what has a word for that is told, and the next message is looked at.
    #[cold]
    fn deny(&mut self, packet_id: u16, qos: u8, topic: Bytes, out: &mut dyn Sink) {
        out.action(Action::Denied { topic, qos });
        if self.version.is_5() {
            if qos > 0 {
                let reason = ReasonCode::NotAuthorized;
                out.action(Action::Send(Outgoing::Refused {
                    packet_id,
                    qos,
                    reason,
                }));
            }
        } else if self.config.denied_before_5 == Denied::Close {
            self.close_denied(out);
        }
    }
}

#[inline]
fn expiry_of(publish: &Publish<'_>) -> Option<u32> {
    publish.properties.number(PropertyId::MessageExpiryInterval)
}

#[inline]
pub(super) fn may_publish(dollar_topics: bool, topic: &[u8], out: &mut dyn Sink) -> bool {
    (dollar_topics || topic.first() != Some(&b'$')) && out.may_publish(topic)
}

/// Whether the payload is what the payload format indicator says (§3.3.2.3.2).
fn is_well_formed(publish: &TopicPublish<'_>) -> bool {
    let place = Place::PublishFromServer;
    let properties = Properties::parse(publish.properties, place, TextPolicy::Any);
    let says_text = properties
        .is_ok_and(|properties| properties.number(PropertyId::PayloadFormatIndicator) == Some(1));
    if !says_text {
        return true;
    }
    match publish.payload {
        Body::Whole(payload) => str::from_utf8(payload).is_ok(),
        Body::Parts(parts) => str::from_utf8(&parts.concat()).is_ok(),
    }
}

/// The payload is no UTF-8 though it says to be (§3.3.2.3.2).
#[cold]
fn refuse_format(packet_id: u16, qos: u8, out: &mut dyn Sink) -> Result<(), Fault> {
    let reason = ReasonCode::PayloadFormatInvalid;
    if qos == 0 {
        let text = "PUBLISH: the payload is not UTF-8 [§3.3.2.3.2]";
        return Err(Fault::new(reason, text));
    }
    out.action(Action::Send(Outgoing::Refused {
        packet_id,
        qos,
        reason,
    }));
    Ok(())
}
