"""A raw AMQP 0-9-1 client for tests: synchronous, one file, standard library only.

It says exactly what it is told to say, also what no well-behaved client would, and it shows exactly
what came back. Nothing is retried, nothing is hidden.

Layers, lowest first; mix them freely on one connection:

  bytes    Conn.connect(host, port)                a socket and nothing else
           c.send_bytes(b)                         drains the receive side meanwhile, so it cannot deadlock
           c.read_bytes(n, timeout)                raw bytes (before the first frame: protocol headers)
           c.read_eof(timeout) -> bool             True when the peer closed, whatever came before it
  frames   c.send_frame(type, channel, payload)    any type, any channel; `end=` and `size=` tell lies
           c.read_frame(timeout) -> Frame          Frame(type, channel, payload); Timeout or Closed otherwise
           decode_frame(frame) -> Event            method, header, body or heartbeat, fully decoded
  events   c.send(channel, "queue.declare", queue="q", durable=True, arguments={...})
           c.send_content(channel, body, props, class_id=60, body_size=None, chunk=None)
           c.publish(channel, exchange, routing_key, body, props=None, mandatory=False)
           c.read(timeout) -> Event                next event; content is assembled into its method
           c.expect(channel, "queue.declare-ok", ..., timeout=30) -> Event
                 the next event of one of these names on the channel; all others stay in `c.inbox`
                 in order. Raises ChannelClosed / ConnectionClosed if that came instead.
           c.call(channel, name, **args) -> Event  send and expect `name-ok` (or get-empty)
           c.expect_close(channel, code, text)     channel.close with this code; answers close-ok
           c.expect_connection_close(code, text)   connection.close with this code; answers close-ok
           c.drain(seconds) -> [Event]             whatever arrives until that long was quiet
           c.quiet(channel, seconds)               asserts that nothing comes on the channel
  session  Conn.open(target, **options) -> Conn    the whole handshake; `target` is a Target or "host:port"
                 options: user, password, vhost, channel_max, frame_max, heartbeat, capabilities,
                 client_properties, mechanism, response, locale, timeout, receive_buffer
           c.start, c.tune                         the events connection.start and connection.tune
           c.channel(n=None) -> int                opens the next free (or that) channel
           c.close()                               connection.close and close-ok; c.abort() drops the socket

An Event has `.name` ("basic.deliver", "header", "body", "heartbeat"), `.channel`, its arguments as
attributes (`.reply_code`, `.delivery_tag`, words joined by `_`), `.args` (dict), and for content
`.props` (dict), `.body`, `.header_payload` (the content header's payload, byte for byte), `.body_frames` (sizes).

Values. Strings are `str` with surrogateescape, so that every byte survives. A table is a dict (or a list
of pairs, for doubled keys) whose values are Python values or V(tag, value):
    bool t, int I or l by size, float d, str and bytes S, list A, dict F, None V, Decimal D
    V("b", -1) V("B", 255) V("s", -2) V("u", 2) V("I", 1) V("i", 1) V("l", 1) V("L", 1) V("f", 1.5) V("d", 1.5)
    V("D", (scale, value)) V("S", b"..") V("A", [..]) V("F", {..}) V("T", seconds) V("x", b"..") V("V", None)
A decoded table is a Table: `t["k"]` is the plain value, `t.tag("k")` its type, `t.entries` the list of
(key, V) in wire order, `t.plain()` a plain dict all the way down. `L` is read as signed, as RabbitMQ does.
"""

from __future__ import annotations

import decimal
import select
import socket
import struct
import time
from collections import namedtuple

FRAME_METHOD, FRAME_HEADER, FRAME_BODY, FRAME_HEARTBEAT, FRAME_END = 1, 2, 3, 8, 0xCE
PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
WAIT = 30.0  # a generous limit, not an expectation

Frame = namedtuple("Frame", "type channel payload")
V = namedtuple("V", "tag value")
Target = namedtuple("Target", "host port user password vhost", defaults=("guest", "guest", "/"))


class Closed(Exception):
    """The peer closed the socket (or reset it) without a close method."""


