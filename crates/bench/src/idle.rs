//! Things that do nothing, and what each of them weighs: connections, queues, bindings.

use crate::BenchError;
use crate::connection::Connection;
use crate::meter::Meter;
use crate::options::Options;
use crate::progress::Progress;
use crate::report::Row;
use crate::scenario::Declared;
use crate::topology::Topology;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::time::Duration;

/// How long what was on its way may take to come to rest before memory is read.
const REST: Duration = Duration::from_secs(1);

/// Opens connections with one channel each, one after the other, and keeps them until the end.
pub(crate) fn connections(options: &Options) -> Result<Vec<Row>, BenchError> {
    let all = options.connection_count.unwrap_or(1);
    allow_files(all)?;
    let mut progress = Progress::new(options.scenario.name, options.quiet);
    let mut held = Vec::new();
    let meter = Meter::start(options)?;
    for done in 0..all {
        held.push(Connection::open(&options.target)?);
        progress.count(done + 1, Some(all), "connections");
    }
    let reading = meter.stop()?.after_rest(REST)?;
    progress.end();
    // Whoever is still there at the end was not disconnected meanwhile.
    held.iter().try_for_each(Connection::is_alive)?;
    Ok(vec![Row {
        setup: "a channel each".to_owned(),
        unit: "connections",
        done: all,
        staying: Some(all),
        ..reading.row(options.scenario.name.to_owned())
    }])
}

/// Declares everything pipelined, and deletes it again unless it is to be kept.
pub(crate) fn declared(options: &Options, what: Declared) -> Result<Vec<Row>, BenchError> {
    let topology = Topology::of(options);
    let mut connection = Connection::open(&options.target)?;
    let meter = Meter::start(options)?;
    let declared = topology.declare_on(&mut connection);
    let reading = meter.stop()?.after_rest(REST)?;
    drop(connection);
    let deleted = if options.keep && declared.is_ok() {
        Ok(())
    } else {
        topology.delete(options)
    };
    declared?;
    deleted?;
    let (unit, done) = match what {
        Declared::Queues => ("queues", options.queue_count),
        Declared::Bindings => ("bindings", options.binding_count),
    };
    Ok(vec![Row {
        setup: format!("durable, {} exchange", options.exchange.name()),
        unit,
        done,
        staying: Some(done),
        ..reading.row(options.scenario.name.to_owned())
    }])
}

/// Raises this process's own limit of open files as far as it may be.
pub(crate) fn allow_files(count: u64) -> Result<(), BenchError> {
    let wanted = count + 64;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    let raised = limit.maximum.map_or(wanted, |most| wanted.min(most));
    if raised < wanted {
        return Err(BenchError::Usage(format!(
            "{count} connections need {wanted} open files, and this process may have {raised}; \
             write a smaller --connections or raise the limit (ulimit -Hn)"
        )));
    }
    Ok(setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(raised),
            maximum: limit.maximum,
        },
    )?)
}
