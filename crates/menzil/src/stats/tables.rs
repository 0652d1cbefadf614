//! A server's answer as text for people: a section each for the node, the journal and every
//! virtual host, and a table of its queues.
//!
//! On a terminal nothing is wider than it; elsewhere each queue has one line, as long as it is.
//! Programs take `--json`. A number that this version does not know yet is shown all the same,
//! behind those it knows.

use std::fmt::Write as _;

use menzil_model::Escaped;
use serde_json::{Map, Value};

type Fields = Map<String, Value>;

/// The whole answer; the lines of its tables have so many columns at most.
pub(crate) fn tables(answer: &Value, width: usize) -> String {
    let none = Fields::new();
    let all = answer.as_object().unwrap_or(&none);
    let mut text = heading(all);
    for section in ["connections", "journal"] {
        if let Some(fields) = all.get(section).and_then(Value::as_object) {
            let _ = writeln!(text, "\n{section}");
            text.push_str(&pairs(fields, JOURNAL));
        }
    }
    let hosts = all.get("virtual_hosts").and_then(Value::as_array);
    let mut hosts: Vec<&Fields> = hosts
        .into_iter()
        .flatten()
        .filter_map(Value::as_object)
        .collect();
    hosts.sort_by_key(|host| host.get("name").map(cell));
    for host in hosts {
        text.push_str(&virtual_host(host, width));
    }
    text
}

fn heading(all: &Fields) -> String {
    let version = all.get("version").and_then(Value::as_str).unwrap_or("?");
    let uptime = all.get("uptime_ms").and_then(Value::as_u64).unwrap_or(0) / 1000;
    let (hours, minutes, seconds) = (uptime / 3600, uptime / 60 % 60, uptime % 60);
    let is = |field| all.get(field).and_then(Value::as_bool) == Some(true);
    let disk = if is("disk_full") {
        "the disk is FULL: publishers wait"
    } else if is("disk_stalled") {
        "the disk STALLS: publishers wait"
    } else {
        "the disk has room"
    };
    format!("Menzil {version}, up {hours} h {minutes} min {seconds} s, {disk}\n")
}

fn virtual_host(host: &Fields, width: usize) -> String {
    let name = host.get("name").map(cell).unwrap_or_default();
    let mut text = format!("\nvirtual host {}\n", shown(&name));
    text.push_str(&pairs(host, OBJECTS));
    if let Some(counters) = host.get("counters").and_then(Value::as_object) {
        text.push_str(&pairs(counters, COUNTERS));
    }
    let queues: Vec<&Fields> = host
        .get("queues")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_object)
        .collect();
    if !queues.is_empty() {
        text.push_str(&queue_table(&queues, width));
    }
    text
}

/// One queue alone: every number of it.
pub(crate) fn queue(answer: &Value, vhost: &str) -> String {
    let none = Fields::new();
    let fields = answer.as_object().unwrap_or(&none);
    let name = fields.get("name").map(cell).unwrap_or_default();
    let (name, vhost) = (shown(&name), shown(vhost));
    let numbers = pairs(fields, QUEUE);
    format!("queue '{name}' in virtual host '{vhost}'\n{numbers}")
}

/// `name number` after each other, as many on a line as fit.
fn pairs(fields: &Fields, order: &[&str]) -> String {
    let mut lines = Vec::new();
    let mut line = String::new();
    for key in ordered(fields, order) {
        let Some(value) = fields.get(key).filter(|value| !is_nested(value)) else {
            continue;
        };
        if key == "name" {
            continue;
        }
        let pair = format!("{key} {}", cell(value));
        if !line.is_empty() && line.len() + pair.len() + 3 > WIDTH {
            lines.push(std::mem::take(&mut line));
        }
        line.push_str(if line.is_empty() { "  " } else { "   " });
        line.push_str(&pair);
    }
    lines.push(line);
    lines.join("\n") + "\n"
}

