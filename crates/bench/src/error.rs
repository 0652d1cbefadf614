//! What can go wrong in a run, by who must act.

use std::fmt;
use std::io;

/// Why a run ended without figures.
#[derive(Debug)]
pub enum BenchError {
    /// The words on the command line; the text says which, and what to write instead.
    Usage(String),
    /// Nobody answers at the address.
    Connect {
        /// `HOST:PORT`.
        address: String,
        /// What the system said.
        error: io::Error,
    },
    /// The broker ended a new connection before its first word.
    Refused {
        /// `HOST:PORT`.
        address: String,
    },
    /// There is no such process to measure.
    Process {
        /// Its id, as given by `--pid`.
        pid: u32,
        /// What the system said.
        error: io::Error,
    },
    /// The operating system refused: a socket, a file, or `/proc`.
    Io(io::Error),
    /// The broker sent bytes that are not the protocol's, or not at this point of the conversation.
    Malformed(&'static str),
    /// The broker closed the connection or a channel.
    Closed {
        /// AMQP reply code.
        code: u16,
        /// AMQP reply text.
        text: String,
    },
    /// The broker ended the connection without a word.
    HungUp,
    /// The broker refused what was asked, or ended an MQTT connection with a reason.
    Denied {
        /// The packet that was refused.
        what: &'static str,
        /// MQTT return or reason code.
        code: u8,
    },
    /// The broker cancelled a consumer.
    Cancelled,
    /// Nothing moved for this many seconds while there was still work to do.
    Stalled {
        /// How long was waited.
        seconds: u64,
        /// What was still to come.
        missing: String,
    },
    /// So many messages came in another order than they were published in.
    Misordered(u64),
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(text) => write!(f, "{text}"),
            Self::Connect { address, error } => write!(
                f,
                "cannot connect to {address}: {error}; is a broker running there? \
                 (--uri, for MQTT --connect, names another)"
            ),
            Self::Refused { address } => write!(
                f,
                "{address} ended a new connection without a word: it may have as many as it \
                 takes (Menzil: the setting connections_max, and a line in its log)"
            ),
            Self::Process { pid, error } => write!(
                f,
                "cannot measure process {pid}: {error}; --pid takes the id of the broker's own \
                 process on this machine"
            ),
            Self::Io(error) => write!(f, "{error}"),
            Self::Malformed(what) => write!(f, "the broker sent {what}"),
            Self::Closed { code, text } => write!(f, "closed by the broker: {code} {text}"),
            Self::HungUp => write!(f, "the broker ended the connection"),
            Self::Denied { what, code } => {
                write!(f, "the broker refused {what} with code 0x{code:02X}")
            }
            Self::Cancelled => write!(f, "the broker cancelled a consumer"),
            Self::Stalled { seconds, missing } => {
                write!(f, "nothing moved for {seconds} s; still to come: {missing}")
            }
            Self::Misordered(messages) => {
                write!(f, "{messages} messages came out of order or twice")
            }
        }
    }
}

impl std::error::Error for BenchError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) | Self::Connect { error, .. } | Self::Process { error, .. } => {
                Some(error)
            }
            Self::Usage(_)
            | Self::Refused { .. }
            | Self::Malformed(_)
            | Self::Closed { .. }
            | Self::HungUp
            | Self::Denied { .. }
            | Self::Cancelled
            | Self::Stalled { .. }
            | Self::Misordered(_) => None,
        }
    }
}

impl From<io::Error> for BenchError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<rustix::io::Errno> for BenchError {
    fn from(error: rustix::io::Errno) -> Self {
        Self::Io(error.into())
    }
}
