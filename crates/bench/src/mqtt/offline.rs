//! Durable sessions that are away while messages are published, and come back for them.

use super::engine::Engine;
use super::flow::{self, Payload, Unit};
use super::link::Link;
use super::names::Names;
use super::options::Options;
use super::wire::Session;
use crate::BenchError;
use crate::engine::Until;
use crate::meter::Meter;
use crate::progress::Progress;
use crate::report::{Latency, Row};
use std::time::Duration;

/// How long a session that came back may get nothing before the rest is lost.
const SILENCE: Duration = Duration::from_secs(5);

/// A row for what is stored, and one for what comes back.
pub(super) fn measure(options: &Options) -> Result<Vec<Row>, BenchError> {
    let names = Names::of(options.name.as_deref());
    let granted = leave(options, &names)?;
    let rows = run(options, &names, granted);
    if !options.keep {
        forget(options, &names)?;
    }
    rows
}

/// Subscribes durable sessions, which then go; returns the least QoS that was granted.
pub(super) fn leave(options: &Options, names: &Names) -> Result<u8, BenchError> {
    let mut granted = options.subscribe_qos;
    for number in 0..options.subscriber_count {
        let (mut link, _) = Link::open(options, &names.client('d', number), Session::Durable)?;
        let filters = flow::filters(options, names, number);
        granted = granted.min(link.subscribe(&filters, options.subscribe_qos)?);
        link.close();
    }
    Ok(granted)
}

/// Ends the sessions.
pub(super) fn forget(options: &Options, names: &Names) -> Result<(), BenchError> {
    for number in 0..options.subscriber_count {
        let (link, _) = Link::open(options, &names.client('d', number), Session::Clean)?;
        link.close();
    }
    Ok(())
}

fn run(options: &Options, names: &Names, granted: u8) -> Result<Vec<Row>, BenchError> {
    let (links, window) = flow::publishers(options, names, Payload::Message)?;
    let mut engine = Engine::new(links, 0, 1)?;
    let mut progress = Progress::new("store", options.quiet);
    let stored = flow::phase(&mut engine, options, Unit::Settled, &mut progress)?;
    engine.settle(flow::SILENCE, &mut progress)?;
    let setup = flow::setup(options, window, Some(granted));
    // What was refused is in no session, what was not acknowledged may be.
    let accepted = engine.tally.published - engine.tally.nacked;
    let stored = Row {
        setup: setup.clone(),
        scenario: format!("{}: store", options.scenario.name),
        lost: engine.lost(),
        staying: Some(accepted * options.deliveries_per_publish()),
        ..stored
    };
    engine.close();
    let drained = Row {
        setup,
        ..drain(options, names, accepted)?
    };
    Ok(vec![stored, drained])
}

/// The sessions come back and get everything.
fn drain(options: &Options, names: &Names, accepted: u64) -> Result<Row, BenchError> {
    let deliveries = accepted * options.deliveries_per_publish();
    let mut progress = Progress::new("drain", options.quiet);
    let meter = Meter::of(options.pid, options.data_dir.as_deref())?;
    let mut links = Vec::new();
    for number in 0..options.subscriber_count {
        let id = names.client('d', number);
        let (mut link, accepted) = Link::open(options, &id, Session::Durable)?;
        if !accepted.session_present {
            return Err(BenchError::Malformed(
                "a CONNACK without the session that it was to keep",
            ));
        }
        link.role = flow::subscriber(options);
        links.push(link);
    }
    let mut engine = Engine::new(links, 1, options.backlog_max)?;
    engine.drain(deliveries, SILENCE, &mut progress)?;
    let reading = meter.stop()?;
    let row = Row {
        unit: "messages",
        done: engine.tally.delivered,
        counts: engine.tally.counts(),
        lost: engine.lost(),
        latency: Latency::of(&engine.tally.latency),
        ..reading.row(format!("{}: drain", options.scenario.name))
    };
    // The acknowledgements of the last ones are read by then.
    engine.run(Until::Elapsed(Duration::from_millis(100)), &mut progress)?;
    let surplus = engine.surplus();
    engine.close();
    if surplus > 0 {
        return Err(BenchError::Misordered(surplus));
    }
    Ok(row)
}
