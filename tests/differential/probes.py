"""What `ask` asks: sections of (what is sent, function of a Talk)."""

import struct

from rawamqp import FRAME_BODY, FRAME_HEADER, FRAME_METHOD, V, Closed, Conn, Timeout, encode_frame, encode_header
from rawamqp import encode_method, shortstr, table

from talk import show

SECTIONS = []


def section(title):
    entries = []
    SECTIONS.append((title, entries))

    def probe(what):
        def keep(run):
            entries.append((what, run))
            return run
        return keep
    probe.entries = entries
    return probe


def steps(*todo, channels=1, before=(), **options):
    """A probe of plain methods: `before` must succeed and is not shown; each step is (name, args) on
    channel 1, or (channel, name, args), or ("publish", exchange, key, body, props, mandatory)."""
    def run(talk):
        conn = talk.open(channels, **options)
        for step in before:
            one(conn, step, True)
        for step in todo:
            try:
                one(conn, step, False)
            except (Closed, Timeout):
                break
        used = sorted({step[0] for step in todo if not isinstance(step, bytes) and isinstance(step[0], int) and step[0]} | {1})
        talk.settle(conn, *used)
    return run


def one(conn, step, wait):
    if isinstance(step, bytes):
        return conn.send_bytes(step)
    channel = 1
    if isinstance(step[0], int):
        channel, *step = step
    if step[0] == "publish":
        return conn.publish(channel, *step[1:])
    name, args = step[0], (step[1] if len(step) > 1 else {})
    if wait and not args.get("nowait") and not name.startswith(("basic.ack", "basic.nack", "basic.reject")):
        return conn.call(channel, name, **args)
    return conn.send(channel, name, **args)


def declare(queue="q", durable=True, **more):
    return ("queue.declare", {"queue": queue, "durable": durable, **more})


def exchange(name="x", kind="direct", **more):
    return ("exchange.declare", {"exchange": name, "type": kind, **more})


def bind(queue="q", source="x", key="k", **more):
    return ("queue.bind", {"queue": queue, "exchange": source, "routing_key": key, **more})


def publish(exchange_name="", key="q", body=b"m", props=None, mandatory=False, immediate=False):
    return ("publish", exchange_name, key, body, props, mandatory, immediate)


def add(probe, what, *todo, **options):
    probe.entries.append((what, steps(*todo, **options)))


# --- handshake ----------------------------------------------------------------------------------

shake = section("Handshake")


def header_probe(data):
    def run(talk):
        conn = talk.bytes()
        conn.send_bytes(data)
        conn.read_eof(5)
        talk.say(f"{bytes(conn.buffer)[:60]!r}")
        talk.say("socket closed" if conn.eof else "still open after 5 s")
    return run


for text, data in [("`AMQP 0 0 9 1`", b"AMQP\0\0\x09\x01"), ("`AMQP 1 1 0 9`", b"AMQP\x01\x01\0\x09"),
                   ("`AMQP 0 0 9 0`", b"AMQP\0\0\x09\0"), ("`AMQP 0 0 9 2`", b"AMQP\0\0\x09\x02"),
                   ("`AMQP 0 0 10 0`", b"AMQP\0\0\x0a\0"), ("`AMQP 0 0 8 0`", b"AMQP\0\0\x08\0"),
                   ("`AMQP 1 1 8 0`", b"AMQP\x01\x01\x08\0"), ("`AMQP 1 1 0 8`", b"AMQP\x01\x01\0\x08"),
                   ("`AMQP 1 1 9 1`", b"AMQP\x01\x01\x09\x01"), ("`AMQP 0 1 0 0` (1.0)", b"AMQP\0\x01\0\0"),
                   ("`AMQP 3 1 0 0` (1.0 with SASL)", b"AMQP\x03\x01\0\0"), ("`AMQP 2 1 0 0` (1.0 TLS)", b"AMQP\x02\x01\0\0"),
                   ("`GET / HTTP/1.1`", b"GET / HTTP/1.1\r\n\r\n"), ("a TLS hello", b"\x16\x03\x01\x02\x00\x01\x00\x01"),
                   ("`AMQX....`", b"AMQX\0\0\x09\x01"), ("4 bytes `AMQP` and nothing more", b"AMQP")]:
    shake.entries.append((text, header_probe(data)))


@shake("connection.start")
def _(talk):
    conn = talk.open()
    start, tune = conn.start, conn.tune
    for key, value in start.server_properties.entries:
        talk.say(f"{key}: {'; '.join(f'{k}={v.tag} {v.value}' for k, v in value.value.entries) if value.tag == 'F' else value.tag + ' ' + value.value}")
    talk.say(f"version {start.version_major}.{start.version_minor}, mechanisms `{start.mechanisms}`, locales `{start.locales}`")
    talk.say(f"tune channel_max={tune.channel_max} frame_max={tune.frame_max} heartbeat={tune.heartbeat}")


def login(mechanism="PLAIN", response=b"\0guest\0guest", capabilities=None, locale="en_US", then=None):
    def run(talk):
        conn = talk.bytes()
        conn.send_bytes(b"AMQP\0\0\x09\x01")
        conn.expect(0, "connection.start")
        props = {"capabilities": capabilities} if capabilities is not None else {}
        conn.send(0, "connection.start-ok", client_properties=props, mechanism=mechanism, response=response, locale=locale)
        if then:
            conn.expect(0, "connection.tune")
            then(conn)
        talk.settle(conn)
    return run


FAILURE = {"authentication_failure_close": True}
for text, args in [("wrong password, client has authentication_failure_close", {"response": b"\0guest\0wrong", "capabilities": FAILURE}),
                   ("wrong password, client has it not", {"response": b"\0guest\0wrong"}),
                   ("wrong password, client has it = false", {"response": b"\0guest\0wrong", "capabilities": {"authentication_failure_close": False}}),
                   ("unknown user, with", {"response": b"\0nobody\0x", "capabilities": FAILURE}),
                   ("empty password, with", {"response": b"\0guest\0", "capabilities": FAILURE}),
                   ("AMQPLAIN wrong password, with", {"mechanism": "AMQPLAIN", "capabilities": FAILURE, "response": table({"LOGIN": "guest", "PASSWORD": "x"})[4:]}),
                   ("AMQPLAIN without PASSWORD, with", {"mechanism": "AMQPLAIN", "capabilities": FAILURE, "response": table({"LOGIN": "guest"})[4:]}),
                   ("AMQPLAIN undecodable, with", {"mechanism": "AMQPLAIN", "capabilities": FAILURE, "response": b"\x05abc"}),
                   ("AMQPLAIN empty response, with", {"mechanism": "AMQPLAIN", "capabilities": FAILURE, "response": b""}),
                   ("AMQPLAIN PASSWORD of type I, with", {"mechanism": "AMQPLAIN", "capabilities": FAILURE, "response": table({"LOGIN": "guest", "PASSWORD": 5})[4:]}),
                   ("mechanism `NOPE`, with", {"mechanism": "NOPE", "capabilities": FAILURE}),
                   ("mechanism `NOPE`, without", {"mechanism": "NOPE"}),
                   ("mechanism `plain`, with", {"mechanism": "plain", "capabilities": FAILURE}),
                   ("mechanism `` (empty), with", {"mechanism": "", "capabilities": FAILURE}),
                   ("PLAIN response `guest` (no NUL), with", {"response": b"guest", "capabilities": FAILURE}),
                   ("PLAIN response `guest` (no NUL), without", {"response": b"guest"}),
                   ("PLAIN response empty, with", {"response": b"", "capabilities": FAILURE}),
                   ("PLAIN response `NUL guest` (one NUL), with", {"response": b"\0guest", "capabilities": FAILURE}),
                   ("PLAIN response with authzid `guest NUL guest NUL guest`, with", {"response": b"guest\0guest\0guest", "capabilities": FAILURE}),
                   ("PLAIN response with three NULs, with", {"response": b"\0guest\0guest\0", "capabilities": FAILURE}),
                   ("ANONYMOUS", {"mechanism": "ANONYMOUS", "capabilities": FAILURE, "response": b""}),
                   ("AMQPLAIN good", {"mechanism": "AMQPLAIN", "response": table({"LOGIN": "guest", "PASSWORD": "guest"})[4:]}),
                   ("locale `xx`", {"locale": "xx"}),
                   ("capabilities not a table (string)", {"capabilities": "yes", "response": b"\0guest\0wrong"})]:
    shake.entries.append((text, login(**args)))


