//! "RabbitMQ: exchange types and routing": its claims on exchanges, by section. The table of
//! outcomes is in `outcomes.rs`; the costs are counted in `topology/tests/cost.rs`.

use super::{bind_exchange, bind_headers, reached, reached_with, text, world};
use crate::support::{Seen, World, arguments, body_of, key, name};
use menzil_core::{Output, QueueBind, Refusal, Reply, Request};
use menzil_model::table::read_value;
use menzil_model::wire::{Reader, Writer};
use menzil_model::{Properties, Table, Value};

const QUEUES: [&str; 5] = ["audit", "email", "eu-billing", "push", "unrouted-capture"];

/// The drawing of section "The routing path".
fn drawing() -> World {
    let mut world = World::new();
    let alternate = arguments(&[("alternate-exchange", text("unrouted"))]);
    world.declare_exchange("orders", "topic", alternate);
    world.declare_exchange("notify", "fanout", Table::empty());
    world.declare_exchange("unrouted", "fanout", Table::empty());
    for queue in QUEUES {
        world.declare(queue);
    }
    world.bind("eu-billing", "orders", "order.*.eu");
    world.bind("audit", "orders", "order.#");
    bind_exchange(&mut world, "orders", "notify", "order.created.*");
    world.bind("email", "notify", "");
    world.bind("push", "notify", "");
    world.bind("unrouted-capture", "unrouted", "");
    world
}

/// Section "The routing path".
#[test]
fn the_target_set_joins_direct_bindings_and_those_of_bound_exchanges() {
    let mut world = drawing();
    let reached_by = reached(&mut world, "orders", "order.created.eu", &QUEUES);
    assert_eq!(reached_by, ["audit", "email", "eu-billing", "push"]);
    let alternate = reached(&mut world, "orders", "invoice.paid", &QUEUES);
    assert_eq!(alternate, ["unrouted-capture"]);
}

/// Section "The routing path": the first of the three properties.
#[test]
fn a_queue_gets_one_copy_however_many_ways_lead_to_it() {
    let mut world = world("x", "topic", &[("q", &["order.*", "order.#"])]);
    world.declare_exchange("y", "fanout", Table::empty());
    bind_exchange(&mut world, "x", "y", "#");
    world.bind("q", "y", "");
    assert_eq!(reached(&mut world, "x", "order.created", &["q"]), ["q"]);
}

/// Section "The routing path": the second property.
#[test]
fn circles_of_exchanges_and_of_alternates_end() {
    let mut world = world("a", "fanout", &[("q", &[""])]);
    world.declare_exchange("b", "fanout", Table::empty());
    for (source, destination) in [("a", "b"), ("b", "a"), ("a", "a")] {
        bind_exchange(&mut world, source, destination, "");
    }
    assert_eq!(reached(&mut world, "b", "k", &["q"]), ["q"]);
    for (exchange, alternate) in [("c", "d"), ("d", "c")] {
        let arguments = arguments(&[("alternate-exchange", text(alternate))]);
        world.declare_exchange(exchange, "direct", arguments);
    }
    assert!(reached(&mut world, "c", "k", &["q"]).is_empty());
    assert_eq!(world.shard.counters().unroutable_dropped, 1);
}

/// Section "The routing path": the third property, an empty set is unroutable; and nothing is
/// kept for a binding that comes later.
#[test]
fn what_no_binding_takes_is_not_kept_for_one_that_comes_later() {
    let mut world = world("x", "direct", &[("q", &["other"])]);
    assert_eq!(world.publish("x", "k", "early"), []);
    assert_eq!(world.shard.counters().unroutable_dropped, 1);
    world.bind("q", "x", "k");
    assert_eq!(world.publish("x", "k", "late"), []);
    assert_eq!(world.drain("q"), ["late"]);
}

/// Section "The routing path": not atomic across queues, in order within each.
#[test]
fn a_queue_has_its_messages_in_the_order_of_their_publishes() {
    let mut world = world("x", "fanout", &[("a", &[""]), ("b", &[""])]);
    let bodies: Vec<String> = (0..50).map(|number| number.to_string()).collect();
    for body in &bodies {
        assert_eq!(world.publish("x", "k", body), []);
    }
    assert_eq!(world.drain("a"), bodies);
    assert_eq!(world.drain("b"), bodies);
}

fn list(keys: &[&str]) -> Vec<u8> {
    let mut content = Vec::new();
    for key in keys {
        menzil_model::table::write_value(&mut content, Value::LongString(key.as_bytes()));
    }
    let mut bytes = vec![b'A'];
    bytes.put_long_string(&content);
    bytes
}

