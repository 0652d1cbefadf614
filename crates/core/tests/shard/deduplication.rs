//! A queue that deduplicates stores each message once, remembers that as long as it was asked to,
//! and says so to who sends again.

use bytes::Bytes;
use menzil_core::{
    Command, Effect, Output, Publish, QueueCounters, Rejection, Reply, Request, Shard,
    ShardSettings,
};
use menzil_model::{DeliveryTag, Fact, Properties, Table, Value};
use proptest::prelude::*;

use crate::stores::check_references;
use crate::support::{Seen, World, arguments, key, name, references_of};

/// What a message is published with.
#[derive(Clone, Copy, Debug)]
struct Mail<'a> {
    id: Option<&'a str>,
    header: Option<Value<'a>>,
    delay: Option<i32>,
    persistent: bool,
    mandatory: bool,
}

impl<'a> Mail<'a> {
    fn id(id: &'a str) -> Self {
        Self {
            id: Some(id),
            header: None,
            delay: None,
            persistent: true,
            mandatory: false,
        }
    }

    fn header(value: Value<'a>) -> Self {
        Self {
            header: Some(value),
            ..Self::id("same")
        }
    }

    fn delayed(self, milliseconds: i32) -> Self {
        Self {
            delay: Some(milliseconds),
            ..self
        }
    }

    fn transient(self) -> Self {
        Self {
            persistent: false,
            ..self
        }
    }

    fn publish(&self, exchange: &str, routing_key: &str, body: &str) -> Request {
        let delay = self.delay.map(|delay| ("x-delay", Value::I32(delay)));
        let headers = self.header.map(|value| ("key", value));
        let headers: Vec<_> = headers.into_iter().chain(delay).collect();
        let headers = (!headers.is_empty()).then(|| arguments(&headers));
        let properties = Properties {
            delivery_mode: Some(if self.persistent { 2 } else { 1 }),
            message_id: self.id.map(str::as_bytes),
            headers: headers.as_ref().map(Table::as_bytes),
            ..Properties::default()
        };
        let mut bytes = Vec::new();
        properties.write(&mut bytes);
        Request::Publish(Publish {
            exchange: name(exchange),
            routing_key: name(routing_key),
            mandatory: self.mandatory,
            properties: Bytes::from(bytes),
            body: vec![Bytes::copy_from_slice(body.as_bytes())],
        })
    }
}

