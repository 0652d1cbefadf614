"""O02: a disk that fills up is a state. Publishers are told and not read, what they sent is nacked, consumers
drain, everything confirmed is there after kill -9, and it goes on by itself once there is room."""

import os
import subprocess

import pytest
import rawamqp
from own_menzil import OwnMenzil

PERSISTENT = {"delivery_mode": 2}
BODY = b"x" * 16384
SETTINGS = ["segment_bytes=1 MiB", "journal_pending_bytes_max=1 MiB", "checkpoint_bytes=4 MiB"]
CAPABILITIES = {"connection.blocked": True}


@pytest.fixture
def small_disk(tmp_path):
    """A file system of its own, 24 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", folder], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"needs a small file system, and mounting one failed: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", folder], check=False)


@pytest.fixture
def node(small_disk):
    node = OwnMenzil(small_disk / "data", SETTINGS)
    node.start()
    yield node
    node.close()


def open_to(node, **options):
    return rawamqp.Conn.open(f"{node.host}:{node.port}", **options)


class Publisher:
    """Publishes in confirm mode and keeps count of the verdicts."""

    def __init__(self, node, first=0):
        self.conn = open_to(node, capabilities=CAPABILITIES)
        self.channel = self.conn.channel()
        self.conn.call(self.channel, "confirm.select")
        self.first, self.sent = first, 0
        self.acked, self.nacked, self.blocked = set(), set(), False

    def publish(self):
        self.sent += 1
        body = f"{self.first + self.sent}:".encode() + BODY
        self.conn.publish(self.channel, "", "q", body, PERSISTENT)

    def note(self, event):
        if event.name in ("connection.blocked", "connection.unblocked"):
            self.blocked = event.name == "connection.blocked"
            return
        verdicts = self.acked if event.name == "basic.ack" else self.nacked
        first = 1 if event.multiple else event.delivery_tag
        known = self.acked | self.nacked
        verdicts.update({tag for tag in range(first, event.delivery_tag + 1) if tag not in known})

    def hear(self, seconds):
        for event in self.conn.drain(seconds):
            self.note(event)

    def fill(self, most=4000):
        """Until the broker says that it is blocked."""
        while not self.blocked and self.sent < most:
            self.publish()
            if self.sent - len(self.acked) - len(self.nacked) >= 16:
                self.hear(0.02)
        assert self.blocked, "the disk is full and nobody said so"
        for _ in range(5):
            self.publish()
        self.hear(1.0)

    def confirmed(self):
        return {self.first + tag for tag in self.acked}


def numbers(bodies):
    return [int(body.split(b":")[0]) for body in bodies]


def drain(node, count):
    """Consumes and acknowledges that many."""
    conn = open_to(node)
    channel = conn.channel()
    conn.call(channel, "basic.qos", prefetch_count=20)
    conn.call(channel, "basic.consume", queue="q", consumer_tag="c")
    bodies = []
    while len(bodies) < count:
        event = conn.expect(channel, "basic.deliver")
        bodies.append(event.body)
        conn.send(channel, "basic.ack", delivery_tag=event.delivery_tag)
    conn.close()
    return numbers(bodies)


def declare(node):
    conn = open_to(node)
    conn.call(conn.channel(), "queue.declare", queue="q", durable=True)
    conn.close()


def ready(node):
    conn = open_to(node)
    count = conn.call(conn.channel(), "queue.declare", queue="q", passive=True).message_count
    conn.close()
    return count


def test_consumers_drain_a_full_disk_and_publishers_go_on_without_a_restart(node, until):
    declare(node)
    publisher = Publisher(node)
    publisher.fill()
    held = ready(node)
    assert held >= len(publisher.acked) > 0
    assert sorted(publisher.confirmed()) == sorted(set(drain(node, held)) & publisher.confirmed()), "lost"
    until(lambda: publisher.hear(0.2) or not publisher.blocked, "unblocked once there is room")
    until(lambda: publisher.hear(0.2) or len(publisher.acked | publisher.nacked) == publisher.sent, "a verdict for each")
    before = len(publisher.acked)
    publisher.publish()
    until(lambda: publisher.hear(0.2) or len(publisher.acked) > before, "publishing goes on")
    publisher.conn.abort()


def test_what_was_confirmed_survives_kill_9_on_a_full_disk(node, small_disk):
    declare(node)
    publisher = Publisher(node)
    publisher.fill()
    confirmed = publisher.confirmed()
    publisher.conn.abort()
    node.kill9()
    node.start()
    found = drain(node, ready(node))
    assert confirmed <= set(found), f"lost {len(confirmed - set(found))}"
    assert len(found) == len(set(found)), "doubled"


def test_space_that_somebody_else_took_and_gave_back(node, small_disk, until):
    declare(node)
    first = Publisher(node)
    first.publish()
    until(lambda: first.hear(0.2) or first.acked, "there is room at first")
    filler = small_disk / "filler"
    with open(filler, "wb", buffering=0) as file:
        try:
            while file.write(b"\0" * 65536):
                pass
        except OSError:
            pass
    first.fill()
    os.remove(filler)
    until(lambda: first.hear(0.2) or not first.blocked, "unblocked once the other gave back")
    before = len(first.acked)
    first.publish()
    until(lambda: first.hear(0.2) or len(first.acked) > before, "publishing goes on")
    assert first.confirmed() <= set(drain(node, ready(node)))
    first.conn.abort()


def test_declarations_are_refused_on_a_full_disk_and_deletions_are_not(node):
    declare(node)
    publisher = Publisher(node)
    publisher.fill()
    conn = open_to(node)
    refused = 0
    for number in range(3000):
        channel = conn.channel()
        conn.send(channel, "queue.declare", queue=f"more-{number}", durable=True, arguments={"x-note": "n" * 200})
        event = conn.expect(channel, "queue.declare-ok", "channel.close")
        if event.name == "channel.close":
            assert event.reply_code == 406 and "disk is full" in event.reply_text
            conn.send(channel, "channel.close-ok")
            conn.channels.discard(channel)
            refused += 1
            if refused == 3:
                break
        else:
            conn.call(channel, "channel.close", reply_code=200)
    assert refused, "thousands of durable queues fitted on a full disk"
    conn.call(conn.channel(), "queue.delete", queue="q")
    conn.close()
    publisher.conn.abort()


def test_small_messages_drain_though_each_is_settled_otherwise_than_the_last(node, until):
    declare(node)
    conn = open_to(node, capabilities=CAPABILITIES)
    channel = conn.channel()
    batch = conn.publish_frames(channel, "", "q", b"x" * 300, PERSISTENT) * 100
    blocked = False
    while not blocked:
        conn.send_bytes(batch)
        blocked = any(event.name == "connection.blocked" for event in conn.drain(0))
    held = ready(node)
    assert held > 1000
    consumer = open_to(node)
    at = consumer.channel()
    consumer.call(at, "basic.qos", prefetch_count=500)
    consumer.call(at, "basic.consume", queue="q", consumer_tag="c")
    for number in range(held):
        tag = consumer.expect(at, "basic.deliver").delivery_tag
        if number % 2:
            consumer.send(at, "basic.ack", delivery_tag=tag)
        else:
            consumer.send(at, "basic.reject", delivery_tag=tag, requeue=False)
    until(lambda: any(event.name == "connection.unblocked" for event in conn.drain(0.2)), "unblocked once drained")
    consumer.close()
    conn.abort()
