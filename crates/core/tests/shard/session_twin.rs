//! A naive twin of MQTT sessions: clients that connect, subscribe alone and in groups, get and
//! acknowledge, and a process that dies. It says what each of them is to get.
//!
//! What the last command before a crash changed may be lost with its records: of that it says
//! only what can never happen.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use menzil_core::{
    Body, Command, Effect, Filter, Options, OwnedCopy, SessionOpen, SessionOutput, SessionRequest,
    ShardSettings, TopicNotes, TopicPublish, matches,
};
use menzil_model::ConnectionId;
use proptest::prelude::*;

use crate::support::{Crash, World, body_of, name};

const CLIENTS: u64 = 4;
const PUBLISHER: u64 = 90;
const FILTERS: [&str; 5] = ["a/+", "a/b", "#", "$share/g/a/#", "$share/h/a/b"];
const TOPICS: [&str; 3] = ["a/b", "a/c", "c"];
/// Subscription identifiers of filters that are shared begin here.
const SHARED: usize = 3;

#[derive(Clone, Debug)]
enum Step {
    Connect {
        client: u64,
        clean: bool,
        lasts: bool,
        receive_max: u16,
    },
    Leave {
        client: u64,
    },
    Subscribe {
        client: u64,
        filter: usize,
        qos: u8,
        retain: u8,
    },
    Unsubscribe {
        client: u64,
        filter: usize,
    },
    Publish {
        topic: usize,
        qos: u8,
        retain: bool,
        expiry: Option<u32>,
    },
    Acknowledge {
        client: u64,
        all: bool,
    },
    Drain {
        client: u64,
    },
    Pass {
        seconds: u64,
    },
    Crash {
        checkpoint: bool,
        lost: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let client = || 2..2 + CLIENTS;
    prop_oneof![
        4 => (client(), any::<bool>(), any::<bool>(), 1..4_u16).prop_map(
            |(client, clean, lasts, receive_max)| {
                Step::Connect { client, clean, lasts, receive_max }
            }
        ),
        2 => client().prop_map(|client| Step::Leave { client }),
        6 => (client(), 0..FILTERS.len(), 0..3_u8, 0..6_u8).prop_map(
            |(client, filter, qos, retain)| Step::Subscribe { client, filter, qos, retain }
        ),
        1 => (client(), 0..FILTERS.len())
            .prop_map(|(client, filter)| Step::Unsubscribe { client, filter }),
        10 => (
            0..TOPICS.len(),
            0..3_u8,
            prop::bool::weighted(0.2),
            prop::option::weighted(0.2, 1..4_u32),
        )
            .prop_map(|(topic, qos, retain, expiry)| {
                Step::Publish { topic, qos, retain, expiry }
            }),
        10 => (client(), prop::bool::weighted(0.2))
            .prop_map(|(client, all)| Step::Acknowledge { client, all }),
        1 => client().prop_map(|client| Step::Drain { client }),
        1 => (0..3_u64).prop_map(|seconds| Step::Pass { seconds }),
        1 => (any::<bool>(), 0..4_usize)
            .prop_map(|(checkpoint, lost)| Step::Crash { checkpoint, lost }),
    ]
}

/// A message on its way to a session.
#[derive(Clone, Debug, PartialEq)]
struct Expected {
    number: u64,
    topic: usize,
    qos: u8,
    retain: bool,
    expires_at: Option<u64>,
    /// It is there after a crash.
    durable: bool,
    /// The group that it came from, and whether that has it after a crash.
    shared: Option<(usize, bool)>,
    packet_id: u16,
    /// The client has it or had it on this connection.
    is_out: bool,
    was_sent: bool,
    /// Its PUBREC came.
    is_received: bool,
    /// What is known of it may not be so.
    is_unsure: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Session {
    lasts: bool,
    connection: Option<u64>,
    receive_max: usize,
    /// Options by filter.
    subscriptions: BTreeMap<usize, u8>,
    /// In order.
    entries: Vec<Expected>,
}

/// What waits for a group, by number.
type Waiting = BTreeMap<u64, Expected>;

#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    sessions: BTreeMap<u64, Session>,
    groups: BTreeMap<usize, Waiting>,
    retained: BTreeMap<usize, Expected>,
}

/// What a client's application knows.
#[derive(Clone, Debug, Default)]
struct App {
    /// Sessions that it had.
    sessions: u64,
    /// Packet identifiers of QoS 2 that are not released, and of which message: another one with
    /// the same is taken for that.
    received: BTreeMap<u16, u64>,
    /// What it is to answer: packet identifier, quality of service, and whether that is released.
    to_answer: Vec<(u16, u8, bool)>,
}

struct Twin {
    world: World,
    model: Model,
    /// Before the last step.
    before: Model,
    records_before: usize,
    /// What may be lost of it with a crash changes no subscription and nothing that is retained.
    may_lose: bool,
    apps: BTreeMap<u64, App>,
    /// What the last step sent: the index that each waits for.
    sent: Vec<(u64, u64, SessionOutput)>,
    connections: u64,
    number: u64,
    checkpoint: Option<(usize, Vec<Vec<u8>>)>,
    /// Messages of QoS 2 that applications got, by session or group.
    got: BTreeSet<(u64, u64)>,
    /// All that may go out does at once.
    is_strict: bool,
    /// The publish of QoS 2 in the last step, until the publisher hears that it is taken.
    unanswered: Option<Step>,
    /// What came from groups in the last step with QoS 0, and is gone.
    passed: Vec<(usize, Expected)>,
}

impl Model {
    fn session_of(&self, connection: u64) -> Option<u64> {
        let mut sessions = self.sessions.iter();
        let found = sessions.find(|(_, session)| session.connection == Some(connection));
        found.map(|(client, _)| *client)
    }

