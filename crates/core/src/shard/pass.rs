//! A transient message that a consumer takes as it comes never stands in the queue. Where it need
//! not be acknowledged no copy of it is made, and nothing is noted of it but that it went by.
//!
//! The outcome is that of entering the queue and going out at once.

use std::sync::Arc;

use menzil_model::fact::{Entries, Entry, Origin, Published};
use menzil_model::{DeliveryTag, Fact, Message, QueueId, Sequence};

use super::Shard;
use super::deliver::Takers;
use super::publish::write_chunks;
use crate::command::PublishRef;
use crate::consumer::Taker;
use crate::deliveries::Delivery;
use crate::effect::{Carried, DELIVERY_OVERHEAD_BYTES, Delivering};
use crate::queue::Item;
use crate::route::Route;
use crate::slots::Place;
use crate::turn::Turn;

/// A publish on its way to its queues.
pub(super) struct Passage<'a> {
    publish: &'a PublishRef<'a>,
    route: &'a Route,
    /// Bytes that a delivery of it counts.
    credit: u64,
    /// Made for the first who keeps it.
    message: Option<Arc<Message>>,
}

impl Shard {
    /// Hands a message to its queues, none of which writes it or can refuse it.
    pub(super) fn pass(&mut self, turn: &mut Turn<'_>, publish: &PublishRef<'_>, route: &Route) {
        self.counters.routed += 1;
        let mut passage = Passage {
            publish,
            route,
            credit: publish.total_bytes() + DELIVERY_OVERHEAD_BYTES,
            message: None,
        };
        let mut rest = Entries::new();
        for target in Self::targets(route) {
            if !self.hand_over(turn, &mut passage, target)
                && let Some(entry) = self.entry_for(turn, target, route)
            {
                rest.push(entry);
                self.touch_at(target.0, target.1);
            }
        }
        if rest.is_empty() {
            return;
        }
        let message = self.kept(&mut passage);
        let extent = write_chunks(turn, &message, 0);
        let published = Published {
            message: Some(message),
            extent,
            entries: rest,
        };
        self.record(turn, Fact::Published(published), false);
    }

    fn kept(&self, passage: &mut Passage<'_>) -> Arc<Message> {
        let (publish, route) = (passage.publish, passage.route);
        let made = || Arc::new(self.message_of(publish, route));
        Arc::clone(passage.message.get_or_insert_with(made))
    }

    /// The place that a message of that route gets at the end of the queue.
    pub(super) fn entry_for(
        &self,
        turn: &Turn<'_>,
        (id, place): (QueueId, Place),
        route: &Route,
    ) -> Option<Entry> {
        let queue = self.queues.at(place, id)?;
        let ttl = [route.ttl, queue.settings.message_ttl];
        let ttl = ttl.into_iter().flatten().min();
        Some(Entry {
            queue: id,
            sequence: Sequence(queue.next_sequence),
            expires_at: ttl.map(|ttl| turn.now.saturating_add(ttl)),
            durable: route.persistent && queue.definition.durable,
        })
    }

    /// Gives the message to the consumer whose turn it is, if no other message is before it.
    fn hand_over(
        &mut self,
        turn: &mut Turn<'_>,
        passage: &mut Passage<'_>,
        (id, place): (QueueId, Place),
    ) -> bool {
        let Some(queue) = self.queues.at_mut(place, id) else {
            return false;
        };
        if queue.index.ready_count() > 0 {
            return false;
        }
        let takers = Takers {
            consumers: &self.consumers,
            connections: &self.connections,
            channels: &self.channels,
        };
        let Some((taker, consumer)) = takers.next(queue) else {
            return false;
        };
        let (to, channel_place) = (consumer.channel, consumer.channel_place);
        let Some(channel) = self.channels.at_mut(channel_place, to) else {
            return false;
        };
        let delivery_tag = channel.next_tag();
        let connection = consumer.connection_place;
        if let Some(connection) = self.connections.at_mut(connection, to.connection) {
            connection.spend(passage.credit);
        }
        self.counters.delivered += 1;
        turn.effects.deliver(&Delivering {
            to,
            after: 0,
            consumer_tag: &consumer.tag,
            delivery_tag,
            redelivered: false,
            content: Carried::Passing {
                publish: passage.publish,
                envelope: passage.route.number,
            },
        });
        if consumer.no_ack {
            self.counters.acknowledged += 1;
            queue.next_sequence += 1;
            queue.counters.entered += 1;
            queue.counters.delivered += 1;
            queue.counters.acknowledged += 1;
        } else {
            self.went_out(turn, passage, (id, place), taker, delivery_tag);
        }
        true
    }

    /// Notes an entry that came and went out at once, to be settled later.
    fn went_out(
        &mut self,
        turn: &mut Turn<'_>,
        passage: &mut Passage<'_>,
        (id, place): (QueueId, Place),
        taker: Taker,
        tag: DeliveryTag,
    ) {
        let Some(entry) = self.entry_for(turn, (id, place), passage.route) else {
            return;
        };
        let message = self.kept(passage);
        let extent = write_chunks(turn, &message, 0);
        if let Some(queue) = self.queues.at_mut(place, id) {
            queue.next_sequence += 1;
            queue.counters.entered += 1;
            queue.counters.delivered += 1;
            queue.content.warm();
            let item = Item {
                sequence: entry.sequence,
                origin: Origin::default(),
                extent,
                expires_at: entry.expires_at,
                durable: false,
                redelivered: false,
            };
            queue.index.insert_out(item, message);
        }
        self.note_out(
            taker,
            Delivery {
                tag,
                queue: id,
                queue_place: place,
                sequence: entry.sequence,
                consumer: Some(taker),
            },
        );
        self.note_content(id, place);
    }
}
