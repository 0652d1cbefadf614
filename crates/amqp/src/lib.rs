//! AMQP 0-9-1 codec and protocol session, without IO.
//!
//! [`Inbound`] turns bytes into commands for the core, [`Outbound`] turns the core's effects
//! into bytes. The driver carries both out:
//!
//! 1. read the socket, call [`Inbound::receive`] with the bytes;
//! 2. carry out the [`Action`]s in order, as they come to a [`Sink`] or from a list of them: a command in the shard, its effects to the
//!    [`Outbound`] of the connection that they name (and a refusal of this connection's request
//!    also to [`Inbound::channel_refused`] or [`Inbound::connection_refused`], a closed channel to
//!    [`Inbound::channel_closed`], before the next input), what the session sends itself to [`Outbound::send`];
//! 3. [`Outbound::flush`], then write what [`Outbound::transmit`] shows and tell
//!    [`Outbound::advance`] how much went;
//! 4. when the journal has committed up to [`Outbound::waits_for`], [`Outbound::committed`] and
//!    again 3;
//! 5. at [`Inbound::deadline`] and [`Outbound::heartbeat_due`], [`Inbound::timeout`] and
//!    [`Outbound::heartbeat`];
//! 6. when the socket has ended, execute what [`Inbound::disconnected`] returns.

mod action;
mod by_channel;
mod config;
pub mod frame;
mod handshake;
mod inbound;
pub mod method;
#[rustfmt::skip]
pub mod methods;
mod outbound;
pub mod refusal;
mod sasl;
mod session;
mod term;
mod violation;

pub use action::{Action, AuthError, CloseReason, OpenError, Outgoing, Sink};
pub use config::SessionConfig;
pub use handshake::{PROTOCOL_HEADER, PROTOCOL_HEADER_0_9};
pub use inbound::Inbound;
pub use outbound::Outbound;
pub use sasl::{Mechanism, Secret};
pub use session::AmqpSession;
pub use violation::{Code, Violation};
