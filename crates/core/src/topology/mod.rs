//! The exchanges, bindings and queue names of one virtual host, and the way of a message
//! through them.
//!
//! Plain data: no messages, no consumers, no rules about who may declare what. Exchanges and
//! queues are *points*; a binding leads from one to another and acts from the moment when both
//! are declared. Until then it is kept, since facts may name what is not yet declared. Each
//! exchange holds its acting bindings in an [`index`] that finds those which take a message
//! without looking at the others.
//!
//! Every removal takes time by what is removed, never by what is there: a binding knows its
//! place in the three lists that name it, and whatever moves into a gap is told. What hangs on a
//! deleted point acts no more at once and is cleared away in slices ([`removal`]).

mod canonical;
mod carbon_copy;
mod chance;
mod criteria;
mod dense;
pub mod explain;
mod headers;
mod index;
mod invariants;
mod marks;
mod numbers;
mod placement;
mod point;
mod removal;
mod shared;
mod single;
mod slab;
mod subset;
mod term;
mod trie;
mod walk;
mod weight;

#[cfg(test)]
mod tests;

pub(crate) use canonical::{Side, put_canonical};
pub use carbon_copy::{RoutingKeys, strip_bcc};
pub use criteria::{check_binding, check_exchange};
pub(crate) use term::Term;
pub use walk::{Grounds, Routed, Targets};

use bytes::Bytes;
use menzil_model::fact::{Binding, Destination, ExchangeDefinition};
use menzil_model::table::write_value;
use menzil_model::wire::Writer;
use menzil_model::{ExchangeId, Map, Name, QueueId, Table};

use self::index::{End, is_ordered};
use self::numbers::Numbers;
use self::point::{Exchange, Point, Role};
use self::removal::Removal;
use self::shared::{Shared, SharedItems};
use self::slab::Slab;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    points: Slab<Point>,
    numbers: Map<Destination, usize>,
    exchange_names: Map<Name, usize>,
    queue_names: Map<Name, usize>,
    bindings: Shared<Record>,
    binding_numbers: Numbers,
    /// Of all bindings' arguments.
    arguments_bytes: u64,
    /// Changes that may have changed a way.
    generation: u64,
    /// Bindings there ever were.
    ages: u64,
    removal: Removal,
}

/// All bindings at one moment.
#[derive(Clone, Debug)]
pub(crate) struct FrozenBindings(SharedItems<Record>);

impl FrozenBindings {
    /// Those between `sources` and destinations that are `wanted`, with ranks as of
    /// [`Topology::ranked_bindings_from`].
    pub(crate) fn between<'a>(
        &'a self,
        sources: &'a Map<ExchangeId, &ExchangeDefinition>,
        is_wanted: impl Fn(&Destination) -> bool + 'a,
    ) -> impl Iterator<Item = (u64, &'a Binding)> {
        self.0.iter().filter_map(move |record| {
            let source = sources.get(&record.binding.source)?;
            let rank = if is_ordered(source) { record.age } else { 0 };
            is_wanted(&record.binding.destination).then_some((rank, &record.binding))
        })
    }
}

/// A binding and where it stands.
#[derive(Clone, Debug)]
struct Record {
    binding: Binding,
    /// Number of the source's point.
    source: usize,
    /// Number of the destination's point.
    target: usize,
    /// Place among the source's bindings.
    outgoing: usize,
    /// Place among the destination's bindings.
    incoming: usize,
    /// Place in the source's index, while the binding acts.
    index: Option<usize>,
    /// Older bindings have lower ones.
    age: u64,
}

impl Record {
    /// The binding as an index holds it, under the number that it has.
    fn end(&self, number: usize) -> End {
        End {
            binding: number,
            point: self.target,
            destination: self.binding.destination,
        }
    }
}

impl Topology {
    /// Grows with every change: while it stays, so does every way of a message.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// What is kept of ways holds no longer.
    pub(crate) fn forget_ways(&mut self) {
        self.generation += 1;
    }
}

/// Exchanges.
impl Topology {
    /// Adds an exchange; one that is there already stays as it is. The exchange without a name
    /// is the default exchange: it has every queue by name and no bindings.
    pub fn declare_exchange(&mut self, definition: ExchangeDefinition) {
        let number = self.number_of(Destination::Exchange(definition.id));
        let name = definition.name.clone();
        let role = Role::Exchange(Box::new(Exchange::new(definition)));
        if self.declare(number, role) {
            self.exchange_names.insert(name, number);
        }
    }

    /// Removes an exchange with the bindings from it and to it.
    pub fn delete_exchange(&mut self, id: ExchangeId) {
        self.delete(Destination::Exchange(id));
    }

    /// Says where messages go that an exchange has no destination for, if its arguments do not.
    pub(crate) fn set_alternate(&mut self, id: ExchangeId, alternate: Option<Name>) {
        let number = self.numbers.get(&Destination::Exchange(id)).copied();
        let point = number.and_then(|number| self.points.get_mut(number));
        if let Some(exchange) = point.and_then(Point::exchange_mut)
            && exchange.set_alternate(alternate)
        {
            self.forget_ways();
        }
    }

