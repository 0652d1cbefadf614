//! Rows as JSON.

use super::Row;
use crate::numbers::float;
use std::fmt::Write as _;

/// An array with an object per row; what was not measured is `null`.
pub(crate) fn json(rows: &[Row]) -> String {
    let objects: Vec<String> = rows.iter().map(object).collect();
    format!("[{}]\n", objects.join(",\n "))
}

fn object(row: &Row) -> String {
    let mut fields = Fields(String::from("{"));
    fields.text("scenario", Some(&row.scenario));
    fields.text("load", Some(&row.setup));
    fields.text("unit", Some(row.unit));
    fields.integer("done", Some(row.done));
    fields.decimal("seconds", Some(row.seconds));
    fields.decimal("per_second", Some(row.per_second()));
    fields.integer("published", Some(row.counts.published));
    fields.integer("delivered", Some(row.counts.delivered));
    fields.integer("confirmed", Some(row.counts.confirmed));
    fields.integer("nacked", Some(row.counts.nacked));
    fields.integer("lost", row.lost);
    fields.decimal("broker_cpu_seconds_per_million", row.cpu_per_million());
    fields.integer(
        "broker_resident_bytes_before",
        row.broker.map(|cost| cost.resident_before),
    );
    fields.integer(
        "broker_resident_bytes",
        row.broker.map(|cost| cost.resident_after),
    );
    fields.integer(
        "broker_resident_bytes_peak",
        row.broker.and_then(|cost| cost.resident_peak),
    );
    fields.decimal("broker_growth_bytes_per_each", row.growth_per_staying());
    fields.integer(
        "broker_dirtied_bytes",
        row.broker.and_then(|cost| cost.dirtied_bytes),
    );
    fields.integer(
        "broker_passed_bytes",
        row.broker.and_then(|cost| cost.passed_bytes),
    );
    fields.integer("disk_written_bytes", row.device_written);
    fields.decimal(
        "disk_written_bytes_per_published_byte",
        row.written_per_body_byte(),
    );
    fields.integer("folder_bytes", row.folder.map(|folder| folder.end_bytes));
    fields.integer(
        "folder_bytes_peak",
        row.folder.map(|folder| folder.peak_bytes),
    );
    fields.integer("latency_p50_ns", row.latency.map(|all| all.p50));
    fields.integer("latency_p99_ns", row.latency.map(|all| all.p99));
    fields.integer("latency_p999_ns", row.latency.map(|all| all.p999));
    fields.integer("latency_max_ns", row.latency.map(|all| all.max));
    fields.decimal("own_cpu_share", row.own.map(|own| own.cpu));
    fields.decimal("own_cpu_micros_per_each", row.own_micros_per_done());
    fields.decimal("own_waited_share", row.own.map(|own| own.waited));
    fields.text("void", row.void());
    fields.0.push('}');
    fields.0
}

/// An object under construction.
struct Fields(String);

impl Fields {
    fn value(&mut self, name: &str, value: Option<&str>) {
        let comma = if self.0.len() > 1 { "," } else { "" };
        let value = value.unwrap_or("null");
        let _infallible = write!(self.0, "{comma}\"{name}\":{value}");
    }

    /// Every text written here is of our own, without quotes or control characters, but for the
    /// queue type, of which such are left out.
    fn text(&mut self, name: &str, value: Option<&str>) {
        let quoted = value.map(|text| {
            let plain: String = text
                .chars()
                .filter(|c| !c.is_control() && !matches!(c, '"' | '\\'))
                .collect();
            format!("\"{plain}\"")
        });
        self.value(name, quoted.as_deref());
    }

    fn integer(&mut self, name: &str, value: Option<u64>) {
        self.value(name, value.map(|number| number.to_string()).as_deref());
    }

    fn decimal(&mut self, name: &str, value: Option<f64>) {
        let text = value.filter(|number| number.is_finite()).map(|number| {
            // Whole numbers of any size stay exact.
            if number.abs() < float(1 << 40) {
                format!("{number:.6}")
            } else {
                format!("{number:.0}")
            }
        });
        self.value(name, text.as_deref());
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::row;
    use super::*;

    #[test]
    fn what_was_not_measured_is_null() {
        let text = json(&[row(), Row::default()]);
        assert!(text.contains("\"broker_cpu_seconds_per_million\":0.500000"));
        assert!(text.contains("\"broker_cpu_seconds_per_million\":null"));
        assert!(text.contains("\"folder_bytes\":null"));
        assert!(text.contains("\"void\":\"saturated\"}"));
        assert!(text.contains("\"void\":null}]"));
    }

    #[test]
    fn texts_cannot_break_out() {
        let text = json(&[Row {
            setup: "a\"b\\c\nd".to_owned(),
            ..Row::default()
        }]);
        assert!(text.contains("\"load\":\"abcd\""));
    }
}
