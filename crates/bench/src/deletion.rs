//! An exchange with many bindings is deleted while somebody else waits for confirms.

use crate::BenchError;
use crate::connection::Connection;
use crate::engine::{Engine, Until};
use crate::flow::{Unit, Who, links, phase, setup};
use crate::options::{ExchangeKind, Options};
use crate::progress::Progress;
use crate::report::Row;
use crate::topology::Topology;
use std::time::{Duration, Instant};

/// The latency is that of confirms in a queue that has nothing to do with the exchange: its
/// greatest is how long the deletion held anybody.
pub(crate) fn measure(options: &Options) -> Result<Vec<Row>, BenchError> {
    let doomed = Topology::of(options);
    doomed.declare(options)?;
    let row = beside(options, &doomed);
    let deleted = doomed.delete(options);
    let row = row?;
    deleted?;
    Ok(vec![row])
}

fn beside(options: &Options, doomed: &Topology) -> Result<Row, BenchError> {
    let plain = Options {
        exchange: ExchangeKind::Default,
        delay: None,
        binding_count: options.queue_count,
        name: None,
        ..options.clone()
    };
    let topology = Topology::of(&plain);
    topology.declare(&plain)?;
    let row = run(options, &plain, doomed, &topology);
    topology.delete(&plain)?;
    row
}

fn run(
    options: &Options,
    plain: &Options,
    doomed: &Topology,
    topology: &Topology,
) -> Result<Row, BenchError> {
    let mut engine = Engine::new(
        links(plain, topology, Who::Publishers)?,
        0,
        plain.backlog_max,
    );
    let mut progress = Progress::new(options.scenario.name, options.quiet);
    let mut connection = Connection::open(&options.target)?;
    engine.run(Until::Elapsed(plain.warmup), &mut progress)?;
    let until = Until::Elapsed(plain.measured);
    let (row, took) = std::thread::scope(|scope| {
        let deletion = scope.spawn(|| {
            std::thread::sleep(plain.measured / 4);
            let start = Instant::now();
            doomed.delete_exchange(&mut connection)?;
            Ok::<Duration, BenchError>(start.elapsed())
        });
        let row = phase(&mut engine, plain, until, Unit::Settled, &mut progress);
        (row, deletion.join())
    });
    let took = took.map_err(|_| BenchError::Malformed("the deletion was cut short"))??;
    let row = row?;
    engine.close();
    connection.close(&[]);
    Ok(Row {
        setup: format!(
            "{} · {} bindings deleted in {} ms",
            setup(plain),
            options.binding_count,
            took.as_millis()
        ),
        ..row
    })
}
