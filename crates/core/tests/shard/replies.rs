//! Direct reply-to: requests that name the channel, replies that go straight to it.

use bytes::Bytes;
use menzil_core::{
    ChannelKey, Command, Effect, Output, Publish, QueueBind, QueueDeclare, Refusal, Reply, Request,
    ShardSettings,
};
use menzil_model::table::{read_value, write_value};
use menzil_model::wire::{Reader, Writer as _};
use menzil_model::{ConnectionId, Name, Properties, Table, TableBuilder, Value};

use crate::support::{Seen, World, arguments, body_of, key, name};

const PSEUDO: &str = "amq.rabbitmq.reply-to";

fn written(properties: &Properties<'_>) -> Bytes {
    let mut bytes = Vec::new();
    properties.write(&mut bytes);
    Bytes::from(bytes)
}

fn publish(routing_key: &str, properties: &Properties<'_>, body: &str) -> Publish {
    Publish {
        exchange: name(""),
        routing_key: name(routing_key),
        mandatory: false,
        properties: written(properties),
        body: vec![Bytes::copy_from_slice(body.as_bytes())],
    }
}

fn consume_replies(world: &mut World, channel: ChannelKey, tag: &str) -> Vec<Seen> {
    let mut consume = world.consume_of(PSEUDO, tag);
    consume.no_ack = true;
    world.request(channel, Request::Consume(consume))
}

/// A world with a queue, and the name under which the first channel gets replies, as whoever
/// takes its request reads it.
fn requester() -> (World, String) {
    let mut world = World::with(ShardSettings {
        credit_bytes: 1000,
        reply_bytes_max: 1000,
        chunk_bytes: 2000,
        ..ShardSettings::default()
    });
    world.declare("requests");
    world.open(key(1, 2));
    let seen = consume_replies(&mut world, key(1, 1), "r");
    let consumer_tag = name("r");
    assert_eq!(seen, [Seen::Reply(Reply::ConsumeOk { consumer_tag })]);
    let reply_to = ask(&mut world);
    assert_eq!(world.drain("requests"), ["ask"]);
    (world, reply_to)
}

fn ask(world: &mut World) -> String {
    let headers = arguments(&[("kept", Value::I8(1))]);
    let properties = Properties {
        reply_to: Some(PSEUDO.as_bytes()),
        correlation_id: Some(b"17"),
        headers: Some(headers.as_bytes()),
        delivery_mode: Some(2),
        ..Properties::default()
    };
    let request = publish("requests", &properties, "ask");
    let seen = world.request(key(1, 1), Request::Publish(request));
    assert_eq!(seen, []);
    let get = Request::Get {
        queue: name("requests"),
        no_ack: false,
    };
    let effects = world.execute(Command::Request {
        channel: key(1, 2),
        request: get,
    });
    let reply_to = effects.iter().find_map(|effect| match effect {
        Effect::Channel {
            output: Output::GetOk { message, .. },
            ..
        } => {
            let properties = Properties::parse(message.properties()).unwrap();
            assert_eq!(properties.correlation_id, Some(&b"17"[..]));
            assert_eq!(properties.delivery_mode, Some(2));
            assert!(properties.header_fields().any(|(name, _)| name == b"kept"));
            Some(String::from_utf8(properties.reply_to.unwrap().to_vec()).unwrap())
        }
        _ => None,
    });
    let seen = world.request(
        key(1, 2),
        Request::Recover {
            requeue: true,
            reply: false,
        },
    );
    assert_eq!(seen, []);
    reply_to.unwrap()
}

/// Deliveries: channel, consumer tag, delivery tag, body.
fn replies(effects: &[Effect]) -> Vec<(ChannelKey, Name, u64, String)> {
    let replies = effects.iter().filter_map(|effect| match effect {
        Effect::Channel {
            to,
            after: 0,
            output:
                Output::Deliver {
                    consumer_tag,
                    delivery_tag,
                    redelivered: false,
                    message,
                    properties: None,
                },
        } => Some((*to, consumer_tag.clone(), delivery_tag.0, body_of(message))),
        _ => None,
    });
    replies.collect()
}

