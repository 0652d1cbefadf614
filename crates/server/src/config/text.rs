//! Small values that are written as text: addresses and what the log looks like.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Where a listener listens, or that it does not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Address(Option<String>);

impl Address {
    /// No listener.
    pub fn off() -> Self {
        Self(None)
    }

    /// A listener at `address`.
    pub fn on(address: &str) -> Self {
        Self(Some(address.to_owned()))
    }

    /// `HOST:PORT`, or `None` where the listener is off.
    pub fn host_and_port(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self(None));
        }
        let port = text
            .rsplit_once(':')
            .map(|(host, port)| (host, port.parse::<u16>()));
        match port {
            Some((host, Ok(_))) if !host.is_empty() => Ok(Self(Some(text.to_owned()))),
            _ => Err(format!(
                "{text:?} is no address: write HOST:PORT, such as 127.0.0.1:5672, or off"
            )),
        }
    }
}

impl TryFrom<String> for Address {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Address> for String {
    fn from(address: Address) -> Self {
        address.to_string()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_deref().unwrap_or("off"))
    }
}

/// How important a log line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Something failed that a person has to mend.
    Error,
    /// Something is not as it should be; the server goes on.
    Warn,
    /// Start, stop, recovery.
    Info,
    /// Each connection.
    Debug,
}

impl FromStr for LogLevel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "error" => Ok(Self::Error),
            "warn" => Ok(Self::Warn),
            "info" => Ok(Self::Info),
            "debug" => Ok(Self::Debug),
            _ => Err(format!("{text:?} is none of error, warn, info, debug")),
        }
    }
}

/// What a log line looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

impl FromStr for LogFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(format!("{text:?} is none of text, json")),
        }
    }
}

/// Where MQTT clients may come from without a user name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Anonymous {
    /// Nowhere.
    Never,
    /// This machine.
    #[default]
    Loopback,
    /// Anywhere.
    Always,
}

/// What happens when too much waits for an MQTT session's client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SessionLimit {
    /// The oldest message goes.
    #[default]
    DropOldest,
    /// What comes does not come in.
    DropNewest,
    /// The same, and the client's connection ends.
    Disconnect,
}

impl From<SessionLimit> for menzil_core::SessionLimit {
    fn from(limit: SessionLimit) -> Self {
        match limit {
            SessionLimit::DropOldest => Self::DropOldest,
            SessionLimit::DropNewest => Self::DropNewest,
            SessionLimit::Disconnect => Self::Disconnect,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_host_and_port_or_off() {
        for text in ["127.0.0.1:5672", "[::1]:0", "localhost:5672", "off"] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
        }
        assert_eq!("off".parse::<Address>().unwrap().host_and_port(), None);
        for text in [
            "",
            "5672",
            ":5672",
            "localhost",
            "localhost:http",
            "h:70000",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
