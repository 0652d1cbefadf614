//! File, then environment, then flags: each layer overwrites the keys that it has.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::rules::rule;
use super::{Settings, file};

/// Where settings come from, lowest first.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The file, if one is named.
    pub file: Option<PathBuf>,
    /// The whole environment; what does not start with `MENZIL_` is passed over.
    pub environment: Vec<(String, String)>,
    /// Flags.
    pub flags: Vec<Flag>,
}

/// A setting given on the command line.
#[derive(Clone, Debug)]
pub struct Flag {
    /// How it was written, for complaints.
    pub place: String,
    /// The setting.
    pub key: String,
    /// Its value.
    pub text: String,
}

/// What is wrong with the settings: where, what, and how to mend it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// File and line, variable or flag.
    pub place: String,
    /// What is wrong there and what would be right.
    pub what: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

impl std::error::Error for ConfigError {}

/// Variables with the prefix that are not settings.
const NOT_SETTINGS: [&str; 2] = ["MENZIL_CONTROL", "MENZIL_CONFIG"];
const TEST_PREFIX: &str = "MENZIL_TEST_";
const PREFIX: &str = "MENZIL_";

/// Reads all layers and checks the result.
pub fn load(sources: &Sources) -> Result<Settings, ConfigError> {
    let mut layers = match &sources.file {
        Some(path) => read_file(path)?,
        None => Layers::default(),
    };
    for (variable, text) in &sources.environment {
        if NOT_SETTINGS.contains(&variable.as_str()) || variable.starts_with(TEST_PREFIX) {
            continue;
        }
        let Some(key) = variable.strip_prefix(PREFIX) else {
            continue;
        };
        layers.set(&key.to_ascii_lowercase(), text, variable)?;
    }
    for flag in &sources.flags {
        layers.set(&flag.key, &flag.text, &flag.place)?;
    }
    let Layers {
        settings,
        mut places,
    } = layers;
    settings.check().map_err(|(key, what)| ConfigError {
        place: places.remove(key).unwrap_or_else(|| "settings".to_owned()),
        what,
    })?;
    Ok(settings)
}

/// The settings so far, always valid one by one.
#[derive(Default)]
struct Layers {
    settings: Settings,
    /// Where each setting that is not the default was last set, for complaints about values that
    /// do not go together.
    places: BTreeMap<String, String>,
}

impl Layers {
    /// Overwrites one key by text from the environment or a flag.
    fn set(&mut self, key: &str, text: &str, place: &str) -> Result<(), ConfigError> {
        let error = |what: String| ConfigError {
            place: place.to_owned(),
            what,
        };
        let mut table = Table::try_from(&self.settings).map_err(|e| error(e.to_string()))?;
        let Some(old) = table.get(key).filter(|_| key != "users") else {
            return Err(error(unknown(key, &table)));
        };
        let value = parse_like(old, text).map_err(error)?;
        if let Some(rule) = rule(key) {
            rule.check(key, &value).map_err(error)?;
        }
        table.insert(key.to_owned(), value);
        self.settings = table
            .try_into()
            .map_err(|e: toml::de::Error| error(e.message().to_owned()))?;
        self.places.insert(key.to_owned(), place.to_owned());
        Ok(())
    }
}

/// Text as a value of the same type as the one it replaces, or as text where it is none.
fn parse_like(old: &Value, text: &str) -> Result<Value, String> {
    let plain = || Value::String(text.to_owned());
    Ok(match old {
        Value::Integer(_) => text.parse().map_or_else(|_| plain(), Value::Integer),
        Value::Boolean(_) => text.parse().map_or_else(|_| plain(), Value::Boolean),
        Value::Array(_) => Value::Array(parse_list(text)?),
        Value::String(_) | Value::Float(_) | Value::Datetime(_) | Value::Table(_) => plain(),
    })
}

