"""Brokers under load: started, pinned, measured, and ended whatever happens."""

import contextlib
import json
import os
import pathlib
import pwd
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import time

from .cases import CLASSIC, MENZIL, MOSQUITTO, QUORUM

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "interop"))

import broker as brokers  # noqa: E402
import rawamqp  # noqa: E402

brokers.READY_SECONDS = 900
BROKER_CORE, GENERATOR_CORE = "0", "1"
RUN_SECONDS_MAX = 1200
DEBIANS_MOSQUITTO = pathlib.Path("/usr/sbin/mosquitto")


class Menzil(brokers.Menzil):
    """A server with settings of its own, and the time its start took."""

    def __init__(self, binary, settings=None, mqtt=False):
        super().__init__(binary)
        self.mqtt_port = brokers.free_port() if mqtt else 0
        if mqtt:
            self.settings = [*self.settings, "--mqtt", f"{self.host}:{self.mqtt_port}"]
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

    def __init__(self, definitions=None):
        super().__init__()
        self.ready_seconds = None
        self.definitions = definitions

    def fresh(self):
        self._prepare()
        (self.folder / "plugins").write_text("[].\n")
        if self.definitions:
            with open(self.folder / "rabbitmq.conf", "a") as settings:
                settings.write(f"load_definitions = {self.definitions}\n")
        self.start()

    def start(self):
        began = time.monotonic()
        super().start()
        self.ready_seconds = time.monotonic() - began

    def data_dir(self):
        return self.folder / "mnesia"

    def _admin_ready(self):
        return True


class Mosquitto(brokers.Broker):
    """Debian's, without its limit of a thousand queued messages; it stores sessions or nothing."""

    binary = DEBIANS_MOSQUITTO

    def __init__(self, stores):
        super().__init__()
        self.stores = stores

    def fresh(self):
        self.port = self.mqtt_port = brokers.free_port()
        stored = f"persistence true\npersistence_location {self.folder}/\n" if self.stores else "persistence false\n"
        (self.folder / "conf").write_text(
            f"listener {self.port} {self.host}\nallow_anonymous true\nmax_queued_messages 0\nlog_type error\nlog_type warning\n"
            f"user {pwd.getpwuid(os.getuid()).pw_name}\n{stored}")
        self.start()

    def start(self):
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen([self.binary, "-c", self.folder / "conf"], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            start_new_session=True)
        deadline = time.monotonic() + 30
        while not self.listens():
            if time.monotonic() > deadline or not self.alive():
                raise brokers.BrokerFailed(f"mosquitto is not ready:\n{self.log_tail()}")
            time.sleep(0.05)

    def listens(self):
        try:
            socket.create_connection((self.host, self.port), 1).close()
            return True
        except OSError:
            return False

    def data_dir(self):
        return self.folder


class CaseFailed(Exception):
    """A case has no figures; the others go on."""


