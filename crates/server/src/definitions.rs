//! Definitions in RabbitMQ's JSON: read whole, checked whole, and only then carried out.
//!
//! What is there already stays as it is, so the same file may come again. Objects named `amq.…`
//! are passed over, as in RabbitMQ; so are users, permissions and parameters that this broker
//! has no use for, with a line in the log. Operator policies stand among the parameters.

mod json;
mod plan;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use menzil_core::{Definition, Refusal};
use menzil_model::{Escaped, Map, Name};
use serde::Deserialize;

use crate::driver::Node;
use crate::driver::shard_driver::{ShardDriver, Touched};
use crate::log;
use plan::Plan;

pub(crate) use plan::policy_of;

/// Why definitions were not imported: where the mistake is, and what.
#[derive(Debug)]
pub(crate) struct ImportError {
    place: String,
    what: String,
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

impl ImportError {
    fn new(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            what: what.into(),
        }
    }
}

/// What an import did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Imported {
    /// What was not there before, or was changed: policies.
    pub(crate) new: u64,
    /// What was there already.
    pub(crate) kept: u64,
}

/// The file. What is not named here has no meaning for this broker.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct File {
    vhosts: Vec<VirtualHost>,
    users: Vec<serde::de::IgnoredAny>,
    permissions: Vec<serde::de::IgnoredAny>,
    topic_permissions: Vec<serde::de::IgnoredAny>,
    global_parameters: Vec<serde::de::IgnoredAny>,
    parameters: Vec<Parameter>,
    policies: Vec<Policy>,
    exchanges: Vec<Exchange>,
    queues: Vec<Queue>,
    bindings: Vec<Binding>,
}

#[derive(Debug, Deserialize)]
struct VirtualHost {
    name: String,
}

type Arguments = serde_json::Map<String, serde_json::Value>;

#[derive(Debug, Deserialize)]
struct Parameter {
    vhost: Option<String>,
    component: String,
    name: String,
    value: serde_json::Value,
}

#[derive(Debug, Deserialize)]
struct Policy {
    vhost: Option<String>,
    name: String,
    #[serde(flatten)]
    parts: PolicyParts,
}

/// What a policy says of itself, in a file or over the socket.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct PolicyParts {
    pattern: Option<serde_json::Value>,
    #[serde(rename = "apply-to")]
    apply_to: Option<serde_json::Value>,
    priority: Option<serde_json::Value>,
    definition: Option<serde_json::Value>,
}

#[derive(Debug, Deserialize)]
struct Exchange {
    vhost: Option<String>,
    name: String,
    r#type: String,
    #[serde(default = "yes")]
    durable: bool,
    #[serde(default)]
    auto_delete: bool,
    #[serde(default)]
    internal: bool,
    #[serde(default)]
    arguments: Arguments,
}

#[derive(Debug, Deserialize)]
struct Queue {
    vhost: Option<String>,
    name: String,
    #[serde(default = "yes")]
    durable: bool,
    #[serde(default)]
    auto_delete: bool,
    #[serde(default)]
    arguments: Arguments,
}

#[derive(Debug, Deserialize)]
struct Binding {
    vhost: Option<String>,
    source: String,
    destination: String,
    destination_type: String,
    #[serde(default)]
    routing_key: String,
    #[serde(default)]
    arguments: Arguments,
}

fn yes() -> bool {
    true
}

/// Definitions that read, by virtual host.
pub(crate) struct Parsed {
    plans: BTreeMap<String, Plan>,
}

/// Reads a file of definitions.
pub(crate) fn read(path: &Path) -> Result<Parsed, String> {
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    parse(&bytes).map_err(|error| format!("{}: {error}", path.display()))
}

