//! The command line of `menzil bench mqtt`: words in, one checked value out.

use super::publisher::STAMP_BYTES;
use super::scenario::{Kind, Scenario};
use super::wire::Version;
use super::words::{self, Given, refuse};
use crate::BenchError;
use crate::numbers::length;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

const LINKS_MAX: u64 = 2000;
const CONNECTIONS_MAX: u64 = 500_000;
const TOPICS_MAX: u64 = super::names::TOPICS_MAX;
/// Of a topic name, with what stands before and behind.
const NAME_BYTES_MAX: usize = 1000;

/// As whom to connect.
#[derive(Debug, Clone, Default)]
pub(crate) struct Login {
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
}

/// A checked command line.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) scenario: Scenario,
    pub(crate) address: SocketAddr,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) version: Version,
    pub(crate) publisher_count: u64,
    pub(crate) subscriber_count: u64,
    /// Topics that publishers take in turn.
    pub(crate) topic_count: u64,
    /// Filters of each subscriber; those beyond the ones it needs match no message.
    pub(crate) filter_count: u64,
    /// The topics are shared out among the subscribers.
    pub(crate) apart: bool,
    /// Shared groups that the subscribers are members of; 0 is none.
    pub(crate) group_count: u64,
    pub(crate) publish_qos: u8,
    pub(crate) subscribe_qos: u8,
    pub(crate) payload_bytes: usize,
    /// Publishes per publisher whose exchange is not at its end.
    pub(crate) window: u16,
    /// Messages per second over all publishers.
    pub(crate) rate: Option<u64>,
    /// Deliveries that may be missing before publishers pause.
    pub(crate) backlog_max: u64,
    /// The subscribers are durable sessions that are away while messages are published.
    pub(crate) offline: bool,
    /// Payloads carry when they were sent.
    pub(crate) stamped: bool,
    pub(crate) retained_count: u64,
    pub(crate) connection_count: u64,
    pub(crate) session_count: u64,
    /// Connections that begin in a second.
    pub(crate) ramp: Option<u64>,
    /// Messages in all, over all publishers.
    pub(crate) message_count: Option<u64>,
    pub(crate) measured: Duration,
    pub(crate) warmup: Duration,
    /// Part of every name.
    pub(crate) name: Option<String>,
    /// Sessions and retained messages stay.
    pub(crate) keep: bool,
    pub(crate) pid: Option<u32>,
    pub(crate) data_dir: Option<PathBuf>,
    pub(crate) json: bool,
    pub(crate) quiet: bool,
}

impl Options {
    /// Parses `--name value` and `--name=value`; every unknown word is refused by name.
    pub(crate) fn parse(args: impl IntoIterator<Item = String>) -> Result<Self, BenchError> {
        let written = words::written(args)?;
        let scenario = words::scenario(&written)?;
        let mut given = Given::default();
        let own = scenario.words.split_whitespace().map(str::to_owned);
        given.take_all(&words::written(own)?)?;
        given.take_all(&written)?;
        let options = Self::with_defaults(scenario, given)?;
        options.check_ranges()?;
        options.check_together(&written)?;
        options.check_idle(&written)?;
        Ok(options)
    }

    fn with_defaults(scenario: Scenario, given: Given) -> Result<Self, BenchError> {
        let topic_count = given.topic_count.unwrap_or(1);
        let publish_qos = given.publish_qos.unwrap_or(0);
        let window = given
            .window
            .unwrap_or(if publish_qos == 0 { 0 } else { 100 });
        Ok(Self {
            scenario,
            address: given
                .address
                .unwrap_or_else(|| SocketAddr::from((Ipv4Addr::LOCALHOST, 1883))),
            user: given.login.user,
            password: given.login.password,
            version: given.version.unwrap_or(Version::V311),
            publisher_count: given.publisher_count.unwrap_or(1),
            subscriber_count: given.subscriber_count.unwrap_or(1),
            topic_count,
            filter_count: given.filter_count.unwrap_or(0),
            apart: given.apart,
            group_count: given.group_count.unwrap_or(0),
            publish_qos,
            subscribe_qos: given.subscribe_qos.unwrap_or(0),
            payload_bytes: length(given.payload_bytes.unwrap_or(100)),
            window: within("window", window, 0, u64::from(u16::MAX))?,
            rate: given.rate.filter(|rate| *rate > 0),
            backlog_max: given.backlog_max.unwrap_or(10_000),
            offline: given.offline,
            stamped: given.stamped,
            retained_count: given.retained_count.unwrap_or(1),
            connection_count: given.connection_count.unwrap_or(1),
            session_count: given.session_count.unwrap_or(1),
            ramp: given.ramp.filter(|ramp| *ramp > 0),
            message_count: given.message_count,
            measured: given.measured.unwrap_or(Duration::from_secs(3)),
            warmup: given.warmup.unwrap_or(Duration::from_millis(500)),
            name: given.name,
            keep: given.keep,
            pid: given
                .pid
                .map(|pid| within("pid", pid, 1, u64::from(u32::MAX)))
                .transpose()?,
            data_dir: given.data_dir,
            json: given.json,
            quiet: given.quiet,
        })
    }

