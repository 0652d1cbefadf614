//! Where messages would go, and why: asked of a running server, or of a file of definitions.
//!
//! Both are answered by the same topology and the same words. A file is declared in a shard of
//! its own that writes nothing, as an import would declare it, so that policies, layered and
//! operator ones too, mean what they mean in a server. What an import would refuse is told and
//! left out.

mod question;
mod text;

use std::fmt::Write as _;

use menzil_core::{QueueDeclare, Shard, ShardSettings, Topology};
use menzil_model::{Name, Table};
use serde::{Deserialize, Serialize};

use crate::definitions::{self, Nowhere, Plan};
use crate::driver::Node;

use question::Message;
pub use question::Question;

/// What is to be printed.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Answer {
    /// The explanation, in lines.
    pub text: String,
    /// What was left out of a file, and why.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Why the question ends with a failure: a message would reach no queue, or be refused.
    pub failure: Option<String>,
}

/// Answers from a file of definitions. The error says what is wrong with the file.
pub fn of_definitions(file: &[u8], question: &Question) -> Result<Answer, String> {
    let parsed = definitions::parse(file, Some(&question.vhost));
    let mut plans = parsed.map_err(|error| error.to_string())?.plans;
    let plan = plans.remove(&question.vhost);
    if plan.is_none() && !plans.is_empty() {
        let names: Vec<&str> = plans.keys().map(String::as_str).collect();
        return Err(no_virtual_host(&question.vhost, &names));
    }
    let (shard, notes) = declared(&plan.unwrap_or_default(), &question.vhost);
    let mut answer = answer(shard.topology(), question)?;
    answer.notes = notes;
    Ok(answer)
}

/// Answers from what a server has now.
pub(crate) fn of_server(node: &Node, question: &Question) -> Result<Answer, String> {
    let Some(shard) = definitions::find(&node.shards, &question.vhost) else {
        let mut names: Vec<String> = node.shards.keys().map(Name::to_string).collect();
        names.sort_unstable();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        return Err(no_virtual_host(&question.vhost, &names));
    };
    answer(&shard.topology(), question)
}

fn no_virtual_host(vhost: &str, names: &[&str]) -> String {
    format!(
        "no virtual host '{vhost}'; there is '{}'",
        names.join("', '")
    )
}

fn answer(topology: &Topology, question: &Question) -> Result<Answer, String> {
    let message = question.message()?;
    match &question.keys {
        None => one(topology, question, &message),
        Some(lines) => many(topology, question, &message, lines),
    }
}

fn one(topology: &Topology, question: &Question, message: &Message) -> Result<Answer, String> {
    let explanation = message.explain(topology, &question.exchange, &question.key)?;
    let failure = match &explanation.refusal {
        Some(refusal) => Some(text::refusal(
            refusal,
            &explanation.similar,
            &question.vhost,
        )),
        None if explanation.is_unroutable() => Some("the message would reach no queue".to_owned()),
        None => None,
    };
    Ok(Answer {
        text: text::whole(&explanation),
        notes: Vec::new(),
        failure,
    })
}

fn many(
    topology: &Topology,
    question: &Question,
    message: &Message,
    lines: &str,
) -> Result<Answer, String> {
    let (mut count, mut lost) = (0, 0);
    let mut text = String::new();
    // Editors on Windows put it in front; no key begins with it.
    let lines = lines.strip_prefix('\u{feff}').unwrap_or(lines);
    for line in lines.lines().filter(|line| !is_passed_over(line)) {
        let (exchange, key) = line
            .split_once('\t')
            .unwrap_or((question.exchange.as_str(), line));
        let explanation = message.explain(topology, exchange, key)?;
        count += 1;
        lost += usize::from(explanation.is_unroutable());
        text += &text::line(&explanation, line, &question.vhost);
    }
    if count == 0 {
        let failure = "there are no keys to check: a routing key in each line is wanted";
        return Ok(Answer {
            failure: Some(failure.to_owned()),
            ..Answer::default()
        });
    }
    if lost == 0 {
        let _ = writeln!(text, "{count} keys, each reaches a queue");
    }
    Ok(Answer {
        text,
        notes: Vec::new(),
        failure: (lost > 0).then(|| format!("{lost} of {count} keys would reach no queue")),
    })
}

/// Whether a line has no key: nothing, or a comment. A key that begins like one stands behind
/// its exchange and a tab.
fn is_passed_over(line: &str) -> bool {
    line.is_empty() || line == "#" || line.starts_with("# ")
}

/// A shard that has what the file says, and what of it was left out.
fn declared(plan: &Plan, vhost: &str) -> (Shard, Vec<String>) {
    let (mut log, mut effects) = (Nowhere::default(), Vec::new());
    let name = Name::cut(vhost.as_bytes());
    let mut shard = definitions::new_shard(ShardSettings::default(), &name, &mut log);
    let mut notes = Vec::new();
    for (number, definition) in plan.definitions.iter().enumerate() {
        let Err(refusal) = shard.define(0, definition, &mut log, &mut effects) else {
            continue;
        };
        let (place, why) = (plan.place(number), definitions::text_of(&refusal, vhost));
        // The code is for clients.
        let why = why.split_once(" - ").map_or(why.as_str(), |(_, why)| why);
        let plain = definition.queue().map(plain_queue);
        let is_there = plain.is_some_and(|plain| {
            let plain = menzil_core::Definition::Queue(&plain);
            shard.define(0, plain, &mut log, &mut effects).is_ok()
        });
        let what = if is_there {
            "counts as a plain queue"
        } else {
            "is left out"
        };
        notes.push(format!("{place} {what}:\n  {why}"));
    }
    while shard.is_applying_policies() {
        shard.expire(0, &mut log, &mut effects);
    }
    (shard, notes)
}

/// Whatever a queue is, messages are routed to it by its name.
fn plain_queue(declare: &QueueDeclare) -> QueueDeclare {
    QueueDeclare {
        auto_delete: false,
        durable: true,
        arguments: Table::empty(),
        ..declare.clone()
    }
}
