//! Facts: what happened to durable state, as the journal records it.
//!
//! A fact states an outcome with every number in it (ids, sequences, expiry times); applying
//! one counts nothing and decides nothing, so that a later version of the rules cannot change
//! the past (`docs/adr/0002-facts-not-requests.md`). It may name an object that is deleted or
//! not yet declared. Where a record's bytes lie is never in a fact; other records are named by
//! their index in the same shard.
//!
//! ```text
//! fact := version:u8 tag:u8 fields        numbers are varints unless said
//! name := short string   table := long string   option := 0 | 1 value
//! ```

use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;

use crate::table::TableError;
use crate::wire::{Reader, Truncated, Writer};
use crate::{Class, ExchangeId, Message, Name, QueueId, Sequence, Table};

/// The version that [`Fact::encode`] writes.
pub const FORMAT_VERSION: u8 = 1;

/// Groups inside groups do not occur; a decoder that met them would have to bound them.
const GROUP_DEPTH_MAX: u8 = 1;

/// How an exchange routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ExchangeKind {
    /// Binding key equals routing key.
    Direct = 1,
    /// Every binding.
    Fanout = 2,
    /// Words and wildcards.
    Topic = 3,
    /// Header names and values.
    Headers = 4,
}

impl ExchangeKind {
    /// The kind of that type name, as in `exchange.declare`.
    pub fn from_name(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"direct" => Self::Direct,
            b"fanout" => Self::Fanout,
            b"topic" => Self::Topic,
            b"headers" => Self::Headers,
            _ => return None,
        })
    }

    /// The type name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Fanout => "fanout",
            Self::Topic => "topic",
            Self::Headers => "headers",
        }
    }

    fn from_byte(byte: u8) -> Option<Self> {
        [Self::Direct, Self::Fanout, Self::Topic, Self::Headers]
            .into_iter()
            .find(|kind| *kind as u8 == byte)
    }
}

/// An exchange as declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExchangeDefinition {
    /// Its number for ever.
    pub id: ExchangeId,
    /// Unique among the living exchanges of the virtual host.
    pub name: Name,
    /// How it routes.
    pub kind: ExchangeKind,
    /// Survives a restart.
    pub durable: bool,
    /// Goes when its last outgoing binding goes.
    pub auto_delete: bool,
    /// Takes messages from exchanges only.
    pub internal: bool,
    /// Declared arguments.
    pub arguments: Table,
}

/// A queue as declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueDefinition {
    /// Its number for ever.
    pub id: QueueId,
    /// Unique among the living queues of the virtual host.
    pub name: Name,
    /// Survives a restart.
    pub durable: bool,
    /// Belongs to one connection. Never durable, so never in the journal.
    pub exclusive: bool,
    /// Goes when its last consumer goes.
    pub auto_delete: bool,
    /// Declared arguments.
    pub arguments: Table,
}

/// What a binding points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Destination {
    /// A queue.
    Queue(QueueId),
    /// Another exchange.
    Exchange(ExchangeId),
}

/// A binding; two with equal fields are the same one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Binding {
    /// The exchange that routes.
    pub source: ExchangeId,
    /// Where to.
    pub destination: Destination,
    /// The binding key.
    pub key: Name,
    /// Binding arguments, for headers exchanges.
    pub arguments: Table,
}

/// The place of a message in one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The queue.
    pub queue: QueueId,
    /// The place in its order.
    pub sequence: Sequence,
    /// Milliseconds since 1970 at which the entry leaves the queue by itself.
    pub expires_at: Option<u64>,
    /// Whether the entry is in the journal. Transient ones are not written: a transient
    /// message, or a transient queue, beside a durable one.
    pub durable: bool,
}

/// The entries of one message; most have one or two.
pub type Entries = SmallVec<[Entry; 2]>;

