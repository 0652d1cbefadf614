//! Fixed seeds, so that every change is tried on the same hundred crashes.

use menzil_sim::Settings;

fn holds(settings: &Settings) -> menzil_sim::Report {
    match menzil_sim::run(settings) {
        Ok(report) => report,
        Err(failure) => panic!("{failure}\nrepeat: {}", settings.command()),
    }
}

fn seeds_hold(seeds: std::ops::Range<u64>, steps: u64) {
    let mut crashes = 0;
    let mut confirmed = 0;
    for seed in seeds {
        let report = holds(&Settings::new(seed, steps));
        crashes += report.crashes;
        confirmed += report.tally.confirmed;
    }
    assert!(crashes > 0 && confirmed > 0, "nothing was put to the test");
}

#[test]
fn seeds_1_to_8_hold() {
    seeds_hold(1..9, 2000);
}

#[test]
fn seeds_9_to_16_hold() {
    seeds_hold(9..17, 2000);
}

#[test]
fn a_long_run_holds() {
    seeds_hold(100..102, 8000);
}

#[test]
fn one_seed_gives_one_trace() {
    for seed in [3, 4] {
        let settings = Settings::new(seed, 1500);
        assert_eq!(holds(&settings), holds(&settings), "seed {seed}");
    }
    let (one, other) = (Settings::new(5, 800), Settings::new(6, 800));
    assert_ne!(holds(&one).trace, holds(&other).trace);
}

/// Seeds that found a bug once, each with what it was.
#[test]
fn found_seeds_stay_found() {
    let found = [
        // A transaction's messages were all fetched as its first one.
        (12, 1000),
        // A clean stop after a recovery left the reserved mark as it was.
        (7, 700),
        // What was asked behind a waiting get was dropped when the channel closed.
        (14, 3000),
    ];
    for (seed, steps) in found {
        holds(&Settings::new(seed, steps));
    }
}
