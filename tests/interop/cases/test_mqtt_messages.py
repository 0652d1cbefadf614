"""MQTT 3.1, 3.1.1 and 5.0 by bare packets: publish and deliver, retained messages, wills."""

import pytest
from mqtt_fixtures import mqtt, mqtt_address, mqtt_socket  # noqa: F401

import rawmqtt

LEVELS = pytest.mark.parametrize("level", [3, 4, 5])


@LEVELS
@pytest.mark.parametrize("published", [0, 1, 2])
@pytest.mark.parametrize("granted", [0, 1, 2])
def test_a_message_comes_at_the_lower_quality_of_service(mqtt, name, level, published, granted):
    topic = name("t")
    subscriber, publisher = mqtt(level=level, client_id=name("s")), mqtt(level=level, client_id=name("p"))
    assert subscriber.subscribe((f"{topic}/+/#", granted)) == [granted]
    for payload in (b"one", b"", b"\x00\xff" * 5000):
        publisher.publish(f"{topic}/a/b", payload, published)
        message = subscriber.message(finish=True)
        assert message[:5] == (f"{topic}/a/b", payload, min(published, granted), False, False)
    subscriber.silence()
    publisher.silence()


@LEVELS
def test_one_copy_at_the_highest_of_overlapping_subscriptions(mqtt, name, level):
    topic = name("t")
    client = mqtt(level=level, client_id=name("c"))
    assert client.subscribe((f"{topic}/#", 0), (f"{topic}/a", 2), (f"{topic}/+", 1)) == [0, 2, 1]
    client.publish(f"{topic}/a", b"x", 2, wait=False, packet_id=7)
    seen = {}
    for _ in range(2):  # The answer and the copy may come in either order.
        first, body = client.read()
        seen[first >> 4] = first & 6
    assert seen == {rawmqtt.PUBREC: 0, rawmqtt.PUBLISH: 4}


@LEVELS
def test_a_level_is_what_stands_between_slashes_and_a_dot_stays_one(mqtt, name, level):
    topic = name("t")
    client, other = mqtt(level=level, client_id=name("c")), mqtt(level=level, client_id=name("d"))
    client.subscribe((f"{topic}/foo.bar/+", 1))
    other.subscribe((f"{topic}/foo/+/+", 1))
    client.publish(f"{topic}/foo.bar/x.y", b"dots")
    assert client.message().topic == f"{topic}/foo.bar/x.y"
    other.silence()


@LEVELS
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_retained_message_waits_for_new_subscriptions(mqtt, name, level, qos):
    topic = name("t")
    publisher = mqtt(level=level, client_id=name("p"))
    for number in range(3):
        publisher.publish(f"{topic}/{number}", b"old", qos, retain=True)
        publisher.publish(f"{topic}/{number}", str(number).encode(), qos, retain=True)
    publisher.silence()
    early = mqtt(level=level, client_id=name("early"))
    assert early.subscribe((f"{topic}/+", 1)) == [1]
    got = sorted(early.message(finish=True) for _ in range(3))
    assert [(one.topic, one.payload) for one in got] == [(f"{topic}/{n}", str(n).encode()) for n in range(3)]
    assert all(one.retain and one.qos == min(qos, 1) for one in got)
    publisher.publish(f"{topic}/1", b"", qos, retain=True)
    gone = early.message(finish=True)
    assert (gone.topic, gone.payload, gone.retain) == (f"{topic}/1", b"", False), "a live copy says what went"
    late = mqtt(level=level, client_id=name("late"))
    assert late.subscribe((f"{topic}/#", 0)) == [0]
    assert {late.message().topic for _ in range(2)} == {f"{topic}/0", f"{topic}/2"}
    late.silence()


def test_retained_messages_survive_a_crash(mqtt, name, restart):
    topic = name("t")
    publisher = mqtt(client_id=name("p"))
    publisher.publish(f"{topic}/kept", b"k", 1, retain=True)
    publisher.publish(f"{topic}/cleared", b"c", 1, retain=True)
    publisher.publish(f"{topic}/cleared", b"", 1, retain=True)
    restart()
    subscriber = mqtt(client_id=name("s"))
    subscriber.subscribe((f"{topic}/+", 1))
    message = subscriber.message(finish=True)
    assert (message.topic, message.payload, message.retain) == (f"{topic}/kept", b"k", True)
    subscriber.silence()


