//! `menzil delays`: messages that wait in the exchanges of a running server.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::cli::DelaysCommand;
use crate::control::{asked, print_each};
use crate::stats::tables::aligned;
use crate::{Failure, print};

pub(crate) fn run(command: &DelaysCommand) -> Result<(), Failure> {
    match command {
        DelaysCommand::List {
            exchange,
            limit,
            after,
            json,
            which,
        } => {
            let content = json!({
                "vhost": which.vhost,
                "exchange": exchange,
                "limit": limit,
                "after": after,
            });
            let answer = asked(&which.data_dir, "delays", content.to_string().as_bytes())?;
            if *json {
                print_each(answer.get("delays"));
            } else {
                print(&table(&answer));
            }
            Ok(())
        }
        DelaysCommand::Cancel {
            exchange,
            ids,
            which,
        } => {
            let content = json!({"vhost": which.vhost, "exchange": exchange, "ids": ids});
            let content = content.to_string();
            let answer = asked(&which.data_dir, "cancel-delays", content.as_bytes())?;
            let cancelled = list(&answer, "cancelled").len();
            print(&format!("{cancelled} cancelled\n"));
            let absent = list(&answer, "absent").iter().filter_map(Value::as_str);
            let absent: Vec<&str> = absent.collect();
            if absent.is_empty() {
                return Ok(());
            }
            Err(Failure::new(format!(
                "nothing of that number waits in exchange {exchange:?}: {}",
                absent.join(", ")
            )))
        }
    }
}

fn list<'a>(answer: &'a Value, name: &str) -> &'a [Value] {
    let list = answer.get(name).and_then(Value::as_array);
    list.map_or(&[], Vec::as_slice)
}

fn number(of: &Value, name: &str) -> u64 {
    of.get(name).and_then(Value::as_u64).unwrap_or_default()
}

fn table(answer: &Value) -> String {
    let delays = list(answer, "delays");
    let mut text = String::new();
    if !delays.is_empty() {
        let titles = ["id", "due (UTC)", "bytes", "exchange", "routing key"];
        let mut rows = vec![titles.map(str::to_owned).to_vec()];
        rows.extend(delays.iter().map(|one| row(one).to_vec()));
        text = aligned(&rows, &[3, 4]);
    }
    let (waiting, bytes) = (number(answer, "waiting"), number(answer, "waiting_bytes"));
    let _ = write!(
        text,
        "{} of {waiting} that wait; {bytes} bytes in all",
        delays.len()
    );
    match number(answer, "refused") {
        0 => text.push('\n'),
        refused => {
            let _ = writeln!(text, "; {refused} are due, and a queue refused them");
        }
    }
    if let Some(id) = answer.get("next").and_then(Value::as_str) {
        let _ = writeln!(text, "for more: --after {id}");
    }
    text
}

fn row(one: &Value) -> [String; 5] {
    let text = |name| {
        let text = one.get(name).and_then(Value::as_str);
        text.unwrap_or("-").to_owned()
    };
    [
        text("id"),
        if one.get("refused").and_then(Value::as_bool) == Some(true) {
            "refused".to_owned()
        } else {
            due(number(one, "due_in_ms"), &text("due_at"))
        },
        number(one, "body_bytes").to_string(),
        text("exchange"),
        text("routing_key"),
    ]
}

/// In how long, or when (UTC) if it is a day or more.
fn due(milliseconds: u64, at: &str) -> String {
    match at.get(.."2026-11-30T16:10".len()) {
        Some(at) if milliseconds >= DAY => at.replace('T', " "),
        _ => format!("in {}", duration(milliseconds)),
    }
}

const DAY: u64 = 86_400_000;

/// The two largest units of less than a day.
fn duration(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    if hours > 0 {
        format!("{hours} h {minutes} min")
    } else if minutes > 0 {
        format!("{minutes} min {} s", seconds % 60)
    } else {
        format!("{}.{:03} s", seconds, milliseconds % 1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_soon_says_in_how_long_and_the_rest_when() {
        for (milliseconds, text) in [
            (0, "in 0.000 s"),
            (59_999, "in 59.999 s"),
            (60_000, "in 1 min 0 s"),
            (3_600_000, "in 1 h 0 min"),
            (86_399_999, "in 23 h 59 min"),
            (86_400_000, "2026-12-31 15:25"),
            (4_294_967_295, "2026-12-31 15:25"),
        ] {
            assert_eq!(due(milliseconds, "2026-12-31T15:25:27.744Z"), text);
        }
        assert_eq!(due(86_400_000, "-"), "in 24 h 0 min");
    }

    #[test]
    fn a_key_of_twenty_letters_fits_into_a_terminal() {
        let one = json!({
            "id": u64::MAX.to_string(), "due_at": "2026-12-31T15:25:27.744Z",
            "due_in_ms": 86_400_000_u64, "body_bytes": 12_345, "exchange": "exchange",
            "routing_key": "order.created.eu.mail",
        });
        let table = table(&json!({"delays": [one], "waiting": 1, "waiting_bytes": 12_345}));
        assert_eq!(
            table,
            "                    id         due (UTC)  bytes  exchange  routing key\n  \
             18446744073709551615  2026-12-31 15:25  12345  exchange  order.created.eu.mail\n\
             1 of 1 that wait; 12345 bytes in all\n"
        );
        assert!(table.lines().all(|line| line.len() <= 80), "{table}");
    }
}
