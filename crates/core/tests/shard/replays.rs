//! New bindings that get what their exchange kept.

use crate::stores::{check_references, keeping, retaining};
use crate::support::{Seen, World, arguments, key, name, seen};
use menzil_core::testing::MemoryScratch;
use menzil_core::{Command, Effect, ExchangeBind, Object, Refusal, Reply, Request, ShardSettings};
use menzil_model::{ConnectionId, Name, Properties, Table, Value};
use proptest::prelude::*;

/// Nothing stays in memory that can be read, and pages are short.
fn reading() -> World {
    World::with(ShardSettings {
        content_bytes_max: 0,
        index_page_entries: 64,
        chunk_bytes: 16,
        ..ShardSettings::default()
    })
}

fn from(value: Value<'_>) -> Table {
    arguments(&[("x-replay-from", value)])
}

const FIRST: Value<'_> = Value::LongString(b"first");

fn replay(world: &mut World, ends: (&str, &str, &str), value: Value<'_>) {
    let seen = world.bind_with(key(1, 1), ends, from(value));
    assert_eq!(seen, [Seen::Reply(Reply::QueueBindOk)]);
}

fn keep_all(world: &mut World, exchange: &str, kind: &str) {
    retaining(
        world,
        exchange,
        kind,
        &[("x-retain-messages", Value::I32(100_000))],
    );
}

fn numbers(range: std::ops::Range<u32>) -> Vec<String> {
    range.map(|number| number.to_string()).collect()
}

#[test]
fn recent_history_goes_to_each_new_binding_in_order_and_before_what_comes() {
    let mut world = World::new();
    retaining(
        &mut world,
        "h",
        "x-recent-history",
        &[("x-recent-history-length", Value::I8(3))],
    );
    for body in numbers(0..5) {
        world.publish("h", "any", &body);
    }
    world.declare("q");
    world.bind("q", "h", "");
    world.publish("h", "other", "5");
    world.bind("q", "h", "");
    assert_eq!(world.drain("q"), numbers(2..6), "once");
    world.restart();
    world.declare("p");
    world.bind("p", "h", "");
    assert_eq!(world.drain("p"), numbers(3..6));
    check_references(&world);
}

#[test]
fn a_replay_takes_what_matches_of_every_kind() {
    for mut world in [World::new(), reading()] {
        for kind in ["direct", "topic", "fanout", "headers"] {
            keep_all(&mut world, kind, kind);
        }
        for (number, routing_key) in (0..).zip(["a.b", "a.c", "a.b", "b.b"]) {
            for kind in ["direct", "topic", "fanout"] {
                let body = format!("{number} {}", "x".repeat(10 * number));
                world.publish(kind, routing_key, &body);
            }
        }
        let mut first_of = |ends: (&str, &str, &str), table: Table| -> Vec<String> {
            world.declare(ends.0);
            let seen = world.bind_with(key(1, 1), ends, table);
            assert_eq!(seen, [Seen::Reply(Reply::QueueBindOk)]);
            let bodies = world.drain(ends.0);
            bodies.iter().map(|body| body[..1].to_owned()).collect()
        };
        assert_eq!(first_of(("d", "direct", "a.b"), from(FIRST)), ["0", "2"]);
        assert_eq!(
            first_of(("t", "topic", "a.*"), from(FIRST)),
            ["0", "1", "2"]
        );
        assert_eq!(
            first_of(("f", "fanout", ""), from(FIRST)),
            ["0", "1", "2", "3"]
        );
        let last = from(Value::LongString(b"last"));
        assert_eq!(first_of(("l", "direct", "a.b"), last), ["2"]);
        assert_eq!(
            first_of(("2", "topic", "#.b"), from(Value::I32(2))),
            ["2", "3"]
        );
        assert_eq!(first_of(("0", "fanout", ""), from(Value::I32(0))), [""; 0]);
        assert_eq!(
            first_of(("9", "fanout", ""), from(Value::I32(9))),
            ["0", "1", "2", "3"]
        );
        assert_eq!(
            first_of(("n", "fanout", ""), Table::empty()),
            [""; 0],
            "none asked for"
        );
        check_references(&world);
    }
}

