"""Frames as the standard allows them: cut anywhere, many at once, contents of channels interleaved."""

import pytest

import rawamqp
from conftest import declare, get_all
from rawamqp import FRAME_BODY, FRAME_HEADER, FRAME_HEARTBEAT, FRAME_METHOD, encode_frame, encode_header, encode_method


def publish_method(channel, queue):
    return encode_frame(FRAME_METHOD, channel, encode_method("basic.publish", routing_key=queue))


def test_a_conversation_sent_one_byte_at_a_time(target, conn, name):
    queue, slow = name(), rawamqp.Conn.connect(target.host, target.port)

    def dribble(data):
        for byte in data:
            slow.send_bytes(bytes([byte]))

    def say(channel, method, **arguments):
        dribble(encode_frame(FRAME_METHOD, channel, encode_method(method, **arguments)))

    dribble(rawamqp.PROTOCOL_HEADER)
    slow.expect(0, "connection.start")
    say(0, "connection.start-ok", client_properties={"product": "slow"}, mechanism="PLAIN",
        response=f"\0{target.user}\0{target.password}", locale="en_US")
    slow.expect(0, "connection.tune")
    say(0, "connection.tune-ok", channel_max=10, frame_max=8192, heartbeat=0)
    say(0, "connection.open", virtual_host="/")
    slow.expect(0, "connection.open-ok")
    say(1, "channel.open")
    slow.expect(1, "channel.open-ok")
    say(1, "queue.declare", queue=queue, exclusive=True)
    slow.expect(1, "queue.declare-ok")
    say(1, "confirm.select")
    slow.expect(1, "confirm.select-ok")
    dribble(slow.publish_frames(1, "", queue, b"byte by byte", {"headers": {"k": [1, "x"]}}, chunk=5))
    slow.expect(1, "basic.ack")
    say(1, "basic.get", queue=queue, no_ack=True)
    event = slow.expect(1, "basic.get-ok")
    assert (event.body, event.props["headers"]["k"]) == (b"byte by byte", [1, "x"])
    slow.close()


def test_a_whole_session_in_one_write(target, name):
    """Nothing of this waits for an answer; the answers come in order."""
    queue, conn = name(), rawamqp.Conn.connect(target.host, target.port)
    methods = [
        (0, "connection.tune-ok", {"channel_max": 10, "frame_max": 8192, "heartbeat": 0}),
        (0, "connection.open", {"virtual_host": "/"}),
        (1, "channel.open", {}),
        (1, "queue.declare", {"queue": queue, "exclusive": True}),
        (1, "confirm.select", {}),
        (1, "basic.qos", {"prefetch_count": 5}),
    ]
    conn.send_bytes(rawamqp.PROTOCOL_HEADER)
    conn.expect(0, "connection.start")
    conn.send(0, "connection.start-ok", mechanism="PLAIN", response=f"\0{target.user}\0{target.password}",
              locale="en_US")
    conn.expect(0, "connection.tune")
    data = b"".join(encode_frame(FRAME_METHOD, channel, encode_method(method, **arguments))
                    for channel, method, arguments in methods)
    conn.frame_max = 8192
    conn.send_bytes(data + b"".join(conn.publish_frames(1, "", queue, b"x" * size) for size in (0, 1, 20000)))
    for answer in ("connection.open-ok", "channel.open-ok", "queue.declare-ok", "confirm.select-ok", "basic.qos-ok"):
        assert conn.read().name == answer
    settled = 0
    while settled < 3:
        event = conn.expect(1, "basic.ack")
        settled = max(settled + 1, event.delivery_tag if event.multiple else 0)
    assert [len(body) for body in get_all(conn, 1, queue)] == [0, 1, 20000]
    conn.close()


