"""A real process under load, killed with SIGKILL at random moments, many times.

Each round publishes from several connections, kills the broker, starts it again and asks what is there:

    lost         a confirmed message that is not in its queue
    doubled      a message twice in one queue
    resurrected  a message back that was acknowledged before a later confirmed publish of the channel
    torn         a message in some of the queues of its fan-out
    unflagged    a message back, without the redelivered flag, that a consumer had
    dropped      a message back that the length limit had dropped

KILL9_ROUNDS sets the rounds (10; `crates/menzil/tests` has more, under a faster load), KILL9_SEED repeats a run's moments.
"""

import os
import random
import threading
import time

import pytest
import rawamqp

ROUNDS = int(os.environ.get("KILL9_ROUNDS", "10"))
SEED = int(os.environ.get("KILL9_SEED", str(random.SystemRandom().randrange(2**32))))
COPIES = ["copy0", "copy1", "copy2"]
LIMIT = 20
WINDOW = 50
PERSISTENT = {"delivery_mode": 2}


@pytest.mark.timeout(60 + 60 * ROUNDS)
def test_nothing_confirmed_is_lost_over_many_kills(target, restart, capsys):
    rng = random.Random(SEED)
    setup(target)
    totals = dict(published=0, confirmed=0, delivered=0, acked=0)
    for number in range(ROUNDS):
        workers = [FanOut(target, number, copy) for copy in range(2)]
        workers += [Limited(target, number), Worker(target, number)]
        for worker in workers:
            worker.start()
        time.sleep(rng.uniform(0.02, 0.6))
        restart()
        for worker in workers:
            worker.join(60)
            assert not worker.is_alive(), "a client did not notice that the broker died"
            for key in totals:
                totals[key] += getattr(worker, key)
        conn = rawamqp.Conn.open(target)
        where = f"round {number}, seed {SEED}"
        check_fan_out(conn, workers[:2], where)
        check_limited(conn, workers[2], where)
        check_worker(conn, workers[3], where)
        conn.close()
    assert totals["confirmed"] > 0 and totals["acked"] > 0, "the load did nothing"
    with capsys.disabled():
        print(f"\nkill -9: {ROUNDS} rounds, seed {SEED}, {totals}, lost 0, doubled 0, resurrected 0")


def setup(target):
    conn = rawamqp.Conn.open(target)
    channel = conn.channel()
    conn.call(channel, "exchange.declare", exchange="kill9", type="fanout", durable=True)
    for queue in COPIES:
        conn.call(channel, "queue.declare", queue=queue, durable=True)
        conn.call(channel, "queue.bind", queue=queue, exchange="kill9", routing_key="")
    conn.call(channel, "queue.declare", queue="limited", durable=True, arguments={"x-max-length": LIMIT})
    conn.call(channel, "queue.declare", queue="work", durable=True)
    conn.close()


class Client(threading.Thread):
    """A connection that works until the broker is gone."""

    def __init__(self, target, number):
        super().__init__(daemon=True)
        self.prefix = f"{number}"
        self.published = self.confirmed = self.delivered = self.acked = 0
        self.verdicts = set()
        self.conn = rawamqp.Conn.open(target)
        self.channel = self.conn.channel()
        self.conn.call(self.channel, "confirm.select")

    def run(self):
        try:
            self.work()
        except (rawamqp.Closed, OSError):
            pass
        finally:
            self.confirmed = len(self.verdicts)
            self.conn.abort()

    def confirm(self, event):
        first = 1 if event.multiple else event.delivery_tag
        for tag in range(first, event.delivery_tag + 1):
            if tag not in self.verdicts:
                self.verdicts.add(tag)
                self.on_confirmed(tag)

    def on_confirmed(self, tag):
        pass

    def publish(self, exchange, routing_key):
        self.published += 1
        body = f"{self.prefix}:{self.published}".encode()
        self.conn.publish(self.channel, exchange, routing_key, body, PERSISTENT)

    def confirmed_bodies(self):
        return {f"{self.prefix}:{tag}".encode() for tag in self.verdicts}


class FanOut(Client):
    """Publishes to all copies with a window of confirms."""

    def __init__(self, target, number, copy):
        super().__init__(target, number)
        self.prefix = f"{number}.{copy}"

    def work(self):
        while True:
            while self.published - len(self.verdicts) < WINDOW:
                self.publish("kill9", "")
            self.confirm(self.conn.expect(self.channel, "basic.ack"))