/// A list of names: a TOML array, or names with commas between them.
fn parse_list(text: &str) -> Result<Vec<Value>, String> {
    if text.trim_start().starts_with('[') {
        let read: Result<Table, _> = toml::from_str(&format!("list = {text}"));
        return match read {
            Ok(mut table) => match (table.remove("list"), table.is_empty()) {
                (Some(Value::Array(names)), true) => Ok(names),
                _ => Err(format!("{text:?} is more than one TOML array")),
            },
            Err(error) => Err(format!("{text:?} is no TOML array: {}", error.message())),
        };
    }
    text.split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .map(|name| {
            if name.contains(['[', ']', '"', '\'']) {
                return Err(format!(
                    "{name:?} has a bracket or a quote: write names with commas between them, \
                     a,b, or a whole TOML array, [\"a\",\"b\"]"
                ));
            }
            Ok(Value::String(name.to_owned()))
        })
        .collect()
}

pub(super) fn unknown(key: &str, known: &Table) -> String {
    if key == "users" {
        return "users are set in the file only: `menzil hash-password` prints an entry".to_owned();
    }
    let nearest = known
        .keys()
        .map(|candidate| (distance(candidate, key), candidate))
        .min()
        .filter(|(distance, _)| *distance <= 1 + key.len() / 4)
        .map_or_else(String::new, |(_, name)| format!(" (did you mean {name}?)"));
    format!("unknown setting {key}{nearest}; all are listed by `menzil server --print-config`")
}

/// Letters to add, drop or change to get from one to the other; a name cut short is close too.
fn distance(candidate: &str, key: &str) -> usize {
    if key.len() > 2 && (candidate.starts_with(key) || key.starts_with(candidate)) {
        return 1;
    }
    let mut row: Vec<usize> = (0..=key.len()).collect();
    for (at, wanted) in candidate.bytes().enumerate() {
        let mut next = vec![at + 1];
        for ((found, pair), left) in key.bytes().zip(row.windows(2)).zip(1..) {
            let &[diagonal, above] = pair else { continue };
            let changed = diagonal + usize::from(wanted != found);
            let before: usize = next.get(left - 1).copied().unwrap_or(usize::MAX - 1);
            next.push(changed.min(above + 1).min(before + 1));
        }
        row = next;
    }
    row.last().copied().unwrap_or(usize::MAX)
}

