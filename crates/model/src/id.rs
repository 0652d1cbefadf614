//! Names of things by number. Ids are never reused within the life of a data folder, so a fact
//! may name an object that was deleted, or is not yet declared, without meaning another one.

use std::fmt;
use std::num::NonZeroU16;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id! {
    /// One virtual host's state, the unit of concurrency and, later, of replication.
    ShardId(u32)
}
id! {
    /// A queue. Never reused.
    QueueId(u64)
}
id! {
    /// An exchange. Never reused.
    ExchangeId(u64)
}
id! {
    /// A network connection of this process. Never reused while the process lives.
    ConnectionId(u64)
}
id! {
    /// AMQP 0-9-1 delivery tag: counts deliveries of one channel from 1 (§1.8.3.13).
    DeliveryTag(u64)
}
id! {
    /// Place of an entry in its queue's one order: counts from 1, gaps allowed.
    Sequence(u64)
}

/// What an exchange keeps messages for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StorePurpose {
    /// To give them to later bindings.
    Retention,
    /// Until they are due.
    Delay,
}

impl QueueId {
    /// The hidden queue in which an exchange keeps messages. Its number is a function of the
    /// exchange's, so that no fact has to name it before it is used; numbers that are given out
    /// to queues do not come so far.
    pub fn store_of(exchange: ExchangeId, purpose: StorePurpose) -> Self {
        let purpose = match purpose {
            StorePurpose::Retention => 0,
            StorePurpose::Delay => STORE_OF_DELAYS,
        };
        Self(STORE | purpose | exchange.0 & EXCHANGE)
    }

    /// Whether it is the hidden queue of an exchange.
    #[inline]
    pub fn is_store(self) -> bool {
        self.0 & STORE != 0
    }

    /// The exchange whose hidden queue it is, and what for.
    pub fn store(self) -> Option<(ExchangeId, StorePurpose)> {
        let purpose = if self.0 & STORE_OF_DELAYS == 0 {
            StorePurpose::Retention
        } else {
            StorePurpose::Delay
        };
        self.is_store()
            .then_some((ExchangeId(self.0 & EXCHANGE), purpose))
    }
}

const STORE: u64 = 1 << 63;
const STORE_OF_DELAYS: u64 = 1 << 62;
const EXCHANGE: u64 = STORE_OF_DELAYS - 1;

/// An AMQP channel number. Zero is the connection itself and is not a channel
/// (AMQP 0-9-1 §4.2.3), so it cannot be written here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelId(pub NonZeroU16);

impl ChannelId {
    /// The channel of that number, `None` for zero.
    pub fn new(number: u16) -> Option<Self> {
        NonZeroU16::new(number).map(Self)
    }

    /// The number as it stands in a frame.
    pub fn number(self) -> u16 {
        self.0.get()
    }
}

/// The name of a journal record for ever: its shard and its place in that shard's one order.
/// Where the bytes lie is a local matter of the journal. Indexes count from 1 without gaps;
/// index 0 stands for "before the first record".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The shard whose order this is.
    pub shard: ShardId,
    /// The place in that order.
    pub index: u64,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.shard, self.index)
    }
}

/// What a record is about. It decides what a damaged one means: a damaged message is
/// quarantined, a damaged topology fact refuses the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Class {
    /// Exchanges, queues, bindings.
    Topology = 1,
    /// Messages and what happened to them.
    Message = 2,
    /// Stored MQTT session state.
    Session = 3,
}

impl Class {
    /// The class written as that byte.
    pub fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Topology),
            2 => Some(Self::Message),
            3 => Some(Self::Session),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_of_an_exchange_is_named_by_it_alone() {
        let stores = [StorePurpose::Retention, StorePurpose::Delay]
            .map(|purpose| (purpose, QueueId::store_of(ExchangeId(7), purpose)));
        assert_ne!(stores[0].1, stores[1].1);
        for (purpose, id) in stores {
            assert_eq!(id.store(), Some((ExchangeId(7), purpose)));
        }
        assert_eq!(QueueId(7).store(), None);
    }
}
