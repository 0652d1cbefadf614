//! Every byte of a small log damaged, one at a time; torn tails told apart from damage; repair.
#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::wildcard_enum_match_arm,
    reason = "a test may"
)]

mod common;

use std::collections::BTreeMap;

use common::{Kept, append, append_class, checkpoint, open, open_with, release_all_but};
use menzil_journal::testing::MemoryDisk;
use menzil_journal::{DamageKind, Dumped, OpenError, Options, ReadError, dump, repair, verify};
use menzil_model::{Class, Position, ShardId};

#[derive(Clone, Debug, PartialEq, Eq)]
struct Stored {
    segment: u64,
    position: Position,
    class: Class,
    offset: u64,
    payload: Vec<u8>,
}

fn stored(disk: &MemoryDisk) -> Vec<Stored> {
    let mut stored = Vec::new();
    let mut within = 0;
    dump(disk, &mut |dumped| match *dumped {
        Dumped::Segment { segment, .. } => within = segment,
        Dumped::Record {
            position,
            class,
            offset,
            payload,
            dropped: 0,
        } => {
            let (segment, payload) = (within, payload.to_vec());
            stored.push(Stored {
                segment,
                position,
                class,
                offset,
                payload,
            });
        }
        _ => {}
    })
    .unwrap();
    stored
}

/// Three batches of three shards and all classes, and a clean end.
fn small_log() -> MemoryDisk {
    let disk = MemoryDisk::new(1);
    let (journal, _) = open(&disk).unwrap();
    append_class(&journal, 1, Class::Topology, b"queue one");
    append(&journal, 1, b"message one");
    append(&journal, 2, &[0; 20]);
    journal.step().unwrap();
    append(&journal, 1, b"message two");
    append(&journal, 2, b"");
    append_class(&journal, 3, Class::Session, b"session");
    append(&journal, 1, &[9; 700]);
    journal.step().unwrap();
    append_class(&journal, 1, Class::Topology, b"queue two");
    append(&journal, 1, b"message three");
    journal.finish().unwrap();
    disk
}

fn as_map(kept: &Kept) -> BTreeMap<(u32, u64), (Class, Vec<u8>)> {
    let records = kept.records.iter().flat_map(|(shard, records)| {
        records
            .iter()
            .map(|(index, class, payload)| ((shard.0, *index), (*class, payload.clone())))
    });
    records.collect()
}

#[test]
fn every_damaged_byte_costs_at_most_its_record_and_is_never_believed() {
    let disk = small_log();
    let records = stored(&disk);
    assert_eq!(records.len(), 9);
    let all: BTreeMap<_, _> = records
        .iter()
        .map(|r| {
            (
                (r.position.shard.0, r.position.index),
                (r.class, r.payload.clone()),
            )
        })
        .collect();
    let whole = disk.bytes("segment-0000000001").unwrap();
    let end = whole.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    let (mut refused, mut quarantined, mut harmless) = (0, 0, 0);
    for at in 0..end {
        let hit = records.iter().find(|record| {
            let payload = record.offset as usize + 32;
            (payload..payload + record.payload.len()).contains(&at)
        });
        let damaged = disk.fork();
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        damaged.set_bytes("segment-0000000001", &bytes);
        let before = verify(&damaged).unwrap();
        match open(&damaged) {
            Ok((journal, kept)) => {
                let lost: Vec<_> = kept.quarantined.clone();
                let found = as_map(&kept);
                for (name, record) in &found {
                    assert_eq!(Some(record), all.get(name), "byte {at}");
                }
                assert_eq!(found.len() + lost.len(), all.len(), "byte {at}: {lost:?}");
                assert!(lost.len() <= 1, "byte {at}");
                for (position, class) in &lost {
                    let (expected, _) = &all[&(position.shard.0, position.index)];
                    assert_eq!(class, expected, "byte {at}");
                    assert_ne!(*class, Class::Topology);
                    let read = journal.read(*position);
                    assert!(matches!(
                        read,
                        Err(ReadError::Corrupt { .. } | ReadError::Gone(_))
                    ));
                }
                if let Some(hit) = hit {
                    assert_eq!(lost, [(hit.position, hit.class)], "byte {at}");
                }
                quarantined += lost.len();
                harmless += usize::from(lost.is_empty());
                // Indexes go on after the last, damaged or not.
                assert_eq!(append(&journal, 1, b"next").index, 7);
                assert_eq!(append(&journal, 2, b"next").index, 3);
                assert_eq!(append(&journal, 3, b"next").index, 2);
            }
            Err(error) => {
                refused += 1;
                let text = error.to_string();
                let OpenError::CorruptTopology {
                    position,
                    segment,
                    offset,
                    ..
                } = error
                else {
                    panic!("byte {at}: {text}");
                };
                assert_eq!(segment, 1);
                assert!(text.contains("segment 1 at byte"), "{text}");
                assert!(text.contains("menzil journal repair DIR"), "{text}");
                if let Some(hit) = hit {
                    assert_eq!((position, offset), (Some(hit.position), hit.offset));
                    assert_eq!(hit.class, Class::Topology);
                }
                assert!(!before.is_sound(), "byte {at}");
                check_repair(&damaged, at, &all);
            }
        }
        if hit.is_some() {
            assert!(!before.is_sound(), "byte {at}");
        }
    }
    assert!(refused > 0 && quarantined > 0 && harmless > 0);
}

