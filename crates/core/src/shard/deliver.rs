//! Handing ready entries to consumers.

use std::sync::Arc;

use menzil_model::{ConnectionId, Fact, Message, QueueId, Sequence};

use super::returns::counted_properties;
use super::{Connection, Shard};
use crate::channel::Channel;
use crate::command::ChannelKey;
use crate::consumer::{Consumer, ConsumerId, Taker};
use crate::counters::Counters;
use crate::deliveries::Delivery;
use crate::effect::{Carried, Delivering, credit_bytes};
use crate::queue::{Body, Group, Item, Queue, Settled};
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
        let (at, taker, consumer) = self.find(queue)?;
        queue.line.has_turn(at);
        Some((taker, consumer))
    }

    /// The first consumer in the queue's line that can take one more, and where it stands.
    #[inline]
    pub(super) fn find(&self, queue: &Queue) -> Option<(usize, Taker, &'a Consumer)> {
        let mut at = 0;
        loop {
            let taker = *queue.line.takers().get(at)?;
            if let Some(consumer) = self.consumers.at(taker.place, taker.consumer)
                && self.can_take(consumer)
            {
                return Some((at, taker, consumer));
            }
            at += 1;
        }
    }

    /// Whether the consumer may have one more: its own prefetch, its channel's, and the
    /// credit of its connection.
    #[inline]
    pub(super) fn can_take(&self, consumer: &Consumer) -> bool {
        let (key, connection) = (consumer.channel, consumer.connection_place);
        let connection = self.connections.at(connection, key.connection);
        let channel = self.channels.at(consumer.channel_place, key);
        consumer.has_room()
            && connection.is_some_and(|connection| connection.credit > 0)
            && channel.is_some_and(Channel::has_room)
    }
}

/// What is to be done before a queue delivers more.
enum Halt {
    /// Nothing: it has no more that is here or nobody who could take it.
    End,
    /// Its messages are in groups.
    Grouped,
    /// Its head is to expire.
    Expired,
    /// The mark of deliveries is to be moved past this one.
    Mark(Sequence),
    /// The next messages are to be read; where it `waits`, the head is one of them.
    Ask { waits: bool },
}

impl Queue {
    /// Why the head cannot be delivered at once.
    #[inline]
    fn halt(&self, now: u64) -> Option<Halt> {
        let Some((head, body)) = self.index.next() else {
            return Some(Halt::End);
        };
        if head.expires_at.is_some_and(|at| at < now) {
            return Some(Halt::Expired);
        }
        match body {
            Body::Here if self.index.runs_low() => Some(Halt::Ask { waits: false }),
            Body::Here => (head.durable && self.mark.due(head.sequence).is_some())
                .then_some(Halt::Mark(head.sequence)),
            Body::Away => Some(Halt::Ask { waits: true }),
            Body::Asked => Some(Halt::End),
        }
    }
}

/// Who gets deliveries, and what counts them.
struct Receiver<'a> {
    taker: Taker,
    consumer: &'a mut Consumer,
    connection: &'a mut Connection,
    channel: &'a mut Channel,
}

/// What deliveries leave behind in the shard.
struct Outcome<'a> {
    counters: &'a mut Counters,
    unarmed: &'a mut Vec<ConsumerId>,
    settled: Settled<'a>,
}

impl<'a> Receiver<'a> {
    #[inline]
    fn find(
        taker: Taker,
        consumers: &'a mut Slots<ConsumerId, Consumer>,
        connections: &'a mut Slots<ConnectionId, Connection>,
        channels: &'a mut Slots<ChannelKey, Channel>,
    ) -> Option<Self> {
        let consumer = consumers.at_mut(taker.place, taker.consumer)?;
        let key = consumer.channel;
        Some(Self {
            taker,
            connection: connections.at_mut(consumer.connection_place, key.connection)?,
            channel: channels.at_mut(consumer.channel_place, key)?,
            consumer,
        })
    }

    /// As [`Takers::can_take`].
    #[inline]
    fn can_take(&self) -> bool {
        self.consumer.has_room() && self.connection.credit > 0 && self.channel.has_room()
    }

