"""What the Python scripts share: where the broker is, and how to skip."""

import os
import sys
import time

HOST, PORT = os.environ["AMQP_HOST"], int(os.environ["AMQP_PORT"])
USER, PASSWORD = os.environ.get("AMQP_USER", "guest"), os.environ.get("AMQP_PASSWORD", "guest")
URL = os.environ.get("AMQP_URL", f"amqp://{USER}:{PASSWORD}@{HOST}:{PORT}/%2F")


def skip(reason):
    print(reason)
    sys.exit(77)


def pika_connection(tries=60):
    """A pika connection; after a restart it may take a moment."""
    import pika

    parameters = pika.ConnectionParameters(HOST, PORT, credentials=pika.PlainCredentials(USER, PASSWORD),
                                           socket_timeout=30, blocked_connection_timeout=60)
    for attempt in range(tries):
        try:
            return pika.BlockingConnection(parameters)
        except pika.exceptions.AMQPConnectionError:
            if attempt == tries - 1:
                raise
            time.sleep(0.5)


def drain(channel, queue):
    """Every ready message of a queue, by basic_get."""
    bodies = []
    while True:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            return bodies
        bodies.append(body.decode())


def until(condition, what, limit=60):
    deadline = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < deadline, f"not within {limit} s: {what}"
        time.sleep(0.05)
