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
        let titles = ["id", "due", "in", "bytes", "exchange", "routing key"];
        let mut rows = vec![titles.map(str::to_owned).to_vec()];
        rows.extend(delays.iter().map(|one| row(one).to_vec()));
        text = aligned(&rows, &[4, 5]);
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

fn row(one: &Value) -> [String; 6] {
    let text = |name| {
        let text = one.get(name).and_then(Value::as_str);
        text.unwrap_or("-").to_owned()
    };
    [
        text("id"),
        text("due_at"),
        if one.get("refused").and_then(Value::as_bool) == Some(true) {
            "refused".to_owned()
        } else {
            duration(number(one, "due_in_ms"))
        },
        number(one, "body_bytes").to_string(),
        text("exchange"),
        text("routing_key"),
    ]
}

/// The two largest units.
fn duration(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    if days > 0 {
        format!("{days} d {hours} h")
    } else if hours > 0 {
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
    fn a_duration_says_its_two_largest_units() {
        for (milliseconds, text) in [
            (0, "0.000 s"),
            (59_999, "59.999 s"),
            (60_000, "1 min 0 s"),
            (3_600_000, "1 h 0 min"),
            (90_061_000, "1 d 1 h"),
            (4_294_967_295, "49 d 17 h"),
        ] {
            assert_eq!(duration(milliseconds), text);
        }
    }
}
