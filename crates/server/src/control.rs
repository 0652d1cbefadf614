//! What a running server is asked over the Unix socket in its data folder.
//!
//! ```text
//! question := word [ " " rest ] "\n" [ content ]      content has as many bytes of JSON as rest says
//! answer   := one line of JSON; { "error": text } where it was refused
//! ```
//! Only the owner of the folder may connect.

use std::sync::Arc;

use menzil_core::{Object, PolicyReach, Refusal, SettingOrigin, SettingValue};
use menzil_model::fact::PolicyDefinition;
use menzil_model::{Escaped, Name, Table, Value as Field, text_of};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::definitions::{self, PolicyParts};
use crate::driver::Node;
use crate::driver::shard_driver::{ShardDriver, Touched};
use crate::explain::{self, Question};
use crate::{delays, log, stats};

/// The most bytes of a question's content.
pub(crate) const CONTENT_BYTES_MAX: usize = 256 << 20;

/// The words that have content.
const WITH_CONTENT: [&str; 8] = [
    "queue",
    "explain",
    "set-policy",
    "clear-policy",
    "effective",
    "import",
    "delays",
    "cancel-delays",
];

/// How many bytes of content follow a question: the first word of its rest.
pub(crate) fn length_of(word: &str, rest: &str) -> usize {
    if WITH_CONTENT.contains(&word) {
        let length = rest.split(' ').next().unwrap_or_default();
        length.parse().unwrap_or(0)
    } else {
        0
    }
}

/// Answers a question. It may wait for the disk: not for tasks.
pub(crate) fn answer(node: &Node, word: &str, rest: &str, content: &[u8]) -> Value {
    let done = match word {
        "stats" => Ok(stats::all(node)),
        "queue" => read(content).and_then(|asked| queue(node, &asked)),
        "explain" => read(content).and_then(|asked| explained(node, &asked)),
        "policies" => Ok(policies(node)),
        "set-policy" => read(content).and_then(|asked| set_policy(node, &asked)),
        "clear-policy" => read(content).and_then(|asked| clear_policy(node, &asked)),
        "effective" => read(content).and_then(|asked| effective(node, &asked)),
        "import" => import(node, rest, content),
        "delays" => read(content).and_then(|asked| delays::list(node, &asked)),
        "cancel-delays" => read(content).and_then(|asked| delays::cancel(node, &asked)),
        _ => Err(format!(
            "ask for stats, queue, explain, policies, set-policy, clear-policy, effective, import, \
             delays or cancel-delays, not {word:?}"
        )),
    };
    done.unwrap_or_else(|error| json!({ "error": error }))
}

fn read<'a, T: Deserialize<'a>>(content: &'a [u8]) -> Result<T, String> {
    serde_json::from_slice(content).map_err(|error| error.to_string())
}

fn explained(node: &Node, asked: &Question) -> Result<Value, String> {
    let answer = explain::of_server(node, asked)?;
    serde_json::to_value(answer).map_err(|error| error.to_string())
}

/// Behind the length may stand the virtual host of what names none.
fn import(node: &Node, rest: &str, content: &[u8]) -> Result<Value, String> {
    let vhost = rest.split_once(' ').map(|(_, vhost)| vhost);
    let parsed = definitions::parse(content, vhost).map_err(|error| error.to_string())?;
    let imported = definitions::import(node, parsed).map_err(|error| error.to_string())?;
    Ok(json!({
        "new": imported.new,
        "kept": imported.kept,
        "passed_over": imported.passed_over,
    }))
}

/// The virtual host of who names none.
pub(crate) fn slash() -> String {
    "/".to_owned()
}

#[derive(Deserialize)]
struct SetPolicy {
    #[serde(default = "slash")]
    vhost: String,
    name: String,
    #[serde(default)]
    operator: bool,
    #[serde(flatten)]
    parts: PolicyParts,
}

#[derive(Deserialize)]
struct ClearPolicy {
    #[serde(default = "slash")]
    vhost: String,
    name: String,
    #[serde(default)]
    operator: bool,
}

#[derive(Deserialize)]
struct QueueOf {
    #[serde(default = "slash")]
    vhost: String,
    queue: String,
}

#[derive(Deserialize)]
struct EffectiveOf {
    #[serde(default = "slash")]
    vhost: String,
    queue: Option<String>,
    exchange: Option<String>,
}

pub(crate) fn shard<'a>(node: &'a Node, vhost: &str) -> Result<&'a Arc<ShardDriver>, String> {
    definitions::find(&node.shards, vhost).ok_or_else(|| definitions::unknown(vhost))
}

/// One queue in numbers.
fn queue(node: &Node, asked: &QueueOf) -> Result<Value, String> {
    let QueueOf { vhost, queue } = asked;
    let found = shard(node, vhost)?.numbers_of(queue.as_bytes());
    let found = found.ok_or_else(|| absent("queue", queue, vhost))?;
    Ok(stats::of_queue(&found))
}

fn absent(kind: &str, name: &str, vhost: &str) -> String {
    let (name, vhost) = (Escaped(name.as_bytes()), Escaped(vhost.as_bytes()));
    format!("there is no {kind} '{name}' in virtual host '{vhost}'")
}

