//! What a message says of its deaths: the headers `x-death`, `x-first-death-*` and
//! `x-last-death-*` of RabbitMQ 4, and the rule that ends cycles.
//!
//! The history is in the headers themselves. That they are the broker's own, and which keys a
//! `BCC` header had, stands in the message's notes, which no client can write.

use menzil_model::table::{Fields, write_value};
use menzil_model::wire::{Reader, Writer};
use menzil_model::{Message, Name, Properties, QueueId, Value, fact::Why};
use smallvec::SmallVec;

use crate::mqtt::TopicNotes;
use crate::queue::parse_expiration;

/// Why a message is dead-lettered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reason {
    /// Its time to live ended.
    Expired,
    /// A consumer rejected it.
    Rejected,
    /// A length limit had no room for it.
    MaxLength,
    /// It came back too often.
    DeliveryLimit,
}

impl Reason {
    fn text(self) -> &'static [u8] {
        match self {
            Self::Expired => b"expired",
            Self::Rejected => REJECTED,
            Self::MaxLength => b"maxlen",
            Self::DeliveryLimit => b"delivery_limit",
        }
    }

    /// The reason of a fact; `None` where nothing is dead-lettered for it.
    pub(crate) fn of(why: Why) -> Option<Self> {
        Some(match why {
            Why::Expired => Self::Expired,
            Why::Rejected => Self::Rejected,
            Why::Overflow => Self::MaxLength,
            Why::DeliveryLimit => Self::DeliveryLimit,
            Why::Acknowledged | Why::Purged | Why::Damaged => return None,
        })
    }

    /// As a fact has it.
    pub(crate) fn why(self) -> Why {
        match self {
            Self::Expired => Why::Expired,
            Self::Rejected => Why::Rejected,
            Self::MaxLength => Why::Overflow,
            Self::DeliveryLimit => Why::DeliveryLimit,
        }
    }
}

/// One death, and where the message goes then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Death<'a> {
    /// The queue it left.
    pub(crate) queue: &'a Name,
    pub(crate) reason: Reason,
    /// Milliseconds since 1970.
    pub(crate) now: u64,
    /// The dead-letter exchange.
    pub(crate) exchange: &'a Name,
    /// The dead-letter routing key; without one the message's own keys stay.
    pub(crate) routing_key: Option<&'a Name>,
    /// A history that a client wrote counts as if the broker had, as before RabbitMQ 4.
    pub(crate) counts_client_headers: bool,
}

/// Deaths that a message tells of; the oldest are forgotten.
const DEATHS_MAX: usize = 1000;

/// Bytes that they may take.
const DEATHS_BYTES_MAX: usize = 64 << 10;

/// Bytes of flags and properties that fit into a content header of the usual frame size, 128 KiB
/// with 20 bytes around them. What does not fit can be sent to nobody.
const PROPERTIES_BYTES_MAX: usize = (128 << 10) - 20;

/// Flags of notes.
const HISTORY: u8 = 1;
const LOST: u8 = 2;
const LEFT: u8 = 4;

/// Ends the keys where queues follow: no key is as long.
const KEYS_END: [u8; 4] = [0xFF; 4];

const DEATHS: &[u8] = b"x-death";
const REJECTED: &[u8] = b"rejected";
const CC: &[u8] = b"CC";
const BCC: &[u8] = b"BCC";

/// What notes say of a message.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Notes<'a> {
    /// The history in its headers is the broker's.
    is_history: bool,
    /// There was no room for a history beside the other headers.
    is_lost: bool,
    /// Keys that its `BCC` header had.
    keys: &'a [u8],
    /// Ids of the queues that are still to get it, of a message that others have.
    left: &'a [u8],
}

