"""The suites that `run` knows: other people's tests, our cases, our scripts, and how each is started."""

import dataclasses
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

import broker as brokers
import install

HERE = pathlib.Path(__file__).resolve().parent
# conn_refused is left out: it asks no broker anything.
LAPIN = ["connection", "publisher_confirms", "runtime_isolation", "smol", "tokio"]
SKIPPED = 77  # a script's exit code for "does not apply here"; its last line says why


@dataclasses.dataclass
class Result:
    suite: str
    test: str
    outcome: str  # passed, failed or skipped
    seconds: float
    detail: str = ""


class Suite:
    """One fresh broker, one process, some results."""

    def __init__(self, name, seconds):
        self.name, self.seconds = name, seconds

    def prepare(self):
        """Installs what is needed; raises install.Missing."""

    def run(self, broker, server, pattern):
        raise NotImplementedError

    def environment(self, broker, server):
        environment = dict(os.environ, AMQP_URL=broker.uri, AMQP_ADDR=broker.uri, AMQP_HOST=broker.host,
                           AMQP_PORT=str(broker.port), AMQP_USER=broker.user, AMQP_PASSWORD=broker.password,
                           RABBITMQ_HOST=broker.host, RABBITMQ_5672_TCP=str(broker.port), INTEROP_BROKER=broker.name,
                           PYTHONPATH=str(HERE), PYTHONDONTWRITEBYTECODE="1", PYTHONUNBUFFERED="1")
        environment.pop("MENZIL_CONTROL", None)
        if broker.can_kill:
            environment["MENZIL_CONTROL"] = str(server.path)
        if broker.name == "menzil":
            environment["INTEROP_BINARY"] = str(broker.binary)
            environment["INTEROP_DATA"] = str(broker.data)
            environment["MQTT_PORT"] = str(broker.ports["mqtt"])
            environment["MQTT_WS_PORT"] = str(broker.ports["mqtt-ws"])
        return environment

    def execute(self, command, environment, folder):
        """(exit code, output); None as the code when the time was up. Leaves no process behind."""
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=output,
                                       stderr=subprocess.STDOUT, cwd=folder, env=environment, start_new_session=True)
            try:
                code = process.wait(self.seconds)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                brokers.end_group(process, signal.SIGKILL, 10)
            output.seek(0)
            return code, output.read().decode(errors="replace")


class PytestSuite(Suite):
    """Tests under pytest; the checked-in list says which run."""

    def __init__(self, name, seconds, arguments, requirement=None, plugins=(), listed=True, needs=()):
        super().__init__(name, seconds)
        self.needs = needs
        self.arguments, self.requirement, self.plugins, self.listed = arguments, requirement, plugins, listed

    def prepare(self):
        self.python = install.python()
        if self.needs:
            install.debian(*self.needs)
        self.folder = install.sdist(install.pinned(self.requirement)) if self.requirement else HERE

    def run(self, broker, server, pattern):
        with tempfile.TemporaryDirectory(prefix="menzil-interop-suite-") as scratch:
            report = pathlib.Path(scratch) / "report"
            environment = self.environment(broker, server)
            environment.update(INTEROP_REPORT=str(report), INTEROP_PATTERN=pattern,
                               PYTHONPATH=f"{HERE / 'suites'}:{HERE}")
            if self.listed:
                environment["INTEROP_LIST"] = str(HERE / "suites" / f"{self.name}.list")
            command = [self.python, "-m", "pytest", "-q", "-p", "interop_report", "-p", "no:cacheprovider",
                       "--timeout=120", "--color=no"]
            for plugin in self.plugins:
                command += ["-p", plugin]
            code, output = self.execute(command + self.arguments, environment, self.folder)
            results = [Result(self.name, **json.loads(line)) for line in report.read_text().splitlines()] \
                if report.exists() else []
        if code is None:
            results.append(Result(self.name, "ends in time", "failed", self.seconds, output))
        elif code not in (0, 1, 5) or (not results and not pattern):
            results.append(Result(self.name, "pytest runs", "failed", 0.0, output))
        return results


