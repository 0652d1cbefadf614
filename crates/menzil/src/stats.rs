//! `menzil stats`: asks a running server over its socket.

mod tables;

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
    print(&tables::tables(&value));
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

const PATIENCE: Duration = Duration::from_secs(10);
