//! Reading a segment's bytes: which records and which damage they hold, in order.
//!
//! Lacks IO and any knowledge of other segments. Invariant: whatever the bytes, it never panics
//! and never takes a record that was not written there in this use of the segment.
//!
//! ```text
//! batch │ batch │ ✗ damaged ✗ │ batch │ ✗ no valid batch after it ✗
//!                  │                     │
//!                  │                     └ in the last segment a torn tail, else damage
//!                  └ resync on record headers up to the next valid batch
//! ```

use menzil_model::{Class, Position};

use crate::batch::{self, BatchHeader, Classes};
use crate::damage::{Damage, DamageKind};
use crate::layout::{SECTOR, checksum, range, sectors};
use crate::record::{self, DROPPED, FILLER, RecordHeader};
use crate::segment;

/// What a segment holds, its events aside.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    pub(crate) batches: u64,
    /// Where the next batch would start.
    pub(crate) end: u64,
    pub(crate) first: Option<BatchHeader>,
    pub(crate) last_number: u64,
    /// Bytes past the end that look like an unfinished batch.
    pub(crate) torn_bytes: u64,
}

/// One thing found, in the order of the bytes.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Batch(BatchHeader),
    Record(Found),
    /// A record whose header is sound and whose payload is not.
    Payload(Found, Damage),
    /// Records that were there and are not readable.
    Missing(Missing),
    /// Damage that cost no record.
    Harmless(Damage),
}

/// A record that was found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) header: RecordHeader,
    pub(crate) offset: u64,
    /// How many indexes it stands for.
    pub(crate) span: u64,
}

impl Found {
    pub(crate) fn position(&self) -> Position {
        self.header.position
    }

    /// Whether a repair took it out.
    pub(crate) fn is_dropped(&self) -> bool {
        self.header.flags & DROPPED != 0
    }

    /// Whether it only fills a hole.
    pub(crate) fn is_filler(&self) -> bool {
        self.header.flags & FILLER != 0
    }
}

/// Records of one batch that are not readable.
#[derive(Clone, Debug)]
pub(crate) struct Missing {
    pub(crate) damage: Damage,
    /// What they may have been about.
    pub(crate) classes: Classes,
    /// How many, if the batch header that counts them is sound.
    pub(crate) count: Option<u64>,
    /// Where their batch starts.
    pub(crate) batch: u64,
    /// Where they lay: offset and length.
    pub(crate) regions: Vec<(u64, u64)>,
    /// What is left of the headers, to be believed only where nothing else is known.
    pub(crate) hints: Vec<Hint>,
}

/// What is left of a damaged record header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hint {
    pub(crate) header: RecordHeader,
    /// One byte was damaged and the checksum says which.
    pub(crate) mended: bool,
}

/// Which bytes are looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) segment: u64,
    pub(crate) salt: u64,
    /// Whether the file was zeros before this use.
    pub(crate) fresh: bool,
    /// Where the last batch ends and its number, if a sidecar knows.
    pub(crate) known_end: Option<(u64, u64)>,
}

