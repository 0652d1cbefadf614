"""A18: deliveries are counted from the second on, the limit acts at once, and a better consumer takes over."""

import pytest

from conftest import arrival, dead_letters_to, deaths, declare, put


@pytest.fixture(autouse=True)
def counted(broker):
    if broker.rabbitmq_before(4):
        pytest.skip("RabbitMQ 3.x starts counting elsewhere and has no priorities among single active consumers")


def limited(conn, channel, name, kind, limit=2, **arguments):
    work, dead = name("work"), name("dead")
    declare(conn, channel, dead, arguments={"x-expires": 120000})
    declare(conn, channel, work, arguments=dead_letters_to(dead, **{
        "x-queue-type": kind, "x-delivery-limit": limit, "x-expires": 120000, **arguments}))
    return work, dead


def kinds(broker):
    # Differs: RabbitMQ counts on quorum queues only and refuses the argument on classic ones.
    return ["quorum", "classic"] if broker.menzil else ["quorum"]


def test_a18_the_third_return_is_the_last(conn, name, broker, until):
    for kind in kinds(broker):
        channel = conn.channel()
        work, dead = limited(conn, channel, name, kind)
        conn.call(channel, "basic.qos", prefetch_count=1)
        conn.call(channel, "basic.consume", queue=work, consumer_tag=kind)
        conn.publish(channel, "", work, b"poison")
        seen = []
        for _ in range(3):
            event = conn.expect(channel, "basic.deliver")
            seen.append(event.props.get("headers", {}).get("x-delivery-count"))
            assert event.redelivered == (len(seen) > 1)
            conn.send(channel, "basic.reject", delivery_tag=event.delivery_tag, requeue=True)
        assert seen == [None, 1, 2], kind
        event = arrival(conn, channel, dead, until)
        assert (event.body, deaths(event)) == (b"poison", [(work, "delivery_limit", 1)])
        conn.quiet(channel, 0.3)
        conn.publish(channel, "", work, b"good")
        event = conn.expect(channel, "basic.deliver")
        assert (event.body, event.redelivered) == (b"good", False)


def test_a18_nack_with_requeue_does_not_count(conn, name, broker):
    for kind in kinds(broker):
        channel = conn.channel()
        work, _ = limited(conn, channel, name, kind)
        conn.call(channel, "basic.consume", queue=work)
        conn.publish(channel, "", work, b"patient")
        for _ in range(6):
            event = conn.expect(channel, "basic.deliver")
            assert event.props.get("headers", {}).get("x-delivery-count") is None
            conn.send(channel, "basic.nack", delivery_tag=event.delivery_tag, requeue=True)
        conn.send(channel, "basic.ack", delivery_tag=conn.expect(channel, "basic.deliver").delivery_tag)


def test_a18_a_lost_consumer_counts(conn, connect, name, broker, until):
    for kind in kinds(broker):
        channel = conn.channel()
        work, dead = limited(conn, channel, name, kind, limit=1)
        put(conn, work, b"killer")
        for turn in range(2):
            victim = connect()
            theirs = victim.channel()
            victim.call(theirs, "basic.consume", queue=work)
            event = victim.expect(theirs, "basic.deliver")
            assert event.props.get("headers", {}).get("x-delivery-count") == (turn or None)
            victim.abort()
        assert deaths(arrival(conn, channel, dead, until)) == [(work, "delivery_limit", 1)]


def test_a18_a_better_consumer_takes_over_once_the_first_has_settled(conn, connect, name, broker):
    for kind in kinds(broker):
        channel = conn.channel()
        work, _ = limited(conn, channel, name, kind, **{"x-single-active-consumer": True})
        put(conn, work, *(str(number).encode() for number in range(4)))
        first, second = connect(), connect()
        one, two = first.channel(), second.channel()
        first.call(one, "basic.qos", prefetch_count=1)
        first.call(one, "basic.consume", queue=work)
        held = first.expect(one, "basic.deliver")
        assert held.body == b"0"
        second.call(two, "basic.qos", prefetch_count=1)
        second.call(two, "basic.consume", queue=work, arguments={"x-priority": 100})
        second.quiet(two, 0.5)
        first.send(one, "basic.ack", delivery_tag=held.delivery_tag)
        for number in (b"1", b"2", b"3"):
            event = second.expect(two, "basic.deliver")
            assert (event.body, event.redelivered) == (number, False)
            second.send(two, "basic.ack", delivery_tag=event.delivery_tag)
        first.quiet(one, 0.3)
        second.call(two, "basic.cancel", consumer_tag=event.consumer_tag)
        put(conn, work, b"back")
        assert first.expect(one, "basic.deliver").body == b"back", "the first is active again"
