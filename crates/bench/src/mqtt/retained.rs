//! Retained messages: set, weighed, read by a subscriber of all, and deleted.

use super::engine::Engine;
use super::flow::{self, Payload};
use super::link::Link;
use super::names::Names;
use super::options::Options;
use super::scenario::Then;
use super::wire::Session;
use crate::BenchError;
use crate::engine::{Counts, Until};
use crate::meter::Meter;
use crate::numbers::count;
use crate::progress::Progress;
use crate::report::{Latency, Row};
use std::time::Duration;

/// How long what was on its way may take to come to rest before memory is read.
const REST: Duration = Duration::from_millis(500);
/// How long the reader may get nothing before the rest is lost.
const SILENCE: Duration = Duration::from_secs(5);

/// A row for the setting, and one for the reading if there is any.
pub(super) fn measure(options: &Options, then: Then) -> Result<Vec<Row>, BenchError> {
    let names = Names::of(options.name.as_deref());
    let mut rows = vec![publish(options, &names, Payload::Retained)?];
    if then == Then::Read {
        rows.push(read(options, &names)?);
    }
    if !options.keep {
        let _figures = publish(options, &names, Payload::Clear)?;
    }
    Ok(rows)
}

fn publish(options: &Options, names: &Names, payload: Payload) -> Result<Row, BenchError> {
    let all = options.retained_count;
    let (links, window) = flow::publishers(options, names, payload)?;
    let mut engine = Engine::new(links, 0, 1)?;
    let label = if payload == Payload::Clear {
        "clear"
    } else {
        "set"
    };
    let mut progress = Progress::new(label, options.quiet);
    let meter = Meter::of(options.pid, options.data_dir.as_deref())?;
    let target = Counts {
        published: all,
        confirmed: if options.publish_qos > 0 { all } else { 0 },
        ..Counts::default()
    };
    engine.run(Until::Done(target), &mut progress)?;
    engine.settle(flow::SILENCE, &mut progress)?;
    let counts = engine.tally.counts();
    let latency = Latency::of(&engine.tally.latency);
    let lost = engine.lost();
    let reading = meter.stop()?;
    engine.close();
    Ok(Row {
        setup: words(options, window),
        unit: "topics",
        done: counts.published - counts.nacked,
        counts,
        latency,
        lost,
        staying: Some(all),
        body_bytes: Some(all * count(options.payload_bytes)),
        ..reading
            .after_rest(REST)?
            .row(format!("{}: set", options.scenario.name))
    })
}

fn read(options: &Options, names: &Names) -> Result<Row, BenchError> {
    let (mut link, _) = Link::open(options, &names.client('s', 0), Session::Clean)?;
    let mut progress = Progress::new("read", options.quiet);
    let meter = Meter::of(options.pid, options.data_dir.as_deref())?;
    link.role = flow::subscriber(options);
    // The first of them may come before the SUBACK.
    link.queue_subscribe(&names.all(), options.subscribe_qos);
    let mut engine = Engine::new(vec![link], 1, 1)?;
    engine.drain(options.retained_count, SILENCE, &mut progress)?;
    let reading = meter.stop()?;
    let row = Row {
        setup: format!("{}, by QoS {}", words(options, None), options.subscribe_qos),
        unit: "messages",
        done: engine.tally.delivered,
        counts: engine.tally.counts(),
        lost: engine.lost(),
        ..reading.row(format!("{}: read", options.scenario.name))
    };
    engine.close();
    Ok(row)
}

fn words(options: &Options, window: Option<u16>) -> String {
    let mut parts = vec![
        flow::version(options).to_owned(),
        format!("QoS {}", options.publish_qos),
        format!("{} B", options.payload_bytes),
    ];
    parts.extend(window.map(|window| format!("window {window}")));
    parts.join(" · ")
}