fn answer(world: &mut World, reply_to: &str, body: &str) -> Vec<Effect> {
    let mut publish = publish(reply_to, &Properties::default(), body);
    publish.mandatory = true;
    world.execute(Command::Request {
        channel: key(1, 2),
        request: Request::Publish(publish),
    })
}

#[test]
fn a_reply_goes_straight_to_who_asked() {
    let (mut world, reply_to) = requester();
    assert!(reply_to.starts_with("amq.rabbitmq.reply-to."));
    for (tag, body) in [(2, "one"), (3, "two")] {
        let effects = answer(&mut world, &reply_to, body);
        let expected = (key(1, 1), name("r"), tag, body.to_owned());
        assert_eq!(replies(&effects), [expected]);
    }
    assert_eq!(
        world.shard.queues().len(),
        1,
        "and there is no queue for it"
    );
    let records = world.log.records.len();
    answer(&mut world, &reply_to, "three");
    assert_eq!(world.log.records.len(), records, "and nothing is written");
}

#[test]
fn two_channels_have_names_of_their_own_and_a_channel_one_each_time() {
    let (mut world, first) = requester();
    world.request(
        key(1, 1),
        Request::Cancel {
            consumer_tag: name("r"),
            nowait: true,
        },
    );
    consume_replies(&mut world, key(1, 1), "r");
    let second = ask(&mut world);
    assert_ne!(first, second);
    assert_eq!(
        crate::support::seen(&answer(&mut world, &first, "late")),
        [Seen::Returned("late".to_owned())]
    );
    assert_eq!(replies(&answer(&mut world, &second, "in time")).len(), 1);
}

#[test]
fn nobody_waits_any_more_once_the_channel_or_connection_is_closed() {
    for close in [
        Command::ChannelClosed(key(1, 1)),
        Command::ConnectionClosed {
            connection: ConnectionId(1),
        },
    ] {
        let (mut world, reply_to) = requester();
        world.connect(2);
        world.open(key(2, 1));
        world.execute(close);
        let mut publish = publish(&reply_to, &Properties::default(), "late");
        publish.mandatory = true;
        let seen = world.request(key(2, 1), Request::Publish(publish));
        assert_eq!(seen, [Seen::Returned("late".to_owned())]);
        assert_eq!(
            declare(&mut world, key(2, 1), &reply_to),
            not_found(&reply_to)
        );
    }
}

fn declare(world: &mut World, channel: ChannelKey, queue: &str) -> Vec<Seen> {
    let declare = QueueDeclare {
        queue: name(queue),
        passive: false,
        durable: true,
        exclusive: false,
        auto_delete: false,
        nowait: false,
        arguments: Table::empty(),
        entropy: 0,
    };
    world.request(channel, Request::QueueDeclare(declare))
}

fn not_found(queue: &str) -> Vec<Seen> {
    let object = menzil_core::Object::Queue(name(queue));
    vec![Seen::Refused(Refusal::NotFound(object))]
}

#[test]
fn a_declare_tells_whether_somebody_waits_and_makes_nothing() {
    let (mut world, reply_to) = requester();
    for queue in [PSEUDO, &reply_to] {
        let reply = Reply::QueueDeclareOk {
            queue: name(queue),
            message_count: 0,
            consumer_count: 1,
        };
        assert_eq!(declare(&mut world, key(1, 2), queue), [Seen::Reply(reply)]);
    }
    let other = format!("{reply_to}x");
    assert_eq!(declare(&mut world, key(1, 2), &other), not_found(&other));
    assert_eq!(world.shard.queues().len(), 1);
}

