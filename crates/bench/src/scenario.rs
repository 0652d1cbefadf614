//! The scenarios: what is declared, who publishes, who consumes, what is counted.

use crate::BenchError;
use crate::connection::Connection;
use crate::consumer::{Acks, Consumer};
use crate::engine::{Counts, Engine, Until};
use crate::numbers::{float, nanos};
use crate::options::{Options, Scenario};
use crate::process::{Own, Usage};
use crate::publisher::{Limits, Publisher};
use crate::report::{Cost, Latency, Row};
use crate::wire::{self, Publish, id};
use std::hash::{BuildHasher, RandomState};
use std::time::Instant;

/// Runs the scenario and deletes what it declared, whether it went well or not.
pub(crate) fn measure(options: &Options) -> Result<Vec<Row>, BenchError> {
    let topology = Topology::declare(options)?;
    let rows = match options.scenario {
        Scenario::Drain => drain(options, &topology),
        Scenario::Transient
        | Scenario::ManualAck
        | Scenario::Confirm
        | Scenario::ConfirmOne
        | Scenario::Fanout
        | Scenario::Latency
        | Scenario::Disk => steady(options, &topology).map(|row| vec![row]),
    };
    let deleted = topology.delete(options);
    let rows = rows?;
    deleted?;
    Ok(rows)
}

/// What a scenario comes down to.
struct Plan {
    persistent: bool,
    stamped: bool,
    limits: Limits,
    acks: Acks,
    /// What rate and cost are given per.
    unit: Unit,
}

/// The messages that rate and cost are given per.
#[derive(Debug, Clone, Copy)]
enum Unit {
    Delivered,
    Confirmed,
    /// Confirmed or refused.
    Settled,
    /// Published and delivered from each of so many queues: what still lies there did not cost
    /// its whole price yet.
    Fanned(u64),
}

impl Unit {
    fn count(self, counts: &Counts) -> u64 {
        match self {
            Self::Delivered => counts.delivered,
            Self::Confirmed => counts.confirmed,
            Self::Settled => counts.confirmed + counts.nacked,
            Self::Fanned(queues) => counts.delivered / queues,
        }
    }
}

impl Plan {
    fn of(options: &Options) -> Self {
        let scenario = options.scenario;
        let window = match scenario {
            Scenario::Confirm | Scenario::Drain => Some(options.window),
            Scenario::ConfirmOne => Some(1),
            Scenario::Transient
            | Scenario::ManualAck
            | Scenario::Fanout
            | Scenario::Latency
            | Scenario::Disk => None,
        };
        let manual = matches!(scenario, Scenario::ManualAck | Scenario::Drain);
        let acks = if manual && options.prefetch_count > 0 {
            Acks::Every(options.ack_batch)
        } else {
            Acks::Auto
        };
        let unit = match scenario {
            Scenario::Confirm | Scenario::ConfirmOne => Unit::Confirmed,
            Scenario::Fanout => Unit::Fanned(options.queue_count),
            Scenario::Transient
            | Scenario::ManualAck
            | Scenario::Latency
            | Scenario::Drain
            | Scenario::Disk => Unit::Delivered,
        };
        // Rounded up, so that a rate below the number of publishers is still a rate.
        let rate = options
            .rate
            .map(|rate| rate.div_ceil(options.connection_count));
        Self {
            persistent: window.is_some(),
            stamped: scenario == Scenario::Latency,
            limits: Limits {
                window,
                rate,
                messages: None,
            },
            acks,
            unit,
        }
    }
}

