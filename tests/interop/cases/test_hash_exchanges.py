"""x-consistent-hash and x-modulus-hash: weights, what is hashed, what is refused; and A04."""

import pytest

from conftest import declare, get_all
from rawamqp import V

KEYS = [f"key.{number}" for number in range(100)]
BAD_WEIGHTS = {
    "abc": 'The binding key must be an integer: <<"abc">>',
    "": "The binding key must be an integer: <<>>",
    "1.5": 'The binding key must be an integer: <<"1.5">>',
    "0": "The binding key must be greater than 0",
    "-1": "The binding key must be greater than 0",
    "10001": "The binding key must not exceed 10000",
}


@pytest.fixture
def kind(conn):
    """Skips where the broker has not that exchange type: in RabbitMQ some are plugins."""
    def _kind(which):
        from rawamqp import ChannelClosed
        channel = conn.channel()
        try:
            conn.call(channel, "exchange.declare", exchange="probe-of-kinds", type=which)
        except ChannelClosed:
            pytest.skip(f"no exchanges of type {which}")
        conn.call(channel, "exchange.delete", exchange="probe-of-kinds")
        return which
    return _kind


def hashing(conn, channel, name, kind, weights, arguments=None):
    """An exchange of that kind and a queue for each of the weights."""
    exchange = name("x")
    conn.call(channel, "exchange.declare", exchange=exchange, type=kind, durable=True, arguments=arguments or {})
    queues = []
    for number, weight in enumerate(weights):
        queues.append(name(f"q{number}"))
        declare(conn, channel, queues[-1], arguments={"x-expires": 60000})
        conn.call(channel, "queue.bind", queue=queues[-1], exchange=exchange, routing_key=str(weight))
    return exchange, queues


def placed(conn, exchange, queues, messages):
    """Publishes (routing key, body, properties), each mandatory, and tells where each body is."""
    channel = conn.channel()
    conn.call(channel, "confirm.select")
    for routing_key, body, props in messages:
        conn.publish(channel, exchange, routing_key, body, props, mandatory=True)
    last = 0
    while last < len(messages):
        # A return would be an error: `expect` passes over what it does not wait for.
        event = conn.expect(channel, "basic.ack", "basic.return")
        assert event.name == "basic.ack", "a message was returned"
        last = max(last + 1, event.delivery_tag if event.multiple else 0)
    return {body: queue for queue in queues for body in get_all(conn, channel, queue)}


def by_key(conn, exchange, queues, keys=KEYS):
    return placed(conn, exchange, queues, [(key, key.encode(), None) for key in keys])


def test_weights_give_shares_and_a_key_stays_where_it_is(conn, name, kind):
    channel = conn.channel()
    exchange, queues = hashing(conn, channel, name, kind("x-consistent-hash"), [1, 4])
    keys = [f"key.{number}" for number in range(1000)]
    first = by_key(conn, exchange, queues, keys)
    assert len(first) == 1000
    heavier = sum(queue == queues[1] for queue in first.values())
    assert 700 < heavier < 900, heavier
    assert by_key(conn, exchange, queues, keys) == first
    conn.call(channel, "exchange.delete", exchange=exchange)


def test_a_header_or_a_property_is_hashed_in_place_of_the_routing_key(conn, name, kind):
    channel = conn.channel()
    consistent = kind("x-consistent-hash")
    for arguments, props in [
        ({"hash-header": "h"}, lambda value: {"headers": {"h": value}}),
        ({"hash-property": "message_id"}, lambda value: {"message_id": value}),
        ({"hash-property": "correlation_id"}, lambda value: {"correlation_id": value}),
        ({"hash-property": "timestamp"}, lambda value: {"timestamp": int(value)}),
    ]:
        exchange, queues = hashing(conn, channel, name, consistent, [1, 1, 1], arguments)
        values = [str(number) for number in range(60)]
        found = placed(conn, exchange, queues, [("k", value.encode(), props(value)) for value in values])
        assert set(found.values()) == set(queues)
        again = placed(conn, exchange, queues, [("other", value.encode(), props(value)) for value in values])
        assert again == found
        # Without it everything goes to one queue.
        absent = by_key(conn, exchange, queues)
        assert len(absent) == 100 and len(set(absent.values())) == 1
        conn.call(channel, "exchange.delete", exchange=exchange)


def test_arguments_that_cannot_be_are_refused(conn, name, kind, bystander):
    consistent = kind("x-consistent-hash")
    for arguments, text in [
        ({"hash-header": "h", "hash-property": "message_id"}, "hash-header and hash-property are mutually exclusive"),
        ({"hash-property": "app_id"}, "Unsupported property: app_id"),
    ]:
        channel, exchange = conn.channel(), name("x")
        conn.send(channel, "exchange.declare", exchange=exchange, type=consistent, arguments=arguments)
        conn.expect_close(channel, 406, ["PRECONDITION_FAILED", text])
        channel = conn.channel()
        conn.send(channel, "exchange.declare", exchange=exchange, passive=True)
        conn.expect_close(channel, 404, [exchange])


