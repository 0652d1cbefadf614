//! From a data folder to shards: checkpoint and tail are applied as they are read.
//!
//! ```text
//! checkpoint payload := (length:u32be fact)*
//! ```

use std::collections::BTreeMap;

use menzil_core::{Shard, ShardSettings};
use menzil_journal::{Damage, Replay};
use menzil_model::fact::Content;
use menzil_model::wire::Reader;
use menzil_model::{Class, Fact, Name, Position, ShardId};

use crate::log;

/// Shards in the making.
pub(crate) struct Recovery {
    settings: ShardSettings,
    shards: BTreeMap<ShardId, Shard>,
    quarantined: u64,
}

/// A shard that is whole again, or new.
pub(crate) struct Recovered {
    pub(crate) id: ShardId,
    pub(crate) name: Name,
    pub(crate) shard: Shard,
    pub(crate) is_new: bool,
}

impl Recovery {
    pub(crate) fn new(settings: ShardSettings) -> Self {
        Self {
            settings,
            shards: BTreeMap::new(),
            quarantined: 0,
        }
    }

    /// Records that were damaged.
    pub(crate) fn quarantined(&self) -> u64 {
        self.quarantined
    }

    /// The recovered shards, and an empty one for each configured name that has none. Virtual
    /// hosts that are in the folder and not in the settings stay.
    pub(crate) fn finish(self, configured: &[Name]) -> Vec<Recovered> {
        let mut next = self.shards.keys().next_back().map_or(1, |last| last.0 + 1);
        let mut all: Vec<Recovered> = self
            .shards
            .into_iter()
            .map(|(id, shard)| Recovered {
                id,
                name: shard.name().clone(),
                shard,
                is_new: false,
            })
            .collect();
        for name in configured {
            if all.iter().any(|recovered| recovered.name == *name) {
                continue;
            }
            all.push(Recovered {
                id: ShardId(next),
                name: name.clone(),
                shard: Shard::new(self.settings.clone()),
                is_new: true,
            });
            next += 1;
        }
        all
    }

    fn shard(&mut self, id: ShardId) -> &mut Shard {
        self.shards
            .entry(id)
            .or_insert_with(|| Shard::new(self.settings.clone()))
    }
}

impl Replay for Recovery {
    fn checkpoint(&mut self, shard: ShardId, index: u64, payload: &[u8]) -> Result<(), String> {
        let state = self.shard(shard);
        let mut reader = Reader::new(payload);
        while !reader.is_empty() {
            let bytes = reader.long_string().map_err(|_| "it ends early")?;
            let fact = Fact::decode(bytes, Content::Skip).map_err(|error| error.to_string())?;
            state.apply(index, fact);
        }
        Ok(())
    }

    fn record(&mut self, position: Position, _class: Class, payload: &[u8]) -> Result<(), String> {
        let fact = Fact::decode(payload, Content::Skip).map_err(|error| error.to_string())?;
        self.shard(position.shard).apply(position.index, fact);
        Ok(())
    }

    fn quarantined(&mut self, position: Position, class: Class, what: &Damage) {
        self.quarantined += 1;
        let class = format!("{class:?}");
        log::error(
            "a record is damaged and set aside",
            &[("record", &position), ("class", &class), ("what", what)],
        );
    }
}

/// Appends one fact of a checkpoint to its payload.
pub(crate) fn write_checkpoint_fact(fact: &Fact, payload: &mut Vec<u8>) {
    let start = payload.len();
    payload.extend_from_slice(&[0; 4]);
    fact.encode(payload);
    let length = u32::try_from(payload.len() - start - 4).unwrap_or(u32::MAX);
    if let Some(place) = payload.get_mut(start..start + 4) {
        place.copy_from_slice(&length.to_be_bytes());
    }
}