    /// Says whether an exchange keeps what passes.
    pub(crate) fn set_store(&mut self, id: ExchangeId, keeps: bool) {
        let number = self.numbers.get(&Destination::Exchange(id)).copied();
        let point = number.and_then(|number| self.points.get_mut(number));
        if let Some(exchange) = point.and_then(Point::exchange_mut)
            && exchange.set_store(keeps)
        {
            self.forget_ways();
        }
    }

    /// Whether an exchange keeps what passes.
    pub(crate) fn keeps(&self, id: ExchangeId) -> bool {
        let point = self.point(Destination::Exchange(id));
        let exchange = point.and_then(Point::exchange);
        exchange.is_some_and(|exchange| exchange.store.is_some())
    }

    /// The exchange of that name.
    pub fn exchange(&self, name: &[u8]) -> Option<&ExchangeDefinition> {
        let point = self.points.get(*self.exchange_names.get(name)?)?;
        point.exchange().map(|exchange| &exchange.definition)
    }

    /// The exchange of that id.
    pub fn exchange_by_id(&self, id: ExchangeId) -> Option<&ExchangeDefinition> {
        let point = self.point(Destination::Exchange(id))?;
        point.exchange().map(|exchange| &exchange.definition)
    }

    /// The name of an exchange's alternate, from its arguments or from elsewhere.
    pub fn alternate_of(&self, id: ExchangeId) -> Option<&Name> {
        let point = self.point(Destination::Exchange(id))?;
        point.exchange()?.alternate.as_ref()
    }

    /// How many exchanges there are.
    pub fn exchange_count(&self) -> usize {
        self.exchange_names.len()
    }

    /// All exchanges.
    pub fn exchanges(&self) -> impl Iterator<Item = &ExchangeDefinition> {
        let points = self.points.iter();
        points.filter_map(|(_, point)| point.exchange().map(|exchange| &exchange.definition))
    }
}

/// Queues.
impl Topology {
    /// All queues, by name.
    pub fn queues(&self) -> impl Iterator<Item = (&Name, QueueId)> {
        let names = self.queue_names.iter();
        names.filter_map(
            |(name, number)| match self.points.get(*number)?.destination {
                Destination::Queue(id) => Some((name, id)),
                Destination::Exchange(_) => None,
            },
        )
    }

    /// Adds a queue; one that is there already stays as it is.
    pub fn declare_queue_name(&mut self, name: Name, id: QueueId) {
        let number = self.number_of(Destination::Queue(id));
        if self.declare(number, Role::Queue(name.clone())) {
            self.queue_names.insert(name, number);
        }
    }

    /// Removes a queue with the bindings to it.
    pub fn delete_queue(&mut self, id: QueueId) {
        self.delete(Destination::Queue(id));
    }

    /// The queue of that name.
    pub fn queue(&self, name: &[u8]) -> Option<QueueId> {
        match self.points.get(*self.queue_names.get(name)?)?.destination {
            Destination::Queue(id) => Some(id),
            Destination::Exchange(_) => None,
        }
    }
}

/// Bindings.
impl Topology {
    /// Adds a binding; false if it is there already. The order of its arguments is no part of
    /// it. Whether they suit the exchange is [`check_binding`]'s question.
    pub fn bind(&mut self, binding: Binding) -> bool {
        let binding = normal(binding);
        match self.binding_numbers.find(&self.bindings, &binding) {
            Some(number) if self.is_dead(number) => self.remove_binding(number),
            Some(_) => return false,
            None => {}
        }
        self.generation += 1;
        self.arguments_bytes += binding.arguments.as_bytes().len() as u64;
        let source = self.number_of(Destination::Exchange(binding.source));
        let target = self.number_of(binding.destination);
        let hashed = binding.clone();
        let number = self.bindings.insert(Record {
            binding,
            source,
            target,
            outgoing: 0,
            incoming: 0,
            index: None,
            age: self.ages,
        });
        self.ages += 1;
        self.binding_numbers.insert(&hashed, number);
        if let (Some(point), Some(record)) =
            (self.points.get_mut(source), self.bindings.get_mut(number))
        {
            record.outgoing = point.outgoing.push(number);
        }
        if let (Some(point), Some(record)) =
            (self.points.get_mut(target), self.bindings.get_mut(number))
        {
            record.incoming = point.incoming.push(number);
        }
        self.activate(number);
        true
    }

    /// Removes a binding; false if it was not there.
    pub fn unbind(&mut self, binding: &Binding) -> bool {
        let number = self.number_of_binding(binding);
        number.is_some_and(|number| {
            self.remove_binding(number);
            true
        })
    }

