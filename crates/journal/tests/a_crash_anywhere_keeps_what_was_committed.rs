//! The journal against a `Vec`: random appends, commits, checkpoints and reads, with the power
//! going, the process dying or a clean stop at any moment.
#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    reason = "a test may"
)]

mod common;

use std::collections::BTreeMap;

use common::{Kept, Random, open_with};
use menzil_journal::testing::MemoryDisk;
use menzil_journal::{Journal, Options, ReadError};
use menzil_model::{Class, Position, ShardId};

/// What one shard must hold.
#[derive(Clone, Debug, Default)]
struct Twin {
    records: Vec<(Class, Vec<u8>)>,
    committed: usize,
    /// The checkpoint that is current, and the one that may have become so.
    checkpoint: Option<(u64, Vec<u64>)>,
    attempted: Option<(u64, Vec<u64>)>,
    /// Records below that index may be gone unless the checkpoint needs them.
    floor: u64,
}

struct World {
    random: Random,
    disk: MemoryDisk,
    options: Options,
    journal: Option<Journal<MemoryDisk>>,
    twins: BTreeMap<u32, Twin>,
    checkpoints: u64,
    crashes: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let options = Options {
            segment_bytes: [4096, 16 << 10, 64 << 10][random.below(3) as usize],
            prepared_segments: 1 + random.below(2) as usize,
            spare_segments_max: random.below(4) as usize,
            checkpoint_reserve_bytes: random.below(2) * 4096,
            ..Options::default()
        };
        let disk = MemoryDisk::new(seed);
        let twins = (1..=3).map(|shard| (shard, Twin::default())).collect();
        let journal = None;
        Self {
            random,
            disk,
            options,
            journal,
            twins,
            checkpoints: 0,
            crashes: 0,
        }
    }

    fn run(&mut self, operations: u64) {
        self.reopen();
        for _ in 0..operations {
            let done = match self.random.below(20) {
                0..9 => {
                    self.append();
                    true
                }
                9..14 => self.step(),
                14 => self.checkpoint(),
                15 => {
                    self.read();
                    true
                }
                16 => {
                    let operations = self.random.below(40);
                    self.disk.power_off_after(operations);
                    true
                }
                17 => false,
                _ => self
                    .journal
                    .as_ref()
                    .is_none_or(|journal| journal.prepare().is_ok()),
            };
            if !done {
                self.stop();
            }
        }
        self.stop();
    }

    fn journal(&self) -> &Journal<MemoryDisk> {
        self.journal.as_ref().unwrap()
    }

    fn append(&mut self) {
        for _ in 0..=self.random.below(4) {
            let shard = 1 + self.random.below(3) as u32;
            let length = match self.random.below(12) {
                0 => self.random.below(20_000),
                1..4 => self.random.below(2_000),
                _ => self.random.below(100),
            };
            let payload: Vec<u8> = (0..length).map(|_| self.random.next() as u8).collect();
            let class =
                [Class::Topology, Class::Message, Class::Session][self.random.below(3) as usize];
            let encode = |bytes: &mut Vec<u8>| bytes.extend_from_slice(&payload);
            let position = self.journal().append(ShardId(shard), class, encode);
            let twin = self.twins.get_mut(&shard).unwrap();
            twin.records.push((class, payload));
            assert_eq!(position.index, twin.records.len() as u64);
        }
    }

    fn step(&mut self) -> bool {
        let result = self.journal().step();
        for (shard, twin) in &mut self.twins {
            let committed = self.journal.as_ref().unwrap().committed(ShardId(*shard));
            assert!(
                committed as usize >= twin.committed,
                "committed never goes back"
            );
            twin.committed = committed as usize;
        }
        if result.is_ok() {
            assert!(
                self.twins
                    .values()
                    .all(|twin| twin.committed == twin.records.len())
            );
        }
        result.is_ok()
    }

    fn checkpoint(&mut self) -> bool {
        let shard = 1 + self.random.below(3) as u32;
        let twin = &self.twins[&shard];
        let floor = twin.checkpoint.as_ref().map_or(0, |(index, _)| *index);
        let index = floor + self.random.below(twin.committed as u64 - floor + 1);
        if index == floor {
            return true;
        }
        let old_live = twin.checkpoint.clone().map_or(Vec::new(), |(_, live)| live);
        // What a later state refers to, an earlier one referred to as well, or it is newer.
        let keep = self.random.below(4);
        let live: Vec<u64> = old_live
            .into_iter()
            .chain(floor + 1..=index)
            .filter(|_| keep > 0 && self.random.below(20) < keep)
            .collect();
        let payload = vec![shard as u8; self.random.below(3000) as usize];
        let parts = [&payload[..payload.len() / 2], &payload[payload.len() / 2..]];
        self.twins.get_mut(&shard).unwrap().attempted = Some((index, live.clone()));
        let installed =
            self.journal()
                .install_checkpoint(ShardId(shard), index, &parts, live.iter().copied());
        if installed.is_ok() {
            self.checkpoints += 1;
            let twin = self.twins.get_mut(&shard).unwrap();
            twin.checkpoint = twin.attempted.take();
            twin.floor = index;
        }
        installed.is_ok()
    }

    fn read(&mut self) {
        let shard = 1 + self.random.below(3) as u32;
        let twin = &self.twins[&shard];
        let index = 1 + self.random.below(twin.records.len() as u64 + 2);
        let live = index > twin.floor
            || twin
                .checkpoint
                .as_ref()
                .is_some_and(|(_, live)| live.contains(&index));
        let position = Position {
            shard: ShardId(shard),
            index,
        };
        match (
            self.journal().read(position),
            twin.records.get(index as usize - 1),
        ) {
            (Ok(payload), Some((_, expected))) => assert!(payload == *expected, "{position}"),
            (Err(ReadError::Gone(_)), None) => {}
            (Err(ReadError::Gone(_)), Some(_)) => assert!(!live, "{position} is needed"),
            (Err(ReadError::Io(error)), _) => assert!(error.to_string().contains("power")),
            (read, expected) => panic!("{position}: {read:?}, expected {expected:?}"),
        }
    }

    /// Ends the journal in one way or another and opens it again.
    fn stop(&mut self) {
        let journal = self.journal.take().unwrap();
        match self.random.below(4) {
            0 => {
                // A clean stop, unless the power is off already.
                let finished = journal.finish().is_ok();
                for (shard, twin) in &mut self.twins {
                    twin.committed = journal.committed(ShardId(*shard)) as usize;
                    assert!(!finished || twin.committed == twin.records.len());
                }
                drop(journal);
                self.disk.kill();
            }
            1 => {
                drop(journal);
                self.disk.kill();
            }
            _ => {
                drop(journal);
                self.crash();
            }
        }
        self.reopen();
    }

    fn crash(&mut self) {
        self.crashes += 1;
        let mut random = Random(self.random.next());
        // Sometimes all is forgotten, sometimes nearly all survives.
        let bias = random.below(4);
        self.disk.crash(&mut |bound| {
            let choice = random.below(bound);
            match bias {
                0 => bound - 1,
                1 if random.below(8) > 0 => 0,
                _ => choice,
            }
        });
    }

    fn reopen(&mut self) {
        // The power may go again while the journal recovers.
        for _ in 0..self.random.below(3) {
            let operations = self.random.below(12);
            self.disk.power_off_after(operations);
            let mut kept = Kept::default();
            drop(Journal::open(
                self.disk.clone(),
                self.options.clone(),
                &mut kept,
            ));
            self.crash();
        }
        let (journal, kept) = open_with(&self.disk, self.options.clone()).unwrap();
        assert!(kept.quarantined.is_empty());
        assert!(journal.report().harmless.is_empty());
        for (shard, twin) in &mut self.twins {
            let id = ShardId(*shard);
            let found = kept.checkpoints.get(&id);
            let at = found.map_or(0, |(at, _)| *at);
            if let Some(attempted) = twin.attempted.take()
                && at == attempted.0
            {
                twin.checkpoint = Some(attempted);
            }
            assert_eq!(at, twin.checkpoint.as_ref().map_or(0, |(index, _)| *index));
            assert!(found.is_none_or(|(_, payload)| payload.iter().all(|b| *b == *shard as u8)));
            let records = kept.records.get(&id).cloned().unwrap_or_default();
            let last = at as usize + records.len();
            assert!(
                last >= twin.committed,
                "shard {shard}: {last} of {}",
                twin.committed
            );
            for (n, (index, class, payload)) in records.into_iter().enumerate() {
                assert_eq!(index, at + n as u64 + 1);
                assert!(
                    (class, payload) == twin.records[index as usize - 1],
                    "{shard}:{index}"
                );
            }
            twin.records.truncate(last);
            twin.committed = last;
            twin.floor = at;
            assert_eq!(
                (journal.committed(id), journal.appended(id)),
                (last as u64, last as u64)
            );
            for index in twin.checkpoint.iter().flat_map(|(_, live)| live) {
                let payload = journal
                    .read(Position {
                        shard: id,
                        index: *index,
                    })
                    .unwrap();
                assert!(
                    payload == twin.records[*index as usize - 1].1,
                    "{shard}:{index}"
                );
            }
        }
        self.journal = Some(journal);
    }
}

