"""Who is let in over MQTT."""

import pytest
from mqtt_fixtures import mqtt, mqtt_address, mqtt_socket  # noqa: F401
from own_menzil import OwnMenzil

import rawmqtt

REFUSED = {3: 4, 4: 4, 5: 0x86}
LEVELS = pytest.mark.parametrize("level", [3, 4, 5])


@LEVELS
def test_a_password_is_asked_for_where_there_is_a_user(mqtt, mqtt_socket, name, level):
    mqtt(level=level, client_id=name("c"), user="guest", password="guest").silence()
    for user, password in (("guest", "wrong"), ("nobody", "guest"), ("guest", None)):
        client = mqtt_socket(level)
        client.send_connect(name("c"), user=user, password=password)
        assert client.connack()[:2] == (False, REFUSED[level])
        client.closed()


def test_a_password_alone_is_no_user(mqtt, name):
    mqtt(level=5, client_id=name("c"), password="token").silence()


def test_a_method_of_authentication_that_is_not_there_is_refused(mqtt_socket, name):
    client = mqtt_socket(5)
    client.send_connect(name("c"), properties=rawmqtt.prop(0x15, "SCRAM-SHA-256", "t"))
    assert client.connack().reason == 0x8C
    client.closed()


@LEVELS
def test_nobody_comes_without_a_name_where_the_settings_say_so(tmp_path, name, level):
    menzil = OwnMenzil(tmp_path / "data", ["mqtt_anonymous=never"])
    menzil.start()
    try:
        client = rawmqtt.Client(menzil.host, menzil.mqtt_port, level)
        client.send_connect(name("c"))
        assert client.connack().reason == (0x87 if level == 5 else 5)
        client.closed()
        known = rawmqtt.Client.connect(menzil.host, menzil.mqtt_port, name("c"), level, user="guest", password="guest")
        known.silence()
        known.abort()
    finally:
        menzil.close()


@LEVELS
def test_a_clean_stop_says_so_and_keeps_what_it_took(tmp_path, name, level):
    menzil = OwnMenzil(tmp_path / "data")
    menzil.start()
    try:
        where = (menzil.host, menzil.mqtt_port)
        expiry = rawmqtt.prop(0x11, 1000, "i") if level == 5 else b""
        options = {"clean": False, "properties": expiry}
        away = rawmqtt.Client.connect(*where, "away", level, **options)
        away.subscribe(("t", 1))
        away.disconnect()
        client = rawmqtt.Client.connect(*where, "here", level)
        client.publish("t", b"kept", 1)
        menzil.stop()
        assert client.closed() == (0x8B if level == 5 else None)
        menzil.start()
        away = rawmqtt.Client.connect(*where, "away", level, **options)
        assert away.message(finish=True).payload == b"kept"
        away.abort()
    finally:
        menzil.close()
