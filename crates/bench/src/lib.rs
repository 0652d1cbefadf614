//! A raw-frame AMQP 0-9-1 load generator, good for any broker.
//!
//! It writes frames that were encoded once and only walks over the frames it reads, so that one
//! thread loads a broker core without being the limit itself; where it is the limit all the same,
//! the row says so. Beside rates it reports what a broker *costs*: CPU seconds per million
//! messages, resident memory and bytes written, read from `/proc` of the process given by `--pid`.
//! On shared machines those are the figures that hold.
//!
//! Deliberately absent: an async runtime, an AMQP library, reconnection, TLS. Everything it
//! declares carries a random suffix and is deleted at the end.

mod connection;
mod consumer;
mod disk;
mod engine;
mod error;
mod histogram;
mod numbers;
mod options;
mod process;
mod publisher;
mod report;
mod scenario;
mod uri;
mod wire;

pub use error::BenchError;
pub use options::USAGE;

use options::{Options, Scenario};
use std::io::Write;

/// Runs one scenario and writes its table (or, with `--json`, one JSON array) to standard output.
///
/// `args` are the words after the verb: `--scenario transient --size 100 …`. `help` and `--help`
/// print [`USAGE`].
pub fn run(args: impl IntoIterator<Item = String>) -> Result<(), BenchError> {
    let args: Vec<String> = args.into_iter().collect();
    let asks_for_help = |word: &String| matches!(word.as_str(), "help" | "--help" | "-h");
    let text = if args.iter().any(asks_for_help) {
        USAGE.to_owned()
    } else {
        report(args)?
    };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(())
}

/// The same, with the text returned.
pub fn report(args: impl IntoIterator<Item = String>) -> Result<String, BenchError> {
    let options = Options::parse(args)?;
    let rows = match options.scenario {
        Scenario::Disk => disk::measure(&options)?,
        Scenario::Transient
        | Scenario::ManualAck
        | Scenario::Confirm
        | Scenario::ConfirmOne
        | Scenario::Fanout
        | Scenario::Latency
        | Scenario::Drain => scenario::measure(&options)?,
    };
    Ok(if options.json {
        report::json(&rows)
    } else {
        report::table(&rows)
    })
}
