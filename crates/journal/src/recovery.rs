//! Opening a folder: checkpoints and the tail after them are replayed, the torn end is cut.
//!
//! Lacks repair: what is corrupt refuses the start by name. Invariant: nothing in the folder is
//! changed before everything was read and found to hang together; and what was found is synced
//! before it is called committed, because after a mere kill it may never have been.
//!
//! ```text
//! lock, format → survey → checkpoints → walk → cut the torn tail → clean up → prepare → mark
//! ```

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Condvar, Mutex, OnceLock, RwLock};

use menzil_model::{Class, Position, ShardId};

use crate::cold;
use crate::counters::Counts;
use crate::damage::{Damage, DamageKind};
use crate::directory::{Directory, Kind};
use crate::disk::{Disk, DiskFile};
use crate::error::OpenError;
use crate::evacuation::Evacuation;
use crate::flight::Cut;
use crate::folder::Name;
use crate::journal::{Journal, locked};
use crate::layout::to_usize;
use crate::marks::AllMarks;
use crate::options::Options;
use crate::pending::{Backlog, Pending};
use crate::preparer::Preparer;
use crate::report::{OpenReport, TornTail};
use crate::segment::{self, Segment};
use crate::space::{Room, Space};
use crate::survey::{Survey, Surveyed, enter, survey};
use crate::walk::{Visitor, Walk};
use crate::writer::{Active, Writer};

/// Who takes over what was stored: first all checkpoints, then the records after them.
pub trait Replay {
    /// The state of a shard after its record `index`.
    fn checkpoint(&mut self, shard: ShardId, index: u64, payload: &[u8]) -> Result<(), String>;
    /// The next record of its shard.
    fn record(&mut self, position: Position, class: Class, payload: &[u8]) -> Result<(), String>;
    /// A record that is damaged or lost. It may also be one that a checkpoint still refers to.
    fn quarantined(&mut self, position: Position, class: Class, what: &Damage);
}

impl Visitor for &mut dyn Replay {
    fn record(&mut self, position: Position, class: Class, payload: &[u8]) -> Result<(), String> {
        (**self).record(position, class, payload)
    }

    fn quarantined(&mut self, position: Position, class: Class, what: &Damage) {
        (**self).quarantined(position, class, what);
    }
}

impl<D: Disk> Journal<D> {
    /// Opens the folder, creating what is missing, and replays what it holds.
    pub fn open(disk: D, options: Options, replay: &mut dyn Replay) -> Result<Self, OpenError> {
        let options = options.checked();
        let lock = enter(&disk)?;
        // A process that died may have left names that the disk does not have yet: what is built
        // on them, such as the removal of what they replace, must not outlive them.
        disk.sync_folder()
            .map_err(OpenError::io("syncing the data folder"))?;
        let survey = survey(&disk)?;
        for (shard, index, payload) in &survey.checkpoints.newest {
            replay
                .checkpoint(*shard, *index, payload)
                .map_err(|message| OpenError::Replay {
                    position: None,
                    message,
                })?;
        }
        let mut walk = Walk::new(&survey, false);
        let mut visitor = replay;
        walk.run(&survey, &mut visitor)?;
        let torn = walk.report.torn;
        let last = survey.used.last();
        if let Some(surveyed) = last {
            settle_tail(surveyed, torn).map_err(OpenError::io("cutting the end of the log"))?;
        }
        let cold = cold::read_all(&survey, &mut visitor, &mut walk.report)
            .map_err(OpenError::io("reading cold files"))?;
        let mut report = open_report(&survey, &walk);
        let (ready, spares) = clean_up(&disk, &survey, &options, &mut report)
            .map_err(OpenError::io("cleaning up the data folder"))?;

        let marks = AllMarks::default();
        for (shard, index) in walk.last_indexes() {
            marks.recovered(shard, index);
        }
        let active = last
            .zip(walk.contents.last())
            .map(|(surveyed, contents)| Active {
                segment: surveyed.segment.clone(),
                offset: contents.end,
            });
        let writer = Writer {
            previous: last_with_batches(&survey, &walk),
            active,
            number: walk.last_number + 1,
            cut: Cut::default(),
        };
        let next_id = survey.next_id;
        let checkpoints = survey.checkpoints.indexes();
        let (mut directory, mut sealed) = directory(survey, walk);
        for file in cold {
            if file.is_rebuilt {
                sealed.push(file.segment.id);
            }
            directory.add(file.segment, file.contents, Kind::Cold);
        }
        let journal = Self {
            disk,
            options,
            pending: Mutex::new(Pending::default()),
            wake: Condvar::new(),
            flight: RwLock::new(Backlog::default()),
            writer: Mutex::new(writer),
            directory: RwLock::new(directory),
            preparer: Preparer::new(ready, spares, sealed, next_id),
            checkpoints: Mutex::new(checkpoints),
            needs_known: AtomicBool::new(false),
            marks,
            room: Room::default(),
            counts: Counts::default(),
            checkpoint_bytes: AtomicU64::new(0),
            evacuation: Evacuation::default(),
            room_hook: OnceLock::new(),
            debt: AtomicU64::new(0),
            checkpoint_told_at: AtomicU64::new(0),
            checkpoint_told: AtomicU64::new(0),
            checkpoint_record_bytes: AtomicU64::new(0),
            failure: OnceLock::new(),
            report,
            _lock: lock,
        };
        journal.get_ready()?;
        Ok(journal)
    }

