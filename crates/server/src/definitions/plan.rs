//! A file of definitions as what each virtual host is to have.

use std::collections::BTreeMap;

use menzil_core::{
    Definitions, ExchangeBind, ExchangeDeclare, PolicyMistake, PolicyRequest, QueueBind,
    QueueDeclare,
};
use menzil_model::fact::PolicyDefinition;
use menzil_model::{Name, Table, Value};
use serde_json::Value as Json;

use super::ImportError;
use super::file::{Arguments, Binding, Exchange, File, Parameter, Policy, PolicyParts, Queue};
use super::json::{field_of, table_of};
use super::passed_over::{PassedOver, add};

/// The component of a parameter that is an operator policy.
pub(super) const OPERATOR_POLICY: &str = "operator_policy";

/// What one virtual host is to have, and where each of it stands in the file.
#[derive(Default)]
pub(crate) struct Plan {
    pub(crate) definitions: Definitions,
    /// Where the virtual host itself stands, if it does.
    vhost: Option<Place>,
    policies: Vec<Place>,
    exchanges: Vec<Place>,
    queues: Vec<Place>,
    exchange_bindings: Vec<Place>,
    queue_bindings: Vec<Place>,
}

/// A list of the file and a number in it.
#[derive(Clone, Copy)]
struct Place(&'static str, usize);

impl Plan {
    /// Where the definition of that number stands.
    pub(crate) fn place(&self, number: usize) -> String {
        let name = |name: &Name| name.to_string();
        let definitions = &self.definitions;
        let names = definitions.policies.iter().map(|one| name(&one.name));
        let names = names.chain(definitions.exchanges.iter().map(|one| name(&one.exchange)));
        let names = names.chain(definitions.queues.iter().map(|one| name(&one.queue)));
        let between = definitions.exchange_bindings.iter();
        let names = names.chain(between.map(|one| pair(&one.source, &one.destination)));
        let bindings = definitions.queue_bindings.iter();
        let mut names = names.chain(bindings.map(|one| pair(&one.exchange, &one.queue)));
        let mut places = self.places();
        match (places.nth(number), names.nth(number)) {
            (Some(Place(list, number)), Some(name)) => format!("{list}[{number}] {name:?}"),
            _ => "definitions".to_owned(),
        }
    }

    /// Where a virtual host is named first.
    pub(super) fn first_place(&self) -> String {
        match self.vhost {
            Some(Place(list, number)) => format!("{list}[{number}]"),
            None => self.place(0),
        }
    }

    fn places(&self) -> impl Iterator<Item = Place> + '_ {
        let places = self.policies.iter().chain(&self.exchanges);
        let places = places.chain(&self.queues).chain(&self.exchange_bindings);
        places.chain(&self.queue_bindings).copied()
    }
}

fn pair(source: &Name, target: &Name) -> String {
    format!("{source} -> {target}")
}

/// Sorts a file's objects by virtual host; those that name none belong to `vhost`. Beside it what
/// is passed over.
pub(super) fn plans(
    file: File,
    vhost: Option<&str>,
) -> Result<(BTreeMap<String, Plan>, Vec<PassedOver>), ImportError> {
    let mut plans = Plans {
        plans: BTreeMap::new(),
        vhost,
        passed_over: file.others.into_iter().map(PassedOver::section).collect(),
    };
    for (number, one) in file.vhosts.into_iter().enumerate() {
        let place = Place("vhosts", number);
        if let Some(kind) = one.default_queue_type() {
            add(&mut plans.passed_over, PassedOver::default_queue_type(kind));
        }
        plans.of(Some(one.name), place, "")?.vhost = Some(place);
    }
    for (number, one) in file.policies.into_iter().enumerate() {
        plans.policy(number, one)?;
    }
    for (number, one) in file.parameters.into_iter().enumerate() {
        plans.parameter(number, one)?;
    }
    for (number, one) in file.exchanges.into_iter().enumerate() {
        plans.exchange(number, one)?;
    }
    for (number, one) in file.queues.into_iter().enumerate() {
        plans.queue(number, one)?;
    }
    for (number, one) in file.bindings.into_iter().enumerate() {
        plans.binding(number, one)?;
    }
    Ok((plans.plans, plans.passed_over))
}

