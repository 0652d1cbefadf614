//! Acknowledge, reject, recover: what becomes of deliveries.

use menzil_model::fact::Why;
use menzil_model::{DeliveryTag, QueueId};

use super::Shard;
use crate::channel::{Channel, HeldSettle, Mode, Verdict};
use crate::command::{ChannelKey, Rejection};
use crate::death::Reason;
use crate::deliveries::Delivery;
use crate::effect::Reply;
use crate::queue::{Queue, Settled};
use crate::refusal::Refusal;
use crate::slots::Place;
use crate::turn::Turn;

impl Shard {
    pub(super) fn acknowledge(
        &mut self,
        turn: &mut Turn<'_>,
        key: ChannelKey,
        tag: DeliveryTag,
        multiple: bool,
    ) -> Result<(), Refusal> {
        self.settle_tags(turn, key, tag, multiple, Verdict::Acknowledge)
    }

    /// Acknowledges deliveries one after the other, up to the first that is none. Mostly they
    /// are of one queue and one consumer, which are looked up when they change.
    pub(super) fn acknowledge_run(
        &mut self,
        turn: &mut Turn<'_>,
        key: ChannelKey,
        tags: &[DeliveryTag],
    ) -> Result<(), Refusal> {
        let Some(place) = self.channel_place(key) else {
            return Ok(());
        };
        let Some(channel) = self.channels.at_mut(place, key) else {
            return Ok(());
        };
        if channel.prefetch_channel != 0 || matches!(channel.mode, Mode::Transaction(_)) {
            for tag in tags {
                self.acknowledge(turn, key, *tag, false)?;
            }
            return Ok(());
        }
        let mut rest = tags.iter();
        let mut next = take_next(channel, &mut rest)?;
        while let Some(first) = next {
            let Some(channel) = self.channels.at_mut(place, key) else {
                return Ok(());
            };
            let mut queue = self.queues.at_mut(first.queue_place, first.queue);
            let taker = first.consumer;
            let mut consumer =
                taker.and_then(|taker| self.consumers.at_mut(taker.place, taker.consumer));
            let mut settled = Settled {
                releases: &mut self.releases,
                spare: &mut self.spare,
                settling: &mut self.settling,
            };
            let mut delivery = first;
            let refusal = loop {
                if taker.is_some() {
                    channel.consumed_unsettled -= 1;
                } else if let Some(got) = &mut channel.got {
                    got.settled(delivery.queue, delivery.tag);
                }
                if let Some(consumer) = &mut consumer {
                    consumer.came_back(delivery.tag);
                }
                if let Some(queue) = &mut queue
                    && queue.acknowledge(delivery.sequence, &mut settled)
                {
                    self.counters.acknowledged += 1;
                }
                match take_next(channel, &mut rest) {
                    Ok(Some(other)) if first.is_like(&other) => delivery = other,
                    Ok(other) => {
                        next = other;
                        break None;
                    }
                    Err(refusal) => break Some(refusal),
                }
            };
            let frees_group = queue.is_some_and(|queue| queue.groups.is_some());
            if consumer.is_some() || frees_group {
                self.touch_at(first.queue, first.queue_place);
            }
            if let Some(refusal) = refusal {
                return Err(refusal);
            }
        }
        Ok(())
    }

    pub(super) fn reject(
        &mut self,
        turn: &mut Turn<'_>,
        key: ChannelKey,
        tag: DeliveryTag,
        multiple: bool,
        requeue: bool,
        method: Rejection,
    ) -> Result<(), Refusal> {
        let verdict = match method {
            _ if !requeue => Verdict::Reject,
            Rejection::Reject => Verdict::Fail,
            Rejection::Nack => Verdict::Requeue,
        };
        self.settle_tags(turn, key, tag, multiple, verdict)
    }

    fn settle_tags(
        &mut self,
        turn: &mut Turn<'_>,
        key: ChannelKey,
        tag: DeliveryTag,
        multiple: bool,
        verdict: Verdict,
    ) -> Result<(), Refusal> {
        let Some(place) = self.channel_place(key) else {
            return Ok(());
        };
        let Some(channel) = self.channels.at_mut(place, key) else {
            return Ok(());
        };
        let unknown = Refusal::UnknownDeliveryTag(tag);
        if !multiple {
            let delivery = channel.deliveries.take(tag).ok_or(unknown)?;
            return {
                self.settle_or_hold(turn, (key, place), &delivery, verdict);
                Ok(())
            };
        }
        let deliveries = if tag.0 == 0 {
            channel.deliveries.take_all()
        } else if channel.deliveries.contains(tag) {
            channel.deliveries.take_up_to(tag)
        } else {
            return Err(unknown);
        };
        for delivery in &deliveries {
            self.settle_or_hold(turn, (key, place), delivery, verdict);
        }
        Ok(())
    }