class Limited(Client):
    """Publishes into the queue that keeps the newest few."""

    def work(self):
        while True:
            self.publish("", "limited")
            if self.published - len(self.verdicts) >= WINDOW:
                self.confirm(self.conn.expect(self.channel, "basic.ack"))


class Worker(Client):
    """Publishes and consumes on one channel, and notes which acknowledgements must hold."""

    def __init__(self, target, number):
        super().__init__(target, number)
        self.received, self.sent_acks, self.must_hold = set(), [], set()
        self.acks_before = {}

    def on_confirmed(self, tag):
        self.must_hold.update(self.sent_acks[: self.acks_before[tag]])

    def work(self):
        self.conn.call(self.channel, "basic.qos", prefetch_count=10)
        self.conn.call(self.channel, "basic.consume", queue="work", consumer_tag="w")
        while True:
            if self.published - len(self.verdicts) < WINDOW:
                self.acks_before[self.published + 1] = len(self.sent_acks)
                self.publish("", "work")
            event = self.conn.expect(self.channel, "basic.ack", "basic.deliver")
            if event.name == "basic.ack":
                self.confirm(event)
                continue
            self.delivered += 1
            self.received.add(event.body)
            # Every fifth stays out, so that the crash meets unsettled ones.
            if self.delivered % 5:
                self.conn.send(self.channel, "basic.ack", delivery_tag=event.delivery_tag)
                self.acked += 1
                self.sent_acks.append(event.body)


def take_all(conn, queue):
    """Everything in the queue with its redelivered flag; the queue is empty on disk afterwards."""
    channel = conn.channel()
    entries = []
    while True:
        event = conn.call(channel, "basic.get", queue=queue, no_ack=True)
        if event.name == "basic.get-empty":
            break
        entries.append((event.body, event.redelivered))
    conn.call(channel, "queue.purge", queue=queue)
    conn.call(channel, "channel.close", reply_code=200)
    return entries


def check_common(bodies, clients, where, queue):
    doubled = len(bodies) - len(set(bodies))
    assert doubled == 0, f"{doubled} doubled in {queue}, {where}"
    for client in clients:
        own = [int(body.split(b":")[1]) for body in bodies if body.startswith(f"{client.prefix}:".encode())]
        assert own == sorted(own), f"order in {queue}, {where}"


def check_fan_out(conn, clients, where):
    contents = {}
    for queue in COPIES:
        entries = take_all(conn, queue)
        contents[queue] = [body for body, _ in entries]
        check_common(contents[queue], clients, where, queue)
        for client in clients:
            lost = client.confirmed_bodies() - set(contents[queue])
            assert not lost, f"{len(lost)} lost in {queue}, {where}: {sorted(lost)[:5]}"
    assert len({frozenset(bodies) for bodies in contents.values()}) == 1, f"a torn fan-out, {where}"


def check_limited(conn, client, where):
    bodies = [body for body, _ in take_all(conn, "limited")]
    check_common(bodies, [client], where, "limited")
    numbers = [int(body.split(b":")[1]) for body in bodies]
    last = max(client.verdicts, default=0)
    assert len(numbers) <= LIMIT, f"over the limit, {where}"
    if last:
        assert numbers and numbers[-1] >= last, f"the newest confirmed one is lost, {where}"
        assert numbers == list(range(numbers[0], numbers[-1] + 1)), f"a gap or a dropped one, {where}"
        assert len(numbers) == min(LIMIT, numbers[-1]), f"fewer than the limit keeps, {where}"


def check_worker(conn, client, where):
    entries = take_all(conn, "work")
    bodies = [body for body, _ in entries]
    check_common(bodies, [client], where, "work")
    resurrected = client.must_hold & set(bodies)
    assert not resurrected, f"{len(resurrected)} resurrected, {where}: {sorted(resurrected)[:5]}"
    lost = client.confirmed_bodies() - set(client.sent_acks) - set(bodies)
    assert not lost, f"{len(lost)} lost, {where}: {sorted(lost)[:5]}"
    unflagged = [body for body, flag in entries if body in client.received and not flag]
    assert not unflagged, f"{len(unflagged)} back without the redelivered flag, {where}"
