//! Definitions in RabbitMQ's JSON: read whole, checked whole, and only then carried out.
//!
//! What is there already stays as it is, so the same file may come again; what is there and is
//! not what the file says is a mistake like others, save a policy, which the file replaces.
//! Objects named `amq.…` are passed over, as in RabbitMQ; so are users, permissions and parameters
//! that this broker has no use for: each section is named and counted. Operator policies stand
//! among the parameters.

pub(crate) mod at_start;
mod file;
mod json;
mod nowhere;
mod passed_over;
mod plan;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use menzil_core::{Definition, Definitions, Refusal};
use menzil_model::{Escaped, Map, Name};

use crate::driver::Node;
use crate::driver::shard_driver::{ShardDriver, Touched};
use crate::log;
use file::File;
use passed_over::PassedOver;

pub(crate) use file::PolicyParts;
pub(crate) use json::table_of_fields;
pub(crate) use nowhere::{Nowhere, new_shard};
pub(crate) use plan::{Plan, policy_of};

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
#[derive(Clone, Debug, Default)]
pub(crate) struct Imported {
    /// What was not there before, or was changed: policies.
    pub(crate) new: u64,
    /// What was there already.
    pub(crate) kept: u64,
    /// What of the file has no use here.
    pub(crate) passed_over: Vec<PassedOver>,
}

/// Definitions that read, by virtual host.
pub(crate) struct Parsed {
    pub(crate) plans: BTreeMap<String, Plan>,
    passed_over: Vec<PassedOver>,
}

/// Reads definitions. Nothing of the server is looked at. Objects that name no virtual host, as in
/// an export of a single one, belong to `vhost`; without it they are a mistake.
pub(crate) fn parse(bytes: &[u8], vhost: Option<&str>) -> Result<Parsed, ImportError> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
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
    let (plans, passed_over) = plan::plans(file, vhost)?;
    Ok(Parsed { plans, passed_over })
}

/// Objects that the shard is held for at once.
const OBJECTS_AT_ONCE: usize = 200;

/// Checks everything against what is there, and then carries it out as [`carry_out`] does.
pub(crate) fn import(node: &Node, parsed: Parsed) -> Result<Imported, ImportError> {
    check(&parsed, |vhost, definitions| {
        Some(find(&node.shards, vhost)?.check_definitions(definitions))
    })?;
    carry_out(node, parsed)
}

/// What is wrong with definitions for a shard: the number of one, and why.
pub(crate) type Refused = Box<(usize, Refusal)>;

/// Checks all of them. `check_in` asks a virtual host, and knows none where there is none.
pub(crate) fn check(
    parsed: &Parsed,
    check_in: impl Fn(&str, &Definitions) -> Option<Result<(), Refused>>,
) -> Result<(), ImportError> {
    for (vhost, plan) in &parsed.plans {
        let done = check_in(vhost, &plan.definitions)
            .ok_or_else(|| ImportError::new(plan.first_place(), unknown(vhost)))?;
        done.map_err(|refused| {
            let (number, refusal) = *refused;
            ImportError::new(plan.place(number), advice_on(&refusal, vhost))
        })?;
    }
    Ok(())
}

/// Carries out what [`check`] found good. Returns when all of it is on disk and policies have
/// reached every object. Not for tasks.
pub(crate) fn carry_out(node: &Node, parsed: Parsed) -> Result<Imported, ImportError> {
    let mut checked: Vec<(Arc<ShardDriver>, Plan)> = Vec::new();
    for (vhost, plan) in parsed.plans {
        let shard = find(&node.shards, &vhost)
            .ok_or_else(|| ImportError::new(plan.first_place(), unknown(&vhost)))?;
        checked.push((Arc::clone(shard), plan));
    }
    let mut imported = Imported {
        passed_over: parsed.passed_over,
        ..Imported::default()
    };
    for PassedOver { what, count, why } in &imported.passed_over {
        log::info(
            "definitions have something that is passed over",
            &[("what", what), ("count", count), ("why", why)],
        );
    }
    for (shard, plan) in &checked {
        define(node, shard, plan, &mut imported)?;
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

/// What is wrong, and for what is there and differs, what to do.
fn advice_on(refusal: &Refusal, vhost: &str) -> String {
    let text = text_of(refusal, vhost);
    if matches!(refusal, Refusal::Inequivalent { .. }) {
        return format!("{text}; delete it first, or let the file say what is there");
    }
    text
}

fn define(
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
