//! Rows of figures, as a table for people and as JSON for programs.

use crate::engine::Counts;
use crate::histogram::Histogram;
use crate::numbers::{float, ratio};
use crate::process::{Share, Usage};
use std::fmt::Write as _;

/// The settings and the outcome of one phase of a scenario.
#[derive(Debug, Default)]
pub(crate) struct Row {
    pub(crate) scenario: String,
    pub(crate) body_bytes: u64,
    pub(crate) publishers: u64,
    pub(crate) consumers: u64,
    pub(crate) queues: u64,
    pub(crate) window: Option<u64>,
    pub(crate) prefetch: Option<u64>,
    pub(crate) rate: Option<u64>,
    pub(crate) seconds: f64,
    pub(crate) counts: Counts,
    /// The messages that rate and cost are given per.
    pub(crate) messages: u64,
    pub(crate) latency: Option<Latency>,
    pub(crate) broker: Option<Cost>,
    pub(crate) own: Option<Share>,
}

/// In nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Latency {
    pub(crate) p50: u64,
    pub(crate) p99: u64,
    pub(crate) max: u64,
}

impl Latency {
    pub(crate) fn of(histogram: &Histogram) -> Option<Self> {
        Some(Self {
            p50: histogram.quantile(500)?,
            p99: histogram.quantile(990)?,
            max: histogram.max()?,
        })
    }
}

/// What the broker used in the measured time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    pub(crate) cpu_seconds: f64,
    pub(crate) resident_bytes: u64,
    pub(crate) written_bytes: Option<u64>,
}

impl Cost {
    pub(crate) fn between(before: &Usage, after: &Usage) -> Self {
        Self {
            cpu_seconds: after.cpu_seconds - before.cpu_seconds,
            resident_bytes: after.resident_bytes,
            written_bytes: after
                .written_bytes
                .zip(before.written_bytes)
                .map(|(after, before)| after.saturating_sub(before)),
        }
    }
}

impl Row {
    fn per_second(&self) -> f64 {
        ratio(float(self.messages), self.seconds)
    }

    fn cpu_per_million(&self) -> Option<f64> {
        let cost = self.broker.filter(|_| self.messages > 0)?;
        Some(cost.cpu_seconds * 1e6 / float(self.messages))
    }

    fn written_per_message(&self) -> Option<f64> {
        let cost = self.broker.filter(|_| self.messages > 0)?;
        Some(float(cost.written_bytes?) / float(self.messages))
    }

    fn void(&self) -> Option<&'static str> {
        self.own.and_then(Share::void)
    }
}

