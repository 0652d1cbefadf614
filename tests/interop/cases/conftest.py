"""Fixtures of the wire-level cases: where the broker is, what it is, and a bystander to protect.

A case states one outcome. Where Menzil deliberately does something else than RabbitMQ, the case says
so in a comment that starts with `Differs:` and asserts both, by `broker.menzil`.
"""

import itertools
import json
import os
import subprocess
import time

import pytest

import control
import rawamqp

_numbers = itertools.count(1)


class Broker:
    def __init__(self, properties):
        self.product = properties["product"]
        self.menzil = self.product != "RabbitMQ"
        version = properties["version"].split("-")[0].split("+")[0].split(".")
        self.version = tuple(int(part) for part in version if part.isdigit())

    def rabbitmq_before(self, *version):
        return not self.menzil and self.version < version


@pytest.fixture
def target():
    return rawamqp.Target(os.environ["AMQP_HOST"], int(os.environ["AMQP_PORT"]), os.environ.get("AMQP_USER", "guest"),
                          os.environ.get("AMQP_PASSWORD", "guest"))


@pytest.fixture
def connect(target):
    """Opens connections that are dropped at the end, whatever happened."""
    opened = []

    def _connect(**options):
        opened.append(rawamqp.Conn.open(target, **options))
        return opened[-1]

    yield _connect
    for conn in opened:
        conn.abort()


@pytest.fixture
def conn(connect):
    return connect()


@pytest.fixture
def broker(conn):
    return Broker(conn.start.server_properties)


@pytest.fixture
def name(request):
    """Makes names that no other test has."""
    stem = request.node.name.partition("[")[0]
    return lambda what="q": f"{what}-{stem[:60]}-{os.getpid()}-{next(_numbers)}"


@pytest.fixture
def restart():
    """kill -9 and start again; skips where the broker is not ours to kill."""
    def _restart(pause=0.0):
        try:
            control.ask("kill9")
            time.sleep(pause)
            control.ask("start")
        except control.Unavailable as reason:
            pytest.skip(str(reason))
    return _restart


@pytest.fixture
def bystander(connect, name):
    """A connection with a message in flight; it must be untouched by whatever the test does to others."""
    conn = connect()
    channel, queue = conn.channel(), name("bystander")
    conn.call(channel, "queue.declare", queue=queue, exclusive=True)
    conn.publish(channel, "", queue, b"before")
    held = conn.call(channel, "basic.get", queue=queue)
    assert held.body == b"before"
    yield conn
    conn.publish(channel, "", queue, b"after")
    assert conn.call(channel, "basic.get", queue=queue, no_ack=True).body == b"after"
    conn.send(channel, "basic.ack", delivery_tag=held.delivery_tag)
    assert conn.call(channel, "queue.delete", queue=queue).message_count == 0


class Policies:
    """Sets policies of the broker under test by its own command line, and clears them in the end."""

    def __init__(self, broker):
        self.menzil = broker.menzil
        self.set_ones = []
        if self.menzil:
            if not os.environ.get("INTEROP_DATA"):
                pytest.skip("no command line for this broker")
            self.words = [os.environ["INTEROP_BINARY"], "policy"]
        elif os.environ.get("INTEROP_CTL"):
            self.words = os.environ["INTEROP_CTL"].split()
        else:
            pytest.skip("no rabbitmqctl for this broker: INTEROP_CTL names one")

    def run(self, *words):
        where = ["--data-dir", os.environ["INTEROP_DATA"]] if self.menzil else []
        return subprocess.run([*self.words, *words, *where], capture_output=True, text=True, timeout=120)

    def try_set(self, policy, pattern, definition, priority=0, apply_to="all", operator=False):
        text = json.dumps(definition)
        options = ["--priority", str(priority), "--apply-to", apply_to]
        if self.menzil:
            options += ["--operator"] if operator else []
            return self.run("set", policy, pattern, text, *options)
        return self.run("set_operator_policy" if operator else "set_policy", policy, pattern, text, *options)

    def set(self, policy, *arguments, operator=False, **options):
        done = self.try_set(policy, *arguments, operator=operator, **options)
        assert done.returncode == 0, done.stderr + done.stdout
        if (policy, operator) not in self.set_ones:
            self.set_ones.append((policy, operator))

    def clear(self, policy, operator=False):
        self.set_ones.remove((policy, operator))
        if self.menzil:
            done = self.run("clear", policy, *(["--operator"] if operator else []))
        else:
            done = self.run("clear_operator_policy" if operator else "clear_policy", policy)
        assert done.returncode == 0, done.stderr + done.stdout


@pytest.fixture
def policies(broker):
    made = Policies(broker)
    yield made
    for policy, operator in list(made.set_ones):
        made.clear(policy, operator)


@pytest.fixture
def until():
    """Polls until a condition holds; 30 s is the limit, not the expectation."""
    def _until(condition, what="the condition", limit=30.0, pause=0.1):
        deadline = time.monotonic() + limit
        while True:
            value = condition()
            if value:
                return value
            assert time.monotonic() < deadline, f"not within {limit} s: {what}"
            time.sleep(pause)
    return _until


def declare(conn, channel, queue, durable=True, **options):
    return conn.call(channel, "queue.declare", queue=queue, durable=durable, **options)


def ready_count(conn, channel, queue):
    return conn.call(channel, "queue.declare", queue=queue, passive=True).message_count


def get_all(conn, channel, queue):
    """Every ready message, taken with no-ack."""
    bodies = []
    while True:
        event = conn.call(channel, "basic.get", queue=queue, no_ack=True)
        if event.name == "basic.get-empty":
            return bodies
        bodies.append(event.body)


def settled_publish(conn, channel, exchange, routing_key, body=b"", props=None, mandatory=False):
    """A publish on a confirm channel; its verdict."""
    conn.publish(channel, exchange, routing_key, body, props, mandatory)
    return conn.expect(channel, "basic.ack", "basic.nack")


def put(conn, queue, *bodies, props=None):
    """Puts messages into a queue and returns once the broker has them all."""
    channel = conn.channel()
    conn.call(channel, "confirm.select")
    for body in bodies:
        conn.publish(channel, "", queue, body, props)
    confirmed = 0
    while confirmed < len(bodies):
        event = conn.expect(channel, "basic.ack")
        confirmed = max(confirmed + 1, event.delivery_tag if event.multiple else 0)
    conn.call(channel, "channel.close", reply_code=200)


def dead_letters_to(queue, **arguments):
    """Arguments of a queue whose dead messages go to that queue, through the default exchange."""
    return {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue, **arguments}


def deaths(event):
    """[(queue, reason, count)] of x-death, as it stands there: newest first."""
    return [(death["queue"], death["reason"], death["count"]) for death in event.props["headers"].plain()["x-death"]]


def arrival(conn, channel, queue, until):
    """The next message of the queue, once it is there; taken with no-ack."""
    return until(lambda: next(filter(lambda event: event.name == "basic.get-ok",
                                     [conn.call(channel, "basic.get", queue=queue, no_ack=True)]), None),
                 f"a message in {queue}", pause=0.05)
