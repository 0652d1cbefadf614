"""docs/benchmarks.md: medians, what was asked of them, and ratios."""

import statistics

from . import charts
from .cases import CASES, CLASSIC, MENZIL, MOSQUITTO, QUORUM

MIB = 1 << 20
PEERS = (CLASSIC, QUORUM, MOSQUITTO)


BY_KEY = {case.key: case for case in CASES}


class Figures:
    """Medians by case, mode, peer and figure, derived ones included."""

    def __init__(self, results):
        self.results = results

    def rows(self, key, mode, peer):
        return self.results.get(key, {}).get(mode, {}).get(peer, [])

    def median(self, key, mode, peer, figure):
        derived = getattr(self, f"_{figure}", None)
        if derived:
            return derived(key, mode, peer)
        values = [row[figure] for row in self.rows(key, mode, peer) if row.get(figure) is not None]
        return statistics.median(values) if values else None

    def void(self, key, mode, peer):
        return sum(1 for row in self.rows(key, mode, peer) if row.get("void"))

    def _per_row(self, key, mode, peer, of):
        values = [of(row) for row in self.rows(key, mode, peer)]
        values = [value for value in values if value is not None]
        return statistics.median(values) if values else None

    def _disk_written_bytes_per_second(self, key, mode, peer):
        return self._per_row(key, mode, peer, lambda row: row["disk_written_bytes"] / row["seconds"] if row.get("disk_written_bytes") else None)

    def _growth(self, key, mode, peer):
        return self._per_row(key, mode, peer, lambda row: row["broker_resident_bytes"] - row["broker_resident_bytes_before"])

    def _growth_per_million(self, key, mode, peer):
        return self._per_row(key, mode, peer, lambda row: (row["broker_resident_bytes"] - row["broker_resident_bytes_before"]) / row["done"] * 1e6)

    def _of_raw_sync(self, key, mode, peer):
        return self._per_row(key, mode, peer, lambda row: row["per_second"] / row["raw_sync_per_second"] if "raw_sync_per_second" in row else None)

    def _folder_segments(self, key, mode, peer):
        return self._per_row(key, mode, peer, lambda row: row["folder_bytes"] / row["segment_bytes"] if "segment_bytes" in row else None)

    def _folder_beyond_live(self, key, mode, peer):
        return self._per_row(key, mode, peer, lambda row: (row["folder_bytes"] - 3 * row["live_bytes"]) / row["segment_bytes"])

    def _p50_of_one_queue(self, key, mode, peer):
        return self._ratio(key, "confirm-latency-1", mode, peer, "latency_p50_ns")

    def _cpu_of_one_queue(self, key, mode, peer):
        return self._ratio(key, "spread-1", mode, peer, "broker_cpu_seconds_per_million")

    def _cpu_of_fewest(self, key, mode, peer):
        return self._ratio(key, FIRST[BY_KEY[key].group], mode, peer, "broker_cpu_seconds_per_million")

    def _rate_of_plain(self, key, mode, peer):
        return self._ratio(key, FIRST["ttl"], mode, peer, "per_second")

    def _p50_of_echo(self, key, mode, peer):
        return self._per_row(key, mode, peer, lambda row: row["latency_p50_ns"] / row["echo_p50_ns"] if row.get("echo_p50_ns") else None)

    def _p99_of_echo(self, key, mode, peer):
        return self._per_row(key, mode, peer, lambda row: row["latency_p99_ns"] / row["echo_p99_ns"] if row.get("echo_p99_ns") else None)

    def _ratio(self, key, base, mode, peer, figure):
        """Of rounds taken next to each other, so that what the machine did then cancels out."""
        there = {row.get("round"): row[figure] for row in self.rows(base, mode, peer) if row.get(figure)}
        return self._per_row(key, mode, peer, lambda row: row[figure] / there[row.get("round")] if row.get(figure) and row.get("round") in there else None)

    def rounds(self, key, mode, peer):
        return len(self.rows(key, mode, peer))


