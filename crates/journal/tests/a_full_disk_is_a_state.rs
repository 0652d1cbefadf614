//! Running out of space while preparing: publishes are refused, settles and checkpoints go on,
//! and once there is space again nothing needs a restart.
#![expect(clippy::unwrap_used, reason = "a test may")]

mod common;

use std::time::Duration;

use common::{Kept, SEGMENT, append, checkpoint, eventually, open_with, small};
use menzil_journal::testing::MemoryDisk;
use menzil_journal::{
    CheckpointError, Disk as _, DiskFile as _, Journal, OpenError, Options, SegmentUse, Space,
    StorageError,
};
use menzil_model::{Class, Position, ShardId};

const SHARD: ShardId = ShardId(1);

/// A disk that has room for the files it has and nothing more, once its journal is set up.
fn full_disk(options: Options) -> (MemoryDisk, Journal<MemoryDisk>) {
    let disk = MemoryDisk::new(1);
    let (journal, _) = open_with(&disk, options).unwrap();
    assert_eq!(journal.prepare().unwrap(), Space::Ample);
    disk.set_capacity(Some(disk.used()));
    (disk, journal)
}

/// Appends records of a kilobyte while `more` says so, committing each. Returns how many.
fn fill(journal: &Journal<MemoryDisk>, more: impl Fn() -> bool) -> u64 {
    let mut count = 0;
    while more() {
        append(journal, 1, &[7; 1000]);
        journal.step().unwrap();
        count += 1;
        assert!(count < 10_000);
    }
    count
}

#[test]
fn publishes_stop_at_the_reserve_and_settles_use_it_to_the_end() {
    let (disk, journal) = full_disk(small());
    assert!(journal.has_room(1000));
    let published = fill(&journal, || journal.has_room(1000));
    assert_eq!(journal.space(), Space::Full);
    // What is left of the active segment and one whole one were filled, the reserve was not.
    assert!(published > 2 * SEGMENT / 2000, "{published}");
    assert!(!journal.has_room(1));
    assert!(journal.has_reserve(1000));
    let settled = fill(&journal, || journal.has_reserve(1000));
    assert!(settled >= SEGMENT / 2048 - 2, "{settled}");
    assert_eq!(journal.committed(SHARD), published + settled);
    assert!(journal.failure().is_none());

    // Only past the reserve is it an error.
    for _ in 0..3 {
        append(&journal, 1, &[7; 1000]);
        if let Err(error) = journal.step() {
            assert!(matches!(error, StorageError::Full), "{error}");
            break;
        }
    }
    assert!(matches!(journal.failure(), Some(StorageError::Full)));
    let committed = journal.committed(SHARD);
    drop(journal);
    let kept = disk.fork();
    kept.set_capacity(None);
    let (journal, kept) = open_with(&kept, small()).unwrap();
    assert_eq!(kept.payloads(1).len() as u64, committed);
    journal.prepare().unwrap();
    assert!(journal.has_room(1000));
}

#[test]
fn space_that_returns_needs_no_restart() {
    let (disk, journal) = full_disk(small());
    fill(&journal, || journal.has_room(1000));
    assert_eq!(journal.prepare().unwrap(), Space::Full);
    let names = disk.used();
    disk.set_capacity(None);
    journal.step().unwrap();
    assert_eq!(journal.space(), Space::Ample);
    assert!(disk.used() > names);
    assert!(journal.has_room(1000));
    append(&journal, 1, b"again");
    journal.step().unwrap();
}

#[test]
fn a_checkpoint_on_a_full_disk_uses_its_reserve_and_frees_segments() {
    let options = Options {
        checkpoint_reserve_bytes: 32 << 10,
        ..small()
    };
    let (disk, journal) = full_disk(options.clone());
    fill(&journal, || journal.has_room(1000));
    assert_eq!(journal.space(), Space::Full);
    let index = journal.committed(SHARD);
    let state = vec![3; 20_000];
    checkpoint(&journal, 1, &state, &[]).unwrap();
    assert_eq!(journal.prepare().unwrap(), Space::Ample);
    assert!(journal.has_room(1000));
    fill(&journal, || journal.has_room(1000));
    drop(journal);
    let (_, kept) = open_with(&disk, options).unwrap();
    assert_eq!(kept.checkpoints[&SHARD], (index, state));
}

