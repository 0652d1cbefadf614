//! Patterns of words with wildcards, matched against keys of words.
//!
//! A key is matched by walking its words once with the set of nodes that the words so far lead
//! to. A wildcard for many words stays in that set, so any number of them costs at most
//! (words + 1) × nodes, and each pattern is found once. Wildcards in a key are plain words.
//!
//! The separator and the two wildcard words are parameters; AMQP's are [`Syntax::AMQP`]
//! (AMQP 0-9-1 §3.1.3.3).

use menzil_model::Map;

use super::marks::Marks;
use super::slab::Slab;

/// How keys and patterns are written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Syntax {
    /// Stands between two words.
    pub(crate) separator: u8,
    /// The word that stands for exactly one word.
    pub(crate) one: &'static [u8],
    /// The word that stands for zero words or more.
    pub(crate) many: &'static [u8],
}

impl Syntax {
    /// Topic exchanges.
    pub(crate) const AMQP: Self = Self {
        separator: b'.',
        one: b"*",
        many: b"#",
    };

    /// The words of a key or pattern. An empty one has no words; otherwise there is one word
    /// more than separators, and words may be empty.
    fn words<'a>(&self, text: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let separator = self.separator;
        text.split(move |byte| *byte == separator)
            .skip(usize::from(text.is_empty()))
    }
}

/// A value for each pattern.
#[derive(Clone, Debug)]
pub(crate) struct Trie<V> {
    syntax: Syntax,
    nodes: Slab<Node<V>>,
    root: usize,
}

#[derive(Clone, Debug)]
struct Node<V> {
    value: Option<V>,
    /// This node was reached by the wildcard for many words.
    repeats: bool,
    words: Map<Box<[u8]>, usize>,
    one: Option<usize>,
    many: Option<usize>,
}

impl<V> Node<V> {
    fn new(repeats: bool) -> Self {
        Self {
            value: None,
            repeats,
            words: Map::default(),
            one: None,
            many: None,
        }
    }

    fn is_vacant(&self) -> bool {
        self.value.is_none() && self.words.is_empty() && self.one.is_none() && self.many.is_none()
    }
}

/// What matching writes to, kept between calls.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scratch {
    here: Vec<usize>,
    next: Vec<usize>,
    /// The repeating nodes among `next`; any other node has one way in and cannot come twice.
    marks: Marks,
    /// Nodes looked at since the beginning.
    pub(crate) visits: u64,
}

impl<V: Default> Trie<V> {
    pub(crate) fn new(syntax: Syntax) -> Self {
        let mut nodes = Slab::default();
        let root = nodes.insert(Node::new(false));
        Self {
            syntax,
            nodes,
            root,
        }
    }

    /// The value of a pattern, made if it is not there.
    pub(crate) fn entry(&mut self, pattern: &[u8]) -> Option<&mut V> {
        let syntax = self.syntax;
        let mut here = self.root;
        for word in syntax.words(pattern) {
            here = match self.child(here, word) {
                Some(child) => child,
                None => self.add_child(here, word)?,
            };
        }
        let node = self.nodes.get_mut(here)?;
        Some(node.value.get_or_insert_default())
    }

    /// The value of a pattern.
    pub(crate) fn find_mut(&mut self, pattern: &[u8]) -> Option<&mut V> {
        let here = self.find_node(pattern)?;
        self.nodes.get_mut(here)?.value.as_mut()
    }

    /// See [`Trie::find_mut`].
    pub(crate) fn find(&self, pattern: &[u8]) -> Option<&V> {
        self.nodes.get(self.find_node(pattern)?)?.value.as_ref()
    }

    /// Removes the value of a pattern and the nodes that only it needed.
    pub(crate) fn remove(&mut self, pattern: &[u8]) -> Option<V> {
        let mut path = Vec::new();
        let mut here = self.root;
        for word in self.syntax.words(pattern) {
            path.push((here, word));
            here = self.child(here, word)?;
        }
        let value = self.nodes.get_mut(here)?.value.take()?;
        while let Some((parent, word)) = path.pop()
            && self.nodes.get(here).is_some_and(Node::is_vacant)
        {
            self.nodes.remove(here);
            self.unlink(parent, word);
            here = parent;
        }
        Some(value)
    }

