"""Bad input: the code and text that RabbitMQ gives, the connection closed where it closes it, and every
other connection untouched. Each test keeps a bystander with a message in flight.

Texts are those of RabbitMQ 3.10 and 4.3 alike unless a line says otherwise.
"""

import socket
import struct
import time

import pytest

import rawamqp
from rawamqp import FRAME_BODY, FRAME_HEADER, FRAME_METHOD, encode_frame, encode_header, encode_method

PUBLISH = encode_frame(FRAME_METHOD, 1, encode_method("basic.publish", routing_key="nowhere"))
QOS = encode_frame(FRAME_METHOD, 1, encode_method("basic.qos"))
HEADER_505 = "UNEXPECTED_FRAME - expected content header for class 60, got "
METHOD_505 = "UNEXPECTED_FRAME - expected method frame, got non method frame instead"
BODY_505 = "UNEXPECTED_FRAME - expected content body, got non content body frame instead"
RUNNING_504 = "CHANNEL_ERROR - unexpected method in connection state running"


def method(name, channel=1, **arguments):
    return encode_frame(FRAME_METHOD, channel, encode_method(name, **arguments))


def header(size, **options):
    return encode_frame(FRAME_HEADER, 1, encode_header(size, **options))


def body(payload):
    return encode_frame(FRAME_BODY, 1, payload)


def declare_payload(tail):
    """queue.declare up to its table, then `tail`."""
    return encode_method("queue.declare", queue="abc", exclusive=True)[:-4] + tail