class Timeout(Exception):
    """Nothing (or not the expected thing) came in time."""


class Malformed(Exception):
    """The peer sent bytes that are no AMQP 0-9-1."""


class ChannelClosed(Exception):
    """channel.close came where something else was expected. `.event` is the method."""

    def __init__(self, event):
        super().__init__(f"channel.close {event.reply_code} {event.reply_text}")
        self.event = event
        self.reply_code, self.reply_text = event.reply_code, event.reply_text


class ConnectionClosed(Exception):
    """connection.close came where something else was expected. `.event` is the method."""

    def __init__(self, event):
        super().__init__(f"connection.close {event.reply_code} {event.reply_text}")
        self.event = event
        self.reply_code, self.reply_text = event.reply_code, event.reply_text


# --- the method table ---------------------------------------------------------------------------

# A class and its id; then `name id argument:type ...`. Types: o octet, h short, l long, q longlong,
# s shortstr, S longstr, t table, b bit. Arguments named `_n` are the reserved ones.
_GRAMMAR = """
connection 10
  start 10 version_major:o version_minor:o server_properties:t mechanisms:S locales:S
  start-ok 11 client_properties:t mechanism:s response:S locale:s
  secure 20 challenge:S
  secure-ok 21 response:S
  tune 30 channel_max:h frame_max:l heartbeat:h
  tune-ok 31 channel_max:h frame_max:l heartbeat:h
  open 40 virtual_host:s _1:s _2:b
  open-ok 41 _1:s
  close 50 reply_code:h reply_text:s class_id:h method_id:h
  close-ok 51
  blocked 60 reason:s
  unblocked 61
  update-secret 70 new_secret:S reason:s
  update-secret-ok 71
channel 20
  open 10 _1:s
  open-ok 11 _1:S
  flow 20 active:b
  flow-ok 21 active:b
  close 40 reply_code:h reply_text:s class_id:h method_id:h
  close-ok 41
access 30
  request 10 realm:s exclusive:b passive:b active:b write:b read:b
  request-ok 11 ticket:h
exchange 40
  declare 10 _1:h exchange:s type:s passive:b durable:b auto_delete:b internal:b nowait:b arguments:t
  declare-ok 11
  delete 20 _1:h exchange:s if_unused:b nowait:b
  delete-ok 21
  bind 30 _1:h destination:s source:s routing_key:s nowait:b arguments:t
  bind-ok 31
  unbind 40 _1:h destination:s source:s routing_key:s nowait:b arguments:t
  unbind-ok 51
queue 50
  declare 10 _1:h queue:s passive:b durable:b exclusive:b auto_delete:b nowait:b arguments:t
  declare-ok 11 queue:s message_count:l consumer_count:l
  bind 20 _1:h queue:s exchange:s routing_key:s nowait:b arguments:t
  bind-ok 21
  purge 30 _1:h queue:s nowait:b
  purge-ok 31 message_count:l
  delete 40 _1:h queue:s if_unused:b if_empty:b nowait:b
  delete-ok 41 message_count:l
  unbind 50 _1:h queue:s exchange:s routing_key:s arguments:t
  unbind-ok 51
basic 60
  qos 10 prefetch_size:l prefetch_count:h global:b
  qos-ok 11
  consume 20 _1:h queue:s consumer_tag:s no_local:b no_ack:b exclusive:b nowait:b arguments:t
  consume-ok 21 consumer_tag:s
  cancel 30 consumer_tag:s nowait:b
  cancel-ok 31 consumer_tag:s
  publish 40 _1:h exchange:s routing_key:s mandatory:b immediate:b
  return 50 reply_code:h reply_text:s exchange:s routing_key:s
  deliver 60 consumer_tag:s delivery_tag:q redelivered:b exchange:s routing_key:s
  get 70 _1:h queue:s no_ack:b
  get-ok 71 delivery_tag:q redelivered:b exchange:s routing_key:s message_count:l
  get-empty 72 _1:s
  ack 80 delivery_tag:q multiple:b
  reject 90 delivery_tag:q requeue:b
  recover-async 100 requeue:b
  recover 110 requeue:b
  recover-ok 111
  nack 120 delivery_tag:q multiple:b requeue:b
tx 90
  select 10
  select-ok 11
  commit 20
  commit-ok 21
  rollback 30
  rollback-ok 31
confirm 85
  select 10 nowait:b
  select-ok 11
"""

