//! Settings: what can be set, the defaults, and how file, environment and flags are layered.
//!
//! There is one struct, [`Settings`]; every key of the file is a field of it, and the same name
//! in capitals after `MENZIL_` is its environment variable. Later layers win key by key.

mod file;
mod layers;
mod rules;
mod size;
mod text;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use layers::{ConfigError, Flag, Sources, load};
pub use size::Size;
pub use text::{Address, Anonymous, LogFormat, LogLevel, SessionLimit};

use crate::users::PasswordHash;

/// Everything that can be set, with its default. `menzil server --print-config` prints it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Folder that holds everything the server keeps. Created if missing. Default `./data`.
    pub data_dir: PathBuf,
    /// Where AMQP 0-9-1 clients connect: `ADDRESS:PORT`, port 0 picks a free one; `off` listens
    /// nowhere. Default `127.0.0.1:5672`.
    pub amqp: Address,
    /// Where MQTT clients connect, likewise. Default `127.0.0.1:1883`.
    pub mqtt: Address,
    /// Where MQTT clients connect over WebSocket, at the path `/mqtt`, likewise. Default `off`.
    pub mqtt_ws: Address,
    /// File of definitions in RabbitMQ's JSON, imported at each start; empty is none.
    pub definitions: PathBuf,
    /// Virtual hosts that exist; new ones are created at start. Default `["/"]`.
    pub virtual_hosts: Vec<String>,
    /// The `product` that clients are shown: `Menzil`, or `RabbitMQ` for tools that check it.
    pub product: String,
    /// The user `guest` with password `guest` exists. Default true.
    pub guest: bool,
    /// Users that may log in over loopback addresses only. Default `["guest"]`.
    pub loopback_users: Vec<String>,
    /// Password checks that may run at once; each takes 19 MiB, which are
    /// kept for the next. Default 2.
    pub password_checks_max: usize,

    /// Connections at once; more are closed as they come. Default 10 000.
    pub connections_max: usize,
    /// Channels on a connection, offered in `tune`. Default 2047.
    pub channel_max: u16,
    /// Bytes of a frame, offered in `tune`. Default 128 KiB.
    pub frame_max: Size,
    /// Seconds between heartbeats, offered in `tune`; 0 is none. Default 60.
    pub heartbeat_seconds: u16,
    /// Seconds a client has to log in and open its virtual host. Default 10.
    pub handshake_timeout_seconds: u64,
    /// Bytes of a message's body. Default 128 MiB, at most 512 MiB.
    pub message_bytes_max: Size,
    /// Bytes that one open transaction may hold. Default 64 MiB, at most 256 MiB.
    pub tx_bytes_max: Size,
    /// `x-death` headers that a client wrote go on counting, as before RabbitMQ 4. Default false.
    pub dead_letter_counts_client_headers: bool,
    /// Bytes of half-received messages on one connection, property lists included. Default 256 MiB.
    pub assembling_bytes_per_connection: Size,
    /// Bytes of half-received messages on all connections. Default 1 GiB.
    pub assembling_bytes_per_node: Size,
    /// Bytes of deliveries on their way to one connection. Default 1 MiB.
    pub delivery_credit_bytes: Size,
    /// Bytes of replies that a client has not read, past which nothing more is read from it.
    /// Default 1 MiB.
    pub outbox_bytes_max: Size,

    /// Virtual host that MQTT clients are in; empty is the first of `virtual_hosts`. Default empty.
    pub mqtt_virtual_host: String,
    /// Topic exchange at which MQTT and AMQP meet. Default `amq.topic`.
    pub mqtt_exchange: String,
    /// Where MQTT clients may come from without a user name: `never`, `loopback`, which is this
    /// machine, or `always`. Default `loopback`.
    pub mqtt_anonymous: Anonymous,
    /// The user that they are then. Default `anonymous`.
    pub mqtt_anonymous_user: String,
    /// Bytes of an MQTT packet. Default 16 MiB.
    pub mqtt_packet_bytes_max: Size,
    /// Messages of QoS 1 and 2 that an MQTT client may have on their way in. Default 1000.
    pub mqtt_receive_max: u16,
    /// Messages of QoS 1 and 2 on their way to an MQTT client, if it takes so many. Default 1000.
    pub mqtt_in_flight_max: u16,
    /// Topic aliases of an MQTT connection, each way. Default 10.
    pub mqtt_topic_alias_max: u16,
    /// Most seconds that an MQTT 5.0 client may set as keep alive; 0 is any, and none. Default 0.
    pub mqtt_keep_alive_max: u16,
    /// Seconds that an MQTT session outlives its connection, at most; 4 294 967 295 is for ever.
    /// Default that.
    pub mqtt_session_expiry_max: u32,
    /// Messages that may wait in an MQTT session. Default 100 000.
    pub mqtt_session_messages_max: u64,
    /// Bytes of their payloads. Default 1 GiB.
    pub mqtt_session_bytes_max: Size,
    /// What happens when there are more: `drop-oldest`, `drop-newest`, or `disconnect`, which
    /// drops the newest and ends the connection. Default `drop-oldest`.
    pub mqtt_session_limit: SessionLimit,
    /// Subscriptions of an MQTT session. Default 10 000.
    pub mqtt_subscriptions_max: usize,
    /// Topics that may have a retained message. Default 10 000 000.
    pub mqtt_retained_max: u64,
    /// Bytes of retained messages. Default 4 GiB.
    pub mqtt_retained_bytes_max: Size,
    /// MQTT 5.0 clients are told in words what they did wrong. Default true.
    pub mqtt_reason_strings: bool,
    /// MQTT clients may publish to topics that begin with `$`, but for `$SYS`. Default false.
    pub mqtt_dollar_topics: bool,

    /// Bytes of a journal segment file. Default 64 MiB.
    pub segment_bytes: Size,
    /// Bytes that wait for the disk, past which publishers wait. Default 32 MiB.
    pub journal_pending_bytes_max: Size,
    /// Bytes written since the last checkpoint that bring the next; twice the size of
    /// the last checkpoint is added. Default 64 MiB.
    pub checkpoint_bytes: Size,
    /// Seconds after which a checkpoint is made if anything was written. Default 300.
    pub checkpoint_seconds: u64,
    /// Bytes of memory for messages that can be read from disk, per virtual host. Default 64 MiB.
    pub body_cache_bytes: Size,
    /// Entries of an index page: what a queue keeps at hand of a long backlog at each end, and
    /// packs together between. Default 256.
    pub index_page_entries: usize,
    /// Bytes of packed index pages kept in memory, per virtual host; what is over goes to a
    /// scratch file in the data folder. Default 32 MiB.
    pub index_bytes_max: Size,
    /// Threads that read message bodies back from disk. Default 2.
    pub read_threads: usize,

    /// Seconds that clients have at a clean stop to answer `connection.close`. Default 5.
    pub stop_seconds: u64,
    /// Least important line that is logged: `error`, `warn`, `info` or `debug`. Default `info`.
    pub log_level: LogLevel,
    /// `text` or `json`. Default `text`.
    pub log_format: LogFormat,

    /// Users by name; `menzil hash-password` prints an entry. Last, for TOML wants tables last.
    pub users: BTreeMap<String, User>,
}

