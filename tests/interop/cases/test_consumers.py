"""Who gets what: consumer priorities, a single active consumer (case A18, second half), consumer timeouts.

Differs: Menzil has consumer timeouts on every queue, RabbitMQ 4.3 on quorum queues only and after half an hour by
default. There all that the consumer holds goes back; RabbitMQ gives back what is due.
"""

import pytest

import rawamqp
from conftest import declare, put

KINDS = pytest.mark.parametrize("kind", ["classic", "quorum"])


@pytest.fixture
def queue(conn, name):
    """Declares a queue of that type, and deletes it again."""
    made = []

    def _queue(kind, **arguments):
        made.append(name())
        declare(conn, conn.channel(), made[-1], arguments={"x-queue-type": kind, **arguments})
        return made[-1]

    yield _queue
    for one in made:
        conn.call(conn.channel(), "queue.delete", queue=one)


def consumer(conn, queue, tag, priority=None, prefetch=1, **options):
    channel = conn.channel()
    conn.call(channel, "basic.qos", prefetch_count=prefetch)
    arguments = {} if priority is None else {"x-priority": priority}
    arguments.update(options.pop("arguments", {}))
    conn.call(channel, "basic.consume", queue=queue, consumer_tag=tag, arguments=arguments, **options)
    return channel


def delivery(conn, channel):
    return conn.expect(channel, "basic.deliver")


def ack(conn, channel, event):
    conn.send(channel, "basic.ack", delivery_tag=event.delivery_tag)


@KINDS
def test_a_higher_priority_is_served_while_it_has_room(conn, queue, kind):
    q = queue(kind)
    low = consumer(conn, q, "low", -1)
    high = consumer(conn, q, "high", 10, prefetch=2)
    put(conn, q, b"1", b"2", b"3", b"4")
    held = [delivery(conn, high), delivery(conn, high), delivery(conn, low)]
    assert sorted(event.body for event in held) == [b"1", b"2", b"3"]
    conn.quiet(low, 0.5)
    ack(conn, high, held[0])
    assert delivery(conn, high).body == b"4"


@KINDS
def test_equal_priorities_take_turns(conn, queue, kind):
    q = queue(kind)
    channels = [consumer(conn, q, f"c{n}", 5, prefetch=10) for n in range(3)]
    put(conn, q, *(str(n).encode() for n in range(9)))
    for channel in channels:
        bodies = [delivery(conn, channel).body for _ in range(3)]
        assert bodies == sorted(bodies)
        conn.quiet(channel, 0.2)


@KINDS
@pytest.mark.parametrize("value, kind_name", [("5", "longstr"), (True, "bool"), (1.5, "double"), (None, "void")])
def test_a_priority_that_is_no_integer_is_406(conn, queue, bystander, kind, value, kind_name):
    q = queue(kind)
    channel = conn.channel()
    conn.send(channel, "basic.consume", queue=q, arguments={"x-priority": value})
    conn.expect_close(channel, 406, f"PRECONDITION_FAILED - invalid arg 'x-priority' for queue '{q}' in vhost '/': "
                                    f"\"expected integer, got {kind_name}\"")
    assert declare(conn, conn.channel(), q, arguments={"x-queue-type": kind}).consumer_count == 0


@KINDS
def test_any_signed_integer_is_a_priority(conn, queue, kind):
    q = queue(kind)
    for value in (rawamqp.V("b", -128), rawamqp.V("B", 255), rawamqp.V("l", -2**62), rawamqp.V("L", 2**62)):
        consumer(conn, q, "", value)


@KINDS
@pytest.mark.parametrize("argument", ["x-stream-offset", "x-stream-filter", "x-stream-match-unfiltered"])
def test_what_is_for_streams_is_406(conn, queue, kind, argument):
    q = queue(kind)
    channel = conn.channel()
    conn.send(channel, "basic.consume", queue=q, arguments={argument: "first"})
    conn.expect_close(channel, 406, f"PRECONDITION_FAILED - invalid arg '{argument}' for queue '{q}' in vhost '/' of "
                                    f"queue type rabbit_{kind}_queue")


@KINDS
def test_one_consumer_is_active_and_the_next_follows(conn, connect, queue, kind):
    q = queue(kind, **{"x-single-active-consumer": True})
    first_conn = connect()
    first = consumer(first_conn, q, "first", prefetch=5)
    second = consumer(conn, q, "second", prefetch=5)
    third = consumer(conn, q, "third", prefetch=5)
    put(conn, q, b"1", b"2", b"3")
    assert [delivery(first_conn, first).body for _ in range(3)] == [b"1", b"2", b"3"]
    conn.quiet(second, 0.3)
    first_conn.abort()
    held = [delivery(conn, second) for _ in range(3)]
    assert [event.body for event in held] == [b"1", b"2", b"3"]
    assert all(event.redelivered for event in held)
    conn.call(second, "basic.cancel", consumer_tag="second")
    put(conn, q, b"4")
    assert delivery(conn, third).body == b"4", "the next one, while the one before still holds three"
    for event in held:
        ack(conn, second, event)
    conn.quiet(second, 0.3)