impl Source<'_> {
    /// Reads the whole segment, telling what is found batch by batch: there are too many records
    /// to remember. In the `last` one the final batch may be torn.
    pub(crate) fn scan(&self, last: bool, tell: &mut dyn FnMut(&Event)) -> Scan {
        let mut scan = Scan {
            end: segment::HEADER_BYTES,
            ..Scan::default()
        };
        loop {
            let start = scan.end;
            if let Some(header) = self.batch(start) {
                let end = start + u64::from(header.length);
                let (events, sound) = self.records(
                    start + batch::HEADER_BYTES,
                    end,
                    header.classes,
                    Some(header.count),
                );
                if !sound && last && self.next_batch(sectors(end)).is_none() {
                    scan.torn_bytes = u64::from(header.length);
                    return scan;
                }
                scan.batches += 1;
                scan.first.get_or_insert(header);
                scan.last_number = header.number;
                tell(&Event::Batch(header));
                events.iter().for_each(&mut *tell);
                scan.end = sectors(end);
            } else if let Some(next) = self.next_batch(start + SECTOR) {
                self.region(start, next).iter().for_each(&mut *tell);
                scan.end = next;
            } else if let Some((end, number)) =
                self.known_end.filter(|(end, _)| !last && *end > start)
            {
                self.region(start, end).iter().for_each(&mut *tell);
                scan.batches += 1;
                scan.last_number = number;
                scan.end = end;
            } else {
                scan.torn_bytes = self.torn_bytes(start);
                return scan;
            }
        }
    }

    /// The valid batch that starts there.
    pub(crate) fn batch(&self, offset: u64) -> Option<BatchHeader> {
        BatchHeader::decode(self.bytes, offset, self.segment, Some(self.salt))
    }

    /// The first valid batch header at or after `offset`.
    pub(crate) fn next_batch(&self, offset: u64) -> Option<u64> {
        let mut offset = offset;
        while offset < self.bytes.len() as u64 {
            if self.batch(offset).is_some() {
                return Some(offset);
            }
            offset += SECTOR;
        }
        None
    }

    /// What a batch whose header is damaged still holds, up to the `next` valid batch.
    fn region(&self, start: u64, next: u64) -> Vec<Event> {
        let damage = self.damage(start, next - start, DamageKind::BatchHeader);
        let (mut events, _) = self.records(start + batch::HEADER_BYTES, next, Classes::ALL, None);
        if !events
            .iter()
            .any(|event| matches!(event, Event::Missing(_)))
        {
            let damage = Damage {
                length: batch::HEADER_BYTES,
                ..damage
            };
            events.insert(0, Event::Harmless(damage));
        }
        events
    }

    /// The records from `start` to `end`, and whether all are sound. Without a count, zeros that
    /// fill the last sector are no damage.
    fn records(
        &self,
        start: u64,
        end: u64,
        classes: Classes,
        count: Option<u32>,
    ) -> (Vec<Event>, bool) {
        let mut events = Vec::new();
        let mut damages: Vec<(usize, Damage)> = Vec::new();
        let mut hints = Vec::new();
        let (mut found, mut sound, mut offset) = (0, true, start);
        while offset < end {
            if let Some(header) = RecordHeader::decode(self.bytes, offset, end, self.salt) {
                let event = self.record(header, offset);
                sound &= matches!(event, Event::Record(_));
                events.push(event);
                found += 1;
                offset += header.size();
                continue;
            }
            if count.is_none() && self.is_padding(offset, end) {
                break;
            }
            let next = self.next_record(offset + 8, end);
            damages.push((
                events.len(),
                self.damage(offset, next - offset, DamageKind::RecordHeader),
            ));
            let rest = range(self.bytes, offset, end).unwrap_or_default();
            if hints.len() < HINTS_MAX {
                hints.extend(self.hint(rest, offset));
            }
            sound = false;
            offset = next;
        }
        let missing = count.map(|count| u64::from(count).saturating_sub(found));
        sound &= missing.is_none_or(|missing| missing == 0);
        // All that is missing from a batch is told at its first damaged place: later records of
        // the same shards show which indexes are meant.
        if let Some((at, damage)) = damages.first().copied().filter(|_| missing != Some(0)) {
            let length = damages.iter().map(|(_, damage)| damage.length).sum();
            let damage = Damage { length, ..damage };
            let regions = damages
                .iter()
                .map(|(_, damage)| (damage.offset, damage.length))
                .collect();
            let batch = start - batch::HEADER_BYTES;
            let missing = Missing {
                damage,
                batch,
                classes,
                count: missing,
                regions,
                hints,
            };
            events.insert(at, Event::Missing(missing));
        } else {
            for (at, damage) in damages.into_iter().rev() {
                events.insert(at, Event::Harmless(damage));
            }
        }
        (events, sound)
    }

    fn record(&self, header: RecordHeader, offset: u64) -> Event {
        let bytes = range(self.bytes, offset, offset + header.size()).unwrap_or_default();
        let payload = record::payload(bytes, &header).unwrap_or_default();
        let found = Found {
            header,
            offset,
            span: record::span(&header, payload),
        };
        let actual = checksum(payload);
        if actual == header.payload_crc {
            return Event::Record(found);
        }
        let kind = DamageKind::Payload {
            expected: header.payload_crc,
            actual,
        };
        let damage = self.damage(offset, header.size(), kind);
        Event::Payload(Found { span: 1, ..found }, damage)
    }

    fn hint(&self, record: &[u8], offset: u64) -> Option<Hint> {
        if let Some(header) = record::mend(record, offset, self.salt) {
            return Some(Hint {
                header,
                mended: true,
            });
        }
        RecordHeader::decode_unchecked(record).map(|header| Hint {
            header,
            mended: false,
        })
    }

    fn next_record(&self, offset: u64, end: u64) -> u64 {
        let mut offset = offset;
        while offset < end {
            if RecordHeader::decode(self.bytes, offset, end, self.salt).is_some() {
                return offset;
            }
            offset += 8;
        }
        end
    }

    fn is_padding(&self, offset: u64, end: u64) -> bool {
        end - offset < SECTOR
            && range(self.bytes, offset, end).is_some_and(|rest| rest.iter().all(|byte| *byte == 0))
    }

    fn damage(&self, offset: u64, length: u64, kind: DamageKind) -> Damage {
        Damage {
            segment: self.segment,
            offset,
            length,
            kind,
        }
    }

    /// How many bytes past the end of the log were written in this use, as far as it shows.
    fn torn_bytes(&self, end: u64) -> u64 {
        if self.fresh {
            let rest = range(self.bytes, end, self.bytes.len() as u64).unwrap_or_default();
            let clean = rest
                .rchunks(PAGE)
                .take_while(|page| page.iter().all(|byte| *byte == 0));
            let dirty = rest.len().div_ceil(PAGE) - clean.count();
            return rest.len().min(dirty * PAGE) as u64;
        }
        if BatchHeader::is_begun(self.bytes, end, self.salt) {
            SECTOR
        } else {
            0
        }
    }
}

/// The class that a missing record is taken for: the gravest possible, unless it is known.
pub(crate) fn assumed_class(missing: &Missing) -> Class {
    match missing.hints.as_slice() {
        [hint] if hint.mended && missing.count == Some(1) => hint.header.class,
        hints => missing
            .classes
            .assume(hints.first().map(|hint| hint.header.class)),
    }
}

const PAGE: usize = 4096;
/// A header is mended by trying; where more are damaged, naming them is hopeless anyway.
const HINTS_MAX: usize = 16;
