//! What the connections of a listener have in common.

use std::sync::Arc;

use menzil_core::SessionSettings;
use menzil_model::{Map, Name};
use menzil_mqtt::MqttConfig;

use crate::config::{Anonymous, Settings};
use crate::driver::shard_driver::ShardDriver;

/// See the module.
pub(crate) struct Service {
    pub(crate) config: Arc<MqttConfig>,
    /// Of the virtual host that its clients are in.
    pub(crate) shard: Arc<ShardDriver>,
    /// Where clients without a user name may come from.
    pub(crate) anonymous: Anonymous,
    /// Who they are.
    pub(crate) anonymous_user: Name,
}

impl Service {
    /// `None` without the virtual host, which the settings make sure of.
    pub(crate) fn new(settings: &Settings, shards: &Map<Name, Arc<ShardDriver>>) -> Option<Self> {
        let named = Some(&settings.mqtt_virtual_host).filter(|name| !name.is_empty());
        let virtual_host = named.or_else(|| settings.virtual_hosts.first())?;
        let shard = shards.get(virtual_host.as_bytes())?;
        Some(Self {
            config: Arc::new(config(settings)),
            shard: Arc::clone(shard),
            anonymous: settings.mqtt_anonymous,
            anonymous_user: Name::cut(settings.mqtt_anonymous_user.as_bytes()),
        })
    }
}

/// What a shard is to know of sessions.
pub(crate) fn session_settings(settings: &Settings) -> SessionSettings {
    SessionSettings {
        exchange: settings.mqtt_exchange.clone(),
        messages_max: settings.mqtt_session_messages_max,
        bytes_max: settings.mqtt_session_bytes_max.0,
        limit: settings.mqtt_session_limit.into(),
        receive_max: settings.mqtt_receive_max,
        subscriptions_max: settings.mqtt_subscriptions_max,
        retained_max: settings.mqtt_retained_max,
        retained_bytes_max: settings.mqtt_retained_bytes_max.0,
        expiry_max: settings.mqtt_session_expiry_max,
        ..SessionSettings::default()
    }
}

fn config(settings: &Settings) -> MqttConfig {
    let defaults = MqttConfig::default();
    let packet_bytes_max = u32::try_from(settings.mqtt_packet_bytes_max.0).unwrap_or(u32::MAX);
    MqttConfig {
        connect_ms: settings.handshake_timeout_seconds.saturating_mul(1000),
        connect_bytes_max: defaults.connect_bytes_max.min(packet_bytes_max),
        packet_bytes_max,
        message_bytes_max: settings.message_bytes_max.0,
        chunk_bytes: crate::server::chunk_bytes(settings),
        receive_max: settings.mqtt_receive_max,
        in_flight_max: settings.mqtt_in_flight_max,
        topic_alias_max: settings.mqtt_topic_alias_max,
        topic_alias_out_max: settings.mqtt_topic_alias_max,
        keep_alive_max_s: settings.mqtt_keep_alive_max,
        session_expiry_max_s: settings.mqtt_session_expiry_max,
        reason_strings: settings.mqtt_reason_strings,
        dollar_topics: settings.mqtt_dollar_topics,
        ..defaults
    }
}
