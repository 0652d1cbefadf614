//! Counters of a running server, and what it has, over a Unix socket in its data folder.
//!
//! One question, one answer: the client sends a line, `stats` or `definitions` with a virtual
//! host, and gets one line of JSON. Only the owner of the folder may connect.

mod definitions;

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};

use crate::driver::Node;
use crate::driver::shard_driver::ShardDriver;
use crate::log;
use crate::server::stats_socket;

pub(crate) use definitions::Snapshot;

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

    /// Answers one after the other until the server stops.
    pub(crate) async fn serve(self, node: Arc<Node>) {
        let mut stopping = node.stopping.subscribe();
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                _ = stopping.wait_for(|stopping| *stopping) => return,
            };
            match accepted {
                Ok((stream, _)) => {
                    // One that asks and does not listen costs the next a second, no more.
                    let answer = answer(&node, stream);
                    let _ = tokio::time::timeout(PATIENCE, answer).await;
                }
                Err(_) => tokio::time::sleep(PATIENCE).await,
            }
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

async fn answer(node: &Node, mut stream: UnixStream) -> io::Result<()> {
    let mut question = Vec::new();
    while !question.contains(&b'\n') && question.len() < QUESTION_BYTES_MAX {
        let mut bytes = [0; QUESTION_BYTES_MAX];
        let count = stream.read(&mut bytes).await?;
        if count == 0 {
            break;
        }
        question.extend_from_slice(bytes.get(..count).unwrap_or_default());
    }
    let answer = match question.trim_ascii() {
        b"stats" => all(node),
        words => match words.strip_prefix(b"definitions ") {
            Some(vhost) => definitions::of(node, vhost),
            None => json!({"error": "ask for: stats, or definitions and a virtual host"}),
        },
    };
    stream.write_all(format!("{answer}\n").as_bytes()).await?;
    stream.shutdown().await
}

fn all(node: &Node) -> Value {
    let journal = node.journal.counters();
    let mut bytes_in = node.bytes_in.load(Ordering::Relaxed);
    let mut bytes_out = node.bytes_out.load(Ordering::Relaxed);
    let open = {
        let links = node.links.lock();
        for link in links.values() {
            bytes_in += link.bytes_in.load(Ordering::Relaxed);
            bytes_out += link.bytes_out.load(Ordering::Relaxed);
        }
        links.len()
    };
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "uptime_ms": node.clock.uptime_ms(),
        "disk_full": node.is_disk_full(),
        "disk_stalled": node.disk_stalled.load(Ordering::Relaxed),
        "connections": {
            "open": open,
            "accepted": node.connections_accepted.load(Ordering::Relaxed),
            "refused": node.connections_refused.load(Ordering::Relaxed),
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
        "name": shard.name.to_string(),
        "appended": shard.marks.appended(),
        "committed": shard.marks.committed(),
        "exchanges": objects.exchanges,
        "queues_count": objects.queues,
        "bindings": objects.bindings,
        "messages": objects.messages,
        "delayed": objects.delayed,
        "retained": objects.retained,
        "connections": objects.connections,
        "channels": objects.channels,
        "consumers": objects.consumers,
        "content_bytes": objects.content_bytes,
        "index_bytes": objects.index_bytes,
        "index_scratch_bytes": objects.index_scratch_bytes,
        "counters": {
            "published": counters.published,
            "routed": counters.routed,
            "unroutable_dropped": counters.unroutable_dropped,
            "unroutable_returned": counters.unroutable_returned,
            "delayed": counters.delayed,
            "undelayed": counters.undelayed,
            "unroutable_delayed": counters.unroutable_delayed,
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
            "deduplicated": counters.deduplicated,
            "damaged": counters.damaged,
            "fetched": counters.fetched,
            "consumers_timed_out": counters.consumers_timed_out,
            "refusals": counters.refusals,
        },
        "queues": queues.iter().map(of_queue).collect::<Vec<_>>(),
    })
}

fn of_queue(queue: &menzil_core::QueueSummary) -> Value {
    json!({
        "name": queue.name.to_string(),
        "durable": queue.durable,
        "ready": queue.ready,
        "unsettled": queue.unsettled,
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
const QUESTION_BYTES_MAX: usize = 512;