# What is sent on a connection with channel 1 open -> connection.close code, text, class id, method id.
HARD = {
    "frame end": (encode_frame(FRAME_METHOD, 1, encode_method("basic.qos"), end=0), 501,
                  "FRAME_ERROR - type 1, all octets = <<0,60,0,10,0,0,0,0,0,0,0>>: {invalid_frame_end_marker,0}", 0, 0),
    "frame too large": (encode_frame(FRAME_METHOD, 1, b"\0" * 131073), 501,
                        "FRAME_ERROR - type 1, all octets = <<>>: {frame_too_large,131073,", 0, 0),
    "huge declared size": (struct.pack(">BHI", 1, 1, 0xFFFFFFFF) + b"abc", 501,
                           "FRAME_ERROR - type 1, all octets = <<>>: {frame_too_large,4294967295,", 0, 0),
    "protocol header amid frames": (rawamqp.PROTOCOL_HEADER, 501, "FRAME_ERROR - type 65, ", 0, 0),
    "unknown frame type": (encode_frame(7, 1, b"xx"), 501,
                           'FRAME_ERROR - type 7, all octets = <<"xx">>: unknown_frame', 0, 0),
    "unknown frame type on channel 0": (encode_frame(7, 0, b"xx"), 501, "FRAME_ERROR - type 7, ", 0, 0),
    "method payload of one byte": (encode_frame(FRAME_METHOD, 1, b"\0"), 501,
                                   "FRAME_ERROR - type 1, all octets = <<0>>: unknown_frame", 0, 0),
    "method payload of none": (encode_frame(FRAME_METHOD, 1, b""), 501,
                               "FRAME_ERROR - type 1, all octets = <<>>: unknown_frame", 0, 0),
    "arguments cut short": (encode_frame(FRAME_METHOD, 1, encode_method("queue.declare", queue="abc")[:-3]), 501,
                            "FRAME_ERROR - cannot decode <<0,0,3,97,98,99,0,0>>", 50, 10),
    "arguments with bytes left": (encode_frame(FRAME_METHOD, 1, encode_method("basic.qos") + b"zz"), 501,
                                  "FRAME_ERROR - cannot decode <<0,0,0,0,0,0,0,122,122>>", 60, 10),
    "string beyond the frame": (encode_frame(FRAME_METHOD, 1, struct.pack(">HHHB", 50, 10, 0, 200) + b"abc"), 501,
                                "FRAME_ERROR - cannot decode <<0,0,200,97,98,99>>", 50, 10),
    "table beyond the frame": (encode_frame(FRAME_METHOD, 1, declare_payload(struct.pack(">I", 99999))), 501,
                               "FRAME_ERROR - cannot decode <<0,0,3,97,98,99,4,0,1,134,159>>", 50, 10),
    "a name that is no UTF-8": (method("queue.declare", queue=b"\xff\xfe", exclusive=True), 501,
                                "FRAME_ERROR - Malformed UTF-8 in shortstr", 0, 0),
    "header without publish": (header(3), 505, METHOD_505, 0, 0),
    "body without publish": (body(b"abc"), 505, METHOD_505, 0, 0),
    "body without header": (PUBLISH + body(b"abc"), 505, HEADER_505 + "non content header frame instead", 60, 40),
    "header of another class": (PUBLISH + header(3, class_id=10), 505, HEADER_505 + "one for class 10 instead", 60, 40),
    "two headers": (PUBLISH + header(3) + header(3), 505, BODY_505, 60, 40),
    "method instead of a header": (PUBLISH + QOS, 505, HEADER_505 + "non content header frame instead", 60, 40),
    "publish instead of a header": (PUBLISH + PUBLISH, 505, HEADER_505 + "non content header frame instead", 60, 40),
    "method amid the body": (PUBLISH + header(3) + body(b"a") + QOS, 505, BODY_505, 60, 40),
    "header payload cut short": (PUBLISH + encode_frame(FRAME_HEADER, 1, b"\0\x3c\0"), 501,
                                 "FRAME_ERROR - type 2, all octets = <<0,60,0>>: unknown_frame", 0, 0),
    "method on a channel never opened": (method("basic.qos", 9), 504, "CHANNEL_ERROR - expected 'channel.open'", 60, 10),
    "content on a channel never opened": (encode_frame(FRAME_HEADER, 9, encode_header(0)), 505, METHOD_505, 0, 0),
    "closing a channel never opened": (method("channel.close", 9, reply_code=200), 504,
                                       "CHANNEL_ERROR - expected 'channel.open'", 20, 40),
    "channel.open twice": (method("channel.open"), 504, "CHANNEL_ERROR - second 'channel.open' seen", 20, 10),
    "basic on channel 0": (method("basic.qos", 0), 504, RUNNING_504, 60, 10),
    "channel.open on channel 0": (method("channel.open", 0), 504, RUNNING_504, 20, 10),
    "connection.open again": (method("connection.open", 0, virtual_host="/"), 504, RUNNING_504, 10, 40),
    "tune-ok again": (method("connection.tune-ok", 0), 504, RUNNING_504, 10, 31),
    "start-ok again": (method("connection.start-ok", 0, mechanism="PLAIN"), 504, RUNNING_504, 10, 11),
    "connection.close on channel 1": (method("connection.close", reply_code=200), 503,
                                      "COMMAND_INVALID - unimplemented method", 10, 50),
    "connection.open on channel 1": (method("connection.open", virtual_host="/"), 503,
                                     "COMMAND_INVALID - unimplemented method", 10, 40),
    "a method of the server": (method("basic.qos-ok"), 503, "COMMAND_INVALID - unimplemented method", 60, 11),
    "immediate": (method("basic.publish", immediate=True) + header(0), 540, "NOT_IMPLEMENTED - immediate=true", 60, 40),
    "prefetch_size": (method("basic.qos", prefetch_size=7), 540, "NOT_IMPLEMENTED - prefetch_size!=0 (7)", 60, 10),
    "channel.flow off": (method("channel.flow", active=False), 540, "NOT_IMPLEMENTED - active=false", 20, 20),
    "recover without requeue": (method("basic.recover"), 540, "NOT_IMPLEMENTED - requeue=false", 60, 110),
    "consumer tag twice": (method("queue.declare", queue="twice", exclusive=True)
                           + 2 * method("basic.consume", queue="twice", consumer_tag="t"), 530,
                           "NOT_ALLOWED - attempt to reuse consumer tag 't'", 60, 20),
}


