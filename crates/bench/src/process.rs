//! What the broker and this program cost, read from `/proc` (Linux) and the thread's clock.

use crate::BenchError;
use crate::numbers::{float, nanos, ratio};
use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::time::{Duration, Instant};

/// The counters of a process at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    /// User and system time of all its threads, ended ones included.
    pub(crate) cpu_seconds: f64,
    pub(crate) resident_bytes: u64,
    /// The most it ever had; `None` where the kernel does not tell.
    pub(crate) resident_bytes_peak: Option<u64>,
    /// Bytes of page cache it made dirty; `None` where the kernel does not tell us. On file systems
    /// with large folios one byte dirties up to a MiB, and this says little.
    pub(crate) dirtied_bytes: Option<u64>,
    /// Bytes it passed to `write` and its like, some sockets' included.
    pub(crate) passed_bytes: Option<u64>,
}

impl Usage {
    pub(crate) fn of(pid: u32) -> Result<Self, BenchError> {
        let refuse = |error| BenchError::Process { pid, error };
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).map_err(refuse)?;
        let ticks = cpu_ticks(&stat).ok_or(BenchError::Malformed("no times in /proc/PID/stat"))?;
        let status = fs::read_to_string(format!("/proc/{pid}/status")).map_err(refuse)?;
        let io = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
        Ok(Self {
            cpu_seconds: float(ticks) / float(rustix::param::clock_ticks_per_second()),
            resident_bytes: labelled(&status, "VmRSS:").unwrap_or(0) * 1024,
            resident_bytes_peak: labelled(&status, "VmHWM:").map(|kib| kib * 1024),
            dirtied_bytes: labelled(&io, "write_bytes:"),
            passed_bytes: labelled(&io, "wchar:"),
        })
    }
}

/// User and system ticks; the command name before them may hold blanks and brackets.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

fn labelled(text: &str, label: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(label))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// The generator's own thread at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Own {
    at: Instant,
    cpu: Duration,
    /// Time it was ready to run and had no core.
    waited: Duration,
}

/// The share of the time in which the generator ran, and in which it wanted to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Share {
    pub(crate) cpu_seconds: f64,
    pub(crate) cpu: f64,
    pub(crate) waited: f64,
}

impl Own {
    pub(crate) fn now() -> Self {
        let schedule = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let mut fields = schedule.split_ascii_whitespace();
        let mut nanos = || Some(Duration::from_nanos(fields.next()?.parse().ok()?));
        // A kernel that keeps no such statistics still has the thread's clock.
        let cpu = nanos().unwrap_or_else(|| {
            Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
        });
        Self {
            at: Instant::now(),
            cpu,
            waited: nanos().unwrap_or_default(),
        }
    }

    pub(crate) fn since(&self, before: &Self) -> Share {
        let wall = float(nanos(self.at - before.at));
        let part = |now: Duration, then| ratio(float(nanos(now.saturating_sub(then))), wall);
        Share {
            cpu_seconds: float(nanos(self.cpu.saturating_sub(before.cpu))) / 1e9,
            cpu: part(self.cpu, before.cpu),
            waited: part(self.waited, before.waited),
        }
    }
}

impl Share {
    /// Why a rate taken under this share says more about the generator than about the broker.
    pub(crate) fn void(self) -> Option<&'static str> {
        if self.cpu >= 0.9 {
            Some("saturated")
        } else if self.cpu + self.waited >= 0.9 {
            Some("starved")
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_behind_any_name() {
        let stat = "42 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 70 30 5 6 20 0 3";
        assert_eq!(cpu_ticks(stat), Some(100));
        assert_eq!(cpu_ticks("42 (a"), None);
        assert_eq!(
            labelled("a: 1\nwrite_bytes: 4096\n", "write_bytes:"),
            Some(4096)
        );
    }

    #[test]
    fn a_generator_without_a_core_to_spare_voids_the_row() {
        let void = |cpu, waited| {
            Share {
                cpu_seconds: 0.0,
                cpu,
                waited,
            }
            .void()
        };
        assert_eq!(void(0.5, 0.1), None);
        assert_eq!(void(0.95, 0.0), Some("saturated"));
        assert_eq!(void(0.5, 0.45), Some("starved"));
    }

    #[test]
    fn a_running_process_is_measured() {
        let usage = Usage::of(std::process::id()).unwrap();
        assert!(usage.resident_bytes > 0);
        let before = Own::now();
        let share = Own::now().since(&before);
        assert!(share.cpu >= 0.0);
    }
}