# The properties of class basic, highest flag bit first (AMQP 0-9-1 §4.2.6.1).
PROPERTIES = [
    ("content_type", "s"), ("content_encoding", "s"), ("headers", "t"), ("delivery_mode", "o"),
    ("priority", "o"), ("correlation_id", "s"), ("reply_to", "s"), ("expiration", "s"),
    ("message_id", "s"), ("timestamp", "q"), ("type", "s"), ("user_id", "s"), ("app_id", "s"),
    ("cluster_id", "s"),
]

_WITH_CONTENT = {"basic.publish", "basic.return", "basic.deliver", "basic.get-ok"}


def _read_grammar():
    by_name, by_id, class_ids = {}, {}, {}
    class_name = class_id = None
    for line in _GRAMMAR.strip().splitlines():
        words = line.split()
        if not line.startswith(" "):
            class_name, class_id = words[0], int(words[1])
            class_ids[class_name] = class_id
            continue
        arguments = [tuple(word.split(":")) for word in words[2:]]
        method = (f"{class_name}.{words[0]}", class_id, int(words[1]), arguments)
        by_name[method[0]] = by_id[class_id, int(words[1])] = method
    return by_name, by_id, class_ids


METHODS, METHODS_BY_ID, CLASS_IDS = _read_grammar()

# --- encoding -----------------------------------------------------------------------------------


def _bytes(value):
    return bytes(value) if isinstance(value, (bytes, bytearray)) else str(value).encode("utf-8", "surrogateescape")


def shortstr(value):
    raw = _bytes(value)
    if len(raw) > 255:
        raise ValueError("a short string holds at most 255 bytes")
    return bytes([len(raw)]) + raw


def longstr(value):
    raw = _bytes(value)
    return struct.pack(">I", len(raw)) + raw


_FIXED = {"b": ">b", "B": ">B", "s": ">h", "u": ">H", "I": ">i", "i": ">I", "l": ">q", "L": ">q", "f": ">f",
          "d": ">d", "T": ">Q"}


def typed(value):
    """The V of a plain Python value."""
    if isinstance(value, V):
        return value
    if value is None:
        return V("V", None)
    if isinstance(value, bool):
        return V("t", value)
    if isinstance(value, int):
        return V("I" if -(2**31) <= value < 2**31 else "l", value)
    if isinstance(value, float):
        return V("d", value)
    if isinstance(value, decimal.Decimal):
        scale = max(0, -value.as_tuple().exponent)
        return V("D", (scale, int(value.scaleb(scale))))
    if isinstance(value, (Table, dict)):
        return V("F", value)
    if isinstance(value, (list, tuple)):
        return V("A", value)
    return V("S", value)


def field_value(value):
    tag, value = typed(value)
    if tag == "t":
        body = b"\x01" if value else b"\x00"
    elif tag in _FIXED:
        body = struct.pack(_FIXED[tag], value)
    elif tag == "D":
        body = struct.pack(">Bi", *value)
    elif tag in "Sx":
        body = longstr(value)
    elif tag == "A":
        body = longstr(b"".join(field_value(item) for item in value))
    elif tag == "F":
        body = table(value)
    elif tag == "V":
        body = b""
    else:
        raise ValueError(f"no field type {tag!r}")
    return tag.encode() + body


def table(value):
    """A field table; bytes are taken as an already encoded table without its length."""
    if isinstance(value, (bytes, bytearray)):
        return longstr(value)
    if isinstance(value, Table):
        value = value.entries
    pairs = value.items() if isinstance(value, dict) else (value or [])
    return longstr(b"".join(shortstr(key) + field_value(item) for key, item in pairs))


