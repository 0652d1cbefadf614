"""Replayable exchanges: `x-retain-*` keeps what passed, a binding with `x-replay-from` gets it. Menzil's own."""

import threading
import time

import pytest

from conftest import declare, get_all, ready_count, settled_publish
from rawamqp import ChannelClosed, V

DURABLE = {"delivery_mode": 2}


@pytest.fixture(autouse=True)
def ours(broker):
    if not broker.menzil:
        pytest.skip("RabbitMQ takes the arguments for unknown ones and keeps nothing")


def keeping(conn, channel, exchange, kind="topic", **limits):
    arguments = {f"x-retain-{key}": value for key, value in limits.items()}
    conn.call(channel, "exchange.declare", exchange=exchange, type=kind, durable=True, arguments=arguments)


def confirmed(conn):
    channel = conn.channel()
    conn.call(channel, "confirm.select")
    return channel


def publish_all(conn, channel, exchange, routing_key, bodies, first=0):
    """Publishes and waits until the last is confirmed; `first` is how many were before on the channel."""
    for body in bodies:
        conn.publish(channel, exchange, routing_key, body, DURABLE)
    done = first
    while done < first + len(bodies):
        event = conn.expect(channel, "basic.ack")
        done = event.delivery_tag if event.multiple else max(done + 1, event.delivery_tag)


def replay(conn, channel, queue, exchange, routing_key, begin):
    arguments = {"x-replay-from": begin}
    conn.call(channel, "queue.bind", queue=queue, exchange=exchange, routing_key=routing_key, arguments=arguments)


def numbers(first, last):
    return [str(number).encode() for number in range(first, last)]


def consume_all(conn, channel, queue, count):
    conn.call(channel, "basic.consume", queue=queue, no_ack=True)
    return [conn.expect(channel, "basic.deliver").body for _ in range(count)]


@pytest.mark.parametrize("begin, expected", [
    ("first", numbers(0, 6)), ("last", [b"5"]), (2, [b"4", b"5"]), (0, []), (100, numbers(0, 6)), ("1h", numbers(0, 6)),
    (V("T", 0), numbers(0, 6)), (V("T", 4_000_000_000), []),
])
def test_a_binding_says_where_it_begins(conn, name, begin, expected):
    channel, exchange, queue = confirmed(conn), name("x"), name()
    keeping(conn, channel, exchange, messages=1000)
    for body in numbers(0, 6):
        settled_publish(conn, channel, exchange, "order.created", body, DURABLE)
        settled_publish(conn, channel, exchange, "other", b"not this one", DURABLE)
    declare(conn, channel, queue)
    replay(conn, channel, queue, exchange, "order.*", begin)
    settled_publish(conn, channel, exchange, "order.created", b"live", DURABLE)
    assert get_all(conn, channel, queue) == expected + [b"live"]
    conn.call(channel, "exchange.delete", exchange=exchange)
    conn.call(channel, "queue.delete", queue=queue)


def test_what_is_kept_is_bounded_by_count_bytes_and_age(conn, name, until):
    channel = confirmed(conn)
    for limits, expected in (({"messages": 2}, [b"3333", b"44"]), ({"bytes": 6}, [b"3333", b"44"]),
                             ({"age": 600000}, [b"1", b"22", b"3333", b"44"]), ({"age": "1s"}, None)):
        exchange, queue = name("x"), name()
        keeping(conn, channel, exchange, "fanout", **limits)
        for body in (b"1", b"22", b"3333", b"44"):
            settled_publish(conn, channel, exchange, "", body, DURABLE)
        if expected is None:
            time.sleep(1.2)
            expected = []
        declare(conn, channel, queue)
        replay(conn, channel, queue, exchange, "", "first")
        assert get_all(conn, channel, queue) == expected, limits
        conn.call(channel, "exchange.delete", exchange=exchange)
        conn.call(channel, "queue.delete", queue=queue)


