"""Refusals of declarations, bindings, consumers and publishes, word for word.

A walk through RabbitMQ's table of reply codes and texts, beside what test_bad_input.py and
test_queue_arguments.py have. A declaration that fails leaves no trace. Texts are those of RabbitMQ 4.3.
"""

import pytest

from rawamqp import ChannelClosed, ConnectionClosed, V

DEFAULT = "ACCESS_REFUSED - operation not permitted on the default exchange"
FAILED = "PRECONDITION_FAILED - "
QUORUM = {"x-queue-type": "quorum"}
REPLIES = "amq.rabbitmq.reply-to"


@pytest.fixture(autouse=True)
def since_4_3(broker):
    if broker.rabbitmq_before(4, 3):
        pytest.skip("the texts are those of 4.3")


def refusal(conn, channel, method, **fields):
    with pytest.raises((ChannelClosed, ConnectionClosed)) as refused:
        if method == "basic.publish":
            conn.publish(channel, fields.get("exchange", ""), "k", b"m", fields.get("props"))
            conn.call(channel, "queue.declare", queue="", exclusive=True)
        else:
            conn.call(channel, method, **fields)
    return refused.value.reply_code, refused.value.reply_text


def needs_type(conn, kind):
    """Skips where the broker has no exchanges of a type that is a plugin's."""
    channel = conn.channel()
    try:
        conn.call(channel, "exchange.declare", exchange="probe-of-types", type=kind)
    except ChannelClosed:
        pytest.skip(f"no exchanges of type {kind}")
    conn.call(channel, "exchange.delete", exchange="probe-of-types")


def absent(conn, kind, name):
    assert refusal(conn, conn.channel(), f"{kind}.declare", **{kind: name, "passive": True}) == (
        404, f"NOT_FOUND - no {kind} '{name}' in vhost '/'")


@pytest.mark.parametrize("method, fields", [
    ("exchange.declare", {"exchange": "", "type": "direct"}), ("exchange.declare", {"exchange": "", "passive": True}),
    ("exchange.delete", {"exchange": ""}), ("queue.bind", {"queue": "{q}", "exchange": ""}),
    ("queue.unbind", {"queue": "{q}", "exchange": ""}), ("exchange.bind", {"source": "", "destination": "amq.topic"}),
    ("exchange.bind", {"source": "amq.topic", "destination": ""}),
    ("exchange.unbind", {"source": "", "destination": "amq.topic"}),
], ids=str)
def test_nothing_is_done_to_the_default_exchange(conn, name, method, fields):
    queue = name()
    channel = conn.channel()
    conn.call(channel, "queue.declare", queue=queue, exclusive=True)
    fields = {key: queue if value == "{q}" else value for key, value in fields.items()}
    assert refusal(conn, channel, method, **fields) == (403, DEFAULT)


@pytest.mark.parametrize("method, fields", [
    ("queue.purge", {"queue": "none"}), ("queue.bind", {"queue": "none", "exchange": "amq.topic"}),
    ("basic.consume", {"queue": "none"}),
], ids=str)
def test_there_is_no_such_queue(conn, method, fields):
    assert refusal(conn, conn.channel(), method, **fields) == (404, "NOT_FOUND - no queue 'none' in vhost '/'")


@pytest.mark.parametrize("method", ["basic.consume", "queue.purge", "queue.bind", "queue.delete"])
def test_no_queue_was_declared_before(conn, method):
    fields = {"queue": "", **({"exchange": "amq.topic"} if method == "queue.bind" else {})}
    assert refusal(conn, conn.channel(), method, **fields) == (404, "NOT_FOUND - no previously declared queue")


@pytest.mark.parametrize("fields", [
    {"source": "none", "destination": "amq.topic"}, {"source": "amq.topic", "destination": "none"},
], ids=str)
def test_there_is_no_such_exchange(conn, fields):
    assert refusal(conn, conn.channel(), "exchange.bind", **fields) == (
        404, "NOT_FOUND - no exchange 'none' in vhost '/'")


