//! A topology from definitions as RabbitMQ exports them: of all virtual hosts, or of one.
//!
//! Only what routing looks at is read; a queue that this broker would refuse is still a
//! destination. What cannot be taken is told and left out.

use std::collections::BTreeMap;

use menzil_core::Topology;
use menzil_model::fact::{Binding, Destination, ExchangeDefinition, ExchangeKind};
use menzil_model::{ExchangeId, Name, QueueId, Table};
use regex_lite::Regex;
use serde_json::{Map, Value};

use super::message::table;

/// What was read.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) topology: Topology,
    /// What was left out, and why.
    pub(super) notes: Vec<String>,
}

/// Exchanges that every virtual host has and no export names.
const PREDECLARED: [(&str, ExchangeKind); 6] = [
    ("", ExchangeKind::Direct),
    ("amq.direct", ExchangeKind::Direct),
    ("amq.fanout", ExchangeKind::Fanout),
    ("amq.headers", ExchangeKind::Headers),
    ("amq.match", ExchangeKind::Headers),
    ("amq.topic", ExchangeKind::Topic),
];

const ALTERNATE: &str = "alternate-exchange";

type Object = Map<String, Value>;

/// A reader of one virtual host's part.
struct Loading<'a> {
    vhost: &'a str,
    topology: Topology,
    notes: Vec<String>,
    /// The highest first.
    policies: Vec<Policy>,
    exchanges: BTreeMap<String, ExchangeId>,
    queues: BTreeMap<String, QueueId>,
}

impl Loaded {
    pub(super) fn from_json(text: &str, vhost: &str) -> Result<Self, String> {
        let whole: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let whole = whole.as_object().ok_or("no JSON object")?;
        if let Some(Value::String(error)) = whole.get("error") {
            return Err(error.clone());
        }
        let mut loading = Loading {
            vhost,
            topology: Topology::default(),
            notes: Vec::new(),
            policies: Vec::new(),
            exchanges: BTreeMap::new(),
            queues: BTreeMap::new(),
        };
        loading.check_vhost(whole)?;
        for policy in loading.objects(whole, "policies")? {
            loading.policies.extend(Policy::of(policy)?);
        }
        (loading.policies).sort_by_key(|policy| std::cmp::Reverse(policy.priority));
        for (name, kind) in PREDECLARED {
            loading.declare(name, kind, false, Table::empty(), None)?;
        }
        for exchange in loading.objects(whole, "exchanges")? {
            loading.exchange(exchange)?;
        }
        for queue in loading.objects(whole, "queues")? {
            loading.queue(queue)?;
        }
        for binding in loading.objects(whole, "bindings")? {
            loading.binding(binding)?;
        }
        Ok(Self {
            topology: loading.topology,
            notes: loading.notes,
        })
    }
}

