//! One life of a journal with rolls, checkpoints and recycling, ended after each of its
//! operations in turn, with what was not synced kept, forgotten or mixed.
#![expect(
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    reason = "a test may"
)]

mod common;

use common::{Random, append, checkpoint, open_with};
use menzil_journal::Options;
use menzil_journal::testing::MemoryDisk;
use menzil_model::{Position, ShardId};

const SHARD: ShardId = ShardId(1);

fn options() -> Options {
    Options {
        segment_bytes: 4096,
        prepared_segments: 1,
        spare_segments_max: 1,
        ..common::small()
    }
}

fn payload(index: u64) -> Vec<u8> {
    vec![index as u8; 500 + index as usize * 13 % 700]
}

/// How far a life came: what was committed and which checkpoints may be current.
#[derive(Debug, Default)]
struct Came {
    committed: u64,
    checkpoint: u64,
    attempted: u64,
    done: bool,
}

fn live(disk: &MemoryDisk) -> Came {
    let mut came = Came::default();
    let Ok((journal, _)) = open_with(disk, options()) else {
        return came;
    };
    for index in 1..=24 {
        append(&journal, 1, &payload(index));
        let stepped = journal.step();
        came.committed = journal.committed(SHARD);
        if stepped.is_err() {
            return came;
        }
        if index % 6 == 0 {
            came.attempted = index;
            // The newest record and one long before it are still referred to.
            let live = [index - 5, index];
            let state = payload(index);
            if checkpoint(&journal, 1, &state, &live).is_err() {
                return came;
            }
            came.checkpoint = index;
        }
    }
    came.done = journal.finish().is_ok();
    came
}

fn check(disk: &MemoryDisk, came: &Came, what: &str) {
    let (journal, kept) = open_with(disk, options()).unwrap_or_else(|e| panic!("{what}: {e}"));
    let at = kept.checkpoints.get(&SHARD).map_or(0, |(at, _)| *at);
    assert!(
        at == came.checkpoint || at == came.attempted,
        "{what}: checkpoint {at}"
    );
    if at > 0 {
        assert_eq!(kept.checkpoints[&SHARD].1, payload(at), "{what}");
        for index in [at - 5, at] {
            let read = journal.read(Position {
                shard: SHARD,
                index,
            });
            assert_eq!(read.ok(), Some(payload(index)), "{what}: record {index}");
        }
    }
    let found = kept.payloads(1);
    assert!(
        at + found.len() as u64 >= came.committed,
        "{what}: committed records are missing"
    );
    for (n, found) in found.iter().enumerate() {
        assert_eq!(*found, payload(at + n as u64 + 1), "{what}");
    }
    assert!(
        journal.report().harmless.is_empty(),
        "{what}: {}",
        journal.report()
    );
    assert!(kept.quarantined.is_empty(), "{what}");
    // And it goes on.
    append(&journal, 1, b"next");
    journal.step().unwrap_or_else(|e| panic!("{what}: {e}"));
}

#[test]
fn every_operation_may_be_the_last() {
    end_after_each_operation(|_| ());
}

#[test]
fn every_operation_may_be_the_last_where_batches_end_with_a_sector() {
    end_after_each_operation(MemoryDisk::pad_to_sectors);
}

fn end_after_each_operation(set_up: impl Fn(&MemoryDisk)) {
    let mut operations = 0;
    loop {
        let mut done = false;
        for kind in 0..6 {
            let disk = MemoryDisk::new(operations);
            set_up(&disk);
            disk.power_off_after(operations);
            let came = live(&disk);
            done = came.done;
            let mut random = Random(operations * 10 + kind);
            disk.crash(&mut |bound| match kind {
                0 => 0,
                1 => bound - 1,
                _ => random.below(bound),
            });
            check(
                &disk,
                &came,
                &format!("{operations} operations, kind {kind}"),
            );
        }
        if done {
            break;
        }
        operations += 1;
        assert!(operations < 2000);
    }
    assert!(operations > 150, "{operations}");
}

/// A disk that is full of what is needed, with its reserve and a short segment.
fn full_options() -> Options {
    Options {
        segment_bytes: 16 << 10,
        checkpoint_reserve_bytes: 8 << 10,
        log_reserve_bytes: 4 << 10,
        ..options()
    }
}

/// Goes on with what sets nothing free, until the power goes. How far it was committed.
fn live_on_a_full_disk(disk: &MemoryDisk, needed: u64, records: u64) -> (u64, bool) {
    let needed: Vec<u64> = (1..=needed).collect();
    let Ok((journal, _)) = open_with(disk, full_options()) else {
        return (0, false);
    };
    for number in 0..records {
        append(&journal, 1, b"delivered");
        let is_over = journal.step().is_err()
            || number % 3 == 2 && checkpoint(&journal, 1, b"state", &needed).is_err();
        if is_over {
            return (journal.committed(SHARD), false);
        }
    }
    (journal.committed(SHARD), true)
}

