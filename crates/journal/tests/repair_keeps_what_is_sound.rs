//! Random lives with damage and repairs: what was sound before a repair is read after it, and
//! what is committed after it is read after the next ones.
#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::wildcard_enum_match_arm,
    reason = "a test may"
)]

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::{Kept, Random, append_class, small};
use menzil_journal::testing::MemoryDisk;
use menzil_journal::{Dumped, Journal, Options, ReadError, dump, repair, verify};
use menzil_model::{Class, Position, ShardId};

/// By shard and index.
type Name = (u32, u64);

/// A record where it lies.
struct Stored {
    file: String,
    position: Position,
    offset: u64,
    payload: Vec<u8>,
    /// Where the batch begins that it is in.
    batch: u64,
}

fn stored(disk: &MemoryDisk) -> Vec<Stored> {
    let (mut stored, mut file, mut within) = (Vec::new(), String::new(), 0);
    dump(disk, &mut |dumped| match *dumped {
        Dumped::Segment { segment, .. } => file = format!("segment-{segment:010}"),
        Dumped::Cold { file: cold, .. } => file = format!("cold-{cold:010}"),
        Dumped::Batch { offset, .. } => within = offset,
        Dumped::Record {
            position,
            offset,
            payload,
            dropped: 0,
            ..
        } => stored.push(Stored {
            file: file.clone(),
            position,
            offset,
            payload: payload.to_vec(),
            batch: within,
        }),
        _ => {}
    })
    .unwrap();
    stored
}

/// File and offset of the newest batch.
fn last_batch(disk: &MemoryDisk) -> Option<(String, u64)> {
    let (mut file, mut last) = (None, None);
    dump(disk, &mut |dumped| match dumped {
        Dumped::Segment { segment, .. } => file = Some(format!("segment-{segment:010}")),
        Dumped::Cold { .. } => file = None,
        Dumped::Batch { number, offset, .. } => {
            last = last
                .clone()
                .max(file.clone().map(|file| (*number, file, *offset)));
        }
        _ => {}
    })
    .unwrap();
    last.map(|(_, file, offset)| (file, offset))
}

fn sound(disk: &MemoryDisk) -> BTreeMap<Name, Vec<u8>> {
    let name = |record: &Stored| (record.position.shard.0, record.position.index);
    let records = stored(disk);
    records
        .iter()
        .map(|record| (name(record), record.payload.clone()))
        .collect()
}

/// Who appends and what it still needs.
struct Life {
    disk: MemoryDisk,
    random: Random,
    needed: BTreeMap<Name, Vec<u8>>,
    seed: u64,
}

const SHARDS: u64 = 3;

impl Life {
    fn new(seed: u64) -> Self {
        let disk = MemoryDisk::new(seed);
        if seed.is_multiple_of(2) {
            disk.pad_to_sectors();
        }
        let (random, needed) = (Random(seed), BTreeMap::new());
        Self {
            disk,
            random,
            needed,
            seed,
        }
    }

    /// Opens the folder and looks whether all that is needed is there.
    fn open(&self) -> Journal<MemoryDisk> {
        let options = Options {
            evacuation_reserve_bytes: 16 << 10,
            ..small()
        };
        let opened = Journal::open(self.disk.clone(), options, &mut Kept::default());
        let journal = opened.unwrap_or_else(|error| panic!("seed {}: {error}", self.seed));
        for (shard, index) in self.needed.keys() {
            let shard = ShardId(*shard);
            let there = journal.need(shard, *index, 1, 1);
            let position = Position {
                shard,
                index: *index,
            };
            assert_eq!(there, 1, "seed {}: {position} is not there", self.seed);
        }
        journal.needs_known();
        for shard in 1..=SHARDS as u32 {
            self.read_together(&journal, shard);
        }
        journal
    }

    /// All of a shard at once, those that are not there among them.
    fn read_together(&self, journal: &Journal<MemoryDisk>, shard: u32) {
        let all: Vec<u64> = (1..=journal.committed(ShardId(shard))).collect();
        let read = journal.read_many(ShardId(shard), &all);
        for (index, read) in all.into_iter().zip(read) {
            match self.needed.get(&(shard, index)) {
                Some(payload) => assert!(
                    read.as_ref().is_ok_and(|read| read == payload),
                    "seed {}: {shard}:{index} {read:?}",
                    self.seed
                ),
                None => assert!(
                    matches!(read, Ok(_) | Err(ReadError::Gone(_))),
                    "seed {}: {read:?}",
                    self.seed
                ),
            }
        }
    }

