//! The Unix socket in the data folder of a running server, and the counters that it tells.
//!
//! One question, one answer; [`control`](crate::control) has the questions. Only the owner of the
//! folder may connect.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use menzil_model::text_of;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;

use crate::control::{self, CONTENT_BYTES_MAX};
use crate::driver::Node;
use crate::driver::link::Protocol;
use crate::driver::shard_driver::ShardDriver;
use crate::log;
use crate::server::stats_socket;

/// The listening socket.
pub(crate) struct Socket {
    listener: UnixListener,
    path: PathBuf,
}

impl Socket {
    /// Binds it; a server without it is still a server. The folder is locked, so one that is
    /// there was left by a crash.
    pub(crate) fn bind(data_dir: &Path) -> Option<Self> {
        let path = stats_socket(data_dir);
        match listen(&path) {
            Ok(listener) => Some(Self { listener, path }),
            Err(error) => {
                log::warn(
                    "`menzil stats` will not work: its socket cannot be made",
                    &[("path", &path.display()), ("why", &error)],
                );
                None
            }
        }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// Answers, some at once, until the server stops.
    pub(crate) async fn serve(self, node: Arc<Node>) {
        let mut stopping = node.stopping.subscribe();
        let seats = Arc::new(Semaphore::new(ANSWERS_AT_ONCE));
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                _ = stopping.wait_for(|stopping| *stopping) => return,
            };
            let Ok((stream, _)) = accepted else {
                tokio::time::sleep(PATIENCE).await;
                continue;
            };
            let Ok(seat) = Arc::clone(&seats).acquire_owned().await else {
                return;
            };
            let node = Arc::clone(&node);
            tokio::spawn(async move {
                // One that asks and does not listen costs a seat for a while, no more.
                let _ = answer(node, stream).await;
                drop(seat);
            });
        }
    }
}

fn listen(path: &Path) -> io::Result<UnixListener> {
    if let Err(error) = std::fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    // Nobody finds it under its name before its mode is right.
    let unfinished = path.with_extension("tmp");
    let _ = std::fs::remove_file(&unfinished);
    let listener = UnixListener::bind(&unfinished)?;
    std::fs::set_permissions(&unfinished, std::fs::Permissions::from_mode(0o600))?;
    std::fs::rename(&unfinished, path)?;
    Ok(listener)
}

async fn answer(node: Arc<Node>, mut stream: UnixStream) -> io::Result<()> {
    let read = tokio::time::timeout(PATIENCE, question(&mut stream)).await;
    let (word, rest, mut content) = read.map_err(|_| io::ErrorKind::TimedOut)??;
    let length = control::length_of(&word, &rest);
    let line = if length > CONTENT_BYTES_MAX {
        let refused = json!({"error": format!("more than {CONTENT_BYTES_MAX} bytes")});
        format!("{refused}\n")
    } else {
        let missing = length.saturating_sub(content.len());
        let mut missing = (&mut stream).take(missing as u64);
        tokio::time::timeout(CONTENT_PATIENCE, missing.read_to_end(&mut content))
            .await
            .map_err(|_| io::ErrorKind::TimedOut)??;
        if content.len() < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // It may wait for the disk, and as a line it may be long: of 100,000 queues, say.
        let answer = move || format!("{}\n", control::answer(&node, &word, &rest, &content));
        tokio::task::spawn_blocking(answer).await?
    };
    let write = tokio::time::timeout(PATIENCE, stream.write_all(line.as_bytes()));
    write.await.map_err(|_| io::ErrorKind::TimedOut)??;
    stream.shutdown().await
}

/// The word of a question, the rest of its line, and what of its content came with it.
async fn question(stream: &mut UnixStream) -> io::Result<(String, String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            break end;
        }
        let mut some = [0; QUESTION_BYTES_MAX];
        let count = stream.read(&mut some).await?;
        if count == 0 || bytes.len() >= QUESTION_BYTES_MAX {
            break bytes.len();
        }
        bytes.extend_from_slice(some.get(..count).unwrap_or_default());
    };
    let content = bytes.get(end + 1..).unwrap_or_default().to_vec();
    bytes.truncate(end);
    let line = String::from_utf8_lossy(&bytes);
    let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
    Ok((word.trim().to_owned(), rest.trim().to_owned(), content))
}

