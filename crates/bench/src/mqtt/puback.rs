//! The price of a PUBACK: publishes one by one, without and with a durable session that is away and
//! that they are stored for.

use super::engine::Engine;
use super::flow::{self, Payload};
use super::names::Names;
use super::offline;
use super::options::Options;
use crate::BenchError;
use crate::engine::{Counts, Until};
use crate::meter::Meter;
use crate::progress::Progress;
use crate::report::{Latency, Row};

/// A row without the session, and one with it.
pub(super) fn measure(options: &Options) -> Result<Vec<Row>, BenchError> {
    let options = Options {
        window: 1,
        subscriber_count: 1,
        ..options.clone()
    };
    let names = Names::of(options.name.as_deref());
    let without = run(&options, &names, "no session")?;
    offline::leave(&options, &names)?;
    let with = run(&options, &names, "offline session");
    offline::forget(&options, &names)?;
    Ok(vec![without, with?])
}

fn run(options: &Options, names: &Names, what: &str) -> Result<Row, BenchError> {
    let messages = options.message_count.unwrap_or(1);
    let (links, _) = flow::publishers(options, names, Payload::Message)?;
    let mut engine = Engine::new(links, 0, 1)?;
    let mut progress = Progress::new(what, options.quiet);
    let meter = Meter::of(options.pid, options.data_dir.as_deref())?;
    let target = Counts {
        published: messages,
        confirmed: messages,
        ..Counts::default()
    };
    engine.run(Until::Done(target), &mut progress)?;
    let reading = meter.stop()?;
    let row = Row {
        setup: format!(
            "{} · QoS {} · {} B · {what}",
            flow::version(options),
            options.publish_qos,
            options.payload_bytes
        ),
        unit: "messages",
        done: engine.tally.confirmed,
        counts: engine.tally.counts(),
        lost: engine.lost(),
        latency: Latency::of(&engine.tally.latency),
        ..reading.row(options.scenario.name.to_owned())
    };
    engine.close();
    Ok(row)
}
