"""A02: CC and BCC add routing keys; a dead letter with a key of its own has neither any more."""

from conftest import arrival, dead_letters_to, declare


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


def dead_letter(conn, channel, name, until, arguments):
    """A message with CC and BCC to three queues, rejected in the first; (the queues, its dead letter's queue, the letter)."""
    dead, others = name("dead"), [name("cc"), name("bcc")]
    source = name("source")
    for queue in (dead, *others):
        declare(conn, channel, queue, arguments={"x-expires": 120000})
    declare(conn, channel, source, arguments={**arguments(dead), "x-expires": 120000})
    headers = {"CC": [others[0]], "BCC": [others[1]], "kept": 1}
    conn.publish(channel, "", source, b"body", {"headers": headers})
    for queue in others:
        assert arrival(conn, channel, queue, until).body == b"body"
    got = conn.call(channel, "basic.get", queue=source)
    conn.send(channel, "basic.reject", delivery_tag=got.delivery_tag, requeue=False)
    return source, dead, others


def test_a02_a_dead_letter_with_a_new_key_goes_there_alone(conn, broker, name, until):
    channel = conn.channel()
    source, dead, others = dead_letter(conn, channel, name, until, dead_letters_to)
    letter = arrival(conn, channel, dead, until)
    headers = letter.props["headers"]
    assert (letter.routing_key, headers["kept"]) == (dead, 1)
    assert "BCC" not in headers
    if broker.menzil or broker.rabbitmq_before(3, 13):
        # Differs: RabbitMQ 4.x leaves the CC header standing, although its keys are used no more.
        assert "CC" not in headers
    assert headers["x-death"][0]["routing-keys"] == [source, others[0]], "the history keeps CC and not BCC"
    for queue in others:
        assert conn.call(channel, "basic.get", queue=queue, no_ack=True).name == "basic.get-empty"


def test_a02_a_dead_letter_with_its_old_keys_follows_cc_again(conn, name, until):
    channel = conn.channel()
    exchange = name("x")
    conn.call(channel, "exchange.declare", exchange=exchange, type="direct")
    dead, copied, hidden, source = (name(what) for what in ("dead", "cc", "bcc", "source"))
    for queue in (dead, copied, hidden):
        declare(conn, channel, queue, arguments={"x-expires": 120000})
    declare(conn, channel, source, arguments={"x-dead-letter-exchange": exchange, "x-expires": 120000})
    for queue, key in ((dead, source), (copied, copied), (hidden, hidden)):
        conn.call(channel, "queue.bind", queue=queue, exchange=exchange, routing_key=key)
    conn.publish(channel, "", source, b"body", {"headers": {"CC": [copied], "BCC": [hidden]}})
    for queue in (copied, hidden):
        assert arrival(conn, channel, queue, until).body == b"body"
    got = conn.call(channel, "basic.get", queue=source)
    conn.send(channel, "basic.reject", delivery_tag=got.delivery_tag, requeue=False)
    for queue in (dead, copied, hidden):
        letter = arrival(conn, channel, queue, until)
        headers = letter.props["headers"]
        assert (letter.routing_key, headers["CC"]) == (source, [copied])
        assert "BCC" not in headers and headers["x-death"][0]["routing-keys"] == [source, copied]
    conn.call(channel, "exchange.delete", exchange=exchange)
