//! What a few records hold back: they move to cold files, and nothing of them is lost on the way.
#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test may"
)]

mod common;

use common::{Kept, SEGMENT, append, checkpoint, small};
use menzil_journal::testing::MemoryDisk;
use menzil_journal::{Journal, Options, ReadError, Space, dump, repair, verify};
use menzil_model::{Position, ShardId};

const SHARD: ShardId = ShardId(1);
const RECORDS: u64 = 1000;
/// In the first four segments.
const LIVE: [u64; 5] = [3, 90, 200, 310, 420];

fn options() -> Options {
    Options {
        segment_bytes: SEGMENT,
        evacuation_reserve_bytes: 16 << 10,
        ..small()
    }
}

fn payload(index: u64) -> Vec<u8> {
    vec![index as u8; 500 + index as usize % 300]
}

/// Opens the folder; of what is in it the live records are needed.
fn open(disk: &MemoryDisk) -> Journal<MemoryDisk> {
    let journal = Journal::open(disk.clone(), options(), &mut Kept::default()).unwrap();
    let committed = journal.committed(SHARD);
    for index in LIVE.into_iter().filter(|index| *index <= committed) {
        assert_eq!(journal.need(SHARD, index, 1, 1), 1, "record {index}");
    }
    journal.needs_known();
    journal
}

fn fill(journal: &Journal<MemoryDisk>) {
    for index in 1..=RECORDS {
        append(journal, 1, &payload(index));
        if index % 5 == 0 {
            journal.step().unwrap();
        }
    }
}

fn read(journal: &Journal<MemoryDisk>, index: u64) -> Result<Vec<u8>, ReadError> {
    let shard = SHARD;
    journal.read(Position { shard, index })
}

fn files(disk: &MemoryDisk, kind: &str) -> Vec<String> {
    let names = (0..60).map(|id| format!("{kind}-{id:010}"));
    names.filter(|name| disk.bytes(name).is_some()).collect()
}

/// A folder whose live records are in a cold file, their segments set free.
fn evacuated() -> (MemoryDisk, Journal<MemoryDisk>) {
    let disk = MemoryDisk::new(1);
    let journal = open(&disk);
    fill(&journal);
    checkpoint(&journal, 1, b"state", &LIVE).unwrap();
    let before = files(&disk, "segment").len();
    let evacuated = journal.evacuate_step().unwrap().unwrap();
    assert_eq!((evacuated.records, evacuated.files), (5, 4));
    assert_eq!(
        files(&disk, "segment").len(),
        before,
        "not before a checkpoint"
    );
    checkpoint(&journal, 1, b"state", &LIVE).unwrap();
    assert!(files(&disk, "segment").len() <= before - 3);
    assert_eq!(files(&disk, "cold").len(), 1);
    assert_eq!(journal.evacuate_step().unwrap(), None);
    (disk, journal)
}

#[test]
fn the_records_are_read_from_the_cold_file_until_it_dies_too() {
    let (disk, journal) = evacuated();
    for index in LIVE {
        assert_eq!(read(&journal, index).unwrap(), payload(index));
    }
    assert!(matches!(read(&journal, 4), Err(ReadError::Gone(_))));
    drop(journal);
    let report = verify(&disk).unwrap();
    assert!(report.is_sound(), "{report}");
    assert_eq!((report.cold_files, report.cold_records), (1, 5));
    assert_eq!(report.missing(SHARD, &[3, 4, 90, 420]), [4]);
    let mut dumped = 0;
    dump(&disk, &mut |found| {
        dumped += u64::from(matches!(found, menzil_journal::Dumped::Cold { .. }));
    })
    .unwrap();
    assert_eq!(dumped, 1);
    let journal = open(&disk);
    for index in LIVE {
        assert_eq!(read(&journal, index).unwrap(), payload(index));
    }
    checkpoint(&journal, 1, b"state", &[]).unwrap();
    assert!(files(&disk, "cold").is_empty());
    assert!(files(&disk, "directory").len() < 4);
}

