//! Policies act on what is there, at once and without being declared again.

use crate::support::{Seen, World, arguments, key, name};
use menzil_core::{
    Body, Object, PolicyRequest, PublishRef, Refusal, Reply, SettingOrigin, SettingValue,
};
use menzil_model::fact::PolicyDefinition;
use menzil_model::{Properties, Table, Value};
use proptest::prelude::*;

pub(crate) fn text(text: &str) -> Value<'_> {
    Value::LongString(text.as_bytes())
}

fn policy(
    (policy, is_operator): (&str, bool),
    pattern: &str,
    definition: &[(&str, Value<'_>)],
) -> PolicyDefinition {
    let definition = arguments(definition);
    PolicyRequest {
        name: policy.as_bytes(),
        is_operator,
        pattern: Some(text(pattern)),
        apply_to: None,
        priority: None,
        definition: Some(Value::Table(definition.fields())),
    }
    .check()
    .unwrap()
}

impl World {
    /// Sets a policy and leaves objects as they are.
    fn begin_policy(&mut self, policy: PolicyDefinition) -> Result<u64, Refusal> {
        let mut effects = Vec::new();
        let done = self
            .shard
            .set_policy(self.now, policy, &mut self.log, &mut effects);
        self.shard.finish(&mut self.log);
        self.shard.check_invariants();
        assert!(effects.is_empty());
        done
    }

    pub(crate) fn set(&mut self, of: &str, pattern: &str, definition: &[(&str, Value<'_>)]) {
        self.begin_policy(policy((of, false), pattern, definition))
            .unwrap();
        self.tick(0);
        assert!(!self.shard.is_applying_policies());
    }

    pub(crate) fn set_operator(
        &mut self,
        of: &str,
        pattern: &str,
        definition: &[(&str, Value<'_>)],
    ) {
        self.begin_policy(policy((of, true), pattern, definition))
            .unwrap();
        self.tick(0);
    }

    pub(crate) fn clear(&mut self, of: &str) {
        let mut effects = Vec::new();
        let index =
            self.shard
                .clear_policy(self.now, &name(of), false, &mut self.log, &mut effects);
        assert!(index.is_some());
        self.tick(0);
    }

    fn publish_each(&mut self, queue: &str, bodies: &[&str]) {
        for body in bodies {
            self.publish("", queue, body);
        }
    }

    /// Many publishes, and the state is looked at once.
    fn publish_many(&mut self, queue: &str, count: u64) {
        let mut properties = Vec::new();
        let persistent = Properties {
            delivery_mode: Some(2),
            ..Properties::default()
        };
        persistent.write(&mut properties);
        let mut effects = Vec::new();
        for number in 0..count {
            let body = number.to_string();
            let publish = PublishRef {
                exchange: b"",
                routing_key: queue.as_bytes(),
                mandatory: false,
                properties: &properties,
                body: Body::Whole(body.as_bytes()),
            };
            let (now, log) = (self.now, &mut self.log);
            self.shard
                .publish_in_place(now, key(1, 1), &publish, log, &mut effects);
        }
        self.shard.finish(&mut self.log);
        self.shard.check_invariants();
    }

    fn ready_in(&self, queue: &str) -> u64 {
        let queues = self.shard.queues();
        let found = queues.iter().find(|one| one.name == name(queue)).unwrap();
        found.ready
    }
}

#[test]
fn a_length_limit_drops_what_is_over_it_at_once() {
    let mut world = World::new();
    world.declare("q");
    world.declare("other");
    world.publish_each("q", &["1", "2", "3", "4", "5"]);
    world.publish_each("other", &["1", "2", "3"]);
    world.set("short", "^q$", &[("max-length", Value::I64(2))]);
    assert_eq!(world.ready_in("q"), 2);
    assert_eq!(world.ready_in("other"), 3);
    world.publish_each("q", &["6"]);
    assert_eq!(world.shard.queues()[1].counters.overflowed, 4);
    world.restart();
    world.publish_each("q", &["7"]);
    world.restart_from_checkpoint();
    world.publish_each("q", &["8"]);
    assert_eq!(world.drain("q"), ["7", "8"]);
    world.clear("short");
    world.publish_each("q", &["1", "2", "3"]);
    assert_eq!(world.drain("q"), ["1", "2", "3"]);
}

#[test]
fn the_way_of_a_publish_does_not_outlive_a_limit() {
    let mut world = World::new();
    world.declare("q");
    world.confirm_select();
    assert_eq!(world.publish("", "q", "1"), [Seen::Acked(1)]);
    assert_eq!(world.publish("", "q", "2"), [Seen::Acked(2)]);
    let full = [
        ("max-length", Value::I64(2)),
        ("overflow", text("reject-publish")),
    ];
    world.set("full", "q", &full);
    assert_eq!(world.publish("", "q", "3"), [Seen::Nacked(3)]);
    world.set("full", "q", &[("max-length", Value::I64(3)), full[1]]);
    assert_eq!(world.publish("", "q", "4"), [Seen::Acked(4)]);
    assert_eq!(world.publish("", "q", "5"), [Seen::Nacked(5)]);
    world.clear("full");
    assert_eq!(world.publish("", "q", "6"), [Seen::Acked(6)]);
}

#[test]
fn a_time_to_live_is_that_of_messages_that_come() {
    let mut world = World::new();
    world.declare("q");
    world.publish_each("q", &["before"]);
    world.set("ttl", "q", &[("message-ttl", Value::I64(100))]);
    world.publish_each("q", &["after"]);
    world.tick(100);
    assert_eq!(world.drain("q"), ["before"]);
    world.clear("ttl");
    world.publish_each("q", &["for ever"]);
    world.tick(1000);
    assert_eq!(world.drain("q"), ["for ever"]);
}

#[test]
fn a_lease_begins_when_a_policy_says_so_and_ends_with_it() {
    let mut world = World::new();
    world.declare("q");
    world.declare("kept");
    world.tick(5_000);
    world.set("lease", "^", &[("expires", Value::I64(100))]);
    world.tick(99);
    assert_eq!(world.shard.queues().len(), 2);
    world.set("a-longer", "^kept", &[("expires", Value::I64(1_000_000))]);
    world.clear("a-longer");
    world.tick(1);
    // What was changed back began anew.
    assert_eq!(world.shard.queues().len(), 1);
    assert_eq!(world.shard.queues()[0].name, name("kept"));
    world.clear("lease");
    world.tick(1_000_000);
    assert_eq!(world.shard.queues().len(), 1);
}

#[test]
fn an_exchange_gets_an_alternate_one() {
    let mut world = World::new();
    world.declare("spill");
    world.declare("own");
    world.declare_exchange("rest", "fanout", Table::empty());
    world.declare_exchange("mine", "fanout", Table::empty());
    world.bind("spill", "rest", "");
    world.bind("own", "mine", "");
    world.declare_exchange("in", "direct", Table::empty());
    let own = arguments(&[("alternate-exchange", text("mine"))]);
    world.declare_exchange("in-own", "direct", own);
    world.publish("in", "k", "lost");
    world.set("rest", "^in", &[("alternate-exchange", text("rest"))]);
    world.publish("in", "k", "1");
    world.publish("in-own", "k", "2");
    // One that is declared later has it from its first message on, and so after a restart.
    world.declare_exchange("in-new", "direct", Table::empty());
    world.publish("in-new", "k", "3");
    world.restart();
    world.publish("in-new", "k", "4");
    world.restart_from_checkpoint();
    world.publish("in", "k", "5");
    assert_eq!(world.drain("spill"), ["1", "3", "4", "5"]);
    assert_eq!(world.drain("own"), ["2"]);
    world.clear("rest");
    world.publish("in", "k", "lost");
    assert_eq!(world.drain("spill"), [""; 0]);
}

#[test]
fn an_operator_policy_bounds_what_others_say() {
    let mut world = World::new();
    world.declare_with("q", true, arguments(&[("x-max-length", Value::I32(4))]));
    world.set("high", "q", &[("max-length", Value::I64(10))]);
    world.publish_each("q", &["1", "2", "3", "4", "5"]);
    assert_eq!(world.ready_in("q"), 4);
    world.set_operator("cap", "q", &[("max-length", Value::I64(2))]);
    assert_eq!(world.ready_in("q"), 2);
    world.set("high", "q", &[("max-length", Value::I64(1))]);
    assert_eq!(world.ready_in("q"), 1);
    // The same name is another policy among those of operators.
    assert_eq!(world.shard.policies().count(), 2);
}

#[test]
fn many_objects_are_reached_by_turns() {
    let mut world = World::new();
    for number in 0..1200 {
        let queue = format!("q{number:04}");
        world.declare(&queue);
        world.publish_many(&queue, 2);
    }
    let short = policy(("short", false), "^q", &[("max-length", Value::I64(1))]);
    world.begin_policy(short).unwrap();
    assert!(world.shard.is_applying_policies());
    let ready = |world: &World| {
        let queues = world.shard.queues();
        queues.iter().map(|queue| queue.ready).sum::<u64>()
    };
    assert_eq!(ready(&world), 2400);
    // What is declared meanwhile has its settings from the start.
    world.declare("q-new");
    world.publish_each("q-new", &["1", "2"]);
    assert_eq!(world.ready_in("q-new"), 1);
    let (mut turns, mut last) = (0, ready(&world));
    while world.shard.is_applying_policies() {
        let mut effects = Vec::new();
        assert_eq!(world.shard.deadline(), Some(0));
        world.shard.expire(world.now, &mut world.log, &mut effects);
        world.shard.check_invariants();
        turns += 1;
        assert!(last - ready(&world) <= 500);
        last = ready(&world);
    }
    assert_eq!((turns, last), (3, 1201));
}

#[test]
fn a_long_queue_is_cut_in_slices_and_after_a_crash_too() {
    let mut world = World::new();
    world.declare("q");
    world.publish_many("q", 25_000);
    let short = policy(("short", false), "q", &[("max-length", Value::I64(5))]);
    world.begin_policy(short).unwrap();
    let mut effects = Vec::new();
    world.shard.expire(world.now, &mut world.log, &mut effects);
    assert_eq!(world.ready_in("q"), 15_000);
    // A publish in between pays for itself and no more than a slice.
    world.publish_each("q", &["new"]);
    assert_eq!(world.ready_in("q"), 5_000);
    world.restart();
    assert_eq!(world.ready_in("q"), 5_000);
    world.tick(0);
    assert_eq!(
        world.drain("q"),
        ["24996", "24997", "24998", "24999", "new"]
    );
}

#[test]
fn what_cannot_be_set_changes_nothing() {
    let mut world = World::new();
    world.declare("q");
    let one = || policy(("p", false), "q", &[("max-length", Value::I64(5))]);
    world.log.full = true;
    assert_eq!(world.begin_policy(one()), Err(Refusal::NoRoom));
    assert_eq!(world.shard.policies().count(), 0);
    world.log.full = false;
    world.begin_policy(one()).unwrap();
    let records = world.log.records.len();
    world.begin_policy(one()).unwrap();
    assert_eq!(
        world.log.records.len(),
        records,
        "the same again is no change"
    );
    for number in 1..1000 {
        let of = format!("p{number}");
        world
            .begin_policy(policy((&of, false), "z", &[("max-length", Value::I64(5))]))
            .unwrap();
    }
    let more = policy(("more", false), "z", &[("max-length", Value::I64(5))]);
    let limit = Refusal::LimitReached {
        what: "policies",
        limit: 1000,
    };
    assert_eq!(world.begin_policy(more.clone()), Err(limit));
    let operator = PolicyDefinition {
        is_operator: true,
        ..more
    };
    world.begin_policy(operator).unwrap();
    let mut effects = Vec::new();
    let absent = world
        .shard
        .clear_policy(1, &name("absent"), false, &mut world.log, &mut effects);
    assert_eq!(absent, None);
}

#[test]
fn the_origin_of_each_setting_is_told() {
    let mut world = World::new();
    let own = arguments(&[
        ("x-max-length", Value::I32(5)),
        ("x-message-ttl", Value::I32(5)),
        ("x-queue-mode", text("lazy")),
    ]);
    world.declare_with("q", true, own);
    let mut low = policy(
        ("low", false),
        "q",
        &[("expires", Value::I64(9)), ("max-length", Value::I64(1))],
    );
    low.priority = -1;
    world.begin_policy(low).unwrap();
    world.set(
        "high",
        "q",
        &[
            ("layered", Value::Bool(true)),
            ("max-length", Value::I64(7)),
            ("message-ttl", Value::I64(3)),
            ("max-length-bytes", Value::I64(1000)),
        ],
    );
    world.set_operator("cap", "q", &[("max-length-bytes", Value::I64(500))]);
    let effective = world.shard.effective(&Object::Queue(name("q"))).unwrap();
    let told: Vec<_> = effective
        .settings
        .iter()
        .map(|one| (one.key.to_string(), one.value.clone(), one.origin.clone()))
        .collect();
    let high = || SettingOrigin::Policy(name("high"));
    let integer = SettingValue::Integer;
    assert_eq!(
        told,
        [
            (
                "expires".to_owned(),
                integer(9),
                SettingOrigin::Policy(name("low"))
            ),
            ("max-length".to_owned(), integer(5), SettingOrigin::Argument),
            (
                "max-length-bytes".to_owned(),
                integer(500),
                SettingOrigin::OperatorPolicy(name("cap"))
            ),
            ("message-ttl".to_owned(), integer(3), high()),
            (
                "queue-mode".to_owned(),
                SettingValue::Text("lazy".into()),
                SettingOrigin::Argument
            ),
        ]
    );
    assert_eq!(world.shard.effective(&Object::Queue(name("none"))), None);
    let exchange = Object::Exchange(name("amq.topic"));
    assert_eq!(world.shard.effective(&exchange).unwrap().settings, []);
    world.set("rest", "^amq\\.", &[("alternate-exchange", text("x"))]);
    let effective = world.shard.effective(&exchange).unwrap();
    assert_eq!(
        effective.settings[0].origin,
        SettingOrigin::Policy(name("rest"))
    );
}

#[test]
fn an_exclusive_queue_has_policies_too() {
    let mut world = World::new();
    world.set("short", "", &[("max-length", Value::I64(1))]);
    world.declare_with("transient", false, Table::empty());
    world.publish_each("transient", &["1", "2"]);
    assert_eq!(world.drain("transient"), ["2"]);
}

#[derive(Clone, Debug)]
enum Step {
    Set(u8, Option<u8>, Option<u8>),
    Clear(u8),
    Turn,
    Publish(u8),
    Get(u8),
    Declare(u8),
    Delete(u8),
    Restart(bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..4_u8, prop::option::of(0..4_u8), prop::option::of(1..9_u8))
            .prop_map(|(of, length, expires)| Step::Set(of, length, expires)),
        1 => (0..4_u8).prop_map(Step::Clear),
        3 => Just(Step::Turn),
        8 => (0..4_u8).prop_map(Step::Publish),
        2 => (0..4_u8).prop_map(Step::Get),
        2 => (0..4_u8).prop_map(Step::Declare),
        1 => (0..4_u8).prop_map(Step::Delete),
        1 => any::<bool>().prop_map(Step::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Once a change is through, every queue keeps within what the policies say, also across
    /// restarts in the middle of one.
    #[test]
    fn queues_keep_to_the_policies_that_are_set(steps in prop::collection::vec(step(), 1..60)) {
        let mut world = World::new();
        let mut lengths = [None; 4];
        for step in steps {
            match step {
                Step::Set(of, length, expires) => {
                    let mut definition = vec![("max-length-bytes", Value::I64(1000))];
                    definition.extend(length.map(|length| ("max-length", Value::I64(length.into()))));
                    definition.extend(expires.map(|expires| ("expires", Value::I64(expires.into()))));
                    let (of_name, pattern) = (format!("p{of}"), format!("^q{of}$"));
                    world.begin_policy(policy((&of_name, false), &pattern, &definition)).unwrap();
                    lengths[usize::from(of)] = length;
                }
                Step::Clear(of) => {
                    let mut effects = Vec::new();
                    let of_name = name(&format!("p{of}"));
                    world.shard.clear_policy(world.now, &of_name, false, &mut world.log, &mut effects);
                    lengths[usize::from(of)] = None;
                }
                Step::Turn => {
                    world.tick(1);
                    for queue in world.shard.queues() {
                        let of = queue.name.as_bytes()[1] - b'0';
                        if let Some(length) = lengths[usize::from(of)] {
                            prop_assert!(queue.ready <= u64::from(length), "{queue:?}");
                        }
                    }
                }
                Step::Publish(of) => {
                    world.publish("", &format!("q{of}"), "m");
                }
                Step::Get(of) => {
                    let queue = format!("q{of}");
                    if world.shard.queues().iter().any(|one| one.name == name(&queue)) {
                        world.get(&queue);
                    }
                }
                Step::Declare(of) => world.declare(&format!("q{of}")),
                Step::Delete(of) => {
                    let queue = name(&format!("q{of}"));
                    let delete = menzil_core::Request::QueueDelete {
                        queue,
                        if_unused: false,
                        if_empty: false,
                        nowait: false,
                    };
                    let seen = world.request(key(1, 1), delete);
                    let is_deleted = matches!(seen.as_slice(), [Seen::Reply(Reply::QueueDeleteOk { .. })]);
                    prop_assert!(is_deleted, "{seen:?}");
                }
                Step::Restart(true) => world.restart_from_checkpoint(),
                Step::Restart(false) => world.restart(),
            }
        }
    }
}
