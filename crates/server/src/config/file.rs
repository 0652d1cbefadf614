//! The settings file: every complaint has the line, the setting, and what would be right there.

use toml::de::{DeString, DeTable, DeValue};
use toml::{Spanned, Table, Value};

use super::Settings;
use super::layers::unknown;
use super::rules::{Rule, rule};

/// What is wrong in a file, and in which line.
#[derive(Debug)]
pub(super) struct Complaint {
    pub(super) line: Option<usize>,
    pub(super) what: String,
}

/// A key of the file, and where it stands.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) line: usize,
    pub(super) name: String,
}

/// Looks at each setting as it stands there, from the top down, before it becomes a field.
pub(super) fn parse(text: &str) -> Result<Settings, Complaint> {
    let table: Table = toml::from_str(text).map_err(|error| no_toml(&error, text))?;
    for Key { line, name } in keys(text) {
        let complain = |what| Complaint {
            line: Some(line),
            what,
        };
        let (Some(rule), Some(value)) = (rule(&name), table.get(&name)) else {
            let known = Table::try_from(Settings::default()).unwrap_or_default();
            return Err(complain(unknown(&name, &known)));
        };
        rule.check(&name, value).map_err(complain)?;
    }
    for user in users(text) {
        user.check(&table)?;
    }
    // Nothing is left that could be wrong, but for a rule that forgot something.
    toml::from_str(text).map_err(|error| Complaint {
        line: error.span().map(|span| line_of(text, span.start)),
        what: error.message().to_owned(),
    })
}

/// The keys of the file, in its order.
pub(super) fn keys(text: &str) -> Vec<Key> {
    let Ok(table) = DeTable::parse(text) else {
        return Vec::new();
    };
    keys_of(table.get_ref(), text)
}

fn keys_of(table: &DeTable<'_>, text: &str) -> Vec<Key> {
    let mut keys: Vec<Key> = table.keys().map(|key| placed(key, text)).collect();
    keys.sort_unstable();
    keys
}

fn placed(key: &Spanned<DeString<'_>>, text: &str) -> Key {
    Key {
        line: line_of(text, key.span().start),
        name: key.get_ref().to_string(),
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    let before = text.get(..offset).unwrap_or_default();
    before.matches('\n').count() + 1
}

fn no_toml(error: &toml::de::Error, text: &str) -> Complaint {
    let place = error.span().map_or(text.len(), |span| span.start);
    if let Some((line, key)) = unclosed_list(text, place) {
        return Complaint {
            line: Some(line),
            what: format!("{key}: the list that begins here has no ] at its end"),
        };
    }
    let line = error.span().map(|span| line_of(text, span.start));
    let written = line.and_then(|line| text.lines().nth(line - 1));
    let key = written
        .and_then(|line| line.split_once('='))
        .map(|(key, _)| key.trim());
    let what = if error.message() == "duplicate key" {
        let twice = "it stands there twice; leave one of them out";
        key.map_or_else(|| twice.to_owned(), |key| format!("{key}: {twice}"))
    } else if let Some((key, rule)) = key.and_then(|key| Some((key, rule(key)?))) {
        format!("{key} has no value that reads: it must be {rule}")
    } else {
        format!(
            "this is no TOML ({}): write NAME = VALUE, texts in quotes",
            error.message()
        )
    };
    Complaint { line, what }
}

/// The line and the key of a list that is open where the next setting begins, or the file ends:
/// there its reader stumbles, whatever the next setting is.
fn unclosed_list(text: &str, place: usize) -> Option<(usize, &str)> {
    let (mut open, mut offset) = (None, 0);
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let key = line.split_once('=').map(|(key, _)| key.trim());
        let key = key.filter(|key| {
            key.bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        });
        let is_reached = offset > place || (offset + line.len() > place && open.is_some());
        if is_reached && (key.is_some() || line.starts_with('[')) {
            break;
        }
        if let Some(key) = key {
            let value = line.split_once('=').map_or("", |(_, value)| value.trim());
            open = value.starts_with('[').then_some((number + 1, key));
        }
        if line
            .split('#')
            .next()
            .is_some_and(|line| line.contains(']'))
        {
            open = None;
        }
        offset += line.len();
    }
    open
}

/// An entry of the table `users`, and the keys in it.
struct UserEntry {
    key: Key,
    keys: Vec<Key>,
}

fn users(text: &str) -> Vec<UserEntry> {
    let Ok(table) = DeTable::parse(text) else {
        return Vec::new();
    };
    let users = table.get_ref().get("users");
    let users = users.and_then(|users| users.get_ref().as_table());
    let entry = |(name, entry): (&Spanned<DeString<'_>>, &Spanned<DeValue<'_>>)| {
        let keys = entry.get_ref().as_table();
        UserEntry {
            key: placed(name, text),
            keys: keys.map_or_else(Vec::new, |keys| keys_of(keys, text)),
        }
    };
    let mut users: Vec<UserEntry> = users
        .into_iter()
        .flat_map(DeTable::iter)
        .map(entry)
        .collect();
    users.sort_unstable_by_key(|user| user.key.line);
    users
}

