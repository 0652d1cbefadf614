//! MQTT sessions: what their clients ask for, and what is done for them.
//!
//! A session is a queue, and its id is that queue's; what is decided of entries is decided by the
//! queue's rules. Here is what only sessions have: who they are, what they subscribed to, packet
//! identifiers, and wills.

mod apply;
mod bridge;
mod deliver;
mod lend;
mod open;
mod pass;
mod publish;
mod retain;
mod settle;
mod share;
mod subscribe;
mod will;

use std::collections::BTreeSet;

use bytes::Bytes;
use menzil_model::{ConnectionId, Map, QueueId};

use super::Shard;
use crate::mqtt::{
    Groups, RetainedTopics, Session, SessionRequest, Translation, Tree, packet_id_of, shared_filter,
};
use crate::slots::Place;
use crate::topology::TrieScratch;
use crate::turn::Turn;

pub(super) use bridge::{Subscribers, with_topic};

/// What MQTT sessions may do.
#[derive(Clone, Debug)]
pub struct SessionSettings {
    /// The exchange that messages of topics go to, and that gives its own to subscribers.
    pub exchange: String,
    /// How topics and routing keys stand for each other.
    pub translation: Translation,
    /// Entries that may wait in a session's queue.
    pub messages_max: u64,
    /// Bytes of their bodies.
    pub bytes_max: u64,
    /// What happens when there are more.
    pub limit: SessionLimit,
    /// Messages of QoS 2 that one client may have on their way in.
    pub receive_max: u16,
    /// Subscriptions of one session.
    pub subscriptions_max: usize,
    /// Topics that may have a retained message.
    pub retained_max: u64,
    /// Bytes of retained messages.
    pub retained_bytes_max: u64,
    /// The most seconds that a session outlives its connection.
    pub expiry_max: u32,
    /// Messages of QoS 0 are kept for a client that is away.
    pub queue_qos0: bool,
}

/// What happens when too much waits for a session's client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SessionLimit {
    /// The oldest goes.
    #[default]
    DropOldest,
    /// What comes does not come in.
    DropNewest,
    /// The same, and the client's connection ends.
    Disconnect,
}

impl Default for SessionSettings {
    fn default() -> Self {
        Self {
            exchange: "amq.topic".to_owned(),
            translation: Translation::default(),
            messages_max: 100_000,
            bytes_max: 1 << 30,
            limit: SessionLimit::default(),
            receive_max: 1000,
            subscriptions_max: 10_000,
            retained_max: 10_000_000,
            retained_bytes_max: 4 << 30,
            expiry_max: u32::MAX,
            queue_qos0: false,
        }
    }
}

/// A session in numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionSummary {
    /// The client's identifier.
    pub client_id: Bytes,
    /// Survives a restart.
    pub durable: bool,
    /// Its client's connection.
    pub connection: Option<ConnectionId>,
    /// Subscriptions.
    pub subscriptions: u64,
    /// Entries that wait.
    pub ready: u64,
    /// Entries that are out.
    pub in_flight: u64,
    /// Entries that a limit dropped or kept out.
    pub dropped: u64,
    /// Messages of QoS 0 that came while its client was away.
    pub dropped_offline: u64,
}

/// What a shard knows of all sessions.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    /// By client identifier.
    clients: Map<Bytes, QueueId>,
    tree: Tree,
    scratch: TrieScratch,
    retained: RetainedTopics,
    /// Bytes of the messages.
    retained_bytes: u64,
    /// Those of them that end by themselves.
    retained_expiry: BTreeSet<(u64, Bytes)>,
    /// Connections that are to end: their sessions passed a limit.
    ending: Vec<ConnectionId>,
    groups: Groups,
    /// The exchange that MQTT meets AMQP at, as of a generation of the topology.
    bridge: bridge::Bridge,
}

