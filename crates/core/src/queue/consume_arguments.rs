//! The arguments of `basic.consume` that this broker acts on.

use menzil_model::{Name, Table};

use super::settings::Arguments;
use crate::own_arguments::{Holder, check_own};
use crate::refusal::{Object, Refusal};

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct ConsumeArguments {
    /// `x-priority`: higher ones get entries while they have room.
    pub(crate) priority: i64,
    /// `x-consumer-timeout` in milliseconds; 0 is none, whatever the queue says.
    pub(crate) timeout: Option<u64>,
}

/// What RabbitMQ takes from consumers of streams only.
const OF_STREAMS: [&str; 3] = [
    "x-stream-offset",
    "x-stream-filter",
    "x-stream-match-unfiltered",
];

impl ConsumeArguments {
    /// Reads and checks the arguments for a queue of that name and type.
    pub(crate) fn parse(
        queue: &Name,
        table: &Table,
        queue_type: &'static str,
    ) -> Result<Self, Refusal> {
        let arguments = Arguments::new(Object::Queue(queue.clone()), table);
        let priority = arguments.integer("x-priority")?.unwrap_or_default();
        let most = if priority < 0 { i64::MIN } else { i64::MAX };
        let timeout = arguments.number("x-consumer-timeout", 0)?;
        let of_streams = |name: &[u8]| OF_STREAMS.iter().any(|other| other.as_bytes() == name);
        if let Some((argument, _)) = table.fields().find(|(name, _)| of_streams(name)) {
            return Err(Refusal::ArgumentOfOtherType {
                object: Object::Queue(queue.clone()),
                argument: Name::cut(argument),
                kind: queue_type,
            });
        }
        check_own(Holder::Consumer, table, &Object::Queue(queue.clone()))?;
        Ok(Self {
            priority: i64::try_from(priority).unwrap_or(most),
            timeout,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use menzil_model::{TableBuilder, Value};

    fn parse(name: &str, value: Value<'_>) -> Result<ConsumeArguments, Refusal> {
        let table = TableBuilder::new().field(name, value).build();
        ConsumeArguments::parse(&Name::from("q"), &table, "classic")
    }

    fn reason(result: Result<ConsumeArguments, Refusal>) -> String {
        match result {
            Err(Refusal::InvalidArgument { reason, .. }) => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_priority_is_any_signed_integer() {
        let integers = [
            (Value::I8(-5), -5),
            (Value::U8(255), 255),
            (Value::I64(i64::MIN), i64::MIN),
            (Value::I64(i64::MAX), i64::MAX),
        ];
        for (value, priority) in integers {
            assert_eq!(parse("x-priority", value).unwrap().priority, priority);
        }
        for (value, text) in [
            (Value::LongString(b"7"), "\"expected integer, got longstr\""),
            (Value::Bool(true), "\"expected integer, got bool\""),
            (Value::F64(1.0), "\"expected integer, got double\""),
            (Value::Void, "\"expected integer, got void\""),
        ] {
            assert_eq!(reason(parse("x-priority", value)), text);
        }
    }

    #[test]
    fn a_timeout_is_not_negative() {
        let name = "x-consumer-timeout";
        assert_eq!(parse(name, Value::I32(0)).unwrap().timeout, Some(0));
        assert_eq!(reason(parse(name, Value::I32(-1))), "{value_negative,-1}");
    }

    #[test]
    fn what_is_for_streams_is_refused_and_what_is_unknown_is_not() {
        for name in OF_STREAMS {
            let Err(Refusal::ArgumentOfOtherType { argument, kind, .. }) =
                parse(name, Value::LongString(b"first"))
            else {
                panic!("{name}")
            };
            assert_eq!((argument, kind), (Name::from(name), "classic"));
        }
        assert!(parse("x-whatever", Value::Void).is_ok());
    }
}