@pytest.mark.parametrize("what", HARD)
def test_a_hard_error_closes_the_connection_by_name(connect, bystander, what):
    data, code, text, class_id, method_id = HARD[what]
    conn = connect(frame_max=131072)
    conn.channel(1)
    conn.send_bytes(data)
    event = conn.expect_connection_close(code, text)
    assert (event.class_id, event.method_id) == (class_id, method_id)
    assert conn.read_eof(), "the socket ends after close-ok"


# What must end the connection although RabbitMQ itself gives no useful answer.
ENDS = {
    # RabbitMQ drops the socket without a word.
    "unknown class": encode_frame(FRAME_METHOD, 1, struct.pack(">HH", 77, 10)),
    "unknown method": encode_frame(FRAME_METHOD, 1, struct.pack(">HH", 60, 199)),
    "unknown class on channel 0": encode_frame(FRAME_METHOD, 0, struct.pack(">HH", 77, 10)),
    "unknown field type": method("queue.declare", queue="abc", exclusive=True, arguments=b"\x01kZ\0"),
    # RabbitMQ: 541 INTERNAL_ERROR, once it looks at the properties.
    "properties cut short": PUBLISH + header(0, props=b"\xff\xff\x05ab") + QOS,
}


@pytest.mark.parametrize("what", ENDS)
def test_what_cannot_be_read_ends_the_connection(connect, bystander, what):
    conn = connect()
    conn.channel(1)
    conn.send_bytes(ENDS[what])
    try:
        event = conn.expect_connection_close()
        assert 500 <= event.reply_code < 600, event
    except rawamqp.Closed:
        pass
    assert conn.read_eof()


