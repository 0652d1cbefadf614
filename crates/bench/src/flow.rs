//! Messages that flow: publishers and consumers at work for a time, or until all went through.

use crate::BenchError;
use crate::connection::Connection;
use crate::consumer::Consumer;
use crate::engine::{Counts, Engine, Until};
use crate::link::{Link, Role};
use crate::meter::Meter;
use crate::numbers::{count, length};
use crate::options::{Acks, ExchangeKind, Options};
use crate::progress::Progress;
use crate::publisher::{Limits, Marks, Publisher};
use crate::report::{Latency, Row};
use crate::topology::Topology;
use crate::wire::{self, Publish, id};

/// Runs the load and deletes what it declared, whether it went well or not.
pub(crate) fn measure(options: &Options) -> Result<Vec<Row>, BenchError> {
    let topology = Topology::of(options);
    if !options.existing {
        topology.declare(options)?;
    }
    let row = run(options, &topology);
    let deleted = if options.keep {
        Ok(())
    } else {
        topology.delete(options)
    };
    let row = row?;
    deleted?;
    Ok(vec![row])
}

fn run(options: &Options, topology: &Topology) -> Result<Row, BenchError> {
    let held = Held::take(options)?;
    let links = links(options, topology, Who::Everybody)?;
    let deliveries = options.deliveries_per_publish();
    let mut engine = Engine::new(links, deliveries, options.backlog_max);
    let mut progress = Progress::new(options.scenario.name, options.quiet);
    let until = match options.message_count {
        None => {
            engine.run(Until::Elapsed(options.warmup), &mut progress)?;
            Until::Elapsed(options.measured)
        }
        Some(messages) => Until::Done(Counts {
            published: messages,
            delivered: messages * deliveries,
            confirmed: options.window.map_or(0, |_| messages),
            nacked: 0,
        }),
    };
    let row = phase(
        &mut engine,
        options,
        until,
        Unit::of(options),
        &mut progress,
    )?;
    engine.close();
    held.release(options)?;
    Ok(row)
}

/// The messages that rate and cost are given per.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Unit {
    Published,
    /// Confirmed or refused.
    Settled,
    /// Delivered from so many queues: what still lies there did not cost its whole price yet.
    Delivered(u64),
}

impl Unit {
    fn of(options: &Options) -> Self {
        match options.deliveries_per_publish() {
            0 if options.window.is_some() => Self::Settled,
            0 => Self::Published,
            deliveries => Self::Delivered(deliveries),
        }
    }

    fn count(self, counts: &Counts) -> u64 {
        match self {
            Self::Published => counts.published,
            Self::Settled => counts.confirmed + counts.nacked,
            Self::Delivered(queues) => counts.delivered / queues.max(1),
        }
    }
}

/// Measures one phase of a run.
pub(crate) fn phase(
    engine: &mut Engine,
    options: &Options,
    until: Until,
    unit: Unit,
    progress: &mut Progress,
) -> Result<Row, BenchError> {
    engine.tally.latency.clear();
    let counts_before = engine.tally.counts();
    let meter = Meter::start(options)?;
    engine.run(until, progress)?;
    let reading = meter.stop()?;
    let counts = engine.tally.counts().since(counts_before);
    let done = unit.count(&counts);
    Ok(Row {
        setup: setup(options),
        unit: "messages",
        counts,
        done,
        latency: Latency::of(&engine.tally.latency),
        body_bytes: Some(done * count(options.body_bytes)),
        ..reading.row(options.scenario.name.to_owned())
    })
}

/// The load in words.
pub(crate) fn setup(options: &Options) -> String {
    let mut parts = vec![format!("{} B", options.body_bytes)];
    if options.persistent {
        parts.push("persistent".to_owned());
    }
    let (publishers, consumers) = (options.publisher_count, options.consumer_count);
    parts.push(match options.queue_count {
        1 => format!("{publishers}→{consumers}"),
        queues => format!("{publishers}→{queues} queues→{consumers}"),
    });
    if options.exchange != ExchangeKind::Default {
        parts.push(options.exchange.name().to_owned());
    }
    if options.exchange.has_patterns() || options.binding_count > options.queue_count {
        parts.push(format!("{} bindings", options.binding_count));
    }
    if options.reach > 1 {
        parts.push(format!("{} queues each", options.reach));
    }
    parts.extend(
        options
            .expiration
            .map(|(least, most)| format!("expire in {least} to {most} ms")),
    );
    parts.extend(options.delay.map(|(least, most)| {
        if least == most {
            format!("due in {least} ms")
        } else {
            format!("due in {least} to {most} ms")
        }
    }));
    parts.extend(options.queue_type.clone());
    parts.extend(options.window.map(|window| format!("window {window}")));
    if let Acks::Every(batch) = options.acks {
        parts.push(format!("ack {batch}, prefetch {}", options.prefetch_count));
    }
    parts.extend(options.rate.map(|rate| format!("{rate}/s")));
    parts.join(" · ")
}

