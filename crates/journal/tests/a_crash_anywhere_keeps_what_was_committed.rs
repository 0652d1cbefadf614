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

use common::{Kept, Random};
use menzil_journal::testing::MemoryDisk;
use menzil_journal::{Freeze, Journal, Options, ReadError};
use menzil_model::{Class, Position, ShardId};

/// What one shard must hold.
#[derive(Clone, Debug, Default)]
struct Twin {
    records: Vec<(Class, Vec<u8>)>,
    /// How many need each record.
    references: Vec<u32>,
    committed: usize,
    /// The checkpoint that is current, and the one that may have become so: the references
    /// that records had at its freeze.
    checkpoint: Option<(u64, Vec<u32>)>,
    attempted: Option<(u64, Vec<u32>)>,
    frozen: Option<(Freeze, Vec<u32>)>,
    /// What was released, or retained, as the record says that was appended before it.
    releases: Vec<(u64, u64, i64)>,
}

impl Twin {
    fn needs(&self, index: u64) -> u32 {
        let place = index as usize - 1;
        self.references.get(place).copied().unwrap_or(0)
    }
}

struct World {
    random: Random,
    disk: MemoryDisk,
    options: Options,
    journal: Option<Journal<MemoryDisk>>,
    twins: BTreeMap<u32, Twin>,
    checkpoints: u64,
    crashes: u64,
    evacuated: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let options = Options {
            segment_bytes: [4096, 16 << 10, 64 << 10][random.below(3) as usize],
            prepared_segments: 1 + random.below(2) as usize,
            spare_segments_max: random.below(4) as usize,
            checkpoint_reserve_bytes: random.below(2) * 4096,
            evacuation_reserve_bytes: random.below(2) * 8192,
            evacuate_below_percent: [50, 90][random.below(2) as usize],
            evacuate_age_segments: random.below(3),
            evacuate_bytes: 4096 << random.below(3),
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
            evacuated: 0,
        }
    }

    fn run(&mut self, operations: u64) {
        self.reopen();
        for _ in 0..operations {
            let done = match self.random.below(26) {
                0..=8 => {
                    self.append();
                    true
                }
                9..=13 => self.step(),
                14 | 24 => self.checkpoints(),
                15 | 25 => {
                    self.read();
                    true
                }
                16 => {
                    let operations = self.random.below(40);
                    self.disk.power_off_after(operations);
                    true
                }
                17 => false,
                18..=20 => {
                    self.release();
                    true
                }
                21 | 22 => {
                    self.freeze();
                    true
                }
                23 => self.evacuate(),
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
            let references = match self.random.below(40) {
                0 => 300 + self.random.below(100) as u32,
                1..=20 => 1,
                21..=29 => 2,
                _ => 0,
            };
            let position = self
                .journal()
                .append(ShardId(shard), class, references, encode);
            let twin = self.twins.get_mut(&shard).unwrap();
            twin.records.push((class, payload));
            twin.references.push(references);
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
        if result.is_ok() {
            self.check_counts();
        }
        result.is_ok()
    }

    fn evacuate(&mut self) -> bool {
        let evacuated = self.journal().evacuate_step();
        if let Ok(Some(evacuated)) = &evacuated {
            assert!(evacuated.records > 0);
            self.evacuated += evacuated.records;
        }
        evacuated.is_ok()
    }

    /// Gives some references of records back, and has some records needed by more, after a record
    /// that says so.
    fn release(&mut self) {
        let shard = 1 + self.random.below(3) as u32;
        let few = self.random.below(8) > 0;
        let share = if few { 10 } else { 90 };
        let twin = self.twins.get_mut(&shard).unwrap();
        let journal = self.journal.as_ref().unwrap();
        let mut batch = journal.batch();
        let cause = batch.append_lazy(ShardId(shard), Class::Message, |bytes| bytes.push(1));
        twin.records.push((Class::Message, vec![1]));
        twin.references.push(0);
        for (index, references) in (1..).zip(&mut twin.references) {
            if *references > 0 && self.random.below(100) < 5 {
                *references += 1;
                batch.retain_run(ShardId(shard), index, 1);
                twin.releases.push((cause.index, index, -1));
            }
            if *references > 0 && self.random.below(100) < share {
                let count = 1 + self.random.below(u64::from(*references)) as u32;
                *references -= count;
                batch.release(ShardId(shard), index, count);
                twin.releases.push((cause.index, index, count.into()));
            }
        }
    }

    fn freeze(&mut self) {
        let journal = self.journal.as_ref().unwrap();
        for (shard, twin) in &mut self.twins {
            if self.random.below(3) > 0 {
                let freeze = journal.freeze(ShardId(*shard));
                twin.frozen = Some((freeze, twin.references.clone()));
            }
        }
    }

    fn checkpoints(&mut self) -> bool {
        (1..=3).all(|shard| self.checkpoint(shard))
    }

    fn checkpoint(&mut self, shard: u32) -> bool {
        let twin = self.twins.get_mut(&shard).unwrap();
        let frozen = twin.frozen.take_if(|(freeze, _)| {
            let older = twin.checkpoint.as_ref().map_or(0, |(at, _)| *at);
            freeze.index() <= twin.committed as u64 && freeze.index() > older
        });
        let Some((freeze, references)) = frozen else {
            return true;
        };
        let payload = vec![shard as u8; self.random.below(3000) as usize];
        let parts = [&payload[..payload.len() / 2], &payload[payload.len() / 2..]];
        twin.attempted = Some((freeze.index(), references));
        let installed = self.journal().install_checkpoint(freeze, &parts);
        if installed.is_ok() {
            self.checkpoints += 1;
            let twin = self.twins.get_mut(&shard).unwrap();
            twin.checkpoint = twin.attempted.take();
        }
        installed.is_ok()
    }

    fn read(&mut self) {
        let shard = 1 + self.random.below(3) as u32;
        let twin = &self.twins[&shard];
        let first = 1 + self.random.below(twin.records.len() as u64 + 2);
        let step = 1 + self.random.below(3);
        let indexes: Vec<u64> = (first..).step_by(step as usize).take(20).collect();
        let read = self.journal().read_many(ShardId(shard), &indexes);
        assert_eq!(read.len(), indexes.len());
        let floor = twin.checkpoint.as_ref().map_or(0, |(at, _)| *at);
        for (index, read) in indexes.into_iter().zip(read) {
            let live = index > floor || twin.needs(index) > 0;
            match (read, twin.records.get(index as usize - 1)) {
                (Ok(payload), Some((_, expected))) => {
                    assert!(payload == *expected, "{shard}:{index}");
                }
                (Err(ReadError::Gone(_)), None) => {}
                (Err(ReadError::Gone(_)), Some(_)) => assert!(!live, "{shard}:{index} is needed"),
                (Err(ReadError::Io(error)), _) => assert!(error.to_string().contains("power")),
                (read, expected) => panic!("{shard}:{index}: {read:?}, expected {expected:?}"),
            }
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
        let mut kept = Kept::default();
        let journal = Journal::open(self.disk.clone(), self.options.clone(), &mut kept).unwrap();
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
            twin.frozen = None;
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
            twin.references.truncate(last);
            // What was said to be gone by a record that is lost is needed again, and who was said
            // to need it besides does not.
            let lost = twin
                .releases
                .iter()
                .rev()
                .filter(|(cause, ..)| *cause > last as u64);
            for (_, index, count) in lost {
                if let Some(references) = twin.references.get_mut(*index as usize - 1) {
                    *references = references.checked_add_signed(*count as i32).unwrap();
                }
            }
            twin.releases.retain(|(cause, ..)| *cause <= last as u64);
            twin.committed = last;
            assert_eq!(
                (journal.committed(id), journal.appended(id)),
                (last as u64, last as u64)
            );
            for (index, references) in (1..).zip(&twin.references) {
                let found = journal.need(id, index, 1, *references);
                assert_eq!(
                    found,
                    u64::from(*references > 0),
                    "{shard}:{index} is needed"
                );
            }
            let needed = (1..).zip(&twin.references).filter(|(_, count)| **count > 0);
            let needed: Vec<u64> = needed.map(|(index, _)| index).collect();
            for (index, read) in needed.iter().zip(journal.read_many(id, &needed)) {
                let expected = &twin.records[*index as usize - 1].1;
                assert!(read.unwrap() == *expected, "{shard}:{index}");
            }
        }
        journal.needs_known();
        self.journal = Some(journal);
        self.check_counts();
    }

    /// The journal counts what the twins count, once all releases are counted.
    fn check_counts(&self) {
        let live: u64 = self
            .journal()
            .segments()
            .iter()
            .map(|s| s.live_records)
            .sum();
        let of_twin = |twin: &Twin| twin.references.iter().filter(|count| **count > 0).count();
        let expected: usize = self.twins.values().map(of_twin).sum();
        assert_eq!(live, expected as u64);
        for file in self.journal().segments() {
            assert_eq!(file.live_bytes == 0, file.live_records == 0, "{file:?}");
        }
        assert_eq!(self.journal().counters().released_unknown, 0);
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
    let (mut checkpoints, mut crashes, mut recycled, mut evacuated) = (0, 0, 0, 0);
    for seed in first.map_or_else(|| 0..seeds.unwrap_or(150), |seed: u64| seed..seed + 1) {
        let outcome = std::panic::catch_unwind(|| {
            let mut world = World::new(seed);
            world.run(250);
            let recycled = world.journal().segments().iter().map(|s| s.segment).max();
            let recycled = recycled.unwrap_or(0);
            (world.checkpoints, world.crashes, recycled, world.evacuated)
        });
        let Ok(outcome) = outcome else {
            panic!("seed {seed}; repeat with MENZIL_SEED={seed}");
        };
        checkpoints += outcome.0;
        crashes += outcome.1;
        recycled = recycled.max(outcome.2);
        evacuated += outcome.3;
    }
    println!("{checkpoints} checkpoints, {crashes} crashes, {evacuated} records evacuated");
    if first.is_none() {
        assert!(checkpoints > 0 && crashes > 0 && recycled > 3 && evacuated > 1000);
    }
}

#[test]
fn a_torn_tail_is_cut_again_and_again_and_what_follows_it_stands() {
    for seed in 0..30 {
        let mut random = Random(seed);
        let disk = MemoryDisk::new(seed);
        let mut expected: Vec<Vec<u8>> = Vec::new();
        for round in 0..25_u64 {
            let (journal, kept) = common::open_with(&disk, common::small()).unwrap();
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
