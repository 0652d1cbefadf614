//! Settings of the protocol session.

use crate::codec::{Qos, TextPolicy, Version};

/// What a listener's connections have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MqttConfig {
    /// Versions that are spoken.
    pub versions: Vec<Version>,
    /// Milliseconds from accept until the client is let in.
    pub connect_ms: u64,
    /// Largest CONNECT.
    pub connect_bytes_max: u32,
    /// Largest packet after it (§3.2.2.3.6).
    pub packet_bytes_max: u32,
    /// Largest payload.
    pub message_bytes_max: u64,
    /// A larger payload goes to the core in parts of this size.
    pub chunk_bytes: usize,
    /// Messages of QoS 1 and 2 that a client may have on their way in (§3.2.2.3.3). Only 5.0 can
    /// be told; not 0. Those of QoS 2 are bounded by the core too.
    pub receive_max: u16,
    /// Messages of QoS 1 and 2 that are on their way to a client at once, whatever it would take.
    /// Not 0.
    pub in_flight_max: u16,
    /// Aliases that a client may set (§3.2.2.3.8).
    pub topic_alias_max: u16,
    /// Aliases that are used to a client, if it allows so many.
    pub topic_alias_out_max: u16,
    /// The most that a client may have as keep alive, in seconds; 0 is any. A greater one, or
    /// none, is overridden in 5.0 (§3.2.2.3.14) and left alone before it.
    pub keep_alive_max_s: u16,
    /// Most seconds that a session outlives its connection (§3.2.2.3.2).
    pub session_expiry_max_s: u32,
    /// The best quality of service (§3.2.2.3.4).
    pub qos_max: Qos,
    /// Retained messages (§3.2.2.3.5).
    pub retain_available: bool,
    /// Subscriptions with wildcards (§3.2.2.3.11).
    pub wildcard_available: bool,
    /// Subscription identifiers (§3.2.2.3.12).
    pub subscription_ids_available: bool,
    /// Shared subscriptions (§3.2.2.3.13).
    pub shared_available: bool,
    /// Clients without an identifier get one.
    pub assigns_client_ids: bool,
    /// What clients that ask for it make response topics of (§3.2.2.3.15).
    pub response_information: Option<String>,
    /// Where to go instead (§3.2.2.3.16).
    pub server_reference: Option<String>,
    /// Text for people on errors (§2.2.2.2, Reason String).
    pub reason_strings: bool,
    /// Codes that 5.0 leaves open: PUBREC says where nobody wants the message (0x10), PUBREL and
    /// PUBCOMP where the packet identifier is not known (0x92; §3.6.2.1, §3.7.2.1).
    pub optional_codes: bool,
    /// Clients may publish to topics that begin with `$`.
    pub dollar_topics: bool,
    /// What a publish gets that is not permitted, or for which there is no room, where the
    /// protocol has no word for it: before 5.0.
    pub denied_before_5: Denied,
    /// Well-formed text that is refused.
    pub text: TextPolicy,
    /// Levels of topics.
    pub topic_levels_max: u16,
    /// A payload that says to be UTF-8 is looked at (0x99, §3.3.2.3.2).
    pub checks_payload_format: bool,
    /// Clients may name a subscription identifier in PUBLISH, which is ignored. Else it is an
    /// error (MQTT-3.3.4-6).
    pub lets_subscription_ids_pass: bool,
}

/// What becomes of a publish that was denied, before 5.0. It is never acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Denied {
    /// The connection closes.
    #[default]
    Close,
    /// Nothing: the client waits in vain.
    Silent,
}

impl Default for MqttConfig {
    fn default() -> Self {
        Self {
            versions: Version::ALL.to_vec(),
            connect_ms: 10_000,
            connect_bytes_max: 1 << 20,
            packet_bytes_max: 17 << 20,
            message_bytes_max: 16 << 20,
            chunk_bytes: 1 << 20,
            receive_max: 1000,
            in_flight_max: 1000,
            topic_alias_max: 10,
            topic_alias_out_max: 10,
            keep_alive_max_s: 0,
            session_expiry_max_s: u32::MAX,
            qos_max: Qos::ExactlyOnce,
            retain_available: true,
            wildcard_available: true,
            subscription_ids_available: true,
            shared_available: true,
            assigns_client_ids: true,
            response_information: None,
            server_reference: None,
            reason_strings: true,
            optional_codes: true,
            dollar_topics: false,
            denied_before_5: Denied::default(),
            text: TextPolicy::Plain,
            topic_levels_max: 200,
            checks_payload_format: false,
            lets_subscription_ids_pass: false,
        }
    }
}