_ENCODE = {
    "o": lambda v: struct.pack(">B", v or 0), "h": lambda v: struct.pack(">H", v or 0),
    "l": lambda v: struct.pack(">I", v or 0), "q": lambda v: struct.pack(">Q", v or 0),
    "s": lambda v: shortstr(v or ""), "S": lambda v: longstr(v or ""), "t": table,
}


def encode_method(name, **arguments):
    """The payload of a method frame. Arguments left out are zero, empty or false."""
    _, class_id, method_id, schema = METHODS[name]
    unknown = set(arguments) - {argument for argument, _ in schema}
    if unknown:
        raise TypeError(f"{name} has no argument {sorted(unknown)}")
    out, bits, bit_count = [struct.pack(">HH", class_id, method_id)], 0, 0
    for argument, kind in schema:
        value = arguments.get(argument)
        if kind == "b":
            bits |= bool(value) << bit_count
            bit_count += 1
            continue
        if bit_count:
            out.append(bytes([bits]))
            bits = bit_count = 0
        out.append(_ENCODE[kind](value))
    if bit_count:
        out.append(bytes([bits]))
    return b"".join(out)


def encode_properties(props):
    """Flags and property list of a content header (no continuation word is ever needed)."""
    flags, out = 0, []
    for index, (name, kind) in enumerate(PROPERTIES):
        value = (props or {}).get(name)
        if value is not None:
            flags |= 1 << (15 - index)
            out.append(_ENCODE[kind](value))
    unknown = set(props or {}) - {name for name, _ in PROPERTIES}
    if unknown:
        raise TypeError(f"no property {sorted(unknown)}")
    return struct.pack(">H", flags) + b"".join(out)


def encode_header(body_size, props=None, class_id=60, weight=0):
    """The payload of a content header frame; `props` may be bytes (flags and list, as they are)."""
    encoded = props if isinstance(props, (bytes, bytearray)) else encode_properties(props)
    return struct.pack(">HHQ", class_id, weight, body_size) + encoded


def encode_frame(kind, channel, payload, end=FRAME_END, size=None):
    """One frame. `size` lies about the length, `end` about the end marker."""
    return struct.pack(">BHI", kind, channel, len(payload) if size is None else size) + payload + bytes([end])


# --- decoding -----------------------------------------------------------------------------------


class Table:
    """A decoded field table: wire order and types kept, duplicates too."""

    def __init__(self, entries):
        self.entries = entries

    def _find(self, key):
        for name, value in self.entries:
            if name == key:
                return value
        raise KeyError(key)

    def __getitem__(self, key):
        return plain(self._find(key))

    def __contains__(self, key):
        return any(name == key for name, _ in self.entries)

    def __iter__(self):
        return iter([name for name, _ in self.entries])

    def __len__(self):
        return len(self.entries)

    def __eq__(self, other):
        return isinstance(other, Table) and self.entries == other.entries

    def get(self, key, default=None):
        return self[key] if key in self else default

    def tag(self, key):
        return self._find(key).tag

    def plain(self):
        return {name: plain(value) for name, value in self.entries}

    def __repr__(self):
        return f"Table({self.entries!r})"


def plain(value):
    """The Python value of a V, all the way down. A decimal stays (scale, value)."""
    if value.tag == "A":
        return [plain(item) for item in value.value]
    if value.tag == "F":
        return value.value.plain()
    return value.value