def number(value, digits):
    return "–" if value is None else f"{value:,.{digits}f}"


def scaled(scale, digits):
    return lambda value: "–" if value is None else number(value * scale, digits)


# figure -> title, how it is written, and whether less is better
SHOWN = {
    "broker_cpu_seconds_per_million": ("s/M", scaled(1, 2)),
    "per_second": ("/s", scaled(1, 0)),
    "lost": ("lost", scaled(1, 0)),
    "latency_p50_ns": ("p50 µs", scaled(1e-3, 0)),
    "latency_p99_ns": ("p99 µs", scaled(1e-3, 0)),
    "of_raw_sync": ("of the raw sync rate", scaled(1, 2)),
    "raw_sync_per_second": ("raw syncs/s", scaled(1, 0)),
    "p50_of_echo": ("p50 × the echo's", scaled(1, 2)),
    "p99_of_echo": ("p99 × the echo's", scaled(1, 2)),
    "echo_p50_ns": ("the echo's p50 µs", scaled(1e-3, 0)),
    "echo_p99_ns": ("the echo's p99 µs", scaled(1e-3, 0)),
    "p50_of_one_queue": ("p50 against one queue", scaled(1, 2)),
    "cpu_of_one_queue": ("s/M against one queue", scaled(1, 2)),
    "cpu_of_fewest": ("s/M against the first", scaled(1, 2)),
    "rate_of_plain": ("msg/s against none", scaled(1, 2)),
    "latency_p999_ns": ("p99.9 µs", scaled(1e-3, 0)),
    "latency_max_ns": ("max ms", scaled(1e-6, 1)),
    "disk_written_bytes_per_each": ("KB per message", scaled(1e-3, 2)),
    "growth": ("MiB", scaled(1 / MIB, 1)),
    "growth_per_million": ("MiB per million", scaled(1 / MIB, 1)),
    "broker_resident_bytes_before": ("MiB", scaled(1 / MIB, 1)),
    "broker_resident_bytes": ("MiB", scaled(1 / MIB, 1)),
    "broker_resident_bytes_peak": ("MiB", scaled(1 / MIB, 1)),
    "broker_growth_bytes_per_each": ("KiB", scaled(1 / 1024, 2)),
    "ready_seconds": ("s", scaled(1, 2)),
    "seconds": ("s", scaled(1, 3)),
    "disk_written_bytes_per_published_byte": ("B/B", scaled(1, 2)),
    "disk_written_bytes_per_second": ("MB/s", scaled(1e-6, 1)),
    "folder_segments": ("segments", scaled(1, 1)),
    "folder_beyond_live": ("segments beyond 3 × live", scaled(1, 1)),
}

WANTED = {
    "broker_cpu_seconds_per_million": "s/M {}",
    "per_second": "{}/s",
    "lost": "{} lost",
    "latency_p50_ns": "p50 {} µs",
    "latency_p99_ns": "p99 {} µs",
    "of_raw_sync": "{} × the raw sync rate",
    "p50_of_one_queue": "p50 {} × that to one queue",
    "cpu_of_one_queue": "s/M {} × that of one queue",
    "cpu_of_fewest": "s/M {} × the first's",
    "rate_of_plain": "{} × the rate without",
    "latency_max_ns": "max {} ms",
    "growth": "{} MiB",
    "broker_resident_bytes": "{} MiB",
    "broker_growth_bytes_per_each": "{} KiB",
    "ready_seconds": "{} s",
    "seconds": "{} s",
    "disk_written_bytes_per_published_byte": "{} B/B",
    "folder_segments": "{} segments",
    "folder_beyond_live": "3 × live {} segments",
}

LEAST_IS_BEST = {figure for figure in SHOWN if figure not in ("per_second", "of_raw_sync", "rate_of_plain")}
# What a case of a group is compared with: its first.
FIRST = {"direct": "routing-direct-10", "apart": "routing-topic-alone", "ttl": "routing-ttl-none"}
PAGES = ("benchmarks", "benchmarks-routing", "benchmarks-mqtt")


