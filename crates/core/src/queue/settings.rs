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
}

/// Ten years in milliseconds: the longest time RabbitMQ takes.
const TTL_MAX: u64 = 315_360_000_000;

/// Arguments that take part in redeclare equivalence, in the order in which RabbitMQ compares
/// them on queues of either type.
pub(crate) fn compared(is_quorum: bool) -> &'static [&'static str] {
    if is_quorum {
        return &[
            "x-expires",
            "x-max-length",
            "x-max-length-bytes",
            "x-overflow",
            "x-message-ttl",
            "x-queue-leader-locator",
            "x-queue-type",
        ];
    }
    &[
        "x-expires",
        "x-message-ttl",
        "x-max-length",
        "x-max-length-bytes",
        "x-overflow",
        "x-queue-mode",
        "x-queue-version",
        "x-queue-type",
        "x-queue-leader-locator",
    ]
}

/// Arguments that RabbitMQ has and this broker has not, yet.
const UNSUPPORTED: [&str; 24] = [
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-dead-letter-strategy",
    "x-max-priority",
    "x-single-active-consumer",
    "x-delivery-limit",
    "x-consumer-timeout",
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

impl Settings {
    /// Reads and checks the arguments of a queue of that name.
    pub(crate) fn parse(queue: &Name, arguments: &Table) -> Result<Self, Refusal> {
        let object = || Object::Queue(queue.clone());
        if let Some((name, _)) = arguments
            .fields()
            .find(|(name, _)| UNSUPPORTED.iter().any(|known| known.as_bytes() == *name))
        {
            let argument = Name::cut(name);
            return Err(Refusal::UnsupportedArgument {
                object: object(),
                argument,
            });
        }
        let invalid = |argument: &'static str, reason: String| Refusal::InvalidArgument {
            object: object(),
            argument: Name::from(argument),
            reason,
        };
        let number = |argument: &'static str, first: i128| match arguments.find(argument.as_bytes())
        {
            None => Ok(None),
            Some(value) => non_negative(&value, first)
                .map(Some)
                .map_err(|reason| invalid(argument, reason)),
        };
        let text = |argument: &'static str| match arguments.find(argument.as_bytes()) {
            None => Ok(None),
            Some(Value::LongString(text)) => Ok(Some(text)),
            Some(other) => Err(invalid(argument, unacceptable(&other))),
        };
        let time = |argument: &'static str, first: i128| match number(argument, first)? {
            Some(time) if time > TTL_MAX => {
                Err(invalid(argument, format!("{{value_too_large,{time}}}")))
            }
            time => Ok(time),
        };
        // In RabbitMQ's order, which decides what a client with two mistakes hears of.
        let is_quorum = check_type(queue, arguments, &invalid)?;
        let expires = time("x-expires", 1)?;
        let message_ttl = time("x-message-ttl", 0)?;
        let length_max = number("x-max-length", 0)?;
        let bytes_max = number("x-max-length-bytes", 0)?;
        check_hints(queue, arguments, is_quorum, &invalid)?;
        Ok(Self {
            expires,
            message_ttl,
            length_max,
            bytes_max,
            overflow: match text("x-overflow")? {
                None | Some(b"drop-head") => Overflow::DropHead,
                Some(b"reject-publish") => Overflow::RejectPublish,
                Some(b"reject-publish-dlx") => {
                    return Err(Refusal::UnsupportedArgument {
                        object: object(),
                        argument: Name::from("x-overflow=reject-publish-dlx"),
                    });
                }
                Some(_) => return Err(invalid("x-overflow", "invalid_overflow".to_owned())),
            },
        })
    }
}

/// Whether it is a quorum queue. Classic and quorum queues are the same thing here: every durable
/// queue is synced.
fn check_type(
    queue: &Name,
    arguments: &Table,
    invalid: &impl Fn(&'static str, String) -> Refusal,
) -> Result<bool, Refusal> {
    match arguments.find(b"x-queue-type") {
        None | Some(Value::LongString(b"" | b"classic")) => Ok(false),
        Some(Value::LongString(b"quorum")) => Ok(true),
        Some(Value::LongString(b"stream")) => Err(Refusal::UnsupportedArgument {
            object: Object::Queue(queue.clone()),
            argument: Name::from("x-queue-type=stream"),
        }),
        Some(Value::LongString(other)) => {
            let reason = format!("\"unsupported queue type '{}'\"", Escaped(other));
            Err(invalid("x-queue-type", reason))
        }
        Some(other) => Err(invalid("x-queue-type", unacceptable(&other))),
    }
}

/// Arguments that on one node have only one meaning, as far as RabbitMQ takes them.
fn check_hints(
    queue: &Name,
    arguments: &Table,
    is_quorum: bool,
    invalid: &impl Fn(&'static str, String) -> Refusal,
) -> Result<(), Refusal> {
    let object = || Object::Queue(queue.clone());
    if is_quorum {
        for argument in ["x-queue-mode", "x-queue-version"] {
            if arguments.find(argument.as_bytes()).is_some() {
                let (object, argument) = (object(), Name::from(argument));
                return Err(Refusal::ArgumentOfOtherType {
                    object,
                    argument,
                    kind: "quorum",
                });
            }
        }
    }
    match arguments.find(b"x-queue-leader-locator") {
        None | Some(Value::LongString(b"client-local" | b"balanced")) => {}
        Some(Value::LongString(_)) => {
            let reason = "invalid_queue_locator_arg".to_owned();
            return Err(invalid("x-queue-leader-locator", reason));
        }
        Some(other) => return Err(invalid("x-queue-leader-locator", unacceptable(&other))),
    }
    match arguments.find(b"x-queue-version") {
        None => Ok(()),
        Some(value) => match value.as_integer() {
            Some(2) => Ok(()),
            Some(other) => {
                let reason = format!("\"unsupported queue version '{other}'\"");
                Err(invalid("x-queue-version", reason))
            }
            None => Err(invalid("x-queue-version", no_integer(&value))),
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