#[test]
fn every_operation_on_a_full_disk_may_be_the_last() {
    let full = MemoryDisk::new(1);
    full.pad_to_sectors();
    let (journal, _) = open_with(&full, full_options()).unwrap();
    journal.prepare().unwrap();
    full.set_capacity(Some(full.used() + 4096));
    while journal.has_room(600) {
        append(&journal, 1, &[7; 600]);
        journal.step().unwrap();
    }
    let needed = journal.committed(SHARD);
    // The most of the reserve.
    for _ in 0..24 {
        append(&journal, 1, b"delivered");
        journal.step().unwrap();
    }
    drop(journal);
    let (mut operations, mut is_done) = (0, false);
    while !is_done {
        for kind in 0..4 {
            let disk = full.fork();
            disk.power_off_after(operations);
            let (committed, done) = live_on_a_full_disk(&disk, needed, 18);
            is_done = done;
            let mut random = Random(operations * 10 + kind);
            disk.crash(&mut |bound| match kind {
                0 => 0,
                1 => bound - 1,
                _ => random.below(bound),
            });
            let what = format!("{operations} operations, kind {kind}");
            let (journal, _) =
                open_with(&disk, full_options()).unwrap_or_else(|e| panic!("{what}: {e}"));
            let found = journal.committed(SHARD);
            assert!(found >= committed.max(needed), "{what}: {found}");
            for index in [1, needed] {
                let read = journal.read(Position {
                    shard: SHARD,
                    index,
                });
                assert_eq!(read.unwrap(), [7; 600], "{what}: record {index}");
            }
            drop(journal);
            let (_, goes_on) = live_on_a_full_disk(&disk, needed, 12);
            assert!(goes_on, "{what}: the disk cannot be drained");
        }
        operations += 1;
        assert!(operations < 4000);
    }
    assert!(operations > 100, "{operations}");
}

#[test]
fn a_sidecar_of_a_segment_that_is_written_again_is_not_believed() {
    // The thread that prepares may describe a sealed segment before the first batch of the next
    // is written. If that never comes, the segment is the last again, and grows.
    let options = Options {
        segment_bytes: 8192,
        ..options()
    };
    let disk = MemoryDisk::new(1);
    let (journal, _) = open_with(&disk, options.clone()).unwrap();
    append(&journal, 1, &payload(1));
    journal.step().unwrap();
    journal.prepare().unwrap();
    let untouched = disk.bytes("segment-0000000002").unwrap();
    append(&journal, 1, &vec![9; 7000]);
    journal.step().unwrap();
    assert!(disk.bytes("directory-0000000001").is_some());
    drop(journal);
    disk.set_bytes("segment-0000000002", &untouched);
    let (journal, kept) = open_with(&disk, options.clone()).unwrap();
    assert_eq!(kept.payloads(1), [payload(1)]);
    append(&journal, 1, &payload(2));
    journal.step().unwrap();
    drop(journal);
    for operations in 0..12 {
        let disk = disk.fork();
        let (journal, _) = open_with(&disk, options.clone()).unwrap();
        append(&journal, 1, &payload(3));
        journal.step().unwrap();
        append(&journal, 1, &vec![9; 7000]);
        disk.power_off_after(operations);
        drop(journal.step());
        let committed = journal.committed(SHARD);
        drop(journal);
        disk.crash(&mut |_| 0);
        let (journal, kept) = open_with(&disk, options.clone()).unwrap();
        assert!(kept.payloads(1).len() as u64 >= committed, "{operations}");
        assert_eq!(kept.payloads(1)[..3], [payload(1), payload(2), payload(3)]);
        // Below a checkpoint only the sidecar tells where the records are.
        checkpoint(&journal, 1, b"state", &[1, 2, 3]).unwrap();
        drop(journal);
        let (journal, _) = open_with(&disk, options.clone()).unwrap();
        for index in 1..=3 {
            let read = journal.read(Position {
                shard: SHARD,
                index,
            });
            assert_eq!(read.unwrap(), payload(index), "{operations}");
        }
    }
}

#[test]
fn what_a_killed_process_left_unsynced_is_made_durable_before_it_counts() {
    let disk = MemoryDisk::new(2);
    let (journal, _) = open_with(&disk, options()).unwrap();
    append(&journal, 1, b"synced");
    journal.step().unwrap();
    append(&journal, 1, b"written only");
    disk.fail_sync(1);
    assert!(journal.step().is_err());
    drop(journal);
    disk.kill();
    let (journal, kept) = open_with(&disk, options()).unwrap();
    assert_eq!(kept.payloads(1), [&b"synced"[..], b"written only"]);
    assert_eq!(journal.committed(SHARD), 2);
    drop(journal);
    disk.crash(&mut |bound| bound - 1);
    assert_eq!(open_with(&disk, options()).unwrap().1.payloads(1).len(), 2);
}