def page(data):
    figures = Figures(data["results"])
    name = data.get("asked", {}).get("page", "benchmarks")
    builds = {"benchmarks": (throughput, latency, queues, weights, churn, lapin), "benchmarks-routing": (cost, flat, bindings, lives, late, written),
              "benchmarks-mqtt": (mqtt_flow, mqtt_stored, mqtt_latency, mqtt_weights)}
    drawn = charts.draw(figures, name)
    parts = [head(data)]
    for build in builds[name]:
        parts.append(build(figures, drawn))
    parts.append(foot(data, name))
    return "\n\n".join(part for part in parts if part) + "\n", drawn


def head(data):
    sync = [row["per_second"] for row in data["disk"]]
    p50 = [row["latency_p50_ns"] for row in data["disk"]]
    raw = f" Raw 4 KiB overwrite + fdatasync beside the runs: {statistics.median(sync):,.0f}/s, p50 {statistics.median(p50) / 1e3:,.0f} µs." if sync else ""
    cut = left_out(data)
    cut += "".join(f"\n\n**Failed**: {failure.splitlines()[0]}" for failure in data.get("failures", []))
    noted = f"\n\n**Note.** {data['note']}" if data.get("note") else ""
    name = data.get("asked", {}).get("page", "benchmarks")
    title, command = TITLES[name], "make bench" if name == "benchmarks" else f"scripts/bench --page {name}"
    peers, durable, unit = MQTT_WORDS if name == "benchmarks-mqtt" else AMQP_WORDS
    return f"""# {title}

Written by `{command}`: medians of {data['rounds']} interleaved {'round' if data['rounds'] == 1 else 'rounds'} of {data['seconds']:g} s{peers.format(**{"mosquitto": "unknown"} | data)}{raw}{cut}{noted}

**How durable each was.** {durable}

**s/M** is CPU seconds of the broker per million {unit} (user and system, all threads). On a machine that others use too it repeats where rates do not; a million divided by it is the rate of one fully used core. *Pinned*: the broker on one core, the generator on another. *Unpinned*: both where the kernel puts them. † marks a row in which the generator was the limit in at least one round: its rate says nothing about the broker, its s/M still does. *asked* is the target that Menzil has for a row, – where it has none; ✓ and ✗ say whether it is met. *ratio* compares the first figure of a row with the best peer's."""


TITLES = {"benchmarks": "Benchmarks", "benchmarks-routing": "Benchmarks of routing and copies", "benchmarks-mqtt": "Benchmarks of MQTT"}
AMQP_WORDS = (
    "; where a row says so, RabbitMQ had fewer rounds or fewer objects, for they take it long. {machine}. Menzil {menzil} and RabbitMQ {rabbitmq} "
    "(Debian's package, older than the 4.3 of compatibility.md, which was not measured), both with their defaults and without plugins, but for the settings named in a row.",
    "Menzil confirms a persistent message after `fdatasync`, whatever the queue. RabbitMQ's classic queues confirm without a sync; its quorum queues sync. "
    "So the fair peer of a durable row is the quorum queue; the classic queue is shown because it is the default.",
    "messages",
)
MQTT_WORDS = (
    ". {machine}. Menzil {menzil} and mosquitto {mosquitto}, both with their defaults, but that mosquitto's limit of 1,000 queued messages "
    "is lifted (`max_queued_messages 0`), for it would drop most of some rows. Payloads of 100 B; MQTT 3.1.1 where a row does not say 5.0.",
    "Menzil sends a PUBACK, PUBREC or SUBACK after `fdatasync` where a durable session or queue is concerned, and without a sync where none is. mosquitto never "
    "syncs before one: in the rows of messages that flow it stores nothing (`persistence false`); in those of sessions, of retained messages and of single "
    "PUBACKs it has `persistence true` as Debian configures it, which writes a snapshot every 30 minutes and at its end, and so nothing during a run.",
    "deliveries",
)


