//! Items by key, and by the place that an item keeps for as long as it is there.
//!
//! Who meets an item once remembers its place and finds it again without hashing. Places are
//! given again after a removal, so the key goes with the place and is compared: a stale place
//! finds nothing.

use std::hash::Hash;

use menzil_model::Map;

/// Where an item lies; means something only together with its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place(u32);

/// See the module.
#[derive(Debug)]
pub(crate) struct Slots<K, V> {
    places: Map<K, Place>,
    items: Vec<Option<(K, Box<V>)>>,
    free: Vec<Place>,
}

impl<K, V> Default for Slots<K, V> {
    fn default() -> Self {
        Self {
            places: Map::default(),
            items: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<K: Copy + Eq + Hash, V> Slots<K, V> {
    /// Where the item of that key lies.
    pub(crate) fn place(&self, key: &K) -> Option<Place> {
        self.places.get(key).copied()
    }

    /// The item of that key, if it lies there.
    #[inline]
    pub(crate) fn at(&self, place: Place, key: K) -> Option<&V> {
        match self.items.get(place.0 as usize) {
            Some(Some((found, item))) if *found == key => Some(item),
            _ => None,
        }
    }

    /// As [`Slots::at`].
    #[inline]
    pub(crate) fn at_mut(&mut self, place: Place, key: K) -> Option<&mut V> {
        match self.items.get_mut(place.0 as usize) {
            Some(Some((found, item))) if *found == key => Some(item),
            _ => None,
        }
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.at(*self.places.get(key)?, *key)
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.at_mut(*self.places.get(key)?, *key)
    }

    pub(crate) fn contains_key(&self, key: &K) -> bool {
        self.places.contains_key(key)
    }

    /// Adds an item, in the place of the one that had the key.
    pub(crate) fn insert(&mut self, key: K, item: V) -> Place {
        let place = self.places.get(&key).copied().unwrap_or_else(|| {
            self.free.pop().unwrap_or_else(|| {
                self.items.push(None);
                Place(u32::try_from(self.items.len() - 1).unwrap_or(u32::MAX))
            })
        });
        if let Some(slot) = self.items.get_mut(place.0 as usize) {
            *slot = Some((key, Box::new(item)));
            self.places.insert(key, place);
        }
        place
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let place = self.places.remove(key)?;
        let (_, item) = self.items.get_mut(place.0 as usize)?.take()?;
        self.free.push(place);
        Some(*item)
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let held = self.items.iter().flatten();
        held.map(|(key, item)| (key, item.as_ref()))
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, item)| item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_place_that_was_given_again_is_not_taken_for_the_first_item() {
        let mut slots = Slots::default();
        let place = slots.insert(7_u64, 'a');
        assert_eq!(slots.at(place, 7), Some(&'a'));
        assert_eq!(slots.remove(&7), Some('a'));
        assert_eq!(slots.insert(8, 'b'), place);
        assert_eq!((slots.at(place, 7), slots.at(place, 8)), (None, Some(&'b')));
    }

    proptest! {
        #[test]
        fn behaves_as_a_map(steps in prop::collection::vec((0..3_u8, 0..12_u64, any::<u16>()), 0..99)) {
            let (mut slots, mut map) = (Slots::default(), std::collections::BTreeMap::new());
            for (step, key, value) in steps {
                if step == 0 {
                    prop_assert_eq!(slots.remove(&key), map.remove(&key));
                } else {
                    let place = slots.insert(key, value);
                    prop_assert_eq!(slots.at_mut(place, key), Some(&mut value.clone()));
                    map.insert(key, value);
                }
                prop_assert_eq!(slots.len(), map.len());
                prop_assert_eq!(slots.keys().count(), map.len());
                for (key, value) in slots.iter() {
                    prop_assert_eq!(map.get(key), Some(value));
                    prop_assert_eq!(slots.get(key), Some(value));
                    prop_assert_eq!(slots.place(key).and_then(|place| slots.at(place, *key)), Some(value));
                }
            }
        }
    }
}