    fn find_node(&self, pattern: &[u8]) -> Option<usize> {
        self.syntax
            .words(pattern)
            .try_fold(self.root, |here, word| self.child(here, word))
    }

    fn child(&self, node: usize, word: &[u8]) -> Option<usize> {
        let node = self.nodes.get(node)?;
        if word == self.syntax.many {
            node.many
        } else if word == self.syntax.one {
            node.one
        } else {
            node.words.get(word).copied()
        }
    }

    fn add_child(&mut self, node: usize, word: &[u8]) -> Option<usize> {
        let (one, many) = (word == self.syntax.one, word == self.syntax.many);
        let child = self.nodes.insert(Node::new(many));
        let node = self.nodes.get_mut(node)?;
        if many {
            node.many = Some(child);
        } else if one {
            node.one = Some(child);
        } else {
            node.words.insert(Box::from(word), child);
        }
        Some(child)
    }

    fn unlink(&mut self, node: usize, word: &[u8]) {
        let Some(node) = self.nodes.get_mut(node) else {
            return;
        };
        if word == self.syntax.many {
            node.many = None;
        } else if word == self.syntax.one {
            node.one = None;
        } else {
            node.words.remove(word);
        }
    }

    /// Calls `found` with the value of every pattern that matches the key, each once.
    pub(crate) fn matches<'a>(
        &'a self,
        key: &[u8],
        scratch: &mut Scratch,
        found: impl FnMut(&'a V),
    ) {
        scratch.next.clear();
        scratch.marks.clear();
        self.step_to(self.root, scratch);
        for word in self.syntax.words(key) {
            if scratch.next.is_empty() {
                return;
            }
            self.step(word, scratch);
        }
        self.report(scratch, found);
    }

    /// As [`Trie::matches`], but that no wildcard stands for the key's first word.
    pub(crate) fn matches_by_name<'a>(
        &'a self,
        key: &[u8],
        scratch: &mut Scratch,
        found: impl FnMut(&'a V),
    ) {
        scratch.next.clear();
        scratch.marks.clear();
        let mut words = self.syntax.words(key);
        let root = self.nodes.get(self.root);
        let first = words.next().zip(root);
        if let Some(child) = first.and_then(|(word, root)| root.words.get(word)) {
            scratch.visits += 1;
            self.step_to(*child, scratch);
        }
        for word in words {
            if scratch.next.is_empty() {
                return;
            }
            self.step(word, scratch);
        }
        self.report(scratch, found);
    }

    fn report<'a>(&'a self, scratch: &Scratch, mut found: impl FnMut(&'a V)) {
        for node in &scratch.next {
            if let Some(value) = self.nodes.get(*node).and_then(|node| node.value.as_ref()) {
                found(value);
            }
        }
    }

    /// Takes the set over one word.
    fn step(&self, word: &[u8], scratch: &mut Scratch) {
        std::mem::swap(&mut scratch.here, &mut scratch.next);
        scratch.next.clear();
        scratch.marks.clear();
        let mut place = 0;
        while let Some(here) = scratch.here.get(place).copied() {
            place += 1;
            scratch.visits += 1;
            let Some(node) = self.nodes.get(here) else {
                continue;
            };
            if node.repeats {
                self.step_to(here, scratch);
            }
            if let Some(child) = node.one {
                self.step_to(child, scratch);
            }
            if let Some(child) = node.words.get(word) {
                self.step_to(*child, scratch);
            }
        }
    }

    /// Adds a node to the set, and those that zero words more lead to.
    fn step_to(&self, node: usize, scratch: &mut Scratch) {
        let mut next = Some(node);
        while let Some(here) = next
            && let Some(node) = self.nodes.get(here)
            && (!node.repeats || scratch.marks.add(here))
        {
            scratch.next.push(here);
            next = node.many;
        }
    }

