//! The keys of a policy: which values they take, and who wins where two say something.
//!
//! The rules are RabbitMQ 4.3's, its texts too (`rabbit_policies`, `rabbit_quorum_queue`).

use menzil_model::{Name, Value};

use super::Subject;
use crate::queue::{Asked, Overflow, RetryKind, interval_of};

/// A key.
#[derive(Debug)]
pub(crate) struct Key {
    /// As in a policy; the argument has `x-` before it, save that of exchanges.
    pub(crate) name: &'static str,
    pub(super) accepts: fn(Value<'_>) -> bool,
    /// What RabbitMQ says of a value that it does not take.
    pub(super) wrong: &'static str,
    /// What it takes, for people: "it must be …".
    pub(super) wanted: &'static str,
    /// Who wins, a policy or an operator policy; `None` where the second cannot have the key.
    pub(super) operator: Option<Merge>,
    /// Who wins, the argument or the policy.
    argument: Merge,
}

/// Who wins where something has a value of its own and another is imposed on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Merge {
    /// The lower one.
    Lower,
    /// The higher one.
    Higher,
    /// The lower one, but where one is negative, which is no limit, the higher.
    Limit,
    /// What is imposed.
    Imposed,
    /// The own one.
    Own,
    /// The own one on a classic queue, what is imposed on a quorum queue.
    ByType,
}

impl Merge {
    /// Whether the own value wins.
    pub(crate) fn keeps_own(self, own: Value<'_>, imposed: Value<'_>, subject: Subject) -> bool {
        let numbers = measure(own).zip(measure(imposed));
        let is_lower = numbers.is_some_and(|(own, imposed)| own <= imposed);
        let is_higher = numbers.is_some_and(|(own, imposed)| own >= imposed);
        let is_unlimited = numbers.is_some_and(|(own, imposed)| own < 0 || imposed < 0);
        match self {
            Self::Own => true,
            Self::Imposed => false,
            Self::ByType => subject != Subject::QuorumQueue,
            Self::Higher => is_higher,
            Self::Limit if is_unlimited => is_higher,
            Self::Lower | Self::Limit => is_lower,
        }
    }
}

impl Key {
    /// The key of that name.
    pub(crate) fn find(name: &[u8]) -> Option<&'static Self> {
        KEYS.iter().find(|key| key.name.as_bytes() == name)
    }

    /// Whether a queue keeps what its argument says against a policy.
    pub(crate) fn keeps_argument(
        &self,
        argument: Value<'_>,
        policy: Value<'_>,
        subject: Subject,
    ) -> bool {
        self.argument.keeps_own(argument, policy, subject)
    }

    /// Whether queues, or exchanges, of that kind have it. A policy with a key that they do not
    /// have does not apply to them at all, as in RabbitMQ.
    pub(super) fn suits(&self, subject: Subject) -> bool {
        let unfit: &[&str] = match subject {
            Subject::Exchange => &[],
            Subject::ClassicQueue => &[
                "max-age",
                "stream-max-segment-size-bytes",
                "initial-cluster-size",
                "max-in-memory-length",
                "max-in-memory-bytes",
                "target-group-size",
            ],
            Subject::QuorumQueue => &[
                "queue-mode",
                "max-age",
                "stream-max-segment-size-bytes",
                "initial-cluster-size",
            ],
        };
        !unfit.contains(&self.name)
    }

    /// The argument of exchanges that says the same, if they act on it.
    pub(crate) fn argument_of_exchanges(&self) -> Option<&'static str> {
        match self.name {
            "alternate-exchange" => Some("alternate-exchange"),
            RETAIN_MESSAGES => Some("x-retain-messages"),
            RETAIN_BYTES => Some("x-retain-bytes"),
            RETAIN_AGE => Some("x-retain-age"),
            _ => None,
        }
    }

    /// Puts a value in the place that it has in a queue's settings; hints have none.
    pub(crate) fn set(&self, value: Value<'_>, asked: &mut Asked) {
        match self.name {
            "max-length" => asked.length_max = unsigned(value),
            "max-length-bytes" => asked.bytes_max = unsigned(value),
            "message-ttl" => asked.message_ttl = unsigned(value),
            "expires" => asked.expires = unsigned(value),
            "consumer-timeout" => asked.consumer_timeout = unsigned(value),
            "delayed-retry-min" => asked.retry_min = unsigned(value),
            "delayed-retry-max" => asked.retry_max = unsigned(value),
            "delivery-limit" => {
                let limit = value.as_integer();
                asked.delivery_limit = limit.and_then(|limit| i64::try_from(limit).ok());
            }
            "overflow" => asked.overflow = text(value).and_then(Overflow::from_name),
            "delayed-retry-type" => asked.retry_kind = text(value).and_then(RetryKind::from_name),
            "dead-letter-strategy" => asked.at_least_once = text(value).and_then(Asked::strategy),
            "dead-letter-exchange" => asked.dead_letter_exchange = text(value).and_then(Name::new),
            "dead-letter-routing-key" => {
                asked.dead_letter_routing_key = text(value).and_then(Name::new);
            }
            _ => {}
        }
    }
}