fn publish_with_headers(world: &mut World, exchange: &str, headers: &Table, body: &str) {
    let properties = Properties {
        headers: Some(headers.as_bytes()),
        delivery_mode: Some(2),
        ..Properties::default()
    };
    world.publish_with(exchange, "k", body, false, &properties);
}

#[test]
fn headers_match_and_where_to_begin_is_no_header() {
    let mut world = reading();
    keep_all(&mut world, "x", "headers");
    for (body, value) in [("1", "eu"), ("2", "us"), ("3", "eu")] {
        let headers = arguments(&[("region", Value::LongString(value.as_bytes()))]);
        publish_with_headers(&mut world, "x", &headers, body);
    }
    for matching in ["all", "any", "all-with-x", "any-with-x"] {
        let queue = format!("q-{matching}");
        world.declare(&queue);
        let table = arguments(&[
            ("x-match", Value::LongString(matching.as_bytes())),
            ("region", Value::LongString(b"eu")),
            ("x-replay-from", FIRST),
        ]);
        world.bind_with(key(1, 1), (&queue, "x", ""), table);
        assert_eq!(world.drain(&queue), ["1", "3"], "{matching}");
    }
}

#[test]
fn a_hash_exchange_replays_what_it_would_send_there() {
    let mut world = reading();
    keep_all(&mut world, "x", "x-consistent-hash");
    for number in numbers(0..40) {
        world.publish("x", &number, &number);
    }
    world.declare("a");
    world.declare("b");
    replay(&mut world, ("a", "x", "1"), FIRST);
    assert_eq!(world.drain("a"), numbers(0..40), "the only one");
    replay(&mut world, ("b", "x", "1"), FIRST);
    let of_b = world.drain("b");
    assert!(!of_b.is_empty() && of_b.len() < 40, "{of_b:?}");
    for number in numbers(0..40) {
        world.publish("x", &number, &number);
    }
    assert_eq!(world.drain("b"), of_b, "as live ones go");
}

#[test]
fn times_are_those_of_passing() {
    let mut world = reading();
    world.tick(100_000);
    keep_all(&mut world, "x", "direct");
    let began = world.now;
    for body in numbers(0..5) {
        world.publish("x", "k", &body);
        world.tick(1000);
    }
    for (queue, value, expected) in [
        ("a", Value::Timestamp(began / 1000 + 2), 2..5),
        ("b", Value::Timestamp(0), 0..5),
        ("c", Value::Timestamp(u64::MAX), 0..0),
        ("d", Value::LongString(b"3s"), 2..5),
        ("e", Value::LongString(b"1h"), 0..5),
        ("f", Value::LongString(b"0s"), 0..0),
    ] {
        world.declare(queue);
        replay(&mut world, (queue, "x", "k"), value);
        assert_eq!(world.drain(queue), numbers(expected), "{value:?}");
    }
}

/// What is asked of the driver, carried out until nothing is.
fn answer_all(world: &mut World, mut effects: Vec<Effect>) -> Vec<Seen> {
    let mut all = Vec::new();
    while !effects.is_empty() {
        all.extend(seen(&effects));
        effects = world.answer(&effects);
    }
    all
}

fn bind_request(queue: &str, exchange: &str, routing_key: &str, table: Table) -> Command {
    Command::Request {
        channel: key(1, 2),
        request: Request::QueueBind(menzil_core::QueueBind {
            queue: name(queue),
            exchange: name(exchange),
            routing_key: name(routing_key),
            nowait: false,
            arguments: table,
        }),
    }
}

/// All bodies, as one consumer gets them.
fn consume_all(world: &mut World, queue: &str) -> Vec<String> {
    world.open(key(1, 9));
    let delivered = world.consume(key(1, 9), queue, "all");
    let bodies = delivered.into_iter().filter_map(|seen| match seen {
        Seen::Delivered { body, .. } => Some(body),
        _ => None,
    });
    bodies.collect()
}

