"""A01: `#` is zero or more words, `*` exactly one, an empty word is a word, the empty key has none."""

from conftest import declare, get_all, settled_publish

BINDING_KEYS = ["a.*.c.#", "a.*", "#", "*", "#.b.#", "*.#"]
LONG = "a." + "b" * 253
EXPECTED = {
    "a.b.c": {"a.*.c.#", "#", "#.b.#", "*.#"},
    "a.b.c.d": {"a.*.c.#", "#", "#.b.#", "*.#"},
    "a": {"#", "*", "*.#"},
    "a.": {"a.*", "#", "*.#"},
    "": {"#"},
    ".": {"#", "*.#"},
    "b": {"#", "*", "#.b.#", "*.#"},
    LONG: {"a.*", "#", "*.#"},
}


def test_a01_each_pattern_matches_whole_words(conn, name):
    channel, exchange = conn.channel(), name("x")
    conn.call(channel, "exchange.declare", exchange=exchange, type="topic")
    queues = {key: name() for key in BINDING_KEYS}
    for key, queue in queues.items():
        declare(conn, channel, queue)
        conn.call(channel, "queue.bind", queue=queue, exchange=exchange, routing_key=key)
    conn.call(channel, "confirm.select")
    for routing_key in EXPECTED:
        assert settled_publish(conn, channel, exchange, routing_key, routing_key.encode()).name == "basic.ack"
    for key, queue in queues.items():
        wanted = [routing_key for routing_key, matches in EXPECTED.items() if key in matches]
        assert [body.decode() for body in get_all(conn, channel, queue)] == wanted, f"binding key {key!r}"
        conn.call(channel, "queue.delete", queue=queue)


def test_a01_two_matching_bindings_of_one_queue_give_one_copy(conn, name):
    channel, exchange, queue = conn.channel(), name("x"), name()
    conn.call(channel, "exchange.declare", exchange=exchange, type="topic")
    declare(conn, channel, queue)
    for key in ("a.*", "#", "a.#", "*.b"):
        conn.call(channel, "queue.bind", queue=queue, exchange=exchange, routing_key=key)
    conn.publish(channel, exchange, "a.b", b"once")
    assert get_all(conn, channel, queue) == [b"once"]
    conn.call(channel, "queue.delete", queue=queue)
