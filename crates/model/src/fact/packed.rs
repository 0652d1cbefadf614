//! Many entries of one queue in few bytes: what the middle of a long queue is kept as, in
//! memory and in checkpoints.
//!
//! Each field is a column of its own, as differences, so that what is regular (consecutive
//! records, one size, one time to live) takes a few bytes whatever the count, and the records
//! that entries need can be told without reading their sizes.
//!
//! ```text
//! packed := count flags:u8 column*       column := length bytes, see `runs`
//! columns: sequence, record, body bytes, bytes around the body,
//!          part (flag 1), chunk count and first chunk (flag 2), expiry (flag 4)
//! ```
//!
//! Invariant: sequences ascend, and there is at least one entry. [`Packed::read`] checks it.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::runs::{Column, Runs, unzigzag, zigzag};
use super::{Chunks, Extent, FactError, Origin};
use crate::Sequence;
use crate::wire::{Reader, Writer};

const HAS_PARTS: u8 = 1;
const HAS_CHUNKS: u8 = 2;
const HAS_EXPIRY: u8 = 4;

/// Entries that packed bytes of a stranger may claim to hold.
const COUNT_MAX: u64 = 1 << 20;

/// An entry whose message is in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredEntry {
    /// The place in its queue's order.
    pub sequence: Sequence,
    /// Where the message was published.
    pub origin: Origin,
    /// Its size, and where its large body lies.
    pub extent: Extent,
    /// Milliseconds since 1970 at which the entry leaves the queue by itself.
    pub expires_at: Option<u64>,
}

/// See the module. Cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct Packed(Arc<[u8]>);

/// What packed entries are together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedSummary {
    /// How many they are.
    pub count: u64,
    /// The first sequence.
    pub first: Sequence,
    /// The last sequence.
    pub last: Sequence,
    /// Bytes of their bodies.
    pub body_bytes: u64,
    /// When the first of them expires.
    pub expires_first: Option<u64>,
}

/// The columns of packed entries, each at its start.
struct Columns<'a> {
    count: u64,
    sequences: Column<'a>,
    records: Column<'a>,
    bodies: Column<'a>,
    around: Column<'a>,
    parts: Option<Column<'a>>,
    chunks: Option<(Column<'a>, Column<'a>)>,
    expiries: Option<Column<'a>>,
}

impl<'a> Columns<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, FactError> {
        let mut reader = Reader::new(bytes);
        let count = reader.varint()?;
        let flags = reader.u8()?;
        let mut column = || -> Result<Column<'a>, FactError> {
            let length = usize::try_from(reader.varint()?).map_err(|_| FactError::Truncated)?;
            Ok(Column::new(reader.bytes(length)?))
        };
        let columns = Self {
            count,
            sequences: column()?,
            records: column()?,
            bodies: column()?,
            around: column()?,
            parts: (flags & HAS_PARTS != 0).then(&mut column).transpose()?,
            chunks: (flags & HAS_CHUNKS != 0)
                .then(|| Ok::<_, FactError>((column()?, column()?)))
                .transpose()?,
            expiries: (flags & HAS_EXPIRY != 0).then(&mut column).transpose()?,
        };
        if reader.is_empty() {
            Ok(columns)
        } else {
            Err(FactError::Trailing)
        }
    }
}

impl Packed {
    /// Packs entries whose sequences ascend; `None` of none.
    pub fn pack(entries: impl Iterator<Item = StoredEntry>) -> Option<Self> {
        let mut writer = PackWriter::default();
        entries.for_each(|entry| writer.add(&entry));
        writer.packed()
    }

    /// Takes in bytes that [`Packed::as_bytes`] gave, and tells what is in them.
    pub fn read(bytes: &[u8]) -> Result<(Self, PackedSummary), FactError> {
        let packed = Self(bytes.into());
        let summary = packed.check()?;
        Ok((packed, summary))
    }

