//! The bindings of an exchange that gives each message to one of its destinations: by a hash, or
//! by chance.
//!
//! What counts are destinations, each once however many bindings lead to it, in the order of
//! their names: that is the same after a restart, and after a queue was deleted and declared
//! again. Of the bindings to one destination of a consistent hash exchange the first one that is
//! there says the weight.

use std::cmp::Ordering;

use menzil_model::fact::{Binding, Destination};
use menzil_model::table::Fields;
use menzil_model::wire::Writer as _;
use menzil_model::{Map, Name, Properties, Table, Value};
use smallvec::SmallVec;

use super::canonical::{Side, put_canonical};
use super::carbon_copy::RoutingKeys;
use super::chance::Chance;
use super::explain::{Choice, ChosenBy};
use super::index::{End, Living};
use super::placement::{
    ABSENT, MemberKind, Placement, Spot, hash_of_key, hash_of_keys, hash_of_member,
};
use super::slab::Slab;
use super::weight::{HashOn, HashProperty, weight_max, weight_of};

/// How the one is found.
#[derive(Clone, Debug)]
enum Rule {
    /// By weights, and a hash of a part of the message.
    Consistent { on: HashOn, weight_max: u16 },
    /// By number, and a hash of the routing keys.
    Modulus,
    /// By chance.
    Random,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Single {
    rule: Rule,
    members: Slab<Member>,
    /// Of the members, by that of their point: a queue may be there a second time while what was
    /// to the first is being cleared away.
    numbers: Map<usize, usize>,
    /// Numbers of the members, by kind and name; unless the rule is of weights.
    order: Vec<usize>,
    /// The members with a weight, where the rule is of weights.
    placement: Placement,
}

/// A destination.
#[derive(Clone, Debug)]
struct Member {
    end: End,
    kind: MemberKind,
    name: Name,
    /// The bindings to it, the oldest first.
    bindings: SmallVec<[OfMember; 1]>,
    /// Weight and place in the placement.
    spot: Option<(u16, usize)>,
}

/// A binding to a destination.
#[derive(Clone, Copy, Debug)]
struct OfMember {
    number: usize,
    age: u64,
    /// What its key says; 1 where that is nothing.
    weight: u16,
}

/// What choosing writes to, kept between calls.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scratch {
    pub(crate) chance: Chance,
    /// Chance had a part in what was chosen.
    pub(crate) by_chance: bool,
    /// More than exchange and routing keys had a part in it.
    pub(crate) by_properties: bool,
    value: Vec<u8>,
    there: Vec<usize>,
}

impl Single {
    /// By weights and a hash; the arguments of the exchange say of what.
    pub(crate) fn consistent(arguments: &Table) -> Self {
        Self::new(Rule::Consistent {
            on: HashOn::of(arguments),
            weight_max: weight_max(arguments),
        })
    }

    /// By number and a hash of the routing keys.
    pub(crate) fn modulus() -> Self {
        Self::new(Rule::Modulus)
    }

    /// By chance.
    pub(crate) fn random() -> Self {
        Self::new(Rule::Random)
    }

    fn new(rule: Rule) -> Self {
        Self {
            rule,
            members: Slab::default(),
            numbers: Map::default(),
            order: Vec::new(),
            placement: Placement::default(),
        }
    }

    /// Adds a binding of that age to a destination of that name.
    pub(crate) fn insert(&mut self, binding: &Binding, end: End, name: &Name, age: u64) {
        let Some(weight) = self.weight_of(binding) else {
            return;
        };
        let number = match self.numbers.get(&end.point) {
            Some(number) => *number,
            None => self.add_member(end, name),
        };
        if let Some(member) = self.members.get_mut(number) {
            let bindings = &mut member.bindings;
            let place = bindings.partition_point(|other| other.age < age);
            let number = end.binding;
            bindings.insert(
                place,
                OfMember {
                    number,
                    age,
                    weight,
                },
            );
        }
        self.weigh(number);
    }

    /// The weight that a binding says; 1 where weights are nothing. A key that is no weight does
    /// not act.
    fn weight_of(&self, binding: &Binding) -> Option<u16> {
        match &self.rule {
            Rule::Consistent { weight_max, .. } => {
                let weight = weight_of(binding.key.as_bytes()).ok()?;
                Some(weight.min(*weight_max))
            }
            Rule::Modulus | Rule::Random => Some(1),
        }
    }

    fn add_member(&mut self, end: End, name: &Name) -> usize {
        let kind = match end.destination {
            Destination::Queue(_) => MemberKind::Queue,
            Destination::Exchange(_) => MemberKind::Exchange,
        };
        let number = self.members.insert(Member {
            end,
            kind,
            name: name.clone(),
            bindings: SmallVec::new(),
            spot: None,
        });
        self.numbers.insert(end.point, number);
        if !matches!(self.rule, Rule::Consistent { .. }) {
            let place = self.place_of(number);
            self.order.insert(place.min(self.order.len()), number);
        }
        number
    }

