//! Queues with priorities, against a list that is sorted by priority and arrival.

use std::collections::BTreeMap;

use crate::support::{Seen, World, arguments, delivered, key, name};
use bytes::Bytes;
use menzil_core::{Publish, Request, ShardSettings};
use menzil_model::{Properties, Value};
use proptest::prelude::*;

impl World {
    pub(crate) fn publish_with_priority(
        &mut self,
        queue: &str,
        priority: Option<u8>,
        body: &str,
    ) -> Vec<Seen> {
        let properties = Properties {
            delivery_mode: Some(2),
            priority,
            ..Properties::default()
        };
        let mut bytes = Vec::new();
        properties.write(&mut bytes);
        self.request(
            key(1, 1),
            Request::Publish(Publish {
                exchange: name(""),
                routing_key: name(queue),
                mandatory: false,
                properties: bytes.into(),
                body: vec![Bytes::copy_from_slice(body.as_bytes())],
            }),
        )
    }
}

fn declare(world: &mut World, max: u8, others: &[(&str, Value<'_>)]) {
    let mut all = vec![("x-max-priority", Value::U8(max))];
    all.extend_from_slice(others);
    world.declare_with("q", true, arguments(&all));
}

/// Case A16.
#[test]
fn the_highest_goes_first_and_what_comes_back_to_the_front_of_its_own() {
    let mut world = World::new();
    declare(&mut world, 5, &[]);
    for priority in [Some(1), Some(2), Some(3), Some(5), Some(9), None] {
        let body = priority.map_or_else(|| "none".to_owned(), |priority| priority.to_string());
        world.publish_with_priority("q", priority, &body);
    }
    let got = |seen: &[Seen]| match seen {
        [
            Seen::Got {
                body,
                redelivered,
                tag,
                ..
            },
        ] => (body.clone(), *redelivered, *tag),
        other => panic!("{other:?}"),
    };
    assert_eq!(got(&world.get("q")), ("5".into(), false, 1));
    assert_eq!(got(&world.get("q")), ("9".into(), false, 2));
    world.publish_with_priority("q", Some(7), "late");
    world.requeue(key(1, 1), 2);
    assert_eq!(got(&world.get("q")), ("9".into(), true, 3));
    for body in ["late", "3", "2", "1", "none"] {
        let (next, redelivered, _) = got(&world.get("q"));
        assert_eq!((next.as_str(), redelivered), (body, false));
    }
}

#[test]
fn a_consumer_gets_what_comes_as_it_comes() {
    let mut world = World::new();
    declare(&mut world, 255, &[]);
    world.consume(key(1, 1), "q", "t");
    for (tag, priority) in [(1, 0), (2, 255), (3, 7), (4, 7)] {
        let seen = world.publish_with_priority("q", Some(priority), "m");
        assert_eq!(seen, [delivered(tag, "m", false)]);
    }
}

#[test]
fn after_a_crash_only_priorities_that_went_out_count_as_redelivered() {
    let mut world = World::new();
    declare(&mut world, 10, &[]);
    for _ in 0..3 {
        world.publish_with_priority("q", Some(0), "low");
    }
    world.publish_with_priority("q", Some(4), "middle");
    world.publish_with_priority("q", Some(9), "high");
    world.get("q");
    world.restart();
    let flags: Vec<(String, bool)> = std::iter::from_fn(|| match world.get("q").as_slice() {
        [
            Seen::Got {
                body, redelivered, ..
            },
        ] => Some((body.clone(), *redelivered)),
        _ => None,
    })
    .collect();
    let flagged: Vec<&str> = flags
        .iter()
        .filter(|(_, redelivered)| *redelivered)
        .map(|(body, _)| body.as_str())
        .collect();
    assert_eq!(flags.len(), 5);
    assert_eq!(flagged, ["high"]);
}

#[test]
fn drop_head_drops_the_highest_first_as_rabbitmq_does() {
    let mut world = World::new();
    declare(&mut world, 9, &[("x-max-length", Value::I32(2))]);
    for (priority, body) in [(5, "5"), (1, "1"), (0, "0"), (9, "9")] {
        world.publish_with_priority("q", Some(priority), body);
    }
    assert_eq!(world.drain("q"), ["1", "0"]);
}

#[derive(Clone, Debug)]
enum Step {
    Publish(Option<u8>),
    PublishMany(u8, u8),
    Get,
    Ack(u8),
    Requeue(u8),
    Purge,
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => prop::option::of(any::<u8>()).prop_map(Step::Publish),
        2 => (any::<u8>(), 1..30_u8).prop_map(|(step, count)| Step::PublishMany(step, count)),
        8 => Just(Step::Get),
        4 => (0..6_u8).prop_map(Step::Ack),
        3 => (0..6_u8).prop_map(Step::Requeue),
        1 => Just(Step::Purge),
        1 => Just(Step::Restart),
    ]
}

/// What a message is known by, where it stands, and whether it went out.
#[derive(Default)]
struct Naive {
    max: u8,
    ready: BTreeMap<(u8, u64), bool>,
    out: Vec<(u64, (u8, u64))>,
    published: u64,
}

impl Naive {
    fn publish(&mut self, world: &mut World, priority: Option<u8>) {
        let counts = priority.unwrap_or(0).min(self.max);
        let number = self.published;
        self.published += 1;
        self.ready.insert((u8::MAX - counts, number), false);
        world.publish_with_priority("q", priority, &number.to_string());
    }

    fn get(&mut self, world: &mut World) -> Result<(), TestCaseError> {
        let expected = self.ready.pop_first();
        match (world.get("q").as_slice(), expected) {
            (
                [
                    Seen::Got {
                        tag,
                        body,
                        redelivered,
                        left,
                    },
                ],
                Some((place, went_out)),
            ) => {
                prop_assert_eq!(body, &place.1.to_string());
                // After a restart it may be flagged although it never went out.
                prop_assert!(*redelivered || !went_out);
                prop_assert_eq!(*left as usize, self.ready.len());
                self.out.push((*tag, place));
                Ok(())
            }
            (_, None) => Ok(()),
            (seen, Some(place)) => Err(TestCaseError::fail(format!("{seen:?} for {place:?}"))),
        }
    }
}

fn run(
    max: u8,
    page: usize,
    content_bytes_max: u64,
    steps: Vec<Step>,
) -> Result<(), TestCaseError> {
    let mut world = World::with(ShardSettings {
        content_bytes_max,
        index_page_entries: page,
        ..ShardSettings::default()
    });
    declare(&mut world, max, &[]);
    let mut naive = Naive {
        max,
        ..Naive::default()
    };
    for step in steps {
        match step {
            Step::Publish(priority) => naive.publish(&mut world, priority),
            Step::PublishMany(step, count) => {
                for at in 0..count {
                    naive.publish(&mut world, Some(at.wrapping_mul(step)));
                }
            }
            Step::Get => naive.get(&mut world)?,
            Step::Ack(at) if usize::from(at) < naive.out.len() => {
                let (tag, _) = naive.out.remove(at.into());
                world.ack(key(1, 1), tag);
            }
            Step::Requeue(at) if usize::from(at) < naive.out.len() => {
                let (tag, place) = naive.out.remove(at.into());
                world.requeue(key(1, 1), tag);
                naive.ready.insert(place, true);
            }
            Step::Ack(_) | Step::Requeue(_) => {}
            Step::Purge => {
                let queue = name("q");
                world.request(
                    key(1, 1),
                    Request::QueuePurge {
                        queue,
                        nowait: false,
                    },
                );
                naive.ready.clear();
            }
            Step::Restart => {
                world.restart();
                let out = naive.out.drain(..).map(|(_, place)| (place, true));
                naive.ready.extend(out);
            }
        }
    }
    while !naive.ready.is_empty() {
        naive.get(&mut world)?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn behaves_as_a_list_sorted_by_priority_and_arrival(
        max in prop::sample::select(&[1_u8, 4, 10, 255][..]),
        page in prop::sample::select(&[1, 4, 64][..]),
        content_bytes_max in prop::sample::select(&[0, 2000, u64::MAX][..]),
        steps in prop::collection::vec(step(), 0..120),
    ) {
        run(max, page, content_bytes_max, steps)?;
    }
}
