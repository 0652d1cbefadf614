//! Gives disk space back that a few records hold: they move to a cold file, and their file dies.
//!
//! Lacks setting files free, which is the checkpoints' business. Invariant: only records at or
//! below the checkpoint of their shard move, and only in files of which no record lies above
//! one; a record that cannot be read stays where it is, and its file with it.
//!
//! The debt is what the dead bytes of such files are over what is tolerated: as much as is
//! needed, and [`TOLERATED_SEGMENTS`] segments. Each step pays a part of it. Where there is none,
//! a file that is being used up is left alone: what would be copied of it is soon gone anyway.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Condvar, Mutex, PoisonError};

use menzil_model::{Map, ShardId};

use crate::cold::{self, ColdFile};
use crate::directory::{Directory, Entry, Kind};
use crate::disk::{Disk, is_full};
use crate::error::StorageError;
use crate::journal::{Journal, locked, reading, writing};
use crate::options::Options;
use crate::preparer::folder;

/// What evacuation remembers between its steps.
#[derive(Debug, Default)]
pub(crate) struct Evacuation {
    /// Held by whoever evacuates.
    state: Mutex<State>,
    signal: Mutex<Signal>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Files with a record that cannot be read: they stay as they are.
    stuck: BTreeSet<u64>,
    /// How many records of each file were needed at the last look.
    needed: BTreeMap<u64, u64>,
}

impl State {
    /// Looks at all files; those of which fewer records are needed than the last time are being
    /// used up.
    fn look<F>(&mut self, directory: &Directory<F>) -> BTreeSet<u64> {
        let live = |entry: &Entry<F>| (entry.segment.id, entry.contents.live());
        let now: BTreeMap<u64, u64> = directory.entries().map(live).collect();
        let before = std::mem::replace(&mut self.needed, now);
        let falls = |(file, live): (&u64, &u64)| {
            let fewer = before.get(file).is_some_and(|before| live < before);
            fewer.then_some(*file)
        };
        self.needed.iter().filter_map(falls).collect()
    }
}

#[derive(Debug, Default)]
struct Signal {
    due: bool,
    stop: bool,
}

/// What one step did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evacuated {
    /// Records that moved.
    pub records: u64,
    /// Bytes written for it.
    pub bytes: u64,
    /// Files nothing of which is needed any more; the next checkpoints set them free.
    pub files: u64,
}

/// A file to be evacuated.
#[derive(Clone, Copy, Debug)]
struct Victim {
    file: u64,
    live_bytes: u64,
    length: u64,
}

/// What one step is to do.
#[derive(Default)]
struct Work {
    loads: Vec<Load>,
    victims: Vec<u64>,
}

/// The records of one shard in one file.
struct Load {
    shard: ShardId,
    file: u64,
    indexes: Vec<u64>,
}

impl<D: Disk> Journal<D> {
    /// Evacuates the worst files, as far as one step goes. `None` if nothing is worth it. No
    /// space is no error: then nothing moves.
    pub fn evacuate_step(&self) -> Result<Option<Evacuated>, StorageError> {
        if !self.needs_known.load(Ordering::Acquire) {
            return Ok(None);
        }
        let mut state = locked(&self.evacuation.state);
        self.check()?;
        let falling = state.look(&reading(&self.directory));
        let work = self.choose(&state, &falling, self.options.evacuate_bytes, false);
        if work.loads.is_empty() {
            return Ok(None);
        }
        match self.evacuate(&mut state, &work, false) {
            Err(error) if is_full(&error) => {}
            done => return self.outcome(done),
        }
        // In the reserve's space only what sets a whole file free is worth it.
        let room = self.options.evacuation_reserve_bytes / 8 * 7;
        let room = room.saturating_sub(ROOM_FOR_HEADERS);
        let work = self.choose(&state, &falling, room, true);
        let done = if work.loads.is_empty() {
            Ok(Evacuated::default())
        } else {
            self.evacuate(&mut state, &work, true)
        };
        self.reserve_later();
        match done {
            Err(error) if is_full(&error) || error.kind() == io::ErrorKind::NotFound => {
                // What cannot be paid is not asked for.
                self.debt.store(0, Ordering::Relaxed);
                self.tell_room();
                Ok(None)
            }
            done => self.outcome(done),
        }
    }

    /// Dead bytes over what is tolerated, as of the last look: what evacuation is behind. It
    /// counts only what a step can pay, so whoever holds publishers back while it is high
    /// always lets them go on.
    pub fn evacuation_debt_bytes(&self) -> u64 {
        self.debt.load(Ordering::Relaxed)
    }

    /// A checkpoint may have made something worth it.
    pub(crate) fn evacuate_soon(&self) {
        locked(&self.evacuation.signal).due = true;
        self.evacuation.wake.notify_one();
    }

