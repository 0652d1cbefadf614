//! What is wrong with which bytes. Lacks what follows from it, which is recovery's to say.

use std::fmt;

/// Bytes of a segment that are not what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Number in the segment's file name.
    pub segment: u64,
    /// First damaged byte, as far as it can be told.
    pub offset: u64,
    /// How many bytes cannot be trusted.
    pub length: u64,
    /// What is wrong.
    pub kind: DamageKind,
}

/// What is wrong with damaged bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DamageKind {
    /// A payload does not have its checksum.
    Payload {
        /// The checksum in the record's header.
        expected: u32,
        /// The checksum of the bytes that are there.
        actual: u32,
    },
    /// There is no valid record header where one must be.
    RecordHeader,
    /// There is no valid batch header though later batches of the same use follow.
    BatchHeader,
    /// The segment's own header is not valid.
    SegmentHeader,
    /// Batches are missing between this place and the next segment.
    MissingBatches,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            DamageKind::Payload { expected, actual } => {
                write!(
                    f,
                    "payload with checksum {actual:08x} instead of {expected:08x}"
                )?;
            }
            DamageKind::RecordHeader => f.write_str("damaged record header")?,
            DamageKind::BatchHeader => f.write_str("damaged batch header")?,
            DamageKind::SegmentHeader => f.write_str("damaged segment header")?,
            DamageKind::MissingBatches => f.write_str("missing batches")?,
        }
        let Self {
            segment,
            offset,
            length,
            ..
        } = self;
        write!(f, " in segment {segment} at byte {offset} ({length} bytes)")
    }
}