/// After a repair the folder opens, what is lost was named, the rest is there.
fn check_repair(damaged: &MemoryDisk, at: usize, all: &BTreeMap<(u32, u64), (Class, Vec<u8>)>) {
    let report = repair(damaged).unwrap();
    assert!(
        report.actions.iter().any(|line| line.contains("dropped")),
        "byte {at}: {report}"
    );
    assert!(
        report.actions.iter().any(|line| line.contains("copied")),
        "byte {at}: {report}"
    );
    let again = verify(damaged).unwrap();
    assert!(again.is_sound(), "byte {at}: {report}\n{again}");
    let (journal, kept) = open(damaged).unwrap();
    let found = as_map(&kept);
    assert!(kept.quarantined.is_empty());
    assert_eq!(
        found.len() as u64 + again.dropped,
        all.len() as u64,
        "byte {at}"
    );
    assert!(found.len() + 1 >= all.len(), "byte {at}");
    for (name, record) in &found {
        assert_eq!(Some(record), all.get(name), "byte {at}");
    }
    assert_eq!(append(&journal, 1, b"next").index, 7, "byte {at}");
    for (shard, index) in all.keys().filter(|name| !found.contains_key(name)) {
        let position = Position {
            shard: ShardId(*shard),
            index: *index,
        };
        assert!(matches!(journal.read(position), Err(ReadError::Gone(_))));
    }
}

#[test]
fn a_quarantined_message_is_set_aside_by_repair_and_named_no_more() {
    let disk = small_log();
    let message = stored(&disk)
        .into_iter()
        .find(|r| r.payload == b"message two")
        .unwrap();
    let mut bytes = disk.bytes("segment-0000000001").unwrap();
    bytes[message.offset as usize + 32] ^= 1;
    disk.set_bytes("segment-0000000001", &bytes);
    let (journal, kept) = open(&disk).unwrap();
    assert_eq!(kept.quarantined, [(message.position, Class::Message)]);
    let named = &journal.report().quarantined[0];
    assert_eq!(
        (named.damage.segment, named.damage.offset),
        (1, message.offset)
    );
    assert!(matches!(named.damage.kind, DamageKind::Payload { .. }));
    let corrupt = journal.read(message.position);
    assert!(matches!(
        corrupt,
        Err(ReadError::Corrupt { segment: 1, .. })
    ));
    drop(journal);
    let report = repair(&disk).unwrap();
    assert!(
        report
            .actions
            .iter()
            .any(|line| line.contains("dropped Message record 1:3"))
    );
    let aside = disk.bytes(&format!(
        "quarantine-0000000001-{}",
        message.offset / 512 * 512
    ));
    let inside = message.offset as usize % 512;
    assert_eq!(aside.unwrap()[inside + 32], b'm' ^ 1);
    let (journal, kept) = open(&disk).unwrap();
    assert!(kept.quarantined.is_empty());
    assert_eq!(as_map(&kept).len(), 8);
    assert!(matches!(
        journal.read(message.position),
        Err(ReadError::Gone(_))
    ));
}

