//! "RabbitMQ: exchange types and routing": what it claims of dead letters, overflow, policies and
//! of publishing again, by section.

use menzil_core::{PolicyRequest, Rejection, Request};
use menzil_model::{DeliveryTag, Table, Value};

use super::{text, world};
use crate::dead_letters::letter;
use crate::support::{Seen, World, arguments, key, name};

fn set_policy(world: &mut World, policy: &str, priority: i32, pattern: &'static str, says: &Table) {
    let request = PolicyRequest {
        name: policy.as_bytes(),
        is_operator: false,
        pattern: Some(text(pattern)),
        apply_to: Some(text(if policy == "biz-ae" {
            "exchanges"
        } else {
            "queues"
        })),
        priority: Some(Value::I32(priority)),
        definition: Some(Value::Table(says.fields())),
    };
    let mut effects = Vec::new();
    let policy = request.check().unwrap();
    (world.shard)
        .set_policy(world.now, policy, &mut world.log, &mut effects)
        .unwrap();
    world.tick(0);
}

fn reject_next(world: &mut World, queue: &str) {
    let (tag, _) = world.take(queue, false).unwrap();
    world.reject(key(1, 1), tag);
}

/// The two policies of the listing: `biz-ae` for exchanges and `biz-dlx` for queues.
fn listing() -> World {
    let mut world = World::new();
    let unrouted = arguments(&[("alternate-exchange", text("biz.unrouted"))]);
    set_policy(&mut world, "biz-ae", 10, r"^biz\.", &unrouted);
    let dead = arguments(&[("dead-letter-exchange", text("biz.dlx"))]);
    set_policy(&mut world, "biz-dlx", 10, r"^biz\.q", &dead);
    for exchange in ["biz.unrouted", "biz.dlx"] {
        world.declare_exchange(exchange, "fanout", Table::empty());
    }
    for (queue, exchange) in [("capture", "biz.unrouted"), ("dead", "biz.dlx")] {
        world.declare(queue);
        world.bind(queue, exchange, "");
    }
    world.declare_exchange("biz.orders", "direct", Table::empty());
    world.declare("biz.q");
    world.bind("biz.q", "biz.orders", "known");
    world
}

/// Section "Configuration": what is rejected, expires or is over the limit goes to the exchange
/// that the policy names.
#[test]
fn the_policies_of_the_listing_catch_what_is_dead_and_what_is_unroutable() {
    let mut world = listing();
    world.publish("biz.orders", "unknown", "stray");
    assert_eq!(world.drain("capture"), ["stray"]);
    world.publish("biz.orders", "known", "rejected");
    reject_next(&mut world, "biz.q");
    world.publish_as("biz.orders", "known", "expired", false, Some(2), Some("50"));
    world.tick(50);
    let both = arguments(&[
        ("dead-letter-exchange", text("biz.dlx")),
        ("max-length", Value::I32(1)),
    ]);
    set_policy(&mut world, "biz-dlx", 10, r"^biz\.q", &both);
    world.publish("biz.orders", "known", "over");
    world.publish("biz.orders", "known", "stays");
    let letter = |body, reason| letter(body, "biz.dlx", &[&format!("biz.q {reason} 1")]);
    let expected = [
        letter("rejected", "rejected"),
        letter("expired", "expired"),
        letter("over", "maxlen"),
    ];
    assert_eq!(world.letters("dead"), expected);
    assert_eq!(world.drain("biz.q"), ["stays"]);
}

/// Section "Configuration": where both say something, the argument holds.
#[test]
fn the_dead_letter_argument_goes_before_the_policy() {
    let mut world = listing();
    world.declare("own");
    world.declare_dead_lettering("biz.q.own", "own", &[]);
    world.publish("", "biz.q.own", "m");
    reject_next(&mut world, "biz.q.own");
    assert_eq!(world.letters("own").len(), 1);
    assert_eq!(world.letters("dead"), []);
}

/// Section "Configuration": of policies that overlap only the highest applies, and their keys do
/// not add up, so the queue has a limit or an exchange for what is dropped.
#[test]
fn overlapping_policies_do_not_add_up() {
    let mut world = listing();
    let limit = arguments(&[("max-length", Value::I32(1))]);
    set_policy(&mut world, "biz-max", 11, r"^biz\.q", &limit);
    for body in ["1", "2"] {
        world.publish("biz.orders", "known", body);
    }
    assert_eq!(
        world.letters("dead"),
        [],
        "the limit drops, nobody catches it"
    );
    let layered = arguments(&[
        ("max-length", Value::I32(1)),
        ("layered", Value::Bool(true)),
    ]);
    set_policy(&mut world, "biz-max", 11, r"^biz\.q", &layered);
    world.publish("biz.orders", "known", "3");
    let expected = [letter("2", "biz.dlx", &["biz.q maxlen 1"])];
    assert_eq!(
        world.letters("dead"),
        expected,
        "here a policy can let the next one speak"
    );
}

/// Section "Configuration": a policy acts on what is there, what it has waiting too, and a queue
/// need not be declared again.
#[test]
fn a_dead_letter_policy_acts_on_what_a_queue_holds_already() {
    let mut world = listing();
    world.declare("late");
    world.publish("", "late", "waits");
    let (tag, _) = world.take("late", false).unwrap();
    let dead = arguments(&[("dead-letter-exchange", text("biz.dlx"))]);
    set_policy(&mut world, "late", 0, "^late$", &dead);
    world.reject(key(1, 1), tag);
    let expected = [letter("waits", "biz.dlx", &["late rejected 1"])];
    assert_eq!(world.letters("dead"), expected);
}

