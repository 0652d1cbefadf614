//! Message groups: of messages with the same value in a header one consumer at a time has some,
//! in order.
//!
//! ```text
//! ready:   1:a 2:b 3:a 4:- 5:c | 6 7 8 …        a is out with a consumer that has no room
//!          waiting: 1 3 (of a)  ▲ seen_below     2, 4 and 5 went out: the others go on
//! ```
//!
//! Entries are looked at in order, and those that cannot go out are set aside here, by group,
//! while they stay where they are in the index. A group that has nothing out is free; otherwise
//! it is its holder's until all of it is settled. Behind one that came back and waits to be tried
//! again the others of its group wait too; the fact of its return has its group. Nothing else of this is durable: after a restart everything is ready again, and is
//! looked at again from the start.
//!
//! Invariant: a ready entry below `seen_below` is waiting or unseen, and not both.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, Hasher as _};

use menzil_model::fact::Range;
use menzil_model::{FixedHasher, Map, Message, Name, Properties, Sequence, Value};

use crate::consumer::ConsumerId;
use crate::topology::{Side, put_canonical};

/// Entries that may be set aside for others to go on.
const LOOK_AHEAD: usize = 4096;

/// The group of a message: a hash of the header's value, `None` for a message in no group. Two
/// values with one hash are one group, which keeps what a group is to keep.
pub(crate) type Group = Option<u64>;

/// See the module.
#[derive(Debug)]
pub(crate) struct Groups {
    header: Name,
    hasher: FixedHasher,
    /// Those of which something is out or waits.
    states: Map<Group, State>,
    waiting: BTreeMap<Sequence, Group>,
    /// Came in behind what was looked at.
    unseen: BTreeSet<Sequence>,
    seen_below: u64,
    /// Those in a group.
    out: BTreeMap<Sequence, Group>,
    /// Those in a group that came back and are not ready yet.
    delayed: BTreeMap<Sequence, Group>,
    /// The first that waits of each free group.
    free: BTreeSet<(Sequence, Group)>,
    /// The first that waits of each group that a consumer holds.
    held: BTreeMap<ConsumerId, BTreeSet<(Sequence, Group)>>,
}

#[derive(Debug, Default)]
struct State {
    out: u64,
    /// Who has what is out; `None` where it was got.
    holder: Option<ConsumerId>,
    waiting: BTreeSet<Sequence>,
    /// What comes behind one of these waits for it.
    delayed: BTreeSet<Sequence>,
    /// Where its first one is listed.
    listed: Option<Listed>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Listed {
    first: Sequence,
    /// `None` where the group is free.
    holder: Option<ConsumerId>,
}

/// What may be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// This entry may go out: to its group's holder, or to anybody.
    Deliver {
        sequence: Sequence,
        group: Group,
        holder: Option<ConsumerId>,
    },
    /// This one is to be looked at first.
    Look(Sequence),
    /// Whatever is ready from there on is to be looked at.
    LookFrom(Sequence),
    /// Nothing: as many are set aside as may be.
    Nothing,
}

impl Groups {
    pub(crate) fn new(header: Name) -> Self {
        Self {
            header,
            hasher: FixedHasher::default(),
            states: Map::default(),
            waiting: BTreeMap::new(),
            unseen: BTreeSet::new(),
            seen_below: 0,
            out: BTreeMap::new(),
            delayed: BTreeMap::new(),
            free: BTreeSet::new(),
            held: BTreeMap::new(),
        }
    }

    /// The group of a message.
    pub(crate) fn group_of(&self, message: &Message) -> Group {
        let properties = Properties::parse(message.properties()).ok()?;
        let mut fields = properties.header_fields();
        let (_, value) = fields.find(|(name, _)| *name == self.header.as_bytes())?;
        if matches!(value, Value::Void) {
            return None;
        }
        let mut bytes = Vec::new();
        put_canonical(&mut bytes, value, Side::Message);
        let mut hasher = self.hasher.build_hasher();
        hasher.write(&bytes);
        Some(hasher.finish())
    }

    /// What may be done next. `can_take` knows of a consumer whether it has room.
    pub(crate) fn next(&self, can_take: impl Fn(ConsumerId) -> bool) -> Next {
        let free = self
            .free
            .first()
            .map(|(sequence, group)| (*sequence, *group, None));
        let able = self
            .held
            .iter()
            .filter(|(consumer, _)| can_take(**consumer));
        let held = able.filter_map(|(consumer, firsts)| {
            let (sequence, group) = firsts.first()?;
            Some((*sequence, *group, Some(*consumer)))
        });
        self.first_of(held.chain(free).min())
    }

    /// As [`Groups::next`], for who takes messages of free groups only.
    pub(crate) fn next_free(&self) -> Next {
        let free = self.free.first();
        self.first_of(free.map(|(sequence, group)| (*sequence, *group, None)))
    }