#[test]
fn what_is_published_meanwhile_comes_behind_once() {
    let mut world = reading();
    world.open(key(1, 2));
    keep_all(&mut world, "x", "direct");
    world.fill("x", "k", &numbers(0..600));
    world.declare("q");
    world.answer_fetches = false;
    let mut effects = world.execute(bind_request("q", "x", "k", from(FIRST)));
    assert!(seen(&effects).is_empty(), "it has to read");
    assert_eq!(world.shard.parked_bytes(ConnectionId(1)), Some(0));
    let mut next = 600;
    let mut answers = Vec::new();
    while !effects.is_empty() {
        world.publish("x", "k", &next.to_string());
        world.publish("x", "other", "not this one");
        next += 1;
        answers.extend(seen(&effects));
        effects = world.answer(&effects);
    }
    assert_eq!(answers, [Seen::Reply(Reply::QueueBindOk)]);
    assert_eq!(world.shard.parked_bytes(ConnectionId(1)), None);
    world.publish("x", "k", &next.to_string());
    world.answer_fetches = true;
    assert!(next > 602);
    let (count, ready) = (u64::from(next) + 1, world.shard.queues()[0].ready);
    assert_eq!(ready, count);
    let consumed = consume_all(&mut world, "q");
    assert_eq!(consumed, numbers(0..next + 1));
    check_references(&world);
}

#[test]
fn while_one_reads_another_gets_no_more_than_is_kept() {
    let mut world = reading();
    world.open(key(1, 2));
    keeping(&mut world, "x", "direct", 3);
    for body in numbers(0..3) {
        world.publish("x", "k", &body);
    }
    world.declare("slow");
    world.declare("late");
    world.answer_fetches = false;
    let slow = world.execute(bind_request("slow", "x", "k", from(FIRST)));
    for body in numbers(3..6) {
        world.publish("x", "k", &body);
    }
    world.answer_fetches = true;
    replay(&mut world, ("late", "x", "k"), FIRST);
    let answers = answer_all(&mut world, slow);
    assert_eq!(answers, [Seen::Reply(Reply::QueueBindOk)]);
    assert_eq!(world.drain("late"), numbers(3..6));
    assert_eq!(world.drain("slow"), numbers(0..6));
    world.tick(0);
    assert_eq!(world.shard.summary().retained, 3);
    check_references(&world);
}

#[test]
fn a_long_replay_is_sliced() {
    let mut world = World::new();
    keep_all(&mut world, "x", "fanout");
    world.fill("x", "", &numbers(0..5000));
    world.declare("q");
    let seen = world.bind_with(key(1, 1), ("q", "x", ""), from(FIRST));
    assert_eq!(seen, []);
    world.now += 1;
    assert_eq!(world.shard.deadline(), Some(0));
    assert_eq!(world.tick(0), [Seen::Reply(Reply::QueueBindOk)]);
    assert_eq!(world.shard.queues()[0].ready, 5000);
    assert_eq!(
        world.log.records.last().unwrap().len() / 5000,
        0,
        "less than a byte each"
    );
}

#[test]
fn what_is_asked_behind_a_replay_waits_for_it() {
    let mut world = reading();
    world.open(key(1, 2));
    keep_all(&mut world, "x", "direct");
    world.publish("x", "k", "1");
    world.declare("q");
    world.answer_fetches = false;
    let effects = world.execute(bind_request("q", "x", "k", from(FIRST)));
    let get = Request::Get {
        queue: name("q"),
        no_ack: true,
    };
    assert_eq!(world.request(key(1, 2), get), []);
    let answers = answer_all(&mut world, effects);
    assert!(
        matches!(answers.as_slice(), [Seen::Reply(Reply::QueueBindOk), Seen::Got { body, .. }] if body == "1"),
        "{answers:?}"
    );
}

