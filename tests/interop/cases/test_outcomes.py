"""The table of outcomes: four situations of a publish by flag, alternate exchange and confirms, each cell.

    routed to all       silent; an ack once every queue has it; the alternate exchange is not asked
    no binding matches  dropped; mandatory: returned 312; alternate exchange: delivered there; ack either way
    exchange missing    the channel is closed with 404, whatever else
    one queue refuses   the others keep it; nothing is returned; the publish is nacked
"""

import pytest

import rawamqp
from conftest import declare, get_all, put

PROPS = {"content_type": "text/plain", "headers": {"x-seq": 7, "nested": {"a": [1, None]}}, "message_id": "m-1",
         "delivery_mode": 2, "timestamp": 1700000000}
CELLS = [pytest.param(mandatory, alternate, confirms,
                      id="-".join(["mandatory" if mandatory else "plain", alternate, "confirms" if confirms else "none"]))
         for mandatory in (False, True) for alternate in ("no-ae", "ae", "missing-ae") for confirms in (False, True)]


class Stage:
    """An exchange, perhaps with an alternate one and its queue; a channel, perhaps with confirms."""

    def __init__(self, conn, name, kind, alternate, confirms, **arguments):
        self.conn, self.confirms = conn, confirms
        self.setup = conn.channel()
        self.exchange, self.alternate_queue = name("x"), name("alternate-queue")
        if alternate != "no-ae":
            arguments["alternate-exchange"] = alternate_exchange = name("alternate")
        if alternate == "ae":
            conn.call(self.setup, "exchange.declare", exchange=alternate_exchange, type="fanout", auto_delete=True)
            conn.call(self.setup, "queue.declare", queue=self.alternate_queue, exclusive=True)
            conn.call(self.setup, "queue.bind", queue=self.alternate_queue, exchange=alternate_exchange)
        conn.call(self.setup, "exchange.declare", exchange=self.exchange, type=kind, arguments=arguments)
        self.channel = conn.channel()
        if confirms:
            conn.call(self.channel, "confirm.select")
        self.has_alternate = alternate == "ae"

    def publish(self, exchange, key, mandatory, body=b"body"):
        """The events that the publish causes, in order; a get behind it makes sure it was dealt with."""
        self.conn.publish(self.channel, exchange, key, body, PROPS, mandatory=mandatory)
        self.conn.call(self.channel, "basic.qos")
        events = self.conn.inbox
        self.conn.inbox = []
        verdicts = [event for event in events if event.name in ("basic.ack", "basic.nack")]
        if self.confirms and not verdicts:
            events.append(self.conn.expect(self.channel, "basic.ack", "basic.nack"))
        self.conn.quiet(self.channel, 0.2)
        return events

    def alternate_got(self):
        return get_all(self.conn, self.setup, self.alternate_queue) if self.has_alternate else None


def assert_unchanged(broker, event):
    """The content header is the published one."""
    assert {**event.props, "headers": event.props["headers"].plain()} == PROPS
    # Differs: RabbitMQ 4.x sorts the headers; Menzil and RabbitMQ 3.x keep every byte.
    if broker.menzil or broker.rabbitmq_before(4):
        assert event.header_payload == rawamqp.encode_header(len(event.body), PROPS)


def names(events):
    return [event.name for event in events]


@pytest.mark.parametrize("mandatory, alternate, confirms", CELLS)
def test_routed_to_all(conn, name, broker, until, mandatory, alternate, confirms):
    stage, queues = Stage(conn, name, "fanout", alternate, confirms), [name(), name(), name()]
    for queue in queues:
        declare(conn, stage.setup, queue, arguments={"x-expires": 120000})
        conn.call(stage.setup, "queue.bind", queue=queue, exchange=stage.exchange)
    events = stage.publish(stage.exchange, "key", mandatory)
    assert names(events) == (["basic.ack"] if confirms else [])
    for queue in queues:
        event = until(lambda: (got := conn.call(stage.setup, "basic.get", queue=queue, no_ack=True)).body and got)
        assert (event.body, event.exchange, event.routing_key, event.message_count) == (b"body", stage.exchange, "key", 0)
        assert_unchanged(broker, event)
        conn.call(stage.setup, "queue.delete", queue=queue)
    assert stage.alternate_got() in (None, [])
    conn.call(stage.setup, "exchange.delete", exchange=stage.exchange)


