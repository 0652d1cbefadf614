//! Bytes as facts: of any bytes a fact or an error, never a panic, and never an allocation by a
//! length that is not there.

use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;

use super::{
    Binding, Chunks, Content, Destination, Entries, Entry, ExchangeDefinition, ExchangeKind,
    Extent, FORMAT_VERSION, Fact, Kept, Keys, MessageKey, Packed, PolicyDefinition, Published,
    QueueDefinition, Range, Ranges, Returned, SeenKey, SessionChange, Why, tag,
};
use crate::table::TableError;
use crate::wire::{Reader, Truncated};
use crate::{ExchangeId, Message, Name, QueueId, Sequence, Table};

/// Groups inside groups do not occur; a decoder that met them would have to bound them.
const GROUP_DEPTH_MAX: u8 = 1;

/// Why bytes are not a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FactError {
    /// Bytes end early.
    Truncated,
    /// Bytes are left over.
    Trailing,
    /// Written by another version of this program.
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
            Self::Version(version) if *version < FORMAT_VERSION => write!(
                f,
                "fact has format version {version}, this program reads {FORMAT_VERSION}: \
                 start the menzil that wrote this data folder"
            ),
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

impl Fact {
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
        tag::POLICY_SET => Fact::PolicySet(PolicyDefinition::decode(&mut reader)?),
        tag::POLICY_CLEARED => Fact::PolicyCleared {
            name: decode_name(&mut reader)?,
            is_operator: reader.u8()? & 1 != 0,
        },
        tag::CHUNK => {
            let rest = reader.bytes(reader.rest().len())?;
            Fact::Chunk(match content {
                Content::Keep => Bytes::copy_from_slice(rest),
                Content::Skip => Bytes::new(),
            })
        }
        tag::PUBLISHED => Fact::Published(decode_published(&mut reader, None, content)?),
        tag::PUBLISHED_KEYED => {
            let keys = Box::new(decode_keys(&mut reader)?);
            Fact::Published(decode_published(&mut reader, Some(keys), content)?)
        }
        tag::NOTED => return decode_noted(reader, content),
        tag::SETTLED => {
            let (queue, why, ranges) = decode_why(&mut reader)?;
            Fact::Settled { queue, ranges, why }
        }
        tag::DYING => {
            let (queue, why, ranges) = decode_why(&mut reader)?;
            Fact::Dying { queue, why, ranges }
        }
        tag::DELIVERING => Fact::Delivering {
            queue: QueueId(reader.varint()?),
            below: Sequence(reader.varint()?),
        },
        found @ (tag::RETURNED | tag::RETURNED_GROUPED) => Fact::Returned {
            queue: QueueId(reader.varint()?),
            entries: decode_returned(&mut reader, found == tag::RETURNED_GROUPED)?,
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
        tag::COPIED => {
            let (queue, entries) = decode_packed(&mut reader)?;
            Fact::Copied { queue, entries }
        }
        tag::NUMBERING => Fact::Numbering {
            exchange: reader.varint()?,
            queue: reader.varint()?,
        },
        tag::QUEUE_STATE => Fact::QueueState {
            queue: QueueId(reader.varint()?),
            next: Sequence(reader.varint()?),
            below: Sequence(reader.varint()?),
        },
        tag::PAGE => {
            let (queue, entries) = decode_packed(&mut reader)?;
            Fact::Page { queue, entries }
        }
        tag::SESSION => Fact::Session {
            session: QueueId(reader.varint()?),
            change: SessionChange::decode(&mut reader)?,
        },
        tag::RETAINED => Fact::Retained {
            kept: match reader.u8()? {
                0 => None,
                1 => Some(Kept::decode(&mut reader)?),
                _ => return Err(FactError::Invalid("retained flag")),
            },
            topic: Bytes::copy_from_slice(reader.bytes(reader.rest().len())?),
        },
        tag::SEEN => Fact::Seen {
            queue: QueueId(reader.varint()?),
            keys: decode_seen(&mut reader)?,
        },
        other => return Err(FactError::UnknownTag(other)),
    };
    if reader.is_empty() {
        Ok(fact)
    } else {
        Err(FactError::Trailing)
    }
}

