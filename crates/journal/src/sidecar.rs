//! The directory of a sealed segment on disk, so that a start need not read the segment.
//!
//! Lacks anything that cannot be had from the segment: a sidecar that is missing or damaged is
//! rebuilt by scanning. Invariant: it is believed only if its salt is that of the segment, and of
//! a segment with holes, where a repair took records out, only in the version that finds the
//! records after a hole: the one before counted holes as if they were none.
//!
//! ```text
//! magic 4 │ version 4 │ segment 8 │ salt 8 │ end 8 │ first, last batch number 8+8 │ previous 8 │
//! shards 8 │ for each: shard 4 │ marks 4 │ records 4 │ gaps 4 │ first, last index 8+8 │
//!            marks × (index 8 │ offset 4 │ rank 4 │ bytes 4) │ gaps × 1 │ … │ crc 4
//! ```

use menzil_model::ShardId;

use crate::contents::{Contents, Mark, Run, marks_max};
use crate::layout::{checksum, range, to_u32, u32_at, u64_at};

pub(crate) fn encode(segment: u64, salt: u64, contents: &Contents) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&version(contents).to_le_bytes());
    for field in [
        segment,
        salt,
        contents.end,
        contents.first_number,
        contents.last_number,
        contents.previous,
        contents.runs.len() as u64,
    ] {
        bytes.extend_from_slice(&field.to_le_bytes());
    }
    for (shard, run) in &contents.runs {
        let (marks, gaps) = (to_u32(run.marks.len()), to_u32(run.gaps.len()));
        for field in [shard.0, marks, run.records, gaps] {
            bytes.extend_from_slice(&field.to_le_bytes());
        }
        for field in [run.first, run.last] {
            bytes.extend_from_slice(&field.to_le_bytes());
        }
        for mark in &run.marks {
            bytes.extend_from_slice(&mark.index.to_le_bytes());
            for field in [mark.offset, mark.rank, mark.bytes] {
                bytes.extend_from_slice(&field.to_le_bytes());
            }
        }
        bytes.extend_from_slice(&run.gaps);
    }
    bytes.extend_from_slice(&checksum(&bytes).to_le_bytes());
    bytes
}

/// What the segment holds, `None` if the sidecar is damaged or of another use.
pub(crate) fn decode(
    bytes: &[u8],
    segment: u64,
    salt: u64,
    segment_bytes: u64,
) -> Option<Contents> {
    let body = bytes.len().checked_sub(4)?;
    let sound = u32_at(bytes, body)? == checksum(bytes.get(..body)?)
        && bytes.get(..4)? == MAGIC
        && u64_at(bytes, 8)? == segment
        && u64_at(bytes, 16)? == salt;
    sound.then_some(())?;
    let mut contents = Contents {
        end: u64_at(bytes, 24)?,
        first_number: u64_at(bytes, 32)?,
        last_number: u64_at(bytes, 40)?,
        previous: u64_at(bytes, 48)?,
        ..Contents::default()
    };
    let mut at = 64;
    for _ in 0..u64_at(bytes, 56)? {
        let (shard, run, end) = decode_run(bytes, at, marks_max(segment_bytes))?;
        contents.runs.insert(shard, run);
        at = end;
    }
    let version = u32_at(bytes, 4)?;
    (at == body as u64 && version == self::version(&contents)).then_some(contents)
}

fn version(contents: &Contents) -> u32 {
    if contents.runs.values().any(Run::has_holes) {
        VERSION_WITH_HOLES
    } else {
        VERSION
    }
}

fn decode_run(bytes: &[u8], at: u64, marks_max: u32) -> Option<(ShardId, Run, u64)> {
    let head = range(bytes, at, at + RUN_BYTES)?;
    let (marks, gaps) = (u32_at(head, 4)?, u32_at(head, 12)?);
    (marks <= marks_max && gaps <= marks_max).then_some(())?;
    let end = at + RUN_BYTES + u64::from(marks) * MARK_BYTES as u64;
    let marks = range(bytes, at + RUN_BYTES, end)?.chunks_exact(MARK_BYTES);
    let mark = |field: &[u8]| {
        Some(Mark {
            index: u64_at(field, 0)?,
            offset: u32_at(field, 8)?,
            rank: u32_at(field, 12)?,
            bytes: u32_at(field, 16)?,
        })
    };
    let run = Run {
        first: u64_at(head, 16)?,
        last: u64_at(head, 24)?,
        records: u32_at(head, 8)?,
        marks: marks.map(mark).collect::<Option<_>>()?,
        gaps: range(bytes, end, end + u64::from(gaps))?.to_vec(),
        ..Run::default()
    };
    Some((ShardId(u32_at(head, 0)?), run, end + u64::from(gaps)))
}

const RUN_BYTES: u64 = 32;
const MARK_BYTES: usize = 20;
const MAGIC: [u8; 4] = *b"mDir";
const VERSION: u32 = 2;
const VERSION_WITH_HOLES: u32 = 3;

#[cfg(test)]
mod tests {
    use menzil_model::Position;

    use super::*;
    use crate::counts::References;

    #[test]
    fn a_sidecar_is_read_back_and_every_flipped_byte_is_noticed() {
        let mut contents = Contents {
            end: 4096,
            first_number: 7,
            last_number: 9,
            previous: 3,
            ..Contents::default()
        };
        for index in 1..5 {
            let offset = 512 + u32::try_from(index).unwrap() * 64;
            let shard = ShardId(2);
            contents.push(Position { shard, index }, offset, 64);
        }
        let mut cold = Run::default();
        cold.push_cold(70, 900, 64, 0);
        cold.push_cold(90, 964, 64, 0);
        contents.runs.insert(ShardId(9), cold);
        contents
            .runs
            .values_mut()
            .for_each(|run| run.references = References::default());
        let bytes = encode(4, 77, &contents);
        assert_eq!(decode(&bytes, 4, 77, 1 << 16).as_ref(), Some(&contents));
        assert_eq!(decode(&bytes, 4, 78, 1 << 16), None);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert_eq!(decode(&damaged, 4, 77, 1 << 16), None, "byte {at}");
        }
    }

    #[test]
    fn a_sidecar_that_counted_holes_as_records_is_not_believed() {
        let mut contents = Contents::default();
        let position = |index| Position {
            shard: ShardId(2),
            index,
        };
        contents.push(position(1), 512, 64);
        contents.push_gone(position(2), 1);
        contents.push(position(3), 640, 64);
        let mut bytes = encode(4, 77, &contents);
        assert!(decode(&bytes, 4, 77, 1 << 16).is_some());
        bytes[4..8].copy_from_slice(&VERSION.to_le_bytes());
        let body = bytes.len() - 4;
        let crc = checksum(&bytes[..body]);
        bytes[body..].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(decode(&bytes, 4, 77, 1 << 16), None);
    }
}
