"""What is measured: each case is a command line of `menzil bench amqp` or `mqtt` and what was asked of it.

`asked` maps a figure of the row to ("<=" or ">=", bound). `fresh` cases get a broker of their own,
started for them, with `settings` for Menzil; all others share one broker that stays up. `peers` are
those it makes sense to run beside, `peer_words` what they get instead where ours would take them
hours, `peer_rounds` how often they run where it takes them long (0: as often as Menzil). Cases of one
`group` are compared with each other, `beside` is what is asked of the bare machine around each run.
`page` is the page of docs/ that the case is on. `stored` cases
get a mosquitto that stores sessions as Debian's does; all others one that stores nothing. `takes` is how many seconds a run has needed besides the measured time and the start of a broker of
its own; what is not there took one.
"""

import dataclasses

MENZIL, CLASSIC, QUORUM, MOSQUITTO = "Menzil", "RabbitMQ classic", "RabbitMQ quorum", "mosquitto"
MIB = 1 << 20


@dataclasses.dataclass(frozen=True)
class Case:
    key: str
    title: str
    words: str
    section: str
    asked: dict = dataclasses.field(default_factory=dict)
    asked_unpinned: dict = dataclasses.field(default_factory=dict)
    peers: tuple = (CLASSIC,)
    peer_words: str = ""
    fresh: bool = False
    settings: dict = dataclasses.field(default_factory=dict)
    kind: str = "bench"
    row: int = 0
    timed: bool = True
    note: str = ""
    peer_rounds: int = 0
    objects: int = 0
    peer_objects: int = 0
    group: str = ""
    beside: str = ""
    takes: dict = dataclasses.field(default_factory=dict)
    page: str = "benchmarks"
    stored: bool = False

    @property
    def timed_parts(self):
        """How often a run measures for the time that is given."""
        if self.kind == "lapin":
            return 6
        if self.kind == "idle" or not self.timed:
            return 0
        return 3 if self.beside == "loopback" else 1

    def words_for(self, peer):
        words = self.words if peer == MENZIL else self.peer_words or self.words
        return words.split() + (["--queue-type", "quorum"] if peer == QUORUM else [])


def cpu(most):
    return {"broker_cpu_seconds_per_million": ("<=", most)}


def rate(least):
    return {"per_second": (">=", least)}


def took(ours, theirs=0):
    return {MENZIL: ours, CLASSIC: theirs, QUORUM: theirs, MOSQUITTO: theirs}


BOTH = (CLASSIC, QUORUM)


def routing(key, title, words, section, asked=None, **more):
    return Case(f"routing-{key}", title, words, section, asked or {}, page="benchmarks-routing", peer_rounds=1, **more)


def mqtt(key, title, words, section, asked=None, **more):
    more = {"kind": "mqtt", "peers": (MOSQUITTO,), "takes": took(1, 1)} | more
    return Case(f"mqtt-{key}", title, words, section, asked or {}, page="benchmarks-mqtt", **more)


# In the proportion of the defaults.
SMALL_SEGMENTS = {"segment_bytes": "16777216", "checkpoint_bytes": "16777216"}

