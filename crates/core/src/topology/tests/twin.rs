//! Random histories: the topology answers as the naive twin does, and as one that was built
//! afresh from what is left.

use std::collections::BTreeSet;

use menzil_model::table::{read_value, write_value};
use menzil_model::wire::{Reader, Writer};
use menzil_model::{TableBuilder, Value};
use proptest::prelude::*;

use super::naive::Naive;
use super::*;

#[derive(Clone, Debug)]
enum Step {
    DeclareExchange(ExchangeDefinition),
    DeleteExchange(ExchangeId),
    DeclareQueue(Name, QueueId),
    DeleteQueue(QueueId),
    Bind(Binding),
    Unbind(Binding),
    ClearAway,
}

#[derive(Clone, Debug)]
struct Publish {
    from: ExchangeId,
    keys: Vec<&'static str>,
    headers: Table,
}

const EXCHANGES: [(&str, ExchangeKind); 12] = [
    ("", ExchangeKind::Direct),
    ("d1", ExchangeKind::Direct),
    ("d2", ExchangeKind::Direct),
    ("f1", ExchangeKind::Fanout),
    ("f2", ExchangeKind::Fanout),
    ("t1", ExchangeKind::Topic),
    ("t2", ExchangeKind::Topic),
    ("h1", ExchangeKind::Headers),
    ("h2", ExchangeKind::Headers),
    ("c1", ExchangeKind::ConsistentHash),
    ("c2", ExchangeKind::ConsistentHash),
    ("m1", ExchangeKind::ModulusHash),
];
const QUEUES: [&str; 6] = ["a", "b", "a.b", "", "q4", "q5"];
const KEYS: [&str; 15] = [
    "", "a", "b", "a.b", "*", "#", "a.*", "#.b", "a.#.b", "*.#", "q4", "a..b", "1", "2", "300",
];

fn id(limit: usize) -> impl Strategy<Value = u64> {
    0..limit as u64
}

fn definition() -> impl Strategy<Value = ExchangeDefinition> {
    let alternate = prop::option::of(prop::sample::select(vec![
        "", "d1", "f1", "t1", "h1", "t2", "c1", "m1", "missing",
    ]));
    // What a deleted id was is what it is again: only its argument varies.
    (id(EXCHANGES.len()), alternate).prop_map(|(id, alternate)| {
        let (name, kind) = EXCHANGES[usize::try_from(id).unwrap()];
        let mut arguments = TableBuilder::new();
        if name == "c2" {
            arguments = arguments.field("hash-header", Value::LongString(b"h"));
        }
        if let Some(alternate) = alternate {
            let alternate = Value::LongString(alternate.as_bytes());
            arguments = arguments.field("alternate-exchange", alternate);
        }
        ExchangeDefinition {
            arguments: arguments.build(),
            ..exchange(id, name, kind)
        }
    })
}

fn value() -> impl Strategy<Value = Value<'static>> {
    let nested = |bytes: &'static [u8]| read_value(&mut Reader::new(bytes)).unwrap();
    prop::sample::select(vec![
        Value::I8(1),
        Value::I64(1),
        Value::U32(1000),
        Value::F32(1.0),
        Value::F64(1.0),
        Value::F64(-0.0),
        Value::LongString(b"1"),
        Value::LongString(b""),
        Value::Binary(b"1"),
        Value::Bool(true),
        Value::Timestamp(1),
        Value::Decimal(1, 10),
        Value::Void,
        Value::Void,
        nested(b"A\0\0\0\0"),
        nested(b"F\0\0\0\0"),
        nested(b"A\0\0\0\x02b\x01"),
    ])
}

fn table(with_match: bool) -> impl Strategy<Value = Table> {
    let names = prop::sample::select(vec!["a", "b", "c", "x-a", "x-match", "BCC"]);
    let fields = prop::collection::vec((names, value()), 0..5);
    let modes = prop::sample::select(vec!["all", "any", "all-with-x", "any-with-x", "other"]);
    (fields, prop::option::of(modes)).prop_map(move |(fields, mode)| {
        let mut table = TableBuilder::new();
        if let Some(mode) = mode.filter(|_| with_match) {
            table = table.field("x-match", Value::LongString(mode.as_bytes()));
        }
        for (name, value) in fields {
            table = table.field(name, value);
        }
        table.build()
    })
}

