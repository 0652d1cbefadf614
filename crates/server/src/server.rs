//! A whole server: start, serve, stop.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use menzil_amqp::SessionConfig;
use menzil_core::ShardSettings;
use menzil_journal::{Journal, OpenError, Options, OsDisk, Space};
use menzil_model::{Map, Name};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::clock::Clock;
use crate::config::Settings;
use crate::driver::recovery::Recovery;
use crate::driver::shard_driver::ShardDriver;
use crate::driver::{Node, checkpointer, commit_loop, fetcher, stop_node, timer};
use crate::scratch::ScratchFile;
use crate::users::Users;
use crate::{definitions, listener, log, stats};

/// A body over this size is journaled in parts of it.
const CHUNK_BYTES: usize = 1 << 20;

/// Why a server did not start.
#[derive(Debug)]
pub struct StartError(String);

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StartError {}

/// What a server that is ready has to say.
#[derive(Clone, Debug)]
pub struct Ready {
    /// Where AMQP clients connect, `None` where that listener is off.
    pub amqp: Option<SocketAddr>,
    /// The data folder.
    pub data_dir: PathBuf,
}

/// A server with its threads.
pub struct Server {
    node: Arc<Node>,
    runtime: Runtime,
    amqp: Option<TcpListener>,
    threads: Threads,
}

struct Threads {
    commit: thread::JoinHandle<()>,
    fetchers: Vec<thread::JoinHandle<()>>,
    checkpointer: thread::JoinHandle<()>,
    stop_checkpointer: mpsc::Sender<()>,
}

impl Server {
    /// Binds the listeners, recovers the data folder and starts the threads. Nobody is served
    /// before [`Server::run`]; a port that is taken leaves no half-made folder.
    pub fn start(settings: Settings) -> Result<Self, StartError> {
        let clock = Clock::start();
        let definitions = definitions::at_start::read(&settings, || shard_settings(&settings))
            .map_err(StartError)?;
        raise_file_limit(settings.connections_max);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .thread_name("menzil")
            .build()
            .map_err(|error| StartError(format!("cannot start threads: {error}")))?;
        let amqp = match settings.amqp.host_and_port() {
            Some(address) => Some(
                runtime
                    .block_on(listener::bind(address))
                    .map_err(StartError)?,
            ),
            None => None,
        };
        warn_about(&settings, amqp.as_ref());
        let mut recovery = Recovery::new(shard_settings(&settings));
        let journal = open_journal(&settings, &mut recovery)?;
        let users = Users::new(&settings).map_err(StartError)?;
        let (stopping, _) = watch::channel(false);
        let shards = start_shards(&settings, &clock, &journal, recovery, definitions.as_ref())?;
        let node = Arc::new(Node {
            session: Arc::new(session_config(&settings)),
            clock,
            users: Arc::new(users),
            journal,
            shards,
            fetches: fetcher::Fetches::default(),
            links: parking_lot::Mutex::default(),
            connections_accepted: AtomicU64::new(0),
            connections_refused: AtomicU64::new(0),
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            assembling_bytes: AtomicU64::new(0),
            held_back: parking_lot::Mutex::default(),
            publisher_waits: tokio::sync::Notify::new(),
            committed: parking_lot::Mutex::new(()),
            commits: parking_lot::Condvar::new(),
            disk_full: AtomicBool::new(false),
            disk_stalled: AtomicBool::new(false),
            stopping,
            settings,
        });
        let watched = Arc::downgrade(&node);
        node.journal.on_room(move || {
            if let Some(node) = watched.upgrade() {
                node.publisher_waits.notify_one();
            }
        });
        let threads = Threads::start(&node)
            .map_err(|error| StartError(format!("cannot start threads: {error}")))?;
        // New virtual hosts are there once their first facts are on disk.
        for shard in node.shards.values() {
            node.wait_committed(shard, node.journal.appended(shard.id));
        }
        if let Some(parsed) = definitions
            && let Err(error) = definitions::carry_out(&node, parsed)
        {
            threads.stop(&node);
            return Err(StartError(definitions::at_start::told(
                &node.settings,
                &error,
            )));
        }
        Ok(Self {
            node,
            runtime,
            amqp,
            threads,
        })
    }

