"""Makes conversations about one feature each, beside the walks of generator.py.

A feature is a method of `Features`; `conversation` gives {"connections", "steps"} and how long the player
waits: `pause` seconds after each step before it looks (what expires or comes back has done so by then, on both
sides), `quiet` rounds in which nothing comes, `breath` seconds between rounds (quorum queues answer when their
log has been written). What a broker may choose freely is not compared: which queue a hash or a die picks is
replaced by a `total` over the queues.
"""

import random

from generator import Generator
from rawamqp import V

SHORT = 120  # ms: what is to expire within PAUSE
PAUSE = 0.5


def conversation(seed, feature=None):
    rng = random.Random(f"{seed}:{feature}")
    name = feature or rng.choice(sorted(FEATURES))
    return Features(rng).build(name)


def declare(queue, arguments=None, **flags):
    return ["method", 0, 1, "queue.declare", {"queue": queue, "durable": True, **flags, "arguments": arguments or {}}]


def exchange(name, kind, arguments=None, **flags):
    return ["method", 0, 1, "exchange.declare", {"exchange": name, "type": kind, **flags, "arguments": arguments or {}}]


def bind(queue, source, key="", arguments=None, kind="queue.bind"):
    names = {"destination": queue, "source": source} if kind.startswith("exchange") else {"queue": queue, "exchange": source}
    return ["method", 0, 1, kind, {**names, "routing_key": key, "arguments": arguments or {}}]


