//! Exchanges that keep messages until they are due, against a list that is sorted by that time.

use std::collections::BTreeSet;

use crate::stores::check_references;
use crate::support::{Seen, World, arguments, body_of, delivered, key, name, references_of};
use bytes::Bytes;
use menzil_core::{ExchangeBind, Output, Publish, Refusal, Reply, Request, ShardSettings};
use menzil_model::{Properties, Sequence, Table, TableBuilder, Value};
use proptest::prelude::*;

pub(crate) fn delayed(world: &mut World, kind: &str) {
    let inner = arguments(&[("x-delayed-type", Value::LongString(kind.as_bytes()))]);
    let seen = world.declare_exchange("x", "x-delayed-message", inner);
    assert_eq!(seen, [Seen::Reply(Reply::ExchangeDeclareOk)]);
}

impl World {
    pub(crate) fn publish_delayed(
        &mut self,
        to: (&str, &str),
        headers: &Table,
        body: &str,
        mandatory: bool,
    ) -> Vec<Seen> {
        let properties = Properties {
            delivery_mode: Some(2),
            headers: Some(headers.as_bytes()),
            ..Properties::default()
        };
        let mut bytes = Vec::new();
        properties.write(&mut bytes);
        let chunk = self.settings.chunk_bytes;
        let body = body.as_bytes().chunks(chunk);
        self.request(
            key(1, 1),
            Request::Publish(Publish {
                exchange: name(to.0),
                routing_key: name(to.1),
                mandatory,
                properties: bytes.into(),
                body: body.map(Bytes::copy_from_slice).collect(),
            }),
        )
    }
}

impl World {
    pub(crate) fn cancel_delay(&mut self, id: Sequence) -> bool {
        let mut effects = Vec::new();
        let (shard, log) = (&mut self.shard, &mut self.log);
        let found = shard.cancel_delay(self.now, b"x", id, log, &mut effects);
        self.answered(effects);
        found
    }
}

pub(crate) fn delay(milliseconds: i64) -> Table {
    TableBuilder::new()
        .field("x-delay", Value::I64(milliseconds))
        .build()
}

#[test]
fn a_message_comes_when_it_is_due_and_its_delay_is_negated() {
    let mut world = World::new();
    world.declare("q");
    delayed(&mut world, "direct");
    world.bind("q", "x", "k");
    world.confirm_select();
    let seen = world.publish_delayed(("x", "k"), &delay(3000), "late", false);
    assert_eq!(seen, [Seen::Acked(1)]);
    world.publish_delayed(("x", "k"), &delay(0), "at once", false);
    world.publish_delayed(("x", "k"), &delay(-5), "at once too", false);
    assert_eq!(world.drain("q"), ["at once", "at once too"]);
    world.tick(2999);
    assert_eq!(world.drain("q"), Vec::<String>::new());
    assert_eq!(world.shard.delays()[0].count, 1);
    world.tick(1);
    let effects = world.execute(menzil_core::Command::Request {
        channel: key(1, 1),
        request: Request::Get {
            queue: name("q"),
            no_ack: true,
        },
    });
    let [
        menzil_core::Effect::Channel {
            output: Output::GetOk { message, .. },
            ..
        },
    ] = effects.as_slice()
    else {
        panic!("{effects:?}")
    };
    assert_eq!(body_of(message), "late");
    let properties = Properties::parse(message.properties()).unwrap();
    let headers = Table::new(Bytes::copy_from_slice(properties.headers.unwrap())).unwrap();
    assert!(matches!(headers.find(b"x-delay"), Some(Value::I32(-3000))));
    assert_eq!(world.shard.delays()[0].count, 0);
    check_references(&world);
}

#[test]
fn downtime_counts_and_what_was_due_meanwhile_comes_at_once() {
    let mut world = World::new();
    world.declare("q");
    delayed(&mut world, "fanout");
    world.bind("q", "x", "");
    for (milliseconds, body) in [(9000, "c"), (1000, "a"), (5000, "b")] {
        world.publish_delayed(("x", ""), &delay(milliseconds), body, false);
    }
    world.now += 6000;
    world.restart();
    world.tick(0);
    assert_eq!(world.drain("q"), ["a", "b"]);
    world.tick(2999);
    assert_eq!(world.drain("q"), Vec::<String>::new());
    world.tick(1);
    assert_eq!(world.drain("q"), ["c"]);
    world.restart();
    world.tick(100_000);
    assert_eq!(world.drain("q"), Vec::<String>::new());
}

#[test]
fn mandatory_asks_as_if_it_were_due_now() {
    let mut world = World::new();
    world.declare("q");
    delayed(&mut world, "topic");
    world.bind("q", "x", "a.*");
    world.confirm_select();
    let seen = world.publish_delayed(("x", "b"), &delay(10), "nobody", true);
    assert_eq!(seen, [Seen::Returned("nobody".into()), Seen::Acked(1)]);
    assert_eq!(world.shard.delays()[0].count, 0);
    let seen = world.publish_delayed(("x", "a.b"), &delay(10), "somebody", true);
    assert_eq!(seen, [Seen::Acked(2)]);
    let seen = world.publish_delayed(("x", "b"), &delay(10), "later", false);
    assert_eq!(seen, [Seen::Acked(3)]);
    world.bind("q", "x", "b");
    world.tick(10);
    assert_eq!(world.drain("q"), ["somebody", "later"]);
}

