//! Where a message would go and why, without publishing it.
//!
//! What matches is asked of the same indexes that route, so that the answer cannot differ from
//! what happens. What nearly matches is looked for among the other bindings, within a budget.
//! Everything listed has a bound; counts are whole.

mod headers;
mod words;

use std::collections::BTreeMap;

use menzil_model::fact::{Destination, ExchangeKind};
use menzil_model::{Name, Properties, Set, Table};

use super::Topology;
use super::carbon_copy::RoutingKeys;
use super::index::{End, Index, Scratch};
use super::point::{Exchange, Point, Role};
use crate::delay::delay_of;
use crate::refusal::{Object, Refusal};

pub(crate) use headers::shown;
use words::{Budget, letters_apart};

/// What would become of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Why it would be refused; nothing of its way is there then.
    pub refusal: Option<Refusal>,
    /// Exchanges whose names may be meant where there is none of that name, the nearest first.
    pub similar: Vec<Name>,
    /// The exchanges that it comes to, in the order in which it does.
    pub visits: Vec<Visit>,
    /// The queues that it reaches, by name.
    pub queues: Vec<Reach>,
    /// There were more visits, bindings or queues than are listed.
    pub is_cut: bool,
}

/// A queue that is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Its name.
    pub queue: Name,
    /// By chance another one may be reached in its place.
    pub by_chance: bool,
}

/// An exchange that the message comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visit {
    /// Its name.
    pub exchange: Name,
    /// Its type.
    pub kind: ExchangeKind,
    /// How it routes: of one that delays, as another type does.
    pub routes_as: ExchangeKind,
    /// Whether the message waits here before it goes on; of an exchange that delays.
    pub wait: Option<Wait>,
    /// How the message came there.
    pub from: Arrival,
    /// How many bindings begin there; for the default exchange, how many queues there are.
    pub bindings: usize,
    /// How many bindings take the message, those that are not listed too.
    pub matched_count: usize,
    /// Bindings that take it. Of an exchange that goes by chance, all it may choose from.
    pub matched: Vec<Taken>,
    /// Bindings that nearly take it, the nearest first.
    pub near: Vec<Near>,
    /// What it chooses one destination by, if it does.
    pub choice: Option<Choice>,
    /// The alternate exchange, if it has one.
    pub alternate: Option<Alternate>,
}

/// Whether a message waits in an exchange that delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// For so many milliseconds, as its header `x-delay` says.
    For(u64),
    /// It has no `x-delay` that counts.
    NotAsked,
    /// It has waited on its way before.
    Before,
}

/// How a message came to an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It was published there.
    Publisher,
    /// By a binding from that exchange.
    Exchange(Name),
    /// As the alternate of that exchange.
    AlternateOf(Name),
}

/// A binding and where it leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The binding key.
    pub key: Name,
    /// The arguments.
    pub arguments: Table,
    /// Where to.
    pub to: Object,
}

/// A binding that does not take the message and nearly does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Near {
    /// The binding.
    pub binding: Taken,
    /// What keeps it from taking the message.
    pub misses: Vec<Miss>,
}

/// What keeps a binding from taking a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Miss {
    /// A word of the key is another one.
    Word {
        /// Which word of the key, from 1.
        place: usize,
        /// What the binding has there.
        wanted: Name,
        /// What the key has.
        given: Name,
    },
    /// The key has a word more.
    WordMore {
        /// Which, from 1.
        place: usize,
        /// The word.
        given: Name,
    },
    /// The key has a word less.
    WordLess {
        /// Where it would be, from 1.
        place: usize,
        /// What the binding has there.
        wanted: Name,
    },
    /// There is no header of that name.
    HeaderAbsent {
        /// The name.
        header: Name,
        /// The value it would have; `None` where any will do.
        wanted: Option<String>,
        /// One that there is and that may be meant.
        similar: Option<Name>,
    },
    /// A header has another value, or one of another type.
    HeaderValue {
        /// The name.
        header: Name,
        /// What the binding asks for.
        wanted: String,
        /// What the message has.
        given: String,
    },
}

/// How an exchange chooses one of its destinations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Out of how many.
    pub of: usize,
    /// By what.
    pub by: ChosenBy,
}

/// What a destination is chosen by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChosenBy {
    /// By a hash of the routing key.
    RoutingKey,
    /// By a hash of all routing keys.
    RoutingKeys,
    /// By a hash of the header of that name.
    Header {
        /// The name.
        header: Name,
        /// Without it, all messages go to one queue.
        is_absent: bool,
    },
    /// By a hash of that property.
    Property {
        /// The name.
        property: &'static str,
        /// Without it, all messages go to one queue.
        is_absent: bool,
    },
    /// By chance.
    Chance,
}

