//! PUBLISH: one record for all sessions and queues that a message reaches.

use std::sync::Arc;

use bytes::Bytes;
use menzil_model::fact::{Chunks, Entry, Extent, Kept, Origin, Published, SessionChange, Why};
use menzil_model::{ConnectionId, Fact, Message, QueueId};

use super::super::Shard;
use super::super::publish::{Intake, Pending, extent_of};
use crate::channel::HeldPublish;
use crate::effect::Effects;
use crate::log::Log;
use crate::mqtt::{
    EndReason, Found, Grant, Group, SessionOutput, SessionTarget, TopicNotes, TopicPublish,
    TopicRoute, Verdict,
};
use crate::queue::Overflow;
use crate::slots::Place;
use crate::turn::Turn;

/// Entries that a length limit drops for one message, at most.
const DROPPED_AT_ONCE: usize = 10_000;

/// Who publishes, and what it is to be told.
#[derive(Clone, Copy)]
struct Publisher {
    session: QueueId,
    /// The session's place, and its connection, where a client asks.
    client: Option<(Place, ConnectionId)>,
}

impl Shard {
    /// PUBLISH of a session's client.
    pub fn publish_topic(
        &mut self,
        now: u64,
        connection: ConnectionId,
        publish: &TopicPublish<'_>,
        log: &mut dyn Log,
        effects: &mut dyn Effects,
    ) {
        let mut turn = Turn { now, log, effects };
        if let Some(at) = self.session_of(connection) {
            self.publish_from(&mut turn, (connection, at), publish);
        }
        self.settle_down(&mut turn);
    }

    fn publish_from(
        &mut self,
        turn: &mut Turn<'_>,
        (connection, at): (ConnectionId, (QueueId, Place)),
        publish: &TopicPublish<'_>,
    ) {
        if publish.qos == 2 {
            let receive_max = usize::from(self.settings.sessions.receive_max);
            let Some(session) = self.session(at) else {
                return;
            };
            if let Some(after) = session.received.get(&publish.packet_id).copied() {
                // The same one once more (MQTT-4.3.3-10).
                self.answer_publish(turn, connection, publish, (Verdict::Accepted, after));
                return;
            }
            if session.received.len() >= receive_max {
                let output = SessionOutput::Ended(EndReason::TooManyAtOnce);
                turn.send_session(connection, 0, output);
                self.leave_session(turn, connection, (true, None));
                return;
            }
        }
        self.counters.published += 1;
        let route = self.topic_route(at, publish);
        let publisher = Publisher {
            session: at.0,
            client: Some((at.1, connection)),
        };
        let has_passed = self.pass_topic(turn, connection, publish, &route);
        let (verdict, after) = if has_passed {
            (Verdict::Accepted, 0)
        } else {
            self.place_topic(turn, publisher, publish, &route)
        };
        if let Some(session) = self.session_mut(at) {
            session.route = Some(route);
            // Of what was refused the identifier is free at once (MQTT-4.3.3-9).
            if publish.qos == 2 && verdict != Verdict::Full {
                session.received.entry(publish.packet_id).or_insert(after);
            }
        }
        if !has_passed {
            self.answer_publish(turn, connection, publish, (verdict, after));
        }
    }

    /// Tells the publisher, if it wants to hear.
    pub(super) fn answer_publish(
        &mut self,
        turn: &mut Turn<'_>,
        connection: ConnectionId,
        publish: &TopicPublish<'_>,
        (verdict, after): (Verdict, u64),
    ) {
        if publish.qos == 0 {
            return;
        }
        match verdict {
            Verdict::Accepted | Verdict::NoMatch => self.counters.confirmed += 1,
            Verdict::Full => self.counters.nacked += 1,
        }
        let output = SessionOutput::Published {
            packet_id: publish.packet_id,
            qos: publish.qos,
            verdict,
        };
        turn.send_session(connection, after, output);
    }

    /// Publishes what nobody waits for, in the name of a session.
    pub(super) fn publish_for(
        &mut self,
        turn: &mut Turn<'_>,
        session: QueueId,
        publish: &TopicPublish<'_>,
    ) {
        let mut route = Box::default();
        self.find_topic_route(session, publish, &mut route);
        let client = None;
        self.place_topic(turn, Publisher { session, client }, publish, &route);
    }

