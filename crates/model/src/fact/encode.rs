//! Facts as bytes. The layout of each stands in its function, in the order of writing.

use super::{
    Binding, Destination, Entries, ExchangeDefinition, Extent, FORMAT_VERSION, Fact, Packed,
    Published, PublishedRef, QueueDefinition, Ranges, Returned, SeenKey, tag,
};
use crate::wire::Writer;
use crate::{Message, QueueId};
use std::sync::Arc;

impl Fact {
    /// Appends the fact to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u8(FORMAT_VERSION);
        self.encode_body(out);
    }

    fn encode_body(&self, out: &mut Vec<u8>) {
        match self {
            Self::VirtualHostCreated { name } => {
                out.put_u8(tag::VIRTUAL_HOST_CREATED);
                out.put_short_string(name.as_bytes());
            }
            Self::ExchangeDeclared(exchange) => {
                out.put_u8(tag::EXCHANGE_DECLARED);
                encode_exchange(exchange, out);
            }
            Self::ExchangeDeleted { id } => {
                out.put_u8(tag::EXCHANGE_DELETED);
                out.put_varint(id.0);
            }
            Self::QueueDeclared(queue) => {
                out.put_u8(tag::QUEUE_DECLARED);
                encode_queue(queue, out);
            }
            Self::QueueDeleted { id } => {
                out.put_u8(tag::QUEUE_DELETED);
                out.put_varint(id.0);
            }
            Self::Bound(binding) => {
                out.put_u8(tag::BOUND);
                encode_binding(binding, out);
            }
            Self::Unbound(binding) => {
                out.put_u8(tag::UNBOUND);
                encode_binding(binding, out);
            }
            Self::PolicySet(policy) => {
                out.put_u8(tag::POLICY_SET);
                policy.encode(out);
            }
            Self::PolicyCleared { name, is_operator } => {
                out.put_u8(tag::POLICY_CLEARED);
                out.put_short_string(name.as_bytes());
                out.put_u8(u8::from(*is_operator));
            }
            Self::Chunk(bytes) => {
                out.put_u8(tag::CHUNK);
                out.put(bytes);
            }
            Self::Published(published) => {
                encode_notes(published, out);
                encode_published(published, out);
            }
            Self::Settled { queue, ranges, why } => {
                out.put_u8(tag::SETTLED);
                out.put_varint(queue.0);
                out.put_u8(*why as u8);
                encode_ranges(ranges, out);
            }
            Self::Delivering { queue, below } => {
                out.put_u8(tag::DELIVERING);
                out.put_varint(queue.0);
                out.put_varint(below.0);
            }
            Self::Returned { queue, entries } => {
                let is_grouped = entries.iter().any(|entry| entry.group.is_some());
                out.put_u8(if is_grouped {
                    tag::RETURNED_GROUPED
                } else {
                    tag::RETURNED
                });
                out.put_varint(queue.0);
                encode_returned(entries, is_grouped, out);
            }
            Self::Dying { queue, why, ranges } => {
                out.put_u8(tag::DYING);
                out.put_varint(queue.0);
                out.put_u8(*why as u8);
                encode_ranges(ranges, out);
            }
            Self::Session { session, change } => {
                out.put_u8(tag::SESSION);
                out.put_varint(session.0);
                change.encode(out);
            }
            Self::Retained { topic, kept } => {
                out.put_u8(tag::RETAINED);
                out.put_u8(u8::from(kept.is_some()));
                if let Some(kept) = kept {
                    kept.encode(out);
                }
                out.put(topic);
            }
            Self::Group(facts) => {
                out.put_u8(tag::GROUP);
                out.put_varint(facts.len() as u64);
                let mut one = Vec::new();
                for fact in facts {
                    one.clear();
                    fact.encode_body(&mut one);
                    out.put_varint(one.len() as u64);
                    out.put(&one);
                }
            }
            Self::Copied { queue, entries } => {
                out.put_u8(tag::COPIED);
                encode_packed(*queue, entries, out);
            }
            Self::Numbering { exchange, queue } => {
                out.put_u8(tag::NUMBERING);
                out.put_varint(*exchange);
                out.put_varint(*queue);
            }
            Self::QueueState { queue, next, below } => {
                out.put_u8(tag::QUEUE_STATE);
                out.put_varint(queue.0);
                out.put_varint(next.0);
                out.put_varint(below.0);
            }
            Self::Page { queue, entries } => {
                out.put_u8(tag::PAGE);
                encode_packed(*queue, entries, out);
            }
            Self::Seen { queue, keys } => {
                out.put_u8(tag::SEEN);
                out.put_varint(queue.0);
                encode_seen(keys, out);
            }
        }
    }
}

fn encode_packed(queue: QueueId, entries: &Packed, out: &mut Vec<u8>) {
    out.put_varint(queue.0);
    out.put(entries.as_bytes());
}

fn encode_exchange(exchange: &ExchangeDefinition, out: &mut Vec<u8>) {
    out.put_varint(exchange.id.0);
    out.put_short_string(exchange.name.as_bytes());
    out.put_u8(exchange.kind as u8);
    out.put_u8(
        u8::from(exchange.durable)
            | u8::from(exchange.auto_delete) << 1
            | u8::from(exchange.internal) << 2,
    );
    out.put_long_string(exchange.arguments.as_bytes());
}

fn encode_queue(queue: &QueueDefinition, out: &mut Vec<u8>) {
    out.put_varint(queue.id.0);
    out.put_short_string(queue.name.as_bytes());
    out.put_u8(
        u8::from(queue.durable) | u8::from(queue.exclusive) << 1 | u8::from(queue.auto_delete) << 2,
    );
    out.put_long_string(queue.arguments.as_bytes());
}