/// A message with what the broker noted of it.
fn decode_noted(mut reader: Reader<'_>, content: Content) -> Result<Fact, FactError> {
    let length = length(&mut reader)?;
    let notes = reader.bytes(length)?;
    if reader.rest().first() == Some(&tag::NOTED) {
        return Err(FactError::Invalid("notes of notes"));
    }
    let Fact::Published(mut published) = decode_body(reader, content, GROUP_DEPTH_MAX)? else {
        return Err(FactError::Invalid("notes of no message"));
    };
    let message = published.message.take();
    published.message =
        message.map(|message| Arc::new(Arc::unwrap_or_clone(message).with_notes(notes)));
    Ok(Fact::Published(published))
}

/// Entries of a queue, and why they leave it.
fn decode_why(reader: &mut Reader<'_>) -> Result<(QueueId, Why, Ranges), FactError> {
    let queue = QueueId(reader.varint()?);
    let why = Why::from_byte(reader.u8()?).ok_or(FactError::Invalid("settle reason"))?;
    Ok((queue, why, decode_ranges(reader)?))
}

fn decode_packed(reader: &mut Reader<'_>) -> Result<(QueueId, Packed), FactError> {
    let queue = QueueId(reader.varint()?);
    let (entries, _) = Packed::read(reader.bytes(reader.rest().len())?)?;
    Ok((queue, entries))
}

pub(super) fn length(reader: &mut Reader<'_>) -> Result<usize, FactError> {
    usize::try_from(reader.varint()?).map_err(|_| FactError::Truncated)
}

fn decode_name(reader: &mut Reader<'_>) -> Result<Name, FactError> {
    Name::new(reader.short_string()?).ok_or(FactError::Invalid("name"))
}

