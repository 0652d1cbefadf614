//! Explanations: each exchange on the way, what matched, what nearly did, and what came of it.

use menzil_model::{TableBuilder, Value};

use super::*;
use crate::refusal::{Object, Refusal};
use crate::topology::explain::{Arrival, ChosenBy, Explanation, Miss, Visit};

/// The drawing of the article on routing: a topic exchange, an exchange behind it, an alternate.
fn article() -> Topology {
    let mut topology = Topology::default();
    let alternate = TableBuilder::new().field("alternate-exchange", Value::LongString(b"unrouted"));
    topology.declare_exchange(ExchangeDefinition {
        arguments: alternate.build(),
        ..exchange(1, "orders", ExchangeKind::Topic)
    });
    topology.declare_exchange(exchange(2, "notify", ExchangeKind::Fanout));
    topology.declare_exchange(exchange(3, "unrouted", ExchangeKind::Fanout));
    for (id, name) in (1..).zip(["eu-billing", "audit", "email", "push", "unrouted-capture"]) {
        topology.declare_queue_name(Name::from(name), QueueId(id));
    }
    topology.bind(to_queue(1, 1, "order.*.eu", Table::empty()));
    topology.bind(to_queue(1, 2, "order.#", Table::empty()));
    topology.bind(to_exchange(1, 2, "order.created.*"));
    topology.bind(to_queue(2, 3, "", Table::empty()));
    topology.bind(to_queue(2, 4, "", Table::empty()));
    topology.bind(to_queue(3, 5, "", Table::empty()));
    topology
}

fn explain(topology: &Topology, exchange: &str, key: &str, headers: Option<&Table>) -> Explanation {
    let exchange = Name::new(exchange.as_bytes()).unwrap();
    topology.explain(
        &exchange,
        &RoutingKeys::one(key.as_bytes()),
        &with_headers(headers),
    )
}

fn queues(explanation: &Explanation) -> Vec<String> {
    explanation
        .queues
        .iter()
        .map(|reach| reach.queue.to_string())
        .collect()
}

fn matched(visit: &Visit) -> Vec<String> {
    visit
        .matched
        .iter()
        .map(|taken| taken.key.to_string())
        .collect()
}

/// Binding keys of what nearly matched, each with what is wrong.
fn near(visit: &Visit) -> Vec<(String, Vec<Miss>)> {
    let near = visit.near.iter();
    near.map(|near| (near.binding.key.to_string(), near.misses.clone()))
        .collect()
}

fn word(place: usize, given: &'static str, wanted: &'static str) -> Miss {
    Miss::Word {
        place,
        given: Name::from(given),
        wanted: Name::from(wanted),
    }
}

#[test]
fn every_exchange_on_the_way_is_told_with_what_matched() {
    let explanation = explain(&article(), "orders", "order.created.eu", None);
    assert_eq!(
        queues(&explanation),
        ["audit", "email", "eu-billing", "push"]
    );
    assert!(!explanation.is_unroutable() && !explanation.is_cut);
    let [orders, notify] = explanation.visits.as_slice() else {
        panic!("{explanation:?}")
    };
    assert_eq!(orders.from, Arrival::Publisher);
    assert_eq!(
        matched(orders),
        ["order.*.eu", "order.#", "order.created.*"]
    );
    assert_eq!((orders.bindings, orders.matched_count), (3, 3));
    assert_eq!(orders.near, []);
    assert!(
        orders
            .alternate
            .as_ref()
            .is_some_and(|alternate| !alternate.is_taken)
    );
    assert_eq!(notify.from, Arrival::Exchange(Name::from("orders")));
    assert_eq!(notify.matched_count, 2);
}

#[test]
fn a_renamed_key_is_told_from_what_nobody_wants() {
    let topology = article();
    let renamed = explain(&topology, "orders", "orders.created.eu", None);
    assert_eq!(queues(&renamed), ["unrouted-capture"]);
    let [orders, unrouted] = renamed.visits.as_slice() else {
        panic!("{renamed:?}")
    };
    let miss = || vec![word(1, "orders", "order")];
    assert_eq!(
        near(orders),
        [
            ("order.*.eu".to_owned(), miss()),
            ("order.#".to_owned(), miss()),
            ("order.created.*".to_owned(), miss()),
        ]
    );
    assert!(
        orders
            .alternate
            .as_ref()
            .is_some_and(|alternate| alternate.is_taken)
    );
    assert_eq!(unrouted.from, Arrival::AlternateOf(Name::from("orders")));
    let unwanted = explain(&topology, "orders", "invoice.paid", None);
    assert_eq!(near(&unwanted.visits[0]), []);
    assert_eq!(queues(&unwanted), ["unrouted-capture"]);
    let longer = explain(&topology, "orders", "order.created.eu.retry", None);
    assert_eq!(queues(&longer), ["audit"]);
    let given = Name::from("retry");
    let more = vec![Miss::WordMore { place: 4, given }];
    assert_eq!(
        near(&longer.visits[0]),
        [
            ("order.*.eu".to_owned(), more.clone()),
            ("order.created.*".to_owned(), more)
        ]
    );
}

