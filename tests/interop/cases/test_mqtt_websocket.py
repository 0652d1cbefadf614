"""WebSocket by bare bytes: what is refused, frames in pieces, pings, and the end."""

import os
import socket
import struct

import pytest
from mqtt_fixtures import mqtt_address  # noqa: F401

import rawmqtt

REQUEST = ("GET {path} HTTP/1.1\r\nHost: menzil\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
           "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
           "Sec-WebSocket-Protocol: {protocol}\r\n{more}\r\n")
KEY = b"\x01\x02\x03\x04"


def frame(opcode, payload, final=True):
    masked = bytes(byte ^ KEY[at % 4] for at, byte in enumerate(payload))
    return bytes([128 * final | opcode, 128 | len(payload)]) + KEY + masked


class Socket:
    def __init__(self, address, path="/mqtt", protocol="mqtt", more=""):
        self.sock = socket.create_connection(address, rawmqtt.PATIENCE_SECONDS)
        self.sock.settimeout(rawmqtt.PATIENCE_SECONDS)
        self.sock.sendall(REQUEST.format(path=path, protocol=protocol, more=more).encode())
        self.buffer = b""
        while b"\r\n\r\n" not in self.buffer:
            self.more()
        head, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        self.status, self.head = int(head.split()[1]), head.decode().lower()

    def more(self):
        data = self.sock.recv(65536)
        if not data:
            raise rawmqtt.Closed
        self.buffer += data

    def take(self, count):
        while len(self.buffer) < count:
            self.more()
        taken, self.buffer = self.buffer[:count], self.buffer[count:]
        return taken

    def read(self):
        """(opcode, payload) of one frame, which is never masked and never in parts."""
        first, length = self.take(2)
        assert first & 0xF0 == 0x80 and length < 127
        if length == 126:
            length = struct.unpack(">H", self.take(2))[0]
        return first & 15, self.take(length)

    def closed(self):
        """The status of the close frame, then the end."""
        while True:
            opcode, payload = self.read()
            if opcode == 8:
                break
        with pytest.raises((rawmqtt.Closed, ConnectionResetError)):
            self.take(1)
        return struct.unpack(">H", payload)[0]


@pytest.fixture
def ws_address(mqtt_address):  # noqa: F811
    return mqtt_address[0], int(os.environ["MQTT_WS_PORT"])


@pytest.fixture
def ws(ws_address):
    opened = []

    def _open(**options):
        opened.append(Socket(ws_address, **options))
        return opened[-1]

    yield _open
    for one in opened:
        one.sock.close()


def connect_packet(client_id):
    return rawmqtt.packet(0x10, rawmqtt.text("MQTT") + bytes([4, 2, 0, 0]) + rawmqtt.text(client_id))


@pytest.mark.parametrize("options, status", [({"path": "/other"}, 404), ({"protocol": "chat"}, 400)])
def test_what_is_not_mqtt_is_refused(ws, options, status):
    assert ws(**options).status == status


@pytest.mark.parametrize("protocol", ["mqtt", "mqttv3.1", "chat, mqtt"])
def test_packets_need_not_begin_where_frames_do(ws, name, protocol):
    client = ws(protocol=protocol)
    assert client.status == 101
    assert f"sec-websocket-protocol: {protocol.split(', ')[-1]}" in client.head
    packets = connect_packet(name("c")) + b"\xc0\x00\xc0\x00"
    for byte in packets[:10]:
        client.sock.sendall(frame(2, bytes([byte])))
    client.sock.sendall(frame(2, packets[10:12], final=False))
    client.sock.sendall(frame(9, b"between") + frame(0, packets[12:]))
    got, pongs = b"", []
    while len(got) < 8:
        opcode, payload = client.read()
        if opcode == 10:
            pongs.append(payload)
        else:
            got += payload
    assert (got, pongs) == (b"\x20\x02\x00\x00\xd0\x00\xd0\x00", [b"between"])
    client.sock.sendall(frame(8, b"\x03\xe8"))
    assert client.closed() == 1000


@pytest.mark.parametrize("raw, status", [
    (frame(1, b"text"), 1003),
    (b"\x82\x02\xc0\x00", 1002),
    (frame(3, b""), 1002),
    (frame(0, b""), 1002),
])
def test_what_breaks_the_rules_is_told_so(ws, name, raw, status):
    client = ws()
    client.sock.sendall(frame(2, connect_packet(name("c"))))
    assert client.read() == (2, b"\x20\x02\x00\x00")
    client.sock.sendall(raw)
    assert client.closed() == status


def test_a_page_of_another_machine_does_not_pass_for_this_one(ws, name):
    for origin, code in (("http://localhost:8080", 0), ("https://evil.example", 5)):
        client = ws(more=f"Origin: {origin}\r\n")
        client.sock.sendall(frame(2, connect_packet(name("c"))))
        assert client.read() == (2, bytes([0x20, 2, 0, code]))


def test_the_goodbye_of_mqtt_ends_the_connection(ws, name):
    client = ws()
    client.sock.sendall(frame(2, connect_packet(name("c"))) + frame(2, b"\xe0\x00"))
    assert client.closed() == 1000
