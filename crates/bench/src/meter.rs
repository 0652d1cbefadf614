//! What a stretch of a run cost: readings before it and after it.

use crate::BenchError;
use crate::numbers::{float, nanos};
use crate::options::Options;
use crate::process::{Own, Usage};
use crate::report::{Cost, Folder, Row};
use std::os::unix::fs::MetadataExt;
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
    device: Option<Device>,
}

/// Readings over a stretch.
pub(crate) struct Reading {
    seconds: f64,
    own: crate::process::Share,
    pid: Option<u32>,
    before: Option<Usage>,
    after: Option<Usage>,
    folder: Option<Folder>,
    device_written: Option<u64>,
}

impl Meter {
    pub(crate) fn start(options: &Options) -> Result<Self, BenchError> {
        Self::of(options.pid, options.data_dir.as_deref())
    }

    /// Of a process and a folder, if there are any.
    pub(crate) fn of(pid: Option<u32>, data_dir: Option<&Path>) -> Result<Self, BenchError> {
        let before = pid.map(Usage::of).transpose()?;
        let folder = data_dir.map(FolderWatch::start);
        let device = data_dir.and_then(Device::of);
        Ok(Self {
            pid,
            before,
            folder,
            device,
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
            device_written: self.device.and_then(|device| device.written_since()),
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
            device_written: self.device_written,
            ..Row::default()
        }
    }
}

/// The disk that a folder lies on, and how much had been written to it, by whomever.
struct Device {
    stat: PathBuf,
    before: u64,
}

impl Device {
    /// `None` where the folder lies on no disk of its own: in memory, or on another machine.
    fn of(dir: &Path) -> Option<Self> {
        let id = std::fs::metadata(dir).ok()?.dev();
        let (major, minor) = (rustix::fs::major(id), rustix::fs::minor(id));
        let stat = PathBuf::from(format!("/sys/dev/block/{major}:{minor}/stat"));
        let before = written(&stat)?;
        Some(Self { stat, before })
    }

    fn written_since(&self) -> Option<u64> {
        Some(written(&self.stat)?.saturating_sub(self.before))
    }
}

/// Bytes written, after all that still was in memory.
fn written(stat: &Path) -> Option<u64> {
    const SECTOR_BYTES: u64 = 512;
    rustix::fs::sync();
    let text = std::fs::read_to_string(stat).ok()?;
    let sectors: u64 = text.split_ascii_whitespace().nth(6)?.parse().ok()?;
    Some(sectors * SECTOR_BYTES)
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
