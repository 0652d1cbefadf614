//! The index against one sorted list of all entries and who is out.

use std::collections::btree_map::Entry;

use super::*;
use crate::testing::MemoryScratch;
use menzil_model::Name;
use menzil_model::fact::{Chunks, Extent, Origin};
use proptest::prelude::*;

#[derive(Default)]
struct Naive {
    entries: BTreeMap<u64, (Item, bool)>,
}

impl Naive {
    fn ready(&self) -> Vec<u64> {
        self.entries
            .iter()
            .filter(|(_, (_, out))| !out)
            .map(|(s, _)| *s)
            .collect()
    }
}

#[derive(Default)]
struct Left {
    sequences: Vec<u64>,
}

impl Gone for Left {
    fn entry(&mut self, item: &Item) {
        self.sequences.push(item.sequence.0);
    }

    fn page(&mut self, page: Page) {
        let items = page.items(true);
        self.sequences.extend(items.map(|item| item.sequence.0));
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert {
        skip: u64,
        expires_at: Option<u64>,
        stored: bool,
        size: u64,
    },
    InsertBetween(u64, Option<u64>),
    /// Some that come in any order: which, how many, and how far apart.
    InsertMany(u64, u64, u64),
    TakeHead,
    PutBack(u64),
    Remove(u64),
    RemoveRanges(Vec<(u64, u64)>),
    Expire(u64, usize),
    Strip,
    Fetch(usize, bool),
    Reload,
}

fn step() -> impl Strategy<Value = Step> {
    let expires_at = prop_oneof![2 => Just(None), 1 => (0..50_u64).prop_map(Some)];
    let between = expires_at.clone();
    let size = prop_oneof![3 => Just(100_u64), 1 => 0..1000_u64];
    let insert = (0..3_u64, expires_at, prop::bool::weighted(0.8), size);
    let ranges = prop::collection::vec((0..12_u64, 0..20_u64), 1..4);
    prop_oneof![
        10 => insert.prop_map(|(skip, expires_at, stored, size)| {
            Step::Insert { skip, expires_at, stored, size }
        }),
        1 => (0..90_u64, between).prop_map(|(at, expires_at)| Step::InsertBetween(at, expires_at)),
        1 => (0..200_u64, 1..20_u64, 1..50_u64)
            .prop_map(|(first, count, apart)| Step::InsertMany(first, count, apart)),
        4 => Just(Step::TakeHead),
        2 => (0..90_u64).prop_map(Step::PutBack),
        2 => (0..90_u64).prop_map(Step::Remove),
        1 => ranges.prop_map(Step::RemoveRanges),
        1 => (0..50_u64, 1..20_usize).prop_map(|(now, count)| Step::Expire(now, count)),
        1 => Just(Step::Strip),
        2 => (1..9_usize, any::<bool>()).prop_map(|(count, works)| Step::Fetch(count, works)),
        1 => Just(Step::Reload),
    ]
}

fn item(sequence: u64, size: u64, expires_at: Option<u64>, stored: bool) -> Item {
    Item {
        sequence: Sequence(sequence),
        origin: Origin {
            index: if stored { sequence + 7 } else { 0 },
            part: 0,
        },
        extent: Extent {
            body_bytes: size,
            total_bytes: size + 20,
            chunks: Chunks::default(),
        },
        expires_at,
        durable: stored,
        redelivered: false,
        failed: 0,
        acquired: 0,
    }
}

fn message() -> Arc<Message> {
    let name = Name::empty();
    Arc::new(Message::new(&name, &name, &[], Vec::new(), 0))
}

/// The ranges of gaps and lengths, ascending and apart.
fn ranges_of(steps: &[(u64, u64)]) -> Vec<Range> {
    let mut next = 0;
    let range = |(gap, length): &(u64, u64)| {
        let first = next + gap + 1;
        next = first + length + 1;
        Range {
            first: Sequence(first),
            last: Sequence(first + length),
        }
    };
    steps.iter().map(range).collect()
}

fn run(steps: Vec<Step>, page: usize, reach: u64, shelf_bytes: u64) -> Result<(), TestCaseError> {
    let scratch = MemoryScratch::shared();
    let shelf = Shelf::new(Some(scratch.clone()), shelf_bytes);
    let mut index = Index::new(page, true, Arc::clone(&shelf));
    let mut naive = Naive::default();
    let mut next = 1;
    for step in steps {
        match step {
            Step::Insert {
                skip,
                expires_at,
                stored,
                size,
            } => {
                next += skip;
                let item = item(next, size, expires_at, stored);
                index.insert(item, Some(message()), reach);
                naive.entries.insert(next, (item, false));
                next += 1;
            }
            Step::InsertBetween(sequence, expires_at) => {
                if let Entry::Vacant(place) = naive.entries.entry(sequence) {
                    let item = item(sequence, 5, expires_at, true);
                    index.insert(item, Some(message()), reach);
                    place.insert((item, false));
                    next = next.max(sequence + 1);
                }
            }
            Step::InsertMany(first, count, apart) => {
                for at in 0..count {
                    // 67 is no factor of their range: every step is another place of it.
                    let sequence = first + (at * apart * 67) % (count * apart);
                    if let Entry::Vacant(place) = naive.entries.entry(sequence) {
                        let item = item(sequence, 5, None, true);
                        index.insert(item, None, reach);
                        place.insert((item, false));
                        next = next.max(sequence + 1);
                    }
                }
            }
            Step::TakeHead => {
                let head = naive.ready().first().copied();
                let taken = index.take_head().map(|(item, _)| item.sequence.0);
                prop_assert_eq!(taken, head);
                if let Some(entry) = head.and_then(|head| naive.entries.get_mut(&head)) {
                    entry.1 = true;
                }
            }
            Step::PutBack(sequence) => {
                let out = naive.entries.get_mut(&sequence).filter(|(_, out)| *out);
                prop_assert_eq!(index.put_back(Sequence(sequence)), out.is_some());
                if let Some((item, out)) = out {
                    *out = false;
                    item.redelivered = true;
                }
            }
            Step::Remove(sequence) => {
                let mut left = Left::default();
                index.remove(Sequence(sequence), &mut left);
                let expected = naive.entries.remove(&sequence).map(|_| sequence);
                prop_assert_eq!(left.sequences, Vec::from_iter(expected));
            }
            Step::RemoveRanges(steps) => {
                let ranges = ranges_of(&steps);
                let mut left = Left::default();
                index.remove_ranges(&ranges, &mut left);
                left.sequences.sort_unstable();
                let inside = |sequence: &u64| {
                    let covers = |r: &Range| (r.first.0..=r.last.0).contains(sequence);
                    ranges.iter().any(covers)
                };
                let expected: Vec<u64> = naive.entries.keys().copied().filter(inside).collect();
                naive.entries.retain(|sequence, _| !inside(sequence));
                prop_assert_eq!(left.sequences, expected);
            }
            Step::Expire(now, count) => expire(&mut index, &mut naive, now, count)?,
            Step::Strip => {
                index.strip();
                prop_assert_eq!(index.content_bytes(), 0);
            }
            Step::Fetch(messages, works) => fetch(&mut index, messages, works)?,
            Step::Reload => {
                index = reloaded(&index)?;
                naive.entries.retain(|_, (item, _)| item.durable);
                for (item, out) in naive.entries.values_mut() {
                    (item.redelivered, *out) = (false, false);
                }
            }
        }
        index.check_invariants();
        let ready: Vec<u64> = index.ready().map(|item| item.sequence.0).collect();
        prop_assert_eq!(&ready, &naive.ready());
        prop_assert_eq!(index.len(), naive.entries.len() as u64);
        prop_assert_eq!(index.head().map(|i| i.sequence.0), ready.first().copied());
        let mut items: Vec<Item> = index.items().collect();
        items.sort_unstable_by_key(|item| item.sequence);
        let expected: Vec<Item> = naive.entries.values().map(|(item, _)| *item).collect();
        prop_assert_eq!(items, expected);
        check_ranges(&index, &naive)?;
        prop_assert_eq!(scratch.pages() > 0, shelf.bytes_away() > 0);
    }
    drop(index);
    prop_assert_eq!((scratch.pages(), shelf.bytes_here()), (0, 0));
    Ok(())
}

fn expire(
    index: &mut Index,
    naive: &mut Naive,
    now: u64,
    count: usize,
) -> Result<(), TestCaseError> {
    let mut due = index.expired(now, count);
    due.sort_unstable();
    let ready = naive.entries.values().filter(|(_, out)| !out);
    let expiring: Vec<(u64, Sequence)> = ready
        .filter_map(|(item, _)| Some((item.expires_at?, item.sequence)))
        .collect();
    let expected: Vec<Sequence> = expiring
        .iter()
        .filter(|(at, _)| *at <= now)
        .map(|(_, sequence)| *sequence)
        .collect();
    prop_assert_eq!(due.len(), expected.len().min(count));
    prop_assert!(due.iter().all(|sequence| expected.contains(sequence)));
    let others = expiring.iter().filter(|(_, s)| !due.contains(s));
    let next = others.map(|(at, _)| *at).min();
    prop_assert!(next.is_none_or(|at| index.next_expiry().is_some_and(|bound| bound <= at)));
    if !due.is_empty() {
        prop_assert_eq!(index.next_expiry(), next);
    }
    for sequence in due {
        index.remove(sequence, &mut Left::default());
        naive.entries.remove(&sequence.0);
    }
    Ok(())
}

fn fetch(index: &mut Index, messages: usize, works: bool) -> Result<(), TestCaseError> {
    let max = RunMax {
        messages,
        bytes: 500,
        below: Sequence(u64::MAX),
    };
    let wanted = index.ask(max);
    prop_assert!(wanted.len() <= messages);
    prop_assert!(wanted.is_sorted_by(|a, b| a.sequence < b.sequence));
    if wanted.is_empty() {
        return Ok(());
    }
    index.check_invariants();
    for wanted in &wanted {
        prop_assert!(index.provide(wanted.sequence, works.then(message)));
        prop_assert!(!index.provide(wanted.sequence, Some(message())));
    }
    index.answered();
    if works {
        prop_assert!(matches!(index.next(), Some((_, Body::Here))));
    }
    Ok(())
}

/// A checkpoint and back.
fn reloaded(index: &Index) -> Result<Index, TestCaseError> {
    let (pages, plain, packed_tail) = index.freeze();
    let mut again = Index::new(index.page_entries, true, Arc::clone(&index.shelf));
    let mut load = |packed: Option<Packed>| {
        if let Some(packed) = packed {
            let (read, summary) = Packed::read(packed.as_bytes()).unwrap();
            again.load(read, summary);
        }
    };
    let first = pages.first().map(|form| match form {
        Form::Packed(page) => page.packed().unwrap().summary().first,
        Form::Plain(entries) => entries[0].sequence(),
    });
    let (before, after): (Vec<Item>, Vec<Item>) = plain
        .iter()
        .partition(|item| first.is_none_or(|first| item.sequence < first));
    load(Packed::pack(before.iter().map(|item| item.to_stored())));
    for form in pages {
        load(match form {
            Form::Packed(page) => page.packed(),
            Form::Plain(entries) => {
                let durable = entries.iter().filter(|held| held.item.durable);
                let stored: Vec<_> = durable.map(|held| held.item.to_stored()).collect();
                Packed::pack(stored.into_iter())
            }
        });
    }
    load(Packed::pack(after.iter().map(|item| item.to_stored())));
    load(packed_tail.pack());
    let needs = |index: &Index| {
        let mut needs = Vec::new();
        index.needs(&mut |first, count| needs.extend(first..first + count));
        needs.sort_unstable();
        needs
    };
    prop_assert_eq!(needs(index), needs(&again));
    Ok(again)
}

/// A purge takes all that is ready and nothing that is out.
fn check_ranges(index: &Index, naive: &Naive) -> Result<(), TestCaseError> {
    let ranges = index.ready_ranges();
    prop_assert!(ranges.iter().all(|range| range.first <= range.last));
    for (sequence, (_, out)) in &naive.entries {
        let covers = |range: &Range| (range.first.0..=range.last.0).contains(sequence);
        prop_assert_eq!(ranges.iter().any(covers), !out);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn behaves_as_a_sorted_list(
        steps in prop::collection::vec(step(), 0..200),
        page in prop::sample::select(&[1, 2, 4, 64][..]),
        reach in prop::sample::select(&[0, 3000, u64::MAX][..]),
        shelf_bytes in prop::sample::select(&[0, 60, u64::MAX][..]),
    ) {
        run(steps, page, reach, shelf_bytes)?;
    }
}

/// As with a time that is due: any place, all of them apart.
#[test]
fn entries_of_any_order_are_kept_in_pages() {
    let count = 30_000_u64;
    let shelf = Shelf::new(None, u64::MAX);
    let mut index = Index::new(64, true, Arc::clone(&shelf));
    // An odd factor is a permutation of what 32 bits can say.
    let places = (0..count).map(|at| at.wrapping_mul(0x9e37_79b1) & 0xffff_ffff);
    let mut naive: Vec<u64> = places.clone().map(|at| at << 10).collect();
    for (at, place) in places.enumerate() {
        let mut item = item(place << 10, 100, None, true);
        item.origin.index = at as u64 + 1;
        index.insert(item, None, 0);
    }
    index.check_invariants();
    naive.sort_unstable();
    let ready: Vec<u64> = index.ready().map(|item| item.sequence.0).collect();
    assert_eq!(ready, naive);
    assert!(index.head.len() <= 4 * between::HEAD_ENTRIES);
    assert!(shelf.bytes_here() < 12 * count);
    for expected in naive {
        let (item, _) = index.take_head().unwrap();
        assert_eq!(item.sequence.0, expected);
        index.remove(item.sequence, &mut Left::default());
    }
}

/// Opening a page and packing it anew is what an entry costs that goes before others.
#[test]
fn the_first_entries_that_come_to_a_page_do_not_open_it() {
    let mut index = Index::new(64, true, Shelf::new(None, u64::MAX));
    for at in 0..6400 {
        index.insert(item(100 * at, 100, None, true), None, 0);
    }
    let is_open = |page: &&Page| matches!(page.form, Form::Plain(_));
    for beside in 1..=8 {
        let places = (1..90).map(|page| 6400 * page + 1000 - 100 * beside + 50);
        for place in places {
            index.insert(item(place, 100, None, true), None, 0);
        }
        index.check_invariants();
        assert_eq!(index.pages.iter().filter(is_open).count(), 0);
    }
    index.insert(item(6400 * 50 + 1, 100, None, true), None, 0);
    index.check_invariants();
    assert_eq!(index.pages.iter().filter(is_open).count(), 1);
    assert!(index.has_ready(Sequence(6400 * 50 + 250)));
    assert_eq!(
        index.scan_from(Sequence(6400 * 40 + 201), 1)[0]
            .item
            .sequence
            .0,
        6400 * 40 + 250
    );
}

/// As with priorities: the end of each of some classes.
#[test]
fn what_grows_at_some_spots_leaves_full_pages_behind() {
    let mut index = Index::new(64, true, Shelf::new(None, u64::MAX));
    for at in 0..30_000 {
        let class = (at * 7 + at / 3) % 5;
        index.insert(item((class << 40) + at, 100, None, true), None, 0);
    }
    index.check_invariants();
    let entries = index.len() - index.head.len() as u64;
    let pages = index.pages.len() as u64;
    assert!(pages <= entries / 60, "{entries} entries in {pages} pages");
}

#[test]
fn an_idle_queue_gives_its_memory_back() {
    let mut index = Index::new(256, true, Shelf::new(None, 0));
    for sequence in 1..5000 {
        index.insert(item(sequence, 1, None, true), Some(message()), u64::MAX);
    }
    while let Some((item, _)) = index.take_head() {
        index.remove(item.sequence, &mut Left::default());
    }
    assert_eq!(index.content_bytes(), 0);
    assert!(index.head.capacity() <= IDLE_CAPACITY);
    assert_eq!(index.pages.capacity() + index.tail.capacity(), 0);
}