    /// Every value, in no order that means anything.
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.nodes
            .iter()
            .filter_map(|(_, node)| node.value.as_ref())
    }

    /// Panics if a node serves no pattern.
    pub(crate) fn check_invariants(&self) {
        let mut children = 0;
        for (number, node) in self.nodes.iter() {
            assert!(
                number == self.root || !node.is_vacant(),
                "a node serves no pattern"
            );
            let linked = node.words.values().chain(&node.one).chain(&node.many);
            for child in linked {
                children += 1;
                let child = self.nodes.get(*child);
                assert!(child.is_some(), "a child is gone");
            }
        }
        assert_eq!(children + 1, self.nodes.len(), "each node has one parent");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition, word by word.
    fn matches(pattern: &[&[u8]], key: &[&[u8]]) -> bool {
        match (pattern.split_first(), key.split_first()) {
            (None, key) => key.is_none(),
            (Some((&b"#", rest)), None) => matches(rest, key),
            (Some((&b"#", rest)), Some((_, key_rest))) => {
                matches(rest, key) || matches(pattern, key_rest)
            }
            (Some(_), None) => false,
            (Some((word, rest)), Some((key_word, key_rest))) => {
                (*word == b"*" || word == key_word) && matches(rest, key_rest)
            }
        }
    }

    fn words(text: &[u8]) -> Vec<&[u8]> {
        Syntax::AMQP.words(text).collect()
    }

    fn found(trie: &Trie<Vec<usize>>, key: &[u8], scratch: &mut Scratch) -> Vec<usize> {
        let mut found = Vec::new();
        trie.matches(key, scratch, |value| found.extend(value));
        found.sort_unstable();
        found
    }

    fn expected(patterns: &[Vec<u8>], key: &[u8]) -> Vec<usize> {
        let key = words(key);
        (0..patterns.len())
            .filter(|i| matches(&words(&patterns[*i]), &key))
            .collect()
    }

    fn trie_of(patterns: &[Vec<u8>]) -> Trie<Vec<usize>> {
        let mut trie: Trie<Vec<usize>> = Trie::new(Syntax::AMQP);
        for (number, pattern) in patterns.iter().enumerate() {
            trie.entry(pattern).unwrap().push(number);
        }
        trie.check_invariants();
        trie
    }

    /// All texts of at most `count` words.
    fn texts(alphabet: &[&str], count: usize) -> Vec<Vec<u8>> {
        let mut all = vec![Vec::new()];
        let mut last: Vec<String> = alphabet.iter().map(|&word| word.to_owned()).collect();
        for _ in 0..count {
            all.extend(last.iter().map(|text| text.clone().into_bytes()));
            last = last
                .iter()
                .flat_map(|text| alphabet.iter().map(move |word| format!("{text}.{word}")))
                .collect();
        }
        all.sort();
        all.dedup();
        all
    }

    #[test]
    fn every_pattern_and_key_up_to_four_words_matches_as_defined() {
        let patterns = texts(&["a", "b", "", "*", "#"], 4);
        let trie = trie_of(&patterns);
        let mut scratch = Scratch::default();
        for key in texts(&["a", "b", "", "*", "#"], 4) {
            assert_eq!(
                found(&trie, &key, &mut scratch),
                expected(&patterns, &key),
                "key {}",
                String::from_utf8_lossy(&key)
            );
        }
    }

    #[test]
    fn removing_every_pattern_leaves_the_root_alone() {
        let patterns = texts(&["a", "*", "#"], 3);
        let mut trie = trie_of(&patterns);
        for pattern in &patterns {
            assert!(trie.remove(pattern).is_some());
            assert!(trie.remove(pattern).is_none());
            trie.check_invariants();
        }
        assert_eq!(trie.nodes.len(), 1);
    }

    #[test]
    fn many_wildcards_cost_at_most_words_times_nodes() {
        let mut visits = Vec::new();
        for count in [8, 16, 32, 64] {
            let pattern = "#.a.".repeat(count - 1) + "#.a.#";
            let key = vec!["a"; 2 * count].join(".");
            let trie = trie_of(&[pattern.into_bytes()]);
            let mut scratch = Scratch::default();
            assert_eq!(found(&trie, key.as_bytes(), &mut scratch), [0]);
            let bound = 2 * count * trie.nodes.len();
            assert!(
                scratch.visits <= bound as u64,
                "{} > {bound}",
                scratch.visits
            );
            visits.push(scratch.visits);
            // The same, where the last word is what does not match.
            let before = scratch.visits;
            assert!(found(&trie, format!("{key}.b").as_bytes(), &mut scratch) == [0]);
            let pattern = "#.a.".repeat(count) + "c";
            let trie = trie_of(&[pattern.into_bytes()]);
            assert!(found(&trie, key.as_bytes(), &mut scratch).is_empty());
            assert!(scratch.visits - before <= 2 * bound as u64 + 2 * trie.nodes.len() as u64);
        }
        // Twice the words and twice the nodes: four times the visits, no more.
        assert!(visits.windows(2).all(|pair| pair[1] <= pair[0] * 4));
    }

    #[test]
    fn patterns_that_share_no_word_with_the_key_cost_nothing() {
        let mut visits = Vec::new();
        for count in [10, 100, 1000, 10_000] {
            let mut patterns: Vec<Vec<u8>> = (0..count)
                .map(|n| format!("tenant{n}.*.created.#").into_bytes())
                .collect();
            patterns.push(b"stock.*.x".to_vec());
            let trie = trie_of(&patterns);
            let mut scratch = Scratch::default();
            assert_eq!(found(&trie, b"stock.a.x", &mut scratch), [count]);
            visits.push(scratch.visits);
        }
        assert_eq!(visits, [3, 3, 3, 3]);
    }

    #[test]
    fn another_syntax_has_its_own_separator_and_wildcards() {
        let syntax = Syntax {
            separator: b'/',
            one: b"+",
            many: b"#",
        };
        let mut trie: Trie<Vec<usize>> = Trie::new(syntax);
        for (number, filter) in ["sport/+/player", "sport/#", "+", "a.b", "*"]
            .iter()
            .enumerate()
        {
            trie.entry(filter.as_bytes()).unwrap().push(number);
        }
        let mut scratch = Scratch::default();
        assert_eq!(found(&trie, b"sport/tennis/player", &mut scratch), [0, 1]);
        assert_eq!(found(&trie, b"sport", &mut scratch), [1, 2]);
        assert_eq!(found(&trie, b"a.b", &mut scratch), [2, 3]);
        assert_eq!(found(&trie, b"*", &mut scratch), [2, 4]);
    }

    fn text() -> impl Strategy<Value = Vec<u8>> {
        let word = prop::sample::select(vec!["a", "b", "ab", "", "*", "#", "a*", "##"]);
        prop::collection::vec(word, 0..9).prop_map(|words| words.join(".").into_bytes())
    }

    proptest! {
        #[test]
        fn the_trie_finds_what_the_definition_finds(
            patterns in prop::collection::vec(text(), 1..40),
            keys in prop::collection::vec(text(), 1..10),
            removed in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        ) {
            let mut trie = trie_of(&patterns);
            let mut left = patterns.clone();
            for index in removed {
                let pattern = index.get(&patterns);
                trie.remove(pattern);
                trie.check_invariants();
                // What stays keeps its number.
                for gone in left.iter_mut().filter(|left| *left == pattern) {
                    *gone = b"never.".repeat(40);
                }
            }
            let mut scratch = Scratch::default();
            for key in &keys {
                prop_assert_eq!(found(&trie, key, &mut scratch), expected(&left, key));
            }
        }
    }
}