def test_contents_of_channels_interleave(conn, name):
    queue, setup = name(), conn.channel()
    declare(conn, setup, queue, arguments={"x-expires": 120000})
    first, second = conn.channel(), conn.channel()
    conn.send_bytes(publish_method(first, queue) + publish_method(second, queue)
                    + encode_frame(FRAME_HEADER, second, encode_header(4))
                    + encode_frame(FRAME_HEADER, first, encode_header(6))
                    + encode_frame(FRAME_BODY, first, b"fi") + encode_frame(FRAME_BODY, second, b"se")
                    + encode_frame(FRAME_HEARTBEAT, 0, b"")
                    + encode_frame(FRAME_METHOD, setup, encode_method("basic.qos"))
                    + encode_frame(FRAME_BODY, second, b"co") + encode_frame(FRAME_BODY, first, b"rst!"))
    conn.expect(setup, "basic.qos-ok")
    for channel in (second, first):
        conn.call(channel, "basic.qos")
    assert sorted(get_all(conn, setup, queue)) == [b"first!", b"seco"]


@pytest.mark.parametrize("chunk", [1, 7, 4000, 131064])
def test_a_body_of_any_number_of_frames(conn, name, chunk):
    queue, channel = name(), conn.channel()
    conn.call(channel, "queue.declare", queue=queue, exclusive=True)
    body = bytes(range(256)) * (4 if chunk < 100 else 2000)
    conn.publish(channel, "", queue, body, chunk=chunk)
    assert conn.call(channel, "basic.get", queue=queue, no_ack=True).body == body


def test_empty_body_frames_count_for_nothing(conn, name):
    queue, channel = name(), conn.channel()
    conn.call(channel, "queue.declare", queue=queue, exclusive=True)
    empty = encode_frame(FRAME_BODY, channel, b"")
    conn.send_bytes(publish_method(channel, queue) + encode_frame(FRAME_HEADER, channel, encode_header(4)) + empty
                    + encode_frame(FRAME_BODY, channel, b"bo") + empty + encode_frame(FRAME_BODY, channel, b"dy"))
    assert conn.call(channel, "basic.get", queue=queue, no_ack=True).body == b"body"


EVERY_TYPE = {
    "t": True, "b": rawamqp.V("b", -128), "B": rawamqp.V("B", 255), "s": rawamqp.V("s", -32768),
    "u": rawamqp.V("u", 65535), "I": rawamqp.V("I", -2**31), "i": rawamqp.V("i", 2**32 - 1),
    "l": rawamqp.V("l", -2**63), "L": rawamqp.V("L", 2**63 - 1), "f": rawamqp.V("f", 0.5), "d": 0.1,
    "D": rawamqp.V("D", (3, 314159)), "S": "text \u00fc", "x": rawamqp.V("x", b"\0\xff\xfe"),
    "T": rawamqp.V("T", 1700000000), "V": None, "A": [1, "two", [3, None], {"four": False}],
    "F": {"inner": {"inmost": rawamqp.V("x", b"")}}, "": "an empty name",
}


def test_every_field_type_comes_back_as_it_went(conn, name, broker):
    queue, channel = name(), conn.channel()
    conn.call(channel, "queue.declare", queue=queue, exclusive=True, arguments=EVERY_TYPE)
    conn.publish(channel, "", queue, b"b", {"headers": EVERY_TYPE})
    event = conn.call(channel, "basic.get", queue=queue, no_ack=True)
    sent = rawamqp.decode_header(rawamqp.encode_header(1, {"headers": EVERY_TYPE}))[2]["headers"]
    if broker.menzil:
        # Differs: RabbitMQ writes some types anew (`i` and `u`, say); Menzil sends the bytes it got.
        assert event.header_payload == rawamqp.encode_header(1, {"headers": EVERY_TYPE})
    assert event.props["headers"].plain() == sent.plain()


@pytest.mark.parametrize("mechanism", ["PLAIN", "AMQPLAIN"])
def test_both_mechanisms_log_in(connect, mechanism):
    conn = connect(mechanism=mechanism)
    assert mechanism in conn.start.mechanisms.split()
    conn.channel()


def test_the_start_tells_what_the_broker_can(conn):
    properties = conn.start.server_properties
    for capability in ("publisher_confirms", "exchange_exchange_bindings", "basic.nack", "consumer_cancel_notify",
                       "connection.blocked", "authentication_failure_close", "per_consumer_qos"):
        assert properties["capabilities"][capability] is True
    assert (conn.start.version_major, conn.start.version_minor) == (0, 9)
    for key in ("product", "version", "platform"):
        assert properties[key]
    assert conn.tune.frame_max == 131072 and conn.tune.heartbeat == 60 and conn.tune.channel_max == 2047
