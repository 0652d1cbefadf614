"""A19: transactions hold publishes and settles back; rolling back requeues nothing."""

import pytest

from conftest import declare, get_all, put, ready_count


@pytest.fixture
def queue(conn, name):
    channel, queue = conn.channel(), name()
    declare(conn, channel, queue, arguments={"x-expires": 120000})
    return queue


@pytest.fixture
def tx(conn):
    channel = conn.channel()
    conn.call(channel, "tx.select")
    return channel


def test_a19_acknowledging_all_of_nothing_is_no_error(conn, tx):
    conn.send(tx, "basic.ack", delivery_tag=0, multiple=True)
    conn.call(tx, "tx.commit")
    conn.send(tx, "basic.nack", delivery_tag=0, multiple=True)
    conn.call(tx, "tx.rollback")
    conn.call(tx, "tx.commit")


def test_a19_a_rollback_drops_publishes_for_good(conn, tx, queue):
    conn.publish(tx, "", queue, b"dropped")
    conn.call(tx, "tx.rollback")
    conn.publish(tx, "", queue, b"kept")
    assert ready_count(conn, conn.channel(), queue) == 0, "nothing before the commit"
    conn.call(tx, "tx.commit")
    assert get_all(conn, conn.channel(), queue) == [b"kept"]
    conn.call(tx, "tx.commit")
    assert get_all(conn, conn.channel(), queue) == []


def test_a19_a_commit_makes_all_publishes_visible_in_order(conn, tx, queue):
    for number in range(20):
        conn.publish(tx, "", queue, str(number).encode(), {"delivery_mode": 1 + number % 2})
    conn.call(tx, "tx.commit")
    assert get_all(conn, conn.channel(), queue) == [str(number).encode() for number in range(20)]


def test_a19_a_rollback_keeps_deliveries_with_the_channel(conn, tx, queue):
    other = conn.channel()
    put(conn, queue, b"m")
    held = conn.call(tx, "basic.get", queue=queue)
    conn.send(tx, "basic.ack", delivery_tag=held.delivery_tag)
    conn.call(tx, "tx.rollback")
    assert ready_count(conn, other, queue) == 0, "a rolled back ack does not requeue"
    conn.send(tx, "basic.ack", delivery_tag=held.delivery_tag)
    conn.call(tx, "tx.commit")
    conn.call(tx, "channel.close", reply_code=200)
    assert ready_count(conn, other, queue) == 0, "the second ack was committed"


def test_a19_an_uncommitted_ack_dies_with_the_channel(conn, tx, queue):
    other = conn.channel()
    put(conn, queue, b"m")
    held = conn.call(tx, "basic.get", queue=queue)
    conn.send(tx, "basic.ack", delivery_tag=held.delivery_tag)
    conn.call(tx, "channel.close", reply_code=200)
    again = conn.call(other, "basic.get", queue=queue, no_ack=True)
    assert (again.body, again.redelivered) == (b"m", True)


def test_a19_recover_returns_the_unsettled_redelivered(conn, tx, queue):
    other = conn.channel()
    put(conn, queue, b"m1", b"m2", b"m3")
    first, second, third = (conn.call(tx, "basic.get", queue=queue) for _ in range(3))
    conn.send(tx, "basic.ack", delivery_tag=second.delivery_tag)
    conn.call(tx, "basic.recover", requeue=True)
    conn.call(tx, "tx.commit")
    returned = [conn.call(other, "basic.get", queue=queue) for _ in range(2)]
    assert [(event.body, event.redelivered) for event in returned] == [(b"m1", True), (b"m3", True)]
    assert conn.call(other, "basic.get", queue=queue).name == "basic.get-empty"
    conn.call(tx, "channel.close", reply_code=200)
    assert ready_count(conn, other, queue) == 0, "the ack was committed"


@pytest.mark.parametrize("before, method, text", [
    (None, "tx.commit", "channel is not transactional"),
    (None, "tx.rollback", "channel is not transactional"),
    ("tx.select", "confirm.select", "cannot switch from tx to confirm mode"),
    ("confirm.select", "tx.select", "cannot switch from confirm to tx mode"),
])
def test_a19_modes_do_not_mix(conn, bystander, before, method, text):
    channel = conn.channel()
    if before:
        conn.call(channel, before)
    conn.send(channel, method)
    conn.expect_close(channel, 406, f"PRECONDITION_FAILED - {text}")
