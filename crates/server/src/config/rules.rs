//! What each setting may be, alone: its kind, and from where to where.
//!
//! Values are looked at as the file has them, before they become fields of `Settings`, so that
//! whoever reads a complaint sees the setting, what stands there, and what would be right. How
//! settings go together is not said here.

use std::fmt;

use toml::Value;

use super::{Address, Size};
use crate::users::PasswordHash;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// The kind and the range of a setting.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rule {
    /// A whole number from one to the other.
    Number(u64, u64),
    /// Bytes, likewise.
    Bytes(u64, u64),
    Truth,
    Text,
    Names,
    OneOf(&'static [&'static str]),
    Listener,
    Hash,
    /// A table for each user.
    Users,
}

const RULES: &[(&str, Rule)] = &[
    ("data_dir", Rule::Text),
    ("amqp", Rule::Listener),
    ("mqtt", Rule::Listener),
    ("mqtt_ws", Rule::Listener),
    ("definitions", Rule::Text),
    ("virtual_hosts", Rule::Names),
    ("product", Rule::OneOf(&["Menzil", "RabbitMQ"])),
    ("guest", Rule::Truth),
    ("loopback_users", Rule::Names),
    ("password_checks_max", Rule::Number(1, 256)),
    ("connections_max", Rule::Number(1, 1 << 20)),
    ("channel_max", Rule::Number(1, 65_535)),
    ("frame_max", Rule::Bytes(4 * KIB, 16 * MIB)),
    ("heartbeat_seconds", Rule::Number(0, 65_535)),
    ("handshake_timeout_seconds", Rule::Number(1, 3600)),
    ("message_bytes_max", Rule::Bytes(1, 512 * MIB)),
    // One transaction is one record of the journal.
    ("tx_bytes_max", Rule::Bytes(64 * KIB, 256 * MIB)),
    ("dead_letter_counts_client_headers", Rule::Truth),
    (
        "assembling_bytes_per_connection",
        Rule::Bytes(64 * KIB, 1024 * GIB),
    ),
    (
        "assembling_bytes_per_node",
        Rule::Bytes(64 * KIB, 1024 * GIB),
    ),
    ("delivery_credit_bytes", Rule::Bytes(4 * KIB, GIB)),
    ("outbox_bytes_max", Rule::Bytes(4 * KIB, GIB)),
    ("mqtt_virtual_host", Rule::Text),
    ("mqtt_exchange", Rule::Text),
    (
        "mqtt_anonymous",
        Rule::OneOf(&["never", "loopback", "always"]),
    ),
    ("mqtt_anonymous_user", Rule::Text),
    // The remaining length has 28 bits.
    ("mqtt_packet_bytes_max", Rule::Bytes(256, 256 * MIB)),
    ("mqtt_receive_max", Rule::Number(1, 65_535)),
    ("mqtt_in_flight_max", Rule::Number(1, 65_535)),
    ("mqtt_topic_alias_max", Rule::Number(0, 65_535)),
    ("mqtt_keep_alive_max", Rule::Number(0, 65_535)),
    ("mqtt_session_expiry_max", Rule::Number(0, 4_294_967_295)),
    ("mqtt_session_messages_max", Rule::Number(1, 1 << 32)),
    ("mqtt_session_bytes_max", Rule::Bytes(1, 1024 * GIB)),
    (
        "mqtt_session_limit",
        Rule::OneOf(&["drop-oldest", "drop-newest", "disconnect"]),
    ),
    ("mqtt_subscriptions_max", Rule::Number(1, 1 << 24)),
    ("mqtt_retained_max", Rule::Number(0, 1 << 32)),
    ("mqtt_retained_bytes_max", Rule::Bytes(0, 1024 * GIB)),
    ("mqtt_reason_strings", Rule::Truth),
    ("mqtt_dollar_topics", Rule::Truth),
    ("segment_bytes", Rule::Bytes(64 * KIB, 2 * GIB)),
    ("journal_pending_bytes_max", Rule::Bytes(64 * KIB, 16 * GIB)),
    ("checkpoint_bytes", Rule::Bytes(64 * KIB, 1024 * GIB)),
    ("checkpoint_seconds", Rule::Number(1, 1 << 32)),
    ("body_cache_bytes", Rule::Bytes(0, 1024 * GIB)),
    ("index_page_entries", Rule::Number(4, 65_536)),
    ("index_bytes_max", Rule::Bytes(0, 1024 * GIB)),
    ("read_threads", Rule::Number(1, 64)),
    ("stop_seconds", Rule::Number(0, 3600)),
    (
        "log_level",
        Rule::OneOf(&["error", "warn", "info", "debug"]),
    ),
    ("log_format", Rule::OneOf(&["text", "json"])),
    ("users", Rule::Users),
];

/// The rule of a setting; `None` where there is no such setting.
pub(super) fn rule(key: &str) -> Option<Rule> {
    let found = RULES.iter().find(|(name, _)| *name == key);
    found.map(|(_, rule)| *rule)
}