def tuned(channel_max=0, frame_max=0, heartbeat=0, vhost=None, raw=None, tune=(2047, 131072)):
    def then(conn):
        conn.send(0, "connection.tune-ok", channel_max=channel_max, frame_max=frame_max, heartbeat=heartbeat)
        conn.send(0, "connection.open", virtual_host=vhost or "/")
    return login(capabilities=FAILURE, then=then)


for text, args in [("tune-ok 2047/131072, open `/`", (2047, 131072, 0)), ("tune-ok channel_max 0", (0, 131072)), ("channel_max 2048", (2048, 131072)),
                   ("channel_max 65535", (65535, 131072)), ("channel_max 1", (1, 131072)), ("frame_max 0", (2047, 0)), ("frame_max 131073", (2047, 131073)),
                   ("frame_max 8192", (2047, 8192)), ("frame_max 8191", (2047, 8191)), ("frame_max 4096", (2047, 4096)), ("frame_max 4095", (2047, 4095)), ("frame_max 1", (2047, 1)),
                   ("heartbeat 1000 (above ours)", (2047, 131072, 1000)), ("vhost `nope`", (2047, 131072, 0, "nope")),
                   ("vhost with `'` and newline", (2047, 131072, 0, "a'b\nc"))]:
    shake.entries.append((text, tuned(*args)))


def raw_after_start(*frames):
    def run(talk):
        conn = talk.bytes()
        conn.send_bytes(b"AMQP\0\0\x09\x01")
        conn.expect(0, "connection.start")
        for frame in frames:
            conn.send_bytes(frame)
        talk.settle(conn)
    return run


START_OK = encode_method("connection.start-ok", client_properties={"capabilities": FAILURE}, mechanism="PLAIN", response=b"\0guest\0guest", locale="en_US")
for text, frames in [
    ("after start: connection.open", [encode_frame(1, 0, encode_method("connection.open", virtual_host="/"))]),
    ("after start: connection.tune-ok", [encode_frame(1, 0, encode_method("connection.tune-ok"))]),
    ("after start: channel.open on ch 1", [encode_frame(1, 1, encode_method("channel.open"))]),
    ("after start: heartbeat", [encode_frame(8, 0, b"")]),
    ("after start: connection.close", [encode_frame(1, 0, encode_method("connection.close", reply_code=200, reply_text="x"))]),
    ("after start: content header on ch 0", [encode_frame(2, 0, encode_header(1))]),
    ("after start: method 10/99 on ch 0", [encode_frame(1, 0, struct.pack(">HH", 10, 99))]),
    ("after start: class 77 on ch 0", [encode_frame(1, 0, struct.pack(">HH", 77, 10))]),
    ("after start: start-ok cut short", [encode_frame(1, 0, START_OK[:20])]),
    ("after start: frame of 8193 bytes payload announced", [struct.pack(">BHI", 1, 0, 8193)]),
    ("after start: frame of 8184 bytes payload announced", [struct.pack(">BHI", 1, 0, 8184)]),
    ("after start: frame of 8185 bytes payload announced", [struct.pack(">BHI", 1, 0, 8185)]),
    ("after start: frame of 5000 bytes payload, garbage", [encode_frame(1, 0, b"\0" * 5000)]),
    ("after start: bad frame end", [encode_frame(1, 0, START_OK, end=0)]),
    ("after start-ok: connection.open without tune-ok", [encode_frame(1, 0, START_OK), encode_frame(1, 0, encode_method("connection.open", virtual_host="/"))]),
    ("after start-ok: start-ok again", [encode_frame(1, 0, START_OK), encode_frame(1, 0, START_OK)]),
    ("after tune-ok: channel.open on ch 1", [encode_frame(1, 0, START_OK), encode_frame(1, 0, encode_method("connection.tune-ok", channel_max=2047, frame_max=131072)), encode_frame(1, 1, encode_method("channel.open"))]),
    ("after tune-ok: secure-ok", [encode_frame(1, 0, START_OK), encode_frame(1, 0, encode_method("connection.tune-ok", channel_max=2047, frame_max=131072)), encode_frame(1, 0, encode_method("connection.secure-ok", response=b""))]),
]:
    shake.entries.append((text, raw_after_start(*frames)))

# --- connection and channel ---------------------------------------------------------------------

conn = section("Connection and channel, after open-ok")
add(conn, "connection.start-ok again on ch 0", (0, "connection.start-ok"))
add(conn, "connection.open again", (0, "connection.open", {"virtual_host": "/"}))
add(conn, "connection.tune-ok again", (0, "connection.tune-ok"))
add(conn, "connection.open-ok from the client", (0, "connection.open-ok"))
add(conn, "connection.blocked from the client", (0, "connection.blocked", {"reason": "r"}))
add(conn, "connection.update-secret", (0, "connection.update-secret", {"new_secret": "s", "reason": "r"}))
add(conn, "connection.close-ok without close", (0, "connection.close-ok"))
add(conn, "connection.close", (0, "connection.close", {"reply_code": 200, "reply_text": "bye"}))
add(conn, "connection.close, then channel.open ch 2", (0, "connection.close", {"reply_code": 200, "reply_text": "bye"}), (2, "channel.open"))
add(conn, "channel.open on ch 0", (0, "channel.open"))
add(conn, "queue.declare on ch 0", (0, "queue.declare", {"queue": "q", "durable": True}))
add(conn, "basic.publish on ch 0", (0, "basic.publish", {"routing_key": "q"}))
add(conn, "connection.open on ch 1", (1, "connection.open", {"virtual_host": "/"}))
add(conn, "connection.close on ch 1", (1, "connection.close", {"reply_code": 200, "reply_text": "bye"}))
add(conn, "heartbeat on ch 1", encode_frame(8, 1, b""))
add(conn, "heartbeat with a payload on ch 0", encode_frame(8, 0, b"abc"))
add(conn, "channel.open on open ch 1", ("channel.open",))
add(conn, "queue.declare on never opened ch 5", (5, "queue.declare", {"queue": "q", "durable": True}))
add(conn, "basic.publish with content on never opened ch 5", (5, *publish()))
add(conn, "channel.close on never opened ch 5", (5, "channel.close"))
add(conn, "channel.close-ok on never opened ch 5", (5, "channel.close-ok"))
add(conn, "body frame on never opened ch 5", encode_frame(3, 5, b"abc"))
add(conn, "channel.open sent right after channel.close, without waiting for close-ok", ("channel.close", {"reply_code": 200, "reply_text": "x"}), ("channel.open",), declare())
add(conn, "channel.close, then queue.declare on it", ("channel.close", {"reply_code": 200, "reply_text": "x"}), declare())
add(conn, "channel.close-ok on open ch 1, then qos", ("channel.close-ok",), ("basic.qos",))
add(conn, "channel.flow active=true", ("channel.flow", {"active": True}))
add(conn, "channel.flow active=false", ("channel.flow", {"active": False}))
add(conn, "channel.flow-ok", ("channel.flow-ok", {"active": True}))
add(conn, "channel.open-ok from the client", ("channel.open-ok",))
add(conn, "tune-ok channel_max 2, channel.open 3", (3, "channel.open"), channel_max=2)
add(conn, "tune-ok channel_max 1, channel.open 2", (2, "channel.open"), channel_max=1)


@conn("soft error, then more methods before close-ok, then close-ok and reopen")
def _(talk):
    c = talk.open()
    c.send(1, "queue.declare", queue="nope", passive=True)
    c.send(1, "queue.declare", queue="q", durable=True)
    c.send(1, "basic.qos")
    c.publish(1, "", "q", b"x")
    talk.say(show(c.read()))
    c.send(1, "queue.declare", queue="q", durable=True)
    c.send(1, "channel.open")
    talk.settle(c)


@conn("soft error, close-ok, reopen, declare, second soft error")
def _(talk):
    c = talk.open()
    c.send(1, "queue.declare", queue="nope", passive=True)
    c.expect_close(1)
    c.send(1, "channel.open")
    c.send(1, "queue.declare", queue="q", durable=True)
    c.send(1, "queue.declare", queue="nope2", passive=True)
    talk.settle(c, 1)


@conn("soft error and channel.close crossing (client sends channel.close before close-ok)")
def _(talk):
    c = talk.open()
    c.send(1, "queue.declare", queue="nope", passive=True)
    c.send(1, "channel.close", reply_code=200, reply_text="x")
    talk.settle(c, 1, wait=2)


