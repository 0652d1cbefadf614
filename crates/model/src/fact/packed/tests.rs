//! Entries there and back, and bytes that are none.

use super::*;
use crate::fact::Packing;
use proptest::prelude::*;

fn entry(sequence: u64, record: u64, body_bytes: u64) -> StoredEntry {
    StoredEntry {
        sequence: Sequence(sequence),
        origin: Origin {
            index: record,
            part: 0,
        },
        extent: Extent {
            body_bytes,
            total_bytes: body_bytes + 30,
            chunks: Chunks::default(),
        },
        expires_at: None,
    }
}

#[test]
fn regular_entries_take_a_few_bytes_whatever_their_number() {
    let packed = Packed::pack((1..=100_000).map(|n| entry(n, n + 70, 100))).unwrap();
    assert!(packed.as_bytes().len() < 40, "{packed:?}");
    let mut runs = Vec::new();
    packed.needs(&mut |first, count| runs.push((first, count)));
    assert_eq!(runs, [(71, 100_000)]);
}

#[test]
fn regular_entries_that_are_added_take_no_memory() {
    let mut packing = Packing::default();
    for n in 1..=100_000 {
        packing.add(&entry(n, 70 * n, 100));
    }
    assert!(packing.bytes() < 40, "{packing:?}");
}

#[test]
fn mixed_sizes_take_about_two_bytes_each() {
    let sizes = (1..=1000).map(|n| entry(n, 3 * n, n * 7919 % 5000));
    let packed = Packed::pack(sizes).unwrap();
    assert!(packed.as_bytes().len() < 2100, "{packed:?}");
}

fn entries() -> impl Strategy<Value = Vec<StoredEntry>> {
    let number = || prop_oneof![8 => Just(1_u64), 2 => 1..5_u64, 1 => 0..1_u64 << 40];
    let sparse = || prop_oneof![6 => Just(0_u32), 1 => any::<u32>()];
    let expiry = prop_oneof![3 => Just(None), 3 => Just(Some(7_u64)), 1 => any::<Option<u64>>()];
    let one = (number(), any::<u16>(), number(), sparse(), sparse(), expiry);
    prop::collection::vec(one, 1..60).prop_map(|steps| {
        let (mut sequence, mut record) = (0, 1 << 41);
        let step = |(gap, size, body_bytes, part, count, expires_at)| {
            sequence += u64::max(gap, 1);
            record = u64::wrapping_add(record, u64::from(u16::wrapping_add(size, 0) % 3));
            StoredEntry {
                sequence: Sequence(sequence),
                origin: Origin {
                    index: record,
                    part,
                },
                extent: Extent {
                    body_bytes,
                    total_bytes: u64::from(size),
                    chunks: Chunks {
                        first: if count == 0 { 0 } else { record / 2 },
                        count,
                    },
                },
                expires_at,
            }
        };
        steps.into_iter().map(step).collect()
    })
}

/// Entries most of which are as the one before.
fn regular() -> impl Strategy<Value = Vec<StoredEntry>> {
    let mostly = |usual: u64, other: u64| prop_oneof![20 => Just(usual), 1 => Just(other)];
    let sparse = || prop_oneof![30 => Just(0_u32), 1 => 1..3_u32];
    let later = prop_oneof![9 => Just(Some(5_u64)), 1 => Just(None)];
    let one = (
        mostly(1, 3),
        mostly(70, 80),
        mostly(100, 2),
        sparse(),
        later,
    );
    let many = (prop::collection::vec(one, 1..90), any::<bool>());
    many.prop_map(|(steps, expires)| {
        let (mut last, mut at) = (entry(0, 0, 0), 1000);
        let step = |(gap, records, size, part, later): (u64, u64, u64, u32, Option<u64>)| {
            last = entry(last.sequence.0 + gap, last.origin.index + records, size);
            last.origin.part = part;
            at += later.unwrap_or_default();
            last.expires_at = later.filter(|_| expires).map(|_| at);
            last
        };
        steps.into_iter().map(step).collect()
    })
}

proptest! {
    #[test]
    fn entries_that_were_added_one_by_one_are_packed_all_the_same(
        entries in prop_oneof![entries(), regular()]
    ) {
        let mut packing = Packing::default();
        for round in 0..2 {
            prop_assert_eq!((packing.len(), packing.is_empty()), (0, true));
            for entry in &entries {
                packing.add(entry);
                prop_assert_eq!(packing.last(), Some(entry.sequence), "round {}", round);
            }
            prop_assert_eq!(packing.len(), entries.len());
            prop_assert_eq!(packing.entries().collect::<Vec<_>>(), entries.clone());
            prop_assert_eq!(packing.pack(), Packed::pack(entries.iter().copied()));
            packing.clear();
        }
        prop_assert_eq!((packing.last(), packing.pack()), (None, None));
    }

    #[test]
    fn entries_that_are_added_in_any_order_come_back(
        entries in entries().prop_shuffle(),
    ) {
        let mut packing = Packing::default();
        for entry in &entries {
            packing.add(entry);
        }
        prop_assert_eq!(packing.entries().collect::<Vec<_>>(), entries);
    }

    #[test]
    fn entries_come_back(entries in entries()) {
        let packed = Packed::pack(entries.iter().copied()).unwrap();
        prop_assert_eq!(packed.entries().collect::<Vec<_>>(), entries.clone());
        let (read, summary) = Packed::read(packed.as_bytes()).unwrap();
        prop_assert_eq!(&read, &packed);
        prop_assert_eq!(summary.count, entries.len() as u64);
        prop_assert_eq!(Some(summary.first), entries.first().map(|e| e.sequence));
        prop_assert_eq!(Some(summary.last), entries.last().map(|e| e.sequence));
        let expires_first = entries.iter().filter_map(|e| e.expires_at).min();
        prop_assert_eq!(summary.expires_first, expires_first);
        let mut needed = Vec::new();
        packed.needs(&mut |first, count| needed.push((first, count)));
        let records: u64 = needed.iter().map(|(_, count)| count).sum();
        let chunks: u64 = entries.iter().map(|e| u64::from(e.extent.chunks.count)).sum();
        prop_assert_eq!(records, entries.len() as u64 + chunks);
    }

    #[test]
    fn any_bytes_are_entries_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        if let Ok((packed, summary)) = Packed::read(&bytes) {
            let entries: Vec<_> = packed.entries().collect();
            prop_assert!(entries.len() as u64 <= summary.count);
            prop_assert!(entries.is_sorted_by(|a, b| a.sequence < b.sequence));
        }
    }

    #[test]
    fn damaged_entries_never_panic(entries in entries(), at: prop::sample::Index, by: u8) {
        let packed = Packed::pack(entries.into_iter()).unwrap();
        let mut bytes = packed.as_bytes().to_vec();
        let at = at.index(bytes.len());
        bytes[at] ^= by;
        if let Ok((packed, _)) = Packed::read(&bytes) {
            packed.entries().for_each(drop);
            packed.needs(&mut |_, _| {});
        }
    }
}
