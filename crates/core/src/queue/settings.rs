//! The arguments of `queue.declare` that this broker acts on.

mod arguments;
mod asked;
#[cfg(test)]
mod tests;

use menzil_model::{Escaped, Name, Table, Value};

use self::arguments::TTL_MAX;
use crate::refusal::Refusal;

pub(crate) use arguments::{Arguments, interval_of};
pub(crate) use asked::Asked;

/// What happens when a length limit is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Overflow {
    /// The oldest ready entries go.
    #[default]
    DropHead,
    /// The new message is refused.
    RejectPublish,
    /// The new message is refused and goes to the dead-letter exchange.
    RejectPublishDeadLetter,
}

impl Overflow {
    pub(crate) fn from_name(name: &[u8]) -> Option<Self> {
        match name {
            b"drop-head" => Some(Self::DropHead),
            b"reject-publish" => Some(Self::RejectPublish),
            b"reject-publish-dlx" => Some(Self::RejectPublishDeadLetter),
            _ => None,
        }
    }
}

/// Where messages go that leave the queue unacknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeadLetters {
    /// `x-dead-letter-exchange`.
    pub(crate) exchange: Name,
    /// `x-dead-letter-routing-key`; without one the message's own keys stay.
    pub(crate) routing_key: Option<Name>,
    /// `x-dead-letter-strategy=at-least-once`.
    pub(crate) at_least_once: bool,
}

/// Which returned messages wait before they are delivered again: `x-delayed-retry-type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum RetryKind {
    /// None.
    #[default]
    Disabled,
    /// All that come back.
    All,
    /// Those whose delivery failed, which counts.
    Failed,
    /// Those that were given back, which does not count.
    Returned,
}

impl RetryKind {
    pub(crate) fn from_name(name: &[u8]) -> Option<Self> {
        match name {
            b"disabled" => Some(Self::Disabled),
            b"all" => Some(Self::All),
            b"failed" => Some(Self::Failed),
            b"returned" => Some(Self::Returned),
            _ => None,
        }
    }
}

/// Delayed retry: a returned message waits `min` times its delivery count, at most `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct DelayedRetry {
    pub(crate) kind: RetryKind,
    /// `x-delayed-retry-min` in milliseconds.
    pub(crate) min: u64,
    /// `x-delayed-retry-max` in milliseconds.
    pub(crate) max: Option<u64>,
}

/// `x-deduplication`: a message whose key was stored here before is not stored again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Deduplication {
    /// `x-deduplication-header`; without one the key is the `message_id` property.
    pub(crate) header: Option<Name>,
    /// `x-deduplication-size`: keys that are remembered.
    pub(crate) size: u64,
    /// `x-deduplication-age` in milliseconds: how long they are.
    pub(crate) age: u64,
}

/// A queue's settings, from its arguments.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Settings {
    /// `x-max-length`: ready entries.
    pub(crate) length_max: Option<u64>,
    /// `x-max-length-bytes`: bytes of ready bodies.
    pub(crate) bytes_max: Option<u64>,
    /// `x-overflow`.
    pub(crate) overflow: Overflow,
    /// `x-message-ttl` in milliseconds.
    pub(crate) message_ttl: Option<u64>,
    /// `x-expires` in milliseconds.
    pub(crate) expires: Option<u64>,
    /// `x-max-priority`: the highest priority; 0 where the queue has none.
    pub(crate) priority_max: u8,
    /// `x-single-active-consumer`.
    pub(crate) single_active_consumer: bool,
    /// How often an entry comes back is counted, and its consumers are told.
    pub(crate) counts_returns: bool,
    /// `x-delivery-limit`: failed deliveries after which a message is dead-lettered.
    pub(crate) delivery_limit: Option<u64>,
    /// `x-consumer-timeout` in milliseconds: how long a delivery may stay unsettled.
    pub(crate) consumer_timeout: Option<u64>,
    /// `x-delayed-retry-*`.
    pub(crate) delayed_retry: DelayedRetry,
    /// `x-dead-letter-*`.
    pub(crate) dead_letters: Option<Box<DeadLetters>>,
    /// `x-deduplication*`.
    pub(crate) deduplication: Option<Box<Deduplication>>,
    /// `x-group-header`: messages with the same value go to one consumer at a time, in order.
    pub(crate) group_header: Option<Name>,
}

