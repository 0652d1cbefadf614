"""Makes conversations from a seed: valid, nearly valid and invalid steps over one to three connections.

`conversation(seed)` gives {"connections": [options], "steps": [step]}; the steps are described in player.py.
The generator does not know what the broker answered: it draws names from a small pool, so that most steps
meet something that earlier ones made, and the player keeps the conversation alive.
"""

import random
import struct

from rawamqp import CAPABILITIES, V, encode_frame, encode_header, encode_method, shortstr, table

QUEUES = ["~q0", "~q1", "~q2", "~q3"]
EXCHANGES = ["~x0", "~x1", "~x2", "~x3"]
TYPES = ["direct", "fanout", "topic", "headers"]
KEYS = ["a", "b", "a.b", "a.b.c", "", "a..b", "~q0", "~q1"]
PATTERNS = ["a", "b", "a.*", "#", "a.#", "#.b", "*", "*.*", "a.*.c", "#.b.#", "", "*.#", "a..b", "#.#", "#.a.#.b.#"]
TAGS = ["c0", "c1", "c2", ""]
VALUES = [("t", True), ("b", -3), ("B", 200), ("s", -300), ("u", 60000), ("I", 5), ("i", 4000000000), ("l", 1 << 40),
          ("L", 7), ("f", 1.5), ("d", 2.25), ("D", (2, 314)), ("S", "text"), ("T", 1700000000), ("V", None),
          ("x", b"\x00\xff"), ("A", [1, "two"]), ("F", {"in": {"deep": 1}}), ("S", ""), ("I", 1), ("S", "1")]
FAILURE = {"authentication_failure_close": True}


def conversation(seed):
    return Generator(random.Random(seed)).make()


