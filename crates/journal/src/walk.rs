//! The walk over the whole log in order, for recovery, verification and repair alike.
//!
//! Lacks writing. Invariant: what cannot be explained ends the walk, unless the walker is lenient
//! and collects it: nothing is passed over in silence.

use menzil_model::{Class, Position, ShardId};

use crate::batch::Classes;
use crate::contents::Contents;
use crate::continuity::{Broken, Continuity, Lost};
use crate::damage::{Damage, DamageKind};
use crate::disk::DiskFile;
use crate::error::OpenError;
use crate::folder::Name;
use crate::layout::{range, to_u32, to_usize};
use crate::record;
use crate::report::{Quarantined, Report, TornTail};
use crate::scan::{Event, Found, Missing, Scan};
use crate::segment;
use crate::survey::{Survey, Surveyed};

/// Who hears of what the walk finds.
pub(crate) trait Visitor {
    /// A sound record that lies past the checkpoint of its shard.
    fn record(&mut self, position: Position, class: Class, payload: &[u8]) -> Result<(), String>;
    /// A record that is damaged or lost.
    fn quarantined(&mut self, position: Position, class: Class, what: &Damage);
    /// Something was found in a segment, in the order of its bytes.
    fn found(&mut self, _segment: u64, _event: &Event) {}
    /// A segment was read.
    fn segment(&mut self, _segment: u64, _scan: &Scan) {}
    /// Batches are missing at the end of a segment.
    fn end_missing(&mut self, _missing: &Missing) {}
    /// Names what a damage cost.
    fn lost(&mut self, _lost: &Lost) {}
}

/// The walk and what it gathers.
#[derive(Debug)]
pub(crate) struct Walk {
    continuity: Continuity,
    damaged_checkpoints: Vec<(ShardId, u64)>,
    /// Read even what the sidecars know, and go on after what refuses a start.
    lenient: bool,
    /// The bytes of one segment after the other.
    buffer: Vec<u8>,
    pub(crate) report: Report,
    pub(crate) segments_read: u64,
    pub(crate) replayed: u64,
    pub(crate) replayed_bytes: u64,
    pub(crate) last_number: u64,
    /// What each used segment holds, in their order.
    pub(crate) contents: Vec<Contents>,
}

impl Walk {
    pub(crate) fn new<F>(survey: &Survey<F>, lenient: bool) -> Self {
        let checkpoints = &survey.checkpoints;
        let mut report = Report {
            checkpoints: checkpoints
                .newest
                .iter()
                .map(|(shard, at, _)| (*shard, *at))
                .collect(),
            ..Report::default()
        };
        for (shard, index) in &checkpoints.damaged {
            report
                .checkpoints_damaged
                .push(Name::Checkpoint(*shard, *index).to_string());
        }
        Self {
            continuity: Continuity::new(checkpoints.indexes()),
            damaged_checkpoints: checkpoints.damaged.clone(),
            lenient,
            buffer: Vec::new(),
            report,
            segments_read: 0,
            replayed: 0,
            replayed_bytes: 0,
            last_number: 0,
            contents: Vec::new(),
        }
    }

    /// Walks over all used segments.
    pub(crate) fn run<F: DiskFile>(
        &mut self,
        survey: &Survey<F>,
        visitor: &mut dyn Visitor,
    ) -> Result<(), OpenError> {
        let mut used = survey.used.iter().peekable();
        while let Some(surveyed) = used.next() {
            let next = used.peek().copied();
            let known = surveyed
                .contents
                .as_ref()
                .filter(|contents| next.is_some() && !self.lenient && self.is_covered(contents));
            if let Some(contents) = known {
                for (shard, run) in &contents.runs {
                    self.continuity.skip(*shard, run.last);
                }
                self.last_number = contents.last_number;
                self.contents.push(contents.clone());
            } else {
                self.read(surveyed, next, visitor)?;
            }
            self.report.segments += 1;
        }
        match self.continuity.finish() {
            Ok(lost) => lost.iter().try_for_each(|lost| self.lose(lost, visitor))?,
            Err(broken) => self.broken(broken, Place::default())?,
        }
        self.check_damaged_checkpoints()
    }

    /// What was found, with which records each shard has.
    pub(crate) fn into_report(mut self) -> Report {
        for contents in &self.contents {
            self.report.hold(contents);
        }
        self.report
    }

    /// The last index of every shard, checkpoints included.
    pub(crate) fn last_indexes(&self) -> menzil_model::Map<ShardId, u64> {
        self.continuity.last_indexes()
    }

