"""What is run in which order, how long it takes, and what there is no time for.

Round by round; within a round the cases that are compared with each other (`group`) stand next to
each other on each broker, and every case runs on every broker before the next one, so that what the
machine does meanwhile falls on all of them.
"""

import dataclasses
import re
import statistics
import time

from .cases import CASES, CLASSIC, MENZIL, MOSQUITTO, QUORUM

START_SECONDS = {MENZIL: 1, CLASSIC: 7, QUORUM: 7, MOSQUITTO: 1}
CLOSE_SECONDS = 20
# A RabbitMQ node and the client of lapin are made once.
ONCE_SECONDS = 30


@dataclasses.dataclass(frozen=True)
class Step:
    number: int
    case: object
    peer: str
    mode: str

    @property
    def pinned(self):
        return self.mode == "pinned"

    def __str__(self):
        return f"{self.number + 1} {self.case.key} {self.mode} {self.peer}"


def steps(asked):
    """`asked` has `cases`, `page`, `rounds`, `only` and `pin`, as the command line has them."""
    chosen = [case for case in CASES if case.page == asked.get("page", "benchmarks") and re.search(asked["cases"], case.key)]
    for number in range(asked["rounds"]):
        for group in grouped(chosen):
            for mode in modes(group[0], asked["pin"]):
                for peer in peers(group, asked["only"]):
                    for case in group:
                        if peer == MENZIL or (peer in case.peers and number < (case.peer_rounds or asked["rounds"])):
                            yield Step(number, case, peer, mode)


def grouped(cases):
    groups = []
    for case in cases:
        if groups and case.group and groups[-1][0].group == case.group:
            groups[-1].append(case)
        else:
            groups.append([case])
    return groups


def modes(case, pin):
    """What is weighed weighs the same on any core."""
    if case.fresh:
        return ("unpinned",)
    return {"both": ("pinned", "unpinned"), "yes": ("pinned",), "no": ("unpinned",)}[pin]


def peers(group, only):
    ours = () if only in ("rabbitmq", "mosquitto") else (MENZIL,)
    theirs = [peer for peer in (CLASSIC, QUORUM, MOSQUITTO) if any(peer in case.peers for case in group)]
    return (*ours, *(() if only == "menzil" else theirs))


class Clock:
    """How long steps take: as the earlier ones of the same kind took, or as the cases say."""

    def __init__(self, seconds, minutes):
        self.seconds = seconds
        self.deadline = time.monotonic() + minutes * 60 - CLOSE_SECONDS
        self.took = {}

    def note(self, case, peer, took):
        self.took.setdefault((case.key, peer), []).append(took)

    def estimate(self, case, peer):
        took = self.took.get((case.key, peer))
        if took:
            return statistics.mean(took)
        fixed = case.takes.get(peer, 1)
        fixed += START_SECONDS[peer] if case.fresh else 0
        return fixed + self.seconds * case.timed_parts

    def allows(self, case, peer):
        return time.monotonic() + self.estimate(case, peer) <= self.deadline

    def whole(self, plan):
        return ONCE_SECONDS + sum(self.estimate(step.case, step.peer) for step in plan)


def table(plan, clock):
    """The plan for people: a line for each case, with rounds and seconds for each broker."""
    lines = {}
    for step in plan:
        line = lines.setdefault(step.case.key, {"title": step.case.title, "modes": [], "runs": {}, "seconds": 0})
        if step.mode not in line["modes"]:
            line["modes"].append(step.mode)
        line["runs"][step.peer] = line["runs"].get(step.peer, 0) + 1
        line["seconds"] += clock.estimate(step.case, step.peer)
    short = {MENZIL: "M", CLASSIC: "C", QUORUM: "Q", MOSQUITTO: "m"}
    text = [f"{'key':<20} {'runs of each broker':<20} {'s':>5}  case"]
    for key, line in lines.items():
        runs = " ".join(f"{short[peer]}{count}" for peer, count in line["runs"].items())
        text.append(f"{key:<20} {runs:<20} {line['seconds']:>5.0f}  {line['title']}")
    total = clock.whole(plan) / 60 if plan else 0
    text.append(f"\nM Menzil, C RabbitMQ classic, Q RabbitMQ quorum, m mosquitto; pinned and unpinned runs together.\n"
                f"{len(plan)} runs, about {total:.0f} minutes on a quiet machine.")
    return "\n".join(text)