#[test]
fn a_cold_file_without_its_directory_is_read() {
    let (disk, journal) = evacuated();
    drop(journal);
    let sidecar = files(&disk, "cold")[0].replace("cold", "directory");
    let mut bytes = disk.bytes(&sidecar).unwrap();
    bytes[40] ^= 1;
    disk.set_bytes(&sidecar, &bytes);
    let journal = open(&disk);
    for index in LIVE {
        assert_eq!(read(&journal, index).unwrap(), payload(index));
    }
    journal.prepare().unwrap();
    bytes[40] ^= 1;
    assert_eq!(disk.bytes(&sidecar).unwrap(), bytes, "it is as it was");
}

#[test]
fn a_damaged_cold_record_is_named_and_costs_only_itself() {
    let (disk, journal) = evacuated();
    drop(journal);
    let name = files(&disk, "cold")[0].clone();
    let mut bytes = disk.bytes(&name).unwrap();
    let start = bytes.windows(100).position(|part| part == [90; 100]);
    bytes[start.unwrap() + 50] ^= 1;
    disk.set_bytes(&name, &bytes);
    let journal = open(&disk);
    assert!(matches!(read(&journal, 90), Err(ReadError::Corrupt { .. })));
    for index in [3, 200, 310, 420] {
        assert_eq!(read(&journal, index).unwrap(), payload(index));
    }
    drop(journal);
    let report = verify(&disk).unwrap();
    assert_eq!(report.quarantined.len(), 1, "{report}");
    assert_eq!(report.quarantined[0].position.index, 90);
    let actions = repair(&disk).unwrap().actions;
    assert_eq!(actions.len(), 1, "{actions:?}");
    let report = verify(&disk).unwrap();
    assert!(report.is_sound(), "{report}");
    assert_eq!(report.missing(SHARD, &LIVE), [90]);
    assert!(disk.bytes(&format!("quarantine-{name}")).is_some());
}

#[test]
fn the_power_may_go_at_any_operation_of_an_evacuation() {
    let disk = MemoryDisk::new(2);
    let journal = open(&disk);
    fill(&journal);
    checkpoint(&journal, 1, b"state", &LIVE).unwrap();
    drop(journal);
    let mut done = false;
    let mut operations = 0;
    while !done {
        for keep in [0, 1] {
            let disk = disk.fork();
            let journal = open(&disk);
            disk.power_off_after(operations);
            done =
                journal.evacuate_step().is_ok() && checkpoint(&journal, 1, b"state", &LIVE).is_ok();
            drop(journal);
            disk.crash(&mut |bound| if keep == 1 { bound - 1 } else { 0 });
            let journal = open(&disk);
            let uses = journal.segments();
            let live: u64 = uses.iter().map(|file| file.live_records).sum();
            assert_eq!(live, 5, "{operations}");
            for index in LIVE {
                assert_eq!(
                    read(&journal, index).unwrap(),
                    payload(index),
                    "{operations}"
                );
            }
            // It goes on where it was, and nothing is left over.
            while journal.evacuate_step().unwrap().is_some() {}
            checkpoint(&journal, 1, b"state", &LIVE).unwrap();
            checkpoint(&journal, 1, b"state", &LIVE).unwrap();
            assert_eq!(files(&disk, "cold").len(), 1, "{operations}");
            assert!(journal.segments().len() <= 5, "{operations}");
        }
        operations += 1;
    }
    assert!(operations > 10);
}