/// Section "Configuration": with the delivery limit, what fails again and again is dead-lettered
/// and not tried for ever.
#[test]
fn a_delivery_limit_and_an_exchange_end_the_retries() {
    let mut world = listing();
    let both = arguments(&[
        ("dead-letter-exchange", text("biz.dlx")),
        ("delivery-limit", Value::I32(2)),
    ]);
    set_policy(&mut world, "biz-dlx", 10, r"^biz\.q", &both);
    world.publish("biz.orders", "known", "poison");
    for _ in 0..3 {
        let (tag, _) = world.take("biz.q", false).unwrap();
        let request = Request::Reject {
            delivery_tag: DeliveryTag(tag),
            multiple: false,
            requeue: true,
            method: Rejection::Reject,
        };
        world.request(key(1, 1), request);
    }
    assert_eq!(world.take("biz.q", false), None);
    let expected = [letter("poison", "biz.dlx", &["biz.q delivery_limit 1"])];
    assert_eq!(world.letters("dead"), expected);
}

/// Section "Partial routing and copies on retry": the queue that is full drops its oldest, or
/// dead-letters it, and the publisher has no reason to publish again.
#[test]
fn drop_head_and_dead_letters_keep_a_full_queue_from_making_copies_elsewhere() {
    let mut world = world("x", "fanout", &[("open", &[""])]);
    world.declare("dead");
    let limit = ("x-max-length", Value::I32(1));
    world.declare_with("drops", true, arguments(&[limit]));
    world.declare_dead_lettering("keeps", "dead", &[limit]);
    for queue in ["drops", "keeps"] {
        world.bind(queue, "x", "");
    }
    world.confirm_select();
    for (number, body) in [(1, "1"), (2, "2"), (3, "3")] {
        assert_eq!(world.publish("x", "", body), [Seen::Acked(number)]);
    }
    assert_eq!(world.drain("open"), ["1", "2", "3"]);
    assert_eq!(world.drain("drops"), ["3"]);
    assert_eq!(world.drain("keeps"), ["3"]);
    let dead: Vec<String> = world.letters("dead").into_iter().map(|l| l.body).collect();
    assert_eq!(dead, ["1", "2"]);
}

/// Section "Partial routing and copies on retry": with the producer's message id a queue that
/// deduplicates makes no second copy. Here the queue does what the article asks of consumers.
#[test]
fn a_retry_with_the_producers_id_makes_no_copy_where_the_queue_deduplicates() {
    let mut world = World::new();
    world.declare_exchange("x", "fanout", Table::empty());
    let once = arguments(&[("x-deduplication", Value::Bool(true))]);
    world.declare_with("open", true, once);
    let limits = [
        ("x-max-length", Value::I32(1)),
        ("x-overflow", text("reject-publish")),
    ];
    world.declare_with("full", true, arguments(&limits));
    for queue in ["open", "full"] {
        world.bind(queue, "x", "");
    }
    world.confirm_select();
    let publish = |world: &mut World, id: &'static str| {
        let properties = menzil_model::Properties {
            delivery_mode: Some(2),
            message_id: Some(id.as_bytes()),
            ..Default::default()
        };
        world.publish_with("x", "", id, false, &properties)
    };
    assert_eq!(publish(&mut world, "1"), [Seen::Acked(1)]);
    assert_eq!(publish(&mut world, "2"), [Seen::Nacked(2)]);
    assert_eq!(publish(&mut world, "2"), [Seen::Nacked(3)]);
    assert_eq!(world.drain("full"), ["1"]);
    assert_eq!(publish(&mut world, "2"), [Seen::Acked(4)]);
    assert_eq!(world.drain("open"), ["1", "2"]);
    assert_eq!(world.drain("full"), ["2"]);
}

/// Section "Configuration": what is transient does not survive a restart, queues as well as
/// messages; bindings and policies of what is durable do.
#[test]
fn transient_queues_and_messages_end_with_the_process() {
    let mut world = listing();
    world.declare_with("brief", false, Table::empty());
    world.publish("", "brief", "m");
    world.publish_as("biz.orders", "known", "brief", false, Some(1), None);
    world.publish("biz.orders", "known", "lasting");
    world.restart();
    let names: Vec<String> = (world.shard.queues().iter())
        .map(|queue| queue.name.to_string())
        .collect();
    assert!(!names.contains(&"brief".to_owned()), "{names:?}");
    let left = world.take("biz.q", false).unwrap();
    assert_eq!(left.1.body, "lasting");
    world.reject(key(1, 1), left.0);
    assert_eq!(world.take("biz.q", false), None);
    let expected = [letter("lasting", "biz.dlx", &["biz.q rejected 1"])];
    assert_eq!(world.letters("dead"), expected);
}

/// Section "Silent loss on deploys or renamed keys": what the alternate's queue caught is
/// published again to the right exchange once the binding is there.
#[test]
fn what_was_captured_can_be_published_again() {
    let mut world = listing();
    for body in ["1", "2"] {
        world.publish("biz.orders", "renamed", body);
    }
    assert_eq!(world.drain("biz.q"), [""; 0]);
    world.bind("biz.q", "biz.orders", "renamed");
    for body in world.drain("capture") {
        world.publish("biz.orders", "renamed", &body);
    }
    assert_eq!(world.drain("biz.q"), ["1", "2"]);
    let queue = (world.shard.queues().into_iter()).find(|queue| queue.name == name("capture"));
    assert_eq!(queue.unwrap().ready, 0);
}