# Soft errors: the channel closes, the connection lives.
SOFT = {
    "no queue": (method("queue.declare", queue="none", passive=True), 404, "NOT_FOUND - no queue 'none' in vhost '/'",
                 50, 10),
    "no exchange": (method("exchange.declare", exchange="none", passive=True), 404,
                    "NOT_FOUND - no exchange 'none' in vhost '/'", 40, 10),
    "publish to no exchange": (method("basic.publish", exchange="none") + header(0), 404,
                               "NOT_FOUND - no exchange 'none' in vhost '/'", 60, 40),
    "consume from no queue": (method("basic.consume", queue="none"), 404, "NOT_FOUND - no queue 'none' in vhost '/'",
                              60, 20),
    "get from no queue": (method("basic.get", queue="none"), 404, "NOT_FOUND - no queue 'none' in vhost '/'", 60, 70),
    "no queue declared before": (method("basic.get"), 404, "NOT_FOUND - no previously declared queue", 60, 70),
    "reserved queue name": (method("queue.declare", queue="amq.mine"), 403,
                            "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'", 50, 10),
    "reserved exchange name": (method("exchange.declare", exchange="amq.mine", type="direct"), 403,
                               "ACCESS_REFUSED - exchange name 'amq.mine' contains reserved prefix 'amq.*'", 40, 10),
    "the default exchange deleted": (method("exchange.delete", exchange=""), 403,
                                     "ACCESS_REFUSED - operation not permitted on the default exchange", 40, 20),
    "the default exchange bound": (method("queue.declare", queue="b", exclusive=True)
                                   + method("queue.bind", queue="b", exchange=""), 403,
                                   "ACCESS_REFUSED - operation not permitted on the default exchange", 50, 20),
    "a system exchange deleted": (method("exchange.delete", exchange="amq.direct"), 403,
                                  "ACCESS_REFUSED - deletion of system exchange 'amq.direct' in vhost '/' not allowed",
                                  40, 20),
    "unknown delivery tag": (method("basic.ack", delivery_tag=7), 406, "PRECONDITION_FAILED - unknown delivery tag 7",
                             60, 80),
    "delivery tag zero": (method("basic.ack"), 406, "PRECONDITION_FAILED - unknown delivery tag 0", 60, 80),
    "unknown tag rejected": (method("basic.reject", delivery_tag=3), 406,
                             "PRECONDITION_FAILED - unknown delivery tag 3", 60, 90),
    "unknown tag nacked": (method("basic.nack", delivery_tag=4, multiple=True), 406,
                           "PRECONDITION_FAILED - unknown delivery tag 4", 60, 120),
    "expiration that is no number": (PUBLISH + header(0, props={"expiration": "abc"}), 406,
                                     "PRECONDITION_FAILED - invalid expiration 'abc': no_integer", 60, 40),
    "another's user_id": (PUBLISH + header(0, props={"user_id": "abc"}), 406,
                          "PRECONDITION_FAILED - user_id property set to 'abc' but authenticated user was 'guest'",
                          60, 40),
    "negative message-ttl": (method("queue.declare", queue="n", exclusive=True, arguments={"x-message-ttl": -1}), 406,
                             "PRECONDITION_FAILED - invalid arg 'x-message-ttl' for queue 'n' in vhost '/'", 50, 10),
    "expires of zero": (method("queue.declare", queue="n", exclusive=True, arguments={"x-expires": 0}), 406,
                        "PRECONDITION_FAILED - invalid arg 'x-expires' for queue 'n' in vhost '/'", 50, 10),
    "expires of text": (method("queue.declare", queue="n", exclusive=True, arguments={"x-expires": "soon"}), 406,
                        "PRECONDITION_FAILED - invalid arg 'x-expires' for queue 'n' in vhost '/'", 50, 10),
    "unknown overflow": (method("queue.declare", queue="n", exclusive=True, arguments={"x-overflow": "spill"}), 406,
                         "PRECONDITION_FAILED - invalid arg 'x-overflow' for queue 'n' in vhost '/'", 50, 10),
    "wrong x-match": (method("queue.declare", queue="n", exclusive=True)
                      + method("queue.bind", queue="n", exchange="amq.headers", arguments={"x-match": "some"}), 406,
                      "PRECONDITION_FAILED - Invalid x-match field value ", 50, 20),
    "queue redeclared": (method("queue.declare", queue="r", exclusive=True)
                         + method("queue.declare", queue="r", exclusive=True, auto_delete=True), 406,
                         "PRECONDITION_FAILED - inequivalent arg 'auto_delete' for queue 'r' in vhost '/': "
                         "received 'true' but current is 'false'", 50, 10),
    "queue redeclared with an argument": (
        method("queue.declare", queue="r", exclusive=True, arguments={"x-max-length": 5})
        + method("queue.declare", queue="r", exclusive=True), 406,
        "PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue 'r' in vhost '/': received none but current is "
        "the value '5' of type 'signedint'", 50, 10),
    "exchange redeclared": (method("exchange.declare", exchange="amq.direct", type="fanout", durable=True), 406,
                            "PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'amq.direct' in vhost '/': "
                            "received 'fanout' but current is 'direct'", 40, 10),
    "queue in use": (method("queue.declare", queue="u", exclusive=True) + method("basic.consume", queue="u")
                     + method("queue.delete", queue="u", if_unused=True), 406,
                     "PRECONDITION_FAILED - queue 'u' in vhost '/' in use", 50, 40),
    "publish to an internal exchange": (
        method("exchange.declare", exchange="bad-input-internal", type="fanout", internal=True, auto_delete=True)
        + method("basic.publish", exchange="bad-input-internal") + header(0), 403,
        "ACCESS_REFUSED - cannot publish to internal exchange 'bad-input-internal' in vhost '/'", 60, 40),
}


