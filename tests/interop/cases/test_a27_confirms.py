"""A27: the return precedes its ack, and every publish gets a verdict, also when its queue goes away."""

import pytest

from conftest import declare, ready_count


def settle_all(conn, channel, outstanding, on_event=lambda event: None):
    """Reads until no tag is outstanding; (acked, nacked)."""
    acked, nacked = set(), set()
    while outstanding:
        event = conn.expect(channel, "basic.ack", "basic.nack", "basic.return")
        on_event(event)
        if event.name == "basic.return":
            continue
        tags = {tag for tag in outstanding if tag <= event.delivery_tag} if event.multiple else {event.delivery_tag}
        assert tags and tags <= outstanding, f"settled twice: {event}"
        outstanding -= tags
        (acked if event.name == "basic.ack" else nacked).update(tags)
    return acked, nacked


@pytest.mark.parametrize("delivery_mode", [1, 2])
def test_a27_a_return_precedes_the_ack_that_covers_it(conn, name, delivery_mode):
    channel, queue = conn.channel(), name()
    declare(conn, channel, queue, arguments={"x-expires": 120000})
    conn.call(channel, "confirm.select")
    lost = (1, 37, 38, 100)
    props = {"delivery_mode": delivery_mode}
    conn.send_bytes(b"".join(
        conn.publish_frames(channel, "", "no-such-queue" if tag in lost else queue, str(tag).encode(), props,
                            mandatory=True) for tag in range(1, 101)))
    returned = []

    def watch(event):
        if event.name == "basic.return":
            assert (event.reply_code, event.reply_text) == (312, "NO_ROUTE")
            returned.append(int(event.body))
        else:
            covered = [tag for tag in lost if tag == event.delivery_tag or event.multiple and tag < event.delivery_tag]
            assert set(covered) <= set(returned), f"{event} before the return of {covered}"

    acked, nacked = settle_all(conn, channel, set(range(1, 101)), watch)
    assert (len(acked), nacked, returned) == (100, set(), list(lost))
    assert ready_count(conn, channel, queue) == 96


def test_a27_every_publish_is_answered_when_the_queue_is_deleted(conn, connect, name):
    channel, queue, count = conn.channel(), name(), 1000
    declare(conn, channel, queue)
    conn.call(channel, "confirm.select")
    remover = connect()
    remover_channel = remover.channel()
    props = {"delivery_mode": 2}
    for first in range(1, count + 1, 100):
        conn.send_bytes(b"".join(conn.publish_frames(channel, "", queue, b"x" * 100, props)
                                 for _ in range(first, first + 100)))
        if first == 401:
            remover.send(remover_channel, "queue.delete", queue=queue)
    remover.expect(remover_channel, "queue.delete-ok")
    acked, nacked = settle_all(conn, channel, set(range(1, count + 1)))
    assert len(acked) + len(nacked) == count
    assert nacked == set(), "deleting a queue is no failure of it"


def test_a27_tags_count_from_the_select(conn, name):
    channel, queue = conn.channel(), name()
    declare(conn, channel, queue, arguments={"x-expires": 120000})
    for _ in range(3):
        conn.publish(channel, "", queue, b"before")
    conn.call(channel, "confirm.select")
    conn.call(channel, "confirm.select")
    conn.publish(channel, "", queue, b"after")
    assert conn.expect(channel, "basic.ack").delivery_tag == 1
    conn.quiet(channel, 0.3)
