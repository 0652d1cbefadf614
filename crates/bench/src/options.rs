//! The command line of `menzil bench amqp`: words in, one checked value out.

mod checks;
mod idle_words;
mod words;

use crate::BenchError;
use crate::scenario::{Kind, Scenario};
use crate::uri::Target;
use std::path::PathBuf;
use std::time::Duration;
use words::{Given, Words};
pub(crate) use words::{bytes, nearest, number, seconds};

/// Where publishers send to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExchangeKind {
    /// The nameless one: the routing key is the queue's name.
    Default,
    Direct,
    Fanout,
    Topic,
    Headers,
}

impl ExchangeKind {
    pub(crate) const ALL: [(&'static str, Self); 5] = [
        ("default", Self::Default),
        ("direct", Self::Direct),
        ("fanout", Self::Fanout),
        ("topic", Self::Topic),
        ("headers", Self::Headers),
    ];

    /// The exchange type as the protocol names it.
    pub(crate) fn name(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(_, kind)| *kind == self)
            .map_or("", |(name, _)| name)
    }

    /// Whether each message goes to all queues, and not to one after the other.
    pub(crate) fn copies(self) -> bool {
        match self {
            Self::Default | Self::Direct => false,
            Self::Fanout | Self::Topic | Self::Headers => true,
        }
    }

    /// Whether more than one kind of binding matches a message.
    pub(crate) fn has_patterns(self) -> bool {
        matches!(self, Self::Topic | Self::Headers)
    }

    /// Whether there may be bindings that match no message.
    pub(crate) fn has_others(self) -> bool {
        self.has_patterns() || self == Self::Direct
    }
}

/// How a consumer settles what it gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Acks {
    /// The broker settles on delivery.
    Auto,
    /// One `basic.ack` per so many messages, `multiple` where it is more than one.
    Every(u64),
}

/// A checked command line.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) scenario: Scenario,
    pub(crate) target: Target,
    pub(crate) publisher_count: u64,
    pub(crate) consumer_count: u64,
    /// Connections that publishers and consumers share; `None` is one for each.
    pub(crate) connection_count: Option<u64>,
    /// Queues that messages reach and consumers consume from.
    pub(crate) queue_count: u64,
    pub(crate) queue_type: Option<String>,
    /// Queues more that messages reach and nobody consumes from.
    pub(crate) dead_queue_count: u64,
    /// Messages in a queue of their own that are delivered and never settled.
    pub(crate) held_count: u64,
    pub(crate) exchange: ExchangeKind,
    /// Bindings in all; those beyond one per queue match no message.
    pub(crate) binding_count: u64,
    /// Those that match nothing have no word in common with the messages.
    pub(crate) apart: bool,
    /// Queues of a direct exchange that a message goes to, on average.
    pub(crate) reach: u64,
    /// The least and the most milliseconds that messages may live, mixed.
    pub(crate) expiration: Option<(u64, u64)>,
    /// The least and the most milliseconds that messages wait in their exchange, mixed.
    pub(crate) delay: Option<(u64, u64)>,
    pub(crate) body_bytes: usize,
    pub(crate) persistent: bool,
    /// Messages without their confirm per publisher; `None` publishes without confirms.
    pub(crate) window: Option<u64>,
    pub(crate) prefetch_count: u16,
    pub(crate) acks: Acks,
    /// Messages per second over all publishers.
    pub(crate) rate: Option<u64>,
    /// Messages published and not delivered yet before publishers pause.
    pub(crate) backlog_max: u64,
    /// Bodies carry when they were sent.
    pub(crate) stamped: bool,
    /// Bodies carry who sent them and as which message, and consumers look at it.
    pub(crate) order_checked: bool,
    /// Messages in all, over all publishers.
    pub(crate) message_count: Option<u64>,
    pub(crate) measured: Duration,
    pub(crate) warmup: Duration,
    /// First part of every name that is declared.
    pub(crate) name: Option<String>,
    /// What is declared stays.
    pub(crate) keep: bool,
    /// What an earlier run kept is used.
    pub(crate) existing: bool,
    pub(crate) pid: Option<u32>,
    pub(crate) data_dir: Option<PathBuf>,
    pub(crate) json: bool,
    pub(crate) quiet: bool,
}

impl Options {
    /// Parses `--name value` and `--name=value`; every unknown word is refused by name.
    pub(crate) fn parse(args: impl IntoIterator<Item = String>) -> Result<Self, BenchError> {
        let args: Vec<String> = args.into_iter().collect();
        let scenario = words::scenario(&args)?;
        let mut given = Given::default();
        given.take_all(&mut Words::new(
            scenario.words.split_whitespace().map(str::to_owned),
        ))?;
        let written = words::written(&args)?;
        given.take_all(&mut Words::new(args))?;
        let options = Self::with_defaults(scenario, given)?;
        options.check()?;
        options.check_idle(&written)?;
        Ok(options)
    }

