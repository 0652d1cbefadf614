//! The bytes of a damaged payload as they are, for people who ask what was lost.
//!
//! Invariant: nothing is done with them but shown.

use crate::damage::{Damage, DamageKind};
use crate::disk::{Disk, DiskFile};
use crate::folder::Name;
use crate::layout::to_usize;
use crate::record::{self, RecordHeader};

/// What stands where a payload is damaged; `None` where more than the payload is. Not to be
/// believed: at least one byte of it is wrong.
pub fn remains<D: Disk>(disk: &D, damage: &Damage) -> Option<Vec<u8>> {
    let DamageKind::Payload { expected, .. } = damage.kind else {
        return None;
    };
    let names = [Name::Segment(damage.segment), Name::Cold(damage.segment)];
    names.iter().find_map(|name| {
        let file = disk.open(&name.to_string()).ok()?;
        let end = damage.offset.checked_add(damage.length)?;
        if file.len().ok()? < end {
            return None;
        }
        let mut bytes = vec![0; to_usize(damage.length)];
        file.read_at(&mut bytes, damage.offset).ok()?;
        let header = RecordHeader::peek(&bytes).filter(|header| header.payload_crc == expected)?;
        record::payload(&bytes, &header).map(<[u8]>::to_vec)
    })
}
