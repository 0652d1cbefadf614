//! MQTT's side of the server: connection tasks, logins and what clients may do.

mod connection;
mod executor;
mod login;
mod rights;
mod service;

pub(crate) use connection::Connection;
pub(crate) use service::{Service, session_settings};
