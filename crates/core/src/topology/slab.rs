//! Items under small numbers that are given again after a removal.

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Slab<T> {
    items: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slab<T> {
    /// Keeps an item and says its number.
    pub(crate) fn insert(&mut self, item: T) -> usize {
        if let Some(number) = self.free.pop()
            && let Some(gap) = self.items.get_mut(number)
        {
            *gap = Some(item);
            return number;
        }
        self.items.push(Some(item));
        self.items.len() - 1
    }

    pub(crate) fn remove(&mut self, number: usize) -> Option<T> {
        let item = self.items.get_mut(number)?.take()?;
        self.free.push(number);
        Some(item)
    }

    pub(crate) fn get(&self, number: usize) -> Option<&T> {
        self.items.get(number)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, number: usize) -> Option<&mut T> {
        self.items.get_mut(number)?.as_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        self.items
            .iter()
            .enumerate()
            .filter_map(|(number, item)| Some((number, item.as_ref()?)))
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_freed_number_is_given_again() {
        let mut slab = Slab::default();
        let (a, b) = (slab.insert('a'), slab.insert('b'));
        assert_eq!(slab.remove(a), Some('a'));
        assert_eq!(slab.remove(a), None);
        assert_eq!(slab.insert('c'), a);
        assert_eq!((slab.get(a), slab.get(b)), (Some(&'c'), Some(&'b')));
        assert_eq!(slab.len(), 2);
    }
}
