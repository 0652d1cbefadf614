//! Messages that flow: publishers and subscribers at work for a time, or until all went through.

use super::engine::Engine;
use super::link::{Link, Role};
use super::names::Names;
use super::options::Options;
use super::publisher::{Limits, Publisher, Turn};
use super::subscriber::Subscriber;
use super::wire::{Accepted, Publish, Session, Version};
use crate::BenchError;
use crate::engine::{Counts, Until};
use crate::meter::Meter;
use crate::numbers::{count, length};
use crate::progress::Progress;
use crate::report::{Latency, Row};
use std::time::Duration;

/// How long nothing may come at the end before what is missing is lost.
pub(super) const SILENCE: Duration = Duration::from_secs(2);

pub(super) fn measure(options: &Options) -> Result<Vec<Row>, BenchError> {
    let names = Names::of(options.name.as_deref());
    // Subscribers first: the broker has them before the first message.
    let (mut links, granted) = subscribers(options, &names)?;
    let (publishers, window) = publishers(options, &names, Payload::Message)?;
    links.extend(publishers);
    let deliveries = options.deliveries_per_publish();
    let mut engine = Engine::new(links, deliveries, options.backlog_max)?;
    let mut progress = Progress::new(options.scenario.name, options.quiet);
    if options.message_count.is_none() {
        engine.run(Until::Elapsed(options.warmup), &mut progress)?;
    }
    let unit = match deliveries {
        0 if options.publish_qos > 0 => Unit::Settled,
        0 => Unit::Published,
        _ => Unit::Delivered,
    };
    let row = phase(&mut engine, options, unit, &mut progress)?;
    engine.settle(SILENCE, &mut progress)?;
    let row = Row {
        setup: setup(options, window, granted),
        lost: engine.lost(),
        ..row
    };
    let surplus = engine.surplus();
    engine.close();
    if surplus > 0 {
        return Err(BenchError::Misordered(surplus));
    }
    Ok(vec![row])
}

/// What rate and cost are given per.
#[derive(Debug, Clone, Copy)]
pub(super) enum Unit {
    Published,
    /// Acknowledged or refused.
    Settled,
    Delivered,
}

impl Unit {
    fn count(self, counts: &Counts) -> u64 {
        match self {
            Self::Published => counts.published,
            Self::Settled => counts.confirmed + counts.nacked,
            Self::Delivered => counts.delivered,
        }
    }
}

/// Measures for the time that is given, or until all messages are through.
pub(super) fn phase(
    engine: &mut Engine,
    options: &Options,
    unit: Unit,
    progress: &mut Progress,
) -> Result<Row, BenchError> {
    engine.tally.latency.clear();
    let before = engine.tally.counts();
    let meter = Meter::of(options.pid, options.data_dir.as_deref())?;
    match options.message_count {
        None => engine.run(Until::Elapsed(options.measured), progress)?,
        Some(messages) => {
            let target = Counts {
                published: messages,
                ..Counts::default()
            };
            engine.run(Until::Done(target), progress)?;
            engine.settle(SILENCE, progress)?;
        }
    }
    let reading = meter.stop()?;
    let counts = engine.tally.counts().since(before);
    let done = unit.count(&counts);
    Ok(Row {
        unit: "messages",
        counts,
        done,
        latency: Latency::of(&engine.tally.latency),
        body_bytes: Some(done * count(options.payload_bytes)),
        ..reading.row(options.scenario.name.to_owned())
    })
}

/// The load in words.
pub(super) fn setup(options: &Options, window: Option<u16>, granted: Option<u8>) -> String {
    let mut parts = vec![version(options).to_owned()];
    parts.push(match granted {
        Some(granted) if granted < options.subscribe_qos => {
            format!("QoS {} → {granted} (granted)", options.publish_qos)
        }
        Some(granted) if granted != options.publish_qos => {
            format!("QoS {} → {granted}", options.publish_qos)
        }
        Some(_) | None => format!("QoS {}", options.publish_qos),
    });
    parts.push(format!("{} B", options.payload_bytes));
    let (publishers, subscribers) = (options.publisher_count, options.subscriber_count);
    parts.push(format!("{publishers}→{subscribers}"));
    if options.topic_count > 1 {
        let apart = if options.apart { " shared out" } else { "" };
        parts.push(format!("{} topics{apart}", options.topic_count));
    }
    if options.filter_count > 0 {
        parts.push(format!("{} filters more", options.filter_count));
    }
    match options.group_count {
        0 => {}
        1 => parts.push("one shared group".to_owned()),
        groups => parts.push(format!("{groups} shared groups")),
    }
    parts.extend(window.map(|window| format!("window {window}")));
    parts.extend(options.rate.map(|rate| format!("{rate}/s")));
    parts.join(" · ")
}

pub(super) fn version(options: &Options) -> &'static str {
    match options.version {
        Version::V311 => "3.1.1",
        Version::V5 => "5.0",
    }
}

/// Connects and subscribes all; returns the least QoS that was granted, if anybody is there.
fn subscribers(options: &Options, names: &Names) -> Result<(Vec<Link>, Option<u8>), BenchError> {
    let mut links = Vec::new();
    let mut granted = None;
    for number in 0..options.subscriber_count {
        let (mut link, _) = Link::open(options, &names.client('s', number), Session::Clean)?;
        let qos = link.subscribe(&filters(options, names, number), options.subscribe_qos)?;
        granted = Some(granted.map_or(qos, |least: u8| least.min(qos)));
        link.role = subscriber(options);
        links.push(link);
    }
    Ok((links, granted))
}

