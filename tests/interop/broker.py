"""The brokers that `run` drives: Menzil, a RabbitMQ node of our own, or one that already listens.

Each has `fresh()` (an empty broker, started if need be), `kill9()`, `start()` (again, on the same
data), `stop()`, and `host`, `port`. Everything is started as a child in its own process group and is
ended by that group's id; everything it wrote lies in one temporary folder that `close()` removes.
"""

import base64
import http.client
import json
import os
import pathlib
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.parse

READY_SECONDS = 120
RETRY_SECONDS = 15  # a process that ends at once is started again for that long: its port may still be taken


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def speaks_amqp(host, port, timeout=5):
    """True once connection.start comes back for a protocol header."""
    try:
        with socket.create_connection((host, port), timeout) as sock:
            sock.settimeout(timeout)
            sock.sendall(b"AMQP\x00\x00\x09\x01")
            return sock.recv(1) == b"\x01"
    except OSError:
        return False


def end_group(process, how=signal.SIGTERM, patience=30):
    """Ends a child that leads its own process group; the hard way if it takes too long."""
    for sign in (how, signal.SIGKILL):
        try:
            os.killpg(process.pid, sign)
        except ProcessLookupError:
            pass
        try:
            process.wait(patience)
            break
        except subprocess.TimeoutExpired:
            continue


class BrokerFailed(Exception):
    """The broker did not come up; the message carries the end of its log."""


class Broker:
    name = "unknown"
    can_kill = True
    user, password = "guest", "guest"

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="menzil-interop-"))
        self.process = None
        self.host, self.port = "127.0.0.1", 0

    @property
    def uri(self):
        return f"amqp://{self.user}:{self.password}@{self.host}:{self.port}/%2F"

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def kill9(self):
        self._end(signal.SIGKILL)

    def stop(self):
        self._end(signal.SIGTERM)

    def _end(self, how):
        if self.process:
            end_group(self.process, how)
            if self.process.stdout:
                self.process.stdout.close()
            self.process = None

    def close(self):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def log_tail(self, lines=30):
        log = self.folder / "log"
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.exists() else ""


class Menzil(Broker):
    name = "menzil"

    def __init__(self, binary, settings=()):
        self.binary = pathlib.Path(binary).resolve()
        self.settings = [argument for setting in settings for argument in ("--set", setting)]
        if not self.binary.exists():
            raise BrokerFailed(f"no binary at {self.binary}; build it or name one with --binary")
        super().__init__()
        self.data = None
        self.rounds = 0
        self.ports = {"amqp": 0, "mqtt": 0, "mqtt-ws": 0}

    def fresh(self):
        self.stop()
        if self.data:
            shutil.rmtree(self.data, ignore_errors=True)
        self.rounds += 1
        self.data = self.folder / f"data-{self.rounds}"
        self.ports = dict.fromkeys(self.ports, 0)
        self.start()

    @property
    def mqtt_port(self):
        return self.ports["mqtt"]

    def start(self):
        """Starts on the current data folder; on the same ports as before, if there were some."""
        listeners = [word for name, port in self.ports.items() for word in (f"--{name}", f"{self.host}:{port}")]
        command = [self.binary, "server", "--data-dir", self.data, *listeners, *self.settings]
        began = time.monotonic()
        while True:
            with open(self.folder / "log", "ab") as log:
                self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                                                start_new_session=True)
            line = self._ready_line(began + READY_SECONDS)
            if line is not None:
                break
            if self.alive() or time.monotonic() > began + RETRY_SECONDS:
                self.kill9()
                raise BrokerFailed(f"menzil is not ready:\n{self.log_tail()}")
            time.sleep(0.5)
        words = dict(word.split("=", 1) for word in line.split() if "=" in word)
        self.ports = {name: int(words[name].rsplit(":", 1)[1]) for name in self.ports}
        self.port = self.ports["amqp"]

    def _ready_line(self, deadline):
        stdout, line = self.process.stdout, b""
        while time.monotonic() < deadline:
            if not select.select([stdout], [], [], 1)[0]:
                continue
            byte = os.read(stdout.fileno(), 1)
            if not byte:
                self.process.wait()
                return None
            if byte != b"\n":
                line += byte
            elif line.startswith(b"menzil ready "):
                return line.decode()
            else:
                line = b""
        return None