fn set_policy(node: &Node, asked: &SetPolicy) -> Result<Value, String> {
    let shard = shard(node, &asked.vhost)?;
    let policy = definitions::policy_of(&asked.name, asked.operator, &asked.parts);
    let policy = policy.map_err(|mistakes| {
        let plain: Vec<String> = mistakes.into_iter().map(|mistake| mistake.plain).collect();
        plain.join("; ")
    })?;
    let mut set = of_policy(&asked.vhost, &policy);
    let reach = PolicyReach::of(&policy);
    if let Some(fields) = set.as_object_mut() {
        fields.insert("exchanges".to_owned(), json!(reach.exchanges));
        fields.insert("queues".to_owned(), json!(reach.queues));
    }
    let mut touched = Touched::new();
    let done = shard.batch(node).set_policy(policy, &mut touched);
    node.flush(&mut touched);
    done.map_err(|refusal| plain(&refusal, &asked.vhost))?;
    definitions::finish(node, shard);
    log::info(
        "policy set",
        &[
            ("virtual_host", &asked.vhost),
            ("name", &asked.name),
            ("operator", &asked.operator),
        ],
    );
    Ok(json!({ "set": set }))
}

/// A refusal without the code that it has for clients.
fn plain(refusal: &Refusal, vhost: &str) -> String {
    let text = definitions::text_of(refusal, vhost);
    let without_code = text.split_once(" - ").map(|(_, text)| text.to_owned());
    without_code.unwrap_or(text)
}

fn clear_policy(node: &Node, asked: &ClearPolicy) -> Result<Value, String> {
    let shard = shard(node, &asked.vhost)?;
    let name = Name::cut(asked.name.as_bytes());
    let mut touched = Touched::new();
    let was_there = shard
        .batch(node)
        .clear_policy(&name, asked.operator, &mut touched);
    node.flush(&mut touched);
    if !was_there {
        return Err(format!(
            "there is no {} {:?} in virtual host {:?}",
            kind(asked.operator),
            asked.name,
            asked.vhost
        ));
    }
    definitions::finish(node, shard);
    log::info(
        "policy cleared",
        &[
            ("virtual_host", &asked.vhost),
            ("name", &asked.name),
            ("operator", &asked.operator),
        ],
    );
    Ok(json!({ "cleared": asked.name }))
}

fn kind(is_operator: bool) -> &'static str {
    if is_operator {
        "operator policy"
    } else {
        "policy"
    }
}

fn policies(node: &Node) -> Value {
    let mut shards: Vec<_> = node.shards.values().collect();
    shards.sort_by(|a, b| a.name.cmp(&b.name));
    let all = shards.into_iter().flat_map(|shard| {
        let vhost = text_of(shard.name.as_bytes());
        let policies = shard.policies().into_iter();
        policies.map(move |policy| of_policy(&vhost, &policy))
    });
    json!({ "policies": all.collect::<Vec<_>>() })
}

fn of_policy(vhost: &str, policy: &PolicyDefinition) -> Value {
    json!({
        "vhost": vhost,
        "name": text_of(policy.name.as_bytes()),
        "operator": policy.is_operator,
        "pattern": text_of(&policy.pattern),
        "apply-to": policy.apply_to.name(),
        "priority": policy.priority,
        "definition": of_definition(&policy.definition),
    })
}

/// Texts, whole numbers and flags are all that a policy has.
fn of_definition(definition: &Table) -> Value {
    let fields = definition.fields().map(|(key, value)| {
        let key = text_of(key);
        let number = value.as_integer().and_then(|n| i64::try_from(n).ok());
        let value = match (value, number) {
            (_, Some(number)) => json!(number),
            (Field::LongString(text), None) => json!(text_of(text)),
            (Field::Bool(flag), None) => json!(flag),
            (_, None) => Value::Null,
        };
        (key, value)
    });
    Value::Object(fields.collect())
}

fn effective(node: &Node, asked: &EffectiveOf) -> Result<Value, String> {
    let shard = shard(node, &asked.vhost)?;
    let object = match (&asked.queue, &asked.exchange) {
        (Some(queue), None) => Object::Queue(Name::cut(queue.as_bytes())),
        (None, Some(exchange)) => Object::Exchange(Name::cut(exchange.as_bytes())),
        _ => return Err("name a queue or an exchange".to_owned()),
    };
    let Some(effective) = shard.effective(&object) else {
        return Err(match (&asked.queue, &asked.exchange) {
            (Some(name), _) => absent("queue", name, &asked.vhost),
            (None, name) => absent(
                "exchange",
                name.as_deref().unwrap_or_default(),
                &asked.vhost,
            ),
        });
    };
    let settings = effective.settings.iter().map(|setting| {
        let value = match &setting.value {
            SettingValue::Text(text) => json!(text_of(text)),
            SettingValue::Integer(number) => json!(number),
            SettingValue::Flag(flag) => json!(flag),
            SettingValue::Other(kind) => json!({ "type": kind }),
        };
        let (origin, by) = match &setting.origin {
            SettingOrigin::Argument => ("argument", Value::Null),
            SettingOrigin::Policy(name) => ("policy", json!(text_of(name.as_bytes()))),
            SettingOrigin::OperatorPolicy(name) => {
                ("operator policy", json!(text_of(name.as_bytes())))
            }
        };
        json!({ "key": setting.key.to_string(), "value": value, "origin": origin, "by": by })
    });
    Ok(json!({ "settings": settings.collect::<Vec<_>>() }))
}
