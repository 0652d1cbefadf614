//! Dead letters that have to wait, and what comes back over a limit: through restarts, and never
//! to a consumer again.

use menzil_core::{Rejection, Request};
use menzil_model::fact::Content;
use menzil_model::{DeliveryTag, Fact, Value};

use crate::dead_letters::letter;
use crate::support::{World, arguments, key};

const MAX_ONE: (&str, Value<'_>) = ("x-max-length", Value::I32(1));
const REFUSES: (&str, Value<'_>) = ("x-overflow", Value::LongString(b"reject-publish"));
const AT_LEAST_ONCE: (&str, Value<'_>) = (
    "x-dead-letter-strategy",
    Value::LongString(b"at-least-once"),
);

/// What the process does between two of its lives.
#[derive(Clone, Copy, Debug)]
enum Restart {
    Crash,
    CleanStop,
    Checkpoint,
}

const RESTARTS: [Restart; 3] = [Restart::Crash, Restart::CleanStop, Restart::Checkpoint];

impl World {
    fn restart_by(&mut self, how: Restart) {
        match how {
            Restart::Crash => self.restart(),
            Restart::CleanStop => {
                self.shard.stop(&mut self.log);
                self.restart();
            }
            Restart::Checkpoint => self.restart_from_checkpoint(),
        }
        self.tick_until_still();
    }

    /// A queue that holds one message and refuses others.
    fn declare_full(&mut self, queue: &str) {
        self.declare_with(queue, true, arguments(&[MAX_ONE, REFUSES]));
        self.publish("", queue, "first");
    }

    fn reject_all(&mut self, queue: &str) {
        while let Some((tag, _)) = self.take(queue, false) {
            self.reject(key(1, 1), tag);
        }
    }

    /// Facts that tell of entries that wait.
    fn waiting_facts(&self) -> usize {
        let facts = self.log.records.iter();
        facts
            .map(|record| Fact::decode(record, Content::Skip).unwrap())
            .filter(|fact| matches!(fact, Fact::Dying { .. }))
            .count()
    }
}

#[test]
fn what_waits_after_a_rejection_waits_again_after_a_restart() {
    for how in RESTARTS {
        let mut world = World::new();
        world.declare_full("dead");
        let limit = ("x-delivery-limit", Value::I32(1));
        world.declare_dead_lettering("work", "dead", &[AT_LEAST_ONCE, limit]);
        for body in ["1", "2", "3"] {
            world.publish("", "work", body);
        }
        let tags: Vec<u64> = (0..3)
            .map(|_| world.take("work", false).unwrap().0)
            .collect();
        world.reject(key(1, 1), tags[1]);
        world.reject(key(1, 1), tags[0]);
        for _ in 0..2 {
            let tag = match world.take("work", false) {
                Some((tag, _)) => tag,
                None => tags[2],
            };
            let request = Request::Reject {
                delivery_tag: DeliveryTag(tag),
                multiple: false,
                requeue: true,
                method: Rejection::Reject,
            };
            world.request(key(1, 1), request);
        }
        world.restart_by(how);
        assert_eq!(
            (world.ready("work"), world.dying("work")),
            (0, 3),
            "{how:?}"
        );
        world.restart_by(how);
        assert_eq!(
            world.take("work", false),
            None,
            "{how:?}: nobody gets it again"
        );
        world.take("dead", true).unwrap();
        world.tick(1_000);
        let expected = [
            letter("2", "", &["work rejected 1"]),
            letter("1", "", &["work rejected 1"]),
            letter("3", "", &["work delivery_limit 1"]),
        ];
        let mut letters = Vec::new();
        for _ in 0..3 {
            letters.extend(world.letters("dead"));
            world.tick(1_000);
        }
        assert_eq!(letters, expected, "{how:?}");
        world.restart_by(how);
        assert_eq!(world.shard.summary().messages, 0, "{how:?}");
        assert!(world.log.references.iter().all(|needed| *needed == 0));
    }
}

#[test]
fn what_expired_and_waits_behind_many_waits_again_after_a_restart() {
    for how in RESTARTS {
        let mut world = World::new();
        world.declare_full("dead");
        let ttl = ("x-message-ttl", Value::I32(10));
        world.declare_dead_lettering("work", "dead", &[AT_LEAST_ONCE, ttl]);
        let bodies: Vec<String> = (0..200).map(|body| body.to_string()).collect();
        world.fill("", "work", &bodies);
        world.tick(11);
        world.tick_until_still();
        let dying = world.dying("work");
        world.restart_by(how);
        assert_eq!(world.take("work", false), None, "{how:?}");
        world.tick_until_still();
        assert_eq!(world.ready("work") + world.dying("work"), 200, "{how:?}");
        assert!(world.dying("work") >= dying, "{how:?}");
        let mut letters = Vec::new();
        for _ in 0..3 {
            letters.extend(world.letters("dead").into_iter().map(|letter| letter.body));
            world.tick(1_000);
        }
        assert_eq!(letters.remove(0), "first");
        assert_eq!(letters, bodies, "{how:?}");
    }
}

#[test]
fn a_clean_stop_notes_what_waits_to_be_read() {
    let mut world = World::with(menzil_core::ShardSettings {
        content_bytes_max: 0,
        ..Default::default()
    });
    world.declare("dead");
    world.declare_dead_lettering("work", "dead", &[]);
    world.publish("", "work", "1");
    world.publish("", "work", "2");
    for _ in 0..2 {
        let (tag, _) = world.take("work", false).unwrap();
        world.answer_fetches = false;
        world.reject(key(1, 1), tag);
        world.answer_fetches = true;
    }
    assert_eq!(world.dying("work"), 2);
    let mut crashed = world.log.clone();
    world.restart_by(Restart::CleanStop);
    assert_eq!(world.drain("work"), [""; 0]);
    let expected = ["1", "2"].map(|body| letter(body, "", &["work rejected 1"]));
    assert_eq!(world.letters("dead"), expected);
    std::mem::swap(&mut world.log, &mut crashed);
    world.restart_by(Restart::Crash);
    assert_eq!(
        world.drain("work"),
        ["1", "2"],
        "as an acknowledgement under way"
    );
}

#[test]
fn only_what_waits_is_written_and_once() {
    let mut world = World::new();
    world.declare("open");
    world.declare_dead_lettering("work", "open", &[AT_LEAST_ONCE]);
    for body in 0..50 {
        world.publish("", "work", &body.to_string());
    }
    world.reject_all("work");
    assert_eq!(world.letters("open").len(), 50);
    assert_eq!(
        world.waiting_facts(),
        0,
        "what goes on at once is written as gone"
    );
    world.declare_full("full");
    world.declare_dead_lettering("held", "full", &[AT_LEAST_ONCE]);
    for body in 0..50 {
        world.publish("", "held", &body.to_string());
    }
    world.reject_all("held");
    assert_eq!(world.dying("held"), 50);
    assert_eq!(world.waiting_facts(), 50);
    for _ in 0..20 {
        world.tick(1_000);
    }
    assert_eq!(world.waiting_facts(), 50, "and not at each trial");
}

/// A full disk is no queue's verdict: what is to be dead-lettered keeps its place until there is
/// room, whatever its strategy and reason, and through a restart.
#[test]
fn on_a_full_disk_dead_letters_wait() {
    let ways: [(&str, (&str, Value<'_>)); 3] = [
        ("rejected", ("x-max-length", Value::I32(100))),
        ("expired", ("x-message-ttl", Value::I32(10))),
        ("maxlen", ("x-max-length", Value::I32(3))),
    ];
    for (reason, argument) in ways {
        for how in RESTARTS {
            let mut world = World::new();
            world.declare_with("dead", true, arguments(&[]));
            world.declare_dead_lettering("work", "dead", &[argument]);
            for body in ["1", "2", "3"] {
                world.publish("", "work", body);
            }
            world.log.full = true;
            match reason {
                "rejected" => world.reject_all("work"),
                "expired" => drop(world.tick(11)),
                _ => drop(world.publish_as("", "work", "4", false, Some(1), None)),
            }
            world.tick_until_still();
            assert_eq!(world.ready("dead"), 0, "{reason} {how:?}");
            if reason != "maxlen" {
                world.restart_by(how);
            }
            world.tick(10_000);
            assert_eq!(world.ready("dead"), 0, "{reason} {how:?}");
            world.log.full = false;
            world.tick(10_000);
            world.tick_until_still();
            let taken: Vec<_> = world.letters("dead");
            let expected: &[&str] = match reason {
                "maxlen" => &["1"],
                _ => &["1", "2", "3"],
            };
            let death = format!("work {reason} 1");
            let expected: Vec<_> = expected
                .iter()
                .map(|body| letter(body, "", &[&death]))
                .collect();
            assert_eq!(taken, expected, "{reason} {how:?}");
            let summary = world.shard.summary();
            assert_eq!(summary.messages, if reason == "maxlen" { 3 } else { 0 });
        }
    }
}

/// As in RabbitMQ, at-least-once has no exception for a message that would go round: it waits in
/// the queue that it cannot leave, and goes once there is a way.
#[test]
fn at_least_once_a_message_that_would_go_round_waits() {
    for how in RESTARTS {
        let mut world = World::new();
        let ttl = ("x-message-ttl", Value::I32(10));
        world.declare_dead_lettering("a", "b", &[AT_LEAST_ONCE, ttl]);
        world.declare_dead_lettering("b", "a", &[AT_LEAST_ONCE, ttl]);
        world.publish("", "a", "round");
        for _ in 0..3 {
            world.tick(1_100);
            world.tick_until_still();
        }
        world.restart_by(how);
        let held = ["a", "b"].map(|queue| (world.ready(queue), world.dying(queue)));
        assert_eq!(held, [(0, 0), (0, 1)], "{how:?}");
        assert_eq!(world.shard.counters().dead_letters_dropped, 0, "{how:?}");
    }
}
