//! Questions to a running server over the socket in its data folder, and `menzil policy` and
//! `menzil definitions`, which ask.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::cli::{DefinitionsCommand, PolicyCommand};
use crate::stats::tables::shown;
use crate::{Failure, effective, policies, print};

pub(crate) fn policy(command: &PolicyCommand) -> Result<(), Failure> {
    match command {
        PolicyCommand::Set {
            name,
            pattern,
            definition,
            priority,
            apply_to,
            operator,
            which,
        } => {
            let definition: Value = serde_json::from_str(definition).map_err(|error| {
                Failure::usage(format!("the definition is no JSON object: {error}"))
            })?;
            let content = json!({
                "vhost": which.vhost,
                "name": name,
                "pattern": pattern,
                "definition": definition,
                "priority": priority,
                "apply-to": apply_to,
                "operator": operator,
            });
            let content = content.to_string();
            let answer = asked(&which.data_dir, "set-policy", content.as_bytes())?;
            print(&policies::line(answer.get("set").unwrap_or(&Value::Null)));
            Ok(())
        }
        PolicyCommand::Clear {
            name,
            operator,
            which,
        } => {
            let content = json!({"vhost": which.vhost, "name": name, "operator": operator});
            let content = content.to_string();
            asked(&which.data_dir, "clear-policy", content.as_bytes())?;
            let (kind, vhost) = (policies::kind(*operator), &which.vhost);
            let (name, vhost) = (shown(name), shown(vhost));
            print(&format!(
                "{kind} '{name}' cleared in virtual host '{vhost}'\n"
            ));
            Ok(())
        }
        PolicyCommand::List { json, data_dir } => {
            let answer = asked(data_dir, "policies", b"")?;
            let policies = answer.get("policies");
            if *json {
                print_each(policies);
            } else {
                print(&policies::table(policies.and_then(Value::as_array)));
            }
            Ok(())
        }
        PolicyCommand::Effective {
            name,
            exchange,
            json,
            which,
        } => {
            let kind = if *exchange { "exchange" } else { "queue" };
            effective::run(name, kind, *json, which)
        }
    }
}

pub(crate) fn definitions(command: &DefinitionsCommand) -> Result<(), Failure> {
    let DefinitionsCommand::Import {
        file,
        vhost,
        data_dir,
    } = command;
    let content = std::fs::read(file)
        .map_err(|error| Failure::new(format!("{}: {error}", file.display())))?;
    let vhost = vhost.as_ref().map(|vhost| format!(" {vhost}"));
    let question = format!("import {}{}", content.len(), vhost.unwrap_or_default());
    let answer = asked_with(data_dir, &question, &content);
    let answer =
        answer.map_err(|failure| Failure::new(format!("{}: {}", file.display(), failure.text)))?;
    let count = |name| answer.get(name).and_then(Value::as_u64).unwrap_or_default();
    print(&format!("{} new, {} kept\n", count("new"), count("kept")));
    let passed_over = answer.get("passed_over").and_then(Value::as_array);
    for one in passed_over.into_iter().flatten() {
        let text = |name| one.get(name).and_then(Value::as_str).unwrap_or_default();
        let count = one.get("count").and_then(Value::as_u64).unwrap_or_default();
        let (what, why) = (text("what"), text("why"));
        print(&format!("passed over: {what} ({count}): {why}\n"));
    }
    Ok(())
}

/// A line for each element.
pub(crate) fn print_each(list: Option<&Value>) {
    for one in list.and_then(Value::as_array).into_iter().flatten() {
        print(&format!("{one}\n"));
    }
}

/// The answer to a question, or the server's reason to refuse it.
pub(crate) fn asked(data_dir: &Path, word: &str, content: &[u8]) -> Result<Value, Failure> {
    asked_with(data_dir, &format!("{word} {}", content.len()), content)
}

fn asked_with(data_dir: &Path, question: &str, content: &[u8]) -> Result<Value, Failure> {
    let answer = ask(data_dir, question, content)?;
    let value: Value = serde_json::from_str(&answer)
        .map_err(|error| Failure::new(format!("the server's answer does not read: {error}")))?;
    match value.get("error").and_then(Value::as_str) {
        Some(error) => Err(Failure::new(error)),
        None => Ok(value),
    }
}

/// The answer of the server that runs on that data folder: a line of JSON.
pub(crate) fn ask(data_dir: &Path, question: &str, content: &[u8]) -> Result<String, Failure> {
    let path = menzil_server::stats_socket(data_dir);
    exchange(&path, question, content).map_err(|error| {
        Failure::new(format!(
            "{}: {error}; is a server running on this data folder?",
            path.display()
        ))
    })
}

fn exchange(path: &Path, question: &str, content: &[u8]) -> std::io::Result<String> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(format!("{question}\n").as_bytes())?;
    stream.write_all(content)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    if answer.is_empty() {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    Ok(answer)
}

/// An import of very many objects waits for a slow disk.
const PATIENCE: Duration = Duration::from_mins(10);
