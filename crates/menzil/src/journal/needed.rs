//! Which records the state of each virtual host still needs, told from the facts in the folder.
//!
//! Lacks content and judgement of bytes, which is the journal's. Invariant: facts are applied as
//! a server applies them at its start, so what is missing here is missing there.

use std::collections::BTreeMap;

use menzil_core::{Shard, ShardSettings};
use menzil_journal::{Damage, Replay, Report};
use menzil_model::fact::Content;
use menzil_model::wire::Reader;
use menzil_model::{Class, Fact, Name, Position, ShardId};

use super::lost::Names;

/// The virtual host of each shard whose creation can still be read.
pub(crate) type VirtualHosts = BTreeMap<ShardId, Name>;

/// The shards as a server would have them.
#[derive(Default)]
pub(crate) struct Needed {
    shards: BTreeMap<ShardId, Shard>,
    names: Names,
}

impl Needed {
    pub(crate) fn virtual_hosts(&self) -> VirtualHosts {
        let named = self
            .shards
            .iter()
            .filter(|(_, shard)| !shard.name().as_bytes().is_empty());
        named
            .map(|(id, shard)| (*id, shard.name().clone()))
            .collect()
    }

    /// The names that sound records give to numbers.
    pub(crate) fn names(&self) -> &Names {
        &self.names
    }

    /// Records of messages in queues, and of their bodies, that are in no segment.
    pub(crate) fn missing(&self, report: &Report) -> Vec<Position> {
        let of_shard = |(id, state): (&ShardId, &Shard)| {
            let shard = *id;
            let missing = report.missing(shard, &needed(state));
            missing
                .into_iter()
                .map(move |index| Position { shard, index })
        };
        self.shards.iter().flat_map(of_shard).collect()
    }

    /// What each shard needs, as [`Shard::needs`] tells it.
    pub(crate) fn needs(&self, each: &mut dyn FnMut(ShardId, u64, u64, u32)) {
        for (id, state) in &self.shards {
            state.needs(&mut |first, count, references| each(*id, first, count, references));
        }
    }

    fn apply(&mut self, shard: ShardId, index: u64, bytes: &[u8]) -> Result<(), String> {
        let fact = Fact::decode(bytes, Content::Skip).map_err(|error| error.to_string())?;
        self.names.learn(shard, &fact);
        self.shards
            .entry(shard)
            .or_insert_with(|| Shard::new(ShardSettings::default()))
            .apply(index, fact);
        Ok(())
    }
}

/// Records that the state needs, ascending.
fn needed(state: &Shard) -> Vec<u64> {
    let mut needed = Vec::new();
    state.needs(&mut |first: u64, count, _| {
        needed.extend((first..).take(usize::try_from(count).unwrap_or(usize::MAX)));
    });
    needed.sort_unstable();
    needed.dedup();
    needed
}

impl Replay for Needed {
    fn checkpoint(&mut self, shard: ShardId, index: u64, payload: &[u8]) -> Result<(), String> {
        let mut reader = Reader::new(payload);
        while !reader.is_empty() {
            let bytes = reader.long_string().map_err(|_| "it ends early")?;
            self.apply(shard, index, bytes)?;
        }
        Ok(())
    }

    fn record(&mut self, position: Position, _: Class, payload: &[u8]) -> Result<(), String> {
        self.apply(position.shard, position.index, payload)
    }

    fn quarantined(&mut self, _: Position, _: Class, _: &Damage) {}
}
