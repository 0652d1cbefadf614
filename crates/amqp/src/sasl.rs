//! Login mechanisms: what a client's response says, not whether it is right.

use std::fmt;

use menzil_model::Value;
use menzil_model::table::{Fields, check_table};

/// A login mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// RFC 4616: user and password after zero octets.
    Plain,
    /// A field table with `LOGIN` and `PASSWORD`.
    AmqPlain,
}

impl Mechanism {
    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::AmqPlain => "AMQPLAIN",
        }
    }

    /// User and password of a response, `None` where it does not read.
    pub fn read(self, response: &[u8]) -> Option<(Vec<u8>, Secret)> {
        match self {
            Self::Plain => plain(response),
            Self::AmqPlain => amq_plain(response),
        }
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A password. Never shown, and overwritten when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// Keeps a copy.
    pub fn new(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }

    /// What it is.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.fill(0);
    }
}

/// `\0user\0password`, as RabbitMQ reads it: no authorization identity.
fn plain(response: &[u8]) -> Option<(Vec<u8>, Secret)> {
    let mut parts = response.split(|byte| *byte == 0);
    let (before, user, password) = (parts.next()?, parts.next()?, parts.next()?);
    (before.is_empty() && parts.next().is_none()).then(|| (user.to_vec(), Secret::new(password)))
}

fn amq_plain(response: &[u8]) -> Option<(Vec<u8>, Secret)> {
    check_table(response, 0).ok()?;
    let find = |name: &[u8]| {
        let (_, value) = Fields::of(response).find(|(field, _)| *field == name)?;
        if let Value::LongString(text) | Value::Binary(text) = value {
            Some(text)
        } else {
            None
        }
    };
    Some((find(b"LOGIN")?.to_vec(), Secret::new(find(b"PASSWORD")?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use menzil_model::TableBuilder;

    #[test]
    fn plain_is_user_and_password_after_zeros() {
        let read = Mechanism::Plain.read(b"\0guest\0secret").unwrap();
        assert_eq!(read, (b"guest".to_vec(), Secret::new(b"secret")));
        assert!(Mechanism::Plain.read(b"\0\0").is_some());
        for wrong in [
            &b""[..],
            b"guest",
            b"\0guest",
            b"x\0guest\0pw",
            b"\0a\0b\0c",
        ] {
            assert!(Mechanism::Plain.read(wrong).is_none(), "{wrong:?}");
        }
    }

    #[test]
    fn amqplain_is_a_table() {
        let table = TableBuilder::new()
            .field("LOGIN", Value::LongString(b"guest"))
            .field("PASSWORD", Value::LongString(b"secret"))
            .build();
        let read = Mechanism::AmqPlain.read(table.as_bytes()).unwrap();
        assert_eq!(read, (b"guest".to_vec(), Secret::new(b"secret")));
        let half = TableBuilder::new()
            .field("LOGIN", Value::LongString(b"guest"))
            .build();
        assert!(Mechanism::AmqPlain.read(half.as_bytes()).is_none());
        assert!(Mechanism::AmqPlain.read(b"\x05LOGINS\0\0\0\x7f").is_none());
    }

    #[test]
    fn a_password_is_never_shown() {
        assert_eq!(format!("{:?}", Secret::new(b"secret")), "Secret");
    }
}
