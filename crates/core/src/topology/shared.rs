//! Items under small numbers, as in a [`Slab`](super::slab::Slab), of which a copy costs little:
//! they lie in blocks, which are copied when they change while a copy shares them.

use std::sync::Arc;

use super::slab::Slab;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Shared<T> {
    blocks: Vec<Block<T>>,
    /// Whether a number is given, and which are free.
    numbers: Slab<()>,
}

type Block<T> = Arc<Vec<Option<T>>>;

/// Items in a block: what the first change after a copy copies.
const BLOCK_ITEMS: usize = if cfg!(test) { 2 } else { 32 };

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self {
            blocks: Vec::new(),
            numbers: Slab::default(),
        }
    }
}

impl<T: Clone> Shared<T> {
    /// Keeps an item and says its number.
    pub(crate) fn insert(&mut self, item: T) -> usize {
        let number = self.numbers.insert(());
        let at = number / BLOCK_ITEMS;
        if at == self.blocks.len() {
            self.blocks.push(Arc::new(Vec::with_capacity(BLOCK_ITEMS)));
        }
        if let Some(block) = self.blocks.get_mut(at) {
            let block = Arc::make_mut(block);
            match block.get_mut(number % BLOCK_ITEMS) {
                Some(gap) => *gap = Some(item),
                None => block.push(Some(item)),
            }
        }
        number
    }

    pub(crate) fn remove(&mut self, number: usize) -> Option<T> {
        self.numbers.remove(number)?;
        let block = self.blocks.get_mut(number / BLOCK_ITEMS)?;
        Arc::make_mut(block).get_mut(number % BLOCK_ITEMS)?.take()
    }

    pub(crate) fn get(&self, number: usize) -> Option<&T> {
        let block = self.blocks.get(number / BLOCK_ITEMS)?;
        block.get(number % BLOCK_ITEMS)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, number: usize) -> Option<&mut T> {
        let block = self.blocks.get_mut(number / BLOCK_ITEMS)?;
        Arc::make_mut(block).get_mut(number % BLOCK_ITEMS)?.as_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        let items = self.blocks.iter().flat_map(|block| block.iter());
        let numbered = items.enumerate();
        numbered.filter_map(|(number, item)| Some((number, item.as_ref()?)))
    }

    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// The items as they are now.
    pub(crate) fn share(&self) -> SharedItems<T> {
        SharedItems(self.blocks.clone())
    }
}

/// Items as they were at one moment.
#[derive(Clone, Debug)]
pub(crate) struct SharedItems<T>(Vec<Block<T>>);

impl<T> SharedItems<T> {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flat_map(|block| block.iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn behaves_as_a_slab_and_copies_stay_as_they_were(
            steps in prop::collection::vec((0..4_u8, 0..12_usize, any::<u16>()), 0..99),
        ) {
            let (mut shared, mut slab) = (Shared::default(), Slab::default());
            let mut copies: Vec<(SharedItems<u16>, Vec<u16>)> = Vec::new();
            for (step, number, item) in steps {
                match step {
                    0 => prop_assert_eq!(shared.remove(number), slab.remove(number)),
                    1 => prop_assert_eq!(shared.insert(item), slab.insert(item)),
                    2 => {
                        let place = slab.get_mut(number).map(|place| *place = item);
                        let same = shared.get_mut(number).map(|place| *place = item);
                        prop_assert_eq!(same, place);
                    }
                    _ => {
                        let items = slab.iter().map(|(_, item)| *item).collect();
                        copies.push((shared.share(), items));
                    }
                }
                let items: BTreeMap<usize, u16> = shared.iter().map(|(n, item)| (n, *item)).collect();
                prop_assert!(slab.iter().eq(items.iter().map(|(n, item)| (*n, item))));
                prop_assert!(items.iter().all(|(n, item)| shared.get(*n) == Some(item)));
                prop_assert_eq!(shared.len(), slab.len());
            }
            for (copy, items) in &copies {
                prop_assert!(copy.iter().eq(items));
            }
        }
    }
}
