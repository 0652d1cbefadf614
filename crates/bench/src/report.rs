//! Rows of figures, as a table for people and as JSON for programs.

mod json;

use crate::engine::Counts;
use crate::histogram::Histogram;
use crate::numbers::{float, ratio};
use crate::process::{Share, Usage};
pub(crate) use json::json;

/// The settings and the outcome of one stretch of a run.
#[derive(Debug, Default)]
pub(crate) struct Row {
    pub(crate) scenario: String,
    /// What was loaded with, for people.
    pub(crate) setup: String,
    pub(crate) seconds: f64,
    /// What was counted in `done`: messages, connections, queues …
    pub(crate) unit: &'static str,
    /// What rate and cost are given per.
    pub(crate) done: u64,
    pub(crate) counts: Counts,
    pub(crate) latency: Option<Latency>,
    pub(crate) broker: Option<Cost>,
    pub(crate) own: Option<Share>,
    /// Bytes of the bodies of what was done.
    pub(crate) body_bytes: Option<u64>,
    /// What never came, or was refused, of the whole run; `None` where nothing tells.
    pub(crate) lost: Option<u64>,
    /// What stays in the broker, so that its growth is given per one.
    pub(crate) staying: Option<u64>,
    pub(crate) folder: Option<Folder>,
    /// Bytes written to the disk of the data folder, by whomever.
    pub(crate) device_written: Option<u64>,
}

/// In nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Latency {
    pub(crate) p50: u64,
    pub(crate) p99: u64,
    pub(crate) p999: u64,
    pub(crate) max: u64,
}

impl Latency {
    pub(crate) fn of(histogram: &Histogram) -> Option<Self> {
        Some(Self {
            p50: histogram.quantile(500)?,
            p99: histogram.quantile(990)?,
            p999: histogram.quantile(999)?,
            max: histogram.max()?,
        })
    }
}

/// What the broker used in the measured time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    pub(crate) cpu_seconds: f64,
    pub(crate) resident_before: u64,
    pub(crate) resident_after: u64,
    /// The most since the broker began.
    pub(crate) resident_peak: Option<u64>,
    pub(crate) dirtied_bytes: Option<u64>,
    pub(crate) passed_bytes: Option<u64>,
}

impl Cost {
    pub(crate) fn between(before: &Usage, after: &Usage) -> Self {
        Self {
            cpu_seconds: after.cpu_seconds - before.cpu_seconds,
            resident_before: before.resident_bytes,
            resident_after: after.resident_bytes,
            resident_peak: after.resident_bytes_peak,
            dirtied_bytes: difference(after.dirtied_bytes, before.dirtied_bytes),
            passed_bytes: difference(after.passed_bytes, before.passed_bytes),
        }
    }

    /// Bytes; negative where the broker shrank.
    fn growth(&self) -> f64 {
        float(self.resident_after) - float(self.resident_before)
    }
}

fn difference(after: Option<u64>, before: Option<u64>) -> Option<u64> {
    Some(after?.saturating_sub(before?))
}

/// Sizes of the broker's data folder.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Folder {
    pub(crate) end_bytes: u64,
    pub(crate) peak_bytes: u64,
}

impl Row {
    fn per_second(&self) -> f64 {
        ratio(float(self.done), self.seconds)
    }

    fn per_done(&self, whole: f64) -> Option<f64> {
        (self.done > 0).then(|| whole / float(self.done))
    }

    fn cpu_per_million(&self) -> Option<f64> {
        self.per_done(self.broker?.cpu_seconds * 1e6)
    }

    fn written_per_done(&self) -> Option<f64> {
        self.per_done(float(self.device_written?))
    }

    fn written_per_body_byte(&self) -> Option<f64> {
        let bodies = self.body_bytes.filter(|bytes| *bytes > 0)?;
        Some(float(self.device_written?) / float(bodies))
    }

    fn growth_per_staying(&self) -> Option<f64> {
        let staying = self.staying.filter(|count| *count > 0)?;
        Some(self.broker?.growth() / float(staying))
    }

    fn own_micros_per_done(&self) -> Option<f64> {
        self.per_done(self.own?.cpu_seconds * 1e6)
    }

