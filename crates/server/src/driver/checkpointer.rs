//! Makes checkpoints, so that the start reads little and segments can be used again.

use std::sync::Arc;
use std::time::Duration;

use super::Node;
use super::recovery::write_checkpoint_fact;
use super::shard_driver::ShardDriver;
use crate::log;

/// When the last checkpoint of all shards was made.
struct Last {
    /// What the journal had written by then.
    bytes: u64,
    /// How much the checkpoints took.
    size: u64,
    at_ms: u64,
    /// When spare segments were last trimmed.
    trimmed_ms: u64,
}

/// Looks now and then whether it is time, until the server stops.
pub(crate) fn checkpoint_loop(node: &Arc<Node>, stopped: &std::sync::mpsc::Receiver<()>) {
    let mut last = Last {
        bytes: node.journal.counters().bytes,
        size: 0,
        at_ms: node.clock.now_ms(),
        trimmed_ms: node.clock.now_ms(),
    };
    loop {
        let expected: u64 = node
            .shards
            .values()
            .map(|shard| shard.checkpoint_bytes())
            .sum();
        node.journal.expect_checkpoint_bytes(expected);
        let stopped = stopped.recv_timeout(LOOK_EVERY);
        if stopped != Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            return;
        }
        if last.is_due(node) {
            let before = node.journal.counters();
            checkpoint_all(node);
            last.bytes = before.bytes;
            last.size = node.journal.counters().checkpoint_bytes - before.checkpoint_bytes;
            last.at_ms = node.clock.now_ms();
        }
        last.trim(node);
    }
}

impl Last {
    fn is_due(&self, node: &Node) -> bool {
        let bytes = node.journal.counters().bytes.saturating_sub(self.bytes);
        let age_ms = node.clock.now_ms().saturating_sub(self.at_ms);
        // On a full disk each checkpoint may set segments free that consumers have drained.
        let age_ms_max = if node.is_disk_full() {
            FULL_AGE_MS_MAX
        } else {
            node.settings.checkpoint_seconds.saturating_mul(1000)
        };
        // A large state is not written again for little.
        let costs = self.size.saturating_mul(2);
        let unneeded = node.journal.unneeded_bytes();
        bytes >= node.settings.checkpoint_bytes.0.saturating_add(costs)
            || bytes > 0 && age_ms >= age_ms_max
            || unneeded > costs && age_ms >= RECLAIM_AGE_MS
    }

    /// Gives back the space of segments that the traffic of late had no use for.
    fn trim(&mut self, node: &Node) {
        let now_ms = node.clock.now_ms();
        if now_ms.saturating_sub(self.trimmed_ms) >= TRIM_EVERY_MS {
            self.trimmed_ms = now_ms;
            // A failure of the journal stops the node elsewhere.
            drop(node.journal.trim_spares());
        }
    }
}

/// A checkpoint of every shard that has changed. One that fails for want of space is tried
/// again later; the log holds everything until then.
pub(crate) fn checkpoint_all(node: &Node) {
    for shard in node.shards.values() {
        if let Err(error) = checkpoint(node, shard) {
            log::warn(
                "no checkpoint could be made; it will be tried again",
                &[("virtual_host", &shard.name), ("why", &error)],
            );
        }
    }
}

/// The state is frozen while the shard is held; writing it holds nobody.
fn checkpoint(node: &Node, shard: &ShardDriver) -> Result<(), String> {
    let before_ms = node.clock.uptime_ms();
    let (frozen, freeze) = shard.freeze(node);
    let index = freeze.index();
    let held_ms = node.clock.uptime_ms().saturating_sub(before_ms);
    let mut payload = Vec::new();
    frozen.write(&mut |fact| write_checkpoint_fact(fact, &mut payload));
    log::debug(
        "checkpoint",
        &[
            ("virtual_host", &shard.name),
            ("index", &index),
            ("bytes", &payload.len()),
            ("held_ms", &held_ms),
        ],
    );
    node.wait_committed(shard, index);
    node.journal
        .install_checkpoint(freeze, &[&payload])
        .map_err(|error| error.to_string())
}

const FULL_AGE_MS_MAX: u64 = 1000;
/// How long what can be set free waits for its checkpoint at most.
const RECLAIM_AGE_MS: u64 = 3000;
const TRIM_EVERY_MS: u64 = 10_000;
const LOOK_EVERY: Duration = Duration::from_millis(500);