    fn members(&self, group: usize) -> impl Iterator<Item = &Session> {
        let sessions = self.sessions.values();
        sessions.filter(move |session| session.subscriptions.contains_key(&group))
    }

    /// Groups without members are gone.
    fn end_groups(&mut self) {
        let alone: Vec<usize> = (SHARED..FILTERS.len())
            .filter(|group| self.members(*group).next().is_none())
            .collect();
        for group in alone {
            self.groups.remove(&group);
        }
    }

    /// A session is gone: what it has from groups goes back, but for what was sent with QoS 2.
    fn end(&mut self, client: u64, by_crash: bool) {
        let Some(session) = self.sessions.remove(&client) else {
            return;
        };
        self.end_groups();
        for entry in session.entries {
            let Some((group, stays)) = entry.shared else {
                continue;
            };
            let goes_back = entry.qos == 1 && (stays || !by_crash);
            if let Some(waiting) = self.groups.get_mut(&group)
                && (goes_back || entry.is_unsure)
            {
                waiting.insert(
                    entry.number,
                    Expected {
                        is_out: false,
                        was_sent: false,
                        durable: stays,
                        qos: u8::MAX,
                        ..entry
                    },
                );
            }
        }
    }

    fn leave(&mut self, client: u64) {
        let Some(session) = self.sessions.get_mut(&client) else {
            return;
        };
        session.connection = None;
        for entry in &mut session.entries {
            entry.is_out = false;
        }
        if !session.lasts {
            self.end(client, false);
        }
    }

    /// What is left after a crash.
    fn crash(&mut self) {
        let clients: Vec<u64> = self.sessions.keys().copied().collect();
        for client in clients {
            let session = self.sessions.get_mut(&client).unwrap();
            session.connection = None;
            for entry in &mut session.entries {
                entry.is_out = false;
            }
            if session.lasts {
                session
                    .entries
                    .retain(|entry| entry.durable || entry.is_unsure);
            } else {
                self.end(client, true);
            }
        }
        for waiting in self.groups.values_mut() {
            waiting.retain(|_, entry| entry.durable);
        }
        self.end_groups();
    }