#[test]
fn several_damaged_places_are_each_named_or_refused_and_repair_opens_the_folder() {
    let disk = small_log();
    let records = stored(&disk);
    let whole = disk.bytes("segment-0000000001").unwrap();
    let end = whole.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    let mut random = common::Random(5);
    let mut repaired = 0;
    for round in 0..250 {
        let damaged = disk.fork();
        let mut bytes = whole.clone();
        for _ in 0..=random.below(4) {
            let at = random.below(end as u64) as usize;
            let length = 1 + random.below(if round % 3 == 0 { 600 } else { 8 }) as usize;
            for byte in bytes.iter_mut().skip(at).take(length) {
                *byte = random.next() as u8;
            }
        }
        damaged.set_bytes("segment-0000000001", &bytes);
        let check = |kept: &Kept| {
            for (name, (class, payload)) in as_map(kept) {
                let found = records
                    .iter()
                    .find(|r| (r.position.shard.0, r.position.index) == name);
                let found = found.unwrap();
                assert_eq!(
                    (found.class, &found.payload),
                    (class, &payload),
                    "round {round}"
                );
            }
        };
        match open(&damaged) {
            Ok((_, kept)) => check(&kept),
            Err(OpenError::CorruptTopology { .. } | OpenError::Corrupt { .. }) => {
                let report = repair(&damaged).unwrap();
                assert!(!report.refusals.is_empty(), "round {round}");
                if let Ok((_, kept)) = open(&damaged) {
                    check(&kept);
                    repaired += 1;
                }
            }
            Err(other) => panic!("round {round}: {other}"),
        }
    }
    assert!(repaired > 50, "{repaired}");
}

#[test]
fn damaged_headers_are_told_apart_by_what_is_left_of_them() {
    let disk = MemoryDisk::new(2);
    let (journal, _) = open(&disk).unwrap();
    for shard in [1, 3, 1, 3, 3] {
        append(&journal, shard, b"message");
        journal.step().unwrap();
    }
    journal.finish().unwrap();
    drop(journal);
    // The last of shard 1, and one of shard 3 that is missed by the one after it.
    let hit: Vec<Stored> = stored(&disk).drain(2..4).collect();
    let mut bytes = disk.bytes("segment-0000000001").unwrap();
    for record in &hit {
        bytes[record.offset as usize + 20] ^= 1;
    }
    disk.set_bytes("segment-0000000001", &bytes);
    let names: Vec<(Position, Class)> = hit.iter().map(|r| (r.position, r.class)).collect();
    let (journal, mut kept) = open(&disk).unwrap();
    kept.quarantined.sort_unstable();
    assert_eq!(kept.quarantined, names);
    drop(journal);
    let report = repair(&disk).unwrap();
    assert!(report.unmended.is_empty(), "{report}");
    let (_, kept) = open(&disk).unwrap();
    assert_eq!(as_map(&kept).len(), 3);
}

#[test]
fn stale_records_of_an_earlier_use_never_fill_a_damaged_batch() {
    let disk = MemoryDisk::new(3);
    let (journal, _) = open(&disk).unwrap();
    // The same lengths in every use, so that stale records lie exactly where new ones do.
    let fill = |from: u64| {
        for n in from..from + 700 {
            append(&journal, 1, &n.to_le_bytes().repeat(40));
            journal.step().unwrap();
        }
    };
    for round in 0..4 {
        fill(round * 700);
        checkpoint(&journal, 1, b"state", &[]).unwrap();
    }
    assert!(journal.counters().segments_recycled > 10);
    fill(4 * 700);
    journal.finish().unwrap();
    drop(journal);
    let records = stored(&disk);
    // What lay there in the use before comes back: the place itself is that of a valid record.
    let record = records.iter().rev().nth(20).unwrap();
    let at = record.offset as usize;
    let name = format!("segment-{:010}", record.segment);
    let stale = records
        .iter()
        .find(|r| r.offset == record.offset && r.segment != record.segment);
    let stale = disk
        .bytes(&format!("segment-{:010}", stale.unwrap().segment))
        .unwrap();
    let mut bytes = disk.bytes(&name).unwrap();
    bytes[at..at + 360].copy_from_slice(&stale[at..at + 360]);
    disk.set_bytes(&name, &bytes);
    let (_, kept) = open(&disk).unwrap();
    assert_eq!(kept.quarantined, [(record.position, Class::Message)]);
    assert_eq!(as_map(&kept).len(), 699);
}