#[test]
fn an_alternate_that_is_not_there_is_told() {
    let mut topology = article();
    topology.delete_exchange(ExchangeId(3));
    let explanation = explain(&topology, "orders", "invoice.paid", None);
    assert!(explanation.is_unroutable());
    let alternate = explanation.visits[0].alternate.clone().unwrap();
    assert_eq!(
        (alternate.exchange, alternate.is_missing, alternate.is_taken),
        (Name::from("unrouted"), true, false)
    );
}

#[test]
fn direct_exchanges_and_queue_names_have_near_ones_too() {
    let mut topology = article();
    topology.declare_exchange(exchange(0, "", ExchangeKind::Direct));
    topology.declare_exchange(exchange(4, "work", ExchangeKind::Direct));
    topology.bind(to_queue(4, 1, "img.create", Table::empty()));
    topology.bind(to_queue(4, 2, "img.*", Table::empty()));
    let explanation = explain(&topology, "work", "img.created", None);
    assert!(explanation.is_unroutable());
    let visit = &explanation.visits[0];
    assert_eq!(
        near(visit)[0],
        ("img.create".to_owned(), vec![word(2, "created", "create")])
    );
    let by_name = explain(&topology, "", "audits", None);
    assert_eq!(
        near(&by_name.visits[0]),
        [("audit".to_owned(), vec![word(1, "audits", "audit")])]
    );
    let by_name = explain(&topology, "", "audit", None);
    assert_eq!(queues(&by_name), ["audit"]);
    assert_eq!(by_name.visits[0].bindings, 5);
}

#[test]
fn headers_that_are_absent_misspelt_or_other_are_told() {
    let text = |text: &'static str| Value::LongString(text.as_bytes());
    let mut topology = Topology::default();
    topology.declare_exchange(exchange(1, "h", ExchangeKind::Headers));
    let all = |mode, resource| {
        TableBuilder::new()
            .field("x-match", text(mode))
            .field("type", text("read"))
            .field("resource", text(resource))
            .build()
    };
    for (id, name, arguments) in [
        (1, "a", all("all", "group")),
        (2, "b", all("any", "topic")),
        (
            3,
            "n",
            TableBuilder::new().field("retries", Value::I64(5)).build(),
        ),
    ] {
        topology.declare_queue_name(Name::from(name), QueueId(id));
        topology.bind(to_queue(1, id, "", arguments));
    }
    let told = |headers: TableBuilder| {
        let explanation = explain(&topology, "h", "", Some(&headers.build()));
        let near = explanation.visits[0].near.iter();
        let near = near.map(|near| (near.binding.to.clone(), near.misses.clone()));
        (queues(&explanation), near.collect::<Vec<_>>())
    };
    let queue = |name: &'static str| Object::Queue(Name::from(name));
    let absent =
        |header: &'static str, wanted: &str, similar: Option<&'static str>| Miss::HeaderAbsent {
            header: Name::from(header),
            wanted: Some(wanted.to_owned()),
            similar: similar.map(Name::from),
        };
    let value = |header: &'static str, wanted: &str, given: &str| Miss::HeaderValue {
        header: Name::from(header),
        wanted: wanted.to_owned(),
        given: given.to_owned(),
    };
    let (reached, near) = told(TableBuilder::new().field("type", text("read")));
    assert_eq!(reached, ["b"]);
    assert_eq!(
        near[0],
        (queue("a"), vec![absent("resource", "\"group\"", None)])
    );
    let (reached, near) = told(
        TableBuilder::new()
            .field("type", text("read"))
            .field("resuorce", text("group")),
    );
    assert_eq!(reached, ["b"]);
    let misspelt = absent("resource", "\"group\"", Some("resuorce"));
    assert_eq!(near[0], (queue("a"), vec![misspelt]));
    let (reached, near) = told(
        TableBuilder::new()
            .field("type", text("read"))
            .field("resource", text("groups")),
    );
    assert_eq!(reached, ["b"]);
    assert_eq!(
        near[0],
        (
            queue("a"),
            vec![value("resource", "\"group\"", "\"groups\"")]
        )
    );
    // A number is not its digits.
    let (reached, near) = told(TableBuilder::new().field("retries", text("5")));
    assert!(reached.is_empty());
    assert_eq!(near[0], (queue("n"), vec![value("retries", "5", "\"5\"")]));
    // Presence is asked for with a void, and an empty text is a value (tests/cases.rs).
    let (reached, _) = told(TableBuilder::new().field("retries", Value::I8(5)));
    assert_eq!(reached, ["n"]);
}