class RabbitMq(Broker):
    """A RabbitMQ node with its own name, ports, name server, cookie and folders."""

    name = "rabbitmq"
    binary = pathlib.Path("/usr/lib/rabbitmq/bin/rabbitmq-server")

    def __init__(self):
        super().__init__()
        self.names = None
        self.admin_port = self.dist_port = self.names_port = 0

    def fresh(self):
        """An empty virtual host `/`; the node itself is kept, since it starts slowly."""
        if not self.alive():
            self._prepare()
            self.start()
        self._admin("DELETE", "/api/vhosts/%2F", okay=(204, 404))
        self._admin("PUT", "/api/vhosts/%2F")
        self._admin("PUT", "/api/permissions/%2F/guest", {"configure": ".*", "write": ".*", "read": ".*"})

    def _prepare(self):
        if self.port:
            return
        self.port, self.admin_port, self.dist_port, self.names_port = (free_port() for _ in range(4))
        (self.folder / "plugins").write_text("[rabbitmq_management].\n")
        (self.folder / "rabbitmq.conf").write_text(
            f"management.tcp.ip = 127.0.0.1\nmanagement.tcp.port = {self.admin_port}\n"
            "log.file.level = info\nvm_memory_high_watermark.relative = 0.6\ndisk_free_limit.absolute = 50MB\n")
        self.environment = dict(
            os.environ, HOME=str(self.folder), ERL_EPMD_ADDRESS="127.0.0.1", ERL_EPMD_PORT=str(self.names_port),
            RABBITMQ_NODENAME=f"interop-{os.getpid()}@localhost", RABBITMQ_NODE_IP_ADDRESS="127.0.0.1",
            RABBITMQ_NODE_PORT=str(self.port), RABBITMQ_DIST_PORT=str(self.dist_port),
            RABBITMQ_MNESIA_BASE=str(self.folder / "mnesia"), RABBITMQ_LOG_BASE=str(self.folder / "logs"),
            RABBITMQ_CONFIG_FILE=str(self.folder / "rabbitmq.conf"), RABBITMQ_CONF_ENV_FILE=str(self.folder / "none"),
            RABBITMQ_ENABLED_PLUGINS_FILE=str(self.folder / "plugins"),
            RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="+sbwt none +sbwtdcpu none +sbwtdio none "
            "-kernel inet_dist_use_interface {127,0,0,1}")
        self.names = subprocess.Popen(["epmd", "-port", str(self.names_port), "-address", "127.0.0.1"],
                                      stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                      env=self.environment, start_new_session=True)

    def start(self):
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen([self.binary], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env=self.environment, start_new_session=True)
        deadline = time.monotonic() + READY_SECONDS
        while not (speaks_amqp(self.host, self.port) and self._admin_ready()):
            if time.monotonic() > deadline or not self.alive():
                raise BrokerFailed(f"rabbitmq is not ready:\n{self.log_tail()}")
            time.sleep(0.2)

    def close(self):
        self.stop()
        if self.names:
            end_group(self.names)
        super().close()

    def _admin_ready(self):
        try:
            self._admin("GET", "/api/overview")
            return True
        except (OSError, http.client.HTTPException, BrokerFailed):
            return False

    def _admin(self, verb, path, body=None, okay=(200, 201, 204)):
        login = base64.b64encode(b"guest:guest").decode()
        connection = http.client.HTTPConnection(self.host, self.admin_port, timeout=60)
        try:
            connection.request(verb, path, json.dumps(body) if body else None,
                               {"authorization": f"Basic {login}", "content-type": "application/json"})
            answer = connection.getresponse()
            said = answer.read()
            if answer.status not in okay:
                raise BrokerFailed(f"{verb} {path}: {answer.status} {said[:200]!r}")
        finally:
            connection.close()


class Listening(Broker):
    """Somebody else's broker: not ours to empty, kill or start."""

    name = "uri"
    can_kill = False

    def __init__(self, uri):
        super().__init__()
        parts = urllib.parse.urlsplit(uri)
        self.host, self.port = parts.hostname, parts.port or 5672
        self.user, self.password = parts.username or "guest", parts.password or "guest"

    def fresh(self):
        if not speaks_amqp(self.host, self.port):
            raise BrokerFailed(f"nothing speaks AMQP at {self.host}:{self.port}")

    def start(self):
        raise BrokerFailed("a broker named by --uri is not ours to start")