def left_out(data):
    """What there was no time for: figures that are missing, or medians of fewer rounds."""
    lacking = {}
    for one in data.get("left_out", []):
        lacking.setdefault(f"{one['case']} {one['mode']} {one['peer']}", []).append(str(one["round"] + 1))
    texts = [f"{name} (round {', '.join(rounds)})" for name, rounds in lacking.items()]
    return f"\n\n**Left out**, for the time was up: {'; '.join(texts)}." if texts else ""


def mark(figures, case, mode, asked):
    verdicts = []
    for figure, (how, bound) in asked.items():
        value = figures.median(case.key, mode, MENZIL, figure)
        if value is not None:
            verdicts.append(value <= bound if how == "<=" else value >= bound)
    return "" if not verdicts else " ✓" if all(verdicts) else " ✗"


def wanted(asked):
    texts = []
    for figure, (how, bound) in asked.items():
        sign = "+" if figure == "folder_beyond_live" else "≤" if how == "<=" else "≥"
        value = SHOWN[figure][1](bound).removesuffix(".00").removesuffix(".0")
        texts.append(WANTED[figure].format(f"{sign} {value}"))
    return ", ".join(texts) or "–"


def cell(figures, case, mode, peer, names):
    texts = []
    for name in names:
        texts.append(SHOWN[name][1](figures.median(case.key, mode, peer, name)))
    if all(text == "–" for text in texts):
        return "–"
    noisy = (figures.median(case.key, mode, peer, "others_share") or 0) > 0.05
    return " · ".join(texts) + (" †" if figures.void(case.key, mode, peer) else "") + (" ‡" if noisy else "")


def ratio(figures, case, mode, figure):
    """How many times better than the best peer."""
    ours = figures.median(case.key, mode, MENZIL, figure)
    theirs = [figures.median(case.key, mode, peer, figure) for peer in PEERS]
    theirs = [value for value in theirs if value]
    if not ours or not theirs:
        return "–"
    times = min(theirs) / ours if figure in LEAST_IS_BEST else ours / max(theirs)
    return f"{times:,.1f} ×" if times < 100 else f"{times:,.0f} ×"


def table(figures, cases, mode, names, title, asked_of=lambda case: case.asked, compared=True):
    cases = [case for case in cases if figures.rows(case.key, mode, MENZIL) or any(figures.rows(case.key, mode, peer) for peer in PEERS)]
    if not cases:
        return ""
    peers = [peer for peer in PEERS if any(figures.rows(case.key, mode, peer) for case in cases)]
    lines = [
        "| " + " | ".join([title, "asked", MENZIL, *peers] + ["ratio"] * compared) + " |",
        "|" + "---|" * (3 + len(peers) + compared),
    ]
    for case in cases:
        asked = asked_of(case)
        row = [case.title + noted(figures, case, mode), wanted(asked), cell(figures, case, mode, MENZIL, names) + mark(figures, case, mode, asked)]
        row += [cell(figures, case, mode, peer, names) for peer in peers]
        row += [ratio(figures, case, mode, names[0])] * compared
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines)


def noted(figures, case, mode):
    """What was less for RabbitMQ, if it ran at all."""
    rounds = max(figures.rounds(case.key, mode, peer) for peer in PEERS)
    if not rounds:
        return ""
    notes = [case.note] if case.note else []
    if rounds < figures.rounds(case.key, mode, MENZIL):
        fewer = f"{rounds} round{'s' * (rounds > 1)}"
        names = {"RabbitMQ" if peer != MOSQUITTO else peer for peer in PEERS if figures.rounds(case.key, mode, peer)}
        notes.append(fewer if notes else f"{''.join(names)}: {fewer}")
    return f" ({', '.join(notes)})" if notes else ""


def section(name):
    return [case for case in CASES if case.section == name]


