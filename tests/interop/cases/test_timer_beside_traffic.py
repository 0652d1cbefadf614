"""What happens by itself and what clients do go on beside each other: neither stops the other."""

from conftest import dead_letters_to, declare

MESSAGES = 20000
WINDOW = 200


def test_messages_expire_into_a_queue_whose_consumer_acknowledges(conn, connect, name):
    dying, dead = name(), name()
    channel = conn.channel()
    declare(conn, channel, dead)
    declare(conn, channel, dying, arguments={"x-message-ttl": 1, **dead_letters_to(dead)})
    conn.call(channel, "confirm.select")
    consumer = connect()
    on = consumer.channel()
    consumer.call(on, "basic.consume", queue=dead)
    seen = []
    for number in range(MESSAGES):
        conn.publish(channel, "", dying, b"%d" % number, {"delivery_mode": 2})
        if number >= WINDOW:
            got = consumer.expect(on, "basic.deliver")
            seen.append(int(got.body))
            consumer.send(on, "basic.ack", delivery_tag=got.delivery_tag)
    while len(seen) < MESSAGES:
        got = consumer.expect(on, "basic.deliver")
        seen.append(int(got.body))
        consumer.send(on, "basic.ack", delivery_tag=got.delivery_tag)
    assert seen == list(range(MESSAGES))
    for queue in (dying, dead):
        conn.call(conn.channel(), "queue.delete", queue=queue)