    /// What differs from before may be so or not.
    fn doubt(&mut self, before: &Self) {
        for (client, session) in &mut self.sessions {
            let earlier = before.sessions.get(client);
            let earlier = earlier.map_or(&[][..], |session| &session.entries);
            for entry in &mut session.entries {
                entry.is_unsure |= !earlier.contains(entry);
            }
            let mut behind = 0;
            for entry in earlier {
                let mut entries = session.entries.iter();
                if let Some(at) = entries.position(|other| other.is_same(entry)) {
                    behind = at + 1;
                    continue;
                }
                let is_unsure = true;
                let entry = entry.clone();
                session
                    .entries
                    .insert(behind, Expected { is_unsure, ..entry });
                behind += 1;
            }
        }
        for (client, session) in &before.sessions {
            if !self.sessions.contains_key(client) && session.lasts {
                // It may be there still.
                let mut session = session.clone();
                session.entries.iter_mut().for_each(|e| e.is_unsure = true);
                self.sessions.insert(*client, session);
            }
        }
        for (group, waiting) in &before.groups {
            if let Some(now) = self.groups.get_mut(group) {
                for (number, entry) in waiting {
                    let is_unsure = true;
                    now.entry(*number).or_insert_with(|| Expected {
                        is_unsure,
                        ..entry.clone()
                    });
                }
            }
        }
        for (group, waiting) in &mut self.groups {
            let earlier = before.groups.get(group);
            for (number, entry) in waiting {
                entry.is_unsure |= earlier.and_then(|earlier| earlier.get(number)) != Some(&*entry);
            }
        }
    }
}

impl Expected {
    fn is_same(&self, other: &Self) -> bool {
        (self.number, self.retain, self.shared.map(|s| s.0))
            == (other.number, other.retain, other.shared.map(|s| s.0))
    }

    /// Whether it may be gone without having been seen.
    fn may_be_gone(&self, now: u64) -> bool {
        self.is_unsure || !self.was_sent && self.expires_at.is_some_and(|at| at <= now)
    }
}

impl Twin {
    fn new(is_strict: bool, from_disk: bool) -> Self {
        let mut settings = ShardSettings {
            index_page_entries: 3,
            ..ShardSettings::default()
        };
        if from_disk {
            settings.content_bytes_max = 1;
        }
        if !is_strict {
            settings.credit_bytes = 100;
        }
        let mut twin = Self {
            world: World::with(settings),
            model: Model::default(),
            before: Model::default(),
            records_before: 0,
            may_lose: false,
            apps: BTreeMap::new(),
            sent: Vec::new(),
            connections: 100,
            number: 0,
            checkpoint: None,
            got: BTreeSet::new(),
            is_strict,
            unanswered: None,
            passed: Vec::new(),
        };
        twin.connect(PUBLISHER, true, false, 20);
        twin
    }

    fn step(&mut self, step: &Step) {
        if let Step::Crash { checkpoint, lost } = *step {
            self.crash(checkpoint, lost);
            return;
        }
        self.take_in(usize::MAX);
        self.before = self.model.clone();
        self.records_before = self.world.log.records.len();
        self.passed.clear();
        self.may_lose = matches!(
            step,
            Step::Publish { retain: false, .. } | Step::Acknowledge { .. } | Step::Drain { .. }
        );
        match *step {
            Step::Connect {
                client,
                clean,
                lasts,
                receive_max,
            } => self.connect(client, clean || !lasts, lasts, receive_max),
            Step::Leave { client } => self.leave(client),
            Step::Subscribe {
                client,
                filter,
                qos,
                retain,
            } => self.subscribe(client, filter, qos, retain),
            Step::Unsubscribe { client, filter } => self.unsubscribe(client, filter),
            Step::Publish {
                topic,
                qos,
                retain,
                expiry,
            } => {
                self.unanswered = (qos == 2).then(|| step.clone());
                self.publish(topic, qos, retain, expiry);
            }
            Step::Acknowledge { client, all } => {
                self.acknowledge(client);
                while all && self.take_in(usize::MAX) {
                    self.before = self.model.clone();
                    self.records_before = self.world.log.records.len();
                    if !self.acknowledge(client) {
                        break;
                    }
                }
            }
            Step::Drain { client } => self.drain(client),
            Step::Pass { seconds } => {
                let effects = self.world.pass_time(seconds * 1000);
                self.see(effects);
            }
            Step::Crash { .. } => {}
        }
        self.world.shard.check_invariants();
    }

