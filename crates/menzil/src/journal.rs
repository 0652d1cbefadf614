//! `menzil journal`: looks at a data folder that no server runs on, and mends it.

use std::path::Path;

use menzil_journal::{Dumped, OpenError, OsDisk, Report};
use menzil_model::fact::Content;
use menzil_model::wire::Reader;
use menzil_model::{Fact, Position};

use crate::cli::JournalCommand;
use crate::{Failure, print};

pub(crate) fn run(command: &JournalCommand) -> Result<(), Failure> {
    match command {
        JournalCommand::Verify { dir } => {
            let report =
                menzil_journal::verify(&disk(dir)?).map_err(|error| failed(dir, &error))?;
            print(&format!("{report}\n"));
            sound(dir, &report)
        }
        JournalCommand::Repair { dir } => {
            let report =
                menzil_journal::repair(&disk(dir)?).map_err(|error| failed(dir, &error))?;
            print(&format!("{report}\n"));
            Ok(())
        }
        JournalCommand::Dump { dir } => {
            menzil_journal::dump(&disk(dir)?, &mut |dumped| print(&line(dumped)))
                .map_err(|error| failed(dir, &error))
        }
    }
}

/// A folder that is to be looked at is never made.
fn disk(dir: &Path) -> Result<OsDisk, Failure> {
    if !dir.is_dir() {
        return Err(Failure::usage(format!("{}: no such folder", dir.display())));
    }
    OsDisk::new(dir).map_err(|error| Failure::new(format!("{}: {error}", dir.display())))
}

fn failed(dir: &Path, error: &OpenError) -> Failure {
    let advice = if matches!(error, OpenError::Locked) {
        "; stop the server that runs on it first"
    } else {
        ""
    };
    Failure::new(format!("{}: {error}{advice}", dir.display()))
}

fn sound(dir: &Path, report: &Report) -> Result<(), Failure> {
    if report.is_sound() {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{0}: damaged, see above; keep a copy, then `menzil journal repair {0}`",
        dir.display()
    )))
}

fn line(dumped: &Dumped<'_>) -> String {
    match dumped {
        Dumped::Checkpoint {
            shard,
            index,
            payload,
        } => {
            let mut lines = vec![format!("checkpoint of shard {shard} at {index}\n")];
            let mut reader = Reader::new(payload);
            while let Ok(bytes) = reader.long_string() {
                lines.push(format!("  {}\n", fact(bytes)));
            }
            lines.concat()
        }
        Dumped::Segment { segment, length } => format!("segment {segment}, {length} bytes\n"),
        Dumped::Batch {
            number,
            offset,
            length,
            records,
        } => format!("batch {number} at {offset}: {records} records, {length} bytes\n"),
        Dumped::Record {
            position,
            dropped,
            payload,
            ..
        } => match dropped {
            0 => format!("{position} {}\n", fact(payload)),
            count => format!(
                "{position} to {}: taken out by a repair\n",
                Position {
                    index: position.index + count - 1,
                    ..*position
                }
            ),
        },
        Dumped::Damaged { position, damage } => match position {
            Some(position) => format!("{position} DAMAGED: {damage}\n"),
            None => format!("DAMAGED: {damage}\n"),
        },
        Dumped::Torn { offset, bytes } => format!("torn at {offset}: {bytes} bytes\n"),
        other => format!("{other:?}\n"),
    }
}

/// Without bodies: they may be large, and they are nobody's business who looks at structure.
fn fact(bytes: &[u8]) -> String {
    match Fact::decode(bytes, Content::Skip) {
        Ok(fact) => format!("{fact:?}"),
        Err(error) => format!("does not read: {error}"),
    }
}
