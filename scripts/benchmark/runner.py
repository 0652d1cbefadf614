"""Brokers under load: started, pinned, measured, and ended whatever happens."""

import contextlib
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import time

from .cases import CLASSIC, MENZIL, QUORUM

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "interop"))

import broker as brokers  # noqa: E402

brokers.READY_SECONDS = 900
BROKER_CORE, GENERATOR_CORE = "0", "1"
RUN_SECONDS_MAX = 1200


class Menzil(brokers.Menzil):
    """A server with settings of its own, and the time its start took."""

    def __init__(self, binary, settings=None):
        super().__init__(binary)
        self.environment = {f"MENZIL_{name.upper()}": value for name, value in (settings or {}).items()}
        self.ready_seconds = None

    def start(self):
        before = {name: os.environ.get(name) for name in self.environment}
        os.environ.update(self.environment)
        began = time.monotonic()
        try:
            super().start()
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
        self.ready_seconds = time.monotonic() - began

    def data_dir(self):
        return self.data


class RabbitMq(brokers.RabbitMq):
    """Debian's node without plugins, whose statistics would cost it."""

    def __init__(self):
        super().__init__()
        self.ready_seconds = None

    def fresh(self):
        self._prepare()
        (self.folder / "plugins").write_text("[].\n")
        self.start()

    def start(self):
        began = time.monotonic()
        super().start()
        self.ready_seconds = time.monotonic() - began

    def data_dir(self):
        return self.folder / "mnesia"

    def _admin_ready(self):
        return True


class CaseFailed(Exception):
    """A case has no figures; the others go on."""


class Runner:
    """Runs cases and keeps what they said."""

    def __init__(self, arguments, folder):
        self.arguments = arguments
        self.folder = folder
        self.binary = str(pathlib.Path(arguments.menzil).resolve())
        self.shared = {}
        self.failures = []
        self.results = {}
        self.disk = []
        # 10,000 connections are 10,000 files on both sides.
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    def close(self):
        with contextlib.ExitStack() as ends:
            for node in self.shared.values():
                ends.callback(node.close)
        self.shared = {}

    def run(self, case, peer, pinned):
        mode = "pinned" if pinned else "unpinned"
        try:
            with self.node(case, peer) as node:
                pid = served_by(node.process.pid)
                pin(pid, BROKER_CORE if pinned else None)
                row = getattr(self, f"run_{case.kind}")(case, peer, node, pid, pinned)
        except (CaseFailed, brokers.BrokerFailed, OSError, subprocess.SubprocessError) as failure:
            self.failures.append(f"{case.key}, {mode}, {peer}: {failure}")
            return {"failed": str(failure)}
        self.results.setdefault(case.key, {}).setdefault(mode, {}).setdefault(peer, []).append(row)
        return row

    @contextlib.contextmanager
    def node(self, case, peer):
        kind = MENZIL if peer == MENZIL else CLASSIC
        if case.fresh:
            node = self.make(kind, case.settings)
            try:
                node.fresh()
                yield node
            finally:
                node.close()
            return
        if kind not in self.shared:
            self.shared[kind] = self.make(kind, {})
            self.shared[kind].fresh()
        try:
            yield self.shared[kind]
        except Exception:
            # Whatever a failed case left behind does not weigh on the next.
            self.shared.pop(kind).close()
            raise

    def make(self, kind, settings):
        return Menzil(self.binary, settings) if kind == MENZIL else RabbitMq()

    def run_bench(self, case, peer, node, pid, pinned):
        raw = self.raw_sync(pinned) if "of_raw_sync" in case.asked else None
        words = case.words_for(peer) + ["--pid", str(pid)]
        if case.fresh:
            words += ["--data-dir", str(node.data_dir())]
        if case.timed:
            words += ["--seconds", str(self.arguments.seconds)]
        others = others_write(node.data_dir()) if case.section == "disk" else None
        rows = self.bench(["amqp", "--uri", uri(node)] + words, pinned)
        row = rows[case.row]
        if others and row.get("disk_written_bytes"):
            row["others_share"] = others * row["seconds"] / row["disk_written_bytes"]
        if raw:
            row["raw_sync_per_second"] = raw["per_second"]
        if "folder_beyond_live" in case.asked:
            row["live_bytes"] = live_bytes(case)
            row["segment_bytes"] = int(case.settings["segment_bytes"])
        return row

    def run_idle(self, case, peer, node, pid, pinned):
        time.sleep(1)
        folder = sum(file.stat().st_size for file in node.data_dir().rglob("*") if file.is_file())
        return {"broker_resident_bytes": resident(pid), "folder_bytes": folder, "segment_bytes": 64 << 20}

    def run_recovery(self, case, peer, node, pid, pinned):
        words = case.words_for(peer) + ["--name", "bench.recovery", "--keep"]
        stored = self.bench(["amqp", "--uri", uri(node)] + words, False)[0]
        node.kill9()
        node.start()
        ready = node.ready_seconds
        if "backlog" in case.words:
            count = str(stored["confirmed"])
            self.bench(["amqp", "--uri", uri(node), "--scenario", "drain", "--ack", "auto", "--name", "bench.recovery", "--existing",
                        "--messages", count] + case.words_for(peer)[4:], False)
        return {"ready_seconds": ready, "stored": stored["done"]}

    def run_lapin(self, case, peer, node, pid, pinned):
        command = prefix(pinned) + [str(self.lapin()), uri(node), str(self.arguments.seconds)] + ["quorum"] * (peer == QUORUM)
        done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_SECONDS_MAX)
        if done.returncode != 0:
            raise CaseFailed(f"{' '.join(command)}: {done.stderr.strip()}")
        return json.loads(done.stdout)

    def lapin(self):
        target = ROOT / "target" / "lapin"
        command = ["cargo", "build", "--release", "--quiet", "--locked", "--target-dir", str(target),
                   "--manifest-path", str(ROOT / "crates" / "bench" / "lapin" / "Cargo.toml")]
        if subprocess.run(command).returncode != 0:
            raise CaseFailed("the client of lapin does not build")
        return target / "release" / "menzil-bench-lapin"

    def raw_sync(self, pinned):
        row = self.bench(["disk", "--dir", self.folder, "--seconds", "1"], pinned)[0]
        self.disk.append(row)
        return row

    def bench(self, words, pinned):
        command = prefix(pinned) + [self.binary, "bench", words[0], "--json", "--quiet"] + words[1:]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            raise CaseFailed(f"{' '.join(command)}: not done after {RUN_SECONDS_MAX} s") from None
        if done.returncode != 0:
            raise CaseFailed(f"{' '.join(command)}: {done.stderr.strip()}")
        return json.loads(done.stdout)