/// Warm-up, then the measured time.
fn steady(options: &Options, topology: &Topology) -> Result<Row, BenchError> {
    let plan = Plan::of(options);
    let consumes = options.consumer_count > 0;
    let deliveries_per_publish = if consumes { topology.queue_count() } else { 0 };
    let mut engine = Engine::new(
        options.scenario.name().to_owned(),
        deliveries_per_publish,
        options.backlog_max,
    );
    for index in 0..topology.consumer_count(options) {
        add_consumer(&mut engine, options, &plan, topology.queue(index))?;
    }
    for _ in 0..options.connection_count {
        add_publisher(&mut engine, options, &plan, topology)?;
    }
    engine.start_clock();
    engine.run(Until::Elapsed(options.warmup))?;
    let row = phase(
        &mut engine,
        options,
        &plan,
        "",
        Until::Elapsed(options.measured),
    )?;
    engine.close();
    Ok(row)
}

/// A backlog of persistent messages is confirmed first, then consumed.
fn drain(options: &Options, topology: &Topology) -> Result<Vec<Row>, BenchError> {
    let mut plan = Plan::of(options);
    let per_publisher = options.message_count.div_ceil(options.connection_count);
    let messages = per_publisher * options.connection_count;
    let mut preload = Engine::new("drain-preload".to_owned(), 0, options.backlog_max);
    plan.limits.messages = Some(per_publisher);
    for _ in 0..options.connection_count {
        add_publisher(&mut preload, options, &plan, topology)?;
    }
    preload.start_clock();
    let loading = Plan {
        unit: Unit::Settled,
        ..Plan::of(options)
    };
    let first = phase(
        &mut preload,
        options,
        &loading,
        "-preload",
        Until::Settled(messages),
    )?;
    preload.close();

    let mut engine = Engine::new("drain".to_owned(), 0, options.backlog_max);
    for _ in 0..options.consumer_count {
        add_consumer(&mut engine, options, &plan, topology.queue(0))?;
    }
    let queued = first.counts.confirmed;
    let second = phase(&mut engine, options, &plan, "", Until::Delivered(queued))?;
    engine.close();
    Ok(vec![first, second])
}

/// Measures one phase of a run.
fn phase(
    engine: &mut Engine,
    options: &Options,
    plan: &Plan,
    suffix: &str,
    until: Until,
) -> Result<Row, BenchError> {
    engine.tally.latency.clear();
    let usage = || options.pid.map(Usage::of).transpose();
    let counts_before = engine.tally.counts();
    let (before, own_before, start) = (usage()?, Own::now(), Instant::now());
    engine.run(until)?;
    let seconds = float(nanos(start.elapsed())) / 1e9;
    let (own, after) = (Own::now().since(&own_before), usage()?);
    let counts = engine.tally.counts().since(counts_before);
    let (publishers, consumers) = engine.connections();
    Ok(Row {
        scenario: format!("{}{suffix}", options.scenario.name()),
        body_bytes: crate::numbers::count(options.body_bytes),
        publishers,
        consumers,
        queues: if options.scenario == Scenario::Fanout {
            options.queue_count
        } else {
            1
        },
        window: plan.limits.window.filter(|_| publishers > 0),
        prefetch: (consumers > 0 && plan.acks != Acks::Auto)
            .then_some(u64::from(options.prefetch_count)),
        rate: options.rate,
        seconds,
        counts,
        messages: plan.unit.count(&counts),
        latency: Latency::of(&engine.tally.latency),
        broker: before
            .zip(after)
            .map(|(before, after)| Cost::between(&before, &after)),
        own: Some(own),
    })
}

fn add_publisher(
    engine: &mut Engine,
    options: &Options,
    plan: &Plan,
    topology: &Topology,
) -> Result<(), BenchError> {
    let mut connection = Connection::open(&options.target)?;
    let publish = Publish {
        exchange: topology.exchange.as_deref().unwrap_or(""),
        routing_key: topology.queue(0),
        persistent: plan.persistent,
        body_bytes: options.body_bytes,
        frame_bytes_max: connection.frame_bytes_max(),
    };
    let publisher = Publisher::attach(&mut connection, publish, plan.limits, plan.stamped)?;
    engine.add_publisher(connection, publisher)
}