impl<'a> Notes<'a> {
    pub(crate) fn of(message: &'a Message) -> Self {
        let notes = match TopicNotes::read(message.notes()) {
            Some(of_topic) => of_topic.others,
            None => message.notes(),
        };
        match notes.split_first() {
            Some((flags, rest)) => {
                let (keys, left) = if *flags & LEFT == 0 {
                    (rest, &[][..])
                } else {
                    split_left(rest).unwrap_or_default()
                };
                Self {
                    is_history: *flags & HISTORY != 0,
                    is_lost: *flags & LOST != 0,
                    keys,
                    left,
                }
            }
            None => Self::default(),
        }
    }

    /// The queues that are still to get it; none of a message that is to be routed.
    pub(crate) fn queues_left(&self) -> impl Iterator<Item = QueueId> + use<'a> {
        let (ids, _) = self.left.as_chunks();
        ids.iter().map(|id| QueueId(u64::from_be_bytes(*id)))
    }

    /// The notes, with these queues. No more than fit: 64 KiB.
    pub(crate) fn with_queues_left(&self, queues: &[QueueId]) -> Vec<u8> {
        let mut notes = Self::write(self.flags() | LEFT, self.keys);
        notes.put(&KEYS_END);
        for queue in queues {
            notes.put(&queue.0.to_be_bytes());
        }
        let count = u16::try_from(queues.len()).unwrap_or(u16::MAX);
        notes.put(&count.to_be_bytes());
        notes
    }

    /// The notes of a message that goes to the queues that were left.
    pub(crate) fn without_queues(&self) -> Vec<u8> {
        match self.flags() {
            0 if self.keys.is_empty() => Vec::new(),
            flags => Self::write(flags, self.keys),
        }
    }

    fn flags(&self) -> u8 {
        let history = if self.is_history { HISTORY } else { 0 };
        let lost = if self.is_lost { LOST } else { 0 };
        history | lost
    }

    /// Routing keys that no header shows.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut reader = Reader::new(self.keys);
        std::iter::from_fn(move || reader.long_string().ok())
    }

    /// Whether the message is a dead letter.
    pub(crate) fn is_letter(&self) -> bool {
        self.is_history
    }

    /// Whether the message has died before and does not say where.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost
    }

    fn write(flags: u8, keys: &[u8]) -> Vec<u8> {
        let mut notes = vec![flags];
        notes.put(keys);
        notes
    }
}

/// Keys, their end, ids of queues, and how many these are.
fn split_left(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (rest, count) = bytes.split_last_chunk()?;
    let ids_bytes = usize::from(u16::from_be_bytes(*count)) * size_of::<u64>();
    let (rest, ids) = rest.split_at_checked(rest.len().checked_sub(ids_bytes)?)?;
    Some((rest.strip_suffix(&KEYS_END)?, ids))
}

/// Notes of a message whose `BCC` header is taken away.
pub(crate) fn notes_of_bcc(properties: &[u8]) -> Vec<u8> {
    let properties = Properties::parse(properties).unwrap_or_default();
    let mut keys = Vec::new();
    for key in keys_of(&properties, BCC) {
        keys.put_long_string(key);
    }
    Notes::write(0, &keys)
}

/// The routing keys of a header.
fn keys_of<'a>(properties: &Properties<'a>, header: &[u8]) -> SmallVec<[&'a [u8]; 4]> {
    let found = properties.header_fields().find(|(name, _)| *name == header);
    let Some((_, Value::Array(items))) = found else {
        return SmallVec::new();
    };
    items.filter_map(text).collect()
}

fn text(value: Value<'_>) -> Option<&[u8]> {
    let Value::LongString(text) = value else {
        return None;
    };
    Some(text)
}

