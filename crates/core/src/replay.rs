//! A replay: what an exchange kept on its way to a new binding.
//!
//! It looks through the exchange's store and notes what matches: references to records, packed
//! as a queue's pages are. The binding is not there yet; what comes to the store meanwhile is
//! looked at as it comes. When the replay has come to where it began, binding and entries take
//! effect together, in one turn and one record: without a gap, without a double, and after a
//! crash whole or not at all. Meanwhile nothing leaves the store.

mod found;
mod probe;

use std::collections::BTreeMap;

use menzil_model::fact::{Binding, ExchangeDefinition};
use menzil_model::{Name, QueueId, Sequence, Table, Value};

use crate::command::ChannelKey;
use crate::effect::Reply;
use crate::own_arguments::mistaken;
use crate::queue::{Scanned, place_at};
use crate::refusal::{Object, Refusal};
use crate::store::milliseconds_of;

pub(crate) use found::{Found, Piece};
pub(crate) use probe::Probe;

/// The binding argument that asks for one.
const ARGUMENT: &str = "x-replay-from";

/// Which of the messages that match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    /// All.
    First,
    /// The last so many.
    Last(u64),
    /// Those that came at that time or later, in milliseconds since 1970.
    Time(u64),
}

impl From {
    /// Reads and checks the arguments of a new binding; whether the exchange keeps anything is
    /// known to who asks.
    pub(crate) fn read(
        arguments: &Table,
        exchange: &ExchangeDefinition,
        keeps: bool,
        now: u64,
    ) -> Result<Option<Self>, Refusal> {
        let Some(value) = arguments.find(ARGUMENT.as_bytes()) else {
            return Ok(None);
        };
        let object = || Object::Exchange(exchange.name.clone());
        if !keeps {
            return Err(Refusal::InvalidArgument {
                object: object(),
                argument: Name::from(ARGUMENT),
                reason: NOTHING_KEPT.to_owned(),
            });
        }
        let from = match (value, value.as_integer()) {
            (Value::LongString(b"first"), _) => Some(Self::First),
            (Value::LongString(b"last"), _) => Some(Self::Last(1)),
            (Value::LongString(text), _) => {
                milliseconds_of(text).map(|ago| Self::Time(now.saturating_sub(ago)))
            }
            (Value::Timestamp(seconds), _) => Some(Self::Time(seconds.saturating_mul(1000))),
            (_, Some(number)) => u64::try_from(number).ok().map(Self::Last),
            (_, None) => None,
        };
        from.map(Some)
            .ok_or_else(|| mistaken(object(), ARGUMENT, value, WANTED))
    }
}

const WANTED: &str = "first, last, a count, a timestamp, or an interval such as 1h";

const NOTHING_KEPT: &str = "the exchange keeps nothing: it needs x-retain-messages, \
x-retain-bytes or x-retain-age, or a policy of them";

/// By queue, and in a queue with priorities by priority.
pub(crate) type AllFound = BTreeMap<(QueueId, u8), Found>;

/// Who waits for it.
#[derive(Debug)]
pub(crate) struct Asker {
    /// `None` where the channel is closed since: it is carried out all the same.
    pub(crate) channel: Option<ChannelKey>,
    pub(crate) nowait: bool,
    pub(crate) reply: Reply,
    /// Class and method number, for a refusal.
    pub(crate) method: (u16, u16),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Replay {
    pub(crate) asker: Asker,
    pub(crate) binding: Binding,
    pub(crate) durable: bool,
    /// Source and destination, to be told where one is gone.
    pub(crate) ends: [Object; 2],
    pub(crate) store: QueueId,
    /// Says which messages match; `None` where all do.
    pub(crate) probe: Option<Probe>,
    /// How far back it looks first: before which place, and for how many.
    pub(crate) back: Option<(Sequence, u64)>,
    /// From where on it looks then.
    pub(crate) next: Sequence,
    /// What is before has to go, or is about to.
    pub(crate) first: Sequence,
    /// What came since it began has this place or a later one: it is looked at as it comes.
    pub(crate) end: Sequence,
    /// It has to look into messages.
    pub(crate) reads: bool,
    /// What matches, by queue and class of places.
    pub(crate) found: AllFound,
    /// The same of what came since.
    pub(crate) live: AllFound,
    /// Entries whose messages were asked for.
    pub(crate) waits_for: Option<Vec<Scanned>>,
}

impl Asker {
    /// What a file asks for nobody waits for.
    pub(crate) fn nobody() -> Self {
        Self {
            channel: None,
            nowait: true,
            reply: Reply::QueueBindOk,
            method: (0, 0),
        }
    }
}

impl Replay {
    /// Where it begins.
    pub(crate) fn begin(&mut self, from: From) {
        (self.back, self.next) = match from {
            From::First => (None, self.first),
            From::Time(time) => (None, place_at(time).max(self.first)),
            From::Last(count) => (Some((self.end, count)), self.end),
        };
    }

    /// Goes on behind, or before, these entries.
    pub(crate) fn pass(&mut self, entries: &[Scanned]) {
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else {
            return;
        };
        match &mut self.back {
            Some((below, _)) => *below = first.item.sequence,
            None => self.next = Sequence(last.item.sequence.0 + 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use menzil_model::fact::ExchangeKind;
    use menzil_model::{ExchangeId, TableBuilder};

    const NOW: u64 = 10_000_000;

    fn read(value: Value<'_>, keeps: bool) -> Result<Option<From>, String> {
        let exchange = ExchangeDefinition {
            id: ExchangeId(3),
            name: Name::from("x"),
            kind: ExchangeKind::Fanout,
            durable: true,
            auto_delete: false,
            internal: false,
            arguments: Table::empty(),
        };
        let table = TableBuilder::new().field(ARGUMENT, value).build();
        From::read(&table, &exchange, keeps, NOW).map_err(|refusal| {
            let Refusal::InvalidArgument {
                argument, reason, ..
            } = refusal
            else {
                panic!("{refusal:?}")
            };
            assert_eq!(argument, Name::from(ARGUMENT));
            reason
        })
    }

    #[test]
    fn where_to_begin_is_a_word_a_count_a_time_or_an_interval() {
        for (value, expected) in [
            (Value::LongString(b"first"), From::First),
            (Value::LongString(b"last"), From::Last(1)),
            (Value::I32(5), From::Last(5)),
            (Value::U8(0), From::Last(0)),
            (Value::I64(5), From::Last(5)),
            (Value::Timestamp(9_000), From::Time(9_000_000)),
            (Value::LongString(b"10s"), From::Time(NOW - 10_000)),
            (Value::LongString(b"9Y"), From::Time(0)),
        ] {
            assert_eq!(read(value, true), Ok(Some(expected)), "{value:?}");
        }
        for (value, given) in [
            (Value::LongString(b"next"), "\"next\""),
            (Value::LongString(b""), "\"\""),
            (Value::LongString(b"5"), "\"5\""),
            (Value::I32(-1), "-1"),
            (Value::Bool(true), "true"),
            (Value::F64(1.0), "1.0"),
        ] {
            let words = format!("it is {given}, and must be {WANTED}");
            assert_eq!(read(value, true), Err(words), "{value:?}");
        }
        let nothing = read(Value::LongString(b"first"), false);
        assert_eq!(nothing, Err(NOTHING_KEPT.to_owned()));
    }
}