    /// Where a member stands in the order, or would.
    fn place_of(&self, number: usize) -> usize {
        self.order
            .partition_point(|other| self.by_name(*other, number) == Ordering::Less)
    }

    /// Which of two members comes first.
    fn by_name(&self, left: usize, right: usize) -> Ordering {
        let key = |number| {
            let member = self.members.get(number)?;
            let End {
                destination, point, ..
            } = member.end;
            // Two of one name are there while a deleted one is being cleared away.
            Some((member.kind, member.name.as_bytes(), destination, point))
        };
        key(left).cmp(&key(right))
    }

    /// Removes a binding to that point.
    pub(crate) fn remove(&mut self, number: usize, point: usize) {
        let Some(at) = self.numbers.get(&point).copied() else {
            return;
        };
        let Some(member) = self.members.get_mut(at) else {
            return;
        };
        // What goes in slices goes youngest first, so it is looked for from that end.
        let mut youngest_first = member.bindings.iter().rev();
        if let Some(behind) = youngest_first.position(|other| other.number == number) {
            member.bindings.remove(member.bindings.len() - 1 - behind);
        }
        let is_last = member.bindings.is_empty();
        self.weigh(at);
        if is_last {
            if !matches!(self.rule, Rule::Consistent { .. }) {
                let place = self.place_of(at);
                if self.order.get(place) == Some(&at) {
                    self.order.remove(place);
                }
            }
            self.numbers.remove(&point);
            self.members.remove(at);
        }
    }

    /// Puts a member where its first binding says.
    fn weigh(&mut self, number: usize) {
        if !matches!(self.rule, Rule::Consistent { .. }) {
            return;
        }
        let Some(member) = self.members.get_mut(number) else {
            return;
        };
        let weight = member.bindings.first().map(|first| first.weight);
        if member.spot.map(|(weight, _)| weight) == weight {
            return;
        }
        let hash = hash_of_member(member.kind, member.name.as_bytes());
        if let Some((weight, place)) = member.spot.take()
            && let Some(moved) = self.placement.remove(weight, place)
            && let Some(moved) = self.members.get_mut(moved.member)
        {
            moved.spot = Some((weight, place));
        }
        if let (Some(weight), Some(member)) = (weight, self.members.get_mut(number)) {
            let spot = Spot {
                hash,
                member: number,
            };
            member.spot = Some((weight, self.placement.insert(weight, spot)));
        }
    }

    /// The destination of a message, of those that are `living`.
    pub(crate) fn choose(
        &self,
        keys: &RoutingKeys<'_>,
        properties: &Properties<'_>,
        living: Living<'_>,
        scratch: &mut Scratch,
    ) -> Option<End> {
        let number = match &self.rule {
            Rule::Consistent { on, .. } => {
                let key = hash_of(on, keys, properties, scratch);
                let there = |number| {
                    living.is_everything()
                        || (self.members.get(number)).is_some_and(|m| living.has(m.end.point))
                };
                self.placement
                    .find(key, there, |left, right| self.by_name(left, right))?
            }
            Rule::Modulus => {
                let hash = hash_of_keys(keys.iter());
                self.nth_of(living, scratch, |count, _| {
                    let count = u64::try_from(count).ok()?;
                    usize::try_from(hash.checked_rem(count)?).ok()
                })?
            }
            Rule::Random => self.nth_of(living, scratch, |count, scratch| {
                scratch.by_chance |= count > 1;
                Some(scratch.chance.below(count))
            })?,
        };
        let member = self.members.get(number)?;
        let binding = member.bindings.first()?.number;
        Some(End {
            binding,
            ..member.end
        })
    }

    /// How a message's destination is chosen.
    pub(crate) fn choice(&self, properties: &Properties<'_>) -> Choice {
        let by = match &self.rule {
            Rule::Consistent { on, .. } => match on {
                HashOn::RoutingKey => ChosenBy::RoutingKey,
                HashOn::Header(name) => {
                    let mut fields = properties.header_fields();
                    ChosenBy::Header {
                        header: Name::cut(name),
                        is_absent: !fields.any(|(other, _)| *other == **name),
                    }
                }
                HashOn::Property(property) => ChosenBy::Property {
                    property: property.name(),
                    is_absent: match property {
                        HashProperty::CorrelationId => properties.correlation_id.is_none(),
                        HashProperty::MessageId => properties.message_id.is_none(),
                        HashProperty::Timestamp => properties.timestamp.is_none(),
                    },
                },
            },
            Rule::Modulus => ChosenBy::RoutingKeys,
            Rule::Random => ChosenBy::Chance,
        };
        Choice {
            of: self.members.len(),
            by,
        }
    }

