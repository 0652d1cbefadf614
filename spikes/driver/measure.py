#!/usr/bin/env python3
"""Measures every driver, interleaved, and prints medians as a Markdown table.

usage: measure.py BENCH [--rounds 3] [--seconds 3] [--only CASE,...] [--raw FILE]

Pinned: server on core 0, generator on core 1. Free: neither is pinned.
Every run starts a server of its own on a port that the kernel picks.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

SERVER = pathlib.Path(__file__).parent / "target/release/driver-spike"
DRIVERS = {
    "a: epoll thread": ["epoll"],
    "a: tokio current_thread": ["mutex", "--workers", "0"],
    "b: mutex, same task writes": ["mutex"],
    "c: mutex, wake per batch": ["mutex-wake"],
    "d: owner, consumer task writes": ["owner"],
    "d: owner writes": ["owner-writes"],
}
ONE = ["--scenario", "transient", "--connections", "1", "--consumers", "1"]
FOUR = ["--scenario", "transient", "--connections", "4", "--consumers", "4"]
CASES = {
    "pinned-100": (True, ONE + ["--size", "100"]),
    "pinned-1024": (True, ONE + ["--size", "1024"]),
    "free-100": (False, ONE + ["--size", "100"]),
    "free-1024": (False, ONE + ["--size", "1024"]),
    "free-4+4-100": (False, FOUR + ["--size", "100"]),
    "rate-20k-pinned": (True, ONE + ["--size", "100", "--rate", "20000"]),
    "latency-pinned": (True, ["--scenario", "latency", "--rate", "1000"]),
    "latency-free": (False, ["--scenario", "latency", "--rate", "1000"]),
}


def run(bench, driver, case, seconds):
    pinned, words = CASES[case]
    pin = lambda core: ["taskset", "-c", str(core)] if pinned else []
    server = subprocess.Popen(pin(0) + [SERVER, *DRIVERS[driver]], stdout=subprocess.PIPE, text=True)
    try:
        address = server.stdout.readline().split()[2]
        command = pin(1) + [bench, "--uri", f"amqp://{address}", "--pid", str(server.pid), "--json"]
        command += ["--seconds", str(seconds), *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60 + seconds)
        if done.returncode != 0:
            raise RuntimeError(f"{driver} {case}: {done.stderr[-500:]}")
        return json.loads(done.stdout)[0]
    finally:
        server.kill()
        server.wait()


def cell(rows, case):
    middle = lambda name: statistics.median(row[name] for row in rows)
    if case.startswith("latency"):
        return f"{middle('latency_p50_ns') / 1e3:.0f} / {middle('latency_p99_ns') / 1e3:.0f} µs"
    costs = [row["broker_cpu_seconds_per_million"] for row in rows]
    void = "".join("*" for row in rows if row["void"])
    return (
        f"{statistics.median(costs):.3f} ({min(costs):.3f}–{max(costs):.3f}); "
        f"{middle('messages_per_second') / 1e6:.2g} M{void}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bench")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--only", default=",".join(CASES))
    parser.add_argument("--raw", type=pathlib.Path)
    options = parser.parse_args()
    cases = options.only.split(",")
    rows = {(driver, case): [] for driver in DRIVERS for case in cases}
    for round_number in range(options.rounds):
        for case in cases:
            for driver in DRIVERS:
                row = run(options.bench, driver, case, options.seconds)
                rows[driver, case].append(row)
                print(round_number, case, driver, cell([row], case), file=sys.stderr, flush=True)
    if options.raw:
        options.raw.write_text(json.dumps([[*key, row] for key, all in rows.items() for row in all]))
    print("| driver | " + " | ".join(cases) + " |")
    print("|---" * (len(cases) + 1) + "|")
    for driver in DRIVERS:
        print(f"| {driver} | " + " | ".join(cell(rows[driver, case], case) for case in cases) + " |")
    print("\ns/M (least–most); msg/s; * per round whose generator had no core to spare")


if __name__ == "__main__":
    main()
