//! The arguments of `queue.declare` that this broker acts on.

use menzil_model::{Escaped, Name, Table, Value};

use crate::refusal::{Object, Refusal};

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

/// Ten years in milliseconds: the longest time RabbitMQ takes.
const TTL_MAX: u64 = 315_360_000_000;

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

/// Arguments that this broker knows and does not act on, yet. Each goes from here with the
/// change that makes it work.
const UNSUPPORTED: [&str; 22] = [
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-dead-letter-strategy",
    "x-max-priority",
    "x-delivery-limit",
    "x-consumer-disconnected-timeout",
    "x-delayed-retry-type",
    "x-delayed-retry-min",
    "x-delayed-retry-max",
    "x-max-in-memory-length",
    "x-max-in-memory-bytes",
    "x-quorum-initial-group-size",
    "x-member-placement-tag",
    "x-name-prefix",
    "x-max-age",
    "x-stream-max-segment-size-bytes",
    "x-stream-filter-size-bytes",
    "x-initial-cluster-size",
    "x-deduplication",
    "x-deduplication-header",
    "x-group-header",
    "x-retain-messages",
];

/// Keys that a deduplicating queue remembers where it is not said.
const DEDUPLICATION_SIZE: u64 = 100_000;

/// The most keys that it can be asked to remember.
const DEDUPLICATION_SIZE_MAX: u64 = 10_000_000;

/// How long it remembers them where it is not said: ten minutes.
const DEDUPLICATION_AGE: u64 = 600_000;

/// Failed deliveries of a quorum queue's message where it is not said, as in RabbitMQ.
const QUORUM_DELIVERY_LIMIT: u64 = 20;

/// The arguments of one queue, or of one of its consumers, as they are read.
pub(super) struct Arguments<'a> {
    pub(super) queue: &'a Name,
    pub(super) table: &'a Table,
}

impl<'a> Arguments<'a> {
    fn object(&self) -> Object {
        Object::Queue(self.queue.clone())
    }

    fn invalid(&self, argument: &'static str, reason: String) -> Refusal {
        Refusal::InvalidArgument {
            object: self.object(),
            argument: Name::from(argument),
            reason,
        }
    }