/// A user of the table `users`. Every one has all rights for now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct User {
    /// An argon2id hash in PHC form.
    pub password_hash: PasswordHash,
    /// Tags such as `administrator`.
    #[serde(default)]
    pub tags: Vec<String>,
}

/// Entries of the table `users`, as they stand in the settings file.
pub fn users_to_toml(users: &BTreeMap<String, User>) -> String {
    let table = BTreeMap::from([("users", users)]);
    toml::to_string(&table).unwrap_or_default()
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            data_dir: PathBuf::from("./data"),
            amqp: Address::on("127.0.0.1:5672"),
            mqtt: Address::on("127.0.0.1:1883"),
            mqtt_ws: Address::off(),
            definitions: PathBuf::new(),
            virtual_hosts: vec!["/".to_owned()],
            product: "Menzil".to_owned(),
            guest: true,
            loopback_users: vec!["guest".to_owned()],
            password_checks_max: 2,
            connections_max: 10_000,
            channel_max: 2047,
            frame_max: Size(128 << 10),
            heartbeat_seconds: 60,
            handshake_timeout_seconds: 10,
            message_bytes_max: Size::mib(128),
            tx_bytes_max: Size::mib(64),
            dead_letter_counts_client_headers: false,
            assembling_bytes_per_connection: Size::mib(256),
            assembling_bytes_per_node: Size::mib(1024),
            delivery_credit_bytes: Size::mib(1),
            outbox_bytes_max: Size::mib(1),
            mqtt_virtual_host: String::new(),
            mqtt_exchange: "amq.topic".to_owned(),
            mqtt_anonymous: Anonymous::default(),
            mqtt_anonymous_user: "anonymous".to_owned(),
            mqtt_packet_bytes_max: Size::mib(16),
            mqtt_receive_max: 1000,
            mqtt_in_flight_max: 1000,
            mqtt_topic_alias_max: 10,
            mqtt_keep_alive_max: 0,
            mqtt_session_expiry_max: u32::MAX,
            mqtt_session_messages_max: 100_000,
            mqtt_session_bytes_max: Size::mib(1024),
            mqtt_session_limit: SessionLimit::default(),
            mqtt_subscriptions_max: 10_000,
            mqtt_retained_max: 10_000_000,
            mqtt_retained_bytes_max: Size::mib(4096),
            mqtt_reason_strings: true,
            mqtt_dollar_topics: false,
            segment_bytes: Size::mib(64),
            journal_pending_bytes_max: Size::mib(32),
            checkpoint_bytes: Size::mib(64),
            checkpoint_seconds: 300,
            body_cache_bytes: Size::mib(64),
            index_page_entries: 256,
            index_bytes_max: Size::mib(32),
            read_threads: 2,
            stop_seconds: 5,
            log_level: LogLevel::Info,
            log_format: LogFormat::Text,
            users: BTreeMap::new(),
        }
    }
}

