//! `menzil stats`: asks a running server over its socket.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::Value;

use crate::cli::StatsArguments;
use crate::{Failure, print};

pub(crate) fn run(arguments: &StatsArguments) -> Result<(), Failure> {
    let path = menzil_server::stats_socket(&arguments.data_dir);
    let answer = ask(&path).map_err(|error| {
        Failure::new(format!(
            "{}: {error}; is a server running on this data folder?",
            path.display()
        ))
    })?;
    if arguments.json {
        print(&answer);
        return Ok(());
    }
    let value: Value = serde_json::from_str(&answer)
        .map_err(|error| Failure::new(format!("the server's answer does not read: {error}")))?;
    let mut lines = Vec::new();
    flatten("", &value, &mut lines);
    print(&lines.concat());
    Ok(())
}

fn ask(path: &std::path::Path) -> std::io::Result<String> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(b"stats\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// One line per number: the path to it, a space, the number. Members of a list go by name.
fn flatten(path: &str, value: &Value, lines: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let dot = if path.is_empty() { "" } else { "." };
                flatten(&format!("{path}{dot}{key}"), value, lines);
            }
        }
        Value::Array(items) => {
            for item in items {
                let name = item.get("name").and_then(Value::as_str).unwrap_or_default();
                flatten(&format!("{path}[{name}]"), item, lines);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {
            lines.push(format!("{path} {value}\n"));
        }
        Value::String(text) => lines.push(format!("{path} {text}\n")),
    }
}

const PATIENCE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_go_by_name() {
        let value = serde_json::json!({"a": 1, "q": [{"name": "x y", "ready": 2}]});
        let mut lines = Vec::new();
        flatten("", &value, &mut lines);
        assert_eq!(lines.concat(), "a 1\nq[x y].name x y\nq[x y].ready 2\n");
    }
}
