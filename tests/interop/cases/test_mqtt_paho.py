"""paho-mqtt as its users have it, over TCP and over WebSocket."""

import os
import queue

import paho.mqtt.client as paho
import pytest
from mqtt_fixtures import mqtt_address  # noqa: F401
from paho.mqtt.properties import Properties

PATIENCE_SECONDS = 60
VERSIONS = pytest.mark.parametrize("version", [paho.MQTTv31, paho.MQTTv311, paho.MQTTv5])
TRANSPORTS = pytest.mark.parametrize("transport", ["tcp", "websockets"])


class Client:
    """Events come out of queues; a wait that takes too long fails the test."""

    def __init__(self, address, client_id, version, transport, clean=True):
        options = {"clean_session": clean} if version != paho.MQTTv5 else {}
        self.paho = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id=client_id, protocol=version,
                                transport=transport, **options)
        self.connected, self.subscribed, self.messages = queue.Queue(), queue.Queue(), queue.Queue()
        self.paho.on_connect = lambda client, data, flags, reason, properties: self.connected.put((flags, reason))
        self.paho.on_subscribe = lambda client, data, mid, reasons, properties: self.subscribed.put(reasons)
        self.paho.on_message = lambda client, data, message: self.messages.put(message)
        start = {}
        if version == paho.MQTTv5:
            properties = Properties(paho.PacketTypes.CONNECT)
            properties.SessionExpiryInterval = 0 if clean else 1000
            start = {"clean_start": clean, "properties": properties}
        self.paho.connect(*address, keepalive=60, **start)
        self.paho.loop_start()
        self.flags, reason = self.connected.get(timeout=PATIENCE_SECONDS)
        assert not reason.is_failure, reason

    def subscribe(self, topic, qos):
        self.paho.subscribe(topic, qos)
        assert [reason.value for reason in self.subscribed.get(timeout=PATIENCE_SECONDS)] == [qos]

    def publish(self, *arguments, **options):
        self.paho.publish(*arguments, **options).wait_for_publish(PATIENCE_SECONDS)

    def message(self):
        return self.messages.get(timeout=PATIENCE_SECONDS)

    def close(self):
        self.paho.disconnect()
        self.paho.loop_stop()


@pytest.fixture
def client(mqtt_address, request):  # noqa: F811
    opened = []

    def _client(client_id, version, transport, **options):
        host, port = mqtt_address
        port = int(os.environ["MQTT_WS_PORT"]) if transport == "websockets" else port
        opened.append(Client((host, port), client_id, version, transport, **options))
        return opened[-1]

    yield _client
    for one in opened:
        one.close()


@VERSIONS
@TRANSPORTS
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_messages_of_any_size_go_around(client, name, version, transport, qos):
    one, topic = client(name("c"), version, transport), name("t")
    one.subscribe(f"{topic}/#", qos)
    payloads = [bytes([size % 251]) * size for size in (0, 1, 126, 5000, 70_000, 300_000)]
    for payload in payloads:
        one.publish(f"{topic}/x", payload, qos)
    assert [one.message().payload for _ in payloads] == payloads


@VERSIONS
@TRANSPORTS
def test_a_session_waits_for_its_client(client, name, version, transport):
    client_id, topic = name("c"), name("t")
    first = client(client_id, version, transport, clean=False)
    first.subscribe(topic, 2)
    first.close()
    publisher = client(name("p"), version, transport)
    for number in range(100):
        publisher.publish(topic, str(number), 1 + number % 2)
    again = client(client_id, version, transport, clean=False)
    if version != paho.MQTTv31:
        assert again.flags.session_present
    got = [again.message() for _ in range(100)]
    for qos in (1, 2):  # paho hands a message of QoS 2 on when it is released.
        assert [int(one.payload) for one in got if one.qos == qos] == list(range(qos - 1, 100, 2))


@VERSIONS
@TRANSPORTS
def test_a_retained_message_is_there(client, name, version, transport):
    publisher, topic = client(name("p"), version, transport), name("t")
    publisher.publish(topic, b"kept", 1, retain=True)
    subscriber = client(name("s"), version, transport)
    subscriber.subscribe(topic, 1)
    message = subscriber.message()
    assert (message.payload, message.retain) == (b"kept", True)
    publisher.publish(topic, b"", 1, retain=True)