impl UserEntry {
    fn check(&self, file: &Table) -> Result<(), Complaint> {
        let user = &self.key.name;
        let complain = |key: &Key, what| Complaint {
            line: Some(key.line),
            what,
        };
        let way_out = format!("`menzil hash-password {user}` prints the whole entry");
        let entry = file.get("users").and_then(|users| users.get(user));
        let Some(entry) = entry.and_then(Value::as_table) else {
            let what = format!("users.{user} is no table; {way_out}");
            return Err(complain(&self.key, what));
        };
        for key in &self.keys {
            let name = &key.name;
            let rule = match name.as_str() {
                "password_hash" => Rule::Hash,
                "tags" => Rule::Names,
                _ => {
                    let what = format!(
                        "unknown setting `{name}` of the user {user}, who has password_hash and \
                         tags; {way_out}"
                    );
                    return Err(complain(key, what));
                }
            };
            if let Some(value) = entry.get(name) {
                let checked = rule.check(&format!("users.{user}.{name}"), value);
                checked.map_err(|what| complain(key, what))?;
            }
        }
        if !entry.contains_key("password_hash") {
            let what = format!("users.{user} has no password_hash; {way_out}");
            return Err(complain(&self.key, what));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What serde and the reader of TOML call things, which say nothing to who writes a file.
    const FOREIGN: &[&str] = &[
        "u8",
        "u16",
        "u32",
        "u64",
        "i64",
        "i128",
        "usize",
        "f64",
        "invalid type",
        "invalid value",
        "sequence",
        "variant",
        "a map",
        "path string",
        "field",
        "integer",
        "floating",
    ];

    #[test]
    fn every_complaint_has_line_setting_and_way_out_and_no_word_of_a_programmers() {
        for (lines, line, parts) in [
            (
                "heartbeat_seconds = \"soon\"",
                2,
                &["heartbeat_seconds is \"soon\"", "from 0 to 65535"][..],
            ),
            (
                "heartbeat_seconds = 3.5",
                2,
                &["heartbeat_seconds is 3.5", "whole number"],
            ),
            (
                "heartbeat_seconds = 70000",
                2,
                &["heartbeat_seconds is 70000", "from 0 to"],
            ),
            (
                "heartbeat_seconds =",
                2,
                &["heartbeat_seconds", "whole number"],
            ),
            (
                "channel_max = 99999999999999999999",
                2,
                &["channel_max", "from 1 to 65535"],
            ),
            ("guest = 1", 2, &["guest is 1", "true or false"]),
            ("guest = maybe", 2, &["guest", "true or false"]),
            (
                "stop_seconds = 1\nstop_seconds = 2",
                3,
                &["stop_seconds", "twice"],
            ),
            (
                "segment_bytes = \"64 MB\"",
                2,
                &["segment_bytes is \"64 MB\"", "MiB"],
            ),
            ("segment_bytes = -5", 2, &["segment_bytes is -5", "MiB"]),
            (
                "log_format = 5",
                2,
                &["log_format is 5", "\"text\" or \"json\""],
            ),
            (
                "log_level = \"loud\"",
                2,
                &["log_level is \"loud\"", "\"warn\""],
            ),
            ("amqp = 5672", 2, &["amqp is 5672", "HOST:PORT"]),
            (
                "virtual_hosts = [\n1,\n]",
                2,
                &["virtual_hosts is [1]", "list of names"],
            ),
            (
                "virtual_hosts = [\n\"/\",\nheartbeat_seconds = 5",
                2,
                &["virtual_hosts", "no ] at its end"],
            ),
            (
                "frame_max = 5000\nvirtual_hosts = [\"/\"\n\nguest = true\n",
                3,
                &["virtual_hosts", "no ] at its end"],
            ),
            (
                "virtual_hosts = [\"/\",\n",
                2,
                &["virtual_hosts", "no ] at its end"],
            ),
            ("data_dir = 5", 2, &["data_dir is 5", "in quotes"]),
            (
                "frame_max = 10",
                2,
                &["frame_max is 10 B", "from 4 KiB to 16 MiB"],
            ),
            ("product = \"X\"", 2, &["product is \"X\"", "\"RabbitMQ\""]),
            (
                "heartbeat = 3",
                2,
                &["unknown setting heartbeat", "did you mean"],
            ),
            (
                "[server]\nframe_max = 5",
                2,
                &["unknown setting server", "--print-config"],
            ),
            ("this is nonsense", 2, &["NAME = VALUE"]),
            ("users = 5", 2, &["users is 5", "[users.NAME]"]),
            ("[users]\nada = 5", 3, &["users.ada", "hash-password ada"]),
            (
                "[users.ada]",
                2,
                &["users.ada has no password_hash", "hash-password ada"],
            ),
            (
                "[users.ada]\n\npassword_hash = 5",
                4,
                &["users.ada.password_hash is 5", "hash-password"],
            ),
            (
                "[users.ada]\npassword_hash = \"x\"",
                3,
                &["users.ada.password_hash", "hash-password"],
            ),
            (
                "[users.ada]\ntags = \"x\"",
                3,
                &["users.ada.tags is \"x\"", "list of names"],
            ),
        ] {
            let complaint = parse(&format!("# a comment\n{lines}\n")).unwrap_err();
            assert_eq!(complaint.line, Some(line), "{lines}: {complaint:?}");
            for part in parts {
                assert!(complaint.what.contains(part), "{lines}: {complaint:?}");
            }
            for word in FOREIGN {
                assert!(!complaint.what.contains(word), "{lines}: {complaint:?}");
            }
        }
    }

    #[test]
    fn every_size_takes_units() {
        let settings = parse("frame_max = \"64 KiB\"\nsegment_bytes = 1048576").unwrap();
        assert_eq!(settings.frame_max.0, 64 << 10);
        assert_eq!(settings.segment_bytes.0, 1 << 20);
    }
}
