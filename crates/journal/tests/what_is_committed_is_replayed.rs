//! The plain life of a journal: append, commit, read, close, open.
#![expect(clippy::cast_possible_truncation, reason = "a test may")]

mod common;

use common::{SEGMENT, append, append_class, open, small};
use menzil_journal::testing::MemoryDisk;
use menzil_journal::{Dumped, Journal, OpenError, ReadError, StorageError, dump, verify};
use menzil_model::{Class, Position, ShardId};

#[test]
fn records_come_back_once_and_in_order_and_indexes_go_on() {
    let disk = MemoryDisk::new(1);
    let (journal, kept) = open(&disk).unwrap();
    assert_eq!(kept, common::Kept::default());
    assert_eq!(append(&journal, 1, b"one").index, 1);
    assert_eq!(append(&journal, 2, b"uno").index, 1);
    assert_eq!(append(&journal, 1, b"two").index, 2);
    assert_eq!(
        (journal.appended(ShardId(1)), journal.committed(ShardId(1))),
        (2, 0)
    );
    let commit = journal.step().unwrap().unwrap();
    assert_eq!(commit.records, 3);
    assert_eq!(commit.shards, [(ShardId(1), 2), (ShardId(2), 1)].into());
    assert_eq!(journal.committed(ShardId(1)), 2);
    assert_eq!(journal.step().unwrap(), None);
    drop(journal);

    let (journal, kept) = open(&disk).unwrap();
    assert_eq!(kept.payloads(1), [b"one", b"two"]);
    assert_eq!(kept.payloads(2), [b"uno"]);
    assert_eq!(append(&journal, 1, b"three").index, 3);
    assert_eq!(journal.committed(ShardId(1)), 2);
    journal.finish().unwrap();
    assert_eq!(journal.committed(ShardId(1)), 3);
    drop(journal);
    assert_eq!(
        open(&disk).unwrap().1.payloads(1),
        [&b"one"[..], b"two", b"three"]
    );
    assert!(verify(&disk).unwrap().is_sound());
}

#[test]
fn many_segments_are_filled_and_read_back() {
    let disk = MemoryDisk::new(2);
    let (journal, _) = open(&disk).unwrap();
    let payloads: Vec<Vec<u8>> = (0..300_u32)
        .map(|n| vec![n as u8; (n * 7 % 3000) as usize])
        .collect();
    for (n, payload) in payloads.iter().enumerate() {
        append(&journal, 1, payload);
        if n % 11 == 0 {
            journal.step().unwrap();
        }
    }
    journal.step().unwrap();
    assert!(journal.segments().len() > 5);
    for (n, payload) in payloads.iter().enumerate() {
        let position = Position {
            shard: ShardId(1),
            index: n as u64 + 1,
        };
        assert_eq!(&journal.read(position).unwrap(), payload);
    }
    drop(journal);
    let (journal, kept) = open(&disk).unwrap();
    assert_eq!(kept.payloads(1), payloads);
    for (n, payload) in payloads.iter().enumerate() {
        let position = Position {
            shard: ShardId(1),
            index: n as u64 + 1,
        };
        assert_eq!(&journal.read(position).unwrap(), payload);
    }
}

#[test]
fn a_record_longer_than_a_segment_gets_one_of_its_own() {
    let disk = MemoryDisk::new(3);
    let (journal, _) = open(&disk).unwrap();
    let long = vec![7; SEGMENT as usize * 3];
    append(&journal, 1, b"before");
    append(&journal, 1, &long);
    append(&journal, 1, b"after");
    journal.step().unwrap();
    assert!(
        journal
            .segments()
            .iter()
            .any(|segment| segment.length > SEGMENT)
    );
    let second = Position {
        shard: ShardId(1),
        index: 2,
    };
    assert_eq!(journal.read(second).unwrap(), long);
    drop(journal);
    let (journal, kept) = open(&disk).unwrap();
    assert_eq!(
        kept.payloads(1),
        [b"before".to_vec(), long.clone(), b"after".to_vec()]
    );
    assert_eq!(journal.read(second).unwrap(), long);
}

#[test]
fn a_record_is_read_while_pending_and_not_before_it_exists() {
    let disk = MemoryDisk::new(4);
    let (journal, _) = open(&disk).unwrap();
    let position = append(&journal, 1, b"soon");
    assert_eq!(journal.read(position).unwrap(), b"soon");
    journal.step().unwrap();
    assert_eq!(journal.read(position).unwrap(), b"soon");
    let beyond = Position {
        index: 2,
        ..position
    };
    assert!(matches!(journal.read(beyond), Err(ReadError::Gone(at)) if at == beyond));
}

#[test]
fn a_second_journal_on_the_folder_is_refused() {
    let disk = MemoryDisk::new(5);
    let (journal, _) = open(&disk).unwrap();
    let refused = open(&disk).map(|_| ()).unwrap_err();
    assert!(matches!(refused, OpenError::Locked));
    assert!(refused.to_string().contains("another process"));
    assert!(matches!(verify(&disk), Err(OpenError::Locked)));
    drop(journal);
    open(&disk).unwrap();
}

#[test]
fn a_newer_format_is_refused_without_touching_anything() {
    let disk = MemoryDisk::new(6);
    disk.set_bytes("format", b"menzil journal 3\n");
    disk.set_bytes("segment-9999999999.tmp", b"theirs");
    let refused = open(&disk).map(|_| ()).unwrap_err();
    assert!(matches!(
        refused,
        OpenError::NewerFormat { found: 3, known: 2 }
    ));
    assert_eq!(disk.bytes("segment-9999999999.tmp").unwrap(), b"theirs");
    disk.set_bytes("format", b"menzil jo");
    assert!(matches!(
        open(&disk).map(|_| ()),
        Err(OpenError::Format { .. })
    ));
}