    fn with_defaults(scenario: Scenario, given: Given) -> Result<Self, BenchError> {
        let queue_count = given.queue_count.unwrap_or(1);
        let ack_batch = given.ack_batch.unwrap_or(1);
        let manual = given.manual.unwrap_or(false);
        let target = match given.target {
            Some(target) => target,
            None => Target::parse("amqp://127.0.0.1")?,
        };
        // A backlog has as many consumers as are asked for, everything else one per queue.
        let consumer_default = match scenario.kind {
            Kind::Flow => queue_count,
            Kind::Backlog(_) => 1,
            Kind::IdleConnections | Kind::Declare(_) | Kind::Churn(_) | Kind::Deletion => 0,
        };
        // Only an exchange that was declared can delay.
        let exchange_default = match given.delay {
            None => ExchangeKind::Default,
            Some(_) => ExchangeKind::Direct,
        };
        Ok(Self {
            scenario,
            target,
            publisher_count: given.publisher_count.unwrap_or(1),
            consumer_count: given.consumer_count.unwrap_or(consumer_default),
            connection_count: given.connection_count,
            queue_count,
            queue_type: given.queue_type,
            dead_queue_count: given.dead_queue_count.unwrap_or(0),
            held_count: given.held_count.unwrap_or(0),
            exchange: given.exchange.unwrap_or(exchange_default),
            binding_count: given.binding_count.unwrap_or(queue_count),
            apart: given.apart,
            reach: given.reach.unwrap_or(1),
            expiration: given.expiration,
            delay: given.delay,
            body_bytes: given.body_bytes.unwrap_or(100),
            persistent: given.persistent.unwrap_or(false),
            window: given.window.filter(|window| *window > 0),
            prefetch_count: given.prefetch_count.unwrap_or(if manual { 200 } else { 0 }),
            acks: if manual {
                Acks::Every(ack_batch)
            } else {
                Acks::Auto
            },
            rate: given.rate.filter(|rate| *rate > 0),
            backlog_max: given.backlog_max.unwrap_or(10_000),
            stamped: given.stamped,
            order_checked: given.order_checked,
            message_count: given.message_count,
            measured: given.measured.unwrap_or(Duration::from_secs(3)),
            warmup: given.warmup.unwrap_or(Duration::from_millis(500)),
            name: given.name,
            keep: given.keep,
            existing: given.existing,
            pid: given.pid,
            data_dir: given.data_dir,
            json: given.json,
            quiet: given.quiet,
        })
    }

