//! What each method asks of the shard.
#![cfg(test)]

mod peer;

use menzil_amqp::methods::*;
use menzil_amqp::{Action, SessionConfig, Sink};
use menzil_core::{ChannelKey, Command, Publish, PublishRef, Request};
use menzil_model::{TableBuilder, Value};
use peer::*;

/// The one request that the method leads to, as text.
fn request(asked: Method<'_>) -> String {
    let mut broker = Broker::open();
    assert_eq!(broker.receive(&method(1, &asked)), []);
    let [Command::Request { channel, request }] = broker.commands.as_slice() else {
        panic!("{asked:?}: {:?}", broker.commands);
    };
    assert_eq!(*channel, key(1));
    format!("{request:?}")
}

#[test]
fn methods_become_requests() {
    let table = TableBuilder::new().field("a", Value::Bool(true)).build();
    let arguments = table.as_bytes();
    let ticket = 0;
    let rows = [
        (
            Method::ExchangeDeclare(ExchangeDeclare {
                ticket,
                exchange: b"x\r\n1",
                kind: b"topic",
                passive: false,
                durable: true,
                auto_delete: false,
                internal: true,
                nowait: false,
                arguments,
            }),
            "ExchangeDeclare(ExchangeDeclare { exchange: \"x1\", kind: \"topic\", passive: false, \
             durable: true, auto_delete: false, internal: true, nowait: false, arguments: {\"a\": \
             Bool(true)} })",
        ),
        (
            Method::ExchangeDelete(ExchangeDelete {
                ticket,
                exchange: b"x\n",
                if_unused: true,
                nowait: false,
            }),
            "ExchangeDelete { exchange: \"x\", if_unused: true, nowait: false }",
        ),
        (
            Method::ExchangeBind(ExchangeBind {
                ticket,
                destination: b"d\n",
                source: b"\rs",
                routing_key: b"k\n",
                nowait: true,
                arguments,
            }),
            "ExchangeBind(ExchangeBind { destination: \"d\", source: \"s\", routing_key: \
             \"k\\n\", nowait: true, arguments: {\"a\": Bool(true)} })",
        ),
        (
            Method::ExchangeUnbind(ExchangeUnbind {
                ticket,
                destination: b"d",
                source: b"s",
                routing_key: b"k",
                nowait: false,
                arguments: b"",
            }),
            "ExchangeUnbind(ExchangeBind { destination: \"d\", source: \"s\", routing_key: \"k\", \
             nowait: false, arguments: {} })",
        ),
        (
            Method::QueueDeclare(QueueDeclare {
                ticket,
                queue: b"q\r\n",
                passive: true,
                durable: false,
                exclusive: true,
                auto_delete: true,
                nowait: false,
                arguments: b"",
            }),
            "QueueDeclare(QueueDeclare { queue: \"q\", passive: true, durable: false, exclusive: \
             true, auto_delete: true, nowait: false, arguments: {}, entropy: 1 })",
        ),
        (
            Method::QueueBind(QueueBind {
                ticket,
                queue: b"q",
                exchange: b"x",
                routing_key: b"",
                nowait: true,
                arguments: b"",
            }),
            "QueueBind(QueueBind { queue: \"q\", exchange: \"x\", routing_key: \"\", nowait: true, \
             arguments: {} })",
        ),
        (
            Method::QueueUnbind(QueueUnbind {
                ticket,
                queue: b"",
                exchange: b"x",
                routing_key: b"k",
                arguments: b"",
            }),
            "QueueUnbind(QueueBind { queue: \"\", exchange: \"x\", routing_key: \"k\", nowait: \
             false, arguments: {} })",
        ),
        (
            Method::QueuePurge(QueuePurge {
                ticket,
                queue: b"q",
                nowait: true,
            }),
            "QueuePurge { queue: \"q\", nowait: true }",
        ),
        (
            Method::QueueDelete(QueueDelete {
                ticket,
                queue: b"q",
                if_unused: false,
                if_empty: true,
                nowait: false,
            }),
            "QueueDelete { queue: \"q\", if_unused: false, if_empty: true, nowait: false }",
        ),
        (
            Method::BasicQos(BasicQos {
                prefetch_size: 1,
                prefetch_count: 2,
                global: true,
            }),
            "Qos { prefetch_size: 1, prefetch_count: 2, global: true }",
        ),
        (
            Method::BasicConsume(BasicConsume {
                ticket,
                queue: b"q",
                consumer_tag: b"t",
                no_local: true,
                no_ack: false,
                exclusive: true,
                nowait: false,
                arguments,
            }),
            "Consume(Consume { queue: \"q\", consumer_tag: \"t\", no_local: true, no_ack: false, \
             exclusive: true, nowait: false, arguments: {\"a\": Bool(true)}, entropy: 1, reply_entropy: 0 })",
        ),
        (
            Method::BasicCancel(BasicCancel {
                consumer_tag: b"t",
                nowait: false,
            }),
            "Cancel { consumer_tag: \"t\", nowait: false }",
        ),
        (
            Method::BasicGet(BasicGet {
                ticket,
                queue: b"q",
                no_ack: true,
            }),
            "Get { queue: \"q\", no_ack: true }",
        ),
        (
            Method::BasicAck(BasicAck {
                delivery_tag: 5,
                multiple: true,
            }),
            "Ack { delivery_tag: DeliveryTag(5), multiple: true }",
        ),
        (
            Method::BasicReject(BasicReject {
                delivery_tag: 6,
                requeue: true,
            }),
            "Reject { delivery_tag: DeliveryTag(6), multiple: false, requeue: true, method: Reject \
             }",
        ),
        (
            Method::BasicNack(BasicNack {
                delivery_tag: 0,
                multiple: true,
                requeue: false,
            }),
            "Reject { delivery_tag: DeliveryTag(0), multiple: true, requeue: false, method: Nack }",
        ),
        (
            Method::BasicRecover(BasicRecover { requeue: true }),
            "Recover { requeue: true, reply: true }",
        ),
        (
            Method::BasicRecoverAsync(BasicRecoverAsync { requeue: false }),
            "Recover { requeue: false, reply: false }",
        ),
        (
            Method::ConfirmSelect(ConfirmSelect { nowait: true }),
            "ConfirmSelect { nowait: true }",
        ),
        (Method::TxSelect(TxSelect {}), "TxSelect"),
        (Method::TxCommit(TxCommit {}), "TxCommit"),
        (Method::TxRollback(TxRollback {}), "TxRollback"),
    ];
    for (asked, expected) in rows {
        assert_eq!(request(asked), expected);
    }
}

