"""A24: prefetch. RabbitMQ before 4.3 and Menzil limit the whole channel with global=true.

Differs: RabbitMQ 4.3 treats global=true as false; the channel-wide cases are skipped there.
"""

import pytest

from conftest import declare, put


@pytest.fixture
def queue(conn, name):
    channel, queue = conn.channel(), name()
    declare(conn, channel, queue, arguments={"x-expires": 120000})
    put(conn, queue, *(str(number).encode() for number in range(10)))
    return queue


def deliveries(conn, channel, count):
    """That many deliveries, and no more."""
    events = [conn.expect(channel, "basic.deliver") for _ in range(count)]
    conn.quiet(channel, 0.5)
    return events


def one(conn, channel):
    return deliveries(conn, channel, 1)[0]


def test_a24_a_channel_wide_limit_counts_all_consumers_and_shrinks(conn, queue, broker):
    if not broker.menzil and not broker.rabbitmq_before(4, 3):
        pytest.skip("RabbitMQ 4.3 has no channel-wide limit")
    channel = conn.channel()
    conn.call(channel, "basic.qos", prefetch_count=3, **{"global": True})
    got = conn.call(channel, "basic.get", queue=queue)
    for tag in ("c1", "c2"):
        conn.call(channel, "basic.consume", queue=queue, consumer_tag=tag)
    held = deliveries(conn, channel, 3)
    assert [event.body for event in held] == [b"1", b"2", b"3"], "three in all; basic.get is not counted"

    conn.call(channel, "basic.qos", prefetch_count=1, **{"global": True})
    for event in held[:2]:
        conn.send(channel, "basic.ack", delivery_tag=event.delivery_tag)
        deliveries(conn, channel, 0)  # nothing more until under 1
    conn.send(channel, "basic.ack", delivery_tag=held[2].delivery_tag)
    for number in (b"4", b"5", b"6"):
        event = one(conn, channel)
        assert event.body == number, "then one at a time"
        conn.send(channel, "basic.ack", delivery_tag=event.delivery_tag)
    assert one(conn, channel).body == b"7"
    conn.send(channel, "basic.ack", delivery_tag=got.delivery_tag)
    deliveries(conn, channel, 0)  # settling what was got frees nothing


def test_a24_a_raised_channel_limit_lets_more_through(conn, queue, broker):
    if not broker.menzil and not broker.rabbitmq_before(4, 3):
        pytest.skip("RabbitMQ 4.3 has no channel-wide limit")
    channel = conn.channel()
    conn.call(channel, "basic.qos", prefetch_count=1, **{"global": True})
    conn.call(channel, "basic.consume", queue=queue)
    assert one(conn, channel).body == b"0"
    conn.call(channel, "basic.qos", prefetch_count=3, **{"global": True})
    assert [event.body for event in deliveries(conn, channel, 2)] == [b"1", b"2"]
    conn.call(channel, "basic.qos", prefetch_count=0, **{"global": True})
    deliveries(conn, channel, 7)  # 0 is no limit


def test_a24_without_global_it_holds_for_later_consumers_only(conn, queue):
    channel = conn.channel()
    conn.call(channel, "basic.qos", prefetch_count=2)
    conn.call(channel, "basic.consume", queue=queue, consumer_tag="two")
    assert [event.body for event in deliveries(conn, channel, 2)] == [b"0", b"1"]
    conn.call(channel, "basic.qos", prefetch_count=1)
    deliveries(conn, channel, 0)  # the first consumer keeps its own
    conn.call(channel, "basic.consume", queue=queue, consumer_tag="one")
    event = one(conn, channel)
    assert (event.consumer_tag, event.body) == ("one", b"2")
    conn.send(channel, "basic.ack", delivery_tag=1)
    event = one(conn, channel)
    assert (event.consumer_tag, event.body) == ("two", b"3")


def test_a24_each_consumer_has_its_own_count(conn, queue):
    channel = conn.channel()
    conn.call(channel, "basic.qos", prefetch_count=2)
    for tag in ("c1", "c2"):
        conn.call(channel, "basic.consume", queue=queue, consumer_tag=tag)
    tags = [event.consumer_tag for event in deliveries(conn, channel, 4)]
    assert sorted(tags) == ["c1", "c1", "c2", "c2"]
