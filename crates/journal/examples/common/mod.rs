//! What the examples share.

use menzil_journal::{Damage, Replay};
use menzil_model::{Class, Position, ShardId};

/// Keeps nothing of what is replayed.
pub(crate) struct Nobody;

impl Replay for Nobody {
    fn checkpoint(&mut self, _: ShardId, _: u64, _: &[u8]) -> Result<(), String> {
        Ok(())
    }

    fn record(&mut self, _: Position, _: Class, _: &[u8]) -> Result<(), String> {
        Ok(())
    }

    fn quarantined(&mut self, _: Position, _: Class, _: &Damage) {}
}