/// The dead letter of a message.
pub(crate) fn letter(message: &Message, death: &Death<'_>) -> Message {
    let mut properties = Properties::parse(message.properties()).unwrap_or_default();
    let notes = Notes::of(message);
    let counts = notes.is_history || death.counts_client_headers;
    properties.expiration = None;
    let (mut flags, mut written) = (HISTORY, Vec::new());
    for remembered in [DEATHS_MAX, 1, 0] {
        let headers = headers_of(message, death, counts, remembered);
        if remembered == 0 {
            flags |= LOST;
        }
        written.clear();
        Properties {
            headers: Some(&headers),
            ..properties
        }
        .write(&mut written);
        if written.len() <= PROPERTIES_BYTES_MAX {
            break;
        }
    }
    let (key, keys) = match death.routing_key {
        Some(key) => (key.as_bytes(), &[][..]),
        None => (message.routing_key(), notes.keys),
    };
    let exchange = death.exchange.as_bytes();
    let letter = if message.chunks().is_empty() {
        Message::copied(exchange, key, &written, message.inline_body())
    } else {
        let (exchange, key) = (Name::cut(exchange), Name::cut(key));
        Message::new(&exchange, &key, &written, message.chunks().to_vec(), 0)
    };
    letter.with_notes(&Notes::write(flags, keys))
}

/// The headers of a letter that tells of at most so many deaths; of none, nothing is added.
fn headers_of(message: &Message, death: &Death<'_>, counts: bool, remembered: usize) -> Vec<u8> {
    let properties = Properties::parse(message.properties()).unwrap_or_default();
    let mut ours = Vec::new();
    if remembered > 0 {
        let past = history(&properties).filter(|_| counts);
        write_deaths(message, &properties, death, past, remembered, &mut ours);
    }
    let mut put = |name: &str, value: &[u8]| {
        ours.put_short_string(name.as_bytes());
        write_value(&mut ours, Value::LongString(value));
    };
    let reason = death.reason.text();
    if remembered > 0 && !(counts && has_first_death(&properties)) {
        put("x-first-death-reason", reason);
        put("x-first-death-queue", death.queue.as_bytes());
        put("x-first-death-exchange", message.exchange());
    }
    if remembered > 0 {
        put("x-last-death-reason", reason);
        put("x-last-death-queue", death.queue.as_bytes());
        put("x-last-death-exchange", message.exchange());
    }
    let without = death.routing_key.map(|_| CC);
    merged(&ours, properties.headers.unwrap_or_default(), without)
}

fn has_first_death(properties: &Properties<'_>) -> bool {
    let mut fields = properties.header_fields();
    fields.any(|(name, _)| name == b"x-first-death-reason")
}

/// The history of a message, the last death first.
fn history<'a>(properties: &Properties<'a>) -> impl Iterator<Item = Fields<'a>> + Clone + use<'a> {
    let found = properties.header_fields().find(|(name, _)| *name == DEATHS);
    let items = found.and_then(|(_, value)| {
        let Value::Array(items) = value else {
            return None;
        };
        Some(items)
    });
    items.into_iter().flatten().filter_map(|item| {
        let Value::Table(fields) = item else {
            return None;
        };
        Some(fields)
    })
}

fn text_of<'a>(mut fields: Fields<'a>, name: &[u8]) -> Option<&'a [u8]> {
    let (_, value) = fields.find(|(field, _)| *field == name)?;
    text(value)
}

/// Writes the header `x-death` with one more death: that of this queue and reason comes first
/// and counts, the others follow as they were.
fn write_deaths<'a>(
    message: &Message,
    properties: &Properties<'_>,
    death: &Death<'_>,
    past: impl Iterator<Item = Fields<'a>> + Clone,
    remembered: usize,
    out: &mut Vec<u8>,
) {
    let is_this = |fields: &Fields<'_>| {
        text_of(*fields, b"queue") == Some(death.queue.as_bytes())
            && text_of(*fields, b"reason") == Some(death.reason.text())
    };
    let mut deaths = Vec::new();
    match past.clone().find(is_this) {
        Some(again) => put_table(&mut deaths, &counted_again(again)),
        None => put_table(&mut deaths, &first(message, properties, death)),
    }
    for other in past.filter(|fields| !is_this(fields)).take(remembered - 1) {
        if deaths.len() + other.rest().len() > DEATHS_BYTES_MAX {
            break;
        }
        put_table(&mut deaths, other.rest());
    }
    out.put_short_string(DEATHS);
    out.put_u8(b'A');
    out.put_long_string(&deaths);
}