@pytest.mark.parametrize("mandatory, alternate, confirms", CELLS)
def test_no_binding_matches(conn, name, broker, until, mandatory, alternate, confirms):
    stage = Stage(conn, name, "direct", alternate, confirms)
    queue = name()
    conn.call(stage.setup, "queue.declare", queue=queue, exclusive=True)
    conn.call(stage.setup, "queue.bind", queue=queue, exchange=stage.exchange, routing_key="other")
    events = stage.publish(stage.exchange, "key", mandatory)
    returned = mandatory and alternate != "ae"
    assert names(events) == ["basic.return"] * returned + ["basic.ack"] * confirms
    if returned:
        event = events[0]
        assert (event.reply_code, event.reply_text) == (312, "NO_ROUTE")
        assert (event.exchange, event.routing_key, event.body) == (stage.exchange, "key", b"body")
        assert_unchanged(broker, event)
    if stage.has_alternate:
        event = until(lambda: (got := conn.call(stage.setup, "basic.get", queue=stage.alternate_queue,
                                                no_ack=True)).body and got)
        assert (event.body, event.exchange, event.routing_key) == (b"body", stage.exchange, "key")
    assert get_all(conn, stage.setup, queue) == []
    conn.call(stage.setup, "exchange.delete", exchange=stage.exchange)


@pytest.mark.parametrize("mandatory", [False, True], ids=["plain", "mandatory"])
@pytest.mark.parametrize("confirms", [False, True], ids=["none", "confirms"])
def test_exchange_missing(conn, name, bystander, mandatory, confirms):
    exchange, channel = name("missing"), conn.channel()
    if confirms:
        conn.call(channel, "confirm.select")
    conn.publish(channel, exchange, "key", b"body", mandatory=mandatory)
    event = conn.expect_close(channel, 404, f"NOT_FOUND - no exchange '{exchange}' in vhost '/'")
    assert (event.class_id, event.method_id) == (60, 40)
    assert conn.inbox == [], "neither returned nor acknowledged"
    conn.channel()


@pytest.fixture
def full(conn, name):
    """A queue that holds its one message and refuses any other."""
    queue = name("full")
    declare(conn, conn.channel(), queue,
            arguments={"x-max-length": 1, "x-overflow": "reject-publish", "x-expires": 120000})
    put(conn, queue, b"first")
    return queue


@pytest.mark.parametrize("mandatory, alternate, confirms", CELLS)
def test_one_queue_refuses(conn, name, until, full, mandatory, alternate, confirms):
    stage, keeper = Stage(conn, name, "fanout", alternate, confirms), name()
    declare(conn, stage.setup, keeper, arguments={"x-expires": 120000})
    for queue in (full, keeper):
        conn.call(stage.setup, "queue.bind", queue=queue, exchange=stage.exchange)
    events = stage.publish(stage.exchange, "key", mandatory)
    assert names(events) == (["basic.nack"] if confirms else [])
    until(lambda: conn.call(stage.setup, "basic.get", queue=keeper, no_ack=True).body == b"body", "the other keeps it")
    assert get_all(conn, stage.setup, full) == [b"first"]
    assert stage.alternate_got() in (None, [])
    conn.call(stage.setup, "exchange.delete", exchange=stage.exchange)


@pytest.mark.parametrize("confirms", [False, True], ids=["none", "confirms"])
def test_one_queue_refuses_on_an_atomic_exchange(conn, name, broker, full, confirms):
    if not broker.menzil:
        pytest.skip("Differs: only Menzil has atomic-routing")
    stage, keeper = Stage(conn, name, "fanout", "ae", confirms, **{"atomic-routing": True}), name()
    declare(conn, stage.setup, keeper, arguments={"x-expires": 120000})
    for queue in (full, keeper):
        conn.call(stage.setup, "queue.bind", queue=queue, exchange=stage.exchange)
    events = stage.publish(stage.exchange, "key", True)
    assert names(events) == (["basic.nack"] if confirms else [])
    assert get_all(conn, stage.setup, keeper) == [], "all or none"
    assert get_all(conn, stage.setup, full) == [b"first"]
    assert stage.alternate_got() == []
    conn.call(stage.setup, "exchange.delete", exchange=stage.exchange)


def test_drop_head_makes_room_and_acks(conn, name):
    channel, queue = conn.channel(), name()
    declare(conn, channel, queue, arguments={"x-max-length": 2, "x-expires": 120000})
    put(conn, queue, b"1", b"2", b"3")
    assert get_all(conn, channel, queue) == [b"2", b"3"]


def test_length_in_bytes_refuses_too(conn, name):
    channel, queue = conn.channel(), name()
    declare(conn, channel, queue, arguments={"x-max-length-bytes": 10, "x-overflow": "reject-publish",
                                             "x-expires": 120000})
    conn.call(channel, "confirm.select")
    verdicts = []
    for body in (b"123456", b"1234567890", b"7"):
        conn.publish(channel, "", queue, body)
        verdicts.append(conn.expect(channel, "basic.ack", "basic.nack").name)
    assert verdicts[0] == "basic.ack"
    assert verdicts.count("basic.nack") >= 1
    total = sum(len(body) for body in get_all(conn, channel, queue))
    assert total == sum(size for size, verdict in zip((6, 10, 1), verdicts) if verdict == "basic.ack")