    /// Deliveries that one publish leads to; 0 where nobody is there.
    pub(crate) fn deliveries_per_publish(&self) -> u64 {
        match (self.subscriber_count, self.group_count) {
            (0, _) => 0,
            (_, 0) if self.apart => 1,
            (subscribers, 0) => subscribers,
            (_, groups) => groups,
        }
    }

    fn check_ranges(&self) -> Result<(), BenchError> {
        for (name, value, least, most) in [
            ("publishers", self.publisher_count, 1, LINKS_MAX),
            ("subscribers", self.subscriber_count, 0, LINKS_MAX),
            ("topics", self.topic_count, 1, TOPICS_MAX),
            ("filters", self.filter_count, 0, 1_000_000),
            ("shared", self.group_count, 0, LINKS_MAX),
            (
                "size",
                crate::numbers::count(self.payload_bytes),
                0,
                128 << 20,
            ),
            ("rate", self.rate.unwrap_or(1), 1, 1_000_000_000),
            ("backlog", self.backlog_max, 1, 1_000_000_000),
            ("retained", self.retained_count, 1, TOPICS_MAX),
            ("connections", self.connection_count, 1, CONNECTIONS_MAX),
            ("sessions", self.session_count, 1, CONNECTIONS_MAX),
            ("ramp", self.ramp.unwrap_or(1), 1, 1_000_000),
            (
                "messages",
                self.message_count.unwrap_or(1),
                1,
                1_000_000_000_000,
            ),
        ] {
            let _in_range: u64 = within(name, value, least, most)?;
        }
        Ok(())
    }

    fn check_together(&self, written: &[(String, String)]) -> Result<(), BenchError> {
        let wrote = |name: &str| written.iter().any(|(one, _)| one == name);
        if self.measured.is_zero() {
            return refuse("--seconds 0 measures nothing: write how long, such as 3 or 0.5");
        }
        if let Some(missing) = self.data_dir.as_ref().filter(|dir| !dir.is_dir()) {
            return refuse(format!(
                "--data-dir {} is no folder: name the broker's data folder",
                missing.display()
            ));
        }
        if let Some(name) = self.name.as_ref().filter(|name| {
            name.len() > NAME_BYTES_MAX || name.is_empty() || name.contains(['/', '+', '#', '\0'])
        }) {
            return refuse(format!(
                "--name {name:?} is part of topics and of client identifiers: write letters and \
                 digits"
            ));
        }
        if self.password.is_some() && self.user.is_none() && self.version == Version::V311 {
            return refuse("3.1.1 has no password without a user; write --user NAME too");
        }
        if self.publish_qos == 0 && wrote("window") {
            return refuse("--window does nothing with QoS 0: write --qos 1 or --qos 2 too");
        }
        if self.publish_qos > 0 && self.window == 0 {
            return refuse("--window 0 sends nothing; write 1 or more");
        }
        if self.stamped && self.payload_bytes < STAMP_BYTES {
            return refuse(format!("--stamp needs --size {STAMP_BYTES} or more"));
        }
        if self.stamped && (self.subscriber_count == 0 || self.offline) {
            return refuse("--stamp times deliveries, and nobody is there to get any");
        }
        if self.apart && self.topic_count < self.subscriber_count {
            return refuse(format!(
                "--apart shares topics out, and there are fewer than subscribers; write --topics {}",
                self.subscriber_count
            ));
        }
        if self.apart && self.group_count > 0 {
            return refuse("--apart and --shared both say who gets what; write one of them");
        }
        if self.group_count > self.subscriber_count {
            return refuse(format!(
                "--shared {} groups need as many members; write --subscribers {0}",
                self.group_count
            ));
        }
        if self.offline && self.subscriber_count == 0 {
            return refuse("--offline sessions are the subscribers'; write --subscribers 1");
        }
        if self.offline && self.publish_qos.min(self.subscribe_qos) == 0 {
            return refuse("a session that is away gets nothing of QoS 0; write --qos 1");
        }
        if matches!(self.scenario.kind, Kind::Storm | Kind::Puback) && self.subscribe_qos == 0 {
            return refuse("a durable session here subscribes with QoS 1 or 2; write --qos 1");
        }
        if self.scenario.kind == Kind::Puback && self.publish_qos == 0 {
            return refuse("QoS 0 has no PUBACK; write --qos 1");
        }
        Ok(())
    }

