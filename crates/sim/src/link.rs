//! One connection: what a client says on its way to the node, and back.

use std::collections::VecDeque;

use menzil_core::{ChannelKey, Command, Effect};
use menzil_model::{ChannelId, ConnectionId, Name};

use crate::outbox::Outbox;
use crate::prng::Prng;
use crate::speech::{Heard, Say};

/// See the module.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) id: ConnectionId,
    up: VecDeque<Say>,
    outbox: Outbox,
    down: VecDeque<Heard>,
    /// The node knows the connection.
    pub(crate) is_open: bool,
    /// Bytes of deliveries that left since the shard was last told.
    pub(crate) drained: u64,
}

impl Link {
    pub(crate) fn new(id: ConnectionId, hasty: bool) -> Self {
        let mut outbox = Outbox::default();
        outbox.hasty = hasty;
        Self {
            id,
            up: VecDeque::new(),
            outbox,
            down: VecDeque::new(),
            is_open: false,
            drained: 0,
        }
    }

    /// The client says something.
    pub(crate) fn say(&mut self, say: Say) {
        self.up.push_back(say);
    }

    pub(crate) fn has_up(&self) -> bool {
        !self.up.is_empty() || !self.is_open
    }

    pub(crate) fn has_down(&self) -> bool {
        !self.down.is_empty()
    }

    pub(crate) fn is_idle(&self) -> bool {
        !self.has_up() && !self.has_down() && self.outbox.is_empty()
    }

    /// Some of what the client said arrives, as one socket read.
    pub(crate) fn arrive(&mut self, _now: u64, prng: &mut Prng) -> Vec<Command> {
        let mut commands = Vec::new();
        if !self.is_open {
            self.is_open = true;
            commands.push(Command::ConnectionOpened {
                connection: self.id,
                user: Name::from("guest"),
                cancel_notify: true,
            });
        }
        let count = 1 + prng.index(self.up.len().min(12));
        let said: Vec<Say> = self.up.drain(..count.min(self.up.len())).collect();
        commands.extend(said.into_iter().map(|say| self.command(say)));
        commands
    }

    fn key(&self, channel: u16) -> ChannelKey {
        ChannelKey {
            connection: self.id,
            channel: ChannelId::new(channel).expect("clients number channels from 1"),
        }
    }

    fn command(&self, say: Say) -> Command {
        match say {
            Say::OpenChannel(channel) => Command::ChannelOpened(self.key(channel)),
            Say::CloseChannel(channel) => Command::ChannelClosed(self.key(channel)),
            Say::Request(channel, request) => Command::Request {
                channel: self.key(channel),
                request,
            },
            Say::Bye => Command::ConnectionClosed {
                connection: self.id,
            },
        }
    }

    /// The node has something for the client.
    pub(crate) fn handle(&mut self, effect: Effect) {
        self.outbox.handle(effect);
    }

    /// Sends what may go out.
    pub(crate) fn release(&mut self, committed: u64) {
        self.drained += self.outbox.release(committed, &mut self.down);
    }

    /// The client hears something.
    pub(crate) fn hear(&mut self) -> Option<Heard> {
        self.down.pop_front()
    }
}
