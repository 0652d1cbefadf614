"""MQTT sessions: what waits for a client that is away, over crashes, and who takes a session over."""

import time

import pytest
from mqtt_fixtures import mqtt, mqtt_address, mqtt_socket  # noqa: F401

import rawmqtt

LEVELS = pytest.mark.parametrize("level", [3, 4, 5])
FOR_EVER = rawmqtt.prop(0x11, 0xFFFFFFFF, "i")


def durable(level):
    """Options of a session that outlives its connection."""
    return {"level": level, "clean": False, "properties": FOR_EVER if level == 5 else b""}


@LEVELS
@pytest.mark.parametrize("qos", [1, 2])
def test_three_alarms_come_in_order_after_a_crash(mqtt, name, restart, level, qos):
    client_id, topic = name("client"), name("alarms")
    client = mqtt(client_id, present=False, **durable(level))
    assert client.subscribe((f"{topic}/#", qos)) == [qos]
    client.disconnect()
    publisher = mqtt(client_id=name("p"))
    for number in range(3):
        publisher.publish(f"{topic}/{number}", b"alarm", qos)
    publisher.publish(f"{topic}/never", b"nobody is there", 0)
    restart()
    # Before 3.1.1 CONNACK says nothing of a session.
    client = mqtt(client_id, present=level > 3, **durable(level))
    got = [client.message(finish=True) for _ in range(3)]
    assert [(one.topic, one.qos, one.dup) for one in got] == [(f"{topic}/{n}", qos, False) for n in range(3)]
    client.silence()
    client.disconnect()
    client = mqtt(client_id, present=level > 3, **durable(level))
    client.silence()
    client.disconnect()
    mqtt(client_id, level=level, present=False).disconnect()


@LEVELS
def test_what_was_not_acknowledged_comes_again_as_it_was(mqtt, name, restart, level):
    client_id, topic = name("client"), name("t")
    client = mqtt(client_id, **durable(level))
    client.subscribe((topic, 2))
    publisher = mqtt(client_id=name("p"))
    for number in range(3):
        publisher.publish(topic, str(number).encode(), 2)
    before = [client.message() for _ in range(3)]
    client.send_ack(rawmqtt.PUBREC, before[0].packet_id)
    assert client.ack(rawmqtt.PUBREL).packet_id == before[0].packet_id
    restart()
    client = mqtt(client_id, **durable(level))
    # The first was received: it is released once more. The others may have been.
    assert client.ack(rawmqtt.PUBREL).packet_id == before[0].packet_id
    client.send_ack(rawmqtt.PUBCOMP, before[0].packet_id)
    for was in before[1:]:
        again = client.message(finish=True)
        assert (again.payload, again.packet_id, again.dup) == (was.payload, was.packet_id, True)
    client.silence()


@LEVELS
def test_the_same_publish_twice_around_a_crash_is_one_message(mqtt, name, restart, level):
    client_id, watcher_id, topic = name("client"), name("watcher"), name("t")
    mqtt(watcher_id, **durable(level)).subscribe((topic, 2))
    client = mqtt(client_id, **durable(level))
    client.publish(topic, b"once", 2, packet_id=77, wait=False)
    client.ack(rawmqtt.PUBREC, 77)
    restart()
    client = mqtt(client_id, **durable(level))
    client.publish(topic, b"once", 2, packet_id=77, dup=True)
    client.publish(topic, b"another", 2, packet_id=77)
    watcher = mqtt(watcher_id, **durable(level))
    assert [watcher.message(finish=True).payload for _ in range(2)] == [b"once", b"another"]
    watcher.silence()


@LEVELS
def test_a_session_is_taken_over_and_what_it_had_goes_with_it(mqtt, name, level):
    client_id, topic = name("client"), name("t")
    first = mqtt(client_id, will=(topic, b"the first is gone", 1, False), **durable(level))
    first.subscribe((topic, 1))
    second = mqtt(client_id, present=level > 3, **durable(level))
    assert first.closed() == (0x8E if level == 5 else None)
    assert second.message(finish=True).payload == b"the first is gone"
    mqtt(client_id=name("p")).publish(topic, b"x", 1)
    assert second.message(finish=True).payload == b"x"
    second.silence()
    third = mqtt(client_id, level=level, present=False)
    assert second.closed() == (0x8E if level == 5 else None)
    mqtt(client_id=name("p")).publish(topic, b"y", 1)
    third.silence()


def test_a_session_ends_when_its_interval_is_over(mqtt, mqtt_socket, name):
    client_id = name("client")
    one_second = rawmqtt.prop(0x11, 1, "i")
    mqtt(client_id, level=5, clean=False, properties=one_second).disconnect()
    for patience in (1.5, 3, 6, 12, 24):
        time.sleep(patience)
        client = mqtt_socket(5)
        client.send_connect(client_id, clean=False, properties=one_second)
        if not client.connack().present:
            return
        client.disconnect()
    pytest.fail("the session is still there")


def test_who_has_no_name_gets_one_that_works(mqtt, mqtt_socket, name):
    nameless = mqtt_socket(5)
    nameless.send_connect("", clean=True, properties=FOR_EVER)
    answer = nameless.connack()
    assert answer.reason == 0
    at = answer.properties.index(b"\x12")
    length = int.from_bytes(answer.properties[at + 1:at + 3], "big")
    client_id = answer.properties[at + 3:at + 3 + length].decode()
    nameless.disconnect()
    mqtt(client_id, level=5, clean=False, present=True).disconnect()
    refused = mqtt_socket(4)
    refused.send_connect("", clean=False)
    assert refused.connack().reason == 2
    refused.closed()
    one, other = mqtt("", level=4), mqtt("", level=4)
    one.silence()
    other.silence()
