//! Who gets what: priorities of consumers, a single active one.

use menzil_core::{Refusal, Reply, Request, ShardSettings};
use menzil_model::{ConnectionId, DeliveryTag, Value};
use proptest::prelude::*;

use crate::support::{Seen, World, arguments, key, name};
use crate::twin::{Twin, play, step};

fn priority(priority: i64) -> menzil_model::Table {
    arguments(&[("x-priority", Value::I64(priority))])
}

/// The bodies that were delivered, each with its tag.
fn delivered(seen: &[Seen]) -> Vec<(u64, &str)> {
    let deliveries = seen.iter().filter_map(|seen| match seen {
        Seen::Delivered { tag, body, .. } => Some((*tag, body.as_str())),
        _ => None,
    });
    deliveries.collect()
}

#[test]
fn a_higher_priority_gets_messages_while_it_has_room() {
    let mut world = World::new();
    world.declare("q");
    world.open(key(1, 2));
    world.qos(key(1, 1), 1);
    world.qos(key(1, 2), 2);
    world.consume(key(1, 1), "q", "low");
    world.consume_with(key(1, 2), "q", "high", priority(5));
    let mut tags = Vec::new();
    for body in ["1", "2", "3", "4"] {
        let seen = world.publish("", "q", body);
        tags.extend(delivered(&seen).iter().map(|(tag, _)| *tag));
    }
    assert_eq!(
        tags,
        [1, 2, 1],
        "two to the high one, then one to the low one"
    );
    let seen = world.ack(key(1, 2), 1);
    assert_eq!(delivered(&seen), [(3, "4")], "the high one has room again");
}

#[test]
fn a_priority_that_is_no_integer_is_refused_and_leaves_nothing() {
    let mut world = World::new();
    world.declare("q");
    let text = arguments(&[("x-priority", Value::LongString(b"5"))]);
    let seen = world.consume_with(key(1, 1), "q", "t", text);
    assert!(
        matches!(
            seen.as_slice(),
            [Seen::Refused(Refusal::InvalidArgument { reason, .. })]
                if reason == "\"expected integer, got longstr\""
        ),
        "{seen:?}"
    );
    assert_eq!(world.shard.queues()[0].consumers, 0);
}

fn declare_single(world: &mut World, kind: &str) {
    let table = arguments(&[
        ("x-single-active-consumer", Value::Bool(true)),
        ("x-queue-type", Value::LongString(kind.as_bytes())),
    ]);
    world.declare_with("q", true, table);
}

#[test]
fn a_single_active_consumer_hands_over_by_priority_then_age() {
    let mut world = World::new();
    declare_single(&mut world, "quorum");
    for channel in 2..5 {
        world.open(key(1, channel));
    }
    world.consume(key(1, 2), "q", "old");
    world.consume(key(1, 3), "q", "young");
    world.consume_with(key(1, 4), "q", "low", priority(-1));
    assert_eq!(delivered(&world.publish("", "q", "1")).len(), 1);
    assert_eq!(world.shard.queues()[0].consumers, 3);
    let close = |channel| menzil_core::Command::ChannelClosed(key(1, channel));
    let effects = world.execute(close(2));
    let given = crate::support::seen(&effects);
    assert_eq!(delivered(&given), [(1, "1")], "the young one has it now");
    world.publish("", "q", "2");
    let effects = world.execute(close(3));
    assert_eq!(
        delivered(&crate::support::seen(&effects)),
        [(1, "1"), (2, "2")],
        "the last one gets them in order"
    );
}

