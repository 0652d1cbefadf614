//! What a stretch of a run cost: readings before it and after it.

use crate::BenchError;
use crate::numbers::{float, nanos};
use crate::options::Options;
use crate::process::{Own, Usage};
use crate::report::{Cost, Folder, Row};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const FOLDER_EVERY: Duration = Duration::from_millis(200);

/// Readings taken before a stretch.
pub(crate) struct Meter {
    pid: Option<u32>,
    before: Option<Usage>,
    own: Own,
    start: Instant,
    folder: Option<FolderWatch>,
}

/// Readings over a stretch.
pub(crate) struct Reading {
    seconds: f64,
    own: crate::process::Share,
    pid: Option<u32>,
    before: Option<Usage>,
    after: Option<Usage>,
    folder: Option<Folder>,
}

impl Meter {
    pub(crate) fn start(options: &Options) -> Result<Self, BenchError> {
        let before = options.pid.map(Usage::of).transpose()?;
        let folder = options.data_dir.as_deref().map(FolderWatch::start);
        Ok(Self {
            pid: options.pid,
            before,
            folder,
            own: Own::now(),
            start: Instant::now(),
        })
    }

    pub(crate) fn stop(self) -> Result<Reading, BenchError> {
        let seconds = float(nanos(self.start.elapsed())) / 1e9;
        let own = Own::now().since(&self.own);
        Ok(Reading {
            seconds,
            own,
            pid: self.pid,
            before: self.before,
            after: self.pid.map(Usage::of).transpose()?,
            folder: self.folder.map(FolderWatch::stop),
        })
    }
}

impl Reading {
    /// Takes the broker's memory again, after what was on its way has come to rest.
    pub(crate) fn after_rest(mut self, rest: Duration) -> Result<Self, BenchError> {
        if let Some(pid) = self.pid {
            std::thread::sleep(rest);
            let rested = Usage::of(pid)?;
            if let Some(after) = &mut self.after {
                after.resident_bytes = rested.resident_bytes;
            }
        }
        Ok(self)
    }

    /// A row with these readings in it.
    pub(crate) fn row(self, scenario: String) -> Row {
        Row {
            scenario,
            seconds: self.seconds,
            own: Some(self.own),
            broker: self
                .before
                .zip(self.after)
                .map(|(before, after)| Cost::between(&before, &after)),
            folder: self.folder,
            ..Row::default()
        }
    }
}

/// Looks at a folder's size now and then.
struct FolderWatch {
    stop: Sender<()>,
    thread: JoinHandle<u64>,
    dir: PathBuf,
}

impl FolderWatch {
    fn start(dir: &Path) -> Self {
        let (stop, stopped) = channel();
        let watched = dir.to_owned();
        let thread = std::thread::spawn(move || {
            let mut peak = 0;
            loop {
                peak = peak.max(folder_bytes(&watched));
                match stopped.recv_timeout(FOLDER_EVERY) {
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => return peak,
                }
            }
        });
        Self {
            stop,
            thread,
            dir: dir.to_owned(),
        }
    }

    fn stop(self) -> Folder {
        drop(self.stop);
        let peak = self.thread.join().unwrap_or(0);
        let end = folder_bytes(&self.dir);
        Folder {
            end_bytes: end,
            peak_bytes: peak.max(end),
        }
    }
}

/// Bytes of all files below a folder. Files come and go meanwhile; what is gone counts nothing.
fn folder_bytes(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => folder_bytes(&entry.path()),
            Ok(meta) => meta.len(),
            Err(_) => 0,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folders_size_is_that_of_all_files_below_it() {
        let dir = std::env::temp_dir().join(format!("menzil-bench-meter-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("below")).unwrap();
        std::fs::write(dir.join("one"), [0; 10]).unwrap();
        std::fs::write(dir.join("below/two"), [0; 20]).unwrap();
        let watch = FolderWatch::start(&dir);
        let folder = watch.stop();
        assert_eq!((folder.end_bytes, folder.peak_bytes), (30, 30));
        std::fs::remove_dir_all(&dir).unwrap();
        assert_eq!(folder_bytes(&dir), 0);
    }
}