    /// What the entries are together; looks at runs, not at entries.
    pub fn summary(&self) -> PackedSummary {
        self.check().unwrap_or(PackedSummary {
            count: 0,
            first: Sequence(0),
            last: Sequence(0),
            body_bytes: 0,
            expires_first: None,
        })
    }

    fn check(&self) -> Result<PackedSummary, FactError> {
        let invalid = FactError::Invalid("packed entries");
        let columns = Columns::read(&self.0)?;
        let count = columns.count;
        if count == 0 || count > COUNT_MAX {
            return Err(invalid);
        }
        let (mut first, mut last, mut seen) = (None, 0_u64, 0);
        let mut column = columns.sequences;
        while let Some((step, times)) = column.next_run() {
            seen += times;
            let length = step.checked_mul(times).ok_or(invalid)?;
            first = first.or_else(|| last.checked_add(step));
            last = last.checked_add(length).ok_or(invalid)?;
            if seen > 1 && step == 0 {
                return Err(invalid);
            }
        }
        if seen != count || !column.is_at_end() {
            return Err(invalid);
        }
        let mut body_bytes = 0_u64;
        runs_of(columns.bodies, count, |bytes, times| {
            body_bytes = body_bytes.saturating_add(bytes.saturating_mul(times));
        })?;
        let plain = [Some(columns.records), Some(columns.around), columns.parts];
        let chunks = columns
            .chunks
            .iter()
            .flat_map(|(count, first)| [*count, *first]);
        for column in plain.into_iter().flatten().chain(chunks) {
            runs_of(column, count, |_, _| {})?;
        }
        let mut expires_first = None;
        if let Some(column) = columns.expiries {
            let mut expiry = Expiry::default();
            runs_of(column, count, |symbol, times| {
                // A step taken many times goes one way, so one of its ends is the least.
                let ends = [expiry.next(symbol), expiry.skip(symbol, times - 1)];
                for at in ends.into_iter().flatten() {
                    expires_first = Some(expires_first.map_or(at, |least: u64| least.min(at)));
                }
            })?;
        }
        Ok(PackedSummary {
            count,
            first: Sequence(first.ok_or(invalid)?),
            last: Sequence(last),
            body_bytes,
            expires_first,
        })
    }

    /// The same entries, each with a sequence that is `by` higher.
    #[must_use]
    pub fn shifted(&self, by: u64) -> Self {
        self.try_shifted(by).unwrap_or_else(|| self.clone())
    }

    fn try_shifted(&self, by: u64) -> Option<Self> {
        let mut reader = Reader::new(&self.0);
        let (count, flags) = (reader.varint().ok()?, reader.u8().ok()?);
        let length = usize::try_from(reader.varint().ok()?).ok()?;
        let mut column = Column::new(reader.bytes(length).ok()?);
        let mut sequences = Runs::default();
        let mut is_first = true;
        while let Some((step, times)) = column.next_run() {
            // Only the first step is from nowhere.
            let first = u64::from(std::mem::take(&mut is_first));
            if first > 0 {
                sequences.push(step.checked_add(by)?);
            }
            if times > first {
                sequences.push(step);
                sequences.repeat(times - first - 1);
            }
        }
        let mut shifted = Vec::with_capacity(length);
        sequences.write(&mut shifted);
        let mut out = Vec::with_capacity(self.0.len() + 16);
        out.put_varint(count);
        out.put_u8(flags);
        out.put_varint(shifted.len() as u64);
        out.put(&shifted);
        out.put(reader.rest());
        Some(Self(out.into()))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The entries, in order.
    pub fn entries(&self) -> PackedEntries<'_> {
        PackedEntries {
            columns: Columns::read(&self.0).ok(),
            sequence: 0,
            record: 0,
            expiry: Expiry::default(),
        }
    }