class ScriptSuite(Suite):
    """One program of ours: exit 0 passed, 77 skipped, anything else failed."""

    def __init__(self, script, command, seconds, needs=()):
        super().__init__(script.stem, seconds)
        self.script, self.command, self.needs = script, command, needs

    def prepare(self):
        self.variables = {}
        for need in self.needs:
            if need == "python":
                self.command = [install.python()]
            elif need == "npm":
                self.variables["NODE_PATH"] = str(install.npm() / "node_modules")
            else:
                install.debian(*need)

    def run(self, broker, server, pattern):
        if pattern and pattern not in self.name:
            return []
        began = time.monotonic()
        environment = self.environment(broker, server) | self.variables
        code, output = self.execute([*self.command, self.script], environment, self.script.parent)
        outcome = {0: "passed", SKIPPED: "skipped"}.get(code, "failed")
        lines = output.strip().splitlines()
        detail = output if outcome == "failed" else (lines[-1] if lines and outcome == "skipped" else "")
        if code is None:
            detail += f"\nnot done after {self.seconds} s"
        return [Result("scripts", self.script.name, outcome, time.monotonic() - began, detail)]


class CargoSuite(Suite):
    """lapin's own live tests, from the sources that cargo keeps."""

    def __init__(self, name, version, tests, seconds):
        super().__init__(name, seconds)
        self.version, self.tests = version, tests

    def prepare(self):
        if not shutil.which("cargo"):
            raise install.Missing("cargo is not installed")
        self.folder = install.crate(self.name, self.version)

    def run(self, broker, server, pattern):
        environment = self.environment(broker, server) | {"CARGO_TARGET_DIR": str(install.STORE / "cargo-target")}
        results = []
        for test in self.tests:
            if pattern not in test:
                continue
            began = time.monotonic()
            code, output = self.execute(["cargo", "test", "-q", "--features", "tokio,smol", "--test", test], environment,
                                        self.folder)
            results.append(Result(self.name, test, "passed" if code == 0 else "failed", time.monotonic() - began,
                                  "" if code == 0 else output))
        return results


# What single cases need of the machine.
NEEDS = {"test_failed_sync": (("strace", "strace"),)}


def all_suites(with_rust=False, whole=False):
    """In the order in which they run: ours first, since they say most about what is wrong."""
    scripts = HERE / "scripts"
    found = [PytestSuite(f"cases-{path.stem.removeprefix('test_')}", 300, [f"cases/{path.name}"], listed=False,
                         needs=NEEDS.get(path.stem, ()))
             for path in sorted((HERE / "cases").glob("test_*.py"))]
    found += [ScriptSuite(path, [], 180, ["python"]) for path in sorted(scripts.glob("demo_*.py"))]
    php = (("php", "php-cli"), ("/usr/share/php/PhpAmqpLib/autoload.php", "php-amqplib"))
    bunny = (("ruby", "ruby"), ("/usr/lib/ruby/vendor_ruby/bunny.rb", "ruby-bunny"))
    found += [
        ScriptSuite(scripts / "celery_smoke.py", [], 400, ["python"]),
        ScriptSuite(scripts / "node" / "amqplib_smoke.js", ["node"], 120, ["npm"]),
        ScriptSuite(scripts / "php_amqplib_smoke.php", ["php"], 120, [php]),
        ScriptSuite(scripts / "bunny_smoke.rb", ["ruby"], 120, [bunny]),
        ScriptSuite(scripts / "amqp_tools_smoke.sh", ["bash"], 120, [(("amqp-publish", "amqp-tools"),)]),
        PytestSuite("py-amqp", 180, ["t/integration"], "amqp"),
        PytestSuite("kombu", 300, ["t/integration/test_py_amqp.py"], "kombu"),
        PytestSuite("aiormq", 300, ["tests"], "aiormq"),
        PytestSuite("aio-pika", 400, ["tests"], "aio-pika", plugins=["interop_aio_pika"]),
    ]
    for suite in found:
        suite.listed = getattr(suite, "listed", False) and not whole
    if with_rust:
        found.append(CargoSuite("lapin", "4.7.4", LAPIN, 1800))
    return found
