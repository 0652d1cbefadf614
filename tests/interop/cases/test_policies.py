"""Policies: at once on what is there, what wins against an argument, and across a crash.

Names of sections are those of the article on exchange routing; where RabbitMQ does something else than
the article says, the case follows RabbitMQ and says so.
"""

import re

import pytest

from conftest import declare, get_all, put, ready_count, settled_publish
from rawamqp import ChannelClosed

PERSISTENT = {"delivery_mode": 2}
QUORUM = {"x-queue-type": "quorum"}


def exactly(*names):
    return "^(" + "|".join(re.escape(name) for name in names) + ")$"


def queue_of(conn, channel, name, arguments=None):
    queue = name()
    declare(conn, channel, queue, arguments=arguments or {})
    return queue


def verdicts(conn, channel, queue, count):
    return [settled_publish(conn, channel, "", queue, b"m", PERSISTENT).name for _ in range(count)]


def test_a_length_limit_acts_at_once(conn, policies, name, until):
    channel = conn.channel()
    queue, other = queue_of(conn, channel, name), queue_of(conn, channel, name)
    put(conn, queue, b"1", b"2", b"3", b"4", b"5", props=PERSISTENT)
    put(conn, other, b"1", b"2", b"3", props=PERSISTENT)
    policies.set(queue, exactly(queue), {"max-length": 2})
    until(lambda: ready_count(conn, channel, queue) == 2)
    put(conn, queue, b"6", props=PERSISTENT)
    assert get_all(conn, channel, queue) == [b"5", b"6"]
    assert ready_count(conn, channel, other) == 3
    policies.clear(queue)
    put(conn, queue, b"1", b"2", b"3", props=PERSISTENT)
    until(lambda: ready_count(conn, channel, queue) == 3)
    for one in (queue, other):
        conn.call(channel, "queue.delete", queue=one)


def test_a_queue_that_is_declared_later_has_the_policy(conn, policies, name):
    channel = conn.channel()
    queue = name()
    policies.set(queue, exactly(queue), {"max-length": 1, "overflow": "reject-publish"}, apply_to="queues")
    declare(conn, channel, queue)
    conn.call(channel, "confirm.select")
    assert verdicts(conn, channel, queue, 3)[:2] == ["basic.ack", "basic.nack"]
    conn.call(channel, "queue.delete", queue=queue)


def test_a_time_to_live_is_that_of_messages_that_come(conn, policies, name, until):
    channel = conn.channel()
    queue = queue_of(conn, channel, name)
    put(conn, queue, b"before", props=PERSISTENT)
    policies.set(queue, exactly(queue), {"message-ttl": 1})
    put(conn, queue, b"after", props=PERSISTENT)
    assert until(lambda: get_all(conn, channel, queue)) == [b"before"]
    until(lambda: ready_count(conn, channel, queue) == 0)
    conn.call(channel, "queue.delete", queue=queue)


def test_a_lease_begins_with_the_policy(conn, policies, name, until):
    queue = queue_of(conn, conn.channel(), name)
    policies.set(queue, exactly(queue), {"expires": 300})

    def is_gone():
        channel = conn.channel()
        conn.send(channel, "queue.declare", queue=queue, passive=True)
        answer = conn.expect(channel, "queue.declare-ok", "channel.close")
        if answer.name == "channel.close":
            conn.send(channel, "channel.close-ok")
        return answer.name == "channel.close"

    # On RabbitMQ asking counts as use.
    until(is_gone, pause=1.5)


