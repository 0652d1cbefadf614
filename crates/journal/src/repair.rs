//! Mending a folder that `open` refuses, or that keeps naming the same damage.
//!
//! Lacks any way to bring bytes back: it names what is lost and makes the rest readable.
//! Invariant: damaged bytes are copied to a `quarantine-…` file, durably, before they are
//! written over; and what was lost stays accounted for, index by index.
//!
//! ```text
//! │ record 4 │ ✗✗✗✗✗✗✗✗✗✗✗✗✗✗✗ │ record 7 │
//! │ record 4 │ dropped 5..=6 │ filler │ record 7 │      the same bytes after repair
//! ```

use std::collections::BTreeMap;
use std::io;

use menzil_model::{Class, Map, Position, ShardId};

use crate::batch::{self, BatchHeader, Classes};
use crate::cold;
use crate::continuity::Lost;
use crate::damage::{Damage, DamageKind};
use crate::disk::{Disk, DiskFile};
use crate::error::OpenError;
use crate::folder::{Name, write_whole};
use crate::layout::{SECTOR, range, sectors, to_u32, to_usize};
use crate::record::{self, DROPPED, FILLER, RecordHeader};
use crate::report::Report;
use crate::scan::{Event, Found, Missing, Scan};
use crate::segment::{self, SegmentHeader};
use crate::strays::{end_log, made_length, misfits, rename_back};
use crate::survey::{Surveyed, enter_known, survey};
use crate::walk::{Visitor, Walk};

/// Sets aside what is damaged and names what is lost by it. The report tells what was found
/// and, in its actions, what was done; opening the folder afterwards tells whether it is enough.
pub fn repair<D: Disk>(disk: &D) -> Result<Report, OpenError> {
    let _lock = enter_known(disk)?;
    let renamed = rename_back(disk)?;
    let survey = survey(disk)?;
    let mut walk = Walk::new(&survey, true);
    let mut plan = Plan::default();
    walk.run(&survey, &mut plan)?;
    let last = walk.last_number;
    let mut report = walk.into_report();
    report.segments_damaged = misfits(&survey)?;
    report.actions = renamed;
    let numbers: Vec<u64> = survey.used.iter().skip(1).map(|next| next.number).collect();
    for (at, surveyed) in survey.used.iter().enumerate() {
        let before_next = numbers.get(at).map_or(last, |next| next.saturating_sub(1));
        let id = surveyed.segment.id;
        let done = mend(disk, surveyed, &plan, before_next)
            .map_err(OpenError::io(format!("mending segment {id}")))?;
        report.actions.extend(done.actions);
        report.unmended.extend(done.unmended);
    }
    for (surveyed, id) in survey.cold.iter().zip(survey.next_id..) {
        let name = Name::Cold(surveyed.segment.id).to_string();
        let actions = cold::mend(disk, surveyed, id).map_err(OpenError::io(name))?;
        report.actions.extend(actions);
    }
    report.actions.extend(name_lost(&plan));
    report.actions.extend(end_log(disk)?);
    let checkpoints = survey.checkpoints.damaged.iter();
    report.unmended.extend(
        checkpoints.map(|(shard, index)| format!("checkpoint {index} of shard {shard} is damaged")),
    );
    Ok(report)
}

/// What the walk found that is to be mended.
#[derive(Debug, Default)]
struct Plan {
    segments: Map<u64, Wounds>,
    lost: Vec<Lost>,
}

/// The damage of one segment.
#[derive(Debug, Default)]
struct Wounds {
    /// Records with a damaged payload.
    payloads: Vec<(Found, Damage)>,
    missing: Vec<Missing>,
    /// Damaged batch headers whose records are all there.
    batches: Vec<Damage>,
    /// Where sound records lie, and where batches start.
    records: BTreeMap<u64, RecordHeader>,
    starts: BTreeMap<u64, BatchHeader>,
    end: u64,
}

impl Visitor for Plan {
    fn record(&mut self, _: Position, _: Class, _: &[u8]) -> Result<(), String> {
        Ok(())
    }

    fn quarantined(&mut self, _: Position, _: Class, _: &Damage) {}

    fn lost(&mut self, lost: &Lost) {
        self.lost.push(*lost);
    }

