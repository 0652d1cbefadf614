//! Names, ids, messages, field tables and facts: the words every other crate speaks.
//!
//! No IO, no clock, no threads, no randomness.

pub mod fact;
mod id;
mod message;
mod name;
mod properties;
pub mod table;
pub mod wire;

pub use fact::Fact;
pub use id::{
    ChannelId, Class, ConnectionId, DeliveryTag, ExchangeId, Position, QueueId, Sequence, ShardId,
    StorePurpose,
};
pub use message::Message;
pub use name::{Escaped, Name, text_of};
pub use properties::{Properties, PropertiesError};
pub use table::{Table, TableBuilder, TableError, Value};

/// Hash map with a fixed seed, for state that must be deterministic. Keys that a client
/// chooses come through a login first, so flooding one bucket gains nobody anything.
pub type Map<K, V> = std::collections::HashMap<K, V, FixedHasher>;

/// Hash set with a fixed seed; see [`Map`].
pub type Set<K> = std::collections::HashSet<K, FixedHasher>;

/// Makes the hashers of [`Map`] and [`Set`].
pub type FixedHasher = foldhash::fast::FixedState;
