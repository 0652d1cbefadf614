//! The machine's raw sync rate: what no durable confirm can beat.

use crate::BenchError;
use crate::engine::Counts;
use crate::histogram::Histogram;
use crate::numbers::{count, float, nanos};
use crate::options::Options;
use crate::report::{Latency, Row};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Instant;

const BLOCK_BYTES: usize = 4096;
const BLOCKS: u64 = 16 * 1024;
const CHUNK_BYTES: usize = 1 << 20;
const APPEND_BYTES_MAX: u64 = 4 << 30;

/// Overwrites 4 KiB blocks of a 64 MiB file with an `fdatasync` each, then appends 1 MiB with an
/// `fdatasync` each; both for `--seconds`.
pub(crate) fn measure(options: &Options) -> Result<Vec<Row>, BenchError> {
    let scratch = Scratch::create(options)?;
    let block = vec![b'm'; BLOCK_BYTES];
    for index in 0..BLOCKS {
        scratch
            .file
            .write_all_at(&block, index * count(BLOCK_BYTES))?;
    }
    scratch.file.sync_all()?;
    let overwrite = repeat(options, "disk-overwrite", BLOCK_BYTES, |index| {
        scratch
            .file
            .write_all_at(&block, index % BLOCKS * count(BLOCK_BYTES))?;
        scratch.file.sync_data()
    })?;
    let chunk = vec![b'm'; CHUNK_BYTES];
    scratch.file.set_len(0)?;
    let append = repeat(options, "disk-append", CHUNK_BYTES, |index| {
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
    let start = Instant::now();
    let mut steps = 0;
    while start.elapsed() < options.measured {
        let before = Instant::now();
        step(steps)?;
        histogram.record(nanos(before.elapsed()));
        steps += 1;
    }
    let seconds = float(nanos(start.elapsed())) / 1e9;
    eprintln!(
        "{name}: {:.1} MB/s",
        float(steps * count(bytes)) / seconds / 1e6
    );
    Ok(Row {
        scenario: name.to_owned(),
        body_bytes: count(bytes),
        seconds,
        counts: Counts {
            published: steps,
            ..Counts::default()
        },
        messages: steps,
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
            .open(&path)?;
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
        let line = format!("--scenario disk --seconds 0.05 --dir {}", dir.display());
        let options = Options::parse(line.split_whitespace().map(str::to_owned)).unwrap();
        let rows = measure(&options).unwrap();
        assert!(
            rows.iter()
                .all(|row| row.messages > 0 && row.latency.is_some())
        );
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
        std::fs::remove_dir(&dir).unwrap();
    }
}