    /// The records that the entries need, as runs of consecutive indexes, each run once for
    /// one entry of each: their own, and those with chunks of their bodies.
    pub fn needs(&self, each: &mut dyn FnMut(u64, u64)) {
        let Ok(columns) = Columns::read(&self.0) else {
            return;
        };
        let mut column = columns.records;
        let mut run = (0_u64, 0_u64);
        let mut record = 0_u64;
        while let Some((symbol, times)) = column.next_run() {
            if symbol == ONE_ON && run.0.wrapping_add(run.1) == record.wrapping_add(1) {
                run.1 += times;
                record = record.wrapping_add(times);
                continue;
            }
            for _ in 0..times {
                record = unzigzag(record, symbol);
                if run.1 > 0 && run.0.wrapping_add(run.1) == record {
                    run.1 += 1;
                } else {
                    if run.1 > 0 {
                        each(run.0, run.1);
                    }
                    run = (record, 1);
                }
            }
        }
        if run.1 > 0 {
            each(run.0, run.1);
        }
        if columns.chunks.is_some() {
            let chunks = self.entries().map(|entry| entry.extent.chunks);
            for chunks in chunks.filter(|chunks| chunks.count > 0) {
                each(chunks.first, chunks.count.into());
            }
        }
    }
}

/// The difference to the record just behind.
const ONE_ON: u64 = 2;

impl std::fmt::Debug for Packed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Packed")
            .field("bytes", &self.0.len())
            .field("summary", &self.summary())
            .finish()
    }
}

/// Calls `each` with the runs of a column that must have exactly `count` symbols.
fn runs_of(
    mut column: Column<'_>,
    count: u64,
    mut each: impl FnMut(u64, u64),
) -> Result<(), FactError> {
    let mut seen = 0_u64;
    while let Some((symbol, times)) = column.next_run() {
        seen = seen.saturating_add(times);
        if seen > count {
            break;
        }
        each(symbol, times);
    }
    if seen == count && column.is_at_end() {
        Ok(())
    } else {
        Err(FactError::Invalid("column of packed entries"))
    }
}

/// Expiry times as symbols: 0 for none, else one more than the difference to the last one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Expiry {
    last: u64,
}

impl Expiry {
    /// The symbol of the next one, and then it is the last.
    pub(super) fn symbol(&mut self, at: Option<u64>) -> u64 {
        let symbol = self.peek(at);
        self.last = at.unwrap_or(self.last);
        symbol
    }

    /// The symbol that the next one would have.
    pub(super) fn peek(self, at: Option<u64>) -> u64 {
        at.map_or(0, |at| zigzag(self.last, at).wrapping_add(1))
    }

    pub(super) fn next(&mut self, symbol: u64) -> Option<u64> {
        if symbol == 0 {
            return None;
        }
        self.last = unzigzag(self.last, symbol - 1);
        Some(self.last)
    }

    /// The last of `times` symbols that are equal to the last one.
    pub(super) fn skip(&mut self, symbol: u64, times: u64) -> Option<u64> {
        if symbol == 0 {
            return None;
        }
        let step = unzigzag(0, symbol - 1);
        self.last = self.last.wrapping_add(step.wrapping_mul(times));
        Some(self.last)
    }
}

/// See [`Packed::entries`].
pub struct PackedEntries<'a> {
    columns: Option<Columns<'a>>,
    sequence: u64,
    record: u64,
    expiry: Expiry,
}

impl Iterator for PackedEntries<'_> {
    type Item = StoredEntry;

    #[inline]
    fn next(&mut self) -> Option<StoredEntry> {
        let columns = self.columns.as_mut()?;
        self.sequence = self.sequence.wrapping_add(columns.sequences.next_symbol()?);
        self.record = unzigzag(self.record, columns.records.next_symbol()?);
        let body_bytes = columns.bodies.next_symbol()?;
        let total_bytes = unzigzag(body_bytes, columns.around.next_symbol()?);
        let part = match &mut columns.parts {
            Some(column) => u32::try_from(column.next_symbol()?).ok()?,
            None => 0,
        };
        let chunks = match &mut columns.chunks {
            Some((counts, firsts)) => {
                let count = u32::try_from(counts.next_symbol()?).ok()?;
                let symbol = firsts.next_symbol()?;
                Chunks {
                    first: if count == 0 {
                        0
                    } else {
                        unzigzag(self.record, symbol)
                    },
                    count,
                }
            }
            None => Chunks::default(),
        };
        let expires_at = match &mut columns.expiries {
            Some(column) => self.expiry.next(column.next_symbol()?),
            None => None,
        };
        Some(StoredEntry {
            sequence: Sequence(self.sequence),
            origin: Origin {
                index: self.record,
                part,
            },
            extent: Extent {
                body_bytes,
                total_bytes,
                chunks,
            },
            expires_at,
        })
    }
}