    /// Serves until SIGTERM or SIGINT, then stops cleanly. `ready` is called once clients can
    /// connect.
    pub fn run(self, ready: impl FnOnce(&Ready)) -> Result<(), StartError> {
        let Self {
            node,
            runtime,
            amqp,
            threads,
        } = self;
        let socket = runtime.block_on(async {
            let mut stop = Signals::new()?;
            let statistics = stats::Socket::bind(&node.settings.data_dir);
            let address = amqp
                .as_ref()
                .and_then(|listener| listener.local_addr().ok());
            let mut tasks = background_tasks(&node);
            if let Some(listener) = amqp {
                tasks.push(tokio::spawn(listener::accept_loop(
                    Arc::clone(&node),
                    listener,
                )));
            }
            let path = statistics.as_ref().map(stats::Socket::path);
            if let Some(statistics) = statistics {
                tasks.push(tokio::spawn(statistics.serve(Arc::clone(&node))));
            }
            if let Some(address) = &address {
                log::info(
                    "listening",
                    &[("protocol", &"amqp 0-9-1"), ("address", address)],
                );
            }
            ready(&Ready {
                amqp: address,
                data_dir: node.settings.data_dir.clone(),
            });
            let signal = stop.next().await;
            log::info("stopping", &[("signal", &signal)]);
            tokio::select! {
                () = stop_serving(&node, tasks) => {}
                signal = stop.next() => {
                    let left = node.links.lock().len();
                    log::warn(
                        "second signal: connections are cut off",
                        &[("signal", &signal), ("connections", &left)],
                    );
                }
            }
            Ok::<_, StartError>(path)
        })?;
        if let Some(path) = socket {
            // What is left of it is removed at the next start.
            let _ = std::fs::remove_file(path);
        }
        // Connections that did not go by themselves go with the runtime; what they held
        // unsettled is in the journal.
        runtime.shutdown_timeout(Duration::from_secs(1));
        threads.stop(&node);
        log::info("stopped", &[("uptime_ms", &node.clock.uptime_ms())]);
        Ok(())
    }
}

/// Says what the settings make of who can log in from where.
fn warn_about(settings: &Settings, amqp: Option<&TcpListener>) {
    if !settings.guest && settings.users.is_empty() {
        log::warn(
            "nobody can log in: guest is false and there are no users; `menzil hash-password` \
             makes an entry for the settings file",
            &[],
        );
    }
    let address = amqp.and_then(|listener| listener.local_addr().ok());
    if let Some(address) = address.filter(|address| !address.ip().to_canonical().is_loopback()) {
        log::warn(exposed(settings), &[("address", &address)]);
    }
}

/// What it means to be reached from other machines.
fn exposed(settings: &Settings) -> &'static str {
    let guest = settings.guest && !settings.users.contains_key("guest");
    if !guest {
        "other machines can connect, and there is no TLS: passwords and messages can be read on \
         the way"
    } else if settings.loopback_users.iter().any(|user| user == "guest") {
        "other machines can connect, and there is no TLS: passwords and messages can be read on \
         the way; guest may still log in over loopback only"
    } else {
        "other machines can connect, and there is no TLS: passwords and messages can be read on \
         the way; guest may log in from anywhere, for loopback_users does not name it"
    }
}

/// Once, at the start; whose folder it is decides.
fn warn_about_folder(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let Ok(metadata) = std::fs::metadata(path) else {
        return;
    };
    let mode = metadata.permissions().mode() & 0o777;
    if mode & OTHERS != 0 {
        log::warn(
            "other users of this machine may look into the data folder, where messages lie: \
             `chmod -R go= DIR` keeps them out",
            &[
                ("data_dir", &path.display()),
                ("mode", &format!("{mode:03o}")),
            ],
        );
    }
}

const OTHERS: u32 = 0o007;

/// As many open files as the system allows, for each connection is one.
fn raise_file_limit(connections_max: usize) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    let allowed = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    let needed = connections_max as u64 + OTHER_FILES;
    if let Some(allowed) = allowed.filter(|allowed| *allowed < needed) {
        log::warn(
            "fewer files may be open than connections_max needs: connections past that wait; \
             raise it with `ulimit -n` or LimitNOFILE",
            &[("allowed", &allowed), ("needed", &needed)],
        );
    }
}

/// Segments, sockets of the process itself.
const OTHER_FILES: u64 = 128;

/// A chunk fits into a segment, with company.
fn chunk_bytes(settings: &Settings) -> usize {
    let quarter = usize::try_from(settings.segment_bytes.0 / 4).unwrap_or(CHUNK_BYTES);
    quarter.min(CHUNK_BYTES)
}