class Generator:
    def __init__(self, rng):
        self.rng = rng
        self.count = rng.choice([1, 1, 2, 2, 3])
        self.tx = rng.random() < 0.15  # tx and confirm are kept apart mostly, or each would end soon
        self.made = {"q": set(), "x": set()}  # names an earlier step tried to make: most steps want these
        self.leaves = rng.random() < 0.4  # connections end; then no consumer is no_ack: what a dying connection gives
        # back, RabbitMQ may hand to a no_ack consumer of that same connection, where it is gone
        self.tame = rng.random() < 0.45  # a conversation without mistakes, to get far into the queues
        self.rough = not self.tame and rng.random() < 0.5  # a conversation with malformed frames

    def value(self):
        return V(*self.rng.choice(VALUES))

    def make(self):
        rng = self.rng
        if rng.random() < 0.04:
            return {"connections": [], "steps": [self.handshake()]}
        options = []
        for _ in range(self.count):
            capabilities = {key: value for key, value in CAPABILITIES.items() if rng.random() < 0.85}
            options.append({"capabilities": capabilities, "frame_max": rng.choice([131072, 131072, 131072, 8192])})
        steps = self.prelude() if self.flag(0.8) else []
        steps += [self.step(self.early if index < 3 and not self.tame else self.later) for index in range(rng.randint(10, 40) if self.tame else rng.randint(4, 26))]
        return {"connections": options, "steps": steps}

    def place(self):
        if self.tx and self.tame:
            return 0, 1
        return self.rng.randrange(self.count), self.rng.choice([1, 1, 1, 2, 3])

    def pick(self, weighted):
        choices, weights = zip(*weighted)
        return self.rng.choices(choices, weights)[0]

    def step(self, kind):
        number, channel = self.place()
        made = kind()
        if made[0] == "method":
            return ["method", number, channel, *made[1:]]
        if made[0] in ("publish", "settle"):
            return [made[0], number, channel, *made[1:]]
        if made[0] == "pipeline":
            return ["pipeline", number, channel, [[inner[0], channel, *inner[1:]] for inner in made[1]]]
        if made[0] == "raw":
            return ["raw", number, channel, made[1](channel).hex()]
        return [made[0], number]

    def prelude(self):
        """Something that works, so that what follows has something to meet."""
        rng, steps = self.rng, []
        for name in rng.sample(QUEUES, rng.choice([1, 2, 2, 3])):
            steps.append(["queue.declare", {"queue": name, "durable": self.tame or self.flag(0.8)}])
            self.made["q"].add(name)
        for name in rng.sample(EXCHANGES, rng.choice([1, 2, 3] if self.tame else [0, 1, 1, 2])):
            steps.append(["exchange.declare", {"exchange": name, "type": TYPES[EXCHANGES.index(name)] if self.tame or self.flag(0.5) else rng.choice(TYPES)}])
            self.made["x"].add(name)
            steps.append(["queue.bind", {"queue": rng.choice(sorted(self.made["q"])), "exchange": name, **self.binding()}])
        if self.flag(0.3) and not self.tx:
            steps.append(["confirm.select", {}])
        if self.flag(0.3):
            steps.append(["basic.qos", {"prefetch_count": rng.choice([1, 2, 5])}])
        return [["method", 0, 1, *step] for step in steps]

    def early(self):
        return self.pick([(self.queue_declare, 5), (self.exchange_declare, 4), (self.bind, 3), (self.consume, 1),
                          (self.mode, 1)])()

    def later(self):
        rough = 2 if self.rough else 0
        odd = 0 if self.tame else 2
        return self.pick([(self.queue_declare, 2 if self.tame else 8), (self.exchange_declare, 2 if self.tame else 5), (self.bind, 8), (self.unbind, 3),
                          (self.exchange_bind, 4), (self.publish, 28), (self.get, 7), (self.consume, 12),
                          (self.settle, 16), (self.cancel, 3), (self.qos, 3), (self.recover, 2), (self.purge, 2),
                          (self.delete, 4), (self.exchange_delete, 2), (self.mode, 14 if self.tx else 3), (self.channel, 2),
                          (self.pipeline, 6), (self.odd, odd + rough), (self.frame, rough * 2), (self.goodbye, 2)])()

    def flag(self, chance=0.5):
        return self.rng.random() < chance

    def slip(self, chance):
        """Whether to make a mistake here."""
        return self.rng.random() < chance and not self.tame

    def queue_name(self, empty=0.08):
        rng = self.rng
        if self.tame:
            return self.known("q", QUEUES)
        if rng.random() < empty:
            return ""
        return rng.choice(["~missing", "amq.~mine", "$0", "~q0\r\n"]) if rng.random() < 0.03 else self.known("q", QUEUES)

    def known(self, kind, names):
        made = sorted(self.made[kind])
        return self.rng.choice(made) if made and (self.tame or self.flag(0.93)) else self.rng.choice(names)

    def exchange_name(self):
        if self.slip(0.07):
            return self.rng.choice(["", "~nox", "amq.~x", "amq.direct", "amq.rabbitmq.trace"])
        return self.known("x", EXCHANGES)

    # declarations

    def queue_declare(self):
        rng = self.rng
        if self.tame:
            name = rng.choice(QUEUES)
            self.made["q"].add(name)
            return "method", "queue.declare", {"queue": name, "durable": True}
        if self.flag(0.12):
            return "method", "queue.declare", {"queue": self.queue_name(), "passive": True}
        args = {"queue": rng.choice(QUEUES) if self.flag(0.6) else self.queue_name(), "durable": self.flag(0.8)}
        self.made["q"] |= {args["queue"]} & set(QUEUES)
        if self.flag(0.12):
            args["exclusive"] = True
        if self.flag(0.12):
            args["auto_delete"] = True
        if self.flag(0.06):
            args["nowait"] = True
        if self.flag(0.35):
            args["arguments"] = self.queue_arguments()
        if self.flag(0.03):
            args["queue"], args["arguments"] = "~k0", {"x-queue-type": rng.choice(["quorum", "classic", "nope"]), **self.queue_arguments()}
        return "method", "queue.declare", args

    def queue_arguments(self):
        rng, out = self.rng, {}
        for _ in range(rng.choice([1, 1, 1, 2])):
            name = rng.choice(["x-message-ttl", "x-expires", "x-max-length", "x-max-length-bytes", "x-overflow", "x-unknown", "x-max-length"])
            if self.flag(0.12):
                out[name] = self.value()
            elif name in ("x-message-ttl", "x-expires"):
                out[name] = rng.choice([600000, V("l", 600000), 700000, 0, -1, 315360000000, 315360000001])
                if name == "x-message-ttl" and out[name] == 0:
                    out[name] = 600000
            elif name == "x-overflow":
                out[name] = rng.choice(["drop-head", "reject-publish", "nope"])
            elif name == "x-unknown":
                out[name] = self.value()
            else:
                out[name] = rng.choice([1, 2, 3, 0, -1, V("b", 2), V("l", 2)]) if name == "x-max-length" else rng.choice([1, 10, 100, -1])
        return out

    def exchange_declare(self):
        rng = self.rng
        if self.tame:
            name = rng.choice(EXCHANGES)
            self.made["x"].add(name)
            return "method", "exchange.declare", {"exchange": name, "type": TYPES[EXCHANGES.index(name)]}
        kind = rng.choice(TYPES) if self.flag(0.97) else rng.choice(["nope", "Direct", ""])
        args = {"exchange": rng.choice(EXCHANGES) if self.flag(0.6) else self.exchange_name(), "type": kind}
        self.made["x"] |= {args["exchange"]} & set(EXCHANGES)
        for flag, chance in (("durable", 0.4), ("auto_delete", 0.12), ("internal", 0.06), ("nowait", 0.05), ("passive", 0.08)):
            if self.flag(chance):
                args[flag] = True
        if self.flag(0.15):
            args["arguments"] = {"alternate-exchange": rng.choice([*EXCHANGES, "~nox", V("I", 5)])}
        return "method", "exchange.declare", args

    def binding(self):
        rng, args = self.rng, {"routing_key": self.rng.choice(PATTERNS)}
        if self.flag(0.3):
            arguments = {rng.choice(["h", "k", "x-h"]): self.value() for _ in range(rng.choice([0, 1, 1, 2]))}
            if self.flag(0.8):
                arguments["x-match"] = rng.choice(["all", "any", "all-with-x", "any-with-x"])
            if self.slip(0.04):
                arguments["x-match"] = rng.choice(["nope", V("I", 1)])
            args["arguments"] = arguments
        return args

    def bind(self):
        args = {"queue": self.queue_name(), "exchange": self.exchange_name(), **self.binding()}
        if self.flag(0.05):
            args["nowait"] = True
        if args["exchange"].startswith("amq."):
            args["routing_key"] = "~" + args["routing_key"]
        return "method", "queue.bind", args

    def unbind(self):
        return "method", "queue.unbind", {"queue": self.queue_name(), "exchange": self.exchange_name(), **self.binding()}

    def exchange_bind(self):
        args = {"destination": self.exchange_name(), "source": self.exchange_name(), **self.binding()}
        if args["source"].startswith("amq."):
            args["routing_key"] = "~" + args["routing_key"]
        return "method", self.rng.choice(["exchange.bind", "exchange.bind", "exchange.unbind"]), args

    def purge(self):
        return "method", "queue.purge", {"queue": self.queue_name()}

    def delete(self):
        return "method", "queue.delete", {"queue": self.queue_name(), "if_unused": self.flag(0.3), "if_empty": self.flag(0.3)}

    def exchange_delete(self):
        return "method", "exchange.delete", {"exchange": self.exchange_name(), "if_unused": self.flag(0.4)}

    # messages

    def publish(self):
        rng, props = self.rng, {}
        if self.flag(0.5) or not self.made["x"] and self.tame:
            exchange, key = "", self.known("q", QUEUES)
        else:
            exchange, key = self.exchange_name(), rng.choice(KEYS)
        if exchange.startswith("amq."):
            key = "~" + key
        if self.flag(0.3):
            props["delivery_mode"] = rng.choice([1, 2, 2, 0, 3])
        headers = {}
        if self.flag(0.25):
            headers = {rng.choice(["h", "k", "x-h", "z"]): self.value() for _ in range(rng.choice([1, 2]))}
        for name in ("CC", "BCC"):
            if self.flag(0.06):
                headers[name] = [rng.choice([*KEYS, *QUEUES]) for _ in range(rng.choice([0, 1, 2]))] if not self.slip(0.15) else self.value()
        if headers or self.flag(0.03):
            props["headers"] = headers
        if self.flag(0.06):
            props["expiration"] = "600000" if self.tame else rng.choice(["600000", "600000", "abc", "-1", "", "1.5", "315360000001", "+600000"])
        for name, value in (("message_id", "id"), ("correlation_id", "c"), ("reply_to", "~q1"), ("timestamp", 1700000000), ("type", "t"),
                            ("app_id", "app"), ("content_type", "text/plain"), ("content_encoding", "utf-8"), ("priority", 3), ("cluster_id", "cl")):
            if self.flag(0.05):
                props[name] = value
        if self.flag(0.02):
            props["user_id"] = "other" if self.slip(0.5) else "guest"
        body = "".join(rng.choice("abcdefgh") for _ in range(rng.choice([0, 1, 5, 5, 5, 30]))) if self.flag(0.97) else "b" * rng.choice([8184, 8185, 20000, 131064, 131065, 300000])
        flags = ("m" if self.flag(0.35) else "") + ("i" if self.slip(0.004) else "")
        return "publish", exchange, key, body, props, flags

    def get(self):
        return "method", "basic.get", {"queue": self.queue_name(), "no_ack": self.flag(0.4)}

    def consume(self):
        args = {"queue": self.queue_name(), "consumer_tag": self.rng.choice(TAGS), "no_ack": self.flag(0.4) and not self.leaves}
        if self.slip(0.08):
            args["exclusive"] = True
        if self.tame and args["consumer_tag"]:  # each tag once, or the connection would be closed
            self.tags = getattr(self, "tags", 0) + 1
            args["consumer_tag"] = f"t{self.tags}"
        if self.flag(0.05):
            args["no_local"] = True
        if self.flag(0.04) and args["consumer_tag"]:
            args["nowait"] = True
        return "method", "basic.consume", args

    def settle(self):
        rng = self.rng
        if self.slip(0.08):
            name = rng.choice(["basic.ack", "basic.nack", "basic.reject"])
            return "method", name, {"delivery_tag": rng.choice([0, 1, 2, 3, 50, 2**63])}
        if self.flag(0.06):
            return "method", rng.choice(["basic.ack", "basic.nack"]), {"delivery_tag": 0, "multiple": True}
        verb = rng.choice(["ack", "ack", "ack", "nack", "reject"])
        args = {} if verb == "ack" else {"requeue": self.flag(0.6)}
        if verb != "reject" and self.flag(0.3):
            args["multiple"] = True
        return "settle", verb, round(rng.random(), 3), args

    def cancel(self):
        return "method", "basic.cancel", {"consumer_tag": self.rng.choice(["c0", "c1", "c2", "t1", "t2", "t3"]), "nowait": self.flag(0.1)}

    def qos(self):
        return "method", "basic.qos", {"prefetch_count": self.rng.choice([0, 1, 1, 2, 3, 10]), "global": self.flag(0.03),
                                       "prefetch_size": 1 if self.slip(0.02) else 0}

    def recover(self):
        return "method", self.rng.choice(["basic.recover", "basic.recover", "basic.recover-async"]), {"requeue": not self.slip(0.1)}

    def mode(self):
        if self.tx and self.tame:  # one channel's affair, so that commit meets select
            if not getattr(self, "selected", False):
                self.selected = True
                return "method", "tx.select", {}
            return "method", self.rng.choice(["tx.commit", "tx.commit", "tx.rollback"]), {}
        if self.tx:
            return "method", self.rng.choice(["tx.select", "tx.commit", "tx.commit", "tx.rollback"]), {}
        if self.slip(0.07):
            return "method", self.rng.choice(["tx.select", "tx.commit", "tx.rollback"]), {}
        return "method", "confirm.select", {"nowait": self.flag(0.1)}

    def channel(self):
        return "method", "channel.close", {"reply_code": 200, "reply_text": "bye"}

    def pipeline(self):
        kinds = [self.publish] * 5 + [self.queue_declare, self.bind, self.get, self.unbind, self.exchange_declare]
        made = [self.rng.choice(kinds)() for _ in range(self.rng.randint(2, 6))]
        return "pipeline", made

    def goodbye(self):
        return (self.rng.choice(["close", "close", "drop"]),) if self.leaves else self.channel()

    # what no client should say

    def odd(self):
        return self.pick([
            (("method", "channel.open", {}), 2), (("method", "channel.flow", {"active": True}), 2),
            (("method", "channel.flow", {"active": False}), 1), (("method", "channel.flow-ok", {"active": True}), 1),
            (("method", "access.request", {"realm": "/data"}), 0), (("method", "basic.qos-ok", {}), 1),
            (("method", "queue.declare-ok", {"queue": "~q0"}), 1), (("method", "confirm.select-ok", {}), 1),
            (("method", "connection.open", {"virtual_host": "/"}), 1),
            (("method", "connection.close", {"reply_code": 200}), 1), (("method", "tx.commit", {}), 2),
            (("method", "queue.bind", {"queue": "", "exchange": "~x0", "routing_key": ""}), 3),
            (("method", "connection.update-secret", {"new_secret": "s", "reason": "r"}), 0),
        ])

    def frame(self):
        """Whole frames only: one cut short would swallow the barrier that follows."""
        rng = self.rng
        declare = encode_method("queue.declare", queue="raw", passive=True)
        publish = encode_method("basic.publish", routing_key="raw")
        size = rng.choice([0, 1, 3])
        header = encode_header(size)
        return "raw", rng.choice([
            lambda ch: encode_frame(rng.choice([0, 4, 5, 7, 9, 255]), ch, b"abc"),
            lambda ch: encode_frame(8, ch, b""),
            lambda ch: encode_frame(8, 0, b""),
            lambda ch: encode_frame(8, 0, b"abc"),
            lambda ch: encode_frame(1, ch, declare, end=rng.choice([0, 1, 0xFF])),
            lambda ch: encode_frame(1, ch, declare[:-rng.randint(1, 6)]),
            lambda ch: encode_frame(1, ch, declare + b"\0"),
            lambda ch: encode_frame(1, ch, b"\0\x32"),
            lambda ch: encode_frame(1, ch, struct.pack(">HHH", 50, 10, 0) + shortstr("raw") + b"\x02" + struct.pack(">I", 99) + b"x"),
            lambda ch: encode_frame(1, ch, struct.pack(">HHH", 50, 10, 0) + b"\x02\xff\xfe\x02" + table({})),
            lambda ch: encode_frame(1, ch, struct.pack(">HHH", 50, 10, 0) + shortstr("raw") + b"\x02" + table(b"\x01aZ\x01")),
            lambda ch: encode_frame(1, ch, struct.pack(">HH", rng.choice([77, 50]), 99)),
            lambda ch: encode_frame(1, 0, declare),
            lambda ch: encode_frame(1, 0, encode_method("connection.open", virtual_host="/")),
            lambda ch: encode_frame(1, 0, encode_method("connection.start-ok")),
            lambda ch: encode_frame(1, 40, declare),
            lambda ch: encode_frame(3, 40, b"abc"),
            lambda ch: encode_frame(1, 40, encode_method("channel.close")),
            lambda ch: encode_frame(3, ch, b"abc"),
            lambda ch: encode_frame(2, ch, header),
            lambda ch: encode_frame(1, ch, publish) + encode_frame(1, ch, declare),
            lambda ch: encode_frame(1, ch, publish) + encode_frame(3, ch, b"abc"),
            lambda ch: encode_frame(1, ch, publish) + encode_frame(2, ch, encode_header(3)) + encode_frame(1, ch, declare),
            lambda ch: encode_frame(1, ch, publish) + encode_frame(2, ch, encode_header(3)) + encode_frame(2, ch, header),
            lambda ch: encode_frame(1, ch, publish) + encode_frame(2, ch, encode_header(3)) + encode_frame(3, ch, b"abcd"),
            lambda ch: encode_frame(1, ch, publish) + encode_frame(2, ch, encode_header(3)) + encode_frame(3, ch, b"") + encode_frame(3, ch, b"abc"),
            lambda ch: encode_frame(1, ch, publish) + encode_frame(2, ch, encode_header(0)) + encode_frame(3, ch, b"a"),
            lambda ch: encode_frame(1, ch, publish) + encode_frame(2, ch, encode_header(3, class_id=rng.choice([50, 77]))),
            lambda ch: encode_frame(1, ch, publish) + encode_frame(2, ch, encode_header(0, weight=1)),
            lambda ch: encode_frame(1, ch, publish) + encode_frame(2, ch, struct.pack(">HHQH", 60, 0, 0, 0x8000)),
            lambda ch: encode_frame(1, ch, publish) + encode_frame(2, ch, header + b"zz"),
            lambda ch: encode_frame(1, ch, publish) + encode_frame(2, ch, encode_header(rng.choice([1 << 63, 536870913]))),
            lambda ch: struct.pack(">BHI", 3, ch, rng.choice([131073, 4294967295])),
            lambda ch: encode_frame(1, ch, publish) + encode_frame(2, ch, header[:8]),
        ])

    def handshake(self):
        rng = self.rng
        start_ok = {"client_properties": {"capabilities": FAILURE}, "mechanism": "PLAIN", "response": b"\0guest\0guest", "locale": "en_US"}
        head, start = ["bytes", b"AMQP\0\0\x09\x01".hex()], ["expect", "connection.start"]
        tune_ok = ["send", 0, "connection.tune-ok", {"channel_max": 2047, "frame_max": 131072, "heartbeat": 0}]
        kind = rng.choice(["header", "login", "login", "tune", "vhost", "state", "good"])
        if kind == "header":
            return ["handshake", 0, [["bytes", rng.choice([b"AMQP\0\0\x09\0", b"AMQP\0\0\x0a\0", b"AMQP\0\0\x08\0", b"AMQP\x01\x01\0\x08", b"HTTP/1.1", b"AMQX\0\0\x09\x01"]).hex()]]]
        if kind == "login":
            start_ok.update(rng.choice([{"response": b"\0guest\0wrong"}, {"response": b"\0no\0x"}, {"response": b"x"}, {"response": b""}, {"mechanism": "NOPE"},
                                        {"response": b"\0guest\0wrong", "client_properties": {}}, {"mechanism": "AMQPLAIN", "response": table({"LOGIN": "guest", "PASSWORD": "no"})[4:]}]))
            return ["handshake", 0, [head, start, ["send", 0, "connection.start-ok", start_ok]]]
        login = [head, start, ["send", 0, "connection.start-ok", start_ok], ["expect", "connection.tune"]]
        if kind == "tune":
            bad = rng.choice([{"channel_max": 0}, {"channel_max": 4096}, {"frame_max": 0}, {"frame_max": 1 << 20}, {"frame_max": 100}, {"frame_max": 4096}])
            return ["handshake", 0, login + [["send", 0, "connection.tune-ok", {**tune_ok[3], **bad}], ["send", 0, "connection.open", {"virtual_host": "/"}]]]
        if kind == "vhost":
            return ["handshake", 0, login + [tune_ok, ["send", 0, "connection.open", {"virtual_host": rng.choice(["nope", "", "a'b"])}]]]
        if kind == "state":
            return ["handshake", 0, login + [tune_ok, ["send", *rng.choice([(0, "connection.secure-ok", {}), (0, "connection.tune-ok", {}), (1, "channel.open", {})])]]]
        return ["handshake", 0, login + [tune_ok, ["send", 0, "connection.open", {"virtual_host": "/"}], ["expect", "connection.open-ok"], ["send", 0, "connection.close", {"reply_code": 200}], ["expect", "connection.close-ok"]]]
