//! Everything in the log, one thing after the other, for people to look at.
//!
//! Lacks an idea of the payloads; the caller has the bytes.

use menzil_model::{Class, Position, ShardId};

use crate::damage::Damage;
use crate::disk::Disk;
use crate::error::OpenError;
use crate::layout::range;
use crate::record;
use crate::scan::{Event, Found};
use crate::survey::{enter_known, survey};

/// One thing found in the folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dumped<'a> {
    /// The newest sound checkpoint of a shard.
    Checkpoint {
        /// Whose state it is.
        shard: ShardId,
        /// The record it stands after.
        index: u64,
        /// The state.
        payload: &'a [u8],
    },
    /// A segment begins.
    Segment {
        /// Number in its file name.
        segment: u64,
        /// Length of the file.
        length: u64,
    },
    /// A cold file begins: records that were evacuated.
    Cold {
        /// Number in its file name.
        file: u64,
        /// Length of the file.
        length: u64,
    },
    /// A batch begins.
    Batch {
        /// Counts the batches of the journal.
        number: u64,
        /// Where it starts.
        offset: u64,
        /// Its length without padding.
        length: u64,
        /// How many records it has.
        records: u64,
    },
    /// A sound record.
    Record {
        /// Its name.
        position: Position,
        /// What it is about.
        class: Class,
        /// Where it starts.
        offset: u64,
        /// How many indexes a repair made it stand for; 0 for a record as it was written.
        dropped: u64,
        /// What it says.
        payload: &'a [u8],
    },
    /// Something is wrong.
    Damaged {
        /// The record, where its header is sound.
        position: Option<Position>,
        /// What is wrong.
        damage: Damage,
    },
    /// The log ends in an unfinished batch.
    Torn {
        /// Where it starts.
        offset: u64,
        /// Its length, as far as it can be told.
        bytes: u64,
    },
}

/// Tells everything in the folder, in the order of the log. It takes the lock.
pub fn dump<D: Disk>(disk: &D, tell: &mut dyn FnMut(&Dumped<'_>)) -> Result<(), OpenError> {
    let _lock = enter_known(disk)?;
    let survey = survey(disk)?;
    for (shard, index, payload) in &survey.checkpoints.newest {
        tell(&Dumped::Checkpoint {
            shard: *shard,
            index: *index,
            payload,
        });
    }
    let mut used = survey.used.iter().peekable();
    while let Some(surveyed) = used.next() {
        let segment = surveyed.segment.id;
        tell(&Dumped::Segment {
            segment,
            length: surveyed.segment.length,
        });
        let bytes = surveyed
            .read()
            .map_err(OpenError::io(format!("reading segment {segment}")))?;
        let is_last = used.peek().is_none();
        let scan = surveyed.source(&bytes).scan(is_last, &mut |event| {
            tell_event(event, &bytes, tell);
        });
        if scan.torn_bytes > 0 {
            tell(&Dumped::Torn {
                offset: scan.end,
                bytes: scan.torn_bytes,
            });
        }
    }
    for surveyed in &survey.cold {
        let file = surveyed.segment.id;
        tell(&Dumped::Cold {
            file,
            length: surveyed.segment.length,
        });
        let bytes = surveyed
            .read()
            .map_err(OpenError::io(format!("reading cold file {file}")))?;
        surveyed.source(&bytes).scan(false, &mut |event| {
            tell_event(event, &bytes, tell);
        });
    }
    Ok(())
}

fn tell_event(event: &Event, bytes: &[u8], tell: &mut dyn FnMut(&Dumped<'_>)) {
    match event {
        Event::Batch(header) => tell(&Dumped::Batch {
            number: header.number,
            offset: header.offset,
            length: u64::from(header.length),
            records: u64::from(header.count),
        }),
        Event::Record(found) if found.is_filler() => {}
        Event::Record(found) => tell(&Dumped::Record {
            position: found.position(),
            class: found.header.class,
            offset: found.offset,
            dropped: if found.is_dropped() { found.span } else { 0 },
            payload: payload(found, bytes),
        }),
        Event::Payload(found, damage) => {
            tell(&Dumped::Damaged {
                position: Some(found.position()),
                damage: *damage,
            });
        }
        Event::Missing(missing) => {
            tell(&Dumped::Damaged {
                position: None,
                damage: missing.damage,
            });
        }
        Event::Harmless(damage) => tell(&Dumped::Damaged {
            position: None,
            damage: *damage,
        }),
    }
}

fn payload<'a>(found: &Found, bytes: &'a [u8]) -> &'a [u8] {
    let record = range(bytes, found.offset, found.offset + found.header.size());
    record
        .and_then(|record| record::payload(record, &found.header))
        .unwrap_or_default()
}
