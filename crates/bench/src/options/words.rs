//! Words of the command line, taken one by one.

use super::ExchangeKind;
use crate::BenchError;
use crate::scenario::Scenario;
use crate::uri::Target;
use std::path::PathBuf;
use std::time::Duration;

/// Options with a value, and what the value is called in messages.
const VALUED: &[(&str, &str)] = &[
    ("scenario", "NAME"),
    ("uri", "URI"),
    ("publishers", "N"),
    ("consumers", "N"),
    ("connections", "N"),
    ("queues", "N"),
    ("matches", "N"),
    ("queue-type", "TYPE"),
    ("dead-queues", "N"),
    ("hold", "N"),
    ("exchange", "TYPE"),
    ("bindings", "N"),
    ("reach", "N"),
    ("expiration", "MS-MS"),
    ("delay", "MS-MS"),
    ("size", "BYTES"),
    ("confirm", "N"),
    ("prefetch", "N"),
    ("ack", "auto|manual"),
    ("ack-batch", "N"),
    ("rate", "N"),
    ("backlog", "N"),
    ("messages", "N"),
    ("seconds", "S"),
    ("warmup", "S"),
    ("name", "NAME"),
    ("pid", "PID"),
    ("data-dir", "DIR"),
];

const FLAGS: &[&str] = &[
    "persistent",
    "transient",
    "stamp",
    "apart",
    "check-order",
    "keep",
    "existing",
    "json",
    "quiet",
];

/// Names that these options had, or have elsewhere.
const SYNONYMS: &[(&str, &str)] = &[
    ("window", "confirm"),
    ("producers", "publishers"),
    ("qos", "prefetch"),
    ("auto-ack", "ack auto"),
    ("time", "seconds"),
    ("pmessages", "messages"),
    ("flag", "persistent"),
    ("help-all", "help"),
];

/// The options as given; what is absent gets its default later.
#[derive(Debug, Default)]
pub(super) struct Given {
    pub(super) target: Option<Target>,
    pub(super) publisher_count: Option<u64>,
    pub(super) consumer_count: Option<u64>,
    pub(super) connection_count: Option<u64>,
    pub(super) queue_count: Option<u64>,
    pub(super) queue_type: Option<String>,
    pub(super) dead_queue_count: Option<u64>,
    pub(super) held_count: Option<u64>,
    pub(super) exchange: Option<ExchangeKind>,
    pub(super) binding_count: Option<u64>,
    pub(super) apart: bool,
    pub(super) reach: Option<u64>,
    pub(super) expiration: Option<(u64, u64)>,
    pub(super) delay: Option<(u64, u64)>,
    pub(super) body_bytes: Option<usize>,
    pub(super) persistent: Option<bool>,
    pub(super) window: Option<u64>,
    pub(super) prefetch_count: Option<u16>,
    pub(super) manual: Option<bool>,
    pub(super) ack_batch: Option<u64>,
    pub(super) rate: Option<u64>,
    pub(super) backlog_max: Option<u64>,
    pub(super) message_count: Option<u64>,
    pub(super) measured: Option<Duration>,
    pub(super) warmup: Option<Duration>,
    pub(super) name: Option<String>,
    pub(super) pid: Option<u32>,
    pub(super) data_dir: Option<PathBuf>,
    pub(super) stamped: bool,
    pub(super) order_checked: bool,
    pub(super) keep: bool,
    pub(super) existing: bool,
    pub(super) json: bool,
    pub(super) quiet: bool,
}

/// `--name value` and `--name=value`, split.
pub(super) struct Words<I>(I);

impl<I: Iterator<Item = String>> Words<I> {
    pub(super) fn new(words: impl IntoIterator<IntoIter = I>) -> Self {
        Self(words.into_iter())
    }

    fn take(&mut self) -> Result<Option<(String, Option<String>)>, BenchError> {
        let Some(word) = self.0.next() else {
            return Ok(None);
        };
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
            value = value.or_else(|| self.0.next());
            if value.is_none() && name == "scenario" {
                return refuse(format!("--scenario lacks its name; {}", scenario_names()));
            }
            if value.is_none() {
                return refuse(format!("--{name} lacks its value; write --{name} {called}"));
            }
        } else {
            return Err(unknown(&name));
        }
        Ok(Some((name, value)))
    }
}

