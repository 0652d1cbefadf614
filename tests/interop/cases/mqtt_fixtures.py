"""Where MQTT clients connect, and clients that are gone at the end."""

import os

import pytest

import rawmqtt


@pytest.fixture
def mqtt_address():
    port = os.environ.get("MQTT_PORT")
    if not port:
        pytest.skip("no MQTT listener of this broker is known")
    return os.environ["AMQP_HOST"], int(port)


@pytest.fixture
def mqtt(mqtt_address):
    """Opens connections that are let in, and dropped at the end, whatever happened."""
    opened = []

    def _connect(client_id="", level=4, **options):
        opened.append(rawmqtt.Client.connect(*mqtt_address, client_id, level, **options))
        return opened[-1]

    yield _connect
    for client in opened:
        client.abort()


@pytest.fixture
def mqtt_socket(mqtt_address):
    """The same, before CONNECT."""
    opened = []

    def _open(level=4):
        opened.append(rawmqtt.Client(*mqtt_address, level))
        return opened[-1]

    yield _open
    for client in opened:
        client.abort()
