"""A failed fdatasync stops the node: nothing is acknowledged after it, everything acknowledged before is there."""

import rawamqp
from conftest import get_all
from own_menzil import OwnMenzil

PERSISTENT = {"delivery_mode": 2}
FAILS_FROM = 40


def test_a_failed_sync_is_never_followed_by_an_ack(tmp_path, until):
    inject = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync", "-e",
              f"inject=fdatasync:error=EIO:when={FAILS_FROM}+"]
    node = OwnMenzil(tmp_path / "data", wrapper=inject)
    try:
        node.start()
        conn = rawamqp.Conn.open(f"{node.host}:{node.port}")
        channel = conn.channel()
        conn.call(channel, "queue.declare", queue="q", durable=True)
        conn.call(channel, "confirm.select")
        confirmed = set()
        number = 0
        try:
            while number < 100 * FAILS_FROM:
                number += 1
                conn.publish(channel, "", "q", str(number).encode(), PERSISTENT)
                event = conn.expect(channel, "basic.ack", "basic.nack")
                assert event.name == "basic.ack" and event.delivery_tag == number
                confirmed.add(number)
        except (rawamqp.Closed, ConnectionError):
            pass
        assert number < 100 * FAILS_FROM, "the node goes on although its disk fails"
        assert len(confirmed) == number - 1, "the publish that met the failure has no verdict"
        until(lambda: node.process.poll() is not None, "the node stops")
        assert node.process.returncode == 70, node.log_tail()
        assert "sync" in node.log_tail(5), node.log_tail()
    finally:
        node.kill9()
    again = OwnMenzil(tmp_path / "data")
    try:
        again.start()
        conn = rawamqp.Conn.open(f"{again.host}:{again.port}")
        found = {int(body) for body in get_all(conn, conn.channel(), "q")}
        assert confirmed <= found, "lost"
        assert found <= confirmed | {number}
    finally:
        again.close()
        node.close()