class Runner:
    """Runs cases on brokers that it starts and ends. `disk` gets the raw sync rates it takes beside them."""

    def __init__(self, binary, seconds, folder, disk):
        self.binary = str(pathlib.Path(binary).resolve())
        self.seconds = seconds
        self.folder = folder
        self.disk = disk
        self.shared = {}
        # 10,000 connections are 10,000 files on both sides.
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    def close(self):
        with contextlib.ExitStack() as ends:
            for node in self.shared.values():
                ends.callback(node.close)
        self.shared = {}

    def run(self, case, peer, pinned):
        """The figures of one run; `CaseFailed` where there are none."""
        try:
            with self.node(case, peer) as node:
                pid = served_by(node.process.pid)
                pin(pid, BROKER_CORE if pinned else None)
                return getattr(self, f"run_{case.kind}")(case, peer, node, pid, pinned)
        except (brokers.BrokerFailed, OSError, subprocess.SubprocessError) as failure:
            raise CaseFailed(str(failure)) from failure

    @contextlib.contextmanager
    def node(self, case, peer):
        kind = CLASSIC if peer == QUORUM else peer
        mqtt = case.kind.startswith("mqtt")
        if case.fresh:
            node = self.make(kind, case.settings, self.definitions(case, peer), mqtt, case.stored)
            try:
                node.fresh()
                yield node
            finally:
                node.close()
            return
        key = (kind, case.stored and kind == MOSQUITTO)
        if key not in self.shared:
            self.shared[key] = self.make(kind, {}, None, mqtt, case.stored)
            self.shared[key].fresh()
        try:
            yield self.shared[key]
        except Exception:
            # Whatever a failed case left behind does not weigh on the next.
            self.shared.pop(key).close()
            raise

    def make(self, kind, settings, definitions, mqtt, stored):
        if kind == MENZIL:
            return Menzil(self.binary, settings | ({"definitions": definitions} if definitions else {}), mqtt)
        if kind == MOSQUITTO:
            return Mosquitto(stored)
        return RabbitMq(definitions)

    def definitions(self, case, peer):
        """A file with as many durable queues as the case wants, each bound once; `None` where it wants none."""
        count = case.objects if peer == MENZIL else case.peer_objects
        if not count:
            return None
        path = pathlib.Path(self.folder) / f"definitions-{count}.json"
        queues = [{"name": f"import.{one}", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}} for one in range(count)]
        exchange = {"name": "import", "vhost": "/", "type": "direct", "durable": True, "auto_delete": False, "internal": False, "arguments": {}}
        bindings = [{"source": "import", "vhost": "/", "destination": queue["name"], "destination_type": "queue", "routing_key": queue["name"], "arguments": {}}
                    for queue in queues]
        everyone = {"user": "guest", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}
        # RabbitMQ makes no default user where it has a file to load.
        guest = {"name": "guest", "password": "guest", "tags": "administrator"}
        path.write_text(json.dumps({"vhosts": [{"name": "/"}], "exchanges": [exchange], "queues": queues, "bindings": bindings}
                                   | ({} if peer == MENZIL else {"users": [guest], "permissions": [everyone]})))
        return str(path)

    def run_bench(self, case, peer, node, pid, pinned):
        beside = [self.beside(case, pinned)]
        words = case.words_for(peer) + ["--pid", str(pid)]
        if case.fresh:
            words += ["--data-dir", str(node.data_dir())]
        if case.timed:
            words += ["--seconds", str(self.seconds)]
        others = others_write(node.data_dir()) if case.section in ("disk", "written", "curve") else None
        rows = self.bench(["amqp", "--uri", uri(node)] + words, pinned)
        row = rows[case.row]
        if others and row.get("disk_written_bytes"):
            row["others_share"] = others * row["seconds"] / row["disk_written_bytes"]
        beside.append(self.beside(case, pinned))
        row |= {name: statistics.mean(one[name] for one in beside) for name in beside[0]}
        if "folder_beyond_live" in case.asked:
            row["folder_bytes"] = at_rest(node.data_dir())
            row["live_bytes"] = live_bytes(case)
            row["segment_bytes"] = int(case.settings["segment_bytes"])
        return row

    def run_mqtt(self, case, peer, node, pid, pinned):
        words = case.words_for(peer) + ["--pid", str(pid)]
        if case.timed:
            words += ["--seconds", str(self.seconds)]
        rows = self.bench(["mqtt", "--connect", f"{node.host}:{node.mqtt_port}"] + words, pinned)
        return rows[case.row]

    def run_mqtt_recovery(self, case, peer, node, pid, pinned):
        stored = self.run_mqtt(case, peer, node, pid, pinned)
        node.kill9()
        node.start()
        return {"ready_seconds": node.ready_seconds, "stored": stored["done"]}

    def run_idle(self, case, peer, node, pid, pinned):
        time.sleep(1)
        folder = folder_bytes(node.data_dir())
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

    def run_import(self, case, peer, node, pid, pinned):
        """The last binding is tried, so that a file that was not read shows."""
        count = case.objects if peer == MENZIL else case.peer_objects
        client = rawamqp.Conn.open(f"{node.host}:{node.port}")
        try:
            channel = client.channel()
            client.publish(channel, "import", f"import.{count - 1}", b"here")
            got = client.call(channel, "basic.get", queue=f"import.{count - 1}", no_ack=True)
        except (rawamqp.ChannelClosed, rawamqp.ConnectionClosed, rawamqp.Timeout) as failure:
            raise CaseFailed(f"the import is not there: {failure}") from failure
        finally:
            client.abort()
        if got.name != "basic.get-ok":
            raise CaseFailed("the last binding of the import is not there")
        return {"ready_seconds": node.ready_seconds}

    def run_lapin(self, case, peer, node, pid, pinned):
        command = prefix(pinned) + [str(self.lapin()), uri(node), str(self.seconds)] + ["quorum"] * (peer == QUORUM)
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

    def beside(self, case, pinned):
        """What the bare machine does, asked for before a run and behind it: it changes meanwhile."""
        return getattr(self, f"beside_{case.beside}")(pinned) if case.beside else {}

    def beside_sync(self, pinned):
        row = self.bench(["disk", "--dir", self.folder, "--seconds", "1", "--overwrite"], pinned)[0]
        self.disk.append(row)
        return {"raw_sync_per_second": row["per_second"], "raw_sync_p50_ns": row["latency_p50_ns"]}

    def beside_loopback(self, pinned):
        """The same messages through a bare echo, on the same cores."""
        cores = ["--pin", f"{BROKER_CORE},{GENERATOR_CORE}"] if pinned else []
        row = self.bench(["loopback", "--seconds", str(self.seconds)] + cores, pinned)[0]
        return {"echo_p50_ns": row["latency_p50_ns"], "echo_p99_ns": row["latency_p99_ns"]}

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