    fn end_missing(&mut self, missing: &Missing) {
        self.segments
            .entry(missing.damage.segment)
            .or_default()
            .missing
            .push(missing.clone());
    }

    fn found(&mut self, segment: u64, event: &Event) {
        let wounds = self.segments.entry(segment).or_default();
        match event {
            Event::Batch(header) => {
                wounds.starts.insert(header.offset, *header);
            }
            Event::Record(found) => {
                wounds.records.insert(found.offset, found.header);
            }
            Event::Payload(found, damage) => {
                wounds.records.insert(found.offset, found.header);
                wounds.payloads.push((*found, *damage));
            }
            Event::Missing(missing) => wounds.missing.push(missing.clone()),
            Event::Harmless(damage) => wounds.batches.push(*damage),
        }
    }

    fn segment(&mut self, segment: u64, scan: &Scan) {
        self.segments.entry(segment).or_default().end = scan.end;
    }
}

/// One line for each run of records that is lost.
fn name_lost(plan: &Plan) -> Vec<String> {
    let line = |lost: &Lost| {
        let last = lost.first.index + lost.count - 1;
        format!("dropped {:?} records {} to {last}", lost.class, lost.first)
    };
    plan.lost.iter().map(line).collect()
}

/// What was done to a segment, and what could not be.
#[derive(Default)]
struct Done {
    actions: Vec<String>,
    unmended: Vec<String>,
}

/// Writes over the damage of one segment what makes it readable.
fn mend<D: Disk>(
    disk: &D,
    surveyed: &Surveyed<D::File>,
    plan: &Plan,
    before_next: u64,
) -> io::Result<Done> {
    let Done {
        mut actions,
        mut unmended,
    } = Done::default();
    let Some(wounds) = plan.segments.get(&surveyed.segment.id) else {
        return Ok(Done::default());
    };
    let mut bytes = surveyed.read()?;
    let known = surveyed.contents.as_ref().map_or(0, |known| known.end);
    let made = made_length(surveyed)?
        .unwrap_or(0)
        .max(known)
        .max(surveyed.segment.length);
    let is_cut_off = surveyed.segment.length < made;
    if is_cut_off {
        // What was cut off is damaged like anything else: lost, with a place to note it.
        bytes.resize(to_usize(made), 0);
    }
    let mut mended = Mended {
        surveyed,
        bytes: bytes.clone(),
        wounds,
    };
    for (found, damage) in &wounds.payloads {
        mended.drop_record(found);
        actions.push(format!(
            "dropped {:?} record {}: {damage}",
            found.header.class,
            found.position()
        ));
    }
    for missing in &wounds.missing {
        let same = |lost: &&Lost| same_place(&lost.damage, &missing.damage);
        let lost: Vec<&Lost> = plan.lost.iter().filter(same).collect();
        if mended.fill(missing, &lost, before_next).is_none() {
            unmended.push(format!(
                "there is no place to note what is lost: {}",
                missing.damage
            ));
        }
    }
    for damage in &wounds.batches {
        match damage.kind {
            DamageKind::BatchHeader => {
                mended.head_batch(damage.offset, before_next);
                Some(())
            }
            DamageKind::RecordHeader => mended.fill_region(damage.offset, damage.length, &[]),
            DamageKind::Payload { .. } | DamageKind::SegmentHeader | DamageKind::MissingBatches => {
                None
            }
        };
    }
    if surveyed.headless {
        let length = surveyed.segment.length;
        let (id, salt) = (surveyed.segment.id, surveyed.segment.salt);
        let header = SegmentHeader {
            id,
            salt,
            length,
            fresh: false,
            cold: false,
        };
        mended.write(0, &header.encode());
    }
    let new = mended.bytes;
    if is_cut_off && let Some(last) = made.checked_sub(1) {
        surveyed.segment.file.write_at(&[0], last)?;
        surveyed.segment.file.sync_data()?;
        let (id, left) = (surveyed.segment.id, surveyed.segment.length);
        actions.push(format!(
            "bytes {left} to {made} of segment {id} are there again, as zeros"
        ));
    }
    if new != bytes {
        if surveyed.contents.is_some() && unmended.is_empty() {
            // It says that what was taken out is there. The next start reads the segment.
            disk.remove(&Name::Directory(surveyed.segment.id).to_string())?;
            disk.sync_folder()?;
        }
        actions.extend(replace(disk, surveyed, &bytes, &new)?);
    }
    Ok(Done { actions, unmended })
}

