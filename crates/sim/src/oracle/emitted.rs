//! What the node says, in the order in which it decides it.

use menzil_core::{ChannelKey, Effect, Output, Reply};
use menzil_model::Message;

use super::Oracle;
use super::model::{Belief, Entry};
use crate::body;
use crate::catalogue::{QUEUES, QueueNumber, queue_number, source_of};

/// One message on its way out.
#[derive(Clone, Copy)]
struct Emission<'a> {
    consumer: &'a [u8],
    key: ChannelKey,
    queue: Option<QueueNumber>,
    number: body::MessageNumber,
    tag: u64,
    redelivered: bool,
    no_ack: bool,
}

impl Oracle {
    /// The node has decided something.
    pub(crate) fn emitted(&mut self, effect: &Effect) {
        let Effect::Channel { to, output, .. } = effect else {
            return;
        };
        match output {
            Output::Deliver {
                consumer_tag,
                delivery_tag,
                redelivered,
                message,
                properties: _,
            } => {
                let tag = consumer_tag.as_bytes();
                let mut parts = tag.split(|byte| *byte == b'|');
                let queue = parts.next().and_then(queue_number);
                let no_ack = parts.next() == Some(b"n");
                self.sent_out(
                    message,
                    &Emission {
                        consumer: tag,
                        key: *to,
                        queue,
                        number: 0,
                        tag: delivery_tag.0,
                        redelivered: *redelivered,
                        no_ack,
                    },
                );
            }
            Output::GetOk {
                delivery_tag,
                redelivered,
                message,
                ..
            } => {
                let get = self.channels.get_mut(to).and_then(|c| c.gets.pop_front());
                let Some((queue, no_ack)) = get else {
                    return self.fail(format!("get-ok on {to:?}, which asked nothing"));
                };
                self.sent_out(
                    message,
                    &Emission {
                        consumer: b"",
                        key: *to,
                        queue,
                        number: 0,
                        tag: delivery_tag.0,
                        redelivered: *redelivered,
                        no_ack,
                    },
                );
            }
            Output::Reply(Reply::GetEmpty) => self.found_empty(*to),
            Output::Return { message } => match number_of(message) {
                Ok(number) => self.on(*to, |channel| channel.returned.push_back(number)),
                Err(why) => self.fail(why),
            },
            Output::Confirm { sequence, accepted } => self.judged(*to, *sequence, *accepted),
            Output::Refused { refusal, method } => {
                if *method == (90, 20) {
                    self.commit_refused(*to);
                }
                self.on(*to, |channel| channel.is_refused = true);
                if refusal.is_hard() {
                    self.give_up_all(to.connection);
                } else {
                    self.give_up(*to);
                }
            }
            Output::Reply(_) | Output::Cancelled { .. } => {}
        }
    }

    fn sent_out(&mut self, message: &Message, emission: &Emission<'_>) {
        match number_of(message) {
            Ok(number)
                if self.message(number).map(|m| m.length as u64) != Some(message.body_bytes()) =>
            {
                self.fail(format!(
                    "message {number} is delivered with {} bytes",
                    message.body_bytes()
                ));
            }
            Ok(number) => self.deliver(&Emission {
                number,
                ..*emission
            }),
            Err(why) => self.fail(why),
        }
    }

    fn deliver(&mut self, emission: &Emission<'_>) {
        let Emission {
            consumer,
            key,
            queue,
            number,
            tag,
            redelivered,
            no_ack,
        } = *emission;
        self.on(key, |channel| {
            channel
                .emissions
                .push_back((tag, queue, number, redelivered));
        });
        let Some(queue) = queue else { return };
        let name = QUEUES[queue].name;
        if self.queues[queue].is_gone(number) {
            return self.fail(format!(
                "resurrected: message {number} of queue {name} was settled for good and is \
                 delivered"
            ));
        }
        let Some(entry) = self.queues[queue].entries.get(&number).cloned() else {
            return self.fail(format!(
                "message {number} is delivered from queue {name}, where it never was"
            ));
        };
        let objection = self.letter_objection(queue, number);
        let objection = objection.or_else(|| self.objection(queue, number, &entry, redelivered));
        let objection = objection.or_else(|| self.group_objection((queue, number), key, consumer));
        if let Some(why) = objection {
            return self.fail(format!(
                "message {number} of queue {name}: {why} ({entry:?})"
            ));
        }
        self.letter_seen(queue, number);
        self.tally.delayed += u64::from(!entry.is_in_place());
        if let Some(entry) = self.queues[queue].entries.get_mut(&number) {
            entry.is_emitted = true;
            entry.is_emitted_now = true;
            entry.out = Some(key);
            entry.consumer = consumer.to_vec();
        }
        if no_ack {
            self.settle(queue, number);
        } else {
            self.on(key, |channel| {
                channel.out.insert(tag, (queue, number));
            });
        }
    }

