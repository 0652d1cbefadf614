//! The journal's thread: after each sync, what waited for it goes out.

use std::sync::Arc;

use menzil_journal::StorageError;

use super::shard_driver::Touched;
use super::{Node, stop_node};

/// Runs the journal until it is closed. A failed write or sync ends the process: what it
/// covered may or may not be on disk, so nobody may be told that it is.
pub(crate) fn commit_loop(node: &Arc<Node>) {
    let mut released = Touched::new();
    let done = node.journal.run(|_| {
        for shard in node.shards.values() {
            released.append(&mut shard.waiting.lock());
        }
        for link in &released {
            link.released();
        }
        node.flush(&mut released);
        node.let_publishers_go_on();
        drop(node.committed.lock());
        node.commits.notify_all();
    });
    match done {
        Ok(()) | Err(StorageError::Closed) => {}
        Err(error) => stop_node(&error.to_string()),
    }
}