    /// The way of a PUBLISH, that of the client's last one if it holds.
    fn topic_route(&mut self, at: (QueueId, Place), publish: &TopicPublish<'_>) -> Box<TopicRoute> {
        let generation = self.topology.generation();
        let last = self
            .session_mut(at)
            .and_then(|session| session.route.take());
        let mut route = match last {
            Some(route) if route.is_for(generation, publish.topic, publish.properties) => {
                return route;
            }
            last => last.unwrap_or_default(),
        };
        self.find_topic_route(at.0, publish, &mut route);
        route
    }

    fn find_topic_route(
        &mut self,
        publisher: QueueId,
        publish: &TopicPublish<'_>,
        route: &mut TopicRoute,
    ) {
        self.next_route += 1;
        route.number = self.next_route;
        route.restart(
            self.topology.generation(),
            publish.topic,
            publish.properties,
        );
        route.queues = self.bridged_queues(publish);
        let sessions = &mut self.sessions;
        sessions
            .tree
            .find(publish.topic, &mut sessions.scratch, |found| match found {
                Found::Session(subscriber) => {
                    let options = subscriber.options;
                    if !(options.no_local() && subscriber.session == publisher) {
                        route.sessions.push(SessionTarget {
                            session: subscriber.session,
                            place: subscriber.place,
                            options,
                        });
                    }
                }
                Found::Group(queue, place) => route.groups.push((queue, place)),
            });
        route.merge();
        route.has_durable = self.outlive_a_restart(&route.sessions, &route.groups);
    }

    /// Hands a message to all who get it. Returns what to tell the publisher, and the index that
    /// this waits for.
    fn place_topic(
        &mut self,
        turn: &mut Turn<'_>,
        publisher: Publisher,
        publish: &TopicPublish<'_>,
        route: &TopicRoute,
    ) -> (Verdict, u64) {
        if route.is_nowhere() && !publish.retain {
            self.counters.unroutable_dropped += 1;
            return (Verdict::NoMatch, 0);
        }
        let held = HeldPublish {
            message: Arc::new(self.message_of_topic(publish, route)),
            persistent: publish.qos > 0,
            ttl: publish.ttl(),
            priority: 0,
            delay: 0,
            targets: route.queues.clone(),
            sessions: route.sessions.clone(),
            groups: route.groups.clone(),
            retain: publish.retain,
            replies: Vec::new(),
            unroutable: false,
            is_moved: false,
        };
        let may_retain = !publish.retain || self.may_retain(turn, &held);
        let mut pending = Pending::default();
        let intake = self.intake(turn, &held, false, &mut pending);
        let is_refused = !intake.refused_by.is_empty() || !may_retain;
        self.counters.refused += u64::from(is_refused);
        let has_any = intake.reaches_a_queue();
        self.counters.routed += u64::from(has_any);
        let is_stored = intake.entries.iter().any(|entry| entry.durable);
        let mut also = self.retained_by(turn, &held);
        let is_recorded = publisher
            .client
            .is_some_and(|(place, _)| self.is_session_recorded((publisher.session, place)));
        let is_written = is_stored || !also.is_empty();
        if publish.qos == 2 && is_recorded && is_written && !is_refused {
            also.push(Fact::Session {
                session: publisher.session,
                change: SessionChange::PacketReceived {
                    packet_id: publish.packet_id,
                },
            });
        }
        let after = self.enter_topic(turn, held.message, (intake, &pending), also);
        let verdict = match (is_refused, has_any || publish.retain) {
            (true, _) => Verdict::Full,
            (false, true) => Verdict::Accepted,
            (false, false) => Verdict::NoMatch,
        };
        (verdict, after)
    }

    /// The message as sessions and queues hold it.
    fn message_of_topic(&self, publish: &TopicPublish<'_>, route: &TopicRoute) -> Message {
        let chunk_bytes = self.settings.chunk_bytes;
        if route.queues.is_empty() && route.groups.is_empty() {
            return publish.message(chunk_bytes);
        }
        let key = self.key_of_topic(publish.topic).unwrap_or_default();
        let properties = self.amqp_properties(publish);
        let exchange = self.settings.sessions.exchange.as_bytes();
        publish.message_as((exchange, &key, &properties), chunk_bytes)
    }

