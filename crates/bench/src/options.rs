//! The command line: words in, one checked value out.

use crate::BenchError;
use crate::uri::Target;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// What `--help` prints.
pub const USAGE: &str = "\
A load generator for any AMQP 0-9-1 broker.

  --scenario NAME     transient   publish and consume, auto-ack (the default)
                      manual-ack  the same, acknowledged by the consumer
                      confirm     persistent, confirms at a window
                      confirm-one persistent, one unconfirmed message at a time
                      fanout      one fanout exchange, N queues, one consumer each
                      latency     end to end at a given rate
                      drain       preload a persistent backlog, then drain it
                      disk        4 KiB overwrite + fdatasync, 1 MiB append + fdatasync
  --uri URI           amqp://guest:guest@127.0.0.1:5672/%2f
  --size BYTES        body size (100)
  --seconds S         measured time (3)
  --warmup S          unmeasured time before it (0.5)
  --connections N     publishers, each on a connection of its own (1)
  --consumers N       consumers, likewise (1; confirm and confirm-one: 0)
  --queues N          queues of a fanout (10)
  --window N          unconfirmed messages per publisher (1000)
  --prefetch N        unacknowledged deliveries per consumer (200); 0 in drain: auto-ack
  --ack-batch N       deliveries per basic.ack (1)
  --rate N            messages per second over all publishers (latency: 1000; else no limit)
  --messages N        the backlog of drain (1000000)
  --backlog N         published messages not delivered yet before publishers pause (10000)
  --queue-type TYPE   x-queue-type of the queues: classic, quorum (none sent)
  --pid PID           broker process: CPU seconds per million messages, RSS, bytes written
  --dir DIR           folder for disk (.)
  --json              JSON instead of a table

Queues are durable and deleted at the end; whether messages are is up to the scenario.

Columns that need a word:
  messages, msg/s     delivered messages; in confirm and confirm-one confirmed ones; in fanout
                      messages delivered from every queue
  s/M                 CPU seconds the broker used per million of these messages (needs --pid)
  p50, p99, max       microseconds: latency end to end, else from publish to confirm
  RSS MiB             memory of the broker at the end (needs --pid)
  written B/msg       bytes the broker had written to disk per message (needs --pid); files it
                      prepares ahead count too, so that a short run shows more than a long one
  own CPU %           how much of one core this generator used
  no core %           how long it was ready to run and no core was free: the machine is busy
  void                not empty: the figures say more about the generator than about the broker.
                      saturated: it used 90 % of its core; starved: it would have, had it got one
";

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scenario {
    Transient,
    ManualAck,
    Confirm,
    ConfirmOne,
    Fanout,
    Latency,
    Drain,
    Disk,
}

impl Scenario {
    const ALL: [(&'static str, Self); 8] = [
        ("transient", Self::Transient),
        ("manual-ack", Self::ManualAck),
        ("confirm", Self::Confirm),
        ("confirm-one", Self::ConfirmOne),
        ("fanout", Self::Fanout),
        ("latency", Self::Latency),
        ("drain", Self::Drain),
        ("disk", Self::Disk),
    ];

    pub(crate) fn name(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(_, scenario)| *scenario == self)
            .map_or("", |(name, _)| name)
    }
}

impl FromStr for Scenario {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL
            .iter()
            .find(|(name, _)| *name == text)
            .map(|(_, scenario)| *scenario)
            .ok_or(())
    }
}

/// A checked command line.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) scenario: Scenario,
    pub(crate) target: Target,
    pub(crate) body_bytes: usize,
    pub(crate) measured: Duration,
    pub(crate) warmup: Duration,
    pub(crate) connection_count: u64,
    pub(crate) consumer_count: u64,
    pub(crate) queue_count: u64,
    pub(crate) window: u64,
    pub(crate) prefetch_count: u16,
    pub(crate) ack_batch: u64,
    pub(crate) rate: Option<u64>,
    pub(crate) message_count: u64,
    pub(crate) backlog_max: u64,
    pub(crate) queue_type: Option<String>,
    pub(crate) pid: Option<u32>,
    pub(crate) dir: PathBuf,
    pub(crate) json: bool,
}

