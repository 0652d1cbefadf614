// amqplib: connect, declare, publish with confirms, a return, consume, prefetch, nack, errors, close.
'use strict'

const assert = require('node:assert/strict')
const amqp = require('amqplib')

const once = (emitter, name) => new Promise((resolve) => emitter.once(name, resolve))

async function until (condition, what) {
  const deadline = Date.now() + 60_000
  while (!condition()) {
    assert.ok(Date.now() < deadline, `not within 60 s: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

async function main () {
  const connection = await amqp.connect(process.env.AMQP_URL)
  const channel = await connection.createConfirmChannel()

  // Declare and bind; a confirmed publish of each size, small, empty and over several frames.
  await channel.assertExchange('node.events', 'topic', { durable: true })
  const { queue } = await channel.assertQueue('node.work', { durable: true, arguments: { 'x-max-length': 10000 } })
  await channel.bindQueue(queue, 'node.events', 'user.*.created')
  const big = Buffer.alloc(500_000, 'b')
  for (const content of [Buffer.from('hello'), Buffer.alloc(0), big]) {
    channel.publish('node.events', 'user.7.created', content, { persistent: true, headers: { n: 1, list: [1, 'x', { y: true }] } })
  }
  channel.publish('node.events', 'user.7.deleted', Buffer.from('dropped'))
  await channel.waitForConfirms()
  assert.equal((await channel.checkQueue(queue)).messageCount, 3)

  // A mandatory message that nobody takes comes back.
  const returned = once(channel, 'return')
  channel.publish('node.events', 'nobody', Buffer.from('lost?'), { mandatory: true, messageId: 'm-1' })
  await channel.waitForConfirms()
  const message = await returned
  assert.equal(message.fields.replyCode, 312)
  assert.equal(message.properties.messageId, 'm-1')

  // Consume with prefetch 1; the first is nacked and comes back redelivered.
  const seen = []
  await channel.prefetch(1)
  const { consumerTag } = await channel.consume(queue, (delivery) => {
    seen.push(delivery)
    if (seen.length === 1) channel.nack(delivery)
    else channel.ack(delivery)
  })
  await until(() => seen.length === 4, 'four deliveries')
  assert.deepEqual(seen.map((delivery) => delivery.fields.redelivered), [false, true, false, false])
  assert.deepEqual(seen.map((delivery) => delivery.content.length), [5, 5, 0, 500_000])
  assert.deepEqual(seen[0].properties.headers, { n: 1, list: [1, 'x', { y: true }] })
  assert.ok(seen[3].content.equals(big))
  await channel.cancel(consumerTag)
  assert.equal(await channel.get(queue), false)

  // A queue that refuses nacks the publish.
  await channel.assertQueue('node.full', { durable: true, maxLength: 1, overflow: 'reject-publish' })
  channel.sendToQueue('node.full', Buffer.from('1'))
  channel.sendToQueue('node.full', Buffer.from('2'))
  await assert.rejects(channel.waitForConfirms())

  // A mistake closes the channel by code, and nothing else.
  const wrong = await connection.createChannel()
  const closed = once(wrong, 'error')
  await assert.rejects(wrong.checkQueue('node.none'), /404/)
  assert.equal((await closed).code, 404)

  // A consumer is told when its queue goes.
  let cancelled = false
  await channel.assertQueue('node.doomed', { autoDelete: true })
  await channel.consume('node.doomed', (delivery) => { if (delivery === null) cancelled = true })
  await channel.deleteQueue('node.doomed')
  await until(() => cancelled, 'the consumer is cancelled')

  await channel.deleteQueue(queue)
  await channel.deleteExchange('node.events')
  await channel.close()
  await connection.close()
}

main().catch((error) => {
  console.error(error)
  process.exit(1)
})
