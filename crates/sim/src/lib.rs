//! A deterministic simulation of a whole node: clients, connections, shard, journal, disk and
//! everything that goes wrong with them, from one seed.
//!
//! ```text
//! seed ─► prng ─► world: a step is one of
//!   client acts ─► link ─► node (shard + journal) ─► link ─► client hears
//!   commit · fetch · timer · checkpoint · cut · crash · full disk · lost leadership
//!        every one of them told to ──► oracle: what must be there, what must not
//! ```
//!
//! Lacks threads, sockets, real time and any chance that does not come from the seed: one seed
//! gives one trace. `PLANTED.md` lists the bugs that it is known to find.

#![expect(
    clippy::indexing_slicing,
    clippy::expect_used,
    clippy::wildcard_enum_match_arm,
    reason = "a simulation that stumbles over itself should say so at once"
)]

mod audit;
mod body;
mod brief;
mod catalogue;
mod channel;
mod client;
mod codec;
mod disk;
mod fault;
mod link;
mod log;
mod misplaced;
mod node;
mod oracle;
mod outbox;
mod policy;
mod prng;
mod recovery;
mod sabotage;
mod scenario;
mod speech;
mod trace;
mod wire;
mod workload;
mod world;

pub use oracle::Tally;
pub use sabotage::Sabotage;
pub use scenario::Settings;
pub use world::{Failure, Report};

/// Runs one seed. A panic of the node counts as a failure too.
///
/// # Errors
/// The first thing that must not be.
pub fn run(settings: &Settings) -> Result<Report, Failure> {
    world::World::new(settings).run()
}
