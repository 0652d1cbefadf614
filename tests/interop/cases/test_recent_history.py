"""x-recent-history: a fanout exchange that gives the last messages to each new binding (RabbitMQ's plugin)."""

import pytest

from conftest import declare, get_all, settled_publish
from rawamqp import ChannelClosed

DURABLE = {"delivery_mode": 2}


def declared(conn, channel, exchange, **arguments):
    try:
        conn.call(channel, "exchange.declare", exchange=exchange, type="x-recent-history", durable=True, arguments=arguments)
    except ChannelClosed:
        pytest.skip("no exchanges of type x-recent-history")


def confirmed(conn):
    channel = conn.channel()
    conn.call(channel, "confirm.select")
    return channel


def bound(conn, channel, queue, exchange, routing_key=""):
    declare(conn, channel, queue)
    conn.call(channel, "queue.bind", queue=queue, exchange=exchange, routing_key=routing_key)


def remove(conn, channel, exchange, *queues):
    conn.call(channel, "exchange.delete", exchange=exchange)
    for queue in queues:
        conn.call(channel, "queue.delete", queue=queue)


def numbers(first, last):
    return [str(number).encode() for number in range(first, last)]


def test_a_new_binding_gets_the_last_twenty_in_order_and_then_what_comes(conn, name):
    channel, exchange, queue = confirmed(conn), name("x"), name()
    declared(conn, channel, exchange)
    for body in numbers(0, 25):
        assert settled_publish(conn, channel, exchange, "any", body, DURABLE).name == "basic.ack"
    bound(conn, channel, queue, exchange)
    settled_publish(conn, channel, exchange, "any", b"25", DURABLE)
    # The same binding again is no new one.
    bound(conn, channel, queue, exchange)
    assert get_all(conn, channel, queue) == numbers(5, 26)
    remove(conn, channel, exchange, queue)


def test_the_length_is_an_argument_and_a_header_keeps_a_message_out(conn, name):
    channel, exchange, queue = confirmed(conn), name("x"), name()
    declared(conn, channel, exchange, **{"x-recent-history-length": 3})
    for body in numbers(0, 5):
        settled_publish(conn, channel, exchange, "", body, DURABLE)
    for flag, body in ((True, b"kept out"), (False, b"kept")):
        props = {"headers": {"x-recent-history-no-store": flag}, **DURABLE}
        settled_publish(conn, channel, exchange, "", body, props)
    bound(conn, channel, queue, exchange)
    assert get_all(conn, channel, queue) == [b"3", b"4", b"kept"]
    remove(conn, channel, exchange, queue)


def test_history_goes_through_an_exchange_that_is_bound(conn, name, broker):
    channel, exchange, second, queue = confirmed(conn), name("x"), name("second"), name()
    declared(conn, channel, exchange)
    conn.call(channel, "exchange.declare", exchange=second, type="direct")
    bound(conn, channel, queue, second, "b")
    bound(conn, channel, queue, second, "a")
    for body, key in ((b"1", "a"), (b"2", "b"), (b"3", "a")):
        settled_publish(conn, channel, exchange, key, body, DURABLE)
    conn.call(channel, "exchange.bind", source=exchange, destination=second, routing_key="")
    # Differs: RabbitMQ hands the newest on first here, and only here.
    expected = [b"1", b"2", b"3"]
    assert get_all(conn, channel, queue) == (expected if broker.menzil else expected[::-1])
    conn.call(channel, "exchange.delete", exchange=second)
    remove(conn, channel, exchange, queue)


@pytest.mark.parametrize("length, shown", [(0, "0"), (-3, "-3"), ("5", '<<"5">>')])
def test_a_length_that_is_no_positive_integer_is_refused(conn, name, length, shown, bystander):
    channel, exchange = conn.channel(), name("x")
    declared(conn, channel, exchange)
    conn.call(channel, "exchange.delete", exchange=exchange)
    with pytest.raises(ChannelClosed) as refused:
        arguments = {"x-recent-history-length": length}
        conn.call(channel, "exchange.declare", exchange=exchange, type="x-recent-history", arguments=arguments)
    text = f"PRECONDITION_FAILED - Invalid argument {shown}, 'x-recent-history-length' must be a positive integer"
    assert (refused.value.reply_code, refused.value.reply_text) == (406, text)
    channel = conn.channel()
    with pytest.raises(ChannelClosed) as missing:
        conn.call(channel, "exchange.declare", exchange=exchange, type="x-recent-history", passive=True)
    assert missing.value.reply_code == 404


def test_a_message_that_nobody_takes_comes_back_and_is_kept(conn, name):
    channel, exchange, queue = confirmed(conn), name("x"), name()
    declared(conn, channel, exchange)
    conn.publish(channel, exchange, "", b"1", DURABLE, mandatory=True)
    assert conn.expect(channel, "basic.return").reply_code == 312
    assert conn.expect(channel, "basic.ack").delivery_tag == 1
    bound(conn, channel, queue, exchange)
    assert get_all(conn, channel, queue) == [b"1"]
    remove(conn, channel, exchange, queue)


def test_history_survives_kill9(connect, name, broker, restart):
    if not broker.menzil:
        pytest.skip("not ours to kill")
    conn = connect()
    channel, exchange, queue = confirmed(conn), name("x"), name()
    declared(conn, channel, exchange, **{"x-recent-history-length": 4})
    for body in numbers(0, 9):
        settled_publish(conn, channel, exchange, "", body, DURABLE)
    restart()
    conn = connect()
    channel = conn.channel()
    bound(conn, channel, queue, exchange)
    assert get_all(conn, channel, queue) == numbers(5, 9)
    remove(conn, channel, exchange, queue)