class Features(Generator):
    def __init__(self, rng):
        super().__init__(rng)
        self.tame, self.rough, self.tx, self.leaves, self.count = True, False, False, False, 1
        self.bodies, self.tags = 0, 0
        self.waits = {"pause": 0.0, "quiet": 2, "breath": 0.0}

    def build(self, name):
        steps = getattr(self, name)()
        return {"feature": name, "connections": [{} for _ in range(self.count)], "steps": steps, **self.waits}

    # steps

    def body(self):
        self.bodies += 1
        return f"b{self.bodies}" + "." * self.rng.choice([0, 0, 0, 7])

    def send(self, where, key, props=None, flags="", channel=1, number=0):
        return ["publish", number, channel, where, key, self.body(), props or {}, flags]

    def take(self, queue, no_ack=False):
        return ["method", 0, 1, "basic.get", {"queue": queue, "no_ack": no_ack}]

    def listen(self, queue, number=0, channel=1, **args):
        self.tags += 1
        return ["method", number, channel, "basic.consume", {"queue": queue, "consumer_tag": f"t{self.tags}", **args}]

    def some(self, number, choices):
        return [self.pick(choices)() for _ in range(number)]

    def give(self, number=0, channel=1, verbs=("ack", "nack", "nack", "reject", "reject"), multiple=0.2, requeue=0.35):
        verb = self.rng.choice(verbs)
        args = {} if verb == "ack" else {"requeue": self.flag(requeue)}
        if verb != "reject" and self.flag(multiple):
            args["multiple"] = True
        return ["settle", number, channel, verb, round(self.rng.random(), 3), args]

    def emptied(self, queues):
        """Everything that is left, so that its headers are seen."""
        return [self.take(queue, True) for queue in queues for _ in range(4)]

    def method(self, name, **args):
        return ["method", 0, 1, name, args]

    # dead letters

    def dead_letters(self):
        rng = self.rng
        expiry = rng.choice(["", "", "queue", "message"])
        self.waits["pause"] = PAUSE if expiry else 0.0
        self.waits["quiet"] = 4
        kind = rng.choice(["direct", "fanout", "topic"])
        steps = [exchange("~x0", kind)]
        if self.flag(0.2):
            steps.append(exchange("~x1", "fanout"))
        source = self.dead_letter_arguments("~q1")
        if expiry == "queue":
            source["x-message-ttl"] = rng.choice([0, SHORT, SHORT])
        if self.flag(0.4):
            source["x-max-length"] = rng.choice([0, 1, 2])
            source["x-overflow"] = rng.choice(["drop-head", "reject-publish", "reject-publish-dlx"])
        elif self.flag(0.2):
            source["x-max-length-bytes"] = rng.choice([2, 5, 12])
            source["x-overflow"] = rng.choice(["drop-head", "reject-publish-dlx"])
        middle = self.dead_letter_arguments(rng.choice(["~q0", "~q2", "~q1"])) if self.flag(0.6) else {}
        if middle and expiry == "queue" and self.flag(0.6):
            middle["x-message-ttl"] = SHORT
        if middle and self.flag(0.25):
            middle["x-max-length"] = 1
        steps += [declare("~q0", source), declare("~q1", middle), declare("~q2")]
        for queue in rng.sample(["~q1", "~q2", "~q0"], rng.choice([1, 1, 2])):
            steps.append(bind(queue, "~x0", rng.choice(["~q0", "a", "b", "#"] if kind == "topic" else ["~q0", "a", "b"])))
        if self.flag(0.5):
            steps.append(self.method("confirm.select"))
        if self.flag(0.6):
            steps.append(self.method("basic.qos", prefetch_count=rng.choice([1, 2, 10])))
        if self.flag(0.5):
            steps.append(self.listen(rng.choice(["~q0", "~q0", "~q1"]), no_ack=False))

        def publish():
            props = {}
            if expiry == "message":
                props["expiration"] = rng.choice(["0", str(SHORT), str(SHORT)])
            if self.flag(0.3):
                props["headers"] = rng.choice([{"h": 1}, {"CC": ["a"]}, {"BCC": ["b"]}, {"CC": ["~q2"], "BCC": ["a"], "z": "z"},
                                               {"x-death": [{"queue": "~q0", "reason": "rejected", "count": 3}]},
                                               {"x-death": "odd"}, {"x-first-death-reason": "mine", "a": V("b", 1)}])
            if self.flag(0.3):
                props["delivery_mode"] = rng.choice([1, 2])
            if self.flag(0.2):
                props |= {"priority": 3, "message_id": "id", "user_id": "guest"}
            return self.send(*rng.choice([("", "~q0"), ("", "~q0"), ("~x0", "~q0"), ("~x0", "a")]), props, "m" if self.flag(0.2) else "")

        steps += self.some(rng.randint(6, 14), [
            (publish, 8), (lambda: self.take(rng.choice(["~q0", "~q0", "~q1", "~q2"]), self.flag(0.2)), 6),
            (self.give, 9), (lambda: self.listen(rng.choice(["~q0", "~q1"])), 1),
            (lambda: self.method("queue.purge", queue=rng.choice(["~q0", "~q1"])), 0.5),
            (lambda: self.method("exchange.delete", exchange="~x0"), 0.2),
            (lambda: self.method("queue.delete", queue=rng.choice(["~q1", "~q2"])), 0.3),
            (lambda: self.method("basic.recover", requeue=True), 0.5)])
        return steps + self.emptied(["~q1", "~q2"])

    def dead_letter_arguments(self, target):
        way = self.rng.choice(["default", "default", "exchange", "keyed", "missing", "none"])
        return {"default": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": target},
                "exchange": {"x-dead-letter-exchange": "~x0"},
                "keyed": {"x-dead-letter-exchange": "~x0", "x-dead-letter-routing-key": self.rng.choice(["a", "b"])},
                "missing": {"x-dead-letter-exchange": "~nox"}, "none": {}}[way]

    # priorities

    def priorities(self):
        rng = self.rng
        arguments = {"x-max-priority": rng.choice([0, 1, 2, 5, 5, 10, 255])}
        if self.flag(0.3):
            arguments |= {"x-max-length": rng.choice([1, 2, 3]), "x-overflow": rng.choice(["drop-head", "reject-publish"])}
        if self.flag(0.25):
            arguments |= {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "~q1"}
        if self.flag(0.2):
            arguments["x-message-ttl"] = SHORT
            self.waits["pause"] = PAUSE
        steps = [declare("~q0", arguments), declare("~q1")]
        if self.flag(0.5):
            steps.append(self.method("basic.qos", prefetch_count=rng.choice([1, 2])))

        def publish():
            priority = rng.choice([None, 0, 1, 2, 3, 5, 6, 9, 10, 200, 255])
            return self.send("", "~q0", {} if priority is None else {"priority": priority})

        steps += [publish() for _ in range(rng.randint(2, 7))]
        steps += self.some(rng.randint(8, 20), [
            (publish, 6), (lambda: self.take("~q0", self.flag(0.3)), 5), (lambda: self.give(requeue=0.7), 7),
            (lambda: self.listen("~q0"), 1), (lambda: self.method("queue.purge", queue="~q0"), 0.3),
            (lambda: ["pipeline", 0, 1, [[one[0], *one[2:]] for one in (publish() for _ in range(rng.randint(2, 6)))]], 2)])
        return steps + self.emptied(["~q0", "~q1"])

    # consumers

    def consumers(self):
        """Single active ones, priorities, exclusive ones, over two connections."""
        rng = self.rng
        self.count = 2
        arguments = {"x-single-active-consumer": True} if self.flag(0.6) else {}
        steps = [declare("~q0", arguments), declare("~q0", {"x-single-active-consumer": rng.choice([True, False])} if self.flag(0.2) else arguments)]
        prefetch = rng.choice([0, 1, 2])
        steps += [["method", number, channel, "basic.qos", {"prefetch_count": prefetch}] for number in (0, 1) for channel in (1, 2)]
        if self.flag(0.6):
            steps += [self.send("", "~q0") for _ in range(rng.randint(1, 4))]

        def consume():
            args = {}
            if self.flag(0.5) and not arguments:  # among single active ones: see single_active_priorities
                args["arguments"] = {"x-priority": rng.choice([0, 1, 5, -1, V("b", 7), V("l", 3)])}
            if self.flag(0.06):
                args["arguments"] = {"x-priority": rng.choice(["high", 1.5, None, True])}
            if self.flag(0.08):
                args["exclusive"] = True
            return self.listen("~q0", rng.randrange(2), rng.choice([1, 2]), **args)

        def cancel():
            return ["method", rng.randrange(2), rng.choice([1, 2]), "basic.cancel", {"consumer_tag": f"t{rng.randint(1, max(1, self.tags))}"}]

        steps += [consume() for _ in range(rng.randint(1, 3))]
        steps += self.some(rng.randint(8, 20), [
            (consume, 3), (cancel, 3), (lambda: self.send("", "~q0"), 8),
            (lambda: self.give(rng.randrange(2), rng.choice([1, 2]), requeue=0.6), 10),
            (lambda: ["method", rng.randrange(2), rng.choice([1, 2]), "channel.close", {"reply_code": 200, "reply_text": "bye"}], 0.8),
            (lambda: self.take("~q0"), 0.7), (lambda: ["close", rng.randrange(2)], 0.3),
            (lambda: self.method("queue.delete", queue="~q0", if_unused=self.flag()), 0.2)])
        return steps

    def single_active_priorities(self):
        """A better consumer takes over, on quorum queues."""
        rng = self.rng
        self.count = 2
        self.waits |= {"pause": 0.12, "quiet": 3, "breath": 0.03}
        steps = [declare("~k0", {"x-queue-type": "quorum", "x-single-active-consumer": True})]
        steps += [["method", number, channel, "basic.qos", {"prefetch_count": 1}] for number in (0, 1) for channel in (1, 2)]
        steps += [self.send("", "~k0") for _ in range(rng.randint(0, 3))]

        def consume():
            args = {"arguments": {"x-priority": rng.choice([0, 1, 5, -1])}} if self.flag(0.7) else {}
            return self.listen("~k0", rng.randrange(2), rng.choice([1, 2]), **args)

        def cancel():
            return ["method", rng.randrange(2), rng.choice([1, 2]), "basic.cancel", {"consumer_tag": f"t{rng.randint(1, max(1, self.tags))}"}]

        return steps + [consume()] + self.some(rng.randint(6, 14), [
            (consume, 3), (cancel, 2), (lambda: self.send("", "~k0"), 6),
            (lambda: ["settle", rng.randrange(2), rng.choice([1, 2]), "ack", 0.0, {}], 8)])

    # quorum queues

    def quorum(self):
        """Delivery counts and limits, delayed retry, dead letters of quorum queues; one message held at a time."""
        rng = self.rng
        self.waits |= {"pause": 0.12, "quiet": 3, "breath": 0.03}
        arguments = {"x-queue-type": "quorum"}
        if self.flag(0.7):
            arguments["x-delivery-limit"] = rng.choice([0, 1, 2, -1, 3])
        if self.flag(0.7):
            arguments |= {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "~q1"}
        if self.flag(0.35):
            kind = rng.choice(["all", "failed", "returned", "disabled"])
            arguments |= {"x-delayed-retry-type": kind, "x-delayed-retry-min": SHORT}
            if self.flag():
                arguments["x-delayed-retry-max"] = 2 * SHORT
            self.waits["pause"] = 1.0
        if self.flag(0.2):
            arguments["x-message-ttl"] = SHORT
            self.waits["pause"] = max(self.waits["pause"], PAUSE)
        if self.flag(0.2):
            arguments |= {"x-max-length": rng.choice([1, 2]), "x-overflow": rng.choice(["drop-head", "reject-publish"])}
        steps = [declare("~k0", arguments), declare("~q1")]
        steps += [self.method("confirm.select")] if self.flag() else []
        steps.append(self.method("basic.qos", prefetch_count=1))
        consuming = self.flag(0.6)
        if consuming:
            steps.append(self.listen("~k0"))
        steps += [self.send("", "~k0", {"delivery_mode": 2}) for _ in range(rng.randint(1, 2))]
        for _ in range(rng.randint(4, 10)):
            if not consuming:
                steps.append(self.take("~k0"))
            steps.append(self.give(verbs=("ack", "nack", "nack", "reject", "reject", "reject", "reject"), multiple=0, requeue=0.85))
            if self.flag(0.2):
                steps.append(self.send("", "~k0", {"headers": {"h": 1}} if self.flag() else {}))
            if self.flag(0.08):
                steps.append(self.method("channel.close", reply_code=200, reply_text="bye"))
                if consuming:
                    steps.append(self.listen("~k0"))
        return steps + self.emptied(["~q1"])

    # exchanges

    def exchange_types(self):
        """Declarations of every type with good and bad arguments, and bindings to them."""
        rng, steps = self.rng, [declare("~q0"), declare("~q1")]
        for _ in range(rng.randint(3, 9)):
            kind = rng.choice(["x-consistent-hash", "x-modulus-hash", "x-random", "x-local-random", "x-recent-history", "x-recent-history"])
            name = f"~x{rng.randrange(3)}"
            steps.append(exchange(name, kind, self.exchange_arguments(kind), durable=self.flag()))
            for _ in range(rng.randint(0, 3)):
                key = rng.choice(["1", "10", "10000", "10001", "0", "-1", "", "abc", "1.5", " 1", "+1", "01", "99999999999999999999"])
                verb = rng.choice(["queue.bind"] * 4 + ["queue.unbind", "exchange.bind"])
                steps.append(bind(rng.choice(["~q0", "~q1"]) if verb.startswith("queue") else f"~x{rng.randrange(3)}", name, key, {}, verb))
        return steps

    def exchange_arguments(self, kind):
        rng = self.rng
        odd = [V(*pair) for pair in (("S", "text"), ("I", 5), ("I", -1), ("I", 0), ("t", True), ("V", None), ("d", 1.5), ("S", ""), ("l", 1 << 40))]
        if kind == "x-consistent-hash":
            out = {}
            if self.flag(0.4):
                out["hash-header"] = rng.choice(["h", "h", *odd])
            if self.flag(0.4):
                out["hash-property"] = rng.choice(["message_id", "correlation_id", "timestamp", "app_id", "user_id", "", *odd])
            if self.flag(0.1):
                out["x-max-weight"] = rng.choice([20, *odd])
            return out
        if kind == "x-recent-history" and self.flag(0.6):
            return {"x-recent-history-length": rng.choice([1, 5, V("l", 3), V("b", 2), *odd])}
        return {"alternate-exchange": rng.choice(["~x0", *odd])} if self.flag(0.15) else {}

    def hashes(self):
        """Each message goes to one queue; the same key to the same one. Which one is the broker's own affair."""
        rng = self.rng
        kind = rng.choice(["x-consistent-hash", "x-consistent-hash", "x-modulus-hash"])
        arguments = rng.choice([{}, {"hash-header": "h"}, {"hash-property": "message_id"}, {"hash-property": "timestamp"},
                                {"hash-property": "correlation_id"}]) if kind == "x-consistent-hash" else {}
        queues = ["~q0", "~q1", "~q2", "~q3"]
        steps = [exchange("~x0", kind, arguments, durable=self.flag())] + [declare(queue) for queue in queues]
        bound = set()

        def bound_one():
            queue = rng.choice(queues)
            bound.add(queue)
            return bind(queue, "~x0", rng.choice(["1", "2", "10"]))

        def unbound_one():
            return bind(rng.choice(sorted(bound) or queues), "~x0", rng.choice(["1", "2", "10"]), {}, "queue.unbind")

        def burst():
            same = self.flag()
            key, made = rng.choice("abcdef"), []
            for index in range(rng.randint(2, 12)):
                key = key if same else f"k{index}"
                props = {"message_id": key, "correlation_id": key, "timestamp": 1000 + ord(key[-1]), "headers": {"h": key}} \
                    if self.flag(0.9) or same else {}
                made.append(["publish", 1, "~x0", key, self.body(), props, "m"])
            return [["pipeline", 0, 1, made], ["total", 0, 1, queues, same]] + [self.method("queue.purge", queue=queue) for queue in queues]

        for _ in range(rng.randint(2, 6)):
            steps += [bound_one() for _ in range(rng.choice([0, 1, 2]))]
            steps += [unbound_one()] if self.flag(0.3) else []
            steps += burst()
        self.waits["blind"] = queues
        return steps

    def dice(self):
        rng = self.rng
        kind = rng.choice(["x-random", "x-local-random"])
        queues = ["~q0", "~q1", "~q2"]
        steps = [exchange("~x0", kind, {}, durable=self.flag())] + [declare(queue) for queue in queues]
        for _ in range(rng.randint(2, 5)):
            steps += [bind(rng.choice(queues), "~x0", rng.choice(["", "", "k"]), {}, rng.choice(["queue.bind", "queue.bind", "queue.unbind"]))
                      for _ in range(rng.choice([0, 1, 2]))]
            steps.append(["pipeline", 0, 1, [["publish", 1, "~x0", rng.choice(["", "a"]), self.body(), {}, "m"] for _ in range(rng.randint(1, 8))]])
            steps.append(["total", 0, 1, queues, False])
            steps += [self.method("queue.purge", queue=queue) for queue in queues]
        self.waits["blind"] = queues
        return steps

    def recent_history(self):
        rng = self.rng
        self.waits["quiet"] = 3
        length = rng.choice([{}, {"x-recent-history-length": rng.choice([1, 2, 3])}])
        queues = ["~q0", "~q1", "~q2"]
        steps = [exchange("~x0", "x-recent-history", length), exchange("~x1", "fanout")] + [declare(queue) for queue in queues]

        def publish():
            headers = rng.choice([{}, {}, {"h": 1}, {"x-recent-history-no-store": True}, {"x-recent-history-no-store": False},
                                  {"x-recent-history-no-store": rng.choice(["true", 1, None])}])
            return self.send("~x0", rng.choice(["a", "b.c", ""]), {"headers": headers} if headers else {}, "m" if self.flag(0.3) else "")

        steps += self.some(rng.randint(8, 20), [
            (publish, 8), (lambda: bind(rng.choice(queues), "~x0", rng.choice(["a", "b", ""]), {}, rng.choice(["queue.bind"] * 3 + ["queue.unbind"])), 5),
            (lambda: bind(rng.choice(queues), "~x1"), 0.5), (lambda: bind("~x1", "~x0", "", {}, "exchange.bind"), 0.5),
            (lambda: self.take(rng.choice(queues), True), 3)])
        return steps + self.emptied(queues)

    # arguments

    def queue_argument_texts(self):
        """Every argument of a queue, good and bad, with the equivalence of a second declaration."""
        rng, steps = self.rng, []
        self.waits |= {"quiet": 2, "breath": 0.0}
        for _ in range(rng.randint(4, 10)):
            arguments = {}
            for name in rng.sample(sorted(ARGUMENTS), rng.choice([1, 1, 1, 2, 3])):
                arguments[name] = self.value() if self.flag(0.3) else rng.choice(ARGUMENTS[name])
            if self.flag(0.3):
                arguments["x-queue-type"] = rng.choice(["classic", "quorum", "quorum"])
            queue = f"~q{rng.randrange(3)}" if arguments.get("x-queue-type") != "quorum" else f"~k{rng.randrange(2)}"
            flags = {"exclusive": True} if self.flag(0.07) else {}
            if self.flag(0.04):
                flags["auto_delete"] = True
            steps.append(declare(queue, arguments, **flags))
            if self.flag(0.4):
                changed = dict(arguments)
                if changed and self.flag(0.7):
                    name = rng.choice(sorted(changed))
                    changed[name] = rng.choice(ARGUMENTS.get(name, ["classic", "quorum"]))
                elif changed:
                    changed.pop(rng.choice(sorted(changed)))
                steps.append(declare(queue, changed, **flags))
            if self.flag(0.15):
                steps.append(self.method("queue.delete", queue=queue))
        return steps

    def consume_argument_texts(self):
        rng = self.rng
        steps = [declare("~q0"), declare("~k0", {"x-queue-type": "quorum"})]
        for _ in range(rng.randint(3, 8)):
            name = rng.choice(["x-priority", "x-priority", "x-consumer-timeout", "x-stream-offset", "x-unknown", "x-cancel-on-ha-failover"])
            value = self.value() if self.flag(0.5) else rng.choice([0, 1, -5, 1800000, V("l", 1 << 40), "first", "high"])
            steps.append(self.listen(rng.choice(["~q0", "~q0", "~k0"]), arguments={name: value}, no_ack=self.flag(0.3)))
        return steps

    # direct reply-to

    def reply_to(self):
        rng = self.rng
        self.count = 2
        own = "amq.rabbitmq.reply-to"
        steps = [declare("~q0"), ["method", 1, 1, "basic.consume", {"queue": "~q0", "consumer_tag": "server", "no_ack": True}]]

        def consume():
            return ["method", 0, rng.choice([1, 1, 2]), "basic.consume", {"queue": own, "consumer_tag": rng.choice(["r", ""]), "no_ack": self.flag(0.9)}]

        def ask():
            return self.send("", rng.choice(["~q0", "~q0", "~q0", "~nowhere"]), {"reply_to": own, "correlation_id": "c"}, "m" if self.flag(0.3) else "",
                             channel=rng.choice([1, 1, 1, 2]))

        steps += [consume()] if self.flag(0.85) else []
        return steps + self.some(rng.randint(5, 12), [
            (ask, 6), (lambda: ["reply", 1, 1, self.body(), "m" if self.flag(0.4) else ""], 7), (consume, 0.7),
            (lambda: ["method", 0, 1, "basic.cancel", {"consumer_tag": "r"}], 0.6),
            (lambda: ["method", 0, 1, "channel.close", {"reply_code": 200, "reply_text": "bye"}], 0.5),
            (lambda: self.method("queue.declare", queue=own, passive=True), 0.5),
            (lambda: self.take(own), 0.3), (lambda: self.method("queue.purge", queue=own), 0.2),
            (lambda: self.method("queue.delete", queue=own), 0.2), (lambda: bind(own, "amq.direct", "k"), 0.2),
            (lambda: ["reply-declare", 1, 1], 0.6),
            (lambda: self.send("", own, {}, "m"), 0.3), (lambda: self.send("", own + ".nonsense", {}, "m"), 0.4)])

    def user_id(self):
        rng, steps = self.rng, [declare("~q0")]
        for _ in range(rng.randint(2, 5)):
            steps += [self.send("", "~q0", {"user_id": rng.choice(["guest", "guest", "other", ""])}, rng.choice(["", "m"])), self.take("~q0", True)]
        return steps

    # policies: policies.json has been given to both sides before

    def policies(self):
        """Queues and exchanges whose names ask for a policy of policies.json, with and without arguments of their own."""
        rng = self.rng
        kind = rng.choice(["max2", "bytes", "reject", "rejectdlx", "ttl", "dlx", "op2", "opttl", "both", "ae", "plain"])
        queue = f"~q0.pol-{kind}"
        if "ttl" in kind:
            self.waits["pause"] = PAUSE
        self.waits["quiet"] = 4
        arguments = {}
        if self.flag(0.5):
            arguments = rng.choice([{"x-max-length": 1}, {"x-max-length": 3}, {"x-message-ttl": 600000}, {"x-overflow": "drop-head"},
                                    {"x-overflow": "reject-publish", "x-max-length": 3}, {"x-max-length-bytes": 4},
                                    {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "~q2"}, {"x-dead-letter-routing-key": "~q2"}])
        mine = {"who": "~"}  # a policy names its exchanges, so all conversations share them: each binds what is its own
        steps = [exchange("pol-dlx", "headers"), exchange("pol-ae", "headers"), exchange("~x0.pol-ae", "direct", {"alternate-exchange": "~x9"} if self.flag(0.3) else {}),
                 declare(queue, arguments), declare("~q1"), declare("~q2"), bind("~q1", "pol-dlx", "", mine), bind("~q2", "pol-ae", "", mine)]
        if self.flag(0.3):
            steps.append(declare(queue, arguments))
        if self.flag(0.6):
            steps.append(self.method("confirm.select"))
        steps += self.some(rng.randint(5, 12), [
            (lambda: self.send("", queue, {"headers": mine}), 8), (lambda: self.take(queue), 3), (self.give, 3),
            (lambda: self.send("~x0.pol-ae", "nowhere", {"headers": mine}, "m"), 2 if kind == "ae" else 0.3)])
        return steps + self.emptied([queue, "~q1", "~q2"])


