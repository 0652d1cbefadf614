//! `menzil journal stats`: what a folder holds, in numbers.

use std::fmt::Write as _;

use menzil_journal::{Inspection, OpenError, OsDisk, SegmentUse};

use super::fact_line::class_word;
use super::findings::counted;
use super::needed::Needed;

/// A table of files, then sums.
pub(crate) fn stats(disk: &OsDisk) -> Result<String, OpenError> {
    let mut needed = Needed::default();
    let mut inspection = Inspection::new(disk, &mut needed)?;
    let (mut records, mut found) = (0, 0);
    needed.needs(&mut |shard, first, count, references| {
        records += count;
        found += inspection.need(shard, first, count, references);
    });
    let files = inspection.files();
    let mut text = String::from(
        "file                    bytes        used   records    needed  needed bytes\n",
    );
    for file in &files {
        line(&mut text, file);
    }
    let sum = |of: fn(&SegmentUse) -> u64| files.iter().map(of).sum::<u64>();
    let (length, live) = (sum(|file| file.length), sum(|file| file.live_bytes));
    let cold = files.iter().filter(|file| file.cold).count();
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "\n{} in use, {}, {} prepared, {} spare; the folder has {} bytes",
        counted((files.len() - cold) as u64, "segment"),
        counted(cold as u64, "cold file"),
        inspection.prepared,
        inspection.spares,
        inspection.folder_bytes,
    );
    let dead = length.saturating_sub(live);
    let _ = writeln!(text, "about {live} bytes are needed, {dead} are not");
    for (class, (records, bytes)) in &inspection.classes {
        let class = class_word(*class);
        let records = counted(*records, "record");
        let _ = writeln!(text, "{class}: {records}, {bytes} bytes in the log");
    }
    for (shard, (index, bytes)) in &inspection.checkpoints {
        let name = needed.virtual_hosts().remove(shard);
        let name = name.map_or_else(|| format!("shard {shard}"), |name| format!("{name:?}"));
        let _ = writeln!(
            text,
            "checkpoint of {name} at record {index}: {bytes} bytes"
        );
    }
    if found < records {
        let missing = counted(records - found, "needed record");
        let _ = writeln!(
            text,
            "not there: {missing}; `menzil journal verify` names them"
        );
    }
    Ok(text)
}

fn line(text: &mut String, file: &SegmentUse) {
    let kind = if file.cold { "cold" } else { "segment" };
    let name = format!("{kind}-{:010}", file.segment);
    let _ = writeln!(
        text,
        "{name:<18} {:>11} {:>11} {:>9} {:>9} {:>13}",
        file.length, file.used_bytes, file.records, file.live_records, file.live_bytes
    );
}