fn decode_table(reader: &mut Reader<'_>) -> Result<Table, FactError> {
    Ok(Table::copy_from(reader.long_string()?)?)
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

fn decode_published(
    reader: &mut Reader<'_>,
    keys: Option<Box<Keys>>,
    content: Content,
) -> Result<Published, FactError> {
    let extent = decode_extent(reader)?;
    let entries = decode_entries(reader)?;
    let message = match content {
        Content::Keep => Some(decode_message(reader, None)?),
        Content::Skip => {
            reader.bytes(reader.rest().len())?;
            None
        }
    };
    Ok(Published {
        message,
        extent,
        entries,
        keys,
    })
}

fn decode_keys(reader: &mut Reader<'_>) -> Result<Keys, FactError> {
    let at = reader.varint()?;
    let count = reader.varint()?;
    let mut of = SmallVec::new();
    for _ in 0..count {
        let queue = QueueId(reader.varint()?);
        of.push((queue, decode_key(reader)?));
    }
    Ok(Keys { at, of })
}

fn decode_key(reader: &mut Reader<'_>) -> Result<MessageKey, FactError> {
    let bytes = reader.bytes(size_of::<u128>())?.try_into();
    let bytes = bytes.map_err(|_| FactError::Truncated)?;
    Ok(MessageKey(u128::from_be_bytes(bytes)))
}

fn decode_seen(reader: &mut Reader<'_>) -> Result<Vec<SeenKey>, FactError> {
    let count = reader.varint()?;
    let mut keys = Vec::new();
    let mut last = 0_u64;
    for _ in 0..count {
        let key = decode_key(reader)?;
        last = last.wrapping_add(reader.varint()?);
        keys.push(SeenKey { key, at: last });
    }
    Ok(keys)
}

pub(super) fn decode_message(
    reader: &mut Reader<'_>,
    spare: Option<Arc<Message>>,
) -> Result<Arc<Message>, FactError> {
    let (exchange, routing_key) = (reader.short_string()?, reader.short_string()?);
    let properties = reader.long_string()?;
    let body = reader.bytes(reader.rest().len())?;
    Ok(Message::copied_into(
        spare,
        exchange,
        routing_key,
        properties,
        body,
    ))
}

pub(super) fn decode_extent(reader: &mut Reader<'_>) -> Result<Extent, FactError> {
    let body_bytes = reader.varint()?;
    let total_bytes = reader.varint()?;
    let invalid = FactError::Invalid("chunk count");
    let count = u32::try_from(reader.varint()?).map_err(|_| invalid)?;
    let first = if count == 0 { 0 } else { reader.varint()? };
    let chunks = Chunks { first, count };
    Ok(Extent {
        body_bytes,
        total_bytes,
        chunks,
    })
}

fn decode_entries(reader: &mut Reader<'_>) -> Result<Entries, FactError> {
    let count = reader.varint()?;
    let mut entries = Entries::new();
    for _ in 0..count {
        let queue = QueueId(reader.varint()?);
        let sequence = Sequence(reader.varint()?);
        let expires_at = decode_time(reader)?;
        entries.push(Entry {
            queue,
            sequence,
            expires_at,
            durable: true,
        });
    }
    Ok(entries)
}

pub(super) fn decode_time(reader: &mut Reader<'_>) -> Result<Option<u64>, FactError> {
    match reader.u8()? {
        0 => Ok(None),
        1 => Ok(Some(reader.varint()?)),
        _ => Err(FactError::Invalid("time flag")),
    }
}

fn decode_returned(reader: &mut Reader<'_>, is_grouped: bool) -> Result<Vec<Returned>, FactError> {
    let count = reader.varint()?;
    let mut entries = Vec::new();
    for _ in 0..count {
        let sequence = Sequence(reader.varint()?);
        let times = |number| u16::try_from(number).map_err(|_| FactError::Invalid("a count"));
        entries.push(Returned {
            sequence,
            failed: times(reader.varint()?)?,
            acquired: times(reader.varint()?)?,
            ready_at: decode_time(reader)?,
            group: if is_grouped {
                decode_time(reader)?
            } else {
                None
            },
        });
    }
    Ok(entries)
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

/// The message of a record that was read back: the `part`-th fact of a group, or the record's
/// only one. A body in chunks comes from `chunks`, the contents of the records that
/// [`Extent::chunks`] names, in order; see [`read_chunk`].
pub fn read_message(
    record: &[u8],
    part: u32,
    chunks: Vec<Bytes>,
) -> Result<Arc<Message>, FactError> {
    let (message, extent) = published_in(record, part)?;
    if extent.chunks.count == 0 {
        return Ok(message);
    }
    let bytes: u64 = chunks.iter().map(|chunk| chunk.len() as u64).sum();
    if chunks.len() != extent.chunks.count as usize || bytes != extent.body_bytes {
        return Err(FactError::Invalid("chunks of another body"));
    }
    let name = |bytes| Name::new(bytes).ok_or(FactError::Invalid("name"));
    let (exchange, routing_key) = (name(message.exchange())?, name(message.routing_key())?);
    let properties = message.properties();
    let whole = Message::new(&exchange, &routing_key, properties, chunks, 0);
    Ok(Arc::new(whole.with_notes(message.notes())))
}

/// The message of a record without a body that is in chunks, and how long it is.
fn published_in(record: &[u8], part: u32) -> Result<(Arc<Message>, Extent), FactError> {
    let missing = FactError::Invalid("no message in the record");
    let mut fact = Fact::decode(record, Content::Keep)?;
    if let Fact::Group(facts) = fact {
        fact = facts.into_iter().nth(part as usize).ok_or(missing)?;
    }
    let Fact::Published(published) = fact else {
        return Err(missing);
    };
    Ok((published.message.ok_or(missing)?, published.extent))
}

/// The routing key of the message that [`read_message`] would read, without its chunks.
pub fn read_routing_key(record: &[u8], part: u32) -> Result<Name, FactError> {
    let (message, _) = published_in(record, part)?;
    Name::new(message.routing_key()).ok_or(FactError::Invalid("name"))
}

/// As [`read_message`] of one whose body is in the record, which mostly is the only fact there.
/// It takes the memory of `spare` where that can be.
pub fn read_short_message(
    record: &[u8],
    part: u32,
    spare: Option<Arc<Message>>,
) -> Result<Arc<Message>, FactError> {
    let mut reader = Reader::new(record);
    if part != 0 || reader.u8()? != FORMAT_VERSION || reader.u8()? != tag::PUBLISHED {
        return read_message(record, part, Vec::new());
    }
    if decode_extent(&mut reader)?.chunks.count > 0 {
        return Err(FactError::Invalid("chunks of another body"));
    }
    decode_entries(&mut reader)?;
    decode_message(&mut reader, spare)
}

/// The content of a chunk record.
pub fn read_chunk(record: &[u8]) -> Result<Bytes, FactError> {
    let fact = Fact::decode(record, Content::Keep)?;
    let Fact::Chunk(bytes) = fact else {
        return Err(FactError::Invalid("no chunk in the record"));
    };
    Ok(bytes)
}
