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

mod decode;
mod encode;
mod keyed;
mod packed;
mod packing;
mod policy;
mod runs;
mod session;
mod tag;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;

pub use decode::{FactError, read_chunk, read_message, read_routing_key, read_short_message};
pub use keyed::{Keys, MessageKey, SeenKey};
pub use packed::{Packed, PackedEntries, PackedSummary, StoredEntry};
pub use packing::Packing;
pub use policy::{ApplyTo, PolicyDefinition};
pub use session::{GivenBack, Kept, Lent, SessionChange, SessionState, Subscription, Will};

use crate::{Class, ExchangeId, Message, Name, QueueId, Sequence, Table, Value};

/// The version that [`Fact::encode`] writes.
pub const FORMAT_VERSION: u8 = 2;

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
    /// One destination, by a hash of the message and by weights.
    ConsistentHash = 5,
    /// One destination, by a hash of the routing keys and by their number.
    ModulusHash = 6,
    /// One destination by chance.
    Random = 7,
    /// One queue of this node by chance.
    LocalRandom = 8,
    /// Every binding, and to each new one what passed of late.
    RecentHistory = 9,
    /// As another kind, when the time has come that the message asks for.
    Delayed = 10,
}

impl ExchangeKind {
    /// Every kind.
    pub const ALL: [Self; 10] = [
        Self::Direct,
        Self::Fanout,
        Self::Topic,
        Self::Headers,
        Self::ConsistentHash,
        Self::ModulusHash,
        Self::Random,
        Self::LocalRandom,
        Self::RecentHistory,
        Self::Delayed,
    ];

    /// The kind of that type name, as in `exchange.declare`.
    pub fn from_name(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"direct" => Self::Direct,
            b"fanout" => Self::Fanout,
            b"topic" => Self::Topic,
            b"headers" => Self::Headers,
            b"x-consistent-hash" => Self::ConsistentHash,
            b"x-modulus-hash" => Self::ModulusHash,
            b"x-random" => Self::Random,
            b"x-local-random" => Self::LocalRandom,
            b"x-recent-history" => Self::RecentHistory,
            b"x-delayed-message" => Self::Delayed,
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
            Self::ConsistentHash => "x-consistent-hash",
            Self::ModulusHash => "x-modulus-hash",
            Self::Random => "x-random",
            Self::LocalRandom => "x-local-random",
            Self::RecentHistory => "x-recent-history",
            Self::Delayed => "x-delayed-message",
        }
    }

    fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == byte)
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

impl ExchangeDefinition {
    /// How it routes: of one that delays, what the argument `x-delayed-type` says.
    pub fn routes_as(&self) -> ExchangeKind {
        if self.kind != ExchangeKind::Delayed {
            return self.kind;
        }
        match self.arguments.find(b"x-delayed-type") {
            Some(Value::LongString(name)) => ExchangeKind::from_name(name),
            _ => None,
        }
        .unwrap_or(ExchangeKind::Direct)
    }

    /// Whether it keeps messages that ask for it until they are due.
    pub fn delays(&self) -> bool {
        self.kind == ExchangeKind::Delayed
            || matches!(self.arguments.find(b"x-delayed"), Some(Value::Bool(true)))
    }
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

/// The records that hold a large body in parts: consecutive ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Chunks {
    /// Index of the first; 0 where there is none.
    pub first: u64,
    /// How many; 0 where the body is in the message's own record.
    pub count: u32,
}

impl Chunks {
    /// Their indexes, in the order of the body.
    pub fn indexes(self) -> impl Iterator<Item = u64> {
        (self.first..).take(self.count as usize)
    }
}

/// How large a message is and where its large body lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Extent {
    /// Bytes of the body alone, which length limits count.
    pub body_bytes: u64,
    /// Bytes of envelope, properties and body.
    pub total_bytes: u64,
    /// The chunk records that hold the body; none where it is in the `Published` record itself.
    pub chunks: Chunks,
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
    /// What it is known by in those of its queues that deduplicate.
    pub keys: Option<Box<Keys>>,
}