#[test]
fn what_finds_no_queue_when_due_goes_to_the_alternate_or_is_remembered() {
    let mut world = World::new();
    world.declare("q");
    let inner = arguments(&[
        ("x-delayed-type", Value::LongString(b"direct")),
        ("alternate-exchange", Value::LongString(b"amq.fanout")),
    ]);
    world.declare_exchange("x", "x-delayed-message", inner);
    world.publish_delayed(("x", "k"), &delay(10), "lost", false);
    world.tick(10);
    assert_eq!(world.shard.counters().unroutable_delayed, 1);
    let strays = world.shard.take_strays();
    assert_eq!(strays[0].routing_key, name("k"));
    world.bind("q", "amq.fanout", "");
    world.publish_delayed(("x", "k"), &delay(10), "kept", false);
    world.tick(10);
    assert_eq!(world.drain("q"), ["kept"]);
    assert_eq!(world.shard.take_strays(), []);
    check_references(&world);
}

#[test]
fn any_exchange_delays_that_says_so_and_one_behind_another_does_too() {
    let mut world = World::new();
    for queue in ["now", "then"] {
        world.declare(queue);
    }
    let delays = arguments(&[("x-delayed", Value::Bool(true))]);
    world.declare_exchange("delays", "topic", delays);
    world.bind("then", "delays", "#");
    world.bind("now", "amq.fanout", "");
    world.request(
        key(1, 1),
        Request::ExchangeBind(ExchangeBind {
            source: name("amq.fanout"),
            destination: name("delays"),
            routing_key: name(""),
            nowait: false,
            arguments: Table::empty(),
        }),
    );
    world.publish_delayed(("amq.fanout", "k"), &delay(50), "m", false);
    assert_eq!(world.drain("now"), ["m"]);
    assert_eq!(world.drain("then"), Vec::<String>::new());
    world.tick(50);
    assert_eq!(world.drain("then"), ["m"]);
    assert_eq!(world.drain("now"), Vec::<String>::new());
}

#[test]
fn what_is_due_together_finds_the_consumers_that_wait() {
    for overflow in ["drop-head", "reject-publish"] {
        let mut world = World::new();
        let limited = arguments(&[
            ("x-max-length", Value::I32(1)),
            ("x-overflow", Value::LongString(overflow.as_bytes())),
        ]);
        world.declare_with("q", true, limited);
        delayed(&mut world, "direct");
        world.bind("q", "x", "k");
        world.consume(key(1, 1), "q", "tag");
        for body in ["a", "b", "c"] {
            world.publish_delayed(("x", "k"), &delay(10), body, false);
        }
        let deliveries = (1..).zip(["a", "b", "c"]);
        let deliveries: Vec<Seen> = deliveries
            .map(|(tag, body)| delivered(tag, body, false))
            .collect();
        assert_eq!(world.tick(10), deliveries, "{overflow}");
    }
}

#[test]
fn waiting_messages_are_listed_counted_and_taken_back() {
    let mut world = World::new();
    world.declare("q");
    delayed(&mut world, "fanout");
    world.bind("q", "x", "");
    for milliseconds in [300, 100, 200] {
        world.publish_delayed(("x", ""), &delay(milliseconds), "body", false);
    }
    assert_eq!(world.shard.list_delays(b"amq.fanout", Sequence(0), 9), None);
    let first = world.shard.list_delays(b"x", Sequence(0), 2).unwrap();
    let rest = world.shard.list_delays(b"x", first[1].id, 2).unwrap();
    let due: Vec<u64> = first.iter().chain(&rest).map(|d| d.due_at - 1000).collect();
    assert_eq!(due, [100, 200, 300]);
    assert!(world.cancel_delay(first[1].id));
    assert!(!world.cancel_delay(first[1].id));
    world.restart();
    world.tick(300);
    assert_eq!(world.drain("q").len(), 2);
    assert!(!world.cancel_delay(first[0].id));
    check_references(&world);
}

#[test]
fn a_large_body_is_not_written_again() {
    let mut world = World::with(ShardSettings {
        chunk_bytes: 16,
        content_bytes_max: 0,
        ..ShardSettings::default()
    });
    world.declare("q");
    delayed(&mut world, "fanout");
    world.bind("q", "x", "");
    let body = "a large body that is written in some chunks, once";
    world.publish_delayed(("x", ""), &delay(5), body, false);
    let written = world.log.records.len();
    world.tick(5);
    assert_eq!(world.log.records.len(), written + 1);
    check_references(&world);
    world.restart();
    assert_eq!(world.drain("q"), [body]);
    check_references(&world);
}

