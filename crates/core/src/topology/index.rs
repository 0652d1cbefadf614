//! The bindings of one exchange, ordered for finding by what its kind looks at.

use menzil_model::fact::{Binding, Destination, ExchangeDefinition, ExchangeKind};
use menzil_model::{Map, Name, Properties};

use super::carbon_copy::RoutingKeys;
use super::dense::Dense;
use super::headers::{self, Headers};
use super::point::Point;
use super::single::{self, Single};
use super::slab::Slab;
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
    /// One of them.
    Single(Box<Single>),
}

/// Which points a message may go to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Living<'a> {
    /// `None` while all of them are.
    points: Option<&'a Slab<Point>>,
}

impl<'a> Living<'a> {
    /// All points that a binding leads to.
    pub(crate) const EVERYTHING: Self = Self { points: None };

    /// Those that are declared.
    pub(crate) fn declared(points: &'a Slab<Point>) -> Self {
        Self {
            points: Some(points),
        }
    }

    pub(crate) fn is_everything(self) -> bool {
        self.points.is_none()
    }

    #[inline]
    pub(crate) fn has(self, point: usize) -> bool {
        self.points
            .is_none_or(|points| points.get(point).is_some_and(Point::is_declared))
    }
}

/// What finding writes to, kept between calls.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scratch {
    pub(crate) trie: trie::Scratch,
    pub(crate) headers: headers::Scratch,
    pub(crate) single: single::Scratch,
}

/// Whether the order of the bindings to one destination says something: of those the first
/// counts.
pub(crate) fn is_ordered(definition: &ExchangeDefinition) -> bool {
    match definition.routes_as() {
        ExchangeKind::ConsistentHash
        | ExchangeKind::ModulusHash
        | ExchangeKind::Random
        | ExchangeKind::LocalRandom => true,
        ExchangeKind::Direct
        | ExchangeKind::Delayed
        | ExchangeKind::Fanout
        | ExchangeKind::RecentHistory
        | ExchangeKind::Topic
        | ExchangeKind::Headers => false,
    }
}

impl Index {
    /// The empty index of an exchange; the one without a name is the default exchange.
    pub(crate) fn new(definition: &ExchangeDefinition) -> Self {
        if definition.name.is_empty() {
            return Self::Default;
        }
        match definition.routes_as() {
            ExchangeKind::Direct | ExchangeKind::Delayed => Self::Direct(Map::default()),
            ExchangeKind::Fanout | ExchangeKind::RecentHistory => Self::Fanout(Dense::default()),
            ExchangeKind::Topic => Self::Topic(Trie::new(Syntax::AMQP)),
            ExchangeKind::Headers => Self::Headers(Headers::default()),
            ExchangeKind::ConsistentHash => {
                Self::Single(Box::new(Single::consistent(&definition.arguments)))
            }
            ExchangeKind::ModulusHash => Self::Single(Box::new(Single::modulus())),
            ExchangeKind::Random | ExchangeKind::LocalRandom => {
                Self::Single(Box::new(Single::random()))
            }
        }
    }

    /// Adds a binding, given the name that it leads to and its age; says its place.
    pub(crate) fn insert(
        &mut self,
        binding: &Binding,
        end: End,
        (name, age): (&Name, u64),
    ) -> usize {
        match self {
            Self::Default => 0,
            Self::Direct(keys) => keys.entry(binding.key.clone()).or_default().push(end),
            Self::Fanout(ends) => ends.push(end),
            Self::Topic(trie) => trie
                .entry(binding.key.as_bytes())
                .map(|ends| ends.push(end))
                .unwrap_or_default(),
            Self::Headers(headers) => headers.insert(&binding.arguments, end),
            Self::Single(single) => {
                single.insert(binding, end, name, age);
                0
            }
        }
    }

    /// Removes the binding of that number and place; answers with the one that moved there.
    pub(crate) fn remove(&mut self, binding: &Binding, end: End, place: usize) -> Option<End> {
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
            Self::Headers(headers) => headers.remove(&binding.arguments, end.binding, place),
            Self::Single(single) => {
                single.remove(end.binding, end.point);
                None
            }
        }
    }

    /// Calls `found` for every binding that takes the message and leads to a living point, for
    /// some more than once. The default exchange has none; the walk asks for its queues by name.
    pub(crate) fn matches(
        &self,
        keys: &RoutingKeys<'_>,
        properties: &Properties<'_>,
        living: Living<'_>,
        scratch: &mut Scratch,
        mut found: impl FnMut(End),
    ) {
        let mut found = |end: End| {
            if living.has(end.point) {
                found(end);
            }
        };
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
            Self::Headers(index) => {
                let headers = properties.header_fields();
                index.matches(headers, &mut scratch.headers, found);
            }
            Self::Single(single) => {
                let chosen = single.choose(keys, properties, living, &mut scratch.single);
                chosen.into_iter().for_each(found);
            }
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
            Self::Single(single) => {
                single.check_invariants();
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
            Self::Single(single) => single.holds(binding, end),
        }
    }
}
