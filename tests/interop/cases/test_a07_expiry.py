"""A07: a message without a limit at the head must not stop the expiry of those behind it for good."""

from conftest import arrival, dead_letters_to, deaths, declare, get_all, put, ready_count

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


def test_a07_what_expires_is_dead_lettered(conn, broker, name, until):
    channel, queue, dead = conn.channel(), name(), name("dead")
    declare(conn, channel, dead, arguments={"x-expires": 120000})
    declare(conn, channel, queue, arguments=dead_letters_to(dead, **{"x-expires": 120000}))
    conn.publish(channel, "", queue, b"m1")
    conn.publish(channel, "", queue, b"m2", {"expiration": "500", "message_id": "id"})
    if not broker.menzil:
        # Differs: RabbitMQ expires at the head only, so m2 leaves when m1 has.
        assert conn.call(channel, "basic.get", queue=queue, no_ack=True).body == b"m1"
    letter = arrival(conn, channel, dead, until)
    assert (letter.body, letter.props["message_id"]) == (b"m2", "id")
    assert "expiration" not in letter.props, "or it would expire again"
    assert deaths(letter) == [(queue, "expired", 1)]
    assert letter.props["headers"]["x-death"][0]["original-expiration"] == "500"
    if broker.menzil:
        assert conn.call(channel, "basic.get", queue=queue, no_ack=True).body == b"m1"
    assert ready_count(conn, channel, queue) == ready_count(conn, channel, dead) == 0


def test_a07_what_expires_behind_a_held_head_is_dead_lettered_in_order(conn, name, until):
    channel, queue, dead = conn.channel(), name(), name("dead")
    declare(conn, channel, dead, arguments={"x-expires": 120000})
    declare(conn, channel, queue, arguments=dead_letters_to(dead, **{"x-message-ttl": 500, "x-expires": 120000}))
    conn.publish(channel, "", queue, b"m0")
    held = conn.call(channel, "basic.get", queue=queue)
    for number in range(1, 6):
        conn.publish(channel, "", queue, f"m{number}".encode())
    assert held.body == b"m0"
    until(lambda: ready_count(conn, channel, dead) == 5, "all five expire while m0 is held")
    assert get_all(conn, channel, dead) == [b"m1", b"m2", b"m3", b"m4", b"m5"]
    conn.send(channel, "basic.nack", delivery_tag=held.delivery_tag, requeue=True)
    assert arrival(conn, channel, dead, until).body == b"m0", "what is given back too late expires at once"