def test_an_exchange_gets_an_alternate_one_without_being_declared_again(conn, policies, name, until):
    """Yapılandırma: the article's own policy, `alternate-exchange` for exchanges by prefix."""
    channel = conn.channel()
    exchange, spill = name("x"), name("spill")
    conn.call(channel, "exchange.declare", exchange=exchange, type="direct", durable=True)
    conn.call(channel, "exchange.declare", exchange=spill, type="fanout", durable=True)
    queue = queue_of(conn, channel, name)
    conn.call(channel, "queue.bind", queue=queue, exchange=spill)
    conn.publish(channel, exchange, "k", b"lost")
    policies.set(exchange, exactly(exchange), {"alternate-exchange": spill}, priority=10, apply_to="exchanges")
    conn.call(channel, "confirm.select")
    assert settled_publish(conn, channel, exchange, "k", b"kept", PERSISTENT, mandatory=True).name == "basic.ack"
    assert until(lambda: get_all(conn, channel, queue)) == [b"kept"]
    policies.clear(exchange)
    assert settled_publish(conn, channel, exchange, "k", b"lost", PERSISTENT).name == "basic.ack"
    assert get_all(conn, channel, queue) == []
    conn.call(channel, "queue.delete", queue=queue)
    for one in (exchange, spill):
        conn.call(channel, "exchange.delete", exchange=one)


def test_the_argument_wins_for_an_alternate_exchange(conn, policies, name, until):
    """Yapılandırma: "when both set the same key, the argument wins"; so it is for this key."""
    channel = conn.channel()
    exchange, own, other = name("x"), name("own"), name("other")
    for spill in (own, other):
        conn.call(channel, "exchange.declare", exchange=spill, type="fanout", durable=True)
    conn.call(channel, "exchange.declare", exchange=exchange, type="direct", durable=True,
              arguments={"alternate-exchange": own})
    queue = queue_of(conn, channel, name)
    conn.call(channel, "queue.bind", queue=queue, exchange=own)
    policies.set(exchange, exactly(exchange), {"alternate-exchange": other})
    conn.publish(channel, exchange, "k", b"m")
    assert until(lambda: get_all(conn, channel, queue)) == [b"m"]
    conn.call(channel, "queue.delete", queue=queue)
    for one in (exchange, own, other):
        conn.call(channel, "exchange.delete", exchange=one)


def test_a_queue_gets_a_dead_letter_exchange_and_loses_it(conn, policies, name, until):
    """Yapılandırma: the article's other policy, `dead-letter-exchange` for queues by prefix."""
    channel = conn.channel()
    letters = name("dlx")
    conn.call(channel, "exchange.declare", exchange=letters, type="direct", durable=True)
    queue, dead = queue_of(conn, channel, name), queue_of(conn, channel, name)
    conn.call(channel, "queue.bind", queue=dead, exchange=letters, routing_key="by-policy")

    def reject(body):
        put(conn, queue, body, props=PERSISTENT)
        got = until(lambda: take(conn.call(channel, "basic.get", queue=queue)))
        conn.send(channel, "basic.reject", delivery_tag=got.delivery_tag, requeue=False)

    def take(event):
        return event if event.name == "basic.get-ok" else None

    policies.set(queue, exactly(queue), {"dead-letter-exchange": letters, "dead-letter-routing-key": "by-policy"},
                 priority=10, apply_to="queues")
    reject(b"kept")
    assert until(lambda: get_all(conn, channel, dead)) == [b"kept"]
    policies.clear(queue)
    reject(b"lost")
    conn.call(channel, "basic.qos", prefetch_count=1)
    assert get_all(conn, channel, dead) == []
    for one in (queue, dead):
        conn.call(channel, "queue.delete", queue=one)
    conn.call(channel, "exchange.delete", exchange=letters)


@pytest.mark.parametrize("argument, policy", [(4, 2), (2, 4)])
def test_of_two_limits_the_lower_holds(conn, policies, name, until, argument, policy):
    """Yapılandırma says that the argument always wins. RabbitMQ takes the lower of two limits, and so
    does this broker."""
    channel = conn.channel()
    queue = queue_of(conn, channel, name, {"x-max-length": argument})
    policies.set(queue, exactly(queue), {"max-length": policy})
    put(conn, queue, b"1", b"2", b"3", b"4", b"5", props=PERSISTENT)
    until(lambda: ready_count(conn, channel, queue) == 2)
    conn.call(channel, "queue.delete", queue=queue)