/// Case A18, second half: rabbitmq-server#14141.
#[test]
fn a_higher_priority_takes_over_once_the_active_one_holds_nothing() {
    let mut world = World::new();
    declare_single(&mut world, "quorum");
    world.open(key(1, 2));
    world.open(key(1, 3));
    world.consume(key(1, 2), "q", "first");
    assert_eq!(delivered(&world.publish("", "q", "1")), [(1, "1")]);
    let seen = world.consume_with(key(1, 3), "q", "second", priority(100));
    assert_eq!(delivered(&seen), []);
    let seen = world.publish("", "q", "2");
    assert_eq!(delivered(&seen), [], "nobody gets more meanwhile");
    let seen = world.ack(key(1, 2), 1);
    assert_eq!(delivered(&seen), [(1, "2")]);
    let seen = world.publish("", "q", "3");
    assert_eq!(delivered(&seen), [(2, "3")], "deliveries go on");
    assert_eq!(world.ack(key(1, 3), 1), [], "and it was the second one's");
}

#[test]
fn an_exclusive_consumer_of_a_single_active_queue_is_answered_as_its_type_answers() {
    for (kind, is_refused) in [("classic", true), ("quorum", false)] {
        let mut world = World::new();
        declare_single(&mut world, kind);
        for _ in 0..2 {
            let mut consume = world.consume_of("q", "");
            consume.exclusive = true;
            let seen = world.request(key(1, 1), Request::Consume(consume));
            assert_eq!(
                seen == [Seen::Refused(Refusal::ExclusiveUse(name("q")))],
                is_refused,
                "{seen:?}"
            );
            world.open(key(1, 1));
        }
    }
}

#[test]
fn a_single_active_quorum_queue_has_no_get() {
    let mut world = World::new();
    declare_single(&mut world, "quorum");
    assert_eq!(
        world.get("q"),
        [Seen::Refused(Refusal::SingleActiveConsumer(name("q")))]
    );
    let mut world = World::new();
    declare_single(&mut world, "classic");
    assert_eq!(world.get("q"), [Seen::Reply(Reply::GetEmpty)]);
}

fn declare_impatient(world: &mut World, timeout: i64) {
    let table = arguments(&[("x-consumer-timeout", Value::I64(timeout))]);
    world.declare_with("q", true, table);
}

#[test]
fn a_consumer_that_settles_nothing_in_time_is_cancelled_and_no_other() {
    let mut world = World::new();
    declare_impatient(&mut world, 1000);
    world.open(key(1, 2));
    world.qos(key(1, 1), 2);
    world.consume(key(1, 1), "q", "slow");
    for body in ["1", "2", "3"] {
        world.publish("", "q", body);
    }
    world.tick(900);
    assert_eq!(delivered(&world.ack(key(1, 1), 1)), [(3, "3")]);
    assert_eq!(world.tick(99), []);
    world.consume(key(1, 2), "q", "other");
    let seen = world.tick(1);
    let redelivered = |tag, body: &str| Seen::Delivered {
        tag,
        body: body.to_owned(),
        redelivered: true,
    };
    let cancelled = Seen::Cancelled("slow".to_owned());
    assert_eq!(
        seen,
        [cancelled, redelivered(1, "2"), redelivered(2, "3")],
        "the other one has them"
    );
    assert_eq!(world.shard.counters().consumers_timed_out, 1);
    assert_eq!(world.ack(key(1, 1), 2), [], "settled late, without effect");
    assert_eq!(
        world.ack(key(1, 1), 2),
        [Seen::Refused(Refusal::UnknownDeliveryTag(DeliveryTag(2)))]
    );
    assert_eq!(world.ack(key(1, 2), 1), []);
    assert_eq!(world.ack(key(1, 2), 2), []);
    assert_eq!(world.tick(10_000), [], "who has settled is not late");
    assert_eq!(world.shard.queues()[0].unsettled, 0);
}

#[test]
fn the_consumers_own_timeout_goes_before_the_queues_and_zero_is_none() {
    let mut world = World::new();
    declare_impatient(&mut world, 1000);
    let timeout = |time| arguments(&[("x-consumer-timeout", Value::I32(time))]);
    for (channel, tag, time) in [(2, "short", 100), (3, "none", 0)] {
        world.open(key(1, channel));
        world.qos(key(1, channel), 1);
        world.consume_with(key(1, channel), "q", tag, timeout(time));
    }
    world.publish("", "q", "1");
    world.publish("", "q", "2");
    assert_eq!(world.tick(99), []);
    assert_eq!(world.tick(1), [Seen::Cancelled("short".to_owned())]);
    assert_eq!(
        world.shard.queues()[0].consumers,
        1,
        "the short one is gone"
    );
    assert_eq!(world.tick(1_000_000), []);
    assert_eq!(world.shard.queues()[0].consumers, 1);
}

