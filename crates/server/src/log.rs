//! The server's own log: one line per event on standard error, as text or JSON.
//!
//! There is one logger in the process, for panics and threads log too. Values are escaped here
//! and nowhere else, so that no text a client chose can forge a line. Nothing logs per message.

use std::fmt::{Display, Write as _};
use std::io::Write as _;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use menzil_journal::{CheckpointError, Damage, ReadError, TornTail};
use menzil_model::{ConnectionId, Escaped, Name, Position, text_of};
use serde_json::Value;

use crate::config::{LogFormat, LogLevel};

static LOGGER: OnceLock<(LogLevel, LogFormat)> = OnceLock::new();

/// A named value of a line.
pub type Field<'a> = (&'a str, &'a dyn Loggable);

/// What a line can say: a text, which in JSON too is one unless the type says otherwise.
pub trait Loggable: Display {
    /// The text before anything is escaped: that is done once, as the line is made.
    fn text(&self) -> String {
        self.to_string()
    }

    /// The value in a line of JSON.
    fn json(&self) -> Value {
        Value::String(self.text())
    }
}

impl Loggable for Name {
    fn text(&self) -> String {
        text_of(self.as_bytes())
    }
}

impl Loggable for Escaped<'_> {
    fn text(&self) -> String {
        text_of(self.0)
    }
}

impl Loggable for u64 {
    fn json(&self) -> Value {
        (*self).into()
    }
}

impl Loggable for usize {
    fn json(&self) -> Value {
        (*self).into()
    }
}

impl Loggable for bool {
    fn json(&self) -> Value {
        (*self).into()
    }
}

impl Loggable for ConnectionId {
    fn json(&self) -> Value {
        self.0.into()
    }
}

impl Loggable for &str {}
impl Loggable for String {}
impl Loggable for std::io::Error {}
impl Loggable for std::net::SocketAddr {}
impl Loggable for std::path::Display<'_> {}
impl Loggable for Position {}
impl Loggable for Damage {}
impl Loggable for TornTail {}
impl Loggable for ReadError {}
impl Loggable for CheckpointError {}

/// Says once what is logged and how; before, `info` lines are logged as text.
pub fn init(level: LogLevel, format: LogFormat) {
    // A second call changes nothing: the first server of a process decides.
    let _ = LOGGER.set((level, format));
}

/// Something failed that a person has to mend.
pub fn error(message: &str, fields: &[Field<'_>]) {
    line(LogLevel::Error, message, fields);
}

/// Something is not as it should be; the server goes on.
pub fn warn(message: &str, fields: &[Field<'_>]) {
    line(LogLevel::Warn, message, fields);
}

/// Start, stop, recovery.
pub fn info(message: &str, fields: &[Field<'_>]) {
    line(LogLevel::Info, message, fields);
}

/// Each connection.
pub fn debug(message: &str, fields: &[Field<'_>]) {
    line(LogLevel::Debug, message, fields);
}

fn line(level: LogLevel, message: &str, fields: &[Field<'_>]) {
    let (least, format) = LOGGER
        .get()
        .copied()
        .unwrap_or((LogLevel::Info, LogFormat::Text));
    if level > least {
        return;
    }
    let millis = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_millis());
    let time = timestamp(u64::try_from(millis).unwrap_or(u64::MAX));
    let text = match format {
        LogFormat::Text => as_text(&time, level, message, fields),
        LogFormat::Json => as_json(&time, level, message, fields),
    };
    // One write per line keeps lines of several threads whole; a closed stderr is no failure.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

fn name(level: LogLevel) -> &'static str {
    match level {
        LogLevel::Error => "error",
        LogLevel::Warn => "warn",
        LogLevel::Info => "info",
        LogLevel::Debug => "debug",
    }
}

fn as_text(time: &str, level: LogLevel, message: &str, fields: &[Field<'_>]) -> String {
    let mut line = format!("{time} {:5} {}", name(level), Escaped(message.as_bytes()));
    for (key, value) in fields {
        let value = Escaped(value.text().as_bytes()).to_string();
        let bare = !value.is_empty() && !value.contains([' ', '"', '=']);
        let _ = if bare {
            write!(line, " {key}={value}")
        } else {
            write!(line, " {key}=\"{}\"", value.replace('"', "\\\""))
        };
    }
    line.push('\n');
    line
}

fn as_json(time: &str, level: LogLevel, message: &str, fields: &[Field<'_>]) -> String {
    let mut object = serde_json::Map::new();
    for (key, value) in [("time", time), ("level", name(level)), ("message", message)] {
        object.insert(key.to_owned(), value.into());
    }
    for (key, value) in fields {
        object.insert((*key).to_owned(), value.json());
    }
    format!("{}\n", Value::Object(object))
}

/// `2026-11-30T16:10:14.123Z`, from the days since 1970 by the civil calendar.
pub(crate) fn timestamp(millis: u64) -> String {
    let (days, of_day) = (millis / 86_400_000, millis % 86_400_000);
    // Years start in March, so that the leap day is the last of one; eras have 400 years.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:03}Z",
        of_day / 3_600_000,
        of_day / 60_000 % 60,
        of_day / 1000 % 60,
        of_day % 1000
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_cannot_be_forged_by_a_value() {
        let value = "x\n2026 error \"forged\"";
        let text = as_text(
            "T",
            LogLevel::Info,
            "hello",
            &[("user", &value), ("n", &3_u64)],
        );
        assert_eq!(
            text,
            "T info  hello user=\"x\\n2026 error \\\"forged\\\"\" n=3\n"
        );
        let json = as_json("T", LogLevel::Info, "hello", &[("user", &value)]);
        assert_eq!(json.matches('\n').count(), 1);
        let read: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(read["user"], value);
    }

    #[test]
    fn what_a_client_chose_is_escaped_once() {
        let name = Name::new(b"a\\b\t").unwrap();
        let user = Escaped(b"c\\d");
        let odd = Name::new(b"\xff").unwrap();
        let fields: [Field<'_>; 3] = [("name", &name), ("user", &user), ("odd", &odd)];
        let text = as_text("T", LogLevel::Info, "hello", &fields[..2]);
        assert_eq!(text, "T info  hello name=a\\\\b\\t user=c\\\\d\n");
        let read: Value =
            serde_json::from_str(&as_json("T", LogLevel::Info, "hello", &fields)).unwrap();
        assert_eq!(read["name"], "a\\b\t");
        assert_eq!(read["user"], "c\\d");
        // No text is these bytes.
        assert_eq!(read["odd"], "\\xff");
    }

    #[test]
    fn json_has_numbers_and_truth_values_as_such_and_names_as_texts() {
        let name = Name::new(b"42").unwrap();
        let fields: [Field<'_>; 3] = [("count", &3_u64), ("full", &true), ("name", &name)];
        let line = as_json("T", LogLevel::Info, "hello", &fields);
        let read: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(read["count"], 3);
        assert_eq!(read["full"], true);
        assert_eq!(read["name"], "42");
    }

    #[test]
    fn timestamps_are_those_of_the_calendar() {
        assert_eq!(timestamp(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(timestamp(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(timestamp(1_796_055_014_123), "2026-11-30T16:10:14.123Z");
        assert_eq!(timestamp(4_107_542_399_999), "2100-02-28T23:59:59.999Z");
    }
}
