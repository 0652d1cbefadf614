"""pika: request and reply over a server-named exclusive queue, consumer cancellation, purge and delete."""

import threading

import pika

from common import pika_connection

server, client = pika_connection(), pika_connection()
requests = server.channel()
requests.queue_declare("rpc", durable=True)


def square(channel, method, properties, body):
    channel.basic_publish("", properties.reply_to, str(int(body) ** 2),
                          pika.BasicProperties(correlation_id=properties.correlation_id))
    channel.basic_ack(method.delivery_tag)


requests.basic_consume("rpc", square)
stop = threading.Event()


def serve():
    while not stop.is_set():
        server.process_data_events(time_limit=0.1)


thread = threading.Thread(target=serve)
thread.start()
try:
    ch = client.channel()
    reply_queue = ch.queue_declare("", exclusive=True).method.queue
    assert reply_queue.startswith("amq.gen-"), reply_queue
    answers = {}
    ch.basic_consume(reply_queue, lambda c, m, p, b: answers.update({p.correlation_id: int(b)}), auto_ack=True)
    for number in range(20):
        ch.basic_publish("", "rpc", str(number),
                         pika.BasicProperties(reply_to=reply_queue, correlation_id=str(number)))
    for _ in range(600):
        client.process_data_events(time_limit=0.1)
        if len(answers) == 20:
            break
    assert answers == {str(number): number**2 for number in range(20)}
finally:
    stop.set()
    thread.join(30)

# A consumer is told when its queue is deleted.
cancelled = []
watcher = client.channel()
watcher.queue_declare("doomed", durable=True)
watcher.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
tag = watcher.basic_consume("doomed", lambda *_: None)
admin = client.channel()
for body in ("a", "b"):
    admin.basic_publish("", "rpc2", body)  # unroutable, dropped in silence
admin.queue_declare("rpc2", durable=True)
admin.confirm_delivery()
for body in ("a", "b"):
    admin.basic_publish("", "rpc2", body)
assert admin.queue_declare("rpc2", passive=True).method.message_count == 2
assert admin.queue_purge("rpc2").method.message_count == 2
admin.queue_delete("rpc2")
admin.queue_delete("doomed")
for _ in range(300):
    client.process_data_events(time_limit=0.1)
    if cancelled:
        break
assert cancelled == [tag]
client.close()
server.close()
