//! What a queue's arguments, or a policy, ask for, and what becomes of it.

use menzil_model::{Name, Table};

use super::arguments::read;
use super::{DeadLetters, Deduplication, DelayedRetry, Overflow, RetryKind, Settings};
use crate::refusal::Refusal;

/// Failed deliveries of a quorum queue's message where it is not said, as in RabbitMQ.
const QUORUM_DELIVERY_LIMIT: u64 = 20;

/// `None` is what is not said. Names and units are those of [`Settings`].
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Asked {
    pub(crate) is_quorum: bool,
    pub(crate) length_max: Option<u64>,
    pub(crate) bytes_max: Option<u64>,
    pub(crate) overflow: Option<Overflow>,
    pub(crate) message_ttl: Option<u64>,
    pub(crate) expires: Option<u64>,
    pub(crate) priority_max: u8,
    pub(crate) single_active_consumer: bool,
    /// Negative is none.
    pub(crate) delivery_limit: Option<i64>,
    pub(crate) consumer_timeout: Option<u64>,
    pub(crate) retry_kind: Option<RetryKind>,
    pub(crate) retry_min: Option<u64>,
    pub(crate) retry_max: Option<u64>,
    pub(crate) dead_letter_exchange: Option<Name>,
    pub(crate) dead_letter_routing_key: Option<Name>,
    pub(crate) at_least_once: Option<bool>,
    pub(crate) deduplication: Option<Box<Deduplication>>,
    pub(crate) group_header: Option<Name>,
}

impl Asked {
    /// What the arguments of a queue of that name ask for.
    pub(crate) fn of(queue: &Name, arguments: &Table) -> Result<Self, Refusal> {
        read(queue, arguments)
    }

    /// A dead-letter strategy by name: whether it is at least once.
    pub(crate) fn strategy(name: &[u8]) -> Option<bool> {
        match name {
            b"at-most-once" => Some(false),
            b"at-least-once" => Some(true),
            _ => None,
        }
    }

    /// What the queue does, with defaults for what is not said.
    pub(crate) fn resolve(self) -> Settings {
        let delayed_retry = self.delayed_retry();
        let delivery_limit = match self.delivery_limit {
            None => self.is_quorum.then_some(QUORUM_DELIVERY_LIMIT),
            Some(limit) => u64::try_from(limit).ok(),
        };
        Settings {
            length_max: self.length_max,
            bytes_max: self.bytes_max,
            overflow: self.overflow.unwrap_or_default(),
            message_ttl: self.message_ttl,
            expires: self.expires,
            priority_max: self.priority_max,
            single_active_consumer: self.single_active_consumer,
            counts_returns: self.is_quorum
                || delivery_limit.is_some()
                || delayed_retry.kind != RetryKind::Disabled,
            delivery_limit,
            consumer_timeout: self.consumer_timeout,
            delayed_retry,
            dead_letters: self.dead_letter_exchange.map(|exchange| {
                Box::new(DeadLetters {
                    exchange,
                    routing_key: self.dead_letter_routing_key,
                    at_least_once: self.at_least_once.unwrap_or_default(),
                })
            }),
            deduplication: self.deduplication,
            group_header: self.group_header,
        }
    }

    /// Without a shortest time there is no delay, and without a longest it does not grow, as in
    /// RabbitMQ.
    fn delayed_retry(&self) -> DelayedRetry {
        let kind = self.retry_kind.unwrap_or_default();
        match self.retry_min {
            Some(min) if min > 0 && kind != RetryKind::Disabled => DelayedRetry {
                kind,
                min,
                max: Some(self.retry_max.unwrap_or(min)),
            },
            _ => DelayedRetry::default(),
        }
    }
}
