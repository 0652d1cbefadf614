"""x-random and x-local-random: one queue by chance, the same message now here and now there."""

import pytest

from conftest import declare, get_all, put
from rawamqp import ChannelClosed

KINDS = ["x-random", "x-local-random"]


def declared(conn, channel, exchange, kind):
    try:
        conn.call(channel, "exchange.declare", exchange=exchange, type=kind)
    except ChannelClosed:
        pytest.skip(f"no exchanges of type {kind}")


def spread(conn, channel, exchange, queues):
    """How many of 300 equal messages each queue gets."""
    conn.call(channel, "confirm.select")
    for _ in range(300):
        conn.publish(channel, exchange, "same", b"same", mandatory=True)
    last = 0
    while last < 300:
        event = conn.expect(channel, "basic.ack", "basic.return")
        assert event.name == "basic.ack", "a message was returned"
        last = max(last + 1, event.delivery_tag if event.multiple else 0)
    return [len(get_all(conn, channel, queue)) for queue in queues]


@pytest.mark.parametrize("kind", KINDS)
def test_each_queue_gets_its_part_of_equal_messages(conn, name, kind):
    channel, exchange = conn.channel(), name("x")
    declared(conn, channel, exchange, kind)
    queues = [name(f"q{number}") for number in range(3)]
    for queue in queues:
        declare(conn, channel, queue)
        conn.call(channel, "queue.bind", queue=queue, exchange=exchange, routing_key="")
    counts = spread(conn, channel, exchange, queues)
    assert sum(counts) == 300
    assert min(counts) > 50, counts
    conn.call(channel, "exchange.delete", exchange=exchange)
    for queue in queues:
        conn.call(channel, "queue.delete", queue=queue)


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_queue_a_mandatory_message_comes_back(conn, name, kind):
    channel, exchange = conn.channel(), name("x")
    declared(conn, channel, exchange, kind)
    conn.publish(channel, exchange, "k", b"back", mandatory=True)
    back = conn.expect(channel, "basic.return")
    assert (back.reply_code, back.reply_text, back.body) == (312, "NO_ROUTE", b"back")
    conn.call(channel, "exchange.delete", exchange=exchange)


def test_local_random_takes_queues_and_no_binding_key(conn, name, bystander):
    channel, exchange, queue = conn.channel(), name("x"), name("q")
    declared(conn, channel, exchange, "x-local-random")
    declare(conn, channel, queue)
    conn.send(channel, "queue.bind", queue=queue, exchange=exchange, routing_key="k")
    conn.expect_close(channel, 406, ["PRECONDITION_FAILED", "Non empty binding 'k' key not permitted"])
    channel = conn.channel()
    conn.send(channel, "exchange.bind", destination="amq.fanout", source=exchange, routing_key="")
    conn.expect_close(channel, 406, ["PRECONDITION_FAILED", "Destination not found"])
    channel = conn.channel()
    conn.call(channel, "exchange.delete", exchange=exchange, if_unused=True)
    conn.call(channel, "queue.delete", queue=queue)


def test_local_random_and_the_type_of_a_queue(conn, name, broker):
    channel, exchange, queue = conn.channel(), name("x"), name("q")
    declared(conn, channel, exchange, "x-local-random")
    declare(conn, channel, queue, arguments={"x-queue-type": "quorum"})
    conn.send(channel, "queue.bind", queue=queue, exchange=exchange, routing_key="")
    if broker.menzil:
        # Differs: RabbitMQ takes classic queues only. Here a queue's type says nothing of where it is.
        conn.expect(channel, "queue.bind-ok")
        put(conn, queue)
    else:
        conn.expect_close(channel, 406, ["Queue type rabbit_quorum_queue not valid for this exchange type"])
    channel = conn.channel()
    conn.call(channel, "exchange.delete", exchange=exchange)
    conn.call(channel, "queue.delete", queue=queue)


def test_random_binds_exchanges_too(conn, name):
    channel, exchange, behind = conn.channel(), name("x"), name("y")
    declared(conn, channel, exchange, "x-random")
    conn.call(channel, "exchange.declare", exchange=behind, type="fanout")
    queues = [name("q0"), name("q1")]
    for queue in queues:
        declare(conn, channel, queue)
    conn.call(channel, "queue.bind", queue=queues[0], exchange=exchange, routing_key="any")
    conn.call(channel, "exchange.bind", destination=behind, source=exchange, routing_key="key")
    conn.call(channel, "queue.bind", queue=queues[1], exchange=behind, routing_key="")
    counts = spread(conn, channel, exchange, queues)
    assert sum(counts) == 300 and min(counts) > 90, counts
    for each in (exchange, behind):
        conn.call(channel, "exchange.delete", exchange=each)
    for queue in queues:
        conn.call(channel, "queue.delete", queue=queue)
