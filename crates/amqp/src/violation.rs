//! How a channel or a connection ends by error: reply code, text, failing method
//! (AMQP 0-9-1 §1.5.2.10, §1.4.2.10).

use menzil_model::wire::Writer;

use crate::frame::{METHOD, write_frame};
use crate::method::MethodId;
use crate::methods::{ChannelClose, ConnectionClose};

/// Reply codes in use. Those below [`Code::ConnectionForced`] and from 403 to 406 end a channel,
/// all others the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// A mandatory message reached no queue.
    NoRoute,
    /// An operator, or a shutdown.
    ConnectionForced,
    /// Not allowed by permissions, names or exclusive use.
    AccessRefused,
    /// No such queue or exchange.
    NotFound,
    /// An exclusive queue of another connection.
    ResourceLocked,
    /// A condition of the request does not hold.
    PreconditionFailed,
    /// A frame that cannot be.
    FrameError,
    /// Fields that do not read.
    SyntaxError,
    /// A method that makes no sense here.
    CommandInvalid,
    /// A method on a channel in the wrong state.
    ChannelError,
    /// A frame out of order.
    UnexpectedFrame,
    /// Too much for this broker.
    ResourceError,
    /// Forbidden by settings or by what was agreed.
    NotAllowed,
    /// Not built.
    NotImplemented,
    /// Something is wrong here and not with the client.
    InternalError,
}

impl Code {
    /// The number on the wire.
    pub fn number(self) -> u16 {
        match self {
            Self::NoRoute => 312,
            Self::ConnectionForced => 320,
            Self::AccessRefused => 403,
            Self::NotFound => 404,
            Self::ResourceLocked => 405,
            Self::PreconditionFailed => 406,
            Self::FrameError => 501,
            Self::SyntaxError => 502,
            Self::CommandInvalid => 503,
            Self::ChannelError => 504,
            Self::UnexpectedFrame => 505,
            Self::ResourceError => 506,
            Self::NotAllowed => 530,
            Self::NotImplemented => 540,
            Self::InternalError => 541,
        }
    }

    /// The word that texts begin with.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoRoute => "NO_ROUTE",
            Self::ConnectionForced => "CONNECTION_FORCED",
            Self::AccessRefused => "ACCESS_REFUSED",
            Self::NotFound => "NOT_FOUND",
            Self::ResourceLocked => "RESOURCE_LOCKED",
            Self::PreconditionFailed => "PRECONDITION_FAILED",
            Self::FrameError => "FRAME_ERROR",
            Self::SyntaxError => "SYNTAX_ERROR",
            Self::CommandInvalid => "COMMAND_INVALID",
            Self::ChannelError => "CHANNEL_ERROR",
            Self::UnexpectedFrame => "UNEXPECTED_FRAME",
            Self::ResourceError => "RESOURCE_ERROR",
            Self::NotAllowed => "NOT_ALLOWED",
            Self::NotImplemented => "NOT_IMPLEMENTED",
            Self::InternalError => "INTERNAL_ERROR",
        }
    }

    /// True where the connection ends and not only the channel.
    pub fn is_hard(self) -> bool {
        match self {
            Self::NoRoute
            | Self::AccessRefused
            | Self::NotFound
            | Self::ResourceLocked
            | Self::PreconditionFailed => false,
            Self::ConnectionForced
            | Self::FrameError
            | Self::SyntaxError
            | Self::CommandInvalid
            | Self::ChannelError
            | Self::UnexpectedFrame
            | Self::ResourceError
            | Self::NotAllowed
            | Self::NotImplemented
            | Self::InternalError => true,
        }
    }
}

/// Why a channel or connection ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Reply code.
    pub code: Code,
    /// Reply text without the code's name.
    pub detail: Vec<u8>,
    /// The method that failed.
    pub method: MethodId,
}

impl Violation {
    /// A violation that no method is to blame for.
    pub fn new(code: Code, detail: impl Into<Vec<u8>>) -> Self {
        Self {
            code,
            detail: detail.into(),
            method: MethodId::NONE,
        }
    }

    /// The same, by that method.
    #[must_use]
    pub fn by(mut self, method: MethodId) -> Self {
        self.method = method;
        self
    }

    /// `NAME - detail`, as long as a short string may be.
    pub fn text(&self) -> Vec<u8> {
        let mut text = self.code.name().as_bytes().to_vec();
        if !self.detail.is_empty() {
            text.extend_from_slice(b" - ");
            text.extend_from_slice(&self.detail);
        }
        cut(text)
    }

    /// Appends `channel.close`.
    pub fn write_channel_close(&self, channel: u16, out: &mut Vec<u8>) {
        let close = ChannelClose {
            reply_code: self.code.number(),
            reply_text: &self.text(),
            class_id: self.method.class,
            method_id: self.method.method,
        };
        write_frame(out, METHOD, channel, |out| close.write(out));
    }

    /// Appends `connection.close`.
    pub fn write_connection_close(&self, out: &mut Vec<u8>) {
        let close = ConnectionClose {
            reply_code: self.code.number(),
            reply_text: &self.text(),
            class_id: self.method.class,
            method_id: self.method.method,
        };
        write_frame(out, METHOD, 0, |out| close.write(out));
    }
}

/// Cuts at 255 bytes, at the start of a character, with dots for what is missing.
fn cut(mut text: Vec<u8>) -> Vec<u8> {
    if text.len() <= TEXT_BYTES_MAX {
        return text;
    }
    let mut end = TEXT_BYTES_MAX - DOTS.len();
    while end > 0 && text.get(end).is_some_and(|byte| byte & 0xC0 == 0x80) {
        end -= 1;
    }
    text.truncate(end);
    text.put(DOTS);
    text
}

const TEXT_BYTES_MAX: usize = 255;
const DOTS: &[u8] = b"...";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        let violation = Violation::new(Code::NotFound, "a".to_owned() + &"ü".repeat(200));
        let text = violation.text();
        assert_eq!(text.len(), 254);
        let text = String::from_utf8(text).unwrap();
        assert!(text.starts_with("NOT_FOUND - aü") && text.ends_with("ü..."));
    }

    #[test]
    fn a_text_that_fits_is_left_alone() {
        let violation = Violation::new(Code::NotFound, "no queue 'q' in vhost '/'");
        assert_eq!(violation.text(), b"NOT_FOUND - no queue 'q' in vhost '/'");
        let bare = Violation::new(Code::InternalError, "");
        assert_eq!(bare.text(), b"INTERNAL_ERROR");
    }
}