@conn("soft error on ch 1 with ch 2 in use")
def _(talk):
    c = talk.open(2)
    c.send(1, "queue.declare", queue="nope", passive=True)
    c.send(2, "queue.declare", queue="q", durable=True)
    talk.settle(c, 1, 2)


# --- frames -------------------------------------------------------------------------------------

frames = section("Frames and syntax, after open-ok (ch 1 open)")
PUB = encode_frame(1, 1, encode_method("basic.publish", routing_key="q"))
HEAD = encode_frame(2, 1, encode_header(3))
DECL = encode_method("queue.declare", queue="q", durable=True)
add(frames, "frame end 0x00 on queue.declare", encode_frame(1, 1, DECL, end=0))
add(frames, "frame end 0x00 on a body", PUB, HEAD, encode_frame(3, 1, b"abc", end=0))
add(frames, "frame size one too small", encode_frame(1, 1, DECL, size=len(DECL) - 1))
add(frames, "frame type 0 on ch 1", encode_frame(0, 1, b"abc"))
add(frames, "frame type 4 on ch 0", encode_frame(4, 0, b"abc"))
add(frames, "frame type 4 on ch 1", encode_frame(4, 1, b"abc"))
add(frames, "frame type 255 on ch 1, empty", encode_frame(255, 1, b""))
add(frames, "payload 131072 (frame_max 131072) body frame", PUB, encode_frame(2, 1, encode_header(131072)), encode_frame(3, 1, b"x" * 131072), before=[declare()])
add(frames, "payload 131073 body frame", PUB, encode_frame(2, 1, encode_header(131073)), encode_frame(3, 1, b"x" * 131073), before=[declare()])
add(frames, "payload size 4294967295 announced", struct.pack(">BHI", 3, 1, 4294967295))
add(frames, "frame_max 8192 agreed: payload 8192", PUB, encode_frame(2, 1, encode_header(8192)), encode_frame(3, 1, b"x" * 8192), before=[declare()], frame_max=8192)
add(frames, "frame_max 8192 agreed: payload 8193", PUB, encode_frame(2, 1, encode_header(8193)), encode_frame(3, 1, b"x" * 8193), before=[declare()], frame_max=8192)
add(frames, "method frame of 3 bytes", encode_frame(1, 1, b"\0\x32\0"))
add(frames, "empty method frame on ch 1", encode_frame(1, 1, b""))
add(frames, "empty method frame on ch 0", encode_frame(1, 0, b""))
add(frames, "class 77 method 1 on ch 1", encode_frame(1, 1, struct.pack(">HH", 77, 1)))
add(frames, "class 77 method 1 on ch 0", encode_frame(1, 0, struct.pack(">HH", 77, 1)))
add(frames, "class 50 method 99 on ch 1", encode_frame(1, 1, struct.pack(">HH", 50, 99) + b"abc"))
add(frames, "queue.declare cut short", encode_frame(1, 1, DECL[:-6]))
add(frames, "queue.declare with 1 byte too many", encode_frame(1, 1, DECL + b"\0"))
add(frames, "queue.declare, shortstr longer than the frame", encode_frame(1, 1, struct.pack(">HHH", 50, 10, 0) + b"\xffabc"))
add(frames, "queue.declare, table length longer than the frame", encode_frame(1, 1, struct.pack(">HHH", 50, 10, 0) + shortstr("q") + b"\x02" + struct.pack(">I", 100) + b"x"))
add(frames, "queue.declare, table with unknown field type `Z`", encode_frame(1, 1, struct.pack(">HHH", 50, 10, 0) + shortstr("q") + b"\x02" + table(b"\x01aZ\x01")))
add(frames, "queue.declare, table value cut short", encode_frame(1, 1, struct.pack(">HHH", 50, 10, 0) + shortstr("q") + b"\x02" + table(b"\x01aI\x01")))
add(frames, "queue.declare, field type `L` and `i`, `u`, `B`, `x`", ("queue.declare", {"queue": "q", "durable": True, "arguments": {"a": V("L", 1), "b": V("i", 1), "c": V("u", 1), "d": V("B", 1), "e": V("x", b"z")}}))


def nested(depth):
    inner = b""
    for _ in range(depth):
        inner = b"\x01aF" + struct.pack(">I", len(inner)) + inner
    return inner


for depth in (10, 100, 1000, 10000):
    add(frames, f"queue.declare with a table nested {depth} deep", ("queue.declare", {"queue": "q", "durable": True, "arguments": nested(depth)}))
add(frames, "publish with header table nested 1000 deep", ("publish", "", "q", b"m", {"headers": nested(1000)}), before=[declare()])
add(frames, "publish with header table nested 10000 deep", ("publish", "", "q", b"m", {"headers": nested(10000)}), before=[declare()])
add(frames, "queue name not UTF-8 (ff fe)", declare(b"\xff\xfe"))
add(frames, "body frame first", encode_frame(3, 1, b"abc"))
add(frames, "header frame first", HEAD)
add(frames, "publish then queue.declare", PUB, encode_frame(1, 1, DECL))
add(frames, "publish then body", PUB, encode_frame(3, 1, b"abc"))
add(frames, "publish, header 3, then method", PUB, HEAD, encode_frame(1, 1, DECL))
add(frames, "publish, header 3, then header", PUB, HEAD, HEAD)
add(frames, "publish, header 3, body of 4", PUB, HEAD, encode_frame(3, 1, b"abcd"))
add(frames, "publish, header 3, body 2, body 2", PUB, HEAD, encode_frame(3, 1, b"ab"), encode_frame(3, 1, b"cd"))
add(frames, "publish, header 3, empty body, body 3 (to q)", PUB, HEAD, encode_frame(3, 1, b""), encode_frame(3, 1, b"abc"), ("basic.get", {"queue": "q", "no_ack": True}), before=[declare()])
add(frames, "publish, header 0, then get", PUB, encode_frame(2, 1, encode_header(0)), ("basic.get", {"queue": "q", "no_ack": True}), before=[declare()])
add(frames, "publish, header 0, body frame of 0 bytes", PUB, encode_frame(2, 1, encode_header(0)), encode_frame(3, 1, b""))
add(frames, "publish, header 0, body frame of 1 byte", PUB, encode_frame(2, 1, encode_header(0)), encode_frame(3, 1, b"a"))
add(frames, "publish, header of class 50", PUB, encode_frame(2, 1, encode_header(3, class_id=50)))
add(frames, "publish, header of class 77", PUB, encode_frame(2, 1, encode_header(3, class_id=77)))
add(frames, "publish, header weight 1", PUB, encode_frame(2, 1, encode_header(0, weight=1)), before=[declare()])
add(frames, "publish, header cut short (8 bytes)", PUB, encode_frame(2, 1, encode_header(3)[:8]))
add(frames, "publish, header without flags (12 bytes)", PUB, encode_frame(2, 1, encode_header(3)[:12]))
add(frames, "publish, header flags say content_type, nothing follows", PUB, encode_frame(2, 1, struct.pack(">HHQH", 60, 0, 0, 0x8000)))
add(frames, "publish, header with bytes left over", PUB, encode_frame(2, 1, encode_header(0) + b"zz"))
add(frames, "publish, header flags continuation bit set, then 0", PUB, encode_frame(2, 1, struct.pack(">HHQHH", 60, 0, 0, 1, 0)), before=[declare()])
add(frames, "publish, header flag bit 1 (unused) set", PUB, encode_frame(2, 1, struct.pack(">HHQH", 60, 0, 0, 2)), before=[declare()])
add(frames, "publish, header: headers table undecodable", PUB, encode_frame(2, 1, struct.pack(">HHQH", 60, 0, 0, 0x2000) + table(b"\x01aZ")), before=[declare()])
add(frames, "publish, body size 2^63", PUB, encode_frame(2, 1, encode_header(1 << 63)))
add(frames, "publish, body size 536870913 (512 MiB + 1)", PUB, encode_frame(2, 1, encode_header(536870913)))
add(frames, "publish, body size 536870912", PUB, encode_frame(2, 1, encode_header(536870912)))
add(frames, "publish, body size 16777217 announced only", PUB, encode_frame(2, 1, encode_header(16777217)))
add(frames, "publish, body size 16777217 sent (message limit 16 MiB)", ("publish", "", "q", b"x" * 16777217, None), before=[declare()])
add(frames, "basic.deliver from the client", ("basic.deliver", {"consumer_tag": "c", "delivery_tag": 1}), HEAD)
add(frames, "basic.get-ok from the client (with content)", ("basic.get-ok", {"delivery_tag": 1}), HEAD, encode_frame(3, 1, b"abc"))
add(frames, "queue.declare-ok from the client", ("queue.declare-ok", {"queue": "q"}))
add(frames, "basic.return from the client (with content)", ("basic.return", {"reply_code": 1, "reply_text": "x"}), HEAD, encode_frame(3, 1, b"abc"))
add(frames, "confirm.select-ok from the client", ("confirm.select-ok",))


