"""One probe's conversation with a broker, and how what came back is written down."""

import time
import urllib.parse

import rawamqp
from rawamqp import Closed, Conn, Malformed, Target, Timeout

# consume-ok, deliveries and confirms come from other places than the barrier's answer: they get this long.
QUIET = 0.15
NAMES = ["q", "q2", "qq", "q3", "x", "x2", "x3", "xi", "dead"]


def target(uri):
    parts = urllib.parse.urlsplit(uri)
    vhost = urllib.parse.unquote(parts.path[1:]) or "/"
    return Target(parts.hostname, parts.port or 5672, parts.username or "guest", parts.password or "guest", vhost)


def short(value):
    if isinstance(value, rawamqp.Table):
        return "{" + ", ".join(f"{key}: {short(item)}" for key, item in value.entries) + "}"
    if isinstance(value, rawamqp.V):
        if value.tag == "F":
            return short(value.value)
        if value.tag == "A":
            return "[" + ", ".join(short(item) for item in value.value) + "]"
        return f"{value.tag} {value.value!r}"
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value)


def show(event):
    args = event.args
    if event.name in ("channel.close", "connection.close"):
        where = "" if event.name == "connection.close" else f" ch {event.channel}"
        return f"**{event.name}**{where} {args['reply_code']} `{args['reply_text']}` {args['class_id']}/{args['method_id']}"
    if event.name == "queue.declare-ok":
        return ("" if event.channel == 1 else f"ch {event.channel}: ") + f"declare-ok({', '.join(str(v) for v in args.values())})"
    listed = ", ".join(f"{key}={short(value)}" for key, value in args.items()
                       if not key.startswith("_") and key != "body_size")
    text = f"{event.name}({listed})"
    if event.channel not in (0, 1):
        text = f"ch {event.channel}: {text}"
    if event.body is not None:
        props = ", ".join(f"{key}={short(value)}" for key, value in (event.props or {}).items())
        text += f" body {event.body[:40]!r}" + (f" props {props}" if props else "")
    return text


class Talk:
    """One probe's view of the broker: connections, and the list of what was seen."""

    def __init__(self, where):
        self.where, self.seen, self.conns = where, [], []

    def open(self, channels=1, **options):
        conn = Conn.open(self.where, **options)
        self.conns.append(conn)
        for number in range(1, channels + 1):
            conn.channel(number)
        return conn

    def bytes(self):
        conn = Conn.connect(self.where.host, self.where.port)
        self.conns.append(conn)
        return conn

    def say(self, text):
        self.seen.append(text)

    def settle(self, conn, *channels, wait=6.0):
        """Collects until the barrier of each channel is answered, or the connection ends."""
        waiting = set(channels)
        for channel in channels:
            try:
                conn.send(channel, "access.request")
            except (Closed, Timeout):
                break
        for event in conn.inbox:
            self.say(show(event))
        conn.inbox.clear()
        while True:
            try:
                event = conn.read(wait if waiting or not channels else QUIET)
            except Timeout:
                return self.say("(nothing more)") if waiting else None
            except Closed:
                return self.say("socket closed")
            except Malformed as error:
                return self.say(f"malformed: {error}")
            if event.name == "heartbeat":
                continue
            if event.name == "access.request-ok" and event.channel in waiting:
                waiting.discard(event.channel)
                continue
            self.say(show(event))
            try:
                if event.name == "channel.close":
                    conn.send(event.channel, "channel.close-ok")
                    waiting.discard(event.channel)
                elif event.name == "connection.close":
                    conn.send(0, "connection.close-ok")
            except (Closed, Timeout):
                pass
        return None

    def end(self):
        for conn in self.conns:
            conn.abort()


def clean(where):
    """Deletes the probes' names; an exclusive queue of the probe before may still be on its way out."""
    with Conn.open(where) as conn:
        conn.channel(1)
        for name in NAMES:
            for _ in range(600):
                try:
                    conn.call(1, "queue.delete", queue=name)
                    break
                except rawamqp.ChannelClosed:
                    time.sleep(0.05)
                    conn.channel(1)
            conn.call(1, "exchange.delete", exchange=name)
        conn.close()
