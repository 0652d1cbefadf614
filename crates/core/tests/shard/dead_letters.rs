//! Dead letters: what leaves a queue unacknowledged goes through an exchange to others, once.

use bytes::Bytes;
use menzil_core::{ChannelKey, Effect, Output, Publish, Rejection, Request, ShardSettings};
use menzil_model::table::{Fields, write_value};
use menzil_model::wire::Writer;
use menzil_model::{DeliveryTag, Escaped, Properties, Table, Value};

use crate::support::{Seen, World, arguments, body_of, key, name};

/// What a test looks at of a dead letter.
#[derive(Debug, PartialEq)]
pub(crate) struct Letter {
    pub(crate) body: String,
    from: String,
    deaths: Vec<String>,
}

pub(crate) fn letter(body: &str, from: &str, deaths: &[&str]) -> Letter {
    Letter {
        body: body.to_owned(),
        from: from.to_owned(),
        deaths: deaths.iter().map(|death| (*death).to_owned()).collect(),
    }
}

fn text(fields: Fields<'_>, field: &str) -> String {
    let found = { fields }.find(|(name, _)| *name == field.as_bytes());
    match found.unwrap().1 {
        Value::LongString(text) => Escaped(text).to_string(),
        value => value.as_integer().unwrap().to_string(),
    }
}

fn deaths(properties: &[u8]) -> Vec<String> {
    let properties = Properties::parse(properties).unwrap();
    let found = properties
        .header_fields()
        .find(|(name, _)| *name == b"x-death");
    let Some((_, Value::Array(items))) = found else {
        return Vec::new();
    };
    let death = |item| {
        let Value::Table(fields) = item else {
            panic!("no table")
        };
        ["queue", "reason", "count"]
            .map(|field| text(fields, field))
            .join(" ")
    };
    items.map(death).collect()
}

impl World {
    /// The next message of the queue, with its delivery tag.
    pub(crate) fn take(&mut self, queue: &str, no_ack: bool) -> Option<(u64, Letter)> {
        let get = Request::Get {
            queue: name(queue),
            no_ack,
        };
        let channel = key(1, 1);
        let effects = self.execute(menzil_core::Command::Request {
            channel,
            request: get,
        });
        effects.iter().find_map(|effect| match effect {
            Effect::Channel {
                output:
                    Output::GetOk {
                        message,
                        delivery_tag,
                        ..
                    },
                ..
            } => Some((
                delivery_tag.0,
                Letter {
                    body: body_of(message),
                    from: Escaped(message.exchange()).to_string(),
                    deaths: deaths(message.properties()),
                },
            )),
            _ => None,
        })
    }

    pub(crate) fn letters(&mut self, queue: &str) -> Vec<Letter> {
        std::iter::from_fn(|| self.take(queue, true))
            .map(|(_, letter)| letter)
            .collect()
    }

    pub(crate) fn reject(&mut self, channel: ChannelKey, tag: u64) -> Vec<Seen> {
        self.request(
            channel,
            Request::Reject {
                delivery_tag: DeliveryTag(tag),
                multiple: false,
                requeue: false,
                method: Rejection::Reject,
            },
        )
    }

