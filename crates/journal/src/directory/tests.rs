use std::sync::Arc;

use super::*;

const SHARD: ShardId = ShardId(1);

fn segment(id: u64) -> Segment<()> {
    Segment {
        id,
        salt: id,
        length: 4096,
        file: Arc::new(()),
    }
}

fn run(indexes: impl Iterator<Item = u64>, references: u32) -> Run {
    let mut run = Run::default();
    for (n, index) in (0..).zip(indexes) {
        run.push(index, 512 + n * 64, 64, references);
    }
    run
}

fn contents(run: Run) -> Contents {
    Contents {
        end: 4096,
        runs: [(SHARD, run)].into_iter().collect(),
        ..Contents::default()
    }
}

fn release(first: u64, records: u64) -> Release {
    Release {
        shard: SHARD,
        first,
        records,
        count: 1,
        way: Way::Down,
    }
}

fn retain(first: u64, records: u64) -> Release {
    Release {
        way: Way::Up,
        ..release(first, records)
    }
}

#[test]
fn a_file_goes_when_a_checkpoint_found_that_nobody_needs_it() {
    let mut directory = Directory::default();
    let batch = run(1..11, 1);
    directory.commit(&segment(4), [(SHARD, &batch)].into_iter(), 1, 0, 1024);
    directory.seal(4);
    assert_eq!(directory.release(&[release(1, 9)]), 0);
    assert!(directory.unneeded(SHARD, 100).is_empty());
    let usage = directory.uses();
    assert_eq!((usage[0].live_records, usage[0].live_bytes), (1, 64));
    assert_eq!(directory.release(&[release(10, 1)]), 0);
    assert!(
        directory.unneeded(SHARD, 9).is_empty(),
        "it has a record past it"
    );
    assert_eq!(directory.unneeded(SHARD, 10), [4]);
    assert!(directory.take_dead().is_empty(), "no checkpoint yet");
    directory.set_free(SHARD, &[4]);
    assert_eq!(directory.take_dead().len(), 1);
    assert!(directory.shards[&SHARD].log.is_empty());
}

#[test]
fn evacuated_records_are_needed_in_their_cold_file_alone() {
    let mut directory = Directory::default();
    directory.add(segment(4), contents(run(1..11, 2)), Kind::Sealed);
    let mut cold = Run::default();
    cold.push_cold(3, 512, 64, 0);
    cold.push_cold(7, 576, 64, 0);
    directory.add(segment(5), contents(cold), Kind::Cold);
    directory.take_over(5);
    let live = |directory: &Directory<()>| -> Vec<u64> {
        directory
            .uses()
            .iter()
            .map(|usage| usage.live_records)
            .collect()
    };
    assert_eq!(live(&directory), [8, 2]);
    assert_eq!(directory.release(&[release(1, 10), release(1, 10)]), 0);
    assert_eq!(live(&directory), [0, 0]);
    assert_eq!(directory.release(&[release(3, 1)]), 1);
}

#[test]
fn needs_are_counted_where_the_record_is_and_once() {
    let mut directory = Directory::default();
    directory.add(segment(4), contents(run(5..11, 0)), Kind::Sealed);
    for (file, indexes) in [(6, vec![2, 6]), (7, vec![2, 3])] {
        let mut cold = Run::default();
        for (n, index) in (0..).zip(indexes) {
            cold.push_cold(index, 512 + 64 * n, 64, 0);
        }
        directory.add(segment(file), contents(cold), Kind::Cold);
    }
    assert_eq!(directory.need(SHARD, 1, 8, 1), 2 + 4);
    directory.settle_copies();
    let live: Vec<u64> = directory
        .uses()
        .iter()
        .map(|usage| usage.live_records)
        .collect();
    assert_eq!(live, [3, 1, 2]);
    assert_eq!(directory.release(&[release(2, 2), release(5, 4)]), 0);
}

#[test]
fn what_is_retained_counts_where_it_is_counted_and_in_the_order_of_telling() {
    let mut directory = Directory::default();
    let batch = run(1..11, 1);
    directory.commit(&segment(4), [(SHARD, &batch)].into_iter(), 1, 0, 1024);
    directory.seal(4);
    let mut cold = Run::default();
    cold.push_cold(3, 512, 64, 0);
    directory.add(segment(5), contents(cold), Kind::Cold);
    directory.take_over(5);
    let told = [retain(1, 10), release(1, 10)];
    assert_eq!(directory.release(&told), 0);
    let live = |directory: &Directory<()>| {
        let uses = directory.uses();
        uses.iter()
            .map(|usage| usage.live_records)
            .collect::<Vec<_>>()
    };
    assert_eq!(live(&directory), [9, 1], "an evacuated one stays there");
    assert_eq!(directory.release(&[release(1, 10)]), 0);
    assert_eq!(live(&directory), [0, 0]);
    assert_eq!(directory.release(&[retain(3, 1), retain(20, 1)]), 2);
    assert_eq!(live(&directory), [0, 0], "what is gone does not come back");
}
