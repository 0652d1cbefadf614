"""Plays one conversation against one broker and writes down, step by step, what came back.

A conversation is a list of steps, each a list: kind, connection, then what the kind needs (see `Player.do`).
After every step the player settles: it asks for the answer of `access.request` on every open channel, then
for a passive declare of every known queue on the connection that may see it, then again, until a round brings
nothing new; confirms are waited for by number. So "nothing came" is established by barriers, not by waiting.

The player keeps a conversation going whatever happens: a channel that was closed is opened again when a step
wants it, and so is a connection. Names are given the side's own prefix; what comes back is written with the
prefix taken off and generated names numbered, so that two plays can be compared (see rule.py).
"""

import re
import time

import rawamqp
from rawamqp import Closed, Conn, Malformed, Timeout

BARRIER = 900  # the channel of each connection that asks after queues
LIMIT = 20.0  # seconds until an answer counts as missing
ROUNDS = 40
WRAPPED = re.compile(r",\n +")  # RabbitMQ's pretty printer breaks terms that pass column 80
GENERATED = re.compile(r"amq\.(gen|ctag|rabbitmq\.reply-to)[-.](?!nonsense)[A-Za-z0-9_.+/=-]{8,}")
MOMENT = re.compile(r"V\(tag='T', value=\d{9,}\)")


def properties(props):
    """Properties as text. RabbitMQ 4.x writes the top level of `headers` sorted, the first of doubled keys only, and
    L as l; so that much is set aside."""
    shown = dict(props)
    if "headers" in shown:
        first = {}
        for key, value in shown["headers"].entries:
            first.setdefault(key, value)
        shown["headers"] = sorted((key, value.tag.replace("L", "l"), repr(value.value).replace("tag='L'", "tag='l'"))
                                  for key, value in first.items())
        shown["headers"] = [(key, tag, MOMENT.sub("when", text) if key == "x-death" else text)
                            for key, tag, text in shown["headers"]]
    return repr(shown)


class Link:
    """One connection of the conversation, and what is known of its channels."""

    def __init__(self):
        self.conn, self.open, self.log = None, set(), {}
        self.confirming, self.published, self.settled, self.pending = set(), {}, {}, {}
        self.options, self.unacknowledged_gets, self.no_ack = {}, {}, set()
        self.nameless = {}  # channel -> whether each consume without a tag, not yet answered, is no_ack

    def forget(self, channel):
        self.open.discard(channel)
        self.no_ack = {pair for pair in self.no_ack if pair[0] != channel}
        self.confirming.discard(channel)
        for table in (self.published, self.settled, self.pending, self.unacknowledged_gets, self.nameless):
            table.pop(channel, None)


