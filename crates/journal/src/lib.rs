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
//!   format                  "menzil journal 2"
//!   segment-0000000007      header │ batch │ batch │ …       see segment.rs, batch.rs, record.rs
//!   cold-0000000009         records saved out of dead segments     see cold.rs, evacuation.rs
//!   directory-0000000007    where the records of a sealed segment or cold file lie: sidecar.rs
//!   spare-0000000005        a dead segment that waits for its next use
//!   checkpoint-3-1042       state of shard 3 after its record 1042     see checkpoint.rs
//!   quarantine-…            bytes that `repair` took out of the way
//!   checkpoint-reserve      space for a checkpoint on a full disk
//!   evacuation-reserve      space for a step of evacuation on a full disk
//!   *.tmp                   unfinished, removed at the next open
//! ```
//!
//! A record lies in one file, or, while it is evacuated, in two that say the same. The file that
//! it was appended to is set free by the first checkpoint that found nobody who needs anything
//! of it; a cold file likewise. After a crash the newest cold file that has a record is the one
//! it is counted in, so that the other can die.
//!
//! ```text
//! append → pending ──swap──► flight ──pwritev, fdatasync──► segment ──► committed
//! ```

mod batch;
mod checkpoint;
mod cold;
mod contents;
mod continuity;
mod counters;
mod counts;
mod damage;
mod direct;
mod directory;
mod disk;
mod dump;
mod error;
mod evacuation;
mod flight;
mod folder;
mod inspect;
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
mod remains;
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
pub use evacuation::Evacuated;
pub use folder::is_own_name;
pub use inspect::Inspection;
pub use journal::{Batch, Journal};
pub use marks::Marks;
pub use options::Options;
pub use os_disk::{OsDisk, OsFile};
pub use recovery::Replay;
pub use remains::remains;
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
