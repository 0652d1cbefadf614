//! The bindings of a headers exchange, found by what they ask for (AMQP 0-9-1 §3.1.3.4).
//!
//! Each condition of a binding, a header's name with a value or alone, has a number. A message
//! is read once into the numbers that it fulfils. Bindings for any condition stand in a list
//! at each of theirs; bindings for all of them are sets of numbers, of which those within the
//! message's match ([`Subsets`]). A binding that names a header value which the message lacks
//! is not looked at.

use menzil_model::table::Fields;
use menzil_model::{Map, Table, Value};

use super::canonical::{Side, put_canonical};
use super::carbon_copy::BCC;
use super::criteria::{Criteria, Mode};
use super::index::End;
use super::slab::Slab;
use super::subset::{self, Subsets};

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Headers {
    names: Map<Box<[u8]>, Header>,
    names_made: u64,
    conditions: Slab<Condition>,
    all: Subsets<End>,
}

/// The conditions about one header.
#[derive(Clone, Debug, Default)]
struct Header {
    /// Tells headers apart in a message that repeats some.
    number: u64,
    present: Option<usize>,
    values: Map<Box<[u8]>, usize>,
}

#[derive(Clone, Debug, Default)]
struct Condition {
    /// Bindings that have it.
    uses: usize,
    /// Those that need no other, by their number.
    any: Map<usize, End>,
}

/// What a message is read into, kept between calls.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scratch {
    value: Vec<u8>,
    fields: Vec<Field>,
    given: Vec<usize>,
    subsets: subset::Scratch,
    /// Bindings and nodes looked at since the beginning.
    pub(crate) visits: u64,
}

/// A header that some binding asks about.
#[derive(Clone, Copy, Debug)]
struct Field {
    header: u64,
    place: usize,
    present: Option<usize>,
    equal: Option<usize>,
}

impl Headers {
    /// Adds a binding by its arguments; says its place.
    pub(crate) fn insert(&mut self, arguments: &Table, end: End) -> usize {
        let criteria = Criteria::of(arguments);
        let mut set = Vec::new();
        for (name, value) in criteria.conditions() {
            set.push(self.number_of(name, value));
        }
        set.sort_unstable();
        set.dedup();
        for number in &set {
            if let Some(condition) = self.conditions.get_mut(*number) {
                condition.uses += 1;
                if criteria.mode == Mode::Any {
                    condition.any.insert(end.binding, end);
                }
            }
        }
        match criteria.mode {
            Mode::All => self.all.insert(&set, end),
            Mode::Any => 0,
        }
    }

    /// Removes a binding; answers with the one that moved to its place.
    pub(crate) fn remove(
        &mut self,
        arguments: &Table,
        binding: usize,
        place: usize,
    ) -> Option<End> {
        let criteria = Criteria::of(arguments);
        let set = self.set_of(&criteria);
        let moved = match criteria.mode {
            Mode::All => self.all.remove(&set, place),
            Mode::Any => None,
        };
        let mut unused = false;
        for number in set {
            if let Some(condition) = self.conditions.get_mut(number) {
                condition.any.remove(&binding);
                condition.uses -= 1;
                unused |= condition.uses == 0;
            }
        }
        if unused {
            for (name, value) in criteria.conditions() {
                self.release(name, value);
            }
        }
        moved
    }

    /// The number of a condition, made if it is not there.
    fn number_of(&mut self, name: &[u8], value: Value<'_>) -> usize {
        if !self.names.contains_key(name) {
            self.names_made += 1;
            let header = Header {
                number: self.names_made,
                ..Header::default()
            };
            self.names.insert(Box::from(name), header);
        }
        let conditions = &mut self.conditions;
        let mut make = || conditions.insert(Condition::default());
        match (self.names.get_mut(name), wanted(value)) {
            (None, _) => make(),
            (Some(header), None) => *header.present.get_or_insert_with(make),
            (Some(header), Some(value)) => *header.values.entry(value).or_insert_with(make),
        }
    }

    fn find(&self, name: &[u8], value: Value<'_>) -> Option<usize> {
        let header = self.names.get(name)?;
        match wanted(value) {
            None => header.present,
            Some(value) => header.values.get(&value).copied(),
        }
    }

    /// The numbers of a binding that is there, rising.
    fn set_of(&self, criteria: &Criteria<'_>) -> Vec<usize> {
        let mut set: Vec<usize> = criteria
            .conditions()
            .filter_map(|(name, value)| self.find(name, value))
            .collect();
        set.sort_unstable();
        set.dedup();
        set
    }