#[test]
fn a_replay_goes_on_without_its_channel_and_ends_without_its_ends() {
    for case in 0..4 {
        let mut world = reading();
        world.open(key(1, 2));
        keep_all(&mut world, "x", "direct");
        world.fill("x", "k", &numbers(0..600));
        world.declare("q");
        world.answer_fetches = false;
        let effects = world.execute(bind_request("q", "x", "k", from(FIRST)));
        let delete = |request| Command::Request {
            channel: key(1, 1),
            request,
        };
        let gone = match case {
            0 => {
                world.execute(Command::ChannelClosed(key(1, 2)));
                None
            }
            1 => {
                world.execute(Command::ConnectionClosed {
                    connection: ConnectionId(1),
                });
                None
            }
            2 => {
                world.execute(delete(Request::QueueDelete {
                    queue: name("q"),
                    if_unused: false,
                    if_empty: false,
                    nowait: false,
                }));
                Some(Object::Queue(Name::from("q")))
            }
            _ => {
                world.execute(delete(Request::ExchangeDelete {
                    exchange: name("x"),
                    if_unused: false,
                    nowait: false,
                }));
                Some(Object::Exchange(Name::from("x")))
            }
        };
        let answers = answer_all(&mut world, effects);
        world.answer_fetches = true;
        world.tick(0);
        if let Some(gone) = gone {
            // Deleting the exchange tells at once, and not with what was read.
            assert!(answers.is_empty() || answers == [Seen::Refused(Refusal::NotFound(gone))]);
            assert_eq!(world.shard.summary().bindings, 0);
        } else {
            assert_eq!(answers, []);
            if case == 1 {
                world.connect(1);
                world.open(key(1, 1));
            }
            assert_eq!(consume_all(&mut world, "q"), numbers(0..600));
        }
        check_references(&world);
    }
}

#[test]
fn a_binding_to_an_exchange_routes_through_it() {
    let mut world = reading();
    retaining(&mut world, "h", "x-recent-history", &[]);
    for (body, routing_key) in [("1", "a"), ("2", "b"), ("3", "a")] {
        world.publish("h", routing_key, body);
    }
    keep_all(&mut world, "x", "direct");
    world.declare("qa");
    world.declare("qb");
    world.bind("qa", "x", "a");
    world.bind("qb", "x", "b");
    let bind = ExchangeBind {
        source: name("h"),
        destination: name("x"),
        routing_key: name(""),
        nowait: false,
        arguments: Table::empty(),
    };
    let seen = world.request(key(1, 1), Request::ExchangeBind(bind));
    assert_eq!(seen, [Seen::Reply(Reply::ExchangeBindOk)]);
    assert_eq!(world.drain("qa"), ["1", "3"]);
    assert_eq!(world.drain("qb"), ["2"]);
    // They passed through the second exchange too, and it keeps them.
    world.declare("late");
    replay(&mut world, ("late", "x", "a"), FIRST);
    world.restart();
    assert_eq!(world.drain("late"), ["1", "3"]);
    check_references(&world);
}

#[test]
fn limits_and_times_to_live_of_the_queue_hold() {
    let mut world = reading();
    keep_all(&mut world, "x", "direct");
    for body in numbers(0..10) {
        world.publish("x", "k", &body);
    }
    let limit = ("x-max-length", Value::I32(4));
    world.declare_with("drop", true, arguments(&[limit]));
    replay(&mut world, ("drop", "x", "k"), FIRST);
    let refuse = ("x-overflow", Value::LongString(b"reject-publish"));
    world.declare_with("refuse", true, arguments(&[limit, refuse]));
    world.publish("", "refuse", "before");
    replay(&mut world, ("refuse", "x", "k"), FIRST);
    world.declare_with("ttl", true, arguments(&[("x-message-ttl", Value::I32(50))]));
    replay(&mut world, ("ttl", "x", "k"), FIRST);
    world.restart();
    assert_eq!(world.drain("drop"), numbers(6..10));
    assert_eq!(world.drain("refuse"), ["before", "0", "1", "2"]);
    world.tick(49);
    assert_eq!(
        world
            .shard
            .queues()
            .iter()
            .map(|queue| queue.ready)
            .sum::<u64>(),
        10
    );
    world.tick(1);
    assert_eq!(world.drain("ttl"), [""; 0]);
    check_references(&world);
}

