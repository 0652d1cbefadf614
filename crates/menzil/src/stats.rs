//! `menzil stats`: asks a running server over its socket.

pub(crate) mod tables;

use serde_json::Value;

use crate::cli::StatsArguments;
use crate::{Failure, control, print};

pub(crate) fn run(arguments: &StatsArguments) -> Result<(), Failure> {
    let answer = control::ask(&arguments.data_dir, "stats", b"")?;
    if arguments.json {
        print(&answer);
        return Ok(());
    }
    let value: Value = serde_json::from_str(&answer)
        .map_err(|error| Failure::new(format!("the server's answer does not read: {error}")))?;
    print(&tables::tables(&value));
    Ok(())
}
