"""A30: a locked queue answers 405 to everybody else, and is free as soon as its owner is gone."""

import pytest

import rawamqp

LOCKED = "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{}' in vhost '/'"

OTHERS = {
    "the same": ("queue.declare", {"exclusive": True}),
    "not exclusive": ("queue.declare", {}),
    "durable": ("queue.declare", {"durable": True}),
    "other arguments": ("queue.declare", {"exclusive": True, "arguments": {"x-message-ttl": 1}}),
    "passive": ("queue.declare", {"passive": True}),
    "consume": ("basic.consume", {}),
    "get": ("basic.get", {}),
    "purge": ("queue.purge", {}),
    "bind": ("queue.bind", {"exchange": "amq.direct", "routing_key": "k"}),
    "delete": ("queue.delete", {}),
}


@pytest.mark.parametrize("what", OTHERS)
def test_a30_others_are_told_405(conn, connect, name, what, bystander):
    queue, owner = name(), conn.channel()
    conn.call(owner, "queue.declare", queue=queue, exclusive=True)
    other = connect()
    channel = other.channel()
    method, arguments = OTHERS[what]
    other.send(channel, method, queue=queue, **arguments)
    other.expect_close(channel, 405, LOCKED.format(queue))
    other.channel()  # the connection lives
    assert conn.call(owner, "queue.declare", queue=queue, exclusive=True).queue == queue


def test_a30_the_name_is_free_once_the_owner_is_gone(conn, connect, name, until):
    queue, owner = name(), connect()
    owner.call(owner.channel(), "queue.declare", queue=queue, exclusive=True)

    def taken_over():
        channel = conn.channel()
        conn.send(channel, "queue.declare", queue=queue, exclusive=True)
        event = conn.expect(channel, "queue.declare-ok", "channel.close")
        if event.name == "channel.close":
            assert event.reply_code == 405, event
            conn.send(channel, "channel.close-ok")
            conn.channels.discard(channel)
        return event.name == "queue.declare-ok"

    assert not taken_over()
    owner.abort()
    until(taken_over, "the name becomes free", pause=0.05)


def test_a30_a_clean_close_frees_before_close_ok(conn, connect, name):
    queue, owner = name(), connect()
    owner.call(owner.channel(), "queue.declare", queue=queue, exclusive=True)
    owner.close()
    channel = conn.channel()
    conn.call(channel, "queue.declare", queue=queue, exclusive=True)


def test_a30_two_thousand_at_once(conn, connect, name, until, bystander):
    count, stem, owner = 2000, name(), connect()
    channel = owner.channel()
    owner.send_bytes(b"".join(
        rawamqp.encode_frame(rawamqp.FRAME_METHOD, channel,
                             rawamqp.encode_method("queue.declare", queue=f"{stem}-{number}", exclusive=True))
        for number in range(count)), timeout=60)
    for _ in range(count):
        owner.expect(channel, "queue.declare-ok")
    owner.abort(reset=True)

    def all_gone():
        left = []
        for number in (0, 1, count // 2, count - 2, count - 1):
            channel = conn.channel()
            conn.send(channel, "queue.declare", queue=f"{stem}-{number}", passive=True)
            event = conn.expect(channel, "queue.declare-ok", "channel.close")
            if event.name == "channel.close":
                conn.send(channel, "channel.close-ok")
            conn.channels.discard(channel)
            left.append(event.name == "queue.declare-ok" or event.reply_code != 404)
        return not any(left)

    until(all_gone, "all of them are gone")
