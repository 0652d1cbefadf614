//! A fact as one line for people: names escaped, numbers plain, bodies left out.
//!
//! Bodies may be large, and they are nobody's business who looks at structure.

use std::fmt::Write as _;

use menzil_model::fact::{
    Binding, Content, Destination, Entries, Extent, Keys, Packed, Ranges, Returned, SeenKey,
    SessionChange, Why,
};
use menzil_model::table::{Fields, Value};
use menzil_model::{Class, Escaped, Fact, QueueId, Table};

/// The word for a class.
pub(crate) fn class_word(class: Class) -> &'static str {
    match class {
        Class::Topology => "topology",
        Class::Message => "message",
        Class::Session => "session",
    }
}

/// Class, size and content of an encoded fact.
pub(crate) fn fact_line(class: Option<Class>, payload: &[u8]) -> String {
    let fact = Fact::decode(payload, Content::Keep);
    let class = class.or_else(|| fact.as_ref().ok().map(Fact::class));
    let text = match &fact {
        Ok(fact) => describe(fact),
        Err(error) => format!("does not read: {error}"),
    };
    let class = class.map_or("unknown", class_word);
    format!("{class} {} bytes {text}", payload.len())
}

/// What a fact says, bodies aside.
pub(crate) fn describe(fact: &Fact) -> String {
    match fact {
        Fact::VirtualHostCreated { name } => {
            format!("VirtualHostCreated name={}", quoted(name.as_bytes()))
        }
        Fact::ExchangeDeclared(exchange) => format!(
            "ExchangeDeclared exchange={} name={} kind={}{}{}{}{}",
            exchange.id,
            quoted(exchange.name.as_bytes()),
            exchange.kind.name(),
            flag(exchange.durable, " durable"),
            flag(exchange.auto_delete, " auto-delete"),
            flag(exchange.internal, " internal"),
            arguments(&exchange.arguments)
        ),
        Fact::ExchangeDeleted { id } => format!("ExchangeDeleted exchange={id}"),
        Fact::QueueDeclared(queue) => format!(
            "QueueDeclared queue={} name={}{}{}{}{}",
            queue.id,
            quoted(queue.name.as_bytes()),
            flag(queue.durable, " durable"),
            flag(queue.exclusive, " exclusive"),
            flag(queue.auto_delete, " auto-delete"),
            arguments(&queue.arguments)
        ),
        Fact::QueueDeleted { id } => format!("QueueDeleted queue={id}"),
        Fact::Bound(binding) => format!("Bound {}", route(binding)),
        Fact::Unbound(binding) => format!("Unbound {}", route(binding)),
        Fact::PolicySet(policy) => format!(
            "PolicySet name={}{} pattern={} apply-to={} priority={}{}",
            quoted(policy.name.as_bytes()),
            flag(policy.is_operator, " operator"),
            quoted(&policy.pattern),
            policy.apply_to.name(),
            policy.priority,
            arguments(&policy.definition)
        ),
        Fact::PolicyCleared { name, is_operator } => format!(
            "PolicyCleared name={}{}",
            quoted(name.as_bytes()),
            flag(*is_operator, " operator")
        ),
        Fact::Chunk(bytes) => format!("Chunk body-bytes={}", bytes.len()),
        Fact::Published(published) => {
            let envelope = published.message.as_ref().map(|message| {
                format!(
                    " exchange={} routing-key={}",
                    quoted(message.exchange()),
                    quoted(message.routing_key())
                )
            });
            let keys = published.keys.as_deref().map(known_by);
            format!(
                "Published{}{} entries={}{}",
                envelope.unwrap_or_default(),
                size(&published.extent),
                places(&published.entries),
                keys.unwrap_or_default()
            )
        }
        Fact::Settled { queue, ranges, why } => {
            format!("Settled queue={queue} {}={}", reason(*why), spans(ranges))
        }
        Fact::Delivering { queue, below } => format!("Delivering queue={queue} below={below}"),
        Fact::Returned { queue, entries } => {
            format!("Returned queue={queue} {}", returns(entries))
        }
        Fact::Dying { queue, why, ranges } => {
            format!("Dying queue={queue} {}={}", reason(*why), spans(ranges))
        }
        Fact::Session { session, change } => {
            format!("Session session={session} {}", changed(change))
        }
        Fact::Retained { topic, kept } => {
            let kept = kept.map(|kept| format!(" qos={}{}", kept.qos, size(&kept.extent)));
            let kept = kept.unwrap_or_else(|| " none".to_owned());
            format!("Retained topic={}{kept}", quoted(topic))
        }
        Fact::Group(facts) => {
            let all: Vec<String> = facts.iter().map(describe).collect();
            format!("Group of {}: {}", all.len(), all.join("; "))
        }
        Fact::Numbering { exchange, queue } => {
            format!("Numbering next-exchange={exchange} next-queue={queue}")
        }
        Fact::QueueState { queue, next, below } => {
            format!("QueueState queue={queue} next={next} below={below}")
        }
        Fact::Page { queue, entries } => format!("Page {}", packed(*queue, entries)),
        Fact::Copied { queue, entries } => format!("Copied {}", packed(*queue, entries)),
        Fact::Seen { queue, keys } => {
            let at = |seen: Option<&SeenKey>| seen.map_or(0, |seen| seen.at);
            let (first, last) = (at(keys.first()), at(keys.last()));
            format!("Seen queue={queue} keys={} at={first}..{last}", keys.len())
        }
    }
}

