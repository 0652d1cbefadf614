//! Any history of commands leaves a state that recovery makes again, and queues that behave as
//! a naive list.

use crate::support::{Seen, World, arguments, key, name, references_of};
use menzil_core::testing::MemoryScratch;
use menzil_core::{Command, Request, Shard, ShardSettings};
use menzil_model::fact::{Content, StoredEntry};
use menzil_model::{ConnectionId, DeliveryTag, Fact, Properties, QueueId, Table, Value};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Publish {
        queue: u8,
        persistent: bool,
        size: u8,
        expires: Option<u8>,
    },
    Fanout {
        exchange: u8,
        persistent: bool,
    },
    Replay {
        exchange: bool,
        queue: u8,
        from: u8,
    },
    Consume {
        channel: u16,
        queue: u8,
        prefetch: u16,
    },
    Cancel {
        channel: u16,
        queue: u8,
    },
    Settle {
        channel: u16,
        tag: u8,
        verdict: u8,
        multiple: bool,
    },
    AcknowledgeEach {
        channel: u16,
        tags: Vec<u64>,
    },
    Get {
        channel: u16,
        queue: u8,
        no_ack: bool,
    },
    Purge {
        queue: u8,
    },
    Delete {
        queue: u8,
    },
    Transaction {
        count: u8,
        commit: bool,
    },
    Reconnect,
    Wait {
        milliseconds: u8,
    },
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let queue = 0..6_u8;
    let channel = 2..4_u16;
    prop_oneof![
        8 => (queue.clone(), any::<bool>(), 0..40_u8, prop::option::of(0..20_u8)).prop_map(
            |(queue, persistent, size, expires)| Step::Publish { queue, persistent, size, expires }
        ),
        4 => (0..3_u8, any::<bool>())
            .prop_map(|(exchange, persistent)| Step::Fanout { exchange, persistent }),
        2 => (any::<bool>(), queue.clone(), 0..6_u8).prop_map(
            |(exchange, queue, from)| Step::Replay { exchange, queue, from }
        ),
        3 => (channel.clone(), queue.clone(), 0..4_u16).prop_map(
            |(channel, queue, prefetch)| Step::Consume { channel, queue, prefetch }
        ),
        1 => (channel.clone(), queue.clone())
            .prop_map(|(channel, queue)| Step::Cancel { channel, queue }),
        8 => (channel.clone(), 1..30_u8, 0..3_u8, any::<bool>()).prop_map(
            |(channel, tag, verdict, multiple)| Step::Settle { channel, tag, verdict, multiple }
        ),
        3 => (channel.clone(), 1..20_u64, 1..6_u64, prop::option::of(1..30_u64)).prop_map(
            |(channel, first, count, odd)| {
                let tags = (first..first + count).chain(odd).collect();
                Step::AcknowledgeEach { channel, tags }
            }
        ),
        3 => (channel, queue.clone(), any::<bool>())
            .prop_map(|(channel, queue, no_ack)| Step::Get { channel, queue, no_ack }),
        1 => queue.clone().prop_map(|queue| Step::Purge { queue }),
        1 => queue.prop_map(|queue| Step::Delete { queue }),
        2 => (1..5_u8, any::<bool>())
            .prop_map(|(count, commit)| Step::Transaction { count, commit }),
        1 => Just(Step::Reconnect),
        2 => (0..30_u8).prop_map(|milliseconds| Step::Wait { milliseconds }),
        1 => Just(Step::Restart),
    ]
}

/// Tiny bounds, so that fetching, chunks, pages and credit take part.
fn settings(content_bytes_max: u64, index_page_entries: usize) -> ShardSettings {
    ShardSettings {
        content_bytes_max,
        index_page_entries,
        index_bytes_max: content_bytes_max,
        scratch: Some(MemoryScratch::shared()),
        credit_bytes: 400,
        chunk_bytes: 16,
        ..ShardSettings::default()
    }
}

fn queue_name(queue: u8) -> String {
    format!("q{queue}")
}