/// The keys that are there: the known ones in their order, then the others.
fn ordered<'a>(fields: &'a Fields, order: &[&'a str]) -> Vec<&'a str> {
    let known = order
        .iter()
        .copied()
        .filter(|key| fields.contains_key(*key));
    let others = fields.keys().map(String::as_str);
    known
        .chain(others.filter(|key| !order.contains(key)))
        .collect()
}

/// A line for each queue. A column of what rarely happens is there once it did. Where lines end
/// somewhere, a long name has one of its own, before that of its numbers.
fn queue_table(queues: &[&Fields], width: usize) -> String {
    let Some(first) = queues.first() else {
        return String::new();
    };
    let happened = |key: &&str| {
        let is_zero = |queue: &&Fields| queue.get(*key).and_then(Value::as_u64) == Some(0);
        !RARE.contains(key) || !queues.iter().all(is_zero)
    };
    let keys: Vec<&str> = ordered(first, QUEUE).into_iter().filter(happened).collect();
    let title = |key: &str| if key == "name" { "queue" } else { key }.to_owned();
    let column = |key: &str| {
        let cells = queues.iter().map(|queue| queue.get(key));
        let cells = cells.map(|value| value.map(cell).unwrap_or_default());
        std::iter::once(title(key)).chain(cells).collect()
    };
    let mut columns: Vec<Vec<String>> = keys.iter().map(|key| column(key)).collect();
    if columns.is_empty() {
        return String::new();
    }
    let all_names = columns.remove(0);
    let is_long = |name: &String| width < usize::MAX && shown(name).chars().count() > NAME_MAX;
    let names: Vec<String> = all_names
        .iter()
        .map(|name| if is_long(name) { "" } else { name }.to_owned())
        .collect();
    let blocks = blocks(&names, columns, width);
    let tables = blocks.iter().map(|block| {
        let rows = 0..names.len();
        let row = |at| {
            block
                .iter()
                .filter_map(|column| column.get(at).cloned())
                .collect()
        };
        let table = aligned(&rows.map(row).collect::<Vec<_>>(), &[0]);
        let lines = all_names.iter().zip(table.lines());
        lines.fold(String::new(), |mut text, (name, line)| {
            if is_long(name) {
                let _ = writeln!(text, "  {}", shown(name));
            }
            let _ = writeln!(text, "{line}");
            text
        })
    });
    tables.collect::<Vec<_>>().join("\n")
}

/// The columns in as many blocks as it takes for each to fit, the names in front of each.
fn blocks(names: &[String], columns: Vec<Vec<String>>, width: usize) -> Vec<Vec<Vec<String>>> {
    let wide = |column: &[String]| {
        let cells = column.iter().map(|cell| shown(cell).chars().count());
        cells.max().unwrap_or(0) + 2
    };
    let mut blocks: Vec<Vec<Vec<String>>> = Vec::new();
    let mut used = 0;
    for column in columns {
        let wanted = wide(&column);
        match blocks.last_mut() {
            Some(block) if used + wanted <= width => block.push(column),
            Some(_) | None => {
                used = wide(names);
                blocks.push(vec![names.to_vec(), column]);
            }
        }
        used += wanted;
    }
    if blocks.is_empty() {
        blocks.push(vec![names.to_vec()]);
    }
    blocks
}

/// These columns to the left, the others to the right.
pub(crate) fn aligned(rows: &[Vec<String>], left: &[usize]) -> String {
    let escaped = |row: &Vec<String>| row.iter().map(|cell| shown(cell)).collect();
    let rows: Vec<Vec<String>> = rows.iter().map(escaped).collect();
    let mut widths: Vec<usize> = Vec::new();
    for row in &rows {
        widths.resize(widths.len().max(row.len()), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let line = |row: &Vec<String>| {
        let mut text = String::new();
        for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
            let _ = if left.contains(&column) {
                write!(text, "  {cell:<width$}")
            } else {
                write!(text, "  {cell:>width$}")
            };
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
        text
    };
    rows.iter().map(line).collect()
}

/// Clients chose it, and a terminal would obey its control characters; without any it is shown as
/// it is.
pub(crate) fn shown(text: &str) -> String {
    if text.contains(char::is_control) {
        return Escaped(text.as_bytes()).to_string();
    }
    text.to_owned()
}

fn cell(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

fn is_nested(value: &Value) -> bool {
    value.is_array() || value.is_object()
}

/// Of a terminal, whatever it has.
pub(crate) const WIDTH: usize = 80;
/// A queue's name that is longer has a line of its own.
const NAME_MAX: usize = 28;
const JOURNAL: &[&str] = &[
    "open",
    "accepted",
    "refused",
    "amqp",
    "mqtt",
    "mqtt_ws",
    "syncs",
    "batches",
    "records",
    "bytes",
    "pending_bytes",
];
const OBJECTS: &[&str] = &[
    "messages",
    "delayed",
    "retained",
    "queues_count",
    "exchanges",
    "bindings",
    "sessions",
    "sessions_connected",
    "session_messages",
    "subscriptions",
    "retained_topics",
    "connections",
    "channels",
    "consumers",
];
const COUNTERS: &[&str] = &[
    "published",
    "routed",
    "confirmed",
    "nacked",
    "refused",
    "unroutable_dropped",
    "unroutable_returned",
    "delivered",
    "redelivered",
    "acknowledged",
    "rejected",
    "requeued",
];
const QUEUE: &[&str] = &[
    "name",
    "durable",
    "ready",
    "unsettled",
    "delayed",
    "dying",
    "consumers",
    "ready_bytes",
    "entered",
    "delivered",
    "acknowledged",
    "rejected",
    "requeued",
];
const RARE: &[&str] = &[
    "delayed",
    "dying",
    "rejected",
    "requeued",
    "expired",
    "overflowed",
    "purged",
    "damaged",
    "refused",
    "deduplicated",
];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_virtual_host_has_its_numbers_and_a_line_for_each_queue() {
        let queue = |name, ready, expired| {
            json!({
                "name": name, "durable": true, "ready": ready, "consumers": 0,
                "expired": expired, "purged": 0, "novel": 9, "delayed": 0, "dying": 0,
            })
        };
        let text = tables(
            &json!({
                "version": "1.2", "uptime_ms": 3_723_000, "disk_full": false,
                "connections": {"refused": 0, "accepted": 7, "open": 2},
                "virtual_hosts": [{
                    "name": "/", "messages": 12, "committed": 40,
                    "counters": {"delivered": 3, "published": 5},
                    "queues": [queue("a b", 2, 0), queue("orders", 10, 1)],
                }],
            }),
            WIDTH,
        );
        assert_eq!(
            text,
            "Menzil 1.2, up 1 h 2 min 3 s, the disk has room\n\
             \n\
             connections\n  open 2   accepted 7   refused 0\n\
             \n\
             virtual host /\n  messages 12   committed 40\n  published 5   delivered 3\n  \
             queue   durable  ready  consumers  expired  novel\n  \
             a b         yes      2          0        0      9\n  \
             orders      yes     10          0        1      9\n"
        );
    }

    #[test]
    fn a_table_too_wide_goes_on_below_with_the_names_again() {
        let queue = |name: &str| {
            let numbers = QUEUE
                .iter()
                .skip(1)
                .map(|key| ((*key).to_owned(), json!(1_234_567_890)));
            let mut fields: Fields = numbers.collect();
            fields.insert("name".to_owned(), json!(name));
            fields
        };
        let (one, other) = (queue("orders"), queue("orders.in.the.north.west"));
        let text = queue_table(&[&one, &other], WIDTH);
        assert!(
            text.lines().all(|line| line.chars().count() <= WIDTH),
            "{text}"
        );
        assert!(text.matches("\n  queue ").count() >= 1, "{text}");
        assert_eq!(
            text.matches("  orders.in.the.north.west  ").count(),
            text.matches("queue ").count()
        );
        for key in QUEUE.iter().skip(1) {
            assert!(text.contains(key), "{key}: {text}");
        }
        // Where no line ends, each queue has one.
        let text = queue_table(&[&one, &other], usize::MAX);
        assert_eq!(text.lines().count(), 3);
    }

    #[test]
    fn a_long_name_has_a_line_of_its_own_and_breaks_nobody_elses() {
        let queue = |name: &str| {
            let fields = json!({"name": name, "ready": 5, "consumers": 1, "acknowledged": 7});
            fields.as_object().cloned().unwrap()
        };
        let long = "w".repeat(100);
        let (one, other) = (queue("orders"), queue(&long));
        assert_eq!(
            queue_table(&[&one, &other], WIDTH),
            format!(
                "  queue   ready  consumers  acknowledged\n  \
                 orders      5          1             7\n  \
                 {long}\n              5          1             7\n"
            )
        );
        let wide = queue_table(&[&one, &other], usize::MAX);
        assert_eq!(wide.lines().count(), 3);
        assert!(wide.contains(&format!("  {long}      5  ")), "{wide}");
    }

    #[test]
    fn long_lines_are_broken_between_pairs() {
        let fields: Fields = (0..30)
            .map(|number| (format!("counter_{number}"), json!(number)))
            .collect();
        let text = pairs(&fields, &[]);
        assert!(text.lines().count() > 3);
        assert!(text.lines().all(|line| line.len() <= WIDTH), "{text}");
        assert_eq!(text.matches("counter_").count(), 30);
    }
}