pub(crate) fn all(node: &Node) -> Value {
    let journal = node.journal.counters();
    let mut bytes_in = node.bytes_in.load(Ordering::Relaxed);
    let mut bytes_out = node.bytes_out.load(Ordering::Relaxed);
    let (mut amqp, mut mqtt, mut mqtt_ws) = (0_u64, 0_u64, 0_u64);
    for link in node.links.lock().values() {
        bytes_in += link.bytes_in.load(Ordering::Relaxed);
        bytes_out += link.bytes_out.load(Ordering::Relaxed);
        match link.protocol {
            Protocol::Amqp => amqp += 1,
            Protocol::Mqtt => mqtt += 1,
            Protocol::MqttWs => mqtt_ws += 1,
        }
    }
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "uptime_ms": node.clock.uptime_ms(),
        "disk_full": node.is_disk_full(),
        "disk_stalled": node.disk_stalled.load(Ordering::Relaxed),
        "connections": {
            "open": amqp + mqtt + mqtt_ws,
            "amqp": amqp,
            "mqtt": mqtt,
            "mqtt_ws": mqtt_ws,
            "accepted": node.connections_accepted.load(Ordering::Relaxed),
            "refused": node.connections_refused.load(Ordering::Relaxed),
            "mqtt_denied": node.mqtt_denied.load(Ordering::Relaxed),
            "bytes_in": bytes_in,
            "bytes_out": bytes_out,
            "assembling_bytes": node.assembling_bytes.load(Ordering::Relaxed),
        },
        "journal": {
            "syncs": journal.syncs,
            "batches": journal.batches,
            "records": journal.records,
            "bytes": journal.bytes,
            "batch_records_max": journal.batch_records_max,
            "batch_bytes_max": journal.batch_bytes_max,
            "segments_prepared": journal.segments_prepared,
            "segments_recycled": journal.segments_recycled,
            "checkpoints": journal.checkpoints,
            "checkpoint_bytes": journal.checkpoint_bytes,
            "zero_bytes": journal.zero_bytes,
            "segments_evacuated": journal.segments_evacuated,
            "cold_files": journal.cold_files,
            "records_evacuated": journal.records_evacuated,
            "evacuation_bytes": journal.evacuation_bytes,
            "evacuation_debt_bytes": node.journal.evacuation_debt_bytes(),
            "reads": journal.reads,
            "read_bytes": journal.read_bytes,
            "commit_us": journal.commit_us,
            "commit_time": histogram(&menzil_journal::COMMIT_BOUNDS_US, &journal.commit_time),
            "batch_sizes": histogram(
                &menzil_journal::BATCH_RECORDS_BOUNDS,
                &journal.batch_records,
            ),
            "directory_bytes": node.journal.directory_bytes(),
            "pending_bytes": node.journal.pending_bytes(),
        },
        "virtual_hosts": node.shards.values().map(|shard| of_shard(shard)).collect::<Vec<_>>(),
    })
}

/// Counts by the bound up to which they go.
fn histogram(bounds: &[u64], counts: &[u64]) -> Value {
    let bounds = bounds.iter().map(|bound| json!(bound));
    let bounds = bounds.chain([Value::Null]);
    let places = bounds.zip(counts);
    places
        .map(|(bound, count)| json!({"up_to": bound, "count": count}))
        .collect()
}

fn of_shard(shard: &ShardDriver) -> Value {
    let (objects, counters, queues) = shard.numbers();
    json!({
        "name": text_of(shard.name.as_bytes()),
        "appended": shard.marks.appended(),
        "committed": shard.marks.committed(),
        "exchanges": objects.exchanges,
        "queues_count": objects.queues,
        "bindings": objects.bindings,
        "messages": objects.messages,
        "delayed": objects.delayed,
        "retained": objects.retained,
        "sessions": objects.sessions,
        "sessions_connected": objects.sessions_connected,
        "session_messages": objects.session_messages,
        "subscriptions": objects.subscriptions,
        "retained_topics": objects.retained_topics,
        "connections": objects.connections,
        "channels": objects.channels,
        "consumers": objects.consumers,
        "content_bytes": objects.content_bytes,
        "index_bytes": objects.index_bytes,
        "index_scratch_bytes": objects.index_scratch_bytes,
        "counters": of_counters(&counters),
        "queues": queues.iter().map(of_queue).collect::<Vec<_>>(),
    })
}

fn of_counters(counters: &menzil_core::Counters) -> Value {
    json!({
        "published": counters.published,
        "routed": counters.routed,
        "unroutable_dropped": counters.unroutable_dropped,
        "unroutable_returned": counters.unroutable_returned,
        "delays": counters.delayed,
        "undelayed": counters.undelayed,
        "unroutable_delayed": counters.unroutable_delayed,
        "delays_refused": counters.delays_refused,
        "delays_cancelled": counters.delays_cancelled,
        "refused": counters.refused,
        "confirmed": counters.confirmed,
        "nacked": counters.nacked,
        "delivered": counters.delivered,
        "redelivered": counters.redelivered,
        "acknowledged": counters.acknowledged,
        "rejected": counters.rejected,
        "requeued": counters.requeued,
        "expired": counters.expired,
        "overflowed": counters.overflowed,
        "limited": counters.limited,
        "dead_lettered": counters.dead_lettered,
        "dead_letters_dropped": counters.dead_letters_dropped,
        "dead_letters_refused": counters.dead_letters_refused,
        "deduplicated": counters.deduplicated,
        "damaged": counters.damaged,
        "fetched": counters.fetched,
        "consumers_timed_out": counters.consumers_timed_out,
        "session_offline_dropped": counters.session_offline_dropped,
        "session_limit_dropped": counters.session_limit_dropped,
        "refusals": counters.refusals,
    })
}

/// One queue.
pub(crate) fn of_queue(queue: &menzil_core::QueueSummary) -> Value {
    json!({
        "name": text_of(queue.name.as_bytes()),
        "durable": queue.durable,
        "ready": queue.ready,
        "unsettled": queue.unsettled,
        "delayed": queue.delayed,
        "dying": queue.dying,
        "consumers": queue.consumers,
        "ready_bytes": queue.ready_bytes,
        "entered": queue.counters.entered,
        "delivered": queue.counters.delivered,
        "acknowledged": queue.counters.acknowledged,
        "rejected": queue.counters.rejected,
        "requeued": queue.counters.requeued,
        "expired": queue.counters.expired,
        "overflowed": queue.counters.overflowed,
        "deduplicated": queue.counters.deduplicated,
        "purged": queue.counters.purged,
        "damaged": queue.counters.damaged,
        "refused": queue.counters.refused,
    })
}

const PATIENCE: Duration = Duration::from_secs(1);
/// For a file of definitions over a slow disk.
const CONTENT_PATIENCE: Duration = Duration::from_mins(1);
const ANSWERS_AT_ONCE: usize = 4;
const QUESTION_BYTES_MAX: usize = 512;