def uri(node):
    return f"amqp://guest:guest@127.0.0.1:{node.port}/%2f"


def prefix(pinned):
    return ["taskset", "-c", GENERATOR_CORE] if pinned else []


def pin(pid, core):
    """Every thread of the process, and those it starts later; `None` lets it run anywhere."""
    cpus = core or f"0-{os.cpu_count() - 1}"
    subprocess.run(["taskset", "-a", "-c", "-p", cpus, str(pid)], check=True, stdout=subprocess.DEVNULL)


def served_by(pid):
    """The process that does the work, under the shells that started it: the largest one."""
    pids = [pid]
    for parent in pids:
        children = pathlib.Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        pids += [int(child) for child in children]
    return max(pids, key=resident)


def resident(pid):
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


def others_write(folder):
    """Bytes per second that go to the folder's disk while nobody loads the broker."""
    device = folder.stat().st_dev
    stat = pathlib.Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat")
    if not stat.exists():
        return None
    before = int(stat.read_text().split()[6])
    time.sleep(1)
    return (int(stat.read_text().split()[6]) - before) * 512


def live_bytes(case):
    """Bodies that must still be there when the run ends."""
    words = case.words.split()
    size = 2048 if words[words.index("--size") + 1] == "2k" else 100
    messages = int(words[words.index("--messages") + 1].replace("k", "000"))
    return size * (messages if "--dead-queues" in words else 1)


def needed(only):
    """What is missing on this machine, and how to get it."""
    missing = []
    if only != "menzil" and not (brokers.RabbitMq.binary.exists() and shutil.which("epmd")):
        missing.append("RabbitMQ: apt install rabbitmq-server (the service itself need not run), or --only menzil")
    if not shutil.which("taskset"):
        missing.append("taskset: apt install util-linux")
    return missing


def rabbit_version():
    shown = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", "rabbitmq-server"], capture_output=True, text=True)
    return shown.stdout.strip() or "unknown"


__all__ = ["CLASSIC", "MENZIL", "QUORUM", "ROOT", "Runner", "needed", "rabbit_version"]