@pytest.mark.parametrize("kind, verdict", [({}, "basic.nack"), (QUORUM, "basic.ack")], ids=["classic", "quorum"])
def test_overflow_is_the_arguments_on_classic_and_the_policys_on_quorum(conn, policies, name, kind, verdict):
    channel = conn.channel()
    queue = queue_of(conn, channel, name, {**kind, "x-max-length": 1, "x-overflow": "reject-publish"})
    policies.set(queue, exactly(queue), {"overflow": "drop-head"})
    conn.call(channel, "confirm.select")
    # A quorum queue of RabbitMQ refuses only from the second over its limit on.
    assert verdicts(conn, channel, queue, 6)[-1] == verdict
    conn.call(channel, "queue.delete", queue=queue)


def test_one_policy_applies_and_keys_do_not_merge(conn, policies, name, until):
    """Yapılandırma: "only one policy applies to an object at a time, the one with the highest
    priority; the keys of two that overlap do not merge"."""
    channel = conn.channel()
    queue = queue_of(conn, channel, name)
    policies.set(queue + "-high", exactly(queue), {"max-length": 2}, priority=10)
    policies.set(queue + "-low", exactly(queue), {"max-length": 1, "message-ttl": 1}, priority=1)
    put(conn, queue, b"1", b"2", b"3", props=PERSISTENT)
    until(lambda: ready_count(conn, channel, queue) == 2)
    policies.clear(queue + "-high")
    until(lambda: ready_count(conn, channel, queue) <= 1)
    conn.call(channel, "queue.delete", queue=queue)


def test_a_layered_policy_leaves_the_rest_to_the_next(conn, broker, policies, name, until):
    if not broker.menzil:
        pytest.skip("RabbitMQ has no layered policies")
    channel = conn.channel()
    queue = queue_of(conn, channel, name)
    policies.set(queue + "-high", exactly(queue), {"max-length": 3, "layered": True}, priority=10)
    policies.set(queue + "-low", exactly(queue), {"max-length": 1, "overflow": "reject-publish"}, priority=1)
    conn.call(channel, "confirm.select")
    assert verdicts(conn, channel, queue, 4) == ["basic.ack"] * 3 + ["basic.nack"]
    told = policies.run("effective", queue, "--json")
    assert f'"by":"{queue}-high","key":"max-length","origin":"policy","value":3' in told.stdout, told
    assert f'"by":"{queue}-low","key":"overflow","origin":"policy","value":"reject-publish"' in told.stdout
    conn.call(channel, "queue.delete", queue=queue)


def test_an_operator_policy_bounds_the_others(conn, policies, name, until):
    channel = conn.channel()
    queue = queue_of(conn, channel, name, {"x-max-length": 9})
    policies.set(queue, exactly(queue), {"max-length": 5})
    put(conn, queue, *[b"m"] * 9, props=PERSISTENT)
    until(lambda: ready_count(conn, channel, queue) == 5)
    policies.set(queue, exactly(queue), {"max-length": 2}, operator=True)
    until(lambda: ready_count(conn, channel, queue) == 2)
    policies.clear(queue, operator=True)
    put(conn, queue, *[b"m"] * 9, props=PERSISTENT)
    until(lambda: ready_count(conn, channel, queue) == 5)
    conn.call(channel, "queue.delete", queue=queue)