#[test]
fn it_is_no_queue_to_bind_or_get_from() {
    let (mut world, reply_to) = requester();
    let bind = QueueBind {
        queue: name(&reply_to),
        exchange: name("amq.direct"),
        routing_key: name("k"),
        nowait: false,
        arguments: Table::empty(),
    };
    for request in [Request::QueueBind(bind.clone()), Request::QueueUnbind(bind)] {
        let seen = world.request(key(1, 2), request);
        assert_eq!(seen, [Seen::Refused(Refusal::ReplyQueueBinding)]);
        world.open(key(1, 2));
    }
    let seen = world.consume(key(1, 2), &reply_to, "t");
    let refusal = Refusal::ReplyQueueConsumer(name(&reply_to));
    assert_eq!(seen, [Seen::Refused(refusal)]);
    let refusal = Refusal::ReplyQueueGet(name(&reply_to));
    assert_eq!(world.get(&reply_to), [Seen::Refused(refusal)]);
}

#[test]
fn what_cannot_be_is_refused_and_leaves_nothing() {
    let mut world = World::new();
    let properties = Properties {
        reply_to: Some(PSEUDO.as_bytes()),
        ..Properties::default()
    };
    let request = Request::Publish(publish("q", &properties, ""));
    let seen = world.request(key(1, 1), request);
    assert_eq!(seen, [Seen::Refused(Refusal::NoReplyConsumer)]);
    world.open(key(1, 1));
    let seen = world.consume(key(1, 1), PSEUDO, "t");
    assert_eq!(seen, [Seen::Refused(Refusal::ReplyConsumerAcknowledges)]);
    world.open(key(1, 1));
    consume_replies(&mut world, key(1, 1), "t");
    let seen = consume_replies(&mut world, key(1, 1), "u");
    assert_eq!(seen, [Seen::Refused(Refusal::ReplyConsumerExists)]);
}

#[test]
fn replies_that_nobody_reads_have_an_end() {
    let (mut world, reply_to) = requester();
    let body = "x".repeat(500);
    let mut sent = 0;
    while !replies(&answer(&mut world, &reply_to, &body)).is_empty() {
        sent += 1;
        assert!(sent < 10);
    }
    assert!((2..5).contains(&sent), "{sent} replies");
    world.execute(Command::Drained {
        connection: ConnectionId(1),
        bytes: 10_000,
    });
    assert_eq!(replies(&answer(&mut world, &reply_to, &body)).len(), 1);
}

#[test]
fn a_transaction_replies_at_commit() {
    let (mut world, reply_to) = requester();
    world.request(key(1, 2), Request::TxSelect);
    assert_eq!(replies(&answer(&mut world, &reply_to, "1")), []);
    world.request(key(1, 2), Request::TxRollback);
    answer(&mut world, &reply_to, "2");
    let effects = world.execute(Command::Request {
        channel: key(1, 2),
        request: Request::TxCommit,
    });
    let bodies: Vec<String> = replies(&effects).into_iter().map(|one| one.3).collect();
    assert_eq!(bodies, ["2"]);
}

#[test]
fn a_carbon_copy_may_be_a_reply_and_a_confirm_follows() {
    let (mut world, reply_to) = requester();
    world.request(key(1, 2), Request::ConfirmSelect { nowait: true });
    let mut item = Vec::new();
    write_value(&mut item, Value::LongString(reply_to.as_bytes()));
    let mut array = vec![b'A'];
    array.put_long_string(&item);
    let copies = read_value(&mut Reader::new(&array)).unwrap();
    let headers = TableBuilder::new().field("CC", copies);
    let headers = headers.build();
    let properties = Properties {
        headers: Some(headers.as_bytes()),
        ..Properties::default()
    };
    let request = Request::Publish(publish("requests", &properties, "both"));
    let effects = world.execute(Command::Request {
        channel: key(1, 2),
        request,
    });
    assert_eq!(replies(&effects).len(), 1);
    assert!(crate::support::seen(&effects).contains(&Seen::Acked(1)));
    assert_eq!(world.drain("requests"), ["both"]);
}
