//! The usual way of a message: to queues without limits, which cannot refuse it.
//!
//! It is looked at where it lies. What the journal is to have is written from there, and a
//! consumer that takes it as it comes gets it from there: the entry never stands in the queue. A
//! copy is made only for who keeps it: a queue, or for a transient message the list of what is
//! out with consumers. The outcome is that of entering the queues and going out of them again.

use std::sync::Arc;

use menzil_model::fact::{Chunks, Entries, Entry, Extent, Origin, PublishedRef};
use menzil_model::{DeliveryTag, Message, QueueId, Sequence};

use super::Shard;
use super::deliver::Takers;
use crate::channel::Mode;
use crate::command::{Body, ChannelKey, PublishRef};
use crate::consumer::Taker;
use crate::deliveries::Delivery;
use crate::effect::{Carried, DELIVERY_OVERHEAD_BYTES, Delivering};
use crate::queue::Item;
use crate::route::Route;
use crate::slots::Place;
use crate::spare::Spare;
use crate::turn::Turn;

/// A publish on its way to its queues.
struct Passage<'a> {
    publish: &'a PublishRef<'a>,
    route: &'a Route,
    body: &'a [u8],
    extent: Extent,
    /// Where it is written; index 0 where it is not.
    origin: Origin,
    /// Made for the first who keeps it.
    message: Option<Arc<Message>>,
}

impl<'a> Passage<'a> {
    /// `None` where the body is not in one piece, or too large for one record.
    #[inline]
    fn of(publish: &'a PublishRef<'a>, route: &'a Route, chunk_bytes: usize) -> Option<Self> {
        let body = match publish.body {
            Body::Whole(body) if body.len() <= chunk_bytes => body,
            Body::Whole(_) | Body::Parts(_) => return None,
        };
        let extent = Extent {
            body_bytes: body.len() as u64,
            total_bytes: publish.total_bytes(),
            chunks: Chunks::default(),
        };
        Some(Self {
            publish,
            route,
            body,
            extent,
            origin: Origin::default(),
            message: None,
        })
    }

    fn message(&mut self, spare: &mut Spare) -> Arc<Message> {
        // Where only one can want it, a second hold on it would be let go for nothing.
        if self.route.targets.len() == 1 {
            return spare.message(self.publish);
        }
        let made = || spare.message(self.publish);
        Arc::clone(self.message.get_or_insert_with(made))
    }

    #[inline]
    fn item(&self, entry: &Entry) -> Item {
        Item {
            sequence: entry.sequence,
            origin: self.origin,
            extent: self.extent,
            expires_at: entry.expires_at,
            durable: entry.durable,
            redelivered: false,
            failed: 0,
            acquired: 0,
        }
    }
}

impl Shard {
    /// Lets a publish whose way is known, from the last one of its channel or from one to the
    /// same place, go there, if that is the usual way. False where it has to go another, and
    /// nothing has happened.
    #[inline]
    pub(super) fn pass_again(
        &mut self,
        turn: &mut Turn<'_>,
        (key, place): (ChannelKey, Place),
        publish: &PublishRef<'_>,
    ) -> bool {
        let generation = self.topology.generation();
        let Some(open) = self.channels.at_mut(place, key) else {
            return false;
        };
        let confirm = match &open.mode {
            Mode::Plain => None,
            Mode::Confirm { last } => Some(last + 1),
            Mode::Transaction(_) => return false,
        };
        if open.parked.is_some() {
            return false;
        }
        let Some(last) = &mut open.route else {
            return false;
        };
        if !last.is_for(generation, publish) {
            if !last.is_plain || !last.has_properties_of(publish) {
                return false;
            }
            let place = (publish.exchange, publish.routing_key);
            let Some(way) = self.ways.find(generation, place) else {
                return false;
            };
            self.next_route += 1;
            last.restart(self.next_route, generation, publish);
            last.take(way);
            last.complete();
        }
        if !last.is_usual {
            return false;
        }
        let Some(route) = open.route.take() else {
            return false;
        };
        let has_passed = self.pass(turn, key, publish, &route, confirm);
        self.counters.published += u64::from(has_passed);
        if let Some(open) = self.channels.at_mut(place, key) {
            open.route = Some(route);
            if let Mode::Confirm { last } = &mut open.mode {
                *last += u64::from(has_passed);
            }
        }
        has_passed
    }

    /// Lets a message that is to be stored as it came go to queues that cannot refuse it; false
    /// where they have to be asked, and nothing has happened.
    #[inline]
    pub(super) fn pass(
        &mut self,
        turn: &mut Turn<'_>,
        key: ChannelKey,
        publish: &PublishRef<'_>,
        route: &Route,
        confirm: Option<u64>,
    ) -> bool {
        let Some(mut passage) = Passage::of(publish, route, self.settings.chunk_bytes) else {
            return false;
        };
        if route.is_durable && !self.depart(turn, &mut passage, confirm.is_some()) {
            return false;
        }
        self.confirm(turn, key, confirm, passage.origin.index, true);
        self.counters.routed += u64::from(!route.is_unroutable());
        for target in &route.targets {
            self.bring(turn, &mut passage, *target);
        }
        true
    }

