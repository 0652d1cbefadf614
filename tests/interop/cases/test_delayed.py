"""Messages that an exchange keeps until they are due: x-delayed-message and x-delayed=true.

Of RabbitMQ the community plugin does this; a broker without it is skipped.
"""

import time

import pytest

from conftest import declare, get_all, settled_publish


@pytest.fixture
def channel(conn, broker):
    if not broker.menzil:
        pytest.skip("the delayed message plugin is not part of RabbitMQ")
    channel = conn.channel()
    conn.call(channel, "confirm.select")
    return channel


@pytest.fixture
def make(conn, channel, name):
    """An exchange that delays, with its queues by binding key."""
    def _make(kind, *keys, **more):
        exchange = name("x")
        arguments = {"x-delayed-type": kind} | more
        conn.call(channel, "exchange.declare", exchange=exchange, type="x-delayed-message", durable=True,
                  arguments=arguments)
        queues = []
        for key in keys:
            queues.append(name())
            declare(conn, channel, queues[-1])
            options = {"arguments": key, "routing_key": ""} if isinstance(key, dict) else {"routing_key": key}
            conn.call(channel, "queue.bind", queue=queues[-1], exchange=exchange, **options)
        return exchange, queues
    return _make


def send(conn, channel, exchange, key, body, delay, mandatory=False, **headers):
    props = {"delivery_mode": 2, "headers": {"x-delay": delay} | headers}
    return settled_publish(conn, channel, exchange, key, body, props, mandatory)


def take(conn, channel, queue, until):
    """The next message of a queue, when it comes."""
    def _get():
        event = conn.call(channel, "basic.get", queue=queue, no_ack=True)
        return event if event.name == "basic.get-ok" else None
    return until(_get, "a message", pause=0.01)


def test_apsaramq_x_delayed_message_worked_example(conn, channel, make, until):
    """Section "Exchanges x-delayed-message", "Exemplo de roteamento"; a tenth of its delays."""
    exchange, (queue_a, queue_b) = make("direct", "img.create", "img.log")
    start = time.monotonic()
    assert send(conn, channel, exchange, "img.create", b"A", 300).name == "basic.ack"
    assert send(conn, channel, exchange, "img.log", b"B", 400).name == "basic.ack"
    assert get_all(conn, channel, queue_a) + get_all(conn, channel, queue_b) == []
    event = take(conn, channel, queue_a, until)
    assert event.body == b"A" and time.monotonic() - start >= 0.3, "not before it is due"
    assert event.props["headers"]["x-delay"] == -300
    event = take(conn, channel, queue_b, until)
    assert event.body == b"B" and time.monotonic() - start >= 0.4, "not before it is due"
    assert get_all(conn, channel, queue_a) + get_all(conn, channel, queue_b) == []


@pytest.mark.parametrize("kind, binding, key, headers", [
    ("direct", "img.create", "img.create", {}),
    ("topic", "img.*", "img.create", {}),
    ("fanout", "", "whatever", {}),
    ("headers", {"x-match": "all", "type": "read"}, "", {"type": "read"}),
    ("x-consistent-hash", "10", "any key", {}),
])
def test_apsaramq_x_delayed_message_types(conn, channel, make, until, kind, binding, key, headers):
    """Section "Exchanges x-delayed-message": the types that x-delayed-type may be."""
    exchange, (queue,) = make(kind, binding)
    send(conn, channel, exchange, key, b"waits", 150, **headers)
    send(conn, channel, exchange, key, b"does not", 0, **headers)
    assert get_all(conn, channel, queue) == [b"does not"]
    assert take(conn, channel, queue, until).body == b"waits"


def test_the_order_is_that_of_the_time_that_is_due(conn, channel, make, until):
    exchange, (queue,) = make("fanout", "")
    for body, delay in ((b"3", 500), (b"1", 300), (b"2", 400)):
        send(conn, channel, exchange, "", body, delay)
    assert [take(conn, channel, queue, until).body for _ in range(3)] == [b"1", b"2", b"3"]


def test_mandatory_is_answered_as_if_it_were_due_now(conn, channel, make, until):
    exchange, (queue,) = make("direct", "bound")
    conn.publish(channel, exchange, "unbound", b"back", {"headers": {"x-delay": 100}}, True)
    returned = conn.expect(channel, "basic.return")
    assert (returned.reply_code, returned.reply_text, returned.body) == (312, "NO_ROUTE", b"back")
    assert returned.props["headers"]["x-delay"] == 100, "as it was published"
    conn.expect(channel, "basic.ack")
    assert send(conn, channel, exchange, "bound", b"kept", 100, mandatory=True).name == "basic.ack"
    assert take(conn, channel, queue, until).body == b"kept"


