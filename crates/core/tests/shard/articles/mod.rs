//! The examples and claims of two articles on routing, section by section: ApsaraMQ's page on
//! exchanges, and one on RabbitMQ's exchange types and routing.

mod apsaramq;
mod dead_letters;
mod routing;

use crate::support::{Seen, World, arguments, key, name};
use menzil_core::{ExchangeBind, QueueBind, Reply, Request};
use menzil_model::{Properties, Table, Value};

/// Queues by these names, each bound to the exchange with its binding keys.
fn world(exchange: &str, kind: &str, bindings: &[(&str, &[&str])]) -> World {
    let mut world = World::new();
    let declared = world.declare_exchange(exchange, kind, Table::empty());
    assert_eq!(declared, [Seen::Reply(Reply::ExchangeDeclareOk)]);
    for (queue, keys) in bindings {
        world.declare(queue);
        for key in *keys {
            world.bind(queue, exchange, key);
        }
    }
    world
}

fn bind_headers(world: &mut World, queue: &str, exchange: &str, fields: &[(&str, Value<'_>)]) {
    world.declare(queue);
    let bind = QueueBind {
        queue: name(queue),
        exchange: name(exchange),
        routing_key: name(""),
        nowait: false,
        arguments: arguments(fields),
    };
    let seen = world.request(key(1, 1), Request::QueueBind(bind));
    assert_eq!(seen, [Seen::Reply(Reply::QueueBindOk)]);
}

fn bind_exchange(world: &mut World, source: &str, destination: &str, routing_key: &str) {
    let bind = ExchangeBind {
        source: name(source),
        destination: name(destination),
        routing_key: name(routing_key),
        nowait: false,
        arguments: Table::empty(),
    };
    let seen = world.request(key(1, 1), Request::ExchangeBind(bind));
    assert_eq!(seen, [Seen::Reply(Reply::ExchangeBindOk)]);
}

/// Publishes and tells which of the queues got it, each copy once.
fn reached(world: &mut World, exchange: &str, routing_key: &str, queues: &[&str]) -> Vec<String> {
    reached_with(world, exchange, routing_key, &[], queues)
}

fn reached_with(
    world: &mut World,
    exchange: &str,
    routing_key: &str,
    headers: &[(&str, Value<'_>)],
    queues: &[&str],
) -> Vec<String> {
    let headers = arguments(headers);
    let properties = Properties {
        delivery_mode: Some(2),
        headers: Some(headers.as_bytes()),
        ..Properties::default()
    };
    let seen = world.publish_with(exchange, routing_key, "m", false, &properties);
    assert!(
        !seen.iter().any(|seen| matches!(seen, Seen::Refused(_))),
        "{seen:?}"
    );
    let got = queues.iter().flat_map(|queue| {
        let bodies = world.drain(queue);
        assert!(bodies.len() <= 1, "{} copies in {queue}", bodies.len());
        bodies.into_iter().map(|_| (*queue).to_owned())
    });
    got.collect()
}

fn text(text: &'static str) -> Value<'static> {
    Value::LongString(text.as_bytes())
}