fn shard_settings(settings: &Settings) -> ShardSettings {
    ShardSettings {
        content_bytes_max: settings.body_cache_bytes.0,
        index_page_entries: settings.index_page_entries,
        index_bytes_max: settings.index_bytes_max.0,
        scratch: Some(Arc::new(ScratchFile::new(settings.data_dir.clone()))),
        credit_bytes: settings.delivery_credit_bytes.0,
        transaction_bytes_max: settings.tx_bytes_max.0,
        dead_letter_counts_client_headers: settings.dead_letter_counts_client_headers,
        chunk_bytes: chunk_bytes(settings),
        ..ShardSettings::default()
    }
}

fn session_config(settings: &Settings) -> SessionConfig {
    SessionConfig {
        product: settings.product.clone(),
        channel_max: settings.channel_max,
        frame_bytes_max: settings.frame_max.as_u32(),
        heartbeat_seconds: settings.heartbeat_seconds,
        message_bytes_max: settings.message_bytes_max.0,
        assembling_bytes_max: settings.assembling_bytes_per_connection.0,
        chunk_bytes: chunk_bytes(settings),
        handshake_ms: settings.handshake_timeout_seconds.saturating_mul(1000),
        ..SessionConfig::default()
    }
}

fn journal_options(settings: &Settings) -> Options {
    Options {
        segment_bytes: settings.segment_bytes.0,
        record_bytes_max: RECORD_BYTES_MAX,
        // Publishers wait unread past `journal_pending_bytes_max`; what was read is never
        // refused for it.
        pending_bytes_max: u64::MAX,
        checkpoint_reserve_bytes: (settings.segment_bytes.0 / 8).min(1 << 20),
        log_reserve_bytes: (settings.segment_bytes.0 / 8).min(8 << 20),
        evacuation_reserve_bytes: (settings.segment_bytes.0 / 8).min(8 << 20),
        ..Options::default()
    }
}

const RECORD_BYTES_MAX: u64 = 512 << 20;

fn open_journal(
    settings: &Settings,
    recovery: &mut Recovery,
) -> Result<Journal<OsDisk>, StartError> {
    let path = &settings.data_dir;
    let error =
        |what: &dyn fmt::Display| StartError(format!("data folder {}: {what}", path.display()));
    if let Some(foreign) = foreign_file(path) {
        return Err(error(&format_args!(
            "it holds {foreign:?} and no journal: set data_dir to an empty folder, or a new one"
        )));
    }
    let disk = OsDisk::new(path).map_err(|e| {
        error(&format_args!(
            "cannot open it: {e}; set data_dir to a folder that can be written"
        ))
    })?;
    warn_about_folder(path);
    Journal::open(disk, journal_options(settings), recovery).map_err(|e| {
        if matches!(e, OpenError::Locked) {
            return error(
                &"another server runs on it: stop that one, or set data_dir to another folder",
            );
        }
        let advice = format_advice(path, &e).unwrap_or_default();
        error(&format_args!("{e}{advice}"))
    })
}

/// Something in a folder without a journal that Menzil would not have put there: the folder is
/// somebody else's.
fn foreign_file(path: &Path) -> Option<String> {
    let mut foreign = None;
    for entry in std::fs::read_dir(path).ok()?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name == "format" {
            return None;
        }
        // A first start that was cut off leaves some of these.
        let is_ours = menzil_journal::is_own_name(&name) || name.starts_with("menzil");
        if !is_ours && name != "lost+found" && !name.starts_with('.') {
            foreign = Some(name);
        }
    }
    foreign
}

/// What to do about a folder without a `format` file that can be read, to follow the error.
pub fn format_advice(data_dir: &Path, error: &OpenError) -> Option<String> {
    let OpenError::Format { .. } = error else {
        return None;
    };
    let dir = data_dir.display();
    Some(format!(
        "; if Menzil made this folder and its format file was deleted or damaged, put it back: \
         `echo menzil journal 2 > {dir}/format`; if not, name another folder"
    ))
}