impl Settings {
    /// The settings as a file that sets them again.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).unwrap_or_default()
    }

    /// What is wrong with the values together, if anything: the setting and a text that names it.
    fn check(&self) -> Result<(), (&'static str, String)> {
        let (connection, node) = (
            self.assembling_bytes_per_connection,
            self.assembling_bytes_per_node,
        );
        if connection < self.message_bytes_max {
            return Err((
                "assembling_bytes_per_connection",
                format!(
                    "assembling_bytes_per_connection ({connection}) is below message_bytes_max \
                     ({}): a message of that size could never come in; raise the one or lower \
                     the other",
                    self.message_bytes_max
                ),
            ));
        }
        if node < connection {
            return Err((
                "assembling_bytes_per_node",
                format!(
                    "assembling_bytes_per_node ({node}) is below assembling_bytes_per_connection \
                     ({connection}); raise the one or lower the other"
                ),
            ));
        }
        let of_mqtt = &self.mqtt_virtual_host;
        if !of_mqtt.is_empty() && !self.virtual_hosts.contains(of_mqtt) {
            return Err((
                "mqtt_virtual_host",
                format!(
                    "mqtt_virtual_host is {of_mqtt:?}, which is none of virtual_hosts: add it \
                     there, or leave mqtt_virtual_host out for the first of them"
                ),
            ));
        }
        for (key, name) in [
            ("mqtt_exchange", &self.mqtt_exchange),
            ("mqtt_anonymous_user", &self.mqtt_anonymous_user),
        ] {
            if name.is_empty() || name.len() > menzil_model::Name::BYTES_MAX {
                return Err((
                    key,
                    format!("{key} is {name:?}: it has from 1 to 255 bytes"),
                ));
            }
        }
        for name in &self.virtual_hosts {
            if name.is_empty() || name.len() > menzil_model::Name::BYTES_MAX {
                return Err((
                    "virtual_hosts",
                    format!("virtual_hosts has {name:?}: a name has from 1 to 255 bytes"),
                ));
            }
        }
        if self.virtual_hosts.is_empty() {
            return Err((
                "virtual_hosts",
                "virtual_hosts is empty: name at least one, such as [\"/\"]".to_owned(),
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_explained_in_the_documents() {
        let document = include_str!("../../../docs/configuration.md");
        let keys = toml::Table::try_from(Settings::default()).unwrap();
        for key in keys.keys() {
            assert!(document.contains(&format!("| `{key}` |")), "{key}");
        }
        assert_eq!(document.matches("\n| `").count(), keys.len());
    }
}
