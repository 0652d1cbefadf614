<?php
// php-amqplib: connect, declare, publish with confirms, a return, consume, nack, a transaction, errors, close.
declare(strict_types=1);

require '/usr/share/php/PhpAmqpLib/autoload.php';

use PhpAmqpLib\Connection\AMQPStreamConnection;
use PhpAmqpLib\Exception\AMQPProtocolChannelException;
use PhpAmqpLib\Message\AMQPMessage;
use PhpAmqpLib\Wire\AMQPTable;

function check(bool $holds, string $what): void
{
    if (!$holds) {
        fwrite(STDERR, "failed: $what\n");
        exit(1);
    }
}

$connection = new AMQPStreamConnection(
    getenv('AMQP_HOST'), getenv('AMQP_PORT'), getenv('AMQP_USER'), getenv('AMQP_PASSWORD'));
$channel = $connection->channel();
$channel->exchange_declare('php.events', 'topic', false, true, false);
$channel->queue_declare('php.work', false, true, false, false, false, new AMQPTable(['x-max-length' => 1000]));
$channel->queue_bind('php.work', 'php.events', 'user.#');

// Confirms and returns.
$acked = 0;
$nacked = 0;
$returned = [];
$channel->set_ack_handler(function () use (&$acked) { $acked++; });
$channel->set_nack_handler(function () use (&$nacked) { $nacked++; });
$channel->set_return_listener(function (int $code, string $text, string $exchange, string $key, AMQPMessage $message) use (&$returned) {
    $returned[] = [$code, $text, $key, $message->body];
});
$channel->confirm_select();
for ($n = 0; $n < 20; $n++) {
    $message = new AMQPMessage("message $n", [
        'delivery_mode' => AMQPMessage::DELIVERY_MODE_PERSISTENT,
        'application_headers' => new AMQPTable(['n' => $n, 'nested' => ['yes' => true]]),
    ]);
    $channel->basic_publish($message, 'php.events', 'user.created');
}
$channel->basic_publish(new AMQPMessage('lost?'), 'php.events', 'nobody', true);
$channel->wait_for_pending_acks_returns(60);
check($acked === 21 && $nacked === 0, "21 acks, not $acked and $nacked nacks");
check($returned === [[312, 'NO_ROUTE', 'nobody', 'lost?']], 'one return: ' . json_encode($returned));

// Consume: the first is rejected back and comes redelivered.
$seen = [];
$worker = $connection->channel();
$worker->basic_qos(0, 5, false);
$worker->basic_consume('php.work', '', false, false, false, false, function (AMQPMessage $message) use (&$seen) {
    $seen[] = [$message->body, $message->isRedelivered()];
    if (count($seen) === 1) {
        $message->nack(true);
    } else {
        $message->ack();
    }
});
$deadline = microtime(true) + 60;
while (count($seen) < 21 && microtime(true) < $deadline) {
    $worker->wait(null, false, 30);
}
check($seen[0] === ['message 0', false], 'the first delivery: ' . json_encode($seen[0]));
check(in_array(['message 0', true], $seen, true), 'the rejected message comes back redelivered');
check(count($seen) === 21, '21 deliveries, not ' . count($seen));
$worker->close();

// A transaction: rolled back, then committed.
$tx = $connection->channel();
$tx->tx_select();
$tx->basic_publish(new AMQPMessage('dropped'), '', 'php.work');
$tx->tx_rollback();
$tx->basic_publish(new AMQPMessage(str_repeat('k', 300000)), '', 'php.work');
$tx->tx_commit();
[, $count] = $tx->queue_declare('php.work', true);
check($count === 1, "one message after the commit, not $count");
$message = $tx->basic_get('php.work', true);
check(strlen($message->body) === 300000, 'a body of many frames');
$tx->close();

// A mistake closes the channel by code, and nothing else.
try {
    $connection->channel()->queue_declare('php.none', true);
    check(false, 'a passive declaration of nothing succeeded');
} catch (AMQPProtocolChannelException $error) {
    check($error->getCode() === 404, 'code ' . $error->getCode());
}
$channel->queue_delete('php.work');
$channel->exchange_delete('php.events');
$channel->close();
$connection->close();