@LEVELS
def test_a_will_is_published_unless_the_client_says_goodbye(mqtt, name, level):
    topic = name("will")
    watcher = mqtt(level=level, client_id=name("w"))
    watcher.subscribe((topic, 2))
    polite = mqtt(level=level, client_id=name("polite"), will=(topic, b"polite", 1, False))
    polite.disconnect()
    lost = mqtt(level=level, client_id=name("lost"), will=(topic, b"lost", 1, False))
    lost.abort()
    message = watcher.message(finish=True)
    assert (message.payload, message.qos) == (b"lost", 1)
    if level == 5:
        loud = mqtt(level=5, client_id=name("loud"), will=(topic, b"loud", 2, False))
        loud.disconnect(reason=4)
        assert watcher.message(finish=True).payload == b"loud"
    watcher.silence()


@LEVELS
def test_a_silent_client_is_given_up_after_one_and_a_half_intervals(mqtt, name, level):
    topic = name("will")
    watcher = mqtt(level=level, client_id=name("w"))
    watcher.subscribe((topic, 0))
    silent = mqtt(level=level, client_id=name("silent"), keep_alive=1, will=(topic, b"gone", 0, False))
    assert watcher.message().payload == b"gone"
    assert silent.closed() == (0x8D if level == 5 else None)


def test_properties_reach_the_subscriber_as_they_came(mqtt, name):
    topic = name("t")
    subscriber, publisher = mqtt(level=5, client_id=name("s")), mqtt(level=5, client_id=name("p"))
    subscriber.subscribe((topic, 1), properties=rawmqtt.prop(0x0B, 42, "v"))
    sent = (rawmqtt.prop(0x03, "text/plain", "t") + rawmqtt.prop(0x08, "answers", "t")
            + rawmqtt.prop(0x09, "7", "t") + rawmqtt.prop(0x26, ("a", "1"), "t") + rawmqtt.prop(0x26, ("a", "1"), "t")
            + rawmqtt.prop(0x26, ("", "2"), "t"))
    publisher.publish(topic, b"x", 1, properties=sent)
    got = subscriber.message(finish=True).properties
    assert sent in got and rawmqtt.prop(0x0B, 42, "v") in got
    assert len(got) == len(sent) + 2


def test_what_is_too_large_for_a_client_is_not_sent_to_it(mqtt, name):
    topic = name("t")
    small = mqtt(level=5, client_id=name("s"), properties=rawmqtt.prop(0x27, 100, "i"))
    small.subscribe((topic, 1))
    publisher = mqtt(client_id=name("p"))
    for payload in (b"a", b"b" * 200, b"c"):
        publisher.publish(topic, payload, 1)
    assert [small.message(finish=True).payload for _ in range(2)] == [b"a", b"c"]
    small.silence()


def test_no_more_than_the_receive_maximum_is_on_its_way(mqtt, name):
    topic = name("t")
    client = mqtt(level=5, client_id=name("s"), properties=rawmqtt.prop(0x21, 2, "h"))
    client.subscribe((topic, 2))
    publisher = mqtt(client_id=name("p"))
    for number in range(4):
        publisher.publish(topic, str(number).encode(), 1)
    publisher.publish(topic, b"at most once", 0)
    first, second = client.message(), client.message()
    assert (first.payload, second.payload) == (b"0", b"1")
    client.send_ack(rawmqtt.PUBACK, first.packet_id)
    third = client.message()
    assert third.payload == b"2"
    for one in (second, third):
        client.send_ack(rawmqtt.PUBACK, one.packet_id)
    assert [client.message(finish=True).payload for _ in range(2)] == [b"3", b"at most once"]


def test_topics_of_the_server_are_nobody_elses(mqtt, name):
    client = mqtt(level=5, client_id=name("c"))
    client.publish("$SYS/broker/uptime", b"1", 1, wait=False, packet_id=9)
    assert client.ack(rawmqtt.PUBACK, 9).reason == 0x87
    older = mqtt(level=4, client_id=name("d"))
    older.publish("$SYS/broker/uptime", b"1", 1, wait=False)
    assert older.closed() is None


@LEVELS
def test_garbage_closes_the_connection_and_nobody_else_s(mqtt, mqtt_socket, name, level):
    bystander = mqtt(client_id=name("b"))
    for raw in (b"\x00\x00", b"GET / HTTP/1.1\r\n\r\n", b"AMQP\x00\x00\x09\x01", b"\x10\xff\xff\xff\xff\x7f"):
        client = mqtt_socket(level)
        client.sock.sendall(raw)
        client.closed()
    twice = mqtt(level=level, client_id=name("twice"))
    twice.send_connect(name("twice"))
    assert twice.closed() == (0x82 if level == 5 else None)
    bystander.silence()
