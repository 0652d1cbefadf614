//! The arguments of one object, first of all a queue, read and checked as RabbitMQ checks them.
//!
//! The order decides what a client with two mistakes hears of: the type of the dead-letter
//! exchange, the queue's type, then values in RabbitMQ's order, then arguments that queues of
//! this type do not have in the client's order, and last what RabbitMQ does not check or know.

use menzil_model::{Escaped, Name, Table, Value};

use super::{Asked, Deduplication, Overflow, RetryKind};
use crate::own_arguments::mistaken;
use crate::refusal::{Object, Refusal};
use crate::store::milliseconds_of;

/// Ten years in milliseconds: the longest time RabbitMQ takes.
pub(super) const TTL_MAX: u64 = 315_360_000_000;

/// Keys that a deduplicating queue remembers where it is not said.
const DEDUPLICATION_SIZE: u64 = 100_000;

/// The most keys that it can be asked to remember.
const DEDUPLICATION_SIZE_MAX: u64 = 10_000_000;

/// How long it remembers them where it is not said: ten minutes.
const DEDUPLICATION_AGE: u64 = 600_000;

/// Arguments that neither type has.
const OF_STREAMS: [&str; 4] = [
    "x-max-age",
    "x-stream-max-segment-size-bytes",
    "x-stream-filter-size-bytes",
    "x-initial-cluster-size",
];

/// Arguments of quorum queues that mean nothing on a classic one. What works on every queue is
/// not among them, though RabbitMQ refuses it.
const OF_QUORUM: [&str; 5] = [
    "x-max-in-memory-length",
    "x-max-in-memory-bytes",
    "x-quorum-initial-group-size",
    "x-member-placement-tag",
    "x-consumer-disconnected-timeout",
];

/// Arguments of classic queues that mean nothing on a quorum one.
const OF_CLASSIC: [&str; 3] = ["x-queue-mode", "x-queue-version", "x-queue-master-locator"];

/// Reads and checks the arguments of a queue of that name.
pub(super) fn read(queue: &Name, table: &Table) -> Result<Asked, Refusal> {
    let arguments = Arguments::new(Object::Queue(queue.clone()), table);
    arguments.check_dead_letter_exchange()?;
    let mut asked = Asked {
        is_quorum: arguments.is_quorum()?,
        ..Asked::default()
    };
    arguments.read_common(&mut asked)?;
    arguments.check_type(asked.is_quorum)?;
    arguments.read_unchecked(&mut asked)?;
    Ok(asked)
}

/// The arguments of one object, as they are read.
pub(crate) struct Arguments<'a> {
    object: Object,
    table: &'a Table,
}

impl<'a> Arguments<'a> {
    pub(crate) fn new(object: Object, table: &'a Table) -> Self {
        Self { object, table }
    }

    fn object(&self) -> Object {
        self.object.clone()
    }

    fn invalid(&self, argument: &'static str, reason: impl Into<String>) -> Refusal {
        Refusal::InvalidArgument {
            object: self.object(),
            argument: Name::from(argument),
            reason: reason.into(),
        }
    }