#[test]
fn groups_hold_for_what_comes_before_what_was_looked_at() {
    let mut world = World::new();
    keep_all(&mut world, "x", "fanout");
    for (priority, body) in [(1, "1"), (0, "2"), (1, "3")] {
        let headers = arguments(&[("g", Value::LongString(b"same"))]);
        let properties = Properties {
            headers: Some(headers.as_bytes()),
            priority: Some(priority),
            delivery_mode: Some(2),
            ..Properties::default()
        };
        world.publish_with("x", "", body, false, &properties);
    }
    let table = arguments(&[
        ("x-max-priority", Value::U8(2)),
        ("x-group-header", Value::LongString(b"g")),
    ]);
    world.declare_with("q", true, table);
    for body in ["a", "b"] {
        world.publish("", "q", body);
    }
    world.open(key(1, 2));
    let qos = Request::Qos {
        prefetch_size: 0,
        prefetch_count: 1,
        global: false,
    };
    world.request(key(1, 2), qos);
    let mut delivered = world.consume(key(1, 2), "q", "one");
    replay(&mut world, ("q", "x", ""), FIRST);
    for tag in 1..=4 {
        delivered.extend(world.ack(key(1, 2), tag));
    }
    let bodies = delivered.into_iter().filter_map(|seen| match seen {
        Seen::Delivered { body, .. } => Some(body),
        _ => None,
    });
    assert_eq!(bodies.collect::<Vec<_>>(), ["a", "1", "3", "b", "2"]);
    check_references(&world);
}

#[test]
fn a_message_lives_as_long_as_it_would_have_but_history_lives_anew() {
    let mut world = World::new();
    keep_all(&mut world, "x", "fanout");
    retaining(&mut world, "h", "x-recent-history", &[]);
    for exchange in ["x", "h"] {
        world.publish_as(exchange, "", exchange, false, Some(2), Some("100"));
    }
    world.tick(60);
    world.declare("q");
    replay(&mut world, ("q", "x", ""), FIRST);
    world.bind("q", "h", "");
    world.tick(40);
    assert_eq!(world.shard.queues()[0].ready, 1);
    world.tick(59);
    assert_eq!(world.drain("q"), ["h"]);
    world.bind("q", "h", "again");
    world.tick(100);
    assert_eq!(world.drain("q"), [""; 0]);
}

#[test]
fn what_is_not_in_the_journal_is_replayed_from_memory() {
    let mut world = reading();
    keep_all(&mut world, "x", "direct");
    for (number, mode) in [1, 2, 1, 1, 2, 2].into_iter().enumerate() {
        world.publish_as("x", "k", &number.to_string(), false, Some(mode), None);
    }
    world.declare("q");
    replay(&mut world, ("q", "x", "k"), FIRST);
    world.declare_with("t", false, Table::empty());
    replay(&mut world, ("t", "x", "k"), FIRST);
    check_references(&world);
    assert_eq!(world.drain("t"), numbers(0..6), "in order");
    world.restart();
    assert_eq!(world.drain("q"), ["1", "4", "5"], "the durable ones");
    check_references(&world);
}

#[test]
fn a_crash_leaves_the_binding_with_all_it_got_or_neither() {
    let mut world = reading();
    keep_all(&mut world, "x", "direct");
    for body in numbers(0..20) {
        world.publish("x", "k", &body);
    }
    world.declare("q");
    let before = world.log.records.len();
    replay(&mut world, ("q", "x", "k"), FIRST);
    assert_eq!(
        world.log.records.len(),
        before + 1,
        "one record, and no body"
    );
    assert!(world.log.record(before as u64 + 1).len() < 200);
    let mut cut = World::new();
    cut.log.records = world.log.records[..before].to_vec();
    cut.restart();
    assert_eq!(cut.drain("q"), [""; 0]);
    assert_eq!(cut.shard.summary().bindings, 0);
    world.restart();
    assert_eq!(world.shard.summary().bindings, 1);
    assert_eq!(world.drain("q"), numbers(0..20));
}