#[test]
fn on_a_full_disk_the_reserve_has_the_space_for_it() {
    let disk = MemoryDisk::new(3);
    let journal = open(&disk);
    fill(&journal);
    checkpoint(&journal, 1, b"state", &LIVE).unwrap();
    journal.prepare().unwrap();
    disk.set_capacity(Some(disk.used()));
    let mut more = 0;
    while journal.has_room(1000) {
        append(&journal, 1, &[1; 1000]);
        journal.step().unwrap();
        more += 1;
    }
    assert_eq!(journal.space(), Space::Full);
    assert!(more > 10);
    let evacuated = journal.evacuate_step().unwrap().unwrap();
    assert_eq!(evacuated.records, 5);
    checkpoint(&journal, 1, b"state", &LIVE).unwrap();
    assert_eq!(journal.prepare().unwrap(), Space::Ample);
    assert!(journal.has_room(1000));
    assert!(
        disk.bytes("evacuation-reserve").is_some(),
        "it is there again"
    );
    for index in LIVE {
        assert_eq!(read(&journal, index).unwrap(), payload(index));
    }
}

#[test]
fn the_debt_is_what_is_dead_beyond_what_is_tolerated() {
    let disk = MemoryDisk::new(4);
    let journal = open(&disk);
    fill(&journal);
    assert_eq!(journal.evacuation_debt_bytes(), 0);
    checkpoint(&journal, 1, b"state", &LIVE).unwrap();
    journal.evacuate_step().unwrap();
    let debt = journal.evacuation_debt_bytes();
    assert!((SEGMENT..4 * SEGMENT).contains(&debt), "{debt}");
    journal.evacuate_step().unwrap();
    assert_eq!(journal.evacuation_debt_bytes(), 0);
}

#[test]
fn many_small_cold_files_become_one() {
    let disk = MemoryDisk::new(5);
    let journal = open(&disk);
    let mut live = Vec::new();
    for round in 0..20 {
        for _ in 0..200 {
            append(&journal, 1, &[round; 800]);
            journal.step().unwrap();
        }
        live.push(1 + 200 * u64::from(round));
        checkpoint(&journal, 1, b"state", &live).unwrap();
        while journal.evacuate_step().unwrap().is_some() {}
    }
    checkpoint(&journal, 1, b"state", &live).unwrap();
    assert!(
        files(&disk, "cold").len() <= 9,
        "{:?}",
        files(&disk, "cold")
    );
    for (round, index) in (0..).zip(&live) {
        assert_eq!(read(&journal, *index).unwrap(), [round; 800]);
    }
}

/// The journal is run by its threads while records come, go, and are evacuated and read.
#[test]
fn readers_and_checkpoints_beside_the_evacuating_thread_find_everything() {
    let disk = MemoryDisk::new(6);
    let options = Options {
        evacuate_every: std::time::Duration::from_millis(1),
        evacuate_age_segments: 1,
        ..options()
    };
    let journal = Journal::open(disk, options, &mut Kept::default()).unwrap();
    journal.needs_known();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| journal.run(|_| {}));
        let mut kept = Vec::new();
        for round in 0..200_u64 {
            let mut batch = journal.batch();
            for n in 0..40 {
                let index = 1 + round * 40 + n;
                let encode = |bytes: &mut Vec<u8>| bytes.extend_from_slice(&payload(index));
                batch.append(SHARD, menzil_model::Class::Message, 1, encode);
                if index % 97 == 0 {
                    kept.push(index);
                } else {
                    batch.release(SHARD, index, 1);
                }
            }
            if round % 3 == 0 && kept.len() > 20 {
                batch.release(SHARD, kept.remove(0), 1);
            }
            drop(batch);
            let freeze = journal.freeze(SHARD);
            common::eventually("the commit", || journal.committed(SHARD) >= freeze.index());
            if round % 5 == 0 {
                journal.install_checkpoint(freeze, &[b"state"]).unwrap();
            }
            for (index, read) in kept.iter().zip(journal.read_many(SHARD, &kept)) {
                assert_eq!(read.unwrap(), payload(*index));
            }
        }
        journal.close();
        writer.join().unwrap().unwrap();
    });
    let counters = journal.counters();
    assert!(counters.records_evacuated > 20, "{counters:?}");
    assert!(counters.segments_recycled > 20, "{counters:?}");
    assert_eq!(counters.released_unknown, 0);
}
