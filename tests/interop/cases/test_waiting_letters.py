"""Dead letters that wait for a target, and copies of refused publishes, through kill -9."""

import pytest

from conftest import arrival, dead_letters_to, deaths, declare, get_all, ready_count, settled_publish

DURABLE = {"delivery_mode": 2}


@pytest.fixture(autouse=True)
def ours(broker):
    if not broker.menzil:
        pytest.skip("RabbitMQ's classic queues keep nothing that a target refused")


def confirmed(conn):
    channel = conn.channel()
    conn.call(channel, "confirm.select")
    return channel


def test_what_a_consumer_rejected_is_not_delivered_again_after_kill9(connect, name, restart, until):
    conn = connect()
    channel, work, dead = confirmed(conn), name("work"), name("dead")
    declare(conn, channel, dead, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    settled_publish(conn, channel, "", dead, b"full", DURABLE)
    declare(conn, channel, work, arguments=dead_letters_to(
        dead, **{"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish", "x-delivery-limit": 1}))
    for body in (b"rejected", b"failed"):
        settled_publish(conn, channel, "", work, body, DURABLE)
    got = conn.call(channel, "basic.get", queue=work)
    assert got.body == b"rejected"
    conn.send(channel, "basic.reject", delivery_tag=got.delivery_tag, requeue=False)
    for _ in range(2):
        got = conn.call(channel, "basic.get", queue=work)
        assert got.body == b"failed"
        conn.send(channel, "basic.reject", delivery_tag=got.delivery_tag, requeue=True)
    # Its confirm says that what was settled before it is on disk too.
    marked = name("marked")
    declare(conn, channel, marked)
    settled_publish(conn, channel, "", marked, b"mark", DURABLE)
    for _ in range(2):
        restart()
        conn = connect()
        channel = confirmed(conn)
        assert conn.call(channel, "basic.get", queue=work).name == "basic.get-empty", "nobody gets it again"
        assert ready_count(conn, channel, work) == 0
    assert conn.call(channel, "basic.get", queue=dead, no_ack=True).body == b"full"
    expected = [(b"rejected", [(work, "rejected", 1)]), (b"failed", [(work, "delivery_limit", 1)])]
    for body, history in expected:
        letter = arrival(conn, channel, dead, until)
        assert (letter.body, deaths(letter)) == (body, history)
    for queue in (work, dead, marked):
        conn.call(channel, "queue.delete", queue=queue)


def test_a_nack_means_that_the_copy_is_on_disk(connect, name, restart):
    conn = connect()
    channel, full, dead = confirmed(conn), name("full"), name("dead")
    declare(conn, channel, dead)
    declare(conn, channel, full, arguments=dead_letters_to(
        dead, **{"x-max-length": 1, "x-overflow": "reject-publish-dlx"}))
    assert settled_publish(conn, channel, "", full, b"0", DURABLE).name == "basic.ack"
    for round_number in range(5):
        first = 1 if round_number else 2
        count = 200
        conn.send_bytes(b"".join(conn.publish_frames(channel, "", full, f"{round_number}-{tag}".encode(), DURABLE)
                                 for tag in range(first, first + count)))
        event = conn.expect(channel, "basic.nack")
        nacked = event.delivery_tag
        restart()
        conn = connect()
        channel = confirmed(conn)
        kept = get_all(conn, channel, dead)
        told = range(first, nacked + 1) if event.multiple else [nacked]
        missing = [tag for tag in told if f"{round_number}-{tag}".encode() not in kept]
        assert not missing, f"nacked and not on disk: {missing}"
        assert get_all(conn, channel, full) == [b"0"]
        assert settled_publish(conn, channel, "", full, b"0", DURABLE).name == "basic.ack"
        conn.call(channel, "channel.close", reply_code=200)
        channel = confirmed(conn)
    for queue in (full, dead):
        conn.call(channel, "queue.delete", queue=queue)