struct Plans<'a> {
    plans: BTreeMap<String, Plan>,
    /// Of objects that name none.
    vhost: Option<&'a str>,
    passed_over: Vec<PassedOver>,
}

impl Plans<'_> {
    fn of(
        &mut self,
        vhost: Option<String>,
        place: Place,
        name: &str,
    ) -> Result<&mut Plan, ImportError> {
        let vhost = vhost.or_else(|| self.vhost.map(str::to_owned));
        let vhost = vhost.ok_or_else(|| {
            error(
                place,
                name,
                "it names no virtual host: an export of a single one does not; add \"vhost\", or \
                 import it with --vhost",
            )
        })?;
        Ok(self.plans.entry(vhost).or_default())
    }

    fn policy(&mut self, number: usize, one: Policy) -> Result<(), ImportError> {
        let place = Place("policies", number);
        let policy = imported_policy(&one.name, false, &one.parts);
        let policy = policy.map_err(|what| error(place, &one.name, what))?;
        let plan = self.of(one.vhost, place, &one.name)?;
        plan.definitions.policies.push(policy);
        plan.policies.push(place);
        Ok(())
    }

    fn parameter(&mut self, number: usize, one: Parameter) -> Result<(), ImportError> {
        if one.component != OPERATOR_POLICY {
            add(&mut self.passed_over, PassedOver::parameter(&one.component));
            return Ok(());
        }
        let place = Place("parameters", number);
        let parts: Result<PolicyParts, _> = serde_json::from_value(one.value);
        let parts = parts.map_err(|what| error(place, &one.name, what.to_string()))?;
        let policy = imported_policy(&one.name, true, &parts);
        let policy = policy.map_err(|what| error(place, &one.name, what))?;
        let plan = self.of(one.vhost, place, &one.name)?;
        plan.definitions.policies.push(policy);
        plan.policies.push(place);
        Ok(())
    }

    fn exchange(&mut self, number: usize, one: Exchange) -> Result<(), ImportError> {
        let place = Place("exchanges", number);
        let name = name_of(place, &one.name)?;
        let declare = ExchangeDeclare {
            exchange: name,
            kind: name_of(place, &one.r#type)?,
            passive: false,
            durable: one.durable,
            auto_delete: one.auto_delete,
            internal: one.internal,
            nowait: true,
            arguments: arguments_of(place, &one.name, &one.arguments)?,
        };
        let plan = self.of(one.vhost, place, &one.name)?;
        if is_passed_over(&one.name) {
            add(&mut self.passed_over, PassedOver::own("exchanges"));
        } else {
            plan.definitions.exchanges.push(declare);
            plan.exchanges.push(place);
        }
        Ok(())
    }

    fn queue(&mut self, number: usize, mut one: Queue) -> Result<(), ImportError> {
        let place = Place("queues", number);
        // Where the default of its virtual host made it what it is, no argument says so. A stream
        // is refused by name, however the file says that it is one.
        if let Some(kind @ (QUORUM | STREAM)) = one.r#type.as_deref()
            && !one.arguments.contains_key(QUEUE_TYPE)
        {
            (one.arguments).insert(QUEUE_TYPE.to_owned(), Json::from(kind));
        }
        let declare = QueueDeclare {
            queue: name_of(place, &one.name)?,
            passive: false,
            durable: one.durable,
            exclusive: false,
            auto_delete: one.auto_delete,
            nowait: true,
            arguments: arguments_of(place, &one.name, &one.arguments)?,
            entropy: 0,
        };
        let plan = self.of(one.vhost, place, &one.name)?;
        if is_passed_over(&one.name) {
            add(&mut self.passed_over, PassedOver::own("queues"));
        } else {
            plan.definitions.queues.push(declare);
            plan.queues.push(place);
        }
        Ok(())
    }

    fn binding(&mut self, number: usize, one: Binding) -> Result<(), ImportError> {
        let place = Place("bindings", number);
        let between = format!("{} -> {}", one.source, one.destination);
        let source = name_of(place, &one.source)?;
        let target = name_of(place, &one.destination)?;
        let routing_key = name_of(place, &one.routing_key)?;
        let arguments = arguments_of(place, &between, &one.arguments)?;
        let plan = self.of(one.vhost, place, &between)?;
        match one.destination_type.as_str() {
            "queue" if one.source.is_empty() || is_passed_over(&one.destination) => {
                let is_of_default = one.source.is_empty();
                add(&mut self.passed_over, PassedOver::binding(is_of_default));
            }
            "queue" => {
                plan.definitions.queue_bindings.push(QueueBind {
                    queue: target,
                    exchange: source,
                    routing_key,
                    nowait: true,
                    arguments,
                });
                plan.queue_bindings.push(place);
            }
            "exchange" => {
                plan.definitions.exchange_bindings.push(ExchangeBind {
                    destination: target,
                    source,
                    routing_key,
                    nowait: true,
                    arguments,
                });
                plan.exchange_bindings.push(place);
            }
            other => {
                let what =
                    format!("destination_type is {other:?}: it must be \"queue\" or \"exchange\"");
                return Err(error(place, &between, what));
            }
        }
        Ok(())
    }
}