    fn find(&self, argument: &'static str) -> Option<Value<'a>> {
        self.table.find(argument.as_bytes())
    }

    /// A whole number of either sign.
    pub(crate) fn integer(&self, argument: &'static str) -> Result<Option<i128>, Refusal> {
        let Some(value) = self.find(argument) else {
            return Ok(None);
        };
        let number = value.as_integer();
        let expected = || format!("\"expected integer, got {}\"", value.type_name());
        Ok(Some(
            number.ok_or_else(|| self.invalid(argument, expected()))?,
        ))
    }

    /// A whole number from `first` on, which is 0 or 1.
    pub(crate) fn number(
        &self,
        argument: &'static str,
        first: i128,
    ) -> Result<Option<u64>, Refusal> {
        let Some(number) = self.integer(argument)? else {
            return Ok(None);
        };
        let term = match u64::try_from(number) {
            Err(_) => "value_negative",
            Ok(_) if number < first => "value_zero",
            Ok(number) => return Ok(Some(number)),
        };
        Err(self.invalid(argument, format!("{{{term},{number}}}")))
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

    /// What an argument of this broker's own says, read by `read`; in plain words what is wanted
    /// where it does not read.
    fn own<T>(
        &self,
        argument: &'static str,
        read: impl FnOnce(Value<'a>) -> Option<T>,
        wanted: &str,
    ) -> Result<Option<T>, Refusal> {
        let Some(value) = self.find(argument) else {
            return Ok(None);
        };
        let found = read(value).map(Some);
        found.ok_or_else(|| mistaken(self.object(), argument, value, wanted))
    }

    /// A whole number above zero, of an argument of this broker's own.
    pub(crate) fn own_count(&self, argument: &'static str) -> Result<Option<u64>, Refusal> {
        let read = |value: Value<'_>| within(value, 1, u64::MAX);
        self.own(argument, read, "a whole number from 1 on")
    }

    fn own_flag(&self, argument: &'static str) -> Result<bool, Refusal> {
        let read = |value: Value<'_>| {
            if let Value::Bool(flag) = value {
                Some(flag)
            } else {
                None
            }
        };
        Ok(self
            .own(argument, read, "true or false")?
            .unwrap_or_default())
    }

    fn own_header(&self, argument: &'static str) -> Result<Option<Name>, Refusal> {
        let read = |value: Value<'a>| {
            if let Value::LongString(text) = value {
                Name::new(text).filter(|name| !name.is_empty())
            } else {
                None
            }
        };
        self.own(
            argument,
            read,
            "the name of a header, a text of 1 to 255 bytes",
        )
    }

    /// Milliseconds of an argument that RabbitMQ does not check.
    fn own_time(&self, argument: &'static str, first: u64) -> Result<Option<u64>, Refusal> {
        let wanted = format!("milliseconds from {first} to {TTL_MAX}");
        self.own(argument, |value| within(value, first, TTL_MAX), &wanted)
    }

    /// Milliseconds, or a text such as `7D`; not none.
    pub(crate) fn own_interval(&self, argument: &'static str) -> Result<Option<u64>, Refusal> {
        let wanted = format!(
            "milliseconds from 1 to {TTL_MAX}, or a text such as 30s, 12h or 7D (units s m h D M Y)"
        );
        self.own(argument, interval_of, &wanted)
    }

    fn unacceptable(&self, argument: &'static str, value: &Value<'_>) -> Refusal {
        self.invalid(
            argument,
            format!("{{unacceptable_type,{}}}", value.type_name()),
        )
    }

    fn text(&self, argument: &'static str) -> Result<Option<&'a [u8]>, Refusal> {
        match self.find(argument) {
            None => Ok(None),
            Some(Value::LongString(text)) => Ok(Some(text)),
            Some(other) => Err(self.unacceptable(argument, &other)),
        }
    }

    /// A text that is one of a few.
    fn one_of<T>(
        &self,
        argument: &'static str,
        known: impl Fn(&[u8]) -> Option<T>,
        term: &str,
    ) -> Result<Option<T>, Refusal> {
        let Some(text) = self.text(argument)? else {
            return Ok(None);
        };
        let value = known(text).ok_or_else(|| self.invalid(argument, term))?;
        Ok(Some(value))
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
            Some(other) => Err(self.unacceptable(argument, &other)),
        }
    }

    /// RabbitMQ looks at this one first, and has words of its own for it.
    fn check_dead_letter_exchange(&self) -> Result<(), Refusal> {
        let argument = "x-dead-letter-exchange";
        match self.find(argument) {
            None | Some(Value::LongString(_)) => Ok(()),
            Some(other) => Err(Refusal::InvalidType {
                object: self.object(),
                argument: Name::from(argument),
                kind: other.type_name(),
            }),
        }
    }

    /// Whether it is a quorum queue. Classic and quorum queues are the same thing here: every
    /// durable queue is synced.
    fn is_quorum(&self) -> Result<bool, Refusal> {
        let argument = "x-queue-type";
        match self.text(argument)? {
            None | Some(b"" | b"undefined" | b"classic") => Ok(false),
            Some(b"quorum") => Ok(true),
            Some(b"stream") => Err(Refusal::UnsupportedArgument {
                object: self.object(),
                argument: Name::from("x-queue-type=stream"),
            }),
            Some(other) => Err(self.invalid(
                argument,
                format!("\"unsupported queue type '{}'\"", Escaped(other)),
            )),
        }
    }

    /// What RabbitMQ checks, in its order. Hints are checked and go no further: on one node they
    /// have only one meaning.
    fn read_common(&self, asked: &mut Asked) -> Result<(), Refusal> {
        asked.expires = self.time("x-expires", 1)?;
        asked.message_ttl = self.time("x-message-ttl", 0)?;
        asked.dead_letter_exchange = self.name("x-dead-letter-exchange")?;
        asked.dead_letter_routing_key = self.dead_letter_routing_key(asked)?;
        asked.at_least_once = self.one_of(
            "x-dead-letter-strategy",
            Asked::strategy,
            "invalid_dlx_strategy",
        )?;
        asked.length_max = self.number("x-max-length", 0)?;
        asked.bytes_max = self.number("x-max-length-bytes", 0)?;
        if asked.is_quorum {
            self.number("x-max-in-memory-length", 0)?;
            self.number("x-max-in-memory-bytes", 0)?;
        }
        let priority_max = self.bounded("x-max-priority", 0, 255, "max_value_exceeded")?;
        asked.priority_max = priority_max
            .and_then(|priority| u8::try_from(priority).ok())
            .unwrap_or_default();
        asked.overflow = self.one_of("x-overflow", Overflow::from_name, "invalid_overflow")?;
        if !asked.is_quorum {
            self.check_version()?;
        }
        asked.single_active_consumer = self.flag("x-single-active-consumer")?;
        asked.consumer_timeout = self.number("x-consumer-timeout", 0)?;
        if asked.is_quorum {
            self.number("x-consumer-disconnected-timeout", 0)?;
            self.number("x-quorum-initial-group-size", 1)?;
        }
        let known = |text: &[u8]| LOCATORS.contains(&text).then_some(());
        self.one_of("x-queue-leader-locator", known, "invalid_queue_locator_arg")?;
        if asked.is_quorum {
            let known = |text: &[u8]| (!text.is_empty()).then_some(());
            let term = "invalid_member_placement_tag_arg";
            self.one_of("x-member-placement-tag", known, term)?;
        }
        Ok(())
    }

    fn dead_letter_routing_key(&self, asked: &Asked) -> Result<Option<Name>, Refusal> {
        let argument = "x-dead-letter-routing-key";
        let routing_key = self.name(argument)?;
        if asked.dead_letter_exchange.is_none() && routing_key.is_some() {
            return Err(self.invalid(argument, "routing_key_but_no_dlx_defined"));
        }
        Ok(routing_key)
    }

    fn check_version(&self) -> Result<(), Refusal> {
        let argument = "x-queue-version";
        match self.number(argument, 0)? {
            None | Some(2) => Ok(()),
            Some(other) => {
                Err(self.invalid(argument, format!("\"unsupported queue version '{other}'\"")))
            }
        }
    }

    /// Refuses arguments that RabbitMQ has for queues of another type only, and that can do
    /// nothing here.
    fn check_type(&self, is_quorum: bool) -> Result<(), Refusal> {
        let (foreign, kind): (&[&str], _) = if is_quorum {
            (&OF_CLASSIC, "quorum")
        } else {
            (&OF_QUORUM, "classic")
        };
        let mut names = self.table.fields().map(|(name, _)| name);
        let is_foreign = |name: &[u8]| {
            let mut all = foreign.iter().chain(&OF_STREAMS);
            all.any(|known| known.as_bytes() == name)
        };
        match names.find(|name| is_foreign(name)) {
            None => Ok(()),
            Some(name) => Err(Refusal::ArgumentOfOtherType {
                object: self.object(),
                argument: Name::cut(name),
                kind,
            }),
        }
    }

    /// What RabbitMQ takes without a look, and what it does not know.
    fn read_unchecked(&self, asked: &mut Asked) -> Result<(), Refusal> {
        asked.delivery_limit = self.own(
            "x-delivery-limit",
            |value| i64::try_from(value.as_integer()?).ok(),
            "a whole number; below 0 is no limit",
        )?;
        asked.retry_kind = self.own(
            "x-delayed-retry-type",
            |value| {
                if let Value::LongString(text) = value {
                    RetryKind::from_name(text)
                } else {
                    None
                }
            },
            "disabled, all, failed or returned",
        )?;
        asked.retry_min = self.own_time("x-delayed-retry-min", 0)?;
        let max = "x-delayed-retry-max";
        asked.retry_max = self.own_time(max, 0)?;
        if let (Some(min), Some(most)) = (asked.retry_min, asked.retry_max)
            && most < min
        {
            let reason = format!("it is {most}, and must not be below x-delayed-retry-min, {min}");
            return Err(self.invalid(max, reason));
        }
        asked.deduplication = self.deduplication()?;
        asked.group_header = self.own_header("x-group-header")?;
        Ok(())
    }

    fn deduplication(&self) -> Result<Option<Box<Deduplication>>, Refusal> {
        let is_wanted = self.own_flag("x-deduplication")?;
        let header = self.own_header("x-deduplication-header")?;
        let size = self.own(
            "x-deduplication-size",
            |value| within(value, 1, DEDUPLICATION_SIZE_MAX),
            "a whole number from 1 to 10000000",
        )?;
        let age = self.own_time("x-deduplication-age", 1)?;
        Ok(is_wanted.then(|| {
            Box::new(Deduplication {
                header,
                size: size.unwrap_or(DEDUPLICATION_SIZE),
                age: age.unwrap_or(DEDUPLICATION_AGE),
            })
        }))
    }
}

fn within(value: Value<'_>, first: u64, last: u64) -> Option<u64> {
    let number = u64::try_from(value.as_integer()?).ok()?;
    (first..=last).contains(&number).then_some(number)
}

/// Milliseconds above zero, as a number or a text such as `7D`.
pub(crate) fn interval_of(value: Value<'_>) -> Option<u64> {
    if let Value::LongString(text) = value {
        return milliseconds_of(text).filter(|time| (1..=TTL_MAX).contains(time));
    }
    within(value, 1, TTL_MAX)
}

/// The values of `x-queue-leader-locator`, the deprecated ones too.
const LOCATORS: [&[u8]; 5] = [
    b"client-local",
    b"balanced",
    b"random",
    b"least-leaders",
    b"min-masters",
];
