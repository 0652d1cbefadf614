//! Threads that read message bodies back from the journal, so that neither a shard nor a
//! socket waits for a disk read.

use std::collections::VecDeque;
use std::sync::Arc;

use menzil_core::{Command, Effect, Wanted};
use menzil_model::fact::{read_chunk, read_message, read_short_message};
use menzil_model::{Message, Position, QueueId, Sequence, ShardId};
use parking_lot::{Condvar, Mutex};

use super::Node;
use super::shard_driver::{ShardDriver, Touched};
use crate::log;

/// What is to be read. Shards bound how much they ask for.
#[derive(Default)]
pub(crate) struct Fetches {
    backlog: Mutex<Backlog>,
    arrived: Condvar,
}

#[derive(Default)]
struct Backlog {
    fetches: VecDeque<Fetch>,
    closed: bool,
}

struct Fetch {
    shard: ShardId,
    queue: QueueId,
    wanted: Vec<Wanted>,
    spare: Vec<Arc<Message>>,
}

impl Fetches {
    /// Takes in an effect of a shard that asks for messages; others are none of its business.
    pub(crate) fn push(&self, shard: ShardId, effect: Effect) {
        let Effect::Fetch {
            queue,
            wanted,
            spare,
        } = effect
        else {
            return;
        };
        let fetch = Fetch {
            shard,
            queue,
            wanted,
            spare,
        };
        self.backlog.lock().fetches.push_back(fetch);
        self.arrived.notify_one();
    }

    /// Lets the threads end.
    pub(crate) fn close(&self) {
        self.backlog.lock().closed = true;
        self.arrived.notify_all();
    }

    fn next(&self) -> Option<Fetch> {
        let mut backlog = self.backlog.lock();
        loop {
            if backlog.closed {
                return None;
            }
            if let Some(fetch) = backlog.fetches.pop_front() {
                return Some(fetch);
            }
            self.arrived.wait(&mut backlog);
        }
    }
}

/// Reads what is asked for until the server stops.
pub(crate) fn fetch_loop(node: &Node) {
    let mut touched = Touched::new();
    while let Some(mut fetch) = node.fetches.next() {
        let Some(shard) = node.shards.values().find(|shard| shard.id == fetch.shard) else {
            continue;
        };
        let spare = std::mem::take(&mut fetch.spare);
        let (messages, unread) = read(node, &fetch, spare);
        let last = fetch.wanted.last().map(|wanted| wanted.origin.index);
        let queue = fetch.queue;
        let fetched = Command::Fetched { queue, messages };
        let mut batch = shard.batch(node);
        let damaged_before = batch.damaged();
        batch.execute(fetched, &mut touched);
        // A record that was settled meanwhile may be gone, and nobody misses it.
        let is_lost = batch.damaged() > damaged_before;
        drop(batch);
        if is_lost {
            report(shard, &unread);
        }
        node.flush(&mut touched);
        // Only now: nobody waits for this.
        if let Some(last) = last {
            node.journal.read_ahead(fetch.shard, last);
        }
    }
}

fn report(shard: &ShardDriver, unread: &[(u64, String)]) {
    for (index, why) in unread {
        let index = *index;
        let shard_id = shard.id;
        let record = Position {
            shard: shard_id,
            index,
        };
        log::error(
            "message cannot be read and is dropped",
            &[
                ("virtual_host", &shard.name),
                ("record", &record),
                ("why", why),
            ],
        );
    }
}

/// What was read for each entry, and the records of those that could not be, with the reason.
type Read = (Vec<(Sequence, Option<Arc<Message>>)>, Vec<(u64, String)>);

/// Reads a run: all records of it at once, for most are neighbours.
fn read(node: &Node, fetch: &Fetch, spare: Vec<Arc<Message>>) -> Read {
    let mut wanted = fetch.wanted.iter();
    let is_ascending = fetch
        .wanted
        .is_sorted_by(|one, next| one.origin.index < next.origin.index);
    if is_ascending && wanted.all(|wanted| wanted.chunks.count == 0) {
        read_in_order(node, fetch, spare)
    } else {
        read_any(node, fetch)
    }
}

/// The usual run: each message is made where its record was read, which is copied once.
fn read_in_order(node: &Node, fetch: &Fetch, mut spare: Vec<Arc<Message>>) -> Read {
    let wanted = &fetch.wanted;
    let indexes: Vec<u64> = wanted.iter().map(|wanted| wanted.origin.index).collect();
    let absent = |wanted: &Wanted| (wanted.sequence, None);
    let mut messages: Vec<_> = wanted.iter().map(absent).collect();
    let mut unread = Vec::new();
    node.journal
        .read_each(fetch.shard, &indexes, &mut |at, record| {
            let (Some(wanted), Some(place)) = (wanted.get(at), messages.get_mut(at)) else {
                return;
            };
            let message = record
                .map_err(|error| error.to_string())
                .and_then(|record| {
                    read_short_message(record, wanted.origin.part, spare.pop())
                        .map_err(|error| error.to_string())
                });
            match message {
                Ok(message) => place.1 = Some(message),
                Err(why) => unread.push((wanted.origin.index, why)),
            }
        });
    (messages, unread)
}

/// Bodies in parts, and several messages of one record.
fn read_any(node: &Node, fetch: &Fetch) -> Read {
    let mut indexes: Vec<u64> = fetch.wanted.iter().flat_map(records_of).collect();
    indexes.sort_unstable();
    indexes.dedup();
    let records = node.journal.read_many(fetch.shard, &indexes);
    let record = |index: u64| {
        let at = indexes.binary_search(&index).ok();
        match at.and_then(|at| records.get(at)) {
            Some(Ok(record)) => Ok(record),
            Some(Err(why)) => Err(why.to_string()),
            None => Err("it was not read".to_owned()),
        }
    };
    let mut messages = Vec::with_capacity(fetch.wanted.len());
    let mut unread = Vec::new();
    for wanted in &fetch.wanted {
        let message = match message_of(wanted, record) {
            Ok(message) => Some(message),
            Err(why) => {
                unread.push((wanted.origin.index, why));
                None
            }
        };
        messages.push((wanted.sequence, message));
    }
    (messages, unread)
}

fn records_of(wanted: &Wanted) -> impl Iterator<Item = u64> {
    wanted.chunks.indexes().chain([wanted.origin.index])
}

fn message_of<'a>(
    wanted: &Wanted,
    record: impl Fn(u64) -> Result<&'a Vec<u8>, String>,
) -> Result<Arc<Message>, String> {
    let chunks = wanted
        .chunks
        .indexes()
        .map(|index| read_chunk(record(index)?).map_err(|error| error.to_string()))
        .collect::<Result<_, String>>()?;
    let origin = wanted.origin;
    read_message(record(origin.index)?, origin.part, chunks).map_err(|error| error.to_string())
}