#[test]
fn entries_outlive_what_the_exchange_keeps() {
    let mut world = reading();
    keeping(&mut world, "x", "fanout", 3);
    for body in numbers(0..3) {
        world.publish("x", "", &body);
    }
    world.declare("q");
    replay(&mut world, ("q", "x", ""), FIRST);
    for body in numbers(3..6) {
        world.publish("x", "", &body);
    }
    check_references(&world);
    assert_eq!(world.drain("q"), numbers(0..6));
    check_references(&world);
}

#[test]
fn where_to_begin_is_checked_and_nothing_changes() {
    let mut world = World::new();
    world.declare("q");
    keep_all(&mut world, "x", "fanout");
    let wanted = |given: &str| {
        format!(
            "it is {given}, and must be first, last, a count, a timestamp, or an interval such as \
             1h"
        )
    };
    for (exchange, value, reason) in [
        (
            "amq.fanout",
            FIRST,
            "the exchange keeps nothing: it needs x-retain-messages, x-retain-bytes or \
             x-retain-age, or a policy of them",
        ),
        ("x", Value::LongString(b"soon"), &wanted("\"soon\"")),
        ("x", Value::I32(-1), &wanted("-1")),
        ("x", Value::Void, &wanted("void")),
    ] {
        let seen = world.bind_with(key(1, 1), ("q", exchange, ""), from(value));
        let refusal = Refusal::InvalidArgument {
            object: Object::Exchange(name(exchange)),
            argument: Name::from("x-replay-from"),
            reason: reason.to_owned(),
        };
        assert_eq!(seen, [Seen::Refused(refusal)]);
        world.open(key(1, 1));
    }
    assert_eq!(world.shard.summary().bindings, 0);
}

#[test]
fn a_full_disk_takes_no_replay() {
    let mut world = reading();
    keep_all(&mut world, "x", "direct");
    world.publish("x", "k", "1");
    world.declare("q");
    world.log.full = true;
    let seen = world.bind_with(key(1, 1), ("q", "x", "k"), from(FIRST));
    assert_eq!(seen, [Seen::Refused(Refusal::NoRoom)]);
    world.open(key(1, 1));
    world.log.full = false;
    replay(&mut world, ("q", "x", "k"), FIRST);
    assert_eq!(world.drain("q"), ["1"]);
}

/// What is done in a random life.
#[derive(Clone, Debug)]
enum Step {
    Publish {
        routing_key: usize,
        persistent: bool,
        priority: u8,
    },
    Replay {
        durable: bool,
        routing_key: usize,
        from: u8,
        priorities: bool,
    },
    Wait(u16),
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..2_usize, any::<bool>(), 0..4_u8).prop_map(
            |(routing_key, persistent, priority)| Step::Publish { routing_key, persistent, priority }
        ),
        3 => (any::<bool>(), 0..3_usize, 0..8_u8, any::<bool>()).prop_map(
            |(durable, routing_key, from, priorities)| {
                Step::Replay { durable, routing_key, from, priorities }
            }
        ),
        2 => (0..900_u16).prop_map(Step::Wait),
        1 => Just(Step::Restart),
    ]
}

/// A message that a naive exchange keeps.
#[derive(Clone, Debug)]
struct Kept {
    at: u64,
    routing_key: &'static str,
    persistent: bool,
    priority: u8,
    body: String,
}

const KEYS: [&str; 2] = ["a.x", "b.x"];
const PATTERNS: [&str; 3] = ["a.x", "*.x", "nothing"];

