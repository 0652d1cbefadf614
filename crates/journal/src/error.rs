//! What can go wrong, one enum for each who asks. Invariant: a [`StorageError`] is for ever.

use std::fmt;
use std::io;
use std::sync::Arc;

use menzil_model::{Position, ShardId};

/// The journal is out of order and stays so: nothing will be committed any more. The node stops.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum StorageError {
    /// Writing into a prepared segment failed.
    Write {
        /// Number in the segment's file name.
        segment: u64,
        /// Where the batch was to start.
        offset: u64,
        /// What the system said.
        error: Arc<io::Error>,
    },
    /// Syncing a segment failed. What it covered may or may not be on disk; nobody was told so.
    Sync {
        /// Number in the segment's file name.
        segment: u64,
        /// What the system said.
        error: Arc<io::Error>,
    },
    /// Preparing, recycling or describing a segment failed for another reason than space.
    Folder {
        /// What was being done.
        what: &'static str,
        /// What the system said.
        error: Arc<io::Error>,
    },
    /// The disk is full and even the reserve is used up.
    Full,
    /// An encoder took away bytes that others had appended; that is a bug of the caller.
    Encoder,
    /// The journal was closed.
    Closed,
}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write {
                segment,
                offset,
                error,
            } => {
                write!(
                    f,
                    "writing segment {segment} at byte {offset} failed: {error}"
                )
            }
            Self::Sync { segment, error } => {
                write!(f, "syncing segment {segment} failed: {error}")
            }
            Self::Folder { what, error } => write!(f, "{what} failed: {error}"),
            Self::Full => f.write_str("the disk is full and the journal's reserve is used up"),
            Self::Encoder => f.write_str("an encoder damaged the pending records"),
            Self::Closed => f.write_str("the journal is closed"),
        }
    }
}

impl std::error::Error for StorageError {}

/// Why a folder was not opened. Nothing was changed in it but unfinished files and a torn tail.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// Another journal has the folder.
    Locked,
    /// The folder was written by a newer version.
    NewerFormat {
        /// What the folder has.
        found: u64,
        /// The newest that is understood.
        known: u64,
    },
    /// The `format` file is missing though segments exist, or says something unknown.
    Format {
        /// What is wrong.
        what: String,
    },
    /// A topology record is damaged or lost.
    CorruptTopology {
        /// Its name, as far as it can be told.
        position: Option<Position>,
        /// Number in the segment's file name.
        segment: u64,
        /// Where in the segment.
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// The log does not hang together.
    Corrupt {
        /// Number in the segment's file name.
        segment: u64,
        /// Where in the segment.
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// Records are missing, and neither a checkpoint nor any damage accounts for them: a file
    /// was deleted or cut off. No repair brings them back.
    Incomplete {
        /// Whose records.
        shard: ShardId,
        /// The first that is missing.
        first: u64,
        /// The last that is missing.
        last: u64,
        /// The segment that goes on after them: number in its file name.
        segment: u64,
    },
    /// The newest checkpoint of a shard is damaged, and what is left cannot stand in for it.
    CorruptCheckpoint {
        /// Whose state it was.
        shard: ShardId,
        /// The record it stood after.
        index: u64,
        /// The file.
        name: String,
    },
    /// The replaying side refused.
    Replay {
        /// The record, or none for a checkpoint.
        position: Option<Position>,
        /// What it said.
        message: String,
    },
    /// There is no space for the first segment.
    Full,
    /// The system refused.
    Io {
        /// What was being done.
        what: String,
        /// What the system said.
        error: io::Error,
    },
    /// Preparing to write failed.
    Storage(StorageError),
}

impl OpenError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |error| Self::Io { what, error }
    }

    /// What is wrong, without what to do about it.
    pub(crate) fn what(&self) -> String {
        let text = self.to_string();
        let advised = |advice: &&str| text.ends_with(*advice);
        let advice = [REPAIR, RESTORE].into_iter().find(advised);
        advice
            .and_then(|advice| text.strip_suffix(advice))
            .map_or(text.as_str(), |what| what.trim_end_matches("; "))
            .to_owned()
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Locked => f.write_str("another process has this data folder open"),
            Self::NewerFormat { found, known } => write!(
                f,
                "the data folder has format {found}, this version understands up to {known}"
            ),
            Self::Format { what } => write!(f, "not a journal folder: {what}"),
            Self::CorruptTopology {
                position,
                segment,
                offset,
                what,
            } => {
                f.write_str("topology record ")?;
                match position {
                    Some(position) => write!(f, "{position}")?,
                    None => f.write_str("(position unknown)")?,
                }
                write!(
                    f,
                    " in segment {segment} at byte {offset} is corrupt: {what}; {REPAIR}"
                )
            }
            Self::Corrupt {
                segment,
                offset,
                what,
            } => {
                write!(
                    f,
                    "segment {segment} is corrupt at byte {offset}: {what}; {REPAIR}"
                )
            }
            Self::Incomplete {
                shard,
                first,
                last,
                segment,
            } => write!(
                f,
                "records {first} to {last} of shard {shard}, before segment {segment}, are missing: \
                 no segment and no checkpoint has them; {RESTORE}"
            ),
            Self::CorruptCheckpoint { shard, index, name } => write!(
                f,
                "checkpoint {name} of shard {shard} at {index} is corrupt and the log before it \
                 is not there any more; {RESTORE}"
            ),
            Self::Replay {
                position: Some(position),
                message,
            } => {
                write!(f, "record {position} cannot be replayed: {message}")
            }
            Self::Replay {
                position: None,
                message,
            } => {
                write!(f, "a checkpoint cannot be replayed: {message}")
            }
            Self::Full => f.write_str("no space for the first segment"),
            Self::Io { what, error } => write!(f, "{what}: {error}"),
            Self::Storage(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {}

impl From<StorageError> for OpenError {
    fn from(error: StorageError) -> Self {
        match error {
            StorageError::Full => Self::Full,
            error @ (StorageError::Write { .. }
            | StorageError::Sync { .. }
            | StorageError::Folder { .. }
            | StorageError::Encoder
            | StorageError::Closed) => Self::Storage(error),
        }
    }
}

/// Why a record was not read.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReadError {
    /// The bytes are not what was written.
    Corrupt {
        /// The record.
        position: Position,
        /// Number in the segment's file name.
        segment: u64,
        /// Where the record starts.
        offset: u64,
        /// The checksum in its header, 0 where the header is damaged.
        expected: u32,
        /// The checksum of the bytes that are there.
        actual: u32,
    },
    /// There is no such record: not yet, or not any more.
    Gone(Position),
    /// The system refused.
    Io(io::Error),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Corrupt {
                position,
                segment,
                offset,
                expected,
                actual,
            } => write!(
                f,
                "record {position} in segment {segment} at byte {offset} is corrupt \
                 (checksum {actual:08x}, expected {expected:08x})"
            ),
            Self::Gone(position) => write!(f, "there is no record {position}"),
            Self::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ReadError {}

const REPAIR: &str = "`menzil journal repair DIR` sets it aside and names what is lost";
const RESTORE: &str = "restore the data folder from a backup";