/// An alternate exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alternate {
    /// Its name.
    pub exchange: Name,
    /// There is none of that name.
    pub is_missing: bool,
    /// The message goes there, since nothing takes it here.
    pub is_taken: bool,
}

/// Where the walk is: what it found, and what follows from what.
struct Walk<'a, 'k, 'p> {
    topology: &'a Topology,
    keys: &'a RoutingKeys<'k>,
    properties: &'a Properties<'p>,
    scratch: Scratch,
    budget: Budget,
    /// Numbers of the exchanges to come to, how, and whether it has waited by then.
    ahead: Vec<(usize, Arrival, bool)>,
    /// How long the message waits where it does.
    delay: Option<u64>,
    /// From point to point, and whether by chance.
    edges: Vec<(usize, usize, bool)>,
    seen: Set<usize>,
    visits: Vec<Visit>,
    is_cut: bool,
}

impl Topology {
    /// Explains where a message would go that is published to the exchange of that name.
    pub fn explain(
        &self,
        exchange: &Name,
        keys: &RoutingKeys<'_>,
        properties: &Properties<'_>,
    ) -> Explanation {
        let refused = |refusal, similar| Explanation {
            refusal: Some(refusal),
            similar,
            visits: Vec::new(),
            queues: Vec::new(),
            is_cut: false,
        };
        let Some(start) = self.exchange_names.get(exchange).copied() else {
            let refusal = Refusal::NotFound(Object::Exchange(exchange.clone()));
            return refused(refusal, self.similar_exchanges(exchange));
        };
        let point = self.points.get(start).and_then(Point::exchange);
        if point.is_some_and(|exchange| exchange.definition.internal) {
            return refused(Refusal::InternalExchange(exchange.clone()), Vec::new());
        }
        let mut walk = Walk {
            topology: self,
            keys,
            properties,
            scratch: Scratch::default(),
            budget: Budget(BUDGET),
            ahead: vec![(start, Arrival::Publisher, false)],
            delay: delay_of(properties),
            edges: Vec::new(),
            seen: Set::from_iter([start]),
            visits: Vec::new(),
            is_cut: false,
        };
        let mut next = 0;
        while let Some((number, from, has_waited)) = walk.ahead.get(next).cloned() {
            next += 1;
            if let Some(exchange) = self.points.get(number).and_then(Point::exchange) {
                let visit = walk.visit(number, exchange, (from, has_waited));
                if walk.visits.len() < LISTED_MAX {
                    walk.visits.push(visit);
                } else {
                    walk.is_cut = true;
                }
            }
        }
        walk.explanation(start)
    }

    /// The exchanges whose names are a slip of the pen away from that one.
    fn similar_exchanges(&self, name: &Name) -> Vec<Name> {
        let mut budget = Budget(BUDGET);
        let near = self.exchange_names.keys().filter_map(|other| {
            let apart = letters_apart(name.as_bytes(), other.as_bytes(), &mut budget)?;
            Some((apart, other))
        });
        let mut near: Vec<(u32, &Name)> = near.collect();
        near.sort_unstable();
        let names = near.into_iter().take(SIMILAR_MAX);
        names.map(|(_, other)| other.clone()).collect()
    }
}