impl Settings {
    /// Whether so many ready entries are too many.
    pub(crate) fn is_over(&self, count: u64, bytes: u64) -> bool {
        self.length_max.is_some_and(|max| count > max)
            || self.bytes_max.is_some_and(|max| bytes > max)
    }
}

/// Arguments that take part in redeclare equivalence, in the order in which RabbitMQ compares
/// them on queues of either type.
pub(crate) fn compared(is_quorum: bool) -> &'static [&'static str] {
    if is_quorum {
        return &[
            "x-dead-letter-exchange",
            "x-dead-letter-routing-key",
            "x-dead-letter-strategy",
            "x-expires",
            "x-max-length",
            "x-max-length-bytes",
            "x-max-in-memory-length",
            "x-max-in-memory-bytes",
            "x-overflow",
            "x-single-active-consumer",
            "x-queue-type",
            "x-quorum-initial-group-size",
            "x-member-placement-tag",
            "x-delivery-limit",
            "x-message-ttl",
            "x-queue-leader-locator",
            "x-consumer-disconnected-timeout",
            "x-consumer-timeout",
            "x-delayed-retry-type",
            "x-delayed-retry-min",
            "x-delayed-retry-max",
            "x-max-priority",
            "x-deduplication",
            "x-deduplication-header",
            "x-deduplication-size",
            "x-deduplication-age",
            "x-group-header",
        ];
    }
    &[
        "x-expires",
        "x-message-ttl",
        "x-dead-letter-exchange",
        "x-dead-letter-routing-key",
        "x-max-length",
        "x-max-length-bytes",
        "x-max-priority",
        "x-overflow",
        "x-queue-mode",
        "x-queue-version",
        "x-single-active-consumer",
        "x-queue-type",
        "x-queue-master-locator",
        "x-queue-leader-locator",
        "x-dead-letter-strategy",
        "x-delivery-limit",
        "x-consumer-timeout",
        "x-delayed-retry-type",
        "x-delayed-retry-min",
        "x-delayed-retry-max",
        "x-deduplication",
        "x-deduplication-header",
        "x-deduplication-size",
        "x-deduplication-age",
        "x-group-header",
    ]
}

impl Settings {
    /// Reads and checks the arguments of a queue of that name.
    pub(crate) fn parse(queue: &Name, table: &Table) -> Result<Self, Refusal> {
        let asked = Asked::of(queue, table)?;
        Ok(asked.resolve())
    }
}

/// Whether a queue with these arguments is a quorum queue.
pub(crate) fn is_quorum(arguments: &Table) -> bool {
    matches!(
        arguments.find(b"x-queue-type"),
        Some(Value::LongString(b"quorum"))
    )
}

/// Reads the `expiration` property: digits only, in range.
pub(crate) fn parse_expiration(value: &[u8]) -> Result<u64, Refusal> {
    let refuse = |reason: String| Refusal::InvalidExpiration {
        value: Name::cut(value),
        reason,
    };
    let text = std::str::from_utf8(value).map_err(|_| refuse("no_integer".to_owned()))?;
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        let leading = digits.bytes().take_while(u8::is_ascii_digit).count();
        return Err(refuse(if leading == 0 {
            "no_integer".to_owned()
        } else {
            format!(
                "{{leftover_string,\"{}\"}}",
                Escaped(digits.as_bytes().get(leading..).unwrap_or_default())
            )
        }));
    }
    let number: i128 = text
        .parse()
        .map_err(|_| refuse("{value_too_large}".to_owned()))?;
    if number < 0 {
        return Err(refuse(format!("{{value_negative,{number}}}")));
    }
    match u64::try_from(number) {
        Ok(number) if number <= TTL_MAX => Ok(number),
        _ => Err(refuse(format!("{{value_too_large,{number}}}"))),
    }
}
