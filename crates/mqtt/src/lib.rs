//! MQTT 3.1, 3.1.1 and 5.0, without IO.
//!
//! [`codec`] turns bytes into packets and packets into bytes. It knows no connection, session or
//! clock: what one packet alone can break is refused there, what needs memory (an alias over the
//! maximum, an identifier in flight, a packet out of order) is the protocol session's.

#![forbid(unsafe_code)]

pub mod codec;
