//! The directory of a sealed segment on disk, so that a start need not read the segment.
//!
//! Lacks anything that cannot be had from the segment: a sidecar that is missing or damaged is
//! rebuilt by scanning. Invariant: it is believed only if its salt is that of the segment.
//!
//! ```text
//! magic 4 │ version 4 │ segment 8 │ salt 8 │ end 8 │ first, last batch number 8+8 │ previous 8 │
//! shards 8 │ for each: shard 4 │ count 4 │ first index 8 │ count × offset 4 │ … │ crc 4
//! ```

use menzil_model::ShardId;

use crate::directory::{Contents, Run, run_length_max};
use crate::layout::{checksum, to_u32, to_usize, u32_at, u64_at};

pub(crate) fn encode(segment: u64, salt: u64, contents: &Contents) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
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
        bytes.extend_from_slice(&shard.0.to_le_bytes());
        bytes.extend_from_slice(&to_u32(run.offsets.len()).to_le_bytes());
        bytes.extend_from_slice(&run.first.to_le_bytes());
        for offset in &run.offsets {
            bytes.extend_from_slice(&offset.to_le_bytes());
        }
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
        && u32_at(bytes, 4)? == VERSION
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
        let shard = ShardId(u32_at(bytes, at)?);
        let count = u32_at(bytes, at + 4)?;
        (count <= run_length_max(segment_bytes)).then_some(())?;
        let first = u64_at(bytes, at + 8)?;
        let start = at + 16;
        at = start + to_usize(u64::from(count) * 4);
        let offsets = bytes
            .get(start..at)?
            .chunks_exact(4)
            .filter_map(|field| u32_at(field, 0));
        contents.runs.insert(
            shard,
            Run {
                first,
                offsets: offsets.collect(),
            },
        );
    }
    (at == body).then_some(contents)
}

const MAGIC: [u8; 4] = *b"mDir";
const VERSION: u32 = 1;

#[cfg(test)]
mod tests {
    use menzil_model::Position;

    use super::*;

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
            contents.push(
                Position {
                    shard: ShardId(2),
                    index,
                },
                offset,
            );
        }
        contents.push(
            Position {
                shard: ShardId(9),
                index: 70,
            },
            900,
        );
        let bytes = encode(4, 77, &contents);
        assert_eq!(decode(&bytes, 4, 77, 1 << 16).as_ref(), Some(&contents));
        assert_eq!(decode(&bytes, 4, 78, 1 << 16), None);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert_eq!(decode(&damaged, 4, 77, 1 << 16), None, "byte {at}");
        }
    }
}
