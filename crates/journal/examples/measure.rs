//! What a commit costs on this disk: `cargo run --release -p menzil-journal --example measure DIR`.
//!
//! Interleaved, so that a slow minute of the disk hits both sides: a bare overwrite of 4 KiB with
//! its sync, and one group commit of a single record. Then many threads at once.
#![expect(clippy::print_stdout, reason = "it prints figures")]

mod common;

use std::error::Error;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use menzil_journal::{Journal, Options, OsDisk, StorageError};
use menzil_model::{Class, ShardId};

use common::Nobody;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args()
        .nth(1)
        .ok_or("usage: measure DIR (an empty or new folder)")?;
    let folder = Path::new(&folder);
    let disk = OsDisk::new(folder)?;
    let start = Instant::now();
    let journal = Journal::open(disk, Options::default(), &mut Nobody)?;
    println!("opened in {:?}: {}", start.elapsed(), journal.report());
    journal.prepare()?;
    lone_commits(folder, &journal)?;
    drop(journal);
    for (threads, length) in [(1, 100), (8, 100), (8, 1024)] {
        let start = Instant::now();
        let journal = Journal::open(OsDisk::new(folder)?, Options::default(), &mut Nobody)?;
        println!("opened in {:?}: {}", start.elapsed(), journal.report());
        many_threads(&journal, threads, length)?;
        journal.needs_known();
        let freeze = journal.freeze(ShardId(1));
        journal.install_checkpoint(freeze, &[b"nothing"])?;
    }
    Ok(())
}

/// Rounds of bare syncs and of lone commits, in turn.
fn lone_commits(folder: &Path, journal: &Journal<OsDisk>) -> Result<(), Box<dyn Error>> {
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(folder.join("bare"))?;
    file.write_all_at(&vec![0; 1 << 20], 0)?;
    file.sync_all()?;
    let (mut bare, mut commits) = (Vec::new(), Vec::new());
    for round in 0..5_u64 {
        for n in 0..400 {
            let start = Instant::now();
            file.write_all_at(&[1; 4096], (round * 400 + n) % 256 * 4096)?;
            file.sync_data()?;
            bare.push(start.elapsed());
        }
        for _ in 0..400 {
            let start = Instant::now();
            journal.append(ShardId(1), Class::Message, 0, |bytes| {
                bytes.extend_from_slice(&[7; 100]);
            });
            journal.step()?;
            commits.push(start.elapsed());
        }
    }
    for (what, mut times) in [
        ("bare 4 KiB + fdatasync", bare),
        ("step() of 100 B", commits),
    ] {
        times.sort();
        let total: Duration = times.iter().sum();
        let rate = f64::from(u32::try_from(times.len())?) / total.as_secs_f64();
        let at = |part: usize| {
            times
                .get(times.len() * part / 100)
                .copied()
                .unwrap_or_default()
        };
        println!("{what}: {rate:.0}/s, median {:?}, 99% {:?}", at(50), at(99));
    }
    std::fs::remove_file(folder.join("bare"))?;
    Ok(())
}

/// Threads that append as fast as there is room, for three seconds.
fn many_threads(
    journal: &Journal<OsDisk>,
    threads: u32,
    length: usize,
) -> Result<(), StorageError> {
    let before = journal.counters();
    let stop = AtomicBool::new(false);
    let start = Instant::now();
    thread::scope(|scope| {
        let writer = scope.spawn(|| journal.run(|_| ()));
        let appending: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let payload = vec![7; length];
                    while !stop.load(Ordering::Relaxed) {
                        while !journal.has_room(WINDOW_BYTES) {
                            thread::sleep(Duration::from_micros(100));
                        }
                        let mut batch = journal.batch();
                        for _ in 0..16 {
                            let encode = |bytes: &mut Vec<u8>| bytes.extend_from_slice(&payload);
                            batch.append(ShardId(1), Class::Message, 0, encode);
                        }
                    }
                })
            })
            .collect();
        thread::sleep(Duration::from_secs(3));
        stop.store(true, Ordering::Relaxed);
        for thread in appending {
            drop(thread.join());
        }
        journal.close();
        writer.join().unwrap_or(Err(StorageError::Closed))
    })?;
    let after = journal.counters();
    let seconds = start.elapsed().as_secs_f64();
    let rate = |count: u64| f64::from(u32::try_from(count).unwrap_or(u32::MAX)) / seconds;
    let (records, syncs) = (after.records - before.records, after.syncs - before.syncs);
    println!(
        "{threads} threads, {length} B: {:.0} records/s, {:.0} syncs/s, {} records a batch, {} MB/s",
        rate(records),
        rate(syncs),
        records / syncs.max(1),
        (after.bytes - before.bytes) / 3_000_000,
    );
    Ok(())
}

const WINDOW_BYTES: u64 = 32 << 10;
