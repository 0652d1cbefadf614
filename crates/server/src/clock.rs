//! The one clock of the process: wall time taken once, then only what has passed since, so that
//! a step of the system's clock moves no timer.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970 that never go back while the process lives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    started: Instant,
    started_ms: u64,
}

impl Clock {
    /// Reads the system's clock, once.
    pub(crate) fn start() -> Self {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            started: Instant::now(),
            started_ms: millis(since),
        }
    }

    /// Now.
    pub(crate) fn now_ms(&self) -> u64 {
        self.started_ms.saturating_add(self.uptime_ms())
    }

    /// Milliseconds since the start.
    pub(crate) fn uptime_ms(&self) -> u64 {
        millis(self.started.elapsed())
    }

    /// The instant of a time of this clock; one long past is the start.
    pub(crate) fn instant(&self, at_ms: u64) -> Instant {
        let since = Duration::from_millis(at_ms.saturating_sub(self.started_ms));
        // Beyond what an instant can say is as good as never: a year.
        self.started
            .checked_add(since)
            .unwrap_or_else(|| self.started + Duration::from_hours(365 * 24))
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_and_times_agree() {
        let clock = Clock::start();
        let now = clock.now_ms();
        assert_eq!(
            clock.instant(now + 500) - clock.instant(now),
            Duration::from_millis(500)
        );
        assert_eq!(clock.instant(0), clock.started);
        assert!(clock.instant(u64::MAX) > clock.started);
    }
}