/// How large a message is and where its large body lies.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Extent {
    /// Bytes of the body alone, which length limits count.
    pub body_bytes: u64,
    /// Bytes of envelope, properties and body.
    pub total_bytes: u64,
    /// Indexes of the chunk records that hold the body, in order; empty where the body is in
    /// the `Published` record itself.
    pub chunks: Vec<u64>,
}

/// Names a published message for ever: the record that it is in and, where that record is a
/// group, which fact of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// Index of the record; 0 is none.
    pub index: u64,
    /// Place in the group, from 0; 0 where the record is no group.
    pub part: u32,
}

/// A message and all the queues that it reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The content; `None` where only the index was read.
    pub message: Option<Arc<Message>>,
    /// Its size.
    pub extent: Extent,
    /// Its places.
    pub entries: Entries,
}

/// A published message of an earlier record, as a checkpoint names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Where it was published.
    pub origin: Origin,
    /// Its size.
    pub extent: Extent,
    /// The places it still has.
    pub entries: Entries,
}

/// Why entries left a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Why {
    /// Acknowledged, or delivered where no acknowledgement is wanted.
    Acknowledged = 1,
    /// Rejected without requeue.
    Rejected = 2,
    /// Time to live ended.
    Expired = 3,
    /// A length limit dropped the oldest.
    Overflow = 4,
    /// `queue.purge`.
    Purged = 5,
    /// The record that held the content cannot be read any more.
    Damaged = 6,
}

impl Why {
    fn from_byte(byte: u8) -> Option<Self> {
        use Why::{Acknowledged, Damaged, Expired, Overflow, Purged, Rejected};
        [Acknowledged, Rejected, Expired, Overflow, Purged, Damaged]
            .into_iter()
            .find(|why| *why as u8 == byte)
    }
}

/// Sequences `first..=last`, all of which that are in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// First sequence.
    pub first: Sequence,
    /// Last sequence, not below the first.
    pub last: Sequence,
}

/// Ranges, ascending and apart.
pub type Ranges = SmallVec<[Range; 1]>;

/// One thing that happened to durable state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// The shard is the state of the virtual host of that name. First record of each shard.
    VirtualHostCreated {
        /// The virtual host's name.
        name: Name,
    },
    /// An exchange is there.
    ExchangeDeclared(ExchangeDefinition),
    /// The exchange and every binding from or to it are gone.
    ExchangeDeleted {
        /// Which.
        id: ExchangeId,
    },
    /// A queue is there.
    QueueDeclared(QueueDefinition),
    /// The queue, its entries and every binding to it are gone.
    QueueDeleted {
        /// Which.
        id: QueueId,
    },
    /// A binding is there.
    Bound(Binding),
    /// A binding is gone.
    Unbound(Binding),
    /// A part of a large body; named by the `Published` record that follows it.
    Chunk(Bytes),
    /// A message entered queues.
    Published(Published),
    /// Entries left a queue.
    Settled {
        /// Which queue.
        queue: QueueId,
        /// Which entries.
        ranges: Ranges,
        /// Why.
        why: Why,
    },
    /// Entries below that sequence may have been delivered.
    Delivering {
        /// Which queue.
        queue: QueueId,
        /// The first sequence that was certainly not delivered.
        below: Sequence,
    },
    /// Facts that hold together or not at all.
    Group(Vec<Self>),
    /// Checkpoint: the next ids to give out.
    Numbering {
        /// The next exchange.
        exchange: u64,
        /// The next queue.
        queue: u64,
    },
    /// Checkpoint: where a queue's order stands.
    QueueState {
        /// Which queue.
        queue: QueueId,
        /// The next sequence to give out.
        next: Sequence,
        /// As in `Delivering`.
        below: Sequence,
    },
    /// Checkpoint: a message that queues still hold.
    Stored(Stored),
}

/// Why bytes are not a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FactError {
    /// Bytes end early.
    Truncated,
    /// Bytes are left over.
    Trailing,
    /// Written by a newer version of this program.
    Version(u8),
    /// A tag that this version does not know.
    UnknownTag(u8),
    /// A field holds what cannot be.
    Invalid(&'static str),
}

