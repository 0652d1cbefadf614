"""Direct reply-to: replies go straight to a channel, without a queue.

Differs: RabbitMQ 4.3 drops a reply in silence whose requester is gone, even a mandatory one, as long as the name once
was somebody's; Menzil returns it. RabbitMQ closes the connection where the name cannot be read at all (541).
"""

import pathlib
import subprocess
import sys
import textwrap

import pytest

from conftest import declare

PSEUDO = "amq.rabbitmq.reply-to"


@pytest.fixture
def requests(conn, name):
    queue = name("requests")
    declare(conn, conn.channel(), queue)
    yield queue
    conn.call(conn.channel(), "queue.delete", queue=queue)


def wait_for_replies(conn, tag="replies"):
    channel = conn.channel()
    conn.call(channel, "basic.consume", queue=PSEUDO, consumer_tag=tag, no_ack=True)
    return channel


def ask(conn, channel, requests, server, body=b"ask", **props):
    """Sends a request; the request as the server takes it."""
    conn.publish(channel, "", requests, body, {"reply_to": PSEUDO, **props})
    while True:
        event = server.call(server.channel(), "basic.get", queue=requests, no_ack=True)
        if event.name == "basic.get-ok":
            return event


@pytest.fixture
def asked(connect, conn, requests):
    """A requester's connection and channel, the server's, and the name that replies go to."""
    server = connect()
    channel = wait_for_replies(conn)
    request = ask(conn, channel, requests, server)
    return conn, channel, server, server.channel(), request.props["reply_to"]


def test_a_request_names_its_channel_and_the_reply_comes_there(conn, connect, requests):
    server = connect()
    channel = wait_for_replies(conn)
    request = ask(conn, channel, requests, server, b"2 + 2", correlation_id="17", headers={"h": 1}, delivery_mode=2)
    reply_to = request.props.pop("reply_to")
    assert reply_to.startswith("amq.rabbitmq.reply-to.") and len(reply_to) > 40
    assert request.props.pop("headers").plain() == {"h": 1}
    assert request.props == {"correlation_id": "17", "delivery_mode": 2}
    on = server.channel()
    server.publish(on, "", reply_to, b"4", {"correlation_id": "17"})
    event = conn.expect(channel, "basic.deliver")
    assert (event.body, event.consumer_tag, event.redelivered) == (b"4", "replies", False)
    assert (event.exchange, event.routing_key, event.props) == ("", reply_to, {"correlation_id": "17"})


def test_large_and_empty_replies(asked):
    conn, channel, server, on, reply_to = asked
    large = bytes(range(256)) * 12_000
    for body in (b"", large, b"after"):
        server.publish(on, "", reply_to, body)
        assert conn.expect(channel, "basic.deliver").body == body


def test_many_replies_come_in_order(asked):
    conn, channel, server, on, reply_to = asked
    server.call(on, "confirm.select")
    for number in range(1000):
        server.publish(on, "", reply_to, str(number).encode(), mandatory=True)
    assert [conn.expect(channel, "basic.deliver").body for _ in range(1000)] == [b"%d" % n for n in range(1000)]
    confirmed = 0
    while confirmed < 1000:
        event = server.expect(on, "basic.ack", "basic.nack", "basic.return")
        assert event.name == "basic.ack"
        confirmed = max(confirmed + 1, event.delivery_tag if event.multiple else 0)


def test_names_are_different_for_every_consumer(conn, connect, requests):
    server = connect()
    names = set()
    for _ in range(5):
        channel = wait_for_replies(conn)
        names.add(ask(conn, channel, requests, server).props["reply_to"])
        conn.call(channel, "basic.cancel", consumer_tag="replies")
        conn.call(channel, "basic.consume", queue=PSEUDO, consumer_tag="replies", no_ack=True)
        names.add(ask(conn, channel, requests, server).props["reply_to"])
    assert len(names) == 10


def test_declare_tells_whether_the_requester_is_there(asked):
    conn, channel, server, on, reply_to = asked
    for passive in (True, False):
        ok = server.call(on, "queue.declare", queue=reply_to, passive=passive)
        assert (ok.queue, ok.message_count, ok.consumer_count) == (reply_to, 0, 1)
    assert server.call(on, "queue.declare", queue=PSEUDO, passive=True).consumer_count == 1
    assert server.call(on, "queue.purge", queue=reply_to).message_count == 0
    conn.call(channel, "channel.close", reply_code=200)
    server.send(on, "queue.declare", queue=reply_to, passive=True)
    server.expect_close(on, 404, f"NOT_FOUND - no queue '{reply_to}' in vhost '/'")