    /// Deliveries that one publish leads to; 0 where nobody consumes.
    pub(crate) fn deliveries_per_publish(&self) -> u64 {
        match (self.consumer_count, self.exchange.copies()) {
            (0, _) => 0,
            (_, true) => self.queue_count,
            (_, false) => self.reach,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, BenchError> {
        Options::parse(line.split_whitespace().map(str::to_owned))
    }

    fn refusal(line: &str) -> String {
        match parse(line) {
            Err(BenchError::Usage(text)) => text,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn a_scenario_brings_its_words_and_the_users_override_them() {
        let options = parse("--confirm=7 --scenario confirm --json").unwrap();
        assert_eq!(
            (options.window, options.consumer_count, options.json),
            (Some(7), 0, true)
        );
        assert!(options.persistent);
        assert!(!parse("--scenario confirm --transient").unwrap().persistent);
        assert_eq!(parse("--scenario latency").unwrap().rate, Some(1000));
        assert_eq!(parse("--scenario=fanout").unwrap().consumer_count, 10);
        assert_eq!(
            parse("--scenario drain --ack auto").unwrap().acks,
            Acks::Auto
        );
        assert_eq!(
            parse("--seconds 0.25").unwrap().measured,
            Duration::from_millis(250)
        );
    }

    #[test]
    fn without_a_scenario_any_load_can_be_put_together() {
        let options = parse(
            "--publishers 3 --consumers 2 --connections 2 --queues 4 --exchange topic \
             --bindings 1_000 --size 2k --ack-batch 5 --rate 10k --messages 1M",
        )
        .unwrap();
        assert_eq!(options.deliveries_per_publish(), 4);
        assert_eq!((options.body_bytes, options.acks), (2048, Acks::Every(5)));
        assert_eq!((options.prefetch_count, options.binding_count), (200, 1000));
        assert_eq!(
            (options.rate, options.message_count),
            (Some(10_000), Some(1_000_000))
        );
        assert_eq!(parse("--queues 4").unwrap().deliveries_per_publish(), 1);
        assert_eq!(parse("--consumers 0").unwrap().deliveries_per_publish(), 0);
        assert_eq!(parse("--confirm 0").unwrap().window, None);
    }

    #[test]
    fn what_is_not_understood_is_refused_with_a_way_out() {
        for (line, way_out) in [
            ("--colour red", "--help"),
            ("--sise 5", "--size"),
            ("--publisher 2", "--publishers"),
            ("--window 5", "--confirm"),
            ("transient", "--scenario transient"),
            ("--size", "--size BYTES"),
            ("--size many", "whole number"),
            ("--size 1.5", "whole number"),
            ("--seconds -1", "seconds"),
            ("--scenario chaos", "transient"),
            ("--scenario", "transient"),
            ("--scenario fan-out", "fanout"),
            ("--exchange round", "fanout"),
            ("--ack sometimes", "manual"),
            ("--json=yes", "takes no value"),
            ("--publishers 0", "1 to"),
            ("--prefetch 10 --ack-batch 11", "--prefetch"),
            ("--stamp --size 4", "--size 8"),
            ("--check-order --size 8", "--size 20"),
            ("--stamp --consumers 0", "--consumers"),
            ("--bindings 10", "--exchange topic"),
            ("--reach 6", "--exchange direct"),
            ("--exchange direct --queues 4 --reach 6", "1 to 4"),
            ("--exchange direct --apart", "--exchange topic"),
            ("--expiration soon", "--expiration 1000-5000"),
            ("--expiration 500-1000", "as many digits"),
            ("--delay soon", "--delay 1000-5000"),
            ("--delay 9-5", "from less to more"),
            ("--delay 0", "1 to"),
            ("--delay 5 --exchange default", "--exchange direct"),
            ("--existing", "--name"),
            ("--uri http://x", "amqp://"),
            ("--uri localhost:5672", "write --uri amqp://localhost:5672"),
            ("--uri me:secret@host", "write --uri amqp://me:secret@host"),
            ("--scenario drain --consumers 0", "--consumers"),
            ("--pid 0", "1 to"),
            ("--queues 5000", "--consumers"),
            ("--scenario churn-channels --publishers 4", "--publishers"),
        ] {
            let text = refusal(line);
            assert!(text.contains(way_out), "{line}: {text}");
        }
    }

    #[test]
    fn what_would_do_nothing_is_refused_with_the_reason() {
        for (line, reason) in [
            ("--matches 3", "--exchange topic"),
            ("--scenario fanout --matches 3", "--queues N"),
            (
                "--ack auto --ack-batch 50",
                "--ack auto acknowledges nothing",
            ),
            (
                "--ack-batch 50 --ack auto",
                "--ack auto acknowledges nothing",
            ),
            ("--prefetch 10", "--ack manual"),
            ("--ack auto --prefetch 10", "--ack manual"),
            ("--scenario confirm --ack-batch 5", "--consumers N"),
            ("--consumers 0 --backlog 5", "--consumers N"),
            ("--messages 10 --seconds 5", "--messages ends the run"),
            ("--scenario backlog --seconds 5", "leave it out"),
            ("--scenario purge --ack-batch 5", "leave it out"),
            ("--scenario drain --hold 5", "leave it out"),
            (
                "--scenario idle-connections --queues 5",
                "heeds --connections alone",
            ),
            (
                "--scenario idle-queues --messages 5",
                "leave --messages out",
            ),
            ("--scenario bindings --size 5", "leave --size out"),
            (
                "--scenario churn-channels --exchange topic",
                "leave --exchange out",
            ),
        ] {
            let text = refusal(line);
            assert!(text.contains(reason), "{line}: {text}");
        }
        for line in [
            "--scenario topic --matches 3",
            "--scenario drain --ack auto",
            "--scenario drain --ack-batch 5 --prefetch 10",
            "--scenario manual-ack --prefetch 10",
            "--scenario confirm --consumers 1 --ack-batch 5",
            "--scenario idle-queues --exchange direct --name x --keep",
            "--scenario churn-bindings --exchange headers --messages 5",
            "--exchange direct --bindings 1k",
            "--exchange direct --queues 25 --reach 6",
            "--scenario topic --apart",
            "--scenario backlog --expiration 100000-999999",
            "--scenario delays --exchange topic --bindings 10",
            "--delay 900-30000 --consumers 0 --confirm 10",
            "--scenario delete-exchange --bindings 10 --exchange direct --seconds 1",
        ] {
            assert!(parse(line).is_ok(), "{line}: {:?}", parse(line));
        }
    }

    #[test]
    fn every_scenario_is_a_valid_command_line() {
        for scenario in Scenario::ALL {
            let options = parse(&format!("--scenario {}", scenario.name)).unwrap();
            assert_eq!(options.scenario.kind, scenario.kind);
        }
    }
}
