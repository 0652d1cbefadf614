"""A pytest plugin: runs what the list says, and writes one JSON line per test for `run`.

The list (INTEROP_LIST) has one test id per line; an id without its `[parameters]` stands for all of
them. `- id  # reason` leaves a test out. The longest matching entry wins. A test that the list does not
know fails, and so does an entry that no test answers to: the list stays complete by itself.
"""

import json
import os

import pytest

RANK = {"passed": 0, "skipped": 1, "failed": 2}


def read_list(path):
    """{id: reason, or None if it runs}"""
    entries = {}
    with open(path) as lines:
        for line in lines:
            entry, _, reason = line.partition("#")
            entry = entry.strip()
            if entry.startswith("- "):
                assert reason.strip(), f"{entry}: no reason given"
                entries[entry[2:].strip()] = reason.strip()
            elif entry:
                entries[entry] = None
    return entries


def entry_for(nodeid, entries):
    """The entry that speaks for this test: itself, it without parameters, its class or its file."""
    candidate = nodeid
    if candidate in entries:
        return candidate
    candidate = candidate.partition("[")[0]
    while candidate:
        if candidate in entries:
            return candidate
        candidate = candidate.rpartition("::")[0]
    return None


class Report:
    def __init__(self):
        self.file = open(os.environ["INTEROP_REPORT"], "a")
        self.found = {}
        self.unknown = []

    def write(self, test, outcome, seconds, detail=""):
        self.file.write(json.dumps({"test": test, "outcome": outcome, "seconds": seconds, "detail": detail}) + "\n")
        self.file.flush()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items):
        path, pattern = os.environ.get("INTEROP_LIST"), os.environ.get("INTEROP_PATTERN", "")
        if path:
            entries = read_list(path) if os.path.exists(path) else {}
            used = set()
            kept = []
            for item in items:
                entry = entry_for(item.nodeid, entries)
                used.add(entry)
                if entry is None:
                    self.write(item.nodeid, "failed", 0.0, "the list does not know this test")
                elif entries[entry] is None:
                    kept.append(item)
            for entry in entries.keys() - used:
                self.write(entry, "failed", 0.0, "the list names a test that does not exist")
            items[:] = kept
        items[:] = [item for item in items if pattern in item.nodeid]

    def pytest_runtest_logreport(self, report):
        if report.outcome == "rerun":
            return
        seconds, outcome, detail = self.found.get(report.nodeid, (0.0, "passed", ""))
        seconds += report.duration
        if RANK[report.outcome] > RANK[outcome]:
            outcome = report.outcome
            detail = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            if outcome == "failed":
                detail += "".join(f"\n--- {name}\n{text[-3000:]}" for name, text in report.sections)
        self.found[report.nodeid] = seconds, outcome, detail
        if report.when == "teardown":
            self.write(report.nodeid, outcome, seconds, detail)

    def pytest_collectreport(self, report):
        if report.failed:
            self.write(report.nodeid, "failed", 0.0, str(report.longrepr))


def pytest_configure(config):
    config.pluginmanager.register(Report(), "interop-report-lines")
