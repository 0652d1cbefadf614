"""A client of bare MQTT packets: it sends what it is told, and answers nothing by itself.

Numbers are those of the standard; `level` is 3 (3.1), 4 (3.1.1) or 5. Properties are raw bytes, without
their length; `prop` makes one.
"""

import socket
import struct
from collections import namedtuple

PATIENCE_SECONDS = 30

CONNECT, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP, SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK, PINGREQ, \
    PINGRESP, DISCONNECT, AUTH = range(1, 16)

Ack = namedtuple("Ack", "kind packet_id reason")
ConnAck = namedtuple("ConnAck", "present reason properties")
Message = namedtuple("Message", "topic payload qos dup retain packet_id properties")


class Closed(Exception):
    """The broker closed the connection."""


def text(value):
    raw = value if isinstance(value, bytes) else value.encode()
    return struct.pack(">H", len(raw)) + raw


def varint(number):
    out = bytearray()
    while True:
        number, digit = divmod(number, 128)
        out.append(digit | (0x80 if number else 0))
        if not number:
            return bytes(out)


def prop(number, value, kind):
    """One property: `kind` is b (byte), h (two), i (four), v (variable) or t (text, or a pair of texts)."""
    if kind == "t":
        values = value if isinstance(value, tuple) else (value,)
        return bytes([number]) + b"".join(text(one) for one in values)
    return bytes([number]) + (varint(value) if kind == "v" else struct.pack({"b": ">B", "h": ">H", "i": ">I"}[kind], value))


def packet(first, body=b""):
    return bytes([first]) + varint(len(body)) + body


class Client:
    def __init__(self, host, port, level=4):
        self.level = level
        self.sock = socket.create_connection((host, port), PATIENCE_SECONDS)
        self.sock.settimeout(PATIENCE_SECONDS)
        self.buffer = b""
        self.aside = []
        self.packets = 0

    @classmethod
    def connect(cls, host, port, client_id="", level=4, present=None, **options):
        """A client that is let in."""
        client = cls(host, port, level)
        client.send_connect(client_id, **options)
        answer = client.connack()
        assert answer.reason == 0, answer
        if present is not None:
            assert answer.present == present
        return client

    def properties(self, raw=b""):
        return varint(len(raw)) + raw if self.level == 5 else b""

    def send(self, first, body=b""):
        self.sock.sendall(packet(first, body))

    def send_connect(self, client_id="", clean=True, keep_alive=0, user=None, password=None, will=None, properties=b""):
        """`will` is (topic, payload, qos, retain)."""
        flags = 2 * clean
        payload = text(client_id)
        if will:
            topic, message, qos, retain = will
            flags |= 4 | qos << 3 | 32 * retain
            payload += self.properties() + text(topic) + text(message)
        if user is not None:
            flags |= 128
            payload += text(user)
        if password is not None:
            flags |= 64
            payload += text(password)
        name = "MQIsdp" if self.level == 3 else "MQTT"
        head = text(name) + bytes([self.level, flags]) + struct.pack(">H", keep_alive) + self.properties(properties)
        self.send(0x10, head + payload)

    def connack(self):
        body = self.expect(CONNACK)
        return ConnAck(bool(body[0] & 1), body[1], body[2:])

    def next_id(self):
        self.packets = self.packets % 65535 + 1
        return self.packets

    def publish(self, topic, payload=b"", qos=0, retain=False, packet_id=None, dup=False, properties=b"", wait=True):
        """Returns the packet identifier. With `wait` the whole exchange of the quality of service is done."""
        body = text(topic)
        if qos:
            packet_id = packet_id or self.next_id()
            body += struct.pack(">H", packet_id)
        self.send(0x30 | 8 * dup | qos << 1 | retain, body + self.properties(properties) + payload)
        if wait and qos == 1:
            self.ack(PUBACK, packet_id)
        elif wait and qos == 2:
            self.ack(PUBREC, packet_id)
            self.send_ack(PUBREL, packet_id)
            self.ack(PUBCOMP, packet_id)
        return packet_id

    def subscribe(self, *filters, properties=b""):
        """Filters are (filter, options). Returns the codes of SUBACK."""
        packet_id = self.next_id()
        body = struct.pack(">H", packet_id) + self.properties(properties)
        self.send(0x82, body + b"".join(text(one) + bytes([options]) for one, options in filters))
        body = self.expect(SUBACK)
        assert struct.unpack(">H", body[:2])[0] == packet_id
        return list(body[3 + body[2]:] if self.level == 5 else body[2:])

    def send_ack(self, kind, packet_id, reason=None):
        flags = 2 if kind == PUBREL else 0
        self.send(kind << 4 | flags, struct.pack(">H", packet_id) + (b"" if reason is None else bytes([reason])))

    def ack(self, kind, packet_id=None):
        """Waits for PUBACK, PUBREC, PUBREL or PUBCOMP; messages that come before stay for `message`."""
        while True:
            first, body = self.read()
            if first >> 4 != PUBLISH:
                break
            self.aside.append((first, body))
        assert first >> 4 == kind, (kind, first, body)
        ack = Ack(kind, struct.unpack(">H", body[:2])[0], body[2] if len(body) > 2 else 0)
        if packet_id is not None:
            assert ack.packet_id == packet_id, ack
        return ack

    def message(self, finish=False):
        """Waits for a PUBLISH. With `finish` the exchange of its quality of service is done."""
        first, body = self.aside.pop(0) if self.aside else self.read()
        assert first >> 4 == PUBLISH, (first, body)
        length = struct.unpack(">H", body[:2])[0]
        topic, rest = body[2:2 + length].decode(), body[2 + length:]
        qos, packet_id, properties = first >> 1 & 3, 0, b""
        if qos:
            packet_id, rest = struct.unpack(">H", rest[:2])[0], rest[2:]
        if self.level == 5:
            properties, rest = rest[1:1 + rest[0]], rest[1 + rest[0]:]  # short ones are enough here
        if finish and qos == 1:
            self.send_ack(PUBACK, packet_id)
        elif finish and qos == 2:
            self.send_ack(PUBREC, packet_id)
            self.ack(PUBREL, packet_id)
            self.send_ack(PUBCOMP, packet_id)
        return Message(topic, rest, qos, bool(first & 8), bool(first & 1), packet_id, properties)

    def ping(self):
        """True once the broker has done with all that was sent before; nothing else may come."""
        self.send(0xC0)
        return self.expect(PINGRESP) == b""

    def silence(self):
        """Nothing waits for this client but the answer to a ping."""
        assert not self.aside and self.ping()

    def disconnect(self, reason=None):
        self.send(0xE0, b"" if reason is None else bytes([reason]))
        self.closed()

    def abort(self):
        """Goes without a word."""
        self.sock.close()

    def closed(self):
        """Waits for the end of the connection; returns the reason code of DISCONNECT, None without one."""
        reason = None
        try:
            while True:
                first, body = self.read()
                if first == 0xE0:
                    reason = body[0] if body else 0
        except (Closed, ConnectionResetError):
            self.sock.close()
            return reason

    def expect(self, kind):
        first, body = self.read()
        assert first >> 4 == kind, (kind, first, body)
        return body

    def read(self):
        head = self._take(1)
        length, shift = 0, 0
        while True:
            digit = self._take(1)[0]
            length |= (digit & 0x7F) << shift
            shift += 7
            if not digit & 0x80:
                return head[0], self._take(length)

    def _take(self, count):
        while len(self.buffer) < count:
            data = self.sock.recv(65536)
            if not data:
                raise Closed
            self.buffer += data
        taken, self.buffer = self.buffer[:count], self.buffer[count:]
        return taken