impl std::fmt::Display for FactError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Truncated => write!(f, "fact ends early"),
            Self::Trailing => write!(f, "bytes are left over after the fact"),
            Self::Version(version) => write!(
                f,
                "fact has format version {version}, this program reads up to {FORMAT_VERSION}: \
                 start a newer menzil on this data folder"
            ),
            Self::UnknownTag(tag) => write!(f, "unknown fact tag {tag}"),
            Self::Invalid(what) => write!(f, "invalid fact: {what}"),
        }
    }
}

impl std::error::Error for FactError {}

impl From<Truncated> for FactError {
    fn from(_: Truncated) -> Self {
        Self::Truncated
    }
}

impl From<TableError> for FactError {
    fn from(_: TableError) -> Self {
        Self::Invalid("field table")
    }
}

/// Whether [`Fact::decode`] copies message contents out or only their sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// `Published` gets its message. A body in chunks stays behind; see [`Extent::chunks`].
    Keep,
    /// `Published` has no message, only its size.
    Skip,
}

/// The message of a record that was read back: the `part`-th fact of a group, or the record's
/// only one. A body in chunks comes from `chunks`, the contents of the records that
/// [`Extent::chunks`] names, in order; see [`read_chunk`].
pub fn read_message(record: &[u8], part: u32, chunks: Vec<Bytes>) -> Result<Message, FactError> {
    let missing = FactError::Invalid("no message in the record");
    let mut fact = Fact::decode(record, Content::Keep)?;
    if let Fact::Group(facts) = fact {
        fact = facts.into_iter().nth(part as usize).ok_or(missing)?;
    }
    let Fact::Published(published) = fact else {
        return Err(missing);
    };
    let message = published.message.ok_or(missing)?;
    if published.extent.chunks.is_empty() {
        return Ok(Arc::unwrap_or_clone(message));
    }
    let bytes: u64 = chunks.iter().map(|chunk| chunk.len() as u64).sum();
    if chunks.len() != published.extent.chunks.len() || bytes != published.extent.body_bytes {
        return Err(FactError::Invalid("chunks of another body"));
    }
    let name = |bytes| Name::new(bytes).ok_or(FactError::Invalid("name"));
    let (exchange, routing_key) = (name(message.exchange())?, name(message.routing_key())?);
    Ok(Message::new(
        &exchange,
        &routing_key,
        message.properties(),
        chunks,
        0,
    ))
}

/// The content of a chunk record.
pub fn read_chunk(record: &[u8]) -> Result<Bytes, FactError> {
    let fact = Fact::decode(record, Content::Keep)?;
    let Fact::Chunk(bytes) = fact else {
        return Err(FactError::Invalid("no chunk in the record"));
    };
    Ok(bytes)
}

mod tag {
    pub(super) const VIRTUAL_HOST_CREATED: u8 = 1;
    pub(super) const EXCHANGE_DECLARED: u8 = 2;
    pub(super) const EXCHANGE_DELETED: u8 = 3;
    pub(super) const QUEUE_DECLARED: u8 = 4;
    pub(super) const QUEUE_DELETED: u8 = 5;
    pub(super) const BOUND: u8 = 6;
    pub(super) const UNBOUND: u8 = 7;
    pub(super) const CHUNK: u8 = 16;
    pub(super) const PUBLISHED: u8 = 17;
    pub(super) const SETTLED: u8 = 18;
    pub(super) const DELIVERING: u8 = 19;
    pub(super) const GROUP: u8 = 20;
    pub(super) const NUMBERING: u8 = 32;
    pub(super) const QUEUE_STATE: u8 = 33;
    pub(super) const STORED: u8 = 34;
}