#[test]
fn reserves_are_whole_pages() {
    let options = Options {
        checkpoint_reserve_bytes: 10_001,
        evacuation_reserve_bytes: 5_001,
        ..small()
    };
    let (disk, journal) = full_disk(options);
    let length = |name: &str| disk.open(name).unwrap().len().unwrap();
    assert_eq!(length("checkpoint-reserve"), 12 << 10);
    assert_eq!(length("evacuation-reserve"), 8 << 10);
    // What is a little larger than expected is not made again.
    disk.set_capacity(None);
    journal.expect_checkpoint_bytes(20_001);
    journal.prepare().unwrap();
    let made = journal.counters().zero_bytes;
    assert_eq!(length("checkpoint-reserve") % 4096, 0);
    journal.trim_spares().unwrap();
    journal.prepare().unwrap();
    assert_eq!(journal.counters().zero_bytes, made);
}

#[test]
fn a_checkpoint_that_frees_nothing_leaves_space_for_the_next() {
    let options = Options {
        checkpoint_reserve_bytes: 32 << 10,
        ..small()
    };
    let (_disk, journal) = full_disk(options);
    fill(&journal, || journal.has_room(1000));
    assert_eq!(journal.space(), Space::Full);
    let index = journal.committed(SHARD);
    let state = vec![3; 20_000];
    let all: Vec<u64> = (1..=index).collect();
    checkpoint(&journal, 1, &state, &all).unwrap();
    assert_eq!(journal.prepare().unwrap(), Space::Full);
    append(&journal, 1, b"settled");
    journal.step().unwrap();
    checkpoint(&journal, 1, &state, &[]).unwrap();
    assert_eq!(journal.prepare().unwrap(), Space::Ample);
    assert!(journal.has_room(1000));
}

#[test]
fn a_checkpoint_without_space_leaves_the_one_before_it() {
    let options = Options {
        checkpoint_reserve_bytes: 0,
        ..small()
    };
    let (disk, journal) = full_disk(options.clone());
    append(&journal, 1, b"one");
    journal.step().unwrap();
    let refused = checkpoint(&journal, 1, b"state", &[]);
    assert!(matches!(refused, Err(CheckpointError::Full)));
    assert!(disk.bytes("checkpoint-1-1.tmp").is_none());
    append(&journal, 1, b"two");
    journal.step().unwrap();
    drop(journal);
    let (_, kept) = open_with(&disk, options).unwrap();
    assert_eq!(kept.payloads(1), [b"one", b"two"]);
}

#[test]
fn a_failed_preparation_leaves_no_file() {
    let (disk, journal) = full_disk(small());
    fill(&journal, || journal.has_room(1000));
    disk.set_capacity(Some(disk.used() + SEGMENT / 2));
    assert_eq!(journal.prepare().unwrap(), Space::Full);
    let used = disk.used();
    assert_eq!(journal.prepare().unwrap(), Space::Full);
    assert_eq!(disk.used(), used);
    disk.set_capacity(Some(used + SEGMENT));
    assert_eq!(journal.prepare().unwrap(), Space::Ample);
}

#[test]
fn a_disk_too_small_for_the_first_segment_is_named() {
    let disk = MemoryDisk::new(2);
    disk.set_capacity(Some(SEGMENT / 2));
    let mut kept = Kept::default();
    let refused = Journal::open(disk, small(), &mut kept)
        .map(|_| ())
        .unwrap_err();
    assert!(matches!(refused, OpenError::Full), "{refused}");
}

#[test]
fn more_pending_than_allowed_is_no_room() {
    let disk = MemoryDisk::new(3);
    let options = Options {
        pending_bytes_max: 5000,
        ..small()
    };
    let (journal, _) = open_with(&disk, options).unwrap();
    journal.prepare().unwrap();
    assert!(journal.has_room(4000));
    assert!(!journal.has_room(6000));
    append(&journal, 1, &[1; 3000]);
    assert!(!journal.has_room(4000));
    assert!(journal.pending_bytes() >= 3000);
    journal.step().unwrap();
    assert!(journal.has_room(4000));
    assert_eq!(journal.pending_bytes(), 0);
}

#[test]
fn a_checkpoint_waits_for_committed_and_never_goes_back() {
    let disk = MemoryDisk::new(4);
    let (journal, _) = open_with(&disk, small()).unwrap();
    append(&journal, 1, b"one");
    let old = journal.freeze(SHARD);
    let early = journal.install_checkpoint(old.clone(), &[b"x"]);
    assert!(matches!(
        early,
        Err(CheckpointError::NotCommitted {
            index: 1,
            committed: 0
        })
    ));
    append(&journal, 1, b"two");
    journal.step().unwrap();
    checkpoint(&journal, 1, b"x", &[]).unwrap();
    let older = journal.install_checkpoint(old, &[b"x"]);
    assert!(matches!(older, Err(CheckpointError::Older { current: 2 })));
}