# --- exchanges ----------------------------------------------------------------------------------

ex = section("exchange.*")
for kind in ("direct", "fanout", "topic", "headers", "x-modulus-hash", "x-local-random", "x-consistent-hash", "x-random", "x-delayed-message", "x-recent-history", "nope", "", "rabbit", "Direct"):
    add(ex, f"declare x, type `{kind}`", exchange("x", kind))
add(ex, "declare x passive, missing", exchange("x", passive=True))
add(ex, "declare x passive, there (other type, other durable)", exchange("x", "fanout", passive=True), before=[exchange("x", durable=True)])
add(ex, "declare x passive, unknown type, there", exchange("x", "nope", passive=True), before=[exchange("x", durable=True)])
add(ex, "declare x passive, unknown type, missing", exchange("x", "nope", passive=True))
add(ex, "declare ``", exchange(""))
add(ex, "declare `` passive", exchange("", passive=True))
add(ex, "declare amq.nope", exchange("amq.nope"))
add(ex, "declare amq.nope passive", exchange("amq.nope", passive=True))
add(ex, "declare amq. (just the prefix)", exchange("amq."))
add(ex, "declare amqx", exchange("amqx"), ("exchange.delete", {"exchange": "amqx"}))
add(ex, "declare amq.direct equivalently", exchange("amq.direct", durable=True))
add(ex, "declare amq.direct durable=false", exchange("amq.direct"))
add(ex, "declare amq.direct as fanout", exchange("amq.direct", "fanout", durable=True))
add(ex, "redeclare, other type", exchange("x", "fanout"), before=[exchange("x")])
add(ex, "redeclare, other durable", exchange("x", durable=True), before=[exchange("x")])
add(ex, "redeclare, other auto_delete", exchange("x", auto_delete=True), before=[exchange("x")])
add(ex, "redeclare, other internal", exchange("x", internal=True), before=[exchange("x")])
add(ex, "redeclare, all differ (type first)", exchange("x", "fanout", durable=True, auto_delete=True), before=[exchange("x")])
add(ex, "redeclare, alternate-exchange added", exchange("x", arguments={"alternate-exchange": "dead"}), before=[exchange("x")])
add(ex, "redeclare, alternate-exchange missing", exchange("x"), before=[exchange("x", arguments={"alternate-exchange": "dead"})])
add(ex, "redeclare, alternate-exchange other", exchange("x", arguments={"alternate-exchange": "x3"}), before=[exchange("x", arguments={"alternate-exchange": "dead"})])
add(ex, "redeclare, unknown argument other", exchange("x", arguments={"foo": 2}), before=[exchange("x", arguments={"foo": 1})])
add(ex, "declare, alternate-exchange of type I", exchange("x", arguments={"alternate-exchange": 5}))
add(ex, "declare, alternate-exchange ``", exchange("x", arguments={"alternate-exchange": ""}))
add(ex, "declare nowait, missing type", exchange("x", "nope", nowait=True))
add(ex, "declare nowait then passive", exchange("x", nowait=True), exchange("x", passive=True))
add(ex, "declare name `a CR LF b`, then passive `ab`", exchange("x\r\n2"), exchange("x2", passive=True))
add(ex, "declare name of 255 bytes", exchange("e" * 255), ("exchange.delete", {"exchange": "e" * 255}))
add(ex, "delete missing", ("exchange.delete", {"exchange": "x"}))
add(ex, "delete ``", ("exchange.delete", {"exchange": ""}))
add(ex, "delete amq.direct", ("exchange.delete", {"exchange": "amq.direct"}))
add(ex, "delete amq.nope", ("exchange.delete", {"exchange": "amq.nope"}))
add(ex, "delete amq.rabbitmq.trace", ("exchange.delete", {"exchange": "amq.rabbitmq.trace"}))
add(ex, "delete if_unused, missing", ("exchange.delete", {"exchange": "x", "if_unused": True}))
add(ex, "delete if_unused, a queue bound", ("exchange.delete", {"exchange": "x", "if_unused": True}), before=[exchange(), declare(), bind()])
add(ex, "delete if_unused, is bound to another exchange (only as destination)", ("exchange.delete", {"exchange": "x", "if_unused": True}), before=[exchange(), exchange("x2"), ("exchange.bind", {"destination": "x", "source": "x2"})])
add(ex, "bind x2 to x (dest, source)", ("exchange.bind", {"destination": "x2", "source": "x", "routing_key": "k"}), before=[exchange(), exchange("x2")])
add(ex, "bind, source missing", ("exchange.bind", {"destination": "x2", "source": "x"}), before=[exchange("x2")])
add(ex, "bind, destination missing", ("exchange.bind", {"destination": "x2", "source": "x"}), before=[exchange()])
add(ex, "bind, both missing", ("exchange.bind", {"destination": "x2", "source": "x"}))
add(ex, "bind, source ``", ("exchange.bind", {"destination": "x2", "source": ""}), before=[exchange("x2")])
add(ex, "bind, destination ``", ("exchange.bind", {"destination": "", "source": "x"}), before=[exchange()])
add(ex, "unbind, all missing", ("exchange.unbind", {"destination": "x2", "source": "x"}))
add(ex, "unbind, binding missing", ("exchange.unbind", {"destination": "x2", "source": "x"}), before=[exchange(), exchange("x2")])
add(ex, "unbind, destination ``", ("exchange.unbind", {"destination": "", "source": "x"}), before=[exchange()])
add(ex, "unbind, source ``", ("exchange.unbind", {"destination": "x", "source": ""}), before=[exchange()])
add(ex, "bind to itself", ("exchange.bind", {"destination": "x", "source": "x", "routing_key": "k"}), before=[exchange()])
add(ex, "bind internal destination", ("exchange.bind", {"destination": "xi", "source": "x"}), before=[exchange(), exchange("xi", internal=True)])
add(ex, "auto_delete x, unbind its last queue, then passive", ("queue.unbind", {"queue": "q", "exchange": "x", "routing_key": "k"}), exchange(passive=True), before=[exchange(auto_delete=True), declare(), bind()])
add(ex, "auto_delete x, delete its last bound queue, then passive", ("queue.delete", {"queue": "q"}), exchange(passive=True), before=[exchange(auto_delete=True), declare(), bind()])
add(ex, "auto_delete x, source of x2, delete x2, then passive x", ("exchange.delete", {"exchange": "x2"}), exchange(passive=True), before=[exchange(auto_delete=True), exchange("x2"), ("exchange.bind", {"destination": "x2", "source": "x"})])

# --- queues -------------------------------------------------------------------------------------