fn put_table(out: &mut Vec<u8>, content: &[u8]) {
    out.put_u8(b'F');
    out.put_long_string(content);
}

/// The first death in this queue for this reason.
fn first(message: &Message, properties: &Properties<'_>, death: &Death<'_>) -> Vec<u8> {
    let mut table = Vec::new();
    let mut put = |name: &str, value: Value<'_>| {
        table.put_short_string(name.as_bytes());
        write_value(&mut table, value);
    };
    let ttl = properties.expiration.map(parse_expiration);
    if let Some(Ok(ttl)) = ttl {
        let text = ttl.to_string();
        put("original-expiration", Value::LongString(text.as_bytes()));
    }
    put("count", Value::I64(1));
    put("reason", Value::LongString(death.reason.text()));
    put("queue", Value::LongString(death.queue.as_bytes()));
    put("time", Value::Timestamp(death.now / 1000));
    put("exchange", Value::LongString(message.exchange()));
    let mut keys = Vec::new();
    for key in [message.routing_key()]
        .into_iter()
        .chain(keys_of(properties, CC))
    {
        write_value(&mut keys, Value::LongString(key));
    }
    table.put_short_string(b"routing-keys");
    table.put_u8(b'A');
    table.put_long_string(&keys);
    table
}

/// A death as it was, with its count one higher.
fn counted_again(fields: Fields<'_>) -> Vec<u8> {
    let mut table = Vec::new();
    for (name, value) in fields {
        table.put_short_string(name);
        let count = value.as_integer().filter(|_| name == b"count");
        let count = count.and_then(|count| i64::try_from(count).ok());
        match count {
            Some(count) => write_value(&mut table, Value::I64(count.saturating_add(1))),
            None => write_value(&mut table, value),
        }
    }
    table
}

/// The properties with these headers as well, which win over others of their names.
pub(crate) fn with_headers(properties: &[u8], ours: &[u8]) -> Vec<u8> {
    let mut properties = Properties::parse(properties).unwrap_or_default();
    let headers = merged(ours, properties.headers.unwrap_or_default(), None);
    properties.headers = Some(&headers);
    let mut written = Vec::new();
    properties.write(&mut written);
    written
}

/// Table content with the fields of both, in the order of their names and each name once, as
/// RabbitMQ writes tables that it adds to: the first of a name stays.
fn merged(ours: &[u8], theirs: &[u8], without: Option<&[u8]>) -> Vec<u8> {
    let mut fields: Vec<(&[u8], &[u8])> = raw_fields(ours).chain(raw_fields(theirs)).collect();
    fields.retain(|(name, _)| Some(*name) != without);
    fields.sort_by_key(|(name, _)| *name);
    fields.dedup_by_key(|(name, _)| *name);
    let mut table = Vec::with_capacity(ours.len() + theirs.len());
    for (_, field) in fields {
        table.put(field);
    }
    table
}

/// Names, and fields with their names as they lie there.
fn raw_fields(content: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut fields = Fields::of(content);
    std::iter::from_fn(move || {
        let before = fields.rest();
        let (name, _) = fields.next()?;
        let field = before.get(..before.len() - fields.rest().len())?;
        Some((name, field))
    })
}

