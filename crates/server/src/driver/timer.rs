//! One task per shard that does what is due: expired messages, expired queues.

use std::sync::Arc;

use super::Node;
use super::shard_driver::{ShardDriver, Touched};

/// Runs until the server stops.
pub(crate) async fn timer_loop(node: Arc<Node>, shard: Arc<ShardDriver>) {
    let mut stopping = node.stopping.subscribe();
    loop {
        let due_ms = do_what_is_due(&node, &shard);
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
fn do_what_is_due(node: &Node, shard: &ShardDriver) -> u64 {
    let mut touched = Touched::new();
    let mut batch = shard.batch(node);
    batch.expire(&mut touched);
    let due_ms = batch.deadline();
    batch.hand_over();
    node.flush(&mut touched);
    due_ms
}