impl Fact {
    /// What a damaged record of it would mean.
    pub fn class(&self) -> Class {
        match self {
            Self::VirtualHostCreated { .. }
            | Self::ExchangeDeclared(_)
            | Self::ExchangeDeleted { .. }
            | Self::QueueDeclared(_)
            | Self::QueueDeleted { .. }
            | Self::Bound(_)
            | Self::Unbound(_)
            | Self::Numbering { .. }
            | Self::QueueState { .. } => Class::Topology,
            Self::Chunk(_)
            | Self::Published(_)
            | Self::Settled { .. }
            | Self::Delivering { .. }
            | Self::Stored(_) => Class::Message,
            Self::Group(facts) => facts
                .iter()
                .map(Self::class)
                .find(|class| *class == Class::Topology)
                .unwrap_or(Class::Message),
        }
    }

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
            Self::Chunk(bytes) => {
                out.put_u8(tag::CHUNK);
                out.put(bytes);
            }
            Self::Published(published) => {
                out.put_u8(tag::PUBLISHED);
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
            Self::Stored(stored) => {
                out.put_u8(tag::STORED);
                out.put_varint(stored.origin.index);
                out.put_varint(stored.origin.part.into());
                encode_extent(&stored.extent, out);
                encode_entries(&stored.entries, out);
            }
        }
    }

    /// Reads one fact that fills `bytes`.
    pub fn decode(bytes: &[u8], content: Content) -> Result<Self, FactError> {
        let mut reader = Reader::new(bytes);
        match reader.u8()? {
            FORMAT_VERSION => decode_body(reader, content, 0),
            version => Err(FactError::Version(version)),
        }
    }
}

fn decode_body(mut reader: Reader<'_>, content: Content, depth: u8) -> Result<Fact, FactError> {
    let fact = match reader.u8()? {
        tag::VIRTUAL_HOST_CREATED => Fact::VirtualHostCreated {
            name: decode_name(&mut reader)?,
        },
        tag::EXCHANGE_DECLARED => Fact::ExchangeDeclared(decode_exchange(&mut reader)?),
        tag::EXCHANGE_DELETED => Fact::ExchangeDeleted {
            id: ExchangeId(reader.varint()?),
        },
        tag::QUEUE_DECLARED => Fact::QueueDeclared(decode_queue(&mut reader)?),
        tag::QUEUE_DELETED => Fact::QueueDeleted {
            id: QueueId(reader.varint()?),
        },
        tag::BOUND => Fact::Bound(decode_binding(&mut reader)?),
        tag::UNBOUND => Fact::Unbound(decode_binding(&mut reader)?),
        tag::CHUNK => {
            let rest = reader.bytes(reader.rest().len())?;
            Fact::Chunk(match content {
                Content::Keep => Bytes::copy_from_slice(rest),
                Content::Skip => Bytes::new(),
            })
        }
        tag::PUBLISHED => Fact::Published(decode_published(&mut reader, content)?),
        tag::SETTLED => {
            let queue = QueueId(reader.varint()?);
            let why = Why::from_byte(reader.u8()?).ok_or(FactError::Invalid("settle reason"))?;
            Fact::Settled {
                queue,
                ranges: decode_ranges(&mut reader)?,
                why,
            }
        }
        tag::DELIVERING => Fact::Delivering {
            queue: QueueId(reader.varint()?),
            below: Sequence(reader.varint()?),
        },
        tag::GROUP if depth < GROUP_DEPTH_MAX => {
            let count = reader.varint()?;
            let mut facts = Vec::new();
            for _ in 0..count {
                let length = length(&mut reader)?;
                let one = Reader::new(reader.bytes(length)?);
                facts.push(decode_body(one, content, depth + 1)?);
            }
            Fact::Group(facts)
        }
        tag::GROUP => return Err(FactError::Invalid("group inside a group")),
        tag::NUMBERING => Fact::Numbering {
            exchange: reader.varint()?,
            queue: reader.varint()?,
        },
        tag::QUEUE_STATE => Fact::QueueState {
            queue: QueueId(reader.varint()?),
            next: Sequence(reader.varint()?),
            below: Sequence(reader.varint()?),
        },
        tag::STORED => Fact::Stored(Stored {
            origin: decode_origin(&mut reader)?,
            extent: decode_extent(&mut reader)?,
            entries: decode_entries(&mut reader)?,
        }),
        other => return Err(FactError::UnknownTag(other)),
    };
    if reader.is_empty() {
        Ok(fact)
    } else {
        Err(FactError::Trailing)
    }
}