/// The publishes among the commands, by channel.
fn published(broker: &Broker) -> Vec<(u16, &Publish)> {
    let publish = |command| {
        let &Command::Request {
            channel,
            request: Request::Publish(ref publish),
        } = command
        else {
            return None;
        };
        Some((channel.channel.number(), publish))
    };
    broker.commands.iter().filter_map(publish).collect()
}

#[test]
fn channels_publish_side_by_side() {
    let mut broker = Broker::open();
    broker.receive(&channel_open(2));
    let parts = [
        publish_method(1, false),
        publish_method(2, false),
        header(2, 4),
        header(1, 3),
        body(2, b"wx"),
        body(1, b"abc"),
        body(2, b""),
        body(2, b"yz"),
    ];
    assert_eq!(broker.receive(&parts.concat()), []);
    let contents: Vec<(u16, Vec<u8>)> = published(&broker)
        .into_iter()
        .map(|(channel, publish)| (channel, publish.body.concat()))
        .collect();
    assert_eq!(contents, [(1, b"abc".to_vec()), (2, b"wxyz".to_vec())]);
    assert_eq!(broker.session.inbound.assembling_bytes(), 0);
}

#[test]
fn a_body_over_the_chunk_size_comes_in_parts_of_it() {
    let config = SessionConfig {
        chunk_bytes: 1000,
        ..SessionConfig::default()
    };
    for (size, parts) in [
        (0, vec![]),
        (1, vec![1]),
        (1000, vec![1000]),
        (1001, vec![1000, 1]),
        (2500, vec![1000, 1000, 500]),
    ] {
        let mut broker = Broker::running(config.clone());
        broker.receive(&channel_open(1));
        broker.receive(&publish(1, &vec![3; size], 333));
        let seen = published(&broker);
        let [(1, publish)] = seen.as_slice() else {
            panic!("{seen:?}");
        };
        let sizes: Vec<usize> = publish.body.iter().map(bytes::Bytes::len).collect();
        assert_eq!(sizes, parts);
    }
}

