//! The numbers of bindings, found by what they bind.
//!
//! A binding is not kept here, only its hash: a table that grows looks at nothing else, so that
//! the bind which makes it grow holds nobody up.

use std::hash::BuildHasher;

use hashbrown::HashTable;
use menzil_model::FixedHasher;
use menzil_model::fact::Binding;

use super::Record;
use super::shared::Shared;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbers {
    /// With the hash of the binding.
    table: HashTable<(u64, usize)>,
    hasher: FixedHasher,
}

impl Numbers {
    pub(super) fn find(&self, bindings: &Shared<Record>, binding: &Binding) -> Option<usize> {
        let hash = self.hasher.hash_one(binding);
        let is_it = |(other, number): &(u64, usize)| {
            let record = bindings.get(*number).filter(|_| *other == hash);
            record.is_some_and(|record| record.binding == *binding)
        };
        self.table.find(hash, is_it).map(|(_, number)| *number)
    }

    /// Notes a binding that has no number here.
    pub(super) fn insert(&mut self, binding: &Binding, number: usize) {
        let hash = self.hasher.hash_one(binding);
        self.table
            .insert_unique(hash, (hash, number), |(hash, _)| *hash);
    }

    /// Forgets a binding of that number.
    pub(super) fn remove(&mut self, binding: &Binding, number: usize) {
        let hash = self.hasher.hash_one(binding);
        let found = self.table.find_entry(hash, |(_, other)| *other == number);
        if let Ok(entry) = found {
            entry.remove();
        }
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }
}
