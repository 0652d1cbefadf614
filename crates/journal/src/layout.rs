//! Little-endian fields at fixed places, and the checksum of everything on disk.
//!
//! Lacks any structure: each format file says where its fields lie. Invariant: reading outside
//! of the bytes is `None`, never a panic.

/// What a disk writes wholly or not at all. Batches start on a sector, so that a batch that is
/// torn cannot take its committed neighbour with it.
pub(crate) const SECTOR: u64 = 512;

/// What the system keeps and writes as one.
pub(crate) const PAGE: u64 = 4096;

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    field(bytes, at).map(u16::from_le_bytes)
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    field(bytes, at).map(u32::from_le_bytes)
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    field(bytes, at).map(u64::from_le_bytes)
}

/// Writes a field; the caller's buffer is as long as its layout says.
pub(crate) fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    let target = at
        .checked_add(value.len())
        .and_then(|end| bytes.get_mut(at..end));
    debug_assert!(target.is_some(), "a field outside of its layout");
    if let Some(target) = target {
        target.copy_from_slice(value);
    }
}

/// The bytes from `start` to `end`, `None` if they are not all there.
pub(crate) fn range(bytes: &[u8], start: u64, end: u64) -> Option<&[u8]> {
    bytes.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
}

/// CRC-32C.
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// The next multiple of eight.
pub(crate) fn align(length: u64) -> u64 {
    length.next_multiple_of(8)
}

/// The next multiple of a sector.
pub(crate) fn sectors(length: u64) -> u64 {
    length.next_multiple_of(SECTOR)
}

/// A length that is known to fit in memory; the platforms we run on have 64 bits.
pub(crate) fn to_usize(length: u64) -> usize {
    usize::try_from(length).unwrap_or(usize::MAX)
}

/// A length that its bounds keep under 4 GiB.
pub(crate) fn to_u32(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}
