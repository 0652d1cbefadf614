//! What happens by itself: entries whose time to live ends, queues that nobody uses.

use menzil_model::fact::Why;
use menzil_model::{Fact, QueueId};

use super::Shard;
use crate::death::Reason;
use crate::effect::Effects;
use crate::log::Log;
use crate::queue::Queue;
use crate::settling::ranges_of;
use crate::turn::Turn;

/// Entries, and consumers, that one turn expires; the rest follow in the next.
pub(super) const EXPIRED_AT_ONCE: usize = 1000;

impl Shard {
    /// When [`Shard::expire`] is due, in milliseconds since 1970.
    pub fn deadline(&self) -> Option<u64> {
        if self.releases.is_behind()
            || self.letters.is_behind()
            || self.topology.is_behind()
            || !self.grown.is_empty()
            || self.has_replay_to_advance()
            || self.is_applying_policies()
        {
            return Some(0);
        }
        let of_consumers = self.consumer_timers.first().map(|(at, _)| *at);
        let of_queues = self.timers.first().map(|(at, _)| *at);
        let of_channels = self.channel_timers.first().map(|(at, _)| *at);
        let all = of_queues.into_iter().chain(of_consumers);
        all.chain(of_channels).chain(self.retained_deadline()).min()
    }

    /// Does what is due. Work is bounded; where more is due [`Shard::deadline`] says so.
    pub fn expire(&mut self, now: u64, log: &mut dyn Log, effects: &mut dyn Effects) {
        let mut turn = Turn { now, log, effects };
        self.topology.clear_away();
        self.apply_policies(&mut turn);
        let due: Vec<QueueId> = self
            .timers
            .iter()
            .take_while(|(at, _)| *at <= now)
            .take(EXPIRED_AT_ONCE)
            .map(|(_, queue)| *queue)
            .collect();
        for queue in due {
            self.session_due(&mut turn, queue);
            if self.expire_now(&mut turn, queue) || self.has_to_move(queue) {
                self.touch(queue);
            }
            if self.lease_ended(queue, now) {
                self.delete_queue(&mut turn, queue);
            } else {
                self.reset_timer(queue);
            }
        }
        self.time_out_consumers(&mut turn);
        self.time_out_gets(&mut turn);
        self.expire_retained(&mut turn);
        self.resume_moves();
        self.advance_replays(&mut turn);
        self.settle_down(&mut turn);
        self.finish(turn.log);
    }

    fn has_to_move(&self, id: QueueId) -> bool {
        let queue = self.queues.get(&id);
        queue.is_some_and(|queue| queue.dying.is_some() || queue.index.has_delayed())
    }

    fn lease_ended(&self, id: QueueId, now: u64) -> bool {
        self.queues.get(&id).is_some_and(|queue| {
            queue.line.is_unused()
                && queue.group.is_none()
                && queue
                    .settings
                    .expires
                    .is_some_and(|time| queue.unused_since + time <= now)
        })
    }

    /// Expires ready entries whose time has come. True where there were some: another entry
    /// may be the head now, and be here already.
    pub(super) fn expire_now(&mut self, turn: &mut Turn<'_>, id: QueueId) -> bool {
        if id.is_store() && self.queues.get(&id).is_some_and(Queue::delays) {
            self.send_due(turn, id);
            return false;
        }
        let has_aged = id.is_store() && self.drop_aged(turn.log, id, turn.now);
        self.expire_ready(turn, id) || has_aged
    }

    fn expire_ready(&mut self, turn: &mut Turn<'_>, id: QueueId) -> bool {
        let Some(queue) = self.queues.get_mut(&id) else {
            return false;
        };
        if queue.next_expiry().is_none_or(|at| at > turn.now) {
            return false;
        }
        let room = if queue.dead_letters() {
            queue.room_to_die()
        } else {
            EXPIRED_AT_ONCE
        };
        if room == 0 {
            return false;
        }
        let expired = queue.index.expired(turn.now, room);
        if expired.is_empty() {
            return false;
        }
        if queue.dead_letters() {
            self.doom_ready(id, expired, Reason::Expired);
            return true;
        }
        let durable = queue.definition.durable;
        let ranges = ranges_of(expired);
        self.record_lazy(
            turn.log,
            Fact::Settled {
                queue: id,
                ranges,
                why: Why::Expired,
            },
            durable,
        );
        true
    }

    /// As [`Shard::record`], for settles, which nobody waits for.
    pub(super) fn record_lazy(&mut self, log: &mut dyn Log, fact: Fact, durable: bool) {
        if durable {
            self.settling.write(log);
            log.append_lazy(&fact);
        }
        self.apply(0, fact);
    }

    /// Puts the queue's deadline where the driver looks for it.
    pub(super) fn reset_timer(&mut self, id: QueueId) {
        let Some(queue) = self.queues.get_mut(&id) else {
            return;
        };
        let deadline = queue.deadline();
        if queue.timer == deadline {
            return;
        }
        if let Some(at) = queue.timer.take() {
            self.timers.remove(&(at, id));
        }
        if let Some(at) = deadline {
            self.timers.insert((at, id));
            queue.timer = Some(at);
        }
    }
}