fn once(extra: &[(&str, Value<'_>)]) -> Table {
    let mut all = vec![("x-deduplication", Value::Bool(true))];
    all.extend_from_slice(extra);
    arguments(&all)
}

/// A world in confirm mode with a queue `once`.
fn world(extra: &[(&str, Value<'_>)]) -> World {
    let mut world = World::new();
    let declared = world.declare_with("once", true, once(extra));
    assert!(
        matches!(declared[..], [Seen::Reply(Reply::QueueDeclareOk { .. })]),
        "{declared:?}"
    );
    world.confirm_select();
    world
}

fn send(world: &mut World, mail: Mail<'_>, body: &str) -> Vec<Seen> {
    world.request(key(1, 1), mail.publish("", "once", body))
}

/// The verdict, and the index that it waits for.
fn verdict(world: &mut World, mail: Mail<'_>, routing: (&str, &str), body: &str) -> (bool, u64) {
    let request = mail.publish(routing.0, routing.1, body);
    let channel = key(1, 1);
    let effects = world.execute(Command::Request { channel, request });
    let mut verdicts = effects.iter().filter_map(|effect| match effect {
        Effect::Channel {
            after,
            output: Output::Confirm { accepted, .. },
            ..
        } => Some((*accepted, *after)),
        _ => None,
    });
    verdicts.next().unwrap()
}

fn counters(world: &World, queue: &str) -> QueueCounters {
    let queues = world.shard.queues();
    let queue = queues.iter().find(|one| one.name == name(queue));
    queue.unwrap().counters
}

/// As a restart from a checkpoint with nothing behind it.
fn restart_from_checkpoint(world: &mut World) {
    let mut shard = Shard::new(world.settings.clone());
    let index = world.log.records.len() as u64;
    world.shard.freeze().write(&mut |fact| {
        let mut bytes = Vec::new();
        fact.encode(&mut bytes);
        let read = Fact::decode(&bytes, menzil_model::fact::Content::Skip);
        shard.apply(index, read.unwrap());
    });
    world.log.references = references_of(&shard, world.log.records.len());
    shard.start(world.now, &name("/"), &mut world.log);
    shard.check_invariants();
    world.shard = shard;
    world.connect(1);
    world.open(key(1, 1));
}

#[test]
fn a_duplicate_is_counted_and_confirmed_when_its_original_is_committed() {
    let mut world = world(&[]);
    let original = verdict(&mut world, Mail::id("a"), ("", "once"), "first");
    let other = verdict(&mut world, Mail::id("b"), ("", "once"), "other");
    let records = world.log.records.len();
    let again = verdict(&mut world, Mail::id("a"), ("", "once"), "second");
    assert_eq!(again, original);
    assert!(other.1 > original.1 && original.1 > 0);
    assert_eq!(world.log.records.len(), records, "nothing is written of it");
    let once = counters(&world, "once");
    assert_eq!((once.entered, once.deduplicated, once.refused), (2, 1, 0));
    let all = world.shard.counters();
    assert_eq!((all.deduplicated, all.published, all.routed), (1, 3, 3));
    assert_eq!((all.confirmed, all.nacked), (3, 0));
    assert_eq!(world.drain("once"), ["first", "other"]);
}

#[test]
fn a_message_without_a_key_is_nobodys_duplicate() {
    let mut world = world(&[]);
    let none = Mail {
        id: None,
        ..Mail::id("")
    };
    for body in ["1", "2"] {
        send(&mut world, none, body);
    }
    // An empty id is one.
    for body in ["3", "4"] {
        send(&mut world, Mail::id(""), body);
    }
    assert_eq!(world.drain("once"), ["1", "2", "3"]);
}

#[test]
fn the_header_is_compared_with_its_type() {
    let mut world = world(&[("x-deduplication-header", Value::LongString(b"key"))]);
    let values = [
        Value::I32(5),
        Value::I32(5),
        Value::I64(5),
        Value::LongString(b"5"),
        Value::LongString(b"5"),
        Value::Void,
        Value::Void,
    ];
    for (body, value) in ["1", "2", "3", "4", "5", "6", "7"].iter().zip(values) {
        send(&mut world, Mail::header(value), body);
    }
    send(&mut world, Mail::id("same"), "8");
    send(&mut world, Mail::id("same"), "9");
    assert_eq!(world.drain("once"), ["1", "3", "4", "6", "7", "8", "9"]);
}

#[test]
fn a_queue_without_it_takes_all() {
    let mut world = world(&[]);
    world.declare("plain");
    world.declare_with(
        "off",
        true,
        arguments(&[("x-deduplication", Value::Bool(false))]),
    );
    for queue in ["once", "plain", "off"] {
        world.bind(queue, "amq.fanout", "");
    }
    for body in ["1", "2"] {
        let publish = Mail::id("a").publish("amq.fanout", "", body);
        world.request(key(1, 1), publish);
    }
    assert_eq!(world.drain("once"), ["1"]);
    assert_eq!(world.drain("plain"), ["1", "2"]);
    assert_eq!(world.drain("off"), ["1", "2"]);
}

#[test]
fn sent_again_after_a_partial_nack_it_reaches_only_the_queue_that_refused() {
    let mut world = world(&[]);
    let small = [
        ("x-max-length", Value::I32(1)),
        ("x-overflow", Value::LongString(b"reject-publish")),
    ];
    world.declare_with("small", true, once(&small));
    for queue in ["once", "small"] {
        world.bind(queue, "amq.fanout", "");
    }
    world.request(key(1, 1), Mail::id("z").publish("", "small", "fills it"));
    let to = ("amq.fanout", "");
    assert!(!verdict(&mut world, Mail::id("a"), to, "message").0);
    assert!(!verdict(&mut world, Mail::id("a"), to, "message").0);
    assert_eq!(world.drain("small"), ["fills it"]);
    assert!(verdict(&mut world, Mail::id("a"), to, "message").0);
    // The small queue is full again, and knows the message.
    assert!(verdict(&mut world, Mail::id("a"), to, "message").0);
    assert_eq!(world.drain("once"), ["message"]);
    assert_eq!(world.drain("small"), ["message"]);
    assert_eq!(counters(&world, "once").deduplicated, 3);
    assert_eq!(counters(&world, "small").deduplicated, 1);
}

#[test]
fn all_or_none_is_still_all_or_none() {
    let mut world = world(&[]);
    let atomic = arguments(&[("atomic-routing", Value::Bool(true))]);
    world.declare_exchange("x", "fanout", atomic);
    let full = [
        ("x-max-length", Value::I32(0)),
        ("x-overflow", Value::LongString(b"reject-publish")),
    ];
    world.declare_with("full", true, arguments(&full));
    for queue in ["once", "full"] {
        world.bind(queue, "x", "");
    }
    assert!(!verdict(&mut world, Mail::id("a"), ("x", ""), "no").0);
    assert!(verdict(&mut world, Mail::id("a"), ("", "once"), "yes").0);
    assert_eq!(world.drain("once"), ["yes"], "the first left no key behind");
}

#[test]
fn a_duplicate_is_not_returned() {
    let mut world = world(&[]);
    let mandatory = Mail {
        mandatory: true,
        ..Mail::id("a")
    };
    assert_eq!(send(&mut world, mandatory, "1"), [Seen::Acked(1)]);
    assert_eq!(send(&mut world, mandatory, "2"), [Seen::Acked(2)]);
}

#[test]
fn what_is_consumed_or_purged_is_still_remembered() {
    let mut world = world(&[]);
    send(&mut world, Mail::id("a"), "1");
    assert_eq!(world.drain("once"), ["1"]);
    send(&mut world, Mail::id("b"), "2");
    let purge = Request::QueuePurge {
        queue: name("once"),
        nowait: false,
    };
    world.request(key(1, 1), purge);
    for id in ["a", "b", "c"] {
        send(&mut world, Mail::id(id), id);
    }
    assert_eq!(world.drain("once"), ["c"]);
}

#[test]
fn the_oldest_key_leaves_when_the_size_is_passed() {
    let mut world = world(&[("x-deduplication-size", Value::I32(2))]);
    for id in ["a", "b", "a", "c", "b", "a"] {
        send(&mut world, Mail::id(id), id);
    }
    // The second a and b were duplicates, which changes nothing of the order.
    assert_eq!(world.drain("once"), ["a", "b", "c", "a"]);
}

#[test]
fn a_key_leaves_when_its_time_is_over() {
    let mut world = world(&[("x-deduplication-age", Value::I32(100))]);
    send(&mut world, Mail::id("a"), "1");
    world.tick(99);
    send(&mut world, Mail::id("a"), "2");
    world.tick(1);
    send(&mut world, Mail::id("a"), "3");
    world.tick(99);
    send(&mut world, Mail::id("a"), "4");
    assert_eq!(world.drain("once"), ["1", "3"]);
}

#[test]
fn it_remembers_over_a_crash_and_a_checkpoint() {
    let extra = [
        ("x-deduplication-size", Value::I32(2)),
        ("x-deduplication-age", Value::I32(100)),
    ];
    for restart in [World::restart, restart_from_checkpoint] {
        let mut world = world(&extra);
        for id in ["x", "a"] {
            send(&mut world, Mail::id(id), id);
        }
        world.tick(50);
        send(&mut world, Mail::id("b"), "b");
        restart(&mut world);
        for id in ["a", "b"] {
            send(&mut world, Mail::id(id), "again");
        }
        assert_eq!(world.drain("once"), ["x", "a", "b"]);
        world.tick(50);
        restart(&mut world);
        for id in ["b", "a"] {
            send(&mut world, Mail::id(id), id);
        }
        assert_eq!(world.drain("once"), ["a"], "the time of a is over");
    }
}

#[test]
fn transient_messages_are_stored_once_too_and_their_keys_end_with_them() {
    let mut world = world(&[]);
    world.declare_with("memory", false, once(&[]));
    for body in ["1", "2"] {
        send(&mut world, Mail::id("a").transient(), body);
        let persistent = Mail::id("a").publish("", "memory", body);
        world.request(key(1, 1), persistent);
    }
    assert_eq!(world.drain("once"), ["1"]);
    assert_eq!(world.drain("memory"), ["1"]);
    // What is to last is no duplicate of what does not; the other way it is.
    assert!(verdict(&mut world, Mail::id("a"), ("", "once"), "3").1 > 0);
    send(&mut world, Mail::id("a").transient(), "4");
    send(&mut world, Mail::id("b").transient(), "5");
    assert_eq!(world.drain("once"), ["3", "5"]);
    world.restart();
    for id in ["a", "b"] {
        send(&mut world, Mail::id(id).transient(), id);
    }
    assert_eq!(world.drain("once"), ["b"]);
}

#[test]
fn a_transaction_knows_what_it_is_about_to_store() {
    let mut world = world(&[("x-deduplication-size", Value::I32(2))]);
    send(&mut world, Mail::id("before"), "before");
    let tx = key(1, 2);
    world.open(tx);
    world.request(tx, Request::TxSelect);
    for id in ["before", "a", "a", "b", "c", "a"] {
        world.request(tx, Mail::id(id).publish("", "once", id));
    }
    let records = world.log.records.len();
    let done = world.request(tx, Request::TxCommit);
    assert_eq!(done, [Seen::Reply(Reply::TxCommitOk)]);
    assert_eq!(world.log.records.len(), records + 1);
    assert_eq!(world.drain("once"), ["before", "a", "b", "c", "a"]);
    assert_eq!(counters(&world, "once").deduplicated, 2);
    // Nothing of one that is rolled back is remembered.
    world.request(tx, Mail::id("d").publish("", "once", "d"));
    world.request(tx, Request::TxRollback);
    world.request(tx, Mail::id("d").publish("", "once", "d"));
    world.request(tx, Request::TxCommit);
    assert_eq!(world.drain("once"), ["d"]);
}

#[test]
fn a_transaction_of_duplicates_waits_for_the_originals() {
    let mut world = world(&[]);
    let tx = key(1, 2);
    world.open(tx);
    world.request(tx, Request::TxSelect);
    let (_, original) = verdict(&mut world, Mail::id("a"), ("", "once"), "a");
    world.request(tx, Mail::id("a").publish("", "once", "a"));
    let effects = world.execute(Command::Request {
        channel: tx,
        request: Request::TxCommit,
    });
    let after = effects.iter().find_map(|effect| match effect {
        Effect::Channel { after, .. } => Some(*after),
        _ => None,
    });
    assert_eq!(after, Some(original));
}

#[test]
fn a_message_that_comes_back_through_a_retry_queue_is_no_duplicate_of_itself() {
    let dead_letters = [
        ("x-dead-letter-exchange", Value::LongString(b"")),
        ("x-dead-letter-routing-key", Value::LongString(b"retry")),
    ];
    let mut world = world(&dead_letters);
    let retry = arguments(&[
        ("x-dead-letter-exchange", Value::LongString(b"")),
        ("x-dead-letter-routing-key", Value::LongString(b"once")),
        ("x-message-ttl", Value::I32(10)),
    ]);
    world.declare_with("retry", true, retry);
    send(&mut world, Mail::id("a"), "a");
    reject_next(&mut world);
    world.tick(10);
    send(&mut world, Mail::id("a"), "again");
    assert_eq!(world.drain("once"), ["a"]);
    assert_eq!(counters(&world, "once").deduplicated, 1);
}

/// The next message of `once` is taken and rejected.
fn reject_next(world: &mut World) {
    let tag = match world.get("once")[..] {
        [Seen::Got { tag, .. }] => tag,
        ref other => panic!("{other:?}"),
    };
    let reject = Request::Reject {
        delivery_tag: DeliveryTag(tag),
        multiple: false,
        requeue: false,
        method: Rejection::Reject,
    };
    world.request(key(1, 1), reject);
}

/// An exchange `later` that delays what goes to the queue `once`.
fn declare_later(world: &mut World) {
    let delays = arguments(&[("x-delayed", Value::Bool(true))]);
    world.declare_exchange("later", "fanout", delays);
    world.bind("once", "later", "");
}

#[test]
fn a_delayed_publish_is_compared_when_it_is_due() {
    let mut world = world(&[]);
    declare_later(&mut world);
    for (milliseconds, body) in [(10, "first"), (20, "sent again")] {
        let mail = Mail::id("a").delayed(milliseconds);
        world.request(key(1, 1), mail.publish("later", "", body));
    }
    world.tick(9);
    assert_eq!(counters(&world, "once").deduplicated, 0);
    world.tick(1);
    send(&mut world, Mail::id("a"), "again at once");
    assert_eq!(counters(&world, "once").deduplicated, 1);
    world.restart();
    world.confirm_select();
    world.tick(10);
    assert_eq!(counters(&world, "once").deduplicated, 1, "since the start");
    assert_eq!(world.drain("once"), ["first"]);
    assert_eq!(world.shard.delays()[0].count, 0);
    check_references(&world);
}

#[test]
fn a_dead_letter_that_waits_on_its_way_back_is_not_its_own_duplicate() {
    let mut world = world(&[("x-dead-letter-exchange", Value::LongString(b"later"))]);
    declare_later(&mut world);
    send(&mut world, Mail::id("a").delayed(10), "a");
    reject_next(&mut world);
    assert_eq!(world.shard.delays()[0].count, 1);
    world.restart();
    world.confirm_select();
    world.tick(10);
    // Its delay is over: this time it comes back at once.
    reject_next(&mut world);
    send(&mut world, Mail::id("a"), "again");
    assert_eq!(world.drain("once"), ["a"]);
    assert_eq!(counters(&world, "once").deduplicated, 1);
    check_references(&world);
}

#[test]
fn a_deleted_queue_forgets() {
    let mut world = world(&[]);
    send(&mut world, Mail::id("a"), "1");
    let delete = Request::QueueDelete {
        queue: name("once"),
        if_unused: false,
        if_empty: false,
        nowait: false,
    };
    world.request(key(1, 1), delete);
    world.declare_with("once", true, once(&[]));
    send(&mut world, Mail::id("a"), "2");
    assert_eq!(world.drain("once"), ["2"]);
}

#[derive(Clone, Debug)]
enum Step {
    Publish { id: u8, persistent: bool },
    Fanout { id: u8, persistent: bool },
    Transaction { ids: Vec<u8>, persistent: bool },
    Wait { milliseconds: u64 },
    Drain,
    Restart { checkpoint: bool },
}

fn step() -> impl Strategy<Value = Step> {
    let id = 0..9_u8;
    prop_oneof![
        8 => (id.clone(), any::<bool>()).prop_map(|(id, persistent)| Step::Publish { id, persistent }),
        4 => (id.clone(), any::<bool>()).prop_map(|(id, persistent)| Step::Fanout { id, persistent }),
        2 => (prop::collection::vec(id, 0..7), any::<bool>())
            .prop_map(|(ids, persistent)| Step::Transaction { ids, persistent }),
        3 => (0..25_u64).prop_map(|milliseconds| Step::Wait { milliseconds }),
        1 => Just(Step::Drain),
        1 => any::<bool>().prop_map(|checkpoint| Step::Restart { checkpoint }),
    ]
}

/// The naive twin of a durable queue: all that it ever stored.
struct Twin {
    size: usize,
    age: u64,
    stored: Vec<(u8, u64, bool)>,
    bodies: Vec<(String, bool)>,
}

impl Twin {
    fn publish(&mut self, now: u64, id: u8, persistent: bool, body: &str) {
        let known = |durable| {
            let of_kind = self.stored.iter().filter(move |one| one.2 == durable);
            let mut last = of_kind.rev().take(self.size);
            last.any(|(known, at, _)| *known == id && now < at + self.age)
        };
        // Id 0 stands for a message without one.
        if id == 0 || !(known(true) || (!persistent && known(false))) {
            if id > 0 {
                self.stored.push((id, now, persistent));
            }
            self.bodies.push((body.to_owned(), persistent));
        }
    }

    fn restart(&mut self) {
        self.stored.retain(|one| one.2);
        self.bodies.retain(|one| one.1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn it_stores_what_a_naive_twin_stores(
        steps in prop::collection::vec(step(), 1..90),
        sizes in (1..7_u8, 1..7_u8),
        ages in (1..60_u8, 1..60_u8),
    ) {
        let mut world = World::with(ShardSettings { content_bytes_max: 100, ..ShardSettings::default() });
        let mut twins = Vec::new();
        for (queue, size, age) in [("q0", sizes.0, ages.0), ("q1", sizes.1, ages.1)] {
            let rule = [
                ("x-deduplication-size", Value::U8(size)),
                ("x-deduplication-age", Value::U8(age)),
            ];
            world.declare_with(queue, true, once(&rule));
            world.bind(queue, "amq.fanout", "");
            let (size, age) = (size.into(), age.into());
            twins.push(Twin { size, age, stored: Vec::new(), bodies: Vec::new() });
        }
        let ids: Vec<String> = (0..9).map(|id| id.to_string()).collect();
        let mail = |id: u8, persistent| Mail {
            id: (id > 0).then(|| ids[usize::from(id)].as_str()),
            persistent,
            ..Mail::id("")
        };
        let mut count = 0;
        for step in steps {
            count += 1;
            let body = count.to_string();
            let now = world.now;
            match step {
                Step::Publish { id, persistent } => {
                    world.request(key(1, 1), mail(id, persistent).publish("", "q0", &body));
                    twins[0].publish(now, id, persistent, &body);
                }
                Step::Fanout { id, persistent } => {
                    world.request(key(1, 1), mail(id, persistent).publish("amq.fanout", "", &body));
                    for twin in &mut twins {
                        twin.publish(now, id, persistent, &body);
                    }
                }
                Step::Transaction { ids, persistent } => {
                    world.open(key(1, 2));
                    world.request(key(1, 2), Request::TxSelect);
                    for id in ids {
                        let publish = mail(id, persistent).publish("amq.fanout", "", &body);
                        world.request(key(1, 2), publish);
                        for twin in &mut twins {
                            twin.publish(now, id, persistent, &body);
                        }
                    }
                    world.request(key(1, 2), Request::TxCommit);
                    world.execute(Command::ChannelClosed(key(1, 2)));
                }
                Step::Wait { milliseconds } => drop(world.tick(milliseconds)),
                Step::Drain => {
                    for (queue, twin) in ["q0", "q1"].iter().zip(&mut twins) {
                        let expected = twin.bodies.drain(..).map(|one| one.0);
                        prop_assert_eq!(world.drain(queue), expected.collect::<Vec<_>>());
                    }
                }
                Step::Restart { checkpoint } => {
                    if checkpoint {
                        restart_from_checkpoint(&mut world);
                    } else {
                        world.restart();
                    }
                    twins.iter_mut().for_each(Twin::restart);
                }
            }
        }
        for (queue, twin) in ["q0", "q1"].iter().zip(&twins) {
            let expected = twin.bodies.iter().map(|one| one.0.clone());
            prop_assert_eq!(world.drain(queue), expected.collect::<Vec<_>>());
        }
    }
}
