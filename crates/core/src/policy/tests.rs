//! Policies against a naive twin, and what is refused with which text.

use menzil_model::fact::{ApplyTo, PolicyDefinition, QueueDefinition};
use menzil_model::{Name, QueueId, Table, TableBuilder, Value};
use proptest::prelude::*;

use super::{Policies, PolicyRequest, Reach, Subject, settings_of};
use crate::queue::{Overflow, RetryKind, Settings};

fn table(fields: &[(&str, Value<'_>)]) -> Table {
    let fields = fields.iter();
    fields
        .fold(TableBuilder::new(), |table, (name, value)| {
            table.field(name, *value)
        })
        .build()
}

fn text(text: &str) -> Value<'_> {
    Value::LongString(text.as_bytes())
}

fn policy(name: &'static str, pattern: &str, definition: Table) -> PolicyDefinition {
    PolicyDefinition {
        name: Name::from(name),
        is_operator: false,
        pattern: pattern.as_bytes().to_vec(),
        apply_to: ApplyTo::All,
        priority: 0,
        definition,
    }
}

fn queue(name: &'static str, arguments: Table) -> QueueDefinition {
    QueueDefinition {
        id: QueueId(1),
        name: Name::from(name),
        durable: true,
        exclusive: false,
        auto_delete: false,
        arguments,
    }
}

fn errors(is_operator: bool, definition: &[(&str, Value<'_>)]) -> Vec<String> {
    let content = table(definition);
    PolicyRequest {
        name: b"p",
        is_operator,
        pattern: Some(text("^a")),
        apply_to: None,
        priority: None,
        definition: Some(Value::Table(content.fields())),
    }
    .check()
    .err()
    .map_or_else(Vec::new, texts)
}

fn texts(mistakes: Vec<super::PolicyMistake>) -> Vec<String> {
    mistakes.into_iter().map(|mistake| mistake.text).collect()
}

#[test]
fn values_are_refused_with_rabbitmqs_texts() {
    let n = Value::I64;
    let cases: [(&str, Value<'_>, &str); 24] = [
        (
            "alternate-exchange",
            n(5),
            "5 is not a valid alternate exchange name",
        ),
        (
            "consumer-timeout",
            n(-1),
            "-1 is not a valid consumer timeout",
        ),
        (
            "consumer-disconnected-timeout",
            text("a"),
            "<<\"a\">> is not a valid consumer disconnected timeout",
        ),
        (
            "dead-letter-exchange",
            Value::Bool(true),
            "true is not a valid dead letter exchange name",
        ),
        (
            "dead-letter-routing-key",
            n(1),
            "1 is not a valid dead letter routing key",
        ),
        (
            "dead-letter-strategy",
            text("twice"),
            "<<\"twice\">> is not a valid dead letter strategy",
        ),
        ("message-ttl", n(-1), "-1 is not a valid message TTL"),
        ("expires", n(0), "0 is not a valid queue expiry"),
        (
            "max-length",
            text("5"),
            "<<\"5\">> is not a valid maximum length",
        ),
        (
            "max-length-bytes",
            n(-1),
            "-1 is not a valid maximum length in bytes",
        ),
        (
            "max-in-memory-length",
            n(-1),
            "-1 is not a valid maximum memory in bytes",
        ),
        (
            "queue-mode",
            text("odd"),
            "<<\"odd\">> is not a valid queue-mode value",
        ),
        (
            "queue-version",
            n(3),
            "3 is not a valid queue-version value",
        ),
        (
            "overflow",
            text("spill"),
            "<<\"spill\">> is not a valid overflow value",
        ),
        (
            "delivery-limit",
            Value::F64(1.5),
            "1.5 is not a valid delivery limit",
        ),
        ("max-age", text("0D"), "<<\"0D\">> is not a valid max age"),
        (
            "queue-leader-locator",
            text("min-masters"),
            "<<\"min-masters\">> is not a valid queue leader locator value",
        ),
        (
            "initial-cluster-size",
            n(-1),
            "-1 is not a valid cluster size",
        ),
        (
            "stream-max-segment-size-bytes",
            n(3_000_000_001),
            "3000000001 is not a valid segment size",
        ),
        (
            "stream-filter-size-bytes",
            n(15),
            "15 is not a valid filter size. Valid range is 16-255",
        ),
        (
            "target-group-size",
            n(0),
            "0 is not a valid qq target count value",
        ),
        (
            "member-placement-tag",
            text(""),
            "<<>> is not a valid member-placement-tag value. Must be a non-empty string",
        ),
        (
            "delayed-retry-type",
            text("odd"),
            "<<\"odd\">> is not a valid delayed retry type. Must be one of: all, failed, returned, disabled",
        ),
        (
            "delayed-retry-min",
            n(0),
            "0 is not a valid delayed retry minimum delay. Must be a positive integer",
        ),
    ];
    for (key, value, text) in cases {
        assert_eq!(errors(false, &[(key, value)]), [text], "{key}");
    }
}

#[test]
fn what_is_no_policy_is_refused_whole() {
    assert_eq!(errors(false, &[]), ["no policy provided"]);
    assert_eq!(
        errors(
            false,
            &[
                ("max-priority", Value::I64(5)),
                ("max-length", Value::I64(5)),
                ("odd", text("x"))
            ]
        ),
        ["[{<<\"max-priority\">>,5},{<<\"odd\">>,<<\"x\">>}] are not recognised policy settings"]
    );
    // What operator policies do not have.
    assert_eq!(
        errors(true, &[("dead-letter-exchange", text("x"))]),
        ["[{<<\"dead-letter-exchange\">>,<<\"x\">>}] are not recognised policy settings"]
    );
    assert_eq!(errors(true, &[("max-length", Value::I64(5))]), [""; 0]);
    assert_eq!(
        errors(false, &[("delayed-retry-type", text("all"))]),
        ["delayed-retry-min is required when delayed-retry-type is all"]
    );
    assert_eq!(
        errors(
            false,
            &[
                ("delayed-retry-min", Value::I64(9)),
                ("delayed-retry-max", Value::I64(5))
            ]
        ),
        ["delayed-retry-max (5) must not be smaller than delayed-retry-min (9)"]
    );
    let nothing = PolicyRequest {
        name: b"p",
        is_operator: true,
        pattern: Some(Value::I64(5)),
        apply_to: Some(text("dogs")),
        priority: Some(text("high")),
        definition: None,
    };
    assert_eq!(
        texts(nothing.check().unwrap_err()),
        [
            "parse error while reading policy definition: undefined. Validator: operator_policy_validator.",
            "apply-to 'dogs' unrecognised; should be one of: 'queues', 'classic_queues',  'quorum_queues', 'streams', 'exchanges', or 'all'",
            "pattern should be a binary but was 5",
            "priority should be a number, actually was <<\"high\">>",
        ]
    );
    let long = "a".repeat(1025);
    let expires = table(&[("expires", Value::I64(1))]);
    let patterns = PolicyRequest {
        pattern: Some(text(&long)),
        apply_to: None,
        priority: None,
        definition: Some(Value::Table(expires.fields())),
        ..nothing
    };
    assert_eq!(
        texts(patterns.check().unwrap_err()),
        ["pattern must not exceed 1024 bytes"]
    );
}

#[test]
fn one_policy_applies_the_highest_and_then_the_first_by_name() {
    let mut policies = Policies::default();
    let length = |max| table(&[("max-length", Value::I64(max))]);
    let at = |mut policy: PolicyDefinition, priority| {
        policy.priority = priority;
        policy
    };
    policies.set(at(policy("b", "", length(1)), 0));
    policies.set(at(policy("a", "", length(2)), 0));
    policies.set(at(policy("c", "", length(3)), -5));
    let length_max =
        |policies: &Policies| settings_of(&queue("q", Table::empty()), policies).length_max;
    assert_eq!(length_max(&policies), Some(2));
    policies.set(at(policy("c", "", length(3)), 1));
    assert_eq!(length_max(&policies), Some(3));
    policies.set(at(policy("d", "^z", length(4)), 9));
    assert_eq!(length_max(&policies), Some(3));
    policies.clear(&Name::from("c"), false);
    policies.clear(&Name::from("a"), true);
    assert_eq!(length_max(&policies), Some(2));
}

#[test]
fn a_policy_with_keys_of_another_type_does_not_apply() {
    let mut policies = Policies::default();
    policies.set(policy(
        "p",
        "",
        table(&[("queue-mode", text("lazy")), ("max-length", Value::I64(1))]),
    ));
    let classic = queue("q", Table::empty());
    let quorum = queue("q", table(&[("x-queue-type", text("quorum"))]));
    assert_eq!(settings_of(&classic, &policies).length_max, Some(1));
    assert_eq!(settings_of(&quorum, &policies).length_max, None);
    policies.set(policy(
        "p",
        "",
        table(&[
            ("target-group-size", Value::I64(3)),
            ("max-length", Value::I64(1)),
        ]),
    ));
    assert_eq!(settings_of(&classic, &policies).length_max, None);
    assert_eq!(settings_of(&quorum, &policies).length_max, Some(1));
    // What works here on every queue does not keep it from one.
    policies.set(policy(
        "p",
        "",
        table(&[
            ("delivery-limit", Value::I64(3)),
            ("max-length", Value::I64(1)),
        ]),
    ));
    let settings = settings_of(&classic, &policies);
    assert_eq!(
        (settings.length_max, settings.delivery_limit),
        (Some(1), Some(3))
    );
}

/// A policy in the twin's words.
#[derive(Clone, Debug)]
struct Said {
    name: &'static str,
    is_operator: bool,
    prefix: &'static str,
    apply_to: ApplyTo,
    priority: i64,
    layered: bool,
    values: Values,
}

/// What arguments or a policy say.
#[derive(Clone, Copy, Debug, Default)]
struct Values {
    max_length: Option<i64>,
    message_ttl: Option<i64>,
    expires: Option<i64>,
    delivery_limit: Option<i64>,
    overflow: Option<Overflow>,
    dead_letter_exchange: Option<&'static str>,
    retry_min: Option<i64>,
}

impl Values {
    fn fields(&self) -> Vec<(&'static str, Value<'static>)> {
        let n = |value: Option<i64>| value.map(Value::I64);
        let t = |value: Option<&'static str>| value.map(|text| Value::LongString(text.as_bytes()));
        let overflow = self.overflow.map(|overflow| match overflow {
            Overflow::DropHead => "drop-head",
            Overflow::RejectPublish => "reject-publish",
            Overflow::RejectPublishDeadLetter => "reject-publish-dlx",
        });
        let all = [
            ("max-length", n(self.max_length)),
            ("message-ttl", n(self.message_ttl)),
            ("expires", n(self.expires)),
            ("delivery-limit", n(self.delivery_limit)),
            ("overflow", t(overflow)),
            ("dead-letter-exchange", t(self.dead_letter_exchange)),
            ("delayed-retry-min", n(self.retry_min)),
        ];
        let said = all.into_iter();
        said.filter_map(|(name, value)| Some((name, value?)))
            .collect()
    }

    /// Itself, and for what it does not say another.
    fn or(self, other: Self) -> Self {
        Self {
            max_length: self.max_length.or(other.max_length),
            message_ttl: self.message_ttl.or(other.message_ttl),
            expires: self.expires.or(other.expires),
            delivery_limit: self.delivery_limit.or(other.delivery_limit),
            overflow: self.overflow.or(other.overflow),
            dead_letter_exchange: self.dead_letter_exchange.or(other.dead_letter_exchange),
            retry_min: self.retry_min.or(other.retry_min),
        }
    }
}

fn either<T: Copy>(a: Option<T>, b: Option<T>, both: impl Fn(T, T) -> T) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(both(a, b)),
        (a, b) => a.or(b),
    }
}

fn limit(a: i64, b: i64) -> i64 {
    if a < 0 || b < 0 { a.max(b) } else { a.min(b) }
}

/// The one policy, or the layers of it.
fn chosen(said: &[Said], is_operator: bool, queue: &str, is_quorum: bool) -> Values {
    let mut matching: Vec<&Said> = said
        .iter()
        .filter(|one| one.is_operator == is_operator && queue.starts_with(one.prefix))
        .filter(|one| match one.apply_to {
            ApplyTo::All | ApplyTo::Queues => true,
            ApplyTo::ClassicQueues => !is_quorum,
            ApplyTo::QuorumQueues => is_quorum,
            ApplyTo::Exchanges | ApplyTo::Streams => false,
        })
        .collect();
    matching.sort_by_key(|one| (-one.priority, one.name));
    let mut values = Values::default();
    for one in matching {
        values = values.or(one.values);
        if !one.layered {
            break;
        }
    }
    values
}

/// The rules as they are written down, a line for each key.
fn twin(said: &[Said], arguments: &Values, name: &str, is_quorum: bool) -> Settings {
    let own = chosen(said, false, name, is_quorum);
    let operator = chosen(said, true, name, is_quorum);
    let policy = Values {
        max_length: either(own.max_length, operator.max_length, i64::min),
        message_ttl: either(own.message_ttl, operator.message_ttl, i64::min),
        expires: either(own.expires, operator.expires, i64::min),
        delivery_limit: either(own.delivery_limit, operator.delivery_limit, limit),
        overflow: operator.overflow.or(own.overflow),
        dead_letter_exchange: own.dead_letter_exchange,
        retry_min: either(own.retry_min, operator.retry_min, i64::max),
    };
    let unsigned = |value: Option<i64>| value.and_then(|value| u64::try_from(value).ok());
    let min = |a: Option<i64>, b: Option<i64>| unsigned(either(a, b, i64::min));
    let delivery_limit = either(arguments.delivery_limit, policy.delivery_limit, limit);
    let overflow = if is_quorum {
        policy.overflow.or(arguments.overflow)
    } else {
        arguments.overflow.or(policy.overflow)
    };
    let exchange = arguments
        .dead_letter_exchange
        .or(policy.dead_letter_exchange);
    Settings {
        length_max: min(arguments.max_length, policy.max_length),
        message_ttl: min(arguments.message_ttl, policy.message_ttl),
        expires: min(arguments.expires, policy.expires),
        counts_returns: is_quorum || unsigned(delivery_limit).is_some(),
        delivery_limit: match delivery_limit {
            None => is_quorum.then_some(20),
            limit => unsigned(limit),
        },
        overflow: overflow.unwrap_or_default(),
        dead_letters: exchange.map(|exchange| {
            Box::new(crate::queue::DeadLetters {
                exchange: Name::from(exchange),
                routing_key: None,
                at_least_once: false,
            })
        }),
        ..Settings::default()
    }
}

fn values() -> impl Strategy<Value = Values> {
    let number = || prop::option::weighted(0.4, 1..5_i64);
    (
        number(),
        number(),
        number(),
        prop::option::weighted(0.4, -2..5_i64),
        prop::option::weighted(
            0.4,
            prop::sample::select(vec![Overflow::DropHead, Overflow::RejectPublish]),
        ),
        prop::option::weighted(0.3, prop::sample::select(vec!["x", "y"])),
        number(),
    )
        .prop_map(
            |(max_length, message_ttl, expires, delivery_limit, overflow, exchange, retry_min)| {
                Values {
                    max_length,
                    message_ttl,
                    expires,
                    delivery_limit,
                    overflow,
                    dead_letter_exchange: exchange,
                    retry_min,
                }
            },
        )
}

fn said() -> impl Strategy<Value = Said> {
    (
        prop::sample::select(vec!["a", "b", "c", "d", "e"]),
        any::<bool>(),
        prop::sample::select(vec!["", "q", "q1", "z"]),
        prop::sample::select(vec![
            ApplyTo::All,
            ApplyTo::Queues,
            ApplyTo::ClassicQueues,
            ApplyTo::QuorumQueues,
            ApplyTo::Exchanges,
            ApplyTo::Streams,
        ]),
        -1..3_i64,
        any::<bool>(),
        values(),
    )
        .prop_map(
            |(name, is_operator, prefix, apply_to, priority, layered, mut values)| {
                if is_operator {
                    values.dead_letter_exchange = None;
                }
                Said {
                    name,
                    is_operator,
                    prefix,
                    apply_to,
                    priority,
                    layered,
                    values,
                }
            },
        )
}

proptest! {
    #[test]
    fn settings_are_those_of_the_rules(
        said in prop::collection::vec(said(), 0..8),
        arguments in values(),
        is_quorum: bool,
    ) {
        let mut policies = Policies::default();
        let mut living: Vec<Said> = Vec::new();
        for one in said {
            living.retain(|other| (other.name, other.is_operator) != (one.name, one.is_operator));
            let mut fields = one.values.fields();
            fields.push(("layered", Value::Bool(one.layered)));
            policies.set(PolicyDefinition {
                name: Name::from(one.name),
                is_operator: one.is_operator,
                pattern: format!("^{}", one.prefix).into_bytes(),
                apply_to: one.apply_to,
                priority: one.priority,
                definition: table(&fields),
            });
            living.push(one);
        }
        let fields: Vec<(String, Value<'_>)> = arguments
            .fields()
            .into_iter()
            .map(|(name, value)| (format!("x-{name}"), value))
            .collect();
        let mut fields: Vec<(&str, Value<'_>)> =
            fields.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        if is_quorum {
            fields.push(("x-queue-type", text("quorum")));
        }
        let queue = queue("q12", table(&fields));
        let settings = settings_of(&queue, &policies);
        prop_assert_eq!(settings, twin(&living, &arguments, "q12", is_quorum));
        let subject = Subject::of_queue(&queue);
        let given = policies.given(subject, b"q12");
        for (place, one) in given.iter().enumerate() {
            let twice = given[..place].iter().any(|other| other.key.name == one.key.name);
            prop_assert!(!twice, "{} comes twice", one.key.name);
        }
    }

    #[test]
    fn any_bytes_are_a_pattern_or_an_error(pattern: Vec<u8>, name: Vec<u8>) {
        if let Ok(pattern) = super::pattern::Pattern::new(&pattern) {
            let _ = pattern.is_match(&name);
        }
    }
}

#[test]
fn retries_follow_the_policys_type_and_the_lower_times() {
    let mut policies = Policies::default();
    policies.set(policy(
        "p",
        "",
        table(&[
            ("delayed-retry-type", text("failed")),
            ("delayed-retry-min", Value::I64(50)),
            ("delayed-retry-max", Value::I64(70)),
        ]),
    ));
    let arguments = [
        ("x-delayed-retry-type", text("all")),
        ("x-delayed-retry-min", Value::I32(10)),
        ("x-delayed-retry-max", Value::I32(90)),
    ];
    let retry = settings_of(&queue("q", table(&arguments)), &policies).delayed_retry;
    assert_eq!(
        (retry.kind, retry.min, retry.max),
        (RetryKind::Failed, 10, Some(70))
    );
}

#[test]
fn a_policy_reaches_who_acts_on_one_of_its_keys() {
    let length = || table(&[("max-length", Value::I32(5))]);
    for (apply_to, definition, exchanges, queues) in [
        (ApplyTo::All, length(), false, true),
        (ApplyTo::QuorumQueues, length(), false, true),
        (ApplyTo::Exchanges, length(), false, false),
        (ApplyTo::Streams, length(), false, false),
        (
            ApplyTo::All,
            table(&[("max-age", text("7D"))]),
            false,
            false,
        ),
        (
            ApplyTo::All,
            table(&[("queue-mode", text("lazy"))]),
            false,
            false,
        ),
        (
            ApplyTo::All,
            table(&[("alternate-exchange", text("a"))]),
            true,
            false,
        ),
        (
            ApplyTo::All,
            table(&[
                ("alternate-exchange", text("a")),
                ("expires", Value::I32(7)),
            ]),
            true,
            true,
        ),
        // Queues that do not have one key of it do not get the others.
        (
            ApplyTo::All,
            table(&[("max-age", text("7D")), ("max-length", Value::I32(5))]),
            false,
            false,
        ),
    ] {
        let mut policy = policy("p", "", definition);
        policy.apply_to = apply_to;
        let reach = Reach { exchanges, queues };
        assert_eq!(Reach::of(&policy), reach, "{policy:?}");
    }
}
