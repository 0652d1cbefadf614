//! Listeners, connection tasks and the shard driver.

pub mod config;
pub mod log;
mod secret;
mod users;

pub use secret::Secret;
pub use users::{LoginRefused, PasswordHash, Users};