/// What happened to a session.
fn changed(change: &SessionChange) -> String {
    match change {
        SessionChange::Opened {
            client_id,
            user,
            durable,
        } => format!(
            "opened client-id={} user={}{}",
            quoted(client_id),
            quoted(user.as_bytes()),
            flag(*durable, " durable")
        ),
        SessionChange::Ended => "ended".to_owned(),
        SessionChange::State(state) => {
            let left_at = state.left_at.map(|at| format!(" left-at={at}"));
            let will = state
                .will
                .as_ref()
                .map(|will| format!(" will-delay={}", will.delay));
            format!(
                "expiry={}{}{}",
                state.expiry,
                left_at.unwrap_or_default(),
                will.unwrap_or_default()
            )
        }
        SessionChange::Subscribed(subscription) => format!(
            "subscribed filter={} options={:#04x} id={}",
            quoted(&subscription.filter),
            subscription.options,
            subscription.id
        ),
        SessionChange::Unsubscribed { filter } => format!("unsubscribed filter={}", quoted(filter)),
        SessionChange::PacketReceived { packet_id } => format!("received packet={packet_id}"),
        SessionChange::PacketReleased { packet_id } => format!("released packet={packet_id}"),
        SessionChange::DeliveryReceived { sequence } => format!("delivery received={sequence}"),
        SessionChange::Lent { group, entries } => {
            let entries = entries.iter();
            let entries = listed(entries.map(|lent| format!("{} as {}", lent.there, lent.here)));
            format!("lent group={group} entries={entries}")
        }
        SessionChange::GivenBack { entries } => {
            let entries = entries.iter().map(|given| {
                let sent = if given.was_sent { " sent" } else { "" };
                format!("{}{sent}", given.sequence)
            });
            format!("given back={}", listed(entries))
        }
        SessionChange::RetainedBehind { filter, topic, .. } => format!(
            "retained filter={} behind={}",
            quoted(filter),
            quoted(topic)
        ),
        SessionChange::RetainedCame { filter } => {
            format!("retained filter={} all", quoted(filter))
        }
    }
}

fn returns(entries: &[Returned]) -> String {
    listed(entries.iter().map(|returned| {
        let until = returned.ready_at.map(|at| format!(" until {at}"));
        format!(
            "{} failed {} of {}{}",
            returned.sequence,
            returned.failed,
            returned.acquired,
            until.unwrap_or_default()
        )
    }))
}

fn packed(queue: QueueId, entries: &Packed) -> String {
    let summary = entries.summary();
    format!(
        "queue={queue} entries={} sequences={}..{} body-bytes={}",
        summary.count, summary.first, summary.last, summary.body_bytes
    )
}

fn flag(set: bool, word: &'static str) -> &'static str {
    if set { word } else { "" }
}

fn route(binding: &Binding) -> String {
    let target = match binding.destination {
        Destination::Queue(id) => format!("to-queue={id}"),
        Destination::Exchange(id) => format!("to-exchange={id}"),
    };
    format!(
        "exchange={} {target} key={}{}",
        binding.source,
        quoted(binding.key.as_bytes()),
        arguments(&binding.arguments)
    )
}

fn size(extent: &Extent) -> String {
    let mut text = format!(" body-bytes={}", extent.body_bytes);
    let chunks = extent.chunks;
    if let (first, Some(last)) = (chunks.first, chunks.indexes().last()) {
        let _ = write!(text, " body-in-records={first}..{last}");
    }
    text
}

/// `queue:sequence`, and when it expires.
fn places(entries: &Entries) -> String {
    listed(entries.iter().map(|entry| {
        let expiry = entry.expires_at.map(|at| format!("(expires-at={at})"));
        format!(
            "{}:{}{}",
            entry.queue,
            entry.sequence,
            expiry.unwrap_or_default()
        )
    }))
}

/// `queue:key`, and when that was.
fn known_by(keys: &Keys) -> String {
    let of = keys.of.iter();
    let of = listed(of.map(|(queue, key)| format!("{queue}:{:032x}", key.0)));
    format!(" keys={of} at={}", keys.at)
}

fn spans(ranges: &Ranges) -> String {
    listed(ranges.iter().map(|range| {
        if range.first == range.last {
            range.first.to_string()
        } else {
            format!("{}..{}", range.first, range.last)
        }
    }))
}

fn listed(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(",")
}

fn reason(why: Why) -> &'static str {
    match why {
        Why::Acknowledged => "acknowledged",
        Why::Rejected => "rejected",
        Why::Expired => "expired",
        Why::Overflow => "overflowed",
        Why::Purged => "purged",
        Why::Damaged => "damaged",
        Why::DeliveryLimit => "limited",
    }
}

fn arguments(table: &Table) -> String {
    let mut text = String::new();
    for (name, value) in table.fields() {
        let _ = write!(text, " {}", field(name, value));
    }
    text
}

