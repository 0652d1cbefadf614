//! A raw-frame load generator for AMQP 0-9-1 and MQTT, good for any broker.
//!
//! It writes frames that were encoded once and only walks over the frames it reads, so that one
//! thread loads a broker core without being the limit itself; where it is the limit all the same,
//! the row says so. Beside rates it reports what a broker *costs*: CPU seconds per million
//! messages, resident memory and bytes written, read from `/proc` of the process given by `--pid`.
//! On shared machines those are the figures that hold.
//!
//! Deliberately absent: an async runtime, an AMQP or MQTT library, reconnection, TLS. Everything it
//! declares carries a random suffix and is deleted at the end.

mod backlog;
mod churn;
mod connection;
mod consumer;
mod deletion;
mod disk;
mod engine;
mod error;
mod flow;
mod histogram;
mod idle;
mod link;
mod loopback;
mod meter;
mod mqtt;
mod numbers;
mod options;
mod plain_words;
mod process;
mod progress;
mod publisher;
mod report;
mod scenario;
mod topology;
mod unconfirmed;
mod uri;
mod usage;
mod wire;

pub use error::BenchError;
pub use usage::USAGE;

use options::Options;
use scenario::Kind;
use std::io::Write;

/// Runs one load and writes its table (or, with `--json`, one JSON array) to standard output.
///
/// `args` are the words after the verb: `amqp --scenario transient --size 100 …`.
pub fn run(args: impl IntoIterator<Item = String>) -> Result<(), BenchError> {
    let text = report(args)?;
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(())
}

/// The same, with the text returned. `help` and `--help` return what there is to say.
pub fn report(args: impl IntoIterator<Item = String>) -> Result<String, BenchError> {
    let mut args: Vec<String> = args.into_iter().collect();
    let verb = if args.is_empty() {
        String::new()
    } else {
        args.remove(0)
    };
    let asks_for_help = |word: &String| matches!(word.as_str(), "help" | "--help" | "-h");
    let helped = args.iter().any(asks_for_help);
    match verb.as_str() {
        "amqp" if helped => Ok(usage::amqp()),
        "amqp" => amqp(args),
        "mqtt" if helped => Ok(mqtt::usage()),
        "mqtt" => mqtt::report(args),
        "disk" if helped => Ok(usage::DISK.to_owned()),
        "disk" => disk::report(args),
        "loopback" if helped => Ok(usage::LOOPBACK.to_owned()),
        "loopback" => loopback::report(args),
        "" | "help" | "--help" | "-h" => Ok(USAGE.to_owned()),
        other => Err(BenchError::Usage(missing_verb(other, &args))),
    }
}

fn amqp(args: Vec<String>) -> Result<String, BenchError> {
    let options = Options::parse(args)?;
    let rows = match options.scenario.kind {
        Kind::Flow => flow::measure(&options)?,
        Kind::Backlog(then) => backlog::measure(&options, then)?,
        Kind::IdleConnections => idle::connections(&options)?,
        Kind::Declare(what) => idle::declared(&options, what)?,
        Kind::Deletion => deletion::measure(&options)?,
        Kind::Churn(what) => churn::measure(&options, what)?,
    };
    Ok(if options.json {
        report::json(&rows)
    } else {
        report::table(&rows, report::terminal_columns())
    })
}

/// What to write instead of words that lack their verb.
fn missing_verb(first: &str, rest: &[String]) -> String {
    let words: Vec<&str> = std::iter::once(first)
        .chain(rest.iter().map(String::as_str))
        .collect();
    let line = words.join(" ");
    if let Some((before, after)) = line.split_once("--scenario disk") {
        return format!(
            "write: menzil bench disk {}",
            format!("{before}{after}").trim()
        );
    }
    if first.starts_with("--") {
        return format!("write: menzil bench amqp {line}");
    }
    format!("{first:?} is none of amqp, mqtt, disk and loopback; see menzil bench --help")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(line: &str) -> Result<String, BenchError> {
        report(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn help_is_at_every_level() {
        assert_eq!(answer("").unwrap(), USAGE);
        assert_eq!(answer("--help").unwrap(), USAGE);
        assert!(answer("amqp --help").unwrap().contains("--publishers"));
        assert!(answer("mqtt --help").unwrap().contains("--subscribers"));
        assert!(answer("disk -h").unwrap().contains("--dir"));
        assert!(answer("loopback help").unwrap().contains("--pin"));
    }

    #[test]
    fn words_without_their_verb_are_told_what_to_write() {
        for (line, text) in [
            (
                "--scenario fanout --size 5",
                "menzil bench amqp --scenario fanout --size 5",
            ),
            ("--scenario disk --dir x", "menzil bench disk --dir x"),
            ("stomp", "none of amqp, mqtt, disk and loopback"),
        ] {
            assert!(
                answer(line).unwrap_err().to_string().contains(text),
                "{line}"
            );
        }
    }
}
