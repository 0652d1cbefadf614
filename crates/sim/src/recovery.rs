//! From a disk to a shard: checkpoint and tail are applied as they are read.

use menzil_core::{Shard, ShardSettings};
use menzil_journal::{Damage, Replay};
use menzil_model::fact::Content;
use menzil_model::wire::Reader;
use menzil_model::{Class, Fact, Position, ShardId};

use crate::prng::Prng;
use crate::sabotage::Sabotage;

/// A shard in the making.
pub(crate) struct Recovery {
    pub(crate) shard: Shard,
    pub(crate) quarantined: Vec<Position>,
    sabotage: Option<Sabotage>,
    prng: Prng,
}

impl Recovery {
    pub(crate) fn new(settings: ShardSettings, sabotage: Option<Sabotage>, seed: u64) -> Self {
        Self {
            shard: Shard::new(settings),
            quarantined: Vec::new(),
            sabotage,
            prng: Prng::new(seed),
        }
    }

    fn apply(&mut self, index: u64, bytes: &[u8]) -> Result<(), String> {
        let fact = Fact::decode(bytes, Content::Skip).map_err(|error| error.to_string())?;
        if self.sabotage == Some(Sabotage::RecordTwice)
            && self.prng.one_in(8)
            && let Fact::Published(published) = &fact
        {
            let mut again = published.clone();
            for entry in &mut again.entries {
                entry.sequence.0 += 1_000_000;
            }
            self.shard.apply(index, Fact::Published(again));
        }
        self.shard.apply(index, fact);
        Ok(())
    }
}

impl Replay for Recovery {
    fn checkpoint(&mut self, _: ShardId, index: u64, payload: &[u8]) -> Result<(), String> {
        let mut reader = Reader::new(payload);
        while !reader.is_empty() {
            let bytes = reader.long_string().map_err(|_| "it ends early")?;
            self.apply(index, bytes)?;
        }
        Ok(())
    }

    fn record(&mut self, position: Position, _: Class, payload: &[u8]) -> Result<(), String> {
        self.apply(position.index, payload)
    }

    fn quarantined(&mut self, position: Position, _: Class, _: &Damage) {
        self.quarantined.push(position);
    }
}

/// Appends one fact of a checkpoint to its payload.
pub(crate) fn write_checkpoint_fact(fact: &Fact, payload: &mut Vec<u8>) {
    let mut bytes = Vec::new();
    fact.encode(&mut bytes);
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    payload.extend_from_slice(&length.to_be_bytes());
    payload.extend_from_slice(&bytes);
}
