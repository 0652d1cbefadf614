//! The durable log of the broker: records, segments, group commit, checkpoints and recovery.
//!
//! It sees bytes and a [`Class`](menzil_model::Class) and never knows a queue. What it
//! deliberately lacks: any idea of what a payload means, threads of its own (the caller lends
//! them to [`Journal::run`]), retries of a failed sync, and compaction in place.
//!
//! Invariant: `committed(shard)` covers exactly what a sync that returned has covered, and what
//! it covered is replayed once, in order, by every later [`Journal::open`].
//!
//! ```text
//! folder:
//!   lock                    held while a journal is open
//!   format                  "menzil journal 1"
//!   segment-0000000007      header │ batch │ batch │ …       see segment.rs, batch.rs, record.rs
//!   directory-0000000007    position → offset of a sealed segment          see sidecar.rs
//!   spare-0000000005        a dead segment that waits for its next use
//!   checkpoint-3-1042       state of shard 3 after its record 1042     see checkpoint.rs
//!   quarantine-…            bytes that `repair` took out of the way
//!   *.tmp                   unfinished, removed at the next open
//!
//! append → pending ──swap──► flight ──pwritev, fdatasync──► segment ──► committed
//! ```

mod batch;
mod checkpoint;
mod contents;
mod continuity;
mod counters;
mod counts;
mod damage;
mod directory;
mod disk;
mod dump;
mod error;
mod flight;
mod folder;
mod journal;
mod layout;
mod marks;
mod memory_disk;
mod options;
mod os_disk;
mod pending;
mod preparer;
mod reader;
mod record;
mod recovery;
mod releases;
mod repair;
mod report;
mod run;
mod scan;
mod segment;
mod sidecar;
mod space;
mod strays;
mod survey;
mod verify;
mod walk;
mod writer;

pub use checkpoint::{CheckpointError, Freeze};
pub use counters::{BATCH_RECORDS_BOUNDS, COMMIT_BOUNDS_US, Counters};
pub use damage::{Damage, DamageKind};
pub use directory::SegmentUse;
pub use disk::{Disk, DiskFile};
pub use dump::{Dumped, dump};
pub use error::{OpenError, ReadError, StorageError};
pub use journal::{Batch, Journal};
pub use marks::Marks;
pub use options::Options;
pub use os_disk::{OsDisk, OsFile};
pub use recovery::Replay;
pub use repair::repair;
pub use report::{OpenReport, Quarantined, Report, TornTail};
pub use space::Space;
pub use verify::{verify, verify_with};
pub use writer::Commit;

/// A disk in memory that forgets, tears, fails and fills up on command.
pub mod testing {
    pub use crate::checkpoint::freeze_at;
    pub use crate::memory_disk::{MemoryDisk, MemoryFile, MemoryLock};
}
