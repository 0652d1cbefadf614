//! The machine's raw sync rate: what no durable confirm can beat.

use crate::BenchError;
use crate::histogram::Histogram;
use crate::numbers::{count, float, nanos, ratio};
use crate::plain_words::PlainWords;
use crate::progress::Progress;
use crate::report::{Latency, Row, json, table, terminal_columns};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const BLOCK_BYTES: usize = 4096;
const BLOCKS: u64 = 16 * 1024;
const CHUNK_BYTES: usize = 1 << 20;
const APPEND_BYTES_MAX: u64 = 4 << 30;

/// The command line of `menzil bench disk`.
#[derive(Debug)]
struct Options {
    dir: PathBuf,
    measured: Duration,
    /// Leaves the second part out, which writes as much as the disk takes.
    overwrite_alone: bool,
    json: bool,
    quiet: bool,
}

impl Options {
    fn parse(args: Vec<String>) -> Result<Self, BenchError> {
        let mut options = Self {
            dir: ".".into(),
            measured: Duration::from_secs(3),
            overwrite_alone: false,
            json: false,
            quiet: false,
        };
        let mut words = PlainWords::new(args);
        while let Some(name) = words.next_name() {
            match name.as_str() {
                "--dir" => options.dir = words.value("DIR")?.into(),
                "--seconds" => options.measured = seconds(&name, &words.value("S")?)?,
                "--overwrite" => options.overwrite_alone = true,
                "--json" => options.json = true,
                "--quiet" => options.quiet = true,
                _ => {
                    return Err(BenchError::Usage(format!(
                        "unknown word {name}; disk knows --dir, --seconds, --overwrite, --json and --quiet"
                    )));
                }
            }
        }
        Ok(options)
    }
}

/// Seconds as the value of the option `name`.
pub(crate) fn seconds(name: &str, text: &str) -> Result<Duration, BenchError> {
    text.parse()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| {
            BenchError::Usage(format!(
                "{name} {text:?} is not a number of seconds such as 3 or 0.5"
            ))
        })
}

/// Runs it and returns the table or the JSON.
pub(crate) fn report(args: Vec<String>) -> Result<String, BenchError> {
    let options = Options::parse(args)?;
    let rows = measure(&options)?;
    Ok(if options.json {
        json(&rows)
    } else {
        table(&rows, terminal_columns())
    })
}

/// Overwrites 4 KiB blocks of a 64 MiB file with an `fdatasync` each, then appends 1 MiB with an
/// `fdatasync` each; both for `--seconds`, the second unless it is left out.
fn measure(options: &Options) -> Result<Vec<Row>, BenchError> {
    let scratch = Scratch::create(options)?;
    let block = vec![b'm'; BLOCK_BYTES];
    for index in 0..BLOCKS {
        scratch
            .file
            .write_all_at(&block, index * count(BLOCK_BYTES))?;
    }
    scratch.file.sync_all()?;
    let overwrite = repeat(options, "disk overwrite", BLOCK_BYTES, |index| {
        scratch
            .file
            .write_all_at(&block, index % BLOCKS * count(BLOCK_BYTES))?;
        scratch.file.sync_data()
    })?;
    if options.overwrite_alone {
        return Ok(vec![overwrite]);
    }
    let chunk = vec![b'm'; CHUNK_BYTES];
    scratch.file.set_len(0)?;
    let append = repeat(options, "disk append", CHUNK_BYTES, |index| {
        // Starting over at a bound keeps a long run from filling the disk.
        let at = index * count(CHUNK_BYTES) % APPEND_BYTES_MAX;
        if at == 0 {
            scratch.file.set_len(0)?;
        }
        scratch.file.write_all_at(&chunk, at)?;
        scratch.file.sync_data()
    })?;
    Ok(vec![overwrite, append])
}

fn repeat(
    options: &Options,
    name: &str,
    bytes: usize,
    mut step: impl FnMut(u64) -> std::io::Result<()>,
) -> Result<Row, BenchError> {
    let mut histogram = Histogram::new();
    let mut progress = Progress::new(name, options.quiet);
    let start = Instant::now();
    let mut steps = 0;
    while start.elapsed() < options.measured {
        let before = Instant::now();
        step(steps)?;
        histogram.record(nanos(before.elapsed()), 1);
        steps += 1;
        progress.count(steps, None, "syncs");
    }
    progress.end();
    let seconds = float(nanos(start.elapsed())) / 1e9;
    let rate = ratio(float(steps * count(bytes)), seconds) / 1e6;
    Ok(Row {
        scenario: name.to_owned(),
        setup: format!("{} KiB + fdatasync, {rate:.0} MB/s", bytes / 1024),
        unit: "syncs",
        seconds,
        done: steps,
        latency: Latency::of(&histogram),
        ..Row::default()
    })
}

/// A file that is gone when the run is.
struct Scratch {
    file: File,
    path: PathBuf,
}

impl Scratch {
    fn create(options: &Options) -> Result<Self, BenchError> {
        let path = options
            .dir
            .join(format!("menzil-bench.{}.tmp", std::process::id()));
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&path)
            .map_err(|error| {
                BenchError::Usage(format!(
                    "{}: {error}; --dir names a folder to write in",
                    options.dir.display()
                ))
            })?;
        Ok(Self { file, path })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.path) {
            eprintln!("{}: {error}", self.path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_rates_are_measured_and_nothing_is_left_behind() {
        let dir = std::env::temp_dir().join(format!("menzil-bench-test-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let line = format!("--seconds 0.05 --dir {}", dir.display());
        let options = Options::parse(line.split_whitespace().map(str::to_owned).collect()).unwrap();
        let rows = measure(&options).unwrap();
        assert_eq!(rows.len(), 2);
        assert!(rows.iter().all(|row| row.done > 0 && row.latency.is_some()));
        let alone = Options {
            overwrite_alone: true,
            ..options
        };
        assert_eq!(measure(&alone).unwrap().len(), 1);
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
        std::fs::remove_dir(&dir).unwrap();
    }

    #[test]
    fn what_is_not_understood_is_refused_with_a_way_out() {
        for (line, way_out) in [
            ("--folder x", "--dir"),
            ("--seconds soon", "0.5"),
            ("--dir", "--dir DIR"),
            ("--seconds=0.1 --dir /nonexistent/x", "--dir names"),
        ] {
            let args = line.split_whitespace().map(str::to_owned).collect();
            let text = report(args).unwrap_err().to_string();
            assert!(text.contains(way_out), "{line}: {text}");
        }
    }
}