/// All words, as names with their values, flags with none.
pub(super) fn written(args: &[String]) -> Result<Vec<(String, String)>, BenchError> {
    let mut words = Words::new(args.iter().cloned());
    let mut written = Vec::new();
    while let Some((name, value)) = words.take()? {
        written.push((name, value.unwrap_or_default()));
    }
    Ok(written)
}

/// The scenario among the words, wherever it stands.
pub(super) fn scenario(args: &[String]) -> Result<Scenario, BenchError> {
    let mut words = Words::new(args.iter().cloned());
    let mut scenario = Scenario::FREE;
    while let Some((name, value)) = words.take()? {
        if name == "scenario" {
            let value = value.unwrap_or_default();
            scenario = match Scenario::named(&value) {
                Some(scenario) => scenario,
                None => return Err(no_such_scenario(&value)),
            };
        }
    }
    Ok(scenario)
}

impl Given {
    pub(super) fn take_all(
        &mut self,
        words: &mut Words<impl Iterator<Item = String>>,
    ) -> Result<(), BenchError> {
        while let Some((name, value)) = words.take()? {
            match value {
                Some(value) => self.set(&name, &value)?,
                None => self.raise(&name),
            }
        }
        Ok(())
    }

    fn raise(&mut self, name: &str) {
        match name {
            "persistent" => self.persistent = Some(true),
            "transient" => self.persistent = Some(false),
            "stamp" => self.stamped = true,
            "apart" => self.apart = true,
            "check-order" => self.order_checked = true,
            "keep" => self.keep = true,
            "existing" => self.existing = true,
            "json" => self.json = true,
            _ => self.quiet = true,
        }
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), BenchError> {
        match name {
            "uri" => self.target = Some(Target::parse(value)?),
            "publishers" => self.publisher_count = Some(number(name, value)?),
            "consumers" => self.consumer_count = Some(number(name, value)?),
            "connections" => self.connection_count = Some(number(name, value)?),
            "queues" | "matches" => self.queue_count = Some(number(name, value)?),
            "queue-type" => self.queue_type = Some(value.to_owned()),
            "dead-queues" => self.dead_queue_count = Some(number(name, value)?),
            "hold" => self.held_count = Some(number(name, value)?),
            "exchange" => self.exchange = Some(exchange(value)?),
            "bindings" => self.binding_count = Some(number(name, value)?),
            "reach" => self.reach = Some(number(name, value)?),
            "expiration" => self.expiration = Some(even_span(value)?),
            "delay" => self.delay = Some(span(name, value)?),
            "size" => self.body_bytes = Some(crate::numbers::length(bytes(name, value)?)),
            "confirm" => self.window = Some(number(name, value)?),
            "prefetch" => self.prefetch_count = Some(narrow(name, number(name, value)?)?),
            "ack" => self.manual = Some(acks(value)?),
            "ack-batch" => {
                // Saying how many to acknowledge at once means to acknowledge.
                self.ack_batch = Some(number(name, value)?);
                self.manual = Some(true);
            }
            "rate" => self.rate = Some(number(name, value)?),
            "backlog" => self.backlog_max = Some(number(name, value)?),
            "messages" => self.message_count = Some(number(name, value)?),
            "seconds" => self.measured = Some(seconds(name, value)?),
            "warmup" => self.warmup = Some(seconds(name, value)?),
            "name" => self.name = Some(value.to_owned()),
            "pid" => self.pid = Some(narrow(name, number(name, value)?)?),
            "data-dir" => self.data_dir = Some(value.into()),
            // The scenario was taken before.
            _ => {}
        }
        Ok(())
    }
}

pub(super) fn refuse<T>(text: impl Into<String>) -> Result<T, BenchError> {
    Err(BenchError::Usage(text.into()))
}

/// `1000`, `1_000`, `1k`, `1M`.
pub(crate) fn number(name: &str, value: &str) -> Result<u64, BenchError> {
    scaled(value, 1000).map_or_else(
        || {
            refuse(format!(
                "--{name} {value:?} is not a whole number such as 200, 10k or 1M"
            ))
        },
        Ok,
    )
}

/// `1024`, `2k` (2,048), `1M`.
pub(crate) fn bytes(name: &str, value: &str) -> Result<u64, BenchError> {
    scaled(value, 1024).map_or_else(
        || {
            refuse(format!(
                "--{name} {value:?} is not a whole number of bytes such as 100, 2k (2048) or 1M"
            ))
        },
        Ok,
    )
}

