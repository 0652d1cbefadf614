//! How far each shard has come: appended and committed.
//!
//! Lacks waiting: who waits is told by the commit. Invariant: committed ≤ appended, and neither
//! goes back.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use menzil_model::{Map, ShardId};

/// The two marks of one shard.
#[derive(Debug, Default)]
pub struct Marks {
    appended: AtomicU64,
    committed: AtomicU64,
}

impl Marks {
    /// The last index handed out, 0 before the first.
    pub fn appended(&self) -> u64 {
        self.appended.load(Ordering::Acquire)
    }

    /// The last index that a sync covered, 0 before the first.
    pub fn committed(&self) -> u64 {
        self.committed.load(Ordering::Acquire)
    }

    pub(crate) fn append(&self, index: u64) {
        self.appended.store(index, Ordering::Release);
    }

    pub(crate) fn commit(&self, index: u64) {
        debug_assert!(self.committed() <= index && index <= self.appended());
        self.committed.store(index, Ordering::Release);
    }
}

/// The marks of all shards.
#[derive(Debug, Default)]
pub(crate) struct AllMarks {
    shards: RwLock<Map<ShardId, Arc<Marks>>>,
}

impl AllMarks {
    /// The marks of the shard, which are made if it has none yet.
    pub(crate) fn of(&self, shard: ShardId) -> Arc<Marks> {
        if let Some(marks) = self.find(shard) {
            return marks;
        }
        let mut shards = self.shards.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(shards.entry(shard).or_default())
    }

    pub(crate) fn find(&self, shard: ShardId) -> Option<Arc<Marks>> {
        let shards = self.shards.read().unwrap_or_else(PoisonError::into_inner);
        shards.get(&shard).map(Arc::clone)
    }

    /// What recovery found is both appended and committed.
    pub(crate) fn recovered(&self, shard: ShardId, index: u64) {
        let marks = self.of(shard);
        marks.append(index);
        marks.commit(index);
    }
}