    /// In a transaction the verdict waits for the commit.
    fn settle_or_hold(
        &mut self,
        turn: &mut Turn<'_>,
        (key, place): (ChannelKey, Place),
        delivery: &Delivery,
        verdict: Verdict,
    ) {
        let Some(channel) = self.channels.at_mut(place, key) else {
            return;
        };
        if let Mode::Transaction(transaction) = &mut channel.mode {
            transaction.settles.push(HeldSettle {
                delivery: *delivery,
                verdict,
            });
            return;
        }
        self.give_back_room((key, place), delivery);
        self.carry_out(turn, delivery, verdict);
    }

    /// The delivery no longer counts against prefetch.
    #[inline]
    pub(super) fn give_back_room(
        &mut self,
        (key, place): (ChannelKey, Place),
        delivery: &Delivery,
    ) {
        let Some(channel) = self.channels.at_mut(place, key) else {
            return;
        };
        let Some(taker) = delivery.consumer else {
            if let Some(got) = &mut channel.got {
                got.settled(delivery.queue, delivery.tag);
            }
            return;
        };
        channel.consumed_unsettled -= 1;
        if channel.prefetch_channel != 0 {
            self.touch_queues_of(key);
        }
        if let Some(consumer) = self.consumers.at_mut(taker.place, taker.consumer) {
            consumer.came_back(delivery.tag);
            self.touch_at(delivery.queue, delivery.queue_place);
        }
    }

    /// Does to the entry what the verdict says.
    #[inline]
    pub(super) fn carry_out(&mut self, turn: &mut Turn<'_>, delivery: &Delivery, verdict: Verdict) {
        let place = (delivery.queue, delivery.queue_place);
        match verdict {
            Verdict::Acknowledge => self.settle(place, delivery.sequence, Why::Acknowledged),
            Verdict::Reject if self.dead_letters(place) => {
                self.doom(place, delivery.sequence, Reason::Rejected);
            }
            Verdict::Reject => self.settle(place, delivery.sequence, Why::Rejected),
            Verdict::Requeue => self.put_back(turn, delivery, false),
            Verdict::Fail => self.put_back(turn, delivery, true),
        }
    }

    pub(super) fn dead_letters(&self, (id, place): (QueueId, Place)) -> bool {
        let queue = self.queues.at(place, id);
        queue.is_some_and(Queue::dead_letters)
    }

    fn put_back(&mut self, turn: &mut Turn<'_>, delivery: &Delivery, has_failed: bool) {
        let (id, place) = (delivery.queue, delivery.queue_place);
        let Some(queue) = self.queues.at_mut(place, id) else {
            return;
        };
        let is_back = if queue.settings.counts_returns {
            self.count_return(turn, (id, place), delivery.sequence, has_failed)
        } else {
            queue.put_back(delivery.sequence)
        };
        if is_back {
            if let Some(queue) = self.queues.at_mut(place, id) {
                queue.counters.requeued += 1;
            }
            self.counters.requeued += 1;
            self.note_over(id, place);
        }
        self.touch(id);
    }

    pub(super) fn recover(
        &mut self,
        turn: &mut Turn<'_>,
        key: ChannelKey,
        requeue: bool,
        reply: bool,
    ) -> Result<(), Refusal> {
        if !requeue {
            return Err(Refusal::RecoverWithoutRequeue);
        }
        let Some(place) = self.channel_place(key) else {
            return Ok(());
        };
        let Some(channel) = self.channels.at_mut(place, key) else {
            return Ok(());
        };
        for delivery in channel.deliveries.take_all() {
            self.give_back_room((key, place), &delivery);
            self.carry_out(turn, &delivery, Verdict::Requeue);
        }
        turn.reply(key, !reply, 0, Reply::RecoverOk);
        Ok(())
    }
}

/// The delivery that the next tag names; `None` after the last tag.
#[inline]
fn take_next(
    channel: &mut Channel,
    tags: &mut std::slice::Iter<'_, DeliveryTag>,
) -> Result<Option<Delivery>, Refusal> {
    let Some(tag) = tags.next() else {
        return Ok(None);
    };
    match channel.deliveries.take(*tag) {
        Some(delivery) => Ok(Some(delivery)),
        None => Err(Refusal::UnknownDeliveryTag(*tag)),
    }
}
