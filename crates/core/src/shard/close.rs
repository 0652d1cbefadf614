//! Connections and channels: coming, and going with all that hangs on them.

use std::collections::BTreeSet;

use menzil_model::{ConnectionId, Name};

use super::{Connection, Shard};
use crate::channel::{Channel, Mode, Verdict};
use crate::command::{ChannelKey, Request};
use crate::effect::{ConnectionOutput, Reply};
use crate::turn::Turn;

impl Shard {
    pub(super) fn open_connection(
        &mut self,
        connection: ConnectionId,
        user: Name,
        cancel_notify: bool,
    ) {
        let credit = i64::try_from(self.settings.credit_bytes).unwrap_or(i64::MAX);
        let state = Connection {
            user,
            cancel_notify,
            credit,
            channels: BTreeSet::new(),
            owned: BTreeSet::new(),
            session: None,
        };
        self.connections.insert(connection, state);
    }

    /// Takes the connection's state away and says so, whether it was there or not.
    pub(super) fn close_connection(&mut self, turn: &mut Turn<'_>, connection: ConnectionId) {
        let channels = self.connections.get(&connection);
        for channel in channels.map_or_else(BTreeSet::new, |state| state.channels.clone()) {
            let key = ChannelKey {
                connection,
                channel,
            };
            self.carry_out_behind(turn, key);
        }
        self.drop_connection(turn, connection);
        turn.send_connection(connection, self.topology_index, ConnectionOutput::Closed);
    }

    /// The client closes a channel that waits for the journal: a get is for nobody any more, but
    /// a replay goes on, and what was asked behind counts.
    pub(super) fn carry_out_behind(&mut self, turn: &mut Turn<'_>, key: ChannelKey) {
        let Some(parked) = self.channels.get_mut(&key).and_then(|c| c.parked.take()) else {
            return;
        };
        self.parked.retain(|other| *other != key);
        self.leave_replay(&parked);
        for request in parked.behind {
            if !matches!(request, Request::Get { .. }) {
                self.request(turn, key, request);
            }
        }
    }

    /// Consumers go, what was out goes back, exclusive queues are deleted, in that order.
    pub(super) fn drop_connection(&mut self, turn: &mut Turn<'_>, connection: ConnectionId) {
        let Some(state) = self.connections.get(&connection) else {
            return;
        };
        for channel in state.channels.clone() {
            self.close_channel(
                turn,
                ChannelKey {
                    connection,
                    channel,
                },
            );
        }
        let Some(state) = self.connections.remove(&connection) else {
            return;
        };
        for queue in state.owned {
            self.delete_queue(turn, queue);
        }
    }

    pub(super) fn open_channel(&mut self, turn: &mut Turn<'_>, key: ChannelKey) {
        self.close_channel(turn, key);
        let Some(connection) = self.connections.get_mut(&key.connection) else {
            return;
        };
        connection.channels.insert(key.channel);
        self.last_channel = None;
        self.channels.insert(key, Channel::default());
        turn.reply(key, false, 0, Reply::ChannelOpened);
    }

    pub(super) fn close_channel(&mut self, turn: &mut Turn<'_>, key: ChannelKey) {
        let Some(channel) = self.channels.get_mut(&key) else {
            return;
        };
        let consumers: Vec<_> = channel.consumers.values().copied().collect();
        for consumer in consumers {
            self.remove_consumer(turn, consumer);
        }
        let Some(mut channel) = self.channels.remove(&key) else {
            return;
        };
        if let Some(connection) = self.connections.get_mut(&key.connection) {
            connection.channels.remove(&key.channel);
        }
        self.parked.retain(|parked| *parked != key);
        self.letters.forget(key);
        if let Some(at) = channel.got.as_ref().and_then(|got| got.timer) {
            self.channel_timers.remove(&(at, key));
        }
        if let Some(replies) = &channel.replies {
            self.repliers.remove(&replies.name);
        }
        if let Some(parked) = &channel.parked {
            self.leave_replay(parked);
        }
        let mut out = channel.deliveries.take_all();
        if let Mode::Transaction(transaction) = channel.mode {
            out.extend(transaction.settles.iter().map(|held| held.delivery));
        }
        for delivery in out {
            self.carry_out(turn, &delivery, Verdict::Fail);
        }
    }
}