fn read_file(path: &Path) -> Result<Layers, ConfigError> {
    let place = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| ConfigError {
        place: place.clone(),
        what: format!("cannot read the settings file: {error}"),
    })?;
    let at = |line: usize| format!("{place}:{line}");
    let settings = file::parse(&text).map_err(|complaint| ConfigError {
        place: complaint.line.map_or_else(|| place.clone(), at),
        what: complaint.what,
    })?;
    let places = file::keys(&text).into_iter();
    Ok(Layers {
        settings,
        places: places.map(|key| (key.name, at(key.line))).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{LogFormat, Size};

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    fn flag(key: &str, text: &str) -> Flag {
        Flag {
            place: format!("--{key}"),
            key: key.to_owned(),
            text: text.to_owned(),
        }
    }

    fn sources(file: &str, environment: &[(&str, &str)], flags: &[(&str, &str)]) -> Sources {
        let owned = |pairs: &[(&str, &str)]| {
            pairs
                .iter()
                .map(|(key, text)| ((*key).to_owned(), (*text).to_owned()))
                .collect()
        };
        Sources {
            file: Some(PathBuf::from(file)),
            environment: owned(environment),
            flags: flags.iter().map(|(key, text)| flag(key, text)).collect(),
        }
    }

    #[test]
    fn flags_win_over_the_environment_and_that_over_the_file() {
        let file = file("heartbeat_seconds = 1\nchannel_max = 1\nframe_max = 10000\n");
        let path = file.path().to_str().unwrap();
        let settings = load(&sources(
            path,
            &[
                ("MENZIL_HEARTBEAT_SECONDS", "2"),
                ("MENZIL_CHANNEL_MAX", "2"),
                ("HOME", "/x"),
            ],
            &[("heartbeat_seconds", "3")],
        ))
        .unwrap();
        assert_eq!(settings.heartbeat_seconds, 3);
        assert_eq!(settings.channel_max, 2);
        assert_eq!(settings.frame_max, Size(10_000));
        assert_eq!(
            settings.connections_max,
            Settings::default().connections_max
        );
    }

    #[test]
    fn an_unknown_key_of_the_file_is_named_with_its_line() {
        let file = file("data_dir = \"x\"\n\nheartbeat = 3\n");
        let path = file.path().to_str().unwrap();
        let error = load(&sources(path, &[], &[])).unwrap_err();
        assert_eq!(error.place, format!("{path}:3"));
        assert!(error.what.contains("unknown setting heartbeat "), "{error}");
        assert!(
            error.what.contains("did you mean heartbeat_seconds?"),
            "{error}"
        );
        assert!(!error.what.contains("field"), "{error}");
    }

    #[test]
    fn a_wrong_type_in_the_file_is_named_with_its_line() {
        let file = file("guest = true\nheartbeat_seconds = \"soon\"\n");
        let path = file.path().to_str().unwrap();
        let error = load(&sources(path, &[], &[])).unwrap_err();
        assert_eq!(error.place, format!("{path}:2"));
        assert!(error.what.contains("heartbeat_seconds is \"soon\""));
    }

    #[test]
    fn values_that_do_not_go_together_are_named_with_the_line_of_one() {
        let file = file("guest = true\nassembling_bytes_per_node = \"1 MiB\"\nstop_seconds = 1\n");
        let path = file.path().to_str().unwrap();
        let error = load(&sources(path, &[], &[("stop_seconds", "2")])).unwrap_err();
        assert_eq!(error.place, format!("{path}:2"), "{error}");
        assert!(error.what.contains("is below"), "{error}");
    }

    #[test]
    fn an_unknown_variable_is_refused_and_the_reserved_ones_pass() {
        let mut sources = Sources {
            environment: vec![
                ("MENZIL_CONTROL".into(), "1".into()),
                ("MENZIL_TEST_SEED".into(), "1".into()),
            ],
            ..Sources::default()
        };
        assert!(load(&sources).is_ok());
        sources
            .environment
            .push(("MENZIL_HEARTBEAT_SECOND".into(), "1".into()));
        let error = load(&sources).unwrap_err();
        assert_eq!(error.place, "MENZIL_HEARTBEAT_SECOND");
        assert!(
            error.what.contains("did you mean heartbeat_seconds?"),
            "{error}"
        );
    }

    #[test]
    fn text_becomes_the_type_of_the_setting() {
        let settings = load(&Sources {
            environment: vec![
                ("MENZIL_VIRTUAL_HOSTS".into(), "/, shop".into()),
                ("MENZIL_GUEST".into(), "false".into()),
                ("MENZIL_SEGMENT_BYTES".into(), "2 MiB".into()),
                ("MENZIL_LOG_FORMAT".into(), "json".into()),
                ("MENZIL_AMQP".into(), "off".into()),
            ],
            ..Sources::default()
        })
        .unwrap();
        assert_eq!(settings.virtual_hosts, ["/", "shop"]);
        assert!(!settings.guest);
        assert_eq!(settings.segment_bytes, Size::mib(2));
        assert_eq!(settings.log_format, LogFormat::Json);
        assert_eq!(settings.amqp.host_and_port(), None);
    }

    fn virtual_hosts(text: &str) -> Result<Vec<String>, ConfigError> {
        let sources = Sources {
            flags: vec![flag("virtual_hosts", text)],
            ..Sources::default()
        };
        load(&sources).map(|settings| settings.virtual_hosts)
    }

    #[test]
    fn a_list_is_a_toml_array_or_names_with_commas() {
        for text in ["[\"/\",\"x\"]", " [ '/' , \"x\", ]", "/,x", "/ , x,"] {
            assert_eq!(virtual_hosts(text).unwrap(), ["/", "x"], "{text}");
        }
        assert_eq!(virtual_hosts("[\"a,b\"]").unwrap(), ["a,b"]);
        for text in [
            "[\"/\"",
            "\"/\",\"x\"",
            "/,x]",
            "[1]",
            "['/']\nguest = false",
            "'x'",
        ] {
            let error = virtual_hosts(text).unwrap_err();
            assert_eq!(error.place, "--virtual_hosts", "{text}");
        }
    }

    #[test]
    fn the_nearest_setting_is_named_and_a_far_one_is_not() {
        let known = Table::try_from(Settings::default()).unwrap();
        for (key, nearest) in [
            ("data-dir", "data_dir"),
            ("datadir", "data_dir"),
            ("guset", "guest"),
            ("log_levle", "log_level"),
            ("heartbeat", "heartbeat_seconds"),
            ("virtual_host", "virtual_hosts"),
        ] {
            let text = unknown(key, &known);
            assert!(text.contains(&format!("did you mean {nearest}?")), "{text}");
        }
        assert!(!unknown("colour", &known).contains("did you mean"));
    }

    #[test]
    fn a_wrong_setting_of_a_user_is_named_alone() {
        let file = file("[users.ada]\npassword = \"x\"\n");
        let path = file.path().to_str().unwrap();
        let error = load(&sources(path, &[], &[])).unwrap_err();
        assert_eq!(error.place, format!("{path}:2"));
        assert!(error.what.contains("unknown setting `password`"), "{error}");
    }

    #[test]
    fn values_out_of_range_are_refused() {
        for (key, text) in [
            ("frame_max", "4095"),
            ("heartbeat_seconds", "70000"),
            ("guest", "yes"),
            ("message_bytes_max", "513 MiB"),
            ("message_bytes_max", "0"),
            ("tx_bytes_max", "0"),
            ("tx_bytes_max", "257 MiB"),
            ("assembling_bytes_per_connection", "0"),
            ("assembling_bytes_per_node", "0"),
            ("delivery_credit_bytes", "0"),
            ("delivery_credit_bytes", "2 GiB"),
            ("outbox_bytes_max", "0"),
            ("segment_bytes", "0"),
            ("journal_pending_bytes_max", "0"),
            ("checkpoint_bytes", "0"),
            ("checkpoint_seconds", "0"),
            ("index_page_entries", "3"),
            ("read_threads", "0"),
            ("password_checks_max", "0"),
            ("connections_max", "0"),
            ("channel_max", "0"),
            ("handshake_timeout_seconds", "0"),
            ("product", "Other"),
            ("virtual_hosts", ""),
            ("amqp", "5672"),
            ("mqtt", "1883"),
            ("mqtt_ws", "on"),
            ("mqtt_virtual_host", "nowhere"),
            ("mqtt_exchange", ""),
            ("mqtt_anonymous", "yes"),
            ("mqtt_packet_bytes_max", "255"),
            ("mqtt_receive_max", "0"),
            ("mqtt_in_flight_max", "0"),
            ("mqtt_session_limit", "drop"),
            ("mqtt_session_messages_max", "0"),
            ("mqtt_session_bytes_max", "0"),
            ("mqtt_subscriptions_max", "0"),
            ("log_level", "loud"),
            ("users", "x"),
        ] {
            let sources = Sources {
                flags: vec![flag(key, text)],
                ..Sources::default()
            };
            let error = load(&sources).unwrap_err();
            assert_eq!(error.place, format!("--{key}"), "{error}");
            if text.starts_with(char::is_numeric) && !["5672", "1883", "70000"].contains(&text) {
                assert!(error.what.starts_with(&format!("{key} is ")), "{error}");
                assert!(error.what.contains("it must be from "), "{error}");
            }
        }
    }

    #[test]
    fn printed_settings_read_back() {
        let settings = Settings::default();
        let file = file(&settings.to_toml());
        let path = file.path().to_str().unwrap();
        assert_eq!(load(&sources(path, &[], &[])), Ok(settings));
    }
}