#[test]
fn a_client_that_could_not_be_told_has_its_channel_closed() {
    let mut world = World::new();
    declare_impatient(&mut world, 100);
    world.execute(menzil_core::Command::ConnectionOpened {
        connection: ConnectionId(2),
        user: name("guest"),
        cancel_notify: false,
    });
    world.open(key(2, 1));
    world.consume(key(2, 1), "q", "t");
    world.publish("", "q", "1");
    let refusal = Refusal::ConsumerTimeout {
        channel: key(2, 1).channel,
        timeout: 100,
    };
    assert_eq!(world.tick(110), [Seen::Refused(refusal)]);
    assert_eq!(world.drain("q"), ["1"]);
}

#[test]
fn what_a_transaction_settles_too_late_goes_back_all_the_same() {
    let mut world = World::new();
    declare_impatient(&mut world, 100);
    world.open(key(1, 2));
    world.request(key(1, 2), Request::TxSelect);
    world.consume(key(1, 2), "q", "t");
    world.publish("", "q", "1");
    world.ack(key(1, 2), 1);
    assert_eq!(world.tick(110), [Seen::Cancelled("t".to_owned())]);
    let seen = world.request(key(1, 2), Request::TxCommit);
    assert_eq!(seen, [Seen::Reply(Reply::TxCommitOk)]);
    assert_eq!(world.drain("q"), ["1"]);
}

#[test]
fn what_may_be_settled_late_is_bounded() {
    let mut world = World::with(ShardSettings {
        credit_bytes: 1 << 30,
        ..ShardSettings::default()
    });
    declare_impatient(&mut world, 100);
    let publish = menzil_core::Publish {
        exchange: name(""),
        routing_key: name("q"),
        mandatory: false,
        properties: vec![0, 0].into(),
        body: Vec::new(),
    };
    for _ in 0..40_000 {
        // The invariants are looked at less often than otherwise: that would take minutes.
        world.shard.execute(
            world.now,
            menzil_core::Command::Request {
                channel: key(1, 1),
                request: Request::Publish(publish.clone()),
            },
            &mut world.log,
            &mut Vec::new(),
        );
    }
    world.open(key(1, 2));
    world.consume(key(1, 2), "q", "t");
    assert_eq!(world.tick(110), [Seen::Cancelled("t".to_owned())]);
    world.consume(key(1, 2), "q", "t");
    let seen = world.tick(110);
    assert!(
        matches!(
            seen.as_slice(),
            [Seen::Refused(Refusal::ConsumerTimeout { .. })]
        ),
        "{seen:?}"
    );
    assert_eq!(world.shard.queues()[0].ready, 40_000);
}

/// Small bounds, so that reading from the journal takes part.
fn small(content_bytes_max: u64) -> ShardSettings {
    ShardSettings {
        content_bytes_max,
        index_page_entries: 3,
        ..ShardSettings::default()
    }
}

proptest! {
    #[test]
    fn consumers_with_priorities_get_what_a_naive_queue_gives(
        single_active in any::<bool>(),
        timeout in prop::option::of(10..30_u64),
        content in prop_oneof![Just(0_u64), Just(1 << 20)],
        steps in prop::collection::vec(step(), 0..80),
    ) {
        let queue = arguments(&[
            ("x-single-active-consumer", Value::Bool(single_active)),
            ("x-consumer-timeout", Value::I64(timeout.unwrap_or_default().cast_signed())),
        ]);
        let twin = Twin::new(single_active, false).with_timeout(timeout);
        play(World::with(small(content)), twin, queue, &steps);
    }
}
