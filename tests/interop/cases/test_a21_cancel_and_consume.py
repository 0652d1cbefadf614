"""A21: a cancelled consumer leaves its deliveries with the channel, and its tag is free again."""

from conftest import declare, put, ready_count


def test_a21_cancel_then_consume_with_the_same_tag(conn, name):
    channel, queue = conn.channel(), name()
    declare(conn, channel, queue)
    put(conn, queue, b"1", b"2", b"3")
    conn.call(channel, "basic.qos", prefetch_count=2)
    conn.call(channel, "basic.consume", queue=queue, consumer_tag="t")
    old = [conn.expect(channel, "basic.deliver") for _ in range(2)]
    assert conn.call(channel, "basic.cancel", consumer_tag="t").consumer_tag == "t"
    assert ready_count(conn, channel, queue) == 1, "a cancel requeues nothing"
    conn.call(channel, "basic.consume", queue=queue, consumer_tag="t")
    new = conn.expect(channel, "basic.deliver")
    assert (new.body, new.redelivered) == (b"3", False)
    for delivery in [*old, new]:
        conn.send(channel, "basic.ack", delivery_tag=delivery.delivery_tag)
    conn.call(channel, "channel.close", reply_code=200)
    channel = conn.channel()
    assert ready_count(conn, channel, queue) == 0
    assert conn.call(channel, "queue.delete", queue=queue).message_count == 0


def test_a21_cancel_of_an_unknown_tag_is_answered(conn):
    assert conn.call(conn.channel(), "basic.cancel", consumer_tag="nobody").consumer_tag == "nobody"


def test_a21_deliveries_in_flight_stay_with_the_channel(conn, name):
    channel, queue, count = conn.channel(), name(), 200
    declare(conn, channel, queue)
    put(conn, queue, *(str(number).encode() for number in range(count)))
    conn.send(channel, "basic.consume", queue=queue, consumer_tag="t")
    conn.expect(channel, "basic.consume-ok")
    first = conn.expect(channel, "basic.deliver")
    conn.call(channel, "basic.cancel", consumer_tag="t")
    before = [first] + [event for event in conn.inbox if event.name == "basic.deliver"]
    conn.inbox.clear()
    conn.quiet(channel, 0.5)  # cancel-ok never overtakes deliveries
    left = ready_count(conn, channel, queue)
    assert len(before) + left == count
    assert [int(delivery.body) for delivery in before] == list(range(len(before)))
    conn.call(channel, "channel.close", reply_code=200)
    channel = conn.channel()
    for number in range(count):
        event = conn.call(channel, "basic.get", queue=queue, no_ack=True)
        assert (int(event.body), event.redelivered) == (number, number < len(before))
    conn.call(channel, "queue.delete", queue=queue)
