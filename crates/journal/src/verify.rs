//! Reading everything and saying what is wrong, without changing anything.
//!
//! Invariant: what `open` would refuse or quarantine is in the report, and more, since even
//! segments below the checkpoints are read.

use menzil_model::{Class, Position, ShardId};

use crate::cold;
use crate::damage::Damage;
use crate::disk::Disk;
use crate::error::OpenError;
use crate::folder::Name;
use crate::recovery::Replay;
use crate::report::Report;
use crate::strays::misfits;
use crate::survey::{enter_known, survey};
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
    for surveyed in &survey.cold {
        let name = Name::Cold(surveyed.segment.id).to_string();
        if cold::is_lost(surveyed) {
            let what = format!("{name} cannot be read: what it held is not known");
            report.segments_damaged.push(what);
            continue;
        }
        let contents = cold::rebuild(surveyed, &mut visitor, &mut report)
            .map_err(OpenError::io(name.as_str()))?;
        report.count_cold(&contents);
    }
    Ok(report)
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