const QUEUE_TYPE: &str = "x-queue-type";
const QUORUM: &str = "quorum";
const STREAM: &str = "stream";

fn is_passed_over(name: &str) -> bool {
    name.is_empty() || name.starts_with("amq.")
}

fn error(Place(list, number): Place, name: &str, what: impl Into<String>) -> ImportError {
    ImportError::new(format!("{list}[{number}] {name:?}"), what)
}

fn name_of(place: Place, name: &str) -> Result<Name, ImportError> {
    let shown: String = name.chars().take(32).collect();
    Name::new(name.as_bytes()).ok_or_else(|| error(place, &shown, "it has more than 255 bytes"))
}

fn arguments_of(place: Place, name: &str, arguments: &Arguments) -> Result<Table, ImportError> {
    table_of(arguments).map_err(|what| error(place, name, what))
}

/// A policy from its parts, or RabbitMQ's text of what is wrong with it.
fn imported_policy(
    name: &str,
    is_operator: bool,
    parts: &PolicyParts,
) -> Result<PolicyDefinition, String> {
    policy_of(name, is_operator, parts).map_err(|mistakes| {
        let texts: Vec<String> = mistakes.into_iter().map(|mistake| mistake.text).collect();
        format!("Validation failed: {}", texts.join("; "))
    })
}

/// A policy from its parts, or what is wrong with it.
pub(crate) fn policy_of(
    name: &str,
    is_operator: bool,
    parts: &PolicyParts,
) -> Result<PolicyDefinition, Vec<PolicyMistake>> {
    let unreadable = |what: String| {
        let plain = what.clone();
        vec![PolicyMistake { text: what, plain }]
    };
    let part = |value: &Option<Json>| value.as_ref().map(field_of).transpose().map_err(unreadable);
    let (pattern, apply_to) = (part(&parts.pattern)?, part(&parts.apply_to)?);
    let (priority, definition) = (part(&parts.priority)?, part(&parts.definition)?);
    let request = PolicyRequest {
        name: name.as_bytes(),
        is_operator,
        pattern: value_of(pattern.as_ref()),
        apply_to: value_of(apply_to.as_ref()),
        priority: value_of(priority.as_ref()),
        definition: value_of(definition.as_ref()),
    };
    request.check()
}

fn value_of(field: Option<&Table>) -> Option<Value<'_>> {
    field?.find(b"")
}
