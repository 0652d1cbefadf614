"""The arguments of queue.declare: what is refused, with which text, and what is accepted as a hint.

Texts are those of RabbitMQ 4.3.6. A declare that fails leaves no queue behind.
"""

import pytest

QUORUM = {"x-queue-type": "quorum"}

# Arguments -> what follows "invalid arg" in the text.
REFUSED = {
    "expires of zero": ({"x-expires": 0}, "'x-expires' for {q}: {{value_zero,0}}"),
    "expires beyond ten years": ({"x-expires": 315360000001},
                                 "'x-expires' for {q}: {{value_too_large,315360000001}}"),
    "routing key without exchange": ({"x-dead-letter-routing-key": "k"},
                                     "'x-dead-letter-routing-key' for {q}: routing_key_but_no_dlx_defined"),
    "priority over 255": ({"x-max-priority": 256}, "'x-max-priority' for {q}: {{max_value_exceeded,256}}"),
    "single active consumer of text": ({"x-single-active-consumer": "yes"},
                                       "'x-single-active-consumer' for {q}: {{unacceptable_type,longstr}}"),
    "version of one": ({"x-queue-version": 1}, "'x-queue-version' for {q}: \"unsupported queue version '1'\""),
    "negative version": ({"x-queue-version": -1}, "'x-queue-version' for {q}: {{value_negative,-1}}"),
    "unknown locator": ({"x-queue-leader-locator": "here"},
                        "'x-queue-leader-locator' for {q}: invalid_queue_locator_arg"),
    "unknown type first": ({"x-queue-type": "odd", "x-expires": 0},
                           "'x-queue-type' for {q}: \"unsupported queue type 'odd'\""),
    "type of a number": ({"x-queue-type": 5, "x-expires": 0}, "'x-queue-type' for {q}: {{unacceptable_type,signedint}}"),
    "order of checks": ({"x-overflow": "spill", "x-max-length": -1}, "'x-max-length' for {q}: {{value_negative,-1}}"),
    "quorum on classic": ({"x-max-in-memory-length": 5},
                          "'x-max-in-memory-length' for {q} of queue type rabbit_classic_queue"),
    "stream on classic": ({"x-max-age": "odd", "x-max-in-memory-length": 5},
                          "'x-max-age' for {q} of queue type rabbit_classic_queue"),
    "classic on quorum": ({**QUORUM, "x-queue-mode": "lazy"},
                          "'x-queue-mode' for {q} of queue type rabbit_quorum_queue"),
    "stream on quorum": ({**QUORUM, "x-initial-cluster-size": 3},
                         "'x-initial-cluster-size' for {q} of queue type rabbit_quorum_queue"),
    "group size of zero": ({**QUORUM, "x-quorum-initial-group-size": 0},
                           "'x-quorum-initial-group-size' for {q}: {{value_zero,0}}"),
    "negative timeout": ({**QUORUM, "x-consumer-timeout": -5}, "'x-consumer-timeout' for {q}: {{value_negative,-5}}"),
    "negative in-memory bytes": ({**QUORUM, "x-max-in-memory-bytes": -5},
                                 "'x-max-in-memory-bytes' for {q}: {{value_negative,-5}}"),
    "unknown strategy": ({**QUORUM, "x-dead-letter-exchange": "", "x-dead-letter-strategy": "twice"},
                         "'x-dead-letter-strategy' for {q}: invalid_dlx_strategy"),
}


def since_4_3(broker):
    if broker.rabbitmq_before(4, 3):
        pytest.skip("the texts are those of 4.3")


def is_absent(conn, queue):
    channel = conn.channel()
    conn.send(channel, "queue.declare", queue=queue, passive=True)
    conn.expect_close(channel, 404, "NOT_FOUND - no queue")


@pytest.mark.parametrize("what", REFUSED)
def test_invalid_arguments_are_refused_by_name(conn, broker, name, what):
    since_4_3(broker)
    arguments, text = REFUSED[what]
    queue = name()
    channel = conn.channel()
    conn.send(channel, "queue.declare", queue=queue, durable=True, arguments=arguments)
    text = text.format(q=f"queue '{queue}' in vhost '/'")
    conn.expect_close(channel, 406, f"PRECONDITION_FAILED - invalid arg {text}"[:255])
    is_absent(conn, queue)


def test_a_dead_letter_exchange_that_is_no_text_comes_first(conn, broker, name):
    queue = name()
    channel = conn.channel()
    arguments = {"x-dead-letter-exchange": 5, "x-queue-type": "odd"}
    conn.send(channel, "queue.declare", queue=queue, durable=True, arguments=arguments)
    conn.expect_close(channel, 406, "PRECONDITION_FAILED - invalid type 'signedint' for arg 'x-dead-letter-exchange' in "
                                    f"queue '{queue}' in vhost '/'")
    is_absent(conn, queue)


@pytest.mark.parametrize("arguments", [
    {"x-queue-mode": "lazy", "x-queue-version": 2, "x-queue-leader-locator": "random"},
    {"x-queue-type": "undefined"},
    {**QUORUM, "x-max-in-memory-length": 5, "x-max-in-memory-bytes": 0, "x-quorum-initial-group-size": 1},
    {**QUORUM, "x-consumer-disconnected-timeout": 5, "x-member-placement-tag": "ssd"},
], ids=str)
def test_hints_are_accepted(conn, broker, name, arguments):
    since_4_3(broker)
    queue = name()
    channel = conn.channel()
    conn.call(channel, "queue.declare", queue=queue, durable=True, arguments=arguments)
    conn.call(channel, "queue.delete", queue=queue)


def test_a_name_that_is_made_up_begins_with_its_prefix(conn, broker, name):
    channel = conn.channel()
    arguments = {"x-name-prefix": "orders"}
    made = conn.call(channel, "queue.declare", exclusive=True, arguments=arguments).queue
    # Differs: RabbitMQ 4.3 does not know the argument, which its next version has.
    assert made.startswith("orders-" if broker.menzil else "amq.gen-"), made
    if not broker.menzil:
        return
    # It says nothing of the queue: asked for again without, it is the same.
    conn.call(channel, "queue.declare", queue=made, exclusive=True)
    conn.send(channel, "queue.declare", exclusive=True, arguments={"x-name-prefix": "p" * 65})
    conn.expect_close(channel, 406, f"PRECONDITION_FAILED - Queue name prefix '{'p' * 65}' exceeds the 64-byte limit")