    /// Asks the sessions that are to get a message, after the queues. The journal has it where one
    /// of these has it there, or one of them survives a restart and the message is to.
    pub(in super::super) fn ask_sessions(
        &mut self,
        turn: &Turn<'_>,
        held: &HeldPublish,
        intake: &mut Intake,
    ) {
        let in_queues = intake.entries.iter().any(|entry| entry.durable);
        let wants_record = held.persistent && self.outlive_a_restart(&held.sessions, &held.groups);
        let has_room = in_queues || !wants_record || turn.log.has_room(held.message.total_bytes());
        let is_stored = in_queues || wants_record && has_room;
        for target in &held.sessions {
            if wants_record && !has_room && self.is_session_recorded((target.session, target.place))
            {
                intake.is_disk_full = true;
                intake.refused_by.push(target.session);
                continue;
            }
            if let Some(entry) = self.ask_session(turn, held, (target, is_stored)) {
                intake.entries.push(entry);
            }
        }
        for group in &held.groups {
            if wants_record && !has_room && self.is_group_durable(*group) {
                intake.is_disk_full = true;
                intake.refused_by.push(group.0);
            } else if let Some(entry) = self.ask_group(turn.now, held, (*group, is_stored)) {
                intake.entries.push(entry);
            }
        }
    }

    /// Whether what waits for one of these is recorded.
    fn outlive_a_restart(&self, sessions: &[SessionTarget], groups: &[(QueueId, Place)]) -> bool {
        let mut sessions = sessions.iter();
        sessions.any(|target| self.is_session_recorded((target.session, target.place)))
            || groups.iter().any(|group| self.is_group_durable(*group))
    }

    /// Whether what waits for a group is recorded.
    fn is_group_durable(&self, (id, place): (QueueId, Place)) -> bool {
        let queue = self.queues.at(place, id);
        let filter = queue.and_then(|queue| queue.group.as_ref());
        let group = filter.and_then(|filter| self.sessions.groups.get(filter));
        group.is_some_and(Group::is_durable)
    }

    /// Asks a session, which gets an entry unless it does not wait for such messages or has too
    /// many.
    fn ask_session(
        &mut self,
        turn: &Turn<'_>,
        held: &HeldPublish,
        (target, is_stored): (&SessionTarget, bool),
    ) -> Option<Entry> {
        let queue = self.queues.at(target.place, target.session)?;
        let session = queue.session.as_deref()?;
        let published = TopicNotes::read(held.message.notes()).unwrap_or_default();
        let qos = published.qos.min(target.options.qos());
        if qos == 0 && session.link.is_none() && !self.settings.sessions.queue_qos0 {
            self.drop_offline((target.session, target.place));
            return None;
        }
        let grant = Grant {
            qos,
            retain: held.retain && target.options.retain_as_published(),
            sent: false,
            shared: false,
        };
        let place = queue.place(grant.bits(), turn.now, 0);
        let is_next = queue.index.ready_count() == 0
            && session.link.is_some_and(|link| {
                let connection = self.connections.at(link.place, link.connection);
                connection.is_some_and(|connection| connection.credit > 0)
                    && (qos == 0 || session.has_room_for(&link, place))
            });
        let is_over = !is_next && queue.is_over(1, held.message.body_bytes());
        if is_over && queue.settings.overflow != Overflow::DropHead {
            let link = session.link;
            if let Some(queue) = self.queues.at_mut(target.place, target.session) {
                queue.counters.refused += 1;
            }
            self.counters.session_limit_dropped += 1;
            let disconnects = self.settings.sessions.limit == super::SessionLimit::Disconnect;
            if let Some(link) = link.filter(|_| disconnects) {
                self.sessions.ending.push(link.connection);
            }
            return None;
        }
        let sent = is_next && qos > 0;
        let grant = Grant { sent, ..grant };
        Some(Entry {
            queue: target.session,
            sequence: queue.place(grant.bits(), turn.now, 0),
            expires_at: queue.expires_at(turn.now, held.ttl),
            // What is of QoS 0 comes once or not at all: a crash forgets that it was sent.
            durable: is_stored && qos > 0 && queue.definition.durable,
        })
    }

    /// What came with QoS 0 while a client was away is dropped.
    fn drop_offline(&mut self, at: (QueueId, Place)) {
        self.counters.session_offline_dropped += 1;
        if let Some(session) = self.session_mut(at) {
            session.dropped_offline += 1;
        }
    }