def test_a18_a_higher_priority_takes_over_after_the_active_one_settled(conn, queue):
    """rabbitmq-server#14141: it stalled the queue."""
    q = queue("quorum", **{"x-single-active-consumer": True})
    first = consumer(conn, q, "first", prefetch=10)
    put(conn, q, b"1")
    held = delivery(conn, first)
    second = consumer(conn, q, "second", 100, prefetch=10)
    put(conn, q, b"2")
    conn.quiet(first, 0.3)
    conn.quiet(second, 0.3)
    ack(conn, first, held)
    ack(conn, second, delivery(conn, second))
    put(conn, q, b"3", b"4")
    assert [delivery(conn, second).body for _ in range(2)] == [b"3", b"4"]
    conn.quiet(first, 0.3)
    conn.call(second, "channel.close", reply_code=200)
    assert [delivery(conn, first).body for _ in range(2)] == [b"3", b"4"], "and back again"


@KINDS
def test_an_exclusive_consumer_of_such_a_queue(conn, queue, kind):
    q = queue(kind, **{"x-single-active-consumer": True})
    channel = conn.channel()
    conn.send(channel, "basic.consume", queue=q, consumer_tag="t", exclusive=True)
    if kind == "quorum":
        conn.expect(channel, "basic.consume-ok")
        consumer(conn, q, "other", exclusive=True)
    else:
        conn.expect_close(channel, 403, f"ACCESS_REFUSED - queue '{q}' in vhost '/' in exclusive use")


@KINDS
def test_get_from_such_a_queue(conn, queue, bystander, kind):
    q = queue(kind, **{"x-single-active-consumer": True})
    put(conn, q, b"1")
    channel = conn.channel()
    conn.send(channel, "basic.get", queue=q)
    if kind == "quorum":
        conn.expect_close(channel, 405, f"RESOURCE_LOCKED - cannot obtain access to locked queue '{q}' in vhost '/'. "
                                        "basic.get operations are not supported by <<\"quorum\">> queues with single "
                                        "active consumer")
    else:
        assert conn.expect(channel, "basic.get-ok").body == b"1"


def test_a_consumer_that_settles_nothing_is_cancelled(conn, queue):
    q = queue("quorum")
    arguments = {"x-consumer-timeout": 1500}
    slow = consumer(conn, q, "slow", prefetch=2, arguments=arguments)
    put(conn, q, b"1", b"2", b"3")
    held = [delivery(conn, slow) for _ in range(2)]
    patient = consumer(conn, q, "patient", prefetch=10)
    assert delivery(conn, patient).body == b"3"
    assert conn.expect(slow, "basic.cancel").consumer_tag == "slow"
    again = [delivery(conn, patient) for _ in range(2)]
    assert [event.body for event in again] == [b"1", b"2"]
    assert all(event.redelivered for event in again)
    for event in held:
        ack(conn, slow, event)  # too late, and no error
    conn.call(slow, "basic.qos", prefetch_count=1)
    conn.quiet(patient, 2.0)  # its own messages are not late
    conn.send(patient, "basic.ack", delivery_tag=0, multiple=True)
    conn.call(patient, "channel.close", reply_code=200)
    assert declare(conn, conn.channel(), q, arguments={"x-queue-type": "quorum"}).message_count == 0


def test_a_client_that_does_not_understand_loses_its_channel(connect, conn, queue):
    q = queue("quorum", **{"x-consumer-timeout": 1000})
    other = connect(capabilities={})
    channel = consumer(other, q, "slow")
    put(conn, q, b"1")
    delivery(other, channel)
    event = other.expect_close(channel, 406)
    assert event.reply_text.startswith("PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. "
                                       "Timeout value used: ")
    again = consumer(conn, q, "again")
    assert delivery(conn, again).redelivered


@pytest.mark.parametrize("value, reason", [("1", '"expected integer, got longstr"'), (-1, "{value_negative,-1}")])
def test_a_timeout_is_an_integer_and_not_negative(conn, queue, value, reason):
    q = queue("quorum")
    channel = conn.channel()
    conn.send(channel, "basic.consume", queue=q, arguments={"x-consumer-timeout": value})
    conn.expect_close(channel, 406,
                      f"PRECONDITION_FAILED - invalid arg 'x-consumer-timeout' for queue '{q}' in vhost '/': {reason}")


def test_what_was_got_and_not_settled_closes_the_channel(conn, queue):
    q = queue("quorum", **{"x-consumer-timeout": 1000})
    put(conn, q, b"1")
    channel = conn.channel()
    assert conn.call(channel, "basic.get", queue=q).body == b"1"
    event = conn.expect_close(channel, 406)
    assert event.reply_text.startswith("PRECONDITION_FAILED - delivery acknowledgement on channel ")
    again = consumer(conn, q, "again")
    assert delivery(conn, again).redelivered


def test_an_ordinary_queue_has_timeouts_too(conn, queue, broker):
    if not broker.menzil:
        pytest.skip("RabbitMQ has them on quorum queues only")
    q = queue("classic", **{"x-consumer-timeout": 300})
    slow = consumer(conn, q, "slow")
    put(conn, q, b"1")
    delivery(conn, slow)
    assert conn.expect(slow, "basic.cancel").consumer_tag == "slow"
    assert conn.call(conn.channel(), "basic.get", queue=q).redelivered