def test_what_is_published_meanwhile_comes_behind_without_a_gap_or_a_double(conn, connect, name):
    channel, exchange = confirmed(conn), name("x")
    keeping(conn, channel, exchange, messages=1_000_000)
    publish_all(conn, channel, exchange, "k", numbers(0, 20_000))
    other = connect()
    binding = other.channel()
    queues = [name(f"q{number}") for number in range(4)]
    total = 24_000

    def publish():
        publish_all(conn, channel, exchange, "k", numbers(20_000, total), first=20_000)

    publisher = threading.Thread(target=publish)
    publisher.start()
    for queue in queues:
        declare(other, binding, queue)
        replay(other, binding, queue, exchange, "k", "first")
    publisher.join()
    for queue in queues:
        assert ready_count(other, binding, queue) == total
        assert consume_all(other, binding, queue, total) == numbers(0, total)
    for queue in queues:
        other.call(binding, "queue.delete", queue=queue)
    other.call(binding, "exchange.delete", exchange=exchange)


def test_a_replay_survives_kill9_with_its_binding(connect, name, restart):
    conn = connect()
    channel, exchange, queue = confirmed(conn), name("x"), name()
    keeping(conn, channel, exchange, messages=5000)
    publish_all(conn, channel, exchange, "k", numbers(0, 3000))
    declare(conn, channel, queue)
    replay(conn, channel, queue, exchange, "k", "first")
    restart()
    conn = connect()
    channel = confirmed(conn)
    assert ready_count(conn, channel, queue) == 3000
    publish_all(conn, channel, exchange, "k", [b"live"])
    assert consume_all(conn, channel, queue, 3001) == numbers(0, 3000) + [b"live"]
    again = name("again")
    declare(conn, channel, again)
    replay(conn, channel, again, exchange, "k", 2)
    assert get_all(conn, channel, again) == [b"2999", b"live"]
    conn.call(channel, "exchange.delete", exchange=exchange)
    for gone in (queue, again):
        conn.call(channel, "queue.delete", queue=gone)


def test_a_kill_in_the_middle_leaves_the_binding_with_all_it_got_or_neither(connect, name, restart):
    conn = connect()
    channel, exchange = confirmed(conn), name("x")
    keeping(conn, channel, exchange, messages=50_000)
    count = 30_000
    publish_all(conn, channel, exchange, "k", numbers(0, count))
    for pause in (0.0, 0.01, 0.03, 0.1):
        queue = name()
        conn = connect()
        channel = conn.channel()
        declare(conn, channel, queue)
        arguments = {"x-replay-from": "first"}
        conn.send(channel, "queue.bind", queue=queue, exchange=exchange, routing_key="k", arguments=arguments)
        time.sleep(pause)
        restart()
        conn = connect()
        channel = confirmed(conn)
        got = ready_count(conn, channel, queue)
        assert got in (0, count)
        publish_all(conn, channel, exchange, "k", [b"live"])
        # Bound where it has them, and not where it has none.
        assert ready_count(conn, channel, queue) == (count + 1 if got else 0)
        conn.call(channel, "queue.delete", queue=queue)
        count += 1
    conn.call(channel, "exchange.delete", exchange=exchange)


def test_limits_and_priorities_of_the_queue_hold(conn, name):
    channel, exchange = confirmed(conn), name("x")
    keeping(conn, channel, exchange, "fanout", messages=100)
    for number, body in enumerate(numbers(0, 6)):
        settled_publish(conn, channel, exchange, "", body, {"priority": number % 3, **DURABLE})
    for arguments, expected in (
            ({"x-max-length": 2}, [b"4", b"5"]),
            ({"x-max-length": 2, "x-overflow": "reject-publish"}, [b"0", b"1"]),
            ({"x-max-priority": 5}, [b"2", b"5", b"1", b"4", b"0", b"3"])):
        queue = name()
        declare(conn, channel, queue, arguments=arguments)
        replay(conn, channel, queue, exchange, "", "first")
        assert get_all(conn, channel, queue) == expected, arguments
        conn.call(channel, "queue.delete", queue=queue)
    conn.call(channel, "exchange.delete", exchange=exchange)


