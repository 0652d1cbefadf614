"""A07: a message without a limit at the head must not stop the expiry of those behind it for good."""

from conftest import declare, get_all, put, ready_count

import pytest


@pytest.fixture
def queue(conn, name):
    channel, queue = conn.channel(), name()
    declare(conn, channel, queue, arguments={"x-expires": 120000})
    conn.publish(channel, "", queue, b"m1")
    conn.publish(channel, "", queue, b"m2", {"expiration": "500"})
    return channel, queue


def test_a07_behind_a_head_without_limit(conn, queue, broker, until):
    channel, queue = queue
    if broker.menzil:
        # Differs: every message leaves on time. RabbitMQ expires at the head only, so m2 would stay.
        until(lambda: ready_count(conn, channel, queue) == 1, "m2 expires behind m1")
    assert conn.call(channel, "basic.get", queue=queue, no_ack=True).body == b"m1"
    until(lambda: ready_count(conn, channel, queue) == 0, "m2 expires at the head")
    assert get_all(conn, channel, queue) == []


def test_a07_with_the_head_unacknowledged_then_acknowledged(conn, queue, until):
    channel, queue = queue
    held = conn.call(channel, "basic.get", queue=queue)
    assert held.body == b"m1"
    until(lambda: ready_count(conn, channel, queue) == 0, "m2 expires while m1 is held")
    conn.send(channel, "basic.ack", delivery_tag=held.delivery_tag)
    assert get_all(conn, channel, queue) == []


def test_a07_after_a_purge(conn, queue, until):
    channel, queue = queue
    conn.call(channel, "queue.purge", queue=queue)
    put(conn, queue, b"m3", props={"expiration": "500"})
    put(conn, queue, b"m4")
    until(lambda: ready_count(conn, channel, queue) == 1, "m3 expires")
    assert get_all(conn, channel, queue) == [b"m4"]


def test_a07_the_lower_of_queue_and_message_limit_wins(conn, name, until):
    channel, queue = conn.channel(), name()
    declare(conn, channel, queue, arguments={"x-message-ttl": 500, "x-expires": 120000})
    conn.publish(channel, "", queue, b"m1", {"expiration": "600000"})
    until(lambda: ready_count(conn, channel, queue) == 0, "the queue's limit holds")
