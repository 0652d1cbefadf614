//! A shard that is on no disk: to ask what definitions would come to.

use menzil_core::{Log, Shard, ShardSettings};
use menzil_model::{Fact, Name};

/// A new virtual host, with the exchanges that each has.
pub(crate) fn new_shard(settings: ShardSettings, name: &Name, log: &mut Nowhere) -> Shard {
    let mut shard = Shard::new(settings);
    shard.start(0, name, log);
    shard
}

/// A log that keeps nothing.
#[derive(Default)]
pub(crate) struct Nowhere {
    index: u64,
}

impl Log for Nowhere {
    fn append(&mut self, _: &Fact, _: u32) -> u64 {
        self.index += 1;
        self.index
    }

    fn append_lazy(&mut self, _: &Fact) -> u64 {
        self.index += 1;
        self.index
    }

    fn has_room(&self, _: u64) -> bool {
        true
    }

    fn release(&mut self, _: u64, _: u32) {}

    fn retain_run(&mut self, _: u64, _: u64) {}
}
