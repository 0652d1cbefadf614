//! MQTT 3.1, 3.1.1 and 5.0, without IO.
//!
//! [`codec`] turns bytes into packets and packets into bytes. It knows no connection, session or
//! clock: what one packet alone can break is refused there. What needs memory (an alias over the
//! maximum, an identifier in flight, a packet out of order) is the protocol session's: [`Inbound`]
//! and [`Outbound`], the two halves of one connection. What is remembered beyond that is the
//! core's.

#![forbid(unsafe_code)]

pub mod codec;
mod session;

pub use session::{
    Accepted, Action, Admission, AuthStep, CloseReason, Denied, Fault, Inbound, Login, MqttConfig,
    Outbound, Outgoing, OwnedPublish, Permission, SCRAM_SHA_256, ScramCredentials, ScramError,
    ScramExchange, ScramFirst, Secret, Sink,
};