    pub(crate) fn declare_dead_lettering(
        &mut self,
        queue: &str,
        to: &str,
        more: &[(&str, Value<'_>)],
    ) {
        let mut fields = vec![
            ("x-dead-letter-exchange", Value::LongString(b"")),
            (
                "x-dead-letter-routing-key",
                Value::LongString(to.as_bytes()),
            ),
        ];
        fields.extend_from_slice(more);
        let seen = self.declare_with(queue, true, arguments(&fields));
        assert!(
            matches!(seen.as_slice(), [Seen::Reply(_)]),
            "{queue}: {seen:?}"
        );
    }

    fn publish_with_headers(&mut self, routing_key: &str, body: &str, headers: &Table) {
        let properties = Properties {
            delivery_mode: Some(2),
            headers: Some(headers.as_bytes()),
            ..Properties::default()
        };
        let mut bytes = Vec::new();
        properties.write(&mut bytes);
        let publish = Publish {
            exchange: name(""),
            routing_key: name(routing_key),
            mandatory: false,
            properties: Bytes::from(bytes),
            body: vec![Bytes::copy_from_slice(body.as_bytes())],
        };
        let seen = self.request(key(1, 1), Request::Publish(publish));
        assert_eq!(seen, []);
    }

    /// Until all that was asked for has come and all that is due is done.
    pub(crate) fn tick_until_still(&mut self) -> Vec<Seen> {
        let mut seen = Vec::new();
        for _ in 0..20 {
            seen.extend(self.tick(0));
        }
        seen
    }

    pub(crate) fn ready(&self, queue: &str) -> u64 {
        let queues = self.shard.queues();
        let found = queues.iter().find(|found| found.name == name(queue));
        found.unwrap().ready
    }

    pub(crate) fn dying(&self, queue: &str) -> u64 {
        let queues = self.shard.queues();
        let found = queues.iter().find(|found| found.name == name(queue));
        found.unwrap().dying
    }
}

const MAX_ONE: (&str, Value<'_>) = ("x-max-length", Value::I32(1));

#[test]
fn what_is_rejected_expired_or_over_the_limit_says_why() {
    let mut world = World::new();
    world.declare("dead");
    world.declare_dead_lettering("work", "dead", &[]);
    world.declare_dead_lettering("short", "dead", &[MAX_ONE]);
    world.publish("", "work", "rejected");
    let (tag, _) = world.take("work", false).unwrap();
    world.reject(key(1, 1), tag);
    world.publish_as("", "work", "expired", false, Some(2), Some("100"));
    world.tick(100);
    world.publish("", "short", "dropped");
    world.publish("", "short", "stays");
    let expected = [
        letter("rejected", "", &["work rejected 1"]),
        letter("expired", "", &["work expired 1"]),
        letter("dropped", "", &["short maxlen 1"]),
    ];
    let mut again = world.log.clone();
    assert_eq!(world.letters("dead"), expected);
    std::mem::swap(&mut world.log, &mut again);
    world.restart();
    assert_eq!(world.letters("dead"), expected, "after a crash");
    assert_eq!(world.drain("work"), [""; 0]);
    assert_eq!(world.drain("short"), ["stays"]);
}

#[test]
fn a_move_is_one_record_wherever_the_journal_ends() {
    let mut world = World::new();
    world.declare("dead");
    world.declare_dead_lettering("work", "dead", &[]);
    for body in ["1", "2", "3"] {
        world.publish("", "work", body);
    }
    for _ in 0..2 {
        let (tag, _) = world.take("work", false).unwrap();
        world.reject(key(1, 1), tag);
    }
    let records = world.log.records.len();
    for cut in 0..=records {
        let mut cut_off = World::new();
        cut_off.log = world.log.clone();
        cut_off.log.records.truncate(cut.max(20));
        cut_off.log.references.truncate(cut.max(20));
        cut_off.restart();
        if cut < 20 {
            continue;
        }
        let queues = cut_off.shard.queues();
        let total: u64 = queues.iter().map(|queue| queue.ready).sum();
        let published = cut_off.shard.queues().len() as u64;
        assert!(total <= 3, "doubled at record {cut} of {records}");
        if published == 2 && cut == records {
            assert_eq!(total, 3, "lost");
        }
    }
}

#[test]
fn a_rejected_message_that_must_be_read_back_first_keeps_its_place_in_line() {
    let mut world = World::with(ShardSettings {
        content_bytes_max: 0,
        index_page_entries: 4,
        ..ShardSettings::default()
    });
    world.declare("dead");
    world.declare_dead_lettering("work", "dead", &[]);
    for number in 0..40 {
        world.publish("", "work", &number.to_string());
    }
    let mut tags = Vec::new();
    while let Some((tag, _)) = world.take("work", false) {
        tags.push(tag);
    }
    for tag in tags {
        world.reject(key(1, 1), tag);
    }
    let bodies: Vec<String> = world.letters("dead").into_iter().map(|l| l.body).collect();
    assert_eq!(
        bodies,
        (0..40).map(|n: u32| n.to_string()).collect::<Vec<_>>()
    );
    assert_eq!(world.shard.counters().dead_lettered, 40);
}

#[test]
fn a_crash_while_entries_wait_for_their_message_loses_and_doubles_none() {
    let mut world = World::with(ShardSettings {
        content_bytes_max: 0,
        ..ShardSettings::default()
    });
    world.declare("dead");
    world.declare_dead_lettering("work", "dead", &[("x-message-ttl", Value::I32(100))]);
    for number in 0..1_500 {
        world.publish("", "work", &number.to_string());
    }
    world.answer_fetches = false;
    world.tick(100);
    assert_eq!(world.dying("work"), 512, "no more at once");
    world.answer_fetches = true;
    world.restart();
    world.tick_until_still();
    let bodies: Vec<String> = world.letters("dead").into_iter().map(|l| l.body).collect();
    let all: Vec<String> = (0..1_500).map(|number: u32| number.to_string()).collect();
    assert_eq!(bodies, all);
    assert_eq!(world.dying("work"), 0);
}

#[test]
fn what_has_expired_is_never_delivered_while_it_waits() {
    let mut world = World::with(ShardSettings {
        content_bytes_max: 0,
        ..ShardSettings::default()
    });
    world.declare("dead");
    world.declare_dead_lettering("work", "dead", &[]);
    for number in 0..600 {
        world.publish_as("", "work", &number.to_string(), false, Some(2), Some("50"));
    }
    world.publish("", "work", "alive");
    world.answer_fetches = false;
    world.tick(60);
    assert_eq!(
        world.consume(key(1, 1), "work", "c").len(),
        1,
        "only consume-ok"
    );
    world.answer_fetches = true;
    // The answers were lost with the test's patience: a restart asks again.
    world.restart();
    let mut seen = world.consume(key(1, 1), "work", "c");
    seen.extend(world.tick_until_still());
    let bodies: Vec<&String> = seen
        .iter()
        .filter_map(|seen| match seen {
            Seen::Delivered { body, .. } => Some(body),
            _ => None,
        })
        .collect();
    assert_eq!(bodies, ["alive"]);
    assert_eq!(world.ready("dead"), 600);
}

#[test]
fn a12_two_limited_queues_in_a_ring_end_their_cycle() {
    let mut world = World::new();
    world.confirm_select();
    world.declare_dead_lettering("a", "b", &[MAX_ONE]);
    world.declare_dead_lettering("b", "a", &[MAX_ONE]);
    for number in 1..=50 {
        let seen = world.publish("", "a", &number.to_string());
        assert_eq!(seen, [Seen::Acked(number)]);
    }
    assert_eq!((world.ready("a"), world.ready("b")), (1, 1));
    assert_eq!(world.letters("a"), [letter("50", "", &[])]);
    assert_eq!(world.letters("b"), [letter("49", "", &["a maxlen 1"])]);
    assert_eq!(world.shard.counters().dead_letters_dropped, 48);
}

#[test]
fn a12_a_refused_publish_is_nacked_and_a_copy_is_dead_lettered() {
    let mut world = World::new();
    world.confirm_select();
    world.declare("dead");
    let reject = ("x-overflow", Value::LongString(b"reject-publish-dlx"));
    world.declare_dead_lettering("a", "dead", &[MAX_ONE, reject]);
    assert_eq!(world.publish("", "a", "1"), [Seen::Acked(1)]);
    for number in 2..=50 {
        let seen = world.publish("", "a", &number.to_string());
        assert_eq!(seen, [Seen::Nacked(number)]);
    }
    let letters = world.letters("dead");
    assert_eq!(letters.len(), 49);
    assert_eq!(letters[0], letter("2", "", &["a maxlen 1"]));
    assert_eq!(world.drain("a"), ["1"]);
}

#[test]
fn a_chain_of_queues_is_worked_off_without_recursion() {
    let mut world = World::new();
    world.declare("end");
    for number in (0..300).rev() {
        let (queue, next) = (format!("q{number}"), format!("q{}", number + 1));
        let to = if number == 299 { "end" } else { &next };
        let none = ("x-max-length", Value::I32(0));
        world.declare_dead_lettering(&queue, to, &[none]);
    }
    world.publish("", "q0", "m");
    assert_eq!(
        world.ready("end"),
        0,
        "a turn makes so many moves and no more"
    );
    world.tick(0);
    let letters = world.letters("end");
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].deaths.len(), 300);
    assert_eq!(letters[0].deaths[0], "q299 maxlen 1");
}

#[test]
fn a13_rejections_keep_a_cycle_going_and_expiry_alone_ends_it() {
    let mut world = World::new();
    world.declare_dead_lettering("work", "retry", &[]);
    world.declare_dead_lettering("retry", "work", &[("x-message-ttl", Value::I32(200))]);
    world.publish("", "work", "m");
    for count in 1..=4 {
        let (tag, _) = world.take("work", false).unwrap();
        world.reject(key(1, 1), tag);
        world.tick(200);
        let (tag, letter) = world.take("work", false).unwrap();
        let expected = [
            format!("retry expired {count}"),
            format!("work rejected {count}"),
        ];
        assert_eq!(letter.deaths, expected);
        world.requeue(key(1, 1), tag);
    }
    let ttl = ("x-message-ttl", Value::I32(10));
    world.declare_dead_lettering("one", "two", &[ttl]);
    world.declare_dead_lettering("two", "one", &[ttl]);
    world.publish("", "one", "m");
    world.tick(10);
    assert_eq!((world.ready("one"), world.ready("two")), (0, 1));
    world.tick(10);
    assert_eq!((world.ready("one"), world.ready("two")), (0, 0));
}

#[test]
fn without_an_exchange_or_a_queue_a_letter_is_dropped_and_counted() {
    let mut world = World::new();
    let fields = [("x-dead-letter-exchange", Value::LongString(b"missing"))];
    world.declare_with("work", true, arguments(&fields));
    world.declare_dead_lettering("other", "nowhere", &[]);
    for queue in ["work", "other"] {
        world.publish("", queue, "m");
        let (tag, _) = world.take(queue, false).unwrap();
        world.reject(key(1, 1), tag);
    }
    assert_eq!(world.shard.counters().dead_letters_dropped, 2);
    assert_eq!(world.shard.counters().rejected, 2);
    world.restart();
    assert_eq!(world.shard.summary().messages, 0);
}

#[test]
fn a_letter_goes_again_by_cc_and_bcc_and_its_history_hides_bcc() {
    let mut world = World::new();
    world.declare_exchange("x", "direct", Table::empty());
    for (queue, routing_key) in [("dead", "work"), ("copied", "cc"), ("hidden", "bcc")] {
        world.declare(queue);
        world.bind(queue, "x", routing_key);
    }
    let fields = [("x-dead-letter-exchange", Value::LongString(b"x"))];
    world.declare_with("work", true, arguments(&fields));
    let mut headers = Vec::new();
    for (header, routing_key) in [("CC", b"cc".as_slice()), ("BCC", b"bcc")] {
        let mut keys = Vec::new();
        write_value(&mut keys, Value::LongString(routing_key));
        headers.put_short_string(header.as_bytes());
        headers.put_u8(b'A');
        headers.put_long_string(&keys);
    }
    let headers = Table::new(Bytes::from(headers)).unwrap();
    world.publish_with_headers("work", "m", &headers);
    world.restart();
    let (tag, _) = world.take("work", false).unwrap();
    world.reject(key(1, 1), tag);
    for queue in ["dead", "copied", "hidden"] {
        assert_eq!(
            world.letters(queue),
            [letter("m", "x", &["work rejected 1"])]
        );
    }
}

#[test]
fn at_least_once_keeps_what_is_refused_until_there_is_room() {
    let mut world = World::new();
    let full = ("x-overflow", Value::LongString(b"reject-publish"));
    world.declare_with("dead", true, arguments(&[MAX_ONE, full]));
    let strategy = (
        "x-dead-letter-strategy",
        Value::LongString(b"at-least-once"),
    );
    world.declare_dead_lettering("work", "dead", &[strategy]);
    for body in ["1", "2", "3"] {
        world.publish("", "work", body);
        let (tag, _) = world.take("work", false).unwrap();
        world.reject(key(1, 1), tag);
    }
    assert_eq!((world.ready("work"), world.dying("work")), (0, 2));
    assert_eq!(world.take("dead", true).unwrap().1.body, "1");
    assert_eq!(
        (world.ready("dead"), world.dying("work")),
        (1, 1),
        "its room is used at once"
    );
    let bodies: Vec<String> = world.letters("dead").into_iter().map(|l| l.body).collect();
    assert_eq!(bodies, ["2", "3"]);
    assert_eq!(world.shard.counters().dead_letters_refused, 0);
}

#[test]
fn at_most_once_drops_what_is_refused_and_counts_it() {
    let mut world = World::new();
    let full = ("x-overflow", Value::LongString(b"reject-publish"));
    world.declare_with("dead", true, arguments(&[MAX_ONE, full]));
    world.declare_dead_lettering("work", "dead", &[]);
    for body in ["1", "2", "3"] {
        world.publish("", "work", body);
        let (tag, _) = world.take("work", false).unwrap();
        world.reject(key(1, 1), tag);
    }
    assert_eq!(world.dying("work"), 0);
    assert_eq!(world.letters("dead").len(), 1);
    assert_eq!(world.shard.counters().dead_letters_refused, 2);
}

#[test]
fn at_least_once_waits_for_an_exchange_and_tries_again_by_the_clock() {
    let mut world = World::new();
    let fields = [
        ("x-dead-letter-exchange", Value::LongString(b"later")),
        (
            "x-dead-letter-strategy",
            Value::LongString(b"at-least-once"),
        ),
        ("x-message-ttl", Value::I32(10)),
    ];
    world.declare_with("work", true, arguments(&fields));
    world.publish("", "work", "m");
    world.tick(10);
    assert_eq!(world.dying("work"), 1);
    world.tick(5_000);
    assert_eq!(world.dying("work"), 1);
    world.restart();
    world.tick(0);
    assert_eq!(world.dying("work"), 1, "a crash does not lose it");
    world.declare_exchange("later", "fanout", Table::empty());
    world.declare("dead");
    world.bind("dead", "later", "");
    world.tick(1_000);
    assert_eq!(
        world.letters("dead"),
        [letter("m", "later", &["work expired 1"])]
    );
    assert_eq!(world.dying("work"), 0);
}

#[test]
fn a_rejection_of_a_transaction_is_dead_lettered_at_commit() {
    let mut world = World::new();
    world.declare("dead");
    world.declare_dead_lettering("work", "dead", &[]);
    world.publish("", "work", "m");
    world.request(key(1, 1), Request::TxSelect);
    let (tag, _) = world.take("work", false).unwrap();
    world.reject(key(1, 1), tag);
    assert_eq!(world.ready("dead"), 0);
    world.request(key(1, 1), Request::TxCommit);
    assert_eq!(world.ready("dead"), 1);
    assert_eq!(world.shard.summary().messages, 1);
}

#[test]
fn large_and_transient_messages_move_as_they_are() {
    let mut world = World::with(ShardSettings {
        chunk_bytes: 10,
        content_bytes_max: 0,
        ..ShardSettings::default()
    });
    world.declare("dead");
    world.declare_dead_lettering("work", "dead", &[]);
    let large = "0123456789".repeat(5);
    world.publish("", "work", &large);
    world.publish_as("", "work", "transient", false, None, None);
    for _ in 0..2 {
        let (tag, _) = world.take("work", false).unwrap();
        world.reject(key(1, 1), tag);
    }
    let bodies: Vec<String> = world.letters("dead").into_iter().map(|l| l.body).collect();
    assert_eq!(bodies, [large, "transient".to_owned()]);
    assert!(world.log.references.iter().all(|needed| *needed == 0));
}
