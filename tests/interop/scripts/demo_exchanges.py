"""pika: the direct, fanout and topic tables."""

from common import drain, pika_connection

conn = pika_connection()
ch = conn.channel()
ch.confirm_delivery()

# A direct exchange routes by equal key; what matches nothing is dropped.
ch.exchange_declare("orders", exchange_type="direct")
for queue, key in [("q.paid", "paid"), ("q.refund", "refunded")]:
    ch.queue_declare(queue, durable=True)
    ch.queue_bind(queue, "orders", routing_key=key)
for key, body in [("paid", "order-1001"), ("refunded", "order-0999"), ("paid", "order-1002"),
                  ("cancelled", "order-1003")]:
    ch.basic_publish("orders", key, body)
assert drain(ch, "q.paid") == ["order-1001", "order-1002"]
assert drain(ch, "q.refund") == ["order-0999"]

# A fanout exchange copies to every queue, whatever the key.
ch.exchange_declare("cache-bust", exchange_type="fanout")
for queue in ("node-a", "node-b", "node-c"):
    ch.queue_declare(queue, durable=True)
    ch.queue_bind(queue, "cache-bust")
ch.basic_publish("cache-bust", "ignored", "invalidate:/products/42")
for queue in ("node-a", "node-b", "node-c"):
    assert drain(ch, queue) == ["invalidate:/products/42"]

# A topic exchange: `*` is one word, `#` none or more.
ch.exchange_declare("logs", exchange_type="topic")
bindings = {"all-errors": "*.error", "eu-everything": "eu.#", "eu-west-db": "eu.west.db.*"}
for queue, pattern in bindings.items():
    ch.queue_declare(queue, durable=True)
    ch.queue_bind(queue, "logs", routing_key=pattern)
for key in ["api.error", "eu.west.db.error", "eu.west.db.slow", "eu", "us.east.api.info"]:
    ch.basic_publish("logs", key, key)
assert drain(ch, "all-errors") == ["api.error"]
assert drain(ch, "eu-everything") == ["eu.west.db.error", "eu.west.db.slow", "eu"]
assert drain(ch, "eu-west-db") == ["eu.west.db.error", "eu.west.db.slow"]

conn.close()
