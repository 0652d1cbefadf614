//! Words of the command line, taken one by one.

use super::options::Login;
use super::scenario::Scenario;
use super::wire::Version;
use crate::BenchError;
use crate::options::{bytes, nearest, number, seconds};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

/// Options with a value, and what the value is called in messages.
const VALUED: &[(&str, &str)] = &[
    ("scenario", "NAME"),
    ("connect", "HOST:PORT"),
    ("user", "NAME"),
    ("password", "TEXT"),
    ("version", "3.1.1|5"),
    ("publishers", "N"),
    ("subscribers", "N"),
    ("topics", "N"),
    ("filters", "N"),
    ("shared", "N"),
    ("qos", "0|1|2"),
    ("pub-qos", "0|1|2"),
    ("sub-qos", "0|1|2"),
    ("size", "BYTES"),
    ("window", "N"),
    ("rate", "N"),
    ("backlog", "N"),
    ("retained", "N"),
    ("connections", "N"),
    ("sessions", "N"),
    ("ramp", "N"),
    ("messages", "N"),
    ("seconds", "S"),
    ("warmup", "S"),
    ("name", "NAME"),
    ("pid", "PID"),
    ("data-dir", "DIR"),
];

const FLAGS: &[&str] = &["apart", "offline", "stamp", "keep", "json", "quiet"];

/// Names that these options have elsewhere.
const SYNONYMS: &[(&str, &str)] = &[
    ("uri", "connect"),
    ("host", "connect"),
    ("port", "connect"),
    ("consumers", "subscribers"),
    ("confirm", "window"),
    ("inflight", "window"),
    ("payload", "size"),
    ("protocol", "version"),
    ("groups", "shared"),
    ("time", "seconds"),
];

/// The options as given; what is absent gets its default later.
#[derive(Debug, Default)]
pub(super) struct Given {
    pub(super) address: Option<SocketAddr>,
    pub(super) login: Login,
    pub(super) version: Option<Version>,
    pub(super) publisher_count: Option<u64>,
    pub(super) subscriber_count: Option<u64>,
    pub(super) topic_count: Option<u64>,
    pub(super) filter_count: Option<u64>,
    pub(super) group_count: Option<u64>,
    pub(super) publish_qos: Option<u8>,
    pub(super) subscribe_qos: Option<u8>,
    pub(super) payload_bytes: Option<u64>,
    pub(super) window: Option<u64>,
    pub(super) rate: Option<u64>,
    pub(super) backlog_max: Option<u64>,
    pub(super) retained_count: Option<u64>,
    pub(super) connection_count: Option<u64>,
    pub(super) session_count: Option<u64>,
    pub(super) ramp: Option<u64>,
    pub(super) message_count: Option<u64>,
    pub(super) measured: Option<Duration>,
    pub(super) warmup: Option<Duration>,
    pub(super) name: Option<String>,
    pub(super) pid: Option<u64>,
    pub(super) data_dir: Option<PathBuf>,
    pub(super) apart: bool,
    pub(super) offline: bool,
    pub(super) stamped: bool,
    pub(super) keep: bool,
    pub(super) json: bool,
    pub(super) quiet: bool,
}

/// All words, as names with their values, flags with none.
pub(super) fn written(
    words: impl IntoIterator<Item = String>,
) -> Result<Vec<(String, String)>, BenchError> {
    let mut words = words.into_iter();
    let mut written = Vec::new();
    while let Some(word) = words.next() {
        let Some(name) = word.strip_prefix("--") else {
            return Err(unexpected(&word));
        };
        let (name, mut value) = match name.split_once('=') {
            Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
            None => (name.to_owned(), None),
        };
        if FLAGS.contains(&name.as_str()) {
            if value.is_some() {
                return refuse(format!("--{name} takes no value; write --{name} alone"));
            }
        } else if let Some((_, called)) = VALUED.iter().find(|(known, _)| *known == name) {
            value = value.or_else(|| words.next());
            if value.is_none() {
                return refuse(format!("--{name} lacks its value; write --{name} {called}"));
            }
        } else {
            return Err(unknown(&name));
        }
        written.push((name, value.unwrap_or_default()));
    }
    Ok(written)
}

/// The scenario among the words, wherever it stands.
pub(super) fn scenario(written: &[(String, String)]) -> Result<Scenario, BenchError> {
    let Some((_, value)) = written.iter().rfind(|(name, _)| name == "scenario") else {
        return Ok(Scenario::FREE);
    };
    Scenario::named(value).ok_or_else(|| no_such_scenario(value))
}

