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
pub(crate) mod outbound;
mod outlet;
pub(crate) mod recovery;
pub(crate) mod shard_driver;
pub(crate) mod timer;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use menzil_core::{Command, Log};
use menzil_journal::{Journal, OsDisk, Space};
use menzil_model::fact::PublishedRef;
use menzil_model::{Class, ConnectionId, Fact, Map, Name, ShardId};
use parking_lot::{Condvar, Mutex};
use tokio::sync::{Notify, watch};

use crate::clock::Clock;
use crate::config::Settings;
use crate::log;
use crate::users::Users;
use fetcher::Fetches;
use link::Link;
use shard_driver::{ShardDriver, Touched};

pub(crate) use commit::commit_loop;

/// Room in prepared segments below which publishers wait.
const LOW_ROOM_BYTES: u64 = 256 << 10;

/// Segments of dead bytes that wait for evacuation, past which publishers wait for it.
const DEBT_SEGMENTS_MAX: u64 = 8;

const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Times that one flush gives credit back and sends what that brings; see ADR 0001.
const ROUNDS_MAX: u32 = 4;

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
    /// Publishes of MQTT clients that were not theirs to publish.
    pub(crate) mqtt_denied: AtomicU64,
    /// Bytes read and written on connections that are gone.
    pub(crate) bytes_in: AtomicU64,
    pub(crate) bytes_out: AtomicU64,
    /// Bytes of half-received messages of all connections.
    pub(crate) assembling_bytes: AtomicU64,
    /// Publishers that wait until less is on its way to the disk.
    pub(crate) held_back: Mutex<Vec<Arc<Link>>>,
    /// One was entered in that list.
    pub(crate) publisher_waits: Notify,
    /// Notified after each commit.
    pub(crate) committed: Mutex<()>,
    pub(crate) commits: Condvar,
    /// The disk has no room for more messages.
    pub(crate) disk_full: AtomicBool,
    /// The disk has not answered for a while.
    pub(crate) disk_stalled: AtomicBool,
    /// True once the server stops.
    pub(crate) stopping: watch::Sender<bool>,
}

impl Node {
    /// Flushes every link of the list, and tells shards of the room that deliveries left,
    /// until nobody has anything to send.
    pub(crate) fn flush(&self, touched: &mut Touched) {
        let mut rounds = 0;
        while let Some(link) = touched.pop() {
            link.flush(self);
            if link.take_has_requests() {
                self.ask_for(&link, touched);
            }
            if !link.has_drained(self.credit_step()) {
                continue;
            }
            if rounds < ROUNDS_MAX {
                rounds += 1;
                self.give_back(&link, touched);
            } else {
                // A fast reader with a long backlog would keep this thread for ever: from here
                // on its own task goes on, and lets others run in between.
                link.wake.notify_one();
            }
        }
    }

    fn credit_step(&self) -> u64 {
        self.settings.delivery_credit_bytes.0 / 2
    }

    /// Gives a link's credit back to its shard once half of it was used up.
    fn give_back(&self, link: &Link, touched: &mut Touched) {
        let bytes = link.take_drained(self.credit_step());
        if bytes == 0 {
            return;
        }
        if let Some(shard) = link.shard() {
            let connection = link.id;
            let drained = Command::Drained { connection, bytes };
            shard.batch(self).execute(drained, touched);
        }
    }

    /// Asks a link's shard for what its outbound wants.
    fn ask_for(&self, link: &Link, touched: &mut Touched) {
        let requests = link.outbound().take_requests();
        let Some(shard) = link.shard().filter(|_| !requests.is_empty()) else {
            return;
        };
        let connection = link.id;
        let mut batch = shard.batch(self);
        for request in requests {
            let command = Command::Session {
                connection,
                request,
            };
            batch.execute(command, touched);
        }
    }

    /// Waits until the index is on disk. Not for tasks.
    pub(crate) fn wait_committed(&self, shard: &ShardDriver, index: u64) {
        let mut committed = self.committed.lock();
        while shard.marks.committed() < index {
            self.commits.wait_for(&mut committed, LOOK_EVERY);
        }
    }

    /// True where the publisher is to wait until the journal has caught up; it will be woken.
    pub(crate) fn hold_back(&self, link: &Arc<Link>) -> bool {
        if !self.is_journal_behind() {
            return false;
        }
        if !link.held_back.swap(true, Ordering::AcqRel) {
            self.held_back.lock().push(Arc::clone(link));
            self.publisher_waits.notify_one();
        }
        // It may have caught up before the link was in the list.
        self.is_journal_behind()
    }

    /// Encoded bytes that wait for a socket, past which its connection is not read: replies
    /// that nobody reads, on top of the deliveries that credit allows.
    pub(crate) fn outbox_bytes_max(&self) -> u64 {
        self.settings.outbox_bytes_max.0 + 2 * self.settings.delivery_credit_bytes.0
    }

