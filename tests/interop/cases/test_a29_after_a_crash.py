"""A29: what was answered before kill -9 holds after it; a time to live runs on through the downtime."""

import time

from conftest import arrival, dead_letters_to, deaths, declare, get_all, put, ready_count


def missing(conn, queue):
    channel = conn.channel()
    conn.send(channel, "queue.declare", queue=queue, passive=True)
    event = conn.expect(channel, "channel.close", "queue.declare-ok")
    if event.name == "channel.close":
        conn.send(channel, "channel.close-ok")
        conn.channels.discard(channel)
    return event.name == "channel.close" and event.reply_code == 404


def test_a29_deletions_and_purges_hold(connect, name, restart):
    conn = connect()
    channel = conn.channel()
    deleted, purged, kept, unbound = (name(what) for what in ("deleted", "purged", "kept", "unbound"))
    gone, stays = name("gone"), name("stays")
    for exchange in (gone, stays):
        conn.call(channel, "exchange.declare", exchange=exchange, type="topic", durable=True)
    for queue in (deleted, purged, kept, unbound):
        declare(conn, channel, queue)
        put(conn, queue, b"m1", b"m2", props={"delivery_mode": 2})
        conn.call(channel, "queue.bind", queue=queue, exchange=stays, routing_key=queue)
    conn.call(channel, "queue.unbind", queue=unbound, exchange=stays, routing_key=unbound)
    conn.call(channel, "exchange.delete", exchange=gone)
    assert conn.call(channel, "queue.purge", queue=purged).message_count == 2
    assert conn.call(channel, "queue.delete", queue=deleted).message_count == 2
    restart()
    conn = connect()
    channel = conn.channel()
    assert missing(conn, deleted), "a deleted queue is back"
    assert ready_count(conn, channel, purged) == 0, "purged messages are back"
    assert get_all(conn, channel, kept) == [b"m1", b"m2"]
    other = conn.channel()
    conn.send(other, "exchange.declare", exchange=gone, type="topic", passive=True)
    conn.expect_close(other, 404, f"no exchange '{gone}'")
    for queue in (purged, unbound):
        conn.publish(channel, stays, queue, b"new", mandatory=True)
    assert conn.expect(channel, "basic.return").routing_key == unbound, "the binding is back"
    declare(conn, channel, deleted)
    assert get_all(conn, channel, deleted) == [], "a new queue of the old name is empty"
    for queue in (deleted, purged, kept, unbound):
        conn.call(channel, "queue.delete", queue=queue)
    conn.call(channel, "exchange.delete", exchange=stays)


def test_a29_settled_messages_stay_away_and_others_come_back_in_order(connect, name, restart):
    conn = connect()
    channel, queue = conn.channel(), name()
    declare(conn, channel, queue)
    put(conn, queue, *(str(number).encode() for number in range(10)), props={"delivery_mode": 2})
    held = [conn.call(channel, "basic.get", queue=queue) for _ in range(5)]
    for event in held[:3]:
        conn.send(channel, "basic.ack", delivery_tag=event.delivery_tag)
    put(conn, queue, b"10", props={"delivery_mode": 2})  # confirmed after the acks, so they are on disk too
    restart()
    conn = connect()
    channel = conn.channel()
    assert [int(body) for body in get_all(conn, channel, queue)] == list(range(3, 11))
    conn.call(channel, "queue.delete", queue=queue)


def test_a29_a_time_to_live_runs_through_the_downtime(connect, name, restart, until):
    conn = connect()
    channel, short, long = conn.channel(), name("short"), name("long")
    declare(conn, channel, short, arguments={"x-message-ttl": 5000})
    declare(conn, channel, long, arguments={"x-message-ttl": 600000})
    published = time.monotonic()
    for queue in (short, long):
        put(conn, queue, b"m", props={"delivery_mode": 2})
    time.sleep(2)
    restart(pause=2)
    conn = connect()
    channel = conn.channel()
    left = ready_count(conn, channel, short)
    assert left == 1 or time.monotonic() - published >= 5, "gone before its time"
    assert ready_count(conn, channel, long) == 1
    until(lambda: ready_count(conn, channel, short) == 0, "the message expires after the restart")
    assert ready_count(conn, channel, long) == 1
    for queue in (short, long):
        conn.call(channel, "queue.delete", queue=queue)


def test_a29_what_came_due_in_the_downtime_is_never_delivered(connect, name, restart, until):
    conn = connect()
    channel, dead, per_queue, per_message = (conn.channel(), *(name(what) for what in ("dead", "queue", "message")))
    declare(conn, channel, dead)
    declare(conn, channel, per_queue, arguments=dead_letters_to(dead, **{"x-message-ttl": 3000}))
    declare(conn, channel, per_message, arguments=dead_letters_to(dead))
    put(conn, per_queue, b"queue", props={"delivery_mode": 2})
    put(conn, per_message, b"message", props={"delivery_mode": 2, "expiration": "3000"})
    put(conn, per_message, b"stays", props={"delivery_mode": 2, "expiration": "600000"})
    restart(pause=4)
    conn = connect()
    channel = conn.channel()
    assert get_all(conn, channel, per_queue) == [], "its time ran on: started anew it would be there"
    assert get_all(conn, channel, per_message) == [b"stays"]
    letters = [arrival(conn, channel, dead, until) for _ in range(2)]
    assert sorted(letter.body for letter in letters) == [b"message", b"queue"]
    assert sorted(deaths(letter) for letter in letters) == sorted([[(per_queue, "expired", 1)], [(per_message, "expired", 1)]])
    for queue in (dead, per_queue, per_message):
        conn.call(channel, "queue.delete", queue=queue)