    fn request(&mut self, connection: u64, request: SessionRequest) {
        let connection = ConnectionId(connection);
        let effects = self.world.execute(Command::Session {
            connection,
            request,
        });
        self.see(effects);
    }

    fn connect(&mut self, client: u64, clean: bool, lasts: bool, receive_max: u16) {
        self.model.leave(client);
        if clean {
            self.model.end(client, false);
        }
        self.connections += 100;
        let connection = self.connections + client;
        let session = self.model.sessions.entry(client).or_default();
        session.lasts = lasts;
        session.connection = Some(connection);
        session.receive_max = receive_max.into();
        let open = SessionOpen {
            client_id: Bytes::from(format!("c{client}")),
            user: name("guest"),
            clean_start: clean,
            expiry: if lasts { 100_000 } else { 0 },
            receive_max,
            will: None,
        };
        self.request(connection, SessionRequest::Open(Box::new(open)));
    }

    fn connection(&self, client: u64) -> Option<u64> {
        self.model.sessions.get(&client)?.connection
    }

    fn leave(&mut self, client: u64) {
        let Some(connection) = self.connection(client) else {
            return;
        };
        self.model.leave(client);
        let request = SessionRequest::Leave {
            with_will: false,
            expiry: None,
        };
        self.apps.entry(client).or_default().to_answer.clear();
        self.request(connection, request);
    }

    fn subscribe(&mut self, client: u64, filter: usize, qos: u8, retain: u8) {
        let Some(connection) = self.connection(client) else {
            return;
        };
        let (handling, as_published) = (retain % 3, retain > 2);
        let options = qos | u8::from(as_published) << 3 | handling << 4;
        let now = self.world.now;
        let session = self.model.sessions.get_mut(&client).unwrap();
        let is_new = session.subscriptions.insert(filter, options).is_none();
        if filter >= SHARED {
            self.model.groups.entry(filter).or_default();
        } else if handling == 0 || handling == 1 && is_new {
            let lasts = session.lasts;
            let matching = self.model.retained.values().filter(|kept| {
                matches(FILTERS[filter].as_bytes(), TOPICS[kept.topic].as_bytes())
                    && kept.expires_at.is_none_or(|at| at > now)
            });
            session.entries.extend(matching.map(|kept| Expected {
                qos: kept.qos.min(qos),
                durable: lasts,
                ..kept.clone()
            }));
        }
        let filters = vec![Filter {
            filter: Bytes::from_static(FILTERS[filter].as_bytes()),
            options: Options(options),
            refused: None,
        }];
        let (packet_id, id) = (1, filter as u32 + 1);
        let request = SessionRequest::Subscribe {
            packet_id,
            id,
            filters,
        };
        self.request(connection, request);
    }

    fn unsubscribe(&mut self, client: u64, filter: usize) {
        let Some(connection) = self.connection(client) else {
            return;
        };
        let session = self.model.sessions.get_mut(&client).unwrap();
        session.subscriptions.remove(&filter);
        self.model.end_groups();
        let request = SessionRequest::Unsubscribe {
            packet_id: 1,
            filters: vec![Bytes::from_static(FILTERS[filter].as_bytes())],
        };
        self.request(connection, request);
    }

