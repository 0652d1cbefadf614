//! Runs seeds: one to look at, or many to soak.
//!
//! ```text
//! cargo run -p menzil-sim -- --seed 1 --seeds 100 --steps 20000
//! cargo run -p menzil-sim -- --seed 7 --steps 5000 --sabotage SettleLost --trace 60
//! ```
#![expect(clippy::print_stdout, reason = "a command-line tool")]

use std::process::ExitCode;

use menzil_sim::{Failure, Report, Sabotage, Settings, Tally};

struct Arguments {
    settings: Settings,
    seeds: u64,
}

fn main() -> ExitCode {
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(why) => {
            println!("{why}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let mut total = Total::default();
    let first = arguments.settings.seed;
    for seed in first..first + arguments.seeds {
        let settings = Settings {
            seed,
            ..arguments.settings.clone()
        };
        match menzil_sim::run(&settings) {
            Ok(report) => total.add(&report),
            Err(failure) => total.fail(&failure, &settings),
        }
    }
    total.print();
    if total.failures == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

#[derive(Default)]
struct Total {
    runs: u64,
    failures: u64,
    commands: u64,
    crashes: u64,
    checkpoints: u64,
    evacuated: u64,
    fetches: u64,
    tally: Tally,
}

impl Total {
    fn add(&mut self, report: &Report) {
        self.runs += 1;
        self.commands += report.commands;
        self.crashes += report.crashes;
        self.checkpoints += report.checkpoints;
        self.evacuated += report.evacuated;
        self.fetches += report.fetches;
        self.tally.add(&report.tally);
    }

    fn fail(&mut self, failure: &Failure, settings: &Settings) {
        self.runs += 1;
        self.failures += 1;
        println!("{failure}");
        println!("repeat: {}\n", settings.command());
    }

    fn print(&self) {
        let tally = &self.tally;
        println!(
            "seeds {} commands {} published {} confirmed {} nacked {} delivered {} letters {} delayed {} resent {} redelivered {} \
             transactions {} crashes {} checkpoints {} evacuated {} fetches {} audits {} entries audited {}",
            self.runs,
            self.commands,
            tally.published,
            tally.confirmed,
            tally.nacked,
            tally.delivered,
            tally.letters,
            tally.delayed,
            tally.resent,
            tally.redelivered,
            tally.transactions,
            self.crashes,
            self.checkpoints,
            self.evacuated,
            self.fetches,
            tally.audits,
            tally.audited,
        );
        if self.failures == 0 {
            println!("lost 0 doubled 0 resurrected 0");
        } else {
            println!("failed seeds: {}", self.failures);
        }
    }
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut arguments = Arguments {
        settings: Settings::new(1, 5000),
        seeds: 1,
    };
    while let Some(option) = words.next() {
        let value = words
            .next()
            .ok_or_else(|| format!("{option} wants a value"))?;
        let number = || {
            value
                .parse::<u64>()
                .map_err(|_| format!("{option}: {value}?"))
        };
        match option.as_str() {
            "--seed" => arguments.settings.seed = number()?,
            "--steps" => arguments.settings.steps = number()?,
            "--seeds" => arguments.seeds = number()?,
            "--trace" => {
                arguments.settings.trace_lines = usize::try_from(number()?).unwrap_or(usize::MAX);
            }
            "--later" => {
                let level = usize::try_from(number()?).unwrap_or(usize::MAX);
                arguments.settings = arguments.settings.later(level);
            }
            "--sabotage" => {
                let bug =
                    Sabotage::from_name(&value).ok_or_else(|| format!("no such bug: {value}"))?;
                arguments.settings.sabotage = Some(bug);
            }
            _ => return Err(format!("unknown option {option}")),
        }
    }
    Ok(arguments)
}

const USAGE: &str = "menzil-sim [--seed N] [--steps M] [--seeds COUNT] [--trace LINES] [--later 1|2] [--sabotage BUG]";
