"""A16: higher priorities first, first in first out within one, and nothing is redelivered that was not delivered."""

import pytest

from conftest import declare, put


def publish(conn, queue, *priorities):
    """One message each, its priority as its body; None has no such property."""
    for priority in priorities:
        put(conn, queue, str(priority).encode(), props={} if priority is None else {"priority": priority})


@pytest.fixture
def queue(conn, name):
    channel, queue = conn.channel(), name()
    declare(conn, channel, queue, arguments={"x-max-priority": 5, "x-expires": 120000})
    return queue


def test_a16_order_and_the_redelivered_flag(conn, queue):
    publish(conn, queue, 1, 2, 3, 5, 9, None)
    channel = conn.channel()
    conn.call(channel, "basic.qos", prefetch_count=1)
    conn.call(channel, "basic.consume", queue=queue)
    seen = []
    for turn in range(7):
        event = conn.expect(channel, "basic.deliver")
        seen.append((event.body, event.redelivered))
        if turn == 1:
            conn.send(channel, "basic.nack", delivery_tag=event.delivery_tag, requeue=True)
        else:
            conn.send(channel, "basic.ack", delivery_tag=event.delivery_tag)
    first = [(b"5", False), (b"9", False), (b"9", True)]
    assert seen == first + [(b"3", False), (b"2", False), (b"1", False), (b"None", False)]
    conn.quiet(channel, 0.3)


def test_a16_first_in_first_out_within_a_priority(conn, queue):
    channel = conn.channel()
    for priority, body in ((0, b"a1"), (2, b"c1"), (1, b"b1"), (2, b"c2"), (0, b"a2"), (1, b"b2"), (255, b"d1"), (5, b"d2")):
        put(conn, queue, body, props={"priority": priority})
    bodies = [conn.call(channel, "basic.get", queue=queue, no_ack=True).body for _ in range(8)]
    assert bodies == [b"d1", b"d2", b"c1", b"c2", b"b1", b"b2", b"a1", b"a2"]


def test_a16_a_requeued_message_goes_to_the_front_of_its_priority_only(conn, queue):
    publish(conn, queue, 1, 1, 3)
    channel = conn.channel()
    three, one = (conn.call(channel, "basic.get", queue=queue) for _ in range(2))
    assert (three.body, one.body) == (b"3", b"1")
    put(conn, queue, b"later", props={"priority": 3})
    for event in (one, three):
        conn.send(channel, "basic.reject", delivery_tag=event.delivery_tag, requeue=True)
    conn.call(channel, "basic.qos")
    got = [conn.call(channel, "basic.get", queue=queue, no_ack=True) for _ in range(4)]
    assert [(event.body, event.redelivered) for event in got] == \
        [(b"3", True), (b"later", False), (b"1", True), (b"1", False)]


def test_a16_priorities_hold_after_a_kill(connect, name, restart):
    conn = connect()
    channel, queue = conn.channel(), name()
    declare(conn, channel, queue, arguments={"x-max-priority": 5})
    for priority in (1, 5, 3, 5):
        put(conn, queue, str(priority).encode(), props={"priority": priority, "delivery_mode": 2})
    restart()
    conn = connect()
    channel = conn.channel()
    put(conn, queue, b"4", props={"priority": 4, "delivery_mode": 2})
    assert [conn.call(channel, "basic.get", queue=queue, no_ack=True).body for _ in range(5)] == [b"5", b"5", b"4", b"3", b"1"]
    conn.call(channel, "queue.delete", queue=queue)