def image(drawn, name, text):
    return f"![{text}](bench/{name}.svg)" if name in drawn else ""


def joined(title, *parts):
    parts = [part for part in parts if part]
    return "\n\n".join([title, *parts]) if parts else ""


def throughput(figures, drawn):
    pinned = table(figures, section("throughput"), "pinned", ["broker_cpu_seconds_per_million", "per_second"], "pinned: s/M · msg/s")
    free = table(figures, section("throughput"), "unpinned", ["broker_cpu_seconds_per_million", "per_second"], "unpinned: s/M · msg/s", lambda case: {})
    return joined("## Throughput", image(drawn, "cpu", "CPU seconds per million messages"), pinned,
                  image(drawn, "throughput", "Messages per second"), free)


def asked_latency(case, mode):
    asked = case.asked_unpinned if mode == "unpinned" and case.asked_unpinned else case.asked
    return {figure: bound for figure, bound in asked.items() if figure not in ("of_raw_sync", "p50_of_one_queue")}


def latency(figures, drawn):
    parts = [
        table(figures, section("latency"), mode, ["latency_p50_ns", "latency_p99_ns"], f"{mode}: p50 · p99 µs",
              lambda case, mode=mode: asked_latency(case, mode))
        for mode in ("pinned", "unpinned")
    ]
    def cases(*keys):
        return [case for case in section("latency") if case.key in keys]

    rates, echoes, copies = [], [], []
    for mode in ("pinned", "unpinned"):
        rates.append(table(figures, cases("confirm-one"), mode, ["of_raw_sync", "per_second", "raw_sync_per_second"],
                           f"{mode}: confirms one by one: part of the raw sync rate · per second · raw syncs per second", compared=False))
        echoes.append(table(figures, cases("latency"), mode, ["p50_of_echo", "p99_of_echo", "echo_p50_ns", "echo_p99_ns"],
                            f"{mode}: end to end: p50 · p99 as multiples of the echo's · the echo's p50 · p99 µs", lambda case: {}, compared=False))
        copies.append(table(figures, cases("confirm-latency-6", "confirm-latency-32"), mode, ["p50_of_one_queue", "latency_p50_ns"],
                            f"{mode}: publish to confirm: p50 as a multiple of that to 1 queue · p50 µs", compared=False))
    echo = any(echoes) and ("What the machine itself does: an echo process (`menzil bench loopback`) gets the same messages from the same generator over one "
                            "connection and gives them back over another, on the same cores, just before each run and just after it; and the raw "
                            "sync rate is taken so. A multiple or a part is the median of those of the rounds.")
    return joined("## Latency", image(drawn, "latency", "Latency"), *parts, echo, *echoes, *copies, *rates)


def queues(figures, drawn):
    return joined("## Durable load over many queues", image(drawn, "queues", "CPU seconds per million by number of queues"),
                  *(table(figures, section("queues"), mode, ["broker_cpu_seconds_per_million", "per_second"], f"{mode}: s/M · msg/s")
                    for mode in ("pinned", "unpinned")))


def weights(figures, drawn):
    parts = []
    for name, title in (("memory", "## Memory"), ("recovery", "## Recovery and purge"), ("disk", "## Disk")):
        groups = {}
        for case in section(name):
            figure = next(iter(case.asked), "seconds")
            groups.setdefault(figure, []).append(case)
        tables = [table(figures, cases, "unpinned", [figure], f"{title[3:]}: {SHOWN[figure][0]}") for figure, cases in groups.items()]
        parts.append(joined(title, image(drawn, name, title[3:]), *tables))
    if parts[2]:
        parts[2] += ("\n\nBytes written are those the disk itself counted while the case ran, after a sync before and behind it. "
                     "‡ marks rows before which others wrote to it at more than a twentieth of that rate. "
                     "The kernel's count per process is no use here: with large folios one small commit counts as up to 1 MiB.")
    return "\n\n".join(part for part in parts if part)


