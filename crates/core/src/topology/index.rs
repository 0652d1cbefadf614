//! The bindings of one exchange, ordered for finding by what its kind looks at.

use menzil_model::fact::{Binding, Destination, ExchangeKind};
use menzil_model::table::Fields;
use menzil_model::{Map, Name};

use super::carbon_copy::RoutingKeys;
use super::dense::Dense;
use super::headers::{self, Headers};
use super::trie::{self, Syntax, Trie};

/// A binding as an index holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// The binding's number.
    pub(crate) binding: usize,
    /// The number of the point that it leads to.
    pub(crate) point: usize,
    /// The same as an id.
    pub(crate) destination: Destination,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) enum Index {
    /// The default exchange: queues by name, no bindings.
    Default,
    /// By binding key.
    Direct(Map<Name, Dense<End>>),
    /// All of them.
    Fanout(Dense<End>),
    /// By pattern.
    Topic(Trie<Dense<End>>),
    /// By arguments.
    Headers(Headers),
}

/// What finding writes to, kept between calls.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scratch {
    pub(crate) trie: trie::Scratch,
    pub(crate) headers: headers::Scratch,
}

impl Index {
    /// The empty index of an exchange; the one without a name is the default exchange.
    pub(crate) fn new(kind: ExchangeKind, name: &Name) -> Self {
        if name.is_empty() {
            return Self::Default;
        }
        match kind {
            ExchangeKind::Direct => Self::Direct(Map::default()),
            ExchangeKind::Fanout | ExchangeKind::RecentHistory => Self::Fanout(Dense::default()),
            ExchangeKind::Topic => Self::Topic(Trie::new(Syntax::AMQP)),
            ExchangeKind::Headers => Self::Headers(Headers::default()),
        }
    }

    /// Adds a binding; says its place.
    pub(crate) fn insert(&mut self, binding: &Binding, end: End) -> usize {
        match self {
            Self::Default => 0,
            Self::Direct(keys) => keys.entry(binding.key.clone()).or_default().push(end),
            Self::Fanout(ends) => ends.push(end),
            Self::Topic(trie) => trie
                .entry(binding.key.as_bytes())
                .map(|ends| ends.push(end))
                .unwrap_or_default(),
            Self::Headers(headers) => headers.insert(&binding.arguments, end),
        }
    }

    /// Removes the binding of that number and place; answers with the one that moved there.
    pub(crate) fn remove(&mut self, binding: &Binding, number: usize, place: usize) -> Option<End> {
        match self {
            Self::Default => None,
            Self::Direct(keys) => {
                let ends = keys.get_mut(&binding.key)?;
                let moved = ends.remove(place);
                if ends.is_empty() {
                    keys.remove(&binding.key);
                }
                moved
            }
            Self::Fanout(ends) => ends.remove(place),
            Self::Topic(trie) => {
                let pattern = binding.key.as_bytes();
                let ends = trie.find_mut(pattern)?;
                let moved = ends.remove(place);
                if ends.is_empty() {
                    trie.remove(pattern);
                }
                moved
            }
            Self::Headers(headers) => headers.remove(&binding.arguments, number, place),
        }
    }

    /// Calls `found` for every binding that takes the message, for some more than once. The
    /// default exchange has none; the walk asks for its queues by name.
    pub(crate) fn matches(
        &self,
        keys: &RoutingKeys<'_>,
        headers: Fields<'_>,
        scratch: &mut Scratch,
        mut found: impl FnMut(End),
    ) {
        match self {
            Self::Default => {}
            Self::Direct(by_key) => {
                for key in keys.iter() {
                    if let Some(ends) = by_key.get(key) {
                        ends.iter().for_each(&mut found);
                    }
                }
            }
            Self::Fanout(ends) => ends.iter().for_each(found),
            Self::Topic(trie) => {
                for key in keys.iter() {
                    trie.matches(key, &mut scratch.trie, |ends| {
                        ends.iter().for_each(&mut found);
                    });
                }
            }
            Self::Headers(index) => index.matches(headers, &mut scratch.headers, found),
        }
    }

    /// Panics unless the index holds exactly the given bindings, each at its place.
    pub(crate) fn check_invariants(&self, bindings: &[(&Binding, End, usize)]) {
        let held_at = |ends: &Dense<End>| {
            assert!(!ends.is_empty(), "a key without bindings is forgotten");
            ends.len()
        };
        let held: usize = match self {
            Self::Default => bindings.len(),
            Self::Direct(keys) => keys.values().map(held_at).sum(),
            Self::Fanout(ends) => ends.len(),
            Self::Topic(trie) => {
                trie.check_invariants();
                trie.values().map(held_at).sum()
            }
            Self::Headers(headers) => {
                headers.check_invariants(bindings.iter().map(|(binding, ..)| &binding.arguments));
                bindings.len()
            }
        };
        assert_eq!(held, bindings.len(), "an index holds its bindings only");
        for (binding, end, place) in bindings {
            assert!(self.holds(binding, *end, *place), "{binding:?} is lost");
        }
    }

    fn holds(&self, binding: &Binding, end: End, place: usize) -> bool {
        let at_place = |ends: &Dense<End>| ends.get(place) == Some(end);
        match self {
            Self::Default => true,
            Self::Direct(keys) => keys.get(&binding.key).is_some_and(at_place),
            Self::Fanout(ends) => at_place(ends),
            Self::Topic(trie) => trie.find(binding.key.as_bytes()).is_some_and(at_place),
            Self::Headers(headers) => headers.holds(&binding.arguments, end, place),
        }
    }
}