fn same_place(one: &Damage, other: &Damage) -> bool {
    (one.segment, one.offset) == (other.segment, other.offset)
}

/// Copies every sector that changes into a quarantine file, then changes it.
fn replace<D: Disk>(
    disk: &D,
    surveyed: &Surveyed<D::File>,
    old: &[u8],
    new: &[u8],
) -> io::Result<Vec<String>> {
    let id = surveyed.segment.id;
    let mut actions = Vec::new();
    let mut changed: Vec<(u64, u64)> = Vec::new();
    let sector = to_usize(SECTOR);
    for (at, (old, new)) in old.chunks(sector).zip(new.chunks(sector)).enumerate() {
        let start = at as u64 * SECTOR;
        match changed.last_mut() {
            _ if old == new => {}
            Some((_, end)) if *end == start => *end += new.len() as u64,
            _ => changed.push((start, start + new.len() as u64)),
        }
    }
    for (start, end) in &changed {
        let name = format!("quarantine-{id:010}-{start}");
        write_whole(disk, &name, &[range(old, *start, *end).unwrap_or_default()])?;
        actions.push(format!(
            "bytes {start} to {end} of segment {id} copied to {name}"
        ));
    }
    for (start, end) in &changed {
        surveyed
            .segment
            .file
            .write_at(range(new, *start, *end).unwrap_or_default(), *start)?;
    }
    surveyed.segment.file.sync_data()?;
    Ok(actions)
}

/// The bytes of a segment while they are mended.
struct Mended<'a, F> {
    surveyed: &'a Surveyed<F>,
    bytes: Vec<u8>,
    wounds: &'a Wounds,
}