#[test]
fn what_is_chosen_by_is_told() {
    let mut topology = Topology::default();
    let header = TableBuilder::new().field("hash-header", Value::LongString(b"customer"));
    for (id, name, kind, arguments) in [
        (1, "hash", ExchangeKind::ConsistentHash, header.build()),
        (2, "random", ExchangeKind::Random, Table::empty()),
    ] {
        topology.declare_exchange(ExchangeDefinition {
            arguments,
            ..exchange(id, name, kind)
        });
    }
    for (id, name) in [(1, "a"), (2, "b"), (3, "c")] {
        topology.declare_queue_name(Name::from(name), QueueId(id));
        for source in [1, 2] {
            topology.bind(to_queue(source, id, "1", Table::empty()));
        }
    }
    let explanation = explain(&topology, "hash", "k", None);
    let choice = explanation.visits[0].choice.clone().unwrap();
    let header = Name::from("customer");
    assert_eq!(choice.of, 3);
    assert_eq!(
        choice.by,
        ChosenBy::Header {
            header,
            is_absent: true
        }
    );
    assert_eq!(explanation.queues.len(), 1);
    let explanation = explain(&topology, "random", "k", None);
    assert_eq!(
        explanation.visits[0].choice.clone().unwrap().by,
        ChosenBy::Chance
    );
    assert_eq!(queues(&explanation), ["a", "b", "c"]);
    assert!(explanation.queues.iter().all(|reach| reach.by_chance));
    // What another binding reaches for certain is no matter of chance.
    topology.declare_exchange(exchange(3, "both", ExchangeKind::Fanout));
    topology.bind(to_exchange(3, 2, ""));
    topology.bind(to_queue(3, 2, "", Table::empty()));
    let explanation = explain(&topology, "both", "k", None);
    let by_chance: Vec<bool> = explanation
        .queues
        .iter()
        .map(|reach| reach.by_chance)
        .collect();
    assert_eq!(by_chance, [true, false, true]);
}

#[test]
fn what_would_be_refused_is_told() {
    let mut topology = article();
    topology.declare_exchange(ExchangeDefinition {
        internal: true,
        ..exchange(9, "inner", ExchangeKind::Fanout)
    });
    let refusal = |name| explain(&topology, name, "k", None).refusal;
    let missing = Object::Exchange(Name::from("missing"));
    assert_eq!(refusal("missing"), Some(Refusal::NotFound(missing)));
    let inner = Name::from("inner");
    assert_eq!(refusal("inner"), Some(Refusal::InternalExchange(inner)));
    assert_eq!(refusal("orders"), None);
}

#[test]
fn an_explanation_is_bounded() {
    let mut topology = Topology::default();
    topology.declare_exchange(exchange(1, "t", ExchangeKind::Topic));
    for id in 0..3000 {
        let name = Name::new(format!("q{id}").as_bytes()).unwrap();
        topology.declare_queue_name(name, QueueId(id));
        topology.bind(to_queue(
            1,
            id,
            &format!("order.number{id}"),
            Table::empty(),
        ));
        topology.bind(to_queue(1, id, "all.#", Table::empty()));
    }
    let explanation = explain(&topology, "t", "order.number29990", None);
    let visit = &explanation.visits[0];
    assert_eq!(visit.near.len(), 5);
    for (_, misses) in near(visit) {
        assert!(
            matches!(misses.as_slice(), [Miss::Word { place: 2, .. }]),
            "{misses:?}"
        );
    }
    let explanation = explain(&topology, "t", "all", None);
    let visit = &explanation.visits[0];
    assert_eq!((visit.matched.len(), visit.matched_count), (100, 3000));
    assert_eq!(explanation.queues.len(), 3000);
    assert!(explanation.is_cut);
}