fn scaled(value: &str, kilo: u64) -> Option<u64> {
    let (digits, scale) = match value.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, kilo),
        None => match value.strip_suffix(['m', 'M']) {
            Some(digits) => (digits, kilo * kilo),
            None => (value, 1),
        },
    };
    let digits: String = digits.chars().filter(|c| *c != '_').collect();
    digits.parse::<u64>().ok()?.checked_mul(scale)
}

fn narrow<T: TryFrom<u64>>(name: &str, value: u64) -> Result<T, BenchError> {
    T::try_from(value).or_else(|_| {
        let most = (1u128 << (8 * size_of::<T>())) - 1;
        refuse(format!("--{name} {value} is too large; at most {most}"))
    })
}

pub(crate) fn seconds(name: &str, value: &str) -> Result<Duration, BenchError> {
    let time = value
        .parse()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .filter(|time| *time <= Duration::from_hours(24));
    time.map_or_else(
        || {
            refuse(format!(
                "--{name} {value:?} is not a number of seconds such as 3 or 0.5"
            ))
        },
        Ok,
    )
}

fn exchange(value: &str) -> Result<ExchangeKind, BenchError> {
    ExchangeKind::ALL
        .iter()
        .find(|(name, _)| *name == value)
        .map_or_else(
            || {
                refuse(format!(
                    "--exchange {value:?} is none; it is default, direct, fanout, topic or headers"
                ))
            },
            |(_, kind)| Ok(*kind),
        )
}

/// `5000` or `1000-5000`.
fn span(name: &str, value: &str) -> Result<(u64, u64), BenchError> {
    let (least, most) = ends(value);
    let Some((first, last)) = least.parse().ok().zip(most.parse().ok()) else {
        return refuse(format!(
            "--{name} {value:?} is no span of milliseconds; write --{name} 1000-5000"
        ));
    };
    if first > last {
        return refuse(format!("--{name} goes from less to more"));
    }
    Ok((first, last))
}

/// The same, of as many digits, so that messages have one length.
fn even_span(value: &str) -> Result<(u64, u64), BenchError> {
    let span = span("expiration", value)?;
    let (least, most) = ends(value);
    if least.len() != most.len() {
        return refuse("--expiration goes from less to more, both of as many digits");
    }
    Ok(span)
}

fn ends(value: &str) -> (&str, &str) {
    value.split_once('-').unwrap_or((value, value))
}

fn acks(value: &str) -> Result<bool, BenchError> {
    match value {
        "auto" => Ok(false),
        "manual" => Ok(true),
        _ => refuse(format!("--ack {value:?} is neither auto nor manual")),
    }
}

fn scenario_names() -> String {
    let names: Vec<&str> = Scenario::ALL.iter().map(|one| one.name).collect();
    format!("it is one of {}", names.join(", "))
}

fn no_such_scenario(value: &str) -> BenchError {
    let nearest = nearest(value, Scenario::ALL.iter().map(|one| one.name));
    BenchError::Usage(match nearest {
        Some(name) => format!("there is no scenario {value:?}; did you mean --scenario {name}?"),
        None => format!("there is no scenario {value:?}; {}", scenario_names()),
    })
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

/// The known name that one or two slips of the finger turn into `name`.
pub(crate) fn nearest(
    name: &str,
    known: impl Iterator<Item = &'static str>,
) -> Option<&'static str> {
    known
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|(slips, candidate)| *slips <= 2 && *slips < candidate.len() / 2)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Letters to add, drop or change to get from one to the other.
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, letter) in from.bytes().enumerate() {
        let mut diagonal = index;
        let mut left = index + 1;
        let mut next = vec![left];
        for (above, other) in row.iter().skip(1).zip(to.bytes()) {
            let change = diagonal + usize::from(letter != other);
            left = change.min(above + 1).min(left + 1);
            diagonal = *above;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_counted() {
        for (from, to, slips) in [
            ("size", "size", 0),
            ("sise", "size", 1),
            ("sizes", "size", 1),
            ("ize", "size", 1),
            ("", "size", 4),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(from, to), slips, "{from} {to}");
        }
    }

    #[test]
    fn numbers_may_be_written_short() {
        assert_eq!(scaled("10k", 1000), Some(10_000));
        assert_eq!(scaled("1M", 1024), Some(1 << 20));
        assert_eq!(scaled("1_000", 1000), Some(1000));
        assert_eq!(scaled("99999999999999999999", 1), None);
        assert_eq!(scaled("18446744073709551615k", 1000), None);
        assert_eq!(scaled("k", 1000), None);
    }
}
