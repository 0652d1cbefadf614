//! One call into a shard: the time it runs at, where its facts go, and what it wants done.

use menzil_model::ConnectionId;

use crate::command::ChannelKey;
use crate::effect::{ConnectionOutput, Effect, Effects, Output, Reply};
use crate::log::Log;
use crate::mqtt::SessionOutput;

/// See the module.
pub(crate) struct Turn<'a> {
    /// Milliseconds since 1970, never going back.
    pub(crate) now: u64,
    pub(crate) log: &'a mut dyn Log,
    pub(crate) effects: &'a mut dyn Effects,
}

impl Turn<'_> {
    pub(crate) fn send(&mut self, to: ChannelKey, after: u64, output: Output) {
        self.effects.effect(Effect::Channel { to, after, output });
    }

    /// Answers a request, unless it asked for no answer.
    pub(crate) fn reply(&mut self, to: ChannelKey, nowait: bool, after: u64, reply: Reply) {
        if !nowait {
            self.send(to, after, Output::Reply(reply));
        }
    }

    pub(crate) fn send_session(&mut self, to: ConnectionId, after: u64, output: SessionOutput) {
        self.effects.effect(Effect::Session { to, after, output });
    }

    pub(crate) fn send_connection(&mut self, to: ConnectionId, after: u64, o: ConnectionOutput) {
        self.effects.effect(Effect::Connection {
            to,
            after,
            output: o,
        });
    }
}
