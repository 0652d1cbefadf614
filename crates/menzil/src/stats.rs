//! `menzil stats`: asks a running server over its socket.

pub(crate) mod tables;

use std::io::IsTerminal as _;

use serde_json::{Value, json};

use crate::cli::StatsArguments;
use crate::{Failure, control, print};

pub(crate) fn run(arguments: &StatsArguments) -> Result<(), Failure> {
    if let Some(queue) = &arguments.queue {
        return one_queue(arguments, queue);
    }
    let answer = control::ask(&arguments.data_dir, "stats", b"")?;
    if arguments.json {
        print(&answer);
        return Ok(());
    }
    let value: Value = serde_json::from_str(&answer)
        .map_err(|error| Failure::new(format!("the server's answer does not read: {error}")))?;
    print(&tables::tables(&value, width()));
    Ok(())
}

fn one_queue(arguments: &StatsArguments, queue: &str) -> Result<(), Failure> {
    let content = json!({"vhost": arguments.vhost, "queue": queue}).to_string();
    let answer = control::asked(&arguments.data_dir, "queue", content.as_bytes())?;
    if arguments.json {
        print(&format!("{answer}\n"));
        return Ok(());
    }
    print(&tables::queue(&answer, &arguments.vhost));
    Ok(())
}

/// How long a line may be: where a program reads it, as long as it is.
fn width() -> usize {
    if std::io::stdout().is_terminal() {
        tables::WIDTH
    } else {
        usize::MAX
    }
}
