//! Entries on their way into a page: the end of a queue that only grows, or what was put between
//! the entries of a page.
//!
//! They are told one after the other by what is new of each. One of which nothing is new (the
//! next sequence, as many records on as the last one, of the same size) is only counted, so that
//! an entry takes a few bytes or none, and adding it touches next to no memory.
//!
//! ```text
//! rows := row*
//! row  := flags:u8 what the flags say, in their order
//!       | REPEAT varint(count)          rows of which nothing is new
//! ```
//!
//! They may come in any order; in that of their sequences they are a page. The bytes are of this
//! process alone.

use super::packed::{Expiry, PackWriter};
use super::runs::{unzigzag, zigzag};
use super::{Chunks, Extent, Origin, Packed, StoredEntry};
use crate::Sequence;
use crate::wire::{Reader, Writer};

/// The sequence is not the next one: by how many it is on, or back.
const SEQUENCE: u8 = 1;
/// The record is not as many on as the last one was: by how many it is.
const RECORD: u8 = 2;
/// Another size of the body.
const BODY: u8 = 4;
/// Another difference between both sizes.
const AROUND: u8 = 8;
/// A part of a group.
const PART: u8 = 16;
/// Chunks: how many, and where the first lies.
const CHUNKS: u8 = 32;
/// Expiry that is not as much later as the last one was.
const EXPIRY: u8 = 64;
/// See the module.
const REPEAT: u8 = 128;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Packing {
    rows: Vec<u8>,
    /// Rows behind these of which nothing is new.
    repeated: u32,
    count: u32,
    last: Last,
}

/// What the next row is told by.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    sequence: u64,
    record: u64,
    /// How the columns of [`Packed`] tell it.
    record_symbol: u64,
    body_bytes: u64,
    around_symbol: u64,
    expiry: Expiry,
    expiry_symbol: u64,
}

impl Packing {
    /// Adds an entry.
    #[inline]
    pub fn add(&mut self, entry: &StoredEntry) {
        let flags = self.news(entry);
        self.count += 1;
        if flags == 0 {
            self.repeated += 1;
        } else {
            self.flush();
            self.put_row(flags, entry);
        }
        let last = &mut self.last;
        last.sequence = entry.sequence.0;
        last.record_symbol = zigzag(last.record, entry.origin.index);
        last.record = entry.origin.index;
        last.body_bytes = entry.extent.body_bytes;
        last.around_symbol = zigzag(entry.extent.body_bytes, entry.extent.total_bytes);
        last.expiry_symbol = last.expiry.symbol(entry.expires_at);
    }

    /// What is new of it, as flags.
    #[inline]
    fn news(&self, entry: &StoredEntry) -> u8 {
        let (last, extent) = (&self.last, &entry.extent);
        let around_symbol = zigzag(extent.body_bytes, extent.total_bytes);
        let flag = |is_new: bool, flag: u8| if is_new { flag } else { 0 };
        flag(entry.sequence.0 != last.sequence.wrapping_add(1), SEQUENCE)
            | flag(
                zigzag(last.record, entry.origin.index) != last.record_symbol,
                RECORD,
            )
            | flag(extent.body_bytes != last.body_bytes, BODY)
            | flag(around_symbol != last.around_symbol, AROUND)
            | flag(entry.origin.part != 0, PART)
            | flag(extent.chunks.count != 0, CHUNKS)
            | flag(
                last.expiry.peek(entry.expires_at) != last.expiry_symbol,
                EXPIRY,
            )
    }

    fn put_row(&mut self, flags: u8, entry: &StoredEntry) {
        let (last, extent) = (&self.last, &entry.extent);
        let rows = &mut self.rows;
        rows.put_u8(flags);
        let mut put = |flag: u8, value: u64| {
            if flags & flag != 0 {
                rows.put_varint(value);
            }
        };
        put(SEQUENCE, zigzag(last.sequence, entry.sequence.0));
        put(RECORD, zigzag(last.record, entry.origin.index));
        put(BODY, extent.body_bytes);
        put(AROUND, zigzag(extent.body_bytes, extent.total_bytes));
        put(PART, entry.origin.part.into());
        put(CHUNKS, extent.chunks.count.into());
        put(CHUNKS, zigzag(entry.origin.index, extent.chunks.first));
        put(EXPIRY, last.expiry.peek(entry.expires_at));
    }

