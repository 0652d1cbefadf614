//! `basic.get`. Where the message is not in memory, or the client has not taken what it asked for
//! before, the channel is parked: what it asks next waits too, so that answers keep their order.
//! Replays park theirs in the same way.

use bytes::Bytes;
use menzil_model::{ConnectionId, Name, QueueId};

use super::Shard;
use super::groups::Found;
use super::returns::counted_properties;
use crate::channel::{Parked, Waiting};
use crate::command::ChannelKey;
use crate::deliveries::Delivery;
use crate::effect::{Output, Reply};
use crate::refusal::Refusal;
use crate::turn::Turn;

impl Shard {
    pub(super) fn get(
        &mut self,
        turn: &mut Turn<'_>,
        key: ChannelKey,
        queue: &Name,
        no_ack: bool,
    ) -> Result<(), Refusal> {
        if self.wants_replies(queue) {
            return Err(Refusal::ReplyQueueGet(queue.clone()));
        }
        let (id, name) = self.queue_for(key, queue)?;
        if let Some(queue) = self.queues.get_mut(&id) {
            if queue.is_single_active_quorum() {
                return Err(Refusal::SingleActiveConsumer(name));
            }
            queue.unused_since = turn.now;
        }
        self.expire_now(turn, id);
        self.touch(id);
        self.answer_get(turn, key, id, no_ack);
        Ok(())
    }

    fn answer_get(&mut self, turn: &mut Turn<'_>, key: ChannelKey, id: QueueId, no_ack: bool) {
        if let Some(place) = self.queues.place(&id)
            && !self.trim(turn, id, place)
        {
            self.park(key, Waiting::Get { queue: id, no_ack });
            return;
        }
        let has_head = self
            .queues
            .get(&id)
            .is_some_and(|queue| queue.index.head().is_some());
        if !has_head {
            turn.reply(key, false, 0, Reply::GetEmpty);
            return;
        }
        // What has expired and cannot leave yet is for nobody.
        match self.waits_to_expire(turn.now, id) {
            Some(true) => {
                turn.reply(key, false, 0, Reply::GetEmpty);
                return;
            }
            Some(false) => {
                self.park(key, Waiting::Get { queue: id, no_ack });
                return;
            }
            None => {}
        }
        // A few bytes ask for a whole message, so answers are bounded as deliveries are.
        let has_credit = self
            .connections
            .get(&key.connection)
            .is_some_and(|c| c.credit > 0);
        if !has_credit {
            self.park(key, Waiting::Get { queue: id, no_ack });
            return;
        }
        let Some(place) = self.queues.place(&id) else {
            return;
        };
        let is_grouped = (self.queues.at(place, id)).is_some_and(|queue| queue.groups.is_some());
        let which = if is_grouped {
            match self.find_free(turn, id, place) {
                Found::Nothing => {
                    turn.reply(key, false, 0, Reply::GetEmpty);
                    return;
                }
                Found::Waits => {
                    self.park(key, Waiting::Get { queue: id, no_ack });
                    return;
                }
                Found::Entry(sequence, group) => Some((sequence, group)),
            }
        } else if self.has_content(turn, id, place) {
            None
        } else {
            self.park(key, Waiting::Get { queue: id, no_ack });
            return;
        };
        let Some((item, after, content)) = self.take_out(turn, (id, place), which) else {
            return;
        };
        let Some(queue) = self.queues.at(place, id) else {
            return;
        };
        let held = || queue.index.content_out(item.sequence).cloned();
        let Some(message) = content.or_else(held) else {
            return;
        };
        let ready = queue.index.ready_count();
        self.take_credit(key.connection, &message);
        let Some(channel) = self.channels.get_mut(&key) else {
            return;
        };
        let delivery_tag = channel.next_tag();
        if !no_ack {
            channel.deliveries.insert(Delivery {
                tag: delivery_tag,
                queue: id,
                queue_place: place,
                sequence: item.sequence,
                consumer: None,
            });
            self.watch_got(turn.now, key, (id, delivery_tag));
        }
        let output = Output::GetOk {
            delivery_tag,
            redelivered: item.redelivered,
            message_count: u32::try_from(ready).unwrap_or(u32::MAX),
            properties: counted_properties(&item, &message).map(Bytes::from),
            message,
        };
        turn.send(key, after, output);
        if no_ack {
            self.settle_unasked((id, place), item.sequence);
        }
    }

    /// Whether the head has expired and there is no room for it among what is dead-lettered; true
    /// where that may last.
    fn waits_to_expire(&self, now: u64, id: QueueId) -> Option<bool> {
        let queue = self.queues.get(&id)?;
        let is_over = |at: u64| at <= now;
        let dying = queue.dying.as_deref().filter(|dying| dying.room() == 0)?;
        let is_expired = queue.index.head()?.expires_at.is_some_and(is_over);
        is_expired.then(|| dying.retry_at().is_some())
    }

    pub(super) fn park(&mut self, key: ChannelKey, waiting: Waiting) {
        let Some(channel) = self.channels.get_mut(&key) else {
            return;
        };
        channel.parked = Some(Parked {
            waiting,
            behind: std::collections::VecDeque::new(),
            behind_bytes: 0,
        });
        self.parked.push(key);
    }

    /// Whether the connection has a channel that waits for the journal, and how many bytes
    /// of publishes wait behind it. The driver reads no more from it meanwhile.
    pub fn parked_bytes(&self, connection: ConnectionId) -> Option<u64> {
        self.parked
            .iter()
            .filter(|key| key.connection == connection)
            .filter_map(|key| self.channels.get(key)?.parked.as_ref())
            .map(|parked| parked.behind_bytes)
            .reduce(|sum, bytes| sum + bytes)
    }

    /// Messages for these queues came in: answer the gets that waited, then what came behind
    /// them.
    pub(super) fn resume_parked(&mut self, turn: &mut Turn<'_>, of: QueueId) {
        self.resume(
            turn,
            |_, waiting| matches!(waiting, Waiting::Get { queue, .. } if *queue == of),
        );
    }

    /// The connection has credit again: its gets go on.
    pub(super) fn resume_connection(&mut self, turn: &mut Turn<'_>, connection: ConnectionId) {
        self.resume(turn, |key, waiting| {
            key.connection == connection && matches!(waiting, Waiting::Get { .. })
        });
    }

    /// Goes on with the channels that need not wait any more.
    pub(super) fn resume(
        &mut self,
        turn: &mut Turn<'_>,
        goes_on: impl Fn(&ChannelKey, &Waiting) -> bool,
    ) {
        let goes_on = |key: &&ChannelKey| {
            let channel = self.channels.get(key);
            let parked = channel.and_then(|channel| channel.parked.as_ref());
            parked.is_some_and(|parked| goes_on(key, &parked.waiting))
        };
        let keys: Vec<ChannelKey> = self.parked.iter().filter(goes_on).copied().collect();
        for key in keys {
            self.parked.retain(|parked| *parked != key);
            let Some(parked) = self.channels.get_mut(&key).and_then(|c| c.parked.take()) else {
                continue;
            };
            if let Waiting::Get { queue, no_ack } = parked.waiting {
                self.answer_get(turn, key, queue, no_ack);
            }
            for request in parked.behind {
                self.request(turn, key, request);
            }
        }
    }
}
