//! What a folder holds, counted: files, classes of records, what is needed and what is not.
//!
//! Lacks damage, which is `verify`'s to tell, and an idea of who needs what: the owner says.

use std::collections::BTreeMap;

use menzil_model::{Class, Position, ShardId};

use crate::cold;
use crate::damage::Damage;
use crate::directory::{Directory, Kind, SegmentUse};
use crate::disk::{Disk, DiskFile};
use crate::error::OpenError;
use crate::folder::Name;
use crate::recovery::Replay;
use crate::scan::Event;
use crate::survey::{Survey, enter_known, survey};
use crate::walk::{Visitor, Walk};

/// A folder that was looked through.
#[derive(Debug)]
pub struct Inspection<D: Disk> {
    directory: Directory<D::File>,
    /// Records and bytes of each class that are in the log, headers included.
    pub classes: BTreeMap<Class, (u64, u64)>,
    /// The newest sound checkpoint of each shard: its index and its bytes.
    pub checkpoints: BTreeMap<ShardId, (u64, u64)>,
    /// Segments that are ready to be written to.
    pub prepared: u64,
    /// Dead segments that wait for their next use.
    pub spares: u64,
    /// Bytes of all files.
    pub folder_bytes: u64,
    _lock: D::Lock,
}

impl<D: Disk> Inspection<D> {
    /// Reads the whole folder and replays it. It takes the lock.
    pub fn new(disk: &D, replay: &mut dyn Replay) -> Result<Self, OpenError> {
        let lock = enter_known(disk)?;
        let survey = survey(disk)?;
        let mut checkpoints = BTreeMap::new();
        for (shard, index, payload) in &survey.checkpoints.newest {
            checkpoints.insert(*shard, (*index, payload.len() as u64));
            let replayed = replay.checkpoint(*shard, *index, payload);
            replayed.map_err(|message| OpenError::Replay {
                position: None,
                message,
            })?;
        }
        let mut walk = Walk::new(&survey, true);
        let mut counting = Counting {
            replay,
            classes: BTreeMap::new(),
        };
        walk.run(&survey, &mut counting)?;
        let cold = cold::read_all(&survey, &mut counting, &mut walk.report)
            .map_err(OpenError::io("reading cold files"))?;
        let classes = counting.classes;
        let folder_bytes = folder_bytes(disk)?;
        let (prepared, spares) = (survey.unused.len() as u64, survey.spares.len() as u64);
        let mut directory = log(survey, walk);
        for file in cold {
            directory.add(file.segment, file.contents, Kind::Cold);
        }
        Ok(Self {
            directory,
            classes,
            checkpoints,
            prepared,
            spares,
            folder_bytes,
            _lock: lock,
        })
    }

    /// So many need each of `count` consecutive records; how many of the records are there.
    pub fn need(&mut self, shard: ShardId, first: u64, count: u64, references: u32) -> u64 {
        let last = first.saturating_add(count.saturating_sub(1));
        self.directory.need(shard, first, last, references)
    }

    /// The files and how much of each is needed, once all needs were told.
    pub fn files(&mut self) -> Vec<SegmentUse> {
        self.directory.settle_copies();
        self.directory.uses()
    }
}

/// Counts what it hands on.
struct Counting<'a> {
    replay: &'a mut dyn Replay,
    classes: BTreeMap<Class, (u64, u64)>,
}

impl Visitor for Counting<'_> {
    fn record(&mut self, position: Position, class: Class, payload: &[u8]) -> Result<(), String> {
        self.replay.record(position, class, payload)
    }

    fn quarantined(&mut self, _: Position, _: Class, _: &Damage) {}

    fn found(&mut self, _: u64, event: &Event) {
        if let Event::Record(found) = event
            && !found.is_filler()
        {
            let (records, bytes) = self.classes.entry(found.header.class).or_default();
            *records += 1;
            *bytes += found.header.size();
        }
    }
}

fn log<F>(survey: Survey<F>, walk: Walk) -> Directory<F> {
    let mut directory = Directory::default();
    let mut used = survey.used.into_iter().zip(walk.contents).peekable();
    while let Some((surveyed, contents)) = used.next() {
        let kind = match used.peek() {
            Some(_) => Kind::Sealed,
            None => Kind::Open,
        };
        directory.add(surveyed.segment, contents, kind);
    }
    directory
}

fn folder_bytes<D: Disk>(disk: &D) -> Result<u64, OpenError> {
    let names = disk.list();
    let names = names.map_err(OpenError::io("listing the data folder"))?;
    // What cannot be opened is no file of ours.
    let length = |name: &String| disk.open(name).and_then(|file| file.len()).unwrap_or(0);
    let ours = |name: &&String| !matches!(Name::parse(name), Name::Temporary);
    Ok(names.iter().filter(ours).map(length).sum())
}