#[test]
fn what_an_exchange_is_declared_with_is_checked() {
    let mut world = World::new();
    let text = |text: &'static str| Value::LongString(text.as_bytes());
    for (kind, fields, expected) in [
        ("x-delayed-message", vec![], Refusal::DelayedType),
        (
            "x-delayed-message",
            vec![("x-delayed-type", Value::I32(1))],
            Refusal::DelayedType,
        ),
        (
            "x-delayed-message",
            vec![("x-delayed-type", text("x-delayed-message"))],
            Refusal::DelayedTwice,
        ),
        (
            "x-delayed-message",
            vec![("x-delayed-type", text("dirct"))],
            Refusal::UnknownExchangeType(name("dirct")),
        ),
    ] {
        let seen = world.declare_exchange("x", kind, arguments(&fields));
        assert_eq!(seen, [Seen::Refused(expected)]);
        world.open(key(1, 1));
    }
    let bad = arguments(&[("x-delayed", Value::I32(1))]);
    let seen = world.declare_exchange("x", "topic", bad);
    assert!(
        matches!(
            seen.as_slice(),
            [Seen::Refused(Refusal::InvalidArgument { .. })]
        ),
        "{seen:?}"
    );
    world.open(key(1, 1));
    delayed(&mut world, "x-consistent-hash");
}

#[derive(Clone, Debug)]
enum Step {
    Publish(u16),
    PublishMany(u16, u8),
    Wait(u16),
    /// The clock goes back.
    GoBack(u16),
    Cancel(u8),
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..3000_u16).prop_map(Step::Publish),
        2 => (1..40_u16, 1..30_u8).prop_map(|(apart, count)| Step::PublishMany(apart, count)),
        6 => (0..700_u16).prop_map(Step::Wait),
        1 => (0..500_u16).prop_map(Step::GoBack),
        1 => any::<u8>().prop_map(Step::Cancel),
        1 => Just(Step::Restart),
    ]
}

#[derive(Default)]
struct Naive {
    /// By the time that they are due and then as they came.
    waiting: BTreeSet<(u64, u64)>,
    arrived: Vec<String>,
    published: u64,
}

impl Naive {
    fn publish(&mut self, world: &mut World, milliseconds: u64) {
        let number = self.published;
        self.published += 1;
        let headers = delay(i64::try_from(milliseconds).unwrap());
        world.publish_delayed(("x", ""), &headers, &number.to_string(), false);
        if milliseconds == 0 {
            self.arrived.push(number.to_string());
        } else {
            self.waiting.insert((world.now + milliseconds, number));
        }
    }

    fn pass(&mut self, now: u64) {
        while self
            .waiting
            .first()
            .is_some_and(|(due_at, _)| *due_at <= now)
        {
            let first = self.waiting.pop_first();
            self.arrived
                .extend(first.map(|(_, number)| number.to_string()));
        }
    }
}

fn run(page: usize, content_bytes_max: u64, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut world = World::with(ShardSettings {
        content_bytes_max,
        index_page_entries: page,
        ..ShardSettings::default()
    });
    world.declare("q");
    delayed(&mut world, "fanout");
    world.bind("q", "x", "");
    let mut naive = Naive::default();
    for step in steps {
        match step {
            Step::Publish(milliseconds) => naive.publish(&mut world, milliseconds.into()),
            Step::PublishMany(apart, count) => {
                for at in 0..count {
                    let milliseconds = u64::from(at) * 37 % u64::from(count) * u64::from(apart);
                    naive.publish(&mut world, milliseconds);
                }
            }
            Step::Wait(milliseconds) => {
                world.tick(milliseconds.into());
                naive.pass(world.now);
            }
            Step::GoBack(milliseconds) => {
                world.now = world.now.saturating_sub(milliseconds.into());
                world.tick(0);
            }
            Step::Cancel(nth) => {
                let all = world.shard.list_delays(b"x", Sequence(0), 300).unwrap();
                let due: Vec<u64> = all.iter().map(|delay| delay.due_at).collect();
                let expected: Vec<u64> = naive.waiting.iter().map(|(at, _)| *at).collect();
                prop_assert_eq!(due, expected.into_iter().take(300).collect::<Vec<_>>());
                let nth = usize::from(nth);
                if let Some(delay) = all.get(nth) {
                    prop_assert!(world.cancel_delay(delay.id));
                    let gone = naive.waiting.iter().nth(nth).copied().unwrap();
                    naive.waiting.remove(&gone);
                }
            }
            Step::Restart => {
                world.restart();
                world.tick(0);
                naive.pass(world.now);
            }
        }
        prop_assert_eq!(world.drain("q"), std::mem::take(&mut naive.arrived));
        let needed = references_of(&world.shard, world.log.records.len());
        prop_assert_eq!(&world.log.references, &needed);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn behaves_as_a_list_sorted_by_the_time_that_is_due(
        page in prop::sample::select(&[1_usize, 4, 64][..]),
        content_bytes_max in prop::sample::select(&[0, 3000, u64::MAX][..]),
        steps in prop::collection::vec(step(), 0..60),
    ) {
        run(page, content_bytes_max, steps)?;
    }
}
