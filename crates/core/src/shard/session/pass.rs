//! The usual way of a PUBLISH: to sessions whose clients take it as it comes, and of which none is
//! in the journal.
//!
//! It is looked at where it lies. Of QoS 0 nothing is left behind; of QoS 1 and 2 what is out with
//! clients. The outcome is that of entering the sessions' queues and going out of them again.

use std::sync::Arc;

use menzil_model::fact::{Extent, Origin};
use menzil_model::{ConnectionId, Message};

use super::super::Shard;
use crate::command::Body;
use crate::mqtt::{
    Copy, CopyContent, Grant, InFlight, SessionTarget, TopicPublish, TopicRoute, Verdict,
    packet_id_of,
};
use crate::queue::{Item, Queue};
use crate::turn::Turn;

/// What a session gets of a PUBLISH.
fn grant_of(publish: &TopicPublish<'_>, target: &SessionTarget) -> Grant {
    Grant {
        qos: publish.qos.min(target.options.qos()),
        retain: publish.retain && target.options.retain_as_published(),
        sent: false,
        shared: false,
    }
}

impl Shard {
    /// Lets a PUBLISH go to its sessions, if all of them take it at once, and answers it. False
    /// where they do not, and nothing has happened.
    pub(super) fn pass_topic(
        &mut self,
        turn: &mut Turn<'_>,
        publisher: ConnectionId,
        publish: &TopicPublish<'_>,
        route: &TopicRoute,
    ) -> bool {
        let is_whole = match publish.payload {
            Body::Whole(body) => body.len() <= self.settings.chunk_bytes,
            Body::Parts(_) => false,
        };
        let is_alone = route.queues.is_empty() && route.groups.is_empty();
        let is_written = publish.retain || publish.qos > 0 && route.has_durable;
        if !is_whole || !is_alone || is_written || route.sessions.is_empty() {
            return false;
        }
        let takes = |target: &SessionTarget| self.takes_at_once(publish, target).is_some();
        if !route.sessions.iter().all(takes) {
            return false;
        }
        self.counters.routed += 1;
        self.answer_publish(turn, publisher, publish, (Verdict::Accepted, 0));
        let mut message = None;
        for target in &route.sessions {
            if let Some(to) = self.takes_at_once(publish, target) {
                self.hand_copy(turn, (publish, route), (target, to), &mut message);
            }
        }
        true
    }

    /// The connection of a session whose client takes one more now, before which none waits.
    #[inline]
    fn takes_at_once(
        &self,
        publish: &TopicPublish<'_>,
        target: &SessionTarget,
    ) -> Option<ConnectionId> {
        let queue = self.queues.at(target.place, target.session)?;
        let session = queue.session.as_deref()?;
        let link = session.link.as_ref()?;
        let grant = grant_of(publish, target);
        let connection = self.connections.at(link.place, link.connection)?;
        let takes = queue.index.ready_count() == 0
            && connection.credit > 0
            && (grant.qos == 0
                // Its places do not depend on the time.
                || session.has_room_for(link, queue.place(grant.bits(), 0, 0)));
        takes.then_some(link.connection)
    }

    /// Hands it to one of them.
    fn hand_copy(
        &mut self,
        turn: &mut Turn<'_>,
        (publish, route): (&TopicPublish<'_>, &TopicRoute),
        (target, to): (&SessionTarget, ConnectionId),
        message: &mut Option<Arc<Message>>,
    ) {
        let chunk_bytes = self.settings.chunk_bytes;
        let Some(queue) = self.queues.at_mut(target.place, target.session) else {
            return;
        };
        let grant = grant_of(publish, target);
        let packet_id = if grant.qos > 0 {
            let message = message.get_or_insert_with(|| Arc::new(publish.message(chunk_bytes)));
            keep_out(queue, turn.now, (publish, grant), message)
        } else {
            queue.counters.acknowledged += 1;
            self.counters.acknowledged += 1;
            0
        };
        queue.counters.entered += 1;
        queue.counters.delivered += 1;
        self.counters.delivered += 1;
        let session = queue.session.as_deref();
        let ids = session.map_or_else(Vec::new, |session| session.ids_of(publish.topic));
        let copy = Copy {
            to,
            after: 0,
            packet_id,
            qos: grant.qos,
            dup: false,
            retain: grant.retain,
            ids: &ids,
            expiry: publish.expiry,
            content: CopyContent::Passing {
                publish,
                envelope: route.number,
            },
        };
        turn.effects.deliver_copy(&copy);
        let bytes = copy.credit_bytes();
        let place = session
            .and_then(|session| session.link)
            .map(|link| link.place);
        if let Some(connection) = place.and_then(|place| self.connections.at_mut(place, to)) {
            connection.spend(bytes);
        }
    }
}

/// Notes what goes out and is to be answered. Returns its packet identifier.
fn keep_out(
    queue: &mut Queue,
    now: u64,
    (publish, grant): (&TopicPublish<'_>, Grant),
    message: &Arc<Message>,
) -> u16 {
    let sequence = queue.place(grant.bits(), now, 0);
    let ttl = publish.ttl();
    let item = Item {
        sequence,
        origin: Origin::default(),
        extent: Extent {
            body_bytes: message.body_bytes(),
            total_bytes: message.total_bytes(),
            ..Extent::default()
        },
        expires_at: queue.expires_at(now, ttl),
        durable: false,
        redelivered: false,
        failed: 0,
        acquired: 0,
    };
    queue.note_place(sequence);
    queue.content.warm();
    queue.index.insert_out(item, Some(Arc::clone(message)));
    if let Some(session) = queue.session.as_deref_mut() {
        session.in_flight.push_back(InFlight {
            sequence,
            is_released: false,
        });
    }
    packet_id_of(sequence)
}
