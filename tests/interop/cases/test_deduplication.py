"""A queue with `x-deduplication=true` stores a message once: Menzil's own, RabbitMQ has no such queue."""

import threading

import pytest

import rawamqp
from conftest import declare, get_all, settled_publish


@pytest.fixture(autouse=True)
def ours(broker):
    if not broker.menzil:
        pytest.skip("RabbitMQ takes the arguments for unknown ones and stores everything")


def once(**more):
    arguments = {"x-deduplication": True, "x-expires": 600000}
    arguments.update({f"x-deduplication-{key}": value for key, value in more.items()})
    return arguments


def confirmed(conn):
    channel = conn.channel()
    conn.call(channel, "confirm.select")
    return channel


def mail(message_id, delivery_mode=2, **headers):
    props = {"delivery_mode": delivery_mode, "headers": headers}
    if message_id is not None:
        props["message_id"] = message_id
    return props


def test_deduplication_stores_a_message_once_and_acknowledges_it_each_time(conn, name):
    channel, queue = confirmed(conn), name()
    declare(conn, channel, queue, arguments=once())
    for body in (b"1", b"2", b"3"):
        assert settled_publish(conn, channel, "", queue, body, mail("a"), mandatory=True).name == "basic.ack"
    settled_publish(conn, channel, "", queue, b"4", mail("b"))
    for body in (b"5", b"6"):
        settled_publish(conn, channel, "", queue, body, mail(None))
    assert get_all(conn, channel, queue) == [b"1", b"4", b"5", b"6"]
    # It was consumed, and is known all the same.
    settled_publish(conn, channel, "", queue, b"7", mail("a"))
    assert get_all(conn, channel, queue) == []


def test_deduplication_by_a_header_with_its_type(conn, name):
    channel, queue = confirmed(conn), name()
    declare(conn, channel, queue, arguments=once(header="order"))
    for body, order in ((b"1", 5), (b"2", 5), (b"3", "5"), (b"4", "5"), (b"5", None)):
        settled_publish(conn, channel, "", queue, body, mail("same", order=order))
    settled_publish(conn, channel, "", queue, b"6", mail("same"))
    assert get_all(conn, channel, queue) == [b"1", b"3", b"5", b"6"]


def test_deduplication_forgets_the_oldest_key(conn, name):
    channel, queue = confirmed(conn), name()
    declare(conn, channel, queue, arguments=once(size=2))
    for key in ("a", "b", "a", "c", "b", "a"):
        settled_publish(conn, channel, "", queue, key.encode(), mail(key))
    assert get_all(conn, channel, queue) == [b"a", b"b", b"c", b"a"]


def test_deduplication_forgets_a_key_whose_time_is_over(conn, name, until):
    channel, queue = confirmed(conn), name()
    declare(conn, channel, queue, arguments=once(age=200))

    def stored_again():
        settled_publish(conn, channel, "", queue, b"x", mail("a"))
        return len(get_all(conn, channel, queue)) == 1

    assert stored_again(), "the first time"
    until(stored_again, "its time is over")


def test_deduplication_sends_what_was_refused_only_to_who_refused_it(conn, name):
    channel = confirmed(conn)
    roomy, small, exchange = name("roomy"), name("small"), name("x")
    conn.call(channel, "exchange.declare", exchange=exchange, type="fanout", durable=True)
    declare(conn, channel, roomy, arguments=once())
    declare(conn, channel, small, arguments=once() | {"x-max-length": 1, "x-overflow": "reject-publish"})
    for queue in (roomy, small):
        conn.call(channel, "queue.bind", queue=queue, exchange=exchange)
    settled_publish(conn, channel, "", small, b"fills it", mail("z"))
    for _ in range(2):
        assert settled_publish(conn, channel, exchange, "", b"message", mail("a")).name == "basic.nack"
    assert get_all(conn, channel, small) == [b"fills it"]
    for _ in range(2):
        assert settled_publish(conn, channel, exchange, "", b"message", mail("a")).name == "basic.ack"
    assert get_all(conn, channel, small) == [b"message"]
    assert get_all(conn, channel, roomy) == [b"message"]
    conn.call(channel, "exchange.delete", exchange=exchange)


def test_deduplication_in_a_transaction(conn, name):
    channel, queue = conn.channel(), name()
    declare(conn, channel, queue, arguments=once())
    conn.call(channel, "tx.select")
    for key in ("a", "a", "b"):
        conn.publish(channel, "", queue, key.encode(), mail(key))
    conn.call(channel, "tx.rollback")
    for key in ("a", "a", "b"):
        conn.publish(channel, "", queue, key.encode(), mail(key))
    conn.call(channel, "tx.commit")
    assert get_all(conn, channel, queue) == [b"a", b"b"]


def test_deduplication_after_a_crash(conn, connect, name, restart):
    channel, queue = confirmed(conn), name()
    declare(conn, channel, queue, arguments=once())
    for key in ("a", "b"):
        settled_publish(conn, channel, "", queue, key.encode(), mail(key))
    settled_publish(conn, channel, "", queue, b"not kept", mail("t", delivery_mode=1))
    restart()
    conn = connect()
    channel = confirmed(conn)
    for key in ("a", "b", "c", "t"):
        settled_publish(conn, channel, "", queue, b"again " + key.encode(), mail(key))
    assert get_all(conn, channel, queue) == [b"a", b"b", b"again c", b"again t"]


def test_deduplication_when_the_broker_dies_between_publish_and_confirm(target, connect, name, restart):
    """A publisher that sends again what it heard nothing of: each message is there once, and none is missing."""
    conn = connect()
    channel, queue = confirmed(conn), name()
    declare(conn, channel, queue, arguments=once())
    count, heard = 400, set()

    def publish(conn, channel, numbers):
        """Publishes until the connection ends, and says what was confirmed."""
        tags = {}
        try:
            for tag, number in enumerate(numbers, 1):
                tags[tag] = number
                conn.publish(channel, "", queue, str(number).encode(), mail(str(number)))
            while tags:
                event = conn.expect(channel, "basic.ack")
                for tag in [t for t in tags if t == event.delivery_tag or (event.multiple and t <= event.delivery_tag)]:
                    heard.add(tags.pop(tag))
        except (rawamqp.Closed, OSError):
            pass

    def lost():
        return [number for number in range(count) if number not in heard]

    for _ in range(3):
        # Killed while it publishes, wherever that is; the wait for the control's answer is the only clock.
        publisher = threading.Thread(target=publish, args=(conn, channel, lost() or range(count)))
        publisher.start()
        restart()
        publisher.join(60)
        conn = connect()
        channel = confirmed(conn)
        # What it heard of is sent again now and then, too: that may not make a second.
        publish(conn, channel, lost()[: count // 4])
    publish(conn, channel, list(range(count)))
    assert lost() == []
    assert sorted(map(int, get_all(conn, channel, queue))) == list(range(count))