class _Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        if self.at + count > len(self.data):
            raise Malformed(f"{count} bytes wanted at {self.at}, {len(self.data) - self.at} left")
        self.at += count
        return self.data[self.at - count:self.at]

    def unpack(self, layout):
        values = struct.unpack(layout, self.take(struct.calcsize(layout)))
        return values[0] if len(values) == 1 else values

    def text(self, layout):
        return self.take(self.unpack(layout)).decode("utf-8", "surrogateescape")

    def value(self):
        tag = chr(self.unpack(">B"))
        if tag == "t":
            return V(tag, self.unpack(">B") != 0)
        if tag in _FIXED:
            return V(tag, self.unpack(_FIXED[tag]))
        if tag == "D":
            return V(tag, self.unpack(">Bi"))
        if tag == "S":
            return V(tag, self.text(">I"))
        if tag == "x":
            return V(tag, self.take(self.unpack(">I")))
        if tag == "V":
            return V(tag, None)
        if tag == "F":
            return V(tag, self.table())
        if tag == "A":
            inner, items = _Reader(self.take(self.unpack(">I"))), []
            while inner.at < len(inner.data):
                items.append(inner.value())
            return V(tag, items)
        raise Malformed(f"unknown field type {tag!r}")

    def table(self):
        inner, entries = _Reader(self.take(self.unpack(">I"))), []
        while inner.at < len(inner.data):
            key = inner.text(">B")
            entries.append((key, inner.value()))
        return Table(entries)

    def argument(self, kind):
        if kind == "s":
            return self.text(">B")
        if kind == "S":
            return self.text(">I")
        if kind == "t":
            return self.table()
        return self.unpack({"o": ">B", "h": ">H", "l": ">I", "q": ">Q"}[kind])


class Event:
    """A method (with its content, if it carries any), or a bare header, body or heartbeat."""

    def __init__(self, name, channel, args=None):
        self.name, self.channel, self.args = name, channel, args or {}
        self.props, self.body, self.header_payload, self.body_frames = None, None, None, []

    def __getattr__(self, attribute):
        try:
            return self.__dict__["args"][attribute]
        except KeyError:
            raise AttributeError(f"{self.__dict__.get('name')} has no {attribute}") from None

    def __repr__(self):
        shown = ", ".join(f"{key}={value!r}" for key, value in self.args.items() if not key.startswith("_"))
        tail = f" body={self.body[:60]!r} props={self.props}" if self.body is not None else ""
        return f"<{self.name} ch={self.channel} {shown}{tail}>"


def decode_method(payload):
    """(name, args) of a method frame's payload."""
    reader = _Reader(payload)
    key = reader.unpack(">HH")
    if key not in METHODS_BY_ID:
        raise Malformed(f"unknown method {key}")
    name, _, _, schema = METHODS_BY_ID[key]
    args, bits, bit_count = {}, 0, 8
    for argument, kind in schema:
        if kind == "b":
            if bit_count == 8:
                bits, bit_count = reader.unpack(">B"), 0
            args[argument] = bool(bits >> bit_count & 1)
            bit_count += 1
        else:
            bit_count = 8
            args[argument] = reader.argument(kind)
    if reader.at != len(payload):
        raise Malformed(f"{len(payload) - reader.at} bytes too many in {name}")
    return name, args


def decode_header(payload):
    """(class_id, body_size, props) of a content header's payload."""
    reader = _Reader(payload)
    class_id, _, body_size = reader.unpack(">HHQ")
    flags, props = reader.unpack(">H"), {}
    for index, (name, kind) in enumerate(PROPERTIES):
        if flags & 1 << (15 - index):
            props[name] = reader.argument(kind)
    return class_id, body_size, props


def decode_frame(frame):
    """One frame as an Event, content not assembled."""
    if frame.type == FRAME_METHOD:
        name, args = decode_method(frame.payload)
        return Event(name, frame.channel, args)
    if frame.type == FRAME_HEADER:
        class_id, body_size, props = decode_header(frame.payload)
        event = Event("header", frame.channel, {"class_id": class_id, "body_size": body_size})
        event.props, event.header_payload = props, frame.payload
        return event
    if frame.type == FRAME_BODY:
        event = Event("body", frame.channel)
        event.body = frame.payload
        return event
    if frame.type == FRAME_HEARTBEAT:
        return Event("heartbeat", frame.channel)
    raise Malformed(f"frame type {frame.type}")


# --- the connection -----------------------------------------------------------------------------

CAPABILITIES = {"publisher_confirms": True, "exchange_exchange_bindings": True, "basic.nack": True,
                "consumer_cancel_notify": True, "connection.blocked": True, "authentication_failure_close": True}