# Arguments of a new queue -> the text; {R} is the queue.
QUEUES = {
    "auto-delete quorum": (QUORUM, {"durable": True, "auto_delete": True}, "invalid property 'auto-delete' for {R}"),
    "exclusive quorum": (QUORUM, {"durable": True, "exclusive": True}, "invalid property 'exclusive-owner' for {R}"),
    "transient quorum": (QUORUM, {}, "invalid property 'non-durable' for {R}"),
    "number as exchange": ({"x-dead-letter-exchange": 5}, {},
                           "invalid type 'signedint' for arg 'x-dead-letter-exchange' in {R}"),
    "number as key": ({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": 5}, {},
                      "invalid arg 'x-dead-letter-routing-key' for {R}: {{unacceptable_type,signedint}}"),
    "number as overflow": ({"x-overflow": 5}, {}, "invalid arg 'x-overflow' for {R}: {{unacceptable_type,signedint}}"),
}
for argument in ("x-expires", "x-message-ttl", "x-max-length", "x-max-length-bytes", "x-max-priority"):
    QUEUES |= {
        f"{argument} below zero": ({argument: -1}, {}, f"invalid arg '{argument}' for {{R}}: {{{{value_negative,-1}}}}"),
        f"{argument} of text": ({argument: "5"}, {},
                                f"invalid arg '{argument}' for {{R}}: \"expected integer, got longstr\""),
        f"{argument} with a fraction": ({argument: 5.0}, {},
                                        f"invalid arg '{argument}' for {{R}}: \"expected integer, got double\""),
    }


@pytest.mark.parametrize("what", QUEUES)
def test_a_queue_that_cannot_be(conn, name, what, bystander):
    arguments, flags, text = QUEUES[what]
    queue = name()
    text = FAILED + text.format(R=f"queue '{queue}' in vhost '/'")
    assert refusal(conn, conn.channel(), "queue.declare", queue=queue, arguments=arguments, **flags) == (406, text[:255])
    absent(conn, "queue", queue)


@pytest.mark.parametrize("kind, arguments, text", [
    ("t", {}, "unknown exchange type 't'"), ("", {}, "invalid exchange type ''"),
    ("topic", {"alternate-exchange": 5}, "invalid type 'signedint' for arg 'alternate-exchange' in {R}"),
    ("x-consistent-hash", {"hash-header": "a", "hash-property": "message_id"},
     "hash-header and hash-property are mutually exclusive"),
    ("x-consistent-hash", {"hash-property": "odd"}, "Unsupported property: odd"),
], ids=str)
def test_an_exchange_that_cannot_be(conn, name, kind, arguments, text, bystander):
    if kind.startswith("x-"):
        needs_type(conn, kind)
    exchange = name("x")
    text = FAILED + text.replace("{R}", f"exchange '{exchange}' in vhost '/'")
    fields = {"exchange": exchange, "type": kind, "arguments": arguments}
    assert refusal(conn, conn.channel(), "exchange.declare", **fields) == (406, text[:255])
    absent(conn, "exchange", exchange)


@pytest.mark.parametrize("declared, again, text", [
    ({"x-message-ttl": V("l", 5)}, {}, "received none but current is the value '5' of type 'long'"),
    ({"x-message-ttl": 5}, {"x-message-ttl": 6}, "received '6' but current is '5'"),
    ({}, {"x-message-ttl": V("I", 6)}, "received the value '6' of type 'signedint' but current is none"),
], ids=str)
def test_a_queue_that_is_declared_otherwise(conn, name, declared, again, text):
    queue = name()
    channel = conn.channel()
    conn.call(channel, "queue.declare", queue=queue, exclusive=True, arguments=declared)
    text = f"{FAILED}inequivalent arg 'x-message-ttl' for queue '{queue}' in vhost '/': {text}"
    fields = {"queue": queue, "exclusive": True, "arguments": again}
    assert refusal(conn, channel, "queue.declare", **fields) == (406, text[:255])


@pytest.mark.parametrize("fields, text", [
    ({"durable": False}, "'durable' for {R}: received 'false' but current is 'true'"),
    ({"internal": True}, "'internal' for {R}: received 'true' but current is 'false'"),
    ({"auto_delete": True}, "'auto_delete' for {R}: received 'true' but current is 'false'"),
    ({"arguments": {"alternate-exchange": "a"}},
     "'alternate-exchange' for {R}: received the value 'a' of type 'longstr' but current is none"),
], ids=str)
def test_an_exchange_that_is_declared_otherwise(conn, fields, text):
    text = text.replace("{R}", "exchange 'amq.topic' in vhost '/'")
    fields = {"exchange": "amq.topic", "type": "topic", "durable": True} | fields
    assert refusal(conn, conn.channel(), "exchange.declare", **fields) == (406, f"{FAILED}inequivalent arg {text}"[:255])


@pytest.mark.parametrize("props, text", [
    ({"expiration": "-1"}, "invalid expiration '-1': {value_negative,-1}"),
    ({"expiration": "5x"}, "invalid expiration '5x': {leftover_string,\"x\"}"),
    ({"expiration": "315360000001"}, "invalid expiration '315360000001': {value_too_large,315360000001}"),
    ({"headers": {"CC": "a"}}, "invalid message: {unacceptable_type_in_header,\"CC\",longstr}"),
    ({"headers": {"BCC": 5}}, "invalid message: {unacceptable_type_in_header,\"BCC\",signedint}"),
    ({"reply_to": REPLIES}, "fast reply consumer does not exist"),
], ids=str)
def test_a_message_that_cannot_be(conn, props, text):
    assert refusal(conn, conn.channel(), "basic.publish", props=props) == (406, FAILED + text)


@pytest.mark.parametrize("first, then, text", [
    ("confirm.select", "tx.select", "cannot switch from confirm to tx mode"),
    ("tx.select", "confirm.select", "cannot switch from tx to confirm mode"),
    (None, "tx.commit", "channel is not transactional"), (None, "tx.rollback", "channel is not transactional"),
])
def test_a_mode_that_cannot_be(conn, first, then, text):
    channel = conn.channel()
    if first:
        conn.call(channel, first)
    assert refusal(conn, channel, then) == (406, FAILED + text)


@pytest.mark.parametrize("key, text", [
    ("abc", 'The binding key must be an integer: <<"abc">>'), ("", "The binding key must be an integer: <<>>"),
    ("0", "The binding key must be greater than 0"), ("-1", "The binding key must be greater than 0"),
    ("10001", "The binding key must not exceed 10000"),
])
def test_a_weight_that_cannot_be(conn, name, key, text):
    needs_type(conn, "x-consistent-hash")
    exchange, queue = name("x"), name()
    channel = conn.channel()
    conn.call(channel, "exchange.declare", exchange=exchange, type="x-consistent-hash")
    conn.call(channel, "queue.declare", queue=queue, exclusive=True)
    assert refusal(conn, channel, "queue.bind", queue=queue, exchange=exchange, routing_key=key) == (406, FAILED + text)
    # Nothing is bound.
    conn.call(conn.channel(), "exchange.delete", exchange=exchange, if_unused=True)


@pytest.mark.parametrize("flag", ["if_unused", "if_empty"])
def test_a_quorum_queue_is_deleted_on_conditions(conn, broker, name, flag):
    queue = name()
    channel = conn.channel()
    conn.call(channel, "queue.declare", queue=queue, durable=True, arguments=QUORUM)
    if broker.menzil:
        # Differs: RabbitMQ does not have the flags on quorum queues.
        conn.call(channel, "queue.delete", queue=queue, **{flag: True})
        absent(conn, "queue", queue)
        return
    code, text = refusal(conn, channel, "queue.delete", queue=queue, **{flag: True})
    assert code == 540 and text.startswith("NOT_IMPLEMENTED - cannot delete queue"), text