    /// Puts the message into its sessions and queues: one record, with what length limits drop
    /// for it, and what else is to happen with it or not at all.
    pub(in super::super) fn enter_topic(
        &mut self,
        turn: &mut Turn<'_>,
        message: Arc<Message>,
        (intake, pending): (Intake, &Pending),
        also: Vec<Fact>,
    ) -> u64 {
        self.count_duplicates(&intake.duplicates);
        let earlier = intake.duplicates.after;
        let (entries, keys) = (intake.entries, intake.keys);
        let is_stored = entries.iter().any(|entry| entry.durable);
        self.count_delayed(&entries);
        for entry in &entries {
            self.touch(entry.queue);
        }
        let mut dropped = Vec::new();
        for queue in pending.queues() {
            if let Some((ranges, durable)) = self.overflow(queue, pending, DROPPED_AT_ONCE) {
                let why = Why::Overflow;
                dropped.push((Fact::Settled { queue, ranges, why }, durable));
            }
        }
        let is_written = is_stored || !also.is_empty();
        let retained = also.iter().filter(|fact| is_new_retained(fact)).count();
        let references = if is_stored { entries.len() } else { 0 } + retained;
        let extent = extent_of(turn, &message, Chunks::default(), references);
        if entries.is_empty() && retained == 0 {
            return self.record_all(turn, also, is_written).max(earlier);
        }
        let published = Fact::Published(Published {
            message: Some(message),
            extent,
            entries,
            keys,
        });
        let mut facts = vec![published];
        facts.extend(also.into_iter().map(|fact| with_extent(fact, extent)));
        if is_written {
            facts.extend(dropped.into_iter().map(|(fact, _)| fact));
            return self.record_all(turn, facts, true).max(earlier);
        }
        self.record_all(turn, facts, false);
        for (fact, durable) in dropped {
            self.record(turn, fact, durable);
        }
        earlier
    }

    fn record_all(&mut self, turn: &mut Turn<'_>, mut facts: Vec<Fact>, is_written: bool) -> u64 {
        match facts.len() {
            0 => 0,
            1 => facts
                .pop()
                .map_or(0, |fact| self.record(turn, fact, is_written)),
            2.. => self.record(turn, Fact::Group(facts), is_written),
        }
    }

    /// Ends the connections of sessions that passed a limit.
    pub(in super::super) fn end_over_limit(&mut self, turn: &mut Turn<'_>) {
        for connection in std::mem::take(&mut self.sessions.ending) {
            if self.session_of(connection).is_some() {
                let output = SessionOutput::Ended(EndReason::LimitReached);
                turn.send_session(connection, 0, output);
                self.leave_session(turn, connection, (true, None));
            }
        }
    }

    /// Whether there is room for the retained message, or for the record that it is gone.
    fn may_retain(&self, turn: &Turn<'_>, held: &HeldPublish) -> bool {
        let rules = &self.settings.sessions;
        let sessions = &self.sessions;
        if !turn.log.has_room(held.message.total_bytes()) {
            return false;
        }
        if held.message.body_bytes() == 0 {
            return true;
        }
        let notes = TopicNotes::read(held.message.notes()).unwrap_or_default();
        let before = sessions.retained.get(notes.topic);
        let bytes_before = before.map_or(0, |kept| kept.extent.total_bytes);
        let count = sessions.retained.len() as u64 + u64::from(before.is_none());
        let bytes = sessions.retained_bytes - bytes_before + held.message.total_bytes();
        count <= rules.retained_max && bytes <= rules.retained_bytes_max
    }

    /// What is to be recorded of a message that is to be retained: one without a body takes the
    /// retained one of its topic away (MQTT-3.3.1-6).
    pub(in super::super) fn retained_by(&self, turn: &Turn<'_>, held: &HeldPublish) -> Vec<Fact> {
        let notes = TopicNotes::read(held.message.notes()).filter(|_| held.retain);
        let Some(notes) = notes.filter(|_| self.may_retain(turn, held)) else {
            return Vec::new();
        };
        let kept = (held.message.body_bytes() > 0).then(|| Kept {
            origin: Origin::default(),
            extent: Extent::default(),
            expires_at: held.ttl.map(|ttl| turn.now.saturating_add(ttl)),
            qos: notes.qos,
        });
        vec![Fact::Retained {
            topic: Bytes::copy_from_slice(notes.topic),
            kept,
        }]
    }
}

fn is_new_retained(fact: &Fact) -> bool {
    matches!(fact, Fact::Retained { kept: Some(_), .. })
}

/// A retained message is as large as the one that is published with it.
fn with_extent(fact: Fact, extent: Extent) -> Fact {
    let Fact::Retained { topic, kept } = fact else {
        return fact;
    };
    let kept = kept.map(|kept| Kept { extent, ..kept });
    Fact::Retained { topic, kept }
}