/// Who takes part in a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    Everybody,
    Publishers,
    Consumers,
}

/// Connects everybody who takes part, over as many connections as are asked for.
pub(crate) fn links(
    options: &Options,
    topology: &Topology,
    who: Who,
) -> Result<Vec<Link>, BenchError> {
    // Consumers first: the broker has them before the first message.
    let consumers = (0..options.consumer_count).map(Part::Consumer);
    let publishers = (0..options.publisher_count).map(Part::Publisher);
    let parts: Vec<Part> = consumers
        .filter(|_| who != Who::Publishers)
        .chain(publishers.filter(|_| who != Who::Consumers))
        .collect();
    let all = count(parts.len());
    let connection_count = options.connection_count.unwrap_or(all).min(all);
    (0..connection_count)
        .map(|index| {
            let ours = parts
                .iter()
                .skip(length(index))
                .step_by(length(connection_count));
            link(options, topology, ours)
        })
        .collect()
}

/// A publisher or a consumer, by its number.
#[derive(Debug, Clone, Copy)]
enum Part {
    Publisher(u64),
    Consumer(u64),
}

fn link<'a>(
    options: &Options,
    topology: &Topology,
    parts: impl Iterator<Item = &'a Part>,
) -> Result<Link, BenchError> {
    let mut connection = Connection::open(&options.target)?;
    let mut roles = Vec::new();
    for (channel, part) in (1u16..).zip(parts) {
        if channel > 1 {
            connection.open_channel(channel)?;
        }
        roles.push(match *part {
            Part::Publisher(number) => Role::Publisher(publisher(
                options,
                topology,
                &mut connection,
                channel,
                number,
            )?),
            Part::Consumer(number) => Role::Consumer(consumer(
                options,
                topology,
                &mut connection,
                channel,
                number,
            )),
        });
    }
    Link::new(connection, roles)
}

fn marks(options: &Options) -> Marks {
    Marks {
        stamped: options.stamped,
        numbered: options.order_checked,
        delay: options.delay,
    }
}

fn publisher(
    options: &Options,
    topology: &Topology,
    connection: &mut Connection,
    channel: u16,
    number: u64,
) -> Result<Publisher, BenchError> {
    let limits = Limits {
        window: options.window,
        rate: options.rate.map(|rate| (rate, options.publisher_count)),
        messages: options
            .message_count
            .map(|all| share(all, number, options.publisher_count)),
    };
    let (exchange, addresses) = (topology.exchange(), topology.addresses());
    let frame_bytes_max = connection.frame_bytes_max();
    let expirations = expirations(options);
    let lives = expirations.iter().enumerate();
    let round = lives.flat_map(|(turn, expiration)| {
        // Each life with one address of the round, and in all with every one.
        let here = if expirations.len() == 1 {
            0..addresses.len()
        } else {
            turn % addresses.len()..turn % addresses.len() + 1
        };
        let addresses = addresses.get(here).unwrap_or_default();
        addresses.iter().map(|address| Publish {
            channel,
            exchange: &exchange,
            routing_key: &address.routing_key,
            headers: &address.headers,
            persistent: options.persistent,
            delayed: options.delay.is_some(),
            expiration,
            body_bytes: options.body_bytes,
            frame_bytes_max,
        })
    });
    let number = u32::try_from(number).unwrap_or(u32::MAX);
    Publisher::attach(connection, number, round, limits, marks(options))
}

/// How long messages may live, in turn: neither rising nor falling.
fn expirations(options: &Options) -> Vec<String> {
    let Some((least, most)) = options.expiration else {
        return vec![String::new()];
    };
    (0..LIVES)
        .map(|turn| least + (most - least) * (turn * LIVES_STEP % LIVES) / (LIVES - 1))
        .map(|milliseconds| milliseconds.to_string())
        .collect()
}