def test_weights_that_cannot_be_are_refused(conn, name, kind, broker, bystander):
    channel = conn.channel()
    exchange, queues = hashing(conn, channel, name, kind("x-consistent-hash"), [])
    queue = name("q")
    declare(conn, channel, queue)
    for weight, text in BAD_WEIGHTS.items():
        if weight == "10001" and broker.rabbitmq_before(4, 0):
            continue
        refused = conn.channel()
        conn.send(refused, "queue.bind", queue=queue, exchange=exchange, routing_key=weight)
        conn.expect_close(refused, 406, ["PRECONDITION_FAILED", text])
    channel = conn.channel()
    # No binding is left: the exchange is unused.
    conn.call(channel, "exchange.delete", exchange=exchange, if_unused=True)
    conn.call(channel, "queue.delete", queue=queue)


def test_a04_removing_one_of_two_bindings_leaves_the_queue_where_it_is(conn, name, kind):
    channel = conn.channel()
    exchange, (queue,) = hashing(conn, channel, name, kind("x-consistent-hash"), [1])
    conn.call(channel, "queue.bind", queue=queue, exchange=exchange, routing_key="10")
    assert len(by_key(conn, exchange, [queue])) == 100
    conn.call(channel, "queue.unbind", queue=queue, exchange=exchange, routing_key="1")
    assert len(by_key(conn, exchange, [queue])) == 100
    conn.call(channel, "queue.unbind", queue=queue, exchange=exchange, routing_key="10")
    conn.call(channel, "exchange.delete", exchange=exchange, if_unused=True)


def test_a04_two_bindings_that_differ_in_their_arguments(conn, name, kind):
    channel = conn.channel()
    exchange, (queue,) = hashing(conn, channel, name, kind("x-consistent-hash"), [1])
    other = {"other": V("I", 1)}
    conn.call(channel, "queue.bind", queue=queue, exchange=exchange, routing_key="1", arguments=other)
    conn.call(channel, "queue.unbind", queue=queue, exchange=exchange, routing_key="1")
    assert len(by_key(conn, exchange, [queue])) == 100
    conn.call(channel, "queue.unbind", queue=queue, exchange=exchange, routing_key="1", arguments=other)
    conn.call(channel, "exchange.delete", exchange=exchange, if_unused=True)


@pytest.mark.parametrize("which", ["x-consistent-hash", "x-modulus-hash"])
def test_a_crash_leaves_every_key_where_it_was(conn, connect, name, kind, broker, restart, which):
    if not broker.menzil and which == "x-consistent-hash":
        pytest.skip("RabbitMQ does not promise it")
    channel = conn.channel()
    exchange, queues = hashing(conn, channel, name, kind(which), [1, 2, 3])
    before = by_key(conn, exchange, queues)
    assert set(before.values()) == set(queues)
    restart()
    conn = connect()
    assert by_key(conn, exchange, queues) == before
    conn.call(conn.channel(), "exchange.delete", exchange=exchange)


def test_modulus_hash_takes_any_binding_key(conn, name, kind):
    channel = conn.channel()
    exchange, queues = hashing(conn, channel, name, kind("x-modulus-hash"), ["", "k", "5"])
    first = by_key(conn, exchange, queues)
    assert len(first) == 100 and set(first.values()) == set(queues)
    assert by_key(conn, exchange, queues) == first
    conn.call(channel, "exchange.delete", exchange=exchange)


def test_weights_above_x_max_weight_count_as_it(conn, name, kind, broker, bystander):
    if not broker.menzil:
        pytest.skip("an argument of Menzil's own")
    consistent = kind("x-consistent-hash")
    channel = conn.channel()
    exchange, queues = hashing(conn, channel, name, consistent, [20, 9000], {"x-max-weight": 20})
    keys = [f"key.{number}" for number in range(1000)]
    found = by_key(conn, exchange, queues, keys)
    assert 400 < sum(queue == queues[1] for queue in found.values()) < 600
    conn.send(channel, "exchange.declare", exchange=exchange, type=consistent, durable=True)
    conn.expect_close(channel, 406, ["inequivalent arg 'x-max-weight'"])
    channel = conn.channel()
    conn.send(channel, "exchange.declare", exchange=name("x"), type=consistent, arguments={"x-max-weight": 0})
    conn.expect_close(channel, 406, ["invalid arg 'x-max-weight'"])
    conn.call(conn.channel(), "exchange.delete", exchange=exchange)
