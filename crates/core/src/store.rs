//! What an exchange keeps of the messages that pass: recent history, and what a replayable
//! exchange retains.
//!
//! It lies in a hidden queue, the exchange's store ([`QueueId::store_of`]): a publish stays one
//! record, with one entry more. In a store a sequence says when the message came: milliseconds
//! since 1970 above a counter. It has no name, no binding and no consumer. Arguments make it with
//! the exchange, a policy when it reaches the exchange; it is deleted with the exchange, and
//! emptied when nothing is to be kept any more.

use menzil_model::fact::{ExchangeDefinition, ExchangeKind};
use menzil_model::{Table, Value};

use crate::policy::{Given, RETAIN_AGE, RETAIN_BYTES, RETAIN_MESSAGES};
use crate::queue::{Arguments, interval_of};
use crate::refusal::{Object, Refusal};
use crate::topology::Term;

/// Messages that recent history keeps where it is not said, as in RabbitMQ.
const HISTORY_LENGTH: u64 = 20;

/// How much an exchange keeps; without any limit it keeps all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Retention {
    /// `x-retain-messages`, or `x-recent-history-length`.
    pub(crate) length_max: Option<u64>,
    /// `x-retain-bytes`: bytes of bodies.
    pub(crate) bytes_max: Option<u64>,
    /// `x-retain-age` in milliseconds.
    pub(crate) age_max: Option<u64>,
    /// It is the recent history of an exchange of that type: each new binding gets it, and the
    /// messages' own time to live begins with that.
    pub(crate) is_history: bool,
}

impl Retention {
    /// Without a limit, until it is known what counts.
    pub(crate) const ALL: Self = Self {
        length_max: None,
        bytes_max: None,
        age_max: None,
        is_history: false,
    };

    /// Nothing any more.
    pub(crate) const NOTHING: Self = Self {
        length_max: Some(0),
        ..Self::ALL
    };

    /// What an exchange keeps by its arguments and by policies, of each limit the lower one.
    pub(crate) fn with_policies(
        exchange: &ExchangeDefinition,
        given: &[Given<'_>],
    ) -> Option<Self> {
        let mut retention = Self::of(exchange);
        for given in given {
            let number = u64::try_from(given.value.as_integer().unwrap_or_default());
            let limit = match given.key.name {
                RETAIN_MESSAGES | RETAIN_BYTES => number.ok(),
                RETAIN_AGE => interval_of(given.value),
                _ => continue,
            };
            let Some(limit) = limit else {
                continue;
            };
            let all = retention.get_or_insert(Self::ALL);
            let place = match given.key.name {
                RETAIN_MESSAGES => &mut all.length_max,
                RETAIN_BYTES => &mut all.bytes_max,
                _ => &mut all.age_max,
            };
            *place = Some(place.map_or(limit, |own| own.min(limit)));
        }
        retention
    }

    /// What a declared exchange keeps by its arguments; `None` where it is nothing.
    pub(crate) fn of(exchange: &ExchangeDefinition) -> Option<Self> {
        // Only what read without an error was declared.
        Self::read(exchange.kind, &exchange.arguments, || {
            Object::Exchange(exchange.name.clone())
        })
        .unwrap_or_default()
    }

    /// Reads and checks the arguments of a new exchange.
    pub(crate) fn read(
        kind: ExchangeKind,
        table: &Table,
        object: impl FnOnce() -> Object,
    ) -> Result<Option<Self>, Refusal> {
        let is_history = kind == ExchangeKind::RecentHistory;
        if !is_history && table.as_bytes().is_empty() {
            return Ok(None);
        }
        let arguments = Arguments::new(object(), table);
        let mut retention = Self {
            length_max: arguments.own_count("x-retain-messages")?,
            bytes_max: arguments.own_count("x-retain-bytes")?,
            age_max: arguments.own_interval("x-retain-age")?,
            is_history,
        };
        if is_history {
            let length = history_length(table)?;
            let retained = retention.length_max.unwrap_or(length);
            retention.length_max = Some(retained.min(length));
        }
        let limits = [retention.length_max, retention.bytes_max, retention.age_max];
        Ok(limits.iter().any(Option::is_some).then_some(retention))
    }
}

/// RabbitMQ's check: one of the signed integers, above zero.
fn history_length(table: &Table) -> Result<u64, Refusal> {
    let Some(value) = table.find(b"x-recent-history-length") else {
        return Ok(HISTORY_LENGTH);
    };
    let is_signed = matches!(
        value,
        Value::I8(_) | Value::I16(_) | Value::I32(_) | Value::I64(_)
    );
    let length = value.as_integer().filter(|_| is_signed).unwrap_or_default();
    u64::try_from(length)
        .ok()
        .filter(|length| *length > 0)
        .ok_or_else(|| Refusal::InvalidHistoryLength {
            value: Term(value).to_string(),
        })
}

/// What a hidden queue has beside what all queues have.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) retention: Retention,
    /// Replays that read from it: meanwhile nothing of it goes because of a limit.
    pub(crate) readers: usize,
}