    /// What the evacuating thread does until it is told to stop or the journal fails.
    pub(crate) fn evacuate_until_stopped(&self) {
        loop {
            match self.evacuate_step() {
                Ok(Some(_)) => {}
                Ok(None) => self.wait_to_evacuate(),
                Err(_) => return,
            }
            if locked(&self.evacuation.signal).stop {
                return;
            }
        }
    }

    pub(crate) fn start_evacuating(&self) {
        locked(&self.evacuation.signal).stop = false;
    }

    pub(crate) fn stop_evacuating(&self) {
        locked(&self.evacuation.signal).stop = true;
        self.evacuation.wake.notify_all();
    }

    fn wait_to_evacuate(&self) {
        let signal = locked(&self.evacuation.signal);
        let idle = |signal: &mut Signal| !signal.stop && !signal.due;
        let wait = self
            .evacuation
            .wake
            .wait_timeout_while(signal, self.options.evacuate_every, idle)
            .unwrap_or_else(PoisonError::into_inner);
        let (mut signal, _) = wait;
        signal.due = false;
    }

    fn outcome(&self, done: io::Result<Evacuated>) -> Result<Option<Evacuated>, StorageError> {
        match done {
            Ok(evacuated) if evacuated.records == 0 => Ok(None),
            Ok(evacuated) => Ok(Some(evacuated)),
            Err(error) => Err(self.fail(folder("evacuating records", error))),
        }
    }

    /// Looks for the worst files and for what of them is to be saved in one step, which has room
    /// for so many bytes.
    fn choose(&self, state: &State, falling: &BTreeSet<u64>, room: u64, whole: bool) -> Work {
        let checkpoints = locked(&self.checkpoints).clone();
        let directory = reading(&self.directory);
        let mut victims = victims(&directory, &checkpoints, &self.options, &state.stuck);
        let dead = victims
            .iter()
            .map(|victim| victim.length - victim.live_bytes);
        let tolerated = live_bytes(&directory) + TOLERATED_SEGMENTS * self.options.segment_bytes;
        let debt = dead.sum::<u64>().saturating_sub(tolerated);
        if self.debt.swap(debt, Ordering::Relaxed) > debt {
            self.tell_room();
        }
        if debt == 0 {
            victims.retain(|victim| !falling.contains(&victim.file));
        }
        victims.sort_by_key(|victim| victim.live_bytes * 1024 / victim.length.max(1));
        let mut room = room;
        let mut work = Work::default();
        for victim in victims.iter().take(VICTIMS_MAX) {
            if room == 0 {
                break;
            }
            if whole && victim.live_bytes > room {
                continue;
            }
            if let Some(entry) = directory.entry(victim.file) {
                work.victims.push(victim.file);
                load(entry, &mut room, &mut work.loads);
            }
        }
        work.loads
            .sort_by_key(|load| (load.shard, load.indexes.first().copied()));
        work
    }

    /// Writes the cold file and lets it stand for its sources.
    fn evacuate(&self, state: &mut State, work: &Work, reserved: bool) -> io::Result<Evacuated> {
        let mut cold = cold::begin(&self.disk, self.next_file(), reserved)?;
        let finished = self
            .save(state, &work.loads, &mut cold)
            .and_then(|moved| Ok((moved, cold::finish(&self.disk, &mut cold)?)));
        let (moved, (segment, contents)) = match finished {
            Ok((moved, _)) if moved.is_empty() => {
                cold::abandon(&self.disk, &cold);
                return Ok(Evacuated::default());
            }
            Ok(finished) => finished,
            Err(error) => {
                cold::abandon(&self.disk, &cold);
                return Err(error);
            }
        };
        let (records, bytes) = (contents.records(), contents.end);
        let mut directory = writing(&self.directory);
        let file = segment.id;
        directory.add(segment, contents, Kind::Cold);
        directory.set_filling(file, true);
        drop(directory);
        // In parts: a commit waits for each.
        for part in moved.chunks(FORWARDED_AT_ONCE) {
            let mut directory = writing(&self.directory);
            for (shard, index, source) in part {
                directory.forward(*shard, *index, *source, file);
            }
        }
        writing(&self.directory).set_filling(file, false);
        let directory = reading(&self.directory);
        let is_done = |victim: &&u64| {
            let entry = directory.entry(**victim);
            entry.is_some_and(|entry| entry.contents.live() == 0)
        };
        let files = work.victims.iter().filter(is_done).count() as u64;
        drop(directory);
        self.counts.evacuated(records, bytes);
        self.counts.segments_evacuated(files);
        Ok(Evacuated {
            records,
            bytes,
            files,
        })
    }