    /// Forgets a condition that no binding has.
    fn release(&mut self, name: &[u8], value: Value<'_>) {
        let Some(number) = self.find(name, value) else {
            return;
        };
        if self.conditions.get(number).is_some_and(|c| c.uses > 0) {
            return;
        }
        self.conditions.remove(number);
        if let Some(header) = self.names.get_mut(name) {
            match wanted(value) {
                None => header.present = None,
                Some(value) => drop(header.values.remove(&value)),
            }
            if header.present.is_none() && header.values.is_empty() {
                self.names.remove(name);
            }
        }
    }

    /// Calls `found` for every binding that matches a message's headers; a binding for any
    /// condition comes once for each.
    pub(crate) fn matches(
        &self,
        headers: Fields<'_>,
        scratch: &mut Scratch,
        mut found: impl FnMut(End),
    ) {
        self.read(headers, scratch);
        for number in &scratch.given {
            if let Some(condition) = self.conditions.get(*number) {
                scratch.visits += condition.any.len() as u64;
                condition.any.values().copied().for_each(&mut found);
            }
        }
        scratch.visits += self.all.within(&scratch.given, &mut scratch.subsets, found);
    }

    /// Leaves in `given` the numbers of the conditions that the headers fulfil, rising. Of a
    /// header that comes twice the last one counts. `BCC` is a secret of the publisher.
    fn read(&self, headers: Fields<'_>, scratch: &mut Scratch) {
        let Scratch {
            value: canonical,
            fields,
            given,
            ..
        } = scratch;
        fields.clear();
        given.clear();
        if self.names.is_empty() {
            return;
        }
        for (place, (name, value)) in headers.enumerate() {
            let Some(header) = self.names.get(name).filter(|_| name != BCC) else {
                continue;
            };
            canonical.clear();
            let equal = if header.values.is_empty() || matches!(value, Value::Void) {
                None
            } else {
                put_canonical(canonical, value, Side::Message);
                header.values.get(canonical.as_slice()).copied()
            };
            fields.push(Field {
                header: header.number,
                place,
                present: header.present,
                equal,
            });
        }
        fields.sort_unstable_by_key(|field| (field.header, std::cmp::Reverse(field.place)));
        fields.dedup_by_key(|field| field.header);
        for field in fields {
            given.extend(field.present.into_iter().chain(field.equal));
        }
        given.sort_unstable();
    }

    /// Whether the binding stands where it should.
    pub(crate) fn holds(&self, arguments: &Table, end: End, place: usize) -> bool {
        let criteria = Criteria::of(arguments);
        let set = self.set_of(&criteria);
        match criteria.mode {
            Mode::All => self.all.get(&set, place) == Some(end),
            Mode::Any => set.iter().all(|number| {
                let condition = self.conditions.get(*number);
                condition.is_some_and(|c| c.any.get(&end.binding) == Some(&end))
            }),
        }
    }

    /// Panics if the conditions are not exactly those of the `bindings` arguments.
    pub(crate) fn check_invariants<'a>(&self, bindings: impl Iterator<Item = &'a Table>) {
        self.all.check_invariants();
        let mut uses: Map<usize, usize> = Map::default();
        let mut all = 0;
        let mut any = 0;
        for arguments in bindings {
            let criteria = Criteria::of(arguments);
            let set = self.set_of(&criteria);
            match criteria.mode {
                Mode::All => all += 1,
                Mode::Any => any += set.len(),
            }
            for number in set {
                *uses.entry(number).or_default() += 1;
            }
        }
        assert_eq!(self.all.len(), all, "sets are bindings for all conditions");
        assert_eq!(self.conditions.len(), uses.len(), "conditions are used");
        for (number, condition) in self.conditions.iter() {
            assert_eq!(uses.get(&number), Some(&condition.uses), "uses are counted");
            any -= condition.any.len();
        }
        assert_eq!(any, 0, "lists hold bindings for any condition");
        let named: usize = self
            .names
            .values()
            .map(|header| header.values.len() + usize::from(header.present.is_some()))
            .sum();
        assert_eq!(named, self.conditions.len(), "each condition has a name");
    }
}

/// The canonical bytes that a binding's argument asks for; none where presence is enough.
fn wanted(value: Value<'_>) -> Option<Box<[u8]>> {
    if matches!(value, Value::Void) {
        return None;
    }
    let mut canonical = Vec::new();
    put_canonical(&mut canonical, value, Side::Binding);
    Some(canonical.into_boxed_slice())
}
