//! Handing out the entries of a queue with message groups: the first that may go out, not the
//! first there is. What is set aside and why, [`Groups`] knows.

use menzil_model::{QueueId, Sequence};

use super::Shard;
use super::deliver::Takers;
use super::fetch::RUN_MESSAGES_MAX;
use crate::consumer::{ConsumerId, Taker};
use crate::queue::{Body, Group, Groups, Next, Queue, RunMax};
use crate::slots::Place;
use crate::turn::Turn;

/// Messages of one group that are asked for at once.
const GROUP_RUN_MAX: usize = 64;

/// What came of a look for an entry that may go out.
pub(super) enum Found {
    /// There is none.
    Nothing,
    /// Its message, or that of one before it, has to be read first.
    Waits,
    /// This one, whose message is here.
    Entry(Sequence, Group),
}

impl Shard {
    /// Delivers until nothing may go out, nobody can take more, or a message is not here.
    pub(super) fn pump_grouped(&mut self, turn: &mut Turn<'_>, id: QueueId, place: Place) {
        while let Some(next) = self.next_of_groups(id, place) {
            let is_done = match next {
                Next::Nothing => true,
                Next::Look(_) | Next::LookFrom(_) => !self.look(turn, id, place, next),
                Next::Deliver {
                    sequence,
                    group,
                    holder,
                } => {
                    if self.has_expired(turn.now, id, place, sequence) {
                        !self.expire_now(turn, id)
                    } else if self.prepare(turn, id, place, next)
                        && let Some(taker) = self.taker_for(id, place, holder)
                    {
                        !self.give(turn, (id, place), (sequence, group), taker)
                    } else {
                        true
                    }
                }
            };
            if is_done {
                return;
            }
        }
    }

    /// What is to be done next, if anybody has room.
    fn next_of_groups(&self, id: QueueId, place: Place) -> Option<Next> {
        let queue = self.queues.at(place, id)?;
        let takers = self.takers();
        takers.find(queue)?;
        let is_in_line = |consumer| {
            let mut line = queue.line.takers().iter();
            !queue.line.is_single_active() || line.any(|taker| taker.consumer == consumer)
        };
        let groups = queue.groups.as_deref()?;
        Some(groups.next(|consumer| {
            let state = self.consumers.get(&consumer);
            state.is_some_and(|state| takers.can_take(state)) && is_in_line(consumer)
        }))
    }

    fn has_expired(&mut self, now: u64, id: QueueId, place: Place, sequence: Sequence) -> bool {
        let queue = self.queues.at_mut(place, id);
        let entry = queue.and_then(|queue| queue.index.entry(sequence));
        entry.is_some_and(|(item, ..)| item.expires_at.is_some_and(|at| at < now))
    }

    /// Who gets an entry of a group that this consumer holds, or of one that nobody holds.
    fn taker_for(
        &mut self,
        id: QueueId,
        place: Place,
        holder: Option<ConsumerId>,
    ) -> Option<Taker> {
        if let Some(consumer) = holder {
            let place = self.consumers.place(&consumer)?;
            return Some(Taker { consumer, place });
        }
        let queue = self.queues.at_mut(place, id)?;
        let takers = Takers {
            consumers: &self.consumers,
            connections: &self.connections,
            channels: &self.channels,
        };
        let (taker, _) = takers.next(queue)?;
        Some(taker)
    }

    /// Looks at an entry, and knows its group then. False where it has to be read first, or
    /// there is none.
    fn look(&mut self, turn: &mut Turn<'_>, id: QueueId, place: Place, next: Next) -> bool {
        let reach = self.content.reach(true);
        let Some(queue) = self.queues.at_mut(place, id) else {
            return false;
        };
        let sequence = match next {
            Next::LookFrom(from) => queue.index.ready_from(from),
            Next::Look(sequence) => Some(sequence),
            Next::Deliver { .. } | Next::Nothing => None,
        };
        let (Some(sequence), Some(groups)) = (sequence, queue.groups.as_deref_mut()) else {
            return false;
        };
        let Some((_, message, body)) = queue.index.entry(sequence) else {
            return false;
        };
        if let Some(message) = message {
            let group = groups.group_of(message);
            if groups.looked_at(sequence, group) && queue.index.content_bytes() > reach {
                queue.index.strip_one(sequence);
            }
            return true;
        }
        if let Body::Away = body {
            let run = queue.index.run_from(sequence, RUN_MESSAGES_MAX);
            self.ask_for(turn, id, place, &run);
        }
        false
    }

    /// Makes the entry ready to go. False where its message has to be read first.
    fn prepare(&mut self, turn: &mut Turn<'_>, id: QueueId, place: Place, next: Next) -> bool {
        let Next::Deliver {
            sequence, group, ..
        } = next
        else {
            return false;
        };
        let Some(queue) = self.queues.at_mut(place, id) else {
            return false;
        };
        let Some((item, _, body)) = queue.index.entry(sequence) else {
            return false;
        };
        match body {
            Body::Here => {}
            Body::Asked => return false,
            Body::Away => {
                let groups = queue.groups.as_deref();
                let run = groups.map(|groups| groups.run_of(sequence, group, GROUP_RUN_MAX));
                self.ask_for(turn, id, place, &run.unwrap_or_default());
                return false;
            }
        }
        if item.durable && queue.mark.due(sequence).is_some() {
            self.reserve_delivering(turn, id, sequence);
        }
        true
    }

    fn ask_for(&mut self, turn: &mut Turn<'_>, id: QueueId, place: Place, run: &[Sequence]) {
        let max = RunMax {
            messages: RUN_MESSAGES_MAX,
            bytes: self.content.run_bytes(),
            below: Sequence(u64::MAX),
        };
        let queue = self.queues.at_mut(place, id);
        let wanted = queue.map(|queue| queue.index.ask_for(run, max));
        self.fetch(turn, id, wanted.unwrap_or_default());
    }

    /// The first entry that `basic.get` may take: its group is free.
    pub(super) fn find_free(&mut self, turn: &mut Turn<'_>, id: QueueId, place: Place) -> Found {
        loop {
            let groups = |queue: &Queue| queue.groups.as_deref().map(Groups::next_free);
            let Some(next) = self.queues.at(place, id).and_then(groups) else {
                return Found::Nothing;
            };
            let (sequence, group) = match next {
                Next::Nothing => return Found::Nothing,
                Next::Deliver {
                    sequence, group, ..
                } => (sequence, group),
                Next::Look(_) | Next::LookFrom(_) => {
                    if self.look(turn, id, place, next) {
                        continue;
                    }
                    let Next::LookFrom(from) = next else {
                        return Found::Waits;
                    };
                    let queue = self.queues.at_mut(place, id);
                    return match queue.and_then(|queue| queue.index.ready_from(from)) {
                        Some(_) => Found::Waits,
                        None => Found::Nothing,
                    };
                }
            };
            return if self.prepare(turn, id, place, next) {
                Found::Entry(sequence, group)
            } else {
                Found::Waits
            };
        }
    }
}
