//! What waits in a session's queue goes to its client.

use std::sync::Arc;

use menzil_model::fact::Why;
use menzil_model::{ConnectionId, Fact, Message, QueueId, Sequence};

use super::super::Shard;
use crate::effect::DELIVERY_OVERHEAD_BYTES;
use crate::mqtt::{
    Copy, CopyContent, Grant, InFlight, SessionLink, SessionOutput, TopicNotes, packet_id_of,
};
use crate::queue::{Body, Item, Queue, Settled};
use crate::slots::Place;
use crate::turn::Turn;

/// What is to be done before a session gets more.
pub(super) enum Halt {
    /// Nothing: it has no more that is here, or its client cannot take more.
    End,
    /// Its head is to expire.
    Expired,
    /// It is to be recorded that entries below this place go out.
    Mark(Sequence),
    /// The next messages are to be read; where it `waits`, the head is one of them.
    Ask { waits: bool },
}

impl Shard {
    /// Delivers until the queue is empty, the client can take no more, or the head is not here.
    pub(in super::super) fn pump_session(
        &mut self,
        turn: &mut Turn<'_>,
        id: QueueId,
        place: Place,
    ) {
        let Some(link) = self.session((id, place)).and_then(|session| session.link) else {
            return;
        };
        loop {
            match self.session_halt(turn.now, &link, (id, place)) {
                Some(Halt::End) => {
                    self.refill_session(turn, (id, place));
                    self.take_from_groups(turn.now, (id, place));
                    return;
                }
                Some(Halt::Expired) => {
                    if !self.expire_now(turn, id) {
                        return;
                    }
                }
                Some(Halt::Mark(below)) => {
                    self.record(turn, Fact::Delivering { queue: id, below }, true);
                }
                Some(Halt::Ask { waits }) => {
                    self.ask(turn, id);
                    if waits {
                        self.take_from_groups(turn.now, (id, place));
                        return;
                    }
                }
                None => self.deliver_head(turn, &link, (id, place)),
            }
        }
    }

    pub(super) fn session_halt(
        &self,
        now: u64,
        link: &SessionLink,
        (id, place): (QueueId, Place),
    ) -> Option<Halt> {
        let queue = self.queues.at(place, id)?;
        let session = queue.session.as_deref()?;
        let Some((head, body)) = queue.index.next() else {
            return Some(Halt::End);
        };
        let connection = self.connections.at(link.place, link.connection);
        let credit = connection.map_or(0, |connection| connection.credit);
        if credit <= 0 {
            return Some(Halt::End);
        }
        let grant = Grant::of(head.sequence);
        if grant.qos > 0 && !session.has_room_for(link, head.sequence) {
            return Some(Halt::End);
        }
        if session.released.contains(&head.sequence) {
            // Its message is not wanted any more.
            return None;
        }
        if queue.index.expiry_of(head).is_some_and(|at| at < now) {
            return Some(Halt::Expired);
        }
        match body {
            Body::Here if queue.index.runs_low() => Some(Halt::Ask { waits: false }),
            Body::Here => {
                let is_due = head.durable && grant.qos > 0 && !grant.sent;
                let due = queue.mark.due(head.sequence).filter(|_| is_due);
                due.map(|_| Halt::Mark(mark_below(queue, link, credit)))
            }
            Body::Away => Some(Halt::Ask { waits: true }),
            Body::Asked => Some(Halt::End),
        }
    }