fn encode_binding(binding: &Binding, out: &mut Vec<u8>) {
    out.put_varint(binding.source.0);
    match binding.destination {
        Destination::Queue(id) => {
            out.put_u8(0);
            out.put_varint(id.0);
        }
        Destination::Exchange(id) => {
            out.put_u8(1);
            out.put_varint(id.0);
        }
    }
    out.put_short_string(binding.key.as_bytes());
    out.put_long_string(binding.arguments.as_bytes());
}

impl PublishedRef<'_> {
    /// Appends the same bytes as the fact.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u8(FORMAT_VERSION);
        put_notes(self.notes, out);
        out.put_u8(tag::PUBLISHED);
        encode_extent(&self.extent, out);
        encode_entries(self.entries, out);
        out.put_short_string(self.exchange);
        out.put_short_string(self.routing_key);
        out.put_long_string(self.properties);
        out.put(self.body);
    }

    /// The same as a fact that owns its content.
    pub fn to_fact(&self) -> Fact {
        let (exchange, routing_key) = (self.exchange, self.routing_key);
        let message = Message::copied(exchange, routing_key, self.properties, self.body);
        Fact::Published(Published {
            message: Some(Arc::new(if self.notes.is_empty() {
                message
            } else {
                message.with_notes(self.notes)
            })),
            extent: self.extent,
            entries: self.entries.clone(),
            keys: None,
        })
    }
}

/// What the broker noted of the message goes before it, as a tag of its own.
fn encode_notes(published: &Published, out: &mut Vec<u8>) {
    let notes = published.message.as_ref().map(|message| message.notes());
    put_notes(notes.unwrap_or_default(), out);
}

fn put_notes(notes: &[u8], out: &mut Vec<u8>) {
    if !notes.is_empty() {
        out.put_u8(tag::NOTED);
        out.put_varint(notes.len() as u64);
        out.put(notes);
    }
}

/// Layout: extent, durable entries, then exchange, routing key, properties and the inline
/// body, so that an index is rebuilt without reading past the entries.
fn encode_published(published: &Published, out: &mut Vec<u8>) {
    encode_keys(published, out);
    encode_extent(&published.extent, out);
    encode_entries(&published.entries, out);
    if let Some(message) = &published.message {
        out.put_short_string(message.exchange());
        out.put_short_string(message.routing_key());
        out.put_long_string(message.properties());
        if published.extent.chunks.count == 0 {
            out.put(message.inline_body());
            for part in message.chunks() {
                out.put(part);
            }
        }
    }
}

/// The tag, and behind it the keys where there are some: time, then queue and key of each.
fn encode_keys(published: &Published, out: &mut Vec<u8>) {
    let keys = published.keys.as_deref();
    let durable = keys.map(|keys| keys.durable(&published.entries));
    let count = durable.map_or(0, Iterator::count);
    let Some(keys) = keys.filter(|_| count > 0) else {
        out.put_u8(tag::PUBLISHED);
        return;
    };
    out.put_u8(tag::PUBLISHED_KEYED);
    out.put_varint(keys.at);
    out.put_varint(count as u64);
    for (queue, key) in keys.durable(&published.entries) {
        out.put_varint(queue.0);
        out.put(&key.0.to_be_bytes());
    }
}

pub(super) fn encode_extent(extent: &Extent, out: &mut Vec<u8>) {
    out.put_varint(extent.body_bytes);
    out.put_varint(extent.total_bytes);
    out.put_varint(extent.chunks.count.into());
    if extent.chunks.count > 0 {
        out.put_varint(extent.chunks.first);
    }
}

fn encode_entries(entries: &Entries, out: &mut Vec<u8>) {
    let durable = entries.iter().filter(|entry| entry.durable);
    out.put_varint(durable.clone().count() as u64);
    for entry in durable {
        out.put_varint(entry.queue.0);
        out.put_varint(entry.sequence.0);
        encode_time(entry.expires_at, out);
    }
}

/// Groups are written only where an entry has one.
fn encode_returned(entries: &[Returned], is_grouped: bool, out: &mut Vec<u8>) {
    out.put_varint(entries.len() as u64);
    for entry in entries {
        out.put_varint(entry.sequence.0);
        out.put_varint(entry.failed.into());
        out.put_varint(entry.acquired.into());
        encode_time(entry.ready_at, out);
        if is_grouped {
            encode_time(entry.group, out);
        }
    }
}

pub(super) fn encode_time(at: Option<u64>, out: &mut Vec<u8>) {
    match at {
        Some(at) => {
            out.put_u8(1);
            out.put_varint(at);
        }
        None => out.put_u8(0),
    }
}

/// Ranges as gap from the end of the last one, and length less one.
fn encode_ranges(ranges: &Ranges, out: &mut Vec<u8>) {
    out.put_varint(ranges.len() as u64);
    let mut last = 0;
    for range in ranges {
        out.put_varint(range.first.0.wrapping_sub(last));
        out.put_varint(range.last.0.wrapping_sub(range.first.0));
        last = range.last.0;
    }
}

/// Each key with its time, which is told from that of the last one.
fn encode_seen(keys: &[SeenKey], out: &mut Vec<u8>) {
    out.put_varint(keys.len() as u64);
    let mut last = 0;
    for seen in keys {
        out.put(&seen.key.0.to_be_bytes());
        out.put_varint(seen.at.wrapping_sub(last));
        last = seen.at;
    }
}
