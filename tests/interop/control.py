"""How a test kills and starts the broker it talks to.

`run` serves a Unix socket (its path is in MENZIL_CONTROL); a test sends one verb per connection:
`kill9`, `start`, `stop`, `restart9` (kill9 and start), `name`. The answer is `ok ...` or `error ...`.
From Python: `control.ask("kill9")`. From a shell: `python3 control.py kill9`.
"""

import os
import pathlib
import socket
import sys
import tempfile
import threading


class Unavailable(Exception):
    """There is no broker that this test may kill."""


def ask(verb, timeout=180):
    path = os.environ.get("MENZIL_CONTROL")
    if not path:
        raise Unavailable("this test kills the broker, and the broker is not ours to kill")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(timeout)
        sock.connect(path)
        sock.sendall(verb.encode() + b"\n")
        answer = b""
        while not answer.endswith(b"\n"):
            chunk = sock.recv(4096)
            if not chunk:
                break
            answer += chunk
    status, _, rest = answer.decode().strip().partition(" ")
    if status != "ok":
        raise RuntimeError(f"{verb}: {rest}")
    return rest


class Server:
    """Answers the verbs for one broker, until the `with` block ends."""

    def __init__(self, broker):
        self.broker = broker

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="menzil-interop-control-")
        self.path = pathlib.Path(self.folder.name) / "socket"
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.bind(str(self.path))
        self.sock.listen(16)
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()
        self.thread.join(10)
        self.folder.cleanup()

    def _serve(self):
        while True:
            try:
                peer, _ = self.sock.accept()
            except OSError:
                return
            with peer:
                try:
                    peer.settimeout(10)
                    verb = peer.makefile().readline().strip()
                    peer.sendall(f"ok {self._do(verb)}\n".encode())
                except Exception as error:  # the test is told, whatever it was
                    try:
                        peer.sendall(f"error {error!r}\n".encode())
                    except OSError:
                        pass

    def _do(self, verb):
        if verb == "name":
            return self.broker.name
        if verb not in ("kill9", "start", "stop", "restart9"):
            raise ValueError(f"no verb {verb!r}")
        if verb in ("kill9", "restart9"):
            self.broker.kill9()
        if verb == "stop":
            self.broker.stop()
        if verb in ("start", "restart9"):
            self.broker.start()
        return self.broker.port


if __name__ == "__main__":
    print(ask(sys.argv[1]))
