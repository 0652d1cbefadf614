"""Message groups: one consumer at a time has messages of a group, in order; groups spread over consumers.

RabbitMQ has no such thing.
"""

import random

import pytest

import rawamqp
from conftest import arrival, deaths, declare, get_all


@pytest.fixture(autouse=True)
def ours(broker):
    if not broker.menzil:
        pytest.skip("RabbitMQ has no message groups")


@pytest.fixture
def queue(conn, connect, name):
    queue = name()
    declare(conn, conn.channel(), queue, arguments={"x-group-header": "account"})
    yield queue
    last = connect()
    last.call(last.channel(), "queue.delete", queue=queue)


def publish(conn, channel, queue, body, group=None, **props):
    headers = {} if group is None else {"headers": {"account": group}}
    conn.publish(channel, "", queue, body, {"delivery_mode": 2, **headers, **props})


def consumer(conn, queue, prefetch=1, **options):
    channel = conn.channel()
    conn.call(channel, "basic.qos", prefetch_count=prefetch)
    conn.call(channel, "basic.consume", queue=queue, **options)
    return channel


def confirmed(conn):
    channel = conn.channel()
    conn.call(channel, "confirm.select")
    return channel


def test_a_group_waits_for_its_consumer_and_others_go_on(conn, queue):
    first, second = consumer(conn, queue), consumer(conn, queue)
    on = conn.channel()
    for body, group in ((b"a1", "a"), (b"a2", "a"), (b"b1", "b"), (b"-", None)):
        publish(conn, on, queue, body, group)
    held = conn.expect(first, "basic.deliver")
    assert held.body == b"a1"
    other = conn.expect(second, "basic.deliver")
    assert other.body == b"b1"
    conn.send(second, "basic.ack", delivery_tag=other.delivery_tag)
    other = conn.expect(second, "basic.deliver")
    assert other.body == b"-"
    conn.send(second, "basic.ack", delivery_tag=other.delivery_tag)
    conn.quiet(second, 0.3)
    conn.send(first, "basic.nack", delivery_tag=held.delivery_tag, requeue=True)
    again = conn.expect(None, "basic.deliver")
    assert (again.body, again.redelivered) == (b"a1", True), "whoever has the turn gets the group, its first first"


def test_a_lost_consumer_leaves_its_group_in_order(conn, connect, queue):
    lost = connect()
    channel = consumer(lost, queue, prefetch=10)
    on = conn.channel()
    for number in range(5):
        publish(conn, on, queue, b"%d" % number, 17)
    for number in range(5):
        assert lost.expect(channel, "basic.deliver").body == b"%d" % number
    heir = consumer(conn, queue, prefetch=10)
    publish(conn, on, queue, b"5", 17)
    conn.quiet(heir, 0.3)
    lost.abort()
    assert [conn.expect(heir, "basic.deliver").body for _ in range(6)] == [b"%d" % number for number in range(6)]


def test_get_takes_the_first_of_a_free_group(conn, queue):
    on = conn.channel()
    for body, group in ((b"a1", "a"), (b"a2", "a"), (b"b1", "b")):
        publish(conn, on, queue, body, group)
    first = conn.call(on, "basic.get", queue=queue)
    second = conn.call(on, "basic.get", queue=queue)
    assert (first.body, second.body) == (b"a1", b"b1")
    assert conn.call(on, "basic.get", queue=queue).name == "basic.get-empty"
    conn.send(on, "basic.ack", delivery_tag=first.delivery_tag)
    assert conn.call(on, "basic.get", queue=queue).body == b"a2"


def test_a_number_of_any_width_is_one_group(conn, queue):
    on = conn.channel()
    publish(conn, on, queue, b"1", 7)
    conn.publish(on, "", queue, b"2", {"headers": {"account": rawamqp.V("b", 7)}})
    publish(conn, on, queue, b"3", "7")
    assert [conn.call(on, "basic.get", queue=queue).body for _ in range(2)] == [b"1", b"3"]


