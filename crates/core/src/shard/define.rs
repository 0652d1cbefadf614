//! Definitions from a file: declared without a client, all of them checked before any is.
//!
//! What is there by that name stays as it is, as in RabbitMQ, so that the same file may come again.

use menzil_model::fact::{Destination, ExchangeDefinition, PolicyDefinition};
use menzil_model::{ExchangeId, Map, Name, QueueId, Table};

use super::Shard;
use super::exchange::{binding_between, check_new_exchange, check_same_exchange, definition_of};
use super::queue::{check_new_queue, check_same_queue, new_definition};
use crate::command::{ExchangeBind, ExchangeDeclare, QueueBind, QueueDeclare};
use crate::effect::Effects;
use crate::log::Log;
use crate::policy::{POLICIES_MAX, Policies, Subject};
use crate::refusal::{Object, Refusal};
use crate::replay::{Asker, From};
use crate::store::Retention;
use crate::topology::{Topology, check_binding};
use crate::turn::Turn;

/// What a file defines in one virtual host. They are carried out in the order of the fields, so
/// that each finds what it needs, and numbered in that order.
#[derive(Clone, Debug, Default)]
pub struct Definitions {
    /// Policies that were checked.
    pub policies: Vec<PolicyDefinition>,
    /// Exchanges; `passive` and `nowait` mean nothing.
    pub exchanges: Vec<ExchangeDeclare>,
    /// Queues that have names and are not exclusive; likewise.
    pub queues: Vec<QueueDeclare>,
    /// Bindings between exchanges.
    pub exchange_bindings: Vec<ExchangeBind>,
    /// Bindings of queues.
    pub queue_bindings: Vec<QueueBind>,
}

