//! The protocol session in front of a real shard, in memory.
#![cfg(test)]
#![expect(
    clippy::cast_possible_truncation,
    clippy::disallowed_methods,
    reason = "tests know how large their numbers are, and read files"
)]

mod anywhere;
mod authenticating;
mod client;
mod connecting;
mod publishing;
mod sequences;
mod world;
