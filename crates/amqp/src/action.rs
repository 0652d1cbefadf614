//! What the receiving half asks of the driver.

use bytes::Bytes;

use menzil_core::{ChannelKey, Command, PublishRef, Request};
use menzil_model::{ChannelId, DeliveryTag, Name};

use crate::sasl::{Mechanism, Secret};
use crate::violation::Violation;

/// Where the receiving half's actions go as it comes upon them.
pub trait Sink {
    /// Takes an action.
    fn action(&mut self, action: Action);

    /// As [`Request::Publish`], for a message that lies whole in the input.
    fn publish(&mut self, channel: ChannelKey, publish: &PublishRef<'_>) {
        let request = Request::Publish(publish.to_owned());
        self.action(Action::Command(Command::Request { channel, request }));
    }

    /// As a [`Request::Ack`] of each delivery tag, in order.
    fn acknowledge(&mut self, channel: ChannelKey, delivery_tags: &[DeliveryTag]) {
        for delivery_tag in delivery_tags {
            let request = Request::Ack {
                delivery_tag: *delivery_tag,
                multiple: false,
            };
            self.action(Action::Command(Command::Request { channel, request }));
        }
    }

    /// Whether [`Sink::foresee`] is of use now.
    fn has_foresight(&self) -> bool {
        false
    }

    /// Exchange and routing key of publishes that lie in the input behind the one that is there
    /// now. Nothing hangs on it: it is for getting ready.
    fn foresee(&mut self, _keys: &[(&[u8], &[u8])]) {}
}

impl Sink for Vec<Action> {
    fn action(&mut self, action: Action) {
        self.push(action);
    }
}

/// One thing to do. Actions are carried out in order: the effects of a command go to
/// [`crate::Outbound`] before what a later action sends.
#[derive(Clone, Debug)]
pub enum Action {
    /// Execute it in the virtual host's shard.
    Command(Command),
    /// Hand it to [`crate::Outbound::send`].
    Send(Outgoing),
    /// Check a login and answer with [`crate::Inbound::authenticated`]. Until then no further
    /// input is looked at.
    Authenticate {
        /// How it came.
        mechanism: Mechanism,
        /// Who says to be.
        user: Vec<u8>,
        /// And proves it.
        password: Secret,
    },
    /// Check whether the user may use the virtual host and answer with
    /// [`crate::Inbound::opened`]. Until then no further input is looked at.
    Open {
        /// The virtual host.
        vhost: Name,
    },
    /// Send what is left, then close the socket.
    Close {
        /// Why, for the log.
        reason: CloseReason,
    },
}

/// Something that the protocol session itself has to say.
#[derive(Clone, Debug)]
pub enum Outgoing {
    /// The protocol header that this broker understands, in answer to another one.
    ProtocolHeader,
    /// A frame of the connection.
    Frame(Bytes),
    /// A frame that keeps its place among the outputs of a channel.
    ChannelFrame {
        /// The channel.
        channel: ChannelId,
        /// The whole frame.
        frame: Bytes,
    },
    /// `channel.close-ok` for a channel that the broker closed at the same time. It keeps its
    /// place behind what still waits on the channel.
    ChannelCloseOk {
        /// The channel.
        channel: ChannelId,
    },
    /// The session ends a channel; the core's answer to the `ChannelClosed` command that
    /// follows is not shown.
    ChannelException {
        /// The channel.
        channel: ChannelId,
        /// Why.
        violation: Violation,
    },
    /// The session ends the connection. Where the core knows the connection, `connection.close`
    /// goes out when the core has answered the `ConnectionClosed` command that follows, so that
    /// exclusive queues are gone by then.
    ConnectionException {
        /// Why.
        violation: Violation,
        /// Whether the core knows the connection.
        is_open: bool,
    },
    /// What was agreed in the handshake.
    Tuned {
        /// Largest frame.
        frame_bytes_max: u32,
        /// Heartbeat interval; 0 is none.
        heartbeat_seconds: u16,
        /// The client announced `connection.blocked`.
        blocked_notify: bool,
    },
    /// `connection.open-ok` for that virtual host.
    Opened {
        /// The virtual host.
        vhost: Name,
    },
    /// `connection.blocked`, where the client announced that it understands it.
    Blocked {
        /// Such as `low on memory`.
        reason: Name,
    },
    /// `connection.unblocked`, likewise.
    Unblocked,
}

/// Why a socket closes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The first bytes were no protocol header that this broker understands.
    ProtocolHeader([u8; 8]),
    /// The handshake took too long.
    HandshakeTimeout,
    /// The handshake failed for this reason.
    Refused(Violation),
    /// Nothing was heard for two heartbeat intervals.
    HeartbeatTimeout,
    /// The client closed the connection and did not close the socket.
    Closed,
    /// The connection ended by error and the client said close-ok, or nothing for too long.
    Violated(Violation),
    /// The core refused a request with a connection exception.
    CoreRefused,
    /// The broker wants it, before the connection was open.
    Forced,
    /// Too much was sent ahead of an answer.
    Ahead,
}

/// Why a login fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthError {
    /// User or password is wrong.
    Refused,
    /// The user may connect from this machine only.
    NotLocal,
}

/// Why a virtual host cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// No virtual host of that name.
    NotFound,
    /// The user has no permissions there.
    Refused,
    /// It cannot be used now.
    Down,
    /// The virtual host has as many connections as it may.
    VhostLimit(u64),
    /// The user has as many connections as it may.
    UserLimit(u64),
    /// This node has as many connections as it may.
    NodeLimit(u64),
}