    /// Delivers the head of the queue, which is here.
    #[inline]
    fn deliver(
        &mut self,
        turn: &mut Turn<'_>,
        (queue, place): (&mut Queue, Place),
        outcome: &mut Outcome<'_>,
    ) {
        if let Some(taken) = queue.index.take_head() {
            self.hand(turn, (queue, place), outcome, taken);
        }
    }

    /// Hands over an entry that was taken out of the queue.
    #[inline]
    fn hand(
        &mut self,
        turn: &mut Turn<'_>,
        (queue, place): (&mut Queue, Place),
        outcome: &mut Outcome<'_>,
        (item, content): (Item, Option<Arc<Message>>),
    ) {
        queue.went_out(&item, outcome.counters);
        let after = queue.delivered(&item);
        let tag = self.channel.next_tag();
        let held = || queue.index.content_out(item.sequence);
        if let Some(message) = content.as_ref().or_else(held) {
            self.connection.spend(credit_bytes(message));
            let properties = counted_properties(&item, message);
            turn.effects.deliver(&Delivering {
                to: self.consumer.channel,
                after,
                consumer_tag: &self.consumer.tag,
                delivery_tag: tag,
                redelivered: item.redelivered,
                properties: properties.as_deref(),
                content: Carried::Stored(message),
            });
        }
        outcome.settled.spare.keep(content);
        if self.consumer.no_ack {
            if queue.acknowledge_unasked(item.sequence, &mut outcome.settled) {
                outcome.counters.acknowledged += 1;
            }
            return;
        }
        if self.consumer.went_out(tag, turn.now) {
            outcome.unarmed.push(self.taker.consumer);
        }
        self.channel.consumed_unsettled += 1;
        self.channel.deliveries.insert(Delivery {
            tag,
            queue: queue.definition.id,
            queue_place: place,
            sequence: item.sequence,
            consumer: Some(self.taker),
        });
    }
}

impl Shard {
    /// Whether the consumer may have one more.
    pub(super) fn can_take(&self, consumer: &Consumer) -> bool {
        self.takers().can_take(consumer)
    }

    pub(super) fn takers(&self) -> Takers<'_, '_> {
        Takers {
            consumers: &self.consumers,
            connections: &self.connections,
            channels: &self.channels,
        }
    }

    /// Delivers until the queue is empty, nobody can take more, or the head is not here.
    pub(super) fn pump(&mut self, turn: &mut Turn<'_>, id: QueueId, place: Place) {
        if self.over.has(id) {
            return;
        }
        loop {
            match self.hand_out(turn, id, place) {
                Halt::End => return,
                Halt::Grouped => return self.pump_grouped(turn, id, place),
                Halt::Expired => {
                    if !self.expire_now(turn, id) {
                        return;
                    }
                }
                Halt::Mark(sequence) => self.reserve_delivering(turn, id, sequence),
                Halt::Ask { waits } => {
                    self.ask(turn, id);
                    if waits {
                        return;
                    }
                }
            }
        }
    }

    /// Delivers until something else is to be done first. While it is the turn of one consumer,
    /// it and what it hangs on are looked up once.
    fn hand_out(&mut self, turn: &mut Turn<'_>, id: QueueId, place: Place) -> Halt {
        let Some(queue) = self.queues.at_mut(place, id) else {
            return Halt::End;
        };
        if queue.line.is_special() {
            let consumers = &self.consumers;
            queue.line.elect(|taker| {
                let consumer = consumers.at(taker.place, taker.consumer);
                consumer.is_some_and(|consumer| consumer.unsettled > 0)
            });
            if queue.groups.is_some() {
                return Halt::Grouped;
            }
        }
        while !queue.line.takers().is_empty() {
            let halt = queue.halt(turn.now);
            if let Some(Halt::End | Halt::Expired) = halt {
                return halt.unwrap_or(Halt::End);
            }
            let takers = Takers {
                consumers: &self.consumers,
                connections: &self.connections,
                channels: &self.channels,
            };
            let Some((at, taker, _)) = takers.find(queue) else {
                return Halt::End;
            };
            if let Some(halt) = halt {
                // The consumer gets the next turn.
                queue.line.is_next(at);
                return halt;
            }
            queue.line.has_turn(at);
            let is_alone = queue.line.takers().len() == 1;
            let Some(mut receiver) = Receiver::find(
                taker,
                &mut self.consumers,
                &mut self.connections,
                &mut self.channels,
            ) else {
                return Halt::End;
            };
            let mut outcome = Outcome {
                counters: &mut self.counters,
                unarmed: &mut self.unarmed,
                settled: Settled {
                    releases: &mut self.releases,
                    spare: &mut self.spare,
                    settling: &mut self.settling,
                },
            };
            loop {
                receiver.deliver(turn, (queue, place), &mut outcome);
                if !is_alone || !receiver.can_take() {
                    break;
                }
                if let Some(halt) = queue.halt(turn.now) {
                    return halt;
                }
            }
        }
        Halt::End
    }

