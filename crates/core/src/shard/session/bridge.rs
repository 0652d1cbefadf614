//! Where MQTT and AMQP meet: one exchange, which messages of topics go to and whose messages come
//! to subscribers.

use std::borrow::Cow;

use menzil_model::wire::Writer;
use menzil_model::{ExchangeId, Properties, QueueId};

use super::super::Shard;
use crate::mqtt::TopicPublish;
use crate::topology::{RoutingKeys, Targets};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Bridge {
    targets: Targets,
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

    /// The queues that a message of that topic reaches through the exchange.
    pub(super) fn bridged_queues(&mut self, topic: &[u8], properties: &[u8]) -> Vec<QueueId> {
        let Some(exchange) = self.bridge_exchange() else {
            return Vec::new();
        };
        if !self.topology.has_bindings_from(exchange) {
            return Vec::new();
        }
        let Some(key) = self.key_of_topic(topic) else {
            return Vec::new();
        };
        let properties = Properties::parse(properties).unwrap_or_default();
        let mut targets = std::mem::take(&mut self.sessions.bridge.targets);
        let keys = RoutingKeys::one(&key);
        let _somewhere = self
            .topology
            .route(exchange, &keys, &properties, &mut targets);
        let queues = targets.queues().iter().chain(targets.stores());
        let queues = queues.copied().collect();
        self.sessions.bridge.targets = targets;
        queues
    }

    /// What queues of AMQP see of a PUBLISH: its properties as theirs.
    pub(super) fn amqp_properties(publish: &TopicPublish<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_u16(1 << 12);
        out.put_u8(if publish.qos > 0 { 2 } else { 1 });
        out
    }
}