impl Loading<'_> {
    /// Whether the file has that virtual host, where it says which it has.
    fn check_vhost(&self, whole: &Object) -> Result<(), String> {
        let Some(Value::Array(hosts)) = whole.get("vhosts") else {
            return Ok(());
        };
        let name_of = |host: &Value| host.get("name").and_then(Value::as_str).map(str::to_owned);
        let names: Vec<String> = hosts.iter().filter_map(name_of).collect();
        if names.is_empty() || names.iter().any(|name| name == self.vhost) {
            return Ok(());
        }
        Err(format!(
            "no virtual host '{}'; there is '{}'",
            self.vhost,
            names.join("', '")
        ))
    }

    /// The objects of a list that belong to the virtual host: those that name none, too.
    fn objects<'v>(&self, whole: &'v Object, list: &str) -> Result<Vec<&'v Object>, String> {
        let Some(items) = whole.get(list) else {
            return Ok(Vec::new());
        };
        let items = items.as_array().ok_or_else(|| format!("{list}: no list"))?;
        let mut objects = Vec::new();
        for item in items {
            let object = item
                .as_object()
                .ok_or_else(|| format!("{list}: no object"))?;
            match object.get("vhost").and_then(Value::as_str) {
                Some(vhost) if vhost != self.vhost => {}
                _ => objects.push(object),
            }
        }
        Ok(objects)
    }

    /// `alternate` is what a server says that policies give it.
    fn declare(
        &mut self,
        name: &str,
        kind: ExchangeKind,
        internal: bool,
        arguments: Table,
        alternate: Option<&str>,
    ) -> Result<(), String> {
        let id = ExchangeId(self.exchanges.len() as u64);
        if self.exchanges.contains_key(name) {
            return Ok(());
        }
        let own = arguments.find(ALTERNATE.as_bytes()).is_some();
        let imposed = alternate.or_else(|| alternate_of(&self.policies, name));
        let imposed = imposed.filter(|_| !own && !name.is_empty());
        let arguments = match imposed {
            Some(alternate) => with_alternate(&arguments, alternate)?,
            None => arguments,
        };
        self.topology.declare_exchange(ExchangeDefinition {
            id,
            name: name_of(name)?,
            kind,
            durable: true,
            auto_delete: false,
            internal,
            arguments,
        });
        self.exchanges.insert(name.to_owned(), id);
        Ok(())
    }

    fn exchange(&mut self, object: &Object) -> Result<(), String> {
        let name = text(object, "name", "an exchange")?;
        let what = format!("exchange '{name}'");
        let declared = text(object, "type", &what)?;
        let arguments = arguments(object, &what)?;
        // What is delayed goes by this type in the end.
        let given = (object.get("arguments")).and_then(|all| all.get("x-delayed-type"));
        let kind = match (declared, given.and_then(Value::as_str)) {
            ("x-delayed-message", Some(inner)) => inner,
            (declared, _) => declared,
        };
        let Some(kind) = ExchangeKind::from_name(kind.as_bytes()) else {
            let note = format!("{what} is left out: type '{declared}' is not known here");
            self.notes.push(note);
            return Ok(());
        };
        let internal = object.get("internal").and_then(Value::as_bool);
        let alternate = object.get("alternate").and_then(Value::as_str);
        let internal = internal.unwrap_or_default();
        self.declare(name, kind, internal, arguments, alternate)
    }

    fn queue(&mut self, object: &Object) -> Result<(), String> {
        let name = text(object, "name", "a queue")?;
        let id = QueueId(self.queues.len() as u64);
        self.topology.declare_queue_name(name_of(name)?, id);
        self.queues.insert(name.to_owned(), id);
        Ok(())
    }

    fn binding(&mut self, object: &Object) -> Result<(), String> {
        let source = text(object, "source", "a binding")?;
        let to = text(object, "destination", "a binding")?;
        let what = format!("the binding from '{source}' to '{to}'");
        let destination = match text(object, "destination_type", &what)? {
            "queue" => self.queues.get(to).copied().map(Destination::Queue),
            "exchange" => self.exchanges.get(to).copied().map(Destination::Exchange),
            other => return Err(format!("{what}: destination_type '{other}'")),
        };
        // The default exchange has its queues by name.
        if source.is_empty() {
            return Ok(());
        }
        let Some((source, destination)) = self.exchanges.get(source).copied().zip(destination)
        else {
            self.notes
                .push(format!("{what} is left out: an end of it is missing"));
            return Ok(());
        };
        let key = object.get("routing_key").and_then(Value::as_str);
        self.topology.bind(Binding {
            source,
            destination,
            key: name_of(key.unwrap_or_default())?,
            arguments: arguments(object, &what)?,
        });
        Ok(())
    }
}

/// A policy that may say where an exchange's alternate is.
#[derive(Debug)]
struct Policy {
    pattern: Regex,
    priority: i64,
    alternate: Option<String>,
    /// Lower ones count where it says nothing.
    is_layered: bool,
}

impl Policy {
    fn of(object: &Object) -> Result<Option<Self>, String> {
        let what = format!("policy '{}'", text(object, "name", "a policy")?);
        let apply_to = object.get("apply-to").and_then(Value::as_str);
        if !matches!(apply_to, None | Some("all" | "exchanges")) {
            return Ok(None);
        }
        let pattern = text(object, "pattern", &what)?;
        let pattern = Regex::new(pattern).map_err(|error| format!("{what}: {error}"))?;
        let definition = object.get("definition");
        let key = |name: &str| definition.and_then(|definition| definition.get(name));
        Ok(Some(Self {
            pattern,
            priority: object
                .get("priority")
                .and_then(Value::as_i64)
                .unwrap_or_default(),
            alternate: key("alternate-exchange")
                .and_then(Value::as_str)
                .map(str::to_owned),
            is_layered: key("layered").and_then(Value::as_bool).unwrap_or_default(),
        }))
    }
}

fn with_alternate(arguments: &Table, alternate: &str) -> Result<Table, String> {
    let mut fields = Map::new();
    fields.insert(ALTERNATE.to_owned(), Value::from(alternate));
    let content = [arguments.as_bytes(), table(&fields)?.as_bytes()].concat();
    Table::copy_from(&content).map_err(|error| format!("{error:?}"))
}

/// The alternate exchange that policies, highest first, give the exchange of that name.
fn alternate_of<'p>(policies: &'p [Policy], name: &str) -> Option<&'p str> {
    for policy in policies
        .iter()
        .filter(|policy| policy.pattern.is_match(name))
    {
        if policy.alternate.is_some() || !policy.is_layered {
            return policy.alternate.as_deref();
        }
    }
    None
}

fn name_of(text: &str) -> Result<Name, String> {
    Name::new(text.as_bytes()).ok_or_else(|| format!("'{text:.40}…' is longer than 255 bytes"))
}

fn text<'v>(object: &'v Object, field: &str, what: &str) -> Result<&'v str, String> {
    let found = object.get(field).and_then(Value::as_str);
    found.ok_or_else(|| format!("{what} has no {field}"))
}

fn arguments(object: &Object, what: &str) -> Result<Table, String> {
    match object.get("arguments") {
        Some(Value::Object(fields)) => {
            table(fields).map_err(|why| format!("{what}: arguments: {why}"))
        }
        // An empty table is an empty list to some exporters.
        _ => Ok(Table::empty()),
    }
}