def folder_bytes(folder):
    total = 0
    for file in folder.rglob("*"):
        try:
            total += file.stat().st_size if file.is_file() else 0
        except FileNotFoundError:
            # It was renamed or removed meanwhile.
            pass
    return total


def at_rest(folder):
    """What the load leaves: the bytes of the folder once they stay the same for
    twelve seconds: spare segments are given back after about ten."""
    until = time.monotonic() + 60
    found, since = folder_bytes(folder), time.monotonic()
    while time.monotonic() < until and time.monotonic() - since < 12:
        time.sleep(0.2)
        now = folder_bytes(folder)
        if now != found:
            found, since = now, time.monotonic()
    return found


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


def needed(only, page):
    """What is missing on this machine, and how to get it."""
    missing = []
    if page == "benchmarks-mqtt":
        if only != "menzil" and not Mosquitto.binary.exists():
            missing.append("mosquitto: apt install mosquitto (the service itself need not run), or --only menzil")
    elif only != "menzil" and not (brokers.RabbitMq.binary.exists() and shutil.which("epmd")):
        missing.append("RabbitMQ: apt install rabbitmq-server (the service itself need not run), or --only menzil")
    if not shutil.which("taskset"):
        missing.append("taskset: apt install util-linux")
    return missing


def version_of(package):
    """Of Debian's package, if it is here."""
    shown = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], capture_output=True, text=True)
    return shown.stdout.strip() or "unknown"


def mosquitto_version():
    if Mosquitto.binary == DEBIANS_MOSQUITTO:
        return f"{version_of('mosquitto')} (Debian's package)"
    shown = subprocess.run([Mosquitto.binary, "-h"], capture_output=True, text=True)
    return f"{shown.stdout.splitlines()[0].split()[-1]} (not this system's package)"


__all__ = ["ROOT", "CaseFailed", "Mosquitto", "Runner", "mosquitto_version", "needed", "version_of"]