    /// Copies the records; returns which, and where from.
    fn save(
        &self,
        state: &mut State,
        loads: &[Load],
        cold: &mut ColdFile<D::File>,
    ) -> io::Result<Vec<(ShardId, u64, u64)>> {
        let mut moved = Vec::new();
        for (shard, records) in in_order(loads) {
            for part in records.chunks(RECORDS_AT_ONCE) {
                let indexes: Vec<u64> = part.iter().map(|(index, _)| *index).collect();
                for ((index, file), record) in part.iter().zip(self.read_records(shard, &indexes)) {
                    let Ok(record) = record else {
                        state.stuck.insert(*file);
                        continue;
                    };
                    cold.push(&record)?;
                    moved.push((shard, *index, *file));
                }
            }
        }
        debug_assert_eq!(cold.records(), moved.len() as u64);
        Ok(moved)
    }
}

/// The records of each shard, ascending, each with the file that it is saved from.
fn in_order(loads: &[Load]) -> Vec<(ShardId, Vec<(u64, u64)>)> {
    let mut shards: Vec<(ShardId, Vec<(u64, u64)>)> = Vec::new();
    for load in loads {
        if shards.last().is_none_or(|(shard, _)| *shard != load.shard) {
            shards.push((load.shard, Vec::new()));
        }
        if let Some((_, records)) = shards.last_mut() {
            records.extend(load.indexes.iter().map(|index| (*index, load.file)));
        }
    }
    for (_, records) in &mut shards {
        records.sort_unstable();
        records.dedup_by_key(|(index, _)| *index);
    }
    shards
}

/// What is needed of a file, as far as there is room for it.
fn load<F>(entry: &Entry<F>, room: &mut u64, loads: &mut Vec<Load>) {
    for (shard, run) in &entry.contents.runs {
        let live = run.references.live();
        if live == 0 || *room == 0 {
            continue;
        }
        let bytes_each = (run.live_bytes() / live).max(1);
        let most = usize::try_from((*room).div_ceil(bytes_each)).unwrap_or(usize::MAX);
        let needed = run
            .ranks(0, u64::MAX)
            .filter(|(_, rank)| run.references.of(*rank) > 0);
        let indexes: Vec<u64> = needed.map(|(index, _)| index).take(most).collect();
        *room = room.saturating_sub(bytes_each * indexes.len() as u64);
        loads.push(Load {
            shard: *shard,
            file: entry.segment.id,
            indexes,
        });
    }
}

fn live_bytes<F>(directory: &Directory<F>) -> u64 {
    let files = directory.entries();
    files.map(|entry| entry.contents.live_bytes()).sum()
}

/// Files that are mostly dead, old enough and wholly below the checkpoints; and cold files that
/// are small, once there are many.
fn victims<F>(
    directory: &Directory<F>,
    checkpoints: &Map<ShardId, u64>,
    options: &Options,
    stuck: &BTreeSet<u64>,
) -> Vec<Victim> {
    let covered = |entry: &&Entry<F>| {
        let mut runs = entry.contents.runs.iter();
        entry.kind != Kind::Open
            && !stuck.contains(&entry.segment.id)
            && entry.contents.live() > 0
            && runs.all(|(shard, run)| {
                let checkpoint = checkpoints.get(shard);
                checkpoint.is_some_and(|index| run.last <= *index)
            })
    };
    let newest = directory.entries().map(|entry| entry.segment.id).max();
    let old = newest
        .unwrap_or(0)
        .saturating_sub(options.evacuate_age_segments);
    let is_small = |entry: &Entry<F>| {
        entry.kind == Kind::Cold && entry.segment.length < options.segment_bytes / 8
    };
    let small = directory
        .entries()
        .filter(|entry| is_small(entry) && entry.contents.live() > 0)
        .count();
    let victim = |entry: &Entry<F>| {
        // A cold file has no more bytes than it needs, but some for headers.
        let length = match entry.kind {
            Kind::Cold => entry.contents.record_bytes(),
            Kind::Open | Kind::Sealed => entry.segment.length,
        };
        let length = length.max(1);
        let live_bytes = entry.contents.live_bytes().min(length);
        let is_dead = live_bytes * 100 < length * options.evacuate_below_percent
            && (entry.kind == Kind::Cold || entry.segment.id <= old);
        let victim = Victim {
            file: entry.segment.id,
            live_bytes,
            length,
        };
        (is_dead || small > SMALL_FILES_MAX && is_small(entry)).then_some(victim)
    };
    directory
        .entries()
        .filter(covered)
        .filter_map(victim)
        .collect()
}

/// Dead segments that are no debt.
const TOLERATED_SEGMENTS: u64 = 2;
const VICTIMS_MAX: usize = 64;
const SMALL_FILES_MAX: usize = 8;
const RECORDS_AT_ONCE: usize = 256;
const FORWARDED_AT_ONCE: usize = 4096;
/// Of the file, and of a batch with its padding.
const ROOM_FOR_HEADERS: u64 = 2048;
