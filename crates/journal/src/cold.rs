//! A cold file: records that were saved out of files that are mostly dead.
//!
//! It is laid out as a segment is, so it is read and scanned by the same code; but its batches
//! are no part of the log's order, and it never grows. Lacks the choice of what is saved.
//! Invariant: under its name a cold file is whole, with its directory in a sidecar, before
//! anybody counts on it; the records in it keep position, class, payload and payload checksum.
//!
//! ```text
//! cold-N.tmp ── header, records by position, sync ── directory-N ── rename, sync folder ─► cold-N
//! ```
//!
//! Until its source is set free a record is in both files and is read from either. After a
//! crash both are there, or the cold file is not: recovery counts references in the newest cold
//! file that has the record, and then the source dies with the next checkpoint as it would have.

use std::io;
use std::sync::Arc;

use crate::batch::{self, BatchHeader, Classes};
use crate::contents::Contents;
use crate::damage::{Damage, DamageKind};
use crate::disk::{Disk, DiskFile, is_full};
use crate::folder::{EVACUATION_RESERVE, Name, temporary, write_whole};
use crate::layout::{put, range, sectors, to_u32, to_usize};
use crate::reader::Record;
use crate::record;
use crate::report::{Quarantined, Report};
use crate::scan::Event;
use crate::segment::{self, Segment, SegmentHeader};
use crate::sidecar;
use crate::survey::{Survey, Surveyed};
use crate::walk::Visitor;

/// A cold file in the making.
pub(crate) struct ColdFile<F> {
    segment: Segment<F>,
    contents: Contents,
    /// The batch that is gathering.
    batch: Vec<u8>,
    records: u32,
    classes: Classes,
    batches: u64,
}

impl<F: DiskFile> ColdFile<F> {
    pub(crate) fn records(&self) -> u64 {
        self.contents.records()
    }

    /// Adds a record; they come ascending.
    pub(crate) fn push(&mut self, (header, payload): &Record) -> io::Result<()> {
        let size = header.size();
        if self.records > 0 && self.batch.len() as u64 + size > BATCH_BYTES {
            self.write()?;
        }
        if self.records == 0 {
            self.batch.resize(to_usize(batch::HEADER_BYTES), 0);
        }
        let start = self.batch.len();
        let offset = self.contents.end + start as u64;
        self.batch.extend_from_slice(&header.encode(0));
        self.batch.extend_from_slice(payload);
        self.batch.resize(start + to_usize(size), 0);
        let record = self.batch.get_mut(start..).unwrap_or_default();
        record::seal_header(record, offset, self.segment.salt);
        self.classes.insert(header.class);
        self.records += 1;
        let run = self.contents.runs.entry(header.position.shard).or_default();
        run.push_cold(header.position.index, to_u32(to_usize(offset)), size, 0);
        Ok(())
    }

    fn write(&mut self) -> io::Result<()> {
        if self.records == 0 {
            return Ok(());
        }
        self.batches += 1;
        let header = BatchHeader {
            classes: self.classes,
            salt: self.segment.salt,
            segment: self.segment.id,
            number: self.batches,
            previous: 0,
            length: to_u32(self.batch.len()),
            count: self.records,
            offset: self.contents.end,
        };
        put(&mut self.batch, 0, &header.encode());
        let length = sectors(self.batch.len() as u64);
        self.batch.resize(to_usize(length), 0);
        self.segment.file.write_at(&self.batch, self.contents.end)?;
        self.contents.end += length;
        self.contents.first_number = 1;
        self.contents.last_number = self.batches;
        self.batch.clear();
        self.records = 0;
        self.classes = Classes::default();
        Ok(())
    }
}

/// Begins a cold file of that number, in the space of the reserve if `reserved`, else in new
/// space.
pub(crate) fn begin<D: Disk>(disk: &D, id: u64, reserved: bool) -> io::Result<ColdFile<D::File>> {
    let temporary = temporary(&Name::Cold(id).to_string());
    let file = if reserved {
        disk.rename(EVACUATION_RESERVE, &temporary)?;
        disk.open(&temporary)?
    } else {
        disk.create(&temporary)?
    };
    let header = SegmentHeader {
        id,
        salt: disk.entropy(),
        length: 0,
        fresh: false,
        cold: true,
    };
    let segment = Segment {
        id,
        salt: header.salt,
        length: 0,
        file: Arc::new(file),
    };
    let cold = ColdFile {
        segment,
        contents: Contents {
            end: segment::HEADER_BYTES,
            ..Contents::default()
        },
        batch: Vec::new(),
        records: 0,
        classes: Classes::default(),
        batches: 0,
    };
    match cold.segment.file.write_at(&header.encode(), 0) {
        Ok(()) => Ok(cold),
        Err(error) => {
            abandon(disk, &cold);
            Err(error)
        }
    }
}

/// Makes the file durable under its name.
pub(crate) fn finish<D: Disk>(
    disk: &D,
    cold: &mut ColdFile<D::File>,
) -> io::Result<(Segment<D::File>, Contents)> {
    cold.write()?;
    cold.segment.file.sync_data()?;
    cold.segment.length = cold.segment.file.len()?;
    let Segment { id, salt, .. } = cold.segment;
    let directory = sidecar::encode(id, salt, &cold.contents);
    match write_whole(disk, &Name::Directory(id).to_string(), &[&directory]) {
        // Without it the start reads the file.
        Err(error) if is_full(&error) => {}
        written => written?,
    }
    let name = Name::Cold(id).to_string();
    disk.rename(&temporary(&name), &name)?;
    disk.sync_folder()?;
    Ok((cold.segment.clone(), std::mem::take(&mut cold.contents)))
}

