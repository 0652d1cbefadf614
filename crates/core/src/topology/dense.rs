//! A list without gaps whose items are removed by their place in one step.
//!
//! Whoever owns an item keeps the place that `push` gave. Removing one moves the last item into
//! the gap, and its owner must be told. So order is that of insertion only until the first
//! removal; it depends on the history alone, never on chance.

use smallvec::SmallVec;

/// Copies of small items, one of them inline.
#[derive(Clone, Debug)]
pub(crate) struct Dense<T: Copy>(SmallVec<[T; 1]>);

impl<T: Copy> Default for Dense<T> {
    fn default() -> Self {
        Self(SmallVec::new())
    }
}

impl<T: Copy> Dense<T> {
    /// Adds an item and says its place.
    pub(crate) fn push(&mut self, item: T) -> usize {
        self.0.push(item);
        self.0.len() - 1
    }

    /// Removes the item at a place; answers with the item that now has this place, if another
    /// one moved there.
    pub(crate) fn remove(&mut self, place: usize) -> Option<T> {
        if place < self.0.len() {
            self.0.swap_remove(place);
        }
        self.0.get(place).copied()
    }

    pub(crate) fn get(&self, place: usize) -> Option<T> {
        self.0.get(place).copied()
    }

    pub(crate) fn last(&self) -> Option<T> {
        self.0.last().copied()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = T> + '_ {
        self.0.iter().copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_item_takes_the_place_of_a_removed_one() {
        let mut list = Dense::default();
        for item in [10, 11, 12] {
            list.push(item);
        }
        assert_eq!(list.remove(0), Some(12));
        assert_eq!(list.remove(1), None);
        assert_eq!(list.iter().collect::<Vec<_>>(), [12]);
        assert_eq!(list.remove(7), None);
        assert_eq!(list.len(), 1);
    }
}
