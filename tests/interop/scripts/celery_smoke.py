"""Celery with a real worker: tasks, failures, retries, ETA, remote control, late acks, groups and a chord.

Two rounds: replies over AMQP (`rpc://`), then a file backend, since chords need one that keeps results.
"""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from common import until

HERE = pathlib.Path(__file__).resolve().parent
PATIENCE = 90


class Worker:
    """A worker process with its pool of children, ended by their ids."""

    def __init__(self, folder):
        self.log = pathlib.Path(folder) / "worker.log"
        with open(self.log, "ab") as log:
            self.begin = log.tell()
            self.process = subprocess.Popen(
                [sys.executable, "-m", "celery", "-A", "celery_app", "worker", "--pool=prefork", "--concurrency=2",
                 "--loglevel=INFO", "--without-gossip", "--without-mingle"],
                cwd=HERE, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def ready(self):
        said = self.log.read_bytes()[self.begin:].decode(errors="replace")
        assert self.process.poll() is None, said
        return " ready." in said

    def kill9(self):
        """The worker and its children at once, as when a machine dies."""
        listed = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        children = [int(pid) for pid in listed.read_text().split()] if listed.exists() else []
        for pid in (self.process.pid, *children):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait(30)

    def end(self):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill9()


def started(folder):
    worker = Worker(folder)
    try:
        until(worker.ready, "the worker is ready", PATIENCE)
    except BaseException:
        worker.kill9()
        raise
    return worker


def over_amqp(folder):
    import celery_app as tasks

    worker = started(folder)
    try:
        assert tasks.add.delay(2, 3).get(timeout=PATIENCE) == 5
        results = [tasks.add.delay(number, number) for number in range(50)]
        assert [result.get(timeout=PATIENCE) for result in results] == [2 * number for number in range(50)]
        try:
            tasks.broken.delay().get(timeout=PATIENCE)
            raise AssertionError("a failing task did not fail")
        except ValueError as error:
            assert str(error) == "as it should"
        assert tasks.third_time.delay().get(timeout=PATIENCE) == 2

        asked = time.time()
        assert tasks.now.apply_async(countdown=2).get(timeout=PATIENCE) >= asked + 2, "an ETA is waited for"

        replies = tasks.app.control.ping(timeout=5)
        assert [list(reply.values())[0] for reply in replies] == [{"ok": "pong"}], replies
        registered = tasks.app.control.inspect(timeout=5).registered()
        assert any("celery_app.add" in names for names in registered.values()), registered

        late = tasks.survives.delay(folder)
        until((pathlib.Path(folder) / "running").exists, "the long task runs", PATIENCE)
    finally:
        worker.kill9()
    worker = started(folder)
    try:
        assert late.get(timeout=PATIENCE) is True, "the task of the killed worker was run again, redelivered"
    finally:
        worker.end()


def over_files(folder):
    from celery import chain, chord, group

    import celery_app as tasks

    worker = started(folder)
    try:
        assert group(tasks.add.s(number, 1) for number in range(5))().get(timeout=PATIENCE) == [1, 2, 3, 4, 5]
        assert chain(tasks.add.s(1, 2), tasks.add.s(10))().get(timeout=PATIENCE) == 13
        assert chord((tasks.add.s(number, number) for number in range(8)), tasks.total.s())().get(
            timeout=PATIENCE) == 56
    finally:
        worker.end()


def main():
    if len(sys.argv) > 1:
        {"amqp": over_amqp, "files": over_files}[sys.argv[1]](sys.argv[2])
        return
    for step in ("amqp", "files"):
        with tempfile.TemporaryDirectory(prefix="menzil-interop-celery-") as folder:
            environment = dict(os.environ, SMOKE_QUEUE=f"smoke-{step}",
                               SMOKE_BACKEND="rpc://" if step == "amqp" else f"file://{folder}")
            done = subprocess.run([sys.executable, __file__, step, folder], env=environment, stdin=subprocess.DEVNULL)
            if done.returncode:
                print((pathlib.Path(folder) / "worker.log").read_text()[-5000:])
                sys.exit(f"the {step} round failed")


if __name__ == "__main__":
    main()
