"""A12: limited queues that dead-letter into each other neither recurse nor stop answering."""

import pytest

from conftest import dead_letters_to, deaths, declare, get_all, ready_count

COUNT = 50


def verdicts(conn, channel, exchange, key, props):
    """COUNT publishes in one write; {tag: acked} once every one is answered."""
    conn.send_bytes(b"".join(conn.publish_frames(channel, exchange, key, str(tag).encode(), props)
                             for tag in range(1, COUNT + 1)))
    settled = {}
    while len(settled) < COUNT:
        event = conn.expect(channel, "basic.ack", "basic.nack")
        tags = range(1, event.delivery_tag + 1) if event.multiple else [event.delivery_tag]
        fresh = [tag for tag in tags if tag not in settled]
        assert fresh, f"{event} settles what is settled already"
        settled.update((tag, event.name == "basic.ack") for tag in fresh)
    return settled


def head(conn, channel, queue):
    """The body of the first message, which stays there; None where there is none."""
    got = conn.call(channel, "basic.get", queue=queue, no_ack=False)
    if got.name == "basic.get-empty":
        return None
    conn.send(channel, "basic.reject", delivery_tag=got.delivery_tag, requeue=True)
    return got.body


@pytest.mark.parametrize("mode", [1, 2], ids=["transient", "persistent"])
def test_a12_two_limited_queues_in_a_ring(conn, name, bystander, until, mode):
    channel, a, b = conn.channel(), name("a"), name("b")
    for queue, other in ((a, b), (b, a)):
        declare(conn, channel, queue, arguments=dead_letters_to(other, **{"x-max-length": 1, "x-expires": 120000}))
    conn.call(channel, "confirm.select")
    settled = verdicts(conn, channel, "", a, {"delivery_mode": mode})
    assert all(settled.values()), "drop-head keeps the new and drops the old: nothing is refused"
    assert ready_count(conn, channel, a) == 1
    # What A drops goes to B one after another, behind the confirms: B is done when it has the last.
    last = str(COUNT - 1).encode()
    until(lambda: head(conn, channel, b) == last, "what A dropped last is in B")
    in_a = get_all(conn, channel, a)
    assert in_a == [str(COUNT).encode()], "B's own drops do not come back to A: a cycle without a rejection"
    got = conn.call(channel, "basic.get", queue=b, no_ack=True)
    assert got.body == last
    assert deaths(got) == [(a, "maxlen", 1)]
    assert (ready_count(conn, channel, a), ready_count(conn, channel, b)) == (0, 0)


def test_a12_a_queue_that_dead_letters_to_itself(conn, name, bystander):
    channel, queue = conn.channel(), name()
    declare(conn, channel, queue, arguments=dead_letters_to(queue, **{"x-max-length": 1, "x-expires": 120000}))
    conn.call(channel, "confirm.select")
    assert all(verdicts(conn, channel, "", queue, {}).values())
    assert get_all(conn, channel, queue) == [str(COUNT).encode()]


@pytest.mark.parametrize("mode", [1, 2], ids=["transient", "persistent"])
def test_a12_reject_publish_dlx_refuses_and_keeps_a_copy(conn, name, bystander, until, mode):
    channel, a, dead = conn.channel(), name("a"), name("dead")
    declare(conn, channel, dead, arguments={"x-expires": 120000})
    declare(conn, channel, a, arguments=dead_letters_to(
        dead, **{"x-max-length": 1, "x-overflow": "reject-publish-dlx", "x-expires": 120000}))
    conn.call(channel, "confirm.select")
    settled = verdicts(conn, channel, "", a, {"delivery_mode": mode})
    kept = [tag for tag, acked in settled.items() if acked]
    assert kept == [1], "the publisher is told of each refusal"
    assert get_all(conn, channel, a) == [b"1"]
    until(lambda: ready_count(conn, channel, dead) == COUNT - 1, "every refused message is in the dead-letter queue")
    for tag in range(2, COUNT + 1):
        got = conn.call(channel, "basic.get", queue=dead, no_ack=True)
        assert got.body == str(tag).encode()
        assert deaths(got) == [(a, "maxlen", 1)]
        assert got.props["headers"]["x-first-death-reason"] == "maxlen"
