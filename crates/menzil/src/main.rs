//! The Menzil broker.

mod cli;
mod control;
mod delays;
mod effective;
mod explain;
mod hash_password;
mod journal;
mod policies;
mod server;
mod stats;

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;

/// Wrong arguments or settings.
const EXIT_USAGE: u8 = 2;
/// Ended by a signal at a prompt, as shells have it for SIGINT.
const EXIT_INTERRUPTED: u8 = 130;
/// Anything else that failed.
const EXIT_FAILURE: u8 = 1;

/// Why a command failed: a text for people and the code the process ends with.
pub(crate) struct Failure {
    text: String,
    code: u8,
}

impl Failure {
    fn usage(text: impl std::fmt::Display) -> Self {
        Self {
            text: text.to_string(),
            code: EXIT_USAGE,
        }
    }

    fn interrupted(text: impl std::fmt::Display) -> Self {
        Self {
            text: text.to_string(),
            code: EXIT_INTERRUPTED,
        }
    }

    fn new(text: impl std::fmt::Display) -> Self {
        Self {
            text: text.to_string(),
            code: EXIT_FAILURE,
        }
    }
}

fn main() -> ExitCode {
    let done = match cli::Cli::parse().command {
        cli::Command::Server(arguments) => server::run(&arguments),
        cli::Command::Bench(arguments) => bench(arguments.words),
        cli::Command::Stats(arguments) => stats::run(&arguments),
        cli::Command::Policy(command) => control::policy(&command),
        cli::Command::Delays(command) => delays::run(&command),
        cli::Command::Definitions(command) => control::definitions(&command),
        cli::Command::Explain(command) => explain::run(&command),
        cli::Command::Journal(command) => journal::run(&command),
        cli::Command::HashPassword(arguments) => hash_password::run(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // With stderr closed there is nobody left to tell.
            let _ = writeln!(std::io::stderr(), "menzil: {}", failure.text);
            ExitCode::from(failure.code)
        }
    }
}

fn bench(words: Vec<String>) -> Result<(), Failure> {
    menzil_bench::run(words).map_err(|error| {
        if matches!(error, menzil_bench::BenchError::Usage(_)) {
            Failure::usage(error)
        } else {
            Failure::new(error)
        }
    })
}

/// Prints to standard output; a reader that went away is no failure.
pub(crate) fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes());
    let _ = out.flush();
}