    /// Writes the message to the journal. False where there is no room for it.
    fn depart(
        &mut self,
        turn: &mut Turn<'_>,
        passage: &mut Passage<'_>,
        is_confirmed: bool,
    ) -> bool {
        if !turn.log.has_room(passage.extent.total_bytes) {
            return false;
        }
        let (publish, route) = (passage.publish, passage.route);
        let targets = route.targets.iter();
        let entries: Entries = targets
            .filter_map(|target| self.entry_for(turn, *target, route))
            .collect();
        let published = PublishedRef {
            exchange: publish.exchange,
            routing_key: publish.routing_key,
            properties: publish.properties,
            notes: &[],
            body: passage.body,
            extent: passage.extent,
            entries: &entries,
        };
        let references = u32::try_from(entries.len()).unwrap_or(u32::MAX);
        if is_confirmed {
            // Its confirm is to say that what was settled before it is on disk too.
            self.settling.write(turn.log);
        } else {
            self.settling.write_asked(turn.log);
        }
        passage.origin.index = turn.log.append_published(&published, references);
        true
    }

    /// Hands the message to one of its queues.
    #[inline]
    fn bring(&mut self, turn: &mut Turn<'_>, passage: &mut Passage<'_>, target: (QueueId, Place)) {
        if !self.hand_over(turn, passage, target)
            && let Some(entry) = self.entry_for(turn, target, passage.route)
        {
            self.enter(passage, target, &entry);
        }
    }

    /// The message takes its place in the queue.
    fn enter(&mut self, passage: &mut Passage<'_>, (id, place): (QueueId, Place), entry: &Entry) {
        let Some(queue) = self.queues.at_mut(place, id) else {
            return;
        };
        let had_ready = queue.index.ready_count() > 0;
        if passage.route.has_terms {
            queue.note_place(entry.sequence);
        } else {
            queue.next_sequence = entry.sequence.0 + 1;
        }
        queue.counters.entered += 1;
        let reach = self.content.reach(!queue.line.is_unused());
        let item = passage.item(entry);
        queue
            .index
            .insert_with(item, reach, || Some(passage.message(&mut self.spare)));
        if id.is_store() && queue.is_read() {
            let message = passage.message(&mut self.spare);
            self.arrived.push((id, item, message));
        }
        // One of a higher priority may go ahead of those that are being read.
        let is_behind = had_ready && queue.settings.priority_max == 0;
        if is_behind && entry.expires_at.is_none() && !id.is_store() {
            // Whoever could take one would have taken the one before it.
            if item.is_stored() {
                self.note_content(id, place);
            }
        } else {
            self.touch_at(id, place);
        }
    }

    /// The place that a message of that route gets at the end of the queue.
    pub(super) fn entry_for(
        &self,
        turn: &Turn<'_>,
        (id, place): (QueueId, Place),
        route: &Route,
    ) -> Option<Entry> {
        let queue = self.queues.at(place, id)?;
        let (sequence, expires_at) = if route.has_terms {
            let expires_at = queue.expires_at(turn.now, route.ttl);
            (queue.place(route.priority, turn.now, 0), expires_at)
        } else {
            (Sequence(queue.next_sequence), None)
        };
        Some(Entry {
            queue: id,
            sequence,
            expires_at,
            durable: route.persistent && queue.is_durable(),
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
        if queue.index.ready_count() > 0 || queue.line.takers().is_empty() {
            return false;
        }
        let sequence = if passage.route.has_terms {
            queue.place(passage.route.priority, turn.now, 0)
        } else {
            Sequence(queue.next_sequence)
        };
        let durable = passage.origin.index != 0 && queue.is_durable();
        // Where the mark of deliveries is to be moved first, the long way does it.
        if durable && queue.mark.due(sequence).is_some() {
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
        let to = consumer.channel;
        let Some(channel) = self.channels.at_mut(consumer.channel_place, to) else {
            return false;
        };
        let delivery_tag = channel.next_tag();
        let after = if durable {
            queue.mark.deliver(sequence)
        } else {
            0
        };
        queue.next_sequence += 1;
        queue.counters.entered += 1;
        queue.counters.delivered += 1;
        self.counters.delivered += 1;
        let connection = consumer.connection_place;
        if let Some(connection) = self.connections.at_mut(connection, to.connection) {
            connection.spend(passage.extent.total_bytes + DELIVERY_OVERHEAD_BYTES);
        }
        turn.effects.deliver(&Delivering {
            to,
            after,
            consumer_tag: &consumer.tag,
            delivery_tag,
            redelivered: false,
            properties: None,
            content: Carried::Passing {
                publish: passage.publish,
                envelope: passage.route.number,
            },
        });
        if consumer.no_ack && passage.origin.index == 0 {
            queue.counters.acknowledged += 1;
            self.counters.acknowledged += 1;
            return true;
        }
        let entry = Entry {
            queue: id,
            sequence,
            expires_at: queue.expires_at(turn.now, passage.route.ttl),
            durable,
        };
        if consumer.no_ack {
            queue.counters.acknowledged += 1;
            self.counters.acknowledged += 1;
            self.releases.entry(&passage.item(&entry));
            if durable {
                self.settling.add_unasked(id, sequence);
            }
        } else {
            self.go_out(
                turn.now,
                passage,
                (id, place),
                &entry,
                (taker, delivery_tag),
            );
        }
        true
    }

    /// Notes an entry that came and went out at once, to be settled later.
    #[inline]
    fn go_out(
        &mut self,
        now: u64,
        passage: &mut Passage<'_>,
        (id, place): (QueueId, Place),
        entry: &Entry,
        (taker, tag): (Taker, DeliveryTag),
    ) {
        let item = passage.item(entry);
        let message = (!item.is_stored()).then(|| passage.message(&mut self.spare));
        if let Some(queue) = self.queues.at_mut(place, id) {
            queue.content.warm();
            queue.index.insert_out(item, message);
        }
        let delivery = Delivery {
            tag,
            queue: id,
            queue_place: place,
            sequence: entry.sequence,
            consumer: Some(taker),
        };
        self.note_out(now, taker, delivery);
    }
}
