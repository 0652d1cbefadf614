//! `menzil journal`: looks at a data folder that no server runs on, and mends it.

mod fact_line;
mod findings;

use std::path::Path;

use menzil_journal::{Dumped, OpenError, OsDisk, Report};
use menzil_model::Position;
use menzil_model::wire::Reader;

use crate::cli::JournalCommand;
use crate::{Failure, print};
use fact_line::fact_line;

pub(crate) fn run(command: &JournalCommand) -> Result<(), Failure> {
    match command {
        JournalCommand::Verify { dir } => {
            let disk = disk(dir)?;
            let report = menzil_journal::verify(&disk).map_err(|error| failed(dir, &error))?;
            tell(dir, &disk, &report)?;
            sound(dir, &report)
        }
        JournalCommand::Repair { dir } => {
            let disk = disk(dir)?;
            let report = menzil_journal::repair(&disk).map_err(|error| failed(dir, &error))?;
            tell(dir, &disk, &report)
        }
        JournalCommand::Dump { dir } => {
            menzil_journal::dump(&disk(dir)?, &mut |dumped| print(&line(dumped)))
                .map_err(|error| failed(dir, &error))
        }
    }
}

fn tell(dir: &Path, disk: &OsDisk, report: &Report) -> Result<(), Failure> {
    let names = findings::virtual_hosts(disk, report).map_err(|error| failed(dir, &error))?;
    print(&findings::describe(report, &names));
    Ok(())
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
        "; stop the server that runs on it first".to_owned()
    } else {
        menzil_server::format_advice(dir, error).unwrap_or_default()
    };
    Failure::new(format!("{}: {error}{advice}", dir.display()))
}

fn sound(dir: &Path, report: &Report) -> Result<(), Failure> {
    if report.is_sound() {
        return Ok(());
    }
    let dir = dir.display();
    Err(Failure::new(if report.refusals.is_empty() {
        format!(
            "{dir}: damaged, see above; a server starts on it all the same. To have it named no \
             more, keep a copy, then `menzil journal repair {dir}`"
        )
    } else {
        format!(
            "{dir}: damaged, see above, and no server starts on it; keep a copy, then \
             `menzil journal repair {dir}`"
        )
    }))
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
                lines.push(format!("  {}\n", fact_line(None, bytes)));
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
            class,
            dropped,
            payload,
            ..
        } => match dropped {
            0 => format!("{position} {}\n", fact_line(Some(*class), payload)),
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
