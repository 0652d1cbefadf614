//! Where MQTT and AMQP meet: one exchange, which messages of topics go to and whose messages come
//! to subscribers.
//!
//! No message goes round: what a client of MQTT publishes reaches sessions by the tree of
//! subscriptions alone, and queues by the exchange alone; what comes to the exchange from AMQP
//! reaches sessions by its routing key, as a topic.

use std::borrow::Cow;

use menzil_model::{ExchangeId, Message, Properties, QueueId, Value};

use super::super::Shard;
use crate::mqtt::{
    Found, RETAIN_HEADER, SessionTarget, TopicNotes, TopicPublish, TopicRoute, from_amqp, to_amqp,
};
use crate::route::Route;
use crate::slots::Place;
use crate::topology::{RoutingKeys, Targets, TrieScratch};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Bridge {
    targets: Targets,
}

/// Who of MQTT gets a message of AMQP.
#[derive(Debug, Default)]
pub(in super::super) struct Subscribers {
    pub(in super::super) sessions: Vec<SessionTarget>,
    pub(in super::super) groups: Vec<(QueueId, Place)>,
    /// What they see of it; empty where no topic is written so, or nobody wants it.
    pub(in super::super) notes: Vec<u8>,
    pub(in super::super) retains: bool,
}

impl Subscribers {
    pub(in super::super) fn is_empty(&self) -> bool {
        self.sessions.is_empty() && self.groups.is_empty()
    }
}

impl Shard {
    /// The exchange that MQTT meets AMQP at, if it is there.
    fn bridge_exchange(&self) -> Option<ExchangeId> {
        let name = self.settings.sessions.exchange.as_bytes();
        self.topology.exchange(name).map(|exchange| exchange.id)
    }

    /// The routing key of a topic; `None` where it has none, being too long.
    pub(super) fn key_of_topic<'a>(&self, topic: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        self.settings.sessions.translation.key_of(topic)
    }

    /// The queues that a PUBLISH reaches through the exchange.
    pub(super) fn bridged_queues(&mut self, publish: &TopicPublish<'_>) -> Vec<QueueId> {
        let Some(exchange) = self.bridge_exchange() else {
            return Vec::new();
        };
        if !self.topology.has_bindings_from(exchange) {
            return Vec::new();
        }
        let Some(key) = self.key_of_topic(publish.topic) else {
            self.counters.topics_without_key += 1;
            return Vec::new();
        };
        let properties = self.amqp_properties(publish);
        let properties = Properties::parse(&properties).unwrap_or_default();
        let mut targets = std::mem::take(&mut self.sessions.bridge.targets);
        let keys = RoutingKeys::one(&key);
        let _somewhere = (self.topology).route(exchange, &keys, &properties, &mut targets);
        let queues = targets.queues().iter().chain(targets.stores());
        let queues = queues.copied().collect();
        self.sessions.bridge.targets = targets;
        queues
    }

    /// What queues of AMQP see of a PUBLISH's properties.
    pub(super) fn amqp_properties(&self, publish: &TopicPublish<'_>) -> Vec<u8> {
        let translation = self.settings.sessions.translation;
        let terms = (publish.qos, publish.expiry);
        to_amqp(terms, publish.properties, translation)
    }

    /// Who of MQTT gets a message of AMQP that took that way.
    pub(in super::super) fn subscribers(
        &self,
        targets: &Targets,
        (keys, properties): (&RoutingKeys<'_>, &Properties<'_>),
        scratch: &mut TrieScratch,
    ) -> Subscribers {
        let mut found = Subscribers {
            retains: asks_to_be_retained(properties),
            ..Subscribers::default()
        };
        if self.sessions.tree.is_empty() && !found.retains {
            return found;
        }
        let is_bridged = (self.bridge_exchange())
            .is_some_and(|exchange| targets.has_passed(&self.topology, exchange));
        if !is_bridged {
            found.retains = false;
            return found;
        }
        let translation = self.settings.sessions.translation;
        let mut route = TopicRoute::default();
        let mut first: Option<Cow<'_, [u8]>> = None;
        for key in keys.iter() {
            let Some(topic) = translation.topic_of(key) else {
                continue;
            };
            let before = route.sessions.len() + found.groups.len();
            self.sessions.tree.find(&topic, scratch, |one| match one {
                Found::Session(subscriber) => route.sessions.push(SessionTarget {
                    session: subscriber.session,
                    place: subscriber.place,
                    options: subscriber.options,
                }),
                Found::Group(queue, place) => found.groups.push((queue, place)),
            });
            let has_more = route.sessions.len() + found.groups.len() > before;
            if first.is_none() && (has_more || found.retains) {
                first = Some(topic);
            }
        }
        route.merge();
        found.sessions = route.sessions;
        found.groups.sort_unstable_by_key(|(queue, _)| *queue);
        found.groups.dedup_by_key(|(queue, _)| *queue);
        match first {
            None => found.retains = false,
            Some(topic) => TopicNotes {
                qos: u8::from(properties.is_persistent()),
                topic: &topic,
                others: &[],
                properties: &from_amqp(properties, translation),
            }
            .write(&mut found.notes),
        }
        found
    }

    /// Notes in a route who of MQTT gets its message.
    pub(in super::super) fn find_subscribers(
        &mut self,
        targets: &Targets,
        way: (&RoutingKeys<'_>, &Properties<'_>),
        route: &mut Route,
    ) {
        if self.sessions.tree.is_empty() && route.is_plain {
            return;
        }
        let mut scratch = std::mem::take(&mut self.sessions.scratch);
        let found = self.subscribers(targets, way, &mut scratch);
        self.sessions.scratch = scratch;
        if !targets.delays().is_empty() {
            // It comes to its exchange when it is due.
            return;
        }
        route.groups = found.groups;
        route.sessions = found.sessions;
        route.notes = found.notes;
        route.retains = found.retains;
    }
}

/// The message with what MQTT sees of it; what was noted before stays.
pub(in super::super) fn with_topic(message: Message, notes: &[u8]) -> Message {
    let Some(of_topic) = TopicNotes::read(notes) else {
        return message;
    };
    let others = match TopicNotes::read(message.notes()) {
        Some(before) => before.others.to_vec(),
        None => message.notes().to_vec(),
    };
    let mut written = Vec::new();
    let others = others.as_slice();
    TopicNotes { others, ..of_topic }.write(&mut written);
    message.with_notes(&written)
}

fn asks_to_be_retained(properties: &Properties<'_>) -> bool {
    let mut headers = properties.header_fields();
    headers.any(|(name, value)| name == RETAIN_HEADER && matches!(value, Value::Bool(true)))
}
