"""A09: x-expires counts since the last consumer, basic.get or redeclaration; each renews the lease."""

import time

from conftest import declare

LEASE_MS = 5000
BEAT = 1.1  # well under the lease; five beats are over it


def exists(conn, channel, queue):
    """Asks without touching the lease: an unroutable mandatory message comes back."""
    conn.publish(channel, "", queue, b"", mandatory=True)
    conn.call(channel, "basic.qos")
    returned = [event for event in conn.inbox if event.name == "basic.return"]
    conn.inbox = [event for event in conn.inbox if event.name != "basic.return"]
    return not returned


def test_a09_redeclare_get_and_a_consumer_renew_the_lease(conn, name, until):
    channel = conn.channel()
    redeclared, got, consumed = queues = [name(what) for what in ("redeclared", "got", "consumed")]
    lease = {"x-expires": LEASE_MS}
    for queue in queues:
        declare(conn, channel, queue, arguments=lease)
    conn.call(channel, "basic.consume", queue=consumed, consumer_tag="holder", no_ack=True)
    for _ in range(5):
        time.sleep(BEAT)
        declare(conn, channel, redeclared, arguments=lease)
        conn.call(channel, "basic.get", queue=got)
        for queue in queues:
            assert exists(conn, channel, queue), queue
        assert conn.call(channel, "basic.get", queue=got, no_ack=True).name == "basic.get-ok"
    conn.call(channel, "basic.cancel", consumer_tag="holder")
    time.sleep(BEAT)
    for queue in queues:
        assert exists(conn, channel, queue), f"{queue} went before its lease ended"
    for queue in queues:
        until(lambda: not exists(conn, channel, queue), f"{queue} goes once nobody renews", pause=0.5)
        other = conn.channel()
        conn.send(other, "queue.declare", queue=queue, passive=True)
        conn.expect_close(other, 404, f"no queue '{queue}' in vhost '/'")