    /// Makes sure of a segment to write to and of the reserve, and marks the end of what was
    /// recovered, so that damage in it can never be taken for a torn tail again.
    fn get_ready(&self) -> Result<(), OpenError> {
        let mut writer = locked(&self.writer);
        self.refresh_prepared();
        match &writer.active {
            Some(active) => self
                .room
                .set_active(active.left(), active.is_short(&self.options)),
            None => {
                self.roll(&mut writer, 0)?;
            }
        }
        let space = self.prepare_up_to(1)?;
        self.mark(&mut writer)?;
        self.room.set_space(space);
        debug_assert!(matches!(space, Space::Ample | Space::Full));
        Ok(())
    }
}

/// Cuts off what is torn and makes durable what is not.
fn settle_tail<F: DiskFile>(last: &Surveyed<F>, torn: Option<TornTail>) -> io::Result<()> {
    let file = &last.segment.file;
    if let Some(torn) = torn {
        let length = torn
            .bytes
            .min(last.segment.length.saturating_sub(torn.offset));
        file.write_at(&vec![0; to_usize(length)], torn.offset)?;
    }
    file.sync_data()
}

fn open_report<F>(survey: &Survey<F>, walk: &Walk) -> OpenReport {
    let found = walk.report.clone();
    let mut harmless = found.harmless;
    for surveyed in survey.unused.iter().filter(|surveyed| surveyed.headless) {
        let (segment, length) = (surveyed.segment.id, segment::HEADER_BYTES);
        harmless.push(Damage {
            segment,
            offset: 0,
            length,
            kind: DamageKind::SegmentHeader,
        });
    }
    OpenReport {
        segments: found.segments,
        segments_read: walk.segments_read,
        checkpoints: found.checkpoints,
        checkpoints_damaged: found.checkpoints_damaged,
        records: walk.replayed,
        bytes: walk.replayed_bytes,
        torn: found.torn,
        quarantined: found.quarantined,
        harmless,
    }
}

type Ready<F> = (VecDeque<Segment<F>>, Vec<u64>);

/// Removes what is unfinished or replaced; returns the segments and spares that can be used.
fn clean_up<D: Disk>(
    disk: &D,
    survey: &Survey<D::File>,
    options: &Options,
    report: &mut OpenReport,
) -> io::Result<Ready<D::File>> {
    for name in &survey.temporaries {
        disk.remove(name)?;
    }
    for (shard, index) in &survey.checkpoints.older {
        disk.remove(&Name::Checkpoint(*shard, *index).to_string())?;
    }
    for (shard, index) in &survey.checkpoints.damaged {
        let name = Name::Checkpoint(*shard, *index).to_string();
        disk.rename(&name, &format!("quarantine-{name}"))?;
    }
    // The last segment is written to again, so what a sidecar says of it would become untrue.
    let sealed = survey
        .used
        .split_last()
        .map_or(&[][..], |(_, sealed)| sealed);
    for id in &survey.sidecars {
        let described = |surveyed: &Surveyed<D::File>| surveyed.segment.id == *id;
        if !sealed.iter().any(described) && !survey.cold.iter().any(described) {
            disk.remove(&Name::Directory(*id).to_string())?;
        }
    }
    for surveyed in survey
        .cold
        .iter()
        .filter(|surveyed| cold::is_lost(surveyed))
    {
        let name = Name::Cold(surveyed.segment.id).to_string();
        disk.rename(&name, &format!("quarantine-{name}"))?;
    }
    let mut ready = VecDeque::new();
    for surveyed in &survey.unused {
        let Segment { id, length, .. } = surveyed.segment;
        let name = Name::Segment(id).to_string();
        if surveyed.headless {
            // Most likely nothing was in it; but who can tell.
            disk.rename(&name, &format!("quarantine-{name}"))?;
        } else if length == options.segment_bytes {
            ready.push_back(surveyed.segment.clone());
        } else {
            disk.remove(&name)?;
        }
    }
    let mut spares = Vec::new();
    for id in &survey.spares {
        let name = Name::Spare(*id).to_string();
        let length = disk.open(&name)?.len()?;
        if length == options.segment_bytes && spares.len() < options.spare_segments_max {
            spares.push(*id);
        } else {
            disk.remove(&name)?;
        }
    }
    disk.sync_folder()?;
    report
        .quarantined
        .sort_by_key(|quarantined| quarantined.position);
    Ok((ready, spares))
}

/// The segment of the last batch, 0 for none: a torn first batch leaves its segment empty.
fn last_with_batches<F>(survey: &Survey<F>, walk: &Walk) -> u64 {
    let used = survey.used.iter().zip(&walk.contents).rev();
    let mut with_batches = used.filter(|(_, contents)| contents.end > segment::HEADER_BYTES);
    with_batches
        .next()
        .map_or(0, |(surveyed, _)| surveyed.segment.id)
}

/// The directory of all used segments, and which of them still need a sidecar.
fn directory<F>(survey: Survey<F>, walk: Walk) -> (Directory<F>, Vec<u64>) {
    let mut directory = Directory::default();
    let mut sealed = Vec::new();
    let mut used = survey.used.into_iter().zip(walk.contents).peekable();
    while let Some((surveyed, contents)) = used.next() {
        let last = used.peek().is_none();
        if contents.end <= segment::HEADER_BYTES {
            continue;
        }
        if !last && surveyed.contents.is_none() {
            sealed.push(surveyed.segment.id);
        }
        let kind = if last { Kind::Open } else { Kind::Sealed };
        directory.add(surveyed.segment, contents, kind);
    }
    (directory, sealed)
}