qu = section("queue.declare")
add(qu, "durable q", declare())
add(qu, "durable=false, exclusive=false", declare(durable=False))
add(qu, "durable=false, auto_delete", declare(durable=False, auto_delete=True))
add(qu, "durable=false, exclusive=false, name ``", declare("", durable=False))
add(qu, "exclusive, durable=false", declare(durable=False, exclusive=True))
add(qu, "exclusive, durable=true", declare(exclusive=True))
add(qu, "exclusive durable=true, redeclared exclusive durable=false", declare(exclusive=True, durable=False), before=[declare(exclusive=True)])
add(qu, "redeclared while exclusive: passive on the same connection", declare(passive=True), before=[declare(exclusive=True)])
add(qu, "passive missing", declare(passive=True))
add(qu, "passive, others differ", declare(passive=True, durable=False, auto_delete=True), before=[declare()])
add(qu, "passive ``, none declared", declare("", passive=True))
add(qu, "passive ``, one declared before", declare("", passive=True), before=[declare()])
add(qu, "`` server-named durable", declare(""))
add(qu, "amq.nope", declare("amq.nope"))
add(qu, "amq.nope passive", declare("amq.nope", passive=True))
add(qu, "amq.gen-mine", declare("amq.gen-mine"))
add(qu, "amq.rabbitmq.reply-to", declare("amq.rabbitmq.reply-to"))
add(qu, "amq.rabbitmq.reply-to passive", declare("amq.rabbitmq.reply-to", passive=True))
add(qu, "name `q CR LF 2`, then passive q2", declare("q\r\n2"), declare("q2", passive=True))
add(qu, "name of 255 bytes", declare("n" * 255), ("queue.delete", {"queue": "n" * 255}))
add(qu, "redeclare same", declare(), before=[declare()])
add(qu, "redeclare with counts (1 ready, 1 consumer)", declare(), before=[declare(), declare("q2"), ("basic.consume", {"queue": "q", "consumer_tag": "c"}), ("basic.cancel", {"consumer_tag": "c"}), publish()])
add(qu, "redeclare, other durable", declare(durable=False), before=[declare()])
add(qu, "redeclare, other durable (exclusive queue asked non-exclusive)", declare(), before=[declare(exclusive=True)])
add(qu, "redeclare, exclusive asked of a shared queue", declare(exclusive=True), before=[declare()])
add(qu, "redeclare, other auto_delete", declare(auto_delete=True), before=[declare()])
add(qu, "redeclare nowait, other durable", declare(auto_delete=True, nowait=True), before=[declare()])
SAMPLES = [("none", None), ("bool true", V("t", True)), ("b 5", V("b", 5)), ("B 5", V("B", 5)), ("s 5", V("s", 5)), ("u 5", V("u", 5)), ("I 5", V("I", 5)), ("i 5", V("i", 5)),
           ("l 5", V("l", 5)), ("L 5", V("L", 5)), ("l -5", V("l", -5)), ("I 0", V("I", 0)), ("f 5.0", V("f", 5.0)), ("d 5.5", V("d", 5.5)), ("D 0 5", V("D", (0, 5))), ("D 2 550", V("D", (2, 550))),
           ("S `5`", "5"), ("S ``", ""), ("S `abc`", "abc"), ("T 5", V("T", 5)), ("V", V("V", None)), ("A []", []), ("F {}", {}), ("x `5`", V("x", b"5"))]
ARGS = ["x-message-ttl", "x-expires", "x-max-length", "x-max-length-bytes", "x-max-priority", "x-overflow", "x-dead-letter-exchange", "x-dead-letter-routing-key", "x-single-active-consumer", "x-queue-type",
        "x-queue-mode", "x-queue-version", "x-delivery-limit", "x-queue-leader-locator", "x-consumer-timeout", "x-stream-offset", "x-max-age", "x-max-in-memory-length", "x-quorum-initial-group-size", "x-unknown"]
qa = section("queue.declare, arguments: each with each type (durable classic queue)")
for name in ARGS:
    for text, value in SAMPLES[1:]:
        if name in ARGS[:7] + ["x-single-active-consumer", "x-queue-type"] or text in ("I 5", "S `abc`"):
            add(qa, f"{name} = {text}", declare(arguments={name: value}))
SPECIAL = [("x-message-ttl", 315360000000), ("x-message-ttl", 315360000001), ("x-message-ttl", 2**62), ("x-expires", 315360000000), ("x-expires", 315360000001), ("x-expires", -1), ("x-max-length", -1), ("x-max-length", 2**62),
           ("x-max-priority", 255), ("x-max-priority", 256), ("x-max-priority", -1), ("x-max-priority", 0), ("x-overflow", "drop-head"), ("x-overflow", "reject-publish"), ("x-overflow", "reject-publish-dlx"),
           ("x-queue-type", "classic"), ("x-queue-type", "quorum"), ("x-queue-type", "stream"), ("x-queue-type", "nope"), ("x-queue-mode", "lazy"), ("x-queue-mode", "default"), ("x-queue-version", 1), ("x-queue-version", 2), ("x-queue-version", 3), ("x-queue-leader-locator", "client-local"), ("x-queue-leader-locator", "balanced"), ("x-queue-master-locator", "min-masters"), ("x-dead-letter-strategy", "at-least-once"), ("x-dead-letter-strategy", "at-most-once")]
for name, value in SPECIAL:
    add(qa, f"{name} = {value}", declare(arguments={name: value}))
add(qa, "x-dead-letter-routing-key with x-dead-letter-exchange", declare(arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "k"}))
add(qa, "two invalid: x-message-ttl -1 and x-expires 0", declare(arguments={"x-message-ttl": -1, "x-expires": 0}))
add(qa, "two invalid: x-expires 0 and x-message-ttl -1", declare(arguments={"x-expires": 0, "x-message-ttl": -1}))
add(qa, "doubled key x-max-length 5, 6", declare(arguments=[("x-max-length", 5), ("x-max-length", 6)]), declare(arguments={"x-max-length": 6}))
qq = section("queue.declare, quorum")
QUORUM = {"x-queue-type": "quorum"}
add(qq, "quorum durable", declare(arguments=QUORUM))
add(qq, "quorum durable=false", declare(durable=False, arguments=QUORUM))
add(qq, "quorum durable=false auto_delete", declare(durable=False, auto_delete=True, arguments=QUORUM))
add(qq, "quorum exclusive", declare(exclusive=True, arguments=QUORUM))
add(qq, "quorum auto_delete", declare(auto_delete=True, arguments=QUORUM))
add(qq, "quorum server-named", declare("", arguments=QUORUM))
for name, value in [("x-max-priority", 5), ("x-queue-mode", "lazy"), ("x-queue-version", 2), ("x-delivery-limit", 5), ("x-delivery-limit", -1), ("x-delivery-limit", "a"), ("x-overflow", "reject-publish-dlx"), ("x-overflow", "reject-publish"), ("x-message-ttl", -1), ("x-dead-letter-strategy", "nope"), ("x-dead-letter-strategy", "at-least-once"), ("x-max-age", "1h"), ("x-unknown", 1), ("x-quorum-initial-group-size", 0), ("x-delayed-retry-type", "nope")]:
    add(qq, f"quorum with {name} = {value}", declare(arguments={**QUORUM, name: value}))
add(qq, "stream with x-expires", declare(arguments={"x-queue-type": "stream", "x-expires": 5}))
add(qq, "stream server-named", declare("", arguments={"x-queue-type": "stream"}))
add(qq, "classic redeclared as quorum", declare(arguments=QUORUM), before=[declare()])
add(qq, "quorum redeclared without arguments", declare(), before=[declare(arguments=QUORUM)])
add(qq, "quorum redeclared as classic", declare(arguments={"x-queue-type": "classic"}), before=[declare(arguments=QUORUM)])
add(qq, "no arguments redeclared with x-queue-type=classic", declare(arguments={"x-queue-type": "classic"}), before=[declare()])
add(qq, "x-queue-type=classic redeclared without", declare(), before=[declare(arguments={"x-queue-type": "classic"})])
add(qq, "exclusive redeclared with x-queue-type=classic", declare(exclusive=True, arguments={"x-queue-type": "classic"}), before=[declare(exclusive=True)])

qi = section("queue.declare, inequivalent arguments (declared with the first, redeclared with the second)")


def inequivalent(name, first, second, label):
    add(qi, label, declare(arguments={} if second is None else {name: second}), before=[declare(arguments={} if first is None else {name: first})])


for text, value in SAMPLES:
    inequivalent("x-message-ttl", 60000, value, f"x-message-ttl I 60000, then {text}")
for text, value in [("b 60", V("b", 60)), ("l 60", V("l", 60)), ("D 0 60", V("D", (0, 60))), ("d 60.0", V("d", 60.0)), ("T 60", V("T", 60)), ("S 60", "60")]:
    inequivalent("x-max-length", V("I", 60), value, f"x-max-length I 60, then {text}")
for tag, value in [("b", 5), ("B", 5), ("s", 5), ("u", 5), ("I", 5), ("i", 5), ("l", 5), ("L", 5)]:
    inequivalent("x-max-length", V(tag, value), 6, f"x-max-length {tag} 5, then I 6")
    inequivalent("x-max-length", V(tag, value), None, f"x-max-length {tag} 5, then none")
