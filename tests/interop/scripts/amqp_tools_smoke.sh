#!/bin/bash
# amqp-tools: declare a queue, publish, get, consume, delete, by the command line programs of rabbitmq-c.
set -euo pipefail

url="--url=$AMQP_URL"
queue="tools-$$"
fail() { echo "failed: $*" >&2; exit 1; }

[ "$(amqp-declare-queue "$url" -d -q "$queue")" = "$queue" ] || fail "declare names another queue"

amqp-publish "$url" -p -r "$queue" -C text/plain -b "one"
printf 'two\nthree\n' | amqp-publish "$url" -p -r "$queue" -l
[ "$(amqp-get "$url" -q "$queue")" = "one" ] || fail "the first message is another"

# consume runs a command per message, the body on its input, and acknowledges when that ends well
got=$(timeout 60 amqp-consume "$url" -q "$queue" -c 2 cat)
[ "$(printf '%s' "$got" | tr -d '\n')" = "twothree" ] || fail "consumed: $got"

if amqp-get "$url" -q "$queue" > /dev/null; then fail "the queue is not empty"; fi

# a body of many frames
head -c 400000 /dev/zero | tr '\0' 'z' | amqp-publish "$url" -p -r "$queue"
[ "$(amqp-get "$url" -q "$queue" | wc -c)" = 400000 ] || fail "a large body changed its size"

# a direct exchange and a server-named queue of the consumer
timeout 60 amqp-consume "$url" -e amq.direct -r "$queue.key" -c 1 cat > "/tmp/$queue.out" &
consumer=$!
trap 'kill $consumer 2>/dev/null || true; rm -f "/tmp/$queue.out"' EXIT
for _ in $(seq 300); do
    kill -0 $consumer 2>/dev/null || break
    amqp-publish "$url" -e amq.direct -r "$queue.key" -b "for you"
    sleep 0.1
done
wait $consumer || fail "the consumer on a direct exchange got nothing"
grep -q "for you" "/tmp/$queue.out" || fail "another body: $(cat "/tmp/$queue.out")"

amqp-publish "$url" -r "$queue" -b "left"
[ "$(amqp-delete-queue "$url" -q "$queue")" = 1 ] || fail "delete counts another number of messages"
if amqp-get "$url" -q "$queue" > /dev/null 2>&1; then fail "a deleted queue is still there"; fi