    fn publish(&mut self, topic: usize, qos: u8, retain: bool, expiry: Option<u32>) {
        if self.connection(PUBLISHER).is_none() {
            self.connect(PUBLISHER, true, false, 20);
        }
        let connection = self.connection(PUBLISHER).unwrap();
        self.number += 1;
        let text = TOPICS[topic].as_bytes();
        let expires_at = expiry.map(|seconds| self.world.now + u64::from(seconds) * 1000);
        let fits = |filter: &usize| {
            let filter = FILTERS[*filter];
            let plain = filter
                .strip_prefix("$share/")
                .map_or(filter, |rest| &rest[2..]);
            matches(plain.as_bytes(), text)
        };
        let lasts = self
            .model
            .sessions
            .values()
            .any(|session| session.lasts && session.subscriptions.keys().any(fits));
        let is_stored = qos > 0 && lasts;
        let expected = Expected {
            number: self.number,
            topic,
            qos,
            retain,
            expires_at,
            durable: is_stored,
            shared: None,
            packet_id: 0,
            is_out: false,
            was_sent: false,
            is_received: false,
            is_unsure: false,
        };
        for session in self.model.sessions.values_mut() {
            let own = session.subscriptions.iter();
            let own = own.filter(|(filter, _)| **filter < SHARED && fits(filter));
            let own: Vec<u8> = own.map(|(_, options)| *options).collect();
            let Some(granted) = own.iter().map(|options| options & 3).max() else {
                continue;
            };
            let qos = qos.min(granted);
            if qos > 0 || session.connection.is_some() {
                session.entries.push(Expected {
                    qos,
                    retain: retain && own.iter().any(|options| options & 8 != 0),
                    durable: is_stored && qos > 0 && session.lasts,
                    ..expected.clone()
                });
            }
        }
        let mut groups = std::mem::take(&mut self.model.groups);
        for (group, waiting) in groups.iter_mut().filter(|(group, _)| fits(group)) {
            let has_client = |session: &Session| session.connection.is_some();
            if qos > 0 || self.model.members(*group).any(has_client) {
                waiting.insert(self.number, expected.clone());
            }
        }
        self.model.groups = groups;
        if retain {
            self.model.retained.insert(topic, expected);
        }
        let body = self.number.to_string();
        let publish = TopicPublish {
            packet_id: u16::from(qos > 0) * 7,
            qos,
            retain,
            topic: text,
            properties: b"",
            expiry,
            payload: Body::Whole(body.as_bytes()),
        };
        let world = &mut self.world;
        let mut effects = Vec::new();
        let from = ConnectionId(connection);
        (world.shard).publish_topic(world.now, from, &publish, &mut world.log, &mut effects);
        world.shard.finish(&mut world.log);
        world.shard.check_invariants();
        let effects = world.answered(effects);
        self.see(effects);
        if qos == 2 {
            self.request(connection, SessionRequest::Release { packet_id: 7 });
        }
    }

    /// The client answers the first of what it is to answer.
    fn acknowledge(&mut self, client: u64) -> bool {
        let Some(connection) = self.connection(client) else {
            return false;
        };
        let app = self.apps.entry(client).or_default();
        if app.to_answer.is_empty() {
            return false;
        }
        let (packet_id, qos, is_released) = app.to_answer.remove(0);
        let session = self.model.sessions.get_mut(&client).unwrap();
        let found = session.entries.iter();
        let at = found
            .clone()
            .position(|entry| entry.is_out && entry.packet_id == packet_id);
        if let Some(at) = at {
            if qos == 2 && !is_released {
                session.entries[at].is_received = true;
            } else {
                session.entries.remove(at);
            }
        }
        let request = match (qos, is_released) {
            (1, _) => SessionRequest::Acknowledge { packet_id },
            (_, false) => SessionRequest::Received {
                packet_id,
                is_refused: false,
            },
            (_, true) => SessionRequest::Complete { packet_id },
        };
        self.request(connection, request);
        true
    }

    fn drain(&mut self, client: u64) {
        if let Some(connection) = self.connection(client) {
            let effects = self.world.execute(Command::Drained {
                connection: ConnectionId(connection),
                bytes: 1 << 20,
            });
            self.see(effects);
        }
    }