/// Completes the recovered shards and says what was recovered.
fn start_shards(
    settings: &Settings,
    clock: &Clock,
    journal: &Journal<OsDisk>,
    recovery: Recovery,
    definitions: Option<&definitions::Parsed>,
) -> Result<Map<Name, Arc<ShardDriver>>, StartError> {
    let mut configured = Vec::new();
    for name in &settings.virtual_hosts {
        let name = Name::new(name.as_bytes())
            .ok_or_else(|| StartError(format!("virtual host name {name:?} is too long")))?;
        configured.push(name);
    }
    let quarantined = recovery.quarantined();
    let mut shards = Map::default();
    let recovered = recovery.finish(&configured);
    if let Some(parsed) = definitions {
        let of_shards = || shard_settings(settings);
        definitions::at_start::check_recovered(settings, parsed, &recovered, of_shards)
            .map_err(StartError)?;
    }
    let took_ms = clock.uptime_ms();
    for one in &recovered {
        let (mut run, mut needed, mut found) = ((0, 0, 0), 0, 0);
        one.shard.needs(&mut |first, count, references| {
            let (of, records, each) = run;
            if each == references && of + records == first {
                run.1 += count;
                return;
            }
            needed += records;
            found += journal.need(one.id, of, records, each);
            run = (first, count, references);
        });
        let (first, count, references) = run;
        needed += count;
        found += journal.need(one.id, first, count, references);
        if found < needed {
            log::error(
                "records that queues need are missing; `menzil journal verify` names them",
                &[("virtual_host", &one.name), ("records", &(needed - found))],
            );
        }
    }
    journal.needs_known();
    for mut one in recovered {
        one.shard.start(
            clock.now_ms(),
            &one.name,
            &mut crate::driver::ShardLog::new(journal, one.id),
        );
        let objects = one.shard.summary();
        log::info(
            if one.is_new {
                "virtual host created"
            } else {
                "virtual host recovered"
            },
            &[
                ("name", &one.name),
                ("exchanges", &objects.exchanges),
                ("queues", &objects.queues),
                ("bindings", &objects.bindings),
                ("messages", &objects.messages),
            ],
        );
        let driver = ShardDriver::new(one.id, one.name.clone(), one.shard, journal.marks(one.id));
        shards.insert(one.name, Arc::new(driver));
    }
    let report = journal.report();
    log::info(
        "data folder recovered",
        &[
            ("data_dir", &settings.data_dir.display()),
            ("virtual_hosts", &shards.len()),
            ("segments", &report.segments),
            ("checkpoints", &report.checkpoints.len()),
            ("records_replayed", &report.records),
            ("quarantined", &quarantined),
            ("checkpoints_damaged", &report.checkpoints_damaged.len()),
            ("took_ms", &took_ms),
        ],
    );
    if let Some(torn) = &report.torn {
        log::info(
            "the last write before the crash was cut off",
            &[("what", torn)],
        );
    }
    for name in &report.checkpoints_damaged {
        log::warn(
            "a checkpoint is damaged; the log from the one before it, or from its start, was replayed",
            &[("file", name)],
        );
    }
    for damage in &report.harmless {
        log::warn("damage that cost no record", &[("what", damage)]);
    }
    Ok(shards)
}

impl Threads {
    fn start(node: &Arc<Node>) -> io::Result<Self> {
        let spawn = |name: &str, work: Box<dyn FnOnce(Arc<Node>) + Send>| {
            let node = Arc::clone(node);
            thread::Builder::new().name(name.to_owned()).spawn(move || {
                let _watched = StopsWithoutIt;
                work(node);
            })
        };
        let (stop_checkpointer, stopped) = mpsc::channel();
        Ok(Self {
            commit: spawn("journal", Box::new(|node| commit_loop(&node)))?,
            fetchers: (0..node.settings.read_threads)
                .map(|_| spawn("reader", Box::new(|node| fetcher::fetch_loop(&node))))
                .collect::<io::Result<_>>()?,
            checkpointer: spawn(
                "checkpoint",
                Box::new(move |node| checkpointer::checkpoint_loop(&node, &stopped)),
            )?,
            stop_checkpointer,
        })
    }

    /// In order: no more reads, a last checkpoint, then the journal is closed.
    fn stop(self, node: &Node) {
        node.fetches.close();
        for fetcher in self.fetchers {
            join(fetcher);
        }
        drop(self.stop_checkpointer);
        join(self.checkpointer);
        for shard in node.shards.values() {
            shard.stop(node);
        }
        checkpointer::checkpoint_all(node);
        node.journal.close();
        join(self.commit);
    }
}

/// A node without one of its threads would wait for it for ever.
struct StopsWithoutIt;

impl Drop for StopsWithoutIt {
    fn drop(&mut self) {
        if thread::panicking() {
            stop_node("a thread failed: this is a bug, please report it");
        }
    }
}

/// A thread of ours that panicked has said so itself.
fn join(thread: thread::JoinHandle<()>) {
    let _ = thread.join();
}

