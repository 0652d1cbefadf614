//! What happened, as one number: two runs of one seed must end with the same. The last lines
//! are kept for whoever has to understand a failure.

use std::collections::VecDeque;
use std::fmt::{self, Write};

/// See the module.
#[derive(Debug)]
pub(crate) struct Trace {
    hash: u64,
    lines: VecDeque<String>,
    line: String,
    lines_max: usize,
}

impl Trace {
    pub(crate) fn new(lines_max: usize) -> Self {
        Self {
            hash: 0xcbf2_9ce4_8422_2325,
            lines: VecDeque::new(),
            line: String::new(),
            lines_max,
        }
    }

    /// Notes something that happened.
    pub(crate) fn note(&mut self, what: fmt::Arguments<'_>) {
        self.line.clear();
        // Writing to a string does not fail.
        let _ = self.line.write_fmt(what);
        for byte in self.line.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if self.lines_max == 0 {
            return;
        }
        if self.lines.len() == self.lines_max {
            self.lines.pop_front();
        }
        self.lines.push_back(self.line.clone());
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    /// The last lines, oldest first.
    pub(crate) fn tail(&self) -> String {
        self.lines.iter().fold(String::new(), |mut all, line| {
            all.push_str(line);
            all.push('\n');
            all
        })
    }
}