def test_a_mandatory_reply_to_nobody(asked, broker):
    conn, channel, server, on, reply_to = asked
    conn.call(channel, "basic.cancel", consumer_tag="replies")
    server.call(on, "confirm.select")
    server.publish(on, "", reply_to, b"late", mandatory=True)
    first = server.expect(on, "basic.return", "basic.ack")
    if broker.menzil:
        assert (first.name, first.reply_code, first.body) == ("basic.return", 312, b"late")
        first = server.expect(on, "basic.ack")
    assert first.name == "basic.ack"
    conn.quiet(channel, 0.3)


def test_a_reply_by_carbon_copy_and_by_transaction(asked):
    conn, channel, server, on, reply_to = asked
    server.publish(on, "", "nowhere", b"copy", {"headers": {"CC": [reply_to]}}, mandatory=True)
    assert conn.expect(channel, "basic.deliver").body == b"copy"
    server.call(on, "tx.select")
    server.publish(on, "", reply_to, b"held")
    conn.quiet(channel, 0.3)
    server.call(on, "tx.commit")
    assert conn.expect(channel, "basic.deliver").body == b"held"


def test_only_the_default_exchange_replies(asked):
    conn, channel, server, on, reply_to = asked
    server.publish(on, "amq.direct", reply_to, b"elsewhere", mandatory=True)
    assert server.expect(on, "basic.return").reply_code == 312
    conn.quiet(channel, 0.3)


@pytest.mark.parametrize("method", ["queue.bind", "queue.unbind"])
def test_it_cannot_be_bound(asked, method):
    server, on, reply_to = asked[2:]
    server.send(on, method, queue=reply_to, exchange="amq.direct", routing_key="k")
    server.expect_close(on, 403, "ACCESS_REFUSED - cannot bind or unbind to a volatile (direct reply-to) queue")


def test_nobody_else_consumes_from_it(asked):
    server, on, reply_to = asked[2:]
    server.send(on, "basic.consume", queue=reply_to, no_ack=True)
    server.expect_close(on, 406, f"PRECONDITION_FAILED - only creator channel may consume from queue '{reply_to}' "
                                 "in vhost '/'")


def test_nobody_gets_from_it(asked, bystander):
    server, on, reply_to = asked[2:]
    server.send(on, "basic.get", queue=reply_to)
    server.expect_connection_close(540, f"NOT_IMPLEMENTED - basic.get not supported by volatile queue '{reply_to}' "
                                        "in vhost '/'")


def test_a_request_without_a_consumer_is_406(conn, requests, bystander):
    channel = conn.channel()
    conn.publish(channel, "", requests, b"ask", {"reply_to": PSEUDO})
    conn.expect_close(channel, 406, "PRECONDITION_FAILED - fast reply consumer does not exist")
    assert declare(conn, conn.channel(), requests).message_count == 0


def test_it_is_consumed_once_and_without_acknowledgements(conn):
    channel = wait_for_replies(conn)
    conn.send(channel, "basic.consume", queue=PSEUDO, consumer_tag="other", no_ack=True)
    conn.expect_close(channel, 406, "PRECONDITION_FAILED - reply consumer already set")
    channel = conn.channel()
    conn.send(channel, "basic.consume", queue=PSEUDO, consumer_tag="other")
    conn.expect_close(channel, 406, "PRECONDITION_FAILED - reply consumer cannot acknowledge")


def test_it_is_advertised(conn):
    assert conn.start.server_properties["capabilities"]["direct_reply_to"] is True
    assert conn.start.server_properties["capabilities"]["consumer_priorities"] is True


PIKA = """
    import sys, pika
    host, port, user, password = sys.argv[1:]
    credentials = pika.PlainCredentials(user, password)
    parameters = pika.ConnectionParameters(host, int(port), credentials=credentials)
    server, client = pika.BlockingConnection(parameters), pika.BlockingConnection(parameters)
    serving, calling = server.channel(), client.channel()
    queue = serving.queue_declare("", exclusive=True).method.queue
    def serve(channel, method, properties, body):
        channel.basic_publish("", properties.reply_to, str(int(body) ** 2))
        channel.basic_ack(method.delivery_tag)
    serving.basic_consume(queue, serve)
    replies = []
    calling.basic_consume("amq.rabbitmq.reply-to", lambda c, m, p, body: replies.append(int(body)), auto_ack=True)
    for number in range(20):
        calling.basic_publish("", queue, str(number), pika.BasicProperties(reply_to="amq.rabbitmq.reply-to"))
        while len(replies) == number:
            server.process_data_events(0.01)
            client.process_data_events(0.01)
    assert replies == [number ** 2 for number in range(20)], replies
    server.close(), client.close()
"""


def test_pikas_rpc_example(target):
    """The tutorial's pattern, with pika."""
    arguments = [target.host, str(target.port), target.user, target.password]
    program = [sys.executable, "-c", textwrap.dedent(PIKA), *arguments]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60, cwd=pathlib.Path(__file__).parent)
    if "ModuleNotFoundError" in done.stderr:
        pytest.skip("pika is not here")
    assert done.returncode == 0, done.stderr