    /// Whether all records of the segment lie below the checkpoints of their shards.
    fn is_covered(&self, contents: &Contents) -> bool {
        let mut runs = contents.runs.iter();
        runs.all(|(shard, run)| run.last <= self.continuity.covered(*shard))
    }

    fn read<F: DiskFile>(
        &mut self,
        surveyed: &Surveyed<F>,
        next: Option<&Surveyed<F>>,
        visitor: &mut dyn Visitor,
    ) -> Result<(), OpenError> {
        let id = surveyed.segment.id;
        let mut bytes = std::mem::take(&mut self.buffer);
        surveyed
            .read_into(&mut bytes)
            .map_err(OpenError::io(format!("reading segment {id}")))?;
        let mut contents = Contents::default();
        let mut outcome = Ok(());
        let scan = surveyed.source(&bytes).scan(next.is_none(), &mut |event| {
            visitor.found(id, event);
            if outcome.is_ok() {
                outcome = self.event(event, id, &bytes, &mut contents, visitor);
            }
        });
        outcome?;
        self.segments_read += 1;
        self.report.batches += scan.batches;
        if surveyed.headless {
            let length = segment::HEADER_BYTES;
            let kind = DamageKind::SegmentHeader;
            self.report.harmless.push(Damage {
                segment: id,
                offset: 0,
                length,
                kind,
            });
        }
        let first = scan.first.or(surveyed.first);
        contents.end = scan.end;
        contents.first_number = first.map_or(0, |first| first.number);
        contents.last_number = scan.last_number;
        contents.previous = first.map_or(0, |first| first.previous);
        if scan.batches > 0 {
            self.last_number = scan.last_number;
        }
        match next {
            Some(next) => self.check_end(id, &scan, next, surveyed.segment.length, visitor),
            None if scan.torn_bytes > 0 => {
                let torn = TornTail {
                    segment: id,
                    offset: scan.end,
                    bytes: scan.torn_bytes,
                };
                self.report.torn = Some(torn);
            }
            None => {}
        }
        self.contents.push(contents);
        visitor.segment(id, &scan);
        self.buffer = bytes;
        Ok(())
    }

    fn event(
        &mut self,
        event: &Event,
        segment: u64,
        bytes: &[u8],
        contents: &mut Contents,
        visitor: &mut dyn Visitor,
    ) -> Result<(), OpenError> {
        match event {
            Event::Batch(_) => Ok(()),
            Event::Harmless(damage) => {
                self.report.harmless.push(*damage);
                Ok(())
            }
            Event::Missing(missing) => {
                self.continuity.missing(missing.clone());
                Ok(())
            }
            Event::Record(found) if found.is_filler() => Ok(()),
            Event::Record(found) => {
                self.follow(found, segment, visitor)?;
                if found.is_dropped() {
                    self.report.dropped += found.span;
                    contents.push_gone(found.position(), found.span);
                    return Ok(());
                }
                let offset = to_u32(to_usize(found.offset));
                contents.push(found.position(), offset, found.header.size());
                self.replay(found, bytes, visitor)
            }
            Event::Payload(found, damage) => {
                self.follow(found, segment, visitor)?;
                let offset = to_u32(to_usize(found.offset));
                contents.push(found.position(), offset, found.header.size());
                self.quarantine(found.position(), found.header.class, *damage, visitor)
            }
        }
    }

    fn replay(
        &mut self,
        found: &Found,
        bytes: &[u8],
        visitor: &mut dyn Visitor,
    ) -> Result<(), OpenError> {
        self.report.records += 1;
        self.report.bytes += u64::from(found.header.length);
        let position = found.position();
        if position.index <= self.continuity.covered(position.shard) {
            return Ok(());
        }
        self.replayed += 1;
        self.replayed_bytes += u64::from(found.header.length);
        let record = range(bytes, found.offset, found.offset + found.header.size());
        let payload = record.and_then(|record| record::payload(record, &found.header));
        match visitor.record(position, found.header.class, payload.unwrap_or_default()) {
            Ok(()) => Ok(()),
            Err(message) => self.refuse(OpenError::Replay {
                position: Some(position),
                message,
            }),
        }
    }

    /// Checks that the record comes next, and names what is lost before it.
    fn follow(
        &mut self,
        found: &Found,
        segment: u64,
        visitor: &mut dyn Visitor,
    ) -> Result<(), OpenError> {
        match self.continuity.record(found) {
            Ok(None) => Ok(()),
            Ok(Some(lost)) => self.lose(&lost, visitor),
            Err(broken) => self.broken(
                broken,
                Place {
                    segment,
                    offset: found.offset,
                },
            ),
        }
    }

