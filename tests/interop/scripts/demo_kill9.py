"""pika: three invoices in a durable queue outlive kill -9; a transient draft and a transient queue do not."""

import pika

import control
from common import drain, pika_connection, skip

try:
    broker = control.ask("name")
except control.Unavailable as reason:
    skip(reason)

conn = pika_connection()
ch = conn.channel()
ch.confirm_delivery()
ch.exchange_declare("billing", exchange_type="topic", durable=True)
ch.queue_declare("invoices", durable=True)
ch.queue_bind("invoices", "billing", routing_key="invoice.#")
ch.queue_declare("scratch", durable=False)
for number in (1, 2, 3):
    ch.basic_publish("billing", "invoice.eu", f"invoice-{number}",
                     pika.BasicProperties(delivery_mode=2, content_type="text/plain", headers={"n": number}))
ch.basic_publish("billing", "invoice.eu", "draft", pika.BasicProperties(delivery_mode=1))
ch.basic_publish("", "scratch", "note", pika.BasicProperties(delivery_mode=2))

# One is handed out and never settled, so that it must come back flagged.
method, _, body = ch.basic_get("invoices")
assert body == b"invoice-1"

control.ask("kill9")
control.ask("start")

conn = pika_connection()
ch = conn.channel()
ch.confirm_delivery()
try:
    conn.channel().queue_declare("scratch", passive=True)
    raise AssertionError("the transient queue is back")
except pika.exceptions.ChannelClosedByBroker as error:
    assert error.reply_code == 404, error
    assert error.reply_text == "NOT_FOUND - no queue 'scratch' in vhost '/'", error

came_back = []
while True:
    method, properties, body = ch.basic_get("invoices", auto_ack=True)
    if method is None:
        break
    assert (properties.delivery_mode, properties.content_type) == (2, "text/plain")
    assert properties.headers == {"n": len(came_back) + 1}
    came_back.append((body.decode(), method.redelivered))
assert [body for body, _ in came_back] == ["invoice-1", "invoice-2", "invoice-3"], came_back
if broker == "menzil":
    # Differs: RabbitMQ 3.10 may flag nothing here; Menzil flags what may have been handed out.
    assert came_back[0][1], "the invoice that was out when the broker died is flagged"

# The exchange and its binding are durable too.
ch.basic_publish("billing", "invoice.us", "invoice-4", pika.BasicProperties(delivery_mode=2), mandatory=True)
assert drain(ch, "invoices") == ["invoice-4"]
conn.close()