    /// Why that delivery must not be.
    fn objection(
        &self,
        queue: QueueNumber,
        number: body::MessageNumber,
        entry: &Entry,
        redelivered: bool,
    ) -> Option<String> {
        if entry.is_settled {
            return Some("delivered after it was settled".to_owned());
        }
        if let Some(other) = entry.out {
            return Some(format!("doubled: it is still out on {other:?}"));
        }
        if let Some(due_at) = entry.not_before.filter(|at| *at > self.now) {
            return Some(format!("it came early: at {} and not {due_at}", self.now));
        }
        if entry.expires_at.is_some_and(|at| at < self.now) {
            return Some(format!("delivered at {} after it expired", self.now));
        }
        if let Some(why) = self.flag_objection(queue, number, entry, redelivered) {
            return Some(why);
        }
        if self.must_be_dropped(queue, number, entry) {
            return Some("the length limit dropped it, and it is delivered".to_owned());
        }
        self.overtaken(queue, number)
            .map(|earlier| format!("overtook message {earlier}, which was ready before it"))
    }

    /// Why the flag must not be so.
    pub(super) fn flag_objection(
        &self,
        queue: QueueNumber,
        number: body::MessageNumber,
        entry: &Entry,
        redelivered: bool,
    ) -> Option<String> {
        // A letter that a crash undid comes anew.
        let is_anew = self.source_with(queue, number).is_some();
        let must = (entry.is_seen && !is_anew) || entry.is_emitted_now;
        let may = entry.is_emitted || (entry.is_flaggable && self.queues[queue].is_attached);
        if must && !redelivered {
            return Some("it was delivered before and is not flagged".to_owned());
        }
        if redelivered && !may {
            return Some("it is flagged redelivered and never went out".to_owned());
        }
        None
    }

    /// Whether so many certain messages are behind it that the limit has dropped it.
    pub(super) fn must_be_dropped(
        &self,
        queue: QueueNumber,
        number: body::MessageNumber,
        entry: &Entry,
    ) -> bool {
        let spec = QUEUES[queue];
        let Some(message) = self.message(number).filter(|message| message.is_acked()) else {
            return false;
        };
        // Of a queue that dead-letters they go after the others have come.
        if spec.dead_letters() {
            return false;
        }
        if spec.rejects || entry.is_emitted || (spec.length_max, spec.bytes_max) == (None, None) {
            return false;
        }
        let later = self.queues[queue].entries.iter().filter(|(later, entry)| {
            entry.durable
                && entry.belief == Belief::Live
                && !entry.is_emitted
                && entry.expires_at.is_none()
                && self
                    .message(**later)
                    .is_some_and(|later| later.is_acked() && later.sent_at > message.acked_at)
        });
        let (mut count, mut bytes) = (0, message.length as u64);
        for (later, _) in later {
            count += 1;
            bytes += self
                .message(*later)
                .map_or(0, |message| message.length as u64);
        }
        spec.length_max.is_some_and(|max| count >= max)
            || spec.bytes_max.is_some_and(|max| count > 0 && bytes > max)
    }

