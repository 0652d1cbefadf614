//! A transient message that a consumer takes as it comes never enters the queue: no copy of it
//! is made and nothing is noted of it but that it went by.
//!
//! The outcome is that of entering the queue, going out at once and being settled by that.

use menzil_model::fact::{Entries, Entry, Published};
use menzil_model::{Fact, QueueId, Sequence};

use std::sync::Arc;

use super::Shard;
use super::publish::write_chunks;
use crate::channel::Channel;
use crate::command::PublishRef;
use crate::effect::{Carried, DELIVERY_OVERHEAD_BYTES, Delivering};
use crate::route::Route;
use crate::slots::Place;
use crate::turn::Turn;

impl Shard {
    /// Hands a message to its queues, none of which writes it or can refuse it.
    pub(super) fn pass(&mut self, turn: &mut Turn<'_>, publish: &PublishRef<'_>, route: &Route) {
        self.counters.routed += 1;
        let credit = publish.total_bytes() + DELIVERY_OVERHEAD_BYTES;
        let mut rest = Entries::new();
        for (id, place) in Self::targets(route) {
            if !self.hand_over(turn, (publish, route.number), (id, place), credit)
                && let Some(entry) = self.entry_for(turn, (id, place), route)
            {
                rest.push(entry);
            }
        }
        if rest.is_empty() {
            return;
        }
        for (id, place) in Self::targets(route) {
            if rest.iter().any(|entry| entry.queue == id) {
                self.touch_at(id, place);
            }
        }
        let message = Arc::new(self.message_of(publish, route));
        let extent = write_chunks(turn, &message, 0);
        let message = Some(message);
        let published = Published {
            message,
            extent,
            entries: rest,
        };
        self.record(turn, Fact::Published(published), false);
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

    /// Gives the message to the consumer whose turn it is, if it is one that need not
    /// acknowledge and no other message is before it.
    fn hand_over(
        &mut self,
        turn: &mut Turn<'_>,
        (publish, envelope): (&PublishRef<'_>, u64),
        (id, place): (QueueId, Place),
        credit: u64,
    ) -> bool {
        let Some(queue) = self.queues.at_mut(place, id) else {
            return false;
        };
        if queue.index.ready_count() > 0 {
            return false;
        }
        let mut turns = 0;
        let consumer = loop {
            let Some(taker) = queue.consumers.get(turns) else {
                return false;
            };
            turns += 1;
            let Some(consumer) = self.consumers.at(taker.place, taker.consumer) else {
                continue;
            };
            let (place, to) = (consumer.connection_place, consumer.channel);
            let has_credit = self
                .connections
                .at(place, to.connection)
                .is_some_and(|connection| connection.credit > 0);
            let channel = self.channels.at(consumer.channel_place, to);
            if has_credit && consumer.has_room() && channel.is_some_and(Channel::has_room) {
                break consumer;
            }
        };
        if !consumer.no_ack {
            return false;
        }
        let to = consumer.channel;
        let Some(channel) = self.channels.at_mut(consumer.channel_place, to) else {
            return false;
        };
        let delivery_tag = channel.next_tag();
        if let Some(connection) = self
            .connections
            .at_mut(consumer.connection_place, to.connection)
        {
            connection.spend(credit);
        }
        if queue.consumers.len() > 1 {
            queue.consumers.rotate_left(turns);
        }
        queue.next_sequence += 1;
        queue.counters.entered += 1;
        queue.counters.delivered += 1;
        queue.counters.acknowledged += 1;
        self.counters.delivered += 1;
        self.counters.acknowledged += 1;
        turn.effects.deliver(&Delivering {
            to,
            after: 0,
            consumer_tag: &consumer.tag,
            delivery_tag,
            redelivered: false,
            content: Carried::Passing { publish, envelope },
        });
        true
    }
}