/// Whether a dead letter would go round in a cycle if it came to that queue: it died there
/// before, and no consumer has rejected it since.
pub(crate) fn is_cycle(letter: &Properties<'_>, target: &Name) -> bool {
    for fields in history(letter) {
        if text_of(fields, b"reason") == Some(REJECTED) {
            return false;
        }
        if text_of(fields, b"queue") == Some(target.as_bytes()) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use menzil_model::{Table, TableBuilder};

    fn array(items: &[Value<'_>]) -> Vec<u8> {
        let mut content = Vec::new();
        for item in items {
            write_value(&mut content, *item);
        }
        let mut whole = vec![b'A'];
        whole.put_long_string(&content);
        whole
    }

    fn message(headers: Option<&Table>, expiration: Option<&[u8]>) -> Message {
        let properties = Properties {
            headers: headers.map(Table::as_bytes),
            expiration,
            message_id: Some(b"m"),
            ..Properties::default()
        };
        let mut bytes = Vec::new();
        properties.write(&mut bytes);
        Message::copied(b"orders", b"key", &bytes, b"body")
    }

    fn death<'a>(queue: &'a Name, reason: Reason, exchange: &'a Name) -> Death<'a> {
        Death {
            queue,
            reason,
            now: 7_500,
            exchange,
            routing_key: None,
            counts_client_headers: false,
        }
    }

    /// Names and values of the headers, as text.
    fn headers(message: &Message) -> Vec<String> {
        let properties = Properties::parse(message.properties()).unwrap();
        let text = |(name, value)| format!("{} {}", menzil_model::Escaped(name), show(value));
        properties.header_fields().map(text).collect()
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the other types are shown alike"
    )]
    fn show(value: Value<'_>) -> String {
        match value {
            Value::LongString(text) => menzil_model::Escaped(text).to_string(),
            Value::I64(number) => format!("{number}l"),
            Value::Timestamp(at) => format!("{at}T"),
            Value::Array(items) => format!("[{}]", items.map(show).collect::<Vec<_>>().join(" ")),
            Value::Table(fields) => {
                let text =
                    |(name, value)| format!("{}:{}", menzil_model::Escaped(name), show(value));
                format!("{{{}}}", fields.map(text).collect::<Vec<_>>().join(" "))
            }
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn a_letter_says_what_rabbitmq_writes_in_its_order() {
        let cc = array(&[Value::LongString(b"copy")]);
        let Ok(Value::Array(items)) = menzil_model::table::read_value(&mut Reader::new(&cc)) else {
            panic!("an array")
        };
        let table = TableBuilder::new()
            .field("zz", Value::LongString(b"1"))
            .field("CC", Value::Array(items))
            .field("x-death", Value::LongString(b"mine"))
            .field("b", Value::LongString(b"2"))
            .field("b", Value::LongString(b"3"))
            .build();
        let message = message(Some(&table), Some(b"0100"));
        let (queue, exchange) = (Name::from("work"), Name::from("dlx"));
        let letter = letter(&message, &death(&queue, Reason::Rejected, &exchange));
        assert_eq!(
            headers(&letter),
            [
                "CC [copy]",
                "b 2",
                "x-death [{original-expiration:100 count:1l reason:rejected queue:work time:7T \
                 exchange:orders routing-keys:[key copy]}]",
                "x-first-death-exchange orders",
                "x-first-death-queue work",
                "x-first-death-reason rejected",
                "x-last-death-exchange orders",
                "x-last-death-queue work",
                "x-last-death-reason rejected",
                "zz 1",
            ]
        );
        let properties = Properties::parse(letter.properties()).unwrap();
        assert_eq!(properties.expiration, None);
        assert_eq!(properties.message_id, Some(&b"m"[..]));
        assert_eq!(
            (letter.exchange(), letter.routing_key()),
            (&b"dlx"[..], &b"key"[..])
        );
        assert_eq!(letter.inline_body(), b"body");
    }

    #[test]
    fn deaths_of_one_queue_and_reason_are_counted_and_come_first() {
        let (work, retry, exchange) = (Name::from("work"), Name::from("retry"), Name::from("dlx"));
        let mut letter_ = message(None, None);
        for (queue, reason, now) in [
            (&work, Reason::Rejected, 1_000),
            (&retry, Reason::Expired, 2_000),
            (&work, Reason::Rejected, 3_000),
        ] {
            let death = Death {
                now,
                ..death(queue, reason, &exchange)
            };
            letter_ = letter(&letter_, &death);
        }
        let found = headers(&letter_);
        assert_eq!(
            found[0],
            "x-death [{count:2l reason:rejected queue:work time:1T exchange:orders \
             routing-keys:[key]} {count:1l reason:expired queue:retry time:2T exchange:dlx \
             routing-keys:[key]}]"
        );
        assert!(found.contains(&"x-first-death-exchange orders".to_owned()));
        assert!(found.contains(&"x-last-death-exchange dlx".to_owned()));
        let properties = Properties::parse(letter_.properties()).unwrap();
        assert!(!is_cycle(&properties, &retry), "it was rejected since");
        assert!(!is_cycle(&properties, &work));
        assert!(!is_cycle(&properties, &exchange), "it never was there");
    }

    #[test]
    fn only_a_cycle_without_a_rejection_is_one() {
        let (one, two, exchange) = (Name::from("one"), Name::from("two"), Name::from("dlx"));
        let mut message = message(None, None);
        for (queue, reason) in [
            (&one, Reason::Rejected),
            (&two, Reason::MaxLength),
            (&one, Reason::Expired),
        ] {
            message = letter(&message, &death(queue, reason, &exchange));
        }
        let properties = Properties::parse(message.properties()).unwrap();
        assert!(is_cycle(&properties, &one) && is_cycle(&properties, &two));
    }

    #[test]
    fn a_history_of_a_client_counts_only_where_that_is_asked_for() {
        let (queue, exchange) = (Name::from("work"), Name::from("dlx"));
        let once = letter(
            &message(None, None),
            &death(&queue, Reason::Rejected, &exchange),
        );
        // A client that publishes what it got carries headers along, and no notes.
        let carried = once.with_notes(b"");
        let anew = letter(&carried, &death(&queue, Reason::Rejected, &exchange));
        assert!(headers(&anew)[0].contains("count:1l"));
        let death = Death {
            counts_client_headers: true,
            ..death(&queue, Reason::Rejected, &exchange)
        };
        assert!(headers(&letter(&carried, &death))[0].contains("count:2l"));
    }

    #[test]
    fn a_new_key_takes_the_place_of_all_old_ones() {
        let (queue, exchange, key) = (Name::from("q"), Name::from("dlx"), Name::from("new"));
        let mut notes = Vec::new();
        notes.put_long_string(b"hidden");
        let message = message(None, None).with_notes(&Notes::write(0, &notes));
        let kept = letter(&message, &death(&queue, Reason::Expired, &exchange));
        assert_eq!(Notes::of(&kept).keys().collect::<Vec<_>>(), [b"hidden"]);
        let death = Death {
            routing_key: Some(&key),
            ..death(&queue, Reason::Expired, &exchange)
        };
        let renamed = letter(&message, &death);
        assert_eq!(renamed.routing_key(), b"new");
        assert_eq!(Notes::of(&renamed).keys().count(), 0);
    }

    #[test]
    fn headers_that_leave_no_room_stay_and_the_history_goes() {
        let (queue, exchange) = (Name::from("q"), Name::from("dlx"));
        let huge = vec![b'v'; PROPERTIES_BYTES_MAX - 40];
        let table = TableBuilder::new()
            .field("k", Value::LongString(&huge))
            .build();
        let message = message(Some(&table), None);
        let letter = letter(&message, &death(&queue, Reason::Expired, &exchange));
        assert_eq!(headers(&letter).len(), 1);
        assert!(letter.properties().len() <= PROPERTIES_BYTES_MAX);
        assert!(Notes::of(&letter).is_lost() && !Notes::of(&message).is_lost());
    }

    #[test]
    fn a_history_is_bounded_and_forgets_the_oldest() {
        let exchange = Name::from("dlx");
        let mut message = message(None, None);
        for number in 0..1_100 {
            let queue = Name::cut(format!("a queue, number {number}").as_bytes());
            message = letter(&message, &death(&queue, Reason::Expired, &exchange));
        }
        let properties = Properties::parse(message.properties()).unwrap();
        let deaths: Vec<_> = history(&properties).collect();
        assert!(deaths.len() <= DEATHS_MAX && message.properties().len() < 2 * DEATHS_BYTES_MAX);
        let newest = text_of(deaths[0], b"queue").unwrap();
        assert_eq!(newest, b"a queue, number 1099");
    }
}