    /// Looks at what was sent.
    fn see(&mut self, effects: Vec<Effect>) {
        let mut last = BTreeMap::new();
        for effect in effects {
            let Effect::Session { to, after, output } = effect else {
                continue;
            };
            if let Some(client) = self.model.session_of(to.0) {
                match &output {
                    SessionOutput::Copy(copy) => self.see_copy(client, copy, &mut last),
                    SessionOutput::Release {
                        packet_id,
                        is_known: true,
                    } => self.see_release(client, *packet_id),
                    _ => {}
                }
                self.sent.push((after, to.0, output));
            }
        }
        for (group, number) in last {
            let waiting = self.model.groups.get(&group).into_iter().flatten();
            let now = self.world.now;
            let passed = waiting
                .filter(|(other, entry)| **other < number && !entry.may_be_gone(now))
                .map(|(other, _)| *other);
            let passed: Vec<u64> = passed.collect();
            assert!(
                !self.is_strict || passed.is_empty(),
                "{number} went before {passed:?}"
            );
        }
    }

    fn see_copy(&mut self, client: u64, copy: &OwnedCopy, last: &mut BTreeMap<usize, u64>) {
        let number: u64 = body_of(&copy.message).parse().unwrap();
        let topic = TopicNotes::read(copy.message.notes())
            .unwrap()
            .topic
            .to_vec();
        let now = self.world.now;
        let is_strict = self.is_strict;
        let session = self.model.sessions.get_mut(&client).unwrap();
        let of_group = match copy.ids.as_ref() {
            [id] if *id as usize > SHARED => Some(*id as usize - 1),
            _ => None,
        };
        let is_it = |entry: &Expected| {
            let is_shared = match of_group {
                Some(group) => entry.shared.is_some_and(|shared| shared.0 == group),
                // It may have unsubscribed since.
                None => entry.shared.is_none() || entry.was_sent || entry.is_unsure,
            };
            entry.number == number && is_shared && entry.qos == copy.qos
        };
        let at = session
            .entries
            .iter()
            .position(|entry| !entry.is_out && !entry.is_received && is_it(entry));
        let at = at.or_else(|| {
            let unsure = |entry: &Expected| !entry.is_out && entry.is_unsure && is_it(entry);
            session.entries.iter().position(unsure)
        });
        let Some(at) = at else {
            let Some(group) = of_group else {
                panic!("{client} got {number} {copy:?}: {session:#?}");
            };
            self.see_shared(client, group, copy, number);
            last.insert(group, number.max(last.get(&group).copied().unwrap_or(0)));
            return;
        };
        let before = session
            .entries
            .iter()
            .take(at)
            .filter(|entry| !entry.is_out);
        let passed: Vec<_> = before.filter(|entry| !entry.may_be_gone(now)).collect();
        assert!(
            !is_strict || passed.is_empty(),
            "{client} got {number} before {passed:#?}"
        );
        let ids: Vec<u32> = if of_group.is_none() && session.entries[at].shared.is_none() {
            let own = session.subscriptions.keys();
            let own = own.filter(|filter| **filter < SHARED);
            own.filter(|filter| matches(FILTERS[**filter].as_bytes(), &topic))
                .map(|filter| *filter as u32 + 1)
                .collect()
        } else {
            copy.ids.to_vec()
        };
        let entry = &mut session.entries[at];
        assert_eq!(topic, TOPICS[entry.topic].as_bytes());
        assert_eq!(copy.ids.as_ref(), ids);
        assert_eq!(copy.retain, entry.retain, "{entry:?}");
        assert!(entry.was_sent || entry.expires_at.is_none_or(|at| at >= now));
        if !entry.is_unsure {
            assert_eq!(copy.dup, entry.was_sent && copy.qos > 0, "{entry:#?}");
            let same = entry.packet_id == copy.packet_id || !entry.was_sent;
            assert!(same, "another packet identifier");
        }
        entry.packet_id = copy.packet_id;
        (entry.is_out, entry.was_sent, entry.is_unsure) = (true, true, false);
        let shared = entry.shared;
        if copy.qos == 0 {
            session.entries.remove(at);
        }
        if let Some((group, _)) = shared {
            self.forget_elsewhere(client, group, number);
        }
        self.check_out(client);
    }