    fn void(&self) -> Option<&'static str> {
        self.own.and_then(Share::void)
    }

    fn cells(&self) -> [(&'static str, Option<String>); 22] {
        let mib = |bytes: f64| format!("{:.1}", bytes / 1_048_576.0);
        let micros = |nanos: u64| format!("{:.1}", float(nanos) / 1e3);
        let two = |value: f64| format!("{value:.2}");
        [
            ("scenario", Some(self.scenario.clone())),
            (
                "load",
                Some(self.setup.clone()).filter(|text| !text.is_empty()),
            ),
            (
                "done",
                Some(format!("{} {}", grouped(self.done), self.unit)),
            ),
            ("seconds", Some(format!("{:.2}", self.seconds))),
            ("/s", Some(grouped_rate(self.per_second()))),
            (
                "s/M",
                self.cpu_per_million().map(|value| format!("{value:.3}")),
            ),
            ("p50 µs", self.latency.map(|all| micros(all.p50))),
            ("p99 µs", self.latency.map(|all| micros(all.p99))),
            ("p99.9 µs", self.latency.map(|all| micros(all.p999))),
            ("max µs", self.latency.map(|all| micros(all.max))),
            (
                "RSS MiB",
                self.broker.map(|cost| mib(float(cost.resident_after))),
            ),
            ("grew MiB", self.broker.map(|cost| mib(cost.growth()))),
            (
                "KiB each",
                self.growth_per_staying().map(|bytes| two(bytes / 1024.0)),
            ),
            ("B/B", self.written_per_body_byte().map(two)),
            (
                "B each",
                self.written_per_done().map(|bytes| format!("{bytes:.0}")),
            ),
            (
                "folder MiB",
                self.folder.map(|folder| mib(float(folder.end_bytes))),
            ),
            (
                "peak MiB",
                self.folder.map(|folder| mib(float(folder.peak_bytes))),
            ),
            ("lost", self.lost.map(grouped)),
            (
                "own CPU %",
                self.own.map(|own| format!("{:.0}", own.cpu * 100.0)),
            ),
            ("own µs", self.own_micros_per_done().map(two)),
            (
                "no core %",
                self.own.map(|own| format!("{:.0}", own.waited * 100.0)),
            ),
            ("void", self.void().map(str::to_owned)),
        ]
    }
}

/// One line per row under one line of titles, columns aligned; a column nobody fills is left out.
/// Where that is wider than `columns`, the titles stand in a column and each row in one beside it.
pub(crate) fn table(rows: &[Row], columns: Option<usize>) -> String {
    let lines = filled(rows);
    let text = aligned(&lines, 2);
    let width = text.lines().map(|line| line.chars().count()).max();
    if columns.is_none_or(|columns| width.unwrap_or(0) <= columns) {
        return text;
    }
    let titles = lines.first().map_or(0, Vec::len);
    let turned: Vec<Vec<String>> = (0..titles)
        .map(|title| {
            lines
                .iter()
                .filter_map(|line| line.get(title).cloned())
                .collect()
        })
        .collect();
    aligned(&turned, usize::MAX)
}

/// How wide the terminal on standard output is, if there is one.
pub(crate) fn terminal_columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout()).ok()?;
    (size.ws_col > 0).then(|| usize::from(size.ws_col))
}

/// The titles of the columns that anybody fills, and the cells below them.
fn filled(rows: &[Row]) -> Vec<Vec<String>> {
    let mut lines: Vec<Vec<String>> = Vec::new();
    let all: Vec<_> = rows.iter().map(Row::cells).collect();
    let used = |column: usize| {
        all.iter()
            .any(|cells| cells.get(column).is_some_and(|(_, cell)| cell.is_some()))
    };
    let titles = all.first().into_iter().flatten().enumerate();
    lines.push(
        titles
            .filter(|(column, _)| used(*column))
            .map(|(_, (title, _))| (*title).to_owned())
            .collect(),
    );
    for cells in &all {
        let cells = cells.iter().enumerate();
        lines.push(
            cells
                .filter(|(column, _)| used(*column))
                .map(|(_, (_, cell))| cell.clone().unwrap_or_else(|| "-".to_owned()))
                .collect(),
        );
    }
    lines
}

