//! Handing ready entries to consumers.

use std::sync::Arc;

use menzil_model::fact::Why;
use menzil_model::{ConnectionId, Fact, Message, QueueId};

use super::Shard;
use crate::consumer::{Consumer, ConsumerId};
use crate::deliveries::Delivery;
use crate::effect::{Output, credit_bytes};
use crate::queue::Item;
use crate::turn::Turn;

impl Shard {
    /// Whether the consumer may have one more: its own prefetch, its channel's, and the
    /// credit of its connection.
    pub(super) fn can_take(&self, consumer: &Consumer) -> bool {
        consumer.has_room()
            && self
                .connections
                .get(&consumer.channel.connection)
                .is_some_and(|c| c.credit > 0)
            && self
                .channels
                .get(&consumer.channel)
                .is_some_and(crate::channel::Channel::has_room)
    }

    /// The consumer whose turn it is, moved to the end of the line.
    fn next_consumer(&mut self, queue: QueueId) -> Option<ConsumerId> {
        let waiting = self.queues.get(&queue)?.consumers.len();
        for _ in 0..waiting {
            let first = {
                let queue = self.queues.get_mut(&queue)?;
                queue.consumers.rotate_left(1);
                *queue.consumers.back()?
            };
            if self
                .consumers
                .get(&first)
                .is_some_and(|consumer| self.can_take(consumer))
            {
                return Some(first);
            }
        }
        None
    }

    /// Delivers until the queue is empty, nobody can take more, or the head is not here.
    pub(super) fn pump(&mut self, turn: &mut Turn<'_>, id: QueueId) {
        loop {
            let Some(queue) = self.queues.get(&id).filter(|q| !q.consumers.is_empty()) else {
                return;
            };
            let Some(head) = queue.index.head() else {
                return;
            };
            if head.expires_at.is_some_and(|at| at < turn.now) {
                self.expire_now(turn, id);
                continue;
            }
            let Some(consumer) = self.next_consumer(id) else {
                return;
            };
            let Some(message) = self.content_of(turn, id) else {
                self.give_turn_back(id);
                return;
            };
            self.deliver(turn, id, consumer, &message);
        }
    }

    /// The consumer that was asked gets the next turn again.
    fn give_turn_back(&mut self, queue: QueueId) {
        if let Some(queue) = self.queues.get_mut(&queue) {
            queue.consumers.rotate_right(1);
        }
    }

    fn deliver(
        &mut self,
        turn: &mut Turn<'_>,
        id: QueueId,
        consumer_id: ConsumerId,
        message: &Arc<Message>,
    ) {
        let Some((item, after)) = self.take_out(turn, id) else {
            return;
        };
        let Some(consumer) = self.consumers.get_mut(&consumer_id) else {
            return;
        };
        let key = consumer.channel;
        let consumer_tag = consumer.tag.clone();
        let no_ack = consumer.no_ack;
        let Some(channel) = self.channels.get_mut(&key) else {
            return;
        };
        let tag = channel.next_tag();
        if !no_ack {
            consumer.unsettled += 1;
            channel.consumed_unsettled += 1;
            channel.deliveries.insert(Delivery {
                tag,
                queue: id,
                sequence: item.sequence,
                consumer: Some(consumer_id),
            });
        }
        self.take_credit(key.connection, message);
        let message = Arc::clone(message);
        let redelivered = item.redelivered;
        let output = Output::Deliver {
            consumer_tag,
            delivery_tag: tag,
            redelivered,
            message,
        };
        turn.send(key, after, output);
        if no_ack {
            self.settle(id, item.sequence, item.durable, Why::Acknowledged);
        }
    }

    /// Content on its way to a connection uses its credit up.
    pub(super) fn take_credit(&mut self, connection: ConnectionId, message: &Message) {
        if let Some(connection) = self.connections.get_mut(&connection) {
            let bytes = i64::try_from(credit_bytes(message)).unwrap_or(i64::MAX);
            connection.credit = connection.credit.saturating_sub(bytes);
        }
    }

    /// Takes the head out of the queue, with the mark that says so in the journal first.
    /// Returns it and the index that its delivery waits for.
    pub(super) fn take_out(&mut self, turn: &mut Turn<'_>, id: QueueId) -> Option<(Item, u64)> {
        let head = *self.queues.get(&id)?.index.head()?;
        if head.durable {
            self.reserve_delivering(turn, id, head.sequence);
        }
        let queue = self.queues.get_mut(&id)?;
        let item = queue.index.take_head()?;
        queue.content.warm();
        queue.counters.delivered += 1;
        self.counters.delivered += 1;
        self.counters.redelivered += u64::from(item.redelivered);
        let after = if item.durable {
            queue.mark.deliver(item.sequence)
        } else {
            0
        };
        Some((item, after))
    }

    /// Renews the room that deliveries have in the journal where it runs short.
    pub(super) fn reserve_delivering(
        &mut self,
        turn: &mut Turn<'_>,
        id: QueueId,
        sequence: menzil_model::Sequence,
    ) {
        if let Some(below) = self
            .queues
            .get(&id)
            .and_then(|queue| queue.mark.due(sequence))
        {
            self.record(turn, Fact::Delivering { queue: id, below }, true);
        }
    }

    /// Output left a connection: its consumers may have more.
    pub(super) fn drained(&mut self, turn: &mut Turn<'_>, id: ConnectionId, bytes: u64) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let was_blocked = connection.credit <= 0;
        connection.credit = connection
            .credit
            .saturating_add(i64::try_from(bytes).unwrap_or(i64::MAX))
            .min(i64::try_from(self.settings.credit_bytes).unwrap_or(i64::MAX));
        if !was_blocked {
            return;
        }
        let keys: Vec<_> = connection
            .channels
            .iter()
            .map(|channel| crate::command::ChannelKey {
                connection: id,
                channel: *channel,
            })
            .collect();
        for key in keys {
            self.touch_queues_of(key);
        }
        self.resume_connection(turn, id);
    }

    /// Touches every queue that the channel consumes from.
    pub(super) fn touch_queues_of(&mut self, key: crate::command::ChannelKey) {
        let Some(channel) = self.channels.get(&key) else {
            return;
        };
        let queues: Vec<_> = channel
            .consumers
            .values()
            .filter_map(|consumer| self.consumers.get(consumer))
            .map(|consumer| consumer.queue)
            .collect();
        for queue in queues {
            self.touch(queue);
        }
    }
}