    /// What is unseen and before it may be of the same group, and goes first.
    fn first_of(&self, ready: Option<(Sequence, Group, Option<ConsumerId>)>) -> Next {
        match (self.unseen.first(), ready) {
            (Some(unseen), Some((sequence, ..))) if *unseen < sequence => Next::Look(*unseen),
            (Some(unseen), None) => Next::Look(*unseen),
            (_, Some((sequence, group, holder))) => Next::Deliver {
                sequence,
                group,
                holder,
            },
            (None, None) if self.waiting.len() < LOOK_AHEAD => {
                Next::LookFrom(Sequence(self.seen_below))
            }
            (None, None) => Next::Nothing,
        }
    }

    /// The entries of its group that wait behind that one, a few, and it.
    pub(crate) fn run_of(&self, sequence: Sequence, group: Group, most: usize) -> Vec<Sequence> {
        let waiting = self.states.get(&group).map(|state| &state.waiting);
        let run = waiting
            .into_iter()
            .flat_map(|waiting| waiting.range(sequence..));
        run.take(most).copied().collect()
    }

    /// An entry came in. Behind what was looked at it comes where queues have priorities.
    pub(crate) fn came(&mut self, sequence: Sequence) {
        if sequence.0 < self.seen_below {
            self.unseen.insert(sequence);
            self.trim();
        }
    }

    /// An entry was looked at. True where it waits for others of its group.
    pub(crate) fn looked_at(&mut self, sequence: Sequence, group: Group) -> bool {
        self.unseen.remove(&sequence);
        self.seen_below = self.seen_below.max(sequence.0 + 1);
        self.wait(sequence, group)
    }

    fn wait(&mut self, sequence: Sequence, group: Group) -> bool {
        self.waiting.insert(sequence, group);
        let state = self.states.entry(group).or_default();
        let is_free = state.out == 0 && state.delayed.is_empty();
        let is_behind = !is_free || !state.waiting.is_empty();
        state.waiting.insert(sequence);
        self.list(group);
        group.is_some() && is_behind
    }

    /// An entry that waited goes out; `holder` is to settle it, `None` where it was got.
    pub(crate) fn went_out(
        &mut self,
        sequence: Sequence,
        group: Group,
        holder: Option<ConsumerId>,
    ) {
        self.forget_waiting(sequence);
        if group.is_none() {
            return;
        }
        self.out.insert(sequence, group);
        let state = self.states.entry(group).or_default();
        state.out += 1;
        state.holder = holder;
        self.list(group);
    }

    /// An entry that was out is settled.
    pub(crate) fn settled(&mut self, sequence: Sequence) {
        if let Some(group) = self.out.remove(&sequence) {
            self.came_back(group);
        }
    }

    fn came_back(&mut self, group: Group) {
        if let Some(state) = self.states.get_mut(&group) {
            state.out = state.out.saturating_sub(1);
        }
        self.list(group);
    }

    /// The group of an entry that is out.
    pub(crate) fn of_out(&self, sequence: Sequence) -> Group {
        self.out.get(&sequence).copied().flatten()
    }

    /// The group of an entry that is not ready yet.
    pub(crate) fn of_delayed(&self, sequence: Sequence) -> Group {
        self.delayed.get(&sequence).copied().flatten()
    }

    /// An entry came back, from where it was out or after a start, and is not ready yet: what
    /// stands behind it in its group waits for it.
    pub(crate) fn delayed(&mut self, sequence: Sequence, group: Group) {
        if group.is_some() {
            self.delayed.insert(sequence, group);
            let state = self.states.entry(group).or_default();
            state.delayed.insert(sequence);
            self.list(group);
        }
        self.settled(sequence);
    }

    /// An entry is not delayed any more. Tells its group if it was.
    fn end_delay(&mut self, sequence: Sequence) -> Option<Group> {
        let group = self.delayed.remove(&sequence)?;
        if let Some(state) = self.states.get_mut(&group) {
            state.delayed.remove(&sequence);
        }
        self.list(group);
        Some(group)
    }

    /// An entry that was out is ready again.
    pub(crate) fn returned(&mut self, sequence: Sequence) {
        if let Some(group) = self.end_delay(sequence) {
            if sequence.0 < self.seen_below {
                self.wait(sequence, group);
                self.trim();
            }
            return;
        }
        match self.out.remove(&sequence) {
            None => self.came(sequence),
            Some(group) => {
                self.came_back(group);
                if sequence.0 < self.seen_below {
                    self.wait(sequence, group);
                    self.trim();
                }
            }
        }
    }

