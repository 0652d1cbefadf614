//! Segment files that are not as they were made: cut off, unreadable, or under another's name.
//!
//! Lacks their records, which the walk sees as missing. Invariant: a file keeps its bytes and
//! never takes the place of another.

use std::collections::BTreeMap;
use std::io;

use crate::disk::{Disk, DiskFile};
use crate::error::OpenError;
use crate::folder::Name;
use crate::layout::{to_usize, u64_at};
use crate::recovery::Replay;
use crate::segment::{self, SegmentHeader};
use crate::survey::{Survey, Surveyed, survey};
use crate::verify::Nobody;
use crate::walk::Walk;

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
    let head = read_head(surveyed)?;
    if let Some(header) = SegmentHeader::decode(&head, segment.id) {
        let (length, made) = (segment.length, header.length);
        return Ok(
            (length < made).then(|| format!("is cut off: {length} of {made} bytes are left of it"))
        );
    }
    if used {
        return Ok(None);
    }
    Ok(Some(match id_of(&head) {
        Some(id) => format!("is the file that was made as {}", Name::Segment(id)),
        None => format!(
            "cannot be read ({} bytes): what it held is not known",
            segment.length
        ),
    }))
}

/// The number that the segment was made with, if its header is sound.
pub(crate) fn original_id<F: DiskFile>(surveyed: &Surveyed<F>) -> io::Result<Option<u64>> {
    read_head(surveyed).map(|head| id_of(&head))
}

/// The length that the segment was made with, if its header is sound and its own.
pub(crate) fn made_length<F: DiskFile>(surveyed: &Surveyed<F>) -> io::Result<Option<u64>> {
    let head = read_head(surveyed)?;
    let header = SegmentHeader::decode(&head, surveyed.segment.id);
    Ok(header.map(|header| header.length))
}

fn read_head<F: DiskFile>(surveyed: &Surveyed<F>) -> io::Result<Vec<u8>> {
    let segment = &surveyed.segment;
    let mut head = vec![0; to_usize(segment.length.min(segment::HEADER_BYTES))];
    segment.file.read_at(&mut head, 0)?;
    Ok(head)
}

fn id_of(head: &[u8]) -> Option<u64> {
    u64_at(head, 8).filter(|id| SegmentHeader::decode(head, *id).is_some())
}

/// Segment files whose header says that they were made under another name get it again, unless
/// another file has it by right. By way of names that no start touches, since two may have been
/// swapped.
pub(crate) fn rename_back<D: Disk>(disk: &D) -> Result<Vec<String>, OpenError> {
    let survey = survey(disk)?;
    let mut made_as: BTreeMap<u64, u64> = BTreeMap::new();
    for surveyed in &survey.unused {
        let (id, name) = (surveyed.segment.id, Name::Segment(surveyed.segment.id));
        let original = original_id(surveyed).map_err(OpenError::io(name.to_string()))?;
        if let Some(original) = original.filter(|original| *original != id) {
            made_as.insert(original, id);
        }
    }
    let files = survey.used.iter().chain(&survey.unused);
    let ids: Vec<u64> = files.map(|surveyed| surveyed.segment.id).collect();
    // A name is free if nobody has it or who has it leaves it; who stays keeps others staying.
    while let Some(original) = made_as.keys().copied().find(|original| {
        let leaves = made_as.values().any(|id| id == original);
        ids.contains(original) && !leaves
    }) {
        made_as.remove(&original);
    }
    let aside = |name: &str| format!("{name}-by-its-header");
    let renamed = || -> io::Result<()> {
        for (original, id) in &made_as {
            let name = Name::Segment(*original).to_string();
            disk.rename(&Name::Segment(*id).to_string(), &aside(&name))?;
        }
        for original in made_as.keys() {
            let name = Name::Segment(*original).to_string();
            disk.rename(&aside(&name), &name)?;
        }
        disk.sync_folder()
    };
    if !made_as.is_empty() {
        renamed().map_err(OpenError::io("giving segments their names again"))?;
    }
    let line = |(original, id): (&u64, &u64)| {
        let (name, original) = (Name::Segment(*id), Name::Segment(*original));
        format!("{name} is called {original} again, as when it was made")
    };
    Ok(made_as.iter().map(line).collect())
}

/// Where the log hangs together without them, segment files of which nothing can be read are set
/// aside: it ends, or goes on, as if they had never been. Where it does not, they stay where
/// they are: whoever can bring their bytes back has then brought back the log.
pub(crate) fn end_log<D: Disk>(disk: &D) -> Result<Vec<String>, OpenError> {
    let survey = survey(disk)?;
    let mut walk = Walk::new(&survey, true);
    let mut visitor: &mut dyn Replay = &mut Nobody;
    walk.run(&survey, &mut visitor)?;
    let mut actions = Vec::new();
    if !walk.report.refusals.is_empty() {
        return Ok(actions);
    }
    for surveyed in &survey.unused {
        let name = Name::Segment(surveyed.segment.id).to_string();
        let set_aside = || -> io::Result<Option<String>> {
            let Some(what) = misfit(surveyed, false)? else {
                return Ok(None);
            };
            let target = quarantine(disk, &name)?;
            disk.rename(&name, &target)?;
            disk.sync_folder()?;
            Ok(Some(format!("{name} set aside as {target}: it {what}")))
        };
        actions.extend(set_aside().map_err(OpenError::io(name.as_str()))?);
    }
    Ok(actions)
}

/// A name for what is set aside that nothing has yet: a folder may be mended many times.
fn quarantine<D: Disk>(disk: &D, name: &str) -> io::Result<String> {
    let names = disk.list()?;
    let plain = format!("quarantine-{name}");
    let numbered = (2_u64..).map(|number| format!("{plain}-{number}"));
    let mut all = std::iter::once(plain.clone()).chain(numbered);
    Ok(all.find(|name| !names.contains(name)).unwrap_or(plain))
}