def test_each_group_is_processed_in_order_whatever_consumers_do(conn, connect, queue):
    """Random settles, requeues and lost connections; every group's acknowledged messages ascend."""
    dice = random.Random(5)
    on = confirmed(conn)
    count = 400
    for number in range(count):
        publish(conn, on, queue, b"%d" % number, number % 7)
    done = {group: [] for group in range(7)}
    conns = [connect() for _ in range(3)]
    channels = [consumer(one, queue, prefetch=3) for one in conns]
    held = [[] for _ in conns]
    while sum(map(len, done.values())) < count:
        for at, one in enumerate(conns):
            held[at] += [event for event in one.drain(0.01) if event.name == "basic.deliver"]
            groups = [{int(event.body) % 7 for event in of} for of in held]
            assert all(a.isdisjoint(b) for n, a in enumerate(groups) for b in groups[n + 1:])
            if held[at] and dice.random() < 0.03:
                one.abort()
                conns[at], held[at] = connect(), []
                channels[at] = consumer(conns[at], queue, prefetch=3)
            elif held[at]:
                event = held[at].pop(0)
                group = int(event.body) % 7
                if dice.random() < 0.1:
                    # What follows it was delivered too: all of it goes back.
                    one.send(channels[at], "basic.nack", delivery_tag=0, multiple=True, requeue=True)
                    held[at] = []
                else:
                    one.send(channels[at], "basic.ack", delivery_tag=event.delivery_tag)
                    done[group].append(int(event.body))
    for group, numbers in done.items():
        assert sorted(set(numbers)) == list(range(group, count, 7)), "all of them"
        # An acknowledgement may be lost with its connection; then the message comes again.
        firsts = [number for at, number in enumerate(numbers) if number not in numbers[:at]]
        assert firsts == sorted(firsts)


def test_a_crash_keeps_the_order(conn, connect, queue, restart):
    on = confirmed(conn)
    for number in range(20):
        publish(conn, on, queue, b"%d" % number, number % 2)
    seen = 0
    while seen < 20:
        event = conn.expect(on, "basic.ack")
        seen = max(seen + 1, event.delivery_tag if event.multiple else 0)
    channel = consumer(conn, queue, prefetch=4)
    conn.expect(channel, "basic.deliver")
    restart()
    after = connect()
    bodies = get_all(after, after.channel(), queue)
    assert bodies == [b"%d" % number for number in range(20)]


def test_a_group_header_is_a_text(conn, name, bystander):
    channel, queue = conn.channel(), name()
    conn.send(channel, "queue.declare", queue=queue, durable=True, arguments={"x-group-header": 5})
    conn.expect_close(channel, 406, f"PRECONDITION_FAILED - invalid arg 'x-group-header' for queue '{queue}' in vhost "
                                    "'/': it is 5, and must be the name of a header, a text of 1 to 255 bytes")


def test_what_waited_to_be_tried_again_goes_on_with_its_group(conn, connect, name):
    queue = name()
    on = confirmed(conn)
    declare(conn, on, queue, arguments={
        "x-group-header": "account", "x-delayed-retry-type": "all", "x-delayed-retry-min": 50})
    channel = consumer(conn, queue)
    for number in range(30):
        publish(conn, on, queue, b"%d" % number, number % 5)
    settled, refused = [], set()
    while len(settled) < 30:
        got = conn.expect(channel, "basic.deliver")
        number = int(got.body)
        if number % 3 == 0 and number not in refused:
            refused.add(number)
            conn.send(channel, "basic.nack", delivery_tag=got.delivery_tag, requeue=True)
        else:
            settled.append(number)
            conn.send(channel, "basic.ack", delivery_tag=got.delivery_tag)
    for group in range(5):
        numbers = [number for number in settled if number % 5 == group]
        assert numbers == sorted(numbers), "a group waits for the one that is tried again"
    conn.call(on, "queue.delete", queue=queue)


def test_a_group_goes_on_when_what_it_waits_for_expires(conn, name, until):
    queue, dead = name(), name("dead")
    on = confirmed(conn)
    declare(conn, on, dead)
    declare(conn, on, queue, arguments={
        "x-group-header": "account", "x-delayed-retry-type": "all", "x-delayed-retry-min": 600000,
        "x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
    publish(conn, on, queue, b"brief", 1, expiration="1500")
    publish(conn, on, queue, b"next", 1)
    channel = consumer(conn, queue)
    got = conn.expect(channel, "basic.deliver")
    assert got.body == b"brief"
    conn.send(channel, "basic.reject", delivery_tag=got.delivery_tag, requeue=True)
    got = conn.expect(channel, "basic.deliver", timeout=60)
    assert got.body == b"next", "long before the retry"
    letter = arrival(conn, on, dead, until)
    assert (letter.body, deaths(letter)) == (b"brief", [(queue, "expired", 1)])
    for gone in (queue, dead):
        conn.call(on, "queue.delete", queue=gone)
