//! `menzil stats`: asks a running server over its socket.

mod tables;

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::cli::StatsArguments;
use crate::{Failure, print};

pub(crate) fn run(arguments: &StatsArguments) -> Result<(), Failure> {
    let answer = ask(&arguments.data_dir, "stats")?;
    if arguments.json {
        print(&answer);
        return Ok(());
    }
    let value: Value = serde_json::from_str(&answer)
        .map_err(|error| Failure::new(format!("the server's answer does not read: {error}")))?;
    print(&tables::tables(&value));
    Ok(())
}

/// Puts a question to the server that runs on a data folder.
pub(crate) fn ask(data_dir: &Path, question: &str) -> Result<String, Failure> {
    let path = menzil_server::stats_socket(data_dir);
    ask_over(&path, question).map_err(|error| {
        Failure::new(format!(
            "{}: {error}; is a server running on this data folder?",
            path.display()
        ))
    })
}

fn ask_over(path: &Path, question: &str) -> std::io::Result<String> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(format!("{question}\n").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

const PATIENCE: Duration = Duration::from_secs(10);