    /// A copy that came from a group and was not in the session.
    fn see_shared(&mut self, client: u64, group: usize, copy: &OwnedCopy, number: u64) {
        let waiting = self.model.groups.get_mut(&group).unwrap();
        let found = waiting.remove(&number);
        let Some(found) = found else {
            panic!("{client} got {number} of {group}, which nobody has: {waiting:#?}");
        };
        assert!(found.expires_at.is_none_or(|at| at >= self.world.now));
        assert!(found.is_unsure || !copy.dup, "it is new to this client");
        self.forget_elsewhere(client, group, number);
        let session = self.model.sessions.get_mut(&client).unwrap();
        let options = session.subscriptions[&group];
        if found.qos != u8::MAX {
            assert_eq!(copy.qos, found.qos.min(options & 3));
            assert_eq!(copy.retain, found.retain && options & 8 != 0);
        }
        let found_before = found.clone();
        let entry = Expected {
            qos: copy.qos,
            retain: copy.retain,
            durable: found.durable && session.lasts,
            shared: Some((group, found.durable)),
            packet_id: copy.packet_id,
            is_out: true,
            was_sent: true,
            is_unsure: false,
            ..found
        };
        if copy.qos == 0 {
            let is_unsure = true;
            self.passed.push((
                group,
                Expected {
                    is_unsure,
                    ..found_before
                },
            ));
        } else {
            let entries = &session.entries;
            let at = entries.iter().position(|entry| !entry.is_out);
            let at = at.unwrap_or(entries.len());
            session.entries.insert(at, entry);
        }
        self.check_out(client);
    }

    /// Of a group's message it is known now who has it.
    fn forget_elsewhere(&mut self, client: u64, group: usize, number: u64) {
        if let Some(waiting) = self.model.groups.get_mut(&group) {
            waiting.remove(&number);
        }
        for (other, session) in &mut self.model.sessions {
            if *other != client {
                session.entries.retain(|entry| {
                    entry.number != number || entry.shared.is_none_or(|shared| shared.0 != group)
                });
            }
        }
    }

    fn see_release(&mut self, client: u64, packet_id: u16) {
        let session = self.model.sessions.get_mut(&client).unwrap();
        let entries = &mut session.entries;
        let received = |entry: &Expected| entry.packet_id == packet_id && entry.is_received;
        let unsure = |entry: &Expected| entry.packet_id == packet_id && entry.is_unsure;
        let at = entries.iter().position(received);
        let at = at.or_else(|| entries.iter().position(unsure));
        let entry = &mut entries[at.unwrap()];
        (entry.is_out, entry.is_received, entry.is_unsure) = (true, true, false);
    }

    /// No more is out than the client takes, and no packet identifier twice.
    fn check_out(&self, client: u64) {
        let session = &self.model.sessions[&client];
        let out = session.entries.iter().filter(|entry| entry.is_out);
        let ids: Vec<u16> = out.map(|entry| entry.packet_id).collect();
        assert!(ids.len() <= session.receive_max, "{session:#?}");
        let different: BTreeSet<u16> = ids.iter().copied().collect();
        assert_eq!(ids.len(), different.len(), "{session:#?}");
    }

    /// What was sent and is in the journal arrives. True where something did.
    fn take_in(&mut self, kept: usize) -> bool {
        let sent = std::mem::take(&mut self.sent);
        let arrives = !sent.is_empty();
        for (after, connection, output) in sent {
            let client = connection % 100;
            if after > kept as u64 {
                continue;
            }
            let app = self.apps.entry(client).or_default();
            let is_here = self.model.session_of(connection).is_some();
            match output {
                SessionOutput::Opened { session_present } => {
                    app.to_answer.clear();
                    if !session_present {
                        app.received.clear();
                        app.sessions += 1;
                    }
                }
                SessionOutput::Copy(copy) if copy.qos > 0 => {
                    let number: u64 = body_of(&copy.message).parse().unwrap();
                    let of_group = matches!(copy.ids.as_ref(), [id] if *id as usize > SHARED);
                    let before = app.received.get(&copy.packet_id).copied();
                    assert!(copy.qos < 2 || before.is_none_or(|before| before == number));
                    if copy.qos == 2 && before.is_none() {
                        app.received.insert(copy.packet_id, number);
                        let group = copy.ids[..].first().copied().unwrap_or_default();
                        let own = client * 1000 + app.sessions;
                        let of = if of_group { u64::from(group) } else { own };
                        let is_first = copy.retain || self.got.insert((number, of));
                        assert!(is_first, "{number} came twice to {client}");
                    }
                    if is_here {
                        app.to_answer.push((copy.packet_id, copy.qos, false));
                    }
                }
                SessionOutput::Published { .. } => self.unanswered = None,
                SessionOutput::Release { packet_id, .. } => {
                    app.received.remove(&packet_id);
                    app.to_answer.push((packet_id, 2, true));
                }
                _ => {}
            }
        }
        arrives
    }