/// What a new binding gets, by looking at everything.
fn naive(kept: &[Kept], pattern: &str, from: u8, now: u64, priorities: bool) -> Vec<Kept> {
    let matches = |one: &&Kept| pattern == "*.x" || pattern == one.routing_key;
    let since = |time: u64| move |one: &&Kept| one.at >= time;
    let all: Vec<Kept> = kept.iter().filter(matches).cloned().collect();
    let mut got: Vec<Kept> = match from {
        0 => all,
        1 => all.iter().rev().take(1).cloned().collect(),
        2 => all.iter().filter(since(now - 1000)).cloned().collect(),
        3 => all
            .iter()
            .filter(since(now / 1000 * 1000))
            .cloned()
            .collect(),
        number => all[all.len().saturating_sub(number.into())..].to_vec(),
    };
    if priorities {
        got.sort_by_key(|one| std::cmp::Reverse(one.priority.min(2)));
    }
    got
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn replays_are_those_of_a_naive_exchange(
        steps in prop::collection::vec(step(), 1..80),
        cache in prop::sample::select(&[0, 1 << 20][..]),
        page in prop::sample::select(&[1, 3, 256][..]),
        length in 1..12_u8,
    ) {
        let mut world = World::with(ShardSettings {
            content_bytes_max: cache,
            index_page_entries: page,
            index_bytes_max: cache,
            scratch: Some(MemoryScratch::shared()),
            ..ShardSettings::default()
        });
        let limits = [
            ("x-retain-messages", Value::U8(length)),
            ("x-retain-age", Value::LongString(b"3s")),
        ];
        world.tick(10_000);
        retaining(&mut world, "x", "topic", &limits);
        let mut kept: Vec<Kept> = Vec::new();
        for (number, step) in steps.iter().enumerate() {
            match *step {
                Step::Publish { routing_key, persistent, priority } => {
                    let body = number.to_string();
                    let properties = Properties {
                        delivery_mode: Some(if persistent { 2 } else { 1 }),
                        priority: Some(priority),
                        ..Properties::default()
                    };
                    let routing_key = KEYS[routing_key];
                    world.publish_with("x", routing_key, &body, false, &properties);
                    kept.push(Kept { at: world.now, routing_key, persistent, priority, body });
                }
                Step::Replay { durable, routing_key, from: begin, priorities } => {
                    let queue = format!("q{number}");
                    let max = [("x-max-priority", Value::U8(2))];
                    let table = arguments(if priorities { &max } else { &[] });
                    world.declare_with(&queue, durable, table);
                    let value = match begin {
                        0 => FIRST,
                        1 => Value::LongString(b"last"),
                        2 => Value::LongString(b"1s"),
                        3 => Value::Timestamp(world.now / 1000),
                        count => Value::U8(count),
                    };
                    let pattern = PATTERNS[routing_key];
                    replay(&mut world, (&queue, "x", pattern), value);
                    check_references(&world);
                    let expected = naive(&kept, pattern, begin, world.now, priorities);
                    let is_there = |one: &&Kept| !durable || one.persistent;
                    let mut expected: Vec<&Kept> = expected.iter().collect();
                    // Half of the durable ones are looked at after a crash.
                    if durable && number % 2 == 0 {
                        world.restart();
                        kept.retain(|one| one.persistent);
                        expected.retain(is_there);
                    }
                    let expected: Vec<String> =
                        expected.iter().map(|one| one.body.clone()).collect();
                    prop_assert_eq!(world.drain(&queue), expected);
                    let delete = Request::QueueDelete {
                        queue: name(&queue),
                        if_unused: false,
                        if_empty: false,
                        nowait: false,
                    };
                    world.request(key(1, 1), delete);
                }
                Step::Wait(milliseconds) => {
                    world.tick(milliseconds.into());
                }
                Step::Restart => {
                    world.restart();
                    kept.retain(|one| one.persistent);
                }
            }
            kept.retain(|one| one.at + 3000 > world.now);
            let over = kept.len().saturating_sub(length.into());
            kept.drain(..over);
            prop_assert_eq!(world.shard.summary().retained, kept.len() as u64);
            check_references(&world);
        }
    }
}