pub(super) fn subscriber(options: &Options) -> Role {
    Role::Subscriber(Subscriber {
        version: options.version,
        stamped: options.stamped,
    })
}

/// The filters of one subscriber: what it needs, and those that match nothing before it.
pub(super) fn filters(options: &Options, names: &Names, number: u64) -> Vec<String> {
    let mut filters: Vec<String> = (0..options.filter_count)
        .map(|index| names.other(number * options.filter_count + index))
        .collect();
    let own = if options.apart {
        let step = length(options.subscriber_count);
        let numbers = (number..options.topic_count).step_by(step);
        numbers.map(|topic| names.topic(topic)).collect()
    } else if options.topic_count > 1 {
        vec![names.all()]
    } else {
        vec![names.topic(0)]
    };
    filters.extend(own.into_iter().map(|filter| match options.group_count {
        0 => filter,
        groups => names.shared(number % groups, &filter),
    }));
    filters
}

/// What publishers send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Payload {
    Message,
    /// A retained message to each topic once.
    Retained,
    /// Nothing, which deletes them.
    Clear,
}

/// Connects publishers; returns the window that the broker allows, if there is one.
pub(super) fn publishers(
    options: &Options,
    names: &Names,
    payload: Payload,
) -> Result<(Vec<Link>, Option<u16>), BenchError> {
    let mut links = Vec::new();
    let mut window = options.window;
    for number in 0..options.publisher_count {
        let (mut link, accepted) = Link::open(options, &names.client('p', number), Session::Clean)?;
        check_limits(options, accepted)?;
        window = window.min(accepted.receive_max);
        link.role = Role::Publisher(Box::new(publisher(options, names, payload, number, window)));
        links.push(link);
    }
    Ok((links, (options.publish_qos > 0).then_some(window)))
}

fn check_limits(options: &Options, accepted: Accepted) -> Result<(), BenchError> {
    if options.publish_qos > accepted.qos_max {
        return Err(BenchError::Usage(format!(
            "the broker takes no publish above QoS {}; write --pub-qos {0}",
            accepted.qos_max
        )));
    }
    Ok(())
}

fn publisher(
    options: &Options,
    names: &Names,
    payload: Payload,
    number: u64,
    window: u16,
) -> Publisher {
    let retained = payload != Payload::Message;
    let topics = if retained {
        options.retained_count
    } else {
        options.topic_count
    };
    let all = if retained {
        Some(options.retained_count)
    } else {
        options.message_count
    };
    let publishers = options.publisher_count;
    let topic = names.topic(0);
    let message = Publish {
        version: options.version,
        topic: &topic,
        qos: options.publish_qos,
        retain: retained,
        payload_bytes: match payload {
            Payload::Clear => 0,
            Payload::Message | Payload::Retained => options.payload_bytes,
        },
    };
    let turn = Turn {
        first: if retained {
            (0..number).map(|one| share(topics, one, publishers)).sum()
        } else {
            number * topics / publishers
        },
        topics,
    };
    let limits = Limits {
        window,
        rate: options.rate.map(|rate| (rate, publishers)),
        messages: all.map(|all| share(all, number, publishers)),
    };
    Publisher::new(message, turn, limits, options.stamped)
}

/// The part of `all` that falls to one of `shares`, so that they add up.
fn share(all: u64, index: u64, shares: u64) -> u64 {
    all / shares + u64::from(index < all % shares)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Options {
        Options::parse(line.split_whitespace().map(str::to_owned)).unwrap()
    }

    #[test]
    fn every_subscriber_has_the_filters_it_needs() {
        let names = Names::of(Some("x"));
        let of = |line: &str, number| filters(&parse(line), &names, number);
        assert_eq!(of("", 0), ["bench/x/000/000/000"]);
        assert_eq!(of("--topics 2", 0), ["bench/x/#"]);
        assert_eq!(
            of("--topics 5 --subscribers 2 --apart", 1),
            ["bench/x/000/000/001", "bench/x/000/000/003"]
        );
        assert_eq!(
            of("--subscribers 4 --shared 2", 3),
            ["$share/x1/bench/x/000/000/000"]
        );
        assert_eq!(of("--filters 10", 0).len(), 11);
    }

    #[test]
    fn the_load_is_told_in_words() {
        assert_eq!(
            setup(&parse("--scenario qos2"), Some(20), Some(1)),
            "3.1.1 · QoS 2 → 1 (granted) · 100 B · 1→1 · window 20"
        );
        assert_eq!(
            setup(&parse("--scenario shared"), Some(20), Some(1)),
            "5.0 · QoS 1 · 100 B · 1→10 · one shared group · window 20"
        );
    }

    #[test]
    fn shares_add_up() {
        for (all, shares) in [(10, 3), (2, 3), (9, 3), (1_000_000, 7)] {
            let sum: u64 = (0..shares).map(|index| share(all, index, shares)).sum();
            assert_eq!(sum, all);
        }
    }
}