#[test]
fn lazy_records_ride_with_the_next_commit() {
    let disk = MemoryDisk::new(7);
    let (journal, _) = open(&disk).unwrap();
    let lazy = |text: &[u8]| {
        let text = text.to_vec();
        journal.append_lazy(ShardId(1), Class::Message, |bytes| {
            bytes.extend_from_slice(&text);
        })
    };
    lazy(b"settled");
    append(&journal, 1, b"published");
    assert_eq!(journal.step().unwrap().unwrap().records, 2);
    lazy(b"settled again");
    assert_eq!(journal.step().unwrap().unwrap().records, 1);
}

#[test]
fn a_failed_sync_ends_the_journal_for_ever() {
    let disk = MemoryDisk::new(8);
    let (journal, _) = open(&disk).unwrap();
    append(&journal, 1, b"kept");
    journal.step().unwrap();
    append(&journal, 1, b"lost");
    disk.fail_sync(1);
    assert!(matches!(journal.step(), Err(StorageError::Sync { .. })));
    assert_eq!(journal.committed(ShardId(1)), 1);
    let syncs = disk.syncs();
    append(&journal, 1, b"later");
    assert!(matches!(journal.step(), Err(StorageError::Sync { .. })));
    assert!(matches!(
        journal.run(|_| ()),
        Err(StorageError::Sync { .. })
    ));
    assert_eq!(disk.syncs(), syncs, "nothing is retried");
    assert_eq!(journal.committed(ShardId(1)), 1);
    assert!(!journal.has_room(1));
    drop(journal);
    // Everything that was not synced is forgotten by this crash.
    disk.crash(&mut |bound| u64::from(bound == 2));
    assert_eq!(open(&disk).unwrap().1.payloads(1), [b"kept"]);
}

#[test]
fn a_failed_write_ends_the_journal_for_ever() {
    let disk = MemoryDisk::new(9);
    let (journal, _) = open(&disk).unwrap();
    append(&journal, 1, b"lost");
    disk.fail_write(1);
    assert!(matches!(journal.step(), Err(StorageError::Write { .. })));
    assert!(matches!(journal.step(), Err(StorageError::Write { .. })));
    assert_eq!(journal.committed(ShardId(1)), 0);
}

#[test]
fn a_batch_takes_several_appends_of_several_shards_and_classes() {
    let disk = MemoryDisk::new(10);
    let (journal, _) = open(&disk).unwrap();
    let mut batch = journal.batch();
    for n in 0..10_u8 {
        batch.append(ShardId(u32::from(n % 2)), Class::Topology, 0, |bytes| {
            bytes.push(n);
        });
    }
    batch.append_lazy(ShardId(1), Class::Session, |_| ());
    drop(batch);
    assert_eq!(journal.step().unwrap().unwrap().records, 11);
    assert_eq!(journal.counters().batches, 1);
    drop(journal);
    let (_, kept) = open(&disk).unwrap();
    assert_eq!(kept.payloads(0), [[0], [2], [4], [6], [8]]);
    assert_eq!(
        kept.records[&ShardId(1)].last().unwrap(),
        &(6, Class::Session, Vec::new())
    );
}

#[test]
fn a_dump_tells_everything_in_order() {
    let disk = MemoryDisk::new(11);
    let (journal, _) = open(&disk).unwrap();
    append_class(&journal, 1, Class::Topology, b"queue");
    journal.step().unwrap();
    append(&journal, 1, b"message");
    journal.finish().unwrap();
    drop(journal);
    let mut told = Vec::new();
    dump(&disk, &mut |dumped| match dumped {
        Dumped::Batch { records, .. } => told.push(format!("batch of {records}")),
        Dumped::Record {
            position,
            class,
            payload,
            ..
        } => {
            told.push(format!(
                "{position} {class:?} {}",
                String::from_utf8_lossy(payload)
            ));
        }
        Dumped::Segment { segment, .. } => told.push(format!("segment {segment}")),
        other @ (Dumped::Checkpoint { .. } | Dumped::Damaged { .. } | Dumped::Torn { .. } | _) => {
            panic!("{other:?}")
        }
    })
    .unwrap();
    let expected = [
        "segment 1",
        "batch of 1",
        "1:1 Topology queue",
        "batch of 1",
        "1:2 Message message",
        "batch of 0",
    ];
    assert_eq!(told, expected);
}

#[test]
fn an_encoder_that_takes_bytes_away_ends_the_journal() {
    let disk = MemoryDisk::new(13);
    let (journal, _) = open(&disk).unwrap();
    append(&journal, 1, b"of another");
    let broken = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        journal.append(ShardId(1), Class::Message, 0, Vec::clear);
    }));
    assert!(broken.is_err());
    assert!(matches!(journal.step(), Err(StorageError::Encoder)));
    assert_eq!(journal.committed(ShardId(1)), 0);
}

#[test]
fn a_payload_over_the_bound_is_a_bug_of_the_caller_and_leaves_nothing_behind() {
    let disk = MemoryDisk::new(12);
    let options = menzil_journal::Options {
        record_bytes_max: 10,
        ..small()
    };
    let mut kept = common::Kept::default();
    let journal = Journal::open(disk, options, &mut kept).unwrap();
    let long = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        append(&journal, 1, &[0; 11]);
    }));
    assert!(long.is_err());
    assert_eq!(append(&journal, 1, &[0; 10]).index, 1);
    assert_eq!(journal.step().unwrap().unwrap().records, 1);
}
