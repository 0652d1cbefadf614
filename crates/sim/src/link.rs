//! One connection: what a client says on its way to the node, and back. With or without a
//! protocol between them.

use std::collections::VecDeque;

use menzil_amqp::Outgoing;
use menzil_core::{ChannelKey, Command, Effect};
use menzil_model::{ChannelId, ConnectionId, Name};

use crate::outbox::Outbox;
use crate::prng::Prng;
use crate::speech::{Heard, Say};
use crate::wire::{Task, Wire};

/// See the module.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) id: ConnectionId,
    transport: Transport,
    /// Bytes of deliveries that left since the shard was last told.
    pub(crate) drained: u64,
}

#[derive(Debug)]
enum Transport {
    Direct(Direct),
    Amqp(Box<Wire>),
}

/// Commands and effects without a protocol.
#[derive(Debug)]
struct Direct {
    id: ConnectionId,
    up: VecDeque<Say>,
    outbox: Outbox,
    down: VecDeque<Heard>,
    /// The node knows the connection.
    is_open: bool,
}

impl Link {
    /// A connection without a protocol.
    pub(crate) fn direct(id: ConnectionId, hasty: bool) -> Self {
        let mut outbox = Outbox::default();
        outbox.hasty = hasty;
        let direct = Direct {
            id,
            up: VecDeque::new(),
            outbox,
            down: VecDeque::new(),
            is_open: false,
        };
        Self {
            id,
            transport: Transport::Direct(direct),
            drained: 0,
        }
    }

    /// A connection that speaks AMQP.
    pub(crate) fn amqp(wire: Wire, id: ConnectionId) -> Self {
        Self {
            id,
            transport: Transport::Amqp(Box::new(wire)),
            drained: 0,
        }
    }

    /// The client says something.
    pub(crate) fn say(&mut self, say: Say) {
        match &mut self.transport {
            Transport::Direct(direct) => direct.up.push_back(say),
            Transport::Amqp(wire) => wire.client.say(say),
        }
    }

    pub(crate) fn has_up(&self) -> bool {
        match &self.transport {
            Transport::Direct(direct) => !direct.up.is_empty() || !direct.is_open,
            Transport::Amqp(wire) => wire.client.has_up(),
        }
    }

    pub(crate) fn has_down(&self) -> bool {
        match &self.transport {
            Transport::Direct(direct) => !direct.down.is_empty(),
            Transport::Amqp(wire) => wire.has_down(),
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        let waits = match &self.transport {
            Transport::Direct(direct) => !direct.outbox.is_empty(),
            Transport::Amqp(wire) => wire.waits(),
        };
        !self.has_up() && !self.has_down() && !waits
    }

    /// Some of what the client said arrives, as one socket read.
    pub(crate) fn arrive(&mut self, now: u64, prng: &mut Prng) -> Vec<Task> {
        match &mut self.transport {
            Transport::Direct(direct) => direct.arrive(prng),
            Transport::Amqp(wire) => wire.arrive(now, prng),
        }
    }

    /// The node has something for the client.
    pub(crate) fn handle(&mut self, effect: Effect) {
        match &mut self.transport {
            Transport::Direct(direct) => direct.outbox.handle(effect),
            Transport::Amqp(wire) => wire.handle(effect),
        }
    }

    /// The protocol session has something for the client.
    pub(crate) fn send(&mut self, outgoing: Outgoing) {
        if let Transport::Amqp(wire) = &mut self.transport {
            wire.send(outgoing);
        }
    }

    /// Sends what may go out.
    pub(crate) fn release(&mut self, now: u64, committed: u64) {
        self.drained += match &mut self.transport {
            Transport::Direct(direct) => direct.outbox.release(committed, &mut direct.down),
            Transport::Amqp(wire) => wire.release(now, committed),
        };
    }

    /// Some of what the node said arrives.
    pub(crate) fn flow_down(&mut self, prng: &mut Prng) {
        if let Transport::Amqp(wire) = &mut self.transport {
            wire.flow_down(prng);
        }
    }

    /// The client hears something.
    pub(crate) fn hear(&mut self) -> Option<Heard> {
        match &mut self.transport {
            Transport::Direct(direct) => direct.down.pop_front(),
            Transport::Amqp(wire) => wire.client.hear(),
        }
    }

    /// How the node broke the protocol.
    pub(crate) fn failure(&self) -> Option<&str> {
        match &self.transport {
            Transport::Direct(_) => None,
            Transport::Amqp(wire) => wire.client.failure(),
        }
    }

    /// The connection breaks. Returns what the node must hear.
    pub(crate) fn disconnected(&mut self) -> Option<Command> {
        match &mut self.transport {
            Transport::Direct(direct) => direct.is_open.then_some(Command::ConnectionClosed {
                connection: self.id,
            }),
            Transport::Amqp(wire) => wire.disconnected(),
        }
    }
}

impl Direct {
    fn arrive(&mut self, prng: &mut Prng) -> Vec<Task> {
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
        commands.into_iter().map(Task::Command).collect()
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
}