/// Section "The routing path": CC and BCC.
#[test]
fn cc_and_bcc_add_keys_and_nobody_sees_bcc() {
    let queues = ["a", "b", "c"];
    let mut world = world(
        "x",
        "direct",
        &[("a", &["a"]), ("b", &["b"]), ("c", &["c"])],
    );
    let (cc, bcc) = (list(&["b", "a"]), list(&["c", "b"]));
    let value = |bytes| read_value(&mut Reader::new(bytes)).unwrap();
    let headers = arguments(&[("CC", value(&cc)), ("BCC", value(&bcc))]);
    let properties = Properties {
        headers: Some(headers.as_bytes()),
        ..Properties::default()
    };
    assert_eq!(world.publish_with("x", "a", "m", false, &properties), []);
    for queue in queues {
        let get = Request::Get {
            queue: name(queue),
            no_ack: true,
        };
        let channel = key(1, 1);
        let effects = world.execute(menzil_core::Command::Request {
            channel,
            request: get,
        });
        let got = effects.iter().find_map(|effect| match effect {
            menzil_core::Effect::Channel {
                output: Output::GetOk { message, .. },
                ..
            } => Some(message),
            _ => None,
        });
        let message = got.unwrap();
        assert_eq!(body_of(message), "m");
        let read = Properties::parse(message.properties()).unwrap();
        let names: Vec<&[u8]> = read.header_fields().map(|(name, _)| name).collect();
        assert_eq!(names, [b"CC"]);
        assert_eq!(world.drain(queue), Vec::<String>::new(), "one copy");
    }
}

/// Section "Exchange types": direct.
#[test]
fn direct_takes_the_equal_key_for_many_queues_and_many_keys_for_a_queue() {
    let bindings = [("a", &["k", "l"][..]), ("b", &["k"])];
    let mut world = world("x", "direct", &bindings);
    assert_eq!(reached(&mut world, "x", "k", &["a", "b"]), ["a", "b"]);
    assert_eq!(reached(&mut world, "x", "l", &["a", "b"]), ["a"]);
    assert!(reached(&mut world, "x", "K", &["a", "b"]).is_empty());
}

/// Section "Exchange types": the default exchange.
#[test]
fn the_default_exchange_has_every_queue_by_name_and_no_bindings() {
    let mut world = World::new();
    world.declare("q");
    assert_eq!(reached(&mut world, "", "q", &["q"]), ["q"]);
    assert_eq!(world.publish("", "none", "m"), [], "dropped without a word");
    assert_eq!(world.shard.counters().unroutable_dropped, 1);
    assert_eq!(
        world.publish_as("", "none", "back", true, None, None),
        [Seen::Returned("back".to_owned())]
    );
    let bind = QueueBind {
        queue: name("q"),
        exchange: name(""),
        routing_key: name("k"),
        nowait: false,
        arguments: Table::empty(),
    };
    for request in [Request::QueueBind(bind.clone()), Request::QueueUnbind(bind)] {
        let seen = world.request(key(1, 1), request);
        assert_eq!(seen, [Seen::Refused(Refusal::DefaultExchange)]);
        world.open(key(1, 1));
    }
}

/// Section "Exchange types": fanout, "Routing does not look at the key".
#[test]
fn fanout_does_not_look_at_keys() {
    let mut world = world("x", "fanout", &[("a", &["k"]), ("b", &["l"])]);
    for key in ["", "k", "anything.at.all"] {
        assert_eq!(reached(&mut world, "x", key, &["a", "b"]), ["a", "b"]);
    }
}

/// Section "Topic: segments on a trie".
#[test]
fn topic_patterns_match_whole_segments() {
    for (pattern, key, matches) in [
        ("order.*.eu", "order.created.eu", true),
        ("order.*.eu", "order.eu", false),
        ("order.*.eu", "order.created.eu.retry", false),
        ("order.#", "order", true),
        ("order.#", "order.created", true),
        ("order.#", "order.created.eu.retry", true),
        ("#", "anything.at.all", true),
        ("#", "", true),
        ("order.cre*", "order.created", false),
        ("ord#", "order", false),
        ("order.created", "orders.created", false),
        ("#.error.#.payment.#", "eu.error.in.payment", true),
        ("#.error.#.payment.#", "payment.error", false),
    ] {
        let mut world = world("x", "topic", &[("q", &[pattern])]);
        let found = !reached(&mut world, "x", key, &["q"]).is_empty();
        assert_eq!(found, matches, "{pattern} and {key}");
    }
}

