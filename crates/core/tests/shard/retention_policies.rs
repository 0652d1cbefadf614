//! What an exchange keeps by policy: at once where it is there, until the policy goes.

use crate::policies::text;
use crate::stores::{check_references, retained, retaining};
use crate::support::{Seen, World, arguments, key, name};
use menzil_core::{Object, Refusal, Reply, SettingOrigin, SettingValue};
use menzil_model::Value;

const FIRST: Value<'_> = Value::LongString(b"first");

fn exchange(world: &mut World, exchange: &str) {
    retaining(world, exchange, "topic", &[]);
}

fn publish_each(world: &mut World, exchange: &str, bodies: &[&str]) {
    for body in bodies {
        world.publish(exchange, "k", body);
    }
}

/// What a new binding gets of it.
fn replayed(world: &mut World, queue: &str, exchange: &str) -> Vec<String> {
    world.declare(queue);
    let from = arguments(&[("x-replay-from", FIRST)]);
    let seen = world.bind_with(key(1, 1), (queue, exchange, "#"), from);
    assert_eq!(seen, [Seen::Reply(Reply::QueueBindOk)]);
    world.drain(queue)
}

fn keeps_nothing(world: &mut World, queue: &str, exchange: &str) -> bool {
    world.declare(queue);
    let from = arguments(&[("x-replay-from", FIRST)]);
    let seen = world.bind_with(key(1, 1), (queue, exchange, "#"), from);
    world.open(key(1, 1));
    matches!(
        seen.as_slice(),
        [Seen::Refused(Refusal::InvalidArgument { reason, .. })] if reason.contains("keeps nothing")
    )
}

#[test]
fn an_exchange_that_is_there_keeps_from_the_policy_on() {
    let mut world = World::new();
    exchange(&mut world, "x");
    publish_each(&mut world, "x", &["0"]);
    assert!(keeps_nothing(&mut world, "none", "x"));
    world.set("keep", "^x$", &[("retain-messages", Value::I64(3))]);
    publish_each(&mut world, "x", &["1", "2", "3", "4", "5"]);
    publish_each(&mut world, "amq.topic", &["other"]);
    assert_eq!(retained(&world), 3);
    check_references(&world);
    assert_eq!(replayed(&mut world, "q", "x"), ["3", "4", "5"]);
    for restart in [World::restart, World::restart_from_checkpoint] {
        restart(&mut world);
        assert_eq!(retained(&world), 3);
        check_references(&world);
    }
    publish_each(&mut world, "x", &["6"]);
    assert_eq!(replayed(&mut world, "after", "x"), ["4", "5", "6"]);
    world.set("keep", "^x$", &[("retain-messages", Value::I64(1))]);
    assert_eq!(retained(&world), 1, "at once");
    check_references(&world);
    world.set("keep", "^x$", &[("retain-messages", Value::I64(2))]);
    publish_each(&mut world, "x", &["7", "8"]);
    assert_eq!(replayed(&mut world, "more", "x"), ["7", "8"]);
}

#[test]
fn what_a_policy_kept_goes_with_it() {
    let mut world = World::new();
    exchange(&mut world, "x");
    world.set("keep", "^x$", &[("retain-bytes", Value::I64(9))]);
    publish_each(&mut world, "x", &["1111", "2222", "3333"]);
    assert_eq!(retained(&world), 2);
    world.clear("keep");
    assert_eq!(retained(&world), 0);
    check_references(&world);
    assert!(keeps_nothing(&mut world, "q", "x"));
    publish_each(&mut world, "x", &["4"]);
    assert_eq!(retained(&world), 0);
    for restart in [World::restart, World::restart_from_checkpoint] {
        restart(&mut world);
        assert_eq!(retained(&world), 0);
        check_references(&world);
        assert!(keeps_nothing(&mut world, "q", "x"));
    }
    // Its place is taken again.
    world.set("keep", "^x$", &[("retain-bytes", Value::I64(9))]);
    publish_each(&mut world, "x", &["5"]);
    assert_eq!(replayed(&mut world, "later", "x"), ["5"]);
}

#[test]
fn a_crash_before_all_has_gone_does_not_bring_it_back() {
    let mut world = World::new();
    exchange(&mut world, "x");
    world.set("keep", "^x$", &[("retain-messages", Value::I64(100))]);
    publish_each(&mut world, "x", &["1", "2"]);
    // The policy is cleared, and nothing else is in the log.
    let mut effects = Vec::new();
    let cleared = world.shard.clear_policy(
        world.now,
        &name("keep"),
        false,
        &mut world.log,
        &mut effects,
    );
    assert!(cleared.is_some());
    world.restart();
    world.tick(0);
    assert_eq!(retained(&world), 0);
    check_references(&world);
    assert!(keeps_nothing(&mut world, "q", "x"));
}

#[test]
fn of_argument_policy_and_operator_policy_the_lowest_holds_and_says_so() {
    let mut world = World::new();
    retaining(
        &mut world,
        "x",
        "fanout",
        &[
            ("x-retain-messages", Value::I32(5)),
            ("x-retain-age", text("1h")),
        ],
    );
    world.set(
        "keep",
        "^x$",
        &[
            ("retain-messages", Value::I64(9)),
            ("retain-bytes", Value::I64(500)),
            ("retain-age", text("30m")),
        ],
    );
    world.set_operator("cap", "^x$", &[("retain-bytes", Value::I64(100))]);
    let effective = world.shard.effective(&Object::Exchange(name("x"))).unwrap();
    let told: Vec<_> = effective
        .settings
        .iter()
        .map(|one| (one.key.to_string(), one.value.clone(), one.origin.clone()))
        .collect();
    assert_eq!(
        told,
        [
            (
                "retain-age".to_owned(),
                SettingValue::Text("30m".into()),
                SettingOrigin::Policy(name("keep"))
            ),
            (
                "retain-bytes".to_owned(),
                SettingValue::Integer(100),
                SettingOrigin::OperatorPolicy(name("cap"))
            ),
            (
                "retain-messages".to_owned(),
                SettingValue::Integer(5),
                SettingOrigin::Argument
            ),
        ]
    );
    publish_each(&mut world, "x", &["1", "2", "3", "4", "5", "6"]);
    assert_eq!(retained(&world), 5);
    world.tick(29 * 60_000);
    assert_eq!(retained(&world), 5);
    world.tick(60_001);
    assert_eq!(retained(&world), 0, "they are half an hour old");
    check_references(&world);
}

#[test]
fn an_exchange_that_comes_later_keeps_too_and_one_that_goes_keeps_nothing() {
    let mut world = World::new();
    world.set("keep", "^x", &[("retain-age", text("1h"))]);
    retaining(&mut world, "x-1", "fanout", &[]);
    publish_each(&mut world, "x-1", &["1"]);
    assert_eq!(replayed(&mut world, "q", "x-1"), ["1"]);
    world.restart();
    assert_eq!(retained(&world), 1);
    let delete = menzil_core::Request::ExchangeDelete {
        exchange: name("x-1"),
        if_unused: false,
        nowait: false,
    };
    world.request(key(1, 1), delete);
    assert_eq!(retained(&world), 0);
    check_references(&world);
    world.restart();
    assert_eq!(retained(&world), 0);
}