/// One of them.
#[derive(Clone, Copy, Debug)]
pub enum Definition<'a> {
    /// A policy.
    Policy(&'a PolicyDefinition),
    /// An exchange.
    Exchange(&'a ExchangeDeclare),
    /// A queue.
    Queue(&'a QueueDeclare),
    /// A binding between exchanges.
    ExchangeBinding(&'a ExchangeBind),
    /// A binding of a queue.
    QueueBinding(&'a QueueBind),
}

impl<'a> Definition<'a> {
    /// The queue, where it is one.
    pub fn queue(&self) -> Option<&'a QueueDeclare> {
        match self {
            Self::Queue(declare) => Some(declare),
            Self::Policy(_)
            | Self::Exchange(_)
            | Self::ExchangeBinding(_)
            | Self::QueueBinding(_) => None,
        }
    }
}

impl Definitions {
    /// All of them in order.
    pub fn iter(&self) -> impl Iterator<Item = Definition<'_>> {
        let policies = self.policies.iter().map(Definition::Policy);
        let exchanges = self.exchanges.iter().map(Definition::Exchange);
        let queues = self.queues.iter().map(Definition::Queue);
        let between = self
            .exchange_bindings
            .iter()
            .map(Definition::ExchangeBinding);
        let of_queues = self.queue_bindings.iter().map(Definition::QueueBinding);
        let objects = policies.chain(exchanges).chain(queues);
        objects.chain(between).chain(of_queues)
    }
}

/// Whether an exchange will keep what a binding asks for.
fn check_kept(
    policies: &Policies,
    source: &ExchangeDefinition,
    arguments: &Table,
) -> Result<(), Refusal> {
    if arguments.as_bytes().is_empty() {
        return Ok(());
    }
    let given = policies.given(Subject::Exchange, source.name.as_bytes());
    let keeps = Retention::with_policies(source, &given).is_some();
    From::read(arguments, source, keeps, 0).map(drop)
}

impl Shard {
    /// Whether all of them can be carried out: the first that cannot, by number, and why. What is
    /// there already must be what they say, as when a client declares it again. Room on the disk
    /// is not looked at.
    pub fn check_definitions(
        &self,
        definitions: &Definitions,
    ) -> Result<(), Box<(usize, Refusal)>> {
        let mut planned = Topology::default();
        let mut policies = self.policies.clone();
        for policy in &definitions.policies {
            policies.set(policy.clone());
        }
        let mut planned_queues: Map<&Name, &QueueDeclare> = Map::default();
        let mut new_policies = [0; 2];
        for (number, definition) in definitions.iter().enumerate() {
            let checked = match definition {
                Definition::Policy(policy) => {
                    if self
                        .policies
                        .find(&policy.name, policy.is_operator)
                        .is_none()
                        && let Some(count) = new_policies.get_mut(usize::from(policy.is_operator))
                    {
                        *count += 1;
                    }
                    self.check_policy_room(new_policies)
                }
                Definition::Exchange(declare) => self.plan_exchange(&mut planned, number, declare),
                Definition::Queue(declare) => {
                    let before = planned_queues.insert(&declare.queue, declare);
                    self.plan_queue(&mut planned, number, (declare, before))
                }
                Definition::ExchangeBinding(bind) => {
                    let target = self.find_planned(&planned, &bind.destination);
                    target.and_then(|target| {
                        let to = Destination::Exchange(target.id);
                        let source = self.find_planned(&planned, &bind.source)?;
                        check_kept(&policies, source, &bind.arguments)?;
                        check_binding(source, to, bind.routing_key.as_bytes(), &bind.arguments)
                    })
                }
                Definition::QueueBinding(bind) => {
                    let name = bind.queue.as_bytes();
                    let queue = planned.queue(name).or_else(|| self.topology.queue(name));
                    match queue {
                        None => Err(Refusal::NotFound(Object::Queue(bind.queue.clone()))),
                        Some(id) => {
                            let source = self.find_planned(&planned, &bind.exchange);
                            let (to, key) = (Destination::Queue(id), bind.routing_key.as_bytes());
                            source.and_then(|source| {
                                check_kept(&policies, source, &bind.arguments)?;
                                check_binding(source, to, key, &bind.arguments)
                            })
                        }
                    }
                }
            };
            checked.map_err(|refusal| Box::new((number, refusal)))?;
        }
        Ok(())
    }

    /// Carries one out. True where something is new.
    pub fn define(
        &mut self,
        now: u64,
        definition: Definition<'_>,
        log: &mut dyn Log,
        effects: &mut dyn Effects,
    ) -> Result<bool, Refusal> {
        if let Definition::Policy(policy) = definition {
            let before = self.topology_index;
            let index = self.set_policy(now, policy.clone(), log, effects)?;
            return Ok(index != before);
        }
        let mut turn = Turn { now, log, effects };
        let bindings = self.bindings_to_be();
        let is_new = match definition {
            Definition::Policy(_) => false,
            Definition::Exchange(declare) => {
                let is_new = self
                    .topology
                    .exchange(declare.exchange.as_bytes())
                    .is_none();
                if is_new {
                    self.create_exchange(&mut turn, declare)?;
                }
                is_new
            }
            Definition::Queue(declare) => {
                let is_new = self.topology.queue(declare.queue.as_bytes()).is_none();
                if is_new {
                    self.new_queue(&mut turn, declare)?;
                }
                is_new
            }
            Definition::ExchangeBinding(bind) => {
                let [source, destination] = self.exchange_pair(bind)?;
                let bound = binding_between(source, destination, bind);
                self.record_bound(&mut turn, bound, Asker::nobody())?;
                self.bindings_to_be() > bindings
            }
            Definition::QueueBinding(bind) => {
                let name = bind.queue.clone();
                let Some(id) = self.topology.queue(name.as_bytes()) else {
                    return Err(Refusal::NotFound(Object::Queue(name)));
                };
                let (binding, _, durable) = self.binding_of(bind, (id, name))?;
                self.record_bound(&mut turn, (binding, durable), Asker::nobody())?;
                self.bindings_to_be() > bindings
            }
        };
        self.settle_down(&mut turn);
        Ok(is_new)
    }

    /// Bindings that are there, and those that come with what they replay.
    fn bindings_to_be(&self) -> usize {
        self.topology.binding_count() + self.replays.len()
    }

    fn plan_exchange(
        &self,
        planned: &mut Topology,
        number: usize,
        declare: &ExchangeDeclare,
    ) -> Result<(), Refusal> {
        let name = declare.exchange.as_bytes();
        let there = self.topology.exchange(name);
        if let Some(current) = there.or_else(|| planned.exchange(name)) {
            return check_same_exchange(current, declare);
        }
        let kind = check_new_exchange(declare)?;
        let id = ExchangeId(number as u64);
        planned.declare_exchange(definition_of(id, kind, declare));
        Ok(())
    }

    fn plan_queue(
        &self,
        planned: &mut Topology,
        number: usize,
        (declare, before): (&QueueDeclare, Option<&QueueDeclare>),
    ) -> Result<(), Refusal> {
        let id = self.topology.queue(declare.queue.as_bytes());
        if let Some(queue) = id.and_then(|id| self.queues.get(&id)) {
            if queue.owner.is_some() {
                return Err(Refusal::Locked(declare.queue.clone()));
            }
            return check_same_queue(&queue.definition, declare);
        }
        check_new_queue(declare)?;
        let id = QueueId(number as u64);
        if let Some(before) = before {
            return check_same_queue(&new_definition(id, before), declare);
        }
        planned.declare_queue_name(declare.queue.clone(), id);
        Ok(())
    }

    fn find_planned<'a>(
        &'a self,
        planned: &'a Topology,
        name: &Name,
    ) -> Result<&'a ExchangeDefinition, Refusal> {
        if name.is_empty() {
            return Err(Refusal::DefaultExchange);
        }
        let there = self.topology.exchange(name.as_bytes());
        there
            .or_else(|| planned.exchange(name.as_bytes()))
            .ok_or_else(|| Refusal::NotFound(Object::Exchange(name.clone())))
    }

    fn check_policy_room(&self, added: [usize; 2]) -> Result<(), Refusal> {
        let counts = [self.policies.count(false), self.policies.count(true)];
        if counts
            .iter()
            .zip(added)
            .any(|(count, added)| count + added > POLICIES_MAX)
        {
            return Err(Refusal::LimitReached {
                what: "policies",
                limit: POLICIES_MAX as u64,
            });
        }
        Ok(())
    }
}
