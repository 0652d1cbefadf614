//! What the simulation is worth: bugs that are planted around the real parts, and the seed that
//! catches each (`PLANTED.md`).

use menzil_sim::{Sabotage, Settings};

/// The bug is caught by that seed, and says so.
fn is_caught(bug: Sabotage, seed: u64, steps: u64, says: &str) {
    catches(bug, &Settings::new(seed, steps), says);
}

/// The same, with dead letters and priorities.
fn is_caught_later(bug: Sabotage, seed: u64, steps: u64, says: &str) {
    catches(bug, &Settings::new(seed, steps).later(1), says);
}

/// The same, with delays, delivery limits, groups, deduplication and policies too.
fn is_caught_with_all(bug: Sabotage, seed: u64, steps: u64, says: &str) {
    catches(bug, &Settings::new(seed, steps).later(2), says);
}

fn catches(bug: Sabotage, honest: &Settings, says: &str) {
    let settings = honest.clone().with(bug);
    let Err(failure) = menzil_sim::run(&settings) else {
        panic!("{bug:?} is not caught\nrepeat: {}", settings.command());
    };
    assert!(
        failure.what.contains(says),
        "{bug:?} shows otherwise: {failure}"
    );
    if let Err(failure) = menzil_sim::run(honest) {
        panic!("without a bug: {failure}\nrepeat: {}", honest.command());
    }
}

#[test]
fn a_skipped_fdatasync_is_caught() {
    is_caught(Sabotage::SyncSkipped, 25, 200, "are lost");
}

#[test]
fn a_confirm_before_its_commit_is_caught() {
    is_caught(Sabotage::ConfirmEarly, 2, 200, "lost");
}

#[test]
fn a_settle_written_before_its_publish_is_caught() {
    is_caught(Sabotage::SettleBeforePublish, 3, 300, "resurrected");
}

#[test]
fn a_checkpoint_of_what_is_not_committed_is_caught() {
    is_caught(Sabotage::CheckpointUncommitted, 71, 400, "cannot be read");
}

#[test]
fn a_recycled_segment_that_is_needed_is_caught() {
    is_caught(Sabotage::LiveSegmentRecycled, 17, 500, "cannot be read");
}

#[test]
fn a_cold_file_that_is_not_synced_is_caught() {
    is_caught(Sabotage::ColdUnsynced, 17, 500, "cannot be read");
}

#[test]
fn a_lost_mark_of_deliveries_is_caught() {
    is_caught(Sabotage::DeliveringLost, 20, 200, "not flagged");
}

#[test]
fn a_lost_overflow_is_caught() {
    is_caught_later(Sabotage::OverflowLost, 20, 400, "as its dead letter");
}

#[test]
fn a_group_in_two_records_is_caught() {
    is_caught_later(Sabotage::GroupSplit, 6, 500, "lost");
}

#[test]
fn a_fan_out_in_two_records_is_caught() {
    is_caught(Sabotage::FanOutSplit, 19, 200, "half of a publish");
}

#[test]
fn a_requeue_to_the_end_is_caught() {
    is_caught(Sabotage::RequeueAtEnd, 8, 800, "overtook");
}

#[test]
fn a_lost_settle_is_caught() {
    is_caught(Sabotage::SettleLost, 45, 250, "resurrected");
}

#[test]
fn a_record_applied_twice_is_caught() {
    is_caught(Sabotage::RecordTwice, 21, 200, "doubled");
}

#[test]
fn a_fetch_answered_with_another_message_is_caught() {
    is_caught(Sabotage::FetchSwapped, 9, 400, "never was");
}

#[test]
fn a_missing_part_of_a_body_is_caught() {
    is_caught(Sabotage::ChunkMissing, 9, 500, "bytes");
}

#[test]
fn a_lost_purge_is_caught() {
    is_caught(Sabotage::PurgeLost, 18, 700, "resurrected");
}

#[test]
fn a_lost_expiry_is_caught() {
    is_caught(Sabotage::ExpiryLost, 14, 400, "expired");
}

#[test]
fn a_failed_sync_that_is_ignored_is_caught() {
    is_caught(Sabotage::FailedSyncIgnored, 158, 600, "lost");
}

#[test]
fn a_full_disk_that_is_ignored_is_caught() {
    is_caught(Sabotage::RoomIgnored, 17, 1100, "full disk");
}

#[test]
fn a_dead_letter_that_stays_where_it_was_is_caught() {
    is_caught_later(Sabotage::LetterKept, 4, 500, "doubled");
}

#[test]
fn a_dead_letter_that_comes_nowhere_is_caught() {
    is_caught_later(Sabotage::LetterLost, 12, 500, "lost");
}

#[test]
fn a_delay_that_is_too_short_is_caught() {
    is_caught_with_all(Sabotage::DelayEarly, 24, 300, "early");
}

#[test]
fn a_delayed_message_that_stays_in_its_exchange_is_caught() {
    is_caught_with_all(Sabotage::DelayKept, 7, 300, "doubled");
}

#[test]
fn a_delayed_message_that_comes_nowhere_is_caught() {
    is_caught_with_all(Sabotage::DelayLost, 28, 400, "lost");
}

#[test]
fn a_delivery_limit_that_counts_nothing_is_caught() {
    is_caught_with_all(Sabotage::LimitIgnored, 98, 3000, "queue v0");
}

#[test]
fn a_message_that_forgets_its_group_is_caught() {
    is_caught_with_all(Sabotage::GroupForgotten, 46, 700, "of its group is out");
}

#[test]
fn a_lost_key_is_caught() {
    is_caught_with_all(Sabotage::KeyLost, 25, 700, "doubled");
}

#[test]
fn a_lost_policy_is_caught() {
    is_caught_with_all(Sabotage::PolicyLost, 2, 100, "policy");
}
