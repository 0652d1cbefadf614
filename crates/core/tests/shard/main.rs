//! A shard as its driver sees it: commands in, records and effects out.

#![expect(
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test may fail where it stands"
)]

mod articles;
mod consumers;
mod dead_letters;
mod deduplication;
mod delays;
mod due;
mod groups;
mod hashes;
mod history;
mod outcomes;
mod over_limits;
mod policies;
mod priorities;
mod queues;
mod redelivery;
mod replays;
mod replies;
mod retention_policies;
mod retries;
mod returns;
mod runs;
mod session_twin;
mod sessions;
mod shared;
mod stores;
mod support;
mod twin;
mod waiting_letters;