fn add_consumer(
    engine: &mut Engine,
    options: &Options,
    plan: &Plan,
    queue: &str,
) -> Result<(), BenchError> {
    let mut connection = Connection::open(&options.target)?;
    let prefetch = if plan.acks == Acks::Auto {
        0
    } else {
        options.prefetch_count
    };
    let consumer = Consumer::attach(&mut connection, queue, prefetch, plan.acks, plan.stamped);
    engine.add_consumer(connection, consumer)
}

/// What was declared for the run.
struct Topology {
    queues: Vec<String>,
    exchange: Option<String>,
}

impl Topology {
    fn declare(options: &Options) -> Result<Self, BenchError> {
        let suffix = RandomState::new().hash_one(std::process::id());
        let name = |part: &str| format!("bench.{suffix:016x}.{part}");
        let fanout = options.scenario == Scenario::Fanout;
        let queue_count = if fanout { options.queue_count } else { 1 };
        let topology = Self {
            queues: (0..queue_count)
                .map(|index| name(&index.to_string()))
                .collect(),
            exchange: fanout.then(|| name("x")),
        };
        let mut connection = Connection::open(&options.target)?;
        if let Err(error) = topology.declare_on(&mut connection, options) {
            // What came into being before the refusal goes again; the refusal is what is told.
            drop(topology.delete(options));
            return Err(error);
        }
        connection.close(&[]);
        Ok(topology)
    }

    fn declare_on(&self, connection: &mut Connection, options: &Options) -> Result<(), BenchError> {
        if let Some(exchange) = &self.exchange {
            connection.call(id::EXCHANGE_DECLARE, id::EXCHANGE_DECLARE_OK, |out| {
                out.extend_from_slice(&[0, 0]);
                wire::put_short(out, exchange);
                wire::put_short(out, "fanout");
                out.push(0b10);
                out.extend_from_slice(&[0; 4]);
            })?;
        }
        for queue in &self.queues {
            connection.call(id::QUEUE_DECLARE, id::QUEUE_DECLARE_OK, |out| {
                out.extend_from_slice(&[0, 0]);
                wire::put_short(out, queue);
                out.push(0b10);
                wire::put_long(out, |arguments| {
                    if let Some(kind) = &options.queue_type {
                        wire::put_short(arguments, "x-queue-type");
                        arguments.push(b'S');
                        wire::put_long(arguments, |text| text.extend_from_slice(kind.as_bytes()));
                    }
                });
            })?;
            if let Some(exchange) = &self.exchange {
                connection.call(id::QUEUE_BIND, id::QUEUE_BIND_OK, |out| {
                    out.extend_from_slice(&[0, 0]);
                    wire::put_short(out, queue);
                    wire::put_short(out, exchange);
                    wire::put_short(out, "");
                    out.extend_from_slice(&[0; 5]);
                })?;
            }
        }
        Ok(())
    }

    fn delete(&self, options: &Options) -> Result<(), BenchError> {
        let mut connection = Connection::open(&options.target)?;
        for queue in &self.queues {
            connection.call(id::QUEUE_DELETE, id::QUEUE_DELETE_OK, |out| {
                out.extend_from_slice(&[0, 0]);
                wire::put_short(out, queue);
                out.push(0);
            })?;
        }
        if let Some(exchange) = &self.exchange {
            connection.call(id::EXCHANGE_DELETE, id::EXCHANGE_DELETE_OK, |out| {
                out.extend_from_slice(&[0, 0]);
                wire::put_short(out, exchange);
                out.push(0);
            })?;
        }
        connection.close(&[]);
        Ok(())
    }

    fn queue_count(&self) -> u64 {
        crate::numbers::count(self.queues.len())
    }

    /// A fanout has a consumer per queue; else they share the one queue.
    fn consumer_count(&self, options: &Options) -> u64 {
        if self.exchange.is_some() {
            self.queue_count()
        } else {
            options.consumer_count
        }
    }

    fn queue(&self, index: u64) -> &str {
        let index = crate::numbers::length(index) % self.queues.len().max(1);
        self.queues.get(index).map_or("", String::as_str)
    }
}