#[test]
fn a_publisher_that_varies_is_told_apart() {
    let mut broker = Broker::open();
    for (exchange, key, properties) in [
        (&b"x"[..], &b"k"[..], &b"\0\0"[..]),
        (b"x", b"k", b"\x10\0\x02"),
        (b"y", b"k", b"\x10\0\x02"),
        (b"y", b"", b"\0\0"),
    ] {
        let publish = BasicPublish {
            ticket: 0,
            exchange,
            routing_key: key,
            mandatory: key.is_empty(),
            immediate: false,
        };
        let mut bytes = method(1, &Method::BasicPublish(publish));
        bytes.extend(raw(2, 1, &header_payload(60, 0, 0, properties)));
        broker.commands.clear();
        broker.receive(&bytes);
        let seen = published(&broker);
        let (_, publish) = seen.first().unwrap();
        assert_eq!(publish.exchange.as_bytes(), exchange);
        assert_eq!(publish.routing_key.as_bytes(), key);
        assert_eq!(publish.properties, properties);
        assert_eq!(publish.mandatory, key.is_empty());
    }
}

/// Notes where publishes go, and where it was told that some will.
#[derive(Default)]
struct Seer {
    sees: bool,
    published: Vec<Vec<u8>>,
    foreseen: Vec<Vec<u8>>,
}

impl Sink for Seer {
    fn action(&mut self, action: Action) {
        panic!("no more than publishes was sent: {action:?}");
    }

    fn publish(&mut self, _channel: ChannelKey, publish: &PublishRef<'_>) {
        self.published
            .push([publish.exchange, b"/", publish.routing_key].concat());
    }

    fn has_foresight(&self) -> bool {
        self.sees
    }

    fn foresee(&mut self, keys: &[(&[u8], &[u8])]) {
        self.foreseen.resize(self.published.len(), Vec::new());
        let keys = keys
            .iter()
            .map(|(exchange, key)| [exchange, &b"/"[..], key].concat());
        self.foreseen.extend(keys);
    }
}

#[test]
fn the_sink_is_told_of_publishes_that_lie_ahead() {
    let mut input = Vec::new();
    for number in 0..100 {
        let routing_key = format!("key {number}");
        let publish = BasicPublish {
            ticket: 0,
            exchange: if number % 3 == 0 { b"x" } else { b"" },
            routing_key: routing_key.as_bytes(),
            mandatory: false,
            immediate: false,
        };
        input.extend(method(1, &Method::BasicPublish(publish)));
        let content = vec![7; number % 4];
        input.extend(header(1, content.len() as u64));
        if !content.is_empty() {
            input.extend(body(1, &content));
        }
    }
    for sees in [false, true] {
        let mut broker = Broker::open();
        let mut seer = Seer {
            sees,
            ..Seer::default()
        };
        let inbound = &mut broker.session.inbound;
        inbound.receive(0, &input, &mut || 0, &mut seer);
        assert_eq!(seer.published.len(), 100);
        let told = seer.foreseen.iter().filter(|key| !key.is_empty()).count();
        assert_eq!(told > 60, sees, "{told}");
        for (foreseen, published) in seer.foreseen.iter().zip(&seer.published) {
            assert!(foreseen.is_empty() || foreseen == published);
        }
    }
}