#[test]
fn a_bad_last_batch_is_a_torn_tail_and_a_bad_one_before_it_is_not() {
    let disk = MemoryDisk::new(4);
    let (journal, _) = open(&disk).unwrap();
    append_class(&journal, 1, Class::Topology, b"first");
    journal.step().unwrap();
    append_class(&journal, 1, Class::Topology, b"second");
    journal.step().unwrap();
    drop(journal);
    let records = stored(&disk);
    let whole = disk.bytes("segment-0000000001").unwrap();
    let damage = |record: &Stored| {
        let damaged = disk.fork();
        let mut bytes = whole.clone();
        bytes[record.offset as usize + 33] ^= 4;
        damaged.set_bytes("segment-0000000001", &bytes);
        damaged
    };
    let torn = damage(&records[1]);
    let (journal, kept) = open(&torn).unwrap();
    assert_eq!(kept.payloads(1), [b"first"]);
    let report = journal.report();
    assert_eq!(report.torn.unwrap().offset, records[1].offset - 64);
    let line = "torn tail: 104 unconfirmed bytes cut from segment 1 at byte 1024";
    assert_eq!(
        report
            .to_string()
            .lines()
            .filter(|l| l.contains("torn"))
            .collect::<Vec<_>>(),
        [line]
    );
    drop(journal);
    // Opening has marked the end, so the same damage is corruption from now on.
    let (journal, _) = open(&torn).unwrap();
    assert_eq!(journal.report().torn, None);
    assert_eq!(append(&journal, 1, b"again").index, 2);
    let refused = open(&damage(&records[0])).map(|_| ()).unwrap_err();
    let OpenError::CorruptTopology { position, .. } = refused else {
        panic!("{refused}")
    };
    assert_eq!(position, Some(records[0].position));
}

#[test]
fn a_damaged_sidecar_is_rebuilt_and_a_covered_segment_is_not_read() {
    let disk = MemoryDisk::new(5);
    let (journal, _) = open(&disk).unwrap();
    for n in 0..400_u32 {
        append(&journal, 1, &n.to_le_bytes().repeat(150));
        journal.step().unwrap();
    }
    let live = [5, 200, 399];
    checkpoint(&journal, 1, b"state", &live).unwrap();
    append(&journal, 1, b"tail");
    journal.finish().unwrap();
    drop(journal);
    let check = |disk: &MemoryDisk, read: u64| {
        let (journal, kept) = open(disk).unwrap();
        assert_eq!(kept.payloads(1), [b"tail"]);
        assert_eq!(kept.checkpoints[&ShardId(1)], (400, b"state".to_vec()));
        assert_eq!(journal.report().segments_read, read);
        for index in live {
            let payload = journal
                .read(Position {
                    shard: ShardId(1),
                    index,
                })
                .unwrap();
            assert_eq!(payload, (index as u32 - 1).to_le_bytes().repeat(150));
        }
        journal.prepare().unwrap();
    };
    check(&disk.fork(), 1);
    let broken = disk.fork();
    let sidecars: Vec<String> = (1..50)
        .map(|id| format!("directory-{id:010}"))
        .filter(|name| disk.bytes(name).is_some())
        .collect();
    assert!(sidecars.len() >= 2);
    let mut bytes = disk.bytes(&sidecars[0]).unwrap();
    bytes[70] ^= 1;
    broken.set_bytes(&sidecars[0], &bytes);
    check(&broken, 2);
    check(&broken, 1);
}

