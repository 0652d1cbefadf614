//! Handing ready entries to consumers.

use std::sync::Arc;

use menzil_model::fact::{Origin, Why};
use menzil_model::{ConnectionId, Fact, Message, QueueId};

use super::Shard;
use crate::consumer::{Consumer, Taker};
use crate::deliveries::Delivery;
use crate::effect::{Carried, Delivering, Effect, credit_bytes};
use crate::queue::Item;
use crate::slots::Place;
use crate::store::Content;
use crate::turn::Turn;

/// Entries behind the head that are fetched with it.
const FETCH_AHEAD: usize = 16;

impl Shard {
    /// Whether the consumer may have one more: its own prefetch, its channel's, and the
    /// credit of its connection.
    pub(super) fn can_take(&self, consumer: &Consumer) -> bool {
        let key = consumer.channel;
        consumer.has_room()
            && self
                .connections
                .at(consumer.connection_place, key.connection)
                .is_some_and(|c| c.credit > 0)
            && self
                .channels
                .at(consumer.channel_place, key)
                .is_some_and(crate::channel::Channel::has_room)
    }

    /// The consumer whose turn it is, moved to the end of the line.
    fn next_consumer(&mut self, id: QueueId, place: Place) -> Option<Taker> {
        let queue = self.queues.at(place, id)?;
        let can_take = |taker: &Taker| {
            self.consumers
                .at(taker.place, taker.consumer)
                .is_some_and(|consumer| self.can_take(consumer))
        };
        let turns = queue.consumers.iter().position(can_take)?;
        let queue = self.queues.at_mut(place, id)?;
        if queue.consumers.len() > 1 {
            queue.consumers.rotate_left(turns + 1);
        }
        queue.consumers.back().copied()
    }

    /// Delivers until the queue is empty, nobody can take more, or the head is not here.
    pub(super) fn pump(&mut self, turn: &mut Turn<'_>, id: QueueId, place: Place) {
        loop {
            let Some(queue) = self.queues.at(place, id) else {
                return;
            };
            if queue.consumers.is_empty() || queue.index.ready_count() == 0 {
                return;
            }
            let Some(head) = queue.index.head().copied() else {
                return;
            };
            if head.expires_at.is_some_and(|at| at < turn.now) {
                self.expire_now(turn, id);
                continue;
            }
            let Some(taker) = self.next_consumer(id, place) else {
                return;
            };
            let Some(message) = self.content_of(turn, id, &head) else {
                self.give_turn_back(id);
                return;
            };
            self.deliver(turn, (id, place), taker, &message);
        }
    }

    /// The consumer that was asked gets the next turn again.
    fn give_turn_back(&mut self, queue: QueueId) {
        if let Some(queue) = self.queues.get_mut(&queue) {
            queue.consumers.rotate_right(1);
        }
    }

    /// The content of a ready entry; asks the driver for it where it is not in memory.
    pub(super) fn content_of(
        &mut self,
        turn: &mut Turn<'_>,
        queue: QueueId,
        item: &Item,
    ) -> Option<Arc<Message>> {
        match self.store.content(item.message, queue) {
            Content::Here(message) => Some(message),
            Content::Underway => None,
            Content::Fetch { origin, chunks } => {
                turn.effects.effect(Effect::Fetch { origin, chunks });
                self.fetch_ahead(turn, queue);
                None
            }
            Content::Gone => {
                debug_assert!(false, "an entry names a message that is not there");
                None
            }
        }
    }

    fn fetch_ahead(&mut self, turn: &mut Turn<'_>, id: QueueId) {
        let Some(queue) = self.queues.get(&id) else {
            return;
        };
        // Well below what memory may hold: what is dropped before its turn is read twice.
        let mut room = self.store.content_bytes_max() / 2;
        let next: Vec<_> = queue
            .index
            .ready()
            .skip(1)
            .take(FETCH_AHEAD)
            .map(|item| item.message)
            .take_while(|message| {
                let bytes = self.store.total_bytes(*message);
                let fits = bytes <= room;
                room = room.saturating_sub(bytes);
                fits
            })
            .collect();
        for message in next {
            if let Content::Fetch { origin, chunks } = self.store.content(message, id) {
                turn.effects.effect(Effect::Fetch { origin, chunks });
            }
        }
    }

    fn deliver(
        &mut self,
        turn: &mut Turn<'_>,
        (id, place): (QueueId, Place),
        taker: Taker,
        message: &Arc<Message>,
    ) {
        let Some((item, after)) = self.take_out(turn, id, place) else {
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
        if no_ack {
            self.settle(id, item.sequence, item.durable, Why::Acknowledged);
        }
    }

    /// Content on its way to a connection uses its credit up.
    pub(super) fn take_credit(&mut self, connection: ConnectionId, message: &Message) {
        if let Some(connection) = self.connections.get_mut(&connection) {
            connection.spend(credit_bytes(message));
        }
    }

    /// Takes the head out of the queue, with the mark that says so in the journal first.
    /// Returns it and the index that its delivery waits for.
    pub(super) fn take_out(
        &mut self,
        turn: &mut Turn<'_>,
        id: QueueId,
        place: Place,
    ) -> Option<(Item, u64)> {
        let queue = self.queues.at(place, id)?;
        let (sequence, durable) = queue
            .index
            .head()
            .map(|head| (head.sequence, head.durable))?;
        if durable && queue.mark.due(sequence).is_some() {
            self.reserve_delivering(turn, id, sequence);
        }
        let queue = self.queues.at_mut(place, id)?;
        let item = queue.index.take_head()?;
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

    /// Takes in a message that was read from the journal.
    pub(super) fn fetched(
        &mut self,
        turn: &mut Turn<'_>,
        origin: Origin,
        message: Option<Arc<Message>>,
    ) {
        self.counters.fetched += 1;
        let (waiting, damaged) = self.store.fetched(origin, message);
        if let Some(message) = damaged {
            self.drop_damaged(turn, message, &waiting);
        }
        for queue in &waiting {
            self.touch(*queue);
        }
        self.resume_parked(turn, &waiting);
    }

    /// The record of a message cannot be read: its entries go, and are counted. Looked for only
    /// where they were asked for, near the head; elsewhere their turn comes too.
    fn drop_damaged(
        &mut self,
        turn: &mut Turn<'_>,
        message: crate::store::MessageId,
        waiting: &[QueueId],
    ) {
        let mut gone = Vec::new();
        for id in waiting {
            let Some(queue) = self.queues.get(id) else {
                continue;
            };
            let near = queue.index.ready().take(2 * FETCH_AHEAD);
            gone.extend(
                near.filter(|item| item.message == message)
                    .map(|item| (*id, item.sequence, item.durable)),
            );
        }
        gone.sort_unstable_by_key(|(queue, sequence, _)| (*queue, *sequence));
        for (queue, sequence, durable) in gone {
            let range = menzil_model::fact::Range {
                first: sequence,
                last: sequence,
            };
            let ranges = menzil_model::fact::Ranges::from_slice(&[range]);
            let fact = Fact::Settled {
                queue,
                ranges,
                why: Why::Damaged,
            };
            self.record(turn, fact, durable);
            self.touch(queue);
        }
    }
}
