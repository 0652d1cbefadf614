//! PUBACK, PUBREC, PUBREL and PUBCOMP.

use menzil_model::fact::{SessionChange, Why};
use menzil_model::{ConnectionId, Fact, QueueId, Sequence};

use super::super::Shard;
use crate::mqtt::{EndReason, Grant, InFlight, SessionOutput};
use crate::queue::Settled;
use crate::slots::Place;
use crate::turn::Turn;

impl Shard {
    /// PUBACK: the client has a message of QoS 1. One that is not out is passed over.
    pub(super) fn session_acknowledges(
        &mut self,
        turn: &mut Turn<'_>,
        (connection, at): (ConnectionId, (QueueId, Place)),
        packet_id: u16,
    ) {
        let is_meant = |one: &InFlight| Grant::of(one.sequence).qos == 1;
        self.finish_in_flight(turn, (connection, at), packet_id, is_meant);
    }

    /// An entry that is out is done with, if what the client says is meant for such a one. One that
    /// is not out is passed over.
    fn finish_in_flight(
        &mut self,
        turn: &mut Turn<'_>,
        (connection, at): (ConnectionId, (QueueId, Place)),
        packet_id: u16,
        is_meant: impl FnOnce(&InFlight) -> bool,
    ) {
        let Some(session) = self.session_mut(at) else {
            return;
        };
        let Some(found) = session.find_in_flight(packet_id) else {
            return;
        };
        match session.in_flight.get(found).copied() {
            Some(one) if is_meant(&one) => {
                session.in_flight.remove(found);
                session.released.remove(&one.sequence);
                self.settle_in_session(at, one.sequence);
            }
            Some(_) => self.end_for_wrong_ack(turn, connection),
            None => {}
        }
    }

    /// The client cannot have meant what it said (§4.3.2, §4.3.3).
    #[cold]
    fn end_for_wrong_ack(&mut self, turn: &mut Turn<'_>, connection: ConnectionId) {
        let output = SessionOutput::Ended(EndReason::WrongAck);
        turn.send_session(connection, 0, output);
        self.leave_session(turn, connection, (true, None));
    }

    /// PUBREC: the client has a message of QoS 2, or does not want it. Its PUBREL waits until
    /// that is committed: from then on it never gets the message again.
    pub(super) fn session_received(
        &mut self,
        turn: &mut Turn<'_>,
        (connection, at): (ConnectionId, (QueueId, Place)),
        packet_id: u16,
        is_refused: bool,
    ) {
        let Some(session) = self.session_mut(at) else {
            return;
        };
        let found = session.find_in_flight(packet_id);
        let one = found.and_then(|found| session.in_flight.get_mut(found));
        if one
            .as_ref()
            .is_some_and(|one| Grant::of(one.sequence).qos != 2)
        {
            self.end_for_wrong_ack(turn, connection);
            return;
        }
        let Some(one) = one else {
            if !is_refused {
                let is_known = false;
                let output = SessionOutput::Release {
                    packet_id,
                    is_known,
                };
                turn.send_session(connection, 0, output);
            }
            return;
        };
        let sequence = one.sequence;
        let was_released = std::mem::replace(&mut one.is_released, true);
        if is_refused && !was_released {
            if let Some(found) = found {
                session.in_flight.remove(found);
            }
            self.settle_in_session(at, sequence);
            return;
        }
        let after = if was_released {
            0
        } else {
            let fact = Fact::Session {
                session: at.0,
                change: SessionChange::DeliveryReceived { sequence },
            };
            let is_written = self.is_durable_out(at, sequence);
            self.record(turn, fact, is_written)
        };
        let output = SessionOutput::Release {
            packet_id,
            is_known: true,
        };
        turn.send_session(connection, after, output);
    }

    fn is_durable_out(&self, (id, place): (QueueId, Place), sequence: Sequence) -> bool {
        let queue = self.queues.at(place, id);
        queue.is_some_and(|queue| queue.index.is_durable(sequence))
    }

    /// PUBCOMP: the packet identifier is free.
    pub(super) fn session_completes(
        &mut self,
        turn: &mut Turn<'_>,
        (connection, at): (ConnectionId, (QueueId, Place)),
        packet_id: u16,
    ) {
        self.finish_in_flight(turn, (connection, at), packet_id, |one| one.is_released);
    }

    /// PUBREL: the next message with that packet identifier is another one. PUBCOMP waits until
    /// that is committed: after a crash it would else be taken for the old one.
    pub(super) fn session_releases(
        &mut self,
        turn: &mut Turn<'_>,
        (connection, at): (ConnectionId, (QueueId, Place)),
        packet_id: u16,
    ) {
        let Some(session) = self.session_mut(at) else {
            return;
        };
        let received = session.received.remove(&packet_id);
        let after = match received {
            // Nothing of it is in the journal.
            None | Some(0) => 0,
            Some(_) => {
                let fact = Fact::Session {
                    session: at.0,
                    change: SessionChange::PacketReleased { packet_id },
                };
                let is_written = self.is_session_recorded(at);
                self.record(turn, fact, is_written)
            }
        };
        let output = SessionOutput::Completed {
            packet_id,
            is_known: received.is_some(),
        };
        turn.send_session(connection, after, output);
    }

    /// An entry that was out is done with.
    fn settle_in_session(&mut self, (id, place): (QueueId, Place), sequence: Sequence) {
        let Some(queue) = self.queues.at_mut(place, id) else {
            return;
        };
        let mut settled = Settled {
            releases: &mut self.releases,
            spare: &mut self.spare,
            settling: &mut self.settling,
        };
        if queue.acknowledge_in_session(sequence, &mut settled) {
            self.counters.acknowledged += 1;
        }
        if Grant::of(sequence).shared {
            self.settle_lent(id, sequence, Why::Acknowledged);
        }
        let Some(queue) = self.queues.at(place, id) else {
            return;
        };
        if queue.index.ready_count() > 0 || queue.has_deadlines() {
            self.touch_at(id, place);
        }
    }
}