    /// The entries of these ranges are no more.
    pub(crate) fn gone(&mut self, ranges: &[Range]) {
        for Range { first, last } in ranges {
            let waiting = self.waiting.range(*first..=*last);
            for sequence in waiting.map(|(sequence, _)| *sequence).collect::<Vec<_>>() {
                self.forget_waiting(sequence);
            }
            let unseen = self.unseen.range(*first..=*last);
            for sequence in unseen.copied().collect::<Vec<_>>() {
                self.unseen.remove(&sequence);
            }
            let out = self.out.range(*first..=*last);
            for sequence in out.map(|(sequence, _)| *sequence).collect::<Vec<_>>() {
                self.settled(sequence);
            }
            let delayed = self.delayed.range(*first..=*last);
            for sequence in delayed.map(|(sequence, _)| *sequence).collect::<Vec<_>>() {
                self.end_delay(sequence);
            }
        }
    }

    /// A consumer is gone. What it holds stays its groups' until it is settled.
    pub(crate) fn left(&mut self, consumer: ConsumerId) {
        for (_, group) in self.held.remove(&consumer).unwrap_or_default() {
            if let Some(state) = self.states.get_mut(&group) {
                state.listed = None;
                state.holder = None;
            }
        }
    }

    fn forget_waiting(&mut self, sequence: Sequence) {
        let Some(group) = self.waiting.remove(&sequence) else {
            return;
        };
        if let Some(state) = self.states.get_mut(&group) {
            state.waiting.remove(&sequence);
        }
        self.list(group);
    }

    /// Lists the first of the group that waits where it belongs now.
    fn list(&mut self, group: Group) {
        let Some(state) = self.states.get_mut(&group) else {
            return;
        };
        let delayed = state.delayed.first().copied();
        let first = state.waiting.first();
        let first = first.filter(|first| delayed.is_none_or(|delayed| **first < delayed));
        let listed = match (first, state.out, state.holder) {
            (None, ..) | (Some(_), 1.., None) => None,
            (Some(first), 0, _) => Some(Listed {
                first: *first,
                holder: None,
            }),
            (Some(first), 1.., holder) => Some(Listed {
                first: *first,
                holder,
            }),
        };
        let is_idle = state.out == 0 && state.waiting.is_empty() && state.delayed.is_empty();
        let before = std::mem::replace(&mut state.listed, listed);
        if is_idle {
            self.states.remove(&group);
        }
        if before == listed {
            return;
        }
        match before.map(|before| (before.first, before.holder)) {
            None => {}
            Some((first, None)) => {
                self.free.remove(&(first, group));
            }
            Some((first, Some(holder))) => {
                if let Some(firsts) = self.held.get_mut(&holder) {
                    firsts.remove(&(first, group));
                    if firsts.is_empty() {
                        self.held.remove(&holder);
                    }
                }
            }
        }
        match listed.map(|listed| (listed.first, listed.holder)) {
            None => {}
            Some((first, None)) => {
                self.free.insert((first, group));
            }
            Some((first, Some(holder))) => {
                self.held.entry(holder).or_default().insert((first, group));
            }
        }
    }

    /// Forgets the last of what was looked at where it is too much: it is looked at again.
    fn trim(&mut self) {
        while self.waiting.len() + self.unseen.len() > 2 * LOOK_AHEAD {
            let waiting = self.waiting.last_key_value().map(|(last, _)| *last);
            let Some(last) = waiting.max(self.unseen.last().copied()) else {
                return;
            };
            self.unseen.remove(&last);
            self.forget_waiting(last);
            self.seen_below = last.0;
        }
    }

    /// Checks it against what is ready, in order, and what is out; for tests.
    pub(crate) fn check_invariants(
        &self,
        ready: impl Iterator<Item = Sequence>,
        is_out: impl Fn(Sequence) -> bool,
        is_delayed: impl Fn(Sequence) -> bool,
    ) {
        let seen = ready.take_while(|sequence| sequence.0 < self.seen_below);
        let mut known: Vec<Sequence> = self.waiting.keys().chain(&self.unseen).copied().collect();
        known.sort_unstable();
        assert!(seen.eq(known), "entries are set aside that are not ready");
        assert!(self.out.keys().all(|sequence| is_out(*sequence)));
        assert!(self.delayed.keys().all(|sequence| is_delayed(*sequence)));
        let delayed: usize = self.states.values().map(|state| state.delayed.len()).sum();
        assert_eq!(delayed, self.delayed.len());
        assert!(self.waiting.len() + self.unseen.len() <= 2 * LOOK_AHEAD);
        let waiting: usize = self.states.values().map(|state| state.waiting.len()).sum();
        let out: u64 = self.states.values().map(|state| state.out).sum();
        assert_eq!((waiting, out), (self.waiting.len(), self.out.len() as u64));
        let held: usize = self.held.values().map(BTreeSet::len).sum();
        let listed = self.states.values().filter(|state| state.listed.is_some());
        assert_eq!(listed.count(), held + self.free.len());
    }
}
