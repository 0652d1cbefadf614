//! Messages that lie: a backlog is stored, the broker is weighed, and then it is drained, purged
//! or deleted.

use crate::BenchError;
use crate::connection::Connection;
use crate::engine::{Counts, Engine, Until};
use crate::flow::{Unit, Who, links, phase, setup};
use crate::meter::Meter;
use crate::options::Options;
use crate::progress::Progress;
use crate::report::Row;
use crate::scenario::Then;
use crate::topology::Topology;
use crate::wire::{self, id};
use std::time::Duration;

/// How long what was on its way may take to come to rest before memory is read.
const REST: Duration = Duration::from_millis(500);

/// A row for the storing, and one for what is done with it.
pub(crate) fn measure(options: &Options, then: Then) -> Result<Vec<Row>, BenchError> {
    let topology = Topology::of(options);
    if !options.existing {
        topology.declare(options)?;
    }
    let rows = run(options, &topology, then);
    let deleted = if options.keep {
        Ok(())
    } else {
        topology.delete(options)
    };
    let rows = rows?;
    deleted?;
    Ok(rows)
}

fn run(options: &Options, topology: &Topology, then: Then) -> Result<Vec<Row>, BenchError> {
    let mut rows = Vec::new();
    let mut queued = options.message_count.unwrap_or(0);
    if !options.existing {
        let stored = store(options, topology, queued)?;
        queued = stored.counts.confirmed;
        rows.push(stored);
    }
    match then {
        Then::Delete => {}
        Then::Drain => rows.push(drain(options, topology, queued)?),
        Then::Purge => rows.push(purge(options, topology)?),
    }
    Ok(rows)
}

fn store(options: &Options, topology: &Topology, messages: u64) -> Result<Row, BenchError> {
    let links = links(options, topology, Who::Publishers)?;
    let mut engine = Engine::new(links, 0, options.backlog_max);
    let mut progress = Progress::new("store", options.quiet);
    let until = Until::Done(Counts {
        published: messages,
        confirmed: messages,
        ..Counts::default()
    });
    // The whole row is weighed, connections included; they go before memory is read again.
    let meter = Meter::start(options)?;
    let row = phase(&mut engine, options, until, Unit::Settled, &mut progress)?;
    engine.close();
    let weighed = meter.stop()?.after_rest(REST)?.row(String::new());
    Ok(Row {
        scenario: format!("{}: store", options.scenario.name),
        staying: Some(row.done),
        broker: weighed.broker,
        folder: weighed.folder,
        device_written: weighed.device_written,
        ..row
    })
}

fn drain(options: &Options, topology: &Topology, queued: u64) -> Result<Row, BenchError> {
    let copies = if options.exchange.copies() {
        topology.queue_count()
    } else {
        1
    };
    let links = links(options, topology, Who::Consumers)?;
    let mut engine = Engine::new(links, copies, options.backlog_max);
    let mut progress = Progress::new("drain", options.quiet);
    let until = Until::Done(Counts {
        delivered: queued * copies,
        ..Counts::default()
    });
    let row = phase(
        &mut engine,
        options,
        until,
        Unit::Delivered(copies),
        &mut progress,
    )?;
    engine.close();
    Ok(row)
}

fn purge(options: &Options, topology: &Topology) -> Result<Row, BenchError> {
    let mut connection = Connection::open(&options.target)?;
    let mut purged = 0;
    let meter = Meter::start(options)?;
    for index in 0..topology.queue_count() {
        let answer = connection.call(id::QUEUE_PURGE, id::QUEUE_PURGE_OK, |out| {
            out.extend_from_slice(&[0, 0]);
            wire::put_short(out, &topology.queue(index));
            out.push(0);
        })?;
        purged += u64::from(wire::Fields(&answer).u32().unwrap_or_default());
    }
    let reading = meter.stop()?;
    connection.close(&[]);
    Ok(Row {
        setup: setup(options),
        unit: "messages",
        done: purged,
        ..reading.row(options.scenario.name.to_owned())
    })
}
