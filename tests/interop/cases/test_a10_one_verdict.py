"""A10: with a queue that refuses, every publish gets exactly one verdict, and it is the right one."""

import threading

import pytest

import rawamqp
from conftest import declare


class Verdicts:
    """Outstanding tags; each may be settled once."""

    def __init__(self, count):
        self.open, self.acked, self.nacked = set(range(1, count + 1)), [], []

    def take(self, event):
        tags = {tag for tag in self.open if tag <= event.delivery_tag} if event.multiple else {event.delivery_tag}
        assert tags and tags <= self.open, f"{event} settles what is settled already"
        self.open -= tags
        (self.acked if event.name == "basic.ack" else self.nacked).extend(sorted(tags))


@pytest.mark.parametrize("persistent", [False, True], ids=["transient", "persistent"])
def test_a10_acks_never_span_a_nacked_publish(conn, connect, name, persistent):
    count, channel, exchange, queue = 50, conn.channel(), name("x"), name()
    conn.call(channel, "exchange.declare", exchange=exchange, type="fanout")
    declare(conn, channel, queue, arguments={"x-max-length": 5, "x-overflow": "reject-publish", "x-expires": 120000})
    conn.call(channel, "queue.bind", queue=queue, exchange=exchange)
    conn.call(channel, "confirm.select")

    consumer, got = connect(), []
    consumer_channel = consumer.channel()
    consumer.call(consumer_channel, "basic.qos", prefetch_count=1)
    consumer.call(consumer_channel, "basic.consume", queue=queue)
    done = threading.Event()

    def drain_slowly():
        while not done.wait(0.01):
            try:
                delivery = consumer.expect(consumer_channel, "basic.deliver", timeout=0.5)
            except rawamqp.Timeout:
                continue
            got.append(int(delivery.body))
            consumer.send(consumer_channel, "basic.ack", delivery_tag=delivery.delivery_tag)

    thread = threading.Thread(target=drain_slowly)
    thread.start()
    try:
        props = {"delivery_mode": 2 if persistent else 1}
        conn.send_bytes(b"".join(conn.publish_frames(channel, exchange, "", str(tag).encode(), props)
                                 for tag in range(1, count + 1)))
        verdicts = Verdicts(count)
        while verdicts.open:
            verdicts.take(conn.expect(channel, "basic.ack", "basic.nack"))
        assert sorted(verdicts.acked + verdicts.nacked) == list(range(1, count + 1))
        assert len(verdicts.acked) >= 5 and verdicts.nacked, "some kept, some refused"
        conn.quiet(channel, 0.3)
        limit = 300
        while len(got) < len(verdicts.acked) and limit:
            limit -= 1
            done.wait(0.1)
    finally:
        done.set()
        thread.join(40)
    assert got == sorted(verdicts.acked), "exactly what was acked is in the queue, in order"