@pytest.mark.parametrize("what", SOFT)
def test_a_soft_error_closes_the_channel_only(connect, bystander, what):
    data, code, text, class_id, method_id = SOFT[what]
    conn = connect()
    other = conn.channel(2)
    conn.channel(1)
    conn.send_bytes(data + QOS + PUBLISH + header(3) + body(b"abc"))
    event = conn.expect(1, "channel.close")
    conn._check_close(event, code, text)
    assert (event.class_id, event.method_id) == (class_id, method_id)
    conn.inbox.clear()
    conn.quiet(1, 0.2)  # what follows on the channel is thrown away
    conn.send(1, "channel.close-ok")
    conn.call(other, "basic.qos", prefetch_count=1)
    conn.call(1, "channel.open")  # the number may be used again
    conn.close()


def test_an_unknown_exchange_type_is_refused(connect, broker, bystander):
    conn = connect()
    channel = conn.channel()
    conn.send(channel, "exchange.declare", exchange="odd", type="no-such-type")
    if broker.rabbitmq_before(4):  # RabbitMQ 3.x: a hard 503
        conn.expect_connection_close(503, "COMMAND_INVALID - unknown exchange type 'no-such-type'")
    else:
        conn.expect_close(channel, 406, "PRECONDITION_FAILED - unknown exchange type 'no-such-type'")


def test_a_body_longer_than_announced(connect, broker, bystander):
    if broker.rabbitmq_before(4):
        pytest.skip("RabbitMQ 3.x waits for more")
    conn = connect()
    conn.channel(1)
    conn.send_bytes(PUBLISH + header(3) + body(b"abcd"))
    conn.expect_connection_close(501, "FRAME_ERROR - content body frame exceeds remaining content size")


@pytest.mark.parametrize("size", [600 << 20, 2**63, 2**64 - 1])
def test_a_body_size_beyond_the_cap_is_refused_at_its_header(connect, broker, bystander, size):
    if broker.rabbitmq_before(4):
        pytest.skip("RabbitMQ 3.x waits for the body")
    conn = connect()
    conn.channel(1)
    conn.send_bytes(PUBLISH + header(size))
    conn.expect_connection_close(501, f"FRAME_ERROR - content body size {size} exceeds maximum allowed size ")


def test_many_announced_bodies_that_never_come(connect, name, bystander):
    """64 connections announce 100 MB on 16 channels each; that costs nobody anything."""
    conns = []
    for _ in range(64):
        conn = connect()
        for channel in range(1, 17):
            conn.send_bytes(method("channel.open", channel)
                            + encode_frame(FRAME_METHOD, channel, encode_method("basic.publish", routing_key="x"))
                            + encode_frame(FRAME_HEADER, channel, encode_header(100_000_000))
                            + encode_frame(FRAME_BODY, channel, b"begin"))
        conns.append(conn)
    for conn in conns:
        for channel in range(1, 17):
            conn.expect(channel, "channel.open-ok")


def nested(kind, depth):
    value = b""
    for _ in range(depth):
        value = (b"\x01kF" if kind == "F" else b"A") + struct.pack(">I", len(value)) + value
    return value if kind == "F" else b"\x01k" + value


@pytest.mark.parametrize("kind", "FA")
@pytest.mark.parametrize("depth", [100, 4000, 15000])
def test_tables_nested_without_end(connect, name, bystander, kind, depth):
    """RabbitMQ takes any depth that fits a frame; Menzil may refuse by name. Never a crash, never a hang."""
    for sent in ("arguments", "headers"):
        conn = connect()
        channel = conn.channel()
        if sent == "arguments":
            conn.send(channel, "queue.declare", queue=name(), exclusive=True, arguments=nested(kind, depth))
            answer = "queue.declare-ok"
        else:
            conn.publish(channel, "", "nowhere", b"", {"headers": nested(kind, depth)})
            conn.send(channel, "basic.qos")
            answer = "basic.qos-ok"
        event = conn.expect(None, answer, "channel.close", "connection.close")
        if event.name != answer:
            assert event.reply_code in (406, 501, 502), event
        conn.abort()