fn text(value: Value<'_>) -> Option<&[u8]> {
    if let Value::LongString(text) = value {
        Some(text)
    } else {
        None
    }
}

fn unsigned(value: Value<'_>) -> Option<u64> {
    u64::try_from(value.as_integer()?).ok()
}

/// A number, also of an interval in words.
fn measure(value: Value<'_>) -> Option<i128> {
    let interval = || interval_of(value).map(i128::from);
    value.as_integer().or_else(interval)
}

fn is_name(value: Value<'_>) -> bool {
    text(value).is_some_and(|text| text.len() <= Name::BYTES_MAX)
}

fn is_count(value: Value<'_>) -> bool {
    unsigned(value).is_some()
}

fn is_positive(value: Value<'_>) -> bool {
    unsigned(value).is_some_and(|number| number > 0)
}

fn is_one_of(value: Value<'_>, known: &[&str]) -> bool {
    text(value).is_some_and(|text| known.iter().any(|known| known.as_bytes() == text))
}

/// A number above 0 and a unit.
fn is_age(value: Value<'_>) -> bool {
    let Some(text) = text(value) else {
        return false;
    };
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, unit) = text.split_at(digits);
    number.iter().any(|digit| *digit != b'0')
        && matches!(unit, b"Y" | b"M" | b"D" | b"h" | b"m" | b"s")
}

