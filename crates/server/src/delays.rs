//! What waits in exchanges that delay, for `menzil delays`.
//!
//! A page is listed with the shard held for one exchange at a time; routing keys are read from
//! the journal after that. So what is due meanwhile may be listed, without its key.

use menzil_core::Delay;
use menzil_model::fact::read_routing_key;
use menzil_model::{Name, Sequence, text_of};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::control::{shard, slash};
use crate::driver::Node;
use crate::driver::shard_driver::{ShardDriver, Touched};
use crate::log::{self, timestamp};

/// Messages in one answer, but for those that are due at one place in several exchanges.
const LISTED_MAX: usize = 1000;

/// Messages that one question may cancel, and how many the shard is held for at once.
const CANCELLED_MAX: usize = 10_000;
const CANCELLED_AT_ONCE: usize = 100;

#[derive(Deserialize)]
pub(crate) struct ListOf {
    #[serde(default = "slash")]
    vhost: String,
    exchange: Option<String>,
    /// Only what comes behind the message of this number.
    #[serde(default)]
    after: u64,
    limit: Option<usize>,
}

#[derive(Deserialize)]
pub(crate) struct CancelOf {
    #[serde(default = "slash")]
    vhost: String,
    exchange: String,
    ids: Vec<u64>,
}

struct Listed {
    exchange: Name,
    delay: Delay,
    routing_key: Option<Name>,
}

pub(crate) fn list(node: &Node, asked: &ListOf) -> Result<Value, String> {
    let shard = shard(node, &asked.vhost)?;
    let mut exchanges = shard.delays();
    if let Some(name) = &asked.exchange {
        exchanges.retain(|one| one.exchange.as_bytes() == name.as_bytes());
        if exchanges.is_empty() {
            return Err(no_exchange(name, &asked.vhost));
        }
    }
    let limit = asked.limit.unwrap_or(LISTED_MAX).clamp(1, LISTED_MAX);
    let after = Sequence(asked.after);
    let mut listed: Vec<Listed> = Vec::new();
    for one in &exchanges {
        // One more than are shown tells whether there are more.
        let delays = shard.list_delays(one.exchange.as_bytes(), after, limit + 1);
        let delays = delays.unwrap_or_default().into_iter();
        listed.extend(delays.map(|delay| Listed {
            exchange: one.exchange.clone(),
            delay,
            routing_key: None,
        }));
        // Stable: those of one place stay in the order of the exchanges' names.
        listed.sort_by_key(|one| one.delay.id);
        listed.truncate(whole_places(&listed, limit + 1));
    }
    let shown = whole_places(&listed, limit);
    let has_more = listed.len() > shown;
    listed.truncate(shown);
    read_keys(node, shard, &mut listed);
    let now = node.clock.now_ms();
    let next = listed.last().filter(|_| has_more);
    Ok(json!({
        "waiting": exchanges.iter().map(|one| one.count).sum::<u64>(),
        "refused": exchanges.iter().map(|one| one.refused).sum::<u64>(),
        "waiting_bytes": exchanges.iter().map(|one| one.body_bytes).sum::<u64>(),
        "next": next.map(|one| one.delay.id.0.to_string()),
        "delays": listed.iter().map(|one| of_listed(one, now)).collect::<Vec<_>>(),
    }))
}

/// How many of them make so many or some more: pages end where a number does.
fn whole_places(listed: &[Listed], count: usize) -> usize {
    let Some(last) = count.checked_sub(1).and_then(|at| listed.get(at)) else {
        return listed.len();
    };
    listed.partition_point(|one| one.delay.id <= last.delay.id)
}

fn of_listed(one: &Listed, now: u64) -> Value {
    let delay = &one.delay;
    json!({
        // As text: it has more digits than the numbers of many programs.
        "id": delay.id.0.to_string(),
        "exchange": text_of(one.exchange.as_bytes()),
        "routing_key": one.routing_key.as_ref().map(|key| text_of(key.as_bytes())),
        "due_at": timestamp(delay.due_at),
        "due_in_ms": delay.due_at.saturating_sub(now),
        "body_bytes": delay.body_bytes,
        "refused": delay.refused,
    })
}

fn read_keys(node: &Node, shard: &ShardDriver, listed: &mut [Listed]) {
    let mut by_record: Vec<&mut Listed> = listed.iter_mut().collect();
    by_record.retain(|one| one.delay.origin.index > 0);
    by_record.sort_by_key(|one| one.delay.origin.index);
    let mut indexes: Vec<u64> = by_record.iter().map(|one| one.delay.origin.index).collect();
    indexes.dedup();
    node.journal
        .read_each(shard.id, &indexes, &mut |at, record| {
            // What was sent on meanwhile may be gone.
            let (Some(index), Ok(record)) = (indexes.get(at), record) else {
                return;
            };
            let first = by_record.partition_point(|one| one.delay.origin.index < *index);
            let of_record = by_record.iter_mut().skip(first);
            for one in of_record.take_while(|one| one.delay.origin.index == *index) {
                one.routing_key = read_routing_key(record, one.delay.origin.part).ok();
            }
        });
}

/// Cancels, and returns when that is on disk. Not for tasks.
pub(crate) fn cancel(node: &Node, asked: &CancelOf) -> Result<Value, String> {
    let shard = shard(node, &asked.vhost)?;
    if asked.ids.len() > CANCELLED_MAX {
        return Err(format!("more than {CANCELLED_MAX} at once"));
    }
    let exchange = asked.exchange.as_bytes();
    if shard.list_delays(exchange, Sequence(0), 0).is_none() {
        return Err(no_exchange(&asked.exchange, &asked.vhost));
    }
    let (mut cancelled, mut absent) = (Vec::new(), Vec::new());
    for some in asked.ids.chunks(CANCELLED_AT_ONCE) {
        let mut touched = Touched::new();
        let mut batch = shard.batch(node);
        for id in some {
            let done = batch.cancel_delay(exchange, Sequence(*id), &mut touched);
            let list = if done { &mut cancelled } else { &mut absent };
            list.push(id.to_string());
        }
        drop(batch);
        node.flush(&mut touched);
    }
    node.wait_committed(shard, node.journal.appended(shard.id));
    if !cancelled.is_empty() {
        log::info(
            "delayed messages cancelled",
            &[
                ("virtual_host", &asked.vhost),
                ("exchange", &asked.exchange),
                ("count", &cancelled.len()),
            ],
        );
    }
    Ok(json!({ "cancelled": cancelled, "absent": absent }))
}

fn no_exchange(name: &str, vhost: &str) -> String {
    format!("there is no exchange {name:?} that delays in virtual host {vhost:?}")
}
