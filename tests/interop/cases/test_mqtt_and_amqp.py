"""One message, two protocols: amq.topic is where they meet."""

from conftest import declare, get_all
from mqtt_fixtures import mqtt, mqtt_address  # noqa: F401

import rawmqtt


def test_an_amqp_queue_gets_what_mqtt_clients_publish(connect, mqtt, name, restart):
    conn = connect()
    channel, queue, topic = conn.channel(), name(), name("t")
    declare(conn, channel, queue)
    conn.call(channel, "queue.bind", queue=queue, exchange="amq.topic", routing_key=f"{topic}.*.temperature")
    publisher = mqtt(client_id=name("p"))
    for qos in (0, 1, 2):
        publisher.publish(f"{topic}/kitchen/temperature", str(qos).encode(), qos)
    publisher.publish(f"{topic}/kitchen/humidity", b"no", 1)
    publisher.silence()
    got = conn.call(channel, "basic.get", queue=queue, no_ack=True)
    assert (got.body, got.exchange, got.routing_key) == (b"0", "amq.topic", f"{topic}.kitchen.temperature")
    restart()
    conn = connect()
    channel = conn.channel()
    assert get_all(conn, channel, queue) == [b"1", b"2"], "what was acknowledged is on disk"
    conn.call(channel, "queue.delete", queue=queue)


def test_mqtt_subscribers_get_what_amqp_clients_publish(connect, mqtt, name):
    conn = connect()
    topic = name("t")
    subscriber = mqtt(level=5, client_id=name("s"))
    subscriber.subscribe((f"{topic}/+/alarm", 2))
    conn.publish(conn.channel(), "amq.topic", f"{topic}.roof.alarm", b"smoke", props={"delivery_mode": 2})
    message = subscriber.message(finish=True)
    assert (message.topic, message.payload, message.retain) == (f"{topic}/roof/alarm", b"smoke", False)
    subscriber.silence()


def test_a_name_with_a_dot_comes_back_as_it_was(connect, mqtt, name):
    conn = connect()
    channel, queue, topic = conn.channel(), name(), name("t")
    conn.call(channel, "queue.declare", queue=queue, exclusive=True)
    conn.call(channel, "queue.bind", queue=queue, exchange="amq.topic", routing_key=f"{topic}.#")
    client = mqtt(client_id=name("c"))
    client.subscribe((f"{topic}/#", 1))
    client.publish(f"{topic}/foo.bar/x.y", b"there", 0)
    assert client.message().topic == f"{topic}/foo.bar/x.y"
    key = conn.call(channel, "basic.get", queue=queue, no_ack=True).routing_key
    assert key.count(".") == 2, "as many words as levels"
    conn.publish(channel, "amq.topic", key, b"and back")
    message = client.message(finish=True)
    assert (message.topic, message.payload) == (f"{topic}/foo.bar/x.y", b"and back")


def test_a_queue_that_refuses_is_told_to_a_client_of_5(connect, mqtt, name):
    conn = connect()
    channel, queue, topic = conn.channel(), name(), name("t")
    arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
    conn.call(channel, "queue.declare", queue=queue, exclusive=True, arguments=arguments)
    conn.call(channel, "queue.bind", queue=queue, exchange="amq.topic", routing_key=topic)
    client = mqtt(level=5, client_id=name("c"))
    client.publish(topic, b"first", 1)
    client.publish(topic, b"second", 1, wait=False, packet_id=500)
    assert client.ack(rawmqtt.PUBACK, 500).reason == 0x97
    assert conn.call(channel, "basic.get", queue=queue, no_ack=True).body == b"first"
