//! `menzil journal`: looks at a data folder that no server runs on, and mends it.

mod fact_line;
mod findings;
mod lost;
mod needed;
mod stats;

use std::path::Path;

use menzil_journal::{Dumped, OpenError, OsDisk, Report};
use menzil_model::Position;
use menzil_model::wire::Reader;

use crate::cli::JournalCommand;
use crate::{Failure, print};
use fact_line::fact_line;
use findings::{counted, describe};
use lost::Lost;
use needed::Needed;

pub(crate) fn run(command: &JournalCommand) -> Result<(), Failure> {
    match command {
        JournalCommand::Verify { dir } => {
            let disk = disk(dir)?;
            let (report, needed) = verify(dir, &disk)?;
            let missing = needed.missing(&report);
            let lost = needed.names().lost(&disk, &report);
            print(&describe(&report, &missing, &needed.virtual_hosts(), &lost));
            if report.is_sound() && missing.is_empty() {
                print("no damage was found\n");
            }
            sound(dir, &report, missing.len())
        }
        JournalCommand::Stats { dir } => {
            print(&stats::stats(&disk(dir)?).map_err(|error| failed(dir, &error))?);
            Ok(())
        }
        JournalCommand::Repair { dir } => repair(dir, &disk(dir)?),
        JournalCommand::Dump { dir } => {
            menzil_journal::dump(&disk(dir)?, &mut |dumped| print(&line(dumped)))
                .map_err(|error| failed(dir, &error))
        }
    }
}

fn verify(dir: &Path, disk: &OsDisk) -> Result<(Report, Needed), Failure> {
    let mut needed = Needed::default();
    let report =
        menzil_journal::verify_with(disk, &mut needed).map_err(|error| failed(dir, &error))?;
    Ok((report, needed))
}

/// Mends, then looks whether it was enough.
fn repair(dir: &Path, disk: &OsDisk) -> Result<(), Failure> {
    // Afterwards nothing of what is lost can be read any more; a folder that cannot be looked
    // at may still be mended.
    let lost = verify(dir, disk).map_or_else(
        |_| Lost::new(),
        |(before, needed)| needed.names().lost(disk, &before),
    );
    let report = menzil_journal::repair(disk).map_err(|error| failed(dir, &error))?;
    let (after, needed) = verify(dir, disk)?;
    let missing = needed.missing(&after);
    print(&describe(&report, &missing, &needed.virtual_hosts(), &lost));
    if after.refusals.is_empty() && report.unmended.is_empty() {
        if report.actions.is_empty() && !missing.is_empty() {
            // What is lost with a record that was set aside is mended as far as it can be; here
            // nothing was.
            return sound(dir, &after, missing.len());
        }
        if report.actions.is_empty() {
            print("nothing had to be mended, and nothing was changed\n");
        }
        return Ok(());
    }
    if after.refusals.is_empty() {
        return Err(Failure::new(format!(
            "{}: not all could be mended: {}. A server starts on it all the same, and the \
             checkpoints that it makes take the place of a damaged one",
            dir.display(),
            report.unmended.join("; ")
        )));
    }
    let changed = if report.actions.is_empty() {
        "Nothing was changed"
    } else {
        "What was changed is listed above"
    };
    Err(Failure::new(format!(
        "{}: no server starts on it, and no repair can bring back what is missing: {}. {changed}. \
         Restore the whole folder from a backup, or put the missing files back",
        dir.display(),
        after.refusals.join("; ")
    )))
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

fn sound(dir: &Path, report: &Report, missing: usize) -> Result<(), Failure> {
    if report.is_sound() && missing == 0 {
        return Ok(());
    }
    let dir = dir.display();
    // A repair gives misnamed files their names again and notes what a cut-off one lost.
    Err(Failure::new(
        if report.past_repair && report.segments_damaged.is_empty() {
            format!(
                "{dir}: damaged, see above, no server starts on it, and no repair can bring back \
             what is missing. Restore the whole folder from a backup, or put the missing files back"
            )
        } else if !report.refusals.is_empty() {
            format!(
                "{dir}: damaged, see above, and no server starts on it; keep a copy, then \
             `menzil journal repair {dir}`"
            )
        } else if missing > 0 {
            format!(
                "{dir}: {} of messages {} missing, see above; a server starts on it without them. \
             Only a backup, or the missing files put back, has them",
                counted(missing as u64, "record"),
                if missing == 1 { "is" } else { "are" }
            )
        } else {
            format!(
                "{dir}: damaged, see above; a server starts on it all the same. To have it named no \
             more, keep a copy, then `menzil journal repair {dir}`"
            )
        },
    ))
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
        Dumped::Cold { file, length } => format!("cold file {file}, {length} bytes\n"),
        Dumped::Segment { segment, length } => format!("segment {segment}, {length} bytes\n"),
        Dumped::Batch {
            number,
            offset,
            length,
            records,
        } => {
            let records = counted(*records, "record");
            format!("batch {number} at {offset}: {records}, {length} bytes\n")
        }
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
