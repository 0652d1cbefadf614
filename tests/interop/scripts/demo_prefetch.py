"""pika: 12 jobs, a worker of 50 ms and one of 500 ms. 6/6 without prefetch, about 10/2 with prefetch 1."""

import threading
import time

from common import drain, pika_connection

JOBS = [f"job-{number:02}" for number in range(1, 13)]


def run(queue, prefetch):
    """Who did which job, when both workers wait before the first job is there."""
    done, ready, stop = [], threading.Barrier(3), threading.Event()

    def worker(name, seconds):
        conn = pika_connection()
        ch = conn.channel()
        if prefetch:
            ch.basic_qos(prefetch_count=prefetch)

        def on_message(channel, method, _properties, body):
            time.sleep(seconds)
            done.append((name, body.decode()))
            channel.basic_ack(method.delivery_tag)

        ch.basic_consume(queue, on_message)
        ready.wait(60)
        while not stop.is_set():
            conn.process_data_events(time_limit=0.1)
        conn.close()

    conn = pika_connection()
    ch = conn.channel()
    ch.queue_declare(queue, durable=True)
    workers = [threading.Thread(target=worker, args=each, daemon=True) for each in (("slow", 0.5), ("fast", 0.05))]
    for each in workers:
        each.start()
    ready.wait(60)
    ch.confirm_delivery()
    for job in JOBS:
        ch.basic_publish("", queue, job)
    deadline = time.monotonic() + 60
    while len(done) < len(JOBS):
        assert time.monotonic() < deadline, f"only {done}"
        time.sleep(0.02)
    stop.set()
    for each in workers:
        each.join(30)
    assert drain(ch, queue) == []
    conn.close()
    return {name: [job for who, job in done if who == name] for name in ("fast", "slow")}


shares = run("unlimited", prefetch=0)
assert sorted(shares["fast"] + shares["slow"]) == JOBS
assert len(shares["fast"]) == len(shares["slow"]) == 6, "plain round robin"
assert shares["fast"] in (JOBS[0::2], JOBS[1::2]), "every second job, in order"

shares = run("one-each", prefetch=1)
assert sorted(shares["fast"] + shares["slow"]) == JOBS
print("prefetch 1:", {name: len(jobs) for name, jobs in shares.items()})
# About 10 and 2; a machine that stalls may shift one or two, but never back to half and half.
assert len(shares["fast"]) >= 8 and len(shares["slow"]) >= 1, shares
