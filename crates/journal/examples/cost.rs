//! What a record costs on its way to disk, to be counted under callgrind or timed:
//! `cargo run --release -p menzil-journal --example cost DIR [RECORDS [no-checkpoint]]`.
#![expect(clippy::print_stdout, reason = "it prints figures")]

mod common;

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use menzil_journal::{Journal, Options, OsDisk};
use menzil_model::{Class, ShardId};

use common::Nobody;

/// Publishes, one settle for each batch of them, commits and releases; then reads and reopens.
fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let folder = words
        .next()
        .ok_or("usage: cost DIR [RECORDS [no-checkpoint]]")?;
    let records: u64 = words.next().map_or(Ok(1_000_000), |word| word.parse())?;
    let folder = Path::new(&folder);
    let options = Options {
        prepared_segments: 1,
        ..Options::default()
    };
    let journal = Journal::open(OsDisk::new(folder)?, options.clone(), &mut Nobody)?;
    journal.needs_known();
    let shard = ShardId(1);
    let payload = [7; 118];
    let start = Instant::now();
    let mut appended = 0;
    while appended < records {
        // As many as a socket read brings, ten of them to a commit.
        for _ in 0..10 {
            let mut batch = journal.batch();
            let first = journal.appended(shard) + 1;
            for _ in 0..100 {
                let encode = |bytes: &mut Vec<u8>| bytes.extend_from_slice(&payload);
                batch.append(shard, Class::Message, 1, encode);
            }
            batch.append_lazy(shard, Class::Message, |bytes| {
                bytes.extend_from_slice(&[1; 30]);
            });
            for index in first..first + 50 {
                batch.release(shard, index, 1);
            }
            appended += 100;
        }
        journal.step()?;
    }
    let took = start.elapsed();
    let last = journal.committed(shard);
    println!("{records} records appended and committed in {took:?}");
    println!("directory {} bytes", journal.directory_bytes());
    let start = Instant::now();
    let freeze = journal.freeze(shard);
    println!("freeze {:?}", start.elapsed());
    if words.next().is_none() {
        journal.install_checkpoint(freeze, &[b"state"])?;
    }
    let start = Instant::now();
    let (mut read, mut index) = (0, 51);
    while index + 256 < last {
        let indexes: Vec<u64> = (index..index + 256).collect();
        read += journal.read_many(shard, &indexes).iter().flatten().count();
        index += 256;
    }
    println!("{read} read in {:?}", start.elapsed());
    println!("{:?}", journal.counters());
    drop(journal);
    let start = Instant::now();
    let journal = Journal::open(OsDisk::new(folder)?, options, &mut Nobody)?;
    println!("opened in {:?}: {}", start.elapsed(), journal.report());
    let start = Instant::now();
    for first in (1..last).step_by(101) {
        journal.need(shard, first + 50, 50, 1);
    }
    journal.needs_known();
    println!("needs in {:?}", start.elapsed());
    Ok(())
}
