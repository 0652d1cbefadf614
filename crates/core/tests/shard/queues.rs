//! Queues: order, redelivery, limits, time to live, leases, exclusivity.

use crate::support::{Seen, World, arguments, delivered, key, name};
use menzil_core::{
    Command, Counters, Object, QUEUES_COUNTED, QueueDeclare, Refusal, Reply, Request, ShardSettings,
};
use menzil_model::{ConnectionId, Table, Value};

#[test]
fn consumers_take_turns_and_prefetch_holds() {
    let mut world = World::new();
    world.declare("q");
    world.open(key(1, 2));
    let qos = Request::Qos {
        prefetch_size: 0,
        prefetch_count: 1,
        global: false,
    };
    world.request(key(1, 1), qos.clone());
    world.request(key(1, 2), qos);
    world.consume(key(1, 1), "q", "a");
    world.consume(key(1, 2), "q", "b");
    assert_eq!(world.publish("", "q", "1"), [delivered(1, "1", false)]);
    assert_eq!(world.publish("", "q", "2"), [delivered(1, "2", false)]);
    assert_eq!(world.publish("", "q", "3"), []);
    assert_eq!(world.ack(key(1, 2), 1), [delivered(2, "3", false)]);
}

#[test]
fn a_requeued_entry_stands_where_it_stood() {
    let mut world = World::new();
    world.declare("q");
    for body in ["1", "2", "3"] {
        world.publish("", "q", body);
    }
    assert!(matches!(
        world.get("q").as_slice(),
        [Seen::Got {
            tag: 1,
            redelivered: false,
            ..
        }]
    ));
    assert!(matches!(
        world.get("q").as_slice(),
        [Seen::Got { tag: 2, .. }]
    ));
    world.requeue(key(1, 1), 2);
    world.requeue(key(1, 1), 1);
    let first = world.get("q");
    assert!(
        matches!(first.as_slice(), [Seen::Got { body, redelivered: true, left: 2, .. }] if body == "1")
    );
    assert_eq!(world.drain("q"), ["2", "3"]);
}

#[test]
fn what_was_out_comes_back_when_its_connection_goes() {
    let mut world = World::new();
    world.declare("q");
    world.connect(2);
    world.open(key(2, 1));
    for body in ["1", "2"] {
        world.publish("", "q", body);
    }
    assert_eq!(world.consume(key(2, 1), "q", "t").len(), 3);
    world.execute(Command::ConnectionClosed {
        connection: ConnectionId(2),
    });
    assert!(
        matches!(world.get("q").as_slice(), [Seen::Got { body, redelivered: true, .. }] if body == "1")
    );
    assert_eq!(world.drain("q"), ["2"]);
}

#[test]
fn after_a_crash_only_what_may_have_gone_out_is_flagged() {
    let mut world = World::new();
    world.declare("never");
    world.declare("consumed");
    world.publish("", "never", "1");
    world.publish("", "consumed", "1");
    world.get("consumed");
    world.restart();
    assert!(matches!(
        world.get("never").as_slice(),
        [Seen::Got {
            redelivered: false,
            ..
        }]
    ));
    assert!(matches!(
        world.get("consumed").as_slice(),
        [Seen::Got {
            redelivered: true,
            ..
        }]
    ));
}

