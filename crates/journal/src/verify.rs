//! Reading everything and saying what is wrong, without changing anything.
//!
//! Invariant: what `open` would refuse or quarantine is in the report, and more, since even
//! segments below the checkpoints are read.

use menzil_model::{Class, Position};

use crate::damage::Damage;
use crate::disk::Disk;
use crate::error::OpenError;
use crate::report::Report;
use crate::survey::{enter_known, survey};
use crate::walk::{Visitor, Walk};

/// Reads the whole folder. It takes the lock, so it is refused while a journal is open.
pub fn verify<D: Disk>(disk: &D) -> Result<Report, OpenError> {
    let _lock = enter_known(disk)?;
    let survey = survey(disk)?;
    let mut walk = Walk::new(&survey, true);
    walk.run(&survey, &mut Nobody)?;
    Ok(walk.report)
}

struct Nobody;

impl Visitor for Nobody {
    fn record(&mut self, _: Position, _: Class, _: &[u8]) -> Result<(), String> {
        Ok(())
    }

    fn quarantined(&mut self, _: Position, _: Class, _: &Damage) {}
}