fn field(name: &[u8], value: Value<'_>) -> String {
    let bare = Escaped(name).to_string();
    if bare.is_empty() || bare.contains([' ', '=', '"', ',']) {
        return format!("{}={}", quoted(name), shown(value));
    }
    format!("{bare}={}", shown(value))
}

/// A checked table nests a bounded depth.
fn shown(value: Value<'_>) -> String {
    match value {
        Value::Bool(value) => value.to_string(),
        Value::I8(number) => number.to_string(),
        Value::U8(number) => number.to_string(),
        Value::I16(number) => number.to_string(),
        Value::U16(number) => number.to_string(),
        Value::I32(number) => number.to_string(),
        Value::U32(number) => number.to_string(),
        Value::I64(number) => number.to_string(),
        Value::F32(number) => number.to_string(),
        Value::F64(number) => number.to_string(),
        Value::Decimal(places, number) => format!("{number}e-{places}"),
        Value::LongString(text) => quoted(text),
        Value::Array(items) => format!("[{}]", listed(items.map(shown))),
        Value::Timestamp(seconds) => format!("timestamp({seconds})"),
        Value::Table(fields) => format!("{{{}}}", inner(fields)),
        Value::Void => "void".to_owned(),
        Value::Binary(bytes) => format!("binary({} bytes)", bytes.len()),
    }
}

fn inner(fields: Fields<'_>) -> String {
    listed(fields.map(|(name, value)| field(name, value)))
}

fn quoted(bytes: &[u8]) -> String {
    format!("\"{}\"", Escaped(bytes).to_string().replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use menzil_model::fact::{Chunks, Entry, MessageKey, Published, QueueDefinition, Range};
    use menzil_model::{Message, Name, QueueId, Sequence, TableBuilder};

    use super::*;

    fn line(fact: &Fact) -> String {
        let mut bytes = Vec::new();
        fact.encode(&mut bytes);
        let line = fact_line(None, &bytes);
        let (start, rest) = line.split_once(" bytes ").unwrap();
        assert!(start.ends_with(&format!(" {}", bytes.len())), "{line}");
        rest.to_owned()
    }

    #[test]
    fn a_queue_shows_its_name_and_arguments() {
        let nested = TableBuilder::new()
            .field("a", Value::Bool(true))
            .field("b c", Value::Void)
            .build();
        let arguments = TableBuilder::new()
            .field("x-max-length", Value::I32(5))
            .field("x-overflow", Value::LongString(b"reject-publish"))
            .field("t", Value::Table(nested.fields()))
            .build();
        let queue = QueueDefinition {
            id: QueueId(3),
            name: Name::new(b"or\"der\n").unwrap(),
            durable: true,
            exclusive: false,
            auto_delete: true,
            arguments,
        };
        assert_eq!(
            line(&Fact::QueueDeclared(queue)),
            "QueueDeclared queue=3 name=\"or\\\"der\\n\" durable auto-delete x-max-length=5 \
             x-overflow=\"reject-publish\" t={a=true,\"b c\"=void}"
        );
    }

    #[test]
    fn a_publish_shows_where_it_went_and_not_what_it_says() {
        let message = Message::new(
            &Name::new(b"ex").unwrap(),
            &Name::new(b"key").unwrap(),
            &[0, 0],
            vec![b"secret"[..].into()],
            1024,
        );
        let entry = |queue, sequence, expires_at| Entry {
            queue: QueueId(queue),
            sequence: Sequence(sequence),
            expires_at,
            durable: true,
        };
        let published = Published {
            extent: Extent {
                body_bytes: message.body_bytes(),
                total_bytes: message.total_bytes(),
                chunks: Chunks::default(),
            },
            message: Some(Arc::new(message)),
            entries: [entry(3, 1, None), entry(4, 7, Some(99))]
                .into_iter()
                .collect(),
            keys: None,
        };
        let text = "Published exchange=\"ex\" routing-key=\"key\" body-bytes=6 \
                    entries=3:1,4:7(expires-at=99)";
        assert_eq!(line(&Fact::Published(published.clone())), text);
        let keys = Keys {
            at: 50,
            of: std::iter::once((QueueId(4), MessageKey(0xab))).collect(),
        };
        let keyed = Published {
            keys: Some(Box::new(keys)),
            ..published
        };
        assert_eq!(
            line(&Fact::Published(keyed)),
            format!("{text} keys=4:000000000000000000000000000000ab at=50")
        );
    }

    #[test]
    fn a_settle_shows_why_and_which() {
        let range = |first, last| Range {
            first: Sequence(first),
            last: Sequence(last),
        };
        let settled = Fact::Settled {
            queue: QueueId(3),
            ranges: [range(1, 4), range(6, 6)].into_iter().collect(),
            why: Why::Acknowledged,
        };
        assert_eq!(line(&settled), "Settled queue=3 acknowledged=1..4,6");
        let unreadable = fact_line(Some(Class::Message), &[0xff, 0xff]);
        assert!(unreadable.starts_with("message 2 bytes does not read"));
    }
}
