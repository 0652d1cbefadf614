//! How much may be appended before there is no place for it.
//!
//! Lacks locks: a reading may be a few records old, which the reserve absorbs. Invariant: while
//! `has_room` says yes, what is appended fits without touching the reserve, which is the last
//! prepared segment.
//!
//! The reserve is not the end: once it is used up the log goes on in a short segment, whose
//! space is kept aside too. A checkpoint then sets the reserve's segment free, if nothing in it
//! is needed, and the log returns to it.
//!
//! ```text
//! active: │ written │ left │   prepared: │ segment │ … │   last prepared: │ reserve │
//!                    └─────── publishes ───────────────┘ └ settles only ───────────┘
//! ```

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::batch;
use crate::layout::{SECTOR, align};
use crate::record;

/// Whether segments can be prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// The last segment could be prepared.
    Ample,
    /// There was no space to prepare the next one. It is tried again.
    Full,
}

/// Room in segments that are ready, in bytes.
#[derive(Debug, Default)]
pub(crate) struct Room {
    active: AtomicU64,
    prepared: AtomicU64,
    reserve: AtomicU64,
    unwritten: AtomicU64,
    full: AtomicBool,
    short: AtomicBool,
}

impl Room {
    pub(crate) fn space(&self) -> Space {
        if self.full.load(Ordering::Acquire) {
            Space::Full
        } else {
            Space::Ample
        }
    }

    pub(crate) fn set_space(&self, space: Space) {
        self.full.store(space == Space::Full, Ordering::Release);
    }

    /// So many bytes are left in the active segment. What is left of a short one is for what
    /// asks nobody: with a message in it, it could not be used again.
    pub(crate) fn set_active(&self, bytes: u64, is_short: bool) {
        self.short.store(is_short, Ordering::Release);
        let bytes = if is_short { 0 } else { bytes };
        self.active.store(bytes, Ordering::Release);
    }

    /// The log goes on in the short segment.
    pub(crate) fn is_short(&self) -> bool {
        self.short.load(Ordering::Acquire)
    }

    /// Bytes left in the active segment.
    pub(crate) fn active(&self) -> u64 {
        self.active.load(Ordering::Acquire)
    }

    /// The lengths of the prepared segments in their order.
    pub(crate) fn set_prepared(&self, lengths: impl Iterator<Item = u64>) {
        let (mut sum, mut last) = (0, 0);
        for length in lengths {
            sum += last;
            last = length;
        }
        self.prepared.store(sum, Ordering::Release);
        self.reserve.store(last, Ordering::Release);
    }

    pub(crate) fn appended(&self, bytes: u64) {
        self.unwritten.fetch_add(bytes, Ordering::AcqRel);
    }

    pub(crate) fn written(&self, bytes: u64) {
        self.unwritten.fetch_sub(bytes, Ordering::AcqRel);
    }

    pub(crate) fn unwritten(&self) -> u64 {
        self.unwritten.load(Ordering::Acquire)
    }

    /// Whether payloads of that many bytes together have room outside the reserve. Without a
    /// prepared segment what is left of the active one is the reserve.
    pub(crate) fn has_room(&self, bytes: u64, segment_bytes: u64) -> bool {
        if self.reserve.load(Ordering::Acquire) == 0 {
            return false;
        }
        let need = need(bytes);
        if need > segment_bytes - SECTOR {
            // It will get a segment of its own; whether that can be had shows only then.
            return self.space() == Space::Ample;
        }
        let left = self.active.load(Ordering::Acquire) + self.prepared.load(Ordering::Acquire);
        self.unwritten() + need <= left
    }

    /// Whether records of that many bytes together, none of them longer than a segment, have
    /// room outside the reserve.
    pub(crate) fn fits(&self, bytes: u64) -> bool {
        // What is left at the end of each segment is lost to a record that does not fit there.
        let need = need(bytes.saturating_add(bytes / 4));
        let left = self.active.load(Ordering::Acquire) + self.prepared.load(Ordering::Acquire);
        self.reserve.load(Ordering::Acquire) > 0 && self.unwritten() + need <= left
    }

    /// Bytes that are ready to be written to.
    pub(crate) fn free(&self) -> u64 {
        self.active.load(Ordering::Acquire)
            + self.prepared.load(Ordering::Acquire)
            + self.reserve.load(Ordering::Acquire)
    }

    /// As [`has_room`](Self::has_room), the reserve included.
    pub(crate) fn has_reserve(&self, bytes: u64) -> bool {
        self.unwritten() + need(bytes) <= self.free()
    }
}

/// The bytes that a payload takes at most, alone in its batch.
fn need(bytes: u64) -> u64 {
    align(
        bytes
            .saturating_add(record::HEADER_BYTES + batch::HEADER_BYTES + SECTOR)
            .min(1 << 40),
    )
}