    fn crash(&mut self, checkpoint: bool, lost: usize) {
        let all = self.world.log.records.len();
        let lost = if self.may_lose { lost } else { 0 };
        let kept = all.saturating_sub(lost).max(self.records_before);
        let covered = self.checkpoint.take();
        let covered = covered.filter(|(covered, _)| *covered <= kept);
        self.take_in(kept);
        if kept < all {
            let before = self.before.clone();
            self.model.doubt(&before);
            for (group, entry) in self.passed.drain(..) {
                if let Some(waiting) = self.model.groups.get_mut(&group) {
                    waiting.insert(entry.number, entry);
                }
            }
        }
        self.model.crash();
        for app in self.apps.values_mut() {
            app.to_answer.clear();
        }
        self.world.crash(Crash {
            kept,
            checkpoint: covered,
        });
        self.sent.clear();
        self.before = self.model.clone();
        self.records_before = self.world.log.records.len();
        if checkpoint {
            self.checkpoint = Some(self.world.checkpoint());
        }
        self.publish_again();
    }

    /// The publisher sends once more what it has no answer to.
    fn publish_again(&mut self) {
        let Some(Step::Publish {
            topic,
            qos,
            retain,
            expiry,
        }) = self.unanswered.take()
        else {
            return;
        };
        let number = self.number;
        for session in self.model.sessions.values_mut() {
            session.entries.retain(|entry| entry.number != number);
        }
        for waiting in self.model.groups.values_mut() {
            waiting.remove(&number);
        }
        self.may_lose = false;
        self.publish(topic, qos, false, None);
        self.take_in(usize::MAX);
        let next = std::mem::replace(&mut self.number, number - 1);
        self.publish(topic, qos, retain, expiry);
        self.number = next;
    }

    /// Everybody comes and takes everything.
    fn end(&mut self) {
        self.take_in(usize::MAX);
        for client in 2..2 + CLIENTS {
            let session = self.model.sessions.get(&client);
            if session.is_some_and(|session| session.connection.is_none()) {
                self.connect(client, false, true, 20);
            }
        }
        loop {
            let mut any = self.take_in(usize::MAX);
            for client in 2..2 + CLIENTS {
                self.drain(client);
                any |= self.acknowledge(client);
                any |= self.take_in(usize::MAX);
            }
            if !any {
                break;
            }
        }
        let now = self.world.now;
        for (client, session) in &self.model.sessions {
            let left = session.entries.iter().filter(|e| !e.may_be_gone(now));
            assert_eq!(
                left.collect::<Vec<_>>(),
                Vec::<&Expected>::new(),
                "{client}"
            );
        }
        for (group, waiting) in &self.model.groups {
            let left = waiting.values().filter(|e| !e.may_be_gone(now));
            assert_eq!(left.collect::<Vec<_>>(), Vec::<&Expected>::new(), "{group}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(60),
        ..ProptestConfig::default()
    })]

    #[test]
    fn clients_get_what_the_twin_says(
        is_strict in prop::bool::weighted(0.7),
        from_disk in prop::bool::weighted(0.3),
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut twin = Twin::new(is_strict, from_disk);
        for step in &steps {
            twin.step(step);
        }
        twin.end();
    }
}