const LIVES: u64 = 256;
/// Odd, so that every life has its turn.
const LIVES_STEP: u64 = 157;

/// The part of `all` that falls to one of `shares`, so that they add up.
fn share(all: u64, index: u64, shares: u64) -> u64 {
    all / shares + u64::from(index < all % shares)
}

fn consumer(
    options: &Options,
    topology: &Topology,
    connection: &mut Connection,
    channel: u16,
    number: u64,
) -> Consumer {
    let (queues, consumers) = (topology.queue_count(), options.consumer_count);
    let names: Vec<String> = if consumers >= queues {
        vec![topology.queue(number % queues)]
    } else {
        (number..queues)
            .step_by(length(consumers))
            .map(|index| topology.queue(index))
            .collect()
    };
    Consumer::attach(
        connection,
        channel,
        names.iter().map(String::as_str),
        options.prefetch_count,
        options.acks,
        marks(options),
    )
}

/// Messages in a queue of their own that somebody has and does not settle.
struct Held(Option<(Connection, Topology)>);

impl Held {
    fn take(options: &Options) -> Result<Self, BenchError> {
        let messages = options.held_count;
        if messages == 0 {
            return Ok(Self(None));
        }
        let topology = Topology::of(&Options {
            exchange: ExchangeKind::Default,
            delay: None,
            queue_count: 1,
            binding_count: 1,
            dead_queue_count: 0,
            name: options.name.as_ref().map(|name| format!("{name}.held")),
            ..options.clone()
        });
        topology.declare(options)?;
        let mut connection = Connection::open(&options.target)?;
        let queue = topology.queue(0);
        connection.call(id::CONFIRM_SELECT, id::CONFIRM_SELECT_OK, |out| out.push(0))?;
        let publish = Publish {
            channel: 1,
            exchange: "",
            routing_key: &queue,
            headers: &[],
            persistent: true,
            delayed: false,
            expiration: "",
            body_bytes: options.body_bytes,
            frame_bytes_max: connection.frame_bytes_max(),
        };
        for _ in 0..messages {
            // One at a time: a broker may confirm several at once otherwise.
            connection.publish(publish);
            connection.wait_for(id::BASIC_ACK)?;
        }
        connection.call(id::BASIC_CONSUME, id::BASIC_CONSUME_OK, |out| {
            out.extend_from_slice(&[0, 0]);
            wire::put_short(out, &queue);
            wire::put_short(out, "held");
            out.extend_from_slice(&[0; 5]);
        })?;
        for _ in 0..messages {
            connection.wait_for(id::BASIC_DELIVER)?;
        }
        Ok(Self(Some((connection, topology))))
    }

    fn release(self, options: &Options) -> Result<(), BenchError> {
        let Some((connection, topology)) = self.0 else {
            return Ok(());
        };
        connection.close(&[]);
        topology.delete(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lives_are_all_different_and_of_one_length() {
        let parse = |line: &str| Options::parse(line.split_whitespace().map(str::to_owned));
        let mut lives = expirations(&parse("--expiration 1000-9999").unwrap());
        assert!(lives.iter().all(|life| life.len() == 4));
        lives.sort();
        assert_eq!((lives[0].as_str(), lives[255].as_str()), ("1000", "9999"));
        lives.dedup();
        assert_eq!(lives.len(), 256);
        assert_eq!(expirations(&parse("").unwrap()), [""]);
    }

    #[test]
    fn shares_add_up() {
        for (all, shares) in [(10, 3), (2, 3), (9, 3), (1_000_000, 7)] {
            let parts: Vec<u64> = (0..shares).map(|index| share(all, index, shares)).collect();
            assert_eq!(parts.iter().sum::<u64>(), all);
            assert!(parts[0] - parts[parts.len() - 1] <= 1);
        }
    }

    #[test]
    fn a_message_counts_where_its_way_ends() {
        let counts = Counts {
            published: 100,
            delivered: 60,
            confirmed: 80,
            nacked: 1,
        };
        let of = |line: &str| {
            let options = Options::parse(line.split_whitespace().map(str::to_owned)).unwrap();
            Unit::of(&options).count(&counts)
        };
        assert_eq!(of(""), 60);
        assert_eq!(of("--exchange fanout --queues 3 --confirm 5"), 20);
        assert_eq!(of("--consumers 0 --confirm 5"), 81);
        assert_eq!(of("--consumers 0"), 100);
    }
}
