//! What a client did wrong.

use std::fmt;

use crate::codec::{ReasonCode, Violation};

/// A reason to end a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The code that is due.
    pub reason: ReasonCode,
    /// For people: what, and the clause.
    pub text: String,
    /// Whether a DISCONNECT or CONNACK says so before the end.
    pub is_told: bool,
}

impl Fault {
    /// One that the client is told.
    pub(super) fn new(reason: ReasonCode, text: &str) -> Self {
        Self {
            reason,
            text: text.to_owned(),
            is_told: true,
        }
    }

    /// It should not have been sent (§4.13).
    pub(super) fn protocol(text: &str) -> Self {
        Self::new(ReasonCode::ProtocolError, text)
    }
}

impl From<Violation> for Fault {
    fn from(violation: Violation) -> Self {
        Self {
            reason: violation.reason(),
            text: violation.to_string(),
            is_told: violation.wants_answer(),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "0x{:02X} {}", self.reason.number(), self.text)
    }
}