def test_a_frame_may_exceed_frame_max_by_its_overhead_only(connect, bystander):
    """RabbitMQ allows a payload of frame_max; one byte more is too large."""
    conn = connect()
    channel = conn.channel()
    conn.publish(channel, "", "nowhere", b"x" * conn.frame_max, chunk=conn.frame_max)
    conn.call(channel, "basic.qos")
    conn.publish(channel, "", "nowhere", b"x" * (conn.frame_max + 1), chunk=conn.frame_max + 1)
    conn.expect_connection_close(501, "{frame_too_large,")


def test_a_closed_channel_is_closed(connect, bystander):
    conn = connect()
    channel = conn.channel()
    conn.call(channel, "channel.close", reply_code=200)
    conn.send(channel, "basic.qos")
    conn.expect_connection_close(504, "CHANNEL_ERROR - expected 'channel.open'")


@pytest.mark.parametrize("greeting", [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"AMQP\x00\x00\x09\x02", b"AMQP\x00\x00\x0a\x00",
                                      b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"AMQP\x02\x09\x09\x09"])
def test_another_protocol_is_told_ours(target, broker, bystander, greeting):
    conn = rawamqp.Conn.connect(target.host, target.port)
    conn.send_bytes(greeting)
    answer = conn.read_bytes(8)
    # Differs: RabbitMQ 4.x answers some of these with AMQP 3 1 0 0, its 1.0 header; Menzil has no 1.0 yet.
    allowed = [rawamqp.PROTOCOL_HEADER]
    if not broker.menzil and not broker.rabbitmq_before(4):
        allowed.append(b"AMQP\x03\x01\x00\x00")
    assert answer in allowed
    assert conn.read_eof()


def test_slow_and_silent_handshakes_are_dropped(target, bystander):
    """A silent peer, half a greeting, and one byte a second: all are closed by the handshake deadline."""
    peers = [rawamqp.Conn.connect(target.host, target.port) for _ in range(3)]
    silent, half, slow = peers
    half.send_bytes(b"AMQ")
    slow.send_bytes(rawamqp.PROTOCOL_HEADER)
    slow.expect(0, "connection.start")
    start_ok = iter(method("connection.start-ok", 0, mechanism="PLAIN", response="\0guest\0guest", locale="en_US"))
    deadline = time.monotonic() + 60
    while not all(peer.eof for peer in peers):
        assert time.monotonic() < deadline, "a slow handshake is still open"
        try:
            slow.send_bytes(bytes([next(start_ok)]))
        except (rawamqp.Closed, OSError):
            pass
        for peer in peers:
            peer.read_eof(0.33)
    for peer in peers:
        peer.abort()


def test_a_bad_login_is_told_only_to_who_can_be_told(target, bystander):
    with pytest.raises(rawamqp.ConnectionClosed) as told:
        rawamqp.Conn.open(target, password="wrong")
    assert told.value.reply_code == 403
    assert told.value.reply_text.startswith("ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN.")
    with pytest.raises(rawamqp.Closed):
        rawamqp.Conn.open(target, password="wrong", capabilities={})


def test_an_unknown_virtual_host_or_mechanism(target, bystander):
    with pytest.raises(rawamqp.ConnectionClosed, match="530 NOT_ALLOWED - vhost nowhere not found"):
        rawamqp.Conn.open(target, vhost="nowhere")
    with pytest.raises((rawamqp.ConnectionClosed, rawamqp.Closed)) as refused:
        rawamqp.Conn.open(target, mechanism="NONSENSE")
    if isinstance(refused.value, rawamqp.ConnectionClosed):
        assert refused.value.reply_code == 503
        assert "unknown authentication mechanism 'NONSENSE'" in refused.value.reply_text


def test_a_peer_that_resets_amid_a_publish_harms_nobody(connect, target, name, bystander):
    for cut in (3, 9, 30, 60):
        conn = connect()
        channel = conn.channel()
        conn.send_bytes(conn.publish_frames(channel, "", "nowhere", b"x" * 100)[:cut])
        conn.abort(reset=True)
    with socket.create_connection((target.host, target.port)) as sock:
        sock.sendall(rawamqp.PROTOCOL_HEADER[:4])
