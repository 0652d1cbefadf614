//! Handing ready entries to consumers.

use std::sync::Arc;

use menzil_model::{ConnectionId, Fact, Message, QueueId};

use super::{Connection, Shard};
use crate::channel::Channel;
use crate::command::ChannelKey;
use crate::consumer::{Consumer, ConsumerId, Taker};
use crate::deliveries::Delivery;
use crate::effect::{Carried, Delivering, credit_bytes};
use crate::queue::{Item, Queue};
use crate::slots::{Place, Slots};
use crate::turn::Turn;

/// Those who may take an entry, and what says whether they can.
pub(super) struct Takers<'a, 'b> {
    pub(super) consumers: &'a Slots<ConsumerId, Consumer>,
    pub(super) connections: &'b Slots<ConnectionId, Connection>,
    pub(super) channels: &'b Slots<ChannelKey, Channel>,
}

impl<'a> Takers<'a, '_> {
    /// The consumer of the queue whose turn it is, moved to the end of the line.
    #[inline]
    pub(super) fn next(&self, queue: &mut Queue) -> Option<(Taker, &'a Consumer)> {
        let mut turns = 0;
        let found = loop {
            let taker = *queue.consumers.get(turns)?;
            turns += 1;
            if let Some(consumer) = self.consumers.at(taker.place, taker.consumer)
                && self.can_take(consumer)
            {
                break (taker, consumer);
            }
        };
        if queue.consumers.len() > 1 {
            queue.consumers.rotate_left(turns);
        }
        Some(found)
    }

    /// Whether the consumer may have one more: its own prefetch, its channel's, and the
    /// credit of its connection.
    #[inline]
    fn can_take(&self, consumer: &Consumer) -> bool {
        let (key, connection) = (consumer.channel, consumer.connection_place);
        let connection = self.connections.at(connection, key.connection);
        let channel = self.channels.at(consumer.channel_place, key);
        consumer.has_room()
            && connection.is_some_and(|connection| connection.credit > 0)
            && channel.is_some_and(Channel::has_room)
    }
}

impl Shard {
    /// Whether the consumer may have one more.
    pub(super) fn can_take(&self, consumer: &Consumer) -> bool {
        self.takers().can_take(consumer)
    }

    fn takers(&self) -> Takers<'_, '_> {
        Takers {
            consumers: &self.consumers,
            connections: &self.connections,
            channels: &self.channels,
        }
    }

    /// The consumer whose turn it is, moved to the end of the line.
    fn next_consumer(&mut self, id: QueueId, place: Place) -> Option<Taker> {
        let takers = Takers {
            consumers: &self.consumers,
            connections: &self.connections,
            channels: &self.channels,
        };
        let queue = self.queues.at_mut(place, id)?;
        takers.next(queue).map(|(taker, _)| taker)
    }

    /// Delivers until the queue is empty, nobody can take more, or the head is not here.
    pub(super) fn pump(&mut self, turn: &mut Turn<'_>, id: QueueId, place: Place) {
        loop {
            let Some(queue) = self.queues.at(place, id) else {
                return;
            };
            if queue.consumers.is_empty() {
                return;
            }
            let Some(head) = queue.index.head() else {
                return;
            };
            if head.expires_at.is_some_and(|at| at < turn.now) {
                self.expire_now(turn, id);
                continue;
            }
            let Some(taker) = self.next_consumer(id, place) else {
                return;
            };
            if !self.has_content(turn, id, place) {
                self.give_turn_back(id);
                return;
            }
            self.deliver(turn, (id, place), taker);
        }
    }

    /// The consumer that was asked gets the next turn again.
    fn give_turn_back(&mut self, queue: QueueId) {
        if let Some(queue) = self.queues.get_mut(&queue) {
            queue.consumers.rotate_right(1);
        }
    }

    fn deliver(&mut self, turn: &mut Turn<'_>, (id, place): (QueueId, Place), taker: Taker) {
        let Some((item, after, content)) = self.take_out(turn, id, place) else {
            return;
        };
        let Some(queue) = self.queues.at(place, id) else {
            return;
        };
        let held = || queue.index.content_out(item.sequence);
        let Some(message) = content.as_ref().or_else(held) else {
            return;
        };
        let Some(consumer) = self.consumers.at_mut(taker.place, taker.consumer) else {
            return;
        };
        let key = consumer.channel;
        let no_ack = consumer.no_ack;
        let Some(channel) = self.channels.at_mut(consumer.channel_place, key) else {
            return;
        };
        let tag = channel.next_tag();
        if !no_ack {
            consumer.unsettled += 1;
            channel.consumed_unsettled += 1;
            channel.deliveries.insert(Delivery {
                tag,
                queue: id,
                queue_place: place,
                sequence: item.sequence,
                consumer: Some(taker),
            });
        }
        if let Some(connection) = self
            .connections
            .at_mut(consumer.connection_place, key.connection)
        {
            connection.spend(credit_bytes(message));
        }
        turn.effects.deliver(&Delivering {
            to: key,
            after,
            consumer_tag: &consumer.tag,
            delivery_tag: tag,
            redelivered: item.redelivered,
            content: Carried::Stored(message),
        });
        self.spare.keep(content);
        if no_ack {
            self.settle_unasked((id, place), item.sequence);
        }
    }

    /// Notes a delivery that its consumer is to settle.
    pub(super) fn note_out(&mut self, taker: Taker, delivery: Delivery) {
        let Some(consumer) = self.consumers.at_mut(taker.place, taker.consumer) else {
            return;
        };
        consumer.unsettled += 1;
        let (place, key) = (consumer.channel_place, consumer.channel);
        if let Some(channel) = self.channels.at_mut(place, key) {
            channel.consumed_unsettled += 1;
            channel.deliveries.insert(delivery);
        }
    }

    /// Content on its way to a connection uses its credit up.
    pub(super) fn take_credit(&mut self, connection: ConnectionId, message: &Message) {
        if let Some(connection) = self.connections.get_mut(&connection) {
            connection.spend(credit_bytes(message));
        }
    }

    /// Takes the head out of the queue, with the mark that says so in the journal first.
    /// Returns it, the index that its delivery waits for, and its message where the entry does
    /// not hold it any more.
    pub(super) fn take_out(
        &mut self,
        turn: &mut Turn<'_>,
        id: QueueId,
        place: Place,
    ) -> Option<(Item, u64, Option<Arc<Message>>)> {
        let queue = self.queues.at(place, id)?;
        let (sequence, durable) = queue
            .index
            .head()
            .map(|head| (head.sequence, head.durable))?;
        if durable && queue.mark.due(sequence).is_some() {
            self.reserve_delivering(turn, id, sequence);
        }
        let queue = self.queues.at_mut(place, id)?;
        let (item, content) = queue.index.take_head()?;
        queue.content.warm();
        queue.counters.delivered += 1;
        self.counters.delivered += 1;
        self.counters.redelivered += u64::from(item.redelivered);
        let after = if item.durable {
            queue.mark.deliver(item.sequence)
        } else {
            0
        };
        Some((item, after, content))
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
            .map(|channel| ChannelKey {
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
    pub(super) fn touch_queues_of(&mut self, key: ChannelKey) {
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