    fn deliver_head(&mut self, turn: &mut Turn<'_>, link: &SessionLink, at: (QueueId, Place)) {
        let head = self
            .queues
            .at(at.1, at.0)
            .and_then(|queue| queue.index.head());
        let shared = head
            .map(|head| head.sequence)
            .filter(|place| Grant::of(*place).shared);
        let share_id = shared.and_then(|sequence| self.id_of_share(at, sequence));
        let owned = shared.map_or(0, |sequence| self.own_before_sending(turn, at, sequence));
        let Some(queue) = self.queues.at_mut(at.1, at.0) else {
            return;
        };
        let is_released = (queue.index.head().zip(queue.session.as_deref()))
            .is_some_and(|(head, session)| session.released.contains(&head.sequence));
        let Some((item, content)) = queue.index.take_head() else {
            return;
        };
        queue.went_out(&item, &mut self.counters);
        let grant = Grant::of(item.sequence);
        let marked = grant.qos > 0 && !grant.sent && item.durable;
        let after = if marked {
            queue.delivered(&item)
        } else {
            queue.moved.waits_for(&item)
        };
        // After a crash that loses its record another message would have its packet identifier,
        // and be taken for this one.
        let recorded = Some(item.origin.index).filter(|_| grant.qos == 2 && item.durable);
        let after = after.max(owned).max(recorded.unwrap_or_default());
        if grant.qos > 0
            && let Some(session) = queue.session.as_deref_mut()
        {
            session.in_flight.push_back(InFlight {
                sequence: item.sequence,
                is_released,
            });
        }
        if is_released {
            let output = SessionOutput::Release {
                packet_id: packet_id_of(item.sequence),
                is_known: true,
            };
            turn.send_session(link.connection, 0, output);
        } else {
            let held = || queue.index.content_out(item.sequence);
            if let Some(message) = content.as_ref().or_else(held) {
                let out = (&item, after, share_id);
                let bytes = send_copy(turn, queue, link.connection, out, message);
                if let Some(connection) = self.connections.at_mut(link.place, link.connection) {
                    connection.spend(bytes);
                }
            }
        }
        self.spare.keep(content);
        if grant.qos == 0 {
            self.settle_sent(at, item.sequence);
        }
    }

    /// What is sent with QoS 0 is done with.
    fn settle_sent(&mut self, (id, place): (QueueId, Place), sequence: Sequence) {
        let Some(queue) = self.queues.at_mut(place, id) else {
            return;
        };
        let mut settled = Settled {
            releases: &mut self.releases,
            spare: &mut self.spare,
            settling: &mut self.settling,
        };
        if queue.acknowledge_unasked(sequence, &mut settled) {
            self.counters.acknowledged += 1;
        }
        if Grant::of(sequence).shared {
            self.settle_lent(id, sequence, Why::Acknowledged);
        }
    }
}

/// Sends an entry's message. Returns what it takes of the connection's credit.
fn send_copy(
    turn: &mut Turn<'_>,
    queue: &Queue,
    to: ConnectionId,
    (item, after, share_id): (&Item, u64, Option<u32>),
    message: &Arc<Message>,
) -> u64 {
    let grant = Grant::of(item.sequence);
    let ids = match queue.session.as_deref() {
        Some(_) if grant.shared => share_id.into_iter().collect(),
        Some(session) if session.ids > 0 => {
            let notes = TopicNotes::read(message.notes()).unwrap_or_default();
            session.ids_of(notes.topic)
        }
        Some(_) | None => Vec::new(),
    };
    let copy = Copy {
        to,
        after,
        packet_id: if grant.qos > 0 {
            packet_id_of(item.sequence)
        } else {
            0
        },
        qos: grant.qos,
        dup: grant.qos > 0 && item.redelivered,
        retain: grant.retain,
        ids: &ids,
        expiry: item.expires_at.map(|at| seconds_left(at, turn.now)),
        content: CopyContent::Stored(message),
    };
    turn.effects.deliver_copy(&copy);
    copy.credit_bytes()
}

/// Whole seconds that waiting did not take (MQTT-3.3.2-6).
pub(super) fn seconds_left(expires_at: u64, now: u64) -> u32 {
    let left = expires_at.saturating_sub(now).div_ceil(1000);
    u32::try_from(left).unwrap_or(u32::MAX)
}

/// One past the last entry that goes out now: so many do with one record, and none is marked that
/// stays.
fn mark_below(queue: &Queue, link: &SessionLink, mut credit: i64) -> Sequence {
    let session = queue.session.as_deref();
    let out = session.map_or(0, |session| session.in_flight.len());
    let mut room = usize::from(link.receive_max).saturating_sub(out);
    let mut last = queue.index.head().map(|head| head.sequence);
    for item in queue.index.here().take(MARKED_AT_ONCE) {
        let needs_room = usize::from(Grant::of(item.sequence).qos > 0);
        if credit <= 0 || room < needs_room {
            break;
        }
        room -= needs_room;
        let bytes = item.extent.total_bytes + DELIVERY_OVERHEAD_BYTES;
        credit = credit.saturating_sub(i64::try_from(bytes).unwrap_or(i64::MAX));
        last = last.max(Some(item.sequence));
    }
    last.map_or(Sequence(0), |last| Sequence(last.0 + 1))
}

/// Entries that are looked at for a mark.
const MARKED_AT_ONCE: usize = 256;