impl Walk<'_, '_, '_> {
    fn visit(
        &mut self,
        number: usize,
        exchange: &Exchange,
        (from, has_waited): (Arrival, bool),
    ) -> Visit {
        let definition = &exchange.definition;
        let wait = definition.delays().then_some(match self.delay {
            None => Wait::NotAsked,
            Some(_) if has_waited => Wait::Before,
            Some(delay) => Wait::For(delay),
        });
        let has_waited = has_waited || matches!(wait, Some(Wait::For(_)));
        let (ends, choice) = match &exchange.index {
            Index::Default => (self.queues_by_name(), None),
            Index::Single(single) => {
                let choice = single.choice(self.properties);
                let ends = if choice.by == ChosenBy::Chance {
                    let ends = single.ends(self.topology.living());
                    ends.map(|end| (end.binding, end)).collect()
                } else {
                    self.ends_of(&exchange.index)
                };
                (ends, Some(choice))
            }
            Index::Direct(_) | Index::Fanout(_) | Index::Topic(_) | Index::Headers(_) => {
                (self.ends_of(&exchange.index), None)
            }
        };
        let by_chance = ends.len() > 1 && choice.as_ref().is_some_and(|c| c.by == ChosenBy::Chance);
        let is_default = matches!(exchange.index, Index::Default);
        let matched_count = ends.len();
        self.is_cut |= matched_count > LISTED_MAX;
        let matched = ends
            .values()
            .take(LISTED_MAX)
            .filter_map(|end| self.taken(*end, is_default));
        let visit = Visit {
            exchange: definition.name.clone(),
            kind: definition.kind,
            routes_as: definition.routes_as(),
            wait,
            from,
            bindings: self.bindings_of(number, is_default),
            matched_count,
            matched: matched.collect(),
            near: self.near(number, exchange, &ends),
            choice,
            alternate: self.alternate(exchange, ends.is_empty()),
        };
        for end in ends.values() {
            let from = || Arrival::Exchange(definition.name.clone());
            self.go((number, end.point), by_chance, (from, has_waited));
        }
        if let Some(alternate) = visit
            .alternate
            .as_ref()
            .filter(|alternate| alternate.is_taken)
            && let Some(to) = self
                .topology
                .exchange_names
                .get(&alternate.exchange)
                .copied()
        {
            let from = || Arrival::AlternateOf(definition.name.clone());
            self.go((number, to), false, (from, has_waited));
        }
        visit
    }

    fn go(
        &mut self,
        (from, to): (usize, usize),
        by_chance: bool,
        (how, has_waited): (impl FnOnce() -> Arrival, bool),
    ) {
        self.edges.push((from, to, by_chance));
        if self.seen.insert(to) {
            self.ahead.push((to, how(), has_waited));
        }
    }

    /// The bindings that take the message, by their number.
    fn ends_of(&mut self, index: &Index) -> BTreeMap<usize, End> {
        let mut ends = BTreeMap::new();
        let living = self.topology.living();
        index.matches(
            self.keys,
            self.properties,
            living,
            &mut self.scratch,
            |end| {
                ends.insert(end.binding, end);
            },
        );
        ends
    }

    /// The queues whose names are routing keys, as if they had bindings.
    fn queues_by_name(&self) -> BTreeMap<usize, End> {
        let mut ends = BTreeMap::new();
        for key in self.keys.iter() {
            if let Some(number) = self.topology.queue_names.get(key).copied()
                && let Some(point) = self.topology.points.get(number)
            {
                let end = End {
                    binding: number,
                    point: number,
                    destination: point.destination,
                };
                ends.insert(number, end);
            }
        }
        ends
    }

    fn bindings_of(&self, number: usize, is_default: bool) -> usize {
        if is_default {
            return self.topology.queue_names.len();
        }
        (self.topology.points.get(number)).map_or(0, Point::outgoing_count)
    }

    fn taken(&self, end: End, is_default: bool) -> Option<Taken> {
        let to = self.object(end.point)?;
        if is_default {
            let (Object::Queue(name) | Object::Exchange(name)) = &to;
            return Some(Taken {
                key: name.clone(),
                arguments: Table::empty(),
                to,
            });
        }
        let binding = self.topology.binding(end.binding)?;
        Some(Taken {
            key: binding.key.clone(),
            arguments: binding.arguments.clone(),
            to,
        })
    }

    fn object(&self, point: usize) -> Option<Object> {
        match &self.topology.points.get(point)?.role {
            Role::Undeclared => None,
            Role::Queue(name) => Some(Object::Queue(name.clone())),
            Role::Exchange(exchange) => Some(Object::Exchange(exchange.definition.name.clone())),
        }
    }

    fn alternate(&self, exchange: &Exchange, is_unmatched: bool) -> Option<Alternate> {
        let name = exchange.alternate.clone()?;
        let is_missing = !self.topology.exchange_names.contains_key(&name);
        Some(Alternate {
            exchange: name,
            is_missing,
            is_taken: is_unmatched && !is_missing,
        })
    }

    /// The bindings that nearly take the message, of those that do not.
    fn near(
        &mut self,
        number: usize,
        exchange: &Exchange,
        matched: &BTreeMap<usize, End>,
    ) -> Vec<Near> {
        let mut near: Vec<(u32, usize, Vec<Miss>)> = Vec::new();
        let keep = |near: &mut Vec<(u32, usize, Vec<Miss>)>, most: usize| {
            if near.len() > most {
                near.sort_by_key(|(cost, binding, _)| (*cost, *binding));
                near.truncate(NEAR_MAX);
            }
        };
        let topology = self.topology;
        let point = topology.points.get(number);
        match &exchange.index {
            Index::Default => {
                for (name, queue) in &topology.queue_names {
                    if !matched.contains_key(queue)
                        && let Some((cost, miss)) = self.near_key(name.as_bytes(), false)
                    {
                        near.push((cost, *queue, vec![miss]));
                        keep(&mut near, 2 * NEAR_MAX);
                    }
                }
            }
            Index::Direct(_) | Index::Topic(_) | Index::Headers(_) => {
                let is_topic = matches!(exchange.index, Index::Topic(_));
                let is_headers = matches!(exchange.index, Index::Headers(_));
                for binding in point.into_iter().flat_map(|point| point.outgoing.iter()) {
                    let record = topology.bindings.get(binding);
                    let Some(record) = record.filter(|record| {
                        record.index.is_some()
                            && !matched.contains_key(&binding)
                            && !topology.is_dead(binding)
                    }) else {
                        continue;
                    };
                    let found = if is_headers {
                        let headers = self.properties.header_fields();
                        headers::near(&record.binding.arguments, headers, &mut self.budget)
                    } else {
                        let key = record.binding.key.as_bytes();
                        let found = self.near_key(key, is_topic);
                        found.map(|(cost, miss)| (cost, vec![miss]))
                    };
                    if let Some((cost, misses)) = found {
                        near.push((cost, binding, misses));
                        keep(&mut near, 2 * NEAR_MAX);
                    }
                }
            }
            Index::Fanout(_) | Index::Single(_) => {}
        }
        keep(&mut near, 0);
        let is_default = matches!(exchange.index, Index::Default);
        let near = near.into_iter().filter_map(|(_, binding, misses)| {
            let point = match topology.bindings.get(binding) {
                _ if is_default => binding,
                Some(record) => record.target,
                None => return None,
            };
            let destination = topology.points.get(point)?.destination;
            let end = End {
                binding,
                point,
                destination,
            };
            let binding = self.taken(end, is_default)?;
            Some(Near { binding, misses })
        });
        near.collect()
    }

    /// How near the nearest of the routing keys comes to a binding key.
    fn near_key(&mut self, binding_key: &[u8], is_topic: bool) -> Option<(u32, Miss)> {
        let budget = &mut self.budget;
        let keys = self.keys.iter();
        let near = keys.filter_map(|key| words::near(binding_key, key, is_topic, budget));
        near.min_by_key(|(cost, _)| *cost)
    }

    /// Whether each queue is reached for certain, or perhaps.
    fn explanation(mut self, start: usize) -> Explanation {
        let mut next: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (from, to, _) in self.edges.iter().filter(|(_, _, by_chance)| !by_chance) {
            next.entry(*from).or_default().push(*to);
        }
        let mut certain = Set::from_iter([start]);
        let mut ahead = vec![start];
        while let Some(point) = ahead.pop() {
            for to in next.get(&point).into_iter().flatten() {
                if certain.insert(*to) {
                    ahead.push(*to);
                }
            }
        }
        let topology = self.topology;
        let reached = self.seen.iter().filter_map(|number| {
            let point = topology.points.get(*number)?;
            match (&point.role, point.destination) {
                (Role::Queue(name), Destination::Queue(_)) => Some(Reach {
                    queue: name.clone(),
                    by_chance: !certain.contains(number),
                }),
                _ => None,
            }
        });
        let mut queues: Vec<Reach> = reached.collect();
        queues.sort_by(|left, right| left.queue.cmp(&right.queue));
        self.is_cut |= queues.len() > QUEUES_MAX;
        queues.truncate(QUEUES_MAX);
        Explanation {
            refusal: None,
            similar: Vec::new(),
            visits: self.visits,
            queues,
            is_cut: self.is_cut,
        }
    }
}

impl Explanation {
    /// Whether no queue would have the message.
    pub fn is_unroutable(&self) -> bool {
        self.queues.is_empty()
    }
}

/// Exchanges, and bindings of one of them, that are listed.
const LISTED_MAX: usize = 100;
/// Queues that are listed.
const QUEUES_MAX: usize = 10_000;
/// Near bindings of one exchange that are listed.
const NEAR_MAX: usize = 5;
/// Names that may be meant.
const SIMILAR_MAX: usize = 3;
/// Pairs of words or letters that are compared in all.
const BUDGET: u64 = 20_000_000;
/// Of one value that is shown.
const TEXT_BYTES_MAX: usize = 80;