/// One line per row under one line of titles, columns aligned.
pub(crate) fn table(rows: &[Row]) -> String {
    let titles = [
        "scenario",
        "size",
        "pub+con",
        "queues",
        "window",
        "prefetch",
        "messages",
        "msg/s",
        "s/M",
        "p50 µs",
        "p99 µs",
        "max µs",
        "RSS MiB",
        "written B/msg",
        "own CPU %",
        "no core %",
        "void",
    ];
    let mut lines = vec![titles.map(str::to_owned).to_vec()];
    lines.extend(rows.iter().map(cells));
    let mut widths = vec![0; titles.len()];
    for line in &lines {
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
                if column == 0 {
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

fn cells(row: &Row) -> Vec<String> {
    let or_dash = |cell: Option<String>| cell.unwrap_or_else(|| "-".to_owned());
    let optional = |value: Option<u64>| or_dash(value.map(|value| value.to_string()));
    let decimal = |value: Option<f64>| or_dash(value.map(|value| format!("{value:.3}")));
    let micros = |pick: fn(&Latency) -> u64| {
        or_dash(
            row.latency
                .as_ref()
                .map(|all| format!("{:.1}", float(pick(all)) / 1e3)),
        )
    };
    let percent = |pick: fn(&Share) -> f64| {
        or_dash(
            row.own
                .as_ref()
                .map(|own| format!("{:.0}", pick(own) * 100.0)),
        )
    };
    let resident = row
        .broker
        .map(|cost| float(cost.resident_bytes) / 1_048_576.0);
    vec![
        row.scenario.clone(),
        row.body_bytes.to_string(),
        format!("{}+{}", row.publishers, row.consumers),
        row.queues.to_string(),
        optional(row.window),
        optional(row.prefetch),
        row.messages.to_string(),
        format!("{:.0}", row.per_second()),
        decimal(row.cpu_per_million()),
        micros(|all| all.p50),
        micros(|all| all.p99),
        micros(|all| all.max),
        or_dash(resident.map(|value| format!("{value:.1}"))),
        or_dash(row.written_per_message().map(|value| format!("{value:.0}"))),
        percent(|own| own.cpu),
        percent(|own| own.waited),
        row.void().unwrap_or("").to_owned(),
    ]
}

/// An array with an object per row; what was not measured is `null`.
pub(crate) fn json(rows: &[Row]) -> String {
    let objects: Vec<String> = rows.iter().map(object).collect();
    format!("[{}]\n", objects.join(",\n "))
}

fn object(row: &Row) -> String {
    let mut fields = Fields(String::from("{"));
    fields.text("scenario", Some(&row.scenario));
    fields.integer("body_bytes", Some(row.body_bytes));
    fields.integer("publishers", Some(row.publishers));
    fields.integer("consumers", Some(row.consumers));
    fields.integer("queues", Some(row.queues));
    fields.integer("window", row.window);
    fields.integer("prefetch", row.prefetch);
    fields.integer("rate", row.rate);
    fields.decimal("seconds", Some(row.seconds));
    fields.integer("published", Some(row.counts.published));
    fields.integer("delivered", Some(row.counts.delivered));
    fields.integer("confirmed", Some(row.counts.confirmed));
    fields.integer("nacked", Some(row.counts.nacked));
    fields.integer("messages", Some(row.messages));
    fields.decimal("messages_per_second", Some(row.per_second()));
    fields.decimal("broker_cpu_seconds_per_million", row.cpu_per_million());
    fields.integer(
        "broker_resident_bytes",
        row.broker.map(|cost| cost.resident_bytes),
    );
    fields.decimal(
        "broker_written_bytes_per_message",
        row.written_per_message(),
    );
    fields.integer("latency_p50_ns", row.latency.map(|all| all.p50));
    fields.integer("latency_p99_ns", row.latency.map(|all| all.p99));
    fields.integer("latency_max_ns", row.latency.map(|all| all.max));
    fields.decimal("own_cpu_share", row.own.map(|own| own.cpu));
    fields.decimal("own_waited_share", row.own.map(|own| own.waited));
    fields.text("void", row.void());
    fields.0.push('}');
    fields.0
}

/// An object under construction. Every text written here is plain ASCII of our own.
struct Fields(String);

impl Fields {
    fn value(&mut self, name: &str, value: Option<&str>) {
        let comma = if self.0.len() > 1 { "," } else { "" };
        let value = value.unwrap_or("null");
        let _infallible = write!(self.0, "{comma}\"{name}\":{value}");
    }

    fn text(&mut self, name: &str, value: Option<&str>) {
        self.value(name, value.map(|text| format!("\"{text}\"")).as_deref());
    }

    fn integer(&mut self, name: &str, value: Option<u64>) {
        self.value(name, value.map(|number| number.to_string()).as_deref());
    }

    fn decimal(&mut self, name: &str, value: Option<f64>) {
        let text = value
            .filter(|number| number.is_finite())
            .map(|number| format!("{number:.6}"));
        self.value(name, text.as_deref());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Row {
        Row {
            scenario: "transient".to_owned(),
            seconds: 2.0,
            messages: 1_000_000,
            broker: Some(Cost {
                cpu_seconds: 0.5,
                resident_bytes: 1 << 20,
                written_bytes: None,
            }),
            own: Some(Share {
                cpu: 0.95,
                waited: 0.0,
            }),
            ..Row::default()
        }
    }

    #[test]
    fn rates_and_costs_are_per_message_and_void_rows_say_so() {
        let text = table(&[row()]);
        for expected in ["500000", "0.500", "1.0", "generator saturated"] {
            assert!(text.contains(expected), "{expected} in {text}");
        }
        let text = json(&[row(), Row::default()]);
        assert!(text.contains("\"broker_cpu_seconds_per_million\":0.500000"));
        assert!(text.contains("\"broker_written_bytes_per_message\":null"));
        assert!(text.contains("\"void\":\"generator saturated\"}"));
        assert!(text.contains("\"void\":null}]"));
    }

    #[test]
    fn columns_line_up() {
        let text = table(&[
            row(),
            Row {
                scenario: "confirm-one".to_owned(),
                ..row()
            },
        ]);
        let ends: Vec<usize> = text
            .lines()
            .map(|line| line.find("transient").unwrap_or(0))
            .collect();
        assert_eq!(ends, [0, 0, 0]);
        let lengths: Vec<usize> = text.lines().skip(1).map(str::len).collect();
        assert_eq!(lengths[0], lengths[1]);
    }
}
