//! Threads that read message bodies back from the journal, so that neither a shard nor a
//! socket waits for a disk read.

use std::collections::VecDeque;
use std::sync::Arc;

use menzil_core::{Command, Effect, Wanted};
use menzil_model::fact::{read_chunk, read_message};
use menzil_model::{Message, Position, QueueId, ShardId};
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
}

impl Fetches {
    /// Takes in an effect of a shard that asks for messages; others are none of its business.
    pub(crate) fn push(&self, shard: ShardId, effect: Effect) {
        let Effect::Fetch { queue, wanted } = effect else {
            return;
        };
        let fetch = Fetch {
            shard,
            queue,
            wanted,
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
    while let Some(fetch) = node.fetches.next() {
        let Some(shard) = node.shards.values().find(|shard| shard.id == fetch.shard) else {
            continue;
        };
        let mut unread = Vec::new();
        let mut messages = Vec::with_capacity(fetch.wanted.len());
        for wanted in &fetch.wanted {
            let message = match read(node, fetch.shard, wanted) {
                Ok(message) => Some(message),
                Err(why) => {
                    unread.push((wanted.origin.index, why));
                    None
                }
            };
            messages.push((wanted.sequence, message));
        }
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

fn read(node: &Node, shard: ShardId, wanted: &Wanted) -> Result<Arc<Message>, String> {
    let chunks = wanted
        .chunks
        .indexes()
        .map(|index| {
            let record = read_record(node, Position { shard, index })?;
            read_chunk(&record).map_err(|error| error.to_string())
        })
        .collect::<Result<_, String>>()?;
    let index = wanted.origin.index;
    let record = read_record(node, Position { shard, index })?;
    read_message(&record, wanted.origin.part, chunks)
        .map(Arc::new)
        .map_err(|error| error.to_string())
}

fn read_record(node: &Node, position: Position) -> Result<Vec<u8>, String> {
    node.journal
        .read(position)
        .map_err(|error| error.to_string())
}