class Player:
    def __init__(self, where, prefix, talk):
        self.where, self.prefix, options = where, prefix, talk["connections"]
        self.quiet, self.breath = talk.get("quiet", 2), talk.get("breath", 0.0)
        self.blind = [self.out(queue) for queue in talk.get("blind", [])]  # whose own counts are up to the broker
        self.asked = None  # the last reply_to that came in
        self.links = [Link() for _ in options]
        for link, chosen in zip(self.links, options):
            link.options = chosen
        self.generated, self.queues, self.exchanges = {}, {}, set()
        self.step = self.new = 0
        self.seen = {}

    # names

    def out(self, value):
        """A value of a step as it goes to this broker: `~q` and `$0` become real names."""
        if isinstance(value, str):
            if value.startswith("$"):
                names = [name for name, kind in self.generated.items() if kind.startswith("gen")]
                index = int(value[1:])
                return names[index] if index < len(names) else self.prefix + value[1:]
            return value.replace("~", self.prefix)
        if isinstance(value, rawamqp.V):
            return rawamqp.V(value.tag, self.out(value.value)) if value.tag in "SAF" else value
        if isinstance(value, dict):
            return {self.out(key): self.out(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.out(item) for item in value]
        return value

    def back(self, text):
        text = text.replace(self.prefix, "~")
        return GENERATED.sub(lambda hit: self.numbered(hit.group(0), hit.group(1)), text)

    def numbered(self, name, kind):
        if name not in self.generated:
            count = sum(1 for known in self.generated.values() if known.startswith(kind))
            self.generated[name] = f"{kind}{count}"
        return f"<{self.generated[name]}>"

    # connections

    def link(self, number):
        link = self.links[number]
        if link.conn is None:
            link.conn = Conn.open(self.where, timeout=LIMIT, **link.options)
            link.conn.channel(BARRIER)
            link.open = {BARRIER}
        return link

    def channel(self, number, channel):
        link = self.link(number)
        if channel and channel not in link.open:
            link.conn.send(channel, "channel.open")
            link.open.add(channel)
            self.collect(link, done=lambda event: event.channel == channel and event.name == "channel.open-ok")
            if link.conn is None:
                raise Closed("while a channel was opened")
        return link

    def lost(self, link):
        if link.conn is not None:
            link.conn.abort()
        link.conn = None
        for channel in set(link.open) | set(link.pending) | set(link.published):
            link.forget(channel)
        for name in [name for name, owner in self.queues.items() if owner is link]:
            del self.queues[name]

    # steps

    def act(self, step):
        """Says what the step says."""
        self.step += 1
        self.seen = {}
        try:
            self.do(*step)
        except (Closed, Timeout):
            pass  # what the peer said before it closed is read when looking

    def look(self, step):
        """What came since: {"connection/channel": [events]}."""
        self.settle()
        if step[0] == "pipeline":
            self.cut(step)
        return self.seen

    def cut(self, step):
        """What was in flight behind an error of a pipeline is answered by chance: only the error counts, and the
        connection starts anew. So are counts of queues that the pipeline itself publishes to."""
        where = f"{step[1]}/{step[2]}"
        if any(event[0] == "connection.close" for event in self.seen.get(f"{step[1]}/0", [])):
            self.seen.pop(where, None)  # RabbitMQ's reader may close before the channel's answers are written
        for event in self.seen.get(where, []):
            event[1:] = ["message_count=?" if str(arg).startswith("message_count=") else arg for arg in event[1:]]
        for index, event in enumerate(self.seen.get(where, [])):
            if event[0] == "channel.close":
                del self.seen[where][index + 1:]
                for place in [place for place in self.seen if place.startswith(f"{step[1]}/") and place != where]:
                    del self.seen[place]
                self.lost(self.links[step[1]])
                time.sleep(0.3)
                return

    def do(self, kind, number, *rest):
        if kind == "method":
            self.method(number, *rest)
        elif kind == "publish":
            self.publish(number, *rest)
        elif kind == "pipeline":
            link = self.channel(number, rest[0])
            gathered = Gather(link.conn, [])
            for inner in rest[1]:
                self.do(inner[0], number, *inner[1:])
            gathered.flush()
        elif kind == "settle":
            self.settle_delivery(number, *rest)
        elif kind == "raw":
            channel, data = rest
            self.channel(number, channel).conn.send_bytes(bytes.fromhex(data))
            time.sleep(0.05)  # the answer may come from a channel that no barrier knows
        elif kind == "close":
            link = self.links[number]
            if link.conn:
                link.conn.send(0, "connection.close", reply_code=200, reply_text="bye")
                self.collect(link, until_closed=True)
                time.sleep(0.05)
        elif kind == "drop":
            link = self.links[number]
            if link.conn:
                self.lost(link)
                self.seen[f"{number}/0"] = [["dropped"]]
                time.sleep(0.3)
        elif kind == "handshake":
            self.handshake(*rest)
        elif kind == "total":
            self.total(number, *rest)
        elif kind == "reply":
            channel, body, flags = rest
            self.publish(number, channel, "", self.asked or "nobody", body, {"correlation_id": "c"}, flags)
        elif kind == "reply-declare":
            self.method(number, rest[0], "queue.declare", {"queue": self.asked or "nobody", "passive": True})
        else:
            raise ValueError(f"no step {kind}")

    def method(self, number, channel, name, args):
        link = self.channel(number, channel) if name != "channel.open" else self.link(number)
        args = {key: self.out(value) for key, value in args.items()}
        link.conn.send(channel, name, **args)
        if name == "basic.get":
            link.unacknowledged_gets.setdefault(channel, []).append(not args.get("no_ack"))
        if name == "basic.consume" and not args["consumer_tag"]:
            link.nameless.setdefault(channel, []).append(args.get("no_ack"))
        elif name == "basic.consume" and args.get("no_ack"):
            link.no_ack.add((channel, args.get("consumer_tag")))
        if name in ("basic.recover", "basic.recover-async") and args.get("requeue"):
            link.pending.pop(channel, None)
        if name == "queue.declare" and args["queue"]:
            self.queues.setdefault(args["queue"].replace("\r", "").replace("\n", ""), link if args.get("exclusive") else None)
        if name == "exchange.declare":
            self.exchanges.add(args["exchange"])
        if name == "confirm.select" and channel not in link.confirming:
            link.confirming.add(channel)
            link.published[channel], link.settled[channel] = 0, set()
        if name == "channel.open":
            link.open.add(channel)
        if name in ("tx.commit", "tx.rollback"):  # RabbitMQ takes nothing else before it has answered
            self.collect(link, done=lambda event: self.gone(link, event, channel, f"{name}-ok"))
        if name == "channel.close":  # a barrier behind it would meet a channel that is closed already
            self.collect(link, done=lambda event: self.gone(link, event, channel))

    def publish(self, number, channel, exchange, key, body, props, flags):
        link = self.channel(number, channel)
        if channel in link.confirming:
            link.published[channel] += 1
        props = {name: self.out(value) for name, value in props.items()}
        link.conn.publish(channel, self.out(exchange), self.out(key), body.encode("utf-8"), props, "m" in flags, "i" in flags)

    def settle_delivery(self, number, channel, verb, pick, args):
        """ack, nack or reject of an outstanding delivery, chosen by `pick` in 0..1 among those of the channel."""
        link = self.channel(number, channel)
        pending = sorted(link.pending.get(channel, {}).items(), key=lambda item: item[1])
        if not pending:
            return
        tag, place = pending[min(int(pick * len(pending)), len(pending) - 1)]
        if args.get("multiple"):  # deliveries of one step may be interleaved: take the step's last one
            tag = max(other for other, where in pending if where[0] == place[0])
        for other, _ in pending:
            if other == tag or (args.get("multiple") and other < tag):
                del link.pending[channel][other]
        link.conn.send(channel, f"basic.{verb}", delivery_tag=tag, **args)

    def total(self, number, channel, queues, together):
        """How many messages all of them hold, and, where they belong together, whether one queue has them all."""
        link = self.channel(number, channel)
        self.settle()
        counts = []
        for queue in queues:
            if link.conn is None or channel not in link.open:
                return
            link.conn.send(channel, "queue.declare", queue=self.out(queue), passive=True)
            self.collect(link, done=lambda event: event.name == "queue.declare-ok" and not counts.append(event.message_count))
        held = [count for count in counts if count]
        self.seen.setdefault(f"{number}/{channel}", []).append(["total", sum(held), len(held) if together else "any"])

    def handshake(self, script):
        """A socket of its own: bytes and methods as told, everything that comes back until it is closed."""
        conn = Conn.connect(self.where.host, self.where.port)
        try:
            for what, *arg in script:
                if what == "bytes":
                    conn.send_bytes(bytes.fromhex(arg[0]))
                elif what == "send":
                    conn.send(*arg[:2], **{key: self.out(value) for key, value in arg[2].items()})
                elif what == "expect":
                    event = conn.expect(0, arg[0], timeout=LIMIT)
                    self.note("start" if arg[0] == "connection.start" else "handshake", event)
            conn.read_eof(LIMIT if script[-1][0] != "expect" else 0.1)
            while True:
                event = conn.read(0.1)
                self.note("handshake", event)
                if event.name == "connection.close":
                    conn.send(0, "connection.close-ok")
                    conn.read_eof(LIMIT)
        except (Closed, rawamqp.ChannelClosed) as error:
            self.seen.setdefault("handshake", []).append(["eof"])
        except rawamqp.ConnectionClosed as error:
            self.note("handshake", error.event)
            self.seen["handshake"].append(["eof"] if conn.read_eof(LIMIT) else ["no eof"])
        except Malformed:
            self.seen.setdefault("handshake", []).append(["header", bytes(conn.buffer[:8]).hex()])
        except Timeout:
            self.seen.setdefault("handshake", []).append(["open"])
        finally:
            conn.abort()

    # what comes back

    def note(self, where, event, channel=None):
        line = [event.name] + [self.plain(event.name, key, value) for key, value in event.args.items()
                               if not key.startswith("_") and key != "body_size"]
        if event.name == "queue.purge-ok" and self.blind:
            line[1:] = ["up to the broker"]
        if event.body is not None:
            line += [self.back(properties(event.props)), event.body.decode("latin-1"), event.body_frames]
        self.seen.setdefault(where, []).append(line)

    def plain(self, name, key, value):
        if isinstance(value, str):
            return f"{key}={WRAPPED.sub(',', self.back(value))}"
        if isinstance(value, rawamqp.Table):
            return f"{key}={self.back(repr(value))}"
        return f"{key}={value}"

    def handle(self, link, event):
        number = self.links.index(link)
        where, channel = f"{number}/{event.channel}", event.channel
        if event.name == "heartbeat" or channel == BARRIER and event.name not in ("connection.close", "channel.close"):
            return
        if channel == BARRIER:
            link.conn.send(BARRIER, "channel.close-ok")
            link.conn.send(BARRIER, "channel.open")
            return
        self.new += 1
        if event.name in ("basic.ack", "basic.nack") and channel in link.confirming:
            told = range(1, event.delivery_tag + 1) if event.multiple else [event.delivery_tag]
            fresh = [tag for tag in told if tag not in link.settled[channel]]
            link.settled[channel].update(fresh)
            self.seen.setdefault(where, []).append([event.name] + (fresh or ["again"]))
            return
        if event.name == "basic.return" and channel in link.confirming and len(link.settled[channel]) == link.published[channel]:
            self.seen.setdefault(where, []).append(["return after its confirm"])
        self.note(where, event)
        if event.name == "basic.consume-ok" and event.consumer_tag.startswith("amq.ctag-") and link.nameless.get(channel):
            if link.nameless[channel].pop(0):
                link.no_ack.add((channel, event.consumer_tag))
        elif event.name == "basic.get-empty":
            link.unacknowledged_gets[channel].pop(0)
        elif event.name in ("basic.deliver", "basic.get-ok"):
            self.remember(link, event, channel)
        elif event.name == "queue.declare-ok":
            name = event.queue
            if name.startswith("amq.gen-") and name not in self.queues:
                self.queues[name] = None
        elif event.name in ("channel.close", "channel.close-ok"):
            if event.name == "channel.close" and channel in link.open:
                link.conn.send(channel, "channel.close-ok")
            link.forget(channel)
        elif event.name == "connection.close":
            link.conn.send(0, "connection.close-ok")
            self.seen[where].append(["eof" if link.conn.read_eof(LIMIT) else "no eof"])
            raise Closed("end of stream")

    def remember(self, link, event, channel):
        if event.props.get("reply_to", "").startswith("amq.rabbitmq.reply-to."):
            self.asked = event.props["reply_to"]
        stream = self.back(event.args.get("consumer_tag", "get"))
        if event.name == "basic.get-ok":
            if not link.unacknowledged_gets[channel].pop(0):
                return
        elif (channel, event.consumer_tag) in link.no_ack:
            return
        pending = link.pending.setdefault(channel, {})
        pending[event.delivery_tag] = (self.step, stream, len(pending))

    def collect(self, link, until_closed=False, done=lambda event: False):
        """Reads until `done`, or the end. The end of a connection is an event like any other."""
        number = self.links.index(link)
        try:
            while True:
                event = link.conn.inbox.pop(0) if link.conn.inbox else link.conn.read(LIMIT)
                if done(event):
                    return True
                self.handle(link, event)
                if until_closed and event.name == "connection.close-ok":
                    self.lost(link)
                    return True
        except Timeout:
            self.seen.setdefault(f"{number}/0", []).append(["no answer"])
            self.lost(link)
        except Closed:
            noted = self.seen.setdefault(f"{number}/0", [])
            if not noted or noted[-1] != ["eof"]:
                noted.append(["eof"])
            self.lost(link)
        except Malformed as error:
            self.seen.setdefault(f"{number}/0", []).append(["malformed", str(error)])
            self.lost(link)
        self.new += 1
        return False

    def barrier(self, link, channel):
        """The answer to access.request on this channel; False when channel or connection ended instead."""
        try:
            link.conn.send(channel, "access.request")
        except (Closed, Timeout):
            return self.collect(link)
        ended = []

        def done(event):
            if self.gone(link, event, channel):
                ended.append(event)
            return bool(ended) or (event.channel == channel and event.name == "access.request-ok")
        return self.collect(link, done=done) and not ended

    def gone(self, link, event, channel, answer="channel.close-ok"):
        if event.channel != channel or event.name not in ("channel.close", answer):
            return False
        self.handle(link, event)
        return True

    def ask_queues(self, link):
        for name, owner in list(self.queues.items()):
            if link.conn is None:
                return
            if owner in (None, link):
                try:
                    link.conn.send(BARRIER, "queue.declare", queue=name, passive=True)
                except (Closed, Timeout):
                    self.collect(link)
                    return
                if not self.collect(link, done=self.answered(link, name)):
                    return

    def answered(self, link, name):
        def done(event):
            if event.channel != BARRIER:
                return False
            if event.name == "channel.close":
                link.conn.send(BARRIER, "channel.close-ok")
                link.conn.send(BARRIER, "channel.open")
                if event.reply_code == 404:
                    self.queues.pop(name, None)
                return True
            return event.name == "queue.declare-ok"
        return done

    def confirmed(self, link):
        for channel in list(link.confirming):
            def done(event, channel=channel):
                if event.channel == channel and event.name in ("basic.ack", "basic.nack"):
                    self.handle(link, event)
                    return True
                return False
            while channel in link.confirming and len(link.settled[channel]) < link.published[channel]:
                if not self.collect(link, done=done):
                    return

    def settle(self):
        for turn in range(ROUNDS):
            self.new = 0
            alive = [link for link in self.links if link.conn is not None]
            for link in alive:
                for channel in sorted(link.open - {BARRIER}):
                    if link.conn is not None and channel in link.open:
                        self.barrier(link, channel)
            for link in alive:
                if link.conn is not None:
                    self.ask_queues(link)
            for link in alive:
                if link.conn is not None:
                    self.confirmed(link)
            if self.new == 0 and turn + 1 >= self.quiet:
                return
            time.sleep(max(self.breath, 0.002 * turn))

    def end(self):
        """Deletes what the conversation made."""
        names, exchanges = list(self.queues), list(self.exchanges)
        for link in self.links:
            self.lost(link)
        try:
            with Conn.open(self.where, timeout=LIMIT) as conn:
                for kind, key, listed in (("queue.delete", "queue", names), ("exchange.delete", "exchange", exchanges)):
                    for name in listed:
                        if not name or name.startswith(("amq.rabbitmq.", "pol-")) or (kind == "exchange.delete" and name.startswith("amq.")):
                            continue
                        if 1 not in conn.channels:
                            conn.channel(1)
                        try:
                            conn.call(1, kind, **{key: name.replace("\r", "").replace("\n", "")})
                        except rawamqp.ChannelClosed:
                            pass
                conn.close()
        except (Closed, Timeout, rawamqp.ConnectionClosed):
            pass


class Gather:
    """Makes a connection keep what is written until `flush`, so that it goes out in one write."""

    def __init__(self, conn, out):
        self.conn, self.out = conn, out
        conn.send_bytes = lambda data, timeout=LIMIT: out.append(bytes(data))

    def flush(self):
        del self.conn.send_bytes
        self.conn.send_bytes(b"".join(self.out))
