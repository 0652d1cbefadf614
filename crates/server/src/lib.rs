//! Listeners, connection tasks and the shard driver.
