//! Reading everything and saying what is wrong, without changing anything.
//!
//! Invariant: what `open` would refuse or quarantine is in the report, and more, since even
//! segments below the checkpoints are read.

use std::io;

use menzil_model::{Class, Position, ShardId};

use crate::damage::Damage;
use crate::disk::{Disk, DiskFile};
use crate::error::OpenError;
use crate::folder::Name;
use crate::layout::{to_usize, u64_at};
use crate::recovery::Replay;
use crate::report::Report;
use crate::segment::{self, SegmentHeader};
use crate::survey::{Survey, Surveyed, enter_known, survey};
use crate::walk::Walk;

/// Reads the whole folder. It takes the lock, so it is refused while a journal is open.
pub fn verify<D: Disk>(disk: &D) -> Result<Report, OpenError> {
    verify_with(disk, &mut Nobody)
}

/// As [`verify`], and replays what is sound, so that the caller can tell which records are
/// needed; [`Report::held`] says which are there.
pub fn verify_with<D: Disk>(disk: &D, replay: &mut dyn Replay) -> Result<Report, OpenError> {
    let _lock = enter_known(disk)?;
    let survey = survey(disk)?;
    let mut walk = Walk::new(&survey, true);
    for (shard, index, payload) in &survey.checkpoints.newest {
        if let Err(message) = replay.checkpoint(*shard, *index, payload) {
            walk.refuse(OpenError::Replay {
                position: None,
                message,
            })?;
        }
    }
    let mut visitor = replay;
    walk.run(&survey, &mut visitor)?;
    let mut report = walk.into_report();
    report.segments_damaged = misfits(&survey)?;
    Ok(report)
}

/// A line for each segment file that is not as it was made.
pub(crate) fn misfits<F: DiskFile>(survey: &Survey<F>) -> Result<Vec<String>, OpenError> {
    let mut lines = Vec::new();
    for surveyed in survey.used.iter().chain(&survey.unused) {
        let name = Name::Segment(surveyed.segment.id).to_string();
        let what = misfit(surveyed, surveyed.number > 0).map_err(OpenError::io(name.as_str()))?;
        lines.extend(what.map(|what| format!("{name} {what}")));
    }
    Ok(lines)
}

/// What is wrong with the file as a whole. A used one without a header is the walk's to name.
pub(crate) fn misfit<F: DiskFile>(
    surveyed: &Surveyed<F>,
    used: bool,
) -> io::Result<Option<String>> {
    let segment = &surveyed.segment;
    let mut head = vec![0; to_usize(segment.length.min(segment::HEADER_BYTES))];
    segment.file.read_at(&mut head, 0)?;
    if let Some(header) = SegmentHeader::decode(&head, segment.id) {
        let (length, made) = (segment.length, header.length);
        return Ok(
            (length < made).then(|| format!("is cut off: {length} of {made} bytes are left of it"))
        );
    }
    if used {
        return Ok(None);
    }
    let other = u64_at(&head, 8).filter(|id| SegmentHeader::decode(&head, *id).is_some());
    Ok(Some(match other {
        Some(id) => format!(
            "is the file that was made as {}: give it that name again",
            Name::Segment(id)
        ),
        None => format!(
            "cannot be read ({} bytes): what it held is not known",
            segment.length
        ),
    }))
}

/// Has no use for what was stored.
pub(crate) struct Nobody;

impl Replay for Nobody {
    fn checkpoint(&mut self, _: ShardId, _: u64, _: &[u8]) -> Result<(), String> {
        Ok(())
    }

    fn record(&mut self, _: Position, _: Class, _: &[u8]) -> Result<(), String> {
        Ok(())
    }

    fn quarantined(&mut self, _: Position, _: Class, _: &Damage) {}
}