#[test]
fn a_running_journal_waits_for_space_with_what_was_appended() {
    let options = Options {
        full_retry: Duration::from_millis(1),
        ..small()
    };
    let (disk, journal) = full_disk(options);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| journal.run(|_| {}));
        // Far more than the reserve holds: nobody asked whether there is room.
        let mut last = 0;
        for _ in 0..400 {
            last = journal
                .append(SHARD, Class::Message, 1, |bytes| bytes.extend([7; 4096]))
                .index;
        }
        eventually("the reserve to be used up", || {
            journal.pending_bytes() > 0 && journal.space() == Space::Full
        });
        assert!(journal.committed(SHARD) < last, "it cannot all be written");
        disk.set_capacity(None);
        eventually("the rest to be written", || {
            journal.committed(SHARD) == last
        });
        journal.close();
        assert!(writer.join().unwrap().is_ok());
    });
}

#[test]
fn a_journal_that_waits_for_space_can_be_closed() {
    let options = Options {
        full_retry: Duration::from_millis(1),
        ..small()
    };
    let (_disk, journal) = full_disk(options);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| journal.run(|_| {}));
        for _ in 0..400 {
            journal.append(SHARD, Class::Message, 1, |bytes| bytes.extend([7; 4096]));
        }
        eventually("the disk to be full", || journal.space() == Space::Full);
        journal.close();
        assert!(matches!(writer.join().unwrap(), Err(StorageError::Full)));
    });
}

/// Options with space for a short segment.
fn with_log_reserve() -> Options {
    Options {
        checkpoint_reserve_bytes: 32 << 10,
        log_reserve_bytes: 8 << 10,
        ..small()
    }
}

/// Fills the disk with messages that are all needed; returns their indexes.
fn fill_with_messages(journal: &Journal<MemoryDisk>) -> Vec<u64> {
    fill(journal, || journal.has_room(1000));
    assert_eq!(journal.space(), Space::Full);
    (1..=journal.committed(SHARD)).collect()
}

/// What sets nothing free, such as a delivery that comes back, one sector each, with a
/// checkpoint now and then.
fn go_on(journal: &Journal<MemoryDisk>, needed: &[u64], records: u64) {
    for number in 0..records {
        journal.append_lazy(SHARD, Class::Message, |bytes| bytes.extend(b"delivered"));
        journal.step().unwrap();
        if number % 5 == 4 {
            checkpoint(journal, 1, b"state", needed).unwrap();
            journal.step().unwrap();
        }
        assert!(!journal.has_room(1), "nothing was set free");
    }
}

#[test]
fn what_sets_nothing_free_goes_on_for_ever_on_a_full_disk() {
    let (disk, journal) = full_disk(with_log_reserve());
    let needed = fill_with_messages(&journal);
    let used = disk.used();
    // The reserve several times over.
    go_on(&journal, &needed, 5 * SEGMENT / 512);
    // No segment more than there were, but for what describes them.
    assert!(disk.used() < used + 8192, "{} {used}", disk.used());
    // And still it drains.
    checkpoint(&journal, 1, b"state", &[]).unwrap();
    journal.step().unwrap();
    journal.step().unwrap();
    assert!(journal.has_room(1000));
    fill_with_messages(&journal);
}

#[test]
fn the_short_segment_outlives_a_crash_on_a_full_disk() {
    let (disk, journal) = full_disk(with_log_reserve());
    let needed = fill_with_messages(&journal);
    let (mut committed, mut journal) = (journal.committed(SHARD), Some(journal));
    let mut cut_short = 0;
    for round in 0..30 {
        let opened = journal.take().unwrap();
        go_on(&opened, &needed, 7 * (round % 4));
        for _ in 0..round {
            opened.append_lazy(SHARD, Class::Message, |bytes| bytes.extend(b"delivered"));
            opened.step().unwrap();
            if round % 3 == 0 {
                checkpoint(&opened, 1, b"state", &needed).unwrap();
            }
        }
        assert!(opened.committed(SHARD) >= committed);
        committed = opened.committed(SHARD);
        let is_short = |used: &SegmentUse| !used.sealed && used.length < SEGMENT;
        cut_short += u64::from(opened.segments().iter().any(is_short));
        drop(opened);
        disk.crash(&mut |bound| round % bound.max(1));
        let (again, _) = open_with(&disk, with_log_reserve()).unwrap();
        assert_eq!(again.committed(SHARD), committed, "round {round}");
        let first = Position {
            shard: SHARD,
            index: 1,
        };
        assert!(again.read(first).is_ok());
        journal = Some(again);
    }
    assert!(cut_short > 0, "it was never in use when the power went");
    let journal = journal.unwrap();
    checkpoint(&journal, 1, b"state", &[]).unwrap();
    journal.step().unwrap();
    journal.step().unwrap();
    assert!(journal.has_room(1000));
}