    fn append(&mut self, journal: &Journal<MemoryDisk>) {
        let shard = 1 + self.random.below(SHARDS) as u32;
        let class = match self.random.below(10) {
            0 => Class::Topology,
            1 => Class::Session,
            _ => Class::Message,
        };
        let length = match self.random.below(20) {
            0 => 5000,
            1..4 => 900,
            _ => 40,
        };
        let byte = self.random.next() as u8;
        let payload = vec![byte; self.random.below(length) as usize];
        let position = append_class(journal, shard, class, &payload);
        self.needed.insert((shard, position.index), payload);
    }

    /// Some of what is needed is so no more.
    fn release(&mut self, journal: &Journal<MemoryDisk>) {
        let keep = 1 + self.random.below(5);
        let mut batch = journal.batch();
        let random = &mut self.random;
        self.needed.retain(|(shard, index), _| {
            let kept = random.below(6) < keep;
            if !kept {
                batch.release(ShardId(*shard), *index, 1);
            }
            kept
        });
    }

    fn live(&mut self, journal: &Journal<MemoryDisk>) {
        for _ in 0..self.random.below(60) {
            for _ in 0..=self.random.below(12) {
                self.append(journal);
            }
            journal.step().unwrap();
        }
        if self.random.below(3) == 0 {
            self.release(journal);
            let shards = 1 + self.random.below(SHARDS) as u32;
            for shard in 1..=shards {
                let freeze = journal.freeze(ShardId(shard));
                journal.install_checkpoint(freeze, &[b"state"]).unwrap();
            }
            while self.random.below(2) == 0 && journal.evacuate_step().unwrap().is_some() {}
        }
        if self.random.below(2) == 0 {
            journal.prepare().unwrap();
        }
    }

    /// Damages some records, each in another batch so that what is missing can be named; none in
    /// the very last batch, which a crash may have torn.
    fn damage(&mut self) {
        let records = stored(&self.disk);
        let Some(last) = last_batch(&self.disk) else {
            return;
        };
        let mut batches = BTreeSet::from([last]);
        for _ in 0..self.random.below(6) {
            let at = self.random.below(records.len() as u64) as usize;
            // Often in the newest segment, which grows again.
            let recent = self.random.below(2) == 0;
            let record = if recent {
                records.iter().rev().nth(at % 40)
            } else {
                records.get(at)
            };
            let Some(record) = record else { continue };
            if !batches.insert((record.file.clone(), record.batch)) {
                continue;
            }
            let mut bytes = self.disk.bytes(&record.file).unwrap();
            let offset = match self.random.below(4) {
                0 => record.offset + self.random.below(32),
                1 => record.batch + self.random.below(64),
                _ if record.payload.is_empty() => record.offset + 12,
                _ => record.offset + 32 + self.random.below(record.payload.len() as u64),
            };
            *bytes.get_mut(offset as usize).unwrap() ^= 1 << self.random.below(8);
            self.disk.set_bytes(&record.file, &bytes);
        }
    }

    /// Damages and mends the folder; what was not hit is still needed.
    fn repair(&mut self) {
        let before = sound(&self.disk);
        self.damage();
        let left = sound(&self.disk);
        assert!(before.len() - left.len() <= 6, "seed {}", self.seed);
        let report = repair(&self.disk).unwrap();
        assert!(report.unmended.is_empty(), "seed {}: {report}", self.seed);
        let again = verify(&self.disk).unwrap();
        assert!(again.is_sound(), "seed {}: {report}\n{again}", self.seed);
        let after = sound(&self.disk);
        for (name, payload) in &left {
            assert_eq!(
                after.get(name),
                Some(payload),
                "seed {}: {report}",
                self.seed
            );
        }
        self.needed.retain(|name, _| left.contains_key(name));
    }
}

#[test]
fn whatever_was_sound_is_found_after_any_number_of_repairs() {
    let mut holes = 0;
    for seed in 0..40 {
        let mut life = Life::new(seed);
        for _ in 0..4 {
            let journal = life.open();
            life.live(&journal);
            drop(journal);
            life.disk.kill();
            // A start marks the end of the log, so that damage in it is none of a torn tail.
            drop(life.open());
            let before = life.needed.len();
            life.repair();
            holes += before - life.needed.len();
        }
        drop(life.open());
    }
    assert!(holes > 150, "{holes}");
}
