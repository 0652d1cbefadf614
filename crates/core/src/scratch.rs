//! Where packed pages lie: in memory, and what is over the bound in scratch space that lasts as
//! long as the process. Nothing durable hangs on it: the journal and its checkpoints have all.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use menzil_model::fact::Packed;

/// Bytes below which a page is no smaller for being elsewhere.
const AWAY_LEAST_BYTES: u64 = 128;

/// Scratch space, which the driver provides. It is used while a shard is held, so none of it may
/// wait for a disk if that can be helped: a page is announced before it is wanted.
pub trait Scratch: fmt::Debug + Send + Sync {
    /// Keeps a copy of a page and says where; `None` where there is no room.
    fn store(&self, page: &[u8]) -> Option<u64>;

    /// The page that was stored there. One that does not come back as it was ends the process,
    /// which finds it all in the journal again.
    fn load(&self, place: u64, bytes: u64) -> Packed;

    /// The page is wanted soon.
    fn announce(&self, place: u64, bytes: u64);

    /// The page is not wanted any more.
    fn free(&self, place: u64, bytes: u64);
}

/// Says which pages of a shard stay in memory.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    scratch: Option<Arc<dyn Scratch>>,
    bytes_max: u64,
    here: AtomicU64,
    away: AtomicU64,
}

impl Shelf {
    pub(crate) fn new(scratch: Option<Arc<dyn Scratch>>, bytes_max: u64) -> Arc<Self> {
        Arc::new(Self {
            scratch,
            bytes_max,
            ..Self::default()
        })
    }

    /// Puts a page away. Where memory has its fill the new ones go: they are at the end of their
    /// queue, and wanted last.
    pub(crate) fn put(self: &Arc<Self>, packed: Packed) -> Shelved {
        let bytes = packed.as_bytes().len() as u64;
        let is_over = self.here.load(Ordering::Relaxed) + bytes > self.bytes_max;
        let is_worth_it = bytes >= AWAY_LEAST_BYTES || self.bytes_max == 0;
        let scratch = self.scratch.as_ref().filter(|_| is_over && is_worth_it);
        let away = scratch.and_then(|scratch| {
            let place = scratch.store(packed.as_bytes())?;
            let scratch = Arc::clone(scratch);
            Some(At::Away {
                scratch,
                place,
                bytes,
            })
        });
        let (sum, at) = match away {
            Some(away) => (&self.away, away),
            None => (&self.here, At::Here(packed)),
        };
        sum.fetch_add(bytes, Ordering::Relaxed);
        let shelf = Arc::clone(self);
        Shelved(Arc::new(Slot { shelf, at }))
    }

    /// Bytes of pages in memory.
    pub(crate) fn bytes_here(&self) -> u64 {
        self.here.load(Ordering::Relaxed)
    }

    /// Bytes of pages in scratch space.
    pub(crate) fn bytes_away(&self) -> u64 {
        self.away.load(Ordering::Relaxed)
    }
}

/// A page that was put away. Cheap to clone; the last one frees its place.
#[derive(Clone, Debug)]
pub(crate) struct Shelved(Arc<Slot>);

#[derive(Debug)]
struct Slot {
    shelf: Arc<Shelf>,
    at: At,
}

#[derive(Debug)]
enum At {
    Here(Packed),
    Away {
        scratch: Arc<dyn Scratch>,
        place: u64,
        bytes: u64,
    },
}

impl Shelved {
    /// The page.
    pub(crate) fn packed(&self) -> Packed {
        match &self.0.at {
            At::Here(packed) => packed.clone(),
            At::Away {
                scratch,
                place,
                bytes,
            } => scratch.load(*place, *bytes),
        }
    }

    /// Bytes that it takes, wherever it is.
    pub(crate) fn bytes(&self) -> u64 {
        match &self.0.at {
            At::Here(packed) => packed.as_bytes().len() as u64,
            At::Away { bytes, .. } => *bytes,
        }
    }

    /// It is wanted soon.
    pub(crate) fn announce(&self) {
        if let At::Away {
            scratch,
            place,
            bytes,
        } = &self.0.at
        {
            scratch.announce(*place, *bytes);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        match &self.at {
            At::Here(packed) => {
                let bytes = packed.as_bytes().len() as u64;
                self.shelf.here.fetch_sub(bytes, Ordering::Relaxed);
            }
            At::Away {
                scratch,
                place,
                bytes,
            } => {
                self.shelf.away.fetch_sub(*bytes, Ordering::Relaxed);
                scratch.free(*place, *bytes);
            }
        }
    }
}
