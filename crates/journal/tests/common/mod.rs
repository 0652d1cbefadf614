//! What the tests share: a replaying side that keeps everything, and small journals.
#![allow(dead_code, unreachable_pub, reason = "each test uses its own part")]
#![allow(
    clippy::allow_attributes,
    reason = "expect would fail where all is used"
)]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use menzil_journal::testing::MemoryDisk;
use menzil_journal::{CheckpointError, Damage, Disk, Journal, OpenError, Options, Replay};
use menzil_model::{Class, Position, ShardId};

/// Keeps what is replayed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    pub checkpoints: BTreeMap<ShardId, (u64, Vec<u8>)>,
    pub records: BTreeMap<ShardId, Vec<(u64, Class, Vec<u8>)>>,
    pub quarantined: Vec<(Position, Class)>,
}

impl Kept {
    pub fn payloads(&self, shard: u32) -> Vec<Vec<u8>> {
        let records = self
            .records
            .get(&ShardId(shard))
            .cloned()
            .unwrap_or_default();
        records.into_iter().map(|(_, _, payload)| payload).collect()
    }
}

impl Replay for Kept {
    fn checkpoint(&mut self, shard: ShardId, index: u64, payload: &[u8]) -> Result<(), String> {
        let before = self.checkpoints.insert(shard, (index, payload.to_vec()));
        assert!(before.is_none(), "two checkpoints of one shard");
        Ok(())
    }

    fn record(&mut self, position: Position, class: Class, payload: &[u8]) -> Result<(), String> {
        let records = self.records.entry(position.shard).or_default();
        assert!(
            records
                .last()
                .is_none_or(|(last, ..)| *last < position.index),
            "out of order"
        );
        records.push((position.index, class, payload.to_vec()));
        Ok(())
    }

    fn quarantined(&mut self, position: Position, class: Class, _: &Damage) {
        self.quarantined.push((position, class));
    }
}

pub const SEGMENT: u64 = 64 << 10;

pub fn small() -> Options {
    Options {
        segment_bytes: SEGMENT,
        checkpoint_reserve_bytes: 4096,
        ..Options::default()
    }
}

pub fn open(disk: &MemoryDisk) -> Result<(Journal<MemoryDisk>, Kept), OpenError> {
    open_with(disk, small())
}

pub fn open_with(
    disk: &MemoryDisk,
    options: Options,
) -> Result<(Journal<MemoryDisk>, Kept), OpenError> {
    let mut kept = Kept::default();
    let journal = Journal::open(disk.clone(), options, &mut kept)?;
    for shard in (0..10).map(ShardId) {
        journal.need(shard, 1, journal.committed(shard), 1);
    }
    journal.needs_known();
    Ok((journal, kept))
}

/// Gives up all records of the shard but those in `live`.
pub fn release_all_but<D: Disk>(journal: &Journal<D>, shard: u32, live: &[u64]) {
    let shard = ShardId(shard);
    let all = 1..=journal.appended(shard);
    let mut batch = journal.batch();
    for index in all.filter(|index| !live.contains(index)) {
        batch.release(shard, index, 1);
    }
}

/// A checkpoint of the shard where it stands, which needs the records in `live` alone.
pub fn checkpoint<D: Disk>(
    journal: &Journal<D>,
    shard: u32,
    state: &[u8],
    live: &[u64],
) -> Result<(), CheckpointError> {
    release_all_but(journal, shard, live);
    let freeze = journal.freeze(ShardId(shard));
    journal.install_checkpoint(freeze, &[state])
}

pub fn append(journal: &Journal<MemoryDisk>, shard: u32, payload: &[u8]) -> Position {
    append_class(journal, shard, Class::Message, payload)
}

pub fn append_class(
    journal: &Journal<MemoryDisk>,
    shard: u32,
    class: Class,
    payload: &[u8],
) -> Position {
    journal.append(ShardId(shard), class, 1, |bytes| {
        bytes.extend_from_slice(payload);
    })
}

/// A small generator with a seed, so that a failure can be repeated.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.next() % bound }
    }
}

/// Polls with a generous limit.
pub fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "waited for {what}"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}
