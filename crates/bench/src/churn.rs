//! Things that come and go: one is made and taken away again, over and over, each answered before
//! the next.

use crate::BenchError;
use crate::connection::Connection;
use crate::histogram::Histogram;
use crate::meter::Meter;
use crate::numbers::nanos;
use crate::options::{ExchangeKind, Options};
use crate::progress::Progress;
use crate::report::{Latency, Row};
use crate::scenario::Churned;
use crate::topology::Topology;
use crate::wire::{self, id};
use std::time::Instant;

/// Both halves of a round are measured together.
pub(crate) fn measure(options: &Options, what: Churned) -> Result<Vec<Row>, BenchError> {
    let topology = Topology::of(options);
    if what == Churned::Bindings {
        topology.declare(options)?;
    }
    let row = run(options, &topology, what);
    let deleted = match what {
        Churned::Bindings | Churned::Queues => topology.delete(options),
        Churned::Connections | Churned::Channels => Ok(()),
    };
    let row = row?;
    deleted?;
    Ok(vec![row])
}

fn run(options: &Options, topology: &Topology, what: Churned) -> Result<Row, BenchError> {
    let mut connection = Connection::open(&options.target)?;
    let mut histogram = Histogram::new();
    let mut progress = Progress::new(options.scenario.name, options.quiet);
    let mut done = 0;
    let meter = Meter::start(options)?;
    let start = Instant::now();
    let over = |done| match options.message_count {
        Some(all) => done >= all,
        None => start.elapsed() >= options.measured,
    };
    while !over(done) {
        let before = Instant::now();
        match what {
            Churned::Connections => Connection::open(&options.target)?.close(&[]),
            Churned::Channels => {
                connection.open_channel(2)?;
                connection.close_channel(2)?;
            }
            Churned::Queues => queue(&mut connection, topology)?,
            Churned::Bindings => {
                topology.bind_others(&mut connection, done..done + 1)?;
                topology.unbind_other(&mut connection, done)?;
            }
        }
        histogram.record(nanos(before.elapsed()), 1);
        done += 1;
        progress.count(done, options.message_count, what.name());
    }
    let reading = meter.stop()?;
    progress.end();
    connection.close(&[]);
    let exchange = match options.exchange {
        ExchangeKind::Default => String::new(),
        kind @ (ExchangeKind::Direct
        | ExchangeKind::Fanout
        | ExchangeKind::Topic
        | ExchangeKind::Headers) => format!("{} exchange", kind.name()),
    };
    Ok(Row {
        setup: exchange,
        unit: what.name(),
        done,
        latency: Latency::of(&histogram),
        ..reading.row(options.scenario.name.to_owned())
    })
}

fn queue(connection: &mut Connection, topology: &Topology) -> Result<(), BenchError> {
    let name = topology.queue(0);
    connection.call(id::QUEUE_DECLARE, id::QUEUE_DECLARE_OK, |out| {
        topology.put_declare(out, &name);
    })?;
    connection.call(id::QUEUE_DELETE, id::QUEUE_DELETE_OK, |out| {
        out.extend_from_slice(&[0, 0]);
        wire::put_short(out, &name);
        out.push(0);
    })?;
    Ok(())
}
