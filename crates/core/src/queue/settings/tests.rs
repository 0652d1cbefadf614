//! Each refusal was seen on RabbitMQ 4.3.6, save where a line says otherwise.

use menzil_model::{Name, Table, TableBuilder, Value};

use super::arguments::read;
use super::{DelayedRetry, Overflow, RetryKind, parse_expiration};
use crate::refusal::Refusal;

fn table(fields: &[(&str, Value<'_>)]) -> Table {
    let mut table = TableBuilder::new();
    for (name, value) in fields {
        table = table.field(name, *value);
    }
    table.build()
}

fn text(text: &str) -> Value<'_> {
    Value::LongString(text.as_bytes())
}

const QUORUM: (&str, Value<'static>) = ("x-queue-type", Value::LongString(b"quorum"));

fn refusal(fields: &[(&str, Value<'_>)]) -> Refusal {
    match read(&Name::from("q"), &table(fields)) {
        Err(refusal) => refusal,
        Ok(asked) => panic!("{fields:?}: {asked:?}"),
    }
}

#[track_caller]
fn invalid(fields: &[(&str, Value<'_>)], named: &str, term: &str) {
    let refusal = refusal(fields);
    let Refusal::InvalidArgument {
        argument, reason, ..
    } = &refusal
    else {
        panic!("{refusal:?}")
    };
    assert_eq!(
        (argument.to_string().as_str(), reason.as_str()),
        (named, term)
    );
}

#[track_caller]
fn other_type(fields: &[(&str, Value<'_>)], named: &str, of: &str) {
    let refusal = refusal(fields);
    let Refusal::ArgumentOfOtherType { argument, kind, .. } = &refusal else {
        panic!("{refusal:?}")
    };
    assert_eq!((argument.to_string().as_str(), *kind), (named, of));
}

#[test]
fn values_are_refused_with_rabbitmqs_terms() {
    let n = Value::I32;
    let cases: [(&str, Value<'_>, &str); 24] = [
        ("x-expires", n(0), "{value_zero,0}"),
        ("x-expires", n(-1), "{value_negative,-1}"),
        (
            "x-expires",
            Value::I64(315_360_000_001),
            "{value_too_large,315360000001}",
        ),
        ("x-message-ttl", n(-1), "{value_negative,-1}"),
        (
            "x-message-ttl",
            Value::I64(315_360_000_001),
            "{value_too_large,315360000001}",
        ),
        (
            "x-message-ttl",
            text("5"),
            "\"expected integer, got longstr\"",
        ),
        (
            "x-message-ttl",
            Value::F64(5.0),
            "\"expected integer, got double\"",
        ),
        (
            "x-dead-letter-routing-key",
            text("k"),
            "routing_key_but_no_dlx_defined",
        ),
        (
            "x-dead-letter-routing-key",
            n(5),
            "{unacceptable_type,signedint}",
        ),
        (
            "x-dead-letter-strategy",
            text("twice"),
            "invalid_dlx_strategy",
        ),
        ("x-max-length", n(-5), "{value_negative,-5}"),
        (
            "x-max-length-bytes",
            Value::Bool(true),
            "\"expected integer, got bool\"",
        ),
        ("x-max-priority", n(256), "{max_value_exceeded,256}"),
        ("x-max-priority", n(-1), "{value_negative,-1}"),
        ("x-overflow", text("spill"), "invalid_overflow"),
        ("x-overflow", n(1), "{unacceptable_type,signedint}"),
        ("x-queue-version", n(1), "\"unsupported queue version '1'\""),
        ("x-queue-version", n(-1), "{value_negative,-1}"),
        (
            "x-single-active-consumer",
            text("yes"),
            "{unacceptable_type,longstr}",
        ),
        ("x-consumer-timeout", n(-5), "{value_negative,-5}"),
        (
            "x-queue-leader-locator",
            text("here"),
            "invalid_queue_locator_arg",
        ),
        (
            "x-queue-leader-locator",
            n(1),
            "{unacceptable_type,signedint}",
        ),
        (
            "x-queue-type",
            text("odd"),
            "\"unsupported queue type 'odd'\"",
        ),
        ("x-queue-type", n(1), "{unacceptable_type,signedint}"),
    ];
    for (argument, value, term) in cases {
        invalid(&[(argument, value)], argument, term);
    }
    let cases: [(&str, Value<'_>, &str); 8] = [
        ("x-max-in-memory-length", n(-5), "{value_negative,-5}"),
        (
            "x-max-in-memory-bytes",
            text("5"),
            "\"expected integer, got longstr\"",
        ),
        (
            "x-consumer-disconnected-timeout",
            n(-5),
            "{value_negative,-5}",
        ),
        ("x-quorum-initial-group-size", n(0), "{value_zero,0}"),
        ("x-quorum-initial-group-size", n(-1), "{value_negative,-1}"),
        // The next two in RabbitMQ's sources only: 4.3.6 does not know the argument.
        (
            "x-member-placement-tag",
            text(""),
            "invalid_member_placement_tag_arg",
        ),
        (
            "x-member-placement-tag",
            n(5),
            "{unacceptable_type,signedint}",
        ),
        (
            "x-dead-letter-strategy",
            text("twice"),
            "invalid_dlx_strategy",
        ),
    ];
    for (argument, value, term) in cases {
        invalid(&[QUORUM, (argument, value)], argument, term);
    }
}

#[test]
fn the_first_mistake_is_named_in_rabbitmqs_order() {
    let zero = Value::I32(0);
    let minus = Value::I32(-1);
    invalid(
        &[("x-expires", zero), ("x-queue-type", text("odd"))],
        "x-queue-type",
        "\"unsupported queue type 'odd'\"",
    );
    invalid(
        &[("x-overflow", text("spill")), ("x-max-length", minus)],
        "x-max-length",
        "{value_negative,-1}",
    );
    // The arguments of other types come after all values, in the client's order.
    invalid(
        &[("x-max-age", text("odd")), ("x-max-length", minus)],
        "x-max-length",
        "{value_negative,-1}",
    );
    other_type(
        &[
            ("x-max-age", text("odd")),
            ("x-max-in-memory-length", minus),
        ],
        "x-max-age",
        "classic",
    );
    let dead_letters = [
        ("x-queue-type", text("odd")),
        ("x-dead-letter-exchange", Value::I32(5)),
    ];
    let Refusal::InvalidType { argument, kind, .. } = refusal(&dead_letters) else {
        panic!("{:?}", refusal(&dead_letters))
    };
    assert_eq!(
        (argument, kind),
        (Name::from("x-dead-letter-exchange"), "signedint")
    );
}

#[test]
fn arguments_of_another_type_are_refused_where_they_can_do_nothing() {
    let five = Value::I32(5);
    for argument in [
        "x-max-in-memory-length",
        "x-max-in-memory-bytes",
        "x-quorum-initial-group-size",
        "x-member-placement-tag",
        "x-consumer-disconnected-timeout",
        "x-max-age",
        "x-stream-max-segment-size-bytes",
        "x-stream-filter-size-bytes",
        "x-initial-cluster-size",
    ] {
        other_type(&[(argument, five)], argument, "classic");
    }
    for argument in [
        "x-queue-mode",
        "x-queue-version",
        "x-queue-master-locator",
        "x-max-age",
        "x-stream-max-segment-size-bytes",
        "x-stream-filter-size-bytes",
        "x-initial-cluster-size",
    ] {
        other_type(&[QUORUM, (argument, five)], argument, "quorum");
    }
}

#[test]
fn hints_are_accepted() {
    let hints = [
        ("x-queue-type", text("undefined")),
        ("x-queue-mode", text("lazy")),
        ("x-queue-version", Value::I8(2)),
        ("x-queue-master-locator", Value::I32(5)),
        ("x-queue-leader-locator", text("min-masters")),
        ("x-unknown", Value::Void),
    ];
    assert!(read(&Name::from("q"), &table(&hints)).is_ok());
    let hints = [
        QUORUM,
        ("x-max-in-memory-length", Value::I32(0)),
        ("x-max-in-memory-bytes", Value::I64(1 << 40)),
        ("x-quorum-initial-group-size", Value::I32(5)),
        ("x-member-placement-tag", text("ssd")),
        ("x-consumer-disconnected-timeout", Value::I32(0)),
        ("x-queue-leader-locator", text("balanced")),
    ];
    assert!(read(&Name::from("q"), &table(&hints)).is_ok());
}

#[test]
fn what_rabbitmq_has_on_one_type_is_read_on_both() {
    let shared = [
        ("x-max-priority", Value::I32(9)),
        ("x-delivery-limit", Value::I32(-1)),
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-strategy", text("at-least-once")),
        ("x-consumer-timeout", Value::I64(400_000_000_000)),
        ("x-delayed-retry-type", text("failed")),
        ("x-delayed-retry-min", Value::I32(10)),
        ("x-overflow", text("reject-publish-dlx")),
    ];
    let mut of_quorum = shared.to_vec();
    of_quorum.push(QUORUM);
    for fields in [shared.to_vec(), of_quorum] {
        let settings = read(&Name::from("q"), &table(&fields)).unwrap().resolve();
        assert_eq!(settings.priority_max, 9);
        assert_eq!(settings.delivery_limit, None);
        assert!(settings.dead_letters.unwrap().at_least_once);
        assert_eq!(settings.consumer_timeout, Some(400_000_000_000));
        assert_eq!(settings.overflow, Overflow::RejectPublishDeadLetter);
        let retry = DelayedRetry {
            kind: RetryKind::Failed,
            min: 10,
            max: Some(10),
        };
        assert_eq!(settings.delayed_retry, retry);
    }
}

#[test]
fn the_delivery_limit_is_off_on_classic_and_20_on_quorum() {
    let limit = |fields: &[_]| {
        let asked = read(&Name::from("q"), &table(fields)).unwrap();
        asked.resolve().delivery_limit
    };
    assert_eq!(limit(&[]), None);
    assert_eq!(limit(&[QUORUM]), Some(20));
    assert_eq!(
        limit(&[QUORUM, ("x-delivery-limit", Value::I8(3))]),
        Some(3)
    );
}

#[test]
fn retries_are_not_delayed_without_a_shortest_time() {
    let asked = [
        ("x-delayed-retry-type", text("all")),
        ("x-delayed-retry-max", Value::I32(5)),
    ];
    let asked = read(&Name::from("q"), &table(&asked)).unwrap();
    assert_eq!(asked.resolve().delayed_retry, DelayedRetry::default());
}

#[test]
fn what_rabbitmq_leaves_unchecked_is_checked() {
    let delayed = [
        ("x-delayed-retry-min", Value::I32(5)),
        ("x-delayed-retry-max", Value::I32(4)),
    ];
    let max = "x-delayed-retry-max";
    let below = "it is 4, and must not be below x-delayed-retry-min, 5";
    invalid(&delayed, max, below);
}

#[test]
fn what_rabbitmq_has_not_is_refused_in_plain_words() {
    for (argument, value, words) in [
        (
            "x-delayed-retry-type",
            text("odd"),
            "it is \"odd\", and must be disabled, all, failed or returned",
        ),
        (
            "x-delayed-retry-min",
            Value::I32(-1),
            "it is -1, and must be milliseconds from 0 to 315360000000",
        ),
        (
            "x-delivery-limit",
            text("3"),
            "it is \"3\", and must be a whole number; below 0 is no limit",
        ),
        (
            "x-deduplication",
            text("yes"),
            "it is \"yes\", and must be true or false",
        ),
        (
            "x-deduplication-header",
            Value::Void,
            "it is void, and must be the name of a header, a text of 1 to 255 bytes",
        ),
        (
            "x-deduplication-size",
            Value::I32(0),
            "it is 0, and must be a whole number from 1 to 10000000",
        ),
        (
            "x-deduplication-age",
            Value::F64(1.5),
            "it is 1.5, and must be milliseconds from 1 to 315360000000",
        ),
        (
            "x-group-header",
            text(""),
            "it is \"\", and must be the name of a header, a text of 1 to 255 bytes",
        ),
    ] {
        invalid(&[(argument, value)], argument, words);
    }
}

#[test]
fn expirations_are_digits_in_range() {
    assert_eq!(parse_expiration(b"60000").unwrap(), 60_000);
    for bad in [
        &b"abc"[..],
        b"-1",
        b"",
        b"1 ",
        b"99999999999999999999",
        b"\xff",
    ] {
        assert!(parse_expiration(bad).is_err(), "{bad:?}");
    }
}