#[test]
fn a_damaged_checkpoint_is_refused_by_name_unless_the_log_can_stand_in_for_it() {
    let disk = MemoryDisk::new(6);
    let (journal, _) = open(&disk).unwrap();
    let mut freeze = None;
    for n in 0..400_u32 {
        append(&journal, 1, &n.to_le_bytes().repeat(150));
        journal.step().unwrap();
        if n == 299 {
            release_all_but(&journal, 1, &[]);
            freeze = Some(journal.freeze(ShardId(1)));
        }
    }
    let whole = disk.fork();
    journal
        .install_checkpoint(freeze.unwrap(), &[b"state"])
        .unwrap();
    drop(journal);
    let damage = |disk: &MemoryDisk| {
        let mut bytes = disk.bytes("checkpoint-1-300").unwrap();
        bytes[50] ^= 1;
        disk.set_bytes("checkpoint-1-300", &bytes);
    };
    let checkpoint = disk.bytes("checkpoint-1-300").unwrap();
    damage(&disk);
    let refused = open(&disk).map(|_| ()).unwrap_err();
    assert!(
        matches!(refused, OpenError::CorruptCheckpoint { index: 300, .. }),
        "{refused}"
    );
    assert!(refused.to_string().contains("checkpoint-1-300"));
    assert!(disk.bytes("checkpoint-1-300").is_some());

    // A crash before anything was recycled: the whole log is still there.
    whole.set_bytes("checkpoint-1-300", &checkpoint);
    damage(&whole);
    let (journal, kept) = open(&whole).unwrap();
    assert_eq!(kept.payloads(1).len(), 400);
    assert_eq!(journal.report().checkpoints_damaged, ["checkpoint-1-300"]);
    drop(journal);
    assert!(whole.bytes("quarantine-checkpoint-1-300").is_some());
}

#[test]
fn every_damaged_byte_of_a_log_of_several_segments_costs_at_most_its_record() {
    let options = Options {
        segment_bytes: 4096,
        ..common::small()
    };
    let disk = MemoryDisk::new(7);
    let (journal, _) = open_with(&disk, options.clone()).unwrap();
    for n in 0..16_u8 {
        let class = if n % 5 == 0 {
            Class::Topology
        } else {
            Class::Message
        };
        append_class(&journal, u32::from(n % 2), class, &[n; 400]);
        append(&journal, u32::from(n % 3), &[n; 30]);
        journal.step().unwrap();
    }
    journal.finish().unwrap();
    drop(journal);
    let all: BTreeMap<_, _> = stored(&disk)
        .iter()
        .map(|r| {
            (
                (r.position.shard.0, r.position.index),
                (r.class, r.payload.clone()),
            )
        })
        .collect();
    assert_eq!(all.len(), 32);
    let files = ["segment", "directory"]
        .iter()
        .flat_map(|kind| (1..9).map(move |id| format!("{kind}-{id:010}")));
    let files: Vec<_> = files.filter(|name| disk.bytes(name).is_some()).collect();
    assert!(files.len() > 6, "{files:?}");
    let (mut refused, mut quarantined) = (0, 0);
    for name in &files {
        let whole = disk.bytes(name).unwrap();
        for at in (0..whole.len()).step_by(3) {
            let damaged = disk.fork();
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            damaged.set_bytes(name, &bytes);
            let (kept, dropped) = match open_with(&damaged, options.clone()) {
                Ok((_, kept)) => (kept, 0),
                Err(OpenError::CorruptTopology { .. }) => {
                    refused += 1;
                    repair(&damaged).unwrap();
                    let again = verify(&damaged).unwrap();
                    assert!(again.is_sound(), "{name} byte {at}: {again}");
                    (
                        open_with(&damaged, options.clone()).unwrap().1,
                        again.dropped,
                    )
                }
                Err(other) => panic!("{name} byte {at}: {other}"),
            };
            let found = as_map(&kept);
            assert!(
                found
                    .iter()
                    .all(|(name, record)| all.get(name) == Some(record))
            );
            let lost = kept.quarantined.len() + dropped as usize;
            assert!(lost <= 1, "{name} byte {at}: {lost}");
            assert_eq!(found.len() + lost, all.len(), "{name} byte {at}");
            quarantined += kept.quarantined.len();
        }
    }
    assert!(refused > 0 && quarantined > 0);
}