fn binding() -> impl Strategy<Value = Binding> {
    let destination = prop_oneof![
        3 => id(QUEUES.len()).prop_map(|id| Destination::Queue(QueueId(id))),
        2 => id(EXCHANGES.len()).prop_map(|id| Destination::Exchange(ExchangeId(id))),
    ];
    let key = prop::sample::select(KEYS.to_vec());
    let arguments = prop_oneof![1 => Just(Table::empty()), 2 => table(true)];
    // The default exchange, id 0, has no bindings.
    (1..EXCHANGES.len() as u64, destination, key, arguments).prop_map(
        |(source, destination, key, arguments)| Binding {
            source: ExchangeId(source),
            destination,
            key: Name::from(key),
            arguments,
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    let queue = || id(QUEUES.len()).prop_map(QueueId);
    prop_oneof![
        4 => definition().prop_map(Step::DeclareExchange),
        1 => id(EXCHANGES.len()).prop_map(|id| Step::DeleteExchange(ExchangeId(id))),
        3 => queue().prop_map(|id| {
            Step::DeclareQueue(Name::from(QUEUES[usize::try_from(id.0).unwrap()]), id)
        }),
        1 => queue().prop_map(Step::DeleteQueue),
        14 => binding().prop_map(Step::Bind),
        2 => binding().prop_map(Step::Unbind),
        1 => Just(Step::ClearAway),
    ]
}

fn publish() -> impl Strategy<Value = Publish> {
    let keys = prop::collection::vec(prop::sample::select(KEYS.to_vec()), 1..4);
    let hashed = prop::option::of(prop::sample::select(KEYS.to_vec()));
    (id(EXCHANGES.len()), keys, table(false), hashed).prop_map(|(from, keys, headers, hashed)| {
        let mut with_hashed = headers.as_bytes().to_vec();
        if let Some(hashed) = hashed {
            with_hashed.put_short_string(b"h");
            write_value(&mut with_hashed, Value::LongString(hashed.as_bytes()));
        }
        Publish {
            from: ExchangeId(from),
            keys,
            headers: Table::copy_from(&with_hashed).unwrap(),
        }
    })
}

fn take(topology: &mut Topology, naive: &mut Naive, step: &Step) {
    match step {
        Step::DeclareExchange(definition) => {
            topology.declare_exchange(definition.clone());
            naive
                .exchanges
                .entry(definition.id)
                .or_insert_with(|| definition.clone());
        }
        Step::DeleteExchange(id) => {
            topology.delete_exchange(*id);
            naive.delete(Destination::Exchange(*id));
        }
        Step::DeclareQueue(name, id) => {
            topology.declare_queue_name(name.clone(), *id);
            naive.queues.entry(*id).or_insert_with(|| name.clone());
        }
        Step::DeleteQueue(id) => {
            topology.delete_queue(*id);
            naive.delete(Destination::Queue(*id));
        }
        Step::Bind(binding) => assert_eq!(topology.bind(binding.clone()), naive.bind(binding)),
        Step::Unbind(binding) => assert_eq!(topology.unbind(binding), naive.unbind(binding)),
        Step::ClearAway => topology.clear_away(),
    }
}

fn rebuilt(naive: &Naive) -> Topology {
    let mut topology = Topology::default();
    // Bindings first: the order of facts about different objects does not matter. That of bindings
    // between the same two does at a consistent hash exchange.
    let ordered = |binding: &&Binding| {
        let source = naive.exchanges.get(&binding.source);
        source.is_some_and(|source| source.kind == ExchangeKind::ConsistentHash)
    };
    let in_any_order = naive.bindings.iter().rev().filter(|b| !ordered(b));
    for binding in in_any_order.chain(naive.bindings.iter().filter(ordered)) {
        topology.bind(binding.clone());
    }
    for definition in naive.exchanges.values() {
        topology.declare_exchange(definition.clone());
    }
    for (id, name) in &naive.queues {
        topology.declare_queue_name(name.clone(), *id);
    }
    topology.check_invariants();
    topology
}

/// The queues that an explanation names.
fn explained(topology: &Topology, publish: &Publish) -> BTreeSet<QueueId> {
    let keys = publish.keys.iter().map(|key| key.as_bytes());
    let keys = RoutingKeys::of(keys.collect());
    let name = Name::from(EXCHANGES[usize::try_from(publish.from.0).unwrap()].0);
    let explanation = topology.explain(&name, &keys, &with_headers(Some(&publish.headers)));
    let is_there = topology.exchange_by_id(publish.from).is_some();
    assert_eq!(explanation.refusal.is_none(), is_there);
    for visit in &explanation.visits {
        let is_alternate = visit.alternate.as_ref().is_some_and(|a| a.is_taken);
        assert!(!is_alternate || visit.matched.is_empty());
        assert_eq!(visit.matched.len(), visit.matched_count);
        for near in &visit.near {
            assert!(!near.misses.is_empty() && !visit.matched.contains(&near.binding));
        }
    }
    let names = explanation.queues.iter().map(|reach| {
        assert!(!reach.by_chance);
        QUEUES
            .iter()
            .position(|name| name.as_bytes() == reach.queue.as_bytes())
    });
    names.map(|place| QueueId(place.unwrap() as u64)).collect()
}

fn routed(topology: &Topology, publish: &Publish, scratch: &mut Targets) -> BTreeSet<QueueId> {
    let keys = publish.keys.iter().map(|key| key.as_bytes());
    let keys = RoutingKeys::of(keys.collect());
    let properties = with_headers(Some(&publish.headers));
    let outcome = topology.route(publish.from, &keys, &properties, scratch);
    let queues: BTreeSet<QueueId> = scratch.queues().iter().copied().collect();
    assert_eq!(queues.len(), scratch.queues().len(), "one copy for a queue");
    assert_eq!(outcome == Routed::Nowhere, queues.is_empty());
    queues
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_history_routes_as_the_naive_twin_and_as_a_rebuilt_topology(
        steps in prop::collection::vec(step(), 1..120),
        publishes in prop::collection::vec(publish(), 1..20),
    ) {
        let mut topology = Topology::default();
        let mut naive = Naive::default();
        for step in &steps {
            take(&mut topology, &mut naive, step);
            topology.check_invariants();
        }
        prop_assert_eq!(topology.binding_count(), naive.bindings.len());
        prop_assert_eq!(topology.exchanges().count(), naive.exchanges.len());
        let rebuilt = rebuilt(&naive);
        let mut scratch = Targets::new();
        for publish in &publishes {
            let keys: Vec<&[u8]> = publish.keys.iter().map(|key| key.as_bytes()).collect();
            let expected = naive.route(publish.from, &keys, &publish.headers);
            prop_assert_eq!(&routed(&topology, publish, &mut scratch), &expected);
            prop_assert_eq!(&routed(&rebuilt, publish, &mut scratch), &expected);
            prop_assert_eq!(&explained(&topology, publish), &expected);
        }
        for id in 0..EXCHANGES.len() as u64 {
            topology.delete_exchange(ExchangeId(id));
        }
        topology.check_invariants();
        prop_assert_eq!(topology.binding_count(), 0);
        while topology.is_behind() {
            topology.clear_away();
            topology.check_invariants();
        }
    }

    #[test]
    fn a_headers_exchange_finds_what_a_scan_finds(
        bindings in prop::collection::vec(table(true), 0..80),
        removed in prop::collection::vec(any::<prop::sample::Index>(), 0..30),
        messages in prop::collection::vec(table(false), 1..30),
    ) {
        let mut topology = Topology::default();
        let mut naive = Naive::default();
        let declare = Step::DeclareExchange(exchange(1, "h", ExchangeKind::Headers));
        take(&mut topology, &mut naive, &declare);
        let mut bound = Vec::new();
        for (id, arguments) in (0..).zip(bindings) {
            let name = Name::new(format!("q{id}").as_bytes()).unwrap();
            take(&mut topology, &mut naive, &Step::DeclareQueue(name, QueueId(id)));
            let binding = to_queue(1, id, "", arguments);
            take(&mut topology, &mut naive, &Step::Bind(binding.clone()));
            bound.push(binding);
        }
        for index in removed.iter().filter(|_| !bound.is_empty()) {
            take(&mut topology, &mut naive, &Step::Unbind(index.get(&bound).clone()));
            topology.check_invariants();
        }
        let mut scratch = Targets::new();
        for headers in messages {
            let publish = Publish { from: ExchangeId(1), keys: vec![""], headers };
            let expected = naive.route(ExchangeId(1), &[b""], &publish.headers);
            prop_assert_eq!(routed(&topology, &publish, &mut scratch), expected);
        }
    }

    #[test]
    fn one_history_gives_one_order_of_queues(
        steps in prop::collection::vec(step(), 1..60),
        publish in publish(),
    ) {
        let mut orders = Vec::new();
        for _ in 0..2 {
            let (mut topology, mut naive) = (Topology::default(), Naive::default());
            for step in &steps {
                take(&mut topology, &mut naive, step);
            }
            let mut scratch = Targets::new();
            routed(&topology, &publish, &mut scratch);
            orders.push(scratch.queues().to_vec());
        }
        prop_assert_eq!(&orders[0], &orders[1]);
    }
}
