//! Settings of the protocol session.

use crate::sasl::Mechanism;

/// What a broker's connections have in common. Defaults are RabbitMQ's where it has the setting.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// Server property `product`.
    pub product: String,
    /// Server property `version`.
    pub version: String,
    /// Server property `platform`.
    pub platform: String,
    /// Server property `copyright`.
    pub copyright: String,
    /// Server property `information`.
    pub information: String,
    /// Server property `cluster_name`.
    pub cluster_name: String,
    /// Offered login mechanisms.
    pub mechanisms: Vec<Mechanism>,
    /// Most channels of a connection; not 0.
    pub channel_max: u16,
    /// Largest frame; at least [`crate::frame::FRAME_BYTES_MIN`].
    pub frame_bytes_max: u32,
    /// Largest frame before one is agreed on.
    pub frame_bytes_max_before_tune: u32,
    /// Proposed heartbeat interval; the client's answer counts.
    pub heartbeat_seconds: u16,
    /// Largest message body.
    pub message_bytes_max: u64,
    /// Most bytes of incomplete messages of one connection; never below `message_bytes_max`.
    pub assembling_bytes_max: u64,
    /// A larger body goes to the core in parts of this size.
    pub chunk_bytes: usize,
    /// Time for everything up to `connection.open`.
    pub handshake_ms: u64,
    /// How long a failed handshake is kept waiting before its socket closes.
    pub refusal_delay_ms: u64,
    /// Most time between a close and the end of the socket.
    pub close_wait_ms: u64,
}

impl Default for SessionConfig {
    fn default() -> Self {
        Self {
            product: "Menzil".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            platform: "Rust".to_owned(),
            copyright: "The Menzil authors".to_owned(),
            information: "Licensed under MIT or Apache-2.0".to_owned(),
            cluster_name: "menzil".to_owned(),
            mechanisms: vec![Mechanism::AmqPlain, Mechanism::Plain],
            channel_max: 2047,
            frame_bytes_max: 131_072,
            frame_bytes_max_before_tune: 8192,
            heartbeat_seconds: 60,
            message_bytes_max: 16 * MIB,
            assembling_bytes_max: 64 * MIB,
            chunk_bytes: 1 << 20,
            handshake_ms: 10_000,
            refusal_delay_ms: 3000,
            close_wait_ms: 30_000,
        }
    }
}

const MIB: u64 = 1 << 20;
