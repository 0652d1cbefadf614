//! One task per shard that does what is due: expired messages, expired queues, delayed messages.

use std::sync::Arc;

use super::Node;
use super::shard_driver::{ShardDriver, Touched};
use crate::log;

/// How often it is told that delayed messages found no queue, in milliseconds.
const TOLD_EVERY: u64 = 1000;

/// Messages that are told of each time.
const TOLD_AT_ONCE: usize = 8;

/// Runs until the server stops.
pub(crate) async fn timer_loop(node: Arc<Node>, shard: Arc<ShardDriver>) {
    let mut stopping = node.stopping.subscribe();
    let mut told_ms = 0;
    loop {
        let due_ms = do_what_is_due(&node, &shard, &mut told_ms);
        // Where there is much to do the next slice follows at once: others on this thread first.
        tokio::task::yield_now().await;
        let sleep = async {
            if due_ms == u64::MAX {
                std::future::pending::<()>().await;
            }
            tokio::time::sleep_until(node.clock.instant(due_ms).into()).await;
        };
        tokio::select! {
            () = sleep => {}
            () = shard.timer.notified() => {}
            _ = stopping.wait_for(|stopping| *stopping) => return,
        }
    }
}

/// Returns when to look again.
fn do_what_is_due(node: &Node, shard: &ShardDriver, told_ms: &mut u64) -> u64 {
    let mut touched = Touched::new();
    let mut batch = shard.batch(node);
    batch.expire(&mut touched);
    let due_ms = batch.deadline();
    let now_ms = node.clock.now_ms();
    let strays = if now_ms >= told_ms.saturating_add(TOLD_EVERY) {
        batch.take_strays()
    } else {
        Vec::new()
    };
    drop(batch);
    if due_ms <= now_ms {
        // More is left: it would be asked for again before others who wait were awake.
        shard.give_way();
    }
    node.flush(&mut touched);
    if !strays.is_empty() {
        *told_ms = now_ms;
    }
    for stray in strays.iter().take(TOLD_AT_ONCE) {
        let what = if stray.refused {
            "a queue refused a delayed message when it was due: it waits, and is tried again"
        } else {
            "a delayed message found no queue when it was due"
        };
        log::warn(
            what,
            &[
                ("virtual_host", &shard.name),
                ("exchange", &stray.exchange),
                ("routing_key", &stray.routing_key),
                ("due_at_ms", &stray.due_at),
                ("body_bytes", &stray.body_bytes),
            ],
        );
    }
    due_ms
}