FEATURES = [name for name in vars(Features) if not name.startswith("_") and name not in (
    "build", "body", "send", "take", "listen", "some", "give", "emptied", "method", "dead_letter_arguments", "exchange_arguments")]

NUMBERS = [0, 1, 5, -1, V("l", 5), V("b", 5), V("l", 1 << 50)]
TIMES = [0, 1000000, -1, V("l", 1000000), 315360000000, 315360000001]
ARGUMENTS = {
    "x-message-ttl": TIMES[1:], "x-expires": TIMES, "x-max-length": NUMBERS, "x-max-length-bytes": NUMBERS,
    "x-overflow": ["drop-head", "reject-publish", "reject-publish-dlx", "nope", ""],
    "x-dead-letter-exchange": ["", "~x0", "~nox"], "x-dead-letter-routing-key": ["k", ""],
    "x-dead-letter-strategy": ["at-most-once", "at-least-once", "nope"],
    "x-max-priority": [0, 1, 10, 255, 256, -1, V("l", 10), V("b", 5)],
    "x-single-active-consumer": [True, False, "true", 1], "x-delivery-limit": [0, 1, 20, -1, -2, V("l", 3)],
    "x-consumer-timeout": TIMES, "x-consumer-disconnected-timeout": TIMES,
    "x-delayed-retry-type": ["disabled", "all", "failed", "returned", "nope"],
    "x-delayed-retry-min": NUMBERS, "x-delayed-retry-max": NUMBERS,
    "x-queue-mode": ["lazy", "default", "nope", 1], "x-queue-version": [2, 1, 3, "2"],
    "x-queue-leader-locator": ["client-local", "balanced", "random", "nope"], "x-queue-master-locator": ["client-local", "min-masters", "nope"],
    "x-max-in-memory-length": NUMBERS, "x-max-in-memory-bytes": NUMBERS, "x-quorum-initial-group-size": [1, 3, 0, -1],
    "x-member-placement-tag": ["t", ""], "x-max-age": ["1h", "1x", 5], "x-stream-max-segment-size-bytes": NUMBERS,
    "x-stream-filter-size-bytes": [16, 255, 15, 256], "x-initial-cluster-size": [1, 0], "x-queue-type": ["classic", "quorum", "nope", "", 5],
}
