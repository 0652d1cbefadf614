"""pika: a confirm, a mandatory message that nobody takes, and a nack that comes back redelivered."""

import pika

from common import pika_connection

conn = pika_connection()
ch = conn.channel()
ch.confirm_delivery()
ch.queue_declare("jobs", durable=True)
ch.basic_publish("", "jobs", "resize:img-1.png", pika.BasicProperties(delivery_mode=2))

try:
    ch.basic_publish("", "no-such-queue", "lost?", pika.BasicProperties(headers={"n": 1}), mandatory=True)
    raise AssertionError("an unroutable mandatory message was not returned")
except pika.exceptions.UnroutableError as error:
    (returned,) = error.messages
    assert (returned.method.reply_code, returned.method.reply_text) == (312, "NO_ROUTE")
    assert (returned.body, returned.properties.headers) == (b"lost?", {"n": 1})

method, _, body = ch.basic_get("jobs")
assert (body, method.redelivered) == (b"resize:img-1.png", False)
ch.basic_nack(method.delivery_tag, requeue=True)
method, _, body = ch.basic_get("jobs")
assert (body, method.redelivered) == (b"resize:img-1.png", True)
ch.basic_ack(method.delivery_tag)
assert ch.basic_get("jobs") == (None, None, None)

# A queue that refuses nacks the publish.
ch.queue_declare("one-only", durable=True, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
ch.basic_publish("", "one-only", "first")
try:
    ch.basic_publish("", "one-only", "second")
    raise AssertionError("a refused message was confirmed")
except pika.exceptions.NackError:
    pass

# A mistake closes the channel by code and text; the connection lives.
try:
    ch.queue_declare("jobs", durable=False)
    raise AssertionError("an unequal declaration was accepted")
except pika.exceptions.ChannelClosedByBroker as error:
    assert error.reply_code == 406, error
    assert "inequivalent arg 'durable' for queue 'jobs' in vhost '/'" in error.reply_text

# A headers exchange routes by its table.
ch = conn.channel()
ch.exchange_declare("hdr", exchange_type="headers")
ch.queue_declare("pdfs", durable=True)
ch.queue_bind("pdfs", "hdr", arguments={"x-match": "all", "format": "pdf", "pages": 2})
ch.confirm_delivery()
for pages in (1, 2):
    ch.basic_publish("hdr", "", f"{pages} pages", pika.BasicProperties(headers={"format": "pdf", "pages": pages}))
assert ch.basic_get("pdfs", auto_ack=True)[2] == b"2 pages"
assert ch.basic_get("pdfs", auto_ack=True)[0] is None
conn.close()
