"""A16: x-max-priority. The highest first, first in first out within one, and back to the front of it."""

import time

import pytest

from conftest import declare, get_all, ready_count, settled_publish


@pytest.fixture
def channel(conn):
    channel = conn.channel()
    conn.call(channel, "confirm.select")
    return channel


def put_all(conn, channel, queue, *messages):
    for priority, body in messages:
        props = {"delivery_mode": 2} | ({} if priority is None else {"priority": priority})
        assert settled_publish(conn, channel, "", queue, body, props).name == "basic.ack"


def test_a16_order_and_redelivered(conn, channel, name):
    queue = name()
    declare(conn, channel, queue, arguments={"x-max-priority": 5})
    put_all(conn, channel, queue, (1, b"1"), (2, b"2"), (3, b"3"), (5, b"5"), (9, b"9"), (None, b"none"))
    conn.call(channel, "basic.qos", prefetch_count=1)
    conn.call(channel, "basic.consume", queue=queue)
    seen = []
    for place in range(7):
        event = conn.expect(channel, "basic.deliver")
        seen.append((event.body, event.redelivered))
        if place == 1:
            conn.send(channel, "basic.nack", delivery_tag=event.delivery_tag, requeue=True)
        else:
            conn.send(channel, "basic.ack", delivery_tag=event.delivery_tag)
    assert seen == [(b"5", False), (b"9", False), (b"9", True), (b"3", False), (b"2", False), (b"1", False),
                    (b"none", False)]


def test_a16_what_comes_back_goes_before_others_of_its_priority_only(conn, channel, name):
    queue = name()
    declare(conn, channel, queue, arguments={"x-max-priority": 9})
    put_all(conn, channel, queue, (4, b"first"))
    event = conn.call(channel, "basic.get", queue=queue)
    put_all(conn, channel, queue, (4, b"second"), (8, b"higher"))
    conn.send(channel, "basic.nack", delivery_tag=event.delivery_tag, requeue=True)
    assert get_all(conn, channel, queue) == [b"higher", b"first", b"second"]


def test_a16_a_length_limit_drops_the_highest_first(conn, channel, name):
    queue = name()
    declare(conn, channel, queue, arguments={"x-max-priority": 9, "x-max-length": 2})
    put_all(conn, channel, queue, (5, b"5"), (1, b"1"), (0, b"0"))
    assert get_all(conn, channel, queue) == [b"1", b"0"]


def test_a16_an_expired_message_leaves_from_any_priority(conn, channel, name, broker, until):
    queue = name()
    declare(conn, channel, queue, arguments={"x-max-priority": 9})
    conn.publish(channel, "", queue, b"short", {"priority": 1, "expiration": "50"})
    put_all(conn, channel, queue, (1, b"stays"), (7, b"high"))
    # Differs: in RabbitMQ it leaves when all before it have gone.
    if broker.menzil:
        until(lambda: ready_count(conn, channel, queue) == 2, "the short one to leave")
    else:
        time.sleep(0.2)
    assert get_all(conn, channel, queue) == [b"high", b"stays"]


def test_a16_quorum_queues_take_it_too(conn, channel, name, broker):
    # Differs: RabbitMQ refuses x-max-priority on a quorum queue with a 406.
    if not broker.menzil:
        pytest.skip("RabbitMQ refuses it on quorum queues")
    queue = name()
    declare(conn, channel, queue, arguments={"x-max-priority": 255, "x-queue-type": "quorum"})
    put_all(conn, channel, queue, (0, b"0"), (255, b"255"), (254, b"254"))
    assert get_all(conn, channel, queue) == [b"255", b"254", b"0"]


def test_a16_the_order_is_the_same_after_a_crash(connect, conn, channel, name, restart, broker):
    queue = name()
    declare(conn, channel, queue, arguments={"x-max-priority": 5})
    put_all(conn, channel, queue, *((number % 6, b"%d" % number) for number in range(60)))
    taken = [conn.call(channel, "basic.get", queue=queue).body for _ in range(3)]
    assert taken == [b"5", b"11", b"17"]
    restart()
    conn = connect()
    channel = conn.channel()
    seen = [conn.call(channel, "basic.get", queue=queue) for _ in range(60)]
    assert [event.body for event in seen] == sorted((b"%d" % number for number in range(60)),
                                                    key=lambda body: (-(int(body) % 6), int(body)))
    if broker.menzil:
        assert all(event.redelivered for event in seen if event.body in taken)
        lower = [event for event in seen if int(event.body) % 6 < 5]
        assert not any(event.redelivered for event in lower), "nothing of a lower priority went out"
    conn.call(channel, "queue.delete", queue=queue)