/// What was begun goes; a name left over is removed at the next open.
pub(crate) fn abandon<D: Disk>(disk: &D, cold: &ColdFile<D::File>) {
    let name = Name::Cold(cold.segment.id);
    drop(disk.remove(&temporary(&name.to_string())));
    let sidecar = Name::Directory(cold.segment.id);
    drop(disk.remove(&sidecar.to_string()));
}

/// What is sound in a damaged file moves to a new one, and the file is set aside. What was done,
/// a line each.
pub(crate) fn mend<D: Disk>(
    disk: &D,
    surveyed: &Surveyed<D::File>,
    id: u64,
) -> io::Result<Vec<String>> {
    let old = Name::Cold(surveyed.segment.id).to_string();
    let bytes = surveyed.read()?;
    let mut cold = begin(disk, id, false)?;
    let (mut damaged, mut done, mut last) = (false, Ok(()), None);
    surveyed
        .source(&bytes)
        .scan(false, &mut |event| match event {
            Event::Record(found) if done.is_ok() && last < Some(found.position()) => {
                let record = range(&bytes, found.offset, found.offset + found.header.size());
                let payload = record.and_then(|record| record::payload(record, &found.header));
                done = cold.push(&(found.header, payload.unwrap_or_default().to_vec()));
                last = Some(found.position());
            }
            Event::Batch(_) | Event::Record(_) => {}
            Event::Payload(..) | Event::Missing(_) | Event::Harmless(_) => damaged = true,
        });
    if !damaged && !surveyed.headless {
        abandon(disk, &cold);
        return Ok(Vec::new());
    }
    let finished = done.and_then(|()| finish(disk, &mut cold));
    if finished.is_err() {
        abandon(disk, &cold);
    }
    let (_, contents) = finished?;
    let aside = format!("quarantine-{old}");
    disk.rename(&old, &aside)?;
    disk.sync_folder()?;
    let kept = contents.records();
    Ok(vec![format!(
        "{old} set aside as {aside}; {kept} sound records of it are in {}",
        Name::Cold(id)
    )])
}

/// A cold file as recovery finds it.
pub(crate) struct FoundCold<F> {
    pub(crate) segment: Segment<F>,
    pub(crate) contents: Contents,
    /// Its sidecar is to be written again.
    pub(crate) is_rebuilt: bool,
}

/// Whether nothing of the file can be told.
pub(crate) fn is_lost<F>(surveyed: &Surveyed<F>) -> bool {
    surveyed.headless && surveyed.contents.is_none() && surveyed.number == 0
}

/// All cold files with what they hold. One is read only if its sidecar is damaged or missing;
/// what is damaged in it is reported.
pub(crate) fn read_all<F: DiskFile>(
    survey: &Survey<F>,
    visitor: &mut dyn Visitor,
    report: &mut Report,
) -> io::Result<Vec<FoundCold<F>>> {
    let mut found = Vec::new();
    for surveyed in &survey.cold {
        if is_lost(surveyed) {
            report.harmless.push(Damage {
                segment: surveyed.segment.id,
                offset: 0,
                length: surveyed.segment.length,
                kind: DamageKind::SegmentHeader,
            });
            continue;
        }
        let is_rebuilt = surveyed.contents.is_none();
        let contents = match &surveyed.contents {
            Some(contents) => contents.clone(),
            None => rebuild(surveyed, visitor, report)?,
        };
        found.push(FoundCold {
            segment: surveyed.segment.clone(),
            contents,
            is_rebuilt,
        });
    }
    Ok(found)
}

/// Reads the whole file.
pub(crate) fn rebuild<F: DiskFile>(
    surveyed: &Surveyed<F>,
    visitor: &mut dyn Visitor,
    report: &mut Report,
) -> io::Result<Contents> {
    let bytes = surveyed.read()?;
    let mut contents = Contents::default();
    let scan = surveyed.source(&bytes).scan(false, &mut |event| {
        let found = match event {
            Event::Record(found) => found,
            Event::Payload(found, damage) => {
                let (position, class) = (found.position(), found.header.class);
                report.quarantined.push(Quarantined {
                    position,
                    class,
                    damage: *damage,
                });
                visitor.quarantined(position, class, damage);
                found
            }
            // Which records are lost shows where they are needed.
            Event::Missing(missing) => {
                let name = Name::Cold(surveyed.segment.id);
                let line = format!("{name} has lost records: {}", missing.damage);
                return report.segments_damaged.push(line);
            }
            Event::Harmless(damage) => return report.harmless.push(*damage),
            Event::Batch(_) => return,
        };
        let offset = to_u32(to_usize(found.offset));
        let run = contents.runs.entry(found.position().shard).or_default();
        if found.position().index > run.last {
            run.push_cold(found.position().index, offset, found.header.size(), 0);
        }
    });
    contents.end = scan.end;
    contents.first_number = 1;
    contents.last_number = scan.last_number;
    Ok(contents)
}

const BATCH_BYTES: u64 = 1 << 20;
