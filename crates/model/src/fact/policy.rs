//! A policy: settings for every exchange and queue whose name matches.

use super::FactError;
use crate::wire::{Reader, Writer};
use crate::{Name, Table};

/// What a policy may apply to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ApplyTo {
    /// Exchanges and queues.
    All = 1,
    /// Exchanges.
    Exchanges = 2,
    /// Queues of every type.
    Queues = 3,
    /// Queues that were declared as classic ones.
    ClassicQueues = 4,
    /// Queues that were declared as quorum queues.
    QuorumQueues = 5,
    /// Streams, of which there are none.
    Streams = 6,
}

impl ApplyTo {
    const ALL: [Self; 6] = [
        Self::All,
        Self::Exchanges,
        Self::Queues,
        Self::ClassicQueues,
        Self::QuorumQueues,
        Self::Streams,
    ];

    /// RabbitMQ's word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Exchanges => "exchanges",
            Self::Queues => "queues",
            Self::ClassicQueues => "classic_queues",
            Self::QuorumQueues => "quorum_queues",
            Self::Streams => "streams",
        }
    }

    /// The one of that name.
    pub fn from_name(name: &[u8]) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|one| one.name().as_bytes() == name)
    }

    fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|one| *one as u8 == byte)
    }
}

/// A policy as it was set. It was checked then; what it means is the core's business.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyDefinition {
    /// Unique among policies, or among operator policies, of the virtual host.
    pub name: Name,
    /// An operator policy: it bounds what other policies say.
    pub is_operator: bool,
    /// A regular expression that names match.
    pub pattern: Vec<u8>,
    /// What kinds of objects it may apply to.
    pub apply_to: ApplyTo,
    /// The highest one that matches applies.
    pub priority: i64,
    /// Keys and values.
    pub definition: Table,
}

impl PolicyDefinition {
    /// name · flags · pattern · apply-to · priority · definition
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.put_short_string(self.name.as_bytes());
        out.put_u8(u8::from(self.is_operator));
        out.put_long_string(&self.pattern);
        out.put_u8(self.apply_to as u8);
        out.put(&self.priority.to_be_bytes());
        out.put_long_string(self.definition.as_bytes());
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, FactError> {
        let name = Name::new(reader.short_string()?).ok_or(FactError::Invalid("name"))?;
        let flags = reader.u8()?;
        let pattern = reader.long_string()?.to_vec();
        let apply_to = ApplyTo::from_byte(reader.u8()?)
            .ok_or(FactError::Invalid("what a policy applies to"))?;
        let priority = reader
            .bytes(8)?
            .try_into()
            .map_err(|_| FactError::Truncated)?;
        Ok(Self {
            name,
            is_operator: flags & 1 != 0,
            pattern,
            apply_to,
            priority: i64::from_be_bytes(priority),
            definition: Table::copy_from(reader.long_string()?)?,
        })
    }
}