impl Options {
    /// Parses `--name value` and `--name=value`; every unknown word is refused by name.
    pub(crate) fn parse(args: impl IntoIterator<Item = String>) -> Result<Self, BenchError> {
        let mut words = args.into_iter();
        let mut given = Given::default();
        while let Some(word) = words.next() {
            let Some(name) = word.strip_prefix("--") else {
                return Err(BenchError::Usage(format!("unexpected word {word:?}")));
            };
            let (name, value) = match name.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (name, None),
            };
            if name == "json" && value.is_none() {
                given.json = true;
                continue;
            }
            let value = value
                .or_else(|| words.next())
                .ok_or_else(|| BenchError::Usage(format!("--{name} lacks its value")))?;
            given.set(name, &value)?;
        }
        given.checked()
    }
}

/// The options as given, before a scenario's defaults.
#[derive(Debug, Default)]
struct Given {
    scenario: Option<Scenario>,
    target: Option<Target>,
    body_bytes: Option<usize>,
    measured: Option<Duration>,
    warmup: Option<Duration>,
    connection_count: Option<u64>,
    consumer_count: Option<u64>,
    queue_count: Option<u64>,
    window: Option<u64>,
    prefetch_count: Option<u16>,
    ack_batch: Option<u64>,
    rate: Option<u64>,
    message_count: Option<u64>,
    backlog_max: Option<u64>,
    queue_type: Option<String>,
    pid: Option<u32>,
    dir: Option<PathBuf>,
    json: bool,
}

impl Given {
    fn set(&mut self, name: &str, value: &str) -> Result<(), BenchError> {
        match name {
            "scenario" => self.scenario = Some(number(name, value)?),
            "uri" => self.target = Some(Target::parse(value)?),
            "size" => self.body_bytes = Some(number(name, value)?),
            "seconds" => self.measured = Some(seconds(name, value)?),
            "warmup" => self.warmup = Some(seconds(name, value)?),
            "connections" => self.connection_count = Some(number(name, value)?),
            "consumers" => self.consumer_count = Some(number(name, value)?),
            "queues" => self.queue_count = Some(number(name, value)?),
            "window" => self.window = Some(number(name, value)?),
            "prefetch" => self.prefetch_count = Some(number(name, value)?),
            "ack-batch" => self.ack_batch = Some(number(name, value)?),
            "rate" => self.rate = Some(number(name, value)?),
            "messages" => self.message_count = Some(number(name, value)?),
            "backlog" => self.backlog_max = Some(number(name, value)?),
            "queue-type" => self.queue_type = Some(value.to_owned()),
            "pid" => self.pid = Some(number(name, value)?),
            "dir" => self.dir = Some(value.into()),
            _ => return Err(BenchError::Usage(format!("unknown option --{name}"))),
        }
        Ok(())
    }

    fn checked(self) -> Result<Options, BenchError> {
        let scenario = self.scenario.unwrap_or(Scenario::Transient);
        let confirming = matches!(scenario, Scenario::Confirm | Scenario::ConfirmOne);
        let default_rate = (scenario == Scenario::Latency).then_some(1000);
        let target = match self.target {
            Some(target) => target,
            None => Target::parse("amqp://127.0.0.1")?,
        };
        let options = Options {
            scenario,
            target,
            body_bytes: self.body_bytes.unwrap_or(100),
            measured: self.measured.unwrap_or(Duration::from_secs(3)),
            warmup: self.warmup.unwrap_or(Duration::from_millis(500)),
            connection_count: self.connection_count.unwrap_or(1),
            consumer_count: self
                .consumer_count
                .unwrap_or_else(|| u64::from(!confirming)),
            queue_count: self.queue_count.unwrap_or(10),
            window: self.window.unwrap_or(1000),
            prefetch_count: self.prefetch_count.unwrap_or(200),
            ack_batch: self.ack_batch.unwrap_or(1),
            rate: self.rate.or(default_rate),
            message_count: self.message_count.unwrap_or(1_000_000),
            backlog_max: self.backlog_max.unwrap_or(10_000),
            queue_type: self.queue_type,
            pid: self.pid,
            dir: self.dir.unwrap_or_else(|| ".".into()),
            json: self.json,
        };
        options.check_ranges()?;
        Ok(options)
    }
}