impl Rule {
    /// What is wrong with `value` as the setting `key`, if anything.
    pub(super) fn check(self, key: &str, value: &Value) -> Result<(), String> {
        let shown = Shown(value);
        let kind = || Err(format!("{key} is {shown}: it must be {self}"));
        let out_of_range = |value: &dyn fmt::Display, range: &dyn fmt::Display| {
            Err(format!("{key} is {value}: it must be {range}"))
        };
        match (self, value) {
            (Self::Number(least, most), Value::Integer(number)) => {
                let inside = u64::try_from(*number).is_ok_and(|n| (least..=most).contains(&n));
                if inside {
                    return Ok(());
                }
                out_of_range(number, &format_args!("from {least} to {most}"))
            }
            (Self::Bytes(least, most), Value::Integer(_) | Value::String(_)) => {
                let Some(size) = size(value) else {
                    return kind();
                };
                let (least, most) = (Size(least), Size(most));
                if (least..=most).contains(&size) {
                    return Ok(());
                }
                out_of_range(&size, &format_args!("from {least} to {most}"))
            }
            (Self::Listener, Value::String(text)) => {
                text.parse::<Address>().map(drop).or_else(|_| kind())
            }
            (Self::Hash, Value::String(text)) => PasswordHash::try_from(text.clone())
                .map(drop)
                .map_err(|error| format!("{key}: {error}")),
            (Self::OneOf(words), Value::String(text)) if words.contains(&text.as_str()) => Ok(()),
            (Self::Names, Value::Array(names)) if names.iter().all(Value::is_str) => Ok(()),
            (Self::Truth, Value::Boolean(_))
            | (Self::Text, Value::String(_))
            | (Self::Users, Value::Table(_)) => Ok(()),
            _ => kind(),
        }
    }
}

fn size(value: &Value) -> Option<Size> {
    match value {
        Value::Integer(number) => u64::try_from(*number).ok().map(Size),
        Value::String(text) => text.parse().ok(),
        Value::Boolean(_)
        | Value::Float(_)
        | Value::Datetime(_)
        | Value::Array(_)
        | Value::Table(_) => None,
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(least, most) => write!(f, "a whole number from {least} to {most}"),
            Self::Bytes(least, most) => write!(
                f,
                "a size from {} to {}: a number of bytes, or a text with KiB, MiB or GiB such as \
                 \"128 KiB\"",
                Size(*least),
                Size(*most)
            ),
            Self::Truth => f.write_str("true or false, without quotes"),
            Self::Text => f.write_str("a text in quotes"),
            Self::Names => f.write_str("a list of names, such as [\"a\", \"b\"]"),
            Self::OneOf(words) => write!(f, "\"{}\"", words.join("\" or \"")),
            Self::Listener => f.write_str("HOST:PORT, such as \"127.0.0.1:5672\", or \"off\""),
            Self::Hash => f.write_str("a text in quotes that `menzil hash-password` prints"),
            Self::Users => f.write_str(
                "a table for each user, [users.NAME]; `menzil hash-password NAME` prints one",
            ),
        }
    }
}

/// A value as it stands in a file; a table is too long for a line.
struct Shown<'a>(&'a Value);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Table(_) => f.write_str("a table"),
            Value::String(_)
            | Value::Integer(_)
            | Value::Float(_)
            | Value::Boolean(_)
            | Value::Datetime(_)
            | Value::Array(_) => write!(f, "{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;

    #[test]
    fn every_setting_has_a_rule_that_its_default_follows() {
        let defaults = toml::Table::try_from(Settings::default()).unwrap();
        for (key, value) in &defaults {
            assert_eq!(rule(key).unwrap().check(key, value), Ok(()), "{key}");
        }
        assert_eq!(RULES.len(), defaults.len());
    }

    #[test]
    fn a_complaint_names_the_setting_and_what_would_be_right() {
        for (key, value, what) in [
            (
                "heartbeat_seconds",
                Value::from("soon"),
                "heartbeat_seconds is \"soon\": it must be a whole number from 0 to 65535",
            ),
            (
                "heartbeat_seconds",
                Value::from(-1),
                "heartbeat_seconds is -1: it must be from 0 to 65535",
            ),
            (
                "frame_max",
                Value::from(10),
                "frame_max is 10 B: it must be from 4 KiB to 16 MiB",
            ),
            (
                "guest",
                Value::from("yes"),
                "guest is \"yes\": it must be true or false",
            ),
            (
                "log_format",
                Value::from(5),
                "log_format is 5: it must be \"text\" or \"json\"",
            ),
            (
                "amqp",
                Value::from(5672),
                "amqp is 5672: it must be HOST:PORT",
            ),
            (
                "virtual_hosts",
                Value::from("/"),
                "virtual_hosts is \"/\": it must be a list of names",
            ),
            (
                "virtual_hosts",
                Value::from(vec![1]),
                "virtual_hosts is [1]: it must be a list",
            ),
        ] {
            let found = rule(key).unwrap().check(key, &value).unwrap_err();
            assert!(found.starts_with(what), "{found}");
        }
    }
}
