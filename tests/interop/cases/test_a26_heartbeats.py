"""A26: heartbeats find dead peers, and nobody else."""

import time

import pytest

import rawamqp
from conftest import declare, put, ready_count


def test_a26_a_silent_client_is_dropped_and_its_deliveries_return(conn, connect, name, until):
    channel, queue = conn.channel(), name()
    declare(conn, channel, queue, arguments={"x-expires": 120000})
    put(conn, queue, b"m")
    silent = connect(heartbeat=1)
    assert silent.call(silent.channel(), "basic.get", queue=queue).body == b"m"
    assert ready_count(conn, channel, queue) == 0
    until(lambda: ready_count(conn, channel, queue) == 1, "the message returns")
    assert silent.read_eof(), "the socket was closed"
    event = conn.call(channel, "basic.get", queue=queue, no_ack=True)
    assert (event.body, event.redelivered) == (b"m", True)


def test_a26_who_talks_or_turned_heartbeats_off_stays(conn, connect, name):
    """At once, for 6 s: a client that only publishes, one that only sends heartbeats, one with heartbeat 0."""
    queue = name()
    declare(conn, conn.channel(), queue, arguments={"x-max-length": 10, "x-expires": 120000})
    busy, beating, off = connect(heartbeat=1), connect(heartbeat=1), connect(heartbeat=0)
    channel = busy.channel()
    end = time.monotonic() + 6
    while time.monotonic() < end:
        busy.publish(channel, "", queue, b"tick")
        beating.heartbeat()
        for peer in (beating, off):
            assert not peer.read_eof(0.1), "closed by the broker"
    for peer in (busy, beating, off):
        peer.channel()
    assert busy.heartbeats >= 3 and beating.heartbeats >= 3, "the broker sends one at least each interval"
    assert off.heartbeats == 0


def test_a26_a_heartbeat_on_a_channel_is_refused_or_ignored(connect, bystander):
    conn = connect(heartbeat=10)
    channel = conn.channel()
    conn.send_frame(rawamqp.FRAME_HEARTBEAT, channel, b"")
    try:
        conn.call(channel, "basic.qos", prefetch_count=1)
    except rawamqp.ConnectionClosed as closed:
        # RabbitMQ: 505 UNEXPECTED_FRAME; the standard (§4.2.7) says 501.
        assert closed.reply_code in (501, 505)
        assert conn.read_eof()


def test_a26_a_heartbeat_with_a_payload_never_hangs(connect, bystander):
    conn = connect(heartbeat=10)
    conn.send_frame(rawamqp.FRAME_HEARTBEAT, 0, b"not empty")
    try:
        conn.channel()
    except rawamqp.ConnectionClosed as closed:
        assert closed.reply_code in (501, 505)
        assert conn.read_eof()


@pytest.mark.parametrize("wanted", [0, 1, 60, 65535])
def test_a26_any_heartbeat_interval_may_be_asked_for(connect, wanted):
    connect(heartbeat=wanted).channel()