impl Shard {
    /// Carries out what a session's client asks for.
    pub(super) fn session_request(
        &mut self,
        turn: &mut Turn<'_>,
        connection: ConnectionId,
        request: SessionRequest,
    ) {
        if let SessionRequest::Open(open) = request {
            self.open_session(turn, connection, &open);
            return;
        }
        let Some(at) = self.session_of(connection) else {
            // It was told that it ended; what it sent before it knew goes nowhere.
            return;
        };
        match request {
            SessionRequest::Open(_) => {}
            SessionRequest::Leave { with_will, expiry } => {
                self.leave_session(turn, connection, (with_will, expiry));
            }
            SessionRequest::Subscribe {
                packet_id,
                id,
                filters,
            } => self.subscribe(turn, (connection, at), (packet_id, id), filters),
            SessionRequest::Unsubscribe { packet_id, filters } => {
                self.unsubscribe(turn, (connection, at), packet_id, filters);
            }
            SessionRequest::Acknowledge { packet_id } => {
                self.session_acknowledges(turn, (connection, at), packet_id);
            }
            SessionRequest::Received {
                packet_id,
                is_refused,
            } => self.session_received(turn, (connection, at), packet_id, is_refused),
            SessionRequest::Release { packet_id } => {
                self.session_releases(turn, (connection, at), packet_id);
            }
            SessionRequest::Complete { packet_id } => {
                self.session_completes(turn, (connection, at), packet_id);
            }
        }
    }

    /// The session whose client that is.
    fn session_of(&self, connection: ConnectionId) -> Option<(QueueId, Place)> {
        self.connections.get(&connection)?.session
    }

    fn session(&self, (id, place): (QueueId, Place)) -> Option<&Session> {
        self.queues.at(place, id)?.session.as_deref()
    }

    fn session_mut(&mut self, (id, place): (QueueId, Place)) -> Option<&mut Session> {
        self.queues.at_mut(place, id)?.session.as_deref_mut()
    }

    /// Whether what happens to it is recorded.
    fn is_session_recorded(&self, (id, place): (QueueId, Place)) -> bool {
        let queue = self.queues.at(place, id);
        queue.is_some_and(|queue| queue.definition.durable)
    }

    /// Every session, by client identifier.
    pub fn sessions(&self) -> Vec<SessionSummary> {
        let with_session = self.queues.values().filter_map(|queue| {
            let session = queue.session.as_deref()?;
            Some(SessionSummary {
                client_id: session.client_id.clone(),
                durable: queue.definition.durable,
                connection: session.link.map(|link| link.connection),
                subscriptions: session.subscriptions.len() as u64,
                ready: queue.index.ready_count(),
                in_flight: session.in_flight.len() as u64,
                dropped: queue.counters.overflowed + queue.counters.refused,
                dropped_offline: session.dropped_offline,
            })
        });
        let mut all: Vec<_> = with_session.collect();
        all.sort_unstable_by(|a, b| a.client_id.cmp(&b.client_id));
        all
    }

    /// What is out is known to be, no two packet identifiers are the same, and subscriptions are
    /// in the tree.
    pub(super) fn check_sessions(&self) {
        self.sessions.tree.check_invariants();
        self.sessions.retained.check_invariants();
        self.check_groups();
        let mut subscriptions = 0;
        for (id, queue) in self.queues.iter() {
            let Some(session) = queue.session.as_deref() else {
                continue;
            };
            assert_eq!(self.sessions.clients.get(&session.client_id), Some(id));
            let out = session.in_flight.iter().map(|one| one.sequence);
            assert!(out.clone().all(|sequence| queue.index.is_out(sequence)));
            assert_eq!(out.len() as u64, queue.index.unsettled_count());
            let packets: BTreeSet<u16> = out.clone().map(packet_id_of).collect();
            assert_eq!(packets.len(), out.len(), "a packet identifier is out twice");
            assert!(out.is_sorted(), "entries are out in another order");
            let filters = session.subscriptions.keys();
            subscriptions += filters
                .filter(|filter| shared_filter(filter).is_none())
                .count();
            if let Some(link) = session.link {
                let connection = self.connections.get(&link.connection);
                let known = connection.and_then(|connection| connection.session);
                assert_eq!(known.map(|(known, _)| known), Some(*id));
                if let Some(at) = known {
                    let halt = self.session_halt(0, &link, at);
                    assert!(halt.is_some(), "a session has an entry and a client");
                }
            }
        }
        assert_eq!(self.sessions.tree.len(), subscriptions + self.group_count());
    }

    /// Topics that have a retained message.
    pub fn retained_count(&self) -> u64 {
        self.sessions.retained.len() as u64
    }

    /// Subscriptions of all sessions.
    pub fn subscription_count(&self) -> u64 {
        self.sessions.tree.len() as u64
    }
}
