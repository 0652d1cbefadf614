//! The writer thread on a folder of the operating system, with many threads appending.
#![expect(clippy::cast_possible_truncation, reason = "a test may")]

mod common;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use common::{Kept, eventually};
use menzil_journal::{Journal, OpenError, Options, OsDisk, StorageError, verify};
use menzil_model::{Class, ShardId};

/// A folder that goes when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

fn folder() -> Folder {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("menzil-journal-{}-{number}", std::process::id());
    Folder(std::env::temp_dir().join(name))
}

fn options() -> Options {
    Options {
        segment_bytes: 256 << 10,
        ..Options::default()
    }
}

#[test]
fn what_threads_append_is_committed_and_replayed_in_order() {
    let folder = folder();
    let per_thread = 3000_u64;
    let mut kept = Kept::default();
    let journal = Journal::open(OsDisk::new(folder.path()).unwrap(), options(), &mut kept).unwrap();
    let heard = AtomicU64::new(0);
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            journal.run(|commit| {
                heard.fetch_add(commit.records, Ordering::Relaxed);
                for (shard, index) in &commit.shards {
                    assert!(journal.committed(*shard) >= *index);
                }
            })
        });
        let appending: Vec<_> = (0..4_u32)
            .map(|thread| {
                let journal = &journal;
                scope.spawn(move || {
                    let shard = ShardId(thread % 2);
                    for n in 0..per_thread {
                        let mut payload = vec![thread as u8; (n % 500) as usize + 1];
                        payload.extend_from_slice(&n.to_le_bytes());
                        let encode = |bytes: &mut Vec<u8>| bytes.extend_from_slice(&payload);
                        let position = if n % 3 == 0 {
                            journal.append_lazy(shard, Class::Message, encode)
                        } else {
                            journal.append(shard, Class::Message, 0, encode)
                        };
                        if n % 64 == 0 {
                            assert_eq!(journal.read(position).unwrap(), payload);
                        }
                        while !journal.has_room(1000) {
                            thread::yield_now();
                        }
                    }
                })
            })
            .collect();
        for thread in appending {
            thread.join().unwrap();
        }
        for shard in [ShardId(0), ShardId(1)] {
            eventually("everything to be committed", || {
                journal.committed(shard) == 2 * per_thread
            });
        }
        journal.close();
        writer.join().unwrap().unwrap();
    });
    assert_eq!(heard.load(Ordering::Relaxed), 4 * per_thread);
    assert!(matches!(journal.failure(), Some(StorageError::Closed)));
    assert!(journal.counters().syncs <= 4 * per_thread);
    drop(journal);
    let disk = OsDisk::new(folder.path()).unwrap();
    assert!(verify(&disk).unwrap().is_sound());
    let mut kept = Kept::default();
    drop(Journal::open(disk, options(), &mut kept).unwrap());
    for shard in 0..2 {
        let payloads = kept.payloads(shard);
        assert_eq!(payloads.len() as u64, 2 * per_thread);
        // The records of one thread keep their order.
        for thread in [shard, shard + 2] {
            let mine = payloads.iter().filter(|payload| payload[0] == thread as u8);
            let numbers: Vec<u64> = mine
                .map(|payload| u64::from_le_bytes(*payload.last_chunk().unwrap()))
                .collect();
            assert_eq!(numbers, (0..per_thread).collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_lazy_record_alone_is_committed_by_and_by_and_an_eager_one_wakes_the_writer() {
    let folder = folder();
    let journal = Journal::open(
        OsDisk::new(folder.path()).unwrap(),
        options(),
        &mut Kept::default(),
    )
    .unwrap();
    thread::scope(|scope| {
        let writer = scope.spawn(|| journal.run(|_| ()));
        for n in 1..=5 {
            journal.append_lazy(ShardId(1), Class::Message, |bytes| bytes.push(1));
            eventually("a lazy commit", || journal.committed(ShardId(1)) == n);
        }
        for n in 1..=5 {
            journal.append(ShardId(2), Class::Message, 0, |bytes| bytes.push(1));
            eventually("a commit", || journal.committed(ShardId(2)) == n);
        }
        assert!(!journal.wait_pending(Duration::from_millis(1)));
        journal.append_lazy(ShardId(1), Class::Message, |bytes| bytes.push(1));
        journal.close();
        writer.join().unwrap().unwrap();
        assert_eq!(journal.committed(ShardId(1)), 6);
    });
}

#[test]
fn lazy_records_gather_until_somebody_waits_there_are_many_or_the_journal_is_closed() {
    let folder = folder();
    let options = Options {
        lazy_delay: Duration::from_hours(1),
        lazy_bytes_max: 16 << 10,
        ..options()
    };
    let disk = OsDisk::new(folder.path()).unwrap();
    let journal = Journal::open(disk, options, &mut Kept::default()).unwrap();
    let lazy = |length: usize| {
        let encode = |bytes: &mut Vec<u8>| bytes.resize(bytes.len() + length, 1);
        journal
            .append_lazy(ShardId(1), Class::Message, encode)
            .index
    };
    thread::scope(|scope| {
        let writer = scope.spawn(|| journal.run(|_| ()));
        let before = journal.counters().batches;
        for _ in 0..9 {
            lazy(100);
            thread::sleep(Duration::from_millis(2));
        }
        assert_eq!(journal.committed(ShardId(1)), 0);
        journal.append(ShardId(2), Class::Message, 0, |bytes| bytes.push(1));
        eventually("what somebody waits for", || {
            journal.committed(ShardId(2)) == 1
        });
        assert_eq!(journal.committed(ShardId(1)), 9);
        assert_eq!(journal.counters().batches, before + 1);
        let mut last = 0;
        for _ in 0..20 {
            last = lazy(1000);
        }
        eventually("many bytes", || journal.committed(ShardId(1)) >= last - 4);
        let last = lazy(100);
        journal.close();
        writer.join().unwrap().unwrap();
        assert_eq!(journal.committed(ShardId(1)), last);
    });
}

#[test]
fn a_second_journal_on_a_folder_is_refused_and_checkpoints_recycle_real_files() {
    let folder = folder();
    let journal = Journal::open(
        OsDisk::new(folder.path()).unwrap(),
        options(),
        &mut Kept::default(),
    )
    .unwrap();
    let second = Journal::open(
        OsDisk::new(folder.path()).unwrap(),
        options(),
        &mut Kept::default(),
    );
    assert!(matches!(second.map(|_| ()), Err(OpenError::Locked)));
    journal.needs_known();
    for round in 1..=6_u64 {
        for _ in 0..300 {
            journal.append(ShardId(1), Class::Message, 1, |bytes| {
                bytes.extend_from_slice(&[5; 2000]);
            });
        }
        journal.step().unwrap();
        let index = round * 300;
        common::checkpoint(&journal, 1, b"state", &[index]).unwrap();
    }
    assert!(journal.counters().segments_recycled > 5);
    assert!(journal.segments().len() <= 3);
    let live: u64 = journal
        .segments()
        .iter()
        .map(|segment| segment.live_records)
        .sum();
    assert_eq!(live, 1);
    drop(journal);
    let mut kept = Kept::default();
    let journal = Journal::open(OsDisk::new(folder.path()).unwrap(), options(), &mut kept).unwrap();
    assert_eq!(kept.checkpoints[&ShardId(1)].0, 1800);
    assert!(kept.records.is_empty());
    let last = menzil_model::Position {
        shard: ShardId(1),
        index: 1800,
    };
    assert_eq!(journal.read(last).unwrap(), [5; 2000]);
}