COUNT = "must be a whole number from 1 on"
AGE = "must be milliseconds from 1 to 315360000000, or a text such as 30s, 12h or 7D (units s m h D M Y)"
BEGIN = "must be first, last, a count, a timestamp, or an interval such as 1h"


@pytest.mark.parametrize("argument, value, reason", [
    ("x-retain-messages", 0, f"it is 0, and {COUNT}"), ("x-retain-messages", -1, f"it is -1, and {COUNT}"),
    ("x-retain-bytes", "many", f'it is "many", and {COUNT}'), ("x-retain-age", "1d", f'it is "1d", and {AGE}'),
    ("x-retain-age", "0s", f'it is "0s", and {AGE}'),
])
def test_what_cannot_be_kept_is_refused_by_name(conn, name, argument, value, reason, bystander):
    channel, exchange = conn.channel(), name("x")
    with pytest.raises(ChannelClosed) as refused:
        conn.call(channel, "exchange.declare", exchange=exchange, type="fanout", arguments={argument: value})
    text = f"PRECONDITION_FAILED - invalid arg '{argument}' for exchange '{exchange}' in vhost '/': {reason}"
    assert (refused.value.reply_code, refused.value.reply_text) == (406, text[:255])
    channel = conn.channel()
    with pytest.raises(ChannelClosed) as missing:
        conn.call(channel, "exchange.declare", exchange=exchange, type="fanout", passive=True)
    assert missing.value.reply_code == 404


@pytest.mark.parametrize("value, reason", [
    ("next", f'it is "next", and {BEGIN}'), (-1, f"it is -1, and {BEGIN}"), (True, f"it is true, and {BEGIN}"),
])
def test_where_to_begin_is_checked_and_nothing_is_bound(conn, name, value, reason, bystander):
    channel, exchange, queue = confirmed(conn), name("x"), name()
    keeping(conn, channel, exchange, messages=10)
    settled_publish(conn, channel, exchange, "k", b"kept", DURABLE)
    declare(conn, channel, queue)
    with pytest.raises(ChannelClosed) as refused:
        replay(conn, channel, queue, exchange, "k", value)
    text = f"PRECONDITION_FAILED - invalid arg 'x-replay-from' for exchange '{exchange}' in vhost '/': {reason}"
    assert (refused.value.reply_code, refused.value.reply_text) == (406, text)
    channel = confirmed(conn)
    conn.publish(channel, exchange, "k", b"nowhere", mandatory=True)
    assert conn.expect(channel, "basic.return").reply_code == 312
    conn.call(channel, "exchange.delete", exchange=exchange)
    conn.call(channel, "queue.delete", queue=queue)


def test_an_exchange_that_keeps_nothing_replays_nothing(conn, name):
    channel, queue = conn.channel(), name()
    declare(conn, channel, queue)
    with pytest.raises(ChannelClosed) as refused:
        replay(conn, channel, queue, "amq.topic", "#", "first")
    assert refused.value.reply_text.endswith("the exchange keeps nothing: it needs x-retain-messages, x-retain-bytes or x-retain-age, or a policy of them")
    conn.call(conn.channel(), "queue.delete", queue=queue)


def test_other_limits_are_another_exchange(conn, name):
    channel, exchange = conn.channel(), name("x")
    keeping(conn, channel, exchange, messages=10)
    keeping(conn, channel, exchange, messages=10)
    with pytest.raises(ChannelClosed) as refused:
        keeping(conn, channel, exchange, messages=11)
    assert refused.value.reply_code == 406
    assert "inequivalent arg 'x-retain-messages'" in refused.value.reply_text
    conn.call(conn.channel(), "exchange.delete", exchange=exchange)