    /// A message that should have gone out first: an earlier one of the same channel, or one of
    /// a higher priority.
    fn overtaken(
        &self,
        queue: QueueNumber,
        number: body::MessageNumber,
    ) -> Option<body::MessageNumber> {
        if source_of(queue).is_some() || !QUEUES[queue].is_ordered() {
            return None;
        }
        let (group, priority) = self.rank(queue, number)?;
        let comes_first = |other: body::MessageNumber| {
            self.rank(queue, other)
                .is_some_and(|(other_group, other_priority)| {
                    let is_earlier = other < number && other_group == group;
                    other_priority > priority || (is_earlier && other_priority == priority)
                })
        };
        let is_prior = QUEUES[queue].priority_max > 0;
        let end = if is_prior { u64::MAX } else { number };
        let earlier = self.queues[queue]
            .entries
            .range(..end)
            .find(|(earlier, entry)| {
                entry.out.is_none() && comes_first(**earlier) && self.is_owed(queue, **earlier)
            });
        earlier.map(|(earlier, _)| *earlier)
    }

    /// What decides the order of messages in that queue: who sent it, and its priority there.
    pub(super) fn rank(
        &self,
        queue: QueueNumber,
        number: body::MessageNumber,
    ) -> Option<(Order, u8)> {
        let message = self.message(number)?;
        let priority = message.priority.min(QUEUES[queue].priority_max);
        let group_key = message.group_key.filter(|_| QUEUES[queue].is_grouped);
        Some(((message.group, group_key), priority))
    }

    /// The message group of an entry, where its queue has groups.
    fn group_of(&self, queue: QueueNumber, number: body::MessageNumber) -> Option<u8> {
        let key = self.message(number)?.group_key;
        key.filter(|_| QUEUES[queue].is_grouped)
    }

    /// What is out of the same message group.
    fn out_of_group(
        &self,
        queue: QueueNumber,
        number: body::MessageNumber,
    ) -> impl Iterator<Item = (body::MessageNumber, &Entry)> {
        let group = self.group_of(queue, number);
        let entries = self.queues[queue].entries.iter().map(|(n, e)| (*n, e));
        entries.filter(move |(other, entry)| {
            group.is_some()
                && *other != number
                && entry.out.is_some()
                && self.group_of(queue, *other) == group
        })
    }

    /// Why a message of its group must not go to that consumer.
    fn group_objection(
        &self,
        (queue, number): (QueueNumber, body::MessageNumber),
        key: ChannelKey,
        consumer: &[u8],
    ) -> Option<String> {
        let is_elsewhere = |entry: &Entry| {
            entry.out != Some(key) || consumer.is_empty() || entry.consumer != consumer
        };
        let (other, entry) = self
            .out_of_group(queue, number)
            .find(|(_, entry)| is_elsewhere(entry))?;
        Some(format!(
            "message {other} of its group is out with another consumer ({entry:?})"
        ))
    }

    fn found_empty(&mut self, key: ChannelKey) {
        let get = self.channels.get_mut(&key).and_then(|c| c.gets.pop_front());
        let Some((Some(queue), _)) = get else { return };
        let lost = self.queues[queue]
            .entries
            .iter()
            .filter(|(_, entry)| entry.out.is_none() && entry.is_in_place())
            .map(|(number, _)| *number)
            .find(|number| {
                self.is_owed(queue, *number) && self.out_of_group(queue, *number).next().is_none()
            });
        if let Some(number) = lost {
            let name = QUEUES[queue].name;
            self.fail(format!(
                "lost: queue {name} is empty and should hold message {number}"
            ));
        }
    }

    fn judged(&mut self, key: ChannelKey, sequence: u64, accepted: bool) {
        let number = self.channels.get(&key).and_then(|channel| {
            let at = usize::try_from(sequence).ok()?.checked_sub(1)?;
            channel.published.get(at).copied().flatten()
        });
        let Some(number) = number else { return };
        if accepted {
            return self.resend_accepted(number);
        }
        let atomic = self.message(number).is_some_and(|message| message.atomic);
        for queue in &mut self.queues {
            if atomic {
                queue.bury(number);
            } else if let Some(entry) = queue.entries.get_mut(&number) {
                entry.belief = Belief::Maybe;
                entry.is_refused = true;
            }
        }
    }
}

/// Who sent it, and its message group where the queue has groups.
pub(super) type Order = ((u64, u16), Option<u8>);

fn number_of(message: &Message) -> Result<body::MessageNumber, String> {
    let parts: Vec<_> = message.body_parts().collect();
    body::number(&parts).map(|(number, _)| number)
}