    /// All of the destinations that are living, by the number of their first binding.
    pub(crate) fn ends<'a>(&'a self, living: Living<'a>) -> impl Iterator<Item = End> + 'a {
        let members = self.members.iter().map(|(_, member)| member);
        members.filter_map(move |member| {
            let binding = member.bindings.first()?.number;
            living.has(member.end.point).then_some(End {
                binding,
                ..member.end
            })
        })
    }

    /// The member of the place that `choose` names, given how many there are.
    fn nth_of(
        &self,
        living: Living<'_>,
        scratch: &mut Scratch,
        choose: impl FnOnce(usize, &mut Scratch) -> Option<usize>,
    ) -> Option<usize> {
        if living.is_everything() {
            let place = choose(self.order.len(), scratch)?;
            return self.order.get(place).copied();
        }
        let mut there = std::mem::take(&mut scratch.there);
        let members = self.order.iter().copied();
        there.clear();
        there.extend(members.filter(|number| {
            let member = self.members.get(*number);
            member.is_some_and(|member| living.has(member.end.point))
        }));
        let place = choose(there.len(), scratch);
        let number = place.and_then(|place| there.get(place).copied());
        scratch.there = there;
        number
    }

    pub(crate) fn holds(&self, binding: &Binding, end: End) -> bool {
        let at = self.numbers.get(&end.point);
        let member = at.and_then(|at| self.members.get(*at));
        let is_listed = member.is_some_and(|member| {
            let mut bindings = member.bindings.iter();
            bindings.any(|other| other.number == end.binding)
        });
        is_listed == self.weight_of(binding).is_some()
    }

    /// Panics where members, order and placement disagree.
    pub(crate) fn check_invariants(&self) {
        assert_eq!(self.members.len(), self.numbers.len(), "members are found");
        let consistent = matches!(self.rule, Rule::Consistent { .. });
        for (number, member) in self.members.iter() {
            assert_eq!(self.numbers.get(&member.end.point), Some(&number));
            assert!(!member.bindings.is_empty(), "a member has a binding");
            let spot = member.spot.map(|(weight, place)| {
                let spot = self.placement.get(weight, place);
                (weight, spot.map(|spot| spot.member))
            });
            let weight = member.bindings.first().filter(|_| consistent);
            let expected = weight.map(|first| (first.weight, Some(number)));
            assert_eq!(spot, expected, "the first binding weighs");
        }
        let counted = if consistent {
            self.placement.len()
        } else {
            self.order.len()
        };
        assert_eq!(counted, self.members.len(), "each member is there once");
        let mut pairs = self.order.iter().zip(self.order.iter().skip(1));
        assert!(
            pairs.all(|(left, right)| self.by_name(*left, *right) == Ordering::Less),
            "members are in order"
        );
    }
}

/// The hash of what the exchange looks at.
fn hash_of(
    on: &HashOn,
    keys: &RoutingKeys<'_>,
    properties: &Properties<'_>,
    scratch: &mut Scratch,
) -> u64 {
    let text = |text: Option<&[u8]>| text.map_or(ABSENT, hash_of_key);
    scratch.by_properties |= *on != HashOn::RoutingKey;
    match on {
        HashOn::RoutingKey => text(keys.iter().next()),
        HashOn::Header(name) => {
            let fields = properties.header_fields();
            hash_of_header(fields, name, &mut scratch.value)
        }
        HashOn::Property(HashProperty::CorrelationId) => text(properties.correlation_id),
        HashOn::Property(HashProperty::MessageId) => text(properties.message_id),
        HashOn::Property(HashProperty::Timestamp) => {
            let seconds = properties.timestamp.map(|seconds| seconds.to_string());
            text(seconds.as_deref().map(str::as_bytes))
        }
    }
}

/// A text counts as its bytes, anything else as what headers exchanges compare. Of a header that
/// comes twice the last one counts.
fn hash_of_header(fields: Fields<'_>, name: &[u8], canonical: &mut Vec<u8>) -> u64 {
    match fields.filter(|(other, _)| *other == name).last() {
        None | Some((_, Value::Void)) => ABSENT,
        Some((_, Value::LongString(text) | Value::Binary(text))) => hash_of_key(text),
        Some((_, value)) => {
            canonical.clear();
            // Apart from every text that looks like it.
            canonical.put_u8(0);
            put_canonical(canonical, value, Side::Message);
            hash_of_key(canonical)
        }
    }
}