#[test]
fn random_lives_of_a_journal_lose_double_and_resurrect_nothing() {
    let seeds = std::env::var("MENZIL_SEEDS")
        .ok()
        .and_then(|seeds| seeds.parse().ok());
    let first = std::env::var("MENZIL_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let (mut checkpoints, mut crashes, mut recycled) = (0, 0, 0);
    for seed in first.map_or_else(|| 0..seeds.unwrap_or(150), |seed: u64| seed..seed + 1) {
        let outcome = std::panic::catch_unwind(|| {
            let mut world = World::new(seed);
            world.run(150);
            let recycled = world.journal().segments().iter().map(|s| s.segment).max();
            (world.checkpoints, world.crashes, recycled.unwrap_or(0))
        });
        let Ok(outcome) = outcome else {
            panic!("seed {seed}; repeat with MENZIL_SEED={seed}");
        };
        checkpoints += outcome.0;
        crashes += outcome.1;
        recycled = recycled.max(outcome.2);
    }
    if first.is_none() {
        assert!(checkpoints > 0 && crashes > 0 && recycled > 3);
    }
}

#[test]
fn a_torn_tail_is_cut_again_and_again_and_what_follows_it_stands() {
    for seed in 0..30 {
        let mut random = Random(seed);
        let disk = MemoryDisk::new(seed);
        let mut expected: Vec<Vec<u8>> = Vec::new();
        for round in 0..25_u64 {
            let (journal, kept) = open_with(&disk, common::small()).unwrap();
            let found = kept.payloads(1);
            assert!(found.len() >= expected.len());
            assert_eq!(
                found[..expected.len()],
                expected,
                "seed {seed} round {round}"
            );
            expected = found;
            // One batch is synced, the next is written and only some of its sectors stay.
            common::append(&journal, 1, &random.next().to_le_bytes());
            journal.step().unwrap();
            let position = Position {
                shard: ShardId(1),
                index: journal.committed(ShardId(1)),
            };
            expected.push(journal.read(position).unwrap());
            for _ in 0..random.below(6) {
                let length = random.below(3000) as usize;
                common::append(&journal, 1, &vec![round as u8; length]);
            }
            disk.fail_sync(1);
            drop(journal.step());
            drop(journal);
            disk.crash(&mut |bound| random.below(bound));
        }
    }
}
