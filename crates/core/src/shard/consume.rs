//! `basic.consume`, `basic.cancel`, `basic.qos`.

use menzil_model::{Name, QueueId};

use super::Shard;
use crate::command::{ChannelKey, Consume, DIRECT_REPLY_TO};
use crate::consumer::{Consumer, ConsumerId, Taker};
use crate::effect::{Output, Reply};
use crate::generated::generated_name;
use crate::queue::ConsumeArguments;
use crate::refusal::Refusal;
use crate::stopwatch::Stopwatch;
use crate::turn::Turn;

impl Shard {
    pub(super) fn consume(
        &mut self,
        turn: &mut Turn<'_>,
        key: ChannelKey,
        consume: Consume,
    ) -> Result<(), Refusal> {
        let Some(channel) = self.channels.get(&key) else {
            return Ok(());
        };
        let queue = self.queue_name(key, &consume.queue)?;
        let consumer_tag = &consume.consumer_tag;
        if !consumer_tag.is_empty() && channel.consumers.contains_key(consumer_tag) {
            return Err(Refusal::ConsumerTagInUse(consumer_tag.clone()));
        }
        if channel.consumers.len() >= self.settings.consumers_per_channel_max {
            let limit = self.settings.consumers_per_channel_max as u64;
            return Err(Refusal::LimitReached {
                what: "consumers per channel",
                limit,
            });
        }
        if queue.as_bytes() == DIRECT_REPLY_TO {
            return self.consume_replies(turn, key, consume);
        }
        if self.wants_replies(&queue) {
            return Err(Refusal::ReplyQueueConsumer(queue));
        }
        self.consume_queue(turn, key, &queue, consume)
    }

    fn consume_queue(
        &mut self,
        turn: &mut Turn<'_>,
        key: ChannelKey,
        queue: &Name,
        consume: Consume,
    ) -> Result<(), Refusal> {
        let Consume {
            queue: _,
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
        let (id, name) = self.queue_for(key, queue)?;
        let tag = if consumer_tag.is_empty() {
            generated_name("amq.ctag-", consume.entropy)
        } else {
            consumer_tag
        };
        let prefetch = channel.prefetch_next;
        let Some(queue) = self.queues.get(&id) else {
            return Ok(());
        };
        let asked = ConsumeArguments::parse(&name, &arguments, queue.type_name())?;
        let exclusive = exclusive && !queue.is_single_active_quorum();
        let is_refused = queue.line.is_single_active() || !queue.line.is_unused();
        if queue.exclusive_consumer || (exclusive && is_refused) {
            return Err(Refusal::ExclusiveUse(name));
        }
        let timeout = asked.timeout.or(queue.settings.consumer_timeout);
        let timeout = timeout.filter(|timeout| *timeout > 0 && !no_ack);
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
            priority: asked.priority,
            prefetch,
            unsettled: 0,
            stopwatch: timeout.map(|timeout| Box::new(Stopwatch::new(timeout))),
        };
        let place = self.consumers.insert(consumer_id, consumer);
        if let Some(queue) = self.queues.get_mut(&id) {
            let taker = Taker {
                consumer: consumer_id,
                place,
            };
            queue.line.add(taker, asked.priority);
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
        let channel = self.channels.get(&key);
        let consumer = channel.and_then(|c| c.consumers.get(&consumer_tag).copied());
        if !self.cancel_replies(key, &consumer_tag)
            && let Some(consumer) = consumer
        {
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
        let Some(consumer) = self.take_consumer(id) else {
            return;
        };
        if let Some(channel) = self.channels.get_mut(&consumer.channel) {
            channel.consumers.remove(&consumer.tag);
        }
        let Some(queue) = self.queues.get_mut(&consumer.queue) else {
            return;
        };
        queue.line.remove(id);
        if let Some(groups) = &mut queue.groups {
            groups.left(id);
        }
        if consumer.exclusive {
            queue.exclusive_consumer = false;
        }
        if queue.line.is_unused() {
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
        for taker in queue.line.take_all() {
            let Some(consumer) = self.take_consumer(taker.consumer) else {
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