impl<F> Mended<'_, F> {
    fn write(&mut self, offset: u64, bytes: &[u8]) {
        crate::layout::put(&mut self.bytes, to_usize(offset), bytes);
    }

    /// The record keeps its name and length and says that it was taken out.
    fn drop_record(&mut self, found: &Found) {
        let size = found.header.size();
        let run = Run {
            first: found.position(),
            count: 1,
            class: found.header.class,
        };
        self.note(found.offset, size, Some(run));
    }

    /// Notes the lost runs in the place of the missing records. `None` if there is not enough
    /// place for the notes.
    fn fill(&mut self, missing: &Missing, lost: &[&Lost], before_next: u64) -> Option<()> {
        let runs: Vec<Run> = lost.iter().map(|lost| Run::of(lost)).collect();
        match missing.damage.kind {
            DamageKind::MissingBatches => {
                let (start, length) = *missing.regions.first()?;
                let length = length.max((self.bytes.len() as u64).saturating_sub(start));
                let needed = batch::HEADER_BYTES + RUN_BYTES * runs.len() as u64;
                (sectors(needed) <= length).then_some(())?;
                let room = sectors(needed) - batch::HEADER_BYTES;
                self.fill_region(start + batch::HEADER_BYTES, room, &runs)?;
                self.head(start, start + sectors(needed), before_next);
                Some(())
            }
            DamageKind::BatchHeader
            | DamageKind::RecordHeader
            | DamageKind::Payload { .. }
            | DamageKind::SegmentHeader => {
                let mut regions: Vec<(u64, u64, Vec<Run>)> = missing
                    .regions
                    .iter()
                    .map(|(offset, length)| (*offset, *length, Vec::new()))
                    .collect();
                for run in runs {
                    self.place(run, &mut regions)?;
                }
                for (offset, length, runs) in regions {
                    self.fill_region(offset, length, &runs)?;
                }
                if missing.count.is_none() {
                    self.head_batch(missing.batch, before_next);
                }
                Some(())
            }
        }
    }

    /// Puts a run where its order in the shard is kept: after the records before it and before
    /// those after it.
    fn place(&self, run: Run, regions: &mut [(u64, u64, Vec<Run>)]) -> Option<()> {
        let of_shard = |header: &RecordHeader| header.position.shard == run.first.shard;
        let records = self
            .wounds
            .records
            .iter()
            .filter(|(_, header)| of_shard(header));
        let (mut after, mut before) = (0, u64::MAX);
        for (offset, header) in records {
            if header.position.index < run.first.index {
                after = *offset;
            } else {
                before = before.min(*offset);
            }
        }
        let (.., runs) = regions.iter_mut().rev().find(|(offset, length, runs)| {
            let needed = runs.iter().map(Run::bytes).sum::<u64>() + run.bytes();
            *offset >= after && *offset < before && needed <= *length
        })?;
        runs.push(run);
        Some(())
    }

    /// Covers a region with notes of the runs and filler for the rest.
    fn fill_region(&mut self, offset: u64, length: u64, runs: &[Run]) -> Option<()> {
        let end = offset + length;
        let mut offset = offset;
        for (at, run) in runs.iter().enumerate() {
            let last = at + 1 == runs.len();
            let size = if last {
                end.checked_sub(offset)?
            } else {
                run.bytes()
            };
            (size >= run.bytes()).then_some(())?;
            self.note(offset, size, Some(*run));
            offset += size;
        }
        if offset < end {
            (end - offset >= record::HEADER_BYTES).then_some(())?;
            self.note(offset, end - offset, None);
        }
        Some(())
    }

    /// A record of that size which stands for a run, or for nothing.
    fn note(&mut self, offset: u64, size: u64, run: Option<Run>) {
        let length = size.saturating_sub(record::HEADER_BYTES);
        let nothing = Run {
            first: NOWHERE,
            count: 1,
            class: Class::Message,
        };
        let Run {
            first: position,
            count,
            class,
        } = run.unwrap_or(nothing);
        let header = RecordHeader {
            position,
            class,
            flags: if run.is_some() { DROPPED } else { FILLER },
            term: 0,
            length: to_u32(to_usize(length)),
            payload_crc: 0,
        };
        let mut bytes = header.encode(0).to_vec();
        bytes.resize(to_usize(size), 0);
        if length >= 8 {
            crate::layout::put(
                &mut bytes,
                to_usize(record::HEADER_BYTES),
                &count.to_le_bytes(),
            );
        }
        record::seal(&mut bytes, offset, self.surveyed.segment.salt);
        self.write(offset, &bytes);
    }

    /// Gives a batch a header again that lost its own; its records are sound by now.
    fn head_batch(&mut self, start: u64, before_next: u64) {
        match self.wounds.starts.range(start + 1..).next() {
            Some((next, header)) => self.head(start, *next, header.number.saturating_sub(1)),
            None => self.head(start, self.wounds.end, before_next),
        }
    }

    fn head(&mut self, start: u64, end: u64, number: u64) {
        let (salt, segment) = (self.surveyed.segment.salt, self.surveyed.segment.id);
        let (mut count, mut classes) = (0, Classes::default());
        let mut offset = start + batch::HEADER_BYTES;
        while let Some(header) = RecordHeader::decode(&self.bytes, offset, end, salt) {
            count += 1;
            classes.insert(header.class);
            offset += header.size();
        }
        // Within a segment the batch before lies in the same one; of the first it is not known
        // any more which it was.
        let previous = if start == segment::HEADER_BYTES {
            0
        } else {
            segment
        };
        let header = BatchHeader {
            classes,
            salt,
            segment,
            number,
            previous,
            length: to_u32(to_usize(offset - start)),
            count,
            offset: start,
        };
        self.write(start, &header.encode());
    }
}

/// Consecutive records of a shard that are lost.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: Position,
    count: u64,
    class: Class,
}

impl Run {
    fn of(lost: &Lost) -> Self {
        Self {
            first: lost.first,
            count: lost.count,
            class: lost.class,
        }
    }

    /// What its note takes at least.
    fn bytes(&self) -> u64 {
        if self.count == 1 {
            record::HEADER_BYTES
        } else {
            RUN_BYTES
        }
    }
}

const RUN_BYTES: u64 = record::HEADER_BYTES + 8;
const NOWHERE: Position = Position {
    shard: ShardId(u32::MAX),
    index: 0,
};