    fn flush(&mut self) {
        if self.repeated > 0 {
            self.rows.put_u8(REPEAT);
            self.rows.put_varint(self.repeated.into());
            self.repeated = 0;
        }
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The sequence of the last one.
    pub fn last(&self) -> Option<Sequence> {
        (!self.is_empty()).then_some(Sequence(self.last.sequence))
    }

    /// Bytes that they take.
    pub fn bytes(&self) -> u64 {
        self.rows.len() as u64
    }

    /// Room that it keeps, in bytes.
    pub fn capacity(&self) -> usize {
        self.rows.capacity()
    }

    /// Removes all entries; the room stays.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.repeated = 0;
        self.count = 0;
        self.last = Last::default();
    }

    /// The entries, in the order in which they were added.
    pub fn entries(&self) -> impl Iterator<Item = StoredEntry> + '_ {
        let mut rows = Rows::of(self);
        let mut left = 0;
        let mut row = Row::default();
        std::iter::from_fn(move || {
            if left == 0 {
                (row, left) = rows.next()?;
            }
            left -= 1;
            Some(rows.entry(row))
        })
    }

    /// All of them, whose sequences ascend, as a page; `None` of none.
    pub fn pack(&self) -> Option<Packed> {
        let mut writer = PackWriter::default();
        let mut rows = Rows::of(self);
        while let Some((row, times)) = rows.next() {
            writer.add(&rows.entry(row));
            writer.repeat(times - 1);
            rows.skip(times - 1);
        }
        writer.packed()
    }
}

/// What is new of an entry.
#[derive(Clone, Copy, Debug)]
struct Row {
    /// As [`zigzag`] tells it.
    sequence_step: u64,
    part: u32,
    chunks: (u32, u64),
}

impl Default for Row {
    fn default() -> Self {
        Self {
            sequence_step: NEXT,
            part: 0,
            chunks: (0, 0),
        }
    }
}

/// The step to the next sequence.
const NEXT: u64 = 2;

/// Reads rows.
struct Rows<'a> {
    reader: Reader<'a>,
    repeated: u32,
    last: Last,
}

impl<'a> Rows<'a> {
    fn of(packing: &'a Packing) -> Self {
        Self {
            reader: Reader::new(&packing.rows),
            repeated: packing.repeated,
            last: Last::default(),
        }
    }

    /// The next row, and how often it stands there.
    fn next(&mut self) -> Option<(Row, u64)> {
        let mut row = Row::default();
        if self.reader.is_empty() {
            let times = std::mem::take(&mut self.repeated);
            return (times > 0).then_some((row, times.into()));
        }
        let flags = self.reader.u8().ok()?;
        if flags & REPEAT != 0 {
            return Some((row, self.reader.varint().ok()?));
        }
        let reader = &mut self.reader;
        let mut read = |flag: u8, value: &mut u64| {
            if flags & flag != 0 {
                *value = reader.varint().ok()?;
            }
            Some(())
        };
        let (mut part, mut chunk_count) = (0, 0);
        read(SEQUENCE, &mut row.sequence_step)?;
        read(RECORD, &mut self.last.record_symbol)?;
        read(BODY, &mut self.last.body_bytes)?;
        read(AROUND, &mut self.last.around_symbol)?;
        read(PART, &mut part)?;
        read(CHUNKS, &mut chunk_count)?;
        read(CHUNKS, &mut row.chunks.1)?;
        read(EXPIRY, &mut self.last.expiry_symbol)?;
        row.part = u32::try_from(part).ok()?;
        row.chunks.0 = u32::try_from(chunk_count).ok()?;
        Some((row, 1))
    }

    /// The next entry, of which no more is new than the row says.
    fn entry(&mut self, row: Row) -> StoredEntry {
        let last = &mut self.last;
        last.sequence = unzigzag(last.sequence, row.sequence_step);
        last.record = unzigzag(last.record, last.record_symbol);
        let (count, first) = row.chunks;
        StoredEntry {
            sequence: Sequence(last.sequence),
            origin: Origin {
                index: last.record,
                part: row.part,
            },
            extent: Extent {
                body_bytes: last.body_bytes,
                total_bytes: unzigzag(last.body_bytes, last.around_symbol),
                chunks: match count {
                    0 => Chunks::default(),
                    _ => Chunks {
                        first: unzigzag(last.record, first),
                        count,
                    },
                },
            },
            expires_at: last.expiry.next(last.expiry_symbol),
        }
    }

    /// Passes over entries of which nothing is new.
    fn skip(&mut self, times: u64) {
        let last = &mut self.last;
        last.sequence = last.sequence.wrapping_add(times);
        let step = unzigzag(0, last.record_symbol);
        last.record = last.record.wrapping_add(step.wrapping_mul(times));
        last.expiry.skip(last.expiry_symbol, times);
    }
}