    /// What would do nothing in this run is refused.
    fn check_idle(&self, written: &[(String, String)]) -> Result<(), BenchError> {
        const EVERYWHERE: &str =
            "scenario connect user password version name pid data-dir json quiet";
        let used = match self.scenario.kind {
            Kind::Flow if self.offline => {
                "publishers subscribers topics filters apart shared qos pub-qos sub-qos size \
                 window rate offline messages seconds keep"
            }
            Kind::Flow => {
                "publishers subscribers topics filters apart shared qos pub-qos sub-qos size \
                 window rate backlog offline stamp messages seconds warmup"
            }
            Kind::Retained(_) => "publishers retained qos pub-qos sub-qos size window rate keep",
            Kind::IdleConnections => "connections ramp filters qos sub-qos",
            Kind::IdleSessions => "sessions ramp filters qos sub-qos keep",
            Kind::Storm => "connections ramp filters qos sub-qos keep",
            Kind::Puback => "qos pub-qos sub-qos size messages",
        };
        let known = |name: &str| {
            let mut all = EVERYWHERE.split(' ').chain(used.split_whitespace());
            all.any(|one| one == name)
        };
        let Some((name, _)) = written.iter().find(|(name, _)| !known(name)) else {
            return Ok(());
        };
        refuse(format!(
            "--{name} does nothing in the scenario {}; leave it out",
            self.scenario.name
        ))
    }
}

fn within<T: TryFrom<u64>>(name: &str, value: u64, least: u64, most: u64) -> Result<T, BenchError> {
    let narrow = T::try_from(value).ok();
    match narrow.filter(|_| (least..=most).contains(&value)) {
        Some(narrow) => Ok(narrow),
        None => refuse(format!("--{name} is {least} to {most}, not {value}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, BenchError> {
        Options::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn a_scenario_brings_its_words_and_the_users_override_them() {
        let options = parse("--window=7 --scenario qos1 --json").unwrap();
        assert_eq!((options.window, options.json), (7, true));
        assert_eq!((options.publish_qos, options.subscribe_qos), (1, 1));
        let options = parse("--scenario qos2 --sub-qos 0 --version 5").unwrap();
        assert_eq!((options.publish_qos, options.subscribe_qos), (2, 0));
        assert_eq!((options.version, options.window), (Version::V5, 20));
        for scenario in Scenario::ALL {
            let line = format!("--scenario {}", scenario.name);
            assert!(parse(&line).is_ok(), "{line}");
        }
    }

    #[test]
    fn a_publish_leads_to_as_many_deliveries_as_are_asked_for() {
        for (line, deliveries) in [
            ("", 1),
            ("--subscribers 0", 0),
            ("--scenario fanout0", 100),
            ("--scenario fanin", 1),
            ("--scenario shared --shared 2", 2),
            ("--subscribers 5 --topics 10 --apart", 1),
        ] {
            let options = parse(line).unwrap();
            assert_eq!(options.deliveries_per_publish(), deliveries, "{line}");
        }
    }

    #[test]
    fn what_is_not_understood_is_refused_with_a_way_out() {
        for (line, way_out) in [
            ("qos1", "--scenario qos1"),
            ("--scenario fanot0", "--scenario fanout0"),
            ("--scenario nothing", "one of qos0"),
            ("--uri x", "--connect"),
            ("--windw 1", "--window"),
            ("--qos 3", "0, 1 and 2"),
            ("--qos", "--qos 0|1|2"),
            ("--json=yes", "write --json alone"),
            ("--version 3", "3.1.1 nor 5"),
            ("--connect mqtt://x", "HOST:PORT"),
            ("--window 5", "--qos 1"),
            ("--qos 1 --window 0", "1 or more"),
            ("--qos 1 --window 70000", "0 to 65535"),
            ("--stamp --size 4", "--size 8"),
            ("--stamp --subscribers 0", "nobody"),
            ("--subscribers 3 --apart", "--topics 3"),
            ("--shared 2", "--subscribers 2"),
            ("--offline", "--qos 1"),
            ("--scenario offline --warmup 3", "leave it out"),
            ("--scenario storm --size 3", "leave it out"),
            ("--name a/b", "letters"),
            ("--password x", "--user"),
            ("--pid 0", "1 to"),
            ("--seconds 0", "0.5"),
            ("--data-dir /nowhere/at/all", "no folder"),
        ] {
            let text = parse(line).unwrap_err().to_string();
            assert!(text.contains(way_out), "{line}: {text}");
        }
    }
}
