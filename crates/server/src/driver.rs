//! Drives the pure parts: shards behind mutexes, links to clients, and the journal's threads.
//!
//! The task of a connection reads, decides under the shard's mutex, and writes the sockets of
//! everybody that the batch had something for (`docs/adr/0001`). Tasks are woken only by
//! sockets and timers, never by messages; what waits for the disk is sent by the journal's own
//! thread once it is there.

pub(crate) mod checkpointer;
mod commit;
pub(crate) mod fetcher;
pub(crate) mod link;
pub(crate) mod recovery;
pub(crate) mod shard_driver;
pub(crate) mod timer;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use menzil_core::{Command, Log};
use menzil_journal::{Journal, OsDisk, Space};
use menzil_model::{ConnectionId, Fact, Map, Name, Position, ShardId};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::clock::Clock;
use crate::config::Settings;
use crate::log;
use crate::users::Users;
use fetcher::Fetches;
use link::Link;
use shard_driver::{ShardDriver, Touched};

pub(crate) use commit::commit_loop;

/// The exit code of a node that stopped because its disk, or its own state, cannot be trusted.
pub const EXIT_STORAGE: i32 = 70;

/// Everything that the tasks and threads of a server share.
pub(crate) struct Node {
    pub(crate) settings: Settings,
    pub(crate) clock: Clock,
    pub(crate) users: Arc<Users>,
    pub(crate) journal: Journal<OsDisk>,
    pub(crate) shards: Map<Name, Arc<ShardDriver>>,
    pub(crate) fetches: Fetches,
    pub(crate) session: Arc<menzil_amqp::SessionConfig>,
    pub(crate) links: Mutex<HashMap<ConnectionId, Arc<Link>>>,
    pub(crate) connections_accepted: AtomicU64,
    pub(crate) connections_refused: AtomicU64,
    /// Bytes of half-received messages of all connections.
    pub(crate) assembling_bytes: AtomicU64,
    /// Publishers that wait until less is on its way to the disk.
    pub(crate) held_back: Mutex<Vec<Arc<Link>>>,
    /// The disk has no room for more messages.
    pub(crate) disk_full: AtomicBool,
    /// True once the server stops.
    pub(crate) stopping: watch::Sender<bool>,
}

impl Node {
    pub(crate) fn committed(&self, shard: &ShardDriver) -> u64 {
        self.journal.committed(shard.id)
    }

    pub(crate) fn log(&self, shard: ShardId) -> ShardLog<'_> {
        ShardLog {
            journal: &self.journal,
            shard,
        }
    }

    /// Flushes every link of the list, and tells shards of the room that deliveries left,
    /// until nobody has anything to send.
    pub(crate) fn flush(&self, touched: &mut Touched) {
        while let Some(link) = touched.pop() {
            link.flush(self);
            self.give_back(&link, touched);
        }
    }

    /// Gives a link's credit back to its shard once half of it was used up.
    fn give_back(&self, link: &Link, touched: &mut Touched) {
        let bytes = link.take_drained(self.settings.delivery_credit_bytes.0 / 2);
        if bytes == 0 {
            return;
        }
        if let Some(shard) = link.shard() {
            shard.batch(self, touched).execute(Command::Drained {
                connection: link.id,
                bytes,
            });
        }
    }

    /// True where so much waits for the disk that publishers should not be read.
    pub(crate) fn is_journal_behind(&self) -> bool {
        self.journal.pending_bytes() >= self.settings.journal_pending_bytes_max.0
    }

    pub(crate) fn is_disk_full(&self) -> bool {
        self.disk_full.load(Ordering::Acquire)
    }
}

/// A shard's way into the journal.
pub(crate) struct ShardLog<'a> {
    journal: &'a Journal<OsDisk>,
    shard: ShardId,
}

impl Log for ShardLog<'_> {
    fn append(&mut self, fact: &Fact) -> u64 {
        self.journal
            .append(self.shard, fact.class(), |bytes| fact.encode(bytes))
            .index
    }

    fn append_lazy(&mut self, fact: &Fact) -> u64 {
        self.journal
            .append_lazy(self.shard, fact.class(), |bytes| fact.encode(bytes))
            .index
    }

    fn has_room(&self) -> bool {
        self.journal.space() != Space::Full
    }
}

/// Ends the process at once: nothing may be acknowledged any more. The journal's recovery is
/// what makes this safe.
pub(crate) fn stop_node(why: &str) -> ! {
    log::error("node stops", &[("why", &why)]);
    std::process::exit(EXIT_STORAGE)
}