def test_what_finds_no_queue_when_due_goes_to_the_alternate_exchange(conn, channel, make, name, until):
    alternate, queue = name("alternate"), name()
    conn.call(channel, "exchange.declare", exchange=alternate, type="fanout", durable=True)
    declare(conn, channel, queue)
    conn.call(channel, "queue.bind", queue=queue, exchange=alternate, routing_key="")
    exchange, _ = make("direct", **{"alternate-exchange": alternate})
    assert send(conn, channel, exchange, "nobody", b"m", 100).name == "basic.ack"
    assert get_all(conn, channel, queue) == []
    assert take(conn, channel, queue, until).body == b"m"


def test_any_exchange_delays_that_says_so(conn, channel, name, until):
    exchange, queue = name("x"), name()
    conn.call(channel, "exchange.declare", exchange=exchange, type="topic", durable=True, arguments={"x-delayed": True})
    declare(conn, channel, queue)
    conn.call(channel, "queue.bind", queue=queue, exchange=exchange, routing_key="a.#")
    send(conn, channel, exchange, "a.b", b"waits", 150)
    send(conn, channel, exchange, "a.b", b"does not", -5)
    assert get_all(conn, channel, queue) == [b"does not"]
    assert take(conn, channel, queue, until).body == b"waits"


def test_a_delay_survives_a_crash_and_downtime_counts(connect, conn, channel, make, restart, until):
    exchange, (queue,) = make("fanout", "")
    start = time.monotonic()
    large = bytes(range(256)) * 12_000  # in chunks
    send(conn, channel, exchange, "", b"meanwhile", 300)
    send(conn, channel, exchange, "", large, 350)
    send(conn, channel, exchange, "", b"after", 6000)
    restart(pause=0.4)
    conn = connect()
    channel = conn.channel()
    assert take(conn, channel, queue, until).body == b"meanwhile"
    assert take(conn, channel, queue, until).body == large
    event = take(conn, channel, queue, until)
    assert event.body == b"after" and time.monotonic() - start >= 6.0, "not before it is due"
    conn.call(channel, "confirm.select")
    # Its confirm says that what was settled before it is on disk too.
    settled_publish(conn, channel, "", queue, b"mark", {"delivery_mode": 2})
    restart()
    conn = connect()
    channel = conn.channel()
    assert get_all(conn, channel, queue) == [b"mark"], "each once"
    conn.call(channel, "queue.delete", queue=queue)


def test_what_a_full_queue_refuses_when_due_comes_once_to_each_kill_or_not(connect, conn, channel, make, name, restart, until):
    exchange, (everything,) = make("fanout", "")
    full = name()
    conn.call(channel, "queue.declare", queue=full, durable=True, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    conn.call(channel, "queue.bind", queue=full, exchange=exchange, routing_key="")
    settled_publish(conn, channel, "", full, b"first", {"delivery_mode": 2})
    large = bytes(range(256)) * 12_000  # in chunks
    bodies = [b"1", large, b"3"]
    for body in bodies:
        assert send(conn, channel, exchange, "", body, 100).name == "basic.ack"
    assert [take(conn, channel, everything, until).body for _ in bodies] == bodies
    # Its confirm says that what was settled before it is on disk too.
    settled_publish(conn, channel, "", everything, b"mark", {"delivery_mode": 2})
    restart()
    conn = connect()
    channel = conn.channel()
    conn.call(channel, "confirm.select")
    assert take(conn, channel, full, until).body == b"first"
    assert take(conn, channel, full, until).body == bodies[0]
    settled_publish(conn, channel, "", everything, b"mark", {"delivery_mode": 2})
    restart()
    conn = connect()
    channel = conn.channel()
    assert [take(conn, channel, full, until).body for _ in bodies[1:]] == bodies[1:]
    assert get_all(conn, channel, everything) == [b"mark", b"mark"], "none of them twice"
    assert get_all(conn, channel, full) == []
    for queue in (everything, full):
        conn.call(channel, "queue.delete", queue=queue)


@pytest.mark.parametrize("arguments, text", [
    ({}, "Invalid argument, 'x-delayed-type' must be an existing exchange type"),
    ({"x-delayed-type": 5}, "Invalid argument, 'x-delayed-type' must be an existing exchange type"),
    ({"x-delayed-type": "x-delayed-message"},
     "Invalid argument, 'x-delayed-message' can't be used for 'x-delayed-type'"),
    ({"x-delayed-type": "dirct"}, "unknown exchange type 'dirct'"),
])
def test_a_bad_delayed_type_is_a_406_and_leaves_nothing(connect, conn, channel, name, arguments, text):
    exchange = name("x")
    conn.send(channel, "exchange.declare", exchange=exchange, type="x-delayed-message", arguments=arguments)
    close = conn.expect(channel, "channel.close")
    assert (close.reply_code, close.reply_text) == (406, f"PRECONDITION_FAILED - {text}")
    other = connect()
    channel = other.channel()
    other.send(channel, "exchange.declare", exchange=exchange, passive=True)
    assert other.expect(channel, "channel.close").reply_code == 404
