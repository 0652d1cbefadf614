//! The transmitting half of a connection, whatever it speaks.
//!
//! Both kinds are of the same shape: effects and what the protocol session has to say go in, and
//! bytes come out, none of them before the journal has committed what it waits for.

use menzil_core::{ChannelKey, Copy, Delivering, Effect, Sending, SessionRequest};

/// See the module.
pub(crate) enum Outbound {
    /// AMQP 0-9-1.
    Amqp(menzil_amqp::Outbound),
    /// MQTT.
    Mqtt(menzil_mqtt::Outbound),
}

impl Outbound {
    /// Where AMQP is spoken.
    pub(crate) fn amqp(&mut self) -> Option<&mut menzil_amqp::Outbound> {
        match self {
            Self::Amqp(outbound) => Some(outbound),
            Self::Mqtt(_) => None,
        }
    }

    /// Where MQTT is spoken.
    pub(crate) fn mqtt(&mut self) -> Option<&mut menzil_mqtt::Outbound> {
        match self {
            Self::Amqp(_) => None,
            Self::Mqtt(outbound) => Some(outbound),
        }
    }

    pub(crate) fn handle(&mut self, effect: Effect) {
        match self {
            Self::Amqp(outbound) => outbound.handle(effect),
            Self::Mqtt(outbound) => outbound.handle(effect),
        }
    }

    #[inline]
    pub(crate) fn deliver(&mut self, delivery: &Delivering<'_>) {
        // Nothing of a channel is for a session's client.
        if let Self::Amqp(outbound) = self {
            outbound.deliver(delivery);
        }
    }

    #[inline]
    pub(crate) fn deliver_copy(&mut self, copy: &Copy<'_>) {
        // Nothing of a session is for a channel.
        if let Self::Mqtt(outbound) = self {
            outbound.deliver_copy(copy);
        }
    }

    #[inline]
    pub(crate) fn confirm(&mut self, to: ChannelKey, after: u64, sequence: u64, accepted: bool) {
        if let Self::Amqp(outbound) = self {
            outbound.confirm(to.channel, after, sequence, accepted);
        }
    }

    /// Up to there is committed.
    pub(crate) fn committed(&mut self, index: u64) {
        match self {
            Self::Amqp(outbound) => outbound.committed(index),
            Self::Mqtt(outbound) => outbound.committed(index),
        }
    }

    /// Encodes what is due.
    pub(crate) fn flush(&mut self) {
        match self {
            Self::Amqp(outbound) => outbound.flush(),
            Self::Mqtt(outbound) => outbound.flush(),
        }
    }

    /// The index that the first that waits, waits for.
    pub(crate) fn waits_for(&self) -> Option<u64> {
        match self {
            Self::Amqp(outbound) => outbound.waits_for(),
            Self::Mqtt(outbound) => outbound.waits_for(),
        }
    }

    /// Credit of deliveries that were dropped instead of sent.
    pub(crate) fn take_credit(&mut self) -> u64 {
        match self {
            Self::Amqp(outbound) => outbound.take_credit(),
            Self::Mqtt(outbound) => outbound.take_credit(),
        }
    }

    /// Whether the shard is to be asked for something: what cannot be sent is done with.
    pub(crate) fn has_requests(&self) -> bool {
        match self {
            Self::Amqp(_) => false,
            Self::Mqtt(outbound) => outbound.has_requests(),
        }
    }

    /// See [`Outbound::has_requests`].
    pub(crate) fn take_requests(&mut self) -> Vec<SessionRequest> {
        match self {
            Self::Amqp(_) => Vec::new(),
            Self::Mqtt(outbound) => outbound.take_requests(),
        }
    }

    /// Hands over what is to be sent, if everything of before is sent.
    pub(crate) fn hand_over(&mut self, sending: &mut Sending) {
        match self {
            Self::Amqp(outbound) => outbound.hand_over(sending),
            Self::Mqtt(outbound) => outbound.hand_over(sending),
        }
    }

    /// Something that was handed over was sent.
    pub(crate) fn has_sent(&mut self, now_ms: u64) {
        match self {
            Self::Amqp(outbound) => outbound.has_sent(now_ms),
            Self::Mqtt(outbound) => outbound.has_sent(now_ms),
        }
    }

    /// Bytes that are encoded and not handed over.
    pub(crate) fn pending_bytes(&self) -> usize {
        match self {
            Self::Amqp(outbound) => outbound.pending_bytes(),
            Self::Mqtt(outbound) => outbound.pending_bytes(),
        }
    }

    /// An idle connection says that it lives where that is due, and keeps no buffers.
    pub(crate) fn rest(&mut self, now_ms: u64) {
        match self {
            Self::Amqp(outbound) => outbound.heartbeat(now_ms),
            Self::Mqtt(outbound) => outbound.rest(),
        }
    }

    /// Something cannot be sent: the own task is to look.
    pub(crate) fn has_failed(&self) -> bool {
        match self {
            Self::Amqp(outbound) => outbound.failure().is_some(),
            Self::Mqtt(outbound) => outbound.failure().is_some(),
        }
    }
}
