//! The names of the files in the folder, and small files written whole.
//!
//! Lacks their contents. Invariant: a file written by `write_whole` is there wholly or not at
//! all, whenever the power goes.

use std::io;

use menzil_model::ShardId;

use crate::disk::{Disk, DiskFile};

/// What a file in the folder is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    Segment(u64),
    Cold(u64),
    Directory(u64),
    Spare(u64),
    Checkpoint(ShardId, u64),
    Temporary,
    Other,
}

impl Name {
    pub(crate) fn parse(name: &str) -> Self {
        if name.ends_with(TEMPORARY) {
            return Self::Temporary;
        }
        let number = |text: &str| text.parse::<u64>().ok();
        let parsed = match name.split_once('-') {
            Some(("segment", rest)) => number(rest).map(Self::Segment),
            Some(("cold", rest)) => number(rest).map(Self::Cold),
            Some(("directory", rest)) => number(rest).map(Self::Directory),
            Some(("spare", rest)) => number(rest).map(Self::Spare),
            Some(("checkpoint", rest)) => rest.split_once('-').and_then(|(shard, index)| {
                Some(Self::Checkpoint(
                    ShardId(shard.parse().ok()?),
                    number(index)?,
                ))
            }),
            _ => None,
        };
        parsed
            .filter(|parsed| parsed.to_string() == name)
            .unwrap_or(Self::Other)
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Segment(id) => write!(f, "segment-{id:010}"),
            Self::Cold(id) => write!(f, "cold-{id:010}"),
            Self::Directory(id) => write!(f, "directory-{id:010}"),
            Self::Spare(id) => write!(f, "spare-{id:010}"),
            Self::Checkpoint(shard, index) => write!(f, "checkpoint-{shard}-{index}"),
            Self::Temporary => f.write_str(TEMPORARY),
            Self::Other => f.write_str("other"),
        }
    }
}

/// Whether a journal gives a file of its folder that name, finished or not.
pub fn is_own_name(name: &str) -> bool {
    let kept = [LOCK, FORMAT, EVACUATION_RESERVE, LOG_RESERVE];
    Name::parse(name) != Name::Other
        || kept.contains(&name)
        || CHECKPOINT_RESERVES.contains(&name)
        || name.starts_with(QUARANTINE)
}

/// Writes a file whole: under a temporary name, synced, renamed, the name synced.
pub(crate) fn write_whole<D: Disk>(disk: &D, name: &str, parts: &[&[u8]]) -> io::Result<()> {
    let temporary = temporary(name);
    let written = (|| {
        let file = disk.create(&temporary)?;
        fill(&file, parts)?;
        disk.rename(&temporary, name)?;
        disk.sync_folder()
    })();
    if written.is_err() {
        // The error that matters is the first; an unfinished file is removed at the next open.
        drop(disk.remove(&temporary));
    }
    written
}

/// Writes the parts one after the other and syncs the file.
pub(crate) fn fill(file: &impl DiskFile, parts: &[&[u8]]) -> io::Result<()> {
    let mut offset = 0;
    for part in parts {
        file.write_at(part, offset)?;
        offset += part.len() as u64;
    }
    file.sync_data()
}

/// The name of the file while it is unfinished.
pub(crate) fn temporary(name: &str) -> String {
    format!("{name}{TEMPORARY}")
}

pub(crate) const LOCK: &str = "lock";
pub(crate) const FORMAT: &str = "format";
/// Space kept aside for one step of evacuation on a full disk.
pub(crate) const EVACUATION_RESERVE: &str = "evacuation-reserve";
/// Space kept aside for a short segment on a full disk: in it the log goes on while a checkpoint
/// sets the one before it free.
pub(crate) const LOG_RESERVE: &str = "log-reserve";
/// Space kept aside for checkpoints on a full disk. Two, because one checkpoint may set nothing
/// free, and the next must have its space all the same; from then on each sets the one before
/// it free.
pub(crate) const CHECKPOINT_RESERVES: [&str; 2] = ["checkpoint-reserve", "checkpoint-reserve-2"];
const TEMPORARY: &str = ".tmp";
/// What a repair or a recovery set aside begins with.
const QUARANTINE: &str = "quarantine-";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_ours_is_known() {
        let numbered = Name::Cold(7).to_string();
        let unfinished = temporary(FORMAT);
        let kept = [LOCK, FORMAT, EVACUATION_RESERVE, LOG_RESERVE];
        let ours = kept.into_iter().chain([&*numbered, &*unfinished]);
        for name in ours.chain(CHECKPOINT_RESERVES) {
            assert!(is_own_name(name), "{name}");
        }
        assert!(is_own_name("quarantine-0000000003-512"));
        assert!(!is_own_name("holiday.jpg"));
    }

    #[test]
    fn names_are_read_as_they_are_written_and_no_other_way() {
        for name in [
            Name::Segment(7),
            Name::Cold(7),
            Name::Directory(7),
            Name::Spare(0),
            Name::Checkpoint(ShardId(3), 1042),
        ] {
            assert_eq!(Name::parse(&name.to_string()), name);
        }
        assert_eq!(Name::parse("segment-7"), Name::Other);
        assert_eq!(Name::parse("segment-0000000007.tmp"), Name::Temporary);
        for reserve in CHECKPOINT_RESERVES {
            assert_eq!(Name::parse(reserve), Name::Other);
        }
    }
}
