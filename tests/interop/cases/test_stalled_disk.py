"""A disk that does not answer is a state: heartbeats go on, publishers are told and not read, memory is bounded,
nothing is confirmed before its sync returned, and it goes on by itself."""

import pathlib

import pytest
import rawamqp
from own_menzil import OwnMenzil

PERSISTENT = {"delivery_mode": 2}
STALLS_FROM = 60
STALL_SECONDS = 5


@pytest.fixture
def node(tmp_path):
    """Its 60th and 61st sync take five seconds each."""
    inject = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync", "-e",
              f"inject=fdatasync:delay_enter={STALL_SECONDS}s:when={STALLS_FROM}..{STALLS_FROM + 1}"]
    node = OwnMenzil(tmp_path / "data", ["journal_pending_bytes_max=8 MiB"], wrapper=inject)
    node.start()
    yield node
    node.close()


def rss_bytes(node):
    tracer = node.process.pid
    [traced] = pathlib.Path(f"/proc/{tracer}/task/{tracer}/children").read_text().split()
    status = pathlib.Path(f"/proc/{traced}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


def test_heartbeats_go_on_and_nothing_is_confirmed_early_while_the_disk_stalls(node, until):
    conn = rawamqp.Conn.open(f"{node.host}:{node.port}", heartbeat=1, capabilities={"connection.blocked": True})
    channel = conn.channel()
    conn.call(channel, "queue.declare", queue="q", durable=True)
    conn.call(channel, "confirm.select")
    sent, acked, names = 0, 0, []

    def hear(seconds):
        nonlocal acked
        for event in conn.drain(seconds):
            names.append(event.name)
            assert event.name != "basic.nack"
            if event.name == "basic.ack":
                acked = max(acked, event.delivery_tag)
        conn.heartbeat()

    while "connection.blocked" not in names:
        if acked == sent:
            conn.publish(channel, "", "q", str(sent).encode(), PERSISTENT)
            sent += 1
        hear(0.01)
        assert sent < 5000, "no sync was held up"
    assert acked < sent, "a confirm while its sync has not returned"
    beats, memory = conn.heartbeats, rss_bytes(node)
    for _ in range(8):
        conn.publish(channel, "", "q", b"x" * 65536, PERSISTENT)
        sent += 1
    until(lambda: hear(0.2) or conn.heartbeats >= beats + 2, "heartbeats while the disk stalls")
    assert rss_bytes(node) < memory + (64 << 20)
    until(lambda: hear(0.2) or "connection.unblocked" in names, "unblocked")
    until(lambda: hear(0.2) or acked == sent, "a verdict for each")
    conn.close()