fn declare_all(world: &mut World) {
    let limits = |extra: &[(&str, Value<'_>)]| arguments(extra);
    world.declare_with("q0", true, Table::empty());
    world.declare_with("q1", true, limits(&[("x-max-length", Value::I32(3))]));
    world.declare_with(
        "q2",
        true,
        limits(&[
            ("x-max-length-bytes", Value::I32(60)),
            ("x-overflow", Value::LongString(b"reject-publish")),
        ]),
    );
    world.declare_with("q3", true, limits(&[("x-message-ttl", Value::I32(25))]));
    world.declare_with(
        "q4",
        false,
        limits(&[("x-max-length-bytes", Value::I32(50))]),
    );
    world.declare_with(
        "q5",
        true,
        limits(&[
            ("x-deduplication", Value::Bool(true)),
            ("x-deduplication-size", Value::I32(3)),
            ("x-deduplication-age", Value::I32(25)),
        ]),
    );
    for queue in 0..6 {
        world.bind(&queue_name(queue), "amq.fanout", "");
    }
    let retain = [
        ("x-retain-messages", Value::I32(5)),
        ("x-retain-age", Value::I32(40)),
    ];
    world.declare_exchange("kept", "fanout", limits(&retain));
    world.bind("q3", "kept", "");
    let length = ("x-recent-history-length", Value::I32(3));
    world.declare_exchange("history", "x-recent-history", limits(&[length]));
    world.bind("q0", "history", "");
    for channel in 2..4 {
        world.open(key(1, channel));
    }
    world.open(key(1, 4));
    world.request(key(1, 4), Request::TxSelect);
}

fn run(world: &mut World, step: &Step, count: &mut u64) {
    *count += 1;
    match *step {
        Step::Publish {
            queue,
            persistent,
            size,
            expires,
        } => {
            let body = format!("{count}:{}", "x".repeat(size.into()));
            let expiration = expires.map(|time| time.to_string());
            let mode = Some(if persistent { 2 } else { 1 });
            let to = queue_name(queue);
            let id = (size % 5).to_string();
            let properties = Properties {
                delivery_mode: mode,
                expiration: expiration.as_deref().map(str::as_bytes),
                message_id: (size % 5 > 0).then_some(id.as_bytes()),
                ..Properties::default()
            };
            world.publish_with("", &to, &body, false, &properties);
        }
        Step::Fanout {
            exchange,
            persistent,
        } => {
            let mode = Some(if persistent { 2 } else { 1 });
            let exchange = ["amq.fanout", "kept", "history"][usize::from(exchange)];
            world.publish_as(exchange, "", &count.to_string(), false, mode, None);
        }
        Step::Replay {
            exchange,
            queue,
            from,
        } => replay(world, exchange, &queue_name(queue), from, *count),
        Step::Consume {
            channel,
            queue,
            prefetch,
        } => {
            let qos = Request::Qos {
                prefetch_size: 0,
                prefetch_count: prefetch,
                global: false,
            };
            world.request(key(1, channel), qos);
            let tag = format!("{channel}-{queue}");
            if world
                .consume(key(1, channel), &queue_name(queue), &tag)
                .iter()
                .any(is_hard)
            {
                reconnect(world);
            }
        }
        Step::Cancel { channel, queue } => {
            let consumer_tag = name(&format!("{channel}-{queue}"));
            let cancel = Request::Cancel {
                consumer_tag,
                nowait: false,
            };
            world.request(key(1, channel), cancel);
        }
        Step::Settle {
            channel,
            tag,
            verdict,
            multiple,
        } => {
            let delivery_tag = DeliveryTag(u64::from(tag));
            let request = match verdict {
                0 => Request::Ack {
                    delivery_tag,
                    multiple,
                },
                other => Request::Reject {
                    delivery_tag,
                    multiple,
                    requeue: other == 1,
                    method: menzil_core::Rejection::Nack,
                },
            };
            let seen = world.request(key(1, channel), request);
            if seen.iter().any(|seen| matches!(seen, Seen::Refused(_))) {
                world.open(key(1, channel));
            }
        }
        Step::AcknowledgeEach { channel, ref tags } => {
            let seen = world.acknowledge_each(key(1, channel), tags);
            if seen.iter().any(|seen| matches!(seen, Seen::Refused(_))) {
                world.open(key(1, channel));
            }
        }
        Step::Get {
            channel,
            queue,
            no_ack,
        } => {
            let get = Request::Get {
                queue: name(&queue_name(queue)),
                no_ack,
            };
            world.request(key(1, channel), get);
        }
        Step::Purge { queue } => {
            let purge = Request::QueuePurge {
                queue: name(&queue_name(queue)),
                nowait: false,
            };
            world.request(key(1, 1), purge);
        }
        Step::Delete { queue } => {
            // What waited behind a get may have ended the connection meanwhile.
            if delete(world, queue).is_empty() {
                reconnect(world);
                delete(world, queue);
            }
            declare_all(world);
        }
        Step::Transaction {
            count: publishes,
            commit,
        } => {
            transaction(world, publishes, commit, *count);
        }
        Step::Reconnect => reconnect(world),
        Step::Wait { milliseconds } => {
            world.tick(milliseconds.into());
            let connection = ConnectionId(1);
            world.execute(Command::Drained {
                connection,
                bytes: 10_000,
            });
        }
        Step::Restart => {
            world.restart();
            declare_all(world);
        }
    }
}

/// A binding that is not there yet gets some of what is kept.
fn replay(world: &mut World, history: bool, queue: &str, from: u8, count: u64) {
    let exchange = if history { "history" } else { "kept" };
    let from = match from {
        0 => Value::LongString(b"first"),
        1 => Value::LongString(b"last"),
        2 => Value::LongString(b"1s"),
        number => Value::U8(number),
    };
    let ends = (queue, exchange, &*count.to_string());
    let table = arguments(&[("x-replay-from", from)]);
    let seen = world.bind_with(key(1, 2), ends, table);
    if seen.iter().any(|seen| matches!(seen, Seen::Refused(_))) {
        world.open(key(1, 2));
    }
}

fn is_hard(seen: &Seen) -> bool {
    matches!(seen, Seen::Refused(refusal) if refusal.is_hard())
}

fn transaction(world: &mut World, publishes: u8, commit: bool, count: u64) {
    let mut bytes = Vec::new();
    let persistent = Properties {
        delivery_mode: Some(2),
        ..Properties::default()
    };
    persistent.write(&mut bytes);
    for part in 0..publishes {
        world.request(
            key(1, 4),
            Request::Publish(menzil_core::Publish {
                exchange: name("amq.fanout"),
                routing_key: name(""),
                mandatory: false,
                properties: bytes.clone().into(),
                body: vec![format!("{count}.{part}").into_bytes().into()],
            }),
        );
    }
    let end = if commit {
        Request::TxCommit
    } else {
        Request::TxRollback
    };
    if world
        .request(key(1, 4), end)
        .iter()
        .any(|seen| matches!(seen, Seen::Refused(_)))
    {
        world.open(key(1, 4));
        world.request(key(1, 4), Request::TxSelect);
    }
}

fn reconnect(world: &mut World) {
    world.execute(Command::ConnectionClosed {
        connection: ConnectionId(1),
    });
    world.connect(1);
    world.open(key(1, 1));
    for channel in 2..5 {
        world.open(key(1, channel));
    }
    world.request(key(1, 4), Request::TxSelect);
}

fn checkpoint_of(shard: &Shard) -> Vec<Fact> {
    let mut facts = Vec::new();
    shard.freeze().write(&mut |fact| facts.push(fact.clone()));
    facts
}

/// The facts as a recovering shard reads them: from their bytes.
fn rebuilt(settings: &ShardSettings, facts: impl IntoIterator<Item = (u64, Vec<u8>)>) -> Shard {
    let mut shard = Shard::new(settings.clone());
    for (index, bytes) in facts {
        shard.apply(index, Fact::decode(&bytes, Content::Skip).unwrap());
    }
    shard.check_invariants();
    shard
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn recovery_makes_the_durable_state_again(
        steps in prop::collection::vec(step(), 1..120),
        cache in prop::sample::select(&[0, 1000, 1 << 20][..]),
        page in prop::sample::select(&[1, 4, 256][..]),
        drafted in 0..60_usize,
    ) {
        let settings = settings(cache, page);
        let mut world = World::with(settings.clone());
        declare_all(&mut world);
        let mut count = 0;
        let mut draft = None;
        for (at, step) in steps.iter().enumerate() {
            run(&mut world, step, &mut count);
            if at == drafted || matches!(step, Step::Restart) {
                let mut new = world.shard.draft();
                prop_assert!(!world.shard.copy_queues(&mut new), "there are few queues");
                draft = Some(new);
            }
        }
        let live = checkpoint_of(&world.shard);
        if let Some(draft) = draft {
            let mut facts = Vec::new();
            let frozen = world.shard.freeze_draft(draft);
            frozen.write(&mut |fact| facts.push(fact.clone()));
            prop_assert_eq!(&facts, &live, "what changed since is copied again");
        }
        let records = world.log.records.iter().cloned();
        let replayed = rebuilt(&settings, (1_u64..).zip(records));
        same(&without_numbers(&live), &without_numbers(&checkpoint_of(&replayed)))?;

        let encoded = live.iter().map(|fact| {
            let mut bytes = Vec::new();
            fact.encode(&mut bytes);
            (world.log.records.len() as u64, bytes)
        });
        let from_checkpoint = rebuilt(&settings, encoded);
        same(&expanded(&live), &expanded(&checkpoint_of(&from_checkpoint)))?;

        // What is released is exactly what nobody needs.
        let needed = references_of(&world.shard, world.log.records.len());
        prop_assert_eq!(&world.log.references, &needed);
    }
}

#[test]
fn a_checkpoint_of_many_queues_is_copied_in_turns() {
    let mut world = World::new();
    world.checks_each = false;
    for queue in 0..1700 {
        world.declare(&queue.to_string());
    }
    let mut draft = world.shard.draft();
    let mut turns = 1;
    while world.shard.copy_queues(&mut draft) {
        turns += 1;
        world.publish("", &turns.to_string(), "a");
        world.publish("", &(1000 + turns).to_string(), "a");
        world.request(
            key(1, 1),
            Request::QueueDelete {
                queue: name(&(7 * turns).to_string()),
                if_unused: false,
                if_empty: false,
                nowait: false,
            },
        );
        world.declare(&format!("new {turns}"));
    }
    assert_eq!(turns, 3, "the rest is copied with all held");
    let live = checkpoint_of(&world.shard);
    let mut facts = Vec::new();
    let frozen = world.shard.freeze_draft(draft);
    frozen.write(&mut |fact| facts.push(fact.clone()));
    assert_eq!(facts, live);
    world.shard.check_invariants();
}

#[test]
fn a_draft_ends_where_queues_change_as_fast_as_they_are_copied() {
    let mut world = World::new();
    world.checks_each = false;
    let queues: Vec<String> = (0..1100).map(|queue| queue.to_string()).collect();
    for queue in &queues {
        world.declare(queue);
    }
    let mut draft = world.shard.draft();
    let mut turns = 1;
    while world.shard.copy_queues(&mut draft) {
        turns += 1;
        assert!(turns < 10, "it never ends");
        for queue in &queues {
            world.fill("", queue, &["a".to_owned()]);
        }
    }
    let live = checkpoint_of(&world.shard);
    let mut facts = Vec::new();
    let frozen = world.shard.freeze_draft(draft);
    frozen.write(&mut |fact| facts.push(fact.clone()));
    assert_eq!(facts, live);
    world.shard.check_invariants();
}

fn delete(world: &mut World, queue: u8) -> Vec<Seen> {
    world.request(
        key(1, 1),
        Request::QueueDelete {
            queue: name(&queue_name(queue)),
            if_unused: false,
            if_empty: false,
            nowait: false,
        },
    )
}

/// A fact, or one entry of a page: where pages end is nobody's concern.
#[derive(Clone, Debug, PartialEq)]
enum Known {
    Fact(Fact),
    Entry(QueueId, StoredEntry),
}

fn expanded(facts: &[Fact]) -> Vec<Known> {
    let each = |fact: &Fact| match fact {
        Fact::Page { queue, entries } => {
            let known = entries.entries().map(|entry| Known::Entry(*queue, entry));
            known.collect()
        }
        other => vec![Known::Fact(other.clone())],
    };
    facts.iter().flat_map(each).collect()
}

/// Equal, or the first facts that differ.
fn same(left: &[Known], right: &[Known]) -> Result<(), TestCaseError> {
    for (left, right) in left.iter().zip(right) {
        prop_assert_eq!(left, right);
    }
    prop_assert_eq!(left.len(), right.len());
    Ok(())
}

/// Ids and sequences of transient things are never written, so the next ones differ.
fn without_numbers(facts: &[Fact]) -> Vec<Known> {
    let facts: Vec<Fact> = facts
        .iter()
        .filter(|fact| !matches!(fact, Fact::Numbering { .. }))
        .cloned()
        .map(|fact| match fact {
            Fact::QueueState { queue, below, .. } => Fact::QueueState {
                queue,
                next: menzil_model::Sequence(0),
                below,
            },
            other => other,
        })
        .collect();
    expanded(&facts)
}
