//! Acknowledgements that arrive together are as those that arrive one by one.

use std::collections::BTreeSet;

use crate::support::{Seen, World, key, name};
use menzil_core::{QueueSummary, Refusal, Request, ShardSettings};
use menzil_model::{DeliveryTag, Fact, Table, fact::Content};
use proptest::prelude::*;

/// What there is of a queue and its consumer.
#[derive(Clone, Debug)]
struct Scene {
    durable: bool,
    /// Of each message.
    persistent: Vec<bool>,
    prefetch: u16,
    /// Several queues and consumers on the channel: who gets what next is then not the same.
    is_crowded: bool,
    is_transaction: bool,
    global_prefetch: bool,
}

fn scene() -> impl Strategy<Value = Scene> {
    let persistent = prop::collection::vec(any::<bool>(), 1..40);
    let rare = || prop::bool::weighted(0.2);
    (
        any::<bool>(),
        persistent,
        1..12_u16,
        any::<bool>(),
        rare(),
        rare(),
    )
        .prop_map(
            |(durable, persistent, prefetch, is_crowded, is_transaction, global_prefetch)| Scene {
                durable,
                persistent,
                prefetch,
                is_crowded,
                is_transaction,
                global_prefetch,
            },
        )
}

fn world(scene: &Scene, settings: &ShardSettings) -> (World, Vec<Seen>) {
    let mut world = World::with(settings.clone());
    let queues: &[&str] = if scene.is_crowded {
        &["q", "r"]
    } else {
        &["q"]
    };
    for queue in queues {
        world.declare_with(queue, scene.durable, Table::empty());
    }
    world.open(key(1, 2));
    if scene.is_transaction {
        world.request(key(1, 2), Request::TxSelect);
    }
    world.request(
        key(1, 2),
        Request::Qos {
            prefetch_size: 0,
            prefetch_count: scene.prefetch,
            global: scene.global_prefetch,
        },
    );
    for (number, persistent) in scene.persistent.iter().enumerate() {
        let mode = Some(if *persistent { 2 } else { 1 });
        let queue = queues[number % queues.len()];
        world.publish_as("", queue, &number.to_string(), false, mode, None);
    }
    let mut seen = Vec::new();
    for queue in queues {
        seen.extend(world.consume(key(1, 2), queue, queue));
        if scene.is_crowded {
            seen.extend(world.consume(key(1, 2), queue, &format!("{queue}-too")));
        }
    }
    (world, seen)
}

/// Delivery tags that the client has seen.
fn tags(seen: &[Seen]) -> impl Iterator<Item = u64> + '_ {
    seen.iter().filter_map(|seen| match seen {
        Seen::Delivered { tag, .. } => Some(*tag),
        _ => None,
    })
}

/// One after the other, until one is refused.
fn one_by_one(world: &mut World, tags: &[u64]) -> Vec<Seen> {
    tags.iter()
        .flat_map(|tag| world.ack(key(1, 2), *tag))
        .collect()
}

fn refusals(seen: &[Seen]) -> Vec<Refusal> {
    let refusal = |seen: &Seen| match seen {
        Seen::Refused(refusal) => Some(refusal.clone()),
        _ => None,
    };
    seen.iter().filter_map(refusal).collect()
}

/// Sequences that are settled by facts, by how often: 1 each.
fn settled(world: &World) -> Vec<u64> {
    let facts = world.log.records.iter();
    let facts = facts.map(|record| Fact::decode(record, Content::Skip).unwrap());
    let mut settled = Vec::new();
    for fact in facts {
        if let Fact::Settled { queue, ranges, .. } = fact {
            let of_queue = queue.0 * 1000;
            let all = ranges.iter().flat_map(|range| range.first.0..=range.last.0);
            settled.extend(all.map(|sequence| of_queue + sequence));
        }
    }
    settled.sort_unstable();
    settled
}

/// Entries that are there, and acknowledgements that counted.
fn counted(queues: &[QueueSummary]) -> (u64, u64) {
    let there = queues.iter().map(|queue| queue.ready + queue.unsettled);
    let acknowledged = queues.iter().map(|queue| queue.counters.acknowledged);
    (there.sum(), acknowledged.sum())
}

