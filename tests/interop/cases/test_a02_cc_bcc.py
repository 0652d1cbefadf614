"""A02 (1), (2) and (4): CC and BCC add routing keys. (3) waits for dead-lettering."""

from conftest import declare


def three_queues(conn, channel, name):
    queues = [name(f"q{number}") for number in (1, 2, 3)]
    for queue in queues:
        declare(conn, channel, queue)
    return queues


def test_a02_a_cc_that_is_no_array_closes_the_channel(conn, name, bystander):
    for header in ("CC", "BCC"):
        channel = conn.channel()
        conn.publish(channel, "", "nowhere", b"x", {"headers": {header: "text"}})
        conn.expect_close(channel, 406, ["PRECONDITION_FAILED", f'"{header}"'])


def test_a02_cc_is_visible_and_bcc_is_not(conn, name):
    channel = conn.channel()
    q1, q2, q3 = three_queues(conn, channel, name)
    headers = {"first": 1, "CC": [q2], "BCC": [q3], "last": True}
    conn.publish(channel, "", q1, b"body", {"headers": headers, "content_type": "text/plain"})
    for queue in (q1, q2, q3):
        got = conn.call(channel, "basic.get", queue=queue, no_ack=True)
        assert (got.name, got.body, got.routing_key) == ("basic.get-ok", b"body", q1)
        assert got.props["headers"]["CC"] == [q2]
        assert "BCC" not in got.props["headers"]
        assert (got.props["headers"]["first"], got.props["headers"]["last"]) == (1, True)
        assert got.message_count == 0
        conn.call(channel, "queue.delete", queue=queue)


def test_a02_the_same_key_twice_gives_one_copy(conn, name):
    channel = conn.channel()
    q1, q2, _ = three_queues(conn, channel, name)
    conn.publish(channel, "", q1, b"body", {"headers": {"CC": [q1, q2, q2], "BCC": [q1, q2]}})
    for queue in (q1, q2):
        got = conn.call(channel, "basic.get", queue=queue, no_ack=True)
        assert (got.name, got.message_count) == ("basic.get-ok", 0)
        conn.call(channel, "queue.delete", queue=queue)


def test_a02_elements_that_are_no_strings_are_ignored(conn, name):
    channel = conn.channel()
    q1, q2, _ = three_queues(conn, channel, name)
    conn.publish(channel, "", q1, b"body", {"headers": {"CC": [7, q2, True]}})
    for queue in (q1, q2):
        assert conn.call(channel, "basic.get", queue=queue, no_ack=True).name == "basic.get-ok"
        conn.call(channel, "queue.delete", queue=queue)
