# bunny: connect, declare, publish with confirms, a return, consume, nack, e2e bindings, errors, close.
require 'bunny'
require 'timeout'

def check(holds, what)
  abort "failed: #{what}" unless holds
end

def wait_until(what)
  Timeout.timeout(60) { sleep 0.02 until yield }
rescue Timeout::Error
  abort "not within 60 s: #{what}"
end

connection = Bunny.new(ENV.fetch('AMQP_URL'), automatically_recover: false, log_level: :fatal).start
channel = connection.create_channel
channel.confirm_select

source = channel.topic('ruby.source', durable: true)
target = channel.fanout('ruby.target', durable: true)
target.bind(source, routing_key: 'user.*')
queue = channel.queue('ruby.work', durable: true, arguments: { 'x-expires' => 600_000 })
queue.bind(target)

returned = []
source.on_return { |info, _properties, body| returned << [info.reply_code, info.reply_text, body] }
20.times { |n| source.publish("message #{n}", routing_key: 'user.created', persistent: true, headers: { 'n' => n }) }
source.publish('lost?', routing_key: 'nobody.at.all', mandatory: true)
check(channel.wait_for_confirms, 'all publishes are confirmed')
wait_until('the return') { returned.any? }
check(returned == [[312, 'NO_ROUTE', 'lost?']], "one return: #{returned}")
check(queue.message_count == 20, "20 messages, not #{queue.message_count}")

seen = []
consumer_channel = connection.create_channel
consumer_channel.prefetch(3)
consumer = consumer_channel.queue('ruby.work', passive: true).subscribe(manual_ack: true) do |info, properties, body|
  seen << [body, info.redelivered?, properties.headers['n']]
  seen.size == 1 ? consumer_channel.nack(info.delivery_tag, false, true) : consumer_channel.ack(info.delivery_tag)
end
wait_until('21 deliveries') { seen.size >= 21 }
check(seen.first == ['message 0', false, 0], "the first delivery: #{seen.first}")
check(seen.include?(['message 0', true, 0]), 'the rejected message comes back redelivered')
consumer.cancel
check(queue.pop == [nil, nil, nil], 'the queue is empty')

full = channel.queue('ruby.full', durable: true, arguments: { 'x-max-length' => 1, 'x-overflow' => 'reject-publish' })
2.times { |n| full.publish(n.to_s) }
check(!channel.wait_for_confirms, 'a refused publish is nacked')
check(channel.nacked_set.size == 1, 'one nack')

begin
  connection.create_channel.queue('ruby.work', durable: false)
  abort 'failed: an unequal declaration was accepted'
rescue Bunny::PreconditionFailed => e
  check(e.channel_close.reply_code == 406, e.message)
end

cancelled = false
doomed = connection.create_channel.queue('ruby.doomed', durable: true)
doomed.subscribe_with(Bunny::Consumer.new(doomed.channel, doomed).tap { |c| c.on_cancellation { cancelled = true } })
channel.queue_delete('ruby.doomed')
wait_until('the consumer is cancelled') { cancelled }

[queue, full].each(&:delete)
[source, target].each(&:delete)
connection.close