CASES = [
    # Throughput.
    Case("transient-100", "transient, 1 publisher + 1 consumer, auto-ack, 100 B", "--scenario transient", "throughput", cpu(0.35)),
    Case("transient-16", "the same, 16 B", "--scenario transient --size 16", "throughput", cpu(0.25)),
    Case("transient-1k", "the same, 1 KiB", "--scenario transient --size 1k", "throughput", cpu(1.0)),
    Case("manual-ack", "the same, 100 B, manual ack one by one, prefetch 200", "--scenario manual-ack", "throughput", cpu(0.50)),
    Case("drain", "drain of a backlog of 1 M persistent, manual ack one by one", "--scenario drain", "throughput", cpu(0.50),
         peer_words="--scenario drain --messages 100k", note="RabbitMQ: 100,000", row=1, timed=False, peer_rounds=1, takes=took(3, 15)),
    Case("confirm-1", "persistent, confirms at window 1000, 1 connection", "--scenario confirm", "throughput",
         cpu(0.60) | rate(900_000), peers=BOTH, takes=took(1, 1)),
    Case("confirm-8", "persistent, 8 connections × window 100 on one queue", "--scenario confirm --publishers 8 --confirm 100",
         "throughput", cpu(0.70) | rate(800_000), peers=BOTH, takes=took(1, 1)),
    Case("fanout-10", "fan-out to 10 queues, 10 consumers, per published message", "--scenario fanout", "throughput", cpu(1.6), takes=took(1, 2)),
    Case("topic-10k", "topic, 10,000 mixed bindings, 1 match", "--scenario topic", "throughput", peer_rounds=1, takes=took(1, 38)),
    Case("headers-1k", "headers, 1,000 mixed bindings, 1 match", "--scenario headers", "throughput", peer_rounds=1, takes=took(1, 7)),
    # Latency.
    Case("confirm-one", "persistent, confirm one by one", "--scenario confirm-one", "latency", {"of_raw_sync": (">=", 0.42)}, peers=BOTH,
         beside="sync", takes=took(4, 4)),
    Case("latency", "end to end at 1,000 msg/s", "--scenario latency", "latency",
         {"latency_p50_ns": ("<=", 75_000), "latency_p99_ns": ("<=", 160_000)},
         {"latency_p50_ns": ("<=", 35_000), "latency_p99_ns": ("<=", 120_000)}, beside="loopback"),
    Case("confirm-latency-1", "publish to confirm at 1,000 msg/s, to 1 queue", "--scenario confirm-latency --queues 1", "latency", peers=BOTH,
         group="confirm-latency"),
    Case("confirm-latency-6", "publish to confirm at 1,000 msg/s, each message to 6 queues", "--scenario confirm-latency --queues 6", "latency",
         {"p50_of_one_queue": ("<=", 1.1)}, peers=BOTH, group="confirm-latency"),
    Case("confirm-latency-32", "publish to confirm at 1,000 msg/s, each message to 32 queues", "--scenario confirm-latency --queues 32", "latency",
         {"p50_of_one_queue": ("<=", 1.1)}, peers=BOTH, group="confirm-latency", takes=took(1, 3)),
    # The number of queues.
    Case("spread-1", "persistent, window 1000, one queue", "--scenario spread --queues 1", "queues", group="spread", takes=took(1, 1)),
    Case("spread-100", "the same load over 100 queues", "--scenario spread --queues 100", "queues", {"cpu_of_one_queue": ("<=", 1.2)},
         group="spread", takes=took(1, 3)),
    Case("spread-10k", "the same load over 10,000 queues", "--scenario spread --queues 10000", "queues", {"cpu_of_one_queue": ("<=", 1.2)},
         peer_words="--scenario spread --queues 1000", note="RabbitMQ: 1,000 queues", peer_rounds=1, group="spread", takes=took(2, 16)),
    # Things that come and go.
    Case("bindings", "declare 10,000 topic bindings, pipelined", "--scenario bindings", "churn", timed=False,
         peer_words="--scenario bindings --bindings 2000", note="RabbitMQ: 2,000", peer_rounds=1, takes=took(1, 5)),
    Case("churn-connections", "open a connection and a channel, close it", "--scenario churn-connections", "churn"),
    Case("churn-channels", "open a channel, close it", "--scenario churn-channels", "churn"),
    Case("churn-queues", "declare a durable queue, delete it", "--scenario churn-queues", "churn"),
    Case("churn-bindings", "bind to a topic exchange, unbind", "--scenario churn-bindings", "churn"),
    # Memory.
    Case("idle", "an idle broker", "", "memory", {"broker_resident_bytes": ("<=", 15 * MIB)}, fresh=True, kind="idle", peer_rounds=1),
    Case("backlog-1m", "1 M × 100 B persistent, queued: growth", "--scenario backlog --messages 1M", "memory", {"growth": ("<=", 24 * MIB)},
         peer_words="--scenario backlog --messages 200k", note="RabbitMQ: 200,000", fresh=True, timed=False, peer_rounds=1, takes=took(3, 17)),
    Case("backlog-10m", "10 M × 100 B persistent, queued: growth", "--scenario backlog --messages 10M", "memory", {"growth": ("<=", 64 * MIB)},
         peers=(), fresh=True, timed=False, takes=took(28)),
    Case("idle-connections", "10,000 idle connections with a channel: each", "--scenario idle-connections --connections 10000", "memory",
         {"broker_growth_bytes_per_each": ("<=", 10 * 1024)}, peer_words="--scenario idle-connections --connections 1000", note="RabbitMQ: 1,000",
         fresh=True, timed=False, settings={"connections_max": "10100"}, peer_rounds=1, takes=took(4, 5)),
    Case("idle-queues", "100,000 idle durable queues: each", "--scenario idle-queues --queues 100000", "memory",
         {"broker_growth_bytes_per_each": ("<=", 2 * 1024)}, peer_words="--scenario idle-queues --queues 2000", note="RabbitMQ: 2,000",
         fresh=True, timed=False, peer_rounds=1, takes=took(5, 12)),
    # Recovery.
    Case("recovery-1m", "SIGKILL with 1 M × 100 B persistent queued", "--scenario backlog --messages 1M", "recovery",
         {"ready_seconds": ("<=", 0.3)}, peer_words="--scenario backlog --messages 200k", note="RabbitMQ: 200,000",
         fresh=True, timed=False, kind="recovery", peer_rounds=1, takes=took(5, 26)),
    Case("recovery-10m", "SIGKILL with 10 M × 100 B persistent queued", "--scenario backlog --messages 10M", "recovery",
         {"ready_seconds": ("<=", 2.0)}, peers=(), fresh=True, timed=False, kind="recovery", takes=took(33)),
    Case("recovery-queues", "SIGKILL with 100,000 durable queues, each bound", "--scenario idle-queues --queues 100000 --exchange direct", "recovery",
         {"ready_seconds": ("<=", 2.0)}, peer_words="--scenario idle-queues --queues 2000 --exchange direct", note="RabbitMQ: 2,000",
         fresh=True, timed=False, kind="recovery", peer_rounds=1, takes=took(7, 24)),
    Case("purge-1m", "purge of 1 M persistent messages", "--scenario purge --messages 1M", "recovery", peer_words="--scenario purge --messages 100k",
         note="RabbitMQ: 100,000", row=1, fresh=True, timed=False, peer_rounds=1, takes=took(3, 8)),
    Case("purge-10m", "purge of 10 M persistent messages", "--scenario purge --messages 10M", "recovery", {"seconds": ("<=", 0.05)},
         peers=(), row=1, fresh=True, timed=False, takes=took(18)),
    # Disk: with consumers and after a while, so that segments are used again and not prepared.
    *(
        Case(f"written-2k-{queues}", f"fan-out of persistent 2 KiB messages to {queues} queue{'s' * (queues > 1)}",
             f"--scenario confirm --size 2k --exchange fanout --queues {queues} --consumers {queues} --ack-batch 50 --warmup 5 --seconds 5",
             "disk", {"disk_written_bytes_per_published_byte": ("<=", 1.3)}, fresh=True, timed=False, peers=BOTH, peer_rounds=1, takes=took(12, 14))
        for queues in (1, 6, 32)
    ),
    Case("written-100", "100 B to one queue, acknowledged one by one", "--scenario confirm --consumers 1 --ack-batch 1 --warmup 5 --seconds 5",
         "disk", {"disk_written_bytes_per_published_byte": ("<=", 2.5)}, fresh=True, timed=False, peers=BOTH, peer_rounds=1, takes=took(12, 12)),
    Case("folder-empty", "data folder of an empty broker", "", "disk", {"folder_segments": ("<=", 6)}, fresh=True, kind="idle", peers=()),
    Case("folder-held", "data folder with one message unacknowledged under traffic of 100 segments (16 MiB each, a checkpoint for each, as by default)",
         "--scenario confirm --consumers 1 --ack-batch 50 --hold 1 --size 2k --messages 800k --keep", "disk", {"folder_beyond_live": ("<=", 4)},
         peers=(), fresh=True, timed=False, settings=SMALL_SEGMENTS, takes=took(20)),
    Case("folder-dead", "data folder with a dead queue beside five fast ones (segments of 16 MiB, a checkpoint for each)",
         "--scenario confirm --exchange fanout --queues 5 --consumers 5 --ack-batch 50 --dead-queues 1 --size 2k --messages 50k --keep", "disk",
         {"folder_beyond_live": ("<=", 4)}, peers=(), fresh=True, timed=False, settings=SMALL_SEGMENTS, takes=took(20)),
    # Routing, on a page of its own. What was bound a moment ago is still on its way into a checkpoint: the warm-up lets that end.
    *(
        routing(f"direct-{count}", f"direct, {count:,} bindings, 1 match", f"--scenario transient --exchange direct --bindings {count} --warmup 12", "flat",
                {"cpu_of_fewest": ("<=", 1.1)} if count > 10 else {}, group="direct", peer_words="--scenario transient --exchange direct --bindings 1000 --warmup 12" if count > 1000 else "",
                note="RabbitMQ: 1,000" if count > 1000 else "", takes=took(1 + count / 50_000, 3))
        for count in (10, 1_000, 10_000, 100_000)
    ),
    routing("topic-alone", "topic, 1 binding, 1 match", "--scenario topic --bindings 1", "flat", group="apart"),
    routing("topic-apart", "topic, 10,000 bindings under `invoice.` beside it, a publish of `orders.eu.created`", "--scenario topic --bindings 10001 --apart", "flat",
            {"cpu_of_fewest": ("<=", 1.1)}, group="apart", peer_words="--scenario topic --bindings 2001 --apart", note="RabbitMQ: 2,000", takes=took(1, 8)),
    routing("topic-mixed", "topic, 10,000 mixed bindings, 1 match", "--scenario topic", "cost", cpu(1.2), takes=took(1, 38)),
    *(
        routing(f"headers-{count}", f"headers, {count:,} mixed bindings, 1 match", f"--scenario headers --bindings {count}", "cost",
                cpu(1.5) if count == 1000 else {}, takes=took(1, 3 + count / 150), note="RabbitMQ: 1,000" if count > 1000 else "",
                peer_words="--scenario headers --bindings 1000" if count > 1000 else "")
        for count in (10, 100, 1_000, 10_000)
    ),
    routing("declare-bindings", "declare 10,000 mixed topic bindings, pipelined", "--scenario bindings", "declare", {"seconds": ("<=", 1)}, timed=False,
            peer_words="--scenario bindings --bindings 2000", note="RabbitMQ: 2,000", takes=took(1, 5)),
    routing("import", "a start that imports 100,000 durable queues and their bindings, until it is ready", "", "import", {"ready_seconds": ("<=", 5)},
            fresh=True, timed=False, kind="import", objects=100_000, peer_objects=2_000, note="RabbitMQ: 2,000", takes=took(5, 20)),
    *(
        routing(f"delete-{kind}", f"a confirm while a {kind} exchange with 100,000 bindings is deleted: the longest", f"--scenario delete-exchange --exchange {kind} --warmup 5", "held",
                {"latency_max_ns": ("<=", 50_000_000)}, peer_words=f"--scenario delete-exchange --exchange {kind} --bindings 2000 --warmup 5", note="RabbitMQ: 2,000",
                takes=took(6, 14))
        for kind in ("topic", "direct", "headers")
    ),
    routing("ttl-none", "store 1 M × 100 B persistent, none expires", "--scenario backlog", "ttl", group="ttl", fresh=True, timed=False,
            peer_words="--scenario backlog --messages 200k", note="RabbitMQ: 200,000", takes=took(3, 17)),
    routing("ttl-mixed", "the same, each with an expiration of its own, 100 s to 1,000 s", "--scenario backlog --expiration 100000-999999", "ttl",
            {"rate_of_plain": (">=", 0.9)}, group="ttl", fresh=True, timed=False, peer_words="--scenario backlog --messages 200k --expiration 100000-999999",
            note="RabbitMQ: 200,000", takes=took(3, 17)),
    routing("delays", "10,000 persistent messages a second that waited 2 s each in an x-delayed-message exchange: how late they come", "--scenario delays", "late",
            {"latency_p99_ns": ("<=", 20_000_000)}, fresh=True, peers=(), timed=False, takes=took(15)),
    routing("delays-transient", "the same, transient", "--scenario delays --transient", "late", fresh=True, peers=(), timed=False, takes=took(15)),
    routing("example", "the article's example: 3,000 msg/s × 2 KB, 25 queues, each message to 6 on average, consumed (segments of 16 MiB, a checkpoint for each)",
            "--scenario confirm --exchange direct --queues 25 --reach 6 --consumers 25 --ack-batch 1 --rate 3000 --size 2000 --warmup 15 --seconds 10", "written",
            fresh=True, timed=False, settings=SMALL_SEGMENTS, peers=BOTH, takes=took(27, 29)),
    *(
        routing(f"copies-{queues}", f"persistent 2 KB messages, each to {queues} queue{'s' * (queues > 1)}, consumed",
                f"--scenario confirm --size 2000 --exchange fanout --queues {queues} --consumers {queues} --ack-batch 50 --warmup 5 --seconds 5",
                "curve", fresh=True, timed=False, peers=BOTH, takes=took(12, 14))
        for queues in (1, 2, 4, 8, 16, 32)
    ),
    # MQTT, on a page of its own.
    mqtt("qos0", "QoS 0, 1 → 1", "--scenario qos0", "mqtt-flow", cpu(0.70)),
    mqtt("qos1", "QoS 1, 1 → 1, window 100", "--scenario qos1", "mqtt-flow", cpu(1.4)),
    mqtt("qos2", "QoS 2, 1 → 1, window 20", "--scenario qos2", "mqtt-flow", cpu(3.0)),
    mqtt("fanout0", "QoS 0, 1 → 100", "--scenario fanout0", "mqtt-flow", cpu(0.50)),
    mqtt("fanout1", "QoS 1, 1 → 100, window 20", "--scenario fanout1", "mqtt-flow", cpu(0.9)),
    mqtt("fanin", "QoS 0, 100 → 1, 100 topics", "--scenario fanin", "mqtt-flow"),
    mqtt("shared", "QoS 1, 1 → a shared group of 10, by 5.0, window 100 or what the broker allows", "--scenario shared", "mqtt-flow"),
    mqtt("offline", "QoS 1 into an offline durable session, window 100", "--scenario offline", "mqtt-stored", cpu(1.2) | rate(400_000),
         stored=True, takes=took(5, 10)),
    mqtt("drain", "the session comes back for 200,000 messages", "--scenario drain --messages 200k", "mqtt-stored", row=1, stored=True, timed=False,
         takes=took(3, 5)),
    mqtt("latency", "QoS 1 at 1,000 msg/s, publish to delivery", "--scenario latency", "mqtt-latency",
         {"latency_p50_ns": ("<=", 100_000), "latency_p99_ns": ("<=", 300_000)}),
    mqtt("puback", "PUBACK of QoS 1, one by one, no session (the article: 59 · 185)", "--scenario puback", "mqtt-latency", timed=False, stored=True),
    mqtt("puback-stored", "PUBACK of QoS 1, one by one, into an offline durable session (the article: 4,164 · 9,006)", "--scenario puback", "mqtt-latency",
         row=1, timed=False, stored=True, takes=took(2, 1)),
    mqtt("idle-connections", "10,000 idle connections: each", "--scenario idle-connections --connections 10k", "mqtt-memory",
         {"broker_growth_bytes_per_each": ("<=", 5 * 1024)}, fresh=True, timed=False, takes=took(4, 4)),
    mqtt("idle-subscribers", "10,000 idle connections with a subscription of QoS 1: each", "--scenario idle-connections --connections 10k --filters 1 --qos 1",
         "mqtt-memory", fresh=True, timed=False, takes=took(5, 5)),
    mqtt("idle-sessions", "100,000 stored sessions with a subscription: each", "--scenario idle-sessions --sessions 100k --keep", "mqtt-memory",
         {"broker_growth_bytes_per_each": ("<=", 2 * 1024)}, fresh=True, timed=False, stored=True, takes=took(15, 15)),
    mqtt("retained-load", "1 M retained topics of 100 B: each", "--scenario retained-load --keep", "mqtt-memory", fresh=True, timed=False, stored=True,
         takes=took(8, 10)),
    mqtt("retained-read", "a subscriber of `#` gets 1 M retained messages", "--scenario retained-read --keep", "mqtt-retained", {"lost": ("<=", 0)},
         row=1, fresh=True, timed=False, stored=True, takes=took(10, 20)),
    mqtt("storm", "5,000 clients come back in 10 s", "--scenario storm", "mqtt-storm", {"lost": ("<=", 0)}, fresh=True, timed=False, stored=True,
         takes=took(13, 13)),
    mqtt("recovery", "SIGKILL with 100,000 stored sessions", "--scenario idle-sessions --sessions 100k --keep", "mqtt-recovery",
         {"ready_seconds": ("<=", 2.0)}, kind="mqtt_recovery", peers=(), fresh=True, timed=False, takes=took(15)),
    # An ordinary client library.
    Case("lapin", "the client library lapin", "", "lapin", kind="lapin", peers=BOTH, peer_rounds=1, takes=took(1, 2)),
]
