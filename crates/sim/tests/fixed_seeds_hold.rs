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
fn seeds_17_to_32_hold() {
    seeds_hold(17..33, 2500);
}

#[test]
fn seeds_33_to_48_hold() {
    seeds_hold(33..49, 2500);
}

#[test]
fn seeds_1_to_16_hold_with_dead_letters() {
    let mut letters = 0;
    for seed in 1..17 {
        letters += holds(&Settings::new(seed, 1500).later(1)).tally.letters;
    }
    assert!(letters > 0, "no dead letter was put to the test");
}

#[test]
fn seeds_1_to_12_hold_with_delays_groups_and_policies() {
    let (mut delayed, mut resent) = (0, 0);
    for seed in 1..13 {
        let tally = holds(&Settings::new(seed, 1500).later(2)).tally;
        delayed += tally.delayed;
        resent += tally.resent;
    }
    assert!(
        delayed > 0 && resent > 0,
        "{delayed} delayed, {resent} resent"
    );
}

#[test]
fn a_long_run_holds() {
    seeds_hold(100..101, 8000);
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

/// Seeds that fail where one of these fixes is taken out of the core.
#[test]
fn found_seeds_stay_found() {
    let found = [
        // A clean stop after a recovery left the reserved mark of deliveries as it was.
        (75, 1200),
        // What was asked behind a waiting get was dropped when the channel closed.
        (64, 4800),
        // An expiry uncovered a message that was in memory, and nobody delivered it.
        (35, 3700),
        // Transient messages of a transaction counted twice against a length limit.
        (51, 1400),
    ];
    for (seed, steps) in found {
        holds(&Settings::new(seed, steps));
    }
    // What sets nothing free used the journal's reserve up, and the disk could not be drained.
    holds(&Settings::new(700_446, 1700).later(1));
}