    fn find(&self, argument: &'static str) -> Option<Value<'a>> {
        self.table.find(argument.as_bytes())
    }

    /// A whole number from `first` on.
    pub(super) fn number(
        &self,
        argument: &'static str,
        first: i128,
    ) -> Result<Option<u64>, Refusal> {
        let value = self.find(argument);
        let number = value.map(|value| non_negative(&value, first)).transpose();
        number.map_err(|reason| self.invalid(argument, reason))
    }

    /// A whole number of either sign, as far as 64 bits go.
    pub(super) fn integer(&self, argument: &'static str) -> Result<Option<i64>, Refusal> {
        let Some(value) = self.find(argument) else {
            return Ok(None);
        };
        let Some(integer) = value.as_integer() else {
            return Err(self.invalid(argument, no_integer(&value)));
        };
        let most = if integer < 0 { i64::MIN } else { i64::MAX };
        Ok(Some(i64::try_from(integer).unwrap_or(most)))
    }

    fn bounded(
        &self,
        argument: &'static str,
        first: i128,
        max: u64,
        term: &str,
    ) -> Result<Option<u64>, Refusal> {
        match self.number(argument, first)? {
            Some(number) if number > max => {
                Err(self.invalid(argument, format!("{{{term},{number}}}")))
            }
            number => Ok(number),
        }
    }

    /// Milliseconds.
    fn time(&self, argument: &'static str, first: i128) -> Result<Option<u64>, Refusal> {
        self.bounded(argument, first, TTL_MAX, "value_too_large")
    }

    fn text(&self, argument: &'static str) -> Result<Option<&'a [u8]>, Refusal> {
        match self.find(argument) {
            None => Ok(None),
            Some(Value::LongString(text)) => Ok(Some(text)),
            Some(other) => Err(self.invalid(argument, unacceptable(&other))),
        }
    }

    /// A text that can be a name.
    fn name(&self, argument: &'static str) -> Result<Option<Name>, Refusal> {
        let text = self.text(argument)?;
        let name = text.map(|text| Name::new(text).ok_or(text)).transpose();
        name.map_err(|text| self.invalid(argument, format!("{{value_too_long,{}}}", text.len())))
    }

    fn flag(&self, argument: &'static str) -> Result<bool, Refusal> {
        match self.find(argument) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(other) => Err(self.invalid(argument, unacceptable(&other))),
        }
    }

    fn dead_letters(&self) -> Result<Option<Box<DeadLetters>>, Refusal> {
        let exchange = self.name("x-dead-letter-exchange")?;
        let routing_key = self.name("x-dead-letter-routing-key")?;
        if exchange.is_none() && routing_key.is_some() {
            let reason = "routing_key_but_no_dlx_defined".to_owned();
            return Err(self.invalid("x-dead-letter-routing-key", reason));
        }
        let at_least_once = match self.text("x-dead-letter-strategy")? {
            None | Some(b"at-most-once") => false,
            Some(b"at-least-once") => true,
            Some(_) => {
                let reason = "invalid_dlx_strategy".to_owned();
                return Err(self.invalid("x-dead-letter-strategy", reason));
            }
        };
        Ok(exchange.map(|exchange| {
            Box::new(DeadLetters {
                exchange,
                routing_key,
                at_least_once,
            })
        }))
    }

    fn overflow(&self) -> Result<Overflow, Refusal> {
        Ok(match self.text("x-overflow")? {
            None | Some(b"drop-head") => Overflow::DropHead,
            Some(b"reject-publish") => Overflow::RejectPublish,
            Some(b"reject-publish-dlx") => Overflow::RejectPublishDeadLetter,
            Some(_) => return Err(self.invalid("x-overflow", "invalid_overflow".to_owned())),
        })
    }

    /// A negative limit is none.
    fn delivery_limit(&self, is_quorum: bool) -> Result<Option<u64>, Refusal> {
        let argument = "x-delivery-limit";
        match self.integer(argument)? {
            Some(limit) => Ok(u64::try_from(limit).ok()),
            None => Ok(is_quorum.then_some(QUORUM_DELIVERY_LIMIT)),
        }
    }

    fn delayed_retry(&self) -> Result<DelayedRetry, Refusal> {
        let argument = "x-delayed-retry-type";
        let kind = match self.text(argument)? {
            None | Some(b"disabled") => RetryKind::Disabled,
            Some(b"all") => RetryKind::All,
            Some(b"failed") => RetryKind::Failed,
            Some(b"returned") => RetryKind::Returned,
            Some(_) => return Err(self.invalid(argument, "invalid_delayed_retry_type".to_owned())),
        };
        let min = self.time("x-delayed-retry-min", 0)?;
        let max = self.time("x-delayed-retry-max", 0)?;
        let min = min.unwrap_or_default();
        if let Some(max) = max.filter(|max| *max < min) {
            let reason = format!("{{value_below_minimum,{max},{min}}}");
            return Err(self.invalid("x-delayed-retry-max", reason));
        }
        Ok(DelayedRetry { kind, min, max })
    }

    fn deduplication(&self) -> Result<Option<Box<Deduplication>>, Refusal> {
        let is_wanted = self.flag("x-deduplication")?;
        let header = self.name("x-deduplication-header")?;
        let size = self.bounded(
            "x-deduplication-size",
            1,
            DEDUPLICATION_SIZE_MAX,
            "value_too_large",
        )?;
        let age = self.time("x-deduplication-age", 1)?;
        Ok(is_wanted.then(|| {
            Box::new(Deduplication {
                header,
                size: size.unwrap_or(DEDUPLICATION_SIZE),
                age: age.unwrap_or(DEDUPLICATION_AGE),
            })
        }))
    }
}

impl Settings {
    /// Reads and checks the arguments of a queue of that name.
    pub(crate) fn parse(queue: &Name, table: &Table) -> Result<Self, Refusal> {
        let arguments = Arguments { queue, table };
        if let Some((name, _)) = table
            .fields()
            .find(|(name, _)| UNSUPPORTED.iter().any(|known| known.as_bytes() == *name))
        {
            return Err(Refusal::UnsupportedArgument {
                object: arguments.object(),
                argument: Name::cut(name),
            });
        }
        // In RabbitMQ's order, which decides what a client with two mistakes hears of.
        let is_quorum = check_type(&arguments)?;
        let expires = arguments.time("x-expires", 1)?;
        let message_ttl = arguments.time("x-message-ttl", 0)?;
        let dead_letters = arguments.dead_letters()?;
        let length_max = arguments.number("x-max-length", 0)?;
        let bytes_max = arguments.number("x-max-length-bytes", 0)?;
        let priority_max = arguments.bounded("x-max-priority", 0, 255, "max_value_exceeded")?;
        check_hints(&arguments, is_quorum)?;
        let overflow = arguments.overflow()?;
        if overflow == Overflow::RejectPublishDeadLetter {
            return Err(Refusal::UnsupportedArgument {
                object: arguments.object(),
                argument: Name::from("x-overflow=reject-publish-dlx"),
            });
        }
        Ok(Self {
            length_max,
            bytes_max,
            overflow,
            message_ttl,
            expires,
            priority_max: priority_max
                .and_then(|priority| u8::try_from(priority).ok())
                .unwrap_or_default(),
            single_active_consumer: arguments.flag("x-single-active-consumer")?,
            delivery_limit: arguments.delivery_limit(is_quorum)?,
            consumer_timeout: arguments.number("x-consumer-timeout", 0)?,
            delayed_retry: arguments.delayed_retry()?,
            dead_letters,
            deduplication: arguments.deduplication()?,
            group_header: arguments.name("x-group-header")?,
        })
    }
}

/// Whether a queue with these arguments is to be a quorum queue.
pub(crate) fn is_quorum(arguments: &Table) -> bool {
    matches!(
        arguments.find(b"x-queue-type"),
        Some(Value::LongString(b"quorum"))
    )
}

/// Whether it is a quorum queue. Classic and quorum queues are the same thing here: every durable
/// queue is synced.
fn check_type(arguments: &Arguments<'_>) -> Result<bool, Refusal> {
    let argument = "x-queue-type";
    match arguments.text(argument)? {
        None | Some(b"" | b"classic") => Ok(false),
        Some(b"quorum") => Ok(true),
        Some(b"stream") => Err(Refusal::UnsupportedArgument {
            object: arguments.object(),
            argument: Name::from("x-queue-type=stream"),
        }),
        Some(other) => {
            let reason = format!("\"unsupported queue type '{}'\"", Escaped(other));
            Err(arguments.invalid(argument, reason))
        }
    }
}

/// Arguments that on one node have only one meaning, as far as RabbitMQ takes them.
fn check_hints(arguments: &Arguments<'_>, is_quorum: bool) -> Result<(), Refusal> {
    if is_quorum {
        for argument in ["x-queue-mode", "x-queue-version"] {
            if arguments.find(argument).is_some() {
                return Err(Refusal::ArgumentOfOtherType {
                    object: arguments.object(),
                    argument: Name::from(argument),
                    kind: "quorum",
                });
            }
        }
    }
    let locator = "x-queue-leader-locator";
    match arguments.text(locator)? {
        None | Some(b"client-local" | b"balanced") => {}
        Some(_) => {
            return Err(arguments.invalid(locator, "invalid_queue_locator_arg".to_owned()));
        }
    }
    let argument = "x-queue-version";
    match arguments.find(argument) {
        None => Ok(()),
        Some(value) => match value.as_integer() {
            Some(2) => Ok(()),
            Some(other) => {
                let reason = format!("\"unsupported queue version '{other}'\"");
                Err(arguments.invalid(argument, reason))
            }
            None => Err(arguments.invalid(argument, no_integer(&value))),
        },
    }
}

/// RabbitMQ's term for a value of the wrong type.
fn unacceptable(value: &Value<'_>) -> String {
    format!("{{unacceptable_type,{}}}", value.type_name())
}

/// RabbitMQ's term where an integer is wanted.
fn no_integer(value: &Value<'_>) -> String {
    format!("\"expected integer, got {}\"", value.type_name())
}

/// The number, or RabbitMQ's term for what is wrong with it.
fn non_negative(value: &Value<'_>, first: i128) -> Result<u64, String> {
    let Some(number) = value.as_integer() else {
        return Err(no_integer(value));
    };
    if number < 0 {
        return Err(format!("{{value_negative,{number}}}"));
    }
    if number < first {
        return Err(format!("{{value_zero,{number}}}"));
    }
    u64::try_from(number).map_err(|_| format!("{{value_too_large,{number}}}"))
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

#[cfg(test)]
mod tests {
    use super::*;
    use menzil_model::TableBuilder;

    fn parse(name: &str, value: Value<'_>) -> Result<Settings, Refusal> {
        Settings::parse(
            &Name::from("q"),
            &TableBuilder::new().field(name, value).build(),
        )
    }

    fn reason(result: Result<Settings, Refusal>) -> String {
        match result {
            Err(Refusal::InvalidArgument { reason, .. }) => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn numbers_are_checked_with_rabbitmqs_terms() {
        assert_eq!(
            parse("x-max-length", Value::I8(5)).unwrap().length_max,
            Some(5)
        );
        assert_eq!(
            reason(parse("x-message-ttl", Value::I32(-1))),
            "{value_negative,-1}"
        );
        assert_eq!(reason(parse("x-expires", Value::I32(0))), "{value_zero,0}");
        assert_eq!(
            reason(parse("x-max-length", Value::LongString(b"5"))),
            "\"expected integer, got longstr\""
        );
    }

    #[test]
    fn what_is_not_built_is_refused_by_name() {
        let refusal = parse("x-max-priority", Value::U8(5)).unwrap_err();
        let Refusal::UnsupportedArgument { argument, .. } = refusal else {
            panic!("{refusal:?}")
        };
        assert_eq!(argument, Name::from("x-max-priority"));
    }

    #[test]
    fn expirations_are_digits_in_range() {
        assert_eq!(parse_expiration(b"60000").unwrap(), 60_000);
        for bad in [
            &b"abc"[..],
            b"-1",
            b"",
            b"1 ",
            b"99999999999999999999",
            b"\xff",
        ] {
            assert!(parse_expiration(bad).is_err(), "{bad:?}");
        }
    }
}