fn background_tasks(node: &Arc<Node>) -> Vec<JoinHandle<()>> {
    let mut tasks: Vec<_> = node
        .shards
        .values()
        .map(|shard| tokio::spawn(timer::timer_loop(Arc::clone(node), Arc::clone(shard))))
        .collect();
    tasks.push(tokio::spawn(watch_the_disk(Arc::clone(node))));
    tasks
}

/// Tells publishers when the disk fills up and when it has room again.
async fn watch_the_disk(node: Arc<Node>) {
    let mut stopping = node.stopping.subscribe();
    let mut stall = Stall::default();
    loop {
        // Segments are prepared between commits too, and publishers wait for them: the journal
        // tells of each.
        tokio::select! {
            () = tokio::time::sleep(DISK_LOOK_EVERY) => {}
            () = node.publisher_waits.notified() => {}
            _ = stopping.wait_for(|stopping| *stopping) => return,
        }
        node.let_publishers_go_on();
        let full = node.journal.space() == Space::Full;
        let stalled = stall.looks_stalled(&node) && !full;
        let was_full = node.disk_full.swap(full, Ordering::AcqRel);
        let was_stalled = node.disk_stalled.swap(stalled, Ordering::AcqRel);
        let data_dir = node.settings.data_dir.display();
        match (was_full, full) {
            (false, true) => log::error(
                "the disk is full: publishers wait, consumers go on; free some space",
                &[("data_dir", &data_dir)],
            ),
            (true, false) => log::info("the disk has room again", &[]),
            _ => {}
        }
        match (was_stalled, stalled) {
            (false, true) => log::error(
                "the disk stalls: a write takes longer than a second; publishers wait",
                &[("data_dir", &data_dir)],
            ),
            (true, false) => log::info("the disk answers again", &[]),
            _ => {}
        }
        if (was_full, was_stalled) == (full, stalled) {
            continue;
        }
        for link in node.links.lock().values() {
            link.wake.notify_one();
        }
    }
}

/// What the journal had committed when that was last seen to change.
#[derive(Default)]
struct Stall {
    batches: u64,
    since_ms: u64,
}

impl Stall {
    /// True where something has waited for the disk, and nothing was committed, for so long.
    fn looks_stalled(&mut self, node: &Node) -> bool {
        let batches = node.journal.counters().batches;
        let now_ms = node.clock.uptime_ms();
        if batches != self.batches || node.journal.pending_bytes() == 0 {
            (self.batches, self.since_ms) = (batches, now_ms);
        }
        now_ms.saturating_sub(self.since_ms) >= STALLED_MS
    }
}

const STALLED_MS: u64 = 1000;

/// Connections say goodbye, a bounded time long.
async fn stop_serving(node: &Node, tasks: Vec<JoinHandle<()>>) {
    node.stopping.send_replace(true);
    for task in tasks {
        let _ = task.await;
    }
    let left = node.links.lock().len();
    if left > 0 {
        log::info(
            "waiting for clients to answer connection.close; a second signal ends it",
            &[
                ("connections", &left),
                ("seconds_at_most", &node.settings.stop_seconds),
            ],
        );
    }
    let waiting = async {
        while !node.links.lock().is_empty() {
            tokio::time::sleep(STOP_LOOK_EVERY).await;
        }
    };
    let patience = Duration::from_secs(node.settings.stop_seconds);
    if tokio::time::timeout(patience, waiting).await.is_err() {
        let left = node.links.lock().len();
        log::warn(
            "connections did not close in time",
            &[("connections", &left)],
        );
    }
}

/// The signals that ask a server to stop.
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> Result<Self, StartError> {
        use tokio::signal::unix::{SignalKind, signal};
        let error = |error: io::Error| StartError(format!("cannot listen for signals: {error}"));
        Ok(Self {
            terminate: signal(SignalKind::terminate()).map_err(error)?,
            interrupt: signal(SignalKind::interrupt()).map_err(error)?,
        })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// The socket's path in a data folder.
pub fn stats_socket(data_dir: &Path) -> PathBuf {
    data_dir.join("menzil.sock")
}

const DISK_LOOK_EVERY: Duration = Duration::from_millis(100);
const STOP_LOOK_EVERY: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_guest_is_what_holds() {
        let mut settings = Settings::default();
        assert!(exposed(&settings).contains("over loopback only"));
        settings.loopback_users.clear();
        assert!(exposed(&settings).contains("from anywhere"));
        settings.guest = false;
        assert!(!exposed(&settings).contains("guest"));
    }
}
