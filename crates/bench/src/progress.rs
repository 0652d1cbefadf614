//! How a run goes, while it runs: on a terminal one line that is rewritten, else a line every few
//! seconds; on standard error, so that the table or the JSON stays alone on standard output.

use crate::engine::{Counts, Until};
use crate::numbers::{float, nanos, ratio};
use crate::report::human;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

const EVERY_ON_TERMINAL: Duration = Duration::from_millis(500);
const EVERY_ELSEWHERE: Duration = Duration::from_secs(5);

/// What a phase does at all; a rate of something else would only be a zero.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Shown {
    pub(crate) published: bool,
    pub(crate) delivered: bool,
    pub(crate) confirmed: bool,
}

impl Shown {
    fn rates(self, grown: Counts, seconds: f64) -> String {
        let parts = [
            (self.published, grown.published, "published"),
            (self.delivered, grown.delivered, "delivered"),
            (self.confirmed, grown.confirmed, "confirmed"),
        ];
        let texts: Vec<String> = parts
            .into_iter()
            .filter(|(shown, ..)| *shown)
            .map(|(_, part, word)| format!("{}/s {word}", human(ratio(float(part), seconds))))
            .collect();
        texts.join(", ")
    }
}

/// The line that tells how it goes.
#[derive(Debug)]
pub(crate) struct Progress {
    label: String,
    quiet: bool,
    terminal: bool,
    every: Duration,
    shown: Shown,
    until: Option<Until>,
    began: Instant,
    told: Instant,
    counts: Counts,
    line_open: bool,
}

impl Progress {
    pub(crate) fn new(label: &str, quiet: bool) -> Self {
        let terminal = std::io::stderr().is_terminal();
        Self {
            label: label.to_owned(),
            quiet,
            terminal,
            every: if terminal {
                EVERY_ON_TERMINAL
            } else {
                EVERY_ELSEWHERE
            },
            shown: Shown::default(),
            until: None,
            began: Instant::now(),
            told: Instant::now(),
            counts: Counts::default(),
            line_open: false,
        }
    }

    /// A phase of messages begins.
    pub(crate) fn begin(&mut self, shown: Shown, counts: Counts, until: Until) {
        self.shown = shown;
        self.counts = counts;
        self.until = Some(until);
        (self.began, self.told) = (Instant::now(), Instant::now());
    }

    /// Tells rates, if it is time to.
    pub(crate) fn tick(&mut self, counts: Counts) {
        let since = self.told.elapsed();
        if self.quiet || since < self.every {
            return;
        }
        let rates = self
            .shown
            .rates(counts.since(self.counts), float(nanos(since)) / 1e9);
        self.counts = counts;
        let elapsed = self.began.elapsed().as_secs();
        let where_to = match self.until {
            Some(Until::Elapsed(time)) if time.as_secs() > 0 => {
                format!("{elapsed} of {} s", time.as_secs())
            }
            Some(Until::Done(target)) => {
                let (done, all) = target.progress(counts);
                format!("{:.0} %", 100.0 * ratio(float(done), float(all)))
            }
            Some(Until::Elapsed(_)) | None => format!("{elapsed} s"),
        };
        self.tell(&format!("{where_to}, {rates}"));
    }

    /// Tells a count of things done, if it is time to.
    pub(crate) fn count(&mut self, done: u64, all: Option<u64>, what: &str) {
        if self.quiet || self.told.elapsed() < self.every {
            return;
        }
        let of = all.map_or_else(String::new, |all| format!(" of {all}"));
        self.tell(&format!("{done}{of} {what}"));
    }

    /// Leaves the terminal's line empty for what comes next.
    pub(crate) fn end(&mut self) {
        if std::mem::take(&mut self.line_open) {
            let _nobody_left_to_tell = write!(std::io::stderr(), "\r\x1b[K");
        }
    }

    fn tell(&mut self, text: &str) {
        self.told = Instant::now();
        let label = &self.label;
        // Where nobody reads it, the run goes on all the same.
        let _ = if self.terminal {
            self.line_open = true;
            write!(std::io::stderr(), "\r{label}: {text}\x1b[K")
        } else {
            writeln!(std::io::stderr(), "{label}: {text}")
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_tells_the_rates_of_what_it_does() {
        let grown = Counts {
            published: 2000,
            delivered: 1000,
            ..Counts::default()
        };
        let shown = |confirmed| Shown {
            published: true,
            delivered: true,
            confirmed,
        };
        assert_eq!(
            shown(false).rates(grown, 1.0),
            "2.00 k/s published, 1.00 k/s delivered"
        );
        // A confirming phase without a confirm has something to tell.
        assert!(shown(true).rates(grown, 1.0).ends_with("0/s confirmed"));
    }
}