impl Options {
    fn check_ranges(&self) -> Result<(), BenchError> {
        let refuse = |text: &str| Err(BenchError::Usage(text.to_owned()));
        let within = |value: u64, most: u64| (1..=most).contains(&value);
        if !within(self.connection_count, 1000) || self.consumer_count > 1000 {
            return refuse("--connections is 1 to 1000, --consumers 0 to 1000");
        }
        if !within(self.queue_count, 1000) || !within(self.window, 10_000_000) {
            return refuse("--queues is 1 to 1000, --window 1 to 10000000");
        }
        if self.ack_batch == 0 || self.rate == Some(0) || self.backlog_max == 0 {
            return refuse("--ack-batch, --rate and --backlog are at least 1");
        }
        if self.message_count == 0 || self.body_bytes > 128 << 20 {
            return refuse("--messages is at least 1, --size at most 134217728");
        }
        if self.prefetch_count > 0 && self.ack_batch > u64::from(self.prefetch_count) {
            return refuse("--ack-batch over --prefetch would never acknowledge");
        }
        let consumes = !matches!(self.scenario, Scenario::Confirm | Scenario::ConfirmOne);
        if consumes && self.consumer_count == 0 {
            return refuse("this scenario needs --consumers of at least 1");
        }
        if self.scenario == Scenario::Latency && self.body_bytes < 8 {
            return refuse("latency needs --size of at least 8");
        }
        Ok(())
    }
}

fn number<T: FromStr>(name: &str, value: &str) -> Result<T, BenchError> {
    value
        .parse()
        .map_err(|_| BenchError::Usage(format!("--{name} {value:?} is not valid")))
}

fn seconds(name: &str, value: &str) -> Result<Duration, BenchError> {
    let refuse = || BenchError::Usage(format!("--{name} {value:?} is not valid"));
    let seconds: f64 = value.parse().map_err(|_| refuse())?;
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|time| *time <= Duration::from_hours(24))
        .ok_or_else(refuse)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, BenchError> {
        Options::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn a_scenario_brings_its_defaults_and_words_override_them() {
        let options = parse("--scenario confirm --window=7 --json").unwrap();
        assert_eq!(
            (options.window, options.consumer_count, options.json),
            (7, 0, true)
        );
        assert_eq!(parse("--scenario latency").unwrap().rate, Some(1000));
        assert_eq!(parse("").unwrap().consumer_count, 1);
        assert_eq!(
            parse("--seconds 0.25").unwrap().measured,
            Duration::from_millis(250)
        );
    }

    #[test]
    fn what_is_not_understood_is_refused_by_name() {
        for line in [
            "--colour red",
            "transient",
            "--size",
            "--size many",
            "--scenario chaos",
            "--connections 0",
            "--consumers 0",
            "--rate 0",
            "--seconds -1",
            "--prefetch 10 --ack-batch 11",
            "--scenario latency --size 4",
        ] {
            assert!(matches!(parse(line), Err(BenchError::Usage(_))), "{line}");
        }
    }

    #[test]
    fn the_usage_names_every_scenario() {
        for (name, scenario) in Scenario::ALL {
            assert!(USAGE.contains(name));
            assert_eq!(scenario.name(), name);
        }
    }
}