    /// Gives a consumer an entry of a group, whose message is here. False where it could not be.
    pub(super) fn give(
        &mut self,
        turn: &mut Turn<'_>,
        (id, place): (QueueId, Place),
        (sequence, group): (Sequence, Group),
        taker: Taker,
    ) -> bool {
        let Some(mut receiver) = Receiver::find(
            taker,
            &mut self.consumers,
            &mut self.connections,
            &mut self.channels,
        ) else {
            return false;
        };
        let Some(queue) = self.queues.at_mut(place, id) else {
            return false;
        };
        let Some(taken) = queue.index.take_out(sequence) else {
            return false;
        };
        if let Some(groups) = &mut queue.groups {
            let holder = (!receiver.consumer.no_ack).then_some(taker.consumer);
            groups.went_out(sequence, group, holder);
        }
        let mut outcome = Outcome {
            counters: &mut self.counters,
            unarmed: &mut self.unarmed,
            settled: Settled {
                releases: &mut self.releases,
                spare: &mut self.spare,
                settling: &mut self.settling,
            },
        };
        receiver.hand(turn, (queue, place), &mut outcome, taken);
        true
    }

    /// Notes a delivery that its consumer is to settle.
    pub(super) fn note_out(&mut self, now: u64, taker: Taker, delivery: Delivery) {
        let Some(consumer) = self.consumers.at_mut(taker.place, taker.consumer) else {
            return;
        };
        let is_unarmed = consumer.went_out(delivery.tag, now);
        let (place, key) = (consumer.channel_place, consumer.channel);
        if is_unarmed {
            self.unarmed.push(taker.consumer);
            self.touch_at(delivery.queue, delivery.queue_place);
        }
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

    /// Takes an entry out of the queue, the head or `which`, with the mark that says so in the journal first.
    /// Returns it, the index that its delivery waits for, and its message where the entry does
    /// not hold it any more.
    pub(super) fn take_out(
        &mut self,
        turn: &mut Turn<'_>,
        (id, place): (QueueId, Place),
        which: Option<(Sequence, Group)>,
    ) -> Option<(Item, u64, Option<Arc<Message>>)> {
        let queue = self.queues.at_mut(place, id)?;
        let item = match which {
            None => queue.index.head().copied(),
            Some((sequence, _)) => queue.index.entry(sequence).map(|(item, ..)| item),
        };
        let (sequence, durable) = item.map(|item| (item.sequence, item.durable))?;
        if durable && queue.mark.due(sequence).is_some() {
            self.reserve_delivering(turn, id, sequence);
        }
        let queue = self.queues.at_mut(place, id)?;
        let (item, content) = match which {
            None => queue.index.take_head()?,
            Some(_) => queue.index.take_out(sequence)?,
        };
        if let (Some((_, group)), Some(groups)) = (which, &mut queue.groups) {
            groups.went_out(sequence, group, None);
        }
        queue.went_out(&item, &mut self.counters);
        Some((item, queue.delivered(&item), content))
    }

    /// Renews the room that deliveries have in the journal where it runs short.
    pub(super) fn reserve_delivering(
        &mut self,
        turn: &mut Turn<'_>,
        id: QueueId,
        sequence: Sequence,
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
        if let Some((session, place)) = connection.session {
            self.touch_at(session, place);
        }
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