inequivalent("x-max-length", None, 5, "none, then x-max-length I 5")
inequivalent("x-overflow", "drop-head", "reject-publish", "x-overflow drop-head, then reject-publish")
inequivalent("x-overflow", None, "drop-head", "none, then x-overflow drop-head")
inequivalent("x-dead-letter-exchange", "a", "b", "x-dead-letter-exchange a, then b")
inequivalent("x-dead-letter-exchange", "it's", "b", "x-dead-letter-exchange it's, then b")
inequivalent("x-single-active-consumer", True, False, "x-single-active-consumer true, then false")
inequivalent("x-single-active-consumer", True, None, "x-single-active-consumer true, then none")
inequivalent("x-max-priority", 5, 6, "x-max-priority 5, then 6")
inequivalent("x-queue-mode", "lazy", "default", "x-queue-mode lazy, then default")
inequivalent("x-queue-mode", "lazy", None, "x-queue-mode lazy, then none")
inequivalent("x-queue-version", 2, None, "x-queue-version 2, then none")
inequivalent("x-unknown", 2, 3, "x-unknown 2, then 3")
inequivalent("x-unknown", V("F", {"a": 1}), None, "x-unknown table, then none")
inequivalent("x-delivery-limit", 5, 6, "x-delivery-limit 5, then 6 (classic: refused?)")
inequivalent("x-consumer-timeout", 5, 6, "x-consumer-timeout 5, then 6 (classic)")
add(qi, "two differ: x-max-length, x-message-ttl", declare(arguments={"x-max-length": 6, "x-message-ttl": 6}), before=[declare(arguments={"x-max-length": 5, "x-message-ttl": 5})])
add(qi, "auto_delete and arguments differ", declare(auto_delete=True, arguments={"x-max-length": 6}), before=[declare(arguments={"x-max-length": 5})])
add(qi, "all nine comparable differ (order of comparison)", declare(arguments={"x-expires": 90001, "x-message-ttl": 6, "x-dead-letter-exchange": "b", "x-dead-letter-routing-key": "k2", "x-max-length": 6, "x-max-length-bytes": 6, "x-max-priority": 6, "x-overflow": "reject-publish"}),
    before=[declare(arguments={"x-expires": 90000, "x-message-ttl": 5, "x-dead-letter-exchange": "a", "x-dead-letter-routing-key": "k1", "x-max-length": 5, "x-max-length-bytes": 5, "x-max-priority": 5, "x-overflow": "drop-head"})])

qo = section("queue: bind, unbind, purge, delete, exclusivity")
add(qo, "bind, queue missing", bind(), before=[exchange()])
add(qo, "bind, exchange missing", bind(), before=[declare()])
add(qo, "bind, both missing", bind())
add(qo, "bind to the default exchange", bind(source=""), before=[declare()])
add(qo, "bind missing queue to the default exchange", bind(source=""))
add(qo, "bind ``, none declared", bind(""), before=[exchange()])
add(qo, "bind ``/``: routing key is the queue", bind("", key=""), publish("x", "q"), ("basic.get", {"queue": "q", "no_ack": True}), before=[exchange(), declare()])
add(qo, "bind ``/`k`: key stays", bind("", key="k"), publish("x", "k"), ("basic.get", {"queue": "q", "no_ack": True}), before=[exchange(), declare()])
add(qo, "bind twice", bind(), bind(), before=[exchange(), declare()])
add(qo, "bind amq.rabbitmq.reply-to", bind("amq.rabbitmq.reply-to"), before=[exchange()])
add(qo, "unbind, all missing", ("queue.unbind", {"queue": "q", "exchange": "x", "routing_key": "k"}))
add(qo, "unbind, queue missing", ("queue.unbind", {"queue": "q", "exchange": "x", "routing_key": "k"}), before=[exchange()])
add(qo, "unbind, binding missing", ("queue.unbind", {"queue": "q", "exchange": "x", "routing_key": "k"}), before=[exchange(), declare()])
add(qo, "unbind from the default exchange", ("queue.unbind", {"queue": "q", "exchange": "", "routing_key": "q"}), before=[declare()])
add(qo, "unbind ``, none declared", ("queue.unbind", {"queue": "", "exchange": "x", "routing_key": "q"}), before=[exchange()])
for value in ("all", "any", "all-with-x", "any-with-x", "nope", "", 5, True):
    add(qo, f"headers bind, x-match {value!r}", bind(arguments={"x-match": value}), before=[exchange(kind="headers"), declare()])
add(qo, "headers bind without x-match", bind(arguments={"a": 1}), before=[exchange(kind="headers"), declare()])
add(qo, "direct bind with x-match nope", bind(arguments={"x-match": "nope"}), before=[exchange(), declare()])
for key in ("#.#", "#.#.#", "a.#.b.#.c.#"):
    add(qo, f"topic bind `{key}`", bind(key=key), before=[exchange(kind="topic"), declare()])
add(qo, "purge missing", ("queue.purge", {"queue": "q"}))
add(qo, "purge ``, none declared", ("queue.purge", {"queue": ""}))
add(qo, "purge: 2 ready, 1 unacked", publish(), publish(), publish(), ("basic.get", {"queue": "q"}), ("queue.purge", {"queue": "q"}), before=[declare()])
add(qo, "delete missing", ("queue.delete", {"queue": "q"}))
add(qo, "delete ``, none declared", ("queue.delete", {"queue": ""}))
add(qo, "delete if_unused, consumer", ("queue.delete", {"queue": "q", "if_unused": True}), before=[declare(), ("basic.consume", {"queue": "q", "consumer_tag": "c"})])
add(qo, "delete if_empty, 1 message", ("queue.delete", {"queue": "q", "if_empty": True}), before=[declare(), publish(), ("basic.get", {"queue": "q"}), ("basic.recover", {"requeue": True})])
add(qo, "delete if_empty, 1 unacked only", ("queue.delete", {"queue": "q", "if_empty": True}), before=[declare(), publish(), ("basic.get", {"queue": "q"})])
add(qo, "delete if_unused and if_empty, both violated", publish(), ("queue.delete", {"queue": "q", "if_unused": True, "if_empty": True}), before=[declare(), ("basic.qos", {"prefetch_count": 1}), ("basic.consume", {"queue": "q", "consumer_tag": "c"}), publish()])
add(qo, "delete with 2 ready and 1 unacked", publish(), publish(), publish(), ("basic.get", {"queue": "q"}), ("queue.delete", {"queue": "q"}), before=[declare()])
add(qo, "delete with a consumer on the same channel (cancel notify on)", ("queue.delete", {"queue": "q"}), before=[declare(), ("basic.consume", {"queue": "q", "consumer_tag": "c"})])
add(qo, "delete with a consumer, cancel notify off", ("queue.delete", {"queue": "q"}), before=[declare(), ("basic.consume", {"queue": "q", "consumer_tag": "c"})], capabilities={})
add(qo, "quorum delete if_unused", ("queue.delete", {"queue": "q", "if_unused": True}), before=[declare(arguments=QUORUM)])
add(qo, "quorum delete if_empty", ("queue.delete", {"queue": "q", "if_empty": True}), before=[declare(arguments=QUORUM)])
add(qo, "delete amq.nope", ("queue.delete", {"queue": "amq.nope"}))


def locked(*step):
    def run(talk):
        first = talk.open()
        first.call(1, "queue.declare", queue="q", exclusive=True)
        second = talk.open()
        second.call(1, "exchange.declare", exchange="x", type="direct")
        one(second, step, False)
        talk.settle(second, 1)
    return run


for text, step in [("declare exclusive", declare(durable=False, exclusive=True)), ("declare not exclusive", declare(durable=False)), ("declare passive", declare(passive=True)), ("bind", bind()), ("unbind", ("queue.unbind", {"queue": "q", "exchange": "x", "routing_key": "k"})),
                   ("purge", ("queue.purge", {"queue": "q"})), ("delete", ("queue.delete", {"queue": "q"})), ("consume", ("basic.consume", {"queue": "q"})), ("get", ("basic.get", {"queue": "q"})), ("publish mandatory (works)", publish(mandatory=True))]:
    qo.entries.append((f"another connection's exclusive q: {text}", locked(*step)))


@qo("exclusive q: owner closes, other declares right after close-ok")
def _(talk):
    first, second = talk.open(), talk.open()
    first.call(1, "queue.declare", queue="q", exclusive=True)
    first.send(0, "connection.close", reply_code=200, reply_text="")
    talk.settle(first)
    second.send(1, "queue.declare", queue="q", passive=True)
    talk.settle(second, 1)


# --- basic --------------------------------------------------------------------------------------