#[test]
fn a_clean_stop_writes_exactly_how_far_deliveries_went() {
    let mut world = World::new();
    world.declare("q");
    for body in ["1", "2"] {
        world.publish("", "q", body);
    }
    world.get("q");
    world.shard.stop(&mut world.log);
    world.restart();
    let flags: Vec<bool> = (0..2)
        .map(|_| match world.get("q").as_slice() {
            [Seen::Got { redelivered, .. }] => *redelivered,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(flags, [true, false]);
}

#[test]
fn drop_head_drops_the_oldest_and_it_stays_dropped() {
    let mut world = World::new();
    world.declare_with("q", true, arguments(&[("x-max-length", Value::I32(2))]));
    for body in ["1", "2", "3", "4"] {
        world.publish("", "q", body);
    }
    world.restart();
    assert_eq!(world.drain("q"), ["3", "4"]);
}

#[test]
fn a_byte_limit_counts_bodies() {
    let mut world = World::new();
    world.declare_with(
        "q",
        true,
        arguments(&[("x-max-length-bytes", Value::I32(10))]),
    );
    for body in ["aaaa", "bbbb", "cccc"] {
        world.publish("", "q", body);
    }
    assert_eq!(world.drain("q"), ["bbbb", "cccc"]);
    world.publish("", "q", "longer than the limit");
    assert_eq!(world.drain("q"), Vec::<String>::new());
}

#[test]
fn what_was_out_counts_against_the_limit_after_a_restart() {
    let mut world = World::new();
    world.declare_with("q", true, arguments(&[("x-max-length", Value::I32(1))]));
    world.publish("", "q", "a");
    world.get("q");
    world.publish("", "q", "b");
    world.restart();
    world.tick(0);
    assert_eq!(world.drain("q"), ["b"]);
}

#[test]
fn a_waiting_consumer_takes_what_a_limit_of_zero_would_drop() {
    let mut world = World::new();
    world.declare_with("q", true, arguments(&[("x-max-length", Value::I32(0))]));
    world.consume(key(1, 1), "q", "t");
    assert_eq!(world.publish("", "q", "1"), [delivered(1, "1", false)]);
}

#[test]
fn each_message_leaves_on_time_even_behind_one_that_stays() {
    let mut world = World::new();
    world.declare("q");
    world.publish("", "q", "stays");
    world.publish_as("", "q", "goes", false, Some(2), Some("500"));
    world.publish_as("", "q", "goes first", false, Some(2), Some("100"));
    world.tick(100);
    assert_eq!(world.shard.queues()[0].ready, 2);
    world.tick(400);
    assert_eq!(world.shard.queues()[0].ready, 1);
    world.restart();
    assert_eq!(world.drain("q"), ["stays"]);
}

#[test]
fn downtime_counts_towards_time_to_live() {
    let mut world = World::new();
    world.declare_with("q", true, arguments(&[("x-message-ttl", Value::I32(5000))]));
    world.publish("", "q", "1");
    world.now += 2_000;
    world.restart();
    world.now += 2_900;
    world.tick(0);
    assert_eq!(world.shard.queues()[0].ready, 1);
    world.tick(100);
    assert_eq!(world.shard.queues()[0].ready, 0);
}

#[test]
fn an_expiration_of_zero_reaches_only_a_waiting_consumer() {
    let mut world = World::new();
    world.declare("q");
    world.publish_as("", "q", "nobody", false, Some(2), Some("0"));
    assert_eq!(world.drain("q"), Vec::<String>::new());
    world.consume(key(1, 1), "q", "t");
    let seen = world.publish_as("", "q", "somebody", false, Some(2), Some("0"));
    assert_eq!(seen, [delivered(1, "somebody", false)]);
}

#[test]
fn a_lease_is_renewed_by_redeclare_get_and_consumers() {
    let mut world = World::new();
    let lease = arguments(&[("x-expires", Value::I32(1500))]);
    world.declare_with("q", true, lease.clone());
    for _ in 0..4 {
        world.tick(1000);
        world.declare_with("q", true, lease.clone());
    }
    for _ in 0..3 {
        world.tick(1000);
        world.get("q");
    }
    world.consume(key(1, 1), "q", "t");
    world.tick(2500);
    world.request(
        key(1, 1),
        Request::Cancel {
            consumer_tag: name("t"),
            nowait: false,
        },
    );
    world.tick(1000);
    assert_eq!(world.shard.queues().len(), 1);
    world.tick(2000);
    assert_eq!(world.shard.queues().len(), 0);
    world.restart();
    assert_eq!(world.shard.queues().len(), 0);
}

#[test]
fn an_exclusive_queue_is_its_connections_own_and_goes_with_it() {
    let mut world = World::new();
    world.connect(2);
    world.open(key(2, 1));
    let declare = |exclusive| {
        Request::QueueDeclare(QueueDeclare {
            queue: name("mine"),
            passive: false,
            durable: false,
            exclusive,
            auto_delete: false,
            nowait: false,
            arguments: Table::empty(),
            entropy: 1,
        })
    };
    world.request(key(2, 1), declare(true));
    for request in [
        declare(false),
        declare(true),
        Request::Get {
            queue: name("mine"),
            no_ack: true,
        },
        Request::QueuePurge {
            queue: name("mine"),
            nowait: false,
        },
    ] {
        let seen = world.request(key(1, 1), request);
        assert_eq!(seen, [Seen::Refused(Refusal::Locked(name("mine")))]);
        world.open(key(1, 1));
    }
    world.execute(Command::ConnectionClosed {
        connection: ConnectionId(2),
    });
    let seen = world.get("mine");
    assert_eq!(
        seen,
        [Seen::Refused(Refusal::NotFound(Object::Queue(name(
            "mine"
        ))))]
    );
}

#[test]
fn consumers_of_a_deleted_queue_are_told() {
    let mut world = World::new();
    world.declare("q");
    world.connect(2);
    world.open(key(2, 1));
    world.consume(key(2, 1), "q", "t");
    let delete = Request::QueueDelete {
        queue: name("q"),
        if_unused: false,
        if_empty: false,
        nowait: false,
    };
    let seen = world.request(key(1, 1), delete);
    assert!(seen.contains(&Seen::Cancelled("t".to_owned())), "{seen:?}");
    assert!(seen.contains(&Seen::Reply(Reply::QueueDeleteOk { message_count: 0 })));
}

#[test]
fn a_channel_wide_prefetch_is_one_limit_and_get_does_not_count() {
    let mut world = World::new();
    for queue in ["a", "b"] {
        world.declare(queue);
        for body in 0..5 {
            world.publish("", queue, &body.to_string());
        }
    }
    let qos = |count| Request::Qos {
        prefetch_size: 0,
        prefetch_count: count,
        global: true,
    };
    world.request(key(1, 1), qos(3));
    world.get("a");
    let mut count = world.consume(key(1, 1), "a", "1").len() - 1;
    count += world.consume(key(1, 1), "b", "2").len() - 1;
    assert_eq!(count, 3);
    world.request(key(1, 1), qos(1));
    assert_eq!(world.ack(key(1, 1), 2), []);
    assert_eq!(world.ack(key(1, 1), 3), []);
    assert_eq!(world.ack(key(1, 1), 4).len(), 1);
}

#[test]
fn a_slow_reader_gets_only_its_credit() {
    let settings = ShardSettings {
        credit_bytes: 250,
        ..ShardSettings::default()
    };
    let mut world = World::with(settings);
    world.declare("q");
    world.consume(key(1, 1), "q", "t");
    let count: usize = (0..10)
        .map(|_| world.publish("", "q", &"x".repeat(36)).len())
        .sum();
    assert!(count < 5, "{count} deliveries");
    let connection = ConnectionId(1);
    let seen = crate::support::seen(&world.execute(Command::Drained {
        connection,
        bytes: 10_000,
    }));
    assert!(!seen.is_empty());
}

#[test]
fn a_purge_holds_and_leaves_what_is_out() {
    let mut world = World::new();
    world.declare("q");
    for body in ["1", "2", "3"] {
        world.publish("", "q", body);
    }
    world.get("q");
    world.get("q");
    world.requeue(key(1, 1), 1);
    let purge = Request::QueuePurge {
        queue: name("q"),
        nowait: false,
    };
    let seen = world.request(key(1, 1), purge);
    assert_eq!(
        seen,
        [Seen::Reply(Reply::QueuePurgeOk { message_count: 2 })]
    );
    world.restart();
    assert_eq!(world.drain("q"), ["2"]);
}

#[test]
fn gets_that_nobody_reads_wait_for_credit_in_their_order() {
    let settings = ShardSettings {
        credit_bytes: 150,
        ..ShardSettings::default()
    };
    let mut world = World::with(settings);
    world.declare("q");
    for body in ["1", "2", "3", "4", "5"] {
        world.publish("", "q", &body.repeat(60));
    }
    let answered: usize = (0..5).map(|_| world.get("q").len()).sum();
    assert!((1..3).contains(&answered), "{answered} answers");
    assert_eq!(
        world.publish("", "q", "behind"),
        [],
        "the channel waits in order"
    );
    let connection = ConnectionId(1);
    let mut count = answered;
    for _ in 0..5 {
        let drained = Command::Drained {
            connection,
            bytes: 10_000,
        };
        count += crate::support::seen(&world.execute(drained)).len();
    }
    assert_eq!(count, 5);
    assert_eq!(
        world.shard.queues()[0].ready,
        1,
        "what came behind them is there"
    );
}

#[test]
fn a_commit_to_a_queue_that_was_deleted_since_is_refused_as_a_whole() {
    let mut world = World::new();
    world.declare("gone");
    world.declare("there");
    world.open(key(1, 2));
    world.request(key(1, 2), Request::TxSelect);
    for queue in ["there", "gone"] {
        world.request(
            key(1, 2),
            Request::Publish(menzil_core::Publish {
                exchange: name(""),
                routing_key: name(queue),
                mandatory: false,
                properties: vec![0x10, 0, 2].into(),
                body: vec![b"m".to_vec().into()],
            }),
        );
    }
    world.request(
        key(1, 1),
        Request::QueueDelete {
            queue: name("gone"),
            if_unused: false,
            if_empty: false,
            nowait: false,
        },
    );
    let seen = world.request(key(1, 2), Request::TxCommit);
    assert_eq!(seen, [Seen::Refused(Refusal::TransactionRefused)]);
    assert_eq!(world.drain("there"), Vec::<String>::new());
}

/// Otherwise every message would have every queue looked through, and what is stored would have
/// no room beside a backlog that is not.
#[test]
fn messages_that_are_nowhere_else_take_no_room_from_those_that_can_be_read_again() {
    let settings = ShardSettings {
        content_bytes_max: 2000,
        ..ShardSettings::default()
    };
    let mut world = World::with(settings);
    world.declare("stored");
    world.declare("not");
    world.publish("", "stored", "1");
    let held = world.shard.summary().content_bytes;
    assert!(held > 0);
    for _ in 0..30 {
        world.publish_as("", "not", "2", false, Some(1), None);
    }
    assert_eq!(world.shard.summary().content_bytes, held);
    assert!(matches!(world.get("stored").as_slice(), [Seen::Got { .. }]));
    assert_eq!(world.shard.counters().fetched, 0);
}

/// A thousand queues that only wait would take the memory that those in use have need of.
#[test]
fn a_queue_without_consumers_has_its_next_message_in_memory_and_no_other() {
    let mut world = World::new();
    world.declare("idle");
    world.publish("", "idle", "1");
    let held = world.shard.summary().content_bytes;
    assert!(held > 0);
    for body in ["2", "3", "4"] {
        world.publish("", "idle", body);
    }
    assert_eq!(world.shard.summary().content_bytes, held);
    assert_eq!(world.shard.counters().fetched, 0);
    assert!(matches!(world.get("idle").as_slice(), [Seen::Got { body, .. }] if body == "1"));
    assert_eq!(world.shard.counters().fetched, 0);
    // The others come from the journal, all at once.
    assert!(matches!(world.get("idle").as_slice(), [Seen::Got { body, .. }] if body == "2"));
    assert_eq!(world.shard.counters().fetched, 3);
    assert_eq!(world.drain("idle"), ["3", "4"]);
    assert_eq!(world.shard.counters().fetched, 3);
}

#[test]
fn a_deletion_with_many_bindings_is_one_record_and_clears_up_in_slices() {
    let bindings = 700;
    let mut world = World::new();
    world.declare_exchange("x", "topic", Table::empty());
    world.declare("q");
    world.declare("other");
    for number in 0..bindings {
        world.bind("q", "x", &number.to_string());
    }
    world.bind("other", "x", "7");
    let records = world.log.records.len();
    let delete = Request::QueueDelete {
        queue: name("q"),
        if_unused: false,
        if_empty: false,
        nowait: false,
    };
    assert_eq!(world.request(key(1, 1), delete).len(), 1);
    assert_eq!(world.log.records.len(), records + 1);
    assert_eq!(world.shard.summary().bindings, 1);
    assert_eq!(world.shard.deadline(), Some(0), "there is more to do");
    // Meanwhile everything works, and no message finds the dead.
    assert_eq!(world.publish("x", "7", "m"), []);
    assert_eq!(world.publish("x", "8", "lost"), []);
    world.declare("q");
    assert_eq!(world.drain("q"), Vec::<String>::new());
    assert_eq!(world.drain("other"), ["m"]);
    world.restart_from_checkpoint();
    assert_eq!(world.shard.summary().bindings, 1);
    assert_eq!(
        world.shard.deadline(),
        None,
        "a checkpoint has only what lives"
    );
    world.restart();
    assert_eq!(world.shard.summary().bindings, 1);
    assert_eq!(world.shard.deadline(), Some(0));
    world.tick(0);
    assert_eq!(world.shard.deadline(), None);
}

#[test]
fn queues_are_counted_in_steps_and_none_is_left_out() {
    let mut world = World::new();
    world.checks_each = false;
    let mut names: Vec<String> = (0..=2 * QUEUES_COUNTED)
        .map(|queue| format!("q{queue}"))
        .collect();
    for queue in &names {
        world.declare(queue);
    }
    world.publish("", "q7", "a");
    let at = names.iter().position(|name| name == "q1100").unwrap();
    let gone = names.remove(at);
    world.request(
        key(1, 1),
        Request::QueueDelete {
            queue: name(&gone),
            if_unused: false,
            if_empty: false,
            nowait: false,
        },
    );
    let (mut summary, mut queues) = (world.shard.summary_of_objects(), Vec::new());
    let mut from = 0;
    while world
        .shard
        .summarize_queues(from, &mut summary, &mut queues)
    {
        assert!(queues.len() <= from + QUEUES_COUNTED);
        from += QUEUES_COUNTED;
    }
    assert_eq!((summary.queues, summary.messages), (names.len() as u64, 1));
    assert_eq!(summary, world.shard.summary());
    names.sort_unstable();
    queues.sort_by(|a, b| a.name.cmp(&b.name));
    assert_eq!(queues, world.shard.queues());
    assert!(
        queues
            .iter()
            .map(|queue| queue.name.to_string())
            .eq(names.iter().cloned())
    );
    let one = world.shard.queue_summary(b"q7").unwrap();
    assert_eq!((one.ready, one.name), (1, name("q7")));
    assert_eq!(world.shard.queue_summary(b"q1100"), None);
}

#[test]
fn a_virtual_host_counts_from_the_start_and_its_queues_from_the_journal() {
    let mut world = World::new();
    world.declare("q");
    world.publish("", "q", "1");
    world.publish("", "q", "2");
    world.drain("q");
    assert_eq!(world.shard.counters().acknowledged, 2);
    world.restart();
    assert_eq!(world.shard.counters(), Counters::default());
    assert_eq!(world.shard.queues()[0].counters.acknowledged, 2);
}
