//! Listeners, connection tasks and the shard driver.
//!
//! What is decided is decided in the crates below; here are sockets, threads, clocks and files.
//! Invariant: no lock is held across an await, and nothing is awaited per message.

mod clock;
pub mod config;
mod connection;
mod control;
mod definitions;
mod delays;
mod driver;
mod entropy;
mod executor;
pub mod explain;
mod listener;
pub mod log;
mod mqtt;
mod scratch;
mod secret;
mod server;
mod stats;
mod turnstile;
mod users;
mod websocket;
mod wire;

pub use driver::EXIT_STORAGE;
pub use secret::Secret;
pub use server::{Ready, Server, StartError, format_advice, stats_socket};
pub use users::{LoginRefused, PasswordHash, Users};
