//! For tests and the simulation: scratch space in memory.

#![expect(
    clippy::disallowed_types,
    reason = "stands in for what the driver provides"
)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use menzil_model::fact::Packed;

use crate::scratch::Scratch;

/// See the module.
#[derive(Debug, Default)]
pub struct MemoryScratch(Mutex<Places>);

#[derive(Debug, Default)]
struct Places {
    pages: BTreeMap<u64, Packed>,
    next: u64,
}

impl MemoryScratch {
    /// Empty scratch space.
    pub fn shared() -> Arc<Self> {
        Arc::default()
    }

    /// Pages that are kept.
    pub fn pages(&self) -> usize {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pages
            .len()
    }
}

impl Scratch for MemoryScratch {
    fn store(&self, page: &[u8]) -> Option<u64> {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (packed, _) = Packed::read(page).ok()?;
        places.next += 1;
        let place = places.next;
        places.pages.insert(place, packed);
        Some(place)
    }

    /// # Panics
    /// Where nothing is there, or something else.
    fn load(&self, place: u64, bytes: u64) -> Packed {
        let places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(page) = places.pages.get(&place) else {
            unreachable!("page {place} is not in scratch space");
        };
        assert_eq!(page.as_bytes().len() as u64, bytes, "another page");
        page.clone()
    }

    fn announce(&self, place: u64, bytes: u64) {
        drop(self.load(place, bytes));
    }

    /// # Panics
    /// Where nothing is there.
    fn free(&self, place: u64, _: u64) {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(places.pages.remove(&place).is_some(), "freed twice");
    }
}