/// Milliseconds of a text such as `1h`: RabbitMQ's units of `x-max-age`.
pub(crate) fn milliseconds_of(interval: &[u8]) -> Option<u64> {
    let (unit, digits) = interval.split_last()?;
    let seconds: u64 = match unit {
        b's' => 1,
        b'm' => 60,
        b'h' => 3600,
        b'D' => DAY,
        b'M' => 30 * DAY,
        b'Y' => 365 * DAY,
        _ => return None,
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    number.checked_mul(seconds)?.checked_mul(1000)
}

const DAY: u64 = 24 * 3600;

#[cfg(test)]
mod tests {
    use super::*;
    use menzil_model::{Name, TableBuilder};

    fn read(
        kind: ExchangeKind,
        name: &str,
        value: Value<'_>,
    ) -> Result<Option<Retention>, Refusal> {
        let table = TableBuilder::new().field(name, value).build();
        Retention::read(kind, &table, || Object::Exchange(Name::from("x")))
    }

    #[test]
    fn intervals_have_rabbitmqs_units() {
        let table = [
            (&b"1s"[..], Some(1000)),
            (b"2m", Some(120_000)),
            (b"1h", Some(3_600_000)),
            (b"7D", Some(7 * 86_400_000)),
            (b"1M", Some(30 * 86_400_000)),
            (b"1Y", Some(365 * 86_400_000)),
            (b"0s", Some(0)),
            (b"", None),
            (b"h", None),
            (b"10", None),
            (b"1d", None),
            (b"-1h", None),
            (b"+1h", None),
            (b"1.5h", None),
            (b"1hh", None),
            (b"99999999999999999999s", None),
            (b"18446744073709551615Y", None),
        ];
        for (text, expected) in table {
            assert_eq!(milliseconds_of(text), expected, "{text:?}");
        }
    }

    #[test]
    fn what_is_kept_is_in_the_arguments() {
        use ExchangeKind::{Fanout, RecentHistory};
        let nothing = read(Fanout, "x-other", Value::I32(5));
        assert_eq!(nothing, Ok(None));
        let ignored = read(Fanout, "x-recent-history-length", Value::LongString(b"5"));
        assert_eq!(ignored, Ok(None));
        let history = read(RecentHistory, "x-other", Value::I32(5))
            .unwrap()
            .unwrap();
        assert_eq!((history.length_max, history.is_history), (Some(20), true));
        let history = read(RecentHistory, "x-recent-history-length", Value::I8(5));
        assert_eq!(history.unwrap().unwrap().length_max, Some(5));
        let lower = read(RecentHistory, "x-retain-messages", Value::I8(5));
        assert_eq!(lower.unwrap().unwrap().length_max, Some(5));
        for age in [Value::I64(7_200_000), Value::LongString(b"2h")] {
            let aged = read(Fanout, "x-retain-age", age).unwrap().unwrap();
            assert_eq!(aged.age_max, Some(7_200_000));
        }
    }

    #[test]
    fn what_cannot_be_kept_is_refused_by_name() {
        use ExchangeKind::{Fanout, RecentHistory};
        for (argument, value, term) in [
            (
                "x-retain-messages",
                Value::I32(0),
                "it is 0, and must be a whole number from 1 on",
            ),
            (
                "x-retain-messages",
                Value::I32(-1),
                "it is -1, and must be a whole number from 1 on",
            ),
            (
                "x-retain-bytes",
                Value::Bool(true),
                "it is true, and must be a whole number from 1 on",
            ),
            (
                "x-retain-age",
                Value::I32(0),
                "it is 0, and must be milliseconds",
            ),
            (
                "x-retain-age",
                Value::LongString(b"0h"),
                "it is \"0h\", and must be milliseconds from 1 to 315360000000, or a text such as \
                 30s, 12h or 7D (units s m h D M Y)",
            ),
            (
                "x-retain-age",
                Value::LongString(b"soon"),
                "it is \"soon\", and must be milliseconds",
            ),
            (
                "x-retain-age",
                Value::LongString(b"11Y"),
                "it is \"11Y\", and must be milliseconds",
            ),
        ] {
            let Err(Refusal::InvalidArgument {
                argument: named,
                reason,
                ..
            }) = read(Fanout, argument, value)
            else {
                panic!("{argument} {value:?}")
            };
            assert_eq!(named, Name::from(argument));
            assert!(reason.starts_with(term), "{reason}");
        }
        for (value, text) in [
            (Value::I32(0), "0"),
            (Value::I64(-3), "-3"),
            (Value::U8(5), "5"),
            (Value::LongString(b"5"), "<<\"5\">>"),
        ] {
            let refused = read(RecentHistory, "x-recent-history-length", value);
            let value = text.to_owned();
            assert_eq!(refused, Err(Refusal::InvalidHistoryLength { value }));
        }
    }
}