const fn key(
    name: &'static str,
    accepts: fn(Value<'_>) -> bool,
    wrong: &'static str,
    wanted: &'static str,
    operator: Option<Merge>,
    argument: Merge,
) -> Key {
    Key {
        name,
        accepts,
        wrong,
        wanted,
        operator,
        argument,
    }
}

/// The keys that RabbitMQ checks together after all others.
pub(super) const LAST: [&str; 5] = [
    "target-group-size",
    "member-placement-tag",
    "delayed-retry-type",
    "delayed-retry-min",
    "delayed-retry-max",
];

/// What an exchange keeps of the messages that pass: the keys for it.
pub(crate) const RETAIN_MESSAGES: &str = "retain-messages";
pub(crate) const RETAIN_BYTES: &str = "retain-bytes";
pub(crate) const RETAIN_AGE: &str = "retain-age";

/// The key that lets a policy leave to the one below it what it does not say.
pub(super) const LAYERED: &str = "layered";

/// All of them.
pub(super) static KEYS: [Key; 30] = {
    use Merge::{ByType, Higher, Imposed, Limit, Lower, Own};
    const BYTES: &str = "is not a valid maximum memory in bytes";
    const NAME: &str = "a text of at most 255 bytes";
    const COUNT: &str = "a whole number from 0 on";
    const POSITIVE: &str = "a whole number from 1 on";
    const MILLISECONDS: &str = "milliseconds, a whole number from 0 on";
    const SOME_MILLISECONDS: &str = "milliseconds, a whole number from 1 on";
    [
        key(
            LAYERED,
            |value| matches!(value, Value::Bool(_)),
            "is not a valid layered value",
            "true or false",
            Some(Imposed),
            Imposed,
        ),
        key(
            "alternate-exchange",
            is_name,
            "is not a valid alternate exchange name",
            NAME,
            None,
            Own,
        ),
        key(
            "consumer-disconnected-timeout",
            is_count,
            "is not a valid consumer disconnected timeout",
            MILLISECONDS,
            None,
            Lower,
        ),
        key(
            "consumer-timeout",
            is_count,
            "is not a valid consumer timeout",
            MILLISECONDS,
            None,
            Lower,
        ),
        key(
            "dead-letter-exchange",
            is_name,
            "is not a valid dead letter exchange name",
            NAME,
            None,
            Own,
        ),
        key(
            "dead-letter-routing-key",
            is_name,
            "is not a valid dead letter routing key",
            NAME,
            None,
            Own,
        ),
        key(
            "dead-letter-strategy",
            |value| text(value).and_then(Asked::strategy).is_some(),
            "is not a valid dead letter strategy",
            "\"at-most-once\" or \"at-least-once\"",
            None,
            Own,
        ),
        key(
            RETAIN_MESSAGES,
            is_positive,
            "is not a valid number of messages to retain: must be a whole number from 1 on",
            POSITIVE,
            Some(Lower),
            Lower,
        ),
        key(
            RETAIN_BYTES,
            is_positive,
            "is not a valid number of bytes to retain: must be a whole number from 1 on",
            POSITIVE,
            Some(Lower),
            Lower,
        ),
        key(
            RETAIN_AGE,
            |value| interval_of(value).is_some(),
            "is not a valid age to retain: must be milliseconds, or a text such as 12h or 7D",
            "milliseconds, or a text such as \"12h\" or \"7D\"",
            Some(Lower),
            Lower,
        ),
        key(
            "message-ttl",
            is_count,
            "is not a valid message TTL",
            MILLISECONDS,
            Some(Lower),
            Lower,
        ),
        key(
            "expires",
            is_positive,
            "is not a valid queue expiry",
            SOME_MILLISECONDS,
            Some(Lower),
            Lower,
        ),
        key(
            "max-length",
            is_count,
            "is not a valid maximum length",
            COUNT,
            Some(Lower),
            Lower,
        ),
        key(
            "max-length-bytes",
            is_count,
            "is not a valid maximum length in bytes",
            COUNT,
            Some(Lower),
            Lower,
        ),
        key(
            "max-in-memory-length",
            is_count,
            BYTES,
            COUNT,
            Some(Lower),
            Lower,
        ),
        key(
            "max-in-memory-bytes",
            is_count,
            BYTES,
            COUNT,
            Some(Lower),
            Lower,
        ),
        key(
            "queue-mode",
            |value| is_one_of(value, &["default", "lazy"]),
            "is not a valid queue-mode value",
            "\"default\" or \"lazy\"",
            None,
            Own,
        ),
        key(
            "queue-version",
            |value| matches!(value.as_integer(), Some(1 | 2)),
            "is not a valid queue-version value",
            "1 or 2",
            Some(Imposed),
            Own,
        ),
        key(
            "overflow",
            |value| text(value).and_then(Overflow::from_name).is_some(),
            "is not a valid overflow value",
            "\"drop-head\", \"reject-publish\" or \"reject-publish-dlx\"",
            Some(Imposed),
            ByType,
        ),
        key(
            "delivery-limit",
            |value| value.as_integer().is_some(),
            "is not a valid delivery limit",
            "a whole number; -1 is no limit",
            Some(Limit),
            Limit,
        ),
        key(
            "max-age",
            is_age,
            "is not a valid max age",
            "a number from 1 on and a unit, Y, M, D, h, m or s, such as \"7D\"",
            None,
            Imposed,
        ),
        key(
            "queue-leader-locator",
            |value| {
                is_one_of(
                    value,
                    &["client-local", "balanced", "random", "least-leaders"],
                )
            },
            "is not a valid queue leader locator value",
            "\"client-local\" or \"balanced\"",
            None,
            Own,
        ),
        key(
            "initial-cluster-size",
            is_count,
            "is not a valid cluster size",
            COUNT,
            None,
            Imposed,
        ),
        key(
            "stream-max-segment-size-bytes",
            |value| unsigned(value).is_some_and(|bytes| bytes <= 3_000_000_000),
            "is not a valid segment size",
            "a whole number from 0 to 3000000000",
            None,
            Imposed,
        ),
        key(
            "stream-filter-size-bytes",
            |value| unsigned(value).is_some_and(|bytes| (16..=255).contains(&bytes)),
            "is not a valid filter size. Valid range is 16-255",
            "a whole number from 16 to 255",
            None,
            Imposed,
        ),
        key(
            "target-group-size",
            is_positive,
            "is not a valid qq target count value",
            POSITIVE,
            Some(Higher),
            Imposed,
        ),
        key(
            "member-placement-tag",
            |value| text(value).is_some_and(|tag| !tag.is_empty()),
            "is not a valid member-placement-tag value. Must be a non-empty string",
            "a text that is not empty",
            Some(Imposed),
            Own,
        ),
        key(
            "delayed-retry-type",
            |value| text(value).and_then(RetryKind::from_name).is_some(),
            "is not a valid delayed retry type. Must be one of: all, failed, returned, disabled",
            "\"all\", \"failed\", \"returned\" or \"disabled\"",
            Some(Imposed),
            Imposed,
        ),
        key(
            "delayed-retry-min",
            is_positive,
            "is not a valid delayed retry minimum delay. Must be a positive integer",
            SOME_MILLISECONDS,
            Some(Higher),
            Lower,
        ),
        key(
            "delayed-retry-max",
            is_positive,
            "is not a valid delayed retry maximum delay. Must be a positive integer",
            SOME_MILLISECONDS,
            Some(Lower),
            Lower,
        ),
    ]
};