def test_an_exchange_keeps_what_a_policy_says(conn, broker, connect, policies, name, restart):
    if not broker.menzil:
        pytest.skip("only Menzil's exchanges keep what passes")
    channel, exchange = conn.channel(), name("x")
    conn.call(channel, "confirm.select")
    conn.call(channel, "exchange.declare", exchange=exchange, type="topic", durable=True)
    settled_publish(conn, channel, exchange, "k", b"before", PERSISTENT)
    policies.set(exchange, exactly(exchange), {"retain-messages": 2}, apply_to="exchanges")
    for body in (b"1", b"2", b"3"):
        settled_publish(conn, channel, exchange, "k", body, PERSISTENT)

    def replayed(conn):
        channel, queue = conn.channel(), name()
        declare(conn, channel, queue)
        conn.call(channel, "queue.bind", queue=queue, exchange=exchange, routing_key="#",
                  arguments={"x-replay-from": "first"})
        bodies = get_all(conn, channel, queue)
        conn.call(channel, "queue.delete", queue=queue)
        return bodies

    assert replayed(conn) == [b"2", b"3"]
    told = policies.run("effective", exchange, "--exchange")
    assert f"retain-messages  2      policy '{exchange}'" in told.stdout, told.stdout
    restart()
    conn = connect()
    assert replayed(conn) == [b"2", b"3"]
    policies.set(exchange, exactly(exchange), {"retain-messages": 1}, apply_to="exchanges")
    assert replayed(conn) == [b"3"]
    policies.clear(exchange)
    with pytest.raises(ChannelClosed) as refused:
        replayed(conn)
    assert "the exchange keeps nothing" in refused.value.reply_text
    conn.call(conn.channel(), "exchange.delete", exchange=exchange)


# What the command line of each says: RabbitMQ in the words of its protocol, Menzil in plain ones.
@pytest.mark.parametrize("definition, theirs, ours", [
    ({"retain-age": "soon"}, None, 'retain-age is "soon", and must be milliseconds, or a text such as'),
    ({"retain-messages": 0}, None, "retain-messages is 0, and must be a whole number from 1 on"),
    ({"max-length": -1}, "-1 is not a valid maximum length", "max-length is -1, and must be a whole number from 0 on"),
    ({"overflow": "spill"}, '<<"spill">> is not a valid overflow value', 'overflow is "spill", and must be "drop-head"'),
    ({"max-priority": 5}, '[{<<"max-priority">>,5}] are not recognised policy settings',
     "policies do not have max-priority"),
    ({"delayed-retry-type": "all"}, "delayed-retry-min is required when delayed-retry-type is all",
     "delayed-retry-type all needs delayed-retry-min too"),
    ({}, "no policy provided", "the definition is empty: it needs a key and its value"),
], ids=str)
def test_what_is_no_policy_is_refused(broker, policies, name, definition, theirs, ours):
    if not broker.menzil and theirs is None:
        pytest.skip("only Menzil's exchanges keep what passes")
    done = policies.try_set(name(), "^x$", definition)
    assert done.returncode != 0
    assert (ours if broker.menzil else theirs) in done.stderr + done.stdout


def test_a_pattern_that_is_none_and_an_unknown_kind_are_refused(broker, policies, name):
    done = policies.try_set(name(), "[x", {"max-length": 1})
    assert done.returncode != 0
    text = "is no regular expression" if broker.menzil else "pattern should be regular expression but is invalid"
    assert text in done.stderr + done.stdout
    done = policies.try_set(name(), "x", {"max-length": 1}, apply_to="dogs")
    assert done.returncode != 0
    text = 'apply-to is "dogs", and must be all, exchanges' if broker.menzil else "apply-to 'dogs' unrecognised"
    assert text in done.stderr + done.stdout


def test_policies_survive_a_crash(connect, broker, policies, name, restart, until):
    """What is there keeps its policy, what is declared after gets it, and what was cleared stays so."""
    conn = connect()
    channel = conn.channel()
    queue, later, free = queue_of(conn, channel, name), name(), queue_of(conn, channel, name)
    policies.set(queue, exactly(queue, later), {"max-length": 2})
    policies.set(queue, exactly(queue), {"max-length": 1}, operator=True)
    policies.set(free, exactly(free), {"max-length": 1})
    policies.clear(free)
    restart()
    conn = connect()
    channel = conn.channel()
    declare(conn, channel, later)
    for one, kept in ((queue, 1), (later, 2), (free, 3)):
        put(conn, one, b"1", b"2", b"3", props=PERSISTENT)
        until(lambda one=one, kept=kept: ready_count(conn, channel, one) == kept)
        conn.call(channel, "queue.delete", queue=one)
