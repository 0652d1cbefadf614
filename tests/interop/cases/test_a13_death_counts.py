"""A13: a cycle with a rejection in it goes on and counts; a cycle of expiry alone ends."""

from conftest import arrival, dead_letters_to, deaths, declare, get_all, ready_count

HEAD = ("x-first-death-queue", "x-first-death-reason", "x-first-death-exchange")
LAST = ("x-last-death-queue", "x-last-death-reason", "x-last-death-exchange")


def test_a13_a_rejected_message_comes_back_as_often_as_it_is_rejected(conn, name, broker):
    channel, work, retry = conn.channel(), name("work"), name("retry")
    declare(conn, channel, work, arguments=dead_letters_to(retry, **{"x-expires": 120000}))
    declare(conn, channel, retry, arguments=dead_letters_to(work, **{"x-message-ttl": 200, "x-expires": 120000}))
    conn.call(channel, "basic.qos", prefetch_count=1)
    conn.call(channel, "basic.consume", queue=work)
    conn.publish(channel, "", work, b"job", {"headers": {"mine": 1}, "message_id": "m"})
    times = set()
    for turn in range(5):
        event = conn.expect(channel, "basic.deliver")
        headers = event.props["headers"]
        assert (event.body, event.props["message_id"], headers["mine"]) == (b"job", "m", 1)
        assert not event.redelivered, "a dead letter is a message of its own"
        if turn == 0:
            assert "x-death" not in headers
        else:
            assert deaths(event) == [(retry, "expired", turn), (work, "rejected", turn)], "newest first"
            assert event.exchange == "" and event.routing_key == work
            first, last = tuple(headers[key] for key in HEAD), None
            assert first == (work, "rejected", ""), "the first death stays what it was"
            if broker.menzil or not broker.rabbitmq_before(3, 13):
                last = tuple(headers[key] for key in LAST)
                assert last == (retry, "expired", "")
            entries = headers["x-death"]
            assert [entry["exchange"] for entry in entries] == ["", ""]
            assert [entry["routing-keys"] for entry in entries] == [[retry], [work]]
            times.add(tuple(entry["time"] for entry in entries))
        if turn < 4:
            conn.send(channel, "basic.reject", delivery_tag=event.delivery_tag, requeue=False)
        else:
            conn.send(channel, "basic.ack", delivery_tag=event.delivery_tag)
    assert len(times) == 1, "an entry keeps the time of its first death"
    conn.quiet(channel, 0.5)


def test_a13_a_cycle_of_expiry_alone_ends(conn, name, until):
    channel, one, two = conn.channel(), name("one"), name("two")
    tap_one, tap_two, from_one, from_two = name("tap1"), name("tap2"), name("x1"), name("x2")
    for exchange in (from_one, from_two):
        conn.call(channel, "exchange.declare", exchange=exchange, type="fanout")
    for queue, exchange in ((one, from_one), (two, from_two)):
        declare(conn, channel, queue, arguments={"x-dead-letter-exchange": exchange, "x-message-ttl": 200, "x-expires": 120000})
    for queue in (tap_one, tap_two):
        declare(conn, channel, queue, arguments={"x-expires": 120000})
    for queue, exchange in ((two, from_one), (tap_one, from_one), (one, from_two), (tap_two, from_two)):
        conn.call(channel, "queue.bind", queue=queue, exchange=exchange)
    conn.publish(channel, "", one, b"round")
    assert deaths(arrival(conn, channel, tap_one, until)) == [(one, "expired", 1)]
    event = arrival(conn, channel, tap_two, until)
    assert deaths(event) == [(two, "expired", 1), (one, "expired", 1)]
    conn.quiet(channel, 1.0)
    assert (ready_count(conn, channel, one), ready_count(conn, channel, two)) == (0, 0)
    assert get_all(conn, channel, tap_one) == get_all(conn, channel, tap_two) == [], "one turn and no more"
    for exchange in (from_one, from_two):
        conn.call(channel, "exchange.delete", exchange=exchange)


def test_a13_a_clients_own_x_death_does_not_count(conn, name, broker):
    channel, work, dead = conn.channel(), name("work"), name("dead")
    declare(conn, channel, dead, arguments={"x-expires": 120000})
    declare(conn, channel, work, arguments=dead_letters_to(dead, **{"x-expires": 120000}))
    mine = [{"queue": work, "reason": "rejected", "count": 7, "exchange": "", "routing-keys": [work]}]
    conn.publish(channel, "", work, b"m", {"headers": {"x-death": mine}})
    got = conn.call(channel, "basic.get", queue=work)
    assert got.props["headers"]["x-death"] == mine, "it stays as the client sent it until the broker writes its own"
    conn.send(channel, "basic.reject", delivery_tag=got.delivery_tag, requeue=False)
    conn.call(channel, "basic.qos")
    event = arrival_now(conn, channel, dead)
    if not broker.rabbitmq_before(4):
        assert deaths(event) == [(work, "rejected", 1)]


def arrival_now(conn, channel, queue):
    conn.call(channel, "basic.consume", queue=queue, consumer_tag="once", no_ack=True)
    event = conn.expect(channel, "basic.deliver")
    conn.call(channel, "basic.cancel", consumer_tag="once")
    return event
