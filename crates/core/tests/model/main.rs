//! All features of queues together, against a naive twin, under random operations, crashes and
//! restarts.
//!
//! `MENZIL_MODEL_OPERATIONS` says how many operations, `MENZIL_MODEL_SEED` the seed of the first
//! case; a failure prints both, and the fewest operations that still fail.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test may fail where it stands"
)]

mod drive;
mod naive;
mod plan;
#[expect(dead_code, reason = "more is in it than this test asks for")]
#[path = "../shard/support.rs"]
mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::drive::{Pair, features};
use crate::plan::{Features, Step, plan};

/// Operations of one case: few enough to be looked at, enough for much to have happened.
const CASE: usize = 250;

/// Whether it was followed to its end, or what went wrong, and at which step.
fn run(seed: u64, steps: &[Step]) -> Result<bool, (usize, String)> {
    let mut at = 0;
    let done = catch_unwind(AssertUnwindSafe(|| {
        let mut pair = Pair::new(seed);
        for (number, step) in steps.iter().enumerate() {
            at = number;
            pair.step(step)?;
        }
        at = steps.len();
        pair.end()
    }));
    let done = done.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(format!("panic: {}", text.unwrap_or_default()))
    });
    done.map_err(|why| (at, why))
}

/// The fewest steps found that fail.
fn shrunk(seed: u64, mut steps: Vec<Step>) -> Vec<Step> {
    let mut size = steps.len() / 2;
    while size > 0 {
        let mut from = 0;
        while from < steps.len() {
            let mut fewer = steps.clone();
            fewer.drain(from..(from + size).min(steps.len()));
            if run(seed, &fewer).is_err() {
                steps = fewer;
            } else {
                from += size;
            }
        }
        size /= 2;
    }
    steps
}

fn check(seed: u64, features: Features) -> bool {
    let mut steps = plan(seed, CASE, features);
    let (at, why) = match run(seed, &steps) {
        Ok(is_followed) => return is_followed,
        Err(failed) => failed,
    };
    steps.truncate(at + 1);
    println!("seed {seed}, step {at}: {why}");
    let few = shrunk(seed, steps);
    let Err((_, why)) = run(seed, &few) else {
        panic!("seed {seed} fails only sometimes");
    };
    let text: Vec<String> = few.iter().map(|step| format!("  {step:?}")).collect();
    panic!(
        "{why}\n{}\nrepeat: MENZIL_MODEL_SEED={seed} MENZIL_MODEL_OPERATIONS=1 cargo test -p menzil-core --test model",
        text.join("\n")
    );
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

#[test]
fn a_virtual_host_does_what_its_naive_twin_does() {
    let operations = setting("MENZIL_MODEL_OPERATIONS", 8_000);
    let first = setting("MENZIL_MODEL_SEED", 1);
    let cases = operations.div_ceil(CASE as u64);
    let features = features();
    println!("seed {first}, {operations} operations, {features:?}");
    let followed = (first..first + cases).filter(|seed| check(*seed, features));
    let followed = followed.count() as u64;
    println!("{cases} cases of {CASE} operations, {followed} of them to their ends");
    // The others come to more that may have happened than can be followed.
    assert!(followed * 10 >= cases * 9);
}