/// Reads definitions. Nothing of the server is looked at.
pub(crate) fn parse(bytes: &[u8]) -> Result<Parsed, ImportError> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    // A list would read as a file whose sections are in no order, or not there.
    if bytes.trim_ascii_start().first() == Some(&b'[') {
        let what = "a JSON object is wanted here, as RabbitMQ exports it";
        return Err(ImportError::new("line 1, column 1", what));
    }
    let file: File = serde_json::from_slice(bytes).map_err(|error| {
        let place = format!("line {}, column {}", error.line(), error.column());
        let text = error.to_string();
        let what = text.split(" at line ").next().unwrap_or_default();
        ImportError::new(place, what)
    })?;
    let parameters = file.parameters.iter();
    let others = parameters.filter(|one| one.component != plan::OPERATOR_POLICY);
    for (what, count) in [
        ("users", file.users.len()),
        ("permissions", file.permissions.len()),
        ("topic_permissions", file.topic_permissions.len()),
        ("global_parameters", file.global_parameters.len()),
        ("parameters", others.count()),
    ] {
        if count > 0 {
            log::info(
                "definitions have something that is passed over",
                &[("what", &what), ("count", &count)],
            );
        }
    }
    let plans = plan::plans(file)?;
    Ok(Parsed { plans })
}

/// Objects that the shard is held for at once.
const OBJECTS_AT_ONCE: usize = 200;

/// Checks everything against what is there, and then carries it out. Returns when all of it is
/// on disk and policies have reached every object. Not for tasks.
pub(crate) fn import(node: &Node, parsed: Parsed) -> Result<Imported, ImportError> {
    let mut checked: Vec<(Arc<ShardDriver>, Plan)> = Vec::new();
    for (vhost, plan) in parsed.plans {
        let shard = find(&node.shards, &vhost)
            .ok_or_else(|| ImportError::new(plan.first_place(), unknown(&vhost)))?;
        let refused = shard.check_definitions(&plan.definitions);
        refused.map_err(|refused| {
            let (number, refusal) = *refused;
            ImportError::new(plan.place(number), text_of(&refusal, &vhost))
        })?;
        checked.push((Arc::clone(shard), plan));
    }
    let mut imported = Imported::default();
    for (shard, plan) in &checked {
        carry_out(node, shard, plan, &mut imported)?;
    }
    for (shard, _) in &checked {
        finish(node, shard);
    }
    log::info(
        "definitions imported",
        &[("new", &imported.new), ("kept", &imported.kept)],
    );
    Ok(imported)
}

fn carry_out(
    node: &Node,
    shard: &ShardDriver,
    plan: &Plan,
    imported: &mut Imported,
) -> Result<(), ImportError> {
    let all: Vec<Definition<'_>> = plan.definitions.iter().collect();
    let mut number = 0;
    for some in all.chunks(OBJECTS_AT_ONCE) {
        if *node.stopping.borrow() {
            let what = "the server stops; what came before this is there";
            return Err(ImportError::new(plan.place(number), what));
        }
        let mut touched = Touched::new();
        let mut batch = shard.batch(node);
        for definition in some {
            let done = batch.define(*definition, &mut touched);
            let is_new = done.map_err(|refusal| {
                let vhost = shard.name.to_string();
                ImportError::new(plan.place(number), text_of(&refusal, &vhost))
            })?;
            number += 1;
            imported.new += u64::from(is_new);
            imported.kept += u64::from(!is_new);
        }
        drop(batch);
        node.flush(&mut touched);
        if node.journal.pending_bytes() >= node.settings.journal_pending_bytes_max.0 {
            node.wait_committed(shard, node.journal.appended(shard.id));
        }
    }
    Ok(())
}

/// Waits until all of it is on disk, and has reached every object. Not for tasks.
pub(crate) fn finish(node: &Node, shard: &ShardDriver) {
    loop {
        let mut touched = Touched::new();
        let mut batch = shard.batch(node);
        let is_applying = batch.is_applying_policies();
        if is_applying {
            batch.expire(&mut touched);
        }
        drop(batch);
        node.flush(&mut touched);
        if !is_applying {
            break;
        }
    }
    node.wait_committed(shard, node.journal.appended(shard.id));
}

/// The virtual host of that name.
pub(crate) fn find<'a>(
    shards: &'a Map<Name, Arc<ShardDriver>>,
    vhost: &str,
) -> Option<&'a Arc<ShardDriver>> {
    shards.get(vhost.as_bytes())
}

/// What is said of a virtual host that is not there.
pub(crate) fn unknown(vhost: &str) -> String {
    format!("there is no virtual host {vhost:?}; name it in the setting virtual_hosts")
}

/// A refusal as a client would read it.
pub(crate) fn text_of(refusal: &Refusal, vhost: &str) -> String {
    let violation = menzil_amqp::refusal::violation(refusal, vhost.as_bytes());
    Escaped(&violation.text()).to_string()
}