ba = section("basic: publish, return, confirm order")
add(ba, "publish to missing exchange", publish("x", "k"))
add(ba, "publish to missing exchange, mandatory, in confirm mode", publish("x", "k", mandatory=True), before=[("confirm.select",)])
add(ba, "2 good publishes, then one to a missing exchange, in confirm mode", publish(), publish(), publish("x", "k"), before=[declare(), ("confirm.select",)])
add(ba, "publish to internal exchange", publish("xi", "k"), before=[exchange("xi", internal=True)])
add(ba, "publish to amq.rabbitmq.trace", publish("amq.rabbitmq.trace", "k"))
add(ba, "publish immediate", publish(immediate=True), before=[declare()])
add(ba, "publish immediate and missing exchange", publish("x", "k", immediate=True))
add(ba, "publish immediate, method only (no content yet)", encode_frame(1, 1, encode_method("basic.publish", routing_key="q", immediate=True)))
add(ba, "publish to missing exchange, method only (no content yet)", encode_frame(1, 1, encode_method("basic.publish", exchange="x", routing_key="q")))
add(ba, "mandatory, no queue", publish("", "nope", b"m", {"message_id": "i"}, True))
add(ba, "mandatory, no queue, confirm", publish("", "nope", b"m", None, True), before=[("confirm.select",)])
add(ba, "mandatory to x without binding, confirm, then one routed", publish("x", "nope", b"m", None, True), publish(), before=[exchange(), declare(), ("confirm.select",)])
add(ba, "unroutable, no mandatory, confirm", publish("", "nope"), before=[("confirm.select",)])
add(ba, "mandatory to the key amq.rabbitmq.reply-to", publish("", "amq.rabbitmq.reply-to", mandatory=True))
add(ba, "mandatory to amq.rabbitmq.reply-to.abc", publish("", "amq.rabbitmq.reply-to.abc", mandatory=True))
add(ba, "reply_to amq.rabbitmq.reply-to without a consumer", publish("", "q", b"m", {"reply_to": "amq.rabbitmq.reply-to"}), before=[declare()])
add(ba, "confirm.select twice, nowait once", ("confirm.select",), ("confirm.select", {"nowait": True}))
for value in ("abc", "-1", "", "1.5", "1 ", "+5", "0x10", "315360000000", "315360000001", "99999999999999999999", "0", "\u0665"):
    add(ba, f"expiration {value!r}", publish("", "q2", b"m", {"expiration": value}), before=[declare("q2")])
add(ba, "expiration 0 to q, then get", publish("", "q", b"m", {"expiration": "0"}), ("basic.get", {"queue": "q", "no_ack": True}), before=[declare()])
add(ba, "expiration abc, unroutable, exchange there", publish("x", "q", b"m", {"expiration": "abc"}), before=[exchange()])
add(ba, "expiration abc to a missing exchange", publish("x", "q", b"m", {"expiration": "abc"}))
add(ba, "user_id other", publish("", "q", b"m", {"user_id": "other"}), before=[declare()])
add(ba, "user_id guest", publish("", "q", b"m", {"user_id": "guest"}), before=[declare()])
for header in ("CC", "BCC"):
    for text, value in [("S `q`", "q"), ("I 5", 5), ("V", V("V", None)), ("t", True), ("F {}", {}), ("F {a: q}", {"a": "q"}), ("d 1.5", 1.5), ("x `q`", V("x", b"q")), ("A [I 5, S q2]", [5, "q2"]), ("A [A [q2]]", [["q2"]]), ("A []", [])]:
        add(ba, f"header {header} = {text}", publish("", "q", b"m", {"headers": {header: value}}), ("basic.get", {"queue": "q2", "no_ack": True}), ("basic.get", {"queue": "q", "no_ack": True}), before=[declare(), declare("q2")])
add(ba, "CC [q2], BCC [q3]: what each gets", publish("", "q", b"m", {"headers": {"CC": ["q2"], "BCC": ["q3"], "a": 1}}), *[("basic.get", {"queue": name, "no_ack": True}) for name in ("q", "q2", "q3")], before=[declare(), declare("q2"), declare("q3")])
add(ba, "lower case cc", publish("", "q", b"m", {"headers": {"cc": ["q2"]}}), ("basic.get", {"queue": "q2", "no_ack": True}), before=[declare(), declare("q2")])
add(ba, "mandatory, CC routes only", publish("", "nope", b"m", {"headers": {"CC": ["q"]}}, True), ("basic.get", {"queue": "q", "no_ack": True}), before=[declare()])
add(ba, "delivery_mode 0, 3, 255", publish("", "q", b"m", {"delivery_mode": 0}), publish("", "q", b"m", {"delivery_mode": 3}), publish("", "q", b"m", {"delivery_mode": 255}), ("basic.get", {"queue": "q", "no_ack": True}), ("basic.get", {"queue": "q", "no_ack": True}), before=[declare()])
add(ba, "headers z, a, z again, with L in it: what comes back", publish("", "q", b"m", {"headers": [("z", 1), ("a", V("L", 2)), ("z", 3), ("t", {"y": 1, "b": 2})]}), ("basic.get", {"queue": "q", "no_ack": True}), before=[declare()])
add(ba, "the same in a return, with BCC", publish("", "nope", b"m", {"headers": [("z", 1), ("a", 2), ("BCC", ["n"])]}, True))
add(ba, "priority 255", publish("", "q", b"m", {"priority": 255}), ("basic.get", {"queue": "q", "no_ack": True}), before=[declare()])
add(ba, "3 returns and acks in confirm mode, one write", publish("", "n1", b"m", None, True), publish("", "n2", b"m", None, True), publish("", "n3", b"m", None, True), before=[("confirm.select",)])
add(ba, "reject-publish at length 1: 3 publishes confirm", publish(), publish(), publish(), before=[declare(arguments={"x-max-length": 1, "x-overflow": "reject-publish"}), ("confirm.select",)])
add(ba, "reject-publish, mandatory", publish(mandatory=True), publish(mandatory=True), before=[declare(arguments={"x-max-length": 0, "x-overflow": "reject-publish"}), ("confirm.select",)])
add(ba, "reject-publish full q and q2 by CC, confirm", publish("", "q", b"m", {"headers": {"CC": ["q2"]}}), ("basic.get", {"queue": "q2", "no_ack": True}), before=[declare(arguments={"x-max-length": 0, "x-overflow": "reject-publish"}), declare("q2"), ("confirm.select",)])

bc = section("basic: consume, get, cancel, ack, qos, recover")
CONSUME = ("basic.consume", {"queue": "q", "consumer_tag": "c"})
add(bc, "consume missing queue", ("basic.consume", {"queue": "q", "consumer_tag": "c"}))
add(bc, "consume ``, none declared", ("basic.consume", {"queue": ""}))
add(bc, "consume ``, one declared", ("basic.consume", {"queue": "", "consumer_tag": "c"}), before=[declare()])
add(bc, "consume, tag ``", ("basic.consume", {"queue": "q"}), before=[declare()])
add(bc, "consume, same tag twice on one channel", CONSUME, before=[declare(), CONSUME])
add(bc, "consume, same tag on two channels", (2, *CONSUME), before=[declare(), CONSUME], channels=2)
add(bc, "consume same tag twice with exclusive queue missing", ("basic.consume", {"queue": "nope", "consumer_tag": "c"}), before=[declare(), CONSUME])
add(bc, "exclusive consume with a consumer there", ("basic.consume", {"queue": "q", "exclusive": True}), before=[declare(), CONSUME])
add(bc, "consume with an exclusive consumer there", ("basic.consume", {"queue": "q"}), before=[declare(), ("basic.consume", {"queue": "q", "consumer_tag": "c", "exclusive": True})])
add(bc, "exclusive consume on a SAC queue", ("basic.consume", {"queue": "q", "exclusive": True}), before=[declare(arguments={"x-single-active-consumer": True})])
add(bc, "get on a SAC queue (classic)", ("basic.get", {"queue": "q"}), before=[declare(arguments={"x-single-active-consumer": True})])
add(bc, "consume nowait, then one message", ("basic.consume", {"queue": "q", "consumer_tag": "c", "nowait": True}), publish(), before=[declare()])
add(bc, "consume nowait missing queue", ("basic.consume", {"queue": "q", "consumer_tag": "c", "nowait": True}))
for text, value in [("I 5", 5), ("I -5", -5), ("S `5`", "5"), ("d 1.5", 1.5), ("t", True), ("l 2^62", 2**62), ("V", V("V", None))]:
    add(bc, f"consume x-priority = {text}", ("basic.consume", {"queue": "q", "consumer_tag": "c", "arguments": {"x-priority": value}}), before=[declare()])
