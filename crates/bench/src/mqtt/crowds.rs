//! Clients that come and stay, sessions that stay alone, and clients that all come back.

use super::crowd::{self, Outcome, Plan};
use super::flow;
use super::link::Link;
use super::names::Names;
use super::options::Options;
use super::wire::Session;
use crate::BenchError;
use crate::idle::allow_files;
use crate::meter::Meter;
use crate::progress::Progress;
use crate::report::{Latency, Row};
use std::io::ErrorKind;
use std::net::TcpStream;
use std::time::Duration;

/// How long what was on its way may take to come to rest before memory is read.
const REST: Duration = Duration::from_secs(1);

/// Opens connections and keeps them until the end.
pub(super) fn connections(options: &Options) -> Result<Vec<Row>, BenchError> {
    let names = Names::of(options.name.as_deref());
    let all = options.connection_count;
    allow_files(all)?;
    probe(options, &names)?;
    let mut progress = Progress::new(options.scenario.name, options.quiet);
    let meter = Meter::of(options.pid, options.data_dir.as_deref())?;
    let plan = Plan {
        clients: all,
        client_id: &|number| names.client('i', number),
        session: Session::Clean,
        filters: &|number| {
            let first = number * options.filter_count;
            let numbers = first..first + options.filter_count;
            numbers.map(|topic| names.topic(topic)).collect()
        },
        stays: true,
        returns: false,
    };
    let outcome = crowd::run(options, plan, &mut progress)?;
    let reading = meter.stop()?.after_rest(REST)?;
    // Whoever is still there at the end was not disconnected meanwhile.
    let ended = outcome.held.iter().filter(|stream| has_ended(stream));
    let ended = crate::numbers::count(ended.count());
    Ok(vec![Row {
        staying: Some(outcome.done),
        lost: Some(outcome.refused + ended),
        ..row(
            options,
            &outcome,
            "connections",
            reading.row(options.scenario.name.to_owned()),
        )
    }])
}

/// Durable sessions that subscribe and leave.
pub(super) fn sessions(options: &Options) -> Result<Vec<Row>, BenchError> {
    let names = Names::of(options.name.as_deref());
    allow_files(1000)?;
    probe(options, &names)?;
    let mut progress = Progress::new(options.scenario.name, options.quiet);
    let meter = Meter::of(options.pid, options.data_dir.as_deref())?;
    let outcome = store(options, &names, options.session_count, false, &mut progress)?;
    let reading = meter.stop()?.after_rest(REST)?;
    let row = Row {
        staying: Some(outcome.done),
        lost: Some(outcome.refused),
        ..row(
            options,
            &outcome,
            "sessions",
            reading.row(options.scenario.name.to_owned()),
        )
    };
    if !options.keep {
        forget(options, &names, options.session_count, &mut progress)?;
    }
    Ok(vec![row])
}

/// All clients lose their connections, and come back to their sessions.
pub(super) fn storm(options: &Options) -> Result<Vec<Row>, BenchError> {
    let names = Names::of(options.name.as_deref());
    let all = options.connection_count;
    allow_files(all)?;
    probe(options, &names)?;
    let mut progress = Progress::new("connect", options.quiet);
    let unpaced = Options {
        ramp: None,
        ..options.clone()
    };
    let before = store(&unpaced, &names, all, true, &mut progress)?;
    if before.refused > 0 {
        return Err(BenchError::Usage(format!(
            "{} of {all} clients were refused before the storm; see whether the broker takes as \
             many connections",
            before.refused
        )));
    }
    drop(before.held);
    let mut progress = Progress::new(options.scenario.name, options.quiet);
    let meter = Meter::of(options.pid, options.data_dir.as_deref())?;
    let plan = Plan {
        clients: all,
        client_id: &|number| names.client('d', number),
        session: Session::Durable,
        filters: &|_| Vec::new(),
        stays: true,
        returns: true,
    };
    let outcome = crowd::run(options, plan, &mut progress)?;
    let reading = meter.stop()?;
    let row = Row {
        lost: Some(outcome.refused),
        ..row(
            options,
            &outcome,
            "connections",
            reading.row(options.scenario.name.to_owned()),
        )
    };
    drop(outcome.held);
    if !options.keep {
        forget(options, &names, all, &mut progress)?;
    }
    Ok(vec![row])
}

/// Whether anybody is there and takes clients such as these: else all of them would only be counted
/// as refused.
fn probe(options: &Options, names: &Names) -> Result<(), BenchError> {
    let (link, _) = Link::open(options, &names.client('c', 0), Session::Clean)?;
    link.close();
    Ok(())
}

fn store(
    options: &Options,
    names: &Names,
    clients: u64,
    stays: bool,
    progress: &mut Progress,
) -> Result<Outcome, BenchError> {
    let filters = |number| {
        let mut filters: Vec<String> = (0..options.filter_count)
            .map(|index| names.other(number * options.filter_count + index))
            .collect();
        filters.push(names.topic(number));
        filters
    };
    let plan = Plan {
        clients,
        client_id: &|number| names.client('d', number),
        session: Session::Durable,
        filters: &filters,
        stays,
        returns: false,
    };
    crowd::run(options, plan, progress)
}

fn forget(
    options: &Options,
    names: &Names,
    clients: u64,
    progress: &mut Progress,
) -> Result<(), BenchError> {
    let unpaced = Options {
        ramp: None,
        ..options.clone()
    };
    let plan = Plan {
        clients,
        client_id: &|number| names.client('d', number),
        session: Session::Clean,
        filters: &|_| Vec::new(),
        stays: false,
        returns: false,
    };
    crowd::run(&unpaced, plan, progress).map(drop)
}

fn row(options: &Options, outcome: &Outcome, unit: &'static str, row: Row) -> Row {
    let mut parts = vec![flow::version(options).to_owned()];
    parts.extend(
        (options.filter_count > 0).then(|| match options.filter_count {
            1 => "1 filter".to_owned(),
            filters => format!("{filters} filters"),
        }),
    );
    parts.extend(options.ramp.map(|ramp| format!("{ramp}/s")));
    parts.extend(
        outcome
            .code
            .map(|code| format!("refused with code 0x{code:02X}")),
    );
    Row {
        setup: parts.join(" · "),
        unit,
        done: outcome.done,
        latency: Latency::of(&outcome.latency),
        ..row
    }
}

fn has_ended(stream: &TcpStream) -> bool {
    match stream.peek(&mut [0]) {
        Ok(0) => true,
        Ok(_) => false,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}