proptest! {
    #[test]
    fn a_run_of_acknowledgements_is_as_one_after_the_other(
        scene in scene(),
        steps in prop::collection::vec((0..9_usize, 1..9_usize, prop::option::weighted(0.1, 990..999_u64)), 1..16),
        cache in prop::sample::select(&[0, 300, 1 << 20][..]),
    ) {
        let settings = ShardSettings {
            content_bytes_max: cache,
            index_page_entries: 4,
            ..ShardSettings::default()
        };
        let ((mut one, seen_one), (mut run, seen_run)) =
            (world(&scene, &settings), world(&scene, &settings));
        let mut out_one: BTreeSet<u64> = tags(&seen_one).collect();
        let mut out_run: BTreeSet<u64> = tags(&seen_run).collect();
        for (skip, count, odd) in steps {
            let known = out_one.intersection(&out_run).copied();
            let tags_now: Vec<u64> = known.skip(skip).take(count).chain(odd).collect();
            let seen_one = one_by_one(&mut one, &tags_now);
            let seen_run = run.acknowledge_each(key(1, 2), &tags_now);
            prop_assert_eq!(refusals(&seen_one), refusals(&seen_run));
            if !refusals(&seen_one).is_empty() {
                // The channel is closed; who got something before that does not matter.
                break;
            }
            if !scene.is_crowded {
                prop_assert_eq!(&seen_one, &seen_run);
            }
            for tag in &tags_now {
                out_one.remove(tag);
                out_run.remove(tag);
            }
            out_one.extend(tags(&seen_one));
            out_run.extend(tags(&seen_run));
        }
        prop_assert_eq!(counted(&one.shard.queues()), counted(&run.shard.queues()));
        if !scene.is_crowded {
            prop_assert_eq!(settled(&one), settled(&run));
            let needed = |world: &World| world.log.references.iter().sum::<u32>();
            prop_assert_eq!(needed(&one), needed(&run));
        }
    }
}

#[test]
fn what_comes_behind_an_unknown_delivery_tag_counts_for_nothing() {
    let scene = Scene {
        durable: true,
        persistent: vec![true; 5],
        prefetch: 3,
        is_crowded: false,
        is_transaction: false,
        global_prefetch: false,
    };
    let (mut world, _) = world(&scene, &ShardSettings::default());
    let seen = world.acknowledge_each(key(1, 2), &[1, 9, 2]);
    assert_eq!(
        refusals(&seen),
        [Refusal::UnknownDeliveryTag(DeliveryTag(9))]
    );
    assert_eq!(settled(&world).len(), 1);
    assert_eq!(world.drain("q"), ["1", "2", "3", "4"]);
}

#[test]
fn what_was_not_sent_before_the_run_came_is_not_acknowledged_by_it() {
    let scene = Scene {
        durable: true,
        persistent: vec![true; 3],
        prefetch: 1,
        is_crowded: false,
        is_transaction: false,
        global_prefetch: false,
    };
    let (mut world, _) = world(&scene, &ShardSettings::default());
    let seen = world.acknowledge_each(key(1, 2), &[1, 2]);
    assert_eq!(
        seen,
        [Seen::Refused(Refusal::UnknownDeliveryTag(DeliveryTag(2)))]
    );
    assert_eq!(settled(&world).len(), 1);
}

#[test]
fn acknowledgements_wait_behind_a_get_that_waits() {
    let scene = Scene {
        durable: true,
        persistent: vec![true; 6],
        prefetch: 2,
        is_crowded: false,
        is_transaction: false,
        global_prefetch: false,
    };
    let settings = ShardSettings {
        content_bytes_max: 0,
        ..ShardSettings::default()
    };
    let (mut world, _) = world(&scene, &settings);
    world.answer_fetches = false;
    let get = Request::Get {
        queue: name("q"),
        no_ack: false,
    };
    world.request(key(1, 2), get);
    assert_eq!(world.acknowledge_each(key(1, 2), &[1, 2]), []);
    assert!(settled(&world).is_empty());
}