def churn(figures, drawn):
    return joined("## Things that come and go", *(
        table(figures, section("churn"), mode, ["per_second", "broker_cpu_seconds_per_million"], f"{mode}: per second · s/M")
        for mode in ("pinned", "unpinned")))


def cost(figures, drawn):
    names = ["broker_cpu_seconds_per_million", "per_second"]
    return joined("## One match among many bindings", image(drawn, "routing-cost", "CPU seconds per million messages by bindings"),
                  *(table(figures, section("cost"), mode, names, f"{mode}: s/M · msg/s") for mode in ("pinned", "unpinned")))


def flat(figures, drawn):
    names = ["broker_cpu_seconds_per_million", "cpu_of_fewest"]
    return joined("## What does not match costs nothing", *(
        table(figures, section("flat"), mode, names, f"{mode}: s/M · as a multiple of the first of its kind") for mode in ("pinned", "unpinned")))


def bindings(figures, drawn):
    return joined("## Bindings that come and go",
                  *(table(figures, section("declare"), mode, ["seconds", "per_second"], f"{mode}: s · bindings/s") for mode in ("pinned", "unpinned")),
                  *(table(figures, section("held"), mode, ["latency_max_ns", "latency_p99_ns"], f"{mode}: confirms one by one beside it: max ms · p99 µs")
                    for mode in ("pinned", "unpinned")),
                  table(figures, section("import"), "unpinned", ["ready_seconds"], "an import: s, the start of the broker with it"))


def lives(figures, drawn):
    return joined("## Messages that expire", table(figures, section("ttl"), "unpinned", ["per_second", "rate_of_plain", "broker_cpu_seconds_per_million"],
                                                  "stored: msg/s · as a part of the rate without · s/M"))


def late(figures, drawn):
    peers = "RabbitMQ has no such exchange without a plugin of its community, so there is no peer. Time runs from when a message is due until its consumer has read it."
    names = ["latency_p99_ns", "latency_p50_ns", "latency_p999_ns", "latency_max_ns", "broker_cpu_seconds_per_million"]
    rows = table(figures, section("late"), "unpinned", names, "lateness: p99 µs · p50 µs · p99.9 µs · max ms · s/M", compared=False)
    return joined("## Messages that wait until they are due", rows, rows and peers)


def written(figures, drawn):
    names = ["disk_written_bytes_per_published_byte", "disk_written_bytes_per_second"]
    noise = ("Bytes written are those the disk itself counted while the case ran. ‡ marks rows before which others wrote to it at more than a twentieth of that rate.")
    return joined("## Bytes written per copy", image(drawn, "fanout", "Bytes written per published byte by matching queues"),
                  table(figures, section("curve"), "unpinned", names[:1], "bytes written per published byte", compared=False),
                  table(figures, section("written"), "unpinned", names, "the worked example: bytes written per published byte · MB/s written", compared=False), noise)


def mqtt_flow(figures, drawn):
    names = ["broker_cpu_seconds_per_million", "per_second", "lost"]
    lost = "*Lost* is what of the whole run had not come two seconds after the last message."
    pinned, free = (table(figures, section("mqtt-flow"), mode, names, f"{mode}: s/M · deliveries/s · lost") for mode in ("pinned", "unpinned"))
    return joined("## Messages that flow", image(drawn, "mqtt-cpu", "CPU seconds per million deliveries"), pinned,
                  image(drawn, "mqtt-throughput", "Deliveries per second"), free, (pinned or free) and lost)


def mqtt_stored(figures, drawn):
    names = ["broker_cpu_seconds_per_million", "per_second", "lost"]
    return joined("## Sessions that are away", *(table(figures, section("mqtt-stored"), mode, names, f"{mode}: s/M · msg/s · lost") for mode in ("pinned", "unpinned")))


