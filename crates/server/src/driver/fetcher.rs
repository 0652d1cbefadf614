//! Threads that read message bodies back from the journal, so that neither a shard nor a
//! socket waits for a disk read.

use std::collections::VecDeque;
use std::sync::Arc;

use menzil_core::Command;
use menzil_model::fact::{Origin, read_chunk, read_message};
use menzil_model::{Message, Position, ShardId};
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
    origin: Origin,
    chunks: Vec<u64>,
}

impl Fetches {
    pub(crate) fn push(&self, shard: &ShardDriver, origin: Origin, chunks: Vec<u64>) {
        let fetch = Fetch {
            shard: shard.id,
            origin,
            chunks,
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
        let read = read(node, &fetch);
        let origin = fetch.origin;
        let message = read.as_ref().ok().map(Arc::clone);
        let fetched = Command::Fetched { origin, message };
        let mut batch = shard.batch(node);
        let damaged_before = batch.damaged();
        batch.execute(fetched, &mut touched);
        let is_lost = batch.damaged() > damaged_before;
        drop(batch);
        // A record that was settled meanwhile may be gone, and nobody misses it.
        if let (Err(why), true) = (read, is_lost) {
            log::error(
                "message cannot be read and is dropped",
                &[
                    ("virtual_host", &shard.name),
                    ("record", &fetch.position(origin.index)),
                    ("why", &why),
                ],
            );
        }
        node.flush(&mut touched);
    }
}

impl Fetch {
    fn position(&self, index: u64) -> Position {
        Position {
            shard: self.shard,
            index,
        }
    }
}

fn read(node: &Node, fetch: &Fetch) -> Result<Arc<Message>, String> {
    let chunks = fetch
        .chunks
        .iter()
        .map(|index| {
            let record = read_record(node, fetch.position(*index))?;
            read_chunk(&record).map_err(|error| error.to_string())
        })
        .collect::<Result<_, String>>()?;
    let record = read_record(node, fetch.position(fetch.origin.index))?;
    read_message(&record, fetch.origin.part, chunks)
        .map(Arc::new)
        .map_err(|error| error.to_string())
}

fn read_record(node: &Node, position: Position) -> Result<Vec<u8>, String> {
    node.journal
        .read(position)
        .map_err(|error| error.to_string())
}
