"""A message that the broker moves by itself, delivered from where it came to, through kill -9: it comes again
only as `redelivered`, since its delivery waits for the record of the move."""

import pytest

from conftest import dead_letters_to, declare, settled_publish

DURABLE = {"delivery_mode": 2}
ROUNDS = 5


@pytest.fixture(autouse=True)
def ours(broker):
    if not broker.menzil:
        pytest.skip("RabbitMQ moves in two steps, and does not wait for the disk")


def again(connect, queue, moved):
    """The message once more, after the crash: moved once more where the move was lost."""
    conn = connect()
    channel = conn.channel()
    moved(conn, channel)
    conn.call(channel, "basic.consume", queue=queue, consumer_tag="again", no_ack=True)
    event = conn.expect(channel, "basic.deliver")
    conn.call(channel, "queue.delete", queue=queue)
    return event


@pytest.mark.parametrize("strategy", ["at-most-once", "at-least-once"])
def test_a_dead_letter_that_was_delivered_comes_redelivered(connect, name, restart, strategy):
    for number in range(ROUNDS):
        conn, other = connect(), connect()
        channel, work, dead = conn.channel(), name(f"work{number}"), name(f"dead{number}")
        conn.call(channel, "confirm.select")
        declare(conn, channel, dead)
        declare(conn, channel, work, arguments=dead_letters_to(
            dead, **{"x-dead-letter-strategy": strategy, "x-overflow": "reject-publish"}))
        settled_publish(conn, channel, "", work, b"m", DURABLE)
        consumer = other.channel()
        other.call(consumer, "basic.consume", queue=dead, consumer_tag="first")
        got = conn.call(channel, "basic.get", queue=work)
        conn.send(channel, "basic.reject", delivery_tag=got.delivery_tag, requeue=False)
        assert not other.expect(consumer, "basic.deliver").redelivered
        restart()

        def rejected(conn, channel, work=work):
            left = conn.call(channel, "basic.get", queue=work)
            if left.name == "basic.get-ok":
                conn.send(channel, "basic.reject", delivery_tag=left.delivery_tag, requeue=False)
            conn.call(channel, "queue.declare", queue=work, passive=True)

        assert again(connect, dead, rejected).redelivered, f"round {number}"


@pytest.mark.parametrize("mode", [1, 2])
def test_a_delayed_message_that_was_delivered_comes_redelivered(connect, name, restart, mode):
    for number in range(ROUNDS):
        conn = connect()
        channel, later, queue = conn.channel(), name(f"later{number}"), name(f"queue{number}")
        conn.call(channel, "confirm.select")
        conn.call(channel, "exchange.declare", exchange=later, type="x-delayed-message", durable=True,
                  arguments={"x-delayed-type": "fanout"})
        declare(conn, channel, queue)
        conn.call(channel, "queue.bind", queue=queue, exchange=later, routing_key="")
        conn.call(channel, "basic.consume", queue=queue, consumer_tag="first")
        properties = {"delivery_mode": mode, "headers": {"x-delay": 100}}
        settled_publish(conn, channel, later, "", b"m", properties)
        assert not conn.expect(channel, "basic.deliver").redelivered
        restart()
        if mode == 1:
            # It was durable until it was due: now it is gone for good.
            conn = connect()
            channel = conn.channel()
            conn.call(channel, "basic.consume", queue=queue, consumer_tag="again", no_ack=True)
            conn.quiet(channel, 0.5)
            conn.call(channel, "queue.delete", queue=queue)
        else:
            assert again(connect, queue, lambda conn, channel: None).redelivered, f"round {number}"
        conn = connect()
        conn.call(conn.channel(), "exchange.delete", exchange=later)
