//! Packets after CONNECT that are no PUBLISH.

use bytes::Bytes;

use menzil_core::{Filter, Options, SessionRequest};

use super::{Inbound, Phase};
use crate::codec::{
    Ack, Decoded, Disconnect, Packet, PropertyId, ReasonCode, Subscribe, Subscription, Unsubscribe,
    decode,
};
use crate::session::action::{Action, Outgoing, Permission, Sink};
use crate::session::fault::Fault;

impl Inbound {
    /// The packet at the start of the input. Returns its length; 0 where more is needed.
    #[inline]
    pub(super) fn packet(&mut self, input: &[u8], out: &mut dyn Sink) -> Result<usize, Fault> {
        match decode(input, self.version, &self.rules)? {
            Decoded::Packet(Packet::Publish(publish), length) if self.phase == Phase::Running => {
                self.publish(&publish, out)?;
                Ok(length)
            }
            Decoded::Packet(packet, length) => {
                self.other_packet(&packet, out)?;
                Ok(length)
            }
            Decoded::Incomplete(needed) => {
                self.needed = needed;
                if needed > self.config.chunk_bytes && self.phase == Phase::Running {
                    return self.publish_start(input);
                }
                Ok(0)
            }
        }
    }

    fn other_packet(&mut self, packet: &Packet<'_>, out: &mut dyn Sink) -> Result<(), Fault> {
        if self.phase == Phase::Challenged
            && !matches!(packet, Packet::Auth(_) | Packet::Disconnect(_))
        {
            let text = "only AUTH or DISCONNECT may come before CONNACK [MQTT-3.1.2-30]";
            return Err(Fault::protocol(text));
        }
        match packet {
            Packet::PubAck(ack) => out.request(SessionRequest::Acknowledge {
                packet_id: ack.packet_id.number(),
            }),
            Packet::PubRec(ack) => out.request(received(ack)),
            Packet::PubRel(ack) => out.request(SessionRequest::Release {
                packet_id: ack.packet_id.number(),
            }),
            Packet::PubComp(ack) => out.request(SessionRequest::Complete {
                packet_id: ack.packet_id.number(),
            }),
            Packet::Subscribe(subscribe) => self.subscribe(subscribe, out),
            Packet::Unsubscribe(unsubscribe) => unsubscribe_of(unsubscribe, out),
            Packet::PingReq => out.action(Action::Send(Outgoing::PingResp)),
            Packet::Disconnect(disconnect) => self.disconnect_came(disconnect, out)?,
            Packet::Auth(auth) => self.auth(auth, out)?,
            // What the codec lets no client send; a PUBLISH that comes here came too early.
            Packet::ConnAck(_)
            | Packet::Publish(_)
            | Packet::SubAck(_)
            | Packet::UnsubAck(_)
            | Packet::PingResp => return Err(Fault::protocol("an unexpected packet")),
        }
        Ok(())
    }

    fn subscribe(&self, subscribe: &Subscribe<'_>, out: &mut dyn Sink) {
        let id = subscribe
            .properties
            .number(PropertyId::SubscriptionIdentifier);
        let mut filters = Vec::with_capacity(subscribe.subscriptions.count());
        for subscription in subscribe.subscriptions.iter() {
            let refused = self.refusal(&subscription, id.is_some(), out);
            let qos = subscription.options.qos.min(self.config.qos_max);
            let options = if self.version.is_5() {
                Options(subscription.options.to_byte()).with_qos(qos.number())
            } else {
                Options(qos.number())
            };
            filters.push(Filter {
                filter: Bytes::copy_from_slice(subscription.filter.as_bytes()),
                options,
                refused: refused.map(ReasonCode::number),
            });
        }
        out.request(SessionRequest::Subscribe {
            packet_id: subscribe.packet_id.number(),
            id: id.unwrap_or(0),
            filters,
        });
    }

    /// Why a subscription is not made.
    fn refusal(
        &self,
        subscription: &Subscription<'_>,
        has_id: bool,
        out: &mut dyn Sink,
    ) -> Option<ReasonCode> {
        let (config, filter) = (&self.config, &subscription.filter);
        if filter.group().is_some() && !config.shared_available {
            return Some(ReasonCode::SharedNotSupported);
        }
        if filter.has_wildcard() && !config.wildcard_available {
            return Some(ReasonCode::WildcardsNotSupported);
        }
        if has_id && !config.subscription_ids_available {
            return Some(ReasonCode::SubscriptionIdsNotSupported);
        }
        match out.may_subscribe(filter.as_bytes()) {
            Permission::Granted => None,
            Permission::Denied(reason) => Some(reason),
        }
    }

    fn disconnect_came(
        &mut self,
        disconnect: &Disconnect<'_>,
        out: &mut dyn Sink,
    ) -> Result<(), Fault> {
        let expiry = disconnect
            .properties
            .number(PropertyId::SessionExpiryInterval);
        if expiry.is_some_and(|expiry| expiry > 0) && !self.has_expiry {
            let text = "DISCONNECT: a session that ends with its connection gets no expiry \
                        [§3.14.2.2.2]";
            return Err(Fault::protocol(text));
        }
        self.goodbye(disconnect.reason, expiry, out);
        Ok(())
    }
}

fn received(ack: &Ack<'_>) -> SessionRequest {
    SessionRequest::Received {
        packet_id: ack.packet_id.number(),
        is_refused: ack.reason.is_error(),
    }
}

fn unsubscribe_of(unsubscribe: &Unsubscribe<'_>, out: &mut dyn Sink) {
    let filters = unsubscribe.filters.iter();
    let filters = filters.map(|filter| Bytes::copy_from_slice(filter.as_bytes()));
    out.request(SessionRequest::Unsubscribe {
        packet_id: unsubscribe.packet_id.number(),
        filters: filters.collect(),
    });
}