fn length(reader: &mut Reader<'_>) -> Result<usize, FactError> {
    usize::try_from(reader.varint()?).map_err(|_| FactError::Truncated)
}

fn decode_origin(reader: &mut Reader<'_>) -> Result<Origin, FactError> {
    let index = reader.varint()?;
    let part = u32::try_from(reader.varint()?).map_err(|_| FactError::Invalid("part"))?;
    Ok(Origin { index, part })
}

fn decode_name(reader: &mut Reader<'_>) -> Result<Name, FactError> {
    Name::new(reader.short_string()?).ok_or(FactError::Invalid("name"))
}

fn decode_table(reader: &mut Reader<'_>) -> Result<Table, FactError> {
    Ok(Table::copy_from(reader.long_string()?)?)
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

fn decode_exchange(reader: &mut Reader<'_>) -> Result<ExchangeDefinition, FactError> {
    let id = ExchangeId(reader.varint()?);
    let name = decode_name(reader)?;
    let kind = ExchangeKind::from_byte(reader.u8()?).ok_or(FactError::Invalid("exchange kind"))?;
    let flags = reader.u8()?;
    Ok(ExchangeDefinition {
        id,
        name,
        kind,
        durable: flags & 1 != 0,
        auto_delete: flags & 2 != 0,
        internal: flags & 4 != 0,
        arguments: decode_table(reader)?,
    })
}

fn encode_queue(queue: &QueueDefinition, out: &mut Vec<u8>) {
    out.put_varint(queue.id.0);
    out.put_short_string(queue.name.as_bytes());
    out.put_u8(
        u8::from(queue.durable) | u8::from(queue.exclusive) << 1 | u8::from(queue.auto_delete) << 2,
    );
    out.put_long_string(queue.arguments.as_bytes());
}

fn decode_queue(reader: &mut Reader<'_>) -> Result<QueueDefinition, FactError> {
    let id = QueueId(reader.varint()?);
    let name = decode_name(reader)?;
    let flags = reader.u8()?;
    Ok(QueueDefinition {
        id,
        name,
        durable: flags & 1 != 0,
        exclusive: flags & 2 != 0,
        auto_delete: flags & 4 != 0,
        arguments: decode_table(reader)?,
    })
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

fn decode_binding(reader: &mut Reader<'_>) -> Result<Binding, FactError> {
    let source = ExchangeId(reader.varint()?);
    let destination = match reader.u8()? {
        0 => Destination::Queue(QueueId(reader.varint()?)),
        1 => Destination::Exchange(ExchangeId(reader.varint()?)),
        _ => return Err(FactError::Invalid("binding destination")),
    };
    Ok(Binding {
        source,
        destination,
        key: decode_name(reader)?,
        arguments: decode_table(reader)?,
    })
}

/// Layout: extent, durable entries, then exchange, routing key, properties and the inline
/// body, so that an index is rebuilt without reading past the entries.
fn encode_published(published: &Published, out: &mut Vec<u8>) {
    encode_extent(&published.extent, out);
    encode_entries(&published.entries, out);
    if let Some(message) = &published.message {
        out.put_short_string(message.exchange());
        out.put_short_string(message.routing_key());
        out.put_long_string(message.properties());
        if published.extent.chunks.is_empty() {
            out.put(message.inline_body());
            for part in message.chunks() {
                out.put(part);
            }
        }
    }
}

fn decode_published(reader: &mut Reader<'_>, content: Content) -> Result<Published, FactError> {
    let extent = decode_extent(reader)?;
    let entries = decode_entries(reader)?;
    if content == Content::Skip {
        reader.bytes(reader.rest().len())?;
        return Ok(Published {
            message: None,
            extent,
            entries,
        });
    }
    let exchange = decode_name(reader)?;
    let routing_key = decode_name(reader)?;
    let properties = reader.long_string()?;
    let body = reader.bytes(reader.rest().len())?;
    let parts = vec![Bytes::copy_from_slice(body)];
    let message = Message::new(&exchange, &routing_key, properties, parts, body.len());
    Ok(Published {
        message: Some(Arc::new(message)),
        extent,
        entries,
    })
}

fn encode_extent(extent: &Extent, out: &mut Vec<u8>) {
    out.put_varint(extent.body_bytes);
    out.put_varint(extent.total_bytes);
    out.put_varint(extent.chunks.len() as u64);
    for index in &extent.chunks {
        out.put_varint(*index);
    }
}

fn decode_extent(reader: &mut Reader<'_>) -> Result<Extent, FactError> {
    let body_bytes = reader.varint()?;
    let total_bytes = reader.varint()?;
    let count = reader.varint()?;
    let mut chunks = Vec::new();
    for _ in 0..count {
        chunks.push(reader.varint()?);
    }
    Ok(Extent {
        body_bytes,
        total_bytes,
        chunks,
    })
}

fn encode_entries(entries: &Entries, out: &mut Vec<u8>) {
    let durable = entries.iter().filter(|entry| entry.durable);
    out.put_varint(durable.clone().count() as u64);
    for entry in durable {
        out.put_varint(entry.queue.0);
        out.put_varint(entry.sequence.0);
        match entry.expires_at {
            Some(at) => {
                out.put_u8(1);
                out.put_varint(at);
            }
            None => out.put_u8(0),
        }
    }
}

fn decode_entries(reader: &mut Reader<'_>) -> Result<Entries, FactError> {
    let count = reader.varint()?;
    let mut entries = Entries::new();
    for _ in 0..count {
        let queue = QueueId(reader.varint()?);
        let sequence = Sequence(reader.varint()?);
        let expires_at = match reader.u8()? {
            0 => None,
            1 => Some(reader.varint()?),
            _ => return Err(FactError::Invalid("expiry flag")),
        };
        entries.push(Entry {
            queue,
            sequence,
            expires_at,
            durable: true,
        });
    }
    Ok(entries)
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

fn decode_ranges(reader: &mut Reader<'_>) -> Result<Ranges, FactError> {
    let overflow = FactError::Invalid("range");
    let count = reader.varint()?;
    let mut ranges = Ranges::new();
    let mut last = 0_u64;
    for _ in 0..count {
        let first = last.checked_add(reader.varint()?).ok_or(overflow)?;
        last = first.checked_add(reader.varint()?).ok_or(overflow)?;
        ranges.push(Range {
            first: Sequence(first),
            last: Sequence(last),
        });
    }
    Ok(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TableBuilder;
    use crate::Value;
    use proptest::prelude::*;
    use smallvec::smallvec;

    fn samples() -> Vec<Fact> {
        let arguments = TableBuilder::new()
            .field("x-max-length", Value::I32(5))
            .build();
        let binding = |destination| Binding {
            source: ExchangeId(3),
            destination,
            key: Name::from("a.#"),
            arguments: arguments.clone(),
        };
        let parts = vec![Bytes::from_static(b"body")];
        let message = Message::new(
            &Name::from("x"),
            &Name::from("k"),
            b"\x10\x00\x02",
            parts,
            100,
        );
        let published = Published {
            extent: Extent {
                body_bytes: 4,
                total_bytes: message.total_bytes(),
                chunks: vec![],
            },
            message: Some(Arc::new(message)),
            entries: smallvec![
                Entry {
                    queue: QueueId(9),
                    sequence: Sequence(70_000),
                    expires_at: Some(1 << 41),
                    durable: true
                },
                Entry {
                    queue: QueueId(10),
                    sequence: Sequence(1),
                    expires_at: None,
                    durable: true
                },
            ],
        };
        let settled = Fact::Settled {
            queue: QueueId(9),
            ranges: smallvec![
                Range {
                    first: Sequence(1),
                    last: Sequence(5)
                },
                Range {
                    first: Sequence(9),
                    last: Sequence(9)
                },
            ],
            why: Why::Overflow,
        };
        vec![
            Fact::VirtualHostCreated {
                name: Name::from("/"),
            },
            Fact::ExchangeDeclared(ExchangeDefinition {
                id: ExchangeId(3),
                name: Name::from("x"),
                kind: ExchangeKind::Headers,
                durable: true,
                auto_delete: false,
                internal: true,
                arguments: arguments.clone(),
            }),
            Fact::ExchangeDeleted { id: ExchangeId(3) },
            Fact::QueueDeclared(QueueDefinition {
                id: QueueId(9),
                name: Name::from("q"),
                durable: true,
                exclusive: false,
                auto_delete: true,
                arguments: arguments.clone(),
            }),
            Fact::QueueDeleted { id: QueueId(9) },
            Fact::Bound(binding(Destination::Queue(QueueId(9)))),
            Fact::Unbound(binding(Destination::Exchange(ExchangeId(4)))),
            Fact::Chunk(Bytes::from_static(b"part")),
            Fact::Published(published.clone()),
            settled.clone(),
            Fact::Delivering {
                queue: QueueId(9),
                below: Sequence(4096),
            },
            Fact::Group(vec![Fact::Published(published), settled]),
            Fact::Numbering {
                exchange: 12,
                queue: 900,
            },
            Fact::QueueState {
                queue: QueueId(9),
                next: Sequence(8),
                below: Sequence(3),
            },
            Fact::Stored(Stored {
                origin: Origin { index: 77, part: 3 },
                extent: Extent {
                    body_bytes: 1,
                    total_bytes: 2,
                    chunks: vec![75, 76],
                },
                entries: smallvec![],
            }),
        ]
    }

    #[test]
    fn every_fact_comes_back() {
        for fact in samples() {
            let mut bytes = Vec::new();
            fact.encode(&mut bytes);
            assert_eq!(Fact::decode(&bytes, Content::Keep), Ok(fact.clone()));
            for cut in 0..bytes.len() {
                let decoded = Fact::decode(&bytes[..cut], Content::Keep);
                assert_ne!(decoded, Ok(fact.clone()), "cut at {cut}");
            }
        }
    }

    #[test]
    fn transient_entries_are_not_written() {
        let entry = |queue, durable| Entry {
            queue: QueueId(queue),
            sequence: Sequence(1),
            expires_at: None,
            durable,
        };
        let stored = Stored {
            origin: Origin { index: 1, part: 0 },
            extent: Extent::default(),
            entries: smallvec![entry(1, true), entry(2, false)],
        };
        let mut bytes = Vec::new();
        Fact::Stored(stored).encode(&mut bytes);
        let Ok(Fact::Stored(read)) = Fact::decode(&bytes, Content::Keep) else {
            panic!()
        };
        assert_eq!(read.entries.as_slice(), [entry(1, true)]);
    }

    #[test]
    fn a_newer_version_is_refused_by_name() {
        let error = Fact::decode(&[9, 1, 0], Content::Keep).unwrap_err();
        assert_eq!(error, FactError::Version(9));
        assert!(error.to_string().contains("newer menzil"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_fact_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let mut versioned = vec![FORMAT_VERSION];
            versioned.extend(&bytes);
            if let Ok(fact) = Fact::decode(&versioned, Content::Keep) {
                let mut again = Vec::new();
                fact.encode(&mut again);
                prop_assert!(Fact::decode(&again, Content::Keep).is_ok());
            }
        }
    }
}