/// Section "Topic: segments on a trie": the drawing.
#[test]
fn the_trie_of_the_drawing_finds_four_destinations() {
    let bindings = [
        ("audit", &["order.#"][..]),
        ("audit-all", &["#"]),
        ("eu-billing", &["order.*.eu"]),
        ("notify", &["order.created.*"]),
    ];
    let queues = bindings.map(|(queue, _)| queue);
    let mut world = world("orders", "topic", &bindings);
    assert_eq!(
        reached(&mut world, "orders", "order.created.eu", &queues),
        queues
    );
    assert_eq!(
        reached(&mut world, "orders", "order", &queues),
        ["audit", "audit-all"]
    );
    assert_eq!(
        reached(&mut world, "orders", "invoice.paid", &queues),
        ["audit-all"]
    );
}

/// Section "Exchange types": headers.
#[test]
fn headers_modes_and_what_starts_with_x() {
    let mut world = world("x", "headers", &[]);
    for (queue, mode) in [
        ("all", "all"),
        ("any", "any"),
        ("all-x", "all-with-x"),
        ("any-x", "any-with-x"),
    ] {
        let fields = [
            ("x-match", text(mode)),
            ("a", text("1")),
            ("x-b", text("2")),
        ];
        bind_headers(&mut world, queue, "x", &fields);
    }
    bind_headers(&mut world, "default", "x", &[("a", text("1"))]);
    bind_headers(&mut world, "present", "x", &[("a", Value::Void)]);
    let queues = ["all", "any", "all-x", "any-x", "default", "present"];
    let mut of =
        |headers: &[(&str, Value<'_>)]| reached_with(&mut world, "x", "ignored", headers, &queues);
    let (a, other, x) = (("a", text("1")), ("a", text("9")), ("x-b", text("2")));
    assert_eq!(of(&[a]), ["all", "any", "any-x", "default", "present"]);
    assert_eq!(of(&[a, x]), queues);
    assert_eq!(of(&[x]), ["any-x"]);
    assert_eq!(of(&[other]), ["present"]);
    assert!(
        of(&[("A", text("1"))]).is_empty(),
        "a renamed header matches nothing"
    );
}

/// Section "Exchange types": the hash exchanges give each key exactly one queue.
#[test]
fn a_hash_exchange_gives_each_key_one_queue_as_long_as_nothing_changes() {
    let queues = ["a", "b", "c"];
    for kind in ["x-consistent-hash", "x-modulus-hash"] {
        let bindings = queues.map(|queue| (queue, &["1"][..]));
        let mut world = world("x", kind, &bindings);
        let mut seen = std::collections::BTreeSet::new();
        for number in 0..60 {
            let key = format!("key.{number}");
            let first = reached(&mut world, "x", &key, &queues);
            assert_eq!(first.len(), 1, "exactly one queue");
            assert_eq!(reached(&mut world, "x", &key, &queues), first);
            seen.extend(first);
        }
        assert_eq!(seen.len(), 3);
    }
}

/// Section "Exchange types": a changed number of bindings moves nearly every key of a modulus
/// hash exchange, and of a consistent one only those of the queue that came.
#[test]
fn what_a_further_queue_moves() {
    let queues = ["a", "b", "c", "d", "e"];
    let moved = |kind: &str| {
        let bindings: Vec<_> = queues[..4]
            .iter()
            .map(|queue| (*queue, &["1"][..]))
            .collect();
        let mut world = world("x", kind, &bindings);
        world.declare("e");
        let placed = |world: &mut World| -> Vec<Vec<String>> {
            let keys = (0..200).map(|number| format!("key.{number}"));
            keys.map(|key| reached(world, "x", &key, &queues)).collect()
        };
        let before = placed(&mut world);
        world.bind("e", "x", "1");
        let after = placed(&mut world);
        before
            .iter()
            .zip(&after)
            .filter(|(before, after)| before != after)
            .count()
    };
    let (modulus, consistent) = (moved("x-modulus-hash"), moved("x-consistent-hash"));
    assert!(modulus > 140, "{modulus} of 200");
    assert!((20..60).contains(&consistent), "{consistent} of 200");
}

/// Section "Exchange types": local random, and its failure mode.
#[test]
fn local_random_drops_what_finds_no_queue() {
    let mut world = world("x", "x-local-random", &[]);
    assert_eq!(world.publish("x", "k", "m"), []);
    assert_eq!(world.shard.counters().unroutable_dropped, 1);
    world.declare("q");
    world.bind("q", "x", "");
    assert_eq!(reached(&mut world, "x", "whatever", &["q"]), ["q"]);
}

/// Section "What the publisher learns": a message that the alternate takes is routed; one that
/// nothing takes is acknowledged all the same, after its return.
#[test]
fn an_acknowledgement_alone_does_not_say_that_anybody_has_it() {
    let mut world = drawing();
    world.declare_exchange("bare", "topic", Table::empty());
    world.confirm_select();
    let publish = |world: &mut World, exchange, mandatory| {
        world.publish_as(exchange, "invoice.paid", "m", mandatory, Some(2), None)
    };
    assert_eq!(publish(&mut world, "orders", true), [Seen::Acked(1)]);
    assert_eq!(publish(&mut world, "bare", false), [Seen::Acked(2)]);
    let returned = Seen::Returned("m".to_owned());
    assert_eq!(
        publish(&mut world, "bare", true),
        [returned, Seen::Acked(3)]
    );
}

/// Sections "What the publisher learns" and "Partial routing and copies on retry".
#[test]
fn who_publishes_again_after_a_nack_makes_a_copy_where_it_was_taken() {
    let mut world = world("x", "fanout", &[("open", &[""])]);
    let limits = [
        ("x-max-length", Value::I32(1)),
        ("x-overflow", text("reject-publish")),
    ];
    world.declare_with("full", true, arguments(&limits));
    world.bind("full", "x", "");
    world.confirm_select();
    assert_eq!(world.publish("x", "", "1"), [Seen::Acked(1)]);
    assert_eq!(world.publish("x", "", "2"), [Seen::Nacked(2)]);
    assert_eq!(world.publish("x", "", "2"), [Seen::Nacked(3)]);
    assert_eq!(world.drain("open"), ["1", "2", "2"]);
    assert_eq!(world.drain("full"), ["1"]);
}

/// Section "Silent loss on deploys or renamed keys": nothing but the counter shows it, and an
/// alternate exchange keeps all of it.
#[test]
fn a_renamed_key_is_lost_in_silence_unless_an_alternate_takes_it() {
    let mut world = world("orders", "topic", &[("billing", &["order.created"])]);
    world.confirm_select();
    for number in 1..=42 {
        let seen = world.publish("orders", "orders.created", "m");
        assert_eq!(seen, [Seen::Acked(number)]);
    }
    assert_eq!(world.shard.counters().unroutable_dropped, 42);
    assert_eq!(world.drain("billing"), Vec::<String>::new());
    let mut world = drawing();
    for _ in 0..42 {
        assert_eq!(world.publish("orders", "orders.created", "m"), []);
    }
    assert_eq!(world.shard.counters().unroutable_dropped, 0);
    assert_eq!(world.drain("unrouted-capture").len(), 42);
}

/// Section "A hot queue behind a hash exchange": more queues do not help one key.
#[test]
fn one_key_goes_to_one_queue_whether_there_are_10_queues_or_100() {
    for count in [10, 100] {
        let mut world = world("x", "x-consistent-hash", &[]);
        let queues: Vec<String> = (0..count).map(|number| format!("q{number}")).collect();
        for queue in &queues {
            world.declare(queue);
            world.bind(queue, "x", "1");
        }
        for number in 0..100 {
            let key = if number % 10 < 3 {
                "hot".to_owned()
            } else {
                format!("tenant.{number}")
            };
            assert_eq!(world.publish("x", &key, &key), []);
        }
        let hot = queues.iter().map(|queue| {
            let bodies = world.drain(queue);
            bodies.iter().filter(|body| *body == "hot").count()
        });
        assert_eq!(hot.filter(|count| *count > 0).collect::<Vec<_>>(), [30]);
    }
}

/// Section "Configuration": an argument stays as it was declared; of a redeclared one RabbitMQ
/// says which differs.
#[test]
fn the_argument_of_an_exchange_is_fixed_by_its_declaration() {
    let mut world = drawing();
    let seen = world.declare_exchange("orders", "topic", Table::empty());
    assert!(
        matches!(seen.as_slice(), [Seen::Refused(Refusal::Inequivalent { argument, .. })]
            if argument.as_bytes() == b"alternate-exchange"),
        "{seen:?}"
    );
    world.open(key(1, 1));
    let seen = world.request(
        key(1, 1),
        Request::ExchangeDelete {
            exchange: name("orders"),
            if_unused: false,
            nowait: false,
        },
    );
    assert_eq!(seen, [Seen::Reply(Reply::ExchangeDeleteOk)]);
}