    fn lose(&mut self, lost: &Lost, visitor: &mut dyn Visitor) -> Result<(), OpenError> {
        visitor.lost(lost);
        for index in lost.first.index..lost.first.index.saturating_add(lost.count) {
            let position = Position {
                index,
                ..lost.first
            };
            self.quarantine(position, lost.class, lost.damage, visitor)?;
        }
        Ok(())
    }

    fn quarantine(
        &mut self,
        position: Position,
        class: Class,
        damage: Damage,
        visitor: &mut dyn Visitor,
    ) -> Result<(), OpenError> {
        self.report.quarantined.push(Quarantined {
            position,
            class,
            damage,
        });
        if class == Class::Topology {
            // What it said is in the checkpoint already, if it is below one.
            if position.index <= self.continuity.covered(position.shard) {
                return Ok(());
            }
            return self.refuse(OpenError::CorruptTopology {
                position: Some(position),
                segment: damage.segment,
                offset: damage.offset,
                what: damage.to_string(),
            });
        }
        visitor.quarantined(position, class, &damage);
        Ok(())
    }

    /// A segment after which another was used must end right before that one's first batch.
    fn check_end<F>(
        &mut self,
        id: u64,
        scan: &Scan,
        next: &Surveyed<F>,
        length: u64,
        visitor: &mut dyn Visitor,
    ) {
        let Some(first) = next.first.filter(|first| first.previous == id) else {
            return;
        };
        if scan.batches == 0 || first.number != scan.last_number + 1 {
            let kind = DamageKind::MissingBatches;
            let rest = length.saturating_sub(scan.end);
            let missing = Missing {
                damage: Damage {
                    segment: id,
                    offset: scan.end,
                    length: rest,
                    kind,
                },
                batch: scan.end,
                classes: Classes::ALL,
                count: None,
                regions: vec![(scan.end, rest)],
                hints: Vec::new(),
            };
            visitor.end_missing(&missing);
            self.continuity.missing(missing);
        }
    }

    /// What replaces a damaged checkpoint must reach at least as far.
    fn check_damaged_checkpoints(&mut self) -> Result<(), OpenError> {
        let last = self.continuity.last_indexes();
        for (shard, index) in self.damaged_checkpoints.clone() {
            if last.get(&shard).is_none_or(|last| *last < index) {
                self.refuse(corrupt_checkpoint(shard, index))?;
            }
        }
        Ok(())
    }

    fn broken(&mut self, broken: Broken, place: Place) -> Result<(), OpenError> {
        let Place { segment, offset } = place;
        self.refuse(match broken {
            Broken::Gap {
                shard,
                first,
                found,
            } => {
                let damaged = |(of, _): &&(ShardId, u64)| *of == shard;
                if let Some((_, index)) = self.damaged_checkpoints.iter().find(damaged) {
                    corrupt_checkpoint(shard, *index)
                } else {
                    OpenError::Incomplete {
                        shard,
                        first,
                        last: found.saturating_sub(1),
                        segment,
                    }
                }
            }
            Broken::Order { position, last } => {
                let what = format!("record {position} comes after record {last} of its shard");
                OpenError::Corrupt {
                    segment,
                    offset,
                    what,
                }
            }
            Broken::Nameless {
                damage,
                classes_topology: true,
            } => OpenError::CorruptTopology {
                position: None,
                segment: damage.segment,
                offset: damage.offset,
                what: damage.to_string(),
            },
            Broken::Nameless {
                damage,
                classes_topology: false,
            } => OpenError::Corrupt {
                segment: damage.segment,
                offset: damage.offset,
                what: format!("{damage}, and the records lost by it cannot be named"),
            },
        })
    }

    /// The walk ends here, or goes on with the refusal noted, without advice: that depends on
    /// who walks.
    pub(crate) fn refuse(&mut self, error: OpenError) -> Result<(), OpenError> {
        if self.lenient {
            self.report.past_repair |= matches!(
                error,
                OpenError::CorruptCheckpoint { .. } | OpenError::Incomplete { .. }
            );
            self.report.refusals.push(error.what());
            return Ok(());
        }
        Err(error)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Place {
    segment: u64,
    offset: u64,
}

fn corrupt_checkpoint(shard: ShardId, index: u64) -> OpenError {
    OpenError::CorruptCheckpoint {
        shard,
        index,
        name: Name::Checkpoint(shard, index).to_string(),
    }
}