    /// Whether so much waits in a link's outbox, with what is being sent.
    pub(crate) fn is_over(&self, pending_bytes: usize, link: &Link) -> bool {
        let sending = link.pending_bytes.load(Ordering::Acquire);
        pending_bytes as u64 + sending > self.outbox_bytes_max()
    }

    /// True where publishers should not be read: so much waits for the disk, or the segments
    /// that are ready are nearly used up and the next is not prepared yet, or dead bytes grow
    /// faster than what lives among them can be evacuated.
    pub(crate) fn is_journal_behind(&self) -> bool {
        let settings = &self.settings;
        self.journal.pending_bytes() >= settings.journal_pending_bytes_max.0
            || !self
                .journal
                .has_room(LOW_ROOM_BYTES.min(settings.segment_bytes.0 / 4))
            || self.journal.evacuation_debt_bytes() > DEBT_SEGMENTS_MAX * settings.segment_bytes.0
    }

    /// Wakes the publishers that wait for the journal, if it has caught up.
    pub(crate) fn let_publishers_go_on(&self) {
        let mut waiting = self.held_back.lock();
        if waiting.is_empty() || self.is_journal_behind() {
            return;
        }
        for link in waiting.drain(..) {
            link.held_back.store(false, Ordering::Release);
            link.wake.notify_one();
        }
    }

    /// Why publishers are not read, as `connection.blocked` says it.
    pub(crate) fn why_blocked(&self) -> Option<&'static str> {
        if self.is_disk_full() {
            Some("low on disk")
        } else if self.disk_stalled.load(Ordering::Acquire) {
            Some("the disk does not answer")
        } else {
            None
        }
    }

    pub(crate) fn is_disk_full(&self) -> bool {
        self.disk_full.load(Ordering::Acquire)
    }
}

/// A shard's way into the journal, for one batch: the journal's backlog is locked with the
/// first append and let go at the end.
pub(crate) struct ShardLog<'a> {
    journal: &'a Journal<OsDisk>,
    shard: ShardId,
    batch: Option<menzil_journal::Batch<'a>>,
}

impl<'a> ShardLog<'a> {
    pub(crate) fn new(journal: &'a Journal<OsDisk>, shard: ShardId) -> Self {
        Self {
            journal,
            shard,
            batch: None,
        }
    }

    fn batch(&mut self) -> &mut menzil_journal::Batch<'a> {
        self.batch.get_or_insert_with(|| self.journal.batch())
    }
}

/// More than envelope, entries and headers of a record take.
const RECORD_OVERHEAD_BYTES: u64 = 4096;

impl Log for ShardLog<'_> {
    fn append(&mut self, fact: &Fact, references: u32) -> u64 {
        let shard = self.shard;
        let encode = |bytes: &mut Vec<u8>| fact.encode(bytes);
        let position = self.batch().append(shard, fact.class(), references, encode);
        position.index
    }

    fn append_published(&mut self, published: &PublishedRef<'_>, references: u32) -> u64 {
        let shard = self.shard;
        let encode = |bytes: &mut Vec<u8>| published.encode(bytes);
        let position = self
            .batch()
            .append(shard, Class::Message, references, encode);
        position.index
    }

    fn append_lazy(&mut self, fact: &Fact) -> u64 {
        let shard = self.shard;
        let encode = |bytes: &mut Vec<u8>| fact.encode(bytes);
        self.batch().append_lazy(shard, fact.class(), encode).index
    }

    fn release(&mut self, index: u64, count: u32) {
        let shard = self.shard;
        self.batch().release(shard, index, count);
    }

    fn release_run(&mut self, first: u64, count: u64) {
        let shard = self.shard;
        self.batch().release_run(shard, first, count);
    }

    fn retain_run(&mut self, first: u64, count: u64) {
        let shard = self.shard;
        self.batch().retain_run(shard, first, count);
    }

    /// While segments can be prepared there is room: publishers are held back before the
    /// writer has to prepare one itself. On a full disk it is counted.
    fn has_room(&self, bytes: u64) -> bool {
        let bytes = bytes.saturating_add(RECORD_OVERHEAD_BYTES);
        if self.journal.space() == Space::Full {
            return self.journal.has_room(bytes);
        }
        // Publishers are held back before a batch of small messages could meet the reserve; of
        // large ones a single batch may hold more than is prepared.
        bytes <= LOW_ROOM_BYTES || self.journal.make_room(bytes)
    }
}

/// Ends the process at once: nothing may be acknowledged any more. The journal's recovery is
/// what makes this safe.
pub(crate) fn stop_node(why: &str) -> ! {
    log::error("node stops", &[("why", &why)]);
    std::process::exit(EXIT_STORAGE)
}
