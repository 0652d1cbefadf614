//! Consumers that leave a delivery unsettled for too long: they are cancelled, and what they hold
//! goes back. Channels that do so with what they got: they are closed.

use menzil_model::{DeliveryTag, QueueId};

use super::Shard;
use super::expire::EXPIRED_AT_ONCE;
use crate::channel::{Mode, Verdict};
use crate::command::ChannelKey;
use crate::consumer::{Consumer, ConsumerId};
use crate::deliveries::Delivery;
use crate::effect::Output;
use crate::refusal::Refusal;
use crate::turn::Turn;

/// Deliveries of consumers that timed out which a channel may go on to settle without effect.
const SETTLED_LATE_MAX: usize = 65_536;

impl Shard {
    /// Takes a consumer out of the shard, and its timer with it.
    pub(super) fn take_consumer(&mut self, id: ConsumerId) -> Option<Consumer> {
        let consumer = self.consumers.remove(&id)?;
        if let Some(at) = consumer.stopwatch.as_ref().and_then(|watch| watch.timer) {
            self.consumer_timers.remove(&(at, id));
        }
        Some(consumer)
    }

    /// Sees to it that the consumers are looked at again whose first delivery went out in this
    /// turn.
    pub(super) fn arm_stopwatches(&mut self) {
        while let Some(id) = self.unarmed.pop() {
            self.arm_stopwatch(id);
        }
    }

    fn arm_stopwatch(&mut self, id: ConsumerId) {
        let consumer = self.consumers.get_mut(&id);
        let Some(watch) = consumer.and_then(|consumer| consumer.stopwatch.as_mut()) else {
            return;
        };
        watch.timer = watch.deadline();
        watch.is_armed = watch.timer.is_some();
        self.consumer_timers.extend(watch.timer.map(|at| (at, id)));
    }

    /// Cancels those whose time has come, a bounded number of them.
    pub(super) fn time_out_consumers(&mut self, turn: &mut Turn<'_>) {
        let due = (self.consumer_timers.iter()).take_while(|(at, _)| *at <= turn.now);
        let due: Vec<(u64, ConsumerId)> = due.take(EXPIRED_AT_ONCE).copied().collect();
        let mut late: Vec<(ChannelKey, ConsumerId)> = Vec::new();
        for (at, id) in due {
            self.consumer_timers.remove(&(at, id));
            let is_late = self.consumers.get_mut(&id).and_then(|consumer| {
                let watch = consumer.stopwatch.as_mut()?;
                watch.timer = None;
                let deadline = watch.deadline().filter(|at| *at <= turn.now);
                deadline.map(|_| consumer.channel)
            });
            match is_late {
                Some(channel) => late.push((channel, id)),
                // The delivery that it was set for is settled.
                None => self.arm_stopwatch(id),
            }
        }
        late.sort_unstable();
        for of_channel in late.chunk_by(|a, b| a.0 == b.0) {
            self.time_out(turn, of_channel);
        }
    }

    /// Cancels consumers of one channel. What they hold goes back; the client may settle it
    /// later, which has no effect. Where it could not be told, its channel is closed.
    fn time_out(&mut self, turn: &mut Turn<'_>, late: &[(ChannelKey, ConsumerId)]) {
        let Some((key, first)) = late.first().copied() else {
            return;
        };
        let is_late = |delivery: &Delivery| {
            let taker = delivery.consumer.map(|taker| (key, taker.consumer));
            taker.is_some_and(|taker| late.binary_search(&taker).is_ok())
        };
        self.counters.consumers_timed_out += late.len() as u64;
        let is_told = (self.connections.get(&key.connection)).is_some_and(|c| c.cancel_notify);
        let Some(channel) = self.channels.get_mut(&key) else {
            return;
        };
        let held = channel.deliveries.iter();
        let void = held.filter(|held| is_late(held) || held.is_void()).count();
        if !is_told || void > SETTLED_LATE_MAX {
            let watch = (self.consumers.get(&first)).and_then(|late| late.stopwatch.as_ref());
            let refusal = Refusal::ConsumerTimeout {
                channel: key.channel,
                timeout: watch.map_or(0, |watch| watch.limit()),
            };
            self.refuse(turn, key, refusal, NO_METHOD);
            return;
        }
        let mut back = channel.deliveries.void(is_late);
        if let Mode::Transaction(transaction) = &mut channel.mode {
            let settles = transaction
                .settles
                .iter_mut()
                .map(|held| &mut held.delivery);
            back.extend(
                settles
                    .filter(|held| is_late(held))
                    .map(Delivery::make_void),
            );
        }
        channel.consumed_unsettled -= back.len() as u64;
        for (_, id) in late {
            self.cancel_and_tell(turn, *id);
        }
        for delivery in back {
            self.carry_out(turn, &delivery, Verdict::Requeue);
        }
        self.touch_queues_of(key);
    }

    /// `basic.get` took a message, which may not be out for ever if its queue has a limit.
    pub(super) fn watch_got(
        &mut self,
        now: u64,
        key: ChannelKey,
        (queue, tag): (QueueId, DeliveryTag),
    ) {
        let limit = self.queues.get(&queue);
        let limit = limit.and_then(|queue| queue.settings.consumer_timeout);
        let Some(limit) = limit.filter(|limit| *limit > 0) else {
            return;
        };
        let Some(channel) = self.channels.get_mut(&key) else {
            return;
        };
        let got = channel.got.get_or_insert_default();
        got.took(queue, limit, tag, now);
        if got.timer.is_none() {
            got.timer = got.deadline().map(|(at, _)| at);
            self.channel_timers.extend(got.timer.map(|at| (at, key)));
        }
    }

    /// Closes channels that hold for too long what they got, a bounded number of them: there is no
    /// consumer to be cancelled.
    pub(super) fn time_out_gets(&mut self, turn: &mut Turn<'_>) {
        let due = (self.channel_timers.iter()).take_while(|(at, _)| *at <= turn.now);
        let due: Vec<(u64, ChannelKey)> = due.take(EXPIRED_AT_ONCE).copied().collect();
        for (at, key) in due {
            self.channel_timers.remove(&(at, key));
            let channel = self.channels.get_mut(&key);
            let Some(got) = channel.and_then(|channel| channel.got.as_mut()) else {
                continue;
            };
            got.timer = None;
            got.retain(|queue| self.queues.contains_key(queue));
            match got.deadline() {
                None => {}
                Some((at, timeout)) if at <= turn.now => {
                    self.counters.consumers_timed_out += 1;
                    let channel = key.channel;
                    let refusal = Refusal::ConsumerTimeout { channel, timeout };
                    self.refuse(turn, key, refusal, NO_METHOD);
                }
                // What it was set for is settled.
                Some((at, _)) => {
                    got.timer = Some(at);
                    self.channel_timers.insert((at, key));
                }
            }
        }
    }

    fn cancel_and_tell(&mut self, turn: &mut Turn<'_>, id: ConsumerId) {
        let Some(consumer) = self.consumers.get(&id) else {
            return;
        };
        let consumer_tag = consumer.tag.clone();
        let output = Output::Cancelled { consumer_tag };
        turn.send(consumer.channel, self.topology_index, output);
        self.remove_consumer(turn, id);
    }
}

/// Class and method number where no method failed.
const NO_METHOD: (u16, u16) = (0, 0);