/// Gathers columns, as runs.
#[derive(Default)]
pub(super) struct PackWriter {
    sequences: Runs,
    records: Runs,
    bodies: Runs,
    around: Runs,
    parts: Runs,
    chunk_counts: Runs,
    chunk_firsts: Runs,
    expiries: Runs,
    count: u64,
    flags: u8,
    sequence: u64,
    record: u64,
    expiry: Expiry,
}

impl PackWriter {
    /// Adds an entry whose sequence is above the last one.
    #[inline]
    pub(super) fn add(&mut self, entry: &StoredEntry) {
        let StoredEntry {
            sequence,
            origin,
            extent,
            expires_at,
        } = *entry;
        self.count += 1;
        self.sequences.push(sequence.0.wrapping_sub(self.sequence));
        self.sequence = sequence.0;
        self.records.push(zigzag(self.record, origin.index));
        self.record = origin.index;
        self.bodies.push(extent.body_bytes);
        self.around
            .push(zigzag(extent.body_bytes, extent.total_bytes));
        self.parts.push(origin.part.into());
        let chunks = extent.chunks;
        self.chunk_counts.push(chunks.count.into());
        self.chunk_firsts.push(match chunks.count {
            0 => 0,
            _ => zigzag(origin.index, chunks.first),
        });
        self.expiries.push(self.expiry.symbol(expires_at));
        self.flags |= if origin.part > 0 { HAS_PARTS } else { 0 };
        self.flags |= if chunks.count > 0 { HAS_CHUNKS } else { 0 };
        self.flags |= if expires_at.is_some() { HAS_EXPIRY } else { 0 };
    }

    /// Adds entries that every column tells as it told the last one.
    pub(super) fn repeat(&mut self, times: u64) {
        self.count += times;
        let step = self.sequences.repeat(times);
        self.sequence = self.sequence.wrapping_add(step.wrapping_mul(times));
        let step = unzigzag(0, self.records.repeat(times));
        self.record = self.record.wrapping_add(step.wrapping_mul(times));
        self.expiry.skip(self.expiries.repeat(times), times);
        for column in [
            &mut self.bodies,
            &mut self.around,
            &mut self.parts,
            &mut self.chunk_counts,
            &mut self.chunk_firsts,
        ] {
            column.repeat(times);
        }
    }

    /// All of it; `None` of none.
    pub(super) fn packed(&self) -> Option<Packed> {
        (self.count > 0).then(|| Packed(self.finish().into()))
    }

    fn finish(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(WRITTEN_BYTES);
        out.put_varint(self.count);
        out.put_u8(self.flags);
        let mut bytes = Vec::with_capacity(WRITTEN_BYTES);
        let mut put = |column: &Runs, out: &mut Vec<u8>| {
            bytes.clear();
            column.write(&mut bytes);
            out.put_varint(bytes.len() as u64);
            out.put(&bytes);
        };
        for column in [&self.sequences, &self.records, &self.bodies, &self.around] {
            put(column, &mut out);
        }
        if self.flags & HAS_PARTS != 0 {
            put(&self.parts, &mut out);
        }
        if self.flags & HAS_CHUNKS != 0 {
            put(&self.chunk_counts, &mut out);
            put(&self.chunk_firsts, &mut out);
        }
        if self.flags & HAS_EXPIRY != 0 {
            put(&self.expiries, &mut out);
        }
        out
    }
}

/// Room for what regular entries take, and some more.
const WRITTEN_BYTES: usize = 64;