impl Given {
    pub(super) fn take_all(&mut self, written: &[(String, String)]) -> Result<(), BenchError> {
        written
            .iter()
            .try_for_each(|(name, value)| self.set(name, value))
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), BenchError> {
        match name {
            "connect" => self.address = Some(address(value)?),
            "user" => self.login.user = Some(value.to_owned()),
            "password" => self.login.password = Some(value.to_owned()),
            "version" => self.version = Some(version(value)?),
            "publishers" => self.publisher_count = Some(number(name, value)?),
            "subscribers" => self.subscriber_count = Some(number(name, value)?),
            "topics" => self.topic_count = Some(number(name, value)?),
            "filters" => self.filter_count = Some(number(name, value)?),
            "shared" => self.group_count = Some(number(name, value)?),
            "qos" => {
                self.publish_qos = Some(qos(name, value)?);
                self.subscribe_qos = self.publish_qos;
            }
            "pub-qos" => self.publish_qos = Some(qos(name, value)?),
            "sub-qos" => self.subscribe_qos = Some(qos(name, value)?),
            "size" => self.payload_bytes = Some(bytes(name, value)?),
            "window" => self.window = Some(number(name, value)?),
            "rate" => self.rate = Some(number(name, value)?),
            "backlog" => self.backlog_max = Some(number(name, value)?),
            "retained" => self.retained_count = Some(number(name, value)?),
            "connections" => self.connection_count = Some(number(name, value)?),
            "sessions" => self.session_count = Some(number(name, value)?),
            "ramp" => self.ramp = Some(number(name, value)?),
            "messages" => self.message_count = Some(number(name, value)?),
            "seconds" => self.measured = Some(seconds(name, value)?),
            "warmup" => self.warmup = Some(seconds(name, value)?),
            "name" => self.name = Some(value.to_owned()),
            "pid" => self.pid = Some(number(name, value)?),
            "data-dir" => self.data_dir = Some(value.into()),
            "apart" => self.apart = true,
            "offline" => self.offline = true,
            "stamp" => self.stamped = true,
            "keep" => self.keep = true,
            "json" => self.json = true,
            "quiet" => self.quiet = true,
            // The scenario was taken before.
            _ => {}
        }
        Ok(())
    }
}

pub(super) fn refuse<T>(text: impl Into<String>) -> Result<T, BenchError> {
    Err(BenchError::Usage(text.into()))
}

/// `localhost`, `localhost:1884`, `[::1]:1883`; the port is 1883 where there is none.
fn address(value: &str) -> Result<SocketAddr, BenchError> {
    let has_port = value.rsplit_once(':').is_some_and(|(host, port)| {
        !port.is_empty()
            && port.bytes().all(|b| b.is_ascii_digit())
            && host.matches(':').count() != 1
            || value.starts_with('[') && !value.ends_with(']')
    });
    let text = if has_port {
        value.to_owned()
    } else {
        format!("{value}:1883")
    };
    if value.contains("://") {
        return refuse(format!(
            "--connect {value}: MQTT has no scheme here; write --connect HOST:PORT"
        ));
    }
    let all: Vec<SocketAddr> = text.to_socket_addrs().into_iter().flatten().collect();
    // Brokers listen on 127.0.0.1 more often than on ::1, and `localhost` is both.
    let address = all.iter().find(|one| one.is_ipv4()).or_else(|| all.first());
    match address {
        Some(address) => Ok(*address),
        None => refuse(format!(
            "--connect {value}: no such address; write --connect 127.0.0.1:1883"
        )),
    }
}

fn version(value: &str) -> Result<Version, BenchError> {
    match value {
        "3.1.1" | "311" | "4" => Ok(Version::V311),
        "5" | "5.0" => Ok(Version::V5),
        _ => refuse(format!("--version {value:?} is neither 3.1.1 nor 5")),
    }
}

fn qos(name: &str, value: &str) -> Result<u8, BenchError> {
    match value {
        "0" => Ok(0),
        "1" => Ok(1),
        "2" => Ok(2),
        _ => refuse(format!("--{name} {value:?} is none of 0, 1 and 2")),
    }
}

fn no_such_scenario(value: &str) -> BenchError {
    let names = || Scenario::ALL.iter().map(|one| one.name);
    let hint = nearest(value, names()).map_or_else(
        || format!("it is one of {}", names().collect::<Vec<_>>().join(", ")),
        |name| format!("did you mean --scenario {name}?"),
    );
    BenchError::Usage(format!("there is no scenario {value:?}; {hint}"))
}

fn unexpected(word: &str) -> BenchError {
    let name = word.trim_start_matches('-');
    BenchError::Usage(if Scenario::named(name).is_some() {
        format!("{word:?} stands alone; write --scenario {name}")
    } else if word.starts_with('-') {
        format!("unknown option {word}; options begin with two dashes, see --help")
    } else {
        format!("unexpected word {word:?}; options are written --name VALUE, see --help")
    })
}

fn unknown(name: &str) -> BenchError {
    let known = VALUED
        .iter()
        .map(|(known, _)| *known)
        .chain(FLAGS.iter().copied());
    let synonym = SYNONYMS
        .iter()
        .find(|(other, _)| *other == name)
        .map(|(_, ours)| *ours);
    BenchError::Usage(match synonym.or_else(|| nearest(name, known)) {
        Some(ours) => format!("unknown option --{name}; did you mean --{ours}?"),
        None => format!("unknown option --{name}; --help lists them all"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_lack_its_port() {
        for (text, expected) in [
            ("127.0.0.1", "127.0.0.1:1883"),
            ("127.0.0.1:1", "127.0.0.1:1"),
            ("localhost", "127.0.0.1:1883"),
            ("[::1]", "[::1]:1883"),
            ("[::1]:7", "[::1]:7"),
        ] {
            assert_eq!(address(text).unwrap().to_string(), expected);
        }
        for text in ["mqtt://127.0.0.1", "127.0.0.1:", "127.0.0.1:99999", ""] {
            assert!(address(text).is_err(), "{text}");
        }
    }
}
