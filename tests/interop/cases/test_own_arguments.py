"""Menzil's own arguments: what begins like one of them and is none is refused by name.

RabbitMQ passes over arguments that it does not know; a slip of the pen here would cost the feature
without a word. What is refused leaves nothing behind.
"""

import pytest

from rawamqp import ChannelClosed

QUEUES = "queues have "
DEDUPLICATION = QUEUES + ("x-deduplication, x-deduplication-header, x-deduplication-size and "
                          "x-deduplication-age")
RETAIN = "exchanges have x-retain-messages, x-retain-bytes and x-retain-age"
DELAYED = QUEUES + "x-delayed-retry-type, -min and -max, exchanges have x-delayed and x-delayed-type"


@pytest.fixture(autouse=True)
def menzil_only(broker):
    if not broker.menzil:
        pytest.skip("Differs: RabbitMQ does not have these arguments")


def refused(conn, method, text, **fields):
    channel = conn.channel()
    with pytest.raises(ChannelClosed) as closed:
        conn.call(channel, method, **fields)
    assert (closed.value.reply_code, closed.value.reply_text) == (406, f"PRECONDITION_FAILED - {text}"[:255])


def is_absent(conn, method, **fields):
    channel = conn.channel()
    with pytest.raises(ChannelClosed) as closed:
        conn.call(channel, method, passive=True, **fields)
    assert closed.value.reply_code == 404


@pytest.mark.parametrize("argument, known", [
    ("x-deduplication-heder", DEDUPLICATION), ("x-deduplication-window", DEDUPLICATION),
    ("x-group-key", QUEUES + "x-group-header"), ("x-groups", QUEUES + "x-group-header"),
    ("x-retain-messages", RETAIN), ("x-replay-from", "bindings have x-replay-from"),
    ("x-delayed-retry-mim", DELAYED), ("x-delayed", DELAYED),
])
def test_of_a_queue(conn, name, argument, known, bystander):
    queue = name()
    where = f"queue '{queue}' in vhost '/'"
    refused(conn, "queue.declare", f"unknown argument '{argument}' for {where}: {known}", queue=queue, durable=True,
            arguments={"x-deduplication": True, argument: 5})
    is_absent(conn, "queue.declare", queue=queue)


@pytest.mark.parametrize("argument, known", [
    ("x-retain-message", RETAIN), ("x-retention-age", None), ("x-delayed-typ", DELAYED),
    ("x-group-header", QUEUES + "x-group-header"),
])
def test_of_an_exchange(conn, name, argument, known, bystander):
    exchange = name("x")
    fields = {"exchange": exchange, "type": "topic", "arguments": {argument: "5"}}
    if known is None:
        # It does not begin like one of them: passed over, as in RabbitMQ.
        channel = conn.channel()
        conn.call(channel, "exchange.declare", **fields)
        conn.call(channel, "exchange.delete", exchange=exchange)
        return
    where = f"exchange '{exchange}' in vhost '/'"
    refused(conn, "exchange.declare", f"unknown argument '{argument}' for {where}: {known}", **fields)
    is_absent(conn, "exchange.declare", exchange=exchange)


def test_of_a_binding_and_a_consumer(conn, name, bystander):
    queue = name()
    channel = conn.channel()
    conn.call(channel, "queue.declare", queue=queue)
    known = "bindings have x-replay-from"
    refused(conn, "queue.bind", f"unknown argument 'x-replay-form' for exchange 'amq.topic' in vhost '/': {known}",
            queue=queue, exchange="amq.topic", routing_key="#", arguments={"x-replay-form": "first"})
    refused(conn, "basic.consume", f"unknown argument 'x-replay-from' for queue '{queue}' in vhost '/': {known}",
            queue=queue, arguments={"x-replay-from": "first"})
    channel = conn.channel()
    # Names of headers, which a message may have.
    conn.call(channel, "queue.bind", queue=queue, exchange="amq.headers",
              arguments={"x-match": "any-with-x", "x-group": "a"})
    conn.call(channel, "queue.delete", queue=queue)


def test_how_to_deduplicate_is_nothing_alone(conn, name, bystander):
    queue = name()
    refused(conn, "queue.declare", f"invalid arg 'x-deduplication-age' for queue '{queue}' in vhost '/': it does "
            "nothing without x-deduplication=true: add that", queue=queue, durable=True,
            arguments={"x-deduplication-age": 60000})
    is_absent(conn, "queue.declare", queue=queue)