/// A message and all the queues that it reached, where it lies: what is written of it needs no
/// copy.
#[derive(Clone, Copy, Debug)]
pub struct PublishedRef<'a> {
    /// As in [`Message::exchange`].
    pub exchange: &'a [u8],
    /// As in [`Message::routing_key`].
    pub routing_key: &'a [u8],
    /// As in [`Message::properties`].
    pub properties: &'a [u8],
    /// As in [`Message::notes`].
    pub notes: &'a [u8],
    /// The whole body, which is in no chunks.
    pub body: &'a [u8],
    /// Its size.
    pub extent: Extent,
    /// Its places.
    pub entries: &'a Entries,
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
    /// It came back more often than the queue's delivery limit allows.
    DeliveryLimit = 7,
}

impl Why {
    fn from_byte(byte: u8) -> Option<Self> {
        use Why::{Acknowledged, Damaged, DeliveryLimit, Expired, Overflow, Purged, Rejected};
        let known = [
            Acknowledged,
            Rejected,
            Expired,
            Overflow,
            Purged,
            Damaged,
            DeliveryLimit,
        ];
        known.into_iter().find(|why| *why as u8 == byte)
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

/// An entry that was out and came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Returned {
    /// Which.
    pub sequence: Sequence,
    /// How often its delivery failed.
    pub failed: u16,
    /// How often it was out.
    pub acquired: u16,
    /// Milliseconds since 1970 until which it is not delivered again.
    pub ready_at: Option<u64>,
    /// The group that waits for it until then, where its queue has groups.
    pub group: Option<u64>,
}

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
    /// A policy is there, in the place of the one that had its name.
    PolicySet(PolicyDefinition),
    /// A policy is gone.
    PolicyCleared {
        /// Which.
        name: Name,
        /// Among operator policies.
        is_operator: bool,
    },
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
    /// Messages that earlier records hold entered a queue: entries by reference, no content.
    Copied {
        /// Which queue.
        queue: QueueId,
        /// The entries.
        entries: Packed,
    },
    /// Entries that were out came back; what it says of an entry is all that holds of it. In
    /// checkpoints too.
    Returned {
        /// Which queue.
        queue: QueueId,
        /// The entries.
        entries: Vec<Returned>,
    },
    /// Entries are to be dead-lettered, in this order behind those that were before, and are still
    /// in the queue: nobody gets them any more. Written of those that have to wait. In checkpoints
    /// too.
    Dying {
        /// Which queue.
        queue: QueueId,
        /// Why they are.
        why: Why,
        /// Which entries.
        ranges: Ranges,
    },
    /// An MQTT session is there, or changed, or is gone. In checkpoints too.
    Session {
        /// Its queue, which stands for it.
        session: QueueId,
        /// What happened.
        change: SessionChange,
    },
    /// A topic has another retained message, or none. In checkpoints too.
    Retained {
        /// The topic.
        topic: Bytes,
        /// The message; `None` where there is none any more.
        kept: Option<Kept>,
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
    /// Checkpoint: entries of a queue, of messages that earlier records hold.
    Page {
        /// Which queue.
        queue: QueueId,
        /// The entries.
        entries: Packed,
    },
    /// Checkpoint: keys that a queue remembers, the oldest first; there may be more in the next.
    Seen {
        /// Which queue.
        queue: QueueId,
        /// The keys.
        keys: Vec<SeenKey>,
    },
}

/// Whether [`Fact::decode`] copies message contents out or only their sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// `Published` gets its message. A body in chunks stays behind; see [`Extent::chunks`].
    Keep,
    /// `Published` has no message, only its size.
    Skip,
}

impl Fact {
    /// The facts of a group, or else the fact alone.
    pub fn parts(&self) -> &[Self] {
        if let Self::Group(facts) = self {
            return facts;
        }
        std::slice::from_ref(self)
    }

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
            | Self::PolicySet(_)
            | Self::PolicyCleared { .. }
            | Self::Numbering { .. }
            | Self::QueueState { .. } => Class::Topology,
            Self::Chunk(_)
            | Self::Published(_)
            | Self::Settled { .. }
            | Self::Delivering { .. }
            | Self::Returned { .. }
            | Self::Dying { .. }
            | Self::Copied { .. }
            | Self::Page { .. }
            | Self::Seen { .. } => Class::Message,
            Self::Session { .. } | Self::Retained { .. } => Class::Session,
            Self::Group(facts) => {
                let of = |class| facts.iter().any(|fact| fact.class() == class);
                let classes = [Class::Topology, Class::Message, Class::Session];
                let first = classes.into_iter().find(|class| of(*class));
                first.unwrap_or(Class::Message)
            }
        }
    }
}