add(bc, "consume with unknown argument", ("basic.consume", {"queue": "q", "consumer_tag": "c", "arguments": {"x-foo": 1}}), before=[declare()])
add(bc, "consume with x-stream-offset on classic", ("basic.consume", {"queue": "q", "consumer_tag": "c", "arguments": {"x-stream-offset": "first"}}), before=[declare()])
add(bc, "consume with x-cancel-on-ha-failover", ("basic.consume", {"queue": "q", "consumer_tag": "c", "arguments": {"x-cancel-on-ha-failover": True}}), before=[declare()])
add(bc, "consume amq.rabbitmq.reply-to, no_ack", ("basic.consume", {"queue": "amq.rabbitmq.reply-to", "consumer_tag": "c", "no_ack": True}))
add(bc, "consume amq.rabbitmq.reply-to, with ack", ("basic.consume", {"queue": "amq.rabbitmq.reply-to", "consumer_tag": "c"}))
add(bc, "consume amq.rabbitmq.reply-to twice", ("basic.consume", {"queue": "amq.rabbitmq.reply-to", "consumer_tag": "c", "no_ack": True}), ("basic.consume", {"queue": "amq.rabbitmq.reply-to", "consumer_tag": "c2", "no_ack": True}))
add(bc, "get amq.rabbitmq.reply-to", ("basic.get", {"queue": "amq.rabbitmq.reply-to", "no_ack": True}))
add(bc, "get missing", ("basic.get", {"queue": "q"}))
add(bc, "get ``, none declared", ("basic.get", {"queue": ""}))
add(bc, "get empty", ("basic.get", {"queue": "q"}), before=[declare()])
add(bc, "get with an exclusive consumer on the same connection", ("basic.get", {"queue": "q"}), before=[declare(), ("basic.consume", {"queue": "q", "consumer_tag": "c", "exclusive": True})])
add(bc, "cancel unknown tag", ("basic.cancel", {"consumer_tag": "zz"}))
add(bc, "cancel nowait", ("basic.cancel", {"consumer_tag": "c", "nowait": True}), before=[declare(), CONSUME])
add(bc, "cancel-ok from the client", ("basic.cancel-ok", {"consumer_tag": "c"}))
add(bc, "5 messages ready, consume and cancel at once (prefetch 0)", CONSUME, ("basic.cancel", {"consumer_tag": "c"}), before=[declare(), *[publish(body=b"%d" % n) for n in range(5)]])
for name in ("ack", "nack", "reject"):
    for tag in (0, 1, 99):
        add(bc, f"{name} tag {tag}, nothing outstanding", (f"basic.{name}", {"delivery_tag": tag}))
add(bc, "ack tag 0 multiple, nothing outstanding", ("basic.ack", {"delivery_tag": 0, "multiple": True}))
add(bc, "ack tag 1 multiple, nothing outstanding", ("basic.ack", {"delivery_tag": 1, "multiple": True}))
add(bc, "ack tag 5 multiple, 1 outstanding", ("basic.ack", {"delivery_tag": 5, "multiple": True}), before=[declare(), publish(), ("basic.get", {"queue": "q"})])
add(bc, "ack 1 twice", ("basic.ack", {"delivery_tag": 1}), ("basic.ack", {"delivery_tag": 1}), before=[declare(), publish(), ("basic.get", {"queue": "q"})])
add(bc, "ack of a no_ack get", ("basic.ack", {"delivery_tag": 1}), before=[declare(), publish(), ("basic.get", {"queue": "q", "no_ack": True})])
add(bc, "ack 2, then 1 multiple (1 outstanding), then 2 multiple", ("basic.ack", {"delivery_tag": 2}), ("basic.ack", {"delivery_tag": 1, "multiple": True}), ("basic.ack", {"delivery_tag": 2, "multiple": True}), before=[declare(), publish(), publish(), ("basic.get", {"queue": "q"}), ("basic.get", {"queue": "q"})])
add(bc, "ack on another channel", (2, "basic.ack", {"delivery_tag": 1}), before=[declare(), publish(), ("basic.get", {"queue": "q"})], channels=2)
add(bc, "delivery tag 2^64-1", ("basic.ack", {"delivery_tag": 2**64 - 1}))
add(bc, "qos prefetch_size 1", ("basic.qos", {"prefetch_size": 1}))
add(bc, "qos global", ("basic.qos", {"prefetch_count": 3, "global": True}))
add(bc, "recover requeue=false", ("basic.recover", {"requeue": False}))
add(bc, "recover-async requeue=false", ("basic.recover-async", {"requeue": False}))
add(bc, "recover requeue=true, 1 outstanding, then get", ("basic.recover", {"requeue": True}), ("basic.get", {"queue": "q"}), before=[declare(), publish(), ("basic.get", {"queue": "q"})])
add(bc, "recover-async requeue=true, then get", ("basic.recover-async", {"requeue": True}), ("basic.get", {"queue": "q"}), before=[declare(), publish(), ("basic.get", {"queue": "q"})])
add(bc, "basic.recover with a consumer: order of recover-ok and redeliveries", ("basic.recover", {"requeue": True}), before=[declare(), publish(body=b"1"), publish(body=b"2"), CONSUME])
add(bc, "auto_delete queue: cancel its last consumer, then passive", ("basic.cancel", {"consumer_tag": "c"}), declare(passive=True), before=[declare(auto_delete=True), CONSUME])
add(bc, "consume-ok and deliveries of 2 ready", CONSUME, before=[declare(), publish(body=b"1"), publish(body=b"2")])
add(bc, "x-max-priority queue, publish priority 0, 9, none, 3, get all", *[publish("", "q", b"%d" % n, {"priority": p} if p is not None else None) for n, p in enumerate((0, 9, None, 3))], *[("basic.get", {"queue": "q", "no_ack": True})] * 4, before=[declare(arguments={"x-max-priority": 5})])

tx = section("tx and confirm")
add(tx, "tx.select", ("tx.select",))
add(tx, "tx.select twice", ("tx.select",), ("tx.select",))
add(tx, "tx.commit without select", ("tx.commit",))
add(tx, "tx.rollback without select", ("tx.rollback",))
add(tx, "confirm.select after tx.select", ("confirm.select",), before=[("tx.select",)])
add(tx, "confirm.select nowait after tx.select", ("confirm.select", {"nowait": True}), before=[("tx.select",)])
add(tx, "tx.select after confirm.select", ("tx.select",), before=[("confirm.select",)])
add(tx, "tx: publish, get (empty), commit, get", publish(), ("basic.get", {"queue": "q"}), ("tx.commit",), ("basic.get", {"queue": "q"}), before=[declare(), ("tx.select",)])
add(tx, "tx: publish, rollback, get", publish(), ("tx.rollback",), ("basic.get", {"queue": "q"}), before=[declare(), ("tx.select",)])
add(tx, "tx: mandatory unroutable, then commit (return when?)", publish("", "nope", b"m", None, True), ("basic.qos",), ("tx.commit",), before=[("tx.select",)])
add(tx, "tx: publish to missing exchange (before commit?)", publish("x", "k"), ("basic.qos",), ("tx.commit",), before=[("tx.select",)])
add(tx, "tx: ack unknown tag (before commit?)", ("basic.ack", {"delivery_tag": 9}), ("basic.qos",), ("tx.commit",), before=[("tx.select",)])
add(tx, "tx: reject-publish full queue and another, commit, passive declare", publish(), publish("", "q2"), ("tx.commit",), before=[declare(arguments={"x-max-length": 0, "x-overflow": "reject-publish"}), declare("q2"), ("tx.select",)])
add(tx, "tx: get, ack, rollback, ack again, commit", ("basic.ack", {"delivery_tag": 1}), ("tx.rollback",), ("basic.ack", {"delivery_tag": 1}), ("tx.commit",), before=[declare(), publish(), ("tx.select",), ("tx.commit",), ("basic.get", {"queue": "q"})])
add(tx, "tx: publish sent right after commit (no wait for commit-ok)", publish(), ("tx.commit",), publish(), ("tx.commit",), before=[declare(), ("tx.select",)])
add(tx, "tx: invalid expiration", publish("", "q", b"m", {"expiration": "abc"}), ("tx.commit",), before=[declare(), ("tx.select",)])