def mqtt_latency(figures, drawn):
    names = ["latency_p50_ns", "latency_p99_ns"]
    return joined("## Latency", image(drawn, "mqtt-latency", "Latency"),
                  *(table(figures, section("mqtt-latency"), mode, names, f"{mode}: p50 · p99 µs") for mode in ("pinned", "unpinned")))


def mqtt_weights(figures, drawn):
    each = ["broker_growth_bytes_per_each", "broker_resident_bytes", "lost"]
    read = ["per_second", "seconds", "lost", "broker_resident_bytes_before", "broker_resident_bytes_peak"]
    storm = ["lost", "latency_p50_ns", "latency_p99_ns", "latency_max_ns"]
    return joined("## Memory, retained messages and many clients",
                  table(figures, section("mqtt-memory"), "unpinned", each, "KiB of growth for each · MiB of the broker at the end · lost or refused"),
                  table(figures, section("mqtt-retained"), "unpinned", read, "msg/s · s · lost · MiB of the broker before · at its peak"),
                  table(figures, section("mqtt-storm"), "unpinned", storm, "refused · from connect to CONNACK: p50 · p99 µs · max ms", compared=False),
                  table(figures, section("mqtt-recovery"), "unpinned", ["ready_seconds"], "s until it is ready again", compared=False))


def lapin(figures, drawn):
    lines = []
    for mode in ("pinned", "unpinned"):
        peers = [peer for peer in (MENZIL, *PEERS) if figures.rows("lapin", mode, peer)]
        if not peers:
            continue
        lines += ["| " + " | ".join([mode, *peers]) + " |", "|" + "---|" * (1 + len(peers))]
        for key, (title, digits) in LAPIN.items():
            values = [number(figures.median("lapin", mode, peer, key), digits) for peer in peers]
            lines.append("| " + " | ".join([title, *values]) + " |")
        lines.append("")
    if not lines:
        return ""
    text = ("The same measures as the article on OxiDB's broker took, with the client library lapin instead of Go's: the client is most of "
            "the cost here. OxiDB had 0.02 ms from end to end.")
    return joined("## Through an ordinary client library", text, "\n".join(lines).strip())


LAPIN = {
    "pipelined_confirms_per_second": ("pipelined confirms, one connection, transient: msg/s", 0),
    "durable_1_per_second": ("durable confirms, 1 connection, pipelined: msg/s", 0),
    "durable_8_per_second": ("durable confirms, 8 connections, pipelined: msg/s", 0),
    "confirm_p50_us": ("durable confirm, one by one: p50 µs", 0),
    "end_to_end_per_second": ("end to end, auto-ack: msg/s", 0),
    "end_to_end_p50_us": ("end to end, one at a time: p50 µs", 0),
}


ON_DISK = ("disk", "written", "curve")


def foot(data, name):
    lines = [
        "## Measure a row yourself", "",
        f"`scripts/bench{'' if name == 'benchmarks' else f' --page {name}'} --cases '^KEY$'` measures a row beside {'mosquitto' if name == 'benchmarks-mqtt' else 'RabbitMQ'}, with `--only menzil` alone; `--rounds 1` is quick. "
        "Or load a broker of your own: [load.md](load.md).", "",
        f"| key | case | `menzil bench {'mqtt' if name == 'benchmarks-mqtt' else 'amqp'} --pid PID` and |", "|---|---|---|",
    ]
    for case in (case for case in CASES if case.page == name):
        words = f"`{case.words}`" if case.words else ""
        if case.kind == "import":
            words = "nothing: `menzil server --definitions FILE`, until it is ready"
        elif case.kind in ("recovery", "mqtt_recovery"):
            words += ", then SIGKILL and a start" if "--keep" in case.words else " `--keep`, then SIGKILL and a start"
        elif case.section in ON_DISK and words:
            words += " `--data-dir DIR`"
        settings = ", ".join(f"`{name}={value}`" for name, value in case.settings.items())
        lines.append(f"| {case.key} | {case.title} | {words}{f' on a server with {settings}' if settings else ''} |")
    return "\n".join(lines)
