//! The deterministic heart: topology, routing and queues of one virtual host.
//!
//! [`Shard::execute`] takes a command, decides what happens (facts), hands each durable fact to
//! the [`Log`], applies it, and says what the driver is to do (effects). Time, ids and
//! randomness come in as arguments; nothing here waits.

mod command;
mod effect;
mod log;
mod refusal;
mod topology;

pub use command::{
    ChannelKey, Command, Consume, ExchangeBind, ExchangeDeclare, Publish, QueueBind, QueueDeclare,
    Rejection, Request,
};
pub use effect::{ConnectionOutput, Effect, Output, Reply, credit_bytes};
pub use log::Log;
pub use refusal::{Given, Object, Refusal};
pub use topology::{Routed, RoutingKeys, Targets, Topology, check_binding, strip_bcc};
