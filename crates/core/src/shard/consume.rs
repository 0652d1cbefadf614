//! `basic.consume`, `basic.cancel`, `basic.qos`.

use menzil_model::{Name, QueueId};

use super::Shard;
use crate::command::{ChannelKey, Consume};
use crate::consumer::{Consumer, ConsumerId, Taker};
use crate::effect::{Output, Reply};
use crate::generated::generated_name;
use crate::refusal::{Object, Refusal};
use crate::turn::Turn;

/// Consumer arguments that RabbitMQ has and this broker has not, yet.
const UNSUPPORTED: [&str; 5] = [
    "x-priority",
    "x-consumer-timeout",
    "x-stream-offset",
    "x-stream-filter",
    "x-stream-match-unfiltered",
];

/// What a client of RabbitMQ consumes from to get replies without a queue.
pub(super) const DIRECT_REPLY_TO: &[u8] = b"amq.rabbitmq.reply-to";

impl Shard {
    pub(super) fn consume(
        &mut self,
        turn: &mut Turn<'_>,
        key: ChannelKey,
        consume: Consume,
    ) -> Result<(), Refusal> {
        let Consume {
            queue,
            consumer_tag,
            no_ack,
            exclusive,
            nowait,
            arguments,
            ..
        } = consume;
        let Some(channel) = self.channels.get(&key) else {
            return Ok(());
        };
        let queue = self.queue_name(key, &queue)?;
        if !consumer_tag.is_empty() && channel.consumers.contains_key(&consumer_tag) {
            return Err(Refusal::ConsumerTagInUse(consumer_tag));
        }
        if queue.as_bytes() == DIRECT_REPLY_TO {
            return Err(Refusal::DirectReplyTo);
        }
        let (id, name) = self.queue_for(key, &queue)?;
        if channel.consumers.len() >= self.settings.consumers_per_channel_max {
            let limit = self.settings.consumers_per_channel_max as u64;
            return Err(Refusal::LimitReached {
                what: "consumers per channel",
                limit,
            });
        }
        if let Some((argument, _)) = arguments
            .fields()
            .find(|(name, _)| UNSUPPORTED.iter().any(|known| known.as_bytes() == *name))
        {
            let argument = Name::cut(argument);
            return Err(Refusal::UnsupportedArgument {
                object: Object::Queue(name),
                argument,
            });
        }
        let tag = if consumer_tag.is_empty() {
            generated_name("amq.ctag-", consume.entropy)
        } else {
            consumer_tag
        };
        let prefetch = channel.prefetch_next;
        let Some(queue) = self.queues.get_mut(&id) else {
            return Ok(());
        };
        if queue.exclusive_consumer || (exclusive && !queue.consumers.is_empty()) {
            return Err(Refusal::ExclusiveUse(name));
        }
        let consumer_id = ConsumerId(self.next_consumer);
        self.next_consumer += 1;
        let durable = queue.definition.durable;
        let head = queue.next_out();
        let (Some(channel_place), Some(connection_place)) = (
            self.channels.place(&key),
            self.connections.place(&key.connection),
        ) else {
            return Ok(());
        };
        let consumer = Consumer {
            channel: key,
            channel_place,
            connection_place,
            tag: tag.clone(),
            queue: id,
            no_ack,
            exclusive,
            prefetch,
            unsettled: 0,
        };
        let place = self.consumers.insert(consumer_id, consumer);
        if let Some(queue) = self.queues.get_mut(&id) {
            queue.consumers.push_back(Taker {
                consumer: consumer_id,
                place,
            });
            queue.exclusive_consumer = exclusive;
        }
        if let Some(channel) = self.channels.get_mut(&key) {
            channel.consumers.insert(tag.clone(), consumer_id);
        }
        if durable {
            self.reserve_delivering(turn, id, head);
        }
        turn.reply(
            key,
            nowait,
            self.topology_index,
            Reply::ConsumeOk { consumer_tag: tag },
        );
        self.touch(id);
        Ok(())
    }

    pub(super) fn cancel(
        &mut self,
        turn: &mut Turn<'_>,
        key: ChannelKey,
        consumer_tag: Name,
        nowait: bool,
    ) {
        let consumer = self
            .channels
            .get(&key)
            .and_then(|c| c.consumers.get(&consumer_tag))
            .copied();
        if let Some(consumer) = consumer {
            self.remove_consumer(turn, consumer);
        }
        turn.reply(
            key,
            nowait,
            self.topology_index,
            Reply::CancelOk { consumer_tag },
        );
    }

    /// Takes a consumer away; an auto-delete queue goes with its last one.
    pub(super) fn remove_consumer(&mut self, turn: &mut Turn<'_>, id: ConsumerId) {
        let Some(consumer) = self.consumers.remove(&id) else {
            return;
        };
        if let Some(channel) = self.channels.get_mut(&consumer.channel) {
            channel.consumers.remove(&consumer.tag);
        }
        let Some(queue) = self.queues.get_mut(&consumer.queue) else {
            return;
        };
        queue.consumers.retain(|other| other.consumer != id);
        if consumer.exclusive {
            queue.exclusive_consumer = false;
        }
        if queue.consumers.is_empty() {
            queue.unused_since = turn.now;
            if queue.definition.auto_delete {
                self.delete_queue(turn, consumer.queue);
                return;
            }
        }
        self.touch(consumer.queue);
    }

    /// The queue is about to go: its consumers are told, where their connections want to know.
    pub(super) fn cancel_consumers(&mut self, turn: &mut Turn<'_>, id: QueueId) {
        let Some(queue) = self.queues.get_mut(&id) else {
            return;
        };
        for taker in std::mem::take(&mut queue.consumers) {
            let Some(consumer) = self.consumers.remove(&taker.consumer) else {
                continue;
            };
            let key = consumer.channel;
            let Some(channel) = self.channels.get_mut(&key) else {
                continue;
            };
            channel.consumers.remove(&consumer.tag);
            if self
                .connections
                .get(&key.connection)
                .is_some_and(|c| c.cancel_notify)
            {
                let output = Output::Cancelled {
                    consumer_tag: consumer.tag,
                };
                turn.send(key, self.topology_index, output);
            }
        }
    }

    pub(super) fn qos(
        &mut self,
        turn: &mut Turn<'_>,
        key: ChannelKey,
        prefetch_size: u32,
        prefetch_count: u16,
        global: bool,
    ) -> Result<(), Refusal> {
        if prefetch_size != 0 {
            return Err(Refusal::PrefetchSize(prefetch_size));
        }
        let Some(channel) = self.channels.get_mut(&key) else {
            return Ok(());
        };
        if global {
            channel.prefetch_channel = u64::from(prefetch_count);
            self.touch_queues_of(key);
        } else {
            channel.prefetch_next = u64::from(prefetch_count);
        }
        turn.reply(key, false, 0, Reply::QosOk);
        Ok(())
    }
}
