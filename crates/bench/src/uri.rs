//! `amqp://user:password@host:port/vhost`, with percent escapes in every part.

use crate::BenchError;

/// Where and as whom to connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) user: String,
    pub(crate) password: String,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) virtual_host: String,
}

impl Target {
    /// Parses a URI; what is absent is `guest:guest@…:5672/`. An empty path is the virtual host
    /// `/`, as most clients have it.
    pub(crate) fn parse(uri: &str) -> Result<Self, BenchError> {
        let refuse = |what: &str| BenchError::Usage(format!("--uri {uri}: {what}"));
        let rest = match uri.split_once("://") {
            Some(("amqp", rest)) => rest,
            Some((scheme, _)) => {
                return Err(refuse(&format!(
                    "{scheme} is not spoken here; write amqp://USER:PASSWORD@HOST:PORT/VHOST"
                )));
            }
            None => {
                return Err(refuse(&format!(
                    "its scheme is missing; write --uri amqp://{uri}"
                )));
            }
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, address) = authority
            .rsplit_once('@')
            .unwrap_or(("guest:guest", authority));
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let (host, port) = split_port(address).ok_or_else(|| refuse("has no valid port"))?;
        if host.is_empty() {
            return Err(refuse("has no host"));
        }
        let decoded = |part: &str| unescape(part).ok_or_else(|| refuse("has a bad % escape"));
        let virtual_host = if path.is_empty() {
            "/".to_owned()
        } else {
            decoded(path)?
        };
        Ok(Self {
            user: decoded(user)?,
            password: decoded(password)?,
            host: host.to_owned(),
            port,
            virtual_host,
        })
    }

    /// `HOST:PORT`, for people.
    pub(crate) fn address(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

fn split_port(address: &str) -> Option<(&str, u16)> {
    if let Some(inside) = address.strip_prefix('[') {
        let (host, rest) = inside.split_once(']')?;
        let port = rest
            .strip_prefix(':')
            .map_or(Some(5672), |text| text.parse().ok())?;
        return Some((host, port));
    }
    match address.split_once(':') {
        Some((host, port)) => Some((host, port.parse().ok()?)),
        None => Some((address, 5672)),
    }
}

fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        if first == b'%' {
            let (digits, tail) = rest.split_at_checked(2)?;
            bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
            rest = tail;
        } else {
            bytes.push(first);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(user: &str, password: &str, host: &str, port: u16, virtual_host: &str) -> Target {
        Target {
            user: user.to_owned(),
            password: password.to_owned(),
            host: host.to_owned(),
            port,
            virtual_host: virtual_host.to_owned(),
        }
    }

    #[test]
    fn full_and_short_forms_are_understood() {
        for (uri, expected) in [
            (
                "amqp://guest:guest@127.0.0.1:5672/%2f",
                target("guest", "guest", "127.0.0.1", 5672, "/"),
            ),
            (
                "amqp://localhost",
                target("guest", "guest", "localhost", 5672, "/"),
            ),
            (
                "amqp://a%40b:p%3Aw@h:1/v%20h",
                target("a@b", "p:w", "h", 1, "v h"),
            ),
            ("amqp://u:p@[::1]:7/x", target("u", "p", "::1", 7, "x")),
        ] {
            assert_eq!(Target::parse(uri).unwrap(), expected, "{uri}");
        }
    }

    #[test]
    fn malformed_ones_are_refused() {
        for uri in [
            "http://h",
            "amqp://",
            "amqp://h:port",
            "amqp://h/%2",
            "amqp://h/%zz",
            "amqp://[::1",
        ] {
            assert!(Target::parse(uri).is_err(), "{uri}");
        }
    }
}