    /// The number of that binding, if it is there and both its ends are.
    fn number_of_binding(&self, binding: &Binding) -> Option<usize> {
        let binding = normal(binding.clone());
        let number = self.binding_numbers.find(&self.bindings, &binding)?;
        Some(number).filter(|number| !self.is_dead(*number))
    }

    /// Whether that binding is there.
    pub fn has_binding(&self, binding: &Binding) -> bool {
        self.number_of_binding(binding).is_some()
    }

    /// How many bindings begin at the exchange.
    pub fn count_from(&self, id: ExchangeId) -> usize {
        self.point(Destination::Exchange(id))
            .map_or(0, Point::outgoing_count)
    }

    /// Bytes of the arguments of all bindings.
    pub fn arguments_bytes(&self) -> u64 {
        self.arguments_bytes
    }

    /// Whether any binding begins at the exchange.
    pub fn has_bindings_from(&self, id: ExchangeId) -> bool {
        self.count_from(id) > 0
    }

    /// The bindings that begin at the exchange, each with its rank. Where the order of those to
    /// the same destination says something, that of their ranks is the one in which they are to
    /// be bound again.
    pub fn ranked_bindings_from(&self, id: ExchangeId) -> impl Iterator<Item = (u64, &Binding)> {
        let point = self.point(Destination::Exchange(id));
        let exchange = point.and_then(Point::exchange);
        let is_ordered = exchange.is_some_and(|exchange| is_ordered(&exchange.definition));
        let numbers = point.into_iter().flat_map(|point| point.outgoing.iter());
        numbers.filter_map(move |number| {
            let record = self.bindings.get(number)?;
            self.binding(number)?;
            Some((if is_ordered { record.age } else { 0 }, &record.binding))
        })
    }

    /// Every binding as it is now, for who looks at them later.
    pub(crate) fn freeze_bindings(&self) -> FrozenBindings {
        FrozenBindings(self.bindings.share())
    }

    /// How many bindings there are, those that wait for a point to be declared included.
    pub fn binding_count(&self) -> usize {
        self.bindings.len() - self.removal.dead
    }

    /// The bindings that end there.
    pub fn bindings_to(&self, destination: Destination) -> impl Iterator<Item = &Binding> {
        let point = self.point(destination);
        let numbers = point.into_iter().flat_map(|point| point.incoming.iter());
        numbers.filter_map(|number| self.binding(number))
    }

    /// The binding of that number, unless it waits to be cleared away.
    fn binding(&self, number: usize) -> Option<&Binding> {
        let record = self.bindings.get(number)?;
        (!self.is_dead(number)).then_some(&record.binding)
    }

    /// Lets a binding act if both of its ends are declared.
    fn activate(&mut self, number: usize) {
        let Some(record) = self.bindings.get_mut(number) else {
            return;
        };
        let Some(target) = self.points.get(record.target) else {
            return;
        };
        if record.index.is_some() || !target.is_declared() {
            return;
        }
        let end = record.end(number);
        let Some(name) = target.name().cloned() else {
            return;
        };
        let source = self.points.get_mut(record.source);
        if let Some(exchange) = source.and_then(Point::exchange_mut) {
            record.index = Some(
                exchange
                    .index
                    .insert(&record.binding, end, (&name, record.age)),
            );
        }
    }
}

/// Points.
impl Topology {
    fn point(&self, destination: Destination) -> Option<&Point> {
        self.points.get(*self.numbers.get(&destination)?)
    }

    /// The number of a point, made if it is not there.
    fn number_of(&mut self, destination: Destination) -> usize {
        let points = &mut self.points;
        *self
            .numbers
            .entry(destination)
            .or_insert_with(|| points.insert(Point::new(destination)))
    }

    /// Gives a point its role and lets its bindings act; false if it had one.
    fn declare(&mut self, number: usize, role: Role) -> bool {
        let Some(point) = self.points.get_mut(number) else {
            return false;
        };
        if point.is_declared() {
            return false;
        }
        point.role = role;
        self.generation += 1;
        for binding in self.bindings_at(number) {
            self.activate(binding);
        }
        true
    }

    /// The numbers of the bindings that begin or end at a point.
    fn bindings_at(&self, number: usize) -> Vec<usize> {
        let lists = self.points.get(number).into_iter();
        lists
            .flat_map(|point| point.outgoing.iter().chain(point.incoming.iter()))
            .collect()
    }
}

/// The binding with its arguments in the order of their names, as RabbitMQ compares them.
fn normal(binding: Binding) -> Binding {
    let mut fields: Vec<_> = binding.arguments.fields().collect();
    fields.sort_by_key(|(name, _)| *name);
    let mut content = Vec::with_capacity(binding.arguments.as_bytes().len());
    for (name, value) in fields {
        content.put_short_string(name);
        write_value(&mut content, value);
    }
    match Table::new(Bytes::from(content)) {
        Ok(arguments) if arguments != binding.arguments => Binding {
            arguments,
            ..binding
        },
        _ => binding,
    }
}
