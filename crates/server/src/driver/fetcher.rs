//! Threads that read message bodies back from the journal, so that neither a shard nor a
//! socket waits for a disk read.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use menzil_core::Command;
use menzil_journal::ReadError;
use menzil_model::fact::{Content, Published};
use menzil_model::{Fact, Message, Name, Position, ShardId};
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
    index: u64,
    chunks: Vec<u64>,
}

impl Fetches {
    pub(crate) fn push(&self, shard: &ShardDriver, index: u64, chunks: Vec<u64>) {
        let fetch = Fetch {
            shard: shard.id,
            index,
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
        let message = match read(node, &fetch) {
            Ok(message) => Some(message),
            Err(why) => {
                log::error(
                    "message cannot be read and is dropped",
                    &[
                        ("virtual_host", &shard.name),
                        ("record", &fetch.position(fetch.index)),
                        ("why", &why),
                    ],
                );
                None
            }
        };
        let index = fetch.index;
        let fetched = Command::Fetched { index, message };
        shard.batch(node).execute(fetched, &mut touched);
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
    let record = read_record(node, fetch.position(fetch.index))?;
    let published = published(record).ok_or("the record holds no such message")?;
    let message = published.message.ok_or("the record holds no content")?;
    if fetch.chunks.is_empty() {
        return Ok(message);
    }
    let mut parts = Vec::with_capacity(fetch.chunks.len());
    for index in &fetch.chunks {
        match read_record(node, fetch.position(*index))? {
            Fact::Chunk(part) => parts.push(part),
            _ => return Err(format!("record {index} is no part of a body")),
        }
    }
    Ok(Arc::new(with_body(&message, parts)))
}

fn read_record(node: &Node, position: Position) -> Result<Fact, String> {
    let bytes = node
        .journal
        .read(position)
        .map_err(|error: ReadError| error.to_string())?;
    Fact::decode(&bytes, Content::Keep).map_err(|error| error.to_string())
}

/// The message of a record, alone or in a group with what follows from it.
fn published(record: Fact) -> Option<Published> {
    match record {
        Fact::Published(published) => Some(published),
        Fact::Group(facts) => facts.into_iter().find_map(published),
        _ => None,
    }
}

/// The same envelope with the body that lay in other records.
fn with_body(envelope: &Message, parts: Vec<Bytes>) -> Message {
    Message::new(
        &Name::cut(envelope.exchange()),
        &Name::cut(envelope.routing_key()),
        envelope.properties(),
        parts,
        0,
    )
}
