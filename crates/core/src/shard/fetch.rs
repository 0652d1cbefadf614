//! Messages that are not in memory: asking for them, taking them in, and letting others go.

use std::sync::Arc;

use menzil_model::fact::{Range, Ranges, Why};
use menzil_model::{Fact, Message, QueueId, Sequence, StorePurpose};

use super::Shard;
use super::due::read_up_to;
use crate::effect::{Effect, Wanted};
use crate::queue::{Body, RunMax};
use crate::slots::Place;
use crate::turn::Turn;

/// Messages that are asked for at once.
pub(super) const RUN_MESSAGES_MAX: usize = 512;

impl Shard {
    /// Whether the message of the head is in memory; asks the driver for it, and some behind
    /// it, where it is not.
    #[inline]
    pub(super) fn has_content(&mut self, turn: &mut Turn<'_>, id: QueueId, place: Place) -> bool {
        let Some(queue) = self.queues.at(place, id) else {
            return false;
        };
        match queue.index.next().map(|(_, body)| body) {
            Some(Body::Here) => {
                if queue.index.runs_low() {
                    self.ask(turn, id);
                }
                true
            }
            Some(Body::Asked) | None => false,
            Some(Body::Away) => {
                self.ask(turn, id);
                false
            }
        }
    }

    pub(super) fn ask(&mut self, turn: &mut Turn<'_>, id: QueueId) {
        let max = RunMax {
            messages: RUN_MESSAGES_MAX,
            bytes: self.content.run_bytes(),
            below: if matches!(id.store(), Some((_, StorePurpose::Delay))) {
                read_up_to(turn.now)
            } else {
                Sequence(u64::MAX)
            },
        };
        let Some(queue) = self.queues.get_mut(&id) else {
            return;
        };
        let wanted = queue.index.ask(max);
        self.fetch(turn, id, wanted);
    }

    /// Has the driver read these.
    pub(super) fn fetch(&mut self, turn: &mut Turn<'_>, id: QueueId, wanted: Vec<Wanted>) {
        if !wanted.is_empty() {
            let spare = self.spare.take(wanted.len());
            turn.effects.effect(Effect::Fetch {
                queue: id,
                wanted,
                spare,
            });
        }
    }

    /// Takes in a run of messages that was read from the journal.
    pub(super) fn fetched(
        &mut self,
        turn: &mut Turn<'_>,
        id: QueueId,
        messages: Vec<(Sequence, Option<Arc<Message>>)>,
    ) {
        self.counters.fetched += messages.len() as u64;
        if matches!(id.store(), Some((_, StorePurpose::Retention))) {
            self.fetched_for_replay(turn, id, &messages);
            self.advance_replays(turn);
            return;
        }
        let Some(queue) = self.queues.get_mut(&id) else {
            return;
        };
        queue.index.answered();
        if let Some(overdue) = queue.overdue.as_deref_mut() {
            overdue.read_came();
        }
        let mut damaged = Vec::new();
        for (sequence, message) in messages {
            let is_lost = message.is_none();
            if queue.index.provide(sequence, message) && is_lost {
                damaged.push(sequence);
            }
        }
        damaged.sort_unstable();
        for sequence in damaged {
            self.drop_damaged(turn, id, sequence);
        }
        self.touch(id);
        self.resume_parked(turn, id);
    }

    /// The record of a message cannot be read: its entry goes, and is counted. Entries in other
    /// queues go when their turn comes.
    pub(super) fn drop_damaged(&mut self, turn: &mut Turn<'_>, queue: QueueId, sequence: Sequence) {
        let durable = self
            .queues
            .get(&queue)
            .is_some_and(|queue| queue.definition.durable);
        let range = Range {
            first: sequence,
            last: sequence,
        };
        let fact = Fact::Settled {
            queue,
            ranges: Ranges::from_slice(&[range]),
            why: Why::Damaged,
        };
        self.record(turn, fact, durable);
    }

    /// At the end of a turn: takes note of what the queue holds in memory, and has others let
    /// go of theirs where all together hold too much, first those from which nothing goes out.
    pub(super) fn note_content(&mut self, id: QueueId, place: Place) {
        if let Some(queue) = self.queues.at_mut(place, id) {
            let bytes = queue.index.content_bytes();
            self.content.note(id, &mut queue.content, bytes);
        }
        if !self.content.is_over() {
            return;
        }
        let mut turns = 2 * self.content.line_len();
        while self.content.is_over() && turns > 0 {
            turns -= 1;
            let Some(next) = self.content.next() else {
                return;
            };
            let Some(queue) = self.queues.get_mut(&next) else {
                self.content.was_gone();
                continue;
            };
            if next == id {
                self.content.put_back(id);
            } else if !self.content.spare(next, &mut queue.content) {
                queue.index.strip();
                let bytes = queue.index.content_bytes();
                self.content.stripped(next, &mut queue.content, bytes);
            }
        }
    }
}