/// The first columns, so many, start at one place; the others end at one.
fn aligned(lines: &[Vec<String>], left_aligned: usize) -> String {
    let mut widths = vec![0; lines.first().map_or(0, Vec::len)];
    for line in lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for line in lines {
        let padded: Vec<String> = line
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(column, (cell, &width))| {
                if column < left_aligned {
                    format!("{cell:<width$}")
                } else {
                    format!("{cell:>width$}")
                }
            })
            .collect();
        text.push_str(padded.join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// Digits in groups of three.
fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn grouped_rate(rate: f64) -> String {
    if rate < 100.0 {
        return format!("{rate:.1}");
    }
    let whole = format!("{rate:.0}");
    whole.parse().map_or(whole, grouped)
}

/// A rate in three digits: `950`, `1.20 k`, `34.5 k`, `1.20 M`.
pub(crate) fn human(rate: f64) -> String {
    let (value, unit) = if rate >= 1e6 {
        (rate / 1e6, " M")
    } else if rate >= 1e3 {
        (rate / 1e3, " k")
    } else {
        return format!("{rate:.0}");
    };
    let digits = if value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.digits$}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn row() -> Row {
        Row {
            scenario: "transient".to_owned(),
            setup: "100 B".to_owned(),
            seconds: 2.0,
            unit: "messages",
            done: 1_000_000,
            body_bytes: Some(100_000_000),
            staying: Some(1024),
            broker: Some(Cost {
                cpu_seconds: 0.5,
                resident_before: 1 << 20,
                resident_after: 3 << 20,
                resident_peak: None,
                dirtied_bytes: None,
                passed_bytes: None,
            }),
            device_written: Some(250_000_000),
            own: Some(Share {
                cpu_seconds: 1.9,
                cpu: 0.95,
                waited: 0.0,
            }),
            ..Row::default()
        }
    }

    #[test]
    fn rates_and_costs_are_per_one_done() {
        let row = row();
        assert_eq!(grouped_rate(row.per_second()), "500,000");
        assert_eq!(row.cpu_per_million(), Some(0.5));
        assert_eq!(row.written_per_body_byte(), Some(2.5));
        assert_eq!(row.written_per_done(), Some(250.0));
        assert_eq!(row.growth_per_staying(), Some(2048.0));
        assert_eq!(row.own_micros_per_done(), Some(1.9));
        let nothing = Row::default();
        assert_eq!(
            (nothing.per_second(), nothing.cpu_per_million()),
            (0.0, None)
        );
    }

    #[test]
    fn columns_line_up_and_empty_ones_are_left_out() {
        let rows = [
            row(),
            Row {
                scenario: "confirm-one".to_owned(),
                latency: None,
                ..row()
            },
        ];
        let text = table(&rows, None);
        for expected in [
            "1,000,000 messages",
            "500,000",
            "0.500",
            "2.50",
            "saturated",
        ] {
            assert!(text.contains(expected), "{expected} in {text}");
        }
        assert!(!text.contains("p50") && !text.contains("folder"));
        let lengths: Vec<usize> = text.lines().skip(1).map(str::len).collect();
        assert_eq!(lengths[0], lengths[1]);
        let at = |line: &str| line.find("100 B").unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(at(lines[1]), at(lines[2]));
        assert_eq!(table(&rows, Some(500)), text);
        let turned = table(&rows, Some(80));
        assert!(turned.lines().all(|line| line.chars().count() <= 80));
        let first = turned.lines().next().unwrap();
        let words: Vec<&str> = first.split_whitespace().collect();
        assert_eq!(words, ["scenario", "transient", "confirm-one"]);
    }

    #[test]
    fn numbers_are_short_enough_to_read() {
        for (rate, text) in [
            (950.4, "950"),
            (1200.0, "1.20 k"),
            (34_512.0, "34.5 k"),
            (1.2e6, "1.20 M"),
        ] {
            assert_eq!(human(rate), text);
        }
        assert_eq!(
            (grouped(0), grouped(999), grouped(1_000_000)),
            ("0".into(), "999".into(), "1,000,000".into())
        );
    }
}
