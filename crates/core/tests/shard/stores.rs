//! What exchanges keep of the messages that pass.

use crate::support::{Seen, World, arguments, key, name, references_of};
use menzil_core::{Object, Refusal, Reply, Request};
use menzil_model::{Name, Table, Value};

pub(crate) fn retaining(
    world: &mut World,
    exchange: &str,
    kind: &str,
    fields: &[(&str, Value<'_>)],
) {
    let seen = world.declare_exchange(exchange, kind, arguments(fields));
    assert_eq!(seen, [Seen::Reply(Reply::ExchangeDeclareOk)]);
}

/// An exchange that keeps so many messages.
pub(crate) fn keeping(world: &mut World, exchange: &str, kind: &str, messages: i32) {
    let kept = [("x-retain-messages", Value::I32(messages))];
    retaining(world, exchange, kind, &kept);
}

pub(crate) fn retained(world: &World) -> u64 {
    world.shard.summary().retained
}

/// The journal is told exactly what is needed.
pub(crate) fn check_references(world: &World) {
    let needed = references_of(&world.shard, world.log.records.len());
    assert_eq!(world.log.references, needed);
}

#[test]
fn an_exchange_keeps_the_last_of_what_passes_in_the_same_record() {
    let mut world = World::new();
    keeping(&mut world, "x", "topic", 3);
    world.declare("q");
    world.bind("q", "x", "#");
    let before = world.log.records.len();
    for body in ["1", "2", "3"] {
        world.publish("x", "k", body);
    }
    assert_eq!(world.log.records.len(), before + 3, "one record each");
    assert_eq!(retained(&world), 3);
    world.publish("x", "k", "4");
    assert_eq!(retained(&world), 3);
    let summary = world.shard.summary();
    assert_eq!((summary.queues, summary.messages), (1, 4));
    assert_eq!(world.shard.queues().len(), 1, "a store is no queue");
    check_references(&world);
    assert_eq!(world.drain("q").len(), 4);
    check_references(&world);
    world.restart();
    assert_eq!(retained(&world), 3);
    check_references(&world);
}

#[test]
fn what_only_a_store_takes_is_unroutable_and_kept() {
    let mut world = World::new();
    keeping(&mut world, "x", "fanout", 3);
    world.confirm_select();
    assert_eq!(world.publish("x", "", "1"), [Seen::Acked(1)]);
    let returned = world.publish_as("x", "", "2", true, Some(2), None);
    assert_eq!(returned, [Seen::Returned("2".to_owned()), Seen::Acked(2)]);
    let counters = world.shard.counters();
    assert_eq!(
        (
            counters.unroutable_dropped,
            counters.unroutable_returned,
            counters.routed
        ),
        (1, 1, 0)
    );
    assert_eq!(retained(&world), 2);
    // In turn, so that the way is not the channel's last one.
    for (number, routing_key) in (3..).zip(["a", "b", "a"]) {
        assert_eq!(world.publish("x", routing_key, ""), [Seen::Acked(number)]);
    }
    assert_eq!(world.shard.counters().unroutable_dropped, 4);
    assert_eq!(retained(&world), 3);
    world.log.full = true;
    assert_eq!(world.publish("x", "", "6"), [Seen::Nacked(6)]);
    assert_eq!(retained(&world), 3);
}

#[test]
fn an_alternate_exchange_gets_what_only_a_store_takes() {
    let mut world = World::new();
    let alternate = ("alternate-exchange", Value::LongString(b"other"));
    retaining(
        &mut world,
        "x",
        "direct",
        &[("x-retain-messages", Value::I32(3)), alternate],
    );
    retaining(
        &mut world,
        "other",
        "fanout",
        &[("x-retain-bytes", Value::I32(3))],
    );
    world.declare("q");
    world.bind("q", "other", "");
    world.publish("x", "nowhere", "1");
    assert_eq!(world.drain("q"), ["1"]);
    assert_eq!(retained(&world), 2, "it passed through both");
}

#[test]
fn bytes_and_age_are_limits_too() {
    let mut world = World::new();
    retaining(
        &mut world,
        "b",
        "fanout",
        &[("x-retain-bytes", Value::I32(5))],
    );
    for body in ["12", "34", "5"] {
        world.publish("b", "", body);
    }
    assert_eq!(retained(&world), 3);
    world.publish("b", "", "67");
    assert_eq!(retained(&world), 3);
    world.publish("b", "", "123456");
    assert_eq!(retained(&world), 0, "one that is too large is not kept");

    retaining(
        &mut world,
        "a",
        "fanout",
        &[("x-retain-age", Value::LongString(b"1s"))],
    );
    world.publish("a", "", "1");
    world.tick(600);
    world.publish("a", "", "2");
    world.tick(399);
    assert_eq!(retained(&world), 2);
    world.restart();
    world.tick(1);
    assert_eq!(retained(&world), 1);
    world.tick(600);
    assert_eq!(retained(&world), 0);
    assert_eq!(world.shard.counters().expired, 0, "no message is lost");
    check_references(&world);
}

#[test]
fn a_message_is_kept_no_longer_than_it_lives() {
    let mut world = World::new();
    keeping(&mut world, "x", "fanout", 5);
    retaining(&mut world, "h", "x-recent-history", &[]);
    for exchange in ["x", "h"] {
        world.publish_as(exchange, "", "short", false, Some(2), Some("10"));
        world.publish(exchange, "", "long");
    }
    assert_eq!(retained(&world), 4);
    world.tick(20);
    assert_eq!(
        retained(&world),
        3,
        "history is kept whatever lives how long"
    );
}

#[test]
fn history_keeps_twenty_and_not_what_asks_not_to_be_kept() {
    let mut world = World::new();
    retaining(&mut world, "h", "x-recent-history", &[]);
    for number in 0..25 {
        world.publish("h", "", &number.to_string());
    }
    assert_eq!(retained(&world), 20);
    retaining(&mut world, "no", "x-recent-history", &[]);
    let no_store = |value| {
        let headers = arguments(&[("x-recent-history-no-store", value)]);
        let properties = menzil_model::Properties {
            headers: Some(headers.as_bytes()),
            ..menzil_model::Properties::default()
        };
        let mut bytes = Vec::new();
        properties.write(&mut bytes);
        Request::Publish(menzil_core::Publish {
            exchange: name("no"),
            routing_key: name(""),
            mandatory: false,
            properties: bytes.into(),
            body: vec![b"body".to_vec().into()],
        })
    };
    world.request(key(1, 1), no_store(Value::Bool(true)));
    assert_eq!(retained(&world), 20);
    world.request(key(1, 1), no_store(Value::LongString(b"true")));
    assert_eq!(retained(&world), 21, "only the flag counts");
}

#[test]
fn a_store_goes_with_its_exchange() {
    let mut world = World::new();
    keeping(&mut world, "x", "fanout", 5);
    world.publish("x", "", "1");
    let delete = Request::ExchangeDelete {
        exchange: name("x"),
        if_unused: false,
        nowait: false,
    };
    world.request(key(1, 1), delete);
    assert_eq!(retained(&world), 0);
    assert!(world.log.references.iter().all(|count| *count == 0));
    keeping(&mut world, "x", "fanout", 5);
    world.restart();
    assert_eq!(retained(&world), 0, "another exchange has another store");
}

#[test]
fn a_transaction_stores_what_it_commits() {
    let mut world = World::new();
    keeping(&mut world, "x", "fanout", 2);
    world.request(key(1, 1), Request::TxSelect);
    for body in ["1", "2"] {
        world.publish("x", "", body);
    }
    world.publish_as("x", "", "3", true, Some(2), None);
    assert_eq!(retained(&world), 0);
    let seen = world.request(key(1, 1), Request::TxCommit);
    assert_eq!(
        seen,
        [
            Seen::Returned("3".to_owned()),
            Seen::Reply(Reply::TxCommitOk)
        ]
    );
    assert_eq!(retained(&world), 2, "the last two");
    check_references(&world);
}

#[test]
fn bad_arguments_change_nothing_and_are_named() {
    let mut world = World::new();
    let object = Object::Exchange(Name::from("x"));
    let declare = |world: &mut World, kind: &str, name, value| {
        let seen = world.declare_exchange("x", kind, arguments(&[(name, value)]));
        world.open(key(1, 1));
        seen
    };
    let refused = |argument: &'static str, reason: &str| {
        Seen::Refused(Refusal::InvalidArgument {
            object: object.clone(),
            argument: Name::from(argument),
            reason: reason.to_owned(),
        })
    };
    assert_eq!(
        declare(&mut world, "fanout", "x-retain-messages", Value::I32(0)),
        [refused(
            "x-retain-messages",
            "it is 0, and must be a whole number from 1 on"
        )]
    );
    assert_eq!(
        declare(
            &mut world,
            "fanout",
            "x-retain-age",
            Value::LongString(b"1d")
        ),
        [refused(
            "x-retain-age",
            "it is \"1d\", and must be milliseconds from 1 to 315360000000, or a text such as 30s, \
             12h or 7D (units s m h D M Y)"
        )]
    );
    let length = Value::LongString(b"many");
    assert_eq!(
        declare(
            &mut world,
            "x-recent-history",
            "x-recent-history-length",
            length
        ),
        [Seen::Refused(Refusal::InvalidHistoryLength {
            value: "<<\"many\">>".to_owned()
        })]
    );
    assert_eq!(world.shard.summary().exchanges, 7, "nothing is left behind");
    keeping(&mut world, "x", "fanout", 5);
    for table in [
        Table::empty(),
        arguments(&[("x-retain-messages", Value::I32(6))]),
    ] {
        let seen = world.declare_exchange("x", "fanout", table);
        assert!(
            matches!(seen.as_slice(), [Seen::Refused(Refusal::Inequivalent { argument, .. })]
                if *argument == Name::from("x-retain-messages")),
            "{seen:?}"
        );
        world.open(key(1, 1));
    }
    retaining(
        &mut world,
        "x",
        "fanout",
        &[("x-retain-messages", Value::I64(5))],
    );
}

#[test]
fn a_dead_letter_is_kept_on_its_way_to_a_queue() {
    let mut world = World::new();
    keeping(&mut world, "x", "fanout", 5);
    let source = [
        ("x-dead-letter-exchange", Value::LongString(b"x")),
        ("x-message-ttl", Value::I32(10)),
    ];
    world.declare_with("source", true, arguments(&source));
    world.publish("", "source", "to nowhere");
    world.tick(10);
    assert_eq!(retained(&world), 0);
    world.declare("q");
    world.bind("q", "x", "");
    world.publish("", "source", "to q");
    world.tick(10);
    assert_eq!(world.drain("q"), ["to q"]);
    assert_eq!(retained(&world), 1);
    check_references(&world);
}
