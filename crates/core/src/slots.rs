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
    watch: Option<Box<Watch>>,
}

/// Who copies items in several steps is told which have changed since.
#[derive(Debug, Default)]
struct Watch {
    /// Of each place that was come to, whether its item is as it was copied.
    is_copied: Vec<bool>,
    /// Places that were copied before what they have now.
    changed: Vec<Place>,
}

impl Watch {
    #[cold]
    fn note(&mut self, place: Place) {
        if let Some(is_copied) = self.is_copied.get_mut(place.0 as usize)
            && std::mem::take(is_copied)
        {
            self.changed.push(place);
        }
    }
}

impl<K, V> Default for Slots<K, V> {
    fn default() -> Self {
        Self {
            places: Map::default(),
            items: Vec::new(),
            free: Vec::new(),
            watch: None,
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
        self.note(place);
        match self.items.get_mut(place.0 as usize) {
            Some(Some((found, item))) if *found == key => Some(item),
            _ => None,
        }
    }

    #[inline]
    fn note(&mut self, place: Place) {
        if let Some(watch) = &mut self.watch {
            watch.note(place);
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
        self.note(place);
        place
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let place = self.places.remove(key)?;
        let (_, item) = self.items.get_mut(place.0 as usize)?.take()?;
        self.free.push(place);
        self.note(place);
        Some(*item)
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let held = self.items.iter().flatten();
        held.map(|(key, item)| (key, item.as_ref()))
    }

    /// The items in that many places from one on; `None` past the last place.
    pub(crate) fn some(&self, from: usize, count: usize) -> Option<impl Iterator<Item = &V>> {
        let places = self.items.get(from..)?.iter().take(count);
        let held = places.flatten().map(|(_, item)| item.as_ref());
        (from < self.items.len()).then_some(held)
    }

    /// Begins to watch for changes, with no item copied.
    pub(crate) fn watch(&mut self) {
        self.watch = Some(Box::default());
    }

    pub(crate) fn end_watch(&mut self) {
        self.watch = None;
    }

    /// The next place that is to be copied, with its item if it has one: it counts as copied.
    pub(crate) fn next_uncopied(&mut self) -> Option<(usize, Option<&V>)> {
        let watch = self.watch.as_mut()?;
        let at = if watch.is_copied.len() < self.items.len() {
            watch.is_copied.push(true);
            watch.is_copied.len() - 1
        } else {
            let at = watch.changed.pop()?.0 as usize;
            *watch.is_copied.get_mut(at)? = true;
            at
        };
        let item = self.items.get(at)?.as_ref();
        Some((at, item.map(|(_, item)| item.as_ref())))
    }

    /// How many places are to be copied.
    pub(crate) fn uncopied_count(&self) -> usize {
        self.watch.as_ref().map_or(0, |watch| {
            self.items.len() - watch.is_copied.len() + watch.changed.len()
        })
    }

    /// How many places there are, taken or not.
    pub(crate) fn place_count(&self) -> usize {
        self.items.len()
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
        fn what_was_copied_in_steps_is_what_is_there(
            steps in prop::collection::vec((0..4_u8, 0..12_u64, any::<u16>()), 0..99),
        ) {
            let (mut slots, mut copy) = (Slots::default(), Vec::new());
            let take = |slots: &mut Slots<u64, u16>, copy: &mut Vec<Option<u16>>| {
                let left = slots.uncopied_count();
                let Some((at, item)) = slots.next_uncopied() else {
                    return false;
                };
                copy.resize(copy.len().max(at + 1), None);
                copy[at] = item.copied();
                assert_eq!(slots.uncopied_count(), left - 1);
                true
            };
            slots.watch();
            for (step, key, value) in steps {
                match step {
                    0 => drop(slots.remove(&key)),
                    1 => drop(slots.insert(key, value)),
                    2 => drop(slots.get_mut(&key).map(|item| *item = value)),
                    _ => drop(take(&mut slots, &mut copy)),
                }
            }
            while take(&mut slots, &mut copy) {}
            prop_assert!(slots.values().eq(copy.iter().flatten()));
            prop_assert_eq!(slots.place_count(), copy.len());
        }

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
