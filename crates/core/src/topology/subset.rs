//! Sets of numbers, and the question which of them lie wholly within a given one.
//!
//! Each set is a path of its numbers in rising order; paths that begin alike share nodes. The
//! answer descends only through numbers that are given, so sets that hold another number cost
//! nothing from that number on, however many they are.

use menzil_model::Map;

use super::dense::Dense;
use super::slab::Slab;

/// Values by set.
#[derive(Clone, Debug)]
pub(crate) struct Subsets<T: Copy> {
    nodes: Slab<Node<T>>,
    root: usize,
}

#[derive(Clone, Debug)]
struct Node<T: Copy> {
    children: Map<usize, usize>,
    values: Dense<T>,
}

impl<T: Copy> Default for Node<T> {
    fn default() -> Self {
        Self {
            children: Map::default(),
            values: Dense::default(),
        }
    }
}

/// What searching writes to, kept between calls.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scratch {
    /// Nodes to look at, and the place in the given numbers from where to go on.
    stack: Vec<(usize, usize)>,
}

impl<T: Copy> Default for Subsets<T> {
    fn default() -> Self {
        let mut nodes = Slab::default();
        let root = nodes.insert(Node::default());
        Self { nodes, root }
    }
}

impl<T: Copy> Subsets<T> {
    /// Adds a value to a set, given in rising order; says the value's place there.
    pub(crate) fn insert(&mut self, set: &[usize], value: T) -> usize {
        let mut here = self.root;
        for number in set {
            here = match self.child(here, *number) {
                Some(child) => child,
                None => self.add_child(here, *number),
            };
        }
        self.nodes
            .get_mut(here)
            .map(|node| node.values.push(value))
            .unwrap_or_default()
    }

    /// Removes the value at a place of a set; answers with the value that moved there.
    pub(crate) fn remove(&mut self, set: &[usize], place: usize) -> Option<T> {
        let mut path = Vec::new();
        let mut here = self.root;
        for number in set {
            path.push((here, *number));
            here = self.child(here, *number)?;
        }
        let moved = self.nodes.get_mut(here)?.values.remove(place);
        while let Some((parent, number)) = path.pop()
            && self
                .nodes
                .get(here)
                .is_some_and(|node| node.values.is_empty() && node.children.is_empty())
        {
            self.nodes.remove(here);
            if let Some(parent) = self.nodes.get_mut(parent) {
                parent.children.remove(&number);
            }
            here = parent;
        }
        moved
    }

    /// The value at a place of a set.
    pub(crate) fn get(&self, set: &[usize], place: usize) -> Option<T> {
        let here = set
            .iter()
            .try_fold(self.root, |here, number| self.child(here, *number))?;
        self.nodes.get(here)?.values.get(place)
    }

    /// Calls `found` with the values of every set within `given`, which rises. Answers how
    /// many nodes were looked at.
    pub(crate) fn within(
        &self,
        given: &[usize],
        scratch: &mut Scratch,
        mut found: impl FnMut(T),
    ) -> u64 {
        let mut visits = 0;
        scratch.stack.clear();
        scratch.stack.push((self.root, 0));
        while let Some((here, from)) = scratch.stack.pop() {
            visits += 1;
            let Some(node) = self.nodes.get(here) else {
                continue;
            };
            node.values.iter().for_each(&mut found);
            let rest = given.get(from..).unwrap_or_default();
            // Whichever of the two is shorter, so that neither a long list of headers nor a
            // node with many children is paid for in full.
            if node.children.len() <= rest.len() {
                for (number, child) in &node.children {
                    if let Ok(place) = rest.binary_search(number) {
                        scratch.stack.push((*child, from + place + 1));
                    }
                }
            } else {
                for (place, number) in rest.iter().enumerate() {
                    if let Some(child) = node.children.get(number) {
                        scratch.stack.push((*child, from + place + 1));
                    }
                }
            }
        }
        visits
    }

    fn child(&self, node: usize, number: usize) -> Option<usize> {
        self.nodes.get(node)?.children.get(&number).copied()
    }

    fn add_child(&mut self, node: usize, number: usize) -> usize {
        let child = self.nodes.insert(Node::default());
        if let Some(node) = self.nodes.get_mut(node) {
            node.children.insert(number, child);
        }
        child
    }

    /// How many values there are.
    pub(crate) fn len(&self) -> usize {
        self.nodes.iter().map(|(_, node)| node.values.len()).sum()
    }

    /// Panics if a node serves no set.
    pub(crate) fn check_invariants(&self) {
        let mut children = 0;
        for (number, node) in self.nodes.iter() {
            let vacant = node.values.is_empty() && node.children.is_empty();
            assert!(number == self.root || !vacant, "a node serves no set");
            for child in node.children.values() {
                children += 1;
                assert!(self.nodes.get(*child).is_some(), "a child is gone");
            }
        }
        assert_eq!(children + 1, self.nodes.len(), "each node has one parent");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn set() -> impl Strategy<Value = Vec<usize>> {
        prop::collection::btree_set(0_usize..8, 0..6).prop_map(|set| set.into_iter().collect())
    }

    proptest! {
        #[test]
        fn the_sets_within_are_found_as_by_a_scan(
            sets in prop::collection::vec(set(), 0..60),
            given in prop::collection::vec(set(), 1..6),
        ) {
            let mut index = Subsets::default();
            let mut places = Vec::new();
            for (value, set) in sets.iter().enumerate() {
                places.push(index.insert(set, value));
            }
            // Every third goes again.
            let mut left: Vec<usize> = (0..sets.len()).collect();
            for value in (0..sets.len()).step_by(3) {
                if let Some(moved) = index.remove(&sets[value], places[value]) {
                    places[moved] = places[value];
                }
                left.retain(|other| *other != value);
                index.check_invariants();
            }
            prop_assert_eq!(index.len(), left.len());
            let mut scratch = Scratch::default();
            for given in &given {
                let mut found = Vec::new();
                index.within(given, &mut scratch, |value| found.push(value));
                found.sort_unstable();
                let expected: Vec<usize> = left
                    .iter()
                    .copied()
                    .filter(|value| sets[*value].iter().all(|number| given.contains(number)))
                    .collect();
                prop_assert_eq!(found, expected);
            }
        }
    }
}
