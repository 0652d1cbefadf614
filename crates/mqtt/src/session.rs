//! The protocol session of one connection, without IO: [`Inbound`] turns bytes into requests to
//! the core, [`Outbound`] turns what the core decides into bytes. The driver carries both out:
//!
//! 1. read the socket, call [`Inbound::receive`] with the bytes;
//! 2. carry out in order what comes to its [`Sink`]: publishes and requests in the shard, with
//!    their effects to the [`Outbound`] of the connection that they name; what the session sends
//!    itself to [`Outbound::send`]; a login to whoever knows users, the answer to
//!    [`Inbound::authenticated`] and then once more [`Inbound::receive`], without bytes if need be;
//! 3. execute what [`Outbound::take_requests`] has, then [`Outbound::flush`], and write what
//!    [`Outbound::hand_over`] gives;
//! 4. when the journal has committed up to [`Outbound::waits_for`], [`Outbound::committed`] and
//!    again 3;
//! 5. at [`Inbound::deadline`], [`Inbound::timeout`];
//! 6. where an effect is [`menzil_core::SessionOutput::Ended`], [`Inbound::session_ended`] before
//!    the next input, and where there is an [`Outbound::failure`], [`Inbound::fail`];
//! 7. when the socket has ended, execute what [`Inbound::disconnected`] returns.

mod action;
mod config;
mod fault;
mod inbound;
mod outbound;
mod scram;

pub use action::{
    Accepted, Action, Admission, AuthStep, CloseReason, Login, Outgoing, OwnedPublish, Permission,
    Secret, Sink,
};
pub use config::{Denied, MqttConfig};
pub use fault::Fault;
pub use inbound::Inbound;
pub use outbound::Outbound;
pub use scram::{SCRAM_SHA_256, ScramCredentials, ScramError, ScramExchange, ScramFirst};