class Conn:
    def __init__(self, sock):
        self.sock = sock
        sock.setblocking(False)
        self.buffer = bytearray()
        self.eof = None  # the reason, once the peer is gone
        self.inbox = []  # events read while waiting for others
        self.partial = {}  # channel -> Event whose content is still coming
        self.start = self.tune = None
        self.frame_max, self.channel_max = 131072, 2047
        self.heartbeats = 0
        self.channels = set()

    # bytes

    @classmethod
    def connect(cls, host, port, timeout=WAIT, receive_buffer=None):
        sock = socket.socket(socket.AF_INET)
        if receive_buffer:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        sock.settimeout(timeout)
        try:
            sock.connect((host, port))
        except OSError:
            sock.close()
            raise
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return cls(sock)

    def _fill(self, wait):
        """Reads what is there, waiting at most `wait` seconds. False when nothing came."""
        if self.eof:
            return False
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        if not poll.poll(max(0, wait) * 1000):
            return False
        try:
            chunk = self.sock.recv(1 << 18)
        except BlockingIOError:
            return False
        except OSError as error:
            self.eof = str(error)
            return False
        if not chunk:
            self.eof = "end of stream"
            return False
        self.buffer += chunk
        return True

    def send_bytes(self, data, timeout=WAIT):
        view, deadline = memoryview(data), time.monotonic() + timeout
        poll = select.poll()
        while view:
            poll.register(self.sock, select.POLLOUT | (0 if self.eof else select.POLLIN))
            flags = sum(bits for _, bits in poll.poll(1000))
            if flags & select.POLLIN:
                self._fill(0)
            try:
                view = view[self.sock.send(view):]
                deadline = time.monotonic() + timeout
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise Timeout(f"{len(view)} bytes not taken by the peer") from None
            except OSError as error:
                while self._fill(0):
                    pass
                self.eof = self.eof or str(error)
                raise Closed(f"while sending: {error}") from None

    def read_bytes(self, count, timeout=WAIT):
        deadline = time.monotonic() + timeout
        while len(self.buffer) < count:
            self._wait_for_more(deadline, f"{count} bytes in {timeout} s")
        taken = bytes(self.buffer[:count])
        del self.buffer[:count]
        return taken

    def _wait_for_more(self, deadline, what):
        if self._fill(deadline - time.monotonic()):
            return
        if self.eof:
            raise Closed(self.eof)
        if time.monotonic() >= deadline:
            raise Timeout(f"not {what}; {len(self.buffer)} bytes in the buffer")

    def read_eof(self, timeout=WAIT):
        """True if the peer closed within the time; what it sent before stays readable."""
        deadline = time.monotonic() + timeout
        while not self.eof and time.monotonic() < deadline:
            self._fill(deadline - time.monotonic())
        return self.eof is not None

    def abort(self, reset=False):
        """Drops the socket without goodbye; `reset` sends RST instead of FIN."""
        if reset:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()
        self.eof = self.eof or "closed by us"

    # frames

    def send_frame(self, kind, channel, payload, end=FRAME_END, size=None):
        self.send_bytes(encode_frame(kind, channel, payload, end, size))

    def read_frame(self, timeout=WAIT):
        deadline = time.monotonic() + timeout
        while True:
            if len(self.buffer) >= 7:
                if self.buffer.startswith(b"AMQP"):
                    raise Malformed(f"a protocol header came: {bytes(self.buffer[:8])!r}")
                kind, channel, size = struct.unpack_from(">BHI", self.buffer)
                if len(self.buffer) >= size + 8:
                    payload, end = bytes(self.buffer[7:7 + size]), self.buffer[7 + size]
                    del self.buffer[:size + 8]
                    if end != FRAME_END:
                        raise Malformed(f"frame end {end:#x}")
                    return Frame(kind, channel, payload)
            self._wait_for_more(deadline, f"a frame in {timeout} s")

    # events

    def send(self, channel, name, **arguments):
        self.send_frame(FRAME_METHOD, channel, encode_method(name, **arguments))

    def content_frames(self, channel, body=b"", props=None, class_id=60, body_size=None, chunk=None):
        """The header frame and body frames of a content, as one byte string."""
        body = _bytes(body)
        size = chunk or (self.frame_max - 8 if self.frame_max else 1 << 20)
        out = [encode_frame(FRAME_HEADER, channel,
                            encode_header(len(body) if body_size is None else body_size, props, class_id))]
        out += [encode_frame(FRAME_BODY, channel, body[at:at + size]) for at in range(0, len(body), size)]
        return b"".join(out)

    def send_content(self, channel, body=b"", props=None, **options):
        self.send_bytes(self.content_frames(channel, body, props, **options))

    def publish_frames(self, channel, exchange, routing_key, body=b"", props=None, mandatory=False, immediate=False,
                       chunk=None):
        method = encode_method("basic.publish", exchange=exchange, routing_key=routing_key, mandatory=mandatory,
                               immediate=immediate)
        return encode_frame(FRAME_METHOD, channel, method) + self.content_frames(channel, body, props, chunk=chunk)

    def publish(self, channel, exchange, routing_key, body=b"", props=None, mandatory=False, immediate=False,
                chunk=None):
        self.send_bytes(self.publish_frames(channel, exchange, routing_key, body, props, mandatory, immediate, chunk))

    def read(self, timeout=WAIT):
        """The next event off the wire (not the inbox), content assembled."""
        deadline = time.monotonic() + timeout
        while True:
            event = self._assemble(decode_frame(self.read_frame(max(0, deadline - time.monotonic()))))
            if event is not None:
                return event

    def _assemble(self, event):
        """The event, completed if it carries content; None while content is still coming."""
        waiting = self.partial.get(event.channel)
        if event.name == "heartbeat":
            self.heartbeats += 1
            return event
        if event.name == "header":
            if waiting is None or waiting.header_payload is not None:
                raise Malformed(f"a content header out of order on channel {event.channel}")
            waiting.args["body_size"] = event.body_size
            waiting.props, waiting.header_payload, waiting.body = event.props, event.header_payload, b""
        elif event.name == "body":
            if waiting is None or waiting.header_payload is None:
                raise Malformed(f"a content body out of order on channel {event.channel}")
            waiting.body += event.body
            waiting.body_frames.append(len(event.body))
        elif waiting is not None and event.name not in ("channel.close", "connection.close"):
            raise Malformed(f"{event.name} amid the content of {waiting.name}")
        elif event.name in _WITH_CONTENT:
            self.partial[event.channel] = event
            return None
        else:
            return event
        if len(waiting.body) > waiting.body_size:
            raise Malformed("more body than announced")
        return self.partial.pop(event.channel) if len(waiting.body) == waiting.body_size else None

    def _closing(self, event, channel, names):
        if event.name == "connection.close" and "connection.close" not in names:
            self._quietly(0, "connection.close-ok")
            raise ConnectionClosed(event)
        if event.name == "channel.close" and event.channel == channel and "channel.close" not in names:
            self._quietly(channel, "channel.close-ok")
            self.channels.discard(channel)
            raise ChannelClosed(event)

    def _quietly(self, channel, name):
        try:
            self.send(channel, name)
        except (Closed, Timeout):
            pass

    def expect(self, channel, *names, timeout=WAIT):
        """The next event on `channel` (None: any) called one of `names`; others go to the inbox."""
        for index, event in enumerate(self.inbox):
            if channel in (None, event.channel) and event.name in names:
                return self.inbox.pop(index)
        deadline = time.monotonic() + timeout
        while True:
            try:
                event = self.read(max(0, deadline - time.monotonic()))
            except Timeout:
                raise Timeout(f"no {' or '.join(names)} on channel {channel} in {timeout} s; "
                              f"inbox: {self.inbox[-5:]}") from None
            if channel in (None, event.channel) and event.name in names:
                return event
            self._closing(event, channel, names)
            if event.name != "heartbeat":
                self.inbox.append(event)

    def call(self, channel, name, timeout=WAIT, **arguments):
        self.send(channel, name, **arguments)
        answers = ["basic.get-ok", "basic.get-empty"] if name == "basic.get" else [f"{name}-ok"]
        return self.expect(channel, *answers, timeout=timeout)

    def expect_close(self, channel, code=None, text=None, timeout=WAIT):
        """channel.close with this code, and this text (or each of these) in its text; close-ok is sent."""
        event = self.expect(channel, "channel.close", timeout=timeout)
        self.send(channel, "channel.close-ok")
        self.channels.discard(channel)
        self._check_close(event, code, text)
        return event

    def expect_connection_close(self, code=None, text=None, timeout=WAIT):
        """connection.close with this code; close-ok is sent."""
        event = self.expect(0, "connection.close", timeout=timeout)
        self._quietly(0, "connection.close-ok")
        self._check_close(event, code, text)
        return event

    @staticmethod
    def _check_close(event, code, text):
        said = f"{event.reply_code} {event.reply_text}"
        if code is not None:
            assert event.reply_code == code, f"expected {code}, got {said}"
        for part in [text] if isinstance(text, str) else (text or []):
            assert part in event.reply_text, f"expected {part!r} in {said!r}"

    def drain(self, seconds=0.5):
        """Everything in the inbox and off the wire until `seconds` passed without an event."""
        events, self.inbox = self.inbox, []
        while True:
            try:
                event = self.read(seconds)
            except (Timeout, Closed):
                return events
            if event.name != "heartbeat":
                events.append(event)

    def quiet(self, channel, seconds=0.5):
        """Asserts that no event comes on the channel for that long (None: on any)."""
        deadline = time.monotonic() + seconds
        while True:
            for event in self.inbox:
                assert channel not in (None, event.channel), f"unexpected {event}"
            try:
                event = self.read(max(0, deadline - time.monotonic()))
            except Timeout:
                return
            if event.name != "heartbeat":
                self.inbox.append(event)

    # session

    @classmethod
    def open(cls, target, user=None, password=None, vhost=None, channel_max=None, frame_max=None, heartbeat=0,
             capabilities=None, client_properties=None, mechanism="PLAIN", response=None, locale="en_US",
             timeout=WAIT, receive_buffer=None):
        """The handshake up to open-ok. None means: what the target says or the server offers."""
        if isinstance(target, str):
            host, port = target.rsplit(":", 1)
            target = Target(host, int(port))
        user = target.user if user is None else user
        password = target.password if password is None else password
        if client_properties is None:
            client_properties = {"product": "rawamqp",
                                 "capabilities": CAPABILITIES if capabilities is None else capabilities}
        if response is None and mechanism == "AMQPLAIN":
            response = table({"LOGIN": user, "PASSWORD": password})[4:]
        elif response is None:
            response = b"\0" + _bytes(user) + b"\0" + _bytes(password)
        conn = cls.connect(target.host, target.port, timeout, receive_buffer)
        try:
            conn.send_bytes(PROTOCOL_HEADER)
            conn.start = conn.expect(0, "connection.start", timeout=timeout)
            conn.send(0, "connection.start-ok", client_properties=client_properties, mechanism=mechanism,
                      response=response, locale=locale)
            conn.tune = conn.expect(0, "connection.tune", timeout=timeout)
            conn.channel_max = conn.tune.channel_max if channel_max is None else channel_max
            conn.frame_max = conn.tune.frame_max if frame_max is None else frame_max
            conn.send(0, "connection.tune-ok", channel_max=conn.channel_max, frame_max=conn.frame_max,
                      heartbeat=heartbeat)
            conn.send(0, "connection.open", virtual_host=target.vhost if vhost is None else vhost)
            conn.expect(0, "connection.open-ok", timeout=timeout)
        except BaseException:
            conn.abort()
            raise
        return conn

    def channel(self, number=None):
        number = number or next(n for n in range(1, 65536) if n not in self.channels)
        self.call(number, "channel.open")
        self.channels.add(number)
        return number

    def close(self, timeout=WAIT):
        self.send(0, "connection.close", reply_code=200, reply_text="bye")
        self.expect(0, "connection.close-ok", timeout=timeout)
        self.sock.close()
        self.eof = "closed by us"

    def heartbeat(self):
        self.send_frame(FRAME_HEARTBEAT, 0, b"")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.abort()
